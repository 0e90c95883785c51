//! Blocks of Cardano from files: one or many wrapped blocks in each, as bytes or as hexadecimal
//! text. A single chunk of a node is such a file too.
//!
//! # Invariants
//!
//! * Headers and locations are kept, bodies are read again when asked for. Opening holds one file
//!   in memory at a time.
//! * A file is read to its last byte, or the first byte that cannot be understood is named.
//! * Boundary blocks take no height: they are not among the headers, and the block behind one names
//!   the block before it as its parent. The first block of a chain is not one of them.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustc_hash::FxHashMap;
use utxokeep_core::{BlockHash, Header, Network, hex_decode};

use super::{Genesis, HeaderInfo, decode_header, split_blocks};
use crate::{BlockList, BlockSource, SourceError};

/// What was found in files of Cardano blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardanoFilesReport {
    /// Distinct blocks that take a height.
    pub blocks: u64,
    /// Repetitions of a block already found.
    pub duplicates: u64,
    /// Distinct blocks that only mark the start of an epoch.
    pub boundary_blocks: u64,
}

/// Files of Cardano blocks as a source.
#[derive(Debug)]
pub struct CardanoFiles {
    network: Network,
    files: Vec<BlockFile>,
    headers: Vec<Header>,
    places: Vec<BlockLocation>,
    by_hash: FxHashMap<BlockHash, u32>,
    report: CardanoFilesReport,
    without_blocks: Vec<PathBuf>,
    cursor: usize,
}

#[derive(Debug)]
struct BlockFile {
    path: PathBuf,
    is_hex: bool,
}

/// What else is known of a header: its block number, and where its block lies.
#[derive(Debug, Clone, Copy)]
struct BlockLocation {
    number: u32,
    file: u32,
    offset: u64,
    /// Length in the file: of the text, where the file is text.
    len: usize,
}

impl CardanoFiles {
    /// Reads the headers in `paths`, in that order.
    pub fn open(
        paths: &[PathBuf],
        network: Network,
        genesis: &Genesis,
    ) -> Result<Self, SourceError> {
        let mut files = Self {
            network,
            files: Vec::with_capacity(paths.len()),
            headers: Vec::new(),
            places: Vec::new(),
            by_hash: FxHashMap::default(),
            report: CardanoFilesReport::default(),
            without_blocks: Vec::new(),
            cursor: 0,
        };
        let mut boundaries = FxHashMap::default();
        for path in paths {
            files.scan(path, genesis, &mut boundaries)?;
        }
        files.report.boundary_blocks = boundaries.len() as u64;
        for header in &mut files.headers {
            // A chain of boundary blocks is no longer than there are boundary blocks.
            for _ in 0..boundaries.len() {
                let Some(before) = boundaries.get(&header.prev) else { break };
                header.prev = *before;
            }
        }
        Ok(files)
    }

    fn scan(
        &mut self,
        path: &Path,
        genesis: &Genesis,
        boundaries: &mut FxHashMap<BlockHash, BlockHash>,
    ) -> Result<(), SourceError> {
        let content = fs::read(path).map_err(|source| read_error(path, source))?;
        let is_hex = is_hex_text(&content);
        let text = is_hex.then(|| decode_text(&content, path)).transpose()?;
        let file = u32::try_from(self.files.len()).expect("fewer files than a u32 counts");
        let mut offset = 0;
        for raw in split_blocks(text.as_deref().unwrap_or(&content)) {
            let bad = |source| SourceError::BadBlock {
                path: path.to_owned(),
                offset: offset as u64,
                source: Box::new(source),
            };
            let raw = raw.map_err(bad)?;
            let info = decode_header(raw, genesis).map_err(bad)?;
            let len = if is_hex { text_len(&content[offset..], raw.len()) } else { raw.len() };
            let place = BlockLocation { number: info.number, file, offset: offset as u64, len };
            self.record(&info, place, boundaries);
            offset += len;
        }
        if offset == 0 {
            self.without_blocks.push(path.to_owned());
        }
        self.files.push(BlockFile { path: path.to_owned(), is_hex });
        Ok(())
    }

    fn record(
        &mut self,
        info: &HeaderInfo,
        place: BlockLocation,
        boundaries: &mut FxHashMap<BlockHash, BlockHash>,
    ) {
        let hash = info.header.hash;
        if self.by_hash.contains_key(&hash) || boundaries.contains_key(&hash) {
            self.report.duplicates += 1;
        } else if info.is_boundary {
            boundaries.insert(hash, info.header.prev);
        } else {
            let next = u32::try_from(self.headers.len()).expect("fewer blocks than a u32 counts");
            self.by_hash.insert(hash, next);
            self.headers.push(info.header);
            self.places.push(place);
            self.report.blocks += 1;
        }
    }

    /// The number that a block says it has; `None` for a block that is not among the headers.
    #[must_use]
    pub fn number(&self, hash: &BlockHash) -> Option<u32> {
        self.place(hash).map(|place| place.number)
    }

    /// Those of the files in which there is no block at all.
    #[must_use]
    pub fn without_blocks(&self) -> &[PathBuf] {
        &self.without_blocks
    }

    /// What was found.
    #[must_use]
    pub const fn report(&self) -> CardanoFilesReport {
        self.report
    }

    fn place(&self, hash: &BlockHash) -> Option<&BlockLocation> {
        self.by_hash.get(hash).map(|index| &self.places[*index as usize])
    }
}

impl BlockList for CardanoFiles {
    fn headers(&self) -> &[Header] {
        &self.headers
    }
}

impl BlockSource for CardanoFiles {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        let header = self.headers.get(self.cursor).copied();
        self.cursor += usize::from(header.is_some());
        Ok(header)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let unknown = || SourceError::UnknownBlock { hash: self.network.hash(*hash) };
        let place = self.place(hash).ok_or_else(unknown)?;
        let BlockFile { path, is_hex } = &self.files[place.file as usize];
        let mut bytes = vec![0; place.len];
        File::open(path)
            .and_then(|file| file.read_exact_at(&mut bytes, place.offset))
            .map_err(|source| read_error(path, source))?;
        if *is_hex { decode_text(&bytes, path) } else { Ok(bytes) }
    }
}

/// Whether a file is hexadecimal text: no wrapped block starts with the code of a digit.
fn is_hex_text(content: &[u8]) -> bool {
    let first = content.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_some_and(u8::is_ascii_hexdigit)
}

/// The bytes of a hexadecimal text; white space may stand anywhere.
fn decode_text(text: &[u8], path: &Path) -> Result<Vec<u8>, SourceError> {
    let is_other = |byte: &u8| !byte.is_ascii_hexdigit() && !byte.is_ascii_whitespace();
    let bad = |offset: usize| SourceError::BadHex { path: path.to_owned(), offset: offset as u64 };
    if let Some(offset) = text.iter().position(is_other) {
        return Err(bad(offset));
    }
    let digits = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    let digits: String = digits.map(|&byte| char::from(byte)).collect();
    hex_decode(&digits).ok_or_else(|| bad(text.len()))
}

/// How long a text is up to the end of its first `bytes` bytes.
fn text_len(text: &[u8], bytes: usize) -> usize {
    let digits = text.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace());
    digits.take(2 * bytes).last().map_or(0, |(last, _)| last + 1)
}

fn read_error(path: &Path, source: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), source }
}
