//! Fixtures and the reference model that the tests of utxokeep compare against.

mod regtest;

pub use regtest::{Event, EventKind, RegtestA, Truth, sat};
