//! Every schedule up to a bound, one after the other.

use super::{
    choices::{Choices, Decision, UnitState},
    schedule::Schedule,
};

/// How far to search.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often an actor that could go on is left for another. Where an actor ends, or
    /// pauses, changing to another is free.
    pub preemptions_max: usize,
    /// Faults in one run: answers lost, writes delayed, crashes, shards that fail over.
    pub faults_max: usize,
    /// Runs; the search stops short of the rest.
    pub runs_max: usize,
}

/// Walks through all schedules within a [`Plan`], depth first. Each run replays the decisions of the
/// one before, up to the last that has an alternative left.
///
/// ```ignore
/// let mut explorer = Explorer::new(plan);
/// while explorer.begin() {
///     let mut simulation = Simulation::new(1);
///     // ... spawn actors
///     let trace = simulation.run(&mut explorer);
///     // ... check what came of it
/// }
/// ```
#[derive(Debug)]
pub struct Explorer {
    plan: Plan,
    /// For each step: which of how many alternatives was taken.
    path: Vec<(usize, usize)>,
    place: usize,
    runs: usize,
    last: Option<usize>,
    preemptions: usize,
    faults: usize,
}

impl Explorer {
    /// A search that has not begun.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let (path, place, runs) = (Vec::new(), 0, 0);
        Self { plan, path, place, runs, last: None, preemptions: 0, faults: 0 }
    }

    /// Turns to the next schedule; false when there is none left, or the runs are used up.
    pub fn begin(&mut self) -> bool {
        if self.runs > 0 {
            // A run may have ended before the path did.
            self.path.truncate(self.place);
            while let Some((taken, count)) = self.path.pop() {
                if taken + 1 < count {
                    self.path.push((taken + 1, count));
                    break;
                }
            }
            if self.path.is_empty() {
                return false;
            }
        }
        if self.runs >= self.plan.runs_max {
            return false;
        }
        self.runs += 1;
        (self.place, self.last, self.preemptions, self.faults) = (0, None, 0, 0);
        true
    }

    /// Runs so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// What may come next, the plain course first; with what it costs in preemptions and faults.
    fn alternatives(&self, choices: &Choices) -> Vec<(Decision, usize, usize)> {
        let mut found = Vec::new();
        let own = choices.calls.iter().find(|call| Some(call.actor) == self.last);
        let goes_on = own.is_some_and(|own| !own.is_pause);
        let mut calls: Vec<_> = choices.calls.iter().collect();
        // Who waits lets the others go first; otherwise it would wait for ever.
        calls.sort_by_key(|call| (call.is_pause, Some(call.actor) != self.last, call.actor));
        for call in &calls {
            let actor = call.actor;
            let cost = usize::from(goes_on && Some(actor) != self.last);
            let open = (0..call.units.len()).filter(|&at| call.units[at] != UnitState::Answered);
            for unit in open {
                found.push((Decision::Step { actor, unit }, cost, 0));
            }
        }
        for call in calls {
            let (actor, unit) = (call.actor, call.next_unit());
            let cost = usize::from(goes_on && Some(actor) != self.last);
            if call.is_write {
                found.push((Decision::LoseAnswer { actor, unit }, cost, 1));
                found.push((Decision::Delay { actor, unit }, cost, 1));
            }
            found.push((Decision::Crash { actor }, cost, 1));
        }
        for &(shard, _) in &choices.unacknowledged {
            found.push((Decision::FailOver { shard, keep: 0 }, 0, 1));
        }
        for delayed in 0..choices.delayed {
            found.push((Decision::Deliver { delayed }, 0, 0));
        }
        found.retain(|(_, preemptions, faults)| {
            self.preemptions + preemptions <= self.plan.preemptions_max
                && self.faults + faults <= self.plan.faults_max
        });
        found
    }
}

impl Schedule for Explorer {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let alternatives = self.alternatives(choices);
        if self.place == self.path.len() {
            self.path.push((0, alternatives.len()));
        }
        let (taken, _) = self.path[self.place];
        self.place += 1;
        let &(decision, preemptions, faults) = alternatives.get(taken)?;
        self.preemptions += preemptions;
        self.faults += faults;
        if let Decision::Step { actor, .. } = decision {
            self.last = Some(actor);
        }
        Some(decision)
    }
}
