//! The wallet ledger follows the chain database, as a user runs it: beside `serve`, killed, rolled
//! back, without bodies, on both SQL engines and on both chains.

pub(crate) mod bitcoin;
mod branches;
mod cardano;
mod claims;
pub(crate) mod program;
mod verified;
