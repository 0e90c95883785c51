//! Which files to read, in which order, with which key.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::XorKey;
use crate::SourceError;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const KEY_FILE: &str = "xor.dat";

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Zstd,
    Xz,
}

/// One file to scan.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// Which of the paths that were asked for it stands for, or lies in.
    pub(super) source: usize,
    /// Length on disk.
    pub(super) len: u64,
    /// Zeros when the file is not obfuscated.
    pub(super) key: XorKey,
}

impl Input {
    /// Tells the compression by the first bytes of the file.
    pub(super) fn compression(&self) -> Result<Option<Compression>, SourceError> {
        let mut start = Vec::with_capacity(XZ_MAGIC.len());
        File::open(&self.path)
            .and_then(|file| file.take(XZ_MAGIC.len() as u64).read_to_end(&mut start))
            .map_err(|source| read_error(&self.path, source))?;
        Ok(if start.starts_with(&ZSTD_MAGIC) {
            Some(Compression::Zstd)
        } else if start.starts_with(&XZ_MAGIC) {
            Some(Compression::Xz)
        } else {
            None
        })
    }
}

/// Lists the files behind `paths`: directories stand for their block files in numeric order.
pub(super) fn expand(
    paths: &[PathBuf],
    explicit_key: Option<XorKey>,
) -> Result<Vec<Input>, SourceError> {
    let mut inputs = Vec::new();
    for (source, path) in paths.iter().enumerate() {
        let metadata = fs::metadata(path).map_err(|source| read_error(path, source))?;
        let files = if metadata.is_dir() { block_files_in(path)? } else { vec![path.clone()] };
        for file in files {
            let len = fs::metadata(&file).map_err(|source| read_error(&file, source))?.len();
            let key = match explicit_key {
                Some(key) => key,
                None => key_beside(&file)?,
            };
            inputs.push(Input { path: file, source, len, key });
        }
    }
    Ok(inputs)
}

fn block_files_in(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = Vec::new();
    let entries = fs::read_dir(dir).map_err(|source| read_error(dir, source))?;
    for entry in entries {
        let path = entry.map_err(|source| read_error(dir, source))?.path();
        let number = path.file_name().and_then(|name| file_number(name.to_str()?));
        if let Some(number) = number {
            files.push((number, path));
        }
    }
    if files.is_empty() {
        return Err(SourceError::NoFiles { path: dir.to_owned() });
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// The number in `blk01234.dat`, compressed or not.
fn file_number(name: &str) -> Option<u64> {
    let (digits, suffix) = name.strip_prefix("blk")?.split_once(".dat")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_number && ["", ".zst", ".xz"].contains(&suffix)).then(|| digits.parse().ok())?
}

fn key_beside(file: &Path) -> Result<XorKey, SourceError> {
    let path = file.with_file_name(KEY_FILE);
    match fs::read(&path) {
        Ok(bytes) => XorKey::try_from(bytes.as_slice())
            .map_err(|_| SourceError::BadXorKey { path, len: bytes.len() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(XorKey::default()),
        Err(source) => Err(read_error(&path, source)),
    }
}

pub(super) fn read_error(path: &Path, source: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_block_files_count() {
        assert_eq!(file_number("blk00007.dat"), Some(7));
        assert_eq!(file_number("blk100000.dat.zst"), Some(100_000));
        for name in ["rev00007.dat", "blk.dat", "blk1.dat.tmp", "blkx.dat", "xor.dat", "blk+1.dat"]
        {
            assert_eq!(file_number(name), None, "{name}");
        }
    }
}
