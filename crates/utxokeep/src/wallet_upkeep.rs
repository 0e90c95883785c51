//! Upkeep of the wallet ledger beside the server: expired leases, old idempotency keys and old
//! events are removed, leases and rows are counted.
//!
//! # Invariants
//!
//! * Whatever fails, the server goes on: the failure is logged and counted, the next pass tries
//!   again.
//! * A pass removes and counts a limited number of rows.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use metrics::{counter, gauge, histogram};
use utxokeep_core::metric_list;
use utxokeep_wallet::LedgerError;

use crate::wallets::Wallets;

metric_list! {
    ACTIVE = "utxokeep_wallet_leases_active", Gauge, "",
        "Active leases of all wallets, counted up to 1,000,000.";
    EXPIRED = "utxokeep_wallet_leases_expired", Gauge, "",
        "Rows of expired leases that were not removed yet, counted up to 1,000,000.";
    ROWS = "utxokeep_wallet_rows", Gauge, "",
        "Rows of each table of the ledger: on PostgreSQL what it last measured, on SQLite counted \
         up to 1,000,000.";
    CLEANED = "utxokeep_wallet_leases_cleaned_total", Counter, "",
        "Rows of expired leases that were removed.";
    FORGOTTEN = "utxokeep_wallet_idempotency_keys_forgotten_total", Counter, "",
        "Idempotency keys that were old enough to be forgotten.";
    EVENTS_FORGOTTEN = "utxokeep_wallet_events_forgotten_total", Counter, "",
        "Wallet events that were too many or too old and were forgotten.";
    SECONDS = "utxokeep_wallet_cleanup_seconds", Histogram, "",
        "How long it took to remove rows of expired leases, old idempotency keys and old events, \
         by pass.";
    FAILURES = "utxokeep_wallet_cleanup_failures_total", Counter, "",
        "Passes that failed; the log says why.";
}

/// Rows up to which a gauge counts.
const COUNTED_ROWS_MAX: usize = 1_000_000;

/// A thread that looks after the ledger. Dropping it ends the thread after the pass in hand.
#[derive(Debug)]
pub struct WalletUpkeep {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WalletUpkeep {
    /// Starts passes as often as the configuration says; `None` when it says never.
    pub fn start(wallets: &Wallets) -> io::Result<Option<Self>> {
        let pause = Duration::from_secs(wallets.config().lease_cleanup_secs.into());
        if pause.is_zero() {
            return Ok(None);
        }
        describe();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (flag, wallets) = (Arc::clone(&is_stopped), wallets.clone());
        let thread = thread::Builder::new().name("wallet-upkeep".to_owned()).spawn(move || {
            while !flag.load(Ordering::Acquire) {
                pass(&wallets);
                thread::park_timeout(pause);
            }
        })?;
        Ok(Some(Self { is_stopped, thread: Some(thread) }))
    }
}

impl Drop for WalletUpkeep {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that looks after the wallet ledger broke down");
        }
    }
}

/// Tells the recorder what each metric means.
fn describe() {
    crate::meters::describe(METRICS);
    // A counter that was never touched is not shown; these start at 0.
    counter!(CLEANED).increment(0);
    counter!(FORGOTTEN).increment(0);
    counter!(EVENTS_FORGOTTEN).increment(0);
    counter!(FAILURES).increment(0);
}

fn pass(wallets: &Wallets) {
    if let Err(error) = clean(wallets).and_then(|()| count(wallets)) {
        counter!(FAILURES).increment(1);
        let error = anyhow::Error::new(error);
        tracing::warn!("upkeep of the wallet ledger failed, the next pass tries again: {error:#}");
    }
}

fn clean(wallets: &Wallets) -> Result<(), LedgerError> {
    let started = Instant::now();
    let (leases, keys) = wallets.clean_up()?;
    let events = wallets.forget_events()?;
    histogram!(SECONDS).record(started.elapsed().as_secs_f64());
    counter!(CLEANED).increment(leases);
    counter!(FORGOTTEN).increment(keys);
    counter!(EVENTS_FORGOTTEN).increment(events);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float, and exact far enough")]
fn count(wallets: &Wallets) -> Result<(), LedgerError> {
    let leases = wallets.lease_counts(COUNTED_ROWS_MAX)?;
    gauge!(ACTIVE).set(leases.active as f64);
    gauge!(EXPIRED).set(leases.expired as f64);
    for (table, rows) in wallets.ledger().count_rows(COUNTED_ROWS_MAX)? {
        gauge!(ROWS, "table" => table).set(rows as f64);
    }
    Ok(())
}
