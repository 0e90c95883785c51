//! Faults of a real cluster under load.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use utxokeep_records::{
    Barrier, Key, ReadCell, RecordStore, RedisOptions, RedisRecords, Version, Versions, WriteCell,
    Written, testing::TestCluster,
};

const SHARDS: u16 = 64;
const WRITERS: u64 = 4;

/// What one writer was told: the cells that are safe, by the version they must at least have.
pub(crate) struct Load<'s> {
    store: &'s dyn RecordStore,
    stop: AtomicBool,
    safe: Mutex<Vec<(Key, u64)>>,
    done: AtomicU64,
    doubts: AtomicU64,
    errors: AtomicU64,
}

impl<'s> Load<'s> {
    pub(crate) fn new(store: &'s dyn RecordStore) -> Self {
        let (done, doubts, errors) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (stop, safe) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        Self { store, stop, safe, done, doubts, errors }
    }

    /// Adds 1 to cells of its own over all shards, again and again. What is in doubt is sent again
    /// until it is not.
    fn write(&self, number: u64) {
        let versions = Versions::seeded(number);
        let keys: Vec<Key> =
            (0..SHARDS).map(|shard| Key::new(shard, format!("writer-{number}"))).collect();
        let mut at: Vec<(u64, Option<Version>)> = vec![(0, None); keys.len()];
        while !self.stop.load(Ordering::Relaxed) {
            let write = |(key, (n, read)): (&Key, &(u64, Option<Version>))| {
                let next = versions.next();
                let write = match read {
                    None => WriteCell::create(key.clone(), next),
                    Some(read) => WriteCell::update(key.clone(), *read, next),
                };
                let row = format!("writer-{number}");
                write.set("n", (n + 1).to_be_bytes()).index(1, row, Some(n + 1))
            };
            let mut open: Vec<(usize, WriteCell)> =
                keys.iter().zip(&at).map(write).enumerate().collect();
            while !open.is_empty() {
                let writes: Vec<WriteCell> = open.iter().map(|(_, write)| write.clone()).collect();
                let Ok(answers) = self.store.write(&writes, Barrier::Safe) else {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                let mut again = Vec::new();
                for ((place, write), answer) in open.into_iter().zip(answers) {
                    match answer {
                        Written::Done => {
                            at[place] = (at[place].0 + 1, Some(write.version));
                            self.done.fetch_add(1, Ordering::Relaxed);
                        }
                        Written::InDoubt | Written::Unavailable => {
                            self.doubts.fetch_add(1, Ordering::Relaxed);
                            again.push((place, write));
                        }
                        // Nobody else writes this cell, so that it must be as it was left.
                        Written::Mismatch(found) => {
                            panic!("{}: {found:?} in place of {:?}", write.key, write.expect);
                        }
                    }
                }
                open = again;
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        let safe = keys.into_iter().zip(at).map(|(key, (n, _))| (key, n));
        self.safe.lock().unwrap().extend(safe);
    }

    /// Runs the load while `faults` does its work, and looks at what is left of it.
    pub(crate) fn run(&self, faults: impl FnOnce()) {
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                scope.spawn(move || self.write(number));
            }
            faults();
            self.stop.store(true, Ordering::Relaxed);
        });
        let safe = self.safe.lock().unwrap();
        let reads: Vec<_> = safe.iter().map(|(key, _)| ReadCell::all(key.clone())).collect();
        let cells = self.store.read(&reads).unwrap();
        let mut lost = Vec::new();
        for ((key, n), cell) in safe.iter().zip(cells) {
            let found = cell.as_ref().and_then(|cell| cell.get(b"n"));
            let found = found.map_or(0, |n| u64::from_be_bytes(n.try_into().unwrap()));
            // The last write of a run may be in doubt, and be there.
            if found < *n || found > n + 1 {
                lost.push(format!("{key}: {found} in place of {n}"));
            }
        }
        eprintln!(
            "{} writes done, {} in doubt or late, {} errors, {} of {} cells wrong",
            self.done.load(Ordering::Relaxed),
            self.doubts.load(Ordering::Relaxed),
            self.errors.load(Ordering::Relaxed),
            lost.len(),
            safe.len(),
        );
        assert!(lost.is_empty(), "{lost:?}");
    }

    /// Waits until so many more writes are done.
    pub(crate) fn wait_for_writes(&self, count: u64) {
        let goal = self.done.load(Ordering::Relaxed) + count;
        let end = Instant::now() + Duration::from_secs(60);
        while self.done.load(Ordering::Relaxed) < goal {
            assert!(Instant::now() < end, "no writes: {:?}", self.store.trouble());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn open(cluster: &TestCluster) -> RedisRecords {
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=300&command_timeout_ms=1500");
    RedisRecords::open(RedisOptions::parse(&url).unwrap()).unwrap()
}

/// Slot of shard 0, which the third of the servers holds at the start.
const SLOT: u16 = 13_907;
const HOLDER: usize = 2;

#[test]
fn a_killed_primary_loses_nothing_that_was_acknowledged() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    let store = open(&cluster);
    let load = Load::new(&store);
    load.run(|| {
        load.wait_for_writes(2_000);
        cluster.kill(HOLDER).unwrap();
        let promoted = cluster.wait_owner_changed(SLOT, HOLDER).unwrap();
        assert_eq!(promoted, HOLDER + 3);
        // Without a replica nothing of this shard is acknowledged; with one everything goes on.
        cluster.restart(HOLDER).unwrap();
        cluster.wait_ready().unwrap();
        load.wait_for_writes(2_000);
    });
    assert_eq!(store.trouble(), None);
}

#[test]
fn a_paused_primary_loses_nothing_that_was_acknowledged() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    let store = open(&cluster);
    let load = Load::new(&store);
    load.run(|| {
        load.wait_for_writes(2_000);
        cluster.pause(HOLDER, true).unwrap();
        cluster.wait_owner_changed(SLOT, HOLDER).unwrap();
        cluster.pause(HOLDER, false).unwrap();
        cluster.wait_ready().unwrap();
        load.wait_for_writes(2_000);
    });
}

#[test]
fn a_slot_that_moves_loses_nothing_and_delays_its_writes_only() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    let store = open(&cluster);
    let load = Load::new(&store);
    load.run(|| {
        load.wait_for_writes(1_000);
        cluster.move_slot(SLOT, HOLDER, 0, || {}).unwrap();
        load.wait_for_writes(1_000);
        cluster.move_slot(SLOT, 0, 1, || {}).unwrap();
        load.wait_for_writes(1_000);
    });
    assert_eq!(load.errors.load(Ordering::Relaxed), 0);
    assert_eq!(store.trouble(), None);
}
