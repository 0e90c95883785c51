//! Deciding and committing: a call as a whole, or a list part by part.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Txid,
    node::{ChangeSet, ItemGroup},
};
use utxokeep_kv::{OpenMode, Trouble};
use utxokeep_records::{Fields, Key, RecordError, Version};

use super::{
    RecordBackend,
    commit::{Attempt, Outcome},
    layout::txid_of,
    lock::{CreationLock, Locked},
    plan::{Plan, Seen},
    status::CallId,
    view::CellView,
};
use crate::{
    backend::{Backend, ItemsWork, ReadWork, Touched, Uncommitted, WriteWork},
    error::StoreError,
    heights::WHOLE_STORE,
    meter,
};

/// How often a read begins anew because a record changed while it looked at it.
const READS_AGAIN_MAX: usize = 3;

/// A part of a call that is committed whole or not at all.
struct Part {
    items: Vec<usize>,
    /// Transactions that it rests on; `None` for everything that was read.
    reads: Option<BTreeSet<Txid>>,
    changes: ChangeSet,
}

/// A part, and what it does to which cell.
struct Planned {
    items: Vec<usize>,
    call: CallId,
    plan: Plan,
}

/// A call, and what it has learned in earlier attempts.
struct Call {
    id: CallId,
    is_guarded: bool,
    waited_ms: u64,
    /// Large transactions that others create: to this call they exist.
    locked_out: BTreeSet<Txid>,
}

impl Call {
    /// The id of one more attempt, or of one more part of it.
    fn next(&mut self) -> CallId {
        self.id.attempt += 1;
        self.id
    }
}

type Decide<'d> = dyn FnMut(&CellView<'_>) -> Result<Vec<Part>, StoreError> + 'd;

impl RecordBackend {
    /// Decides a call until some part of it is committed, or it was tried often enough. Answers the
    /// items that were not committed.
    fn run(
        &self,
        touched: &Touched,
        is_list: bool,
        decide: &mut Decide<'_>,
    ) -> Result<Uncommitted, StoreError> {
        let named = match touched {
            Touched::Only(txids) => txids.as_slice(),
            Touched::Unknown => &[],
        };
        let _held = self.locks.lock(named);
        let (started_ms, random) = (self.cells.now_ms()?, self.cells.context.versions.next_u64());
        let mut call = Call {
            id: CallId { started_ms, random, attempt: 0 },
            // Items of a list are transactions, whatever their ids.
            is_guarded: !is_list && named.contains(&WHOLE_STORE),
            waited_ms: 0,
            locked_out: self.early.locked_out(),
        };
        let mut left = Vec::new();
        for attempt in 0..self.cells.settings.attempts_max {
            if let Some(plans) = self.decide(&mut call, decide)? {
                left = plans.iter().flat_map(|planned| &planned.items).copied().collect();
                let outcomes = self.commit(&plans, &mut call.locked_out)?;
                let mut again = Vec::new();
                let count = outcomes.len();
                let mut lost = 0;
                for (planned, outcome) in plans.into_iter().zip(outcomes) {
                    if outcome? == Attempt::Lost {
                        again.extend(planned.items);
                        lost += 1;
                    }
                }
                meter::attempts_lost(lost);
                if lost == 0 || lost < count {
                    return Ok(Uncommitted { again, in_progress: Vec::new() });
                }
            } else {
                // Whoever held a creation lock may be done by now, or dead.
                call.locked_out = self.early.locked_out();
            }
            self.cells.pause(attempt);
        }
        Ok(Uncommitted { again: Vec::new(), in_progress: left })
    }

    /// One decision. `None` if it rests on records of different moments, and does not count.
    fn decide(
        &self,
        call: &mut Call,
        decide: &mut Decide<'_>,
    ) -> Result<Option<Vec<Planned>>, StoreError> {
        let mut view = CellView::new(&self.cells, Some(call.next()), call.waited_ms);
        view.locked_out.clone_from(&call.locked_out);
        let guard = self.cells.layout.guard();
        let guarded = call.is_guarded.then(|| (guard, Fields::Named(Vec::new())));
        let outcome = view.load(guarded).and_then(|()| decide(&view));
        let outcome = outcome.and_then(|parts| view.confirm_numbers().map(|_| parts));
        let changing = call.is_guarded.then(|| self.change_under_way()).flatten();
        let outcome = match changing {
            Some(id) => outcome.and_then(|parts| view.rest_on_marks(id).map(|()| parts)),
            None => outcome,
        };
        let outcome = outcome.and_then(|parts| Self::plan(&view, parts, call));
        call.waited_ms = view.waited_ms.get();
        match outcome {
            _ if view.has_moved.get() => Ok(None),
            Ok(plans) if plans.iter().any(|planned| !planned.plan.changes.is_empty()) => {
                Ok(Some(plans))
            }
            // Nothing is written. What is answered, or refused, rests on what was read all the same.
            _ if !view.is_current()? => Ok(None),
            Ok(plans) => Ok(Some(plans)),
            Err(error) => Err(error),
        }
    }

    fn plan(
        view: &CellView<'_>,
        parts: Vec<Part>,
        call: &mut Call,
    ) -> Result<Vec<Planned>, StoreError> {
        let (mut plans, mut all_reads) = (Vec::with_capacity(parts.len()), Vec::new());
        for Part { items, reads, changes } in parts {
            let id = call.next();
            let plan = Plan::of(&changes, view, id, call.is_guarded)?;
            plans.push(Planned { items, call: id, plan });
            all_reads.push(reads);
        }
        let known = view.known.borrow();
        let seen = || known.iter().map(|(key, known)| (key, known.version));
        // By transaction, once: a list of many parts would otherwise go over everything for each.
        let (mut of_txs, mut values) = (BTreeMap::<Txid, Vec<Seen<'_>>>::new(), Vec::new());
        for (key, version) in seen() {
            match txid_of(key) {
                Some(txid) => of_txs.entry(txid).or_default().push((key, version)),
                None => values.push((key, version)),
            }
        }
        // Values of the store are read by one part or the other; nobody says by which.
        let changed = plans.iter().flat_map(|planned| &planned.plan.changes);
        let changed: BTreeSet<Key> =
            changed.map(|change| change.key.clone()).filter(|key| txid_of(key).is_none()).collect();
        values.retain(|(key, _)| !changed.contains(*key));
        let layout = view.cells.layout;
        for (planned, reads) in plans.iter_mut().zip(all_reads) {
            match reads {
                None => planned.plan.rest_on(layout, seen()),
                Some(reads) => {
                    let of_reads = reads.iter().filter_map(|txid| of_txs.get(txid)).flatten();
                    planned.plan.rest_on(layout, of_reads.chain(&values).copied());
                }
            }
        }
        Ok(plans)
    }

    /// Commits parts; around it large transactions are locked, completed and released.
    fn commit(
        &self,
        plans: &[Planned],
        locked_out: &mut BTreeSet<Txid>,
    ) -> Result<Vec<Outcome>, StoreError> {
        for Planned { call, plan, .. } in plans {
            for (txid, outputs) in &plan.completed {
                self.cells.clear_pages(*call, txid, *outputs)?;
            }
        }
        let mut held = Vec::new();
        let outcomes = match self.lock_large(plans, &mut held, locked_out) {
            Ok(true) => self.commit_locked(plans),
            Ok(false) => Ok(plans.iter().map(|_| Ok(Attempt::Lost)).collect()),
            Err(error) => Err(error),
        };
        for locked in held {
            self.cells.unlock(locked);
        }
        outcomes
    }

    /// Takes the creation locks of large transactions. Answers `false` where others have one.
    fn lock_large(
        &self,
        plans: &[Planned],
        held: &mut Vec<Locked>,
        locked_out: &mut BTreeSet<Txid>,
    ) -> Result<bool, StoreError> {
        let large = plans.iter().flat_map(|planned| &planned.plan.large);
        for large in large.filter(|large| !self.early.has(&large.txid)) {
            let records = self.cells.layout.pages(large.outputs) + 1;
            let Some(locked) = self.cells.lock(&large.txid, records)? else {
                locked_out.insert(large.txid);
                return Ok(false);
            };
            held.push(locked);
        }
        Ok(true)
    }

    fn commit_locked(&self, plans: &[Planned]) -> Result<Vec<Outcome>, StoreError> {
        let changing = plans.iter().filter(|planned| !planned.plan.changes.is_empty());
        let changing: Vec<_> = changing.map(|planned| (planned.call, &planned.plan)).collect();
        let refused = plans.iter().filter(|planned| planned.plan.changes.is_empty());
        let read = refused.flat_map(|planned| planned.plan.only_read.iter());
        let read: Vec<&(Key, Option<Version>)> = read.collect();
        let now = self.cells.versions(read.iter().map(|(key, _)| key))?;
        let mut is_same = read.iter().zip(now).map(|((_, version), now)| *version == now);
        let mut committed = self.cells.commit_all(&changing)?.into_iter();
        let mut outcomes = Vec::with_capacity(plans.len());
        for Planned { call, plan, .. } in plans {
            if plan.changes.is_empty() {
                let own: Vec<bool> = is_same.by_ref().take(plan.only_read.len()).collect();
                let holds = own.into_iter().all(|is_same| is_same);
                outcomes.push(Ok(if holds { Attempt::Committed } else { Attempt::Lost }));
                continue;
            }
            let outcome = committed.next().expect("each has an outcome");
            if matches!(outcome, Ok(Attempt::Committed)) {
                plan.large.iter().for_each(|large| self.cells.complete(*call, large));
                for (txid, _) in &plan.completed {
                    meter::creation_completed("later");
                    tracing::info!(%txid, "completed what an earlier attempt had left creating");
                }
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

impl Backend for RecordBackend {
    fn mode(&self) -> OpenMode {
        self.mode
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<Trouble> {
        // What the last call met may be over, and what it did not meet may have begun: a probe tells.
        if self.mode.may_write() {
            return None;
        }
        let trouble = self.cells.port.trouble()?;
        Some(Trouble { reason: trouble.reason, passes: trouble.passes })
    }

    fn probe(&self) -> Option<Trouble> {
        let trouble = self.cells.port.probe(self.cells.layout.shards)?;
        Some(Trouble { reason: trouble.reason, passes: trouble.passes })
    }

    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.cells.port.stored_bytes()?)
    }

    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        let mut again = 0;
        loop {
            let view = CellView::new(&self.cells, None, 0);
            let outcome = work(&view);
            if !view.has_moved.get() || again == READS_AGAIN_MAX {
                return outcome;
            }
            again += 1;
        }
    }

    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        let left = self.run(touched, false, &mut |view| {
            let changes = work(view)?;
            Ok(vec![Part { items: vec![0], reads: None, changes }])
        })?;
        if left.again.is_empty() && left.in_progress.is_empty() {
            return Ok(());
        }
        Err(StoreError::InProgress)
    }

    fn commits_items(&self) -> bool {
        true
    }

    fn holds_reads(&self) -> bool {
        false
    }

    fn write_items(
        &self,
        touched: &Touched,
        work: &mut ItemsWork<'_>,
    ) -> Result<Uncommitted, StoreError> {
        let mut parts_max = 0;
        let written = self.run(touched, true, &mut |view| {
            let part = |ItemGroup { items, reads, changes }| {
                let reads = Some(reads.into_iter().collect());
                Part { items, reads, changes }
            };
            let parts: Vec<Part> = work(view)?.into_iter().map(part).collect();
            parts_max = parts_max.max(parts.len());
            Ok(parts)
        });
        // Groups are committed one by one: when one of them fails, others may be stored.
        written.map_err(|error| match error {
            StoreError::Records(RecordError::Unavailable { what: why }) if parts_max > 1 => {
                StoreError::CommitUnknown { why }
            }
            error => error,
        })
    }

    fn engine(&self) -> &'static str {
        self.cells.port.engine()
    }

    fn lock_creations(&self, created: &[(Txid, u32)]) -> Result<BTreeSet<Txid>, StoreError> {
        self.early.take(&self.cells, created)
    }

    fn unlock_creations(&self) {
        self.early.release(&self.cells);
    }

    fn begin_change_of_numbers(&self) -> Result<(), StoreError> {
        self.begin_change()
    }

    fn end_change_of_numbers(&self) -> Result<(), StoreError> {
        self.end_change()
    }

    fn creation_lock(&self, txid: &Txid) -> Result<Option<CreationLock>, StoreError> {
        self.cells.creation_lock(txid)
    }

    fn end_unfinished(&self, limit: usize) -> Result<u64, StoreError> {
        self.cells.sweep(limit)
    }
}
