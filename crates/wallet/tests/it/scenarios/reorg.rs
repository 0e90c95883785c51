//! Reorganisations, coinbases, maturity.

use utxokeep_core::{Height, OutPoint};
use utxokeep_wallet::{
    BalanceQuery, ConfirmationRange, HistoryQuery, HistoryScope, LedgerError, NewTx, TxState,
    TxSummary,
};

use crate::scenarios::world::{NETWORK, World, mint, out, outside, pay};

crate::scenarios::on_both!(
    a_disconnected_receive_is_unconfirmed,
    a_rollback_above_the_tip_changes_nothing,
    a_spend_outlives_two_disconnects,
    the_double_spent_original_confirms_after_all,
    a_coinbase_matures_under_a_hundred_blocks,
    undone_spends_of_a_matured_coinbase_give_the_balance_back,
    disconnecting_the_coinbase_leaves_nothing,
    descendants_of_an_orphan_fail,
    an_orphan_comes_back_and_so_does_its_child,
    a_payment_is_never_orphaned,
    a_rollback_takes_off_what_was_asked_and_no_more,
    a_refused_disconnect_leaves_the_tip,
    rewinding_one_wallet_leaves_the_other,
    order_in_a_block_is_the_order_of_the_block,
    orphans_stay_apart_from_other_coins,
    disconnecting_twice_is_harmless,
    a_rollback_of_ten_thousand_transactions_takes_seconds,
    disconnect_and_reconnect_is_identity,
);

/// S079.
fn a_disconnected_receive_is_unconfirmed(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    w.mine(&[&receive]);
    w.undo();
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 50));
    assert_eq!(w.unmined(), [receive.txid]);
}

/// S080.
fn a_rollback_above_the_tip_changes_nothing(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    let tip = w.ledger.tip(NETWORK).unwrap();
    assert_eq!(w.ledger.rollback_from(NETWORK, Height::new(101), w.now).unwrap(), tip);
    assert_eq!(w.balance().confirmed, 50);
}

/// S081.
fn a_spend_outlives_two_disconnects(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let spend = pay(2, &[out(&receive, 0)], &[-10, 39]);
    w.mine(&[&receive]);
    w.mine(&[&spend]);
    w.undo();
    assert_eq!(w.outpoints(), [out(&spend, 1)]);
    assert_eq!(w.balance().trusted_unconfirmed, 39);
    w.undo();
    assert_eq!(w.outpoints(), [out(&spend, 1)]);
    assert_eq!(w.balance().untrusted_unconfirmed, 39);
}

/// S082.
fn the_double_spent_original_confirms_after_all(w: &mut World<'_>) {
    let original = pay(1, &[outside(1)], &[50]);
    let double = pay(2, &[outside(1)], &[45]);
    let spend = pay(3, &[out(&double, 0)], &[-10, 30]);
    w.mempool(&original);
    w.mine(&[&double]);
    w.mine(&[&spend]);
    assert_eq!(w.state(&original), TxState::Failed);
    w.undo();
    w.undo();
    assert_eq!(w.balance().untrusted_unconfirmed, 30);
    w.mine(&[&original]);
    assert_eq!((w.state(&double), w.state(&spend)), (TxState::Failed, TxState::Failed));
    assert_eq!((w.balance().confirmed, w.balance().total()), (50, 50));
    assert!(w.unmined().is_empty());
}

/// S083.
fn a_coinbase_matures_under_a_hundred_blocks(w: &mut World<'_>) {
    let reward = mint(1, &[30, 20]);
    w.mine(&[&reward]);
    w.mine_to(199);
    assert_eq!([0, 1, 100].map(|min| w.with_confirmations(min)), [0, 0, 0]);
    assert_eq!(w.balance().immature, 50);
    // A hundred blocks lie above the coinbase.
    w.mine_to(200);
    assert_eq!([0, 1, 101, 102].map(|min| w.with_confirmations(min)), [50, 50, 50, 0]);
    w.mine_to(201);
    assert_eq!([0, 102, 103].map(|min| w.with_confirmations(min)), [50, 50, 0]);
}

/// S084 to S087.
fn undone_spends_of_a_matured_coinbase_give_the_balance_back(w: &mut World<'_>) {
    let reward = mint(1, &[20, 30]);
    w.mine(&[&reward]);
    w.mine_to(200);
    let spend = pay(2, &[out(&reward, 0)], &[-14, 5]);
    w.mempool(&spend);
    let table = |w: &World<'_>| [0, 1, 2, 101, 102].map(|min| w.with_confirmations(min));
    assert_eq!(table(w), [35, 30, 30, 30, 0]);
    w.mine(&[&spend]);
    assert_eq!(table(w), [35, 35, 30, 30, 30]);
    let second = pay(3, &[out(&reward, 1)], &[-17, 12]);
    w.mine(&[&second]);
    assert_eq!(table(w), [17, 17, 5, 0, 0]);
    w.undo();
    assert_eq!(table(w), [17, 5, 0, 0, 0]);
    w.ledger.abandon(w.wallet, &second.txid, w.now).unwrap();
    w.undo();
    assert_eq!(table(w), [35, 30, 30, 30, 0]);
}

/// S088.
fn disconnecting_the_coinbase_leaves_nothing(w: &mut World<'_>) {
    let reward = mint(1, &[20, 30]);
    w.mine(&[]);
    w.mine(&[&reward]);
    let spend = pay(2, &[out(&reward, 0)], &[-14, 5]);
    w.mempool(&spend);
    w.undo();
    assert_eq!(w.balance().total(), 0);
    assert!(w.unmined().is_empty() && w.coins().is_empty());
}

/// S089.
fn descendants_of_an_orphan_fail(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    w.mine(&[]);
    w.mine(&[&reward]);
    let child = pay(2, &[out(&reward, 0)], &[40]);
    let grandchild = pay(3, &[out(&child, 0)], &[30]);
    w.create(&child);
    w.create(&grandchild);
    w.undo();
    assert_eq!(w.state(&reward), TxState::Orphaned);
    assert_eq!((w.state(&child), w.state(&grandchild)), (TxState::Failed, TxState::Failed));
    let summary = w.ledger.transaction(w.wallet, &grandchild.txid).unwrap().summary;
    assert_eq!(summary.invalidated_by, Some(reward.txid));
}

/// S090.
fn an_orphan_comes_back_and_so_does_its_child(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    let child = pay(2, &[out(&reward, 0)], &[40]);
    w.mine(&[]);
    w.mine(&[&reward]);
    w.mempool(&child);
    w.undo();
    w.mine(&[]);
    w.mine(&[&reward]);
    assert_eq!(w.state(&reward), TxState::Confirmed(Height::new(102)));
    assert_eq!(w.outpoints(), [out(&reward, 0)]);
    assert_eq!(w.state(&child), TxState::Failed);
    w.mine(&[&child]);
    assert_eq!(w.outpoints(), [out(&child, 0)]);
}

/// S091.
fn a_payment_is_never_orphaned(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    w.mine(&[&receive]);
    w.undo();
    let orphan = w
        .ledger
        .database()
        .write(|tx| tx.execute("UPDATE transactions SET status = 4 WHERE wallet_id = 1", &[]));
    assert!(orphan.unwrap_err().is_constraint(utxokeep_sql::ConstraintKind::Check));
}

/// S092.
fn a_rollback_takes_off_what_was_asked_and_no_more(w: &mut World<'_>) {
    let first = pay(1, &[outside(1)], &[50]);
    let second = pay(2, &[outside(2)], &[30]);
    w.mine(&[&first]);
    w.mine_to(105);
    w.mine(&[&second]);
    // No wallet has anything in the block right below, and the ledger remembers it all the same.
    let tip = w.ledger.rollback_from(NETWORK, Height::new(104), w.now).unwrap();
    w.check();
    let below = w.block_at(103);
    assert_eq!(tip, Some((below.height, below.hash)));
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (50, 30));
    assert_eq!(w.ledger.rollback_from(NETWORK, Height::GENESIS, w.now).unwrap(), None);
    w.check();
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 80));
}

/// S093.
fn a_refused_disconnect_leaves_the_tip(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let low = w.mine(&[]);
    w.mine(&[&receive]);
    let tip = w.ledger.tip(NETWORK).unwrap();
    let error = w.ledger.disconnect_block(NETWORK, &low, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::NotTip { .. }));
    let mut gap = low;
    gap.block = w.block_at(110);
    let error = w.ledger.apply_block(NETWORK, &gap, &[], w.now).unwrap_err();
    assert!(matches!(error, LedgerError::NotNextBlock { .. }));
    assert_eq!(w.ledger.tip(NETWORK).unwrap(), tip);
    assert_eq!(w.balance().confirmed, 50);
}

/// S094.
fn rewinding_one_wallet_leaves_the_other(w: &mut World<'_>) {
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(two, 0..10);
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    let block = w.mine(&[&receive]).block;
    w.ledger.rewind_wallet(w.wallet, Height::new(100), w.now).unwrap();
    w.check();
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 50));
    let other = w.ledger.balance(two, &BalanceQuery::default(), w.now).unwrap();
    assert_eq!(other.confirmed, 50);
    assert_eq!(w.ledger.tip(NETWORK).unwrap(), Some((block.height, block.hash)));
    w.ledger.confirm(w.wallet, &receive.txid, block, None, w.now).unwrap();
    assert_eq!(w.balance().confirmed, 50);
}

/// S095.
fn order_in_a_block_is_the_order_of_the_block(w: &mut World<'_>) {
    let first = pay(1, &[outside(1)], &[50]);
    let second = pay(2, &[outside(2)], &[50]);
    w.mempool(&second);
    w.mempool(&first);
    w.mine(&[&first, &second]);
    let (low, high) = (Height::new(100), Height::new(100));
    let query = HistoryQuery { scope: HistoryScope::Heights(low, high), ..HistoryQuery::default() };
    let rows = w.ledger.history(w.wallet, &query).unwrap();
    let order: Vec<_> = rows.iter().map(|tx| (tx.txid, tx.position)).collect();
    assert_eq!(order, [(first.txid, Some(0)), (second.txid, Some(1))]);
}

/// S096.
fn orphans_stay_apart_from_other_coins(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let reward = mint(2, &[70]);
    w.mine(&[&receive]);
    w.mine(&[&reward]);
    let child = pay(3, &[out(&reward, 0)], &[60]);
    w.mempool(&child);
    let linked = w.undo();
    assert_eq!(w.outpoints(), [out(&receive, 0)]);
    assert_eq!(w.balance().total(), 50);
    w.redo(&linked, &[&reward]);
    assert_eq!((w.balance().confirmed, w.balance().immature), (50, 70));
    assert_eq!(w.state(&child), TxState::Failed);
}

/// S097.
fn disconnecting_twice_is_harmless(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    w.mine(&[&receive]);
    let linked = w.undo();
    w.ledger.disconnect_block(NETWORK, &linked, w.now).unwrap();
    w.check();
    assert_eq!(w.unconfirmed(), 50);
    assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, Height::new(100));
}

/// A payment whose id comes from a number.
fn numbered(number: u32, inputs: &[OutPoint]) -> NewTx {
    let mut id = [0xaa; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let mut tx = pay(0, inputs, &[10]);
    tx.txid = utxokeep_core::Txid::from_bytes(id);
    tx
}

/// S098.
fn a_rollback_of_ten_thousand_transactions_takes_seconds(w: &mut World<'_>) {
    w.mine(&[]);
    for block in 0..100u32 {
        let txs: Vec<NewTx> = (0..100)
            .map(|n| {
                let mut from = [0xbb; 32];
                from[..4].copy_from_slice(&(block * 100 + n).to_be_bytes());
                let input = OutPoint::new(utxokeep_core::Txid::from_bytes(from), 0);
                numbered(block * 100 + n, &[input])
            })
            .collect();
        let txs: Vec<&NewTx> = txs.iter().collect();
        w.mine_unchecked(&txs);
    }
    w.check();
    assert_eq!(w.balance().confirmed, 100_000);
    let below = w.block_at(100);
    let started = std::time::Instant::now();
    w.ledger.rollback_to(NETWORK, (below.height, below.hash), w.now).unwrap();
    assert!(started.elapsed().as_secs() < 20, "took {:?}", started.elapsed());
    w.check();
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 100_000));
}

fn everything(w: &World<'_>) -> (Vec<TxSummary>, Vec<utxokeep_wallet::Coin>) {
    let history = w.ledger.history(w.wallet, &HistoryQuery::default()).unwrap();
    (history, w.coins())
}

/// S099.
fn disconnect_and_reconnect_is_identity(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50, 60]);
    let reward = mint(2, &[25]);
    let spend = pay(3, &[out(&funding, 0)], &[-10, 39]);
    let chained = pay(4, &[out(&spend, 1)], &[30]);
    w.mine(&[&funding]);
    w.mempool(&spend);
    w.mine(&[&reward, &spend, &chained]);
    let before = (everything(w), w.balance_at(ConfirmationRange::at_least(1)));
    let linked = w.undo();
    w.redo(&linked, &[&reward, &spend, &chained]);
    assert_eq!((everything(w), w.balance_at(ConfirmationRange::at_least(1))), before);
}
