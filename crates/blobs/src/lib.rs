//! Files by name, in a directory, a bucket or memory.
//!
//! # Invariants
//!
//! * A file is there whole or not at all, whenever the process or the connection ends.
//! * In a directory that was opened as durable, file and directory entry are on disk before a call
//!   that wrote returns. A bucket is durable by itself.
//! * Every call has a time limit. Attempts are bounded and counted; the client of a bucket makes none
//!   of its own unless it was asked to.
//! * A place that is only read is not created.

mod error;
mod many;
mod store;

pub use self::{
    error::{BlobError, BlobUrlError},
    many::{FileGroup, Retry, Written},
    store::{BlobOptions, BlobStore, FoundFile},
};
