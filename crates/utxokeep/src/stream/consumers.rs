//! Consumers of the change stream by name: what they have not read yet stays, within bounds.
//!
//! # Invariants
//!
//! * Names of consumers of the stream begin with [`CONSUMER_PREFIX`]. The other ones belong to parts
//!   of the program, and no client moves or forgets them.
//! * The place of a consumer is one that its client said it has come to, never one that was sent.

use serde::Serialize;
use utxokeep_core::{Height, StreamCursor};
use utxokeep_index::{
    ChainIndex, ConsumerNeeds, ConsumerState, ConsumerStatus, Cursor, LogError, LogEvent,
};
use utxokeep_kv::Kv;

use super::{Start, StreamError, cursor_text, reader::behind};

/// What names of consumers of the stream begin with.
pub const CONSUMER_PREFIX: &str = "stream-";

/// A named consumer of the chain log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Consumer {
    /// What it registered as.
    #[cfg_attr(feature = "schema", schema(example = "stream-accounting"))]
    pub name: String,
    /// What the consumer reads: `blocks`, or `changes` with their contents.
    pub needs: &'static str,
    /// Height of the last block that it has; `null` before the first.
    pub height: Option<u32>,
    /// Cursor of the change stream behind that block.
    pub cursor: String,
    /// How many blocks it lies behind the tip.
    pub lag_blocks: u64,
    /// Height of the tip when the consumer had fallen too far behind; absent while it is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub detached_at_height: Option<u32>,
}

/// All named consumers of the chain log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ConsumerList {
    /// Height of the tip; `null` before the first block.
    pub tip_height: Option<u32>,
    /// The consumers, in order of name.
    pub items: Vec<Consumer>,
}

/// Where a consumer is to be registered: behind an event, or behind a block; else at the tip.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ConsumerPlace {
    /// Cursor of the last event whose effects the consumer has committed.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CURSOR", conflicts_with = "from_height"))]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub from: Option<String>,
    /// Height of the last block whose effects it has committed.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub from_height: Option<u32>,
}

impl ConsumerPlace {
    /// The place.
    pub fn start(&self) -> Result<Start, StreamError> {
        Start::named(self.from.as_deref(), self.from_height)
    }
}

impl Consumer {
    /// Describes a consumer beside the tip.
    #[must_use]
    pub fn new(status: ConsumerStatus, tip: Option<Height>) -> Self {
        Self {
            needs: match status.needs {
                ConsumerNeeds::Blocks => "blocks",
                ConsumerNeeds::Changes => "changes",
            },
            height: status.cursor.height().map(Height::get),
            cursor: cursor_text(&behind(status.cursor)),
            lag_blocks: tip.map_or(0, |tip| status.lag_blocks(tip)),
            detached_at_height: match status.state {
                ConsumerState::Attached => None,
                ConsumerState::Detached { at } => Some(at.get()),
            },
            name: status.name,
        }
    }
}

/// The named consumers of a chain log.
#[derive(Debug, Clone)]
pub struct StreamConsumers<K> {
    index: ChainIndex<K>,
    consumers_max: u32,
}

impl<K: Kv> StreamConsumers<K> {
    /// Of an index, with at most so many consumers of the stream.
    #[must_use]
    pub const fn new(index: ChainIndex<K>, consumers_max: u32) -> Self {
        Self { index, consumers_max }
    }

    /// All of them, those of parts of the program included.
    pub fn list(&self) -> Result<ConsumerList, StreamError> {
        let tip = self.tip()?;
        let consumers = self.index.consumers()?.into_iter();
        let consumers = consumers.map(|status| Consumer::new(status, tip)).collect();
        Ok(ConsumerList { tip_height: tip.map(Height::get), items: consumers })
    }

    /// Registers a consumer of the stream, or says how far a registered one has come. From now on what
    /// it has not read stays, up to `[index] consumer_lag_blocks_max` blocks.
    pub fn register(&self, name: &str, start: Start) -> Result<Consumer, StreamError> {
        check_name(name)?;
        let is_ours = |known: &&ConsumerStatus| known.name.starts_with(CONSUMER_PREFIX);
        let known = self.index.consumers()?;
        let is_known = known.iter().any(|one| one.name == name);
        let max = self.consumers_max;
        if !is_known && known.iter().filter(is_ours).count() >= max as usize {
            return Err(StreamError::TooManyConsumers { max });
        }
        let cursor = self.whole_block(start.find(&self.index)?)?;
        self.index.register_consumer(name, ConsumerNeeds::Changes, cursor)?;
        self.find(name)
    }

    /// Forgets a consumer of the stream; it holds nothing back any more.
    pub fn forget(&self, name: &str) -> Result<Consumer, StreamError> {
        check_name(name)?;
        let tip = self.tip()?;
        Ok(Consumer::new(self.index.forget_consumer(name)?, tip))
    }

    /// How far a registered consumer has come.
    pub(super) fn cursor(&self, name: &str) -> Result<StreamCursor, StreamError> {
        Ok(behind(self.status(name)?.cursor))
    }

    fn find(&self, name: &str) -> Result<Consumer, StreamError> {
        Ok(Consumer::new(self.status(name)?, self.tip()?))
    }

    fn status(&self, name: &str) -> Result<ConsumerStatus, StreamError> {
        check_name(name)?;
        let found = self.index.consumers()?.into_iter().find(|known| known.name == name);
        Ok(found.ok_or_else(|| LogError::UnknownConsumer { name: name.to_owned() })?)
    }

    fn tip(&self) -> Result<Option<Height>, StreamError> {
        Ok(self.index.view()?.tip().map(|(height, _)| height))
    }

    /// The last block that a reader has wholly; an error when it cannot read on from there.
    fn whole_block(&self, at: StreamCursor) -> Result<Cursor, StreamError> {
        let view = self.index.view()?;
        let log = view.log();
        let first = log.events(at.block().into(), 1)?.into_iter().next();
        let cursor = match (at.block(), at.applied()) {
            (Some((height, hash)), Some(_)) => match first {
                Some(LogEvent::Undone(block)) if block.entry.hash == hash => block.parent(),
                _ => log.block(height)?.ok_or(StreamError::BadCursor)?.parent(),
            },
            (block, _) => block.into(),
        };
        let start_from = log.start_from()?;
        match log.fork(cursor)?.height() {
            Some(fork) if fork < start_from => {
                Err(LogError::PastWindow { height: fork.plus(1), start_from }.into())
            }
            _ => Ok(cursor),
        }
    }
}

fn check_name(name: &str) -> Result<(), StreamError> {
    match name.strip_prefix(CONSUMER_PREFIX) {
        Some(rest) if !rest.is_empty() => Ok(()),
        _ => Err(StreamError::BadConsumerName { name: name.to_owned() }),
    }
}
