//! Which rows an output has in the tables.

use utxokeep_core::{
    AddressRow, AddressRowKey, Height, Network, OutPoint, SpentAddressRow, SpentRecord, Txid,
    UtxoRecord,
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
        network: Network,
        record: &UtxoRecord<'_>,
        bytes: &'a [u8],
    ) -> Self {
        let row = AddressRowKey {
            key: network.address_key(record.address),
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
