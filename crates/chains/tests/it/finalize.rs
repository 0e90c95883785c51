//! PSBTs that come back from signers.

use utxokeep_chains::{
    PsbtInput, PsbtOutput, PsbtRequest, ScriptOrigin, build_psbt, decode_tx, derive_scripts,
    finalize_psbt,
};
use utxokeep_core::{
    Network, OutPoint, Txid,
    wallet::{AllowedGuards, CoinAge, LockTime, NextBlock, PaymentGuards, PaymentLimits},
};
use utxokeep_testkit::Signer;

const NETWORK: Network = Network::BitcoinRegtest;

/// An unsigned PSBT that spends one coin of a keychain, and pays a fee of 1,000.
fn unsigned(branch: &str) -> (Txid, String) {
    let origin = ScriptOrigin { descriptor: branch.to_owned(), index: 3 };
    let script = derive_scripts(branch, NETWORK, 3..4).unwrap()[0].script.clone();
    let request = PsbtRequest {
        network: NETWORK,
        inputs: vec![PsbtInput {
            outpoint: OutPoint::new(Txid::from_bytes([6; 32]), 1),
            value: 100_000,
            script: script.clone(),
            parent: None,
            origin: Some(origin),
            age: Some(CoinAge { height: 900, time: None }),
            sequence: None,
        }],
        outputs: vec![PsbtOutput { value: 99_000, script, origin: None }],
        fee: 1_000,
        lock_time: LockTime::Height(0),
        kept_version: None,
        next: NextBlock { height: 1_000, median_time: 1_700_000_000 },
        guards: PaymentGuards { limits: PaymentLimits::default(), allow: AllowedGuards::NONE },
    };
    let made = build_psbt(&request).unwrap();
    (made.txid, made.base64)
}

#[test]
fn a_psbt_is_whole_when_every_signer_has_signed_it() {
    let (one, two) = (Signer::of_seed(1), Signer::of_seed(2));
    let branch = format!("wsh(multi(2,{}/0/*,{}/0/*))", one.account(), two.account());
    let (txid, psbt) = unsigned(&branch);
    for incomplete in [psbt.clone(), one.sign(&psbt), two.sign(&psbt)] {
        let error = finalize_psbt(&incomplete).unwrap_err().to_string();
        assert!(error.contains("not completely signed: input 0"), "{error}");
    }
    let signed = finalize_psbt(&two.sign(&one.sign(&psbt))).unwrap();
    assert_eq!((signed.unsigned_txid, signed.fee), (txid, Some(1_000)));
    let tx = decode_tx(&signed.raw).unwrap();
    assert_eq!((tx.txid, tx.signed_inputs), (txid, 1));
    // Two signatures and the script; what multisig takes too much is empty.
    assert_eq!(tx.witness_parts, 3);
}

#[test]
fn only_the_keys_of_the_coin_make_a_psbt_whole() {
    let signer = Signer::default();
    let (_, psbt) = unsigned(&format!("wpkh({}/0/*)", signer.account()));
    let whole = finalize_psbt(&signer.sign(&psbt)).unwrap();
    assert_eq!(decode_tx(&whole.raw).unwrap().witness_parts, 2);
    assert!(finalize_psbt("").is_err());
    assert!(finalize_psbt("cHNidP8=").is_err());
    assert!(finalize_psbt(&Signer::of_seed(9).sign(&psbt)).is_err(), "keys of somebody else");
}
