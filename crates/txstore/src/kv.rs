//! Key-value tables below the node store: RocksDB, or memory.

use std::cell::RefCell;

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        NodeTx, Slot, TxRecord, decode_body, decode_record, decode_slot, decode_spends,
        encode_body, encode_record, encode_slot,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan, TableId};

use crate::{
    backend::{Backend, HeightIndex, ReadWork, SlotPage, Touched, View, WriteWork, Writes},
    error::{OpenError, StoreError},
    locks::{Held, Locks},
    tables::{
        BODIES, DELETED_CHILDREN, DUE, FORMAT_VERSION, META, PRESERVED, RECORDS, SLOTS, UNMINED,
        child_key, from_height_key, height_key,
    },
};

const FORMAT: &[u8] = b"format";

/// Up to this many rows are read one by one: less to set up than one read of many.
const SINGLE_READS_MAX: usize = 4;

/// Key-value tables with locks over transactions.
#[derive(Debug)]
pub(crate) struct KvBackend<K> {
    kv: K,
    durability: Durability,
    locks: Locks,
}

impl<K: Kv> KvBackend<K> {
    /// Opens a store on an engine that has all of [`crate::TABLES`].
    pub(crate) fn open(kv: K, durability: Durability) -> Result<Self, OpenError> {
        match kv.get(META, FORMAT)? {
            None => {
                let mut batch = Batch::new();
                batch.put(META, FORMAT, &FORMAT_VERSION.to_be_bytes());
                kv.commit(batch, Durability::Synced)?;
            }
            Some(bytes) => {
                let found = bytes.try_into().map(u64::from_be_bytes);
                let found = found.map_err(|_| Corrupt::new("format version", "not 8 bytes long"));
                let found = found.map_err(StoreError::from)?;
                if found > FORMAT_VERSION {
                    return Err(OpenError::NewerFormat { found, known: FORMAT_VERSION });
                }
            }
        }
        Ok(Self { kv, durability, locks: Locks::new() })
    }

    fn commit(&self, writes: &Writes) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for (txid, body) in &writes.bodies {
            match body {
                Some(body) => batch.put(BODIES, txid.as_bytes(), &encode_body(body)),
                None => batch.delete(BODIES, txid.as_bytes()),
            }
        }
        for (outpoint, slot) in &writes.slots {
            match slot {
                Some(slot) => batch.put(SLOTS, &outpoint.to_key(), &encode_slot(slot)),
                None => batch.delete(SLOTS, &outpoint.to_key()),
            }
        }
        for (parent, child) in &writes.markers {
            batch.put(DELETED_CHILDREN, &child_key(parent, child), &[]);
        }
        for (parent, child) in &writes.unmarked {
            batch.delete(DELETED_CHILDREN, &child_key(parent, child));
        }
        for (txid, before, now) in &writes.records {
            if let Some(record) = now {
                batch.put(RECORDS, txid.as_bytes(), &encode_record(record));
            } else {
                batch.delete(RECORDS, txid.as_bytes());
                if before.as_ref().is_some_and(|before| before.deleted_children > 0) {
                    self.delete_markers(&mut batch, txid)?;
                }
            }
            put_index_rows(&mut batch, txid, before.as_ref(), now.as_ref());
        }
        for (name, value) in &writes.states {
            match value {
                Some(value) => batch.put(META, name.as_bytes(), value),
                None => batch.delete(META, name.as_bytes()),
            }
        }
        Ok(self.kv.commit(batch, self.durability)?)
    }

    /// Markers of a parent that goes are of no use to anybody.
    fn delete_markers(&self, batch: &mut Batch, parent: &Txid) -> Result<(), StoreError> {
        let mut until = parent.as_bytes().to_vec();
        until.extend([0xff; 33]);
        let scan = Scan { from: parent.as_bytes(), until: Some(&until), ..everything() };
        self.kv.scan(DELETED_CHILDREN, &scan, &mut |key, _| {
            batch.delete(DELETED_CHILDREN, key);
            true
        })?;
        Ok(())
    }
}

impl<K: Kv> Backend for KvBackend<K> {
    fn read(&self, work: &mut ReadWork<'_>) -> Result<(), StoreError> {
        let snapshot = self.kv.snapshot();
        work(&Rows { read: &snapshot, locked: None })
    }

    fn write(&self, touched: &Touched, work: &mut WriteWork<'_>) -> Result<(), StoreError> {
        let mut named = match touched {
            Touched::Only(txids) => txids.clone(),
            Touched::Unknown => Vec::new(),
        };
        loop {
            let held = self.locks.lock(&named);
            let locked = RefCell::new(Locked { held, taken: Vec::new() });
            let outcome = work(&Rows { read: &self.kv, locked: Some(&locked) });
            let taken = std::mem::take(&mut locked.borrow_mut().taken);
            if taken.is_empty() {
                return self.commit(&outcome?);
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
    Scan { from: &[], until: None, reverse: false, limit: usize::MAX, within_prefix: false }
}

const fn table(index: HeightIndex) -> TableId {
    match index {
        HeightIndex::Due => DUE,
        HeightIndex::Unmined => UNMINED,
        HeightIndex::Preserved => PRESERVED,
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
            batch.delete(table(index), &height_key(old, txid));
        }
        if let Some(new) = new {
            batch.put(table(index), &height_key(new, txid), &[]);
        }
    }
}

/// What a write holds, and what it would have to hold but somebody else does.
struct Locked<'l> {
    held: Held<'l>,
    taken: Vec<Txid>,
}

/// What the tables hold.
struct Rows<'r, 'l> {
    read: &'r dyn Read,
    /// Inside a write: a record that is read is locked first.
    locked: Option<&'r RefCell<Locked<'l>>>,
}

impl Rows<'_, '_> {
    /// Reads many rows in one pass, sorted by key.
    fn many<const N: usize, T: Clone>(
        &self,
        table: TableId,
        keys: impl Iterator<Item = [u8; N]>,
        decode: impl Fn(usize, &[u8]) -> Result<T, Corrupt>,
    ) -> Result<Vec<Option<T>>, StoreError> {
        let mut sorted: Vec<_> = keys.zip(0usize..).collect();
        if sorted.len() <= SINGLE_READS_MAX {
            let one = |(key, at): ([u8; N], usize)| -> Result<Option<T>, StoreError> {
                let value = self.read.get(table, &key)?;
                Ok(value.map(|value| decode(at, &value)).transpose()?)
            };
            return sorted.into_iter().map(one).collect();
        }
        sorted.sort_unstable();
        let keys: Vec<&[u8]> = sorted.iter().map(|(key, _)| key.as_slice()).collect();
        let mut found = vec![None; sorted.len()];
        let mut damage = None;
        self.read.multi_get(table, &keys, &mut |number, value| {
            let at = sorted[number].1;
            match value.map(|value| decode(at, value)).transpose() {
                Ok(row) => found[at] = row,
                Err(error) => damage = Some(error),
            }
        })?;
        damage.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Keys and values behind a key, at most `limit`.
    fn behind(
        &self,
        table: TableId,
        after: Option<&[u8]>,
        until: Option<&[u8]>,
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let from = after.map(|after| [after, &[0]].concat()).unwrap_or_default();
        let scan = Scan { from: &from, until, limit, ..everything() };
        self.read.scan(table, &scan, &mut |key, value| {
            each(key, value);
            true
        })?;
        Ok(())
    }
}

impl View for Rows<'_, '_> {
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        if let Some(locked) = self.locked {
            let mut locked = locked.borrow_mut();
            let taken = locked.held.try_lock(txids);
            if !taken.is_empty() {
                locked.taken.extend(taken);
                return Err(StoreError::Contended);
            }
        }
        self.many(RECORDS, txids.iter().map(|id| *id.as_bytes()), |_, bytes| decode_record(bytes))
    }

    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, StoreError> {
        self.many(SLOTS, outpoints.iter().map(|outpoint| outpoint.to_key()), |_, bytes| {
            decode_slot(bytes)
        })
    }

    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        self.many(BODIES, txids.iter().map(|id| *id.as_bytes()), |at, bytes| {
            decode_body(txids[at], bytes)
        })
    }

    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, StoreError> {
        let keys = txids.iter().map(|txid| *txid.as_bytes());
        self.many(BODIES, keys, |_, bytes| decode_spends(bytes))
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        Ok(self.read.get(DELETED_CHILDREN, &child_key(parent, child))?.is_some())
    }

    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let after = after.map(|(height, txid)| height_key(height, &txid));
        let until = until.get().checked_add(1).map(|next| Height::new(next).to_key());
        let (mut found, mut is_damaged) = (Vec::new(), false);
        self.behind(
            table(index),
            after.as_ref().map(<[u8; 36]>::as_slice),
            until.as_ref().map(<[u8; 4]>::as_slice),
            limit,
            &mut |key, _| match from_height_key(key) {
                Some(row) => found.push(row),
                None => is_damaged = true,
            },
        )?;
        if is_damaged {
            return Err(Corrupt::new("index row", "not 36 bytes long").into());
        }
        Ok(found)
    }

    fn is_indexed(
        &self,
        index: HeightIndex,
        height: Height,
        txid: &Txid,
    ) -> Result<bool, StoreError> {
        Ok(self.read.get(table(index), &height_key(height, txid))?.is_some())
    }

    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError> {
        let mut found = Vec::new();
        let after = after.map(|txid| txid.as_bytes().as_slice());
        self.behind(RECORDS, after, None, limit, &mut |key, _| {
            found.extend(Txid::from_slice(key));
        })?;
        Ok(found)
    }

    fn slots_after(&self, after: Option<&OutPoint>, limit: usize) -> Result<SlotPage, StoreError> {
        let mut found = Vec::new();
        let after = after.map(|outpoint| outpoint.to_key());
        let after = after.as_ref().map(<[u8; 36]>::as_slice);
        self.behind(SLOTS, after, None, limit, &mut |key, value| {
            found.extend(OutPoint::from_key(key).map(|outpoint| (outpoint, decode_slot(value))));
        })?;
        Ok(found)
    }

    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.read.get(META, name.as_bytes())?)
    }

    fn states(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut found = Vec::new();
        // Names are ASCII.
        let until = [prefix.as_bytes(), &[0x7f]].concat();
        let after = after.unwrap_or(prefix).as_bytes();
        self.behind(META, Some(after), Some(&until), limit, &mut |key, value| {
            found.push((String::from_utf8_lossy(key).into_owned(), value.to_vec()));
        })?;
        Ok(found)
    }
}
