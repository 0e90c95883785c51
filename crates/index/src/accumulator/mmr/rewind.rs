//! The tree after an earlier block of the window, in memory.

use utxokeep_core::{
    BlockDelta, Corrupt, Height, MmrDelta, UtxoRecord,
    mmr::{MmrRule, NodeHash, Updated, peaks, update},
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

/// Goes back from the tip to the block at `target` in one step: a leaf that several blocks have
/// touched is hashed once. What comes out is compared with what the block above `target` found.
pub(crate) fn rewind(
    read: &dyn Read,
    rule: MmrRule,
    tip: Height,
    target: Height,
) -> Result<Rewound, IndexError> {
    let state = State::read(read)?;
    let mut rows = Overlay::default();
    let Some(above) = (target < tip).then(|| target.plus(1)) else {
        return Ok(Rewound { leaves: state.leaves, root: state.root, rows });
    };
    let first = read_delta(read, above)?;
    let before = mmr_of(&first)?;
    let mut restored = Vec::new();
    for raw in above.get()..=tip.get() {
        let delta = read_delta(read, Height::new(raw))?;
        let bodies = Bodies::gather_spent(read, &delta)?;
        restored_leaves(rule, read, &delta, mmr_of(&delta)?, &bodies, &mut restored)?;
    }
    // What was created since is not there any more, spent or not.
    restored.retain(|(leaf, _)| *leaf < before.leaves_before);
    restored.sort_unstable_by_key(|(leaf, _)| *leaf);
    let sizes = (state.leaves, before.leaves_before);
    let Updated { rows: changed, .. } = update(rule, &rows.over(read), sizes, &restored)?;
    rows.put(changed);
    if peaks(rule, &rows.over(read), before.leaves_before)? != before.peaks_before {
        let detail = format!("going back to height {target} does not give the peaks it had");
        return Err(Corrupt::new("mmr", detail).into());
    }
    let root = rule.root(before.leaves_before, &before.peaks_before);
    Ok(Rewound { leaves: before.leaves_before, root, rows })
}

/// Appends the leaves that a block made tombstones, with the hashes they had.
pub(super) fn restored_leaves(
    rule: MmrRule,
    read: &dyn Read,
    delta: &BlockDelta,
    mmr: &MmrDelta,
    bodies: &Bodies,
    restored: &mut Vec<(u64, Option<NodeHash>)>,
) -> Result<(), IndexError> {
    let mut room = Vec::new();
    let mut leaves = mmr.deletes.iter();
    let wrong = || Corrupt::new("block delta", "it lists other leaves than outputs");
    for (outpoint, bytes) in bodies.left_the_set(delta) {
        let leaf = leaves.next().ok_or_else(wrong)?;
        let record = UtxoRecord::decode(bytes)?;
        restored.push((*leaf, Some(leaf_hash(rule, read, outpoint, &record, &mut room)?)));
    }
    if leaves.next().is_some() {
        return Err(wrong().into());
    }
    Ok(())
}
