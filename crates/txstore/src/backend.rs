//! What an engine has to be able to do. Everything else is [`crate::NodeStore`], once for all.

use std::collections::BTreeSet;

use utxokeep_core::{
    Txid,
    node::{ChangeSet, ItemGroup, NamedState, NodeReads},
};

use utxokeep_kv::{OpenMode, Trouble};

use crate::{error::StoreError, records::CreationLock};

/// The transactions that a call changes.
#[derive(Debug, Clone)]
pub enum Touched {
    /// These, and no others.
    Only(Vec<Txid>),
    /// It shows on the way.
    Unknown,
}

/// A state of a store, as an engine shows it.
pub type StoreReads<'v> = dyn NodeReads<Error = StoreError> + 'v;

/// Reads values of the store as a whole; answers those to write.
pub type StateWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<Vec<NamedState>, StoreError> + 'w;

/// Reads on one state of the store.
pub type ReadWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<(), StoreError> + 'w;

/// Reads, decides and answers what to write.
pub type WriteWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<ChangeSet, StoreError> + 'w;

/// The same for a list whose items are committed in groups.
pub type ItemsWork<'w> = dyn FnMut(&StoreReads<'_>) -> Result<Vec<ItemGroup>, StoreError> + 'w;

/// Items of a list that an engine did not commit, by their numbers. Nothing of them was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Uncommitted {
    /// Something that they rest on changed meanwhile: they are decided again.
    pub again: Vec<usize>,
    /// Another call works on their transactions and did not end in time: they are refused with
    /// [`NodeError::InProgress`](utxokeep_core::node::NodeError::InProgress).
    pub in_progress: Vec<usize>,
}

/// An engine below the node store.
///
/// **Embedded and SQL engines commit the whole call; record engines commit item by item.** Calls that
/// the contract of the store makes atomic ([`TxStore::spend_and_create_list`] among them) are one
/// commit on every engine: they go through [`Backend::write`]. Lists whose items are independent
/// go through [`Backend::write_items`] where [`Backend::commits_items`] says so.
///
/// Reads carry no versions. An engine that commits by versions remembers them in the view that it hands
/// to `work` (see [`NodeReads`]).
///
/// [`TxStore::spend_and_create_list`]: crate::TxStore::spend_and_create_list
pub trait Backend: Send + Sync {
    /// Lets `work` read one state of the store.
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError>;

    /// Lets `work` read what it is about to change, and commits what it answers, all of it or
    /// nothing. Nobody else changes the same transactions meanwhile. `work` may run again from the
    /// start, where the engine had to give up and try once more.
    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError>;

    /// Whether lists of independent items are committed item by item.
    fn commits_items(&self) -> bool {
        false
    }

    /// Lets `work` decide the items of a list, and commits groups of them; answers the items that it
    /// did not commit. Asked only where [`Backend::commits_items`] says so; every other engine
    /// commits all groups together and answers none.
    ///
    /// * A group is committed whole or not at all, and only if every transaction in
    ///   [`ItemGroup::reads`] is as `work` read it. Groups do not depend on each other: they are
    ///   committed in any order, or at the same time.
    /// * A group without changes has nothing to commit. It counts as committed if what it read was true
    ///   at one moment.
    /// * `work` may run again from the start as long as no group of its last answer was committed.
    ///   After that the engine answers the items that are left, and the store decides only those again.
    /// * An error says nothing about groups: some may be committed. The caller of the store repeats the
    ///   call, as after an answer that was lost.
    fn write_items(
        &self,
        touched: &Touched,
        work: &mut ItemsWork<'_>,
    ) -> Result<Uncommitted, StoreError> {
        self.write(touched, &mut |view| {
            let mut all = ChangeSet::default();
            work(view)?.into_iter().for_each(|group| all.append(group.changes));
            Ok(all)
        })?;
        Ok(Uncommitted::default())
    }

    /// How it was opened.
    fn mode(&self) -> OpenMode {
        OpenMode::Create
    }

    /// Whether other programs may use the same store at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Why no writes are taken at present, if so.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// Why no writes are taken, found out by trying; asked once in a while. Engines on which
    /// [`Backend::trouble`] knows need nothing.
    fn probe(&self) -> Option<Trouble> {
        None
    }

    /// What the tables take on disk, where the engine tells. Asked often, so it costs little.
    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// What is wrong with the file below, where the engine can look at it as a whole.
    fn file_damage(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Name of the engine.
    fn engine(&self) -> &'static str;

    /// Whether what was read inside a write stays as it is while `work` runs. Otherwise the commit
    /// fails where it did not, and whatever else `work` did has been done.
    fn holds_reads(&self) -> bool {
        true
    }

    /// Takes the creation locks of new transactions, with so many outputs each, before files are
    /// written for their bodies; answers those that others create at present, which exist to this
    /// call. Engines that create in one commit have no such locks. They are held by the call that
    /// runs on this thread.
    fn lock_creations(&self, _created: &[(Txid, u32)]) -> Result<BTreeSet<Txid>, StoreError> {
        Ok(BTreeSet::new())
    }

    /// Releases what [`Backend::lock_creations`] took on this thread. Called when the call is over,
    /// whatever became of it.
    fn unlock_creations(&self) {}

    /// Numbers that every program has in common are about to change: from now on every write reads
    /// them, until [`Backend::end_change_of_numbers`]. Engines whose writes always do need nothing.
    fn begin_change_of_numbers(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The change that was begun is committed, or was given up.
    fn end_change_of_numbers(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Who is creating a large transaction, where a lock says so.
    fn creation_lock(&self, _txid: &Txid) -> Result<Option<CreationLock>, StoreError> {
        Ok(None)
    }

    /// Finishes or takes back calls whose actor did not end them in time, at most `limit`; answers how
    /// many.
    fn end_unfinished(&self, _limit: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}
