//! What eras do: boundary blocks, vouchers, outputs of nothing.

use utxokeep_chains::cardano::{CardanoFiles, Genesis, ImmutableDb};
use utxokeep_core::{
    BlockHash, Height, IndexKey, Network, OutPoint, Window, cardano::is_redeem_address,
};
use utxokeep_index::{
    Applied, ChainIndex, ChainWriter, Follower, IndexSettings, Mode, import_files,
    import_immutable, tables::TABLES,
};
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::cardano::{
    BlockSpec, Built, ByronKind, Encoding, Era, OutSpec, TxSpec, byron, write_immutable,
};

use crate::cardano_mistakes::chain::key;

const MAINNET: Network = Network::CardanoMainnet;

/// A chain that goes through the first eras of the main network, its blocks made by hand.
pub(crate) struct Eras {
    pub(crate) index: ChainIndex<MemoryKv>,
    pub(crate) writer: ChainWriter<MemoryKv>,
    pub(crate) built: Vec<Built>,
}

impl Eras {
    fn new() -> Self {
        let index = ChainIndex::open(MemoryKv::new(TABLES), IndexSettings::new(MAINNET)).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let genesis = *MAINNET.genesis_hash().as_bytes();
        let first = BlockSpec {
            era: Era::ByronBoundary,
            number: 0,
            slot: 0,
            prev: Some(genesis),
            txs: Vec::new(),
            style: Encoding::default(),
        };
        let mut eras = Self { index, writer, built: Vec::new() };
        assert_eq!(eras.push(&first), Applied::Connected(Height::GENESIS));
        eras
    }

    fn push(&mut self, spec: &BlockSpec) -> Applied {
        let built = spec.build();
        let block = self.index.settings().decoder.decode(built.raw.clone()).unwrap();
        let applied = self.writer.apply(&block).unwrap();
        self.built.push(built);
        applied
    }

    fn mine(&mut self, era: Era, txs: Vec<TxSpec>) -> Built {
        let mut spec = self.built.last().unwrap().next(era, txs);
        if era == Era::Shelley && spec.slot < 4_492_800 {
            spec.slot = 4_492_800;
        }
        self.push(&spec);
        self.built.last().unwrap().clone()
    }

    fn txouts(&self) -> u64 {
        self.index.status().unwrap().totals.unwrap().txouts
    }

    pub(crate) fn is_live(&self, outpoint: OutPoint) -> bool {
        let found = self.index.view().unwrap().utxo(outpoint).unwrap();
        found.is_some_and(|utxo| utxo.spent.is_none())
    }
}

#[test]
fn byron_was_left_out_and_vouchers_removed_by_the_wrong_list() {
    let genesis = Genesis::public(MAINNET).unwrap();
    let vouchers: Vec<_> =
        genesis.outputs().iter().map(|output| OutPoint::new(output.txid, 0)).collect();
    assert!(genesis.outputs().iter().all(|output| is_redeem_address(&output.address)));
    let mut eras = Eras::new();
    assert_eq!(eras.txouts(), 14_505);
    let total = eras.index.status().unwrap().totals.unwrap().total_amount;
    assert_eq!(total, 31_112_484_745_000_000);

    // One voucher is redeemed in Byron; somebody pays to a voucher's address after Byron.
    let ordinary = byron(ByronKind::Key, [1; 28], None);
    let late = byron(ByronKind::Redeem, [2; 28], None);
    let redeemed = vouchers[7];
    let input = (*redeemed.txid().as_bytes(), 0);
    let outputs = [OutSpec::new(&ordinary, 10), OutSpec::new(&ordinary, 0)];
    let in_byron = eras.mine(Era::Byron, vec![TxSpec::new(&[input], &outputs)]);
    let nothing = OutPoint::new(utxokeep_core::Txid::from_bytes(in_byron.txids[0]), 1);
    assert!(!eras.is_live(redeemed) && eras.is_live(nothing));

    // A boundary block takes no height and its child is the child of the block before.
    let height = eras.writer.tip().unwrap().height;
    eras.mine(Era::ByronBoundary, Vec::new());
    assert_eq!(eras.writer.tip().unwrap().height, height);
    eras.mine(Era::Byron, Vec::new());
    assert_eq!(eras.writer.tip().unwrap().height, height.plus(1));

    let spend =
        TxSpec::new(&[in_byron.output(0, 0)], &[OutSpec::new(&late, 4), OutSpec::new(&key(1), 6)]);
    let shelley = eras.mine(Era::Shelley, vec![spend]);
    assert!(!eras.is_live(nothing), "Shelley drops outputs of nothing");
    assert_eq!(eras.txouts(), 14_504 + 2);
    let in_shelley = eras.writer.tip().unwrap();

    let before_allegra = eras.index.view().unwrap().digest(true).unwrap();
    eras.mine(Era::Allegra, Vec::new());
    assert_eq!(eras.txouts(), 2, "every voucher that nobody redeemed in Byron is gone");
    let late = OutPoint::new(utxokeep_core::Txid::from_bytes(shelley.txids[0]), 0);
    assert!(eras.is_live(late), "what came after Byron stays");
    let removed = eras.index.view().unwrap().utxo(vouchers[0]).unwrap().unwrap();
    assert_eq!(removed.spent.unwrap().txid.to_hex(), "00".repeat(32), "no transaction did it");
    assert!(eras.index.verify(&mut |_, _| {}).unwrap().is_clean());

    // The removal is part of the block: undone with it, done again with it.
    let after_allegra = eras.index.view().unwrap().digest(true).unwrap();
    eras.writer.rollback(in_shelley.height).unwrap();
    let undone = eras.index.view().unwrap().digest(true).unwrap();
    assert_eq!(undone, before_allegra);
    let block = eras.built.last().unwrap().raw.clone();
    let block = eras.index.settings().decoder.decode(block).unwrap();
    eras.writer.apply(&block).unwrap();
    assert_eq!(eras.index.view().unwrap().digest(true).unwrap(), after_allegra);
}

#[test]
fn boundary_blocks_are_passed_over_again_after_a_restart() {
    let mut eras = Eras::new();
    eras.mine(Era::Byron, Vec::new());
    eras.mine(Era::ByronBoundary, Vec::new());
    eras.mine(Era::Byron, Vec::new());
    let decoder = eras.index.settings().decoder.clone();
    let blocks: Vec<_> =
        eras.built.iter().map(|built| decoder.decode(built.raw.clone()).unwrap()).collect();
    drop(eras.writer);
    let mut writer = ChainWriter::new(eras.index.clone()).unwrap();
    writer.rollback(Height::new(1)).unwrap();
    for mode in [Mode::Tip, Mode::CatchUp] {
        writer.set_mode(mode).unwrap();
        for block in &blocks {
            writer.apply(block).unwrap();
        }
        assert_eq!(writer.tip().unwrap().height, Height::new(2));
        writer.rollback(Height::new(1)).unwrap();
    }
    let parent = writer.tip().unwrap().hash;
    assert_eq!(parent, BlockHash::from_bytes(eras.built[1].hash));
    // The follower, too, sees a chain without boundary blocks.
    let follower = Follower::new(writer).unwrap();
    assert_eq!(follower.writer().tip().unwrap().height, Height::new(1));
}

/// Two epochs of Byron and the two eras after it, with a redeemed voucher on the way.
pub(crate) fn through_the_eras() -> Eras {
    let genesis = Genesis::public(MAINNET).unwrap();
    let input = (*genesis.outputs()[0].txid.as_bytes(), 0);
    let owner = byron(ByronKind::Key, [1; 28], None);
    let mut eras = Eras::new();
    let redeem = TxSpec::new(&[input], &[OutSpec::new(&owner, 10), OutSpec::new(&owner, 0)]);
    let mut coin = eras.mine(Era::Byron, vec![redeem]).output(0, 0);
    eras.mine(Era::Byron, Vec::new());
    for era in [Era::Byron, Era::Shelley, Era::Allegra] {
        if era == Era::Byron {
            eras.mine(Era::ByronBoundary, Vec::new());
        }
        for _ in 0..8 {
            let spend = TxSpec::new(&[coin], &[OutSpec::new(&owner, 10)]);
            coin = eras.mine(era, vec![spend]).output(0, 0);
        }
    }
    eras
}

pub(crate) fn small_window() -> IndexSettings {
    let window = Window { prune_depth: 3, rollback_window: 3 };
    IndexSettings::new(MAINNET).with(|settings| settings.window = window)
}

/// Removals where eras begin, and boundary blocks, in every way that blocks reach the tables.
#[test]
fn eras_and_boundary_blocks_come_out_the_same_in_bulk_from_files_and_from_a_nodes_database() {
    let eras = through_the_eras();
    let expected = eras.index.view().unwrap().digest(true).unwrap();
    assert_eq!(expected.totals.txouts, 1);
    let dir = tempfile::tempdir().unwrap();
    let genesis = Genesis::public(MAINNET).unwrap();
    let boundary = eras.built.iter().rposition(|b| b.era == Era::ByronBoundary).unwrap();
    let (first, second) = eras.built.split_at(boundary);
    let mut files = Vec::new();
    for (name, blocks) in [("first", first), ("second", second)] {
        let path = dir.path().join(name);
        let bytes: Vec<u8> = blocks.iter().flat_map(|built| built.raw.clone()).collect();
        std::fs::write(&path, bytes).unwrap();
        files.push(path);
    }
    let db = dir.path().join("immutable");
    write_immutable(&db, &[first, second]).unwrap();
    let db = ImmutableDb::open(&db).unwrap();
    for bulk in [false, true] {
        let index = ChainIndex::open(MemoryKv::new(TABLES), small_window()).unwrap();
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let mut connected = 0;
        for path in &files {
            let source = CardanoFiles::open(std::slice::from_ref(path), MAINNET, &genesis).unwrap();
            let (next, report) = import_files(writer, &source, bulk, &mut |_| true).unwrap();
            connected += report.connected;
            writer = next;
        }
        assert_eq!(connected, eras.built.len() as u64 - 1, "all but the second boundary block");
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected, "files, bulk {bulk}");

        let index = ChainIndex::open(MemoryKv::new(TABLES), small_window()).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let (writer, report) = import_immutable(writer, &db, bulk, &mut |_| true).unwrap();
        assert_eq!(report.connected, eras.built.len() as u64 - 1);
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected, "node, bulk {bulk}");
        assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());

        // An older copy that ends with the boundary block has nothing new, and undoes nothing.
        let older = dir.path().join(format!("older-{bulk}"));
        write_immutable(&older, &[first, &second[..1]]).unwrap();
        let older = ImmutableDb::open(&older).unwrap();
        let (_, report) = import_immutable(writer, &older, bulk, &mut |_| true).unwrap();
        assert_eq!((report.connected, report.disconnected), (0, 0));
        assert_eq!(index.view().unwrap().digest(true).unwrap(), expected);
    }
}

#[test]
fn two_blocks_in_slot_zero_are_told_apart_when_asked_about_the_first() {
    let genesis = Genesis::public(MAINNET).unwrap();
    let owner = byron(ByronKind::Key, [1; 28], None);
    let mut eras = Eras::new();
    let input = (*genesis.outputs()[0].txid.as_bytes(), 0);
    let block = eras.mine(Era::Byron, vec![TxSpec::new(&[input], &[OutSpec::new(&owner, 10)])]);
    assert_eq!(block.slot, 0);
    let owner = IndexKey::address(MAINNET, &owner);
    let at = |height| eras.index.view().unwrap().at(Height::new(height)).unwrap();
    assert_eq!(at(1).owner_balance(owner, u64::MAX).unwrap().utxos, 1);
    assert_eq!(at(0).owner_balance(owner, u64::MAX).unwrap().utxos, 0);
    let voucher = IndexKey::address(MAINNET, &genesis.outputs()[0].address);
    assert_eq!(at(1).owner_balance(voucher, u64::MAX).unwrap().utxos, 0);
    assert_eq!(at(0).owner_balance(voucher, u64::MAX).unwrap().utxos, 1);
}
