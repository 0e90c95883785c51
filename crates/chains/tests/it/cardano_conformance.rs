//! Transactions of the ledger's own tests: the set after them must be the ledger's.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use minicbor::{Decoder, data::Type};
use serde_json::Value;
use utxokeep_chains::cardano::{DecodedTx, decode_tx};
use utxokeep_core::{Datum, OutPoint, Txid, hex_decode, hex_encode};
use utxokeep_testkit::testdata;

const CONWAY: u8 = 7;

/// An output with everything that must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Coin {
    address: Vec<u8>,
    lovelace: u64,
    assets: Vec<(Vec<u8>, Vec<u8>, u64)>,
    datum: Option<(bool, Vec<u8>)>,
    script: Option<Vec<u8>>,
}

type Set = BTreeMap<OutPoint, Coin>;

fn apply(set: &mut Set, tx: &DecodedTx) {
    for input in &tx.inputs {
        assert!(set.remove(input).is_some(), "{input} is not there");
    }
    for output in &tx.outputs {
        let details = tx.details_of(output).parse().unwrap();
        let assets = details.assets.iter();
        let coin = Coin {
            address: tx.address_of(output).to_vec(),
            lovelace: output.value,
            assets: assets.map(|a| (a.policy.to_vec(), a.name.to_vec(), a.quantity)).collect(),
            datum: match details.datum {
                Datum::None => None,
                Datum::Hash(hash) => Some((false, hash.to_vec())),
                Datum::Inline(bytes) => Some((true, bytes.to_vec())),
            },
            script: details.script.map(|script| script.bytes.to_vec()),
        };
        assert_eq!(set.insert(OutPoint::new(tx.tx.txid, output.index), coin), None);
    }
}

/// Steps over the start of an array; its items follow.
fn enter(d: &mut Decoder<'_>, skipped: usize) {
    d.array().unwrap();
    for _ in 0..skipped {
        d.skip().unwrap();
    }
}

fn is_end(d: &mut Decoder<'_>, len: Option<u64>, done: u64) -> bool {
    match len {
        Some(len) => len == done,
        None if d.datatype().unwrap() == Type::Break => {
            d.skip().unwrap();
            true
        }
        None => false,
    }
}

fn entries<'b>(d: &mut Decoder<'b>, mut entry: impl FnMut(&mut Decoder<'b>)) {
    let len = d.map().unwrap();
    let mut done = 0;
    while !is_end(d, len, done) {
        entry(d);
        done += 1;
    }
}

fn read_outpoint(d: &mut Decoder<'_>) -> OutPoint {
    enter(d, 0);
    let txid = Txid::from_slice(d.bytes().unwrap()).unwrap();
    OutPoint::new(txid, d.u32().unwrap())
}

/// Reads an output on its own terms, not with the code under test.
fn read_coin(d: &mut Decoder<'_>) -> Coin {
    let mut coin =
        Coin { address: Vec::new(), lovelace: 0, assets: Vec::new(), datum: None, script: None };
    if matches!(d.datatype().unwrap(), Type::Array | Type::ArrayIndef) {
        let len = d.array().unwrap();
        coin.address = d.bytes().unwrap().to_vec();
        read_value(d, &mut coin);
        let has_datum = match len {
            Some(len) => len == 3,
            None => d.datatype().unwrap() != Type::Break,
        };
        if has_datum {
            coin.datum = Some((false, d.bytes().unwrap().to_vec()));
        }
        if len.is_none() {
            d.skip().unwrap();
        }
        return coin;
    }
    entries(d, |d| match d.u8().unwrap() {
        0 => coin.address = d.bytes().unwrap().to_vec(),
        1 => read_value(d, &mut coin),
        2 => {
            enter(d, 0);
            let is_inline = d.u8().unwrap() == 1;
            if is_inline {
                d.tag().unwrap();
            }
            coin.datum = Some((is_inline, d.bytes().unwrap().to_vec()));
        }
        _ => {
            d.tag().unwrap();
            coin.script = Some(d.bytes().unwrap().to_vec());
        }
    });
    coin
}

fn read_value(d: &mut Decoder<'_>, coin: &mut Coin) {
    if d.datatype().unwrap() != Type::Array {
        coin.lovelace = d.u64().unwrap();
        return;
    }
    enter(d, 0);
    coin.lovelace = d.u64().unwrap();
    let mut assets = BTreeMap::new();
    entries(d, |d| {
        let policy = d.bytes().unwrap().to_vec();
        entries(d, |d| {
            let name = d.bytes().unwrap().to_vec();
            assets.insert((policy.clone(), name), d.u64().unwrap());
        });
    });
    coin.assets = assets.into_iter().map(|((policy, name), n)| (policy, name, n)).collect();
}

/// The set inside a state of the ledger, which nests it four arrays deep.
fn set_of(state: &[u8]) -> Set {
    let mut d = Decoder::new(state);
    for skipped in [3, 1, 1, 0] {
        enter(&mut d, skipped);
    }
    let mut set = Set::new();
    entries(&mut d, |d| {
        let outpoint = read_outpoint(d);
        set.insert(outpoint, read_coin(d));
    });
    set
}

fn raw_item<'b>(d: &mut Decoder<'b>) -> &'b [u8] {
    let start = d.position();
    d.skip().unwrap();
    &d.input()[start..d.position()]
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_set_after_every_ledger_test_is_the_ledgers() {
    let Some(dir) = testdata("cardano/conformance/eras") else { return };
    let mut files = Vec::new();
    files_below(&dir, &mut files);
    let (mut applied, mut invalid) = (0, 0);
    for path in &files {
        let bytes = fs::read(path).unwrap();
        let mut d = Decoder::new(&bytes);
        enter(&mut d, 1);
        let mut set = set_of(raw_item(&mut d));
        let expected = set_of(raw_item(&mut d));
        let len = d.array().unwrap();
        let mut done = 0;
        while !is_end(&mut d, len, done) {
            let event = raw_item(&mut d);
            done += 1;
            let mut d = Decoder::new(event);
            enter(&mut d, 0);
            if d.u8().unwrap() != 0 {
                continue;
            }
            let tx = d.bytes().unwrap();
            if d.bool().unwrap() {
                let tx = decode_tx(tx, CONWAY)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                apply(&mut set, &tx);
                applied += 1;
                invalid += usize::from(tx.tx.is_invalid);
            }
        }
        assert!(set == expected, "{}: {set:#?} is not {expected:#?}", path.display());
    }
    let seen = (files.len(), applied, invalid);
    assert!(files.len() >= 160 && applied >= 1_136 && invalid >= 11, "too few: {seen:?}");
}

/// Every scenario whose transaction is accepted, by its number.
fn scenarios() -> Option<BTreeMap<String, Value>> {
    let dir = testdata("cardano/tx-scenarios/scenarios")?;
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let scenarios = files.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap()[..5].to_owned();
        (name, serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
    });
    Some(scenarios.collect())
}

fn bytes_of(text: &Value) -> Vec<u8> {
    hex_decode(text.as_str().unwrap()).unwrap()
}

/// The set a scenario starts with, and its transaction.
fn start_of(scenario: &Value) -> (Set, Vec<u8>) {
    let outputs = scenario["initialState"]["utxo"].as_array().unwrap();
    let set = outputs.iter().map(|entry| {
        let (input, output) = (bytes_of(&entry["input"]), bytes_of(&entry["output"]));
        (read_outpoint(&mut Decoder::new(&input)), read_coin(&mut Decoder::new(&output)))
    });
    (set.collect(), bytes_of(&scenario["transaction"]))
}

#[test]
fn accepted_transactions_spend_what_is_there() {
    let Some(scenarios) = scenarios() else { return };
    let mut accepted = 0;
    for (name, scenario) in &scenarios {
        let (mut set, raw) = start_of(scenario);
        let decoded = decode_tx(&raw, CONWAY);
        if scenario["expected"] == "Pass" {
            let tx = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
            apply(&mut set, &tx);
            accepted += 1;
        }
    }
    assert_eq!(scenarios.len(), 240);
    assert_eq!(accepted, 94);
}

#[test]
fn a_failed_transaction_gives_its_collateral_and_gets_the_rest_back() {
    let Some(scenarios) = scenarios() else { return };
    let (mut set, raw) = start_of(&scenarios["00016"]);
    let before = set.len();
    let tx = decode_tx(&raw, CONWAY).unwrap();
    assert!(tx.tx.is_invalid);
    apply(&mut set, &tx);
    assert_eq!(set.len(), before);
    let spent = tx.inputs[0].txid().to_hex();
    assert!(spent.starts_with("9c3e7f1b") && spent.ends_with("1c9e"), "{spent}");
    let [output] = &tx.outputs[..] else { panic!("{:?}", tx.outputs) };
    assert_eq!((tx.inputs.len(), output.index, output.value), (1, 1, 2_000_000));
    let details = tx.details_of(output).parse().unwrap();
    assert!(details.is_collateral_return);
    let Datum::Hash(hash) = details.datum else { panic!("{details:?}") };
    assert!(hex_encode(hash).starts_with("9e1199a9"));

    let (mut set, raw) = start_of(&scenarios["00017"]);
    let tx = decode_tx(&raw, CONWAY).unwrap();
    apply(&mut set, &tx);
    assert!(tx.tx.is_invalid && tx.outputs.is_empty());
    assert_eq!(tx.inputs, [OutPoint::new(Txid::from_bytes([0x33; 32]), 0)]);
}
