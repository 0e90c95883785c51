//! Rows that were damaged are never taken for something else, requests that are too large are
//! refused, and what a store promised outlives it.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ConflictIntent, CreateOptions, MinedBlock, MinedInfo, NodeTx, OutputRecord, OutputState,
        SpendFlags, SpendRequest, SpendingData, decode_output, encode_output,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, OpenMode, Read, RocksKv, RocksOptions, TableId};
use utxokeep_sql::{Database, SqlError, Value};
use utxokeep_testkit::{
    postgres::TestDatabase,
    txstore::{seed, spending},
};
use utxokeep_txstore::{Fields, Finding, NodeStore, StoreError, StoreSettings, TABLES, TxStore};

use crate::engines;

const AT: Height = Height::new(5);

fn create(store: &dyn TxStore, tx: &NodeTx) {
    let items = [(tx.clone(), CreateOptions::default())];
    store.create(&items, AT).unwrap().remove(0).unwrap();
}

fn request(tx: &NodeTx) -> SpendRequest {
    SpendRequest::of(tx, AT, SpendFlags::default()).unwrap()
}

/// Changes the row of a spent output, and answers what the store makes of it.
fn after_damage(change: impl Fn(&mut Vec<u8>)) {
    let dir = tempfile::tempdir().unwrap();
    let open = || engines::open_rocksdb(dir.path(), StoreSettings::default(), Durability::Buffered);
    let tx = seed(1, &[5, 6]);
    let spend = spending(2, &[(&tx, 1)], &[4]);
    let store = open();
    create(&store, &tx);
    store.spend(&[request(&spend)]).unwrap().remove(0).unwrap();
    drop(store);

    let slots = TABLES.iter().position(|table| table.name == "tx_slots").unwrap();
    let table = TableId(u8::try_from(slots).unwrap());
    let key = OutPoint::new(tx.txid, 1).to_key();
    let kv = RocksKv::open(dir.path(), TABLES, RocksOptions::within(16 << 20), OpenMode::Existing)
        .unwrap();
    let mut row = kv.get(table, &key).unwrap().unwrap();
    change(&mut row);
    let mut batch = Batch::new();
    batch.put(table, &key, &row);
    kv.commit(batch, Durability::Synced).unwrap();
    drop(kv);

    let store = open();
    let is_corrupt = |error: &StoreError| matches!(error, StoreError::Corrupt(_));
    let output = [(OutPoint::new(tx.txid, 1), None)];
    assert!(is_corrupt(&store.spend_views(&output, AT).unwrap_err()), "never unspent");
    let fields = Fields { body: false, slots: true };
    assert!(is_corrupt(&store.get(&[tx.txid], fields).unwrap_err()));
    let other = spending(3, &[(&tx, 1)], &[4]);
    for spend in [&spend, &other] {
        assert!(is_corrupt(&store.spend(&[request(spend)]).unwrap_err()));
    }
    let report = store.verify().unwrap();
    let found = report.findings.iter().any(|f| f.txid == tx.txid && f.detail.contains("output 1"));
    assert!(found, "{report:?}");
    // Its neighbour is as it was.
    let spend = spending(4, &[(&tx, 0)], &[4]);
    store.spend(&[request(&spend)]).unwrap().remove(0).unwrap();
}

/// G-torn-page.
#[test]
fn an_output_with_a_flipped_byte_is_an_error() {
    for at in [0, 31, 32, 33, 68, 72] {
        after_damage(|row| row[at] ^= 0x40);
    }
}

/// G-torn-page.
#[test]
fn an_output_that_is_cut_short_is_an_error() {
    for len in [0, 3, 32, 37, 72] {
        after_damage(|row| row.truncate(len));
    }
}

#[test]
fn a_request_that_is_too_large_is_refused_whole() {
    for (engine, opened) in
        engines::all(StoreSettings::default().with(|settings| settings.items_max = 3))
    {
        let store = opened.store;
        let txs: Vec<_> = (1..=4).map(|name| seed(name, &[5])).collect();
        let items: Vec<_> = txs.iter().map(|tx| (tx.clone(), CreateOptions::default())).collect();
        let ids: Vec<_> = txs.iter().map(|tx| tx.txid).collect();
        let outputs: Vec<_> = ids.iter().map(|txid| OutPoint::new(*txid, 0)).collect();
        let named: Vec<_> = outputs.iter().map(|at| (*at, [0; 32])).collect();
        let views: Vec<_> = outputs.iter().map(|at| (*at, None)).collect();
        let spends: Vec<_> = txs.iter().map(|tx| request(&spending(9, &[(tx, 0)], &[1]))).collect();
        let many: Vec<_> = txs.iter().map(|tx| (tx, 0)).collect();
        let wide = spending(9, &many, &[1]);
        let how = utxokeep_core::node::SpendAndCreate {
            spend_only: false,
            create_only: false,
            flags: SpendFlags::default(),
        };
        let info = MinedInfo {
            block: MinedBlock { id: 1, height: AT, subtree: 0 },
            on_longest_chain: true,
            unset: false,
            unmined_since: AT,
        };
        let intent = ConflictIntent::new(AT, ids.clone());
        let refusals = [
            store.create(&items, AT).err(),
            store.get(&ids, Fields::default()).err(),
            store.spend_views(&views, AT).err(),
            store.spend(&spends).err(),
            store.spend_and_create(&wide, AT, how, &CreateOptions::default()).err(),
            store.spend_and_create_list(&items, AT, SpendFlags::default()).err(),
            store.set_mined(&ids, &info).err(),
            store.mark_on_longest_chain(&ids, false, AT).err(),
            store.set_locked(&ids, true, AT).err(),
            store.set_conflicting(&ids, true, AT).err(),
            store.process_conflicting(&ids, AT).err(),
            store.begin_conflict_intent(&intent).err(),
            store.freeze(&named).err(),
            store.unfreeze(&named).err(),
            store.preserve(&ids, AT).err(),
            store.decorate(&outputs).err(),
            store.parent_outputs(&outputs).err(),
            store.delete(&ids).err(),
        ];
        for (number, refusal) in refusals.into_iter().enumerate() {
            let is_refused = matches!(refusal, Some(StoreError::TooManyItems { found: 4, max: 3 }));
            assert!(is_refused, "{engine}, call {number}: {refusal:?}");
        }
        assert_eq!(store.verify().unwrap().transactions, 0, "{engine}");
        assert_eq!(store.pending_conflict_intents(9).unwrap(), [], "{engine}");
    }
}

/// X-wal: what was begun is pending after the store was closed and opened again.
fn intents_outlive(open: impl Fn() -> NodeStore) {
    let intent = ConflictIntent::new(AT, vec![seed(1, &[5]).txid, seed(2, &[5]).txid]);
    let id = open().begin_conflict_intent(&intent).unwrap();
    let store = open();
    assert_eq!(store.pending_conflict_intents(9).unwrap(), std::slice::from_ref(&intent));
    assert_eq!(store.begin_conflict_intent(&intent).unwrap(), id);
    drop(store);
    let store = open();
    assert_eq!(store.pending_conflict_intents(9).unwrap(), [intent]);
    store.complete_conflict_intent(&id).unwrap();
    drop(store);
    let store = open();
    store.complete_conflict_intent(&id).unwrap();
    assert_eq!(store.pending_conflict_intents(9).unwrap(), []);
}

/// X-wal.
#[test]
fn conflict_intents_outlive_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings::default();
    let path = dir.path().join("rocksdb");
    intents_outlive(|| engines::open_rocksdb(&path, settings, Durability::Synced));
    let url = format!("sqlite:{}", dir.path().join("sqlite").display());
    intents_outlive(|| engines::open_sql(&url, settings));
    if let Some(database) = TestDatabase::create_or_skip() {
        intents_outlive(|| engines::open_sql(database.url(), settings));
    }
}

/// A store with a parent and a mined child that spends its second output; `tamper` changes rows below
/// it. Answers what `verify` says of the child.
fn said_of_child(engine: &str, tamper: &Tamper) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let database = (engine == "postgres").then(TestDatabase::create_or_skip).flatten();
    let url = database.as_ref().map_or_else(
        || format!("sqlite:{}", dir.path().join("store.db").display()),
        |database| database.url().to_owned(),
    );
    let path = dir.path().join("rocksdb");
    let open = || match engine {
        "rocksdb" => engines::open_rocksdb(&path, StoreSettings::default(), Durability::Synced),
        _ => engines::open_sql(&url, StoreSettings::default()),
    };
    let store = open();
    let (parent, child) = parent_and_child();
    create(&store, &parent);
    store.spend(&[request(&child)]).unwrap().remove(0).unwrap();
    create(&store, &child);
    let block = MinedBlock { id: 1, height: AT, subtree: 0 };
    let info = MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: AT };
    for answer in store.set_mined(&[parent.txid, child.txid], &info).unwrap() {
        answer.unwrap();
    }
    assert!(store.verify().unwrap().is_clean(), "{engine}");
    drop(store);
    if engine == "rocksdb" {
        let kv = RocksKv::open(&path, TABLES, RocksOptions::within(16 << 20), OpenMode::Existing)
            .unwrap();
        let slots = TABLES.iter().position(|table| table.name == "tx_slots").unwrap();
        let table = TableId(u8::try_from(slots).unwrap());
        let key = OutPoint::new(parent.txid, 1).to_key();
        let slot = decode_output(&kv.get(table, &key).unwrap().unwrap()).unwrap();
        let mut batch = Batch::new();
        match tamper {
            Tamper::Gone => batch.delete(table, &key),
            Tamper::SpentBy(by) => {
                let state = by.map_or(OutputState::Unspent, OutputState::Spent);
                batch.put(table, &key, &encode_output(&OutputRecord { state, ..slot }));
            }
        }
        kv.commit(batch, Durability::Synced).unwrap();
    } else {
        let database = Database::open(&url, &utxokeep_sql::Options::default()).unwrap();
        let changed: Result<u64, SqlError> = database.write(|tx| match tamper {
            Tamper::Gone => {
                tx.execute("DELETE FROM node_outputs WHERE spending_data IS NOT NULL", &[])
            }
            Tamper::SpentBy(by) => {
                let by = by.map(SpendingData::to_bytes);
                let bytes = Value::from(by.as_ref());
                let update =
                    "UPDATE node_outputs SET spending_data = $1 WHERE spending_data IS NOT NULL";
                tx.execute(update, &[bytes])
            }
        });
        assert_eq!(changed.unwrap(), 1, "{engine}");
    }
    let report = open().verify().unwrap();
    let of_child = report.findings.into_iter().filter(|found| found.txid == child.txid);
    of_child.map(|found| found.detail).collect()
}

fn parent_and_child() -> (NodeTx, NodeTx) {
    let parent = seed(1, &[5, 6]);
    let child = spending(2, &[(&parent, 1)], &[4]);
    (parent, child)
}

/// What becomes of the row of a spent output.
enum Tamper {
    Gone,
    SpentBy(Option<SpendingData>),
}

/// `verify` asks both ways: the other one is `a_spender_without_the_input_is_found`.
#[test]
fn an_input_whose_output_does_not_say_so_is_found() {
    let (_, child) = parent_and_child();
    let other_input = SpendingData { txid: child.txid, vin: 7 };
    let other = SpendingData { txid: Txid::from_bytes([9; 32]), vin: 0 };
    let engines = ["rocksdb", "sqlite", "postgres"];
    let is_there =
        |engine: &&str| *engine != "postgres" || TestDatabase::create_or_skip().is_some();
    for engine in engines.into_iter().filter(is_there) {
        for (tamper, found) in [
            (Tamper::SpentBy(None), "which is not marked as spent"),
            (Tamper::SpentBy(Some(other_input)), "which is marked as spent by input 7 of"),
            (Tamper::SpentBy(Some(other)), "which is marked as spent by input 0 of 0909"),
            (Tamper::Gone, "which its transaction does not have"),
        ] {
            let said = said_of_child(engine, &tamper);
            assert!(said.iter().any(|text| text.contains(found)), "{engine}: {said:?}");
        }
    }
}

#[test]
fn a_spender_without_the_input_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("store.db").display());
    let open = || Database::open(&url, &utxokeep_sql::Options::default()).unwrap();
    let store = NodeStore::on_sql(open(), StoreSettings::default(), 0).unwrap();
    let parent = seed(1, &[5, 6]);
    let child = spending(2, &[(&parent, 1)], &[4]);
    create(&store, &parent);
    store.spend(&[request(&child)]).unwrap().remove(0).unwrap();
    create(&store, &child);
    assert!(store.verify().unwrap().is_clean());

    let altered: Result<u64, SqlError> =
        open().write(|tx| tx.execute("UPDATE node_inputs SET previous_vout = 0", &[]));
    assert_eq!(altered.unwrap(), 1);
    let report = store.verify().unwrap();
    let found = |finding: &Finding| {
        finding.txid == parent.txid && finding.detail.contains("which has no such input")
    };
    assert!(report.findings.iter().any(found), "{report:?}");
}
