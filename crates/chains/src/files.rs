//! Blocks from files in the framing of Bitcoin Core: magic, length, block.
//!
//! # Invariants
//!
//! * Opening reads framing and headers only; memory grows with the number of blocks, never with
//!   their size. Bodies are read again when asked for.
//! * Compressed files are unpacked into one unnamed temporary file, gone when the source is.
//! * What cannot be a block is skipped and counted, never an error: files of a running node end in
//!   padding or in half a block.

mod inputs;
mod scan;
mod spool;
mod storage;
mod writer;

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use utxokeep_core::{BlockHash, Header, Network};

use self::{inputs::Input, scan::Found, spool::Spool, storage::Storage};
use crate::{BlockList, BlockSource, SourceError};

pub use spool::UnpackLimits;
pub use writer::{BlockFileWriter, write_block_file};

/// Key of the obfuscation: byte `i` of a file is combined with byte `i % 8` of the key.
pub type XorKey = [u8; 8];

/// How to read block files.
#[derive(Default)]
pub struct ScanOptions<'a> {
    /// Key of obfuscated files; wins over a `xor.dat` beside them.
    pub xor_key: Option<XorKey>,
    /// How much compressed files may unpack to.
    pub unpack: UnpackLimits,
    /// Told how many bytes of how many have been looked at; answers whether to go on.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
}

impl std::fmt::Debug for ScanOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanOptions").field("xor_key", &self.xor_key).finish_non_exhaustive()
    }
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanReport {
    /// Distinct blocks.
    pub blocks: u64,
    /// Repetitions of a block already found.
    pub duplicates: u64,
    /// Bytes between blocks that are not zero and belong to none.
    pub garbage_bytes: u64,
    /// Zero bytes between and after blocks.
    pub padding_bytes: u64,
    /// Blocks that a file ends in the middle of.
    pub truncated: u64,
    /// Blocks skipped because their header has no valid proof of work.
    pub bad_headers: u64,
}

/// Where the bytes of a block lie.
#[derive(Debug, Clone, Copy)]
struct Location {
    input: u32,
    offset: u64,
    len: u32,
}

/// Block files as a source.
#[derive(Debug)]
pub struct BlockFiles {
    network: Network,
    storages: Vec<Storage>,
    headers: Vec<Header>,
    locations: Vec<Location>,
    by_hash: FxHashMap<BlockHash, u32>,
    report: ScanReport,
    without_blocks: Vec<PathBuf>,
    cursor: usize,
}

impl BlockFiles {
    /// Scans `paths`: block files, or directories with `blk*.dat` files. Plain, zstd and xz files
    /// are told apart by their first bytes; compressed ones are unpacked into `spool_dir`.
    pub fn open(
        paths: &[PathBuf],
        network: Network,
        spool_dir: &Path,
        options: ScanOptions<'_>,
    ) -> Result<Self, SourceError> {
        let inputs = inputs::expand(paths, options.xor_key)?;
        let bytes_total = inputs.iter().map(|input| input.len).sum();
        let mut nothing = |_, _| true;
        let progress = options.progress.unwrap_or(&mut nothing);
        let mut files = Self {
            network,
            storages: Vec::with_capacity(inputs.len()),
            headers: Vec::new(),
            locations: Vec::new(),
            by_hash: FxHashMap::default(),
            report: ScanReport::default(),
            without_blocks: Vec::new(),
            cursor: 0,
        };
        let mut spool = Spool::new(spool_dir, options.unpack);
        let mut bytes_before = 0;
        let mut has_blocks = vec![false; paths.len()];
        for input in &inputs {
            let mut report_done = |done: u64| progress(bytes_before + done, bytes_total);
            let found = files.scan_input(input, &mut spool, &mut report_done)?;
            has_blocks[input.source] |= found > 0;
            bytes_before += input.len;
        }
        progress(bytes_total, bytes_total);
        let empty = paths.iter().zip(has_blocks).filter(|(_, has_blocks)| !has_blocks);
        files.without_blocks = empty.map(|(path, _)| path.clone()).collect();
        match inputs.first() {
            Some(first) if files.headers.is_empty() && files.report.garbage_bytes > 0 => {
                Err(SourceError::NoBlocks { path: first.path.clone(), network })
            }
            _ => Ok(files),
        }
    }

    /// Answers how many blocks were found, known ones too.
    fn scan_input(
        &mut self,
        input: &Input,
        spool: &mut Spool<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, SourceError> {
        let storage = match input.compression()? {
            None => Storage::plain(input),
            Some(compression) => spool.unpack(input, compression, progress)?,
        };
        let number = u32::try_from(self.storages.len()).expect("fewer files than a u32 counts");
        let is_plain = storage.is_plain();
        let (network, mut count) = (self.network, 0);
        let mut found = |found: Found| {
            count += 1;
            self.record(&found, number);
        };
        // The progress of a compressed file was told while it was unpacked.
        let whole = input.len;
        let mut on_bytes = |done| progress(if is_plain { done } else { whole });
        let report = scan::scan(&storage, network, &mut found, &mut on_bytes)?;
        self.report.garbage_bytes += report.garbage_bytes;
        self.report.padding_bytes += report.padding_bytes;
        self.report.truncated += report.truncated;
        self.report.bad_headers += report.bad_headers;
        self.storages.push(storage);
        Ok(count)
    }

    fn record(&mut self, found: &Found, input: u32) {
        let next = u32::try_from(self.headers.len()).expect("fewer blocks than a u32 counts");
        if self.by_hash.contains_key(&found.header.hash) {
            self.report.duplicates += 1;
            return;
        }
        self.by_hash.insert(found.header.hash, next);
        self.headers.push(found.header);
        self.locations.push(Location { input, offset: found.offset, len: found.len });
        self.report.blocks += 1;
    }

    /// Those of the paths in which there is no whole block: empty files, files of zeros.
    #[must_use]
    pub fn without_blocks(&self) -> &[PathBuf] {
        &self.without_blocks
    }

    /// What the scan found and skipped.
    #[must_use]
    pub fn report(&self) -> ScanReport {
        self.report
    }
}

impl BlockList for BlockFiles {
    fn headers(&self) -> &[Header] {
        &self.headers
    }
}

impl BlockSource for BlockFiles {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        let header = self.headers.get(self.cursor).copied();
        self.cursor += usize::from(header.is_some());
        Ok(header)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let unknown = || SourceError::UnknownBlock { hash: self.network.hash(*hash) };
        let number = self.by_hash.get(hash).ok_or_else(unknown)?;
        let location = self.locations[*number as usize];
        let mut raw = vec![0; location.len as usize];
        self.storages[location.input as usize].read_exact(location.offset, &mut raw)?;
        Ok(raw)
    }
}
