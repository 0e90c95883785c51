//! Consumers of the chain log: parts of the program that follow the chain, each from its own cursor.
//!
//! # Invariants
//!
//! * A consumer has a thread of its own. Whatever fails in it, a panic included, is its own: the
//!   thread waits, longer and longer, and tries again, and nobody else notices. Health is told.
//! * A consumer is woken when the tip moves; it does not ask for it again and again.
//! * When it is stopped, it ends after the block that it works on.

mod pruner;
mod state;

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

use metrics::counter;
use utxokeep_chains::Backoff;
use utxokeep_core::metric_list;
use utxokeep_index::TipSignal;

pub(crate) use self::pruner::{Others, PrunerConsumer, Seen};
pub use self::state::FollowerState;

/// The wait after the first failure; it doubles with each further one.
const RETRY_WAIT_FIRST: Duration = Duration::from_millis(500);

/// The longest wait after a failure.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

metric_list! {
    FAILURES = "utxokeep_log_consumer_failures_total", Counter, "",
        "Attempts of a consumer of the chain log that failed, by `consumer`.";
}

/// A part of the program that follows the chain log.
pub(crate) trait LogConsumer: Send + 'static {
    /// Its name in health, metrics and logs.
    fn name(&self) -> &'static str;

    /// Reads on from its own cursor by some blocks.
    fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Stepped, StepFailed>;
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stepped {
    /// Nothing is left to do until the tip moves.
    pub is_done: bool,
    /// What the consumer waits for, for people.
    pub hindrance: Option<String>,
}

/// Why a step failed, with its causes, for people.
#[derive(Debug)]
pub(crate) struct StepFailed(pub(crate) String);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for StepFailed {
    fn from(error: E) -> Self {
        Self(format!("{:#}", anyhow::Error::new(error)))
    }
}

/// The thread of a consumer. Dropping it ends the thread after the block that it works on.
#[derive(Debug)]
pub struct ConsumerThread {
    is_stopped: Arc<AtomicBool>,
    signal: TipSignal,
    thread: Option<JoinHandle<()>>,
    state: FollowerState,
}

impl ConsumerThread {
    /// Starts to follow. `look_after` is how long a consumer that is done sleeps at the most, for
    /// work that does not come from the log.
    pub(crate) fn start(
        consumer: impl LogConsumer,
        signal: &TipSignal,
        look_after: Duration,
        state: FollowerState,
    ) -> io::Result<Self> {
        crate::meters::describe(METRICS);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (flag, told, woken_by) = (Arc::clone(&is_stopped), state.clone(), signal.clone());
        let name = format!("log-{}", consumer.name());
        counter!(FAILURES, "consumer" => consumer.name()).increment(0);
        let thread = thread::Builder::new().name(name).spawn(move || {
            run(consumer, &woken_by, look_after, &told, &|| flag.load(Ordering::Acquire));
        })?;
        state.set_running(true);
        Ok(Self { is_stopped, signal: signal.clone(), thread: Some(thread), state })
    }
}

impl Drop for ConsumerThread {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        self.signal.raise();
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread of a consumer of the chain log broke down");
        }
        self.state.set_running(false);
    }
}

/// Why an attempt came to nothing.
enum Failed {
    Refused(StepFailed),
    Panicked(String),
}

/// Runs one attempt. A panic is a defect of the program; what it was about to write is undone with
/// its transaction, so that trying again is safe.
fn attempt(work: impl FnOnce() -> Result<Stepped, StepFailed>) -> Result<Stepped, Failed> {
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

fn run(
    mut consumer: impl LogConsumer,
    signal: &TipSignal,
    look_after: Duration,
    state: &FollowerState,
    is_stopped: &dyn Fn() -> bool,
) {
    let name = consumer.name();
    let mut backoff = Backoff::new(RETRY_WAIT_FIRST, RETRY_WAIT_MAX);
    let mut is_held_up = false;
    while !is_stopped() {
        let seen = signal.count();
        match attempt(|| consumer.step(is_stopped)) {
            Ok(stepped) => {
                backoff.reset();
                match stepped.hindrance {
                    Some(reason) => state.held_up(reason),
                    None => state.goes_on(),
                }
                if std::mem::take(&mut is_held_up) {
                    tracing::warn!(consumer = name, "the consumer of the chain log resumes");
                }
                if stepped.is_done && !is_stopped() {
                    let _ = signal.wait(seen, look_after);
                }
            }
            Err(_) if is_stopped() => {}
            Err(failed) => {
                is_held_up = true;
                counter!(FAILURES, "consumer" => name).increment(1);
                let wait = backoff.next_wait();
                match failed {
                    Failed::Refused(StepFailed(reason)) => {
                        tracing::warn!(consumer = name, "failed, retries in {wait:?}: {reason}");
                        state.held_up(reason);
                    }
                    Failed::Panicked(reason) => {
                        tracing::error!(consumer = name, "failed, retries in {wait:?}: {reason}");
                        state.broke_down(reason);
                    }
                }
                if !is_stopped() {
                    thread::park_timeout(wait);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Fails, panics, then succeeds and waits to be woken.
    struct Moody {
        steps: Arc<AtomicU32>,
    }

    impl LogConsumer for Moody {
        fn name(&self) -> &'static str {
            "moody"
        }

        fn step(&mut self, _: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
            match self.steps.fetch_add(1, Ordering::SeqCst) {
                0 => Err(StepFailed("no disk".to_owned())),
                1 => panic!("a defect"),
                _ => Ok(Stepped { is_done: true, hindrance: None }),
            }
        }
    }

    #[test]
    fn a_consumer_that_fails_or_panics_is_tried_again_woken_by_the_tip_and_ends_when_told() {
        let (steps, signal, state) =
            (Arc::new(AtomicU32::new(0)), TipSignal::default(), FollowerState::default());
        let consumer = Moody { steps: Arc::clone(&steps) };
        let forever = Duration::from_secs(3_600);
        let thread = ConsumerThread::start(consumer, &signal, forever, state.clone()).unwrap();
        let until = |count: u32| {
            while steps.load(Ordering::SeqCst) < count {
                thread::sleep(Duration::from_millis(5));
            }
        };
        until(1);
        until(2);
        until(3);
        while state.fault(Duration::ZERO).is_some() {
            thread::sleep(Duration::from_millis(5));
        }
        // It sleeps until the tip moves.
        signal.raise();
        until(4);
        assert!(state.runs());
        drop(thread);
        assert!(!state.runs());
    }
}
