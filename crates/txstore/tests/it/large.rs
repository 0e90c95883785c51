//! Transactions with very many outputs: stored, spent from and deleted as one, like any other.

use utxokeep_core::{
    Height, OutPoint,
    node::{CreateOptions, SpendFlags, SpendRequest, SpendStatus},
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{Fields, StoreSettings, TxStore};

use crate::engines;

const AT: Height = Height::new(5);

fn a_large_transaction(store: &dyn TxStore, outputs: u32) {
    let tx = seed(1, &vec![1; outputs as usize]);
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT).unwrap().remove(0).unwrap();
    let status = |vout| {
        let output = [(OutPoint::new(tx.txid, vout), None)];
        store.spend_views(&output, AT).unwrap().remove(0).unwrap().status
    };
    let last = outputs - 1;
    let spend = spending(2, &[(&tx, last)], &[1]);
    let request = SpendRequest::of(&spend, AT, SpendFlags::default()).unwrap();
    assert_eq!(store.spend(&[request]).unwrap().remove(0).unwrap().newly, 1);
    assert_eq!(status(last), SpendStatus::Spent);
    for vout in [0, outputs / 2, last - 1] {
        assert_eq!(status(vout), SpendStatus::Ok);
    }
    assert_eq!(status(outputs), SpendStatus::NotFound);
    let record = store.get(&[tx.txid], Fields::default()).unwrap().remove(0).unwrap().record;
    assert_eq!((record.outputs, record.utxos, record.spent), (outputs, outputs, 1));
    assert_eq!(store.delete(&[tx.txid]).unwrap(), 1);
    for vout in [0, outputs / 2, last] {
        assert_eq!(status(vout), SpendStatus::NotFound);
    }
    assert_eq!(store.get(&[tx.txid], Fields::default()).unwrap(), [None]);
}

#[test]
fn a_million_outputs_in_memory() {
    a_large_transaction(&engines::memory(StoreSettings::default()).store, 1_000_000);
}

#[test]
fn a_million_outputs_on_records() {
    let opened = engines::records(StoreSettings::default());
    a_large_transaction(&opened.store, 1_000_000);
    assert_eq!(opened.store.verify().unwrap().outputs, 0, "nothing is left");
}

#[test]
fn a_million_outputs_on_rocksdb() {
    let opened = engines::rocksdb(StoreSettings::default());
    a_large_transaction(&opened.store, 1_000_000);
    assert_eq!(opened.store.verify().unwrap().outputs, 0, "nothing is left");
}

#[test]
fn a_hundred_thousand_outputs_on_sqlite() {
    let opened = engines::sqlite(StoreSettings::default());
    a_large_transaction(&opened.store, 100_000);
    assert_eq!(opened.store.verify().unwrap().outputs, 0, "nothing is left");
}

#[test]
fn a_hundred_thousand_outputs_on_postgres() {
    let Some(opened) = engines::postgres(StoreSettings::default()) else { return };
    a_large_transaction(&opened.store, 100_000);
    assert_eq!(opened.store.verify().unwrap().outputs, 0, "nothing is left");
}
