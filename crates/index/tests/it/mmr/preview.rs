//! The preview network of Cardano from its first block.

use std::path::Path;

use utxokeep_chains::cardano::ImmutableDb;
use utxokeep_core::Network;
use utxokeep_index::{MmrBuilt, import_immutable};
use utxokeep_kv::Durability;
use utxokeep_testkit::preview_immutable;

use super::*;

fn open_data() -> Option<ImmutableDb> {
    let dir = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    Some(ImmutableDb::open(&dir).unwrap())
}

fn preview(mmr: Option<MmrRule>) -> IndexSettings {
    let settings = IndexSettings::new(Network::CardanoPreview);
    settings.with(|settings| {
        settings.mmr = mmr;
        settings.durability = Durability::Buffered;
    })
}

fn blocks(db: &ImmutableDb) -> impl Iterator<Item = Block> {
    let decoder = preview(None).decoder;
    db.blocks_from(db.start()).map(move |raw| decoder.decode(raw.unwrap().bytes).unwrap())
}

/// Elsewhere collateral returns got no leaf. The chain has some, and the naive tree knows no
/// difference between them and other outputs.
#[test]
fn mistake_collateral_returns_left_out() {
    let Some(db) = open_data() else { return };
    let rule = MmrRule::Tombstone;
    let mut naive = Naive::new(rule);
    let mut returns = 0;
    for (height, block) in (0..).zip(blocks(&db)) {
        returns += block.txs.iter().filter(|tx| tx.is_invalid && !tx.outputs.is_empty()).count();
        naive.apply(&block, Height::new(height));
    }
    assert!(returns > 0, "there are collateral returns");
    for bulk in [true, false] {
        let index = InMemory::default().open(preview(Some(rule)));
        let writer = ChainWriter::new(index.clone()).unwrap();
        let (mut writer, _) = import_immutable(writer, &db, bulk, &mut |_| true).unwrap();
        assert_eq!(root(&index, None), naive.root(), "bulk: {bulk}");
        assert_clean(&index, "imported");
        let (tip, before) = (writer.tip().unwrap().height, root(&index, None));
        for depth in [1, 40, 431] {
            let target = tip.minus(depth);
            let expected = root(&index, Some(target.get()));
            writer.rollback(target).unwrap();
            assert_eq!(root(&index, None), expected, "{depth} blocks undone");
            let (again, _) = import_immutable(writer, &db, bulk, &mut |_| true).unwrap();
            writer = again;
            assert_eq!(root(&index, None), before);
        }
        assert_clean(&index, "undone and applied again");
    }
    let place = InMemory::default();
    let writer = ChainWriter::new(place.open(preview(None))).unwrap();
    drop(import_immutable(writer, &db, true, &mut |_| true).unwrap());
    let mut chain = blocks(&db);
    let built = ChainWriter::new(place.open(preview(None))).unwrap().build_mmr(
        rule,
        &mut |_, hash| Ok(chain.find(|block| block.header.hash == *hash).unwrap()),
        &mut |_, _| true,
    );
    assert_eq!(built.unwrap(), MmrBuilt::Done);
    let index = place.open(preview(Some(rule)));
    assert_eq!(root(&index, None), naive.root(), "enabled on an existing index");
    assert_clean(&index, "enabled");
}
