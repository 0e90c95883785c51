//! One run: preserve parents, end preservations, delete what is due.

use std::{collections::BTreeSet, thread};

use utxokeep_core::{
    Height, Txid,
    node::{KeepReason, NodeError, PruneRules, Pruned, TxRecord, Verdict},
};
use utxokeep_txstore::{Fields, ParentsOf, PruneStore, StoreError};

use crate::{
    clock::Clock,
    control::Control,
    report::{Phase, RunError, RunReport},
    settings::PrunerSettings,
};

/// Calls of dead programs that one run ends at most; the next run goes on.
const UNFINISHED_MAX: usize = 10_000;

/// Place in the list of what is due.
pub(crate) type DuePosition = Option<(Height, Txid)>;

/// Everything a run works with.
#[derive(Clone, Copy)]
pub struct Run<'r> {
    /// The store that is pruned.
    pub store: &'r dyn PruneStore,
    /// Windows, limits and retries of this run.
    pub settings: &'r PrunerSettings,
    /// Where time comes from.
    pub clock: &'r dyn Clock,
    /// Who may stop it.
    pub control: &'r Control,
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// Runs all phases at a height. A run that is stopped or out of time answers a report that is
    /// not complete, and leaves its place in `place` for the next one.
    pub fn at(&self, height: Height, place: &mut DuePosition) -> Result<RunReport, RunError> {
        let mut report = RunReport { height, ..RunReport::default() };
        let started = self.clock.now_ms();
        for phase in Phase::ALL {
            let phase_started = self.clock.now_ms();
            let outcome = match phase {
                Phase::PreserveParents => self.preserve_parents(height, &mut report),
                Phase::ExpirePreservations => self.expire_preservations(height, &mut report),
                Phase::Delete => self.delete(height, started, place, &mut report),
            };
            report.took_ms.insert(phase, self.clock.now_ms().saturating_sub(phase_started));
            // What phase 1 could not protect, phase 2 must not touch.
            outcome.map_err(|(attempts, source)| RunError {
                phase,
                attempts,
                source,
                report: Box::new(report.clone()),
            })?;
            if self.control.is_cancelled() {
                return Ok(report);
            }
        }
        Ok(report)
    }

    /// Tries until it works, it cannot work, or it was tried too often.
    fn retry<T>(
        &self,
        retries: &mut u64,
        mut work: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, (u32, StoreError)> {
        let mut wait_ms = self.settings.retry_wait_ms;
        for attempt in 1.. {
            match work() {
                Ok(answer) => return Ok(answer),
                Err(error)
                    if attempt > self.settings.retry_max
                        || !error.may_pass()
                        || self.control.is_cancelled() =>
                {
                    return Err((attempt, error));
                }
                Err(error) => {
                    tracing::warn!(%error, attempt, "the store failed; trying again");
                    *retries += 1;
                    // Short waits, so that a cancelled run ends within a second.
                    self.clock.sleep_ms(wait_ms.min(500));
                    wait_ms = wait_ms.saturating_mul(2);
                }
            }
        }
        unreachable!("attempts are counted up to a limit")
    }

    /// Height up to which a transaction must be unmined for its parents to be preserved, if phase 1
    /// has anything to do.
    fn cutoff(&self, height: Height) -> Option<Height> {
        let settings = self.settings;
        let age = Height::new(settings.unmined_retention_blocks).depth_below(height)?;
        let is_off = settings.parent_preservation_blocks == 0 || settings.skip_preserve_parents;
        (age > 0 && !is_off).then_some(Height::new(age))
    }

    /// What was kept for children that do not wait any more is let go first: what another one that
    /// waits names is then kept anew.
    fn preserve_parents(&self, height: Height, report: &mut RunReport) -> Outcome {
        let store = self.store;
        self.retry(&mut report.retries, || store.end_unfinished(UNFINISHED_MAX))?;
        self.end_keeping_for_children(report)?;
        let settings = self.settings;
        let Some(cutoff) = self.cutoff(height) else { return Ok(()) };
        let until = height.plus(settings.parent_preservation_blocks);
        let rows = settings.chunk_rows;
        let mut after = None;
        while !self.control.is_cancelled() {
            let page = self.retry(&mut report.retries, || store.unmined(cutoff, after, rows))?;
            let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
            let found = self.retry(&mut report.retries, || store.parents(&txids))?;
            let mut parents = Vec::new();
            for (child, found) in txids.iter().zip(found) {
                match found {
                    ParentsOf::Known(found) => {
                        report.old_unmined += u64::from(!found.is_empty());
                        parents.extend(found);
                    }
                    ParentsOf::Nobody => {}
                    // Its parents stay all the same: it is a child that is not mined.
                    ParentsOf::Unreadable => {
                        tracing::error!(txid = %child, "its body cannot be read, nor its parents");
                        report.unreadable += 1;
                    }
                }
            }
            parents.sort_unstable();
            parents.dedup();
            for chunk in parents.chunks(rows) {
                let kept =
                    self.retry(&mut report.retries, || store.preserve_parents(chunk, until))?;
                report.parents_preserved += kept as u64;
            }
            after = page.last().copied();
            if page.len() < rows {
                return Ok(());
            }
        }
        Ok(())
    }

    fn end_keeping_for_children(&self, report: &mut RunReport) -> Outcome {
        let rows = self.settings.chunk_rows;
        let mut after = None;
        while !self.settings.skip_expire_preservations && !self.control.is_cancelled() {
            let (ended, next) = self
                .retry(&mut report.retries, || self.store.end_keeping_for_children(after, rows))?;
            report.expired += ended;
            if next.is_none() {
                break;
            }
            after = next;
        }
        Ok(())
    }

    fn expire_preservations(&self, height: Height, report: &mut RunReport) -> Outcome {
        let rows = self.settings.chunk_rows;
        while !self.settings.skip_expire_preservations && !self.control.is_cancelled() {
            let expired =
                self.retry(&mut report.retries, || self.store.expire_preservations(height, rows))?;
            report.expired += expired as u64;
            if expired < rows {
                break;
            }
        }
        Ok(())
    }

    fn delete(
        &self,
        height: Height,
        started_ms: u64,
        place: &mut DuePosition,
        report: &mut RunReport,
    ) -> Outcome {
        let settings = self.settings;
        if settings.skip_deletions {
            report.is_complete = true;
            return Ok(());
        }
        let rules = self.rules(height);
        let rows = settings.chunk_rows.saturating_mul(settings.parallel_chunks);
        let mut logged_ms = started_ms;
        loop {
            let now = self.clock.now_ms();
            let spent_ms = now.saturating_sub(started_ms);
            let is_late = settings.run_time_max_ms > 0 && spent_ms >= settings.run_time_max_ms;
            if self.control.is_cancelled() || is_late {
                return Ok(());
            }
            let (until, after) = (rules.height, *place);
            let page = self.retry(&mut report.retries, || self.store.due(until, after, rows))?;
            let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
            self.delete_page(&txids, &rules, report)?;
            *place = page.last().copied();
            if page.len() < rows {
                *place = None;
                break;
            }
            if settings.progress_log_ms > 0 && now - logged_ms >= settings.progress_log_ms {
                let (examined, deleted) = self.control.progress();
                tracing::info!(%height, examined, deleted, "pruning");
                logged_ms = now;
            }
        }
        if settings.undo_blocks > 0 {
            let below = height.minus(settings.undo_blocks - 1);
            let trimmed = self.retry(&mut report.retries, || self.store.trim_undo(below))?;
            report.undo_trimmed += trimmed;
        }
        report.is_complete = true;
        Ok(())
    }

    fn rules(&self, height: Height) -> PruneRules {
        let rules = PruneRules::at(height, self.settings.safety_window_blocks);
        if self.settings.undo_blocks > 0 { rules.with_undo() } else { rules }
    }

    /// Deletes in chunks, several at a time.
    fn delete_page(&self, txids: &[Txid], rules: &PruneRules, report: &mut RunReport) -> Outcome {
        let mut chunks = txids.chunks(self.settings.chunk_rows);
        if chunks.len() <= 1 {
            let (done, outcome) = self.delete_chunk(chunks.next().unwrap_or(&[]), rules);
            report.add(&done);
            return outcome;
        }
        let parts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                chunks.map(|chunk| scope.spawn(move || self.delete_chunk(chunk, rules))).collect();
            threads.into_iter().map(|t| t.join().expect("chunks do not panic")).collect()
        });
        let mut outcome = Ok(());
        for (done, part) in parts {
            report.add(&done);
            outcome = outcome.and(part);
        }
        outcome
    }

    /// Deletes one chunk. Should one of its records not decode, the others are asked about without
    /// it: it stays, and is counted.
    fn delete_chunk(&self, txids: &[Txid], rules: &PruneRules) -> (RunReport, Outcome) {
        let mut report = RunReport::default();
        let mut work_list = vec![txids];
        while let Some(part) = work_list.pop().filter(|_| !self.control.is_cancelled()) {
            if part.is_empty() {
                continue;
            }
            let answer = self.retry(&mut report.retries, || self.store.prune(part, rules));
            match answer {
                Ok(Ok(pruned)) => self.count(part, &pruned, rules.height, &mut report),
                // The trigger offers no height of 0.
                Ok(Err(NodeError::HeightZero)) => {}
                Ok(Err(error)) => tracing::error!(%error, "the store refused to prune"),
                Err((_, error)) if error.is_about_one() && part.len() == 1 => {
                    tracing::error!(txid = %part[0], %error, "kept, because it cannot be read");
                    report.examined += 1;
                    report.unreadable += 1;
                }
                Err((_, error)) if error.is_about_one() => {
                    let (left, right) = part.split_at(part.len() / 2);
                    work_list.extend([right, left]);
                }
                Err(failed) => return (report, Err(failed)),
            }
        }
        (report, Ok(()))
    }

    fn count(&self, txids: &[Txid], pruned: &[Pruned], height: Height, report: &mut RunReport) {
        let before = report.deleted;
        for (txid, one) in txids.iter().zip(pruned) {
            match one {
                Pruned::Deleted { outputs, parents_marked, .. } => {
                    report.deleted += 1;
                    report.outputs_deleted += u64::from(*outputs);
                    report.parents_marked += u64::from(*parents_marked);
                }
                Pruned::Kept { reason, child } => {
                    let child = child.map(tracing::field::display);
                    tracing::info!(%height, %txid, %reason, child, "kept");
                    report.keep(*reason);
                }
            }
        }
        report.examined += pruned.len() as u64;
        self.control.advance(pruned.len() as u64, report.deleted - before);
    }
}

/// What a run at a height would delete, and why it would keep the rest, after what the phases
/// before deletion would do. Changes nothing.
pub fn rehearse(run: &Run<'_>, height: Height) -> Result<RunReport, StoreError> {
    let mut report = RunReport { height, ..RunReport::default() };
    if run.settings.skip_deletions {
        report.is_complete = true;
        return Ok(report);
    }
    let rules = PruneRules::at(height, run.settings.safety_window_blocks);
    let waited_for = due_and_waited_for(run, height)?;
    let rows = run.settings.chunk_rows;
    let mut after = None;
    while !run.control.is_cancelled() && !run.settings.skip_expire_preservations {
        let (over, next) = run.store.kept_for_nobody(after, rows)?;
        let txids = over.into_iter().map(|(txid, _)| txid);
        let txids: Vec<Txid> = txids.filter(|txid| !waited_for.contains(txid)).collect();
        for answer in run.store.rehearse(&txids, &rules)? {
            // Only what is due then is looked at: everything but its children allows it.
            let is_due = matches!(
                answer.0,
                Verdict::Delete
                    | Verdict::Keep(
                        KeepReason::BodyMissing
                            | KeepReason::ChildUnmined
                            | KeepReason::ChildYoung
                            | KeepReason::ChildMissing
                            | KeepReason::ChildUnknown
                    )
            );
            if is_due {
                count_rehearsed(answer, &mut report);
            }
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    let mut after = None;
    while !run.control.is_cancelled() {
        let page = run.store.due(height, after, rows)?;
        let txids = page.iter().map(|(_, txid)| *txid);
        let txids: Vec<Txid> = txids.filter(|txid| !waited_for.contains(txid)).collect();
        for answer in run.store.rehearse(&txids, &rules)? {
            count_rehearsed(answer, &mut report);
        }
        after = page.last().copied();
        if page.len() < rows {
            report.is_complete = true;
            break;
        }
    }
    Ok(report)
}

fn count_rehearsed((verdict, bytes): (Verdict, u64), report: &mut RunReport) {
    report.examined += 1;
    match verdict {
        Verdict::Delete => {
            report.deleted += 1;
            report.bytes += bytes;
        }
        Verdict::Keep(reason) => report.keep(reason),
    }
}

/// Records that could go at a height and that phase 1 would keep: parents of old unmined
/// transactions.
fn due_and_waited_for(run: &Run<'_>, height: Height) -> Result<BTreeSet<Txid>, StoreError> {
    let mut found = BTreeSet::new();
    let Some(cutoff) = run.cutoff(height) else { return Ok(found) };
    let (rows, mut after) = (run.settings.chunk_rows, None);
    while !run.control.is_cancelled() {
        let page = run.store.unmined(cutoff, after, rows)?;
        let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
        let mut parents = BTreeSet::new();
        for of_one in run.store.parents(&txids)? {
            if let ParentsOf::Known(of_one) = of_one {
                parents.extend(of_one);
            }
        }
        let parents: Vec<Txid> = parents.into_iter().collect();
        for some in parents.chunks(rows) {
            let records = run.store.get(some, Fields::default())?;
            for (parent, stored) in some.iter().zip(records) {
                let is_due = |record: &TxRecord| {
                    record.delete_at.is_some_and(|due| due <= height)
                        || record.kept_for_child_until.is_some()
                };
                if stored.is_some_and(|stored| is_due(&stored.record)) {
                    found.insert(*parent);
                }
            }
        }
        after = page.last().copied();
        if page.len() < rows {
            break;
        }
    }
    Ok(found)
}

/// How a phase ended: fine, or after so many attempts with an error.
type Outcome = Result<(), (u32, StoreError)>;

/// Reasons that a waiting block alone explains; the rest is for people to look at.
pub(crate) const fn is_worth_a_look(reason: KeepReason) -> bool {
    matches!(
        reason,
        KeepReason::ChildMissing
            | KeepReason::ChildUnknown
            | KeepReason::BodyMissing
            | KeepReason::Contradiction
            | KeepReason::OutputUnspent
    )
}
