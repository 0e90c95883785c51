//! Requests as clients write them. Every field that may be left out has a default.

use serde::{Deserialize, Serialize};
use utxokeep_wallet::Algorithm;

pub use super::texts::{Hex, Rate, Signed, Units};

/// A wallet to make.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateWallet {
    /// Its name, which no other wallet of the ledger may have.
    #[cfg_attr(feature = "schema", schema(example = "treasury"))]
    pub name: String,
    /// Its chain.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "schema", schema(default = "bitcoin"))]
    pub chain: String,
    /// Network of the chain.
    #[cfg_attr(feature = "schema", schema(example = "regtest"))]
    pub network: String,
    /// Its birthday: nothing was paid to it below this block, so that scans start there. One above
    /// the last block of the ledger is refused. When not given, scans start at the first block that
    /// the ledger has applied.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub birthday_height: Option<u32>,
}

fn bitcoin() -> String {
    "bitcoin".to_owned()
}

/// What to archive in spite of.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// What it may still have: `coins`, `unconfirmed`, `leases`.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// Which wallets to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ListWallets {
    /// Archived ones too.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub archived: bool,
    /// `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<String>,
    /// Rows of the page; `page_rows_max` of the configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub count: Option<u32>,
}

/// Which keychains to list.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ListDescriptors {
    /// Archived ones too.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub archived: bool,
}

/// An address to watch.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchAddress {
    /// The address; on Bitcoin also an output script in hexadecimal.
    pub address: String,
    /// Weight of an input that spends from it; estimated from the script when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spend_weight: Option<u32>,
}

/// Addresses to watch, all or none.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddAddresses {
    /// The addresses.
    pub addresses: Vec<WatchAddress>,
}

/// A descriptor to watch.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddDescriptor {
    /// The descriptor, with or without a check sum, without private keys. Several paths, as in
    /// `<0;1>`, are several keychains.
    pub descriptor: String,
    /// Number of its first keychain: 0 for payments by others, 1 for change. When not given, 0, or
    /// what it is already.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub keychain: Option<u32>,
    /// How many scripts are watched ahead. When not given, 1,000, or what it is already. Can be
    /// raised later, and not lowered.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false, minimum = 1, maximum = 10_000))]
    pub lookahead: Option<u32>,
    /// Scripts below this number were handed out already. When not given, 0, or what it is already.
    /// Can be raised later, and not lowered.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub next_index: Option<u32>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct Page {
    /// `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<String>,
    /// Rows of the page; `page_rows_max` of the configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub count: Option<u32>,
}

/// Which confirmations count.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct BalanceOf {
    /// At least this many confirmations.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = 0))]
    pub min_confirmations: u32,
    /// At most this many.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub max_confirmations: Option<u32>,
}

/// What to check.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct VerifyWallet {
    /// Also compare confirmed coins with the UTXO set of the chain database, at the same block.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub with_chain: bool,
}

/// What to check of all wallets.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct VerifyWallets {
    /// Also compare confirmed coins with the UTXO set of the chain database, at the same block.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub with_chain: bool,
    /// `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<String>,
    /// Wallets of the page, 10 unless told, since each is checked whole; `page_rows_max` of the
    /// configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub count: Option<u32>,
}

/// Which coins to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ListCoins {
    /// At least this many confirmations.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = 0))]
    pub min_confirmations: u32,
    /// At most this many.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub max_confirmations: Option<u32>,
    /// Leave out coins under a lease.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub only_free: bool,
    /// Only those of this keychain, by its number. Not together with `address`.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub descriptor: Option<i64>,
    /// Only those of this address, by its number.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub address: Option<i64>,
    /// `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<String>,
    /// Rows of the page; `page_rows_max` of the configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub count: Option<u32>,
}

/// Which transactions to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ListTransactions {
    /// Only those in no block, live or not.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub unconfirmed: bool,
    /// Only those in blocks from this height on, in the order of the chain.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub from_height: Option<u32>,
    /// Only those in blocks up to this height, in the order of the chain.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub to_height: Option<u32>,
    /// Newest first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = false))]
    pub newest_first: bool,
    /// `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<String>,
    /// Rows of the page; `page_rows_max` of the configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub count: Option<u32>,
}

/// An output to pay.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PayTo {
    /// The address; on Bitcoin also an output script in hexadecimal.
    pub address: String,
    /// How much.
    pub amount: Units,
}

/// A transaction in parts, for who does not have its bytes.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlainTx {
    /// Its id.
    pub txid: String,
    /// Outputs it spends, as `TXID:INDEX`; empty for a coinbase.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// All its outputs, in order.
    pub outputs: Vec<PayTo>,
    /// Whether it is a coinbase.
    #[serde(default)]
    pub coinbase: bool,
}

/// A block.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockPlace {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: String,
    /// Time in its header, in seconds since 1970.
    pub time: u64,
}

/// Where a transaction was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SeenIn {
    /// Made here, not sent yet.
    #[default]
    Created,
    /// Sent, or seen in a mempool.
    Mempool,
    /// In a block.
    Block,
}

/// A transaction to record. It is given as bytes or in parts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordTx {
    /// Its bytes in hexadecimal.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub raw: Option<String>,
    /// Its parts.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub parts: Option<PlainTx>,
    /// Where it was met.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(inline))]
    pub seen: SeenIn,
    /// The block it is in.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub block: Option<BlockPlace>,
    /// Its position in that block, if you know it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub position: Option<u32>,
    /// It is meant to replace whatever spends the same outputs.
    #[serde(default)]
    pub replaces: bool,
    /// Label for the transaction; a label that is stored already wins.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub label: Option<String>,
    /// Outputs that belong to the wallet; when not given, all to watched scripts.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub credits: Option<Vec<u32>>,
    /// Whose payment it is, 64 hexadecimal digits or a name: leases of this owner on its inputs end
    /// when it is given up.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner: Option<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub idempotency_key: Option<String>,
}

/// The block a stored transaction is in.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmTx {
    /// The block, which the ledger must have reached.
    pub block: BlockPlace,
    /// Position in the block, if you know it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub position: Option<u32>,
}

/// Who takes a lease, and for how long.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseFor {
    /// 64 hexadecimal digits that the owner chose, or any other text: then it is a name, and its
    /// SHA-256 is the owner. A new owner is made when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner: Option<String>,
    /// How long, in seconds; `lease_secs_default` of the configuration when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub seconds: Option<u32>,
    /// Hold until the spend has this many confirmations, whatever the clock says by then.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub hold_confirmations: Option<u32>,
}

/// Outputs to lease, all or none. Those that the owner has leased already are renewed.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireLeases {
    /// The outputs, as `TXID:INDEX`.
    pub outpoints: Vec<String>,
    /// Who takes them, and for how long.
    #[serde(default)]
    pub lease: LeaseFor,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub idempotency_key: Option<String>,
}

/// Leases to end.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ReleaseLeases {
    /// Who holds them: 64 hexadecimal digits, or a name.
    pub owner: String,
    /// One output, as `TXID:INDEX`; all of the owner when not given.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub outpoint: Option<String>,
}

/// How coins are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "clap", value(rename_all = "kebab-case"))]
pub enum Choose {
    /// All of those below; the choice with the least waste wins.
    #[default]
    LeastWaste,
    /// Large coins first: few inputs.
    LargestFirst,
    /// Old coins first; coins in no block come last.
    OldestFirst,
    /// Coins in a random order.
    SingleRandomDraw,
    /// A search for a choice with low fees, best without change.
    BranchAndBound,
}

impl From<Choose> for Algorithm {
    fn from(choose: Choose) -> Self {
        match choose {
            Choose::LeastWaste => Self::LeastWaste,
            Choose::LargestFirst => Self::LargestFirst,
            Choose::OldestFirst => Self::OldestFirst,
            Choose::SingleRandomDraw => Self::SingleRandomDraw,
            Choose::BranchAndBound => Self::BranchAndBound,
        }
    }
}

/// What coins are wanted for, and which may be used.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectCoins {
    /// What is paid; sum and weight come from here.
    #[serde(default)]
    pub outputs: Vec<PayTo>,
    /// How much is needed, when there are no `outputs`: one output to a native segwit key.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub value: Option<Units>,
    /// Fee for each virtual byte.
    pub fee_rate: Rate,
    /// What spending a coin is expected to cost one day, for each virtual byte; 10 when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub long_term_fee_rate: Option<Rate>,
    /// How to choose.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(inline))]
    pub algorithm: Choose,
    /// Confirmations that a coin needs; 0 also allows own change in no block. 1 when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub min_confirmations: Option<u32>,
    /// Also use what others paid in transactions without a block.
    #[serde(default)]
    pub allow_untrusted: bool,
    /// Also use outputs of transactions that were not sent yet.
    #[serde(default)]
    pub allow_pending: bool,
    /// Outputs that must not be used, as `TXID:INDEX`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// More inputs than this are not taken; 250 when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub inputs_max: Option<u32>,
    /// Change below this goes to the fee; never less than what nodes call dust for the address that
    /// change goes to, 294 for a native segwit key.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub change_min: Option<Units>,
    /// Decides what is random; another one each time when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub seed: Option<u64>,
    /// Lease the coins in the same step; without it nothing is changed.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub lease: Option<LeaseFor>,
    /// Guards that must not refuse the payment, by name: `fee_max`, `fee_rate_max`, `fee_rate_min`,
    /// `incremental_rate`, `dust`, `unspendable_value`, `zero_value`, `not_yet_valid`,
    /// `nonstandard_script`, `weight_max`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub idempotency_key: Option<String>,
}

/// A payment to be signed elsewhere.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePsbt {
    /// What to pay, and with which coins. They are always leased.
    pub payment: SelectCoins,
    /// Where change goes; when not given, a new address of a change keychain, if there is one of the
    /// kind that most inputs have.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub change_address: Option<String>,
    /// Lock time: only blocks above this height may hold the transaction; 0 for any. Descriptors with
    /// `after` may ask for a later one.
    #[serde(default)]
    pub lock_height: u32,
    /// Record the transaction as created, when its id is final before it is signed.
    #[serde(default)]
    pub record: bool,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub idempotency_key: Option<String>,
}

/// A higher fee for a transaction that is in no block.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BumpFee {
    /// What the replacement pays for each virtual byte, at least; 0 for the least that nodes take.
    pub fee_rate: Rate,
    /// What nodes ask a replacement to pay on top for its own size; 1 when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub incremental_rate: Option<Rate>,
    /// Which output of the old transaction is change, when the keychains do not tell.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub change: Option<u32>,
    /// Where change goes; when not given, where it went before, or to a new address of a change
    /// keychain when coins are added and there was no change.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub change_address: Option<String>,
    /// Change below this is left out; never less than what nodes call dust for its address.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub change_min: Option<Units>,
    /// Owner of leases on the inputs, which move to the new owner: 64 hexadecimal digits, or a
    /// name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub lease_of: Option<String>,
    /// Who leases the inputs of the replacement.
    #[serde(default)]
    pub lease: LeaseFor,
    /// More inputs than this are not taken; 250 when not given.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub inputs_max: Option<u32>,
    /// Only say what the replacement would be.
    #[serde(default)]
    pub dry_run: bool,
    /// Guards that must not refuse the replacement, by name: `fee_max`, `fee_rate_max`, `fee_rate_min`,
    /// `incremental_rate`, `dust`, `unspendable_value`, `zero_value`, `not_yet_valid`,
    /// `nonstandard_script`, `weight_max`.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub idempotency_key: Option<String>,
}

/// A label; empty text clears it.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetLabel {
    /// The text.
    pub label: String,
}

/// Old rows to remove. What they held moves to an archive inside the ledger, until it is
/// acknowledged.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PruneWallet {
    /// Transactions that are not live and were first recorded more than this many seconds ago.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub dead_older_than_secs: Option<u64>,
    /// Confirmed transactions up to this height whose coins are all spent up to it too. A
    /// reorganisation must not reach it: `prune_depth_blocks` of the configuration lie above.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub confirmed_up_to: Option<u32>,
    /// At most this many; call again for more.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub txs_max: Option<u32>,
    /// Keep nothing: do not archive what is removed.
    #[serde(default)]
    pub discard: bool,
    /// Only say what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Pruned transactions that are kept elsewhere now.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcknowledgePruned {
    /// The last one that was read, by its number; all up to it leave the archive.
    pub up_to: i64,
}

/// The next block of a network, for all its wallets.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyBlock {
    /// The block.
    pub block: BlockPlace,
    /// Hash of the block below; not given for the first of a chain.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub parent: Option<String>,
    /// Its transactions in order, as bytes in hexadecimal or in parts.
    pub transactions: Vec<BlockTx>,
}

/// A transaction of a block.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(
    untagged,
    expecting = "expected bytes in hexadecimal, or txid, inputs, outputs and coinbase"
)]
pub enum BlockTx {
    /// Its bytes in hexadecimal.
    Raw(String),
    /// Its parts.
    Parts(PlainTx),
}

/// The block to take off the end of a network.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DisconnectBlock {
    /// The block, which must be the last one.
    pub block: BlockPlace,
    /// Hash of the block below; not given for the first of a chain.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub parent: Option<String>,
}

/// Blocks to take off the end of a network.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// This block and all above it.
    pub from_height: u32,
    /// `pruned`: also blocks from which transactions were pruned. Their wallets are set aside until
    /// they are rescanned.
    #[serde(default)]
    pub allow: Vec<String>,
}
