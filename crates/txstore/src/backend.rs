//! What an engine has to be able to do. Everything else is [`crate::NodeStore`], once for all.

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{Changes, NodeTx, Slot, TxRecord},
};

use utxokeep_kv::{OpenMode, Trouble};

use crate::{agreed::AGREED, error::StoreError, kv::ProofFault};

/// The transactions that a call changes.
#[derive(Debug, Clone)]
pub enum Touched {
    /// These, and no others.
    Only(Vec<Txid>),
    /// It shows on the way.
    Unknown,
}

/// Records that are found by a height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeightIndex {
    /// They may be deleted from it on.
    Due,
    /// They are off the longest chain since.
    Unmined,
    /// They must be kept until.
    Preserved,
    /// They are kept until then at the latest, for a child that waits to be mined.
    KeptForChild,
}

impl HeightIndex {
    /// Every index.
    pub const ALL: [Self; 4] = [Self::Due, Self::Unmined, Self::Preserved, Self::KeptForChild];

    /// The height under which a record is found.
    #[must_use]
    pub const fn of(self, record: &TxRecord) -> Option<Height> {
        match self {
            Self::Due => record.delete_at,
            Self::Unmined => record.unmined_since,
            Self::Preserved => record.preserve_until,
            Self::KeptForChild => record.kept_for_child_until,
        }
    }
}

/// A page of outputs; one that does not decode says so.
pub type SlotPage = Vec<(OutPoint, Result<Slot, Corrupt>)>;

/// One state of a store. Inside a write nobody else changes a transaction whose record was read,
/// until the write is done; its outputs are read after its record.
pub trait View {
    /// Records, in the order they were asked for.
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError>;

    /// Outputs that can be spent; `None` for every other.
    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, StoreError>;

    /// Every output that can be spent of transactions with so many outputs, in order.
    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, Slot)>>, StoreError>;

    /// Greatest recorded height of those of the transactions that are known to be settled at a
    /// height up to `until`, and stay so until the write is done. `None` says nothing.
    fn settled(&self, txids: &[Txid], until: Height) -> Result<Vec<Option<Height>>, StoreError>;

    /// Bodies that are beside their records.
    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError>;

    /// What bodies beside their records spend. An engine that need not unpack all of a body for it
    /// overrides it.
    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, StoreError> {
        let spends = |body: NodeTx| body.spends().map(|input| input.outpoint).collect();
        Ok(self.bodies(txids)?.into_iter().map(|body| body.map(spends)).collect())
    }

    /// Whether `child` spent `parent`, was mined, and was deleted since.
    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError>;

    /// Rows of an index up to a height, lowest first, behind `after`.
    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError>;

    /// Whether an index has a transaction at a height.
    fn is_indexed(
        &self,
        index: HeightIndex,
        height: Height,
        txid: &Txid,
    ) -> Result<bool, StoreError>;

    /// Transactions in the order of their ids, behind `after`.
    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError>;

    /// Outputs in order, behind `after`.
    fn slots_after(&self, after: Option<&OutPoint>, limit: usize) -> Result<SlotPage, StoreError>;

    /// A value of the store as a whole.
    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The same; inside a write it stays as it is until the write is done, and others may do the same
    /// with it meanwhile.
    fn state_kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Such values whose names start with `prefix`, in order, behind `after`, at most `limit`.
    fn states(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
}

/// What a call writes, as one commit.
#[derive(Debug, Default)]
pub struct Writes {
    /// Records before and after.
    pub records: Vec<(Txid, Option<TxRecord>, Option<TxRecord>)>,
    /// Outputs; `None` deletes.
    pub slots: Vec<(OutPoint, Option<Slot>)>,
    /// Bodies to keep beside their records; `None` deletes.
    pub bodies: Vec<(Txid, Option<NodeTx>)>,
    /// Markers of deleted children to write: parent, child.
    pub markers: Vec<(Txid, Txid)>,
    /// Markers to take away.
    pub unmarked: Vec<(Txid, Txid)>,
    /// Values of the store as a whole; `None` deletes.
    pub states: Vec<(String, Option<Vec<u8>>)>,
    /// Whatever is deleted was proven to be settled, and leaves markers: who relied on that may go
    /// on doing so.
    pub is_pruning: bool,
}

impl Writes {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.slots.is_empty()
            && self.bodies.is_empty()
            && self.markers.is_empty()
            && self.unmarked.is_empty()
            && self.states.is_empty()
    }

    /// Whether numbers change that every program over the store has in common.
    #[must_use]
    pub fn changes_agreed(&self) -> bool {
        self.states.iter().any(|(name, _)| name.starts_with(AGREED))
    }

    /// Whether a record is no longer settled at the height it was, and nothing proves that it was.
    #[must_use]
    pub fn unsettles(&self) -> bool {
        let settled = |record: &Option<TxRecord>| record.as_ref()?.settled_height();
        let mut changed = self.records.iter();
        let unsettled = |(_, before, now): &(Txid, Option<TxRecord>, Option<TxRecord>)| {
            settled(before).is_some_and(|height| settled(now) != Some(height))
        };
        !self.is_pruning && changed.any(unsettled)
    }
}

impl From<Changes> for Writes {
    fn from(changes: Changes) -> Self {
        let Changes { records, slots, bodies, markers, unmarked, .. } = changes;
        Self { records, slots, bodies, markers, unmarked, ..Self::default() }
    }
}

/// Reads on one state of the store.
pub type ReadWork<'w> = dyn FnMut(&dyn View) -> Result<(), StoreError> + 'w;

/// Reads, decides and answers what to write.
pub type WriteWork<'w> = dyn FnMut(&dyn View) -> Result<Writes, StoreError> + 'w;

/// An engine below the node store.
pub trait Backend: Send + Sync {
    /// Lets `work` read one state of the store.
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError>;

    /// Lets `work` read what it is about to change, and commits what it answers. Nobody else
    /// changes the same transactions meanwhile. `work` may run again from the start, where the
    /// engine had to give up and try once more.
    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError>;

    /// How it was opened.
    fn mode(&self) -> OpenMode {
        OpenMode::Create
    }

    /// Why no writes are taken at present, if so.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// What the tables take on disk, where the engine tells. Asked often, so it costs little.
    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Name of the engine.
    fn engine(&self) -> &'static str;

    /// Memory for what is known of settled transactions; an engine that keeps none ignores it.
    fn set_proof_bytes_max(&self, _bytes: usize) {}

    /// Plants a mistake, to see whether it is noticed. For tests only.
    #[doc(hidden)]
    fn plant(&self, _fault: ProofFault) {}
}
