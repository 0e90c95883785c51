//! The mempool of a node, told to all wallets.

use std::collections::BTreeSet;

use utxokeep_core::{OutPoint, Txid};
use utxokeep_sql::{SqlError, Value};
use utxokeep_wallet::{
    Balance, Change, InvalidReason, LeaseId, LeaseTerms, MempoolApplied, MempoolView, NewTx,
    RecordOptions, Seen, TxState, WalletId,
};

use crate::scenarios::world::{NETWORK, SECOND, World, out, outside, pay};

crate::scenarios::on_both!(
    an_incoming_payment_is_seen_and_fails_when_the_mempool_drops_it,
    what_comes_back_to_the_mempool_is_live_again,
    a_replacement_by_others_takes_effect_with_all_that_depended_on_it,
    what_was_recorded_a_moment_ago_gets_time_to_reach_the_node,
    a_payment_of_the_ledger_stays_until_a_rival_takes_its_inputs,
    a_replaced_payment_does_not_push_its_replacement_out,
    what_waits_to_be_sent_is_left_alone,
    children_are_recorded_after_their_parents_in_any_order,
    a_mempool_of_another_block_changes_nothing,
    a_refusal_of_one_wallet_stops_no_other_and_sets_nobody_aside,
    an_archived_wallet_takes_nothing,
    a_wallet_that_is_set_aside_is_told_once_it_goes_on,
    new_scripts_change_the_mark,
);

const GRACE_US: i64 = 60 * SECOND;

/// The mempool of a node, as far as its follower remembers it.
#[derive(Default)]
struct Mempool {
    held: BTreeSet<Txid>,
}

impl Mempool {
    /// Tells the ledger that the mempool holds just these.
    fn holds(&mut self, w: &World<'_>, txs: &[&NewTx]) -> MempoolApplied {
        let now: BTreeSet<Txid> = txs.iter().map(|tx| tx.txid).collect();
        let new: Vec<NewTx> = txs.iter().copied().cloned().collect();
        let (holds, held) =
            (|txid: &Txid| now.contains(txid), |txid: &Txid| self.held.contains(txid));
        let view =
            MempoolView { tip: w.tip().hash, holds: &holds, held: &held, grace_us: GRACE_US };
        let applied = w.ledger.apply_mempool(NETWORK, &view, &new, w.now).unwrap();
        w.check();
        self.held = now;
        applied
    }
}

fn funded(w: &mut World<'_>) -> OutPoint {
    let funding = pay(200, &[outside(200)], &[50]);
    w.mine(&[&funding]);
    out(&funding, 0)
}

fn unconfirmed(balance: &Balance) -> (u64, u64) {
    (balance.trusted_unconfirmed, balance.untrusted_unconfirmed)
}

fn reason(w: &World<'_>, tx: &NewTx) -> Option<InvalidReason> {
    w.ledger.transaction(w.wallet, &tx.txid).unwrap().summary.invalid_reason
}

fn an_incoming_payment_is_seen_and_fails_when_the_mempool_drops_it(w: &mut World<'_>) {
    funded(w);
    let (receive, strangers) = (pay(1, &[outside(1)], &[30]), pay(2, &[outside(2)], &[-7]));
    let mut mempool = Mempool::default();
    let applied = mempool.holds(w, &[&receive, &strangers]);
    assert_eq!(applied.recorded[&w.wallet].len(), 1, "a payment among strangers is not ours");
    assert_eq!(unconfirmed(&w.balance()), (0, 30));
    // Looking again changes nothing.
    let again = mempool.holds(w, &[&receive]);
    assert_eq!(again.recorded[&w.wallet][0].change, Change::Unchanged);
    // Looking without its bytes neither.
    assert_eq!(mempool.holds(w, &[&receive]).evicted.len(), 0);
    let gone = mempool.holds(w, &[]);
    assert_eq!(gone.evicted[&w.wallet], [receive.txid]);
    assert_eq!((w.state(&receive), w.balance().total()), (TxState::Failed, 50));
    assert_eq!(reason(w, &receive), Some(InvalidReason::Abandoned));
    assert_eq!(mempool.holds(w, &[]), MempoolApplied::default());
}

fn what_comes_back_to_the_mempool_is_live_again(w: &mut World<'_>) {
    funded(w);
    let receive = pay(1, &[outside(1)], &[30]);
    let child = pay(2, &[out(&receive, 0)], &[-1, 20]);
    let mut mempool = Mempool::default();
    mempool.holds(w, &[&receive, &child]);
    let gone = mempool.holds(w, &[]);
    assert_eq!(gone.evicted[&w.wallet], [receive.txid], "the child went with its parent");
    assert_eq!((w.state(&receive), w.state(&child)), (TxState::Failed, TxState::Failed));
    let back = mempool.holds(w, &[&child, &receive]);
    let changes: Vec<Change> = back.recorded[&w.wallet].iter().map(|tx| tx.change).collect();
    assert_eq!(changes, [Change::Revived, Change::Revived]);
    assert_eq!(unconfirmed(&w.balance()), (0, 20));
    // A block takes both; the mempool holds them no more, and nothing is lost.
    w.mine(&[&receive, &child]);
    assert_eq!(mempool.holds(w, &[]), MempoolApplied::default());
    assert_eq!(w.balance().confirmed, 70);
}

fn a_replacement_by_others_takes_effect_with_all_that_depended_on_it(w: &mut World<'_>) {
    funded(w);
    let first = pay(1, &[outside(1)], &[30]);
    let child = pay(2, &[out(&first, 0)], &[25]);
    let second = pay(3, &[outside(1)], &[-28, 1]);
    let mut mempool = Mempool::default();
    mempool.holds(w, &[&first, &child]);
    assert_eq!(w.unconfirmed(), 25);
    let applied = mempool.holds(w, &[&second]);
    assert!(applied.refused.is_empty());
    assert_eq!((w.state(&first), w.state(&child)), (TxState::Failed, TxState::Failed));
    assert_eq!(w.unconfirmed(), 1);
    // The old one was there a moment ago, but the list is what counts.
    let both = [pay(4, &[outside(4)], &[11]), pay(5, &[outside(4)], &[12])];
    w.mempool(&both[0]);
    let applied = mempool.holds(w, &[&second, &both[1]]);
    assert_eq!(applied.recorded[&w.wallet].iter().flat_map(|tx| &tx.losers).count(), 1);
    assert_eq!(w.state(&both[0]), TxState::Replaced);
    assert_eq!(w.unconfirmed(), 13);
}

fn what_was_recorded_a_moment_ago_gets_time_to_reach_the_node(w: &mut World<'_>) {
    funded(w);
    let receive = pay(1, &[outside(1)], &[30]);
    w.mempool(&receive);
    let mut mempool = Mempool::default();
    w.tick(GRACE_US - 1);
    assert!(mempool.holds(w, &[]).evicted.is_empty());
    w.tick(1);
    assert_eq!(mempool.holds(w, &[]).evicted[&w.wallet], [receive.txid]);
}

fn a_payment_of_the_ledger_stays_until_a_rival_takes_its_inputs(w: &mut World<'_>) {
    let coin = funded(w);
    let owner = LeaseId::from_bytes([9; 32]);
    w.ledger.acquire_leases(w.wallet, &[coin], &LeaseTerms::until(owner, SECOND), w.now).unwrap();
    let payment = pay(1, &[coin], &[-20, 29]);
    let options = RecordOptions { owner: Some(owner), ..Default::default() };
    w.record_with(&payment, Seen::Mempool, &options).unwrap();
    let mut mempool = Mempool::default();
    mempool.holds(w, &[&payment]);
    w.tick(10 * GRACE_US);
    assert_eq!(mempool.holds(w, &[]), MempoolApplied::default());
    assert_eq!(w.state(&payment), TxState::Unconfirmed);
    assert_eq!(unconfirmed(&w.balance()), (29, 0));
    // Another holder of the same keys spends the coin.
    let rival = pay(2, &[coin], &[-48, 1]);
    let applied = mempool.holds(w, &[&rival]);
    assert_eq!(applied.recorded[&w.wallet][0].losers, [payment.txid]);
    assert_eq!((w.state(&payment), w.state(&rival)), (TxState::Replaced, TxState::Unconfirmed));
}

fn a_replaced_payment_does_not_push_its_replacement_out(w: &mut World<'_>) {
    let coin = funded(w);
    let owner = LeaseId::from_bytes([9; 32]);
    let own = RecordOptions { owner: Some(owner), ..Default::default() };
    let first = pay(1, &[coin], &[-20, 29]);
    w.record_with(&first, Seen::Mempool, &own).unwrap();
    let bump = pay(2, &[coin], &[-20, 28]);
    let options = RecordOptions { replaces: true, ..own };
    w.record_with(&bump, Seen::Mempool, &options).unwrap();
    assert_eq!(w.state(&first), TxState::Replaced);
    // The node has not heard of the new one yet.
    let mut mempool = Mempool::default();
    let applied = mempool.holds(w, &[&first]);
    assert_eq!(applied.refused.len(), 1, "{applied:?}");
    assert!(applied.concerning().contains(&first.txid));
    assert_eq!((w.state(&first), w.state(&bump)), (TxState::Replaced, TxState::Unconfirmed));
    // Then it has.
    assert!(mempool.holds(w, &[&bump]).refused.is_empty());
    assert_eq!(w.state(&bump), TxState::Unconfirmed);
    // Given up by its owner, the coin is free and the first may come back.
    w.ledger.abandon(w.wallet, &bump.txid, w.now).unwrap();
    assert!(mempool.holds(w, &[&first]).refused.is_empty());
    assert_eq!(w.state(&first), TxState::Unconfirmed);
}

fn what_waits_to_be_sent_is_left_alone(w: &mut World<'_>) {
    let coin = funded(w);
    let payment = pay(1, &[coin], &[-20, 29]);
    w.create(&payment);
    let mut mempool = Mempool::default();
    w.tick(10 * GRACE_US);
    assert_eq!(mempool.holds(w, &[]), MempoolApplied::default());
    assert_eq!(w.state(&payment), TxState::Pending);
    // Somebody else sent it.
    mempool.holds(w, &[&payment]);
    assert_eq!(w.state(&payment), TxState::Unconfirmed);
}

fn children_are_recorded_after_their_parents_in_any_order(w: &mut World<'_>) {
    let coin = funded(w);
    let parent = pay(1, &[coin], &[-1, 40]);
    let child = pay(2, &[out(&parent, 1)], &[-1, 30]);
    let grandchild = pay(3, &[out(&child, 1)], &[-29]);
    let mut mempool = Mempool::default();
    let applied = mempool.holds(w, &[&grandchild, &child, &parent]);
    assert!(applied.refused.is_empty());
    assert_eq!(applied.recorded[&w.wallet].len(), 3);
    assert_eq!((w.balance().total(), w.unmined().len()), (0, 3));
    // The first of them goes: nothing of it is left.
    mempool.holds(w, &[]);
    assert_eq!((w.balance().confirmed, w.unmined().len()), (50, 0));
}

fn a_mempool_of_another_block_changes_nothing(w: &mut World<'_>) {
    funded(w);
    let receive = pay(1, &[outside(1)], &[30]);
    let mut mempool = Mempool::default();
    mempool.holds(w, &[&receive]);
    // The node has a block that the ledger has not: what is missing may be in it.
    let tip = w.block_at(200).hash;
    let nothing = |_: &Txid| false;
    let all = |_: &Txid| true;
    let view = MempoolView { tip, holds: &nothing, held: &all, grace_us: 0 };
    let others = [pay(2, &[outside(2)], &[5])];
    let applied = w.ledger.apply_mempool(NETWORK, &view, &others, w.now).unwrap();
    assert_eq!(applied, MempoolApplied { is_elsewhere: true, ..Default::default() });
    assert_eq!(w.unmined(), [receive.txid]);
}

/// A second wallet with scripts of the first, whose claim stands in the way of the mempool.
fn contradicting(w: &World<'_>, tx: &NewTx) -> WalletId {
    let other = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let seen = Seen::Block(w.tip(), None);
    w.ledger.record(other, tx, seen, &RecordOptions::default(), w.now).unwrap();
    other
}

fn a_refusal_of_one_wallet_stops_no_other_and_sets_nobody_aside(w: &mut World<'_>) {
    funded(w);
    let (real, claimed) = (pay(1, &[outside(1)], &[30]), pay(2, &[outside(1)], &[31]));
    let other = contradicting(w, &claimed);
    let more = pay(3, &[outside(3)], &[4]);
    let applied = Mempool::default().holds(w, &[&real, &more]);
    let refused: Vec<_> = applied.refused.iter().map(|one| (one.wallet, one.txid)).collect();
    assert_eq!(refused, [(other, Some(real.txid))]);
    assert!(applied.refused[0].reason.contains("spends what"), "{applied:?}");
    assert_eq!(applied.recorded[&w.wallet].len(), 2);
    assert_eq!(applied.recorded[&other].len(), 1, "it takes what it can");
    for wallet in [w.wallet, other] {
        assert!(w.ledger.standing(wallet).unwrap().set_aside.is_none());
    }
}

fn an_archived_wallet_takes_nothing(w: &mut World<'_>) {
    let coin = funded(w);
    let other = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let mark = w.ledger.watch_mark(NETWORK).unwrap();
    w.ledger.archive_wallet(other, &[], w.now).unwrap();
    assert_ne!(w.ledger.watch_mark(NETWORK).unwrap(), mark);
    let payment = pay(1, &[coin], &[-20, 29]);
    let applied = Mempool::default().holds(w, &[&payment]);
    assert!(applied.recorded.contains_key(&w.wallet));
    assert!(!applied.recorded.contains_key(&other));
}

/// What a wallet's row says while it lacks a block.
const SET_ASIDE: &str = "INSERT INTO wallet_rescans (wallet_id, from_height, next_height,
        is_requested, failed_height, failed_hash, failed_reason, failed_at_us)
    VALUES ($1, 100, 100, 0, 100, $2, 'planted', 1)";
const GOES_ON: &str = "DELETE FROM wallet_rescans WHERE wallet_id = $1";

fn a_wallet_that_is_set_aside_is_told_once_it_goes_on(w: &mut World<'_>) {
    funded(w);
    let other = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let (before, later) = (pay(1, &[outside(1)], &[30]), pay(2, &[outside(2)], &[31]));
    let mut mempool = Mempool::default();
    mempool.holds(w, &[&before]);
    let write = |sql: &str, parameters: &[Value<'_>]| {
        let done: Result<u64, SqlError> =
            w.ledger.database().write(|tx| tx.execute(sql, parameters));
        assert_eq!(done.unwrap(), 1);
    };
    let mark = w.ledger.watch_mark(NETWORK).unwrap();
    let (id, hash) = (Value::from(other.get()), [7; 32]);
    write(SET_ASIDE, &[id, Value::from(&hash)]);
    let applied = mempool.holds(w, &[&later]);
    assert!(!applied.recorded.contains_key(&other) && !applied.evicted.contains_key(&other));
    assert_eq!(applied.evicted[&w.wallet], [before.txid]);
    assert_ne!(w.ledger.watch_mark(NETWORK).unwrap(), mark);
    write(GOES_ON, &[id]);
    assert_eq!(w.ledger.watch_mark(NETWORK).unwrap(), mark);
    let applied = mempool.holds(w, &[&later]);
    assert_eq!(applied.recorded[&other].len(), 1);
    // Nobody remembers that it was there: it has been known for long enough soon.
    w.tick(GRACE_US);
    assert_eq!(mempool.holds(w, &[&later]).evicted[&other], [before.txid]);
}

fn new_scripts_change_the_mark(w: &mut World<'_>) {
    funded(w);
    let mark = w.ledger.watch_mark(NETWORK).unwrap();
    let late = pay(1, &[outside(1)], &[-1, -1]);
    assert!(Mempool::default().holds(w, &[&late]).recorded.is_empty());
    assert_eq!(w.ledger.watch_mark(NETWORK).unwrap(), mark);
    w.watch(w.wallet, 20..21);
    assert_ne!(w.ledger.watch_mark(NETWORK).unwrap(), mark);
}
