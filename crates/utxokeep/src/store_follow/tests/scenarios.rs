//! Single rules of following.

use utxokeep_core::{
    OutPoint, Txid,
    node::{CreateOptions, NodeInput, NodeOutput, PreviousOutput, PruneRules, SpendAndCreate},
};
use utxokeep_txstore::{Decorated, Fields, PruneStore as _, StoredTx, TxStore as _};

use super::{check::live, *};
use crate::store_follow::place::{self, FollowPlace};

const HOW: SpendAndCreate =
    SpendAndCreate { spend_only: false, create_only: false, flags: super::super::FLAGS };

fn stored(store: &NodeStore, txid: &Txid) -> Option<StoredTx> {
    store.get(&[*txid], Fields { body: true, slots: true }).unwrap().remove(0)
}

fn previous(store: &NodeStore, outpoint: OutPoint) -> PreviousOutput {
    match store.decorate(&[outpoint]).unwrap().remove(0) {
        Decorated::Found(previous) => previous,
        other => panic!("{outpoint}: {other:?}"),
    }
}

/// A transaction of a validator that spends an output.
fn spending(store: &NodeStore, outpoint: OutPoint) -> NodeTx {
    let previous = previous(store, outpoint);
    let outputs = vec![NodeOutput { satoshis: previous.satoshis / 2, script: vec![0x51] }];
    let input = NodeInput { outpoint, script: vec![1], sequence: 7, previous: Some(previous) };
    let mut tx = NodeTx {
        txid: Txid::from_bytes([0; 32]),
        version: 2,
        lock_time: 0,
        is_coinbase: false,
        inputs: vec![input],
        outputs,
    };
    tx.txid = tx.hashed_txid();
    tx
}

fn send(store: &NodeStore, tx: &NodeTx, height: Height) {
    let options = CreateOptions::default();
    store.spend_and_create(tx, height, HOW, &options).unwrap().unwrap();
}

/// A chain with spends in its next block, and a store that follows it: that block, and those of its
/// transactions whose parents are of earlier blocks.
fn before_a_block() -> (World, Arc<NodeStore>, (utxokeep_core::Header, Vec<u8>), Vec<NodeTx>) {
    let config = SimulatorConfig { reorg_percent: 0, seed: 5, ..SimulatorConfig::default() };
    let mut world = World::new(config);
    world.mine(130);
    let store = open_store("memory:");
    run(&mut world.following(&store)).unwrap();
    loop {
        let (header, raw) = world.draw();
        let live = live(&world.index);
        let mut txs = node_txs(&raw).unwrap();
        txs.retain(|tx| !tx.is_coinbase && tx.inputs.iter().all(|i| live.contains(&i.outpoint)));
        if txs.len() > 3 {
            return (world, store, (header, raw), txs);
        }
        world.take(&header, raw);
        run(&mut world.following(&store)).unwrap();
    }
}

#[test]
fn a_mined_transaction_wins_against_one_that_waits_and_all_that_builds_on_it() {
    let (mut world, store, (header, raw), txs) = before_a_block();
    let at = world.tip();
    let rival = spending(&store, txs[0].inputs[0].outpoint);
    send(&store, &rival, at);
    let child = spending_own(&rival);
    send(&store, &child, at);
    world.take(&header, raw);
    run(&mut world.following(&store)).unwrap();
    for loser in [&rival, &child] {
        let record = stored(&store, &loser.txid).unwrap().record;
        assert!(record.is_conflicting && !record.is_mined(), "{record:?}");
    }
    let found = compare(&world.index, &store, &world.raws, false);
    assert_eq!((found.losers, found.unmined), (0, 0), "both losers are of no block");
}

fn spending_own(parent: &NodeTx) -> NodeTx {
    let output = &parent.outputs[0];
    let previous = PreviousOutput { satoshis: output.satoshis, script: output.script.clone() };
    let outpoint = OutPoint::new(parent.txid, 0);
    let input = NodeInput { outpoint, script: vec![2], sequence: 8, previous: Some(previous) };
    let mut tx = NodeTx { inputs: vec![input], ..parent.clone() };
    tx.txid = tx.hashed_txid();
    tx
}

#[test]
fn a_transaction_that_waited_is_mined_also_if_it_was_locked_or_had_lost() {
    let (mut world, store, (header, raw), txs) = before_a_block();
    let (at, mut sent) = (world.tip(), Vec::new());
    for tx in txs.iter().take(3) {
        let mut tx = tx.clone();
        for input in &mut tx.inputs {
            input.previous = Some(previous(&store, input.outpoint));
        }
        send(&store, &tx, at);
        sent.push(tx.txid);
    }
    store.set_locked(&sent[1..2], true, at).unwrap().remove(0).unwrap();
    store.set_conflicting(&sent[2..3], true, at).unwrap().remove(0).unwrap();
    world.take(&header, raw);
    run(&mut world.following(&store)).unwrap();
    for txid in &sent {
        let record = stored(&store, txid).unwrap().record;
        assert!(record.is_mined() && !record.is_locked && !record.is_conflicting, "{record:?}");
    }
    compare(&world.index, &store, &world.raws, false);
}

#[test]
fn blocks_that_leave_and_come_back_keep_their_numbers_and_new_ones_get_new_numbers() {
    let (mut world, store, (header, raw), _) = before_a_block();
    world.take(&header, raw);
    let mut following = world.following(&store);
    run(&mut following).unwrap();
    let tip = world.tip();
    let number = |world: &World, height: Height| {
        world.index.view().unwrap().log().block(height).unwrap().unwrap().number()
    };
    let hashes: Vec<BlockHash> = (tip.minus(4).get()..=tip.get())
        .map(|at| world.index.view().unwrap().log().block(Height::new(at)).unwrap().unwrap())
        .map(|block| block.entry.hash)
        .collect();
    let before = number(&world, tip);
    for _ in 0..2 {
        world.follower.writer_mut().rollback(tip.minus(5)).unwrap();
        run(&mut following).unwrap();
        let found = compare(&world.index, &store, &world.raws, false);
        assert!(found.unmined >= 5 && found.losers >= 5, "coinbases lost: {found:?}");
        assert_eq!(world.reached(), Some(tip.minus(5)));
        for hash in &hashes {
            let raw = world.raws.raw(hash);
            let block = BlockDecoder::new(NETWORK).decode(raw).unwrap();
            world.follower.writer_mut().apply(&block).unwrap();
        }
        run(&mut following).unwrap();
        let found = compare(&world.index, &store, &world.raws, false);
        assert_eq!((found.unmined, found.losers), (0, 0));
        assert_eq!(number(&world, tip), before, "the same block");
    }
    let (header, raw) = world.draw();
    let block = BlockDecoder::new(NETWORK).decode(raw).unwrap();
    world.recent.keep(&Arc::new(block.clone()));
    world.follower.writer_mut().apply(&block).unwrap();
    assert_eq!(block.header.hash, header.hash);
    run(&mut following).unwrap();
    assert!(number(&world, tip.plus(1)) > before);
    compare(&world.index, &store, &world.raws, false);
}

#[test]
fn a_store_stands_still_where_an_operator_froze_what_the_chain_spends() {
    let (mut world, store, (header, raw), txs) = before_a_block();
    let outpoint = txs[0].inputs[0].outpoint;
    let slots = stored(&store, outpoint.txid()).unwrap().slots.unwrap();
    let hash = slots[outpoint.index() as usize].as_ref().unwrap().hash;
    store.freeze(&[(outpoint, hash)]).unwrap().remove(0).unwrap();
    world.take(&header, raw);
    let mut following = world.following(&store);
    for _ in 0..2 {
        match run(&mut following) {
            Err(StoreFollowError::Refused { txid, height, .. }) => {
                assert_eq!((txid, height), (txs[0].txid, world.tip()));
            }
            other => panic!("{other:?}"),
        }
        // As its thread does after a failure.
        following = world.following(&store);
    }
    assert_eq!(world.reached(), Some(world.tip().minus(1)));
    store.unfreeze(&[(outpoint, hash)]).unwrap().remove(0).unwrap();
    run(&mut following).unwrap();
    compare(&world.index, &store, &world.raws, false);
}

#[test]
fn a_store_waits_for_bodies_and_names_what_is_missing() {
    let mut world = World::new(SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() });
    world.mine(20);
    let store = open_store("memory:");
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK));
    let mut without =
        StoreFollower::new(world.index.clone(), Arc::clone(&store), bodies, lists_of(7));
    let error = run(&mut without).unwrap_err();
    assert!(
        matches!(error, StoreFollowError::MissingBody { height, .. } if height == Height::new(1)),
        "{error}"
    );
    assert!(error.to_string().contains("[txstore] follow_blocks"), "{error}");
    run(&mut world.following(&store)).unwrap();
    compare(&world.index, &store, &world.raws, false);
}

#[test]
fn a_store_of_another_chain_is_refused() {
    let mut world = World::new(SimulatorConfig::default());
    world.mine(20);
    let store = open_store("memory:");
    run(&mut world.following(&store)).unwrap();
    let mut other = World::new(SimulatorConfig { seed: 9, ..SimulatorConfig::default() });
    other.mine(20);
    let error = run(&mut other.following(&store)).unwrap_err();
    assert!(matches!(error, StoreFollowError::OtherChain { .. }), "{error}");
    compare(&world.index, &store, &world.raws, false);
}

/// Marks a block as in hand, and follows once more: the block comes again.
fn replay(world: &World, store: &Arc<NodeStore>, height: Height) {
    let hash = {
        let view = world.index.view().unwrap();
        view.log().block(height).unwrap().unwrap().entry.hash
    };
    place::write(store, Some(FollowPlace { height, hash, is_in_hand: true })).unwrap();
    run(&mut world.following(store)).unwrap();
    assert_eq!(world.reached(), Some(world.tip()));
}

#[test]
fn a_block_that_comes_again_changes_nothing_also_where_it_was_pruned_meanwhile() {
    let (world, store, ..) = before_a_block();
    let tip = world.tip();
    let ids: Vec<Txid> = world.raws.ids().into_iter().collect();
    let all = || store.get(&ids, Fields { body: true, slots: true }).unwrap();
    let before = all();
    for height in [1, tip.get() - 9, tip.get()] {
        replay(&world, &store, Height::new(height));
        assert_eq!(all(), before, "block {height} again");
    }
    // Far above the tip everything that is spent may go.
    let far = tip.plus(10_000);
    let mut gone = 0;
    loop {
        let due: Vec<Txid> =
            store.due(far, None, 500).unwrap().into_iter().map(|(_, txid)| txid).collect();
        let pruned = store.prune(&due, &PruneRules::at(far, 288)).unwrap().unwrap();
        let now = pruned
            .iter()
            .filter(|pruned| matches!(pruned, utxokeep_core::node::Pruned::Deleted { .. }))
            .count();
        gone += now;
        if now == 0 {
            break;
        }
    }
    assert!(gone > 50, "{gone} were pruned");
    let before = all();
    for height in tip.get() - 90..=tip.get() {
        let hash = {
            let view = world.index.view().unwrap();
            view.log().block(Height::new(height)).unwrap().unwrap().entry.hash
        };
        // All blocks from here on came before, so that each is in hand for itself.
        let height = Height::new(height);
        place::write(&store, Some(FollowPlace { height, hash, is_in_hand: true })).unwrap();
        let mut following = world.following(&store);
        following.take_one().unwrap();
        assert_eq!(all(), before, "block {height} again, pruned");
    }
    compare(&world.index, &store, &world.raws, true);
}
