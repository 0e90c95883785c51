//! For tests: one suite for every engine, and clusters of this machine's own.

#[cfg(feature = "aerospike")]
mod aerospike;
#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod netns;
#[cfg(feature = "aerospike")]
mod proxy;
#[cfg(feature = "redis")]
mod shared;
mod skip;
pub mod suite;
#[cfg(feature = "redis")]
mod wire;

#[cfg(feature = "aerospike")]
pub use self::aerospike::AerospikePlace;
#[cfg(feature = "redis")]
pub use cluster::{ClusterError, TestCluster};
#[cfg(feature = "redis")]
pub use netns::Namespaces;
#[cfg(feature = "aerospike")]
pub use proxy::{FaultProxy, ProxyFault};
#[cfg(feature = "redis")]
pub use shared::shared_url_or_skip;
pub use skip::skipped;
#[cfg(feature = "redis")]
pub use wire::{Wire, WireReply};
