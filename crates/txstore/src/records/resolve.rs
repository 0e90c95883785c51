//! Meeting what another call staged: what became of that call, and what to do with its staging.
//!
//! # Invariants
//!
//! * A staging is removed in one way: the cell is read, then the status of its call; only if that is
//!   aborted, the cell is written on the version that was read. A call that undoes its own stagings
//!   goes the same way: by its own id it would free what a second attempt has staged since.
//! * Absence is no fact. Where the status is missing it is written as aborted first, create-only, so
//!   that its call cannot commit any more. That is remembered for longer than servers take a status
//!   that was held up on its way.
//! * A call that others abort keeps its row and the names of its cells until all of them are as they
//!   were: the actor may have died, and then the sweep finds them.
//! * What a status says counts once a failover does not undo it: committed before anything is rolled
//!   forward, aborted before anything is rolled back.

use std::collections::BTreeMap;

use utxokeep_records::{Barrier, Key, ReadCell, Version, WriteCell, Written};

use super::{
    cells::{Cells, Sent},
    fault::Fault,
    layout::{OPEN, STAGING, STATE},
    patch::Staging,
    status::{CallId, CallStatus, State},
};
use crate::error::StoreError;

/// How often a status is looked at while others change it.
const LOOKS_MAX: usize = 100;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Aborted,
    /// It is alive, and the one who asks has to wait.
    Busy,
}

/// A staging that was met in a cell.
#[derive(Debug, Clone)]
pub(super) struct Met {
    pub(super) key: Key,
    pub(super) version: Version,
    pub(super) staging: Staging,
}

impl Cells {
    /// Finds out what became of a call, or decides it. An older call that asks aborts a living one.
    pub(super) fn fate(&self, call: CallId, by: Option<CallId>) -> Result<Fate, StoreError> {
        let key = self.layout.status(&call);
        for _ in 0..LOOKS_MAX {
            let found = self.read_one(ReadCell::fields(key.clone(), [STATE.to_vec()]))?;
            let Some(stored) = found else {
                if self.context.leaves_out(Fault::AbsenceDecides) {
                    return Ok(Fate::Aborted);
                }
                // It may be on its way still: its stagings are sent along with it.
                let deadline_ms = call.started_ms + self.settings.call_deadline_ms;
                if !self.may_abort(&key, deadline_ms, call, by)? {
                    return Ok(Fate::Busy);
                }
                if self.write_missing(&key)? {
                    return Ok(Fate::Aborted);
                }
                continue;
            };
            let (status, version) = CallStatus::of(&stored)?;
            if status.state == State::Pending {
                if !self.may_abort(&key, status.deadline_ms, call, by)? {
                    return Ok(Fate::Busy);
                }
                if self.write_aborted(call, &status, version)? {
                    return Ok(Fate::Aborted);
                }
                continue;
            }
            // Another may have written it a moment ago, and a failover may undo it yet.
            if self.safe_versions([&key])? == [Some(version)] {
                let is_committed = status.state == State::Committed;
                return Ok(if is_committed { Fate::Committed } else { Fate::Aborted });
            }
        }
        Err(StoreError::InProgress)
    }

    /// Whether a call that is not decided may be aborted: its time is over, an older one needs its
    /// cells, or its own actor has given it up.
    fn may_abort(
        &self,
        key: &Key,
        deadline_ms: u64,
        call: CallId,
        by: Option<CallId>,
    ) -> Result<bool, StoreError> {
        let is_older = by.is_some_and(|by| by.is_older(call));
        let wounds = is_older && !self.context.leaves_out(Fault::NobodyWounds);
        let is_given_up = by.is_some_and(|by| by.supersedes(call));
        if wounds || is_given_up || self.context.leaves_out(Fault::EverybodyWounds) {
            return Ok(true);
        }
        Ok(self.port.now_ms(key.shard)? >= deadline_ms)
    }

    fn abort_barrier(&self) -> Barrier {
        let is_left_out = self.context.leaves_out(Fault::AbortedWithoutBarrier);
        if is_left_out { Barrier::None } else { Barrier::Safe }
    }

    /// Writes a status that is missing as aborted; answers whether it is. Nothing is known of its cells.
    fn write_missing(&self, key: &Key) -> Result<bool, StoreError> {
        let aborted = CallStatus { state: State::Aborted, deadline_ms: 0, pages: 0 };
        let write = WriteCell::create(key.clone(), self.version(None))
            .set(STATE, aborted.encode())
            .expires_in_ms(self.settings.aborted_ttl_ms);
        self.is_aborted(write)
    }

    /// Writes the status of a pending call as aborted; answers whether it is.
    pub(super) fn write_aborted(
        &self,
        call: CallId,
        status: &CallStatus,
        version: Version,
    ) -> Result<bool, StoreError> {
        let aborted = CallStatus { state: State::Aborted, ..*status };
        let key = self.layout.status(&call);
        let mut write = WriteCell::update(key, version, self.version(Some(version)))
            .set(STATE, aborted.encode());
        if self.context.leaves_out(Fault::AbortedForgotten) {
            write = write
                .index(OPEN, call.to_bytes(), None)
                .expires_in_ms(self.settings.aborted_ttl_ms);
        }
        self.is_aborted(write)
    }

    fn is_aborted(&self, write: WriteCell) -> Result<bool, StoreError> {
        match self.send_one(write, self.abort_barrier())?.written {
            Written::Done => Ok(true),
            Written::Mismatch(_) => Ok(false),
            Written::InDoubt | Written::Unavailable => Err(self.unavailable("the end of a call")),
        }
    }

    /// Rolls stagings forward or back, as the status of each says. Answers whether none of them has
    /// to be waited for.
    pub(super) fn resolve(&self, met: &[Met], by: Option<CallId>) -> Result<bool, StoreError> {
        // Whether another was faster, or the write was lost, shows when the cell is read again.
        Ok(self.resolve_with(met, by, Barrier::None)?.0)
    }

    /// The same; answers also whether each of them is known to be gone.
    pub(super) fn resolve_with(
        &self,
        met: &[Met],
        by: Option<CallId>,
        barrier: Barrier,
    ) -> Result<(bool, bool), StoreError> {
        let mut fates = BTreeMap::new();
        let mut writes = Vec::with_capacity(met.len());
        for Met { key, version, staging } in met {
            let call = staging.call;
            let known = fates.get(&call).copied();
            let fate = known.map_or_else(|| self.fate(call, by), Ok)?;
            fates.insert(call, fate);
            match fate {
                Fate::Committed => {
                    writes.push(staging.forward(key, *version, self.version(Some(*version))));
                }
                Fate::Aborted => {
                    writes.push(staging.back(key, *version, self.version(Some(*version))));
                }
                Fate::Busy => {}
            }
        }
        let sent = self.send(&writes, barrier)?;
        let is_known = |sent: &Sent| matches!(sent.written, Written::Done | Written::Mismatch(_));
        let waits_for_none = !fates.values().any(|fate| *fate == Fate::Busy);
        Ok((waits_for_none, waits_for_none && sent.iter().all(is_known)))
    }

    /// The stagings of cells.
    pub(super) fn staged(&self, keys: &[Key]) -> Result<Vec<Met>, StoreError> {
        let read = |key: &Key| ReadCell::fields(key.clone(), [STAGING.to_vec()]);
        let reads: Vec<_> = keys.iter().map(read).collect();
        let mut met = Vec::new();
        for (key, cell) in keys.iter().zip(self.read(&reads)?) {
            let Some(cell) = cell else { continue };
            if let Some(bytes) = cell.get(STAGING) {
                let staging = Staging::decode(bytes)?;
                met.push(Met { key: key.clone(), version: cell.version, staging });
            }
        }
        Ok(met)
    }
}
