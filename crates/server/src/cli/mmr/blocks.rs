//! The blocks of the chain once more, in order, from the sources that they were imported from, or from
//! a node.

use utxokeep_chains::{
    BlockDecoder, BodyError, BodyFinder, SourceError, WantedBlock,
    cardano::{ImmutableBlocks, ImmutableDb},
};
use utxokeep_core::{Block, BlockHash, Height};
use utxokeep_index::FollowError;

use crate::cli::sources::Sources;

/// Reads one block after the other.
pub(in crate::cli) struct RawBlocks<'s> {
    sources: Option<&'s Sources>,
    /// Asked where there are no sources.
    node: Option<BodyFinder>,
    decoder: BlockDecoder,
    /// Why the node gave no block.
    pub(super) failed: Option<BodyError>,
    /// Where the newest block was found, to go on from.
    reading: Option<ImmutableBlocks>,
}

impl<'s> RawBlocks<'s> {
    pub(in crate::cli) const fn new(
        sources: Option<&'s Sources>,
        node: Option<BodyFinder>,
        decoder: BlockDecoder,
    ) -> Self {
        Self { sources, node, decoder, failed: None, reading: None }
    }

    /// The block at a place of the chain.
    pub(in crate::cli) fn block(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Block, FollowError> {
        let (height, hash) = (wanted.point.height, wanted.point.hash);
        let named = self.decoder.network().hash(hash);
        let raw = match self.decoder.first_block().filter(|_| height == Height::GENESIS) {
            Some(first) => Some(first),
            None => match &mut self.node {
                Some(node) => node.raw(wanted, is_stopped).unwrap_or_else(|error| {
                    self.failed = Some(error);
                    None
                }),
                None => self.raw(wanted.point.slot, &hash)?,
            },
        };
        let raw = raw.ok_or(FollowError::MissingBody { hash: named, height })?;
        self.decoder.decode(raw).map_err(|source| FollowError::Decode { hash: named, source })
    }

    /// Bytes of a block; `None` where no source has it.
    fn raw(&mut self, slot: u64, hash: &BlockHash) -> Result<Option<Vec<u8>>, FollowError> {
        let Some(sources) = self.sources else { return Ok(None) };
        // Mostly it stands behind the one before, boundary blocks passed over.
        if let Some(reading) = &mut self.reading {
            for _ in 0..2 {
                match reading.next().transpose()? {
                    Some(raw) if raw.hash == *hash => return Ok(Some(raw.bytes)),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        self.reading = None;
        for db in &sources.immutable {
            if let Some(reading) = Self::found(db, slot, hash)? {
                let raw = self.reading.insert(reading).next().transpose()?;
                return Ok(raw.filter(|raw| raw.hash == *hash).map(|raw| raw.bytes));
            }
        }
        match sources.files.as_ref().map(|files| files.raw(hash)).transpose() {
            Ok(raw) => Ok(raw),
            Err(SourceError::UnknownBlock { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn found(
        db: &ImmutableDb,
        slot: u64,
        hash: &BlockHash,
    ) -> Result<Option<ImmutableBlocks>, SourceError> {
        Ok(db.find(slot, hash)?.map(|position| db.blocks_from(position)))
    }
}
