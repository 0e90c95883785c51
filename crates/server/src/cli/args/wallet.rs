//! What the commands over the wallet ledger take.

mod events;
mod payments;
mod transactions;

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, RangedU64ValueParser},
};

pub(in crate::cli) use self::{
    events::{Events, OneWebhook, Webhook, WebhookAdd},
    payments::{Bump, Coins, Lease, LeaseAcquire, LeaseRelease, Once, Psbt, Select, Terms},
    transactions::{ConfirmTx, OneCoin, OneTx, RecordTx, SetTxLabel, WalletPrune},
};
use super::{COUNT_MAX, network_names};
use crate::cli::wallet_follow::{WalletFollow, WalletScan};

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
    /// Make a wallet.
    Create(WalletCreate),
    /// List all wallets.
    List(WalletList),
    /// Show a wallet, and how far the ledger has come on its network.
    Show(Named),
    /// Archive a wallet: it is not followed any more, takes nothing, and is not listed.
    ///
    /// Its history stays readable. Refused while it has coins, live transactions in no block or leases
    /// that are not allowed by name.
    Archive(WalletArchive),
    /// Take a wallet out of the archive.
    Restore(Named),
    /// Watch addresses, and hand out new ones.
    #[command(subcommand)]
    Address(WalletAddress),
    /// Watch output descriptors.
    #[command(subcommand)]
    Descriptor(WalletDescriptor),
    /// Add up what the wallet has.
    Balance(WalletBalance),
    /// List unspent outputs, by amount.
    Utxos(WalletUtxos),
    /// List transactions, in the order they were recorded or in that of the chain.
    Txs(Txs),
    /// Show a transaction, whatever became of it.
    Tx(OneTx),
    /// Show what a transaction replaced and what replaced it.
    Replacements(Replacements),
    /// Record a transaction: made here, seen in a mempool, or in a block.
    ///
    /// Its bytes are enough on Bitcoin. In parts, as JSON, it is what REST takes as `parts`.
    Record(RecordTx),
    /// Say that a recorded transaction was sent. A replacement takes the place of the old one.
    Publish(OneTx),
    /// Say that a recorded transaction is in a block, which the ledger must have reached.
    Confirm(ConfirmTx),
    /// Give up a transaction that is in no block. It stays on record as failed, with all that depends
    /// on it.
    Abandon(OneTx),
    /// Take back what was said about the block of a transaction: it is in no block again. Refused
    /// when the ledger itself found it in a block that it followed.
    Unconfirm(OneTx),
    /// Remove a live transaction that is in no block, as if it had never been recorded.
    Remove(OneTx),
    /// Set the label of a transaction; empty text clears it.
    Label(SetTxLabel),
    /// Take coins out of circulation for a while.
    #[command(subcommand)]
    Lease(Lease),
    /// Choose coins for a payment; with --lease nobody else gets them meanwhile.
    Select(Select),
    /// Choose and lease coins, and make the transaction that spends them, to be signed elsewhere.
    Psbt(Psbt),
    /// Make the replacement of a transaction with a higher fee. It waits until it is published.
    Bump(Bump),
    /// Labels as files of BIP-329.
    #[command(subcommand)]
    Labels(Labels),
    /// Hold an unspent output back: it is neither selected nor leased.
    Freeze(OneCoin),
    /// Release an output that was held back.
    Unfreeze(OneCoin),
    /// Remove old transactions that no balance needs.
    Prune(WalletPrune),
    /// Check that everything stored about a wallet fits together, or about all of them.
    ///
    /// Without a name every wallet of the ledger is checked, archived ones too, with one line each.
    /// With --data DIR, or --with-chain, its confirmed coins are also compared with the UTXO set of
    /// the chain database, at the same block.
    Verify(WalletVerify),
    /// Roll the ledger back: take a block and all above it off a network, for all its wallets.
    ///
    /// Payments in those blocks are unconfirmed again. A ledger that follows a chain does this by
    /// itself.
    Disconnect(Disconnect),
    /// List what happened to a wallet, or print it as it happens.
    Events(Events),
    /// Send events to other programs over HTTP; `serve` delivers them.
    #[command(subcommand)]
    Webhook(Webhook),
    /// Bring the ledger to the tip of the chain database, and keep it there until Ctrl-C.
    Follow(WalletFollow),
    /// Look again at blocks that the ledger has passed, for one wallet.
    Scan(WalletScan),
}

/// Which wallet.
#[derive(Debug, Args)]
pub(in crate::cli) struct Named {
    /// Name of the wallet.
    #[arg(value_name = "WALLET")]
    pub(in crate::cli) name: String,
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

/// How much of a list.
#[derive(Debug, Args)]
pub(in crate::cli) struct Paging {
    /// The most rows.
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=COUNT_MAX)
    )]
    pub(in crate::cli) limit: u32,
    /// Go on behind the last row of an earlier answer: its `next_cursor`.
    #[arg(long, value_name = "CURSOR")]
    pub(in crate::cli) cursor: Option<String>,
}

/// Which network.
#[derive(Debug, Args)]
pub(in crate::cli) struct OnNetwork {
    /// Chain of the network.
    #[arg(long, default_value = "bitcoin", value_parser = PossibleValuesParser::new(["bitcoin", "cardano"]))]
    pub(in crate::cli) chain: String,
    /// The network.
    #[arg(long, value_parser = PossibleValuesParser::new(network_names()))]
    pub(in crate::cli) network: String,
}

/// Which confirmations count.
#[derive(Debug, Args)]
pub(in crate::cli) struct Confirmations {
    /// Only with at least this many confirmations.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(in crate::cli) min_conf: u32,
    /// Only with at most this many.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_conf: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletCreate {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) network: OnNetwork,
    /// Nothing was paid to the wallet below this block, which the ledger must have: scans start there.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) birthday: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WalletAddress {
    /// Watch addresses, all or none. What is watched already takes the weight that is given.
    Add(AddressAdd),
    /// List watched addresses, in the order they were added.
    List(OnePage),
    /// Hand out the next address of a keychain. No address is handed out twice.
    Next(AddressNext),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AddressAdd {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Addresses; on Bitcoin also output scripts in hexadecimal.
    #[arg(required = true, value_name = "ADDRESS")]
    pub(in crate::cli) addresses: Vec<String>,
    /// Weight of an input that spends from each; by default estimated from the script.
    #[arg(long, value_name = "UNITS")]
    pub(in crate::cli) spend_weight: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OnePage {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) page: Paging,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AddressNext {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Number of the keychain, as `descriptor list` shows it; by default the first one for payments by
    /// others.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) descriptor: Option<i64>,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WalletDescriptor {
    /// Watch a descriptor. One with private keys is refused, and not printed.
    ///
    /// One that is watched already takes a larger --lookahead or --next-index; a smaller one, or
    /// another --keychain, is refused.
    Add(DescriptorAdd),
    /// List the keychains of a wallet.
    List(DescriptorList),
    /// Archive a keychain: its scripts are not watched any more, and it hands out no address.
    ///
    /// Refused while it has coins, live transactions in no block or leases that are not allowed by
    /// name.
    Archive(DescriptorArchive),
    /// Take a keychain out of the archive.
    Restore(OneDescriptor),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescriptorList {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Archived ones too.
    #[arg(long)]
    pub(in crate::cli) archived: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneDescriptor {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Number of the keychain, as `descriptor list` shows it.
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: i64,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescriptorArchive {
    #[command(flatten)]
    pub(in crate::cli) descriptor: OneDescriptor,
    #[command(flatten)]
    pub(in crate::cli) allowed: Allowed,
}

/// What is archived in spite of.
#[derive(Debug, Args)]
pub(in crate::cli) struct Allowed {
    /// What it may still have: coins, unconfirmed or leases; repeat it for more.
    #[arg(long, value_name = "WHAT")]
    pub(in crate::cli) allow: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletArchive {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) allowed: Allowed,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletList {
    /// Archived ones too.
    #[arg(long)]
    pub(in crate::cli) archived: bool,
    #[command(flatten)]
    pub(in crate::cli) page: Paging,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescriptorAdd {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// The descriptor. Several paths, as in `<0;1>`, are several keychains.
    pub(in crate::cli) descriptor: String,
    /// Number of its first keychain: 0 for payments by others, 1 for change. By default 0, or what it
    /// is already.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) keychain: Option<u32>,
    /// How many scripts are watched ahead. By default 1000, or what it is already.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) lookahead: Option<u32>,
    /// Scripts below this number were handed out already. By default 0, or what it is already.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) next_index: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletBalance {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) confirmations: Confirmations,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WalletUtxos {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) confirmations: Confirmations,
    /// Leave out outputs under a lease.
    #[arg(long)]
    pub(in crate::cli) only_free: bool,
    /// Only those of this keychain, by its number.
    #[arg(long, value_name = "ID", conflicts_with = "address")]
    pub(in crate::cli) descriptor: Option<i64>,
    /// Only those of this address, by its number.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) address: Option<i64>,
    #[command(flatten)]
    pub(in crate::cli) page: Paging,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Txs {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Only those in no block, live or not.
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub(in crate::cli) unconfirmed: bool,
    /// Only those in blocks from this height on.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) from: Option<u32>,
    /// Only those in blocks up to this height.
    #[arg(long, value_name = "HEIGHT")]
    pub(in crate::cli) to: Option<u32>,
    /// Newest first.
    #[arg(long)]
    pub(in crate::cli) newest_first: bool,
    #[command(flatten)]
    pub(in crate::cli) page: Paging,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Replacements {
    #[command(flatten)]
    pub(in crate::cli) tx: OneTx,
    /// The most rows.
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=COUNT_MAX)
    )]
    pub(in crate::cli) limit: u32,
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
    pub(in crate::cli) wallet: Named,
    /// Write them to a new file in place of stdout.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LabelsImport {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// The lines; - reads stdin.
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Disconnect {
    /// First block to take off; the block below becomes the last one.
    #[arg(value_name = "HEIGHT")]
    pub(in crate::cli) from_height: u32,
    #[command(flatten)]
    pub(in crate::cli) network: OnNetwork,
    /// `pruned`: also blocks from which transactions were pruned. Their wallets are set aside until
    /// they are rescanned.
    #[arg(long, value_name = "WHAT")]
    pub(in crate::cli) allow: Vec<String>,
}
