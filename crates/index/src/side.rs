//! Blocks of other branches: their headers, verdicts and bodies, for as long as they may matter.

use std::collections::BTreeSet;

use minicbor::{Decoder, Encoder};
use utxokeep_core::{BlockDelta, BlockEntry, BlockHash, ChainWork, Corrupt, Height, Node};
use utxokeep_kv::{Batch, Read, Scan, TableId};

use crate::{
    error::StoreError,
    tables::{SIDE, SIDE_BODY},
};

const WHAT: &str = "side block";
const KEY_LEN: usize = 36;

/// What it takes to connect an undone block again: exactly what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redo {
    pub(crate) entry: BlockEntry,
    /// Self-contained.
    pub(crate) delta: BlockDelta,
}

/// A stored body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    Raw(Vec<u8>),
    Redo(Box<Redo>),
}

/// A block that left the chain, as readers of the log are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undone {
    pub(crate) entry: BlockEntry,
    /// Self-contained; absent where only the log is kept.
    pub(crate) delta: Option<BlockDelta>,
}

/// First byte of a body: the raw block.
const RAW: u8 = 0;
/// The block was connected once and belongs to a branch: its header is stored too.
const REDO: u8 = 1;
/// The block was connected once and is kept for readers of the log alone.
const UNDONE: u8 = 2;

pub(crate) fn key(height: Height, hash: &BlockHash) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key[..4].copy_from_slice(&height.to_key());
    key[4..].copy_from_slice(hash.as_bytes());
    key
}

/// A block of the followed chain as the tree sees it.
pub(crate) fn chain_node(height: Height, entry: &BlockEntry) -> Node {
    Node {
        hash: entry.hash,
        prev: entry.prev,
        height,
        work: entry.work,
        time: entry.time,
        invalid: None,
    }
}

/// Stores a header, without changing a body that is there.
pub(crate) fn put_node(batch: &mut Batch, node: &Node) {
    let mut out = Vec::with_capacity(128);
    let mut e = Encoder::new(&mut out);
    let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        e.map(3 + u64::from(node.invalid.is_some()))?;
        e.u32(0)?.bytes(node.prev.as_bytes())?;
        e.u32(1)?.bytes(node.work.as_bytes())?;
        e.u32(2)?.u64(node.time)?;
        if let Some(invalid) = &node.invalid {
            e.u32(3)?.bytes(invalid.as_bytes())?;
        }
        Ok(())
    };
    write().expect("writing to a vector does not fail");
    batch.put(SIDE, &key(node.height, &node.hash), &out);
}

pub(crate) fn put_raw(batch: &mut Batch, height: Height, hash: &BlockHash, raw: &[u8]) {
    batch.put_with(SIDE_BODY, &key(height, hash), |out| {
        out.push(RAW);
        out.extend_from_slice(raw);
    });
}

/// Stores a disconnected block: header and what it takes to connect it again.
pub(crate) fn put_redo(batch: &mut Batch, height: Height, redo: &Redo) {
    put_node(batch, &chain_node(height, &redo.entry));
    put_left(batch, height, REDO, &redo.entry, Some(&redo.delta));
}

/// Stores a disconnected block for readers of the log. It gets no header: no branch is built of it.
pub(crate) fn put_undone(batch: &mut Batch, height: Height, undone: &Undone) {
    put_left(batch, height, UNDONE, &undone.entry, undone.delta.as_ref());
}

fn put_left(
    batch: &mut Batch,
    height: Height,
    kind: u8,
    entry: &BlockEntry,
    delta: Option<&BlockDelta>,
) {
    batch.put_with(SIDE_BODY, &key(height, &entry.hash), |out| {
        out.push(kind);
        let entry = entry.encode();
        out.extend_from_slice(&(entry.len() as u64).to_be_bytes());
        out.extend_from_slice(&entry);
        out.extend_from_slice(&delta.map(BlockDelta::encode).unwrap_or_default());
    });
}

pub(crate) fn delete(batch: &mut Batch, height: Height, hash: &BlockHash) {
    batch.delete(SIDE, &key(height, hash));
    batch.delete(SIDE_BODY, &key(height, hash));
}

fn damaged() -> Corrupt {
    Corrupt::new(WHAT, "the stored body is damaged")
}

/// The body of a side block, to connect it.
pub(crate) fn body(
    read: &dyn Read,
    height: Height,
    hash: &BlockHash,
) -> Result<Option<Body>, StoreError> {
    let Some(bytes) = read.get(SIDE_BODY, &key(height, hash))? else { return Ok(None) };
    match bytes.split_first().ok_or_else(damaged)? {
        (&RAW, raw) => Ok(Some(Body::Raw(raw.to_vec()))),
        (&(REDO | UNDONE), rest) => {
            let Undone { entry, delta } = decode_left(rest)?;
            Ok(delta.map(|delta| Body::Redo(Box::new(Redo { entry, delta }))))
        }
        _ => Err(damaged().into()),
    }
}

/// A block that was connected once and left the chain; `None` for one that was not, or whose rows
/// are gone.
pub(crate) fn undone(
    read: &dyn Read,
    height: Height,
    hash: &BlockHash,
) -> Result<Option<Undone>, StoreError> {
    let Some(bytes) = read.get(SIDE_BODY, &key(height, hash))? else { return Ok(None) };
    match bytes.split_first().ok_or_else(damaged)? {
        (&RAW, _) => Ok(None),
        (&(REDO | UNDONE), rest) => Ok(Some(decode_left(rest)?)),
        _ => Err(damaged().into()),
    }
}

fn decode_left(bytes: &[u8]) -> Result<Undone, Corrupt> {
    let (len, rest) = bytes.split_at_checked(8).ok_or_else(damaged)?;
    let len = u64::from_be_bytes(len.try_into().map_err(|_| damaged())?);
    let len = usize::try_from(len).map_err(|_| damaged())?;
    let (entry, delta) = rest.split_at_checked(len).ok_or_else(damaged)?;
    let delta = if delta.is_empty() { None } else { Some(BlockDelta::decode(delta)?) };
    Ok(Undone { entry: BlockEntry::decode(entry)?, delta })
}

/// Visits every block that is kept for readers of the log alone.
pub(crate) fn visit_undone(
    read: &dyn Read,
    found: &mut dyn FnMut(Height, BlockHash, Result<Undone, Corrupt>),
) -> Result<(), StoreError> {
    visit(read, SIDE_BODY, None, usize::MAX, &mut |key, value| {
        if let Some((&UNDONE, rest)) = value.split_first()
            && let Some((height, hash)) = key.split_at_checked(4)
            && let (Some(height), Some(hash)) =
                (Height::from_key(height), BlockHash::from_slice(hash))
        {
            found(height, hash, decode_left(rest));
        }
    })
}

/// Every stored header, lowest first.
pub(crate) fn nodes(read: &dyn Read) -> Result<Vec<Node>, StoreError> {
    let mut nodes = Vec::new();
    let mut damage = None;
    visit(read, SIDE, None, usize::MAX, &mut |key, value| match decode_node(key, value) {
        Ok(node) => nodes.push(node),
        Err(error) => damage = Some(error),
    })?;
    damage.map_or(Ok(nodes), |error| Err(error.into()))
}

/// Deletes blocks below `floor`, at most `limit`; answers how many.
pub(crate) fn prune(
    read: &dyn Read,
    batch: &mut Batch,
    floor: Height,
    limit: usize,
) -> Result<usize, StoreError> {
    let mut keys = BTreeSet::new();
    for table in [SIDE, SIDE_BODY] {
        visit(read, table, Some(floor), limit, &mut |key, _| {
            keys.insert(key.to_vec());
        })?;
    }
    let mut deleted = 0;
    for key in keys.iter().take(limit) {
        batch.delete(SIDE, key);
        batch.delete(SIDE_BODY, key);
        deleted += 1;
    }
    Ok(deleted)
}

fn visit(
    read: &dyn Read,
    table: TableId,
    below: Option<Height>,
    limit: usize,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), StoreError> {
    let until = below.map(Height::to_key);
    let until = until.as_ref().map(<[u8; 4]>::as_slice);
    let scan = Scan { from: &[], until, reverse: false, limit, within_prefix: false };
    read.scan(table, &scan, &mut |key, value| {
        visit(key, value);
        true
    })?;
    Ok(())
}

fn decode_node(key: &[u8], value: &[u8]) -> Result<Node, Corrupt> {
    let damaged = || Corrupt::new(WHAT, "malformed key");
    let (height, hash) = key.split_at_checked(4).ok_or_else(damaged)?;
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
    let mut d = Decoder::new(value);
    let fields = d.map().map_err(corrupt)?.ok_or_else(damaged)?;
    let (mut prev, mut work, mut time, mut invalid) = (None, None, None, None);
    for _ in 0..fields {
        match d.u32().map_err(corrupt)? {
            0 => prev = BlockHash::from_slice(d.bytes().map_err(corrupt)?),
            1 => work = d.bytes().map_err(corrupt)?.try_into().ok().map(ChainWork::from_be_bytes),
            2 => time = Some(d.u64().map_err(corrupt)?),
            3 => invalid = BlockHash::from_slice(d.bytes().map_err(corrupt)?),
            other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
        }
    }
    Ok(Node {
        hash: BlockHash::from_slice(hash).ok_or_else(damaged)?,
        prev: prev.ok_or_else(damaged)?,
        height: Height::from_key(height).ok_or_else(damaged)?,
        work: work.ok_or_else(damaged)?,
        time: time.ok_or_else(damaged)?,
        invalid,
    })
}
