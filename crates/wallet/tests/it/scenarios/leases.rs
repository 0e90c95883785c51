//! Leases, and selecting and leasing in one step.

use std::collections::BTreeSet;

use utxokeep_core::{Height, OutPoint};
use utxokeep_wallet::{
    Algorithm, Cleaned, CoinQuery, FeeRate, LeaseId, LeaseTerms, LedgerError, NewTx, RecordOptions,
    Seen, SelectionRequest, TxState,
};

use crate::scenarios::world::{SECOND, World, coins_of, mint, out, outside, pay};

crate::scenarios::on_both!(
    an_unknown_output_is_not_leased,
    a_second_owner_is_refused,
    only_the_owner_releases,
    renewing_extends_until_the_end,
    renewing_never_shortens_a_lease,
    leased_coins_are_not_available,
    leased_coins_are_left_out_on_request,
    a_confirmed_spend_ends_the_lease,
    only_expired_leases_are_deleted,
    expired_leases_are_not_listed,
    a_lease_lasts_longer_than_nothing,
    spent_outputs_are_not_leased,
    an_expired_lease_is_taken_over,
    leasing_is_all_or_nothing,
    leases_of_spent_outputs_are_listed_with_what_spends_them,
    renewing_a_free_or_expired_or_foreign_lease_is_refused,
    abandoning_and_removing_release_the_payers_leases,
    an_expired_hold_is_not_revived_by_a_block,
    cleaning_is_bounded_and_leaves_active_and_held_leases,
    sixteen_threads_get_disjoint_coins,
    a_lease_is_held_until_the_spend_is_deep,
    a_failed_selection_leaves_no_lease,
    a_lost_connection_leaves_no_lease,
    select_answers_with_what_there_is,
    a_shortage_names_its_true_reason,
    no_inputs_at_all_are_refused,
    select_obeys_its_limits,
    select_each_algorithm_pays_and_loses_nothing,
    select_uses_many_coins_when_it_must,
);

fn owner(n: u8) -> LeaseId {
    LeaseId::from_bytes([n; 32])
}

fn terms(n: u8) -> LeaseTerms {
    LeaseTerms::until(owner(n), 60 * SECOND)
}

fn lease(w: &World<'_>, n: u8, output: OutPoint) -> Result<(), LedgerError> {
    let leased = w.ledger.acquire_leases(w.wallet, &[output], &terms(n), w.now);
    w.check();
    leased.map(|until| assert_eq!(until, w.now.plus(60 * SECOND)))
}

fn clean(w: &World<'_>) -> u64 {
    w.ledger.clean_leases(w.wallet, 100, w.now).unwrap().rows
}

fn release(w: &World<'_>, n: u8, output: OutPoint) -> Result<bool, LedgerError> {
    w.ledger.release_lease(w.wallet, &owner(n), &output, w.now)
}

fn leased(w: &World<'_>) -> Vec<OutPoint> {
    let leases = w.ledger.leases(w.wallet, 0, 100, w.now).unwrap();
    leases.into_iter().map(|lease| lease.outpoint).collect()
}

fn funded(w: &mut World<'_>, name: u8, amounts: &[i64]) -> NewTx {
    let funding = pay(name, &[outside(name)], amounts);
    w.mine(&[&funding]);
    funding
}

/// S106.
fn an_unknown_output_is_not_leased(w: &mut World<'_>) {
    assert!(matches!(lease(w, 1, outside(1)), Err(LedgerError::UtxoNotFound(_))));
    assert!(matches!(release(w, 1, outside(1)), Err(LedgerError::UtxoNotFound(_))));
}

/// S107.
fn a_second_owner_is_refused(w: &mut World<'_>) {
    let confirmed = funded(w, 1, &[50]);
    let unconfirmed = pay(2, &[outside(2)], &[20]);
    w.mempool(&unconfirmed);
    for output in [out(&confirmed, 0), out(&unconfirmed, 0)] {
        lease(w, 1, output).unwrap();
        assert!(matches!(lease(w, 2, output), Err(LedgerError::AlreadyLeased { .. })));
    }
}

/// S108.
fn only_the_owner_releases(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    lease(w, 1, coin).unwrap();
    assert!(matches!(release(w, 2, coin), Err(LedgerError::NotLeaseOwner { .. })));
    assert!(release(w, 1, coin).unwrap());
    assert!(!release(w, 1, coin).unwrap());
    assert!(!release(w, 2, coin).unwrap());
    lease(w, 2, coin).unwrap();
    assert_eq!(w.ledger.release_all(w.wallet, &owner(2), w.now).unwrap(), 1);
    assert!(leased(w).is_empty());
}

/// S109.
fn renewing_extends_until_the_end(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    lease(w, 1, coin).unwrap();
    w.tick(30 * SECOND);
    lease(w, 1, coin).unwrap();
    w.tick(60 * SECOND - 1);
    assert!(lease(w, 2, coin).is_err());
    w.tick(1);
    lease(w, 2, coin).unwrap();
}

fn renewing_never_shortens_a_lease(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20]);
    let coins = [out(&funding, 0), out(&funding, 1)];
    let long = LeaseTerms::until(owner(1), 600 * SECOND);
    let short = LeaseTerms::until(owner(1), 60 * SECOND);
    w.ledger.acquire_leases(w.wallet, &coins[..1], &long, w.now).unwrap();
    let end = w.now.plus(600 * SECOND);
    let renew = |coins: &[OutPoint]| w.ledger.renew_leases(w.wallet, coins, &short, w.now).unwrap();
    assert_eq!(renew(&coins[..1]), end, "the later end is kept, and told");
    w.ledger.acquire_leases(w.wallet, &coins, &short, w.now).unwrap();
    assert_eq!(renew(&coins), w.now.plus(60 * SECOND), "all of them last at least that long");
    let leases = w.ledger.leases(w.wallet, 0, 10, w.now).unwrap();
    let ends: Vec<_> = leases.iter().map(|lease| lease.expires_at).collect();
    assert_eq!(ends, [end, w.now.plus(60 * SECOND)]);
}

/// S110.
fn leased_coins_are_not_available(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50, 20]), 0);
    lease(w, 1, coin).unwrap();
    let balance = w.balance();
    assert_eq!((balance.total(), balance.leased, balance.available()), (70, 50, 20));
    w.tick(60 * SECOND);
    assert_eq!(w.balance().available(), 70);
}

/// S111.
fn leased_coins_are_left_out_on_request(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20]);
    lease(w, 1, out(&funding, 0)).unwrap();
    let query = CoinQuery { with_leased: false, ..CoinQuery::default() };
    let free = w.ledger.coins(w.wallet, &query, w.now).unwrap();
    assert_eq!(free.iter().map(|coin| coin.outpoint).collect::<Vec<_>>(), [out(&funding, 1)]);
    let flags: Vec<_> = w.coins().iter().map(|coin| coin.leased).collect();
    assert_eq!(flags, [false, true]);
}

/// S112.
fn a_confirmed_spend_ends_the_lease(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50]);
    lease(w, 1, out(&funding, 0)).unwrap();
    // A lease does not keep anybody from spending.
    let spend = pay(2, &[out(&funding, 0)], &[-49]);
    w.mempool(&spend);
    assert_eq!(leased(w), [out(&funding, 0)]);
    w.mine(&[&spend]);
    assert!(leased(w).is_empty());
    w.undo();
    w.ledger.abandon(w.wallet, &spend.txid, w.now).unwrap();
    lease(w, 2, out(&funding, 0)).unwrap();
}

/// S113.
fn only_expired_leases_are_deleted(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20]);
    lease(w, 1, out(&funding, 0)).unwrap();
    w.tick(30 * SECOND);
    lease(w, 1, out(&funding, 1)).unwrap();
    w.tick(30 * SECOND);
    assert_eq!(clean(w), 1);
    assert_eq!(leased(w), [out(&funding, 1)]);
}

/// S114.
fn expired_leases_are_not_listed(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    lease(w, 1, coin).unwrap();
    assert_eq!(leased(w), [coin]);
    w.tick(60 * SECOND);
    assert!(leased(w).is_empty());
    assert_eq!(clean(w), 1);
}

/// S115.
fn a_lease_lasts_longer_than_nothing(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    for duration_us in [0, -1] {
        let terms = LeaseTerms::until(owner(1), duration_us);
        let error = w.ledger.acquire_leases(w.wallet, &[coin], &terms, w.now).unwrap_err();
        assert!(matches!(error, LedgerError::InvalidArgument { .. }));
    }
}

/// S116.
fn spent_outputs_are_not_leased(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50]);
    let coin = out(&funding, 0);
    w.mempool(&pay(2, &[coin], &[-49]));
    assert!(matches!(lease(w, 1, coin), Err(LedgerError::UtxoNotFound(_))));
    assert!(matches!(release(w, 1, coin), Err(LedgerError::UtxoNotFound(_))));
    assert!(leased(w).is_empty());
}

/// S117.
fn an_expired_lease_is_taken_over(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    lease(w, 1, coin).unwrap();
    w.tick(60 * SECOND);
    lease(w, 2, coin).unwrap();
    assert!(matches!(release(w, 1, coin), Err(LedgerError::NotLeaseOwner { .. })));
}

/// S117b.
fn leasing_is_all_or_nothing(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20]);
    lease(w, 2, out(&funding, 1)).unwrap();
    let both = [out(&funding, 0), out(&funding, 1)];
    let error = w.ledger.acquire_leases(w.wallet, &both, &terms(1), w.now).unwrap_err();
    assert!(matches!(error, LedgerError::AlreadyLeased { outpoint } if outpoint == both[1]));
    assert_eq!(leased(w), [both[1]]);
}

/// S117c.
fn leases_of_spent_outputs_are_listed_with_what_spends_them(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    lease(w, 1, coin).unwrap();
    let spend = pay(2, &[coin], &[-49]);
    w.mempool(&spend);
    let listed = w.ledger.leases(w.wallet, 0, 10, w.now).unwrap();
    assert_eq!((listed[0].outpoint, listed[0].spent_by), (coin, Some(spend.txid)));
    // Whoever sees it can end it, and only its owner.
    assert!(matches!(release(w, 2, coin), Err(LedgerError::NotLeaseOwner { .. })));
    assert!(release(w, 1, coin).unwrap());
    assert!(leased(w).is_empty());
    assert!(matches!(release(w, 1, coin), Err(LedgerError::UtxoNotFound(_))));
}

/// S117d.
fn renewing_a_free_or_expired_or_foreign_lease_is_refused(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20]);
    let [coin, free] = [out(&funding, 0), out(&funding, 1)];
    let renew = |w: &World<'_>, n, outputs: &[OutPoint]| {
        w.ledger.renew_leases(w.wallet, outputs, &terms(n), w.now)
    };
    assert!(matches!(renew(w, 1, &[free]), Err(LedgerError::NotLeased { .. })));
    assert!(leased(w).is_empty(), "renewing leases nothing that is free");
    lease(w, 1, coin).unwrap();
    assert!(matches!(renew(w, 2, &[coin]), Err(LedgerError::NotLeaseOwner { .. })));
    assert!(matches!(renew(w, 1, &[coin, free]), Err(LedgerError::NotLeased { .. })));
    assert!(matches!(renew(w, 1, &[]), Err(LedgerError::InvalidArgument { .. })));
    w.tick(30 * SECOND);
    assert_eq!(renew(w, 1, &[coin]).unwrap(), w.now.plus(60 * SECOND));
    // Also while a payment spends it.
    w.mempool(&pay(2, &[coin], &[-49]));
    w.tick(30 * SECOND);
    renew(w, 1, &[coin]).unwrap();
    w.tick(60 * SECOND);
    assert!(matches!(renew(w, 1, &[coin]), Err(LedgerError::NotLeased { .. })));
}

/// S117e.
fn abandoning_and_removing_release_the_payers_leases(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50, 20, 30]);
    let coins = [0, 1, 2].map(|index| out(&funding, index));
    let of = |n: u8| RecordOptions { owner: Some(owner(n)), ..RecordOptions::default() };
    let is_given_up = |w: &World<'_>, tx: &NewTx, by_removal: bool| {
        if by_removal {
            return w.ledger.remove_unconfirmed(w.wallet, &tx.txid, w.now).unwrap();
        }
        w.ledger.abandon(w.wallet, &tx.txid, w.now).unwrap().released_leases
    };
    for by_removal in [false, true] {
        // Owner 2 reserved one of the inputs for something else; a lease keeps nobody from spending.
        lease(w, 1, coins[0]).unwrap();
        lease(w, 2, coins[1]).unwrap();
        lease(w, 1, coins[2]).unwrap();
        let payment = pay(2 + u8::from(by_removal), &coins[..2], &[-60]);
        w.record_with(&payment, Seen::Created, &of(1)).unwrap();
        assert_eq!(is_given_up(w, &payment, by_removal), 1);
        assert_eq!(leased(w), [coins[1], coins[2]]);
        for n in [1, 2] {
            w.ledger.release_all(w.wallet, &owner(n), w.now).unwrap();
        }
    }
    // Without an owner nobody's lease ends.
    lease(w, 1, coins[0]).unwrap();
    let payment = pay(5, &coins[..1], &[-49]);
    w.mempool(&payment);
    assert_eq!(is_given_up(w, &payment, false), 0);
    assert_eq!(leased(w), [coins[0]]);
    // A replacement that waits for the same coin still needs the lease.
    let old = pay(6, &coins[..1], &[-48]);
    let new = pay(7, &coins[..1], &[-47]);
    w.record_with(&old, Seen::Mempool, &of(1)).unwrap();
    w.record_with(&new, Seen::Created, &RecordOptions { replaces: true, ..of(1) }).unwrap();
    assert_eq!(is_given_up(w, &old, false), 0);
    assert_eq!(leased(w), [coins[0]]);
    assert_eq!(is_given_up(w, &new, false), 1);
    assert!(leased(w).is_empty());
}

/// S117f.
fn an_expired_hold_is_not_revived_by_a_block(w: &mut World<'_>) {
    let coin = out(&funded(w, 1, &[50]), 0);
    let held = LeaseTerms { hold_confirmations: Some(3), ..terms(1) };
    w.ledger.acquire_leases(w.wallet, &[coin], &held, w.now).unwrap();
    w.tick(60 * SECOND);
    w.mine(&[&pay(2, &[coin], &[-49])]);
    assert!(leased(w).is_empty());
    assert_eq!(clean(w), 0);
}

/// S117g.
fn cleaning_is_bounded_and_leaves_active_and_held_leases(w: &mut World<'_>) {
    let funding = funded(w, 1, &[10, 20, 30, 40, 50]);
    let coins: Vec<OutPoint> = (0..5).map(|index| out(&funding, index)).collect();
    let held = LeaseTerms { hold_confirmations: Some(9), ..terms(1) };
    w.ledger.acquire_leases(w.wallet, &coins[..1], &held, w.now).unwrap();
    w.mine(&[&pay(2, &coins[..1], &[-9])]);
    w.ledger.acquire_leases(w.wallet, &coins[1..4], &terms(1), w.now).unwrap();
    w.tick(60 * SECOND);
    lease(w, 2, coins[4]).unwrap();
    let counts = |w: &World<'_>, most| {
        let counts = w.ledger.count_leases(most, w.now).unwrap();
        (counts.active, counts.expired)
    };
    assert_eq!(counts(w, 100), (2, 3));
    assert_eq!(counts(w, 2), (2, 2), "counting is bounded too");
    let pass = |w: &World<'_>, most| w.ledger.clean_all_leases(most, w.now).unwrap();
    assert_eq!(pass(w, 2), Cleaned { rows: 2, has_more: true });
    assert_eq!(pass(w, 2), Cleaned { rows: 1, has_more: false });
    assert_eq!(pass(w, 2), Cleaned::default());
    assert_eq!(counts(w, 100), (2, 0));
    assert_eq!(leased(w), [coins[0], coins[4]]);
}

fn request(value: u64) -> SelectionRequest {
    SelectionRequest::new(coins_of(value), FeeRate::per_vbyte(1), 7)
}

/// S118.
fn sixteen_threads_get_disjoint_coins(w: &mut World<'_>) {
    for name in 1..=8 {
        funded(w, name, &[10_000; 10]);
    }
    // Eighty coins; each payment needs three, so 26 of them fit.
    let (ledger, wallet, now) = (w.ledger, w.wallet, w.now);
    let outcomes: Vec<Result<Vec<OutPoint>, LedgerError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16u8)
            .map(|n| {
                scope.spawn(move || {
                    let select = |seed| {
                        let mut request = request(25_000);
                        request.seed = seed;
                        let leased = ledger.select_and_lease(wallet, &request, &terms(n), now)?;
                        Ok(leased.coins.into_iter().map(|coin| coin.outpoint).collect())
                    };
                    (0..3).map(select).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    w.check();
    let mut taken = BTreeSet::new();
    let mut complete = 0;
    for outcome in outcomes {
        match outcome {
            Ok(coins) => {
                complete += 1;
                assert_eq!(coins.len(), 3);
                assert!(coins.into_iter().all(|coin| taken.insert(coin)), "leased twice");
            }
            Err(LedgerError::InsufficientFunds { leased, .. }) => assert_eq!(leased, 780_000),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(complete, 26);
    assert_eq!(w.ledger.leases(w.wallet, 0, 100, w.now).unwrap().len(), 78);
}

/// S119.
fn a_lease_is_held_until_the_spend_is_deep(w: &mut World<'_>) {
    let funding = funded(w, 1, &[50]);
    let coin = out(&funding, 0);
    let held = LeaseTerms { hold_confirmations: Some(3), ..terms(1) };
    w.ledger.acquire_leases(w.wallet, &[coin], &held, w.now).unwrap();
    let spend = pay(2, &[coin], &[-49]);
    w.mine(&[&spend]);
    // The clock does not matter any more.
    w.tick(3600 * SECOND);
    assert_eq!(leased(w), [coin]);
    assert_eq!(clean(w), 0);
    let linked = w.undo();
    let state = |w: &World<'_>| w.ledger.leases(w.wallet, 0, 10, w.now).unwrap().remove(0);
    assert_eq!((state(w).held, state(w).spent_height), (true, None));
    // Given up: the coin is unspent and still held.
    w.ledger.abandon(w.wallet, &spend.txid, w.now).unwrap();
    assert!(matches!(lease(w, 2, coin), Err(LedgerError::AlreadyLeased { .. })));
    w.redo(&linked, &[&spend]);
    assert_eq!(state(w).spent_height, Some(Height::new(101)));
    w.mine(&[]);
    assert_eq!(leased(w), [coin]);
    w.mine(&[]);
    assert!(leased(w).is_empty());
    assert_eq!(w.state(&spend), TxState::Confirmed(Height::new(101)));
}

/// S120.
fn a_failed_selection_leaves_no_lease(w: &mut World<'_>) {
    funded(w, 1, &[10_000, 10_000]);
    let error = w.ledger.select_and_lease(w.wallet, &request(20_000), &terms(1), w.now);
    assert!(matches!(error, Err(LedgerError::InsufficientFunds { .. })));
    assert!(leased(w).is_empty());
}

/// S120b.
fn a_lost_connection_leaves_no_lease(w: &mut World<'_>) {
    let coin = funded(w, 1, &[10_000]);
    // The same rows as a selection writes, in a transaction that never ends well.
    let lost = w.ledger.database().write(|tx| {
        tx.execute(
            "INSERT INTO utxo_leases (wallet_id, utxo_id, lease_id, expires_at_us, is_held)
             SELECT wallet_id, id, $1, 9000000000000000000, 0 FROM utxos WHERE wallet_id = 1",
            &[(&[1u8; 32]).into()],
        )?;
        Err::<(), _>(utxokeep_sql::SqlError::bad_row("lost"))
    });
    assert!(lost.is_err());
    assert!(leased(w).is_empty());
    lease(w, 2, out(&coin, 0)).unwrap();
}

fn select_answers_with_what_there_is(w: &mut World<'_>) {
    let funding = funded(w, 1, &[10_000, 4_000]);
    w.mine(&[&mint(2, &[5_000])]);
    w.mempool(&pay(3, &[outside(3)], &[600]));
    w.create(&pay(4, &[outside(4)], &[70]));
    lease(w, 1, out(&funding, 1)).unwrap();
    let error = w.ledger.select(w.wallet, &request(10_000), w.now).unwrap_err();
    let LedgerError::InsufficientFunds {
        needed,
        available,
        leased,
        immature,
        held_back,
        pending,
        uneconomic,
        excluded,
        locked,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((held_back, uneconomic, excluded, locked), (0, 0, 0, 0));
    assert_eq!((available, leased, immature, pending), (10_000, 4_000, 5_000, 670));
    assert_eq!(needed, 10_000 + FeeRate::per_vbyte(1).fee(166) + FeeRate::per_vbyte(1).fee(272));
}

/// Coins that cost more to spend than they are worth are neither pending nor too many inputs.
fn a_shortage_names_its_true_reason(w: &mut World<'_>) {
    let funding = funded(w, 1, &[10_000, 3_000, 2_900, 2_000]);
    // An input costs 3,400 at 50 for each virtual byte.
    let dear = SelectionRequest { fee_rate: FeeRate::per_vbyte(50), ..request(15_000) };
    let error = w.ledger.select(w.wallet, &dear, w.now).unwrap_err();
    let LedgerError::InsufficientFunds { needed, available, uneconomic, pending, .. } = error
    else {
        panic!("{error}");
    };
    assert_eq!((available, uneconomic, pending), (10_000, 7_900, 0));
    assert_eq!(needed, 15_000 + 2_100 + 3_400);
    assert!(error.to_string().contains("7900 cost more to spend than they are worth"), "{error}");
    // All coins together would be enough if inputs were free; more inputs do not help.
    let few = SelectionRequest { inputs_max: 1, ..dear };
    let error = w.ledger.select(w.wallet, &few, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InsufficientFunds { .. }), "{error}");
    // At a low rate they would help.
    let cheap = SelectionRequest { inputs_max: 1, ..request(15_000) };
    let error = w.ledger.select(w.wallet, &cheap, w.now).unwrap_err();
    let LedgerError::TooManyInputs { needed, available, inputs_max: 1 } = error else {
        panic!("{error}");
    };
    assert_eq!((available, needed), (17_900, 15_000 + 42 + 4 * 68));
    w.ledger.select(w.wallet, &SelectionRequest { inputs_max: 3, ..cheap }, w.now).unwrap();
    // What the request itself excludes is not pending either.
    let without = SelectionRequest { exclude: vec![out(&funding, 0)], ..request(9_000) };
    let error = w.ledger.select(w.wallet, &without, w.now).unwrap_err();
    let expected = (7_900, 10_000, 0);
    let LedgerError::InsufficientFunds { available, excluded, pending, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((available, excluded, pending), expected);
}

fn no_inputs_at_all_are_refused(w: &mut World<'_>) {
    funded(w, 1, &[10_000]);
    let none = SelectionRequest { inputs_max: 0, ..request(5_000) };
    let error = w.ledger.select(w.wallet, &none, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidArgument { .. }), "{error}");
}

fn select_obeys_its_limits(w: &mut World<'_>) {
    let funding = funded(w, 1, &[10_000, 20_000, 30_000]);
    let mut one = request(5_000);
    one.exclude = vec![out(&funding, 2), out(&funding, 1)];
    let selection = w.ledger.select(w.wallet, &one, w.now).unwrap();
    assert_eq!(selection.coins[0].outpoint, out(&funding, 0));
    one.exclude.push(out(&funding, 0));
    let error = w.ledger.select(w.wallet, &one, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InsufficientFunds { available: 0, .. }));

    let mut few = request(55_000);
    few.inputs_max = 2;
    let error = w.ledger.select(w.wallet, &few, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::TooManyInputs { inputs_max: 2, .. }));

    let mut deep = request(5_000);
    deep.min_confirmations = 2;
    assert!(w.ledger.select(w.wallet, &deep, w.now).is_err());
    w.mine(&[]);
    w.ledger.select(w.wallet, &deep, w.now).unwrap();

    // Everything is spent by a transaction in no block; its change is trusted.
    let inputs: Vec<OutPoint> = (0..3).map(|n| out(&funding, n)).collect();
    let sweep = pay(2, &inputs, &[59_000]);
    w.record(&sweep, Seen::Created).unwrap();
    let mut chained = request(5_000);
    chained.min_confirmations = 0;
    assert!(w.ledger.select(w.wallet, &chained, w.now).is_err());
    chained.allow_pending = true;
    w.ledger.select(w.wallet, &chained, w.now).unwrap();
    w.mempool(&sweep);
    chained.allow_pending = false;
    w.ledger.select(w.wallet, &chained, w.now).unwrap();
    assert!(w.ledger.select(w.wallet, &request(5_000), w.now).is_err());
}

fn select_each_algorithm_pays_and_loses_nothing(w: &mut World<'_>) {
    for name in 1..=6u8 {
        let base = i64::from(name) * 1_000;
        funded(w, name, &[base + 13, base * 3 + 7, base * 7 + 1]);
    }
    let algorithms = [
        Algorithm::LeastWaste,
        Algorithm::LargestFirst,
        Algorithm::OldestFirst,
        Algorithm::SingleRandomDraw,
        Algorithm::BranchAndBound,
    ];
    for value in [500, 7_000, 20_000, 60_000, 150_000] {
        let mut wastes = Vec::new();
        for algorithm in algorithms {
            let mut request = request(value);
            request.algorithm = algorithm;
            let found = w.ledger.select(w.wallet, &request, w.now).unwrap();
            let sum: u64 = found.coins.iter().map(|coin| coin.amount.get()).sum();
            assert_eq!(sum, found.input_total);
            assert_eq!(sum, value + found.fee + found.change.unwrap_or(0));
            let weights: u64 = found.coins.iter().map(|coin| u64::from(coin.weight)).sum();
            assert!(found.fee >= FeeRate::per_vbyte(1).fee(166 + weights));
            wastes.push(found.waste);
        }
        assert_eq!(wastes[0], wastes[1..].iter().copied().min().unwrap(), "value {value}");
    }
    let mut oldest = request(500);
    oldest.algorithm = Algorithm::OldestFirst;
    let found = w.ledger.select(w.wallet, &oldest, w.now).unwrap();
    assert_eq!(found.coins[0].amount, coins_of(1_013));
}

fn select_uses_many_coins_when_it_must(w: &mut World<'_>) {
    for name in 1..=20 {
        funded(w, name, &[1_000; 10]);
    }
    // More coins than the search looks at.
    let found = w.ledger.select_and_lease(w.wallet, &request(120_000), &terms(1), w.now).unwrap();
    assert!(found.coins.len() > 120);
    assert_eq!(found.algorithm, Algorithm::LargestFirst);
    w.check();
}
