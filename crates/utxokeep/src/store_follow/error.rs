//! Why a node store does not follow.

use utxokeep_chains::{BodyError, NodeTxsError};
use utxokeep_core::{BlockHash, Corrupt, ErrorKind, Height, OutPoint, Txid, node::NodeError};
use utxokeep_index::{IndexError, LogError};
use utxokeep_txstore::StoreError;

/// Why the node store does not get on. What is stored stays, and the next attempt resumes there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFollowError {
    /// The store stands on a block that the chain database does not know.
    #[error(
        "the node store stands at block {height}, hash {}, which the chain database does not know: it \
         is of another chain, or that block left the chain longer ago than the database remembers; \
         nothing was changed. Use the chain database that the store followed, or a new node store",
        hash.to_reversed_hex()
    )]
    OtherChain {
        /// Height of that block.
        height: Height,
        /// Its hash.
        hash: BlockHash,
    },
    /// A body is in none of the places that were named.
    #[error(
        "the body of block {height} was not found, looked in {looked_in}: name the directory with the \
         node's blocks in [txstore] follow_blocks; blocks before it are in the node store"
    )]
    MissingBody {
        /// Height of the block.
        height: Height,
        /// The places.
        looked_in: String,
    },
    /// A body cannot be fetched.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The bytes of a block are damaged.
    #[error("the transactions of block {height} cannot be read")]
    Undecodable {
        /// Height of the block.
        height: Height,
        /// What is wrong with them.
        #[source]
        source: NodeTxsError,
    },
    /// A block spends an output that the store does not have.
    #[error(
        "block {height} spends output {outpoint}, which the node store does not have: it was deleted \
         by hand, or the store did not follow from the start of the chain; use a new node store"
    )]
    MissingOutput {
        /// Height of the block.
        height: Height,
        /// The output.
        outpoint: OutPoint,
    },
    /// The store refuses a transaction of the chain.
    #[error(
        "the node store refuses transaction {txid} of block {height}, which is on the chain: {source}; \
         what an operator did to it or to what it spends (freeze, reassign, delete) has to be undone"
    )]
    Refused {
        /// Height of the block.
        height: Height,
        /// The transaction.
        txid: Txid,
        /// Why.
        source: NodeError,
    },
    /// What builds on a lost coinbase is too much.
    #[error(
        "more than {max} transactions build on the coinbase {txid}, whose block left the chain: raise \
         [txstore] conflict_transactions_max"
    )]
    TooManyLosers {
        /// The coinbase.
        txid: Txid,
        /// The most there may be.
        max: usize,
    },
    /// A row of the store, or of the log, does not decode.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The chain log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The chain database fails.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The node store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreFollowError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OtherChain { .. } | Self::Refused { .. } | Self::TooManyLosers { .. } => {
                ErrorKind::Refused
            }
            Self::MissingBody { .. } => ErrorKind::Failed,
            Self::Body(error) => error.kind(),
            Self::Undecodable { .. } | Self::MissingOutput { .. } | Self::Corrupt(_) => {
                ErrorKind::Corrupt
            }
            Self::Log(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}
