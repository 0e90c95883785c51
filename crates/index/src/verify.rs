//! Recounting everything: each row against the rows it implies.
//!
//! Every check counts both sides of a relation, so that neither a missing nor a surplus row can
//! hide. Reading all rows also makes the engine check the checksum of every block on disk.

mod undo;

use rustc_hash::FxHashMap;
use utxokeep_core::{
    AddressRowKey, BlockEntry, BlockStamp, Height, Network, OutPoint, SpentAddressRow, SpentRecord,
    Totals, UtxoRecord,
};
use utxokeep_kv::{Kv, Read, Scan, TableId};

use crate::{
    ChainIndex, View,
    accumulator::Kind,
    coin::{NO_RECORD, Rows},
    error::IndexError,
    meta,
    query::{block_entry, height_of},
    tables::{ADDR, ADDR_SPENT, BLOCKS, HEIGHTS, SPENT, TABLES, UNSPENT},
};

/// Findings beyond this many are counted, not listed.
const FINDINGS_MAX: usize = 100;
/// Blocks remembered while records are compared with the log.
const PLACES_MAX: usize = 100_000;
/// Rows checked per batched read.
const ROWS_PER_READ: usize = 4_096;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which check found it.
    pub check: &'static str,
    /// What is wrong, where.
    pub detail: String,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// The first findings.
    pub findings: Vec<Finding>,
    /// How many there are in all.
    pub findings_total: u64,
    /// Blocks of the log that were checked.
    pub blocks_checked: u64,
    /// Live outputs that were checked.
    pub outputs_checked: u64,
    /// Spent outputs that were checked.
    pub spent_checked: u64,
    /// Deltas that were checked.
    pub deltas_checked: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.findings_total == 0
    }

    #[allow(clippy::needless_pass_by_value)] // texts are moved in
    pub(crate) fn add(&mut self, check: &'static str, detail: impl ToString) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { check, detail: detail.to_string() });
        }
    }

    /// What the tables hold wrongly is a finding; only a failing engine is an error.
    pub(crate) fn add_damage(
        &mut self,
        check: &'static str,
        error: IndexError,
    ) -> Result<(), IndexError> {
        match error {
            IndexError::Corrupt(damage) => self.add(check, damage),
            IndexError::MissingRow { table, key } => {
                self.add(check, format!("table {table} has no row for {key}"));
            }
            engine @ (IndexError::Kv(_) | IndexError::SecondWriter) => return Err(engine),
        }
        Ok(())
    }
}

/// Told which check runs and how many rows it has seen.
pub type OnVerify<'p> = dyn FnMut(&'static str, u64) + 'p;

impl<K: Kv> ChainIndex<K> {
    /// Recounts everything in one snapshot. Reads only.
    pub fn verify(&self, progress: &mut OnVerify<'_>) -> Result<VerifyReport, IndexError> {
        let mut report = VerifyReport::default();
        let view = match self.view() {
            Ok(view) => view,
            Err(error) => {
                report.add_damage("chain log", error)?;
                return Ok(report);
            }
        };
        let mut check = Check::new(&view, report, progress);
        check.run("chain log", Check::log)?;
        check.run("side blocks", Check::side)?;
        if view.set_standing().is_at_tip() {
            check.run("live outputs", Check::live)?;
            check.run("spent outputs", Check::spent)?;
            check.run("deltas", Check::deltas)?;
            for kind in Kind::kept(&self.settings) {
                check.run(kind.name(), |check| kind.verify(check))?;
            }
        }
        Ok(check.report)
    }
}

pub(crate) struct Check<'c, 'a, S> {
    pub(crate) view: &'c View<'a, S>,
    pub(crate) report: VerifyReport,
    pub(crate) progress: &'c mut OnVerify<'c>,
    /// Records that repeated transactions replaced in blocks walked so far, newest first.
    pub(crate) replaced: FxHashMap<OutPoint, Vec<u8>>,
    /// Blocks that were looked up lately.
    places: FxHashMap<Height, Option<BlockStamp>>,
}

pub(crate) type Keyed = (Vec<u8>, Vec<u8>);

impl<'c, 'a, S: Read> Check<'c, 'a, S> {
    pub(crate) fn new(
        view: &'c View<'a, S>,
        report: VerifyReport,
        progress: &'c mut OnVerify<'c>,
    ) -> Self {
        let (replaced, places) = (FxHashMap::default(), FxHashMap::default());
        Self { view, report, progress, replaced, places }
    }
}

impl<S: Read> Check<'_, '_, S> {
    pub(crate) const fn network(&self) -> Network {
        self.view.settings.network()
    }

    fn run(
        &mut self,
        name: &'static str,
        check: impl FnOnce(&mut Self) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        match check(self) {
            Ok(()) => Ok(()),
            Err(error) => self.report.add_damage(name, error),
        }
    }

    /// What could be read; what the tables hold wrongly is a finding.
    pub(crate) fn found<T>(
        &mut self,
        name: &'static str,
        result: Result<T, IndexError>,
    ) -> Result<Option<T>, IndexError> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) => self.report.add_damage(name, error).map(|()| None),
        }
    }

    pub(crate) fn read(&self) -> &S {
        &self.view.read
    }

    pub(crate) fn tip(&self) -> Option<Height> {
        self.view.tip().map(|(height, _)| height)
    }

    /// Heights are contiguous, parents link, hashes map back, and nothing is above the tip.
    fn log(&mut self) -> Result<(), IndexError> {
        const CHECK: &str = "chain log";
        let Some((tip, newest)) = self.view.tip() else {
            let rows = self.count(BLOCKS.id())?;
            if rows > 0 {
                self.report.add(CHECK, format!("chain_blocks has {rows} rows and no tip"));
            }
            return Ok(());
        };
        if meta::tip(self.read())?.is_none_or(|(_, hash)| hash != newest.hash) {
            self.report.add(CHECK, format!("the tip is not the block at height {tip}"));
        }
        let mut parent: Option<BlockEntry> = None;
        let first = meta::start(self.read())?.unwrap_or(Height::GENESIS);
        for raw in first.get()..=tip.get() {
            let height = Height::new(raw);
            let entry = match block_entry(self.read(), height) {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    self.report.add(CHECK, format!("no entry at height {height}"));
                    parent = None;
                    continue;
                }
                Err(error) => {
                    self.report.add_damage(CHECK, error)?;
                    parent = None;
                    continue;
                }
            };
            if parent.is_some_and(|parent| parent.hash != entry.prev) {
                self.report.add(CHECK, format!("block {height} does not link to its parent"));
            }
            if !matches!(height_of(self.read(), &entry.hash), Ok(Some(found)) if found == height) {
                self.report.add(CHECK, format!("hash of block {height} maps elsewhere"));
            }
            parent = Some(entry);
            self.report.blocks_checked += 1;
            (self.progress)(CHECK, self.report.blocks_checked);
        }
        for table in [BLOCKS.id(), HEIGHTS.id()] {
            let rows = self.count(table)?;
            if rows != u64::from(tip.get().saturating_sub(first.get())) + 1 {
                let name = TABLES[usize::from(table.0)].name;
                let detail = format!("{name} has {rows} rows for blocks {first} to {tip}");
                self.report.add(CHECK, detail);
            }
        }
        Ok(())
    }

    /// Every live output has its address row and no other, and the totals are those of the tip.
    fn live(&mut self) -> Result<(), IndexError> {
        const CHECK: &str = "live outputs";
        let rows = Rows::new(self.view.settings);
        let mut totals = Totals::default();
        let mut index_rows = 0u64;
        self.for_each_page(UNSPENT.id(), CHECK, |check, page| {
            let mut expected = Vec::new();
            for (key, value) in page {
                let (Some(outpoint), Ok(record)) =
                    (OutPoint::from_key(&key), UtxoRecord::decode(&value))
                else {
                    check.report.add(CHECK, format!("row {} is damaged", hex(&key)));
                    continue;
                };
                let named = check.network().outpoint(&outpoint);
                totals.add(record.value, record.address.len());
                check.report.outputs_checked += 1;
                if check.tip().is_none_or(|tip| record.height > tip) {
                    check.report.add(CHECK, format!("{named} was created above the tip"));
                }
                if let Some(place) = record.place
                    && check.place_at(record.height)? != Some(place)
                {
                    let detail = format!("{named} names another block than the log");
                    check.report.add(CHECK, detail);
                }
                if record.encode() != value {
                    let detail = format!("{named} has credentials that are not its address's");
                    check.report.add(CHECK, detail);
                }
                let coin = rows.coin(outpoint, &record, NO_RECORD);
                let value = coin.row().to_bytes();
                expected.extend(coin.row_keys().map(|key| (key.to_key().to_vec(), value.clone())));
            }
            index_rows += expected.len() as u64;
            check.expect_rows(ADDR.id(), CHECK, expected)
        })?;
        let found = self.count(ADDR.id())?;
        if found != index_rows {
            let detail = format!("{found} address rows where {index_rows} belong");
            self.report.add("address index", detail);
        }
        let stored = self.view.tip().map_or_else(Totals::default, |(_, entry)| entry.totals);
        if stored != totals {
            self.report.add("counters", format!("stored {stored:?}, counted {totals:?}"));
        }
        Ok(())
    }

    /// Every spent output has its address row, lies inside the undo data, and is not live too.
    fn spent(&mut self) -> Result<(), IndexError> {
        const CHECK: &str = "spent outputs";
        let base = meta::undo_base(self.read())?;
        let rows = Rows::new(self.view.settings);
        let mut index_rows = 0u64;
        self.for_each_page(SPENT.id(), CHECK, |check, page| {
            let mut expected = Vec::new();
            for (key, value) in page {
                let decoded = SpentRecord::decode(&value).and_then(|s| Ok((s, s.utxo()?)));
                let (Some(outpoint), Ok((spent, record))) = (OutPoint::from_key(&key), decoded)
                else {
                    check.report.add(CHECK, format!("row {} is damaged", hex(&key)));
                    continue;
                };
                let named = check.network().outpoint(&outpoint);
                check.report.spent_checked += 1;
                let is_inside = spent.spent_height >= base
                    && check.tip().is_some_and(|t| spent.spent_height <= t);
                if !is_inside || record.height > spent.spent_height {
                    let detail = format!("{named} spent at {} is out of range", spent.spent_height);
                    check.report.add(CHECK, detail);
                }
                if UNSPENT.has(check.read(), &outpoint)? {
                    check.report.add(CHECK, format!("{named} is live and spent"));
                }
                if record.height < spent.spent_height {
                    let coin = rows.coin(outpoint, &record, NO_RECORD);
                    let value =
                        SpentAddressRow { row: coin.row(), spent_height: spent.spent_height };
                    let value = value.to_bytes();
                    let keys = coin.row_keys();
                    expected.extend(keys.map(|key| (key.to_key().to_vec(), value.clone())));
                }
            }
            index_rows += expected.len() as u64;
            check.expect_rows(ADDR_SPENT.id(), CHECK, expected)
        })?;
        let found = self.count(ADDR_SPENT.id())?;
        if found != index_rows {
            let detail = format!("{found} spent address rows where {index_rows} belong");
            self.report.add("address index", detail);
        }
        Ok(())
    }

    /// The block at a height, as records repeat it.
    fn place_at(&mut self, height: Height) -> Result<Option<BlockStamp>, IndexError> {
        if let Some(place) = self.places.get(&height) {
            return Ok(*place);
        }
        let entry = block_entry(self.read(), height)?;
        let place = entry.and_then(|entry| entry.place());
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
        }
        self.places.insert(height, place);
        Ok(place)
    }

    pub(crate) fn count(&self, table: TableId) -> Result<u64, IndexError> {
        Ok(self.read().scan(table, &Scan::ALL, &mut |_, _| true)? as u64)
    }

    pub(crate) fn for_each_page(
        &mut self,
        table: TableId,
        name: &'static str,
        mut visit: impl FnMut(&mut Self, Vec<Keyed>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut from = Vec::new();
        let mut seen = 0;
        loop {
            let scan = Scan { from: &from, limit: ROWS_PER_READ, ..Scan::ALL };
            let mut page = Vec::with_capacity(ROWS_PER_READ);
            self.read().scan(table, &scan, &mut |key, value| {
                page.push((key.to_vec(), value.to_vec()));
                true
            })?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from.clone_from(last);
            from.push(0);
            seen += page.len() as u64;
            visit(self, page)?;
            (self.progress)(name, seen);
        }
    }

    /// Each expected row is there with that value.
    fn expect_rows(
        &mut self,
        table: TableId,
        check: &'static str,
        mut expected: Vec<Keyed>,
    ) -> Result<(), IndexError> {
        expected.sort_unstable();
        let keys: Vec<&[u8]> = expected.iter().map(|(key, _)| key.as_slice()).collect();
        let mut wrong = Vec::new();
        self.read().multi_get(table, &keys, &mut |at, value| {
            if value != Some(expected[at].1.as_slice()) {
                wrong.push(at);
            }
        })?;
        let name = TABLES[usize::from(table.0)].name;
        for at in wrong {
            let key = &expected[at].0;
            let what =
                AddressRowKey::from_key(key).map_or_else(|| hex(key), |row| format!("{row:?}"));
            self.report.add(check, format!("{name} lacks or has another row for {what}"));
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    utxokeep_core::hex_encode(bytes)
}
