//! A chain index in a directory of RocksDB.

use std::path::Path;

use utxokeep_core::mmr::MmrRule;
use utxokeep_kv::{
    Batch, Durability, Kv as _, KvError, OpenMode, RocksKv, RocksOptions, TableSpec,
};

use crate::{
    ChainIndex, IndexSettings,
    accumulator::mmr,
    error::IndexOpenError,
    meta::{self, Identity, UPGRADES},
    tables::{CLASSIC_TABLES, LOG_TABLES, META, TABLES, tables_of},
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
    let specs = &TABLES[..=usize::from(META.id().0)];
    if !on_disk.iter().any(|name| name == specs[usize::from(META.id().0)].name) {
        return Ok(None);
    }
    meta::identity(&RocksKv::peek(dir, specs)?)
}

/// Takes the Merkle mountain range out of the database in `dir`, or what a pass that builds one has
/// left: the switch first, in one commit, then the tables. `settings` are those of the database.
/// Answers whether there was anything.
pub fn disable_mmr(
    dir: &Path,
    settings: &IndexSettings,
    options: RocksOptions,
) -> Result<bool, IndexOpenError> {
    let on_disk = RocksKv::tables_on_disk(dir)?;
    if !on_disk.iter().any(|name| *name == TABLES[CLASSIC_TABLES].name) {
        return Ok(false);
    }
    let kv = RocksKv::open(dir, TABLES, options, OpenMode::Existing)?;
    if meta::check(&kv, settings, UPGRADES)?.is_none() {
        return Err(IndexOpenError::NotOurs);
    }
    let mut batch = Batch::new();
    mmr::forget(&mut batch);
    meta::put_switches(&mut batch, &IndexSettings { mmr: None, ..settings.clone() });
    kv.commit(batch, Durability::Synced)?;
    kv.drop_tables(CLASSIC_TABLES)?;
    Ok(true)
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
        let known = meta::check(&RocksKv::peek(dir, tables_of(&on_disk))?, &settings, UPGRADES)?;
        if known.is_none() {
            return Err(KvError::NotFound { path: dir.to_owned() }.into());
        }
        Self::open(RocksKv::open(dir, TABLES, options, OpenMode::Existing)?, settings)
    }

    /// The tables that a database has with these settings.
    fn tables_to_open(
        dir: &Path,
        settings: &IndexSettings,
        on_disk: &[String],
    ) -> Result<&'static [TableSpec], IndexOpenError> {
        if !settings.enabled {
            return Ok(&TABLES[..LOG_TABLES]);
        }
        let has_mmr = on_disk.iter().any(|name| *name == TABLES[CLASSIC_TABLES].name);
        if settings.mmr.is_some()
            && !has_mmr
            && let Some(identity) = stated_identity(dir, on_disk)?
            && identity.enabled
            && identity.mmr != settings.mmr
        {
            // Opening would make its tables before anybody asked.
            return Err(IndexOpenError::MmrChanged { found: identity.mmr, asked: settings.mmr });
        }
        // A pass that builds one leaves its tables half full when it is interrupted.
        let count = if settings.mmr.is_some() || has_mmr { TABLES.len() } else { CLASSIC_TABLES };
        Ok(&TABLES[..count])
    }

    /// Opens the database in `dir`.
    pub fn open_dir(
        dir: &Path,
        settings: IndexSettings,
        options: RocksOptions,
        mode: OpenMode,
    ) -> Result<Self, IndexOpenError> {
        // With the index off, its tables are not even opened.
        let on_disk = RocksKv::tables_on_disk(dir)?;
        let mut specs = Self::tables_to_open(dir, &settings, &on_disk)?;
        if mode == OpenMode::Read && settings.mmr.is_none() {
            // A pass that was killed while its tables were made has built nothing yet: those that are
            // there will do.
            let is_made = |spec: &&TableSpec| on_disk.iter().any(|name| *name == spec.name);
            let complete = specs.iter().skip(CLASSIC_TABLES).take_while(is_made).count();
            specs = &specs[..specs.len().min(CLASSIC_TABLES + complete)];
        }
        let found = on_disk.iter().any(|name| *name == TABLES[LOG_TABLES].name);
        if !on_disk.is_empty() && found != settings.enabled {
            match stated_identity(dir, &on_disk)? {
                Some(identity) if identity.enabled == found => {
                    let (name, asked) = ("[index] enabled", settings.enabled);
                    return Err(IndexOpenError::SettingChanged { name, found, asked });
                }
                // Its creation was cut short between two tables.
                None if mode == OpenMode::Create && RocksKv::is_blank(dir)? => {
                    RocksKv::destroy(dir)?;
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
        let kv = RocksKv::open(dir, specs, options, mode)?;
        Self::open(kv, settings).map_err(|error| match error {
            IndexOpenError::Empty => KvError::NotFound { path: dir.to_owned() }.into(),
            error => error,
        })
    }
}
