//! Blocks for the tests, real where they are at hand, and forks made from them.

use std::{fs, path::Path};

use pallas_traverse::MultiEraBlock;
use utxokeep_chains::cardano::{NodePoint, split_blocks};
use utxokeep_core::BlockHash;
use utxokeep_testkit::{
    cardano::{BlockSpec, Era},
    preview_immutable,
};

/// Blocks that stand in for a chunk of real ones.
const MADE_BLOCKS: usize = 216;

/// The wrapped blocks of some chunks of the preview network, in order: 0 to 2 are Alonzo, 120 is
/// Babbage. Without that data, as many made ones of the same era.
pub(crate) fn chain_of(chunks: &[u32]) -> Vec<Vec<u8>> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(dir) = preview_immutable(cache) else { return made(chunks) };
    let read = |chunk: &u32| {
        let bytes = fs::read(dir.join(format!("{chunk:05}.chunk"))).unwrap();
        split_blocks(&bytes).map(|block| block.unwrap().to_vec()).collect::<Vec<_>>()
    };
    chunks.iter().flat_map(read).collect()
}

fn made(chunks: &[u32]) -> Vec<Vec<u8>> {
    let era = if chunks.contains(&120) { Era::Babbage } else { Era::Alonzo };
    let mut tip = BlockSpec::first(era, Vec::new()).build();
    let mut blocks = vec![tip.raw.clone()];
    while blocks.len() < MADE_BLOCKS * chunks.len() {
        tip = tip.next(era, Vec::new()).build();
        blocks.push(tip.raw.clone());
    }
    blocks
}

/// The point of a wrapped block.
pub(crate) fn point_of(raw: &[u8]) -> NodePoint {
    let block = MultiEraBlock::decode(raw).unwrap();
    NodePoint { slot: block.slot(), hash: *block.hash() }
}

/// The hash of a wrapped block.
pub(crate) fn hash_of(raw: &[u8]) -> BlockHash {
    point_of(raw).block_hash()
}

/// Other blocks at the same places: the first has another signature, the rest follow it.
pub(crate) fn fork_of(blocks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut forked: Vec<Vec<u8>> = Vec::new();
    for raw in blocks {
        let block = MultiEraBlock::decode(raw).unwrap();
        let header = block.header();
        let start = find(raw, header.cbor());
        let mut other = raw.clone();
        if let Some(before) = forked.last() {
            let previous = header.previous_hash().unwrap();
            let at = start + find(header.cbor(), &*previous);
            other[at..at + 32].copy_from_slice(&point_of(before).hash);
        } else {
            // A header ends with its signature.
            other[start + header.cbor().len() - 1] ^= 1;
        }
        forked.push(other);
    }
    forked
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}
