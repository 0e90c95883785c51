//! A place in the chain log.

use std::fmt;

use utxokeep_core::{BlockHash, ChainPoint, Height};

/// The last block that a reader of the log has dealt with. The hash tells it from another block of
/// the same height, so that a reorganisation is noticed whenever the reader comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Cursor(Option<(Height, BlockHash)>);

impl Cursor {
    /// Before the first block.
    pub const START: Self = Self(None);

    /// At a block.
    #[must_use]
    pub const fn at(height: Height, hash: BlockHash) -> Self {
        Self(Some((height, hash)))
    }

    /// The block; `None` before the first.
    #[must_use]
    pub const fn block(&self) -> Option<(Height, BlockHash)> {
        self.0
    }

    /// Height of the block; `None` before the first.
    #[must_use]
    pub fn height(&self) -> Option<Height> {
        self.0.map(|(height, _)| height)
    }
}

impl From<ChainPoint> for Cursor {
    fn from(point: ChainPoint) -> Self {
        Self::at(point.height, point.hash)
    }
}

impl From<Option<(Height, BlockHash)>> for Cursor {
    fn from(block: Option<(Height, BlockHash)>) -> Self {
        Self(block)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((height, _)) => write!(f, "block {height}"),
            None => f.write_str("the start of the chain"),
        }
    }
}
