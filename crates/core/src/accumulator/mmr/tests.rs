//! The tree against a naive one, against other programs, and against whoever changes a proof.

mod others;
mod proofs;
mod vectors;

use std::{collections::BTreeMap, convert::Infallible, sync::Mutex};

use proptest::prelude::*;

use super::{check::leaf_hash, *};
use crate::hex_encode;

/// Rows in memory, and how often each was asked for.
#[derive(Debug, Default)]
pub(super) struct Memory {
    rows: BTreeMap<RowKey, Row>,
    asked: Mutex<BTreeMap<RowKey, u32>>,
}

/// A copy has been asked for nothing.
impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), asked: Mutex::default() }
    }
}

impl RowReader for Memory {
    type Error = Infallible;

    fn read_rows(&self, keys: &[RowKey], rows: &mut Vec<Row>) -> Result<(), Infallible> {
        assert!(keys.is_sorted());
        for key in keys {
            *self.asked.lock().unwrap().entry(*key).or_default() += 1;
            rows.push(self.rows.get(key).copied().unwrap_or(Row::EMPTY));
        }
        Ok(())
    }
}

/// A tree in memory.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) rule: MmrRule,
    pub(super) leaves: u64,
    pub(super) read: Memory,
}

impl Tree {
    pub(super) fn new(rule: MmrRule) -> Self {
        Self { rule, leaves: 0, read: Memory::default() }
    }

    /// Changes leaves and the number of leaves, and answers how many rows that wrote.
    pub(super) fn change(&mut self, new: u64, changes: &[(u64, Option<NodeHash>)]) -> usize {
        let sizes = (self.leaves, new);
        let Ok(Updated { rows, nodes_before, nodes_after }) =
            update(self.rule, &self.read, sizes, changes);
        let nodes = self.nodes() + nodes_after - nodes_before;
        assert!(rows.is_sorted_by_key(|(key, _)| *key));
        let written = rows.len();
        for (key, row) in rows {
            if row.is_empty() {
                self.read.rows.remove(&key);
            } else {
                let mut bytes = Vec::new();
                row.encode_into(&mut bytes);
                self.read.rows.insert(key, Row::decode(&bytes).unwrap());
            }
        }
        self.leaves = new;
        assert_eq!(self.nodes(), nodes);
        written
    }

    fn nodes(&self) -> u64 {
        self.read.rows.values().map(|row| u64::from(row.len())).sum()
    }

    pub(super) fn append(&mut self, leaves: &[NodeHash]) {
        let changes: Vec<_> = (self.leaves..).zip(leaves.iter().copied().map(Some)).collect();
        self.change(self.leaves + leaves.len() as u64, &changes);
    }

    pub(super) fn spend(&mut self, leaves: &[u64]) {
        let mut changes: Vec<_> = leaves.iter().map(|leaf| (*leaf, None)).collect();
        changes.sort_unstable();
        changes.dedup();
        self.change(self.leaves, &changes);
    }

    pub(super) fn peaks(&self) -> Vec<NodeHash> {
        let Ok(peaks) = peaks(self.rule, &self.read, self.leaves);
        peaks
    }

    pub(super) fn root(&self) -> NodeHash {
        self.rule.root(self.leaves, &self.peaks())
    }

    pub(super) fn path(&self, leaf: u64) -> Vec<NodeHash> {
        let Ok(path) = leaf_path(self.rule, &self.read, self.leaves, leaf);
        path
    }
}

/// The same by the definition: peaks of a list of leaves, each half of a mountain by itself.
pub(super) fn naive_peaks(rule: MmrRule, leaves: &[Option<NodeHash>]) -> Vec<NodeHash> {
    fn node(rule: MmrRule, level: u32, leaves: &[Option<NodeHash>]) -> Option<NodeHash> {
        if let [leaf] = leaves {
            return *leaf;
        }
        let (left, right) = leaves.split_at(leaves.len() / 2);
        let (left, right) = (node(rule, level - 1, left), node(rule, level - 1, right));
        rule.combine(level - 1, left, right)
    }
    let mut rest = leaves;
    let mut peaks = Vec::new();
    while !rest.is_empty() {
        let level = rest.len().ilog2();
        let (mountain, after) = rest.split_at(1 << level);
        peaks.push(rule.fill(level, node(rule, level, mountain)));
        rest = after;
    }
    peaks
}

/// Any leaf hash.
pub(super) fn some_leaf(number: u64) -> NodeHash {
    mmr_leaf_hash(&[7; 32], 0, &number.to_be_bytes())
}

pub(super) fn some_leaves(from: u64, count: u64) -> Vec<NodeHash> {
    (from..from + count).map(some_leaf).collect()
}

#[test]
fn positions_are_those_of_the_literature() {
    let leaves: Vec<_> = (0..12).map(leaf_position).collect();
    assert_eq!(leaves, [0, 1, 3, 4, 7, 8, 10, 11, 15, 16, 18, 19]);
    assert_eq!(size(11), 19);
    assert_eq!(peak_positions(11), [14, 17, 18]);
    let valid: Vec<_> = (0..20).filter(|nodes| is_valid_size(*nodes)).collect();
    assert_eq!(valid, [0, 1, 3, 4, 7, 8, 10, 11, 15, 16, 18, 19]);
    for level in 0..5 {
        for number in 0..20 {
            let (left, right) =
                (node_position(level, 2 * number), node_position(level, 2 * number + 1));
            let parent = node_position(level + 1, number);
            assert_eq!(parent_and_sibling(left, level, false), (parent, right));
            assert_eq!(parent_and_sibling(right, level, true), (parent, left));
        }
    }
}

/// Leaf i is the output of transaction i, i, i... with index i, and its content is `v` and i.
#[test]
fn the_bag_of_the_peaks_is_pinned() {
    let expected = [
        (1, "e25cac0a3698118059ad0c719369a6f72190cdfc948a511be347a54c4f59b013"),
        (2, "85812e18658e67da5eddd89cb53a69102480a313c25b4b3d8c4dc2b87bfaae85"),
        (3, "d4a72d6a3614fe7c6cdf4a06b61ab8481c92a2e7ff011e024936f5338bad8757"),
        (4, "102f648938de7071008239091a91a97ff334ce15f8a6ac352b035ea21f12a8d5"),
        (7, "7e25426f4c34353a7f2a4a23c604fde6b4ca5fdebb04527ea88911b761ac8d44"),
        (8, "be46350f615992e5de131ab2f2a1b9148a0a9a8451a75a144e23f14c5ac36aa5"),
        (11, "cc471f26eef9fe0cd1950cd961e9fe47d6fda1eb57842c0f3daf88a129d34558"),
    ];
    let leaf =
        |number: u8| leaf_hash(&[&[number; 32], &u16::from(number).to_be_bytes()], &[b'v', number]);
    for (count, bag) in expected {
        let mut tree = Tree::new(MmrRule::Tombstone);
        tree.append(&(0..count).map(leaf).collect::<Vec<_>>());
        assert_eq!(hex_encode(&MmrRule::bag(&tree.peaks()).unwrap()), bag, "{count} leaves");
    }
}

#[test]
fn roots_and_tombstones_are_pinned() {
    let mut tree = Tree::new(MmrRule::Tombstone);
    let empty = hex_encode(&tree.root());
    let tombstones = [0, 1, 20].map(|level| hex_encode(&mmr_tombstone(level)));
    assert_eq!(
        tombstones,
        [
            "e88bd757ad5b9bedf372d8d3f0cf6c962a469db61a265f6418e1ffed86da29ec",
            "1749ef1c8f27e7d7861d17710cb4cb527d099a6e18f3240e73a46e285c1f2214",
            "cd2108bdda607cd6edf18c5378e1c593e56e020e28d1533908841f4348a5d430",
        ]
    );
    let leaf = |number: u8| mmr_leaf_hash(&[number; 32], number.into(), &[b'v', number]);
    tree.append(&(0..11).map(leaf).collect::<Vec<_>>());
    let full = hex_encode(&tree.root());
    tree.spend(&[0, 4, 5, 10]);
    let found = [empty, full, hex_encode(&tree.root())];
    let expected = [
        "5c3cd7b696e23b2d800734e78972f333448955cdd73bedd7061bb3e8c6e4edd0",
        "ea4abb8f66a02bbd64bd4814468280a891c60e9fce14d018ffa6b5186678836d",
        "9069a038813ef91a87ddd2ee32aa4d21e0e2748ecd92da84c9a9ecb4ea390cad",
    ];
    assert_eq!(found, expected);
}

#[test]
fn rows_are_pinned_and_damaged_ones_are_errors() {
    use crate::StoredKey as _;
    let key = RowKey { tier: 1, number: 7 };
    assert_eq!(hex_encode(&key.key_bytes()), "010000000000000007");
    assert_eq!(RowKey::read_key(&key.key_bytes()), Some(key));
    let mut row = Row::EMPTY;
    row.set(0, Some([0xaa; 32]));
    row.set(15, Some([0xbb; 32]));
    let mut bytes = Vec::new();
    row.encode_into(&mut bytes);
    assert_eq!(hex_encode(&bytes), format!("8001{}{}", "aa".repeat(32), "bb".repeat(32)));
    assert_eq!(Row::decode(&bytes).unwrap(), row);
    for len in 0..bytes.len() {
        assert!(Row::decode(&bytes[..len]).is_err());
    }
    assert!(Row::decode(&[0, 0]).is_err(), "an empty row is never stored");
}

#[test]
fn the_number_of_leaves_is_bound_into_the_root() {
    let bag = some_leaf(1);
    assert_ne!(mmr_root(1, Some(&bag)), mmr_root(2, Some(&bag)));
    assert_ne!(mmr_root(0, None), mmr_root(0, Some(&bag)));
}

#[test]
fn a_spent_subtree_takes_no_rows_and_its_neighbours_and_peaks_stay() {
    let mut tree = Tree::new(MmrRule::Tombstone);
    tree.append(&some_leaves(0, 4096 + 256 + 3));
    let root = tree.root();
    tree.spend(&(0..4096).filter(|leaf| leaf / 16 != 5).collect::<Vec<_>>());
    let in_mountain = tree.read.rows.keys().filter(|key| key.tier == 0 && key.number < 256).count();
    assert_eq!(in_mountain, 1, "one row of sixteen is left of 256");
    let mut leaves: Vec<_> = some_leaves(0, 4096 + 256 + 3).into_iter().map(Some).collect();
    for leaf in (0..4096).filter(|leaf| leaf / 16 != 5) {
        leaves[leaf] = None;
    }
    assert_eq!(tree.peaks(), naive_peaks(tree.rule, &leaves));
    // Nothing of it is needed to go back, except the hashes of the leaves.
    let restored: Vec<_> = (0..4096).map(|leaf| (leaf, Some(some_leaf(leaf)))).collect();
    tree.change(tree.leaves, &restored);
    assert_eq!(tree.root(), root);
    let all: Vec<_> = (0..tree.leaves).collect();
    tree.spend(&all);
    assert!(tree.read.rows.is_empty(), "what is spent entirely is stored nowhere");
}

#[test]
fn every_touched_row_is_read_once_and_none_that_is_new() {
    let mut tree = Tree::new(MmrRule::Tombstone);
    tree.append(&some_leaves(0, 5_000));
    assert!(tree.read.asked.lock().unwrap().is_empty(), "there was nothing to read");
    let spent: Vec<_> = (0..5_000).step_by(7).map(|leaf| (leaf, None)).collect();
    let added = (5_000..6_000).map(|leaf| (leaf, Some(some_leaf(leaf))));
    let changes: Vec<_> = spent.into_iter().chain(added).collect();
    let written = tree.change(6_000, &changes);
    let asked = tree.read.asked.lock().unwrap();
    assert!(asked.values().all(|times| *times == 1));
    assert!(asked.len() < written);
    // 313 rows of leaves, 20 above, 2 above those and 1 on top: not more for 715 spends.
    assert_eq!(asked.len(), 313 + 20 + 2 + 1);
}

/// What happens to a tree.
#[derive(Debug, Clone)]
enum Step {
    /// A block: appends so many leaves and spends those that numbers pick, old and new alike.
    Block(u64, Vec<u64>),
    /// Goes back so many blocks.
    Back(usize),
}

/// Leaves, what the block spent of them, and rows.
type Before = (Vec<Option<NodeHash>>, Vec<u64>, BTreeMap<RowKey, Row>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = (0..120u64, prop::collection::vec(any::<u64>(), 0..60))
        .prop_map(|(new, spent)| Step::Block(new, spent));
    prop::collection::vec(prop_oneof![4 => block, 1 => (1..4usize).prop_map(Step::Back)], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever happened before, a tree is that of its leaves; and going back gives the exact tree
    /// from before, rows included.
    #[test]
    fn any_history_gives_the_tree_of_its_leaves(steps in steps(), is_utreexo: bool) {
        let rule = if is_utreexo { MmrRule::Utreexo } else { MmrRule::Tombstone };
        let mut tree = Tree::new(rule);
        let mut leaves: Vec<Option<NodeHash>> = Vec::new();
        // Before each block: the leaves, what the block spent of them, and the rows.
        let mut past: Vec<Before> = Vec::new();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Block(new, picks) => {
                    let before = leaves.clone();
                    for _ in 0..new {
                        leaves.push(Some(some_leaf(next)));
                        next += 1;
                    }
                    let mut changes: BTreeMap<u64, Option<NodeHash>> =
                        (before.len() as u64..).zip(leaves[before.len()..].iter().copied()).collect();
                    let mut spent = Vec::new();
                    for pick in picks {
                        if leaves.is_empty() {
                            break;
                        }
                        let leaf = pick % leaves.len() as u64;
                        if leaves[usize::try_from(leaf).unwrap()].take().is_some() {
                            changes.insert(leaf, None);
                            spent.push(leaf);
                        }
                    }
                    spent.retain(|leaf| *leaf < before.len() as u64);
                    past.push((before, spent, tree.read.rows.clone()));
                    let changes: Vec<_> = changes.into_iter().collect();
                    tree.change(leaves.len() as u64, &changes);
                }
                Step::Back(blocks) => {
                    // Several blocks go back in one call, as for a proof at an earlier height.
                    let keep = past.len().saturating_sub(blocks);
                    let gone = past.split_off(keep);
                    let Some((before, _, rows)) = gone.first().cloned() else { continue };
                    let spent = gone.iter().flat_map(|(_, spent, _)| spent);
                    let mut restored: Vec<_> = spent
                        .filter(|leaf| **leaf < before.len() as u64)
                        .map(|leaf| (*leaf, before[usize::try_from(*leaf).unwrap()]))
                        .collect();
                    restored.sort_unstable();
                    tree.change(before.len() as u64, &restored);
                    prop_assert_eq!(&tree.read.rows, &rows);
                    leaves = before;
                }
            }
            prop_assert_eq!(tree.peaks(), naive_peaks(rule, &leaves));
        }
    }
}

/// What the tree costs a block that spends 7,600 of its leaves and appends 8,500, without the reads
/// and writes of a database: `--run-ignored only --no-capture` prints it.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr, reason = "a measurement is printed")]
fn measured_blocks_at_many_leaves() {
    for leaves in [1 << 20, 1 << 21, 1 << 22] {
        let mut tree = Tree::new(MmrRule::Tombstone);
        tree.append(&some_leaves(0, leaves));
        let (mut rows, mut number, blocks) = (0, 88_172_645_463_325_252_u64, 10);
        let started = std::time::Instant::now();
        let mut took = std::time::Duration::ZERO;
        for _ in 0..blocks {
            let mut changes = BTreeMap::new();
            for _ in 0..7_600 {
                number ^= number << 13;
                number ^= number >> 7;
                number ^= number << 17;
                changes.insert(number % leaves, None);
            }
            let new = tree.leaves + 8_500;
            changes.extend((tree.leaves..new).map(|leaf| (leaf, Some(some_leaf(leaf)))));
            let changes: Vec<_> = changes.into_iter().collect();
            let sizes = (tree.leaves, new);
            let started = std::time::Instant::now();
            let Ok(updated) = update(tree.rule, &tree.read, sizes, &changes);
            took += started.elapsed();
            rows += updated.rows.len();
            tree.change(new, &changes);
        }
        let path = std::time::Instant::now();
        for leaf in (0..leaves).step_by(usize::try_from(leaves / 100).unwrap()) {
            assert!(!tree.path(leaf).is_empty());
        }
        eprintln!(
            "{leaves} leaves: {:?} and {} rows a block, a path in {:?} ({:?} in all)",
            took / blocks,
            rows / blocks as usize,
            path.elapsed() / 100,
            started.elapsed()
        );
    }
}
