//! What users claim about blocks, against what blocks say.
//!
//! A second wallet watches the same scripts and is told nothing: what it has confirmed is the truth.

use utxokeep_core::{BlockHash, Height, Txid};
use utxokeep_wallet::{
    BlockRef, CoinQuery, ConfirmationRange, InvalidReason, LeaseId, LeaseTerms, LedgerError,
    Limits, NewTx, RecordOptions, Seen, TxState, WalletId,
};

use crate::scenarios::world::{NETWORK, SECOND, World, mint, open, out, outside, pay};

crate::scenarios::on_both!(
    a_claim_that_contradicts_a_followed_block_is_refused,
    a_claim_below_what_the_ledger_remembers_stays_a_claim,
    a_position_that_contradicts_the_stored_one_is_refused,
    an_abandoned_parent_of_a_child_in_a_block_comes_back,
    a_replaced_parent_of_a_child_in_a_block_takes_its_inputs_back,
    a_whole_line_of_dead_ancestors_comes_back,
    an_unsent_parent_of_a_child_in_a_block_was_sent,
    a_payment_claimed_in_the_wrong_block_moves_to_the_real_one,
    a_payment_claimed_below_the_start_moves_to_the_real_block,
    a_false_confirmed_spend_loses_to_the_block,
    descendants_of_a_false_spend_fail_although_claimed_in_blocks,
    a_repeated_coinbase_counts_once_at_the_later_height,
    a_lease_held_by_a_false_spend_follows_the_real_one,
    what_was_claimed_for_a_coming_block_and_is_not_in_it_leaves_it,
    a_hash_that_was_claimed_at_another_height_does_not_stop_its_block,
    a_time_that_was_claimed_wrongly_is_corrected_by_the_block,
    a_position_that_was_claimed_wrongly_is_corrected_by_the_block,
    inputs_and_outputs_that_were_claimed_wrongly_are_corrected_by_the_block,
    a_coinbase_claimed_as_a_payment_is_corrected_by_the_block,
    a_scanned_block_outranks_claims_at_its_height,
    a_block_of_another_branch_is_not_scanned,
    a_coinbase_whose_spend_was_claimed_below_it_can_be_disconnected,
);

/// A wallet that only sees blocks.
fn observer(w: &World<'_>) -> WalletId {
    let wallet = w.ledger.create_wallet("observer", NETWORK, w.now).unwrap().id;
    w.watch(wallet, 0..10);
    wallet
}

fn confirmed(w: &World<'_>, wallet: WalletId) -> Vec<(String, Option<Height>)> {
    let range = ConfirmationRange::at_least(1);
    let query = CoinQuery { range, ..CoinQuery::default() };
    let coins = w.ledger.coins(wallet, &query, w.now).unwrap();
    coins.iter().map(|coin| (format!("{} {}", coin.outpoint, coin.amount), coin.height)).collect()
}

/// What the wallet has confirmed is what a wallet has that was told nothing.
fn is_exact(w: &World<'_>, observer: WalletId) {
    w.check();
    assert_eq!(confirmed(w, w.wallet), confirmed(w, observer));
}

fn claim(w: &World<'_>, tx: &NewTx, block: BlockRef) -> Result<(), LedgerError> {
    w.record(tx, Seen::Block(block, None)).map(drop)
}

fn below_the_start(w: &World<'_>) -> BlockRef {
    w.block_at(50)
}

fn reason(w: &World<'_>, tx: &NewTx) -> (Option<InvalidReason>, Option<Txid>) {
    let summary = w.ledger.transaction(w.wallet, &tx.txid).unwrap().summary;
    (summary.invalid_reason, summary.invalidated_by)
}

fn at(height: u32) -> TxState {
    TxState::Confirmed(Height::new(height))
}

fn a_claim_that_contradicts_a_followed_block_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    let known = w.mine(&[]).block;
    w.mine(&[]);
    w.mempool(&receive);
    // No transaction of a wallet is in that block, so that only the list of followed ones has it.
    let mut other = known;
    other.hash = BlockHash::from_bytes([0xab; 32]);
    for error in [
        w.ledger.confirm(w.wallet, &receive.txid, other, Some(1), w.now).map(drop).unwrap_err(),
        claim(w, &receive, other).unwrap_err(),
        w.ledger
            .record_batch(w.wallet, &[(receive.clone(), Seen::Block(other, Some(1)))], w.now)
            .map(drop)
            .unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::BlockMismatch { .. }), "{error}");
    }
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
    w.ledger.confirm(w.wallet, &receive.txid, known, Some(1), w.now).unwrap();
    assert_eq!(w.state(&receive), at(101));
}

fn a_claim_below_what_the_ledger_remembers_stays_a_claim(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    claim(w, &receive, below_the_start(w)).unwrap();
    assert_eq!((w.state(&receive), w.with_confirmations(1)), (at(50), 50));
    // A second claim about the same height has to agree with the first.
    let mut other = below_the_start(w);
    other.time = other.time.plus(1);
    let error = claim(w, &pay(2, &[outside(2)], &[9]), other).unwrap_err();
    assert!(matches!(error, LedgerError::BlockMismatch { .. }), "{error}");
}

fn a_position_that_contradicts_the_stored_one_is_refused(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    let block = w.mine(&[&pay(9, &[outside(9)], &[-1]), &receive]).block;
    w.ledger.confirm(w.wallet, &receive.txid, block, Some(1), w.now).unwrap();
    let error = w.ledger.confirm(w.wallet, &receive.txid, block, Some(7), w.now).unwrap_err();
    let LedgerError::PositionMismatch { height, position, .. } = error else { panic!("{error}") };
    assert_eq!((height.get(), position), (100, 1));
}

/// Its own block lies before the start of the ledger.
/// G1.
fn an_abandoned_parent_of_a_child_in_a_block_comes_back(w: &mut World<'_>) {
    let observer = observer(w);
    let parent = pay(1, &[outside(1)], &[50, 30]);
    w.mempool(&parent);
    w.ledger.abandon(w.wallet, &parent.txid, w.now).unwrap();
    w.mine(&[]);
    let child = pay(2, &[out(&parent, 0)], &[45]);
    w.mine(&[&child]);
    assert_eq!((w.state(&parent), w.state(&child)), (TxState::Unconfirmed, at(101)));
    assert_eq!((w.balance().confirmed, w.balance().untrusted_unconfirmed), (45, 30));
    is_exact(w, observer);
    // A scan of the block of the parent completes the picture.
    let block = below_the_start(w);
    w.ledger.scan_block(w.wallet, &block, std::slice::from_ref(&parent), w.now).unwrap();
    w.check();
    assert_eq!((w.state(&parent), w.balance().confirmed), (at(50), 75));
}

/// G1.
fn a_replaced_parent_of_a_child_in_a_block_takes_its_inputs_back(w: &mut World<'_>) {
    let observer = observer(w);
    let parent = pay(1, &[outside(1)], &[50, 30]);
    w.mempool(&parent);
    let other = pay(2, &[outside(1)], &[48, 28]);
    w.replace(&other);
    let dependent = pay(3, &[out(&other, 1)], &[20]);
    w.mempool(&dependent);
    w.mine(&[]);
    let child = pay(4, &[out(&parent, 0)], &[45]);
    w.mine(&[&child]);
    assert_eq!((w.state(&parent), w.state(&child)), (TxState::Unconfirmed, at(101)));
    assert_eq!(reason(w, &other), (Some(InvalidReason::DoubleSpent), Some(parent.txid)));
    assert_eq!(w.state(&dependent), TxState::Failed);
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (45, 30));
    is_exact(w, observer);
}

/// G1.
fn a_whole_line_of_dead_ancestors_comes_back(w: &mut World<'_>) {
    let observer = observer(w);
    let first = pay(1, &[outside(1)], &[50, 1]);
    let second = pay(2, &[out(&first, 0)], &[40, 2]);
    let third = pay(3, &[out(&second, 0), out(&first, 1)], &[30, 3]);
    for tx in [&first, &second, &third] {
        w.mempool(tx);
    }
    w.ledger.abandon(w.wallet, &first.txid, w.now).unwrap();
    assert_eq!(w.state(&third), TxState::Failed);
    w.mine(&[]);
    w.mine(&[&pay(4, &[out(&third, 0)], &[20])]);
    for tx in [&first, &second, &third] {
        assert_eq!(w.state(tx), TxState::Unconfirmed);
    }
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (20, 5));
    is_exact(w, observer);
}

/// G1.
fn an_unsent_parent_of_a_child_in_a_block_was_sent(w: &mut World<'_>) {
    let observer = observer(w);
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let sent = pay(2, &[out(&funding, 0)], &[40]);
    w.mempool(&sent);
    // Declared as its replacement and never published, as far as this ledger knows.
    let waits = pay(3, &[out(&funding, 0)], &[38, 1]);
    let options = RecordOptions { replaces: true, ..Default::default() };
    assert!(w.record_with(&waits, Seen::Created, &options).unwrap().waiting);
    w.mine(&[&pay(4, &[out(&waits, 0)], &[30])]);
    assert_eq!((w.state(&waits), w.state(&sent)), (TxState::Unconfirmed, TxState::Replaced));
    assert_eq!(w.balance().confirmed, 30);
    // The other wallet was not told of the one in between.
    w.check();
    assert_eq!(confirmed(w, observer).len(), 2);
}

/// G2.
fn a_payment_claimed_in_the_wrong_block_moves_to_the_real_one(w: &mut World<'_>) {
    let observer = observer(w);
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[]);
    let wrong = w.mine(&[]).block;
    w.mine(&[]);
    claim(w, &receive, wrong).unwrap();
    assert_eq!(w.state(&receive), at(101));
    w.mine(&[&receive]);
    assert_eq!(w.state(&receive), at(103));
    is_exact(w, observer);
    w.undo();
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
    is_exact(w, observer);
}

/// G2.
fn a_payment_claimed_below_the_start_moves_to_the_real_block(w: &mut World<'_>) {
    let observer = observer(w);
    let receive = pay(1, &[outside(1)], &[50, 20]);
    let spend = pay(2, &[out(&receive, 1)], &[15]);
    w.mine(&[]);
    claim(w, &receive, below_the_start(w)).unwrap();
    w.mempool(&spend);
    w.mine(&[&receive]);
    assert_eq!((w.state(&receive), w.state(&spend)), (at(101), TxState::Unconfirmed));
    w.mine(&[&spend]);
    is_exact(w, observer);
}

/// G3.
fn a_false_confirmed_spend_loses_to_the_block(w: &mut World<'_>) {
    let observer = observer(w);
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let empty = w.mine(&[]).block;
    let false_spend = pay(2, &[out(&funding, 0)], &[49]);
    claim(w, &false_spend, empty).unwrap();
    assert_eq!(w.balance().confirmed, 49);
    let real = pay(3, &[out(&funding, 0)], &[40, -9]);
    w.mine(&[&real]);
    assert_eq!((w.state(&false_spend), w.state(&real)), (TxState::Failed, at(102)));
    assert_eq!(reason(w, &false_spend), (Some(InvalidReason::DoubleSpent), Some(real.txid)));
    let edges = w.ledger.replacements(w.wallet, &real.txid, 10).unwrap();
    assert_eq!((edges[0].replaced, edges[0].replacement), (false_spend.txid, real.txid));
    is_exact(w, observer);
    // The block at which it was claimed can be taken back, and the real one comes again.
    w.undo();
    w.undo();
    assert_eq!(w.state(&false_spend), TxState::Failed);
    w.mine(&[&real]);
    is_exact(w, observer);
}

/// G3.
fn descendants_of_a_false_spend_fail_although_claimed_in_blocks(w: &mut World<'_>) {
    let observer = observer(w);
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let empty = w.mine(&[]).block;
    let false_spend = pay(2, &[out(&funding, 0)], &[49]);
    let child = pay(3, &[out(&false_spend, 0)], &[48]);
    let grandchild = pay(4, &[out(&child, 0)], &[47]);
    claim(w, &false_spend, empty).unwrap();
    claim(w, &child, empty).unwrap();
    w.mempool(&grandchild);
    w.mine(&[&pay(5, &[out(&funding, 0)], &[40])]);
    for tx in [&child, &grandchild] {
        let root = (Some(InvalidReason::AncestorInvalid), Some(false_spend.txid));
        assert_eq!((w.state(tx), reason(w, tx)), (TxState::Failed, root));
    }
    assert_eq!(w.balance().confirmed, 40);
    is_exact(w, observer);
}

/// As blocks 91,722 and 91,880 of the main chain, and 91,812 and 91,842.
/// G4.
fn a_repeated_coinbase_counts_once_at_the_later_height(w: &mut World<'_>) {
    let observer = observer(w);
    let reward = mint(1, &[50]);
    w.mine(&[&reward]);
    w.mine(&[]);
    w.mine(&[&reward]);
    assert_eq!(w.state(&reward), at(102));
    let balance = w.balance();
    assert_eq!((balance.immature, balance.total()), (50, 50));
    w.mine_to(201);
    assert_eq!(w.balance().immature, 50);
    w.mine_to(202);
    assert_eq!((w.balance().immature, w.balance().confirmed), (0, 50));
    is_exact(w, observer);
}

/// G5.
fn a_lease_held_by_a_false_spend_follows_the_real_one(w: &mut World<'_>) {
    let observer = observer(w);
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let empty = w.mine(&[]).block;
    let owner = LeaseId::from_bytes([7; 32]);
    let terms = LeaseTerms { hold_confirmations: Some(3), ..LeaseTerms::until(owner, 60 * SECOND) };
    w.ledger.acquire_leases(w.wallet, &[out(&funding, 0)], &terms, w.now).unwrap();
    claim(w, &pay(2, &[out(&funding, 0)], &[49]), empty).unwrap();
    let spent_at = |w: &World<'_>| {
        let leases = w.ledger.leases(w.wallet, 0, 10, w.now).unwrap();
        leases.iter().map(|lease| lease.spent_height.map(Height::get)).collect::<Vec<_>>()
    };
    assert_eq!(spent_at(w), [Some(101)]);
    w.mine(&[&pay(3, &[out(&funding, 0)], &[40])]);
    assert_eq!(spent_at(w), [Some(102)]);
    w.undo();
    assert_eq!(spent_at(w), [None]);
    w.mine(&[&pay(3, &[out(&funding, 0)], &[40])]);
    w.mine_to(104);
    assert_eq!(spent_at(w), []);
    is_exact(w, observer);
}

fn what_was_claimed_for_a_coming_block_and_is_not_in_it_leaves_it(w: &mut World<'_>) {
    let observer = observer(w);
    w.mine(&[]);
    let receive = pay(1, &[outside(1)], &[50]);
    let reward = mint(2, &[7]);
    let mut coming = w.block_at(101);
    coming.hash = BlockHash::from_bytes([0xcd; 32]);
    let batch = [
        (receive.clone(), Seen::Block(coming, Some(1))),
        (reward.clone(), Seen::Block(coming, Some(0))),
    ];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    // Nothing in it concerns any wallet.
    w.mine(&[&pay(3, &[outside(3)], &[-5])]);
    assert_eq!((w.state(&receive), w.state(&reward)), (TxState::Unconfirmed, TxState::Orphaned));
    is_exact(w, observer);
    w.mine(&[&receive]);
    assert_eq!(w.state(&receive), at(102));
    is_exact(w, observer);
}

fn a_hash_that_was_claimed_at_another_height_does_not_stop_its_block(w: &mut World<'_>) {
    let observer = observer(w);
    w.mine(&[]);
    let (false_claim, receive) = (pay(1, &[outside(1)], &[50]), pay(2, &[outside(2)], &[30]));
    let mut block = w.block_at(101);
    block.height = Height::new(50);
    claim(w, &false_claim, block).unwrap();
    w.mine(&[&false_claim, &receive]);
    assert_eq!((w.state(&false_claim), w.state(&receive)), (at(101), at(101)));
    is_exact(w, observer);
}

fn a_time_that_was_claimed_wrongly_is_corrected_by_the_block(w: &mut World<'_>) {
    let observer = observer(w);
    w.mine(&[]);
    let receive = pay(1, &[outside(1)], &[50]);
    let mut coming = w.block_at(101);
    coming.time = coming.time.plus(1);
    let batch = [(receive.clone(), Seen::Block(coming, None))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    let real = w.mine(&[&receive]).block;
    w.ledger.confirm(w.wallet, &receive.txid, real, Some(0), w.now).unwrap();
    is_exact(w, observer);
}

fn a_position_that_was_claimed_wrongly_is_corrected_by_the_block(w: &mut World<'_>) {
    w.mine(&[]);
    let receive = pay(1, &[outside(1)], &[50]);
    let batch = [(receive.clone(), Seen::Block(w.block_at(101), Some(7)))];
    w.ledger.record_batch(w.wallet, &batch, w.now).unwrap();
    w.mine(&[&pay(3, &[outside(3)], &[-5]), &receive]);
    let summary = w.ledger.transaction(w.wallet, &receive.txid).unwrap().summary;
    assert_eq!((summary.state, summary.position), (at(101), Some(1)));
}

fn inputs_and_outputs_that_were_claimed_wrongly_are_corrected_by_the_block(w: &mut World<'_>) {
    let observer = observer(w);
    let funding = pay(1, &[outside(1)], &[50, 30]);
    w.mine(&[&funding]);
    let real = pay(2, &[out(&funding, 0)], &[45, 4]);
    // The id of the real one, with another input, another amount and one output too many.
    let lie = NewTx { txid: real.txid, ..pay(2, &[out(&funding, 1)], &[10, 4, 3]) };
    w.mempool(&lie);
    let child = pay(3, &[out(&lie, 2), out(&real, 1)], &[2]);
    w.mempool(&child);
    let error = w.record(&real, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidTx { .. }), "{error}");
    w.mine(&[&real]);
    let detail = w.ledger.transaction(w.wallet, &real.txid).unwrap();
    assert_eq!(detail.inputs.len(), 1);
    assert_eq!(detail.inputs[0].outpoint, out(&funding, 0));
    // What spends from an output that does not exist fails.
    assert_eq!((w.state(&child), reason(w, &child).1), (TxState::Failed, Some(real.txid)));
    assert_eq!((w.balance().confirmed, w.unconfirmed()), (79, 0));
    is_exact(w, observer);
}

fn a_coinbase_claimed_as_a_payment_is_corrected_by_the_block(w: &mut World<'_>) {
    let observer = observer(w);
    w.mine(&[]);
    let reward = mint(1, &[50]);
    w.mempool(&NewTx { txid: reward.txid, ..pay(1, &[outside(1)], &[50]) });
    w.mine(&[&reward]);
    assert_eq!((w.state(&reward), w.balance().immature), (at(101), 50));
    is_exact(w, observer);
}

fn a_scanned_block_outranks_claims_at_its_height(w: &mut World<'_>) {
    let (receive, other) = (pay(1, &[outside(1)], &[50]), pay(2, &[outside(2)], &[30]));
    w.mine(&[]);
    let mut wrong = below_the_start(w);
    wrong.hash = BlockHash::from_bytes([0xee; 32]);
    claim(w, &receive, wrong).unwrap();
    claim(w, &other, wrong).unwrap();
    let real = below_the_start(w);
    w.ledger.scan_block(w.wallet, &real, std::slice::from_ref(&receive), w.now).unwrap();
    w.check();
    assert_eq!((w.state(&receive), w.state(&other)), (at(50), TxState::Unconfirmed));
    w.ledger.confirm(w.wallet, &receive.txid, real, Some(0), w.now).unwrap();
    // A block without anything of the wallet says as much.
    let mut empty = w.block_at(51);
    claim(w, &other, empty).unwrap();
    empty.hash = BlockHash::from_bytes([0xdd; 32]);
    w.ledger.scan_block(w.wallet, &empty, &[], w.now).unwrap();
    w.check();
    assert_eq!(w.state(&other), TxState::Unconfirmed);
}

fn a_block_of_another_branch_is_not_scanned(w: &mut World<'_>) {
    w.mine(&[]);
    let left = w.mine(&[]);
    w.undo();
    w.mine(&[]);
    let error = w.ledger.scan_block(w.wallet, &left.block, &[], w.now).unwrap_err();
    assert!(matches!(error, LedgerError::BlockMismatch { .. }), "{error}");
}

fn a_coinbase_whose_spend_was_claimed_below_it_can_be_disconnected(w: &mut World<'_>) {
    let observer = observer(w);
    w.mine(&[]);
    w.mine_to(102);
    let reward = mint(1, &[50]);
    let spend = pay(2, &[out(&reward, 0)], &[40]);
    let later = pay(3, &[out(&spend, 0)], &[30]);
    claim(w, &spend, w.block_at(101)).unwrap();
    claim(w, &later, w.block_at(102)).unwrap();
    w.mine(&[&reward]);
    assert_eq!((w.state(&spend), w.state(&later)), (TxState::Unconfirmed, at(102)));
    w.undo();
    let states = [&reward, &spend, &later].map(|tx| w.state(tx));
    assert_eq!(states, [TxState::Orphaned, TxState::Failed, TxState::Failed]);
    is_exact(w, observer);
}

/// Nothing that a wallet holds in no block stops a block, however much it is.
fn a_cascade_beyond_the_limit_does_not_stop_a_block(url: &str) {
    let ledger = open(url, Limits { cascade_txs_max: 3, ..Limits::default() });
    let mut w = World::new(&ledger);
    let observer = observer(&w);
    let funding = pay(1, &[outside(1)], &[50, 30]);
    w.mempool(&funding);
    let mut links = vec![pay(2, &[out(&funding, 0)], &[40])];
    for name in 3..10 {
        links.push(pay(name, &[out(&links[links.len() - 1], 0)], &[30]));
    }
    for link in &links {
        w.mempool(link);
    }
    // Trust rises along the line, falls when the block leaves, and rises again.
    w.mine(&[]);
    w.mine(&[&funding]);
    assert_eq!(w.balance().trusted_unconfirmed, 30);
    w.undo();
    assert_eq!(w.balance().trusted_unconfirmed, 0);
    w.mine(&[&funding]);
    // Users are still told that it is too much.
    let error = w.ledger.abandon(w.wallet, &links[0].txid, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::CascadeTooLarge { rows_max: 3 }), "{error}");
    w.mine(&[&pay(20, &[out(&funding, 0)], &[-45])]);
    assert!(links.iter().all(|link| w.state(link) == TxState::Failed));
    assert_eq!(w.balance().confirmed, 30);
    is_exact(&w, observer);
}

mod limited {
    #[test]
    fn a_cascade_beyond_the_limit_does_not_stop_a_block_on_sqlite() {
        crate::scenarios::world::on_sqlite(super::a_cascade_beyond_the_limit_does_not_stop_a_block);
    }

    #[test]
    fn a_cascade_beyond_the_limit_does_not_stop_a_block_on_postgres() {
        crate::scenarios::world::on_postgres(
            super::a_cascade_beyond_the_limit_does_not_stop_a_block,
        );
    }
}
