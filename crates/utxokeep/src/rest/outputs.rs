//! Questions about outputs: one by its outpoint, many by whom they belong to.

use axum::{extract::State, response::Response};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep_chains::script_hash_candidates;
use utxokeep_core::{AssetFilter, IndexKey, Network, OutPoint, OwnerKeys, Txid};
use utxokeep_index::{ChainIndex, Paging, View};
use utxokeep_kv::{Kv, Read, RocksKv};

use super::{
    answer::{Known, Tag, answer},
    error::{ApiError, ErrorBody},
    params::{At, AtParams, PageParams, Params, Segments},
    state::RestState,
};
use crate::{
    cursor::{Cursor, Question},
    json::{Balance, Partial, Point, Utxo},
    owners::{self, UnknownOutput},
};

/// An output, and the block the answer is true of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UtxoAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    partial: Option<Partial>,
    #[serde(flatten)]
    utxo: Utxo,
}

/// Some outputs of an owner.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UtxosAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    partial: Option<Partial>,
    /// Outputs in chain order.
    utxos: Vec<Utxo>,
    /// Send it as `cursor` to go on behind the last row, as of the same block; `null` when there are
    /// no more.
    #[schema(
        example = "AyIiIiIiIiIiEREREREREREREREREREREREREREREREREREREREREREAAAAAAAABLAAAAAAAAAAA"
    )]
    next_cursor: Option<String>,
}

/// What an owner holds, and the block the answer is true of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BalanceAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    partial: Option<Partial>,
    #[serde(flatten)]
    balance: Balance,
}

/// What a list or a balance is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// Exactly these outputs.
    Key(OwnerKeys),
    /// A script hash that may have been written in either byte order.
    Either([IndexKey; 2]),
}

impl Owner {
    pub(super) fn of_script_hash(text: &str, network: Network) -> Result<Self, ApiError> {
        if network.is_cardano() {
            let what = "hashes of output scripts";
            let instead = "ask under /api/v1/addresses or /api/v1/credentials";
            return Err(ApiError::NotOnThisChain { network, what, instead });
        }
        script_hash_candidates(text).map(Self::Either).ok_or(ApiError::BadScriptHash)
    }

    /// Whether the index can answer; also for a client that has the answer of this block.
    fn check<S: Read>(self, view: &View<'_, S>) -> Result<(), ApiError> {
        let keys = match self {
            Self::Key(keys) => keys,
            Self::Either([first, _]) => first.into(),
        };
        Ok(view.check_owner(keys).map(drop)?)
    }

    /// The key to ask about: of two, the first that has outputs.
    fn key<S: Read>(self, view: &View<'_, S>) -> Result<OwnerKeys, ApiError> {
        let first_row =
            Paging { after: None, skip: 0, limit: 1, reverse: false, scan_rows_max: u64::MAX };
        match self {
            Self::Key(key) => Ok(key),
            Self::Either([first, second]) => {
                for key in [first, second] {
                    if !view.owner_utxos(key, first_row, None)?.utxos.is_empty() {
                        return Ok(key.into());
                    }
                }
                Ok(first.into())
            }
        }
    }
}

/// A snapshot at the block asked about.
fn view_at<'i>(
    index: &'i ChainIndex<RocksKv>,
    at: Option<&At>,
    cursor: Option<&Cursor>,
) -> Result<View<'i, <RocksKv as Kv>::Snapshot<'i>>, ApiError> {
    let view = index.view()?;
    Ok(view.standing(at.map(|At(name)| name), cursor.map(|cursor| cursor.block))?)
}

/// One output
///
/// Live, or spent recently enough that the record of it is kept; then `spent_*` say who spent it.
#[utoipa::path(
    get,
    path = "/api/v1/utxos/{tx_hash}/{index}",
    tag = "outputs",
    params(
        ("tx_hash" = String, Path, description = "Transaction id"),
        ("index" = u32, Path, description = "Output index"),
        AtParams,
    ),
    responses(
        (status = 200, description = "The output", body = UtxoAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 404, description = "`unknown_output`: there was no such output by then, or it was \
                                      spent long ago; `not_kept`: the database keeps only a part of \
                                      the outputs, and cannot tell", body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn utxo(
    State(state): State<RestState>,
    Segments((tx_hash, output_index)): Segments<(String, String)>,
    Params(params): Params<AtParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let network = state.network();
    let txid = network.parse_hash(&tx_hash).map_err(|_| ApiError::BadTxHash)?;
    let output_index = output_index.parse().map_err(|_| ApiError::BadOutputIndex)?;
    let outpoint = OutPoint::new(Txid::from_bytes(txid), output_index);
    state
        .read(move |index| {
            let view = view_at(index, params.at.as_ref(), None)?;
            let point = Point::new(&view.point()?, network);
            let partial = Partial::new(view.partial());
            let (height, _) = view.here()?;
            let unknown = || UnknownOutput { tx_hash, index: output_index, height };
            let utxo = view.utxo(outpoint)?.ok_or_else(unknown)?;
            let hash = point.hash.clone();
            answer(&known, Tag::Strong, &hash, || {
                Ok(UtxoAnswer { point, partial, utxo: Utxo::new(&utxo, network) })
            })
        })
        .await
}

/// Lists outputs of an owner.
pub(super) async fn list(
    state: &RestState,
    owner: Owner,
    params: &PageParams,
    known: Known,
) -> Result<Response, ApiError> {
    let (at, network) = (params.at.clone(), state.network());
    let assets: Option<AssetFilter> =
        params.asset.as_deref().map(|text| owners::find_asset(text, network)).transpose()?;
    let paging = params.paging(state.limits())?;
    let cursor = params.cursor()?;
    state
        .read(move |index: &ChainIndex<RocksKv>| {
            let view = view_at(index, at.as_ref(), cursor.as_ref())?;
            owner.check(&view)?;
            let owner = owner.key(&view)?;
            let question = Question::new(&owner.key, paging.reverse, assets.as_ref());
            cursor.map_or(Ok(()), |cursor| cursor.check(question))?;
            let block = view.point()?.hash;
            let point = Point::new(&view.point()?, network);
            let hash = point.hash.clone();
            answer(&known, Tag::Strong, &hash, || {
                let page = view.owner_utxos(owner, paging, assets.as_ref())?;
                Ok(UtxosAnswer {
                    point,
                    partial: Partial::new(view.partial()),
                    utxos: page.utxos.iter().map(|utxo| Utxo::new(utxo, network)).collect(),
                    next_cursor: page.next.map(|after| Cursor { question, block, after }.encode()),
                })
            })
        })
        .await
}

/// Adds up the outputs of an owner.
pub(super) async fn balance(
    state: &RestState,
    owner: Owner,
    at: Option<At>,
    known: Known,
) -> Result<Response, ApiError> {
    let (rows_max, network) = (state.limits().balance_rows_max, state.network());
    state
        .read(move |index: &ChainIndex<RocksKv>| {
            let view = view_at(index, at.as_ref(), None)?;
            owner.check(&view)?;
            let point = Point::new(&view.point()?, network);
            let hash = point.hash.clone();
            answer(&known, Tag::Strong, &hash, || {
                let balance = view.owner_balance(owner.key(&view)?, rows_max)?;
                let partial = Partial::new(view.partial());
                Ok(BalanceAnswer { point, partial, balance: Balance::new(&balance, network) })
            })
        })
        .await
}
