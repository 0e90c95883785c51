//! Routes about outputs: one by its outpoint, many by address or script.

use axum::{extract::State, response::Response};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep_chains::{parse_address_or_script, parse_txid, script_hash_candidates, script_key};
use utxokeep_core::{AddressKey, Height, Network, OutPoint};
use utxokeep_index::{ChainIndex, Paging, View};
use utxokeep_kv::{Kv, Read, RocksKv};

use super::{
    answer::{Known, Tag, answer},
    error::{ApiError, ErrorBody},
    params::{AtParams, PageParams, Params, Segments},
    state::RestState,
};
use crate::{
    cursor,
    json::{Balance, Point, Utxo},
};

/// An output, and the block the answer is true of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UtxoAnswer {
    point: Point,
    #[serde(flatten)]
    utxo: Utxo,
}

/// Some outputs of an address or script.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UtxosAnswer {
    point: Point,
    /// Outputs in chain order.
    utxos: Vec<Utxo>,
    /// Send it as `cursor` to go on behind the last row; `null` when there are no more.
    #[schema(example = "AQAAAAAAAAB4AAAAAAAAAAA")]
    next_cursor: Option<String>,
}

/// What an address or script holds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BalanceAnswer {
    point: Point,
    #[serde(flatten)]
    balance: Balance,
}

/// What a list or a balance is about.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// Exactly these outputs.
    Key(AddressKey),
    /// A script hash that may have been written in either byte order.
    Either([AddressKey; 2]),
}

impl Owner {
    fn of_address(text: &str, network: Network) -> Result<Self, ApiError> {
        Ok(Self::Key(script_key(&parse_address_or_script(text, network)?)))
    }

    fn of_script_hash(text: &str) -> Result<Self, ApiError> {
        script_hash_candidates(text).map(Self::Either).ok_or(ApiError::BadScriptHash)
    }

    /// The key to ask about: of two, the first that has outputs.
    fn key<S: Read>(self, view: &View<'_, S>) -> Result<AddressKey, ApiError> {
        let first_row = Paging { after: None, skip: 0, limit: 1, reverse: false };
        match self {
            Self::Key(key) => Ok(key),
            Self::Either([first, second]) => {
                for key in [first, second] {
                    if !view.address_utxos(&key, first_row)?.utxos.is_empty() {
                        return Ok(key);
                    }
                }
                Ok(first)
            }
        }
    }
}

/// A snapshot at the height asked about.
fn view_at(
    index: &ChainIndex<RocksKv>,
    at: Option<u32>,
) -> Result<View<'_, <RocksKv as Kv>::Snapshot<'_>>, ApiError> {
    let view = index.view()?;
    match at {
        Some(height) => Ok(view.at(Height::new(height))?),
        None => Ok(view),
    }
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
        (status = 404, description = "The output is not known", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn utxo(
    State(state): State<RestState>,
    Segments((tx_hash, output_index)): Segments<(String, String)>,
    Params(params): Params<AtParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let txid = parse_txid(&tx_hash).map_err(|_| ApiError::BadTxHash)?;
    let output_index = output_index.parse().map_err(|_| ApiError::BadOutputIndex)?;
    let outpoint = OutPoint::new(txid, output_index);
    let network = state.network();
    state
        .read(move |index| {
            let view = view_at(index, params.at)?;
            let point = view.point()?;
            let utxo = view.utxo(outpoint)?.ok_or(ApiError::UnknownOutput(outpoint))?;
            answer(&known, Tag::Strong, &point.hash, || {
                Ok(UtxoAnswer { point: point.into(), utxo: Utxo::new(&utxo, network) })
            })
        })
        .await
}

/// Outputs of an address
///
/// Unspent outputs in chain order. The address must be one of the network that is followed; an
/// output script in hexadecimal may stand in its place.
#[utoipa::path(
    get,
    path = "/api/v1/addresses/{address}/utxos",
    tag = "outputs",
    params(
        ("address" = String, Path, description = "Address, or output script in hexadecimal"),
        PageParams,
    ),
    responses(
        (status = 200, description = "Some of the outputs", body = UtxosAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn address_utxos(
    State(state): State<RestState>,
    Segments(address): Segments<String>,
    Params(params): Params<PageParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = Owner::of_address(&address, state.network())?;
    list(&state, owner, &params, known).await
}

/// Balance of an address
#[utoipa::path(
    get,
    path = "/api/v1/addresses/{address}/balance",
    tag = "outputs",
    params(
        ("address" = String, Path, description = "Address, or output script in hexadecimal"),
        AtParams,
    ),
    responses(
        (status = 200, description = "What the address holds", body = BalanceAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn address_balance(
    State(state): State<RestState>,
    Segments(address): Segments<String>,
    Params(params): Params<AtParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = Owner::of_address(&address, state.network())?;
    balance(&state, owner, params, known).await
}

/// Outputs of a script hash
///
/// Unspent outputs in chain order. The hash is the SHA-256 of the output script, in Electrum's
/// reversed order or as it is; of the two readings, the one with outputs is taken.
#[utoipa::path(
    get,
    path = "/api/v1/scripts/{script_hash}/utxos",
    tag = "outputs",
    params(
        ("script_hash" = String, Path, description = "SHA-256 of the output script"),
        PageParams,
    ),
    responses(
        (status = 200, description = "Some of the outputs", body = UtxosAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn script_utxos(
    State(state): State<RestState>,
    Segments(script_hash): Segments<String>,
    Params(params): Params<PageParams>,
    known: Known,
) -> Result<Response, ApiError> {
    list(&state, Owner::of_script_hash(&script_hash)?, &params, known).await
}

/// Balance of a script hash
#[utoipa::path(
    get,
    path = "/api/v1/scripts/{script_hash}/balance",
    tag = "outputs",
    params(
        ("script_hash" = String, Path, description = "SHA-256 of the output script"),
        AtParams,
    ),
    responses(
        (status = 200, description = "What the script holds", body = BalanceAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn script_balance(
    State(state): State<RestState>,
    Segments(script_hash): Segments<String>,
    Params(params): Params<AtParams>,
    known: Known,
) -> Result<Response, ApiError> {
    balance(&state, Owner::of_script_hash(&script_hash)?, params, known).await
}

async fn list(
    state: &RestState,
    owner: Owner,
    params: &PageParams,
    known: Known,
) -> Result<Response, ApiError> {
    let paging = params.paging(state.limits())?;
    let (at, network) = (params.at, state.network());
    state
        .read(move |index: &ChainIndex<RocksKv>| {
            let view = view_at(index, at)?;
            let point = view.point()?;
            answer(&known, Tag::Strong, &point.hash, || {
                let page = view.address_utxos(&owner.key(&view)?, paging)?;
                Ok(UtxosAnswer {
                    point: point.into(),
                    utxos: page.utxos.iter().map(|utxo| Utxo::new(utxo, network)).collect(),
                    next_cursor: page.next.map(cursor::encode),
                })
            })
        })
        .await
}

async fn balance(
    state: &RestState,
    owner: Owner,
    params: AtParams,
    known: Known,
) -> Result<Response, ApiError> {
    let rows_max = state.limits().balance_rows_max;
    state
        .read(move |index: &ChainIndex<RocksKv>| {
            let view = view_at(index, params.at)?;
            let point = view.point()?;
            answer(&known, Tag::Strong, &point.hash, || {
                let balance = view.address_balance(&owner.key(&view)?, rows_max)?;
                Ok(BalanceAnswer { point: point.into(), balance: balance.into() })
            })
        })
        .await
}
