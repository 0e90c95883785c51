//! What changes in a block beside its transactions: outputs a partial index does not keep, and
//! outputs that the ledger removes where an era begins.

use std::borrow::Cow;

use utxokeep_chains::cardano::Genesis;
use utxokeep_core::{Block, Height, OutPoint, Tx, Txid, cardano::EraRemoval};
use utxokeep_kv::{Kv, Scan};

use crate::{ChainWriter, error::IndexError, tables::UNSPENT};

impl<K: Kv> ChainWriter<K> {
    /// The block as the index applies it.
    pub(crate) fn with_rules<'b>(
        &mut self,
        block: &'b Block,
    ) -> Result<Cow<'b, Block>, IndexError> {
        if !self.keeps_set() {
            return Ok(Cow::Borrowed(block));
        }
        let settings = &self.index.settings;
        let mut block = Cow::Borrowed(block);
        if !settings.filter.is_empty() {
            block = Cow::Owned(settings.filter.apply(&block, settings.network()));
        }
        let before = self.tip.and_then(|tip| tip.entry.slot).map(|slot| slot.era);
        let own = block.header.slot.map(|slot| slot.era);
        if let (Some(before), Some(own)) = (before, own)
            && let Some(removal) = EraRemoval::between(before, own)
        {
            let removed = self.removed(removal)?;
            if !removed.is_empty() {
                append_removal(block.to_mut(), &removed);
            }
        }
        Ok(block)
    }

    /// Live outputs that the ledger removes. Reads the whole set, twice in the life of a chain.
    fn removed(&mut self, removal: EraRemoval) -> Result<Vec<OutPoint>, IndexError> {
        self.flush()?;
        let genesis = self.index.settings.decoder.genesis();
        let shelley_starts = genesis.map_or(0, Genesis::slot_start_of_shelley);
        let mut removed = Vec::new();
        let mut damage = None;
        UNSPENT.scan(&self.read(), &Scan::ALL, |key, value| {
            match (key.read(), value.read()) {
                (Some(outpoint), Ok(record)) => {
                    let is_from_byron =
                        record.height == Height::GENESIS || record.slot() < shelley_starts;
                    if removal.takes(record.value, record.address, is_from_byron) {
                        removed.push(outpoint);
                    }
                }
                (_, Err(error)) => damage = Some(error),
                (None, _) => {
                    damage = Some(utxokeep_core::Corrupt::new("outpoint", "not 36 bytes long"));
                }
            }
            damage.is_none()
        })?;
        damage.map_or(Ok(removed), |error| Err(error.into()))
    }
}

/// Adds the removal as if a transaction without an id had spent the outputs.
fn append_removal(block: &mut Block, removed: &[OutPoint]) {
    let end = |len: usize| u32::try_from(len).expect("a block has fewer inputs than a u32 counts");
    let inputs = end(block.inputs.len());
    let outputs = end(block.outputs.len());
    block.inputs.extend_from_slice(removed);
    block.txs.push(Tx {
        txid: Txid::default(),
        is_coinbase: false,
        is_invalid: false,
        is_ledger_rule: true,
        output_total: 0,
        inputs: inputs..end(block.inputs.len()),
        outputs: outputs..outputs,
    });
}
