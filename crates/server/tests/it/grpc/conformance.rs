//! Every scenario of the conformance suite, through gRPC.

use utxokeep::config::GrpcConfig;
use utxokeep_core::node::Policy;
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::{conformance_tests, txstore::OpenedStore};
use utxokeep_txstore::TABLES;

use crate::grpc::{
    client_store::GrpcTxStore,
    served::{Served, store_on},
};

#[allow(clippy::unnecessary_wraps, reason = "an engine may be missing")]
fn over_grpc(policy: Policy) -> Option<OpenedStore> {
    let store = store_on(MemoryKv::new(TABLES), policy);
    Some((Box::new(GrpcTxStore::new(Served::start(store, &GrpcConfig::default()))), None))
}

conformance_tests!(on_memory, super::over_grpc);
