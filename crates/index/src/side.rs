//! Blocks of other branches: their headers, verdicts and bodies, for as long as they may matter.

use std::collections::BTreeSet;

use minicbor::{Decoder, Encoder};
use utxokeep_core::{
    BlockDelta, BlockEntry, BlockHash, ChainWork, Corrupt, Encoded, Height, Node, StoreAs,
    StoredValue,
};
use utxokeep_kv::{Batch, Read, RowKey, Scan, Table};

use crate::{
    error::IndexError,
    tables::{SIDE, SIDE_BODY},
};

const WHAT: &str = "side block";

/// Height and hash.
type Key = (Height, BlockHash);

/// What the tree knows of a block; its key has height and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideHeader {
    prev: BlockHash,
    work: ChainWork,
    time: u64,
    invalid: Option<BlockHash>,
}

/// The body of a block: raw, or what it takes to connect it again.
#[derive(Debug)]
pub enum SideBody {}

/// A body as it is read.
#[derive(Debug, Clone, Copy)]
pub enum SideBodyRead<'b> {
    /// The raw block.
    Raw(&'b [u8]),
    /// It was connected once and belongs to a branch.
    Redo(Left<'b>),
    /// It was connected once and is kept for readers of the log alone.
    Undone(Left<'b>),
}

/// A block that was connected and left the chain, not decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct Left<'b>(&'b [u8]);

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

impl StoreAs<SideHeader> for Node {
    fn write_value(&self, out: &mut Vec<u8>) {
        let mut e = Encoder::new(out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.map(3 + u64::from(self.invalid.is_some()))?;
            e.u32(0)?.bytes(self.prev.as_bytes())?;
            e.u32(1)?.bytes(self.work.as_bytes())?;
            e.u32(2)?.u64(self.time)?;
            if let Some(invalid) = &self.invalid {
                e.u32(3)?.bytes(invalid.as_bytes())?;
            }
            Ok(())
        };
        write().expect("writing to a vector does not fail");
    }
}

impl StoredValue for SideHeader {
    type Read<'v> = Self;

    fn read_value(bytes: &[u8]) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new(WHAT, "malformed header");
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let mut d = Decoder::new(bytes);
        let fields = d.map().map_err(corrupt)?.ok_or_else(damaged)?;
        let (mut prev, mut work, mut time, mut invalid) = (None, None, None, None);
        for _ in 0..fields {
            match d.u32().map_err(corrupt)? {
                0 => prev = BlockHash::from_slice(d.bytes().map_err(corrupt)?),
                1 => {
                    work =
                        d.bytes().map_err(corrupt)?.try_into().ok().map(ChainWork::from_be_bytes);
                }
                2 => time = Some(d.u64().map_err(corrupt)?),
                3 => invalid = BlockHash::from_slice(d.bytes().map_err(corrupt)?),
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        Ok(Self {
            prev: prev.ok_or_else(damaged)?,
            work: work.ok_or_else(damaged)?,
            time: time.ok_or_else(damaged)?,
            invalid,
        })
    }
}

/// A raw block, to be stored.
struct Raw<'b>(&'b [u8]);

impl StoreAs<SideBody> for Raw<'_> {
    fn write_value(&self, out: &mut Vec<u8>) {
        out.push(RAW);
        out.extend_from_slice(self.0);
    }
}

/// A block that left the chain, to be stored.
struct Leaving<'b> {
    kind: u8,
    entry: &'b BlockEntry,
    delta: Option<&'b BlockDelta>,
}

impl StoreAs<SideBody> for Leaving<'_> {
    fn write_value(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        let entry = self.entry.encode();
        out.extend_from_slice(&(entry.len() as u64).to_be_bytes());
        out.extend_from_slice(&entry);
        out.extend_from_slice(&self.delta.map(BlockDelta::encode).unwrap_or_default());
    }
}

impl StoredValue for SideBody {
    type Read<'v> = SideBodyRead<'v>;

    fn read_value(bytes: &[u8]) -> Result<SideBodyRead<'_>, Corrupt> {
        match bytes.split_first() {
            Some((&RAW, raw)) => Ok(SideBodyRead::Raw(raw)),
            Some((&REDO, rest)) => Ok(SideBodyRead::Redo(Left(rest))),
            Some((&UNDONE, rest)) => Ok(SideBodyRead::Undone(Left(rest))),
            _ => Err(damaged()),
        }
    }
}

impl Left<'_> {
    fn decode(self) -> Result<Undone, Corrupt> {
        let (len, rest) = self.0.split_at_checked(8).ok_or_else(damaged)?;
        let len = u64::from_be_bytes(len.try_into().map_err(|_| damaged())?);
        let len = usize::try_from(len).map_err(|_| damaged())?;
        let (entry, delta) = rest.split_at_checked(len).ok_or_else(damaged)?;
        let delta = if delta.is_empty() { None } else { Some(BlockDelta::decode(delta)?) };
        Ok(Undone { entry: BlockEntry::decode(entry)?, delta })
    }
}

/// Stores a header, without changing a body that is there.
pub(crate) fn put_node(batch: &mut Batch, node: &Node) {
    SIDE.put(batch, &(node.height, node.hash), node);
}

pub(crate) fn put_raw(batch: &mut Batch, height: Height, hash: &BlockHash, raw: &[u8]) {
    SIDE_BODY.put(batch, &(height, *hash), &Raw(raw));
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
    SIDE_BODY.put(batch, &(height, entry.hash), &Leaving { kind, entry, delta });
}

pub(crate) fn delete(batch: &mut Batch, height: Height, hash: &BlockHash) {
    SIDE.delete(batch, &(height, *hash));
    SIDE_BODY.delete(batch, &(height, *hash));
}

fn damaged() -> Corrupt {
    Corrupt::new(WHAT, "the stored body is damaged")
}

/// The body of a side block, to connect it.
pub(crate) fn body(
    read: &dyn Read,
    height: Height,
    hash: &BlockHash,
) -> Result<Option<Body>, IndexError> {
    let Some(body) = SIDE_BODY.get(read, &(height, *hash))? else { return Ok(None) };
    match body.read()? {
        SideBodyRead::Raw(raw) => Ok(Some(Body::Raw(raw.to_vec()))),
        SideBodyRead::Redo(left) | SideBodyRead::Undone(left) => {
            let Undone { entry, delta } = left.decode()?;
            Ok(delta.map(|delta| Body::Redo(Box::new(Redo { entry, delta }))))
        }
    }
}

/// A block that was connected once and left the chain; `None` for one that was not, or whose rows
/// are gone.
pub(crate) fn undone(
    read: &dyn Read,
    height: Height,
    hash: &BlockHash,
) -> Result<Option<Undone>, IndexError> {
    let Some(body) = SIDE_BODY.get(read, &(height, *hash))? else { return Ok(None) };
    match body.read()? {
        SideBodyRead::Raw(_) => Ok(None),
        SideBodyRead::Redo(left) | SideBodyRead::Undone(left) => Ok(Some(left.decode()?)),
    }
}

/// Visits every block that is kept for readers of the log alone.
pub(crate) fn visit_undone(
    read: &dyn Read,
    found: &mut dyn FnMut(Height, BlockHash, Result<Undone, Corrupt>),
) -> Result<(), IndexError> {
    visit(read, SIDE_BODY, None, usize::MAX, &mut |key, value| {
        if let Ok(SideBodyRead::Undone(left)) = value.read()
            && let Some((height, hash)) = key.read()
        {
            found(height, hash, left.decode());
        }
    })
}

/// Every stored header, lowest first.
pub(crate) fn nodes(read: &dyn Read) -> Result<Vec<Node>, IndexError> {
    let mut nodes = Vec::new();
    let mut damage = None;
    visit(read, SIDE, None, usize::MAX, &mut |key, value| match node(&key, value) {
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
) -> Result<usize, IndexError> {
    let mut keys = BTreeSet::new();
    // Rows whose key cannot be read go too.
    let mut note = |key: &[u8]| {
        keys.insert(key.to_vec());
    };
    visit(read, SIDE, Some(floor), limit, &mut |key, _| note(key.bytes()))?;
    visit(read, SIDE_BODY, Some(floor), limit, &mut |key, _| note(key.bytes()))?;
    let mut deleted = 0;
    for key in keys.iter().take(limit) {
        batch.delete(SIDE.id(), key);
        batch.delete(SIDE_BODY.id(), key);
        deleted += 1;
    }
    Ok(deleted)
}

fn visit<V: StoredValue>(
    read: &dyn Read,
    table: Table<Key, V>,
    below: Option<Height>,
    limit: usize,
    visit: &mut dyn FnMut(RowKey<'_, Key>, Encoded<'_, V>),
) -> Result<(), IndexError> {
    let until = below.map(Height::to_key);
    let until = until.as_ref().map(<[u8; 4]>::as_slice);
    let scan = Scan { from: &[], until, reverse: false, limit, within_prefix: false };
    table.scan(read, &scan, |key, value| {
        visit(key, value);
        true
    })?;
    Ok(())
}

fn node(key: &RowKey<'_, Key>, header: Encoded<'_, SideHeader>) -> Result<Node, Corrupt> {
    let (height, hash) = key.read().ok_or_else(|| Corrupt::new(WHAT, "malformed key"))?;
    let SideHeader { prev, work, time, invalid } = header.read()?;
    Ok(Node { hash, prev, height, work, time, invalid })
}
