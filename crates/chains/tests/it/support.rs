//! Fixtures shared by the tests.

use std::{
    fs::{self, File},
    io::Read,
    path::PathBuf,
};

use bitcoin::consensus::{deserialize, serialize};

/// A chain made by a real node, with its answers.
pub(crate) fn regtest_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/data/regtest-a")
}

/// A row of `blocks.tsv`.
pub(crate) struct Row {
    pub(crate) hash: String,
    pub(crate) prev: String,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) txs: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

pub(crate) fn regtest_rows() -> Vec<Row> {
    let text = fs::read_to_string(regtest_dir().join("blocks.tsv")).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse().unwrap();
        Row {
            hash: fields[0].to_owned(),
            prev: fields[2].to_owned(),
            offset: number(3),
            len: number(4),
            txs: number(6),
            inputs: number(7),
            outputs: number(8),
        }
    });
    rows.collect()
}

/// The decompressed block file of that chain.
pub(crate) fn regtest_file() -> Vec<u8> {
    let file = File::open(regtest_dir().join("blocks.dat.xz")).unwrap();
    let mut bytes = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Its blocks in order of arrival.
pub(crate) fn regtest_blocks() -> Vec<Vec<u8>> {
    let file = regtest_file();
    let rows = regtest_rows();
    rows.iter().map(|row| file[row.offset + 8..][..row.len].to_vec()).collect()
}

/// Changes a regtest block and makes its merkle root and proof of work valid again.
pub(crate) fn rebuild(raw: &[u8], change: impl FnOnce(&mut bitcoin::Block)) -> Vec<u8> {
    let mut block: bitcoin::Block = deserialize(raw).unwrap();
    change(&mut block);
    if let Some(root) = block.compute_merkle_root() {
        block.header.merkle_root = root;
    }
    while block.header.validate_pow(block.header.target()).is_err() {
        block.header.nonce += 1;
    }
    serialize(&block)
}
