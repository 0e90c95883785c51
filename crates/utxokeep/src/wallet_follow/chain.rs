//! The chain index as the ledger sees it: hashes from one snapshot, bodies from where they are.

use std::cell::RefCell;

use utxokeep_chains::{BodyError, BodyFinder, WantedBlock, tx_places};
use utxokeep_core::{BlockHash, ChainWork, Height};
use utxokeep_index::{IndexSettings, View};
use utxokeep_kv::Read;
use utxokeep_wallet::{BlockBody, ChainError, FollowedChain};

/// A chain as of one moment.
pub(super) struct IndexedChain<'c, S> {
    pub(super) view: View<'c, S>,
    pub(super) settings: &'c IndexSettings,
    pub(super) bodies: RefCell<&'c mut BodyFinder>,
    pub(super) is_stopped: &'c dyn Fn() -> bool,
}

impl<S: Read> IndexedChain<'_, S> {
    /// The block at a height as the finder of bodies wants it named.
    fn wanted(&self, height: Height) -> Result<Option<WantedBlock>, ChainError> {
        let log = self.view.log();
        let Some(block) = log.block(height)? else { return Ok(None) };
        let parent = match height.parent() {
            Some(below) => log.block(below)?.map(|parent| parent.point()),
            None => None,
        };
        let tip = log.tip().map_or(height, |tip| tip.height);
        Ok(Some(WantedBlock { point: block.point(), parent, tip }))
    }
}

impl<S: Read> FollowedChain for IndexedChain<'_, S> {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        Ok(self.view.tip().map(|(height, entry)| (height, entry.hash)))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.view.block(height)?.map(|entry| entry.hash))
    }

    fn total_work(&self, height: Height) -> Result<Option<ChainWork>, ChainError> {
        Ok(self.view.block(height)?.map(|entry| entry.work))
    }

    fn body(&self, height: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        if (self.is_stopped)() {
            return Err(BodyError::Stopped.into());
        }
        let wanted = self.wanted(height)?.filter(|wanted| wanted.point.hash == *hash);
        let Some(wanted) = wanted else { return Ok(None) };
        let block = self.bodies.borrow_mut().block(&wanted, self.is_stopped)?;
        let Some(block) = block else { return Ok(None) };
        let is_cardano = self.settings.network().is_cardano();
        let tx_places = if is_cardano { Vec::new() } else { tx_places(&block.bytes)? };
        Ok(Some(BlockBody { block, tx_places }))
    }
}
