//! Recording: identity, repetition, blocks, batches.

use utxokeep_core::{Height, wallet::Refused};
use utxokeep_wallet::{
    Change, CoinQuery, ConfirmationRange, Credits, HistoryQuery, HistoryScope, LedgerError,
    RecordOptions, Seen, TxState,
};

use crate::scenarios::world::{NETWORK, World, coins_of, foreign, mint, out, outside, own, pay};

crate::scenarios::on_both!(
    a_new_wallet_is_empty,
    an_unmined_receive_is_unconfirmed,
    the_same_unmined_again_changes_nothing,
    a_block_confirms_an_unmined_receive,
    the_same_block_again_changes_nothing,
    the_mempool_does_not_unconfirm,
    a_spent_out_transaction_gets_no_new_coins,
    a_late_duplicate_leaves_one_change_coin,
    confirming_leaves_no_unmined_residue,
    two_unmined_confirm_in_one_block,
    raw_bytes_come_back_as_given,
    a_credit_has_a_row_and_a_coin,
    a_coinbase_is_published_with_its_block,
    a_coinbase_without_a_block_is_refused,
    only_seeing_a_dead_one_again_revives_it,
    a_credit_beyond_the_outputs_is_refused,
    the_same_input_twice_is_refused,
    amounts_beyond_any_chain_are_refused,
    the_highest_block_there_can_be_fits,
    a_credit_to_an_unknown_script_is_refused,
    a_data_output_is_never_ours,
    an_exact_duplicate_is_one_row,
    a_duplicate_with_a_new_credit_adds_it,
    a_parent_that_becomes_ours_is_spent_at_once,
    a_stored_label_stays,
    confirming_keeps_row_label_and_time,
    a_block_above_the_tip_is_refused,
    another_hash_at_the_height_is_refused,
    another_time_of_the_block_is_refused,
    pending_becomes_published,
    published_does_not_become_pending,
    a_dead_transaction_in_a_block_is_revived,
    a_block_confirms_and_becomes_the_tip,
    a_batch_below_the_tip_makes_its_block,
    a_batch_without_a_tip_is_stored,
    an_unknown_wallet_is_refused,
    a_batch_may_have_a_child_before_its_parent,
    a_block_may_have_a_child_before_its_parent,
    wallets_keep_their_own_coins_and_labels_of_a_shared_transaction,
);

/// S001.
fn a_new_wallet_is_empty(w: &mut World<'_>) {
    assert_eq!(w.balance().total(), 0);
    assert!(w.coins().is_empty() && w.unmined().is_empty());
}

/// S002.
fn an_unmined_receive_is_unconfirmed(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50, -7]);
    w.mempool(&receive);
    let balance = w.balance();
    assert_eq!((balance.confirmed, balance.untrusted_unconfirmed), (0, 50));
    assert_eq!(w.outpoints(), [out(&receive, 0)]);
    assert_eq!(w.unmined(), [receive.txid]);
}

/// S003.
fn the_same_unmined_again_changes_nothing(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    assert_eq!(w.mempool(&receive).change, Change::Inserted);
    assert_eq!(w.mempool(&receive).change, Change::Unchanged);
    assert_eq!(w.balance().total(), 50);
    assert_eq!(w.ledger.history(w.wallet, &HistoryQuery::default()).unwrap().len(), 1);
}

/// S004.
fn a_block_confirms_an_unmined_receive(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    w.mine(&[&receive]);
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (50, 0));
    assert!(w.unmined().is_empty());
}

/// S005.
fn the_same_block_again_changes_nothing(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let linked = w.mine(&[&receive]);
    let again =
        w.ledger.apply_block(NETWORK, &linked, std::slice::from_ref(&receive), w.now).unwrap();
    assert!(again.already_applied && again.recorded.is_empty());
    let recorded = w.record(&receive, Seen::Block(linked.block, Some(0))).unwrap();
    assert_eq!(recorded.change, Change::Unchanged);
    assert_eq!(w.balance().confirmed, 50);
}

/// S006.
fn the_mempool_does_not_unconfirm(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    let recorded = w.mempool(&receive);
    assert_eq!(recorded.change, Change::Unchanged);
    assert_eq!(recorded.state, TxState::Confirmed(Height::new(100)));
    assert_eq!(w.balance().confirmed, 50);
}

/// S007.
fn a_spent_out_transaction_gets_no_new_coins(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let spend = pay(2, &[out(&receive, 0)], &[-49]);
    w.mine(&[&receive, &spend]);
    w.mempool(&receive);
    assert!(w.coins().is_empty());
    assert_eq!(w.balance().total(), 0);
}

/// S008.
fn a_late_duplicate_leaves_one_change_coin(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let spend = pay(2, &[out(&receive, 0)], &[-20, 29]);
    w.mine(&[&receive]);
    w.mempool(&spend);
    w.mine(&[&spend]);
    w.mempool(&spend);
    assert_eq!(w.outpoints(), [out(&spend, 1)]);
}

/// S009.
fn confirming_leaves_no_unmined_residue(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    w.mine(&[&receive]);
    let unconfirmed = HistoryQuery { scope: HistoryScope::Unconfirmed, ..HistoryQuery::default() };
    assert!(w.ledger.history(w.wallet, &unconfirmed).unwrap().is_empty());
    let detail = w.ledger.transaction(w.wallet, &receive.txid).unwrap();
    assert_eq!((detail.inputs.len(), detail.outputs.len()), (1, 1));
}

/// S010.
fn two_unmined_confirm_in_one_block(w: &mut World<'_>) {
    let first = pay(1, &[outside(1)], &[50]);
    let second = pay(2, &[outside(2)], &[30]);
    w.mempool(&second);
    w.mempool(&first);
    w.mine(&[&first, &second]);
    assert!(w.unmined().is_empty());
    let confirmed = |min| w.balance_at(ConfirmationRange::at_least(min)).confirmed;
    assert_eq!([0, 1, 2].map(confirmed), [80, 80, 0]);
    let tip = w.tip().height;
    let block = HistoryQuery { scope: HistoryScope::Heights(tip, tip), ..HistoryQuery::default() };
    let ids: Vec<_> =
        w.ledger.history(w.wallet, &block).unwrap().into_iter().map(|tx| tx.txid).collect();
    assert_eq!(ids, [first.txid, second.txid]);
}

/// S011.
fn raw_bytes_come_back_as_given(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50]);
    let raw = receive.raw.take();
    w.mempool(&receive);
    assert_eq!(w.ledger.transaction(w.wallet, &receive.txid).unwrap().raw, None);
    receive.raw = raw;
    w.mine(&[&receive]);
    assert_eq!(w.ledger.transaction(w.wallet, &receive.txid).unwrap().raw, receive.raw);
}

/// S012.
fn a_credit_has_a_row_and_a_coin(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[-9, 50, 20]);
    w.create(&receive);
    let detail = w.ledger.transaction(w.wallet, &receive.txid).unwrap();
    assert_eq!(detail.outputs, [(1, coins_of(50)), (2, coins_of(20))]);
    assert_eq!(w.balance().pending, 70);
}

/// S013.
fn a_coinbase_is_published_with_its_block(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    w.mine(&[&reward]);
    assert_eq!(w.state(&reward), TxState::Confirmed(Height::new(100)));
    assert!(w.ledger.coin(w.wallet, &out(&reward, 0), w.now).unwrap().coinbase);
    assert_eq!((w.balance().confirmed, w.balance().immature), (0, 50));
}

/// S014.
fn a_coinbase_without_a_block_is_refused(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    for seen in [Seen::Created, Seen::Mempool] {
        let error = w.record(&reward, seen).unwrap_err();
        let expected = Refused::CoinbaseOutsideBlock;
        assert!(matches!(error, LedgerError::Refused { refused, .. } if refused == expected));
    }
    assert!(w.coins().is_empty());
}

/// S016.
fn only_seeing_a_dead_one_again_revives_it(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.create(&receive);
    w.ledger.abandon(w.wallet, &receive.txid, w.now).unwrap();
    let error = w.record(&receive, Seen::Created).unwrap_err();
    assert!(matches!(error, LedgerError::Refused { refused: Refused::NotLive(_), .. }));
    assert_eq!(w.state(&receive), TxState::Failed);
    assert_eq!(w.mempool(&receive).change, Change::Revived);
    assert_eq!(w.balance().untrusted_unconfirmed, 50);
}

/// S017.
fn a_credit_beyond_the_outputs_is_refused(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50]);
    receive.credits = Credits::Exactly(vec![1]);
    let error = w.record(&receive, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::OutputOutOfRange { index: 1, outputs: 1 }));
    assert!(w.unmined().is_empty());
}

/// S018.
fn the_same_input_twice_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1), outside(2), outside(1)], &[50]);
    let error = w.record(&receive, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidTx { .. }));
    assert!(w.unmined().is_empty());
}

/// S020.
fn amounts_beyond_any_chain_are_refused(w: &mut World<'_>) {
    let half = 30_000_000_000_000_000;
    let receive = pay(1, &[outside(1)], &[half, half]);
    assert!(matches!(w.record(&receive, Seen::Mempool), Err(LedgerError::Amount(_))));
    assert!(w.unmined().is_empty());
}

/// S020b.
fn the_highest_block_there_can_be_fits(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let highest = w.block_at(u32::MAX);
    w.mine(&[]);
    let error = w.record(&receive, Seen::Block(highest, Some(u32::MAX))).unwrap_err();
    assert!(matches!(error, LedgerError::BlockNotFound { .. }));
    assert!(w.ledger.transaction(w.wallet, &receive.txid).is_err());
    let batch = [(receive.clone(), Seen::Block(highest, Some(u32::MAX)))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    w.check();
    assert_eq!(w.state(&receive), TxState::Confirmed(Height::new(u32::MAX)));
    // Far above the tip nothing counts.
    assert_eq!(w.balance().total(), 0);
}

/// S021.
fn a_credit_to_an_unknown_script_is_refused(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50, -5]);
    receive.credits = Credits::Exactly(vec![0, 1]);
    let error = w.record(&receive, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::AddressNotFound { index: 1 }));
    assert!(w.unmined().is_empty() && w.coins().is_empty());
    receive.credits = Credits::Exactly(vec![0]);
    w.mempool(&receive);
    assert_eq!(w.balance().total(), 50);
}

/// S023.
fn a_data_output_is_never_ours(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50]);
    // A data push of our script is not a payment to it.
    receive.outputs[0].script = [foreign(22), own(0)].concat();
    w.mempool(&receive);
    assert!(w.coins().is_empty());
    receive.credits = Credits::Exactly(vec![0]);
    let error = w.record(&receive, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::AddressNotFound { index: 0 }));
}

/// S026.
fn an_exact_duplicate_is_one_row(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50, 20]);
    for seen in [Seen::Created, Seen::Created, Seen::Mempool, Seen::Mempool] {
        w.record(&receive, seen).unwrap();
    }
    assert_eq!(w.outpoints().len(), 2);
}

/// S027.
fn a_duplicate_with_a_new_credit_adds_it(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50, 20]);
    receive.credits = Credits::Exactly(vec![0]);
    w.mempool(&receive);
    assert_eq!(w.balance().total(), 50);
    receive.credits = Credits::Exactly(vec![0, 1]);
    assert_eq!(w.mempool(&receive).change, Change::Updated);
    assert_eq!(w.balance().total(), 70);
}

/// S028.
fn a_parent_that_becomes_ours_is_spent_at_once(w: &mut World<'_>) {
    let mut receive = pay(1, &[outside(1)], &[50]);
    receive.credits = Credits::Exactly(vec![]);
    let spend = pay(2, &[out(&receive, 0)], &[40]);
    w.mempool(&receive);
    w.mempool(&spend);
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
    receive.credits = Credits::Watched;
    w.mempool(&receive);
    assert_eq!(w.outpoints(), [out(&spend, 0)]);
    // All inputs are ours now; the stranger's payment behind them has still to confirm.
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
    w.mine(&[&receive]);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
}

/// S029.
fn a_stored_label_stays(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    for label in ["rent", "other", ""] {
        let options =
            RecordOptions { replaces: false, label: Some(label.to_owned()), ..Default::default() };
        w.record_with(&receive, Seen::Mempool, &options).unwrap();
    }
    assert_eq!(w.ledger.tx_label(w.wallet, &receive.txid).unwrap().as_deref(), Some("rent"));
}

/// S030.
fn confirming_keeps_row_label_and_time(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let options =
        RecordOptions { replaces: false, label: Some("rent".to_owned()), ..Default::default() };
    w.record_with(&receive, Seen::Mempool, &options).unwrap();
    let first_seen = w.now;
    w.tick(5);
    w.mine(&[&receive]);
    let rows = w.ledger.history(w.wallet, &HistoryQuery::default()).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].received_at, first_seen);
    assert_eq!(w.ledger.tx_label(w.wallet, &receive.txid).unwrap().as_deref(), Some("rent"));
}

/// S031.
fn a_block_above_the_tip_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    w.mine(&[]);
    let above = w.block_at(101);
    let error = w.ledger.confirm(w.wallet, &receive.txid, above, Some(0), w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockNotFound { .. }));
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
}

/// S032.
fn another_hash_at_the_height_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    w.mine(&[]);
    let mut other = w.tip();
    other.hash = w.block_at(7).hash;
    let error = w.ledger.confirm(w.wallet, &receive.txid, other, Some(0), w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockMismatch { .. }));
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
}

/// S033.
fn another_time_of_the_block_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let mut block = w.mine(&[&receive]).block;
    block.time = block.time.plus(1);
    let error = w.record(&receive, Seen::Block(block, Some(0))).unwrap_err();
    assert!(matches!(error, LedgerError::BlockMismatch { .. }));
}

/// S034.
fn pending_becomes_published(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.create(&receive);
    assert_eq!(w.balance().pending, 50);
    assert_eq!(w.mempool(&receive).change, Change::Updated);
    assert_eq!((w.balance().pending, w.unconfirmed()), (0, 50));
    let other = pay(2, &[outside(2)], &[9]);
    w.create(&other);
    w.ledger.publish(w.wallet, &other.txid, w.now).unwrap();
    assert_eq!(w.state(&other), TxState::Unconfirmed);
}

/// S035.
fn published_does_not_become_pending(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    assert_eq!(w.create(&receive).state, TxState::Unconfirmed);
    w.mine(&[&receive]);
    assert_eq!(w.create(&receive).state, TxState::Confirmed(Height::new(100)));
    let mut reward = receive.clone();
    reward.coinbase = true;
    reward.inputs.clear();
    let error = w.record(&reward, Seen::Block(w.tip(), Some(0))).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidTx { .. }));
}

/// S036.
fn a_dead_transaction_in_a_block_is_revived(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    w.ledger.abandon(w.wallet, &receive.txid, w.now).unwrap();
    assert_eq!(w.balance().total(), 0);
    w.mine(&[&receive]);
    assert_eq!(w.balance().confirmed, 50);
    assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, Height::new(100));
}

/// S037.
fn a_block_confirms_and_becomes_the_tip(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let block = w.mine(&[&receive]).block;
    assert_eq!(w.ledger.tip(NETWORK).unwrap(), Some((block.height, block.hash)));
    assert_eq!(w.with_confirmations(1), 50);
}

/// S038.
fn a_batch_below_the_tip_makes_its_block(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    w.mine_to(110);
    let batch = [(receive.clone(), Seen::Block(w.block_at(105), Some(3)))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    assert_eq!((w.with_confirmations(6), w.with_confirmations(7)), (50, 0));
}

/// S039.
fn a_batch_without_a_tip_is_stored(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let batch = [(receive.clone(), Seen::Block(w.block_at(105), Some(3)))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    assert_eq!(w.ledger.tip(NETWORK).unwrap(), None);
    assert_eq!(w.state(&receive), TxState::Confirmed(Height::new(105)));
    // Above the tip nothing has a confirmation.
    assert_eq!(w.balance().confirmed, 0);
}

/// S040.
fn an_unknown_wallet_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let stranger = utxokeep_wallet::WalletId::new(999);
    let batch = [(receive, Seen::Mempool)];
    let error = w.ledger.record_batch(stranger, &batch, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::WalletNotFound(wallet) if wallet == stranger));
}

/// S041.
fn a_batch_may_have_a_child_before_its_parent(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    let batch = [(child.clone(), Seen::Mempool), (parent.clone(), Seen::Mempool)];
    let recorded = w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    w.check();
    assert_eq!(recorded[0].txid, parent.txid);
    assert_eq!(w.outpoints(), [out(&child, 0)]);
}

/// S042.
fn a_block_may_have_a_child_before_its_parent(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[-40]);
    w.mine(&[&child, &parent]);
    assert!(w.coins().is_empty());
    assert_eq!(w.state(&child), TxState::Confirmed(Height::new(100)));
}

/// S044.
fn wallets_keep_their_own_coins_and_labels_of_a_shared_transaction(w: &mut World<'_>) {
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(two, 1..2);
    let receive = pay(1, &[outside(1)], &[50, 20]);
    w.mine(&[&receive]);
    let spend = pay(2, &[out(&receive, 0)], &[-45]);
    w.mempool(&spend);
    w.ledger.set_tx_label(two, &receive.txid, "theirs", w.now).unwrap();
    let coins = |wallet| {
        let coins = w.ledger.coins(wallet, &CoinQuery::default(), w.now).unwrap();
        coins.into_iter().map(|coin| coin.outpoint).collect::<Vec<_>>()
    };
    assert_eq!(coins(w.wallet), [out(&receive, 1)]);
    assert_eq!(coins(two), [out(&receive, 1)]);
    assert_eq!(w.ledger.tx_label(w.wallet, &receive.txid).unwrap(), None);
    let error = w.ledger.transaction(two, &spend.txid).unwrap_err();
    assert!(matches!(error, LedgerError::TxNotFound(_)));
}
