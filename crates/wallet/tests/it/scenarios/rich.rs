//! A ledger with something in every table: what a test needs that looks at all of them.

use std::sync::Arc;

use utxokeep_chains::BitcoinCodec;
use utxokeep_core::{Height, OutPoint, Txid, wallet::ChainCodec as _};
use utxokeep_sql::{Dialect, SqlError, Transaction};
use utxokeep_wallet::{
    Label, LabelKind, LeaseId, LeaseTerms, Ledger, Limits, NewAddress, NewDescriptor, NewTx,
    NewWebhook, Outcome, PruneRule, Pruning, RecordOptions, RetryPolicy, Seen, TxDetail,
};

use crate::scenarios::{
    tampering::{DESCRIPTOR, rendered, signed},
    world::{NETWORK, SECOND, World, foreign, out, outside, own},
};

/// Another keychain of the same keys, which is archived.
const CHANGE: &str = "wpkh([0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/1/*)";

/// What a coinbase spends.
const NOTHING: OutPoint = OutPoint::new(Txid::from_bytes([0; 32]), u32::MAX);

/// What no operation of the library writes by itself.
const BESIDE: &[&str] = &[
    "INSERT INTO idempotency_keys (wallet_id, request_key, request_digest, answer, created_at_us)
     VALUES (1, 'first', {zeros}, '{}', 7)",
    // As blocks come that a chain database brings.
    "UPDATE recent_blocks SET work = {zeros}",
];

pub(crate) fn open(url: &str) -> Ledger {
    crate::scenarios::world::open(url, Limits::default()).with_codec(Arc::new(BitcoinCodec))
}

/// What is archived of a pruned transaction here.
pub(crate) fn document(txid: &Txid) -> String {
    format!("{{\"txid\":\"{}\"}}", txid.to_reversed_hex())
}

/// Fills a new ledger with four wallets: one with everything, one whose rescan is pending, one that
/// is set aside, one that is archived.
pub(crate) fn fill(ledger: &Ledger) -> World<'_> {
    let mut w = World::new(ledger);
    let script = own(20);
    let address = BitcoinCodec.address(NETWORK, &script);
    let by_hand = NewAddress { script, address, spend_weight: Some(300) };
    ledger.add_addresses(w.wallet, &[by_hand], w.now).unwrap();
    let two = ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(two, 0..2);
    keychains(&w);
    let coins = blocks(&mut w);
    payments(&mut w, &coins);
    labels(&w, &coins);
    ledger.request_rescan(two, Height::new(102), w.now).unwrap();
    others(&w);
    let archive = ledger.descriptors_and_archived(w.wallet).unwrap()[1].id;
    ledger.archive_descriptor(w.wallet, archive, &[], w.now).unwrap();
    execute(ledger, BESIDE);
    webhooks(&mut w);
    w.mine(&[]);
    w
}

/// A webhook that was added later, one whose delivery failed, one that a program holds, and a lease
/// that has expired.
fn webhooks(w: &mut World<'_>) {
    let lease = LeaseTerms::until(LeaseId::from_bytes([5; 32]), SECOND);
    let coin = w.coins().into_iter().find(|coin| !coin.leased && coin.spendable).unwrap().outpoint;
    w.ledger.acquire_leases(w.wallet, &[coin], &lease, w.now).unwrap();
    w.tick(SECOND);
    w.ledger.clean_leases(w.wallet, 1, w.now).unwrap();
    let secret = "s".repeat(64);
    for after in [None, Some(0), Some(1)] {
        let url = "https://example.com/".to_owned();
        let new = NewWebhook { url, secret: secret.clone(), after };
        let id = w.ledger.add_webhook(w.wallet, &new, w.now).unwrap().id;
        w.ledger
            .hold_webhook((w.wallet, id), &[u8::try_from(id).unwrap(); 16], SECOND, 1, w.now)
            .unwrap();
    }
    let (failed, policy) = (Outcome::Failed("refused"), RetryPolicy::default());
    w.ledger.end_delivery((w.wallet, 2), &[2; 16], 1, failed, &policy, w.now).unwrap();
}

pub(crate) fn execute(ledger: &Ledger, statements: &[&str]) {
    let done = ledger.database().write(|tx: &mut Transaction<'_>| {
        for sql in statements {
            let dialect: Dialect = tx.dialect();
            assert!(tx.execute(&rendered(sql, dialect), &[])? > 0, "{sql}");
        }
        Ok::<(), SqlError>(())
    });
    done.unwrap();
}

fn keychains(w: &World<'_>) {
    for text in [DESCRIPTOR, CHANGE] {
        let descriptor = NewDescriptor { lookahead: Some(5), ..NewDescriptor::new(text) };
        w.ledger.add_descriptor(w.wallet, &descriptor, w.now).unwrap();
    }
}

/// Scripts of the first keychain.
fn derived(index: u32) -> Vec<u8> {
    BitcoinCodec.derive(NETWORK, DESCRIPTOR, index..index + 1).unwrap()[0].script.clone()
}

/// Payments in blocks, a coinbase in two of them, and blocks that left the chain.
fn blocks(w: &mut World<'_>) -> NewTx {
    let minted = signed(&[NOTHING], &[(50, own(8))]);
    let outputs: Vec<(u64, Vec<u8>)> =
        (0..9).map(|n| (10_000_000 + u64::from(n), own(n))).collect();
    let coins = signed(&[outside(1)], &outputs);
    let more = [(7_000, derived(0)), (8_000, derived(4)), (9, foreign(9))];
    let to_keychain = signed(&[outside(2)], &more);
    w.mine(&[&minted]);
    w.mine(&[&coins]);
    w.mine(&[&to_keychain]);
    w.mine(&[&minted]);
    // A spend in a block, of a coin that is held by a lease.
    let held = LeaseTerms {
        hold_confirmations: Some(50),
        ..LeaseTerms::until(LeaseId::from_bytes([7; 32]), 60 * SECOND)
    };
    w.ledger.acquire_leases(w.wallet, &[out(&coins, 0)], &held, w.now).unwrap();
    let spend = signed(&[out(&coins, 0)], &[(9_000_000, own(9)), (5, foreign(1))]);
    w.mine(&[&spend]);
    // Somebody's word for a block below, with and without a place in it.
    for (n, position) in [(30, Some(3)), (31, None)] {
        let claimed = signed(&[outside(n)], &[(u64::from(n), own(3))]);
        let mut block = w.block_at(u32::from(n));
        block.time = block.time.plus(1);
        w.record(&claimed, Seen::Block(block, position)).unwrap();
    }
    w.ledger.set_birthday(w.wallet, Some(Height::new(30)), w.now).unwrap();
    coins
}

/// Payments in no block: published, waiting, replaced, double-spent, abandoned, with descendants.
fn payments(w: &mut World<'_>, coins: &NewTx) {
    let pay = |coin: u32, amount: u64| signed(&[out(coins, coin)], &[(amount, own(9))]);
    // What is dead already goes to the archive; what dies later stays.
    for n in [6, 7] {
        let dead = pay(n, u64::from(n));
        w.mempool(&dead);
        w.ledger.abandon(w.wallet, &dead.txid, w.now).unwrap();
    }
    let rule = PruneRule { dead_before: Some(w.now.plus(1)), confirmed_up_to: None, txs_max: 10 };
    let write = |detail: &TxDetail| document(&detail.summary.txid);
    w.ledger.prune(w.wallet, &rule, Pruning::Archive(&write), w.now).unwrap();

    let owner = LeaseId::from_bytes([9; 32]);
    let lease = LeaseTerms::until(owner, 3_600 * SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(coins, 1)], &lease, w.now).unwrap();
    let mine = RecordOptions { owner: Some(owner), ..RecordOptions::default() };
    w.record_with(&pay(1, 100), Seen::Created, &mine).unwrap();

    let replaced = pay(2, 200);
    w.mempool(&replaced);
    w.mempool(&signed(&[out(&replaced, 0)], &[(150, own(9))]));
    w.replace(&pay(2, 190));

    let published = pay(3, 300);
    w.mempool(&published);
    let bumps = RecordOptions { replaces: true, ..RecordOptions::default() };
    w.record_with(&pay(3, 290), Seen::Created, &bumps).unwrap();

    w.mempool(&pay(4, 400));
    w.mine(&[&pay(4, 390)]);

    let abandoned = pay(5, 500);
    w.mempool(&abandoned);
    w.ledger.abandon(w.wallet, &abandoned.txid, w.now).unwrap();
    w.mine(&[&signed(&[NOTHING], &[(51, own(8))])]);
    w.undo();
    w.mine(&[]);
}

fn labels(w: &World<'_>, coins: &NewTx) {
    let txid = coins.txid.to_reversed_hex();
    let label = |kind, reference: String| Label {
        kind,
        reference,
        label: Some("a text".to_owned()),
        origin: None,
        spendable: None,
    };
    let held = Label { spendable: Some(false), ..label(LabelKind::Output, format!("{txid}:8")) };
    let other = Label {
        origin: Some("wpkh([0c5f9a1e/84h/1h/0h])".to_owned()),
        ..label(LabelKind::Tx, txid.clone())
    };
    for label in [held, other, label(LabelKind::Tx, txid)] {
        w.ledger.set_label(w.wallet, &label, w.now).unwrap();
    }
}

/// A wallet that is set aside, and one that is archived.
fn others(w: &World<'_>) {
    let aside = w.ledger.create_wallet("aside", NETWORK, w.now).unwrap().id;
    let archived = w.ledger.create_wallet("archived", NETWORK, w.now).unwrap().id;
    w.ledger.archive_wallet(archived, &[], w.now).unwrap();
    let row = format!(
        "INSERT INTO wallet_rescans (wallet_id, from_height, next_height, is_requested,
            failed_height, failed_hash, failed_reason, failed_at_us)
         VALUES ({}, 104, 104, 0, 104, {{zeros}}, 'no reason', 7)",
        aside.get()
    );
    execute(w.ledger, &[&row]);
}
