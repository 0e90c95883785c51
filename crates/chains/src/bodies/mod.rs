//! Finding the body of a block whose hash is known: among the blocks that have just arrived, then in
//! files, then on the node.
//!
//! A chain index keeps hashes, not bodies. Whoever needs a body (a wallet ledger, a persister, a
//! stream) names the block by its place on the chain and asks a [`BodyFinder`].
//!
//! # Invariants
//!
//! * A recent block is the one that whoever applied it has decoded; bytes from elsewhere are decoded
//!   once for each answer.
//! * A body is found by the hash that was asked for; a place that has another block there has none.
//! * Nothing is opened, listed or connected to before the first body is asked for.
//! * A search ends soon after `is_stopped` says so.

mod error;
mod files;
mod immutable;
mod node;
mod recent;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use utxokeep_core::{Block, ChainPoint, Height};

pub(crate) use self::files::BitcoinBodies;
pub use self::{
    error::BodyError,
    recent::{RecentBlocks, RecentLimits},
};
use self::{immutable::CardanoBodies, node::NodeBodies};
use crate::{BlockDecoder, NodeSource, XorKey};

/// A block that is looked for, by its place on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedBlock {
    /// Height and hash; a body with another hash is never answered.
    pub point: ChainPoint,
    /// The block below; `None` for the first that the caller knows of.
    pub parent: Option<ChainPoint>,
    /// Height at which the chain ends: it tells in which file to look first.
    pub tip: Height,
}

impl WantedBlock {
    /// Where in a list of `len` files in the order of the chain the block may be.
    fn share_of(&self, len: usize) -> usize {
        let (height, tip) = (u64::from(self.point.height.get()), u64::from(self.tip.get()).max(1));
        let share = len.saturating_sub(1) as u64 * height.min(tip) / tip;
        usize::try_from(share).unwrap_or(0)
    }
}

/// Looks for bodies in the places it was given: recent blocks, files, a node, in this order.
#[derive(Debug)]
pub struct BodyFinder {
    decoder: BlockDecoder,
    recent: Option<RecentBlocks>,
    files: Option<Files>,
    node: Option<NodeBodies>,
    /// For people.
    names: Vec<String>,
}

#[derive(Debug)]
enum Files {
    Bitcoin(BitcoinBodies),
    Cardano(CardanoBodies),
}

impl BodyFinder {
    /// Looks nowhere yet.
    #[must_use]
    pub const fn new(decoder: BlockDecoder) -> Self {
        Self { decoder, recent: None, files: None, node: None, names: Vec::new() }
    }

    /// Looks in files and directories too: block files of a Bitcoin node, of which `xor_key` is the
    /// key if they have no `xor.dat` beside them, or the immutable database of a Cardano node and
    /// files of its blocks. Compressed block files are unpacked in `spool_dir`.
    #[must_use]
    pub fn with_files(
        mut self,
        paths: &[PathBuf],
        xor_key: Option<XorKey>,
        spool_dir: &Path,
    ) -> Self {
        if paths.is_empty() {
            return self;
        }
        self.names.extend(paths.iter().map(|path| path.display().to_string()));
        let network = self.decoder.network();
        self.files = Some(if network.is_cardano() {
            Files::Cardano(CardanoBodies::new(paths, self.decoder.clone()))
        } else {
            Files::Bitcoin(BitcoinBodies::new(paths, network, xor_key, spool_dir))
        });
        self
    }

    /// Looks among the blocks that have just arrived too.
    #[must_use]
    pub fn with_recent(mut self, recent: RecentBlocks) -> Self {
        self.recent = Some(recent);
        self
    }

    /// Asks a node too, over a connection of its own.
    #[must_use]
    pub fn with_node(mut self, source: NodeSource) -> Self {
        let node = NodeBodies::new(source, self.decoder.clone());
        self.names.push(format!("the node at {}", node.address()));
        self.node = Some(node);
        self
    }

    /// The places, for people.
    #[must_use]
    pub fn places(&self) -> String {
        if self.names.is_empty() { "no place at all".to_owned() } else { self.names.join(", ") }
    }

    /// A block; `None` when it is in none of the places.
    pub fn block(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Arc<Block>>, BodyError> {
        if let Some(block) = self.recent(wanted) {
            return Ok(Some(block));
        }
        let Some(raw) = self.stored(wanted, is_stopped)? else { return Ok(None) };
        Ok(Some(Arc::new(self.decoder.decode(raw)?)))
    }

    /// The bytes of a block as it is on chain; `None` when it is in none of the places. A decoded
    /// Cardano block does not keep them, so those come from files or the node.
    pub fn raw(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        if !self.decoder.network().is_cardano()
            && let Some(block) = self.recent(wanted)
        {
            return Ok(Some(block.bytes.clone()));
        }
        self.stored(wanted, is_stopped)
    }

    fn recent(&mut self, wanted: &WantedBlock) -> Option<Arc<Block>> {
        let block = self.recent.as_ref()?.get(&wanted.point.hash)?;
        self.close_node();
        Some(block)
    }

    /// The bytes of a block in files or on the node.
    fn stored(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let in_files = match &mut self.files {
            Some(Files::Bitcoin(files)) => files.raw(wanted, is_stopped)?,
            Some(Files::Cardano(files)) => files.raw(wanted)?,
            None => None,
        };
        if in_files.is_some() {
            self.close_node();
            return Ok(in_files);
        }
        self.node.as_mut().map_or(Ok(None), |node| node.raw(wanted, is_stopped))
    }

    fn close_node(&mut self) {
        if let Some(node) = &mut self.node {
            node.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::BlockHash;

    use super::*;
    use crate::{Simulator, SimulatorConfig, write_block_file};

    #[test]
    fn a_recent_block_is_not_decoded_again_and_others_come_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let decoder = BlockDecoder::new(Simulator::NETWORK);
        let mut simulator = Simulator::new(SimulatorConfig::default());
        let raws: Vec<Vec<u8>> = (0..4).map(|_| simulator.mine_next().1).collect();
        let blocks: Vec<Arc<Block>> =
            raws.iter().map(|raw| Arc::new(decoder.decode(raw.clone()).unwrap())).collect();
        let file = dir.path().join("blk00000.dat");
        write_block_file(&file, Simulator::NETWORK, &raws[..3]).unwrap();
        let recent = RecentBlocks::new(RecentLimits { blocks_max: 2, bytes_max: 1 << 30 });
        recent.keep(&blocks[2]);
        recent.keep(&blocks[3]);
        let mut finder = BodyFinder::new(decoder.clone())
            .with_files(&[dir.path().to_owned()], None, dir.path())
            .with_recent(recent.clone());
        let wanted = |at: usize| {
            let (height, hash) = (Height::new(u32::try_from(at).unwrap()), blocks[at].header.hash);
            let point = ChainPoint { height, slot: 0, hash };
            WantedBlock { point, parent: None, tip: Height::new(3) }
        };
        for at in 0..4 {
            let found = finder.block(&wanted(at), &|| false).unwrap().unwrap();
            assert_eq!(found, blocks[at], "block {at}");
            assert_eq!(Arc::ptr_eq(&found, &blocks[at]), at >= 2, "block {at}");
            assert_eq!(finder.raw(&wanted(at), &|| false).unwrap().as_ref(), Some(&raws[at]));
        }
        let mut alone = BodyFinder::new(decoder).with_recent(recent);
        assert_eq!(alone.block(&wanted(1), &|| false).unwrap(), None);
        assert_eq!(alone.raw(&wanted(1), &|| false).unwrap(), None);
        assert_eq!(alone.places(), "no place at all");
    }

    #[test]
    fn the_first_guess_goes_with_the_height() {
        let share = |height, tip, len| {
            let hash = BlockHash::default();
            let point = ChainPoint { height: Height::new(height), slot: 0, hash };
            WantedBlock { point, parent: None, tip: Height::new(tip) }.share_of(len)
        };
        assert_eq!([share(0, 100, 11), share(50, 100, 11), share(100, 100, 11)], [0, 5, 10]);
        assert_eq!([share(0, 0, 1), share(7, 0, 0), share(200, 100, 11)], [0, 0, 10]);
    }
}
