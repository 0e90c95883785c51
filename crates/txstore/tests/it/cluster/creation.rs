//! Transactions of several records on a real cluster: the creation lock and its real time to live, the
//! creating flag, and every way back. The code in a comment is the short name of a rule.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Txid,
    node::{MinedBlock, MinedInfo, NodeError, NodeTx, SpendStatus},
};
use utxokeep_records::{
    Barrier, Key, RecordStore, Versions, WriteCell, Written,
    testing::{AerospikePlace, shared_url_or_skip},
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, PruneStore as _, RecordFault, RecordFaults, TxStore};

use super::{connect, open, try_open};
use crate::records::{
    cut::{AtStatus, Cut, How},
    world::{AT, create, record, statuses, take},
};

const STEPS_MAX: usize = 100;
/// Time of a creation lock in these tests.
const LOCK_MS: u64 = 400;

struct World {
    port: Arc<dyn RecordStore>,
    alive: NodeStore,
    faults: RecordFaults,
    _place: Option<AerospikePlace>,
}

fn world_on(port: Arc<dyn RecordStore>, place: Option<AerospikePlace>) -> World {
    let faults = RecordFaults::default();
    faults.expire_locks_after_ms(LOCK_MS);
    let alive = open(&port, &faults);
    World { port, alive, faults, _place: place }
}

fn world() -> Option<World> {
    Some(world_on(connect(&shared_url_or_skip("ack=replica")?), None))
}

/// There times to live are in whole seconds.
fn world_on_aerospike() -> Option<World> {
    let place = AerospikePlace::new_or_skip("")?;
    Some(world_on(connect(&place.url()), Some(place)))
}

/// Four records, on any shard.
fn large(number: usize) -> NodeTx {
    let mut bytes = [7; 32];
    bytes[0] = u8::try_from(number * 37 % 256).unwrap();
    bytes[1..3].copy_from_slice(&u16::try_from(number).unwrap().to_be_bytes());
    NodeTx { txid: Txid::from_bytes(bytes), ..seed(1, &[9; 13]) }
}

impl World {
    /// Creates a transaction with a program that stops after so many writes; answers whether it was
    /// told of success, or `None` where it was done before that.
    fn create_and_stop(&self, tx: &NodeTx, writes: usize, how: How) -> Option<bool> {
        let port = Cut::on(&self.port, writes, how);
        let stopped = try_open(Arc::clone(&port) as Arc<dyn RecordStore>, &self.faults);
        let answer = stopped.map(|store| create(&store, tx));
        port.is_over().then_some(matches!(answer, Ok(Ok(Ok(())))))
    }

    /// Waits until nobody has the lock of a transaction; the server takes it away.
    fn wait_unlocked(&self, tx: &NodeTx) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.alive.creation_lock(&tx.txid).unwrap().is_some() {
            assert!(Instant::now() < end, "the lock does not expire");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn assert_clean(&self) {
        let report = self.alive.verify().unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

/// K-crash, K-held, K-expired, K-page-spend, K-partial.
#[test]
fn a_creator_that_dies_at_any_step_leaves_a_lock_that_expires_and_work_that_is_completed() {
    for world in [world(), world_on_aerospike()].into_iter().flatten() {
        creators_die_at_every_step(&world);
    }
}

fn creators_die_at_every_step(world: &World) {
    let (mut locked, mut creating) = (0, 0);
    for writes in 0..STEPS_MAX {
        let tx = large(writes);
        let Some(is_answered) = world.create_and_stop(&tx, writes, How::Dies) else {
            assert!(writes > 12 && locked > 5 && creating > 3, "{writes} {locked} {creating}");
            world.alive.end_unfinished(1_000).unwrap();
            return world.assert_clean();
        };
        let before = record(&world.alive, &tx);
        let expected = match &before {
            None => SpendStatus::NotFound,
            Some(record) if record.is_creating => SpendStatus::Creating,
            Some(_) => SpendStatus::Ok,
        };
        assert_eq!(statuses(&world.alive, &tx), [expected], "on any page");
        assert!(before.is_some() || !is_answered);
        creating += usize::from(expected == SpendStatus::Creating);
        if let Some(lock) = world.alive.creation_lock(&tx.txid).unwrap() {
            assert_eq!((lock.expected_recs, lock.process_id), (4, std::process::id()));
            // It may expire between the two calls.
            let answer = create(&world.alive, &tx).unwrap();
            let is_held = world.alive.creation_lock(&tx.txid).unwrap() == Some(lock);
            if is_held {
                assert_eq!(answer, Err(NodeError::Exists(tx.txid)), "another creates it");
            }
            locked += 1;
        }
        world.wait_unlocked(&tx);
        let was_there = record(&world.alive, &tx).is_some();
        let answer = create(&world.alive, &tx).unwrap();
        assert_eq!(answer.is_ok(), !was_there, "success is that of who wrote the master");
        assert_eq!(statuses(&world.alive, &tx), [SpendStatus::Ok]);
    }
    panic!("a creation takes more than {STEPS_MAX} steps");
}

/// K-flag-fail: a write that is refused behind the commit is a success to the caller. Mining clears what
/// was left, and so does creating it again.
#[test]
fn a_creation_whose_marks_are_left_is_a_success_and_mining_or_a_retry_clears_them() {
    let Some(world) = world() else { return };
    let (mut by_mining, mut by_retry) = (0, 0);
    for (how, first) in [(How::IsRefused, 0), (How::Dies, STEPS_MAX)] {
        for writes in 0..STEPS_MAX {
            let tx = large(first + writes);
            let Some(is_answered) = world.create_and_stop(&tx, writes, how) else { break };
            let before = record(&world.alive, &tx);
            assert!(before.is_some() || !is_answered);
            assert!(before.is_none() || is_answered || how == How::Dies);
            world.wait_unlocked(&tx);
            let is_creating = before.as_ref().is_some_and(|record| record.is_creating);
            if is_creating && writes % 2 == 0 {
                assert_eq!(create(&world.alive, &tx).unwrap(), Err(NodeError::Exists(tx.txid)));
                by_retry += 1;
            } else if is_creating {
                let info = MinedInfo {
                    block: MinedBlock { id: 1, height: AT, subtree: 0 },
                    on_longest_chain: true,
                    unset: false,
                    unmined_since: AT,
                };
                world.alive.set_mined(&[tx.txid], &info).unwrap().remove(0).unwrap();
                by_mining += 1;
            } else {
                assert_eq!(create(&world.alive, &tx).unwrap().is_ok(), before.is_none());
            }
            assert_eq!(statuses(&world.alive, &tx), [SpendStatus::Ok]);
        }
    }
    assert!(by_mining > 1 && by_retry > 1, "hardly anything was left: {by_mining} {by_retry}");
    world.alive.end_unfinished(1_000).unwrap();
    world.assert_clean();
}

/// K-one-winner, between programs that share nothing but the servers.
#[test]
fn of_five_programs_that_create_the_same_transaction_one_succeeds() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    let stores: Vec<NodeStore> =
        (0..5).map(|_| open(&connect(&url), &RecordFaults::default())).collect();
    for number in 0..10 {
        let tx = large(number);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let tx = &tx;
            let create = |store| scope.spawn(move || create(store, tx).unwrap());
            let threads: Vec<_> = stores.iter().map(create).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        let others = answers.iter().filter_map(|answer| answer.as_ref().err());
        assert!(others.into_iter().all(|error| *error == NodeError::Exists(tx.txid)));
        assert_eq!(statuses(&stores[0], &tx), [SpendStatus::Ok]);
        assert_eq!(stores[0].creation_lock(&tx.txid).unwrap(), None);
    }
    assert!(stores[0].verify().unwrap().is_clean());
}

/// K-fence, with the servers' own clock and expiry.
#[test]
fn a_creator_that_stalls_past_its_lock_does_not_release_that_of_the_next_one() {
    for fault in [None, Some(RecordFault::LockWithoutFence)] {
        let Some(world) = world() else { return };
        let tx = large(1);
        let (port, txid) = (Arc::clone(&world.port), tx.txid);
        let (waiting, other) = (open(&world.port, &world.faults), tx.clone());
        let next = move || {
            let end = Instant::now() + Duration::from_secs(30);
            while waiting.creation_lock(&other.txid).unwrap().is_some() {
                assert!(Instant::now() < end, "the lock does not expire");
                std::thread::sleep(Duration::from_millis(20));
            }
            let name = [b"u".as_slice(), txid.as_bytes(), &[0xff; 4]].concat();
            let shard = u16::from(txid.as_bytes()[0]) * 64 / 256;
            let mut lock = WriteCell::create(Key::new(shard, name), Versions::random().next());
            for (bin, value) in [
                ("created_at", "1"),
                ("lock_type", "tx_creation"),
                ("process_id", "9"),
                ("hostname", "b"),
                ("fence", "7"),
                ("expected_recs", "4"),
            ] {
                lock = lock.set(bin, value);
            }
            let taken = port.write(&[lock.expires_in_ms(38_000)], Barrier::Safe).unwrap();
            assert_eq!(taken, [Written::Done]);
        };
        if let Some(fault) = fault {
            world.faults.plant(fault);
        }
        let stalls = Arc::new(AtStatus::on(&world.port, next));
        let stalled = try_open(stalls, &world.faults).unwrap();
        create(&stalled, &tx).unwrap().unwrap();
        let held = world.alive.creation_lock(&tx.txid).unwrap();
        let is_held = held.is_some_and(|lock| lock.process_id == 9);
        assert_eq!(is_held, fault.is_none(), "{fault:?}");
        assert_eq!(statuses(&world.alive, &tx), [SpendStatus::Ok]);
    }
}

/// K-delete-complete.
#[test]
fn a_deleted_transaction_is_created_anew_with_nothing_stale_on_any_server() {
    let Some(world) = world() else { return };
    let tx = large(1);
    create(&world.alive, &tx).unwrap().unwrap();
    take(&world.alive, &spending(2, &[(&tx, 12), (&tx, 0)], &[1])).unwrap().unwrap();
    assert_eq!(world.alive.delete(&[tx.txid]).unwrap(), 1);
    assert_eq!(statuses(&world.alive, &tx), [SpendStatus::NotFound]);
    create(&world.alive, &tx).unwrap().unwrap();
    assert_eq!(statuses(&world.alive, &tx), [SpendStatus::Ok]);
}
