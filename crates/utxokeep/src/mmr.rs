//! Roots and proofs of the Merkle mountain range, as the command line and REST answer them.

use serde::Serialize;
use utxokeep_core::{
    BlockName, Height, OutPoint,
    mmr::{MMR_PROOF_BYTES_MAX, MmrProof, MmrProofError, MmrRule},
};
use utxokeep_index::{IndexSettings, MmrError, QueryError, View};
use utxokeep_kv::Read;

use crate::json::{MmrRootAnswer, UtreexoDocument};

/// A proof in the form that its rule has.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Proof {
    /// Under a root that spends leave a mark in.
    Tombstone(Box<MmrProof>),
    /// For the tools of Utreexo.
    Utreexo(Box<UtreexoDocument>),
}

/// Reads a proof with the rule `tombstone`, as JSON or as CBOR: JSON begins with a brace.
pub fn read_proof(bytes: &[u8]) -> Result<MmrProof, MmrProofError> {
    if bytes.len() > MMR_PROOF_BYTES_MAX {
        return Err(MmrProofError::new(format!("longer than {MMR_PROOF_BYTES_MAX} bytes")));
    }
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        serde_json::from_slice(bytes).map_err(MmrProofError::new)
    } else {
        MmrProof::from_cbor(bytes)
    }
}

/// Height of the block that a question names; `None` for the tip. A height is taken as it is: whether
/// the window has it is for the question to find out.
pub fn height_named<S: Read>(
    view: &View<'_, S>,
    at: Option<&BlockName>,
) -> Result<Option<Height>, QueryError> {
    match at {
        None => Ok(None),
        Some(BlockName::Height(height)) => Ok(Some(*height)),
        Some(name) => view.block_named(name).map(|(height, _)| Some(height)),
    }
}

/// The root after a block of the window, or at the tip.
pub fn root<S: Read>(
    view: &View<'_, S>,
    settings: &IndexSettings,
    at: Option<Height>,
) -> Result<MmrRootAnswer, MmrError> {
    let root = view.mmr_root(at)?;
    let is_forest = root.rule == MmrRule::Utreexo;
    let forest = is_forest.then(|| view.forest_roots(at)).transpose()?;
    Ok(MmrRootAnswer::new(&root, forest.as_ref(), settings.network()))
}

/// Proves what an output was after a block of the window, or is at the tip. Going back through more
/// than `changes_max` changes is refused.
pub fn prove<S: Read>(
    view: &View<'_, S>,
    settings: &IndexSettings,
    outpoint: OutPoint,
    at: Option<Height>,
    changes_max: Option<u64>,
) -> Result<Proof, MmrError> {
    if settings.mmr == Some(MmrRule::Utreexo) {
        let proof = view.forest_proof(outpoint, at, changes_max)?;
        let document = UtreexoDocument::new(outpoint, &proof, settings.network());
        return Ok(Proof::Utreexo(Box::new(document)));
    }
    view.mmr_proof(outpoint, at, changes_max).map(|proof| Proof::Tombstone(Box::new(proof)))
}
