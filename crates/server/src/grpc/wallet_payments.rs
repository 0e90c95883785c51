//! The operations that spend: selections, leases, transactions to be signed, higher fees.

#![allow(
    clippy::needless_pass_by_value,
    reason = "every operation has the same shape, so that the service can call any of them"
)]

use super::{
    fault::{Within, required},
    operations::fitting,
    proto, wallet_from_proto as from,
    wallet_operations::{Answer, Limits, texts},
    wallet_to_proto as to,
};
use crate::wallets::{AcquireLeases, InWallet, ReleaseLeases, SelectCoins, Wallets};

pub(super) fn acquire_leases(
    wallets: &Wallets,
    request: proto::AcquireLeasesRequest,
    _: &Limits,
) -> Answer<proto::AcquireLeasesResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let acquire = AcquireLeases {
        wallet: request.wallet,
        outpoints: texts.outpoints("outpoints", request.outpoints)?,
        lease: from::lease_for(request.terms).within("terms")?,
        idempotency_key: request.idempotency_key,
    };
    let leased = wallets.acquire_leases(&acquire)?;
    Ok(proto::AcquireLeasesResponse { leased: Some(to::leased(&leased)) })
}

pub(super) fn renew_leases(
    wallets: &Wallets,
    request: proto::RenewLeasesRequest,
    _: &Limits,
) -> Answer<proto::RenewLeasesResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let renew = AcquireLeases {
        wallet: request.wallet,
        outpoints: texts.outpoints("outpoints", request.outpoints)?,
        lease: from::lease_for(request.terms).within("terms")?,
        idempotency_key: request.idempotency_key,
    };
    let leased = wallets.renew_leases(&renew)?;
    Ok(proto::RenewLeasesResponse { leased: Some(to::leased(&leased)) })
}

pub(super) fn clean_leases(
    wallets: &Wallets,
    request: proto::CleanLeasesRequest,
    _: &Limits,
) -> Answer<proto::CleanLeasesResponse> {
    Ok(to::cleaned(wallets.clean_leases(&InWallet { wallet: request.wallet })?))
}

pub(super) fn release_leases(
    wallets: &Wallets,
    request: proto::ReleaseLeasesRequest,
    _: &Limits,
) -> Answer<proto::ReleaseLeasesResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let outpoint = request.outpoint.map(|outpoint| texts.outpoint(&outpoint));
    let is_named = request.owner_name.is_some();
    let bytes = Some(request.owner.as_slice()).filter(|bytes| !(bytes.is_empty() && is_named));
    let owner = from::owner("owner", bytes, request.owner_name)?;
    let release = ReleaseLeases {
        wallet: request.wallet,
        owner: required("owner", owner)?,
        outpoint: outpoint.transpose().within("outpoint")?,
    };
    let released = wallets.release_leases(&release)?;
    Ok(proto::ReleaseLeasesResponse { leases: released.leases })
}

pub(super) fn list_leases(
    wallets: &Wallets,
    request: proto::ListLeasesRequest,
    limits: &Limits,
) -> Answer<proto::ListLeasesResponse> {
    let list = from::page(request.wallet, request.cursor, request.page_entries, limits)?;
    let found = wallets.list_leases(&list)?;
    let answer = proto::ListLeasesResponse {
        leases: found.items.iter().map(to::lease).collect(),
        set_aside: found.set_aside.as_ref().map(to::set_aside),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn select_coins(
    wallets: &Wallets,
    request: proto::SelectCoinsRequest,
    _: &Limits,
) -> Answer<proto::SelectCoinsResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let select = SelectCoins {
        wallet: request.wallet,
        payment: texts.coins(required("coins", request.coins)?).within("coins")?,
        with_lease: false,
        idempotency_key: request.idempotency_key,
    };
    let selection = wallets.select_coins(&select)?;
    Ok(proto::SelectCoinsResponse { selection: Some(to::selection(&selection)) })
}

pub(super) fn create_psbt(
    wallets: &Wallets,
    request: proto::CreatePsbtRequest,
    _: &Limits,
) -> Answer<proto::CreatePsbtResponse> {
    let texts = texts(wallets, &request.wallet)?;
    Ok(to::psbt(wallets.create_psbt(&texts.create_psbt(request)?)?))
}

pub(super) fn bump_fee(
    wallets: &Wallets,
    request: proto::BumpFeeRequest,
    _: &Limits,
) -> Answer<proto::BumpFeeResponse> {
    let texts = texts(wallets, &request.wallet)?;
    Ok(to::bump(wallets.bump_fee(&from::bump_fee(texts, request)?)?))
}
