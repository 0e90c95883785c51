//! Raising fees: the replacement, its leases and its edge.

use utxokeep_chains::read_psbt;
use utxokeep_core::{OutPoint, Txid, wallet::CodecError};
use utxokeep_wallet::{
    Algorithm, Amount, BumpPlan, BumpRequest, Bumped, CHANGE_KEYCHAIN, Change, ChangePolicy,
    CoinQuery, FeeRate, Guard, InvalidReason, LeaseTerms, Ledger, LedgerError, NewDescriptor,
    NewOutput, NewTx, RecordOptions, Seen, SelectionRequest, TxState, WalletId,
};

use crate::regtest::{
    chain::{NOW, TestChain, follow, hd_descriptors, open, wallet},
    payments::{change_script, owner, psbt, rich_wallet, selected, stranger, unsigned},
};

fn request(rate: u32, from: &LeaseTerms) -> BumpRequest {
    BumpRequest { lease_of: Some(from.owner), ..BumpRequest::new(FeeRate::per_vbyte(rate)) }
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

/// A payment that leaves nothing but its fee.
fn sent_without_change(ledger: &Ledger, wallet: WalletId, terms: &LeaseTerms) -> NewTx {
    let (selection, outputs) = selected(ledger, wallet, 70_000_000, 1, terms);
    let total = selection.input_total;
    let all = vec![NewOutput { amount: Amount::new(total - 200).unwrap(), ..outputs[0].clone() }];
    let old = unsigned(&psbt(ledger, wallet, &selection.coins, &all, 200));
    ledger.record(wallet, &old, Seen::Created, &RecordOptions::default(), NOW).unwrap();
    old
}

/// How many scripts of the change keychains were handed out.
fn handed_out(ledger: &Ledger, wallet: WalletId) -> u32 {
    let descriptors = ledger.descriptors(wallet).unwrap();
    let change = descriptors.iter().filter(|each| each.keychain == CHANGE_KEYCHAIN);
    change.map(|each| each.next_index).sum()
}

fn a_bump_never_burns_a_coin(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let old = sent_without_change(&ledger, wallet, &terms);
    let before = handed_out(&ledger, wallet);
    let planned = ledger.plan_bump(wallet, &old.txid, &request(3, &terms), NOW).unwrap();
    assert_eq!(handed_out(&ledger, wallet), before, "a plan uses up no address");
    let bumped = bump(&ledger, wallet, &old.txid, &request(3, &terms), &terms).unwrap();
    let plan = &bumped.plan;
    assert_eq!(*plan, planned);
    assert_eq!(plan.outputs[..old.outputs.len()], old.outputs, "payments stay");
    assert_eq!((plan.change, plan.outputs.len()), (Some(1), 2), "added coins bring change");
    assert_eq!(plan.fee, 3 * plan.weight.div_ceil(4), "not a satoshi more than asked for");
    assert_eq!(plan.inputs.len(), plan.kept_inputs + 1);
    let kept = plan.inputs.iter().take(plan.kept_inputs).map(|coin| coin.outpoint);
    assert!(kept.eq(old.inputs.iter().copied()));
    let added = plan.inputs.last().unwrap();
    assert!(ledger.coin(wallet, &added.outpoint, NOW).unwrap().leased);
    assert_eq!(handed_out(&ledger, wallet), before + 1);
    let new = bumped.recorded.unwrap().txid;
    ledger.publish(wallet, &new, NOW).unwrap();
    assert_eq!(state(&ledger, wallet, &old.txid), TxState::Replaced);
    let change = ledger.coin(wallet, &OutPoint::new(new, 1), NOW);
    assert_eq!(change.unwrap().amount, plan.outputs[1].amount, "the wallet has the change");
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn the_smallest_sufficient_coin_is_added(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let old = sent_without_change(&ledger, wallet, &terms);
    let free: Vec<u64> = all_free_coins(&ledger, wallet);
    for rate in [3, 20, 300] {
        let plan = ledger.plan_bump(wallet, &old.txid, &request(rate, &terms), NOW).unwrap();
        assert_eq!(plan.inputs.len(), plan.kept_inputs + 1, "one suffices");
        let added = plan.inputs.last().unwrap();
        // What a coin must bring at least: what is missing, and its own input.
        let kept: u64 = plan.inputs[..plan.kept_inputs].iter().map(|coin| coin.amount.get()).sum();
        let paid: u64 = old.outputs.iter().map(|output| output.amount.get()).sum();
        let weight = plan.weight - if plan.change.is_some() { 31 * 4 } else { 0 };
        let needed = u64::from(rate) * weight.div_ceil(4) + paid - kept;
        let smaller = free.iter().filter(|amount| **amount < added.amount.get());
        assert!(smaller.into_iter().all(|amount| *amount < needed), "rate {rate}: {added:?}");
    }
}

/// Amounts of confirmed coins that nobody has leased.
fn all_free_coins(ledger: &Ledger, wallet: WalletId) -> Vec<u64> {
    let query = CoinQuery { with_leased: false, limit: 10_000, ..CoinQuery::default() };
    let coins = ledger.coins(wallet, &query, NOW).unwrap();
    coins.iter().filter(|coin| coin.spendable).map(|coin| coin.amount.get()).collect()
}

/// A descriptor without a change keychain.
fn receiving_only(url: &str) -> (Ledger, WalletId) {
    let ledger = open(url);
    let only: Vec<NewDescriptor> = hd_descriptors()
        .into_iter()
        .map(|each| NewDescriptor { keychain: Some(0), ..each })
        .collect();
    let wallet = wallet(&ledger, "receiving", &only);
    follow(&ledger, &TestChain::whole());
    (ledger, wallet)
}

fn without_a_place_for_change_a_bump_is_refused(url: &str) {
    let (ledger, wallet) = receiving_only(url);
    let terms = owner(1);
    let value = Amount::new(70_000_000).unwrap();
    let selection = SelectionRequest {
        algorithm: Algorithm::LargestFirst,
        ..SelectionRequest::new(value, FeeRate::per_vbyte(1), 7)
    };
    let selection = ledger.select_and_lease(wallet, &selection, &terms, NOW).unwrap();
    // Change went to an address of the wallet that nothing marks as change.
    let receiving = ledger.descriptors(wallet).unwrap()[0].id;
    let own = ledger.reveal_next_address(wallet, receiving, NOW).unwrap().script;
    let fee = 2_000;
    let change = NewOutput {
        amount: Amount::new(selection.input_total - value.get() - fee).unwrap(),
        script: own.clone(),
    };
    let outputs = vec![stranger(value.get()), change];
    let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, fee));
    ledger.record(wallet, &old, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();

    let before = ledger.descriptors(wallet).unwrap();
    let leases = ledger.leases(wallet, 0, 100, NOW).unwrap();
    let asked = request(50, &terms);
    let refused = bump(&ledger, wallet, &old.txid, &asked, &terms).unwrap_err();
    assert!(matches!(refused, LedgerError::NoChangePlace), "{refused}");
    assert!(refused.to_string().contains("change address"), "{refused}");
    assert_eq!(ledger.descriptors(wallet).unwrap(), before);
    assert_eq!(ledger.leases(wallet, 0, 100, NOW).unwrap(), leases);

    let named = BumpRequest { change: Some(1), ..asked.clone() };
    let plan = ledger.plan_bump(wallet, &old.txid, &named, NOW).unwrap();
    assert_eq!((plan.change, plan.inputs.len()), (Some(1), plan.kept_inputs));
    assert_eq!(plan.fee, 50 * plan.weight.div_ceil(4));
    let elsewhere = BumpRequest { change_script: Some(own.clone()), ..asked };
    let plan = ledger.plan_bump(wallet, &old.txid, &elsewhere, NOW).unwrap();
    assert_eq!((plan.change, &plan.outputs[2].script), (Some(2), &own));
    assert_eq!(plan.outputs[..2], outputs, "what may be a payment stays");
    assert_eq!(plan.fee, 50 * plan.weight.div_ceil(4));
}

fn several_outputs_to_change_addresses_all_stay(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let (selection, mut outputs) = selected(&ledger, wallet, 123_456_789, 1, &terms);
    let own = change_script(&ledger, wallet);
    outputs[0].script = own;
    assert_eq!(outputs.len(), 2, "it has change besides");
    let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee));
    ledger.record(wallet, &old, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    let plan = ledger.plan_bump(wallet, &old.txid, &request(50, &terms), NOW).unwrap();
    assert_eq!(plan.outputs[..2], outputs);
    assert_eq!(plan.fee, 50 * plan.weight.div_ceil(4));
    // Who says which one is change needs no other coin.
    let named = BumpRequest { change: Some(1), ..request(50, &terms) };
    let plan = ledger.plan_bump(wallet, &old.txid, &named, NOW).unwrap();
    assert_eq!((plan.inputs.len(), plan.change), (plan.kept_inputs, Some(1)));
}

fn change_goes_where_it_is_asked_to_go(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let old = sent(&ledger, wallet, 123_456_789, &terms);
    let script = [&[0x51, 32][..], &[5; 32]].concat();
    let moved = BumpRequest { change_script: Some(script.clone()), ..request(20, &terms) };
    let plan = ledger.plan_bump(wallet, &old.txid, &moved, NOW).unwrap();
    assert_eq!(plan.outputs[0], old.outputs[0]);
    assert_eq!((plan.change, &plan.outputs[1].script), (Some(1), &script));
    assert_eq!(plan.fee, 20 * plan.weight.div_ceil(4));
}

fn guards_stand_before_every_payment(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let terms = owner(1);
    let old = sent(&ledger, wallet, 123_456_789, &terms);
    let leases = ledger.leases(wallet, 0, 100, NOW).unwrap();
    let guard = |error: LedgerError| match error {
        LedgerError::Guarded(refusal) => refusal.guard,
        other => panic!("{other}"),
    };
    let bumps = |change: &dyn Fn(&mut BumpRequest)| {
        let mut request = request(20, &terms);
        change(&mut request);
        let planned = ledger.plan_bump(wallet, &old.txid, &request, NOW).map(|_| ());
        let mut never = |_: &BumpPlan| panic!("a guarded bump builds nothing");
        let made = ledger.bump_fee(wallet, &old.txid, &request, &terms, &mut never, NOW);
        let (planned, made) = (guard(planned.unwrap_err()), guard(made.unwrap_err()));
        assert_eq!(planned, made, "a dry run is guarded too");
        request.allow = request.allow.with(made);
        ledger.plan_bump(wallet, &old.txid, &request, NOW).unwrap();
        made
    };
    assert_eq!(bumps(&|bump| bump.fee_rate = FeeRate::per_vbyte(1_001)), Guard::FeeRateMax);
    let none = FeeRate::per_vbyte(0);
    assert_eq!(bumps(&|bump| bump.incremental_rate = none), Guard::IncrementalRate);
    let absurd = FeeRate::per_vbyte(101);
    assert_eq!(bumps(&|bump| bump.incremental_rate = absurd), Guard::IncrementalRate);
    let dear = |bump: &mut BumpRequest| {
        bump.fee_rate = FeeRate::per_vbyte(200_000);
        bump.allow = bump.allow.with(Guard::FeeRateMax);
    };
    assert_eq!(bumps(&dear), Guard::FeeMax);
    for change_min in [10_001, u64::MAX] {
        let mut burning = BumpRequest::new(FeeRate::per_vbyte(4));
        burning.change_min_value = change_min;
        let refused = ledger.plan_bump(wallet, &old.txid, &burning, NOW).unwrap_err();
        assert!(matches!(refused, LedgerError::InvalidArgument { .. }), "{refused}");
    }
    let lost = |bump: &mut BumpRequest| bump.change_script = Some(vec![0x6a]);
    assert_eq!(bumps(&lost), Guard::UnspendableValue);

    let selects = |change: &dyn Fn(&mut SelectionRequest)| {
        let paid = vec![stranger(60_000)];
        let mut request = SelectionRequest::paying(paid, FeeRate::per_vbyte(2), 1).unwrap();
        change(&mut request);
        let seen = guard(ledger.select(wallet, &request, NOW).map(|_| ()).unwrap_err());
        let taken = ledger.select_and_lease(wallet, &request, &terms, NOW).map(|_| ());
        assert_eq!(seen, guard(taken.unwrap_err()));
        request.allow = request.allow.with(seen);
        ledger.select(wallet, &request, NOW).unwrap();
        seen
    };
    let rate =
        |rate| move |select: &mut SelectionRequest| select.fee_rate = FeeRate::per_vbyte(rate);
    assert_eq!(selects(&rate(0)), Guard::FeeRateMin);
    assert_eq!(selects(&rate(1_001)), Guard::FeeRateMax);
    let paying = |value, script: &[u8]| {
        let output = NewOutput { amount: Amount::new(value).unwrap(), script: script.to_vec() };
        move |select: &mut SelectionRequest| {
            select.outputs = vec![output.clone()];
            select.value = output.amount;
        }
    };
    assert_eq!(selects(&paying(293, &stranger(1).script)), Guard::Dust);
    assert_eq!(selects(&paying(0, &stranger(1).script)), Guard::ZeroValue);
    assert_eq!(selects(&paying(1_000, &[0x6a])), Guard::UnspendableValue);
    let dear = |select: &mut SelectionRequest| {
        select.fee_rate = FeeRate::per_vbyte(200_000);
        select.allow = select.allow.with(Guard::FeeRateMax);
    };
    assert_eq!(selects(&dear), Guard::FeeMax);
    let paid = vec![stranger(60_000)];
    let mut burning = SelectionRequest::paying(paid, FeeRate::per_vbyte(2), 1).unwrap();
    burning.change.min_value = 10_001;
    let refused = ledger.select_and_lease(wallet, &burning, &terms, NOW).unwrap_err();
    assert!(matches!(refused, LedgerError::InvalidArgument { .. }), "{refused}");
    assert_eq!(ledger.leases(wallet, 0, 100, NOW).unwrap(), leases, "nothing was leased");
}

/// Fees stay between what is required and that plus dust and the cost of change, whatever the
/// payment looks like and wherever its change goes.
fn every_fee_is_bounded_from_both_sides(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let mut paths = [0; 4];
    for seed in 0..40_u64 {
        let terms = owner(u8::try_from(seed).unwrap());
        let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = 10_000 + (mixed >> 40) * [1, 5, 20][usize::try_from(seed % 3).unwrap()];
        let rate = FeeRate::per_vbyte(1 + u32::try_from(mixed >> 8 & 31).unwrap());
        let paid = vec![stranger(value); 1 + usize::try_from(seed % 4).unwrap()];
        let select = SelectionRequest::paying(paid, rate, seed).unwrap();
        let selection = ledger.select_and_lease(wallet, &select, &terms, NOW).unwrap();
        let required = rate.fee(selection.weight);
        let most = required + select.change.min_value + select.change.cost(rate);
        assert!((required..=most).contains(&selection.fee), "seed {seed}: {selection:?}");
        let mut outputs = select.outputs.clone();
        if let Some(change) = selection.change {
            let amount = Amount::new(change).unwrap();
            let script = match seed % 4 {
                // Left to look like a payment.
                0 => stranger(1).script,
                _ => change_script(&ledger, wallet),
            };
            outputs.push(NewOutput { amount, script });
        }
        let old_weight = selection.weight;
        let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee));
        ledger.record(wallet, &old, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
        for bump_rate in [1, 40, 700] {
            let asked = request(bump_rate, &terms);
            let plan = match ledger.plan_bump(wallet, &old.txid, &asked, NOW) {
                Ok(plan) => plan,
                Err(LedgerError::InsufficientFunds { .. }) => continue,
                Err(other) => panic!("seed {seed}: {other}"),
            };
            // A better rate than that of the old one, whose weight its selection knows.
            let vbytes = |weight: u64| weight.div_ceil(4);
            let at_old_rate = (selection.fee * vbytes(plan.weight)).div_ceil(vbytes(old_weight));
            let on_top = asked.incremental_rate.fee(plan.weight);
            let required = plan.replaced_fees.max(at_old_rate) + on_top;
            let required = asked.fee_rate.fee(plan.weight).max(required);
            let cost = ChangePolicy { output_weight: 43 * 4, ..ChangePolicy::default() };
            let old_rate = u32::try_from(at_old_rate.div_ceil(vbytes(plan.weight))).unwrap();
            let dearest = asked.fee_rate.max(FeeRate::per_vbyte(old_rate + 1));
            let most = required + 330 + cost.cost(dearest);
            assert!((required..=most).contains(&plan.fee), "seed {seed}: {plan:?}");
            let paid_in: u64 = plan.inputs.iter().map(|coin| coin.amount.get()).sum();
            let paid_out: u64 = plan.outputs.iter().map(|output| output.amount.get()).sum();
            assert_eq!(paid_in, paid_out + plan.fee);
            let is_more = plan.inputs.len() > plan.kept_inputs;
            paths[usize::from(is_more) * 2 + usize::from(plan.change.is_some())] += 1;
        }
    }
    assert!(paths[1] > 5 && paths[3] > 5, "{paths:?}");
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
    // Not even that is enough: another coin comes in, and change goes to the same script.
    let mut with_change = 0;
    for rate in [20, 50, 100, 200] {
        let more = ledger.plan_bump(wallet, &old.txid, &request(rate, &terms), NOW).unwrap();
        assert_eq!(more.inputs.len(), old.inputs.len() + 1);
        let required = u64::from(rate) * size(&more);
        if more.change == Some(1) {
            with_change += 1;
            assert_eq!(more.outputs[1].script, outputs[1].script);
            assert_eq!(more.fee, required);
        } else {
            // What is left is worth less than an output for it.
            assert_eq!((more.change, &more.outputs[..]), (None, &outputs[..1]));
            assert!(more.fee >= required && more.fee < required + u64::from(rate) * 31 + 294);
        }
    }
    assert!(with_change > 0);
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

/// Leases that a bump moved to another owner end with the payment, whoever is given up first.
fn leases_of_a_bump_by_another_owner_end_with_the_payment(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    for bump_ends_first in [true, false] {
        let (first, second) = (owner(1), owner(2));
        let (selection, outputs) = selected(&ledger, wallet, 1_000_000, 1, &first);
        let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee));
        let options = RecordOptions { owner: Some(first.owner), ..RecordOptions::default() };
        ledger.record(wallet, &old, Seen::Mempool, &options, NOW).unwrap();
        let bumped = bump(&ledger, wallet, &old.txid, &request(20, &first), &second).unwrap();
        let new = bumped.recorded.unwrap().txid;
        assert!(!ledger.leases(wallet, 0, 100, NOW).unwrap().is_empty());
        let order = if bump_ends_first { [new, old.txid] } else { [old.txid, new] };
        for txid in order.iter().filter(|txid| state(&ledger, wallet, txid).is_live()) {
            ledger.abandon(wallet, txid, NOW).unwrap();
        }
        for txid in order {
            assert!(!state(&ledger, wallet, &txid).is_live());
        }
        assert_eq!(ledger.leases(wallet, 0, 100, NOW).unwrap(), [], "{bump_ends_first}");
        assert_eq!(ledger.verify(wallet).unwrap(), []);
    }
}

/// The payment goes on, so that its owner has to be able to bump it.
fn leases_go_back_when_a_bump_by_another_owner_is_given_up(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let [first, second, third] = [1, 2, 3].map(owner);
    let (selection, outputs) = selected(&ledger, wallet, 1_000_000, 1, &first);
    let old = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee));
    let options = RecordOptions { owner: Some(first.owner), ..RecordOptions::default() };
    ledger.record(wallet, &old, Seen::Mempool, &options, NOW).unwrap();
    let owners = || {
        let leases = ledger.leases(wallet, 0, 100, NOW).unwrap();
        let mut owners: Vec<_> = leases.into_iter().map(|lease| lease.owner).collect();
        owners.dedup();
        owners
    };
    let raise = |from: &LeaseTerms, to: &LeaseTerms| {
        let made = bump(&ledger, wallet, &old.txid, &request(20, from), to).unwrap();
        made.recorded.unwrap().txid
    };
    let given_up = raise(&first, &second);
    assert_eq!(owners(), [second.owner]);
    ledger.abandon(wallet, &given_up, NOW).unwrap();
    assert_eq!(owners(), [first.owner]);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    // What another bump has taken over stays there.
    let given_up = raise(&first, &second);
    let other = BumpRequest { lease_of: Some(second.owner), ..request(30, &second) };
    bump(&ledger, wallet, &old.txid, &other, &third).unwrap();
    ledger.abandon(wallet, &given_up, NOW).unwrap();
    assert_eq!(owners(), [third.owner]);
}

/// A bump that is made again after it was given up waits for its inputs as the first one did.
fn a_bump_that_was_given_up_can_be_made_again(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let first = owner(1);
    let old = sent(&ledger, wallet, 123_456_789, &first);
    let bumped = || {
        let made = bump(&ledger, wallet, &old.txid, &request(20, &first), &first).unwrap();
        made.recorded.unwrap()
    };
    let given_up = bumped();
    ledger.abandon(wallet, &given_up.txid, NOW).unwrap();
    let again = bumped();
    assert_eq!((again.txid, again.change), (given_up.txid, Change::Revived));
    assert!(again.waiting);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    // What waits keeps the leases of the coins that it would spend.
    let ended = ledger.abandon(wallet, &old.txid, NOW).unwrap();
    assert_eq!(ended.released_leases, 0);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

/// The same coins may be chosen again, and the transaction then has the same id.
fn a_payment_does_not_fail_because_its_twin_was_given_up(url: &str) {
    let (ledger, wallet) = rich_wallet(url);
    let (first, second) = (owner(1), owner(2));
    let (selection, outputs) = selected(&ledger, wallet, 1_000_000, 1, &first);
    let payment = unsigned(&psbt(&ledger, wallet, &selection.coins, &outputs, selection.fee));
    let made_by = |terms: &LeaseTerms| RecordOptions {
        owner: Some(terms.owner),
        is_new_payment: true,
        ..RecordOptions::default()
    };
    ledger.record(wallet, &payment, Seen::Created, &made_by(&first), NOW).unwrap();
    ledger.abandon(wallet, &payment.txid, NOW).unwrap();
    let coins: Vec<OutPoint> = selection.coins.iter().map(|coin| coin.outpoint).collect();
    ledger.acquire_leases(wallet, &coins, &second, NOW).unwrap();
    let again = ledger.record(wallet, &payment, Seen::Created, &made_by(&second), NOW).unwrap();
    assert_eq!((again.change, again.state), (Change::Revived, TxState::Pending));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    // It is the second owner's payment now.
    let ended = ledger.abandon(wallet, &payment.txid, NOW).unwrap();
    assert_eq!(ended.released_leases, coins.len() as u64);
    // Somebody's word alone does not bring it back, and it never takes coins from a live one.
    let claimed = RecordOptions::default();
    let refused = ledger.record(wallet, &payment, Seen::Created, &claimed, NOW).unwrap_err();
    assert!(matches!(refused, LedgerError::Refused { .. }), "{refused}");
    let mut rival = payment.clone();
    rival.txid = Txid::from_bytes([9; 32]);
    rival.raw = None;
    ledger.record(wallet, &rival, Seen::Mempool, &claimed, NOW).unwrap();
    let refused = ledger.record(wallet, &payment, Seen::Created, &made_by(&first), NOW);
    assert!(matches!(refused, Err(LedgerError::Conflict { .. })), "{refused:?}");
}

crate::regtest::on_both!(
    leases_of_a_bump_by_another_owner_end_with_the_payment,
    leases_go_back_when_a_bump_by_another_owner_is_given_up,
    a_payment_does_not_fail_because_its_twin_was_given_up,
    a_bump_that_was_given_up_can_be_made_again,
    change_pays_for_a_higher_fee,
    the_least_bump_pays_for_its_own_size,
    a_bump_never_burns_a_coin,
    the_smallest_sufficient_coin_is_added,
    without_a_place_for_change_a_bump_is_refused,
    several_outputs_to_change_addresses_all_stay,
    change_goes_where_it_is_asked_to_go,
    guards_stand_before_every_payment,
    every_fee_is_bounded_from_both_sides,
    small_change_is_left_out_or_filled_up,
    what_cannot_be_replaced_is_refused,
);
