//! Records that are atomic one at a time, and no further: a port and its engines.
//!
//! A *cell* is one record: a key, a random version that is new in every write, and named byte
//! fields. A write names the version it expects, so that of many writers one wins. What has to
//! happen over several cells is up to the caller, who builds it from conditional writes and
//! barriers; see [`RecordStore`].
//!
//! # Invariants
//!
//! * A conditional write is applied as a whole, with its changes of indexes and its expiry, or not
//!   at all; and at most once, however often it is sent.
//! * An answer is never a guess. What was lost between the write and its answer is
//!   [`Written::InDoubt`], and an error of the call as a whole means that nothing was written.
//! * Behind a barrier, what was written and what was found is as safe as the
//!   [`Acknowledgement`] level says.

#[cfg(feature = "aerospike")]
mod aerospike;
#[cfg(feature = "bench")]
pub mod bench;
mod check;
mod error;
mod memory;
mod opened;
mod port;
#[cfg(feature = "redis")]
mod redis;
mod shelf;
#[cfg(feature = "testing")]
pub mod simulation;
#[cfg(feature = "testing")]
pub mod testing;
mod version;

#[cfg(feature = "aerospike")]
pub use self::aerospike::{AEROSPIKE_URL_FORM, AerospikeOptions, AerospikeRecords, Consistency};
pub use error::RecordError;
pub use memory::MemoryRecords;
pub use opened::ReadOnlyRecords;
pub use port::{
    Acknowledgement, Action, Barrier, CALL_ITEMS_MAX, Cell, Expect, FIELD_NAME_BYTES_MAX, Field,
    Fields, IndexChange, IndexPage, KEY_NAME_BYTES_MAX, Key, MEMBER_BYTES_MAX, ReadCell,
    RecordStore, SCAN_LIMIT_MAX, SCORE_MAX, SHARDS_MAX, ScanIndex, Trouble, WriteCell, Written,
};
#[cfg(feature = "redis")]
pub use redis::{REDIS_URL_FORM, RedisOptions, RedisRecords};
pub use version::{Version, Versions};
