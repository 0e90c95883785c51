//! Unpacks compressed files into one unnamed temporary file.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use super::{
    inputs::{Compression, Input, read_error},
    storage::Storage,
};
use crate::SourceError;

const COPY_BYTES: usize = 1 << 20;

/// The temporary file all compressed inputs are unpacked into, one after the other.
pub(super) struct Spool<'a> {
    dir: &'a Path,
    file: Option<Arc<File>>,
    len: u64,
}

impl<'a> Spool<'a> {
    /// A spool that creates its file on first use.
    pub(super) fn new(dir: &'a Path) -> Self {
        Self { dir, file: None, len: 0 }
    }

    /// Unpacks `input`; `progress` hears how much of the compressed file has been read.
    pub(super) fn unpack(
        &mut self,
        input: &Input,
        compression: Compression,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Storage, SourceError> {
        let compressed = File::open(&input.path).map_err(|err| read_error(&input.path, err))?;
        let compressed = Counting { inner: compressed, bytes: 0, progress };
        let broken = |source| SourceError::Decompress { path: input.path.clone(), source };
        let mut plain: Box<dyn Read + '_> = match compression {
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(compressed).map_err(broken)?)
            }
            Compression::Xz => Box::new(liblzma::read::XzDecoder::new_multi_decoder(compressed)),
        };
        let file = self.file()?;
        let base = self.len;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let count = match plain.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(broken(source)),
            };
            file.as_ref().write_all(&buffer[..count]).map_err(|source| self.error(source))?;
            self.len += count as u64;
        }
        Ok(Storage::spooled(input, file, base, self.len - base))
    }

    fn file(&mut self) -> Result<Arc<File>, SourceError> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = tempfile::tempfile_in(self.dir).map_err(|source| self.error(source))?;
        Ok(Arc::clone(self.file.insert(Arc::new(file))))
    }

    fn error(&self, source: io::Error) -> SourceError {
        SourceError::Spool { dir: self.dir.to_owned(), source }
    }
}

/// A reader that tells how much was read.
struct Counting<'a, R> {
    inner: R,
    bytes: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        (self.progress)(self.bytes);
        Ok(count)
    }
}
