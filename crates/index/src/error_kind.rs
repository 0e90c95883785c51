//! What a caller can do about each error of the chain index.

use utxokeep_core::ErrorKind;

use crate::{
    error::{
        ApplyError, CatchUpError, FollowError, IndexError, IndexOpenError, MmrEnableError,
        MmrError, QueryError, RollbackError,
    },
    log::LogError,
};

impl IndexError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Kv(error) => error.kind(),
            Self::Corrupt(_) | Self::MissingRow { .. } => ErrorKind::Corrupt,
            Self::SecondWriter => ErrorKind::Failed,
        }
    }
}

impl IndexOpenError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::WrongNetwork { .. }
            | Self::NewerFormat { .. }
            | Self::Empty
            | Self::OlderFormat { .. }
            | Self::SettingChanged { .. }
            | Self::NotSwitchedOff { .. }
            | Self::MmrChanged { .. }
            | Self::MmrRefused { .. }
            | Self::FilterChanged { .. }
            | Self::GenesisChanged
            | Self::NotOurs => ErrorKind::Refused,
        }
    }
}

impl MmrEnableError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::IsOn | Self::NotWhole { .. } | Self::OtherRule { .. } => ErrorKind::Refused,
            Self::Settings(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

impl MmrError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Off => ErrorKind::Disabled,
            Self::Empty => ErrorKind::NotReady,
            Self::OtherRule | Self::SpentInUtreexo => ErrorKind::Refused,
            Self::Unknown | Self::NeverExisted | Self::NotYet { .. } | Self::Passed { .. } => {
                ErrorKind::NotFound
            }
            Self::OutsideWindow { .. } | Self::TooMuchWork { .. } => ErrorKind::OutOfRange,
            Self::Store(error) => error.kind(),
        }
    }
}

impl ApplyError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Gap { .. }
            | Self::Conflict { .. }
            | Self::WrongGenesis { .. }
            | Self::NotFirst { .. } => ErrorKind::Refused,
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Store(error) => error.kind(),
        }
    }
}

impl RollbackError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TooDeep { .. } | Self::BelowTables { .. } | Self::AboveTip { .. } => {
                ErrorKind::OutOfRange
            }
            Self::Empty => ErrorKind::NotReady,
            Self::Store(error) => error.kind(),
        }
    }
}

impl QueryError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Disabled | Self::IndexOff { .. } => ErrorKind::Disabled,
            Self::OwnerNotKept { .. }
            | Self::OutputNotKept { .. }
            | Self::BlockNotKept { .. }
            | Self::UnknownBlock { .. } => ErrorKind::NotFound,
            Self::Empty | Self::CatchingUp { .. } => ErrorKind::NotReady,
            Self::OutsideWindow { .. }
            | Self::SlotOutsideWindow { .. }
            | Self::TooManyRows { .. } => ErrorKind::OutOfRange,
            Self::NoSlots { .. } | Self::CursorElsewhere { .. } => ErrorKind::Invalid,
            Self::BlockGone { .. } => ErrorKind::Refused,
            Self::Store(error) => error.kind(),
        }
    }
}

impl FollowError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ReorganisationTooDeep { .. } | Self::NoCommonBlock { .. } => ErrorKind::Refused,
            // The source is at fault, not whoever follows it.
            Self::Apply(
                ApplyError::Invalid { .. } | ApplyError::Gap { .. } | ApplyError::Conflict { .. },
            )
            | Self::NoFirstBlock
            | Self::OtherBlock { .. }
            | Self::UnknownPoint { .. }
            | Self::MissingBody { .. }
            | Self::Decode { .. }
            | Self::Undecodable { .. } => ErrorKind::Failed,
            Self::Apply(error) => error.kind(),
            Self::Rollback(error) => error.kind(),
            Self::Source(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

impl CatchUpError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TooDeep { .. } | Self::Refused { .. } => ErrorKind::Refused,
            Self::MissingBody { .. } | Self::OtherBlock { .. } => ErrorKind::Failed,
            Self::Apply(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

impl LogError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownCursor { .. } | Self::PastWindow { .. } => ErrorKind::OutOfRange,
            Self::Disabled => ErrorKind::Disabled,
            Self::CatchingUp { .. } => ErrorKind::NotReady,
            Self::BadName { .. } => ErrorKind::Invalid,
            Self::TooMany => ErrorKind::Refused,
            Self::UnknownConsumer { .. } => ErrorKind::NotFound,
            Self::Store(error) => error.kind(),
        }
    }
}
