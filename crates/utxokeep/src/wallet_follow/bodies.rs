//! Where bodies of blocks come from: what has just arrived, then files, then the node.

use std::path::{Path, PathBuf};

use utxokeep_chains::{BlockDecoder, XorKey, cardano::NodeOptions};
use utxokeep_core::{ChainPoint, Height};

use super::{
    bitcoin::BitcoinBodies, cardano::CardanoBodies, error::BodyError, node::NodeBodies,
    recent::RecentBlocks,
};

/// A block that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) point: ChainPoint,
    /// The block below; `None` for the first of a database.
    pub(super) parent: Option<ChainPoint>,
    /// Where the chain ends.
    pub(super) tip: Height,
}

impl Wanted {
    /// Where in a list of `len` files in the order of the chain the block may be.
    pub(super) fn share_of(&self, len: usize) -> usize {
        let (height, tip) = (u64::from(self.point.height.get()), u64::from(self.tip.get()).max(1));
        let share = len.saturating_sub(1) as u64 * height.min(tip) / tip;
        usize::try_from(share).unwrap_or(0)
    }
}

/// Places where bodies are looked for, in this order.
#[derive(Debug)]
pub struct Bodies {
    recent: Option<RecentBlocks>,
    files: Option<Files>,
    node: Option<NodeBodies>,
    names: Vec<String>,
}

#[derive(Debug)]
enum Files {
    Bitcoin(BitcoinBodies),
    Cardano(CardanoBodies),
}

impl Bodies {
    /// No place yet.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self { recent: None, files: None, node: None, names: Vec::new() }
    }

    /// Also in files and directories, as `chain import` reads them. `spool_dir` is where compressed
    /// files are unpacked.
    #[must_use]
    pub fn and_files(
        mut self,
        paths: &[PathBuf],
        decoder: &BlockDecoder,
        xor_key: Option<XorKey>,
        spool_dir: &Path,
    ) -> Self {
        if paths.is_empty() {
            return self;
        }
        self.names.extend(paths.iter().map(|path| path.display().to_string()));
        self.files = Some(if decoder.network().is_cardano() {
            Files::Cardano(CardanoBodies::new(paths, decoder.clone()))
        } else {
            Files::Bitcoin(BitcoinBodies::new(paths, decoder.network(), xor_key, spool_dir))
        });
        self
    }

    /// Also among the blocks that have just arrived, and on the node that they come from.
    #[must_use]
    pub fn and_node(
        mut self,
        recent: Option<RecentBlocks>,
        node: NodeOptions,
        decoder: &BlockDecoder,
    ) -> Self {
        let node = NodeBodies::new(node, decoder.clone());
        self.names.push(format!("the node at {}", node.address()));
        self.recent = recent;
        self.node = Some(node);
        self
    }

    /// The places, for people.
    pub(super) fn names(&self) -> String {
        if self.names.is_empty() { "no place at all".to_owned() } else { self.names.join(", ") }
    }

    /// The bytes of a block; `None` when it is nowhere.
    pub(super) fn raw(
        &mut self,
        wanted: &Wanted,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let mut found = self.recent.as_ref().and_then(|recent| recent.get(&wanted.point.hash));
        if found.is_none() {
            found = match &mut self.files {
                Some(Files::Bitcoin(files)) => files.raw(wanted, is_stopped)?,
                Some(Files::Cardano(files)) => files.raw(wanted)?,
                None => None,
            };
        }
        let Some(node) = &mut self.node else { return Ok(found) };
        if found.is_some() {
            node.close();
            return Ok(found);
        }
        node.raw(wanted, is_stopped)
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::BlockHash;

    use super::*;

    #[test]
    fn the_first_guess_goes_with_the_height() {
        let share = |height, tip, len| {
            let hash = BlockHash::default();
            let point = ChainPoint { height: Height::new(height), slot: 0, hash };
            Wanted { point, parent: None, tip: Height::new(tip) }.share_of(len)
        };
        assert_eq!([share(0, 100, 11), share(50, 100, 11), share(100, 100, 11)], [0, 5, 10]);
        assert_eq!([share(0, 0, 1), share(7, 0, 0), share(200, 100, 11)], [0, 0, 10]);
    }
}
