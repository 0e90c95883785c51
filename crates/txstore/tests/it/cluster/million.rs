//! A transaction of very many outputs on a real cluster: created, spent in part, mined, spent whole and
//! pruned. `UTXOKEEP_CLUSTER_OUTPUTS` sets how many.

use std::time::{Duration, Instant};

use utxokeep_core::{
    Height, Txid,
    node::{
        CreateOptions, MinedBlock, NodeTx, PruneRules, Pruned, SpendAndCreate, SpendFlags,
        SpendStatus,
    },
};
use utxokeep_kv::{Durability, OpenMode};
use utxokeep_records::testing::{AerospikePlace, shared_url_or_skip};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{
    Blobs, Fields, NodeStore, PruneStore as _, RecordContext, RecordSettings, StoreSettings,
    TxStore,
};

use super::{connect, number};
use crate::records::world::status;

const AT: Height = Height::new(5);
const WINDOW: u32 = 288;
/// Outputs that one spender takes.
const TAKEN: u32 = 10_000;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let answer = work();
    eprintln!("  {what}: {:.2} s", started.elapsed().as_secs_f64());
    answer
}

fn taker(tx: &NodeTx, first: u32, count: u32) -> NodeTx {
    let inputs: Vec<_> = (first..first + count).map(|vout| (tx, vout)).collect();
    let mut id = [9; 32];
    id[..4].copy_from_slice(&first.wrapping_mul(0x9e37_79b9).to_be_bytes());
    id[4..8].copy_from_slice(&first.to_be_bytes());
    NodeTx { txid: Txid::from_bytes(id), ..spending(2, &inputs, &[1]) }
}

#[test]
fn a_transaction_of_very_many_outputs_is_created_spent_mined_and_pruned() {
    if let Some(url) = shared_url_or_skip("ack=replica&command_timeout_ms=60000") {
        created_spent_mined_and_pruned(&url, None);
    }
    if let Some(place) = AerospikePlace::new_or_skip("command_timeout_ms=60000") {
        // A record has at most 8 MiB there, so that its body needs another place.
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file:{}", directory.path().join("blobs").display());
        let blobs = Blobs::open(&url, Durability::Buffered, 60_000, OpenMode::Create).unwrap();
        created_spent_mined_and_pruned(&place.url(), Some(blobs));
    }
}

fn created_spent_mined_and_pruned(url: &str, blobs: Option<Blobs>) {
    let outputs = u32::try_from(number("UTXOKEEP_CLUSTER_OUTPUTS", 20_000)).unwrap();
    // A call over thousands of records takes its time.
    let records = RecordSettings::default().with(|settings| settings.shards = 64);
    let (settings, context) = (StoreSettings::default(), RecordContext::default());
    let store =
        NodeStore::on_records(connect(url), settings, records, context, OpenMode::Create).unwrap();
    let store = match blobs {
        Some(blobs) => store.with_blobs(blobs),
        None => store,
    };
    let (tx, started) = (seed(1, &vec![1; outputs as usize]), Instant::now());
    eprintln!("{outputs} outputs, {} in a record", records.outputs_per_record);
    let mined = vec![MinedBlock { id: 1, height: AT, subtree: 0 }];
    let items = [(tx.clone(), CreateOptions::default())];
    timed("created", || store.create(&items, AT).unwrap().remove(0).unwrap());
    assert_eq!(store.creation_lock(&tx.txid).unwrap(), None);
    let how =
        SpendAndCreate { spend_only: false, create_only: false, flags: SpendFlags::default() };
    let take = |child: &NodeTx| {
        let options = CreateOptions { mined: mined.clone(), ..CreateOptions::default() };
        store.spend_and_create(child, AT, how, &options).unwrap().unwrap();
    };
    let part = outputs / 2;
    let mut first = 0;
    timed("spent half", || {
        while first < part {
            take(&taker(&tx, first, TAKEN.min(part - first)));
            first += TAKEN.min(part - first);
        }
    });
    for (vout, expected) in [(0, SpendStatus::Spent), (outputs - 1, SpendStatus::Ok)] {
        assert_eq!(status(&store, &tx, vout), expected);
    }
    let record = store.get(&[tx.txid], Fields::default()).unwrap().remove(0).unwrap().record;
    assert_eq!((record.outputs, record.spent), (outputs, part));
    let info = utxokeep_core::node::MinedInfo {
        block: mined[0],
        on_longest_chain: true,
        unset: false,
        unmined_since: AT,
    };
    timed("mined", || store.set_mined(&[tx.txid], &info).unwrap().remove(0).unwrap());
    timed("spent the rest", || {
        while first < outputs {
            take(&taker(&tx, first, TAKEN.min(outputs - first)));
            first += TAKEN.min(outputs - first);
        }
    });
    let rules = PruneRules::at(AT.plus(WINDOW), WINDOW);
    let pruned = timed("pruned", || store.prune(&[tx.txid], &rules).unwrap().unwrap().remove(0));
    assert!(matches!(pruned, Pruned::Deleted { .. }), "{pruned:?}");
    assert_eq!(store.get(&[tx.txid], Fields::default()).unwrap(), [None]);
    for vout in [0, part, outputs - 1] {
        assert_eq!(status(&store, &tx, vout), SpendStatus::NotFound);
    }
    let report = timed("verified", || store.verify().unwrap());
    assert!(report.is_clean(), "{:?}", report.findings);
    let left: u64 = u64::from(outputs.div_ceil(TAKEN)).max(2);
    assert!(report.transactions >= left, "its children are there");
    assert!(started.elapsed() < Duration::from_secs(3_600));
}
