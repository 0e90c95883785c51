//! From arguments to an open database.

use std::path::Path;

use anyhow::Context;
use utxokeep_core::Network;
use utxokeep_index::{ChainIndex, Identity, IndexOpenError, IndexSettings, peek_identity};
use utxokeep_kv::{KvError, OpenMode, RocksKv};

use super::{
    args::{Global, Import},
    error::CliError,
};
use crate::config::Config;

/// The index on disk.
pub(super) type Index = ChainIndex<RocksKv>;

/// What every command needs.
#[derive(Debug)]
pub(super) struct Session {
    global: Global,
    config: Config,
    mode: OpenMode,
}

impl Session {
    /// Of a command that opens data in this mode.
    pub(super) fn new(global: Global, mode: OpenMode) -> anyhow::Result<Self> {
        let config = match &global.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        Ok(Self { global, config, mode })
    }

    /// The same session, with what only an import may be told besides.
    pub(super) fn for_import(&self, args: &Import) -> anyhow::Result<Self> {
        let mut config = self.config.clone();
        config.chain.set_genesis(&args.genesis)?;
        config.chain.start_mid_chain |= args.start_mid_chain;
        Ok(Self { global: self.global.clone(), config, mode: self.mode })
    }

    /// The same session, with the wallet ledger that the command line names, if it names one.
    pub(super) fn with_ledger(&self, url: Option<&str>) -> Result<Self, CliError> {
        let mut config = self.config.clone();
        if let Some(url) = url {
            url.clone_into(&mut config.wallet.url);
        }
        if config.wallet.url.is_empty() {
            return Err(CliError::NoLedger);
        }
        Ok(Self { global: self.global.clone(), config, mode: self.mode })
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// How the command opens the data that it names.
    pub(super) const fn mode(&self) -> OpenMode {
        self.mode
    }

    pub(super) const fn json(&self) -> bool {
        self.global.json
    }

    /// Whether the command line named the directory of the database.
    pub(super) const fn is_data_named(&self) -> bool {
        self.global.is_data_named
    }

    pub(super) fn data(&self) -> &Path {
        &self.global.data
    }

    /// Opens the database, which must exist; a command that only reads changes nothing. Its network and fixed settings are its own, unless
    /// the configuration states others: then it is refused.
    pub(super) fn open(&self) -> anyhow::Result<Index> {
        let asked = self.config.network()?;
        self.open_existing(asked).and_then(|index| {
            let path = self.data().to_owned();
            let missing = || IndexOpenError::from(KvError::NotFound { path });
            Ok(index.ok_or_else(missing)?)
        })
    }

    /// Opens the database if there is one, checking that it follows `asked`.
    pub(super) fn open_existing(&self, asked: Option<Network>) -> anyhow::Result<Option<Index>> {
        let identity = match peek_identity(self.data()) {
            Ok(identity) => identity,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error).with_context(|| self.opening()),
        };
        let settings = self.config.settings(asked.unwrap_or(identity.network), Some(&identity))?;
        let options = self.config.rocks_options();
        let mode = self.mode.without_creating();
        let index = ChainIndex::open_dir(self.data(), settings, options, mode)
            .with_context(|| self.opening())?;
        Ok(Some(index))
    }

    /// What the database says of itself, which must exist.
    pub(super) fn identity(&self) -> anyhow::Result<Identity> {
        peek_identity(self.data()).with_context(|| self.opening())
    }

    /// Makes a new database.
    pub(super) fn create(&self, settings: IndexSettings) -> anyhow::Result<Index> {
        let creating = || format!("cannot create a database at {}", self.data().display());
        // Before the engine makes its files.
        settings.check_mmr().with_context(creating)?;
        ChainIndex::open_dir(self.data(), settings, self.config.rocks_options(), OpenMode::Create)
            .with_context(creating)
    }

    pub(super) fn opening(&self) -> String {
        format!("cannot open the database at {}", self.data().display())
    }
}

fn is_missing(error: &IndexOpenError) -> bool {
    use utxokeep_index::IndexError;
    matches!(error, IndexOpenError::Store(IndexError::Kv(KvError::NotFound { .. })))
}
