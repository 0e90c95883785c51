//! Creating and deleting transactions.

use super::{
    error::{NodeError, SpendError},
    output::{OutputRecord, OutputState, SpendingData},
    reads::NodeReads,
    record::{MinedBlock, TxRecord},
    tx::NodeTx,
    workspace::{Outcome, Workspace},
};
use crate::types::{Height, OutPoint, Txid};

/// How a transaction is created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct CreateOptions {
    /// Blocks of the longest chain that contain it; none for an unmined one.
    pub mined: Vec<MinedBlock>,
    /// It lost against another transaction.
    pub is_conflicting: bool,
    /// Its outputs may not be spent until it is unlocked.
    pub is_locked: bool,
    /// Its outputs are frozen from the start.
    pub is_frozen: bool,
    /// Inputs need not say what they spend.
    pub may_lack_previous: bool,
    /// Now, in milliseconds.
    pub created_at_ms: u64,
}

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Creates a transaction at `height`. One that exists is refused, whatever became of it.
    pub fn create(
        &mut self,
        tx: &NodeTx,
        height: Height,
        options: &CreateOptions,
    ) -> Outcome<(), S::Error> {
        if let Err(error) = self.check_create(tx, height, options)? {
            return Ok(Err(error));
        }
        let errors = self.markers_of(tx)?;
        if !errors.is_empty() {
            return Ok(Err(NodeError::Spend { spender: tx.txid, errors }));
        }
        self.apply_create(tx, height, options)?;
        Ok(Ok(()))
    }

    /// Inputs whose parents bear a marker of the transaction: it was mined and pruned, and its outputs
    /// were spent. Taken for new, they could be spent again.
    fn markers_of(&mut self, tx: &NodeTx) -> Result<Vec<(u32, SpendError)>, S::Error> {
        let mut found = Vec::new();
        for (vin, input) in (0u32..).zip(&tx.inputs).filter(|_| !tx.is_coinbase) {
            let outpoint = input.outpoint;
            let has_markers = self.look(outpoint.txid())?.is_some_and(|r| r.deleted_children > 0);
            if has_markers && self.has_marker(outpoint.txid(), &tx.txid)? {
                let by = SpendingData { txid: tx.txid, vin };
                found.push((vin, SpendError::SpenderPruned { outpoint, by }));
            }
        }
        Ok(found)
    }

    pub(super) fn check_create(
        &mut self,
        tx: &NodeTx,
        height: Height,
        options: &CreateOptions,
    ) -> Outcome<(), S::Error> {
        if height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        if let Some(existing) = self.look(&tx.txid)? {
            // Whoever sends it again completes what an earlier call left.
            if existing.is_creating {
                self.complete(&tx.txid)?;
            }
            return Ok(Err(NodeError::Exists(tx.txid)));
        }
        let invalid = |text: &str| Ok(Err(NodeError::Invalid(format!("{} {text}", tx.txid))));
        if tx.outputs.is_empty() {
            return invalid("has no outputs");
        }
        if tx.fee().is_none() && !options.may_lack_previous {
            return invalid("does not say what its inputs spend; send it extended");
        }
        if let Some(reason) = self.unwritten.and_then(|unwritten| unwritten.get(&tx.txid)) {
            let reason = reason.clone();
            return Ok(Err(NodeError::Storage { txid: tx.txid, reason }));
        }
        Ok(Ok(()))
    }

    pub(super) fn apply_create(
        &mut self,
        tx: &NodeTx,
        height: Height,
        options: &CreateOptions,
    ) -> Result<(), S::Error> {
        let mut utxos = 0;
        for (vout, output) in (0u32..).zip(&tx.outputs).filter(|(_, output)| output.is_utxo()) {
            let hash = super::tx::utxo_hash(&tx.txid, vout, &output.script, output.satoshis);
            let state = if options.is_frozen { OutputState::Frozen } else { OutputState::Unspent };
            self.new_slot(
                OutPoint::new(tx.txid, vout),
                OutputRecord { state, ..OutputRecord::new(hash) },
            );
            utxos += 1;
        }
        let maturity = self.policy.coinbase_maturity;
        let mut record = TxRecord {
            is_coinbase: tx.is_coinbase,
            is_conflicting: options.is_conflicting,
            is_locked: options.is_locked,
            spendable_at: tx.is_coinbase.then(|| height.plus(maturity)),
            outputs: u32::try_from(tx.outputs.len()).unwrap_or(u32::MAX),
            utxos,
            spent: 0,
            spent_at: None,
            blocks: Vec::new(),
            unmined_since: options.mined.is_empty().then_some(height),
            created_at_ms: options.created_at_ms,
            delete_at: None,
            preserve_until: None,
            kept_for_child_until: None,
            conflicting_children: Vec::new(),
            reassignments: Vec::new(),
            deleted_children: 0,
            blob: None,
            file_checksum: None,
            is_creating: false,
        };
        for block in &options.mined {
            if record.blocks.iter().all(|known| known.id != block.id) {
                record.blocks.push(*block);
            }
        }
        record.evaluate(height, self.policy.retention_blocks);
        self.set_record(&tx.txid, Some(record))?;
        self.set_body(tx.txid, Some(tx.clone()));
        if options.is_conflicting {
            self.add_conflicting_child(tx)?;
        }
        Ok(())
    }

    /// Says that all records of a transaction are there. The engine makes sure of it before it commits,
    /// and refuses the call otherwise.
    pub(super) fn complete(&mut self, txid: &Txid) -> Result<(), S::Error> {
        if let Some(record) = self.record(txid)? {
            record.is_creating = false;
        }
        Ok(())
    }

    /// Names `tx` on each of its parents that is there.
    pub(super) fn add_conflicting_child(&mut self, tx: &NodeTx) -> Result<(), S::Error> {
        for input in tx.spends() {
            if let Some(parent) = self.record(input.outpoint.txid())?
                && !parent.conflicting_children.contains(&tx.txid)
            {
                parent.conflicting_children.push(tx.txid);
            }
        }
        Ok(())
    }

    /// Deletes a transaction with everything that belongs to it. One that is not there is fine.
    pub fn delete(&mut self, txid: &Txid) -> Result<bool, S::Error> {
        let Some(record) = self.record(txid)? else { return Ok(false) };
        let outputs: Vec<_> = (0..record.outputs).map(|vout| OutPoint::new(*txid, vout)).collect();
        self.prefetch(&[], &outputs)?;
        for outpoint in &outputs {
            self.delete_slot(outpoint)?;
        }
        self.set_record(txid, None)?;
        self.set_body(*txid, None);
        Ok(true)
    }
}
