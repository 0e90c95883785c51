//! The conformance suite of the node store: one scenario per rule, for every engine.
//!
//! Each is named by its rule; the code in its comment is the short name of the rule.
//! [`conformance_tests!`](crate::conformance_tests) makes a test of each for an engine.
//!
//! Some codes have no scenario, because a transaction is never spread over several records and is
//! written in one commit: C-split-counts, C-key, C-offset, D-pages and P-pages (there are no pages
//! to count, name or keep), S-creating (nobody ever sees a half-written transaction). Those that
//! need a damaged row or a restart (G-torn-page, SAC-crash, the second half of X-wal) are tests of
//! the engines.

#![allow(clippy::unwrap_used, clippy::similar_names, reason = "scenarios are tests")]

mod batches;
mod chain;
mod conflicts;
mod create;
mod for_ever;
mod freeze;
mod mined;
mod reads;
mod spend;
mod stage;

use stage::RETENTION;
pub use stage::{Make, OpenedStore, Stage, coinbase, seed, spending};

macro_rules! scenarios {
    ($($module:ident ($retention:expr) { $($name:ident),+ $(,)? })+) => {
        $($(
            #[doc = concat!("Scenario `", stringify!($name), "`.")]
            pub fn $name(make: &Make<'_>) {
                // An engine that is not installed has said so.
                if let Some(stage) = Stage::new(make, $retention) {
                    $module::$name(&stage);
                }
            }
        )+)+

        /// Makes a test of every scenario: `conformance_tests!(engine, || store)`.
        #[macro_export]
        macro_rules! conformance_tests {
            ($engine:ident, $make:expr) => {
                mod $engine {
                    use super::*;
                    $($(
                        #[test]
                        fn $name() {
                            $crate::txstore::$name(&$make);
                        }
                    )+)+
                }
            };
        }
    };
}

scenarios! {
    create (RETENTION) {
        a_created_transaction_is_read_back,
        a_second_create_is_refused_and_the_rest_of_its_batch_is_not,
        a_second_create_of_a_spent_transaction_says_that_it_exists,
        a_coinbase_is_spendable_from_its_maturity_height_on,
        a_spendable_output_of_zero_satoshis_counts,
        a_data_output_cannot_be_spent,
        a_transaction_of_data_only_is_due_when_created_mined,
        a_transaction_created_mined_has_each_block_once,
        a_transaction_is_unmined_since_the_height_of_its_creation,
        a_conflicting_child_is_listed_once_by_its_parent,
        a_conflicting_child_needs_no_stored_parent,
        a_transaction_created_locked_is_spendable_once_unlocked,
        a_transaction_without_outputs_is_refused,
        inputs_without_their_previous_outputs_are_refused_unless_allowed,
        a_transaction_of_many_outputs_is_spent_output_by_output,
        an_unknown_transaction_is_not_found_without_an_error,
        only_spent_outputs_name_a_spender,
        each_outpoint_is_decorated_or_says_what_is_missing,
        height_zero_is_refused,
        a_deleted_transaction_leaves_nothing_stale,
    }
    spend (RETENTION) {
        a_spend_names_its_spender_and_the_blocks_of_its_parent,
        a_double_spend_is_refused_and_names_the_first_spender,
        the_same_spend_again_counts_once,
        spending_an_unknown_transaction_is_not_found,
        a_stored_spender_may_spend_again_when_its_parent_is_gone,
        a_spend_with_the_wrong_hash_is_refused,
        spending_an_output_out_of_range_is_not_found,
        outputs_of_a_conflicting_transaction_are_spent_only_with_the_flag,
        outputs_of_a_locked_transaction_are_spent_only_with_the_flag,
        a_refused_spend_says_the_first_reason_in_a_fixed_order,
        a_spender_without_a_record_spends_all_or_nothing,
        a_refused_spend_keeps_earlier_spends_of_a_stored_spender,
        a_spend_needs_a_height_and_inputs,
        concurrent_spends_of_one_spender_count_once,
        of_concurrent_spenders_one_wins_and_the_others_are_told,
        concurrent_spends_of_every_output_make_the_record_due,
        a_spend_twice_in_a_batch_counts_once,
        a_transaction_that_spends_an_output_twice_is_refused,
        a_spend_that_is_taken_back_is_uncounted_once,
        only_the_spender_takes_its_spend_back,
        an_unspend_of_an_unspent_output_is_fine_and_a_wrong_one_is_refused,
        an_unspend_sets_the_lock_only_when_told,
        a_child_is_stored_and_its_inputs_spent_in_one_call,
        spend_only_and_create_only_exclude_each_other,
        spend_and_create_of_a_stored_transaction_keeps_its_spends,
        a_failed_spend_and_create_spends_and_stores_nothing,
        a_failed_parent_fails_its_children_and_a_wrong_list_writes_nothing,
    }
    mined (RETENTION) {
        each_block_of_a_transaction_is_kept_once,
        a_block_has_one_height,
        heights_that_are_missing_are_named,
        losing_one_of_several_blocks_keeps_the_others,
        losing_the_last_block_unmines_and_clears_the_deletion_height,
        only_a_block_of_the_longest_chain_ends_being_unmined,
        only_being_mined_unlocks,
        a_block_that_is_told_again_lifts_no_lock,
        mining_a_missing_transaction_is_refused_and_unmining_it_is_not,
        a_deletion_height_counts_from_the_block_that_mined,
        leaving_and_joining_the_longest_chain_toggles_unmined_since,
        an_unmined_record_keeps_its_earliest_height,
        a_record_that_leaves_the_chain_is_backdated_by_the_unmined_retention,
        leaving_the_longest_chain_clears_the_deletion_height_and_joining_sets_it,
        a_spent_record_is_due_once_it_is_mined,
        a_mined_record_is_due_once_its_last_output_is_spent,
        a_deletion_height_only_moves_forward,
        taking_a_spend_back_clears_the_deletion_height,
        a_preserved_record_gets_no_deletion_height,
        a_record_spent_while_preserved_is_due_after_the_spend,
        a_record_mined_again_below_its_spend_is_due_after_the_spend,
        a_block_that_is_reported_late_does_not_hasten_the_deletion,
        a_lock_clears_the_deletion_height_and_unlocking_sets_it,
        preserving_clears_the_deletion_height_and_is_never_shortened,
        an_expired_preservation_makes_only_spent_records_due,
        unmined_records_are_listed_in_pages_up_to_the_cutoff,
    }
    freeze (RETENTION) {
        a_frozen_output_is_spendable_only_once_unfrozen,
        only_unspent_outputs_are_frozen_and_only_frozen_ones_unfrozen,
        a_reassigned_output_is_the_new_owners_after_the_hold,
        the_hold_of_a_reassigned_output_survives_freezing,
        a_frozen_output_keeps_its_record_from_being_due,
        a_record_with_a_reassigned_output_is_never_due,
    }
    conflicts (RETENTION) {
        a_winner_takes_its_inputs_and_the_loser_gives_all_back,
        only_a_stored_conflicting_transaction_can_win,
        nobody_wins_a_frozen_output,
        nobody_wins_an_output_of_an_unknown_parent,
        descendants_of_a_loser_lose_too,
        a_spender_without_a_record_loses_without_being_named,
        nobody_wins_an_output_that_does_not_exist,
        marking_a_conflict_answers_what_it_spends_and_who_spends_it,
        a_conflict_intent_is_pending_once_until_it_is_complete,
        a_conflict_sets_the_deletion_height_once,
    }
    reads (RETENTION) {
        only_a_coinbase_waits_for_maturity,
        id_and_kind_are_what_the_caller_says,
        a_conflicting_record_is_due_however_it_became_conflicting,
        previous_outputs_are_known_whether_data_or_spent,
        a_parent_output_says_its_lowest_block_or_why_it_has_none,
        height_and_time_of_the_chain_are_never_torn,
    }
    batches (RETENTION) {
        a_spend_keeps_what_it_could_get_when_the_spender_has_a_record,
        an_output_named_often_in_a_batch_counts_once,
        the_same_spend_again_sets_a_missing_deletion_height,
        a_frozen_output_has_no_spend_to_take_back,
        the_counter_of_spent_outputs_is_a_recount,
        a_thousand_transactions_are_created_and_spent_in_batches,
    }
    chain (RETENTION) {
        mining_answers_each_transaction_with_all_its_blocks,
        mining_nothing_is_fine_and_a_block_needs_a_height,
        a_reorganisation_moves_transactions_to_the_blocks_of_the_other_branch,
        an_expired_preservation_makes_a_conflicting_record_due,
        an_expiring_preservation_revives_no_deleted_record,
    }
    for_ever (0) {
        without_retention_no_deletion_height_is_set,
        without_retention_an_expired_preservation_is_only_cleared,
    }
}
