//! Named consumers of the log: how far each has come, and what it holds back.
//!
//! A consumer keeps its cursor with its effects, in its own database. What stands here is a copy
//! that it publishes after it has committed: too low after a crash, never too high.
//!
//! # Invariants
//!
//! * The rows of consumers are the only ones that another thread than the writer changes. A lock
//!   shared by all clones of the index puts changes of them in a row.
//! * A detached consumer holds nothing back until it is registered again.

use std::sync::{MutexGuard, PoisonError};

use minicbor::{Decoder, Encoder};
use utxokeep_core::{BlockHash, Corrupt, Height};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan};

use super::{Cursor, LogError};
use crate::{ChainIndex, View, error::IndexError, tables::META};

/// The most named consumers of a database.
pub const CONSUMERS_MAX: usize = 64;

const PREFIX: &[u8] = b"consumer/";
const PREFIX_END: &[u8] = b"consumer0";
const NAME_LEN_MAX: usize = 64;
const WHAT: &str = "consumer of the log";

/// What a consumer reads, and so what it holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerNeeds {
    /// Which blocks joined and left. Only blocks that left are held.
    Blocks,
    /// What each block changed: deltas and spent outputs are held too.
    Changes,
}

/// Whether a consumer still holds something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerState {
    /// What it has not read yet stays.
    Attached,
    /// It had fallen too far behind when the tip was here, and holds nothing since.
    Detached {
        /// Height of the tip then.
        at: Height,
    },
}

/// A named consumer, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// What it registered as; commands, metrics and health call it so.
    pub name: String,
    /// What it reads.
    pub needs: ConsumerNeeds,
    /// The last block whose effects it has committed, as far as it has said so.
    pub cursor: Cursor,
    /// Whether it still holds something back.
    pub state: ConsumerState,
}

impl ConsumerStatus {
    /// How many blocks it lies behind a tip.
    #[must_use]
    pub fn lag_blocks(&self, tip: Height) -> u64 {
        let reached = self.cursor.height().map_or(-1, |height| i64::from(height.get()));
        u64::try_from(i64::from(tip.get()) - reached).unwrap_or(0)
    }

    fn is_attached(&self) -> bool {
        self.state == ConsumerState::Attached
    }

    fn key(name: &str) -> Vec<u8> {
        [PREFIX, name.as_bytes()].concat()
    }

    fn put(&self, batch: &mut Batch) {
        let mut out = Vec::with_capacity(64);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            let block = self.cursor.block();
            let detached = match self.state {
                ConsumerState::Attached => None,
                ConsumerState::Detached { at } => Some(at),
            };
            e.map(1 + 2 * u64::from(block.is_some()) + u64::from(detached.is_some()))?;
            e.u32(0)?.u8(u8::from(self.needs == ConsumerNeeds::Changes))?;
            if let Some((height, hash)) = block {
                e.u32(1)?.u32(height.get())?.u32(2)?.bytes(hash.as_bytes())?;
            }
            if let Some(at) = detached {
                e.u32(3)?.u32(at.get())?;
            }
            Ok(())
        };
        write().expect("writing to a vector does not fail");
        META.put(batch, &Self::key(&self.name), &out);
    }

    fn decode(key: &[u8], value: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let name = key.strip_prefix(PREFIX).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| Corrupt::new(WHAT, "malformed name"))?.to_owned();
        let mut d = Decoder::new(value);
        let fields = d.map().map_err(corrupt)?.unwrap_or(0);
        let (mut needs, mut height, mut hash) = (ConsumerNeeds::Blocks, None, None);
        let mut state = ConsumerState::Attached;
        for _ in 0..fields {
            match d.u32().map_err(corrupt)? {
                0 if d.u8().map_err(corrupt)? == 1 => needs = ConsumerNeeds::Changes,
                0 => {}
                1 => height = Some(Height::new(d.u32().map_err(corrupt)?)),
                2 => hash = BlockHash::from_slice(d.bytes().map_err(corrupt)?),
                3 => {
                    let at = Height::new(d.u32().map_err(corrupt)?);
                    state = ConsumerState::Detached { at };
                }
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        if height.is_some() != hash.is_some() {
            return Err(Corrupt::new(WHAT, "half of a cursor"));
        }
        Ok(Self { name, needs, cursor: height.zip(hash).into(), state })
    }
}

/// Every named consumer, in order of name.
pub(crate) fn all(read: &dyn Read) -> Result<Vec<ConsumerStatus>, IndexError> {
    let (mut found, mut damage) = (Vec::new(), None);
    let scan = Scan {
        from: PREFIX,
        until: Some(PREFIX_END),
        reverse: false,
        limit: usize::MAX,
        within_prefix: false,
    };
    META.scan(read, &scan, |key, value| {
        match ConsumerStatus::decode(key.bytes(), value.bytes()) {
            Ok(consumer) => found.push(consumer),
            Err(error) => damage = Some(error),
        }
        damage.is_none()
    })?;
    damage.map_or(Ok(found), |error| Err(error.into()))
}

/// What attached consumers still need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// Undo data of blocks above this height; `None` when none is held.
    pub(crate) changes_above: Option<Height>,
    /// Blocks that left the chain above this height; `None` when none is held.
    pub(crate) undone_above: Option<Height>,
}

/// Finds out what consumers hold, and detaches those that have fallen too far behind.
pub(crate) fn held<K: Kv>(index: &ChainIndex<K>) -> Result<Held, IndexError> {
    let _lock = index.consumer_rows();
    let view = index.view()?;
    let Some((tip, _)) = view.tip() else { return Ok(Held::default()) };
    let mut held = Held::default();
    let mut batch = Batch::new();
    for consumer in all(&view.read)?.into_iter().filter(ConsumerStatus::is_attached) {
        let needed = needed(&view, &consumer)?;
        let lag_max = index.settings.consumer_lag_blocks_max;
        match needed {
            Some(needed) if !index.settings.window.is_left_behind(tip, needed, lag_max) => {
                if consumer.needs == ConsumerNeeds::Changes {
                    lower(&mut held.changes_above, needed);
                }
                if consumer.cursor.height() != Some(needed) {
                    lower(&mut held.undone_above, needed);
                }
            }
            _ => detach(&consumer, tip, &mut batch),
        }
    }
    if !batch.is_empty() {
        index.kv.commit(batch, Durability::Buffered)?;
    }
    Ok(held)
}

fn detach(consumer: &ConsumerStatus, tip: Height, batch: &mut Batch) {
    let state = ConsumerState::Detached { at: tip };
    ConsumerStatus { state, ..consumer.clone() }.put(batch);
    crate::stats::consumer_detached(&consumer.name);
    tracing::warn!(
        consumer = consumer.name,
        cursor = %consumer.cursor,
        %tip,
        "a consumer of the chain log is too far behind and holds nothing back any more"
    );
}

fn lower(held: &mut Option<Height>, needed: Height) {
    *held = Some(held.map_or(needed, |held| held.min(needed)));
}

/// The highest block of the chain that a consumer has; `None` when its branch is unknown.
fn needed<S: Read>(
    view: &View<'_, S>,
    consumer: &ConsumerStatus,
) -> Result<Option<Height>, IndexError> {
    match view.log().fork(consumer.cursor) {
        Ok(fork) => Ok(Some(fork.height().unwrap_or(Height::GENESIS))),
        Err(LogError::Store(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Consumers as of one moment, beside the events of the same moment.
impl<S: Read> View<'_, S> {
    /// What [`ChainIndex::slowest_consumer`] answers, of this snapshot.
    pub fn slowest_consumer(
        &self,
        except: &[&str],
    ) -> Result<Option<(String, Height)>, IndexError> {
        let mut slowest: Option<(String, Height)> = None;
        for consumer in all(&self.read)? {
            if consumer.is_attached() && !except.contains(&consumer.name.as_str()) {
                let reached = needed(self, &consumer)?.unwrap_or(Height::GENESIS);
                if slowest.as_ref().is_none_or(|(_, lowest)| reached < *lowest) {
                    slowest = Some((consumer.name, reached));
                }
            }
        }
        Ok(slowest)
    }

    /// What [`ChainIndex::reached`] answers, of this snapshot.
    pub fn reached(&self, name: &str) -> Result<Option<Height>, IndexError> {
        let own = all(&self.read)?.into_iter().find(|consumer| consumer.name == name);
        let own = own.map(|own| needed(self, &own)).transpose()?;
        Ok(own.map(Option::unwrap_or_default))
    }
}

impl<K: Kv> ChainIndex<K> {
    fn consumer_rows(&self) -> MutexGuard<'_, ()> {
        self.consumer_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a consumer that stands at `cursor`. From now on what it has not read stays, up to
    /// [`IndexSettings::consumer_lag_blocks_max`]. One of the same name is registered anew, also when it
    /// was detached: then what it missed may be gone, and reading says so.
    pub fn register_consumer(
        &self,
        name: &str,
        needs: ConsumerNeeds,
        cursor: Cursor,
    ) -> Result<(), LogError> {
        check_name(name)?;
        let _lock = self.consumer_rows();
        let known = all(self.kv.as_ref())?;
        if known.len() >= CONSUMERS_MAX && known.iter().all(|consumer| consumer.name != name) {
            return Err(LogError::TooMany);
        }
        let state = ConsumerState::Attached;
        let consumer = ConsumerStatus { name: name.to_owned(), needs, cursor, state };
        if !known.contains(&consumer) {
            self.put_consumer(&consumer)?;
            // Others may not go beyond this one.
            self.signal.raise();
        }
        Ok(())
    }

    /// Says how far a registered consumer has come. Called after its effects are committed.
    pub fn publish_cursor(&self, name: &str, cursor: Cursor) -> Result<(), LogError> {
        let _lock = self.consumer_rows();
        let mut consumer = self.consumer(name)?;
        if consumer.cursor != cursor {
            consumer.cursor = cursor;
            self.put_consumer(&consumer)?;
            // Others may have waited for this one.
            self.signal.raise();
        }
        Ok(())
    }

    /// Forgets a consumer; it holds nothing any more.
    pub fn forget_consumer(&self, name: &str) -> Result<ConsumerStatus, LogError> {
        let _lock = self.consumer_rows();
        let consumer = self.consumer(name)?;
        let mut batch = Batch::new();
        META.delete(&mut batch, &ConsumerStatus::key(name));
        self.kv.commit(batch, Durability::Synced)?;
        self.signal.raise();
        Ok(consumer)
    }

    /// Every named consumer, in order of name.
    pub fn consumers(&self) -> Result<Vec<ConsumerStatus>, IndexError> {
        all(self.kv.as_ref())
    }

    /// The highest block whose effects every attached consumer has committed, those in `except`
    /// apart; `None` when there is no such consumer.
    pub fn watermark(&self, except: &[&str]) -> Result<Option<Height>, IndexError> {
        Ok(self.slowest_consumer(except)?.map(|(_, reached)| reached))
    }

    /// The attached consumer that has come least far, and that height; of several the first by name.
    pub fn slowest_consumer(
        &self,
        except: &[&str],
    ) -> Result<Option<(String, Height)>, IndexError> {
        self.view()?.slowest_consumer(except)
    }

    /// The highest block of the chain whose effects one consumer has committed, attached or not;
    /// `None` where there is none of that name. One whose branch is not known any more has reached
    /// nothing.
    pub fn reached(&self, name: &str) -> Result<Option<Height>, IndexError> {
        self.view()?.reached(name)
    }

    fn consumer(&self, name: &str) -> Result<ConsumerStatus, LogError> {
        let key = ConsumerStatus::key(name);
        match META.get(self.kv.as_ref(), &key)? {
            Some(value) => Ok(ConsumerStatus::decode(&key, value.read()?)?),
            None => Err(LogError::UnknownConsumer { name: name.to_owned() }),
        }
    }

    fn put_consumer(&self, consumer: &ConsumerStatus) -> Result<(), LogError> {
        let mut batch = Batch::new();
        consumer.put(&mut batch);
        Ok(self.kv.commit(batch, Durability::Buffered)?)
    }
}

fn check_name(name: &str) -> Result<(), LogError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(is_plain) {
        return Err(LogError::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// Whether some attached consumer reads what blocks changed, so that each must have a delta.
pub(crate) fn need_changes(read: &dyn Read) -> Result<bool, IndexError> {
    let needs = |consumer: &ConsumerStatus| {
        consumer.is_attached() && consumer.needs == ConsumerNeeds::Changes
    };
    Ok(all(read)?.iter().any(needs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_consumers_are_pinned() {
        let rows = [
            (Cursor::START, ConsumerNeeds::Blocks, ConsumerState::Attached, "a10000".to_owned()),
            (
                Cursor::at(Height::new(258), BlockHash::from_bytes([7; 32])),
                ConsumerNeeds::Changes,
                ConsumerState::Detached { at: Height::new(1000) },
                format!("a40001011901020258 20{}031903e8", "07".repeat(32)).replace(' ', ""),
            ),
        ];
        for (cursor, needs, state, bytes) in rows {
            let consumer = ConsumerStatus { name: "a-1".to_owned(), needs, cursor, state };
            let mut batch = Batch::new();
            consumer.put(&mut batch);
            let row = batch.rows().next().unwrap();
            assert_eq!((row.table, row.key), (META.id(), b"consumer/a-1".as_slice()));
            let value = row.value.unwrap();
            assert_eq!(utxokeep_core::hex_encode(value), bytes);
            assert_eq!(ConsumerStatus::decode(row.key, value).unwrap(), consumer);
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        for name in ["wallets", "a", "node-store-2", &"x".repeat(64)] {
            check_name(name).unwrap();
        }
        for name in ["", "Wallets", "a/b", "a b", "a\0", "ä", &"x".repeat(65)] {
            assert!(matches!(check_name(name), Err(LogError::BadName { .. })), "{name:?}");
        }
    }
}
