//! A long history: blocks and reorganisations arrive, the persister lags behind, its place fails and
//! comes back, programs restart, and a pruner runs beside it. After every step nothing is pruned
//! above what is persisted, and what is persisted is whole.

use std::fs;

use super::*;

/// Blocks of the history, unless `UTXOKEEP_PERSISTER_BLOCKS` says otherwise: a nightly run has more.
const BLOCKS: usize = 300;

fn blocks() -> usize {
    let named = std::env::var("UTXOKEEP_PERSISTER_BLOCKS").ok();
    named.map_or(BLOCKS, |text| text.parse().expect("a number of blocks"))
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

/// The newest block at which a run was complete, and what was persisted of the chain then.
fn check(world: &World, pruning: &Pruning, place: &PersistedPlace) {
    let heights = pruning.pruner().status().unwrap().heights;
    let reached = world.index.reached(NAME).unwrap();
    // Both were read at different moments: a persister only moves when this thread lets it.
    assert!(heights.completed() <= heights.persisted().or(reached), "{heights:?} {reached:?}");
    let mark = place.watermark().unwrap().and_then(|mark| mark.block);
    let Some((height, hash)) = mark else { return };
    let raw = place.raw(height, hash).unwrap();
    assert_eq!(raw.block.header.hash, hash);
}

#[test]
fn invariants_hold_over_a_long_history() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    let (folder, aside) = (files.join("0000000"), files.join("aside"));
    let place = place(&files);
    let mut random = Random(7);
    let mut world =
        World::new(SimulatorConfig { txs_per_block: 0..6, ..SimulatorConfig::default() });
    let store = node_store::open("memory:", &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let start = |world: &World| {
        Pruning::start_following(store.clone(), &PrunerConfig::default(), &world.index).unwrap()
    };
    world.persister(place.clone()).register().unwrap();
    let (mut pruning, mut persister) = (start(&world), world.persister(place.clone()));
    let (mut mined, mut is_away, mut failures) = (0, false, 0);
    while mined < blocks() {
        match random.below(10) {
            0..=4 => {
                let some = 1 + usize::try_from(random.below(4)).unwrap();
                world.mine(some);
                mined += some;
            }
            5 | 6 => {
                // It lags: one step is not all there is.
                if persister.step(&|| false).is_err() {
                    failures += 1;
                    persister = world.persister(place.clone());
                }
            }
            7 if !is_away && folder.is_dir() => {
                fs::rename(&folder, &aside).unwrap();
                fs::write(&folder, b"in the way").unwrap();
                is_away = true;
            }
            7 if is_away => {
                fs::remove_file(&folder).unwrap();
                fs::rename(&aside, &folder).unwrap();
                is_away = false;
            }
            8 => persister = world.persister(place.clone()),
            _ => {
                pruning.stop();
                pruning = start(&world);
            }
        }
        if !is_away {
            check(&world, &pruning, &place);
        }
    }
    if is_away {
        fs::remove_file(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
    }
    run(&mut world.persister(place.clone())).unwrap();
    assert!(failures > 0, "the place never failed");
    assert!(world.follower.report().reorganisations > 0);
    is_sound(&world.index, &place);
    assert_eq!(digest(&rebuilt(&place)), world.digest());
}
