//! What the commands of the Merkle mountain range take.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use utxokeep_chains::XorKey;
use utxokeep_core::BlockName;

use super::parse_xor_key;
use utxokeep::config::MmrRuleName;

#[derive(Debug, Subcommand)]
pub(crate) enum Mmr {
    /// Build the tree for an existing database.
    ///
    /// Every output that was ever created gets a leaf, so the blocks below the undo data are read
    /// again: from the files and directories that are named, from those of a block persister, or, with
    /// neither, from the node that the configuration names as [chain] source. Ctrl-C stops at the next
    /// block; the same command resumes there, after a crash too. Until it is done the database works as
    /// before, without a root.
    Enable(MmrEnable),
    /// Drop the tree, or what an interrupted `enable` has left. The outputs stay.
    Disable,
    /// Print the root: one hash that commits to every unspent output after a block.
    Root(MmrRootOf),
    /// Prove that an output is unspent, or that its leaf is spent.
    ///
    /// Prints the proof as JSON. Everybody who has the root can check it, without this database:
    /// `chain mmr check`, `scripts/mmr_check.py`.
    Prove(MmrProve),
    /// Check a proof, without a database.
    ///
    /// A proof leads to a root. Whether that is the root of the chain the proof cannot say: take it
    /// from a node that you trust, and give it as --root. Ends with code 5 if the proof is refused.
    /// A script asks with --unspent and --output, which end with code 4 where a sound proof does not
    /// prove what is asked.
    Check(MmrCheck),
}

#[derive(Debug, Args)]
pub(crate) struct MmrEnable {
    /// How nodes are combined; by default that of the configuration, else `tombstone`.
    #[arg(long, value_enum)]
    pub(crate) rule: Option<MmrRuleName>,
    /// Bitcoin: key of obfuscated files, 16 hexadecimal digits; by default that of `xor.dat` beside them.
    #[arg(long, value_name = "HEX", value_parser = parse_xor_key)]
    pub(crate) xor_key: Option<XorKey>,
    /// Read the blocks from the files of a block persister: `file:DIR` or `s3://BUCKET/PREFIX`.
    #[arg(long, value_name = "URL", conflicts_with_all = ["sources", "xor_key"])]
    pub(crate) from_persisted: Option<String>,
    /// Files of blocks, or directories, as `chain import` takes them.
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
}

/// When to answer for.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// Answer as of this block inside the rollback window, instead of the tip: a height, a block
    /// hash, or on Cardano slot:NUMBER for the newest block of that slot or an earlier one.
    #[arg(long = "at", value_name = "BLOCK")]
    pub(crate) block: Option<BlockName>,
}

#[derive(Debug, Args)]
pub(crate) struct MmrRootOf {
    #[command(flatten)]
    pub(crate) at: At,
}

/// How a proof is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProofFormat {
    /// As JSON.
    Json,
    /// As CBOR, less than half as long; only with the rule `tombstone`.
    Cbor,
}

#[derive(Debug, Args)]
pub(crate) struct MmrProve {
    /// Transaction that created the output, as nodes print it; or TXID:INDEX.
    #[arg(value_name = "TXID")]
    pub(crate) output: String,
    /// Position among the outputs of that transaction.
    pub(crate) index: Option<u32>,
    #[command(flatten)]
    pub(crate) at: At,
    /// How to write the proof.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: ProofFormat,
    /// Write the proof to this new file, and print what it proves.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MmrCheck {
    /// File with the proof, as JSON or CBOR; `-` reads it from stdin.
    pub(crate) proof: PathBuf,
    /// The root that you trust: 64 hexadecimal digits, or a file with the answer of `chain mmr root
    /// --json` or of REST, which binds height and block too.
    #[arg(long, value_name = "HEX|FILE")]
    pub(crate) root: Option<String>,
    /// End with code 4 unless the proof says that its output is unspent.
    #[arg(long)]
    pub(crate) unspent: bool,
    /// End with code 4 unless the proof is of this output. A proof that a leaf is spent names no
    /// output, and ends so too.
    #[arg(long, value_name = "TXID:INDEX")]
    pub(crate) output: Option<String>,
}
