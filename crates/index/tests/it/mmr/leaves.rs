//! Which outputs take a leaf, and which one.

use utxokeep_chains::genesis_block;
use utxokeep_core::{
    Network, Txid,
    mmr::{ProvenState, check_mmr_proof, check_utreexo_proof},
};
use utxokeep_index::{Applied, ForestProof, MmrBuilt, MmrError};
use utxokeep_testkit::{ANYONE, HandTx, NOBODY, mine, regtest_genesis};

use super::{proofs::anchor, *};
use crate::{
    cardano_mistakes::eras::{small_window, through_the_eras},
    common::MemoryEngine,
    exact_bytes::bare_block,
};

/// The leaf of an output that is unspent.
fn leaf_of(index: &ChainIndex<MemoryEngine>, outpoint: OutPoint) -> u64 {
    let proof = index.view().unwrap().mmr_proof(outpoint, None, None).unwrap();
    assert!(matches!(proof.state, ProvenState::Unspent { .. }));
    proof.leaf
}

/// Not the coinbase of the first block, not what nobody can spend, not what its own block spends;
/// everything else by transaction, then by index.
#[test]
fn outputs_of_bitcoin_take_leaves_by_the_definition() {
    let longest = [0x51; 10_000].as_slice();
    let too_long = [0x51; 10_001].as_slice();
    for rule in RULES {
        let index = InMemory::default().open(settings(rule, 500));
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let genesis = IndexSettings::new(REGTEST).decoder.first_block().unwrap();
        let mut naive = Naive::new(rule);
        let mut apply = |writer: &mut ChainWriter<MemoryEngine>, raw: Vec<u8>, height| {
            let block = utxokeep_chains::decode_block(raw, REGTEST).unwrap();
            writer.apply(&block).unwrap();
            naive.apply(&block, Height::new(height));
            assert_eq!(root(&index, None), naive.root(), "{rule} at {height}");
            root(&index, None).0
        };
        assert_eq!(apply(&mut writer, genesis, 0), 0);
        let rewards = [(5, ANYONE), (0, NOBODY), (6, longest), (0, too_long), (7, ANYONE)];
        let first = mine(&regtest_genesis(), 1, 0, &rewards, &[]);
        assert_eq!(apply(&mut writer, first.raw, 1), 3);
        let mut prev = first.header;
        for height in 2..=101 {
            let block = mine(&prev, height, 0, &[(1, ANYONE)], &[]);
            assert_eq!(apply(&mut writer, block.raw, height), u64::from(height) + 2);
            prev = block.header;
        }
        let parent = HandTx::new(&[OutPoint::new(first.coinbase, 0)], &[2, 3]);
        let child = HandTx::new(&[parent.output(0)], &[1]);
        let block = mine(&prev, 102, 0, &[(1, ANYONE)], &[parent.clone(), child.clone()]);
        assert_eq!(apply(&mut writer, block.raw, 102), 106);
        let status = index.status().unwrap();
        assert_eq!(status.mmr.unwrap().live_leaves, status.totals.unwrap().txouts);
        assert_clean(&index, "by hand");
        if rule == MmrRule::Tombstone {
            let view = index.view().unwrap();
            let expected = [
                (OutPoint::new(first.coinbase, 2), 1),
                (OutPoint::new(first.coinbase, 4), 2),
                (OutPoint::new(block.coinbase, 0), 103),
                (parent.output(1), 104),
                (child.output(0), 105),
            ];
            for (outpoint, leaf) in expected {
                assert_eq!(leaf_of(&index, outpoint), leaf);
            }
            let passed = view.mmr_proof(parent.output(0), None, None);
            assert!(matches!(passed, Err(MmrError::Passed { .. })));
            for index in [1, 3] {
                let nobodys = view.mmr_proof(OutPoint::new(first.coinbase, index), None, None);
                assert!(matches!(nobodys, Err(MmrError::NeverExisted)));
            }
            let spent = view.mmr_proof(OutPoint::new(first.coinbase, 0), None, None).unwrap();
            assert_eq!((spent.leaf, spent.state), (0, ProvenState::Spent));
        }
    }
}

/// The first of the two mainnet pairs in the order of their repetition.
const FIRST: u32 = 91_812;
const AGAIN: u32 = 91_842;

/// A mainnet chain in which one coinbase is repeated; all other blocks are empty.
fn with_repetition(until: u32) -> Vec<Block> {
    let mainnet = Network::BitcoinMainnet;
    let genesis = utxokeep_chains::decode_block(genesis_block(mainnet), mainnet).unwrap();
    let mut blocks = vec![genesis];
    for height in 1..=until {
        let txs: &[Txid] = match height {
            FIRST | AGAIN => &[Txid::from_bytes([1; 32])],
            // Neighbours, so that there are paths.
            91_790..=91_800 => &[Txid::from_bytes([u8::try_from(height % 250).unwrap(); 32])],
            _ => &[],
        };
        let prev = blocks[blocks.len() - 1].header.hash;
        blocks.push(bare_block(height, prev, txs));
    }
    blocks
}

/// Our rule knows the set, and a repeated coinbase takes the older one's place in it. Utreexo knows
/// hashes that name their blocks: there the older one stays, for ever, and nobody can spend it.
#[test]
fn a_repeated_coinbase_takes_a_second_leaf_and_the_rule_says_what_becomes_of_the_first() {
    let mainnet = Network::BitcoinMainnet;
    assert_eq!(mainnet.overwritten_at(Height::new(FIRST)), Some(Height::new(AGAIN)));
    let chain = with_repetition(AGAIN + 40);
    let window = common::settings(60).window;
    let repeated = OutPoint::new(Txid::from_bytes([1; 32]), 0);
    for rule in RULES {
        let whole = IndexSettings::new(mainnet).with(|settings| {
            settings.window = window;
            settings.mmr = Some(rule);
        });
        let mut naive = Naive::new(rule);
        let mut roots = Vec::new();
        for (height, block) in (0..).zip(&chain) {
            naive.apply(block, Height::new(height));
            roots.push(naive.root());
        }
        let import = |settings: &IndexSettings, tip_from: usize, until: usize| {
            let place = InMemory::default();
            let index = place.open(settings.clone());
            let mut writer = ChainWriter::new(index.clone()).unwrap();
            writer.set_mode(Mode::Bulk).unwrap();
            for (height, block) in chain[..=until].iter().enumerate() {
                if height == tip_from {
                    writer.set_mode(Mode::Tip).unwrap();
                }
                writer.apply(block).unwrap();
            }
            (place, index, writer)
        };
        // One by one through the repetition, and back.
        let (first, again) = (FIRST as usize, AGAIN as usize);
        let (_, index, mut writer) = import(&whole, first - 5, again + 10);
        let live = |index: &ChainIndex<MemoryEngine>| {
            let status = index.status().unwrap();
            (status.mmr.unwrap().live_leaves, status.totals.unwrap().txouts)
        };
        let kept = u64::from(rule == MmrRule::Utreexo);
        assert_eq!(root(&index, None), roots[again + 10]);
        assert_eq!(live(&index), (12 + kept, 12));
        assert_clean(&index, "repeated");
        if rule == MmrRule::Tombstone {
            assert_eq!(leaf_of(&index, repeated), 12);
        } else {
            assert_eq!(index.view().unwrap().utreexo_proof(repeated).unwrap().leaves, 13);
        }
        older_coinbase_at_its_heights(&index, rule, repeated);
        for target in [again, again - 1, first, first - 1] {
            writer.rollback(Height::new(u32::try_from(target).unwrap())).unwrap();
            assert_eq!(root(&index, None), roots[target], "{rule}: back at {target}");
            assert_clean(&index, "undone");
        }
        assert_eq!(live(&index), (11, 11));
        // In bulk, and built afterwards with the repetition below the undo base and above it.
        let classic = whole.clone().with(|settings| settings.mmr = None);
        for tip_from in [again + 20, again - 10] {
            let until = again + 40;
            let (_, index, _) = import(&whole, tip_from, until);
            assert_eq!(root(&index, None), roots[until], "{rule} in bulk until {tip_from}");
            let (place, _, writer) = import(&classic, tip_from, until);
            drop(writer);
            let built = ChainWriter::new(place.open(classic.clone())).unwrap().build_mmr(
                rule,
                &mut |height, _| Ok(chain[height.get() as usize].clone()),
                &mut |_, _| true,
            );
            assert_eq!(built.unwrap(), MmrBuilt::Done);
            let built = place.open(whole.clone());
            assert_eq!(root(&built, None), roots[until], "{rule} built from {tip_from}");
            assert_clean(&built, "built");
            assert_eq!(live(&built), (12 + kept, 12));
            let (built, imported) = (dump_all(built.engine()), dump_all(index.engine()));
            assert_same(&built, &imported, &[], "built and imported");
        }
    }
}

/// Between the two heights the name is that of the older coinbase, and from the second on that of the
/// younger one; a proof for the heights between was refused as if nothing had been there.
fn older_coinbase_at_its_heights(
    index: &ChainIndex<MemoryEngine>,
    rule: MmrRule,
    repeated: OutPoint,
) {
    let view = index.view().unwrap();
    for (height, leaf) in
        [(FIRST - 1, None), (FIRST, Some(11)), (AGAIN - 1, Some(11)), (AGAIN, Some(12))]
    {
        let at = Some(Height::new(height));
        if rule == MmrRule::Utreexo {
            let proven = view.forest_proof(repeated, at, None);
            assert_eq!(proven.is_ok(), leaf.is_some(), "{height}");
            if let Ok(ForestProof { roots, leaf_hash, proof, .. }) = proven {
                check_utreexo_proof(roots.leaves, &roots.roots, leaf_hash, &proof).unwrap();
            }
            continue;
        }
        match (view.mmr_proof(repeated, at, None), leaf) {
            (Ok(proof), Some(leaf)) => {
                assert_eq!(proof.leaf, leaf, "{height}");
                assert!(matches!(proof.state, ProvenState::Unspent { .. }));
                check_mmr_proof(&proof, Some(&anchor(index, height))).unwrap();
            }
            (Err(MmrError::NotYet { created }), None) => assert_eq!(created, Height::new(FIRST)),
            (other, _) => panic!("{height}: {other:?}"),
        }
    }
}

/// Genesis outputs by ascending transaction id, vouchers and outputs of nothing as tombstones from
/// the block on that begins the era.
#[test]
fn outputs_of_cardano_take_leaves_by_the_definition_through_the_eras() {
    let eras = through_the_eras();
    let decoder = eras.index.settings().decoder.clone();
    let blocks: Vec<_> =
        eras.built.iter().map(|built| decoder.decode(built.raw.clone()).unwrap()).collect();
    let rule = MmrRule::Tombstone;
    let whole = small_window().with(|settings| settings.mmr = Some(rule));
    for mode in [Mode::Tip, Mode::CatchUp, Mode::Bulk] {
        let index = InMemory::default().open(whole.clone());
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let mut naive = Naive::new(rule);
        let mut expected = BTreeMap::new();
        writer.set_mode(mode).unwrap();
        for block in &blocks {
            let Applied::Connected(tip) = writer.apply(block).unwrap() else { continue };
            if mode == Mode::Tip {
                naive.apply(block, tip);
                let is_live = |outpoint| {
                    let found = index.view().unwrap().utxo(outpoint).unwrap();
                    found.is_some_and(|utxo| utxo.spent.is_none())
                };
                let before = naive.outputs().count();
                naive.keep(is_live);
                let removed = before - naive.outputs().count();
                assert!(removed == 0 || removed == 1 || removed > 14_000, "{removed}");
                assert_eq!(root(&index, None), naive.root(), "at {tip}");
                if tip == Height::GENESIS {
                    let first = naive.outputs().next().unwrap();
                    let proof = index.view().unwrap().mmr_proof(first.0, None, None).unwrap();
                    assert_eq!((proof.leaf, first.1), (0, 0), "the smallest id is the first leaf");
                }
                expected.insert(tip, naive.root());
            }
        }
        writer.set_mode(Mode::Tip).unwrap();
        assert_clean(&index, "through the eras");
        let leaves = 14_505 + 2 + 24;
        assert_eq!(root(&index, None).0, leaves, "{mode:?}");
        assert_eq!(index.status().unwrap().mmr.unwrap().live_leaves, 1);
        if mode == Mode::Tip {
            let floor = writer.floor();
            for target in [writer.tip().unwrap().height.minus(2), floor] {
                writer.rollback(target).unwrap();
                assert_eq!(root(&index, None), expected[&target]);
            }
        }
    }
    // Built afterwards, with every window that there is.
    let imported = InMemory::default().open(whole.clone());
    let mut writer = ChainWriter::new(imported.clone()).unwrap();
    for block in &blocks {
        writer.apply(block).unwrap();
    }
    for bulk_until in [0, blocks.len() / 2, blocks.len() - 3] {
        let place = InMemory::default();
        let mut writer = ChainWriter::new(place.open(small_window())).unwrap();
        writer.set_mode(Mode::Bulk).unwrap();
        for (number, block) in blocks.iter().enumerate() {
            if number == bulk_until {
                writer.set_mode(Mode::Tip).unwrap();
            }
            writer.apply(block).unwrap();
        }
        let find = |hash: &BlockHash| blocks.iter().find(|block| block.header.hash == *hash);
        let built =
            writer
                .build_mmr(rule, &mut |_, hash| Ok(find(hash).unwrap().clone()), &mut |_, _| true);
        assert_eq!(built.unwrap(), MmrBuilt::Done);
        let index = place.open(whole.clone());
        assert_eq!(root(&index, None), root(&imported, None), "bulk until {bulk_until}");
        assert_clean(&index, "built through the eras");
    }
}
