//! From arguments to an open database.

use std::path::Path;

use anyhow::Context;
use utxokeep::engine::chain;
use utxokeep_index::{Identity, peek_identity};
use utxokeep_kv::OpenMode;

use super::{
    args::{Global, Import},
    error::CliError,
};
use crate::config::Config;

pub(super) use utxokeep::engine::chain::Index;

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
        let mut config = match &global.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        if let Some(data) = &global.data {
            config.storage.data.clone_from(data);
        }
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
        &self.config.storage.data
    }

    /// Opens the database, which must exist; a command that only reads changes nothing. Its network
    /// and fixed settings are its own, unless the configuration states others: then it is refused.
    pub(super) fn open(&self) -> anyhow::Result<Index> {
        Ok(chain::open(&self.config, self.mode)?)
    }

    /// What the database says of itself, which must exist.
    pub(super) fn identity(&self) -> anyhow::Result<Identity> {
        peek_identity(self.data()).with_context(|| self.opening())
    }

    pub(super) fn opening(&self) -> String {
        format!("cannot open the database at {}", self.data().display())
    }
}
