//! The node store over an engine: what every call has in common.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use utxokeep_core::{
    OutPoint, Txid,
    node::{ChangeSet, NodeError, Policy},
};
use utxokeep_kv::Kv;

use crate::{
    admit::Asks,
    agreed::{Agreement, CHANGES_LISTED, of_policy},
    backend::{Backend, Touched},
    blobs::Blobs,
    error::{StoreError, StoreOpenError},
    facts::{Facts, Work},
    faults::Planted,
    files::Seen,
    kv::{KvBackend, KvOptions},
    meter,
    moving::{Moved, moved},
    store::PerItem,
    watch::Watch,
};

/// What a node store is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The numbers that the rules depend on.
    pub policy: Policy,
    /// Items that one call may have.
    pub items_max: usize,
    /// Bodies above this length go to the blob store, where there is one.
    pub inline_body_bytes_max: usize,
    /// What to do where the store has other numbers than `policy`.
    pub agreement: Agreement,
    /// For how long it counts, in milliseconds, what was found when the store was tried out: whether
    /// servers and blob store take writes.
    pub health_probe_ms: u64,
}

impl StoreSettings {
    /// The same with changes, for callers outside of this crate:
    /// `StoreSettings::default().with(|settings| settings.items_max = 1_000)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            items_max: 100_000,
            inline_body_bytes_max: 32 * 1024,
            agreement: Agreement::default(),
            health_probe_ms: 5_000,
        }
    }
}

/// A node store on one of the engines.
pub struct NodeStore {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) settings: StoreSettings,
    pub(crate) blobs: Option<Blobs>,
    /// Files that are being written, to see which are left behind.
    pub(crate) seen_files: Seen,
    /// The time, to see how long they are.
    pub(crate) now: Arc<dyn Fn() -> Instant + Send + Sync>,
    pub(crate) planted: Planted,
    /// Numbers were changed through this store since it was opened. Where others share it they are
    /// read with every write.
    pub(crate) has_changed_numbers: AtomicBool,
    pub(crate) watch: Watch,
    /// A move that did not end has changes listed, in a store that no other program has open.
    pub(crate) lists_changes: AtomicBool,
}

impl fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeStore({}, blobs: {:?})", self.backend.engine(), self.blobs)
    }
}

/// What a batch reads before it starts: records and outputs.
pub(crate) type Ahead<'a> = (&'a [Txid], &'a [OutPoint]);

/// Nothing to load beforehand.
pub(crate) const NOTHING: Ahead<'static> = (&[], &[]);

impl NodeStore {
    /// A store on an engine.
    #[must_use]
    pub fn new(backend: Box<dyn Backend>, settings: StoreSettings) -> Self {
        let (seen_files, planted) = (Seen::default(), Planted::default());
        let now = Arc::new(Instant::now);
        let (has_changed_numbers, lists_changes) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            backend,
            settings,
            blobs: None,
            seen_files,
            now,
            planted,
            has_changed_numbers,
            watch: Watch::default(),
            lists_changes,
        }
    }

    /// A store on key-value tables that has all of [`crate::TABLES`].
    pub fn on_kv<K: Kv + 'static>(
        kv: K,
        settings: StoreSettings,
        options: impl Into<KvOptions>,
    ) -> Result<Self, StoreOpenError> {
        let (planted, retention) = (Planted::default(), settings.policy.retention_blocks);
        let backend = KvBackend::open(kv, options.into(), retention, planted.clone())?;
        Self { planted, ..Self::new(Box::new(backend), settings) }.compared()
    }

    /// The same, if it has the numbers that it is opened with.
    pub(crate) fn compared(self) -> Result<Self, StoreOpenError> {
        let StoreSettings { policy, agreement, .. } = self.settings;
        if agreement != Agreement::Moving {
            match self.read(|facts| moved(facts.view))? {
                Some(Moved::HalfFrom(from)) => return Err(StoreOpenError::HalfMoved { from }),
                Some(Moved::To(to)) => return Err(StoreOpenError::MovedAway { to }),
                None => {}
            }
        }
        if !self.backend.is_shared() {
            let is_listed = self.read(|facts| Ok(facts.view.state(CHANGES_LISTED)?.is_some()))?;
            self.lists_changes.store(is_listed, Ordering::Release);
        }
        self.agree_on(&of_policy(&policy), agreement)??;
        Ok(self)
    }

    /// The same with a place for large bodies.
    #[must_use]
    pub fn with_blobs(self, blobs: Blobs) -> Self {
        Self { blobs: Some(blobs), ..self }
    }

    /// Name of the engine below.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.backend.engine()
    }

    /// Reads one state of the store.
    pub(crate) fn read<T>(
        &self,
        mut work: impl FnMut(&Facts<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut answer = None;
        meter::noted(self.backend.read(&mut |view| {
            answer = Some(work(&self.facts(view))?);
            Ok(())
        }))?;
        Ok(answer.expect("the engine ran the work"))
    }

    /// Does `work` on what it touches, and commits its changes if it says so.
    pub(crate) fn decide<T>(
        &self,
        touched: &Touched,
        mut work: impl FnMut(&mut Work<'_, '_>) -> Result<(T, bool), StoreError>,
    ) -> Result<T, StoreError> {
        let mut answer = None;
        let outcome = self.write_with_files(Asks::Numbers, touched, &mut |view, unwritten| {
            let facts = self.facts(view);
            let mut workspace = facts.workspace().refusing(unwritten);
            let (done, is_wanted) = work(&mut workspace)?;
            answer = Some(done);
            Ok(if is_wanted { workspace.into_changes() } else { ChangeSet::default() })
        });
        meter::noted(outcome)?;
        Ok(answer.expect("the engine ran the work"))
    }

    /// Does `work` on what it touches, and commits its changes.
    pub(crate) fn change<T>(
        &self,
        touched: &Touched,
        mut work: impl FnMut(&mut Work<'_, '_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.decide(touched, |workspace| Ok((work(workspace)?, true)))
    }

    /// The same for each of many items, whose answers are independent.
    pub(crate) fn each<I, T>(
        &self,
        touched: &Touched,
        items: &[I],
        (txids, outpoints): Ahead<'_>,
        mut work: impl FnMut(&mut Work<'_, '_>, &I) -> Result<Result<T, NodeError>, StoreError>,
    ) -> PerItem<T> {
        self.check_len(items.len())?;
        if self.backend.commits_items() {
            return meter::noted(self.each_by_item(touched, items, (txids, outpoints), &mut work));
        }
        self.change(touched, |workspace| {
            workspace.prefetch(txids, outpoints)?;
            items.iter().map(|item| work(workspace, item)).collect()
        })
    }

    pub(crate) const fn check_len(&self, found: usize) -> Result<(), StoreError> {
        let max = self.settings.items_max;
        if found > max {
            return Err(StoreError::TooManyItems { found, max });
        }
        Ok(())
    }
}

/// For tests of this store and of what is built on it.
#[cfg(feature = "testing")]
impl NodeStore {
    /// The same with another clock.
    #[must_use]
    pub fn with_clock(self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), ..self }
    }

    /// Plants a mistake in the store and in an engine of this crate.
    #[must_use]
    pub fn unsafe_with(self, fault: crate::ProofFault) -> Self {
        self.planted.plant(fault);
        self
    }

    /// The same on an engine that is put around its own.
    #[must_use]
    pub fn wrapped(self, wrap: impl FnOnce(Box<dyn Backend>) -> Box<dyn Backend>) -> Self {
        Self { backend: wrap(self.backend), ..self }
    }
}
