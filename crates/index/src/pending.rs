//! Changes that wait for their batch.
//!
//! Outputs that are created and spent before the batch is cut never reach the tables of live
//! outputs: only the net effect does. At the tip a batch is one block; during bulk load it is as
//! many as fit into memory, so an output takes as few bytes here as it can: its outpoint and its
//! record in one arena, and four bytes in a hash table that points into it.

use hashbrown::HashTable;
use utxokeep_core::{AddressKey, AddressRowKey, Corrupt, IndexKey, IndexTag, OutPoint, UtxoRecord};
use utxokeep_kv::{Batch, KvError, RowSink, SortedRows, TableId};

use crate::{
    coin::{Coin, RecordBytes, Rows},
    tables::{ADDR, UNSPENT},
};

/// Length of the record, whether it is live, outpoint; the record follows.
const HEADER_LEN: usize = 4 + 1 + OutPoint::KEY_LEN;
const FLAG_AT: usize = 4;
const KEY_AT: usize = 5;

/// Where a created output lies in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YoungId(u32);

/// Created and spent outputs since the last cut.
#[derive(Debug)]
pub(crate) struct Pending {
    rows: Rows,
    arena: Vec<u8>,
    /// Live entries of the arena by outpoint.
    young: HashTable<u32>,
    /// Bytes of the arena that belong to outputs spent since.
    dead_bytes: usize,
    /// Outputs of the tables that were spent.
    gone: Vec<OutPoint>,
    /// Their rows in the address index.
    gone_rows: Vec<AddressRowKey>,
    gone_by_outpoint: HashTable<u32>,
}

/// Transaction ids are hashes already; only the index needs mixing in.
fn hash(key: &[u8; OutPoint::KEY_LEN]) -> u64 {
    let txid = u64::from_be_bytes(*field(key, 0));
    let index = u32::from_be_bytes(*field(key, 32));
    txid ^ u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A field of fixed width in bytes that were written whole.
fn field<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("entries and keys are written whole")
}

impl Pending {
    pub(crate) fn new(rows: Rows) -> Self {
        Self {
            rows,
            arena: Vec::new(),
            young: HashTable::new(),
            dead_bytes: 0,
            gone: Vec::new(),
            gone_rows: Vec::new(),
            gone_by_outpoint: HashTable::new(),
        }
    }

    fn key_at(&self, at: u32) -> &[u8; OutPoint::KEY_LEN] {
        field(&self.arena, at as usize + KEY_AT)
    }

    fn record_at(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let len = u32::from_be_bytes(*field(&self.arena, at));
        &self.arena[at + HEADER_LEN..at + HEADER_LEN + len as usize]
    }

    /// Adds a created output.
    pub(crate) fn create(&mut self, outpoint: OutPoint, record: &UtxoRecord<'_>) {
        let at = u32::try_from(self.arena.len()).expect("a batch is cut long before 4 GiB");
        let key = outpoint.to_key();
        self.arena.extend_from_slice(&[0, 0, 0, 0, 1]);
        self.arena.extend_from_slice(&key);
        let record_at = self.arena.len();
        record.encode_into(&mut self.arena);
        let len = u32::try_from(self.arena.len() - record_at).expect("a record is below 4 GiB");
        self.arena[at as usize..at as usize + 4].copy_from_slice(&len.to_be_bytes());
        let arena = &self.arena;
        self.young.insert_unique(hash(&key), at, |&at| hash(field(arena, at as usize + KEY_AT)));
    }

    /// The created output of this name that is still live.
    pub(crate) fn find(&self, outpoint: &OutPoint) -> Option<YoungId> {
        if self.young.is_empty() {
            return None;
        }
        let key = outpoint.to_key();
        self.young.find(hash(&key), |&at| *self.key_at(at) == key).map(|&at| YoungId(at))
    }

    /// Whether an output of the tables was spent since the last cut.
    pub(crate) fn is_gone(&self, outpoint: &OutPoint) -> bool {
        !self.gone.is_empty()
            && self
                .gone_by_outpoint
                .find(hash(&outpoint.to_key()), |&at| self.gone[at as usize] == *outpoint)
                .is_some()
    }

    /// Bytes of the record of a created output.
    pub(crate) fn record(&self, id: YoungId) -> &[u8] {
        self.record_at(id.0)
    }

    /// Spends a created output.
    pub(crate) fn spend_young(&mut self, id: YoungId) {
        let hash = hash(self.key_at(id.0));
        self.dead_bytes += HEADER_LEN + self.record_at(id.0).len();
        self.arena[id.0 as usize + FLAG_AT] = 0;
        if let Ok(entry) = self.young.find_entry(hash, |&at| at == id.0) {
            entry.remove();
        }
    }

    /// Spends an output of the tables.
    pub(crate) fn spend_old(&mut self, coin: &Coin<'_>) {
        let at = u32::try_from(self.gone.len()).expect("a batch is cut long before 2^32 outputs");
        self.gone.push(coin.outpoint);
        self.gone_rows.extend(coin.row_keys());
        let gone = &self.gone;
        self.gone_by_outpoint.insert_unique(hash(&coin.outpoint.to_key()), at, |&at| {
            hash(&gone[at as usize].to_key())
        });
    }

    /// Rows the cut will write, about.
    pub(crate) fn rows(&self) -> usize {
        let index_rows = self.young.len() * self.rows.index_rows_max() + self.gone_rows.len();
        self.young.len() + self.gone.len() + index_rows
    }

    /// Memory held until the cut and during it.
    pub(crate) fn memory_bytes(&self) -> usize {
        let tables = (self.young.capacity() + self.gone_by_outpoint.capacity()) * 6;
        let gone = size_of_val(self.gone.as_slice()) + size_of_val(self.gone_rows.as_slice());
        let live_rows = self.young.len() + self.gone.len();
        let index_rows = self.young.len() * self.rows.index_rows_max() + self.gone_rows.len();
        let sorting = live_rows * size_of::<LiveItem>() + index_rows * size_of::<AddrItem>();
        self.arena.len() + tables + gone + sorting
    }

    /// Drops the bytes of spent outputs when that frees at least a third of the arena. Answers
    /// whether it did.
    pub(crate) fn shrink(&mut self) -> bool {
        if self.dead_bytes * 3 < self.arena.len() {
            return false;
        }
        let mut arena = Vec::with_capacity(self.arena.len() - self.dead_bytes);
        let mut live = Vec::with_capacity(self.young.len());
        for at in self.live() {
            live.push(u32::try_from(arena.len()).expect("it only becomes shorter"));
            let len = HEADER_LEN + self.record_at(at).len();
            arena.extend_from_slice(&self.arena[at as usize..at as usize + len]);
        }
        self.arena = arena;
        self.dead_bytes = 0;
        let mut young = HashTable::with_capacity(live.len());
        for at in live {
            young.insert_unique(hash(self.key_at(at)), at, |&at| hash(self.key_at(at)));
        }
        self.young = young;
        true
    }

    /// Live entries in order of creation.
    fn live(&self) -> impl Iterator<Item = u32> {
        let mut next = 0usize;
        std::iter::from_fn(move || {
            while next < self.arena.len() {
                let at = u32::try_from(next).expect("the arena is below 4 GiB");
                next += HEADER_LEN + self.record_at(at).len();
                if self.arena[at as usize + FLAG_AT] == 1 {
                    return Some(at);
                }
            }
            None
        })
    }

    fn coin_at(&self, at: u32) -> Result<Coin<'_>, Corrupt> {
        let outpoint = OutPoint::from_key(self.key_at(at))
            .ok_or_else(|| Corrupt::new("outpoint", "not 36 bytes long"))?;
        let record = RecordBytes::new(self.record_at(at));
        Ok(self.rows.coin(outpoint, &record.read()?, record))
    }

    /// Appends the net effect on the tables of live outputs.
    pub(crate) fn write_into(&self, batch: &mut Batch) -> Result<(), Corrupt> {
        // Deletes first: a replaced output has both, and the last write of a row wins.
        for outpoint in &self.gone {
            UNSPENT.delete(batch, outpoint);
        }
        for row in &self.gone_rows {
            ADDR.delete(batch, row);
        }
        for at in self.live() {
            self.coin_at(at)?.put_live(batch);
        }
        Ok(())
    }

    /// Starts afresh.
    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.young.clear();
        self.dead_bytes = 0;
        self.gone.clear();
        self.gone_rows.clear();
        self.gone_by_outpoint.clear();
    }
}

/// What a sorted row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// An entry of the gone list; sorts before a live one of the same key, which wins.
    Gone(u32),
    /// An entry of the arena.
    Live(u32),
}

#[derive(Debug, Clone, Copy)]
struct LiveItem {
    prefix: u64,
    change: Change,
}

/// Net rows of the table of live outputs, in key order.
pub(crate) struct LiveRows<'a>(pub(crate) &'a Pending);

impl LiveRows<'_> {
    fn key(&self, change: Change) -> [u8; OutPoint::KEY_LEN] {
        match change {
            Change::Gone(at) => self.0.gone[at as usize].to_key(),
            Change::Live(at) => *self.0.key_at(at),
        }
    }
}

impl SortedRows for LiveRows<'_> {
    fn table(&self) -> TableId {
        UNSPENT.id()
    }

    fn visit(&self, sink: &mut RowSink<'_>) -> Result<(), KvError> {
        let pending = self.0;
        let gone = (0u32..).zip(&pending.gone).map(|(at, _)| Change::Gone(at));
        let changes = gone.chain(pending.live().map(Change::Live));
        let mut items = Vec::with_capacity(pending.young.len() + pending.gone.len());
        items.extend(changes.map(|change| LiveItem {
            prefix: u64::from_be_bytes(*field(&self.key(change), 0)),
            change,
        }));
        items.sort_unstable_by(|a, b| {
            a.prefix
                .cmp(&b.prefix)
                .then_with(|| self.key(a.change).cmp(&self.key(b.change)))
                .then_with(|| a.change.cmp(&b.change))
        });
        for (number, item) in items.iter().enumerate() {
            let key = self.key(item.change);
            match item.change {
                Change::Live(at) => sink(&key, Some(pending.record_at(at)))?,
                Change::Gone(_) => {
                    let next = items.get(number + 1);
                    if next.is_none_or(|next| self.key(next.change) != key) {
                        sink(&key, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sorts like the key of the row it stands for: tag, then hash, its front as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AddrItem {
    tag: IndexTag,
    prefix: u64,
    rest: [u8; AddressKey::LEN - 8],
    slot: u64,
    tx_index: u32,
    output_index: u32,
    change: Change,
}

impl AddrItem {
    fn new(row: &AddressRowKey, change: Change) -> Self {
        let key = row.owner.key.as_bytes();
        Self {
            tag: row.owner.tag,
            prefix: u64::from_be_bytes(*field(key, 0)),
            rest: *field(key, 8),
            slot: row.slot,
            tx_index: row.tx_index,
            output_index: row.output_index,
            change,
        }
    }

    fn row(&self) -> AddressRowKey {
        let mut key = [0; AddressKey::LEN];
        key[..8].copy_from_slice(&self.prefix.to_be_bytes());
        key[8..].copy_from_slice(&self.rest);
        let Self { tag, slot, tx_index, output_index, .. } = *self;
        let owner = IndexKey { tag, key: AddressKey::from_bytes(key) };
        AddressRowKey { owner, slot, tx_index, output_index }
    }
}

/// Net rows of the address index, in key order.
pub(crate) struct AddrRows<'a>(pub(crate) &'a Pending);

impl SortedRows for AddrRows<'_> {
    fn table(&self) -> TableId {
        ADDR.id()
    }

    fn visit(&self, sink: &mut RowSink<'_>) -> Result<(), KvError> {
        let corrupt =
            |error: Corrupt| KvError::Corrupt { table: "utxo_addr", detail: error.to_string() };
        let pending = self.0;
        let index_rows = pending.young.len() * pending.rows.index_rows_max();
        let mut items = Vec::with_capacity(index_rows + pending.gone_rows.len());
        for (at, row) in (0u32..).zip(&pending.gone_rows) {
            items.push(AddrItem::new(row, Change::Gone(at)));
        }
        for at in pending.live() {
            let coin = pending.coin_at(at).map_err(corrupt)?;
            items.extend(coin.row_keys().map(|row| AddrItem::new(&row, Change::Live(at))));
        }
        items.sort_unstable();
        let mut value = Vec::new();
        for (number, item) in items.iter().enumerate() {
            let key = item.row().to_key();
            match item.change {
                Change::Live(at) => {
                    value.clear();
                    pending.coin_at(at).map_err(corrupt)?.row().append_to(&mut value);
                    sink(&key, Some(&value))?;
                }
                Change::Gone(_) => {
                    let next = items.get(number + 1).map(AddrItem::row);
                    if next != Some(item.row()) {
                        sink(&key, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
