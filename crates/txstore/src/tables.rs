//! The schema of the key-value engine.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{FORMAT, NodeTx, OutputRecord, TxRecord},
};
use utxokeep_kv::{Access, tables};

use crate::kv::SettledRow;

/// Format this program writes. One of before is upgraded when it is opened: what it lacks is absent,
/// so that no row has to be written anew.
pub const FORMAT_VERSION: u64 = FORMAT;

tables! {
    pub(crate),
    /// Format version and block state, by name.
    META = 0, "tx_meta": [u8] => [u8], Access::Sequential;
    /// Transaction → its mutable part. Small, because every spend rewrites it.
    RECORDS = 1, "tx_records": Txid => TxRecord, Access::Point;
    /// Transaction, output index → the output as it stands; outputs of a transaction are neighbours.
    SLOTS = 2, "tx_slots": OutPoint => OutputRecord, Access::Point;
    /// Transaction → its body, written once.
    BODIES = 3, "tx_bodies": Txid => NodeTx, Access::Point;
    /// Height, transaction: may be deleted from that height on.
    DUE = 4, "tx_due": (Height, Txid) => (), Access::Sequential;
    /// Height, transaction: not on the longest chain since.
    UNMINED = 5, "tx_unmined": (Height, Txid) => (), Access::Sequential;
    /// Height, transaction: must be kept until.
    PRESERVED = 6, "tx_preserved": (Height, Txid) => (), Access::Sequential;
    /// Parent, child: the child spent the parent, was mined, and was deleted.
    DELETED_CHILDREN = 7, "tx_deleted_children": (Txid, Txid) => (), Access::Sequential;
    /// Height, number: transactions that settled at that height, or do not any more.
    SETTLED = 8, "tx_settled": (Height, u64) => SettledRow, Access::Sequential;
    /// Height, transaction: kept until then at the latest, for a child that waits to be mined.
    KEPT_FOR_CHILD = 9, "tx_kept_for_child": (Height, Txid) => (), Access::Sequential;
}

#[cfg(test)]
mod tests {
    use utxokeep_core::StoredKey as _;

    use super::*;

    #[test]
    fn keys_are_pinned_and_sort_by_height() {
        let txid = Txid::from_bytes([7; 32]);
        let key = (Height::new(258), txid).key_bytes();
        assert_eq!(key[..5], [0, 0, 1, 2, 7]);
        assert_eq!(<(Height, Txid)>::read_key(&key), Some((Height::new(258), txid)));
        assert_eq!(<(Height, Txid)>::read_key(&key[1..]), None);
        assert!(key < (Height::new(259), Txid::default()).key_bytes());
        let child = (txid, Txid::from_bytes([8; 32])).key_bytes();
        assert_eq!((child[31], child[32]), (7, 8));
    }
}
