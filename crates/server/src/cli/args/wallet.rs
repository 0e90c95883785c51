//! What the commands over the wallet ledger take that are not operations alone: they read and write
//! files, or work until they are stopped.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, builder::RangedU64ValueParser};

use super::COUNT_MAX;
use crate::{
    cli::wallet_follow::{WalletFollow, WalletScan},
    wallets::{BroadcastTx, BumpFee, CreatePsbt, InWallet, RecordTx},
};

#[derive(Debug, Args)]
pub(in crate::cli) struct Wallet {
    /// The ledger: sqlite:FILE or postgres://…; by default that of the configuration.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "UTXOKEEP_LEDGER",
        hide_env_values = true
    )]
    pub(in crate::cli) ledger: Option<String>,
    #[command(subcommand)]
    pub(in crate::cli) command: WalletCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WalletCommand {
    /// Record a transaction: made here, seen in a mempool, or in a block.
    ///
    /// Its bytes are enough on Bitcoin. In parts, as JSON, it is what REST takes as `parts`.
    Record(Record),
    /// Choose and lease coins, and make the transaction that spends them, to be signed elsewhere.
    Psbt(Psbt),
    /// Give a signed transaction to the node of the configuration.
    ///
    /// Signatures of a PSBT are put together first. What the node has already counts as sent, so that
    /// the command may be repeated. Without a node, send it yourself and use `wallet publish`.
    Broadcast(Broadcast),
    /// Make the replacement of a transaction with a higher fee. It waits until it is published.
    Bump(Bump),
    /// Labels as files of BIP-329.
    #[command(subcommand)]
    Labels(Labels),
    /// Remove old transactions that no balance needs.
    Prune(WalletPrune),
    /// Check that everything stored about a wallet fits together, or about all of them.
    ///
    /// Without a name every wallet of the ledger is checked, archived ones too, with one line each.
    /// With --data DIR, or --with-chain, its confirmed coins are also compared with the UTXO set of
    /// the chain database, at the same block.
    Verify(WalletVerify),
    /// List what happened to a wallet, or print it as it happens.
    Events(Events),
    /// Bring the ledger to the tip of the chain database, and keep it there until Ctrl-C.
    Follow(WalletFollow),
    /// Look again at blocks that the ledger has passed, for one wallet.
    Scan(WalletScan),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Events {
    #[command(flatten)]
    pub(in crate::cli) wallet: InWallet,
    /// Only events behind this cursor: the number of the last event that was seen, or the
    /// `next_cursor` of an earlier answer. By default from the oldest that is kept.
    #[arg(long, value_name = "CURSOR")]
    pub(in crate::cli) from: Option<i64>,
    /// The most events.
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        conflicts_with = "follow",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=COUNT_MAX)
    )]
    pub(in crate::cli) limit: u32,
    /// Print events as they come, one line each, until Ctrl-C.
    #[arg(long)]
    pub(in crate::cli) follow: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletVerify {
    /// Name of the wallet; all of them when it is left out.
    #[arg(value_name = "WALLET")]
    pub(in crate::cli) name: Option<String>,
    /// Compare with the chain database, also when --data does not name it.
    #[arg(long)]
    pub(in crate::cli) with_chain: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("content").required(true).args(["raw", "raw_file", "parts_file"]))]
pub(in crate::cli) struct Record {
    #[command(flatten)]
    pub(in crate::cli) request: RecordTx,
    /// A file with the bytes in hexadecimal; - reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) raw_file: Option<PathBuf>,
    /// A file with the parts of the transaction in JSON; - reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) parts_file: Option<PathBuf>,
    /// It was sent, or seen in a mempool; otherwise it was made here and not sent.
    #[arg(long, conflicts_with = "block")]
    pub(in crate::cli) mempool: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Psbt {
    #[command(flatten)]
    pub(in crate::cli) request: CreatePsbt,
    #[command(flatten)]
    pub(in crate::cli) out: PsbtOut,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Bump {
    #[command(flatten)]
    pub(in crate::cli) request: BumpFee,
    #[command(flatten)]
    pub(in crate::cli) out: PsbtOut,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Broadcast {
    #[command(flatten)]
    pub(in crate::cli) request: BroadcastTx,
    /// A file with the signed PSBT, in binary or base64; - reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["psbt", "raw"])]
    pub(in crate::cli) psbt_file: Option<PathBuf>,
}

/// Where a PSBT goes.
#[derive(Debug, Args)]
pub(in crate::cli) struct PsbtOut {
    /// Write the PSBT to a new file, in binary as signers read files; the answer has it in base64.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Labels {
    /// Print all labels of a wallet, one line of JSON each.
    Export(LabelsExport),
    /// Set labels from such lines. Lines that cannot be used are skipped and reported.
    Import(LabelsImport),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LabelsExport {
    #[command(flatten)]
    pub(in crate::cli) request: InWallet,
    /// Write them to a new file in place of stdout.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LabelsImport {
    #[command(flatten)]
    pub(in crate::cli) request: InWallet,
    /// The lines; - reads stdin.
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rule").required(true).multiple(true).args(["dead_older_than", "confirmed_up_to"]))]
#[command(group = ArgGroup::new("kept").required(true).args(["archive", "no_archive", "dry_run"]))]
pub(in crate::cli) struct WalletPrune {
    #[command(flatten)]
    pub(in crate::cli) wallet: InWallet,
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
