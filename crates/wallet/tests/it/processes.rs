//! Several programs on one ledger: they never get the same coin, they never see half of what
//! another did, and one that dies leaves nothing half done.

mod crash;
mod share;
mod wallet;

use std::{sync::mpsc, thread, time::Duration};

use utxokeep_sql::{Database, Durability, Options};
use utxokeep_wallet::{Ledger, Limits, Micros};

/// Only something that hangs takes this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// In a process that takes part: where the ledger is.
const LEDGER: &str = "UTXOKEEP_PROCESS_LEDGER";
/// In a process that takes part: its number, or the step to start at.
const NUMBER: &str = "UTXOKEEP_PROCESS_NUMBER";

fn open(url: &str, durability: Durability) -> Ledger {
    let options = Options::default().with(|settings| {
        settings.durability = durability;
        settings.busy_timeout_ms = 60_000;
    });
    let database = Database::open(url, &options).unwrap();
    Ledger::open(database, Limits::default(), Micros::new(1)).unwrap()
}

fn number(name: &str) -> u32 {
    std::env::var(name).unwrap().parse().unwrap()
}

/// Fails if `work` does not come to an end.
fn within_patience(work: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        send.send(()).unwrap();
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody waits for ever"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}
