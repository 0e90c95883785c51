//! Which rows an output has in the tables.

use utxokeep_core::{
    AddressRow, AddressRowKey, BlockEntry, BlockStamp, Encoded, Height, IndexKey, Network,
    OutPoint, SpentAddressRow, SpentRecord, Txid, UtxoRecord,
};
use utxokeep_kv::Batch;

use crate::{
    IndexSettings,
    tables::{ADDR, ADDR_SPENT, SPENT, UNSPENT},
};

/// A record as it is stored.
pub(crate) type RecordBytes<'a> = Encoded<'a, UtxoRecord<'static>>;

/// Where the bytes of a record are not needed.
pub(crate) const NO_RECORD: RecordBytes<'static> = Encoded::new(&[]);

/// An output as the tables know it: where it belongs in each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coin<'a> {
    pub(crate) outpoint: OutPoint,
    pub(crate) height: Height,
    value: u64,
    has_assets: bool,
    /// Whose rows it has: address, payment and stake credential, as far as they are indexed.
    owners: [Option<IndexKey>; 3],
    slot: u64,
    tx_index: u32,
    /// Its record, as it is stored.
    pub(crate) record: RecordBytes<'a>,
}

impl Coin<'_> {
    /// The same without its bytes, for those who only delete its rows.
    pub(crate) fn without_record(self) -> Coin<'static> {
        Coin { record: NO_RECORD, ..self }
    }

    /// Keys of its rows in the address index.
    pub(crate) fn row_keys(&self) -> impl Iterator<Item = AddressRowKey> + use<> {
        let Self { slot, tx_index, outpoint, .. } = *self;
        let output_index = outpoint.index();
        self.owners.into_iter().flatten().map(move |owner| AddressRowKey {
            owner,
            slot,
            tx_index,
            output_index,
        })
    }

    /// Value of each of those rows.
    pub(crate) fn row(&self) -> AddressRow {
        let Self { value, has_assets, .. } = *self;
        AddressRow { txid: *self.outpoint.txid(), value, has_assets }
    }
}

/// Apply and undo both change the tables through these, so no table can be known to only one of
/// them.
impl Coin<'_> {
    /// Writes the rows of a live output.
    pub(crate) fn put_live(&self, batch: &mut Batch) {
        UNSPENT.put(batch, &self.outpoint, &self.record);
        for key in self.row_keys() {
            ADDR.put(batch, &key, &self.row());
        }
    }

    /// Deletes the rows of a live output.
    pub(crate) fn delete_live(&self, batch: &mut Batch) {
        UNSPENT.delete(batch, &self.outpoint);
        for key in self.row_keys() {
            ADDR.delete(batch, &key);
        }
    }

    /// Writes the rows of a spent output. One that its own block spent was never visible at any
    /// height, so it has no address row.
    pub(crate) fn put_spent(&self, batch: &mut Batch, by: Txid, at: &SpentAt) {
        let spent = SpentRecord {
            spent_by: by,
            spent_height: at.height,
            place: at.place,
            record: self.record.bytes(),
        };
        SPENT.put(batch, &self.outpoint, &spent);
        if self.height < at.height {
            let row = SpentAddressRow { row: self.row(), spent_height: at.height };
            for key in self.row_keys() {
                ADDR_SPENT.put(batch, &key, &row);
            }
        }
    }

    /// Deletes the rows of an output spent at `at`.
    pub(crate) fn delete_spent(&self, batch: &mut Batch, at: Height) {
        SPENT.delete(batch, &self.outpoint);
        if self.height < at {
            for key in self.row_keys() {
                ADDR_SPENT.delete(batch, &key);
            }
        }
    }
}

/// The block that spends outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpentAt {
    pub(crate) height: Height,
    pub(crate) place: Option<BlockStamp>,
}

impl SpentAt {
    pub(crate) fn new(height: Height, entry: &BlockEntry) -> Self {
        Self { height, place: entry.place() }
    }
}

/// Which rows outputs have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    network: Network,
    address_index: bool,
    payment_index: bool,
    stake_index: bool,
}

impl Rows {
    pub(crate) fn new(settings: &IndexSettings) -> Self {
        let IndexSettings { address_index, payment_index, stake_index, .. } = *settings;
        let network = settings.network();
        let has_credentials = network.is_cardano();
        Self {
            network,
            address_index,
            payment_index: payment_index && has_credentials,
            stake_index: stake_index && has_credentials,
        }
    }

    /// The most rows an output has in the address index.
    pub(crate) fn index_rows_max(self) -> usize {
        [self.address_index, self.payment_index, self.stake_index].map(usize::from).iter().sum()
    }

    /// The output that a record describes.
    pub(crate) fn coin<'a>(
        self,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
        bytes: RecordBytes<'a>,
    ) -> Coin<'a> {
        let address = self.address_index.then(|| IndexKey::address(self.network, record.address));
        let [payment, stake] = IndexKey::credentials(self.network, record.address);
        Coin {
            outpoint,
            height: record.height,
            value: record.value,
            has_assets: record.details.has_assets(),
            owners: [
                address,
                payment.filter(|_| self.payment_index),
                stake.filter(|_| self.stake_index),
            ],
            slot: record.slot(),
            tx_index: record.tx_index,
            record: bytes,
        }
    }
}
