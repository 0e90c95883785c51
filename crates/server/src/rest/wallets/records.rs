//! What becomes of transactions: recorded, published, confirmed, given up.

use axum::{Json, http::StatusCode};

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, WriteFaults},
    idempotency::Keyed,
    places::{InWallet, OfTransaction, WithKey},
};
use crate::{
    rest::{error::ApiError, params::Segments},
    wallets::{Abandoned, ConfirmTx, RecordTx, RecordedInfo},
};

/// Record a transaction
///
/// Recording the same again is no error; the answer says what changed.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions",
    tag = "wallets",
    params(InWallet, WithKey),
    request_body = RecordTx,
    responses((status = 200, description = "What it came to", body = RecordedInfo), BodyFaults)
)]
pub(super) async fn record_transaction(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Keyed(request): Keyed<RecordTx>,
) -> Answer<RecordedInfo> {
    admitted.write(move |wallets| wallets.record_tx(&name, &request)).await
}

/// Remove an unconfirmed transaction
///
/// As if it had never been recorded. Only a live one that nothing live spends from.
#[utoipa::path(
    delete,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}",
    tag = "wallets",
    params(OfTransaction),
    responses((status = 204, description = "It is gone"), WriteFaults)
)]
pub(super) async fn remove_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let removed = admitted.write(move |wallets| wallets.remove_tx(&name, &txid)).await;
    removed.map(|Json(())| StatusCode::NO_CONTENT)
}

/// Say that a transaction was sent
///
/// Sending it is up to you. What it replaces is replaced from now on.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/publish",
    tag = "wallets",
    params(OfTransaction),
    responses((status = 200, description = "What it came to", body = RecordedInfo), WriteFaults)
)]
pub(super) async fn publish_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
) -> Answer<RecordedInfo> {
    admitted.write(move |wallets| wallets.publish_tx(&name, &txid)).await
}

/// Say that a transaction is in a block
///
/// The ledger must have reached that block.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/confirm",
    tag = "wallets",
    params(OfTransaction),
    request_body = ConfirmTx,
    responses((status = 200, description = "What it came to", body = RecordedInfo), BodyFaults)
)]
pub(super) async fn confirm_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
    Posted(request): Posted<ConfirmTx>,
) -> Answer<RecordedInfo> {
    admitted.write(move |wallets| wallets.confirm_tx(&name, &txid, &request)).await
}

/// Take back what was said about the block of a transaction
///
/// It is in no block again. Refused when the ledger itself found it in a block that it followed.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/unconfirm",
    tag = "wallets",
    params(OfTransaction),
    responses((status = 200, description = "What it came to", body = RecordedInfo), WriteFaults)
)]
pub(super) async fn unconfirm_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
) -> Answer<RecordedInfo> {
    admitted.write(move |wallets| wallets.unconfirm_tx(&name, &txid)).await
}

/// Give up a transaction that is in no block
///
/// It stays on record as failed, with everything that depends on it; its inputs are free again.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/abandon",
    tag = "wallets",
    params(OfTransaction),
    responses((status = 200, description = "What failed", body = Abandoned), WriteFaults)
)]
pub(super) async fn abandon_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
) -> Answer<Abandoned> {
    admitted.write(move |wallets| wallets.abandon_tx(&name, &txid)).await
}
