//! Who goes next, and what goes wrong.

use super::choices::{Choices, Decision, PendingCall, UnitState};
use crate::version::Versions;

/// Decides what happens next in a simulation.
pub trait Schedule {
    /// The next decision, while at least one actor waits; `None` ends the run.
    fn next(&mut self, choices: &Choices) -> Option<Decision>;
}

/// Every actor in turn, one piece each, without faults.
#[derive(Debug, Default)]
pub struct RoundRobin {
    last: usize,
}

impl Schedule for RoundRobin {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let later = choices.calls.iter().find(|call| call.actor > self.last);
        let call = later.or_else(|| choices.calls.first())?;
        self.last = call.actor;
        Some(Decision::Step { actor: call.actor, unit: call.next_unit() })
    }
}

/// One actor stops after so many of its steps, until all others have ended; then it comes back.
/// The others take turns. For `after` from 0 on this stalls an actor at every step: the run that
/// never stalls, see [`Stall::has_stalled`], is the last.
#[derive(Debug)]
pub struct Stall {
    actor: usize,
    after: usize,
    pass_ms: u64,
    has_stalled: bool,
    has_passed: bool,
    others: RoundRobin,
}

impl Stall {
    /// Stalls `actor` after `after` of its steps; `pass_ms` pass before it comes back.
    #[must_use]
    pub fn new(actor: usize, after: usize, pass_ms: u64) -> Self {
        let others = RoundRobin::default();
        Self { actor, after, pass_ms, has_stalled: false, has_passed: false, others }
    }

    /// Whether the actor was still at work then.
    #[must_use]
    pub fn has_stalled(&self) -> bool {
        self.has_stalled
    }
}

impl Schedule for Stall {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let own = choices.calls.iter().find(|call| call.actor == self.actor);
        if let Some(own) = own.filter(|own| own.taken < self.after && !self.has_stalled) {
            // Alone up to there, so that the number of steps says where it stalls.
            return Some(Decision::Step { actor: own.actor, unit: own.next_unit() });
        }
        self.has_stalled |= own.is_some();
        let mut others = choices.clone();
        others.calls.retain(|call| call.actor != self.actor);
        if let Some(decision) = self.others.next(&others) {
            return Some(decision);
        }
        if !self.has_passed && self.pass_ms > 0 {
            self.has_passed = true;
            return Some(Decision::Advance { ms: self.pass_ms });
        }
        own.map(|own| Decision::Step { actor: own.actor, unit: own.next_unit() })
    }
}

/// What can go wrong with a step of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its answer is lost.
    LoseAnswer,
    /// It is delayed until all actors have ended, or for ever if that is never delivered.
    Delay,
    /// It is refused.
    Refuse,
    /// The actor crashes before it.
    Crash,
    /// All shards lose what no barrier covers.
    FailOver,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] =
        [Self::LoseAnswer, Self::Delay, Self::Refuse, Self::Crash, Self::FailOver];
}

/// One fault at one step of one actor, on top of another schedule. For `after` from 0 on it strikes
/// at every step; the first run in which it does not strike, see [`Once::has_struck`], is the last.
pub struct Once<S> {
    actor: usize,
    after: usize,
    fault: Fault,
    has_struck: bool,
    inner: S,
}

impl<S: Schedule> Once<S> {
    /// Lets `fault` strike `actor` after `after` of its steps.
    pub fn new(actor: usize, after: usize, fault: Fault, inner: S) -> Self {
        Self { actor, after, fault, has_struck: false, inner }
    }

    /// Whether the actor was still at work then.
    pub fn has_struck(&self) -> bool {
        self.has_struck
    }
}

impl<S: Schedule> Schedule for Once<S> {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let own = choices.calls.iter().find(|call| call.actor == self.actor);
        if !self.has_struck
            && let Some(own) = own.filter(|own| own.taken >= self.after)
        {
            let (actor, unit) = (own.actor, own.next_unit());
            let decision = match self.fault {
                Fault::LoseAnswer => Decision::LoseAnswer { actor, unit },
                Fault::Delay => Decision::Delay { actor, unit },
                Fault::Refuse => Decision::Refuse { actor, unit },
                Fault::Crash => Decision::Crash { actor },
                // One shard after the other, then go on.
                Fault::FailOver => match choices.unacknowledged.first() {
                    Some(&(shard, _)) => return Some(Decision::FailOver { shard, keep: 0 }),
                    None => Decision::Step { actor, unit },
                },
            };
            self.has_struck = true;
            return Some(decision);
        }
        self.inner.next(choices)
    }
}

/// How often things go wrong, in steps of a thousand.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Answers lost.
    pub lose_answer: u32,
    /// Writes delayed.
    pub delay: u32,
    /// Pieces refused.
    pub refuse: u32,
    /// Actors that crash.
    pub crash: u32,
    /// Shards that fail over.
    pub fail_over: u32,
    /// Times that the clock jumps by up to [`Rates::jump_ms_max`].
    pub jump: u32,
    /// Greatest jump of the clock.
    pub jump_ms_max: u64,
}

impl Rates {
    /// Only the order is random.
    pub const NONE: Self = Self {
        lose_answer: 0,
        delay: 0,
        refuse: 0,
        crash: 0,
        fail_over: 0,
        jump: 0,
        jump_ms_max: 1,
    };
    /// Everything goes wrong now and then.
    pub const ALL: Self = Self {
        lose_answer: 20,
        delay: 20,
        refuse: 20,
        crash: 5,
        fail_over: 20,
        jump: 10,
        jump_ms_max: 60_000,
    };
}

/// A random order with random faults, the same for the same seed.
#[derive(Debug)]
pub struct RandomSchedule {
    random: Versions,
    rates: Rates,
    /// The actor that goes on by preference, so that long stalls are not rare.
    favourite: usize,
}

impl RandomSchedule {
    /// A schedule of this seed.
    #[must_use]
    pub fn new(seed: u64, rates: Rates) -> Self {
        Self { random: Versions::seeded(seed), rates, favourite: 0 }
    }

    /// A number below `bound`.
    fn below(&self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.random.next_u64() % bound).unwrap_or_default()
    }

    fn strikes(&self, rate: u32) -> bool {
        self.below(1_000) < rate as usize
    }

    fn open_unit(&self, call: &PendingCall) -> usize {
        let open = |unit: &usize| call.units[*unit] != UnitState::Answered;
        let open: Vec<usize> = (0..call.units.len()).filter(open).collect();
        open[self.below(open.len())]
    }
}

impl Schedule for RandomSchedule {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        if self.strikes(self.rates.jump) {
            let bound = usize::try_from(self.rates.jump_ms_max).unwrap_or(usize::MAX);
            return Some(Decision::Advance { ms: self.below(bound) as u64 + 1 });
        }
        if choices.delayed > 0 && self.strikes(100) {
            return Some(Decision::Deliver { delayed: self.below(choices.delayed) });
        }
        if !choices.unacknowledged.is_empty() && self.strikes(self.rates.fail_over) {
            let (shard, count) = choices.unacknowledged[self.below(choices.unacknowledged.len())];
            return Some(Decision::FailOver { shard, keep: self.below(count + 1) });
        }
        if self.strikes(150) {
            self.favourite = choices.calls.get(self.below(choices.calls.len()))?.actor;
        }
        let favourite = choices.calls.iter().find(|call| call.actor == self.favourite);
        let any = &choices.calls[self.below(choices.calls.len())];
        let call = favourite.filter(|_| self.strikes(700)).unwrap_or(any);
        let (actor, unit) = (call.actor, self.open_unit(call));
        Some(match () {
            () if self.strikes(self.rates.crash) => Decision::Crash { actor },
            () if self.strikes(self.rates.lose_answer) => Decision::LoseAnswer { actor, unit },
            () if self.strikes(self.rates.delay) => Decision::Delay { actor, unit },
            () if self.strikes(self.rates.refuse) => Decision::Refuse { actor, unit },
            () => Decision::Step { actor, unit },
        })
    }
}
