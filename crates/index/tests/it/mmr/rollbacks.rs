//! Imports that are stopped and rolled back at random places end with the root of a straight one.

use std::path::Path;

use utxokeep_chains::cardano::ImmutableDb;
use utxokeep_core::Network;
use utxokeep_index::{ImportProgress, import_files, import_immutable};
use utxokeep_kv::Durability;
use utxokeep_testkit::preview_immutable;

use super::{killed::Random, *};
use crate::common::MemoryEngine;

type Writer = ChainWriter<MemoryEngine>;

/// Stops an import after any number of blocks, goes back by any number that the window allows, and
/// resumes, as often as `times`; answers the root at the end and how many blocks were undone.
fn with_random_rollbacks(
    settings: &IndexSettings,
    seed: u64,
    (times, blocks_at_once): (u32, u64),
    mut import: impl FnMut(Writer, bool, &mut dyn FnMut(&ImportProgress) -> bool) -> Writer,
) -> ((u64, NodeHash), u32) {
    let mut random = Random(seed);
    let index = InMemory::default().open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let mut undone = 0;
    for _ in 0..times {
        let mut left = random.below(blocks_at_once);
        writer = import(writer, random.below(2) == 0, &mut |_| {
            left = left.saturating_sub(1);
            left > 0
        });
        writer.flush().unwrap();
        let Some(tip) = writer.tip().map(|tip| tip.height) else { continue };
        let room = u64::from(tip.get() - writer.floor().get()) + 1;
        let target = tip.minus(u32::try_from(random.below(room)).unwrap());
        let expected = root(&index, Some(target.get()));
        writer.rollback(target).unwrap();
        assert_eq!(root(&index, None), expected, "from {tip} back to {target}");
        undone += tip.get() - target.get();
    }
    drop(import(writer, true, &mut |_| true));
    assert_clean(&index, "rolled back at random");
    (root(&index, None), undone)
}

#[test]
fn a_node_made_chain_with_random_rollbacks_ends_with_its_root() {
    let files = RegtestA::default().block_files();
    for rule in RULES {
        let settings =
            IndexSettings::new(RegtestA::NETWORK).with(|settings| settings.mmr = Some(rule));
        let straight = InMemory::default().open(settings.clone());
        let writer = ChainWriter::new(straight.clone()).unwrap();
        drop(import_files(writer, &files, false, &mut |_| true).unwrap());
        for seed in 0..2 {
            let (found, undone) =
                with_random_rollbacks(&settings, seed, (12, 120), |writer, bulk, progress| {
                    import_files(writer, &files, bulk, progress).unwrap().0
                });
            assert_eq!(found, root(&straight, None), "{rule}, seed {seed}");
            assert!(undone > 100, "{undone} blocks undone");
        }
    }
}

#[test]
fn the_preview_network_with_random_rollbacks_ends_with_its_root() {
    let Some(dir) = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let settings = IndexSettings::new(Network::CardanoPreview).with(|settings| {
        settings.mmr = Some(MmrRule::Tombstone);
        settings.durability = Durability::Buffered;
    });
    let straight = InMemory::default().open(settings.clone());
    let writer = ChainWriter::new(straight.clone()).unwrap();
    drop(import_immutable(writer, &db, true, &mut |_| true).unwrap());
    let (found, undone) =
        with_random_rollbacks(&settings, 5, (10, 12_000), |writer, bulk, progress| {
            import_immutable(writer, &db, bulk, progress).unwrap().0
        });
    assert_eq!(found, root(&straight, None));
    assert!(undone > 500, "{undone} blocks undone");
}
