//! The thread behind a live connection, and the bounded queue between it and the consumer.
//!
//! The consumer is a plain thread. The network runs on a thread of its own; a consumer that falls
//! behind slows the source's answers down instead of filling the memory.
//!
//! # Invariants
//!
//! * Neither the number of waiting events nor the bytes of waiting blocks exceed the limits; one
//!   event may always wait, however large it is.
//! * Events that were received before a failure are handed over before the failure.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
};

use super::{Contact, LiveEvent};

/// How often whoever waits for a connection looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Memory is counted in units of this many bytes.
const UNIT_BYTES: usize = 1 << 10;

/// How much may wait for the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// The most events; at least one.
    pub events_max: usize,
    /// The most bytes of blocks.
    pub bytes_max: usize,
}

/// The consumer has left.
#[derive(Debug)]
pub(crate) struct Left;

/// The system did not supply a thread or its resources.
#[derive(Debug)]
pub(crate) struct NotStarted(pub(crate) io::Error);

/// The consumer's end of the queue. Dropping it ends the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Feed<E> {
    events: mpsc::Receiver<LiveEvent>,
    room: Arc<Room>,
    /// Dropping the sender stops the thread wherever it waits.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), E>>>,
    heard: Arc<Heard>,
}

#[derive(Debug)]
struct Room {
    events: Semaphore,
    units: Semaphore,
    units_max: usize,
}

impl Room {
    fn new(limits: QueueLimits) -> Self {
        let units_max = (limits.bytes_max / UNIT_BYTES).clamp(1, u32::MAX as usize >> 3);
        Self {
            events: Semaphore::new(limits.events_max.clamp(1, Semaphore::MAX_PERMITS)),
            units: Semaphore::new(units_max),
            units_max,
        }
    }

    /// What an event takes: a block larger than all the room takes all of it.
    fn units_of(&self, event: &LiveEvent) -> usize {
        match event {
            LiveEvent::Block(raw) => raw.len().div_ceil(UNIT_BYTES).min(self.units_max),
            LiveEvent::RolledBack(_) | LiveEvent::AtTip => 0,
        }
    }
}

impl<E: From<NotStarted> + Send + 'static> Feed<E> {
    /// Runs `work` on a thread of this name, until it ends or the feed is dropped. Answers when
    /// `work` has called [`Outbox::ready`], or why it did not come to that; `None` is no reason, or
    /// that `is_stopped` said not to wait for it.
    pub(crate) fn open<F>(
        name: &str,
        limits: QueueLimits,
        is_stopped: &dyn Fn() -> bool,
        work: impl FnOnce(Outbox) -> F + Send + 'static,
    ) -> Result<Self, Option<E>>
    where
        F: Future<Output = Result<(), E>>,
    {
        let room = Arc::new(Room::new(limits));
        let (sender, events) = mpsc::channel();
        let (ready_sender, ready) = mpsc::channel();
        let heard = Arc::new(Heard::default());
        let outbox = Outbox {
            room: Arc::clone(&room),
            events: sender,
            ready: ready_sender,
            heard: Arc::clone(&heard),
        };
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(work, outbox, stopped))
            .map_err(|error| Some(NotStarted(error).into()))?;
        let (stop, thread) = (Some(stop), Some(thread));
        let mut feed = Self { events, room, stop, thread, heard };
        loop {
            match ready.recv_timeout(LOOK_EVERY) {
                Ok(()) => return Ok(feed),
                // Dropping the feed ends the thread wherever it waits.
                Err(mpsc::RecvTimeoutError::Timeout) if is_stopped() => return Err(None),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // The sender is dropped unused when the thread fails before it is ready.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(feed.failure()),
            }
        }
    }

    /// The next event; `None` when nothing came within `wait`. After a failure the events before it
    /// come first, then the failure once, then no reason.
    pub(crate) fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, Option<E>> {
        match self.events.recv_timeout(wait) {
            Ok(event) => {
                self.room.units.add_permits(self.room.units_of(&event));
                self.room.events.add_permits(1);
                Ok(Some(event))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.failure()),
        }
    }

    /// What is known of the source.
    pub(crate) fn contact(&self) -> Contact {
        Contact { messages: self.heard.messages(), tip_height: self.heard.tip_height() }
    }

    /// Why the thread ended.
    fn failure(&mut self) -> Option<E> {
        self.thread.take().map(JoinHandle::join)?.ok()?.err()
    }
}

impl<E> Drop for Feed<E> {
    fn drop(&mut self) {
        self.stop.take();
        self.room.events.close();
        self.room.units.close();
        if let Some(thread) = self.thread.take() {
            // Nobody wants its outcome any more.
            let _ = thread.join();
        }
    }
}

/// The thread's life.
fn run<E: From<NotStarted>, F: Future<Output = Result<(), E>>>(
    work: impl FnOnce(Outbox) -> F,
    outbox: Outbox,
    stopped: oneshot::Receiver<()>,
) -> Result<(), E> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(NotStarted)?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            _ = stopped => Ok(()),
            outcome = work(outbox) => outcome,
        }
    });
    // A name that is still being resolved must not hold up the end.
    runtime.shutdown_background();
    outcome
}

/// The near end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    room: Arc<Room>,
    events: mpsc::Sender<LiveEvent>,
    ready: mpsc::Sender<()>,
    /// What was heard, whether or not it is an event.
    pub(crate) heard: Arc<Heard>,
}

impl Outbox {
    /// The connection stands.
    pub(crate) fn ready(&self) -> Result<(), Left> {
        self.ready.send(()).map_err(|_| Left)
    }

    /// Waits for room and hands `event` over.
    pub(crate) async fn send(&self, event: LiveEvent) -> Result<(), Left> {
        let units = u32::try_from(self.room.units_of(&event)).unwrap_or(u32::MAX);
        self.room.events.acquire().await.map_err(|_| Left)?.forget();
        self.room.units.acquire_many(units).await.map_err(|_| Left)?.forget();
        self.events.send(event).map_err(|_| Left)
    }

    /// Whether the consumer has left.
    pub(crate) fn is_left(&self) -> bool {
        self.room.events.is_closed()
    }
}

/// Signs of life of a source, and how far it says it is.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    messages: AtomicU64,
    tip_height: AtomicU64,
}

impl Heard {
    /// The source said something.
    pub(crate) fn message(&self) {
        self.messages.fetch_add(1, Ordering::Release);
    }

    /// The source said how high its chain is.
    pub(crate) fn tip(&self, height: u64) {
        self.tip_height.store(height, Ordering::Relaxed);
        self.message();
    }

    fn messages(&self) -> u64 {
        self.messages.load(Ordering::Acquire)
    }

    fn tip_height(&self) -> u64 {
        self.tip_height.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl From<NotStarted> for &'static str {
        fn from(_: NotStarted) -> Self {
            "not started"
        }
    }

    fn feed(limits: QueueLimits, blocks: Vec<Vec<u8>>) -> Feed<&'static str> {
        Feed::open("a test", limits, &|| false, async move |outbox: Outbox| {
            outbox.ready().map_err(|Left| "left")?;
            for block in blocks {
                outbox.send(LiveEvent::Block(block)).await.map_err(|Left| "left")?;
                outbox.heard.message();
            }
            Err("cut off")
        })
        .unwrap()
    }

    fn sent(feed: &Feed<&'static str>, events: u64) {
        while feed.contact().messages < events {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(feed.contact().messages, events, "no more than there is room for");
    }

    #[test]
    fn events_wait_up_to_a_number_and_up_to_their_bytes() {
        let wait = Duration::from_secs(30);
        let blocks: Vec<Vec<u8>> = (0..5).map(|_| vec![1; 2_048]).collect();
        for (limits, room) in [
            (QueueLimits { events_max: 3, bytes_max: 1 << 20 }, 3),
            (QueueLimits { events_max: 100, bytes_max: 4_096 }, 2),
            // Larger than all the room.
            (QueueLimits { events_max: 100, bytes_max: 1 }, 1),
        ] {
            let mut feed = feed(limits, blocks.clone());
            sent(&feed, room);
            for block in &blocks {
                assert_eq!(feed.next(wait), Ok(Some(LiveEvent::Block(block.clone()))));
            }
            assert_eq!(feed.next(wait), Err(Some("cut off")));
            assert_eq!(feed.next(wait), Err(None));
        }
    }

    #[test]
    fn a_source_that_is_silent_is_not_waited_for_once_nobody_wants_it() {
        let limits = QueueLimits { events_max: 1, bytes_max: 1 << 20 };
        let asked = std::cell::Cell::new(0);
        let is_stopped = || asked.replace(asked.get() + 1) >= 2;
        let silent = async move |_outbox: Outbox| std::future::pending().await;
        let opened = Feed::<&'static str>::open("a test", limits, &is_stopped, silent);
        assert!(matches!(opened, Err(None)), "{opened:?}");
        assert_eq!(asked.get(), 3, "it is waited for until then");
    }

    #[test]
    fn dropping_a_full_feed_ends_its_thread() {
        let limits = QueueLimits { events_max: 1, bytes_max: 1 << 20 };
        let feed = feed(limits, vec![vec![1]; 10]);
        sent(&feed, 1);
        drop(feed);
    }
}
