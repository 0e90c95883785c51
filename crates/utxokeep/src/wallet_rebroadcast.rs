//! Sending again: payments that were given to the node, are in no block, and that its mempool lacks,
//! after a restart of the node or an eviction.
//!
//! # Invariants
//!
//! * Parents are sent before what spends from them.
//! * A pass looks at a limited number of payments; the next one goes on behind them.
//! * Whatever fails, the server goes on: the failure is logged and counted, the next pass tries again.
//! * A payment that is too old is left alone and counted. It is not given up: somebody may still mine
//!   it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use metrics::{counter, gauge};
use utxokeep_chains::{BitcoinCodec, bitcoind::TxSender};
use utxokeep_core::{
    Network, Txid, metric_list,
    wallet::{ChainCodec as _, Micros, parents_first},
};
use utxokeep_wallet::{LedgerError, SentCursor, SentTx};

use crate::{
    clock::now_us,
    wallets::{SendAgainError, SentAgain, Wallets},
};

metric_list! {
    WATCHED = "utxokeep_wallet_broadcast_watched", Gauge, "",
        "Payments that were given to the node, are in no block and are looked after, of the last pass.";
    GIVEN_UP = "utxokeep_wallet_broadcast_too_old", Gauge, "",
        "Payments in no block that were given to the node longer ago than rebroadcast_give_up_secs, \
         and are not sent again. Counted up to 1,000,000.";
    RESENT = "utxokeep_wallet_broadcast_resent_total", Counter, "",
        "Payments that the node lacked and got again.";
    WAITING = "utxokeep_wallet_broadcast_not_taken_total", Counter, "",
        "Times that the node lacked a payment and did not take it at that moment.";
    FAILED = "utxokeep_wallet_broadcast_failed_total", Counter, "",
        "Payments that failed because no node can take them.";
    FAILURES = "utxokeep_wallet_broadcast_pass_failures_total", Counter, "",
        "Passes that failed, and payments whose state could not be written; the log says why.";
}

/// Payments up to which a gauge counts.
const COUNTED_ROWS_MAX: usize = 1_000_000;

const MICROS: i64 = 1_000_000;

/// A thread that sends again. Dropping it ends the thread after the payment in hand.
#[derive(Debug)]
pub struct WalletRebroadcast {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WalletRebroadcast {
    /// Starts passes as often as the configuration says; `None` when it says never, or names no node
    /// that takes transactions.
    pub fn start(wallets: &Wallets, network: Option<Network>) -> io::Result<Option<Self>> {
        let pause = Duration::from_secs(wallets.config().rebroadcast_interval_secs.into());
        let (Some(network), Some(sender)) = (network, wallets.sender().cloned()) else {
            return Ok(None);
        };
        if pause.is_zero() || network.is_cardano() {
            return Ok(None);
        }
        describe();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        let wallets = wallets.clone();
        let work = move || {
            let mut pass = Pass { wallets, sender, network, after: SentCursor::default() };
            while !flag.load(Ordering::Acquire) {
                if let Err(error) = pass.run(&flag) {
                    counter!(FAILURES).increment(1);
                    let error = anyhow::Error::new(error);
                    tracing::warn!(
                        "payments could not be sent again, the next pass tries: {error:#}"
                    );
                }
                wait(pause, &flag);
            }
        };
        let thread = thread::Builder::new().name("wallet-resend".to_owned()).spawn(work)?;
        Ok(Some(Self { is_stopped, thread: Some(thread) }))
    }
}

impl Drop for WalletRebroadcast {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that sends payments again broke down");
        }
    }
}

/// Waits for the next pass. What asks a node leaves wake-ups of its own behind, so one alone does not
/// end the wait.
fn wait(pause: Duration, is_stopped: &AtomicBool) {
    let next = Instant::now() + pause;
    while !is_stopped.load(Ordering::Acquire) {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

/// Tells the recorder what each metric means.
fn describe() {
    crate::meters::describe(METRICS);
    // A counter that was never touched is not shown; these start at 0.
    for name in [RESENT, WAITING, FAILED, FAILURES] {
        counter!(name).increment(0);
    }
}

/// What passes go on with.
struct Pass {
    wallets: Wallets,
    sender: TxSender,
    network: Network,
    /// Behind the last payment of the pass before.
    after: SentCursor,
}

impl Pass {
    /// One pass. A node that does not answer ends it; a payment that cannot be written does not.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float, and exact far enough")]
    fn run(&mut self, is_stopped: &AtomicBool) -> Result<(), SendAgainError> {
        let give_up = i64::from(self.wallets.config().rebroadcast_give_up_secs.get()) * MICROS;
        let since = Micros::new(now_us().saturating_sub(give_up));
        let (network, ledger) = (self.network, self.wallets.ledger());
        let too_old = ledger.count_sent_before(network, since, COUNTED_ROWS_MAX)?;
        gauge!(GIVEN_UP).set(too_old as f64);
        let sent = self.page(since)?;
        gauge!(WATCHED).set(sent.len() as f64);
        for payment in in_order(network, &sent) {
            if is_stopped.load(Ordering::Acquire) {
                return Ok(());
            }
            match self.wallets.send_again(&self.sender, network, payment) {
                Ok(SentAgain::Known | SentAgain::Settled) => {}
                Ok(SentAgain::Resent) => {
                    counter!(RESENT).increment(1);
                    let txid = network.hash(payment.txid);
                    tracing::info!(%txid, "the node lacked a payment and got it again");
                }
                Ok(SentAgain::Waits) => counter!(WAITING).increment(1),
                Ok(SentAgain::Failed) => counter!(FAILED).increment(1),
                Err(SendAgainError::Ledger(error)) => {
                    counter!(FAILURES).increment(1);
                    let txid = network.hash(payment.txid);
                    tracing::warn!(%txid, %error, "the state of a sent payment could not be written");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The payments of this pass; at the end of the list it begins anew.
    fn page(&mut self, since: Micros) -> Result<Vec<SentTx>, LedgerError> {
        let most = self.wallets.config().rebroadcast_txs_max.get() as usize;
        let ledger = self.wallets.ledger();
        let mut sent = ledger.sent_txs(self.network, since, self.after, most)?;
        if sent.is_empty() && self.after != SentCursor::default() {
            sent = ledger.sent_txs(self.network, since, SentCursor::default(), most)?;
        }
        let is_cut = sent.len() >= most.min(ledger.limits().page_rows_max);
        let last = sent.last().filter(|_| is_cut);
        self.after = last.map_or_else(SentCursor::default, |last| last.cursor);
        Ok(sent)
    }
}

/// The payments with parents before what spends from them.
fn in_order(network: Network, sent: &[SentTx]) -> Vec<&SentTx> {
    let family: Vec<(Txid, Vec<Txid>)> = sent
        .iter()
        .map(|payment| {
            let decoded = BitcoinCodec.decode_tx(network, &payment.raw).ok();
            let inputs = decoded.map(|tx| tx.inputs).unwrap_or_default();
            (payment.txid, inputs.iter().map(|input| *input.txid()).collect())
        })
        .collect();
    parents_first(&family).into_iter().map(|at| &sent[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_waited_for_although_the_thread_was_woken_before() {
        let (pause, is_stopped) = (Duration::from_millis(50), AtomicBool::new(false));
        for _ in 0..3 {
            thread::current().unpark();
            let begun = Instant::now();
            wait(pause, &is_stopped);
            assert!(begun.elapsed() >= pause);
        }
        is_stopped.store(true, Ordering::Release);
        wait(Duration::from_secs(3_600), &is_stopped);
    }
}
