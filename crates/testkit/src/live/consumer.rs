//! A consumer's copy of the chain, made from events alone. Every event is held against the rules.

use std::time::Duration;

use utxokeep_chains::{BlockDecoder, LiveConnection, LiveError, LiveEvent};
use utxokeep_core::{BlockHash, ChainPoint, Height};

use super::{LiveStage, MadeBlock};

/// How long an event may take; only a source that broke down needs it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What has come of following a source, over one connection after the other.
pub(super) struct Consumer<'s> {
    stage: &'s dyn LiveStage,
    decoder: BlockDecoder,
    connection: Option<Box<dyn LiveConnection>>,
    /// Whether the connection has said where it starts.
    is_begun: bool,
    is_at_tip: bool,
    pub(super) chain: Vec<Seen>,
    pub(super) rollbacks: Vec<Option<BlockHash>>,
}

/// A block that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) point: ChainPoint,
    pub(super) raw: Vec<u8>,
}

impl<'s> Consumer<'s> {
    pub(super) fn new(stage: &'s dyn LiveStage) -> Self {
        Self::with(stage, &[])
    }

    /// A consumer that has seen `chain` before.
    pub(super) fn with(stage: &'s dyn LiveStage, chain: &[MadeBlock]) -> Self {
        let seen = |made: &MadeBlock| Seen { point: made.point, raw: made.raw.clone() };
        Self {
            stage,
            decoder: stage.decoder(),
            connection: None,
            is_begun: false,
            is_at_tip: false,
            chain: chain.iter().map(seen).collect(),
            rollbacks: Vec::new(),
        }
    }

    /// Connects with all blocks as points.
    pub(super) fn connect(&mut self) {
        let points: Vec<ChainPoint> = self.chain.iter().rev().map(|seen| seen.point).collect();
        self.connect_at(&points).unwrap();
    }

    pub(super) fn connect_at(&mut self, points: &[ChainPoint]) -> Result<(), LiveError> {
        // The old connection ends before the new one begins.
        self.connection = None;
        self.connection = Some(self.stage.source().connect(points, &|| false)?);
        (self.is_begun, self.is_at_tip) = (false, false);
        Ok(())
    }

    pub(super) fn connection(&mut self) -> &mut dyn LiveConnection {
        self.connection.as_deref_mut().expect("the scenario has connected")
    }

    /// The next event, after it was held against the rules.
    pub(super) fn next(&mut self) -> Result<LiveEvent, LiveError> {
        let event = self.connection().next(PATIENCE)?.expect("an event in time");
        match &event {
            LiveEvent::RolledBack(to) => {
                let end = self.chain.last().map(|last| last.point.hash);
                assert!(!self.is_begun || *to != end, "a rollback that changes nothing");
                let keep = to.map_or(0, |hash| 1 + self.position(&hash));
                self.chain.truncate(keep);
                self.rollbacks.push(*to);
                self.is_at_tip = false;
            }
            LiveEvent::Block(raw) => {
                let block = self.decoder.decode(raw.clone()).expect("a block that decodes");
                if let Some(end) = self.chain.last() {
                    assert_eq!(block.header.prev, end.point.hash, "a block that does not follow");
                }
                let height = Height::new(u32::try_from(self.chain.len()).unwrap());
                let slot = block.header.slot.map_or(height.get().into(), |slot| slot.slot);
                let point = ChainPoint { height, slot, hash: block.header.hash };
                self.chain.push(Seen { point, raw: raw.clone() });
                self.is_at_tip = false;
            }
            LiveEvent::AtTip => self.is_at_tip = true,
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            assert!(matches!(event, LiveEvent::RolledBack(_)), "it starts with {event:?}");
        }
        Ok(event)
    }

    fn position(&self, hash: &BlockHash) -> usize {
        let at = self.chain.iter().position(|seen| seen.point.hash == *hash);
        at.unwrap_or_else(|| panic!("it went back to {hash}, which was never given"))
    }

    /// Takes events up to the next time the tip is told.
    pub(super) fn follow_to_tip(&mut self) {
        while self.next().unwrap() != LiveEvent::AtTip {}
    }

    /// Takes events until `count` blocks are there.
    pub(super) fn follow_to_count(&mut self, count: usize) {
        while self.chain.len() < count {
            self.next().unwrap();
        }
    }

    /// Takes events until the chain is this one and its tip is told.
    pub(super) fn follow_to_chain(&mut self, expected: &[MadeBlock]) {
        while !(self.is_at_tip && self.has(expected)) {
            self.next().unwrap();
        }
    }

    /// Takes what was received before the connection ended, and the failure.
    pub(super) fn follow_to_failure(&mut self) -> LiveError {
        loop {
            if let Err(error) = self.next() {
                return error;
            }
        }
    }

    /// Whether the chain is this one, byte for byte.
    pub(super) fn has(&self, expected: &[MadeBlock]) -> bool {
        let same =
            |(seen, made): (&Seen, &MadeBlock)| seen.point == made.point && seen.raw == made.raw;
        self.chain.len() == expected.len() && self.chain.iter().zip(expected).all(same)
    }

    /// Whether nothing comes for a moment.
    pub(super) fn is_silent(&mut self) -> bool {
        self.connection().next(Duration::from_millis(50)).unwrap().is_none()
    }
}
