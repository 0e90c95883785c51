//! Long random histories: a plain model beside every engine, which is closed and opened again now
//! and then. After every step both say and hold the same, and recounting finds nothing wrong.
//!
//! `UTXOKEEP_STEPS` sets the steps of each engine, `UTXOKEEP_SEED` the first seed. A failure names
//! both for one history, and prints a shorter one that fails too.

mod choose;
mod conflicts;
#[cfg(debug_assertions)]
mod crash;
mod holds;
mod model;
mod moving;
mod ops;
mod random;
mod rules;
mod run;

use std::sync::Arc;

use run::{run, run_part, settings};
use utxokeep_kv::Durability;
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, MemoryRecords, RedisOptions, RedisRecords,
    testing::AerospikePlace,
};
use utxokeep_sql::Durability as SqlDurability;
use utxokeep_testkit::postgres::TestDatabase;

use crate::engines;

#[test]
fn any_history_agrees_with_the_model_in_memory() {
    run("in_memory", 1, |seed, store| {
        store.unwrap_or_else(|| engines::memory(settings(seed)).store)
    });
}

#[test]
fn any_history_agrees_with_the_model_with_every_body_in_a_file() {
    run("in_a_file", 101, |seed, store| {
        store.unwrap_or_else(|| engines::blobs(settings(seed)).store)
    });
}

#[test]
fn any_history_agrees_with_the_model_where_lists_are_committed_item_by_item() {
    run("by_item", 151, |seed, store| {
        let make = || {
            let how = engines::by_item::How { seed, ..Default::default() };
            engines::by_item::by_item(engines::memory(settings(seed)).store, how).0
        };
        store.unwrap_or_else(make)
    });
}

#[test]
fn any_history_agrees_with_the_model_on_rocksdb() {
    let dir = tempfile::tempdir().unwrap();
    run("on_rocksdb", 201, |seed, store| {
        drop(store);
        let path = dir.path().join(seed.to_string());
        engines::open_rocksdb(&path, settings(seed), Durability::Buffered)
    });
}

#[test]
fn any_history_agrees_with_the_model_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    run("on_sqlite", 301, |seed, store| {
        drop(store);
        let url = format!("sqlite:{}", dir.path().join(seed.to_string()).display());
        engines::open_sql_with(&url, settings(seed), SqlDurability::Relaxed)
    });
}

#[test]
fn any_history_agrees_with_the_model_on_records() {
    let mut port = Arc::new(MemoryRecords::new());
    run("on_records", 501, |seed, store| {
        if store.is_none() {
            port = Arc::new(MemoryRecords::new());
        }
        drop(store);
        let per_record = if seed.is_multiple_of(2) { 2 } else { 128 };
        engines::open_records(Arc::clone(&port) as _, settings(seed), per_record)
    });
}

/// A tenth of the steps: each of them is several round trips that wait for replicas.
#[test]
fn any_history_agrees_with_the_model_on_a_cluster() {
    let connect = || {
        let url = utxokeep_records::testing::shared_url_or_skip("ack=replica")?;
        Some(Arc::new(RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap()))
    };
    let Some(mut port) = connect() else { return };
    run_part("on_a_cluster", 601, 10, |seed, store| {
        if store.is_none() {
            port = connect().unwrap();
        }
        drop(store);
        let per_record = if seed.is_multiple_of(2) { 2 } else { 128 };
        engines::open_records(Arc::clone(&port) as _, settings(seed), per_record)
    });
}

#[test]
fn any_history_agrees_with_the_model_on_aerospike() {
    let Some(mut place) = AerospikePlace::new_or_skip("") else { return };
    run("on_aerospike", 701, |seed, store| {
        if store.is_none() {
            place = AerospikePlace::new_or_skip("").unwrap();
        }
        drop(store);
        let port = AerospikeRecords::open(AerospikeOptions::parse(&place.url()).unwrap()).unwrap();
        let per_record = if seed.is_multiple_of(2) { 2 } else { 128 };
        engines::open_records(Arc::new(port), settings(seed), per_record)
    });
}

#[test]
fn any_history_agrees_with_the_model_on_postgres() {
    if TestDatabase::create_or_skip().is_none() {
        return;
    }
    let mut database = None;
    run("on_postgres", 401, |seed, store| {
        if store.is_none() {
            database = TestDatabase::create_or_skip();
        }
        drop(store);
        let url = database.as_ref().unwrap().url();
        engines::open_sql_with(url, settings(seed), SqlDurability::Relaxed)
    });
}
