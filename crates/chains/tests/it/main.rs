//! Blocks in: decoders, files, addresses, nodes and the simulator, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bitcoind;
mod cardano_address;
mod cardano_conformance;
mod cardano_decode;
mod cardano_files;
mod cardano_genesis;
mod cardano_immutable;
mod cardano_made;
mod cardano_node;
mod cardano_real_node;
mod cardano_replay;
mod decode;
mod files;
mod finalize;
mod live_sources;
mod simulator;
mod support;
