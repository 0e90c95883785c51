//! Callers that create, spend and mine transactions which exclude each other, and note what they were
//! told.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height, Txid,
    node::{CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, SpendAndCreate, SpendFlags},
};
use utxokeep_records::RecordStore;
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, StoreError, TxStore};

pub(crate) const AT: Height = Height::new(5);
const CALLERS: u8 = 4;
const PARENTS: u8 = 4;
const OUTPUTS: u8 = 6;
/// How often a call is sent whose answer was an error.
const TRIES: u32 = 3;

/// An id that lies on any shard.
fn id(generation: u32, kind: u8, number: u8, caller: u8) -> Txid {
    let fields = [generation.to_be_bytes().as_slice(), &[kind, number, caller]].concat();
    let spread = fields.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&spread.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..8 + fields.len()].copy_from_slice(&fields);
    Txid::from_bytes(bytes)
}

/// Two records.
fn parent(generation: u32, number: u8) -> NodeTx {
    NodeTx { txid: id(generation, 1, number, 0), ..seed(1, &[9; OUTPUTS as usize]) }
}

/// A transaction by which a caller takes two outputs, of which others want one or the other. Every
/// third has two records.
fn wish(generation: u32, number: u8, caller: u8) -> NodeTx {
    let all = PARENTS * OUTPUTS;
    let second = (number + 1 + (5 * number + 7 * caller) % (all - 1)) % all;
    let [one, other] = [number, second].map(|n| (parent(generation, n % PARENTS), n / PARENTS));
    let mut inputs = [(&one.0, u32::from(one.1)), (&other.0, u32::from(other.1))];
    if caller.is_multiple_of(2) {
        inputs.reverse();
    }
    let outputs: &[u64] = if number.is_multiple_of(3) { &[1; 6] } else { &[4, 4] };
    NodeTx { txid: id(generation, 2, number, caller), ..spending(2, &inputs, outputs) }
}

/// A child of a wish, which spends its first output and its last one, on different records.
fn heir(generation: u32, number: u8, caller: u8) -> NodeTx {
    let wish = wish(generation, number, caller);
    let last = u32::try_from(wish.outputs.len() - 1).unwrap();
    let tx = spending(3, &[(&wish, 0), (&wish, last)], &[1]);
    NodeTx { txid: id(generation, 3, number, caller), ..tx }
}

/// What callers were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Everything that anybody tried to store.
    pub(crate) tried: Vec<NodeTx>,
    /// Stored, as the store said.
    pub(crate) stored: Vec<NodeTx>,
    /// Mined, as the store said.
    pub(crate) mined: Vec<Txid>,
}

/// Counts of answers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) in_doubt: AtomicU64,
    pub(crate) in_progress: AtomicU64,
    /// Programs that died while they stored a transaction of several records.
    pub(crate) died: AtomicU64,
}

pub(crate) struct Load {
    stop: AtomicBool,
    generation: AtomicU32,
    seed: u64,
    pub(crate) told: Mutex<Told>,
    pub(crate) counts: Counts,
}

impl Load {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            stop: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            seed,
            told: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Runs callers, each with a store of its own, while `faults` does its work. Now and then a caller
    /// stores a large transaction through a program that dies after so many writes.
    pub(crate) fn run(
        &self,
        open: impl Fn() -> NodeStore + Sync,
        dying: impl Fn(&Arc<dyn RecordStore>, usize) -> Option<NodeStore> + Sync,
        connect: impl Fn() -> Arc<dyn RecordStore> + Sync,
        faults: impl FnOnce(),
    ) {
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (open, dying, connect) = (&open, &dying, &connect);
                scope.spawn(move || {
                    let port = connect();
                    let dying = |writes| dying(&port, writes);
                    Caller::new(self, caller).act(&open(), &dying);
                });
            }
            faults();
            self.stop.store(true, Ordering::Relaxed);
        });
    }

    /// Waits until so many more calls were acknowledged.
    pub(crate) fn wait_for(&self, count: u64) {
        let acknowledged = || self.counts.acknowledged.load(Ordering::Relaxed);
        let (goal, end) = (acknowledged() + count, Instant::now() + Duration::from_secs(120));
        while acknowledged() < goal {
            assert!(Instant::now() < end, "nothing is acknowledged any more: {:?}", self.counts);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A program that dies after so many writes, where one can be started at present.
type Dying<'d> = dyn Fn(usize) -> Option<NodeStore> + 'd;

struct Caller<'l> {
    load: &'l Load,
    number: u8,
    random: u64,
}

impl<'l> Caller<'l> {
    fn new(load: &'l Load, number: u8) -> Self {
        let random = load.seed.wrapping_mul(31).wrapping_add(u64::from(number) + 1);
        Self { load, number, random }
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from((self.random >> 33) % u64::from(limit)).unwrap()
    }

    fn is_over(&self) -> bool {
        self.load.stop.load(Ordering::Relaxed)
    }

    /// Goes through generations of parents, together with the others.
    fn act(&mut self, store: &NodeStore, dying: &Dying<'_>) {
        while !self.is_over() {
            let generation = self.load.generation.load(Ordering::Relaxed);
            let parents: Vec<NodeTx> = (0..PARENTS).map(|n| parent(generation, n)).collect();
            let items: Vec<_> =
                parents.iter().map(|tx| (tx.clone(), CreateOptions::default())).collect();
            self.load.told.lock().unwrap().tried.extend(parents.iter().cloned());
            let answers = self.call(parents.len(), |_| store.create(&items, AT));
            for (tx, answer) in parents.into_iter().zip(answers.unwrap_or_default()) {
                if self.count(&answer) {
                    self.load.told.lock().unwrap().stored.push(tx);
                }
            }
            let mut wishes: Vec<u8> = (0..PARENTS * OUTPUTS).collect();
            for at in (1..wishes.len()).rev() {
                wishes.swap(at, usize::from(self.below(u8::try_from(at + 1).unwrap())));
            }
            for number in wishes {
                let is_late = self.load.generation.load(Ordering::Relaxed) != generation;
                if self.is_over() || is_late {
                    break;
                }
                self.wish(store, dying, generation, number);
            }
            let next = generation + 1;
            self.load.generation.fetch_max(next, Ordering::Relaxed);
        }
    }

    fn wish(&mut self, store: &NodeStore, dying: &Dying<'_>, generation: u32, number: u8) {
        let tx = wish(generation, number, self.number);
        // One in twelve: a transaction of two records takes about fifteen writes.
        if number.is_multiple_of(3) && self.below(4) == 0 {
            let writes = 3 + usize::from(self.below(14));
            if let Some(program) = dying(writes) {
                self.die(&program, &tx);
                return;
            }
        }
        if !self.take(store, &tx) {
            return;
        }
        if self.below(2) == 0 {
            let info = MinedInfo {
                block: MinedBlock { id: 7, height: Height::new(7), subtree: 0 },
                on_longest_chain: true,
                unset: false,
                unmined_since: Height::new(7),
            };
            let answer = self.call(1, |_| store.set_mined(&[tx.txid], &info));
            if answer.is_some_and(|mut answers| self.count(&answers.remove(0))) {
                self.load.told.lock().unwrap().mined.push(tx.txid);
            }
        }
        if self.below(3) == 0 {
            self.take(store, &heir(generation, number, self.number));
        }
    }

    /// Stores a transaction through a program that may die on the way. Nobody repeats that.
    fn die(&self, program: &NodeStore, tx: &NodeTx) {
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        self.load.told.lock().unwrap().tried.push(tx.clone());
        match program.spend_and_create(tx, AT, how, &CreateOptions::default()) {
            Ok(answer) if self.count(&answer) => {
                self.load.told.lock().unwrap().stored.push(tx.clone());
            }
            Ok(_) => {}
            Err(_) => drop(self.load.counts.died.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Stores a transaction with what it spends; answers whether it was told of success.
    fn take(&self, store: &NodeStore, tx: &NodeTx) -> bool {
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        self.load.told.lock().unwrap().tried.push(tx.clone());
        let answer =
            self.call(1, |_| store.spend_and_create(tx, AT, how, &CreateOptions::default()));
        let is_stored = answer.is_some_and(|answer| self.count(&answer));
        if is_stored {
            self.load.told.lock().unwrap().stored.push(tx.clone());
        }
        is_stored
    }

    /// Sends a call again as long as its answer is an error, as the contract says one may.
    fn call<T>(
        &self,
        items: usize,
        mut call: impl FnMut(u32) -> Result<T, StoreError>,
    ) -> Option<T> {
        for number in 0..TRIES {
            match call(number) {
                Ok(answer) => return Some(answer),
                Err(StoreError::InProgress) => {
                    self.load.counts.in_progress.fetch_add(items as u64, Ordering::Relaxed);
                }
                Err(_) => {
                    self.load.counts.in_doubt.fetch_add(items as u64, Ordering::Relaxed);
                }
            }
        }
        None
    }

    fn count<T>(&self, answer: &Result<T, NodeError>) -> bool {
        let counts = &self.load.counts;
        let count = match answer {
            Ok(_) => &counts.acknowledged,
            Err(NodeError::InProgress) => &counts.in_progress,
            Err(_) => &counts.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer.is_ok()
    }
}
