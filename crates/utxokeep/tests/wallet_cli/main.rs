//! `utxokeep wallet` as a user meets it: the program runs, on a ledger of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod guards;
mod once;
mod program;
mod pruning;
mod refusals;
mod spending;
mod story;
mod verified;
mod watching;
