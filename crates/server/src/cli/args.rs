//! What the commands take.

mod mmr;
mod persister;
mod prune;
mod store;
mod tx;
mod wallet;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, builder::PossibleValuesParser};
use utxokeep::stream::{ConsumerPlace, StreamRequest};
use utxokeep_chains::{XorKey, bitcoind::BitcoindUrl};
use utxokeep_core::{Height, Network, hex_decode};

pub(super) use self::{
    mmr::{Mmr, MmrCheck, MmrEnable, MmrProve, MmrRootOf, ProofFormat},
    persister::{PersisterCommand, PersisterVerify},
    prune::{
        Connect, PruneConfirm, PrunePreserve, PruneRestore, PruneRun, Pruner, PrunerServe, Target,
    },
    store::{StoreBench, StoreCommand, StoreMove, StoreVerify},
    tx::{Store, Tx, TxAdoptBlobs, TxRecover, TxSettings, TxVerify},
    wallet::{
        Broadcast, Bump, Events, Labels, LabelsExport, LabelsImport, Psbt, Record, Wallet,
        WalletCommand, WalletPrune, WalletVerify,
    },
};
use super::exit::after_help;
use crate::config::Source;

/// The most rows one answer of the command line has.
const COUNT_MAX: u64 = 100_000;

/// UTXO state engine: follows a chain and keeps its exact set of unspent outputs.
#[derive(Debug, Parser)]
#[command(name = "utxokeep", version, arg_required_else_help = true, after_help = after_help())]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(super) struct Global {
    /// Directory of the database; by default that of the configuration, else ./data.
    #[arg(long, global = true, value_name = "DIR", env = "UTXOKEEP_DATA", hide_env_values = true)]
    pub(super) data: Option<PathBuf>,
    /// Whether the command line named the directory.
    #[arg(skip)]
    pub(super) is_data_named: bool,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Configuration file in TOML; without one every setting has its default.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "UTXOKEEP_CONFIG",
        hide_env_values = true
    )]
    pub(super) config: Option<PathBuf>,
    /// Log more to stderr; repeat for still more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Fill, inspect and change the chain index.
    #[command(subcommand)]
    Chain(Chain),
    /// Look at the node store, transaction by transaction.
    #[command(subcommand)]
    Tx(Tx),
    /// Work on a node store as a whole.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Delete transactions of the node store that nobody needs any more, and watch the pruner.
    ///
    /// Most commands work on a store, or ask a running pruner with --connect. `pause` and `resume` need
    /// a running pruner. `serve` runs one alone.
    #[command(subcommand)]
    Pruner(Pruner),
    /// Look at the files that the block persister has written.
    #[command(subcommand)]
    Persister(PersisterCommand),
    /// Watch wallets: balances, coins, payments to be signed elsewhere.
    ///
    /// The ledger is an SQL database that several programs may use at the same time. `create` and
    /// `follow` make a new one where there is none; no other command does. It knows scripts and public keys, never secrets. Amounts are whole numbers
    /// in the smallest unit of the chain.
    Wallet(Wallet),
    /// Serve a database over REST, and the node store over gRPC.
    ///
    /// The node store is served when the configuration names one (`[txstore] url`), with the pruner
    /// beside it (`[pruner] enabled`). There need not be a database then: without one REST answers
    /// health and metrics only.
    Serve(Serve),
    /// Mine a simulated chain into a database and serve it over REST.
    Demo(Demo),
}

#[derive(Debug, Subcommand)]
pub(super) enum Chain {
    /// Read blocks from files and directories; the best valid branch becomes the chain.
    ///
    /// Bitcoin: files are in Bitcoin Core's framing, plain or compressed with zstd or xz, in any
    /// order in which a node may have stored the blocks.
    ///
    /// Cardano: a source is the database directory of a node, of which every immutable block is
    /// read, or a file of wrapped blocks, one behind the other or in hexadecimal. Directories come
    /// first, in the order given, then all files.
    ///
    /// Blocks that are in the database already are passed over. A block that breaks a rule is
    /// refused together with its descendants, reported as a warning, and does not change the exit
    /// code. Ctrl-C stops at the next batch.
    Import(Import),
    /// Follow a live node of Bitcoin or Cardano: apply its blocks and undo what it undoes, until Ctrl-C.
    ///
    /// A lost connection is opened again, with longer and longer waits. Nobody may read the database
    /// meanwhile; to follow and serve at once, name the node in the configuration and use `serve`.
    Follow(Follow),
    /// Undo all blocks above a height.
    Rollback(Rollback),
    /// Recount everything and list what is wrong.
    Verify,
    /// Delete undo data that no allowed rollback needs.
    Prune(ChainPrune),
    /// Named consumers of the chain log: how far each has come.
    ///
    /// Undo data that a named consumer has not read yet is kept, up to `[index]
    /// consumer_lag_blocks_max` blocks. A pruner that follows the log hears of no block that one of them
    /// has not seen.
    #[command(subcommand)]
    Consumers(Consumers),
    /// Print what every block changed: the change stream.
    ///
    /// Of a server that runs (--connect), until Ctrl-C. Without it the database is read from the start
    /// that is named up to its tip. With --json each event is a line.
    Watch(Watch),
    /// One root over the whole UTXO set, and proofs that anybody can check.
    ///
    /// A Merkle mountain range over the outputs, kept where `[index] store = "mmr"` says so or
    /// `enable` has built it. docs/mmr.md defines every byte.
    #[command(subcommand)]
    Mmr(Mmr),
    /// List what stands behind damage in the write-ahead log, and open the database without it.
    ///
    /// A damaged log is refused by every other command. Blocks that are lost here can be imported
    /// again. Ends with code 5 while there is damage.
    Recover(ChainRecover),
}

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// Address of the REST server to ask, such as 127.0.0.1:8080.
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect: Option<String>,
    #[command(flatten)]
    pub(super) request: StreamRequest,
}

#[derive(Debug, Subcommand)]
pub(super) enum Consumers {
    /// List them, with how many blocks each lies behind the tip.
    List,
    /// Register a consumer of the change stream, or say how far it has come.
    ///
    /// Its name begins with `stream-`. What it has not read yet stays, up to `[index]
    /// consumer_lag_blocks_max` blocks. A server that runs takes the same over REST (`PUT
    /// /api/v1/consumers/NAME`).
    Register {
        /// Name of the consumer, such as stream-accounting.
        name: String,
        /// How far it has come; without it, to the tip.
        #[command(flatten)]
        place: ConsumerPlace,
    },
    /// Forget one that is not used any more, so that it holds nothing back.
    ///
    /// A part of the program that still follows the log registers itself again when it starts.
    Forget {
        /// Name of the consumer.
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct ChainRecover {
    /// Give up what stands behind the damage; without this nothing is changed.
    #[arg(long)]
    pub(super) accept_loss: bool,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// Chain of the blocks; by default that of the configuration.
    #[arg(long, value_parser = PossibleValuesParser::new(["bitcoin", "cardano"]))]
    pub(super) chain: Option<String>,
    /// Network of the blocks; by default that of the database or of the configuration.
    #[arg(long, value_parser = PossibleValuesParser::new(network_names()))]
    pub(super) network: Option<String>,
    /// Genesis file of a Cardano devnet: the Shelley one and, if its chain has one, the Byron one.
    ///
    /// Repeat it for the second file; which is which is told by their content. The genesis is kept
    /// in the database, so that it is needed only once.
    #[arg(long, value_name = "FILE")]
    pub(super) genesis: Vec<PathBuf>,
    /// Let a new database start with any block of Cardano, not only with the first of its chain.
    #[arg(long)]
    pub(super) start_mid_chain: bool,
    /// Bitcoin: key of obfuscated files, 16 hexadecimal digits; by default that of `xor.dat` beside them.
    #[arg(long, value_name = "HEX", value_parser = parse_xor_key)]
    pub(super) xor_key: Option<XorKey>,
    /// Write every block with its undo data, also those far below the window.
    #[arg(long)]
    pub(super) no_bulk: bool,
    /// Build from the files of a block persister: `file:DIR` or `s3://BUCKET/PREFIX`. What is in the
    /// database already is passed over, so that a stopped import is resumed by the same command.
    #[arg(long, value_name = "URL", conflicts_with_all = ["sources", "xor_key"])]
    pub(super) from_persisted: Option<String>,
    /// Files of blocks, or directories: with blk*.dat files, or of a Cardano node.
    #[arg(required_unless_present = "from_persisted", value_name = "SOURCE")]
    pub(super) sources: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Follow {
    /// Network of the node, to make a new database; by default that of the database or of the
    /// configuration.
    #[arg(long, value_parser = PossibleValuesParser::new(network_names()))]
    pub(super) network: Option<String>,
    /// Bitcoin: RPC and REST of the node, as `http://127.0.0.1:8332`; by default the source of the
    /// configuration.
    #[arg(long, value_name = "URL", requires = "cookie_file", conflicts_with_all = ["node", "socket"])]
    pub(super) bitcoind: Option<BitcoindUrl>,
    /// Bitcoin: the `.cookie` file in the node's data directory. A user and a password stand in the
    /// configuration.
    #[arg(long, value_name = "FILE", requires = "bitcoind")]
    pub(super) cookie_file: Option<PathBuf>,
    /// Bitcoin: directory of the node's block files, from which a first sync reads.
    #[arg(long, value_name = "DIR", requires = "bitcoind")]
    pub(super) blocks_dir: Option<PathBuf>,
    /// Cardano: port that the node has for other nodes; by default the source of the configuration.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "socket", value_parser = parse_node)]
    pub(super) node: Option<Source>,
    /// Cardano: socket that the node has for local clients.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Stop as soon as everything the node has is applied.
    #[arg(long)]
    pub(super) until_tip: bool,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// Height that becomes the new tip.
    #[arg(value_name = "HEIGHT")]
    pub(super) to: Height,
    /// Print what would be undone and write nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct ChainPrune {
    /// Then rewrite the tables, so that deleted rows take no more space.
    #[arg(long)]
    pub(super) compact: bool,
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Address and port to listen on; by default those of the configuration.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// Address and port of the gRPC server; by default those of the configuration. Where neither a
    /// node store nor a ledger is served, it starts the server for the change stream.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) grpc_listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Address and port of the REST server; by default that of the configuration.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// Seed of the simulated chain: the same seed mines the same chain.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,
    /// Blocks to mine per second.
    #[arg(long, value_name = "F", default_value = "2", value_parser = parse_rate)]
    pub(super) blocks_per_second: f64,
    /// Stop after this many blocks.
    #[arg(long, value_name = "N")]
    pub(super) blocks: Option<u64>,
}

/// Names of the networks of all chains, each once.
fn network_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for network in Network::ALL {
        if !names.contains(&network.name()) {
            names.push(network.name());
        }
    }
    names
}

fn parse_node(text: &str) -> Result<Source, &'static str> {
    Source::cardano_node(text).ok_or("expected a host, a colon and a port from 1 to 65535")
}

pub(super) fn parse_xor_key(text: &str) -> Result<XorKey, &'static str> {
    hex_decode(text).and_then(|bytes| bytes.try_into().ok()).ok_or("expected 16 hexadecimal digits")
}

fn parse_rate(text: &str) -> Result<f64, &'static str> {
    let rate: f64 = text.parse().map_err(|_| "expected a number")?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("expected a number above 0") }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rates_and_keys_are_checked() {
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        for text in ["0", "-1", "NaN", "inf", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert_eq!(parse_xor_key("0102030405060708"), Ok([1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(parse_xor_key("01").is_err());
    }
}
