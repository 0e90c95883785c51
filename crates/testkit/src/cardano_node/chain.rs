//! The chain of a fake node: what a reader at some point is told next.

use std::collections::BTreeMap;

use pallas_network::miniprotocols::{
    Point,
    chainsync::{HeaderContent, Tip},
};
use pallas_traverse::{MultiEraBlock, probe};

/// A block and what a node says about it.
#[derive(Debug, Clone)]
pub(crate) struct FakeBlock {
    /// The block with its era wrapper.
    pub(crate) raw: Vec<u8>,
    /// The header as node-to-node peers get it.
    pub(crate) header: HeaderContent,
    pub(crate) point: Point,
    previous: Option<Vec<u8>>,
    height: u64,
}

impl FakeBlock {
    /// Derives everything from the wrapped block.
    pub(crate) fn new(raw: &[u8]) -> Self {
        let block = MultiEraBlock::decode(raw).expect("a fake node gets real blocks");
        let header = block.header();
        let (variant, byron_prefix) = match probe::block_era(raw) {
            probe::Outcome::EpochBoundary => (0, Some((0, raw.len() as u64))),
            _ if raw[1] == 1 => (0, Some((1, raw.len() as u64))),
            _ => (raw[1] - 1, None),
        };
        Self {
            header: HeaderContent { variant, byron_prefix, cbor: header.cbor().to_vec() },
            point: Point::Specific(block.slot(), block.hash().to_vec()),
            previous: header.previous_hash().map(|hash| hash.to_vec()),
            height: block.number(),
            raw: raw.to_vec(),
        }
    }
}

/// What a reader is told.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Forward(Box<FakeBlock>),
    Backward(Point),
    Await,
}

/// A fork that becomes the chain at the next request for blocks.
#[derive(Debug)]
pub(crate) struct Ambush {
    pub(crate) keep: usize,
    pub(crate) blocks: Vec<Vec<u8>>,
}

/// The chain and every block that ever was on it.
#[derive(Debug, Default)]
pub(crate) struct FakeChain {
    blocks: Vec<FakeBlock>,
    places: BTreeMap<Vec<u8>, usize>,
    /// Every block that was ever on the chain, by hash: its point and its predecessor.
    known: BTreeMap<Vec<u8>, (Point, Option<Vec<u8>>)>,
    /// Bodies served instead of the true ones, by hash.
    swapped: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) ambush: Option<Ambush>,
    /// Answers every range with "no blocks".
    pub(crate) refuse_ranges: bool,
    /// Blocks that were served by range.
    pub(crate) served_blocks: usize,
    /// Ranges that were answered with "no blocks".
    pub(crate) refused_ranges: usize,
}

impl FakeChain {
    /// Keeps the first `keep` blocks and puts `blocks` behind them.
    pub(crate) fn switch(&mut self, keep: usize, blocks: &[Vec<u8>]) {
        for gone in self.blocks.drain(keep..) {
            self.places.remove(hash_of(&gone.point));
        }
        for raw in blocks {
            let block = FakeBlock::new(raw);
            let hash = hash_of(&block.point).to_vec();
            self.places.insert(hash.clone(), self.blocks.len());
            self.known.insert(hash, (block.point.clone(), block.previous.clone()));
            self.blocks.push(block);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Serves `body` instead of the block of `point`.
    pub(crate) fn swap_body(&mut self, point: &Point, body: Vec<u8>) {
        self.swapped.insert(hash_of(point).to_vec(), body);
    }

    pub(crate) fn tip(&self) -> Tip {
        self.blocks
            .last()
            .map_or(Tip(Point::Origin, 0), |last| Tip(last.point.clone(), last.height))
    }

    /// The first of `points` that is on the chain.
    pub(crate) fn intersection(&self, points: &[Point]) -> Option<Point> {
        points.iter().find(|point| self.next_place(point).is_some()).cloned()
    }

    /// The place behind `point`; `None` when the point is not on the chain.
    fn next_place(&self, point: &Point) -> Option<usize> {
        match point {
            Point::Origin => Some(0),
            Point::Specific(_, hash) => {
                let place = *self.places.get(hash)?;
                (self.blocks[place].point == *point).then_some(place + 1)
            }
        }
    }

    /// What a reader whose chain ends at `end` is told.
    pub(crate) fn step(&self, end: &Point) -> Step {
        match self.next_place(end) {
            Some(place) => self
                .blocks
                .get(place)
                .map_or(Step::Await, |block| Step::Forward(Box::new(block.clone()))),
            None => Step::Backward(self.last_common(end)),
        }
    }

    /// Walks back from a block that left the chain to one that is on it.
    fn last_common(&self, end: &Point) -> Point {
        let mut point = end.clone();
        while self.next_place(&point).is_none() {
            let previous = self
                .known
                .get(hash_of(&point))
                .and_then(|(_, previous)| previous.as_ref().and_then(|hash| self.known.get(hash)));
            point = previous.map_or(Point::Origin, |(point, _)| point.clone());
        }
        point
    }

    /// The bodies from `first` to `last`; empty when they are not a range of the chain.
    pub(crate) fn range(&mut self, first: &Point, last: &Point) -> Vec<Vec<u8>> {
        if let Some(ambush) = self.ambush.take() {
            self.switch(ambush.keep, &ambush.blocks);
        }
        let (Some(after_first @ 1..), Some(after_last)) =
            (self.next_place(first), self.next_place(last).filter(|_| !self.refuse_ranges))
        else {
            self.refused_ranges += 1;
            return Vec::new();
        };
        let blocks = self.blocks.get(after_first - 1..after_last).unwrap_or_default();
        self.served_blocks += blocks.len();
        let body = |block: &FakeBlock| {
            self.swapped.get(hash_of(&block.point)).unwrap_or(&block.raw).clone()
        };
        blocks.iter().map(body).collect()
    }
}

fn hash_of(point: &Point) -> &[u8] {
    match point {
        Point::Origin => &[],
        Point::Specific(_, hash) => hash,
    }
}
