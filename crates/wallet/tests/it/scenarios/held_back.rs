//! Coins that labels hold back, and coins whose script is not the one of their address.

use utxokeep_core::OutPoint;
use utxokeep_wallet::{
    CoinQuery, FeeRate, Label, LabelKind, LeaseId, LeaseTerms, LedgerError, PruneRule, Pruning,
    SelectionRequest, migrate, unmigrate,
};

use crate::scenarios::world::{NETWORK, SECOND, World, coins_of, out, outside, pay};

crate::scenarios::on_both!(
    held_back_coins_are_not_selected,
    held_back_before_the_coin_exists,
    held_back_by_any_spelling,
    held_back_coins_are_not_leased,
    held_back_after_pruning_and_after_an_upgrade,
    verify_finds_marks_without_a_label,
);

fn wish(w: &World<'_>, output: &OutPoint, spendable: Option<bool>) {
    let reference = format!("{}:{}", output.txid().to_reversed_hex(), output.index());
    let kind = LabelKind::Output;
    let label = Label { kind, reference, label: None, origin: None, spendable };
    w.ledger.set_label(w.wallet, &label, w.now).unwrap();
    w.check();
}

fn request(value: u64) -> SelectionRequest {
    SelectionRequest::new(coins_of(value), FeeRate::per_vbyte(1), 7)
}

fn flags(w: &World<'_>) -> Vec<(u64, bool)> {
    w.coins().iter().map(|coin| (coin.amount.get(), coin.spendable)).collect()
}

fn held_back_coins_are_not_selected(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000, 20_000]);
    w.mine(&[&funding]);
    wish(w, &out(&funding, 1), Some(false));
    assert_eq!(flags(w), [(10_000, true), (20_000, false)]);
    assert!(!w.ledger.coin(w.wallet, &out(&funding, 1), w.now).unwrap().spendable);
    let selection = w.ledger.select(w.wallet, &request(5_000), w.now).unwrap();
    assert_eq!(selection.coins[0].outpoint, out(&funding, 0));
    let error = w.ledger.select(w.wallet, &request(15_000), w.now).unwrap_err();
    assert!(
        matches!(
            error,
            LedgerError::InsufficientFunds {
                available: 10_000,
                held_back: 20_000,
                pending: 0,
                leased: 0,
                ..
            }
        ),
        "{error}"
    );
    let balance = w.balance();
    assert_eq!((balance.total(), balance.held_back, balance.available()), (30_000, 20_000, 10_000));
    // It still may be spent by somebody who does not ask us.
    w.mempool(&pay(2, &[out(&funding, 1)], &[-19_000]));
    assert_eq!(w.balance().held_back, 0);

    wish(w, &out(&funding, 0), Some(false));
    wish(w, &out(&funding, 0), Some(true));
    assert_eq!(flags(w), [(10_000, true)]);
    wish(w, &out(&funding, 0), Some(false));
    // A label that does not say whether it may be spent does not change it.
    wish(w, &out(&funding, 0), None);
    assert_eq!(flags(w), [(10_000, false)]);
    wish(w, &out(&funding, 0), Some(true));
    w.ledger.select(w.wallet, &request(5_000), w.now).unwrap();
}

fn held_back_before_the_coin_exists(w: &mut World<'_>) {
    let first = pay(1, &[outside(1)], &[10_000, 20_000]);
    let second = pay(2, &[outside(2)], &[30_000]);
    wish(w, &out(&first, 1), Some(false));
    wish(w, &out(&second, 0), Some(false));
    // One comes in a block, one from the mempool.
    w.mine(&[&first]);
    w.mempool(&second);
    assert_eq!(flags(w), [(10_000, true), (20_000, false), (30_000, false)]);
    assert!(w.ledger.select(w.wallet, &request(15_000), w.now).is_err());
    // Another wallet has its own wishes.
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(two, 0..10);
    let third = pay(3, &[outside(3)], &[40_000]);
    wish(w, &out(&third, 0), Some(false));
    w.mine(&[&second, &third]);
    let theirs = w.ledger.coins(two, &CoinQuery::default(), w.now).unwrap();
    assert!(theirs.iter().all(|coin| coin.spendable));
    assert_eq!(theirs.len(), 2);
}

fn held_back_by_any_spelling(w: &mut World<'_>) {
    let funding = pay(0xab, &[outside(1)], &[10_000]);
    w.mine(&[&funding]);
    let line = format!(
        r#"{{"type":"output","ref":"{}:00","spendable":false}}"#,
        funding.txid.to_reversed_hex().to_uppercase()
    );
    w.ledger.import_labels(w.wallet, &line, w.now).unwrap();
    w.check();
    assert_eq!(flags(w), [(10_000, false)]);
    let stored = w.ledger.labels(w.wallet, None, 10).unwrap();
    let expected = format!("{}:0", funding.txid.to_reversed_hex());
    assert_eq!(stored[0].reference, expected);
}

fn held_back_coins_are_not_leased(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000, 20_000]);
    w.mine(&[&funding]);
    wish(w, &out(&funding, 0), Some(false));
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), SECOND);
    let both = [out(&funding, 1), out(&funding, 0)];
    let error = w.ledger.acquire_leases(w.wallet, &both, &terms, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::HeldBack { outpoint } if outpoint == both[1]));
    assert!(w.ledger.leases(w.wallet, 0, 10, w.now).unwrap().is_empty());
    wish(w, &out(&funding, 0), Some(true));
    w.ledger.acquire_leases(w.wallet, &both, &terms, w.now).unwrap();
    // A lease that is there already counts once.
    wish(w, &out(&funding, 0), Some(false));
    let balance = w.balance();
    assert_eq!((balance.leased, balance.held_back, balance.available()), (30_000, 0, 0));
}

fn held_back_after_pruning_and_after_an_upgrade(w: &mut World<'_>) {
    let dead = pay(1, &[outside(1)], &[10_000]);
    w.mempool(&dead);
    wish(w, &out(&dead, 0), Some(false));
    w.ledger.abandon(w.wallet, &dead.txid, w.now).unwrap();
    let rule = PruneRule { dead_before: Some(w.now.plus(1)), confirmed_up_to: None, txs_max: 10 };
    assert_eq!(w.ledger.prune(w.wallet, &rule, Pruning::Discard, w.now).unwrap().len(), 1);
    w.mempool(&dead);
    w.check();
    assert_eq!(flags(w), [(10_000, false)]);
    // Before marks there were labels.
    unmigrate(w.ledger.database(), 2).unwrap();
    migrate(w.ledger.database(), w.now).unwrap();
    w.check();
    assert_eq!(flags(w), [(10_000, false)]);
}

fn verify_finds_marks_without_a_label(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000, 20_000]);
    w.mine(&[&funding]);
    wish(w, &out(&funding, 0), Some(false));
    let write = |sql: &str| w.ledger.database().write(|tx| tx.execute(sql, &[])).unwrap();
    let wrong = || {
        let found = w.ledger.verify(w.wallet).unwrap();
        assert_eq!(found.len(), 1);
        (found[0].rows, found[0].first_id)
    };
    write("DELETE FROM utxo_marks WHERE wallet_id = 1");
    assert_eq!(wrong(), (1, 1));
    write("INSERT INTO utxo_marks (wallet_id, utxo_id, is_unspendable) VALUES (1, 1, 1)");
    w.check();
    write("DELETE FROM labels WHERE wallet_id = 1");
    assert_eq!(wrong(), (1, 1));
}
