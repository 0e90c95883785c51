//! The gate: a run waits until the node is in a state in which deleting is safe, or is skipped.

use std::fmt;

use utxokeep_core::{
    Height,
    node::{ClaimGap, GateRules, Heights, Waiting},
};
use utxokeep_txstore::StoreError;

use crate::{clock::Clock, control::Control, settings::PrunerSettings};

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
    /// The height lies above the newest that is safe.
    Ahead = "ahead_of_chain";
    /// What the node said could not be read.
    NodeUnknown = "node_unknown";
    /// The node is catching up, or has not said since a restart that it is not.
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

/// What the gate asks: what the node said last, as the store remembers it, also from before a
/// restart.
pub type AskNode<'a> = dyn Fn() -> Result<Heights, StoreError> + 'a;

/// Waits until a run at this height may start, or says why it may not.
pub fn wait_at_gate(
    ask: &AskNode<'_>,
    rules: &GateRules,
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
    let is_safe = || {
        let heights = ask().map_err(|_| SkipReason::NodeUnknown)?;
        let safe = heights.safe(settings.trigger.needs_persister());
        if safe < Some(height) { Err(SkipReason::Ahead) } else { Ok(heights) }
    };
    if is_safe()?.may_catch_up(rules.since) && settings.skip_during_catch_up {
        return Err(SkipReason::CatchingUp);
    }
    let poll = Poll { clock, control, every_ms: settings.gate_poll_ms };
    poll.until(settings.mined_set_wait_ms, SkipReason::MinedSetTimeout, || {
        let gap = ask().map(|heights| heights.marks_gap(height, rules));
        is_open(gap, Waiting::MinedSet)
    })?;
    poll.until(settings.assembly_wait_ms, SkipReason::AssemblyTimeout, || {
        let gap = ask().map(|heights| heights.assembly_gap(height, rules));
        is_open(gap, Waiting::Assembly)
    })?;
    // The chain may have gone back meanwhile.
    is_safe().map(|_| ())
}

/// Whether nothing is missing, or else in words what the run waits for.
fn is_open(
    gap: Result<Option<ClaimGap>, StoreError>,
    waiting: impl Fn(ClaimGap) -> Waiting,
) -> Result<(), String> {
    match gap {
        Ok(None) => Ok(()),
        Ok(Some(gap)) => Err(waiting(gap).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Asks again and again, until a time limit. What the run waits for is logged when it changes.
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
        is_open: impl Fn() -> Result<(), String>,
    ) -> Result<(), SkipReason> {
        let started = self.clock.now_ms();
        let mut told = String::new();
        while let Err(waits_for) = is_open() {
            if waits_for != told {
                tracing::info!(%waits_for, "a run waits");
                told = waits_for;
            }
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
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use utxokeep_core::node::{Assembly, ChainReport};

    use super::*;
    use crate::trigger::TriggerMode;

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

    /// What a node says, and may say anew.
    struct Node(Mutex<Heights>);

    impl Node {
        /// One whose chain has this height.
        fn at(height: u32) -> Self {
            Self(Mutex::new(Heights::of_block_state(Height::new(height))))
        }

        fn say(&self, report: ChainReport) {
            let _ = self.0.lock().unwrap().take(report, None, JUMP);
        }

        fn pass(&self, settings: &PrunerSettings, clock: &Fake<'_>) -> Result<(), SkipReason> {
            let ask = || Ok(*self.0.lock().unwrap());
            let control = Control::default();
            let rules = settings.gate_rules(JUMP, None);
            wait_at_gate(&ask, &rules, clock, settings, &control, Height::new(9))
        }

        fn is_open(&self) -> Result<(), SkipReason> {
            self.pass(&PrunerSettings::default(), &Fake::default())
        }
    }

    const JUMP: u32 = 144;

    #[test]
    fn no_run_starts_at_or_below_the_minimum_height() {
        let node = Node::at(9);
        for (min_height, expected) in
            [(8, Ok(())), (9, Err(SkipReason::BelowMinHeight)), (0, Ok(()))]
        {
            let settings = PrunerSettings { min_height, ..PrunerSettings::default() };
            assert_eq!(node.pass(&settings, &Fake::default()), expected);
        }
    }

    #[test]
    fn nobody_runs_above_the_newest_block_or_what_is_persisted() {
        assert_eq!(Node::at(8).is_open(), Err(SkipReason::Ahead));
        let node = Node::at(10);
        assert_eq!(node.is_open(), Ok(()));
        let trigger = TriggerMode::BlockPersisted;
        let settings = PrunerSettings { trigger, ..PrunerSettings::default() };
        assert_eq!(node.pass(&settings, &Fake::default()), Err(SkipReason::Ahead));
        node.say(ChainReport::Persisted(Height::new(8)));
        assert_eq!(node.is_open(), Err(SkipReason::Ahead));
        node.say(ChainReport::Persisted(Height::new(9)));
        assert_eq!(node.is_open(), Ok(()));
        assert_eq!(Node(Mutex::default()).is_open(), Err(SkipReason::Ahead), "no height is known");
    }

    #[test]
    fn the_chain_may_go_back_while_a_run_waits() {
        let node = Node::at(9);
        node.say(ChainReport::MinedSet(Height::new(8)));
        let then = || {
            node.say(ChainReport::Reorganised(Height::new(7)));
            node.say(ChainReport::MinedSet(Height::new(9)));
        };
        let clock = Fake { at: 2_000, then: Some(&then), ..Fake::default() };
        let settings = PrunerSettings::default();
        assert_eq!(node.pass(&settings, &clock), Err(SkipReason::Ahead));
    }

    #[test]
    fn a_run_waits_for_the_marks_of_its_block_and_is_skipped_at_the_limit() {
        let node = Node::at(9);
        assert_eq!(node.is_open(), Ok(()));
        let strict = PrunerSettings { requires_mined_set: true, ..PrunerSettings::default() };
        let answer = node.pass(&strict, &Fake::default());
        assert_eq!(answer, Err(SkipReason::MinedSetTimeout), "closed until the first report");
        node.say(ChainReport::MinedSet(Height::new(8)));
        let clock = Fake::default();
        let answer = node.pass(&PrunerSettings::default(), &clock);
        assert_eq!(answer, Err(SkipReason::MinedSetTimeout));
        assert_eq!(clock.now_ms(), 600_000, "the limit is kept to");
        let then = || node.say(ChainReport::MinedSet(Height::new(9)));
        let clock = Fake { at: 2_000, then: Some(&then), ..Fake::default() };
        assert_eq!(node.pass(&PrunerSettings::default(), &clock), Ok(()));
        assert_eq!(clock.now_ms(), 2_000);
        node.say(ChainReport::MinedSet(Height::new(u32::MAX)));
        assert_eq!(node.is_open(), Err(SkipReason::MinedSetTimeout), "nobody marks what is not");
    }

    #[test]
    fn block_assembly_must_run_and_have_caught_up() {
        let node = Node::at(9);
        let strict = PrunerSettings { requires_assembly_state: true, ..PrunerSettings::default() };
        let answer = node.pass(&strict, &Fake::default());
        assert_eq!(answer, Err(SkipReason::AssemblyTimeout), "closed until the first report");
        for (is_running, height, expected) in [
            (true, 9, Ok(())),
            (true, 8, Err(SkipReason::AssemblyTimeout)),
            (false, 9, Err(SkipReason::AssemblyTimeout)),
            (true, u32::MAX, Err(SkipReason::AssemblyTimeout)),
        ] {
            let height = Height::new(height);
            node.say(ChainReport::Assembly(Assembly { is_running, height }));
            assert_eq!(node.is_open(), expected);
        }
    }

    #[test]
    fn a_node_that_catches_up_is_skipped_where_so_configured() {
        let node = Node::at(9);
        let careful = PrunerSettings { skip_during_catch_up: true, ..PrunerSettings::default() };
        node.say(ChainReport::CatchingUp(true));
        assert_eq!(node.is_open(), Ok(()), "nobody asked for it");
        assert_eq!(node.pass(&careful, &Fake::default()), Err(SkipReason::CatchingUp));
        node.say(ChainReport::CatchingUp(false));
        assert_eq!(node.pass(&careful, &Fake::default()), Ok(()));
        node.say(ChainReport::Restarted);
        assert_eq!(node.pass(&careful, &Fake::default()), Err(SkipReason::CatchingUp));
    }

    #[test]
    fn after_a_restart_the_gate_waits_for_what_was_ever_reported() {
        let running = Assembly { is_running: true, height: Height::new(9) };
        for (report, timeout) in [
            (ChainReport::MinedSet(Height::new(9)), SkipReason::MinedSetTimeout),
            (ChainReport::Assembly(running), SkipReason::AssemblyTimeout),
        ] {
            let node = Node::at(9);
            node.say(ChainReport::Restarted);
            assert_eq!(node.is_open(), Ok(()), "nobody ever reported");
            node.say(report);
            assert_eq!(node.is_open(), Ok(()));
            node.say(ChainReport::Restarted);
            assert_eq!(node.is_open(), Err(timeout));
            node.say(report);
            assert_eq!(node.is_open(), Ok(()));
        }
    }

    #[test]
    fn what_cannot_be_read_never_lets_a_run_pass() {
        let settings = PrunerSettings::default();
        let (clock, control) = (Fake::default(), Control::default());
        let dead = || Err(StoreError::Contended);
        let rules = settings.gate_rules(JUMP, None);
        let pass = || wait_at_gate(&dead, &rules, &clock, &settings, &control, Height::new(9));
        assert_eq!(pass(), Err(SkipReason::NodeUnknown));
        let node = Node::at(9);
        node.say(ChainReport::MinedSet(Height::new(8)));
        let ask = || Ok(*node.0.lock().unwrap());
        let pass = || wait_at_gate(&ask, &rules, &clock, &settings, &control, Height::new(9));
        control.cancel();
        assert_eq!(pass(), Err(SkipReason::Cancelled));
        control.set_paused(true);
        assert_eq!(pass(), Err(SkipReason::Paused));
    }
}
