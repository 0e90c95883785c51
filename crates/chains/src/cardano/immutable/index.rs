//! The index of a chunk: 56 bytes for each of its blocks.

use std::{fs::File, io::Read, os::unix::fs::FileExt, path::Path};

use utxokeep_core::BlockHash;

use super::read_error;
use crate::SourceError;

/// What the index says of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where the block starts in its chunk.
    pub(super) offset: u64,
    /// CRC-32 of the block.
    pub(super) crc: u32,
    /// Hash of the block.
    pub(super) hash: BlockHash,
    /// Slot of the block; for a boundary block the number of its epoch.
    pub(super) slot_or_epoch: u64,
}

impl Entry {
    pub(super) const LEN: usize = 56;

    /// Offset, place of the header (not needed), check sum, hash, slot: all big endian.
    fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let field = |at: usize, len: usize| {
            bytes[at..at + len].iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(&bytes[16..48]);
        Self {
            offset: field(0, 8),
            crc: u32::try_from(field(12, 4)).expect("four bytes"),
            hash: BlockHash::from_bytes(hash),
            slot_or_epoch: field(48, 8),
        }
    }
}

/// How many entries an index of this length has; `None` when its end is cut. The index of the last
/// chunk may end in half an entry: a node is writing it.
pub(super) fn entries_in(index_len: u64, is_last: bool) -> Option<u32> {
    let len = Entry::LEN as u64;
    let is_whole = is_last || index_len.is_multiple_of(len);
    is_whole.then(|| u32::try_from(index_len / len).ok())?
}

/// All whole entries of an index, at least `blocks`; each block must start behind the one before.
pub(super) fn read(path: &Path, blocks: u32) -> Result<Vec<Entry>, SourceError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|source| read_error(path, source))?;
    let (entries, _) = bytes.as_chunks::<{ Entry::LEN }>();
    let entries: Vec<Entry> = entries.iter().map(Entry::parse).collect();
    let bad =
        |entry: usize| SourceError::BadChunkIndex { path: path.to_owned(), entry: entry as u64 };
    if entries.len() < blocks as usize {
        return Err(bad(entries.len()));
    }
    if entries.first().is_some_and(|first| first.offset != 0) {
        return Err(bad(0));
    }
    match entries.windows(2).position(|pair| pair[1].offset <= pair[0].offset) {
        Some(before) => Err(bad(before + 1)),
        None => Ok(entries),
    }
}

/// One entry of an index.
pub(super) fn read_one(path: &Path, entry: u32) -> Result<Entry, SourceError> {
    let mut bytes = [0; Entry::LEN];
    File::open(path)
        .and_then(|file| file.read_exact_at(&mut bytes, u64::from(entry) * Entry::LEN as u64))
        .map_err(|source| read_error(path, source))?;
    Ok(Entry::parse(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_read_as_nodes_write_it() {
        // Second entry of the preview network's first chunk.
        let text = "00000000000003c8000303e2b7daf712cd619529ca62b4c37f7f728cd6d3472682115f00\
                    1e1d1278bf1b7dce528db44e0000000000000014";
        let bytes = utxokeep_core::hex_decode(text).unwrap();
        let entry = Entry::parse(bytes.as_slice().try_into().unwrap());
        assert_eq!((entry.offset, entry.crc, entry.slot_or_epoch), (968, 0xb7da_f712, 20));
        assert!(entry.hash.to_hex().starts_with("cd619529ca62b4c3"));
    }

    #[test]
    fn only_the_last_index_may_end_in_half_an_entry() {
        assert_eq!(entries_in(0, false), Some(0));
        assert_eq!(entries_in(112, false), Some(2));
        assert_eq!(entries_in(113, false), None);
        assert_eq!(entries_in(113, true), Some(2));
    }
}
