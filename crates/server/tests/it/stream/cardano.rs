//! The stream over the first blocks of a public Cardano network.

use std::{collections::BTreeMap, path::Path};

use utxokeep::{
    config::StreamConfig,
    stream::{BlockChanges, ChangedOutput, Start, StreamLimits, StreamReader},
};
use utxokeep_chains::cardano::ImmutableDb;
use utxokeep_core::{
    AssetFilter, Direction, Height, IndexKey, Network, OutPoint, UtxoRecord, WatchFilter,
};
use utxokeep_index::{
    AssetId, ChainIndex, ChainWriter, IndexSettings, OutputDetails,
    tables::{TABLES, ids::UNSPENT},
};
use utxokeep_kv::{MemoryKv, Read as _, Scan};
use utxokeep_testkit::preview_immutable;

const PREVIEW: Network = Network::CardanoPreview;

/// Enough for native assets and datums to appear.
const BLOCKS: usize = 12_000;

/// Blocks between two comparisons.
const BLOCKS_BETWEEN: usize = 500;

type Held = (Vec<u8>, u64, Vec<(AssetId, u64)>);
type Set = BTreeMap<OutPoint, Held>;

struct Watcher {
    watch: WatchFilter,
    reader: StreamReader<MemoryKv>,
    set: Set,
}

impl Watcher {
    fn new(index: &ChainIndex<MemoryKv>, watch: WatchFilter) -> Self {
        let at = Start::Now.find(index).unwrap();
        let limits = StreamLimits::of(&StreamConfig::default());
        let reader = StreamReader::new(index.clone(), watch.clone(), limits, at);
        let set = set_of(index, &watch);
        Self { watch, reader, set }
    }

    fn read_to_tip(&mut self, index: &ChainIndex<MemoryKv>) {
        loop {
            let step = self.reader.step().unwrap();
            step.events.iter().for_each(|event| self.take(event));
            if step.is_at_tip {
                break;
            }
        }
        assert!(self.set == set_of(index, &self.watch), "{:?}", self.watch);
    }

    fn take(&mut self, event: &BlockChanges) {
        assert!(event.replaced.is_empty());
        let (put, remove) = match event.direction {
            Direction::Apply => (&event.created, &event.spent),
            Direction::Undo => (&event.spent, &event.created),
        };
        let held = |output: &ChangedOutput| {
            (output.address.clone(), output.value, output.details.assets.clone())
        };
        for output in put {
            assert!(self.set.insert(output.outpoint, held(output)).is_none());
        }
        for output in remove {
            assert_eq!(self.set.remove(&output.outpoint), Some(held(output)));
        }
    }
}

fn set_of(index: &ChainIndex<MemoryKv>, watch: &WatchFilter) -> Set {
    let mut set = Set::new();
    let mut take = |key: &[u8], value: &[u8]| {
        let record = UtxoRecord::decode(value).unwrap();
        if watch.matches(PREVIEW, &record).unwrap() {
            let assets = OutputDetails::new(&record.details).unwrap().assets;
            let held = (record.address.to_vec(), record.value, assets);
            set.insert(OutPoint::from_key(key).unwrap(), held);
        }
        true
    };
    index.engine().scan(UNSPENT, &Scan::ALL, &mut take).unwrap();
    set
}

#[test]
fn sets_kept_over_preview_equal_the_index_also_by_credential_and_policy() {
    let Some(dir) = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let index = ChainIndex::open(MemoryKv::new(TABLES), IndexSettings::new(PREVIEW)).unwrap();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let decoder = index.settings().decoder.clone();
    let mut watchers: Vec<Watcher> = Vec::new();
    let (mut has_policy, mut compared) = (false, 0);
    for (count, raw) in db.blocks_from(db.start()).take(BLOCKS).enumerate() {
        writer.apply(&decoder.decode(raw.unwrap().bytes).unwrap()).unwrap();
        if count % BLOCKS_BETWEEN != 0 {
            continue;
        }
        if watchers.is_empty() {
            watchers.push(Watcher::new(&index, WatchFilter::default()));
        }
        for watcher in &mut watchers {
            watcher.read_to_tip(&index);
        }
        compared += 1;
        let whole = watchers[0].set.clone();
        if watchers.len() == 1 {
            let keys = whole.values().find_map(|(address, ..)| {
                let [payment, stake] = IndexKey::credentials(PREVIEW, address);
                payment.or(stake)
            });
            if let Some(key) = keys.filter(|_| count > 1_000) {
                watchers.push(Watcher::new(&index, WatchFilter::new([key], [])));
            }
        }
        let asset = whole.values().find_map(|(_, _, assets)| Some(assets.first()?.0.clone()));
        if let Some((policy, _)) = asset.filter(|_| !has_policy) {
            has_policy = true;
            let policy = AssetFilter { policy, name: None };
            watchers.push(Watcher::new(&index, WatchFilter::new([], [policy])));
        }
    }
    let tip = index.view().unwrap().tip().unwrap().0;
    writer.rollback(Height::new(tip.get() - 700)).unwrap();
    for watcher in &mut watchers {
        watcher.read_to_tip(&index);
    }
    assert!(compared > 10 && watchers.len() >= 2, "{compared} {}", watchers.len());
}
