//! Connecting a block: gather facts in one batched read, let `core` decide, stage the effects.

use std::time::Instant;

use utxokeep_core::{
    Block, BlockDelta, BlockEntry, BlockHash, BlockStamp, ChainWork, CoinFacts, Created, Encoded,
    Height, InvalidBlock, InvalidTx, MissingInput, OutPoint, PastTimes, Prevout, Spent, StoredKey,
    StoredValue, Totals, Tx, UtxoRecord, check_alone, check_block, in_block_prevouts,
};
use utxokeep_kv::{Kv, Table};

use crate::{
    ChainWriter, DeltaKind, Mode,
    accumulator::Change,
    coin::{Coin, NO_RECORD, RecordBytes, SpentAt},
    error::{ApplyError, IndexError},
    meta,
    pending::YoungId,
    side,
    staging::{Event, What, WriterRead},
    switch,
    tables::{BLOCKS, DELTA, HEIGHTS, UNSPENT},
    writer::Tip,
};

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is the new tip.
    Connected(Height),
    /// It was in the chain before; nothing changed.
    AlreadyKnown(Height),
}

/// Where the output that an input spends was found.
#[derive(Debug, Clone, Copy)]
enum Found {
    /// In no table: from before the index, or of an output that it does not keep.
    Nowhere,
    InBlock,
    Young(YoungId),
    /// A range of [`Gathered::bytes`].
    Old {
        start: usize,
        len: usize,
    },
}

/// Facts about everything a block spends.
struct Gathered {
    prevouts: Vec<Prevout>,
    found: Vec<Found>,
    /// Records read from the tables.
    bytes: Vec<u8>,
    /// For each output of the block, the transaction of the same block that spends it.
    spender_in_block: Vec<Option<u32>>,
}

impl<K: Kv> ChainWriter<K> {
    /// Connects `block` on top of the tip. Applying a block again is a no-op; a block that does
    /// not fit is a typed error that changes nothing.
    pub fn apply(&mut self, block: &Block) -> Result<Applied, ApplyError> {
        let place = self.place(block)?;
        if block.is_boundary {
            return Ok(self.pass_boundary(block, &place));
        }
        let height = match place {
            ChainPosition::Known(height) => return Ok(Applied::AlreadyKnown(height)),
            ChainPosition::Next(height) => height,
        };
        let started = Instant::now();
        let past = self.check_alone(block, height)?;
        let block = match self.with_rules(block) {
            Ok(block) => block,
            Err(error) => {
                self.discard_staged()?;
                return Err(error.into());
            }
        };
        let block = &*block;
        let mut effect = Effect::default();
        if self.keeps_set() {
            effect = match self.stage_set(block, height, &past) {
                Err(error @ ApplyError::Store(_)) => {
                    // Only part of the block may be staged.
                    self.discard_staged()?;
                    return Err(error);
                }
                staged => staged?,
            };
        }
        let number_ahead = match self.forget_undone(height, &block.header.hash) {
            Ok(known) => known.unwrap_or_else(|| self.next_number_ahead(height)),
            Err(error) => {
                self.discard_staged()?;
                return Err(error.into());
            }
        };
        self.stage_log(block, height, Effect { number_ahead, ..effect });
        self.staged_blocks += 1;
        if self.is_batch_full() {
            self.flush()?;
        }
        if let Some(Tip { height, entry }) = self.tip.filter(|_| self.catching_up.is_none()) {
            let what = What::Connected { created: block.outputs.len(), spent: block.inputs.len() };
            let (took, mmr_root) = (started.elapsed(), self.mmr_root());
            self.tell(Event { what, height, entry, took, mmr_root });
        }
        Ok(Applied::Connected(height))
    }

    /// Checks what a block shows without what it spends; answers the times of the blocks before it.
    fn check_alone(&mut self, block: &Block, height: Height) -> Result<PastTimes, ApplyError> {
        let network = self.index.settings.network();
        let past = self.past_times()?;
        check_alone(block, height, network, past.as_ref()).map_err(|reason| {
            let hash = network.hash(block.header.hash);
            ApplyError::Invalid { hash, height, reason }
        })?;
        Ok(past.unwrap_or_default())
    }

    /// The parent of a block in our chain: a boundary block in between is passed over.
    fn parent_of(&self, block: &Block) -> BlockHash {
        let prev = block.header.prev;
        self.boundary.filter(|(hash, _)| *hash == prev).map_or(prev, |(_, parent)| parent)
    }

    /// A boundary block changes nothing; its child must be recognised as the child of the tip.
    fn pass_boundary(&mut self, block: &Block, place: &ChainPosition) -> Applied {
        if let ChainPosition::Next(_) = place {
            self.boundary = Some((block.header.hash, self.parent_of(block)));
        }
        Applied::AlreadyKnown(self.tip.map_or(Height::GENESIS, |tip| tip.height))
    }

    /// Decides where the block belongs.
    fn place(&self, block: &Block) -> Result<ChainPosition, ApplyError> {
        let (hash, prev) = (block.header.hash, self.parent_of(block));
        let network = self.index.settings.network();
        let Some(tip) = &self.tip else { return self.place_first(block) };
        if prev == tip.entry.hash {
            return Ok(ChainPosition::Next(tip.height.plus(1)));
        }
        if let Some(height) = self.height_of(&hash)? {
            return Ok(ChainPosition::Known(height));
        }
        if prev == BlockHash::default() {
            return Err(self.wrong_genesis(hash));
        }
        match self.height_of(&prev)? {
            Some(parent) if block.is_boundary => Ok(ChainPosition::Known(parent)),
            Some(parent) => {
                let height = parent.plus(1);
                let existing = self.entry_at(height)?.map_or(tip.entry.hash, |entry| entry.hash);
                let (hash, existing) = (network.hash(hash), network.hash(existing));
                Err(ApplyError::Conflict { hash, height, existing })
            }
            None => {
                let (hash, prev) = (network.hash(hash), network.hash(prev));
                Err(ApplyError::Gap { hash, prev, tip: Some(tip.height) })
            }
        }
    }

    /// Decides whether a block may be the first one of an empty database.
    fn place_first(&self, block: &Block) -> Result<ChainPosition, ApplyError> {
        let settings = &self.index.settings;
        let (hash, prev, network) = (block.header.hash, block.header.prev, settings.network());
        if !network.is_cardano() {
            return if hash == network.genesis_hash() {
                Ok(ChainPosition::Next(Height::GENESIS))
            } else if prev == BlockHash::default() {
                Err(self.wrong_genesis(hash))
            } else {
                let (hash, prev) = (network.hash(hash), network.hash(prev));
                Err(ApplyError::Gap { hash, prev, tip: None })
            };
        }
        if settings.decoder.can_start_with(block) {
            return Ok(ChainPosition::Next(Height::GENESIS));
        }
        // What the log has begun with was asked about then.
        let may_start = settings.may_start_mid_chain || self.catching_up.is_some();
        match block.claimed_height {
            Some(height) if may_start && prev != settings.decoder.origin() => {
                Ok(ChainPosition::Next(Height::new(height)))
            }
            _ => Err(ApplyError::NotFirst { hash: network.hash(hash) }),
        }
    }

    fn wrong_genesis(&self, found: BlockHash) -> ApplyError {
        let network = self.index.settings.network();
        let (expected, found) = (network.hash(network.genesis_hash()), network.hash(found));
        ApplyError::WrongGenesis { expected, found }
    }

    /// Height of a block of the chain, staged ones included.
    pub(crate) fn height_of(&self, hash: &BlockHash) -> Result<Option<Height>, IndexError> {
        if let Some(tip) = self.tip.filter(|tip| tip.entry.hash == *hash) {
            return Ok(Some(tip.height));
        }
        match self.staged(HEIGHTS, hash) {
            Some(height) => Ok(Some(height.read()?)),
            None => crate::query::height_of(&self.read(), hash),
        }
    }

    /// Log entry of a block of the chain, staged ones included.
    pub(crate) fn entry_at(&self, height: Height) -> Result<Option<BlockEntry>, IndexError> {
        match self.staged(BLOCKS, &height) {
            Some(entry) => Ok(Some(entry.read()?)),
            None => crate::query::block_entry(&self.read(), height),
        }
    }

    /// Value of a row that waits for its batch.
    fn staged<Key: StoredKey, V: StoredValue>(
        &self,
        table: Table<Key, V>,
        key: &Key,
    ) -> Option<Encoded<'_, V>> {
        let key = key.key_bytes();
        let mut rows = self.side_rows.rows();
        let row = rows.find(|row| row.table == table.id() && row.key == key.as_ref());
        row.and_then(|row| row.value).map(Encoded::new)
    }

    fn stage_log(&mut self, block: &Block, height: Height, effect: Effect) {
        let tip = self.tip.map(|tip| tip.entry);
        let work = tip.map_or_else(ChainWork::default, |entry| entry.work);
        let missing_before = tip.map_or(0, |entry| entry.missing_inputs);
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let entry = BlockEntry {
            hash: block.header.hash,
            prev: self.parent_of(block),
            time: block.header.time,
            work: work.plus(&block.header.work),
            txs: count(block.tx_count()),
            created: count(block.outputs.len()),
            spent: count(block.inputs.len() - effect.unknown_inputs),
            totals: effect.totals,
            slot: block.header.slot,
            missing_inputs: missing_before + effect.missing_inputs,
            number_ahead: effect.number_ahead,
        };
        if self.tip.is_none() && block.header.slot.is_some() {
            self.stage_start(block, height);
        }
        BLOCKS.put(&mut self.side_rows, &height, &entry);
        HEIGHTS.put(&mut self.side_rows, &entry.hash, &height);
        if self.catching_up.is_some() {
            switch::keep_entry(&mut self.side_rows, height, &entry);
        }
        self.side_rows.append(&std::mem::take(&mut self.with_next));
        self.note_time(&entry.prev, entry.hash, entry.time);
        self.tip = Some(Tip { height, entry });
        self.boundary = None;
    }

    /// A block that joins the chain again is not kept as one that left it. Answers how far its number
    /// is ahead, which it keeps.
    fn forget_undone(
        &mut self,
        height: Height,
        hash: &BlockHash,
    ) -> Result<Option<u32>, IndexError> {
        // Below the window hardly anything was ever undone.
        if self.mode == Mode::Bulk && self.undone_number.is_none() {
            return Ok(None);
        }
        let Some(undone) = side::undone(&self.read(), height, hash)? else { return Ok(None) };
        // Files of sorted rows delete nothing; below the window the row goes by itself.
        if self.mode != Mode::Bulk {
            side::delete(&mut self.with_next, height, hash);
        }
        Ok(Some(undone.entry.number_ahead))
    }

    /// How far the number of a block that was never connected is ahead of its height.
    fn next_number_ahead(&self, height: Height) -> u32 {
        let Some(tip) = self.tip else { return 0 };
        let last = tip.entry.number(tip.height).max(self.undone_number.unwrap_or(0));
        last.saturating_add(1).saturating_sub(height.get())
    }

    /// Remembers where an index starts that lacks the blocks before; they cannot be undone.
    fn stage_start(&mut self, block: &Block, height: Height) {
        if self.starts_its_chain(block) {
            return;
        }
        meta::put_start(&mut self.side_rows, height);
        self.started_mid_chain = true;
        self.undo_base = height;
        if self.keeps_set() {
            meta::put_undo_base(&mut self.side_rows, height);
        }
    }

    /// Whether nothing comes before a block.
    fn starts_its_chain(&self, block: &Block) -> bool {
        let settings = &self.index.settings;
        !settings.network().is_cardano() || block.header.prev == settings.decoder.origin()
    }

    /// Checks the block and stages its effects on the set.
    fn stage_set(
        &mut self,
        block: &Block,
        height: Height,
        past: &PastTimes,
    ) -> Result<Effect, ApplyError> {
        let network = self.index.settings.network();
        let hash = network.hash(block.header.hash);
        let invalid = |reason| ApplyError::Invalid { hash, height, reason };
        let gathered = self.gather(block)?;
        let is_first = self.tip.is_none();
        let starts_mid_chain = is_first && !self.starts_its_chain(block);
        let missing = if starts_mid_chain { MissingInput::Count } else { self.missing_input() };
        let prevouts = &gathered.prevouts;
        let checked = match check_block(block, height, network, past, prevouts, missing) {
            Ok(checked) => checked,
            Err(reason) => return Err(invalid(self.first_reason(block, reason)?)),
        };
        let replaced = if network.can_repeat_transactions(height) {
            self.overwritten(block)?
        } else {
            Vec::new()
        };
        if let (Some(&(outpoint, _)), false) = (replaced.first(), network.may_overwrite(height)) {
            return Err(invalid(InvalidBlock::OverwritesLive { outpoint }));
        }
        let slot = block.header.slot;
        let place = slot.map(|slot| BlockStamp {
            slot: slot.slot,
            hash: block.header.hash,
            epoch: slot.epoch,
            time: block.header.time,
        });
        let mut stage = Stage {
            at: SpentAt { height, place },
            totals: self.tip.map_or_else(Totals::default, |tip| tip.entry.totals),
            delta: (self.mode != Mode::Bulk && !is_first).then(|| BlockDelta {
                height,
                slot: slot.map_or_else(|| u64::from(height.get()), |slot| slot.slot),
                hash: block.header.hash,
                prev: self.parent_of(block),
                created: Vec::with_capacity(block.outputs.len()),
                spent: Vec::with_capacity(block.inputs.len()),
                replaced: Vec::new(),
                invalid_txs: invalid_txs(block),
                mmr: None,
            }),
        };
        self.accumulators.begin(block.header.hash);
        self.stage_replaced(&mut stage, replaced)?;
        for (tx_index, tx) in (self.first_tx_index(block)..).zip(&block.txs) {
            self.stage_inputs(&mut stage, block, tx, &gathered)?;
            self.stage_outputs(&mut stage, block, tx, tx_index, &gathered)?;
        }
        let read = &WriterRead::new(self.index.kv.as_ref(), self.staging.as_ref());
        let (at, delta) = ((height, self.mode), stage.delta.as_mut());
        self.accumulators.stage(read, at, delta, &mut self.side_rows)?;
        if let Some(delta) = &stage.delta {
            DELTA.put(&mut self.side_rows, &height, delta);
        }
        // With a filter nobody can tell what is missing from what is not kept.
        let is_counted = self.index.settings.filter.is_empty();
        Ok(Effect {
            totals: stage.totals,
            missing_inputs: if is_counted { checked.missing_inputs } else { 0 },
            unknown_inputs: usize::try_from(checked.missing_inputs).unwrap_or(0),
            number_ahead: 0,
        })
    }

    /// Position of the first transaction of a block. Outputs are ordered by slot and position, and
    /// slot 0 may be that of two blocks: the one with the outputs of the genesis files, and the one
    /// after it.
    fn first_tx_index(&self, block: &Block) -> u32 {
        let is_second = block.header.slot.is_some_and(|slot| slot.slot == 0) && self.tip.is_some();
        self.genesis_outputs(is_second)
    }

    /// Outputs of the genesis files, if they come before what is asked about.
    pub(crate) fn genesis_outputs(&self, is_second: bool) -> u32 {
        let genesis = self.index.settings.decoder.genesis().filter(|_| is_second);
        genesis.map_or(0, |genesis| u32::try_from(genesis.outputs().len()).unwrap_or(u32::MAX))
    }

    /// Finds what each input spends: in the block, among the young, or in one sorted read.
    fn gather(&self, block: &Block) -> Result<Gathered, IndexError> {
        let in_block = in_block_prevouts(block);
        let mut prevouts = vec![Prevout::Missing; block.inputs.len()];
        let mut found = vec![Found::Nowhere; block.inputs.len()];
        let mut spender_in_block = vec![None; block.outputs.len()];
        let mut old: Vec<(OutPoint, usize)> = Vec::new();
        for (at, (outpoint, in_block)) in block.inputs.iter().zip(&in_block).enumerate() {
            if let Some(number) = *in_block {
                prevouts[at] = Prevout::InBlock(number);
                found[at] = Found::InBlock;
            } else if let Some(id) = self.pending.find(outpoint) {
                let record = UtxoRecord::decode(self.pending.record(id))?;
                prevouts[at] = Prevout::Live(facts(block, at, &record));
                found[at] = Found::Young(id);
            } else if !self.pending.is_gone(outpoint) {
                old.push((*outpoint, at));
            }
        }
        for (tx_index, tx) in (0u32..).zip(&block.txs) {
            let own = tx.inputs.start as usize..tx.inputs.end as usize;
            for number in in_block[own].iter().flatten() {
                spender_in_block[*number as usize] = Some(tx_index);
            }
        }
        old.sort_unstable();
        let mut bytes = Vec::with_capacity(old.len() * 64);
        let mut damage = None;
        let outpoints = old.iter().map(|(outpoint, _)| outpoint);
        UNSPENT.multi_get(&self.read(), outpoints, |number, value| {
            let (Some(value), at) = (value, old[number].1) else { return };
            match value.read() {
                Ok(record) => {
                    prevouts[at] = Prevout::Live(facts(block, at, &record));
                    found[at] = Found::Old { start: bytes.len(), len: value.bytes().len() };
                    bytes.extend_from_slice(value.bytes());
                }
                Err(error) => damage = Some(error),
            }
        })?;
        if let Some(error) = damage {
            return Err(error.into());
        }
        self.add_times(block, &mut prevouts)?;
        Ok(Gathered { prevouts, found, bytes, spender_in_block })
    }

    /// Looks up when outputs were created, where an input is locked for a time since.
    fn add_times(&self, block: &Block, prevouts: &mut [Prevout]) -> Result<(), IndexError> {
        let Some(rules) = &block.bitcoin else { return Ok(()) };
        for (number, tx) in block.txs.iter().enumerate() {
            let own = tx.inputs.start as usize..tx.inputs.end as usize;
            for (at, prevout) in own.clone().zip(&mut prevouts[own]) {
                if let Prevout::Live(coin) = prevout
                    && rules.is_locked_in_seconds(number, at)
                {
                    coin.created_after = self.median_before(coin.height)?;
                }
            }
        }
        Ok(())
    }

    /// Live outputs that the block would create again, with their records.
    fn overwritten(&self, block: &Block) -> Result<Vec<(OutPoint, Vec<u8>)>, IndexError> {
        let mut live = Vec::new();
        for tx in &block.txs {
            for output in block.outputs_of(tx) {
                let outpoint = OutPoint::new(tx.txid, output.index);
                if let Some(id) = self.pending.find(&outpoint) {
                    live.push((outpoint, self.pending.record(id).to_vec()));
                } else if !self.pending.is_gone(&outpoint)
                    && let Some(record) = UNSPENT.get(&self.read(), &outpoint)?
                {
                    live.push((outpoint, record.into_bytes()));
                }
            }
        }
        Ok(live)
    }

    /// The reason Bitcoin Core would give first: what a block shows by itself, then that it repeats
    /// a live transaction, then what its inputs say.
    fn first_reason(
        &self,
        block: &Block,
        reason: InvalidBlock,
    ) -> Result<InvalidBlock, IndexError> {
        if let InvalidBlock::WrongCoinbaseHeight { .. }
        | InvalidBlock::DuplicateInput { .. }
        | InvalidBlock::TooHeavy { .. } = reason
        {
            return Ok(reason);
        }
        let live = self.overwritten(block)?;
        let repeated = live.first();
        Ok(repeated.map_or(reason, |&(outpoint, _)| InvalidBlock::OverwritesLive { outpoint }))
    }

    fn stage_replaced(
        &mut self,
        stage: &mut Stage,
        replaced: Vec<(OutPoint, Vec<u8>)>,
    ) -> Result<(), IndexError> {
        for (outpoint, bytes) in replaced {
            let record = UtxoRecord::decode(&bytes)?;
            stage.totals.sub(record.value, record.address.len());
            self.accumulators.tell(Change::Replaced, outpoint, &record)?;
            if let Some(id) = self.pending.find(&outpoint) {
                self.pending.spend_young(id);
            } else {
                self.pending.spend_old(&self.rows().coin(outpoint, &record, NO_RECORD));
            }
            if let Some(delta) = &mut stage.delta {
                delta.replaced.push((outpoint, bytes));
            }
        }
        Ok(())
    }

    fn stage_inputs(
        &mut self,
        stage: &mut Stage,
        block: &Block,
        tx: &Tx,
        gathered: &Gathered,
    ) -> Result<(), IndexError> {
        let rows = self.rows();
        for (&outpoint, at) in block.inputs_of(tx).iter().zip(tx.inputs.start as usize..) {
            let (young, bytes) = match gathered.found[at] {
                // Written together with its creation, which comes first in the block.
                Found::Nowhere | Found::InBlock => continue,
                Found::Young(id) => (Some(id), self.pending.record(id)),
                Found::Old { start, len } => (None, &gathered.bytes[start..start + len]),
            };
            let record = UtxoRecord::decode(bytes)?;
            stage.totals.sub(record.value, record.address.len());
            self.accumulators.tell(Change::Spent, outpoint, &record)?;
            // Below the window nobody needs to know where a young output would have gone.
            let coin = (stage.delta.is_some() || young.is_none())
                .then(|| rows.coin(outpoint, &record, RecordBytes::new(bytes)));
            if let (Some(delta), Some(coin)) = (&mut stage.delta, &coin) {
                coin.put_spent(&mut self.side_rows, tx.txid, &stage.at);
                let full = self.index.settings.delta == DeltaKind::SelfContained;
                delta.spent.push(Spent {
                    outpoint,
                    record: full.then(|| bytes.to_vec()),
                    spent_by: full.then_some(tx.txid),
                });
            }
            match (young, coin.map(Coin::without_record)) {
                (Some(id), _) => self.pending.spend_young(id),
                (None, Some(rows)) => self.pending.spend_old(&rows),
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn stage_outputs(
        &mut self,
        stage: &mut Stage,
        block: &Block,
        tx: &Tx,
        tx_index: u32,
        gathered: &Gathered,
    ) -> Result<(), IndexError> {
        let full = self.index.settings.delta == DeltaKind::SelfContained;
        for (output, number) in block.outputs_of(tx).iter().zip(tx.outputs.start as usize..) {
            let outpoint = OutPoint::new(tx.txid, output.index);
            let record = UtxoRecord {
                address: block.address_of(output),
                value: output.value,
                details: block.details_of(output),
                height: stage.at.height,
                place: stage.at.place,
                tx_index,
                is_coinbase: tx.is_coinbase,
            };
            if let Some(delta) = &mut stage.delta {
                let record = full.then(|| record.encode());
                delta.created.push(Created { outpoint, record });
            }
            let Some(spender) = gathered.spender_in_block[number] else {
                stage.totals.add(record.value, record.address.len());
                self.accumulators.tell(Change::Created, outpoint, &record)?;
                self.pending.create(outpoint, &record);
                continue;
            };
            self.accumulators.tell(Change::Passed, outpoint, &record)?;
            if let Some(delta) = &mut stage.delta {
                let bytes = record.encode();
                let by = block.txs[spender as usize].txid;
                let rows = self.rows();
                let coin = rows.coin(outpoint, &record, RecordBytes::new(&bytes));
                coin.put_spent(&mut self.side_rows, by, &stage.at);
                let (record, spent_by) = (full.then_some(bytes), full.then_some(by));
                delta.spent.push(Spent { outpoint, record, spent_by });
            }
        }
        Ok(())
    }
}

/// Transactions of a block that failed their scripts.
fn invalid_txs(block: &Block) -> Vec<InvalidTx> {
    let failed = block.txs.iter().filter(|tx| tx.is_invalid);
    failed
        .map(|tx| InvalidTx { txid: tx.txid, had_collateral_return: !tx.outputs.is_empty() })
        .collect()
}

fn facts(block: &Block, input: usize, record: &UtxoRecord<'_>) -> CoinFacts {
    CoinFacts {
        value: record.value,
        height: record.height,
        is_coinbase: record.is_coinbase,
        sigop_cost: block.spending_sigop_cost(input, record.address),
        created_after: 0,
    }
}

enum ChainPosition {
    Next(Height),
    Known(Height),
}

/// What a block did, for its log entry.
#[derive(Debug, Clone, Copy, Default)]
struct Effect {
    totals: Totals,
    /// Inputs to count as missing.
    missing_inputs: u64,
    /// Inputs that changed nothing.
    unknown_inputs: usize,
    /// How far the number of the block is ahead of its height.
    number_ahead: u32,
}

/// What a block changes, while it is being staged.
struct Stage {
    at: SpentAt,
    totals: Totals,
    /// `None` below the window: nobody will undo this block.
    delta: Option<BlockDelta>,
}
