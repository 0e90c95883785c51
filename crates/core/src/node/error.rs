//! Why an operation of the node store was refused. A refused item changed nothing.

use super::output::SpendingData;
use crate::{
    kind::ErrorKind,
    types::{Height, OutPoint, Txid},
};

/// Why one input cannot spend its output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// There is no such transaction, or it has no such output that could be spent.
    #[error("output {0} is not known")]
    NotFound(OutPoint),
    /// Not all records of the transaction are known to be there. Nothing passes over it.
    #[error("{0} is still being created; create it again, or wait until it is mined")]
    Creating(Txid),
    /// The transaction lost against another one.
    #[error("{0} conflicts with another transaction")]
    Conflicting(Txid),
    /// The transaction is locked.
    #[error("{0} is locked; unlock it first")]
    Locked(Txid),
    /// A coinbase is too young.
    #[error("coinbase {txid} can be spent from height {from} on, not at {at}")]
    Immature {
        /// The coinbase.
        txid: Txid,
        /// First height at which it may be spent.
        from: Height,
        /// The height asked for.
        at: Height,
    },
    /// The commitment is not that of the output.
    #[error("the commitment is not that of output {0}")]
    Mismatch(OutPoint),
    /// The output is frozen.
    #[error("output {0} is frozen")]
    Frozen(OutPoint),
    /// The output changed hands and has to wait.
    #[error("output {outpoint} can be spent from height {from} on")]
    FrozenUntil {
        /// The output.
        outpoint: OutPoint,
        /// First height at which it may be spent.
        from: u32,
    },
    /// Another transaction was first.
    #[error("output {outpoint} is spent by {} input {}", by.txid, by.vin)]
    Spent {
        /// The output.
        outpoint: OutPoint,
        /// Who spent it.
        by: SpendingData,
    },
    /// The spender was mined, spent and deleted before; it must not come back.
    #[error("output {outpoint} was spent by {}, which was pruned since", by.txid)]
    SpenderPruned {
        /// The output.
        outpoint: OutPoint,
        /// The spender.
        by: SpendingData,
    },
}

/// Why an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// There is no such transaction.
    #[error("transaction {0} is not known")]
    NotFound(Txid),
    /// The transaction is there already.
    #[error("transaction {0} exists already")]
    Exists(Txid),
    /// The request makes no sense.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// Some inputs could not be spent.
    #[error("{} of the inputs of {spender} cannot be spent", errors.len())]
    Spend {
        /// The spending transaction.
        spender: Txid,
        /// Position of each such input, and why.
        errors: Vec<(u32, SpendError)>,
    },
    /// A transaction of the same list that this one builds on failed.
    #[error("{0} was refused, and this transaction spends it")]
    ParentFailed(Txid),
    /// An output cannot be frozen, unfrozen or reassigned.
    #[error(transparent)]
    Output(#[from] SpendError),
    /// The output is frozen already.
    #[error("output {0} is frozen already")]
    AlreadyFrozen(OutPoint),
    /// The output is not frozen.
    #[error("output {0} is not frozen")]
    NotFrozen(OutPoint),
    /// A height below every block.
    #[error("height 0 is no height of a block; give the height of the event")]
    HeightZero,
    /// A field of the request that must be a height of a block is missing.
    #[error("{field} is missing or 0, which is no height of a block; give it")]
    HeightMissing {
        /// The field, as the contract calls it.
        field: &'static str,
    },
    /// A block that contains the transaction is said to have another height.
    #[error(
        "block {id} contains the transaction at height {known}, not at {given}; a block has one \
         height, take the block off first if that was wrong"
    )]
    BlockHeight {
        /// Number of the block.
        id: u32,
        /// Height that is stored.
        known: Height,
        /// Height of the request.
        given: Height,
    },
    /// Following a conflict touched too many transactions.
    #[error("the conflict reaches more than {0} transactions; nothing was changed")]
    ConflictTooLarge(usize),
    /// Another call works on the same transactions and did not end in time.
    #[error("another call works on the same transactions; nothing was changed, try again")]
    InProgress,
    /// The body is too large for a row, and the blob store did not take it.
    #[error(
        "the body of {txid} could not be written to the blob store: {reason}; nothing was changed, \
         try again"
    )]
    Storage {
        /// The transaction whose body it is.
        txid: Txid,
        /// What the blob store said.
        reason: String,
    },
}

impl SpendError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Mismatch(_) => ErrorKind::Invalid,
            Self::Conflicting(_)
            | Self::Locked(_)
            | Self::Creating(_)
            | Self::Immature { .. }
            | Self::Frozen(_)
            | Self::FrozenUntil { .. }
            | Self::Spent { .. }
            | Self::SpenderPruned { .. } => ErrorKind::Refused,
        }
    }
}

impl NodeError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Exists(_) => ErrorKind::Exists,
            Self::Invalid(_) | Self::HeightZero | Self::HeightMissing { .. } => ErrorKind::Invalid,
            Self::Output(error) => error.kind(),
            Self::Spend { .. }
            | Self::ParentFailed(_)
            | Self::AlreadyFrozen(_)
            | Self::NotFrozen(_)
            | Self::BlockHeight { .. }
            | Self::ConflictTooLarge(_) => ErrorKind::Refused,
            Self::InProgress => ErrorKind::Overloaded,
            Self::Storage { .. } => ErrorKind::Unavailable,
        }
    }
}
