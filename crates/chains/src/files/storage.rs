//! The de-obfuscated bytes of one input, wherever they lie.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    XorKey,
    inputs::{Input, read_error},
};
use crate::SourceError;

/// One input as a run of bytes that can be read at any place, by several threads at once.
#[derive(Debug)]
pub(super) struct Storage {
    path: PathBuf,
    place: Backing,
    len: u64,
    key: XorKey,
}

#[derive(Debug)]
enum Backing {
    /// The file itself. It is opened for each read: a full node has more block files than a process
    /// may hold open.
    Plain,
    /// A part of the shared temporary file.
    Spooled { file: Arc<File>, base: u64 },
}

impl Storage {
    pub(super) fn plain(input: &Input) -> Self {
        Self { path: input.path.clone(), place: Backing::Plain, len: input.len, key: input.key }
    }

    pub(super) fn spooled(input: &Input, file: Arc<File>, base: u64, len: u64) -> Self {
        let place = Backing::Spooled { file, base };
        Self { path: input.path.clone(), place, len, key: input.key }
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.place, Backing::Plain)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer` from `offset` on.
    pub(super) fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        self.handle()?.read_exact(offset, buffer)
    }

    /// Opens the bytes once for many reads.
    pub(super) fn handle(&self) -> Result<Handle<'_>, SourceError> {
        let file = match &self.place {
            Backing::Plain => {
                let file = File::open(&self.path);
                Arc::new(file.map_err(|source| read_error(&self.path, source))?)
            }
            Backing::Spooled { file, .. } => Arc::clone(file),
        };
        Ok(Handle { storage: self, file })
    }
}

/// An open [`Storage`].
pub(super) struct Handle<'a> {
    storage: &'a Storage,
    file: Arc<File>,
}

impl Handle<'_> {
    pub(super) fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let base = match &self.storage.place {
            Backing::Plain => 0,
            Backing::Spooled { base, .. } => *base,
        };
        let result: io::Result<()> = self.file.read_exact_at(buffer, base + offset);
        result.map_err(|source| read_error(&self.storage.path, source))?;
        apply_key(buffer, self.storage.key, offset);
        Ok(())
    }
}

/// Removes (or adds: it is its own inverse) the obfuscation of bytes that start at `offset`.
pub(super) fn apply_key(bytes: &mut [u8], key: XorKey, offset: u64) {
    if key == XorKey::default() {
        return;
    }
    let mut turned = key;
    turned.rotate_left((offset % 8) as usize);
    for chunk in bytes.chunks_mut(turned.len()) {
        for (byte, mask) in chunk.iter_mut().zip(turned) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_follows_the_place_in_the_file() {
        let key = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut whole = [0; 20];
        apply_key(&mut whole, key, 0);
        assert_eq!(whole[..9], [1, 2, 3, 4, 5, 6, 7, 8, 1]);
        let mut part = [0; 11];
        apply_key(&mut part, key, 9);
        assert_eq!(part, whole[9..]);
    }
}
