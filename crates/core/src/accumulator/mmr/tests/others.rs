//! Against other programs: ckb's range for what is only appended, rustreexo for what is deleted.

use std::cell::RefCell;

use ckb_merkle_mountain_range::{
    MMR, MMRStoreReadOps, MMRStoreWriteOps, Merge, Result as CkbResult, leaf_index_to_pos,
};
use rustreexo::{mem_forest::MemForest, node_hash::BitcoinNodeHash, proof::Proof, stump::Stump};

use super::*;

#[derive(Debug)]
struct Nodes;

impl Merge for Nodes {
    type Item = NodeHash;

    fn merge(left: &NodeHash, right: &NodeHash) -> CkbResult<NodeHash> {
        Ok(mmr_node_hash(left, right))
    }

    /// It is called with the right one first.
    fn merge_peaks(right: &NodeHash, left: &NodeHash) -> CkbResult<NodeHash> {
        Ok(mmr_node_hash(left, right))
    }
}

#[derive(Debug, Default)]
struct Store(RefCell<BTreeMap<u64, NodeHash>>);

impl MMRStoreReadOps<NodeHash> for &Store {
    fn get_elem(&self, position: u64) -> CkbResult<Option<NodeHash>> {
        Ok(self.0.borrow().get(&position).copied())
    }
}

impl MMRStoreWriteOps<NodeHash> for &Store {
    fn append(&mut self, position: u64, nodes: Vec<NodeHash>) -> CkbResult<()> {
        self.0.borrow_mut().extend((position..).zip(nodes));
        Ok(())
    }
}

#[test]
fn what_is_appended_is_bagged_as_another_range_bags_it() {
    let store = Store::default();
    let mut theirs = MMR::<NodeHash, Nodes, _>::new(0, &store);
    let mut ours = Tree::new(MmrRule::Tombstone);
    for leaf in 0..300 {
        let position = theirs.push(some_leaf(leaf)).unwrap();
        assert_eq!(position, leaf_position(leaf));
        assert_eq!(position, leaf_index_to_pos(leaf));
        ours.append(&[some_leaf(leaf)]);
        assert_eq!(theirs.mmr_size(), size(ours.leaves));
        let bag = MmrRule::bag(&ours.peaks()).unwrap();
        assert_eq!(bag, theirs.get_root().unwrap());
        // Their verifier takes our path, in its own order of the peaks.
        let proof = theirs.gen_proof(vec![position]).unwrap();
        assert!(proof.verify(bag, vec![(position, some_leaf(leaf))]).unwrap());
        let mut theirs: Vec<_> = proof.proof_items().to_vec();
        let mut path = ours.path(leaf);
        theirs.sort_unstable();
        path.sort_unstable();
        assert_eq!(path, theirs);
    }
}

fn theirs(hash: NodeHash) -> BitcoinNodeHash {
    BitcoinNodeHash::from(hash)
}

fn roots(tree: &Tree) -> Vec<[u8; 32]> {
    tree.peaks()
}

fn bytes(hash: &BitcoinNodeHash) -> [u8; 32] {
    **hash
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The same blocks in a forest of Utreexo: the roots are its roots, and its verifier takes our
    /// proof of every leaf that is left.
    #[test]
    fn with_their_rule_the_tree_is_the_forest_of_utreexo(
        blocks in prop::collection::vec((0..24usize, prop::collection::vec(any::<u16>(), 0..12)), 1..14),
    ) {
        let mut tree = Tree::new(MmrRule::Utreexo);
        let mut forest = MemForest::new();
        let mut stump = Stump::new();
        let mut live: BTreeMap<u64, NodeHash> = BTreeMap::new();
        for (new, picks) in blocks {
            let mut gone: BTreeMap<u64, NodeHash> = BTreeMap::new();
            for pick in picks {
                let nth = usize::from(pick) % live.len().max(1);
                if let Some((leaf, hash)) = live.iter().nth(nth) {
                    gone.insert(*leaf, *hash);
                }
            }
            let added = some_leaves(tree.leaves, new as u64);
            let add: Vec<_> = added.iter().copied().map(theirs).collect();
            let deleted: Vec<_> = gone.values().copied().map(theirs).collect();
            let proof = forest.prove(&deleted).unwrap();
            // The forest lists targets in its own order; deletions go by the same.
            stump = stump.modify(&add, &deleted, &proof).unwrap();
            forest.modify(&add, &deleted).unwrap();
            live.retain(|leaf, _| !gone.contains_key(leaf));
            live.extend((tree.leaves..).zip(added.iter().copied()));
            let mut changes: BTreeMap<u64, Option<NodeHash>> =
                gone.keys().map(|leaf| (*leaf, None)).collect();
            changes.extend((tree.leaves..).zip(added.into_iter().map(Some)));
            let changes: Vec<_> = changes.into_iter().collect();
            tree.change(tree.leaves + new as u64, &changes);

            let expected: Vec<_> = stump.roots.iter().map(bytes).collect();
            prop_assert_eq!(roots(&tree), expected);
            for (leaf, hash) in &live {
                let Ok(UtreexoProof { target, hashes }) =
                    utreexo_path(&tree.read, tree.leaves, *leaf);
                let hashes = hashes.into_iter().map(theirs).collect();
                let proof = Proof::new(vec![target], hashes);
                prop_assert_eq!(&proof, &forest.prove(&[theirs(*hash)]).unwrap());
                prop_assert!(stump.verify(&proof, &[theirs(*hash)]).unwrap());
                prop_assert!(!stump.verify(&proof, &[theirs(some_leaf(1 << 40))]).unwrap_or(false));
            }
        }
    }
}
