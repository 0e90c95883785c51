//! Webhooks of a wallet: added, listed, paused, resumed, removed, tried out.

use serde::{Deserialize, Serialize};
use utxokeep_wallet::{Micros, NewWebhook, Webhook};

use super::{InWallet, Listed, Wallets, WalletsError, now};
use crate::webhooks;

/// A webhook to add.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AddWebhook {
    /// Name of the wallet.
    pub wallet: String,
    /// Where events are sent to: `https://` or `http://`, a public address unless
    /// `webhook_private_addresses` of the configuration allows others.
    #[cfg_attr(feature = "schema", schema(example = "https://example.com/hooks/utxokeep"))]
    pub url: String,
    /// Events behind this cursor are delivered; when not given, those that come from now on.
    #[cfg_attr(feature = "clap", arg(long))]
    pub cursor: Option<i64>,
}

/// One webhook of a wallet.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OneWebhook {
    /// Name of the wallet.
    pub wallet: String,
    /// Number of the webhook, as their list has it.
    pub id: i64,
}

/// A webhook, and how it gets on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookInfo {
    /// Number in the wallet.
    pub id: i64,
    /// Where events are sent to.
    pub url: String,
    /// `active`, `paused`, or `disabled` after too many failures.
    pub state: &'static str,
    /// The `id` of the last event that the receiver acknowledged.
    pub cursor: i64,
    /// Events that wait for delivery.
    pub waiting: i64,
    /// Deliveries that failed in a row.
    pub failures: u32,
    /// When it was added, in microseconds since 1970.
    pub created_at_us: i64,
    /// When the first of these failures was, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub failing_since_us: Option<i64>,
    /// When a failed delivery is tried again, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub next_attempt_us: Option<i64>,
    /// When the receiver last acknowledged events, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub last_delivered_us: Option<i64>,
    /// Why the last delivery failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub last_error: Option<String>,
}

impl WebhookInfo {
    fn new(webhook: &Webhook) -> Self {
        let retries = webhook.failures > 0 && webhook.state.name() == "active";
        Self {
            id: webhook.id,
            url: webhook.url.clone(),
            state: webhook.state.name(),
            cursor: webhook.cursor,
            waiting: webhook.waiting,
            failures: webhook.failures,
            created_at_us: webhook.created_at.get(),
            failing_since_us: webhook.failing_since.map(Micros::get),
            next_attempt_us: retries.then(|| webhook.next_attempt.get()),
            last_delivered_us: webhook.last_delivered.map(Micros::get),
            last_error: webhook.last_error.clone(),
        }
    }
}

/// A webhook that was added, with its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookAdded {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: WebhookInfo,
    /// What deliveries are signed with. It is shown this once.
    pub secret: String,
}

/// Whether a webhook was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookRemoved {
    /// Number of the webhook that is gone.
    pub removed: i64,
}

/// What came of a delivery that was sent to try a webhook out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookTested {
    /// Whether the receiver answered with a status of 200 to 299.
    pub is_acknowledged: bool,
    /// The status, or why there is none.
    pub answer: String,
}

impl Wallets {
    /// Adds a webhook with a new secret.
    pub fn add_webhook(&self, request: &AddWebhook) -> Result<WebhookAdded, WalletsError> {
        let wallet = self.wallet_id(&request.wallet)?;
        webhooks::check_url(&request.url, &self.config)?;
        let secret = webhooks::new_secret().map_err(WalletsError::Machine)?;
        let new = NewWebhook { url: request.url.clone(), secret, after: request.cursor };
        let added = self.ledger.add_webhook(wallet, &new, now())?;
        Ok(WebhookAdded { webhook: WebhookInfo::new(&added), secret: added.secret })
    }

    /// All webhooks of a wallet.
    pub fn list_webhooks(&self, request: &InWallet) -> Result<Listed<WebhookInfo>, WalletsError> {
        let webhooks = self.ledger.webhooks(self.wallet_id(&request.wallet)?)?;
        Ok(Listed::whole(webhooks.iter().map(WebhookInfo::new).collect()))
    }

    /// Pauses a webhook: events wait, as long as they are kept.
    pub fn pause_webhook(&self, one: &OneWebhook) -> Result<WebhookInfo, WalletsError> {
        self.set_webhook(one, false)
    }

    /// Lets a webhook go on that was paused or disabled. What was forgotten meanwhile is skipped.
    pub fn resume_webhook(&self, one: &OneWebhook) -> Result<WebhookInfo, WalletsError> {
        self.set_webhook(one, true)
    }

    fn set_webhook(&self, one: &OneWebhook, active: bool) -> Result<WebhookInfo, WalletsError> {
        let wallet = self.wallet_id(&one.wallet)?;
        Ok(WebhookInfo::new(&self.ledger.set_webhook_active(wallet, one.id, active, now())?))
    }

    /// Removes a webhook; events stay.
    pub fn remove_webhook(&self, one: &OneWebhook) -> Result<WebhookRemoved, WalletsError> {
        self.ledger.remove_webhook(self.wallet_id(&one.wallet)?, one.id, now())?;
        Ok(WebhookRemoved { removed: one.id })
    }

    /// Sends a delivery without events to a webhook, whatever its state. Nothing is stored.
    pub fn test_webhook(&self, one: &OneWebhook) -> Result<WebhookTested, WalletsError> {
        let webhook = self.ledger.webhook(self.wallet_id(&one.wallet)?, one.id)?;
        webhooks::test(&one.wallet, &webhook, &self.config).map_err(WalletsError::Machine)
    }
}
