//! Whether the service can work: everything it needs, and what is wrong with it.

use utxokeep_core::node::{ClaimGap, Disagreement, Heights, Said, Waiting};
use utxokeep_txstore::StoreError;

use crate::{
    backlog::{BacklogState, BacklogStatus},
    settings::PrunerSettings,
};

/// One thing the service needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// What answers of health call it, for instance `store`.
    pub name: &'static str,
    /// What is wrong with it, if something is.
    pub fault: Option<String>,
}

/// Whether the service can work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Everything it needs.
    pub dependencies: Vec<Dependency>,
    /// What keeps the next run from starting. Waiting is no fault: a run that waits for a persister
    /// does what it was told.
    pub waits_for: Vec<Waiting>,
}

impl Health {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.dependencies.iter().all(|dependency| dependency.fault.is_none())
    }
}

/// What the verdict over the service is taken from.
pub(crate) struct Facts<'f> {
    /// What the store itself says is wrong with it.
    pub(crate) trouble: Option<String>,
    /// The numbers of the store are not those of the service any more.
    pub(crate) disagreement: Option<Disagreement>,
    pub(crate) waits_for: Vec<Waiting>,
    pub(crate) heights: Result<Heights, StoreError>,
    pub(crate) settings: &'f PrunerSettings,
    pub(crate) backlog: BacklogStatus,
    /// How far a claim may lie above the chain.
    pub(crate) jump_max: u32,
    pub(crate) now_ms: u64,
    /// When the service started.
    pub(crate) started_ms: u64,
    /// What the node had said then.
    pub(crate) since: Option<Said>,
}

impl Facts<'_> {
    pub(crate) fn health(&self) -> Health {
        let fault = |name, fault: Option<String>| Dependency { name, fault };
        let known = self.heights.as_ref().ok();
        let changed = || self.disagreement.map(|one| Waiting::SettingsChanged(one).to_string());
        let unreadable = || self.heights.as_ref().err().map(ToString::to_string);
        let mut dependencies = vec![
            fault("store", self.trouble.clone().or_else(changed).or_else(unreadable)),
            fault("chain state", known.and_then(|heights| self.chain_fault(heights))),
            fault("block assembly", known.and_then(|heights| self.assembly_fault(heights))),
        ];
        if self.settings.backlog_fails_readiness {
            let BacklogStatus { state, lag_blocks, failed_runs, .. } = self.backlog;
            let text = format!("{lag_blocks} blocks behind, {failed_runs} failed runs in a row");
            dependencies.push(fault("backlog", (state == BacklogState::Behind).then_some(text)));
        }
        Health { dependencies, waits_for: self.waits_for.clone() }
    }

    fn chain_fault(&self, heights: &Heights) -> Option<String> {
        if let Some(seen) = heights.held() {
            let newest = heights.newest();
            return Some(Waiting::HeldHeight { seen, newest }.to_string());
        }
        if self.settings.trigger.needs_persister() && heights.persisted().is_none() {
            return Some(Waiting::PersisterSilent.to_string());
        }
        if self.settings.requires_mined_set && heights.mined_set().is_none() {
            return Some(Waiting::MinedSet(ClaimGap::Never).to_string());
        }
        if let Some(fault) = self.silence_since_the_start(heights) {
            return Some(fault);
        }
        if let Some(claim) = heights.mined_set().filter(|c| heights.is_far(*c, self.jump_max)) {
            return Some(Waiting::MinedSet(ClaimGap::Far { claim }).to_string());
        }
        let heard_ms = heights.heard_ms().unwrap_or(0).max(self.started_ms);
        let age_secs = self.now_ms.saturating_sub(heard_ms) / 1_000;
        let max = u64::from(self.settings.event_age_secs_max);
        (max > 0 && age_secs > max).then(|| match heights.heard_ms() {
            None => format!("the node has never reported; waited {age_secs} s for it"),
            Some(_) => format!("the node has not reported for {age_secs} s"),
        })
    }

    /// Something that the node reported before this service started, and not for as long as it may
    /// report nothing.
    fn silence_since_the_start(&self, heights: &Heights) -> Option<String> {
        let age_secs = self.now_ms.saturating_sub(self.started_ms) / 1_000;
        let max = u64::from(self.settings.event_age_secs_max);
        let missing = heights.not_said_again(self.since);
        (max > 0 && age_secs > max && !missing.is_empty()).then(|| {
            format!(
                "the node has not reported {} since the start {age_secs} s ago, and runs wait for \
                 it; if it never will again, run `utxokeep pruner forget-node-state`",
                missing.join(", ")
            )
        })
    }

    fn assembly_fault(&self, heights: &Heights) -> Option<String> {
        let Some(assembly) = heights.assembly() else {
            let never = Waiting::Assembly(ClaimGap::Never);
            return self.settings.requires_assembly_state.then(|| never.to_string());
        };
        let far = Waiting::Assembly(ClaimGap::Far { claim: assembly.height });
        heights.is_far(assembly.height, self.jump_max).then(|| far.to_string())
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{
        Height,
        node::{Assembly, ChainReport, Sighting, Witness},
    };

    use super::*;
    use crate::{backlog::BacklogMonitor, trigger::TriggerMode};

    fn faults(reports: &[ChainReport], now_secs: u64, settings: &PrunerSettings) -> Vec<String> {
        let mut heights = Heights::of_block_state(Height::new(1_000));
        for report in reports {
            let _ = heights.take(*report, Some(5_000), 144);
        }
        let facts = Facts {
            trouble: None,
            disagreement: None,
            waits_for: Vec::new(),
            heights: Ok(heights),
            settings,
            backlog: BacklogMonitor::new(settings).status(),
            jump_max: 144,
            now_ms: now_secs * 1_000,
            started_ms: 4_000,
            since: None,
        };
        facts.health().dependencies.into_iter().filter_map(|one| one.fault).collect()
    }

    #[test]
    fn silence_is_a_fault_once_it_lasts() {
        let settings = PrunerSettings::default();
        let report = [ChainReport::MinedSet(Height::new(1_000))];
        assert!(faults(&report, 5 + 21_600, &settings).is_empty());
        assert!(faults(&report, 6 + 21_600, &settings)[0].contains("has not reported for 21601 s"));
        assert!(faults(&[], 5 + 21_600, &settings)[0].contains("never reported"));
        let patient = PrunerSettings { event_age_secs_max: 0, ..settings };
        assert!(faults(&[], 1 << 40, &patient).is_empty());
    }

    #[test]
    fn what_the_node_does_not_say_again_after_a_restart_is_a_fault_once_it_lasts() {
        let settings = PrunerSettings::default();
        let reports = [ChainReport::MinedSet(Height::new(1_000)), ChainReport::Restarted];
        assert!(faults(&reports, 4 + 21_600, &settings).is_empty());
        let found = faults(&reports, 5 + 21_600, &settings);
        assert!(found[0].contains("its marks") && found[0].contains("forget-node-state"));
        let again = [&reports[..], &reports[..1]].concat();
        assert!(faults(&again, 5 + 21_600, &settings).is_empty());
    }

    #[test]
    fn what_the_mode_needs_and_nobody_said_is_a_fault() {
        let fine = PrunerSettings::default();
        let trigger = TriggerMode::BlockPersisted;
        for (settings, text) in [
            (PrunerSettings { trigger, ..fine.clone() }, "persister has never reported"),
            (
                PrunerSettings { requires_mined_set: true, ..fine.clone() },
                "never reported its marks",
            ),
            (PrunerSettings { requires_assembly_state: true, ..fine.clone() }, "block assembly"),
        ] {
            let found = faults(&[], 5, &settings);
            assert!(found.len() == 1 && found[0].contains(text), "{found:?}");
        }
        assert!(faults(&[], 5, &fine).is_empty());
    }

    #[test]
    fn heights_far_above_the_chain_are_named() {
        let far = Height::new(5_000);
        let assembly = Assembly { is_running: true, height: far };
        for report in [
            ChainReport::Newest(Sighting { height: far, by: Witness::Block }),
            ChainReport::Persisted(far),
            ChainReport::MinedSet(far),
            ChainReport::Assembly(assembly),
        ] {
            let found = faults(&[report], 5, &PrunerSettings::default());
            assert!(found.len() == 1 && found[0].contains("5000"), "{found:?}");
        }
    }
}
