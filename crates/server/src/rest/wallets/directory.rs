//! Wallets, and what they watch.

use axum::{Json, http::StatusCode};

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, ReadFaults, WriteFaults},
    idempotency::KeyHeader,
    places::{InWallet, WithKey},
};
use crate::{
    rest::{
        error::ApiError,
        params::{Params, Segments},
    },
    wallets::{
        AddAddresses, AddDescriptor, AddressInfo, CreateWallet, DescriptorAdded, DescriptorInfo,
        ListDescriptors, ListWallets, Listed, NewAddressInfo, Page, RescanInfo, RescanWallet,
        WalletInfo, WalletStatus, Watched,
    },
};

/// All wallets
///
/// In the order they were made; archived ones only when they are asked for.
#[utoipa::path(
    get,
    path = "/api/v1/wallets",
    tag = "wallets",
    params(ListWallets),
    responses((status = 200, description = "A page of wallets", body = Listed<WalletInfo>), ReadFaults)
)]
pub(super) async fn list_wallets(
    admitted: Admitted,
    Params(list): Params<ListWallets>,
) -> Answer<Listed<WalletInfo>> {
    admitted.read(move |wallets| wallets.list_wallets(&list)).await
}

/// Make a wallet
#[utoipa::path(
    post,
    path = "/api/v1/wallets",
    tag = "wallets",
    request_body = CreateWallet,
    responses((status = 201, description = "The new wallet", body = WalletInfo), BodyFaults)
)]
pub(super) async fn create_wallet(
    admitted: Admitted,
    Posted(request): Posted<CreateWallet>,
) -> Result<(StatusCode, Json<WalletInfo>), ApiError> {
    let made = admitted.write(move |wallets| wallets.create_wallet(&request)).await?;
    Ok((StatusCode::CREATED, made))
}

/// One wallet
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}",
    tag = "wallets",
    params(InWallet),
    responses(
        (status = 200, description = "The wallet, and how far the ledger has come on its network",
            body = WalletStatus),
        ReadFaults,
    )
)]
pub(super) async fn show_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
) -> Answer<WalletStatus> {
    admitted.read(move |wallets| wallets.show_wallet(&name)).await
}

/// Look at blocks again
///
/// Stored, and done by whoever follows the chain for this ledger, in steps between new blocks; ask
/// for the wallet to see how far it has come. A wallet that is set aside is rewound to before the
/// first block, takes blocks again up to the tip, and pays again then. For a wallet that watches more
/// than before, give the height of the first payment.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/rescan",
    tag = "wallets",
    params(InWallet),
    request_body = RescanWallet,
    responses((status = 200, description = "What is going to be done", body = RescanInfo), BodyFaults)
)]
pub(super) async fn rescan_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<RescanWallet>,
) -> Answer<RescanInfo> {
    admitted.write(move |wallets| wallets.rescan_wallet(&name, request)).await
}

/// Watched addresses
///
/// In the order they were added, those of descriptors included.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/addresses",
    tag = "wallets",
    params(InWallet, Page),
    responses(
        (status = 200, description = "A page of addresses", body = Listed<AddressInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_addresses(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(page): Params<Page>,
) -> Answer<Listed<AddressInfo>> {
    admitted.read(move |wallets| wallets.list_addresses(&name, &page)).await
}

/// Watch addresses
///
/// All or none. What is watched already takes the weight that is given. Blocks that were applied
/// before are not looked at again: `scan_from_height` says from where to scan.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/addresses",
    tag = "wallets",
    params(InWallet),
    request_body = AddAddresses,
    responses((status = 200, description = "They are watched now", body = Watched), BodyFaults)
)]
pub(super) async fn add_addresses(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<AddAddresses>,
) -> Answer<Watched> {
    admitted.write(move |wallets| wallets.add_addresses(&name, &request)).await
}

/// Keychains
///
/// All of them at once; archived ones only when they are asked for.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/descriptors",
    tag = "wallets",
    params(InWallet, ListDescriptors),
    responses(
        (status = 200, description = "The keychains", body = Listed<DescriptorInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_descriptors(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(list): Params<ListDescriptors>,
) -> Answer<Listed<DescriptorInfo>> {
    admitted.read(move |wallets| wallets.list_descriptors(&name, list).map(Listed::whole)).await
}

/// Watch a descriptor
///
/// One that is watched already takes a larger `lookahead` or `next_index`; a smaller one, or another
/// keychain, is refused. Blocks that were applied before are not looked at again: `scan_from_height`
/// says from where to scan.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/descriptors",
    tag = "wallets",
    params(InWallet),
    request_body = AddDescriptor,
    responses(
        (status = 200, description = "Its keychains, one for each path",
            body = DescriptorAdded),
        BodyFaults,
    )
)]
pub(super) async fn add_descriptor(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<AddDescriptor>,
) -> Answer<DescriptorAdded> {
    admitted.write(move |wallets| wallets.add_descriptor(&name, &request)).await
}

/// Hand out the next address of a keychain
///
/// No address is handed out twice.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/descriptors/{id}/next-address",
    tag = "wallets",
    params(
        InWallet,
        ("id" = i64, Path, description = "Number of the keychain"),
        WithKey,
    ),
    responses((status = 200, description = "The address", body = NewAddressInfo), WriteFaults)
)]
pub(super) async fn next_address(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
    KeyHeader(key): KeyHeader,
) -> Answer<NewAddressInfo> {
    admitted.write(move |wallets| wallets.next_address(&name, id, key.as_deref())).await
}
