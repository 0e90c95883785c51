//! Spending, replacing, double-spending, giving up.

use utxokeep_core::{Height, wallet::Refused};
use utxokeep_wallet::{
    Change, InvalidReason, LedgerError, Limits, NewTx, RecordOptions, Seen, TxState, TxStatus,
};

use crate::scenarios::world::{World, coins_of, mint, open, out, outside, pay};

crate::scenarios::on_both!(
    a_confirmed_spend_leaves_the_change,
    an_unconfirmed_debit_counts_its_change,
    giving_a_spend_up_restores_the_coin,
    a_second_unmined_spender_is_a_conflict,
    of_two_double_spends_the_first_confirms,
    of_two_double_spends_the_second_confirms,
    one_block_transaction_beats_three,
    a_double_spend_of_a_foreign_input_fails_the_receive,
    a_declared_replacement_moves_the_pointer,
    a_pending_replacement_waits_until_published,
    a_waiting_replacement_pushes_out_only_what_it_was_made_for,
    spending_from_a_failed_parent_is_refused,
    a_confirmed_winner_fails_the_branch,
    a_confirmed_winner_on_a_foreign_input_fails_the_branch,
    a_stored_winner_that_confirms_replaces_its_rival,
    a_loser_below_a_loser_is_a_direct_loser,
    a_winner_without_rivals_changes_nothing_else,
    a_late_parent_links_its_child,
    a_late_parent_is_spent_by_its_confirmed_child_and_fails_the_unmined_one,
    a_late_parent_ignores_a_replaced_child,
    a_late_parent_links_each_credit_to_its_spender,
    a_failed_transaction_still_shows_its_inputs,
    abandoning_fails_the_branch,
    only_live_unconfirmed_transactions_are_abandoned,
    removing_a_leaf_frees_its_inputs,
    a_parent_with_an_own_child_stays,
    a_parent_with_a_foreign_output_spent_stays,
    a_failed_child_does_not_keep_its_parent,
    only_live_unconfirmed_transactions_are_removed,
    a_block_that_takes_one_of_two_inputs_frees_the_other,
    the_loser_comes_back_in_a_longer_chain,
    replacing_twice_frees_the_first_inputs,
    parent_and_child_lose_and_come_back,
    publishing_an_abandoned_transaction_revives_it_without_its_child,
    a_confirmed_spend_cannot_be_abandoned,
);

fn funded(w: &mut World<'_>, name: u8, amount: i64) -> NewTx {
    let funding = pay(name, &[outside(name)], &[amount]);
    w.mine(&[&funding]);
    funding
}

/// S045.
fn a_confirmed_spend_leaves_the_change(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let spend = pay(2, &[out(&funding, 0)], &[-20, 29]);
    w.mine(&[&spend]);
    assert_eq!(w.outpoints(), [out(&spend, 1)]);
    assert_eq!(w.balance().confirmed, 29);
    let summary = w.ledger.transaction(w.wallet, &spend.txid).unwrap().summary;
    assert_eq!((summary.fee, summary.delta()), (Some(1), -21));
}

/// S046.
fn an_unconfirmed_debit_counts_its_change(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let mut spend = pay(2, &[out(&funding, 0)], &[20, 29]);
    spend.credits = utxokeep_wallet::Credits::Exactly(vec![]);
    w.mempool(&spend);
    assert_eq!(w.balance().total(), 0);
    spend.credits = utxokeep_wallet::Credits::Exactly(vec![0]);
    w.mempool(&spend);
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 20));
    spend.credits = utxokeep_wallet::Credits::Watched;
    w.mempool(&spend);
    assert_eq!((w.balance().confirmed, w.balance().trusted_unconfirmed), (0, 49));
}

/// S047.
fn giving_a_spend_up_restores_the_coin(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let spend = pay(2, &[out(&funding, 0)], &[-20, 29]);
    w.mempool(&spend);
    w.ledger.abandon(w.wallet, &spend.txid, w.now).unwrap();
    assert_eq!(w.outpoints(), [out(&funding, 0)]);
    assert_eq!(w.balance().confirmed, 50);
}

/// S048.
fn a_second_unmined_spender_is_a_conflict(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let first = pay(2, &[out(&funding, 0)], &[40]);
    let second = pay(3, &[out(&funding, 0)], &[30]);
    w.mempool(&first);
    for seen in [Seen::Created, Seen::Mempool] {
        let error = w.record(&second, seen).unwrap_err();
        assert!(matches!(error, LedgerError::Conflict { rivals, .. } if rivals == [first.txid]));
    }
    assert_eq!(w.outpoints(), [out(&first, 0)]);
}

/// Two spenders of one coin: the first in the mempool, then one of them in a block.
fn double_spend(w: &mut World<'_>, first_wins: bool) {
    let funding = funded(w, 1, 50);
    let first = pay(2, &[out(&funding, 0)], &[40]);
    let second = pay(3, &[out(&funding, 0)], &[30]);
    w.mempool(&first);
    w.replace(&second);
    let (winner, loser) = if first_wins { (first, second) } else { (second, first) };
    w.mine(&[&winner]);
    assert_eq!(w.outpoints(), [out(&winner, 0)]);
    assert!(!w.state(&loser).is_live());
    assert!(w.unmined().is_empty());
}

/// S049.
fn of_two_double_spends_the_first_confirms(w: &mut World<'_>) {
    double_spend(w, true);
}

/// S050.
fn of_two_double_spends_the_second_confirms(w: &mut World<'_>) {
    double_spend(w, false);
}

/// S051.
fn one_block_transaction_beats_three(w: &mut World<'_>) {
    let a = funded(w, 1, 50);
    let b = funded(w, 2, 60);
    let one = pay(3, &[out(&a, 0)], &[41]);
    let two = pay(4, &[out(&a, 0)], &[42]);
    let three = pay(5, &[out(&b, 0)], &[43]);
    w.mempool(&one);
    w.replace(&two);
    w.mempool(&three);
    let winner = pay(6, &[out(&a, 0), out(&b, 0)], &[100]);
    w.mine(&[&winner]);
    assert_eq!(w.outpoints(), [out(&winner, 0)]);
    assert_eq!(w.balance().total(), 100);
    assert_eq!(w.state(&two), TxState::Failed);
    assert_eq!(w.state(&three), TxState::Failed);
    let edges = w.ledger.replacements(w.wallet, &winner.txid, 10).unwrap();
    assert_eq!(edges.len(), 2);
    assert!(edges.iter().all(|edge| edge.reason == InvalidReason::DoubleSpent));
}

/// S052.
fn a_double_spend_of_a_foreign_input_fails_the_receive(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    let other = pay(2, &[outside(1)], &[30]);
    w.mine(&[&other]);
    assert_eq!(w.state(&receive), TxState::Failed);
    assert_eq!((w.balance().confirmed, w.balance().total()), (30, 30));
}

/// S053.
fn a_declared_replacement_moves_the_pointer(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let first = pay(2, &[out(&funding, 0)], &[-20, 29]);
    let bump = pay(3, &[out(&funding, 0)], &[-20, 25]);
    w.mempool(&first);
    let recorded = w.replace(&bump);
    assert_eq!(recorded.losers, [first.txid]);
    assert_eq!(w.state(&first), TxState::Replaced);
    assert_eq!(w.outpoints(), [out(&bump, 1)]);
    let edges = w.ledger.replacements(w.wallet, &first.txid, 10).unwrap();
    assert_eq!(edges.len(), 1);
    assert_eq!((edges[0].replacement, edges[0].reason), (bump.txid, InvalidReason::Replaced));
    let summary = w.ledger.transaction(w.wallet, &first.txid).unwrap().summary;
    assert_eq!(summary.invalidated_by, Some(bump.txid));
}

/// S053b.
fn a_pending_replacement_waits_until_published(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let first = pay(2, &[out(&funding, 0)], &[-20, 29]);
    let bump = pay(3, &[out(&funding, 0)], &[-20, 25]);
    w.mempool(&first);
    let options = RecordOptions { replaces: true, ..Default::default() };
    let recorded = w.record_with(&bump, Seen::Created, &options).unwrap();
    assert!(recorded.waiting && recorded.losers.is_empty());
    assert_eq!(w.balance().trusted_unconfirmed, 29);
    assert_eq!(w.balance().pending, 0);
    assert_eq!(w.ledger.replacements(w.wallet, &bump.txid, 10).unwrap().len(), 1);
    // Seeing the first again does not disturb the one that waits.
    w.mempool(&first);
    let published = w.ledger.publish(w.wallet, &bump.txid, w.now).unwrap();
    w.check();
    assert_eq!((published.waiting, published.losers), (false, vec![first.txid]));
    assert_eq!(w.outpoints(), [out(&bump, 1)]);
    assert_eq!(w.state(&first), TxState::Replaced);
}

/// S053c. The replacement adds a coin, waits, and somebody else spends that coin meanwhile.
fn a_waiting_replacement_pushes_out_only_what_it_was_made_for(w: &mut World<'_>) {
    let (funding, added) = (funded(w, 1, 50), funded(w, 2, 10));
    let first = pay(3, &[out(&funding, 0)], &[-49]);
    w.mempool(&first);
    let bump = pay(4, &[out(&funding, 0), out(&added, 0)], &[-49, 8]);
    let options = RecordOptions { replaces: true, ..RecordOptions::default() };
    assert!(w.record_with(&bump, Seen::Created, &options).unwrap().waiting);
    let stranger = pay(5, &[out(&added, 0)], &[-9]);
    w.mempool(&stranger);
    let refused = w.ledger.publish(w.wallet, &bump.txid, w.now).unwrap_err();
    assert!(matches!(&refused, LedgerError::Conflict { rivals, .. } if rivals == &[stranger.txid]));
    assert_eq!(w.state(&stranger), TxState::Unconfirmed);
    assert_eq!(w.state(&first), TxState::Unconfirmed);
    w.check();
    // A caller who says so now pushes out both.
    let recorded = w.record_with(&bump, Seen::Mempool, &options).unwrap();
    assert_eq!(recorded.losers, [first.txid, stranger.txid]);
    w.check();
}

/// S054.
fn spending_from_a_failed_parent_is_refused(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    w.mempool(&parent);
    w.ledger.abandon(w.wallet, &parent.txid, w.now).unwrap();
    let child = pay(2, &[out(&parent, 0)], &[40]);
    let error = w.record(&child, Seen::Mempool).unwrap_err();
    let failed = TxStatus::Failed;
    assert!(matches!(error, LedgerError::InvalidParent { status, .. } if status == failed));
    assert!(matches!(w.ledger.transaction(w.wallet, &child.txid), Err(LedgerError::TxNotFound(_))));
}

/// S055.
fn a_confirmed_winner_fails_the_branch(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let a = pay(2, &[out(&funding, 0)], &[40]);
    let b = pay(3, &[out(&a, 0)], &[30]);
    w.mempool(&a);
    w.mempool(&b);
    let winner = pay(4, &[out(&funding, 0)], &[-45]);
    w.mine(&[&winner]);
    assert_eq!((w.state(&a), w.state(&b)), (TxState::Failed, TxState::Failed));
    let detail = |tx: &NewTx| w.ledger.transaction(w.wallet, &tx.txid).unwrap().summary;
    assert_eq!(detail(&a).invalid_reason, Some(InvalidReason::DoubleSpent));
    assert_eq!(detail(&a).invalidated_by, Some(winner.txid));
    assert_eq!(detail(&b).invalid_reason, Some(InvalidReason::AncestorInvalid));
    assert_eq!(detail(&b).invalidated_by, Some(a.txid));
    assert!(w.coins().is_empty());
}

/// S056.
fn a_confirmed_winner_on_a_foreign_input_fails_the_branch(w: &mut World<'_>) {
    let a = pay(2, &[outside(1)], &[40]);
    let b = pay(3, &[out(&a, 0)], &[30]);
    w.mempool(&a);
    w.mempool(&b);
    // The winner pays us nothing; it matters because it takes an input of ours away.
    let winner = pay(4, &[outside(1)], &[-45]);
    w.mine(&[&winner]);
    assert_eq!((w.state(&a), w.state(&b)), (TxState::Failed, TxState::Failed));
    assert_eq!(w.balance().total(), 0);
}

/// S057.
fn a_stored_winner_that_confirms_replaces_its_rival(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let first = pay(2, &[out(&funding, 0)], &[40]);
    let second = pay(3, &[out(&funding, 0)], &[30]);
    w.mempool(&first);
    let options = RecordOptions { replaces: true, ..Default::default() };
    w.record_with(&second, Seen::Created, &options).unwrap();
    w.mine(&[&second]);
    assert_eq!(w.state(&first), TxState::Replaced);
    assert_eq!(w.state(&second), TxState::Confirmed(Height::new(101)));
    assert_eq!(w.ledger.replacements(w.wallet, &first.txid, 10).unwrap().len(), 1);
}

/// S058.
fn a_loser_below_a_loser_is_a_direct_loser(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let a = pay(2, &[out(&funding, 0)], &[40]);
    let b = pay(3, &[out(&a, 0), outside(9)], &[30]);
    w.mempool(&a);
    w.mempool(&b);
    let winner = pay(4, &[out(&funding, 0), outside(9)], &[20]);
    let options = RecordOptions { replaces: true, ..Default::default() };
    let recorded = w.record_with(&winner, Seen::Mempool, &options).unwrap();
    assert_eq!(recorded.losers, [a.txid, b.txid]);
    assert!(recorded.failed_descendants.is_empty());
    assert_eq!((w.state(&a), w.state(&b)), (TxState::Replaced, TxState::Replaced));
}

/// S059.
fn a_winner_without_rivals_changes_nothing_else(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let other = pay(5, &[outside(5)], &[7]);
    w.mempool(&other);
    let spend = pay(2, &[out(&funding, 0)], &[40]);
    let recorded = w.replace(&spend);
    assert!(recorded.losers.is_empty() && recorded.failed_descendants.is_empty());
    assert_eq!(w.unmined(), [other.txid, spend.txid]);
}

/// S061.
fn a_late_parent_links_its_child(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    w.mempool(&child);
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
    w.mempool(&parent);
    assert_eq!(w.outpoints(), [out(&child, 0)]);
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
    w.mine(&[&parent]);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
}

/// S062.
fn a_late_parent_is_spent_by_its_confirmed_child_and_fails_the_unmined_one(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let unmined = pay(2, &[out(&parent, 0)], &[40]);
    let below = pay(3, &[out(&unmined, 0)], &[35]);
    let confirmed = pay(4, &[out(&parent, 0)], &[30]);
    w.mempool(&unmined);
    w.mempool(&below);
    w.mine(&[&confirmed]);
    let batch = [(parent.clone(), Seen::Block(w.tip(), None))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    w.check();
    assert_eq!(w.outpoints(), [out(&confirmed, 0)]);
    assert_eq!((w.state(&unmined), w.state(&below)), (TxState::Failed, TxState::Failed));
}

/// S063.
fn a_late_parent_ignores_a_replaced_child(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let old = pay(2, &[out(&parent, 0)], &[40]);
    let new = pay(3, &[out(&parent, 0), outside(3)], &[45]);
    w.mempool(&old);
    w.replace(&new);
    w.ledger.abandon(w.wallet, &new.txid, w.now).unwrap();
    w.mempool(&parent);
    assert_eq!(w.outpoints(), [out(&parent, 0)]);
}

/// S064.
fn a_late_parent_links_each_credit_to_its_spender(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50, 60, 70]);
    let first = pay(2, &[out(&parent, 0)], &[40]);
    let both = pay(3, &[out(&parent, 1), out(&parent, 2)], &[120]);
    w.mempool(&first);
    w.mempool(&both);
    w.mempool(&parent);
    assert_eq!(w.outpoints(), [out(&first, 0), out(&both, 0)]);
    assert_eq!(w.balance().untrusted_unconfirmed, 160);
    w.mine(&[&parent]);
    assert_eq!(w.balance().trusted_unconfirmed, 160);
}

/// S065.
fn a_failed_transaction_still_shows_its_inputs(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let spend = pay(2, &[out(&funding, 0), outside(7)], &[40]);
    w.mempool(&spend);
    w.ledger.abandon(w.wallet, &spend.txid, w.now).unwrap();
    let detail = w.ledger.transaction(w.wallet, &spend.txid).unwrap();
    let amounts: Vec<_> = detail.inputs.iter().map(|input| input.amount).collect();
    assert_eq!(amounts, [Some(coins_of(50)), None]);
    assert_eq!(detail.summary.spent, 50);
}

/// S066.
fn abandoning_fails_the_branch(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let a = pay(2, &[out(&funding, 0)], &[-10, 30]);
    let b = pay(3, &[out(&a, 1)], &[20]);
    // Through an output that is not ours.
    let c = pay(4, &[out(&a, 0), outside(4)], &[5]);
    w.create(&a);
    w.create(&b);
    w.mempool(&c);
    let mut failed = w.ledger.abandon(w.wallet, &a.txid, w.now).unwrap().descendants;
    failed.sort_unstable();
    assert_eq!(failed, [b.txid, c.txid]);
    w.check();
    for tx in [&a, &b, &c] {
        assert_eq!(w.state(tx), TxState::Failed);
    }
    assert_eq!(w.outpoints(), [out(&funding, 0)]);
}

/// S067.
fn only_live_unconfirmed_transactions_are_abandoned(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let reward = mint(2, &[50]);
    w.mine(&[&reward]);
    let abandon = |tx: &NewTx| w.ledger.abandon(w.wallet, &tx.txid, w.now).unwrap_err();
    for tx in [&funding, &reward] {
        let error = abandon(tx);
        assert!(matches!(error, LedgerError::Refused { refused: Refused::Confirmed(_), .. }));
    }
    assert!(matches!(abandon(&pay(9, &[outside(9)], &[1])), LedgerError::TxNotFound(_)));
    let failed = pay(3, &[outside(3)], &[1]);
    w.mempool(&failed);
    w.ledger.abandon(w.wallet, &failed.txid, w.now).unwrap();
    let error = abandon(&failed);
    assert!(matches!(error, LedgerError::Refused { refused: Refused::NotLive(_), .. }));
}

/// S068.
fn removing_a_leaf_frees_its_inputs(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let spend = pay(2, &[out(&funding, 0)], &[40]);
    w.mempool(&spend);
    w.ledger.remove_unconfirmed(w.wallet, &spend.txid, w.now).unwrap();
    w.check();
    assert!(matches!(w.ledger.transaction(w.wallet, &spend.txid), Err(LedgerError::TxNotFound(_))));
    assert_eq!(w.outpoints(), [out(&funding, 0)]);
}

/// S069.
fn a_parent_with_an_own_child_stays(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    w.mempool(&parent);
    w.mempool(&child);
    let error = w.ledger.remove_unconfirmed(w.wallet, &parent.txid, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::NotALeaf(_)));
    assert_eq!(w.outpoints(), [out(&child, 0)]);
}

/// S070.
fn a_parent_with_a_foreign_output_spent_stays(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50, -9]);
    let child = pay(2, &[out(&parent, 1)], &[4]);
    w.mempool(&parent);
    w.mempool(&child);
    let error = w.ledger.remove_unconfirmed(w.wallet, &parent.txid, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::NotALeaf(_)));
}

/// S071.
fn a_failed_child_does_not_keep_its_parent(w: &mut World<'_>) {
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    w.mempool(&parent);
    w.mempool(&child);
    w.ledger.abandon(w.wallet, &child.txid, w.now).unwrap();
    w.ledger.remove_unconfirmed(w.wallet, &parent.txid, w.now).unwrap();
    w.check();
    assert_eq!(w.balance().total(), 0);
}

/// S072.
fn only_live_unconfirmed_transactions_are_removed(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let failed = pay(3, &[outside(3)], &[1]);
    w.mempool(&failed);
    w.ledger.abandon(w.wallet, &failed.txid, w.now).unwrap();
    let remove = |tx: &NewTx| w.ledger.remove_unconfirmed(w.wallet, &tx.txid, w.now).unwrap_err();
    assert!(matches!(remove(&funding), LedgerError::Refused { .. }));
    assert!(matches!(remove(&failed), LedgerError::Refused { .. }));
    assert!(matches!(remove(&pay(9, &[outside(9)], &[1])), LedgerError::TxNotFound(_)));
}

/// S073.
fn a_block_that_takes_one_of_two_inputs_frees_the_other(w: &mut World<'_>) {
    let a = funded(w, 1, 50);
    let b = funded(w, 2, 60);
    let both = pay(3, &[out(&a, 0), out(&b, 0)], &[100]);
    let child = pay(4, &[out(&both, 0)], &[90]);
    w.mempool(&both);
    w.mempool(&child);
    let only_a = pay(5, &[out(&a, 0)], &[-45]);
    w.mine(&[&only_a]);
    assert_eq!((w.state(&both), w.state(&child)), (TxState::Failed, TxState::Failed));
    assert_eq!(w.outpoints(), [out(&b, 0)]);
}

/// S074.
fn the_loser_comes_back_in_a_longer_chain(w: &mut World<'_>) {
    let a = funded(w, 1, 50);
    let b = funded(w, 2, 60);
    let both = pay(3, &[out(&a, 0), out(&b, 0)], &[100]);
    w.mempool(&both);
    let only_a = pay(5, &[out(&a, 0)], &[-45]);
    w.mine(&[&only_a]);
    w.undo();
    // The other one is unconfirmed now and still holds the coin.
    let error = w.record(&both, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::Conflict { rivals, .. } if rivals == [only_a.txid]));
    w.mine(&[]);
    w.mine(&[&both]);
    assert_eq!(w.state(&only_a), TxState::Failed);
    assert_eq!(w.outpoints(), [out(&both, 0)]);
}

/// S075.
fn replacing_twice_frees_the_first_inputs(w: &mut World<'_>) {
    let coins = [funded(w, 1, 10), funded(w, 2, 20), funded(w, 3, 30)];
    let u = coins.each_ref().map(|tx| out(tx, 0));
    let one = pay(4, &[u[0], u[1]], &[-29]);
    let two = pay(5, &[u[1], u[2]], &[-49]);
    let three = pay(6, &[u[2]], &[-29]);
    w.mempool(&one);
    w.replace(&two);
    assert_eq!(w.outpoints(), [u[0]]);
    w.replace(&three);
    assert_eq!(w.outpoints(), [u[0], u[1]]);
    // Nothing holds the inputs of the first any more.
    assert_eq!(w.mempool(&one).change, Change::Revived);
    assert!(w.outpoints().is_empty());
}

/// S076.
fn parent_and_child_lose_and_come_back(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let parent = pay(2, &[out(&funding, 0)], &[40]);
    let child = pay(3, &[out(&parent, 0)], &[30]);
    let rival = pay(4, &[out(&funding, 0)], &[-45]);
    w.mempool(&parent);
    w.mempool(&child);
    w.replace(&rival);
    assert_eq!((w.state(&parent), w.state(&child)), (TxState::Replaced, TxState::Failed));
    w.ledger.abandon(w.wallet, &rival.txid, w.now).unwrap();
    let error = w.record(&child, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidParent { .. }));
    w.mempool(&parent);
    w.mempool(&child);
    assert_eq!(w.outpoints(), [out(&child, 0)]);
}

/// S077.
fn publishing_an_abandoned_transaction_revives_it_without_its_child(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let parent = pay(2, &[out(&funding, 0)], &[40]);
    let child = pay(3, &[out(&parent, 0)], &[30]);
    w.mempool(&parent);
    w.mempool(&child);
    w.ledger.abandon(w.wallet, &parent.txid, w.now).unwrap();
    assert_eq!(w.outpoints(), [out(&funding, 0)]);
    w.ledger.publish(w.wallet, &parent.txid, w.now).unwrap();
    w.check();
    assert_eq!((w.state(&parent), w.state(&child)), (TxState::Unconfirmed, TxState::Failed));
    assert_eq!(w.outpoints(), [out(&parent, 0)]);
}

/// S078.
fn a_confirmed_spend_cannot_be_abandoned(w: &mut World<'_>) {
    let funding = funded(w, 1, 50);
    let spend = pay(2, &[out(&funding, 0)], &[40]);
    w.mempool(&spend);
    w.mine(&[&spend]);
    assert!(w.ledger.abandon(w.wallet, &spend.txid, w.now).is_err());
    assert_eq!(w.balance().confirmed, 40);
}

/// S060. A chain of dependents longer than the limit is refused whole.
fn a_cascade_beyond_the_limit_changes_nothing(url: &str) {
    let limits = Limits { cascade_txs_max: 5, ..Limits::default() };
    let ledger = open(url, limits);
    let mut w = World::new(&ledger);
    let funding = funded(&mut w, 1, 50);
    let mut last = pay(2, &[out(&funding, 0)], &[40]);
    w.mempool(&last);
    let root = last.clone();
    for name in 3..10 {
        last = pay(name, &[out(&last, 0)], &[30]);
        w.mempool(&last);
    }
    let winner = pay(20, &[out(&funding, 0)], &[-45]);
    let options = RecordOptions { replaces: true, ..Default::default() };
    let error = w.record_with(&winner, Seen::Mempool, &options).unwrap_err();
    assert!(matches!(error, LedgerError::CascadeTooLarge { rows_max: 5 }));
    assert_eq!((w.state(&root), w.state(&last)), (TxState::Unconfirmed, TxState::Unconfirmed));
    assert!(w.ledger.transaction(w.wallet, &winner.txid).is_err());
    assert!(w.ledger.abandon(w.wallet, &root.txid, w.now).is_err());
    assert_eq!(w.outpoints(), [out(&last, 0)]);
}

mod limited {
    #[test]
    fn a_cascade_beyond_the_limit_changes_nothing_on_sqlite() {
        crate::scenarios::world::on_sqlite(super::a_cascade_beyond_the_limit_changes_nothing);
    }

    #[test]
    fn a_cascade_beyond_the_limit_changes_nothing_on_postgres() {
        crate::scenarios::world::on_postgres(super::a_cascade_beyond_the_limit_changes_nothing);
    }
}
