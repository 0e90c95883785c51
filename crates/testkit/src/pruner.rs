//! The conformance suite of safe deletion: every timeline, edge case and rule, for every engine;
//! and a simulation that no seed may break.
//!
//! Each scenario is named by its rule; the code in its comment, where there is one, is the short
//! name of the rule. [`pruner_tests!`](crate::pruner_tests) makes a test of each for an engine.

#![allow(clippy::unwrap_used, clippy::similar_names, reason = "scenarios are tests")]

mod heights;
mod orders;
mod races;
mod rules;
mod runs;
mod settled;
mod simulation;
mod stage;
mod tables;
mod timelines;

pub use orders::{OrdersConfig, any_order};
pub use simulation::{SimulationConfig, simulate};
pub use stage::{MakePruneStore, OpenedPruneStore, PruneStage, StillClock, reach};

macro_rules! scenarios {
    ($($module:ident { $($name:ident),+ $(,)? })+) => {
        $($(
            #[doc = concat!("Scenario `", stringify!($name), "`.")]
            pub fn $name(stage: &PruneStage) {
                $module::$name(stage);
            }
        )+)+

        /// Makes a test of every scenario: `pruner_tests!(engine, opener)`.
        #[macro_export]
        macro_rules! pruner_tests {
            ($engine:ident, $make:expr) => {
                mod $engine {
                    use super::*;
                    $($(
                        #[test]
                        fn $name() {
                            let make = $make;
                            if let Some(stage) = $crate::pruner::PruneStage::new(&make) {
                                $crate::pruner::$name(&stage);
                            }
                        }
                    )+)+
                }
            };
        }
    };
}

scenarios! {
    timelines {
        a_parent_goes_288_blocks_after_its_child_was_mined,
        a_due_parent_stays_while_its_child_is_unmined,
        a_parent_stays_when_a_reorganisation_unmines_its_child,
        a_parent_stays_for_ever_when_its_child_is_never_mined,
        the_wait_of_a_parent_starts_when_a_late_child_is_mined,
        the_wait_of_a_parent_starts_anew_when_its_child_is_mined_again,
        a_parent_of_an_unmined_child_survives_the_first_run_after_a_restart,
        a_parent_waits_for_its_youngest_child,
        nothing_that_is_due_above_the_persisted_height_goes,
    }
    tables {
        the_service_deletes_a_parent_288_blocks_after_its_child_was_mined,
        the_service_keeps_a_due_parent_for_its_unmined_child,
        the_service_keeps_a_parent_when_a_reorganisation_unmines_its_child,
        the_service_keeps_a_parent_whose_child_is_never_mined,
        the_service_waits_288_blocks_after_a_child_that_was_mined_late,
        the_service_waits_anew_when_a_child_is_mined_again,
        the_service_keeps_the_parent_of_an_unmined_child_over_a_restart,
        the_service_waits_for_the_youngest_child,
        what_an_operator_preserves_outlives_the_child,
        an_evicted_child_leaves_the_preservation,
    }
    rules {
        a_conflicting_record_that_is_mined_is_kept,
        a_loser_waits_for_its_child_that_is_mined_all_the_same,
        a_record_waits_for_a_rival_that_is_mined,
        chains_of_conflicting_records_do_not_leak,
        a_record_preserved_before_it_is_due_stays,
        a_record_goes_at_its_deletion_height_and_marks_a_surviving_parent,
        pruning_refuses_height_zero_and_takes_any_other,
        pruning_a_height_again_deletes_nothing,
        a_missing_child_without_a_marker_keeps_its_parent,
        a_due_conflicting_record_goes_though_unspent_and_unmined,
        a_record_preserved_after_it_was_listed_stays,
        only_a_parent_that_survives_the_pass_is_marked,
        a_pruned_child_is_not_stored_again,
        creating_a_pruned_child_is_refused,
        a_marker_outlives_the_spend_that_is_taken_back,
        nobody_wins_against_a_pruned_spender,
        a_parent_survives_a_child_that_reorganisations_mark_again_and_again,
        a_parent_with_a_live_output_survives_its_preservation,
        explain_says_why_and_until_when_a_record_stays,
        a_dry_run_foretells_the_run_and_deletes_nothing,
        a_dry_run_foretells_what_the_phases_before_deletion_change,
        a_pruned_record_is_restored_with_everything_it_had,
        restoring_a_record_whose_input_another_one_has_is_refused,
        restoring_a_record_whose_input_is_frozen_is_refused,
        restoring_at_any_height_is_bounded,
        a_parent_of_many_children_waits_for_the_last_one,
    }
    runs {
        bounded_chunks_delete_and_mark_everything_due,
        parents_of_old_unmined_transactions_are_preserved,
        what_phase_1_preserves_phase_2_leaves_alone,
        the_service_reaches_the_newest_block_and_never_goes_back,
        a_paused_pruner_completes_no_height,
        a_pause_outlives_the_program,
        health_names_the_dependency_at_fault,
        a_run_out_of_time_stops_and_the_next_one_resumes,
    }
    settled {
        a_settled_child_lets_its_parents_go,
        a_settled_child_that_loses_its_block_keeps_its_parents,
        a_settled_child_off_the_longest_chain_keeps_its_parents,
        a_settled_child_in_two_blocks_counts_from_the_higher_one,
        a_settled_child_that_loses_a_conflict_keeps_its_parents,
        a_settled_child_deleted_by_hand_keeps_its_parents,
        a_settled_child_that_is_restored_counts_as_it_stands,
        a_settled_child_that_is_replaced_counts_no_more,
    }
    heights {
        a_wrong_height_deletes_nothing_and_silences_nobody,
        a_fresh_store_refuses_heights,
        a_node_that_was_away_catches_up,
        what_the_node_said_survives_a_restart,
        after_a_restart_nothing_goes_before_the_node_reports_again,
        the_start_of_one_service_closes_only_its_own_gate,
        a_retention_that_was_changed_stops_a_service_before_its_first_phase,
        a_program_with_old_numbers_writes_nothing,
        the_safe_height_is_that_of_the_persister,
        a_height_that_a_persister_took_back_deletes_nothing,
        nothing_completes_above_the_newest_block,
        reports_at_the_same_time_are_all_remembered,
        the_last_runs_survive_a_restart,
        every_pruner_has_the_window_of_the_store,
        a_window_that_was_changed_stops_whoever_has_the_old_one,
    }
    races {
        an_accepted_preserve_is_never_lost,
        taking_a_spend_back_and_deleting_exclude_each_other,
        parent_and_child_in_two_chunks_may_both_go,
        chunks_never_wait_in_a_circle,
        parents_stay_when_their_children_are_unmined_during_pruning,
    }
}
