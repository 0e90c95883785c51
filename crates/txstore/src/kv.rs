//! Key-value tables below the node store: RocksDB, or memory.

mod journal;
mod proofs;
mod rows;

use std::{
    cell::{Cell, RefCell},
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use utxokeep_core::{
    Corrupt, Found, Height, NotOpened, Opening, Txid,
    node::{ChangeSet, HeightIndex, TxRecord},
};
use utxokeep_kv::{Batch, Durability, Kv, OpenMode, Scan, Table, Trouble};

pub(crate) use self::journal::SettledRow;
use self::{
    journal::Shift,
    proofs::{BYTES_MAX, Proofs},
    rows::{Locked, Rows},
};
use crate::{
    agreed::changes_agreed,
    backend::{Backend, ReadWork, Touched, WriteWork},
    error::{StoreError, StoreOpenError},
    faults::{Planted, ProofFault},
    locks::Locks,
    tables::{
        BODIES, DELETED_CHILDREN, DUE, FORMAT_VERSION, KEPT_FOR_CHILD, META, PRESERVED, RECORDS,
        SLOTS, UNMINED,
    },
};

const FORMAT: &[u8] = b"format";

/// How often a write that relied on what is known is tried again because somebody changed it
/// meanwhile, before it reads everything itself.
const OVERTAKEN_MAX: usize = 3;

/// Key-value tables with locks over transactions.
#[derive(Debug)]
pub(crate) struct KvBackend<K> {
    kv: K,
    durability: Durability,
    locks: Locks,
    proofs: Proofs,
    /// Held alone by a commit that changes numbers that all programs have in common, and together by
    /// those that compared them.
    agreed_gate: RwLock<()>,
    /// How often such numbers changed.
    agreed_changes: AtomicU64,
    planted: Planted,
}

/// How a node store uses key-value tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvOptions {
    /// What an answered call survives.
    pub durability: Durability,
    /// Memory for what is known of settled transactions, in bytes; with none, safe deletion reads
    /// every child.
    pub proof_bytes_max: usize,
}

impl From<Durability> for KvOptions {
    fn from(durability: Durability) -> Self {
        Self { durability, proof_bytes_max: BYTES_MAX }
    }
}

/// What a call took for granted, as it was when it looked.
#[derive(Debug, Clone, Copy)]
struct ReliedOn {
    proofs: Option<u64>,
    agreed: Option<u64>,
}

impl<K: Kv> KvBackend<K> {
    /// Opens a store on an engine that has all of [`crate::TABLES`], in the mode of the engine.
    pub(crate) fn open(
        kv: K,
        options: KvOptions,
        retention_blocks: u32,
        planted: Planted,
    ) -> Result<Self, StoreOpenError> {
        let KvOptions { durability, proof_bytes_max } = options;
        let format = format_of(&kv)?;
        let found = match format {
            None => Found::Nothing,
            Some(FORMAT_VERSION) => Found::Current,
            Some(_) => Found::Older,
        };
        match (kv.mode().decide(found), format.unwrap_or_default()) {
            (Ok(Opening::Use), _) => {}
            // From here on a program that does not know the format refuses the store.
            (Ok(Opening::Create | Opening::Upgrade), _) => write_format(&kv)?,
            (Err(NotOpened::Missing), _) => return Err(StoreOpenError::Missing),
            (Err(NotOpened::Outdated), found) => {
                return Err(StoreOpenError::OlderFormat { found, known: FORMAT_VERSION });
            }
        }
        let proofs = Proofs::open(&kv, retention_blocks, proof_bytes_max, planted.clone())?;
        let (agreed_gate, agreed_changes) = (RwLock::default(), AtomicU64::new(0));
        let locks = Locks::new();
        Ok(Self { kv, durability, locks, proofs, agreed_gate, agreed_changes, planted })
    }

    /// Writes everything of a call. Answers `false`, and has written nothing, if the call relied
    /// on something that is not true any more.
    fn commit(&self, writes: &ChangeSet, relied_on: ReliedOn) -> Result<bool, StoreError> {
        if writes.is_empty() {
            return Ok(true);
        }
        if changes_agreed(writes) {
            let _alone = self.agreed_gate.write().unwrap_or_else(PoisonError::into_inner);
            self.agreed_changes.fetch_add(1, Ordering::AcqRel);
            return self.commit_settled(writes, relied_on.proofs);
        }
        let Some(agreed) = relied_on.agreed else {
            return self.commit_settled(writes, relied_on.proofs);
        };
        let _together = self.agreed_gate.read().unwrap_or_else(PoisonError::into_inner);
        let is_overtaken = agreed != self.agreed_changes.load(Ordering::Acquire);
        if is_overtaken && !self.planted.has(ProofFault::AgreedNotKept) {
            return Ok(false);
        }
        self.commit_settled(writes, relied_on.proofs)
    }

    fn commit_settled(
        &self,
        writes: &ChangeSet,
        relied_on: Option<u64>,
    ) -> Result<bool, StoreError> {
        let mut batch = self.batch(writes)?;
        let shift = Shift::of(writes);
        self.proofs.journal(&shift, &mut batch);
        let is_done = self.proofs.commit(&shift, writes.is_pruning, relied_on, || {
            Ok(self.kv.commit(batch, self.durability)?)
        })?;
        if is_done {
            self.proofs.written(&shift);
        }
        Ok(is_done)
    }

    fn batch(&self, writes: &ChangeSet) -> Result<Batch, StoreError> {
        let mut batch = Batch::new();
        for (txid, body) in &writes.bodies {
            match body {
                Some(body) => BODIES.put(&mut batch, txid, body),
                None => BODIES.delete(&mut batch, txid),
            }
        }
        for (outpoint, slot) in &writes.slots {
            match slot {
                Some(slot) => SLOTS.put(&mut batch, outpoint, slot),
                None => SLOTS.delete(&mut batch, outpoint),
            }
        }
        for (parent, child) in &writes.markers {
            DELETED_CHILDREN.put(&mut batch, &(*parent, *child), &());
        }
        for (parent, child) in &writes.unmarked {
            DELETED_CHILDREN.delete(&mut batch, &(*parent, *child));
        }
        for (txid, before, now) in &writes.records {
            if let Some(record) = now {
                RECORDS.put(&mut batch, txid, record);
            } else {
                RECORDS.delete(&mut batch, txid);
                if before.as_ref().is_some_and(|before| before.deleted_children > 0) {
                    self.delete_markers(&mut batch, txid)?;
                }
            }
            put_index_rows(&mut batch, txid, before.as_ref(), now.as_ref());
        }
        for (name, value) in &writes.states {
            match value {
                Some(value) => META.put(&mut batch, name.as_bytes(), value),
                None => META.delete(&mut batch, name.as_bytes()),
            }
        }
        Ok(batch)
    }

    /// Markers of a parent that goes are of no use to anybody.
    fn delete_markers(&self, batch: &mut Batch, parent: &Txid) -> Result<(), StoreError> {
        let mut until = parent.as_bytes().to_vec();
        until.extend([0xff; 33]);
        let scan = Scan { from: parent.as_bytes(), until: Some(&until), ..everything() };
        DELETED_CHILDREN.scan(&self.kv, &scan, |key, _| {
            DELETED_CHILDREN.delete_row(batch, &key);
            true
        })?;
        Ok(())
    }
}

/// The format of a store; `None` when nothing was ever written to it.
fn format_of<K: Kv>(kv: &K) -> Result<Option<u64>, StoreOpenError> {
    let Some(bytes) = META.get(kv, FORMAT)? else { return Ok(None) };
    let found = bytes.into_bytes().try_into().map(u64::from_be_bytes);
    let found = found.map_err(|_| Corrupt::new("format version", "not 8 bytes long"));
    let found = found.map_err(StoreError::from)?;
    if found > FORMAT_VERSION {
        return Err(StoreOpenError::NewerFormat { found, known: FORMAT_VERSION });
    }
    Ok(Some(found))
}

/// Says of which format the rows are, before any of them is written.
fn write_format<K: Kv>(kv: &K) -> Result<(), utxokeep_kv::KvError> {
    let mut batch = Batch::new();
    META.put(&mut batch, FORMAT, &FORMAT_VERSION.to_be_bytes());
    kv.commit(batch, Durability::Synced)
}

impl<K: Kv> Backend for KvBackend<K> {
    fn mode(&self) -> OpenMode {
        self.kv.mode()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.kv.trouble()
    }

    fn disk_bytes(&self) -> Result<Option<u64>, StoreError> {
        let sizes = self.kv.table_sizes()?;
        Ok(Some(sizes.iter().map(|table| table.disk_bytes).sum()))
    }

    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        let snapshot = self.kv.snapshot();
        work(&Rows {
            read: &snapshot,
            locked: None,
            proofs: None,
            relied_on: Cell::new(None),
            agreed: None,
            relied_on_agreed: Cell::new(None),
        })
    }

    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        let mut named = match touched {
            Touched::Only(txids) => txids.clone(),
            Touched::Unknown => Vec::new(),
        };
        let mut overtaken = 0;
        loop {
            let held = self.locks.lock(&named);
            let locked = RefCell::new(Locked { held, taken: Vec::new() });
            let rows = Rows {
                read: &self.kv,
                locked: Some(&locked),
                proofs: (overtaken < OVERTAKEN_MAX).then_some(&self.proofs),
                relied_on: Cell::new(None),
                agreed: Some(&self.agreed_changes),
                relied_on_agreed: Cell::new(None),
            };
            let outcome = work(&rows);
            let taken = std::mem::take(&mut locked.borrow_mut().taken);
            if taken.is_empty() {
                let proofs = rows.relied_on.get();
                let relied_on = ReliedOn { proofs, agreed: rows.relied_on_agreed.get() };
                if self.commit(&outcome?, relied_on)? {
                    drop(locked);
                    if proofs.is_some() || self.proofs.has_rows_to_trim() {
                        // What was asked for is done. Should this fail, the next one tries again.
                        drop(self.proofs.trim(&self.kv));
                    }
                    return Ok(());
                }
                overtaken += 1;
                continue;
            }
            // Everything is let go before the next round waits: each names at least one more.
            drop(locked);
            named.extend(taken);
        }
    }

    fn engine(&self) -> &'static str {
        "key-value"
    }
}

const fn everything() -> Scan<'static> {
    Scan::ALL
}

const fn table(index: HeightIndex) -> Table<(Height, Txid), ()> {
    match index {
        HeightIndex::Due => DUE,
        HeightIndex::Unmined => UNMINED,
        HeightIndex::Preserved => PRESERVED,
        HeightIndex::KeptForChild => KEPT_FOR_CHILD,
    }
}

fn put_index_rows(
    batch: &mut Batch,
    txid: &Txid,
    before: Option<&TxRecord>,
    now: Option<&TxRecord>,
) {
    for index in HeightIndex::ALL {
        let height = |record: Option<&TxRecord>| record.and_then(|record| index.of(record));
        let (old, new) = (height(before), height(now));
        if old == new {
            continue;
        }
        if let Some(old) = old {
            table(index).delete(batch, &(old, *txid));
        }
        if let Some(new) = new {
            table(index).put(batch, &(new, *txid), &());
        }
    }
}
