//! Transactions over several records: the creation lock, the creating flag, and every way back.
//! The code in a comment is the short name of a rule.

use std::sync::Arc;

use utxokeep_core::{
    Height, OutPoint,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, SpendError, SpendFlags,
        SpendRequest, SpendStatus,
    },
};
use utxokeep_records::{
    Barrier, Key, MemoryRecords, ReadCell, RecordStore, Version, WriteCell, Written,
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, PruneStore as _, RecordFault, StoreError, TxStore};

use crate::records::{
    cut::{AtStatus, Cut, How},
    world::{
        AT, PER_RECORD, assert_settled, create, fresh, open, record, statuses, take, try_open,
    },
};

const STEPS_MAX: usize = 200;

/// Four records.
fn large() -> NodeTx {
    seed(1, &[9; 3 * PER_RECORD as usize + 1])
}

fn mined() -> MinedInfo {
    MinedInfo {
        block: MinedBlock { id: 1, height: AT, subtree: 0 },
        on_longest_chain: true,
        unset: false,
        unmined_since: AT,
    }
}

/// Pages of a transaction that are stored.
fn pages(records: &MemoryRecords, tx: &NodeTx) -> Vec<Key> {
    let start = [b"u".as_slice(), tx.txid.as_bytes()].concat();
    let is_page = |key: &Key| {
        key.name.starts_with(&start) && key.name.len() == 37 && !key.name.ends_with(&[0xff; 4])
    };
    records.keys().into_iter().filter(is_page).collect()
}

/// Stores over the same records: one that dies after so many writes, and one that lives.
struct Died {
    records: Arc<MemoryRecords>,
    alive: NodeStore,
    is_over: bool,
    is_answered: bool,
}

fn create_and_die(tx: &NodeTx, writes: usize, how: How, fault: Option<RecordFault>) -> Died {
    let (records, alive) = fresh(1);
    let port = Cut::new(&records, writes, how);
    let store = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, fault);
    let is_answered = store.is_ok_and(|store| matches!(create(&store, tx), Ok(Ok(()))));
    Died { records, alive, is_over: port.is_over(), is_answered }
}

/// Looks at what is left when a creation dies at each step in turn.
fn at_every_step(how: How, fault: Option<RecordFault>, check: impl Fn(&NodeTx, &Died)) {
    let tx = large();
    for writes in 0..STEPS_MAX {
        let died = create_and_die(&tx, writes, how, fault);
        if !died.is_over {
            assert!(died.is_answered && writes > 12, "it takes more steps than that");
            return;
        }
        check(&tx, &died);
    }
    panic!("a creation takes more than {STEPS_MAX} steps");
}

/// K-crash, K-page-spend, K-partial: the state table at each point.
#[test]
fn a_creation_that_dies_at_any_step_is_completed_by_the_next_one() {
    at_every_step(How::Dies, None, |tx, died| {
        let Died { records, alive, is_answered, .. } = died;
        let before = record(alive, tx);
        match &before {
            None => assert_eq!(statuses(alive, tx), [SpendStatus::NotFound], "on any page"),
            Some(record) if record.is_creating => {
                assert_eq!(statuses(alive, tx), [SpendStatus::Creating], "on any page");
            }
            Some(_) => assert_eq!(statuses(alive, tx), [SpendStatus::Ok]),
        }
        assert!(before.is_some() || !is_answered);
        let stored = pages(records, tx);
        if before.is_none() && alive.creation_lock(&tx.txid).unwrap().is_some() {
            let refused = create(alive, tx).unwrap();
            assert_eq!(refused, Err(NodeError::Exists(tx.txid)), "another creates it");
            assert_eq!(record(alive, tx), None);
        }
        // The lock expires.
        records.advance_ms(301_000);
        let answer = create(alive, tx).unwrap();
        assert_eq!(answer.is_ok(), before.is_none(), "success is that of who wrote the master");
        assert_eq!(statuses(alive, tx), [SpendStatus::Ok]);
        let now = pages(records, tx);
        assert!(stored.iter().all(|page| now.contains(page)), "no page was deleted");
        alive.end_unfinished(100).unwrap();
        assert_settled(records, alive);
    });
}

#[test]
fn a_lost_answer_at_any_step_of_a_creation_is_found_again() {
    at_every_step(How::LosesAnswer, None, |tx, died| {
        assert!(died.is_answered);
        assert_eq!(statuses(&died.alive, tx), [SpendStatus::Ok]);
        assert_settled(&died.records, &died.alive);
    });
}

/// K-flag-fail: whatever is refused behind the commit, the caller is told of success.
#[test]
fn a_creation_whose_marks_cannot_be_cleared_is_a_success_and_cleared_later() {
    at_every_step(How::IsRefused, None, |tx, died| {
        let Died { records, alive, is_answered, .. } = died;
        assert_eq!(record(alive, tx).is_some(), *is_answered);
        records.advance_ms(301_000);
        assert_eq!(create(alive, tx).unwrap().is_ok(), !is_answered);
        assert_eq!(statuses(alive, tx), [SpendStatus::Ok]);
        alive.end_unfinished(100).unwrap();
        assert_settled(records, alive);
    });
}

/// The mining path.
#[test]
fn mining_completes_a_creation_with_all_its_pages() {
    let mut creating = 0;
    at_every_step(How::Dies, None, |tx, died| {
        let Died { records, alive, .. } = died;
        let Some(before) = record(alive, tx) else {
            let missing = alive.set_mined(&[tx.txid], &mined()).unwrap().remove(0);
            assert_eq!(missing, Err(NodeError::NotFound(tx.txid)), "it waits or is not found");
            return;
        };
        let _ = before;
        alive.set_mined(&[tx.txid], &mined()).unwrap().remove(0).unwrap();
        assert_eq!(statuses(alive, tx), [SpendStatus::Ok]);
        records.advance_ms(301_000);
        alive.end_unfinished(100).unwrap();
        assert_settled(records, alive);
    });
    for writes in 0..STEPS_MAX {
        let died = create_and_die(&large(), writes, How::Dies, None);
        creating += u32::from(record(&died.alive, &large()).is_some_and(|r| r.is_creating));
        if !died.is_over {
            break;
        }
    }
    assert!(creating > 3, "there is something to complete");
}

/// A state in which the master says creating, and the lock is gone.
fn half_created(tx: &NodeTx) -> (Arc<MemoryRecords>, NodeStore) {
    for writes in 0..STEPS_MAX {
        let died = create_and_die(tx, writes, How::Dies, None);
        if record(&died.alive, tx).is_some_and(|record| record.is_creating) {
            died.records.advance_ms(301_000);
            return (died.records, died.alive);
        }
    }
    panic!("no step leaves it half created");
}

/// The same with its last page gone.
fn without_a_page(tx: &NodeTx) -> (Arc<MemoryRecords>, NodeStore) {
    let (records, store) = half_created(tx);
    let page = pages(&records, tx).pop().unwrap();
    let found = records.read(&[ReadCell::version(page.clone())]).unwrap().remove(0).unwrap();
    let _ = records.write(&[WriteCell::delete(page, found.version)], Barrier::None).unwrap();
    (records, store)
}

#[test]
fn a_creation_without_all_its_pages_is_not_completed() {
    let tx = large();
    let (records, store) = without_a_page(&tx);
    let missing = |answer: Result<(), StoreError>| {
        assert!(matches!(answer, Err(StoreError::PageMissing { .. })), "{answer:?}");
    };
    missing(store.set_mined(&[tx.txid], &mined()).map(drop));
    missing(create(&store, &tx).map(drop));
    assert!(record(&store, &tx).unwrap().is_creating, "and none of it can be spent");
    let fault = Some(RecordFault::PagesNotCounted);
    let store = try_open(Cut::never(&records), 3, fault).unwrap();
    store.set_mined(&[tx.txid], &mined()).unwrap().remove(0).unwrap();
    assert!(!record(&store, &tx).unwrap().is_creating, "nobody counts the pages");
}

/// K-fence.
#[test]
fn a_stalled_creator_does_not_release_the_lock_of_the_next_one() {
    let is_held = |fault: Option<RecordFault>| {
        let (records, alive) = fresh(1);
        let tx = large();
        let next = {
            let (records, txid) = (Arc::clone(&records), tx.txid);
            move || {
                // The lock of the first creator expires, and another takes it.
                records.advance_ms(301_000);
                let name = [b"u".as_slice(), txid.as_bytes(), &[0xff; 4]].concat();
                let shard = u16::from(txid.as_bytes()[0]) * 4 / 256;
                let mut lock = WriteCell::create(Key::new(shard, name), Version::new(7));
                for (bin, value) in [("created_at", "1"), ("lock_type", "tx_creation")] {
                    lock = lock.set(bin, value);
                }
                for (bin, value) in [("process_id", "9"), ("hostname", "b"), ("fence", "7")] {
                    lock = lock.set(bin, value);
                }
                let lock = lock.set("expected_recs", "4").expires_in_ms(38_000);
                assert_eq!(records.write(&[lock], Barrier::None).unwrap(), [Written::Done]);
            }
        };
        let port = Arc::new(AtStatus::new(&records, next));
        let stalled = try_open(port, 2, fault).unwrap();
        create(&stalled, &tx).unwrap().unwrap();
        alive.creation_lock(&tx.txid).unwrap().is_some_and(|lock| lock.process_id == 9)
    };
    assert!(is_held(None));
    assert!(!is_held(Some(RecordFault::LockWithoutFence)), "nobody noticed");
}

/// CREATING is not bypassable.
#[test]
fn no_flag_spends_an_output_of_a_creation() {
    let tx = large();
    let (_, store) = half_created(&tx);
    let flags = SpendFlags { ignore_conflicting: true, ignore_locked: true };
    for vout in [0, PER_RECORD, 3 * PER_RECORD] {
        let request = SpendRequest::of(&spending(2, &[(&tx, vout)], &[1]), AT, flags).unwrap();
        let refused = store.spend(&[request]).unwrap().remove(0).unwrap_err();
        let creating = vec![(0, SpendError::Creating(tx.txid))];
        let spender = spending(2, &[(&tx, vout)], &[1]).txid;
        assert_eq!(refused, NodeError::Spend { spender, errors: creating });
    }
}

/// K-held, K-expired, and what the lock says.
#[test]
fn a_lock_says_who_creates_and_keeps_others_out_until_it_expires() {
    let tx = large();
    let mut seen = false;
    for writes in 0..STEPS_MAX {
        let died = create_and_die(&tx, writes, How::Dies, None);
        let Some(lock) = died.alive.creation_lock(&tx.txid).unwrap() else {
            if seen {
                return;
            }
            continue;
        };
        seen = true;
        assert_eq!((lock.lock_type.as_str(), lock.hostname.as_str()), ("tx_creation", "host-2"));
        assert_eq!((lock.process_id, lock.expected_recs), (2, 4));
        assert_eq!(lock.expires_at() - lock.created_at, 38);
        died.records.advance_ms(39_000);
        assert_eq!(died.alive.creation_lock(&tx.txid).unwrap(), None, "it expired");
    }
    assert!(seen);
}

/// A child that others create is not spent for: nothing is written on behalf of them.
#[test]
fn spending_for_a_transaction_that_another_creates_is_refused_and_spends_nothing() {
    let parent = seed(9, &[9]);
    for writes in 0..STEPS_MAX {
        let (records, alive) = fresh(1);
        create(&alive, &parent).unwrap().unwrap();
        let tx = spending(1, &[(&parent, 0)], &[1; 10]);
        let port = Cut::new(&records, writes, How::Dies);
        let store = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, None);
        if let Ok(store) = store {
            let _ = take(&store, &tx);
        }
        if !port.is_over() {
            return;
        }
        if record(&alive, &tx).is_none() && alive.creation_lock(&tx.txid).unwrap().is_some() {
            assert_eq!(take(&alive, &tx).unwrap(), Err(NodeError::Exists(tx.txid)));
            assert_eq!(statuses(&alive, &parent), [SpendStatus::Ok]);
        }
        records.advance_ms(301_000);
        // One that is half created is completed; to repeat it is a success as for any other.
        take(&alive, &tx).unwrap().unwrap();
        take(&alive, &tx).unwrap().unwrap();
        assert_eq!(statuses(&alive, &parent), [SpendStatus::Spent]);
        assert_eq!(statuses(&alive, &tx), [SpendStatus::Ok]);
        alive.end_unfinished(100).unwrap();
        assert_settled(&records, &alive);
    }
    panic!("it takes more than {STEPS_MAX} steps");
}

/// K-one-winner.
#[test]
fn of_five_that_create_the_same_transaction_one_succeeds() {
    let (records, store) = fresh(1);
    let tx = large();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let create = |program: u64| {
            let (records, tx) = (&records, &tx);
            scope.spawn(move || {
                let store = open(records, program);
                create(&store, tx).unwrap()
            })
        };
        let threads: Vec<_> = (10..15).map(create).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let others = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(others.into_iter().all(|error| *error == NodeError::Exists(tx.txid)));
    assert_eq!(statuses(&store, &tx), [SpendStatus::Ok]);
    assert_settled(&records, &store);
}

/// K-delete-complete.
#[test]
fn a_deleted_transaction_is_created_anew_with_nothing_stale() {
    let (records, store) = fresh(1);
    let tx = large();
    create(&store, &tx).unwrap().unwrap();
    take(&store, &spending(2, &[(&tx, 3 * PER_RECORD)], &[1])).unwrap().unwrap();
    assert_eq!(store.delete(&[tx.txid]).unwrap(), 1);
    assert!(pages(&records, &tx).is_empty());
    create(&store, &tx).unwrap().unwrap();
    assert_eq!(statuses(&store, &tx), [SpendStatus::Ok]);
}

/// Outputs of an earlier attempt are frozen or not; those of whoever succeeds count.
#[test]
fn pages_of_an_earlier_attempt_are_those_of_who_succeeds() {
    let frozen_pages = |fault: Option<RecordFault>| {
        let mut wrong = 0;
        at_every_step(How::Dies, None, |tx, died| {
            let Died { records, .. } = died;
            if record(&died.alive, tx).is_some() || pages(records, tx).is_empty() {
                return;
            }
            records.advance_ms(301_000);
            let store = try_open(Cut::never(records), 3, fault).unwrap();
            let options = CreateOptions { is_frozen: true, ..CreateOptions::default() };
            store.create(&[(tx.clone(), options)], AT).unwrap().remove(0).unwrap();
            let is_frozen = statuses(&store, tx) == [SpendStatus::Frozen];
            assert!(is_frozen || fault.is_some());
        });
        let died = (0..STEPS_MAX).map(|writes| create_and_die(&large(), writes, How::Dies, None));
        for died in died.take_while(|died| died.is_over) {
            let tx = large();
            if record(&died.alive, &tx).is_some() || pages(&died.records, &tx).is_empty() {
                continue;
            }
            died.records.advance_ms(301_000);
            let store = try_open(Cut::never(&died.records), 3, fault).unwrap();
            let options = CreateOptions { is_frozen: true, ..CreateOptions::default() };
            store.create(&[(tx.clone(), options)], AT).unwrap().remove(0).unwrap();
            wrong += usize::from(statuses(&store, &tx) != [SpendStatus::Frozen]);
        }
        wrong
    };
    assert_eq!(frozen_pages(None), 0);
    assert!(frozen_pages(Some(RecordFault::PagesTakenAsTheyAre)) > 0, "nobody noticed");
}

/// The order of clearing, left out: pages are cleared last, and the master says that it is complete.
#[test]
fn a_master_that_is_cleared_before_its_pages_is_noticed() {
    let mut wrong = 0;
    let tx = large();
    for writes in 0..STEPS_MAX {
        let fault = Some(RecordFault::MasterClearedFirst);
        let died = create_and_die(&tx, writes, How::Dies, fault);
        if !died.is_over {
            break;
        }
        let is_complete = record(&died.alive, &tx).is_some_and(|record| !record.is_creating);
        let marked = pages(&died.records, &tx).into_iter().filter(|page| {
            let cell = died.records.read(&[ReadCell::all(page.clone())]).unwrap().remove(0);
            cell.is_some_and(|cell| cell.get(b"g").is_some())
        });
        wrong += usize::from(is_complete && marked.count() > 0);
    }
    assert!(wrong > 0, "nobody noticed");
}

#[test]
fn a_large_transaction_is_spent_mined_and_deleted_page_by_page() {
    let (records, store) = fresh(1);
    let tx = large();
    create(&store, &tx).unwrap().unwrap();
    store.set_mined(&[tx.txid], &mined()).unwrap().remove(0).unwrap();
    for vout in 0..u32::try_from(tx.outputs.len()).unwrap() {
        let name = 20 + u8::try_from(vout).unwrap();
        take(&store, &spending(name, &[(&tx, vout)], &[1])).unwrap().unwrap();
    }
    let found = record(&store, &tx).unwrap();
    assert!(found.is_all_spent() && found.delete_at.is_some());
    assert_eq!(statuses(&store, &tx), [SpendStatus::Spent]);
    assert_eq!(store.delete(&[tx.txid]).unwrap(), 1);
    assert!(pages(&records, &tx).is_empty());
    let view = store.spend_views(&[(OutPoint::new(tx.txid, PER_RECORD), None)], Height::new(9));
    assert_eq!(view.unwrap().remove(0).unwrap().status, SpendStatus::NotFound);
}

/// The call took the page that it had written itself for somebody else's change, began anew, and did
/// so until its deadline.
#[test]
fn a_child_spends_from_a_further_record_of_its_parent_in_the_same_list() {
    let (records, store) = fresh(1);
    let fund = seed(1, &[1_000]);
    create(&store, &fund).unwrap().unwrap();
    let parent = spending(2, &[(&fund, 0)], &[9; 3 * PER_RECORD as usize + 1]);
    let last = 3 * PER_RECORD;
    let child = spending(3, &[(&parent, PER_RECORD), (&parent, last)], &[1]);
    let both = [&parent, &child].map(|tx| (tx.clone(), CreateOptions::default()));
    let answers = store.spend_and_create_list(&both, AT, SpendFlags::default()).unwrap().unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(pages(&records, &parent).len(), 3);
    let outputs = [0, PER_RECORD, last].map(|vout| (OutPoint::new(parent.txid, vout), None));
    let views = store.spend_views(&outputs, Height::new(9)).unwrap();
    let states: Vec<SpendStatus> = views.into_iter().map(|view| view.unwrap().status).collect();
    assert_eq!(states, [SpendStatus::Ok, SpendStatus::Spent, SpendStatus::Spent]);
    assert!(!record(&store, &parent).unwrap().is_creating);
    let rival = spending(4, &[(&parent, last)], &[1]);
    assert!(take(&store, &rival).unwrap().is_err());
}

/// The list answered that the parent exists and that the child's parent failed, though it completed the
/// parent: whoever repeated the list of a dead program had to repeat it once more.
#[test]
fn a_list_that_is_repeated_after_its_program_died_completes_it_and_succeeds() {
    let mut completed = 0;
    for writes in 0..STEPS_MAX {
        let (records, alive) = fresh(1);
        let fund = seed(1, &[1_000]);
        create(&alive, &fund).unwrap().unwrap();
        let parent = spending(2, &[(&fund, 0)], &[9; 3 * PER_RECORD as usize + 1]);
        let child = spending(3, &[(&parent, PER_RECORD), (&parent, 0)], &[1]);
        let list = [&parent, &child].map(|tx| (tx.clone(), CreateOptions::default()));
        let port = Cut::new(&records, writes, How::Dies);
        let store = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, 2, None);
        if let Ok(store) = store {
            let _ = store.spend_and_create_list(&list, AT, SpendFlags::default());
        }
        if !port.is_over() {
            assert!(completed > 2, "nothing was left to complete");
            return;
        }
        completed += usize::from(record(&alive, &parent).is_some_and(|parent| parent.is_creating));
        records.advance_ms(301_000);
        let again = alive.spend_and_create_list(&list, AT, SpendFlags::default());
        let again = again.unwrap().unwrap();
        assert!(again.iter().all(Result::is_ok), "after {writes} writes: {again:?}");
        assert_eq!(statuses(&alive, &fund), [SpendStatus::Spent]);
        assert_eq!(statuses(&alive, &child), [SpendStatus::Ok]);
        assert!(!record(&alive, &parent).unwrap().is_creating);
        alive.end_unfinished(100).unwrap();
        assert_settled(&records, &alive);
    }
    panic!("it takes more than {STEPS_MAX} steps");
}
