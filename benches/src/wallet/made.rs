//! A ledger filled with a made history.

use std::time::{Duration, Instant};

use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_wallet::{
    Amount, BlockRef, Credits, LeaseClock, Ledger, Limits, LinkedBlock, Micros, NewAddress,
    NewOutput, NewTx, RecordOptions, Seen, WalletId,
};

use super::history::{History, Payment};

const NETWORK: Network = Network::BitcoinRegtest;
/// When everything happens; leases are measured from here.
pub(super) const NOW: Micros = Micros::new(1_700_000_000_000_000);

/// A ledger with one wallet, and the history that goes on behind it.
pub(super) struct Made {
    pub(super) ledger: Ledger,
    pub(super) wallet: WalletId,
    pub(super) history: History,
    url: String,
    tip: Option<(Height, BlockHash)>,
}

/// Opens a database. A commit waits for the disk when `fsync` is set.
pub(super) fn open(url: &str, fsync: bool) -> anyhow::Result<Ledger> {
    let durability = if fsync { Durability::Synced } else { Durability::Relaxed };
    // The largest rules of `verify` run for longer than the usual limit when others use the disk.
    let options = Options::default().with(|settings| {
        settings.durability = durability;
        settings.connections_max = 16;
        settings.statement_timeout_ms = 600_000;
    });
    Ok(Ledger::open(Database::open(url, &options)?, Limits::default(), NOW)?
        .with_lease_clock(LeaseClock::Caller))
}

impl Made {
    pub(super) fn new(url: &str, addresses: u32) -> anyhow::Result<Self> {
        let ledger = open(url, false)?;
        let wallet = ledger.create_wallet("measured", NETWORK, NOW)?.id;
        let watched: Vec<NewAddress> = (0..addresses)
            .map(|at| NewAddress { script: script(at), address: None, spend_weight: None })
            .collect();
        ledger.add_addresses(wallet, &watched, NOW)?;
        let history = History::new(addresses);
        Ok(Self { ledger, wallet, history, url: url.to_owned(), tip: None })
    }

    /// Closes the database and opens it again; answers how long opening took.
    pub(super) fn reopen(self, fsync: bool) -> anyhow::Result<(Self, Duration)> {
        let Self { ledger, wallet, history, url, tip } = self;
        drop(ledger);
        let started = Instant::now();
        let ledger = open(&url, fsync)?;
        Ok((Self { ledger, wallet, history, url, tip }, started.elapsed()))
    }

    /// The next block, of payments that spend a coin and make some.
    pub(super) fn next_block(
        &mut self,
        payments: u64,
        coins_each: u32,
    ) -> (LinkedBlock, Vec<NewTx>) {
        let height = self.tip.map_or(Height::new(1), |(height, _)| height.plus(1));
        let hash = BlockHash::from_bytes(scattered(1 << 60, u64::from(height.get())));
        let parent = self.tip.map(|(_, hash)| hash);
        self.tip = Some((height, hash));
        let block = LinkedBlock { block: BlockRef { height, hash, time: NOW }, parent };
        (block, self.history.block(payments, coins_each).iter().map(new_tx).collect())
    }

    pub(super) fn apply(&self, block: &LinkedBlock, txs: &[NewTx]) -> anyhow::Result<()> {
        let applied = self.ledger.apply_block(NETWORK, block, txs, NOW)?;
        let recorded = applied.recorded.get(&self.wallet).map_or(0, Vec::len);
        anyhow::ensure!(recorded == txs.len(), "a transaction was skipped");
        Ok(())
    }

    /// Records a payment that is in no block.
    pub(super) fn record_next(&mut self) -> anyhow::Result<Duration> {
        let new = new_tx(&self.history.payment_from_any(2));
        let options = RecordOptions::default();
        let started = Instant::now();
        self.ledger.record(self.wallet, &new, Seen::Mempool, &options, NOW)?;
        Ok(started.elapsed())
    }

    /// Takes the newest blocks back.
    pub(super) fn roll_back(&mut self, blocks: u32) -> anyhow::Result<()> {
        let tip = self.tip.map_or(0, |(height, _)| height.get());
        let height = Height::new(tip.saturating_sub(blocks) + 1);
        self.tip = self.ledger.rollback_from(NETWORK, height, NOW)?;
        Ok(())
    }
}

fn new_tx(payment: &Payment) -> NewTx {
    let output = |output: &super::history::Output| NewOutput {
        amount: Amount::new(output.amount).unwrap_or_default(),
        script: script(output.address),
    };
    let input = match payment.input {
        Some((number, index)) => Some(OutPoint::new(txid(number), index)),
        None if payment.is_coinbase => None,
        None => Some(OutPoint::new(Txid::from_bytes(scattered(1 << 62, payment.number)), 0)),
    };
    NewTx {
        txid: txid(payment.number),
        inputs: input.into_iter().collect(),
        outputs: payment.outputs.iter().map(output).collect(),
        coinbase: payment.is_coinbase,
        raw: Some(scattered(1 << 63, payment.number).repeat(8)),
        credits: Credits::Watched,
    }
}

pub(super) fn txid(number: u64) -> Txid {
    Txid::from_bytes(scattered(0, number))
}

fn script(address: u32) -> Vec<u8> {
    [&[0x00, 0x14], &scattered(1 << 61, address.into())[..20]].concat()
}

/// Bytes that look random, the same for the same number.
fn scattered(kind: u64, number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ kind;
    for chunk in bytes.chunks_exact_mut(8) {
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(number ^ kind);
        chunk.copy_from_slice(&z.to_be_bytes());
    }
    bytes
}
