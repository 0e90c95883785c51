//! An engine that commits lists item by item, as one on single records does: it decides on a state that
//! others may change meanwhile, and commits each group on condition that what the group rests on is
//! still the same. Groups are committed in any order, and some are left although nothing changed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use utxokeep_core::{
    Txid,
    node::{ChangeSet, ItemGroup, OutputRecord, TxRecord},
};
use utxokeep_kv::{OpenMode, Trouble};
use utxokeep_txstore::{
    Backend, ItemsWork, NodeStore, ReadWork, StoreError, StoreReads, Touched, Uncommitted,
    WriteWork,
};

/// A rule of the contract that is left out, to see that tests notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Groups that were committed are decided again.
    CommittedAgain,
    /// What a group changes is committed transaction by transaction, and some of it is left.
    TornGroups,
}

/// How often calls of the engine came by.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lists: AtomicUsize,
    pub(crate) commits: AtomicUsize,
}

struct ByItem {
    inner: Box<dyn Backend>,
    random: Mutex<u64>,
    mistake: Option<Mistake>,
    /// No group with this item is ever committed.
    stuck: Option<usize>,
    counts: Arc<Counts>,
}

/// A transaction as a decision found it.
type Seen = (Option<TxRecord>, Vec<(u32, OutputRecord)>);

fn look(view: &StoreReads<'_>, txids: &[Txid]) -> Result<Vec<Seen>, StoreError> {
    let records = view.records(txids)?;
    let of = |(txid, record): (&Txid, &Option<TxRecord>)| {
        (*txid, record.as_ref().map_or(0, |record| record.outputs))
    };
    let of: Vec<(Txid, u32)> = txids.iter().zip(&records).map(of).collect();
    Ok(records.into_iter().zip(view.outputs(&of)?).collect())
}

impl ByItem {
    fn below(&self, end: usize) -> usize {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        // xorshift64.
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        usize::try_from(*random >> 33).unwrap() % end
    }

    /// Commits changes if everything that they rest on is as it was; whether it did.
    fn commit(
        &self,
        reads: &[Txid],
        seen: &[Seen],
        changes: &ChangeSet,
    ) -> Result<bool, StoreError> {
        let mut is_same = false;
        self.inner.write(&Touched::Only(reads.to_vec()), &mut |view| {
            is_same = look(view, reads)? == seen;
            Ok(if is_same { changes.clone() } else { ChangeSet::default() })
        })?;
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        Ok(is_same)
    }

    /// The mistake: each transaction of a group on its own, and not every one.
    fn commit_torn(&self, changes: ChangeSet) -> Result<(), StoreError> {
        for part in changes.split().0.into_iter().filter(|_| self.below(3) > 0) {
            let mut alone = ChangeSet::default();
            alone.add(part);
            self.inner.write(&Touched::Only(Vec::new()), &mut |_| Ok(alone.clone()))?;
        }
        Ok(())
    }
}

impl Backend for ByItem {
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        self.inner.read(work)
    }

    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.write(touched, work)
    }

    fn commits_items(&self) -> bool {
        true
    }

    fn write_items(
        &self,
        _: &Touched,
        work: &mut ItemsWork<'_>,
    ) -> Result<Uncommitted, StoreError> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        let (mut groups, mut seen) = (Vec::new(), BTreeMap::new());
        // Now and then a decision is thrown away before anything of it is committed.
        for _ in 0..=usize::from(self.below(4) == 0) {
            self.inner.read(&mut |view| {
                groups = work(view)?;
                seen.clear();
                for group in &groups {
                    seen.insert(group.items[0], look(view, &group.reads)?);
                }
                Ok(())
            })?;
        }
        let mut left = Uncommitted::default();
        while !groups.is_empty() {
            let ItemGroup { items, reads, changes } = groups.remove(self.below(groups.len()));
            if self.stuck.is_some_and(|item| items.contains(&item)) {
                left.in_progress.extend(items);
            } else if self.below(3) == 0 {
                left.again.extend(items);
            } else if self.mistake == Some(Mistake::TornGroups) {
                self.commit_torn(changes)?;
            } else {
                let is_done = self.commit(&reads, &seen[&items[0]], &changes)?;
                let again = self.mistake == Some(Mistake::CommittedAgain) && self.below(3) == 0;
                if !is_done || again {
                    left.again.extend(items);
                }
            }
        }
        Ok(left)
    }

    fn mode(&self) -> OpenMode {
        self.inner.mode()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.inner.trouble()
    }

    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.inner.disk_bytes()
    }

    fn engine(&self) -> &'static str {
        "by item"
    }
}

/// How the engine is put around another one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    pub(crate) seed: u64,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) stuck: Option<usize>,
}

/// A store whose lists are committed item by item.
pub(crate) fn by_item(store: NodeStore, how: How) -> (NodeStore, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let How { seed, mistake, stuck } = how;
    let random = Mutex::new((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let engine = |inner| ByItem { inner, random, mistake, stuck, counts: Arc::clone(&counts) };
    (store.wrapped(|inner| Box::new(engine(inner))), counts)
}
