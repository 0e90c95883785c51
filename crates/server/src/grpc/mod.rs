//! The gRPC server: the node store, the pruner, the wallet ledger and the chain index for programs in
//! any language.
//!
//! The contracts are the `.proto` files of `utxokeep-proto`, which has the messages; [`services`] is
//! generated from the same files. The service of the chain index comes from the table of operations
//! ([`table`]).
//!
//! # Invariants
//!
//! * A request that breaks the contract is refused before the store sees any of it.
//! * Wallets: bytes of messages become texts of requests in `wallet_texts` alone.
//! * Calls run on threads of their own and are bounded in number, size and time.
//! * A call is one call of the store, and so one commit.

pub(crate) mod bounded;
mod calls;
mod fault;
mod from_proto;
mod guard;
mod memory;
mod meter;
mod operations;
mod pruner;
mod pruner_operations;
pub(crate) mod pruner_to_proto;
mod refusal;
mod server;
mod service;
mod stream;
mod table;
mod to_proto;
mod unmined;
mod wallet;
mod wallet_error;
mod wallet_events;
mod wallet_from_proto;
mod wallet_operations;
mod wallet_payments;
mod wallet_streams;
mod wallet_texts;
mod wallet_to_proto;

pub use meter::METRICS;
pub use server::GrpcServer;
pub use utxokeep_proto::v1 as proto;

pub(crate) use guard::TokenSender;

/// Servers of the contract.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the contract has the documentation"
)]
pub mod services {
    tonic::include_proto!("utxokeep.v1");
}
