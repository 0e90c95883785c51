//! All files of one block.

use super::{
    Additions, CutPiece, Deletions, FileKind, FileName, FileSum, LayoutPiece, PersistedBlock,
    Subtree, SubtreeData, SubtreeEntry, subtree_roots,
};
use crate::{
    chain::{
        block::{Block, Header},
        record::Corrupt,
    },
    network::Network,
    types::{BlockHash, Height, Txid},
};

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// The chain.
    pub network: Network,
    /// Height of the block.
    pub height: Height,
    /// The block below it in the chain log.
    pub parent: BlockHash,
}

/// The files of a block, each with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedFiles {
    /// What the `.block` file says.
    pub block: PersistedBlock,
    /// The `.block` file, which is written last.
    pub manifest: (FileName, Vec<u8>),
    /// All others.
    pub others: Vec<(FileName, Vec<u8>)>,
}

/// Encodes the files of a block: `raw` as it is on chain, where its pieces belong, and the same
/// block decoded. Subtrees have `2^subtree_txs_log2` transactions.
pub fn encode_files(
    raw: &[u8],
    cut: &[CutPiece],
    decoded: &Block,
    place: BlockPlace,
    subtree_txs_log2: u8,
) -> Result<PersistedFiles, Corrupt> {
    let BlockPlace { network, height, parent } = place;
    // Rules of the ledger are in no raw block.
    let txids: Vec<Txid> =
        decoded.txs.iter().filter(|tx| !tx.is_ledger_rule).map(|tx| tx.txid).collect();
    let (layout, pieces) = pieces_of(raw, cut, txids.len())?;
    let hash = decoded.header.hash;
    let name = FileName::of_block(network, height, hash);
    let has_merkle_tree = !network.is_cardano();
    let roots = if has_merkle_tree { subtree_roots(&txids, subtree_txs_log2) } else { Vec::new() };
    let mut others = Vec::new();
    let mut subtrees = Vec::new();
    let size = 1 << subtree_txs_log2;
    let parts = txids.chunks(size).zip(pieces.chunks(size));
    for (number, (txids, pieces)) in (0_u32..).zip(parts) {
        let root = roots.get(number as usize).copied();
        let len = |pieces: &Vec<&[u8]>| pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let sizes = pieces.iter().map(len);
        let sizes = sizes.map(|size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
        let ids = Subtree { block: hash, number, root, txids: txids.to_vec(), sizes }.encode();
        let data = SubtreeData { block: hash, number, txs: pieces.to_vec() }.encode();
        let txs = u32::try_from(txids.len()).unwrap_or(u32::MAX);
        let (ids_sum, data_sum) = (FileSum::of(&ids), FileSum::of(&data));
        subtrees.push(SubtreeEntry { root, txs, ids: ids_sum, data: data_sum });
        others.push((name.sibling(FileKind::Subtree, number), ids));
        others.push((name.sibling(FileKind::SubtreeData, number), data));
    }
    let (added, deleted) = (Additions::of(decoded, height), Deletions::of(decoded, height));
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let (added_file, deleted_file) = (added.encode(), deleted.encode());
    let block = PersistedBlock {
        network,
        height,
        header: Header { prev: parent, ..decoded.header },
        subtree_txs_log2,
        layout,
        subtrees,
        additions: (count(added.outputs.len()), FileSum::of(&added_file)),
        deletions: (count(deleted.outputs.len()), FileSum::of(&deleted_file)),
    };
    others.push((name.sibling(FileKind::Additions, 0), added_file));
    others.push((name.sibling(FileKind::Deletions, 0), deleted_file));
    let manifest = (name, block.encode());
    Ok(PersistedFiles { block, manifest, others })
}

type TxPieces<'b> = Vec<Vec<&'b [u8]>>;

/// The layout of a raw block, and the pieces of each of its transactions.
fn pieces_of<'b>(
    raw: &'b [u8],
    cut: &[CutPiece],
    txs: usize,
) -> Result<(Vec<LayoutPiece>, TxPieces<'b>), Corrupt> {
    let wrong = || Corrupt::new("pieces of a block", "they are not those of its bytes");
    let mut layout = Vec::new();
    let mut pieces: TxPieces<'_> = vec![Vec::new(); txs];
    let mut at = 0;
    for piece in cut {
        let range = match piece {
            CutPiece::Frame(range) | CutPiece::Tx(_, range) => range.clone(),
        };
        let bytes = raw.get(range.clone()).filter(|_| range.start == at).ok_or_else(wrong)?;
        at = range.end;
        match piece {
            CutPiece::Frame(_) => layout.push(LayoutPiece::Frame(bytes.to_vec())),
            CutPiece::Tx(tx, _) => {
                pieces.get_mut(*tx as usize).ok_or_else(wrong)?.push(bytes);
                match layout.last_mut() {
                    Some(LayoutPiece::Txs { first, count }) if *first + *count == *tx => {
                        *count += 1;
                    }
                    _ => layout.push(LayoutPiece::Txs { first: *tx, count: 1 }),
                }
            }
        }
    }
    if at != raw.len() || pieces.iter().any(Vec::is_empty) {
        return Err(wrong());
    }
    Ok((layout, pieces))
}
