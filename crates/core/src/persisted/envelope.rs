//! What is around the body of every file.

use crate::chain::record::Corrupt;

/// Version of all formats here. A change of any of them raises it.
pub const FORMAT_VERSION: u8 = 1;

const MARK: [u8; 4] = *b"UKBP";
const HEAD_LEN: usize = MARK.len() + 2;
const SUM_LEN: usize = 4;

/// What a file holds. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileKind {
    /// The block without its transactions, and the list of its other files.
    Block = 1,
    /// Ids and sizes of a part of its transactions.
    Subtree = 2,
    /// These transactions.
    SubtreeData = 3,
    /// Outputs that it created.
    Additions = 4,
    /// Outputs that it spent.
    Deletions = 5,
    /// How far the persister has come.
    Watermark = 6,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Block,
        Self::Subtree,
        Self::SubtreeData,
        Self::Additions,
        Self::Deletions,
        Self::Watermark,
    ];

    /// What the name of the file ends with.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Subtree => "subtree",
            Self::SubtreeData => "subtree_data",
            Self::Additions => "utxo-additions",
            Self::Deletions => "utxo-deletions",
            Self::Watermark => "watermark",
        }
    }

    /// Its name in errors.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Block => ".block file",
            Self::Subtree => ".subtree file",
            Self::SubtreeData => ".subtree_data file",
            Self::Additions => ".utxo-additions file",
            Self::Deletions => ".utxo-deletions file",
            Self::Watermark => "watermark of the persister",
        }
    }
}

/// Length and checksum of a file, by which its block knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSum {
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of all bytes of the file.
    pub crc32: u32,
}

impl FileSum {
    /// Of a whole file.
    #[must_use]
    pub fn of(file: &[u8]) -> Self {
        Self { bytes: file.len() as u64, crc32: crc32fast::hash(file) }
    }
}

/// A file around a body that `write` appends.
pub(super) fn wrap(kind: FileKind, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEAD_LEN + capacity + SUM_LEN);
    file.extend(MARK);
    file.extend([kind as u8, FORMAT_VERSION]);
    write(&mut file);
    file.extend(crc32fast::hash(&file).to_be_bytes());
    file
}

/// The body of a file.
pub(super) fn unwrap(kind: FileKind, file: &[u8]) -> Result<&[u8], Corrupt> {
    let corrupt = |detail: &str| Corrupt::new(kind.what(), detail);
    let (rest, sum) = file
        .split_last_chunk::<SUM_LEN>()
        .filter(|(rest, _)| rest.len() >= HEAD_LEN)
        .ok_or_else(|| corrupt("it is too short"))?;
    let (head, body) = rest.split_at(HEAD_LEN);
    if head[..MARK.len()] != MARK {
        return Err(corrupt("it does not begin as files of the persister do"));
    }
    if crc32fast::hash(rest) != u32::from_be_bytes(*sum) {
        return Err(corrupt("its checksum is wrong: it is cut off or damaged"));
    }
    if head[MARK.len()] != kind as u8 {
        return Err(corrupt("it is a file of another kind"));
    }
    match head[MARK.len() + 1] {
        FORMAT_VERSION => Ok(body),
        version => Err(Corrupt::new(
            kind.what(),
            format!("its format is version {version}, this program knows {FORMAT_VERSION}"),
        )),
    }
}
