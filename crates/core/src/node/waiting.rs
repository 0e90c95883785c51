//! What keeps the next run of the pruner from starting, in one wording for every face.

use std::fmt;

use super::heights::{Assembly, ConsumerBound, Heights, Said, Sighting};
use crate::types::Height;

/// A program has another number than the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node store has {name} = {stored}, and the configuration says {configured}; set it to \
     {stored}, or stop every program that uses the store and change it for all of them with \
     `utxokeep tx settings --change`"
)]
pub struct Disagreement {
    /// The setting.
    pub name: &'static str,
    /// What the store has.
    pub stored: u32,
    /// What the program has.
    pub configured: u32,
}

/// Which reports a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct GateRules {
    /// Nothing is safe before a persister has reported.
    pub needs_persister: bool,
    /// Marks are waited for also where the node never reported any.
    pub requires_mined_set: bool,
    /// The same for block assembly.
    pub requires_assembly_state: bool,
    /// No run starts while the node catches up.
    pub skip_during_catch_up: bool,
    /// Runs start above this height.
    pub min_height: u32,
    /// How far a claim of the node may lie above the chain.
    pub height_jump_blocks_max: u32,
    /// What had been said when the service started. Whoever is no service goes by the last start of
    /// any.
    pub since: Option<Said>,
}

/// What is missing in a claim of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimGap {
    /// It was never made, and a setting asks for it.
    Never,
    /// It was made before the service started, and not since.
    NotSinceStart,
    /// It has not reached the height of the run.
    Behind {
        /// Height that the node claims.
        claim: Height,
        /// Height of the run.
        needed: Height,
    },
    /// It lies too far above the chain to be true.
    Far {
        /// Height that the node claims.
        claim: Height,
    },
    /// Block assembly is not running.
    Stopped,
}

/// One thing that keeps the next run from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// An operator paused the pruner.
    Paused,
    /// The numbers of the store are not those of the program any more.
    SettingsChanged(Disagreement),
    /// Nothing is known of the chain.
    NoHeight,
    /// A height far above the chain has one witness.
    HeldHeight {
        /// That height, and its witness.
        seen: Sighting,
        /// The newest height that is believed.
        newest: Option<Height>,
    },
    /// The height is not above the setting.
    BelowMinHeight {
        /// Height of the run.
        height: Height,
        /// The setting.
        min_height: u32,
    },
    /// The persister has never reported.
    PersisterSilent,
    /// The persister is complete up to a height at which a run is complete too.
    PersisterBehind {
        /// Height of the persister.
        persisted: Height,
        /// Height of the chain.
        newest: Height,
    },
    /// A consumer of the chain log has come up to a height at which a run is complete.
    ConsumerBehind {
        /// The consumer that has come least far.
        slowest: ConsumerBound,
        /// Height of the chain.
        newest: Height,
    },
    /// The node catches up, or has not reported since the start that it does not.
    CatchingUp {
        /// It reported so since the start.
        is_known: bool,
    },
    /// Transactions are not marked as mined up to the height of the run.
    MinedSet(ClaimGap),
    /// Block assembly does not run, or has not reached the height of the run.
    Assembly(ClaimGap),
}

impl Waiting {
    /// Its name in answers. Names are stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::SettingsChanged(_) => "settings_changed",
            Self::NoHeight => "no_height",
            Self::HeldHeight { .. } => "held_height",
            Self::BelowMinHeight { .. } => "below_min_height",
            Self::PersisterSilent => "persister_silent",
            Self::PersisterBehind { .. } => "persister_behind",
            Self::ConsumerBehind { .. } => "consumer_behind",
            Self::CatchingUp { .. } => "catching_up",
            Self::MinedSet(_) => "mined_set",
            Self::Assembly(_) => "assembly",
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => {
                f.write_str("the pruner is paused; `utxokeep pruner resume` lets runs start again")
            }
            Self::SettingsChanged(disagreement) => disagreement.fmt(f),
            Self::NoHeight => f.write_str(
                "no height is known yet: the node reports it (ChainEvents.Block, SetBlockState), \
                 and a second report has to agree where the first one is far from what is known",
            ),
            Self::HeldHeight { seen: Sighting { height, by }, newest } => {
                let newest = newest.map_or("none".to_owned(), |height| height.to_string());
                write!(
                    f,
                    "height {height} ({by}) lies far above the newest that is known ({newest}) and \
                     waits for a second witness: the next block, the block state, the log, or \
                     `pruner confirm`"
                )
            }
            Self::BelowMinHeight { height, min_height } => {
                write!(f, "height {height} is not above min_height {min_height}")
            }
            Self::PersisterSilent => f.write_str(
                "the block persister has never reported a block that the chain has; send \
                 BlockPersisted, or, if there is none any more, run `utxokeep pruner \
                 forget-persister`",
            ),
            Self::PersisterBehind { persisted, newest } => write!(
                f,
                "the block persister has reached height {persisted}, the chain {newest}; nothing \
                 above height {persisted} is pruned"
            ),
            Self::ConsumerBehind { slowest: ConsumerBound { name, height }, newest } => write!(
                f,
                "the consumer {name} of the chain log has reached height {height}, the chain \
                 {newest}; nothing above height {height} is pruned. If {name} is gone for good, run \
                 `utxokeep chain consumers forget {name}`, or `utxokeep pruner forget-node-state` \
                 where no chain database is followed any more"
            ),
            Self::CatchingUp { is_known: true } => {
                f.write_str("the node catches up with the chain (skip_during_catch_up)")
            }
            Self::CatchingUp { is_known: false } => f.write_str(
                "the node has not reported since this service started whether it catches up \
                 (skip_during_catch_up)",
            ),
            Self::MinedSet(gap) => gap.tell(f, "its marks (mined_set_height)"),
            Self::Assembly(gap) => gap.tell(f, "its block assembly"),
        }
    }
}

impl ClaimGap {
    fn tell(self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        match self {
            Self::Never => write!(f, "the node has never reported {what}"),
            Self::NotSinceStart => {
                write!(f, "the node has not reported {what} since this service started")
            }
            Self::Behind { claim, needed } => {
                write!(f, "the node reports {what} up to height {claim}, the run needs {needed}")
            }
            Self::Far { claim } => {
                write!(f, "the node reports {what} at height {claim}, far above the newest block")
            }
            Self::Stopped => write!(f, "the node reports that {what} is not running"),
        }
    }
}

impl Heights {
    /// What keeps the next run from starting; nothing where one may start, or where nothing is left
    /// to do. `at` is the height of a run that waits at the gate already.
    #[must_use]
    pub fn waits_for(&self, rules: &GateRules, at: Option<Height>) -> Vec<Waiting> {
        let mut found = Vec::new();
        let newest = self.newest();
        found.extend(self.held().map(|seen| Waiting::HeldHeight { seen, newest }));
        let Some(newest) = newest else {
            if found.is_empty() {
                found.push(Waiting::NoHeight);
            }
            return found;
        };
        let Some(written) = self.written(rules.needs_persister) else {
            found.push(Waiting::PersisterSilent);
            return found;
        };
        let slowest = self.consumer().filter(|slowest| slowest.height < written);
        let safe = slowest.map_or(written, |slowest| slowest.height);
        let height = at.unwrap_or(safe);
        if Some(height) > self.completed() && height > Height::GENESIS {
            found.extend(self.gate_waits_for(rules, height));
        } else if let Some(slowest) = slowest {
            found.push(Waiting::ConsumerBehind { slowest, newest });
        } else if safe < newest {
            found.push(Waiting::PersisterBehind { persisted: safe, newest });
        }
        found
    }

    /// What a run at a safe height waits for.
    fn gate_waits_for(
        &self,
        rules: &GateRules,
        height: Height,
    ) -> impl Iterator<Item = Waiting> + use<> {
        let GateRules { min_height, .. } = *rules;
        let below = (min_height > 0 && height.get() <= min_height)
            .then_some(Waiting::BelowMinHeight { height, min_height });
        let [_, _, is_silent] = self.is_silent(rules.since);
        let catching_up = (rules.skip_during_catch_up && self.may_catch_up(rules.since))
            .then_some(Waiting::CatchingUp { is_known: !is_silent });
        let marks = self.marks_gap(height, rules).map(Waiting::MinedSet);
        let assembly = self.assembly_gap(height, rules).map(Waiting::Assembly);
        [below, catching_up, marks, assembly].into_iter().flatten()
    }

    /// What is missing in the marks of the node for a run at a height. A node that never reported
    /// any is waited for where a setting asks for it.
    #[must_use]
    pub fn marks_gap(&self, height: Height, rules: &GateRules) -> Option<ClaimGap> {
        let [is_silent, ..] = self.is_silent(rules.since);
        match self.mined_set() {
            None => rules.requires_mined_set.then_some(ClaimGap::Never),
            Some(_) if is_silent => Some(ClaimGap::NotSinceStart),
            Some(claim) => self.gap(claim, height, rules),
        }
    }

    /// The same for its block assembly.
    #[must_use]
    pub fn assembly_gap(&self, height: Height, rules: &GateRules) -> Option<ClaimGap> {
        let [_, is_silent, _] = self.is_silent(rules.since);
        match self.assembly() {
            None => rules.requires_assembly_state.then_some(ClaimGap::Never),
            Some(_) if is_silent => Some(ClaimGap::NotSinceStart),
            Some(Assembly { is_running: false, .. }) => Some(ClaimGap::Stopped),
            Some(Assembly { height: claim, .. }) => self.gap(claim, height, rules),
        }
    }

    /// A claim far above the chain is a mistake, and has reached nothing.
    fn gap(&self, claim: Height, needed: Height, rules: &GateRules) -> Option<ClaimGap> {
        if self.is_far(claim, rules.height_jump_blocks_max) {
            return Some(ClaimGap::Far { claim });
        }
        (claim < needed).then_some(ClaimGap::Behind { claim, needed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{ChainReport, Witness};

    const RULES: GateRules = GateRules {
        needs_persister: false,
        requires_mined_set: false,
        requires_assembly_state: false,
        skip_during_catch_up: false,
        min_height: 0,
        height_jump_blocks_max: 144,
        since: None,
    };

    fn at(height: u32) -> Height {
        Height::new(height)
    }

    fn told(reports: &[ChainReport]) -> Heights {
        let mut heights = Heights::of_block_state(at(1_000));
        for report in reports {
            let _ = heights.take(*report, Some(1), 144);
        }
        heights
    }

    fn names(heights: &Heights, rules: &GateRules) -> Vec<&'static str> {
        heights.waits_for(rules, None).into_iter().map(Waiting::name).collect()
    }

    #[test]
    fn a_run_that_may_start_and_a_chain_without_work_wait_for_nothing() {
        assert!(names(&told(&[]), &RULES).is_empty());
        let strict = GateRules { requires_mined_set: true, ..RULES };
        assert!(names(&told(&[ChainReport::Completed(at(1_000))]), &strict).is_empty());
    }

    #[test]
    fn everything_that_keeps_a_run_is_named() {
        let stopped = Assembly { is_running: false, height: at(1_000) };
        let far = Sighting { height: at(5_000), by: Witness::Block };
        let persisted = ChainReport::Persisted(at(990));
        for (reports, rules, expected) in [
            (vec![ChainReport::MinedSet(at(999))], RULES, vec!["mined_set"]),
            (vec![ChainReport::MinedSet(at(4_000))], RULES, vec!["mined_set"]),
            (vec![ChainReport::Assembly(stopped)], RULES, vec!["assembly"]),
            (vec![], GateRules { requires_mined_set: true, ..RULES }, vec!["mined_set"]),
            (vec![], GateRules { requires_assembly_state: true, ..RULES }, vec!["assembly"]),
            (vec![], GateRules { needs_persister: true, ..RULES }, vec!["persister_silent"]),
            (vec![], GateRules { min_height: 1_000, ..RULES }, vec!["below_min_height"]),
            (vec![persisted], RULES, vec![]),
            (vec![persisted, ChainReport::Completed(at(990))], RULES, vec!["persister_behind"]),
            (vec![ChainReport::Newest(far)], RULES, vec!["held_height"]),
            (vec![ChainReport::CatchingUp(true)], RULES, vec![]),
            (
                vec![ChainReport::CatchingUp(true), ChainReport::MinedSet(at(1))],
                GateRules { skip_during_catch_up: true, ..RULES },
                vec!["catching_up", "mined_set"],
            ),
            (
                vec![ChainReport::MinedSet(at(1_000)), ChainReport::Restarted],
                RULES,
                vec!["mined_set"],
            ),
        ] {
            assert_eq!(names(&told(&reports), &rules), expected, "{reports:?}");
        }
        assert_eq!(names(&Heights::default(), &RULES), ["no_height"]);
    }

    #[test]
    fn the_slowest_consumer_is_named_where_it_holds_and_only_there() {
        let slow = |height| {
            let name = crate::node::ConsumerName::new("wallets").expect("it is a name");
            ChainReport::Consumers(Some(ConsumerBound { name, height: at(height) }))
        };
        let done = |height| ChainReport::Completed(at(height));
        for (reports, safe, expected) in [
            (vec![slow(990)], Some(990), vec![]),
            (vec![slow(990), done(990)], Some(990), vec!["consumer_behind"]),
            (vec![slow(0)], None, vec!["consumer_behind"]),
            (vec![slow(1_000), done(1_000)], Some(1_000), vec![]),
            (vec![slow(2_000), done(1_000)], Some(1_000), vec![]),
            (
                vec![slow(995), ChainReport::Persisted(at(990)), done(990)],
                Some(990),
                vec!["persister_behind"],
            ),
            (vec![slow(990), ChainReport::Consumers(None)], Some(1_000), vec![]),
            (vec![slow(990), ChainReport::NoNodeState], Some(1_000), vec![]),
        ] {
            let heights = told(&reports);
            assert_eq!(heights.safe(false), safe.map(at), "{reports:?}");
            assert_eq!(names(&heights, &RULES), expected, "{reports:?}");
            assert_eq!(Heights::decode(&heights.encode()).expect("it decodes"), heights);
        }
        let text = told(&[slow(990), done(990)]).waits_for(&RULES, None)[0].to_string();
        assert!(text.contains("consumers forget wallets"), "{text}");
    }

    #[test]
    fn a_run_at_the_gate_is_told_what_its_own_height_waits_for() {
        let heights = told(&[ChainReport::MinedSet(at(998))]);
        let found = heights.waits_for(&RULES, Some(at(999)));
        let text = found[0].to_string();
        assert!(text.contains("up to height 998, the run needs 999"), "{text}");
    }
}
