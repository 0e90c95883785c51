//! What the ledger refuses, and why. An operation that failed has changed nothing.

use utxokeep_core::{
    ChainHash, ChainOutPoint, Height, UnknownNetwork,
    wallet::{
        AmountTooLarge, BadLabel, BadPlace, BadPrune, BadReach, BirthdayAboveTip, CannotArchive,
        CannotBuild, CodecError, GuardRefusal, PrunedBlocks, Refused, TxStatus, WalletId,
    },
};
use utxokeep_sql::SqlError;

use crate::standing::LackCause;

/// Errors of the ledger. Every operation is one database transaction, so whatever is refused has
/// left no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no such wallet.
    #[error("there is no wallet {0}")]
    WalletNotFound(WalletId),
    /// There is no wallet of this name.
    #[error("there is no wallet named {0:?}")]
    WalletNameNotFound(String),
    /// Another wallet has this name.
    #[error("a wallet named {0:?} exists already; choose another name")]
    WalletExists(String),
    /// The transaction cannot be stored as it is.
    #[error("the transaction was not stored: {what}")]
    InvalidTx {
        /// What is wrong with it.
        what: String,
    },
    /// The block cannot be right, whomever it concerns.
    #[error("the block was not applied: {what}")]
    InvalidBlock {
        /// What is wrong with it.
        what: String,
    },
    /// An argument that cannot be right.
    #[error("{what}; nothing was changed")]
    InvalidArgument {
        /// What is wrong.
        what: String,
    },
    /// Events behind a cursor were forgotten.
    #[error(
        "events behind cursor {cursor} were forgotten, the oldest cursor to read from is {oldest}; \
         read the state of the wallet anew, then its events from there"
    )]
    EventsGone {
        /// The cursor that was given.
        cursor: i64,
        /// The oldest cursor behind which every event is kept.
        oldest: i64,
    },
    /// The wallet does not have the webhook.
    #[error("the wallet has no webhook {0}")]
    WebhookNotFound(i64),
    /// The wallet does not have the transaction.
    #[error("the wallet does not know transaction {0}")]
    TxNotFound(ChainHash),
    /// A credit names an output that the transaction does not have.
    #[error("output {index} is credited, but the transaction has {outputs} outputs")]
    OutputOutOfRange {
        /// The index that was given.
        index: u32,
        /// Number of outputs.
        outputs: usize,
    },
    /// A credited output pays a script that the wallet does not watch.
    #[error("output {index} pays a script that the wallet does not watch; add its address first")]
    AddressNotFound {
        /// Which output.
        index: u32,
    },
    /// An output does not pay the address that it is credited to.
    #[error("output {index} does not pay the address it is credited to; nothing was stored")]
    NotPaid {
        /// Which output.
        index: u32,
    },
    /// Other live transactions spend the same outputs.
    #[error(
        "transaction {txid} spends what {} spends already; declare a replacement, or wait for a block",
        list(.rivals)
    )]
    Conflict {
        /// The transaction that was not stored.
        txid: ChainHash,
        /// Those that hold its inputs.
        rivals: Vec<ChainHash>,
    },
    /// An input spends an output of a transaction that is not live.
    #[error("the input that spends {outpoint} has no valid parent: that one is {}", .status.name())]
    InvalidParent {
        /// The output that would be spent.
        outpoint: ChainOutPoint,
        /// Status of the parent.
        status: TxStatus,
    },
    /// The event does not fit the state of the transaction.
    #[error("transaction {txid}: {refused}")]
    Refused {
        /// The transaction.
        txid: ChainHash,
        /// Why.
        refused: Refused,
    },
    /// The chain of the ledger has not reached the block.
    #[error("block {height} is above the tip of the ledger; apply it first")]
    BlockNotFound {
        /// Height of the block.
        height: Height,
    },
    /// The ledger knows another block, or another time of it, at this height.
    #[error(
        "block {hash} is not the one the ledger has at height {height}, or its time is another; \
         check height, hash and time; nothing was changed"
    )]
    BlockMismatch {
        /// Height of the block.
        height: Height,
        /// The hash that was given.
        hash: ChainHash,
    },
    /// The ledger knows another position of the transaction in its block.
    #[error(
        "transaction {txid} is at position {position} of block {height}, not where this says; \
         nothing was changed"
    )]
    PositionMismatch {
        /// The transaction.
        txid: ChainHash,
        /// Height of its block.
        height: Height,
        /// Where it is.
        position: u32,
    },
    /// No chain can have the transaction where somebody says.
    #[error("transaction {txid} cannot be there: {source}; nothing was changed")]
    BadPlace {
        /// The transaction.
        txid: ChainHash,
        /// Why.
        source: BadPlace,
    },
    /// The block does not follow the tip.
    #[error("block {height} does not follow the tip of the ledger, which is {}", tip_text(*.tip))]
    NotNextBlock {
        /// Height of the block.
        height: Height,
        /// The tip.
        tip: Option<(Height, ChainHash)>,
    },
    /// The block to disconnect is not the tip.
    #[error("block {height} is not the tip of the ledger, which is {}", tip_text(*.tip))]
    NotTip {
        /// Height of the block.
        height: Height,
        /// The tip.
        tip: Option<(Height, ChainHash)>,
    },
    /// The wallet lacks blocks, so that its coins may be spent already.
    #[error(
        "the wallet is set aside, because it could not take block {height} ({reason}); its coins \
         may be spent since, so nothing was selected, leased or paid: rescan it, then try again"
    )]
    SetAside {
        /// The block.
        height: Height,
        /// Why it could not be taken.
        reason: String,
    },
    /// The wallet gets new blocks, and has not looked at all earlier ones.
    #[error(
        "the wallet lacks the blocks from {next} on ({}), so that its coins may be spent; nothing \
         was selected, leased or paid: wait until whoever follows the chain has rescanned it, run \
         `wallet scan`, or, where clients bring the blocks, bring these again",
        .cause.text()
    )]
    NotRescanned {
        /// The next block that it has to look at.
        next: Height,
        /// Why it lacks them.
        cause: LackCause,
    },
    /// Transactions were pruned from blocks that somebody wants to take back.
    #[error(
        "the blocks from {from} on cannot be taken back: transactions up to block {} were pruned \
         from {}, and their coins would be missing; nothing was changed: take back the blocks from \
         {} on at the lowest, or allow `pruned`, which sets these wallets aside until they are \
         rescanned from block {}",
        .pruned.highest(), names(.wallets), .pruned.highest().plus(1), .pruned.lowest()
    )]
    ReachesPruned {
        /// The first block that was to be taken back.
        from: Height,
        /// Names of the wallets.
        wallets: Vec<String>,
        /// The blocks that they were pruned from.
        pruned: PrunedBlocks,
    },
    /// The wallet has no part in the transaction.
    #[error(
        "transaction {0} pays nothing to the wallet and spends nothing of it; nothing was stored: \
         watch its addresses first, or record it in the wallet that it belongs to"
    )]
    NotOurs(ChainHash),
    /// More descendants than one operation may touch.
    #[error(
        "more than {rows_max} transactions depend on this one, nothing was changed; raise the limit of cascades"
    )]
    CascadeTooLarge {
        /// The limit.
        rows_max: usize,
    },
    /// No such output, or it is spent, or its transaction is not live.
    #[error("{0} is not an unspent output of the wallet")]
    UtxoNotFound(ChainOutPoint),
    /// Somebody else holds a lease.
    #[error("{outpoint} is leased to somebody else")]
    AlreadyLeased {
        /// The output.
        outpoint: ChainOutPoint,
    },
    /// A label says that the output must not be spent.
    #[error("a label says that {outpoint} must not be spent; set it to spendable first")]
    HeldBack {
        /// The output.
        outpoint: ChainOutPoint,
    },
    /// There is no lease to renew.
    #[error(
        "{outpoint} is not leased to anybody, or the lease has expired; nothing was renewed, acquire the lease anew"
    )]
    NotLeased {
        /// The output.
        outpoint: ChainOutPoint,
    },
    /// The lease belongs to somebody else.
    #[error(
        "the lease of {outpoint} belongs to somebody else; only its owner may renew or release it, nothing was changed"
    )]
    NotLeaseOwner {
        /// The output.
        outpoint: ChainOutPoint,
    },
    /// The key of a request was used for another one.
    #[error(
        "the idempotency key {key:?} belongs to another request; nothing was changed, choose another key"
    )]
    KeyReused {
        /// The key.
        key: String,
    },
    /// A wallet has as many keys of requests as it may.
    #[error(
        "{keys_max} idempotency keys of this wallet are kept, which is the most; nothing was changed, wait until old ones are forgotten, or keep them for a shorter time"
    )]
    TooManyKeys {
        /// The limit.
        keys_max: usize,
    },
    /// The coins that may be used do not pay for the payment.
    #[error(
        "{needed} are needed with all fees and {available} are available; {uneconomic} cost more to spend than they are worth at this fee rate, {leased} are leased, {immature} immature, {held_back} held back by labels, {locked} locked by the older() or after() of their descriptor (allow not_yet_valid to wait for them; those that need a height and those that need a time go into payments of their own), {excluded} excluded by the request, {pending} not published, not trusted or not deep enough; nothing was changed"
    )]
    InsufficientFunds {
        /// Payment and fee, with the inputs for everything that is available.
        needed: u64,
        /// What may be used and is worth its input.
        available: u64,
        /// What may be used, but costs more to spend than it is worth at this fee rate.
        uneconomic: u64,
        /// What might be used if the request did not exclude it.
        excluded: u64,
        /// Confirmed or trusted, under a lease.
        leased: u64,
        /// Coinbase outputs that are too young.
        immature: u64,
        /// Confirmed or trusted, and held back because a label says so.
        held_back: u64,
        /// What might be used if its descriptor let the next block hold it, in one transaction with
        /// what is available.
        locked: u64,
        /// Of transactions that are pending, not trusted, or not confirmed often enough.
        pending: u64,
    },
    /// The coins would do, but not with as few inputs as allowed.
    #[error(
        "{available} are available, but {inputs_max} inputs do not pay for {needed}; nothing was changed: consolidate coins or allow more inputs"
    )]
    TooManyInputs {
        /// Payment and fee, with the inputs for everything that is available.
        needed: u64,
        /// What may be used.
        available: u64,
        /// The limit.
        inputs_max: usize,
    },
    /// A transaction that others spend from, or gave way to, cannot be removed.
    #[error("others spend from transaction {0} or gave way to it; abandon it instead")]
    NotALeaf(ChainHash),
    /// The wallet has no address of this number.
    #[error("the wallet has no address {0}")]
    AddressIdNotFound(i64),
    /// The ledger was closed.
    #[error("the ledger is closed, nothing was read or changed; open it again")]
    Closed,
    /// The wallet has no such keychain.
    #[error("the wallet has no keychain {0}")]
    DescriptorNotFound(i64),
    /// The transaction cannot be replaced by one with a higher fee.
    #[error("transaction {txid} cannot get a higher fee: {what}")]
    NotBumpable {
        /// The transaction.
        txid: ChainHash,
        /// Why.
        what: &'static str,
    },
    /// There is change, and nowhere to put it.
    #[error(
        "the payment has change and there is no place for it; nothing was changed: give a change address, or add a descriptor with a change keychain"
    )]
    NoChangePlace,
    /// A guard refuses the payment.
    #[error(transparent)]
    Guarded(#[from] GuardRefusal),
    /// The ledger was opened without the formats of a chain.
    #[error("descriptors and fee bumps need the formats of the chain; open the ledger with them")]
    NoCodec,
    /// The transaction of a payment cannot be built.
    #[error(transparent)]
    CannotBuild(CodecError),
    /// A descriptor or transaction cannot be read.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A label that cannot be stored.
    #[error("{0}; nothing was changed")]
    BadLabel(#[from] BadLabel),
    /// A keychain does not become what was asked for.
    #[error("{0}; nothing was changed")]
    BadReach(#[from] BadReach),
    /// A reorganisation could reach what would be pruned.
    #[error("{0}; nothing was changed")]
    BadPrune(#[from] BadPrune),
    /// Payments below the birthday could be missed.
    #[error("{0}; nothing was changed")]
    BirthdayAboveTip(#[from] BirthdayAboveTip),
    /// It still has something.
    #[error("{0}; nothing was changed")]
    CannotArchive(#[from] CannotArchive),
    /// An archived wallet takes nothing.
    #[error("the wallet is archived, nothing was changed; restore it first")]
    WalletArchived,
    /// An archived keychain hands out nothing and takes no options.
    #[error("keychain {0} is archived, nothing was changed; restore it first")]
    DescriptorArchived(i64),
    /// An amount that exists on no chain.
    #[error(transparent)]
    Amount(#[from] AmountTooLarge),
    /// A network that is not known.
    #[error(transparent)]
    Network(#[from] UnknownNetwork),
    /// A stored row that cannot be right.
    #[error("a stored row is damaged: {what}; run verify and restore from a copy")]
    Damaged {
        /// What does not fit.
        what: String,
    },
    /// The database failed or refused.
    #[error(transparent)]
    Sql(#[from] SqlError),
}

impl From<CannotBuild> for LedgerError {
    fn from(error: CannotBuild) -> Self {
        match error {
            CannotBuild::Guarded(refusal) => Self::Guarded(refusal),
            CannotBuild::Codec(error) => Self::CannotBuild(error),
            other => Self::CannotBuild(CodecError::new(other)),
        }
    }
}

impl LedgerError {
    pub(crate) fn argument(what: impl Into<String>) -> Self {
        Self::InvalidArgument { what: what.into() }
    }

    pub(crate) fn invalid_tx(what: impl Into<String>) -> Self {
        Self::InvalidTx { what: what.into() }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}

fn list(txids: &[ChainHash]) -> String {
    first_of(txids.iter().map(ToString::to_string))
}

fn names(wallets: &[String]) -> String {
    first_of(wallets.iter().map(|name| format!("{name:?}")))
}

fn first_of(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = if all.len() > 3 { " and others" } else { "" };
    format!("{}{more}", all.take(3).collect::<Vec<_>>().join(", "))
}

fn tip_text(tip: Option<(Height, ChainHash)>) -> String {
    tip.map_or_else(|| "not set".to_owned(), |(height, hash)| format!("{height} ({hash})"))
}
