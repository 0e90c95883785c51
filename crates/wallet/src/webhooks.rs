//! Webhooks of wallets: where events are delivered to, how far, and which program does it now.
//!
//! A webhook has a cursor of its own. A program that delivers holds the webhook for a while, by the
//! clock that all programs share, so that no two deliver the same events at the same time. The
//! cursor moves after the receiver has acknowledged: a program that dies in between leaves the
//! events to be delivered again.

use utxokeep_core::{
    Network,
    wallet::{AfterFailure, Micros, RetryPolicy, WalletId, WebhookState},
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use crate::{Ledger, LedgerError, WalletEvent, rows, session::Session};

const SELECT_BOUNDS: &str =
    "SELECT first_event_id, next_event_id, next_webhook_id FROM wallets WHERE id = $1";
const TAKE_NUMBER: &str = "UPDATE wallets SET next_webhook_id = $2 WHERE id = $1";
const INSERT: &str =
    "INSERT INTO wallet_webhooks (wallet_id, id, url, secret, created_at_us, state,
        next_event_id, failures, next_attempt_us)
    VALUES ($1, $2, $3, $4, $5, 0, $6, 0, $5)";
const SELECT_ALL: &str = "SELECT h.wallet_id, h.id, h.url, h.secret, h.created_at_us, h.state,
        h.next_event_id, h.failures, h.failing_since_us, h.next_attempt_us, h.last_attempt_us,
        h.last_delivered_us, h.last_error, w.next_event_id
    FROM wallet_webhooks h JOIN wallets w ON w.id = h.wallet_id
    WHERE h.wallet_id = $1 ORDER BY h.id";
const SELECT_ONE: &str = "SELECT h.wallet_id, h.id, h.url, h.secret, h.created_at_us, h.state,
        h.next_event_id, h.failures, h.failing_since_us, h.next_attempt_us, h.last_attempt_us,
        h.last_delivered_us, h.last_error, w.next_event_id
    FROM wallet_webhooks h JOIN wallets w ON w.id = h.wallet_id
    WHERE h.wallet_id = $1 AND h.id = $2";
/// Going on skips what was forgotten meanwhile.
const SET_STATE: &str = "UPDATE wallet_webhooks SET state = $3, failures = 0,
        failing_since_us = NULL, next_attempt_us = $4,
        next_event_id = CASE WHEN next_event_id < $5 AND $3 = CAST(0 AS SMALLINT) THEN $5
            ELSE next_event_id END,
        last_error = CASE WHEN $3 = CAST(0 AS SMALLINT) THEN NULL ELSE last_error END
    WHERE wallet_id = $1 AND id = $2";
const DELETE: &str = "DELETE FROM wallet_webhooks WHERE wallet_id = $1 AND id = $2";
const HOLD: &str = "UPDATE wallet_webhooks SET holder = $3, held_until_us = $4
    WHERE wallet_id = $1 AND id = $2 AND state = 0 AND next_attempt_us <= $5
        AND (held_until_us IS NULL OR held_until_us <= $5)
        AND next_event_id < (SELECT w.next_event_id FROM wallets w WHERE w.id = $1)";
const SELECT_WALLET: &str = "SELECT w.name, c.chain, c.network, w.first_event_id FROM wallets w
    JOIN chains c ON c.id = w.chain_id WHERE w.id = $1";
/// Another program may hold it by now; then this changes nothing.
const DELIVERED: &str = "UPDATE wallet_webhooks SET next_event_id = $4, failures = 0,
        failing_since_us = NULL, last_error = NULL, last_attempt_us = $5, last_delivered_us = $5,
        next_attempt_us = $5, holder = NULL, held_until_us = NULL
    WHERE wallet_id = $1 AND id = $2 AND holder = $3";
const FAILED: &str =
    "UPDATE wallet_webhooks SET state = CASE WHEN state = 0 THEN $4 ELSE state END,
        failures = $5, failing_since_us = $6, last_error = $7, last_attempt_us = $8,
        next_attempt_us = $9, holder = NULL, held_until_us = NULL
    WHERE wallet_id = $1 AND id = $2 AND holder = $3";

const LET_GO: &str = "UPDATE wallet_webhooks SET holder = NULL, held_until_us = NULL
    WHERE wallet_id = $1 AND id = $2 AND holder = $3";

/// Characters of an error that are stored.
const ERROR_CHARS_MAX: usize = 500;

/// A program that delivers: random bytes that no other one has.
pub type Holder = [u8; 16];

/// A webhook to add. The caller has checked the URL and made the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Where events are delivered to.
    pub url: String,
    /// What deliveries are signed with.
    pub secret: String,
    /// The cursor behind which events are delivered; `None` for those that come from now on.
    pub after: Option<i64>,
}

/// A webhook, and how it gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The wallet.
    pub wallet: WalletId,
    /// Number in the wallet, never given twice.
    pub id: i64,
    /// Where events are delivered to.
    pub url: String,
    /// What deliveries are signed with. Faces show it once, when the webhook is added.
    pub secret: String,
    /// When it was added.
    pub created_at: Micros,
    /// Whether events are delivered.
    pub state: WebhookState,
    /// The cursor behind the last event that the receiver acknowledged.
    pub cursor: i64,
    /// Events that wait for delivery.
    pub waiting: i64,
    /// Deliveries that failed in a row.
    pub failures: u32,
    /// When the first of them failed.
    pub failing_since: Option<Micros>,
    /// Not before this time is the next one tried.
    pub next_attempt: Micros,
    /// When the last one ended, well or not.
    pub last_attempt: Option<Micros>,
    /// When the receiver last acknowledged events.
    pub last_delivered: Option<Micros>,
    /// Why the last delivery failed.
    pub last_error: Option<String>,
}

/// Events for a webhook that this program holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The webhook.
    pub webhook: Webhook,
    /// The name of the wallet.
    pub wallet_name: String,
    /// Its network, by which ids are printed.
    pub network: Network,
    /// What to deliver, in order; at least one.
    pub events: Vec<WalletEvent>,
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'o> {
    /// The receiver acknowledged all events of the delivery.
    Delivered,
    /// It did not, for this reason.
    Failed(&'o str),
}

impl Ledger {
    /// Adds a webhook to a wallet.
    pub fn add_webhook(
        &self,
        wallet: WalletId,
        new: &NewWebhook,
        now: Micros,
    ) -> Result<Webhook, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let key = [session.id()];
            let read = |row: &Row<'_>| Ok((row.int(0)?, row.int(1)?, row.int(2)?));
            let (first, next, id) = session.tx.query_one(SELECT_BOUNDS, &key, read)?;
            let after = new.after.unwrap_or(next - 1);
            if after < first - 1 {
                return Err(LedgerError::EventsGone { cursor: after, oldest: first - 1 });
            }
            if after >= next {
                return Err(LedgerError::argument(format!(
                    "cursor {after} is none of this wallet, whose newest event is {}",
                    next - 1
                )));
            }
            let limit = session.limits.webhooks_max;
            if session.tx.query_all(SELECT_ALL, &key, read_webhook)?.len() >= limit {
                return Err(LedgerError::argument(format!(
                    "the wallet has {limit} webhooks, and no more are allowed (webhooks_max)"
                )));
            }
            let now = session.lease_now()?;
            session.tx.execute(TAKE_NUMBER, &[key[0], Value::from(id + 1)])?;
            let row = [
                key[0],
                Value::from(id),
                Value::from(new.url.as_str()),
                Value::from(new.secret.as_str()),
                Value::from(now.get()),
                Value::from(after + 1),
            ];
            session.tx.execute(INSERT, &row)?;
            one(session.tx, wallet, id)
        })
    }

    /// All webhooks of a wallet.
    pub fn webhooks(&self, wallet: WalletId) -> Result<Vec<Webhook>, LedgerError> {
        self.read_wallet(wallet, |session| {
            Ok(session.tx.query_all(SELECT_ALL, &[session.id()], read_webhook)?)
        })
    }

    /// One webhook of a wallet.
    pub fn webhook(&self, wallet: WalletId, id: i64) -> Result<Webhook, LedgerError> {
        self.read_wallet(wallet, |session| one(session.tx, wallet, id))
    }

    /// Pauses a webhook, or lets it go on: failures are forgotten, and events that were forgotten
    /// meanwhile are skipped. A program that delivers to it at this moment finishes that delivery.
    pub fn set_webhook_active(
        &self,
        wallet: WalletId,
        id: i64,
        active: bool,
        now: Micros,
    ) -> Result<Webhook, LedgerError> {
        self.write_wallet_even_archived(wallet, now, |session| {
            let state = if active { WebhookState::Active } else { WebhookState::Paused };
            let now = session.lease_now()?;
            let first = session.tx.query_one(SELECT_BOUNDS, &[session.id()], |row| row.int(0))?;
            let row = [
                session.id(),
                Value::from(id),
                Value::from(state.code()),
                Value::from(now.get()),
                Value::from(first),
            ];
            session.tx.execute(SET_STATE, &row)?;
            one(session.tx, wallet, id)
        })
    }

    /// Removes a webhook. Events stay.
    pub fn remove_webhook(
        &self,
        wallet: WalletId,
        id: i64,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet_even_archived(wallet, now, |session| {
            let key = [session.id(), Value::from(id)];
            match session.tx.execute(DELETE, &key)? {
                0 => Err(LedgerError::WebhookNotFound(id)),
                _ => Ok(()),
            }
        })
    }

    /// Holds a webhook for `hold_us` and answers what to deliver; `None` when another program was
    /// faster, or nothing is left to do. One whose next events were forgotten is disabled.
    pub fn hold_webhook(
        &self,
        (wallet, id): (WalletId, i64),
        holder: &Holder,
        hold_us: i64,
        events_max: usize,
        now: Micros,
    ) -> Result<Option<Delivery>, LedgerError> {
        let limit = self.page(events_max.max(1));
        self.write(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let row = [
                Value::from(wallet.get()),
                Value::from(id),
                Value::from(holder),
                Value::from(now.plus(hold_us).get()),
                Value::from(now.get()),
            ];
            if tx.execute(HOLD, &row)? == 0 {
                return Ok(None);
            }
            let webhook = one(tx, wallet, id)?;
            let read = |row: &Row<'_>| {
                let network = Network::find(row.text(1)?, row.text(2)?)
                    .map_err(|unknown| SqlError::bad_row(unknown.to_string()))?;
                Ok((row.text(0)?.to_owned(), network, row.int(3)?))
            };
            let (wallet_name, network, first) = tx.query_one(SELECT_WALLET, &row[..1], read)?;
            if webhook.cursor + 1 < first {
                let error = format!(
                    "events {} to {} were forgotten before they were delivered",
                    webhook.cursor + 1,
                    first - 1
                );
                set_failed(tx, &webhook, holder, &error, AfterFailure::Disable, now)?;
                return Ok(None);
            }
            let events = crate::events::page(tx, wallet, webhook.cursor, limit)?;
            Ok(Some(Delivery { webhook, wallet_name, network, events }))
        })
        .map(|delivery| delivery.filter(|delivery| !delivery.events.is_empty()))
    }

    /// Notes how the delivery of all events up to `through` ended, and lets go of the webhook. `false`
    /// when another program holds it by now: nothing was changed, and it delivers the same again.
    pub fn end_delivery(
        &self,
        (wallet, id): (WalletId, i64),
        holder: &Holder,
        through: i64,
        outcome: Outcome<'_>,
        policy: &RetryPolicy,
        now: Micros,
    ) -> Result<bool, LedgerError> {
        self.write(|tx| {
            let now = Session::read_lease_time(tx, self.lease_clock, now)?;
            let key = [Value::from(wallet.get()), Value::from(id), Value::from(holder)];
            match outcome {
                Outcome::Delivered => {
                    let row = [key[0], key[1], key[2], (through + 1).into(), now.get().into()];
                    Ok(tx.execute(DELIVERED, &row)? > 0)
                }
                Outcome::Failed(error) => {
                    let webhook = match one(tx, wallet, id) {
                        Err(LedgerError::WebhookNotFound(_)) => return Ok(false),
                        webhook => webhook?,
                    };
                    let since = webhook.failing_since.unwrap_or(now);
                    let after = policy.after(webhook.failures.saturating_add(1), since, now);
                    set_failed(tx, &webhook, holder, error, after, now)
                }
            }
        })
    }
}

impl Ledger {
    /// Lets go of a webhook whose delivery was broken off, so that other programs need not wait.
    pub fn let_go_webhook(
        &self,
        (wallet, id): (WalletId, i64),
        holder: &Holder,
    ) -> Result<(), LedgerError> {
        let key = [Value::from(wallet.get()), Value::from(id), Value::from(holder)];
        self.write(|tx| Ok(tx.execute(LET_GO, &key).map(drop)?))
    }
}

fn set_failed(
    tx: &mut Transaction<'_>,
    webhook: &Webhook,
    holder: &Holder,
    error: &str,
    after: AfterFailure,
    now: Micros,
) -> Result<bool, LedgerError> {
    let (state, next) = match after {
        AfterFailure::RetryAt(time) => (WebhookState::Active, time),
        AfterFailure::Disable => (WebhookState::Disabled, now),
    };
    let error: String = error.chars().filter(|char| *char != '\0').take(ERROR_CHARS_MAX).collect();
    let row = [
        Value::from(webhook.wallet.get()),
        Value::from(webhook.id),
        Value::from(holder),
        Value::from(state.code()),
        Value::from(webhook.failures.saturating_add(1)),
        Value::from(webhook.failing_since.unwrap_or(now).get()),
        Value::from(error.as_str()),
        Value::from(now.get()),
        Value::from(next.get()),
    ];
    Ok(tx.execute(FAILED, &row)? > 0)
}

fn one(tx: &mut Transaction<'_>, wallet: WalletId, id: i64) -> Result<Webhook, LedgerError> {
    let key = [Value::from(wallet.get()), Value::from(id)];
    let found = tx.query_opt(SELECT_ONE, &key, read_webhook)?;
    found.ok_or(LedgerError::WebhookNotFound(id))
}

fn read_webhook(row: &Row<'_>) -> Result<Webhook, SqlError> {
    let code = row.int(5)?;
    let next = row.int(6)?;
    Ok(Webhook {
        wallet: WalletId::new(row.int(0)?),
        id: row.int(1)?,
        url: row.text(2)?.to_owned(),
        secret: row.text(3)?.to_owned(),
        created_at: Micros::new(row.int(4)?),
        state: WebhookState::from_code(code)
            .ok_or_else(|| rows::bad(format!("{code} is no state of a webhook")))?,
        cursor: next - 1,
        waiting: (row.int(13)? - next).max(0),
        failures: rows::u32_at(row, 7)?,
        failing_since: row.opt_int(8)?.map(Micros::new),
        next_attempt: Micros::new(row.int(9)?),
        last_attempt: row.opt_int(10)?.map(Micros::new),
        last_delivered: row.opt_int(11)?.map(Micros::new),
        last_error: row.opt_text(12)?.map(str::to_owned),
    })
}
