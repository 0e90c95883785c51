//! Changes that wait for their batch.
//!
//! Outputs that are created and spent before the batch is cut never reach the tables of live
//! outputs: only the net effect does. At the tip a batch is one block; during bulk load it is as
//! many as fit into memory.

use rustc_hash::{FxHashMap, FxHashSet};
use utxokeep_core::{
    AddressKey, AddressRow, AddressRowKey, CoinFacts, Height, OutPoint, SpentAddressRow,
    SpentRecord, Txid, UtxoRecord,
};
use utxokeep_kv::Batch;

use crate::tables::{ADDR, ADDR_SPENT, SPENT, UNSPENT};

/// An output as the tables know it: where it belongs in each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coin<'a> {
    pub(crate) outpoint: OutPoint,
    pub(crate) row: AddressRowKey,
    pub(crate) value: u64,
    /// Bytes of its record.
    pub(crate) record: &'a [u8],
}

impl<'a> Coin<'a> {
    pub(crate) fn new(
        outpoint: OutPoint,
        key: AddressKey,
        record: &UtxoRecord<'_>,
        bytes: &'a [u8],
    ) -> Self {
        let row = AddressRowKey {
            key,
            slot: record.slot(),
            tx_index: record.tx_index,
            output_index: outpoint.index(),
        };
        Self { outpoint, row, value: record.value, record: bytes }
    }
}

/// Which tables a change touches. Apply and undo both go through here, so no table can be known to
/// only one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// Whether the address index is kept.
    pub(crate) address_index: bool,
}

impl Rows {
    /// Writes the rows of a live output.
    pub(crate) fn put_live(self, batch: &mut Batch, coin: &Coin<'_>) {
        batch.put(UNSPENT, &coin.outpoint.to_key(), coin.record);
        if self.address_index {
            let row = AddressRow { txid: *coin.outpoint.txid(), value: coin.value };
            batch.put(ADDR, &coin.row.to_key(), &row.to_bytes());
        }
    }

    /// Deletes the rows of a live output.
    pub(crate) fn delete_live(self, batch: &mut Batch, outpoint: OutPoint, row: &AddressRowKey) {
        batch.delete(UNSPENT, &outpoint.to_key());
        if self.address_index {
            batch.delete(ADDR, &row.to_key());
        }
    }

    /// Writes the rows of a spent output. One that its own block spent was never visible at any
    /// height, so it has no address row.
    pub(crate) fn put_spent(self, batch: &mut Batch, coin: &Coin<'_>, by: Txid, at: Height) {
        let spent = SpentRecord { spent_by: by, spent_height: at, record: coin.record };
        batch.put_with(SPENT, &coin.outpoint.to_key(), |out| spent.encode_into(out));
        if self.address_index && coin.row.slot < u64::from(at.get()) {
            let row = AddressRow { txid: *coin.outpoint.txid(), value: coin.value };
            let row = SpentAddressRow { row, spent_height: at };
            batch.put(ADDR_SPENT, &coin.row.to_key(), &row.to_bytes());
        }
    }

    /// Deletes the rows of a spent output.
    pub(crate) fn delete_spent(
        self,
        batch: &mut Batch,
        outpoint: OutPoint,
        row: &AddressRowKey,
        at: Height,
    ) {
        batch.delete(SPENT, &outpoint.to_key());
        if self.address_index && row.slot < u64::from(at.get()) {
            batch.delete(ADDR_SPENT, &row.to_key());
        }
    }
}

/// A created output that is not in the tables yet.
#[derive(Debug, Clone, Copy)]
struct YoungCoin {
    outpoint: OutPoint,
    row: AddressRowKey,
    value: u64,
    height: Height,
    record_start: usize,
    record_len: u32,
    is_coinbase: bool,
    is_live: bool,
}

/// Created and spent outputs since the last cut.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    young: Vec<YoungCoin>,
    by_outpoint: FxHashMap<OutPoint, u32>,
    records: Vec<u8>,
    gone: Vec<(OutPoint, AddressRowKey)>,
    gone_set: FxHashSet<OutPoint>,
    live: usize,
    live_record_bytes: usize,
}

/// Number of an output among the created ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YoungId(u32);

impl Pending {
    /// Adds a created output.
    pub(crate) fn create(&mut self, outpoint: OutPoint, key: AddressKey, record: &UtxoRecord<'_>) {
        let record_start = self.records.len();
        record.encode_into(&mut self.records);
        let record_len = self.records.len() - record_start;
        let id = u32::try_from(self.young.len()).expect("a batch is cut long before 2^32 outputs");
        self.by_outpoint.insert(outpoint, id);
        self.young.push(YoungCoin {
            outpoint,
            row: Coin::new(outpoint, key, record, &[]).row,
            value: record.value,
            height: record.height,
            record_start,
            record_len: u32::try_from(record_len).expect("a record is below 4 GiB"),
            is_coinbase: record.is_coinbase,
            is_live: true,
        });
        self.live += 1;
        self.live_record_bytes += record_len;
    }

    /// The created output of this name that is still live.
    pub(crate) fn find(&self, outpoint: &OutPoint) -> Option<YoungId> {
        self.by_outpoint.get(outpoint).map(|&id| YoungId(id))
    }

    /// Whether an output of the tables was spent since the last cut.
    pub(crate) fn is_gone(&self, outpoint: &OutPoint) -> bool {
        self.gone_set.contains(outpoint)
    }

    pub(crate) fn facts(&self, id: YoungId) -> CoinFacts {
        let coin = &self.young[id.0 as usize];
        CoinFacts { value: coin.value, height: coin.height, is_coinbase: coin.is_coinbase }
    }

    pub(crate) fn coin(&self, id: YoungId) -> Coin<'_> {
        let YoungCoin { outpoint, row, value, record_start, record_len, .. } =
            self.young[id.0 as usize];
        let record = &self.records[record_start..record_start + record_len as usize];
        Coin { outpoint, row, value, record }
    }

    /// Spends a created output.
    pub(crate) fn spend_young(&mut self, id: YoungId) {
        let coin = &mut self.young[id.0 as usize];
        assert!(coin.is_live, "find() answers live outputs only");
        coin.is_live = false;
        self.live -= 1;
        self.live_record_bytes -= coin.record_len as usize;
        let outpoint = coin.outpoint;
        self.by_outpoint.remove(&outpoint);
    }

    /// Spends an output of the tables.
    pub(crate) fn spend_old(&mut self, outpoint: OutPoint, row: AddressRowKey) {
        self.gone.push((outpoint, row));
        self.gone_set.insert(outpoint);
    }

    /// Rows the cut will write and their bytes, roughly.
    pub(crate) fn size(&self) -> (usize, usize) {
        let (new, gone) = (self.live, self.gone.len());
        let key_bytes = OutPoint::KEY_LEN + AddressRowKey::LEN;
        let bytes = new * (key_bytes + AddressRow::LEN) + self.live_record_bytes + gone * key_bytes;
        (2 * (new + gone), bytes)
    }

    /// Memory held for the cut and during it.
    pub(crate) fn memory_bytes(&self) -> usize {
        let (rows, bytes) = self.size();
        let young = self.young.len() * (size_of::<YoungCoin>() + 2 * size_of::<OutPoint>());
        bytes + rows * 32 + young + self.records.len() + self.gone.len() * 160
    }

    /// Appends the net effect on the tables of live outputs and starts afresh.
    pub(crate) fn cut(&mut self, rows: Rows, batch: &mut Batch) {
        // Deletes first: a replaced output has both, and the last write of a row wins.
        for (outpoint, row) in &self.gone {
            rows.delete_live(batch, *outpoint, row);
        }
        for (id, coin) in (0u32..).zip(&self.young) {
            if coin.is_live {
                rows.put_live(batch, &self.coin(YoungId(id)));
            }
        }
        self.young.clear();
        self.by_outpoint.clear();
        self.records.clear();
        self.gone.clear();
        self.gone_set.clear();
        (self.live, self.live_record_bytes) = (0, 0);
    }
}
