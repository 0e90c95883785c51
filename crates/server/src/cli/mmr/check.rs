//! `chain mmr check`: a proof and the hash function, no database.

use std::path::Path;

use serde::{Deserialize, Serialize};
use utxokeep_core::{
    BlockHash, Height, Network, OutPoint, Txid, hex_decode,
    mmr::{
        MMR_PROOF_BYTES_MAX, MmrProof, MmrProofError, MmrRefusal, MmrRule, NodeHash, ProvenState,
        UtreexoProof, check_mmr_proof, check_utreexo_proof, utreexo_preimage_hash,
    },
};
use utxokeep_index::{ForestProof, ForestRoots};

use super::{MmrCommandError, outpoint, state_of};
use crate::cli::{
    args::MmrCheck,
    exit::Exit,
    output::{self, Human, Lines},
    wallet::files::read_bytes,
};
use utxokeep::{json::UtreexoDocument, mmr::read_proof};

/// The longest answer about a root that is read: a few hundred bytes, a forest has up to 64 roots.
const ROOT_BYTES_MAX: usize = 64 << 10;

/// What a proof has shown.
#[derive(Debug, Serialize)]
struct Checked {
    holds: bool,
    rule: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<u32>,
    /// In the smallest unit, as a decimal string.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaf: Option<u64>,
    leaves: u64,
    root: String,
    network: String,
    height: u32,
    block_hash: String,
    /// Whether the root is the one that was given.
    root_was_given: bool,
    /// Whether network, height and block are those that were given.
    block_was_given: bool,
}

/// The root that the user trusts.
enum Trusted {
    Root(NodeHash),
    Block(RootFile),
}

/// An answer of `chain mmr root --json` or of REST; whatever else it has is of no interest.
#[derive(Debug, Deserialize)]
struct RootFile {
    network: String,
    height: u32,
    block_hash: String,
    leaves: u64,
    rule: String,
    root: String,
    /// Only a proof has one. A proof must not vouch for itself.
    state: Option<String>,
}

/// Which kind of document it is.
#[derive(Debug, Deserialize)]
struct Kind {
    rule: String,
}

/// Checks a proof.
pub(super) fn check(json: bool, args: &MmrCheck) -> anyhow::Result<Exit> {
    let trusted = args.root.as_deref().map(trusted).transpose()?;
    let bytes = read_bytes(&args.proof, MMR_PROOF_BYTES_MAX)?;
    let not_a_proof = |source| MmrCommandError::NotAProof { path: args.proof.clone(), source };
    let refused = |source| MmrCommandError::Refused { path: args.proof.clone(), source };
    let is_json = bytes.trim_ascii_start().first() == Some(&b'{');
    let kind = is_json.then(|| serde_json::from_slice::<Kind>(&bytes)).transpose();
    let kind = kind.map_err(|error| not_a_proof(MmrProofError::new(error)))?;
    let mut checked = match kind {
        Some(kind) if kind.rule == MmrRule::Utreexo.to_string() => {
            let document = serde_json::from_slice(&bytes)
                .map_err(|error| not_a_proof(MmrProofError::new(error)))?;
            let (outpoint, proof) = parts(&document).map_err(not_a_proof)?;
            forest(&document, outpoint, &proof).map_err(refused)?
        }
        _ => {
            let proof = read_proof(&bytes);
            tree(&proof.map_err(not_a_proof)?).map_err(not_a_proof)?.map_err(refused)?
        }
    };
    if let Some(trusted) = trusted {
        checked.compare(&trusted).map_err(refused)?;
    }
    checked.is_what_was_asked(args)?;
    output::result(json, &checked)?;
    Ok(Exit::Success)
}

/// Reads what the user trusts: a hash, or a file.
fn trusted(text: &str) -> Result<Trusted, MmrCommandError> {
    if let Some(root) = hex_decode(text).and_then(|bytes| bytes.try_into().ok()) {
        return Ok(Trusted::Root(root));
    }
    let bad = || MmrCommandError::BadRoot { text: text.to_owned() };
    let bytes = read_bytes(Path::new(text), ROOT_BYTES_MAX).map_err(|_| bad())?;
    let file: RootFile = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    if file.state.is_some() {
        return Err(MmrCommandError::ProofAsRoot { text: text.to_owned() });
    }
    Ok(Trusted::Block(file))
}

/// Checks a proof with the rule `tombstone`.
fn tree(proof: &MmrProof) -> Result<Result<Checked, MmrRefusal>, MmrProofError> {
    let network: Network = proof.network.parse().map_err(MmrProofError::new)?;
    if let Err(refusal) = check_mmr_proof(proof, None) {
        return Ok(Err(refusal));
    }
    let output = match &proof.state {
        ProvenState::Unspent { txid, index, content } => Some((txid, *index, content)),
        ProvenState::Spent => None,
    };
    Ok(Ok(Checked {
        holds: true,
        rule: MmrRule::Tombstone.to_string(),
        state: state_of(proof),
        tx_hash: output.map(|(txid, ..)| network.hash_text(txid)),
        output_index: output.map(|(_, index, _)| index),
        amount: output.and_then(|(.., content)| amount(content, network)),
        leaf: Some(proof.leaf),
        leaves: proof.leaves,
        root: utxokeep_core::hex_encode(&proof.root),
        network: proof.network.clone(),
        height: proof.height,
        block_hash: network.hash_text(&proof.block_hash),
        root_was_given: false,
        block_was_given: false,
    }))
}

/// The amount among the bytes that a leaf commits to.
fn amount(content: &[u8], network: Network) -> Option<String> {
    // Cardano: txid, index (2), amount. Bitcoin: txid, index (4), height and flag (4), amount, its
    // lowest byte first.
    let at = if network.is_cardano() { 34 } else { 40 };
    let mut bytes: [u8; 8] = content.get(at..at + 8)?.try_into().ok()?;
    if !network.is_cardano() {
        bytes.reverse();
    }
    Some(u64::from_be_bytes(bytes).to_string())
}

/// The proof in a document of the rule `utreexo`, all of whose parts must say the same.
fn parts(document: &UtreexoDocument) -> Result<(OutPoint, ForestProof), MmrProofError> {
    let network: Network = document.network.parse().map_err(MmrProofError::new)?;
    let hash = |text: &String| -> Result<NodeHash, MmrProofError> {
        let bytes = hex_decode(text).and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| MmrProofError::new("a hash is not 64 hexadecimal digits"))
    };
    let hashes = |list: &[String]| list.iter().map(hash).collect::<Result<Vec<_>, _>>();
    let proof = &document.getutreexoproof;
    let ([target], [leaf_hash], [preimage]) = (
        proof.prooftargets.as_slice(),
        proof.targethashes.as_slice(),
        proof.targetpreimages.as_slice(),
    ) else {
        return Err(MmrProofError::new("it is not of one leaf"));
    };
    let chain_hash = |text: &str| network.parse_hash(text).map_err(MmrProofError::new);
    let outpoint =
        OutPoint::new(Txid::from_bytes(chain_hash(&document.tx_hash)?), document.output_index);
    let proof = ForestProof {
        roots: ForestRoots {
            height: Height::new(document.height),
            hash: BlockHash::from_bytes(chain_hash(&document.block_hash)?),
            leaves: document.leaves,
            roots: hashes(&document.getutreexoroots.roots)?,
        },
        leaf_hash: hash(leaf_hash)?,
        preimage: hex_decode(preimage).ok_or_else(|| MmrProofError::new("not hexadecimal"))?,
        proof: UtreexoProof { target: *target, hashes: hashes(&proof.proofhashes)? },
    };
    if UtreexoDocument::new(outpoint, &proof, network) != *document {
        return Err(MmrProofError::new("its parts contradict each other"));
    }
    Ok((outpoint, proof))
}

/// Checks a proof with the rule `utreexo`.
fn forest(
    document: &UtreexoDocument,
    outpoint: OutPoint,
    proof: &ForestProof,
) -> Result<Checked, MmrRefusal> {
    let ForestProof { roots, leaf_hash, preimage, proof: way } = proof;
    let mut index = outpoint.index().to_be_bytes();
    index.reverse();
    let names_it = preimage.get(32..64) == Some(outpoint.txid().as_bytes().as_slice())
        && preimage.get(64..68) == Some(index.as_slice());
    if !names_it || utreexo_preimage_hash(preimage) != *leaf_hash {
        return Err(MmrRefusal::WrongRoot);
    }
    check_utreexo_proof(roots.leaves, &roots.roots, *leaf_hash, way)?;
    Ok(Checked {
        holds: true,
        rule: document.rule.clone(),
        state: "unspent",
        tx_hash: Some(document.tx_hash.clone()),
        output_index: Some(document.output_index),
        amount: preimage.get(32..).and_then(|coin| amount(coin, Network::BitcoinMainnet)),
        leaf: None,
        leaves: document.leaves,
        root: document.root.clone(),
        network: document.network.clone(),
        height: document.height,
        block_hash: document.block_hash.clone(),
        root_was_given: false,
        block_was_given: false,
    })
}

impl Checked {
    /// Refuses a sound proof that proves something else than the user asks for.
    fn is_what_was_asked(&self, args: &MmrCheck) -> anyhow::Result<()> {
        let path = || args.proof.clone();
        let named = self.tx_hash.as_ref().zip(self.output_index);
        if let Some(text) = &args.output {
            let network: Network = self.network.parse()?;
            let asked = outpoint(text, None, network)?;
            let asked = format!("{}:{}", network.hash_text(asked.txid().as_bytes()), asked.index());
            let Some((tx_hash, index)) = named else {
                return Err(MmrCommandError::NamesNoOutput { path: path() }.into());
            };
            let found = format!("{tx_hash}:{index}");
            if found != asked {
                return Err(MmrCommandError::OtherOutput { path: path(), found, asked }.into());
            }
        }
        if args.unspent && self.state != "unspent" {
            let (leaf, height) = (self.leaf.unwrap_or_default(), self.height);
            return Err(MmrCommandError::IsSpent { path: path(), leaf, height }.into());
        }
        Ok(())
    }

    /// Refuses a proof under another root than the trusted one.
    fn compare(&mut self, trusted: &Trusted) -> Result<(), MmrRefusal> {
        let file = match trusted {
            Trusted::Root(root) if utxokeep_core::hex_encode(root) == self.root => {
                self.root_was_given = true;
                return Ok(());
            }
            Trusted::Root(_) => return Err(MmrRefusal::OtherAnchor { what: "root" }),
            Trusted::Block(file) => file,
        };
        let is_same = [
            ("network", file.network == self.network),
            ("height", file.height == self.height),
            ("block", file.block_hash == self.block_hash),
            ("number of leaves", file.leaves == self.leaves),
            ("rule", file.rule == self.rule),
            ("root", file.root == self.root),
        ];
        if let Some(&(what, _)) = is_same.iter().find(|(_, is_same)| !is_same) {
            return Err(MmrRefusal::OtherAnchor { what });
        }
        (self.root_was_given, self.block_was_given) = (true, true);
        Ok(())
    }
}

impl Human for Checked {
    fn describe(&self, lines: &mut Lines) {
        lines.field("proof", "holds").field("state", self.state);
        if let (Some(tx_hash), Some(index)) = (&self.tx_hash, self.output_index) {
            lines.field("output", format_args!("{tx_hash}:{index}"));
        }
        if let Some(amount) = &self.amount {
            let unit = if self.network.starts_with("cardano/") { "lovelace" } else { "sat" };
            lines.field("amount", format_args!("{amount} {unit}"));
        }
        match self.leaf {
            Some(leaf) => lines.field("leaf", format_args!("{leaf} of {}", self.leaves)),
            None => lines.field("leaves", self.leaves),
        };
        lines
            .field("root", &self.root)
            .field("network", &self.network)
            .field("height", self.height)
            .field("block", &self.block_hash)
            .row("");
        let what = match self.state {
            "unspent" => "The output is unspent under this root.",
            _ => {
                "The leaf is spent under this root. Whose leaf it was, a proof of the same\n\
                 leaf from before the spend shows."
            }
        };
        lines.row(what);
        let trust = match (self.root_was_given, self.block_was_given) {
            (_, true) => "Root, height and block are those of the file given.",
            (true, false) => {
                "The root is the one given. Height and block are the proof's own words: a root\n\
                 does not commit to them. A file as --root compares them too."
            }
            (false, false) => {
                "Whether it is the root of the chain a proof cannot say. Take the root of this\n\
                 block from a node that you trust, and give it as --root."
            }
        };
        lines.row(trust);
    }
}
