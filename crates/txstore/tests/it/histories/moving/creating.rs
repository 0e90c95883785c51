//! A source in use has transactions that are being created: a move waits for them.

use utxokeep_core::node::{CreateOptions, NodeTx};
use utxokeep_testkit::txstore::seed as tx_seed;

use super::*;
use crate::records::{
    cut::{Cut, How},
    world::{AT, create, record},
};

const SEED: u64 = 3_660;
const STEPS_MAX: usize = 100;

fn open_on(port: Arc<dyn utxokeep_records::RecordStore>) -> Result<NodeStore, StoreOpenError> {
    let records = RecordSettings::default().with(|settings| {
        settings.shards = 8;
        settings.outputs_per_record = 2;
    });
    let (context, mode) = (RecordContext::default(), OpenMode::Create);
    NodeStore::on_records(port, settings(SEED), records, context, mode)
}

/// Records with a transaction whose creator died before all of it was there, and its lock expired.
fn half_created() -> (Arc<MemoryRecords>, NodeTx) {
    let tx = tx_seed(1, &[9; 9]);
    for writes in 0..STEPS_MAX {
        let records = Arc::new(MemoryRecords::new());
        records.set_now_ms(1_000_000);
        let alive = open_on(Arc::<MemoryRecords>::clone(&records)).unwrap();
        if let Ok(dying) = open_on(Cut::new(&records, writes, How::Dies)) {
            let item = (tx.clone(), CreateOptions::default());
            let _ = dying.create(&[item], AT);
        }
        records.advance_ms(600_000);
        if record(&alive, &tx).is_some_and(|record| record.is_creating) {
            return (records, tx);
        }
    }
    panic!("no creation was left half done within {STEPS_MAX} steps");
}

#[test]
fn a_move_waits_for_a_transaction_that_is_being_created_and_no_longer_than_it_was_told() {
    for retires_source in [false, true] {
        let (records, tx) = half_created();
        let source = Place::Records(Arc::clone(&records));
        let target = on_place();
        let running = source.open(settings(SEED)).unwrap();
        let (opened, half) = (source.open_for_move(SEED), target.open_for_move(SEED));
        let impatient = MoveOptions { retires_source, creating_wait_ms: 1, ..options(5) };
        let refused = move_until(&opened, &half, &impatient, u64::MAX).unwrap_err();
        let MoveError::Creating { txid, waited_ms } = refused else { panic!("{refused}") };
        assert_eq!((txid, waited_ms), (tx.txid, 1));

        let patient = MoveOptions { creating_wait_ms: 60_000, ..impatient };
        let mut told = 0;
        let mut watch = |_: &MoveProgress| {
            told += 1;
            if told == 2 {
                // Whoever meets it completes it.
                let _ = create(&running, &tx).unwrap();
            }
            true
        };
        move_store(&opened, &half, &patient, &mut watch).unwrap();
        drop(half);
        let store = target.open(settings(SEED)).unwrap();
        let moved = record(&store, &tx).unwrap();
        assert!(!moved.is_creating);
        assert!(store.verify().unwrap().is_clean());
    }
}

fn on_place() -> Place {
    Place::Records(Arc::new(MemoryRecords::new()))
}
