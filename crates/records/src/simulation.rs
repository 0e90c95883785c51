//! A store that crashes its users, delays and reorders their writes, loses answers and fails over,
//! step by step and the same each time.
//!
//! Every actor is a thread of its own that runs the code under test. Only one runs at a time: each
//! call of the port stops its actor until a [`Schedule`] lets it go on, so that the same schedule
//! and seed give the same [`Trace`]. A call over several cells is delivered piece by piece, and
//! other actors may act in between.
//!
//! # Invariants
//!
//! * Actors share nothing but the store, start no threads, and wait only by
//!   [`RecordStore::pause_ms`]; otherwise a run depends on the machine.
//! * A run ends after [`SimulationSettings::steps_max`] steps: actors that are not done then crash.

mod actor;
mod choices;
mod explore;
mod schedule;
mod world;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

pub use actor::{Observer, SimulatedRecords};
pub use choices::{Choices, Decision, Grain, PendingCall, SimulationSettings, UnitState};
pub use explore::{Explorer, Plan};
pub use schedule::{Fault, Once, RandomSchedule, Rates, RoundRobin, Schedule, Stall};

use self::{
    actor::{Answer, Call},
    world::World,
};
use crate::version::{Versions, mixed};

/// How long an actor may compute between two calls. Only a mistake takes longer.
const ACTOR_WAIT: Duration = Duration::from_secs(120);

/// What an actor tells the scheduler.
enum Event {
    /// It waits for an answer.
    Calls(Call),
    /// It is done, or has panicked.
    Ended(Result<(), Box<dyn std::any::Any + Send>>),
}

struct Actor {
    answers: Sender<Answer>,
    thread: Option<JoinHandle<()>>,
}

/// Actors over one store with faults.
pub struct Simulation {
    seed: u64,
    world: Arc<Mutex<World>>,
    actors: Vec<Actor>,
    events: Receiver<Event>,
    to_events: Sender<Event>,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// One line for each step, in order.
    pub lines: Vec<String>,
    /// Whether every actor came to its end by itself.
    pub is_complete: bool,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(f, "{number:4} {line}")?;
        }
        let end = if self.is_complete { "all actors ended" } else { "cut off" };
        writeln!(f, "     {end}")
    }
}

impl Simulation {
    /// An empty store and no actors. The seed gives versions; faults are up to the schedule.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(seed, SimulationSettings::default())
    }

    /// The same, with other settings.
    #[must_use]
    pub fn with(seed: u64, settings: SimulationSettings) -> Self {
        let (to_events, events) = channel();
        let world = Arc::new(Mutex::new(World::new(settings)));
        Self { seed, world, actors: Vec::new(), events, to_events }
    }

    /// The store without faults, and outside of the schedule: to prepare a run, and to look at what
    /// came of it. An actor must not have it.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::clone(&self.world))
    }

    /// Adds an actor, which runs up to its first call. It gets the store as it sees it, and versions
    /// of its own. Answers its number, from 0 on.
    pub fn spawn<F>(&mut self, name: &str, work: F) -> usize
    where
        F: FnOnce(SimulatedRecords, Versions) + Send + 'static,
    {
        let number = self.actors.len();
        self.lock().add_actor(name);
        let (answers, from_scheduler) = channel();
        let events = self.to_events.clone();
        let refuses_late_writes = self.lock().settings.refuses_late_writes;
        let versions = Versions::seeded(mixed(self.seed).wrapping_add(number as u64 + 1));
        let thread = std::thread::spawn(move || {
            let store = SimulatedRecords::new(events.clone(), from_scheduler, refuses_late_writes);
            let ended = catch_unwind(AssertUnwindSafe(|| work(store, versions)));
            // Nobody listens any more after a panic of the test itself.
            let _ = events.send(Event::Ended(ended));
        });
        self.actors.push(Actor { answers, thread: Some(thread) });
        self.wait_for(number);
        number
    }

    /// Runs until every actor is done, the schedule has no more decisions, or there were too many
    /// steps. An actor that panics ends the run with its panic, and the trace goes to stderr.
    pub fn run(&mut self, schedule: &mut dyn Schedule) -> Trace {
        loop {
            let choices = self.lock().choices();
            if choices.calls.is_empty() || choices.step >= self.lock().settings.steps_max {
                break;
            }
            let Some(decision) = schedule.next(&choices) else { break };
            let answered = self.lock().decide(decision);
            for (actor, answer) in answered {
                // An actor that waits for an answer is there to take it.
                let _ = self.actors[actor].answers.send(answer);
                self.wait_for(actor);
            }
        }
        let is_complete = self.lock().choices().calls.is_empty();
        self.crash_all();
        Trace { lines: self.lock().lines().to_vec(), is_complete }
    }

    /// Lets every write that was delayed happen after all, in order. Answers how many there were.
    pub fn deliver_delayed(&self) -> usize {
        let mut world = self.lock();
        let count = world.choices().delayed;
        for _ in 0..count {
            // Nobody waits for these.
            drop(world.decide(Decision::Deliver { delayed: 0 }));
        }
        count
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the only actor that runs stops again.
    fn wait_for(&mut self, actor: usize) {
        loop {
            let event = self.events.recv_timeout(ACTOR_WAIT);
            let event = event.unwrap_or_else(|_| panic!("actor {actor} neither calls nor ends"));
            match event {
                Event::Calls(call) => {
                    let refused = self.lock().arrive(actor, call);
                    let Some(answer) = refused else { return };
                    let _ = self.actors[actor].answers.send(answer);
                }
                Event::Ended(Ok(())) => {
                    self.lock().end(actor);
                    self.join(actor);
                    return;
                }
                Event::Ended(Err(panic)) => {
                    self.lock().end(actor);
                    self.join(actor);
                    let lines = self.lock().lines().to_vec();
                    eprint!("{}", Trace { lines, is_complete: false });
                    self.crash_all();
                    resume_unwind(panic);
                }
            }
        }
    }

    fn join(&mut self, actor: usize) {
        if let Some(thread) = self.actors[actor].thread.take() {
            // Its panic was caught and is handed on.
            let _ = thread.join();
        }
    }

    /// Lets every actor that is not done end with errors.
    fn crash_all(&mut self) {
        for actor in 0..self.actors.len() {
            if self.actors[actor].thread.is_none() {
                continue;
            }
            let answer = self.lock().crash(actor);
            if let Some(answer) = answer {
                let _ = self.actors[actor].answers.send(answer);
                self.wait_for(actor);
            }
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.crash_all();
        }
    }
}
