//! The node store: transactions and their outputs, from creation to safe deletion.
//!
//! [`TxStore`] is the contract. Its rules are [`utxokeep_core::node`]; an engine loads what an
//! operation touches, lets the rules decide, and writes the outcome in one commit.
//!
//! # Invariants
//!
//! * A call is one commit: after a crash all of it is there, or nothing.
//! * Items of a batch are answered one by one; a refused item changed nothing.
//! * Two calls that touch the same transaction happen one after the other.

mod check;
mod error;
mod kv;
mod locks;
mod store;
mod tables;

pub use check::{Finding, VerifyReport};
pub use error::{OpenError, StoreError};
pub use kv::KvTxStore;
pub use store::{BlockState, Decorated, Fields, PerItem, StoredTx, TxStore};
pub use tables::{FORMAT_VERSION, TABLES};
