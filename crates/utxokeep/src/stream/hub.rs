//! Many readers of the change stream at a time, each behind a connection of its own.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    thread,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::spawn_blocking,
};
use utxokeep_core::{Network, StreamCursor};
use utxokeep_index::{ChainIndex, TipSignal};
use utxokeep_kv::RocksKv;

use super::{
    BlockChanges, Start, StreamConsumers, StreamError, StreamLimits, StreamReader, StreamRequest,
    meter,
    produce::{Cut, Producer, Queued},
};
use crate::config::StreamConfig;

/// Messages on their way to a client; their bytes are counted apart.
const QUEUE_MESSAGES: usize = 4_096;

/// How long the thread that hears of new blocks sleeps before it looks whether it is still needed.
const WAKE_LOOK: Duration = Duration::from_millis(500);

/// What a stream has to say.
#[derive(Debug, Clone, Copy)]
pub enum Item<'e> {
    /// A block joined the chain or left it.
    Changes(&'e BlockChanges),
    /// Nothing that is watched happened up to this place.
    Checkpoint(StreamCursor),
    /// The connection is alive.
    Heartbeat(StreamCursor),
}

impl Item<'_> {
    /// Its name in events and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        use utxokeep_core::Direction;
        match self {
            Self::Changes(changes) => match changes.direction {
                Direction::Apply => "apply",
                Direction::Undo => "undo",
            },
            Self::Checkpoint(_) => "checkpoint",
            Self::Heartbeat(_) => "heartbeat",
        }
    }
}

/// How a face writes what a stream says.
pub trait StreamFace: Send + Sync + 'static {
    /// What it sends.
    type Message: Send + 'static;
    /// Its name in metrics.
    const NAME: &'static str;

    /// The message for an item and its length in bytes; `None` where the face does not say it.
    fn message(&self, item: Item<'_>, network: Network) -> Option<(Self::Message, usize)>;
}

/// The change streams of an index; clones share their limits.
#[derive(Debug, Clone)]
pub struct Streams {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    index: ChainIndex<RocksKv>,
    config: StreamConfig,
    /// One permit for each stream.
    places: Arc<Semaphore>,
    /// One permit for each read that runs.
    reads: Arc<Semaphore>,
    stopped: watch::Sender<bool>,
    /// How often the tip has moved; there is a thread that counts once there is a stream.
    tip: OnceLock<watch::Receiver<u64>>,
}

/// A stream that may be opened.
pub(super) struct Begun {
    /// Its place among those that are open.
    pub(super) place: OwnedSemaphorePermit,
    /// Wakes it.
    pub(super) tip: watch::Receiver<u64>,
}

impl Streams {
    /// Over an index, within limits.
    #[must_use]
    pub fn new(index: ChainIndex<RocksKv>, config: &StreamConfig) -> Self {
        let permits = |count: u32| Arc::new(Semaphore::new(count as usize));
        let shared = Arc::new(Shared {
            index,
            places: permits(config.connections_max.get()),
            reads: permits(config.concurrent_reads_max.get()),
            stopped: watch::Sender::new(false),
            tip: OnceLock::new(),
            config: config.clone(),
        });
        Self { shared }
    }

    /// Ends every stream with a last event, and opens no other one.
    pub fn stop(&self) {
        self.shared.stopped.send_replace(true);
    }

    /// The named consumers of the index.
    #[must_use]
    pub fn consumers(&self) -> StreamConsumers<RocksKv> {
        let max = self.shared.config.consumers_max.get();
        StreamConsumers::new(self.shared.index.clone(), max)
    }

    /// Opens a stream. Its first events are read before it is, so that a wrong place or a wrong filter
    /// is an error and not the end of a stream.
    pub async fn open<F: StreamFace>(
        &self,
        request: StreamRequest,
        face: F,
    ) -> Result<Subscription<F>, StreamError> {
        let opened = self.open_counted(request, face).await;
        if let Err(error) = &opened {
            meter::refused(F::NAME, error.code());
        }
        opened
    }

    /// A place among the streams that are open, unless there are too many.
    pub(super) fn begin(&self) -> Result<Begun, StreamError> {
        let shared = &self.shared;
        if *shared.stopped.borrow() {
            return Err(StreamError::Stopping);
        }
        let max = shared.config.connections_max.get();
        let place = Arc::clone(&shared.places).try_acquire_owned();
        let place = place.map_err(|_| StreamError::TooManyConnections { max })?;
        let mut tip = self.tip();
        // Seen before the log is read: a block that comes in between is not slept through.
        tip.mark_unchanged();
        Ok(Begun { place, tip })
    }

    pub(super) fn index(&self) -> &ChainIndex<RocksKv> {
        &self.shared.index
    }

    pub(super) fn config(&self) -> &StreamConfig {
        &self.shared.config
    }

    pub(super) fn reads(&self) -> &Arc<Semaphore> {
        &self.shared.reads
    }

    pub(super) fn stopped(&self) -> watch::Receiver<bool> {
        self.shared.stopped.subscribe()
    }

    async fn open_counted<F: StreamFace>(
        &self,
        request: StreamRequest,
        face: F,
    ) -> Result<Subscription<F>, StreamError> {
        let shared = &self.shared;
        let config = &shared.config;
        let Begun { place, tip } = self.begin()?;
        let streams = self.clone();
        let permit = Arc::clone(&shared.reads).acquire_owned().await;
        let opened = spawn_blocking(move || {
            let _permit = permit;
            let mut reader = streams.reader(&request)?;
            let start = reader.cursor();
            let step = reader.step()?;
            Ok::<_, StreamError>((reader, start, step))
        });
        let (reader, start, step) = opened.await.map_err(|_| StreamError::BrokeDown)??;
        let (sender, receiver) = mpsc::channel(QUEUE_MESSAGES);
        let cut = Arc::<Mutex<Option<Cut>>>::default();
        let producer = Producer {
            face: Arc::new(face),
            buffer: Arc::new(Semaphore::new(config.buffer_kib_max.get() as usize)),
            reads: Arc::clone(&shared.reads),
            stopped: shared.stopped.subscribe(),
            config: config.clone(),
            sent: start,
            passed: 0,
            tip,
            sender,
        };
        let last = Arc::clone(&cut);
        tokio::spawn(async move {
            let cut = producer.run(reader, step).await;
            if let Some(cut) = &cut {
                meter::cut(F::NAME, cut.reason.name());
            }
            *last.lock().unwrap_or_else(PoisonError::into_inner) = cut;
        });
        Ok(Subscription { receiver, cut, _place: place, _open: meter::Open::new(F::NAME) })
    }

    /// A reader as a request asks for it.
    fn reader(&self, request: &StreamRequest) -> Result<StreamReader<RocksKv>, StreamError> {
        let Shared { index, config, .. } = self.shared.as_ref();
        let watch = request.watch(index, config.filter_entries_max.get() as usize)?;
        let start = request.start()?;
        let at = match &request.consumer {
            None => start.find(index)?,
            Some(name) => {
                let consumers = self.consumers();
                let known = consumers.cursor(name)?;
                if start == Start::Now {
                    known
                } else {
                    // Whoever comes back with a place has come that far.
                    let at = start.find(index)?;
                    consumers.register(name, Start::Behind(at))?;
                    at
                }
            }
        };
        Ok(StreamReader::new(index.clone(), watch, StreamLimits::of(config), at))
    }

    fn tip(&self) -> watch::Receiver<u64> {
        let start = || {
            let signal = self.shared.index.tip_signal().clone();
            let (sender, receiver) = watch::channel(signal.count());
            let shared = Arc::downgrade(&self.shared);
            let thread = thread::Builder::new().name("stream-wake".to_owned());
            if let Err(error) = thread.spawn(move || wake(&shared, &signal, &sender)) {
                tracing::error!(%error, "streams hear of new blocks late: no thread can be started");
            }
            receiver
        };
        self.shared.tip.get_or_init(start).clone()
    }
}

/// Passes on that the tip has moved, for as long as there are streams.
fn wake(shared: &Weak<Shared>, signal: &TipSignal, tip: &watch::Sender<u64>) {
    let mut seen = *tip.borrow();
    while shared.strong_count() > 0 {
        let count = signal.wait(seen, WAKE_LOOK);
        if count != seen {
            seen = count;
            tip.send_replace(count);
        }
    }
}

/// What is sent to a client next.
#[derive(Debug)]
pub enum Sent<M> {
    /// A message.
    Message(M),
    /// The stream ends here; why, and where to go on.
    Cut(Cut),
}

/// An open stream. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription<F: StreamFace> {
    receiver: mpsc::Receiver<Queued<F::Message>>,
    cut: Arc<Mutex<Option<Cut>>>,
    _place: OwnedSemaphorePermit,
    _open: meter::Open,
}

impl<F: StreamFace> Subscription<F> {
    /// What to send next; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Sent<F::Message>> {
        let Some(queued) = self.receiver.recv().await else {
            let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take();
            return cut.map(Sent::Cut);
        };
        meter::taken(F::NAME, queued.event, queued.bytes);
        Some(Sent::Message(queued.message))
    }
}
