//! Why an engine cannot be opened, started or stopped.

use std::{io, path::PathBuf};

use utxokeep_core::{ErrorKind, Network};
use utxokeep_index::{ApplyError, FollowError, IndexError, IndexOpenError};
use utxokeep_pruner::PrunerError;
use utxokeep_txstore::StoreError;

use crate::{
    config::ConfigError, kinds, node_store::NodeStoreOpenError, ops::chain::ChainReadError,
    persister::PersisterError, wallets::LedgerOpenError,
};

/// Why an engine, or a part of it, does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no chain database, and none was to be created.
    #[error(transparent)]
    NoChain(IndexOpenError),
    /// The chain database does not open.
    #[error("cannot open the database at {}", path.display())]
    Chain {
        /// Its directory.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: IndexOpenError,
    },
    /// A new chain database cannot be made.
    #[error("cannot create a database at {}", path.display())]
    Create {
        /// Its directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: IndexOpenError,
    },
    /// A new database needs a network.
    #[error(
        "there is no database yet, and nothing says which network it is for: set [chain] network"
    )]
    NoNetwork,
    /// A source whose nodes have another chain.
    #[error(
        "the database is of {network}, and the source is a node of {chain}: name a source of the same \
         chain, kind = \"bitcoind\" or kind = \"cardano-node\""
    )]
    NotFollowed {
        /// Network of the database.
        network: Network,
        /// Chain of the source.
        chain: &'static str,
    },
    /// The pruner is to follow a chain that is not there.
    #[error(
        "[pruner] follow_chain = true needs a chain database, and there is none: import one, or let \
         ChainEvents tell the heights"
    )]
    NothingToFollow,
    /// The persister is to follow a chain that is not there.
    #[error(
        "[persister] enabled = true needs a chain database, and there is none: import one, or name a \
         source"
    )]
    NothingToPersist,
    /// The node store is to follow a chain that it cannot follow.
    #[error("[txstore] follow = \"all\" is not possible: {why}; nothing was changed")]
    StoreCannotFollow {
        /// Why.
        why: &'static str,
    },
    /// The place of the persister does not open.
    #[error(transparent)]
    Persister(#[from] PersisterError),
    /// What was served before is not there any more.
    #[error(
        "the {what} at {place} is gone: it was served from there before, and nothing was made in its \
         place; mount it, or restore it from a copy; to begin anew, delete {mark} (see \"Damage\" in \
         docs/runbook.md)",
        mark = mark.display()
    )]
    Gone {
        /// What it is.
        what: &'static str,
        /// Where it was.
        place: String,
        /// The file that says so.
        mark: PathBuf,
    },
    /// The chain index does not answer.
    #[error(transparent)]
    Read(#[from] ChainReadError),
    /// A part that the engine was opened without.
    #[error("the engine has no {part}: name it in the configuration, and open the engine again")]
    Absent {
        /// What it lacks.
        part: &'static str,
    },
    /// The node store does not open.
    #[error(transparent)]
    NodeStore(#[from] NodeStoreOpenError),
    /// The wallet ledger does not open.
    #[error(transparent)]
    Ledger(#[from] LedgerOpenError),
    /// The chain database fails.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The node store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pruner cannot start.
    #[error(transparent)]
    Pruner(#[from] PrunerError),
    /// Block files cannot be read.
    #[error(transparent)]
    Blocks(#[from] utxokeep_chains::SourceError),
    /// A block cannot be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Blocks cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A thread cannot be started.
    #[error("cannot start the thread that {does}")]
    Thread {
        /// What it was to do.
        does: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Following the source ended.
    #[error(transparent)]
    Following(anyhow::Error),
}

impl EngineError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(error) => error.kind(),
            Self::NoChain(source) | Self::Chain { source, .. } | Self::Create { source, .. } => {
                source.kind()
            }
            Self::NoNetwork
            | Self::NotFollowed { .. }
            | Self::NothingToFollow
            | Self::NothingToPersist
            | Self::StoreCannotFollow { .. } => ErrorKind::Invalid,
            Self::Persister(error) => error.kind(),
            Self::Gone { .. } => ErrorKind::Corrupt,
            Self::Absent { .. } => ErrorKind::Disabled,
            Self::NodeStore(error) => error.kind(),
            Self::Ledger(error) => error.kind(),
            Self::Read(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Pruner(error) => error.kind(),
            Self::Blocks(error) => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::Follow(error) => error.kind(),
            Self::Thread { .. } => ErrorKind::Failed,
            Self::Following(error) => {
                let known = |cause| kinds::kind_of(cause).filter(|kind| *kind != ErrorKind::Failed);
                error.chain().find_map(known).unwrap_or(ErrorKind::Failed)
            }
        }
    }
}
