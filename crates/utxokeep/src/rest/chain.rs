//! Routes about the followed chain: its tip, its blocks, the state of the database.

use axum::{Json, extract::State, response::IntoResponse, response::Response};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep_core::{BlockName, Height};
use utxokeep_index::QueryError;

use super::{
    answer::{Known, Tag, answer},
    error::{ApiError, ErrorBody},
    params::Segments,
    state::RestState,
};
use crate::json::{Block, ChainStatus, Partial, Point};

/// A block, and the tip of the chain it is part of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    partial: Option<Partial>,
    #[serde(flatten)]
    block: Block,
}

/// The newest block
#[utoipa::path(
    get,
    path = "/api/v1/chain/tip",
    tag = "chain",
    responses(
        (status = 200, description = "The newest block", body = BlockAnswer,
            headers(("ETag" = String, description = "Hash of the block"))),
        (status = 304, description = "It is still the one in `If-None-Match`"),
        (status = 503, description = "Not now, or there are no blocks yet", body = ErrorBody),
    )
)]
pub(super) async fn tip(
    State(state): State<RestState>,
    known: Known,
) -> Result<Response, ApiError> {
    let network = state.network();
    state
        .read(move |index| {
            let view = index.view()?;
            let (height, entry) = view.tip().ok_or(QueryError::Empty)?;
            let hash = network.hash_text(entry.hash.as_bytes());
            answer(&known, Tag::Strong, &hash, || {
                let point = Point::new(&entry.point(height), network);
                let partial = Partial::new(view.partial());
                Ok(BlockAnswer { point, partial, block: Block::new(height, &entry, network) })
            })
        })
        .await
}

/// A block of the followed chain
///
/// `point` is the tip of the chain that the block was found on.
#[utoipa::path(
    get,
    path = "/api/v1/chain/blocks/{height_or_hash}",
    tag = "chain",
    params(("height_or_hash" = String, Path, description = "Height or hash of the block")),
    responses(
        (status = 200, description = "The block", body = BlockAnswer,
            headers(("ETag" = String, description = "Hash of the tip"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "Neither a height nor a hash", body = ErrorBody),
        (status = 404, description = "`unknown_block`: not on the followed chain; `not_kept`: the \
                                      database starts in mid-chain, and the block is, or may \
                                      be, from before", body = ErrorBody),
        (status = 503, description = "Not now, or there are no blocks yet", body = ErrorBody),
    )
)]
pub(super) async fn block(
    State(state): State<RestState>,
    Segments(text): Segments<String>,
    known: Known,
) -> Result<Response, ApiError> {
    let network = state.network();
    let wanted = match (network.parse_hash(&text), text.parse::<Height>()) {
        (Ok(_), _) => BlockName::Hash(text),
        (_, Ok(height)) => BlockName::Height(height),
        _ => return Err(ApiError::BadBlock),
    };
    state
        .read(move |index| {
            let view = index.view()?;
            let point = Point::new(&view.point()?, network);
            let (height, entry) = view.block_named(&wanted)?;
            let hash = point.hash.clone();
            answer(&known, Tag::Strong, &hash, || {
                let partial = Partial::new(view.partial());
                Ok(BlockAnswer { point, partial, block: Block::new(height, &entry, network) })
            })
        })
        .await
}

/// State of the database
#[utoipa::path(
    get,
    path = "/api/v1/status",
    tag = "chain",
    responses(
        (status = 200, description = "Network, tip, totals, rollback floor and sizes",
            body = ChainStatus,
            headers(("ETag" = String, description = "Hash of the tip, as a weak tag: sizes may \
                                                     differ at the same tip"))),
        (status = 304, description = "The tip is still the one in `If-None-Match`; only where the \
                                      server follows no source, because what is known of a source \
                                      changes at the same tip"),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn status(
    State(state): State<RestState>,
    known: Known,
) -> Result<Response, ApiError> {
    let source = state.source().map(|(source, _)| source.status());
    // What is known of a source changes while the tip stays: then there is always an answer.
    let known = if source.is_none() { known } else { Known::default() };
    state
        .read(move |index| {
            let status = ChainStatus::new(&index.status()?, index.settings()).with_source(source);
            match status.best_hash.clone() {
                Some(hash) => answer(&known, Tag::Weak, &hash, || Ok(status)),
                None => Ok(Json(status).into_response()),
            }
        })
        .await
}
