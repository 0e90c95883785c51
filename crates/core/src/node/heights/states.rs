//! Where a store keeps what it knows of its chain: values under names, beside the records.

use super::{ChainReport, Heights, Taken};
use crate::{
    chain::record::Corrupt,
    node::{changes::NamedState, reads::NodeReads},
    types::Height,
};

const BLOCK_STATE: &str = "block_state";
const HEIGHTS: &str = "heights";

/// Height and median time of the chain, always of the same block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockState {
    /// Height of the newest block.
    pub height: Height,
    /// Median time of the blocks up to it, in seconds.
    pub median_time: u32,
}

impl BlockState {
    /// What a node told a store last.
    pub fn read<S: NodeReads + ?Sized>(states: &S) -> Result<Option<Self>, S::Error> {
        let Some(bytes) = states.state(BLOCK_STATE)? else { return Ok(None) };
        let state = bytes.split_first_chunk::<4>().and_then(|(height, time)| {
            let median_time = u32::from_be_bytes(time.try_into().ok()?);
            Some(Self { height: Height::new(u32::from_be_bytes(*height)), median_time })
        });
        Ok(Some(state.ok_or_else(|| Corrupt::new("block state", "not 8 bytes long"))?))
    }

    /// The value to write: height and time, four bytes each, big endian.
    #[must_use]
    pub fn to_state(self) -> NamedState {
        let mut value = self.height.to_key().to_vec();
        value.extend(self.median_time.to_be_bytes());
        (BLOCK_STATE.to_owned(), Some(value))
    }
}

/// What became of reports, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct TakenReports {
    /// What became of each report.
    pub taken: Vec<Taken>,
    /// What is known now.
    pub heights: Heights,
    /// The new value; `None` where the reports changed nothing.
    pub state: Option<NamedState>,
}

impl Heights {
    /// What a store knows. One from before heights were remembered knows its block state only.
    pub fn read<S: NodeReads + ?Sized>(states: &S) -> Result<Self, S::Error> {
        if let Some(bytes) = states.state(HEIGHTS)? {
            return Ok(Self::decode(&bytes)?);
        }
        let known = BlockState::read(states)?;
        Ok(known.map_or_else(Self::default, |state| Self::of_block_state(state.height)))
    }

    /// Takes reports that came at a time. Whoever writes the new value holds what was read until it
    /// is written, so that no other report is lost. `jump_max` as for [`Heights::take`].
    pub fn take_all<S: NodeReads + ?Sized>(
        states: &S,
        reports: &[ChainReport],
        now_ms: Option<u64>,
        jump_max: u32,
    ) -> Result<TakenReports, S::Error> {
        let before = Self::read(states)?;
        let mut heights = before;
        let taken = reports.iter().map(|report| heights.take(*report, now_ms, jump_max)).collect();
        let state = (heights != before).then(|| (HEIGHTS.to_owned(), Some(heights.encode())));
        Ok(TakenReports { taken, heights, state })
    }
}
