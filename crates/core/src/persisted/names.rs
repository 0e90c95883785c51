//! Names of files.

use std::{fmt, ops::RangeInclusive};

use super::FileKind;
use crate::{
    network::Network,
    types::{BlockHash, Height},
};

/// Blocks whose files lie in one folder.
const FOLDER_BLOCKS: u32 = 1_000;

/// The folder of the files of a block: a thousand blocks each keep folders small, and tell which
/// blocks are old without a look inside.
#[must_use]
pub fn folder_of(height: Height) -> String {
    format!("{:07}", height.get() / FOLDER_BLOCKS)
}

/// The heights of the blocks in a folder; `None` for a folder of something else.
#[must_use]
pub fn folder_range(folder: &str) -> Option<RangeInclusive<Height>> {
    let number: u32 = folder.parse().ok().filter(|_| folder.len() == 7)?;
    let first = number.checked_mul(FOLDER_BLOCKS)?;
    Some(Height::new(first)..=Height::new(first.saturating_add(FOLDER_BLOCKS - 1)))
}

/// The name of a file of a block, with its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName {
    /// The chain, which says how hashes are written.
    pub network: Network,
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: BlockHash,
    /// What the file holds.
    pub kind: FileKind,
    /// Number of the subtree, for files of subtrees.
    pub subtree: u32,
}

impl FileName {
    /// The `.block` file of a block.
    #[must_use]
    pub const fn of_block(network: Network, height: Height, hash: BlockHash) -> Self {
        Self { network, height, hash, kind: FileKind::Block, subtree: 0 }
    }

    /// Another file of the same block.
    #[must_use]
    pub const fn sibling(self, kind: FileKind, subtree: u32) -> Self {
        Self { kind, subtree, ..self }
    }

    /// Reads the hash of a `.block` file in a folder; `None` for any other file.
    #[must_use]
    pub fn hash_of_block_file(network: Network, name: &str) -> Option<BlockHash> {
        let (_, file) = name.rsplit_once('/')?;
        let hash = file.strip_suffix(".block")?;
        network.parse_hash(hash).ok().map(BlockHash::from_bytes)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, hash) = (folder_of(self.height), self.network.hash_text(self.hash.as_bytes()));
        let extension = self.kind.extension();
        match self.kind {
            FileKind::Subtree | FileKind::SubtreeData => {
                write!(f, "{folder}/{hash}.{}.{extension}", self.subtree)
            }
            _ => write!(f, "{folder}/{hash}.{extension}"),
        }
    }
}
