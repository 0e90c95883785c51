//! Coins, balances, labels, histories, pruning, damage.

use utxokeep_core::{Height, Network};
use utxokeep_wallet::{
    BalanceQuery, CoinQuery, ConfirmationRange, Direction, HistoryCursor, HistoryQuery,
    HistoryScope, LeaseId, LeaseTerms, LedgerError, Maturity, NewAddress, NewTx, PruneRule,
    Pruning, Seen, TxState, WalletId,
};

use crate::scenarios::world::{NETWORK, SECOND, World, coins_of, mint, out, outside, own, pay};

crate::scenarios::on_both!(
    a_spent_or_unknown_output_is_not_a_coin,
    coins_come_by_amount_in_pages,
    coins_are_filtered_by_confirmations,
    each_coin_counts_in_one_line_of_the_balance,
    a_label_outlives_confirmation_and_an_empty_one_deletes_it,
    labels_need_no_transaction,
    outputs_are_watched_until_a_block_spends_them,
    an_address_stays_used,
    history_pages_are_ordered_in_both_directions,
    damaged_rows_are_refused_or_found,
    wallets_live_on_their_chain,
    the_view_and_the_classes_agree,
);

/// S100.
fn a_spent_or_unknown_output_is_not_a_coin(w: &mut World<'_>) {
    let pending = pay(1, &[outside(1)], &[50]);
    w.create(&pending);
    assert_eq!(w.ledger.coin(w.wallet, &out(&pending, 0), w.now).unwrap().amount, coins_of(50));
    w.mempool(&pay(2, &[out(&pending, 0)], &[-40]));
    for missing in [out(&pending, 0), out(&pending, 1), outside(9)] {
        let error = w.ledger.coin(w.wallet, &missing, w.now).unwrap_err();
        assert!(matches!(error, LedgerError::UtxoNotFound(_)));
    }
}

/// S101.
fn coins_come_by_amount_in_pages(w: &mut World<'_>) {
    let high = pay(9, &[outside(9)], &[10]);
    let receive = pay(5, &[outside(1)], &[30, 10, 20, 10, 40]);
    let low = pay(1, &[outside(2)], &[25, 10]);
    w.mine(&[&high]);
    w.mine(&[&receive, &low]);
    let mut order = Vec::new();
    let mut query = CoinQuery { limit: 2, ..CoinQuery::default() };
    loop {
        let page = w.ledger.coins(w.wallet, &query, w.now).unwrap();
        let Some(last) = page.last() else {
            break;
        };
        query.after = Some((last.amount, last.outpoint));
        order.extend(page.iter().map(|coin| coin.outpoint));
    }
    // By amount, then transaction id, then index; not in the order they were recorded.
    let expected = [(&low, 1), (&receive, 1), (&receive, 3), (&high, 0), (&receive, 2), (&low, 0)];
    assert_eq!(order[..6], expected.map(|(tx, index)| out(tx, index)));
    assert_eq!(order[6..], [out(&receive, 0), out(&receive, 4)]);
}

/// S103.
fn coins_are_filtered_by_confirmations(w: &mut World<'_>) {
    let old = pay(1, &[outside(1)], &[10]);
    let new = pay(2, &[outside(2)], &[20]);
    let unmined = pay(3, &[outside(3)], &[30]);
    let above = pay(4, &[outside(4)], &[40]);
    w.mine(&[&old]);
    w.mine(&[&new]);
    w.mempool(&unmined);
    let batch = [(above, Seen::Block(w.block_at(150), None))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    let amounts = |min, max| {
        let query = CoinQuery { range: ConfirmationRange { min, max }, ..CoinQuery::default() };
        let coins = w.ledger.coins(w.wallet, &query, w.now).unwrap();
        coins.iter().map(|coin| coin.amount.get()).collect::<Vec<_>>()
    };
    assert_eq!(amounts(0, None), [10, 20, 30]);
    assert_eq!(amounts(1, None), [10, 20]);
    assert_eq!(amounts(2, None), [10]);
    assert_eq!(amounts(0, Some(0)), [30]);
    assert_eq!(amounts(0, Some(1)), [20, 30]);
    assert_eq!(amounts(1, Some(1)), [20]);
}

/// S104.
fn each_coin_counts_in_one_line_of_the_balance(w: &mut World<'_>) {
    assert_eq!(w.balance().total(), 0);
    let confirmed = pay(1, &[outside(1)], &[100, 5]);
    w.mine(&[&confirmed, &mint(2, &[1_000])]);
    w.mempool(&pay(3, &[out(&confirmed, 1)], &[4]));
    w.mempool(&pay(4, &[outside(4)], &[30]));
    w.create(&pay(5, &[outside(5)], &[2]));
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&confirmed, 0)], &terms, w.now).unwrap();
    let balance = w.balance();
    assert_eq!(balance.confirmed, 100);
    assert_eq!(balance.immature, 1_000);
    assert_eq!(balance.trusted_unconfirmed, 4);
    assert_eq!(balance.untrusted_unconfirmed, 30);
    assert_eq!(balance.pending, 2);
    assert_eq!((balance.leased, balance.total(), balance.available()), (100, 1_136, 4));
    let any = BalanceQuery { maturity: Maturity::blocks_above(0), ..BalanceQuery::default() };
    assert_eq!(w.ledger.balance(w.wallet, &any, w.now).unwrap().confirmed, 1_100);
}

/// S121.
fn a_label_outlives_confirmation_and_an_empty_one_deletes_it(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    let read = |w: &World<'_>| w.ledger.tx_label(w.wallet, &receive.txid).unwrap();
    let set =
        |w: &World<'_>, text: &str| w.ledger.set_tx_label(w.wallet, &receive.txid, text, w.now);
    assert_eq!(read(w), None);
    assert!(matches!(set(w, &"é".repeat(501)), Err(LedgerError::InvalidArgument { .. })));
    assert_eq!(read(w), None);
    set(w, &"é".repeat(500)).unwrap();
    set(w, "rent").unwrap();
    assert_eq!(read(w).as_deref(), Some("rent"));
    w.mine(&[&receive]);
    assert_eq!(read(w).as_deref(), Some("rent"));
    set(w, "").unwrap();
    assert_eq!(read(w), None);
}

/// S122.
fn labels_need_no_transaction(w: &mut World<'_>) {
    let later = pay(1, &[outside(1)], &[50]);
    w.ledger.set_tx_label(w.wallet, &later.txid, "planned", w.now).unwrap();
    w.mempool(&later);
    w.ledger.remove_unconfirmed(w.wallet, &later.txid, w.now).unwrap();
    assert_eq!(w.ledger.tx_label(w.wallet, &later.txid).unwrap().as_deref(), Some("planned"));
    let stranger = WalletId::new(99);
    let error = w.ledger.set_tx_label(stranger, &later.txid, "x", w.now).unwrap_err();
    assert!(matches!(error, LedgerError::WalletNotFound(_)));
}

/// S123.
fn outputs_are_watched_until_a_block_spends_them(w: &mut World<'_>) {
    let unspent = pay(1, &[outside(1)], &[10, 20]);
    let spent = pay(2, &[outside(2)], &[30]);
    let dead = pay(3, &[outside(3)], &[40]);
    w.mine(&[&unspent, &spent, &pay(4, &[out(&spent, 0)], &[-29])]);
    w.mempool(&pay(5, &[out(&unspent, 0)], &[-9]));
    w.mempool(&dead);
    w.ledger.abandon(w.wallet, &dead.txid, w.now).unwrap();
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&unspent, 1)], &terms, w.now).unwrap();
    let watched = w.ledger.outputs_to_watch(w.wallet, 0, 100).unwrap();
    let watched: Vec<_> = watched.into_iter().map(|each| (each.outpoint, each.script)).collect();
    assert_eq!(watched, [(out(&unspent, 0), own(0)), (out(&unspent, 1), own(1))]);
}

/// S124.
fn an_address_stays_used(w: &mut World<'_>) {
    let used = |w: &World<'_>| {
        let addresses = w.ledger.addresses(w.wallet, 0, 100).unwrap();
        addresses.into_iter().filter(|a| a.used).map(|a| a.script).collect::<Vec<_>>()
    };
    assert!(used(w).is_empty());
    let reward = mint(1, &[-1, 50]);
    w.mine(&[]);
    w.mine(&[&reward]);
    assert_eq!(used(w), [own(1)]);
    w.undo();
    assert_eq!(w.state(&reward), TxState::Orphaned);
    let rule = PruneRule { dead_before: Some(w.now.plus(1)), confirmed_up_to: None, txs_max: 10 };
    assert_eq!(w.ledger.prune(w.wallet, &rule, Pruning::Discard, w.now).unwrap().len(), 1);
    assert_eq!(used(w), [own(1)]);
}

fn pages(w: &World<'_>, scope: HistoryScope, direction: Direction) -> Vec<u8> {
    let mut names = Vec::new();
    let mut after: Option<HistoryCursor> = None;
    loop {
        let query = HistoryQuery { scope, direction, after, limit: 2 };
        let page = w.ledger.history(w.wallet, &query).unwrap();
        let Some(last) = page.last() else {
            return names;
        };
        after = Some(last.cursor);
        names.extend(page.iter().map(|tx| tx.txid.as_bytes()[0]));
    }
}

/// S125.
fn history_pages_are_ordered_in_both_directions(w: &mut World<'_>) {
    let txs: Vec<NewTx> = (1..=6u8).map(|name| pay(name, &[outside(name)], &[10])).collect();
    w.mempool(&txs[5]);
    w.mine(&[&txs[1], &txs[0]]);
    w.mine(&[&txs[2]]);
    w.mine(&[&txs[3]]);
    w.mempool(&txs[4]);
    let heights = HistoryScope::Heights(Height::new(100), Height::new(101));
    assert_eq!(pages(w, heights, Direction::Forward), [2, 1, 3]);
    assert_eq!(pages(w, heights, Direction::Backward), [3, 1, 2]);
    assert_eq!(pages(w, HistoryScope::Unconfirmed, Direction::Forward), [6, 5]);
    assert_eq!(pages(w, HistoryScope::Unconfirmed, Direction::Backward), [5, 6]);
    assert_eq!(pages(w, HistoryScope::All, Direction::Forward), [6, 2, 1, 3, 4, 5]);
    assert_eq!(pages(w, HistoryScope::All, Direction::Backward), [5, 4, 3, 1, 2, 6]);
}

/// S127.
fn damaged_rows_are_refused_or_found(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    let write = |sql: &str| w.ledger.database().write(|tx| tx.execute(sql, &[]));
    // What the database can hold it refuses.
    let refused = [
        "UPDATE transactions SET status = 9 WHERE wallet_id = 1",
        "UPDATE transactions SET block_height = 5, block_position = 0 WHERE wallet_id = 1",
        "UPDATE utxos SET amount = -1 WHERE wallet_id = 1",
        "UPDATE utxos SET spent_by_tx_id = 1, spent_input_index = 0 WHERE wallet_id = 1",
        "UPDATE utxos SET parent_class = 7 WHERE wallet_id = 1",
        "UPDATE tx_inputs SET claim = 3 WHERE wallet_id = 1",
        "UPDATE utxos SET address_id = 999 WHERE wallet_id = 1",
        "DELETE FROM transactions WHERE wallet_id = 1",
    ];
    for statement in refused {
        assert!(matches!(write(statement), Err(utxokeep_sql::SqlError::Constraint { .. })));
    }
    // The rest is found by verify.
    assert_eq!(w.ledger.verify(w.wallet).unwrap(), []);
    write("UPDATE utxos SET parent_class = 1 WHERE wallet_id = 1").unwrap();
    let found = w.ledger.verify(w.wallet).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].rows, found[0].first_id), (1, 1));
}

fn wallets_live_on_their_chain(w: &mut World<'_>) {
    let other = w.ledger.create_wallet("other", Network::BitcoinSignet, w.now).unwrap();
    assert_eq!(w.ledger.wallet_named("other").unwrap(), other);
    let taken = w.ledger.create_wallet("other", NETWORK, w.now).unwrap_err();
    assert!(matches!(taken, LedgerError::WalletExists(_)));
    assert!(w.ledger.create_wallet("", NETWORK, w.now).is_err());
    w.watch(other.id, 0..10);
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    assert!(w.ledger.transaction(other.id, &receive.txid).is_err());
    assert_eq!(w.ledger.tip(Network::BitcoinSignet).unwrap(), None);
    let names: Vec<_> =
        w.ledger.wallets(None, 10).unwrap().into_iter().map(|wallet| wallet.name).collect();
    assert_eq!(names, ["one", "other"]);
    let script = NewAddress { script: vec![1; 1_001], address: None, spend_weight: None };
    let error = w.ledger.add_addresses(w.wallet, &[script], w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidArgument { .. }));
}

fn the_view_and_the_classes_agree(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50, 60]);
    w.mine(&[&funding, &mint(2, &[7])]);
    w.mempool(&pay(3, &[out(&funding, 0)], &[40]));
    w.create(&pay(4, &[outside(4)], &[30]));
    let dead = pay(5, &[outside(5)], &[20]);
    w.mempool(&dead);
    w.ledger.abandon(w.wallet, &dead.txid, w.now).unwrap();
    let view = w.ledger.database().read(|tx| {
        let sql = "SELECT id FROM spendable_utxos WHERE wallet_id = 1 ORDER BY id";
        tx.query_all(sql, &[], |row| row.int(0))
    });
    let mut ids: Vec<i64> = w.coins().into_iter().map(|coin| coin.id).collect();
    ids.sort_unstable();
    assert_eq!(view.unwrap(), ids);
}
