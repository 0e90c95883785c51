//! What is known of the source that is followed, for health, status and metrics.
//!
//! # Invariants
//!
//! * A source that nobody has heard from for too long is a fault, whatever was heard before.
//! * So is a database that cannot keep what the source sends, at once and until it can.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{counter, gauge};
use serde::Serialize;
use utxokeep_core::{ChainPoint, metric_list};

metric_list! {
    CONNECTED = "utxokeep_source_connected", Gauge, "",
        "Whether the connection to the source stands: 1 or 0.";
    CONTACT_AGE = "utxokeep_source_contact_age_seconds", Gauge, "",
        "Time since the source was last heard from; since the start while it never was.";
    NODE_HEIGHT = "utxokeep_source_height", Gauge, "",
        "Height of the source's tip, as it last said.";
    LAG = "utxokeep_source_lag_blocks", Gauge, "",
        "Blocks that the source has and the index has not, as it last said.";
    LOST = "utxokeep_source_connections_lost_total", Counter, "",
        "Connections that were lost, or could not be opened.";
}

/// The source of a database, and how things stand with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SourceStatus {
    /// Where it is.
    #[cfg_attr(feature = "schema", schema(example = "127.0.0.1:3001"))]
    pub address: String,
    /// Whether the connection stands.
    pub is_connected: bool,
    /// When it was last heard from, in seconds since the epoch; `null` when never since the start.
    #[cfg_attr(feature = "schema", schema(example = 1_700_000_000))]
    pub last_contact: Option<i64>,
    /// Height of its tip, as it last said.
    #[cfg_attr(feature = "schema", schema(example = 300))]
    pub height: Option<u64>,
    /// Blocks that it has and the index has not, as it last said.
    #[cfg_attr(feature = "schema", schema(example = 0))]
    pub lag_blocks: Option<u64>,
    /// Why the last attempt to connect failed, or the connection was lost.
    pub fault: Option<String>,
}

/// How things stand with a source; clones share it.
#[derive(Debug, Clone)]
pub struct SourceState(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    address: String,
    /// When somebody began to listen, in seconds since the epoch.
    since: i64,
    connected: bool,
    last_contact: Option<i64>,
    node_height: Option<u64>,
    height: Option<u64>,
    fault: Option<String>,
    /// Why nothing that it sends can be kept.
    held_up: Option<String>,
}

impl SourceState {
    /// A source that was not heard from yet. All times are seconds since the epoch.
    #[must_use]
    pub fn new(address: String, now: i64) -> Self {
        Self(Arc::new(Mutex::new(Known {
            address,
            since: now,
            connected: false,
            last_contact: None,
            node_height: None,
            height: None,
            fault: None,
            held_up: None,
        })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source was heard from.
    pub(super) fn heard(&self, now: i64, node_height: u64) {
        let mut known = self.known();
        (known.connected, known.fault) = (true, None);
        (known.last_contact, known.node_height) = (Some(now), Some(node_height));
    }

    /// The index stands here.
    pub(super) fn stands(&self, tip: Option<ChainPoint>) {
        self.known().height = tip.map(|tip| tip.height.get().into());
    }

    /// The connection is gone.
    pub(super) fn lost(&self, fault: String) {
        counter!(LOST).increment(1);
        let mut known = self.known();
        (known.connected, known.fault) = (false, Some(fault));
    }

    /// Nothing that the source sends can be kept for now.
    pub(super) fn held_up(&self, why: String) {
        let mut known = self.known();
        (known.connected, known.fault) = (false, Some(why.clone()));
        known.held_up = Some(why);
    }

    /// What the source sent was kept.
    pub(super) fn goes_on(&self) {
        self.known().held_up = None;
    }

    /// How things stand.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        let known = self.known();
        // The first block has height 0: no block at all is one less.
        let ours = known.height.map_or(0, |height| height + 1);
        SourceStatus {
            address: known.address.clone(),
            is_connected: known.connected,
            last_contact: known.last_contact,
            height: known.node_height,
            lag_blocks: known.node_height.map(|height| (height + 1).saturating_sub(ours)),
            fault: known.held_up.clone().or_else(|| known.fault.clone()),
        }
    }

    /// What is wrong, when the source has been silent for more than `secs_max`, or what it sends cannot
    /// be kept.
    #[must_use]
    pub fn trouble(&self, now: i64, secs_max: u32) -> Option<String> {
        let known = self.known();
        if let Some(why) = &known.held_up {
            return Some(format!(
                "what the source {} sends cannot be kept: {why}; answers are as of the last block \
                 applied",
                known.address
            ));
        }
        let silent = now.saturating_sub(known.last_contact.unwrap_or(known.since)).max(0);
        // A lost connection is worth a word at once where no silence is allowed.
        if silent < i64::from(secs_max) || (known.connected && silent <= i64::from(secs_max)) {
            return None;
        }
        let address = &known.address;
        let why = known.fault.as_deref().map(|fault| format!(": {fault}")).unwrap_or_default();
        let heard = match known.last_contact {
            Some(_) => format!("was last heard from {silent} s ago"),
            None => format!("was not heard from for {silent} s, since the start"),
        };
        Some(format!("the source {address} {heard}{why}; answers are as of the last block applied"))
    }

    /// Brings the gauges up to date.
    #[allow(clippy::cast_precision_loss, reason = "heights and seconds are far below 2^52")]
    pub fn sample(&self, now: i64) {
        let status = self.status();
        let since = self.known().since;
        gauge!(CONNECTED).set(f64::from(u8::from(status.is_connected)));
        let age = now.saturating_sub(status.last_contact.unwrap_or(since)).max(0);
        gauge!(CONTACT_AGE).set(age as f64);
        if let (Some(height), Some(lag)) = (status.height, status.lag_blocks) {
            gauge!(NODE_HEIGHT).set(height as f64);
            gauge!(LAG).set(lag as f64);
        }
    }
}

/// Tells the installed recorder what the metrics mean.
pub fn describe_metrics() {
    crate::meters::describe(METRICS);
    counter!(LOST).increment(0);
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, Height};

    use super::*;

    fn tip(height: u32) -> ChainPoint {
        let height = Height::new(height);
        ChainPoint { height, slot: 0, hash: BlockHash::default() }
    }

    #[test]
    fn silence_longer_than_allowed_is_trouble_whether_or_not_the_connection_stands() {
        let source = SourceState::new("node:3001".to_owned(), 100);
        assert_eq!(source.trouble(159, 60), None);
        let never = source.trouble(160, 60).unwrap();
        assert!(never.contains("node:3001 was not heard from for 60 s"), "{never}");
        source.heard(200, 9);
        assert_eq!(source.trouble(260, 60), None);
        assert!(source.trouble(261, 60).unwrap().contains("last heard from 61 s ago"));
        source.held_up("the disk is full".to_owned());
        assert!(source.trouble(200, 60).unwrap().contains("cannot be kept: the disk is full"));
        source.heard(200, 9);
        assert!(source.trouble(200, 60).is_some(), "that it sends is not enough");
        source.goes_on();
        source.lost("refused".to_owned());
        assert_eq!(source.trouble(201, 60), None, "a short absence is nobody's business");
        assert!(source.trouble(260, 60).unwrap().contains(": refused;"));
        assert!(source.trouble(200, 0).is_some(), "where no absence is allowed");
        source.heard(300, 9);
        assert_eq!(source.trouble(300, 0), None);
    }

    #[test]
    fn the_lag_counts_the_blocks_that_are_missing() {
        let source = SourceState::new("node:3001".to_owned(), 0);
        assert_eq!(source.status().lag_blocks, None);
        source.heard(1, 9);
        assert_eq!(source.status().lag_blocks, Some(10), "nothing is applied yet");
        source.stands(Some(tip(7)));
        assert_eq!(source.status().lag_blocks, Some(2));
        source.stands(Some(tip(12)));
        assert_eq!(source.status().lag_blocks, Some(0));
    }
}
