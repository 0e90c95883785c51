//! The conformance suite of safe deletion: every timeline, edge case and rule, for every engine;
//! and a simulation that no seed may break.
//!
//! [`pruner_tests!`](crate::pruner_tests) makes a test of each scenario for an engine.

#![allow(clippy::unwrap_used, clippy::similar_names, reason = "scenarios are tests")]

mod heights;
mod races;
mod rules;
mod runs;
mod settled;
mod simulation;
mod stage;
mod tables;
mod timelines;

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
        timeline_1000_1288_1289, scenario_a_long_running_block_assembly,
        scenario_b_reorganisation, edge_case_1_child_never_mined,
        edge_case_2_child_mined_very_late, edge_case_3_reorganisation, edge_case_4_restart,
        multi_child_100_200_488_500, timeline_before_and_after_persisting,
    }
    tables {
        t_timeline_1000_1288_1289, t_scenario_a_long_running_block_assembly,
        t_scenario_b_reorganisation, t_edge_case_1_child_never_mined,
        t_edge_case_2_child_mined_very_late, t_edge_case_3_reorganisation, t_edge_case_4_restart,
        t_multi_child_100_200_488_500, t_what_an_operator_preserves_outlives_the_child,
        t_an_evicted_child_leaves_the_preservation,
    }
    rules {
        r_conflicting_and_mined_is_kept, r_conflicting_chains_do_not_leak,
        r_preserved_before_it_is_due, r_dah, r_height_zero_and_edges, r_idem, r_child_missing, r_conflicting_due,
        r_preserved_due, r_marker_scope, r_replay, r_create_sees_markers, s_deleted_child_after_unspend, x_reaped_spender, r_1768, r_live_coin, r_explain,
        r_dry_run_and_backlog, r_undo, r_restore_of_any_height_is_bounded, r_many_children,
    }
    runs {
        r_bounded, r_phase_1, r_phase_1_order_protects, w_service, w_pause,
        w_pause_outlives_the_program, w_health, w_cancel,
    }
    settled {
        p_settled_child_lets_parents_go, p_settled_child_is_taken_off_its_block,
        p_settled_child_leaves_the_longest_chain, p_settled_child_is_in_a_second_block_too,
        p_settled_child_loses_a_conflict, p_settled_child_is_deleted_by_hand,
        p_settled_child_is_pruned_and_restored, p_settled_child_is_replaced,
    }
    heights {
        h_wrong_height_deletes_nothing_and_silences_nobody, h_a_fresh_store_refuses_heights,
        h_a_node_that_was_away_catches_up, h_what_the_node_said_survives_a_restart,
        h_after_a_restart_nothing_goes_before_the_node_reports_again,
        h_the_start_of_one_service_closes_only_its_own_gate,
        h_a_retention_that_was_changed_stops_a_service_before_its_first_phase,
        h_with_a_persister_at_95_and_the_chain_at_100,
        h_a_height_that_a_persister_took_back_deletes_nothing, h_nothing_completes_above_the_newest_block,
        h_reports_at_the_same_time_are_all_remembered, h_the_last_runs_survive_a_restart,
        h_every_pruner_has_the_window_of_the_store,
        h_a_window_that_was_changed_stops_whoever_has_the_old_one,
    }
    races {
        r_preserve_against_delete, r_delete_against_respend, r_chunks_against_each_other,
        r_chunks_in_a_circle, r_unmining_against_pruning,
    }
}
