//! What the tests of the index share: engines that can be opened again, and whole-table dumps.

pub(crate) mod check;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tempfile::TempDir;
use utxokeep_chains::{BlockSource, SimCoin, SimTip, Simulator, SimulatorConfig, decode_block};
use utxokeep_core::{Block, BlockEntry, BlockHash, Header, Height, Network, hex_encode};
use utxokeep_index::{
    ChainIndex, ChainWriter, IndexSettings,
    tables::{BLOCKS, CLASSIC_TABLES, META, TABLES},
};
use utxokeep_kv::{
    Batch, Durability, Kv, KvError, MemoryKv, OpenMode, Read, RocksKv, RocksOptions, Scan,
    SortedRows, TableId,
};
use utxokeep_testkit::{ANYONE, Archive, HandTx, Hook, HookedKv, Model, ModelCoin, mine};

pub(crate) const REGTEST: Network = Network::BitcoinRegtest;

/// Small windows, and no waiting for disks.
pub(crate) fn settings(rollback_window: u32) -> IndexSettings {
    let mut settings = IndexSettings::new(REGTEST);
    settings.window.prune_depth = rollback_window;
    settings.window.rollback_window = rollback_window;
    settings.durability = Durability::Buffered;
    settings
}

/// A place where a database can be closed and opened again.
pub(crate) trait IndexPlace: Default {
    type K: Kv;
    fn open(&self, settings: IndexSettings) -> ChainIndex<Self::K>;
}

/// Fails every write after some, as after a crash.
#[derive(Debug)]
pub(crate) struct Dying {
    /// Writes that still succeed.
    commits_left: AtomicU64,
}

impl Dying {
    const fn after(commits: u64) -> Self {
        Self { commits_left: AtomicU64::new(commits) }
    }

    fn may_write(&self) -> Result<(), KvError> {
        let left = &self.commits_left;
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .map_or(Err(KvError::Poisoned), |_| Ok(()))
    }
}

impl Hook for Dying {
    fn read(&self, _: TableId, keys: &[&[u8]]) {
        assert!(keys.is_sorted(), "the port asks for ascending keys");
    }

    fn commit(&self, _: &Batch) -> Result<(), KvError> {
        self.may_write()
    }

    fn load(&self, _: &[&dyn SortedRows], _: &Batch) -> Result<(), KvError> {
        self.may_write()
    }
}

/// The engine behind [`InMemory`].
pub(crate) type MemoryEngine = HookedKv<MemoryKv, Dying>;

/// Tables in memory that outlive the index on top of them. Commits can be made to fail.
#[derive(Debug, Clone)]
pub(crate) struct InMemory(pub(crate) MemoryEngine);

impl Default for InMemory {
    fn default() -> Self {
        Self(HookedKv::new(MemoryKv::new(TABLES), Dying::after(u64::MAX)))
    }
}

impl InMemory {
    /// The same tables behind a handle whose first `commits` writes succeed and no later one.
    pub(crate) fn dying_after(&self, commits: u64) -> Self {
        let hook = Arc::new(Dying::after(commits));
        Self(HookedKv { kv: Arc::clone(&self.0.kv), hook })
    }
}

impl IndexPlace for InMemory {
    type K = MemoryEngine;
    fn open(&self, settings: IndexSettings) -> ChainIndex<MemoryEngine> {
        ChainIndex::open(self.0.clone(), settings).unwrap()
    }
}

/// A RocksDB directory that goes with the value.
#[derive(Debug)]
pub(crate) struct OnDisk(pub(crate) TempDir);

impl Default for OnDisk {
    fn default() -> Self {
        Self(TempDir::new().unwrap())
    }
}

pub(crate) fn rocks_options() -> RocksOptions {
    RocksOptions::within(16 << 20)
}

impl IndexPlace for OnDisk {
    type K = RocksKv;
    fn open(&self, settings: IndexSettings) -> ChainIndex<RocksKv> {
        ChainIndex::open_dir(self.0.path(), settings, rocks_options(), OpenMode::Create).unwrap()
    }
}

/// Every row of every table, but for the numbers of blocks: they tell of every block that ever left
/// the chain, which the rest does not.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Dump(pub(crate) Vec<Vec<(Vec<u8>, Vec<u8>)>>);

/// The tables that every database has.
pub(crate) fn dump(read: &impl Read) -> Dump {
    dump_first(read, CLASSIC_TABLES)
}

/// Those of a Merkle mountain range too.
pub(crate) fn dump_all(read: &impl Read) -> Dump {
    dump_first(read, TABLES.len())
}

/// A log entry without its number, which tells of every block that ever left the chain.
fn unnumbered(entry: &[u8]) -> Vec<u8> {
    match BlockEntry::decode(entry) {
        Ok(entry) => BlockEntry { number_ahead: 0, ..entry }.encode(),
        // Damaged on purpose.
        Err(_) => entry.to_vec(),
    }
}

fn dump_first(read: &impl Read, tables: usize) -> Dump {
    let table = |id: usize| {
        let mut rows = Vec::new();
        let table = TableId(u8::try_from(id).unwrap());
        read.scan(table, &Scan::ALL, &mut |key, value| {
            if table == META.id() && key == b"undone_number" {
                return true;
            }
            let value = if table == BLOCKS.id() { unnumbered(value) } else { value.to_vec() };
            rows.push((key.to_vec(), value));
            true
        })
        .unwrap();
        rows
    };
    Dump((0..tables).map(table).collect())
}

/// Panics with the first row that differs, outside the tables in `except`.
#[track_caller]
pub(crate) fn assert_same(left: &Dump, right: &Dump, except: &[TableId], what: &str) {
    for (id, (left, right)) in left.0.iter().zip(&right.0).enumerate() {
        if left == right || except.iter().any(|table| usize::from(table.0) == id) {
            continue;
        }
        let name = TABLES[id].name;
        let only = |a: &[(Vec<u8>, Vec<u8>)], b: &[(Vec<u8>, Vec<u8>)]| {
            let first = a.iter().find(|row| b.binary_search(row).is_err());
            first.map(|(key, value)| format!("{} => {}", hex_encode(key), hex_encode(value)))
        };
        let (in_left, in_right) = (only(left, right), only(right, left));
        panic!(
            "{what}: table {name} differs ({} rows and {} rows)\n only left: {in_left:?}\nonly right: {in_right:?}",
            left.len(),
            right.len()
        );
    }
}

/// Fetches and decodes a block.
pub(crate) fn block(source: &dyn BlockSource, hash: &BlockHash) -> Block {
    decode_block(source.raw(hash).unwrap(), REGTEST).unwrap()
}

/// A fresh index in memory that has seen only these blocks, one batch each.
pub(crate) fn fresh(
    settings: IndexSettings,
    source: &dyn BlockSource,
    chain: &[BlockHash],
) -> ChainIndex<MemoryEngine> {
    let index = InMemory::default().open(settings);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in chain {
        writer.apply(&block(source, hash)).unwrap();
    }
    index
}

#[track_caller]
pub(crate) fn assert_clean<K: Kv>(index: &ChainIndex<K>, what: &str) {
    let report = index.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{what}: {:#?}", report.findings);
}

/// Prunes until nothing is due.
pub(crate) fn prune_fully<K: Kv>(writer: &mut ChainWriter<K>) {
    while writer.prune_pass().unwrap().more {}
}

/// The chain that ends in the first of the longest branches, by height; all blocks have equal work.
pub(crate) fn best_chain(genesis: BlockHash, headers: &[Header]) -> Vec<BlockHash> {
    let mut known = std::collections::BTreeMap::from([(genesis, (0u32, genesis))]);
    let mut best = (0, genesis);
    for header in headers.iter().filter(|header| header.hash != genesis) {
        let height = known[&header.prev].0 + 1;
        known.insert(header.hash, (height, header.prev));
        if height > best.0 {
            best = (height, header.hash);
        }
    }
    let mut chain = vec![best.1];
    while chain[chain.len() - 1] != genesis {
        chain.push(known[&chain[chain.len() - 1]].1);
    }
    chain.reverse();
    chain
}

/// The model after these blocks.
pub(crate) fn model_of(source: &dyn BlockSource, chain: &[BlockHash]) -> Model {
    let mut model = Model::new(REGTEST);
    for hash in chain {
        model.apply(&block(source, hash)).unwrap();
    }
    model
}

/// Simulates `count` blocks on top of `chain`, which may end anywhere.
pub(crate) fn simulate_branch(
    archive: &mut Archive,
    config: SimulatorConfig,
    chain: &[BlockHash],
    count: usize,
) -> Vec<BlockHash> {
    let model = model_of(archive, chain);
    let tip = model.blocks().last().unwrap();
    let tip = SimTip { height: Height::new(model.tip().unwrap()), hash: tip.hash, time: tip.time };
    let coins = model.live().iter().map(|(&outpoint, coin)| SimCoin {
        outpoint,
        value: coin.value,
        height: Height::new(coin.height),
        is_coinbase: coin.is_coinbase,
    });
    let mut simulator = Simulator::resume(config, tip, coins.collect());
    let mut hashes = Vec::new();
    for _ in 0..count {
        let (header, raw) = simulator.mine_next();
        hashes.push(header.hash);
        archive.push(header, raw);
    }
    hashes
}

/// Adds three blocks on top of `chain`, of which the second spends an output twice.
pub(crate) fn bad_branch(archive: &mut Archive, chain: &[BlockHash]) -> Vec<BlockHash> {
    let model = model_of(archive, chain);
    let height = model.tip().unwrap() + 1;
    let is_mature =
        |coin: &ModelCoin| !coin.is_coinbase || height - coin.height >= REGTEST.coinbase_maturity();
    let coin = model.live().iter().find(|(_, coin)| is_mature(coin)).map(|(name, _)| *name);
    let spend = |fee_free: u64| vec![HandTx::new(&[coin.unwrap()], &[0, fee_free])];
    let mut parent = *archive.headers().iter().find(|h| h.hash == chain[chain.len() - 1]).unwrap();
    let mut hashes = Vec::new();
    for (height, txs) in (height..).zip([spend(0), spend(0), vec![]]) {
        let mined = mine(&parent, height, 1_000, &[(0, ANYONE)], &txs);
        parent = mined.header;
        hashes.push(parent.hash);
        archive.push(mined.header, mined.raw);
    }
    hashes
}
