//! Routes of the Merkle mountain range: its root, and proofs under it.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utxokeep_core::{BlockHash, OutPoint, Txid};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;

use super::{
    answer::{KnownTags, same, tagged},
    error::{ApiError, ErrorBody},
    params::{Params, Segments},
    state::RestState,
    table::Serves as _,
};
use utxokeep::{
    json::{MmrRootAnswer, UtreexoDocument},
    mmr::{self, Proof},
    ops::{
        Effect, Mark,
        chain::{At, ChainReadError},
    },
};

/// When to answer for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AtParams {
    /// Answer as of this block: a height, a block hash, or on Cardano `slot:NUMBER` for the newest
    /// block of that slot or an earlier one. It must lie between `undo_base` and the tip; without
    /// it, as of the tip.
    #[param(nullable = false, value_type = Option<String>, example = "300")]
    at: Option<At>,
}

/// Sends an answer, unless the client has it. The tag names the rule too: a tree that is dropped and
/// built with another one has other roots at the same block. Refusals come before a tag is compared.
fn answer<T: Serialize>(known: &KnownTags, mark: &Mark, answer: &T) -> Result<Response, ApiError> {
    if known.has(&mark.hash) { same(mark) } else { tagged(mark, answer) }
}

fn mark(index: &ChainIndex<RocksKv>, block: &BlockHash) -> Mark {
    let settings = index.settings();
    let rule = settings.mmr.map(|rule| format!("-{rule}")).unwrap_or_default();
    let hash = settings.network().hash_text(block.as_bytes());
    Mark { hash: format!("{hash}{rule}"), is_exact: true }
}

/// How a proof is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// As JSON.
    #[default]
    Json,
    /// As CBOR; only with the rule `tombstone`.
    Cbor,
}

/// Which proof to answer.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ProofParams {
    /// Answer as of this block: a height, a block hash, or on Cardano `slot:NUMBER` for the newest
    /// block of that slot or an earlier one. It must lie between `undo_base` and the tip; without
    /// it, as of the tip.
    #[param(nullable = false, value_type = Option<String>, example = "300")]
    at: Option<At>,
    /// How the proof is written: `json`, which it is without it, or `cbor`.
    #[param(
        nullable = false,
        value_type = Option<String>,
        pattern = "^(json|cbor)$",
        example = "json"
    )]
    format: Option<Format>,
}

/// A proof: the document is complete in itself, and is what `chain mmr check` takes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MmrProofAnswer)]
#[serde(untagged)]
#[allow(dead_code, reason = "it only describes what is answered")]
pub(super) enum ProofAnswer {
    /// With the rule `tombstone`.
    Tombstone(MmrProof),
    /// With the rule `utreexo`.
    Utreexo(UtreexoDocument),
}

/// The way from one leaf to the root after one block.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "it only describes what is answered")]
pub(super) struct MmrProof {
    /// Version of the document.
    #[schema(example = 1)]
    version: u32,
    /// `tombstone`.
    #[schema(example = "tombstone")]
    rule: String,
    /// Chain and network.
    #[schema(example = "bitcoin/regtest")]
    network: String,
    /// Height of the block.
    #[schema(example = 300)]
    height: u32,
    /// Hash of the block.
    block_hash: String,
    /// Leaves after the block, spent ones included.
    leaves: u64,
    /// The root after the block.
    root: String,
    /// Number of the leaf.
    leaf: u64,
    /// `unspent` or `spent`.
    #[schema(example = "unspent")]
    state: String,
    /// Unspent: transaction of the output.
    #[schema(nullable = false)]
    tx_hash: Option<String>,
    /// Unspent: index of the output in its transaction.
    #[schema(nullable = false)]
    output_index: Option<u32>,
    /// Unspent: what the leaf commits to besides, in hexadecimal.
    #[schema(nullable = false)]
    content: Option<String>,
    /// Hashes beside the way to the root.
    path: Vec<String>,
}

/// Root of the whole UTXO set
///
/// One hash that commits to every unspent output after a block. Equal roots of two databases mean
/// equal sets.
#[utoipa::path(
    get,
    path = "/api/v1/mmr/root",
    tag = "mmr",
    params(AtParams),
    responses(
        (status = 200, description = "The root", body = MmrRootAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of, and the rule"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong; `outside_window`: the block is not in \
                                      the window", body = ErrorBody),
        (status = 404, description = "`unknown_block`: not on the followed chain", body = ErrorBody),
        (status = 501, description = "`mmr_disabled`: the database keeps no Merkle mountain range",
            body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn root(
    State(state): State<RestState>,
    Params(params): Params<AtParams>,
    known: KnownTags,
) -> Result<Response, ApiError> {
    state
        .run(Effect::Reads, move |chain| {
            let index = chain.index();
            let view = index.view()?;
            let at = mmr::height_named(&view, params.at.as_ref().map(|At(name)| name))
                .map_err(ChainReadError::from)?;
            // Refuses what the window does not have before a tag is compared.
            let mark = mark(index, &view.mmr_root(at)?.hash);
            answer(&known, &mark, &mmr::root(&view, index.settings(), at)?)
        })
        .await
}

/// Proof that an output is unspent, or that its leaf is spent
///
/// The answer is a document of its own that anybody can check offline against the root. With the
/// rule `utreexo` (experimental) it has the shapes of utreexod, for unspent outputs only.
#[utoipa::path(
    get,
    path = "/api/v1/mmr/proof/{tx_hash}/{index}",
    tag = "mmr",
    params(
        ("tx_hash" = String, Path, description = "Transaction id"),
        ("index" = u32, Path, description = "Output index"),
        ProofParams,
    ),
    responses(
        (status = 200, description = "The proof", content(
            (ProofAnswer = "application/json"),
            (String = "application/cbor"),
        ),
            headers(("ETag" = String, description = "Hash of the block the answer is true of, and the rule"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong; `outside_window`: the block is not in \
                                      the window; `too_much_work`: going back to it takes more than \
                                      `[rest] mmr_proof_changes_max` changes", body = ErrorBody),
        (status = 404, description = "`never_existed`: no block created the output; \
                                      `unknown_output`: that, or it was spent before the window; \
                                      `not_created_yet`: a later block created it; `no_leaf`: the \
                                      block that created it spent it; `unknown_block`: the block is \
                                      not on the followed chain", body = ErrorBody),
        (status = 409, description = "`spent`: the output is spent, and a forest of Utreexo has no \
                                      proof of that", body = ErrorBody),
        (status = 501, description = "`mmr_disabled`: the database keeps no Merkle mountain range",
            body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn proof(
    State(state): State<RestState>,
    Segments((tx_hash, output_index)): Segments<(String, String)>,
    Params(params): Params<ProofParams>,
    known: KnownTags,
) -> Result<Response, ApiError> {
    let network = state.index().settings().network();
    let bad = || ChainReadError::BadOutput { text: format!("{tx_hash}:{output_index}") };
    let txid = network.parse_hash(&tx_hash).map_err(|_| bad())?;
    let position = output_index.parse().map_err(|_| bad())?;
    let outpoint = OutPoint::new(Txid::from_bytes(txid), position);
    let changes_max = state.mmr_proof_changes_max();
    state
        .run(Effect::Reads, move |chain| {
            let index = chain.index();
            let view = index.view()?;
            let settings = index.settings();
            let at = mmr::height_named(&view, params.at.as_ref().map(|At(name)| name))
                .map_err(ChainReadError::from)?;
            let mark = mark(index, &view.mmr_root(at)?.hash);
            let proof = mmr::prove(&view, settings, outpoint, at, Some(changes_max))?;
            if params.format.unwrap_or_default() == Format::Json {
                return answer(&known, &mark, &proof);
            }
            let Proof::Tombstone(proof) = proof else {
                let text =
                    "proofs of the rule utreexo have no CBOR; leave format out, and see `hex`";
                return Err(ApiError::BadParameter(text.to_owned()));
            };
            let headers = [
                (header::CONTENT_TYPE, "application/cbor".to_owned()),
                (header::ETAG, format!("\"{}\"", mark.hash)),
                (header::CACHE_CONTROL, "no-cache".to_owned()),
            ];
            Ok((headers, proof.to_cbor()).into_response())
        })
        .await
}

#[cfg(test)]
mod tests {
    use utxokeep_core::mmr::{MmrProof as Proof, ProvenState};

    /// The description of a proof is written by hand, beside the code that writes proofs.
    #[test]
    fn a_proof_has_the_fields_that_the_description_says() {
        let state = ProvenState::Unspent { txid: [1; 32], index: 0, content: vec![2] };
        let proof = Proof {
            network: "bitcoin/regtest".to_owned(),
            height: 1,
            block_hash: [3; 32],
            leaves: 1,
            root: [4; 32],
            leaf: 0,
            state,
            path: vec![],
        };
        let json = serde_json::to_value(&proof).unwrap();
        let description = serde_json::to_value(crate::rest::openapi()).unwrap();
        let schema = &description["components"]["schemas"]["MmrProof"];
        let names = |of: &serde_json::Value| {
            let mut names: Vec<_> = of.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names(&json), names(&schema["properties"]));
        let required = schema["required"].as_array().unwrap();
        let optional = ["tx_hash", "output_index", "content"];
        assert_eq!(required.len() + optional.len(), names(&json).len());
        assert!(optional.iter().all(|name| !required.contains(&serde_json::json!(name))));
    }
}
