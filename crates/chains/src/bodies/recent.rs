//! Blocks that have just arrived over a live connection, so that nobody need fetch them again.
//!
//! # Invariants
//!
//! * Neither the number of blocks nor their bytes exceed the limits; the oldest go first.
//! * Whoever applies blocks keeps each one here first: a block that an index shows is here, or has
//!   gone because of the limits.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use utxokeep_core::BlockHash;

use crate::{BlockDecoder, cardano::decode_header};

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentLimits {
    /// The most blocks.
    pub blocks_max: usize,
    /// The most bytes of all of them together.
    pub bytes_max: usize,
}

/// The newest blocks of a live connection; clones share them.
#[derive(Debug, Clone)]
pub struct RecentBlocks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    decoder: BlockDecoder,
    limits: RecentLimits,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Oldest first.
    order: VecDeque<BlockHash>,
    bodies: BTreeMap<BlockHash, Vec<u8>>,
    bytes: usize,
}

impl RecentBlocks {
    /// Keeps no block yet.
    #[must_use]
    pub fn new(decoder: BlockDecoder, limits: RecentLimits) -> Self {
        Self(Arc::new(Shared { decoder, limits, ring: Mutex::default() }))
    }

    /// Keeps a block that has arrived. One that cannot be read is passed over: whoever applies it
    /// will say what is wrong.
    pub fn keep(&self, raw: &[u8]) {
        let Some(genesis) = self.0.decoder.genesis() else { return };
        let Ok(info) = decode_header(raw, genesis) else { return };
        let RecentLimits { blocks_max, bytes_max } = self.0.limits;
        if raw.len() > bytes_max {
            return;
        }
        let mut ring = self.ring();
        if ring.bodies.insert(info.header.hash, raw.to_vec()).is_some() {
            return;
        }
        ring.order.push_back(info.header.hash);
        ring.bytes += raw.len();
        while ring.order.len() > blocks_max || ring.bytes > bytes_max {
            let Some(oldest) = ring.order.pop_front() else { break };
            let gone = ring.bodies.remove(&oldest).map_or(0, |raw| raw.len());
            ring.bytes -= gone;
        }
    }

    /// The bytes of a block, if it is among them.
    #[must_use]
    pub fn get(&self, hash: &BlockHash) -> Option<Vec<u8>> {
        self.ring().bodies.get(hash).cloned()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Network;
    use utxokeep_testkit::cardano::{BlockSpec, Built, Era, shelley_genesis};

    use super::*;
    use crate::cardano::Genesis;

    fn chain(blocks: usize) -> Vec<Built> {
        let mut chain = vec![BlockSpec::first(Era::Conway, Vec::new()).build()];
        while chain.len() < blocks {
            chain.push(chain[chain.len() - 1].next(Era::Conway, Vec::new()).build());
        }
        chain
    }

    fn decoder() -> BlockDecoder {
        let genesis = Genesis::from_files(None, shelley_genesis(30, &[]).as_bytes()).unwrap();
        BlockDecoder::with_genesis(Network::CardanoDevnet, genesis)
    }

    fn keeping(blocks_max: usize, bytes_max: usize) -> RecentBlocks {
        RecentBlocks::new(decoder(), RecentLimits { blocks_max, bytes_max })
    }

    fn kept(recent: &RecentBlocks, chain: &[Built]) -> Vec<bool> {
        let has = |built: &Built| recent.get(&BlockHash::from_bytes(built.hash)).is_some();
        chain.iter().map(has).collect()
    }

    #[test]
    fn the_oldest_blocks_go_when_there_are_too_many_or_too_long() {
        let chain = chain(5);
        let recent = keeping(2, 1 << 20);
        for built in &chain {
            recent.keep(&built.raw);
            recent.keep(&built.raw);
        }
        assert_eq!(kept(&recent, &chain), [false, false, false, true, true]);
        assert_eq!(recent.get(&BlockHash::from_bytes(chain[4].hash)).as_ref(), Some(&chain[4].raw));

        let room = chain[2].raw.len() + chain[3].raw.len() + chain[4].raw.len();
        let recent = keeping(100, room);
        for built in &chain {
            recent.keep(&built.raw);
        }
        assert_eq!(kept(&recent, &chain), [false, false, true, true, true]);
        assert_eq!(recent.ring().bytes, room);
    }

    #[test]
    fn bytes_that_are_no_block_or_longer_than_the_limit_leave_the_others_alone() {
        let chain = chain(2);
        let recent = keeping(10, chain[0].raw.len());
        recent.keep(&chain[0].raw);
        recent.keep(&[0x82, 0x07]);
        let longer = chain[1].raw.len() > chain[0].raw.len();
        recent.keep(&chain[1].raw);
        assert_eq!(kept(&recent, &chain), [longer, !longer]);
    }
}
