//! How large a store stays that follows a long chain beside the pruner.

use std::time::{Duration, Instant};

use utxokeep_txstore::TxStore as _;

use super::{check::live, *};
use crate::{config::PrunerConfig, pruning::Pruning};

/// Blocks of the chain, unless `UTXOKEEP_STORE_FOLLOW_BLOCKS` says otherwise.
const BLOCKS: usize = 300;

/// From here on retention and window are those of the program; a shorter chain would never reach them.
const LONG_BLOCKS: usize = 2_000;

/// How long the pruner may take for what has become due.
const PATIENCE: Duration = Duration::from_secs(600);

fn blocks() -> usize {
    let named = std::env::var("UTXOKEEP_STORE_FOLLOW_BLOCKS").ok();
    named.map_or(BLOCKS, |text| text.parse().expect("a number of blocks"))
}

/// Numbers of store and pruner.
fn windows(blocks: usize) -> (TxStoreConfig, PrunerConfig) {
    let of_store = TxStoreConfig { fsync: false, ..TxStoreConfig::default() };
    let of_pruner = PrunerConfig::default();
    if blocks >= LONG_BLOCKS {
        return (of_store, of_pruner);
    }
    let height_jump_blocks_max = std::num::NonZeroU32::new(30).unwrap();
    let of_store = TxStoreConfig { retention_blocks: 40, height_jump_blocks_max, ..of_store };
    let (safety_window_blocks, unmined_retention_blocks) = (40, 20);
    (of_store, PrunerConfig { safety_window_blocks, unmined_retention_blocks, ..of_pruner })
}

/// Waits until the pruner has completed the height of the tip.
fn until_pruned(pruning: &Pruning, tip: Height) {
    let started = Instant::now();
    loop {
        let status = pruning.pruner().status().unwrap();
        if status.heights.completed() >= Some(tip) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "the pruner stands at {:?}", status.heights);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are what a long run is for")]
fn a_store_beside_the_pruner_keeps_what_is_unspent_and_what_is_young() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("rocksdb:{}", dir.path().join("store").display());
    // Wallets spend most of what they get, so that the set stays small.
    let config = SimulatorConfig {
        seed: 3,
        txs_per_block: 10..40,
        wide_percent: 2,
        coins_max: 2_000,
        reorg_percent: 3,
        ..SimulatorConfig::default()
    };
    let mut world = World::new(config);
    let (blocks, mut mined) = (blocks(), 0);
    let (of_store, of_pruner) = windows(blocks);
    let window = of_store.retention_blocks + of_pruner.safety_window_blocks;
    let store = node_store::open(&url, &of_store, OpenMode::Create).unwrap();
    let mut following = world.following(&store);
    following.register().unwrap();
    let pruning = Pruning::start_following(store.clone(), &of_pruner, &world.index).unwrap();
    while mined < blocks {
        let some = (blocks - mined).min(20);
        world.mine(some);
        mined += some;
        run(&mut following).unwrap();
        until_pruned(&pruning, world.tip());
        if mined % 500 < 20 || mined == blocks {
            let unspent = live(&world.index).len();
            let sample = store.sample().unwrap().unwrap();
            println!(
                "block {}: {unspent} live outputs, about {} records, {} bytes on disk",
                world.tip(),
                sample.records.count,
                sample.bytes.unwrap_or(0),
            );
        }
    }
    pruning.stop();
    let found = compare(&world.index, &store, &world.raws, true);
    println!("{found:?}, of {} transactions", world.raws.ids().len());
    assert!(found.pruned > 100, "{found:?}");
    // What was spent longer ago than retention and window is gone: the rest is unspent or young.
    let young = young_transactions(&world, window);
    assert!(found.mined <= found.unspent + young + found.unmined, "{found:?}, {young} are young");
}

/// Transactions of the chain that are in, or were spent in, blocks that nothing may be pruned of.
fn young_transactions(world: &World, window: u32) -> usize {
    let view = world.index.view().unwrap();
    let tip = view.tip().unwrap().0;
    let mut young = std::collections::BTreeSet::new();
    for height in tip.minus(window + 20).get().max(1)..=tip.get() {
        let hash = view.log().block(Height::new(height)).unwrap().unwrap().entry.hash;
        for tx in node_txs(&world.raws.raw(&hash)).unwrap() {
            young.extend(tx.spends().map(|input| *input.outpoint.txid()));
            young.insert(tx.txid);
        }
    }
    young.len()
}
