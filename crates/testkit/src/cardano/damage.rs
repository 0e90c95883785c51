//! Bytes that a decoder has to refuse.

use super::{
    Built, Era,
    cbor::{array, head, uint},
};

/// The block under another era tag; 8 is no era yet.
pub fn with_era_tag(raw: &[u8], tag: u8) -> Vec<u8> {
    let (_, block) = raw.split_at(2);
    array(&[uint(tag.into()), block.to_vec()])
}

/// The first `keep` bytes.
pub fn truncated(raw: &[u8], keep: usize) -> Vec<u8> {
    raw[..keep].to_vec()
}

/// The bytes with one bit turned over.
pub fn flipped(raw: &[u8], bit: usize) -> Vec<u8> {
    let mut raw = raw.to_vec();
    raw[bit / 8] ^= 1 << (bit % 8);
    raw
}

/// The block up to its header, and a list of `items` transactions (of leaders in a boundary block)
/// of which none follows: a decoder that believes it runs out of memory.
pub fn claiming(built: &Built, items: u64) -> Vec<u8> {
    let (fields, around) = match built.era {
        Era::ByronBoundary => (3, vec![]),
        Era::Byron => (3, head(4, 4)),
        Era::Shelley | Era::Allegra | Era::Mary => (4, vec![]),
        Era::Alonzo | Era::Babbage | Era::Conway => (5, vec![]),
    };
    let header = built.header.clone();
    let tag = uint(built.era.tag().into());
    [head(4, 2), tag, head(4, fields), header, around, head(4, items)].concat()
}

/// Lists in lists, `levels` deep: an inline datum that a recursive decoder runs out of stack on.
pub fn nested_lists(levels: usize) -> Vec<u8> {
    let mut raw = vec![0x81; levels.saturating_sub(1)];
    raw.push(0x80);
    raw
}
