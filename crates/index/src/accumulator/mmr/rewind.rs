//! The tree after an earlier block of the window, in memory.

use utxokeep_core::{
    BlockDelta, Corrupt, Height, MmrDelta, UtxoRecord,
    mmr::{MmrRule, NodeHash, path_rows, peaks, update_rows},
};
use utxokeep_kv::Read;

use super::{Overlay, RowsOf, State, leaf_hash};
use crate::{
    error::IndexError,
    rollback::{Bodies, read_delta},
};

/// The tree after an earlier block.
#[derive(Debug)]
pub(crate) struct Rewound {
    /// Leaves after that block.
    pub(crate) leaves: u64,
    /// The root after that block.
    pub(crate) root: NodeHash,
    rows: Overlay,
}

impl Rewound {
    /// The rows of the tree.
    pub(crate) fn rows<'a>(&'a self, read: &'a dyn Read) -> RowsOf<'a> {
        self.rows.over(read)
    }
}

/// What a delta says of the tree.
pub(crate) fn mmr_of(delta: &BlockDelta) -> Result<&MmrDelta, Corrupt> {
    let missing = || Corrupt::new("block delta", "the leaves of the block are not in it");
    delta.mmr.as_ref().ok_or_else(missing)
}

/// The change that an earlier block undoes: leaves that were live after it, with their hashes, and
/// what the tree was then.
struct Change {
    restored: Vec<(u64, Option<NodeHash>)>,
    sizes: (u64, u64),
    peaks: Vec<NodeHash>,
}

impl Change {
    /// From the tip to the block at `target`, in one step: a leaf that several blocks have touched
    /// is hashed once.
    fn gather(
        read: &dyn Read,
        rule: MmrRule,
        state: &State,
        (tip, target): (Height, Height),
    ) -> Result<Self, IndexError> {
        let mut restored = Vec::new();
        let (mut before, mut after) = (None, None);
        for raw in target.get() + 1..=tip.get() {
            let delta = read_delta(read, Height::new(raw))?;
            let bodies = Bodies::gather_spent(read, &delta)?;
            let mmr = mmr_of(&delta)?;
            if after.is_some_and(|after| after != mmr.leaves_before) {
                return Err(not_of_this_tree().into());
            }
            after = Some(mmr.leaves_before + mmr.inserts);
            // What was created since is not there any more, spent or not.
            let leaves = before.get_or_insert((mmr.leaves_before, mmr.peaks_before.clone())).0;
            restored_leaves(rule, read, &delta, &bodies, leaves, &mut restored)?;
        }
        if after.is_some_and(|after| after != state.leaves) {
            return Err(not_of_this_tree().into());
        }
        restored.sort_unstable_by_key(|(leaf, _)| *leaf);
        let (leaves, peaks) = before.unwrap_or((state.leaves, Vec::new()));
        Ok(Self { restored, sizes: (state.leaves, leaves), peaks })
    }
}

fn not_of_this_tree() -> Corrupt {
    Corrupt::new("block delta", "its leaves do not follow those of the block before")
}

/// Goes back from the tip to the block at `target`, for the way of one leaf: the rows beside that
/// way are the only ones that stay in memory. What comes out is compared with what the block above
/// `target` found.
pub(crate) fn rewind(
    read: &dyn Read,
    rule: MmrRule,
    (tip, target): (Height, Height),
    leaf: u64,
) -> Result<Rewound, IndexError> {
    let state = State::read(read)?;
    let mut rows = Overlay::default();
    if target >= tip {
        return Ok(Rewound { leaves: state.leaves, root: state.root, rows });
    }
    let Change { restored, sizes, peaks: expected } =
        Change::gather(read, rule, &state, (tip, target))?;
    let leaves = sizes.1;
    let mut kept = Vec::new();
    let wanted = path_rows(leaves, leaf);
    update_rows(rule, &rows.over(read), sizes, &restored, |key, _, row| {
        if wanted.binary_search(&key).is_ok() {
            kept.push((key, *row));
        }
    })?;
    rows.put(&kept);
    if peaks(rule, &rows.over(read), leaves)? != expected {
        let detail = format!("going back to height {target} does not give the peaks it had");
        return Err(Corrupt::new("mmr", detail).into());
    }
    let root = rule.root(leaves, &expected);
    Ok(Rewound { leaves, root, rows })
}

/// Appends the leaves that a block made tombstones and that are below `leaves`, with the hashes they
/// had.
pub(super) fn restored_leaves(
    rule: MmrRule,
    read: &dyn Read,
    delta: &BlockDelta,
    bodies: &Bodies,
    leaves: u64,
    restored: &mut Vec<(u64, Option<NodeHash>)>,
) -> Result<(), IndexError> {
    let mut room = Vec::new();
    let mut deletes = mmr_of(delta)?.deletes.iter();
    let wrong = || Corrupt::new("block delta", "it lists other leaves than outputs");
    let kept = if rule.spends_replaced() { 0 } else { delta.replaced.len() };
    for (outpoint, bytes) in bodies.left_the_set(delta).skip(kept) {
        let leaf = deletes.next().ok_or_else(wrong)?;
        if *leaf < leaves {
            let record = UtxoRecord::decode(bytes)?;
            restored.push((*leaf, Some(leaf_hash(rule, read, outpoint, &record, &mut room)?)));
        }
    }
    if deletes.next().is_some() {
        return Err(wrong().into());
    }
    Ok(())
}
