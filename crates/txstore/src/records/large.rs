//! Transactions whose outputs do not fit into one record.
//!
//! 1. The creation lock is taken, create-only; where another has it the transaction exists to this
//!    caller.
//! 2. A body that does not fit into a record is written to its file. Where that fails nothing else is
//!    written.
//! 3. The master is staged, along with whatever else the call changes.
//! 4. The pages are written, each with its outputs and the mark that says creating. A page of an
//!    earlier attempt is written over.
//! 5. The call is committed: the master is there, and says creating. Success belongs to whoever
//!    committed it.
//! 6. The mark is taken off the pages, and then off the master. Whatever fails here is completed by
//!    whoever creates the transaction again or mines it.
//! 7. The lock is released, whatever happened.
//!
//! # Invariants
//!
//! * The pages of a committed master were written by the call that committed it, after it had staged
//!   the master. An earlier attempt that comes back finds another version of each page and fails, and
//!   cannot commit either: whoever staged the master after it had to abort it first.
//! * The master says creating until every page is there without its mark, so that to look at the master
//!   is enough: no output of an incomplete transaction can be spent on any page. A child in the same
//!   call spends by the same commit, before which every page was written.
//! * Recovery deletes no page.

use std::collections::BTreeMap;

use utxokeep_core::{Txid, node::encode_record};
use utxokeep_records::{Barrier, Fields, Key, Version, WriteCell, Written};

use super::{
    cells::Cells,
    fault::Fault,
    layout::{CREATING, CREATOR, PAGES, RECORD, page_member},
    patch::{Patch, sealed},
    rows::record_in,
    status::CallId,
    view::CellView,
};
use crate::{error::StoreError, meter};

/// How often a page or a master is written anew because another changed it meanwhile.
const ROUNDS_MAX: usize = 100;

/// A transaction with pages that a call creates.
#[derive(Debug, Clone)]
pub(super) struct Large {
    pub(super) txid: Txid,
    pub(super) outputs: u32,
    /// What is on each page, by its number.
    pub(super) pages: BTreeMap<u32, Patch>,
}

impl Cells {
    /// Writes the pages of a transaction whose master this call has staged. Answers `false` where
    /// somebody else works on one of them.
    pub(super) fn write_pages(&self, call: CallId, large: &Large) -> Result<bool, StoreError> {
        let mut absent: BTreeMap<u32, Option<Version>> =
            large.pages.keys().map(|page| (*page, None)).collect();
        for _ in 0..ROUNDS_MAX {
            let write = |(page, read): (&u32, &Option<Version>)| {
                let mut patch = large.pages[page].clone();
                patch.set(CREATING, Vec::new());
                patch.set(CREATOR, call.mark());
                patch.row(PAGES, &page_member(&large.txid, *page), Some(0));
                let key = self.layout.page(&large.txid, *page);
                patch.write(&key, *read, self.version(*read))
            };
            let writes: Vec<WriteCell> = absent.iter().map(write).collect();
            let sent = self.send(&writes, Barrier::Safe)?;
            let taken = absent.keys().zip(&sent).filter(|(_, sent)| !sent.is_done());
            let taken: Vec<u32> = taken.map(|(page, _)| *page).collect();
            let is_mismatch = |sent: &super::cells::Sent| {
                matches!(sent.written, Written::Done | Written::Mismatch(_))
            };
            if !sent.iter().all(is_mismatch) {
                return Ok(false);
            }
            if taken.is_empty() || self.context.leaves_out(Fault::PagesTakenAsTheyAre) {
                return Ok(true);
            }
            for page in &taken {
                let txid = large.txid;
                tracing::info!(%txid, page, "record exists already, completing an earlier attempt");
            }
            // A page may hold what a call staged that is not over yet.
            let keys: Vec<Key> =
                taken.iter().map(|page| self.layout.page(&large.txid, *page)).collect();
            let view = CellView::new(self, Some(call), 0);
            view.load(keys.iter().map(|key| (key.clone(), Fields::Named(Vec::new()))))?;
            let version = |key: &Key| view.with(key, |known| known.version);
            absent = taken.iter().copied().zip(keys.iter().map(version)).collect();
        }
        Ok(false)
    }

    /// Takes the mark off all pages and then off the master. The transaction is stored whatever
    /// becomes of this.
    pub(super) fn complete(&self, call: CallId, large: &Large) {
        let (txid, outputs) = (large.txid, large.outputs);
        let clear_pages = || self.clear_pages(call, &txid, outputs);
        let clear_master = || self.clear_master(call, &txid);
        let done = if self.context.leaves_out(Fault::MasterClearedFirst) {
            clear_master().and_then(|()| clear_pages())
        } else {
            clear_pages().and_then(|()| clear_master())
        };
        if let Err(error) = done {
            meter::creation_not_cleared();
            tracing::error!(
                %txid,
                %error,
                "transaction created but creating flag not cleared; creating it again or mining it \
                 clears it"
            );
        } else {
            meter::creation_completed("at once");
        }
    }

    /// Takes the mark off every page. Each of them has to be there.
    pub(super) fn clear_pages(
        &self,
        call: CallId,
        txid: &Txid,
        outputs: u32,
    ) -> Result<(), StoreError> {
        let all: Vec<u32> = (1..=self.layout.pages(outputs)).collect();
        let mut marked = all;
        for _ in 0..ROUNDS_MAX {
            let keys: Vec<Key> = marked.iter().map(|page| self.layout.page(txid, *page)).collect();
            let view = CellView::new(self, Some(call), 0);
            let fields = || Fields::Named(vec![CREATING.to_vec()]);
            view.load(keys.iter().map(|key| (key.clone(), fields())))?;
            let (mut writes, mut pages) = (Vec::new(), Vec::new());
            for (page, key) in marked.iter().zip(&keys) {
                let known =
                    view.with(key, |known| Some((known.version?, known.get(CREATING).is_some())));
                match known {
                    None if self.context.leaves_out(Fault::PagesNotCounted) => {}
                    None => return Err(StoreError::PageMissing { txid: *txid, page: *page }),
                    Some((_, false)) => {}
                    Some((version, true)) => {
                        let next = self.version(Some(version));
                        let write = WriteCell::update(key.clone(), version, next);
                        writes.push(write.unset(CREATING));
                        pages.push(*page);
                    }
                }
            }
            let sent = self.send(&writes, Barrier::Safe)?;
            let left = pages.into_iter().zip(sent).filter(|(_, sent)| !sent.is_done());
            marked = left.map(|(page, _)| page).collect();
            if marked.is_empty() {
                return Ok(());
            }
            for page in &marked {
                tracing::warn!(%txid, page, "failed to clear creating flag of a page");
            }
        }
        Err(StoreError::InProgress)
    }

    /// Takes the mark off the master: from now on outputs can be spent.
    fn clear_master(&self, call: CallId, txid: &Txid) -> Result<(), StoreError> {
        let key = self.layout.master(txid);
        for _ in 0..ROUNDS_MAX {
            let view = CellView::new(self, Some(call), 0);
            view.load([(key.clone(), Fields::Named(vec![RECORD.to_vec()]))])?;
            let known =
                view.with(&key, |known| Ok::<_, StoreError>((known.version, record_in(known)?)));
            let (Some(version), Some(mut record)) = known? else { return Ok(()) };
            if !record.is_creating {
                return Ok(());
            }
            record.is_creating = false;
            let write = WriteCell::update(key.clone(), version, self.version(Some(version)))
                .set(RECORD, sealed(encode_record(&record)));
            if self.send_one(write, Barrier::Safe)?.is_done() {
                return Ok(());
            }
        }
        Err(StoreError::InProgress)
    }
}
