//! Wallets and keychains that are not followed any more.

use axum::{Json, http::StatusCode};

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, WriteFaults},
    places::InWallet,
};
use crate::{
    rest::{error::ApiError, params::Segments},
    wallets::{Archive, Restored},
};

/// Archive a wallet
///
/// It is not followed any more, takes no transactions, and is not listed. Its history stays readable.
/// Refused while it has coins, live transactions in no block or leases that are not allowed by name.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/archive",
    tag = "wallets",
    params(InWallet),
    request_body = Archive,
    responses((status = 204, description = "It is archived"), BodyFaults)
)]
pub(super) async fn archive_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<Archive>,
) -> Result<StatusCode, ApiError> {
    let done = admitted.write(move |wallets| wallets.archive_wallet(&name, &request)).await;
    done.map(|Json(())| StatusCode::NO_CONTENT)
}

/// Restore an archived wallet
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/restore",
    tag = "wallets",
    params(InWallet),
    responses(
        (status = 200, description = "It is followed again; from where to scan", body = Restored),
        WriteFaults,
    )
)]
pub(super) async fn restore_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
) -> Answer<Restored> {
    admitted.write(move |wallets| wallets.restore_wallet(&name)).await
}

/// Archive a keychain
///
/// Its scripts are not watched any more, and it hands out no address. Coins that it still has stay in
/// the wallet. Refused while it has coins, live transactions in no block or leases that are not
/// allowed by name.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/descriptors/{id}/archive",
    tag = "wallets",
    params(
        InWallet,
        ("id" = i64, Path, description = "Number of the keychain"),
    ),
    request_body = Archive,
    responses((status = 204, description = "It is archived"), BodyFaults)
)]
pub(super) async fn archive_descriptor(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
    Posted(request): Posted<Archive>,
) -> Result<StatusCode, ApiError> {
    let done = admitted.write(move |wallets| wallets.archive_descriptor(&name, id, &request)).await;
    done.map(|Json(())| StatusCode::NO_CONTENT)
}

/// Restore an archived keychain
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/descriptors/{id}/restore",
    tag = "wallets",
    params(
        InWallet,
        ("id" = i64, Path, description = "Number of the keychain"),
    ),
    responses(
        (status = 200, description = "It is watched again; from where to scan", body = Restored),
        WriteFaults,
    )
)]
pub(super) async fn restore_descriptor(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
) -> Answer<Restored> {
    admitted.write(move |wallets| wallets.restore_descriptor(&name, id)).await
}
