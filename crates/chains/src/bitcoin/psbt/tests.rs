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
        lock_time: LockTime::ZERO,
        input: vec![unsigned_input(&OutPoint::new(Txid::from_bytes([7; 32]), index))],
        output: vec![tx_out(value, &script)],
    };
    PsbtInput {
        outpoint: OutPoint::new(txid_of(&parent.compute_txid()), 0),
        value,
        script,
        parent: with_parent.then(|| ::bitcoin::consensus::serialize(&parent)),
        origin: Some(origin),
    }
}

fn request(inputs: Vec<PsbtInput>, fee: u64) -> PsbtRequest {
    let total: u64 = inputs.iter().map(|input| input.value).sum();
    let change = origin("wpkh(KEY)", 99);
    PsbtRequest {
        network: NETWORK,
        inputs,
        outputs: vec![
            PsbtOutput { value: 1_000, script: vec![0x51], origin: None },
            PsbtOutput {
                value: total - 1_000 - fee,
                script: script_of(&change),
                origin: Some(change),
            },
        ],
        fee,
        lock_height: 0,
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

    let mut locked = good.clone();
    locked.lock_height = 500_000_000;
    assert!(matches!(build_psbt(&locked), Err(PsbtError::LockHeight { .. })));

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
