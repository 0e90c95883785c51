//! Labels: of one transaction, and all of a wallet as lines of BIP-329.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    Answer,
    admission::Admitted,
    body::{Posted, PostedLines},
    faults::{BodyFaults, ReadFaults, TextFaults, WriteFaults},
    places::{InWallet, OfTransaction},
};
use crate::{
    rest::{error::ApiError, params::Segments},
    wallets::{CoinWish, LabelsImported, SetLabel},
};

/// What an export of labels is.
const EXPORTED: &str = "application/jsonl; charset=utf-8";

/// Label a transaction
///
/// Empty text clears the label.
#[utoipa::path(
    put,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/label",
    tag = "wallets",
    params(OfTransaction),
    request_body = SetLabel,
    responses((status = 204, description = "It is set"), BodyFaults)
)]
pub(super) async fn set_transaction_label(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
    Posted(request): Posted<SetLabel>,
) -> Result<StatusCode, ApiError> {
    let set = admitted.write(move |wallets| wallets.set_tx_label(&name, &txid, &request)).await;
    set.map(|Json(())| StatusCode::NO_CONTENT)
}

/// All labels, as lines of BIP-329
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/labels",
    tag = "wallets",
    params(InWallet),
    responses(
        (status = 200, description = "One JSON object in each line", body = String,
            content_type = "application/jsonl"),
        ReadFaults,
    )
)]
pub(super) async fn export_labels(
    admitted: Admitted,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let Json(lines) = admitted.read(move |wallets| wallets.export_labels(&name)).await?;
    Ok(([(header::CONTENT_TYPE, EXPORTED)], lines).into_response())
}

/// Set labels from lines of BIP-329
///
/// A record changes only what it says: one without `label` leaves the text as it is, one without
/// `spendable` leaves the output as it is. Lines that cannot be used are skipped and reported.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/labels",
    tag = "wallets",
    params(InWallet),
    request_body(content = String, description = "One JSON object in each line",
        content_type = "application/jsonl"),
    responses((status = 200, description = "What was done", body = LabelsImported), TextFaults)
)]
pub(super) async fn import_labels(
    admitted: Admitted,
    Segments(name): Segments<String>,
    PostedLines(lines): PostedLines,
) -> Answer<LabelsImported> {
    admitted.write(move |wallets| wallets.import_labels(&name, &lines)).await
}

/// Hold an output back
///
/// It is neither selected nor leased until it is released. Its label keeps its text.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/utxos/{outpoint}/freeze",
    tag = "wallets",
    params(
        InWallet,
        ("outpoint" = String, Path, description = "The output, as `TXID:INDEX`"),
    ),
    responses((status = 200, description = "It is held back", body = CoinWish), WriteFaults)
)]
pub(super) async fn freeze_utxo(
    admitted: Admitted,
    Segments((name, outpoint)): Segments<(String, String)>,
) -> Answer<CoinWish> {
    admitted.write(move |wallets| wallets.set_spendable(&name, &outpoint, false)).await
}

/// Release an output that was held back
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/utxos/{outpoint}/unfreeze",
    tag = "wallets",
    params(
        InWallet,
        ("outpoint" = String, Path, description = "The output, as `TXID:INDEX`"),
    ),
    responses((status = 200, description = "It may be spent", body = CoinWish), WriteFaults)
)]
pub(super) async fn unfreeze_utxo(
    admitted: Admitted,
    Segments((name, outpoint)): Segments<(String, String)>,
) -> Answer<CoinWish> {
    admitted.write(move |wallets| wallets.set_spendable(&name, &outpoint, true)).await
}
