//! What changes the model: creating, spending, and both together.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Height, Txid,
    node::{
        CreateOptions, NodeError, NodeTx, OutputRecord, OutputState, SpendAndCreate, SpendError,
        SpendFlags, SpendInput, SpendRequest, SpendingData, Spent, Stored, UnspendRequest,
        utxo_hash,
    },
};

use super::model::{Model, Record};

fn invalid<T>() -> Result<T, NodeError> {
    Err(NodeError::Invalid(String::new()))
}

fn is_extended(tx: &NodeTx) -> bool {
    tx.is_coinbase || tx.inputs.iter().all(|input| input.previous.is_some())
}

impl Model {
    pub(crate) fn known(&mut self, txid: &Txid, height: u32) -> Result<&mut Record, NodeError> {
        if height == 0 {
            return Err(NodeError::HeightZero);
        }
        self.records.get_mut(txid).ok_or(NodeError::NotFound(*txid))
    }

    fn refuse_create(
        &self,
        tx: &NodeTx,
        height: u32,
        options: &CreateOptions,
    ) -> Result<(), NodeError> {
        if height == 0 {
            return Err(NodeError::HeightZero);
        }
        if self.records.contains_key(&tx.txid) {
            return Err(NodeError::Exists(tx.txid));
        }
        if tx.outputs.is_empty() || !(is_extended(tx) || options.may_lack_previous) {
            return invalid();
        }
        Ok(())
    }

    pub(crate) fn create(
        &mut self,
        tx: &NodeTx,
        height: u32,
        options: &CreateOptions,
    ) -> Result<(), NodeError> {
        self.refuse_create(tx, height, options)?;
        let state = if options.is_frozen { OutputState::Frozen } else { OutputState::Unspent };
        let outputs = (0u32..).zip(&tx.outputs).map(|(vout, output)| {
            let hash = utxo_hash(&tx.txid, vout, &output.script, output.satoshis);
            // In these histories a data carrier is what has no amount.
            (output.satoshis > 0).then_some(OutputRecord { hash, state, spendable_at: None })
        });
        let mut blocks = options.mined.clone();
        let mut seen = BTreeSet::new();
        blocks.retain(|block| seen.insert(block.id));
        let mut record = Record {
            tx: tx.clone(),
            conflicting: options.is_conflicting,
            locked: options.is_locked,
            from: tx.is_coinbase.then_some(height + self.policy.coinbase_maturity),
            unmined: blocks.is_empty().then_some(height),
            blocks,
            due: None,
            preserve: None,
            spent_at: None,
            children: Vec::new(),
            created_at_ms: options.created_at_ms,
            outputs: outputs.collect(),
            given: Vec::new(),
        };
        record.evaluate(height, self.policy.retention_blocks);
        self.records.insert(tx.txid, record);
        if options.is_conflicting {
            self.name_on_parents(tx);
        }
        Ok(())
    }

    /// Parents get to know of a child that conflicts, each once.
    pub(crate) fn name_on_parents(&mut self, tx: &NodeTx) {
        for input in tx.inputs.iter().filter(|_| !tx.is_coinbase) {
            if let Some(parent) = self.records.get_mut(input.outpoint.txid())
                && !parent.children.contains(&tx.txid)
            {
                parent.children.push(tx.txid);
            }
        }
    }

    fn refuse_input(&self, request: &SpendRequest, input: &SpendInput) -> Result<(), SpendError> {
        let (outpoint, height) = (input.outpoint, request.height);
        let txid = *outpoint.txid();
        let Some(parent) = self.records.get(&txid) else {
            return Err(SpendError::NotFound(outpoint));
        };
        if parent.conflicting && !request.flags.ignore_conflicting {
            return Err(SpendError::Conflicting(txid));
        }
        if parent.locked && !request.flags.ignore_locked {
            return Err(SpendError::Locked(txid));
        }
        if let Some(from) = parent.from.filter(|from| *from > height.get()) {
            let from = Height::new(from);
            return Err(SpendError::Immature { txid, from, at: height });
        }
        let Some(slot) = parent.slot(outpoint.index()) else {
            return Err(SpendError::NotFound(outpoint));
        };
        if slot.hash != input.hash {
            return Err(SpendError::Mismatch(outpoint));
        }
        if slot.state == OutputState::Frozen {
            return Err(SpendError::Frozen(outpoint));
        }
        if let Some(from) = slot.spendable_at.filter(|from| *from > height.get()) {
            return Err(SpendError::FrozenUntil { outpoint, from });
        }
        let mine = SpendingData { txid: request.spender, vin: input.vin };
        match slot.spent_by() {
            Some(by) if by != mine => Err(SpendError::Spent { outpoint, by }),
            _ => Ok(()),
        }
    }

    pub(crate) fn spend(&mut self, request: &SpendRequest) -> Result<Spent, NodeError> {
        if request.height.get() == 0 {
            return Err(NodeError::HeightZero);
        }
        if request.inputs.is_empty() {
            return invalid();
        }
        let is_stored = self.records.contains_key(&request.spender);
        let (mut fine, mut errors) = (Vec::new(), Vec::new());
        let mut first = BTreeMap::new();
        for input in &request.inputs {
            let outpoint = input.outpoint;
            let vin = *first.entry(outpoint).or_insert(input.vin);
            let by = SpendingData { txid: request.spender, vin };
            let verdict = if vin == input.vin {
                self.refuse_input(request, input)
            } else {
                Err(SpendError::Spent { outpoint, by })
            };
            // A parent that is gone was spent by the time its child was stored.
            let is_gone = !self.records.contains_key(outpoint.txid());
            match verdict {
                Ok(()) => fine.push(input),
                Err(SpendError::NotFound(_)) if is_stored && is_gone => {}
                Err(error) => errors.push((input.vin, error)),
            }
        }
        let mut done = Spent::default();
        if errors.is_empty() || is_stored {
            for input in fine {
                let (txid, vout) = (*input.outpoint.txid(), input.outpoint.index());
                let by = SpendingData { txid: request.spender, vin: input.vin };
                let parent = self.records.get_mut(&txid).unwrap();
                let slot = parent.slot_mut(vout).unwrap();
                let is_new = slot.state == OutputState::Unspent;
                slot.state = OutputState::Spent(by);
                done.newly += u32::from(is_new);
                parent.spent_at = parent.spent_at.max(is_new.then(|| request.height.get()));
                parent.evaluate(request.height.get(), self.policy.retention_blocks);
                let blocks = parent.blocks.iter().map(|block| block.id).collect();
                done.parent_blocks.insert(txid, blocks);
            }
        }
        if errors.is_empty() {
            return Ok(done);
        }
        Err(NodeError::Spend { spender: request.spender, errors })
    }

    pub(crate) fn unspend(&mut self, request: &UnspendRequest) -> Result<bool, NodeError> {
        let Some(expected) = request.expected else { return invalid() };
        let (at, height) = (request.outpoint, request.height.get());
        let retention = self.policy.retention_blocks;
        let record = self.known(at.txid(), height)?;
        let slot = record.slot_mut(at.index()).ok_or(SpendError::NotFound(at))?;
        if slot.hash != request.hash {
            return Err(SpendError::Mismatch(at).into());
        }
        let is_owned = slot.state == OutputState::Spent(expected);
        if is_owned {
            slot.state = OutputState::Unspent;
        }
        record.given_back();
        record.locked = request.set_locked.unwrap_or(record.locked);
        record.evaluate(height, retention);
        Ok(is_owned)
    }

    pub(crate) fn both(
        &mut self,
        tx: &NodeTx,
        height: u32,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Result<Stored, NodeError> {
        if how.spend_only && how.create_only {
            return invalid();
        }
        if how.create_only || (tx.is_coinbase && !how.spend_only) {
            return self.create(tx, height, options).map(|()| Stored::New(Spent::default()));
        }
        if !is_extended(tx) {
            return invalid();
        }
        let mut exists = false;
        if !how.spend_only {
            match self.refuse_create(tx, height, options) {
                Err(NodeError::Exists(_)) => exists = true,
                verdict => verdict?,
            }
        }
        let at = Height::new(height);
        let spent = self.spend(&SpendRequest::of(tx, at, how.flags)?)?;
        if exists {
            return Ok(Stored::Existed(spent));
        }
        if !how.spend_only {
            self.create(tx, height, options)?;
        }
        Ok(Stored::New(spent))
    }

    /// A list is refused whole if no state could make it right.
    pub(crate) fn list(
        &mut self,
        txs: &[(NodeTx, CreateOptions)],
        height: u32,
        flags: SpendFlags,
    ) -> Result<Vec<Result<Stored, NodeError>>, NodeError> {
        let ids: Vec<Txid> = txs.iter().map(|(tx, _)| tx.txid).collect();
        let mut spent = BTreeSet::new();
        for (position, (tx, _)) in txs.iter().enumerate() {
            if tx.is_coinbase || ids[..position].contains(&tx.txid) {
                return invalid();
            }
            for input in &tx.inputs {
                let parent = ids.iter().position(|txid| txid == input.outpoint.txid());
                let is_wrong = parent.is_some_and(|parent| {
                    let outputs = txs[parent].0.outputs.len();
                    parent >= position || input.outpoint.index() as usize >= outputs
                });
                if is_wrong || !spent.insert(input.outpoint) {
                    return invalid();
                }
            }
        }
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let mut failed: Vec<Txid> = Vec::new();
        let mut answers = Vec::new();
        for (tx, options) in txs {
            let mut parents = tx.inputs.iter().map(|input| *input.outpoint.txid());
            let answer = match parents.find(|parent| failed.contains(parent)) {
                Some(parent) => Err(NodeError::ParentFailed(parent)),
                None => self.both(tx, height, how, options),
            };
            failed.extend(answer.is_err().then_some(tx.txid));
            answers.push(answer);
        }
        Ok(answers)
    }
}
