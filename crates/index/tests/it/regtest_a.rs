//! The index agrees with a real Bitcoin Core on the chain it made, block by block.

use utxokeep_chains::{BlockSource, decode_block};
use utxokeep_core::{BlockHash, Height};
use utxokeep_index::{
    ChainIndex, ChainWriter, Digest, IndexSettings, import_files, tables::TABLES,
};
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::{EventKind, RegtestA, Truth};

fn settings() -> IndexSettings {
    IndexSettings::new(RegtestA::NETWORK)
}

fn open(settings: IndexSettings) -> ChainIndex<MemoryKv> {
    ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap()
}

fn imported(settings: IndexSettings, bulk: bool) -> ChainIndex<MemoryKv> {
    let index = open(settings);
    let writer = ChainWriter::new(index.clone()).unwrap();
    let files = RegtestA::default().block_files();
    import_files(writer, &files, bulk, &mut |_| true).unwrap();
    index
}

fn reversed_hex(mut hash: [u8; 32]) -> String {
    hash.reverse();
    utxokeep_core::hex_encode(&hash)
}

fn assert_equal(digest: &Digest, truth: &Truth) {
    let at = truth.height;
    assert_eq!(digest.point.height, Height::new(at));
    assert_eq!(digest.totals.txouts, truth.txouts, "txouts at {at}");
    assert_eq!(digest.totals.total_amount, truth.total_sat(), "amount at {at}");
    assert_eq!(digest.totals.bogosize, truth.bogosize, "bogosize at {at}");
    assert_eq!(reversed_hex(digest.muhash.unwrap()), truth.muhash, "muhash at {at}");
    if let (Some(hash), Some(truth)) = (digest.ordered_hash, &truth.hash_serialized_3) {
        assert_eq!(reversed_hex(hash), *truth, "hash_serialized_3 at {at}");
    }
}

#[test]
fn import_ends_at_the_nodes_tip_with_its_digest() {
    let data = RegtestA::default();
    let truth = data.truth_by_hash();
    let tip = *data.active_chain().last().unwrap();
    for bulk in [false, true] {
        let index = imported(settings(), bulk);
        let view = index.view().unwrap();
        assert_eq!(view.point().unwrap().hash, tip);
        assert_equal(&view.digest(true).unwrap(), &truth[&tip]);
        let report = index.verify(&mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

#[test]
fn every_height_of_the_window_has_the_nodes_digest() {
    let data = RegtestA::default();
    let truth = data.truth_by_hash();
    for muhash in [false, true] {
        let index = imported(settings().with(|settings| settings.muhash = muhash), true);
        let floor = index.status().unwrap().rollback_floor.unwrap();
        assert_eq!(floor, Height::new(12));
        for (height, hash) in (0u32..).zip(data.active_chain()).skip(12) {
            let view = index.view().unwrap().at(Height::new(height)).unwrap();
            let digest = view.digest(height.is_multiple_of(50)).unwrap();
            assert_eq!(digest.scanned, !muhash || height.is_multiple_of(50));
            assert_equal(&digest, &truth[&hash]);
        }
    }
}

#[test]
fn every_single_event_leaves_the_nodes_digest() {
    let data = RegtestA::default();
    let truth = data.truth_by_hash();
    let files = data.block_files();
    let mut settings = settings().with(|settings| settings.muhash = true);
    settings.window.rollback_window = 400;
    let index = open(settings);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let block =
        |hash: &BlockHash| decode_block(files.raw(hash).unwrap(), RegtestA::NETWORK).unwrap();
    writer.apply(&block(&RegtestA::NETWORK.genesis_hash())).unwrap();
    for event in data.events() {
        let hash = BlockHash::from_reversed_hex(&event.hash).unwrap();
        match event.ev {
            EventKind::Connect => drop(writer.apply(&block(&hash)).unwrap()),
            EventKind::Disconnect => {
                assert_eq!(writer.tip().unwrap().hash, hash);
                writer.rollback(Height::new(event.height).minus(1)).unwrap();
            }
            EventKind::Tip => continue,
        }
        let tip = writer.tip().unwrap().hash;
        let digest = index.view().unwrap().digest(false).unwrap();
        assert_equal(&digest, &truth[&tip]);
    }
    assert_eq!(writer.tip().unwrap().hash, *data.active_chain().last().unwrap());
    let report = index.verify(&mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
