//! Webhooks: events of wallets are delivered to other programs over HTTP.
//!
//! # Invariants
//!
//! * Events of a webhook are delivered in order: the next batch is sent after the receiver has
//!   acknowledged the one before.
//! * An event is delivered at least once. The cursor of a webhook moves after the acknowledgement, so
//!   a program that dies in between leaves the batch to be delivered again.
//! * Of the programs that share a ledger, one delivers to a webhook at a time.
//! * Whatever a receiver does, only its own webhook waits.

mod deliver;
mod send;
mod sign;
mod target;

use std::{fs::File, io, io::Read, time::Duration};

use serde::Serialize;
use utxokeep_core::hex_encode;
use utxokeep_wallet::{Delivery, RetryPolicy};

pub use self::{
    deliver::{METRICS, WebhookDelivery},
    target::BadTarget,
};
use self::{
    send::{Message, Sender},
    target::Target,
};
use crate::{
    clock::now_us,
    config::WalletConfig,
    wallets::{EventInfo, WebhookTested},
};

/// The header that holds time and signature of a delivery.
pub const SIGNATURE: &str = "utxokeep-signature";

/// How long a program holds a webhook beyond the time that a delivery may take.
const HOLD_MARGIN: Duration = Duration::from_secs(5);

/// The longest that trying a webhook out takes: somebody waits for it.
const TEST_MAX: Duration = Duration::from_secs(8);

/// The body of a delivery.
#[derive(Debug, Serialize)]
struct Body<'b> {
    wallet: &'b str,
    webhook: i64,
    events: Vec<EventInfo>,
}

impl Body<'_> {
    fn of(delivery: &Delivery) -> Vec<u8> {
        let info = |event| EventInfo::new(delivery.network, event);
        let events = delivery.events.iter().map(info).collect();
        let body = Body { wallet: &delivery.wallet_name, webhook: delivery.webhook.id, events };
        serde_json::to_vec(&body).expect("a body has no maps with keys that are not texts")
    }
}

/// Refuses a URL that no delivery may go to.
pub(crate) fn check_url(url: &str, config: &WalletConfig) -> Result<(), BadTarget> {
    Target::parse(url)?.check_literal(config.webhook_private_addresses)
}

/// A secret that nobody can guess.
pub(crate) fn new_secret() -> io::Result<String> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(format!("whsec_{}", hex_encode(&random)))
}

/// Sends a delivery without events to a webhook, whatever its state, and says what came of it.
/// Nothing is stored.
pub(crate) fn test(
    wallet: &str,
    webhook: &utxokeep_wallet::Webhook,
    config: &WalletConfig,
) -> io::Result<WebhookTested> {
    let sender = Sender::new(timeout(config).min(TEST_MAX), config.webhook_private_addresses)?;
    let body = Body { wallet, webhook: webhook.id, events: Vec::new() };
    let body = serde_json::to_vec(&body).map_err(io::Error::other)?;
    let message = Message {
        url: &webhook.url,
        secret: &webhook.secret,
        time_secs: now_us() / 1_000_000,
        body,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sent = runtime.block_on(sender.send(message));
    // Looking a name up may take longer than anybody waits.
    runtime.shutdown_background();
    Ok(match sent {
        Ok(status) => WebhookTested { is_acknowledged: true, answer: status.to_string() },
        Err(error) => WebhookTested { is_acknowledged: false, answer: error.to_string() },
    })
}

fn timeout(config: &WalletConfig) -> Duration {
    Duration::from_millis(config.webhook_timeout_ms.get().into())
}

fn policy(config: &WalletConfig) -> RetryPolicy {
    RetryPolicy {
        pause_max_us: i64::from(config.webhook_retry_secs_max.get()) * 1_000_000,
        attempts_max: config.webhook_attempts_max.get(),
        give_up_us: i64::from(config.webhook_give_up_secs.get()) * 1_000_000,
        ..RetryPolicy::default()
    }
}

#[cfg(test)]
mod tests;
