//! What the commands over the node store take.

use clap::{Args, Subcommand};
use utxokeep_core::{HashParseError, Txid};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Tx {
    /// Recount the node store and list what is wrong; with a blob store, look for files that no
    /// record names.
    Verify(TxVerify),
    /// Show the settings that every program over a node store must have in common: retention, windows
    /// and coinbase maturity.
    ///
    /// They are written when the store is made. A program whose configuration says otherwise is
    /// refused.
    Settings(TxSettings),
    /// Take the place for large bodies (`[txstore] blobs`) as it is, though it is not the one that the
    /// node store used before.
    ///
    /// For one that is lost for good, or came back without its file `utxokeep-blob-store`. Bodies that
    /// are not there stay missing: `tx verify` lists them.
    AdoptBlobs(TxAdoptBlobs),
    /// List what stands behind damage in the write-ahead log of a store on RocksDB, and open the
    /// store without it.
    ///
    /// A damaged log is refused by every other command, because what stands behind the damage was
    /// answered for. Compare the transactions that are listed with the node before and after. Ends
    /// with code 5 while there is damage.
    Recover(TxRecover),
}

/// Which node store.
#[derive(Debug, Args)]
pub(in crate::cli) struct Store {
    /// The node store: rocksdb:DIR, sqlite:FILE, postgres://…, redis://… or aerospike://…; by default
    /// that of the configuration.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) store: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TxVerify {
    /// Remove files of the blob store that no record names.
    #[arg(long)]
    pub(in crate::cli) repair_blobs: bool,
    /// Age from which such a file counts: until then its record may be on the way.
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    pub(in crate::cli) blob_age_min_s: u32,
    #[command(flatten)]
    pub(in crate::cli) store: Store,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TxSettings {
    /// Change them to those of the configuration, for every program that uses the store. Stop those
    /// first. The change is recorded. Heights that are set already stay.
    #[arg(long)]
    pub(in crate::cli) change: bool,
    #[command(flatten)]
    pub(in crate::cli) store: Store,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TxAdoptBlobs {
    #[command(flatten)]
    pub(in crate::cli) store: Store,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TxRecover {
    /// Give up what stands behind the damage; without this nothing is changed.
    #[arg(long)]
    pub(in crate::cli) accept_loss: bool,
    #[command(flatten)]
    pub(in crate::cli) store: Store,
}

pub(super) fn parse_txid(text: &str) -> Result<Txid, HashParseError> {
    Txid::from_reversed_hex(text)
}
