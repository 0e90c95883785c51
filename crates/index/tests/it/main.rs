//! The chain log and the chain index, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bitcoin_rules;
mod bulk;
mod cardano_mistakes;
mod cardano_preview;
mod common;
mod core_answers;
mod damage;
mod errors;
mod exact_bytes;
mod log;
mod mmr;
mod one_commit;
mod pinned_tables;
mod properties;
mod regtest_a;
mod switch;
