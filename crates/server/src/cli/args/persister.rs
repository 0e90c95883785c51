//! What `persister` takes.

use clap::{Args, Subcommand};
use utxokeep_core::Height;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PersisterCommand {
    /// Say how far the persister has come, in the blob store and in the chain database.
    Status,
    /// Read all files of the blocks of the chain and list what is missing or damaged.
    ///
    /// Each block is put together from its files, decoded, and its files are made anew, which must give
    /// the same bytes. Ends with code 5 where something is wrong.
    Verify(PersisterVerify),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PersisterVerify {
    /// The first height to look at.
    #[arg(long, value_name = "HEIGHT", default_value_t = Height::GENESIS)]
    pub(in crate::cli) from: Height,
}
