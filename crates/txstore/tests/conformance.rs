//! Every scenario of the conformance suite, on every engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engines;

use std::any::Any;

use utxokeep_core::node::Policy;
use utxokeep_testkit::conformance_tests;
use utxokeep_txstore::{Settings, TxStore};

fn on(
    open: impl Fn(Settings) -> Option<engines::Opened>,
) -> impl Fn(Policy) -> (Box<dyn TxStore>, Option<Box<dyn Any + Send + Sync>>) {
    move |policy| {
        let settings = Settings { policy, ..Settings::default() };
        // Without a server the same scenarios run in memory, after a loud message.
        let opened = open(settings).unwrap_or_else(|| engines::memory(settings));
        (Box::new(opened.store), opened.place)
    }
}

conformance_tests!(on_memory, super::on(|settings| Some(super::engines::memory(settings))));
conformance_tests!(on_rocksdb, super::on(|settings| Some(super::engines::rocksdb(settings))));
conformance_tests!(on_sqlite, super::on(|settings| Some(super::engines::sqlite(settings))));
conformance_tests!(on_postgres, super::on(super::engines::postgres));
conformance_tests!(with_blobs, super::on(|settings| Some(super::engines::blobs(settings))));
