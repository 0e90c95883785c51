//! Following beside the server, on a thread of its own.
//!
//! # Invariants
//!
//! * Whatever fails, a panic included, the server goes on: the thread waits, longer and longer, and
//!   tries again. Health is told.
//! * When it is stopped, it ends after the block in hand.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use utxokeep_chains::cardano::Backoff;
use utxokeep_kv::Kv;

use super::{Step, WalletFollowError, WalletFollower, meter};
use crate::wallets::FollowerState;

/// The longest wait after a failure.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// A thread that keeps the ledger at the tip of the chain database. Dropping it ends the thread
/// after the block in hand.
#[derive(Debug)]
pub(crate) struct WalletFollowing {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    state: FollowerState,
}

impl WalletFollowing {
    /// Starts to follow; `poll` is the pause between two looks at the tip.
    pub(crate) fn start<K: Kv + 'static>(
        follower: WalletFollower<K>,
        poll: Duration,
        state: FollowerState,
    ) -> io::Result<Self> {
        crate::rest::install_recorder();
        meter::describe();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        let told = state.clone();
        let thread = thread::Builder::new()
            .name("wallet-follow".to_owned())
            .spawn(move || run(follower, poll, &told, &|| flag.load(Ordering::Acquire)))?;
        state.set_running(true);
        Ok(Self { is_stopped, thread: Some(thread), state })
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
        self.state.set_running(false);
    }
}

/// Why an attempt came to nothing.
enum Failed {
    Refused(WalletFollowError),
    Panicked(String),
}

/// Runs one attempt. A panic is a defect of the program; what it was about to write is undone with its
/// transaction, so that trying again is safe.
fn attempt(work: impl FnOnce() -> Result<Step, WalletFollowError>) -> Result<Step, Failed> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failed::Refused),
        Err(panic) => Err(Failed::Panicked(message(&*panic))),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("following panicked, which is a defect: {}", text.unwrap_or("no message"))
}

fn run<K: Kv>(
    mut follower: WalletFollower<K>,
    poll: Duration,
    state: &FollowerState,
    is_stopped: &dyn Fn() -> bool,
) {
    let mut backoff = Backoff::new(poll, RETRY_WAIT_MAX.max(poll));
    let mut is_held_up = false;
    let mut is_behind = true;
    let mut held_up = None;
    let mut waits_on_branch = false;
    while !is_stopped() {
        match attempt(|| follower.step(is_stopped)) {
            Ok(step) => {
                backoff.reset();
                match step.hindrance() {
                    Some(reason) => state.held_up(reason),
                    None => state.goes_on(),
                }
                if std::mem::take(&mut is_held_up) {
                    tracing::warn!("the wallet ledger goes on");
                }
                if step.rescan_held_up != held_up {
                    if let Some(reason) = &step.rescan_held_up {
                        tracing::warn!("a rescan does not get on, and is tried again: {reason}");
                    }
                    held_up.clone_from(&step.rescan_held_up);
                }
                if step.worse_branch.is_some() != waits_on_branch {
                    waits_on_branch = step.worse_branch.is_some();
                    if let Some(reason) = step.hindrance().filter(|_| waits_on_branch) {
                        tracing::warn!("{reason}");
                    } else {
                        tracing::info!("the chain database is on the ledger's branch");
                    }
                }
                if step.is_done {
                    if is_behind
                        && !waits_on_branch
                        && let Some(height) = step.ledger
                    {
                        tracing::info!(%height, "the wallet ledger is at the tip");
                    }
                    thread::park_timeout(poll);
                }
                is_behind = !step.is_done;
            }
            Err(_) if is_stopped() => {}
            Err(failed) => {
                is_held_up = true;
                let wait = backoff.next_wait();
                match failed {
                    Failed::Refused(error) => {
                        meter::failed(error.reason());
                        let reason = format!("{:#}", anyhow::Error::new(error));
                        tracing::warn!("the wallet ledger waits {wait:?}, tries again: {reason}");
                        state.held_up(reason);
                    }
                    Failed::Panicked(reason) => {
                        meter::failed("panic");
                        tracing::error!("the wallet ledger waits {wait:?}, tries again: {reason}");
                        state.broke_down(reason);
                    }
                }
                thread::park_timeout(wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_attempt_that_failed() {
        let overflow = || -> Result<Step, WalletFollowError> { panic!("number {}", 7) };
        let Err(Failed::Panicked(reason)) = attempt(overflow) else { panic!("it went on") };
        assert!(reason.ends_with("number 7"), "{reason}");
        let refused = attempt(|| Err(WalletFollowError::NotFollowed));
        assert!(matches!(refused, Err(Failed::Refused(WalletFollowError::NotFollowed))));
    }
}
