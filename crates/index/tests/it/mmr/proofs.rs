//! Proofs of outputs of an index, at the tip and before.

use utxokeep_core::mmr::{MmrAnchor, ProvenState, check_mmr_proof};
use utxokeep_index::MmrError;

use super::*;

fn anchor<K: Kv>(index: &ChainIndex<K>, at: u32) -> MmrAnchor {
    let root = index.view().unwrap().mmr_root(Some(Height::new(at))).unwrap();
    MmrAnchor {
        network: "bitcoin/regtest".to_owned(),
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
    assert!(error.to_string().contains("build_mmr"), "{error}");
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
