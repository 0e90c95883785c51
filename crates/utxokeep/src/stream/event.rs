//! Events of the change stream, before a face shows them.

use utxokeep_core::{
    Change, ChangeKind, ChangePart, Corrupt, Direction, Height, OutPoint, StreamCursor, Txid,
    mmr::NodeHash,
};
use utxokeep_index::{LoggedBlock, OutputDetails};

/// An output that a block created, spent or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedOutput {
    /// Which output.
    pub outpoint: OutPoint,
    /// Address bytes; on Bitcoin the output script.
    pub address: Vec<u8>,
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Native assets, datum and script, on chains that have them.
    pub details: OutputDetails,
    /// Height of the block that created it.
    pub height: Height,
    /// Position of its transaction in that block.
    pub tx_index: u32,
    /// Created by a coinbase.
    pub is_coinbase: bool,
    /// The spending transaction, of a spent output; `None` where the ledger itself removed it.
    pub spent_by: Option<Txid>,
}

impl ChangedOutput {
    fn new(change: &Change<'_>) -> Result<Self, Corrupt> {
        let record = &change.record;
        Ok(Self {
            outpoint: change.outpoint,
            address: record.address.to_vec(),
            value: record.value,
            details: OutputDetails::new(&record.details)?,
            height: record.height,
            tx_index: record.tx_index,
            is_coinbase: record.is_coinbase,
            spent_by: change.spent_by.filter(|txid| *txid != Txid::default()),
        })
    }
}

/// The Merkle mountain range after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmrAfter {
    /// Leaves, spent ones included.
    pub leaves: u64,
    /// The root.
    pub root: NodeHash,
}

/// A block, or a part of a large one, that joined the chain or left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChanges {
    /// Where a reader stands that has carried this out.
    pub cursor: StreamCursor,
    /// Whether the block joined or left.
    pub direction: Direction,
    /// The block.
    pub block: LoggedBlock,
    /// Place of the first change of this part among all changes of the block.
    pub first: usize,
    /// How many changes the part covers, those that are not watched included.
    pub covers: usize,
    /// Whether the block is done with it.
    pub is_last: bool,
    /// The Merkle mountain range where a reader stands then, of a part that is the last of its block.
    /// `None` where no range is kept, and where the block below an undone one has left the chain too.
    pub mmr: Option<MmrAfter>,
    /// Outputs that a repeated transaction replaced. Like the other lists it is in the order in which a
    /// reader carries it out.
    pub replaced: Vec<ChangedOutput>,
    /// Outputs that the block created.
    pub created: Vec<ChangedOutput>,
    /// Outputs that the block spent.
    pub spent: Vec<ChangedOutput>,
}

impl BlockChanges {
    pub(super) fn new(
        cursor: StreamCursor,
        direction: Direction,
        block: LoggedBlock,
        part: &ChangePart<'_>,
        mmr: Option<MmrAfter>,
    ) -> Result<Self, Corrupt> {
        let of = |kind: ChangeKind| -> Result<Vec<_>, Corrupt> {
            let changes = part.changes.iter().filter(|change| change.kind == kind);
            changes.map(ChangedOutput::new).collect()
        };
        Ok(Self {
            cursor,
            direction,
            block,
            first: part.places.start,
            covers: part.places.len(),
            is_last: part.is_last,
            mmr,
            replaced: of(ChangeKind::Replaced)?,
            created: of(ChangeKind::Created)?,
            spent: of(ChangeKind::Spent)?,
        })
    }
}
