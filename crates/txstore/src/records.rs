//! Records that are atomic one at a time below the node store: Redis or Valkey Cluster, or memory.
//!
//! The same rules decide. What a call reads it remembers by version; what it decides is committed
//! only if all of that is still the same, over several cells by the protocol of [`commit`].
//!
//! A read is no snapshot: each record is read at one moment, several of them at several.

mod cells;
mod commit;
mod early;
mod fault;
mod groups;
mod large;
mod layout;
mod lock;
mod patch;
mod plan;
mod resolve;
mod rows;
mod scan;
mod settings;
mod stamp;
mod status;
mod sweep;
mod view;

use std::sync::{Arc, Mutex};

use utxokeep_core::{Corrupt, Found, NotOpened, Opening};
use utxokeep_kv::OpenMode;
use utxokeep_records::{Barrier, ReadCell, ReadOnlyRecords, RecordStore, WriteCell};

#[cfg(feature = "testing")]
pub use self::fault::{Fault as RecordFault, RecordFaults};
use self::{
    cells::Cells,
    early::EarlyLocks,
    layout::{FORMAT, Layout, NUMBERS},
    patch::{opened, sealed},
    stamp::ChangeId,
};
pub use self::{
    cells::RecordContext,
    lock::{CreationLock, creation_lock_ttl_s},
    settings::RecordSettings,
};
use crate::{
    engine::{NodeStore, StoreSettings},
    error::{StoreError, StoreOpenError},
    locks::Locks,
};

/// Whether a key is that of a transaction, its pages and locks included.
#[cfg(feature = "bench")]
pub(crate) fn is_record_key(key: &utxokeep_records::Key) -> bool {
    layout::txid_of(key).is_some()
}

/// The field that holds what is not committed yet.
#[cfg(feature = "bench")]
pub(crate) const fn staging_field() -> &'static [u8] {
    layout::STAGING
}

/// Calls that are ended when a store is opened, and with each sweep.
const SWEPT_MAX: usize = 10_000;

/// A node store's cells, and locks between the threads of this program.
#[derive(Debug)]
pub(crate) struct RecordBackend {
    cells: Cells,
    mode: OpenMode,
    /// Threads of one program need not fight over records with conditional writes: who names the
    /// same transaction waits here. Nothing rests on it.
    locks: Locks,
    early: EarlyLocks,
    /// The change of numbers that is under way through this store.
    changing: Mutex<Option<ChangeId>>,
}

impl NodeStore {
    /// A store on records that are atomic one at a time.
    pub fn on_records(
        port: Arc<dyn RecordStore>,
        settings: StoreSettings,
        records: RecordSettings,
        context: RecordContext,
        mode: OpenMode,
    ) -> Result<Self, StoreOpenError> {
        let backend = RecordBackend::open(port, records, context, mode)?;
        Self::new(Box::new(backend), settings).compared()
    }
}

impl RecordBackend {
    /// Opens or creates a store, if it has the numbers that it is opened with.
    pub(crate) fn open(
        port: Arc<dyn RecordStore>,
        settings: RecordSettings,
        context: RecordContext,
        mode: OpenMode,
    ) -> Result<Self, StoreOpenError> {
        settings.check()?;
        let port = if mode.may_write() { port } else { Arc::new(ReadOnlyRecords::new(port)) };
        let cells = Cells::new(port, settings, context);
        let wanted = Numbers { format: FORMAT, layout: cells.layout };
        let mut found = Numbers::read(&cells)?;
        let state = match found {
            None => Found::Nothing,
            Some(Numbers { format: FORMAT, .. }) => Found::Current,
            Some(Numbers { format, .. }) if format > FORMAT => {
                return Err(StoreOpenError::NewerFormat { found: format, known: FORMAT });
            }
            Some(_) => Found::Older,
        };
        match mode.decide(state) {
            Ok(Opening::Create) => {
                wanted.write(&cells)?;
                found = Numbers::read(&cells)?;
            }
            // There is no older format.
            Ok(Opening::Use | Opening::Upgrade) => {}
            Err(NotOpened::Missing) => return Err(StoreOpenError::Missing),
            Err(NotOpened::Outdated) => {
                let found = found.map_or(0, |found| found.format);
                return Err(StoreOpenError::OlderFormat { found, known: FORMAT });
            }
        }
        let stored = found.ok_or(StoreOpenError::Missing)?.layout;
        for (name, stored, configured) in [
            ("shards", u32::from(stored.shards), u32::from(settings.shards)),
            ("outputs_per_record", stored.outputs_per_record, settings.outputs_per_record),
        ] {
            if stored != configured {
                return Err(StoreOpenError::OtherNumber { name, stored, configured });
            }
        }
        let (locks, early) = (Locks::new(), EarlyLocks::default());
        let backend = Self { cells, mode, locks, early, changing: Mutex::new(None) };
        if mode.may_write() {
            backend.cells.sweep(SWEPT_MAX)?;
        }
        Ok(backend)
    }
}

/// The numbers of a store: written when it is created, and compared whenever it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    format: u64,
    layout: Layout,
}

impl Numbers {
    fn encode(self) -> Vec<u8> {
        let mut bytes = self.format.to_be_bytes().to_vec();
        bytes.extend(self.layout.shards.to_be_bytes());
        bytes.extend(self.layout.outputs_per_record.to_be_bytes());
        sealed(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        const WHAT: &str = "numbers of the store";
        let content = opened(WHAT, bytes)?;
        let parts = content.split_first_chunk::<8>().and_then(|(format, rest)| {
            let (shards, rest) = rest.split_first_chunk::<2>()?;
            // A newer format may say more.
            let (outputs, _) = rest.split_first_chunk::<4>()?;
            Some((*format, *shards, *outputs))
        });
        let (format, shards, outputs) = parts.ok_or_else(|| Corrupt::new(WHAT, "it is torn"))?;
        let shards = u16::from_be_bytes(shards);
        let layout = Layout { shards, outputs_per_record: u32::from_be_bytes(outputs) };
        Ok(Self { format: u64::from_be_bytes(format), layout })
    }

    fn read(cells: &Cells) -> Result<Option<Self>, StoreError> {
        let read = ReadCell::fields(Layout::numbers(), [NUMBERS.to_vec()]);
        let Some(cell) = cells.read_one(read)? else { return Ok(None) };
        let bytes = cell.get(NUMBERS).unwrap_or_default();
        Ok(Some(Self::decode(bytes)?))
    }

    /// Of several programs that create a store at the same time one decides.
    fn write(self, cells: &Cells) -> Result<(), StoreError> {
        let write = WriteCell::create(Layout::numbers(), cells.version(None));
        let _ = cells.send_one(write.set(NUMBERS, self.encode()), Barrier::Safe)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_records::MemoryRecords;

    use super::*;

    #[test]
    fn numbers_of_a_store_are_pinned() {
        let layout = Layout { shards: 1_024, outputs_per_record: 128 };
        let numbers = Numbers { format: 1, layout };
        let bytes = numbers.encode();
        assert_eq!(bytes, sealed(vec![0, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 128]));
        assert_eq!(Numbers::decode(&bytes).unwrap(), numbers);
        assert!(Numbers::decode(&bytes[1..]).is_err());
    }

    #[test]
    fn a_store_is_opened_only_with_the_numbers_it_was_created_with() {
        let port: Arc<dyn RecordStore> = Arc::new(MemoryRecords::new());
        let settings = RecordSettings { shards: 4, ..RecordSettings::default() };
        let open = |settings, mode| {
            RecordBackend::open(Arc::clone(&port), settings, RecordContext::default(), mode)
        };
        assert!(matches!(open(settings, OpenMode::Read), Err(StoreOpenError::Missing)));
        open(settings, OpenMode::Create).unwrap();
        open(settings, OpenMode::Read).unwrap();
        let other = RecordSettings { shards: 8, ..settings };
        let refused = open(other, OpenMode::Create).unwrap_err();
        assert!(matches!(refused, StoreOpenError::OtherNumber { name: "shards", stored: 4, .. }));
        let other = RecordSettings { outputs_per_record: 20_000, ..settings };
        let refused = open(other, OpenMode::Create).unwrap_err();
        let is_named =
            matches!(refused, StoreOpenError::OtherNumber { name: "outputs_per_record", .. });
        assert!(is_named, "{refused}");
        for wrong in [
            RecordSettings { shards: 3, ..settings },
            RecordSettings { outputs_per_record: 0, ..settings },
            RecordSettings { wait_ms_max: 1, ..settings },
            RecordSettings { attempts_max: 0, ..settings },
        ] {
            assert!(matches!(
                open(wrong, OpenMode::Create),
                Err(StoreOpenError::RecordSettings(_))
            ));
        }
    }
}
