//! What only the commands of the Merkle mountain range can complain about.

use std::path::PathBuf;

use utxokeep_chains::BodyError;
use utxokeep_core::{
    ChainHash, ErrorKind, Height,
    mmr::{MmrProofError, MmrRefusal, MmrRule},
};

/// Why a command was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MmrCommandError {
    /// The pass needs blocks that nobody named.
    #[error(
        "the blocks from height {from} to {until} are needed: every output that was ever created \
         gets a leaf, and the database keeps no spent ones from below height {until}; name the files \
         or directories that it was imported from, or --from-persisted URL, behind `chain mmr enable`, \
         or a node as [chain] source of the configuration; nothing was changed"
    )]
    BlocksNeeded {
        /// The first one.
        from: Height,
        /// The last one.
        until: Height,
    },
    /// The sources lack a block of the chain.
    #[error(
        "block {hash} at height {height} is in none of the sources, and the tree is not complete \
         without it; the database works as before, and what is built so far stays; name the file that \
         has the block, and repeat the command, which resumes at height {height}"
    )]
    BlockMissing {
        /// The block.
        hash: ChainHash,
        /// Its height.
        height: Height,
    },
    /// The node gave no block.
    #[error(
        "the node gave no block: {source}; the database works as before, what is built so far stays, \
         and the same command resumes there"
    )]
    NodeFailed {
        /// Why.
        source: BodyError,
    },
    /// A tree that every later command would refuse.
    #[error(
        "the configuration says [index] store = \"classic\", and with it every later command would \
         refuse the tree; say \"mmr\" or take the setting out first; nothing was changed"
    )]
    SaysClassic,
    /// Two rules.
    #[error(
        "--rule {asked} contradicts [index] mmr_rule = \"{stated}\" of the configuration; change one \
         of them; nothing was changed"
    )]
    TwoRules {
        /// That of the command line.
        asked: MmrRule,
        /// That of the configuration.
        stated: MmrRule,
    },
    /// A tree of another rule.
    #[error(
        "the database keeps a Merkle mountain range with the rule {found}; drop it with `chain mmr \
         disable` to build one with the rule {asked}; nothing was changed"
    )]
    OtherRuleIsOn {
        /// That of the database.
        found: MmrRule,
        /// That asked for.
        asked: MmrRule,
    },
    /// Neither a txid with an index, nor both in one.
    #[error("expected an output: TXID INDEX, or TXID:INDEX")]
    BadOutput,
    /// Bytes that would spoil a terminal.
    #[error("CBOR is not text: write it to a file with --out FILE, or into a pipe")]
    BinaryToTerminal,
    /// There is no such form.
    #[error("a proof with the rule utreexo has no CBOR: leave --format out; its `hex` is binary")]
    NoCbor,
    /// Not a root.
    #[error(
        "--root {text:?} is neither 64 hexadecimal digits nor a readable file with the answer of \
         `chain mmr root --json`"
    )]
    BadRoot {
        /// What was given.
        text: String,
    },
    /// A proof in place of what it is checked against.
    #[error(
        "--root {text:?} is a proof itself: give the answer of `chain mmr root --json` from a node that \
         you trust"
    )]
    ProofAsRoot {
        /// What was given.
        text: String,
    },
    /// A sound proof that its leaf is spent.
    #[error(
        "{}: the proof holds, and says that leaf {leaf} is spent after the block at height {height}; \
         --unspent asks for a proof that an output is unspent", path.display()
    )]
    IsSpent {
        /// The file.
        path: PathBuf,
        /// The leaf.
        leaf: u64,
        /// Height of the block.
        height: u32,
    },
    /// A sound proof of another output.
    #[error(
        "{}: the proof holds, and is of output {found}; --output asks for {asked}", path.display()
    )]
    OtherOutput {
        /// The file.
        path: PathBuf,
        /// The output that it is of.
        found: String,
        /// The one asked for.
        asked: String,
    },
    /// A sound proof that does not say whose leaf it is of.
    #[error(
        "{}: the proof holds, and says that a leaf is spent without saying whose it was: it is none \
         for --output; ask for a proof of the same leaf from before the spend", path.display()
    )]
    NamesNoOutput {
        /// The file.
        path: PathBuf,
    },
    /// A document that is no proof, or that was damaged.
    #[error("{}: {source}; the proof is refused", path.display())]
    NotAProof {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: MmrProofError,
    },
    /// A proof that proves nothing.
    #[error("{}: {source}; the proof is refused", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: MmrRefusal,
    },
}

impl MmrCommandError {
    /// What a caller can do about it.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::BlocksNeeded { .. }
            | Self::BlockMissing { .. }
            | Self::SaysClassic
            | Self::OtherRuleIsOn { .. }
            | Self::IsSpent { .. }
            | Self::OtherOutput { .. }
            | Self::NamesNoOutput { .. } => ErrorKind::Refused,
            Self::TwoRules { .. }
            | Self::BadOutput
            | Self::BinaryToTerminal
            | Self::NoCbor
            | Self::BadRoot { .. }
            | Self::ProofAsRoot { .. } => ErrorKind::Invalid,
            Self::NodeFailed { source } => source.kind(),
            Self::NotAProof { .. } | Self::Refused { .. } => ErrorKind::Corrupt,
        }
    }
}
