//! What the commands over the pruner take.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use utxokeep_core::{Height, Txid};

use super::tx::{Store, parse_txid};

#[derive(Debug, Args)]
pub(in crate::cli) struct PrunerServe {
    #[command(flatten)]
    pub(in crate::cli) store: Store,
    /// Address and port of health and metrics; by default `[pruner] rest_listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// Address and port of gRPC; by default `[pruner] listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(in crate::cli) grpc_listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Pruner {
    /// Prune a node store until Ctrl-C, with gRPC, and health and metrics over HTTP.
    ///
    /// A store on RocksDB belongs to one process: prune it in `serve`, which also serves it.
    Serve(PrunerServe),
    /// Delete what nobody needs any more.
    ///
    /// On a store, Ctrl-C stops at the next chunk; what is deleted stays deleted, and the next run
    /// goes on. With --connect the pruner there runs, and Ctrl-C only stops waiting for it.
    Run(PruneRun),
    /// Let a running pruner start no further run.
    Pause(Connect),
    /// Let a paused pruner go on, beginning with the newest height.
    Resume(Connect),
    /// Keep transactions until a height, whatever else would let them go.
    Preserve(PrunePreserve),
    /// Bring deleted transactions back, as far as `[pruner] undo_blocks` reached when they went.
    Restore(PruneRestore),
    /// Say at which height the chain is.
    ///
    /// The pruner holds a height that the node reported far above what was known
    /// (`[txstore] height_jump_blocks_max`) until a second witness agrees. This makes you that witness.
    Confirm(PruneConfirm),
    /// Say that there is no block persister any more, so that its last height bounds nothing.
    ForgetPersister(Target),
    /// Say that the node reports no marks and no block assembly any more, so that runs do not wait
    /// for them.
    ForgetNodeState(Target),
}

/// Which running pruner.
#[derive(Debug, Args)]
pub(in crate::cli) struct Connect {
    /// A running pruner; by default the one at `[pruner] listen`, or else at `[grpc] listen`.
    #[arg(long, value_name = "http://HOST:PORT")]
    pub(in crate::cli) connect: Option<String>,
}

/// Which store, or which running pruner.
#[derive(Debug, Args)]
pub(in crate::cli) struct Target {
    #[command(flatten)]
    pub(in crate::cli) store: Store,
    /// Ask a running pruner in place of a store. Where neither is named, `status` and `jobs` ask the
    /// one at `[pruner] listen`, or else at `[grpc] listen`.
    #[arg(long, value_name = "http://HOST:PORT", conflicts_with = "store")]
    pub(in crate::cli) connect: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PruneRun {
    /// Height of the run; by default the newest that is safe. One above that is refused.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) height: Option<Height>,
    #[command(flatten)]
    pub(in crate::cli) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PrunePreserve {
    /// The transactions, as nodes print them. Those that are not there are passed over.
    #[arg(required = true, value_name = "TXID", value_parser = parse_txid)]
    pub(in crate::cli) txids: Vec<Txid>,
    /// Height until which they are kept.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) until: Height,
    #[command(flatten)]
    pub(in crate::cli) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PruneConfirm {
    /// Height of the newest block of the chain, as you know it from elsewhere.
    #[arg(value_name = "HEIGHT")]
    pub(in crate::cli) height: Height,
    #[command(flatten)]
    pub(in crate::cli) target: Target,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PruneRestore {
    /// The transaction, as nodes print it.
    #[arg(value_parser = parse_txid, required_unless_present = "height")]
    pub(in crate::cli) txid: Option<Txid>,
    /// Bring back everything that runs at this height deleted; with a transaction, look for it at
    /// no height above this one.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) height: Option<Height>,
    #[command(flatten)]
    pub(in crate::cli) target: Target,
}
