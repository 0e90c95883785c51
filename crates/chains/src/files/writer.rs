//! Writes blocks in the framing block files have.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use utxokeep_core::Network;

use super::{XorKey, storage::apply_key};
use crate::SourceError;

/// Writes a block file, block by block.
#[derive(Debug)]
#[must_use = "a block file is complete only after `finish`"]
pub struct BlockFileWriter {
    path: PathBuf,
    file: BufWriter<File>,
    magic: [u8; 4],
    key: XorKey,
    written: u64,
    scratch: Vec<u8>,
}

impl BlockFileWriter {
    /// Creates (or empties) the file at `path`; bytes are obfuscated when a key is given.
    pub fn create(
        path: &Path,
        network: Network,
        xor_key: Option<XorKey>,
    ) -> Result<Self, SourceError> {
        let file = File::create(path)
            .map_err(|source| SourceError::Write { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            magic: network.magic(),
            key: xor_key.unwrap_or_default(),
            written: 0,
            scratch: Vec::new(),
        })
    }

    /// Appends one block with its frame.
    pub fn push(&mut self, raw: &[u8]) -> Result<(), SourceError> {
        let len = u32::try_from(raw.len())
            .map_err(|_| SourceError::BlockTooLong { len: raw.len() })?
            .to_le_bytes();
        let magic = self.magic;
        self.push_bytes(&magic)?;
        self.push_bytes(&len)?;
        self.push_bytes(raw)
    }

    /// Appends bytes without a frame: padding, or what tests need between blocks.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        apply_key(&mut self.scratch, self.key, self.written);
        self.written += bytes.len() as u64;
        let result = self.file.write_all(&self.scratch);
        result.map_err(|source| SourceError::Write { path: self.path.clone(), source })
    }

    /// Writes what is buffered; answers the length of the file.
    pub fn finish(mut self) -> Result<u64, SourceError> {
        let result = self.file.flush();
        result.map_err(|source| SourceError::Write { path: self.path, source })?;
        Ok(self.written)
    }
}

/// Writes a whole block file; answers its length.
pub fn write_block_file<B: AsRef<[u8]>>(
    path: &Path,
    network: Network,
    raws: impl IntoIterator<Item = B>,
) -> Result<u64, SourceError> {
    let mut writer = BlockFileWriter::create(path, network, None)?;
    for raw in raws {
        writer.push(raw.as_ref())?;
    }
    writer.finish()
}
