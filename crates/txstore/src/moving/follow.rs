//! The list of changes of a source: it is begun before the first pass, and followed after the last.

use std::{collections::BTreeSet, time::Duration};

use utxokeep_core::{Corrupt, Txid, hex_encode};
use utxokeep_fault::crash_point;

use super::{
    Move, MoveError,
    mark::{Mark, PENDING},
    owner::{SourceMarks, write_owned},
    walk::{copy_txs, differing, images_of, write_states},
};
use crate::{
    admit::{CHANGED, Listed},
    agreed::CHANGES_LISTED,
    engine::NodeStore,
    error::StoreError,
};

/// Rows of the list that are followed at once: they are named in one value of the target.
const ROWS_MAX: usize = 1_000;

fn rows(store: &NodeStore, limit: usize) -> Result<Vec<String>, StoreError> {
    let page = store.read(|facts| facts.view.states(CHANGED, None, limit))?;
    Ok(page.into_iter().map(|(name, _)| name).collect())
}

/// Takes rows off the list of a store, if its marks allow it; answers whether they did.
fn take_off(
    store: &NodeStore,
    is_allowed: impl Fn(&SourceMarks) -> bool,
    rows: &[String],
) -> Result<bool, StoreError> {
    let states: Vec<_> = rows.iter().map(|row| (row.clone(), None)).collect();
    Ok(write_owned(store, is_allowed, &states)?.is_ok())
}

/// Empties the list of a store that lists no more. A move that begins a list meanwhile keeps it.
pub(super) fn stop_listing(store: &NodeStore) -> Result<(), StoreError> {
    loop {
        let page = rows(store, ROWS_MAX)?;
        let is_over = page.len() < ROWS_MAX;
        if page.is_empty() || !take_off(store, |marks| marks.listed_to.is_none(), &page)? || is_over
        {
            return Ok(());
        }
    }
}

impl Move<'_> {
    /// From now on every write to the source lists what it changes.
    pub(super) fn begin_list(&self, mark: &mut Mark) -> Result<(), MoveError> {
        let found = self.source.read(|facts| facts.view.state(CHANGES_LISTED))?;
        match found {
            Some(to) if to == self.options.to.as_bytes() => {}
            Some(to) => {
                let to = String::from_utf8_lossy(&to).into_owned();
                return Err(MoveError::OtherTarget { to });
            }
            None => {
                if mark.compared.take().is_some() {
                    // Nobody listed what changed since.
                    mark.write(self.target)?;
                }
                let to = self.options.to.clone().into_bytes();
                let states = [(CHANGES_LISTED.to_owned(), Some(to))];
                let is_free = |marks: &SourceMarks| *marks == SourceMarks::default();
                let begun =
                    self.source.change_compared(|| write_owned(self.source, is_free, &states))?;
                if let Err(found) = begun {
                    let to = found.moved_to.or(found.listed_to).unwrap_or_default();
                    return Err(MoveError::OtherTarget { to });
                }
                crash_point("move_listing");
            }
        }
        if mark.compared.is_none() && self.source.backend.is_shared() {
            // A program that asked before may still commit, and lists nothing. A later pass over
            // everything finds even what takes longer.
            std::thread::sleep(Duration::from_millis(self.options.quiet_ms));
        }
        Ok(())
    }

    /// Copies what is on the list, at most so many pages of it; answers how much that was.
    ///
    /// A row is taken off **before** its transaction is read. Whoever changes it after that lists it
    /// again; what was changed before is read.
    pub(super) fn follow(&mut self, pages_max: u32) -> Result<u64, MoveError> {
        let mut followed = self.copy_pending()?;
        self.tell(followed, followed, None)?;
        for _ in 0..pages_max {
            let limit = self.options.batch.min(ROWS_MAX);
            let page = rows(self.source, limit)?;
            if page.is_empty() {
                break;
            }
            let pending = page.join("\n").into_bytes();
            write_states(self.target, &[(PENDING.to_owned(), Some(pending))])?;
            crash_point("move_pending");
            let is_ours = |marks: &SourceMarks| marks.is_listed_for(&self.options.to);
            if !take_off(self.source, is_ours, &page)? {
                return Err(MoveError::GivenUp);
            }
            crash_point("move_taken");
            followed += self.copy_pending()?;
            self.tell(followed, followed, None)?;
            if page.len() < limit {
                break;
            }
        }
        Ok(followed)
    }

    /// Copies what was taken off the list; answers how much that was.
    fn copy_pending(&mut self) -> Result<u64, MoveError> {
        let pending = self.target.read(|facts| facts.view.state(PENDING))?;
        let Some(pending) = pending else { return Ok(0) };
        let damaged = || StoreError::from(Corrupt::new("list of a move", "not as written"));
        let text = String::from_utf8(pending).map_err(|_| damaged())?;
        let (mut txids, mut names) = (BTreeSet::new(), Vec::new());
        for row in text.split('\n') {
            match Listed::of_row(row).ok_or_else(damaged)? {
                Listed::Tx(txid) => drop(txids.insert(txid)),
                Listed::State(name) => names.push(name),
            }
        }
        self.copy_listed(&txids.iter().copied().collect::<Vec<_>>())?;
        self.copy_values(&names)?;
        write_states(self.target, &[(PENDING.to_owned(), None)])?;
        crash_point("move_followed");
        let count = (txids.len() + names.len()) as u64;
        self.followed += count;
        Ok(count)
    }

    fn copy_listed(&mut self, txids: &[Txid]) -> Result<(), MoveError> {
        if txids.is_empty() {
            return Ok(());
        }
        let source = self.source;
        let page = self.settled(|| images_of(source, txids.to_vec()))?;
        copy_txs(self.target, &page)?;
        match differing(self.target, &page)?.first() {
            None => Ok(()),
            Some((txid, _)) => Err(MoveError::NotKept { what: hex_encode(txid.as_bytes()) }),
        }
    }

    fn copy_values(&self, names: &[String]) -> Result<(), MoveError> {
        let values = |store: &NodeStore| {
            store.read(|facts| {
                let value = |name: &String| Ok((name.clone(), facts.view.state(name)?));
                names.iter().map(value).collect::<Result<Vec<_>, StoreError>>()
            })
        };
        let wanted = values(self.source)?;
        write_states(self.target, &wanted)?;
        let found = values(self.target)?;
        match wanted.iter().zip(&found).find(|(wanted, found)| wanted != found) {
            None => Ok(()),
            Some(((name, _), _)) => Err(MoveError::NotKept { what: name.clone() }),
        }
    }
}
