//! The index switched off, and on again: where its tables stand while the log goes on without them.
//!
//! A database whose index is switched off keeps its tables as they are, and notes in the log's own
//! table which block they stand at: the *set cursor*. The row is there exactly while the tables may
//! not be at the tip. Beside it stand the log entries of the blocks that the tables can be taken back
//! through, as they were: the log may undo those blocks meanwhile, and an entry that it writes again
//! knows no totals. Switched on, [`catch_up`] undoes down to the fork and applies along the log.
//!
//! # Invariants
//!
//! * While the index is off no row of its tables is written.
//! * While there is a set cursor, the log is not undone below the undo base of the tables: the way
//!   back from the cursor always meets the chain.
//! * Entries are kept for every height from the undo base to the set cursor, and for no other.
//! * The last commit of a catch-up deletes all of it and says that the index is on.

pub(crate) mod catch_up;

use utxokeep_core::{BlockEntry, BlockHash, Corrupt, Height};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan};

use crate::{
    Cursor, IndexSettings, LogError,
    accumulator::mmr,
    error::{IndexError, IndexOpenError, QueryError},
    meta,
    query::block_entry,
    tables::META,
    writer::Tip,
};

/// Why what needs every output cannot be had now.
pub(crate) const IS_BEHIND: &str = "the index was off and has not caught up with the log; `utxokeep serve`, \
                                    `chain follow` and `chain import` take it to the tip";

/// Name of the set cursor.
const CURSOR: &[u8] = b"set";
/// What the names of kept entries begin with; the height follows.
const ENTRIES: &[u8] = b"set/";
const ENTRIES_END: &[u8] = b"set0";

/// The block that the tables of the index stand at, where that may not be the tip.
pub(crate) fn cursor(read: &dyn Read) -> Result<Option<Cursor>, IndexError> {
    let Some(row) = META.get(read, CURSOR)? else { return Ok(None) };
    let bytes = row.into_bytes();
    if bytes.is_empty() {
        return Ok(Some(Cursor::START));
    }
    let block = bytes
        .split_at_checked(4)
        .and_then(|(height, hash)| Some((Height::from_key(height)?, BlockHash::from_slice(hash)?)));
    let (height, hash) = block.ok_or_else(|| Corrupt::new("set cursor", "not 36 bytes long"))?;
    Ok(Some(Cursor::at(height, hash)))
}

pub(crate) fn put_cursor(batch: &mut Batch, cursor: Cursor) {
    let row = match cursor.block() {
        Some((height, hash)) => [height.to_key().as_slice(), hash.as_bytes()].concat(),
        None => Vec::new(),
    };
    META.put(batch, CURSOR, &row);
}

fn entry_name(height: Height) -> Vec<u8> {
    [ENTRIES, &height.to_key()].concat()
}

/// Where the tables of the index stand, in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetStanding {
    /// At the tip of the log: the index is on.
    AtTip,
    /// At this block, and on their way to the tip.
    CatchingUp {
        /// The last block that they have.
        at: Cursor,
        /// Height of the tip.
        tip: Option<Height>,
    },
    /// The index is off. Tables from when it was on stand at this block.
    Off {
        /// The last block that they have; `None` where there are no such tables.
        at: Option<Cursor>,
    },
}

impl SetStanding {
    pub(crate) fn read(
        read: &dyn Read,
        settings: &IndexSettings,
        tip: Option<Height>,
    ) -> Result<Self, IndexError> {
        Ok(match (cursor(read)?, settings.enabled) {
            (None, true) => Self::AtTip,
            (Some(at), true) => Self::CatchingUp { at, tip },
            (at, false) => Self::Off { at },
        })
    }

    /// Whether questions are answered.
    #[must_use]
    pub const fn is_at_tip(&self) -> bool {
        matches!(self, Self::AtTip)
    }

    /// The block that the tables stand at, where they are not at the tip.
    #[must_use]
    pub const fn stands_at(&self) -> Option<Cursor> {
        match self {
            Self::AtTip => None,
            Self::CatchingUp { at, .. } => Some(*at),
            Self::Off { at } => *at,
        }
    }

    pub(crate) const fn has_tables(&self) -> bool {
        !matches!(self, Self::Off { at: None })
    }

    pub(crate) const fn check(self) -> Result<(), QueryError> {
        match self {
            Self::AtTip => Ok(()),
            Self::CatchingUp { at, tip } => Err(QueryError::CatchingUp { at, tip }),
            Self::Off { .. } => Err(QueryError::Disabled),
        }
    }

    /// Whether the log can tell what blocks changed.
    pub fn check_changes(self) -> Result<(), LogError> {
        match self {
            Self::AtTip => Ok(()),
            Self::CatchingUp { at, tip } => Err(LogError::CatchingUp { at, tip }),
            Self::Off { .. } => Err(LogError::Disabled),
        }
    }
}

/// Log entry of a block that the tables have, as it was when they came to it.
fn kept_entry(read: &dyn Read, height: Height) -> Result<BlockEntry, IndexError> {
    let row = META.get(read, &entry_name(height))?;
    let row = row.ok_or_else(|| IndexError::missing("chain_meta", format!("set/{height}")))?;
    Ok(BlockEntry::decode(&row.into_bytes())?)
}

/// The block of a set cursor as the tip of a writer.
pub(crate) fn tip(read: &dyn Read, cursor: Cursor) -> Result<Option<Tip>, IndexError> {
    let Some((height, hash)) = cursor.block() else { return Ok(None) };
    let entry = kept_entry(read, height)?;
    if entry.hash != hash {
        return Err(Corrupt::new("set cursor", "its entry is of another block").into());
    }
    Ok(Some(Tip { height, entry }))
}

/// The deepest height that blocks can be undone to at all. Where there are tables of the index, also
/// such as are off, that is their undo base.
pub(crate) fn deepest(read: &dyn Read, has_tables: bool) -> Result<Height, IndexError> {
    let start = meta::start(read)?.unwrap_or(Height::GENESIS);
    if has_tables { Ok(meta::undo_base(read)?.max(start)) } else { Ok(start) }
}

pub(crate) fn keep_entry(batch: &mut Batch, height: Height, entry: &BlockEntry) {
    META.put(batch, &entry_name(height), &entry.encode());
}

/// Forgets entries that nothing can be taken back to any more.
pub(crate) fn forget_entries(batch: &mut Batch, from: Height, until: Height) {
    for raw in from.get()..until.get() {
        META.delete(batch, &entry_name(Height::new(raw)));
    }
}

/// Brings a database that is opened to be changed into line with the setting. Switching off is done
/// with this commit; for switching on there is work to do behind it, unless the setting says no.
pub(crate) fn settle<K: Kv>(kv: &K, settings: &IndexSettings) -> Result<(), IndexOpenError> {
    let (is_on, asked) = (meta::is_enabled(kv)?, settings.enabled);
    let mut batch = Batch::new();
    if is_on && !asked {
        if mmr::has_unfinished_build(kv)? {
            let why = "an interrupted `chain mmr enable` has not come to its end; resume it, or drop \
                       what it has built with `chain mmr disable`";
            return Err(IndexOpenError::NotSwitchedOff { why });
        }
        note_standing(kv, &mut batch)?;
        meta::put_switches(&mut batch, settings, false);
    } else if !is_on && asked && cursor(kv)?.is_none() {
        // It never was on: its tables begin where the chain does.
        put_cursor(&mut batch, Cursor::START);
        meta::put_undo_base(&mut batch, Height::GENESIS);
    }
    if !batch.is_empty() {
        kv.commit(batch, Durability::Synced)?;
    }
    Ok(())
}

/// Notes where the tables stand, which is at the tip, and the entries of the blocks that can be
/// undone from there.
fn note_standing(read: &dyn Read, batch: &mut Batch) -> Result<(), IndexError> {
    let Some((tip, hash)) = meta::tip(read)? else {
        put_cursor(batch, Cursor::START);
        return Ok(());
    };
    put_cursor(batch, Cursor::at(tip, hash));
    for raw in meta::undo_base(read)?.get()..=tip.get() {
        let height = Height::new(raw);
        let entry = block_entry(read, height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
        keep_entry(batch, height, &entry);
    }
    Ok(())
}

/// The tables are at the tip: nothing needs to be noted any more, and the index is on.
fn conclude(
    read: &dyn Read,
    settings: &IndexSettings,
    batch: &mut Batch,
) -> Result<(), IndexError> {
    META.delete(batch, CURSOR);
    let scan = Scan { from: ENTRIES, until: Some(ENTRIES_END), ..Scan::ALL };
    META.scan(read, &scan, |name, _| {
        META.delete(batch, name.bytes());
        true
    })?;
    meta::put_switches(batch, settings, true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Network;
    use utxokeep_kv::MemoryKv;

    use super::*;
    use crate::tables::TABLES;

    #[test]
    fn the_row_of_the_set_cursor_is_pinned() {
        let at = Cursor::at(Height::new(258), BlockHash::from_bytes([7; 32]));
        for (cursor, bytes) in
            [(Cursor::START, String::new()), (at, format!("00000102{}", "07".repeat(32)))]
        {
            let mut batch = Batch::new();
            put_cursor(&mut batch, cursor);
            let row = batch.rows().next().unwrap();
            assert_eq!((row.table, row.key), (META.id(), b"set".as_slice()));
            assert_eq!(utxokeep_core::hex_encode(row.value.unwrap()), bytes);
            let kv = MemoryKv::new(TABLES);
            kv.commit(batch, Durability::Buffered).unwrap();
            assert_eq!(super::cursor(&kv).unwrap(), Some(cursor));
        }
        assert_eq!(entry_name(Height::new(258)), b"set/\x00\x00\x01\x02");
    }

    #[test]
    fn a_database_that_never_had_its_index_on_begins_at_the_start() {
        let off = IndexSettings::new(Network::BitcoinRegtest).with(|off| off.enabled = false);
        let kv = MemoryKv::new(TABLES);
        kv.commit(meta::create(&off), Durability::Buffered).unwrap();
        settle(&kv, &off).unwrap();
        assert_eq!(cursor(&kv).unwrap(), None);
        let on = off.with(|on| on.enabled = true);
        settle(&kv, &on).unwrap();
        assert_eq!(cursor(&kv).unwrap(), Some(Cursor::START));
        assert!(!meta::is_enabled(&kv).unwrap(), "there is work to do");
    }
}
