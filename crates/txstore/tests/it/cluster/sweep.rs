//! Calls that their programs left on a real cluster are ended by the next program, some at a time.

use std::{sync::Arc, time::Duration};

use utxokeep_core::{
    Txid,
    node::{NodeTx, SpendStatus},
};
use utxokeep_records::{RecordStore, testing::shared_url_or_skip};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{PruneStore as _, RecordFaults};

use super::{connect, open, record_settings, try_open};
use crate::records::{
    cut::{Cut, How},
    world::{create, record, status, take},
};

/// Calls that one sweep ends in this test.
const LIMIT: usize = 3;

#[test]
fn calls_that_programs_left_are_ended_some_at_a_time_and_by_the_next_to_open() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    let (port, faults) = (connect(&url), RecordFaults::default());
    let alive = open(&port, &faults);
    // Every one of them has parents of its own, so that nobody meets what another left.
    let families: Vec<_> = (0..60)
        .map(|number: u8| {
            let (one, other) = (seed(number, &[9]), seed(100 + number, &[9]));
            for parent in [&one, &other] {
                create(&alive, parent).unwrap().unwrap();
            }
            let child = spending(200 - number, &[(&one, 0), (&other, 0)], &[4]);
            let mut txid = *child.txid.as_bytes();
            txid[31] = 1;
            (one, other, NodeTx { txid: Txid::from_bytes(txid), ..child })
        })
        .collect();
    let mut left = 0;
    for (writes, (.., child)) in families.iter().enumerate() {
        let cut = Cut::on(&port, writes, How::Dies);
        let dying = try_open(Arc::clone(&cut) as Arc<dyn RecordStore>, &faults);
        let _ = dying.map(|store| take(&store, child));
        left += usize::from(cut.is_over());
    }
    assert!(left > LIMIT + 2, "only {left} of them stopped on the way");
    std::thread::sleep(Duration::from_millis(2 * record_settings().call_deadline_ms));
    let mut ended = Vec::new();
    while ended.last() != Some(&0) {
        ended.push(alive.end_unfinished(LIMIT).unwrap());
    }
    assert!(ended.iter().all(|ended| *ended <= LIMIT as u64), "{ended:?}");
    assert!(ended.iter().sum::<u64>() > LIMIT as u64, "{ended:?}");
    for (one, other, child) in &families {
        let parents = [one, other].map(|parent| status(&alive, parent, 0));
        let expected = match record(&alive, child) {
            Some(_) => SpendStatus::Spent,
            None => SpendStatus::Ok,
        };
        assert_eq!(parents, [expected; 2], "whole or not at all");
    }
    let report = alive.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);

    // Whoever opens the store next ends what is left.
    let (one, child) = (seed(250, &[9, 9]), spending(251, &[(&seed(250, &[9, 9]), 0)], &[1; 9]));
    create(&alive, &one).unwrap().unwrap();
    let cut = Cut::on(&port, 6, How::Dies);
    let dying = try_open(Arc::clone(&cut) as Arc<dyn RecordStore>, &faults);
    let _ = dying.map(|store| take(&store, &child));
    std::thread::sleep(Duration::from_millis(2 * record_settings().call_deadline_ms));
    let next = open(&connect(&url), &faults);
    assert_eq!(next.end_unfinished(1_000).unwrap(), 0, "nothing is left");
}
