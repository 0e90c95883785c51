//! Reading the blocks of an immutable database one behind the other.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::PathBuf,
    sync::Arc,
};

use minicbor::Decoder;
use utxokeep_core::BlockHash;

use super::{BLOCKS, BlockPosition, Chunks, INDEX, index, index::Entry, read_error};
use crate::SourceError;

const READ_BUFFER_BYTES: usize = 256 << 10;

/// A block as a node stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBlock {
    /// Its hash, as the index says.
    pub hash: BlockHash,
    /// Its bytes, with the era in front.
    pub bytes: Vec<u8>,
    /// Where it lies.
    pub position: BlockPosition,
}

/// Blocks of an immutable database in order. Nothing follows an error.
#[derive(Debug)]
pub struct ImmutableBlocks {
    chunks: Arc<Chunks>,
    at: BlockPosition,
    open: Option<OpenChunk>,
    unfinished: u64,
    is_done: bool,
}

#[derive(Debug)]
struct OpenChunk {
    path: PathBuf,
    reader: BufReader<File>,
    len: u64,
    /// Entries that the node added after the database was opened are among them: they tell where
    /// the block before ends.
    entries: Vec<Entry>,
}

/// What lies where the index says that a block is.
enum Found {
    Block(Vec<u8>),
    /// The file ends inside the block.
    CutOff,
    Damaged,
}

impl ImmutableBlocks {
    pub(super) const fn new(chunks: Arc<Chunks>, from: BlockPosition) -> Self {
        Self { chunks, at: from, open: None, unfinished: 0, is_done: false }
    }

    /// How many blocks at the end the last chunk does not hold (in full), though its index names
    /// them; known once the iterator has ended.
    #[must_use]
    pub const fn unfinished(&self) -> u64 {
        self.unfinished
    }

    fn read_next(&mut self) -> Result<Option<RawBlock>, SourceError> {
        let blocks = loop {
            let Some(chunk) = self.chunks.list.get(self.at.chunk) else { return Ok(None) };
            if self.at.entry < chunk.blocks {
                break chunk.blocks;
            }
            self.at = BlockPosition { chunk: self.at.chunk + 1, entry: 0 };
            self.open = None;
        };
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(OpenChunk::new(&self.chunks, self.at, blocks)?),
        };
        let entry = self.at.entry as usize;
        let Entry { offset, hash, .. } = open.entries[entry];
        match open.read(entry, self.chunks.is_last(self.at.chunk))? {
            Found::Block(bytes) => {
                let position = self.at;
                self.at = position.next();
                Ok(Some(RawBlock { hash, bytes, position }))
            }
            Found::CutOff if self.chunks.is_last(self.at.chunk) => {
                self.unfinished = u64::from(blocks - self.at.entry);
                tracing::warn!(
                    chunk = %open.path.display(),
                    blocks = self.unfinished,
                    "the last chunk ends inside a block: the blocks from there on are not read"
                );
                Ok(None)
            }
            Found::CutOff => Err(SourceError::TruncatedChunk { path: open.path.clone(), offset }),
            Found::Damaged => Err(SourceError::DamagedChunk { path: open.path.clone(), offset }),
        }
    }
}

impl Iterator for ImmutableBlocks {
    type Item = Result<RawBlock, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let block = self.read_next().transpose();
        self.is_done = !matches!(block, Some(Ok(_)));
        block
    }
}

impl OpenChunk {
    fn new(chunks: &Chunks, at: BlockPosition, blocks: u32) -> Result<Self, SourceError> {
        // The index first: a node writes a block before its entry.
        let entries = index::read(&chunks.path(at.chunk, INDEX), blocks)?;
        let path = chunks.path(at.chunk, BLOCKS);
        let open = || {
            let mut file = File::open(&path)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(entries[at.entry as usize].offset))?;
            Ok((BufReader::with_capacity(READ_BUFFER_BYTES, file), len))
        };
        let (reader, len) = open().map_err(|source| read_error(&path, source))?;
        Ok(Self { path, reader, len, entries })
    }

    /// Reads the block of an entry; the reader stands at its start. Only behind the last block of
    /// the last chunk may there be other bytes.
    fn read(&mut self, entry: usize, is_last_chunk: bool) -> Result<Found, SourceError> {
        let Entry { offset, crc, .. } = self.entries[entry];
        let end = self.entries.get(entry + 1).map_or(self.len, |next| next.offset);
        if end > self.len || offset >= end {
            return Ok(Found::CutOff);
        }
        let mut bytes = Vec::new();
        (&mut self.reader)
            .take(end - offset)
            .read_to_end(&mut bytes)
            .map_err(|source| read_error(&self.path, source))?;
        if crc32fast::hash(&bytes) == crc {
            return Ok(Found::Block(bytes));
        }
        // No entry says where the last block ends; behind it a node may be writing the next.
        let mut decoder = Decoder::new(&bytes);
        match decoder.skip() {
            Ok(()) => {}
            // With another entry behind it, the block is bounded: then the bytes are wrong.
            Err(error) if error.is_end_of_input() && entry + 1 == self.entries.len() => {
                return Ok(Found::CutOff);
            }
            Err(_) => return Ok(Found::Damaged),
        }
        let block_len = decoder.position();
        bytes.truncate(block_len);
        let may_be_longer = is_last_chunk && entry + 1 == self.entries.len();
        let is_whole = may_be_longer && crc32fast::hash(&bytes) == crc;
        Ok(if is_whole { Found::Block(bytes) } else { Found::Damaged })
    }
}
