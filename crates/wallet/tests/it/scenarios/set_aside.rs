//! A wallet that cannot take a block stops nobody else, and gets the blocks it lacks by a rescan.
//!
//! The wallet here knows a coinbase whose block was taken back. The ledger starts again above that
//! block, and then meets what spends the coinbase.

use utxokeep_core::{BlockHash, Height};
use utxokeep_sql::SqlError;
use utxokeep_wallet::{
    Applied, BalanceQuery, FeeRate, LeaseId, LeaseTerms, Ledger, LedgerError, Limits, LinkedBlock,
    Maturity, NewAddress, NewTx, Rescan, RescanStep, SelectionRequest, Standing, TxState, WalletId,
};

use crate::scenarios::world::{
    NETWORK, SECOND, World, coins_of, mint, open, out, outside, own, pay,
};

crate::scenarios::on_both!(
    a_wallet_that_cannot_take_a_block_is_set_aside_and_the_block_goes_on,
    nothing_is_paid_from_a_wallet_that_is_set_aside,
    a_rescan_gives_a_wallet_the_blocks_it_lacks,
    a_second_request_during_a_rescan_is_not_ignored,
    a_rescan_is_exact_when_blocks_come_and_go_meanwhile,
    a_rescan_that_fails_again_says_where,
    taking_the_failed_block_back_ends_it,
    a_script_that_is_watched_late_is_scanned_while_blocks_arrive,
    asking_twice_goes_on_and_asking_lower_starts_there,
    a_rescan_takes_only_its_next_block,
    a_rescan_above_the_tip_is_refused,
    a_keychain_that_cannot_be_derived_sets_its_wallet_aside,
    a_wallet_that_cannot_undo_a_block_is_set_aside_and_the_others_go_back,
    a_wallet_without_numbers_for_rows_is_set_aside,
);

fn at(height: u32) -> Height {
    Height::new(height)
}

fn linked(w: &World<'_>, height: u32) -> LinkedBlock {
    let block = w.block_at(height);
    LinkedBlock { block, parent: Some(w.block_at(height - 1).hash) }
}

fn apply(w: &World<'_>, height: u32, txs: &[&NewTx]) -> Applied {
    let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
    w.ledger.apply_block(NETWORK, &linked(w, height), &txs, w.now).unwrap()
}

fn rescan(w: &World<'_>, height: u32, txs: &[&NewTx]) -> RescanStep {
    let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
    w.ledger.rescan_block(w.wallet, &w.block_at(height), &txs, w.now).unwrap()
}

fn confirmed(w: &World<'_>, wallet: WalletId) -> u64 {
    let query = BalanceQuery { maturity: Maturity::blocks_above(0), ..BalanceQuery::default() };
    w.ledger.balance(wallet, &query, w.now).unwrap().confirmed
}

fn tamper(w: &World<'_>, sql: &str) {
    let done: Result<u64, SqlError> = w.ledger.database().write(|tx| tx.execute(sql, &[]));
    assert_eq!(done.unwrap(), 1, "{sql}");
}

fn a_wallet_that_cannot_undo_a_block_is_set_aside_and_the_others_go_back(w: &mut World<'_>) {
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let (first, second) = (pay(1, &[outside(1)], &[50]), pay(2, &[outside(2)], &[20]));
    apply(w, 100, &[&first]);
    apply(w, 101, &[&second]);
    // A payment whose coin is marked as a coinbase's cannot leave its block.
    let of_second = "WHERE wallet_id = 1 AND amount = 20";
    tamper(w, &format!("UPDATE utxos SET parent_coinbase = 1 {of_second}"));
    w.ledger.disconnect_block(NETWORK, &linked(w, 101), w.now).unwrap();
    assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, at(100));
    let aside = w.ledger.standing(w.wallet).unwrap().set_aside.unwrap();
    assert_eq!(aside.height, at(101));
    assert!(aside.reason.contains("could not be undone"), "{}", aside.reason);
    assert_eq!(w.ledger.standing(other).unwrap(), Standing::default());
    assert_eq!((confirmed(w, other), w.ledger.verify(other).unwrap()), (50, vec![]));

    // Others go on, on another branch.
    let third = pay(3, &[outside(3)], &[7]);
    let mut branch = linked(w, 101);
    branch.block.hash = BlockHash::from_bytes([0x5a; 32]);
    let applied = w.ledger.apply_block(NETWORK, &branch, std::slice::from_ref(&third), w.now);
    assert_eq!(applied.unwrap().recorded.keys().copied().collect::<Vec<_>>(), [other]);
    assert_eq!((confirmed(w, other), w.ledger.verify(other).unwrap()), (57, vec![]));

    // The rescan says what is wrong, and works once that is mended.
    assert!(w.ledger.request_rescan(w.wallet, at(100), w.now).is_err());
    tamper(w, &format!("UPDATE utxos SET parent_coinbase = 0 {of_second}"));
    let asked = w.ledger.request_rescan(w.wallet, at(101), w.now).unwrap();
    assert_eq!(asked.from, at(100));
    assert_eq!(rescan(w, 100, &[&first]).next, Some(at(101)));
    let last = w.ledger.rescan_block(w.wallet, &branch.block, std::slice::from_ref(&third), w.now);
    assert_eq!(last.unwrap().next, None);
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
    assert_eq!((confirmed(w, w.wallet), w.state(&second)), (57, TxState::Unconfirmed));
    w.check();
}

fn a_wallet_without_numbers_for_rows_is_set_aside(w: &mut World<'_>) {
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    tamper(w, "UPDATE wallets SET next_utxo_id = 9223372036854775807 WHERE id = 1");
    let applied = apply(w, 100, &[&pay(1, &[outside(1)], &[50])]);
    assert_eq!(applied.set_aside.keys().copied().collect::<Vec<_>>(), [w.wallet]);
    assert_eq!((confirmed(w, w.wallet), confirmed(w, other)), (0, 50));
}

/// What the chain holds.
struct Story {
    reward: NewTx,
    plain: NewTx,
    spend: NewTx,
    /// Another wallet, which was made after the coinbase was orphaned.
    other: WalletId,
}

/// Block 100 with the coinbase was taken back; 101 and 102 are applied.
fn set_aside(w: &World<'_>) -> (Story, Applied) {
    let reward = mint(1, &[50, 7]);
    apply(w, 100, &[&reward]);
    w.ledger.rollback_from(NETWORK, Height::GENESIS, w.now).unwrap();
    assert_eq!(w.state(&reward), TxState::Orphaned);
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let plain = pay(2, &[outside(2)], &[20]);
    let spend = pay(3, &[out(&reward, 0)], &[45]);
    apply(w, 101, &[&plain]);
    let applied = apply(w, 102, &[&spend]);
    w.check();
    (Story { reward, plain, spend, other }, applied)
}

fn a_wallet_that_cannot_take_a_block_is_set_aside_and_the_block_goes_on(w: &mut World<'_>) {
    let (story, applied) = set_aside(w);
    assert_eq!(applied.set_aside.keys().copied().collect::<Vec<_>>(), [w.wallet]);
    assert_eq!(applied.recorded.keys().copied().collect::<Vec<_>>(), [story.other]);
    assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, at(102));
    // Its part of the block is undone, all of it.
    assert!(w.ledger.transaction(w.wallet, &story.spend.txid).is_err());
    assert_eq!((confirmed(w, w.wallet), confirmed(w, story.other)), (20, 65));

    let standing = w.ledger.standing(w.wallet).unwrap();
    let aside = standing.set_aside.unwrap();
    assert_eq!((aside.height, aside.hash), (at(102), Some(w.block_at(102).hash)));
    assert!(aside.reason.contains("orphaned"), "{}", aside.reason);
    assert_eq!((aside.at, standing.rescan), (w.now, None));
    assert_eq!(w.ledger.standing(story.other).unwrap(), Standing::default());
    let lagging = w.ledger.lagging_wallets(None, 10).unwrap();
    assert_eq!((lagging.len(), lagging[0].name.as_str()), (1, "one"));

    // It gets no block of what follows; the other one gets all.
    let applied = apply(w, 103, &[&pay(4, &[outside(4)], &[9])]);
    assert_eq!(applied.recorded.keys().copied().collect::<Vec<_>>(), [story.other]);
    assert!(applied.set_aside.is_empty());
    assert_eq!((confirmed(w, w.wallet), confirmed(w, story.other)), (20, 74));
    assert_eq!(w.ledger.standing(w.wallet).unwrap().set_aside.unwrap().height, at(102));
}

fn nothing_is_paid_from_a_wallet_that_is_set_aside(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    let request = SelectionRequest::new(coins_of(5), FeeRate::per_vbyte(1), 1);
    let terms = LeaseTerms::until(LeaseId::from_bytes([7; 32]), 60 * SECOND);
    let coin = out(&story.plain, 0);
    for refused in [
        w.ledger.select(w.wallet, &request, w.now).map(drop),
        w.ledger.select_and_lease(w.wallet, &request, &terms, w.now).map(drop),
        w.ledger.acquire_leases(w.wallet, &[coin], &terms, w.now).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, LedgerError::SetAside { height, .. } if *height == at(102)));
        assert!(error.to_string().contains("rescan"), "{error}");
    }
    w.ledger.acquire_leases(story.other, &[coin], &terms, w.now).unwrap();
    // Reading goes on.
    assert_eq!(w.coins().len(), 1);
}

fn a_rescan_gives_a_wallet_the_blocks_it_lacks(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    let late = pay(4, &[outside(4)], &[9]);
    apply(w, 103, &[&late]);
    let asked = w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    assert_eq!(asked, Rescan { from: at(100), next: at(100) });
    assert_eq!(w.ledger.requested_rescans(NETWORK).unwrap(), [(w.wallet, at(100))]);
    // It is rewound to before the first block that is scanned.
    assert_eq!((w.state(&story.plain), confirmed(w, w.wallet)), (TxState::Unconfirmed, 0));
    assert_eq!(rescan(w, 100, &[&story.reward]).next, Some(at(101)));
    w.check();
    let standing = w.ledger.standing(w.wallet).unwrap();
    assert_eq!(standing.rescan, Some(Rescan { from: at(100), next: at(101) }));
    assert!(standing.set_aside.is_some(), "until it has every block");
    rescan(w, 101, &[&story.plain]);
    rescan(w, 102, &[&story.spend]);
    let last = rescan(w, 103, &[&late]);
    assert_eq!((last.next, last.failed, last.recorded.len()), (None, None, 1));
    w.check();
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
    assert_eq!(confirmed(w, w.wallet), 45 + 7 + 20 + 9);
    // It takes blocks again, and pays.
    let applied = apply(w, 104, &[&pay(5, &[outside(5)], &[1])]);
    assert_eq!(applied.recorded.len(), 2);
    let terms = LeaseTerms::until(LeaseId::from_bytes([7; 32]), 60 * SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&story.plain, 0)], &terms, w.now).unwrap();
}

fn a_second_request_during_a_rescan_is_not_ignored(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    // What lies ahead is scanned anyway.
    let ahead = w.ledger.request_rescan(w.wallet, at(102), w.now).unwrap();
    assert_eq!(ahead, Rescan { from: at(100), next: at(100) });
    rescan(w, 100, &[&story.reward]);
    rescan(w, 101, &[&story.plain]);
    // What lies behind is scanned again, for scripts that are watched since.
    let behind = w.ledger.request_rescan(w.wallet, at(101), w.now).unwrap();
    assert_eq!(behind, Rescan { from: at(101), next: at(101) });
    rescan(w, 101, &[&story.plain]);
    rescan(w, 102, &[&story.spend]);
    w.check();
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
}

fn a_rescan_is_exact_when_blocks_come_and_go_meanwhile(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    rescan(w, 100, &[&story.reward]);
    rescan(w, 101, &[&story.plain]);
    // A block arrives, spends what the wallet got, and leaves again with the one below it.
    let spend_all = pay(4, &[out(&story.plain, 0)], &[19]);
    apply(w, 103, &[&spend_all]);
    rescan(w, 102, &[&story.spend]);
    w.ledger.rollback_to(NETWORK, (at(101), w.block_at(101).hash), w.now).unwrap();
    w.check();
    // Nothing is lacking up to there.
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
    let mut other_branch = linked(w, 102);
    other_branch.block.hash = BlockHash::from_bytes([0xbb; 32]);
    let other_spend = pay(5, &[out(&story.reward, 0)], &[44]);
    let applied = w.ledger.apply_block(NETWORK, &other_branch, &[other_spend], w.now).unwrap();
    assert_eq!((applied.recorded.len(), applied.set_aside.len()), (2, 0));
    w.check();
    assert_eq!(confirmed(w, w.wallet), 44 + 7 + 20);

    // Below the next block of a rescan, it goes on where it was.
    w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    rescan(w, 100, &[&story.reward]);
    w.ledger.rollback_to(NETWORK, (at(101), w.block_at(101).hash), w.now).unwrap();
    assert_eq!(rescan(w, 101, &[&story.plain]).next, None);
    w.check();
    // What left the chain still wants the rest of the coinbase.
    assert_eq!(confirmed(w, w.wallet), 7 + 20);
}

fn a_rescan_that_fails_again_says_where(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    // Without the block of the coinbase there is nothing to be spent.
    let asked = w.ledger.request_rescan(w.wallet, at(102), w.now).unwrap();
    assert_eq!(asked.from, at(102));
    w.tick(5);
    let step = rescan(w, 102, &[&story.spend]);
    assert!(step.failed.unwrap().contains("orphaned"));
    assert_eq!(step.next, None);
    let standing = w.ledger.standing(w.wallet).unwrap();
    assert_eq!(standing.set_aside.unwrap().at, w.now);
    assert_eq!((standing.rescan, w.ledger.requested_rescans(NETWORK).unwrap()), (None, vec![]));
    w.check();
    // A start above the block that failed is a start at it.
    apply(w, 103, &[]);
    assert_eq!(w.ledger.request_rescan(w.wallet, at(103), w.now).unwrap().from, at(102));
}

fn taking_the_failed_block_back_ends_it(w: &mut World<'_>) {
    let (story, _) = set_aside(w);
    w.ledger.disconnect_block(NETWORK, &linked(w, 102), w.now).unwrap();
    w.check();
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
    let mut other_branch = linked(w, 102);
    other_branch.block.hash = BlockHash::from_bytes([0xbb; 32]);
    let more = pay(4, &[outside(4)], &[9]);
    let applied = w.ledger.apply_block(NETWORK, &other_branch, &[more], w.now).unwrap();
    assert_eq!(applied.recorded.len(), 2);
    assert_eq!((confirmed(w, w.wallet), confirmed(w, story.other)), (29, 29));
}

fn a_script_that_is_watched_late_is_scanned_while_blocks_arrive(w: &mut World<'_>) {
    let to_late = |name: u8, amount: i64| {
        let mut tx = pay(name, &[outside(name)], &[amount]);
        tx.outputs[0].script = own(20);
        tx
    };
    let (first, second) = (to_late(1, 50), to_late(2, 30));
    w.mine(&[&first]);
    w.mine(&[&second, &pay(3, &[outside(3)], &[5])]);
    let late = NewAddress { script: own(20), address: None, spend_weight: None };
    w.ledger.add_addresses(w.wallet, &[late], w.now).unwrap();
    w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    assert_eq!(confirmed(w, w.wallet), 5, "it is not rewound: nothing is wrong with it");
    // A block that arrives meanwhile is taken at once; what it spends is not known yet.
    let spend = pay(4, &[out(&first, 0)], &[-49]);
    let receive = pay(5, &[outside(5)], &[3]);
    w.mine(&[&spend, &receive]);
    assert_eq!(confirmed(w, w.wallet), 8);
    rescan(w, 100, &[&first]);
    rescan(w, 101, &[&second, &pay(3, &[outside(3)], &[5])]);
    assert_eq!(rescan(w, 102, &[&spend, &receive]).next, None);
    w.check();
    assert_eq!(confirmed(w, w.wallet), 30 + 5 + 3);
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
}

fn asking_twice_goes_on_and_asking_lower_starts_there(w: &mut World<'_>) {
    w.mine(&[]);
    w.mine_to(105);
    w.ledger.request_rescan(w.wallet, at(102), w.now).unwrap();
    rescan(w, 102, &[]);
    for from in [103, 105] {
        let asked = w.ledger.request_rescan(w.wallet, at(from), w.now).unwrap();
        assert_eq!(asked, Rescan { from: at(102), next: at(103) });
    }
    // Block 102 was passed already, perhaps before a script was watched.
    for from in [102, 101] {
        let asked = w.ledger.request_rescan(w.wallet, at(from), w.now).unwrap();
        assert_eq!(asked, Rescan { from: at(from), next: at(from) });
    }
}

fn a_rescan_takes_only_its_next_block(w: &mut World<'_>) {
    w.mine(&[]);
    w.mine_to(103);
    let receive = pay(1, &[outside(1)], &[50]);
    assert_eq!(rescan(w, 101, &[&receive]), RescanStep::default(), "nobody asked");
    w.ledger.request_rescan(w.wallet, at(101), w.now).unwrap();
    for height in [100, 102, 103] {
        let step = rescan(w, height, &[&receive]);
        assert_eq!((step.next, step.recorded.len()), (Some(at(101)), 0));
    }
    let mut other = w.block_at(101);
    other.hash = BlockHash::from_bytes([0xaa; 32]);
    let error = w.ledger.rescan_block(w.wallet, &other, &[receive], w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockMismatch { .. }), "{error}");
    assert_eq!(w.balance().total(), 0);
}

fn a_rescan_above_the_tip_is_refused(w: &mut World<'_>) {
    let error = w.ledger.request_rescan(w.wallet, at(0), w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockNotFound { .. }), "{error}");
    w.mine(&[]);
    let error = w.ledger.request_rescan(w.wallet, at(101), w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockNotFound { height } if height == at(101)));
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
}

/// The wallet fails before its part of the block is looked at.
fn a_keychain_that_cannot_be_derived_sets_its_wallet_aside(w: &mut World<'_>) {
    let ledger = crate::scenarios::horizons::counting(w);
    crate::scenarios::horizons::watch(&ledger, w, "none");
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    let script = crate::scenarios::horizons::numbered(2);
    let also = NewAddress { script: script.clone(), address: None, spend_weight: None };
    w.ledger.add_addresses(other, &[also], w.now).unwrap();
    let damage = "UPDATE descriptors SET descriptor = 'broken' WHERE wallet_id = 1";
    w.ledger.database().write(|tx| tx.execute(damage, &[])).unwrap();
    let mut receive = pay(1, &[outside(1)], &[50]);
    receive.outputs[0].script = script;
    let txs = [receive.clone()];
    let applied = ledger.apply_block(NETWORK, &linked(w, 101), &txs, w.now).unwrap();
    assert_eq!(applied.set_aside.keys().copied().collect::<Vec<_>>(), [w.wallet]);
    assert_eq!(confirmed(w, other), 50);
    let mend = "UPDATE descriptors SET descriptor = 'none' WHERE wallet_id = 1";
    w.ledger.database().write(|tx| tx.execute(mend, &[])).unwrap();
    ledger.request_rescan(w.wallet, at(101), w.now).unwrap();
    let step = ledger.rescan_block(w.wallet, &w.block_at(101), &txs, w.now).unwrap();
    assert_eq!((step.next, step.failed), (None, None));
    w.check();
    assert_eq!(confirmed(w, w.wallet), 50);
}

/// A rescan is stored: another program goes on with it.
fn a_rescan_survives_a_restart(url: &str) {
    let ledger = open(url, Limits::default());
    let mut w = World::new(&ledger);
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    w.mine(&[]);
    w.ledger.request_rescan(w.wallet, at(100), w.now).unwrap();
    rescan(&w, 100, &[&receive]);
    let again: Ledger = open(url, Limits::default());
    assert_eq!(again.requested_rescans(NETWORK).unwrap(), [(w.wallet, at(101))]);
    let step = again.rescan_block(w.wallet, &w.block_at(101), &[], w.now).unwrap();
    assert_eq!(step.next, None);
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
}

mod restarted {
    #[test]
    fn a_rescan_survives_a_restart_on_sqlite() {
        crate::scenarios::world::on_sqlite(super::a_rescan_survives_a_restart);
    }

    #[test]
    fn a_rescan_survives_a_restart_on_postgres() {
        crate::scenarios::world::on_postgres(super::a_rescan_survives_a_restart);
    }
}
