//! The list of all settings. Structures, defaults and documentation come from it.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use utxokeep_index::DeltaKind;

use super::{rate::SatPerVbyte, source::Source};

/// A setting, as its documentation shows it.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Section of the file.
    pub section: &'static str,
    /// Name within the section.
    pub name: &'static str,
    /// What may stand there.
    pub allowed: &'static str,
    /// Names of the setting in Teranode or Yaci; empty where neither has it.
    pub elsewhere: &'static str,
    /// A value to show where the default is to leave the setting out.
    pub example: &'static str,
    /// What it does.
    pub help: &'static str,
}

impl Setting {
    /// Section and name.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

macro_rules! settings {
    ($(
        $(#[doc = $section_doc:literal])+
        [$section:ident] $struct:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr,
                    $allowed:literal $(, elsewhere $elsewhere:literal)? $(, example $example:literal)?;
            )+
        }
    )+) => {
        $(
            $(#[doc = $section_doc])+
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(default, deny_unknown_fields)]
            pub struct $struct {
                $($(#[doc = $doc])+ pub $field: $type,)+
            }

            impl Default for $struct {
                fn default() -> Self {
                    Self { $($field: $default,)+ }
                }
            }
        )+

        /// All settings.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $($(#[doc = $section_doc])+ pub $section: $struct,)+
            /// Keys that the file states, as opposed to defaults.
            #[serde(skip)]
            pub(super) stated: BTreeSet<String>,
        }

        /// Every setting, in the order of the file.
        pub const SETTINGS: &[Setting] = &[$($(
            Setting {
                section: stringify!($section),
                name: stringify!($field),
                allowed: $allowed,
                elsewhere: concat!("" $(, $elsewhere)?),
                example: concat!("" $(, $example)?),
                help: concat!($($doc),+),
            },
        )+)+];

        /// What each section is about.
        pub(super) const SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($section_doc),+)),)+];
    };
}

/// Which structure holds the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// Tables of live and spent outputs.
    Classic,
    /// The same tables, and a Merkle mountain range over the outputs beside them.
    Mmr,
}

/// How the nodes of a Merkle mountain range are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum MmrRuleName {
    /// Blake2b with tags; a spent output is a tombstone, and its spend can be proven.
    Tombstone,
    /// As the forest of Utreexo: SHA-512/256; Bitcoin only, experimental.
    Utreexo,
}

/// Which indexes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexingStrategy {
    /// By address only.
    AddressHash,
    /// By payment credential only.
    PaymentCredential,
    /// Both.
    Both,
}

/// What a block delta holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delta {
    /// Outpoints only.
    Compact,
    /// Bodies too.
    SelfContained,
}

impl From<Delta> for DeltaKind {
    fn from(delta: Delta) -> Self {
        match delta {
            Delta::Compact => Self::Compact,
            Delta::SelfContained => Self::SelfContained,
        }
    }
}

/// Which event starts a run of the pruner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrunerTrigger {
    /// A block that joined the chain, until a persister has reported.
    Auto,
    /// A block that joined the chain.
    BlockMined,
    /// A block that a persister has written.
    BlockPersisted,
}

/// What of the chain the node store follows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreFollow {
    /// Nothing: validators tell it.
    #[serde(rename = "")]
    Nothing,
    /// Every block.
    #[serde(rename = "all")]
    All,
}

const fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("defaults are not zero")
}

settings! {
    /// The chain to follow. Only needed to create a database, except for `source`: an existing one
    /// knows its network and its genesis.
    [chain] ChainConfig {
        /// Name of the chain.
        chain: String = "bitcoin".to_owned(), "\"bitcoin\" or \"cardano\"";
        /// Name of the network; empty when the command line names it. Bitcoin has all but the last
        /// three test networks, Cardano has `mainnet` and those three.
        network: String = String::new(),
            "\"mainnet\", \"testnet3\", \"testnet4\", \"signet\", \"regtest\", \"preprod\", \
             \"preview\", \"devnet\" or \"\"";
        /// Byron genesis file of a devnet, if its chain has one. The genesis of the public networks
        /// is part of the program.
        genesis_byron: Option<PathBuf> = None, "the path of a file",
            example "\"byron-genesis.json\"";
        /// Shelley genesis file of a devnet. It is kept in the database, so that it is needed only
        /// once.
        genesis_shelley: Option<PathBuf> = None, "the path of a file",
            example "\"shelley-genesis.json\"";
        /// Let a new database start with any block, not only with the first of its chain. Inputs
        /// from before it are counted as missing and passed over; `chain status` shows both.
        /// Cardano only.
        start_mid_chain: bool = false, "true or false";
        /// The node to follow. Bitcoin Core: `url`, and `cookie_file`, or `user` with `password_file`
        /// or `password_env`, which names a variable; `blocks_dir` is the directory of its block
        /// files, where this machine can read them. Cardano: `address` of the node's port for other
        /// nodes, or `socket` for local clients.
        source: Option<Source> = None,
            "{ kind = \"bitcoind\", url = \"http://HOST:PORT\", cookie_file = \"PATH\" }, { kind = \"cardano-node\", address = \"HOST:PORT\" } or { kind = \"cardano-node\", socket = \"PATH\" }",
            example "{ kind = \"bitcoind\", url = \"http://127.0.0.1:8332\", cookie_file = \"/home/bitcoin/.bitcoin/.cookie\" }";
    }
    /// How a node is followed.
    [follow] FollowConfig {
        /// Blocks that may wait for the writer before the node is asked for no more.
        queue_blocks_max: NonZeroU32 = count(256), "a whole number from 1 on";
        /// Memory of such blocks together, in MiB; one block may always wait.
        queue_mib_max: NonZeroU32 = count(64), "a whole number from 1 on";
        /// The most blocks asked for at once; Cardano nodes only.
        fetch_range_blocks_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// Connections over which blocks are fetched from Bitcoin Core at the same time, one block
        /// each.
        fetch_connections_max: NonZeroU32 = count(4), "a whole number from 1 to 16";
        /// Pause between questions to a Bitcoin Core that does not offer `waitfornewblock` with a
        /// known tip, in milliseconds: one before 30.0, or one that does not allow it.
        poll_interval_ms: NonZeroU32 = count(1_000), "a whole number from 1 to 20000";
        /// How long a node that has to answer may stay silent, in milliseconds. A node at its tip
        /// may take as long as the next block does.
        answer_timeout_ms: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// Wait before connecting again after the first failure, in milliseconds; doubles with
        /// every further one.
        reconnect_first_ms: NonZeroU32 = count(500), "a whole number from 1 on";
        /// The longest such wait, in milliseconds.
        reconnect_max_ms: NonZeroU32 = count(60_000), "a whole number from reconnect_first_ms on";
        /// How long the source may not be heard from before `/health` says `degraded`, in seconds.
        /// Bitcoin Core shows life every 5 seconds, a Cardano node every 20; through its socket only
        /// with blocks.
        stalled_secs: u32 = 120, "a whole number from 0 on";
    }
    /// The mempool of the Bitcoin Core that `[chain] source` names, for the wallets of the ledger
    /// (docs/bitcoin.md). Without such a source, or without a ledger that follows the chain, nothing
    /// is looked at.
    [mempool] MempoolConfig {
        /// Tell the ledger what the node's mempool holds: incoming payments are seen unconfirmed, and
        /// replacements and evictions by others take effect.
        enabled: bool = true, "true or false";
        /// Pause between two looks at the mempool, in milliseconds. A new block ends it. Each look
        /// lists all ids, which are 67 bytes each.
        poll_interval_ms: NonZeroU32 = count(1_000), "a whole number from 10 on";
        /// The most transactions of a mempool. One with more is not read, and `/health` says so.
        transactions_max: NonZeroU32 = count(500_000), "a whole number from 1 to 1000000";
        /// Bytes of transactions that are kept in memory, in MiB. When wallets watch new scripts, the
        /// others are fetched again.
        kept_mib_max: u32 = 128, "a whole number from 0 on";
        /// How long a transaction that somebody recorded as broadcast and that was never seen in the
        /// mempool may be on its way, in seconds. Then it has failed, unless it is a payment that this
        /// ledger made.
        grace_secs: u32 = 60, "a whole number from 0 on";
        /// How long the mempool may not be read before `/health` says `degraded`, in seconds.
        stalled_secs: u32 = 60, "a whole number from 0 on";
    }
    /// The chain index. `store`, `mmr_rule`, `address_hash`, `payment_credential`,
    /// `stake_credential`, `muhash` and the filter are part of a database once it exists: leave them
    /// out to take them from it. `enabled` is taken from it too where it is left out, and may be
    /// changed.
    [index] IndexConfig {
        /// Keep the UTXO set at all. When false only the block log is kept, and no other table is
        /// written. An index that was off catches up in `serve`, `chain follow` or `chain import`
        /// once this says true.
        enabled: bool = true, "true or false", elsewhere "yaci.node.utxo.enabled";
        /// Structure that holds the set. `mmr` keeps a Merkle mountain range beside the tables of
        /// `classic`: one root commits to the whole set, and proofs show single outputs of it
        /// (docs/mmr.md). `chain mmr enable` adds it to an existing database.
        store: Store = Store::Classic, "\"classic\" or \"mmr\"", elsewhere "yaci.node.utxo.store";
        /// How nodes of the tree are combined, where `store` is `mmr`. `utreexo`, on Bitcoin, gives
        /// the roots and proofs of a Utreexo forest; it is experimental, because its BIPs are drafts.
        /// Left out: the rule of the database, `tombstone` for a new one.
        mmr_rule: Option<MmrRuleName> = None, "\"tombstone\" or \"utreexo\"",
            example "\"tombstone\"";
        /// Blocks for which spent outputs stay readable. Left out or 0: the security parameter of
        /// the network (Bitcoin: 144, Cardano: 2160, preview: 432).
        prune_depth_blocks: Option<u32> = None, "a whole number from 0 on",
            elsewhere "yaci.node.utxo.pruneDepth", example "144";
        /// Blocks that a rollback may undo, and that `--at` reaches back. Left out or 0: twice the
        /// security parameter (Bitcoin: 288, Cardano: 4320, preview: 864). Undo data is kept for the
        /// greater of the two depths.
        rollback_window_blocks: Option<u32> = None, "a whole number from 0 on",
            elsewhere "yaci.node.utxo.rollbackWindow", example "288";
        /// Maximum rows that one prune pass deletes. A full mainnet block spends about 7,600 outputs and
        /// a pass follows each block, so Yaci's default of 500 would never catch up.
        prune_batch_rows_max: NonZeroU32 = count(50_000), "a whole number from 1 on",
            elsewhere "yaci.node.utxo.pruneBatchSize";
        /// The longest one prune pass may take, in milliseconds.
        prune_pass_ms_max: NonZeroU32 = count(200), "a whole number from 1 on";
        /// How many blocks a named consumer of the chain log may lie behind the tip and still keep
        /// undo data that it has not read from being deleted. One that lies further behind is
        /// detached: it holds nothing any more, and health and metrics name it. An interrupted `chain
        /// mmr enable` keeps the undo data that it has yet to read within the same bound. Inside the
        /// rollback window everything is kept anyway.
        consumer_lag_blocks_max: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// Keep the index by address (on Bitcoin: by output script).
        address_hash: bool = true, "true or false", elsewhere "yaci.node.utxo.index.address_hash";
        /// Keep the index by payment credential. Bitcoin has none, so there it has no effect.
        payment_credential: bool = true, "true or false",
            elsewhere "yaci.node.utxo.index.payment_credential";
        /// Keep the index by stake credential. Bitcoin has none, so there it has no effect.
        stake_credential: bool = false, "true or false";
        /// Chooses the indexes by address and by payment credential at once and wins over their
        /// switches. Left out: the switches decide.
        indexing_strategy: Option<IndexingStrategy> = None,
            "\"address_hash\", \"payment_credential\" or \"both\"",
            elsewhere "yaci.node.utxo.indexingStrategy", example "\"both\"";
        /// What undo data holds: `compact` outpoints, with bodies read from the spent table, or
        /// `self-contained` bodies. Holds for blocks applied from now on.
        delta: Delta = Delta::Compact, "\"compact\" or \"self-contained\"",
            elsewhere "yaci.node.utxo.delta.selfContained";
        /// Keep the `MuHash` accumulator of every block in the window, so that `chain digest`
        /// answers at once; costs some microseconds per output.
        muhash: bool = false, "true or false";
        /// Keep only outputs of these addresses, and of the credentials below. Both lists empty:
        /// keep everything. With a filter, totals and digests are those of the outputs kept.
        /// Cardano only: on Bitcoin every output is needed to check amounts.
        filter_addresses: Vec<String> = Vec::new(), "a list of addresses of the network";
        /// Keep only outputs of these payment and stake credentials, and of the addresses above.
        /// Cardano only.
        filter_credentials: Vec<String> = Vec::new(),
            "a list of credentials (addr_vkh1…, script1…, stake_vkh1…, key:HEX, script:HEX) or stake addresses";
    }
    /// The embedded store.
    [storage] StorageConfig {
        /// Directory of the chain database, unless `--data` or `UTXOKEEP_DATA` names another.
        data: PathBuf = PathBuf::from("./data"), "a directory";
        /// Memory for caches, write buffers and batches together, in MiB: half for the
        /// engine, half for the rows of batches.
        cache_mib: NonZeroU32 = count(512), "a whole number from 16 on";
        /// Wait for the disk on every commit at the tip. When false a crash of the machine (not of
        /// the program) may lose the newest blocks; nothing needs repair.
        fsync: bool = true, "true or false";
        /// Load blocks below the rollback window in large batches, without undo data.
        bulk: bool = true, "true or false";
        /// The most blocks in one batch while catching up inside the window.
        catch_up_blocks_max: NonZeroU32 = count(288), "a whole number from 1 on";
        /// Table files kept open.
        open_files_max: NonZeroU32 = count(1_024), "a whole number from 64 on";
        /// The most that the compressed block files of an import may unpack to, in GiB.
        unpacked_gib_max: NonZeroU32 = count(1_024), "a whole number from 1 on";
        /// Free space that unpacking leaves on the disk, in GiB.
        unpack_free_gib_min: u32 = 1, "a whole number";
    }
    /// The REST server.
    [rest] RestConfig {
        /// Address and port to listen on.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_080)),
            "an address and a port";
        /// Rows of a page when a request does not say.
        page_rows_default: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The most rows of a page.
        page_rows_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The most rows a page number may pass over; beyond it, page by cursor. Also the most
        /// rows that one page may look at in search of an asset.
        scan_rows_max: NonZeroU32 = count(1_000_000), "a whole number from 1 on";
        /// The most outputs one balance may add up.
        balance_rows_max: NonZeroU32 = count(10_000_000), "a whole number from 1 on";
        /// The most changes of the set that a proof (`mmr/proof`) at an earlier block may go back
        /// through: outputs created and spent since, and one for each block. A proof at the tip goes
        /// back through none.
        mmr_proof_changes_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// The longest a request may take, in milliseconds. To send its body may take as long again.
        request_timeout_ms: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// The longest body of a request, in KiB. A block for the wallet ledger comes as one body.
        body_kib_max: NonZeroU32 = count(16_384), "a whole number from 1 on";
        /// Requests answered at the same time; more are told to come back. Those about the chain and
        /// those about wallets are counted apart.
        concurrent_requests_max: NonZeroU32 = count(64), "a whole number from 1 on";
        /// Connections of clients at the same time; further ones wait until one is closed. Each takes
        /// a file descriptor, and the limit of the process (`ulimit -n`, raised at the start as far as
        /// it may be) must be enough for all that is configured.
        connections_max: NonZeroU32 = count(512), "a whole number from 1 on";
        /// Seconds after which a connection is closed that has not sent the whole head of a request,
        /// or sends no other one.
        idle_secs_max: NonZeroU32 = count(60), "a whole number from 1 on";
    }
    /// The change stream: what every block changed, over REST and gRPC.
    [stream] StreamConfig {
        /// Streams that are open at the same time; further ones are told to come back. Each also is a
        /// connection of `[rest]` or a call of `[grpc]`.
        connections_max: NonZeroU32 = count(64), "a whole number from 1 on";
        /// The most that waits for one client, in KiB. Nothing is read ahead beyond it.
        buffer_kib_max: NonZeroU32 = count(4_096), "a whole number from 1 on";
        /// Seconds after which a client is cut off that takes nothing of what waits for it. To be told
        /// so it needs less than `[rest] idle_secs_max`, after which its connection is closed.
        slow_reader_secs_max: NonZeroU32 = count(20), "a whole number from 1 on";
        /// Seconds of silence after which a stream says that it is alive.
        heartbeat_secs: NonZeroU32 = count(15), "a whole number from 1 on";
        /// Blocks without anything that is watched after which a filtered stream tells how far it has
        /// come. It does so with every heartbeat too.
        checkpoint_blocks: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The most outputs of one event; a larger block comes in parts.
        event_outputs_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The most that the outputs of one event take in the database, in KiB. As JSON they take about
        /// four times as much.
        event_kib_max: NonZeroU32 = count(256), "a whole number from 1 on";
        /// Outputs that are looked at for one stream in a second, watched or not.
        outputs_per_sec_max: NonZeroU32 = count(200_000), "a whole number from 1 on";
        /// Streams that read the database at the same time; others wait for their turn.
        concurrent_reads_max: NonZeroU32 = count(2), "a whole number from 1 on";
        /// Addresses, credentials, scripts and assets that one stream may watch.
        filter_entries_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// Consumers that may be registered by name. Each holds the window up to
        /// `[index] consumer_lag_blocks_max` blocks.
        consumers_max: NonZeroU32 = count(16), "a whole number from 1 to 48";
    }
    /// What the REST and the gRPC server have in common: who may use them, and the memory that their
    /// requests share.
    [server] ServerConfig {
        /// File with the token that clients send as `Authorization: Bearer TOKEN`. Empty:
        /// `access-token` in the data directory, created at the first start with a random token and
        /// readable for its owner alone.
        token_file: PathBuf = PathBuf::new(), "a path or \"\"";
        /// REST asks for the token on routes of wallets and on everything that writes. Listening
        /// beyond the loopback address it asks for it on all routes but `/health`, `/metrics` and
        /// `/docs`.
        rest_token_required: bool = true, "true or false";
        /// gRPC asks for the token on every call but health checks.
        grpc_token_required: bool = false, "true or false";
        /// Start although REST or gRPC listens beyond the loopback address and asks for no token:
        /// everybody who reaches the port may read and change everything.
        unsafe_no_token_beyond_loopback: bool = false, "true or false";
        /// Answer questions about the chain over REST without a token also beyond the loopback
        /// address, as a public explorer does. Wallets and writes are not affected.
        public_chain_reads: bool = false, "true or false";
        /// Names by which clients may ask for the REST server (header `Host`), without port, besides
        /// its addresses and `localhost`. Other names are refused: a web page could make its own name
        /// lead here.
        hosts: Vec<String> = Vec::new(), "a list of names without port";
        /// Origins of web pages that may read the chain over REST (CORS), such as
        /// `https://explorer.example`; `*` for every page. Pages never reach wallets, and never write.
        cors_origins: Vec<String> = Vec::new(), "a list of origins (`https://HOST`) or [\"*\"]";
        /// Memory that requests may take together while they are read, decoded and answered, in MiB.
        /// One that does not fit is refused and may be sent again: 503 over REST,
        /// `RESOURCE_EXHAUSTED` over gRPC. Databases have memory of their own (`cache_mib`).
        request_memory_mib_max: NonZeroU32 = count(512), "a whole number from 16 on";
        /// `serve`, `pruner serve` and `wallet follow` create the node store or the wallet ledger where
        /// there is none. With false they refuse to start: set it once both exist, so that a disk that
        /// is not mounted or an empty database server is noticed. `memory:` is new each time.
        create_missing: bool = true, "true or false";
    }
    /// The node store: transactions and their outputs, for validators. `serve` opens it and answers
    /// calls over gRPC.
    [txstore] TxStoreConfig {
        /// Engine and place of the node store: `rocksdb:DIR` or `sqlite:FILE` on this machine,
        /// `postgres://USER@HOST/DATABASE` on a server, `redis://HOST:PORT,HOST:PORT?ack=replica` on a
        /// Redis or Valkey Cluster, `aerospike://HOST:PORT/NAMESPACE` on Aerospike, `memory:` for tests,
        /// gone when the program ends. Empty: there is no node store. A namespace of Aerospike's
        /// Community Edition is available rather than consistent, and needs `?consistency=available`:
        /// when the network between its nodes breaks, two spends of one output can both be acknowledged.
        url: String = String::new(),
            "\"rocksdb:DIR\", \"sqlite:FILE\", \"postgres://…\", \"redis://…\", \"aerospike://…\", \"memory:\" or \"\"";
        /// Wait for the disk on every commit. When false a crash of the machine (not of the program)
        /// may lose the newest calls, although they were answered; nothing needs repair. A cluster
        /// goes by `ack` in its URL instead. `primary`: a failover loses the newest calls. `replica`
        /// (the default): a power cut of a primary and its replicas at once does. `disk`: the loss of
        /// their disks does. At every level a server that is killed while a slot moves to it can lose
        /// the newest calls of that slot, and others may read what a failover then undoes.
        /// docs/cluster.md and docs/aerospike.md say more.
        fsync: bool = true, "true or false";
        /// Memory for caches and write buffers of RocksDB, in MiB.
        cache_mib: NonZeroU32 = count(256), "a whole number from 16 on";
        /// Memory for what is known of settled transactions, in MiB, so that the pruner need not read
        /// them: about 120 bytes each. RocksDB only. 0: the pruner reads every child.
        proof_memory_mib: u32 = 128, "a whole number from 0 on";
        /// Connections to a SQL database that are open at the same time.
        sql_connections_max: NonZeroU32 = count(16), "a whole number from 2 on";
        /// Outputs of a transaction in one record of a cluster; a transaction with more is spread over
        /// several. Belongs to the store: another number is refused.
        outputs_per_record: NonZeroU32 = count(128), "a whole number from 1 on",
            elsewhere "utxo_store_batch_size";
        /// Parts of a cluster store that can be on different servers. Belongs to the store: another
        /// number is refused.
        record_shards: NonZeroU32 = count(1_024), "a power of two from 1 to 16384";
        /// How long a call over several records of a cluster may take before others may abort it, in
        /// milliseconds. Calls wait three times as long for each other.
        record_call_deadline_ms: NonZeroU32 = count(5_000), "a whole number from 1 on";
        /// How often health tries out, at most, whether the store takes writes, in milliseconds: a write
        /// to each server of a cluster, and a file in the directory of `blobs`.
        health_probe_ms: NonZeroU32 = count(5_000), "a whole number from 1 on";
        /// Blocks that a transaction is kept for once nobody needs it any more. 0: for ever.
        retention_blocks: u32 = 288, "a whole number from 0 on";
        /// Blocks that a coinbase has to wait before it can be spent.
        coinbase_maturity_blocks: u32 = 100, "a whole number from 0 on";
        /// How far back the mark of a transaction that leaves the longest chain is dated, in blocks,
        /// so that its parents are protected at once.
        unmined_retention_blocks: u32 = 144, "a whole number from 0 on";
        /// How far one report alone may move the height of the chain, in blocks. One that jumps
        /// further is held until a second witness agrees. Below `[pruner] safety_window_blocks`.
        height_jump_blocks_max: NonZeroU32 = count(144), "a whole number from 1 on";
        /// The most transactions that following one conflict may touch; more are refused.
        conflict_transactions_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// The most items of one call.
        batch_items_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// Where bodies of large transactions go: `file:DIR`, `s3://BUCKET/PREFIX`, or `memory:` for
        /// tests. Empty: beside the others. It has to stay once bodies are there.
        blobs: String = String::new(), "\"file:DIR\", \"s3://BUCKET/PREFIX\", \"memory:\" or \"\"";
        /// Bodies above this length go there, in KiB.
        inline_body_kib_max: NonZeroU32 = count(32), "a whole number from 1 on",
            elsewhere "utxo_store_max_tx_size_in_store";
        /// Put every body there, whatever its length. Needs `blobs`.
        externalize_all: bool = false, "true or false",
            elsewhere "utxo_store_externalize_all_transactions";
        /// The longest that one read or write of the blob store may take, in milliseconds.
        blob_timeout_ms: NonZeroU32 = count(30_000), "a whole number from 1 on";
        /// `all`: in `serve` every block of the followed Bitcoin chain is put into the node store, from
        /// its start, and blocks that leave the chain are taken off. `SetMined`,
        /// `MarkOnLongestChain` and creating mined transactions are refused over gRPC then. A pruner
        /// beside it needs `[pruner] follow_chain`. Empty: clients tell the store of blocks.
        follow: StoreFollow = StoreFollow::Nothing, "\"all\" or \"\"";
        /// Where `follow` reads bodies of blocks that the source has not just sent: a directory with
        /// the node's block files. Empty: where `[wallet] blocks` says; the followed node is asked too.
        follow_blocks: String = String::new(), "a directory or \"\"";
        /// Transactions of a block that `follow` puts into the store in one commit.
        follow_batch_txs_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
    }
    /// The wallet ledger: wallets on any number of networks in one SQL database. `serve` opens it,
    /// answers calls over REST and gRPC, and follows the chain database.
    [wallet] WalletConfig {
        /// Engine and place of the ledger: `sqlite:FILE` on this machine,
        /// `postgres://USER@HOST/DATABASE` on a server. Several programs may share it. Empty: there
        /// is no ledger.
        url: String = String::new(), "\"sqlite:FILE\", \"postgres://…\" or \"\"";
        /// Wait for the disk on every commit. When false a crash of the machine (not of the program)
        /// may lose the newest operations, although they were answered; nothing needs repair.
        fsync: bool = true, "true or false";
        /// Connections to the database that are open at the same time.
        sql_connections_max: NonZeroU32 = count(16), "a whole number from 2 on";
        /// Keep writers apart by the database too (SERIALIZABLE), on top of the lock of the wallet.
        serializable: bool = false, "true or false";
        /// Where `serve` reads bodies of blocks: the directory with the node's block files, or with
        /// its immutable database. Empty: only blocks of the source that it follows.
        blocks: String = String::new(), "a directory or \"\"";
        /// Follow the chain database in `serve`.
        follow_chain: bool = true, "true or false";
        /// How long the ledger sleeps at the most when it is at the tip, in milliseconds. A new block
        /// wakes it at once; rescans that other programs ask for are found by this look.
        follow_poll_ms: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// How long following may stand still, with failed attempts or a chain database that lags,
        /// before `/health` says `degraded`, in seconds.
        follow_stalled_secs: u32 = 60, "a whole number from 0 on";
        /// Where a ledger that has seen no block begins to follow; nothing is paid to its wallets
        /// in blocks below this height.
        follow_from_height: u32 = 0, "a whole number from 0 on";
        /// The most blocks of a source that are kept in memory for the ledger.
        recent_blocks_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The most memory that they may take, in MiB.
        recent_mib_max: NonZeroU32 = count(64), "a whole number from 1 on";
        /// How long a lease lasts when a request does not say, in seconds.
        lease_secs_default: NonZeroU32 = count(600), "a whole number from 1 to lease_secs_max";
        /// The longest lease, in seconds.
        lease_secs_max: NonZeroU32 = count(31_536_000), "a whole number from 1 on";
        /// Pause between two passes in which `serve` removes rows of expired leases, in seconds. 0:
        /// never; they count for nothing, and take up space until `wallet lease clean`.
        lease_cleanup_secs: u32 = 60, "a whole number from 0 on";
        /// The most rows that one such pass removes.
        lease_cleanup_rows_max: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// Pause between two passes in which `serve` looks whether the node of `[chain] source` still
        /// has the payments that it was given by `wallet broadcast` and that are in no block, and sends
        /// those again that it lacks, in seconds. 0: never.
        rebroadcast_interval_secs: u32 = 60, "a whole number from 0 on";
        /// The most payments that one such pass looks at; the next one goes on behind them.
        rebroadcast_txs_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// How long a payment is looked after since the node got it first, in seconds. An older one is
        /// not sent again, and stays as it is until it is seen in a block or given up with `wallet
        /// abandon`.
        rebroadcast_give_up_secs: NonZeroU32 = count(1_209_600), "a whole number from 1 on";
        /// How long the answer of a request with an idempotency key is kept, in seconds.
        idempotency_keep_secs: NonZeroU32 = count(86_400), "a whole number from 1 on";
        /// The most such answers of one wallet; a request with one more key is refused.
        idempotency_keys_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// Numbers of confirmations that wallet events tell of, ascending from 1, which is the block
        /// that holds the transaction.
        event_depths: Vec<u32> = vec![1, 3, 6],
            "a list of up to 8 whole numbers from 1 to 1000, ascending, the first is 1";
        /// The most events of one wallet that are kept; the oldest are forgotten first. A pass of
        /// `lease_cleanup_secs` forgets them.
        event_keep_rows_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// How long events are kept, in seconds.
        event_keep_secs: NonZeroU32 = count(2_592_000), "a whole number from 1 on";
        /// The longest a request may wait for an event, in milliseconds, beside `[rest]
        /// request_timeout_ms`.
        event_wait_ms_max: u32 = 20_000, "a whole number from 0 on";
        /// How often a reader that waits asks the database for events of other programs, in
        /// milliseconds. Events of its own program are noticed at once.
        event_poll_ms: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The most webhooks of one wallet.
        webhooks_max: NonZeroU32 = count(10), "a whole number from 1 on";
        /// Whether webhooks may lead to this machine and to private networks. Whoever may add
        /// webhooks can then let this program call services that only it can reach.
        webhook_private_addresses: bool = false, "true or false";
        /// Pause between two looks for events to deliver, in milliseconds; events of its own program
        /// are noticed earlier. 0: this program delivers nothing.
        webhook_poll_ms: u32 = 1_000, "a whole number from 0 on";
        /// The most webhooks that are delivered to at the same time.
        webhook_concurrency_max: NonZeroU32 = count(8), "a whole number from 1 to 1000";
        /// The longest a delivery may take, looking the host up included, in milliseconds.
        webhook_timeout_ms: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// The most events of one delivery.
        webhook_batch_events_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The longest pause before a failed delivery is tried again, in seconds. It starts at one
        /// second and doubles.
        webhook_retry_secs_max: NonZeroU32 = count(3_600), "a whole number from 1 on";
        /// Deliveries that fail in a row until the webhook is disabled.
        webhook_attempts_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// How long deliveries may fail until the webhook is disabled, in seconds.
        webhook_give_up_secs: NonZeroU32 = count(432_000), "a whole number from 1 on";
        /// Blocks that must lie above a coinbase before its outputs count and are selected.
        coinbase_maturity_blocks: u32 = 100, "a whole number from 0 on";
        /// The most transactions that one operation may invalidate; more are refused.
        cascade_txs_max: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// The most inputs of one transaction.
        tx_inputs_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// The most outputs of one transaction.
        tx_outputs_max: NonZeroU32 = count(100_000), "a whole number from 1 on";
        /// The longest raw transaction, in bytes.
        raw_tx_bytes_max: NonZeroU32 = count(4_000_000), "a whole number from 1 on";
        /// A payment in this last part of the scripts that a descriptor is watched ahead, in
        /// percent, marks the descriptor: other payments may have gone beyond and been missed.
        lookahead_edge_percent: NonZeroU32 = count(20), "a whole number from 1 to 100";
        /// The longest label, in characters.
        label_chars_max: NonZeroU32 = count(500), "a whole number from 1 on";
        /// The most remarks in the answer to one import of labels.
        label_notes_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// Blocks that must lie above confirmed transactions before `wallet prune` takes them. Never
        /// fewer than 100, `[index] rollback_window_blocks`, and twice the security parameter of the
        /// network (Bitcoin: 288, Cardano: 4320).
        prune_depth_blocks: u32 = 0, "a whole number from 0 on";
        /// The most rows of one page.
        page_rows_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The most coins that a selection loads.
        selection_window_coins_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The most coins among which branch and bound searches.
        selection_search_coins_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The most steps of that search.
        selection_rounds_max: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// The most outputs leased by one call.
        lease_batch_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The largest change that a request may leave to the fee (`change_min`), in satoshi.
        change_min_sat_max: u64 = 10_000, "a whole number from 0 on";
        /// The most transactions of one batch or block.
        batch_txs_max: NonZeroU32 = count(1_000_000), "a whole number from 1 on";
        /// The largest fee of a payment, in satoshi; guard `fee_max`. A call may allow more by
        /// naming the guard.
        fee_sat_max: NonZeroU32 = count(10_000_000), "a whole number from 1 on";
        /// The largest fee rate of a payment, in satoshi for each virtual byte; guard
        /// `fee_rate_max`.
        fee_rate_sat_per_vbyte_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// The smallest fee rate that nodes relay, in satoshi for each virtual byte; guard
        /// `fee_rate_min`.
        fee_rate_sat_per_vbyte_min: SatPerVbyte = SatPerVbyte::whole(1),
            "a number from 0 to fee_rate_sat_per_vbyte_max, with up to three decimal places";
        /// What nodes ask a replacement to pay on top for its own size, in satoshi for each virtual
        /// byte: what a bump pays that does not say, and the least that it may say; guard
        /// `incremental_rate`. Bitcoin Core calls this `incrementalrelayfee`.
        incremental_rate_sat_per_vbyte_min: SatPerVbyte = SatPerVbyte::whole(1),
            "a number from 0 to incremental_rate_sat_per_vbyte_max, with up to three decimal places";
        /// The most that a replacement pays on top for its own size, in satoshi for each virtual
        /// byte; guard `incremental_rate`.
        incremental_rate_sat_per_vbyte_max: NonZeroU32 = count(100), "a whole number from 1 on";
        /// The heaviest transaction of a payment, in weight units; guard `weight_max`. Nodes relay up
        /// to 400,000.
        tx_weight_units_max: NonZeroU32 = count(400_000), "a whole number from 1 on";
    }
    /// The gRPC server of the node store and the wallet ledger. It runs when `[txstore] url` or
    /// `[wallet] url` is set.
    [grpc] GrpcConfig {
        /// Address and port to listen on.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_097)),
            "an address and a port";
        /// Answer questions about the chain over gRPC also where `serve` has neither a node store nor a
        /// wallet ledger. With one of them, or with `--grpc-listen`, it does so anyway.
        chain_alone: bool = false, "true or false";
        /// The largest request that is read, and the largest answer to a read, in MiB.
        message_mib_max: NonZeroU32 = count(64), "a whole number from 1 to 1024";
        /// The most entries of one page of unmined transactions.
        page_entries_max: NonZeroU32 = count(10_000), "a whole number from 1 on";
        /// Calls that the store works on at the same time; others wait for their turn. With `fsync`
        /// calls that run together share the wait for the disk.
        concurrent_calls_max: NonZeroU32 = count(128), "a whole number from 1 on";
        /// Calls that one connection may have open at the same time.
        connection_calls_max: NonZeroU32 = count(256), "a whole number from 1 on";
        /// Connections of clients at the same time; further ones wait until one is closed.
        connections_max: NonZeroU32 = count(512), "a whole number from 1 on";
        /// Seconds after which a connection is closed that does not begin to speak HTTP/2. Those that
        /// do are asked by pings whether they are there.
        idle_secs_max: NonZeroU32 = count(60), "a whole number from 1 on";
        /// The longest a call may take, waiting included, in milliseconds. To send its message may
        /// take as long again.
        call_timeout_ms: NonZeroU32 = count(30_000), "a whole number from 1 on";
    }
    /// The pruner: deletes transactions of the node store that nobody needs any more. It runs beside
    /// the node store in `serve`, or alone as `pruner serve`. The three windows must ascend:
    /// `unmined_retention_blocks`, `safety_window_blocks`, `parent_preservation_blocks`.
    [pruner] PrunerConfig {
        /// Run it in `serve`, when `[txstore] url` is set.
        enabled: bool = true, "true or false",
            elsewhere "startPruner, utxostore_disableDAHCleaner";
        /// Address and port of gRPC when it runs alone. In `serve` it is on `[grpc] listen`.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_096)),
            "an address and a port", elsewhere "pruner_grpcPort, pruner_grpcListenAddress, pruner_grpcAddress";
        /// Address and port of health and metrics over HTTP when it runs alone. In `serve` they are on
        /// `[rest] listen`.
        rest_listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8_095)),
            "an address and a port";
        /// What starts a run. `auto`: a block joined the chain, until a persister has ever reported,
        /// which the store remembers; from then on a block that it has written, and nothing above it
        /// is pruned. `block_mined`: there is no persister, and one that reports is refused.
        /// `block_persisted`: nothing at all is pruned before a persister reported for the first time.
        trigger: PrunerTrigger = PrunerTrigger::Auto,
            "\"auto\", \"block_mined\" or \"block_persisted\"",
            elsewhere "pruner_block_trigger, pruner_force_ignore_block_persister_height";
        /// In `serve` with a chain database: take its tip as the height of the chain. Only right when
        /// that database and the node store are of the same chain. When false heights come from
        /// `ChainEvents` over gRPC. A block persister in the same `serve` needs it.
        follow_chain: bool = false, "true or false";
        /// URL of another utxokeep (`http://HOST:PORT`, its `[rest] listen`) whose chain is followed: tip,
        /// reorganisations, and how far its block persister and its consumers are. For a pruner that runs
        /// alone. Only right when that database and the node store are of the same chain; excludes
        /// `follow_chain`. Empty: none.
        events: String = String::new(), "\"http://HOST:PORT\" or \"\"";
        /// File with the token of that utxokeep, where it asks for one. It is sent without encryption.
        /// Empty: none is sent.
        events_token_file: PathBuf = PathBuf::new(), "a path or \"\"";
        /// Blocks that must lie above a child before its parent goes. As long as
        /// `[txstore] retention_blocks`.
        safety_window_blocks: u32 = 288, "a whole number from 0 on",
            elsewhere "global_blockHeightRetention";
        /// Age from which an unmined transaction has its parents preserved.
        unmined_retention_blocks: u32 = 144, "a whole number from 0 on",
            elsewhere "utxostore_unminedTxRetention";
        /// How long those parents are preserved; 0 leaves it out, which may lose parents.
        parent_preservation_blocks: u32 = 1_440, "a whole number from 0 on",
            elsewhere "utxostore_parentPreservationBlocks";
        /// Heights up to this one are not pruned at; 0 for none.
        min_height: u32 = 0, "a whole number from 0 on", elsewhere "MinBlockHeight";
        /// Skip runs while the node says that it is catching up.
        skip_during_catch_up: bool = false, "true or false", elsewhere "pruner_skipDuringCatchup";
        /// Wait for marks (`mined_set_height`) also of a node that has never reported any. When false
        /// runs wait for them from the first report on, which the store remembers: after a restart
        /// until the node reports them again.
        requires_mined_set: bool = false, "true or false";
        /// Wait for block assembly also of a node that has never reported it. When false runs wait for
        /// it from the first report on, which the store remembers: after a restart until the node
        /// reports it again.
        requires_assembly_state: bool = false, "true or false";
        /// The longest the node may report nothing before the pruner is not ready, in seconds. 0: for
        /// ever.
        event_age_secs_max: u32 = 21_600, "a whole number from 0 on";
        /// The longest wait for the transactions of a block to be marked as mined, in milliseconds.
        mined_set_wait_ms: u32 = 600_000, "a whole number from 0 on",
            elsewhere "pruner_blockAssemblyWaitTimeout";
        /// The longest wait for block assembly to run and to have reached the height, in
        /// milliseconds.
        assembly_wait_ms: u32 = 600_000, "a whole number from 0 on",
            elsewhere "pruner_blockAssemblyWaitTimeout";
        /// Pause between two looks at what the node said, in milliseconds.
        gate_poll_ms: NonZeroU32 = count(500), "a whole number from 1 on";
        /// The most records of one commit.
        chunk_rows: NonZeroU32 = count(64), "a whole number from 1 on",
            elsewhere "pruner_utxoChunkSize";
        /// Chunks that are worked on at the same time.
        parallel_chunks: NonZeroU32 = count(2), "a whole number from 1 on",
            elsewhere "pruner_utxoChunkGroupLimit, pruner_utxoPartitionQueries";
        /// Attempts for a chunk after a fault of the store that may pass.
        retry_max: u32 = 10, "a whole number from 0 on";
        /// Wait before the first such attempt, in milliseconds; doubles each time.
        retry_wait_ms: u32 = 100, "a whole number from 0 on";
        /// The longest run, in milliseconds; the next one goes on where it stopped. 0: no limit.
        run_time_max_ms: u32 = 600_000, "a whole number from 0 on", elsewhere "pruner_jobTimeout";
        /// Pause between two lines of progress in the log, in milliseconds; 0: none.
        progress_log_ms: u32 = 30_000, "a whole number from 0 on",
            elsewhere "pruner_utxoProgressLogInterval";
        /// Do not preserve parents of old unmined transactions, which may lose them.
        skip_preserve_parents: bool = false, "true or false", elsewhere "pruner_skipPreserveParents";
        /// Let preservations never end, which leaves ever more behind.
        skip_expire_preservations: bool = false, "true or false",
            elsewhere "pruner_skipProcessExpiredPreservations";
        /// Delete nothing.
        skip_deletions: bool = false, "true or false", elsewhere "pruner_skipDeletions";
        /// Leave files of deleted bodies where they are. Their deletion waits.
        skip_blob_deletions: bool = false, "true or false", elsewhere "pruner_skipBlobDeletion";
        /// Files that are deleted before the queue is asked again.
        blob_batch_rows: NonZeroU32 = count(1_000), "a whole number from 1 on",
            elsewhere "pruner_blobDeletionBatchSize";
        /// Blocks for which deleted transactions can be restored. 0 keeps nothing and costs nothing.
        undo_blocks: u32 = 0, "a whole number from 0 on";
        /// How long a restored transaction is preserved.
        restored_preservation_blocks: u32 = 1_440, "a whole number from 0 on";
        /// The most runs that are remembered.
        job_history_max: NonZeroU32 = count(1_000), "a whole number from 1 on";
        /// Watch whether runs keep up.
        backlog_enabled: bool = true, "true or false", elsewhere "pruner_backlogMonitorEnabled";
        /// Blocks that may be asked for and not done before runs are behind. 0: any number.
        backlog_lag_blocks_max: u32 = 3, "a whole number from 0 on",
            elsewhere "pruner_backlogMaxLagBlocks";
        /// Failed runs in a row from which on runs are behind. 0: any number.
        backlog_failed_runs_max: u32 = 2, "a whole number from 0 on",
            elsewhere "pruner_backlogMaxIncompleteRuns";
        /// Share of the time between blocks that runs may take before they are at risk, in percent.
        backlog_headroom_percent: NonZeroU32 = count(80), "a whole number from 1 on",
            elsewhere "pruner_backlogHeadroomWarnRatio";
        /// Runs over which that share is taken.
        backlog_headroom_runs: NonZeroU32 = count(6), "a whole number from 1 on",
            elsewhere "pruner_backlogHeadroomWindow";
        /// Not ready while behind.
        backlog_fails_readiness: bool = true, "true or false",
            elsewhere "pruner_backlogFailReadiness";
    }    /// The block persister: files of every block in a blob store, from which `chain import
    /// --from-persisted` builds a database (docs/persister.md).
    [persister] PersisterConfig {
        /// Persist blocks of the chain database in `serve`. From then on the pruner deletes nothing
        /// above the newest block whose files are complete, if it follows the same database.
        enabled: bool = false, "true or false";
        /// Where the files are: a directory, or a bucket with the credentials of the environment
        /// (`AWS_…`). Nothing else may be in it.
        url: String = String::new(), "\"file:DIR\", \"s3://BUCKET/PREFIX\" or \"\"",
            elsewhere "blockPersister_store";
        /// Where bodies of blocks are, that do not come from a followed node; empty: where
        /// `[wallet] blocks` says.
        blocks: String = String::new(), "the path of a file or directory";
        /// Transactions of a full subtree, as a power of two: 10 for 1,024. Holds for blocks that are
        /// persisted from now on.
        subtree_txs_log2: u8 = 10, "a whole number from 0 to 20",
            elsewhere "initial_merkle_items_per_subtree";
        /// Blocks below the newest whose files are kept, in whole thousands; 0 for all. At least as many
        /// as a rollback may undo.
        retention_blocks: u32 = 0, "a whole number from 0 on";
        /// The most blocks whose files are written before the watermark moves.
        batch_blocks_max: NonZeroU32 = count(32), "a whole number from 1 on";
        /// The most bytes of such blocks, in MiB; a larger block is written alone.
        batch_mib_max: NonZeroU32 = count(32), "a whole number from 1 on";
        /// Files that are written or read at the same time.
        parallel_files: NonZeroU32 = count(16), "a whole number from 1 to 256";
        /// How long writing or reading one file may take, in milliseconds.
        timeout_ms: NonZeroU32 = count(30_000), "a whole number from 1 on";
        /// Attempts for a file after the first. When all fail, health names it and the batch is tried
        /// again later.
        retry_max: u32 = 5, "a whole number from 0 on";
        /// Wait before the first such attempt, in milliseconds; doubles each time.
        retry_wait_ms: u32 = 100, "a whole number from 0 on";
        /// The longest such wait, in milliseconds.
        retry_wait_ms_max: u32 = 5_000, "a whole number from retry_wait_ms on";
        /// How long the persister may stand still before `/health` says `degraded`, in seconds.
        stalled_secs: u32 = 60, "a whole number from 0 on";
    }
}
