//! A wallet from its making to its pruning, with every call on the way.

use utxokeep::config::GrpcConfig;
use utxokeep_server::grpc::proto::{self, WalletChange, WalletSeen, WalletTxStatus};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_grpc::{
    served::Served,
    world::{
        FIRST, WALLET, apply, balance, block, coins_for, fund, get_transaction, next_address,
        payment, select, txid_of,
    },
};

#[test]
fn a_wallet_on_sqlite() {
    tell(&Served::sqlite());
}

#[test]
fn a_wallet_on_postgres() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    tell(&Served::start(database.url(), &GrpcConfig::default()));
}

fn name() -> String {
    WALLET.to_owned()
}

fn tell(served: &Served) {
    let funding = fund(served, &[100_000, 200_000, 300_000]);
    watching(served, &funding);
    leasing(served);
    let (paid, owner) = paying(served);
    let replacement = replacing(served, &paid, &owner);
    chaining(served, &replacement);
    giving_up(served, &txid_of(&funding));
    labelling(served, &replacement);
    pruning(served, &paid);
    let request = |with_chain| proto::VerifyWalletRequest { wallet: name(), with_chain };
    let verified = served.ok(served.client().verify_wallet(request(false)));
    assert_eq!((verified.is_sound, verified.violations), (true, Vec::new()));
    assert!(verified.transactions >= verified.transactions_decoded);
    assert_eq!(verified.chain, None);
    let request_all = |with_chain| proto::VerifyWalletsRequest { with_chain, ..Default::default() };
    let all = served.ok(served.client().verify_wallets(request_all(false))).wallets;
    assert!(all.iter().all(|each| each.verified.as_ref().is_some_and(|each| each.is_sound)));
    assert!(all.iter().any(|each| each.wallet == name()));
    let all = served.ok(served.client().verify_wallets(request_all(true))).wallets;
    assert!(all.iter().all(|each| each.error.as_ref().unwrap().code == "no_chain_database"));
    let refused = served.status(served.client().verify_wallet(request(true)));
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
}

fn watching(served: &Served, funding: &[u8]) {
    use proto::watch_address::Owner;
    let request = proto::GetWalletRequest { wallet: name() };
    let wallet = served.ok(served.client().get_wallet(request));
    let info = wallet.wallet.unwrap();
    assert_eq!((info.name.as_str(), info.chain.as_str()), (WALLET, "bitcoin"));
    assert_eq!(info.network, "regtest");
    let tip = proto::LedgerTip { height: FIRST, hash: block(FIRST, 1).hash };
    assert_eq!(wallet.tip, Some(tip.clone()), "bytes are in internal order both ways");

    let request = proto::ListDescriptorsRequest { wallet: name(), archived: false };
    let keychains = served.ok(served.client().list_descriptors(request)).descriptors;
    assert_eq!(keychains.iter().map(|each| each.keychain).collect::<Vec<_>>(), [0, 1]);
    let second = next_address(served, keychains[0].id);
    assert_eq!(second.index, 1, "the first one is handed out and paid");
    assert!(second.address.unwrap().starts_with("bcrt1q"));

    let watch = |owner| proto::WatchAddress { owner: Some(owner), spend_weight: Some(300) };
    let request = proto::AddAddressesRequest {
        wallet: name(),
        addresses: vec![
            watch(Owner::Script(vec![0x51, 0x52])),
            watch(Owner::Address("bcrt1qfrxz3l7yl73r2e2tucp29t8pmf9genkkdhx5nz".to_owned())),
        ],
    };
    let ids = served.ok(served.client().add_addresses(request)).address_ids;
    let request = proto::ListAddressesRequest { wallet: name(), cursor: None, page_entries: None };
    let addresses = served.ok(served.client().list_addresses(request)).addresses;
    let watched: Vec<_> = addresses.iter().filter(|each| ids.contains(&each.id)).collect();
    assert_eq!((watched[0].script.as_slice(), watched[0].spend_weight), (&[0x51, 0x52][..], 300));
    assert_eq!(addresses.iter().filter(|each| each.is_used).count(), 1);

    let has = balance(served);
    assert_eq!((has.confirmed, has.available, has.total), (600_000, 600_000, 600_000));
    assert_eq!(has.tip, Some(tip));
    let outpoint = proto::OutPoint { txid: txid_of(funding), vout: 1 };
    let request = proto::GetCoinRequest { wallet: name(), outpoint: Some(outpoint.clone()) };
    let coin = served.ok(served.client().get_coin(request)).coin.unwrap();
    assert_eq!((&coin.outpoint, coin.amount), (&Some(outpoint), 200_000));
    assert_eq!((coin.class(), coin.height), (proto::WalletCoinClass::Confirmed, Some(FIRST)));
    assert_eq!((coin.confirmations, coin.is_coinbase, coin.is_leased), (1, false, false));
}

fn leasing(served: &Served) {
    let plain = served.ok(served.client().select_coins(select(coins_for(50_000))));
    assert_eq!(plain.selection.unwrap().leased, None, "nothing was asked for");
    assert_eq!(balance(served).leased, 0);

    let owner = vec![9; 32];
    let terms = proto::LeaseTerms {
        owner: Some(owner.clone()),
        seconds: Some(60),
        hold_confirmations: Some(2),
        owner_name: None,
    };
    let request = proto::CoinRequest { lease: Some(terms.clone()), ..coins_for(50_000) };
    let selection = served.ok(served.client().select_coins(select(request))).selection.unwrap();
    let total: u64 = selection.coins.iter().map(|coin| coin.amount).sum();
    assert_eq!(selection.input_total, total);
    assert_eq!(50_000 + selection.fee + selection.change.unwrap_or(0), total);
    let leased = selection.leased.unwrap();
    assert_eq!((&leased.owner, balance(served).leased), (&owner, total));

    let outpoints: Vec<_> =
        selection.coins.iter().filter_map(|coin| coin.outpoint.clone()).collect();
    let request = proto::AcquireLeasesRequest {
        wallet: name(),
        outpoints: outpoints.clone(),
        terms: Some(proto::LeaseTerms { seconds: Some(600), ..terms }),
        idempotency_key: None,
    };
    let renewed = served.ok(served.client().acquire_leases(request)).leased.unwrap();
    assert!(renewed.expires_at_us > leased.expires_at_us + 500_000_000);
    let request = proto::ListLeasesRequest { wallet: name(), cursor: None, page_entries: None };
    let listed = served.ok(served.client().list_leases(request)).leases;
    assert_eq!(listed.len(), outpoints.len());
    assert_eq!((&listed[0].owner, listed[0].hold_confirmations), (&owner, Some(2)));
    assert_eq!(listed[0].expires_at_us, renewed.expires_at_us);
    let release = |outpoint| proto::ReleaseLeasesRequest {
        wallet: name(),
        owner: owner.clone(),
        outpoint,
        owner_name: None,
    };
    let one = served.ok(served.client().release_leases(release(Some(outpoints[0].clone()))));
    let rest = served.ok(served.client().release_leases(release(None)));
    assert_eq!((one.leases, rest.leases), (1, outpoints.len() as u64 - 1));

    // A name stands for its SHA-256, and renewing leases nothing that is free.
    let terms = proto::LeaseTerms {
        owner_name: Some("payroll".to_owned()),
        ..proto::LeaseTerms::default()
    };
    let renew = proto::RenewLeasesRequest {
        wallet: name(),
        outpoints: outpoints.clone(),
        terms: Some(terms.clone()),
        idempotency_key: None,
    };
    let refused = served.status(served.client().renew_leases(renew.clone()));
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    let request = proto::AcquireLeasesRequest {
        wallet: name(),
        outpoints: outpoints.clone(),
        terms: Some(terms),
        idempotency_key: None,
    };
    let leased = served.ok(served.client().acquire_leases(request)).leased.unwrap();
    assert_eq!((leased.owner.len(), leased.owner_name.as_deref()), (32, Some("payroll")));
    served.ok(served.client().renew_leases(renew));
    let release = |owner: &[u8], owner_name: Option<&str>| proto::ReleaseLeasesRequest {
        wallet: name(),
        owner: owner.to_vec(),
        outpoint: None,
        owner_name: owner_name.map(str::to_owned),
    };
    for wrong in [release(&leased.owner, Some("payroll")), release(&[], None)] {
        let refused = served.status(served.client().release_leases(wrong));
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }
    let released = served.ok(served.client().release_leases(release(&[], Some("payroll"))));
    assert_eq!(released.leases, outpoints.len() as u64);
    let request = proto::CleanLeasesRequest { wallet: name() };
    assert_eq!(served.ok(served.client().clean_leases(request)).leases, 0);
    assert_eq!(balance(served).leased, 0);
}

/// Pays a stranger; answers the transaction and who leases its coins.
fn paying(served: &Served) -> (Vec<u8>, Vec<u8>) {
    let request = proto::CreatePsbtRequest {
        wallet: name(),
        payment: Some(proto::CoinRequest {
            outputs: vec![payment(150_000)],
            value: None,
            ..coins_for(0)
        }),
        change: None,
        lock_height: 0,
        record: true,
        idempotency_key: None,
    };
    let keyed = proto::CreatePsbtRequest { idempotency_key: Some("order-7".to_owned()), ..request };
    let made = served.ok(served.client().create_psbt(keyed.clone()));
    assert_eq!(served.ok(served.client().create_psbt(keyed.clone())), made);
    let other = proto::CreatePsbtRequest { record: false, ..keyed };
    let refused = served.status(served.client().create_psbt(other));
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(made.is_txid_final && made.psbt.starts_with("cHNidP"), "{}", made.psbt);
    let selection = made.selection.unwrap();
    assert!(selection.change.is_some() && made.change_address.unwrap().starts_with("bcrt1q"));
    let recorded = made.recorded.unwrap();
    assert_eq!(
        (recorded.change(), recorded.status()),
        (WalletChange::Inserted, WalletTxStatus::Pending)
    );

    let details = get_transaction(served, &made.txid);
    let again = proto::RecordTransactionRequest {
        wallet: name(),
        transaction: Some(proto::record_transaction_request::Transaction::Raw(
            details.raw.unwrap(),
        )),
        seen: WalletSeen::Created.into(),
        ..proto::RecordTransactionRequest::default()
    };
    let again = served.ok(served.client().record_transaction(again)).recorded.unwrap();
    assert_eq!((&again.txid, again.change()), (&made.txid, WalletChange::Unchanged));
    let tx = details.transaction.unwrap();
    assert_eq!(
        (tx.fee, tx.delta),
        (Some(selection.fee), -150_000 - i64::try_from(selection.fee).unwrap())
    );
    let request = proto::PublishTransactionRequest { wallet: name(), txid: made.txid.clone() };
    let published = served.ok(served.client().publish_transaction(request)).recorded.unwrap();
    assert_eq!(published.status(), WalletTxStatus::Published);
    assert!(balance(served).trusted_unconfirmed > 0, "the change");
    (made.txid, selection.leased.unwrap().owner)
}

/// Pays more for it; answers the bytes of the replacement.
fn replacing(served: &Served, paid: &[u8], owner: &[u8]) -> Vec<u8> {
    let request = |dry_run| proto::BumpFeeRequest {
        wallet: name(),
        txid: paid.to_vec(),
        fee_per_kilo_weight: Some(2_500),
        lease_of: Some(owner.to_vec()),
        dry_run,
        ..proto::BumpFeeRequest::default()
    };
    let plan = served.ok(served.client().bump_fee(request(true)));
    assert_eq!((&plan.replaces[..], &plan.leased, &plan.recorded), (paid, &None, &None));
    assert!(plan.fee > plan.replaced_fees && plan.weight > 0 && plan.kept_inputs > 0);
    let bump = served.ok(served.client().bump_fee(request(false)));
    assert!(bump.leased.is_some() && bump.is_txid_final);
    assert_eq!(u64::try_from(bump.inputs.len()).unwrap(), bump.kept_inputs);
    assert!(bump.recorded.unwrap().is_waiting);

    let request = proto::PublishTransactionRequest { wallet: name(), txid: bump.txid.clone() };
    let published = served.ok(served.client().publish_transaction(request)).recorded.unwrap();
    assert_eq!(published.losers, [paid.to_vec()]);
    let loser = get_transaction(served, paid).transaction.unwrap();
    assert_eq!(loser.status(), WalletTxStatus::Replaced);
    assert_eq!(loser.invalid_reason(), proto::WalletInvalidReason::Replaced);
    assert_eq!(loser.invalidated_by.as_ref(), Some(&bump.txid));
    let request =
        proto::ListReplacementsRequest { wallet: name(), txid: paid.to_vec(), page_entries: None };
    let edges = served.ok(served.client().list_replacements(request)).replacements;
    assert_eq!((&edges[0].replaced[..], &edges[0].replacement), (paid, &bump.txid));
    get_transaction(served, &bump.txid).raw.unwrap()
}

/// Puts it into a block, takes that off in two ways, and puts it in again.
fn chaining(served: &Served, raw: &[u8]) {
    let (place, below) = (block(FIRST + 1, 2), block(FIRST, 1));
    let join = || apply(place.clone(), Some(below.clone()), &[raw.to_vec()]);
    let applied = served.ok(served.client().apply_block(join()));
    assert_eq!(applied.tip.unwrap().hash, place.hash);
    assert!(served.ok(served.client().apply_block(join())).already_applied);
    let height = || get_transaction(served, &txid_of(raw)).transaction.unwrap().height;
    assert_eq!(height(), Some(FIRST + 1));
    let request = proto::ConfirmTransactionRequest {
        wallet: name(),
        txid: txid_of(raw),
        block: Some(place.clone()),
        position: None,
    };
    let confirmed = served.ok(served.client().confirm_transaction(request)).recorded.unwrap();
    assert_eq!((confirmed.change(), confirmed.height), (WalletChange::Unchanged, Some(FIRST + 1)));
    // The block itself said so.
    let request = proto::UnconfirmTransactionRequest { wallet: name(), txid: txid_of(raw) };
    let request_again = request.clone();
    let refused = served.status(served.client().unconfirm_transaction(request));
    assert!(refused.message().contains("only claims can be taken back"), "{refused:?}");

    let request = proto::DisconnectBlockRequest {
        network: "regtest".to_owned(),
        block: Some(place.clone()),
        parent: Some(below.hash.clone()),
        ..proto::DisconnectBlockRequest::default()
    };
    let tip = served.ok(served.client().disconnect_block(request)).tip.unwrap();
    assert_eq!((tip.height, height()), (FIRST, None));
    let recorded = served.ok(served.client().unconfirm_transaction(request_again));
    assert_eq!(recorded.recorded.unwrap().change(), WalletChange::Unchanged);
    served.ok(served.client().apply_block(join()));
    let request = proto::RollBackRequest {
        chain: "bitcoin".to_owned(),
        network: "regtest".to_owned(),
        from_height: Some(FIRST + 1),
        allow: Vec::new(),
    };
    let tip = served.ok(served.client().roll_back(request)).tip.unwrap();
    assert_eq!((tip.height, height()), (FIRST, None));
    served.ok(served.client().apply_block(join()));
    let request =
        proto::GetTipRequest { chain: "bitcoin".to_owned(), network: "regtest".to_owned() };
    let tip = served.ok(served.client().get_tip(request)).tip;
    assert_eq!(tip, Some(proto::LedgerTip { height: place.height, hash: place.hash }));
}

/// Records transactions in parts, and takes them back.
fn giving_up(served: &Served, funding: &[u8]) {
    use proto::record_transaction_request::Transaction;
    let record = |id: u8, inputs: Vec<proto::OutPoint>| proto::RecordTransactionRequest {
        wallet: name(),
        transaction: Some(Transaction::Parts(proto::WalletPlainTransaction {
            txid: vec![id; 32],
            inputs,
            outputs: vec![payment(1_000)],
            is_coinbase: false,
        })),
        seen: WalletSeen::Mempool.into(),
        label: Some("rent".to_owned()),
        credits: Some(proto::WalletCredits { outputs: Vec::new() }),
        ..proto::RecordTransactionRequest::default()
    };
    let request = proto::ListCoinsRequest { wallet: name(), ..proto::ListCoinsRequest::default() };
    let coins = served.ok(served.client().list_coins(request)).coins;
    let of_funding = |coin: &&proto::WalletCoin| coin.outpoint.as_ref().unwrap().txid == funding;
    let coin = coins.iter().find(of_funding).unwrap().outpoint.clone().unwrap();
    for id in [0x61, 0x62] {
        let recorded =
            served.ok(served.client().record_transaction(record(id, vec![coin.clone()])));
        assert_eq!(recorded.recorded.unwrap().txid, vec![id; 32]);
        let txid = vec![id; 32];
        if id == 0x61 {
            let request = proto::RemoveTransactionRequest { wallet: name(), txid };
            served.ok(served.client().remove_transaction(request));
            let request = proto::GetTransactionRequest { wallet: name(), txid: vec![id; 32] };
            let gone = served.status(served.client().get_transaction(request));
            assert_eq!(gone.code(), tonic::Code::NotFound);
        } else {
            let request = proto::AbandonTransactionRequest { wallet: name(), txid };
            let abandoned = served.ok(served.client().abandon_transaction(request));
            assert_eq!((abandoned.txid, abandoned.failed_descendants.len()), (vec![id; 32], 0));
            let details = get_transaction(served, &[id; 32]);
            assert_eq!(details.label.as_deref(), Some("rent"));
            let spends = proto::WalletInput {
                outpoint: Some(coin.clone()),
                amount: details.inputs[0].amount,
            };
            assert_eq!(details.inputs, [spends]);
            assert_eq!(details.transaction.unwrap().status(), WalletTxStatus::Failed);
        }
    }
}

fn labelling(served: &Served, raw: &[u8]) {
    let txid = txid_of(raw);
    let set = |label: &str| proto::SetTransactionLabelRequest {
        wallet: name(),
        txid: txid.clone(),
        label: label.to_owned(),
    };
    served.ok(served.client().set_transaction_label(set("wages")));
    let lines = export(served);
    assert!(lines.contains("wages") && lines.contains("rent"), "{lines}");
    served.ok(served.client().set_transaction_label(set("")));
    assert!(!export(served).contains("wages"));
    let labels = lines.lines().count() as u64;
    let lines = format!("{lines}{{\"type\":\"planet\",\"ref\":\"mars\"}}\n");
    let request = proto::ImportLabelsRequest { wallet: name(), lines };
    let imported = served.ok(served.client().import_labels(request));
    assert_eq!((imported.imported, imported.ignored), (labels, 1));
    assert_eq!(get_transaction(served, &txid).label.as_deref(), Some("wages"));
}

fn export(served: &Served) -> String {
    served.runtime.block_on(async {
        let request = proto::ExportLabelsRequest { wallet: name() };
        let mut pages = served.client().export_labels(request).await.unwrap().into_inner();
        let mut lines = String::new();
        while let Some(page) = pages.message().await.unwrap() {
            lines.push_str(&page.lines);
        }
        lines
    })
}

/// What was pruned is in the archive, page by page, until somebody says that it has it.
fn kept_until_acknowledged(served: &Served, txids: &[Vec<u8>]) {
    let list = |cursor| proto::ListPrunedRequest { wallet: name(), cursor, page_entries: Some(1) };
    let first = served.ok(served.client().list_pruned(list(None)));
    let second = served.ok(served.client().list_pruned(list(first.next_cursor.clone())));
    let mut kept: Vec<_> =
        [&first, &second].iter().map(|page| page.transactions[0].txid.clone()).collect();
    kept.sort();
    assert_eq!(kept, txids);
    assert!(first.transactions[0].json.contains("\"inputs\""));
    let up_to = Some(second.transactions[0].id);
    let request = proto::AcknowledgePrunedRequest { wallet: name(), up_to };
    let done = served.ok(served.client().acknowledge_pruned(request));
    assert_eq!((done.transactions, done.waiting), (2, 0));
    assert!(served.ok(served.client().list_pruned(list(None))).transactions.is_empty());
}

/// Removes what lost and what was given up.
fn pruning(served: &Served, paid: &[u8]) {
    let removed = served.runtime.block_on(async {
        let request = proto::PruneWalletRequest {
            wallet: name(),
            dead_older_than_secs: Some(0),
            ..proto::PruneWalletRequest::default()
        };
        let mut parts = served.client().prune_wallet(request).await.unwrap().into_inner();
        let mut removed = Vec::new();
        while let Some(part) = parts.message().await.unwrap() {
            removed.extend(part.transactions);
        }
        removed
    });
    let mut txids: Vec<_> =
        removed.iter().map(|each| each.transaction.as_ref().unwrap().txid.clone()).collect();
    txids.sort();
    let mut expected = vec![paid.to_vec(), vec![0x62; 32]];
    expected.sort();
    assert_eq!(txids, expected);
    assert!(removed.iter().any(|each| each.raw.is_some()));
    kept_until_acknowledged(served, &txids);
    let request = proto::ListTransactionsRequest {
        wallet: name(),
        ..proto::ListTransactionsRequest::default()
    };
    let left = served.ok(served.client().list_transactions(request)).transactions;
    assert_eq!(left.len(), 2, "the payment to us, and the one that won");
}
