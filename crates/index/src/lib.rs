//! The chain log and the chain index: blocks in, an exact UTXO set out.
//!
//! [`ChainIndex`] answers questions from snapshots, [`ChainWriter`] (one per database) changes it,
//! and [`Follower`] drives the writer along the branch with the most work. [`View::log`] reads the
//! log from a cursor, for whatever else follows the chain.
//!
//! # Invariants
//!
//! * One writer; readers use snapshots and never wait for it.
//! * Log, index, delta, cursor and counters of a block change in one atomic batch.
//! * Undo walks the same delta as apply; no table is touched by only one of them.
//! * A rollback below the floor is refused whole and names the floor.

mod accumulator;
mod apply;
mod coin;
mod digest;
mod era_rules;
mod error;
mod error_kind;
mod follow;
mod immutable;
mod import;
mod index;
mod live;
mod log;
mod meta;
mod mmr;
#[cfg(feature = "rocksdb")]
mod open_dir;
mod pending;
mod prune;
mod query;
mod redo;
mod rollback;
mod settings;
mod side;
mod staging;
mod stats;
mod switch;
pub mod tables;
mod times;
mod verify;
mod writer;

pub use apply::Applied;
pub use digest::Digest;
pub use error::{
    ApplyError, CatchUpError, FollowError, IndexError, IndexOpenError, MmrEnableError, MmrError,
    QueryError, RollbackError,
};
pub use follow::{FollowReport, Follower, REFUSED_LISTED_MAX, RefusedBlock};
pub use immutable::import_immutable;
pub use import::{ImportProgress, ImportStage, OnProgress, import_files};
pub use index::{ChainIndex, IndexStatus};
pub use live::{FAR_BLOCKS, LiveFollower, Readers};
pub use log::{
    CONSUMERS_MAX, ConsumerNeeds, ConsumerState, ConsumerStatus, Cursor, LogError, LogEvent,
    LogReader, LoggedBlock, TipSignal,
};
pub use meta::{FORMAT_VERSION, Identity};
pub use mmr::{
    ForestProof, ForestRoots, MmrBlocks, MmrBuildStanding, MmrBuilt, MmrRoot, MmrStanding,
    OnMmrBuild, UtreexoAnswer,
};
#[cfg(feature = "rocksdb")]
pub use open_dir::{disable_mmr, peek_identity};
pub use prune::PruneReport;
pub use query::{
    AddressBalance, AddressPage, AssetId, OutputDetails, Paging, SpentInfo, Utxo, View,
};
pub use settings::{DeltaKind, IndexSettings};
pub use stats::{METRICS, describe_metrics};
pub use switch::{
    SetStanding,
    catch_up::{CaughtUp, LoggedBodies, OnCatchUp},
};
pub use verify::{Finding, OnVerify, VerifyReport};
pub use writer::{ChainWriter, Mode};
