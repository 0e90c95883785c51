//! Routes about owners: outputs and balances of addresses, credentials and scripts.

use axum::{extract::State, response::Response};
use utxokeep_core::Network;

use super::{
    answer::Known,
    error::{ApiError, ErrorBody},
    outputs::{BalanceAnswer, Owner, UtxosAnswer, balance, list},
    params::{AtParams, BalanceParams, PageParams, Params, Segments},
    state::RestState,
};
use crate::owners::{self, Kind};

/// Outputs of an address
///
/// Unspent outputs in chain order. The address must be one of the network that is followed. Bitcoin:
/// an output script in hexadecimal may stand in its place. Cardano: bech32, base58 or hexadecimal;
/// a stake address or a credential may stand in its place.
#[utoipa::path(
    get,
    path = "/api/v1/addresses/{address}/utxos",
    tag = "outputs",
    params(
        ("address" = String, Path, description = "Address, or what else names an owner"),
        PageParams,
    ),
    responses(
        (status = 200, description = "Some of the outputs", body = UtxosAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 409, description = "`block_gone`: the block that the cursor was made at is not \
                                      on the followed chain: a reorganisation replaced it, or the \
                                      cursor is of another database; start the list again",
            body = ErrorBody),
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn address_utxos(
    State(state): State<RestState>,
    Segments(address): Segments<String>,
    Params(params): Params<PageParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = owners::find_owner(&address, params.kind, state.network())?;
    list(&state, Owner::Key(owner), &params, known).await
}

/// Balance of an address
///
/// Takes what the list of outputs takes. On Cardano every native asset is added up too.
#[utoipa::path(
    get,
    path = "/api/v1/addresses/{address}/balance",
    tag = "outputs",
    params(
        ("address" = String, Path, description = "Address, or what else names an owner"),
        BalanceParams,
    ),
    responses(
        (status = 200, description = "What the address holds", body = BalanceAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn address_balance(
    State(state): State<RestState>,
    Segments(address): Segments<String>,
    Params(params): Params<BalanceParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = owners::find_owner(&address, params.kind, state.network())?;
    balance(&state, Owner::Key(owner), params.at, known).await
}

/// Outputs of a credential
///
/// Cardano: unspent outputs in chain order at every address with this payment credential
/// (`addr_vkh1…`, `script1…`, `key:HEX`, `script:HEX`, or bare hexadecimal with `kind`) or stake
/// credential (`stake_vkh1…`, or a stake address), while that index is kept.
#[utoipa::path(
    get,
    path = "/api/v1/credentials/{credential}/utxos",
    tag = "outputs",
    params(("credential" = String, Path, description = "Credential"), PageParams),
    responses(
        (status = 200, description = "Some of the outputs", body = UtxosAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 409, description = "`block_gone`: the block that the cursor was made at is not \
                                      on the followed chain: a reorganisation replaced it, or the \
                                      cursor is of another database; start the list again",
            body = ErrorBody),
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn credential_utxos(
    State(state): State<RestState>,
    Segments(credential): Segments<String>,
    Params(params): Params<PageParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = credential_owner(&credential, params.kind, state.network())?;
    list(&state, owner, &params, known).await
}

/// Balance of a credential
#[utoipa::path(
    get,
    path = "/api/v1/credentials/{credential}/balance",
    tag = "outputs",
    params(("credential" = String, Path, description = "Credential"), BalanceParams),
    responses(
        (status = 200, description = "What its addresses hold", body = BalanceAnswer,
            headers(("ETag" = String, description = "Hash of the block the answer is true of"))),
        (status = 304, description = "Nothing changed since the answer in `If-None-Match`"),
        (status = 400, description = "A parameter is wrong", body = ErrorBody),
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn credential_balance(
    State(state): State<RestState>,
    Segments(credential): Segments<String>,
    Params(params): Params<BalanceParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = credential_owner(&credential, params.kind, state.network())?;
    balance(&state, owner, params.at, known).await
}

fn credential_owner(text: &str, kind: Option<Kind>, network: Network) -> Result<Owner, ApiError> {
    if !network.is_cardano() {
        let instead = "ask under /api/v1/addresses or /api/v1/scripts";
        return Err(ApiError::NotOnThisChain { network, what: "credentials", instead });
    }
    Ok(Owner::Key(owners::find_credential(text, kind, network)?))
}

/// Outputs of a script hash
///
/// Bitcoin: unspent outputs in chain order. The hash is the SHA-256 of the output script, in
/// Electrum's reversed order or as it is; of the two readings, the one with outputs is taken.
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
        (status = 409, description = "`block_gone`: the block that the cursor was made at is not \
                                      on the followed chain: a reorganisation replaced it, or the \
                                      cursor is of another database; start the list again",
            body = ErrorBody),
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn script_utxos(
    State(state): State<RestState>,
    Segments(script_hash): Segments<String>,
    Params(params): Params<PageParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = Owner::of_script_hash(&script_hash, state.network())?;
    if params.kind.is_some() {
        return Err(ApiError::BadParameter("kind is for credentials; leave it out".to_owned()));
    }
    list(&state, owner, &params, known).await
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
        (status = 404, description = "`unknown_block`: the block in `at` is not on the followed \
                                      chain; `not_kept`: the filter of the database leaves the \
                                      owner out, or the block in `at` is, or may be, from before \
                                      its first; `not_on_this_chain`: the chain has no such thing",
            body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
pub(super) async fn script_balance(
    State(state): State<RestState>,
    Segments(script_hash): Segments<String>,
    Params(params): Params<AtParams>,
    known: Known,
) -> Result<Response, ApiError> {
    let owner = Owner::of_script_hash(&script_hash, state.network())?;
    balance(&state, owner, params.at, known).await
}
