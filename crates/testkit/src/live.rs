//! The rules of live sources, a test of each for every source; and a Bitcoin node in memory that
//! forks, stalls, cuts off and restarts when a test says so.
//!
//! [`live_source_tests!`](crate::live_source_tests) makes a test of each rule for a source.

#![allow(clippy::unwrap_used, reason = "scenarios are tests")]

mod bitcoind;
mod consumer;
mod mempool;
mod node;
mod rules;
mod stage;

pub use bitcoind::{BitcoindStage, bitcoind_options};
pub use mempool::{BitcoindMempoolStage, MempoolStage, SimulatedMempoolStage};
pub use node::SimulatedNode;
pub use stage::{CardanoStage, LiveStage, MadeBlock, SimulatedStage};

macro_rules! mempool_scenarios {
    ($($name:ident),+ $(,)?) => {
        $(
            #[doc = concat!("Scenario `", stringify!($name), "`.")]
            pub fn $name(stage: &dyn MempoolStage) {
                mempool::$name(stage);
            }
        )+

        /// Makes a test of every rule of mempools: `mempool_source_tests!(source, stage)`. The stage
        /// is an `Option`, as for [`live_source_tests!`](crate::live_source_tests).
        #[macro_export]
        macro_rules! mempool_source_tests {
            ($source:ident, $make:expr) => {
                mod $source {
                    use super::*;
                    $(
                        #[test]
                        fn $name() {
                            if let Some(stage) = $make {
                                $crate::live::$name(&stage);
                            }
                        }
                    )+
                }
            };
        }
    };
}

mempool_scenarios! {
    what_entered_is_listed_with_its_bytes,
    what_left_is_not_listed_and_has_no_bytes,
    the_tip_is_that_of_the_chain_and_every_change_shows,
    a_mempool_that_is_too_large_or_a_node_that_is_gone_is_an_error,
}

macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        $(
            #[doc = concat!("Scenario `", stringify!($name), "`.")]
            pub fn $name(stage: &dyn LiveStage) {
                rules::$name(stage);
            }
        )+

        /// Makes a test of every rule: `live_source_tests!(source, stage)`. The stage is an `Option`:
        /// without one the test is skipped, and whatever made none has said why.
        #[macro_export]
        macro_rules! live_source_tests {
            ($source:ident, $make:expr) => {
                mod $source {
                    use super::*;
                    $(
                        #[test]
                        fn $name() {
                            if let Some(stage) = $make {
                                $crate::live::$name(&stage);
                            }
                        }
                    )+
                }
            };
        }
    };
}

scenarios! {
    the_whole_chain_arrives_in_order_and_then_the_tip,
    following_goes_on_behind_the_newest_point_that_the_source_has,
    each_new_block_arrives_and_then_the_tip,
    a_fork_is_a_rollback_to_the_last_shared_block_and_the_new_branch,
    a_chain_that_gets_shorter_is_a_rollback_and_the_tip,
    a_fork_while_catching_up_ends_with_the_new_chain,
    a_fork_below_the_intersection_names_a_block_that_was_given_before,
    a_connection_that_is_cut_off_fails_for_good_and_the_next_one_goes_on,
    a_source_without_any_of_the_points_says_whether_it_is_behind,
    signs_of_life_grow_and_the_height_is_that_of_the_tip,
    a_random_life_ends_with_the_chain_of_the_source,
}
