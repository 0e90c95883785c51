//! What the commands over a node store as a whole take.

use clap::{Args, Subcommand, builder::RangedU64ValueParser};

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
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StoreBench {
    /// The engine: rocksdb:DIR, sqlite:FILE, postgres://…, redis://… or memory:; by default that of the
    /// configuration.
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
