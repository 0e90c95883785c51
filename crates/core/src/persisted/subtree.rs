//! Files of a part of the transactions of a block, and the roots of such parts.

use minicbor::{Decoder, Encoder};
use sha2::{Digest as _, Sha256};

use super::{FileKind, envelope};
use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end},
    types::{BlockHash, Txid},
};

type Written = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Ids and sizes of 2^k transactions of a block, or of those that are left at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtree {
    /// The block.
    pub block: BlockHash,
    /// Number of the subtree in the block, from 0.
    pub number: u32,
    /// Its node in the Merkle tree of the block, on chains whose blocks have one.
    pub root: Option<[u8; 32]>,
    /// Ids of the transactions, in block order.
    pub txids: Vec<Txid>,
    /// Length of each transaction in bytes.
    pub sizes: Vec<u32>,
}

impl Subtree {
    /// The file: `[block, number, root, txids as one string, sizes]`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        envelope::wrap(FileKind::Subtree, 80 + self.txids.len() * 37, |out| {
            let mut e = Encoder::new(out);
            let mut write = || -> Written {
                e.array(5)?.bytes(self.block.as_bytes())?.u32(self.number)?;
                match &self.root {
                    Some(root) => e.bytes(root)?,
                    None => e.null()?,
                };
                e.bytes(&self.txids.iter().flat_map(|txid| *txid.as_bytes()).collect::<Vec<_>>())?;
                e.array(self.sizes.len() as u64)?;
                for size in &self.sizes {
                    e.u32(*size)?;
                }
                Ok(())
            };
            write().expect(INFALLIBLE);
        })
    }

    /// Inverse of [`Subtree::encode`].
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        const KIND: FileKind = FileKind::Subtree;
        let what = KIND.what();
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        expect_len(&mut d, 5, what)?;
        let block = block_hash(&mut d, what)?;
        let number = d.u32().map_err(corrupt)?;
        let root = optional_hash(&mut d, what)?;
        let ids = d.bytes().map_err(corrupt)?;
        let (txids, []) = ids.as_chunks::<32>() else {
            return Err(Corrupt::new(what, "an id is not 32 bytes long"));
        };
        let txids: Vec<Txid> = txids.iter().map(|id| Txid::from_bytes(*id)).collect();
        if array_len(&mut d, what)? != txids.len() as u64 {
            return Err(Corrupt::new(what, "ids and sizes differ in number"));
        }
        let sizes = (0..txids.len()).map(|_| d.u32().map_err(corrupt)).collect::<Result<_, _>>()?;
        end(&d, body, what)?;
        Ok(Self { block, number, root, txids, sizes })
    }
}

/// The transactions of a subtree. Each is a list of the pieces that it has in the raw block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtreeData<'b> {
    /// The block.
    pub block: BlockHash,
    /// Number of the subtree in the block, from 0.
    pub number: u32,
    /// Pieces of each transaction, in block order.
    pub txs: Vec<Vec<&'b [u8]>>,
}

impl<'b> SubtreeData<'b> {
    /// The file: `[block, number, [[piece, …], …]]`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let bytes: usize = self.txs.iter().flatten().map(|piece| piece.len() + 5).sum();
        envelope::wrap(FileKind::SubtreeData, 48 + bytes + self.txs.len(), |out| {
            let mut e = Encoder::new(out);
            let mut write = || -> Written {
                e.array(3)?.bytes(self.block.as_bytes())?.u32(self.number)?;
                e.array(self.txs.len() as u64)?;
                for pieces in &self.txs {
                    e.array(pieces.len() as u64)?;
                    for piece in pieces {
                        e.bytes(piece)?;
                    }
                }
                Ok(())
            };
            write().expect(INFALLIBLE);
        })
    }

    /// Inverse of [`SubtreeData::encode`].
    pub fn decode(file: &'b [u8]) -> Result<Self, Corrupt> {
        const KIND: FileKind = FileKind::SubtreeData;
        let what = KIND.what();
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        expect_len(&mut d, 3, what)?;
        let block = block_hash(&mut d, what)?;
        let number = d.u32().map_err(corrupt)?;
        let mut txs = Vec::new();
        for _ in 0..array_len(&mut d, what)? {
            let mut pieces = Vec::new();
            for _ in 0..array_len(&mut d, what)? {
                pieces.push(d.bytes().map_err(corrupt)?);
            }
            txs.push(pieces);
        }
        end(&d, body, what)?;
        Ok(Self { block, number, txs })
    }
}

pub(super) fn expect_len(d: &mut Decoder<'_>, len: u64, what: &'static str) -> Result<(), Corrupt> {
    match array_len(d, what)? {
        found if found == len => Ok(()),
        found => Err(Corrupt::new(what, format!("{found} fields in place of {len}"))),
    }
}

pub(super) fn block_hash(d: &mut Decoder<'_>, what: &'static str) -> Result<BlockHash, Corrupt> {
    let bytes = d.bytes().map_err(|error| Corrupt::new(what, error))?;
    BlockHash::from_slice(bytes).ok_or_else(|| Corrupt::new(what, "a hash is not 32 bytes long"))
}

pub(super) fn optional_hash(
    d: &mut Decoder<'_>,
    what: &'static str,
) -> Result<Option<[u8; 32]>, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
    if d.datatype().map_err(corrupt)? == minicbor::data::Type::Null {
        d.null().map_err(corrupt)?;
        return Ok(None);
    }
    Ok(Some(*block_hash(d, what)?.as_bytes()))
}

/// The nodes of a Bitcoin block's Merkle tree that stand over each 2^k of its transactions. The tree
/// over the nodes has the root of the block.
#[must_use]
pub fn subtree_roots(txids: &[Txid], txs_log2: u8) -> Vec<[u8; 32]> {
    let is_only_one = txids.len() <= 1_usize << txs_log2;
    let root = |part: &[Txid]| {
        let mut level: Vec<[u8; 32]> = part.iter().map(|txid| *txid.as_bytes()).collect();
        for _ in 0..txs_log2 {
            // The only subtree ends in the root of the block, which may be lower than 2^k.
            if is_only_one && level.len() == 1 {
                break;
            }
            level = level.chunks(2).map(|pair| parent(&pair[0], &pair[pair.len() - 1])).collect();
        }
        level[0]
    };
    txids.chunks(1 << txs_log2).map(root).collect()
}

/// An odd last node is paired with itself.
fn parent(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(left);
    hasher.update(right);
    Sha256::digest(hasher.finalize()).into()
}
