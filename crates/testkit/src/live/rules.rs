//! One scenario per rule of live sources.

use std::time::Duration;

use utxokeep_chains::{LiveError, LiveEvent};
use utxokeep_core::{BlockHash, ChainPoint};

use super::{LiveStage, MadeBlock, consumer::Consumer};

/// `blocks` on top of the first `keep` of a chain; those of another branch differ.
fn branch(
    stage: &dyn LiveStage,
    chain: &[MadeBlock],
    keep: usize,
    blocks: usize,
    name: u8,
) -> Vec<MadeBlock> {
    let mut chain = chain[..keep].to_vec();
    for _ in 0..blocks {
        chain.push(stage.make(chain.last(), name));
    }
    chain
}

fn hash(block: &MadeBlock) -> BlockHash {
    block.point.hash
}

pub(super) fn the_whole_chain_arrives_in_order_and_then_the_tip(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 35, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    consumer.connect_at(&[]).unwrap();
    assert_eq!(consumer.next().unwrap(), LiveEvent::RolledBack(None));
    for made in &chain {
        assert_eq!(consumer.next().unwrap(), LiveEvent::Block(made.raw.clone()));
    }
    assert_eq!(consumer.next().unwrap(), LiveEvent::AtTip);
    assert!(consumer.has(&chain));
    assert!(consumer.is_silent());
    assert!(!stage.source().address().is_empty());
}

pub(super) fn following_goes_on_behind_the_newest_point_that_the_source_has(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 30, 1);
    stage.switch(0, &chain);
    let ours = branch(stage, &chain, 20, 4, 2);
    let mut consumer = Consumer::with(stage, &ours);
    let points: Vec<ChainPoint> =
        [23, 22, 20, 19, 10, 0].iter().map(|at: &usize| ours[*at].point).collect();
    consumer.connect_at(&points).unwrap();
    consumer.follow_to_tip();
    assert_eq!(consumer.rollbacks, [Some(hash(&chain[19]))]);
    assert!(consumer.has(&chain));

    // Where the consumer has all, the source only says so.
    consumer.connect();
    assert_eq!(consumer.next().unwrap(), LiveEvent::RolledBack(Some(hash(&chain[29]))));
    assert_eq!(consumer.next().unwrap(), LiveEvent::AtTip);
}

pub(super) fn each_new_block_arrives_and_then_the_tip(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 12, 1);
    stage.switch(0, &chain[..5]);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    consumer.follow_to_tip();
    for end in 6..=12 {
        stage.switch(end - 1, &chain[end - 1..end]);
        consumer.follow_to_chain(&chain[..end]);
    }
    assert_eq!(consumer.rollbacks, [None], "only the intersection");
}

pub(super) fn a_fork_is_a_rollback_to_the_last_shared_block_and_the_new_branch(
    stage: &dyn LiveStage,
) {
    let mut chain = branch(stage, &[], 0, 20, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    consumer.follow_to_tip();
    for (name, depth) in [(2, 1), (3, 7), (4, 15)] {
        let keep = chain.len() - depth;
        chain = branch(stage, &chain, keep, depth + 1, name);
        stage.switch(keep, &chain[keep..]);
        consumer.follow_to_chain(&chain);
        assert_eq!(consumer.rollbacks.last(), Some(&Some(hash(&chain[keep - 1]))));
    }
    assert_eq!(consumer.rollbacks.len(), 4, "the intersection, and one for each fork");
}

pub(super) fn a_chain_that_gets_shorter_is_a_rollback_and_the_tip(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 20, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    consumer.follow_to_tip();
    stage.switch(13, &[]);
    assert_eq!(consumer.next().unwrap(), LiveEvent::RolledBack(Some(hash(&chain[12]))));
    assert_eq!(consumer.next().unwrap(), LiveEvent::AtTip);
    assert!(consumer.has(&chain[..13]));
}

pub(super) fn a_fork_while_catching_up_ends_with_the_new_chain(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 60, 1);
    // Below, at and above what the consumer took when it happens.
    for keep in [5, 24, 25, 26, 33, 55] {
        stage.switch(0, &chain);
        let mut consumer = Consumer::new(stage);
        consumer.connect();
        consumer.follow_to_count(25);
        let other = branch(stage, &chain, keep, 40, 2);
        stage.switch(keep, &other[keep..]);
        consumer.follow_to_chain(&other);
    }
}

pub(super) fn a_fork_below_the_intersection_names_a_block_that_was_given_before(
    stage: &dyn LiveStage,
) {
    let chain = branch(stage, &[], 0, 30, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    consumer.follow_to_tip();
    // The second connection hears of nothing but the tip, then the chain forks below it.
    consumer.connect_at(&[chain[29].point]).unwrap();
    consumer.follow_to_tip();
    let other = branch(stage, &chain, 14, 20, 2);
    stage.switch(14, &other[14..]);
    consumer.follow_to_chain(&other);
    assert_eq!(consumer.rollbacks, [None, Some(hash(&chain[29])), Some(hash(&chain[13]))]);
}

pub(super) fn a_connection_that_is_cut_off_fails_for_good_and_the_next_one_goes_on(
    stage: &dyn LiveStage,
) {
    let chain = branch(stage, &[], 0, 80, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    let mut cuts = 0;
    while !consumer.has(&chain) {
        consumer.connect();
        consumer.follow_to_count((consumer.chain.len() + 15).min(chain.len()));
        stage.cut_off();
        cuts += 1;
        let error = consumer.follow_to_failure();
        assert!(matches!(error, LiveError::Away(_)), "{error}");
        assert!(error.is_worth_retrying());
        let again = consumer.connection().next(Duration::ZERO).unwrap_err();
        assert!(matches!(again, LiveError::Away(_)), "{again}");
    }
    assert!(cuts > 2);

    // The chain forks while nobody listens.
    let other = branch(stage, &chain, 74, 9, 2);
    stage.switch(74, &other[74..]);
    consumer.connect();
    consumer.follow_to_chain(&other);
}

pub(super) fn a_source_without_any_of_the_points_says_whether_it_is_behind(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 20, 1);
    stage.switch(0, &chain);
    let longer = branch(stage, &chain, 1, 25, 2);
    let mut consumer = Consumer::with(stage, &longer);
    let above: Vec<ChainPoint> = longer[22..].iter().rev().map(|made| made.point).collect();
    let error = consumer.connect_at(&above).unwrap_err();
    assert!(matches!(error, LiveError::Behind(_)), "{error}");
    assert!(error.is_worth_retrying());

    let below: Vec<ChainPoint> = longer[5..15].iter().rev().map(|made| made.point).collect();
    let error = consumer.connect_at(&below).unwrap_err();
    assert!(matches!(error, LiveError::Refused(_)), "{error}");
    assert!(!error.is_worth_retrying());
}

pub(super) fn signs_of_life_grow_and_the_height_is_that_of_the_tip(stage: &dyn LiveStage) {
    let chain = branch(stage, &[], 0, 9, 1);
    stage.switch(0, &chain[..8]);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    let first = consumer.connection().contact();
    assert!(first.messages > 0);
    assert_eq!(first.tip_height, 7, "known before the first block");
    consumer.follow_to_tip();
    let at_tip = consumer.connection().contact();
    assert!(at_tip.messages > first.messages);
    stage.switch(8, &chain[8..]);
    consumer.follow_to_chain(&chain);
    let after = consumer.connection().contact();
    assert!(after.messages > at_tip.messages);
    assert_eq!(after.tip_height, 8);
}

/// Grows, forks, shrinks and cuts off at random, while the consumer takes some events now and then.
pub(super) fn a_random_life_ends_with_the_chain_of_the_source(stage: &dyn LiveStage) {
    let mut chance = Chance(0x5eed);
    let mut chain = branch(stage, &[], 0, 10, 1);
    stage.switch(0, &chain);
    let mut consumer = Consumer::new(stage);
    consumer.connect();
    for round in 2..152u8 {
        let depth = match chance.below(4) {
            0 => chance.below(chain.len().min(9)),
            _ => 0,
        };
        let keep = chain.len() - depth;
        chain = branch(stage, &chain, keep, chance.below(6), round);
        stage.switch(keep, &chain[keep..]);
        match chance.below(3) {
            0 => {
                stage.cut_off();
                consumer.follow_to_failure();
                consumer.connect();
            }
            1 => consumer.follow_to_chain(&chain),
            // The consumer falls behind.
            _ => {}
        }
    }
    consumer.follow_to_chain(&chain);
    assert!(consumer.is_silent());
}

/// A short random sequence, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}
