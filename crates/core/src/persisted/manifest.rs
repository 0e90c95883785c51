//! The `.block` file: everything of a block but its transactions, and the list of its other files.

use minicbor::{Decoder, Encoder};

use super::{
    FileKind, FileSum, SUBTREE_TXS_LOG2, SubtreeData, envelope,
    subtree::{block_hash, expect_len, optional_hash},
    watermark::network,
};
use crate::{
    chain::{
        block::{Header, SlotInfo},
        record::{Corrupt, INFALLIBLE, array_len, end},
    },
    network::Network,
    types::{ChainWork, Height},
};

const KIND: FileKind = FileKind::Block;
const WHAT: &str = KIND.what();

/// A stretch of a raw block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutPiece {
    /// These bytes.
    Frame(Vec<u8>),
    /// The next piece of each of these transactions.
    Txs {
        /// Number of the first.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// A subtree, as its block knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubtreeEntry {
    /// Its node in the Merkle tree of the block, on chains whose blocks have one.
    pub root: Option<[u8; 32]>,
    /// How many transactions it has.
    pub txs: u32,
    /// The file of ids.
    pub ids: FileSum,
    /// The file of transactions.
    pub data: FileSum,
}

/// What a `.block` file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedBlock {
    /// The chain.
    pub network: Network,
    /// Height of the block.
    pub height: Height,
    /// Its header. The parent is the block below it in the chain log: boundary blocks of Cardano,
    /// which take no height, are passed over.
    pub header: Header,
    /// Transactions of a full subtree, as a power of two.
    pub subtree_txs_log2: u8,
    /// How the raw block is put together.
    pub layout: Vec<LayoutPiece>,
    /// The subtrees, in block order.
    pub subtrees: Vec<SubtreeEntry>,
    /// The file of created outputs, and how many they are.
    pub additions: (u32, FileSum),
    /// The file of spent outputs, and how many they are.
    pub deletions: (u32, FileSum),
}

type Encoding<'e> = Encoder<&'e mut Vec<u8>>;
type Written = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

impl PersistedBlock {
    /// How many transactions the block has.
    #[must_use]
    pub fn txs(&self) -> u64 {
        self.subtrees.iter().map(|subtree| u64::from(subtree.txs)).sum()
    }

    /// Length of all files of the block but this one.
    #[must_use]
    pub fn other_files_bytes(&self) -> u64 {
        let subtrees = self.subtrees.iter().map(|subtree| subtree.ids.bytes + subtree.data.bytes);
        subtrees.sum::<u64>() + self.additions.1.bytes + self.deletions.1.bytes
    }

    /// The file: `[network, height, block, parent, time, work, slot, k, layout, subtrees, additions,
    /// deletions]`. `slot` is null or `[slot, epoch, era]`; a piece of the layout is a string or
    /// `[first, count]`; a subtree is `[root, transactions, ids, data]`; a file is `[bytes, crc32]`,
    /// those of outputs with their count in front.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        envelope::wrap(KIND, 256 + self.subtrees.len() * 64, |out| {
            self.encode_into(&mut Encoder::new(out)).expect(INFALLIBLE);
        })
    }

    fn encode_into(&self, e: &mut Encoding<'_>) -> Written {
        let Header { hash, prev, time, work, slot } = &self.header;
        e.array(12)?.str(&self.network.to_string())?.u32(self.height.get())?;
        e.bytes(hash.as_bytes())?.bytes(prev.as_bytes())?.u64(*time)?;
        // Leading zeros say nothing.
        let work = work.as_bytes();
        let zeros = work.iter().take_while(|byte| **byte == 0).count();
        e.bytes(&work[zeros..])?;
        match slot {
            Some(SlotInfo { slot, epoch, era }) => {
                e.array(3)?.u64(*slot)?.u32(*epoch)?.u8(*era)?;
            }
            None => {
                e.null()?;
            }
        }
        e.u8(self.subtree_txs_log2)?.array(self.layout.len() as u64)?;
        for piece in &self.layout {
            match piece {
                LayoutPiece::Frame(bytes) => e.bytes(bytes)?,
                LayoutPiece::Txs { first, count } => e.array(2)?.u32(*first)?.u32(*count)?,
            };
        }
        e.array(self.subtrees.len() as u64)?;
        for SubtreeEntry { root, txs, ids, data } in &self.subtrees {
            e.array(4)?;
            match root {
                Some(root) => e.bytes(root)?,
                None => e.null()?,
            };
            e.u32(*txs)?;
            encode_sum(e, ids)?;
            encode_sum(e, data)?;
        }
        for (count, sum) in [&self.additions, &self.deletions] {
            e.array(3)?.u32(*count)?.u64(sum.bytes)?.u32(sum.crc32)?;
        }
        Ok(())
    }

    /// Inverse of [`PersistedBlock::encode`].
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        let d = &mut d;
        expect_len(d, 12, WHAT)?;
        let network = network(d, WHAT)?;
        let height = Height::new(d.u32().map_err(corrupt)?);
        let (hash, prev) = (block_hash(d, WHAT)?, block_hash(d, WHAT)?);
        let time = d.u64().map_err(corrupt)?;
        let work = read_work(d)?;
        let header = Header { hash, prev, time, work, slot: read_slot(d)? };
        let subtree_txs_log2 = d.u8().map_err(corrupt)?;
        if !SUBTREE_TXS_LOG2.contains(&subtree_txs_log2) {
            return Err(Corrupt::new(WHAT, "subtrees of an impossible size"));
        }
        let mut layout = Vec::new();
        for _ in 0..array_len(d, WHAT)? {
            layout.push(read_piece(d)?);
        }
        let mut subtrees = Vec::new();
        for _ in 0..array_len(d, WHAT)? {
            expect_len(d, 4, WHAT)?;
            let root = optional_hash(d, WHAT)?;
            let txs = d.u32().map_err(corrupt)?;
            let (ids, data) = (read_sum(d)?, read_sum(d)?);
            subtrees.push(SubtreeEntry { root, txs, ids, data });
        }
        let (additions, deletions) = (read_counted(d)?, read_counted(d)?);
        end(d, body, WHAT)?;
        Ok(Self {
            network,
            height,
            header,
            subtree_txs_log2,
            layout,
            subtrees,
            additions,
            deletions,
        })
    }

    /// The raw block, from the transactions of its subtrees in order.
    pub fn assemble(&self, subtrees: &[SubtreeData<'_>]) -> Result<Vec<u8>, Corrupt> {
        let malformed = |detail: &str| Corrupt::new(WHAT, detail);
        let mut txs: Vec<std::slice::Iter<'_, &[u8]>> =
            subtrees.iter().flat_map(|subtree| &subtree.txs).map(|pieces| pieces.iter()).collect();
        if txs.len() as u64 != self.txs() {
            return Err(malformed("its subtrees have another number of transactions"));
        }
        let mut raw = Vec::new();
        for piece in &self.layout {
            match piece {
                LayoutPiece::Frame(bytes) => raw.extend_from_slice(bytes),
                LayoutPiece::Txs { first, count } => {
                    let first = *first as usize;
                    let range = first..first.saturating_add(*count as usize);
                    let named = txs.get_mut(range);
                    for tx in named.ok_or_else(|| malformed("it names a transaction too many"))? {
                        let piece = tx.next();
                        raw.extend_from_slice(
                            piece.ok_or_else(|| malformed("a transaction lacks a piece"))?,
                        );
                    }
                }
            }
        }
        if txs.iter_mut().any(|tx| tx.next().is_some()) {
            return Err(malformed("a transaction has a piece too many"));
        }
        Ok(raw)
    }
}

fn corrupt(error: minicbor::decode::Error) -> Corrupt {
    Corrupt::new(WHAT, error)
}

fn encode_sum(e: &mut Encoding<'_>, sum: &FileSum) -> Written {
    e.array(2)?.u64(sum.bytes)?.u32(sum.crc32)?;
    Ok(())
}

fn read_sum(d: &mut Decoder<'_>) -> Result<FileSum, Corrupt> {
    expect_len(d, 2, WHAT)?;
    Ok(FileSum { bytes: d.u64().map_err(corrupt)?, crc32: d.u32().map_err(corrupt)? })
}

fn read_counted(d: &mut Decoder<'_>) -> Result<(u32, FileSum), Corrupt> {
    expect_len(d, 3, WHAT)?;
    let count = d.u32().map_err(corrupt)?;
    Ok((count, FileSum { bytes: d.u64().map_err(corrupt)?, crc32: d.u32().map_err(corrupt)? }))
}

fn read_work(d: &mut Decoder<'_>) -> Result<ChainWork, Corrupt> {
    let digits = d.bytes().map_err(corrupt)?;
    let mut work = [0; 32];
    let at = work.len().checked_sub(digits.len());
    let at = at.ok_or_else(|| Corrupt::new(WHAT, "work of more than 32 bytes"))?;
    work[at..].copy_from_slice(digits);
    Ok(ChainWork::from_be_bytes(work))
}

fn read_slot(d: &mut Decoder<'_>) -> Result<Option<SlotInfo>, Corrupt> {
    if d.datatype().map_err(corrupt)? == minicbor::data::Type::Null {
        d.null().map_err(corrupt)?;
        return Ok(None);
    }
    expect_len(d, 3, WHAT)?;
    let slot = d.u64().map_err(corrupt)?;
    let (epoch, era) = (d.u32().map_err(corrupt)?, d.u8().map_err(corrupt)?);
    Ok(Some(SlotInfo { slot, epoch, era }))
}

fn read_piece(d: &mut Decoder<'_>) -> Result<LayoutPiece, Corrupt> {
    if d.datatype().map_err(corrupt)? == minicbor::data::Type::Bytes {
        return Ok(LayoutPiece::Frame(d.bytes().map_err(corrupt)?.to_vec()));
    }
    expect_len(d, 2, WHAT)?;
    let (first, count) = (d.u32().map_err(corrupt)?, d.u32().map_err(corrupt)?);
    Ok(LayoutPiece::Txs { first, count })
}
