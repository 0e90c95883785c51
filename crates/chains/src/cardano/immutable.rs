//! Blocks from the immutable database of a Cardano node.
//!
//! A node keeps the part of its chain that can no longer be undone in numbered chunks. Three files
//! make a chunk: the blocks one behind the other, an index with one entry per block, and a list of
//! slots that is not needed here.
//!
//! # Invariants
//!
//! * Every block up to the last chunk is handed out or an error says why not. Only where the last
//!   chunk ends in the middle of blocks, as under a running node or in a copy of it, reading stops
//!   there, and [`ImmutableBlocks::unfinished`] counts what the index names beyond.
//! * An opened database does not grow: blocks a node adds later are seen when it is opened again.
//! * Memory holds one index and one block at a time.

mod blocks;
mod index;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use utxokeep_core::{BlockHash, cardano::era};

use self::index::Entry;
use crate::SourceError;

pub use blocks::{ImmutableBlocks, RawBlock};

/// A node keeps the chunks in this directory of its database.
const IMMUTABLE_DIR: &str = "immutable";
const BLOCKS: &str = "chunk";
const INDEX: &str = "secondary";

/// Where a block lies in an [`ImmutableDb`]; of no use with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockPosition {
    /// Place of the chunk in the list, not its number.
    chunk: usize,
    entry: u32,
}

impl BlockPosition {
    /// The position behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { chunk: self.chunk, entry: self.entry.saturating_add(1) }
    }
}

/// The last block of an [`ImmutableDb`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImmutableTip {
    /// Its slot; where `is_boundary`, the number of the epoch that it starts.
    pub slot: u64,
    /// Hash of its header, as the index of the last chunk has it.
    pub hash: BlockHash,
    /// Whether it only marks the start of an epoch of Byron.
    pub is_boundary: bool,
    /// Where it lies.
    pub position: BlockPosition,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    number: u32,
    blocks: u32,
}

#[derive(Debug)]
struct Chunks {
    dir: PathBuf,
    list: Vec<Chunk>,
}

/// An opened immutable database.
#[derive(Debug, Clone)]
pub struct ImmutableDb {
    chunks: Arc<Chunks>,
}

impl ImmutableDb {
    /// Opens `dir`: the database directory of a node, or the immutable directory in it. The chunks
    /// may start at any number but must have no gap.
    pub fn open(dir: &Path) -> Result<Self, SourceError> {
        let inner = dir.join(IMMUTABLE_DIR);
        let dir = if inner.is_dir() { inner } else { dir.to_owned() };
        let list = list_chunks(&dir)?;
        Ok(Self { chunks: Arc::new(Chunks { dir, list }) })
    }

    /// How many blocks the indexes name.
    #[must_use]
    pub fn blocks_total(&self) -> u64 {
        self.chunks.list.iter().map(|chunk| u64::from(chunk.blocks)).sum()
    }

    /// How many blocks lie before a position.
    #[must_use]
    pub fn blocks_before(&self, position: BlockPosition) -> u64 {
        let whole = self.chunks.list.iter().take(position.chunk);
        whole.map(|chunk| u64::from(chunk.blocks)).sum::<u64>() + u64::from(position.entry)
    }

    /// The position of the first block.
    #[must_use]
    pub const fn start(&self) -> BlockPosition {
        BlockPosition { chunk: 0, entry: 0 }
    }

    /// The last block that an index names.
    pub fn last(&self) -> Result<Option<ImmutableTip>, SourceError> {
        let list = &self.chunks.list;
        let Some(chunk) = list.iter().rposition(|chunk| chunk.blocks > 0) else { return Ok(None) };
        let position = BlockPosition { chunk, entry: list[chunk].blocks - 1 };
        let entry = self.chunks.entry(position)?;
        let is_boundary = self.chunks.is_boundary(chunk, &entry)?;
        let (slot, hash) = (entry.slot_or_epoch, entry.hash);
        Ok(Some(ImmutableTip { slot, hash, is_boundary, position }))
    }

    /// The last block that is no boundary block.
    pub fn last_of_chain(&self) -> Result<Option<ImmutableTip>, SourceError> {
        for chunk in (0..self.chunks.list.len()).rev() {
            let entries = self.chunks.entries(chunk)?;
            for (entry, number) in
                entries.iter().rev().zip((0..self.chunks.list[chunk].blocks).rev())
            {
                if !self.chunks.is_boundary(chunk, entry)? {
                    let (slot, hash) = (entry.slot_or_epoch, entry.hash);
                    let position = BlockPosition { chunk, entry: number };
                    return Ok(Some(ImmutableTip { slot, hash, is_boundary: false, position }));
                }
            }
        }
        Ok(None)
    }

    /// Where the block with this slot and hash lies; `None` when it is not here.
    pub fn find(&self, slot: u64, hash: &BlockHash) -> Result<Option<BlockPosition>, SourceError> {
        for chunk in self.chunks.around(slot)? {
            for (entry, number) in self.chunks.entries(chunk)?.iter().zip(0..) {
                // The index has no slot of a boundary block, so its hash has to do.
                if entry.hash == *hash
                    && (entry.slot_or_epoch == slot || self.chunks.is_boundary(chunk, entry)?)
                {
                    return Ok(Some(BlockPosition { chunk, entry: number }));
                }
            }
        }
        Ok(None)
    }

    /// All blocks from a position on, in order.
    #[must_use]
    pub fn blocks_from(&self, from: BlockPosition) -> ImmutableBlocks {
        ImmutableBlocks::new(Arc::clone(&self.chunks), from)
    }
}

impl Chunks {
    fn path(&self, chunk: usize, extension: &str) -> PathBuf {
        self.dir.join(file_name(self.list[chunk].number, extension))
    }

    fn is_last(&self, chunk: usize) -> bool {
        chunk + 1 == self.list.len()
    }

    /// The entries of a chunk that were there when the database was opened.
    fn entries(&self, chunk: usize) -> Result<Vec<Entry>, SourceError> {
        let blocks = self.list[chunk].blocks;
        if blocks == 0 {
            return Ok(Vec::new());
        }
        let mut entries = index::read(&self.path(chunk, INDEX), blocks)?;
        entries.truncate(blocks as usize);
        Ok(entries)
    }

    fn entry(&self, position: BlockPosition) -> Result<Entry, SourceError> {
        index::read_one(&self.path(position.chunk, INDEX), position.entry)
    }

    /// Whether an entry is of a boundary block: the era is the first thing in a block.
    fn is_boundary(&self, chunk: usize, entry: &Entry) -> Result<bool, SourceError> {
        let path = self.path(chunk, BLOCKS);
        let mut start = [0; 2];
        let read = File::open(&path).and_then(|file| file.read_at(&mut start, entry.offset));
        read.map_err(|source| read_error(&path, source))?;
        Ok(start == [0x82, era::BYRON_BOUNDARY])
    }

    /// Slot of the last block of a chunk; `None` when it has none, or only a boundary block.
    fn last_slot(&self, chunk: usize) -> Result<Option<u64>, SourceError> {
        let Some(entry) = self.list[chunk].blocks.checked_sub(1) else { return Ok(None) };
        let last = self.entry(BlockPosition { chunk, entry })?;
        // A boundary block is always the first of its chunk.
        let has_slot = entry > 0 || !self.is_boundary(chunk, &last)?;
        Ok(has_slot.then_some(last.slot_or_epoch))
    }

    /// The chunks that a block of `slot` may lie in: the one whose slots it fits, and its
    /// neighbours on both sides up to the first with a slot, because a boundary block has the slot
    /// of another block.
    fn around(&self, slot: u64) -> Result<std::ops::Range<usize>, SourceError> {
        let len = self.list.len();
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut with_slot = middle;
            let mut last = None;
            while with_slot < high && last.is_none() {
                last = self.last_slot(with_slot)?;
                with_slot += 1;
            }
            match last {
                Some(last) if last < slot => low = with_slot,
                _ => high = middle,
            }
        }
        let mut start = low;
        while start > 0 {
            start -= 1;
            if self.last_slot(start)?.is_some() {
                break;
            }
        }
        let mut end = low;
        while end < len {
            end += 1;
            if self.last_slot(end - 1)?.is_some() {
                end += 1;
                break;
            }
        }
        Ok(start..end.min(len))
    }
}

fn list_chunks(dir: &Path) -> Result<Vec<Chunk>, SourceError> {
    let mut found = BTreeMap::<u32, [Option<u64>; 2]>::new();
    let entries = fs::read_dir(dir).map_err(|source| read_error(dir, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| read_error(dir, source))?;
        let name = entry.file_name();
        let Some((number, is_index)) = name.to_str().and_then(chunk_number) else { continue };
        let path = entry.path();
        let len = fs::metadata(&path).map_err(|source| read_error(&path, source))?.len();
        found.entry(number).or_default()[usize::from(is_index)] = Some(len);
    }
    let Some((&last, _)) = found.last_key_value() else {
        return Err(SourceError::NoChunks { path: dir.to_owned() });
    };
    let mut chunks = Vec::with_capacity(found.len());
    for (&number, lens) in &found {
        let missing = |number, extension| {
            Err(SourceError::MissingChunkFile { path: dir.join(file_name(number, extension)) })
        };
        if let Some(Chunk { number: before, .. }) = chunks.last()
            && before + 1 != number
        {
            return missing(before + 1, BLOCKS);
        }
        let index_len = match lens {
            [None, _] => return missing(number, BLOCKS),
            // A node that has just begun the chunk.
            [Some(0), None] if number == last => 0,
            [Some(_), None] => return missing(number, INDEX),
            [Some(_), Some(index_len)] => *index_len,
        };
        let blocks = index::entries_in(index_len, number == last);
        let bad_index = || SourceError::BadChunkIndex {
            path: dir.join(file_name(number, INDEX)),
            entry: index_len / Entry::LEN as u64,
        };
        chunks.push(Chunk { number, blocks: blocks.ok_or_else(bad_index)? });
    }
    Ok(chunks)
}

fn file_name(number: u32, extension: &str) -> String {
    format!("{number:05}.{extension}")
}

/// The number in a name like `00123.chunk`, and whether the file is an index.
fn chunk_number(name: &str) -> Option<(u32, bool)> {
    let (digits, extension) = name.split_once('.')?;
    let number = digits.parse().ok()?;
    let is_ours = matches!(extension, BLOCKS | INDEX) && file_name(number, extension) == name;
    is_ours.then_some((number, extension == INDEX))
}

fn read_error(path: &Path, source: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), source }
}
