//! A call that stops at any step.

use std::sync::Arc;

use utxokeep_core::node::{NodeTx, SpendStatus};
use utxokeep_records::{Key, MemoryRecords, ReadCell, RecordStore};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, PruneStore as _, RecordFault, TxStore};

use crate::records::{
    cut::{AtStatus, Cut, How},
    world::{assert_settled, create, fresh, open, record, settings, status, take, try_open},
};

/// Steps of a call at most; all of them are tried.
const STEPS_MAX: usize = 200;

/// Two parents, and a child that spends an output of each.
fn family(store: &NodeStore) -> [NodeTx; 3] {
    let (one, other) = (seed(1, &[9, 9]), seed(2, &[9, 9]));
    let child = spending(3, &[(&one, 0), (&other, 1)], &[4, 4]);
    for parent in [&one, &other] {
        create(store, parent).unwrap().unwrap();
    }
    [one, other, child]
}

/// Everything of the child is there, or nothing is.
fn is_there(store: &NodeStore, [one, other, child]: &[NodeTx; 3]) -> bool {
    let parents = [status(store, one, 0), status(store, other, 1)];
    match record(store, child) {
        Some(_) => assert_eq!(parents, [SpendStatus::Spent; 2], "an input is not spent"),
        None => assert_eq!(parents, [SpendStatus::Ok; 2], "an input is spent by nobody"),
    }
    record(store, child).is_some()
}

/// Runs the call with a port that stops at each step in turn, and looks at what is left.
fn at_every_step(
    how: How,
    fault: Option<RecordFault>,
    check: impl Fn(&Arc<MemoryRecords>, &NodeStore, &[NodeTx; 3], bool),
) {
    for writes in 0..STEPS_MAX {
        let (records, store) = fresh(1);
        let family = family(&store);
        let port = Cut::new(&records, writes, how);
        let stopped = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, fault);
        let Ok(stopped) = stopped else { continue };
        let answer = take(&stopped, &family[2]);
        if !port.is_over() {
            assert!(writes > 5, "it takes more steps than that");
            return;
        }
        check(&records, &store, &family, matches!(answer, Ok(Ok(_))));
    }
    panic!("the call takes more than {STEPS_MAX} steps");
}

#[test]
fn a_call_that_dies_at_any_step_happened_whole_or_not_at_all() {
    at_every_step(How::Dies, None, |records, store, family, is_answered| {
        let before = is_there(store, family);
        assert!(before || !is_answered, "it was answered");
        records.advance_ms(10 * settings().call_deadline_ms);
        store.end_unfinished(100).unwrap();
        assert_eq!(is_there(store, family), before, "reading it made no difference");
        // Whoever sends it again gets it, and only once.
        take(store, &family[2]).unwrap().unwrap();
        assert!(is_there(store, family));
        assert_settled(records, store);
    });
}

#[test]
fn whoever_meets_what_a_dead_call_left_goes_on() {
    at_every_step(How::Dies, None, |records, store, family, _| {
        // Another child of the same parents, while the dead one still has time.
        let rival = spending(4, &[(&family[1], 0), (&family[0], 1)], &[1]);
        take(store, &rival).unwrap().unwrap();
        is_there(store, family);
        take(store, &family[2]).unwrap().unwrap();
        assert!(is_there(store, family));
        records.advance_ms(10 * settings().call_deadline_ms);
        store.end_unfinished(100).unwrap();
        assert_settled(records, store);
    });
}

#[test]
fn an_answer_that_is_lost_at_any_step_is_found_again() {
    at_every_step(How::LosesAnswer, None, |records, store, family, is_answered| {
        assert!(is_answered && is_there(store, family));
        assert_settled(records, store);
    });
}

#[test]
fn a_write_that_is_refused_at_any_step_leaves_nothing_behind() {
    at_every_step(How::IsRefused, None, |records, store, family, is_answered| {
        assert_eq!(is_there(store, family), is_answered);
        records.advance_ms(10 * settings().call_deadline_ms);
        store.end_unfinished(100).unwrap();
        assert_settled(records, store);
    });
}

#[test]
#[should_panic = "an input is"]
fn a_status_that_goes_before_its_stagings_are_final_is_noticed() {
    at_every_step(How::Dies, Some(RecordFault::StatusGoesFirst), |records, store, family, _| {
        records.advance_ms(10 * settings().call_deadline_ms);
        store.end_unfinished(100).unwrap();
        take(store, &spending(4, &[(&family[0], 1)], &[1])).unwrap().unwrap();
        is_there(store, family);
    });
}

#[test]
fn two_calls_over_the_same_records_in_opposite_order_both_end() {
    let (records, store) = fresh(1);
    let (one, other) = (seed(1, &[9; 8]), seed(2, &[9; 8]));
    for parent in [&one, &other] {
        create(&store, parent).unwrap().unwrap();
    }
    std::thread::scope(|scope| {
        for program in 0..8u8 {
            let (records, one, other) = (&records, &one, &other);
            scope.spawn(move || {
                let store = open(records, 10 + u64::from(program));
                let vout = u32::from(program);
                let mut spends = [(one, vout), (other, vout)];
                if program % 2 == 0 {
                    spends.reverse();
                }
                take(&store, &spending(10 + program, &spends, &[1])).unwrap().unwrap();
            });
        }
    });
    assert_eq!([&one, &other].map(|tx| record(&store, tx).unwrap().spent), [8, 8]);
    store.end_unfinished(100).unwrap();
    assert_settled(&records, &store);
}

#[test]
fn lists_by_height_have_what_an_answered_call_wrote() {
    let (_, store) = fresh(1);
    let family = family(&store);
    take(&store, &family[2]).unwrap().unwrap();
    let listed = store.unmined(crate::records::world::AT, None, 10).unwrap();
    assert_eq!(listed.len(), 3);
}

/// How long an older call waits for a younger one that stalls once it has staged its cells, in
/// milliseconds: the longest over all steps at which it stalls.
fn waits_for_a_younger_call_ms(fault: Option<RecordFault>) -> u64 {
    let mut longest = 0;
    for writes in 0..STEPS_MAX {
        let (records, store) = fresh(1);
        let family = family(&store);
        let port = Cut::new(&records, writes, How::Dies);
        let young = {
            let (records, port) = (Arc::clone(&records), Arc::clone(&port));
            let rival = spending(4, &[(&family[1], 0), (&family[0], 1)], &[1]);
            move || {
                records.advance_ms(5);
                if let Ok(young) = try_open(port as Arc<dyn RecordStore>, 3, None) {
                    let _ = take(&young, &rival);
                }
            }
        };
        let old = try_open(Arc::new(AtStatus::new(&records, young)), 2, fault).unwrap();
        let before_ms = records.now_ms(0).unwrap();
        take(&old, &family[2]).unwrap().unwrap();
        assert!(is_there(&store, &family));
        longest = longest.max(records.now_ms(0).unwrap() - before_ms);
        if !port.is_over() {
            return longest;
        }
    }
    panic!("the call takes more than {STEPS_MAX} steps");
}

/// Wound-wait, one half: a younger call that holds what an older one needs is aborted.
#[test]
fn an_older_call_does_not_wait_for_a_younger_one_that_stalls() {
    let deadline_ms = settings().call_deadline_ms;
    assert!(waits_for_a_younger_call_ms(None) < deadline_ms / 2);
    let without = waits_for_a_younger_call_ms(Some(RecordFault::NobodyWounds));
    assert!(without >= deadline_ms - 5, "nobody noticed: {without} ms");
}

/// How long a younger call waits for an older one that stalls, in milliseconds: the longest over all
/// steps at which that stalls.
fn waits_for_an_older_call_ms(fault: Option<RecordFault>) -> u64 {
    let mut longest = 0;
    for writes in 0..STEPS_MAX {
        let (records, store) = fresh(1);
        let family = family(&store);
        let port = Cut::new(&records, writes, How::Dies);
        let old = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, None);
        let _ = old.map(|old| take(&old, &family[2]));
        records.advance_ms(5);
        let young = try_open(Cut::never(&records), 3, fault).unwrap();
        let before_ms = records.now_ms(0).unwrap();
        let rival = spending(4, &[(&family[1], 0), (&family[0], 1)], &[1]);
        take(&young, &rival).unwrap().unwrap();
        is_there(&store, &family);
        longest = longest.max(records.now_ms(0).unwrap() - before_ms);
        if !port.is_over() {
            return longest;
        }
    }
    panic!("the call takes more than {STEPS_MAX} steps");
}

/// Wound-wait, the other half: a younger call leaves an older one its time.
#[test]
fn a_younger_call_waits_for_an_older_one_until_its_deadline() {
    let deadline_ms = settings().call_deadline_ms;
    let waits = waits_for_an_older_call_ms(None);
    assert!(waits >= deadline_ms - 50, "{waits} ms");
    let without = waits_for_an_older_call_ms(Some(RecordFault::EverybodyWounds));
    assert!(without < deadline_ms / 2, "nobody noticed: {without} ms");
}

/// Cells with something staged in them, after a call that died at any step was aborted by a call that
/// met one of its cells, and a sweep: how many over all steps.
fn staged_behind_a_sweep(fault: Option<RecordFault>) -> usize {
    let mut left = 0;
    for writes in 0..STEPS_MAX {
        let (records, store) = fresh(1);
        let family = family(&store);
        // Opening a store sweeps as well, and would end the call before anybody meets it.
        let other = try_open(Cut::never(&records), 3, fault).unwrap();
        let port = Cut::new(&records, writes, How::Dies);
        let dying = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, None);
        let _ = dying.map(|dying| take(&dying, &family[2]));
        if !port.is_over() {
            return left;
        }
        records.advance_ms(10 * settings().call_deadline_ms);
        take(&other, &spending(4, &[(&family[0], 1)], &[1])).unwrap().unwrap();
        other.end_unfinished(100).unwrap();
        let staged = |key: &Key| {
            let cell = records.read(&[ReadCell::all(key.clone())]).unwrap().remove(0);
            cell.is_some_and(|cell| cell.get(b"s").is_some())
        };
        left += records.keys().iter().filter(|key| staged(key)).count();
    }
    panic!("the call takes more than {STEPS_MAX} steps");
}

#[test]
fn what_a_dead_call_staged_is_swept_also_where_another_aborted_it() {
    assert_eq!(staged_behind_a_sweep(None), 0);
    assert!(staged_behind_a_sweep(Some(RecordFault::AbortedForgotten)) > 0, "nobody noticed");
}
