//! The pruner for users: over gRPC, on the command line, beside `serve` and alone.

mod alone;
mod cli;
mod grpc;
mod harm;
pub(crate) mod program;
mod refusals;
mod serve;
mod served;
mod waiting;
pub(crate) mod world;
