//! Puts a block together and finds its nonce.

use utxokeep_core::{BlockHash, Header, Height, Txid};

use super::tx::{Payment, SimTx, coinbase, push_size};
use crate::bitcoin::{HEADER_LEN, decode_header, merkle_root, sha256d_parts};

const VERSION: [u8; 4] = [0, 0, 0, 0x20];
/// The easiest target there is: every second hash meets it.
const BITS: [u8; 4] = 0x207f_ffff_u32.to_le_bytes();
const COMMITMENT_PREFIX: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// What a block is made from, besides its transactions.
pub(super) struct Plan {
    pub(super) prev: BlockHash,
    pub(super) time: u32,
    pub(super) height: Height,
    pub(super) extra_nonce: u64,
    /// Outputs of the coinbase; the commitment to the witnesses is added.
    pub(super) rewards: Vec<Payment>,
}

/// A block with a valid merkle root, witness commitment and proof of work.
pub(super) struct Assembled {
    pub(super) header: Header,
    pub(super) raw: Vec<u8>,
    pub(super) coinbase_txid: Txid,
    /// Index and value of each coinbase output that can be spent.
    pub(super) coinbase_outputs: Vec<(u32, u64)>,
}

pub(super) fn assemble(mut plan: Plan, txs: &[SimTx]) -> Assembled {
    plan.rewards.push((0, witness_commitment(txs)));
    let (coinbase_bytes, coinbase_txid, coinbase_outputs) =
        coinbase(plan.height, plan.extra_nonce, &plan.rewards);
    let mut hashes = Vec::with_capacity(txs.len() + 1);
    hashes.push(*coinbase_txid.as_bytes());
    hashes.extend(txs.iter().map(|tx| *tx.txid.as_bytes()));
    let (root, _) = merkle_root(&mut hashes);

    let body_len: usize = txs.iter().map(|tx| tx.bytes.len()).sum();
    let mut raw = Vec::with_capacity(HEADER_LEN + 5 + coinbase_bytes.len() + body_len);
    raw.extend_from_slice(&VERSION);
    raw.extend_from_slice(plan.prev.as_bytes());
    raw.extend_from_slice(&root);
    raw.extend_from_slice(&plan.time.to_le_bytes());
    raw.extend_from_slice(&BITS);
    raw.extend_from_slice(&[0; 4]);
    let header = grind(&mut raw);
    push_size(&mut raw, txs.len() + 1);
    raw.extend_from_slice(&coinbase_bytes);
    for tx in txs {
        raw.extend_from_slice(&tx.bytes);
    }
    Assembled { header, raw, coinbase_txid, coinbase_outputs }
}

/// The output script that commits to the witnesses of all transactions.
fn witness_commitment(txs: &[SimTx]) -> Vec<u8> {
    let mut hashes = Vec::with_capacity(txs.len() + 1);
    hashes.push([0; 32]);
    hashes.extend(txs.iter().map(|tx| tx.witness_hash));
    let (root, _) = merkle_root(&mut hashes);
    let mut script = COMMITMENT_PREFIX.to_vec();
    script.extend_from_slice(&sha256d_parts(&[&root, &[0; 32]]));
    script
}

/// Tries nonces until the header meets its target.
fn grind(raw: &mut [u8]) -> Header {
    (0u32..)
        .find_map(|nonce| {
            raw[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&nonce.to_le_bytes());
            decode_header(raw).ok()
        })
        .expect("every second nonce meets the easiest target")
}
