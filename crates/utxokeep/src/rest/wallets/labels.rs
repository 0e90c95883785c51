//! Labels: of one transaction, and all of a wallet as lines of BIP-329.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    Answer,
    admission::Admitted,
    body::{Posted, PostedText},
    faults::{BodyFaults, ReadFaults, TextFaults},
};
use crate::{
    rest::{error::ApiError, params::Segments},
    wallets::{LabelsImported, SetLabel},
};

/// What an export of labels is.
const JSON_LINES: &str = "application/jsonl; charset=utf-8";

/// Label a transaction
///
/// Empty text clears the label.
#[utoipa::path(
    put,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/label",
    tag = "wallets",
    params(
        ("wallet" = String, Path, description = "Name of the wallet"),
        ("txid" = String, Path, description = "Transaction id"),
    ),
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
    params(("wallet" = String, Path, description = "Name of the wallet")),
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
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], lines).into_response())
}

/// Set labels from lines of BIP-329
///
/// All or none. The type of the content does not matter.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/labels",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet")),
    request_body(content = String, description = "One JSON object in each line",
        content_type = "application/jsonl"),
    responses((status = 200, description = "How many", body = LabelsImported), TextFaults)
)]
pub(super) async fn import_labels(
    admitted: Admitted,
    Segments(name): Segments<String>,
    PostedText(lines): PostedText,
) -> Answer<LabelsImported> {
    admitted.write(move |wallets| wallets.import_labels(&name, &lines)).await
}
