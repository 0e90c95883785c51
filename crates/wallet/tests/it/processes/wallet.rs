//! The wallet that all processes share: coins of one size, of which a payment needs three.

use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_wallet::{
    Amount, BlockRef, Credits, FeeRate, LeaseId, LeaseTerms, Ledger, LedgerError, LinkedBlock,
    Micros, NewAddress, NewOutput, NewTx, SelectionRequest, WalletId,
};

pub(crate) const NETWORK: Network = Network::BitcoinRegtest;
pub(crate) const NOW: Micros = Micros::new(1_700_000_000_000_000);
pub(crate) const FIRST: u32 = 100;
pub(crate) const COIN: u64 = 10_000;
/// Coins of one payment.
pub(crate) const PER_PAYMENT: usize = 3;

fn script() -> Vec<u8> {
    [&[0x00, 0x14], [7; 20].as_slice()].concat()
}

fn id(kind: u8, number: u32) -> [u8; 32] {
    let mut id = [kind; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    id
}

/// The block at a height, which never leaves the chain.
pub(crate) fn block(height: u32) -> LinkedBlock {
    let hash = |height| BlockHash::from_bytes(id(0xb0, height));
    let block = BlockRef {
        height: Height::new(height),
        hash: hash(height),
        time: Micros::new(i64::from(height)),
    };
    LinkedBlock { block, parent: Some(hash(height - 1)) }
}

/// A transaction with so many coins for the wallet.
pub(crate) fn pays(number: u32, inputs: Vec<OutPoint>, coins: usize) -> NewTx {
    let output = NewOutput { amount: Amount::new(COIN).unwrap(), script: script() };
    NewTx {
        txid: Txid::from_bytes(id(0x11, number)),
        inputs,
        outputs: vec![output; coins],
        coinbase: false,
        raw: None,
        credits: Credits::Watched,
    }
}

pub(crate) fn outside(number: u32) -> OutPoint {
    OutPoint::new(Txid::from_bytes(id(0xee, number)), 0)
}

/// A wallet with so many coins, in the block at [`FIRST`].
pub(crate) fn create(ledger: &Ledger, coins: usize) -> WalletId {
    let wallet = ledger.create_wallet("shared", NETWORK, NOW).unwrap().id;
    let address = NewAddress { script: script(), address: None, spend_weight: None };
    ledger.add_addresses(wallet, &[address], NOW).unwrap();
    let funding = pays(0, vec![outside(0)], coins);
    ledger.apply_block(NETWORK, &block(FIRST), &[funding], NOW).unwrap();
    wallet
}

pub(crate) fn find(ledger: &Ledger) -> WalletId {
    ledger.wallet_named("shared").unwrap().id
}

/// Whoever makes a payment: a process, and which of its payments.
pub(crate) fn owner(process: u32, payment: u32) -> LeaseId {
    let mut owner = id(0x22, process);
    owner[4..8].copy_from_slice(&payment.to_be_bytes());
    LeaseId::from_bytes(owner)
}

/// Selects and leases coins for one payment.
pub(crate) fn take(
    ledger: &Ledger,
    wallet: WalletId,
    owner: LeaseId,
    seed: u64,
) -> Result<Vec<OutPoint>, LedgerError> {
    let value = Amount::new(COIN * 5 / 2).unwrap();
    let request = SelectionRequest::new(value, FeeRate::per_vbyte(1), seed);
    let terms = LeaseTerms::until(owner, 3_600_000_000);
    let selection = ledger.select_and_lease(wallet, &request, &terms, NOW)?;
    Ok(selection.coins.into_iter().map(|coin| coin.outpoint).collect())
}

/// Leased coins by owner, as of one moment.
pub(crate) fn leases(ledger: &Ledger, wallet: WalletId) -> Vec<(LeaseId, Vec<OutPoint>)> {
    let mut by_owner = std::collections::BTreeMap::<LeaseId, Vec<OutPoint>>::new();
    for lease in ledger.leases(wallet, 0, 1_000, NOW).unwrap() {
        by_owner.entry(lease.owner).or_default().push(lease.outpoint);
    }
    by_owner.into_iter().collect()
}
