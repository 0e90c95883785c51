//! Unpacks compressed files into one unnamed temporary file.

use std::{
    cell::Cell,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use super::{
    inputs::{Compression, Input, read_error},
    storage::Storage,
};
use crate::{SourceError, source::TooLarge};

const COPY_BYTES: usize = 1 << 20;

/// How often the free space is looked at, in bytes that were written.
const LOOK_EVERY: u64 = 64 << 20;

/// How much may be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// All files together.
    pub bytes_max: u64,
    /// Free space that has to be left on the disk.
    pub free_bytes_min: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { bytes_max: 1 << 40, free_bytes_min: 1 << 30 }
    }
}

/// The temporary file all compressed inputs are unpacked into, one after the other.
pub(super) struct Spool<'a> {
    dir: &'a Path,
    file: Option<Arc<File>>,
    len: u64,
    limits: UnpackLimits,
    /// Bytes until the free space is looked at again.
    unchecked: u64,
}

impl<'a> Spool<'a> {
    /// A spool that creates its file on first use.
    pub(super) fn new(dir: &'a Path, limits: UnpackLimits) -> Self {
        Self { dir, file: None, len: 0, limits, unchecked: 0 }
    }

    /// Unpacks `input`; `progress` hears how much of the compressed file has been read.
    pub(super) fn unpack(
        &mut self,
        input: &Input,
        compression: Compression,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Storage, SourceError> {
        let compressed = File::open(&input.path).map_err(|err| read_error(&input.path, err))?;
        let read = Cell::new(0);
        let compressed = Counting { inner: compressed, bytes: &read };
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
            if !progress(read.get()) {
                return Err(SourceError::Stopped);
            }
            self.make_room(count as u64, &input.path)?;
            file.as_ref().write_all(&buffer[..count]).map_err(|source| self.error(source))?;
            self.len += count as u64;
        }
        Ok(Storage::spooled(input, file, base, self.len - base))
    }

    /// Refuses what goes beyond the limits, before it is written.
    fn make_room(&mut self, more: u64, path: &Path) -> Result<(), SourceError> {
        let UnpackLimits { bytes_max, free_bytes_min } = self.limits;
        let too_large = |reason| SourceError::UnpacksTooLarge { path: path.to_owned(), reason };
        if self.len + more > bytes_max {
            return Err(too_large(TooLarge::Limit { bytes_max }));
        }
        if self.unchecked >= more {
            self.unchecked -= more;
            return Ok(());
        }
        self.unchecked = LOOK_EVERY;
        let disk = rustix::fs::statvfs(self.dir).map_err(|errno| self.error(errno.into()))?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < free_bytes_min.saturating_add(more) {
            return Err(too_large(TooLarge::Disk { free_bytes_min }));
        }
        Ok(())
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
    bytes: &'a Cell<u64>,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}
