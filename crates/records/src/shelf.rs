//! Cells and indexes of all shards in memory: the exact meaning of the port, one write at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    port::{
        Action, Cell, Expect, Field, Fields, IndexPage, Key, ReadCell, ScanIndex, WriteCell,
        Written,
    },
    version::Version,
};

#[derive(Debug, Clone)]
struct Stored {
    version: Version,
    fields: BTreeMap<Field, Vec<u8>>,
    expires_at_ms: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Index {
    scores: BTreeMap<Vec<u8>, u64>,
    rows: BTreeSet<(u64, Vec<u8>)>,
}

impl Index {
    /// Sets or takes away a score, and gives the one before.
    fn put(&mut self, member: &[u8], score: Option<u64>) -> Option<u64> {
        let before = match score {
            Some(score) => self.scores.insert(member.to_vec(), score),
            None => self.scores.remove(member),
        };
        if let Some(before) = before {
            self.rows.remove(&(before, member.to_vec()));
        }
        if let Some(score) = score {
            self.rows.insert((score, member.to_vec()));
        }
        before
    }
}

/// Takes one write back.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "testing"),
    allow(dead_code, reason = "only the simulation takes writes back")
)]
pub(crate) struct Undo {
    key: Key,
    cell: Option<Stored>,
    rows: Vec<(u8, Vec<u8>, Option<u64>)>,
}

/// All shards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    cells: BTreeMap<Key, Stored>,
    indexes: BTreeMap<(u16, u8), Index>,
}

impl Shelf {
    pub(crate) fn read(&self, read: &ReadCell, now_ms: u64) -> Option<Cell> {
        let stored = self.live(&read.key, now_ms)?;
        let fields = match &read.fields {
            Fields::All => stored.fields.clone(),
            Fields::Named(names) => {
                let found = |name: &Field| Some((name.clone(), stored.fields.get(name)?.clone()));
                names.iter().filter_map(found).collect()
            }
        };
        Some(Cell { version: stored.version, fields: fields.into_iter().collect() })
    }

    /// Applies a write, where its condition holds.
    pub(crate) fn write(&mut self, write: &WriteCell, now_ms: u64) -> (Written, Option<Undo>) {
        let found = self.live(&write.key, now_ms).map(|stored| stored.version);
        if write.action == Action::Keep && found == Some(write.version) {
            return (Written::Done, None);
        }
        let expected = match write.expect {
            Expect::Absent => None,
            Expect::Version(version) => Some(version),
        };
        let is_late = write.not_after_ms.is_some_and(|ms| now_ms > ms);
        if is_late || found != expected {
            return (Written::Mismatch(found), None);
        }
        let cell = self.cells.get(&write.key).cloned();
        match write.action {
            Action::Delete | Action::Discard => drop(self.cells.remove(&write.key)),
            Action::Keep => {
                let live = cell.clone().filter(|_| found.is_some());
                let mut fields = live.map(|stored| stored.fields).unwrap_or_default();
                for name in &write.unset {
                    fields.remove(name);
                }
                fields.extend(write.set.iter().cloned());
                let expires_at_ms = write.expire_ms.map(|ms| now_ms.saturating_add(ms));
                let stored = Stored { version: write.version, fields, expires_at_ms };
                self.cells.insert(write.key.clone(), stored);
            }
        }
        let mut rows = Vec::new();
        for change in &write.index {
            let index = self.indexes.entry((write.key.shard, change.index)).or_default();
            let before = index.put(&change.member, change.score);
            rows.push((change.index, change.member.clone(), before));
        }
        (Written::Done, Some(Undo { key: write.key.clone(), cell, rows }))
    }

    /// Takes the newest write of a shard back.
    #[cfg_attr(
        not(feature = "testing"),
        allow(dead_code, reason = "only the simulation takes writes back")
    )]
    pub(crate) fn undo(&mut self, undo: Undo) {
        let Undo { key, cell, rows } = undo;
        for (index, member, score) in rows.into_iter().rev() {
            self.indexes.entry((key.shard, index)).or_default().put(&member, score);
        }
        match cell {
            Some(cell) => drop(self.cells.insert(key, cell)),
            None => drop(self.cells.remove(&key)),
        }
    }

    pub(crate) fn scan(&self, scan: &ScanIndex) -> IndexPage {
        let Some(index) = self.indexes.get(&(scan.shard, scan.index)) else {
            return Vec::new();
        };
        let rows = index.rows.range((scan.from.clone(), Bound::Unbounded));
        let within = rows.take_while(|(score, _)| *score <= scan.until);
        within.take(scan.limit).cloned().collect()
    }

    /// Names and values, to be printed when a simulation fails.
    pub(crate) fn keys(&self, now_ms: u64) -> Vec<Key> {
        let live = |key: &&Key| self.live(key, now_ms).is_some();
        self.cells.keys().filter(live).cloned().collect()
    }

    pub(crate) fn stored_bytes(&self) -> u64 {
        let cell = |(key, stored): (&Key, &Stored)| {
            let fields = stored.fields.iter().map(|(name, value)| name.len() + value.len());
            key.name.len() + 8 + fields.sum::<usize>()
        };
        self.cells.iter().map(cell).sum::<usize>() as u64
    }

    fn live(&self, key: &Key, now_ms: u64) -> Option<&Stored> {
        let stored = self.cells.get(key)?;
        stored.expires_at_ms.is_none_or(|at_ms| now_ms < at_ms).then_some(stored)
    }
}
