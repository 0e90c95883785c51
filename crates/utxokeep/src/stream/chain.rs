//! The light stream of a chain: how far it has come and gone back, and how far those are that follow
//! it. It is what a pruner needs that runs without the chain database.
//!
//! # Invariants
//!
//! * What happened to the chain and how far its consumers are is read from one snapshot.
//! * What a client is told of consumers never lies above the place that its cursor names, and is
//!   counted on the chain: a consumer on a branch that was left counts as far as the branches share it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout},
};
use utxokeep_index::{ChainIndex, Cursor};
use utxokeep_kv::Kv;

use super::{
    Cut, Start, StreamError, Streams, cursor_text,
    hub::Begun,
    meter,
    produce::{End, failed, slow, stops, until_stopped},
    reader::behind,
};
use crate::consumers::Seen;

/// Messages on their way to a client; each is below a KiB.
const QUEUE_MESSAGES: usize = 16;

/// A consumer of the chain log, and the newest block whose effects it has committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChainConsumer {
    /// Its name.
    pub name: String,
    /// Height of that block, on the chain as it is now.
    pub height: u32,
}

/// What became of the chain since the last event, and how far its consumers are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChainMoved {
    /// Where to go on from.
    pub cursor: String,
    /// The last block that stayed, when some left the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub fork: Option<u32>,
    /// The newest block that joined it, after others left. The first event of a stream names the block
    /// of the cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub newest: Option<u32>,
    /// The newest block that the block persister has written, not above the block of the cursor;
    /// absent where there is no persister.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub persisted: Option<u32>,
    /// The named consumer that has come least far, a pruner apart; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub slowest: Option<ChainConsumer>,
    /// After so many seconds of silence the server says that it is alive.
    pub heartbeat_secs: u32,
}

/// What is sent to a client of the light stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainSent {
    /// The chain moved, or a consumer did.
    Moved(ChainMoved),
    /// The connection is alive; the cursor has not changed.
    Heartbeat(String),
    /// The stream ends here.
    Cut(Cut),
}

/// An open light stream. Dropping it ends it.
#[derive(Debug)]
pub struct ChainSubscription {
    receiver: mpsc::Receiver<ChainSent>,
    cut: Arc<Mutex<Option<Cut>>>,
    _place: OwnedSemaphorePermit,
    _open: meter::Open,
}

impl ChainSubscription {
    /// What to send next; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<ChainSent> {
        if let Some(sent) = self.receiver.recv().await {
            return Some(sent);
        }
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take();
        cut.map(ChainSent::Cut)
    }
}

/// Reads on from a cursor, from one snapshot.
fn look<K: Kv>(index: &ChainIndex<K>, cursor: Cursor) -> Result<Seen, StreamError> {
    let view = index.view()?;
    Ok(Seen::from(&view, cursor)?)
}

/// The place that a client names. Unlike the change stream this one needs no index, only the log.
fn place<K: Kv>(index: &ChainIndex<K>, start: Start) -> Result<Cursor, StreamError> {
    let view = index.view()?;
    let log = view.log();
    let tip = log.tip();
    match start {
        Start::Behind(cursor) if cursor.applied().is_some() => Err(StreamError::BadParameter(
            "from: this cursor is inside a block; send one of this stream".to_owned(),
        )),
        Start::Behind(cursor) => Ok(cursor.block().into()),
        Start::Now => Ok(tip.map_or(Cursor::START, |tip| tip.cursor())),
        Start::Height(height) => {
            let tip = tip.map(|tip| tip.height).unwrap_or_default();
            let above = || StreamError::AboveTip { height, tip };
            log.block(height)?.map(|block| block.cursor()).ok_or_else(above)
        }
    }
}

impl Streams {
    /// Opens a light stream. Its first event is read before it is open, and tells how far everything
    /// is: a wrong place is an error and not the end of a stream.
    pub async fn open_chain(
        &self,
        start: Start,
        face: &'static str,
    ) -> Result<ChainSubscription, StreamError> {
        let opened = self.open_chain_counted(start, face).await;
        if let Err(error) = &opened {
            meter::refused(face, error.code());
        }
        opened
    }

    async fn open_chain_counted(
        &self,
        start: Start,
        face: &'static str,
    ) -> Result<ChainSubscription, StreamError> {
        let Begun { place: permit, tip } = self.begin()?;
        let index = self.index().clone();
        let reads = Arc::clone(self.reads()).acquire_owned().await;
        let first = spawn_blocking(move || {
            let _reads = reads;
            let cursor = place(&index, start)?;
            Ok::<_, StreamError>((cursor, look(&index, cursor)?))
        });
        let (cursor, first) = first.await.map_err(|_| StreamError::BrokeDown)??;
        let (sender, receiver) = mpsc::channel(QUEUE_MESSAGES);
        let cut = Arc::<Mutex<Option<Cut>>>::default();
        let stopped = self.stopped();
        let producer = Producer { streams: self.clone(), cursor, told: None, tip, stopped, sender };
        let last = Arc::clone(&cut);
        tokio::spawn(async move {
            let cut = producer.run(first).await;
            if let Some(cut) = &cut {
                meter::cut(face, cut.reason.name());
            }
            *last.lock().unwrap_or_else(PoisonError::into_inner) = cut;
        });
        Ok(ChainSubscription { receiver, cut, _place: permit, _open: meter::Open::new(face) })
    }
}

/// The task behind one light stream.
struct Producer {
    streams: Streams,
    /// Behind what was told.
    cursor: Cursor,
    /// What the client was last told of consumers; `None` before the first event.
    told: Option<crate::consumers::Others>,
    tip: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
    sender: mpsc::Sender<ChainSent>,
}

impl Producer {
    /// Runs until the stream has to end; says why, unless the client is gone.
    async fn run(mut self, first: Seen) -> Option<Cut> {
        let (reason, message, start_from) = self.follow(first).await.err().flatten()?;
        Some(Cut { reason, message, cursor: behind(self.cursor), start_from })
    }

    async fn follow(&mut self, first: Seen) -> Result<(), End> {
        let mut next = Some(first);
        loop {
            let seen = if let Some(first) = next.take() {
                first
            } else {
                // Seen before the log is read: what comes in between wakes this task again.
                self.tip.mark_unchanged();
                self.read().await?
            };
            let has_moved = seen.moved.is_some();
            if has_moved || self.told != Some(seen.others) {
                self.tell(seen).await?;
            }
            if !has_moved {
                self.wait().await?;
            }
        }
    }

    async fn read(&self) -> Result<Seen, End> {
        let permit = tokio::select! {
            permit = Arc::clone(self.streams.reads()).acquire_owned() => permit,
            () = self.sender.closed() => return Err(None),
        };
        let (index, cursor) = (self.streams.index().clone(), self.cursor);
        let read = spawn_blocking(move || {
            let _permit = permit;
            look(&index, cursor)
        });
        let read = read.await.unwrap_or(Err(StreamError::BrokeDown));
        read.map_err(|error| Some(failed(&error)))
    }

    async fn tell(&mut self, Seen { moved, others }: Seen) -> Result<(), End> {
        let is_first = self.told.is_none();
        let cursor = moved.map_or(self.cursor, |moved| moved.cursor);
        let newest = match moved {
            Some(moved) => moved.newest,
            None if is_first => cursor.height(),
            None => None,
        };
        let number = |height: Option<utxokeep_core::Height>| height.map(utxokeep_core::Height::get);
        let told = ChainMoved {
            cursor: cursor_text(&behind(cursor)),
            fork: number(moved.and_then(|moved| moved.fork)),
            newest: number(newest),
            persisted: number(others.persisted),
            slowest: others.slowest.map(|slowest| ChainConsumer {
                name: slowest.name.as_str().to_owned(),
                height: slowest.height.get(),
            }),
            heartbeat_secs: self.streams.config().heartbeat_secs.get(),
        };
        self.send(ChainSent::Moved(told)).await?;
        (self.cursor, self.told) = (cursor, Some(others));
        Ok(())
    }

    /// A client that takes nothing for too long is cut off.
    async fn send(&mut self, sent: ChainSent) -> Result<(), End> {
        let config = self.streams.config();
        let patience = Duration::from_secs(config.slow_reader_secs_max.get().into());
        tokio::select! {
            done = timeout(patience, self.sender.send(sent)) => match done {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(None),
                Err(_) => Err(Some(slow(config))),
            },
            () = until_stopped(&mut self.stopped) => Err(Some(stops())),
        }
    }

    /// Waits until the chain or a consumer moves, and says meanwhile that the connection is alive.
    async fn wait(&mut self) -> Result<(), End> {
        let heartbeat = Duration::from_secs(self.streams.config().heartbeat_secs.get().into());
        loop {
            let until = Instant::now() + heartbeat;
            tokio::select! {
                moved = self.tip.changed() => {
                    if moved.is_err() {
                        // No thread counts: look again with every heartbeat.
                        sleep_until(until).await;
                    }
                    return Ok(());
                }
                () = sleep_until(until) => {
                    let cursor = cursor_text(&behind(self.cursor));
                    self.send(ChainSent::Heartbeat(cursor)).await?;
                }
                () = self.sender.closed() => return Err(None),
                () = until_stopped(&mut self.stopped) => return Err(Some(stops())),
            }
        }
    }
}

/// The end of a light stream, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChainCut {
    /// Where to go on from.
    pub cursor: String,
    /// `slow_reader`, `server_stops`, `past_window` or `failed`.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// With `past_window`: the lowest height to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub start_from: Option<u32>,
}

/// An event of the light stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum ChainEvent {
    /// The chain moved, or a consumer did.
    Moved(ChainMoved),
    /// The server ends the stream.
    Cut(ChainCut),
}

impl ChainEvent {
    /// The end.
    #[must_use]
    pub fn cut(cut: &Cut) -> Self {
        Self::Cut(ChainCut {
            cursor: cursor_text(&cut.cursor),
            reason: cut.reason.name().to_owned(),
            message: cut.message.clone(),
            start_from: cut.start_from.map(utxokeep_core::Height::get),
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Moved(_) => "moved",
            Self::Cut(_) => "cut",
        }
    }

    /// Where a client goes on from.
    #[must_use]
    pub fn cursor(&self) -> &str {
        match self {
            Self::Moved(moved) => &moved.cursor,
            Self::Cut(cut) => &cut.cursor,
        }
    }
}
