//! Headers that were announced and whose blocks were not handed over yet.

use super::{NodeError, NodePoint, announced::Announced};

/// What a rollback means for the consumer and for the blocks still to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RollBack {
    /// The chain ends there anyway.
    Nothing,
    /// Only headers were dropped; the consumer has not seen their blocks.
    Announced,
    /// Blocks that were handed over are gone; the consumer must hear of it.
    HandedOver,
}

/// The end of the node's chain as far as it was announced.
#[derive(Debug)]
pub(super) struct Pending {
    /// Where the consumer's chain ends; `None` is the origin.
    handed_over: Option<NodePoint>,
    /// What follows it, in order.
    announced: Vec<Announced>,
}

impl Pending {
    pub(super) fn new(start: Option<NodePoint>) -> Self {
        Self { handed_over: start, announced: Vec::new() }
    }

    /// Headers whose blocks are to be fetched, oldest first.
    pub(super) fn announced(&self) -> &[Announced] {
        &self.announced
    }

    fn end(&self) -> Option<NodePoint> {
        self.announced.last().map(|last| last.point).or(self.handed_over)
    }

    /// Appends a header; it must follow the last one.
    pub(super) fn announce(&mut self, next: Announced) -> Result<(), NodeError> {
        // The predecessor of the first block is a hash of the genesis file or nothing at all.
        if let Some(end) = self.end()
            && next.previous != Some(end.hash)
        {
            return Err(NodeError::protocol(format!(
                "the header at {} does not follow {end}",
                next.point
            )));
        }
        self.announced.push(next);
        Ok(())
    }

    /// The announced blocks were handed over.
    pub(super) fn hand_over(&mut self) {
        self.handed_over = self.end();
        self.announced.clear();
    }

    /// Goes back to `to`, where the chain now ends.
    pub(super) fn roll_back(&mut self, to: Option<NodePoint>) -> Result<RollBack, NodeError> {
        if to == self.end() {
            return Ok(RollBack::Nothing);
        }
        if let Some(at) = self.announced.iter().position(|header| Some(header.point) == to) {
            self.announced.truncate(at + 1);
            return Ok(RollBack::Announced);
        }
        self.announced.clear();
        if to == self.handed_over {
            return Ok(RollBack::Announced);
        }
        // Slots never fall along a chain, and `None`, the origin, is the least. An epoch boundary
        // shares its slot with the block behind it.
        if to.map(|point| point.slot) > self.handed_over.map(|point| point.slot) {
            return Err(NodeError::protocol("a rollback to a block that was not announced"));
        }
        self.handed_over = to;
        Ok(RollBack::HandedOver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(number: u8) -> NodePoint {
        NodePoint { slot: u64::from(number) * 20, hash: [number; 32] }
    }

    fn header(number: u8) -> Announced {
        Announced {
            point: point(number),
            previous: Some([number - 1; 32]),
            height: u64::from(number),
            wrapper_tag: 6,
            header: vec![number],
        }
    }

    /// Blocks up to 3 handed over, 4 to 6 announced.
    fn three_and_three() -> Pending {
        let mut pending = Pending::new(None);
        for number in 1..=3 {
            pending.announce(header(number)).unwrap();
        }
        pending.hand_over();
        for number in 4..=6 {
            pending.announce(header(number)).unwrap();
        }
        pending
    }

    fn numbers(pending: &Pending) -> Vec<u64> {
        pending.announced().iter().map(|header| header.height).collect()
    }

    #[test]
    fn rolling_back_announced_headers_drops_only_them() {
        let mut pending = three_and_three();
        assert_eq!(pending.roll_back(Some(point(6))).unwrap(), RollBack::Nothing);
        assert_eq!(numbers(&pending), [4, 5, 6]);
        assert_eq!(pending.roll_back(Some(point(4))).unwrap(), RollBack::Announced);
        assert_eq!(numbers(&pending), [4]);
        assert_eq!(pending.roll_back(Some(point(3))).unwrap(), RollBack::Announced);
        assert_eq!(numbers(&pending), [0_u64; 0]);
        assert_eq!(pending.roll_back(Some(point(3))).unwrap(), RollBack::Nothing);
    }

    #[test]
    fn rolling_back_handed_over_blocks_tells_the_consumer() {
        let mut pending = three_and_three();
        assert_eq!(pending.roll_back(Some(point(2))).unwrap(), RollBack::HandedOver);
        assert_eq!(numbers(&pending), [0_u64; 0]);
        pending.announce(header(3)).unwrap();
        assert_eq!(pending.roll_back(None).unwrap(), RollBack::HandedOver);
        assert_eq!(pending.roll_back(None).unwrap(), RollBack::Nothing);
    }

    #[test]
    fn a_boundary_block_and_its_successor_share_a_slot() {
        let boundary = NodePoint { slot: 60, hash: [9; 32] };
        let mut pending = Pending::new(Some(point(3)));
        assert_eq!(pending.roll_back(Some(boundary)).unwrap(), RollBack::HandedOver);
    }

    #[test]
    fn headers_and_rollbacks_from_nowhere_are_refused() {
        let mut pending = three_and_three();
        assert!(pending.announce(header(8)).is_err());
        assert!(pending.roll_back(Some(point(7))).is_err());
        let mut at_origin = Pending::new(None);
        assert!(at_origin.roll_back(Some(point(1))).is_err());
        at_origin.announce(header(5)).unwrap();
    }
}
