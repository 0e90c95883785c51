//! What keeps a store from being written to, found out by trying.
//!
//! # Invariants
//!
//! * Nothing is said to be well that nobody has looked at.
//! * Asking often costs no more than one look in [`crate::StoreSettings::health_probe_ms`]; whoever asks
//!   during a look waits for its answer.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use utxokeep_kv::Trouble;

use crate::{
    agreed::{Agreement, is_moved_away},
    engine::NodeStore,
    error::StoreError,
};

/// When a store was last looked at, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Option<(Instant, Option<Trouble>)>>);

impl Watch {
    /// What the last look found, or a new one where that is old.
    fn ask(&self, every: Duration, look: impl FnOnce() -> Option<Trouble>) -> Option<Trouble> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = &*last
            && at.elapsed() < every
        {
            return found.clone();
        }
        let found = look();
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

impl NodeStore {
    /// Why no writes are taken, if so: as far as the last calls met it, and as trying shows.
    pub(crate) fn find_trouble(&self) -> Option<Trouble> {
        let of_place = || {
            let reason = self.blobs.as_ref()?.fault()?;
            Some(Trouble { reason, passes: true })
        };
        if let Some(known) = self.backend.trouble().or_else(of_place) {
            return Some(known);
        }
        if !self.backend.mode().may_write() {
            return None;
        }
        let every = Duration::from_millis(self.settings.health_probe_ms);
        self.watch.ask(every, || {
            let of_files = || {
                let reason = self.blobs.as_ref()?.probe()?;
                Some(Trouble { reason, passes: true })
            };
            self.backend.probe().or_else(|| self.moved_away()).or_else(of_files)
        })
    }

    /// A store that others can open may have been moved elsewhere while this program runs.
    fn moved_away(&self) -> Option<Trouble> {
        if !self.backend.is_shared() || self.settings.agreement == Agreement::Moving {
            return None;
        }
        let reason = match self.read(|facts| is_moved_away(facts.view)) {
            Ok(Some(to)) => StoreError::MovedAway { to }.to_string(),
            Ok(None) => return None,
            Err(error) => format!("the node store cannot be read: {error}"),
        };
        Some(Trouble { reason, passes: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_for_its_interval_and_no_longer() {
        let watch = Watch::default();
        let trouble = |reason: &str| Some(Trouble { reason: reason.to_owned(), passes: true });
        let hour = Duration::from_secs(3_600);
        assert_eq!(watch.ask(hour, || trouble("first")), trouble("first"));
        assert_eq!(watch.ask(hour, || None), trouble("first"), "it was looked at a moment ago");
        assert_eq!(watch.ask(Duration::ZERO, || None), None);
        assert_eq!(watch.ask(hour, || trouble("second")), None);
    }
}
