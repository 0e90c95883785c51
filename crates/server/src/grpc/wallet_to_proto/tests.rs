//! Every field of an answer arrives: each message is written as the JSON of command line and REST,
//! and compared with the JSON of the model it was made from.
//!
//! Messages are taken apart without `..`, so that a field of the contract cannot be forgotten here.

use serde::Serialize;
use serde_json::{Value, json};
use utxokeep_core::{
    Network, OutPoint, Txid, hex_encode,
    wallet::{CoinClass, InvalidReason, TxStatus},
};

use super::*;
use crate::wallets::{Hex, InputInfo, NearEdgeInfo, OwnOutputInfo, Signed, Units};

const NETWORK: Network = Network::BitcoinRegtest;

/// A hash that is not the same when it is turned round.
fn id(number: u8) -> ChainHash {
    let mut bytes = [0x0f; 32];
    bytes[0] = number;
    NETWORK.hash(bytes)
}

fn output(number: u8) -> ChainOutPoint {
    let txid = Txid::from_bytes(*id(number).as_bytes());
    NETWORK.outpoint(&OutPoint::new(txid, number.into()))
}

fn hash_json(bytes: &[u8]) -> Value {
    NETWORK.hash_text(bytes.try_into().unwrap()).into()
}

fn hashes_json(list: &[Vec<u8>]) -> Value {
    list.iter().map(|bytes| hash_json(bytes)).collect()
}

fn output_json(outpoint: Option<proto::OutPoint>) -> Value {
    let proto::OutPoint { txid, vout } = outpoint.unwrap();
    format!("{}:{vout}", hash_json(&txid).as_str().unwrap()).into()
}

/// Amounts are strings in JSON.
fn units(amount: u64) -> Value {
    amount.to_string().into()
}

fn word(name: &str, prefix: &str) -> Value {
    name.strip_prefix(prefix).unwrap().to_ascii_lowercase().into()
}

fn tip_json(tip: Option<proto::LedgerTip>) -> Value {
    tip.map_or(
        Value::Null,
        |proto::LedgerTip { height, hash }| json!({ "height": height, "hash": hash_json(&hash) }),
    )
}

fn leased_json(leased: Option<proto::Leased>) -> Value {
    leased.map_or(Value::Null, |proto::Leased { owner, expires_at_us, owner_name }| {
        json!({
            "owner": hex_encode(&owner), "owner_name": owner_name, "expires_at_us": expires_at_us,
        })
    })
}

fn status_json(status: i32) -> Value {
    let status = proto::WalletTxStatus::try_from(status).unwrap();
    word(status.as_str_name(), "WALLET_TX_STATUS_")
}

fn reason_json(reason: i32) -> Value {
    let reason = proto::WalletInvalidReason::try_from(reason).unwrap();
    word(reason.as_str_name(), "WALLET_INVALID_REASON_")
}

fn recorded_json(recorded: Option<proto::WalletRecorded>) -> Value {
    let Some(recorded) = recorded else { return Value::Null };
    let proto::WalletRecorded {
        txid,
        change,
        status,
        height,
        is_waiting,
        losers,
        failed_descendants,
    } = recorded;
    let change = proto::WalletChange::try_from(change).unwrap().as_str_name();
    json!({
        "tx_hash": hash_json(&txid), "change": word(change, "WALLET_CHANGE_"),
        "status": status_json(status), "height": height, "is_waiting": is_waiting,
        "losers": hashes_json(&losers), "failed_descendants": hashes_json(&failed_descendants),
    })
}

fn selected_json(coin: proto::SelectedCoin) -> Value {
    let proto::SelectedCoin { outpoint, amount, script, weight } = coin;
    json!({
        "outpoint": output_json(outpoint), "amount": units(amount),
        "script": hex_encode(&script), "weight": weight,
    })
}

fn selection_json(selection: Option<proto::CoinSelection>) -> Value {
    let proto::CoinSelection { coins, input_total, fee, change, waste, algorithm, leased, weight } =
        selection.unwrap();
    let algorithm = proto::WalletAlgorithm::try_from(algorithm).unwrap().as_str_name();
    json!({
        "coins": coins.into_iter().map(selected_json).collect::<Vec<_>>(),
        "input_total": units(input_total), "fee": units(fee), "change": change.map(units),
        "waste": waste.to_string(), "algorithm": word(algorithm, "WALLET_ALGORITHM_"),
        "leased": leased_json(leased), "weight": weight,
    })
}

fn transaction_json(tx: proto::WalletTransaction) -> Value {
    let proto::WalletTransaction {
        txid,
        status,
        height,
        position,
        is_coinbase,
        is_waiting,
        received_at_us,
        spent,
        received,
        delta,
        fee,
        invalid_reason,
        invalidated_by,
    } = tx;
    json!({
        "tx_hash": hash_json(&txid), "status": status_json(status), "height": height,
        "position": position, "is_coinbase": is_coinbase, "is_waiting": is_waiting,
        "received_at_us": received_at_us, "spent": units(spent), "received": units(received),
        "delta": delta.to_string(), "fee": fee.map(units),
        "invalid_reason": invalid_reason.map(reason_json),
        "invalidated_by": invalidated_by.as_deref().map(hash_json),
    })
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "what is made in place is given away")]
fn assert_same(model: &impl Serialize, message: Value) {
    assert_eq!(serde_json::to_value(model).unwrap(), message);
}

fn tip() -> LedgerTip {
    LedgerTip { height: 77, hash: id(1) }
}

fn tx_info() -> TxInfo {
    TxInfo {
        tx_hash: id(2),
        status: "replaced",
        height: Some(3),
        position: Some(4),
        is_coinbase: true,
        is_waiting: true,
        received_at_us: 5,
        spent: Units(6),
        received: Units(7),
        delta: Signed(-8),
        fee: Some(Units(9)),
        invalid_reason: Some("double_spent"),
        invalidated_by: Some(id(10)),
    }
}

fn recorded_info() -> RecordedInfo {
    RecordedInfo {
        tx_hash: id(11),
        change: "revived".into(),
        status: "published".into(),
        height: Some(12),
        is_waiting: true,
        losers: vec![id(13), id(14)],
        failed_descendants: vec![id(15)],
    }
}

fn selection_info() -> SelectionInfo {
    SelectionInfo {
        coins: vec![selected_info(16), selected_info(17)],
        input_total: Units(18),
        fee: Units(19),
        weight: 26,
        change: Some(Units(20)),
        waste: Signed(-21),
        algorithm: "single_random_draw".into(),
        leased: Some(leased_info()),
    }
}

fn selected_info(number: u8) -> SelectedInfo {
    let script = Hex(vec![0, number]);
    SelectedInfo { outpoint: output(number), amount: Units(22), script, weight: 23 }
}

fn leased_info() -> Leased {
    Leased { owner: Hex(vec![24; 32]), owner_name: Some("o".to_owned()), expires_at_us: 25 }
}

fn set_aside_info() -> SetAsideInfo {
    SetAsideInfo { height: 26, hash: Some(id(27)), reason: "no parent".to_owned(), at_us: 28 }
}

fn set_aside_json(aside: Option<proto::WalletSetAside>) -> Value {
    let proto::WalletSetAside { height, hash, reason, at_us } = aside.unwrap();
    json!({ "height": height, "hash": hash_json(&hash), "reason": reason, "at_us": at_us })
}

fn rescan_json(rescan: Option<proto::WalletRescan>) -> Value {
    let proto::WalletRescan { from_height, next_height } = rescan.unwrap();
    json!({ "from_height": from_height, "next_height": next_height })
}

#[test]
fn of_wallets_and_what_they_watch() {
    let info = WalletInfo {
        name: "w".to_owned(),
        chain: "bitcoin".to_owned(),
        network: "regtest".to_owned(),
        created_at_us: 1,
        set_aside: Some(set_aside_info()),
        rescan: Some(RescanInfo { from_height: 2, next_height: 3 }),
        archived_at_us: Some(2),
        is_birthday_unchecked: false,
    };
    let model = WalletStatus {
        wallet: info,
        tip: Some(tip()),
        birthday_height: Some(9),
        descriptors_near_edge: vec![7, 8],
    };
    let proto::GetWalletResponse { wallet, tip, descriptors_near_edge, birthday_height } =
        super::wallet_status(model.clone());
    let proto::Wallet { name, chain, network, created_at_us, set_aside, rescan, archived_at_us } =
        wallet.unwrap();
    assert_same(
        &model,
        json!({
            "name": name, "chain": chain, "network": network, "created_at_us": created_at_us,
            "set_aside": set_aside_json(set_aside), "rescan": rescan_json(rescan),
            "birthday_height": birthday_height,
            "archived_at_us": archived_at_us,
            "tip": tip_json(tip), "descriptors_near_edge": descriptors_near_edge,
        }),
    );

    let model = AddressInfo {
        id: 1,
        address: Some("a".to_owned()),
        script: Hex(vec![0, 0xff]),
        spend_weight: 2,
        used: true,
    };
    let proto::WalletAddress { id, address, script, spend_weight, is_used } =
        super::address(model.clone());
    assert_same(
        &model,
        json!({
            "id": id, "address": address, "script": hex_encode(&script),
            "spend_weight": spend_weight, "used": is_used,
        }),
    );

    let model = DescriptorInfo {
        id: 1,
        descriptor: "d".to_owned(),
        keychain: 2,
        is_ranged: true,
        next_index: 3,
        derived_count: 4,
        lookahead: 5,
        near_edge: Some(NearEdgeInfo {
            index: 6,
            raise_lookahead_to: 7,
            scan_from_height: Some(8),
        }),
        archived_at_us: Some(9),
    };
    let proto::WalletDescriptor {
        id,
        descriptor,
        keychain,
        is_ranged,
        next_index,
        derived_count,
        lookahead,
        near_edge,
        archived_at_us,
    } = super::descriptor(model.clone());
    let proto::WalletNearEdge { index, raise_lookahead_to, scan_from_height } = near_edge.unwrap();
    assert_same(
        &model,
        json!({
            "id": id, "descriptor": descriptor, "keychain": keychain, "is_ranged": is_ranged,
            "next_index": next_index, "derived_count": derived_count, "lookahead": lookahead,
            "near_edge": {
                "index": index, "raise_lookahead_to": raise_lookahead_to,
                "scan_from_height": scan_from_height,
            },
            "archived_at_us": archived_at_us,
        }),
    );

    let (address, script) = (Some("a".to_owned()), Hex(vec![0x51]));
    let model = NewAddressInfo { index: 1, address_id: 2, address, script };
    let proto::NextAddressResponse { index, address_id, address, script } =
        new_address(model.clone());
    assert_same(
        &model,
        json!({
            "index": index, "address_id": address_id, "address": address,
            "script": hex_encode(&script),
        }),
    );
}

#[test]
fn of_imports_and_checks() {
    let notes = vec![LabelNote { line: 5, what: "n".to_owned() }];
    let model = LabelsImported { imported: 1, ignored: 2, skipped: 3, truncated: 4, notes };
    let proto::ImportLabelsResponse { imported, ignored, skipped, truncated, notes } =
        labels_imported(model.clone());
    let [proto::WalletLabelNote { line, what }]: [_; 1] = notes.try_into().unwrap();
    assert_same(
        &model,
        json!({
            "imported": imported, "ignored": ignored, "skipped": skipped,
            "truncated": truncated, "notes": [{ "line": line, "what": what }],
        }),
    );
}

#[test]
fn of_a_verification() {
    let violation = ViolationInfo {
        rule: "r",
        rows: 1,
        first_id: 2,
        remedy: "m",
        examples: vec!["e".to_owned()],
        not_named: 3,
    };
    let model = Verified {
        is_sound: true,
        violations: vec![violation],
        transactions: 4,
        transactions_decoded: 5,
        scripts_derived: 8,
        chain: Some(crate::wallets::ChainCompared {
            tip: super::tests::tip(),
            scripts: 6,
            outputs: 7,
            unseen_from_height: Some(10),
            unseen_reason: Some("rescan"),
        }),
        definitions_compared: 9,
    };
    let proto::VerifyWalletResponse {
        is_sound,
        violations,
        transactions,
        transactions_decoded,
        scripts_derived,
        chain,
        definitions_compared,
    } = super::verified(model.clone());
    let [proto::WalletViolation { rule, rows, first_id, remedy, examples, not_named }]: [_; 1] =
        violations.try_into().unwrap();
    let violation = json!({
        "rule": rule, "rows": rows, "first_id": first_id, "remedy": remedy,
        "examples": examples, "not_named": not_named,
    });
    let proto::ChainCompared { tip, scripts, outputs, unseen_from_height, unseen_reason } =
        chain.unwrap();
    assert_same(
        &model,
        json!({
            "is_sound": is_sound, "violations": [violation], "transactions": transactions,
            "transactions_decoded": transactions_decoded, "scripts_derived": scripts_derived,
            "definitions_compared": definitions_compared,
            "chain": {
                "tip": tip_json(tip), "scripts": scripts, "outputs": outputs,
                "unseen_from_height": unseen_from_height, "unseen_reason": unseen_reason,
            },
        }),
    );
}

#[test]
fn of_what_a_wallet_has() {
    let model = BalanceInfo {
        confirmed: Units(1),
        trusted_unconfirmed: Units(2),
        untrusted_unconfirmed: Units(3),
        pending: Units(4),
        immature: Units(5),
        leased: Units(6),
        held_back: Units(9),
        available: Units(7),
        total: Units(8),
        tip: Some(tip()),
        set_aside: Some(set_aside_info()),
        rescan: Some(RescanInfo { from_height: 2, next_height: 3 }),
        locked: Units(10),
        archived_height: Some(11),
    };
    let proto::GetBalanceResponse {
        confirmed,
        trusted_unconfirmed,
        untrusted_unconfirmed,
        pending,
        immature,
        leased,
        available,
        total,
        tip,
        held_back,
        set_aside,
        rescan,
        locked,
        archived_height,
    } = super::balance(&model);
    assert_same(
        &model,
        json!({
            "confirmed": units(confirmed), "trusted_unconfirmed": units(trusted_unconfirmed),
            "untrusted_unconfirmed": units(untrusted_unconfirmed), "pending": units(pending),
            "immature": units(immature), "leased": units(leased),
            "held_back": units(held_back), "locked": units(locked),
            "archived_height": archived_height,
            "available": units(available), "total": units(total), "tip": tip_json(tip),
            "set_aside": set_aside_json(set_aside), "rescan": rescan_json(rescan),
        }),
    );

    let model = CoinInfo {
        outpoint: output(1),
        amount: Units(2),
        address_id: 3,
        address: Some("a".to_owned()),
        script: Hex(vec![0, 0xfe]),
        class: "trusted",
        height: Some(4),
        confirmations: 5,
        is_coinbase: true,
        leased: true,
        is_spendable: true,
    };
    let proto::WalletCoin {
        outpoint,
        amount,
        address_id,
        class,
        height,
        confirmations,
        is_coinbase,
        is_leased,
        is_spendable,
        address,
        script,
    } = super::coin(&model);
    let class = proto::WalletCoinClass::try_from(class).unwrap().as_str_name();
    assert_same(
        &model,
        json!({
            "outpoint": output_json(outpoint), "amount": units(amount), "address_id": address_id,
            "class": word(class, "WALLET_COIN_CLASS_"), "height": height,
            "confirmations": confirmations, "is_coinbase": is_coinbase, "leased": is_leased,
            "is_spendable": is_spendable, "address": address, "script": hex_encode(&script),
        }),
    );
}

#[test]
fn of_a_lease() {
    let model = LeaseInfo {
        outpoint: output(1),
        amount: Units(2),
        owner: Hex(vec![3; 32]),
        expires_at_us: 4,
        hold_confirmations: Some(5),
        held: true,
        spent_height: Some(6),
        spent_by: Some(id(7)),
    };
    let proto::WalletLease {
        outpoint,
        amount,
        owner,
        expires_at_us,
        hold_confirmations,
        is_held,
        spent_height,
        spent_by,
    } = super::lease(&model);
    assert_same(
        &model,
        json!({
            "outpoint": output_json(outpoint), "amount": units(amount),
            "owner": hex_encode(&owner), "expires_at_us": expires_at_us,
            "hold_confirmations": hold_confirmations, "held": is_held,
            "spent_height": spent_height, "spent_by": hash_json(&spent_by.unwrap()),
        }),
    );
}

#[test]
fn of_transactions() {
    let model = TxDetails {
        summary: tx_info(),
        label: Some("l".to_owned()),
        inputs: vec![InputInfo { outpoint: output(1), amount: Some(Units(2)) }],
        outputs: vec![OwnOutputInfo { index: 3, amount: Units(4) }],
        raw: Some(Hex(vec![1, 2])),
    };
    let proto::WalletTransactionDetails { transaction, label, inputs, outputs, raw } =
        super::details(model.clone());
    let [proto::WalletInput { outpoint, amount }]: [_; 1] = inputs.try_into().unwrap();
    let input = json!({ "outpoint": output_json(outpoint), "amount": amount.map(units) });
    let [proto::WalletOwnOutput { index, amount }]: [_; 1] = outputs.try_into().unwrap();
    let mut message = transaction_json(transaction.unwrap());
    message["label"] = json!(label);
    message["inputs"] = json!([input]);
    message["outputs"] = json!([{ "index": index, "amount": units(amount) }]);
    message["raw"] = json!(raw.as_deref().map(hex_encode));
    assert_same(&model, message);

    let model = ReplacementInfo {
        replaced: id(1),
        replacement: id(2),
        reason: "replaced",
        created_at_us: 3,
    };
    let proto::WalletReplacement { replaced, replacement, reason, created_at_us } =
        super::replacement(&model);
    assert_same(
        &model,
        json!({
            "replaced": hash_json(&replaced), "replacement": hash_json(&replacement),
            "reason": reason_json(reason), "created_at_us": created_at_us,
        }),
    );
    let model = recorded_info();
    assert_same(&model, recorded_json(Some(super::recorded(&model))));
    let model =
        Abandoned { tx_hash: id(1), failed_descendants: vec![id(2), id(3)], released_leases: 4 };
    let proto::AbandonTransactionResponse { txid, failed_descendants, released_leases } =
        super::abandoned(&model);
    let failed_descendants = hashes_json(&failed_descendants);
    assert_same(
        &model,
        json!({
            "tx_hash": hash_json(&txid), "failed_descendants": failed_descendants,
            "released_leases": released_leases,
        }),
    );
    let model = BlockApplied {
        is_already_applied: true,
        recorded: 1,
        tip: Some(tip()),
        set_aside: vec!["w".to_owned()],
    };
    let proto::ApplyBlockResponse { already_applied, recorded, tip, set_aside } =
        super::applied(&model);
    assert_same(
        &model,
        json!({
            "is_already_applied": already_applied, "recorded": recorded, "tip": tip_json(tip),
            "set_aside": set_aside,
        }),
    );
}

#[test]
fn of_payments() {
    let model = PsbtInfo {
        psbt: "p".to_owned(),
        tx_hash: id(1),
        is_tx_hash_final: true,
        selection: selection_info(),
        change_address: Some("c".to_owned()),
        valid_from_height: Some(27),
        valid_from_time: Some(28),
        recorded: Some(recorded_info()),
    };
    let proto::CreatePsbtResponse {
        psbt,
        txid,
        is_txid_final,
        selection,
        change_address,
        recorded,
        valid_from_height,
        valid_from_time,
    } = super::psbt(model.clone());
    assert_same(
        &model,
        json!({
            "psbt": psbt, "tx_hash": hash_json(&txid), "is_tx_hash_final": is_txid_final,
            "selection": selection_json(selection), "change_address": change_address,
            "recorded": recorded_json(recorded), "valid_from_height": valid_from_height,
            "valid_from_time": valid_from_time,
        }),
    );

    let model = BumpInfo {
        replaces: id(1),
        evicts: vec![id(2)],
        inputs: vec![selected_info(3)],
        kept_inputs: 4,
        fee: Units(5),
        replaced_fees: Units(6),
        weight: 7,
        change: Some(Units(9)),
        change_address: Some("c".to_owned()),
        valid_from_height: Some(27),
        valid_from_time: Some(28),
        psbt: "p".to_owned(),
        tx_hash: id(8),
        is_tx_hash_final: true,
        leased: Some(leased_info()),
        recorded: Some(recorded_info()),
    };
    let proto::BumpFeeResponse {
        replaces,
        evicts,
        inputs,
        kept_inputs,
        fee,
        replaced_fees,
        weight,
        psbt,
        txid,
        is_txid_final,
        leased,
        recorded,
        change,
        change_address,
        valid_from_height,
        valid_from_time,
    } = super::bump(model.clone());
    assert_same(
        &model,
        json!({
            "replaces": hash_json(&replaces), "evicts": hashes_json(&evicts),
            "inputs": inputs.into_iter().map(selected_json).collect::<Vec<_>>(),
            "kept_inputs": kept_inputs, "fee": units(fee),
            "replaced_fees": units(replaced_fees), "weight": weight, "psbt": psbt,
            "tx_hash": hash_json(&txid), "is_tx_hash_final": is_txid_final,
            "leased": leased_json(leased), "recorded": recorded_json(recorded),
            "change": units(change.unwrap()), "change_address": change_address,
            "valid_from_height": valid_from_height, "valid_from_time": valid_from_time,
        }),
    );
}

#[test]
fn every_word_has_a_number() {
    for word in TxStatus::ALL.map(TxStatus::name) {
        assert_ne!(status(word), 0, "{word}");
    }
    for word in InvalidReason::ALL.map(InvalidReason::name) {
        assert_ne!(reason(word), 0, "{word}");
    }
    let classes =
        [CoinClass::Pending, CoinClass::Untrusted, CoinClass::Trusted, CoinClass::Confirmed];
    for word in classes.map(CoinClass::name) {
        assert_ne!(class(word), 0, "{word}");
    }
    for word in ["inserted", "updated", "revived", "unchanged"] {
        assert_ne!(change(word), 0, "{word}");
    }
    assert_eq!(status("never heard of"), 0);
}
