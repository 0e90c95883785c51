//! The hashes Cardano uses.

use blake2b_simd::Params;

/// Blake2b-256 of several pieces in a row.
pub(super) fn blake2b_256(pieces: &[&[u8]]) -> [u8; 32] {
    blake2b(pieces)
}

/// Blake2b-224 of several pieces in a row: what credentials and scripts are named by.
pub(super) fn blake2b_224(pieces: &[&[u8]]) -> [u8; 28] {
    blake2b(pieces)
}

fn blake2b<const N: usize>(pieces: &[&[u8]]) -> [u8; N] {
    let mut state = Params::new().hash_length(N).to_state();
    for piece in pieces {
        state.update(piece);
    }
    let mut hash = [0; N];
    hash.copy_from_slice(state.finalize().as_bytes());
    hash
}

/// Root of Byron's Merkle tree over the bytes of transactions. Leaves and nodes are told apart by
/// the byte in front; the left half is the largest full tree that leaves something for the right.
pub(super) fn merkle_root(leaves: &[&[u8]]) -> [u8; 32] {
    match leaves {
        [] => blake2b_256(&[]),
        [leaf] => blake2b_256(&[&[0], leaf]),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            blake2b_256(&[&[1], &merkle_root(left), &merkle_root(right)])
        }
    }
}
