//! A call over several cells happens whole or not at all, also when its actor stalls past its
//! deadline and comes back.
//!
//! 1. Status: pending, create-only. It names every cell that is about to be staged.
//! 2. Staging: each cell gets what it will be, on the version that was read. Where servers refuse late
//!    writes, statuses and stagings are sent side by side.
//! 3. What was only read is still of the version that was read.
//! 4. Commit: the status becomes committed, on its version. Before it nothing happened, behind it
//!    everything did.
//! 5. Roll forward: each cell becomes what is staged in it; then the status goes.
//!
//! Parts of a list that do not depend on each other go through these steps side by side, each with a
//! status of its own, so that a step of all of them is one call of the port.
//!
//! # Invariants
//!
//! * A barrier follows the staging, the commit, an abort, and rolling forward. With one barrier at
//!   the end, a failover of one shard could keep the commit and lose a staging.
//! * Of a call whose stagings were seen without its status, the status never comes to life. Whoever
//!   saw that has written it as aborted, and remembers it for `aborted_ttl_ms`; a server refuses a
//!   status that arrives later than half of that. Where servers do not refuse late writes the status is
//!   there before anything is staged.
//! * The status of a committed call goes only once every cell of it is final, wherever a failover
//!   may strike. Nobody waits for that: one that stays is found by its row.
//! * Indexes change with rolling forward, in the same write as their record, and the answer waits for
//!   it: whoever lists records behind an answered call finds what it wrote.

use std::collections::BTreeMap;

use utxokeep_records::{Barrier, Key, ReadCell, Version, WriteCell, Written};

use super::{
    cells::{Cells, Sent},
    fault::Fault,
    layout::{CREATOR, KEYS, OPEN, STATE},
    patch::Staging,
    plan::{Change, Plan},
    resolve::Met,
    status::{CallId, CallStatus, State, encode_keys},
};
use crate::error::StoreError;

/// Time for one cell of a call, on top of the time for every call, in milliseconds.
const MS_PER_CELL: u64 = 2;

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Committed,
    /// A cell changed meanwhile; nothing happened, and the call has to be decided again.
    Lost,
}

/// What became of an attempt, or why that is not known.
pub(super) type Outcome = Result<Attempt, StoreError>;

/// A call on its way to its commit.
struct Running<'p> {
    call: CallId,
    plan: &'p Plan,
    key: Key,
    status: CallStatus,
    /// The version of the status.
    version: Version,
    /// The version of each cell once it is staged.
    staged: Vec<Version>,
    /// `None` while it goes on.
    outcome: Option<Outcome>,
}

/// Statuses of calls to be written, and their further keys with the number of the call.
#[derive(Default)]
struct Statuses {
    writes: Vec<WriteCell>,
    pages: Vec<(usize, WriteCell)>,
}

impl Running<'_> {
    const fn goes_on(&self) -> bool {
        self.outcome.is_none()
    }

    fn end(&mut self, outcome: Outcome) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
        }
    }
}

impl Cells {
    /// The worst that became of writes that belong together; `None` if all are done.
    fn worst(&self, sent: &[Sent], what: &str) -> Option<Outcome> {
        let is = |wanted: Written| sent.iter().any(|sent| sent.written == wanted);
        if sent.iter().all(|sent| sent.is_done()) {
            None
        } else if is(Written::Unavailable) || is(Written::InDoubt) {
            Some(Err(self.unavailable(what)))
        } else {
            Some(Ok(Attempt::Lost))
        }
    }

    /// Commits plans that change different cells, each whole or not at all. An error means that
    /// nothing was begun.
    pub(super) fn commit_all(&self, plans: &[(CallId, &Plan)]) -> Result<Vec<Outcome>, StoreError> {
        if self.context.leaves_out(Fault::StatusForEachPart) {
            return plans.iter().map(|(call, plan)| self.commit_in_parts(*call, plan)).collect();
        }
        self.commit_whole(plans)
    }

    /// The mistake of a call that has more than one status.
    fn commit_in_parts(&self, call: CallId, plan: &Plan) -> Result<Outcome, StoreError> {
        let (first, second) = plan.parts();
        let other = CallId { attempt: call.attempt.wrapping_add(1 << 20), ..call };
        let parts = [(call, &first), (other, &second)];
        let parts: Vec<_> = parts.into_iter().filter(|(_, part)| !part.is_empty()).collect();
        let outcomes = self.commit_whole(&parts)?;
        let worst = outcomes.into_iter().find(|outcome| !matches!(outcome, Ok(Attempt::Committed)));
        Ok(worst.unwrap_or(Ok(Attempt::Committed)))
    }

    fn commit_whole(&self, plans: &[(CallId, &Plan)]) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes: Vec<Option<Outcome>> = plans.iter().map(|_| None).collect();
        let is_single = |plan: &Plan| {
            plan.changes.len() == 1 && plan.only_read.is_empty() && plan.large.is_empty()
        };
        let singles: Vec<usize> = (0..plans.len()).filter(|&at| is_single(plans[at].1)).collect();
        self.commit_singles(plans, &singles, &mut outcomes)?;
        let others: Vec<usize> = (0..plans.len()).filter(|&at| outcomes[at].is_none()).collect();
        let many: Vec<_> = others.iter().map(|&at| plans[at]).collect();
        let ended = match self.commit_many(&many) {
            Ok(ended) => ended,
            Err(error) if singles.is_empty() => return Err(error),
            Err(_) => many.iter().map(|_| Err(self.unavailable("a status"))).collect(),
        };
        for (at, outcome) in others.into_iter().zip(ended) {
            outcomes[at] = Some(outcome);
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// A change of one cell that rests on nothing else is one conditional write.
    fn commit_singles(
        &self,
        plans: &[(CallId, &Plan)],
        which: &[usize],
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), StoreError> {
        let write = |&at: &usize| {
            let Change { key, read, patch } = &plans[at].1.changes[0];
            patch.write(key, *read, self.version(*read))
        };
        let writes: Vec<_> = which.iter().map(write).collect();
        for (&at, sent) in which.iter().zip(self.send(&writes, Barrier::Safe)?) {
            let (call, plan) = plans[at];
            outcomes[at] = Some(match sent.written {
                Written::Done => Ok(Attempt::Committed),
                Written::Mismatch(_) if sent.was_in_doubt => self.recognise(call, &plan.changes),
                Written::Mismatch(_) => Ok(Attempt::Lost),
                Written::InDoubt => Err(self.unknown()),
                Written::Unavailable => Err(self.unavailable("a write")),
            });
        }
        Ok(())
    }

    /// An answer was lost, and somebody changed the cell since. A cell that the call created bears its
    /// mark; of any other nobody knows.
    fn recognise(&self, call: CallId, changes: &[Change]) -> Outcome {
        if self.context.leaves_out(Fault::MarkNotLookedFor) {
            return Ok(Attempt::Committed);
        }
        let created = changes.iter().filter(|change| change.read.is_none());
        let read = |change: &Change| ReadCell::fields(change.key.clone(), [CREATOR.to_vec()]);
        let reads: Vec<_> = created.map(read).collect();
        let mark = call.mark();
        let is_ours = self.read(&reads)?.iter().flatten().any(|c| c.get(CREATOR) == Some(&mark));
        if is_ours { Ok(Attempt::Committed) } else { Err(self.unknown()) }
    }

    fn commit_many(&self, plans: &[(CallId, &Plan)]) -> Result<Vec<Outcome>, StoreError> {
        let (mut running, statuses) = self.draft(plans)?;
        if self.port.refuses_late_writes() {
            self.begin_and_stage(&mut running, statuses)?;
        } else {
            self.begin(&mut running, statuses)?;
            self.stage(&mut running);
        }
        self.prepare(&mut running);
        self.decide(&mut running);
        for one in &mut running {
            let is_lost = !matches!(one.outcome, None | Some(Ok(Attempt::Committed)));
            if is_lost && one.status.state == State::Pending {
                self.give_up(one);
            }
        }
        self.finish(&running);
        let end = |one: Running<'_>| one.outcome.unwrap_or(Ok(Attempt::Committed));
        Ok(running.into_iter().map(end).collect())
    }

    /// Works out the statuses of calls.
    fn draft<'p>(
        &self,
        plans: &[(CallId, &'p Plan)],
    ) -> Result<(Vec<Running<'p>>, Statuses), StoreError> {
        if plans.is_empty() {
            return Ok((Vec::new(), Statuses::default()));
        }
        let (now_ms, mut running) = (self.now_ms()?, Vec::with_capacity(plans.len()));
        let (mut writes, mut pages) = (Vec::with_capacity(plans.len()), Vec::new());
        for (call, plan) in plans {
            let keys: Vec<Key> = plan.changes.iter().map(|change| change.key.clone()).collect();
            let keys_max = self.context.keys_max();
            let (first, further) = keys.split_at(keys.len().min(keys_max));
            let further = further.chunks(keys_max);
            let time_ms = self.settings.call_deadline_ms + MS_PER_CELL * keys.len() as u64;
            let status = CallStatus {
                state: State::Pending,
                deadline_ms: now_ms + time_ms,
                pages: u32::try_from(further.len()).unwrap_or(u32::MAX),
            };
            let (key, version) = (self.layout.status(call), self.version(None));
            let mut write = WriteCell::create(key.clone(), version)
                .set(STATE, status.encode())
                .set(KEYS, encode_keys(first))
                .index(OPEN, call.to_bytes(), Some(status.deadline_ms));
            if !self.context.leaves_out(Fault::LateStatusTaken) {
                // Half, so that clocks may differ by the other half.
                write.not_after_ms = Some(now_ms + self.settings.aborted_ttl_ms / 2);
            }
            writes.push(write);
            for (number, keys) in (1..).zip(further) {
                let page = self.layout.status_page(call, number);
                let write = WriteCell::create(page, self.version(None));
                pages.push((running.len(), write.set(KEYS, encode_keys(keys))));
            }
            let (call, staged) = (*call, Vec::new());
            running.push(Running { call, plan, key, status, version, staged, outcome: None });
        }
        Ok((running, Statuses { writes, pages }))
    }

    /// Statuses and stagings side by side: one round. A status that others find missing they write as
    /// aborted; it cannot come later than that is remembered.
    fn begin_and_stage(
        &self,
        running: &mut [Running<'_>],
        statuses: Statuses,
    ) -> Result<(), StoreError> {
        let Statuses { mut writes, pages } = statuses;
        let (count, of_pages) = (writes.len(), pages.iter().map(|(_, write)| write.clone()));
        writes.extend(of_pages);
        writes.extend(self.draft_stagings(running));
        let sent = self.send(&writes, self.barrier_unless(Fault::StagedWithoutBarrier))?;
        let (of_statuses, rest) = sent.split_at(count);
        let (of_pages, of_stagings) = rest.split_at(pages.len());
        for (one, sent) in running.iter_mut().zip(of_statuses) {
            one.outcome = self.worst(&[*sent], "a status");
        }
        for ((at, _), sent) in pages.iter().zip(of_pages) {
            if let Some(end) = self.worst(&[*sent], "a status") {
                running[*at].end(end);
            }
        }
        let mut of_stagings = of_stagings.iter().copied();
        for one in running {
            let own: Vec<Sent> = of_stagings.by_ref().take(one.plan.changes.len()).collect();
            if let Some(end) = self.worst(&own, "a staging") {
                one.end(end);
            }
        }
        Ok(())
    }

    /// Writes the statuses before anything is staged, where servers take late writes: otherwise a status
    /// that is missing could still appear when nobody remembers that it was aborted.
    fn begin(&self, running: &mut [Running<'_>], statuses: Statuses) -> Result<(), StoreError> {
        let Statuses { writes, pages } = statuses;
        for (one, sent) in running.iter_mut().zip(self.send(&writes, Barrier::Safe)?) {
            if let Some(end) = self.worst(&[sent], "a status") {
                one.end(end);
            }
        }
        let writes: Vec<_> = pages.iter().map(|(_, write)| write.clone()).collect();
        match self.send(&writes, Barrier::Safe) {
            Ok(sent) => {
                for ((at, _), sent) in pages.iter().zip(sent) {
                    if let Some(end) = self.worst(&[sent], "a status") {
                        running[*at].end(end);
                    }
                }
            }
            Err(_) => {
                for (at, _) in &pages {
                    running[*at].end(Err(self.unavailable("a status")));
                }
            }
        }
        Ok(())
    }

    /// What puts into every cell what it will be.
    fn draft_stagings(&self, running: &mut [Running<'_>]) -> Vec<WriteCell> {
        let mut writes = Vec::new();
        for one in running.iter_mut().filter(|one| one.goes_on()) {
            for Change { key, read, patch } in &one.plan.changes {
                let version = self.version(*read);
                let mut write = Staging::stage(one.call, patch, key, *read, version);
                if self.context.leaves_out(Fault::RowsAtStaging) {
                    write.index = patch.write(key, *read, version).index;
                }
                writes.push(write);
                one.staged.push(version);
            }
        }
        writes
    }

    /// Puts what every cell will be into it.
    fn stage(&self, running: &mut [Running<'_>]) {
        let writes = self.draft_stagings(running);
        let sent = self.send(&writes, self.barrier_unless(Fault::StagedWithoutBarrier));
        let mut sent = sent.map(Vec::into_iter);
        for one in running.iter_mut().filter(|one| one.outcome.is_none()) {
            let end = match &mut sent {
                Ok(sent) => {
                    let own: Vec<Sent> = sent.by_ref().take(one.plan.changes.len()).collect();
                    self.worst(&own, "a staging")
                }
                Err(_) => Some(Err(self.unavailable("a staging"))),
            };
            one.outcome = end;
        }
    }

    fn barrier_unless(&self, fault: Fault) -> Barrier {
        if self.context.leaves_out(fault) { Barrier::None } else { Barrier::Safe }
    }

    /// What is left to do once everything is staged: pages of large transactions are written, and what
    /// was only read has to be as it was. Behind the staging: of two calls that each read what the
    /// other changes, the second to look sees the staging of the first.
    fn prepare(&self, running: &mut [Running<'_>]) {
        for one in running.iter_mut().filter(|one| one.goes_on()) {
            for large in &one.plan.large {
                let written = self.write_pages(one.call, large);
                if self.context.leaves_out(Fault::PagesClearedEarly) {
                    let _ = self.clear_pages(one.call, &large.txid, large.outputs);
                }
                match written {
                    Ok(true) => {}
                    Ok(false) => one.end(Ok(Attempt::Lost)),
                    Err(error) => one.end(Err(error)),
                }
            }
        }
        if self.context.leaves_out(Fault::ReadsNotValidated) {
            return;
        }
        let going_on = running.iter().filter(|one| one.goes_on());
        let read = going_on.flat_map(|one| one.plan.only_read.iter().map(|(key, _)| key));
        let keys: std::collections::BTreeSet<&Key> = read.collect();
        if keys.is_empty() {
            return;
        }
        let now: Result<BTreeMap<Key, Option<Version>>, StoreError> = self
            .safe_versions(keys.iter().copied())
            .map(|now| keys.into_iter().cloned().zip(now).collect());
        for one in running.iter_mut().filter(|one| one.goes_on()) {
            let is_same = |now: &BTreeMap<Key, Option<Version>>| {
                one.plan.only_read.iter().all(|(key, version)| now.get(key) == Some(version))
            };
            match &now {
                Ok(now) if is_same(now) => {}
                Ok(_) => one.end(Ok(Attempt::Lost)),
                Err(_) if one.plan.only_read.is_empty() => {}
                Err(_) => one.end(Err(self.unavailable("a barrier"))),
            }
        }
    }

    /// The commits themselves.
    fn decide(&self, running: &mut [Running<'_>]) {
        let mut writes = Vec::new();
        let mut versions = Vec::new();
        for one in running.iter().filter(|one| one.goes_on()) {
            let committed = CallStatus { state: State::Committed, ..one.status };
            let next = self.version(Some(one.version));
            let write = WriteCell::update(one.key.clone(), one.version, next);
            writes.push(write.set(STATE, committed.encode()));
            versions.push(next);
        }
        let barrier = self.barrier_unless(Fault::CommittedWithoutBarrier);
        let sent = self.send(&writes, barrier);
        let mut sent = sent.map(Vec::into_iter);
        let mut versions = versions.into_iter();
        for one in running.iter_mut().filter(|one| one.outcome.is_none()) {
            let next = versions.next().expect("each has one");
            let sent = match &mut sent {
                Ok(sent) => sent.next().expect("each has an answer"),
                Err(_) => Sent { written: Written::Unavailable, was_in_doubt: false },
            };
            match sent.written {
                Written::Done => {
                    one.status.state = State::Committed;
                    one.version = next;
                }
                Written::Mismatch(_) => {
                    let outcome = self.overtaken(one, sent.was_in_doubt);
                    one.outcome = Some(outcome);
                }
                Written::InDoubt => {
                    // It may be committed: nothing of it may be touched.
                    one.status.state = State::Committed;
                    one.outcome = Some(Err(self.unknown()));
                }
                Written::Unavailable => one.outcome = Some(Err(self.unavailable("a commit"))),
            }
        }
    }

    /// The status was changed by another: it is aborted, or, if the answer to the commit was lost, it
    /// may be finished already.
    fn overtaken(&self, one: &mut Running<'_>, was_in_doubt: bool) -> Outcome {
        let found = self.read_one(ReadCell::fields(one.key.clone(), [STATE.to_vec()]))?;
        let state = found.map(|cell| CallStatus::of(&cell)).transpose()?;
        let is_aborted = state.is_some_and(|(now, _)| now.state == State::Aborted);
        if was_in_doubt && !is_aborted {
            one.status.state = State::Committed;
            return self.recognise(one.call, &one.plan.changes);
        }
        Ok(Attempt::Lost)
    }

    /// Aborts an attempt of one's own, and takes its stagings away as anybody else would. What cannot
    /// be undone now, others undo.
    fn give_up(&self, one: &Running<'_>) {
        // Where it does not abort the status, another did, or there is none.
        let aborted = self.write_aborted(one.call, &one.status, one.version);
        let keys: Vec<Key> = one.plan.changes.iter().map(|change| change.key.clone()).collect();
        if aborted.is_ok() && (one.staged.is_empty() || self.undo(one.call, &keys).unwrap_or(false))
        {
            // What stays is found by its row.
            let _ = self.retire_call(one.call);
        }
    }

    /// Answers whether no staging is left, wherever a failover may strike.
    fn undo(&self, call: CallId, keys: &[Key]) -> Result<bool, StoreError> {
        let met = self.staged(keys)?;
        if self.context.leaves_out(Fault::UndoByFence) {
            let back = |Met { key, version, staging }: Met| {
                staging.back(&key, version, self.version(Some(version)))
            };
            let writes: Vec<_> = met.into_iter().map(back).collect();
            let _ = self.send(&writes, Barrier::None)?;
            return Ok(true);
        }
        let ours: Vec<Met> = met.into_iter().filter(|met| met.staging.call == call).collect();
        Ok(self.resolve_with(&ours, Some(call.given_up()), Barrier::Safe)?.1)
    }

    /// Rolls everything forward, and lets the statuses go. The calls are committed, whatever becomes
    /// of this: others finish them.
    fn finish(&self, running: &[Running<'_>]) {
        let done: Vec<&Running<'_>> = running.iter().filter(|one| one.goes_on()).collect();
        if self.context.leaves_out(Fault::StatusGoesFirst) {
            self.forget(&done);
        }
        let mut writes = Vec::new();
        for one in &done {
            for (Change { key, read, patch }, staged) in one.plan.changes.iter().zip(&one.staged) {
                let mut patch = patch.clone();
                if read.is_none() {
                    patch.set.clear();
                    patch.unset.clear();
                }
                let staging = Staging { call: one.call, is_new: read.is_none(), patch };
                writes.push(staging.forward(key, *staged, self.version(Some(*staged))));
            }
        }
        let Ok(sent) = self.send(&writes, self.barrier_unless(Fault::FinalWithoutBarrier)) else {
            return;
        };
        // A cell that is another by now was rolled forward by somebody else, and that is safe too.
        let is_final = |sent: &Sent| matches!(sent.written, Written::Done | Written::Mismatch(_));
        let mut sent = sent.into_iter();
        let are_final = |one: &&Running<'_>| {
            let own: Vec<Sent> = sent.by_ref().take(one.plan.changes.len()).collect();
            own.iter().all(is_final)
        };
        let done: Vec<&Running<'_>> = done.into_iter().filter(are_final).collect();
        self.forget(&done);
    }

    /// Deletes statuses of calls that are final. One that stays is found by its row.
    fn forget(&self, done: &[&Running<'_>]) {
        let (long, short): (Vec<_>, Vec<_>) = done.iter().partition(|one| one.status.pages > 0);
        let delete = |one: &&Running<'_>| {
            let row = one.call.to_bytes();
            WriteCell::discard(one.key.clone(), one.version).index(OPEN, row, None)
        };
        let writes: Vec<_> = short.into_iter().map(delete).collect();
        if !writes.is_empty() {
            self.port.write_later(writes);
        }
        for one in long {
            let _ = self.forget_call(one.call);
        }
    }
}
