//! Lines that tell how a server gets on that is far behind its source, as during the first sync.

use std::{
    thread,
    time::{Duration, Instant},
};

use utxokeep::follow::{SourceState, SourceStatus};
use utxokeep_index::FAR_BLOCKS;

use super::output;

/// How often it is looked how far the index is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The shortest time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Tells now and then how far the index is, while it is far behind, and once that it is not any more.
/// The thread ends with the program.
pub(super) fn tell_in_background(source: SourceState) {
    let told = thread::Builder::new().name("sync-lines".to_owned()).spawn(move || {
        let (mut lines, started) = (SyncLines::default(), Instant::now());
        loop {
            thread::sleep(LOOK_EVERY);
            if let Some(line) = lines.line(&source.status(), started.elapsed()) {
                output::note(line);
            }
        }
    });
    if let Err(error) = told {
        tracing::warn!(%error, "no lines will tell how far the index is: no thread can be started");
    }
}

/// What was told last.
#[derive(Debug, Default)]
struct SyncLines {
    last: Option<Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    /// Since the start.
    at: Duration,
    height: u64,
}

impl SyncLines {
    /// The line to tell at a time since the start, if one is due.
    #[allow(clippy::cast_precision_loss, reason = "heights are far below 2^52")]
    fn line(&mut self, status: &SourceStatus, at: Duration) -> Option<String> {
        let (tip, lag) = (status.height?, status.lag_blocks?);
        // The first block has height 0.
        let height = (tip + 1).checked_sub(lag + 1);
        let last = self.last;
        if lag < u64::from(FAR_BLOCKS) {
            return (self.last.take().is_some() && lag == 0)
                .then(|| format!("following: at the node's tip, height {tip}"));
        }
        if last.is_some_and(|last| at.saturating_sub(last.at) < LINE_EVERY) {
            return None;
        }
        let height = height.unwrap_or(0);
        self.last = Some(Told { at, height });
        let percent = 100.0 * height as f64 / tip.max(1) as f64;
        let line = format!("following: height {height} of {tip} ({percent:.1} %)");
        let Some(last) = last.filter(|last| last.height < height) else { return Some(line) };
        let rate = (height - last.height) as f64 / at.saturating_sub(last.at).as_secs_f64();
        let left = Duration::from_secs_f64((lag as f64 / rate).min(1e9));
        Some(format!("{line}, {rate:.0} blocks/s, about {} left", rounded(left)))
    }
}

/// Hours, minutes or seconds, whatever is worth a word.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..=119 => format!("{secs} s"),
        secs @ 120..=7_199 => format!("{} min", secs / 60),
        secs => format!("{} h", secs / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(height: u64, lag_blocks: u64) -> SourceStatus {
        SourceStatus {
            address: String::new(),
            is_connected: true,
            last_contact: Some(0),
            height: Some(height),
            lag_blocks: Some(lag_blocks),
            fault: None,
        }
    }

    #[test]
    fn lines_come_while_the_index_is_far_behind_and_once_when_it_is_not() {
        let mut lines = SyncLines::default();
        let mut told =
            |height, lag, secs| lines.line(&status(height, lag), Duration::from_secs(secs));
        assert_eq!(told(1_000, 0, 1), None, "nothing to tell at the tip");
        assert_eq!(told(1_000, 143, 2), None);
        let first = "following: height 0 of 1000 (0.0 %)";
        assert_eq!(told(1_000, 1_001, 3).as_deref(), Some(first));
        assert_eq!(told(1_000, 800, 12), None, "not so soon");
        let next = "following: height 500 of 1000 (50.0 %), 50 blocks/s, about 10 s left";
        assert_eq!(told(1_000, 500, 13).as_deref(), Some(next));
        // Nothing moves.
        let still = "following: height 500 of 1000 (50.0 %)";
        assert_eq!(told(1_000, 500, 23).as_deref(), Some(still));
        assert_eq!(
            told(1_001, 0, 24).as_deref(),
            Some("following: at the node's tip, height 1001")
        );
        assert_eq!(told(1_001, 0, 60), None);
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let told = |secs| rounded(Duration::from_secs(secs));
        assert_eq!([told(119), told(120), told(7_300)], ["119 s", "2 min", "2 h"]);
    }
}
