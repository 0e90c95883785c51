//! What the commands over the transactions of a wallet take.

use std::path::PathBuf;

use clap::{ArgGroup, Args, builder::RangedU64ValueParser};

use super::{COUNT_MAX, Named, Once};
use crate::{cli::args::check_tx_hash, wallets::BlockPlace};

#[derive(Debug, Args)]
pub(in crate::cli) struct OneTx {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// The transaction, as nodes print it.
    #[arg(value_name = "TXID", value_parser = check_tx_hash)]
    pub(in crate::cli) txid: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneCoin {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// The output, as TXID:INDEX.
    #[arg(value_name = "OUTPOINT")]
    pub(in crate::cli) outpoint: String,
}

/// A block, and a place in it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Block {
    /// The block: its height, its hash, and the time in its header in seconds since 1970.
    #[arg(long, value_name = "HEIGHT:HASH:TIME", value_parser = parse_block)]
    pub(in crate::cli) block: Option<BlockPlace>,
    /// Position in the block, if you know it.
    #[arg(long, value_name = "N", requires = "block")]
    pub(in crate::cli) position: Option<u32>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("content").required(true).args(["raw", "raw_file", "parts_file"]))]
pub(in crate::cli) struct RecordTx {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Bytes of the transaction in hexadecimal.
    #[arg(long, value_name = "HEX")]
    pub(in crate::cli) raw: Option<String>,
    /// A file with the bytes in hexadecimal; - reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) raw_file: Option<PathBuf>,
    /// A file with the parts of the transaction in JSON; - reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) parts_file: Option<PathBuf>,
    /// It was sent, or seen in a mempool; otherwise it was made here and not sent.
    #[arg(long, conflicts_with = "block")]
    pub(in crate::cli) mempool: bool,
    #[command(flatten)]
    pub(in crate::cli) block: Block,
    /// It is meant to replace whatever spends the same outputs.
    #[arg(long)]
    pub(in crate::cli) replaces: bool,
    /// Label for the transaction; a label that is stored already wins.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) label: Option<String>,
    /// An output that belongs to the wallet, by its index; repeat it for more. By default all to
    /// watched scripts.
    #[arg(long, value_name = "INDEX")]
    pub(in crate::cli) credit: Vec<u32>,
    /// Whose payment it is, 64 hexadecimal digits or a name: leases of this owner on its inputs end
    /// when it is given up.
    #[arg(long, value_name = "OWNER")]
    pub(in crate::cli) owner: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfirmTx {
    #[command(flatten)]
    pub(in crate::cli) tx: OneTx,
    /// The block: its height, its hash, and the time in its header in seconds since 1970.
    #[arg(long, value_name = "HEIGHT:HASH:TIME", value_parser = parse_block)]
    pub(in crate::cli) block: BlockPlace,
    /// Position in the block, if you know it.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) position: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SetTxLabel {
    #[command(flatten)]
    pub(in crate::cli) tx: OneTx,
    /// The label.
    #[arg(value_name = "TEXT")]
    pub(in crate::cli) label: String,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rule").required(true).multiple(true).args(["dead_older_than", "confirmed_up_to"]))]
#[command(group = ArgGroup::new("kept").required(true).args(["archive", "no_archive", "dry_run"]))]
pub(in crate::cli) struct WalletPrune {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Transactions that are not live and were first recorded more than this many days ago.
    #[arg(long, value_name = "DAYS")]
    pub(in crate::cli) dead_older_than: Option<u32>,
    /// Confirmed transactions up to this height whose coins are all spent up to it too. A
    /// reorganisation must not reach it: `prune_depth_blocks` of the configuration lie above.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) confirmed_up_to: Option<u32>,
    /// Add what is removed to this file, one line of JSON for each transaction. It leaves the ledger
    /// when it is on disk; after a crash the next run finishes, and lines may be there twice.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) archive: Option<PathBuf>,
    /// Keep nothing of what is removed.
    #[arg(long)]
    pub(in crate::cli) no_archive: bool,
    /// Only show what would be removed.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// The most transactions to remove.
    #[arg(
        long,
        value_name = "N",
        default_value = "1000",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=COUNT_MAX)
    )]
    pub(in crate::cli) limit: u32,
}

/// Checks the form of the hash when the network is known.
fn parse_block(text: &str) -> Result<BlockPlace, &'static str> {
    const WRONG: &str = "expected a height, a hash and a time in seconds, with colons between them";
    let mut parts = text.split(':');
    let (Some(height), Some(hash), Some(time), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(WRONG);
    };
    let height = height.parse().map_err(|_| WRONG)?;
    let time = time.parse().map_err(|_| WRONG)?;
    Ok(BlockPlace { height, hash: hash.to_owned(), time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_height_hash_and_time() {
        let block = parse_block("7:ab:1700000000").unwrap();
        assert_eq!((block.height, block.hash.as_str(), block.time), (7, "ab", 1_700_000_000));
        for wrong in ["", "7", "7:ab", "x:ab:1", "7:ab:x", "7:ab:1:2", "-1:ab:1"] {
            assert!(parse_block(wrong).is_err(), "{wrong}");
        }
    }
}
