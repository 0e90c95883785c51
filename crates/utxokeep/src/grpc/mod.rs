//! The gRPC server: the node store for programs in any language.
//!
//! The contract is `proto/utxokeep/v1/txstore.proto`; [`proto`] is generated from it.
//!
//! # Invariants
//!
//! * A request that breaks the contract is refused before the store sees any of it.
//! * Calls run on threads of their own and are bounded in number, size and time.
//! * A call is one call of the store, and so one commit.

mod calls;
mod fault;
mod from_proto;
mod meter;
mod operations;
mod refusal;
mod server;
mod service;
mod to_proto;
mod unmined;

pub use meter::METRICS;
pub use server::GrpcServer;

pub(crate) use meter::describe_metrics;

/// Messages, client and server, generated from the contract.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the contract has the documentation"
)]
pub mod proto {
    tonic::include_proto!("utxokeep.v1");
}
