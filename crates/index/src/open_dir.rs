//! A chain index in a directory of RocksDB.

use std::path::Path;

use utxokeep_core::mmr::MmrRule;
use utxokeep_kv::{Batch, Durability, Kv as _, KvError, OpenMode, RocksKv, RocksOptions};

use crate::{
    ChainIndex, IndexSettings,
    accumulator::mmr,
    error::IndexOpenError,
    meta::{self, Identity, UPGRADES},
    switch,
    tables::{CLASSIC_TABLES, LOG_TABLES, META, MmrTables, TABLES, tables_of},
};

/// Reads what the database in `dir` is, without knowing how to open it. One whose creation was cut
/// short holds nothing yet, and counts as absent.
pub fn peek_identity(dir: &Path) -> Result<Identity, IndexOpenError> {
    match stated_identity(dir, &RocksKv::tables_on_disk(dir)?)? {
        Some(identity) => Ok(identity),
        None if RocksKv::is_blank(dir)? => Err(KvError::NotFound { path: dir.to_owned() }.into()),
        None => Err(IndexOpenError::NotOurs),
    }
}

/// What the database says of itself, if it has come that far. Changes nothing.
fn stated_identity(dir: &Path, on_disk: &[String]) -> Result<Option<Identity>, IndexOpenError> {
    match peek_meta(dir, on_disk)? {
        Some(meta) => meta::identity(&meta),
        None => Ok(None),
    }
}

/// The table that says what the database is, to look at; `None` where its creation was cut short.
fn peek_meta(dir: &Path, on_disk: &[String]) -> Result<Option<RocksKv>, KvError> {
    let specs = &TABLES[..=usize::from(META.id().0)];
    let is_there = specs.iter().all(|spec| on_disk.iter().any(|name| *name == spec.name));
    is_there.then(|| RocksKv::peek(dir, specs)).transpose()
}

/// How many tables are on disk, in the order in which they are made.
fn tables_made(on_disk: &[String]) -> usize {
    TABLES.iter().take_while(|spec| on_disk.iter().any(|name| *name == spec.name)).count()
}

/// Takes the Merkle mountain range out of the database in `dir`, or what a pass that builds one has
/// left: the switch first, in one commit, then the tables. `settings` are those of the database.
/// Answers whether there was anything, be it one table that an earlier call left when it was killed.
pub fn disable_mmr(
    dir: &Path,
    settings: &IndexSettings,
    options: RocksOptions,
) -> Result<bool, IndexOpenError> {
    let on_disk = RocksKv::tables_on_disk(dir)?;
    if MmrTables::of(&on_disk) == MmrTables::None && settings.mmr.is_none() {
        return Ok(false);
    }
    let kv = RocksKv::open(dir, TABLES, options, OpenMode::Existing)?;
    if meta::check(&kv, settings, UPGRADES)?.is_none() {
        return Err(IndexOpenError::NotOurs);
    }
    let mut batch = Batch::new();
    mmr::forget(&mut batch);
    let without = IndexSettings { mmr: None, ..settings.clone() };
    meta::put_switches(&mut batch, &without, meta::is_enabled(&kv)?);
    kv.commit(batch, Durability::Synced)?;
    kv.drop_tables(CLASSIC_TABLES)?;
    Ok(true)
}

/// Which of [`TABLES`] a database is opened with.
#[derive(Debug, Clone, Copy)]
enum ToOpen {
    /// The first ones, so many.
    First(usize),
    /// Those of a database without a Merkle mountain range, where one table of one is left: the
    /// process died that created or dropped both. It has nothing that anybody reads. A program that
    /// writes opens every table that is on disk.
    WithLeftOver,
}

impl ChainIndex<RocksKv> {
    /// Opens a database that has no Merkle mountain range with the tables for one, to build it.
    /// Where it cannot have one, nothing is changed.
    pub fn open_dir_to_build_mmr(
        dir: &Path,
        settings: IndexSettings,
        rule: MmrRule,
        options: RocksOptions,
    ) -> Result<Self, IndexOpenError> {
        meta::check_mmr(&IndexSettings { mmr: Some(rule), ..settings.clone() })?;
        let on_disk = RocksKv::tables_on_disk(dir)?;
        let specs = tables_of(&on_disk);
        let peeked = RocksKv::peek(dir, &specs[..specs.len().min(CLASSIC_TABLES)])?;
        if meta::check(&peeked, &settings, UPGRADES)?.is_none() {
            return Err(KvError::NotFound { path: dir.to_owned() }.into());
        }
        if !meta::is_enabled(&peeked)? {
            return Err(IndexOpenError::MmrRefused { why: switch::IS_BEHIND });
        }
        drop(peeked);
        Self::open(RocksKv::open(dir, TABLES, options, OpenMode::Existing)?, settings)
    }

    /// The tables that a database has with these settings. Those of an index that is off are opened
    /// where they are there, because the engine asks for all that it has; none is made.
    fn tables_to_open(
        dir: &Path,
        settings: &IndexSettings,
        on_disk: &[String],
    ) -> Result<ToOpen, IndexOpenError> {
        if !settings.enabled {
            return Ok(match MmrTables::of(on_disk) {
                MmrTables::Without(_) => ToOpen::WithLeftOver,
                _ => ToOpen::First(tables_made(on_disk).max(LOG_TABLES)),
            });
        }
        let there = MmrTables::of(on_disk);
        match (settings.mmr, there) {
            (None, MmrTables::None) => return Ok(ToOpen::First(CLASSIC_TABLES)),
            // A pass that builds one leaves its tables half full when it is interrupted.
            (_, MmrTables::All) => return Ok(ToOpen::First(TABLES.len())),
            _ => {}
        }
        // What the database says decides: opening would create a table before anybody asked.
        let Some(meta) = peek_meta(dir, on_disk)? else { return Ok(ToOpen::First(TABLES.len())) };
        match meta::identity(&meta)? {
            Some(identity) if identity.enabled => {}
            _ => return Ok(ToOpen::First(TABLES.len())),
        }
        meta::check(&meta, settings, &[])?;
        if settings.mmr.is_none() {
            return Ok(ToOpen::WithLeftOver);
        }
        let first = TABLES[CLASSIC_TABLES].name;
        let table = if let MmrTables::Without(table) = there { table } else { first };
        Err(KvError::LostTable { path: dir.to_owned(), table }.into())
    }

    /// Opens the database in `dir`. Where the index is off and the settings say on, or the other way
    /// round, opening it to be changed switches it: see [`ChainWriter::catch_up`] for what is left to
    /// do after switching on.
    ///
    /// [`ChainWriter::catch_up`]: crate::ChainWriter::catch_up
    pub fn open_dir(
        dir: &Path,
        settings: IndexSettings,
        options: RocksOptions,
        mode: OpenMode,
    ) -> Result<Self, IndexOpenError> {
        // Before the engine makes tables.
        settings.check_mmr()?;
        let mut settings = settings;
        let mut on_disk = RocksKv::tables_on_disk(dir)?;
        let found = on_disk.iter().any(|name| *name == TABLES[LOG_TABLES].name);
        if !on_disk.is_empty() && found != settings.enabled {
            match stated_identity(dir, &on_disk)? {
                Some(identity) if found || !identity.enabled => {}
                // Its creation was cut short between two tables.
                None if mode == OpenMode::Create && RocksKv::is_blank(dir)? => {
                    RocksKv::destroy(dir)?;
                    on_disk.clear();
                }
                None if RocksKv::is_blank(dir)? => {
                    return Err(KvError::NotFound { path: dir.to_owned() }.into());
                }
                _ => {
                    let missing = if found { usize::from(META.id().0) } else { LOG_TABLES };
                    let table = TABLES[missing].name;
                    return Err(KvError::LostTable { path: dir.to_owned(), table }.into());
                }
            }
        }
        if mode == OpenMode::Read
            && !on_disk.is_empty()
            && tables_made(&on_disk) < CLASSIC_TABLES
            && stated_identity(dir, &on_disk)?.is_some_and(|identity| !identity.enabled)
        {
            // It was never on, and reading makes no tables.
            settings.enabled = false;
        }
        let to_open = Self::tables_to_open(dir, &settings, &on_disk)?;
        let kv = match to_open {
            ToOpen::First(count) => RocksKv::open(dir, &TABLES[..count], options, mode)?,
            ToOpen::WithLeftOver if mode == OpenMode::Read => {
                RocksKv::open_first(dir, TABLES, CLASSIC_TABLES, options)?
            }
            ToOpen::WithLeftOver => RocksKv::open(dir, TABLES, options, mode)?,
        };
        Self::open(kv, settings).map_err(|error| match error {
            IndexOpenError::Empty => KvError::NotFound { path: dir.to_owned() }.into(),
            error => error,
        })
    }
}
