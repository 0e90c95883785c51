//! What the node store knows of a transaction besides its body and its outputs.

use super::blob::BlobKind;
use crate::types::{Height, Txid};

/// A block that contains a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinedBlock {
    /// Number the node gave the block.
    pub id: u32,
    /// Its height.
    pub height: Height,
    /// Subtree of the block that names the transaction.
    pub subtree: u32,
}

/// An output that was given to another owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// Which output.
    pub vout: u32,
    /// Commitment before.
    pub old: [u8; 32],
    /// Commitment since.
    pub new: [u8; 32],
    /// Locking script since.
    pub script: Vec<u8>,
    /// Height at which it happened.
    pub height: Height,
}

/// The numbers that rules depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Blocks a record that could be dropped is kept; 0 keeps everything for ever.
    pub retention_blocks: u32,
    /// Blocks a coinbase must wait before it may be spent.
    pub coinbase_maturity: u32,
    /// How far back an unmined mark is dated when a transaction leaves the longest chain.
    pub unmined_retention_blocks: u32,
    /// Most transactions that following a conflict may touch.
    pub conflict_walk_max: usize,
    /// How far one report alone may move the height of the chain.
    pub height_jump_blocks_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retention_blocks: 288,
            coinbase_maturity: 100,
            unmined_retention_blocks: 144,
            conflict_walk_max: 100_000,
            height_jump_blocks_max: 144,
        }
    }
}

/// The mutable part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct TxRecord {
    /// Creates new coins.
    pub is_coinbase: bool,
    /// Lost against another transaction that spends the same output.
    pub is_conflicting: bool,
    /// Not spendable until it is unlocked.
    pub is_locked: bool,
    /// First height at which its outputs may be spent.
    pub spendable_at: Option<Height>,
    /// How many outputs it has, those that nobody can spend included.
    pub outputs: u32,
    /// How many of them can be spent; one more for each that was reassigned, so that such a record
    /// is never taken for spent.
    pub utxos: u32,
    /// How many are spent.
    pub spent: u32,
    /// Height of the newest spend, while any output is spent. Nothing else remembers it while the
    /// record is off the longest chain or kept.
    pub spent_at: Option<Height>,
    /// Blocks that contain it, in order of arrival.
    pub blocks: Vec<MinedBlock>,
    /// Height since which it is not on the longest chain; absent while it is.
    pub unmined_since: Option<Height>,
    /// When it was created, in milliseconds, as the caller says.
    pub created_at_ms: u64,
    /// Height at which it may be deleted.
    pub delete_at: Option<Height>,
    /// Height until which it must be kept whatever else holds.
    pub preserve_until: Option<Height>,
    /// Height until which the pruner keeps it because a transaction that spends it waited to be
    /// mined. Ends before that when none waits any more; what others asked for does not.
    pub kept_for_child_until: Option<Height>,
    /// Transactions that conflict while spending this one, each once.
    pub conflicting_children: Vec<Txid>,
    /// Outputs that changed hands by order.
    pub reassignments: Vec<Reassignment>,
    /// How many of its children were mined and deleted; each has left a marker.
    pub deleted_children: u32,
    /// Its body is in a file of this kind; else it is beside the record.
    pub blob: Option<BlobKind>,
    /// Checksum of that file; absent for one that was written before there were any.
    pub file_checksum: Option<u32>,
    /// Its outputs are in several records, and it is not sure yet that all of them are there: none of
    /// them can be spent. Only engines whose records are atomic one at a time set it.
    pub is_creating: bool,
}

impl TxRecord {
    /// Whether nothing is known of the transaction but that another caller is creating it. Every
    /// transaction that is stored has outputs.
    #[must_use]
    pub const fn is_announced(&self) -> bool {
        self.is_creating && self.outputs == 0
    }

    /// Whether every output that can be spent is.
    #[must_use]
    pub const fn is_all_spent(&self) -> bool {
        self.spent >= self.utxos
    }

    /// Counts outputs that were spent at a height.
    pub fn add_spends(&mut self, count: u32, at: Height) {
        if count > 0 {
            self.spent += count;
            self.spent_at = self.spent_at.max(Some(at));
        }
    }

    /// Counts outputs whose spends were taken back.
    pub fn take_spends_back(&mut self, count: u32) {
        self.spent = self.spent.saturating_sub(count);
        self.spent_at = self.spent_at.filter(|_| self.spent > 0);
    }

    /// Whether the record is on the longest chain.
    #[must_use]
    pub fn is_mined(&self) -> bool {
        !self.blocks.is_empty() && self.unmined_since.is_none()
    }

    /// The greatest height at which it is in a block, if it is on the longest chain and has not
    /// lost a conflict: the one fact that lets its parents go, once that height is deep enough.
    #[must_use]
    pub fn settled_height(&self) -> Option<Height> {
        if self.is_conflicting || self.unmined_since.is_some() {
            return None;
        }
        self.blocks.iter().map(|block| block.height).max()
    }

    /// Height until which something keeps it, whatever else holds.
    #[must_use]
    pub fn kept_until(&self) -> Option<Height> {
        self.preserve_until.max(self.kept_for_child_until)
    }

    /// Whether it says that it lost a conflict and that it is on the longest chain.
    #[must_use]
    pub fn contradicts_itself(&self) -> bool {
        self.is_conflicting && self.is_mined()
    }

    /// Whether it lost a conflict and no block of the longest chain says otherwise. Only such a
    /// record holds none of its inputs, and needs none of its parents.
    #[must_use]
    pub fn is_loser(&self) -> bool {
        self.is_conflicting && !self.is_mined()
    }

    /// Whether nothing in the record itself speaks against dropping it once it is old enough.
    #[must_use]
    pub fn is_droppable(&self) -> bool {
        // Whether a conflict was lost or a block won, a record cannot be both: doubt keeps.
        let is_over = if self.is_conflicting {
            self.is_loser()
        } else {
            self.is_all_spent() && self.is_mined()
        };
        !self.is_locked && is_over
    }

    /// Sets, raises or clears the height at which the record may be deleted. Nothing else does.
    ///
    /// `at` is the height of the event: of the spending block, of the block that mined it, or of
    /// the pruner. The retention counts from the newest of that event, the newest spend and the
    /// newest block: an event can be told late, and others can have come while nothing was due.
    pub fn evaluate(&mut self, at: Height, retention_blocks: u32) {
        if retention_blocks == 0 || self.kept_until().is_some() {
            return;
        }
        if !self.is_droppable() {
            self.delete_at = None;
        } else if self.is_conflicting {
            self.delete_at.get_or_insert(at.plus(retention_blocks));
        } else {
            let newest = self.settled_height().max(self.spent_at).unwrap_or(at).max(at);
            // Forward only: a later event never brings a deletion nearer.
            self.delete_at = self.delete_at.max(Some(newest.plus(retention_blocks)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TxRecord {
        TxRecord {
            is_coinbase: false,
            is_conflicting: false,
            is_locked: false,
            spendable_at: None,
            outputs: 2,
            utxos: 2,
            spent: 2,
            spent_at: None,
            blocks: vec![MinedBlock { id: 1, height: Height::new(10), subtree: 0 }],
            unmined_since: None,
            created_at_ms: 0,
            delete_at: None,
            preserve_until: None,
            kept_for_child_until: None,
            conflicting_children: Vec::new(),
            reassignments: Vec::new(),
            deleted_children: 0,
            blob: None,
            file_checksum: None,
            is_creating: false,
        }
    }

    fn evaluated(change: impl FnOnce(&mut TxRecord)) -> Option<u32> {
        let mut record = record();
        change(&mut record);
        record.evaluate(Height::new(100), 288);
        record.delete_at.map(Height::get)
    }

    #[test]
    fn only_what_is_safe_to_drop_gets_a_height() {
        assert_eq!(evaluated(|_| {}), Some(388));
        assert_eq!(evaluated(|record| record.spent = 1), None);
        assert_eq!(evaluated(|record| record.blocks.clear()), None);
        assert_eq!(evaluated(|record| record.unmined_since = Some(Height::new(5))), None);
        assert_eq!(evaluated(|record| record.is_locked = true), None);
        assert_eq!(evaluated(|record| record.preserve_until = Some(Height::new(1))), None);
        assert_eq!(evaluated(|record| record.kept_for_child_until = Some(Height::new(1))), None);
        assert_eq!(evaluated(|r| (r.is_conflicting, r.spent) = (true, 0)), None, "it is mined");
        let lose = |record: &mut TxRecord| {
            (record.is_conflicting, record.spent) = (true, 0);
            record.blocks.clear();
        };
        assert_eq!(evaluated(lose), Some(388));
    }

    #[test]
    fn the_retention_counts_from_the_newest_spend_and_block_whenever_an_event_is_told() {
        let at = |height| Some(Height::new(height));
        assert_eq!(evaluated(|record| record.spent_at = at(120)), Some(408));
        assert_eq!(evaluated(|record| record.spent_at = at(99)), Some(388));
        assert_eq!(evaluated(|record| record.blocks[0].height = Height::new(130)), Some(418));
        let mut spent = record();
        spent.add_spends(0, Height::new(7));
        assert_eq!(spent.spent_at, None, "nothing new was spent");
        spent.take_spends_back(1);
        spent.add_spends(1, Height::new(9));
        spent.add_spends(1, Height::new(8));
        assert_eq!((spent.spent, spent.spent_at), (3, at(9)));
        spent.take_spends_back(3);
        assert_eq!((spent.spent, spent.spent_at), (0, None));
    }

    #[test]
    fn a_record_is_settled_at_its_greatest_height_while_nothing_speaks_against_it() {
        let settled = |change: fn(&mut TxRecord)| {
            let mut record = record();
            change(&mut record);
            record.settled_height().map(Height::get)
        };
        let block = |id, height| MinedBlock { id, height: Height::new(height), subtree: 0 };
        assert_eq!(settled(|_| {}), Some(10));
        assert_eq!(settled(|record| record.blocks.clear()), None);
        assert_eq!(settled(|record| record.unmined_since = Some(Height::new(5))), None);
        assert_eq!(settled(|record| record.is_conflicting = true), None);
        let mut twice = record();
        twice.blocks = vec![block(1, 12), block(2, 11)];
        assert_eq!(twice.settled_height(), Some(Height::new(12)), "a reorganisation listed both");
    }

    #[test]
    fn heights_move_forward_or_go() {
        let at = |height| Some(Height::new(height));
        assert_eq!(evaluated(|record| record.delete_at = at(1_000)), Some(1_000));
        assert_eq!(evaluated(|record| record.delete_at = at(50)), Some(388));
        assert_eq!(evaluated(|r| (r.delete_at, r.spent) = (at(50), 0)), None);
        let lose = |record: &mut TxRecord| {
            (record.delete_at, record.is_conflicting) = (at(50), true);
            record.blocks.clear();
        };
        assert_eq!(evaluated(lose), Some(50));
        let mut kept = record();
        kept.evaluate(Height::new(100), 0);
        assert_eq!(kept.delete_at, None, "no retention keeps for ever");
    }
}
