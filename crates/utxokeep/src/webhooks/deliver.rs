//! The thread that delivers: it looks for webhooks with events, and sends to several at once.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use metrics::{counter, histogram};
use tokio::{sync::Semaphore, task::spawn_blocking};
use utxokeep_core::{metric_list, wallet::WalletId};
use utxokeep_wallet::{Delivery, Holder, LedgerError, Micros, Outcome};

use super::{Body, HOLD_MARGIN, Message, Sender, policy, timeout};
use crate::{clock::now_us, wallets::Wallets};

metric_list! {
    EVENTS = "utxokeep_webhook_events_total", Counter, "",
        "Wallet events that receivers of webhooks have acknowledged.";
    DELIVERIES = "utxokeep_webhook_deliveries_total", Counter, "",
        "Deliveries to webhooks that were acknowledged.";
    FAILURES = "utxokeep_webhook_failures_total", Counter, "",
        "Deliveries to webhooks that failed; `wallet webhook list` says why.";
    SECONDS = "utxokeep_webhook_delivery_seconds", Histogram, "",
        "How long deliveries to webhooks took, failed ones too.";
}

/// How often it looks whether this program has written to the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The most bytes of a body; a batch that is longer is cut.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A webhook of a wallet.
type Place = (WalletId, i64);

/// A thread that delivers events to webhooks. Dropping it ends deliveries under way; what was not
/// acknowledged is delivered again later.
#[derive(Debug)]
pub struct WebhookDelivery {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebhookDelivery {
    /// Starts deliveries; `None` when the configuration says that another program does them.
    pub fn start(wallets: &Wallets) -> io::Result<Option<Self>> {
        let config = wallets.config();
        let poll = Duration::from_millis(config.webhook_poll_ms.into());
        if poll.is_zero() {
            return Ok(None);
        }
        crate::meters::describe(METRICS);
        for name in [EVENTS, DELIVERIES, FAILURES] {
            counter!(name).increment(0);
        }
        let mut holder = Holder::default();
        File::open("/dev/urandom")?.read_exact(&mut holder)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let courier = Courier {
            sender: Sender::new(timeout(config), config.webhook_private_addresses)?,
            permits: Arc::new(Semaphore::new(config.webhook_concurrency_max.get() as usize)),
            wallets: wallets.clone(),
            holder,
            under_way: Arc::default(),
        };
        let flag = Arc::clone(&is_stopped);
        let thread = thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            runtime.block_on(courier.run(poll, &flag));
            runtime.shutdown_background();
            courier.let_go();
        })?;
        Ok(Some(Self { is_stopped, thread: Some(thread) }))
    }
}

impl Drop for WebhookDelivery {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            tracing::error!("the thread that delivers events to webhooks broke down");
        }
    }
}

/// What deliveries share.
#[derive(Debug, Clone)]
struct Courier {
    wallets: Wallets,
    sender: Sender,
    permits: Arc<Semaphore>,
    holder: Holder,
    /// Webhooks that this program delivers to now.
    under_way: Arc<Mutex<BTreeSet<Place>>>,
}

impl Courier {
    async fn run(&self, poll: Duration, is_stopped: &AtomicBool) {
        while !is_stopped.load(Ordering::Acquire) {
            let (commits, asked) = (self.wallets.ledger().commits(), Instant::now());
            if let Err(error) = self.look().await {
                let error = anyhow::Error::new(error);
                tracing::warn!(
                    "webhooks cannot be looked up, the next look tries again: {error:#}"
                );
            }
            let is_idle = || {
                let is_same = self.wallets.ledger().commits() == commits;
                is_same && asked.elapsed() < poll && !is_stopped.load(Ordering::Acquire)
            };
            tokio::time::sleep(LOOK_EVERY).await;
            while is_idle() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Starts a delivery to each webhook that waits for one, as far as there is room.
    async fn look(&self) -> Result<(), LedgerError> {
        let room = self.permits.available_permits();
        if room == 0 {
            return Ok(());
        }
        let ledger = self.wallets.ledger().clone();
        let due = blocking(move || ledger.due_webhooks(room, now())).await?;
        for place in due {
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { break };
            if !self.places().insert(place) {
                continue;
            }
            let courier = self.clone();
            drop(tokio::spawn(async move {
                if let Err(error) = courier.deliver(place).await {
                    let error = anyhow::Error::new(error);
                    tracing::warn!("a delivery to a webhook was not noted: {error:#}");
                }
                courier.places().remove(&place);
                drop(permit);
            }));
        }
        Ok(())
    }

    fn places(&self) -> std::sync::MutexGuard<'_, BTreeSet<Place>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers batch after batch, until nothing is left or the receiver fails.
    async fn deliver(&self, place: Place) -> Result<(), LedgerError> {
        while let Some(delivery) = self.hold(place).await? {
            let through = delivery.events.last().map_or(delivery.webhook.cursor, |event| event.id);
            let count = delivery.events.len() as u64;
            let started = Instant::now();
            let sent = self.sender.send(Message {
                url: &delivery.webhook.url,
                secret: &delivery.webhook.secret,
                time_secs: now_us() / 1_000_000,
                body: Body::of(&delivery),
            });
            let error = sent.await.err().map(|error| error.to_string());
            histogram!(SECONDS).record(started.elapsed().as_secs_f64());
            let is_delivered = error.is_none();
            let (ledger, holder) = (self.wallets.ledger().clone(), self.holder);
            let policy = policy(self.wallets.config());
            let noted = blocking(move || {
                let outcome = error.as_deref().map_or(Outcome::Delivered, Outcome::Failed);
                ledger.end_delivery(place, &holder, through, outcome, &policy, now())
            });
            let is_ours = noted.await?;
            if is_delivered {
                counter!(DELIVERIES).increment(1);
                counter!(EVENTS).increment(count);
            } else {
                counter!(FAILURES).increment(1);
            }
            if !is_delivered || !is_ours {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn hold(&self, place: Place) -> Result<Option<Delivery>, LedgerError> {
        let (ledger, holder) = (self.wallets.ledger().clone(), self.holder);
        let config = self.wallets.config();
        let hold_us = i64::try_from((timeout(config) + HOLD_MARGIN).as_micros());
        let (hold_us, count) = (hold_us.unwrap_or(i64::MAX), config.webhook_batch_events_max);
        let held = blocking(move || {
            ledger.hold_webhook(place, &holder, hold_us, count.get() as usize, now())
        });
        let mut held = held.await?;
        if let Some(delivery) = &mut held {
            while delivery.events.len() > 1 && Body::of(delivery).len() > BODY_BYTES_MAX {
                delivery.events.truncate(delivery.events.len() / 2);
            }
        }
        Ok(held)
    }

    /// Lets other programs deliver at once what this one has begun.
    fn let_go(&self) {
        let places = std::mem::take(&mut *self.places());
        for place in places {
            if let Err(error) = self.wallets.ledger().let_go_webhook(place, &self.holder) {
                tracing::warn!("a webhook stays held until its time is over: {error}");
            }
        }
    }
}

fn now() -> Micros {
    Micros::new(now_us())
}

/// Asks the database on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, LedgerError> {
    spawn_blocking(work).await.unwrap_or(Err(LedgerError::Closed))
}
