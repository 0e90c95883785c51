//! Taking leave of what is old, in two steps: it moves to an archive, and leaves that when the client
//! has kept it.

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, ReadFaults},
    places::InWallet,
};
use crate::{
    rest::params::{Params, Segments},
    wallets::{
        AcknowledgePruned, Listed, Page, PruneWallet, PrunedAcknowledged, PrunedInfo, PrunedNow,
    },
};

/// Remove old transactions
///
/// They move to an archive inside the ledger in the same transaction. Read them from there, keep
/// them, and acknowledge them. With `discard` they are in the answer and nowhere else from then on.
/// Labels stay.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/prune",
    tag = "wallets",
    params(InWallet),
    request_body = PruneWallet,
    responses((status = 200, description = "What was removed", body = PrunedNow), BodyFaults)
)]
pub(super) async fn prune_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<PruneWallet>,
) -> Answer<PrunedNow> {
    admitted.write(move |wallets| wallets.prune_wallet(&name, &request)).await
}

/// Pruned transactions that were not acknowledged
///
/// In the order they were pruned.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/pruned",
    tag = "wallets",
    params(InWallet, Page),
    responses(
        (status = 200, description = "A page of the archive", body = Listed<PrunedInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_pruned(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(page): Params<Page>,
) -> Answer<Listed<PrunedInfo>> {
    admitted.read(move |wallets| wallets.list_pruned(&name, &page)).await
}

/// Acknowledge pruned transactions
///
/// They are kept elsewhere: all up to a number leave the archive.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/pruned/acknowledge",
    tag = "wallets",
    params(InWallet),
    request_body = AcknowledgePruned,
    responses((status = 200, description = "How many", body = PrunedAcknowledged), BodyFaults)
)]
pub(super) async fn acknowledge_pruned(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<AcknowledgePruned>,
) -> Answer<PrunedAcknowledged> {
    admitted.write(move |wallets| wallets.acknowledge_pruned(&name, request)).await
}
