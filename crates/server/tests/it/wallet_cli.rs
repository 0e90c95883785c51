//! `utxokeep wallet` as a user meets it: the program runs, on a ledger of its own.

mod answers;
mod cardano;
mod guards;
mod once;
pub(crate) mod program;
mod pruning;
mod refusals;
mod spending;
mod story;
mod verified;
mod watching;
