//! Every scenario of the conformance suite, on every engine.

use utxokeep_core::node::Policy;
use utxokeep_testkit::{conformance_tests, txstore::OpenedStore};
use utxokeep_txstore::StoreSettings;

use crate::engines;

fn on(
    open: impl Fn(StoreSettings) -> Option<engines::Opened>,
) -> impl Fn(Policy) -> Option<OpenedStore> {
    move |policy| {
        let opened = open(StoreSettings::default().with(|settings| settings.policy = policy))?;
        Some((Box::new(opened.store), opened.place))
    }
}

conformance_tests!(on_memory, super::on(|settings| Some(super::engines::memory(settings))));
conformance_tests!(on_rocksdb, super::on(|settings| Some(super::engines::rocksdb(settings))));
conformance_tests!(on_sqlite, super::on(|settings| Some(super::engines::sqlite(settings))));
conformance_tests!(on_postgres, super::on(super::engines::postgres));
conformance_tests!(on_records, super::on(|settings| Some(super::engines::records(settings))));
conformance_tests!(on_aerospike, super::on(super::engines::aerospike));
conformance_tests!(on_redis, super::on(super::engines::redis));
conformance_tests!(on_record_pages, super::on(|s| Some(super::engines::record_pages(s))));
conformance_tests!(
    by_item,
    super::on(|settings| {
        use super::engines::{Opened, by_item, memory};
        let opened = memory(settings);
        Some(Opened { store: by_item::by_item(opened.store, by_item::How::default()).0, ..opened })
    })
);
conformance_tests!(with_blobs, super::on(|settings| Some(super::engines::blobs(settings))));
