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
    AcknowledgePruned, AddAddresses, AddDescriptor, Archive, ArchiveDescriptor, BalanceOf,
    ConfirmTx, CreateWallet, DescriptorAdded, ImportLabels, InWallet, LineBytes, ListCoins,
    ListDescriptors, ListReplacements, ListTransactions, ListWallets, NextAddress, OneCoin,
    OneDescriptor, OneTx, PrunedAcknowledged, PrunedInfo, RescanWallet, RollBack, SetLabel,
    TipAnswer, VerifiedWallet, VerifyFailure, VerifyWallet, VerifyWallets, Wallets, Watched,
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
    let page_size = from::entries("page_entries", request.page_entries, limits.page_entries)?;
    let list = ListWallets { archived: request.archived, cursor: request.cursor, page_size };
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
    Ok(to::wallet_status(wallets.show_wallet(&InWallet { wallet: request.wallet })?))
}

pub(super) fn add_addresses(
    wallets: &Wallets,
    request: proto::AddAddressesRequest,
    _: &Limits,
) -> Answer<proto::AddAddressesResponse> {
    let addresses = each("addresses", request.addresses, from::watch_address)?;
    let add = AddAddresses { wallet: request.wallet, addresses, spend_weight: None };
    let Watched { address_ids, scan_from_height, .. } = wallets.add_addresses(&add)?;
    Ok(proto::AddAddressesResponse { address_ids, scan_from_height })
}

pub(super) fn list_addresses(
    wallets: &Wallets,
    request: proto::ListAddressesRequest,
    limits: &Limits,
) -> Answer<proto::ListAddressesResponse> {
    let list = from::page(request.wallet, request.cursor, request.page_entries, limits)?;
    let found = wallets.list_addresses(&list)?;
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
        wallet: request.wallet,
        descriptor: request.descriptor,
        keychain: request.keychain,
        lookahead: request.lookahead,
        next_index: request.next_index,
    };
    let DescriptorAdded { items, scan_from_height, .. } = wallets.add_descriptor(&new)?;
    let descriptors = items.into_iter().map(to::descriptor).collect();
    Ok(proto::AddDescriptorResponse { descriptors, scan_from_height })
}

pub(super) fn list_descriptors(
    wallets: &Wallets,
    request: proto::ListDescriptorsRequest,
    limits: &Limits,
) -> Answer<proto::ListDescriptorsResponse> {
    let list = ListDescriptors { wallet: request.wallet, archived: request.archived };
    let descriptors =
        wallets.list_descriptors(&list)?.items.into_iter().map(to::descriptor).collect();
    fitting(proto::ListDescriptorsResponse { descriptors }, limits.answer_bytes)
}

pub(super) fn archive_wallet(
    wallets: &Wallets,
    request: proto::ArchiveWalletRequest,
    _: &Limits,
) -> Answer<proto::ArchiveWalletResponse> {
    wallets.archive_wallet(&Archive { wallet: request.wallet, allow: request.allow })?;
    Ok(proto::ArchiveWalletResponse {})
}

pub(super) fn restore_wallet(
    wallets: &Wallets,
    request: proto::RestoreWalletRequest,
    _: &Limits,
) -> Answer<proto::RestoreWalletResponse> {
    let restored = wallets.restore_wallet(&InWallet { wallet: request.wallet })?;
    Ok(proto::RestoreWalletResponse { scan_from_height: restored.scan_from_height })
}

pub(super) fn archive_descriptor(
    wallets: &Wallets,
    request: proto::ArchiveDescriptorRequest,
    _: &Limits,
) -> Answer<proto::ArchiveDescriptorResponse> {
    let proto::ArchiveDescriptorRequest { wallet, descriptor_id, allow } = request;
    wallets.archive_descriptor(&ArchiveDescriptor { wallet, descriptor_id, allow })?;
    Ok(proto::ArchiveDescriptorResponse {})
}

pub(super) fn restore_descriptor(
    wallets: &Wallets,
    request: proto::RestoreDescriptorRequest,
    _: &Limits,
) -> Answer<proto::RestoreDescriptorResponse> {
    let proto::RestoreDescriptorRequest { wallet, descriptor_id } = request;
    let restored = wallets.restore_descriptor(&OneDescriptor { wallet, descriptor_id })?;
    Ok(proto::RestoreDescriptorResponse { scan_from_height: restored.scan_from_height })
}

pub(super) fn next_address(
    wallets: &Wallets,
    request: proto::NextAddressRequest,
    _: &Limits,
) -> Answer<proto::NextAddressResponse> {
    let next = NextAddress {
        wallet: request.wallet,
        descriptor_id: Some(request.descriptor_id),
        idempotency_key: request.idempotency_key,
    };
    Ok(to::new_address(wallets.next_address(&next)?))
}

pub(super) fn get_balance(
    wallets: &Wallets,
    request: proto::GetBalanceRequest,
    _: &Limits,
) -> Answer<proto::GetBalanceResponse> {
    let of = BalanceOf {
        wallet: request.wallet,
        min_confirmations: request.min_confirmations,
        max_confirmations: request.max_confirmations,
    };
    Ok(to::balance(&wallets.balance(&of)?))
}

pub(super) fn list_coins(
    wallets: &Wallets,
    request: proto::ListCoinsRequest,
    limits: &Limits,
) -> Answer<proto::ListCoinsResponse> {
    let page_size = from::entries("page_entries", request.page_entries, limits.page_entries)?;
    let list = ListCoins {
        wallet: request.wallet,
        min_confirmations: request.min_confirmations,
        max_confirmations: request.max_confirmations,
        only_free: request.only_free,
        descriptor_id: request.descriptor_id,
        address_id: request.address_id,
        cursor: request.cursor,
        page_size,
    };
    let found = wallets.list_coins(&list)?;
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
    let coin = wallets.show_coin(&one_coin(wallets, request.wallet, request.outpoint)?)?;
    let set_aside = coin.set_aside.as_ref().map(to::set_aside);
    Ok(proto::GetCoinResponse { coin: Some(to::coin(&coin.item)), set_aside })
}

pub(super) fn list_transactions(
    wallets: &Wallets,
    request: proto::ListTransactionsRequest,
    limits: &Limits,
) -> Answer<proto::ListTransactionsResponse> {
    let page_size = from::entries("page_entries", request.page_entries, limits.page_entries)?;
    let list = ListTransactions {
        wallet: request.wallet,
        unconfirmed: request.only_unconfirmed,
        from_height: request.from_height,
        to_height: request.to_height,
        newest_first: request.newest_first,
        cursor: request.cursor,
        page_size,
    };
    let found = wallets.list_transactions(&list)?;
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
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let found = wallets.show_transaction(&OneTx { wallet: request.wallet, tx_hash })?;
    let set_aside = found.set_aside.as_ref().map(to::set_aside);
    let details = Some(to::details(found.item));
    fitting(proto::GetTransactionResponse { details, set_aside }, limits.answer_bytes)
}

pub(super) fn list_replacements(
    wallets: &Wallets,
    request: proto::ListReplacementsRequest,
    limits: &Limits,
) -> Answer<proto::ListReplacementsResponse> {
    let page_size = from::entries("page_entries", request.page_entries, limits.page_entries)?;
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let list = ListReplacements { wallet: request.wallet, tx_hash, page_size };
    let replacements =
        wallets.list_replacements(&list)?.items.iter().map(to::replacement).collect();
    fitting(proto::ListReplacementsResponse { replacements }, limits.answer_bytes)
}

pub(super) fn record_transaction(
    wallets: &Wallets,
    request: proto::RecordTransactionRequest,
    _: &Limits,
) -> Answer<proto::RecordTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let recorded = wallets.record_tx(&texts.record_tx(request)?)?;
    Ok(proto::RecordTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn publish_transaction(
    wallets: &Wallets,
    request: proto::PublishTransactionRequest,
    _: &Limits,
) -> Answer<proto::PublishTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let recorded = wallets.publish_tx(&OneTx { wallet: request.wallet, tx_hash })?;
    Ok(proto::PublishTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn broadcast_transaction(
    wallets: &Wallets,
    request: proto::BroadcastTransactionRequest,
    _: &Limits,
) -> Answer<proto::BroadcastTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let sent = wallets.broadcast_tx(&texts.broadcast_tx(request)?)?;
    Ok(to::broadcast(&sent))
}

pub(super) fn confirm_transaction(
    wallets: &Wallets,
    request: proto::ConfirmTransactionRequest,
    _: &Limits,
) -> Answer<proto::ConfirmTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let (wallet, block) = (request.wallet, texts.block(request.block)?);
    let confirm = ConfirmTx { wallet, tx_hash, block, position: request.position };
    let recorded = wallets.confirm_tx(&confirm)?;
    Ok(proto::ConfirmTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn unconfirm_transaction(
    wallets: &Wallets,
    request: proto::UnconfirmTransactionRequest,
    _: &Limits,
) -> Answer<proto::UnconfirmTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let recorded = wallets.unconfirm_tx(&OneTx { wallet: request.wallet, tx_hash })?;
    Ok(proto::UnconfirmTransactionResponse { recorded: Some(to::recorded(&recorded)) })
}

pub(super) fn abandon_transaction(
    wallets: &Wallets,
    request: proto::AbandonTransactionRequest,
    _: &Limits,
) -> Answer<proto::AbandonTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    Ok(to::abandoned(&wallets.abandon_tx(&OneTx { wallet: request.wallet, tx_hash })?))
}

pub(super) fn remove_transaction(
    wallets: &Wallets,
    request: proto::RemoveTransactionRequest,
    _: &Limits,
) -> Answer<proto::RemoveTransactionResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    wallets.remove_tx(&OneTx { wallet: request.wallet, tx_hash })?;
    Ok(proto::RemoveTransactionResponse {})
}

pub(super) fn set_transaction_label(
    wallets: &Wallets,
    request: proto::SetTransactionLabelRequest,
    _: &Limits,
) -> Answer<proto::SetTransactionLabelResponse> {
    let texts = texts(wallets, &request.wallet)?;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    wallets.set_tx_label(&SetLabel { wallet: request.wallet, tx_hash, label: request.label })?;
    Ok(proto::SetTransactionLabelResponse {})
}

pub(super) fn import_labels(
    wallets: &Wallets,
    request: proto::ImportLabelsRequest,
    _: &Limits,
) -> Answer<proto::ImportLabelsResponse> {
    let lines = LineBytes(request.lines.into_bytes());
    let import = ImportLabels { wallet: request.wallet, lines };
    Ok(to::labels_imported(wallets.import_labels(&import)?))
}

fn one_coin(
    wallets: &Wallets,
    wallet: String,
    outpoint: Option<proto::OutPoint>,
) -> Answer<OneCoin> {
    let texts = texts(wallets, &wallet)?;
    let outpoint = texts.outpoint(&required("outpoint", outpoint)?).within("outpoint")?;
    Ok(OneCoin { wallet, outpoint })
}

pub(super) fn freeze_coin(
    wallets: &Wallets,
    request: proto::FreezeCoinRequest,
    _: &Limits,
) -> Answer<proto::FreezeCoinResponse> {
    wallets.freeze(&one_coin(wallets, request.wallet, request.outpoint)?)?;
    Ok(proto::FreezeCoinResponse {})
}

pub(super) fn unfreeze_coin(
    wallets: &Wallets,
    request: proto::UnfreezeCoinRequest,
    _: &Limits,
) -> Answer<proto::UnfreezeCoinResponse> {
    wallets.unfreeze(&one_coin(wallets, request.wallet, request.outpoint)?)?;
    Ok(proto::UnfreezeCoinResponse {})
}

pub(super) fn list_pruned(
    wallets: &Wallets,
    request: proto::ListPrunedRequest,
    limits: &Limits,
) -> Answer<proto::ListPrunedResponse> {
    let list = from::page(request.wallet, request.cursor, request.page_entries, limits)?;
    let found = wallets.list_pruned(&list)?;
    let pruned = |row: &PrunedInfo| proto::PrunedTransaction {
        id: row.id,
        txid: to::hash(&row.tx_hash),
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
    let done = AcknowledgePruned { wallet: request.wallet, up_to };
    let done = wallets.acknowledge_pruned(&done)?;
    let PrunedAcknowledged { transactions, waiting } = done;
    Ok(proto::AcknowledgePrunedResponse { transactions, waiting })
}

pub(super) fn verify_wallet(
    wallets: &Wallets,
    request: proto::VerifyWalletRequest,
    _: &Limits,
) -> Answer<proto::VerifyWalletResponse> {
    let checks = VerifyWallet { wallet: request.wallet, with_chain: request.with_chain };
    Ok(to::verified(wallets.verify_wallet(&checks)?))
}

pub(super) fn verify_wallets(
    wallets: &Wallets,
    request: proto::VerifyWalletsRequest,
    limits: &Limits,
) -> Answer<proto::VerifyWalletsResponse> {
    let asked = request.page_entries;
    let page_size = asked.and(from::entries("page_entries", asked, limits.page_entries)?);
    let list = VerifyWallets { with_chain: request.with_chain, cursor: request.cursor, page_size };
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
    request: proto::ApplyBlockRequest,
    _: &Limits,
) -> Answer<proto::ApplyBlockResponse> {
    let texts = texts_of(request.chain.clone(), &request.network)?;
    let applied = wallets.apply_block(&texts.apply_block(request)?)?;
    Ok(to::applied(&applied))
}

pub(super) fn disconnect_block(
    wallets: &Wallets,
    request: proto::DisconnectBlockRequest,
    _: &Limits,
) -> Answer<proto::DisconnectBlockResponse> {
    let texts = texts_of(request.chain.clone(), &request.network)?;
    let TipAnswer { tip } = wallets.disconnect_block(&texts.disconnect_block(request)?)?;
    Ok(proto::DisconnectBlockResponse { tip: tip.as_ref().map(to::tip) })
}

pub(super) fn rescan_wallet(
    wallets: &Wallets,
    request: proto::RescanWalletRequest,
    _: &Limits,
) -> Answer<proto::RescanWalletResponse> {
    let asked = RescanWallet { wallet: request.wallet, from_height: request.from_height };
    let rescan = wallets.rescan_wallet(&asked)?;
    Ok(proto::RescanWalletResponse { rescan: Some(to::rescan(rescan)) })
}

pub(super) fn roll_back(
    wallets: &Wallets,
    request: proto::RollBackRequest,
    _: &Limits,
) -> Answer<proto::RollBackResponse> {
    let proto::RollBackRequest { chain, network, from_height, allow } = request;
    let from_height = required("from_height", from_height)?;
    let roll_back = RollBack { chain: from::chain(chain), network, from_height, allow };
    let TipAnswer { tip } = wallets.roll_back(&roll_back)?;
    Ok(proto::RollBackResponse { tip: tip.as_ref().map(to::tip) })
}
