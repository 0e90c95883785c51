//! Settings: one list that is the structures, their defaults and their documentation.
//!
//! # Invariants
//!
//! * Every setting stands once in [`schema`]; `docs/config.md` and `utxokeep.toml` are made from it.
//! * An unknown or wrong setting is an error that names file, key and what is allowed.
//! * Settings that are part of a database come from the database, unless the file states them.

mod error;
mod load;
mod page;
mod schema;

use utxokeep_core::{Network, Window};
use utxokeep_index::{Identity, Settings};
use utxokeep_kv::{Durability, RocksOptions};

pub use error::ConfigError;
pub use page::{example_file, page};
pub use schema::{
    ChainConfig, Config, Delta, IndexConfig, IndexingStrategy, RestConfig, SETTINGS, Setting,
    StorageConfig, Store,
};

const MIB: usize = 1 << 20;

impl Config {
    /// The network the file names, if it does.
    pub fn network(&self) -> Result<Option<Network>, ConfigError> {
        if self.chain.network.is_empty() {
            return Ok(None);
        }
        Ok(Some(Network::find(&self.chain.chain, &self.chain.network)?))
    }

    /// What the chain index is opened with. Fixed switches that the file does not state are those
    /// of the database, when there is one.
    #[must_use]
    pub fn settings(&self, network: Network, database: Option<&Identity>) -> Settings {
        let index = &self.index;
        let fixed = |names: &[&str], asked: bool, found: fn(&Identity) -> bool| {
            let is_stated = names.iter().any(|name| self.is_stated(name));
            database.filter(|_| !is_stated).map_or(asked, found)
        };
        let defaults = Settings::new(network);
        let blocks = |value: Option<u32>, default| value.filter(|&n| n > 0).unwrap_or(default);
        let address_names = ["index.address_hash", "index.indexing_strategy"];
        Settings {
            enabled: fixed(&["index.enabled"], index.enabled, |found| found.enabled),
            address_index: fixed(&address_names, index.keeps_addresses(), |f| f.address_index),
            muhash: fixed(&["index.muhash"], index.muhash, |found| found.muhash),
            window: Window {
                prune_depth: blocks(index.prune_depth_blocks, defaults.window.prune_depth),
                rollback_window: blocks(
                    index.rollback_window_blocks,
                    defaults.window.rollback_window,
                ),
            },
            delta: index.delta.into(),
            prune_rows_max: index.prune_batch_rows_max.get() as usize,
            prune_pass_ms_max: u64::from(index.prune_pass_ms_max.get()),
            durability: if self.storage.fsync { Durability::Synced } else { Durability::Buffered },
            bulk_batch_bytes_max: self.half_memory_bytes(),
            catch_up_blocks_max: self.storage.catch_up_blocks_max.get() as usize,
            ..defaults
        }
    }

    /// How the engine is opened: with half of the memory; batches have the other half.
    #[must_use]
    pub fn rocks_options(&self) -> RocksOptions {
        let mut options = RocksOptions::within(self.half_memory_bytes());
        options.open_files_max = self.storage.open_files_max.get();
        options
    }

    const fn half_memory_bytes(&self) -> usize {
        self.storage.cache_mib.get() as usize * MIB / 2
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
}

#[cfg(test)]
mod tests {
    use utxokeep_index::DeltaKind;

    use super::*;

    const REGTEST: Network = Network::BitcoinRegtest;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, "test.toml")
    }

    #[test]
    fn defaults_are_those_of_the_index() {
        let ours = Config::default().settings(REGTEST, None);
        let theirs = Settings::new(REGTEST);
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn fixed_switches_come_from_the_database_unless_the_file_states_them() {
        let identity =
            Identity { network: REGTEST, enabled: true, address_index: false, muhash: true };
        let unstated = Config::default().settings(REGTEST, Some(&identity));
        assert!(unstated.muhash && !unstated.address_index);

        let stated = parse("[index]\nmuhash = false\nindexing_strategy = \"both\"").unwrap();
        let stated = stated.settings(REGTEST, Some(&identity));
        assert!(!stated.muhash && stated.address_index);
    }

    #[test]
    fn every_index_setting_reaches_the_index() {
        let text = "[index]\nprune_depth_blocks = 7\nrollback_window_blocks = 9\n\
                    prune_batch_rows_max = 11\nprune_pass_ms_max = 13\ndelta = \"self-contained\"\n\
                    address_hash = true\nindexing_strategy = \"payment_credential\"\n\
                    [storage]\ncache_mib = 64\nfsync = false\ncatch_up_blocks_max = 5\n\
                    open_files_max = 100";
        let config = parse(text).unwrap();
        let settings = config.settings(REGTEST, None);
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
    fn zero_depth_means_the_default_of_the_network() {
        let config = parse("[index]\nprune_depth_blocks = 0\nrollback_window_blocks = 0").unwrap();
        assert_eq!(config.settings(REGTEST, None).window, Settings::new(REGTEST).window);
    }

    #[test]
    fn mistakes_are_named_with_file_key_and_what_is_allowed() {
        let cases = [
            ("[indx]\n", "test.toml: there is no section [indx]; known: [chain], [index]"),
            ("[index]\nmuhsh = true", "test.toml: there is no setting index.muhsh; known"),
            ("[index]\nmuhash = 1", "test.toml: index.muhash: true or false is expected, not 1"),
            ("[index]\ndelta = \"big\"", "index.delta: \"compact\" or \"self-contained\" is"),
            ("[index]\nprune_batch_rows_max = 0", "index.prune_batch_rows_max: a whole number"),
            ("[storage]\ncache_mib = 3", "storage.cache_mib: a whole number from 16 on is"),
            ("[rest]\nlisten = \"here\"", "rest.listen: an address and a port is expected"),
            ("[index]\nstore = \"mmr\"", "index.store: \"mmr\" is not available yet"),
            ("index = 5", "test.toml: index must be a section: write [index]"),
            ("[chain]\nnetwork = \"moon\"", "test.toml: unknown network \"moon\""),
            ("[index", "test.toml is not valid TOML: "),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
