//! What the tables hold, as the rules ask for it.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicU64, Ordering},
};

use utxokeep_core::{
    Corrupt, Encoded, Height, OutPoint, StoredKey, StoredValue, Txid,
    node::{HeightIndex, NodeReads, NodeTx, OutputPage, OutputRecord, TxRecord},
};
use utxokeep_kv::{Read, RowKey, Scan, Stored, Table};

use super::{everything, proofs::Proofs, table};
use crate::{
    error::StoreError,
    locks::Held,
    tables::{BODIES, DELETED_CHILDREN, META, RECORDS, SLOTS},
};

/// Up to this many rows are read one by one: less to set up than one read of many.
const SINGLE_READS_MAX: usize = 4;

/// From so many outputs on, those of a transaction are read by walking over them.
const WALKED_OUTPUTS_MIN: u32 = 8;

/// What a write holds, and what it would have to hold but somebody else does.
pub(super) struct Locked<'l> {
    pub(super) held: Held<'l>,
    pub(super) taken: Vec<Txid>,
}

/// What the tables hold.
pub(super) struct Rows<'r, 'l> {
    pub(super) read: &'r dyn Read,
    /// Inside a write: a record that is read is locked first.
    pub(super) locked: Option<&'r RefCell<Locked<'l>>>,
    /// Inside a write: what is known without reading.
    pub(super) proofs: Option<&'r Proofs>,
    /// The state of what is known that the work relied on, if it did.
    pub(super) relied_on: Cell<Option<u64>>,
    /// Inside a write: how often numbers changed that all programs have in common.
    pub(super) agreed: Option<&'r AtomicU64>,
    /// How often they had, when the work compared them.
    pub(super) relied_on_agreed: Cell<Option<u64>>,
}

impl Rows<'_, '_> {
    /// Reads many rows in one pass, sorted by key.
    fn many<Key: StoredKey + Ord, V: StoredValue, T: Clone>(
        &self,
        table: Table<Key, V>,
        keys: &[Key],
        decode: impl Fn(usize, V::Read<'_>) -> Result<T, Corrupt>,
    ) -> Result<Vec<Option<T>>, StoreError> {
        if keys.len() <= SINGLE_READS_MAX {
            let one = |(at, key): (usize, &Key)| -> Result<Option<T>, StoreError> {
                let value = table.get(self.read, key)?;
                Ok(value.map(|value| decode(at, value.read()?)).transpose()?)
            };
            return keys.iter().enumerate().map(one).collect();
        }
        let mut sorted: Vec<(&Key, usize)> = keys.iter().zip(0usize..).collect();
        sorted.sort_unstable();
        let mut found = vec![None; sorted.len()];
        let mut damage = None;
        table.multi_get(self.read, sorted.iter().map(|(key, _)| *key), |number, value| {
            let at = sorted[number].1;
            match value.map(|value| decode(at, value.read()?)).transpose() {
                Ok(row) => found[at] = row,
                Err(error) => damage = Some(error),
            }
        })?;
        damage.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Outputs of one transaction, which are neighbours.
    fn walk_outputs(
        &self,
        txid: &Txid,
        count: u32,
    ) -> Result<Vec<(u32, OutputRecord)>, StoreError> {
        let (first, end) = (OutPoint::new(*txid, 0).to_key(), OutPoint::new(*txid, count).to_key());
        let scan = Scan { from: &first, until: Some(&end), ..everything() };
        let (mut found, mut damage) = (Vec::with_capacity(count.min(1_000) as usize), None);
        SLOTS.scan(self.read, &scan, |key, value| {
            match (key.read(), value.read()) {
                (Some(outpoint), Ok(slot)) => found.push((outpoint.index(), slot)),
                (_, Err(error)) => damage = Some(error),
                (None, _) => damage = Some(Corrupt::new("output", "its key is not 36 bytes long")),
            }
            damage.is_none()
        })?;
        damage.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Keys and values behind a key, at most `limit`.
    fn behind<Key: StoredKey + ?Sized, V: StoredValue + ?Sized>(
        &self,
        table: Table<Key, V>,
        after: Option<&[u8]>,
        until: Option<&[u8]>,
        limit: usize,
        each: &mut dyn FnMut(RowKey<'_, Key>, Encoded<'_, V>),
    ) -> Result<(), StoreError> {
        let from = after.map(|after| [after, &[0]].concat()).unwrap_or_default();
        let scan = Scan { from: &from, until, limit, ..everything() };
        table.scan(self.read, &scan, |key, value| {
            each(key, value);
            true
        })?;
        Ok(())
    }
}

impl NodeReads for Rows<'_, '_> {
    type Error = StoreError;

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        if let Some(locked) = self.locked {
            let mut locked = locked.borrow_mut();
            let taken = locked.held.try_lock(txids);
            if !taken.is_empty() {
                locked.taken.extend(taken);
                return Err(StoreError::Contended);
            }
        }
        self.many(RECORDS, txids, |_, record| Ok(record))
    }

    fn outputs_at(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<OutputRecord>>, StoreError> {
        self.many(SLOTS, outpoints, |_, slot| Ok(slot))
    }

    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, OutputRecord)>>, StoreError> {
        let is_few = |count: u32| count < WALKED_OUTPUTS_MIN;
        let few = of.iter().filter(|(_, count)| is_few(*count));
        let outpoints = few.flat_map(|&(id, count)| (0..count).map(move |n| OutPoint::new(id, n)));
        let outpoints: Vec<OutPoint> = outpoints.collect();
        let mut few = self.outputs_at(&outpoints)?.into_iter();
        let mut all = Vec::with_capacity(of.len());
        for &(txid, count) in of {
            all.push(if is_few(count) {
                let found = (0..count).zip(few.by_ref());
                found.filter_map(|(vout, slot)| Some((vout, slot?))).collect()
            } else {
                self.walk_outputs(&txid, count)?
            });
        }
        Ok(all)
    }

    fn settled(&self, txids: &[Txid], until: Height) -> Result<Vec<Option<Height>>, StoreError> {
        let Some(proofs) = self.proofs else { return Ok(vec![None; txids.len()]) };
        proofs.load(self.read, until)?;
        // First the state, then what it says: whoever changes it in between is noticed.
        let state = proofs.state();
        self.relied_on.set(Some(self.relied_on.get().unwrap_or(state)));
        Ok(proofs.settled(txids))
    }

    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        self.many(BODIES, txids, |at, body| body.of(txids[at]))
    }

    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, StoreError> {
        self.many(BODIES, txids, |_, body| body.spends())
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        Ok(DELETED_CHILDREN.has(self.read, &(*parent, *child))?)
    }

    fn deleted_children(&self, parent: &Txid) -> Result<Vec<Txid>, StoreError> {
        let first = (*parent, Txid::default()).key_bytes();
        let end = (*parent, Txid::from_bytes([0xff; 32])).key_bytes();
        let scan = Scan { from: &first, until: Some(&end), ..everything() };
        let mut found = Vec::new();
        DELETED_CHILDREN.scan(self.read, &scan, |key, _| {
            found.extend(key.read().map(|(_, child)| child));
            true
        })?;
        Ok(found)
    }

    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let after = after.map(|row| row.key_bytes());
        let until = until.get().checked_add(1).map(|next| Height::new(next).to_key());
        let (mut found, mut is_damaged) = (Vec::new(), false);
        self.behind(
            table(index),
            after.as_ref().map(<[u8; 36]>::as_slice),
            until.as_ref().map(<[u8; 4]>::as_slice),
            limit,
            &mut |key, _| match key.read() {
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
        Ok(table(index).has(self.read, &(height, *txid))?)
    }

    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError> {
        let mut found = Vec::new();
        let after = after.map(|txid| txid.as_bytes().as_slice());
        self.behind(RECORDS, after, None, limit, &mut |key, _| {
            found.extend(key.read());
        })?;
        Ok(found)
    }

    fn outputs_after(
        &self,
        after: Option<&OutPoint>,
        limit: usize,
    ) -> Result<OutputPage, StoreError> {
        let mut found = Vec::new();
        let after = after.map(|outpoint| outpoint.to_key());
        let after = after.as_ref().map(<[u8; 36]>::as_slice);
        self.behind(SLOTS, after, None, limit, &mut |key, value| {
            found.extend(key.read().map(|outpoint| (outpoint, value.read())));
        })?;
        Ok(found)
    }

    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(META.get(self.read, name.as_bytes())?.map(Stored::into_bytes))
    }

    fn state_kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        // First how often, then the number: whoever changes it in between is noticed.
        let changes = self.agreed.map(|changes| changes.load(Ordering::Acquire));
        self.relied_on_agreed.set(self.relied_on_agreed.get().or(changes));
        self.state(name)
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
            let name = String::from_utf8_lossy(key.bytes()).into_owned();
            found.push((name, value.bytes().to_vec()));
        })?;
        Ok(found)
    }
}
