//! Wallets over gRPC: a real server on a port of its own, and the generated client.

mod concurrent;
mod pages;
mod program;
mod refusals;
mod rescan;
pub(crate) mod served;
mod story;
mod watching;
mod world;
