//! What every write of a store goes through: whether the store is still the one to write to, and
//! whether a move has its changes listed.
//!
//! While a store is moved its source keeps a list of what changed: a row for each transaction and each
//! value, written in the same commit as the change. So the last step of a move looks at what is on the
//! list, and not at everything.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use utxokeep_core::{Txid, hex_encode, node::ChangeSet};

use crate::{
    agreed::{Agreement, CHANGES_LISTED, of_policy, refuse_changed, refuse_moved},
    backend::{ItemsWork, StoreReads, Touched, Uncommitted, WriteWork},
    engine::NodeStore,
    error::StoreError,
    files::random_bytes,
    moving::is_moved,
};

/// What names of rows of the list start with.
pub(crate) const CHANGED: &str = "move_changed/";

/// Something on the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listed {
    /// All that belongs to a transaction.
    Tx(Txid),
    /// A value of the store as a whole.
    State(String),
}

impl Listed {
    /// Name of its row.
    pub(crate) fn row(&self) -> String {
        match self {
            Self::Tx(txid) => format!("{CHANGED}t{}", hex_encode(txid.as_bytes())),
            Self::State(name) => format!("{CHANGED}v{name}"),
        }
    }

    /// What a row names.
    pub(crate) fn of_row(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(CHANGED)?;
        if let Some(name) = rest.strip_prefix('v') {
            return Some(Self::State(name.to_owned()));
        }
        let bytes = utxokeep_core::hex_decode(rest.strip_prefix('t')?)?;
        Txid::from_slice(&bytes).map(Self::Tx)
    }
}

/// What a write asks of the store before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Whether it still has the numbers that this program was started with, and was not moved.
    Numbers,
    /// Whether it was moved. The numbers do not matter to it.
    Place,
    /// Nothing: the write compares by itself, and holds what it compared.
    Nothing,
}

/// Adds rows to the list for everything that a commit changes. Their value is a new one each time: a
/// row that is taken off the list while somebody writes it is written once more, or is not taken.
fn list(changes: &mut ChangeSet) {
    let records = changes.records.iter().map(|(txid, ..)| *txid);
    let slots = changes.slots.iter().map(|(outpoint, _)| *outpoint.txid());
    let bodies = changes.bodies.iter().map(|(txid, _)| *txid);
    let marked = changes.markers.iter().chain(&changes.unmarked).map(|(parent, _)| *parent);
    let txids = records.chain(slots).chain(bodies).chain(marked).map(Listed::Tx);
    let names = changes.states.iter().map(|(name, _)| name).filter(|name| is_moved(name));
    let all: BTreeSet<Listed> = txids.chain(names.cloned().map(Listed::State)).collect();
    let value = random_bytes().to_vec();
    changes.states.extend(all.iter().map(|listed| (listed.row(), Some(value.clone()))));
}

impl NodeStore {
    /// Commits what `work` decides, as [`crate::backend::Backend::write`] does.
    pub(crate) fn commit(
        &self,
        asks: Asks,
        touched: &Touched,
        work: &mut WriteWork<'_>,
    ) -> Result<(), StoreError> {
        self.backend.write(touched, &mut |view| {
            let is_listed = self.admit(asks, view)?;
            let mut changes = work(view)?;
            if !changes.is_empty() && is_on_the_list(is_listed, view)? {
                list(&mut changes);
            }
            Ok(changes)
        })
    }

    /// The same for a list whose items are committed in groups.
    pub(crate) fn commit_items(
        &self,
        touched: &Touched,
        work: &mut ItemsWork<'_>,
    ) -> Result<Uncommitted, StoreError> {
        self.backend.write_items(touched, &mut |view| {
            let is_listed = self.admit(Asks::Numbers, view)?;
            let mut groups = work(view)?;
            let mut changed =
                groups.iter_mut().filter(|group| !group.changes.is_empty()).peekable();
            if changed.peek().is_some() && is_on_the_list(is_listed, view)? {
                changed.for_each(|group| list(&mut group.changes));
            }
            Ok(groups)
        })
    }

    /// Refuses a write that must not be made. Answers whether changes are listed, if that is known
    /// before the write has read what it rests on.
    fn admit(&self, asks: Asks, view: &StoreReads<'_>) -> Result<Option<bool>, StoreError> {
        if self.settings.agreement == Agreement::Moving {
            // A move writes to both of its stores, and lists nothing.
            return Ok(Some(false));
        }
        let numbers = of_policy(&self.settings.policy);
        if !self.backend.is_shared() {
            if asks == Asks::Numbers && self.has_changed_numbers.load(Ordering::Acquire) {
                refuse_changed(view, &numbers)?;
            }
            // Nobody else can begin a move of a store that this program has to itself.
            return Ok(Some(self.lists_changes.load(Ordering::Acquire)));
        }
        match asks {
            // Record engines compare along with what the call reads first.
            Asks::Numbers if view.compares_numbers(&numbers) => Ok(None),
            Asks::Numbers => refuse_changed(view, &numbers).map(Some),
            Asks::Place => refuse_moved(view).map(|()| None),
            Asks::Nothing => Ok(None),
        }
    }
}

/// Whether changes are listed for a move: as known from before, else asked of the store.
fn is_on_the_list(is_known: Option<bool>, view: &StoreReads<'_>) -> Result<bool, StoreError> {
    let is_known = match is_known {
        None => view.lists_changes()?,
        is_known => is_known,
    };
    match is_known {
        Some(is_listed) => Ok(is_listed),
        None => Ok(view.state_kept(CHANGES_LISTED)?.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_list_are_pinned_and_read_back() {
        let tx = Listed::Tx(Txid::from_bytes([0xab; 32]));
        assert_eq!(tx.row(), format!("move_changed/t{}", "ab".repeat(32)));
        let state = Listed::State("undo/0001/t".to_owned());
        assert_eq!(state.row(), "move_changed/vundo/0001/t");
        for listed in [tx, state] {
            assert_eq!(Listed::of_row(&listed.row()), Some(listed));
        }
        assert_eq!(Listed::of_row("move_changed/tab"), None);
        assert_eq!(Listed::of_row("other"), None);
    }

    #[test]
    fn a_commit_lists_every_transaction_and_value_that_it_changes_once() {
        let [one, two, three, four] = [1, 2, 3, 4].map(|byte| Txid::from_bytes([byte; 32]));
        let mut changes = ChangeSet::of_states(vec![
            ("run/1".to_owned(), None),
            ("settled_floor".to_owned(), Some(vec![1])),
        ]);
        changes.bodies.push((one, None));
        changes.slots.push((utxokeep_core::OutPoint::new(one, 7), None));
        changes.records.push((two, None, None));
        changes.markers.push((three, one));
        changes.unmarked.push((four, one));
        list(&mut changes);
        let rows: Vec<String> = changes.states[2..].iter().map(|(name, _)| name.clone()).collect();
        let txs = [one, two, three, four].map(Listed::Tx);
        let all = txs.into_iter().chain([Listed::State("run/1".to_owned())]);
        assert_eq!(rows, all.map(|listed| listed.row()).collect::<Vec<_>>());
    }
}
