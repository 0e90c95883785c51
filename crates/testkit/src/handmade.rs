//! Regtest blocks made by hand, for chains whose every byte a test chooses.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use utxokeep_chains::{BlockSource, HEADER_LEN, SourceError, decode_header, genesis_block};
use utxokeep_core::{BlockHash, Header, Network, OutPoint, Txid};

/// A script anyone can spend.
pub const ANYONE: &[u8] = &[0x51];
/// A script nobody can spend.
pub const NOBODY: &[u8] = &[0x6a];

/// A transaction to be mined; its scripts and signatures are empty.
#[derive(Debug, Clone, Default)]
pub struct HandTx {
    /// Outputs it spends.
    pub inputs: Vec<OutPoint>,
    /// Amount and script of each new output.
    pub outputs: Vec<(u64, Vec<u8>)>,
}

impl HandTx {
    /// Spends `inputs` into outputs of these amounts that anyone can spend.
    pub fn new(inputs: &[OutPoint], values: &[u64]) -> Self {
        let outputs = values.iter().map(|&value| (value, ANYONE.to_vec())).collect();
        Self { inputs: inputs.to_vec(), outputs }
    }

    fn bytes(&self, coinbase: Option<(u32, u64)>) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        if let Some((height, tag)) = coinbase {
            bytes.push(1);
            bytes.extend([0; 32]);
            bytes.extend([0xff; 4]);
            let script = [height_script(height), vec![8], tag.to_le_bytes().to_vec()].concat();
            push_size(&mut bytes, script.len());
            bytes.extend(script);
            bytes.extend([0xff; 4]);
        } else {
            push_size(&mut bytes, self.inputs.len());
            for input in &self.inputs {
                bytes.extend(input.txid().as_bytes());
                bytes.extend(input.index().to_le_bytes());
                bytes.push(0);
                bytes.extend([0xff; 4]);
            }
        }
        push_size(&mut bytes, self.outputs.len());
        for (value, script) in &self.outputs {
            bytes.extend(value.to_le_bytes());
            push_size(&mut bytes, script.len());
            bytes.extend(script);
        }
        bytes.extend([0; 4]);
        bytes
    }

    /// The transaction as it stands in a block.
    pub fn raw(&self) -> Vec<u8> {
        self.bytes(None)
    }

    /// Id of the transaction.
    pub fn txid(&self) -> Txid {
        Txid::from_bytes(sha256d(&self.bytes(None)))
    }

    /// Names one of the outputs.
    pub fn output(&self, index: u32) -> OutPoint {
        OutPoint::new(self.txid(), index)
    }
}

/// A mined block.
#[derive(Debug, Clone)]
pub struct HandBlock {
    /// Its header.
    pub header: Header,
    /// Its bytes.
    pub raw: Vec<u8>,
    /// Id of its coinbase.
    pub coinbase: Txid,
}

/// Mines the regtest block of `height` on `prev`. Equal arguments give equal blocks; `tag` tells
/// coinbases apart.
pub fn mine(
    prev: &Header,
    height: u32,
    tag: u64,
    rewards: &[(u64, &[u8])],
    txs: &[HandTx],
) -> HandBlock {
    let outputs = rewards.iter().map(|(value, script)| (*value, script.to_vec())).collect();
    let coinbase = HandTx { inputs: Vec::new(), outputs }.bytes(Some((height, tag)));
    let mut bodies = vec![coinbase];
    bodies.extend(txs.iter().map(|tx| tx.bytes(None)));
    let time = u32::try_from(prev.time + 600).expect("test chains end before 2106");
    let bodies: Vec<_> = bodies.into_iter().map(|body| (body.clone(), body)).collect();
    seal(prev, 0x2000_0000, time, &bodies)
}

/// Mines a regtest block of transactions as they are: of each its bytes without and with witnesses.
/// The first one is the coinbase.
pub fn seal(prev: &Header, version: i32, time: u32, txs: &[(Vec<u8>, Vec<u8>)]) -> HandBlock {
    let hashes: Vec<_> = txs.iter().map(|(stripped, _)| sha256d(stripped)).collect();
    let coinbase = Txid::from_bytes(hashes[0]);
    let mut raw = version.to_le_bytes().to_vec();
    raw.extend(prev.hash.as_bytes());
    raw.extend(merkle_root(hashes));
    raw.extend(time.to_le_bytes());
    raw.extend(0x207f_ffff_u32.to_le_bytes());
    raw.extend([0; 4]);
    let header = (0u32..)
        .find_map(|nonce| {
            raw[HEADER_LEN - 4..].copy_from_slice(&nonce.to_le_bytes());
            decode_header(&raw).ok()
        })
        .expect("every second nonce meets the easiest target");
    push_size(&mut raw, txs.len());
    for (_, whole) in txs {
        raw.extend(whole);
    }
    HandBlock { header, raw, coinbase }
}

/// Header of the first block of regtest.
pub fn regtest_genesis() -> Header {
    decode_header(&genesis_block(Network::BitcoinRegtest)).expect("the first block is a constant")
}

/// The height as a coinbase carries it: a small number as its own instruction, else pushed in as few
/// little-endian bytes as keep it positive.
pub fn height_script(height: u32) -> Vec<u8> {
    if let Ok(small @ 1..=16) = u8::try_from(height) {
        return vec![0x50 + small];
    }
    let mut number = height.to_le_bytes().to_vec();
    number.push(0);
    while number.len() > 1 && number[number.len() - 1] == 0 && number[number.len() - 2] < 0x80 {
        number.pop();
    }
    number.insert(0, u8::try_from(number.len()).expect("at most five bytes"));
    number
}

/// Appends a size as transactions and blocks carry it.
pub fn push_size(bytes: &mut Vec<u8>, size: usize) {
    match u32::try_from(size).expect("handmade transactions are small").to_le_bytes() {
        [small @ 0..0xfd, 0, 0, 0] => bytes.push(small),
        [low, high, 0, 0] => bytes.extend([0xfd, low, high]),
        large => {
            bytes.push(0xfe);
            bytes.extend(large);
        }
    }
}

/// The hash of transactions and blocks.
pub fn sha256d(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

fn merkle_root(mut level: Vec<[u8; 32]>) -> [u8; 32] {
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| sha256d(&[pair[0], *pair.last().expect("chunks have items")].concat()))
            .collect();
    }
    level[0]
}

/// Blocks that a test hands out, in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    headers: Vec<Header>,
    raws: BTreeMap<BlockHash, Vec<u8>>,
    next: usize,
}

impl Archive {
    /// Adds a block that arrived.
    pub fn push(&mut self, header: Header, raw: Vec<u8>) {
        self.headers.push(header);
        self.raws.insert(header.hash, raw);
    }

    /// Headers in order of arrival.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Forgets the body of a block, as a source without history would.
    pub fn forget(&mut self, hash: &BlockHash) {
        self.raws.remove(hash);
    }
}

impl BlockSource for Archive {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        let header = self.headers.get(self.next).copied();
        self.next += usize::from(header.is_some());
        Ok(header)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let unknown = || SourceError::UnknownBlock { hash: Network::BitcoinRegtest.hash(*hash) };
        self.raws.get(hash).cloned().ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_chains::decode_block;

    use super::*;

    #[test]
    fn heights_are_written_as_bitcoin_core_writes_numbers() {
        let pairs: [(u32, &[u8]); 6] = [
            (1, &[0x51]),
            (16, &[0x60]),
            (17, &[1, 17]),
            (127, &[1, 127]),
            (128, &[2, 128, 0]),
            (256, &[2, 0, 1]),
        ];
        for (height, script) in pairs {
            assert_eq!(height_script(height), script);
        }
    }

    #[test]
    fn a_handmade_block_decodes_to_what_it_was_made_from() {
        let spent = OutPoint::new(Txid::from_bytes([7; 32]), 3);
        let first = HandTx::new(&[spent], &[5, 6]);
        let second = HandTx::new(&[first.output(1)], &[4]);
        let block =
            mine(&regtest_genesis(), 1, 9, &[(50, ANYONE)], &[first.clone(), second.clone()]);
        let decoded = decode_block(block.raw, Network::BitcoinRegtest).unwrap();
        assert_eq!(decoded.header, block.header);
        let txids: Vec<_> = decoded.txs.iter().map(|tx| tx.txid).collect();
        assert_eq!(txids, [block.coinbase, first.txid(), second.txid()]);
        assert_eq!(decoded.inputs, [spent, first.output(1)]);
        assert_eq!(decoded.outputs.iter().map(|o| o.value).collect::<Vec<_>>(), [50, 5, 6, 4]);
    }
}
