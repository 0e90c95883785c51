//! Spending: leases, selections, transactions to be signed, higher fees.

use super::{
    Answer,
    admission::Admitted,
    faults::{BodyFaults, ReadFaults, WriteFaults},
    idempotency::Keyed,
    places::{InWallet, OfTransaction, WithKey},
};
use crate::{
    rest::params::{Params, Segments},
    wallets::{
        AcquireLeases, BumpFee, BumpInfo, CleanedLeases, CreatePsbt, LeaseInfo, Leased, Listed,
        Page, PsbtInfo, ReleaseLeases, Released, SelectCoins, SelectionInfo,
    },
};

/// Active leases
///
/// Also of outputs that a live transaction spends by now: raising its fee asks for them.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/leases",
    tag = "wallets",
    params(InWallet, Page),
    responses((status = 200, description = "A page of leases", body = Listed<LeaseInfo>), ReadFaults)
)]
pub(super) async fn list_leases(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(page): Params<Page>,
) -> Answer<Listed<LeaseInfo>> {
    admitted.read(move |wallets| wallets.list_leases(&name, &page)).await
}

/// Lease outputs
///
/// All or none. Those that the owner has leased already are renewed.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/leases",
    tag = "wallets",
    params(InWallet, WithKey),
    request_body = AcquireLeases,
    responses((status = 200, description = "They are leased", body = Leased), BodyFaults)
)]
pub(super) async fn acquire_leases(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Keyed(request): Keyed<AcquireLeases>,
) -> Answer<Leased> {
    admitted.write(move |wallets| wallets.acquire_leases(&name, &request)).await
}

/// Renew leases
///
/// All or none, from now on. One that has expired, or that the owner does not hold, is refused.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/leases/renew",
    tag = "wallets",
    params(InWallet, WithKey),
    request_body = AcquireLeases,
    responses((status = 200, description = "They are renewed", body = Leased), BodyFaults)
)]
pub(super) async fn renew_leases(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Keyed(request): Keyed<AcquireLeases>,
) -> Answer<Leased> {
    admitted.write(move |wallets| wallets.renew_leases(&name, &request)).await
}

/// Remove rows of leases that have expired
///
/// They count for nothing; the server does it by itself, see `lease_cleanup_secs`.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/leases/clean",
    tag = "wallets",
    params(InWallet),
    responses((status = 200, description = "How many went", body = CleanedLeases), WriteFaults)
)]
pub(super) async fn clean_leases(
    admitted: Admitted,
    Segments(name): Segments<String>,
) -> Answer<CleanedLeases> {
    admitted.write(move |wallets| wallets.clean_leases(&name)).await
}

/// End one lease of an owner, or all
#[utoipa::path(
    delete,
    path = "/api/v1/wallets/{wallet}/leases",
    tag = "wallets",
    params(InWallet, ReleaseLeases),
    responses((status = 200, description = "How many ended", body = Released), WriteFaults)
)]
pub(super) async fn release_leases(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(request): Params<ReleaseLeases>,
) -> Answer<Released> {
    admitted.write(move |wallets| wallets.release_leases(&name, &request)).await
}

/// Choose coins
///
/// With `lease` they are leased in the same step; without it nothing is changed.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/selections",
    tag = "wallets",
    params(InWallet, WithKey),
    request_body = SelectCoins,
    responses((status = 200, description = "The choice", body = SelectionInfo), BodyFaults)
)]
pub(super) async fn select_coins(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Keyed(request): Keyed<SelectCoins>,
) -> Answer<SelectionInfo> {
    admitted.write(move |wallets| wallets.select_coins(&name, &request)).await
}

/// Make a transaction to be signed
///
/// Coins are chosen and leased. The ledger has no keys: sign and send elsewhere, then publish.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/psbts",
    tag = "wallets",
    params(InWallet, WithKey),
    request_body = CreatePsbt,
    responses((status = 200, description = "The transaction", body = PsbtInfo), BodyFaults)
)]
pub(super) async fn create_psbt(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Keyed(request): Keyed<CreatePsbt>,
) -> Answer<PsbtInfo> {
    admitted.write(move |wallets| wallets.create_psbt(&name, &request)).await
}

/// Raise the fee of a transaction that is in no block
///
/// Makes its replacement, to be signed. The old one stays live until that is published.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/bump",
    tag = "wallets",
    params(OfTransaction, WithKey),
    request_body = BumpFee,
    responses((status = 200, description = "The replacement", body = BumpInfo), BodyFaults)
)]
pub(super) async fn bump_fee(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
    Keyed(request): Keyed<BumpFee>,
) -> Answer<BumpInfo> {
    admitted.write(move |wallets| wallets.bump_fee(&name, &txid, &request)).await
}
