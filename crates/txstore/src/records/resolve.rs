//! Meeting what another call staged: what became of that call, and what to do with its staging.
//!
//! # Invariants
//!
//! * A staging is removed in one way: the cell is read, then the status of its call; only if that is
//!   aborted, the cell is written on the version that was read. A call that undoes its own stagings
//!   goes the same way: by its own id it would free what a second attempt has staged since.
//! * Absence is no fact. Where the status is missing it is written as aborted first, create-only, so
//!   that its call cannot commit any more.
//! * What a status says counts once a failover does not undo it: committed before anything is rolled
//!   forward, aborted before anything is rolled back.

use std::collections::BTreeMap;

use utxokeep_records::{Barrier, Key, ReadCell, Version, WriteCell, Written};

use super::{
    cells::{Cells, unavailable},
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
                if self.context.leaves_out(Fault::AbsenceDecides)
                    || self.write_aborted(&key, None)?
                {
                    return Ok(Fate::Aborted);
                }
                continue;
            };
            let (status, version) = CallStatus::of(&stored)?;
            if status.state == State::Pending {
                if !self.may_abort(&key, &status, call, by)? {
                    return Ok(Fate::Busy);
                }
                if self.write_aborted(&key, Some((call, status, version)))? {
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

    /// Whether a pending call may be aborted: its time is over, or an older one needs its cells.
    fn may_abort(
        &self,
        key: &Key,
        status: &CallStatus,
        call: CallId,
        by: Option<CallId>,
    ) -> Result<bool, StoreError> {
        let is_older = by.is_some_and(|by| by.is_older(call));
        if is_older && !self.context.leaves_out(Fault::NobodyWounds) {
            return Ok(true);
        }
        Ok(self.port.now_ms(key.shard)? >= status.deadline_ms)
    }

    /// Writes a status as aborted: a pending one, or where there is none. Answers whether it is.
    pub(super) fn write_aborted(
        &self,
        key: &Key,
        pending: Option<(CallId, CallStatus, Version)>,
    ) -> Result<bool, StoreError> {
        let (pages, deadline_ms) =
            pending.map_or((0, 0), |(_, status, _)| (status.pages, status.deadline_ms));
        let aborted = CallStatus { state: State::Aborted, deadline_ms, pages };
        let mut write = match pending {
            None => WriteCell::create(key.clone(), self.version(None)),
            Some((call, _, version)) => {
                let row = call.to_bytes().to_vec();
                let next = self.version(Some(version));
                WriteCell::update(key.clone(), version, next).index(OPEN, row, None)
            }
        };
        write = write.set(STATE, aborted.encode()).expires_in_ms(self.settings.aborted_ttl_ms);
        let is_left_out = self.context.leaves_out(Fault::AbortedWithoutBarrier);
        let barrier = if is_left_out { Barrier::None } else { Barrier::Safe };
        match self.send_one(write, barrier)?.written {
            Written::Done => {
                if let Some((call, status, _)) = pending
                    && status.pages > 0
                {
                    self.forget_pages(call, status.pages)?;
                }
                Ok(true)
            }
            Written::Mismatch(_) => Ok(false),
            Written::InDoubt | Written::Unavailable => Err(unavailable("the end of a call")),
        }
    }

    /// Rolls stagings forward or back, as the status of each says. Answers whether none of them has
    /// to be waited for.
    pub(super) fn resolve(&self, met: &[Met], by: Option<CallId>) -> Result<bool, StoreError> {
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
        // Whether another was faster, or the write was lost, shows when the cell is read again.
        let _ = self.send(&writes, Barrier::None)?;
        Ok(!fates.values().any(|fate| *fate == Fate::Busy))
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
