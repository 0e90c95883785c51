//! Claims that no chain can fulfil, and blocks that show a claim to be wrong.

use utxokeep_core::{BlockHash, Height};
use utxokeep_wallet::{
    BadPlace, Change, LedgerError, NewTx, RecordOptions, Refused, Seen, Standing, TxState, WalletId,
};

use crate::scenarios::world::{NETWORK, World, mint, out, outside, pay};

crate::scenarios::on_both!(
    a_hash_that_is_known_at_another_height_is_refused,
    a_claimed_block_never_becomes_the_tip,
    a_claim_below_its_own_parent_is_refused,
    a_claim_above_its_own_child_is_refused,
    a_coinbase_is_not_spent_in_its_own_block,
    position_0_is_the_coinbase,
    two_transactions_are_not_at_one_position,
    a_position_that_nobody_said_is_not_0,
    a_claim_can_be_taken_back_and_made_anew,
    what_a_block_said_cannot_be_taken_back,
    a_block_takes_back_a_claim_that_its_parent_comes_later,
    a_block_takes_back_a_claim_that_its_child_came_before,
    children_of_outputs_that_do_not_exist_fail,
    a_repeated_coinbase_is_back_in_its_earlier_block,
    a_scan_finds_the_earlier_block_of_a_repeated_coinbase,
    a_coinbase_claimed_in_a_wrong_block_does_not_set_the_wallet_aside,
    a_block_that_spends_an_output_twice_is_refused,
);

fn at(height: u32) -> TxState {
    TxState::Confirmed(Height::new(height))
}

fn claim(w: &World<'_>, tx: &NewTx, height: u32, position: u32) -> Result<(), LedgerError> {
    w.record(tx, Seen::Block(w.block_at(height), Some(position))).map(drop)
}

fn refused(w: &World<'_>, tx: &NewTx, height: u32, position: u32) -> BadPlace {
    match claim(w, tx, height, position).unwrap_err() {
        LedgerError::BadPlace { txid, source } if txid == tx.txid => source,
        other => panic!("{other}"),
    }
}

fn a_hash_that_is_known_at_another_height_is_refused(w: &mut World<'_>) {
    w.mine(&[]);
    w.mine_to(105);
    let receive = pay(1, &[outside(1)], &[50]);
    for known in [100, 103, 105] {
        let mut block = w.block_at(known);
        block.height = Height::new(50);
        let error = w.record(&receive, Seen::Block(block, None)).unwrap_err();
        assert!(matches!(error, LedgerError::BlockMismatch { .. }), "{error}");
    }
}

/// Its hash is anything, and whoever follows would find no common block.
fn a_claimed_block_never_becomes_the_tip(w: &mut World<'_>) {
    w.mine(&[]);
    w.mine_to(105);
    let receive = pay(1, &[outside(1)], &[50]);
    let mut block = w.block_at(50);
    block.hash = BlockHash::from_bytes([0xab; 32]);
    w.record(&receive, Seen::Block(block, Some(1))).unwrap();
    assert_eq!(w.ledger.rollback_from(NETWORK, Height::new(100), w.now).unwrap(), None);
    w.check();
    assert_eq!(w.state(&receive), at(50));
}

fn a_claim_below_its_own_parent_is_refused(w: &mut World<'_>) {
    w.mine(&[]);
    let parent = pay(1, &[outside(1)], &[50]);
    w.mine_to(102);
    w.mine(&[&mint(9, &[-1]), &parent]);
    w.mine_to(105);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    let height = Height::new(103);
    let expected = BadPlace::BeforeParent { parent: NETWORK.hash(parent.txid), height };
    assert_eq!(refused(w, &child, 102, 1), expected);
    assert_eq!(refused(w, &child, 103, 1), expected);
    // By all ways in, and with the transaction known before.
    let block = w.block_at(101);
    let batch = [(child.clone(), Seen::Block(block, None))];
    let error = w.ledger.record_batch(w.wallet, &batch, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BadPlace { .. }), "{error}");
    w.mempool(&child);
    let error = w.ledger.confirm(w.wallet, &child.txid, block, None, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BadPlace { .. }), "{error}");
    assert_eq!(w.state(&child), TxState::Unconfirmed);
    claim(w, &child, 103, 2).unwrap();
}

fn a_claim_above_its_own_child_is_refused(w: &mut World<'_>) {
    w.mine(&[]);
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    w.mine(&[&mint(9, &[-1]), &child]);
    w.mine_to(105);
    let height = Height::new(101);
    let expected = BadPlace::AfterChild { child: NETWORK.hash(child.txid), height };
    assert_eq!(refused(w, &parent, 102, 1), expected);
    assert_eq!(refused(w, &parent, 101, 1), expected);
    claim(w, &parent, 100, 1).unwrap();
}

fn a_coinbase_is_not_spent_in_its_own_block(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    w.mine(&[&reward]);
    w.mine(&[]);
    let spend = pay(2, &[out(&reward, 0)], &[40]);
    let height = Height::new(100);
    let expected = BadPlace::BeforeParent { parent: NETWORK.hash(reward.txid), height };
    assert_eq!(refused(w, &spend, 100, 1), expected);
}

fn position_0_is_the_coinbase(w: &mut World<'_>) {
    w.mine(&[]);
    assert_eq!(refused(w, &pay(1, &[outside(1)], &[50]), 100, 0), BadPlace::FirstIsCoinbase);
    assert_eq!(refused(w, &mint(2, &[50]), 100, 3), BadPlace::CoinbaseIsFirst(3));
    claim(w, &mint(2, &[50]), 100, 0).unwrap();
}

fn two_transactions_are_not_at_one_position(w: &mut World<'_>) {
    w.mine(&[]);
    let first = pay(1, &[outside(1)], &[50]);
    claim(w, &first, 100, 1).unwrap();
    assert_eq!(
        refused(w, &pay(2, &[outside(2)], &[30]), 100, 1),
        BadPlace::Taken(NETWORK.hash(first.txid))
    );
    // The word of one wallet does not bind another.
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    w.watch(other, 0..10);
    let seen = Seen::Block(w.block_at(100), Some(1));
    let third = pay(3, &[outside(3)], &[20]);
    w.ledger.record(other, &third, seen, &RecordOptions::default(), w.now).unwrap();
}

fn a_position_that_nobody_said_is_not_0(w: &mut World<'_>) {
    w.mine(&[]);
    let (first, second) = (pay(1, &[outside(1)], &[50]), pay(2, &[outside(2)], &[30]));
    let block = w.block_at(100);
    for tx in [&first, &second] {
        w.mempool(tx);
        w.ledger.confirm(w.wallet, &tx.txid, block, None, w.now).unwrap();
        let summary = w.ledger.transaction(w.wallet, &tx.txid).unwrap().summary;
        assert_eq!((summary.state, summary.position), (at(100), None));
    }
    // It can be said later, and be in nobody's way.
    w.ledger.confirm(w.wallet, &second.txid, block, Some(1), w.now).unwrap();
    assert_eq!(refused(w, &first, 100, 1), BadPlace::Taken(NETWORK.hash(second.txid)));
    w.ledger.confirm(w.wallet, &second.txid, block, None, w.now).unwrap();
    let summary = w.ledger.transaction(w.wallet, &second.txid).unwrap().summary;
    assert_eq!(summary.position, Some(1));
}

fn a_claim_can_be_taken_back_and_made_anew(w: &mut World<'_>) {
    w.mine(&[]);
    w.mine_to(102);
    let receive = pay(1, &[outside(1)], &[50]);
    let mut wrong = w.block_at(50);
    wrong.hash = BlockHash::from_bytes([0xab; 32]);
    w.record(&receive, Seen::Block(wrong, None)).unwrap();
    let taken_back = w.ledger.unconfirm(w.wallet, &receive.txid, w.now).unwrap();
    assert_eq!((taken_back.change, taken_back.state), (Change::Updated, TxState::Unconfirmed));
    w.check();
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 50));
    let again = w.ledger.unconfirm(w.wallet, &receive.txid, w.now).unwrap();
    assert_eq!((again.change, again.state), (Change::Unchanged, TxState::Unconfirmed));
    // The false hash is forgotten with it.
    claim(w, &receive, 50, 1).unwrap();
    assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, Height::new(102));

    let reward = mint(2, &[30]);
    claim(w, &reward, 101, 0).unwrap();
    w.mempool(&pay(3, &[out(&reward, 0)], &[20]));
    let orphaned = w.ledger.unconfirm(w.wallet, &reward.txid, w.now).unwrap();
    assert_eq!((orphaned.state, orphaned.failed_descendants.len()), (TxState::Orphaned, 1));
    w.check();
}

fn what_a_block_said_cannot_be_taken_back(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let block = w.mine(&[&mint(9, &[-1]), &receive]).block;
    let takes_back = |w: &World<'_>, tx: &NewTx| {
        let error = w.ledger.unconfirm(w.wallet, &tx.txid, w.now).unwrap_err();
        let LedgerError::Refused { refused, .. } = error else { panic!("{error}") };
        assert_eq!(refused, Refused::InFollowedBlock(Height::new(100)));
    };
    takes_back(w, &receive);
    // Claiming what is known makes it no claim; a scanned block makes a claim a fact.
    w.ledger.confirm(w.wallet, &receive.txid, block, Some(1), w.now).unwrap();
    takes_back(w, &receive);
    let other = pay(2, &[outside(2)], &[30]);
    claim(w, &other, 100, 2).unwrap();
    let all = [mint(9, &[-1]), receive.clone(), other.clone()];
    w.ledger.scan_block(w.wallet, &block, &all, w.now).unwrap();
    takes_back(w, &other);
}

fn a_block_takes_back_a_claim_that_its_parent_comes_later(w: &mut World<'_>) {
    w.mine(&[]);
    let parent = pay(1, &[outside(1)], &[50, 5]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    let later = w.block_at(105);
    let batch = [(parent.clone(), Seen::Block(later, Some(1)))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    w.mine(&[&mint(9, &[-1]), &child]);
    assert_eq!((w.state(&parent), w.state(&child)), (TxState::Unconfirmed, at(101)));
}

fn a_block_takes_back_a_claim_that_its_child_came_before(w: &mut World<'_>) {
    w.mine(&[]);
    let parent = pay(1, &[outside(1)], &[50]);
    let child = pay(2, &[out(&parent, 0)], &[40]);
    w.mempool(&parent);
    claim(w, &child, 100, 1).unwrap();
    w.mine(&[&mint(9, &[-1]), &parent]);
    assert_eq!((w.state(&parent), w.state(&child)), (at(101), TxState::Unconfirmed));
    w.mine(&[&mint(8, &[-1]), &child]);
    assert_eq!(w.state(&child), at(102));
}

fn children_of_outputs_that_do_not_exist_fail(w: &mut World<'_>) {
    w.mine(&[]);
    let funding = pay(1, &[outside(1)], &[90]);
    w.mine(&[&funding]);
    let real = pay(2, &[out(&funding, 0)], &[40, -30]);
    // Somebody recorded its parts, and made up outputs.
    let mut made_up = pay(2, &[out(&funding, 0)], &[40, 20, 10]);
    made_up.raw = None;
    w.mempool(&made_up);
    let child = pay(3, &[out(&real, 2)], &[9]);
    let grandchild = pay(4, &[out(&child, 0)], &[8]);
    let honest = pay(5, &[out(&real, 0)], &[39]);
    for tx in [&child, &honest] {
        w.mempool(tx);
    }
    claim(w, &grandchild, 101, 1).unwrap();
    w.mine(&[&mint(9, &[-1]), &real]);
    assert_eq!((w.state(&real), w.state(&honest)), (at(102), TxState::Unconfirmed));
    for tx in [&child, &grandchild] {
        assert_eq!(w.state(tx), TxState::Failed);
        let summary = w.ledger.transaction(w.wallet, &tx.txid).unwrap().summary;
        assert_eq!(summary.invalidated_by, Some(real.txid));
    }
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (0, 39));
}

/// As blocks 91,722 and 91,880 of the main chain.
fn a_repeated_coinbase_is_back_in_its_earlier_block(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    w.mine(&[&reward]);
    w.mine(&[]);
    let later = w.mine(&[&reward]);
    w.undo();
    assert_eq!((w.state(&reward), w.balance().total()), (at(100), 50));
    w.redo(&later, &[&reward]);
    assert_eq!(w.state(&reward), at(102));
    w.undo();
    w.undo();
    w.undo();
    assert_eq!((w.state(&reward), w.balance().total()), (TxState::Orphaned, 0));
}

fn a_scan_finds_the_earlier_block_of_a_repeated_coinbase(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    let first = w.mine(&[]).block;
    w.mine(&[]);
    w.mine(&[&reward]);
    w.ledger.scan_block(w.wallet, &first, std::slice::from_ref(&reward), w.now).unwrap();
    w.check();
    assert_eq!(w.state(&reward), at(102));
    w.undo();
    assert_eq!((w.state(&reward), w.balance().total()), (at(100), 50));
}

fn a_coinbase_claimed_in_a_wrong_block_does_not_set_the_wallet_aside(w: &mut World<'_>) {
    let reward = mint(1, &[50]);
    w.mine(&[]);
    w.mine_to(103);
    claim(w, &reward, 102, 0).unwrap();
    w.ledger.scan_block(w.wallet, &w.block_at(102), &[], w.now).unwrap();
    assert_eq!(w.state(&reward), TxState::Orphaned);
    // It is in a block that the wallet has not seen.
    w.mine(&[&mint(9, &[-1]), &pay(2, &[out(&reward, 0)], &[40])]);
    assert_eq!(standing(w, w.wallet), Standing::default());
    assert_eq!(w.balance().confirmed, 40);
}

fn standing(w: &World<'_>, wallet: WalletId) -> Standing {
    w.ledger.standing(wallet).unwrap()
}

fn a_block_that_spends_an_output_twice_is_refused(w: &mut World<'_>) {
    w.mine(&[]);
    let (one, two) = (pay(1, &[outside(1)], &[50]), pay(2, &[outside(1)], &[40]));
    // It concerns nobody, and is wrong all the same.
    let foreign = [pay(3, &[outside(3)], &[-1]), pay(4, &[outside(3)], &[-2])];
    for txs in [[&one, &two], [&one, &one], [&foreign[0], &foreign[1]]] {
        let error = w.try_mine(&txs).unwrap_err();
        assert!(matches!(error, LedgerError::InvalidBlock { .. }), "{error}");
        assert_eq!(w.ledger.tip(NETWORK).unwrap().unwrap().0, Height::new(100));
    }
}
