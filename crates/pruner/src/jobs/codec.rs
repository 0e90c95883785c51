//! Bytes of a run that is over, as the store remembers it.

use std::collections::BTreeMap;

use minicbor::{Decoder, Encoder};
use utxokeep_core::{Corrupt, Height, node::KeepReason};

use super::{Job, JobState};
use crate::{
    gate::SkipReason,
    report::{Phase, RunReport},
};

const RUN: &str = "run of the pruner";
const INFALLIBLE: &str = "writing to memory does not fail";

/// States on disk.
const COMPLETED: u8 = 0;
const SKIPPED: u8 = 1;
const CANCELLED: u8 = 2;
const FAILED: u8 = 3;

type Write = Result<(), minicbor::encode::Error<std::convert::Infallible>>;
type Read<T> = Result<T, minicbor::decode::Error>;

impl Job {
    /// CBOR: `[height, started, ended, state, text, report]`. The text is the reason of a skip or an
    /// error.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let nothing = RunReport::default();
        let (state, text, report) = match &self.state {
            JobState::Completed(report) => (COMPLETED, "", report),
            JobState::Skipped(reason) => (SKIPPED, reason.name(), &nothing),
            JobState::Cancelled(report) => (CANCELLED, "", report),
            JobState::Failed { report, error } => (FAILED, error.as_str(), report),
            // Whoever finds it later knows that it did not come to its end.
            JobState::Waiting | JobState::Running => (CANCELLED, "", &nothing),
        };
        let mut out = Vec::with_capacity(128);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Write {
            e.array(6)?.u32(self.height.get())?.u64(self.started_ms)?;
            e.u64(self.ended_ms.unwrap_or(self.started_ms))?.u8(state)?.str(text)?;
            write_report(&mut e, report)
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`Job::encode`], for the run of this number.
    pub fn decode(number: u64, bytes: &[u8]) -> Result<Self, Corrupt> {
        read_job(number, &mut Decoder::new(bytes)).map_err(|error| Corrupt::new(RUN, error))
    }
}

fn write_report(e: &mut Encoder<&mut Vec<u8>>, report: &RunReport) -> Write {
    e.array(15)?.u32(report.height.get())?;
    for count in counts(report) {
        e.u64(count)?;
    }
    e.bool(report.is_complete)?;
    e.map(report.kept.len() as u64)?;
    for (reason, count) in &report.kept {
        e.str(reason.name())?.u64(*count)?;
    }
    e.map(report.took_ms.len() as u64)?;
    for (phase, ms) in &report.took_ms {
        e.str(phase.name())?.u64(*ms)?;
    }
    Ok(())
}

/// What is counted, in the order of the bytes.
fn counts(report: &RunReport) -> [u64; 11] {
    [
        report.old_unmined,
        report.parents_preserved,
        report.expired,
        report.examined,
        report.deleted,
        report.outputs_deleted,
        report.bytes,
        report.parents_marked,
        report.unreadable,
        report.retries,
        report.undo_trimmed,
    ]
}

fn expect_array(d: &mut Decoder<'_>, len: u64) -> Read<()> {
    if d.array()? == Some(len) {
        return Ok(());
    }
    Err(minicbor::decode::Error::message("an array has not the expected length"))
}

fn read_job(number: u64, d: &mut Decoder<'_>) -> Read<Job> {
    expect_array(d, 6)?;
    let height = Height::new(d.u32()?);
    let (started_ms, ended_ms) = (d.u64()?, Some(d.u64()?));
    let (state, text) = (d.u8()?, d.str()?.to_owned());
    let report = read_report(d)?;
    let state = match state {
        COMPLETED => JobState::Completed(report),
        SKIPPED => {
            let reason = SkipReason::ALL.iter().find(|reason| reason.name() == text);
            let unknown = || minicbor::decode::Error::message("a reason that is not known");
            JobState::Skipped(*reason.ok_or_else(unknown)?)
        }
        CANCELLED => JobState::Cancelled(report),
        FAILED => JobState::Failed { report, error: text },
        _ => return Err(minicbor::decode::Error::message("a state that is not known")),
    };
    Ok(Job { number, height, started_ms, ended_ms, state })
}

fn read_report(d: &mut Decoder<'_>) -> Read<RunReport> {
    expect_array(d, 15)?;
    let mut report = RunReport { height: Height::new(d.u32()?), ..RunReport::default() };
    for count in [
        &mut report.old_unmined,
        &mut report.parents_preserved,
        &mut report.expired,
        &mut report.examined,
        &mut report.deleted,
        &mut report.outputs_deleted,
        &mut report.bytes,
        &mut report.parents_marked,
        &mut report.unreadable,
        &mut report.retries,
        &mut report.undo_trimmed,
    ] {
        *count = d.u64()?;
    }
    report.is_complete = d.bool()?;
    report.kept =
        read_map(d, |name| KeepReason::ALL.iter().copied().find(|reason| reason.name() == name))?;
    report.took_ms = read_map(d, |name| Phase::ALL.into_iter().find(|phase| phase.name() == name))?;
    Ok(report)
}

/// Counts by name; a name that only newer programs know is passed over.
fn read_map<K: Ord>(
    d: &mut Decoder<'_>,
    known: impl Fn(&str) -> Option<K>,
) -> Read<BTreeMap<K, u64>> {
    let mut found = BTreeMap::new();
    for _ in 0..d.map()?.unwrap_or(0) {
        let (name, count) = (d.str()?.to_owned(), d.u64()?);
        found.extend(known(&name).map(|key| (key, count)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_back_as_it_was() {
        let report = RunReport {
            height: Height::new(9),
            old_unmined: 1,
            parents_preserved: 2,
            expired: 3,
            examined: 4,
            deleted: 5,
            outputs_deleted: 6,
            bytes: 7,
            parents_marked: 8,
            kept: [(KeepReason::ChildYoung, 9)].into(),
            unreadable: 10,
            retries: 11,
            undo_trimmed: 12,
            is_complete: true,
            took_ms: [(Phase::Delete, 13)].into(),
        };
        for state in [
            JobState::Completed(report.clone()),
            JobState::Skipped(SkipReason::Paused),
            JobState::Cancelled(report.clone()),
            JobState::Failed { report, error: "a disk".to_owned() },
        ] {
            let (height, ended_ms) = (Height::new(9), Some(20));
            let job = Job { number: 3, height, started_ms: 10, ended_ms, state };
            let bytes = job.encode();
            assert_eq!(Job::decode(3, &bytes), Ok(job));
            for cut in 0..bytes.len() {
                assert!(Job::decode(3, &bytes[..cut]).is_err());
            }
        }
    }
}
