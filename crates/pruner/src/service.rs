//! The service: waits for heights, runs, remembers, and answers questions.

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use utxokeep_core::{
    ErrorKind, Height, Txid,
    node::{
        Blocking, ChainReport, ConsumerBound, Heights, NodeError, PruneRules, Said, Sighting,
        Taken, Waiting, Witness,
    },
};
use utxokeep_txstore::{
    Agreement, Disagreement, PastDue, PruneStore, RestoredHeight, StoreError, agreed_of_policy,
};

use crate::{
    backlog::{BacklogMonitor, BacklogState, BacklogStatus},
    blobs::delete_blobs,
    clock::Clock,
    control::Control,
    gate::{SkipReason, wait_at_gate},
    health::{Facts, Health},
    jobs::{Job, JobHistory, JobState},
    metrics,
    report::{Phase, RunReport},
    run::{DuePosition, Run, is_worth_a_look, rehearse},
    settings::{PrunerSettings, SettingsError},
    state::{self, ChainState as _, EndedRun},
    trigger::{Trigger, TriggerMode},
};

/// How long the service sleeps at most before it looks whether it has to end.
const IDLE: Duration = Duration::from_millis(500);

/// Least ages, in blocks, by which the backlog is counted.
const AGES: [u32; 6] = [0, 1, 6, 144, 1_008, 4_320];

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrunerError {
    /// Nobody said where the chain is.
    #[error("{}", Waiting::NoHeight)]
    NoHeight,
    /// The height lies ahead of the chain.
    #[error(
        "height {asked} is above the newest that is safe, {newest}; a run there could delete what \
         is still needed"
    )]
    Ahead {
        /// The height asked for.
        asked: Height,
        /// The newest that is safe.
        newest: Height,
    },
    /// Runs wait for a persister, which has not said anything.
    #[error("{}", Waiting::PersisterSilent)]
    NothingPersisted,
    /// A consumer of the chain log has not read a block yet.
    #[error("{}", Waiting::ConsumerBehind { slowest: *slowest, newest: *newest })]
    ConsumerBehind {
        /// The consumer.
        slowest: ConsumerBound,
        /// Height of the chain.
        newest: Height,
    },
    /// A persister reports where there is none.
    #[error(
        "[pruner] trigger = \"block_mined\" says that there is no block persister, and one reports; \
         set it to \"auto\""
    )]
    UnexpectedPersister,
    /// Deleted records are not kept.
    #[error("deleted records are not kept; set [pruner] undo_blocks for those to come")]
    NoUndo,
    /// A record cannot come back, because its inputs belong to another transaction by now.
    #[error("not restored: {}", in_full(.0))]
    NotRestored(NodeError),
    /// The store failed. Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store was made with another safety window.
    #[error(transparent)]
    Disagreement(#[from] Disagreement),
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No threads.
    #[error("the pruner's threads could not be started: {0}")]
    Threads(#[from] std::io::Error),
}

/// A refusal with every input that it is about.
fn in_full(error: &NodeError) -> String {
    let NodeError::Spend { spender, errors } = error else { return error.to_string() };
    let inputs: Vec<_> =
        errors.iter().map(|(vin, error)| format!("input {vin}: {error}")).collect();
    format!(
        "inputs of {spender} are not its own any more ({}); it can be restored when those spends \
         have been taken back",
        inputs.join(", ")
    )
}

impl PrunerError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoHeight
            | Self::Ahead { .. }
            | Self::NothingPersisted
            | Self::ConsumerBehind { .. }
            | Self::UnexpectedPersister
            | Self::NoUndo
            | Self::NotRestored(_)
            | Self::Disagreement(_) => ErrorKind::Refused,
            Self::Store(error) => error.kind(),
            Self::Settings(_) => ErrorKind::Invalid,
            Self::Threads(_) => ErrorKind::Failed,
        }
    }
}

/// What the service is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct PrunerStatus {
    /// No run may start.
    pub is_paused: bool,
    /// The run that goes on.
    pub running: Option<Job>,
    /// The last run that is over, also one from before a restart.
    pub last: Option<Job>,
    /// Records the run has looked at, and deleted.
    pub progress: (u64, u64),
    /// Height that waits.
    pub pending: Option<Height>,
    /// What keeps the next run from starting; nothing where one may start, or there is nothing to do.
    pub waits_for: Vec<Waiting>,
    /// What the store knows of the chain.
    pub heights: Heights,
    /// Whether runs keep up.
    pub backlog: BacklogStatus,
}

/// What became of reports about the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Each of them.
    pub taken: Vec<Taken>,
    /// Height that waits for a run now.
    pub pending: Option<Height>,
}

impl Reported {
    /// The height that is held until a second witness agrees, if one is.
    #[must_use]
    pub fn held(&self) -> Option<Height> {
        self.taken.iter().find_map(|taken| match taken {
            Taken::Held { height, .. } => Some(*height),
            Taken::Believed => None,
        })
    }
}

struct Shared {
    store: Arc<dyn PruneStore>,
    clock: Arc<dyn Clock>,
    started_ms: u64,
    /// What the node had said when this service started; absent where there is no service.
    since: Option<Said>,
    settings: PrunerSettings,
    trigger: Trigger,
    control: Control,
    /// A pause that the store did not take; it ends with the program.
    is_paused_here: AtomicBool,
    jobs: Mutex<JobHistory>,
    backlog: Mutex<BacklogMonitor>,
    place: Mutex<DuePosition>,
    has_blob_work: Mutex<bool>,
    blob_work: Condvar,
}

/// The pruner. Dropping it ends its threads.
pub struct Pruner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Pruner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pruner").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pruner {
    /// A pruner without threads: runs happen where [`Pruner::run_at`] is called.
    pub fn new(
        store: Arc<dyn PruneStore>,
        clock: Arc<dyn Clock>,
        settings: PrunerSettings,
    ) -> Result<Self, PrunerError> {
        let shared = Arc::new(Shared::new(store, clock, settings)?);
        Ok(Self { shared, threads: Vec::new() })
    }

    /// The same with threads of its own, which run whenever a height comes. What the node ever
    /// reported of the moment (marks, block assembly) is waited for until it reports it again; other
    /// services over the store go on believing it.
    pub fn start(
        store: Arc<dyn PruneStore>,
        clock: Arc<dyn Clock>,
        settings: PrunerSettings,
    ) -> Result<Self, PrunerError> {
        let mut shared = Shared::new(store, clock, settings)?;
        let now_ms = shared.clock.now_ms();
        let (_, heights) = shared.store.report(&[ChainReport::Restarted], now_ms)?;
        shared.since = Some(heights.said());
        for what in heights.not_said_again(shared.since) {
            tracing::info!("runs wait until the node has reported {what} again");
        }
        let mut pruner = Self { shared: Arc::new(shared), threads: Vec::new() };
        pruner.shared.offer(&heights);
        let (runs, files) = (Arc::clone(&pruner.shared), Arc::clone(&pruner.shared));
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        pruner.threads.push(spawn("pruner").spawn(move || runs.wait_and_run())?);
        pruner.threads.push(spawn("pruner-blobs").spawn(move || files.wait_for_blobs())?);
        Ok(pruner)
    }

    /// Takes what others say of the chain, in one commit, and asks for a run where that makes a new
    /// height safe.
    pub fn report(&self, reports: &[ChainReport]) -> Result<Reported, PrunerError> {
        let shared = &self.shared;
        let is_persister = |report: &ChainReport| matches!(report, ChainReport::Persisted(_));
        if shared.settings.trigger == TriggerMode::BlockMined && reports.iter().any(is_persister) {
            return Err(PrunerError::UnexpectedPersister);
        }
        let (taken, heights) = shared.store.report(reports, shared.clock.now_ms())?;
        for (report, taken) in reports.iter().zip(&taken) {
            if let Taken::Held { height, newest } = taken {
                tracing::warn!(
                    ?report, %height, ?newest,
                    "a height far above the chain is held until a second witness agrees"
                );
                metrics::held(report);
            }
        }
        metrics::heights(&heights);
        // The run may have begun already: then nothing waits, and the answer is still that height.
        let offered = shared.offer(&heights);
        Ok(Reported { taken, pending: offered.or_else(|| shared.trigger.pending()) })
    }

    /// A block joined the chain.
    pub fn block_mined(&self, height: Height) -> Result<Reported, PrunerError> {
        self.report(&[ChainReport::Newest(Sighting { height, by: Witness::Block })])
    }

    /// A persister has written everything up to a block.
    pub fn block_persisted(&self, height: Height) -> Result<Reported, PrunerError> {
        self.report(&[ChainReport::Persisted(height)])
    }

    /// A person says at which height the chain is; answers what is known then.
    pub fn confirm_height(&self, height: Height) -> Result<Heights, PrunerError> {
        self.report(&[ChainReport::Newest(Sighting { height, by: Witness::Operator })])?;
        Ok(self.shared.store.heights()?)
    }

    /// Asks for a run by hand, at the newest safe height if none is given; answers the height it
    /// will have, or `None` if that is done or waits already.
    pub fn trigger(&self, asked: Option<Height>) -> Result<Option<Height>, PrunerError> {
        let height = self.safe_height(asked)?;
        let completed = self.shared.store.heights()?.completed();
        let is_new = Some(height) > completed && self.shared.trigger.offer(height);
        let offered = is_new.then_some(height);
        self.shared.note_request(offered);
        Ok(offered)
    }

    /// The height that a run by hand has: the one asked for, or the newest that is safe. One above
    /// that is refused.
    pub fn safe_height(&self, asked: Option<Height>) -> Result<Height, PrunerError> {
        let heights = self.shared.store.heights()?;
        let Some(newest) = heights.safe(self.shared.settings.trigger.needs_persister()) else {
            let Some(newest) = heights.newest() else { return Err(PrunerError::NoHeight) };
            let slowest = heights.consumer().filter(|slowest| slowest.height == Height::GENESIS);
            return Err(slowest.map_or(PrunerError::NothingPersisted, |slowest| {
                PrunerError::ConsumerBehind { slowest, newest }
            }));
        };
        match asked {
            Some(asked) if asked > newest => Err(PrunerError::Ahead { asked, newest }),
            asked => Ok(asked.unwrap_or(newest)),
        }
    }

    /// Runs here and now, gate included; answers what became of it.
    pub fn run_at(&self, height: Height) -> Job {
        self.shared.run_at(height)
    }

    /// Works through the queue of files here and now.
    pub fn delete_blobs(&self) -> Result<utxokeep_txstore::BlobsDeleted, PrunerError> {
        let Shared { store, clock, control, settings, .. } = &*self.shared;
        let (store, clock) = (store.as_ref(), clock.as_ref());
        Ok(delete_blobs(store, clock, control, settings.blob_batch_rows)?)
    }

    /// Stops the present run after its chunk.
    pub fn cancel(&self) {
        self.shared.control.cancel();
    }

    /// Lets no further run start, also after a restart. Where the store takes no writes at present the
    /// pause ends with this program; a store that was moved elsewhere refuses it.
    pub fn pause(&self) -> Result<(), PrunerError> {
        Ok(self.shared.set_paused(true)?)
    }

    /// Lets runs start again, beginning with the newest height.
    pub fn resume(&self) -> Result<(), PrunerError> {
        self.shared.set_paused(false)?;
        match self.shared.store.heights() {
            Ok(heights) => drop(self.shared.offer(&heights)),
            Err(error) => tracing::error!(%error, "the store does not say where the chain is"),
        }
        Ok(())
    }

    /// What the service is doing.
    pub fn status(&self) -> Result<PrunerStatus, PrunerError> {
        let shared = &self.shared;
        let running = shared.running();
        let heights = shared.store.heights()?;
        let waits_for = shared.waits_for(&heights, shared.disagreement());
        let last = shared.last_jobs(2)?.into_iter().find(|job| job.state.is_over());
        Ok(PrunerStatus {
            is_paused: shared.is_paused(),
            running,
            last,
            progress: shared.control.progress(),
            pending: shared.trigger.pending(),
            waits_for,
            heights,
            backlog: lock(&shared.backlog).status(),
        })
    }

    /// Records that the present run has looked at, and deleted.
    pub fn progress(&self) -> (u64, u64) {
        self.shared.control.progress()
    }

    /// The last runs, newest first, also those from before a restart and of other programs over the
    /// same store.
    pub fn jobs(&self, limit: usize) -> Result<Vec<Job>, PrunerError> {
        self.shared.last_jobs(limit)
    }

    /// Whether the service can work. Being alive needs nothing: who answers is alive.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let backlog = lock(&shared.backlog).status();
        metrics::backlog(&backlog);
        let (heights, disagreement) = (shared.store.heights(), shared.disagreement());
        let waits_for = heights.as_ref().map(|known| shared.waits_for(known, disagreement));
        let facts = Facts {
            trouble: shared.store.trouble().map(|trouble| trouble.reason),
            disagreement,
            waits_for: waits_for.unwrap_or_default(),
            heights,
            settings: &shared.settings,
            backlog,
            jump_max: shared.store.policy().height_jump_blocks_max,
            now_ms: shared.clock.now_ms(),
            started_ms: shared.started_ms,
            since: shared.since,
        };
        facts.health()
    }

    /// The settings it works by.
    pub fn settings(&self) -> &PrunerSettings {
        &self.shared.settings
    }

    /// The height that a question is about: the one asked for, which may lie ahead, or the newest
    /// that is safe.
    pub fn height(&self, height: Option<Height>) -> Result<Height, PrunerError> {
        height.map_or_else(|| self.safe_height(None), Ok)
    }

    /// What a run would delete, and why it would keep the rest. Changes nothing.
    pub fn dry_run(&self, height: Option<Height>) -> Result<RunReport, PrunerError> {
        let height = self.height(height)?;
        let quiet = Control::default();
        Ok(rehearse(&Run { control: &quiet, ..self.shared.run() }, height)?)
    }

    /// Every fact that keeps a record, with the height at which it ends where that is known.
    pub fn explain(
        &self,
        txid: &Txid,
        height: Option<Height>,
    ) -> Result<Vec<Blocking>, PrunerError> {
        let height = self.height(height)?;
        let rules = PruneRules::at(height, self.shared.settings.safety_window_blocks);
        Ok(self.shared.store.explain(txid, &rules)?)
    }

    /// How many records are past due, and since how many blocks.
    pub fn backlog(&self, height: Option<Height>) -> Result<PastDue, PrunerError> {
        let found = self.shared.store.past_due(self.height(height)?, &AGES)?;
        metrics::past_due(&found);
        Ok(found)
    }

    /// Keeps records until a height; answers how many that holds for.
    pub fn preserve(&self, txids: &[Txid], until: Height) -> Result<usize, PrunerError> {
        Ok(self.shared.store.preserve(txids, until)?)
    }

    /// Brings a deleted record back; answers whether it was there to bring. Refused with
    /// [`PrunerError::NotRestored`] where that would spend an output twice.
    pub fn restore(&self, txid: &Txid, height: Option<Height>) -> Result<bool, PrunerError> {
        let newest = self.height(height)?;
        // Counted from where the chain is, not from a height that the caller made up.
        let tip = self.height(None).unwrap_or(newest);
        let until = tip.plus(self.shared.settings.restored_preservation_blocks);
        let answer = self.shared.store.restore(txid, newest, until)?;
        let is_restored = answer.map_err(PrunerError::NotRestored)?;
        if !is_restored && self.shared.settings.undo_blocks == 0 {
            return Err(PrunerError::NoUndo);
        }
        metrics::restored(u64::from(is_restored));
        Ok(is_restored)
    }

    /// Brings back everything that was deleted at a height, but for records whose inputs belong to
    /// others by now.
    pub fn restore_height(&self, height: Height) -> Result<RestoredHeight, PrunerError> {
        let newest = self.height(None).unwrap_or(height).max(height);
        let until = newest.plus(self.shared.settings.restored_preservation_blocks);
        let done = self.shared.store.restore_height(height, until)?;
        if done.restored == 0 && done.refused == 0 && self.shared.settings.undo_blocks == 0 {
            return Err(PrunerError::NoUndo);
        }
        metrics::restored(done.restored);
        for (_, error) in &done.named {
            tracing::warn!("not restored: {}", in_full(error));
        }
        Ok(done)
    }

    /// Asks the present run to end after its chunk, and the threads with it; does not wait for
    /// them.
    pub fn stop(&self) {
        self.shared.control.stop();
        self.shared.trigger.close();
        self.shared.blob_work.notify_all();
    }

    /// Ends the present run after its chunk, and the threads.
    pub fn shut_down(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pruner panicked");
            }
        }
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Shared {
    fn new(
        store: Arc<dyn PruneStore>,
        clock: Arc<dyn Clock>,
        settings: PrunerSettings,
    ) -> Result<Self, PrunerError> {
        settings.check()?;
        metrics::describe();
        if settings.parent_preservation_blocks == 0 {
            tracing::warn!("parents of old unmined transactions are not preserved");
        }
        store.agree(&settings.agreed(), Agreement::Compare)??;
        let last_number =
            state::last_runs(store.as_ref(), 1)?.first().map_or(0, |(number, _)| *number);
        let control = Control::default();
        control.set_paused(state::is_paused(store.as_ref())?);
        Ok(Self {
            store,
            started_ms: clock.now_ms(),
            since: None,
            clock,
            trigger: Trigger::default(),
            control,
            is_paused_here: AtomicBool::new(false),
            jobs: Mutex::new(JobHistory::after(last_number, settings.job_history_max)),
            backlog: Mutex::new(BacklogMonitor::new(&settings)),
            place: Mutex::new(None),
            has_blob_work: Mutex::new(false),
            blob_work: Condvar::new(),
            settings,
        })
    }

    /// The run that goes on, or waits at the gate.
    fn running(&self) -> Option<Job> {
        lock(&self.jobs).newest(1).pop().filter(|job| !job.state.is_over())
    }

    /// A number that was changed since this service started; then no run deletes anything.
    fn disagreement(&self) -> Option<Disagreement> {
        let numbers = self.settings.agreed().into_iter();
        let numbers: Vec<_> = numbers.chain(agreed_of_policy(&self.store.policy())).collect();
        self.store.agree(&numbers, Agreement::Compare).ok()?.err()
    }

    fn waits_for(&self, heights: &Heights, changed: Option<Disagreement>) -> Vec<Waiting> {
        let at_the_gate = self.running().filter(|job| job.state == JobState::Waiting);
        let jump_max = self.store.policy().height_jump_blocks_max;
        let rules = self.settings.gate_rules(jump_max, self.since);
        let paused = self.is_paused().then_some(Waiting::Paused);
        let settings = changed.map(Waiting::SettingsChanged);
        let gate = heights.waits_for(&rules, at_the_gate.map(|job| job.height));
        paused.into_iter().chain(settings).chain(gate).collect()
    }

    /// Should the store fail, it holds until the program ends. A store that is elsewhere now refuses it:
    /// whoever prunes that one would not hear of it.
    fn set_paused(&self, is_paused: bool) -> Result<(), StoreError> {
        let was_paused = self.control.is_paused();
        self.control.set_paused(is_paused);
        let stored = state::set_paused(self.store.as_ref(), is_paused);
        if let Err(error @ StoreError::MovedAway { .. }) = stored {
            self.control.set_paused(was_paused);
            return Err(error);
        }
        self.is_paused_here.store(is_paused && stored.is_err(), Ordering::Release);
        if let Err(error) = stored {
            tracing::error!(%error, is_paused, "the store did not take the pause: it ends with the program");
        }
        Ok(())
    }

    /// Whether runs may not start. The store is asked: another service may have paused it, or let
    /// it resume.
    fn is_paused(&self) -> bool {
        if !self.is_paused_here.load(Ordering::Acquire)
            && let Ok(is_paused) = state::is_paused(self.store.as_ref())
        {
            self.control.set_paused(is_paused);
        }
        self.control.is_paused()
    }

    fn run(&self) -> Run<'_> {
        Run {
            store: self.store.as_ref(),
            settings: &self.settings,
            clock: self.clock.as_ref(),
            control: &self.control,
        }
    }

    /// Asks for a run at the newest height that is safe, if that is not complete; answers it if
    /// nobody had asked before.
    fn offer(&self, heights: &Heights) -> Option<Height> {
        let safe = heights.safe(self.settings.trigger.needs_persister());
        let safe = safe.filter(|safe| Some(*safe) > heights.completed());
        let offered = safe.filter(|safe| self.trigger.offer(*safe));
        self.note_request(offered);
        offered
    }

    fn note_request(&self, offered: Option<Height>) {
        let mut backlog = lock(&self.backlog);
        if let Some(height) = offered.or_else(|| self.trigger.pending()) {
            backlog.requested(height, self.clock.now_ms());
        }
        metrics::backlog(&backlog.status());
    }

    /// The height that waited, as far as it is still safe and not complete.
    fn still_wanted(&self, height: Height) -> Option<Height> {
        match self.store.heights() {
            Ok(heights) => {
                let safe = heights.safe(self.settings.trigger.needs_persister())?.min(height);
                (Some(safe) > heights.completed()).then_some(safe)
            }
            // The gate asks again, and says why there is no run.
            Err(_) => Some(height),
        }
    }

    fn wait_and_run(&self) {
        // The height that was last asked for, here or by a look at the store.
        let mut last_asked = None;
        while !self.trigger.is_closed() {
            let waiting = self.trigger.take(IDLE);
            match waiting {
                Some(height) => last_asked = Some(height),
                None => self.look(&mut last_asked),
            }
            if let Some(height) = waiting.and_then(|height| self.still_wanted(height)) {
                let job = self.run_at(height);
                // Out of time, not cancelled: the rest follows at once.
                if let JobState::Cancelled(_) = job.state
                    && !self.control.is_cancelled()
                {
                    self.trigger.offer(height);
                }
            }
        }
    }

    /// Other programs report to the same store. Asks for a run once for each height that became safe
    /// there: one that was skipped or failed is not asked for again and again.
    fn look(&self, last_asked: &mut Option<Height>) {
        // A store that fails says so to the gate, and to health.
        let Ok(heights) = self.store.heights() else { return };
        let safe = heights.safe(self.settings.trigger.needs_persister());
        if safe != *last_asked {
            *last_asked = safe;
            self.offer(&heights);
        }
    }

    fn wait_for_blobs(&self) {
        while !self.trigger.is_closed() {
            let waiting = lock(&self.has_blob_work);
            let (mut has_work, _) = self
                .blob_work
                .wait_timeout_while(waiting, IDLE, |has_work| !*has_work)
                .unwrap_or_else(PoisonError::into_inner);
            let is_due = std::mem::take(&mut *has_work);
            drop(has_work);
            if is_due && !self.settings.skip_blob_deletions {
                let (store, clock) = (self.store.as_ref(), self.clock.as_ref());
                let rows = self.settings.blob_batch_rows;
                if let Err(error) = delete_blobs(store, clock, &self.control, rows) {
                    tracing::error!(%error, "the queue of files could not be worked through");
                }
            }
        }
    }

    /// One height: gate, run, and what is remembered of it.
    fn run_at(&self, height: Height) -> Job {
        let number = lock(&self.jobs).start(height, self.clock.now_ms());
        self.control.start_run();
        // The gate looks at what this found.
        let _ = self.is_paused();
        let state = self.gate_and_run(height, number);
        let job = lock(&self.jobs).set(number, state, self.clock.now_ms());
        let job = job.expect("it was started above");
        if let Err(error) = self.remember(&job) {
            tracing::error!(%height, %error, "the store did not take what became of a run");
        }
        metrics::backlog(&lock(&self.backlog).status());
        job
    }

    fn remember(&self, job: &Job) -> Result<(), StoreError> {
        let runs_max = self.settings.job_history_max as u64;
        let completed = matches!(job.state, JobState::Completed(_)).then_some(job.height);
        let now_ms = self.clock.now_ms();
        let bytes = &job.encode();
        let run = EndedRun { bytes, runs_max, completed, now_ms };
        let (number, heights) = state::remember_run(self.store.as_ref(), run)?;
        lock(&self.jobs).stored(job.number, number);
        metrics::heights(&heights);
        Ok(())
    }

    /// What the store remembers, and before it what is not over or could not be stored.
    fn last_jobs(&self, limit: usize) -> Result<Vec<Job>, PrunerError> {
        let mut jobs = lock(&self.jobs).not_stored();
        for (number, run) in state::last_runs(self.store.as_ref(), limit)? {
            match Job::decode(number, &run) {
                Ok(job) => jobs.push(job),
                Err(error) => tracing::error!(number, %error, "a run cannot be read"),
            }
        }
        jobs.truncate(limit);
        Ok(jobs)
    }

    fn gate_and_run(&self, height: Height, number: u64) -> JobState {
        let (ask, clock) = (|| self.store.heights(), self.clock.as_ref());
        let jump_max = self.store.policy().height_jump_blocks_max;
        let rules = self.settings.gate_rules(jump_max, self.since);
        let passed = wait_at_gate(&ask, &rules, clock, &self.settings, &self.control, height);
        if let Err(reason) = passed {
            return self.skip(height, reason);
        }
        // Also what comes before deletion goes by them: preservations that end set new heights.
        if let Some(changed) = self.disagreement() {
            metrics::failed(Phase::PreserveParents);
            lock(&self.backlog).failed();
            let error = StoreError::from(changed).to_string();
            tracing::error!(%height, %error, "a run failed; the height is not complete");
            return JobState::Failed {
                error,
                report: RunReport { height, ..RunReport::default() },
            };
        }
        *lock(&self.has_blob_work) = true;
        self.blob_work.notify_all();
        lock(&self.jobs).set(number, JobState::Running, self.clock.now_ms());
        lock(&self.backlog).started();
        metrics::started(height);
        let mut place = lock(&self.place);
        let outcome = self.run().at(height, &mut place);
        drop(place);
        match outcome {
            Ok(report) => {
                metrics::ended(&report);
                self.log(&report);
                let mut backlog = lock(&self.backlog);
                if report.is_complete {
                    backlog.completed(height, report.total_ms());
                    JobState::Completed(report)
                } else {
                    backlog.failed();
                    JobState::Cancelled(report)
                }
            }
            Err(error) => {
                metrics::ended(&error.report);
                metrics::failed(error.phase);
                lock(&self.backlog).failed();
                tracing::error!(%height, %error, "a run failed; the height is not complete");
                JobState::Failed { error: error.to_string(), report: *error.report }
            }
        }
    }

    fn skip(&self, height: Height, reason: SkipReason) -> JobState {
        tracing::info!(%height, %reason, "no run");
        metrics::skipped(reason);
        lock(&self.backlog).skipped();
        JobState::Skipped(reason)
    }

    fn log(&self, report: &RunReport) {
        let RunReport { height, examined, deleted, expired, .. } = report;
        let ms = report.total_ms();
        tracing::info!(%height, examined, deleted, expired, ms, "pruned");
        for (reason, count) in report.kept.iter().filter(|(reason, _)| is_worth_a_look(**reason)) {
            tracing::warn!(%reason, count, "records are kept that nothing will release by itself");
        }
        let status = lock(&self.backlog).status();
        if status.state != BacklogState::Ok {
            let state = status.state.name();
            tracing::warn!(state, lag_blocks = status.lag_blocks, "runs do not keep up");
        }
    }
}
