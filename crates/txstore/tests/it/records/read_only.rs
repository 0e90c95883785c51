//! A store that was opened to read, over any engine: everything can be looked at, nothing is written.

use std::sync::Arc;

use utxokeep_core::node::BlockState;
use utxokeep_kv::OpenMode;
use utxokeep_records::{MemoryRecords, RecordError, RecordStore};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{
    Agreement, NodeStore, RecordContext, StoreError, StoreSettings, TxStore as _,
};

use super::{
    cut::{Cut, How},
    world::{AT, create, fresh, record, settings, statuses, take, try_open},
};

fn open_to_read(records: &Arc<MemoryRecords>, agreement: Agreement) -> NodeStore {
    let store = StoreSettings::default().with(|settings| settings.agreement = agreement);
    let (context, mode) = (RecordContext::default(), OpenMode::Read);
    let port = Arc::<MemoryRecords>::clone(records) as Arc<dyn RecordStore>;
    NodeStore::on_records(port, store, settings(), context, mode).unwrap()
}

#[test]
fn a_store_that_was_opened_to_read_shows_everything_and_writes_nothing() {
    let (small, large) = (seed(1, &[9, 9]), seed(2, &[9; 7]));
    let child = spending(3, &[(&small, 0)], &[4]);
    for agreement in [Agreement::Compare, Agreement::Moving] {
        for writes in 0..40 {
            let (records, alive) = fresh(7);
            create(&alive, &small).unwrap().unwrap();
            // Calls that stopped at any step, with their locks and stagings.
            let cut = || Cut::new(&records, writes, How::Dies) as Arc<dyn RecordStore>;
            if let Ok(dying) = try_open(cut(), 8, None) {
                let _ = create(&dying, &large);
            }
            if let Ok(dying) = try_open(cut(), 9, None) {
                let _ = take(&dying, &child);
            }
            records.advance_ms(600_000);
            let image = || (records.keys(), records.stored_bytes().unwrap());
            let before = image();
            let reading = open_to_read(&records, agreement);
            let look = |store: &NodeStore| {
                [&small, &large, &child].map(|tx| (record(store, tx), statuses(store, tx)))
            };
            let seen = look(&reading);
            for tx in [&small, &large, &child] {
                reading.creation_lock(&tx.txid).unwrap();
            }
            reading.verify().unwrap();
            assert_eq!(image(), before, "reading changed something, after {writes} writes");
            let state = BlockState { height: AT, median_time: 8 };
            let refused = reading.set_block_state(state).unwrap_err();
            let is_named = matches!(refused, StoreError::Records(RecordError::OpenedToRead));
            assert!(is_named, "{refused}");
            let other = seed(4, &[1]);
            let refused = create(&reading, &other).unwrap_err();
            let is_named = matches!(refused, StoreError::Records(RecordError::OpenedToRead));
            assert!(is_named, "{refused}");
            assert_eq!(image(), before, "a refused write changed something");
            assert_eq!(seen, look(&alive), "after {writes} writes");
        }
    }
}
