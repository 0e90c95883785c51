//! Trust of what is in no block: all ancestors in no block must be paid by the wallet.

use utxokeep_core::OutPoint;
use utxokeep_wallet::{CoinClass, LedgerError, Limits, NewTx, RecordOptions, Seen};

use crate::scenarios::world::{NETWORK, World, open, out, outside, pay};

crate::scenarios::on_both!(
    trust_needs_all_ancestors_in_no_block,
    trust_rises_down_the_chain_when_a_stranger_confirms,
    trust_falls_with_a_block_and_comes_back,
    trust_rises_when_a_parent_is_published,
    trust_follows_a_replacement,
    trust_comes_late_with_the_parent,
    trust_needs_every_branch,
    verify_finds_trust_that_is_not_earned,
);

fn class(w: &World<'_>, tx: &NewTx) -> CoinClass {
    let index = tx.outputs.len() - 1;
    let output = out(tx, u32::try_from(index).unwrap());
    w.ledger.coin(w.wallet, &output, w.now).map_or(CoinClass::Dead, |coin| coin.class)
}

/// A chain of payments to ourselves, each from the last output of the one before.
fn chain(names: std::ops::Range<u8>, first: OutPoint) -> Vec<NewTx> {
    let mut from = first;
    names
        .map(|name| {
            let tx = pay(name, &[from], &[-1, 40]);
            from = out(&tx, 1);
            tx
        })
        .collect()
}

fn trust_needs_all_ancestors_in_no_block(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    let links = chain(2..5, out(&receive, 0));
    for link in &links {
        w.mempool(link);
        assert_eq!(class(w, link), CoinClass::Untrusted);
    }
    let funding = pay(10, &[outside(10)], &[50]);
    w.mine(&[&funding]);
    for link in &chain(11..14, out(&funding, 0)) {
        w.mempool(link);
        assert_eq!(class(w, link), CoinClass::Trusted);
    }
    let balance = w.balance();
    assert_eq!((balance.trusted_unconfirmed, balance.untrusted_unconfirmed), (40, 40));
}

fn trust_rises_down_the_chain_when_a_stranger_confirms(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let links = chain(2..6, out(&receive, 0));
    w.mempool(&receive);
    for link in &links {
        w.mempool(link);
    }
    w.mine(&[&receive]);
    assert_eq!(class(w, &links[3]), CoinClass::Trusted);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    // Half of the chain confirms; nothing changes for the rest.
    w.mine(&[&links[0], &links[1]]);
    assert_eq!(class(w, &links[3]), CoinClass::Trusted);
}

fn trust_falls_with_a_block_and_comes_back(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let links = chain(2..6, out(&receive, 0));
    w.mine(&[]);
    let low = w.mine(&[&receive]);
    let high = w.mine(&[&links[0]]);
    for link in &links[1..] {
        w.mempool(link);
    }
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    w.undo();
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    w.undo();
    let balance = w.balance();
    assert_eq!((balance.trusted_unconfirmed, balance.untrusted_unconfirmed), (0, 40));
    w.redo(&low, &[&receive]);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    w.redo(&high, &[&links[0]]);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    // Both blocks at once.
    let below = w.block_at(100);
    let first = low.parent.unwrap();
    w.ledger.rollback_to(NETWORK, (below.height, first), w.now).unwrap();
    w.check();
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
}

fn trust_rises_when_a_parent_is_published(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let links = chain(2..5, out(&funding, 0));
    w.create(&links[0]);
    w.mempool(&links[1]);
    w.mempool(&links[2]);
    // Nobody else has seen the first one.
    assert_eq!(class(w, &links[2]), CoinClass::Untrusted);
    w.ledger.publish(w.wallet, &links[0].txid, w.now).unwrap();
    w.check();
    assert_eq!(class(w, &links[2]), CoinClass::Trusted);
}

fn trust_follows_a_replacement(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let first = pay(2, &[out(&funding, 0)], &[-1, 40]);
    w.mempool(&first);
    w.mempool(&pay(3, &[out(&first, 1)], &[-1, 30]));
    // It waits, and something of ours is built on it already.
    let bump = pay(4, &[out(&funding, 0)], &[-1, 35]);
    let options = RecordOptions { replaces: true, ..Default::default() };
    w.record_with(&bump, Seen::Created, &options).unwrap();
    let above = pay(5, &[out(&bump, 1)], &[-1, 20]);
    w.mempool(&above);
    assert_eq!(class(w, &above), CoinClass::Untrusted);
    w.ledger.publish(w.wallet, &bump.txid, w.now).unwrap();
    w.check();
    assert_eq!(class(w, &above), CoinClass::Trusted);
    assert_eq!((w.balance().total(), w.balance().trusted_unconfirmed), (20, 20));
    // The stranger's coin that comes along spoils it.
    let mixed = pay(6, &[out(&funding, 0), outside(6)], &[-1, 90]);
    w.replace(&mixed);
    let top = pay(7, &[out(&mixed, 1)], &[-1, 80]);
    w.mempool(&top);
    assert_eq!((class(w, &above), class(w, &top)), (CoinClass::Dead, CoinClass::Untrusted));
    w.ledger.abandon(w.wallet, &mixed.txid, w.now).unwrap();
    w.check();
    assert_eq!((w.balance().confirmed, w.balance().total()), (50, 50));
}

fn trust_comes_late_with_the_parent(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let links = chain(2..6, out(&funding, 0));
    for link in links.iter().rev() {
        assert_eq!(w.balance().trusted_unconfirmed, 0);
        w.mempool(link);
    }
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    // The same with a parent that only a block brings.
    let receive = pay(11, &[outside(11)], &[50]);
    let links = chain(12..14, out(&receive, 0));
    w.mempool(&links[1]);
    w.mempool(&links[0]);
    assert_eq!(class(w, &links[1]), CoinClass::Untrusted);
    w.mine(&[&receive]);
    assert_eq!(class(w, &links[1]), CoinClass::Trusted);
}

fn trust_needs_every_branch(w: &mut World<'_>) {
    let ours = pay(1, &[outside(1)], &[50]);
    let theirs = pay(2, &[outside(2)], &[60]);
    w.mine(&[&ours]);
    w.mempool(&theirs);
    let left = pay(3, &[out(&ours, 0)], &[49]);
    let right = pay(4, &[out(&theirs, 0)], &[59]);
    let both = pay(5, &[out(&left, 0), out(&right, 0)], &[100]);
    for tx in [&left, &right, &both] {
        w.mempool(tx);
    }
    assert_eq!(class(w, &both), CoinClass::Untrusted);
    w.mine(&[&left]);
    assert_eq!(class(w, &both), CoinClass::Untrusted);
    w.mine(&[&theirs]);
    assert_eq!(class(w, &both), CoinClass::Trusted);
}

fn verify_finds_trust_that_is_not_earned(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&receive, 0)], &[40]);
    w.mempool(&receive);
    w.mempool(&child);
    let raise = "UPDATE utxos SET parent_class = 3 WHERE wallet_id = 1 AND amount = 40";
    w.ledger.database().write(|tx| tx.execute(raise, &[])).unwrap();
    let found = w.ledger.verify(w.wallet).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].rule.starts_with("class"), "{found:?}");
}

/// More descendants than the limit: a claim changes nothing, a block goes all the way.
fn a_cascade_of_trust_beyond_the_limit(url: &str) {
    let ledger = open(url, Limits { cascade_txs_max: 5, ..Limits::default() });
    let mut w = World::new(&ledger);
    let receive = pay(1, &[outside(1)], &[50]);
    let empty = w.mine(&[]).block;
    w.mempool(&receive);
    let links = chain(2..10, out(&receive, 0));
    for link in &links {
        w.mempool(link);
    }
    let error = w.ledger.confirm(w.wallet, &receive.txid, empty, None, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::CascadeTooLarge { rows_max: 5 }));
    w.check();
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
    w.mine(&[&receive]);
    assert_eq!(w.balance().trusted_unconfirmed, 40);
    w.undo();
    assert_eq!(w.balance().untrusted_unconfirmed, 40);
}

mod limited {
    #[test]
    fn a_cascade_of_trust_on_sqlite() {
        crate::scenarios::world::on_sqlite(super::a_cascade_of_trust_beyond_the_limit);
    }

    #[test]
    fn a_cascade_of_trust_on_postgres() {
        crate::scenarios::world::on_postgres(super::a_cascade_of_trust_beyond_the_limit);
    }
}
