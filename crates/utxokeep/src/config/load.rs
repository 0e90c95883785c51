//! Reading a configuration file.

use std::{fs, path::Path};

use serde::Serialize;
use toml::{Table, Value};
use utxokeep_core::wallet::{EventDepths, FeeRate};

use super::names;
use super::{Config, ConfigError, SETTINGS, Setting, StoreFollow, schema::SECTIONS};

/// Below this the engine cannot hold one block of each table.
const CACHE_MIB_MIN: u32 = 16;
/// Below this the engine would reopen files for every read.
const OPEN_FILES_MIN: u32 = 64;
/// Above this one message could take all the memory there is.
const MESSAGE_MIB_MAX: u32 = 1_024;
/// Bitcoin Core closes a connection after 30 seconds without a question.
const POLL_INTERVAL_MS_MAX: u32 = 20_000;
/// From then on every block may spend a coinbase.
const BITCOIN_MATURITY_BLOCKS: u32 = 100;
/// More questions than that only keep the node busy.
const MEMPOOL_POLL_MS_MIN: u32 = 10;
/// Ids of more transactions are longer than an answer of the node may be.
const MEMPOOL_TRANSACTIONS_MAX: u32 = 1_000_000;
/// Bitcoin Core answers with 16 threads.
const FETCH_CONNECTIONS_MAX: u32 = 16;

impl Config {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file; `file` names it in errors.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
            let line = before.matches('\n').count() + 1;
            let detail = error.message().replace('\n', ", ");
            ConfigError::Syntax { file: file.to_owned(), line, detail }
        })?;
        let mut config = Self::default();
        for (section, values) in &table {
            let Value::Table(values) = values else {
                let (file, section) = (file.to_owned(), section.clone());
                return Err(if is_section(&section) {
                    ConfigError::NotASection { file, section }
                } else {
                    unknown_section(&file, &section)
                });
            };
            if !is_section(section) {
                return Err(unknown_section(file, section));
            }
            for (name, value) in values {
                let setting = find(file, section, name)?;
                check_value(file, setting, value)?;
                config.stated.insert(setting.key());
            }
        }
        let stated = config.stated;
        config = table.try_into().map_err(|error: toml::de::Error| ConfigError::Syntax {
            file: file.to_owned(),
            line: 1,
            detail: error.message().to_owned(),
        })?;
        config.stated = stated;
        config.check(file)?;
        // What a rollback of the chain database reaches must not be pruned from the ledger.
        let window = config.index.rollback_window_blocks.unwrap_or(0);
        config.wallet.prune_depth_blocks = config.wallet.prune_depth_blocks.max(window);
        Ok(config)
    }

    /// Whether the file states a setting, given as `section.name`.
    #[must_use]
    pub fn is_stated(&self, key: &str) -> bool {
        self.stated.contains(key)
    }

    /// What the types cannot express.
    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let file = || file.to_owned();
        self.check_mmr(&file())?;
        self.network().map_err(|error| match error {
            ConfigError::UnknownNetwork(source) => ConfigError::Network { file: file(), source },
            other => other,
        })?;
        let any = u32::MAX;
        let bounds = [
            ("storage", "cache_mib", self.storage.cache_mib.get(), CACHE_MIB_MIN..=any),
            ("storage", "open_files_max", self.storage.open_files_max.get(), OPEN_FILES_MIN..=any),
            ("txstore", "cache_mib", self.txstore.cache_mib.get(), CACHE_MIB_MIN..=any),
            ("txstore", "sql_connections_max", self.txstore.sql_connections_max.get(), 2..=any),
            ("wallet", "sql_connections_max", self.wallet.sql_connections_max.get(), 2..=any),
            (
                "wallet",
                "webhook_concurrency_max",
                self.wallet.webhook_concurrency_max.get(),
                1..=1000,
            ),
            ("wallet", "lookahead_edge_percent", self.wallet.lookahead_edge_percent.get(), 1..=100),
            (
                "server",
                "request_memory_mib_max",
                self.server.request_memory_mib_max.get(),
                16..=any,
            ),
            (
                "follow",
                "poll_interval_ms",
                self.follow.poll_interval_ms.get(),
                1..=POLL_INTERVAL_MS_MAX,
            ),
            (
                "follow",
                "fetch_connections_max",
                self.follow.fetch_connections_max.get(),
                1..=FETCH_CONNECTIONS_MAX,
            ),
            (
                "mempool",
                "poll_interval_ms",
                self.mempool.poll_interval_ms.get(),
                MEMPOOL_POLL_MS_MIN..=any,
            ),
            (
                "mempool",
                "transactions_max",
                self.mempool.transactions_max.get(),
                1..=MEMPOOL_TRANSACTIONS_MAX,
            ),
            ("persister", "parallel_files", self.persister.parallel_files.get(), 1..=256),
            ("persister", "subtree_txs_log2", self.persister.subtree_txs_log2.into(), 0..=20),
            (
                "persister",
                "retry_wait_ms_max",
                self.persister.retry_wait_ms_max,
                self.persister.retry_wait_ms..=any,
            ),
            ("grpc", "message_mib_max", self.grpc.message_mib_max.get(), 1..=MESSAGE_MIB_MAX),
            ("stream", "consumers_max", self.stream.consumers_max.get(), 1..=48),
        ];
        for (section, name, value, allowed) in bounds {
            if !allowed.contains(&value) {
                return Err(wrong_value(&file(), find(&file(), section, name)?, &value));
            }
        }
        crate::pruning::settings(&self.pruner)
            .check()
            .map_err(|source| ConfigError::Pruner { file: file(), source })?;
        self.check_node_store(&file())?;
        self.check_events(&file())?;
        self.check_persister(&file())?;
        self.check_mempool(&file())?;
        self.check_server(&file())?;
        if self.follow.reconnect_max_ms < self.follow.reconnect_first_ms {
            let setting = find(&file(), "follow", "reconnect_max_ms")?;
            return Err(wrong_value(&file(), setting, &self.follow.reconnect_max_ms));
        }
        self.check_wallet(&file())
    }

    /// A mempool that is asked for by name must be one that can be read.
    fn check_mempool(&self, file: &str) -> Result<(), ConfigError> {
        let is_asked_for = self.mempool.enabled && self.is_stated("mempool.enabled");
        let is_cardano =
            self.chain.source.as_ref().is_some_and(|source| source.chain() == "cardano");
        if is_asked_for && is_cardano {
            let setting = find(file, "mempool", "enabled")?;
            return Err(wrong_value(file, setting, &"true beside a Cardano node"));
        }
        Ok(())
    }

    /// A persister needs a place, and a pruner beside it that listens to it.
    fn check_persister(&self, file: &str) -> Result<(), ConfigError> {
        let persister = &self.persister;
        if !persister.enabled {
            return Ok(());
        }
        if persister.url.is_empty() {
            return Err(wrong_value(file, find(file, "persister", "url")?, &persister.url));
        }
        let window = self.index.rollback_window_blocks.unwrap_or(0);
        if persister.retention_blocks > 0 && persister.retention_blocks < window {
            let setting = find(file, "persister", "retention_blocks")?;
            return Err(wrong_value(file, setting, &persister.retention_blocks));
        }
        if self.pruner.trigger == super::PrunerTrigger::BlockMined && self.pruner.follow_chain {
            let setting = find(file, "pruner", "trigger")?;
            return Err(wrong_value(file, setting, &"block_mined beside [persister] enabled"));
        }
        Ok(())
    }

    /// Heights come from one chain.
    fn check_events(&self, file: &str) -> Result<(), ConfigError> {
        let pruner = &self.pruner;
        if pruner.events.is_empty() {
            return Ok(());
        }
        if pruner.events_address().is_none() {
            return Err(wrong_value(file, find(file, "pruner", "events")?, &pruner.events));
        }
        if pruner.follow_chain {
            let detail = "pruner.events and pruner.follow_chain = true exclude each other: heights come \
                          from one chain database";
            return Err(ConfigError::Together { file: file.to_owned(), detail });
        }
        Ok(())
    }

    /// Names that could never match would keep everybody out.
    fn check_server(&self, file: &str) -> Result<(), ConfigError> {
        let (hosts, origins) = (&self.server.hosts, &self.server.cors_origins);
        if !hosts.iter().all(|host| names::is_host_name(host)) {
            return Err(wrong_value(file, find(file, "server", "hosts")?, hosts));
        }
        if !origins.iter().all(|origin| names::is_origin(origin)) {
            return Err(wrong_value(file, find(file, "server", "cors_origins")?, origins));
        }
        Ok(())
    }

    /// Bounds of the wallet ledger that stand in each other's way.
    fn check_wallet(&self, file: &str) -> Result<(), ConfigError> {
        let wallet = &self.wallet;
        let (rate_min, rate_max) =
            (wallet.fee_rate_sat_per_vbyte_min, wallet.fee_rate_sat_per_vbyte_max.get());
        if rate_min.rate() > FeeRate::per_vbyte(rate_max) {
            let setting = find(file, "wallet", "fee_rate_sat_per_vbyte_min")?;
            return Err(wrong_value(file, setting, &rate_min));
        }
        let (on_top_min, on_top_max) = (
            wallet.incremental_rate_sat_per_vbyte_min,
            wallet.incremental_rate_sat_per_vbyte_max.get(),
        );
        if on_top_min.rate() > FeeRate::per_vbyte(on_top_max) {
            let setting = find(file, "wallet", "incremental_rate_sat_per_vbyte_min")?;
            return Err(wrong_value(file, setting, &on_top_min));
        }
        if EventDepths::new(&wallet.event_depths).is_err() {
            let setting = find(file, "wallet", "event_depths")?;
            return Err(wrong_value(file, setting, &wallet.event_depths));
        }
        if wallet.lease_secs_default > wallet.lease_secs_max {
            let setting = find(file, "wallet", "lease_secs_default")?;
            return Err(wrong_value(file, setting, &wallet.lease_secs_default));
        }
        Ok(())
    }
}

impl Config {
    /// Settings of the node store and the pruner that only work together.
    fn check_node_store(&self, file: &str) -> Result<(), ConfigError> {
        let (store, pruner) = (&self.txstore, &self.pruner);
        let rows = u64::from(pruner.chunk_rows.get()) * u64::from(pruner.parallel_chunks.get());
        let follows = store.follow == StoreFollow::All;
        let wrong: [(bool, &'static str); 9] = [
            (
                follows && store.url.is_empty(),
                "txstore.follow = \"all\" needs txstore.url: there is no node store",
            ),
            (
                follows && self.chain.chain == "cardano",
                "txstore.follow = \"all\" is for Bitcoin: the node store takes no transactions of \
                 Cardano",
            ),
            (
                follows && pruner.enabled && !pruner.follow_chain,
                "txstore.follow = \"all\" needs pruner.follow_chain = true, or pruner.enabled = false: \
                 the pruner must not go further than the store has followed",
            ),
            (
                follows && store.coinbase_maturity_blocks > BITCOIN_MATURITY_BLOCKS,
                "txstore.coinbase_maturity_blocks must not be above 100 with txstore.follow = \"all\": \
                 blocks spend coinbases from then on",
            ),
            (
                store.externalize_all && store.blobs.is_empty(),
                "txstore.externalize_all needs txstore.blobs: there is no place for the bodies",
            ),
            (
                store.height_jump_blocks_max.get() >= pruner.safety_window_blocks.max(1),
                "txstore.height_jump_blocks_max must be below pruner.safety_window_blocks: one wrong \
                 report could void the whole window",
            ),
            (
                store.unmined_retention_blocks < pruner.unmined_retention_blocks,
                "txstore.unmined_retention_blocks must not be below pruner.unmined_retention_blocks: \
                 parents of a transaction that leaves the longest chain would not be protected at once",
            ),
            (
                rows > u64::from(store.batch_items_max.get()),
                "pruner.chunk_rows times pruner.parallel_chunks must not be above \
                 txstore.batch_items_max: the store would refuse every run",
            ),
            (
                store.retention_blocks > 0
                    && store.retention_blocks < pruner.unmined_retention_blocks,
                "txstore.retention_blocks must not be below pruner.unmined_retention_blocks: parents \
                 would be due before they are protected",
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, detail)) => Err(ConfigError::Together { file: file.to_owned(), detail }),
            None => Ok(()),
        }
    }
}

fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|(known, _)| *known == name)
}

fn unknown_section(file: &str, section: &str) -> ConfigError {
    let known: Vec<String> = SECTIONS.iter().map(|(name, _)| format!("[{name}]")).collect();
    ConfigError::UnknownSection {
        file: file.to_owned(),
        section: section.to_owned(),
        known: known.join(", "),
    }
}

fn find(file: &str, section: &str, name: &str) -> Result<&'static Setting, ConfigError> {
    let mut of_section = SETTINGS.iter().filter(|setting| setting.section == section);
    of_section.clone().find(|setting| setting.name == name).ok_or_else(|| {
        let known: Vec<_> = of_section.by_ref().map(|setting| setting.name).collect();
        ConfigError::UnknownKey {
            file: file.to_owned(),
            key: format!("{section}.{name}"),
            known: known.join(", "),
        }
    })
}

/// Reads one setting on its own, so that an error can only be about this one.
fn check_value(file: &str, setting: &Setting, value: &Value) -> Result<(), ConfigError> {
    let inner = Table::from_iter([(setting.name.to_owned(), value.clone())]);
    let outer = Table::from_iter([(setting.section.to_owned(), Value::Table(inner))]);
    match outer.try_into::<Config>() {
        Ok(_) => Ok(()),
        // A source may hold a password that does not belong there: its value is never shown.
        Err(error) if setting.key() == "chain.source" => {
            let reason = match value {
                Value::Table(_) => error.message().replace('\n', " "),
                _ => format!("it is a table such as {}", setting.example),
            };
            Err(ConfigError::Source { file: file.to_owned(), reason })
        }
        Err(_) => Err(wrong_value(file, setting, value)),
    }
}

fn wrong_value(file: &str, setting: &Setting, value: &impl Serialize) -> ConfigError {
    let shown =
        Value::try_from(value).map_or_else(|_| "that".to_owned(), |value| value.to_string());
    ConfigError::WrongValue {
        file: file.to_owned(),
        key: setting.key(),
        allowed: setting.allowed,
        value: shown.replace('\n', " "),
    }
}
