//! Times of blocks, for rules that look at the median of several.

use utxokeep_core::{BlockHash, Height, MEDIAN_BLOCKS, PastTimes, median_time};
use utxokeep_kv::Kv;

use crate::{ChainWriter, error::IndexError, writer::Tip};

/// How many blocks before the last one count for the median.
const BLOCKS_BEFORE: u32 = 10;
const _: () = assert!(BLOCKS_BEFORE as usize + 1 == MEDIAN_BLOCKS);

/// Times of the newest blocks, without a gap up to the tip. They are kept while blocks are staged:
/// to look one up among staged rows would take long.
#[derive(Debug, Default)]
pub(crate) struct KnownTimes {
    /// Height of the first of them.
    first: Height,
    times: Vec<u64>,
    /// The block that the last of them is of; with another tip they are read again.
    tip: Option<BlockHash>,
}

impl KnownTimes {
    fn at(&self, height: Height) -> Option<u64> {
        let at = self.first.depth_below(height)?;
        self.times.get(at as usize).copied()
    }
}

impl<K: Kv> ChainWriter<K> {
    /// Times of the blocks up to the tip, on chains whose rules look at them.
    pub(crate) fn past_times(&mut self) -> Result<Option<PastTimes>, IndexError> {
        let is_bitcoin = !self.index.settings.network().is_cardano();
        let Some(tip) = self.tip.filter(|_| is_bitcoin) else { return Ok(None) };
        if self.times.tip != Some(tip.entry.hash) {
            self.times = self.load_times(&tip)?;
        }
        let median = median_time(&self.times.times);
        Ok(Some(PastTimes { median, previous: tip.entry.time }))
    }

    fn load_times(&self, tip: &Tip) -> Result<KnownTimes, IndexError> {
        let first = tip.height.minus(BLOCKS_BEFORE);
        let heights = (first.get()..=tip.height.get()).map(Height::new);
        let times = heights.map(|height| self.time_of(height)).collect::<Result<_, _>>()?;
        Ok(KnownTimes { first, times, tip: Some(tip.entry.hash) })
    }

    fn time_of(&self, height: Height) -> Result<u64, IndexError> {
        let entry = self.entry_at(height)?;
        Ok(entry.ok_or_else(|| IndexError::missing("chain_blocks", height))?.time)
    }

    /// Notes the time of a block that becomes the tip.
    pub(crate) fn note_time(&mut self, parent: &BlockHash, hash: BlockHash, time: u64) {
        if self.times.tip == Some(*parent) {
            self.times.times.push(time);
            self.times.tip = Some(hash);
        }
    }

    /// Median time of the blocks before the one at a height of the chain.
    pub(crate) fn median_before(&self, height: Height) -> Result<u64, IndexError> {
        let Some(last) = height.get().checked_sub(1).map(Height::new) else { return Ok(0) };
        let heights = (last.minus(BLOCKS_BEFORE).get()..=last.get()).map(Height::new);
        let time = |height| self.times.at(height).map_or_else(|| self.time_of(height), Ok);
        Ok(median_time(&heights.map(time).collect::<Result<Vec<_>, _>>()?))
    }
}
