//! What the cells hold, as the rules ask for it.

use std::{collections::BTreeSet, ops::Bound};

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        HeightIndex, NodeReads, NodeTx, OutputPage, OutputRecord, TxRecord, decode_body,
        decode_output, decode_record, decode_spends,
    },
};
use utxokeep_records::{Fields, Key, ScanIndex};

use super::{
    layout::{
        BODY, CREATING, NAMES, PAGES, RECORD, VALUE, height_index, height_row, marker_field,
        marker_of, name_score, output_field, output_of, page_member, page_of,
    },
    patch::opened,
    view::{CellView, Known},
};
use crate::error::StoreError;

/// Outputs that are read along with their record: most transactions have no more, and whoever reads
/// a record mostly asks for its outputs next.
const OUTPUTS_AHEAD: u32 = 4;

/// From so many outputs of a cell on, all its fields are read.
const OUTPUTS_NAMED_MAX: u32 = 64;

/// Transactions whose outputs are walked over at a time.
const WALKED: usize = 100;

/// What a value of the store is called when it is damaged.
const STORE_VALUE: &str = "value of the store";

fn named<const N: usize>(names: [&[u8]; N]) -> Fields {
    Fields::Named(names.into_iter().map(<[u8]>::to_vec).collect())
}

/// The record in a master.
pub(super) fn record_in(known: &Known) -> Result<Option<TxRecord>, Corrupt> {
    let Some(bytes) = known.get(RECORD) else { return Ok(None) };
    decode_record(opened("transaction record", bytes)?).map(Some)
}

/// What a call sees of a transaction that another one is creating.
fn being_created() -> TxRecord {
    TxRecord {
        is_coinbase: false,
        is_conflicting: false,
        is_locked: false,
        spendable_at: None,
        outputs: 0,
        utxos: 0,
        spent: 0,
        spent_at: None,
        blocks: Vec::new(),
        unmined_since: None,
        created_at_ms: 0,
        delete_at: None,
        preserve_until: None,
        kept_for_child_until: None,
        conflicting_children: Vec::new(),
        reassignments: Vec::new(),
        deleted_children: 0,
        blob: None,
        file_checksum: None,
        is_creating: true,
    }
}

impl CellView<'_> {
    fn masters(&self, txids: &[Txid], field: &[u8]) -> Result<Vec<Key>, StoreError> {
        let keys: Vec<Key> = txids.iter().map(|txid| self.cells.layout.master(txid)).collect();
        self.load(keys.iter().map(|key| (key.clone(), named([field]))))?;
        Ok(keys)
    }

    /// Every cell that has outputs of transactions with so many outputs, page by page.
    fn output_cells(&self, txid: &Txid, count: u32) -> Vec<(Key, Fields)> {
        let layout = &self.cells.layout;
        let per_record = layout.outputs_per_record;
        let cell = |page: u32| {
            let first = page * per_record;
            let until = first.saturating_add(per_record).min(count);
            let fields = if page > 0 || until - first > OUTPUTS_NAMED_MAX {
                Fields::All
            } else {
                Fields::Named((first..until).map(output_field).collect())
            };
            let key = if page == 0 { layout.master(txid) } else { layout.page(txid, page) };
            (key, fields)
        };
        if count == 0 { Vec::new() } else { (0..=layout.pages(count)).map(cell).collect() }
    }

    /// The outputs in a cell, in order.
    fn outputs_in(&self, key: &Key) -> Vec<(u32, Result<OutputRecord, Corrupt>)> {
        self.with(key, |known| {
            let outputs =
                known.fields().filter_map(|(name, value)| Some((output_of(name)?, value)));
            outputs.map(|(vout, value)| (vout, decode_output(value))).collect()
        })
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.cells.layout.value(name);
        self.load([(key.clone(), named([VALUE]))])?;
        self.value_in(&key)
    }

    fn value_in(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(key, |known| {
            let value = known.get(VALUE).map(|value| opened(STORE_VALUE, value)).transpose()?;
            Ok(value.map(<[u8]>::to_vec))
        })
    }

    /// Transactions that have a master or a page, in order, behind `after`; and whether these are
    /// all there are.
    fn with_cells_after(&self, after: Option<&Txid>) -> Result<(Vec<Txid>, bool), StoreError> {
        let mut found = self.cells.walk(after, WALKED)?;
        let last = if found.len() < WALKED { None } else { found.last().copied() };
        // Pages whose master was never written, or is gone.
        let from = after
            .map_or(Bound::Unbounded, |txid| Bound::Excluded((0, page_member(txid, u32::MAX))));
        let pages = self.cells.merged(PAGES, &from, 0, WALKED)?;
        let is_all_pages = pages.len() < WALKED;
        let mut with_pages = BTreeSet::new();
        for (_, member) in pages {
            with_pages.insert(page_of(&member)?.0);
        }
        let last_page = with_pages.last().copied().filter(|_| !is_all_pages);
        // Up to where both lists say everything.
        let until = match (last, last_page) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        found.extend(with_pages);
        found.sort_unstable();
        found.dedup();
        if let Some(until) = until {
            found.retain(|txid| *txid <= until);
        }
        Ok((found, until.is_none()))
    }

    /// Every output of a transaction that is stored, its record there or not.
    fn stored_outputs(&self, txid: &Txid) -> Result<OutputPage, StoreError> {
        let master = self.cells.layout.master(txid);
        self.load([(master.clone(), Fields::All)])?;
        // Of a record that cannot be read the pages are found by their rows.
        let record = self.with(&master, |known| record_in(known).ok().flatten());
        let is_there = self.with(&master, |known| known.version.is_some());
        let pages: Vec<u32> = match record {
            Some(record) => (1..=self.cells.layout.pages(record.outputs)).collect(),
            None => self.pages_of(txid)?,
        };
        let keys = pages.into_iter().map(|page| self.cells.layout.page(txid, page));
        let keys: Vec<Key> = std::iter::once(master).chain(keys).collect();
        self.load(keys.iter().map(|key| (key.clone(), Fields::All)))?;
        // Pages of a creation that was not completed wait for whoever creates the transaction.
        let is_waiting =
            |key: &&Key| !is_there && self.with(key, |known| known.get(CREATING).is_some());
        let keys = keys.iter().filter(|key| !is_waiting(key));
        let outputs = keys.flat_map(|key| self.outputs_in(key));
        Ok(outputs.map(|(vout, slot)| (OutPoint::new(*txid, vout), slot)).collect())
    }

    fn pages_of(&self, txid: &Txid) -> Result<Vec<u32>, StoreError> {
        let mut found = Vec::new();
        let mut from = Bound::Included((0, page_member(txid, 0)));
        loop {
            let page = self.cells.merged(PAGES, &from, 0, WALKED)?;
            let is_last = page.len() < WALKED;
            from = page.last().cloned().map_or(Bound::Unbounded, Bound::Excluded);
            for (_, member) in page {
                let (of, number) = page_of(&member)?;
                if of != *txid {
                    return Ok(found);
                }
                found.push(number);
            }
            if is_last {
                return Ok(found);
            }
        }
    }
}

impl NodeReads for CellView<'_> {
    type Error = StoreError;

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        let keys: Vec<Key> = txids.iter().map(|txid| self.cells.layout.master(txid)).collect();
        let ahead = self.cells.layout.outputs_per_record.min(OUTPUTS_AHEAD);
        let fields = || {
            let outputs = (0..ahead).map(output_field);
            Fields::Named(outputs.chain([RECORD.to_vec()]).collect())
        };
        self.load(keys.iter().map(|key| (key.clone(), fields())))?;
        let record = |(key, txid): (&Key, &Txid)| {
            let found = self.with(key, record_in)?;
            Ok(found.or_else(|| self.locked_out.contains(txid).then(being_created)))
        };
        keys.iter().zip(txids).map(record).collect()
    }

    fn outputs_at(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<OutputRecord>>, StoreError> {
        let cell = |outpoint: &OutPoint| self.cells.layout.output(outpoint);
        let keys: Vec<Key> = outpoints.iter().map(cell).collect();
        let field = |outpoint: &OutPoint| Fields::Named(vec![output_field(outpoint.index())]);
        self.load(keys.iter().cloned().zip(outpoints.iter().map(field)))?;
        let slot = |(key, outpoint): (&Key, &OutPoint)| {
            let name = output_field(outpoint.index());
            Ok(self.with(key, |known| known.get(&name).map(decode_output).transpose())?)
        };
        keys.iter().zip(outpoints).map(slot).collect()
    }

    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, OutputRecord)>>, StoreError> {
        let cells: Vec<_> =
            of.iter().map(|(txid, count)| self.output_cells(txid, *count)).collect();
        self.load(cells.iter().flatten().cloned())?;
        let mut all = Vec::with_capacity(of.len());
        for ((_, count), cells) in of.iter().zip(cells) {
            let mut outputs = Vec::new();
            for (key, _) in cells {
                for (vout, slot) in self.outputs_in(&key).into_iter().filter(|(at, _)| at < count) {
                    outputs.push((vout, slot?));
                }
            }
            all.push(outputs);
        }
        Ok(all)
    }

    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, StoreError> {
        let keys = self.masters(txids, BODY)?;
        let body = |(key, txid): (&Key, &Txid)| {
            let decode = |bytes: &[u8]| decode_body(*txid, bytes);
            Ok(self.with(key, |known| known.get(BODY).map(decode).transpose())?)
        };
        keys.iter().zip(txids).map(body).collect()
    }

    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, StoreError> {
        let keys = self.masters(txids, BODY)?;
        let spends = |key: &Key| -> Result<Option<Vec<OutPoint>>, StoreError> {
            Ok(self.with(key, |known| known.get(BODY).map(decode_spends).transpose())?)
        };
        keys.iter().map(spends).collect()
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        let field = marker_field(child);
        let keys = self.masters(&[*parent], &field)?;
        Ok(self.with(&keys[0], |known| known.get(&field).is_some()))
    }

    fn deleted_children(&self, parent: &Txid) -> Result<Vec<Txid>, StoreError> {
        let key = self.cells.layout.master(parent);
        self.load([(key.clone(), Fields::All)])?;
        Ok(self
            .with(&key, |known| known.fields().filter_map(|(name, _)| marker_of(name)).collect()))
    }

    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let from = after.map_or(Bound::Unbounded, |(height, txid)| {
            Bound::Excluded((u64::from(height.get()), txid.as_bytes().to_vec()))
        });
        let until = u64::from(until.get());
        let rows = self.cells.merged(height_index(index), &from, until, limit)?;
        rows.into_iter().map(|(score, member)| Ok(height_row(score, &member)?)).collect()
    }

    fn is_indexed(
        &self,
        index: HeightIndex,
        height: Height,
        txid: &Txid,
    ) -> Result<bool, StoreError> {
        let row = (u64::from(height.get()), txid.as_bytes().to_vec());
        let scan = ScanIndex {
            shard: self.cells.layout.shard_of(txid),
            index: height_index(index),
            from: Bound::Included(row.clone()),
            until: row.0,
            limit: 1,
        };
        let pages = self.cells.port.scan(&[scan])?;
        Ok(pages.into_iter().flatten().next() == Some(row))
    }

    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, StoreError> {
        self.cells.walk(after, limit)
    }

    fn outputs_after(
        &self,
        after: Option<&OutPoint>,
        limit: usize,
    ) -> Result<OutputPage, StoreError> {
        let mut found: OutputPage = Vec::new();
        let mut last = None;
        if let Some(after) = after {
            let rest = self.stored_outputs(after.txid())?;
            found.extend(rest.into_iter().filter(|(outpoint, _)| outpoint > after));
            last = Some(*after.txid());
        }
        loop {
            let (txids, is_all) = self.with_cells_after(last.as_ref())?;
            for txid in &txids {
                if found.len() >= limit {
                    found.truncate(limit);
                    return Ok(found);
                }
                found.extend(self.stored_outputs(txid)?);
            }
            if is_all || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
            last = txids.last().copied().or(last);
        }
    }

    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.value(name)
    }

    fn state_kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.value(name)
    }

    fn compares_numbers(&self, numbers: &[(&'static str, u32)]) -> bool {
        self.compare_with(numbers);
        true
    }

    fn lists_changes(&self) -> Result<Option<bool>, StoreError> {
        self.confirm_numbers()
    }

    fn states(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut found = Vec::new();
        let after = after.unwrap_or(prefix).as_bytes();
        let mut from = Bound::Excluded((name_score(after, 0), after.to_vec()));
        // Names are ASCII.
        let until = name_score(prefix.as_bytes(), 0x7f);
        while found.len() < limit {
            let rows = limit - found.len();
            let page = self.cells.merged(NAMES, &from, until, rows)?;
            let is_last = page.len() < rows;
            from = page.last().cloned().map_or(Bound::Unbounded, Bound::Excluded);
            let name = |(_, member): (u64, Vec<u8>)| String::from_utf8_lossy(&member).into_owned();
            let names: Vec<String> = page.into_iter().map(name).collect();
            let is_behind = names.last().is_some_and(|name| !name.starts_with(prefix));
            let ours = names.into_iter().filter(|name| name.starts_with(prefix));
            let ours: Vec<(String, Key)> =
                ours.map(|name| (name.clone(), self.cells.layout.value(&name))).collect();
            self.load(ours.iter().map(|(_, key)| (key.clone(), named([VALUE]))))?;
            for (name, key) in ours {
                found.extend(self.value_in(&key)?.map(|value| (name, value)));
            }
            if is_last || is_behind {
                break;
            }
        }
        Ok(found)
    }
}
