//! Proofs: what is true can be proven, and nothing else.

use super::*;

const CONTENT: &[u8] = b"an output";

fn name(leaf: u64) -> ([u8; 32], u32) {
    let leaf = u32::try_from(leaf).unwrap();
    ([u8::try_from(leaf % 251).unwrap(); 32], leaf)
}

fn content(leaf: u64) -> Vec<u8> {
    [CONTENT, &leaf.to_be_bytes()].concat()
}

fn named_leaves(from: u64, count: u64) -> Vec<NodeHash> {
    let hash = |leaf| {
        let (txid, index) = name(leaf);
        mmr_leaf_hash(&txid, index, &content(leaf))
    };
    (from..from + count).map(hash).collect()
}

fn tree_of(leaves: u64, spent: &[u64]) -> Tree {
    let mut tree = Tree::new(MmrRule::Tombstone);
    tree.append(&named_leaves(0, leaves));
    tree.spend(spent);
    tree
}

fn prove(tree: &Tree, leaf: u64) -> MmrProof {
    let (txid, index) = name(leaf);
    let Ok(row) = tree.read.read_row(RowKey { tier: 0, number: leaf / 16 });
    let is_live = row.node(usize::try_from(leaf % 16).unwrap()).is_some();
    MmrProof {
        network: "bitcoin/regtest".to_owned(),
        height: 7,
        block_hash: [9; 32],
        leaves: tree.leaves,
        root: tree.root(),
        leaf,
        state: if is_live {
            ProvenState::Unspent { txid, index, content: content(leaf) }
        } else {
            ProvenState::Spent
        },
        path: tree.path(leaf),
    }
}

#[test]
fn every_leaf_of_every_small_tree_is_proven_unspent_or_spent() {
    for leaves in 1..70 {
        let spent: Vec<_> = (0..leaves).filter(|leaf| leaf % 3 == 1 || leaf / 16 == 1).collect();
        let tree = tree_of(leaves, &spent);
        for leaf in 0..leaves {
            let proof = prove(&tree, leaf);
            assert_eq!(proof.state == ProvenState::Spent, spent.contains(&leaf));
            assert_eq!(
                check_mmr_proof(&proof, Some(&proof.anchor())),
                Ok(()),
                "{leaf} of {leaves}"
            );
            let (txid, index) = name(leaf);
            let other = MmrProof {
                state: match proof.state {
                    ProvenState::Spent => {
                        ProvenState::Unspent { txid, index, content: content(leaf) }
                    }
                    ProvenState::Unspent { .. } => ProvenState::Spent,
                },
                ..proof
            };
            assert_eq!(check_mmr_proof(&other, None), Err(MmrRefusal::WrongRoot));
        }
    }
}

#[test]
fn a_proof_with_any_one_bit_changed_is_refused() {
    // Of two neighbours that are both spent, the proof of one is that of the other.
    let tree = tree_of(43, &[2, 40]);
    for leaf in [0, 2, 33, 40, 41, 42] {
        let proof = prove(&tree, leaf);
        let (anchor, bytes) = (proof.anchor(), proof.to_cbor());
        assert_eq!(MmrProof::from_cbor(&bytes), Ok(proof.clone()));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(read) = MmrProof::from_cbor(&changed) else { continue };
            assert!(check_mmr_proof(&read, Some(&anchor)).is_err(), "bit {bit} of leaf {leaf}");
        }
        let text = serde_json::to_string(&proof).unwrap();
        assert_eq!(serde_json::from_str::<MmrProof>(&text).unwrap(), proof);
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(read) = serde_json::from_slice::<MmrProof>(&changed) else { continue };
            assert!(check_mmr_proof(&read, Some(&anchor)).is_err(), "bit {bit} of leaf {leaf}");
        }
    }
}

#[test]
fn a_cut_proof_is_refused() {
    let proof = prove(&tree_of(43, &[2]), 7);
    let bytes = proof.to_cbor();
    for len in 0..bytes.len() {
        assert!(MmrProof::from_cbor(&bytes[..len]).is_err());
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(MmrProof::from_cbor(&longer).is_err());
    for len in 0..proof.path.len() {
        let cut = MmrProof { path: proof.path[..len].to_vec(), ..proof.clone() };
        let refusal = check_mmr_proof(&cut, None).unwrap_err();
        assert!(matches!(refusal, MmrRefusal::PathLength { found, .. } if found == len));
    }
    let longer = MmrProof { path: [proof.path.as_slice(), &[[0; 32]]].concat(), ..proof.clone() };
    assert!(matches!(check_mmr_proof(&longer, None), Err(MmrRefusal::PathLength { .. })));
    let beyond = MmrProof { leaf: proof.leaves, ..proof.clone() };
    assert!(matches!(check_mmr_proof(&beyond, None), Err(MmrRefusal::NoSuchLeaf { .. })));
    for (leaf, leaves) in
        [(0, u64::MAX), (u64::MAX, 0), (u64::MAX - 1, u64::MAX), (1 << 63, u64::MAX)]
    {
        let forged = MmrProof { leaves, leaf, ..proof.clone() };
        assert!(check_mmr_proof(&forged, None).is_err());
    }
}

#[test]
fn a_proof_from_before_a_block_is_refused_after_it() {
    let mut tree = tree_of(43, &[2]);
    let old = prove(&tree, 7);
    tree.spend(&[30]);
    let after_spend = prove(&tree, 7).anchor();
    assert_eq!(check_mmr_proof(&old, Some(&old.anchor())), Ok(()));
    let refusal = MmrRefusal::OtherAnchor { what: "root" };
    assert_eq!(check_mmr_proof(&old, Some(&after_spend)), Err(refusal));
    let passed_off = MmrProof { root: after_spend.root, ..old };
    assert_eq!(check_mmr_proof(&passed_off, Some(&after_spend)), Err(MmrRefusal::WrongRoot));
    let before_growth = prove(&tree, 7);
    tree.append(&named_leaves(43, 1));
    let anchor = prove(&tree, 7).anchor();
    let passed_off = MmrProof { root: anchor.root, leaves: anchor.leaves, ..before_growth };
    assert!(check_mmr_proof(&passed_off, Some(&anchor)).is_err());
}

#[test]
fn a_proof_of_one_output_is_no_proof_of_another() {
    let tree = tree_of(43, &[]);
    let (one, other) = (prove(&tree, 7), prove(&tree, 8));
    for forged in [
        MmrProof { leaf: 8, ..one.clone() },
        MmrProof { state: other.state.clone(), ..one.clone() },
        MmrProof { path: other.path.clone(), ..one.clone() },
    ] {
        assert!(check_mmr_proof(&forged, None).is_err());
    }
    for (txid, index) in [name(8), (name(7).0, 8), (name(8).0, 7)] {
        let state = ProvenState::Unspent { txid, index, content: content(7) };
        let forged = MmrProof { state, ..one.clone() };
        assert_eq!(check_mmr_proof(&forged, None), Err(MmrRefusal::WrongRoot));
    }
    // A node is no leaf: the tag of what is hashed differs.
    let node = [one.path[0], one.path[1]].concat();
    let (txid, index) = name(7);
    let forged = MmrProof { state: ProvenState::Unspent { txid, index, content: node }, ..one };
    assert_eq!(check_mmr_proof(&forged, None), Err(MmrRefusal::WrongRoot));
}

// What a store of this design did wrong elsewhere, one test for each mistake that is about the tree
// itself. Those about blocks, batches and rollbacks are in the tests of the index.

#[test]
fn mistake_peaks_without_their_heights() {
    // Three leaves and a mountain of two of them have the same list of hashes, if heights are lost.
    let tree = tree_of(3, &[]);
    let mut other = Tree::new(MmrRule::Tombstone);
    other.append(&tree.peaks());
    assert_eq!(other.peaks().len(), 1, "two leaves make one mountain");
    assert_ne!(other.root(), tree.root());
}

#[test]
fn mistake_a_path_frozen_when_the_leaf_was_appended() {
    let mut tree = tree_of(1, &[]);
    let mut lengths = Vec::new();
    for leaf in 1..40 {
        tree.append(&named_leaves(leaf, 1));
        let proof = prove(&tree, 0);
        assert_eq!(check_mmr_proof(&proof, None), Ok(()));
        lengths.push(proof.path.len());
    }
    // It grows with the mountains, and has hashes of leaves that came later.
    assert!(lengths.iter().max() > Some(&4));
}

#[test]
fn mistake_no_side_on_the_path() {
    let tree = tree_of(8, &[]);
    let (left, right) = (prove(&tree, 6), prove(&tree, 7));
    assert_eq!(left.path[1..], right.path[1..]);
    let swapped = MmrProof { leaf: 7, ..left };
    assert_eq!(check_mmr_proof(&swapped, None), Err(MmrRefusal::WrongRoot));
}

#[test]
fn mistake_bagging_from_the_small_end_with_swapped_operands() {
    let tree = tree_of(11, &[]);
    let peaks = tree.peaks();
    let swapped = peaks.iter().rev().copied().reduce(|bag, peak| mmr_node_hash(&bag, &peak));
    let other_end = peaks.iter().copied().reduce(|bag, peak| mmr_node_hash(&bag, &peak));
    let ours = mmr_node_hash(&peaks[0], &mmr_node_hash(&peaks[1], &peaks[2]));
    assert_eq!(MmrRule::bag(&peaks), Some(ours));
    assert!(swapped != Some(ours) && other_end != Some(ours));
}

#[test]
fn mistake_a_spend_that_leaves_the_root() {
    let mut tree = tree_of(11, &[]);
    let mut seen = vec![tree.root()];
    for leaf in 0..11 {
        tree.spend(&[leaf]);
        assert!(!seen.contains(&tree.root()), "spending leaf {leaf} changes the root");
        seen.push(tree.root());
        assert_eq!(prove(&tree, leaf).state, ProvenState::Spent);
    }
}

/// What the second verifier says of a proof; `None` where there is no Python to run it, unless
/// `UTXOKEEP_REQUIRE_PYTHON` says that there has to be one.
fn second_verifier(text: &[u8]) -> Option<bool> {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mmr_check.py");
    let mut python = Command::new("python3")
        .args([script, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .inspect_err(|error| {
            eprintln!("skipped: python3 cannot be started: {error}");
            assert!(std::env::var_os("UTXOKEEP_REQUIRE_PYTHON").is_none(), "python3 is required");
        })
        .ok()?;
    // One that refuses early does not read on.
    let _ = python.stdin.take().unwrap().write_all(text);
    Some(python.wait().unwrap().success())
}

#[test]
fn a_verifier_written_from_the_document_says_the_same() {
    let tree = tree_of(43, &[2, 40]);
    for leaf in [0, 2, 33, 40, 42] {
        let proof = prove(&tree, leaf);
        let text = serde_json::to_vec(&proof).unwrap();
        let Some(is_accepted) = second_verifier(&text) else { return };
        assert!(is_accepted, "leaf {leaf}");
        let other = MmrProof { leaf: leaf ^ 1, ..proof.clone() };
        let mut cut = proof.clone();
        cut.path.pop();
        let grown = MmrProof { leaves: proof.leaves + 1, ..proof };
        for forged in [other, cut, grown] {
            assert!(check_mmr_proof(&forged, None).is_err());
            let text = serde_json::to_vec(&forged).unwrap();
            assert_eq!(second_verifier(&text), Some(false), "leaf {leaf}");
        }
    }
}
