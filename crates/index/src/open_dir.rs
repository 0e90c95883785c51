//! A chain index in a directory of RocksDB.

use std::path::Path;

use utxokeep_kv::{KvError, OpenMode, RocksKv, RocksOptions};

use crate::{
    ChainIndex, IndexSettings,
    error::IndexOpenError,
    meta::{self, Identity},
    tables::{LOG_TABLES, META, TABLES},
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

impl ChainIndex<RocksKv> {
    /// Opens the database in `dir`.
    pub fn open_dir(
        dir: &Path,
        settings: IndexSettings,
        options: RocksOptions,
        mode: OpenMode,
    ) -> Result<Self, IndexOpenError> {
        // With the index off, its tables are not even opened.
        let specs = if settings.enabled { TABLES } else { &TABLES[..LOG_TABLES] };
        let on_disk = RocksKv::tables_on_disk(dir)?;
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
