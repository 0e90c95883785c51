//! Why the ledger could not be opened, and why an operation was refused.

use utxokeep_chains::bitcoind::BitcoindError;
use utxokeep_core::{
    ChainHash, ErrorKind, UnknownNetwork,
    wallet::{BadPrune, BadReach, NodeRefusal, Prospect},
};
use utxokeep_index::{IndexError, QueryError};
use utxokeep_sql::SqlError;
use utxokeep_wallet::LedgerError;

use crate::{memory::OverBudget, owners::OwnerError, webhooks::BadTarget};

/// URLs of a ledger.
const ENGINES: &str = "sqlite:FILE or postgres://USER@HOST/DATABASE";

/// Why the ledger could not be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerOpenError {
    /// A URL that names no engine. Only its beginning is shown: the rest may hold a password.
    #[error("wallet.url: \"{engine}\" names no engine of the wallet ledger; use {ENGINES}")]
    UnknownEngine {
        /// What stands before the first colon.
        engine: String,
    },
    /// A URL that does not say where.
    #[error("wallet.url: \"{engine}:\" does not say where the wallet ledger is; use {ENGINES}")]
    NoPlace {
        /// What stands before the first colon.
        engine: String,
    },
    /// There is none, and none was to be created.
    #[error(
        "there is no wallet ledger at {place}; nothing was created: `utxokeep wallet create` makes one"
    )]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// The database could not be opened or brought up to date.
    #[error("cannot open the wallet ledger at {place}")]
    Ledger {
        /// Where it is.
        place: String,
        /// What the ledger says.
        #[source]
        source: LedgerError,
    },
}

impl LedgerOpenError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownEngine { .. } | Self::NoPlace { .. } => ErrorKind::Invalid,
            Self::Missing { .. } => ErrorKind::Refused,
            Self::Ledger { source, .. } => source.kind(),
        }
    }
}

/// Why an operation was refused or failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletsError {
    /// The ledger refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The database failed while several answers were read together.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// There is no memory for the answer.
    #[error("{0}; nothing was changed")]
    OverBudget(#[from] OverBudget),
    /// A text that names no address or script.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// A network that is not known.
    #[error(transparent)]
    Network(#[from] UnknownNetwork),
    /// No delivery may go to the URL of a webhook.
    #[error("url: {0}; nothing was changed")]
    Target(#[from] BadTarget),
    /// This machine did not let a webhook be made or tried out.
    #[error("this machine does not let webhooks be used; nothing was changed")]
    Machine(#[source] std::io::Error),
    /// There is no node to give transactions to.
    #[error(
        "no node of {network} is named to send through; nothing was changed: set [chain] source to one, \
         or send the transaction yourself and say so with `wallet publish`"
    )]
    NoNode {
        /// The network of the wallet.
        network: utxokeep_core::Network,
    },
    /// The node could not be asked.
    #[error("the node could not be asked about {txid}, which was not sent; {done}")]
    NodeAway {
        /// The transaction.
        txid: ChainHash,
        /// What is true now.
        done: &'static str,
        /// What the client met.
        #[source]
        source: Box<BitcoindError>,
    },
    /// The node went away while it got the transaction.
    #[error(
        "it is not known whether the node got {txid}; its signed bytes are kept, and `serve` gives them \
         to the node again: send the same request again to know, or give the payment up with `wallet \
         abandon`"
    )]
    SendUnknown {
        /// The transaction.
        txid: ChainHash,
        /// What the client met.
        #[source]
        source: Box<BitcoindError>,
    },
    /// The node does not take the transaction.
    #[error("the node does not take {txid}: {refusal}; {done}")]
    Rejected {
        /// The transaction.
        txid: ChainHash,
        /// Why.
        refusal: NodeRefusal,
        /// What is true now.
        done: &'static str,
    },
    /// What was signed is another transaction than the one that was named.
    #[error(
        "what was signed is transaction {found} and not {named}, so that it may pay something else; \
         nothing was changed: sign the PSBT of the payment, or name the other one"
    )]
    OtherTransaction {
        /// The transaction that was named.
        named: ChainHash,
        /// What the bytes are.
        found: ChainHash,
    },
    /// Signatures are missing.
    #[error(
        "the wallet has no completely signed bytes of {txid}; nothing was changed: give the signed PSBT"
    )]
    NotSigned {
        /// The transaction.
        txid: ChainHash,
    },
    /// There is no chain database to compare with.
    #[error("there is no chain database here to compare with; nothing was checked")]
    NoChain,
    /// The chain database holds a part of the chain only.
    #[error(
        "the chain database has not seen every block or keeps only some addresses, so that it cannot tell what is missing; nothing was checked"
    )]
    PartialChain,
    /// Blocks come from the chain database, and anybody's word for one would be worth less.
    #[error(
        "the ledger follows the chain database of this server, and takes no blocks of clients; \
         nothing was changed; set [wallet] follow_chain to false to bring blocks yourself"
    )]
    FollowsChain,
    /// The ledger and the chain database are not at the same block.
    #[error(
        "the last block of the ledger is {ledger}, and the chain database, whose last is {chain}, does not have it, so that nothing was checked; {advice}"
    )]
    TipsDiffer {
        /// The last block of the ledger.
        ledger: String,
        /// The last block of the chain database.
        chain: String,
        /// What to do.
        advice: &'static str,
    },
    /// A rescan that would start where the chain database has no block.
    #[error(
        "the rescan would start at block {from}, and the chain database starts at block {first}; \
         nothing was changed: start there, or use a database that starts lower"
    )]
    BelowChain {
        /// Where the rescan would start.
        from: u32,
        /// The first block of the chain database.
        first: u32,
    },
    /// The chain database failed or refused.
    #[error(transparent)]
    Chain(#[from] QueryError),
    /// A part of the request that cannot be read.
    #[error("{field}: {what}; nothing was changed")]
    Field {
        /// Which part.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// No keychain to hand addresses out from.
    #[error(
        "wallet {wallet:?} has no descriptor for payments by others; nothing was changed: add one, or \
         name a keychain with descriptor_id"
    )]
    NoKeychain {
        /// Name of the wallet.
        wallet: String,
    },
    /// Something that only chains with scripts of Bitcoin have.
    #[error("{what} is not there on {network}; nothing was changed")]
    WrongChain {
        /// What was asked for.
        what: &'static str,
        /// The network of the wallet.
        network: utxokeep_core::Network,
    },
}

impl From<IndexError> for WalletsError {
    fn from(error: IndexError) -> Self {
        Self::Chain(error.into())
    }
}

impl WalletsError {
    pub(super) fn field(field: &'static str, what: impl Into<String>) -> Self {
        Self::Field { field, what: what.into() }
    }

    /// What a caller can do about it. Whatever the chain database refuses is about its state and not
    /// about the request, which was for a wallet.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Ledger(error) => error.kind(),
            Self::Sql(error) => error.kind(),
            Self::OverBudget(error) => error.kind(),
            Self::Owner(error) => error.kind(),
            Self::Network(_)
            | Self::Field { .. }
            | Self::Target(_)
            | Self::OtherTransaction { .. }
            | Self::WrongChain { .. } => ErrorKind::Invalid,
            Self::NodeAway { source, .. } | Self::SendUnknown { source, .. } => {
                if source.is_worth_retrying() { ErrorKind::Unavailable } else { ErrorKind::Failed }
            }
            Self::Rejected { refusal, .. } => match refusal.prospect {
                Prospect::Later => ErrorKind::NotReady,
                Prospect::NeverTheseBytes | Prospect::Never => ErrorKind::Refused,
            },
            Self::Machine(_) => ErrorKind::Failed,
            Self::Chain(QueryError::Store(error)) => error.kind(),
            Self::NoChain
            | Self::NoNode { .. }
            | Self::NotSigned { .. }
            | Self::FollowsChain
            | Self::PartialChain
            | Self::TipsDiffer { .. }
            | Self::BelowChain { .. }
            | Self::NoKeychain { .. }
            | Self::Chain(_) => ErrorKind::Refused,
        }
    }

    /// A word for programs; never changes once given.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ledger(error) => code_of(error),
            Self::Sql(_) => "database",
            Self::OverBudget(_) => "overloaded",
            Self::Owner(_) => "bad_address",
            Self::Network(_) => "unknown_network",
            Self::Field { .. } => "bad_request",
            Self::Target(_) => "bad_webhook_url",
            Self::Machine(_) => "failed",
            Self::WrongChain { .. } => "wrong_chain",
            Self::NoKeychain { .. } => "no_keychain",
            Self::NoNode { .. } => "no_node",
            Self::NodeAway { .. } => "node_away",
            Self::SendUnknown { .. } => "send_unknown",
            Self::Rejected { refusal, .. } => match refusal.prospect {
                Prospect::Later => "not_taken_now",
                Prospect::NeverTheseBytes => "bad_signatures",
                Prospect::Never => "inputs_spent",
            },
            Self::OtherTransaction { .. } => "other_transaction",
            Self::NotSigned { .. } => "not_signed",
            Self::NoChain => "no_chain_database",
            Self::FollowsChain => "follows_chain",
            Self::PartialChain => "partial_chain_database",
            Self::TipsDiffer { .. } => "tips_differ",
            Self::BelowChain { .. } => "below_chain_database",
            Self::Chain(_) => "chain_database",
        }
    }
}

const fn code_of(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::WalletNotFound(_) | LedgerError::WalletNameNotFound(_) => "unknown_wallet",
        LedgerError::WalletExists(_) => "wallet_exists",
        LedgerError::InvalidTx { .. } => "invalid_transaction",
        LedgerError::InvalidBlock { .. } => "invalid_block",
        LedgerError::InvalidArgument { .. }
        | LedgerError::BadReach(BadReach::Lookahead { .. } | BadReach::NotRanged) => "bad_request",
        LedgerError::TxNotFound(_) => "unknown_transaction",
        LedgerError::EventsGone { .. } => "events_gone",
        LedgerError::WebhookNotFound(_) => "unknown_webhook",
        LedgerError::OutputOutOfRange { .. } => "output_out_of_range",
        LedgerError::AddressNotFound { .. } => "address_not_watched",
        LedgerError::AddressIdNotFound(_) => "unknown_address",
        LedgerError::NotPaid { .. } => "not_paid",
        LedgerError::HeldBack { .. } => "held_back",
        LedgerError::Conflict { .. } => "conflict",
        LedgerError::InvalidParent { .. } => "invalid_parent",
        LedgerError::Refused { .. } => "wrong_state",
        LedgerError::BlockNotFound { .. } => "unknown_block",
        LedgerError::BlockMismatch { .. } => "block_mismatch",
        LedgerError::PositionMismatch { .. } => "position_mismatch",
        LedgerError::BadPlace { .. } => "impossible_place",
        LedgerError::NotNextBlock { .. } => "not_next_block",
        LedgerError::NotTip { .. } => "not_tip",
        LedgerError::SetAside { .. } | LedgerError::NotRescanned { .. } => "wallet_set_aside",
        LedgerError::ReachesPruned { .. } => "reaches_pruned",
        LedgerError::NotOurs(_) => "not_ours",
        LedgerError::CascadeTooLarge { .. } => "cascade_too_large",
        LedgerError::UtxoNotFound(_) => "unknown_output",
        LedgerError::AlreadyLeased { .. } => "already_leased",
        LedgerError::KeyReused { .. } => "idempotency_key_reused",
        LedgerError::TooManyKeys { .. } => "too_many_idempotency_keys",
        LedgerError::NotLeased { .. } => "not_leased",
        LedgerError::NotLeaseOwner { .. } => "not_lease_owner",
        LedgerError::InsufficientFunds { .. } => "insufficient_funds",
        LedgerError::TooManyInputs { .. } => "too_many_inputs",
        LedgerError::NotALeaf(_) => "not_a_leaf",
        LedgerError::DescriptorNotFound(_) => "unknown_descriptor",
        LedgerError::NotBumpable { .. } => "not_bumpable",
        LedgerError::NoChangePlace => "no_change_place",
        LedgerError::Guarded(_) => "guarded",
        LedgerError::NoCodec => "no_formats",
        LedgerError::CannotBuild(_) => "cannot_build_psbt",
        LedgerError::Codec(_) => "cannot_read",
        LedgerError::BadLabel(_) => "bad_label",
        LedgerError::CannotArchive(_) => "cannot_archive",
        LedgerError::WalletArchived => "wallet_archived",
        LedgerError::DescriptorArchived(_) => "descriptor_archived",
        LedgerError::BadPrune(BadPrune::NotRescanned { .. }) => "not_rescanned",
        LedgerError::BadPrune(_) => "prune_too_shallow",
        LedgerError::BadReach(_) => "descriptor_differs",
        LedgerError::BirthdayAboveTip(_) => "birthday_above_tip",
        LedgerError::Amount(_) => "bad_amount",
        LedgerError::Network(_) => "unknown_network",
        LedgerError::Damaged { .. } => "damaged",
        LedgerError::Sql(_) => "database",
        _ => "refused",
    }
}
