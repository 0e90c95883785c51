//! What goes into the ledger: transactions as plain data, and how they were seen.

use utxokeep_core::{
    BlockHash, Height, Network, OutPoint, Txid,
    wallet::{Amount, EventDepths, LeaseId, Micros, PaymentLimits, TxState, WalletId},
};

use crate::LedgerError;

/// An output of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutput {
    /// Amount in the smallest unit.
    pub amount: Amount,
    /// Output script; on chains with addresses, the bytes of the address.
    pub script: Vec<u8>,
}

/// Which outputs belong to the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credits {
    /// Every output that pays a watched script.
    #[default]
    Watched,
    /// These and no others; each must pay a watched script.
    Exactly(Vec<u32>),
    /// These and no others, each with the watched script it is credited to: its own, or that of
    /// one key of a standard bare multisig. The latter is never selected by itself, because other
    /// keys may have to sign as well.
    To(Vec<(u32, Vec<u8>)>),
}

/// A transaction to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTx {
    /// Id in internal byte order.
    pub txid: Txid,
    /// Outputs it spends, in the order of its inputs; empty for a coinbase.
    pub inputs: Vec<OutPoint>,
    /// All outputs in the order of the transaction, also those of others.
    pub outputs: Vec<NewOutput>,
    /// Whether it is a coinbase.
    pub coinbase: bool,
    /// The bytes on the wire, where the caller has them.
    pub raw: Option<Vec<u8>>,
    /// Which outputs belong to the wallet.
    pub credits: Credits,
}

/// A block of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Blocks below it in its chain.
    pub height: Height,
    /// Hash of its header, by which a reorganisation is noticed.
    pub hash: BlockHash,
    /// Time in its header.
    pub time: Micros,
}

/// A block and the one below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedBlock {
    /// The block that is applied.
    pub block: BlockRef,
    /// Hash of the block below; `None` for the first of a chain.
    pub parent: Option<BlockHash>,
}

/// Where a transaction was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Made here, not sent yet.
    Created,
    /// Sent, or seen in a mempool.
    Mempool,
    /// In a block, at this position where that is known.
    Block(BlockRef, Option<u32>),
}

/// How to record a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordOptions {
    /// It is meant to replace whatever spends the same outputs: we made it so, or the node's
    /// mempool said so.
    pub replaces: bool,
    /// Label for the transaction; a label that is stored already wins.
    pub label: Option<String>,
    /// Whose payment it is: leases of this owner on its inputs end when it is given up. An owner
    /// that is stored already wins, unless the transaction is not live.
    pub owner: Option<LeaseId>,
    /// It is a payment that is made now: one with the same id that was given up or replaced comes
    /// back to life, as if it had never been recorded.
    pub is_new_payment: bool,
}

/// What recording did to the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Inserted,
    /// It was there and is in another state now, or has better bytes.
    Updated,
    /// It was not live and is again.
    Revived,
    /// It was there in this state, with bytes as good.
    Unchanged,
}

/// What recording came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The transaction that was given.
    pub txid: Txid,
    /// What happened to it.
    pub change: Change,
    /// Its state now.
    pub state: TxState,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// Transactions that lost their inputs to it.
    pub losers: Vec<Txid>,
    /// Transactions that depended on those.
    pub failed_descendants: Vec<Txid>,
    /// Whether it spends from the wallet or pays to it, or was stored before.
    pub is_ours: bool,
}

/// A wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wallet {
    /// Key of the wallet in every other table.
    pub id: WalletId,
    /// What people call it; unique in the ledger.
    pub name: String,
    /// Its chain and network.
    pub network: Network,
    /// When it was created.
    pub created_at: Micros,
    /// When it was archived; `None` while it is followed.
    pub archived_at: Option<Micros>,
}

/// A script that the wallet watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAddress {
    /// Output script.
    pub script: Vec<u8>,
    /// Text form, for people.
    pub address: Option<String>,
    /// Weight of an input that spends from it; estimated from the script when not given.
    pub spend_weight: Option<u32>,
}

/// A watched address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Number in the wallet.
    pub id: i64,
    /// Output script.
    pub script: Vec<u8>,
    /// Text form, where it was given.
    pub address: Option<String>,
    /// Weight of an input that spends from it.
    pub spend_weight: u32,
    /// Whether an output to it was ever recorded; stays set.
    pub used: bool,
    /// Whether it is not watched, because its descriptor is archived.
    pub archived: bool,
}

/// Limits of the ledger; what goes beyond is refused whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Transactions that one operation may invalidate, or whose trust it may change.
    pub cascade_txs_max: usize,
    /// Inputs of one transaction.
    pub tx_inputs_max: usize,
    /// Outputs of one transaction.
    pub tx_outputs_max: usize,
    /// Bytes of one raw transaction.
    pub raw_tx_bytes_max: usize,
    /// Characters of a label.
    pub label_chars_max: usize,
    /// A payment in this last part of the scripts that are watched ahead, in percent, marks its
    /// keychain: others may have gone beyond.
    pub lookahead_edge_percent: u32,
    /// Remarks about lines of one import of labels.
    pub label_notes_max: usize,
    /// Blocks that must lie above confirmed transactions before they are pruned; never fewer than
    /// 100, nor than a chain database of the network can be rolled back by.
    pub prune_depth_blocks: u32,
    /// Rows of one page of an answer.
    pub page_rows_max: usize,
    /// Coins that a selection loads.
    pub selection_window_coins_max: usize,
    /// Coins among which branch and bound searches.
    pub selection_search_coins_max: usize,
    /// Steps of that search.
    pub selection_rounds_max: usize,
    /// Outputs leased by one call.
    pub lease_batch_max: usize,
    /// The largest change that a payment may leave to the fee because its caller does not want it.
    pub change_min_max: u64,
    /// Transactions of one batch or block.
    pub batch_txs_max: usize,
    /// Numbers of confirmations that wallet events tell of.
    pub event_depths: EventDepths,
    /// Webhooks of one wallet.
    pub webhooks_max: usize,
    /// What a payment may pay, unless its caller allows more by name.
    pub payment: PaymentLimits,
}

impl Limits {
    /// Refuses to leave more to the fee than anyone means to: change below `change_min` goes there.
    pub(crate) fn check_change_min(&self, change_min: u64) -> Result<(), LedgerError> {
        if change_min <= self.change_min_max {
            return Ok(());
        }
        Err(LedgerError::argument(format!(
            "change below {change_min} would go to the fee, at most {} may: lower change_min, or raise change_min_sat_max in the configuration",
            self.change_min_max
        )))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cascade_txs_max: 10_000,
            tx_inputs_max: 100_000,
            tx_outputs_max: 100_000,
            raw_tx_bytes_max: 4_000_000,
            label_chars_max: 500,
            lookahead_edge_percent: 20,
            label_notes_max: 100,
            prune_depth_blocks: 0,
            page_rows_max: 1_000,
            selection_window_coins_max: 100,
            selection_search_coins_max: 100,
            selection_rounds_max: 10_000,
            lease_batch_max: 1_000,
            change_min_max: 10_000,
            batch_txs_max: 1_000_000,
            event_depths: EventDepths::default(),
            webhooks_max: 10,
            payment: PaymentLimits::default(),
        }
    }
}
