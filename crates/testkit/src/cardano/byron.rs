//! Blocks of Byron.
//!
//! Lists that nodes write with a break at their end are written so here; nodes refuse them otherwise.

use super::{
    BYRON_EPOCH_SLOTS, BlockSpec, OutSpec, TxSpec, blake256,
    cbor::{array, array_indefinite, bytes, embedded, map, tag, text, uint, zeros},
};

const MAINNET_MAGIC: u64 = 764_824_073;

/// The hash a block names as its parent.
pub(super) fn prev(spec: &BlockSpec) -> [u8; 32] {
    spec.prev.unwrap_or_default()
}

/// What is hashed for the id of the block, its header, and the block without the era tag.
pub(super) fn boundary_block(spec: &BlockSpec) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    assert!(spec.txs.is_empty(), "a boundary block has no place for transactions");
    assert_eq!(spec.slot % BYRON_EPOCH_SLOTS, 0, "a boundary block sits on an epoch's first slot");
    let leaders = array_indefinite(&[zeros(28)]);
    let consensus = array(&[uint(spec.slot / BYRON_EPOCH_SLOTS), array(&[uint(spec.number)])]);
    let header = header(spec, bytes(&blake256(&leaders)), consensus, no_attributes());
    let block = array(&[header.clone(), leaders, no_attributes()]);
    (array(&[uint(0), header.clone()]), header, block)
}

/// What is hashed for the id of the block, its header, and the block without the era tag.
pub(super) fn main_block(spec: &BlockSpec) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    assert!(spec.txs.iter().all(|tx| !tx.invalid), "no list of failed transactions before Alonzo");
    let txs: Vec<_> = spec.txs.iter().map(tx).collect();
    let witnesses: Vec<_> = spec.txs.iter().map(|_| witnesses()).collect();
    let payload: Vec<_> = txs
        .iter()
        .zip(&witnesses)
        .map(|(tx, witness)| array(&[tx.clone(), witness.clone()]))
        .collect();
    // No shares of a seed, no delegations, no update proposals or votes.
    let seed = array(&[uint(3), tag(258, &array(&[]))]);
    let delegations = array_indefinite(&[]);
    let updates = array(&[array(&[]), array_indefinite(&[])]);

    let tx_proof = array(&[
        uint(u64::try_from(txs.len()).expect("a length fits 64 bits")),
        hash(&merkle_preimage(&txs)),
        hash(&array_indefinite(&witnesses)),
    ]);
    // The proof of no certificates is the hash of an empty map, although the block holds a set.
    let seed_proof = array(&[uint(3), hash(&map(&[]))]);
    let proof = array(&[tx_proof, seed_proof, hash(&delegations), hash(&updates)]);

    let slot = array(&[uint(spec.slot / BYRON_EPOCH_SLOTS), uint(spec.slot % BYRON_EPOCH_SLOTS)]);
    let delegation = array(&[uint(0), zeros(64), zeros(64), zeros(64)]);
    let signature = array(&[uint(2), array(&[delegation, zeros(64)])]);
    let consensus = array(&[slot, zeros(64), array(&[uint(spec.number)]), signature]);
    let versions = array(&[uint(1), uint(0), uint(0)]);
    let software = array(&[text("cardano-sl"), uint(1)]);
    let extra = array(&[versions, software, map(&[]), hash(&no_attributes())]);

    let header = header(spec, proof, consensus, extra);
    let body = array(&[array_indefinite(&payload), seed, delegations, updates]);
    let block = array(&[header.clone(), body, no_attributes()]);
    (array(&[uint(1), header.clone()]), header, block)
}

fn header(spec: &BlockSpec, proof: Vec<u8>, consensus: Vec<u8>, extra: Vec<u8>) -> Vec<u8> {
    array(&[uint(MAINNET_MAGIC), bytes(&prev(spec)), proof, consensus, extra])
}

fn no_attributes() -> Vec<u8> {
    array(&[map(&[])])
}

fn hash(content: &[u8]) -> Vec<u8> {
    bytes(&blake256(content))
}

fn witnesses() -> Vec<u8> {
    array(&[array(&[uint(0), embedded(&array(&[zeros(64), zeros(64)]))])])
}

/// The part of a transaction that its id is the hash of.
pub(super) fn tx(spec: &TxSpec) -> Vec<u8> {
    let no_place = spec.collateral.is_empty()
        && spec.collateral_return.is_none()
        && spec.total_collateral.is_none()
        && spec.reference_inputs.is_empty()
        && spec.extra.is_empty();
    assert!(no_place, "a Byron transaction has inputs and outputs only");
    let inputs: Vec<_> = spec
        .inputs
        .iter()
        .map(|(txid, index)| array(&[uint(0), embedded(&array(&[bytes(txid), uint(*index)]))]))
        .collect();
    let outputs: Vec<_> = spec.outputs.iter().map(output).collect();
    let salt = [uint(0x80), bytes(&spec.salt.to_be_bytes())].concat();
    let attributes = if spec.salt == 0 { map(&[]) } else { map(&[salt]) };
    array(&[array_indefinite(&inputs), array_indefinite(&outputs), attributes])
}

fn output(out: &OutSpec) -> Vec<u8> {
    let plain = out.assets.is_empty() && out.datum.is_none() && out.script.is_none();
    assert!(plain, "a Byron output has an address and lovelace only");
    array(&[out.address.clone(), uint(out.lovelace)])
}

/// What is hashed for the root of the Merkle tree: a leaf, or the roots of a full left half and of
/// the rest.
fn merkle_preimage(leaves: &[Vec<u8>]) -> Vec<u8> {
    match leaves {
        [] => Vec::new(),
        [leaf] => [&[0], leaf.as_slice()].concat(),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            let root = |half| blake256(&merkle_preimage(half));
            [&[1], root(left).as_slice(), root(right).as_slice()].concat()
        }
    }
}
