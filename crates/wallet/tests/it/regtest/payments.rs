//! From a selection to a PSBT, with the keys that a signer needs.

use utxokeep_chains::{
    PsbtInput, PsbtOutput, PsbtRequest, ScriptOrigin, UnsignedPsbt, build_psbt, decode_tx,
    read_psbt,
};
use utxokeep_core::wallet::{LockTime, PaymentGuards};
use utxokeep_testkit::RegtestA;
use utxokeep_wallet::{
    Amount, BumpRequest, CHANGE_KEYCHAIN, Credits, FeeRate, LeaseId, LeaseTerms, Ledger,
    LedgerError, NewOutput, NewTx, PaymentRequest, RecordOptions, ScriptSource, Seen, SelectedCoin,
    Selection, SelectionRequest, TxState, WalletId,
};

use crate::regtest::chain::{NOW, TestChain, follow, hd_descriptors, open, wallet};

pub(crate) const HOUR: i64 = 3_600_000_000;

pub(crate) fn owner(name: u8) -> LeaseTerms {
    LeaseTerms::until(LeaseId::from_bytes([name; 32]), HOUR)
}

/// The node's own wallet at the end of the chain.
pub(crate) fn rich_wallet(url: &str) -> (Ledger, WalletId) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    follow(&ledger, &TestChain::whole());
    (ledger, wallet)
}

/// A script of somebody else.
pub(crate) fn stranger(value: u64) -> NewOutput {
    NewOutput { amount: Amount::new(value).unwrap(), script: [&[0, 20][..], &[9; 20]].concat() }
}

/// A new change address of the wallet.
pub(crate) fn change_script(ledger: &Ledger, wallet: WalletId) -> Vec<u8> {
    let descriptors = ledger.descriptors(wallet).unwrap();
    let keychain = descriptors.iter().find(|each| each.keychain == CHANGE_KEYCHAIN).unwrap();
    ledger.reveal_next_address(wallet, keychain.id, NOW).unwrap().script
}

/// The PSBT that spends coins of the wallet.
pub(crate) fn psbt(
    ledger: &Ledger,
    wallet: WalletId,
    coins: &[SelectedCoin],
    outputs: &[NewOutput],
    fee: u64,
) -> UnsignedPsbt {
    let scripts = coins.iter().map(|coin| &coin.script);
    let scripts = scripts.chain(outputs.iter().map(|output| &output.script)).cloned();
    let sources = ledger.script_sources(wallet, &scripts.collect::<Vec<_>>()).unwrap();
    let origin = |script: &[u8]| {
        let source: Option<&ScriptSource> = sources.iter().find(|each| each.script == script);
        source.map(|source| ScriptOrigin {
            descriptor: source.descriptor.clone(),
            index: source.index,
        })
    };
    let (ages, next) = ledger.coin_ages(wallet, coins, NOW).unwrap();
    let inputs = coins.iter().zip(ages).map(|(coin, age)| PsbtInput {
        outpoint: coin.outpoint,
        value: coin.amount.get(),
        script: coin.script.clone(),
        parent: ledger.transaction(wallet, coin.outpoint.txid()).unwrap().raw,
        origin: origin(&coin.script),
        age,
        sequence: None,
    });
    let outputs = outputs.iter().map(|output| PsbtOutput {
        value: output.amount.get(),
        script: output.script.clone(),
        origin: origin(&output.script),
    });
    build_psbt(&PsbtRequest {
        network: RegtestA::NETWORK,
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        fee,
        lock_time: LockTime::Height(0),
        kept_version: None,
        next,
        guards: PaymentGuards::default(),
    })
    .unwrap()
}

/// The transaction of a PSBT, for the ledger.
pub(crate) fn unsigned(psbt: &UnsignedPsbt) -> NewTx {
    let tx = decode_tx(&psbt.unsigned_tx).unwrap();
    let output = |(value, script)| NewOutput { amount: Amount::new(value).unwrap(), script };
    NewTx {
        txid: tx.txid,
        inputs: tx.inputs,
        outputs: tx.outputs.into_iter().map(output).collect(),
        coinbase: false,
        raw: Some(psbt.unsigned_tx.clone()),
        credits: Credits::Watched,
    }
}

/// Selects and leases coins for a payment, and makes its outputs.
pub(crate) fn selected(
    ledger: &Ledger,
    wallet: WalletId,
    value: u64,
    rate: u32,
    terms: &LeaseTerms,
) -> (Selection, Vec<NewOutput>) {
    let value = Amount::new(value).unwrap();
    let request = SelectionRequest::new(value, FeeRate::per_vbyte(rate), 7);
    let selection = ledger.select_and_lease(wallet, &request, terms, NOW).unwrap();
    let mut outputs = vec![stranger(value.get())];
    if let Some(change) = selection.change {
        let script = change_script(ledger, wallet);
        outputs.push(NewOutput { amount: Amount::new(change).unwrap(), script });
    }
    (selection, outputs)
}

fn a_selection_becomes_a_psbt(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    for (value, rate) in [(1_000, 1), (150_000_000, 5), (20_000_000_000, 2)] {
        let terms = owner(u8::try_from(rate).unwrap());
        let (selection, outputs) = selected(&ledger, wallet, value, rate, &terms);
        let psbt = psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee);
        let read = read_psbt(&psbt.base64).unwrap();
        assert_eq!(read.fee, Some(selection.fee));
        assert_eq!(read.inputs.len(), selection.coins.len());
        assert_eq!(read.inputs_with_keys, read.inputs.len(), "every key can be found");
        let paid: Vec<_> = outputs.iter().map(|o| (o.amount.get(), o.script.clone())).collect();
        assert_eq!(read.outputs, paid);
        assert!(read.is_replaceable && psbt.is_txid_final);

        let new = unsigned(&psbt);
        let recorded =
            ledger.record(wallet, &new, Seen::Created, &RecordOptions::default(), NOW).unwrap();
        assert_eq!(recorded.state, TxState::Pending);
        let summary = ledger.transaction(wallet, &new.txid).unwrap().summary;
        assert_eq!(summary.fee, Some(selection.fee));
        assert_eq!(summary.received, selection.change.unwrap_or(0));
    }
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

/// What the ledger builds is what a caller would put together from its answers.
fn the_ledger_pays_and_replaces_by_itself(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(3);
    for value in [1_000, 150_000_000, 20_000_000_000] {
        let mut outputs = vec![stranger(value)];
        let rate = FeeRate::per_vbyte(5);
        let selection = SelectionRequest::paying(outputs.clone(), rate, 7).unwrap();
        let request = PaymentRequest { record: true, ..PaymentRequest::new(selection) };
        let paid = ledger.pay(wallet, &request, &terms, NOW).unwrap();
        if let Some(change) = paid.selection.change {
            let (amount, script) = (Amount::new(change).unwrap(), paid.change_script.unwrap());
            outputs.push(NewOutput { amount, script });
        }
        let by_hand = psbt(&ledger, wallet, &paid.selection.coins, &outputs, paid.selection.fee);
        assert_eq!(paid.psbt, by_hand);
        assert_eq!(paid.psbt.base64, by_hand.base64);
        assert_eq!(paid.recorded.unwrap().state, TxState::Pending);
        assert!(paid.selection.leased_until.is_some());

        let bump = BumpRequest::new(FeeRate::per_vbyte(20));
        let replaced = ledger.replace(wallet, &paid.psbt.txid, &bump, &terms, NOW).unwrap();
        let plan = &replaced.bumped.plan;
        assert!(plan.replaces == paid.psbt.txid && plan.fee > paid.selection.fee);
        let recorded = replaced.bumped.recorded.unwrap();
        assert!(recorded.waiting && recorded.txid == replaced.psbt.txid);
    }
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn a_payment_that_is_refused_leaves_nothing_behind(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let before = ledger.next_change(wallet).unwrap();
    let rate = FeeRate::per_vbyte(5);
    // A lock time far ahead: the guard refuses when the transaction is built, after the leases.
    let selection = SelectionRequest::paying(vec![stranger(150_000_000)], rate, 7).unwrap();
    let selection = SelectionRequest { lock_time: LockTime::Height(400_000_000), ..selection };
    let request = PaymentRequest { record: true, ..PaymentRequest::new(selection) };
    let refused = ledger.pay(wallet, &request, &owner(3), NOW).unwrap_err();
    assert!(matches!(refused, LedgerError::Guarded(_)), "{refused}");
    assert_eq!(ledger.next_change(wallet).unwrap(), before);
    assert_eq!(ledger.leases(wallet, 0, 10, NOW).unwrap(), []);
}

crate::regtest::on_both!(
    a_selection_becomes_a_psbt,
    the_ledger_pays_and_replaces_by_itself,
    a_payment_that_is_refused_leaves_nothing_behind,
);
