//! Ending calls that their actors left.

use utxokeep_records::{Barrier, Key, ReadCell, Version, WriteCell};

use super::{
    cells::Cells,
    fault::Fault,
    layout::{KEYS, OPEN, STATE},
    resolve::{Fate, Met},
    status::{CallId, CallStatus, State, keys_of},
};
use crate::{error::StoreError, meter};

impl Cells {
    /// Ends calls whose deadline is over, at most `limit`; answers how many.
    pub(super) fn sweep(&self, limit: usize) -> Result<u64, StoreError> {
        let now_ms = self.port.now_ms(0)?;
        let rows = self.merged(OPEN, &std::ops::Bound::Unbounded, now_ms, limit)?;
        let mut ended = 0;
        for (_, id) in rows {
            ended += u64::from(self.end(CallId::from_bytes(&id)?)?);
        }
        meter::calls_ended(ended);
        Ok(ended)
    }

    /// Finishes a call or takes it back; answers whether nothing of it is left.
    fn end(&self, call: CallId) -> Result<bool, StoreError> {
        let keys = self.keys_of_call(call)?;
        let fate = self.fate(call, None)?;
        if fate == Fate::Busy {
            return Ok(false);
        }
        let is_ours = |met: &Met| met.staging.call == call;
        let ours: Vec<Met> = self.staged(&keys)?.into_iter().filter(is_ours).collect();
        self.resolve(&ours, None)?;
        // What others rolled forward has to be safe as well, before the status goes.
        self.safe_versions(&keys)?;
        if self.staged(&keys)?.iter().any(is_ours) {
            return Ok(false);
        }
        match fate {
            Fate::Committed => self.forget_call(call)?,
            Fate::Aborted | Fate::Busy => self.retire_call(call)?,
        }
        Ok(true)
    }

    /// Nothing is left of a call that was aborted: its row and the names of its cells go, and it is
    /// remembered for as long as a write of its may be on the way.
    pub(super) fn retire_call(&self, call: CallId) -> Result<(), StoreError> {
        let key = self.layout.status(&call);
        let Some(stored) = self.read_one(ReadCell::fields(key.clone(), [STATE.to_vec()]))? else {
            return Ok(());
        };
        let (status, version) = CallStatus::of(&stored)?;
        if status.state != State::Aborted {
            return Ok(());
        }
        self.forget_pages(call, status.pages)?;
        let retired = CallStatus { pages: 0, ..status };
        let write = WriteCell::update(key, version, self.version(Some(version)))
            .set(STATE, retired.encode())
            .unset(KEYS)
            .index(OPEN, call.to_bytes(), None)
            .expires_in_ms(self.settings.aborted_ttl_ms);
        self.port.write_later(vec![write]);
        Ok(())
    }

    /// Every cell of a call.
    fn keys_of_call(&self, call: CallId) -> Result<Vec<Key>, StoreError> {
        let fields = [STATE.to_vec(), KEYS.to_vec()];
        let Some(stored) = self.read_one(ReadCell::fields(self.layout.status(&call), fields))?
        else {
            return Ok(Vec::new());
        };
        let (status, _) = CallStatus::of(&stored)?;
        // One that was missing and is written as aborted by those who met it has no keys.
        let mut keys = if stored.get(KEYS).is_some() { keys_of(&stored)? } else { Vec::new() };
        let page = |page| ReadCell::fields(self.layout.status_page(&call, page), [KEYS.to_vec()]);
        let mut pages: Vec<_> = (1..=status.pages).map(page).collect();
        if self.context.leaves_out(Fault::FurtherKeysForgotten) {
            pages.clear();
        }
        for page in self.read(&pages)?.iter().flatten() {
            keys.extend(keys_of(page)?);
        }
        Ok(keys)
    }

    /// Deletes the status of a call, with its further keys.
    pub(super) fn forget_call(&self, call: CallId) -> Result<(), StoreError> {
        let key = self.layout.status(&call);
        let Some(stored) = self.read_one(ReadCell::fields(key.clone(), [STATE.to_vec()]))? else {
            return Ok(());
        };
        let (status, version) = CallStatus::of(&stored)?;
        self.forget_pages(call, status.pages)?;
        // One that stays is found by its row.
        let write = WriteCell::discard(key, version).index(OPEN, call.to_bytes(), None);
        let _ = self.send_one(write, Barrier::None)?;
        Ok(())
    }

    /// Deletes the further keys of a call that is over.
    pub(super) fn forget_pages(&self, call: CallId, pages: u32) -> Result<(), StoreError> {
        let page = |page| self.layout.status_page(&call, page);
        let pages: Vec<Key> = (1..=pages).map(page).collect();
        let versions = self.versions(&pages)?;
        let page = |(key, version): (Key, Option<Version>)| Some(WriteCell::discard(key, version?));
        let writes: Vec<_> = pages.into_iter().zip(versions).filter_map(page).collect();
        let _ = self.send(&writes, Barrier::None)?;
        Ok(())
    }
}
