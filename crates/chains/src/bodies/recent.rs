//! Blocks that have just arrived over a live connection, decoded, so that nobody need fetch or decode
//! them again.
//!
//! # Invariants
//!
//! * Neither the number of blocks nor their memory exceeds the limits; the oldest go first.
//! * Whoever applies blocks keeps each one here first: a block that an index shows is here, or has
//!   gone because of the limits.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use utxokeep_core::{Block, BlockHash};

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentLimits {
    /// The most blocks.
    pub blocks_max: usize,
    /// The most memory of all of them together, in bytes: [`Block::held_bytes`].
    pub bytes_max: usize,
}

/// The newest blocks of a live connection; clones share them.
#[derive(Debug, Clone)]
pub struct RecentBlocks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: RecentLimits,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Oldest first.
    order: VecDeque<BlockHash>,
    blocks: BTreeMap<BlockHash, Arc<Block>>,
    bytes: usize,
}

impl RecentBlocks {
    /// Keeps no block yet.
    #[must_use]
    pub fn new(limits: RecentLimits) -> Self {
        Self(Arc::new(Shared { limits, ring: Mutex::default() }))
    }

    /// Keeps a block that has arrived. One that is larger than all the room is passed over.
    pub fn keep(&self, block: &Arc<Block>) {
        let RecentLimits { blocks_max, bytes_max } = self.0.limits;
        let bytes = block.held_bytes();
        if bytes > bytes_max {
            return;
        }
        let hash = block.header.hash;
        let mut ring = self.ring();
        if ring.blocks.contains_key(&hash) {
            return;
        }
        ring.blocks.insert(hash, Arc::clone(block));
        ring.order.push_back(hash);
        ring.bytes += bytes;
        while ring.order.len() > blocks_max || ring.bytes > bytes_max {
            let Some(oldest) = ring.order.pop_front() else { break };
            let gone = ring.blocks.remove(&oldest).map_or(0, |block| block.held_bytes());
            ring.bytes -= gone;
        }
    }

    /// A block, if it is among them.
    #[must_use]
    pub fn get(&self, hash: &BlockHash) -> Option<Arc<Block>> {
        self.ring().blocks.get(hash).cloned()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDecoder, Simulator, SimulatorConfig};

    /// Blocks of different sizes.
    fn chain(blocks: usize) -> Vec<Arc<Block>> {
        let mut simulator = Simulator::new(SimulatorConfig::default());
        let decoder = BlockDecoder::new(Simulator::NETWORK);
        let next = |_| Arc::new(decoder.decode(simulator.mine_next().1).unwrap());
        (0..blocks).map(next).collect()
    }

    fn keeping(blocks_max: usize, bytes_max: usize) -> RecentBlocks {
        RecentBlocks::new(RecentLimits { blocks_max, bytes_max })
    }

    fn kept(recent: &RecentBlocks, chain: &[Arc<Block>]) -> Vec<bool> {
        chain.iter().map(|block| recent.get(&block.header.hash).is_some()).collect()
    }

    #[test]
    fn the_oldest_blocks_go_when_there_are_too_many_or_too_long() {
        let chain = chain(5);
        let recent = keeping(2, 1 << 20);
        for block in &chain {
            recent.keep(block);
            recent.keep(block);
        }
        assert_eq!(kept(&recent, &chain), [false, false, false, true, true]);
        let found = recent.get(&chain[4].header.hash).unwrap();
        assert!(Arc::ptr_eq(&found, &chain[4]), "nobody makes a second one");

        let room = chain[2..].iter().map(|block| block.held_bytes()).sum();
        let recent = keeping(100, room);
        for block in &chain {
            recent.keep(block);
        }
        assert_eq!(kept(&recent, &chain), [false, false, true, true, true]);
        assert_eq!(recent.ring().bytes, room);
    }

    #[test]
    fn a_block_longer_than_the_limit_leaves_the_others_alone() {
        let mut chain = chain(20);
        chain.sort_by_key(|block| block.held_bytes());
        let (short, long) = (chain[0].clone(), chain[19].clone());
        assert!(long.held_bytes() > short.held_bytes());
        let recent = keeping(10, short.held_bytes());
        recent.keep(&short);
        recent.keep(&long);
        assert_eq!(kept(&recent, &[short, long]), [true, false]);
    }
}
