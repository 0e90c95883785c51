//! What a schedule sees of a run, and what it can decide.

/// Into which pieces a call over several cells falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grain {
    /// The whole call happens at once: fewer steps, and weaker than any cluster.
    Call,
    /// What goes to one shard happens at once.
    Shard,
    /// Every cell for itself, in any order.
    #[default]
    Cell,
}

/// Limits and granularity of a simulation.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// Pieces of calls over several cells.
    pub grain: Grain,
    /// Whether a write with a barrier takes two steps, so that others see it, and a failover may
    /// undo it, before the barrier is reached.
    pub splits_barriers: bool,
    /// Steps of a run.
    pub steps_max: usize,
    /// How far the clock goes with each step.
    pub tick_ms: u64,
    /// Whether servers go by [`crate::WriteCell::not_after_ms`].
    pub refuses_late_writes: bool,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            grain: Grain::Cell,
            splits_barriers: true,
            steps_max: 10_000,
            tick_ms: 1,
            refuses_late_writes: true,
        }
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A piece of an actor's call happens.
    Step {
        /// Number of the actor.
        actor: usize,
        /// Number of the piece.
        unit: usize,
    },
    /// A piece happens, and its answer is lost: a write is in doubt, a read fails.
    LoseAnswer {
        /// Number of the actor.
        actor: usize,
        /// Number of the piece.
        unit: usize,
    },
    /// A write is in doubt, and happens later by [`Decision::Deliver`], or never. A read fails.
    Delay {
        /// Number of the actor.
        actor: usize,
        /// Number of the piece.
        unit: usize,
    },
    /// A piece does not happen, and its actor is told so.
    Refuse {
        /// Number of the actor.
        actor: usize,
        /// Number of the piece.
        unit: usize,
    },
    /// A delayed write happens; nobody hears of it.
    Deliver {
        /// Place in [`Choices::delayed`].
        delayed: usize,
    },
    /// An actor's calls fail from now on. What it has sent may still happen, by
    /// [`Decision::Deliver`].
    Crash {
        /// Number of the actor.
        actor: usize,
    },
    /// A shard forgets its newest writes that no barrier covers.
    FailOver {
        /// Which.
        shard: u16,
        /// How many of these writes stay.
        keep: usize,
    },
    /// Time passes.
    Advance {
        /// How much.
        ms: u64,
    },
}

/// State of a piece of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitState {
    /// Not there yet.
    Sent,
    /// It happened, and waits for its barrier.
    Applied,
    /// Its answer is on the way.
    Answered,
}

/// A call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    /// Number of the actor.
    pub actor: usize,
    /// Steps that this actor has taken.
    pub taken: usize,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether it only waits, for others to get on.
    pub is_pause: bool,
    /// Its pieces; those that are answered take no further step.
    pub units: Vec<UnitState>,
}

impl PendingCall {
    /// The first piece that has not been answered.
    #[must_use]
    pub fn next_unit(&self) -> usize {
        let open = |state: &UnitState| *state != UnitState::Answered;
        self.units.iter().position(open).unwrap_or_default()
    }
}

/// What a schedule may choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choices {
    /// Steps so far.
    pub step: usize,
    /// Clock of all shards.
    pub now_ms: u64,
    /// Calls that wait, in the order of their actors.
    pub calls: Vec<PendingCall>,
    /// Number of delayed writes that may be delivered.
    pub delayed: usize,
    /// Shards with writes that no barrier covers, and how many.
    pub unacknowledged: Vec<(u16, usize)>,
}
