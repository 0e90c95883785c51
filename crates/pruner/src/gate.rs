//! The gate: a run waits until the node is in a state in which deleting is safe, or is skipped.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use utxokeep_core::Height;

use crate::{clock::Clock, control::Control, settings::PrunerSettings};

/// What block assembly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assembly {
    /// It runs, and is not in the middle of a reorganisation or a reset.
    pub is_running: bool,
    /// Height it has reached.
    pub height: Height,
}

/// The node could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node does not answer: {0}")]
pub struct GateError(pub String);

/// What the gate asks the node. `None` means that there is nobody to ask, which lets runs pass.
pub trait Gate: Send + Sync {
    /// Whether the node is catching up with the chain.
    fn is_catching_up(&self) -> Result<Option<bool>, GateError>;

    /// Whether all transactions of the block at this height are marked as mined.
    fn is_mined_set(&self, height: Height) -> Result<Option<bool>, GateError>;

    /// The state of block assembly.
    fn assembly(&self) -> Result<Option<Assembly>, GateError>;
}

/// A node without these services: runs always pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn is_catching_up(&self) -> Result<Option<bool>, GateError> {
        Ok(None)
    }

    fn is_mined_set(&self, _height: Height) -> Result<Option<bool>, GateError> {
        Ok(None)
    }

    fn assembly(&self) -> Result<Option<Assembly>, GateError> {
        Ok(None)
    }
}

#[derive(Debug, Default)]
struct Pushed {
    is_catching_up: Option<bool>,
    mined_set: Option<Height>,
    assembly: Option<Assembly>,
}

/// What others told us, as events.
#[derive(Debug, Default)]
pub struct PushedGate(Mutex<Pushed>);

impl PushedGate {
    fn state(&self) -> MutexGuard<'_, Pushed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node started or stopped catching up.
    pub fn set_catching_up(&self, is_catching_up: bool) {
        self.state().is_catching_up = Some(is_catching_up);
    }

    /// Transactions of all blocks up to this height are marked as mined.
    pub fn set_mined_set(&self, height: Height) {
        self.state().mined_set = Some(height);
    }

    /// Block assembly changed its state.
    pub fn set_assembly(&self, assembly: Assembly) {
        self.state().assembly = Some(assembly);
    }
}

impl Gate for PushedGate {
    fn is_catching_up(&self) -> Result<Option<bool>, GateError> {
        Ok(self.state().is_catching_up)
    }

    fn is_mined_set(&self, height: Height) -> Result<Option<bool>, GateError> {
        Ok(self.state().mined_set.map(|reached| reached >= height))
    }

    fn assembly(&self) -> Result<Option<Assembly>, GateError> {
        Ok(self.state().assembly)
    }
}

macro_rules! skips {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)+) => {
        /// Why there was no run for a height. Names are stable: metrics go by them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum SkipReason {
            $($(#[$doc])* $variant,)+
        }

        impl SkipReason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in metrics and answers.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

skips! {
    /// The height is not above `min_height`.
    BelowMinHeight = "below_min_height";
    /// Somebody paused the pruner.
    Paused = "paused";
    /// The node does not say in what state it is.
    NodeUnknown = "node_unknown";
    /// The node is catching up.
    CatchingUp = "catching_up";
    /// The block was not marked as mined in time.
    MinedSetTimeout = "mined_set_timeout";
    /// Block assembly did not run, or did not reach the height, in time.
    AssemblyTimeout = "assembly_timeout";
    /// Somebody cancelled while the run waited.
    Cancelled = "cancelled";
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Waits until a run at this height may start, or says why it may not.
pub fn wait_at_gate(
    gate: &dyn Gate,
    clock: &dyn Clock,
    settings: &PrunerSettings,
    control: &Control,
    height: Height,
) -> Result<(), SkipReason> {
    if settings.min_height > 0 && height.get() <= settings.min_height {
        return Err(SkipReason::BelowMinHeight);
    }
    if control.is_paused() {
        return Err(SkipReason::Paused);
    }
    if settings.skip_during_catch_up {
        match gate.is_catching_up() {
            Ok(None | Some(false)) => {}
            Ok(Some(true)) => return Err(SkipReason::CatchingUp),
            Err(_) => return Err(SkipReason::NodeUnknown),
        }
    }
    let poll = Poll { clock, control, every_ms: settings.gate_poll_ms };
    poll.until(settings.mined_set_wait_ms, SkipReason::MinedSetTimeout, || {
        matches!(gate.is_mined_set(height), Ok(None | Some(true)))
    })?;
    poll.until(settings.assembly_wait_ms, SkipReason::AssemblyTimeout, || match gate.assembly() {
        Ok(None) => true,
        Ok(Some(assembly)) => assembly.is_running && assembly.height >= height,
        Err(_) => false,
    })
}

/// Asks again and again, until a time limit.
struct Poll<'p> {
    clock: &'p dyn Clock,
    control: &'p Control,
    every_ms: u64,
}

impl Poll<'_> {
    fn until(
        &self,
        wait_ms: u64,
        timeout: SkipReason,
        is_open: impl Fn() -> bool,
    ) -> Result<(), SkipReason> {
        let started = self.clock.now_ms();
        while !is_open() {
            if self.control.is_cancelled() {
                return Err(SkipReason::Cancelled);
            }
            let waited = self.clock.now_ms().saturating_sub(started);
            if waited >= wait_ms {
                return Err(timeout);
            }
            self.clock.sleep_ms(self.every_ms.min(wait_ms - waited));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Time that passes by sleeping only; after some of it the gate changes.
    #[derive(Default)]
    struct Fake<'g> {
        now: AtomicU64,
        at: u64,
        then: Option<&'g (dyn Fn() + Sync)>,
    }

    impl Clock for Fake<'_> {
        fn now_ms(&self) -> u64 {
            self.now.load(Ordering::Relaxed)
        }

        fn sleep_ms(&self, ms: u64) {
            let now = self.now.fetch_add(ms, Ordering::Relaxed) + ms;
            if let Some(then) = self.then.filter(|_| now >= self.at) {
                then();
            }
        }
    }

    fn pass(gate: &dyn Gate, clock: &Fake<'_>, height: u32) -> Result<(), SkipReason> {
        let settings = PrunerSettings { skip_during_catch_up: true, ..PrunerSettings::default() };
        wait_at_gate(gate, clock, &settings, &Control::default(), Height::new(height))
    }

    #[test]
    fn w_min_height() {
        let settings = PrunerSettings { min_height: 100, ..PrunerSettings::default() };
        let control = Control::default();
        let clock = Fake::default();
        let at = |height| wait_at_gate(&OpenGate, &clock, &settings, &control, Height::new(height));
        assert_eq!(at(50), Err(SkipReason::BelowMinHeight));
        assert_eq!(at(100), Err(SkipReason::BelowMinHeight));
        assert_eq!(at(101), Ok(()));
    }

    #[test]
    fn w_mined_set_true_runs_false_until_timeout_skips_nobody_runs() {
        assert_eq!(pass(&OpenGate, &Fake::default(), 9), Ok(()));
        let gate = PushedGate::default();
        gate.set_mined_set(Height::new(8));
        let clock = Fake::default();
        assert_eq!(pass(&gate, &clock, 9), Err(SkipReason::MinedSetTimeout));
        assert_eq!(clock.now_ms(), 600_000, "the limit is kept to");
        let then = || gate.set_mined_set(Height::new(9));
        let clock = Fake { at: 2_000, then: Some(&then), ..Fake::default() };
        assert_eq!(pass(&gate, &clock, 9), Ok(()));
        assert_eq!(clock.now_ms(), 2_000);
    }

    #[test]
    fn w_assembly_must_run_and_have_caught_up() {
        let gate = PushedGate::default();
        for (is_running, height, expected) in [
            (true, 9, Ok(())),
            (true, 8, Err(SkipReason::AssemblyTimeout)),
            (false, 9, Err(SkipReason::AssemblyTimeout)),
        ] {
            gate.set_assembly(Assembly { is_running, height: Height::new(height) });
            assert_eq!(pass(&gate, &Fake::default(), 9), expected);
        }
    }

    #[test]
    fn w_catchup_skips() {
        let gate = PushedGate::default();
        gate.set_catching_up(true);
        assert_eq!(pass(&gate, &Fake::default(), 9), Err(SkipReason::CatchingUp));
        gate.set_catching_up(false);
        assert_eq!(pass(&gate, &Fake::default(), 9), Ok(()));
    }

    #[test]
    fn a_node_that_does_not_answer_never_lets_a_run_pass() {
        struct Dead;
        impl Gate for Dead {
            fn is_catching_up(&self) -> Result<Option<bool>, GateError> {
                Err(GateError("down".to_owned()))
            }
            fn is_mined_set(&self, _height: Height) -> Result<Option<bool>, GateError> {
                Ok(Some(true))
            }
            fn assembly(&self) -> Result<Option<Assembly>, GateError> {
                Err(GateError("down".to_owned()))
            }
        }
        assert_eq!(pass(&Dead, &Fake::default(), 9), Err(SkipReason::NodeUnknown));
        let settings = PrunerSettings::default();
        let (clock, control) = (Fake::default(), Control::default());
        let answer = wait_at_gate(&Dead, &clock, &settings, &control, Height::new(9));
        assert_eq!(answer, Err(SkipReason::AssemblyTimeout));
        control.cancel();
        let answer = wait_at_gate(&Dead, &clock, &settings, &control, Height::new(9));
        assert_eq!(answer, Err(SkipReason::Cancelled));
        control.set_paused(true);
        let answer = wait_at_gate(&Dead, &clock, &settings, &control, Height::new(9));
        assert_eq!(answer, Err(SkipReason::Paused));
    }
}
