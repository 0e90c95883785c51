//! The follower as a library, against a node that forks and fails at random.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use utxokeep::{
    config::FollowConfig,
    follow::{FollowOptions, follow},
};
use utxokeep_chains::{bitcoind::BitcoinNode, bitcoind::BitcoindOptions};
use utxokeep_core::Network;
use utxokeep_index::{
    ChainIndex, ChainWriter, IndexSettings, LiveFollower, Readers, tables::TABLES,
};
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::{
    bitcoind::{Bitcoind, NodeProxy},
    live::bitcoind_options,
};

use super::{mine_spend, set_of, wait_for_node};

/// Reorganisations of one run; `UTXOKEEP_BITCOIND_ROUNDS` asks for more.
const ROUNDS: u32 = 50;

fn empty() -> ChainIndex<MemoryKv> {
    let settings = IndexSettings::new(Network::BitcoinRegtest);
    ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap()
}

fn options(node: BitcoindOptions) -> FollowOptions {
    let source = Arc::new(BitcoinNode::new(node));
    let mut options = FollowOptions::new(source, &FollowConfig::default());
    options.reconnect_first = Duration::from_millis(20);
    options.reconnect_max = Duration::from_millis(200);
    options
}

/// A short random sequence.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// One step of the node's life.
fn step(node: &mut Bitcoind, chance: &mut Chance, invalidated: &mut Vec<String>) {
    // Shorter branches must not use the chain up.
    if node.height() < 130 {
        node.generate(20);
    }
    let height = node.height();
    match chance.below(8) {
        // Another branch, longer, as long or shorter than the one before.
        0..=3 => {
            let depth = 1 + chance.below(12);
            invalidated.push(node.invalidate_from(height + 1 - depth));
            for _ in 0..chance.below(depth + 3) {
                mine_spend(node, 1 + chance.below(height - 40), chance.below(6));
            }
        }
        // The branch that was left wins again.
        4 => {
            if let Some(left) = invalidated.pop() {
                node.rpc("reconsiderblock", &json!([left]));
            }
        }
        // Blocks that the node loses by being killed before it writes them.
        5 => {
            node.generate(1 + usize::try_from(chance.below(3)).unwrap());
            node.kill();
            node.start();
        }
        6 => {
            node.stop();
            node.start();
            node.generate(1);
        }
        _ => {
            let blocks = 1 + chance.below(5);
            (0..blocks).for_each(|at| mine_spend(node, 1 + at, 3));
        }
    }
}

#[test]
fn random_reorganisations_and_restarts_end_with_the_set_of_the_node() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    let rounds = std::env::var("UTXOKEEP_BITCOIND_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("UTXOKEEP_SEED").ok().map_or(7, |seed| seed.parse().unwrap());
    let mut chance = Chance(seed);
    node.generate(140);
    let index = empty();
    let options = options(bitcoind_options(&node, &node.url()));
    let is_stopped = AtomicBool::new(false);
    let follow_on = || {
        let mut live =
            LiveFollower::new(ChainWriter::new(index.clone()).unwrap(), Readers::Present);
        let stop = || is_stopped.load(Ordering::Relaxed);
        follow(&mut live, &options, &stop, &mut |_| {}).unwrap();
        live.into_writer().unwrap().1
    };
    let mut reorganisations = 0;
    let (mut invalidated, mut done) = (Vec::new(), 0);
    while reorganisations < u64::from(rounds) {
        is_stopped.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            let following = scope.spawn(follow_on);
            for _ in 0..rounds {
                wait_for_node(&index, &node);
                step(&mut node, &mut chance, &mut invalidated);
                done += 1;
            }
            wait_for_node(&index, &node);
            is_stopped.store(true, Ordering::Relaxed);
            reorganisations += following.join().unwrap().reorganisations;
        });
        // A step that nobody listens to.
        step(&mut node, &mut chance, &mut invalidated);
        assert!(done < 100 * rounds, "seed {seed}: hardly any step is a reorganisation");
    }
    assert!(index.verify(&mut |_, _| {}).unwrap().is_clean(), "seed {seed}");
}

/// A body whose transactions are not those of its header passes for the block until it is decoded.
#[test]
fn a_body_that_was_tampered_with_stops_the_follower_and_changes_nothing() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(20);
    let proxy = NodeProxy::start(node.port());
    let index = empty();
    let mut options = options(bitcoind_options(&node, &proxy.url()));
    options.until_tip = true;
    let follow_once = || {
        let mut live = LiveFollower::new(ChainWriter::new(index.clone()).unwrap(), Readers::Absent);
        follow(&mut live, &options, &|| false, &mut |_| {})
    };
    follow_once().unwrap();
    let before = set_of(&index);
    assert_eq!(before, node.set());
    node.generate(1);
    proxy.change(|path, mut body| {
        if path.contains("/rest/block/") {
            // The amount of the coinbase's output.
            let at = body.len() - 40;
            body[at] ^= 1;
        }
        Ok(body)
    });
    let error = format!("{:#}", follow_once().unwrap_err());
    assert!(error.contains("Merkle") || error.contains("merkle"), "{error}");
    assert_eq!(set_of(&index), before);
    proxy.be_honest();
    follow_once().unwrap();
    assert_eq!(set_of(&index), node.set());
}

/// A node that has pruned is followed by whoever has what it pruned, and by nobody else.
#[test]
fn a_pruned_node_is_followed_to_its_set_from_where_it_has_blocks() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest", "-prune=1", "-fastprune"]) else { return };
    node.generate(780);
    (0..20).for_each(|at| mine_spend(&node, 1 + at, 5));
    let index = empty();
    let mut options = options(bitcoind_options(&node, &node.url()));
    options.until_tip = true;
    let follow_once = |index: &ChainIndex<MemoryKv>| {
        let mut live =
            LiveFollower::new(ChainWriter::new(index.clone()).unwrap(), Readers::Present);
        follow(&mut live, &options, &|| false, &mut |_| {})
    };
    follow_once(&index).unwrap();
    assert_eq!(set_of(&index), node.set());
    node.generate(300);
    node.rpc("pruneblockchain", &json!([750]));
    let info = node.rpc("getblockchaininfo", &json!([]));
    assert!(info["pruneheight"].as_u64().is_some_and(|kept| kept > 1), "{info}");
    for round in 0..3 {
        // Of blocks that the node still has.
        (0..6).for_each(|at| mine_spend(&node, 760 + round * 20 + at, 4));
        follow_once(&index).unwrap();
        assert_eq!(set_of(&index), node.set());
        // A fork of what was just mined.
        node.invalidate_from(node.height() - 4);
        (0..7).for_each(|at| mine_spend(&node, 763 + round * 20 + at, 3));
        follow_once(&index).unwrap();
        assert_eq!(set_of(&index), node.set());
    }
    assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
    let error = format!("{:#}", follow_once(&empty()).unwrap_err());
    assert!(error.contains("the node has pruned its blocks"), "{error}");
}
