//! What a wallet has and had.

use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Answer,
    admission::Admitted,
    faults::{CompareFaults, ReadFaults},
    places::{InWallet, OfTransaction},
};
use crate::{
    rest::params::{Params, Segments},
    wallets::{
        BalanceInfo, BalanceOf, CoinInfo, ListCoins, ListTransactions, Listed, OfWallet, Page,
        ReplacementInfo, TxDetails, TxInfo, Verified, VerifiedWallet, VerifyWallet, VerifyWallets,
        Wallets,
    },
};

/// Length of a list that has no pages.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Count {
    /// Rows of the list; `page_rows_max` of the configuration is the most.
    #[param(nullable = false)]
    count: Option<u32>,
}

/// Balance of a wallet
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/balance",
    tag = "wallets",
    params(InWallet, BalanceOf),
    responses((status = 200, description = "The balance", body = BalanceInfo), ReadFaults)
)]
pub(super) async fn wallet_balance(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(of): Params<BalanceOf>,
) -> Answer<BalanceInfo> {
    admitted.read(move |wallets| wallets.balance(&name, &of)).await
}

/// Unspent outputs of a wallet
///
/// By amount. What a live transaction spends is not listed.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/utxos",
    tag = "wallets",
    params(InWallet, ListCoins),
    responses(
        (status = 200, description = "A page of unspent outputs", body = Listed<CoinInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_wallet_utxos(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(list): Params<ListCoins>,
) -> Answer<Listed<CoinInfo>> {
    admitted.read(move |wallets| wallets.list_coins(&name, &list)).await
}

/// One unspent output of a wallet
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/utxos/{outpoint}",
    tag = "wallets",
    params(
        InWallet,
        ("outpoint" = String, Path, description = "The output, as `TXID:INDEX`"),
    ),
    responses((status = 200, description = "The output", body = OfWallet<CoinInfo>), ReadFaults)
)]
pub(super) async fn show_wallet_utxo(
    admitted: Admitted,
    Segments((name, outpoint)): Segments<(String, String)>,
) -> Answer<OfWallet<CoinInfo>> {
    admitted.read(move |wallets| wallets.show_coin(&name, &outpoint)).await
}

/// History of a wallet
///
/// In the order of recording; with `from_height` or `to_height` in the order of the chain.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/transactions",
    tag = "wallets",
    params(InWallet, ListTransactions),
    responses(
        (status = 200, description = "A page of transactions", body = Listed<TxInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_transactions(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(list): Params<ListTransactions>,
) -> Answer<Listed<TxInfo>> {
    admitted.read(move |wallets| wallets.list_transactions(&name, &list)).await
}

/// One transaction, whatever became of it
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}",
    tag = "wallets",
    params(OfTransaction),
    responses((status = 200, description = "The transaction", body = OfWallet<TxDetails>), ReadFaults)
)]
pub(super) async fn show_transaction(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
) -> Answer<OfWallet<TxDetails>> {
    admitted.read(move |wallets| wallets.show_transaction(&name, &txid)).await
}

/// What a transaction replaced, and what replaced it
///
/// Oldest first.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/transactions/{txid}/replacements",
    tag = "wallets",
    params(
        OfTransaction,
        Count,
    ),
    responses(
        (status = 200, description = "The replacements", body = Listed<ReplacementInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_replacements(
    admitted: Admitted,
    Segments((name, txid)): Segments<(String, String)>,
    Params(only): Params<Count>,
) -> Answer<Listed<ReplacementInfo>> {
    let page = Page { cursor: None, count: only.count };
    let list =
        move |wallets: &Wallets| wallets.list_replacements(&name, &txid, &page).map(Listed::whole);
    admitted.read(list).await
}

/// Check that everything stored about a wallet fits together
///
/// With `with_chain` also to the UTXO set of the chain database, at the same block.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/verify",
    tag = "wallets",
    params(InWallet, VerifyWallet),
    responses(
        (status = 200, description = "Whether it does, and the rules that are broken",
            body = Verified),
        CompareFaults,
    )
)]
pub(super) async fn verify_wallet(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(request): Params<VerifyWallet>,
) -> Answer<Verified> {
    admitted.read(move |wallets| wallets.verify_wallet(&name, request)).await
}

/// Check every wallet of the ledger
///
/// Archived ones too, in the order they were made. A wallet that cannot be checked says why, and does
/// not end the others.
#[utoipa::path(
    get,
    path = "/api/v1/ledger/verify",
    tag = "wallets",
    params(VerifyWallets),
    responses(
        (status = 200, description = "A page of wallets, with the rules that each of them breaks",
            body = Listed<VerifiedWallet>),
        CompareFaults,
    )
)]
pub(super) async fn verify_wallets(
    admitted: Admitted,
    Params(request): Params<VerifyWallets>,
) -> Answer<Listed<VerifiedWallet>> {
    admitted.read(move |wallets| wallets.verify_wallets(&request)).await
}
