//! Stores that are made to be measured, and removed afterwards.

use std::{
    fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    sync::Arc,
};

use utxokeep_kv::OpenMode;
use utxokeep_sql::{Database, Options};
use utxokeep_txstore::{NodeStore, bench::BareEngine};

use super::StoreBenchError;
use crate::{
    config::TxStoreConfig,
    node_store::{self, NodeStoreOpenError},
};

/// Where stores are made, from the URL of a node store.
#[derive(Debug)]
pub(super) struct Place {
    url: String,
}

/// A store that nobody else knows of.
pub(super) struct Made {
    store: Arc<NodeStore>,
    bare: Option<BareEngine>,
    removal: Removal,
}

/// How a store is removed.
enum Removal {
    Nothing,
    Directory(PathBuf),
    /// URL and schema.
    Schema(String, String),
    #[cfg(feature = "redis")]
    Prefix(Arc<utxokeep_records::RedisRecords>, String),
    #[cfg(feature = "aerospike")]
    Set(Arc<utxokeep_records::AerospikeRecords>, String),
}

/// Letters that no store has in its name yet.
fn random_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

impl Place {
    /// The place that a URL names; nothing is opened yet.
    pub(super) fn of(url: &str) -> Result<Self, StoreBenchError> {
        node_store::check_url(url)?;
        Ok(Self { url: url.to_owned() })
    }

    fn parts(&self) -> (&str, &str) {
        self.url.split_once(':').unwrap_or((&self.url, ""))
    }

    pub(super) fn engine(&self) -> &str {
        match self.parts().0 {
            "rediss" => "redis",
            "aerospikes" => "aerospike",
            "postgresql" => "postgres",
            engine => engine,
        }
    }

    /// What commits wait for.
    pub(super) fn level(&self, config: &TxStoreConfig) -> Result<String, StoreBenchError> {
        Ok(match self.engine() {
            "redis" | "aerospike" => node_store::ack_of(&self.url)?,
            "memory" => "memory".to_owned(),
            _ if config.fsync => "fsync".to_owned(),
            _ => "no fsync".to_owned(),
        })
    }

    /// Every level of the engine.
    pub(super) fn levels(&self) -> Result<Vec<String>, StoreBenchError> {
        if !["redis", "aerospike"].contains(&self.engine()) {
            return Err(StoreBenchError::NoLevels);
        }
        Ok(["primary", "replica", "disk"].map(str::to_owned).to_vec())
    }

    /// Makes a store.
    pub(super) fn make(
        &self,
        config: &TxStoreConfig,
        level: &str,
    ) -> Result<Made, StoreBenchError> {
        // Bodies are small: none of them goes to a blob store, which might be somebody's.
        let config =
            TxStoreConfig { blobs: String::new(), externalize_all: false, ..config.clone() };
        let (engine, place) = self.parts();
        let name = format!("bench-{}", random_name());
        match engine {
            "rocksdb" | "sqlite" => {
                let directory = PathBuf::from(format!("{place}.{name}"));
                fs::create_dir(&directory).map_err(|error| not_made(&directory, &error))?;
                let at = directory.join("store");
                let removal = Removal::Directory(directory);
                Self::open(&format!("{engine}:{}", at.display()), &config, removal)
            }
            "postgres" | "postgresql" => {
                let schema = format!("utxokeep_{}", name.replace('-', "_"));
                let store = node_store::open_in_schema(&self.url, &config, &schema);
                let removal = Removal::Schema(self.url.clone(), schema);
                Made::of(store, removal)
            }
            "redis" | "rediss" => self.on_cluster(&config, level, &name),
            "aerospike" | "aerospikes" => self.on_aerospike(&config, level, &name),
            "memory" => Self::open(&self.url, &config, Removal::Nothing),
            // Nothing would keep it apart from a store that exists.
            _ => Err(StoreBenchError::NotMeasured { engine: engine.to_owned() }),
        }
    }

    fn open(url: &str, config: &TxStoreConfig, removal: Removal) -> Result<Made, StoreBenchError> {
        Made::of(node_store::open(url, config, OpenMode::Create), removal)
    }

    #[cfg(feature = "redis")]
    fn on_cluster(
        &self,
        config: &TxStoreConfig,
        level: &str,
        name: &str,
    ) -> Result<Made, StoreBenchError> {
        let (port, opened) = node_store::open_for_bench(&self.url, config, level, name)?;
        let removal = Removal::Prefix(port, name.to_owned());
        match opened {
            Ok((store, bare)) => Ok(Made { store: Arc::new(store), bare: Some(bare), removal }),
            Err(error) => {
                removal.remove()?;
                Err(error.into())
            }
        }
    }

    #[cfg(feature = "aerospike")]
    fn on_aerospike(
        &self,
        config: &TxStoreConfig,
        level: &str,
        name: &str,
    ) -> Result<Made, StoreBenchError> {
        let (port, opened) = node_store::open_aerospike_for_bench(&self.url, config, level, name)?;
        let removal = Removal::Set(port, name.to_owned());
        match opened {
            Ok((store, bare)) => Ok(Made { store: Arc::new(store), bare: Some(bare), removal }),
            Err(error) => {
                removal.remove()?;
                Err(error.into())
            }
        }
    }

    #[cfg(not(feature = "aerospike"))]
    fn on_aerospike(
        &self,
        config: &TxStoreConfig,
        _level: &str,
        _name: &str,
    ) -> Result<Made, StoreBenchError> {
        // Answers that this build has none.
        Self::open(&self.url, config, Removal::Nothing)
    }

    #[cfg(not(feature = "redis"))]
    fn on_cluster(
        &self,
        config: &TxStoreConfig,
        _level: &str,
        _name: &str,
    ) -> Result<Made, StoreBenchError> {
        // Answers that this build has none.
        Self::open(&self.url, config, Removal::Nothing)
    }
}

fn not_made(directory: &Path, error: &std::io::Error) -> StoreBenchError {
    StoreBenchError::NotMade { place: directory.display().to_string(), reason: error.to_string() }
}

impl Made {
    fn of(
        store: Result<Arc<NodeStore>, NodeStoreOpenError>,
        removal: Removal,
    ) -> Result<Self, StoreBenchError> {
        match store {
            Ok(store) => Ok(Self { store, bare: None, removal }),
            Err(error) => {
                // What was begun goes, and why it ended is the answer.
                let _ = removal.remove();
                Err(error.into())
            }
        }
    }

    pub(super) fn store(&self) -> &NodeStore {
        &self.store
    }

    /// The bare engine, where it has a client that can make the same calls.
    pub(super) const fn bare(&self) -> Option<&BareEngine> {
        self.bare.as_ref()
    }

    /// Closes and removes the store.
    pub(super) fn remove(self) -> Result<(), StoreBenchError> {
        let Self { store, bare, removal } = self;
        drop((store, bare));
        removal.remove()
    }
}

impl Removal {
    fn remove(self) -> Result<(), StoreBenchError> {
        let failed = |place: String, reason: String| StoreBenchError::NotRemoved { place, reason };
        match self {
            Self::Nothing => Ok(()),
            Self::Directory(directory) => fs::remove_dir_all(&directory)
                .map_err(|error| failed(directory.display().to_string(), error.to_string())),
            Self::Schema(url, schema) => drop_schema(&url, &schema)
                .map_err(|error| failed(format!("the schema {schema}"), error.to_string())),
            #[cfg(feature = "redis")]
            Self::Prefix(port, prefix) => port.clear().map(drop).map_err(|error| {
                failed(format!("all keys that begin with {prefix}:"), error.to_string())
            }),
            #[cfg(feature = "aerospike")]
            Self::Set(port, set) => {
                port.clear().map_err(|error| failed(format!("the set {set}"), error.to_string()))
            }
        }
    }
}

fn drop_schema(url: &str, schema: &str) -> Result<(), utxokeep_sql::SqlError> {
    let database =
        Database::open(url, &Options::default().with(|settings| settings.connections_max = 1))?;
    database.write(|tx| tx.execute_batch(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")))
}
