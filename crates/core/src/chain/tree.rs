//! The tree of known headers above the settled chain, and which of its tips to follow.
//!
//! # Invariants
//!
//! * The best tip has the most accumulated work of all branches not known to be invalid; on equal
//!   work the one seen first stays.
//! * Descendants of an invalid block are invalid, whenever they arrive.
//! * Headers whose parent is unknown wait, up to a limit; they are never lost silently.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use rustc_hash::FxHashMap;

use super::block::Header;
use crate::types::{BlockHash, ChainWork, Height};

/// A header with its place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Hash of its parent.
    pub prev: BlockHash,
    /// Height of the block.
    pub height: Height,
    /// Work of its chain, itself included.
    pub work: ChainWork,
    /// Time of the block, in seconds.
    pub time: u64,
    /// The invalid block it is or descends from.
    pub invalid: Option<BlockHash>,
}

/// What became of an inserted header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It was there before.
    Known,
    /// It has a place now, and so have headers that waited for it.
    Attached,
    /// Its parent is unknown; it waits.
    Waiting,
    /// Its parent is unknown and too many headers wait already; it was dropped.
    Dropped,
}

/// How to get from one tip to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The last common block, in the tree or below it.
    pub fork: BlockHash,
    /// Blocks to connect above it, oldest first.
    pub connect: Vec<BlockHash>,
}

type Rank = (ChainWork, Reverse<u64>);

/// Headers above a root that the caller keeps elsewhere.
#[derive(Debug, Default)]
pub struct HeaderTree {
    nodes: FxHashMap<BlockHash, (Node, Rank)>,
    /// Every node not known to be invalid, by preference.
    candidates: BTreeMap<Rank, BlockHash>,
    children: FxHashMap<BlockHash, Vec<BlockHash>>,
    waiting: FxHashMap<BlockHash, Vec<Header>>,
    waiting_count: usize,
    waiting_max: usize,
    arrivals: u64,
    /// Headers that got their place since somebody asked.
    attached: Vec<BlockHash>,
}

impl HeaderTree {
    /// A tree that starts at `root`, the current tip; at most `waiting_max` headers may wait for
    /// their parents.
    #[must_use]
    pub fn new(root: Node, waiting_max: usize) -> Self {
        let mut tree = Self { waiting_max, ..Self::default() };
        tree.place(root);
        tree
    }

    /// Adds a node that is known to be in the chain below the root, so that branches can attach.
    pub fn insert_known(&mut self, node: Node) {
        if !self.nodes.contains_key(&node.hash) {
            self.place(node);
            self.attach_waiting(node.hash);
        }
    }

    /// Adds a header that arrived.
    pub fn insert(&mut self, header: &Header) -> Inserted {
        if self.nodes.contains_key(&header.hash) {
            return Inserted::Known;
        }
        if self.attach(header) {
            self.attach_waiting(header.hash);
            return Inserted::Attached;
        }
        let siblings = self.waiting.entry(header.prev).or_default();
        if siblings.iter().any(|known| known.hash == header.hash) {
            return Inserted::Known;
        }
        if self.waiting_count >= self.waiting_max {
            return Inserted::Dropped;
        }
        siblings.push(*header);
        self.waiting_count += 1;
        Inserted::Waiting
    }

    fn attach(&mut self, header: &Header) -> bool {
        let Some((parent, _)) = self.nodes.get(&header.prev) else { return false };
        let node = Node {
            hash: header.hash,
            prev: header.prev,
            height: parent.height.plus(1),
            work: parent.work.plus(&header.work),
            time: header.time,
            invalid: parent.invalid,
        };
        self.place(node);
        self.attached.push(node.hash);
        true
    }

    fn place(&mut self, node: Node) {
        let rank = (node.work, Reverse(self.arrivals));
        self.arrivals += 1;
        self.nodes.insert(node.hash, (node, rank));
        self.children.entry(node.prev).or_default().push(node.hash);
        if node.invalid.is_none() {
            self.candidates.insert(rank, node.hash);
        }
    }

    fn attach_waiting(&mut self, parent: BlockHash) {
        let mut work_list = vec![parent];
        while let Some(parent) = work_list.pop() {
            for header in self.waiting.remove(&parent).unwrap_or_default() {
                self.waiting_count -= 1;
                if self.attach(&header) {
                    work_list.push(header.hash);
                }
            }
        }
    }

    /// Headers that got their place since the last call, those that had waited included.
    pub fn take_attached(&mut self) -> Vec<BlockHash> {
        std::mem::take(&mut self.attached)
    }

    /// The node of a block, when the tree has it.
    #[must_use]
    pub fn get(&self, hash: &BlockHash) -> Option<&Node> {
        self.nodes.get(hash).map(|(node, _)| node)
    }

    /// How many headers wait for their parents.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting_count
    }

    /// Parents that waiting headers ask for and the tree does not have.
    #[must_use]
    pub fn missing_parents(&self) -> BTreeSet<BlockHash> {
        self.waiting.keys().copied().collect()
    }

    /// The tip to follow: most work, then first seen, among branches not known to be invalid.
    #[must_use]
    pub fn best(&self) -> Option<&Node> {
        self.candidates.last_key_value().and_then(|(_, hash)| self.get(hash))
    }

    /// Marks a block and all its descendants as invalid; answers how many were marked.
    pub fn mark_invalid(&mut self, hash: BlockHash) -> usize {
        let mut work_list = vec![hash];
        let mut marked = 0;
        while let Some(next) = work_list.pop() {
            let Some((node, rank)) = self.nodes.get_mut(&next) else { continue };
            if node.invalid.is_some() && next != hash {
                continue;
            }
            node.invalid = Some(hash);
            self.candidates.remove(rank);
            marked += 1;
            work_list.extend(self.children.get(&next).into_iter().flatten());
        }
        marked
    }

    /// The way from `from` to `to`; `None` when either is not in the tree or they share no block
    /// in it.
    #[must_use]
    pub fn path(&self, from: &BlockHash, to: &BlockHash) -> Option<Path> {
        let (mut left, mut right) = (self.get(from)?, self.get(to)?);
        let mut connect = Vec::new();
        while left.hash != right.hash {
            if right.height >= left.height {
                connect.push(right.hash);
                right = self.get(&right.prev)?;
            } else {
                left = self.get(&left.prev)?;
            }
        }
        connect.reverse();
        Some(Path { fork: left.hash, connect })
    }

    /// Forgets blocks below `height`: nothing can fork off them any more. Branches that start
    /// below it go too.
    pub fn forget_below(&mut self, height: Height) {
        let stale: Vec<_> = self
            .candidates
            .values()
            .chain(self.children.values().flatten())
            .copied()
            .filter(|hash| self.get(hash).is_some_and(|node| node.height < height))
            .collect();
        for hash in stale {
            if let Some((node, rank)) = self.nodes.remove(&hash) {
                self.candidates.remove(&rank);
                self.children.remove(&node.prev);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: u8) -> BlockHash {
        BlockHash::from_bytes([name; 32])
    }

    fn work(amount: u8) -> ChainWork {
        let mut bytes = [0; 32];
        bytes[31] = amount;
        ChainWork::from_be_bytes(bytes)
    }

    fn header(name: u8, prev: u8) -> Header {
        Header { hash: hash(name), prev: hash(prev), time: 0, work: work(2), slot: None }
    }

    fn tree() -> HeaderTree {
        let root = Node {
            hash: hash(1),
            prev: hash(0),
            height: Height::GENESIS,
            work: work(2),
            time: 0,
            invalid: None,
        };
        HeaderTree::new(root, 3)
    }

    fn best(tree: &HeaderTree) -> BlockHash {
        tree.best().unwrap().hash
    }

    #[test]
    fn most_work_wins_and_first_seen_stays_on_a_tie() {
        let mut tree = tree();
        assert_eq!(tree.insert(&header(2, 1)), Inserted::Attached);
        tree.insert(&header(3, 1));
        assert_eq!(best(&tree), hash(2));
        tree.insert(&header(4, 3));
        assert_eq!(best(&tree), hash(4));
        tree.insert(&header(5, 2));
        assert_eq!(best(&tree), hash(4));
        let path = tree.path(&hash(5), &hash(4)).unwrap();
        assert_eq!(path, Path { fork: hash(1), connect: vec![hash(3), hash(4)] });
        let down = tree.path(&hash(4), &hash(3)).unwrap();
        assert_eq!(down, Path { fork: hash(3), connect: vec![] });
    }

    #[test]
    fn a_child_may_arrive_before_its_parent() {
        let mut tree = tree();
        assert_eq!(tree.insert(&header(4, 3)), Inserted::Waiting);
        assert_eq!(tree.insert(&header(4, 3)), Inserted::Known);
        assert_eq!(tree.insert(&header(3, 2)), Inserted::Waiting);
        assert_eq!(tree.missing_parents().len(), 2);
        assert_eq!(tree.insert(&header(2, 1)), Inserted::Attached);
        assert_eq!((best(&tree), tree.waiting()), (hash(4), 0));
        assert_eq!(tree.take_attached(), [hash(2), hash(3), hash(4)]);
        assert_eq!(tree.take_attached(), []);
        assert_eq!(tree.get(&hash(4)).unwrap().height, Height::new(3));
    }

    #[test]
    fn waiting_headers_are_bounded() {
        let mut tree = tree();
        for name in 10..13 {
            assert_eq!(tree.insert(&header(name, name + 50)), Inserted::Waiting);
        }
        assert_eq!(tree.insert(&header(13, 63)), Inserted::Dropped);
    }

    #[test]
    fn an_invalid_block_takes_its_descendants_with_it_also_late_ones() {
        let mut tree = tree();
        for (name, prev) in [(2, 1), (3, 1), (4, 3), (5, 4)] {
            tree.insert(&header(name, prev));
        }
        assert_eq!(best(&tree), hash(5));
        assert_eq!(tree.mark_invalid(hash(4)), 2);
        assert_eq!(best(&tree), hash(2));
        tree.insert(&header(6, 5));
        assert_eq!(tree.get(&hash(6)).unwrap().invalid, Some(hash(4)));
        assert_eq!(best(&tree), hash(2));
    }

    #[test]
    fn what_lies_below_the_floor_is_forgotten() {
        let mut tree = tree();
        for (name, prev) in [(2, 1), (3, 2), (4, 3), (9, 1)] {
            tree.insert(&header(name, prev));
        }
        tree.forget_below(Height::new(2));
        assert!(tree.get(&hash(2)).is_none() && tree.get(&hash(9)).is_none());
        assert_eq!(best(&tree), hash(4));
        assert_eq!(tree.insert(&header(10, 1)), Inserted::Waiting);
    }
}
