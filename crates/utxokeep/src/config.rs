//! Settings: one list that is the structures, their defaults and their documentation.
//!
//! # Invariants
//!
//! * Every setting stands once in [`schema`]; `docs/config.md` and `utxokeep.toml` are made from it.
//! * An unknown or wrong setting is an error that names file, key and what is allowed.
//! * Settings that are part of a database come from the database, unless the file states them.

mod error;
mod genesis;
mod load;
mod mmr;
mod names;
mod page;
mod rate;
mod schema;
mod source;

use utxokeep_core::{Filter, Network, OwnerKeys, Window};
use utxokeep_index::{Identity, IndexSettings};
use utxokeep_kv::{Durability, RocksOptions};

pub use error::ConfigError;
pub use names::{is_host_name, is_origin};
pub use page::{example_file, page};
pub use schema::{
    ChainConfig, Config, Delta, FollowConfig, GrpcConfig, IndexConfig, IndexingStrategy,
    MempoolConfig, MmrRuleName, PersisterConfig, PrunerConfig, PrunerTrigger, RestConfig, SETTINGS,
    ServerConfig, Setting, StorageConfig, Store, StoreFollow, StreamConfig, TxStoreConfig,
    WalletConfig,
};
pub use source::{BitcoindSource, Source};

use crate::owners::{self, OwnerError};

const MIB: usize = 1 << 20;

/// Refuses a window that is too small on a public network; elsewhere a warning will do, because
/// whoever makes the chain decides how deep it forks.
fn check_window(window: Window, network: Network, security: u32) -> Result<(), ConfigError> {
    if window.covers(security) {
        return Ok(());
    }
    let error = ConfigError::SmallWindow { network, window: window.rollback_window, security };
    if network.is_public() {
        return Err(error);
    }
    tracing::warn!("{error}");
    Ok(())
}

impl Config {
    /// The network the file names, if it does.
    pub fn network(&self) -> Result<Option<Network>, ConfigError> {
        if self.chain.network.is_empty() {
            return Ok(None);
        }
        Ok(Some(Network::find(&self.chain.chain, &self.chain.network)?))
    }

    /// What the chain index is opened with. What is part of a database and not stated in the file
    /// is taken from the database, when there is one.
    pub fn settings(
        &self,
        network: Network,
        database: Option<&Identity>,
    ) -> Result<IndexSettings, ConfigError> {
        let index = &self.index;
        let fixed = |names: &[&str], asked: bool, found: fn(&Identity) -> bool| {
            let is_stated = names.iter().any(|name| self.is_stated(name));
            database.filter(|_| !is_stated).map_or(asked, found)
        };
        let defaults = IndexSettings::with_decoder(self.chain.decoder(network, database)?);
        let blocks = |value: Option<u32>, default| value.filter(|&n| n > 0).unwrap_or(default);
        let address_names = ["index.address_hash", "index.indexing_strategy"];
        let payment_names = ["index.payment_credential", "index.indexing_strategy"];
        let has_credentials = network.is_cardano();
        let window = Window {
            prune_depth: blocks(index.prune_depth_blocks, defaults.window.prune_depth),
            rollback_window: blocks(index.rollback_window_blocks, defaults.window.rollback_window),
        };
        check_window(window, network, defaults.decoder.security_blocks())?;
        let filter = self.filter(network, database)?;
        Ok(defaults.with(|settings| {
            settings.enabled = fixed(&["index.enabled"], index.enabled, |found| found.enabled);
            settings.address_index =
                fixed(&address_names, index.keeps_addresses(), |f| f.address_index);
            settings.payment_index = has_credentials
                && fixed(&payment_names, index.keeps_payment(), |f| f.payment_index);
            settings.stake_index = has_credentials
                && fixed(&["index.stake_credential"], index.stake_credential, |f| f.stake_index);
            settings.filter = filter;
            settings.may_start_mid_chain = self.chain.start_mid_chain;
            settings.muhash = fixed(&["index.muhash"], index.muhash, |found| found.muhash);
            settings.mmr = self.mmr(database);
            settings.window = window;
            settings.delta = index.delta.into();
            settings.prune_rows_max = index.prune_batch_rows_max.get() as usize;
            settings.prune_pass_ms_max = u64::from(index.prune_pass_ms_max.get());
            settings.consumer_lag_blocks_max = index.consumer_lag_blocks_max.get();
            settings.durability =
                if self.storage.fsync { Durability::Synced } else { Durability::Buffered };
            settings.bulk_batch_bytes_max = self.half_memory_bytes();
            settings.catch_up_blocks_max = self.storage.catch_up_blocks_max.get() as usize;
        }))
    }

    /// Which outputs are kept.
    fn filter(&self, network: Network, database: Option<&Identity>) -> Result<Filter, ConfigError> {
        const ADDRESSES: &str = "index.filter_addresses";
        const CREDENTIALS: &str = "index.filter_credentials";
        if let Some(identity) = database
            && !self.is_stated(ADDRESSES)
            && !self.is_stated(CREDENTIALS)
        {
            return Ok(identity.filter.clone());
        }
        let is_filtered =
            !self.index.filter_addresses.is_empty() || !self.index.filter_credentials.is_empty();
        if is_filtered && !network.is_cardano() {
            return Err(ConfigError::NoFilter { network });
        }
        let entry = |key, text: &String, owner: Result<OwnerKeys, OwnerError>| {
            owner.map(|owner| owner.key).map_err(|source| ConfigError::Owner {
                key,
                text: text.clone(),
                source: Box::new(source),
            })
        };
        let addresses = self.index.filter_addresses.iter();
        let addresses = addresses.map(|text| {
            let owner = owners::find_owner(text, None, network);
            entry(ADDRESSES, text, owner)
        });
        let credentials = self.index.filter_credentials.iter();
        let credentials = credentials.map(|text| {
            let owner = owners::find_credential(text, None, network);
            entry(CREDENTIALS, text, owner)
        });
        Ok(Filter::new(addresses.chain(credentials).collect::<Result<Vec<_>, _>>()?))
    }

    /// How the engine is opened: with half of the memory; batches have the other half.
    #[must_use]
    pub fn rocks_options(&self) -> RocksOptions {
        let mut options = RocksOptions::within(self.half_memory_bytes());
        options.open_files_max = self.storage.open_files_max.get();
        options.is_unwanted = crate::waiting::is_unwanted;
        options
    }

    const fn half_memory_bytes(&self) -> usize {
        self.storage.cache_mib.get() as usize * MIB / 2
    }
}

impl PrunerConfig {
    /// `HOST:PORT` of the utxokeep whose chain events are followed, if one is named as it should be.
    #[must_use]
    pub fn events_address(&self) -> Option<&str> {
        let address = self.events.strip_prefix("http://")?.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':')?;
        let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        (has_port && !host.is_empty() && host.chars().all(is_plain)).then_some(address)
    }
}

impl IndexConfig {
    /// Whether the address index is kept: the strategy decides when it is stated.
    #[must_use]
    pub const fn keeps_addresses(&self) -> bool {
        match self.indexing_strategy {
            Some(IndexingStrategy::AddressHash | IndexingStrategy::Both) => true,
            Some(IndexingStrategy::PaymentCredential) => false,
            None => self.address_hash,
        }
    }

    /// Whether the index by payment credential is kept, on chains that have them: the strategy
    /// decides when it is stated.
    #[must_use]
    pub const fn keeps_payment(&self) -> bool {
        match self.indexing_strategy {
            Some(IndexingStrategy::PaymentCredential | IndexingStrategy::Both) => true,
            Some(IndexingStrategy::AddressHash) => false,
            None => self.payment_credential,
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_index::DeltaKind;

    use super::*;

    const REGTEST: Network = Network::BitcoinRegtest;
    const PREVIEW: Network = Network::CardanoPreview;
    const CREDENTIAL: &str = "key:9493315cd92eb5d8c4304e67b7e16ae36d61d34502694657811a2c8e";

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, "test.toml")
    }

    #[test]
    fn defaults_are_those_of_the_index() {
        for network in [REGTEST, PREVIEW, Network::CardanoMainnet] {
            let ours = Config::default().settings(network, None).unwrap();
            let theirs = IndexSettings::new(network);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
    }

    #[test]
    fn fixed_switches_come_from_the_database_unless_the_file_states_them() {
        let identity = identity(REGTEST);
        let unstated = Config::default().settings(REGTEST, Some(&identity)).unwrap();
        assert!(unstated.muhash && !unstated.address_index);

        let stated = parse("[index]\nmuhash = false\nindexing_strategy = \"both\"").unwrap();
        let stated = stated.settings(REGTEST, Some(&identity)).unwrap();
        assert!(!stated.muhash && stated.address_index && !stated.payment_index);
    }

    fn identity(network: Network) -> Identity {
        Identity {
            network,
            enabled: true,
            address_index: false,
            muhash: true,
            mmr: None,
            payment_index: false,
            stake_index: true,
            filter: Filter::default(),
            genesis: None,
        }
    }

    #[test]
    fn credentials_and_filter_come_from_the_database_unless_the_file_states_them() {
        let text = format!(
            "[index]\npayment_credential = true\nstake_credential = false\n\
             filter_credentials = [\"{CREDENTIAL}\"]"
        );
        let stating = parse(&text).unwrap();
        let stated = stating.settings(PREVIEW, Some(&identity(PREVIEW))).unwrap();
        assert!(stated.payment_index && !stated.stake_index);
        assert_eq!(stated.filter.len(), 1);

        let database = Identity { filter: stated.filter.clone(), ..identity(PREVIEW) };
        let unstated = Config::default().settings(PREVIEW, Some(&database)).unwrap();
        assert!(!unstated.payment_index && unstated.stake_index);
        assert_eq!(unstated.filter, stated.filter);
    }

    #[test]
    fn an_entry_of_the_filter_is_refused_by_key_and_value() {
        let cases = [
            (PREVIEW, "filter_addresses", "nonsense"),
            (
                PREVIEW,
                "filter_addresses",
                "addr1vpu5vlrf4xkxv2qpwngf6cjhtw542ayty80v8dyr49rf5eg0yu80w",
            ),
            (PREVIEW, "filter_credentials", "addr_vkh1qqqq"),
        ];
        let config = parse(&format!("[index]\nfilter_credentials = [\"{CREDENTIAL}\"]")).unwrap();
        let error = config.settings(REGTEST, None).unwrap_err().to_string();
        assert!(error.contains("not possible on bitcoin/regtest"), "{error}");
        for (network, key, entry) in cases {
            let config = parse(&format!("[index]\n{key} = [\"{entry}\"]")).unwrap();
            let error = config.settings(network, None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("index.{key}: \"{entry}\"")), "{error}");
        }
    }

    #[test]
    fn every_index_setting_reaches_the_index() {
        let text = "[index]\nprune_depth_blocks = 7\nrollback_window_blocks = 9\n\
                    prune_batch_rows_max = 11\nprune_pass_ms_max = 13\ndelta = \"self-contained\"\n\
                    address_hash = true\nindexing_strategy = \"payment_credential\"\n\
                    [storage]\ncache_mib = 64\nfsync = false\ncatch_up_blocks_max = 5\n\
                    open_files_max = 100";
        let config = parse(text).unwrap();
        let settings = config.settings(REGTEST, None).unwrap();
        assert_eq!(settings.window, Window { prune_depth: 7, rollback_window: 9 });
        assert_eq!((settings.prune_rows_max, settings.prune_pass_ms_max), (11, 13));
        assert_eq!(settings.delta, DeltaKind::SelfContained);
        assert_eq!(settings.durability, Durability::Buffered);
        assert!(!settings.address_index);
        assert_eq!(settings.catch_up_blocks_max, 5);
        assert_eq!(settings.bulk_batch_bytes_max, 32 * MIB);
        let options = config.rocks_options();
        let engine = options.block_cache_bytes + options.write_buffer_bytes;
        assert_eq!(engine + settings.bulk_batch_bytes_max, 64 * MIB);
        assert_eq!(options.open_files_max, 100);
    }

    #[test]
    fn a_node_store_follows_a_chain_only_beside_a_pruner_that_follows_it_too() {
        let follow = "[txstore]\nurl = \"memory:\"\nfollow = \"all\"\n";
        let pruner = "[pruner]\nfollow_chain = true\n";
        let config = parse(&format!("{follow}{pruner}")).unwrap();
        assert_eq!(config.txstore.follow, StoreFollow::All);
        assert_eq!(Config::default().txstore.follow, StoreFollow::Nothing);
        parse(&format!("{follow}[pruner]\nenabled = false")).unwrap();
        let cases = [
            (follow.to_owned(), "needs pruner.follow_chain = true"),
            (format!("[txstore]\nfollow = \"all\"\n{pruner}"), "needs txstore.url"),
            (format!("{follow}{pruner}[chain]\nchain = \"cardano\""), "is for Bitcoin"),
            (format!("{follow}coinbase_maturity_blocks = 101\n{pruner}"), "must not be above 100"),
        ];
        for (text, why) in cases {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(parse("[txstore]\nfollow = \"some\"").is_err());
    }

    #[test]
    fn a_window_below_the_security_parameter_is_refused_on_public_networks() {
        let config = parse("[index]\nrollback_window_blocks = 143").unwrap();
        for network in [Network::BitcoinMainnet, Network::BitcoinSignet, PREVIEW] {
            let error = config.settings(network, None).unwrap_err().to_string();
            assert!(error.contains("index.rollback_window_blocks = 143 is less than"), "{error}");
            assert!(error.contains(&network.to_string()), "{error}");
        }
        assert_eq!(config.settings(REGTEST, None).unwrap().window.rollback_window, 143);
        let enough =
            parse("[index]\nrollback_window_blocks = 144\nprune_depth_blocks = 1").unwrap();
        assert!(enough.settings(Network::BitcoinMainnet, None).is_ok());
        assert!(enough.settings(PREVIEW, None).is_err(), "432 there");
    }

    #[test]
    fn chain_events_have_one_source_with_an_address() {
        for (events, address) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://node.example:8080/", "node.example:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            let config = parse(&format!("[pruner]\nevents = {events:?}")).unwrap();
            assert_eq!(config.pruner.events_address(), Some(address));
        }
        for wrong in [
            "here",
            "https://a:1",
            "http://",
            "http://a",
            "http://a:0",
            "http://a:x",
            "http://a/b:1",
        ] {
            let error = parse(&format!("[pruner]\nevents = {wrong:?}")).unwrap_err().to_string();
            assert!(error.contains("pruner.events: \"http://HOST:PORT\""), "{error}");
        }
        let both = "[pruner]\nevents = \"http://a:1\"\nfollow_chain = true";
        let error = parse(both).unwrap_err().to_string();
        assert!(error.contains("exclude each other"), "{error}");
        assert_eq!(parse("").unwrap().pruner.events_address(), None);
    }

    #[test]
    fn zero_depth_means_the_default_of_the_network() {
        let config = parse("[index]\nprune_depth_blocks = 0\nrollback_window_blocks = 0").unwrap();
        for network in [REGTEST, PREVIEW] {
            let window = config.settings(network, None).unwrap().window;
            assert_eq!(window, IndexSettings::new(network).window);
        }
    }

    #[test]
    fn the_mempool_of_a_cardano_node_is_refused_where_it_is_asked_for() {
        let cardano = "[chain]\nsource = { kind = \"cardano-node\", address = \"127.0.0.1:1\" }\n";
        // By default there is none, and nothing is wrong.
        assert!(parse(cardano).unwrap().mempool.enabled);
        assert!(parse(&format!("{cardano}[mempool]\nenabled = false\n")).is_ok());
        let refused = parse(&format!("{cardano}[mempool]\nenabled = true\n")).unwrap_err();
        assert!(refused.to_string().contains("mempool.enabled"), "{refused}");
        for wrong in ["poll_interval_ms = 9", "transactions_max = 1000001", "grace_secs = -1"] {
            assert!(parse(&format!("[mempool]\n{wrong}\n")).is_err(), "{wrong}");
        }
        assert!(parse("[mempool]\nenabled = true\n").is_ok());
    }

    #[test]
    fn mistakes_are_named_with_file_key_and_what_is_allowed() {
        let cases = [
            (
                "[indx]\n",
                "test.toml: there is no section [indx]; known: [chain], [follow], [mempool], [index]",
            ),
            ("[index]\nmuhsh = true", "test.toml: there is no setting index.muhsh; known"),
            ("[index]\nmuhash = 1", "test.toml: index.muhash: true or false is expected, not 1"),
            ("[index]\ndelta = \"big\"", "index.delta: \"compact\" or \"self-contained\" is"),
            ("[index]\nprune_batch_rows_max = 0", "index.prune_batch_rows_max: a whole number"),
            ("[storage]\ncache_mib = 3", "storage.cache_mib: a whole number from 16 on is"),
            ("[rest]\nlisten = \"here\"", "rest.listen: an address and a port is expected"),
            ("[txstore]\ncache_mib = 15", "txstore.cache_mib: a whole number from 16 on is"),
            ("[txstore]\nurl = 5", "txstore.url: \"rocksdb:DIR\", "),
            ("[grpc]\nmessage_mib_max = 1025", "grpc.message_mib_max: a whole number from 1 to"),
            ("[index]\nstore = \"tree\"", "index.store: \"classic\" or \"mmr\" is expected"),
            ("[index]\nmmr_rule = \"utreexo\"", "test.toml: index.mmr_rule needs index.store = "),
            ("index = 5", "test.toml: index must be a section: write [index]"),
            ("[chain]\nnetwork = \"moon\"", "test.toml: unknown network \"moon\""),
            (
                "[chain]\nchain = \"cardano\"\nnetwork = \"regtest\"",
                "network \"regtest\" of chain \"cardano\"",
            ),
            (
                "[chain]\nsource = { kind = \"cardano-node\" }",
                "test.toml: chain.source is wrong: a cardano-node has either address or socket",
            ),
            ("[chain]\nsource = \"a:1\"", "chain.source is wrong: it is a table such as { kind = "),
            ("[follow]\nreconnect_max_ms = 499", "a whole number from reconnect_first_ms on is"),
            (
                "[wallet]\nfee_rate_sat_per_vbyte_min = 1000.1",
                "wallet.fee_rate_sat_per_vbyte_min: a number from 0 to fee_rate_sat_per_vbyte_max",
            ),
            (
                "[wallet]\nfee_rate_sat_per_vbyte_min = 0.0001",
                "with up to three decimal places is expected, not 0.0001",
            ),
            (
                "[wallet]\nincremental_rate_sat_per_vbyte_min = 2.5\nincremental_rate_sat_per_vbyte_max = 2",
                "a number from 0 to incremental_rate_sat_per_vbyte_max",
            ),
            ("[wallet]\nlease_secs_max = 300", "a whole number from 1 to lease_secs_max is"),
            ("[index]\nfilter_addresses = \"a\"", "a list of addresses of the network is expected"),
            ("[server]\nhosts = [\"a:80\"]", "server.hosts: a list of names without port is"),
            ("[server]\ncors_origins = [\"a.example\"]", "server.cors_origins: a list of origins"),
            ("[index", "test.toml is not valid TOML: "),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
