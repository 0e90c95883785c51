//! Taking an index that was switched off and on again to the tip of its log: the blocks that were
//! logged meanwhile, from wherever their bodies are.

use std::{sync::Arc, time::Duration};

use utxokeep_chains::{Backoff, BodyError, BodyFinder, WantedBlock};
use utxokeep_core::{Block, BlockHash, ErrorKind, Height};
use utxokeep_index::{
    CatchUpError, CaughtUp, ChainIndex, ChainWriter, IndexError, LogError, Readers,
};
use utxokeep_kv::Kv;

use crate::{config::FollowConfig, follow::pause};

/// Why an index did not catch up. What it has come to stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexCatchUpError {
    /// A body could not be fetched.
    #[error("the index that was off cannot catch up: a block could not be fetched")]
    Body(#[from] BodyError),
    /// No place has a block that is needed.
    #[error("the index that was off cannot catch up; its blocks are looked for in {places}")]
    Nowhere {
        /// Where was looked.
        places: String,
        /// What is missing.
        #[source]
        source: Box<CatchUpError>,
    },
    /// The index refused.
    #[error("the index that was off cannot catch up")]
    Index(#[source] Box<CatchUpError>),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl From<CatchUpError> for IndexCatchUpError {
    fn from(error: CatchUpError) -> Self {
        Self::Index(error.into())
    }
}

impl From<IndexError> for IndexCatchUpError {
    fn from(error: IndexError) -> Self {
        Self::Log(error.into())
    }
}

impl IndexCatchUpError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Body(error) => error.kind(),
            Self::Nowhere { source, .. } | Self::Index(source) => source.kind(),
            Self::Log(error) => error.kind(),
        }
    }
}

/// What a catch-up tells while it works.
#[derive(Debug)]
pub enum CatchingUp<'a> {
    /// The block at a height is done, of a chain that ends at another.
    At(Height, Height),
    /// A block could not be fetched; the next attempt comes after this time.
    Away(&'a BodyError, Duration),
}

/// Takes the tables of the index to the tip of the log, if they are behind it. A source that is away
/// is asked again, with longer and longer waits.
pub fn catch_up<K: Kv>(
    writer: &mut ChainWriter<K>,
    bodies: &mut BodyFinder,
    readers: Readers,
    config: &FollowConfig,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&CatchingUp<'_>),
) -> Result<CaughtUp, IndexCatchUpError> {
    let wait = |ms: u32| Duration::from_millis(ms.into());
    let (first, max) = (config.reconnect_first_ms.get(), config.reconnect_max_ms.get());
    let mut backoff = Backoff::new(wait(first), wait(max));
    let index = writer.index().clone();
    loop {
        let mut moved = false;
        let caught = writer.catch_up(
            readers,
            &mut |height, hash| body(&index, bodies, (height, hash), is_stopped),
            &mut |height, tip| {
                moved = true;
                tell(&CatchingUp::At(height, tip));
                !is_stopped()
            },
        );
        if moved {
            backoff.reset();
        }
        match caught {
            Err(IndexCatchUpError::Body(BodyError::Stopped)) => return Ok(CaughtUp::Stopped),
            Err(IndexCatchUpError::Body(error)) if error.kind() == ErrorKind::Unavailable => {
                let wait = backoff.next_wait();
                tell(&CatchingUp::Away(&error, wait));
                pause(wait, is_stopped);
                if is_stopped() {
                    return Ok(CaughtUp::Stopped);
                }
            }
            Err(IndexCatchUpError::Index(source))
                if matches!(*source, CatchUpError::MissingBody { .. }) =>
            {
                return Err(IndexCatchUpError::Nowhere { places: bodies.places(), source });
            }
            caught => return caught,
        }
    }
}

/// A block of the log.
fn body<K: Kv>(
    index: &ChainIndex<K>,
    bodies: &mut BodyFinder,
    (height, hash): (Height, &BlockHash),
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Block>, IndexCatchUpError> {
    let decoder = &index.settings().decoder;
    if let Some(first) = decoder.first_block().filter(|_| height == Height::GENESIS) {
        return Ok(Some(decoder.decode(first).map_err(BodyError::from)?));
    }
    // A view of its own for each block: one for all would hold on to every old row.
    let view = index.view()?;
    let log = view.log();
    let Some(block) = log.block(height)?.filter(|block| block.entry.hash == *hash) else {
        return Ok(None);
    };
    let parent = match height.parent() {
        Some(below) => log.block(below)?.map(|parent| parent.point()),
        None => None,
    };
    let tip = log.tip().map_or(height, |tip| tip.height);
    let wanted = WantedBlock { point: block.point(), parent, tip };
    let found = bodies.block(&wanted, is_stopped)?;
    Ok(found.map(Arc::unwrap_or_clone))
}
