//! The task behind one stream: reads on, queues what a client is to get, and ends it when it must.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout},
};
use utxokeep_core::{Height, StreamCursor};
use utxokeep_kv::Kv;

use super::{Item, Step, StreamError, StreamReader, hub::StreamFace};
use crate::config::StreamConfig;

/// Why a server ends a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutReason {
    /// The client took nothing for too long.
    SlowReader,
    /// The server ends.
    ServerStops,
    /// What comes next is not kept any more.
    PastWindow,
    /// Reading failed.
    Failed,
}

impl CutReason {
    /// Its name for programs; it does not change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowReader => "slow_reader",
            Self::ServerStops => "server_stops",
            Self::PastWindow => "past_window",
            Self::Failed => "failed",
        }
    }
}

/// The end of a stream that the server brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Why.
    pub reason: CutReason,
    /// The same for people, with what helps.
    pub message: String,
    /// Behind the last event that was sent.
    pub cursor: StreamCursor,
    /// The lowest height to start from, when the cursor is of no use any more.
    pub start_from: Option<Height>,
}

/// A message that waits for its client.
#[derive(Debug)]
pub(super) struct Queued<M> {
    pub(super) message: M,
    pub(super) event: &'static str,
    pub(super) bytes: usize,
    /// Its share of what may wait; free again when it is taken.
    _room: OwnedSemaphorePermit,
}

/// A message that is not queued yet.
struct Ready<M> {
    message: M,
    event: &'static str,
    bytes: usize,
    cursor: StreamCursor,
}

/// Ends a stream: with a reason, or in silence because the client is gone.
pub(super) type End = Option<(CutReason, String, Option<Height>)>;

pub(super) struct Producer<F: StreamFace> {
    pub(super) face: Arc<F>,
    /// One permit for each KiB that may wait.
    pub(super) buffer: Arc<Semaphore>,
    pub(super) reads: Arc<Semaphore>,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) tip: watch::Receiver<u64>,
    pub(super) config: StreamConfig,
    /// Behind the last event that was queued.
    pub(super) sent: StreamCursor,
    /// Blocks passed in silence since then.
    pub(super) passed: u32,
    pub(super) sender: mpsc::Sender<Queued<F::Message>>,
}

impl<F: StreamFace> Producer<F> {
    /// Runs until the stream has to end; says why, unless the client is gone.
    pub(super) async fn run<K: Kv + 'static>(
        mut self,
        reader: StreamReader<K>,
        first: Step,
    ) -> Option<Cut> {
        let end = self.follow(reader, first).await.err().flatten();
        let (reason, message, start_from) = end?;
        Some(Cut { reason, message, cursor: self.sent, start_from })
    }

    async fn follow<K: Kv + 'static>(
        &mut self,
        mut reader: StreamReader<K>,
        first: Step,
    ) -> Result<(), End> {
        let network = reader.index().settings().network();
        let mut heartbeat = Instant::now() + self.heartbeat();
        let (mut next, mut started) = (Some(first), Instant::now());
        loop {
            let step = if let Some(first) = next.take() {
                first
            } else {
                started = Instant::now();
                // Seen before the log is read: what comes in between wakes this task again.
                self.tip.mark_unchanged();
                let (back, step) = self.read(reader).await?;
                reader = back;
                step
            };
            let Step { events, blocks_passed, changes_read, is_at_tip } = step;
            if !events.is_empty() {
                heartbeat = Instant::now() + self.heartbeat();
            }
            for ready in self.encode(events, network).await? {
                self.queue(ready).await?;
            }
            self.passed = self.passed.saturating_add(blocks_passed);
            if self.passed >= self.config.checkpoint_blocks.get() {
                self.say(Item::Checkpoint(reader.cursor()), reader.cursor(), network).await?;
            }
            if !is_at_tip {
                self.pace(started, changes_read).await?;
                continue;
            }
            while self.wait(heartbeat).await? == Woken::ByTime {
                heartbeat = Instant::now() + self.heartbeat();
                let at = reader.cursor();
                let item = if at == self.sent { Item::Heartbeat(at) } else { Item::Checkpoint(at) };
                self.say(item, at, network).await?;
            }
        }
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.config.heartbeat_secs.get().into())
    }

    /// One step on a thread that may block, when its turn has come.
    async fn read<K: Kv + 'static>(
        &mut self,
        mut reader: StreamReader<K>,
    ) -> Result<(StreamReader<K>, Step), End> {
        let permit = tokio::select! {
            permit = Arc::clone(&self.reads).acquire_owned() => permit,
            () = self.sender.closed() => return Err(None),
        };
        self.check_stopped()?;
        let task = spawn_blocking(move || {
            let _permit = permit;
            let step = reader.step();
            (reader, step)
        });
        match task.await {
            Ok((reader, Ok(step))) => Ok((reader, step)),
            Ok((_, Err(error))) => Err(Some(failed(&error))),
            Err(_) => Err(Some(failed(&StreamError::BrokeDown))),
        }
    }

    /// Writes events as the face does; large ones take a while.
    async fn encode(
        &self,
        events: Vec<super::BlockChanges>,
        network: utxokeep_core::Network,
    ) -> Result<Vec<Ready<F::Message>>, End> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let face = Arc::clone(&self.face);
        let task = spawn_blocking(move || {
            let ready = events.iter().filter_map(|changes| {
                let item = Item::Changes(changes);
                let (message, bytes) = face.message(item, network)?;
                Some(Ready { message, event: item.name(), bytes, cursor: changes.cursor })
            });
            ready.collect()
        });
        task.await.map_err(|_| Some(failed(&StreamError::BrokeDown)))
    }

    /// Says what is not an event of a block.
    async fn say(
        &mut self,
        item: Item<'_>,
        cursor: StreamCursor,
        network: utxokeep_core::Network,
    ) -> Result<(), End> {
        match self.face.message(item, network) {
            Some((message, bytes)) => {
                self.queue(Ready { message, event: item.name(), bytes, cursor }).await
            }
            None => Ok(()),
        }
    }

    /// Queues a message as soon as there is room; a client that makes none in time is cut off.
    async fn queue(&mut self, ready: Ready<F::Message>) -> Result<(), End> {
        let Ready { message, event, bytes, cursor } = ready;
        let all = self.config.buffer_kib_max.get();
        let kib = u32::try_from(bytes / 1_024).unwrap_or(u32::MAX).saturating_add(1).min(all);
        let patience = Duration::from_secs(self.config.slow_reader_secs_max.get().into());
        let room = Arc::clone(&self.buffer).acquire_many_owned(kib);
        let room = tokio::select! {
            room = timeout(patience, room) => room,
            () = self.sender.closed() => return Err(None),
            () = until_stopped(&mut self.stopped) => return Err(Some(stops())),
        };
        let Ok(Ok(room)) = room else { return Err(Some(slow(&self.config))) };
        let queued = Queued { message, event, bytes, _room: room };
        // The queue is longer than the buffer has KiB for the usual settings; else it counts as well.
        match timeout(patience, self.sender.send(queued)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(None),
            Err(_) => return Err(Some(slow(&self.config))),
        }
        (self.sent, self.passed) = (cursor, 0);
        Ok(())
    }

    /// Waits as long as the work so far may take.
    async fn pace(&mut self, started: Instant, changes_read: usize) -> Result<(), End> {
        let per_second = u64::from(self.config.outputs_per_sec_max.get());
        let micros = (changes_read as u64).saturating_mul(1_000_000) / per_second;
        let until = started + Duration::from_micros(micros);
        if until <= Instant::now() {
            return self.check_stopped();
        }
        tokio::select! {
            () = sleep_until(until) => Ok(()),
            () = self.sender.closed() => Err(None),
            () = until_stopped(&mut self.stopped) => Err(Some(stops())),
        }
    }

    /// Waits for the next block, or for the time to say that the stream is alive.
    async fn wait(&mut self, heartbeat: Instant) -> Result<Woken, End> {
        tokio::select! {
            moved = self.tip.changed() => {
                if moved.is_err() {
                    // No thread counts: look again with every heartbeat.
                    sleep_until(heartbeat).await;
                }
                Ok(Woken::ByTip)
            }
            () = sleep_until(heartbeat) => Ok(Woken::ByTime),
            () = self.sender.closed() => Err(None),
            () = until_stopped(&mut self.stopped) => Err(Some(stops())),
        }
    }

    fn check_stopped(&self) -> Result<(), End> {
        if *self.stopped.borrow() { Err(Some(stops())) } else { Ok(()) }
    }
}

/// Is done when the server stops.
pub(super) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody can say so any more, which is a reason to end as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    ByTip,
    ByTime,
}

pub(super) fn stops() -> (CutReason, String, Option<Height>) {
    let message = "the server stops; open the stream again with the cursor".to_owned();
    (CutReason::ServerStops, message, None)
}

pub(super) fn slow(config: &StreamConfig) -> (CutReason, String, Option<Height>) {
    let secs = config.slow_reader_secs_max;
    let message = format!(
        "the client took nothing for {secs} s ([stream] slow_reader_secs_max); open the stream again \
         with the cursor"
    );
    (CutReason::SlowReader, message, None)
}

pub(super) fn failed(error: &StreamError) -> (CutReason, String, Option<Height>) {
    let start_from = error.start_from();
    let reason = if start_from.is_some() { CutReason::PastWindow } else { CutReason::Failed };
    if reason == CutReason::Failed {
        tracing::error!(error = error as &dyn std::error::Error, "a stream failed");
    }
    (reason, error.to_string(), start_from)
}
