//! Wallet events as every face answers them, and waiting for the next.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utxokeep_core::{ChainHash, Network};
use utxokeep_wallet::{EventPage, LedgerError, WalletEvent};

use super::{Hex, Wallets, WalletsError, now};

/// How often a reader that waits looks whether this program has written to the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Which events of a wallet to list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
pub struct ListEvents {
    /// `next_cursor` of the page before, which is the `id` of the last event that was seen; 0 is
    /// before the first. Without it the list starts with the oldest event that is kept.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub cursor: Option<i64>,
    /// Rows of the page; `page_rows_max` of the configuration is the most.
    #[cfg_attr(feature = "schema", param(nullable = false))]
    pub page_size: Option<u32>,
    /// How long to wait for an event when there is none, in milliseconds; `event_wait_ms_max` of the
    /// configuration is the most. 0, the default, does not wait.
    #[serde(default)]
    #[cfg_attr(feature = "schema", param(default = 0))]
    pub wait_ms: u32,
}

/// Something that happened to a wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventInfo {
    /// Number in the wallet: 1 for the first, without gaps. The cursor behind this event.
    pub id: i64,
    /// `created`, `seen`, `confirmed`, `reorganised`, `replaced`, `failed`, `removed` or
    /// `lease_expired`.
    pub kind: &'static str,
    /// When the ledger recorded it, in microseconds since 1970.
    pub at_us: i64,
    /// The transaction, or the one that made the leased output.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// State of the transaction after the event; absent for `removed` and `lease_expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub status: Option<&'static str>,
    /// The block that holds the transaction, or with `reorganised` the one that it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub block_height: Option<u32>,
    /// Hash of that block, where the ledger knew it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, value_type = String))]
    pub block_hash: Option<ChainHash>,
    /// The depth that was reached, one of `event_depths` of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub confirmations: Option<u32>,
    /// Why the transaction was replaced or failed: `replaced`, `double_spent`, `abandoned` or
    /// `ancestor_invalid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub reason: Option<&'static str>,
    /// The transaction that took its inputs, or the one that it depended on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, value_type = String))]
    pub by_tx_hash: Option<ChainHash>,
    /// Index of the leased output among those of `tx_hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub output_index: Option<u32>,
    /// Owner of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, value_type = String))]
    pub owner: Option<Hex>,
    /// When the lease ended, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub expired_at_us: Option<i64>,
}

impl EventInfo {
    pub(crate) fn new(network: Network, event: &WalletEvent) -> Self {
        let lease = event.lease;
        Self {
            id: event.id,
            kind: event.kind.name(),
            at_us: event.at.get(),
            tx_hash: network.hash(event.txid),
            status: event.status.map(utxokeep_wallet::TxStatus::name),
            block_height: event.block_height.map(utxokeep_core::Height::get),
            block_hash: event.block_hash.map(|hash| network.hash(hash)),
            confirmations: event.confirmations,
            reason: event.reason.map(utxokeep_wallet::InvalidReason::name),
            by_tx_hash: event.by.map(|txid| network.hash(txid)),
            output_index: lease.map(|(outpoint, ..)| outpoint.index()),
            owner: lease.map(|(_, owner, _)| Hex(owner.as_bytes().to_vec())),
            expired_at_us: lease.map(|(.., at)| at.get()),
        }
    }
}

/// A page of events. There may always be more later, so the cursor is always there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventList {
    /// The events, in the order in which they happened.
    pub items: Vec<EventInfo>,
    /// Goes on behind the last of them: send it as `cursor`.
    pub next_cursor: i64,
    /// Whether there are more events now.
    pub has_more: bool,
}

impl EventList {
    fn new(network: Network, page: &EventPage) -> Self {
        Self {
            items: page.events.iter().map(|event| EventInfo::new(network, event)).collect(),
            next_cursor: page.next_cursor,
            has_more: page.has_more,
        }
    }
}

/// A reader that has found nothing and waits. Looking costs nothing while this program writes
/// nothing to the ledger; for other programs the database is asked now and then.
#[derive(Debug)]
pub struct EventWait {
    commits: u64,
    asked: Instant,
    until: Instant,
    poll: Duration,
}

impl EventWait {
    /// How long to sleep before the next look.
    pub const SLEEP: Duration = LOOK_EVERY;

    /// Whether the time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether the database is worth asking again.
    pub fn is_due(&mut self, wallets: &Wallets) -> bool {
        let commits = wallets.ledger.commits();
        if commits == self.commits && self.asked.elapsed() < self.poll {
            return false;
        }
        (self.commits, self.asked) = (commits, Instant::now());
        true
    }
}

impl Wallets {
    /// A page of events behind a cursor. Does not wait.
    pub fn list_events(&self, name: &str, list: &ListEvents) -> Result<EventList, WalletsError> {
        self.check_wait(list.wait_ms)?;
        let wallet = self.wallet(name)?;
        let page = self.ledger.events(wallet.id, list.cursor, self.rows(list.page_size))?;
        Ok(EventList::new(wallet.network, &page))
    }

    /// Begins to wait, before the ledger is asked for the first time: what is written from here on is
    /// noticed.
    #[must_use]
    pub fn begin_wait(&self, wait: Duration) -> EventWait {
        let (now, poll) = (Instant::now(), self.config.event_poll_ms.get());
        EventWait {
            commits: self.ledger.commits(),
            asked: now,
            until: now + wait,
            poll: Duration::from_millis(poll.into()),
        }
    }

    /// A page of events behind a cursor; waits on this thread for the first, as long as the request
    /// says and somebody wants it.
    pub fn wait_for_events(
        &self,
        name: &str,
        list: &ListEvents,
    ) -> Result<EventList, WalletsError> {
        let mut wait = self.begin_wait(Duration::from_millis(list.wait_ms.into()));
        let mut page = self.list_events(name, list)?;
        while page.items.is_empty() && !wait.is_over() && !crate::waiting::is_unwanted() {
            std::thread::sleep(EventWait::SLEEP);
            if wait.is_due(self) {
                page = self.list_events(name, list)?;
            }
        }
        Ok(page)
    }

    fn check_wait(&self, wait_ms: u32) -> Result<(), WalletsError> {
        let wait_ms_max = self.config.event_wait_ms_max;
        if wait_ms <= wait_ms_max {
            return Ok(());
        }
        let what = format!("at most {wait_ms_max} milliseconds are waited (event_wait_ms_max)");
        Err(WalletsError::field("wait_ms", what))
    }

    /// Forgets events that are too many or too old; answers how many there were.
    pub(crate) fn forget_events(&self) -> Result<u64, LedgerError> {
        let config = &self.config;
        let keep_us = i64::from(config.event_keep_secs.get()) * 1_000_000;
        let rows_max = config.lease_cleanup_rows_max.get() as usize;
        let keep_rows = config.event_keep_rows_max.get().into();
        Ok(self.ledger.clean_events(keep_rows, keep_us, rows_max, now())?.rows)
    }
}
