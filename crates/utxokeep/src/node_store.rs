//! Opening the node store that the configuration names.

use std::{path::Path, sync::Arc};

use utxokeep_core::{ErrorKind, node::Policy};
use utxokeep_kv::{Durability, KvError, MemoryKv, OpenMode, RocksKv, RocksOptions, Use};
#[cfg(any(feature = "aerospike", feature = "redis"))]
use utxokeep_records::RecordStore;
#[cfg(feature = "aerospike")]
use utxokeep_records::{AerospikeOptions, AerospikeRecords};
#[cfg(feature = "redis")]
use utxokeep_records::{RedisOptions, RedisRecords};
use utxokeep_sql::{Database, Options, RETRIES_METRIC, RETRIES_METRIC_HELP};
use utxokeep_txstore::{
    Agreement, BlobUrlError, Blobs, KvOptions, NodeStore, StoreError, StoreOpenError,
    StoreSettings, TABLES, WrongBlobStore,
};

#[cfg(any(feature = "aerospike", feature = "redis"))]
use utxokeep_txstore::{RecordContext, RecordSettings};

pub use crate::place_name::name_for_move;
use crate::{clock::now_us, config::TxStoreConfig};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Why the node store could not be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeStoreOpenError {
    /// A URL that names no engine. Only its beginning is shown: the rest may hold a password.
    #[error("txstore.url: \"{engine}\" names no engine of the node store; use {ENGINES}")]
    UnknownEngine {
        /// What stands before the first colon.
        engine: String,
    },
    /// A URL that does not say where.
    #[error("txstore.url: \"{engine}:\" does not say where the node store is; use {ENGINES}")]
    NoPlace {
        /// What stands before the first colon.
        engine: String,
    },
    /// There is none, and none was to be created.
    #[error("there is no node store at {place}; nothing was created: `utxokeep serve` makes one")]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// The engine could not open it.
    #[error("cannot open the node store at {place}")]
    Store {
        /// Where it is.
        place: String,
        /// What the engine says.
        #[source]
        source: StoreOpenError,
    },
    /// The place for large bodies could not be opened.
    #[error("txstore.blobs: {0}")]
    Blobs(#[from] BlobUrlError),
    /// It is not the place that the store used before.
    #[error("txstore.blobs: {0}")]
    WrongBlobs(#[from] WrongBlobStore),
}

impl NodeStoreOpenError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownEngine { .. } | Self::NoPlace { .. } => ErrorKind::Invalid,
            Self::Missing { .. } => ErrorKind::Refused,
            Self::Store { source, .. } => source.kind(),
            Self::Blobs(error) => error.kind(),
            Self::WrongBlobs(error) => error.kind(),
        }
    }
}

/// URLs that [`open`] takes.
const ENGINES: &str = "rocksdb:DIR, sqlite:FILE, postgres://USER@HOST/DATABASE, \
                       redis://HOST:PORT,HOST:PORT, aerospike://HOST:PORT/NAMESPACE or \
                       memory:";

/// Opens the node store that `url` names.
pub fn open(
    url: &str,
    config: &TxStoreConfig,
    mode: OpenMode,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    open_with(url, config, mode, Agreement::Compare)
}

/// The same, which takes the place for large bodies as it is, also one that is not known.
pub fn adopt_blobs(
    url: &str,
    config: &TxStoreConfig,
    mode: OpenMode,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    open_how(url, config, mode, Agreement::Compare, true)
}

/// The same, which says what to do where the store has other numbers than the configuration.
pub fn open_with(
    url: &str,
    config: &TxStoreConfig,
    mode: OpenMode,
    agreement: Agreement,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    open_how(url, config, mode, agreement, false)
}

/// One side of a move or of a comparison: without the place for large bodies, whose files are not
/// touched.
pub fn open_for_move(
    url: &str,
    config: &TxStoreConfig,
    mode: OpenMode,
    agreement: Agreement,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    let config = TxStoreConfig { blobs: String::new(), ..config.clone() };
    open_how(url, &config, mode, agreement, false)
}

fn open_how(
    url: &str,
    config: &TxStoreConfig,
    mode: OpenMode,
    agreement: Agreement,
    adopts_blobs: bool,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    let (engine, place) = url.split_once(':').unwrap_or((url, ""));
    let failed = |source| {
        let place = shown_in_full(engine, place);
        match source {
            StoreOpenError::Missing
            | StoreOpenError::Store(StoreError::Kv(KvError::NotFound { .. })) => {
                NodeStoreOpenError::Missing { place }
            }
            StoreOpenError::Store(StoreError::Sql(error)) if error.is_missing() => {
                NodeStoreOpenError::Missing { place }
            }
            source => NodeStoreOpenError::Store { place, source },
        }
    };
    let settings = settings(config).with(|settings| settings.agreement = agreement);
    let proof_bytes_max = config.proof_memory_mib as usize * MIB;
    let tables = |durability| KvOptions { durability, proof_bytes_max };
    check_url(url)?;
    let store = match engine {
        "memory" => NodeStore::on_kv(MemoryKv::new(TABLES), settings, tables(Durability::Buffered)),
        "rocksdb" => {
            let options = RocksOptions::within(config.cache_mib.get() as usize * MIB);
            let options = options.for_use(Use::ManyWriters);
            let kv = RocksKv::open(Path::new(place), TABLES, options, mode);
            let tables = tables(durability(config));
            kv.map_err(Into::into).and_then(|kv| NodeStore::on_kv(kv, settings, tables))
        }
        "sqlite" | "postgres" | "postgresql" => {
            metrics::describe_counter!(RETRIES_METRIC, RETRIES_METRIC_HELP);
            crate::readers::warn_of_readers(engine, place);
            let options = sql_options(config).with(|settings| settings.mode = mode);
            let database = Database::open(url, &options).map_err(StoreError::from);
            let opened = database.map_err(Into::into).inspect(|database| {
                log_promises("node store", config.fsync, database);
            });
            opened.and_then(|database| NodeStore::on_sql(database, settings, now_us()))
        }
        "redis" | "rediss" => open_redis(url, config, settings, mode),
        "aerospike" | "aerospikes" => open_aerospike(url, config, settings, mode),
        _ => return Err(NodeStoreOpenError::UnknownEngine { engine: engine.to_owned() }),
    };
    let store = store.map_err(failed)?;
    if config.blobs.is_empty() {
        return Ok(Arc::new(store));
    }
    let timeout_ms = u64::from(config.blob_timeout_ms.get());
    let blobs = Blobs::open(&config.blobs, durability(config), timeout_ms, mode)?;
    let store = store.with_blobs(blobs);
    // What is in memory is new each time.
    if config.blobs != "memory:" {
        match store.claim_blobs(adopts_blobs) {
            Ok(claimed) => claimed?,
            // Small bodies can still be had; who needs a large one is told.
            Err(error @ StoreError::Blob { .. }) if !adopts_blobs => {
                tracing::warn!(%error, "whether the blob store is the right one is not known");
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(Arc::new(store))
}

/// Refuses a URL that names no engine, or no place.
pub(crate) fn check_url(url: &str) -> Result<(), NodeStoreOpenError> {
    let (engine, place) = url.split_once(':').unwrap_or((url, ""));
    match engine {
        "memory" => Ok(()),
        "rocksdb" | "sqlite" | "postgres" | "postgresql" | "redis" | "rediss" | "aerospike"
        | "aerospikes" => {
            let engine = engine.to_owned();
            if place.is_empty() { Err(NodeStoreOpenError::NoPlace { engine }) } else { Ok(()) }
        }
        _ => Err(NodeStoreOpenError::UnknownEngine { engine: engine.to_owned() }),
    }
}

/// A new store in a schema of its own on `PostgreSQL`.
pub(crate) fn open_in_schema(
    url: &str,
    config: &TxStoreConfig,
    schema: &str,
) -> Result<Arc<NodeStore>, NodeStoreOpenError> {
    let options = sql_options(config).with(|settings| settings.schema = Some(schema.to_owned()));
    let database = Database::open(url, &options).map_err(StoreError::from).map_err(Into::into);
    let store = database.and_then(|base| NodeStore::on_sql(base, settings(config), now_us()));
    let (engine, place) = url.split_once(':').unwrap_or((url, ""));
    let place = || shown(engine, place).to_owned();
    store.map(Arc::new).map_err(|source| NodeStoreOpenError::Store { place: place(), source })
}

/// What commits on a cluster wait for, as its URL says.
pub(crate) fn ack_of(url: &str) -> Result<String, NodeStoreOpenError> {
    #[cfg(feature = "redis")]
    if url.starts_with("redis") {
        let options =
            RedisOptions::parse(url).map_err(|error| cluster_failed(url, error.into()))?;
        return Ok(options.acknowledgement.to_string());
    }
    #[cfg(feature = "aerospike")]
    if url.starts_with("aerospike") {
        let options =
            AerospikeOptions::parse(url).map_err(|error| cluster_failed(url, error.into()))?;
        return Ok(options.acknowledgement.to_string());
    }
    let _ = url;
    Ok("replica".to_owned())
}

/// A level by its name.
#[cfg(any(feature = "aerospike", feature = "redis"))]
fn level_of(name: &str) -> Option<utxokeep_records::Acknowledgement> {
    use utxokeep_records::Acknowledgement::{Disk, Primary, Replica};
    [Primary, Replica, Disk].into_iter().find(|level| level.to_string() == name)
}

/// The same as [`open_for_bench`] on Aerospike, in a set of its own.
#[cfg(feature = "aerospike")]
pub(crate) fn open_aerospike_for_bench(
    url: &str,
    config: &TxStoreConfig,
    level: &str,
    set: &str,
) -> Result<AerospikeBenched, NodeStoreOpenError> {
    let failed = |source| cluster_failed(url, source);
    let mut options = AerospikeOptions::parse(url).map_err(|error| failed(error.into()))?;
    options.acknowledgement = level_of(level).unwrap_or(options.acknowledgement);
    set.clone_into(&mut options.set);
    let records = record_settings(config).map_err(failed)?;
    let port = Arc::new(AerospikeRecords::open(options).map_err(|error| failed(error.into()))?);
    let opened = utxokeep_txstore::bench::BareEngine::open(port.clone(), settings(config), records);
    Ok((port, opened.map_err(failed)))
}

/// A client of Aerospike, and a new store over it beside its bare engine, or why there is none.
#[cfg(feature = "aerospike")]
pub(crate) type AerospikeBenched = (
    Arc<AerospikeRecords>,
    Result<(NodeStore, utxokeep_txstore::bench::BareEngine), NodeStoreOpenError>,
);

/// A client of a cluster, and a new store over it beside its bare engine, or why there is none.
#[cfg(feature = "redis")]
pub(crate) type Benched = (
    Arc<RedisRecords>,
    Result<(NodeStore, utxokeep_txstore::bench::BareEngine), NodeStoreOpenError>,
);

/// A new store under a prefix of its own, at an acknowledgement level, and its bare engine.
#[cfg(feature = "redis")]
pub(crate) fn open_for_bench(
    url: &str,
    config: &TxStoreConfig,
    level: &str,
    prefix: &str,
) -> Result<Benched, NodeStoreOpenError> {
    let failed = |source| cluster_failed(url, source);
    let mut options = RedisOptions::parse(url).map_err(|error| failed(error.into()))?;
    options.acknowledgement = level_of(level).unwrap_or(options.acknowledgement);
    prefix.clone_into(&mut options.prefix);
    let records = record_settings(config).map_err(failed)?;
    let port = Arc::new(RedisRecords::open(options).map_err(|error| failed(error.into()))?);
    let opened = utxokeep_txstore::bench::BareEngine::open(port.clone(), settings(config), records);
    Ok((port, opened.map_err(failed)))
}

#[cfg(any(feature = "aerospike", feature = "redis"))]
fn cluster_failed(url: &str, source: StoreOpenError) -> NodeStoreOpenError {
    let (engine, place) = url.split_once(':').unwrap_or((url, ""));
    NodeStoreOpenError::Store { place: shown_in_full(engine, place), source }
}

/// The same as [`shown`]; of a cluster with its scheme.
fn shown_in_full(engine: &str, place: &str) -> String {
    let shown = shown(engine, place);
    if ["redis", "aerospike"].iter().any(|cluster| engine.starts_with(cluster)) {
        return format!("{engine}://{}", shown.trim_start_matches('/'));
    }
    shown.to_owned()
}

/// A store on records that are atomic one at a time.
#[cfg(any(feature = "aerospike", feature = "redis"))]
fn on_records(
    port: Arc<dyn RecordStore>,
    config: &TxStoreConfig,
    settings: StoreSettings,
    mode: OpenMode,
) -> Result<NodeStore, StoreOpenError> {
    let ack = port.acknowledgement();
    tracing::info!("node store: a commit is answered once it has reached level {ack}");
    NodeStore::on_records(port, settings, record_settings(config)?, RecordContext::default(), mode)
}

/// A store on Redis or Valkey Cluster.
#[cfg(feature = "redis")]
fn open_redis(
    url: &str,
    config: &TxStoreConfig,
    settings: StoreSettings,
    mode: OpenMode,
) -> Result<NodeStore, StoreOpenError> {
    let options = RedisOptions::parse(url)?;
    let port = if mode.may_write() {
        RedisRecords::open(options)?
    } else {
        RedisRecords::open_to_read(options)?
    };
    for server in port.servers_without_log() {
        tracing::warn!(
            "node store: {server} has no log (appendonly no): a restart loses all its records"
        );
    }
    on_records(Arc::new(port), config, settings, mode)
}

/// This build cannot reach one.
#[cfg(not(feature = "redis"))]
fn open_redis(
    _url: &str,
    _config: &TxStoreConfig,
    _settings: StoreSettings,
    _mode: OpenMode,
) -> Result<NodeStore, StoreOpenError> {
    Err(StoreOpenError::RecordSettings("this build has no Redis".to_owned()))
}

/// A store on Aerospike.
#[cfg(feature = "aerospike")]
fn open_aerospike(
    url: &str,
    config: &TxStoreConfig,
    settings: StoreSettings,
    mode: OpenMode,
) -> Result<NodeStore, StoreOpenError> {
    let options = AerospikeOptions::parse(url)?;
    if options.consistency == utxokeep_records::Consistency::Available {
        tracing::warn!(
            "node store: the namespace is available rather than consistent; when the network between \
             its nodes breaks, two spends of one output can both be acknowledged"
        );
    }
    let port = if mode.may_write() {
        AerospikeRecords::open(options)?
    } else {
        AerospikeRecords::open_to_read(options)?
    };
    on_records(Arc::new(port), config, settings, mode)
}

/// This build cannot reach one.
#[cfg(not(feature = "aerospike"))]
fn open_aerospike(
    _url: &str,
    _config: &TxStoreConfig,
    _settings: StoreSettings,
    _mode: OpenMode,
) -> Result<NodeStore, StoreOpenError> {
    Err(StoreOpenError::RecordSettings("this build has no Aerospike".to_owned()))
}

#[cfg(any(feature = "aerospike", feature = "redis"))]
fn record_settings(config: &TxStoreConfig) -> Result<RecordSettings, StoreOpenError> {
    let shards = u16::try_from(config.record_shards.get());
    let shards = shards.map_err(|_| {
        let found = config.record_shards;
        StoreOpenError::RecordSettings(format!(
            "{found} shards; give a power of two, at most 16384"
        ))
    })?;
    let call_deadline_ms = u64::from(config.record_call_deadline_ms.get());
    Ok(RecordSettings::default().with(|settings| {
        settings.outputs_per_record = config.outputs_per_record.get();
        settings.shards = shards;
        settings.call_deadline_ms = call_deadline_ms;
        settings.wait_ms_max = call_deadline_ms * 3;
    }))
}

/// Says what an answered commit survives, and how it could be lost although that is not wanted.
pub(crate) fn log_promises(what: &str, wants_every_commit: bool, database: &Database) {
    let Some(promises) = database.promises() else { return };
    tracing::info!("{what}: {promises}");
    for gap in promises.gaps().iter().filter(|_| wants_every_commit) {
        tracing::warn!("{what}: {gap}");
    }
}

/// A place without what may be secret: of a server, only its name and the database.
pub fn shown<'p>(engine: &str, place: &'p str) -> &'p str {
    if !["postgres", "redis", "aerospike"].iter().any(|server| engine.starts_with(server)) {
        return place;
    }
    let without_parameters =
        |place: &'p str| place.split_once('?').map_or(place, |(place, _)| place);
    if !engine.starts_with("postgres") {
        // A password of theirs may hold a question mark, but no @.
        return without_parameters(place.split_once('@').map_or(place, |(_, place)| place));
    }
    let place = without_parameters(place);
    place.rsplit_once('@').map_or(place, |(_, place)| place)
}

/// What every engine is opened with.
fn settings(config: &TxStoreConfig) -> StoreSettings {
    let inline_body_kib_max = config.inline_body_kib_max.get() as usize;
    StoreSettings::default().with(|settings| {
        settings.policy = Policy {
            retention_blocks: config.retention_blocks,
            coinbase_maturity: config.coinbase_maturity_blocks,
            unmined_retention_blocks: config.unmined_retention_blocks,
            conflict_walk_max: config.conflict_transactions_max.get() as usize,
            height_jump_blocks_max: config.height_jump_blocks_max.get(),
        };
        settings.items_max = config.batch_items_max.get() as usize;
        settings.inline_body_bytes_max =
            if config.externalize_all { 0 } else { inline_body_kib_max * KIB };
        settings.agreement = Agreement::Compare;
        settings.health_probe_ms = u64::from(config.health_probe_ms.get());
    })
}

fn sql_options(config: &TxStoreConfig) -> Options {
    let durability = match durability(config) {
        Durability::Synced => utxokeep_sql::Durability::Synced,
        Durability::Buffered => utxokeep_sql::Durability::Relaxed,
    };
    Options::default().with(|settings| {
        settings.durability = durability;
        settings.connections_max = config.sql_connections_max.get() as usize;
        settings.is_unwanted = crate::waiting::is_unwanted;
    })
}

const fn durability(config: &TxStoreConfig) -> Durability {
    if config.fsync { Durability::Synced } else { Durability::Buffered }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Height;
    use utxokeep_txstore::{BlockState, TxStore as _};

    use super::*;

    fn error(url: &str) -> String {
        open(url, &TxStoreConfig::default(), OpenMode::Create).err().unwrap().to_string()
    }

    #[test]
    fn a_store_on_disk_is_made_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = BlockState { height: Height::new(7), median_time: 8 };
        for engine in ["rocksdb", "sqlite"] {
            let url = format!("{engine}:{}", dir.path().join(engine).display());
            let store = open(&url, &TxStoreConfig::default(), OpenMode::Create).unwrap();
            store.set_block_state(state).unwrap().unwrap();
            if engine == "rocksdb" {
                assert!(error(&url).starts_with("cannot open the node store at "));
            }
            drop(store);
            let store = open(&url, &TxStoreConfig::default(), OpenMode::Create).unwrap();
            assert_eq!(store.block_state().unwrap(), Some(state));
        }
    }

    #[test]
    fn wrong_urls_are_refused_without_showing_what_may_be_secret() {
        assert!(open("memory:", &TxStoreConfig::default(), OpenMode::Create).is_ok());
        assert!(error("rocksdb:").contains("does not say where"));
        for url in ["mysql://me:secret@host/db", "", "data"] {
            let error = error(url);
            assert!(error.contains("use rocksdb:DIR, sqlite:FILE"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        assert_eq!(shown("rocksdb", "a@b?c"), "a@b?c");
        for place in ["//me:secret@host/db", "//host/db?user=me&password=secret", "//a:s@t@host/db"]
        {
            let shown = shown("postgres", place);
            assert!(shown.ends_with("host/db") && !shown.contains("se"), "{shown}");
        }
        for engine in ["redis", "aerospike"] {
            assert_eq!(shown(engine, "//me:s?cret@a:1,b:2/n?prefix=x"), "a:1,b:2/n");
        }
    }

    #[test]
    fn defaults_are_those_of_the_store() {
        assert_eq!(settings(&TxStoreConfig::default()), StoreSettings::default());
    }
}
