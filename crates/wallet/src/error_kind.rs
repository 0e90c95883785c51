//! What a caller can do about each error of the ledger.

use utxokeep_core::{ErrorKind, wallet::BadReach};

use crate::{error::LedgerError, follow::FollowError};

impl LedgerError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::WalletNotFound(_)
            | Self::WalletNameNotFound(_)
            | Self::TxNotFound(_)
            | Self::UtxoNotFound(_)
            | Self::AddressIdNotFound(_)
            | Self::WebhookNotFound(_)
            | Self::DescriptorNotFound(_) => ErrorKind::NotFound,
            Self::EventsGone { .. } => ErrorKind::Gone,
            Self::WalletExists(_) => ErrorKind::Exists,
            Self::InvalidTx { .. }
            | Self::InvalidBlock { .. }
            | Self::InvalidArgument { .. }
            | Self::OutputOutOfRange { .. }
            | Self::NotPaid { .. }
            | Self::NoCodec
            | Self::CannotBuild(_)
            | Self::Codec(_)
            | Self::BadLabel(_)
            | Self::BadReach(BadReach::Lookahead { .. } | BadReach::NotRanged)
            | Self::Amount(_)
            | Self::Network(_) => ErrorKind::Invalid,
            Self::Sql(error) => error.kind(),
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::AddressNotFound { .. }
            | Self::Conflict { .. }
            | Self::InvalidParent { .. }
            | Self::Refused { .. }
            | Self::BlockNotFound { .. }
            | Self::BlockMismatch { .. }
            | Self::PositionMismatch { .. }
            | Self::BadPlace { .. }
            | Self::NotNextBlock { .. }
            | Self::NotTip { .. }
            | Self::SetAside { .. }
            | Self::NotRescanned { .. }
            | Self::ReachesPruned { .. }
            | Self::NotOurs(_)
            | Self::CascadeTooLarge { .. }
            | Self::AlreadyLeased { .. }
            | Self::HeldBack { .. }
            | Self::NotLeased { .. }
            | Self::NotLeaseOwner { .. }
            | Self::KeyReused { .. }
            | Self::TooManyKeys { .. }
            | Self::InsufficientFunds { .. }
            | Self::TooManyInputs { .. }
            | Self::NotALeaf(_)
            | Self::Closed
            | Self::NotBumpable { .. }
            | Self::NoChangePlace
            | Self::Guarded(_)
            | Self::BadReach(_)
            | Self::BadPrune(_)
            | Self::BirthdayAboveTip(_)
            | Self::CannotArchive(_)
            | Self::WalletArchived
            | Self::DescriptorArchived(_) => ErrorKind::Refused,
        }
    }
}

impl FollowError {
    /// What a caller can do about it. [`FollowError::Chain`] holds an error of whoever reads the
    /// chain, which may know more.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Ledger(error) => error.kind(),
            Self::NoCommonBlock { .. } => ErrorKind::Refused,
            Self::Chain(_) | Self::MissingBody { .. } | Self::WrongBody { .. } => ErrorKind::Failed,
        }
    }
}
