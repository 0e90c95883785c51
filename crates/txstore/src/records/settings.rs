//! What a node store on records is opened with.

use utxokeep_records::SHARDS_MAX;

use crate::error::StoreOpenError;

/// Settings of a node store on records.
///
/// `outputs_per_record` and `shards` are numbers of the store: they are written when it is created,
/// and a program that names others is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSettings {
    /// Outputs of a transaction in one record; a transaction with more of them is spread over pages.
    ///
    /// A spend rewrites one output and the head of its record, whatever this number is. A larger one
    /// means fewer records for a large transaction and larger replies for whoever reads all outputs.
    /// 128 is what Teranode runs with in production; 20,000 is the number of its documentation.
    pub outputs_per_record: u32,
    /// Parts of the store that can be on different servers: a power of two, at most 16,384.
    pub shards: u16,
    /// How long a call over several records may take before others may abort it, in milliseconds of
    /// the servers' clocks.
    pub call_deadline_ms: u64,
    /// How long a call waits for others that work on the same records, in milliseconds altogether.
    /// Longer than `call_deadline_ms`, so that it outlives a crashed one.
    pub wait_ms_max: u64,
    /// How often a call is decided anew because its records changed meanwhile.
    pub attempts_max: u32,
    /// How often a write is sent again whose answer was lost.
    pub resends_max: u32,
    /// For how long an aborted call is remembered, in milliseconds. Longer than any network keeps a
    /// request that nobody waits for any more.
    pub aborted_ttl_ms: u64,
    /// For how long the clock of the servers is remembered, in milliseconds; 0 asks every time.
    pub clock_refresh_ms: u64,
}

impl Default for RecordSettings {
    fn default() -> Self {
        Self {
            outputs_per_record: 128,
            shards: 1_024,
            call_deadline_ms: 5_000,
            wait_ms_max: 15_000,
            attempts_max: 1_000,
            resends_max: 20,
            aborted_ttl_ms: 60 * 60 * 1_000,
            clock_refresh_ms: 1_000,
        }
    }
}

impl RecordSettings {
    /// The same with changes, for callers outside of this crate:
    /// `RecordSettings::default().with(|settings| settings.shards = 64)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Refuses numbers that cannot be honoured.
    pub(super) fn check(&self) -> Result<(), StoreOpenError> {
        let refused = |what: String| Err(StoreOpenError::RecordSettings(what));
        if !self.shards.is_power_of_two() || self.shards > SHARDS_MAX {
            return refused(format!(
                "{} shards; give a power of two, at most {SHARDS_MAX}",
                self.shards
            ));
        }
        if self.outputs_per_record == 0 {
            return refused("0 outputs per record; give at least 1".to_owned());
        }
        if self.call_deadline_ms == 0 || self.wait_ms_max <= self.call_deadline_ms {
            return refused(format!(
                "calls wait for {} ms and have {} ms of their own; wait longer than that",
                self.wait_ms_max, self.call_deadline_ms
            ));
        }
        if self.attempts_max == 0 || self.aborted_ttl_ms <= self.wait_ms_max {
            return refused(format!(
                "{} attempts, and aborted calls remembered for {} ms; try at least once, and \
                 remember longer than calls wait",
                self.attempts_max, self.aborted_ttl_ms
            ));
        }
        Ok(())
    }
}
