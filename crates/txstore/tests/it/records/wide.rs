//! Records of 20,000 outputs, the number of Teranode's documentation, in use.

use std::sync::Arc;

use utxokeep_core::{
    Height,
    node::{CreateOptions, MinedBlock, MinedInfo, PruneRules, Pruned, SpendStatus},
};
use utxokeep_kv::OpenMode;
use utxokeep_records::MemoryRecords;
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{
    NodeStore, PruneStore as _, RecordContext, RecordSettings, StoreSettings, TxStore as _,
};

use super::world::{AT, record, status, take};

const PER_RECORD: u32 = 20_000;
const OUTPUTS: u32 = 2 * PER_RECORD + 1;

fn mined(height: u32) -> MinedInfo {
    let height = Height::new(height);
    let block = MinedBlock { id: height.get(), height, subtree: 0 };
    MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: height }
}

#[test]
fn records_of_20_000_outputs_are_created_spent_and_pruned() {
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 4;
        settings.outputs_per_record = PER_RECORD;
    });
    let store = NodeStore::on_records(
        Arc::new(MemoryRecords::new()),
        StoreSettings::default(),
        records,
        RecordContext::default(),
        OpenMode::Create,
    );
    let store = store.unwrap();
    let wide = seed(1, &vec![9; OUTPUTS as usize]);
    store.create(&[(wide.clone(), CreateOptions::default())], AT).unwrap().remove(0).unwrap();
    assert!(!record(&store, &wide).unwrap().is_creating);
    // The ends of each of its three records.
    let ends = [0, PER_RECORD - 1, PER_RECORD, 2 * PER_RECORD - 1, 2 * PER_RECORD];
    for vout in ends {
        assert_eq!(status(&store, &wide, vout), SpendStatus::Ok, "{vout}");
    }
    let spent: Vec<_> = ends.iter().map(|vout| (&wide, *vout)).collect();
    let child = spending(2, &spent, &[1]);
    take(&store, &child).unwrap().unwrap();
    for vout in ends {
        assert_ne!(status(&store, &wide, vout), SpendStatus::Ok, "{vout}");
    }
    assert_eq!(status(&store, &wide, 1), SpendStatus::Ok);
    let rest: Vec<_> = (0..OUTPUTS).filter(|vout| !ends.contains(vout)).collect();
    let rest: Vec<_> = rest.into_iter().map(|vout| (&wide, vout)).collect();
    let other = spending(3, &rest, &[1]);
    take(&store, &other).unwrap().unwrap();
    for (tx, height) in [(&wide, 6), (&child, 7), (&other, 7)] {
        store.set_mined(&[tx.txid], &mined(height)).unwrap().remove(0).unwrap();
    }
    assert!(store.verify().unwrap().is_clean());
    let rules = PruneRules::at(Height::new(1_000), 288);
    let pruned = store.prune(&[wide.txid], &rules).unwrap().unwrap();
    assert!(matches!(pruned[0], Pruned::Deleted { .. }), "{pruned:?}");
    assert_eq!(record(&store, &wide), None);
    assert!(store.verify().unwrap().is_clean());
}
