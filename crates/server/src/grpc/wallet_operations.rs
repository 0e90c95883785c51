//! Every operation of the contract of wallets: check the request, ask the ledger, make the answer.
//!
//! Streams are in `wallet_streams`; what spends is in `wallet_payments`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "every operation has the same shape, so that the service can call any of them"
)]

use super::{
    calls::CallError,
    fault::{Within, each, required},
    operations::fitting,
    proto, wallet_from_proto as from,
    wallet_texts::Texts,
    wallet_to_proto as to,
};
use crate::wallets::{
    AcknowledgePruned, AddAddresses, AddDescriptor, Archive, BalanceOf, ConfirmTx, CreateWallet,
    DescriptorAdded, ListCoins, ListDescriptors, ListTransactions, ListWallets, Page,
    PrunedAcknowledged, PrunedInfo, RescanWallet, Restored, RollBack, SetLabel, VerifiedWallet,
    VerifyFailure, VerifyWallet, VerifyWallets, Wallets, Watched,
};

/// The most that requests and answers may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Entries of a page.
    pub(super) page_entries: usize,
    /// Bytes of an answer to a read.
    pub(super) answer_bytes: usize,
}

/// An answer, or why there is none.
pub(super) type Answer<T> = Result<T, CallError>;

/// Conversions for the network of a wallet.
pub(super) fn texts(wallets: &Wallets, name: &str) -> Answer<Texts> {
    Ok(Texts(wallets.network_of(name)?))
}

/// Conversions for a network that a request names.
fn texts_of(chain: String, network: &str) -> Answer<Texts> {
    Ok(Texts(Wallets::find_network(&from::chain(chain), network)?))
}

pub(super) fn create_wallet(
    wallets: &Wallets,
    request: proto::CreateWalletRequest,
    _: &Limits,
) -> Answer<proto::CreateWalletResponse> {
    let proto::CreateWalletRequest { name, chain, network, birthday_height } = request;
    let chain = from::chain(chain);
    let made = wallets.create_wallet(&CreateWallet { name, chain, network, birthday_height })?;
    Ok(proto::CreateWalletResponse { wallet: Some(to::wallet(made)) })
}

pub(super) fn list_wallets(
    wallets: &Wallets,
    request: proto::ListWalletsRequest,
    limits: &Limits,
) -> Answer<proto::ListWalletsResponse> {
    let Page { cursor, count } =
        from::page(request.cursor, request.page_entries, limits.page_entries)?;
    let list = ListWallets { archived: request.archived, cursor, count };
    let found = wallets.list_wallets(&list)?;
    let answer = proto::ListWalletsResponse {
        wallets: found.items.into_iter().map(to::wallet).collect(),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn get_wallet(
    wallets: &Wallets,
    request: proto::GetWalletRequest,
    _: &Limits,
) -> Answer<proto::GetWalletResponse> {
    Ok(to::wallet_status(wallets.show_wallet(&request.wallet)?))
}

pub(super) fn add_addresses(
    wallets: &Wallets,
    request: proto::AddAddressesRequest,
    _: &Limits,
) -> Answer<proto::AddAddressesResponse> {
    let addresses = each("addresses", request.addresses, from::watch_address)?;
    let watched = wallets.add_addresses(&request.wallet, &AddAddresses { addresses })?;
    let Watched { address_ids, scan_from_height } = watched;
    Ok(proto::AddAddressesResponse { address_ids, scan_from_height })
}

pub(super) fn list_addresses(
    wallets: &Wallets,
    request: proto::ListAddressesRequest,
    limits: &Limits,
) -> Answer<proto::ListAddressesResponse> {
    let page = from::page(request.cursor, request.page_entries, limits.page_entries)?;
    let found = wallets.list_addresses(&request.wallet, &page)?;
    let answer = proto::ListAddressesResponse {
        addresses: found.items.into_iter().map(to::address).collect(),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn add_descriptor(
    wallets: &Wallets,
    request: proto::AddDescriptorRequest,
    _: &Limits,
) -> Answer<proto::AddDescriptorResponse> {
    let new = AddDescriptor {
        descriptor: request.descriptor,
        keychain: request.keychain,
        lookahead: request.lookahead,
        next_index: request.next_index,
    };
    let DescriptorAdded { items, scan_from_height } =
        wallets.add_descriptor(&request.wallet, &new)?;
    let descriptors = items.into_iter().map(to::descriptor).collect();
    Ok(proto::AddDescriptorResponse { descriptors, scan_from_height })
}

pub(super) fn list_descriptors(
    wallets: &Wallets,
    request: proto::ListDescriptorsRequest,
    limits: &Limits,
) -> Answer<proto::ListDescriptorsResponse> {
    let list = ListDescriptors { archived: request.archived };
    let descriptors = wallets.list_descriptors(&request.wallet, list)?;
    let descriptors = descriptors.into_iter().map(to::descriptor).collect();
    fitting(proto::ListDescriptorsResponse { descriptors }, limits.answer_bytes)
}

pub(super) fn archive_wallet(
    wallets: &Wallets,
    request: proto::ArchiveWalletRequest,
    _: &Limits,
) -> Answer<proto::ArchiveWalletResponse> {
    wallets.archive_wallet(&request.wallet, &Archive { allow: request.allow })?;
    Ok(proto::ArchiveWalletResponse {})
}

pub(super) fn restore_wallet(
    wallets: &Wallets,
    request: proto::RestoreWalletRequest,
    _: &Limits,
) -> Answer<proto::RestoreWalletResponse> {
    let Restored { scan_from_height } = wallets.restore_wallet(&request.wallet)?;
    Ok(proto::RestoreWalletResponse { scan_from_height })
}

pub(super) fn archive_descriptor(
    wallets: &Wallets,
    request: proto::ArchiveDescriptorRequest,
    _: &Limits,
) -> Answer<proto::ArchiveDescriptorResponse> {
    let allow = Archive { allow: request.allow };
    wallets.archive_descriptor(&request.wallet, request.descriptor_id, &allow)?;
    Ok(proto::ArchiveDescriptorResponse {})
}

pub(super) fn restore_descriptor(
    wallets: &Wallets,
    request: proto::RestoreDescriptorRequest,
    _: &Limits,
) -> Answer<proto::RestoreDescriptorResponse> {
    let Restored { scan_from_height } =
        wallets.restore_descriptor(&request.wallet, request.descriptor_id)?;
    Ok(proto::RestoreDescriptorResponse { scan_from_height })
}

pub(super) fn next_address(
    wallets: &Wallets,
    request: proto::NextAddressRequest,
    _: &Limits,
) -> Answer<proto::NextAddressResponse> {
    let key = request.idempotency_key.as_deref();
    Ok(to::new_address(wallets.next_address(&request.wallet, request.descriptor_id, key)?))
}

pub(super) fn get_balance(
    wallets: &Wallets,
    request: proto::GetBalanceRequest,
    _: &Limits,
) -> Answer<proto::GetBalanceResponse> {
    let of = BalanceOf {
        min_confirmations: request.min_confirmations,
        max_confirmations: request.max_confirmations,
    };
    Ok(to::balance(&wallets.balance(&request.wallet, &of)?))
}

pub(super) fn list_coins(
    wallets: &Wallets,
    request: proto::ListCoinsRequest,
    limits: &Limits,
) -> Answer<proto::ListCoinsResponse> {
    let Page { cursor, count } =
        from::page(request.cursor, request.page_entries, limits.page_entries)?;
    let list = ListCoins {
        min_confirmations: request.min_confirmations,
        max_confirmations: request.max_confirmations,
        only_free: request.only_free,
        descriptor: request.descriptor_id,
        address: request.address_id,
        cursor,
        count,
    };
    let found = wallets.list_coins(&request.wallet, &list)?;
    let answer = proto::ListCoinsResponse {
        coins: found.items.iter().map(to::coin).collect(),
        set_aside: found.set_aside.as_ref().map(to::set_aside),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn get_coin(
    wallets: &Wallets,
    request: proto::GetCoinRequest,
    _: &Limits,
) -> Answer<proto::GetCoinResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let outpoint = required("outpoint", request.outpoint)?;
    let outpoint = texts.outpoint(&outpoint).within("outpoint")?;
    let coin = wallets.show_coin(&request.wallet, &outpoint)?;
    let set_aside = coin.set_aside.as_ref().map(to::set_aside);
    Ok(proto::GetCoinResponse { coin: Some(to::coin(&coin.item)), set_aside })
}

pub(super) fn list_transactions(
    wallets: &Wallets,
    request: proto::ListTransactionsRequest,
    limits: &Limits,
) -> Answer<proto::ListTransactionsResponse> {
    let Page { cursor, count } =
        from::page(request.cursor, request.page_entries, limits.page_entries)?;
    let list = ListTransactions {
        unconfirmed: request.only_unconfirmed,
        from_height: request.from_height,
        to_height: request.to_height,
        newest_first: request.newest_first,
        cursor,
        count,
    };
    let found = wallets.list_transactions(&request.wallet, &list)?;
    let answer = proto::ListTransactionsResponse {
        transactions: found.items.iter().map(to::transaction).collect(),
        set_aside: found.set_aside.as_ref().map(to::set_aside),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn get_transaction(
    wallets: &Wallets,
    request: proto::GetTransactionRequest,
    limits: &Limits,
) -> Answer<proto::GetTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    let found = wallets.show_transaction(&request.wallet, &txid)?;
    let set_aside = found.set_aside.as_ref().map(to::set_aside);
    let details = Some(to::details(found.item));
    fitting(proto::GetTransactionResponse { details, set_aside }, limits.answer_bytes)
}

pub(super) fn list_replacements(
    wallets: &Wallets,
    request: proto::ListReplacementsRequest,
    limits: &Limits,
) -> Answer<proto::ListReplacementsResponse> {
    let page = from::page(None, request.page_entries, limits.page_entries)?;
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    let edges = wallets.list_replacements(&request.wallet, &txid, &page)?;
    let replacements = edges.iter().map(to::replacement).collect();
    fitting(proto::ListReplacementsResponse { replacements }, limits.answer_bytes)
}

pub(super) fn record_transaction(
    wallets: &Wallets,
    mut request: proto::RecordTransactionRequest,
    _: &Limits,
) -> Answer<proto::RecordTransactionResponse> {
    let name = std::mem::take(&mut request.wallet);
    let texts = texts(wallets, &name)?;
    let recorded = wallets.record_tx(&name, &texts.record_tx(request)?)?;
    Ok(proto::RecordTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn publish_transaction(
    wallets: &Wallets,
    request: proto::PublishTransactionRequest,
    _: &Limits,
) -> Answer<proto::PublishTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    let recorded = wallets.publish_tx(&request.wallet, &txid)?;
    Ok(proto::PublishTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn confirm_transaction(
    wallets: &Wallets,
    request: proto::ConfirmTransactionRequest,
    _: &Limits,
) -> Answer<proto::ConfirmTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    let confirm = ConfirmTx { block: texts.block(request.block)?, position: request.position };
    let recorded = wallets.confirm_tx(&request.wallet, &txid, &confirm)?;
    Ok(proto::ConfirmTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn unconfirm_transaction(
    wallets: &Wallets,
    request: proto::UnconfirmTransactionRequest,
    _: &Limits,
) -> Answer<proto::UnconfirmTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    let recorded = wallets.unconfirm_tx(&request.wallet, &txid)?;
    Ok(proto::UnconfirmTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn abandon_transaction(
    wallets: &Wallets,
    request: proto::AbandonTransactionRequest,
    _: &Limits,
) -> Answer<proto::AbandonTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    Ok(to::abandoned(&wallets.abandon_tx(&request.wallet, &txid)?))
}

pub(super) fn remove_transaction(
    wallets: &Wallets,
    request: proto::RemoveTransactionRequest,
    _: &Limits,
) -> Answer<proto::RemoveTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    wallets.remove_tx(&request.wallet, &txid)?;
    Ok(proto::RemoveTransactionResponse {})
}

pub(super) fn set_transaction_label(
    wallets: &Wallets,
    request: proto::SetTransactionLabelRequest,
    _: &Limits,
) -> Answer<proto::SetTransactionLabelResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let txid = texts.hash(&request.txid).within("txid")?;
    wallets.set_tx_label(&request.wallet, &txid, &SetLabel { label: request.label })?;
    Ok(proto::SetTransactionLabelResponse {})
}

pub(super) fn import_labels(
    wallets: &Wallets,
    request: proto::ImportLabelsRequest,
    _: &Limits,
) -> Answer<proto::ImportLabelsResponse> {
    Ok(to::labels_imported(wallets.import_labels(&request.wallet, request.lines.as_bytes())?))
}

fn set_spendable(
    wallets: &Wallets,
    wallet: &str,
    outpoint: Option<proto::OutPoint>,
    spendable: bool,
) -> Answer<()> {
    let texts = texts(wallets, wallet)?;
    let outpoint = texts.outpoint(&required("outpoint", outpoint)?).within("outpoint")?;
    wallets.set_spendable(wallet, &outpoint, spendable)?;
    Ok(())
}

pub(super) fn freeze_coin(
    wallets: &Wallets,
    request: proto::FreezeCoinRequest,
    _: &Limits,
) -> Answer<proto::FreezeCoinResponse> {
    set_spendable(wallets, &request.wallet, request.outpoint, false)?;
    Ok(proto::FreezeCoinResponse {})
}

pub(super) fn unfreeze_coin(
    wallets: &Wallets,
    request: proto::UnfreezeCoinRequest,
    _: &Limits,
) -> Answer<proto::UnfreezeCoinResponse> {
    set_spendable(wallets, &request.wallet, request.outpoint, true)?;
    Ok(proto::UnfreezeCoinResponse {})
}

pub(super) fn list_pruned(
    wallets: &Wallets,
    request: proto::ListPrunedRequest,
    limits: &Limits,
) -> Answer<proto::ListPrunedResponse> {
    let page = from::page(request.cursor, request.page_entries, limits.page_entries)?;
    let found = wallets.list_pruned(&request.wallet, &page)?;
    let pruned = |row: &PrunedInfo| proto::PrunedTransaction {
        id: row.id,
        txid: to::hash(&row.txid),
        json: row.transaction.to_string(),
    };
    let answer = proto::ListPrunedResponse {
        transactions: found.items.iter().map(pruned).collect(),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn acknowledge_pruned(
    wallets: &Wallets,
    request: proto::AcknowledgePrunedRequest,
    _: &Limits,
) -> Answer<proto::AcknowledgePrunedResponse> {
    let up_to = required("up_to", request.up_to)?;
    let done = wallets.acknowledge_pruned(&request.wallet, AcknowledgePruned { up_to })?;
    let PrunedAcknowledged { transactions, waiting } = done;
    Ok(proto::AcknowledgePrunedResponse { transactions, waiting })
}

pub(super) fn verify_wallet(
    wallets: &Wallets,
    request: proto::VerifyWalletRequest,
    _: &Limits,
) -> Answer<proto::VerifyWalletResponse> {
    let checks = VerifyWallet { with_chain: request.with_chain };
    Ok(to::verified(wallets.verify_wallet(&request.wallet, checks)?))
}

pub(super) fn verify_wallets(
    wallets: &Wallets,
    request: proto::VerifyWalletsRequest,
    limits: &Limits,
) -> Answer<proto::VerifyWalletsResponse> {
    let asked = request.page_entries;
    let Page { cursor, count } = from::page(request.cursor, asked, limits.page_entries)?;
    let count = asked.and(count);
    let list = VerifyWallets { with_chain: request.with_chain, cursor, count };
    let found = wallets.verify_wallets(&list)?;
    let each = |found: VerifiedWallet| {
        let VerifiedWallet { wallet, verified, error } = found;
        let verified = verified.map(to::verified);
        let error = error.map(|VerifyFailure { code, message, .. }| proto::VerifyFailure {
            code: code.to_owned(),
            message,
        });
        proto::VerifiedWallet { wallet, verified, error }
    };
    let answer = proto::VerifyWalletsResponse {
        wallets: found.items.into_iter().map(each).collect(),
        next_cursor: found.next_cursor,
    };
    fitting(answer, limits.answer_bytes)
}

pub(super) fn get_tip(
    wallets: &Wallets,
    request: proto::GetTipRequest,
    _: &Limits,
) -> Answer<proto::GetTipResponse> {
    let texts = texts_of(request.chain, &request.network)?;
    let tip = wallets.tip(texts.0)?;
    Ok(proto::GetTipResponse { tip: tip.as_ref().map(to::tip) })
}

pub(super) fn apply_block(
    wallets: &Wallets,
    mut request: proto::ApplyBlockRequest,
    _: &Limits,
) -> Answer<proto::ApplyBlockResponse> {
    let texts = texts_of(std::mem::take(&mut request.chain), &request.network)?;
    let applied = wallets.apply_block(texts.0, &texts.apply_block(request)?)?;
    Ok(to::applied(&applied))
}

pub(super) fn disconnect_block(
    wallets: &Wallets,
    mut request: proto::DisconnectBlockRequest,
    _: &Limits,
) -> Answer<proto::DisconnectBlockResponse> {
    let texts = texts_of(std::mem::take(&mut request.chain), &request.network)?;
    let tip = wallets.disconnect_block(texts.0, &texts.disconnect_block(request)?)?;
    Ok(proto::DisconnectBlockResponse { tip: tip.as_ref().map(to::tip) })
}

pub(super) fn rescan_wallet(
    wallets: &Wallets,
    request: proto::RescanWalletRequest,
    _: &Limits,
) -> Answer<proto::RescanWalletResponse> {
    let asked = RescanWallet { from_height: request.from_height };
    let rescan = wallets.rescan_wallet(&request.wallet, asked)?;
    Ok(proto::RescanWalletResponse { rescan: Some(to::rescan(rescan)) })
}

pub(super) fn roll_back(
    wallets: &Wallets,
    request: proto::RollBackRequest,
    _: &Limits,
) -> Answer<proto::RollBackResponse> {
    let texts = texts_of(request.chain, &request.network)?;
    let from_height = required("from_height", request.from_height)?;
    let tip = wallets.roll_back(texts.0, &RollBack { from_height, allow: request.allow })?;
    Ok(proto::RollBackResponse { tip: tip.as_ref().map(to::tip) })
}
