//! Proofs of outputs of an index, at the tip and before.

use utxokeep_core::mmr::{MmrAnchor, ProvenState, check_mmr_proof};
use utxokeep_index::MmrError;

use super::*;

pub(super) fn anchor<K: Kv>(index: &ChainIndex<K>, at: u32) -> MmrAnchor {
    let root = index.view().unwrap().mmr_root(Some(Height::new(at))).unwrap();
    MmrAnchor {
        network: index.settings().network().to_string(),
        height: at,
        block_hash: *root.hash.as_bytes(),
        leaves: root.leaves,
        root: root.root,
    }
}

/// An index with undo data for its window and no more.
fn pruned(
    settings: IndexSettings,
    archive: &Archive,
    chain: &[BlockHash],
) -> ChainIndex<crate::common::MemoryEngine> {
    let index = fresh(settings, archive, chain);
    prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
    index
}

#[test]
fn every_output_is_proven_unspent_or_spent_at_every_height_of_the_window() {
    let archive = simulate(21, 0, 150);
    let chain = chain_of(&archive);
    let index = pruned(settings(MmrRule::Tombstone, 30), &archive, &chain);
    let tip = u32::try_from(chain.len() - 1).unwrap();
    let (mut unspent, mut spent, mut later, mut passed, mut unknown) = (0, 0, 0, 0, 0);
    for at in [tip - 30, tip - 29, tip - 10, tip - 1, tip] {
        let anchor = anchor(&index, at);
        let view = index.view().unwrap();
        for (height, hash) in chain.iter().enumerate() {
            let block = block(&archive, hash);
            for tx in &block.txs {
                for output in block.outputs_of(tx) {
                    let outpoint = OutPoint::new(tx.txid, output.index);
                    match view.mmr_proof(outpoint, Some(Height::new(at)), None) {
                        Ok(proof) => {
                            assert_eq!(check_mmr_proof(&proof, Some(&anchor)), Ok(()));
                            match proof.state {
                                ProvenState::Unspent { .. } => unspent += 1,
                                ProvenState::Spent => spent += 1,
                            }
                        }
                        Err(MmrError::NotYet { created }) => {
                            assert_eq!(created.get() as usize, height);
                            later += 1;
                        }
                        Err(MmrError::Passed { .. }) => passed += 1,
                        Err(MmrError::Unknown) => unknown += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
    assert!(unspent > 500 && spent > 50 && later > 50 && passed > 5 && unknown > 50);
}

#[test]
fn the_work_for_an_earlier_height_is_bounded() {
    let archive = simulate(22, 0, 150);
    let chain = chain_of(&archive);
    let index = pruned(settings(MmrRule::Tombstone, 30), &archive, &chain);
    let view = index.view().unwrap();
    let coinbase = OutPoint::new(block(&archive, &chain[chain.len() - 26]).txs[0].txid, 0);
    let tip = u32::try_from(chain.len() - 1).unwrap();
    let prove = |at: u32, max| view.mmr_proof(coinbase, Some(Height::new(at)), Some(max));
    assert!(matches!(prove(tip - 20, 10), Err(MmrError::TooMuchWork { max: 10, .. })));
    assert!(!matches!(prove(tip - 1, 1_000), Err(MmrError::TooMuchWork { .. })));
    assert!(!matches!(prove(tip, 0), Err(MmrError::TooMuchWork { .. })));
    assert!(matches!(prove(tip - 40, 10), Err(MmrError::OutsideWindow { .. })));
    assert!(matches!(prove(tip + 1, 10), Err(MmrError::OutsideWindow { .. })));
}

#[test]
fn a_database_without_a_tree_says_how_to_get_one() {
    let archive = simulate(23, 0, 5);
    let index = fresh(common::settings(30), &archive, &chain_of(&archive));
    let error = index.view().unwrap().mmr_root(None).unwrap_err();
    assert!(error.to_string().contains("chain mmr enable"), "{error}");
    assert_eq!(index.status().unwrap().mmr, None);
}

/// Positions move when neighbours are spent; the tree does not.
#[test]
fn the_roots_and_leaves_of_utreexo_are_those_of_the_naive_forest() {
    let archive = simulate(24, 0, 150);
    let chain = chain_of(&archive);
    let index = fresh(settings(MmrRule::Utreexo, 30), &archive, &chain);
    let view = index.view().unwrap();
    let mut proven = 0;
    for hash in &chain {
        let block = block(&archive, hash);
        for tx in &block.txs {
            for output in block.outputs_of(tx) {
                let outpoint = OutPoint::new(tx.txid, output.index);
                let Ok(answer) = view.utreexo_proof(outpoint) else { continue };
                // Climb: each hash is beside the way, and the position says on which side.
                let first_of = |row: u32| if row == 0 { 0 } else { u64::MAX << (64 - row) };
                let mut row = answer.proof.target.leading_ones();
                let mut number = answer.proof.target - first_of(row);
                let mut node = answer.leaf_hash;
                for other in &answer.proof.hashes {
                    let (left, right) =
                        if number & 1 == 0 { (node, *other) } else { (*other, node) };
                    node = MmrRule::Utreexo.combine(0, Some(left), Some(right)).unwrap();
                    number >>= 1;
                    row += 1;
                }
                let root = answer.roots.len()
                    - 1
                    - (answer.leaves & ((1 << row) - 1)).count_ones() as usize;
                assert_eq!(answer.roots[root], node);
                proven += 1;
            }
        }
    }
    assert!(proven > 100, "{proven}");
}

/// Through forks and rollbacks, at every height of the window: the root is that of a naive tree, and
/// so is the leaf of each output that is proven.
#[test]
fn through_any_history_proofs_at_every_height_are_those_of_a_naive_tree() {
    const WINDOW: u32 = 25;
    for seed in [41, 42, 43] {
        let archive = simulate(seed, 25, 200);
        let delta = if seed == 42 { DeltaKind::SelfContained } else { DeltaKind::Compact };
        let settings = settings(MmrRule::Tombstone, WINDOW).with(|settings| settings.delta = delta);
        let index = InMemory::default().open(settings);
        let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let (mut compared, mut spent) = (0, 0);
        for (number, header) in archive.headers().iter().enumerate() {
            follower.accept(header, &archive).unwrap();
            if number % 37 != 36 && number + 1 != archive.headers().len() {
                continue;
            }
            prune_fully(follower.writer_mut());
            let chain = best_chain(REGTEST.genesis_hash(), &archive.headers()[..=number]);
            assert_eq!(follower.writer().tip().unwrap().hash, chain[chain.len() - 1]);
            let (s, c) = compare_window(&index, &archive, &chain, WINDOW);
            (spent, compared) = (spent + s, compared + c);
        }
        assert!(compared > 1_000 && spent > 50, "seed {seed}: {compared} proofs, {spent} of spent");
    }
}

/// Compares every root and some proofs of the window; answers how many of spent outputs, and of all.
fn compare_window<K: Kv>(
    index: &ChainIndex<K>,
    archive: &Archive,
    chain: &[BlockHash],
    window: u32,
) -> (usize, usize) {
    let view = index.view().unwrap();
    let oldest = index.status().unwrap().undo_base.unwrap().get();
    let tip = u32::try_from(chain.len()).unwrap() - 1;
    assert!(oldest <= tip.saturating_sub(window));
    let mut naive = Naive::new(MmrRule::Tombstone);
    let (mut spent, mut compared) = (0, 0);
    let mut gone: Vec<(OutPoint, u64)> = Vec::new();
    for (at, hash) in (0..).zip(chain) {
        let block = block(archive, hash);
        let before: BTreeMap<_, _> = naive.outputs().collect();
        naive.apply(&block, Height::new(at));
        if at < oldest {
            continue;
        }
        let (leaves, expected) = naive.root();
        let live: BTreeMap<_, _> = naive.outputs().collect();
        gone.extend(before.into_iter().filter(|(outpoint, _)| !live.contains_key(outpoint)));
        let anchor = anchor(index, at);
        assert_eq!((anchor.leaves, anchor.root), (leaves, expected), "at {at}");
        // Some of everything that is unspent there, and what was spent inside the window.
        let some = live.into_iter().step_by(13).map(|output| (output, true));
        let some = some.chain(gone.iter().step_by(5).map(|output| (*output, false)));
        for ((outpoint, leaf), is_live) in some {
            let proof = match view.mmr_proof(outpoint, Some(Height::new(at)), Some(100_000)) {
                Ok(proof) => proof,
                // Spent by the block that undo data begins with.
                Err(MmrError::Unknown) if !is_live => continue,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(check_mmr_proof(&proof, Some(&anchor)), Ok(()), "at {at}");
            assert_eq!(proof.leaf, leaf);
            assert_eq!(matches!(proof.state, ProvenState::Unspent { .. }), is_live);
            spent += usize::from(!is_live);
            compared += 1;
        }
    }
    (spent, compared)
}

/// What is spent entirely takes no rows, at once and for good; its neighbours can still be proven,
/// and rollbacks bring it back from the records alone.
#[test]
fn a_part_in_which_everything_is_spent_is_gone_and_comes_back_with_a_rollback() {
    use utxokeep_index::tables::ids::MMR_NODES;
    use utxokeep_kv::{Read as _, Scan};
    use utxokeep_testkit::{ANYONE, HandTx, mine, regtest_genesis};
    let rows = |index: &ChainIndex<crate::common::MemoryEngine>| {
        let mut rows = Vec::new();
        let visit = &mut |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            true
        };
        index.engine().scan(MMR_NODES, &Scan::ALL, visit).unwrap();
        rows
    };
    let mut archive = Archive::default();
    let mut headers = vec![regtest_genesis()];
    let mut push = |headers: &mut Vec<utxokeep_core::Header>, rewards: usize, txs: &[HandTx]| {
        let height = u32::try_from(headers.len()).unwrap();
        let rewards = vec![(2u64, ANYONE); rewards];
        let block = mine(&headers[headers.len() - 1], height, 0, &rewards, txs);
        archive.push(block.header, block.raw);
        headers.push(block.header);
        block.coinbase
    };
    // 1 + 600 + 99 leaves, of which 600 are spent later.
    push(&mut headers, 1, &[]);
    let wide = push(&mut headers, 600, &[]);
    for _ in 0..100 {
        push(&mut headers, 1, &[]);
    }
    let all: Vec<_> = (0..600).map(|index| OutPoint::new(wide, index)).collect();
    for part in all.chunks(200) {
        push(&mut headers, 1, &[HandTx::new(part, &[1])]);
    }
    let last_spend = headers.len() - 1;
    for _ in 0..40 {
        push(&mut headers, 1, &[]);
    }
    let genesis = headers[0].hash;
    let first = IndexSettings::new(REGTEST).decoder.first_block().unwrap();
    archive.push(headers[0], first);
    let chain: Vec<_> = headers.iter().map(|header| header.hash).collect();
    assert_eq!(chain[0], genesis);
    let rule = MmrRule::Tombstone;
    let expected = naive_roots(rule, &archive, &chain);
    let index = InMemory::default().open(settings(rule, 20));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in &chain[..=last_spend] {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    let inside = |rows: &[(Vec<u8>, Vec<u8>)]| {
        // Rows of leaves 16 to 591: their leaves were all spent.
        let is_inside =
            |key: &[u8]| key[0] == 0 && (1..36).contains(&key[8]) && key[1..8] == [0; 7];
        rows.iter().filter(|(key, _)| is_inside(key)).count()
    };
    assert_eq!(inside(&rows(&index)), 0, "gone with the spend");
    let back = u32::try_from(last_spend).unwrap() - 3;
    writer.rollback(Height::new(back)).unwrap();
    assert_eq!(inside(&rows(&index)), 35, "back with the rollback");
    assert_eq!(root(&index, None), expected[back as usize]);
    assert_clean(&index, "back");
    for hash in &chain[back as usize + 1..] {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    // Past the window, too: the spends cannot be undone any more.
    prune_fully(&mut writer);
    assert_eq!(inside(&rows(&index)), 0);
    assert_clean(&index, "past the window");
    let tip = u32::try_from(chain.len()).unwrap() - 1;
    for at in [tip, tip - 7, tip - 20] {
        let anchor = anchor(&index, at);
        assert_eq!((anchor.leaves, anchor.root), expected[at as usize]);
        for neighbour in [1, 3, 50, 102] {
            let coinbase = block(&archive, &chain[neighbour]).txs[0].txid;
            let outpoint = OutPoint::new(coinbase, 0);
            let proof = index.view().unwrap().mmr_proof(outpoint, Some(Height::new(at)), None);
            assert_eq!(check_mmr_proof(&proof.unwrap(), Some(&anchor)), Ok(()));
        }
    }
    writer.rollback(Height::new(tip - 20)).unwrap();
    assert_eq!(root(&index, None), expected[tip as usize - 20]);
    assert_clean(&index, "undone past it");
}
