//! Answers: the JSON of command line and REST. Amounts are decimal strings, times microseconds
//! since 1970, hashes in the order people of the chain read them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utxokeep_core::{
    BlockHash, Height, Network,
    wallet::{Balance, confirmations},
};
use utxokeep_wallet::{
    Address, Change, Coin, ImportNote, Imported, InvalidReason, Lease, Micros, Recorded,
    Replacement, RevealedAddress, TxDetail, TxState, TxSummary, Violation, Wallet,
    WatchedDescriptor,
};

use super::{
    RescanInfo, SetAsideInfo, StandingInfo, Units,
    texts::{address, outpoint_text, tip_text, txid_text},
};

/// One thing of a wallet, and what may make it out of date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OfWallet<T> {
    /// The thing.
    #[serde(flatten)]
    pub item: T,
    /// The wallet has not all blocks since this one, so that this may be out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub set_aside: Option<SetAsideInfo>,
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Listed<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Goes on behind the last row; absent when this was the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// The wallet gets no blocks since this one, so that the rows may be out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub set_aside: Option<SetAsideInfo>,
}

impl<T> Listed<T> {
    /// A page of rows; a full one may have a next.
    pub(super) fn new<R>(
        rows: &[R],
        rows_max: usize,
        cursor: impl FnOnce(&R) -> String,
        item: impl FnMut(&R) -> T,
    ) -> Self {
        let next_cursor = rows.last().filter(|_| rows.len() >= rows_max).map(cursor);
        Self { items: rows.iter().map(item).collect(), next_cursor, set_aside: None }
    }

    /// The same list, of a wallet that may be set aside.
    pub(super) fn of(self, standing: StandingInfo) -> Self {
        Self { set_aside: standing.set_aside, ..self }
    }

    /// A list that is one page.
    pub(crate) const fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, set_aside: None }
    }
}

/// The last block of a network that the ledger has applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LedgerTip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: String,
}

impl std::fmt::Display for LedgerTip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.height, self.hash)
    }
}

impl LedgerTip {
    pub(super) fn new(network: Network, tip: (Height, BlockHash)) -> Self {
        let (height, hash) = tip_text(network, tip);
        Self { height, hash }
    }
}

/// A wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WalletInfo {
    /// Its name.
    #[schema(example = "treasury")]
    pub name: String,
    /// Its chain.
    #[schema(example = "bitcoin")]
    pub chain: String,
    /// Network of the chain.
    #[schema(example = "regtest")]
    pub network: String,
    /// When it was made.
    pub created_at_us: i64,
    /// Why it gets no blocks; absent when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub set_aside: Option<SetAsideInfo>,
    /// Blocks that it looks at again; absent when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rescan: Option<RescanInfo>,
    /// When it was archived; `null` while it is followed.
    pub archived_at_us: Option<i64>,
}

impl WalletInfo {
    pub(super) fn new(wallet: &Wallet, standing: StandingInfo) -> Self {
        Self {
            name: wallet.name.clone(),
            chain: wallet.network.chain().to_owned(),
            network: wallet.network.name().to_owned(),
            created_at_us: wallet.created_at.get(),
            set_aside: standing.set_aside,
            rescan: standing.rescan,
            archived_at_us: wallet.archived_at.map(Micros::get),
        }
    }
}

/// A wallet, and how far the ledger has come on its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WalletStatus {
    /// The wallet.
    #[serde(flatten)]
    pub wallet: WalletInfo,
    /// The last block that was applied; `null` before the first.
    pub tip: Option<LedgerTip>,
    /// Nothing was paid to it below this block; `null` when that was not said.
    pub birthday_height: Option<u32>,
    /// Numbers of keychains whose payments came near the end of what is watched; their list says
    /// what to do.
    pub descriptors_near_edge: Vec<i64>,
}

/// A watched address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AddressInfo {
    /// Its number in the wallet.
    pub id: i64,
    /// The address, where the script has one.
    pub address: Option<String>,
    /// The script in hexadecimal; on Cardano the bytes of the address.
    pub script: String,
    /// Weight of an input that spends from it.
    pub spend_weight: u32,
    /// Whether it was ever paid.
    pub used: bool,
}

impl AddressInfo {
    pub(super) fn new(network: Network, watched: &Address) -> Self {
        Self {
            id: watched.id,
            address: watched.address.clone().or_else(|| address(network, &watched.script)),
            script: utxokeep_core::hex_encode(&watched.script),
            spend_weight: watched.spend_weight,
            used: watched.used,
        }
    }
}

/// Addresses that are watched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Watched {
    /// Their numbers in the wallet, in the order of the request.
    pub address_ids: Vec<i64>,
    /// The ledger has passed blocks that may pay the new ones: scan the wallet from this height.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scan_from_height: Option<u32>,
}

/// A descriptor that is watched now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DescriptorAdded {
    /// Its keychains, one for each path.
    pub items: Vec<DescriptorInfo>,
    /// The ledger has passed blocks that may pay scripts that are new: scan the wallet from this
    /// height.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scan_from_height: Option<u32>,
}

/// A payment came near the end of what a keychain watches: others may have gone beyond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NearEdgeInfo {
    /// The script that was paid.
    pub index: u32,
    /// Add the descriptor again with this lookahead.
    pub raise_lookahead_to: u32,
    /// Then scan the wallet from this height.
    pub scan_from_height: Option<u32>,
}

/// A keychain of a wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DescriptorInfo {
    /// Its number in the wallet.
    pub id: i64,
    /// Its text, in canonical form.
    pub descriptor: String,
    /// 0 for payments by others, 1 for change.
    pub keychain: u32,
    /// Whether it stands for many scripts.
    pub is_ranged: bool,
    /// Scripts below this number were handed out or paid.
    pub next_index: u32,
    /// Scripts below this number are watched.
    pub derived_count: u32,
    /// How many scripts are watched ahead.
    pub lookahead: u32,
    /// Whether payments may have been missed, and what to do; `null` when there is no sign of it.
    pub near_edge: Option<NearEdgeInfo>,
    /// When it was archived; `null` while it is followed.
    pub archived_at_us: Option<i64>,
}

/// A wallet or a keychain that is followed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Restored {
    /// The ledger has passed blocks meanwhile: scan the wallet from this height. `null` when there
    /// are none.
    pub scan_from_height: Option<u32>,
}

impl DescriptorInfo {
    pub(super) fn new(watched: WatchedDescriptor, scan_from: Option<Height>) -> Self {
        let raise_to = watched.edge_index.zip(watched.lookahead_to_raise_to());
        Self {
            archived_at_us: watched.archived_at.map(Micros::get),
            near_edge: raise_to.map(|(index, raise_lookahead_to)| NearEdgeInfo {
                index,
                raise_lookahead_to,
                scan_from_height: scan_from.map(Height::get),
            }),
            id: watched.id,
            descriptor: watched.text,
            keychain: watched.keychain,
            is_ranged: watched.is_ranged,
            next_index: watched.next_index,
            derived_count: watched.derived_count,
            lookahead: watched.lookahead,
        }
    }
}

/// An address that was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct NewAddressInfo {
    /// Number of its script in the descriptor.
    pub index: u32,
    /// Its number in the wallet.
    pub address_id: i64,
    /// The address, where the script has one.
    pub address: Option<String>,
    /// The script in hexadecimal.
    pub script: String,
}

impl From<RevealedAddress> for NewAddressInfo {
    fn from(revealed: RevealedAddress) -> Self {
        Self {
            index: revealed.index,
            address_id: revealed.address_id,
            address: revealed.address,
            script: utxokeep_core::hex_encode(&revealed.script),
        }
    }
}

/// What a wallet has. Outputs that a live transaction spends never count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BalanceInfo {
    /// In a block, and mature.
    pub confirmed: Units,
    /// In no block, paid by ourselves alone.
    pub trusted_unconfirmed: Units,
    /// In no block, paid by somebody else.
    pub untrusted_unconfirmed: Units,
    /// Of transactions that were not sent yet.
    pub pending: Units,
    /// Coinbase outputs that may not be spent yet.
    pub immature: Units,
    /// The part of `total` that is under a lease.
    pub leased: Units,
    /// Spendable and not leased, but held back by a label that says so.
    pub held_back: Units,
    /// Spendable, not leased and not held back, but the `older()` or `after()` of its descriptor
    /// keeps it out of the next block.
    pub locked: Units,
    /// What can be spent now without trusting others, is not leased, not held back and not locked.
    pub available: Units,
    /// Everything that counts, leased or not.
    pub total: Units,
    /// The last block that was applied; `null` before the first, and for an archived wallet.
    pub tip: Option<LedgerTip>,
    /// The last block that an archived wallet has looked at; all of this is as of then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub archived_height: Option<u32>,
    /// The wallet has not all blocks since this one, so that none of this may be true any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub set_aside: Option<SetAsideInfo>,
    /// Blocks that the wallet looks at again; until then coins may be missing, and coins that were
    /// found may be spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rescan: Option<RescanInfo>,
}

impl BalanceInfo {
    pub(super) fn new(balance: &Balance, tip: Option<LedgerTip>, standing: StandingInfo) -> Self {
        Self {
            confirmed: Units(balance.confirmed),
            trusted_unconfirmed: Units(balance.trusted_unconfirmed),
            untrusted_unconfirmed: Units(balance.untrusted_unconfirmed),
            pending: Units(balance.pending),
            immature: Units(balance.immature),
            leased: Units(balance.leased),
            held_back: Units(balance.held_back),
            locked: Units(balance.locked),
            available: Units(balance.available()),
            total: Units(balance.total()),
            tip,
            archived_height: None,
            set_aside: standing.set_aside,
            rescan: standing.rescan,
        }
    }

    /// The balance of an archived wallet, which has looked at no block above `height`.
    pub(super) fn archived_at(self, height: Option<Height>) -> Self {
        Self { tip: None, archived_height: height.map(Height::get), ..self }
    }
}

/// An unspent output of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CoinInfo {
    /// The output, as `TXID:INDEX`.
    pub outpoint: String,
    /// Its amount.
    pub amount: Units,
    /// Number of the address it is credited to.
    pub address_id: i64,
    /// The address it pays, where its script has one.
    pub address: Option<String>,
    /// Its script in hexadecimal; on Cardano the bytes of the address.
    pub script: String,
    /// What its transaction makes of it: `confirmed`, `trusted`, `untrusted` or `pending`.
    #[schema(example = "confirmed")]
    pub class: &'static str,
    /// Block of its transaction.
    pub height: Option<u32>,
    /// Blocks on top of it, its own included.
    pub confirmations: u32,
    /// Whether a coinbase made it.
    pub coinbase: bool,
    /// Whether a lease is active.
    pub leased: bool,
    /// Whether it may be spent; `false` when a label says otherwise, then it is not selected.
    pub spendable: bool,
}

impl CoinInfo {
    pub(super) fn new(network: Network, tip: Option<Height>, coin: &Coin) -> Self {
        Self {
            outpoint: outpoint_text(network, &coin.outpoint),
            amount: Units(coin.amount.get()),
            address_id: coin.address_id,
            address: coin.address.clone().or_else(|| address(network, &coin.script)),
            script: utxokeep_core::hex_encode(&coin.script),
            class: coin.class.name(),
            height: coin.height.map(Height::get),
            confirmations: confirmations(coin.height, tip),
            coinbase: coin.coinbase,
            leased: coin.leased,
            spendable: coin.spendable,
        }
    }
}

/// Whether an output may be spent, as a label says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CoinWish {
    /// The output, as `TXID:INDEX`.
    pub outpoint: String,
    /// `false` while it is held back: it is neither selected nor leased.
    pub spendable: bool,
}

/// A line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TxInfo {
    /// Its id.
    pub txid: String,
    /// `pending`, `published`, `replaced`, `failed` or `orphaned`.
    #[schema(example = "published")]
    pub status: &'static str,
    /// Its block.
    pub height: Option<u32>,
    /// Position in its block.
    pub position: Option<u32>,
    /// Whether it is a coinbase.
    pub coinbase: bool,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// When it was first recorded.
    pub received_at_us: i64,
    /// Sum of the wallet's outputs that it spends.
    pub spent: Units,
    /// Sum of its outputs that belong to the wallet.
    pub received: Units,
    /// By how much it changes what the wallet has, as a decimal string, possibly negative.
    pub delta: String,
    /// What it pays, known when all its inputs are the wallet's.
    pub fee: Option<Units>,
    /// Why it is not live.
    pub invalid_reason: Option<&'static str>,
    /// What took its place, or the transaction it depended on.
    pub invalidated_by: Option<String>,
}

impl TxInfo {
    pub(super) fn new(network: Network, tx: &TxSummary) -> Self {
        Self {
            txid: txid_text(network, &tx.txid),
            status: tx.state.status().name(),
            height: height_of(tx.state),
            position: tx.position,
            coinbase: tx.coinbase,
            waiting: tx.waiting,
            received_at_us: tx.received_at.get(),
            spent: Units(tx.spent),
            received: Units(tx.received),
            delta: tx.delta().to_string(),
            fee: tx.fee.map(Units),
            invalid_reason: tx.invalid_reason.map(InvalidReason::name),
            invalidated_by: tx.invalidated_by.as_ref().map(|by| txid_text(network, by)),
        }
    }
}

fn height_of(state: TxState) -> Option<u32> {
    match state {
        TxState::Confirmed(height) => Some(height.get()),
        _ => None,
    }
}

/// An input of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputInfo {
    /// The output it spends, as `TXID:INDEX`.
    pub outpoint: String,
    /// Its amount, where the output belongs to the wallet.
    pub amount: Option<Units>,
}

/// An output of a transaction that belongs to the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OwnOutputInfo {
    /// Its index.
    pub index: u32,
    /// Its amount.
    pub amount: Units,
}

/// Everything about one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TxDetails {
    /// The line of the history.
    #[serde(flatten)]
    pub summary: TxInfo,
    /// Its label.
    pub label: Option<String>,
    /// Its inputs in order.
    pub inputs: Vec<InputInfo>,
    /// Its outputs that belong to the wallet, spent or not.
    pub outputs: Vec<OwnOutputInfo>,
    /// Its bytes in hexadecimal, where they were given.
    pub raw: Option<String>,
}

impl TxDetails {
    pub(super) fn new(network: Network, detail: &TxDetail, label: Option<String>) -> Self {
        Self {
            summary: TxInfo::new(network, &detail.summary),
            label,
            inputs: detail
                .inputs
                .iter()
                .map(|input| InputInfo {
                    outpoint: outpoint_text(network, &input.outpoint),
                    amount: input.amount.map(|amount| Units(amount.get())),
                })
                .collect(),
            outputs: detail
                .outputs
                .iter()
                .map(|(index, amount)| OwnOutputInfo { index: *index, amount: Units(amount.get()) })
                .collect(),
            raw: detail.raw.as_deref().map(utxokeep_core::hex_encode),
        }
    }
}

/// Who took whose inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReplacementInfo {
    /// The one that lost, or will lose when the other is published.
    pub replaced: String,
    /// The one that took its place.
    pub replacement: String,
    /// `replaced` when it was declared, `double_spent` when not.
    pub reason: &'static str,
    /// When this was recorded.
    pub created_at_us: i64,
}

impl ReplacementInfo {
    pub(super) fn new(network: Network, edge: &Replacement) -> Self {
        Self {
            replaced: txid_text(network, &edge.replaced),
            replacement: txid_text(network, &edge.replacement),
            reason: edge.reason.name(),
            created_at_us: edge.created_at.get(),
        }
    }
}

/// What recording came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct RecordedInfo {
    /// The transaction.
    pub txid: String,
    /// `inserted`, `updated`, `revived` or `unchanged`.
    pub change: Cow<'static, str>,
    /// Its status now.
    pub status: Cow<'static, str>,
    /// Its block.
    pub height: Option<u32>,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// Transactions that lost their inputs to it.
    pub losers: Vec<String>,
    /// Transactions that depended on those.
    pub failed_descendants: Vec<String>,
}

impl RecordedInfo {
    pub(super) fn new(network: Network, recorded: &Recorded) -> Self {
        let texts = |txids: &[_]| txids.iter().map(|txid| txid_text(network, txid)).collect();
        Self {
            txid: txid_text(network, &recorded.txid),
            change: Cow::Borrowed(match recorded.change {
                Change::Inserted => "inserted",
                Change::Updated => "updated",
                Change::Revived => "revived",
                Change::Unchanged => "unchanged",
            }),
            status: Cow::Borrowed(recorded.state.status().name()),
            height: height_of(recorded.state),
            waiting: recorded.waiting,
            losers: texts(&recorded.losers),
            failed_descendants: texts(&recorded.failed_descendants),
        }
    }
}

/// Transactions that failed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Abandoned {
    /// The one that was given up.
    pub txid: String,
    /// Those that depended on it.
    pub failed_descendants: Vec<String>,
    /// Leases on inputs that ended with them. Those of other owners stay.
    pub released_leases: u64,
}

/// An active lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeaseInfo {
    /// The output, as `TXID:INDEX`.
    pub outpoint: String,
    /// Its amount.
    pub amount: Units,
    /// The owner.
    pub owner: String,
    /// When it ends, unless it is held.
    pub expires_at_us: i64,
    /// Held until the spend has this many confirmations.
    pub hold_confirmations: Option<u32>,
    /// A block has spent the output since the lease began, so the clock does not matter.
    pub held: bool,
    /// The block that spends it now.
    pub spent_height: Option<u32>,
    /// The live transaction that spends it now.
    pub spent_by: Option<String>,
}

impl LeaseInfo {
    pub(super) fn new(network: Network, lease: &Lease) -> Self {
        Self {
            outpoint: outpoint_text(network, &lease.outpoint),
            amount: Units(lease.amount.get()),
            owner: lease.owner.to_hex(),
            expires_at_us: lease.expires_at.get(),
            hold_confirmations: lease.hold_confirmations,
            held: lease.held,
            spent_height: lease.spent_height.map(Height::get),
            spent_by: lease.spent_by.as_ref().map(|txid| txid_text(network, txid)),
        }
    }
}

/// Leases that were taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct Leased {
    /// Who holds them: 64 hexadecimal digits.
    pub owner: String,
    /// The name that was given for the owner; its SHA-256 is `owner`.
    pub owner_name: Option<String>,
    /// When they end, by the clock of the database where hosts share one.
    pub expires_at_us: i64,
}

/// Rows of expired leases that were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct CleanedLeases {
    /// How many.
    pub leases: u64,
    /// Whether there may be more; call again.
    pub has_more: bool,
}

/// Leases that were ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Released {
    /// How many.
    pub leases: u64,
}

/// A coin that was selected.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct SelectedInfo {
    /// The output, as `TXID:INDEX`.
    pub outpoint: String,
    /// Its amount.
    pub amount: Units,
    /// Its script in hexadecimal.
    pub script: String,
    /// Weight of the input that spends it.
    pub weight: u32,
}

/// A selection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct SelectionInfo {
    /// The coins.
    pub coins: Vec<SelectedInfo>,
    /// Their sum.
    pub input_total: Units,
    /// What the transaction pays as fee.
    pub fee: Units,
    /// Weight of the transaction, when it is signed.
    pub weight: u64,
    /// Amount of the change output, if there is one.
    pub change: Option<Units>,
    /// How much worse than ideal the choice is, as a decimal string; lower is better.
    pub waste: String,
    /// What found it.
    pub algorithm: Cow<'static, str>,
    /// The leases, if they were asked for.
    pub leased: Option<Leased>,
}

/// A transaction to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct PsbtInfo {
    /// The PSBT in base64.
    pub psbt: String,
    /// Its id before it is signed.
    pub txid: String,
    /// Whether signing keeps the id.
    pub is_txid_final: bool,
    /// The coins it spends, with fee and change.
    pub selection: SelectionInfo,
    /// Where change goes, if there is any.
    pub change_address: Option<String>,
    /// First block that may hold the transaction, by height, if a lock asks for one.
    pub valid_from_height: Option<u32>,
    /// The chain's time from which on a block may hold it, in seconds since 1970, if a lock asks for
    /// one. That time is the median of eleven blocks, about an hour behind the clock.
    pub valid_from_time: Option<u32>,
    /// What recording it came to, if that was asked for and its id is final.
    pub recorded: Option<RecordedInfo>,
}

/// The replacement of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct BumpInfo {
    /// What it replaces.
    pub replaces: String,
    /// What it pushes out besides: everything that depends on that.
    pub evicts: Vec<String>,
    /// Its inputs: all of the old one, then those that were added.
    pub inputs: Vec<SelectedInfo>,
    /// How many of them are the old one's.
    pub kept_inputs: usize,
    /// What it pays as fee.
    pub fee: Units,
    /// What the old one and all it pushes out pay together.
    pub replaced_fees: Units,
    /// Its weight, when it is signed.
    pub weight: u64,
    /// Amount of its change, if there is any.
    pub change: Option<Units>,
    /// Where that goes.
    pub change_address: Option<String>,
    /// First block that may hold the transaction, by height, if a lock asks for one.
    pub valid_from_height: Option<u32>,
    /// The chain's time from which on a block may hold it, in seconds since 1970, if a lock asks for
    /// one. That time is the median of eleven blocks, about an hour behind the clock.
    pub valid_from_time: Option<u32>,
    /// The PSBT in base64.
    pub psbt: String,
    /// Its id before it is signed.
    pub txid: String,
    /// Whether signing keeps the id.
    pub is_txid_final: bool,
    /// The leases of its inputs; absent in a dry run.
    pub leased: Option<Leased>,
    /// The replacement, when it was recorded. It waits to be published.
    pub recorded: Option<RecordedInfo>,
}

/// What an import of labels did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LabelsImported {
    /// Records that were carried out.
    pub imported: usize,
    /// Records of a type that is not known.
    pub ignored: usize,
    /// Lines that could not be used.
    pub skipped: usize,
    /// Labels that were cut to `label_chars_max` of the configuration.
    pub truncated: usize,
    /// Why lines were skipped or not used whole; the first `label_notes_max` of them.
    pub notes: Vec<LabelNote>,
}

/// A remark about a line of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LabelNote {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it, and what was done.
    pub what: String,
}

impl From<Imported> for LabelsImported {
    fn from(done: Imported) -> Self {
        let note = |ImportNote { line, what }| LabelNote { line, what };
        Self {
            imported: done.imported,
            ignored: done.ignored,
            skipped: done.skipped,
            truncated: done.truncated,
            notes: done.notes.into_iter().map(note).collect(),
        }
    }
}

/// Rows that were removed, with what they held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PrunedNow {
    /// The transactions; in a dry run those that would be removed.
    pub transactions: Vec<TxDetails>,
    /// Transactions that wait in the archive until they are acknowledged, these and older ones.
    pub waiting: u64,
}

/// A transaction in the archive of what was pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PrunedInfo {
    /// Its number in the archive; acknowledge it when it is kept elsewhere.
    pub id: i64,
    /// The transaction.
    pub txid: String,
    /// What the ledger held of it.
    #[schema(value_type = TxDetails)]
    pub transaction: serde_json::Value,
}

/// What left the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PrunedAcknowledged {
    /// How many.
    pub transactions: u64,
    /// How many still wait.
    pub waiting: u64,
}

/// A rule that stored rows break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ViolationInfo {
    /// The rule.
    pub rule: &'static str,
    /// How many rows break it.
    pub rows: u64,
    /// The smallest number among them: of a transaction or an output, as the rule says.
    pub first_id: i64,
    /// What to do about it.
    pub remedy: &'static str,
    /// The first of them, as people name them.
    pub examples: Vec<String>,
    /// How many there are besides.
    pub not_named: u64,
}

impl From<Violation> for ViolationInfo {
    fn from(found: Violation) -> Self {
        let named = u64::try_from(found.examples.len()).unwrap_or(u64::MAX);
        Self {
            rule: found.rule,
            rows: found.rows,
            first_id: found.first_id,
            remedy: found.remedy,
            not_named: found.rows.saturating_sub(named),
            examples: found.examples,
        }
    }
}

/// The comparison of a wallet with the UTXO set of the chain database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChainCompared {
    /// The block at which both were read.
    pub tip: LedgerTip,
    /// Scripts that were looked up.
    pub scripts: u64,
    /// Outputs to them that the chain has.
    pub outputs: u64,
}

/// Whether everything stored about a wallet fits together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Verified {
    /// Whether no rule is broken.
    pub is_sound: bool,
    /// The rules that are.
    pub violations: Vec<ViolationInfo>,
    /// Transactions of the wallet.
    pub transactions: u64,
    /// Those whose bytes were decoded and compared; the others have none stored, or are of Cardano.
    pub transactions_decoded: u64,
    /// Scripts of its keychains that were derived again and compared.
    pub scripts_derived: u64,
    /// The comparison with the chain database, if it was asked for.
    pub chain: Option<ChainCompared>,
}

/// What a block did to the wallets of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BlockApplied {
    /// The ledger was there already; nothing was changed.
    pub already_applied: bool,
    /// Transactions that were recorded, over all wallets.
    pub recorded: usize,
    /// The last block now.
    pub tip: Option<LedgerTip>,
    /// Names of wallets that could not take the block and are set aside now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false, required = false)]
    pub set_aside: Vec<String>,
}
