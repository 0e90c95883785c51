//! What a node store does in a second, and on record engines a bare client beside it, in the same run.
//!
//! The bare client makes the calls again that the store made of its engine: the same cells, fields and
//! barriers under other names, without rules, locks or encoding above them. The floor is one read and
//! one conditional write for each record that an operation changes, in two calls.

mod work;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use utxokeep_core::node::NodeError;
use utxokeep_kv::OpenMode;
use utxokeep_records::{
    RecordError, RecordStore,
    bench::{Recorder, Replay, Sample, TraceSize},
};

use self::work::Clients;
use crate::{
    engine::{NodeStore, StoreSettings},
    error::{StoreError, StoreOpenError},
    records::{RecordContext, RecordSettings, is_record_key, staging_field},
};

/// Calls that a bare client prepares for, as a multiple of those that the store made.
const PREPARED: u64 = 4;

/// Records that one measurement of a bare client prepares at most.
const PREPARED_RECORDS_MAX: u64 = 20_000;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bare engine failed, or answered otherwise than it had answered the store.
    #[error("the bare client of the engine failed: {0}")]
    Bare(#[from] RecordError),
    /// The store refused an operation; one that is refused is no figure.
    #[error("an operation was refused: {0}")]
    Refused(NodeError),
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchOperation {
    /// Transactions are stored that spend nothing here.
    Create,
    /// An output of a stored transaction is spent.
    Spend,
    /// A transaction spends an output of a stored one and is stored: one commit for a whole list.
    Independent,
    /// The same, where each transaction of a list spends an output of the one before.
    Chain,
}

impl BenchOperation {
    /// In the order in which they are measured: later ones use what the first stored.
    pub const ALL: [Self; 4] = [Self::Create, Self::Spend, Self::Independent, Self::Chain];

    /// A word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Spend => "spend",
            Self::Independent => "spend+create",
            Self::Chain => "chain",
        }
    }
}

/// One measurement, in operations per second over all clients.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchRow {
    /// What was done.
    pub operation: BenchOperation,
    /// Operations in one call.
    pub batch: usize,
    /// Threads that called at once.
    pub clients: usize,
    /// The node store.
    pub store: f64,
    /// The bare engine, where there is one.
    pub bare: Option<BareRates>,
}

/// What a bare client of the engine reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BareRates {
    /// With the same reads and writes as the store.
    pub same: f64,
    /// With one read and one conditional write for each record.
    pub floor: f64,
    /// What one call of the store asks of the engine.
    pub size: TraceSize,
}

/// A pair of batch size and clients.
#[derive(Debug, Clone, Copy)]
pub struct BenchCase<'c> {
    /// Operations in one call.
    pub batch: usize,
    /// Threads that call at once.
    pub clients: usize,
    /// How long each figure is measured.
    pub lasts: Duration,
    /// Ends it early; what was not measured by then is left out.
    pub stop: &'c AtomicBool,
}

/// A record engine, and the same store twice over it: as it is, and with its calls noted.
pub struct BareEngine {
    port: Arc<dyn RecordStore>,
    recorder: Arc<Recorder<dyn RecordStore>>,
    recorded: NodeStore,
    shards: u16,
}

impl fmt::Debug for BareEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BareEngine({}, {} shards)", self.port.engine(), self.shards)
    }
}

impl BareEngine {
    /// Opens a store that nobody else uses, and the same store with its calls noted.
    pub fn open(
        port: Arc<dyn RecordStore>,
        settings: StoreSettings,
        records: RecordSettings,
    ) -> Result<(NodeStore, Self), StoreOpenError> {
        let open = |port: Arc<dyn RecordStore>| {
            let context = RecordContext::default();
            NodeStore::on_records(port, settings, records, context, OpenMode::Create)
        };
        let store = open(Arc::clone(&port))?;
        let recorder = Arc::new(Recorder::new(Arc::clone(&port)));
        let watched = open(Arc::clone(&recorder) as Arc<dyn RecordStore>)?;
        Ok((store, Self { port, recorder, recorded: watched, shards: records.shards }))
    }
}

/// Parts of a figure: each is measured in so many slices, the store and the bare client by turns, and is
/// the median of them. A machine that does something else for a moment spoils one slice.
const SLICES: u32 = 3;

/// Operations that are under way at once above which one slice is enough: a single call of each client
/// takes longer than a slice is to last.
const SLICED_MAX: usize = 4_000;

/// Measures every operation on a store that is empty, and hands each row over as it comes.
pub fn measure(
    store: &NodeStore,
    bare: Option<&BareEngine>,
    case: &BenchCase<'_>,
    each: &mut dyn FnMut(BenchRow),
) -> Result<(), BenchError> {
    let slices = if case.batch * case.clients > SLICED_MAX { 1 } else { SLICES };
    let slice = BenchCase { lasts: case.lasts / slices, ..*case };
    let is_stopped = || case.stop.load(Ordering::Relaxed);
    let mut clients = Clients::new(&slice);
    // Connections are made, and stamps written.
    clients.call_once(store)?;
    let mut first = 0;
    for operation in BenchOperation::ALL {
        let beside = bare.map(|bare| Beside::new(bare, operation, &slice)).transpose()?;
        let (mut own, mut same, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..slices {
            let (rate, calls) = clients.measure(store, operation)?;
            own.push(rate);
            if let Some(beside) = &beside {
                same.push(beside.rate(&beside.samples, calls, &mut first)?);
                floor.push(beside.rate(&beside.floor, calls, &mut first)?);
            }
            if is_stopped() {
                return Ok(());
            }
        }
        let bare = beside.map(|beside| BareRates {
            same: median(same),
            floor: median(floor),
            size: beside.samples.first().map(Sample::size).unwrap_or_default(),
        });
        let BenchCase { batch, clients, .. } = *case;
        each(BenchRow { operation, batch, clients, store: median(own), bare });
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// Calls of the store for one operation, as a bare client makes them, and the least they could be.
struct Beside<'b> {
    bare: &'b BareEngine,
    case: &'b BenchCase<'b>,
    samples: Vec<Sample>,
    floor: Vec<Sample>,
}

impl<'b> Beside<'b> {
    fn new(
        bare: &'b BareEngine,
        operation: BenchOperation,
        case: &'b BenchCase<'b>,
    ) -> Result<Self, BenchError> {
        let samples = work::samples(&bare.recorded, &bare.recorder, operation, case.batch)?;
        let floor = |sample: &Sample| sample.floor(is_record_key, staging_field());
        let floor = samples.iter().map(floor).collect();
        Ok(Self { bare, case, samples, floor })
    }

    /// The bare engine, after the store made so many calls for each client.
    fn rate(&self, samples: &[Sample], calls: u64, first: &mut u64) -> Result<f64, RecordError> {
        let records = (self.case.batch * self.case.clients) as u64;
        let most = (PREPARED_RECORDS_MAX / records).max(1);
        let replay = Replay {
            clients: self.case.clients,
            operations: self.case.batch,
            calls_max: (calls * PREPARED + 1).min(most),
            lasts: self.case.lasts,
            shards: self.bare.shards,
            first: *first,
            stop: self.case.stop,
        };
        *first = replay.next();
        replay.measure(self.bare.port.as_ref(), samples)
    }
}
