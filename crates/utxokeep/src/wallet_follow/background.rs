//! Following beside the server, on a thread of its own.
//!
//! # Invariants
//!
//! * Whatever fails, the server goes on: the thread waits, longer and longer, and tries again.
//! * When it is stopped, it ends after the block in hand.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use utxokeep_chains::cardano::Backoff;
use utxokeep_kv::Kv;

use super::{WalletFollower, meter};

/// The longest wait after a failure.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// A thread that keeps the ledger at the tip of the chain database. Dropping it ends the thread
/// after the block in hand.
#[derive(Debug)]
pub(crate) struct WalletFollowing {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WalletFollowing {
    /// Starts to follow; `poll` is the pause between two looks at the tip.
    pub(crate) fn start<K: Kv + 'static>(
        follower: WalletFollower<K>,
        poll: Duration,
    ) -> io::Result<Self> {
        crate::rest::install_recorder();
        meter::describe();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        let thread = thread::Builder::new()
            .name("wallet-follow".to_owned())
            .spawn(move || run(follower, poll, &|| flag.load(Ordering::Acquire)))?;
        Ok(Self { is_stopped, thread: Some(thread) })
    }
}

impl Drop for WalletFollowing {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that follows the chain for the wallet ledger broke down");
        }
    }
}

fn run<K: Kv>(mut follower: WalletFollower<K>, poll: Duration, is_stopped: &dyn Fn() -> bool) {
    let mut backoff = Backoff::new(poll, RETRY_WAIT_MAX.max(poll));
    let mut is_held_up = false;
    let mut is_behind = true;
    let mut held_up = None;
    while !is_stopped() {
        match follower.step(is_stopped) {
            Ok(step) => {
                backoff.reset();
                if std::mem::take(&mut is_held_up) {
                    tracing::warn!("the wallet ledger goes on");
                }
                if step.rescan_held_up != held_up {
                    if let Some(reason) = &step.rescan_held_up {
                        tracing::warn!("a rescan does not get on, and is tried again: {reason}");
                    }
                    held_up = step.rescan_held_up;
                }
                if step.is_done {
                    if is_behind && let Some(height) = step.ledger {
                        tracing::info!(%height, "the wallet ledger is at the tip");
                    }
                    thread::park_timeout(poll);
                }
                is_behind = !step.is_done;
            }
            Err(_) if is_stopped() => {}
            Err(error) => {
                meter::failed(error.reason());
                is_held_up = true;
                let wait = backoff.next_wait();
                let error = anyhow::Error::new(error);
                tracing::warn!("the wallet ledger waits {wait:?} and tries again: {error:#}");
                thread::park_timeout(wait);
            }
        }
    }
}
