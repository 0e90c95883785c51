//! Checking a proof of one leaf of a Utreexo forest against the roots of the forest.

use super::{MmrRefusal, MmrRule, NodeHash, UtreexoProof};

/// Positions are those of a forest of 63 rows above the lowest.
const ROWS: u32 = 63;

/// Checks that the leaf of this hash leads to its root among `roots`, one for each bit of `leaves`,
/// the highest first.
pub fn check_utreexo_proof(
    leaves: u64,
    roots: &[NodeHash],
    leaf_hash: NodeHash,
    proof: &UtreexoProof,
) -> Result<(), MmrRefusal> {
    if roots.len() != leaves.count_ones() as usize {
        return Err(MmrRefusal::WrongRoot);
    }
    let elsewhere = MmrRefusal::NoSuchLeaf { leaf: proof.target, leaves };
    // The row of a position is the number of ones that it starts with.
    let first_row = proof.target.leading_ones();
    let last_row = first_row as usize + proof.hashes.len();
    if last_row > ROWS as usize {
        return Err(elsewhere);
    }
    let mut number =
        if first_row == 0 { proof.target } else { proof.target << first_row >> first_row };
    let mut hash = leaf_hash;
    for other in &proof.hashes {
        let (left, right) = if number & 1 == 0 { (hash, *other) } else { (*other, hash) };
        hash = MmrRule::Utreexo.combine(0, Some(left), Some(right)).ok_or(MmrRefusal::WrongRoot)?;
        number >>= 1;
    }
    // Where the way ends there must be a root: that of the mountain which this bit of the number of
    // leaves stands for.
    let above = leaves.checked_shr(u32::try_from(last_row + 1).unwrap_or(u32::MAX)).unwrap_or(0);
    let is_root = leaves >> last_row & 1 == 1 && number == above << 1;
    if !is_root {
        return Err(elsewhere);
    }
    let root = roots.get(above.count_ones() as usize).ok_or(MmrRefusal::WrongRoot)?;
    if hash == *root { Ok(()) } else { Err(MmrRefusal::WrongRoot) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(number: u8) -> NodeHash {
        [number; 32]
    }

    fn node(left: NodeHash, right: NodeHash) -> NodeHash {
        MmrRule::Utreexo.combine(0, Some(left), Some(right)).unwrap()
    }

    /// Three leaves, of which the first is spent: its sibling stands for their parent.
    #[test]
    fn a_leaf_leads_to_its_own_root_from_its_own_place_only() {
        let (one, two) = (leaf(1), leaf(2));
        let row_1 = 1 << 63;
        let moved = UtreexoProof { target: row_1, hashes: vec![] };
        assert_eq!(check_utreexo_proof(3, &[one, two], one, &moved), Ok(()));
        let last = UtreexoProof { target: 2, hashes: vec![] };
        assert_eq!(check_utreexo_proof(3, &[one, two], two, &last), Ok(()));
        // The same hash elsewhere, another hash there, another number of leaves or roots.
        for (leaves, roots, hash, target) in [
            (3, vec![one, two], one, 2),
            (3, vec![one, two], one, 0),
            (3, vec![one, two], one, row_1 + 1),
            (3, vec![one, two], two, row_1),
            (4, vec![one], one, row_1),
            (3, vec![one], one, row_1),
            (3, vec![one, two], one, u64::MAX),
        ] {
            let proof = UtreexoProof { target, hashes: vec![] };
            assert!(check_utreexo_proof(leaves, &roots, hash, &proof).is_err(), "{target}");
        }
    }

    #[test]
    fn no_hash_of_a_path_can_be_changed_added_or_left_out() {
        let leaves: Vec<_> = (0..8).map(leaf).collect();
        let row_1: Vec<_> = leaves.chunks(2).map(|pair| node(pair[0], pair[1])).collect();
        let row_2 = [node(row_1[0], row_1[1]), node(row_1[2], row_1[3])];
        let roots = [node(row_2[0], row_2[1])];
        let good = UtreexoProof { target: 5, hashes: vec![leaves[4], row_1[3], row_2[0]] };
        assert_eq!(check_utreexo_proof(8, &roots, leaves[5], &good), Ok(()));
        for at in 0..3 {
            let mut bad = good.clone();
            bad.hashes[at][0] ^= 1;
            assert!(check_utreexo_proof(8, &roots, leaves[5], &bad).is_err());
            let mut short = good.clone();
            short.hashes.remove(at);
            assert!(check_utreexo_proof(8, &roots, leaves[5], &short).is_err());
        }
        let mut long = good.clone();
        long.hashes.push([0; 32]);
        assert!(check_utreexo_proof(8, &roots, leaves[5], &long).is_err());
        long.hashes.resize(100, [0; 32]);
        assert!(check_utreexo_proof(8, &roots, leaves[5], &long).is_err());
        for target in (0..8).filter(|target| *target != 5) {
            let other = UtreexoProof { target, ..good.clone() };
            assert!(check_utreexo_proof(8, &roots, leaves[5], &other).is_err(), "{target}");
        }
    }
}
