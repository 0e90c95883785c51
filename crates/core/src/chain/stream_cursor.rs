//! How far a reader of the change stream has come: behind a block, or somewhere inside one.
//!
//! # Invariants
//!
//! * A cursor says what its reader has, not where it was going. A reader that has the first `n`
//!   changes of a block reads on from there when the block is on the chain, and gives them back when
//!   it is not.
//! * Its bytes are pinned: clients keep them.

use crate::types::{BlockHash, Height};

/// First byte: what the others mean.
const VERSION: u8 = 1;

/// A place in the change stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StreamCursor {
    block: Option<(Height, BlockHash)>,
    /// How many changes of the block the reader has; `None` when it has all.
    applied: Option<u32>,
}

impl StreamCursor {
    /// Before the first block.
    pub const START: Self = Self { block: None, applied: None };

    /// Behind a block.
    #[must_use]
    pub const fn behind(height: Height, hash: BlockHash) -> Self {
        Self { block: Some((height, hash)), applied: None }
    }

    /// Inside a block, of which the reader has the first `applied` changes.
    #[must_use]
    pub const fn inside(height: Height, hash: BlockHash, applied: u32) -> Self {
        Self { block: Some((height, hash)), applied: Some(applied) }
    }

    /// The block; `None` before the first.
    #[must_use]
    pub const fn block(&self) -> Option<(Height, BlockHash)> {
        self.block
    }

    /// How many changes of the block the reader has; `None` when it has all of them.
    #[must_use]
    pub const fn applied(&self) -> Option<u32> {
        self.applied
    }

    /// Version, height, hash, then the number of changes of a reader inside the block.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        if let Some((height, hash)) = &self.block {
            bytes.extend_from_slice(&height.to_key());
            bytes.extend_from_slice(hash.as_bytes());
        }
        if let Some(applied) = self.applied {
            bytes.extend_from_slice(&applied.to_be_bytes());
        }
        bytes
    }

    /// Inverse of [`StreamCursor::to_bytes`]; `None` for any other bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        if rest.is_empty() {
            return Some(Self::START);
        }
        let (height, rest) = rest.split_at_checked(4)?;
        let (hash, rest) = rest.split_at_checked(32)?;
        let block = (Height::from_key(height)?, BlockHash::from_slice(hash)?);
        let applied = match rest {
            [] => None,
            rest => Some(u32::from_be_bytes(rest.try_into().ok()?)),
        };
        Some(Self { block: Some(block), applied })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_cursors_are_pinned() {
        let (height, hash) = (Height::new(0x0102), BlockHash::from_bytes([0xab; 32]));
        let behind = format!("0100000102{}", "ab".repeat(32));
        for (cursor, bytes) in [
            (StreamCursor::START, "01".to_owned()),
            (StreamCursor::behind(height, hash), behind.clone()),
            (StreamCursor::inside(height, hash, 7), format!("{behind}00000007")),
        ] {
            assert_eq!(crate::hex_encode(&cursor.to_bytes()), bytes);
            assert_eq!(StreamCursor::from_bytes(&cursor.to_bytes()), Some(cursor));
        }
    }

    #[test]
    fn other_bytes_are_no_cursor() {
        let whole = StreamCursor::inside(Height::new(1), BlockHash::default(), 2).to_bytes();
        for len in 0..whole.len() {
            let is_cursor = len == 1 || len == 37;
            assert_eq!(StreamCursor::from_bytes(&whole[..len]).is_some(), is_cursor, "{len}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        let newer = [&[2], &whole[1..]].concat();
        assert_eq!(StreamCursor::from_bytes(&longer), None);
        assert_eq!(StreamCursor::from_bytes(&newer), None);
    }
}
