//! The merkle tree over the transactions of a block.

use super::hash::sha256d;

/// Reduces `hashes` to the merkle root, and tells whether two neighbours were equal on the way.
///
/// The tree pairs an odd last node with itself, so repeating the tail of a list can leave the root
/// unchanged. Equal neighbours betray such a list; a genuine block never has them.
pub(crate) fn merkle_root(hashes: &mut Vec<[u8; 32]>) -> ([u8; 32], bool) {
    let mut mutated = false;
    while hashes.len() > 1 {
        let pairs = hashes.len() / 2;
        for i in 0..pairs {
            let (left, right) = (hashes[2 * i], hashes[2 * i + 1]);
            mutated |= left == right;
            hashes[i] = hash_pair(&left, &right);
        }
        let mut kept = pairs;
        if hashes.len() % 2 == 1 {
            let last = hashes[hashes.len() - 1];
            hashes[kept] = hash_pair(&last, &last);
            kept += 1;
        }
        hashes.truncate(kept);
    }
    (hashes.first().copied().unwrap_or_default(), mutated)
}

fn hash_pair(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut joined = [0; 64];
    joined[..32].copy_from_slice(left);
    joined[32..].copy_from_slice(right);
    sha256d(&joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_tail_keeps_the_root_and_is_noticed() {
        let three = vec![[1; 32], [2; 32], [3; 32]];
        let four = vec![[1; 32], [2; 32], [3; 32], [3; 32]];
        let (root, mutated) = merkle_root(&mut three.clone());
        assert!(!mutated);
        assert_eq!(merkle_root(&mut four.clone()), (root, true));
    }

    #[test]
    fn one_transaction_is_its_own_root() {
        assert_eq!(merkle_root(&mut vec![[9; 32]]), ([9; 32], false));
    }
}
