//! Why a question to the chain index is not answered.

use utxokeep_core::{ErrorKind, Network};
use utxokeep_index::{IndexError, QueryError};

use crate::{
    cursor::CursorError,
    owners::{OwnerError, UnknownOutput},
};

/// Why a question to the chain index is not answered. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainReadError {
    /// A parameter is out of range, or contradicts another.
    #[error("{0}")]
    BadParameter(String),
    /// A cursor that does not belong to the list.
    #[error(transparent)]
    BadCursor(#[from] CursorError),
    /// No output.
    #[error(
        "{text:?} is no output: expected TXID:INDEX, with a transaction id of 64 hexadecimal digits"
    )]
    BadOutput {
        /// What was asked for.
        text: String,
    },
    /// No script hash.
    #[error("expected a script hash of 64 hexadecimal digits")]
    BadScriptHash,
    /// No block.
    #[error("expected a block height or a block hash of 64 hexadecimal digits")]
    BadBlock,
    /// No owner or asset.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// A question that only another chain can answer.
    #[error("{network} has no {what}; {instead}")]
    NotOnThisChain {
        /// The network.
        network: Network,
        /// What it lacks.
        what: &'static str,
        /// What to ask for in its place.
        instead: &'static str,
    },
    /// No record of an output.
    #[error(transparent)]
    UnknownOutput(#[from] UnknownOutput),
    /// The answer would read the whole set, which a server does not do for one request.
    #[error(
        "this digest is made by reading the whole set, which a server does not do for a request: stop \
         it and run `utxokeep chain digest`. Without `audit` a database of Bitcoin answers that was \
         created with [index] muhash = true"
    )]
    ReadsWholeSet,
    /// The index refuses or fails.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl From<IndexError> for ChainReadError {
    fn from(error: IndexError) -> Self {
        Self::Query(error.into())
    }
}

impl ChainReadError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadParameter(_)
            | Self::BadOutput { .. }
            | Self::BadScriptHash
            | Self::BadBlock => ErrorKind::Invalid,
            Self::BadCursor(error) => error.kind(),
            Self::Owner(error) => error.kind(),
            Self::NotOnThisChain { .. } => ErrorKind::NotFound,
            Self::UnknownOutput(error) => error.kind(),
            Self::ReadsWholeSet => ErrorKind::Disabled,
            Self::Query(error) => error.kind(),
        }
    }

    /// A name for programs; it does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadParameter(_)
            | Self::Owner(OwnerError::NoCredentials { .. })
            | Self::Query(QueryError::NoSlots { .. } | QueryError::CursorElsewhere { .. }) => {
                "bad_parameter"
            }
            Self::BadCursor(_) => "bad_cursor",
            Self::BadOutput { .. } => "bad_output",
            Self::BadScriptHash => "bad_script_hash",
            Self::BadBlock => "bad_block",
            Self::Owner(error) if error.is_wrong_network() => "wrong_network",
            Self::Owner(OwnerError::Asset(_) | OwnerError::NoAssets { .. }) => "bad_asset",
            Self::Owner(_) => "bad_address",
            Self::NotOnThisChain { .. } => "not_on_this_chain",
            Self::UnknownOutput(_) => "unknown_output",
            Self::ReadsWholeSet => "reads_whole_set",
            Self::Query(error) => query_code(error),
        }
    }
}

fn query_code(error: &QueryError) -> &'static str {
    match error {
        QueryError::OutsideWindow { .. } | QueryError::SlotOutsideWindow { .. } => "outside_window",
        QueryError::UnknownBlock { .. } => "unknown_block",
        QueryError::BlockGone { .. } => "block_gone",
        QueryError::TooManyRows { .. } => "too_many_outputs",
        QueryError::OwnerNotKept { .. }
        | QueryError::OutputNotKept { .. }
        | QueryError::BlockNotKept { .. } => "not_kept",
        QueryError::IndexOff { name: "address_hash" } => "address_index_disabled",
        QueryError::IndexOff { name: "payment_credential" } => "payment_credential_index_disabled",
        QueryError::IndexOff { name: "stake_credential" } => "stake_credential_index_disabled",
        QueryError::Disabled | QueryError::IndexOff { .. } => "index_disabled",
        QueryError::CatchingUp { .. } => "catching_up",
        QueryError::Empty => "empty_database",
        _ => "database",
    }
}
