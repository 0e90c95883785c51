//! `chain mmr`: the root over the whole set, and proofs under it.

mod blocks;
mod check;
mod enable;
mod error;

use std::io::{self, IsTerminal as _};

use serde::Serialize;
use utxokeep_core::{
    Network, OutPoint, Txid,
    mmr::{MmrProof, ProvenState},
};

use super::{
    args::{Mmr, MmrProve, MmrRootOf, ProofFormat},
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
    wallet::files::NewFile,
};
use utxokeep::{
    json::{MmrRootAnswer, MmrStatus},
    mmr::{self, Proof},
};

pub(in crate::cli) use blocks::RawBlocks;
pub(crate) use error::MmrCommandError;

/// Does what a command asks.
pub(super) fn run(session: &Session, command: &Mmr) -> anyhow::Result<Exit> {
    match command {
        Mmr::Enable(args) => enable::enable(session, args),
        Mmr::Disable => enable::disable(session),
        Mmr::Root(args) => root(session, args),
        Mmr::Prove(args) => prove(session, args),
        Mmr::Check(args) => check::check(session.json(), args),
    }
}

/// Adds the size and the root of a tree.
pub(super) fn describe_size(lines: &mut Lines, mmr: &MmrStatus) {
    lines
        .field("leaves", format_args!("{} ({} unspent)", mmr.leaves, mmr.live_leaves))
        .field("nodes", mmr.nodes)
        .field("root", &mmr.root);
}

fn root(session: &Session, args: &MmrRootOf) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let view = index.view()?;
    let at = mmr::height_named(&view, args.at.block.as_ref())?;
    output::result(session.json(), &mmr::root(&view, index.settings(), at)?)?;
    Ok(Exit::Success)
}

impl Human for MmrRootAnswer {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("network", &self.network)
            .field("height", self.height)
            .field("block", &self.block_hash)
            .field("rule", &self.rule)
            .field("leaves", self.leaves)
            .field("root", &self.root);
        for root in self.getutreexoroots.iter().flat_map(|forest| &forest.roots) {
            lines.field("utreexo", root);
        }
    }
}

/// A proof that went into a file.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    bytes: usize,
    tx_hash: String,
    output_index: u32,
    state: &'static str,
    network: String,
    height: u32,
    block_hash: String,
    leaves: u64,
    root: String,
}

fn prove(session: &Session, args: &MmrProve) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let network = index.settings().network();
    let outpoint = outpoint(&args.output, args.index, network)?;
    let view = index.view()?;
    let at = mmr::height_named(&view, args.at.block.as_ref())?;
    let proof = mmr::prove(&view, index.settings(), outpoint, at, None)?;
    let bytes = match (args.format, &proof) {
        (ProofFormat::Json, proof) => (serde_json::to_string_pretty(proof)? + "\n").into_bytes(),
        (ProofFormat::Cbor, Proof::Tombstone(proof)) => proof.to_cbor(),
        (ProofFormat::Cbor, Proof::Utreexo(_)) => return Err(MmrCommandError::NoCbor.into()),
    };
    let Some(path) = &args.out else {
        print(args.format, &bytes)?;
        return Ok(Exit::Success);
    };
    NewFile::create(path)?.write(&bytes)?;
    let root = mmr::root(&view, index.settings(), at)?;
    let written = Written {
        file: path.display().to_string(),
        bytes: bytes.len(),
        tx_hash: network.hash_text(outpoint.txid().as_bytes()),
        output_index: outpoint.index(),
        state: state(&proof),
        network: root.network,
        height: root.height,
        block_hash: root.block_hash,
        leaves: root.leaves,
        root: root.root,
    };
    output::result(session.json(), &written)?;
    Ok(Exit::Success)
}

const fn state(proof: &Proof) -> &'static str {
    match proof {
        Proof::Utreexo(_) => "unspent",
        Proof::Tombstone(proof) => state_of(proof),
    }
}

const fn state_of(proof: &MmrProof) -> &'static str {
    match proof.state {
        ProvenState::Unspent { .. } => "unspent",
        ProvenState::Spent => "spent",
    }
}

/// The output that the arguments name, in one word or in two.
fn outpoint(
    output: &str,
    index: Option<u32>,
    network: Network,
) -> Result<OutPoint, MmrCommandError> {
    let (text, index) = match (output.split_once(':'), index) {
        (Some((text, index)), None) => {
            (text, index.parse().map_err(|_| MmrCommandError::BadOutput)?)
        }
        (None, Some(index)) => (output, index),
        _ => return Err(MmrCommandError::BadOutput),
    };
    let txid = network.parse_hash(text).map_err(|_| MmrCommandError::BadOutput)?;
    Ok(OutPoint::new(Txid::from_bytes(txid), index))
}

fn print(format: ProofFormat, bytes: &[u8]) -> anyhow::Result<()> {
    if format == ProofFormat::Cbor && io::stdout().is_terminal() {
        return Err(MmrCommandError::BinaryToTerminal.into());
    }
    output::bytes(bytes)
}

impl Human for Written {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("proof", format_args!("{} ({} bytes)", self.file, self.bytes))
            .field("output", format_args!("{}:{}", self.tx_hash, self.output_index))
            .field("state", self.state)
            .field("network", &self.network)
            .field("height", self.height)
            .field("block", &self.block_hash)
            .field("leaves", self.leaves)
            .field("root", &self.root);
    }
}
