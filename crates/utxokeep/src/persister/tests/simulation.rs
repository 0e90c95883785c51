//! A long history in small steps: blocks and reorganisations arrive, the persister lags behind, its
//! place fails and half writes, programs restart, and a pruner deletes from a node store beside it. One
//! thread does everything, in an order that the seed decides; after each step the rules are checked.
//! Each of some planted mistakes must be noticed.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
};

use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
    memory::InMemory, path::Path as Key,
};
use utxokeep_blobs::BlobStore;
use utxokeep_core::{
    Txid,
    node::{ChainReport, CreateOptions, MinedBlock, NodeOutput, NodeTx},
};
use utxokeep_pruner::JobState;
use utxokeep_txstore::{Fields, NodeStore, TxStore as _};

use super::*;
use crate::consumers::{LogConsumer as _, PrunerConsumer};

/// Blocks of the history, unless `UTXOKEEP_PERSISTER_BLOCKS` says otherwise: a nightly run has more.
const BLOCKS: usize = 300;

/// Blocks that a record of the node store is kept for.
const RETENTION: u32 = 10;

/// Blocks of the chain below a height that are looked at in each step.
const LOOK_BLOCKS: u32 = 12;

fn blocks() -> usize {
    let named = std::env::var("UTXOKEEP_PERSISTER_BLOCKS").ok();
    named.map_or(BLOCKS, |text| text.parse().expect("a number of blocks"))
}

fn at(height: u32) -> Height {
    Height::new(height)
}

/// Small steps that anybody can repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// How bad a place is. What happens to an attempt depends on seed, file and number of the attempt
/// alone, not on the order of threads.
#[derive(Debug, Default)]
struct Mood {
    seed: u64,
    fail_percent: u64,
    attempts: BTreeMap<String, u64>,
    failures: u64,
    halves: u64,
}

/// A place for files that fails, loses answers and half writes.
#[derive(Debug, Clone, Default)]
struct Faulty {
    files: Arc<InMemory>,
    mood: Arc<Mutex<Mood>>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a faulty place")
    }
}

/// What becomes of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    Refused,
    /// It is written, and the answer is lost.
    Unanswered,
    /// A part of it is written.
    Half,
}

impl Faulty {
    fn mood(&self) -> std::sync::MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self, what: &str, key: &Key) -> Fate {
        let mut mood = self.mood();
        let attempt = mood.attempts.entry(format!("{what} {key}")).or_default();
        *attempt += 1;
        let mut hasher = DefaultHasher::new();
        (*attempt, what, key.as_ref()).hash(&mut hasher);
        mood.seed.hash(&mut hasher);
        let roll = hasher.finish();
        if roll % 100 >= mood.fail_percent {
            return Fate::Good;
        }
        mood.failures += 1;
        match roll / 100 % 3 {
            0 => Fate::Refused,
            1 => Fate::Unanswered,
            _ if key.as_ref() == WATERMARK_NAME => Fate::Refused,
            _ => Fate::Half,
        }
    }
}

fn failed(source: &'static str) -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: source.into() }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        at: &Key,
        bytes: PutPayload,
        how: PutOptions,
    ) -> StoreResult<PutResult> {
        match self.fate("put", at) {
            Fate::Good => self.files.put_opts(at, bytes, how).await,
            Fate::Refused => Err(failed("refused")),
            Fate::Unanswered => {
                self.files.put_opts(at, bytes, how).await?;
                Err(failed("no answer"))
            }
            Fate::Half => {
                // A store replaces a file whole or not at all; a new one may be there in part.
                if self.files.get_opts(at, GetOptions::default()).await.is_ok() {
                    return Err(failed("cut off"));
                }
                self.mood().halves += 1;
                let whole: Vec<u8> = bytes.iter().flat_map(|part| part.to_vec()).collect();
                let half = whole[..whole.len() / 2].to_vec();
                self.files.put_opts(at, half.into(), how).await?;
                Err(failed("cut off"))
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Key,
        how: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> StoreResult<GetResult> {
        if self.fate("get", at) == Fate::Good {
            return self.files.get_opts(at, how).await;
        }
        Err(failed("no answer"))
    }

    fn delete_stream(
        &self,
        which: BoxStream<'static, StoreResult<Key>>,
    ) -> BoxStream<'static, StoreResult<Key>> {
        self.files.delete_stream(which)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> StoreResult<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, how: CopyOptions) -> StoreResult<()> {
        self.files.copy_opts(from, to, how).await
    }
}

/// What one of the parts does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    CursorBeforeWatermark,
    WatermarkBeforeFiles,
    /// What is persisted counts by its height alone, whatever branch it is of.
    ReachedWithoutFork,
    /// The pruner goes by the chain alone.
    PrunerIgnoresPersisted,
}

const ALL_PLANTED: [Planted; 4] = [
    Planted::CursorBeforeWatermark,
    Planted::WatermarkBeforeFiles,
    Planted::ReachedWithoutFork,
    Planted::PrunerIgnoresPersisted,
];

/// What a history came to.
#[derive(Debug, Default)]
struct Tally {
    reorganisations: u64,
    failed_steps: u64,
    failed_puts: u64,
    half_puts: u64,
    runs: u64,
    deleted: usize,
    held_back: u64,
}

struct Simulation {
    world: World,
    faulty: Faulty,
    place: PersistedPlace,
    /// The same files, read by somebody whom nothing fails.
    sound: PersistedPlace,
    persister: Persister<MemoryKv>,
    store: Arc<NodeStore>,
    pruning: Pruning,
    consumer: PrunerConsumer<MemoryKv>,
    /// Records that are in the store, and the height from which each may go.
    records: BTreeMap<Txid, u32>,
    stored_to: u32,
    /// The highest run that was complete.
    completed: u32,
    planted: Option<Planted>,
    tally: Tally,
}

type Checked = Result<(), String>;

fn pruner_config() -> PrunerConfig {
    PrunerConfig {
        unmined_retention_blocks: 2,
        safety_window_blocks: 3,
        parent_preservation_blocks: 4,
        ..PrunerConfig::default()
    }
}

fn new_place(store: Arc<dyn ObjectStore>) -> PersistedPlace {
    let retry = Retry { retries_max: 1, wait_first: Duration::ZERO, wait_max: Duration::ZERO };
    PersistedPlace::on(BlobStore::on(store, 10_000).unwrap(), NETWORK, retry)
}

impl Simulation {
    fn new(seed: u64, planted: Option<Planted>) -> Self {
        let world = World::new(SimulatorConfig {
            seed,
            txs_per_block: 0..4,
            reorg_percent: 15,
            ..SimulatorConfig::default()
        });
        let faulty = Faulty::default();
        faulty.mood().seed = seed;
        let place = new_place(Arc::new(faulty.clone()));
        let sound = new_place(Arc::clone(&faulty.files) as _);
        let config = TxStoreConfig {
            retention_blocks: RETENTION,
            unmined_retention_blocks: 2,
            height_jump_blocks_max: 2.try_into().unwrap(),
            ..TxStoreConfig::default()
        };
        let store = node_store::open("memory:", &config, OpenMode::Create).unwrap();
        let pruning = Pruning::without_threads(store.clone(), &pruner_config()).unwrap();
        let consumer = PrunerConsumer::new(pruning.clone(), world.index.clone());
        let persister = world.persister(place.clone());
        let mut simulation = Self {
            world,
            faulty,
            place,
            sound,
            persister,
            store,
            pruning,
            consumer,
            records: BTreeMap::new(),
            stored_to: 0,
            completed: 0,
            planted,
            tally: Tally::default(),
        };
        simulation.start_persister();
        simulation
    }

    fn start_persister(&mut self) {
        self.persister = Persister::new(
            self.world.index.clone(),
            self.place.clone(),
            self.world.bodies(),
            PersisterSettings { parallel_files: 1, ..settings() },
        );
        self.persister.mistake = match self.planted {
            Some(Planted::CursorBeforeWatermark) => Some(consumer::Mistake::CursorBeforeWatermark),
            Some(Planted::WatermarkBeforeFiles) => Some(consumer::Mistake::WatermarkBeforeFiles),
            _ => None,
        };
        self.persister.register().unwrap();
    }

    fn mine(&mut self, blocks: usize) {
        self.world.mine(blocks);
        self.world.follower.writer_mut().prune_pass().unwrap();
        // A validator stores a transaction for each new height; it goes some blocks later.
        let tip = self.world.tip().0.get();
        while self.stored_to < tip {
            self.stored_to += 1;
            let height = self.stored_to;
            let mut bytes = [0x77; 32];
            bytes[..4].copy_from_slice(&height.to_be_bytes());
            let txid = Txid::from_bytes(bytes);
            let outputs = vec![NodeOutput { satoshis: 0, script: vec![0x6a] }];
            let (inputs, is_coinbase) = (Vec::new(), false);
            let tx = NodeTx { txid, version: 1, lock_time: 0, is_coinbase, inputs, outputs };
            let block = MinedBlock { id: height, height: at(height), subtree: 0 };
            let how = CreateOptions { mined: vec![block], ..CreateOptions::default() };
            self.store.create(&[(tx, how)], at(height)).unwrap().remove(0).unwrap();
            self.records.insert(txid, height + RETENTION);
        }
    }

    fn persist(&mut self) {
        if self.persister.step(&|| false).is_err() {
            self.tally.failed_steps += 1;
            // As its thread does: what is written, and where, is looked at again.
            self.start_persister();
        }
    }

    /// The pruner hears of everything, and runs where that makes a height safe.
    fn prune(&mut self) -> Checked {
        loop {
            let stepped = self.consumer.step(&|| false).map_err(|failed| failed.0)?;
            if stepped.is_done {
                break;
            }
        }
        let heights = || self.pruning.pruner().status().unwrap().heights;
        match self.planted {
            Some(Planted::ReachedWithoutFork) => {
                let known = self.world.index.consumers().unwrap();
                let own = known.into_iter().find(|own| own.name == NAME);
                let newest = heights().newest();
                let raw = own.and_then(|own| own.cursor.height()).zip(newest);
                if let Some((raw, newest)) = raw {
                    let wrong = ChainReport::Persisted(raw.min(newest));
                    let everybody = ChainReport::Consumers(None);
                    self.pruning.pruner().report(&[everybody, wrong]).unwrap();
                }
            }
            Some(Planted::PrunerIgnoresPersisted) => {
                let wrong = [ChainReport::NoPersister, ChainReport::Consumers(None)];
                self.pruning.pruner().report(&wrong).unwrap();
            }
            _ => {}
        }
        let Ok(safe) = self.pruning.pruner().safe_height(None) else { return Ok(()) };
        let known = heights();
        self.tally.held_back += u64::from(known.newest() > Some(safe));
        if Some(safe) <= known.completed() {
            return Ok(());
        }
        let job = self.pruning.pruner().run_at(safe);
        let JobState::Completed(_) = job.state else { return Err(format!("no run: {job:?}")) };
        self.tally.runs += 1;
        self.completed = self.completed.max(safe.get());
        self.is_written(safe)?;
        self.check_records(safe)
    }

    /// A run was complete at a height: every block of the chain up to there is in the place.
    fn is_written(&self, height: Height) -> Checked {
        let view = self.world.index.view().unwrap();
        for height in height.get().saturating_sub(LOOK_BLOCKS)..=height.get() {
            let block = view.log().block(at(height)).unwrap().ok_or("a run above the chain")?;
            let hash = block.entry.hash;
            self.sound
                .raw(at(height), hash)
                .map_err(|error| format!("pruned, and not persisted: block {height}: {error}"))?;
        }
        Ok(())
    }

    /// What is due has gone, and nothing else has.
    fn check_records(&mut self, run: Height) -> Checked {
        let txids: Vec<Txid> = self.records.keys().copied().collect();
        for txid in txids {
            let due = self.records[&txid];
            let is_there = self.store.get(&[txid], Fields::default()).unwrap()[0].is_some();
            if is_there && due <= run.get() {
                return Err(format!("due at {due}, and kept at {run}"));
            }
            if !is_there && due > self.completed {
                return Err(format!("due at {due}, and deleted at {}", self.completed));
            }
            if !is_there {
                self.records.remove(&txid);
                self.tally.deleted += 1;
            }
        }
        Ok(())
    }

    /// What must hold between any two steps.
    fn check(&self) -> Checked {
        let reached = self.world.index.reached(NAME).unwrap().unwrap_or_default();
        let mark = self.sound.watermark().map_err(|error| error.to_string())?;
        let Some((height, hash)) = mark.and_then(|mark| mark.block) else {
            let is_fine = reached == Height::GENESIS;
            return if is_fine { Ok(()) } else { Err(format!("no watermark, cursor {reached}")) };
        };
        if reached > height {
            return Err(format!("the cursor is at {reached}, the watermark at {height}"));
        }
        // The block of the watermark, and those below it that the chain still has.
        let whole = |height: Height, hash| {
            self.sound.raw(height, hash).map(drop).map_err(|error| {
                format!("the watermark has passed block {height}, which is not whole: {error}")
            })
        };
        whole(height, hash)?;
        let view = self.world.index.view().unwrap();
        let fork = view.log().fork(Cursor::at(height, hash));
        let Ok(Some(fork)) = fork.map(|fork| fork.height()) else { return Ok(()) };
        for below in fork.get().saturating_sub(LOOK_BLOCKS)..=fork.get() {
            let block = view.log().block(at(below)).unwrap().unwrap();
            whole(at(below), block.entry.hash)?;
        }
        Ok(())
    }

    /// All is written, and a database built from the files is the same.
    fn check_whole(&mut self) -> Checked {
        self.faulty.mood().fail_percent = 0;
        self.start_persister();
        run(&mut self.persister).map_err(|error| error.to_string())?;
        self.check()?;
        let report = verify(&self.world.index, &self.sound, Height::GENESIS, &mut |_, _| true);
        let report = report.map_err(|error| error.to_string())?;
        if report.faults_total > 0 {
            return Err(format!("{report:?}"));
        }
        let is_same = digest(&rebuilt(&self.sound)) == self.world.digest();
        if is_same { Ok(()) } else { Err("the database from the files is another".to_owned()) }
    }

    fn step(&mut self, random: &mut Random) -> Result<usize, String> {
        let mut mined = 0;
        match random.below(12) {
            0..=3 => {
                mined = 1 + usize::try_from(random.below(4)).unwrap();
                self.mine(mined);
            }
            4..=6 => self.persist(),
            7 | 8 => self.prune()?,
            9 => {
                let percents = [0, 0, 10, 40, 100];
                let which = usize::try_from(random.below(5)).unwrap();
                self.faulty.mood().fail_percent = percents[which];
            }
            10 => self.start_persister(),
            _ => {
                // Another program over the same store.
                let store = self.store.clone();
                self.pruning = Pruning::without_threads(store, &pruner_config()).unwrap();
                let (pruning, index) = (self.pruning.clone(), self.world.index.clone());
                self.consumer = PrunerConsumer::new(pruning, index);
            }
        }
        self.check()?;
        Ok(mined)
    }
}

fn simulate(seed: u64, blocks: usize, planted: Option<Planted>) -> Result<Tally, String> {
    let mut random = Random(seed);
    let mut simulation = Simulation::new(seed, planted);
    let (mut mined, mut next_whole) = (0, 50);
    while mined < blocks {
        mined += simulation.step(&mut random)?;
        if mined >= next_whole {
            next_whole *= 3;
            simulation.check_whole()?;
        }
    }
    simulation.check_whole()?;
    simulation.prune()?;
    let mut tally = simulation.tally;
    tally.reorganisations = simulation.world.follower.report().reorganisations;
    let mood = simulation.faulty.mood();
    (tally.failed_puts, tally.half_puts) = (mood.failures, mood.halves);
    Ok(tally)
}

#[test]
fn invariants_hold_over_a_long_history() {
    for seed in 1..=3 {
        let tally =
            simulate(seed, blocks(), None).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let Tally { reorganisations, failed_steps, failed_puts, half_puts, .. } = tally;
        assert!(reorganisations > 5 && failed_steps > 5, "{seed}: {tally:?}");
        assert!(failed_puts > 50 && half_puts > 5, "{seed}: {tally:?}");
        assert!(tally.runs > 10 && tally.deleted > 100 && tally.held_back > 5, "{seed}: {tally:?}");
    }
}

#[test]
fn every_planted_mistake_is_noticed() {
    for planted in ALL_PLANTED {
        let noticed: Vec<String> =
            (1..=8).filter_map(|seed| simulate(seed, 150, Some(planted)).err()).collect();
        assert!(!noticed.is_empty(), "{planted:?}");
    }
}
