//! What can be wrong with a configuration file.

use std::{io, path::PathBuf};

use utxokeep_chains::cardano::GenesisError;
use utxokeep_core::{ErrorKind, Network, UnknownNetwork};
use utxokeep_pruner::SettingsError;

use crate::owners::OwnerError;

/// Why a configuration was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A filter on a chain whose blocks cannot be checked without all outputs.
    #[error(
        "a filter (index.filter_addresses, index.filter_credentials) is not possible on {network}: \
         every output is needed to check amounts; leave it out"
    )]
    NoFilter {
        /// The network.
        network: Network,
    },
    /// A window that an ordinary reorganisation goes beyond.
    #[error(
        "index.rollback_window_blocks = {window} is less than the security parameter of {network}, \
         {security}: an ordinary reorganisation could not be followed; set it to {security} or \
         more, or leave it out"
    )]
    SmallWindow {
        /// The network.
        network: Network,
        /// The window, in blocks.
        window: u32,
        /// The security parameter, in blocks.
        security: u32,
    },
    /// Files of blocks would be deleted that a rollback may still undo.
    #[error(
        "persister.retention_blocks = {retention} is less than what a rollback of this database of \
         {network} may undo, {window} blocks: files of blocks that may yet leave the chain would be \
         deleted; set it to {window} or more, or to 0 to keep all files"
    )]
    SmallRetention {
        /// The network.
        network: Network,
        /// Blocks whose files are to be kept.
        retention: u32,
        /// Blocks that a rollback may undo.
        window: u32,
    },
    /// A persister and a pruner in one program, and the pruner would not hear of the persister.
    #[error(
        "[persister] enabled = true beside a pruner needs [pruner] follow_chain = true: the pruner \
         would delete what is not persisted yet; where chain database and node store are of different \
         chains, set [pruner] enabled = false and run the pruner alone (`pruner serve`)"
    )]
    PrunerPassesPersister,
    /// The file could not be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{file} is not valid TOML: line {line}: {detail}")]
    Syntax {
        /// The file.
        file: String,
        /// Where, counted from one.
        line: usize,
        /// The parser's complaint.
        detail: String,
    },
    /// A section nobody knows.
    #[error("{file}: there is no section [{section}]; known: {known}")]
    UnknownSection {
        /// The file.
        file: String,
        /// The section.
        section: String,
        /// Sections that exist.
        known: String,
    },
    /// A value where a section belongs.
    #[error("{file}: {section} must be a section: write [{section}]")]
    NotASection {
        /// The file.
        file: String,
        /// The section.
        section: String,
    },
    /// A setting nobody knows.
    #[error("{file}: there is no setting {key}; known in this section: {known}")]
    UnknownKey {
        /// The file.
        file: String,
        /// Section and name.
        key: String,
        /// Settings of that section.
        known: String,
    },
    /// Settings that do not work together.
    #[error("{file}: {detail}")]
    Together {
        /// The file.
        file: String,
        /// Which, and why.
        detail: &'static str,
    },
    /// A value of the wrong type or out of range.
    #[error("{file}: {key}: {allowed} is expected, not {value}")]
    WrongValue {
        /// The file.
        file: String,
        /// Section and name.
        key: String,
        /// What may stand there.
        allowed: &'static str,
        /// What stands there.
        value: String,
    },
    /// A source that names no node. Its value is not repeated: it may hold a password.
    #[error("{file}: chain.source is wrong: {reason}")]
    Source {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A network nobody knows.
    #[error("{file}: {source}")]
    Network {
        /// The file.
        file: String,
        /// What is known.
        source: UnknownNetwork,
    },
    /// A network nobody knows, from outside a file.
    #[error(transparent)]
    UnknownNetwork(#[from] UnknownNetwork),
    /// An entry of the filter that names no owner on the network.
    #[error("{key}: {text:?} is of no use here: {source}")]
    Owner {
        /// Section and name.
        key: &'static str,
        /// The entry.
        text: String,
        /// What is wrong with it.
        source: Box<OwnerError>,
    },
    /// A private chain without its genesis.
    #[error(
        "a devnet needs its genesis: give its Shelley genesis file, and its Byron genesis file if \
         it has one, as chain.genesis_shelley and chain.genesis_byron of the configuration, or to \
         `chain import` with --genesis FILE"
    )]
    NoGenesis,
    /// Genesis files of a network whose genesis is part of the program.
    #[error("{network} takes no genesis files: they are for a Cardano devnet; leave them out")]
    GenesisNotTaken {
        /// The network.
        network: Network,
    },
    /// A genesis file that could not be read.
    #[error("cannot read the genesis file {}", path.display())]
    ReadGenesis {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A file that is neither kind of genesis, or the second of its kind.
    #[error("{}: {reason}; give the Shelley genesis file and, if there is one, the Byron genesis file", path.display())]
    GenesisKind {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A genesis of no use.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// Settings of the pruner that cannot work together.
    #[error("{file}: {source}")]
    Pruner {
        /// The file.
        file: String,
        /// What is wrong with them.
        source: SettingsError,
    },
}

impl ConfigError {
    /// What a caller can do about it: correct the configuration.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}
