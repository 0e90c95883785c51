//! The wallet ledger as the program offers it: texts in, texts out.
//!
//! Command line, REST and gRPC offer the same operations. They are written once, here: each takes
//! a request as a client writes it (addresses, hexadecimal, decimal strings), and answers with a
//! model that is the JSON of command line and REST. gRPC translates its messages to and from the
//! same models.
//!
//! # Invariants
//!
//! * A request that is refused has changed nothing; [`WalletsError::kind`] says whose fault it is.
//! * Times come from one clock, randomness from one place; everything below is a function.

mod answers;
mod broadcast;
mod chains;
mod directory;
mod error;
mod events;
mod history;
mod leases;
mod once;
mod pages;
mod payments;
mod prune;
mod records;
mod requests;
mod shown;
mod standing;
mod texts;
mod verify;
mod webhooks;

use std::{sync::Arc, time::Duration};

use utxokeep_chains::{BitcoinCodec, bitcoind::TxSender};
use utxokeep_core::{Network, wallet::WalletId};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;
use utxokeep_sql::{Database, Isolation, OpenMode, Options, RETRIES_METRIC, RETRIES_METRIC_HELP};
use utxokeep_wallet::{
    EventDepths, FeeRate, Ledger, LedgerError, Limits, Maturity, Micros, PaymentLimits, Wallet,
};

use crate::{clock::now_us, config::WalletConfig};

pub(crate) use self::broadcast::{SendAgainError, SentAgain};
pub use self::{
    answers::*,
    broadcast::{BroadcastInfo, BroadcastTx},
    error::{LedgerOpenError, WalletsError},
    events::{EventInfo, EventList, EventWait, ListEvents},
    requests::*,
    standing::{Lagging, RescanInfo, RescanWallet, SetAsideInfo, StandingInfo},
    webhooks::{AddWebhook, OneWebhook, WebhookAdded, WebhookInfo, WebhookRemoved, WebhookTested},
};
pub use crate::consumers::FollowerState;

/// The ledger, and the defaults of the configuration. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Wallets {
    ledger: Ledger,
    config: WalletConfig,
    /// The chain database, where it is at hand.
    chain: Option<ChainIndex<RocksKv>>,
    follower: FollowerState,
    /// The node that takes transactions, where one is named.
    sender: Option<TxSender>,
    /// Rows of a page that names no size, and the most that it may name.
    page_rows: (u32, u32),
}

/// The most rows of an answer to one process that asks for itself.
pub(crate) const ALONE_ROWS_MAX: u32 = 100_000;

/// Rows of such an answer unless it is told how many.
const ALONE_ROWS: u32 = 100;

impl Wallets {
    /// Opens the ledger that `url` names.
    pub fn open(url: &str, config: &WalletConfig, mode: OpenMode) -> Result<Self, LedgerOpenError> {
        let (engine, place) = url.split_once(':').unwrap_or((url, ""));
        match engine {
            "sqlite" | "postgres" | "postgresql" if place.is_empty() => {
                return Err(LedgerOpenError::NoPlace { engine: engine.to_owned() });
            }
            "sqlite" | "postgres" | "postgresql" => {}
            _ => return Err(LedgerOpenError::UnknownEngine { engine: engine.to_owned() }),
        }
        metrics::describe_counter!(RETRIES_METRIC, RETRIES_METRIC_HELP);
        crate::readers::warn_of_readers(engine, place);
        let failed = |source: LedgerError| {
            let place = crate::node_store::shown(engine, place).to_owned();
            match source {
                LedgerError::Sql(error) if error.is_missing() => LedgerOpenError::Missing { place },
                source => LedgerOpenError::Ledger { place, source },
            }
        };
        let options = sql_options(config).with(|settings| settings.mode = mode);
        let database = Database::open(url, &options).map_err(|error| failed(error.into()))?;
        crate::node_store::log_promises("wallet ledger", config.fsync, &database);
        let ledger = Ledger::open(database, limits(config), Micros::new(now_us()));
        let isolation =
            if config.serializable { Isolation::Serializable } else { Isolation::ReadCommitted };
        let ledger = ledger.map_err(failed)?.with_isolation(isolation);
        let codec = Arc::new(BitcoinCodec);
        let (ledger, config) = (ledger.with_codec(codec), config.clone());
        let page_rows = (config.page_rows_max.get(), config.page_rows_max.get());
        let follower = FollowerState::default();
        Ok(Self { ledger, config, chain: None, follower, sender: None, page_rows })
    }

    /// The same ledger for one process that asks for itself, and may want longer lists than clients of
    /// a server get.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.page_rows = (ALONE_ROWS, ALONE_ROWS_MAX);
        self
    }

    /// The same ledger, able to compare its wallets with a chain database.
    #[must_use]
    pub fn with_chain(mut self, chain: ChainIndex<RocksKv>) -> Self {
        self.chain = Some(chain);
        self
    }

    /// The ledger itself.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The settings it was opened with.
    #[must_use]
    pub const fn config(&self) -> &WalletConfig {
        &self.config
    }

    /// How the thread gets on that follows the chain.
    #[must_use]
    pub const fn follower(&self) -> &FollowerState {
        &self.follower
    }

    /// Why the ledger does not follow the chain, if it has stood still for longer than the
    /// configuration allows.
    #[must_use]
    pub fn follower_fault(&self) -> Option<String> {
        self.follower.fault(Duration::from_secs(self.config.follow_stalled_secs.into()))
    }

    /// Whether the database answers.
    pub fn check(&self) -> Result<(), WalletsError> {
        self.ledger.wallets(None, 1)?;
        Ok(())
    }

    /// The network of a wallet, which never changes.
    pub fn network_of(&self, name: &str) -> Result<Network, WalletsError> {
        Ok(self.wallet(name)?.network)
    }

    fn wallet(&self, name: &str) -> Result<Wallet, WalletsError> {
        Ok(self.ledger.wallet_named(name)?)
    }

    fn wallet_id(&self, name: &str) -> Result<WalletId, WalletsError> {
        Ok(self.wallet(name)?.id)
    }

    const fn maturity(&self) -> Maturity {
        Maturity::blocks_above(self.config.coinbase_maturity_blocks)
    }
}

fn now() -> Micros {
    Micros::new(now_us())
}

fn sql_options(config: &WalletConfig) -> Options {
    let durability = if config.fsync {
        utxokeep_sql::Durability::Synced
    } else {
        utxokeep_sql::Durability::Relaxed
    };
    Options::default().with(|settings| {
        settings.durability = durability;
        settings.connections_max = config.sql_connections_max.get() as usize;
        settings.is_unwanted = crate::waiting::is_unwanted;
    })
}

fn limits(config: &WalletConfig) -> Limits {
    Limits {
        cascade_txs_max: config.cascade_txs_max.get() as usize,
        tx_inputs_max: config.tx_inputs_max.get() as usize,
        tx_outputs_max: config.tx_outputs_max.get() as usize,
        raw_tx_bytes_max: config.raw_tx_bytes_max.get() as usize,
        label_chars_max: config.label_chars_max.get() as usize,
        lookahead_edge_percent: config.lookahead_edge_percent.get(),
        label_notes_max: config.label_notes_max.get() as usize,
        prune_depth_blocks: config.prune_depth_blocks,
        page_rows_max: config.page_rows_max.get() as usize,
        selection_window_coins_max: config.selection_window_coins_max.get() as usize,
        selection_search_coins_max: config.selection_search_coins_max.get() as usize,
        selection_rounds_max: config.selection_rounds_max.get() as usize,
        lease_batch_max: config.lease_batch_max.get() as usize,
        change_min_max: config.change_min_sat_max,
        batch_txs_max: config.batch_txs_max.get() as usize,
        // A configuration that was read was checked.
        event_depths: EventDepths::new(&config.event_depths).unwrap_or_default(),
        webhooks_max: config.webhooks_max.get() as usize,
        payment: payment_limits(config),
    }
}

const fn payment_limits(config: &WalletConfig) -> PaymentLimits {
    PaymentLimits {
        fee_max: config.fee_sat_max.get() as u64,
        fee_rate_max: FeeRate::per_vbyte(config.fee_rate_sat_per_vbyte_max.get()),
        fee_rate_min: config.fee_rate_sat_per_vbyte_min.rate(),
        incremental_rate_min: config.incremental_rate_sat_per_vbyte_min.rate(),
        incremental_rate_max: FeeRate::per_vbyte(config.incremental_rate_sat_per_vbyte_max.get()),
        weight_max: config.tx_weight_units_max.get() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_ledger() {
        assert_eq!(limits(&WalletConfig::default()), Limits::default());
    }

    #[test]
    fn wrong_urls_are_refused_without_showing_what_may_be_secret() {
        for url in ["redis://me:secret@host/db", "", "data", "rocksdb:x", "sqlite:"] {
            let error = Wallets::open(url, &WalletConfig::default(), OpenMode::Create)
                .unwrap_err()
                .to_string();
            assert!(error.contains("use sqlite:FILE"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
