//! The schema of the key-value engine.

use utxokeep_core::{Height, Txid, node::FORMAT};
use utxokeep_kv::{Access, tables};

/// Format this program writes. One of before is upgraded when it is opened: what it lacks is absent,
/// so that no row has to be written anew.
pub const FORMAT_VERSION: u64 = FORMAT;

tables! {
    pub(crate),
    /// Format version and block state, by name.
    META = 0, "tx_meta", Access::Sequential;
    /// Transaction → its mutable part. Small, because every spend rewrites it.
    RECORDS = 1, "tx_records", Access::Point;
    /// Transaction, output index → the output as it stands; outputs of a transaction are neighbours.
    SLOTS = 2, "tx_slots", Access::Point;
    /// Transaction → its body, written once.
    BODIES = 3, "tx_bodies", Access::Point;
    /// Height, transaction: may be deleted from that height on.
    DUE = 4, "tx_due", Access::Sequential;
    /// Height, transaction: not on the longest chain since.
    UNMINED = 5, "tx_unmined", Access::Sequential;
    /// Height, transaction: must be kept until.
    PRESERVED = 6, "tx_preserved", Access::Sequential;
    /// Parent, child: the child spent the parent, was mined, and was deleted.
    DELETED_CHILDREN = 7, "tx_deleted_children", Access::Sequential;
    /// Height, number: transactions that settled at that height, or do not any more.
    SETTLED = 8, "tx_settled", Access::Sequential;
    /// Height, transaction: kept until then at the latest, for a child that waits to be mined.
    KEPT_FOR_CHILD = 9, "tx_kept_for_child", Access::Sequential;
}

/// Key of the rows that are ordered by height.
pub(crate) fn height_key(height: Height, txid: &Txid) -> [u8; 36] {
    let mut key = [0; 36];
    key[..4].copy_from_slice(&height.to_key());
    key[4..].copy_from_slice(txid.as_bytes());
    key
}

/// Inverse of [`height_key`].
pub(crate) fn from_height_key(key: &[u8]) -> Option<(Height, Txid)> {
    let (height, txid) = key.split_at_checked(4)?;
    Some((Height::from_key(height)?, Txid::from_slice(txid)?))
}

/// Key of a marker.
pub(crate) fn child_key(parent: &Txid, child: &Txid) -> [u8; 64] {
    let mut key = [0; 64];
    key[..32].copy_from_slice(parent.as_bytes());
    key[32..].copy_from_slice(child.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_pinned_and_sort_by_height() {
        let txid = Txid::from_bytes([7; 32]);
        let key = height_key(Height::new(258), &txid);
        assert_eq!(key[..5], [0, 0, 1, 2, 7]);
        assert_eq!(from_height_key(&key), Some((Height::new(258), txid)));
        assert_eq!(from_height_key(&key[1..]), None);
        assert!(key < height_key(Height::new(259), &Txid::default()));
        let child = child_key(&txid, &Txid::from_bytes([8; 32]));
        assert_eq!((child[31], child[32]), (7, 8));
    }
}
