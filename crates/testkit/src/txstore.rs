//! The conformance suite of the node store: one scenario per rule, for every engine.
//!
//! Names are those of the specification. [`conformance_tests!`](crate::conformance_tests) makes a
//! test of each for an engine.
//!
//! Some of its scenarios have no meaning here, because a transaction is never spread over several
//! records and is written in one commit: C-split-counts, C-key, C-offset, D-pages and P-pages
//! (there are no pages to count, name or keep), S-creating (nobody ever sees a half-written
//! transaction). Those that need a damaged row or a restart (G-torn-page, SAC-crash, the second
//! half of X-wal) are tests of the engines.

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
        c_basic, c_dup, c_dup_after_spend, c_coinbase_boundary, c_zerosat, c_opreturn,
        c_opreturn_only_mined, c_mined, c_unmined, c_conflicting_parent,
        c_conflicting_missing_parent, c_locked, c_no_outputs, c_not_extended, c_large, g_notfound,
        g_spend_datas, b_decorate, h_zero, delete_complete,
    }
    spend (RETENTION) {
        s_ok, s_double, s_idem, s_nonexistent, s_blessed, s_hash_mismatch, s_vout_out_of_range,
        s_conflicting, s_locked, s_precedence, s_rollback_any_class, s_no_rollback_if_record,
        s_height_zero, s_concurrent_same, s_concurrent_diff, s_concurrent_drain,
        s_duplicate_in_batch, s_same_output_twice_in_one_tx, u_ok, u_not_owner, u_unspent_missing_nil,
        u_locked_flag, sac_default, sac_only_flags, sac_exists_keeps_spends, sac_fails_whole,
        sac_multi,
    }
    mined (RETENTION) {
        m_append_dedupe, m_a_block_has_one_height, m_heights_that_are_missing_are_named, m_unset_middle, m_unset_last, m_not_longest, m_only_being_mined_unlocks, m_missing,
        m_dah_height, l_mark, l_keep_earliest, l_backdate, l_dah, d_all_spent_then_mined,
        d_mined_then_last_spend, d_forward_only, d_unspend_clears, d_preserved_untouched,
        d_spent_while_preserved, d_mined_again_below_the_spend, d_mined_told_late, d_lock_clears, p_preserve, p_expire, p_unmined_iteration,
    }
    freeze (RETENTION) { f_freeze, f_errors, f_reassign, f_hold_survives, d_frozen_blocks, d_reassigned_never }
    conflicts (RETENTION) {
        x_process, x_not_conflicting, x_frozen, x_missing_parent, x_descendants, x_ghost,
        x_out_of_range, x_set_conflicting, x_wal, d_conflict_once,
    }
    reads (RETENTION) {
        c_coinbase, c_overrides, c_conflicting_dah, p_decorate, b_parent_outputs, h_pair,
    }
    batches (RETENTION) {
        s_partial, s_large_duplicate, s_idem_dah, u_frozen, d_counter, sanity,
    }
    chain (RETENTION) {
        m_postcondition, m_empty, l_reorg, p_expire_conflicting, p_expire_no_resurrect,
    }
    for_ever (0) { d_r0, p_expire_r0 }
}
