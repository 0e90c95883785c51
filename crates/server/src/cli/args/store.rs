//! What the commands over a node store as a whole take.

use clap::{Args, Subcommand, builder::RangedU64ValueParser};

use super::tx::Store;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StoreCommand {
    /// Measure an engine of the node store, beside a bare client of it.
    ///
    /// Prints operations per second by batch size and number of clients: of the node store, of a bare
    /// client that makes the same reads and writes in the same run, and of the floor, which is one
    /// read and one conditional write for each record. Ratios are those of the store to either.
    /// Engines other than a cluster have no bare client here.
    ///
    /// Everything is made under a random name of its own beside the place that the URL names, and
    /// removed afterwards; no store that exists is opened. Do not run it on servers that others need
    /// at the same time.
    Bench(StoreBench),
    /// Move a node store to another engine or another place.
    ///
    /// Everything goes: transactions, outputs, markers, holds, heights, what the pruner remembers, and
    /// the settings that programs have in common. Bodies in a blob store stay where they are, and the
    /// blob store goes over to the target. The target must be new or empty, and cannot be opened by any
    /// other command until the move is done. A command that was interrupted goes on when it is repeated.
    ///
    /// Stop the programs that write to the source, or use --retire-source. On PostgreSQL, Redis and
    /// Aerospike they may write until then, and the last step takes seconds; a source on RocksDB cannot
    /// be opened while they run.
    Move(StoreMove),
    /// Compare a node store with another, transaction by transaction and value by value.
    ///
    /// Ends with code 5 where they differ. Nothing is written. Both stores must stand still.
    Verify(StoreVerify),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StoreBench {
    /// The engine: rocksdb:DIR, sqlite:FILE, postgres://…, redis://…, aerospike://… or memory:; by default
    /// that of the configuration.
    #[arg(value_name = "URL")]
    pub(in crate::cli) url: Option<String>,
    /// Operations in one call.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,128,1000",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000))]
    pub(in crate::cli) batches: Vec<u32>,
    /// Threads that call at once.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8,64",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000))]
    pub(in crate::cli) clients: Vec<u32>,
    /// How long each figure is measured; the table has up to three for each line.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_seconds)]
    pub(in crate::cli) seconds_per_case: f64,
    /// Measure every acknowledgement level of a cluster that its servers can honour, not only that of
    /// the URL.
    #[arg(long)]
    pub(in crate::cli) every_ack: bool,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds between 0.01 and 600".to_owned())
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StoreMove {
    /// The node store to move: rocksdb:DIR, sqlite:FILE, postgres://…, redis://… or aerospike://….
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) from: String,
    /// Where it goes: a new place, or the one of a move that was interrupted.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) to: String,
    /// Have the source list its changes, and retire it when all but a few are copied: from then on every
    /// program refuses to use it. Needed where bodies are in a blob store.
    #[arg(long)]
    pub(in crate::cli) retire_source: bool,
    /// Give up a move that did not end: a source that was retired by it can be used again. The target
    /// stays unusable; remove it.
    #[arg(long, conflicts_with = "retire_source")]
    pub(in crate::cli) abandon: bool,
    /// Transactions that are copied in one commit.
    #[arg(long, value_name = "COUNT", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(in crate::cli) batch: u32,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StoreVerify {
    #[command(flatten)]
    pub(in crate::cli) store: Store,
    /// The other node store.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) against: String,
}
