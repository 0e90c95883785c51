//! Raising fees: the replacement, its leases and its edge.

use utxokeep_chains::read_psbt;
use utxokeep_core::{Txid, wallet::CodecError};
use utxokeep_wallet::{
    Amount, BumpPlan, BumpRequest, Bumped, FeeRate, InvalidReason, LeaseTerms, Ledger, LedgerError,
    NewOutput, NewTx, RecordOptions, Seen, SelectionRequest, TxState, WalletId,
};

use crate::{
    chain::NOW,
    payments::{change_script, owner, psbt, rich_wallet, selected, stranger, unsigned},
};

fn request(rate: u32, from: &LeaseTerms) -> BumpRequest {
    BumpRequest { lease_of: Some(from.owner), ..BumpRequest::new(FeeRate::per_vbyte(rate), 3) }
}

fn bump(
    ledger: &Ledger,
    wallet: WalletId,
    txid: &Txid,
    request: &BumpRequest,
    terms: &LeaseTerms,
) -> Result<Bumped, LedgerError> {
    // What a builder needs to know is read before: the ledger is busy while it runs.
    let plan = ledger.plan_bump(wallet, txid, request, NOW)?;
    let psbt = psbt(ledger, wallet, &plan.inputs, &plan.outputs, plan.fee);
    assert_eq!(read_psbt(&psbt.base64).unwrap().fee, Some(plan.fee));
    let mut build = |again: &BumpPlan| {
        assert_eq!(*again, plan);
        Ok(psbt.is_txid_final.then(|| unsigned(&psbt)))
    };
    ledger.bump_fee(wallet, txid, request, terms, &mut build, NOW)
}

/// A payment that was sent.
fn sent(ledger: &Ledger, wallet: WalletId, value: u64, terms: &LeaseTerms) -> NewTx {
    let (selection, outputs) = selected(ledger, wallet, value, 1, terms);
    let new = unsigned(&psbt(ledger, wallet, &selection.coins, &outputs, selection.fee));
    ledger.record(wallet, &new, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    new
}

fn state(ledger: &Ledger, wallet: WalletId, txid: &Txid) -> TxState {
    ledger.transaction(wallet, txid).unwrap().summary.state
}

fn fee(ledger: &Ledger, wallet: WalletId, txid: &Txid) -> u64 {
    ledger.transaction(wallet, txid).unwrap().summary.fee.unwrap()
}

fn change_pays_for_a_higher_fee(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let (first, second) = (owner(1), owner(2));
    let old = sent(&ledger, wallet, 123_456_789, &first);
    let old_fee = fee(&ledger, wallet, &old.txid);

    let bumped = bump(&ledger, wallet, &old.txid, &request(20, &first), &second).unwrap();
    let plan = &bumped.plan;
    assert_eq!((plan.kept_inputs, plan.inputs.len()), (old.inputs.len(), old.inputs.len()));
    assert_eq!(plan.replaced_fees, old_fee);
    let size = plan.weight.div_ceil(4);
    assert_eq!(plan.fee, 20 * size);
    assert!(plan.fee >= old_fee + size, "it pays for its own way");
    assert_eq!(plan.outputs[0], old.outputs[0], "payments stay");
    let less = old.outputs[1].amount.get() - plan.outputs[1].amount.get();
    assert_eq!(less, plan.fee - old_fee);

    let new = bumped.recorded.unwrap();
    assert!(new.waiting);
    assert_eq!(state(&ledger, wallet, &old.txid), TxState::Unconfirmed, "until it is published");
    let edges = ledger.replacements(wallet, &old.txid, 10).unwrap();
    assert_eq!(edges.len(), 1);
    assert_eq!((edges[0].replacement, edges[0].reason), (new.txid, InvalidReason::Replaced));
    ledger.publish(wallet, &new.txid, NOW).unwrap();
    assert_eq!(state(&ledger, wallet, &old.txid), TxState::Replaced);
    assert_eq!(state(&ledger, wallet, &new.txid), TxState::Unconfirmed);
    // The leases belong to the new owner now: the old one has none to give back.
    assert_eq!(ledger.release_all(wallet, &first.owner, NOW).unwrap(), 0);
    assert_eq!(ledger.release_all(wallet, &second.owner, NOW).unwrap(), old.inputs.len() as u64);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn the_least_bump_pays_for_its_own_size(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let old = sent(&ledger, wallet, 5_000_000, &terms);
    let old_fee = fee(&ledger, wallet, &old.txid);
    let plan = ledger.plan_bump(wallet, &old.txid, &request(0, &terms), NOW).unwrap();
    assert_eq!(plan.fee, old_fee + plan.weight.div_ceil(4));
    // What depends on it must be paid for as well.
    let coin = utxokeep_core::OutPoint::new(old.txid, 1);
    let spent = old.outputs[1].amount.get();
    let child = NewTx {
        txid: Txid::from_bytes([0xcd; 32]),
        inputs: vec![coin],
        outputs: vec![stranger(spent - 40_000)],
        raw: None,
        ..old.clone()
    };
    ledger.record(wallet, &child, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    let bumped = bump(&ledger, wallet, &old.txid, &request(0, &terms), &terms).unwrap();
    assert_eq!(bumped.plan.evicts, [child.txid]);
    assert_eq!(bumped.plan.fee, old_fee + 40_000 + bumped.plan.weight.div_ceil(4));
    ledger.publish(wallet, &bumped.recorded.unwrap().txid, NOW).unwrap();
    assert_eq!(state(&ledger, wallet, &child.txid), TxState::Failed);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn without_change_more_coins_are_leased(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let (selection, outputs) = selected(&ledger, wallet, 70_000_000, 1, &terms);
    let total = selection.input_total;
    let all = vec![NewOutput { amount: Amount::new(total - 200).unwrap(), ..outputs[0].clone() }];
    let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &all, 200));
    ledger.record(wallet, &old, Seen::Created, &RecordOptions::default(), NOW).unwrap();
    let bumped = bump(&ledger, wallet, &old.txid, &request(3, &terms), &terms).unwrap();
    let plan = &bumped.plan;
    assert_eq!(plan.outputs, all);
    assert!(plan.inputs.len() > plan.kept_inputs);
    let kept = plan.inputs.iter().take(plan.kept_inputs).map(|coin| coin.outpoint);
    assert!(kept.eq(old.inputs.iter().copied()));
    assert!(plan.fee >= 3 * plan.weight.div_ceil(4));
    let added = plan.inputs.last().unwrap().outpoint;
    assert!(ledger.coin(wallet, &added, NOW).unwrap().leased);
    ledger.publish(wallet, &bumped.recorded.unwrap().txid, NOW).unwrap();
    assert_eq!(state(&ledger, wallet, &old.txid), TxState::Replaced);
}

fn small_change_is_left_out_or_filled_up(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    // One input, so that the sizes below are known: 141 virtual bytes with change, 110 without.
    let value = Amount::new(70_000_000).unwrap();
    let request_one = SelectionRequest {
        inputs_max: 1,
        ..SelectionRequest::new(value, FeeRate::per_vbyte(1), 7)
    };
    let selection = ledger.select_and_lease(wallet, &request_one, &terms, NOW).unwrap();
    let change = 1_000;
    let script = change_script(&ledger, wallet);
    let outputs = vec![
        stranger(selection.input_total - change - 200),
        NewOutput { amount: Amount::new(change).unwrap(), script },
    ];
    let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, 200));
    ledger.record(wallet, &old, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    let size = |plan: &BumpPlan| plan.weight.div_ceil(4);

    // Just too little would be left: all of it goes to the fee.
    let without = ledger.plan_bump(wallet, &old.txid, &request(7, &terms), NOW).unwrap();
    assert_eq!((without.change, without.fee), (None, 1_200));
    assert_eq!(without.outputs, outputs[..1]);
    // Not even that is enough: another coin comes in, and its change goes to the same script.
    let more = ledger.plan_bump(wallet, &old.txid, &request(200, &terms), NOW).unwrap();
    assert_eq!(more.inputs.len(), old.inputs.len() + 1);
    assert_eq!(more.change, Some(1));
    assert_eq!(more.outputs[1].script, outputs[1].script);
    assert!(more.fee >= 200 * size(&more) && more.fee <= 200 * (size(&more) + 2));
}

fn what_cannot_be_replaced_is_refused(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let confirmed = ledger.history(wallet, &utxokeep_wallet::HistoryQuery::default()).unwrap();
    let plan = |txid: &Txid, request: &BumpRequest| ledger.plan_bump(wallet, txid, request, NOW);
    let refused = plan(&confirmed[0].txid, &request(50, &terms));
    assert!(matches!(refused, Err(LedgerError::NotBumpable { .. })));
    let unknown = plan(&Txid::from_bytes([1; 32]), &request(50, &terms));
    assert!(matches!(unknown, Err(LedgerError::TxNotFound(_))));

    let old = sent(&ledger, wallet, 1_000_000, &terms);
    let not_ours = BumpRequest { change: Some(0), ..request(5, &terms) };
    assert!(matches!(plan(&old.txid, &not_ours), Err(LedgerError::NotBumpable { .. })));
    // A stranger cannot take the leases over, and whatever fails leaves everything as it was.
    let leases = ledger.leases(wallet, 0, 100, NOW).unwrap();
    let stranger = BumpRequest { lease_of: None, ..request(5, &terms) };
    let taken = bump(&ledger, wallet, &old.txid, &stranger, &owner(9));
    assert!(matches!(taken, Err(LedgerError::AlreadyLeased { .. })));
    let mut fails = |_: &BumpPlan| Err(CodecError::new("no"));
    let failed =
        ledger.bump_fee(wallet, &old.txid, &request(5, &terms), &owner(9), &mut fails, NOW);
    assert!(matches!(failed, Err(LedgerError::Codec(_))));
    let mut other = |_: &BumpPlan| Ok(Some(old.clone()));
    let failed =
        ledger.bump_fee(wallet, &old.txid, &request(5, &terms), &owner(9), &mut other, NOW);
    assert!(matches!(failed, Err(LedgerError::InvalidTx { .. })));
    assert_eq!(ledger.leases(wallet, 0, 100, NOW).unwrap(), leases);
    assert_eq!(ledger.replacements(wallet, &old.txid, 10).unwrap(), []);
}

crate::on_both!(
    change_pays_for_a_higher_fee,
    the_least_bump_pays_for_its_own_size,
    without_change_more_coins_are_leased,
    small_change_is_left_out_or_filled_up,
    what_cannot_be_replaced_is_refused,
);
