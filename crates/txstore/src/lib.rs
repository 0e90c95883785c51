//! The node store: transactions and their outputs, from creation to safe deletion.
//!
//! [`TxStore`] is the contract. Its rules are [`utxokeep_core::node`]; an engine loads what an
//! operation touches, lets the rules decide, and writes the outcome in one commit.
//!
//! # Invariants
//!
//! * Embedded and SQL engines commit the whole call: after a crash all of it is there, or nothing.
//!   Record engines commit the items of a list one by one (see [`Backend::write_items`]).
//! * Items of a batch are answered one by one; a refused item changed nothing.
//! * Two calls that touch the same transaction happen one after the other.

mod admit;
mod agreed;
mod backend;
#[cfg(feature = "bench")]
pub mod bench;
mod blob_place;
mod blobs;
mod calls;
mod check;
mod engine;
mod error;
mod facts;
mod faults;
mod files;
mod heights;
mod items;
mod kv;
mod locks;
mod meter;
mod moving;
mod orphans;
mod prune;
mod records;
mod sample;
mod sql;
mod store;
mod tables;
mod watch;

pub use agreed::{Agreed, AgreedChange, Agreement, Disagreement, of_policy as agreed_of_policy};
pub use backend::{
    Backend, ItemsWork, ReadWork, StateWork, StoreReads, Touched, Uncommitted, WriteWork,
};
pub use blob_place::WrongBlobStore;
pub use blobs::{Blobs, FoundBlob};
pub use check::{Finding, VerifyReport};
pub use engine::{NodeStore, StoreSettings};
pub use error::{StoreError, StoreOpenError};
#[cfg(feature = "testing")]
pub use faults::ProofFault;
pub use kv::KvOptions;
pub use meter::METRICS;
pub use moving::{
    MoveError, MoveOptions, MoveProgress, MoveReport, StoreComparison, StoreDifference, WatchMove,
    abandon_move, compare_stores, move_store,
};
pub use orphans::BlobReport;
pub use prune::{
    BlobsDeleted, EndedKeeping, KeptForNobody, ParentsOf, PastDue, PruneStore, RestoredHeight,
};
pub use records::{CreationLock, RecordContext, RecordSettings, creation_lock_ttl_s};
#[cfg(feature = "testing")]
pub use records::{RecordFault, RecordFaults};
pub use sample::{Amount, Sample};
pub use sql::{COMPONENT as SQL_COMPONENT, MIGRATIONS as SQL_MIGRATIONS};
pub use store::{Decorated, Fields, ParentOutput, PerItem, StoredTx, TxStore};
pub use tables::{FORMAT_VERSION, TABLES};
pub use utxokeep_blobs::BlobUrlError;
pub use utxokeep_core::node::BlockState;
