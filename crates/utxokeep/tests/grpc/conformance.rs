//! Every scenario of the conformance suite, through gRPC.

use std::any::Any;

use utxokeep::config::GrpcConfig;
use utxokeep_core::node::Policy;
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::conformance_tests;
use utxokeep_txstore::{TABLES, TxStore};

use crate::{
    client_store::GrpcTxStore,
    served::{Served, store_on},
};

fn over_grpc(policy: Policy) -> (Box<dyn TxStore>, Option<Box<dyn Any + Send + Sync>>) {
    let store = store_on(MemoryKv::new(TABLES), policy);
    (Box::new(GrpcTxStore::new(Served::start(store, &GrpcConfig::default()))), None)
}

conformance_tests!(on_memory, super::over_grpc);
