//! Wallet events: each effect is told once, in order, with what a reader needs.

use utxokeep_core::wallet::InvalidReason;
use utxokeep_sql::Value;
use utxokeep_wallet::{
    EventPage, LeaseId, LeaseTerms, Ledger, LedgerError, Limits, NewTx, TxStatus, WalletEvent,
    WalletEventKind,
};

use crate::scenarios::{
    on_both,
    world::{NETWORK, SECOND, World, mint, on_postgres, open, out, outside, pay},
};

on_both!(
    a_payment_is_told_from_its_creation_to_its_depths,
    a_reorganisation_is_told_and_every_depth_again,
    blocks_above_that_change_tell_no_depth_twice,
    what_ended_a_transaction_is_told_with_the_reason,
    a_transaction_that_comes_back_is_told_again,
    what_is_recorded_again_is_not_told,
    a_refused_change_is_not_told,
    a_scan_of_an_old_block_tells_every_depth_that_is_reached,
    a_removed_transaction_is_told,
    an_expired_lease_is_told_once_by_upkeep,
    an_expired_lease_is_told_by_the_next_that_takes_the_coin,
    a_released_lease_is_not_told,
    events_go_by_number_and_by_age_and_a_reader_is_told,
    a_cursor_that_no_event_has_reached_is_refused,
    pages_follow_each_other_without_a_gap,
    a_wallet_that_is_set_aside_is_told_its_depths_when_it_is_back,
    an_effect_without_its_event_is_found,
    wallets_are_numbered_each_for_itself,
);

fn page(w: &World<'_>, after: Option<i64>) -> EventPage {
    w.ledger.events(w.wallet, after, 1_000).unwrap()
}

fn events(w: &World<'_>) -> Vec<WalletEvent> {
    page(w, None).events
}

/// What an event says, in short.
fn short(event: &WalletEvent) -> String {
    let name = event.txid.as_bytes()[0];
    let kind = event.kind.name();
    match (event.block_height, event.confirmations) {
        (Some(height), Some(depth)) => format!("{name} {kind} {depth} at {height}"),
        (Some(height), None) => format!("{name} {kind} from {height}"),
        _ => format!("{name} {kind}"),
    }
}

/// Events behind a cursor in short; the cursor moves.
fn news(w: &World<'_>, cursor: &mut i64) -> Vec<String> {
    let page = page(w, Some(*cursor));
    *cursor = page.next_cursor;
    page.events.iter().map(short).collect()
}

fn funded<'n>(w: &mut World<'_>, funding: &'n NewTx) -> &'n NewTx {
    w.mine(&[funding]);
    funding
}

fn a_payment_is_told_from_its_creation_to_its_depths(w: &mut World<'_>) {
    let mut cursor = 0;
    let funding = pay(1, &[outside(1)], &[10_000]);
    let block = w.mine(&[&funding]).block;
    assert_eq!(news(w, &mut cursor), ["1 confirmed 1 at 100"]);
    let first = events(w)[0];
    assert_eq!((first.id, first.at), (1, w.now));
    assert_eq!((first.status, first.block_hash), (Some(TxStatus::Published), Some(block.hash)));

    let payment = pay(2, &[out(&funding, 0)], &[4_000, -5_000]);
    w.create(&payment);
    assert_eq!(news(w, &mut cursor), ["2 created"]);
    w.ledger.publish(w.wallet, &payment.txid, w.now).unwrap();
    assert_eq!(news(w, &mut cursor), ["2 seen"]);
    w.mine(&[&payment]);
    assert_eq!(news(w, &mut cursor), ["2 confirmed 1 at 101"]);
    w.mine_to(102);
    assert_eq!(news(w, &mut cursor), ["1 confirmed 3 at 100"]);
    w.mine_to(105);
    assert_eq!(news(w, &mut cursor), ["2 confirmed 3 at 101", "1 confirmed 6 at 100"]);
    w.mine_to(120);
    assert_eq!(news(w, &mut cursor), ["2 confirmed 6 at 101"]);
}

fn a_reorganisation_is_told_and_every_depth_again(w: &mut World<'_>) {
    let (payment, coinbase) = (pay(1, &[outside(1)], &[10_000]), mint(2, &[5_000]));
    w.mine(&[]);
    let left = w.mine(&[&coinbase, &payment]).block;
    w.mine_to(103);
    let mut cursor = page(w, None).next_cursor;
    for _ in 0..3 {
        w.undo();
    }
    let all = page(w, Some(cursor)).events;
    assert_eq!(news(w, &mut cursor), ["2 reorganised from 101", "1 reorganised from 101"]);
    assert_eq!(all[0].status, Some(TxStatus::Orphaned));
    assert_eq!(all[1].status, Some(TxStatus::Published));
    assert!(all.iter().all(|event| event.block_hash == Some(left.hash)));
    w.mine_to(104);
    assert_eq!(news(w, &mut cursor), Vec::<String>::new());
    w.mine(&[&payment]);
    w.mine_to(110);
    let again = ["1 confirmed 1 at 105", "1 confirmed 3 at 105", "1 confirmed 6 at 105"];
    assert_eq!(news(w, &mut cursor), again);
}

fn blocks_above_that_change_tell_no_depth_twice(w: &mut World<'_>) {
    let payment = pay(1, &[outside(1)], &[10_000]);
    w.mine(&[&payment]);
    w.mine_to(102);
    let mut cursor = page(w, None).next_cursor;
    w.undo();
    w.undo();
    w.mine_to(110);
    assert_eq!(news(w, &mut cursor), ["1 confirmed 6 at 100"]);
}

fn what_ended_a_transaction_is_told_with_the_reason(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000, 20_000]);
    funded(w, &funding);
    let first = pay(2, &[out(&funding, 0)], &[9_000]);
    let child = pay(3, &[out(&first, 0)], &[8_000]);
    w.mempool(&first);
    w.mempool(&child);
    let mut cursor = page(w, None).next_cursor;
    let second = pay(4, &[out(&funding, 0)], &[8_500]);
    w.replace(&second);
    let all = page(w, Some(cursor)).events;
    let mut told = news(w, &mut cursor);
    told.sort_unstable();
    assert_eq!(told, ["2 replaced", "3 failed", "4 seen"]);
    let of = |kind| all.iter().find(|event| event.kind == kind).unwrap();
    let replaced = of(WalletEventKind::Replaced);
    assert_eq!((replaced.reason, replaced.by), (Some(InvalidReason::Replaced), Some(second.txid)));
    let failed = of(WalletEventKind::Failed);
    let ancestor = (Some(InvalidReason::AncestorInvalid), Some(first.txid));
    assert_eq!((failed.reason, failed.by), ancestor);

    let thief = pay(5, &[out(&funding, 0)], &[-9_900]);
    w.mine(&[&thief]);
    let all = page(w, Some(cursor)).events;
    let failed = all.iter().find(|event| event.txid == second.txid).unwrap();
    assert_eq!((failed.reason, failed.by), (Some(InvalidReason::DoubleSpent), Some(thief.txid)));
    let given_up = pay(6, &[out(&funding, 1)], &[-100]);
    w.create(&given_up);
    w.ledger.abandon(w.wallet, &given_up.txid, w.now).unwrap();
    let last = events(w).pop().unwrap();
    assert_eq!((last.kind, last.reason), (WalletEventKind::Failed, Some(InvalidReason::Abandoned)));
    assert_eq!(last.by, None);
}

fn a_transaction_that_comes_back_is_told_again(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000]);
    funded(w, &funding);
    let payment = pay(2, &[out(&funding, 0)], &[-9_000]);
    w.mempool(&payment);
    w.ledger.abandon(w.wallet, &payment.txid, w.now).unwrap();
    let mut cursor = page(w, None).next_cursor;
    w.mempool(&payment);
    assert_eq!(news(w, &mut cursor), ["2 seen"]);
    w.ledger.abandon(w.wallet, &payment.txid, w.now).unwrap();
    w.mine(&[&payment]);
    assert_eq!(news(w, &mut cursor), ["2 failed", "2 confirmed 1 at 101"]);
}

fn what_is_recorded_again_is_not_told(w: &mut World<'_>) {
    let payment = pay(1, &[outside(1)], &[10_000]);
    w.mempool(&payment);
    let cursor = page(w, None).next_cursor;
    w.mempool(&payment);
    w.create(&payment);
    let linked = w.mine(&[&payment]);
    let after = page(w, None).next_cursor;
    assert_eq!(after, cursor + 1);
    w.ledger.apply_block(NETWORK, &linked, std::slice::from_ref(&payment), w.now).unwrap();
    w.mempool(&payment);
    assert_eq!(page(w, None).next_cursor, after);
}

fn a_refused_change_is_not_told(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[10_000]);
    funded(w, &funding);
    w.mempool(&pay(2, &[out(&funding, 0)], &[9_000]));
    let cursor = page(w, None).next_cursor;
    let rival = pay(3, &[out(&funding, 0)], &[8_000]);
    let refused = w.record(&rival, utxokeep_wallet::Seen::Mempool);
    assert!(matches!(refused, Err(LedgerError::Conflict { .. })), "{refused:?}");
    assert!(w.ledger.abandon(w.wallet, &funding.txid, w.now).is_err());
    assert_eq!(page(w, Some(cursor)).events, []);
}

fn a_scan_of_an_old_block_tells_every_depth_that_is_reached(w: &mut World<'_>) {
    let late = NewTx {
        outputs: vec![utxokeep_wallet::NewOutput {
            amount: crate::scenarios::world::coins_of(7_000),
            script: crate::scenarios::world::own(200),
        }],
        ..pay(1, &[outside(1)], &[7_000])
    };
    let block = w.mine(&[&late]).block;
    w.mine_to(103);
    let mut cursor = 0;
    assert_eq!(news(w, &mut cursor), Vec::<String>::new());
    w.watch(w.wallet, 200..201);
    w.ledger.scan_block(w.wallet, &block, std::slice::from_ref(&late), w.now).unwrap();
    assert_eq!(news(w, &mut cursor), ["1 confirmed 1 at 100", "1 confirmed 3 at 100"]);
    w.mine_to(105);
    assert_eq!(news(w, &mut cursor), ["1 confirmed 6 at 100"]);
}

fn a_removed_transaction_is_told(w: &mut World<'_>) {
    let payment = pay(1, &[outside(1)], &[10_000]);
    w.mempool(&payment);
    w.ledger.remove_unconfirmed(w.wallet, &payment.txid, w.now).unwrap();
    let mut cursor = 0;
    assert_eq!(news(w, &mut cursor), ["1 seen", "1 removed"]);
    assert_eq!(events(w)[1].status, None);
}

fn leased(w: &mut World<'_>, owner: LeaseId) -> NewTx {
    let funding = pay(1, &[outside(1)], &[10_000]);
    funded(w, &funding);
    let terms = LeaseTerms::until(owner, 10 * SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&funding, 0)], &terms, w.now).unwrap();
    funding
}

const ALICE: LeaseId = LeaseId::from_bytes([7; 32]);
const BOB: LeaseId = LeaseId::from_bytes([8; 32]);

fn an_expired_lease_is_told_once_by_upkeep(w: &mut World<'_>) {
    let funding = leased(w, ALICE);
    let until = w.now.plus(10 * SECOND);
    let cursor = page(w, None).next_cursor;
    assert_eq!(w.ledger.clean_all_leases(10, w.now).unwrap().rows, 0);
    assert_eq!(page(w, Some(cursor)).events, []);
    w.tick(11 * SECOND);
    for rows in [1, 0] {
        assert_eq!(w.ledger.clean_all_leases(10, w.now).unwrap().rows, rows);
        let told = page(w, Some(cursor)).events;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].kind, WalletEventKind::LeaseExpired);
        assert_eq!(told[0].lease, Some((out(&funding, 0), ALICE, until)));
        assert_eq!((told[0].txid, told[0].status), (funding.txid, None));
    }
    w.check();
}

fn an_expired_lease_is_told_by_the_next_that_takes_the_coin(w: &mut World<'_>) {
    let funding = leased(w, ALICE);
    let mut cursor = page(w, None).next_cursor;
    w.tick(11 * SECOND);
    let terms = LeaseTerms::until(BOB, 10 * SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&funding, 0)], &terms, w.now).unwrap();
    assert_eq!(page(w, Some(cursor)).events[0].lease.unwrap().1, ALICE);
    assert_eq!(news(w, &mut cursor).len(), 1);
    // What is active is renewed, and did not expire.
    w.ledger.acquire_leases(w.wallet, &[out(&funding, 0)], &terms, w.now).unwrap();
    assert_eq!(w.ledger.clean_all_leases(10, w.now).unwrap().rows, 0);
    assert_eq!(news(w, &mut cursor).len(), 0);
    w.check();
}

fn a_released_lease_is_not_told(w: &mut World<'_>) {
    let funding = leased(w, ALICE);
    let cursor = page(w, None).next_cursor;
    assert!(w.ledger.release_lease(w.wallet, &ALICE, &out(&funding, 0), w.now).unwrap());
    w.tick(20 * SECOND);
    w.ledger.clean_all_leases(10, w.now).unwrap();
    assert_eq!(page(w, Some(cursor)).events, []);
}

fn events_go_by_number_and_by_age_and_a_reader_is_told(w: &mut World<'_>) {
    for n in 1..=6 {
        w.mempool(&pay(n, &[outside(n)], &[10_000]));
        w.tick(SECOND);
    }
    let day = 86_400 * SECOND;
    assert_eq!(w.ledger.clean_events(6, day, 100, w.now).unwrap().rows, 0);
    assert_eq!(w.ledger.clean_events(4, day, 100, w.now).unwrap().rows, 2);
    w.check();
    let gone = w.ledger.events(w.wallet, Some(1), 10).unwrap_err();
    assert!(matches!(gone, LedgerError::EventsGone { cursor: 1, oldest: 2 }), "{gone:?}");
    assert_eq!(page(w, Some(2)).events[0].id, 3);
    assert_eq!(page(w, None).events[0].id, 3);
    // Of the four that are left, two are three seconds old or older.
    let cleaned = w.ledger.clean_events(100, 3 * SECOND, 1, w.now).unwrap();
    assert_eq!((cleaned.rows, cleaned.has_more), (1, true));
    let cleaned = w.ledger.clean_events(100, 3 * SECOND, 1, w.now).unwrap();
    assert_eq!((cleaned.rows, cleaned.has_more), (1, false));
    assert_eq!(page(w, None).events[0].id, 5);
    w.check();
    // Nothing is left, and numbers go on.
    assert_eq!(w.ledger.clean_events(0, day, 100, w.now).unwrap().rows, 2);
    assert_eq!(page(w, Some(6)), EventPage { next_cursor: 6, ..EventPage::default() });
    assert!(w.ledger.events(w.wallet, Some(5), 10).is_err());
    w.mempool(&pay(7, &[outside(7)], &[10_000]));
    assert_eq!(page(w, None).events[0].id, 7);
    w.check();
}

fn a_cursor_that_no_event_has_reached_is_refused(w: &mut World<'_>) {
    w.mempool(&pay(1, &[outside(1)], &[10_000]));
    assert_eq!(page(w, Some(1)).events, []);
    for cursor in [2, i64::MAX, -1, i64::MIN] {
        assert!(w.ledger.events(w.wallet, Some(cursor), 10).is_err(), "{cursor}");
    }
}

fn pages_follow_each_other_without_a_gap(w: &mut World<'_>) {
    for n in 1..=7 {
        w.mempool(&pay(n, &[outside(n)], &[10_000]));
    }
    let (mut cursor, mut ids) = (Some(0), Vec::new());
    while let Some(after) = cursor {
        let page = w.ledger.events(w.wallet, Some(after), 3).unwrap();
        ids.extend(page.events.iter().map(|event| event.id));
        cursor = page.has_more.then_some(page.next_cursor);
    }
    assert_eq!(ids, (1..=7).collect::<Vec<_>>());
}

fn a_wallet_that_is_set_aside_is_told_its_depths_when_it_is_back(w: &mut World<'_>) {
    let payment = pay(1, &[outside(1)], &[10_000]);
    w.mine(&[&payment]);
    let other = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    // What stands in the way of numbers for events is a fault of this wallet alone.
    let (ledger, wallet) = (w.ledger, w.wallet);
    let broken = |next: i64| {
        let statement = "UPDATE wallets SET next_tx_id = $2 WHERE id = $1";
        let key = [Value::from(wallet.get()), Value::from(next)];
        let done = ledger.database().write(|tx| tx.execute(statement, &key));
        done.map_err(|error: utxokeep_sql::SqlError| error).unwrap();
    };
    broken(-5);
    let stuck = pay(2, &[outside(2)], &[3_000]);
    w.mine_unchecked(&[&stuck]);
    for _ in 0..6 {
        w.mine_unchecked(&[]);
    }
    let mut cursor = 0;
    assert_eq!(news(w, &mut cursor), ["1 confirmed 1 at 100"]);
    let of_other = w.ledger.events(other, None, 10).unwrap().events;
    let of_other: Vec<String> = of_other.iter().map(short).collect();
    assert_eq!(of_other, ["2 confirmed 1 at 101", "2 confirmed 3 at 101", "2 confirmed 6 at 101"]);
    broken(2);
    w.ledger.request_rescan(w.wallet, utxokeep_core::Height::new(101), w.now).unwrap();
    for height in 101..=107 {
        let txs = if height == 101 { vec![stuck.clone()] } else { Vec::new() };
        w.ledger.rescan_block(w.wallet, &w.block_at(height), &txs, w.now).unwrap();
    }
    w.check();
    let mut told = news(w, &mut cursor);
    told.sort_unstable();
    let expected = [
        "1 confirmed 3 at 100",
        "1 confirmed 6 at 100",
        "2 confirmed 1 at 101",
        "2 confirmed 3 at 101",
        "2 confirmed 6 at 101",
    ];
    assert_eq!(told, expected);
    w.mine_to(115);
    assert_eq!(news(w, &mut cursor), Vec::<String>::new());
}

/// The mistakes that an outbox is built against, planted one by one: each breaks a rule.
fn an_effect_without_its_event_is_found(w: &mut World<'_>) {
    let rules = |w: &World<'_>| -> Vec<&'static str> {
        w.ledger.verify(w.wallet).unwrap().into_iter().map(|violation| violation.rule).collect()
    };
    let plant = |statement: &str| {
        let done = w.ledger.database().write(|tx| tx.execute(statement, &[]));
        assert_eq!(done.map_err(|error: utxokeep_sql::SqlError| error).unwrap(), 1, "{statement}");
    };
    w.mempool(&pay(1, &[outside(1)], &[10_000]));
    w.mempool(&pay(2, &[outside(2)], &[10_000]));
    assert_eq!(rules(w), Vec::<&str>::new());
    // The effect was committed, the event was not.
    plant("DELETE FROM wallet_events WHERE wallet_id = 1 AND id = 2");
    let found = rules(w);
    assert!(found.iter().any(|rule| rule.contains("without a gap")), "{found:?}");
    assert!(found.iter().any(|rule| rule.contains("has an event")), "{found:?}");
    // A writer that takes numbers and tells nothing leaves no gap, and no event.
    plant("UPDATE wallets SET next_event_id = 2 WHERE id = 1");
    let found = rules(w);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("has an event"), "{found:?}");
    // A change behind the back of the outbox.
    plant("UPDATE transactions SET status = 0 WHERE wallet_id = 1 AND id = 1");
    let found = rules(w);
    assert!(found.iter().any(|rule| rule.contains("tells its state")), "{found:?}");
    plant("UPDATE transactions SET status = 1, told_depth = 3 WHERE wallet_id = 1 AND id = 1");
    let found = rules(w);
    assert!(found.iter().any(|rule| rule.contains("a depth is told")), "{found:?}");
}

fn wallets_are_numbered_each_for_itself(w: &mut World<'_>) {
    let other = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    for n in 1..=3 {
        w.mine(&[&pay(n, &[outside(n)], &[10_000])]);
    }
    for wallet in [w.wallet, other] {
        let ids: Vec<i64> = w
            .ledger
            .events(wallet, None, 10)
            .unwrap()
            .events
            .iter()
            .map(|event| event.id)
            .collect();
        assert_eq!(ids, [1, 2, 3, 4]);
    }
}

/// A number that is visible says that all smaller ones are: writers queue for the row of the wallet
/// before they take numbers, and hold it until they commit.
#[test]
fn a_reader_beside_several_writers_misses_nothing() {
    const WRITERS: u8 = 4;
    const EACH: u8 = 12;
    on_postgres(|url| {
        let ledger = open(url, Limits::default());
        let w = World::new(&ledger);
        let (wallet, now) = (w.wallet, w.now);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let ledger: Ledger = open(url, Limits::default());
                scope.spawn(move || {
                    for n in 0..EACH {
                        let name = 1 + writer * EACH + n;
                        let tx = pay(name, &[outside(name)], &[1_000]);
                        let options = utxokeep_wallet::RecordOptions::default();
                        let seen = utxokeep_wallet::Seen::Mempool;
                        ledger.record(wallet, &tx, seen, &options, now).unwrap();
                    }
                });
            }
            let mut cursor = 0;
            while cursor < i64::from(WRITERS * EACH) {
                let page = ledger.events(wallet, Some(cursor), 100).unwrap();
                for event in page.events {
                    assert_eq!(event.id, cursor + 1);
                    cursor = event.id;
                }
            }
        });
        w.check();
    });
}
