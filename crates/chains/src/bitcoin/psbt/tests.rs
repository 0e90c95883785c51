use utxokeep_core::{
    Txid,
    wallet::{AllowedGuards, CoinAge, Guard, LockTime, NextBlock, PaymentGuards, ValidFrom},
};

use super::*;
use crate::bitcoin::{decode_tx, derive_scripts};

const NETWORK: Network = Network::BitcoinRegtest;
const ACCOUNT: &str = "[0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ";

fn origin(form: &str, index: u32) -> ScriptOrigin {
    ScriptOrigin { descriptor: form.replace("KEY", &format!("{ACCOUNT}/0/*")), index }
}

fn script_of(origin: &ScriptOrigin) -> Vec<u8> {
    let range = origin.index..origin.index + 1;
    derive_scripts(&origin.descriptor, NETWORK, range).unwrap()[0].script.clone()
}

/// A parent with one output, and the input that spends it.
fn input(form: &str, index: u32, value: u64, with_parent: bool) -> PsbtInput {
    let origin = origin(form, index);
    let script = script_of(&origin);
    let parent = Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![unsigned_input(
            &OutPoint::new(Txid::from_bytes([7; 32]), index),
            Sequence::MAX,
        )],
        output: vec![tx_out(value, &script)],
    };
    PsbtInput {
        outpoint: OutPoint::new(txid_of(&parent.compute_txid()), 0),
        value,
        script,
        parent: with_parent.then(|| ::bitcoin::consensus::serialize(&parent)),
        origin: Some(origin),
        age: Some(CoinAge { height: 900, time: Some(1_699_000_000) }),
        sequence: None,
    }
}

fn request(inputs: Vec<PsbtInput>, fee: u64) -> PsbtRequest {
    let total: u64 = inputs.iter().map(|input| input.value).sum();
    let change = origin("wpkh(KEY)", 99);
    PsbtRequest {
        network: NETWORK,
        inputs,
        outputs: vec![
            PsbtOutput { value: 1_000, script: script_of(&origin("wpkh(KEY)", 98)), origin: None },
            PsbtOutput {
                value: total - 1_000 - fee,
                script: script_of(&change),
                origin: Some(change),
            },
        ],
        fee,
        lock_time: LockTime::Height(0),
        kept_version: None,
        next: NextBlock { height: 1_000, median_time: 1_700_000_000 },
        guards: PaymentGuards::default(),
    }
}

#[test]
fn every_form_of_input_reads_back_balanced() {
    let forms = ["wpkh(KEY)", "sh(wpkh(KEY))", "tr(KEY)", "wsh(multi(1,KEY))", "pkh(KEY)"];
    let inputs: Vec<PsbtInput> =
        (0u32..).zip(forms).map(|(at, form)| input(form, at, 5_000, form == "pkh(KEY)")).collect();
    let request = request(inputs, 777);
    let psbt = build_psbt(&request).unwrap();
    let read = read_psbt(&psbt.base64).unwrap();
    assert_eq!(read.txid, psbt.txid);
    assert_eq!(read.fee, Some(777));
    assert!(read.is_replaceable);
    assert_eq!(read.inputs_with_keys, forms.len());
    let spent: Vec<_> = request.inputs.iter().map(|i| (i.outpoint, Some(i.value))).collect();
    assert_eq!(read.inputs, spent);
    let paid: Vec<_> = request.outputs.iter().map(|o| (o.value, o.script.clone())).collect();
    assert_eq!(read.outputs, paid);
    assert!(!psbt.is_txid_final, "a signature of pkh is part of the id");
    assert_eq!(decode_tx(&psbt.unsigned_tx).unwrap().txid, psbt.txid);
}

#[test]
fn witnesses_alone_keep_the_id() {
    let inputs = vec![input("wpkh(KEY)", 0, 9_000, true), input("tr(KEY)", 1, 9_000, true)];
    assert!(build_psbt(&request(inputs, 100)).unwrap().is_txid_final);
    let nested = vec![input("sh(wpkh(KEY))", 0, 9_000, false)];
    assert!(!build_psbt(&request(nested, 100)).unwrap().is_txid_final);
}

#[test]
fn an_input_without_segwit_needs_its_parent() {
    let error = build_psbt(&request(vec![input("pkh(KEY)", 0, 5_000, false)], 10)).unwrap_err();
    assert!(matches!(error, PsbtError::MissingParent { .. }), "{error}");
    let mut unknown = input("pkh(KEY)", 0, 5_000, false);
    unknown.origin = None;
    let error = build_psbt(&request(vec![unknown], 10)).unwrap_err();
    assert!(matches!(error, PsbtError::MissingParent { .. }), "{error}");
}

#[test]
fn contradictions_are_refused() {
    let good = request(vec![input("wpkh(KEY)", 0, 5_000, true)], 10);
    build_psbt(&good).unwrap();

    let mut unbalanced = good.clone();
    unbalanced.fee = 11;
    assert!(matches!(build_psbt(&unbalanced), Err(PsbtError::Unbalanced { .. })));

    let mut amount = good.clone();
    amount.inputs[0].value += 1;
    amount.outputs[1].value += 1;
    assert!(matches!(build_psbt(&amount), Err(PsbtError::WrongParent { .. })));

    let mut twice = good.clone();
    twice.inputs.push(twice.inputs[0].clone());
    twice.outputs[1].value += 5_000;
    assert!(matches!(build_psbt(&twice), Err(PsbtError::SpentTwice { .. })));

    let mut foreign = good.clone();
    foreign.outputs[0].origin = Some(origin("wpkh(KEY)", 3));
    assert!(matches!(build_psbt(&foreign), Err(PsbtError::WrongOrigin { .. })));

    let mut elsewhere = good.clone();
    elsewhere.inputs[0].origin = Some(origin("wpkh(KEY)", 3));
    assert!(matches!(build_psbt(&elsewhere), Err(PsbtError::WrongOrigin { .. })));

    let mut empty = good;
    empty.outputs.clear();
    assert!(matches!(build_psbt(&empty), Err(PsbtError::Parts)));
}

#[test]
fn text_that_is_no_psbt_is_refused() {
    for text in ["", "hello", "cHNidP8=", "AAAA"] {
        assert!(matches!(read_psbt(text), Err(PsbtError::Unreadable { .. })), "{text}");
    }
}

/// A key beside the usual one.
const OTHER: &str = "[0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/7/*";

fn built(request: &PsbtRequest) -> (Transaction, ValidFrom) {
    let psbt = build_psbt(request).unwrap();
    (::bitcoin::consensus::deserialize(&psbt.unsigned_tx).unwrap(), psbt.valid_from)
}

/// The request for one coin of a form, spent after `lock_height`.
fn locked(form: &str, lock_height: u32) -> PsbtRequest {
    let form = form.replace("OTHER", OTHER);
    PsbtRequest {
        lock_time: LockTime::Height(lock_height),
        ..request(vec![input(&form, 0, 50_000, true)], 500)
    }
}

#[test]
fn older_sets_the_sequence_of_its_input() {
    for (form, sequence, height) in [
        ("wsh(and_v(v:pk(KEY),older(10)))", 10, 910),
        ("tr(OTHER,and_v(v:pk(KEY),older(10)))", 0xffff_fffd, 0),
        ("wsh(or_d(pk(OTHER),and_v(v:pk(KEY),older(60000))))", 0xffff_fffd, 0),
        // The way that opens first is planned, not the cheapest.
        ("wsh(or_i(and_v(v:pkh(KEY),older(70)),and_v(v:pk(OTHER),older(90))))", 70, 970),
    ] {
        let (tx, valid) = built(&locked(form, 0));
        assert_eq!(tx.input[0].sequence.to_consensus_u32(), sequence, "{form}");
        assert_eq!(valid.height.unwrap_or(0), height, "{form}");
        assert_eq!(tx.lock_time.to_consensus_u32(), 0, "{form}");
        assert!(tx.is_explicitly_rbf() && tx.version == Version::TWO);
    }
}

/// Taproot without a key path: plain, with its origin, and as the root of an extended key.
#[test]
fn nobody_signs_with_the_unspendable_key_so_its_leaf_sets_the_sequence() {
    let point = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";
    let root = ::bitcoin::bip32::Xpub {
        network: ::bitcoin::NetworkKind::Test,
        depth: 0,
        parent_fingerprint: ::bitcoin::bip32::Fingerprint::default(),
        child_number: 0.into(),
        public_key: format!("02{point}").parse().unwrap(),
        chain_code: [7; 32].into(),
    };
    for key in [point.to_owned(), format!("[0c5f9a1e]{point}"), format!("{root}/0/*")] {
        let (tx, valid) = built(&locked(&format!("tr({key},and_v(v:pk(KEY),older(10)))"), 0));
        assert_eq!(tx.input[0].sequence, Sequence::from_height(10), "{key}");
        assert_eq!(valid.height, Some(910), "{key}");
        let (tx, _) = built(&locked(&format!("tr({key},and_v(v:pk(KEY),after(700)))"), 0));
        assert_eq!(tx.lock_time.to_consensus_u32(), 700, "{key}");
        let (tx, _) =
            built(&locked(&format!("tr({key},{{pk(OTHER),and_v(v:pk(KEY),older(9))}})"), 0));
        assert_eq!(tx.input[0].sequence, Sequence::ENABLE_RBF_NO_LOCKTIME, "a leaf without a lock");
        let nobodys = build_psbt(&locked(&format!("tr({key})"), 0));
        assert!(matches!(nobodys, Err(PsbtError::Unspendable { .. })), "{key}");
    }
}

#[test]
fn after_sets_the_lock_time_and_the_later_of_two_wins() {
    let form = "wsh(and_v(v:pk(KEY),after(700)))";
    for (asked, lock_time) in [(0, 700), (650, 700), (800, 800)] {
        let (tx, valid) = built(&locked(form, asked));
        assert_eq!(tx.lock_time.to_consensus_u32(), lock_time);
        assert_eq!(valid.height, Some(lock_time + 1));
        assert_eq!(tx.input[0].sequence, Sequence::ENABLE_RBF_NO_LOCKTIME, "a lock that counts");
    }
    let (tx, _) = built(&locked("wpkh(KEY)", 123));
    assert_eq!(tx.lock_time.to_consensus_u32(), 123);
    let by_time = "wsh(and_v(v:pk(KEY),after(1600000000)))";
    let (tx, valid) = built(&locked(by_time, 0));
    assert_eq!(tx.lock_time.to_consensus_u32(), 1_600_000_000);
    assert_eq!(valid.median_time, Some(1_600_000_001));
    assert!(matches!(build_psbt(&locked(by_time, 123)), Err(PsbtError::MixedLockTimes)));
}

#[test]
fn what_the_next_block_cannot_hold_is_refused_unless_allowed() {
    for (form, lock_height, valid_from) in [
        ("wsh(and_v(v:pk(KEY),older(101)))", 0, Some(1_001)),
        ("wsh(and_v(v:pk(KEY),after(1000)))", 0, Some(1_001)),
        ("wpkh(KEY)", 1_000, Some(1_001)),
        ("wsh(and_v(v:pk(KEY),after(1900000000)))", 0, None),
        // 2,000 units of 512 seconds.
        ("wsh(and_v(v:pk(KEY),older(4196304)))", 0, None),
    ] {
        let mut request = locked(form, lock_height);
        let error = build_psbt(&request).unwrap_err();
        let is_guarded =
            matches!(&error, PsbtError::Guarded(refusal) if refusal.guard == Guard::NotYetValid);
        assert!(is_guarded, "{form}: {error}");
        request.guards.allow = AllowedGuards::NONE.with(Guard::NotYetValid);
        assert_eq!(built(&request).1.height, valid_from, "{form}");
    }
    built(&locked("wsh(and_v(v:pk(KEY),older(100)))", 0));
    built(&locked("wpkh(KEY)", 999));
}

#[test]
fn a_coin_that_no_signature_opens_is_refused() {
    let hash = "6c60f404f8167a38fc70eaf8aa17ac351023bef86bcb9d1086a19afe95bd5333";
    // Somebody who has the preimage can finish this one.
    built(&locked(&format!("wsh(and_v(v:pk(KEY),sha256({hash})))"), 0));
    // Who waits needs none, so waiting is planned.
    let either = format!("wsh(andor(pk(KEY),older(20),and_v(v:pk(OTHER),sha256({hash}))))");
    assert_eq!(built(&locked(&either, 0)).0.input[0].sequence, Sequence::from_height(20));
}

#[test]
fn a_replacement_keeps_the_relative_lock_of_an_input_without_a_descriptor() {
    let mut request = locked("wsh(multi(1,KEY))", 0);
    request.inputs[0].origin = None;
    for (old, kept) in [(Some(20), 20), (Some(0xffff_ffff), 0xffff_fffd), (None, 0xffff_fffd)] {
        request.inputs[0].sequence = old;
        assert_eq!(built(&request).0.input[0].sequence.to_consensus_u32(), kept);
    }
    request.kept_version = Some(3);
    assert_eq!(built(&request).0.version, Version(3));
}

#[test]
fn taproot_alone_carries_no_parents() {
    let parents = |inputs: Vec<PsbtInput>| {
        let base64 = build_psbt(&request(inputs, 100)).unwrap().base64;
        let bytes = base64::engine::general_purpose::STANDARD.decode(base64).unwrap();
        let psbt = Psbt::deserialize(&bytes).unwrap();
        assert!(psbt.inputs.iter().all(|input| input.witness_utxo.is_some()));
        psbt.inputs.iter().filter(|input| input.non_witness_utxo.is_some()).count()
    };
    let taproot = |index| input("tr(KEY)", index, 9_000, true);
    assert_eq!(parents(vec![taproot(0), taproot(1)]), 0);
    assert_eq!(parents(vec![taproot(0), input("wpkh(KEY)", 1, 9_000, true)]), 2);
}

#[test]
fn guards_stand_before_every_psbt() {
    let mut dust = request(vec![input("wpkh(KEY)", 0, 50_000, true)], 500);
    dust.outputs[0].value = 100;
    dust.outputs[1].value += 900;
    assert!(matches!(build_psbt(&dust), Err(PsbtError::Guarded(_))));
    dust.guards.allow = AllowedGuards::NONE.with(Guard::Dust);
    build_psbt(&dust).unwrap();
    let paying = |script: Vec<u8>| {
        let mut request = request(vec![input("wpkh(KEY)", 0, 50_000, true)], 500);
        request.outputs[0].script = script;
        match build_psbt(&request) {
            Err(PsbtError::Guarded(refusal)) => Some((refusal.guard, refusal.output)),
            other => other.map(|_| None).unwrap(),
        }
    };
    assert_eq!(paying(vec![0x51]), Some((Guard::NonstandardScript, Some(0))));
    // 5 is the first coordinate of no point, 4 of one.
    let lost = Some((Guard::UnspendableValue, Some(0)));
    for (last, refused) in [(5, lost), (4, None)] {
        let key = [&[0; 31][..], &[last]].concat();
        assert_eq!(paying([&[0x51, 32][..], &key].concat()), refused);
        assert_eq!(paying([&[33, 2][..], &key, &[0xac]].concat()), refused);
    }
    let burned = request(vec![input("wpkh(KEY)", 0, 5_000_000_000, true)], 4_000_000_000);
    let error = build_psbt(&burned).unwrap_err();
    assert!(matches!(error, PsbtError::Guarded(refusal) if refusal.guard == Guard::FeeMax));
}
