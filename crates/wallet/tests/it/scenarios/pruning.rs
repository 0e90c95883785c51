//! Pruning: what may go, what waits until it is kept elsewhere, and what a reorganisation may reach.

use utxokeep_core::{Height, Txid, wallet::BadPrune};
use utxokeep_wallet::{LedgerError, NewTx, PruneRule, PrunedRow, Pruning, TxDetail};

use crate::scenarios::world::{World, out, outside, pay};

crate::scenarios::on_both!(
    pruning_takes_dead_transactions,
    pruning_takes_families_that_are_spent_out,
    pruned_rows_wait_until_they_are_acknowledged,
    numbers_of_the_archive_are_never_given_twice,
    a_dry_run_removes_nothing_and_foretells_everything,
    what_a_reorganisation_reaches_is_not_pruned,
    without_a_tip_nothing_confirmed_goes,
);

fn dead(w: &World<'_>, txs_max: usize) -> PruneRule {
    PruneRule { dead_before: Some(w.now.plus(1)), confirmed_up_to: None, txs_max }
}

fn up_to(height: u32) -> PruneRule {
    PruneRule { dead_before: None, confirmed_up_to: Some(Height::new(height)), txs_max: 10 }
}

/// Made and given up.
fn give_up(w: &World<'_>, name: u8) -> NewTx {
    let tx = pay(name, &[outside(name)], &[10]);
    w.mempool(&tx);
    w.ledger.abandon(w.wallet, &tx.txid, w.now).unwrap();
    tx
}

fn written(detail: &TxDetail) -> String {
    format!("{} {:?}", detail.summary.txid, detail.raw)
}

fn archive(w: &World<'_>, txs_max: usize) -> Vec<TxDetail> {
    let gone = w.ledger.prune(w.wallet, &dead(w, txs_max), Pruning::Archive(&written), w.now);
    w.check();
    gone.unwrap()
}

fn waiting(w: &World<'_>) -> Vec<PrunedRow> {
    w.ledger.pruned(w.wallet, 0, 100).unwrap()
}

fn pruning_takes_dead_transactions(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let first = pay(2, &[out(&funding, 0)], &[40]);
    let child = pay(3, &[out(&first, 0)], &[30]);
    let bump = pay(4, &[out(&funding, 0)], &[35]);
    w.mempool(&first);
    w.mempool(&child);
    w.replace(&bump);
    let all = |before, txs_max| PruneRule { dead_before: before, confirmed_up_to: None, txs_max };
    assert!(
        w.ledger
            .prune(w.wallet, &all(Some(w.now), 10), Pruning::Discard, w.now)
            .unwrap()
            .is_empty()
    );
    let later = w.now.plus(1);
    let gone = w.ledger.prune(w.wallet, &all(Some(later), 1), Pruning::Discard, w.now).unwrap();
    w.check();
    assert_eq!(gone.len(), 1);
    assert_eq!((gone[0].summary.txid, gone[0].raw.as_deref()), (first.txid, first.raw.as_deref()));
    let gone = w.ledger.prune(w.wallet, &all(Some(later), 10), Pruning::Discard, w.now).unwrap();
    w.check();
    assert_eq!(gone.len(), 1);
    assert_eq!(w.outpoints(), [out(&bump, 0)]);
}

fn pruning_takes_families_that_are_spent_out(w: &mut World<'_>) {
    let a = pay(1, &[outside(1)], &[50]);
    let b = pay(2, &[out(&a, 0)], &[-9, 40]);
    let c = pay(3, &[out(&b, 1)], &[-39]);
    let kept = pay(4, &[outside(4)], &[70]);
    let change = pay(5, &[out(&kept, 0)], &[-9, 60]);
    w.mine(&[&a, &kept]);
    w.mine(&[&b, &change]);
    w.mine(&[&c]);
    w.mine_to(390);
    let up_to = |height| PruneRule {
        dead_before: None,
        confirmed_up_to: Some(Height::new(height)),
        txs_max: 10,
    };
    // The spend of the last coin is not deep enough.
    assert!(w.ledger.prune(w.wallet, &up_to(101), Pruning::Discard, w.now).unwrap().is_empty());
    let gone = w.ledger.prune(w.wallet, &up_to(102), Pruning::Discard, w.now).unwrap();
    w.check();
    let gone: Vec<_> = gone.iter().map(|tx| tx.summary.txid).collect();
    assert_eq!(gone, [a.txid, b.txid, c.txid]);
    assert_eq!(w.outpoints(), [out(&change, 1)]);
    assert_eq!(w.balance().confirmed, 60);
}

fn pruned_rows_wait_until_they_are_acknowledged(w: &mut World<'_>) {
    for name in 1..=5 {
        give_up(w, name);
    }
    let mut gone = archive(w, 2);
    gone.extend(archive(w, 10));
    assert_eq!(gone.len(), 5);
    let rows = waiting(w);
    let kept: Vec<&str> = rows.iter().map(|row| row.document.as_str()).collect();
    let expected: Vec<String> = gone.iter().map(written).collect();
    assert_eq!(kept, expected, "everything, in the order it went");
    assert_eq!(w.ledger.pruned_count(w.wallet).unwrap(), 5);
    assert_eq!(w.ledger.pruned(w.wallet, rows[1].id, 2).unwrap(), rows[2..4]);
    assert_eq!(w.ledger.acknowledge_pruned(w.wallet, rows[2].id, w.now).unwrap(), 3);
    assert_eq!(waiting(w), rows[3..]);
    assert_eq!(w.ledger.acknowledge_pruned(w.wallet, rows[2].id, w.now).unwrap(), 0);
    let other =
        w.ledger.create_wallet("other", crate::scenarios::world::NETWORK, w.now).unwrap().id;
    for (wallet, never_given) in [(w.wallet, i64::MAX), (w.wallet, 0), (w.wallet, -1), (other, 1)] {
        let refused = w.ledger.acknowledge_pruned(wallet, never_given, w.now);
        assert!(matches!(refused, Err(LedgerError::InvalidArgument { .. })), "{refused:?}");
    }
    assert_eq!(waiting(w), rows[3..], "each wallet has its own archive");
}

/// Otherwise an acknowledgement of rows that were read could take rows that were not.
fn numbers_of_the_archive_are_never_given_twice(w: &mut World<'_>) {
    give_up(w, 1);
    archive(w, 10);
    let read = waiting(w)[0].id;
    w.ledger.acknowledge_pruned(w.wallet, read, w.now).unwrap();
    give_up(w, 2);
    archive(w, 10);
    // The client that read the first one says so once more.
    assert_eq!(w.ledger.acknowledge_pruned(w.wallet, read, w.now).unwrap(), 0);
    assert_eq!(waiting(w).len(), 1);
}

fn a_dry_run_removes_nothing_and_foretells_everything(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let first = pay(2, &[out(&funding, 0)], &[40]);
    w.mempool(&first);
    w.replace(&pay(3, &[out(&funding, 0)], &[35]));
    w.replace(&pay(4, &[out(&funding, 0)], &[-30]));
    give_up(w, 5);
    let ids =
        |gone: Vec<TxDetail>| -> Vec<Txid> { gone.into_iter().map(|tx| tx.summary.txid).collect() };
    let rule = dead(w, 10);
    let told = ids(w.ledger.prune(w.wallet, &rule, Pruning::DryRun, w.now).unwrap());
    assert!(told.len() >= 2, "{told:?}");
    for txid in &told {
        w.ledger.transaction(w.wallet, txid).unwrap();
    }
    assert_eq!(waiting(w), []);
    assert_eq!(ids(archive(w, 10)), told);
}

fn what_a_reorganisation_reaches_is_not_pruned(w: &mut World<'_>) {
    let a = pay(1, &[outside(1)], &[50]);
    let b = pay(2, &[out(&a, 0)], &[-49]);
    w.mine(&[&a]);
    w.mine(&[&b]);
    w.mine_to(388);
    let prune =
        |w: &World<'_>, height| w.ledger.prune(w.wallet, &up_to(height), Pruning::Discard, w.now);
    let refused = prune(w, 101).unwrap_err();
    let LedgerError::BadPrune(BadPrune::TooShallow { depth_blocks, highest, .. }) = refused else {
        panic!("{refused}");
    };
    assert_eq!((depth_blocks, highest), (288, Height::new(100)));
    assert!(refused.to_string().contains("highest that can be asked for is 100"), "{refused}");
    let dry = w.ledger.prune(w.wallet, &up_to(101), Pruning::DryRun, w.now);
    assert!(matches!(dry, Err(LedgerError::BadPrune(_))));
    assert!(prune(w, 100).unwrap().is_empty());
    w.mine_to(389);
    assert_eq!(prune(w, 101).unwrap().len(), 2);
    w.check();
}

fn without_a_tip_nothing_confirmed_goes(w: &mut World<'_>) {
    let refused = w.ledger.prune(w.wallet, &up_to(0), Pruning::Discard, w.now);
    assert!(matches!(refused, Err(LedgerError::BadPrune(BadPrune::NoDepth { .. }))));
    w.mine(&[]);
    let refused = w.ledger.prune(w.wallet, &up_to(0), Pruning::Discard, w.now);
    assert!(matches!(refused, Err(LedgerError::BadPrune(BadPrune::NoDepth { .. }))));
}
