//! Real blocks for the tests, and forks made from them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use pallas_traverse::MultiEraBlock;
use utxokeep_chains::cardano::NodePoint;

/// Directory with test data, or `None` after saying that the test is skipped.
pub(crate) fn data_dir() -> Option<PathBuf> {
    let given = std::env::var_os("UTXOKEEP_TESTDATA").map(PathBuf::from);
    let dir =
        given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let cardano = dir.join("cardano");
    if cardano.join("preview-immutable.tar.xz").is_file() {
        return Some(cardano);
    }
    eprintln!("skipped: no Cardano test data in {}: set UTXOKEEP_TESTDATA", dir.display());
    None
}

/// Chunks of the preview network that tests may ask for: Alonzo, then Babbage.
const CHUNKS: [u32; 4] = [0, 1, 2, 120];

/// The wrapped blocks of some of [`CHUNKS`], in order.
pub(crate) fn preview_blocks(data: &Path, chunks: &[u32]) -> Vec<Vec<u8>> {
    static UNPACKED: OnceLock<BTreeMap<u32, Vec<Vec<u8>>>> = OnceLock::new();
    let unpacked = UNPACKED.get_or_init(|| unpack(data));
    chunks.iter().flat_map(|chunk| unpacked[chunk].clone()).collect()
}

fn unpack(data: &Path) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let dir = tempfile::tempdir().unwrap();
    let name = |chunk: u32| format!("preview-immutable/{chunk:05}.chunk");
    let unpacked = Command::new("tar")
        .arg("-xJf")
        .arg(data.join("preview-immutable.tar.xz"))
        .arg("-C")
        .arg(dir.path())
        .args(CHUNKS.map(name))
        .status()
        .unwrap();
    assert!(unpacked.success(), "tar could not unpack the chunks");
    let read = |chunk: u32| split(&fs::read(dir.path().join(name(chunk))).unwrap());
    CHUNKS.into_iter().map(|chunk| (chunk, read(chunk))).collect()
}

/// Cuts concatenated CBOR items apart.
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let (item, rest) = bytes.split_at(item_len(bytes));
        items.push(item.to_vec());
        bytes = rest;
    }
    items
}

/// Length of the CBOR item at the start of `bytes`.
fn item_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Items still to come on every level; `None` is an indefinite length.
    let mut open = vec![Some(1_u64)];
    while let Some(level) = open.last_mut() {
        match level {
            Some(0) => {
                open.pop();
                continue;
            }
            Some(left) => *left -= 1,
            None if bytes[at] == 0xff => {
                at += 1;
                open.pop();
                continue;
            }
            None => {}
        }
        let (major, info) = (bytes[at] >> 5, bytes[at] & 31);
        at += 1;
        let width = if (24..28).contains(&info) { 1 << (info - 24) } else { 0 };
        let argument = bytes[at..at + width].iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
        let argument = if width == 0 { u64::from(info) } else { argument };
        at += width;
        match major {
            2..=5 if info == 31 => open.push(None),
            2 | 3 => at += usize::try_from(argument).unwrap(),
            4 => open.push(Some(argument)),
            5 => open.push(Some(argument * 2)),
            6 => open.push(Some(1)),
            _ => {}
        }
    }
    at
}

/// The point of a wrapped block.
pub(crate) fn point_of(raw: &[u8]) -> NodePoint {
    let block = MultiEraBlock::decode(raw).unwrap();
    NodePoint { slot: block.slot(), hash: *block.hash() }
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
