//! Questions to the index, each answered from one snapshot at one place on the chain.
//!
//! A view stands at the tip. [`View::at`] moves it back to any height inside the window: what was
//! created later is left out, what was spent later is put back.

use std::collections::{BTreeMap, VecDeque};

use utxokeep_core::{
    AddressRow, AddressRowKey, AssetFilter, BlockEntry, BlockHash, BlockName, ChainPoint, Corrupt,
    Datum, Details, Height, IndexKey, IndexTag, OutPoint, OwnerKeys, Partial, SpentRecord, Txid,
    UtxoRecord, row_outpoint,
};
use utxokeep_kv::{Read, Scan};

use crate::{
    IndexSettings,
    error::{IndexError, QueryError},
    meta,
    switch::{self, SetStanding},
    tables::{ADDR, ADDR_SPENT, BLOCKS, HEIGHTS, SPENT, UNSPENT},
};

/// A snapshot of the index, at one height.
#[derive(Debug)]
pub struct View<'a, S> {
    pub(crate) read: S,
    pub(crate) settings: &'a IndexSettings,
    tip: Option<(Height, BlockEntry)>,
    /// The height asked about; `None` for the tip.
    at: Option<(Height, BlockEntry)>,
    partial: Option<Partial>,
    standing: SetStanding,
}

/// An output, live or spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utxo {
    /// Which output.
    pub outpoint: OutPoint,
    /// Address bytes; on Bitcoin the output script.
    pub address: Vec<u8>,
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Native assets, datum and script, on chains that have them.
    pub details: OutputDetails,
    /// Position of its transaction in its block.
    pub tx_index: u32,
    /// Created by a coinbase.
    pub is_coinbase: bool,
    /// The block that created it.
    pub created: ChainPoint,
    /// Time of that block, in seconds.
    pub created_time: u64,
    /// Epoch of that block, on chains that have epochs.
    pub created_epoch: Option<u32>,
    /// Who spent it, while that is known.
    pub spent: Option<SpentInfo>,
}

/// Who spent an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentInfo {
    /// The spending transaction.
    pub txid: Txid,
    /// The block that spent it.
    pub block: ChainPoint,
    /// Time of that block, in seconds.
    pub time: u64,
    /// Epoch of that block, on chains that have epochs.
    pub epoch: Option<u32>,
}

/// Which rows of an address to answer. By default the first 100, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Paging {
    /// Continue behind this position.
    pub after: Option<(u64, u32, u32)>,
    /// Pass over this many rows first.
    pub skip: usize,
    /// Maximum number of rows to answer.
    pub limit: usize,
    /// Newest first.
    pub reverse: bool,
    /// Maximum number of rows to read, those that are passed over included.
    pub scan_rows_max: u64,
}

impl Default for Paging {
    fn default() -> Self {
        Self { after: None, skip: 0, limit: 100, reverse: false, scan_rows_max: u64::MAX }
    }
}

/// Some of the outputs of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPage {
    /// The outputs, in chain order.
    pub utxos: Vec<Utxo>,
    /// Position (slot, transaction index, output index) to continue behind, when there are more.
    pub next: Option<(u64, u32, u32)>,
}

/// Policy and name of a native asset.
pub type AssetId = ([u8; 28], Vec<u8>);

/// What an address holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressBalance {
    /// Sum of the amounts.
    pub value: u128,
    /// Number of outputs.
    pub utxos: u64,
    /// Sum of each native asset, in order of policy and name.
    pub assets: BTreeMap<AssetId, u128>,
}

/// Native assets, datum and script of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputDetails {
    /// Quantities, in order of policy and name.
    pub assets: Vec<(AssetId, u64)>,
    /// Hash of the datum, when only that is on the output.
    pub datum_hash: Option<[u8; 32]>,
    /// The datum, in its original bytes.
    pub inline_datum: Option<Vec<u8>>,
    /// The script, CBOR of language and script, in its original bytes.
    pub script_ref: Option<Vec<u8>>,
    /// Hash of the script.
    pub script_hash: Option<[u8; 28]>,
    /// Gives back what a failed transaction had put up as collateral.
    pub is_collateral_return: bool,
}

impl OutputDetails {
    /// Takes the details of a record apart.
    pub fn new(details: &Details<'_>) -> Result<Self, Corrupt> {
        let parsed = details.parse()?;
        let assets = parsed.assets.iter();
        let (datum_hash, inline_datum) = match parsed.datum {
            Datum::None => (None, None),
            Datum::Hash(hash) => (Some(*hash), None),
            Datum::Inline(bytes) => (None, Some(bytes.to_vec())),
        };
        Ok(Self {
            assets: assets.map(|a| ((*a.policy, a.name.to_vec()), a.quantity)).collect(),
            datum_hash,
            inline_datum,
            script_ref: parsed.script.map(|script| script.bytes.to_vec()),
            script_hash: parsed.script.map(|script| *script.hash),
            is_collateral_return: parsed.is_collateral_return,
        })
    }
}

pub(crate) fn block_entry(
    read: &dyn Read,
    height: Height,
) -> Result<Option<BlockEntry>, IndexError> {
    let entry = BLOCKS.get(read, &height)?;
    Ok(entry.map(|entry| entry.read()).transpose()?)
}

pub(crate) fn height_of(read: &dyn Read, hash: &BlockHash) -> Result<Option<Height>, IndexError> {
    let height = HEIGHTS.get(read, hash)?;
    Ok(height.map(|height| height.read()).transpose()?)
}

impl<'a, S: Read> View<'a, S> {
    pub(crate) fn new(read: S, settings: &'a IndexSettings) -> Result<Self, IndexError> {
        let tip = match meta::tip(&read)? {
            Some((height, _)) => {
                let entry = block_entry(&read, height)?
                    .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
                Some((height, entry))
            }
            None => None,
        };
        let partial = Partial::new(&settings.filter, meta::start(&read)?);
        let standing = SetStanding::read(&read, settings, tip.map(|(height, _)| height))?;
        Ok(Self { read, settings, tip, at: None, partial, standing })
    }

    /// Moves the view to `height`, which must lie inside the window.
    pub fn at(mut self, height: Height) -> Result<Self, QueryError> {
        let (tip, _) = self.tip.ok_or(QueryError::Empty)?;
        self.check_enabled()?;
        let floor = self.floor()?.unwrap_or_default();
        if height < floor || height > tip {
            return Err(QueryError::OutsideWindow { asked: height, floor, tip });
        }
        let entry =
            self.block(height)?.ok_or_else(|| IndexError::missing("chain_blocks", height))?;
        self.at = Some((height, entry)).filter(|_| height < tip);
        Ok(self)
    }

    /// Moves the view to where a question asks: to the block of its cursor, which `at` must agree
    /// with; else to `at`; else it stays at the tip.
    pub fn standing(
        self,
        at: Option<&BlockName>,
        cursor: Option<BlockHash>,
    ) -> Result<Self, QueryError> {
        let asked = at.map(|name| self.height_named(name)).transpose()?;
        let Some(hash) = cursor else {
            return match asked {
                Some(height) => self.at(height),
                None => Ok(self),
            };
        };
        let gone = QueryError::BlockGone { hash: self.settings.network().hash(hash) };
        let height = self.height_of(&hash)?.ok_or(gone)?;
        match asked.filter(|asked| *asked != height) {
            Some(asked) => Err(QueryError::CursorElsewhere { cursor: height, asked }),
            None => self.at(height),
        }
    }

    /// Height of the block that a question names.
    fn height_named(&self, name: &BlockName) -> Result<Height, QueryError> {
        let network = self.settings.network();
        match name {
            BlockName::Height(height) => match self.start().filter(|(start, _)| height < start) {
                Some((start, partial)) => {
                    Err(QueryError::BlockNotKept { block: height.to_string(), start, partial })
                }
                None => Ok(*height),
            },
            BlockName::Hash(text) => {
                let hash = network.parse_hash(text).ok().map(BlockHash::from_bytes);
                let height = hash.map(|hash| self.height_of(&hash)).transpose()?.flatten();
                height.ok_or_else(|| self.unknown_block(text))
            }
            BlockName::Slot(_) if !network.is_cardano() => Err(QueryError::NoSlots { network }),
            BlockName::Slot(slot) => self.height_of_slot(*slot),
        }
    }

    /// Height of the first block, when those before it are missing.
    fn start(&self) -> Option<(Height, Partial)> {
        let partial = self.partial?;
        partial.started_mid_chain_at.map(|start| (start, partial))
    }

    /// No block of this hash. Where earlier blocks are missing, nobody can tell whether it is one.
    fn unknown_block(&self, hash: &str) -> QueryError {
        match self.start() {
            Some((start, partial)) => {
                QueryError::BlockNotKept { block: hash.to_owned(), start, partial }
            }
            None => QueryError::UnknownBlock { hash: hash.to_owned() },
        }
    }

    /// The block that a question names, and its height; at any depth.
    pub fn block_named(&self, name: &BlockName) -> Result<(Height, BlockEntry), QueryError> {
        let height = self.height_named(name)?;
        let entry = self.block(height)?;
        let unknown = || QueryError::UnknownBlock { hash: height.to_string() };
        Ok((height, entry.ok_or_else(unknown)?))
    }

    /// Height of the newest block of a slot or an earlier one. The newest blocks of slots above the
    /// tip's are still to come.
    fn height_of_slot(&self, asked: u64) -> Result<Height, QueryError> {
        let (tip, entry) = self.tip.ok_or(QueryError::Empty)?;
        self.check_enabled()?;
        let floor = self.floor()?.unwrap_or_default();
        let slot_at = |height: Height| -> Result<u64, QueryError> {
            let entry = self.block(height)?;
            let entry = entry.ok_or_else(|| IndexError::missing("chain_blocks", height))?;
            Ok(entry.point(height).slot)
        };
        let (floor_slot, tip_slot) = (slot_at(floor)?, entry.point(tip).slot);
        if asked < floor_slot || asked > tip_slot {
            return Err(QueryError::SlotOutsideWindow { asked, floor, floor_slot, tip, tip_slot });
        }
        // Slots grow with heights: the last block at or below the slot is found by halving.
        let (mut low, mut high) = (floor, tip);
        while low < high {
            let middle = Height::new(low.get() + (high.get() - low.get()).div_ceil(2));
            if slot_at(middle)? <= asked {
                low = middle;
            } else {
                high = middle.minus(1);
            }
        }
        Ok(low)
    }

    /// In what way the index is partial; `None` when it keeps everything.
    pub const fn partial(&self) -> Option<Partial> {
        self.partial
    }

    /// The newest block of the snapshot.
    pub const fn tip(&self) -> Option<(Height, BlockEntry)> {
        self.tip
    }

    /// The block the view stands at, and its height.
    pub fn here(&self) -> Result<(Height, BlockEntry), QueryError> {
        self.at.or(self.tip).ok_or(QueryError::Empty)
    }

    /// The place on the chain every answer of this view is true of.
    pub fn point(&self) -> Result<ChainPoint, QueryError> {
        self.here().map(|(height, entry)| entry.point(height))
    }

    /// The deepest height that a rollback may reach: the log alone can be undone down to its first
    /// block, or to where tables that are off can still follow.
    pub fn rollback_floor(&self) -> Result<Option<Height>, IndexError> {
        if self.standing.is_at_tip() || self.tip.is_none() {
            return self.floor();
        }
        switch::deepest(&self.read, self.standing.has_tables()).map(Some)
    }

    /// The deepest height that can still become the tip.
    pub fn floor(&self) -> Result<Option<Height>, IndexError> {
        let Some((tip, _)) = self.tip else { return Ok(None) };
        let base = switch::deepest(&self.read, self.standing.has_tables())?;
        Ok(Some(self.settings.window.floor(tip, base)))
    }

    /// Log entry of a block of the chain.
    pub fn block(&self, height: Height) -> Result<Option<BlockEntry>, IndexError> {
        block_entry(&self.read, height)
    }

    /// Height of a block of the chain.
    pub fn height_of(&self, hash: &BlockHash) -> Result<Option<Height>, IndexError> {
        height_of(&self.read, hash)
    }

    pub(crate) fn check_enabled(&self) -> Result<(), QueryError> {
        self.standing.check()
    }

    /// Where the tables of the index stand.
    pub const fn set_standing(&self) -> SetStanding {
        self.standing
    }

    /// The height above which things are not yet, or again, for this view.
    pub(crate) fn horizon(&self) -> Option<Height> {
        self.at.map(|(height, _)| height)
    }

    /// One output. At an earlier height, an output spent later is live and one created later does
    /// not exist. Where a partial index has no record of it, nobody can tell: that is an error.
    pub fn utxo(&self, outpoint: OutPoint) -> Result<Option<Utxo>, QueryError> {
        self.check_enabled()?;
        match (self.find(outpoint)?, self.partial) {
            (None, Some(partial)) => Err(QueryError::OutputNotKept { partial }),
            (found, _) => Ok(found),
        }
    }

    fn find(&self, outpoint: OutPoint) -> Result<Option<Utxo>, QueryError> {
        let exists = |height: Height| self.horizon().is_none_or(|at| height <= at);
        if let Some(record) = UNSPENT.get(&self.read, &outpoint)? {
            let record = record.read()?;
            return if exists(record.height) {
                self.describe(outpoint, &record, None).map(Some)
            } else {
                Ok(None)
            };
        }
        let Some(spent) = SPENT.get(&self.read, &outpoint)? else { return Ok(None) };
        let spent = spent.read()?;
        let record = spent.utxo()?;
        if !exists(record.height) {
            return Ok(None);
        }
        let info = exists(spent.spent_height).then_some(spent);
        self.describe(outpoint, &record, info).map(Some)
    }

    fn describe(
        &self,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
        spent: Option<SpentRecord<'_>>,
    ) -> Result<Utxo, QueryError> {
        let block = |height: Height| -> Result<BlockEntry, IndexError> {
            self.block(height)?.ok_or_else(|| IndexError::missing("chain_blocks", height))
        };
        let created = block(record.height)?;
        let spent = spent
            .map(|spent| -> Result<_, IndexError> {
                let entry = block(spent.spent_height)?;
                let block = entry.point(spent.spent_height);
                let epoch = entry.slot.map(|slot| slot.epoch);
                Ok(SpentInfo { txid: spent.spent_by, block, time: entry.time, epoch })
            })
            .transpose()?;
        Ok(Utxo {
            outpoint,
            address: record.address.to_vec(),
            value: record.value,
            details: OutputDetails::new(&record.details)?,
            tx_index: record.tx_index,
            is_coinbase: record.is_coinbase,
            created: created.point(record.height),
            created_time: created.time,
            created_epoch: created.slot.map(|slot| slot.epoch),
            spent,
        })
    }

    /// Some of the outputs of an owner, in chain order. With `assets`, only those that hold such an
    /// asset: rows are filtered while they are scanned, so a page is full while there are more. A
    /// search that has looked at the most rows allowed answers what it found, and where to go on.
    pub fn owner_utxos(
        &self,
        owner: impl Into<OwnerKeys>,
        paging: Paging,
        assets: Option<&AssetFilter>,
    ) -> Result<AddressPage, QueryError> {
        let owner = self.check_owner(owner)?;
        let mut rows = Vec::with_capacity(paging.limit.min(1_000) + 1);
        let (mut skip, mut seen) = (paging.skip, 0u64);
        let (mut is_cut, mut last_seen) = (false, None);
        let mut failure = None;
        self.visit_owner(&owner, paging.after, paging.reverse, &mut |key, row| {
            if seen >= paging.scan_rows_max {
                is_cut = true;
                return false;
            }
            seen += 1;
            last_seen = Some(position(&key));
            match self.matches(&key, &row, assets) {
                Ok(true) if skip > 0 => {
                    skip -= 1;
                    true
                }
                Ok(true) => {
                    rows.push((key, row));
                    rows.len() <= paging.limit
                }
                Ok(false) => true,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let more = rows.len() > paging.limit;
        rows.truncate(paging.limit);
        let next = rows.last().filter(|_| more).map(|(key, _)| position(key));
        let next = next.or(last_seen.filter(|_| is_cut));
        Ok(AddressPage { utxos: self.records(&rows)?, next })
    }

    /// Whether the output of a row holds an asset that was asked for. Rows without assets cost no
    /// read.
    fn matches(
        &self,
        key: &AddressRowKey,
        row: &AddressRow,
        assets: Option<&AssetFilter>,
    ) -> Result<bool, QueryError> {
        let Some(filter) = assets else { return Ok(true) };
        if !row.has_assets {
            return Ok(false);
        }
        self.with_record(row_outpoint(key, row), |record| {
            let details = record.details.parse()?;
            Ok(details.assets.iter().any(|asset| filter.matches(asset)))
        })
    }

    /// Sums of the outputs of an owner: one scan of at most `rows_max` rows, in which a record is
    /// read only for its assets.
    pub fn owner_balance(
        &self,
        owner: impl Into<OwnerKeys>,
        rows_max: u64,
    ) -> Result<AddressBalance, QueryError> {
        let owner = self.check_owner(owner)?;
        let mut balance = AddressBalance::default();
        let mut failure = None;
        self.visit_owner(&owner, None, false, &mut |key, row| {
            balance.value += u128::from(row.value);
            balance.utxos += 1;
            if row.has_assets {
                let added = self.with_record(row_outpoint(&key, &row), |record| {
                    for asset in record.details.parse()?.assets {
                        let id = (*asset.policy, asset.name.to_vec());
                        *balance.assets.entry(id).or_default() += u128::from(asset.quantity);
                    }
                    Ok(())
                });
                failure = added.err();
            }
            failure.is_none() && balance.utxos <= rows_max
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        if balance.utxos > rows_max {
            return Err(QueryError::TooManyRows { max: rows_max });
        }
        Ok(balance)
    }

    /// Looks at the record of an output that is live, or spent inside the window.
    fn with_record<T>(
        &self,
        outpoint: OutPoint,
        look: impl FnOnce(&UtxoRecord<'_>) -> Result<T, Corrupt>,
    ) -> Result<T, QueryError> {
        if let Some(record) = UNSPENT.get(&self.read, &outpoint)? {
            return Ok(look(&record.read()?)?);
        }
        let spent = SPENT.get(&self.read, &outpoint)?;
        let spent = spent.ok_or_else(|| IndexError::missing("utxo_unspent", outpoint))?;
        Ok(look(&spent.read()?.utxo()?)?)
    }

    /// Whether the index keeps every output of an owner, and can find them.
    pub fn check_owner(&self, owner: impl Into<OwnerKeys>) -> Result<IndexKey, QueryError> {
        self.check_enabled()?;
        let (owner, settings) = (owner.into(), self.settings);
        let (is_kept, name) = match owner.key.tag {
            IndexTag::Address => (settings.address_index, "address_hash"),
            IndexTag::PaymentKey | IndexTag::PaymentScript => {
                (settings.payment_index, "payment_credential")
            }
            IndexTag::StakeKey | IndexTag::StakeScript => {
                (settings.stake_index, "stake_credential")
            }
        };
        match self.partial {
            _ if !is_kept => Err(QueryError::IndexOff { name }),
            Some(partial) if !settings.filter.keeps_all_of(&owner) => {
                Err(QueryError::OwnerNotKept { partial })
            }
            _ => Ok(owner.key),
        }
    }

    /// Reads the records behind address rows in one sorted pass.
    fn records(&self, rows: &[(AddressRowKey, AddressRow)]) -> Result<Vec<Utxo>, QueryError> {
        let mut wanted: Vec<_> =
            rows.iter().enumerate().map(|(at, (key, row))| (row_outpoint(key, row), at)).collect();
        wanted.sort_unstable();
        let outpoints = wanted.iter().map(|(outpoint, _)| outpoint);
        let mut values: Vec<Option<Vec<u8>>> = vec![None; rows.len()];
        UNSPENT.multi_get(&self.read, outpoints, |number, value| {
            values[wanted[number].1] = value.map(|value| value.bytes().to_vec());
        })?;
        rows.iter()
            .zip(values)
            .map(|((key, row), value)| {
                let outpoint = row_outpoint(key, row);
                match value {
                    Some(bytes) => self.describe(outpoint, &UtxoRecord::decode(&bytes)?, None),
                    // Spent after the height asked about.
                    None => self
                        .find(outpoint)?
                        .ok_or_else(|| IndexError::missing("utxo_unspent", outpoint).into()),
                }
            })
            .collect()
    }

    /// Visits the rows of an owner that are live at the height of the view, in key order.
    fn visit_owner(
        &self,
        owner: &IndexKey,
        after: Option<(u64, u32, u32)>,
        reverse: bool,
        visit: &mut dyn FnMut(AddressRowKey, AddressRow) -> bool,
    ) -> Result<(), QueryError> {
        let prefix = AddressRowKey::prefix(owner);
        let row_key = |(slot, tx_index, output_index)| {
            AddressRowKey { owner: *owner, slot, tx_index, output_index }.to_key().to_vec()
        };
        let last_slot = self.at.map_or(u64::MAX, |(height, entry)| entry.point(height).slot);
        let mut from = prefix.to_vec();
        let mut until = row_key((last_slot, self.last_tx_index(), u32::MAX));
        until.push(0);
        if let Some(after) = after {
            let mut bound = row_key(after);
            if reverse {
                until = until.min(bound);
            } else {
                bound.push(0);
                from = bound;
            }
        }
        let scan =
            Scan { from: &from, until: Some(&until), reverse, within_prefix: true, ..Scan::ALL };
        if self.horizon().is_none() {
            return self.visit_live(&scan, visit);
        }
        self.visit_live_then(&scan, visit)
    }

    /// Position of the last transaction of the block the view stands at. It matters where two
    /// blocks share a slot: a boundary block that starts a chain, and the block after it.
    fn last_tx_index(&self) -> u32 {
        let is_first_boundary = self.at.is_some_and(|(height, entry)| {
            let era = entry.slot.map(|slot| slot.era);
            height == Height::GENESIS && era == Some(utxokeep_core::cardano::era::BYRON_BOUNDARY)
        });
        let genesis = self.settings.decoder.genesis().filter(|_| is_first_boundary);
        genesis.map_or(u32::MAX, |genesis| {
            u32::try_from(genesis.outputs().len().saturating_sub(1)).unwrap_or(u32::MAX)
        })
    }

    fn visit_live(
        &self,
        scan: &Scan<'_>,
        visit: &mut dyn FnMut(AddressRowKey, AddressRow) -> bool,
    ) -> Result<(), QueryError> {
        let mut damage = None;
        ADDR.scan(&self.read, scan, |key, value| {
            let row = key.read().zip(value.read().ok());
            let Some((key, row)) = row else {
                damage = Some(Corrupt::new("address row", "malformed key or value"));
                return false;
            };
            visit(key, row)
        })?;
        damage.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The same at an earlier height: rows that were spent since are merged back in, a few at a
    /// time, so that a page of an address with a long history stays cheap.
    fn visit_live_then(
        &self,
        scan: &Scan<'_>,
        visit: &mut dyn FnMut(AddressRowKey, AddressRow) -> bool,
    ) -> Result<(), QueryError> {
        let mut back = SpentSince::new(scan, self.horizon().unwrap_or_default());
        let mut failure = None;
        let mut go_on = true;
        self.visit_live(scan, &mut |key, row| {
            while go_on {
                match back.next_before(&self.read, Some(&key)) {
                    Ok(Some((key, row))) => go_on = visit(key, row),
                    Ok(None) => break,
                    Err(error) => {
                        failure = Some(error);
                        go_on = false;
                    }
                }
            }
            go_on = go_on && visit(key, row);
            go_on
        })?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        while go_on && let Some((key, row)) = back.next_before(&self.read, None)? {
            go_on = visit(key, row);
        }
        Ok(())
    }
}

/// Rows read at a time while merging.
const MERGE_ROWS: usize = 256;

/// Address rows that were live at a height and are spent at the tip, in scan order.
struct SpentSince {
    at: Height,
    from: Vec<u8>,
    until: Vec<u8>,
    reverse: bool,
    is_read: bool,
    rows: VecDeque<(AddressRowKey, AddressRow)>,
}

impl SpentSince {
    fn new(scan: &Scan<'_>, at: Height) -> Self {
        Self {
            at,
            from: scan.from.to_vec(),
            until: scan.until.unwrap_or_default().to_vec(),
            reverse: scan.reverse,
            is_read: false,
            rows: VecDeque::new(),
        }
    }

    /// The next row that comes before `limit` in scan order; any next row without a limit.
    fn next_before(
        &mut self,
        read: &dyn Read,
        limit: Option<&AddressRowKey>,
    ) -> Result<Option<(AddressRowKey, AddressRow)>, IndexError> {
        while self.rows.is_empty() && !self.is_read {
            self.read_more(read)?;
        }
        let comes_first = |row: &AddressRowKey| limit.is_none_or(|key| (row < key) != self.reverse);
        Ok(self
            .rows
            .front()
            .is_some_and(|(row, _)| comes_first(row))
            .then(|| self.rows.pop_front())
            .flatten())
    }

    fn read_more(&mut self, read: &dyn Read) -> Result<(), IndexError> {
        let mut last = Vec::new();
        let mut damage = None;
        let scan = Scan {
            from: &self.from,
            until: Some(&self.until),
            reverse: self.reverse,
            limit: MERGE_ROWS,
            within_prefix: true,
        };
        let visited = ADDR_SPENT.scan(read, &scan, |key, value| {
            match key.read().zip(value.read().ok()) {
                Some((row, spent)) if spent.spent_height > self.at => {
                    self.rows.push_back((row, spent.row));
                }
                Some(_) => {}
                None => damage = Some(Corrupt::new("spent address row", "malformed")),
            }
            last.clear();
            last.extend_from_slice(key.bytes());
            damage.is_none()
        })?;
        if let Some(error) = damage {
            return Err(error.into());
        }
        self.is_read = visited < MERGE_ROWS;
        if self.reverse {
            self.until = last;
        } else {
            last.push(0);
            self.from = last;
        }
        Ok(())
    }
}

fn position(key: &AddressRowKey) -> (u64, u32, u32) {
    (key.slot, key.tx_index, key.output_index)
}
