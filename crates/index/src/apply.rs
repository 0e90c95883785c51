//! Connecting a block: gather facts in one batched read, let `core` decide, stage the effects.

use std::time::Instant;

use utxokeep_core::{
    Block, BlockDelta, BlockEntry, ChainWork, CoinFacts, Created, Height, InvalidBlock, OutPoint,
    Prevout, Spent, Totals, Tx, UtxoRecord, check_block, coin_bytes_into, in_block_prevouts,
};
use utxokeep_kv::{Kv, TableId};

use crate::{
    ChainWriter, DeltaKind, Mode,
    coin::Coin,
    error::{ApplyError, StoreError},
    pending::YoungId,
    stats,
    tables::{BLOCKS, DELTA, HEIGHTS, MUHASH, UNSPENT},
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
        let height = match self.place(block)? {
            Place::Known(height) => return Ok(Applied::AlreadyKnown(height)),
            Place::Next(height) => height,
        };
        let started = Instant::now();
        let totals = if self.index.settings.enabled {
            match self.stage_set(block, height) {
                Err(error @ ApplyError::Store(_)) => {
                    // Only part of the block may be staged.
                    self.discard_staged()?;
                    return Err(error);
                }
                staged => staged?,
            }
        } else {
            Totals::default()
        };
        self.stage_log(block, height, totals);
        self.staged_blocks += 1;
        if self.is_batch_full()
            && let Err(error) = self.flush()
        {
            self.discard_staged()?;
            return Err(error.into());
        }
        stats::applied(block, started.elapsed());
        Ok(Applied::Connected(height))
    }

    /// Decides where the block belongs.
    fn place(&self, block: &Block) -> Result<Place, ApplyError> {
        let (hash, prev) = (block.header.hash, block.header.prev);
        let Some(tip) = &self.tip else {
            let network = self.index.settings.network;
            let expected = network.genesis_hash();
            return if hash == expected {
                Ok(Place::Next(Height::GENESIS))
            } else if prev == utxokeep_core::BlockHash::default() {
                Err(ApplyError::WrongGenesis { network, expected, found: hash })
            } else {
                Err(ApplyError::Gap { hash, prev, tip: None })
            };
        };
        if prev == tip.entry.hash {
            return Ok(Place::Next(tip.height.plus(1)));
        }
        if let Some(height) = self.height_of(&hash)? {
            return Ok(Place::Known(height));
        }
        if prev == utxokeep_core::BlockHash::default() {
            let network = self.index.settings.network;
            let expected = network.genesis_hash();
            return Err(ApplyError::WrongGenesis { network, expected, found: hash });
        }
        match self.height_of(&prev)? {
            Some(parent) => {
                let height = parent.plus(1);
                let existing = self.entry_at(height)?.map_or(tip.entry.hash, |entry| entry.hash);
                Err(ApplyError::Conflict { hash, height, existing })
            }
            None => Err(ApplyError::Gap { hash, prev, tip: Some(tip.height) }),
        }
    }

    /// Height of a block of the chain, staged ones included.
    pub(crate) fn height_of(
        &self,
        hash: &utxokeep_core::BlockHash,
    ) -> Result<Option<Height>, StoreError> {
        if let Some(tip) = self.tip.filter(|tip| tip.entry.hash == *hash) {
            return Ok(Some(tip.height));
        }
        match self.staged(HEIGHTS, hash.as_bytes()).and_then(Height::from_key) {
            Some(height) => Ok(Some(height)),
            None => crate::query::height_of(self.index.kv.as_ref(), hash),
        }
    }

    /// Log entry of a block of the chain, staged ones included.
    fn entry_at(&self, height: Height) -> Result<Option<BlockEntry>, StoreError> {
        match self.staged(BLOCKS, &height.to_key()) {
            Some(bytes) => Ok(Some(BlockEntry::decode(bytes)?)),
            None => crate::query::block_entry(self.index.kv.as_ref(), height),
        }
    }

    /// Value of a row that waits for its batch.
    fn staged(&self, table: TableId, key: &[u8]) -> Option<&[u8]> {
        let mut rows = self.side_rows.rows();
        rows.find(|row| row.table == table && row.key == key).and_then(|row| row.value)
    }

    fn stage_log(&mut self, block: &Block, height: Height, totals: Totals) {
        let work = self.tip.map_or_else(ChainWork::default, |tip| tip.entry.work);
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let entry = BlockEntry {
            hash: block.header.hash,
            prev: block.header.prev,
            time: block.header.time,
            work: work.plus(&block.header.work),
            txs: count(block.txs.len()),
            created: count(block.outputs.len()),
            spent: count(block.inputs.len()),
            totals,
        };
        self.side_rows.put(BLOCKS, &height.to_key(), &entry.encode());
        self.side_rows.put(HEIGHTS, entry.hash.as_bytes(), &height.to_key());
        self.side_rows.append(&std::mem::take(&mut self.with_next));
        self.tip = Some(Tip { height, entry });
    }

    /// Checks the block and stages its effects on the set; answers the totals after it.
    fn stage_set(&mut self, block: &Block, height: Height) -> Result<Totals, ApplyError> {
        let network = self.index.settings.network;
        let invalid = |reason| ApplyError::Invalid { hash: block.header.hash, height, reason };
        let gathered = self.gather(block)?;
        if let Err(reason) = check_block(block, height, network, &gathered.prevouts) {
            return Err(invalid(self.first_reason(block, reason)?));
        }
        let replaced = if network.can_repeat_transactions(height) {
            self.overwritten(block)?
        } else {
            Vec::new()
        };
        if let (Some(&(outpoint, _)), false) = (replaced.first(), network.may_overwrite(height)) {
            return Err(invalid(InvalidBlock::OverwritesLive { outpoint }));
        }
        let mut stage = Stage {
            totals: self.tip.map_or_else(Totals::default, |tip| tip.entry.totals),
            delta: (self.mode != Mode::Bulk && height > Height::GENESIS).then(|| BlockDelta {
                height,
                slot: u64::from(height.get()),
                hash: block.header.hash,
                prev: block.header.prev,
                created: Vec::with_capacity(block.outputs.len()),
                spent: Vec::with_capacity(block.inputs.len()),
                replaced: Vec::new(),
            }),
            buffer: Vec::new(),
        };
        self.stage_replaced(&mut stage, replaced)?;
        for (tx_index, tx) in (0u32..).zip(&block.txs) {
            self.stage_inputs(&mut stage, block, tx, height, &gathered)?;
            self.stage_outputs(&mut stage, block, tx, tx_index, height, &gathered);
        }
        if let Some(delta) = &stage.delta {
            self.side_rows.put(DELTA, &height.to_key(), &delta.encode());
        }
        if let Some(muhash) = self.muhash.as_ref().filter(|_| self.mode != Mode::Bulk) {
            self.side_rows.put(MUHASH, &height.to_key(), &muhash.to_bytes());
            self.stored_muhash = Some(height);
        }
        Ok(stage.totals)
    }

    /// Finds what each input spends: in the block, among the young, or in one sorted read.
    fn gather(&self, block: &Block) -> Result<Gathered, StoreError> {
        let in_block = in_block_prevouts(block);
        let mut prevouts = vec![Prevout::Missing; block.inputs.len()];
        let mut found = vec![Found::InBlock; block.inputs.len()];
        let mut spender_in_block = vec![None; block.outputs.len()];
        let mut old: Vec<([u8; OutPoint::KEY_LEN], usize)> = Vec::new();
        for (at, (outpoint, in_block)) in block.inputs.iter().zip(&in_block).enumerate() {
            if let Some(number) = *in_block {
                prevouts[at] = Prevout::InBlock(number);
            } else if let Some(id) = self.pending.find(outpoint) {
                prevouts[at] = Prevout::Live(facts(&UtxoRecord::decode(self.pending.record(id))?));
                found[at] = Found::Young(id);
            } else if !self.pending.is_gone(outpoint) {
                old.push((outpoint.to_key(), at));
            }
        }
        for (tx_index, tx) in (0u32..).zip(&block.txs) {
            let own = tx.inputs.start as usize..tx.inputs.end as usize;
            for number in in_block[own].iter().flatten() {
                spender_in_block[*number as usize] = Some(tx_index);
            }
        }
        old.sort_unstable();
        let keys: Vec<&[u8]> = old.iter().map(|(key, _)| key.as_slice()).collect();
        let mut bytes = Vec::with_capacity(old.len() * 64);
        let mut damage = None;
        self.index.kv.multi_get(UNSPENT, &keys, &mut |number, value| {
            let (Some(value), at) = (value, old[number].1) else { return };
            match UtxoRecord::decode(value) {
                Ok(record) => {
                    prevouts[at] = Prevout::Live(facts(&record));
                    found[at] = Found::Old { start: bytes.len(), len: value.len() };
                    bytes.extend_from_slice(value);
                }
                Err(error) => damage = Some(error),
            }
        })?;
        match damage {
            Some(error) => Err(error.into()),
            None => Ok(Gathered { prevouts, found, bytes, spender_in_block }),
        }
    }

    /// Live outputs that the block would create again, with their records.
    fn overwritten(&self, block: &Block) -> Result<Vec<(OutPoint, Vec<u8>)>, StoreError> {
        let mut live = Vec::new();
        for tx in &block.txs {
            for output in block.outputs_of(tx) {
                let outpoint = OutPoint::new(tx.txid, output.index);
                if let Some(id) = self.pending.find(&outpoint) {
                    live.push((outpoint, self.pending.record(id).to_vec()));
                } else if !self.pending.is_gone(&outpoint)
                    && let Some(record) = self.index.kv.get(UNSPENT, &outpoint.to_key())?
                {
                    live.push((outpoint, record));
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
    ) -> Result<InvalidBlock, StoreError> {
        if let InvalidBlock::WrongCoinbaseHeight { .. } | InvalidBlock::DuplicateInput { .. } =
            reason
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
    ) -> Result<(), StoreError> {
        for (outpoint, bytes) in replaced {
            let record = UtxoRecord::decode(&bytes)?;
            stage.totals.sub(record.value, record.address.len());
            self.count_muhash(stage, outpoint, &record, false);
            if let Some(id) = self.pending.find(&outpoint) {
                self.pending.spend_young(id);
            } else {
                let network = self.index.settings.network;
                let row = Coin::new(outpoint, network, &record, &[]).row;
                self.pending.spend_old(outpoint, row);
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
        height: Height,
        gathered: &Gathered,
    ) -> Result<(), StoreError> {
        let rows = self.rows();
        for (&outpoint, at) in block.inputs_of(tx).iter().zip(tx.inputs.start as usize..) {
            let (young, bytes) = match gathered.found[at] {
                // Written together with its creation, which comes first in the block.
                Found::InBlock => continue,
                Found::Young(id) => (Some(id), self.pending.record(id)),
                Found::Old { start, len } => (None, &gathered.bytes[start..start + len]),
            };
            let record = UtxoRecord::decode(bytes)?;
            stage.totals.sub(record.value, record.address.len());
            if let Some(muhash) = &mut self.muhash {
                stage.buffer.clear();
                coin_bytes_into(outpoint, &record, &mut stage.buffer);
                muhash.remove(&stage.buffer);
            }
            // Below the window nobody needs to know where a young output would have gone.
            let coin = (stage.delta.is_some() || young.is_none())
                .then(|| Coin::new(outpoint, self.index.settings.network, &record, bytes));
            if let (Some(delta), Some(coin)) = (&mut stage.delta, &coin) {
                rows.put_spent(&mut self.side_rows, coin, tx.txid, height);
                let full = self.index.settings.delta == DeltaKind::SelfContained;
                delta.spent.push(Spent {
                    outpoint,
                    record: full.then(|| bytes.to_vec()),
                    spent_by: full.then_some(tx.txid),
                });
            }
            let row = coin.map(|coin| coin.row);
            match (young, row) {
                (Some(id), _) => self.pending.spend_young(id),
                (None, Some(row)) => self.pending.spend_old(outpoint, row),
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
        height: Height,
        gathered: &Gathered,
    ) {
        let full = self.index.settings.delta == DeltaKind::SelfContained;
        for (output, number) in block.outputs_of(tx).iter().zip(tx.outputs.start as usize..) {
            let outpoint = OutPoint::new(tx.txid, output.index);
            let record = UtxoRecord {
                address: block.address_of(output),
                value: output.value,
                height,
                tx_index,
                is_coinbase: tx.is_coinbase,
            };
            if let Some(delta) = &mut stage.delta {
                let record = full.then(|| record.encode());
                delta.created.push(Created { outpoint, record });
            }
            let Some(spender) = gathered.spender_in_block[number] else {
                stage.totals.add(record.value, record.address.len());
                self.count_muhash(stage, outpoint, &record, true);
                self.pending.create(outpoint, &record);
                continue;
            };
            if let Some(delta) = &mut stage.delta {
                let bytes = record.encode();
                let by = block.txs[spender as usize].txid;
                let coin = Coin::new(outpoint, self.index.settings.network, &record, &bytes);
                let rows = self.rows();
                rows.put_spent(&mut self.side_rows, &coin, by, height);
                let (record, spent_by) = (full.then_some(bytes), full.then_some(by));
                delta.spent.push(Spent { outpoint, record, spent_by });
            }
        }
    }

    fn count_muhash(
        &mut self,
        stage: &mut Stage,
        outpoint: OutPoint,
        record: &UtxoRecord<'_>,
        is_new: bool,
    ) {
        if let Some(muhash) = &mut self.muhash {
            stage.buffer.clear();
            coin_bytes_into(outpoint, record, &mut stage.buffer);
            if is_new {
                muhash.insert(&stage.buffer);
            } else {
                muhash.remove(&stage.buffer);
            }
        }
    }
}

const fn facts(record: &UtxoRecord<'_>) -> CoinFacts {
    CoinFacts { value: record.value, height: record.height, is_coinbase: record.is_coinbase }
}

enum Place {
    Next(Height),
    Known(Height),
}

/// What a block changes, while it is being staged.
struct Stage {
    totals: Totals,
    /// `None` below the window: nobody will undo this block.
    delta: Option<BlockDelta>,
    buffer: Vec<u8>,
}
