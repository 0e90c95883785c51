//! Spending and unspending outputs, and spending together with creating.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    create::CreateOptions,
    error::{NodeError, SpendError},
    output::{OutputState, SpendingData},
    reads::NodeReads,
    record::TxRecord,
    tx::NodeTx,
    workspace::{Outcome, Workspace},
};
use crate::types::{Height, OutPoint, Txid};

/// What a spend passes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendFlags {
    /// Spend outputs of conflicting transactions too.
    pub ignore_conflicting: bool,
    /// Spend outputs of locked transactions too.
    pub ignore_locked: bool,
}

/// One output to spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendInput {
    /// The output.
    pub outpoint: OutPoint,
    /// Commitment to it.
    pub hash: [u8; 32],
    /// Position of the input in the spender.
    pub vin: u32,
}

/// All outputs that one transaction spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRequest {
    /// The spending transaction.
    pub spender: Txid,
    /// What it spends.
    pub inputs: Vec<SpendInput>,
    /// Height of the block the spend is for.
    pub height: Height,
    /// What to pass over.
    pub flags: SpendFlags,
}

impl SpendRequest {
    /// The spends of an extended transaction.
    pub fn of(tx: &NodeTx, height: Height, flags: SpendFlags) -> Result<Self, NodeError> {
        let mut inputs = Vec::with_capacity(tx.inputs.len());
        for (vin, input) in (0u32..).zip(&tx.inputs).filter(|_| !tx.is_coinbase) {
            let previous = input.previous.as_ref().ok_or_else(|| {
                let text = format!("{} does not say what input {vin} spends", tx.txid);
                NodeError::Invalid(text)
            })?;
            let (outpoint, satoshis) = (input.outpoint, previous.satoshis);
            let (txid, vout) = (outpoint.txid(), outpoint.index());
            let hash = super::tx::utxo_hash(txid, vout, &previous.script, satoshis);
            inputs.push(SpendInput { outpoint, hash, vin });
        }
        Ok(Self { spender: tx.txid, inputs, height, flags })
    }
}

/// What a spend did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spent {
    /// Outputs newly spent; one that the same input had spent before is not counted.
    pub newly: u32,
    /// Blocks that contain each parent, by their numbers.
    pub parent_blocks: BTreeMap<Txid, Vec<u32>>,
}

/// One output to give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnspendRequest {
    /// The output.
    pub outpoint: OutPoint,
    /// Commitment to it.
    pub hash: [u8; 32],
    /// Who spent it, as the caller believes; only that spend is taken back.
    pub expected: Option<SpendingData>,
    /// Sets or clears the lock of the transaction; `None` leaves it.
    pub set_locked: Option<bool>,
    /// Height of the event.
    pub height: Height,
}

/// Whether an output can be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendStatus {
    /// It can.
    Ok,
    /// It is spent.
    Spent,
    /// Not yet.
    Immature,
    /// There is no such output.
    NotFound,
    /// It is frozen.
    Frozen,
    /// Its transaction lost against another.
    Conflicting,
    /// Its transaction is locked.
    Locked,
    /// Its transaction is being created.
    Creating,
}

/// What is known of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendView {
    /// Whether it can be spent at the height asked about.
    pub status: SpendStatus,
    /// Who spent it. A frozen output shows a transaction of all ones and its own position.
    pub by: Option<SpendingData>,
}

/// How spending and creating go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpendAndCreate {
    /// Do not create.
    pub spend_only: bool,
    /// Do not spend.
    pub create_only: bool,
    /// What spends pass over.
    pub flags: SpendFlags,
}

/// What became of a transaction of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// It is stored, and its inputs are spent.
    New(Spent),
    /// It was there before; its inputs are spent.
    Existed(Spent),
}

/// Inputs that may be spent, and those that may not, with the reason.
type Sorted = (Vec<SpendInput>, Vec<(u32, SpendError)>);

impl<S: NodeReads + ?Sized> Workspace<'_, S> {
    /// Spends every input of a transaction, or none: unless the transaction has a record, then
    /// what can be spent is, and the error names the rest.
    pub fn spend(&mut self, request: &SpendRequest) -> Outcome<Spent, S::Error> {
        if request.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        if request.inputs.is_empty() {
            let text = format!("{} spends nothing", request.spender);
            return Ok(Err(NodeError::Invalid(text)));
        }
        let (fine, errors) = self.check_spend(request)?;
        if !errors.is_empty() && self.look(&request.spender)?.is_none() {
            return Ok(Err(NodeError::Spend { spender: request.spender, errors }));
        }
        let spent = self.apply_spend(request, &fine)?;
        if errors.is_empty() {
            return Ok(Ok(spent));
        }
        Ok(Err(NodeError::Spend { spender: request.spender, errors }))
    }

    /// Sorts the inputs into those that may be spent and those that may not. The spender itself is
    /// looked up only when an input fails: most spends do without.
    fn check_spend(&mut self, request: &SpendRequest) -> Result<Sorted, S::Error> {
        let (mut fine, mut errors) = (Vec::new(), Vec::new());
        let mut claimed = BTreeMap::new();
        for input in &request.inputs {
            // One output named by two inputs of the same transaction: the first one has it.
            let first = *claimed.entry(input.outpoint).or_insert(input.vin);
            let by = SpendingData { txid: request.spender, vin: first };
            let verdict = if first == input.vin {
                self.check_input(request, input)?
            } else {
                Err(SpendError::Spent { outpoint: input.outpoint, by })
            };
            match verdict {
                Ok(()) => fine.push(*input),
                // The parent was deleted after the spender was stored: it was spent by then.
                Err(SpendError::NotFound(_))
                    if self.look(input.outpoint.txid())?.is_none()
                        && self.look(&request.spender)?.is_some() => {}
                Err(error) => errors.push((input.vin, error)),
            }
        }
        Ok((fine, errors))
    }

    fn check_input(
        &mut self,
        request: &SpendRequest,
        input: &SpendInput,
    ) -> Result<Result<(), SpendError>, S::Error> {
        let (outpoint, height) = (input.outpoint, request.height);
        let parent = *outpoint.txid();
        let by = SpendingData { txid: request.spender, vin: input.vin };
        let Some(record) = self.look(&parent)? else {
            return Ok(Err(SpendError::NotFound(outpoint)));
        };
        if record.is_creating {
            return Ok(Err(SpendError::Creating(parent)));
        }
        if record.is_conflicting && !request.flags.ignore_conflicting {
            return Ok(Err(SpendError::Conflicting(parent)));
        }
        if record.is_locked && !request.flags.ignore_locked {
            return Ok(Err(SpendError::Locked(parent)));
        }
        if let Some(from) = record.spendable_at.filter(|from| *from > height) {
            return Ok(Err(SpendError::Immature { txid: parent, from, at: height }));
        }
        let has_markers = record.deleted_children > 0;
        let Some(slot) = self.slot(&outpoint)?.copied() else {
            return Ok(Err(SpendError::NotFound(outpoint)));
        };
        if slot.hash != input.hash {
            return Ok(Err(SpendError::Mismatch(outpoint)));
        }
        if slot.state == OutputState::Frozen {
            return Ok(Err(SpendError::Frozen(outpoint)));
        }
        if let Some(from) = slot.spendable_at.filter(|from| *from > height.get()) {
            return Ok(Err(SpendError::FrozenUntil { outpoint, from }));
        }
        match slot.spent_by() {
            Some(existing) if existing != by => {
                return Ok(Err(SpendError::Spent { outpoint, by: existing }));
            }
            _ => {}
        }
        if has_markers && self.has_marker(&parent, &request.spender)? {
            return Ok(Err(SpendError::SpenderPruned { outpoint, by }));
        }
        Ok(Ok(()))
    }

    fn apply_spend(
        &mut self,
        request: &SpendRequest,
        inputs: &[SpendInput],
    ) -> Result<Spent, S::Error> {
        let mut done = Spent::default();
        let retention = self.policy.retention_blocks;
        for input in inputs {
            let mut is_new = false;
            if let Some(slot) = self.slot(&input.outpoint)?
                && slot.state == OutputState::Unspent
            {
                let by = SpendingData { txid: request.spender, vin: input.vin };
                slot.state = OutputState::Spent(by);
                is_new = true;
            }
            let parent = *input.outpoint.txid();
            if let Some(record) = self.record(&parent)? {
                record.add_spends(u32::from(is_new), request.height);
                record.evaluate(request.height, retention);
                let blocks = record.blocks.iter().map(|block| block.id).collect();
                done.parent_blocks.insert(parent, blocks);
            }
            done.newly += u32::from(is_new);
        }
        Ok(done)
    }

    /// Takes a spend back, if it is the caller's. One that is not, or that is not there, is left
    /// alone and is no error.
    pub fn unspend(&mut self, request: &UnspendRequest) -> Outcome<bool, S::Error> {
        let outpoint = request.outpoint;
        let Some(expected) = request.expected else {
            let text = format!("say who spent {outpoint}; only that spend is taken back");
            return Ok(Err(NodeError::Invalid(text)));
        };
        if request.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        if self.look(outpoint.txid())?.is_none() {
            return Ok(Err(NodeError::NotFound(*outpoint.txid())));
        }
        let Some(slot) = self.slot(&outpoint)? else {
            return Ok(Err(SpendError::NotFound(outpoint).into()));
        };
        if slot.hash != request.hash {
            return Ok(Err(SpendError::Mismatch(outpoint).into()));
        }
        let is_owned = slot.state == OutputState::Spent(expected);
        if is_owned {
            slot.state = OutputState::Unspent;
        }
        let retention = self.policy.retention_blocks;
        if let Some(record) = self.record(outpoint.txid())? {
            record.take_spends_back(u32::from(is_owned));
            record.is_locked = request.set_locked.unwrap_or(record.is_locked);
            record.evaluate(request.height, retention);
        }
        Ok(Ok(is_owned))
    }

    /// Spends the inputs of a transaction and stores it, together or not at all. One that exists
    /// keeps its spends and is refused as existing.
    pub fn spend_and_create(
        &mut self,
        tx: &NodeTx,
        height: Height,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Outcome<Stored, S::Error> {
        if how.spend_only && how.create_only {
            let text = "spend only and create only exclude each other".to_owned();
            return Ok(Err(NodeError::Invalid(text)));
        }
        if how.create_only || (tx.is_coinbase && !how.spend_only) {
            return Ok(self.create(tx, height, options)?.map(|()| Stored::New(Spent::default())));
        }
        let request = match SpendRequest::of(tx, height, how.flags) {
            Ok(request) => request,
            Err(error) => return Ok(Err(error)),
        };
        let mut exists = false;
        // Another caller is creating it: what it spends is up to them. One whose creator could not finish
        // is completed, and then exists like any other.
        let is_announced = self.look(&tx.txid)?.is_some_and(TxRecord::is_announced);
        if !how.spend_only {
            match self.check_create(tx, height, options)? {
                Ok(()) => {}
                Err(error @ NodeError::Exists(_)) if is_announced => return Ok(Err(error)),
                Err(NodeError::Exists(_)) => exists = true,
                Err(error) => return Ok(Err(error)),
            }
        }
        let spent = match self.spend(&request)? {
            Ok(spent) => spent,
            Err(error) => return Ok(Err(error)),
        };
        if exists {
            return Ok(Ok(Stored::Existed(spent)));
        }
        if !how.spend_only {
            self.apply_create(tx, height, options)?;
        }
        Ok(Ok(Stored::New(spent)))
    }

    /// The same for a list in which parents come before their children. A list that could not be
    /// right in any state is refused whole; otherwise each transaction stands for itself, except
    /// that one whose parent failed fails too.
    pub fn spend_and_create_list(
        &mut self,
        txs: &[(NodeTx, CreateOptions)],
        height: Height,
        flags: SpendFlags,
    ) -> Outcome<Vec<Result<Stored, NodeError>>, S::Error> {
        if let Err(error) = check_list(txs) {
            return Ok(Err(error));
        }
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let mut failed = BTreeSet::new();
        let mut results = Vec::with_capacity(txs.len());
        for (tx, options) in txs {
            let mut parents = tx.spends().map(|input| *input.outpoint.txid());
            let result = match parents.find(|txid| failed.contains(txid)) {
                Some(parent) => Err(NodeError::ParentFailed(parent)),
                None => self.spend_and_create(tx, height, how, options)?,
            };
            if result.is_err() {
                failed.insert(tx.txid);
            }
            results.push(result);
        }
        Ok(Ok(results))
    }

    /// Whether an output can be spent at a height, and who spent it.
    pub fn spend_view(
        &mut self,
        outpoint: &OutPoint,
        hash: Option<&[u8; 32]>,
        height: Height,
    ) -> Outcome<SpendView, S::Error> {
        let missing = SpendView { status: SpendStatus::NotFound, by: None };
        let Some(record) = self.record(outpoint.txid())?.cloned() else { return Ok(Ok(missing)) };
        let Some(slot) = self.slot(outpoint)?.copied() else { return Ok(Ok(missing)) };
        if hash.is_some_and(|hash| *hash != slot.hash) {
            return Ok(Err(SpendError::Mismatch(*outpoint).into()));
        }
        let is_held = slot.spendable_at.is_some_and(|from| from > height.get());
        let is_young = record.spendable_at.is_some_and(|from| from > height);
        let status = if record.is_creating {
            SpendStatus::Creating
        } else if record.is_locked {
            SpendStatus::Locked
        } else if record.is_conflicting {
            SpendStatus::Conflicting
        } else if slot.state == OutputState::Frozen {
            SpendStatus::Frozen
        } else if is_held || is_young {
            SpendStatus::Immature
        } else if slot.spent_by().is_some() {
            SpendStatus::Spent
        } else {
            SpendStatus::Ok
        };
        let by = match slot.state {
            OutputState::Spent(by) => Some(by),
            OutputState::Frozen => {
                let txid = Txid::from_bytes([0xff; 32]);
                Some(SpendingData { txid, vin: outpoint.index() })
            }
            OutputState::Unspent => None,
        };
        Ok(Ok(SpendView { status, by }))
    }
}

/// Refuses a list that spends a later transaction of itself, an output twice, an output that a
/// parent in it does not have, or that contains a coinbase or a transaction twice.
fn check_list(txs: &[(NodeTx, CreateOptions)]) -> Result<(), NodeError> {
    let invalid = |text: String| Err(NodeError::Invalid(text));
    let mut positions = BTreeMap::new();
    for (position, (tx, _)) in txs.iter().enumerate() {
        if tx.is_coinbase {
            return invalid(format!("{} is a coinbase and spends nothing", tx.txid));
        }
        if positions.insert(tx.txid, position).is_some() {
            return invalid(format!("{} is in the list twice", tx.txid));
        }
    }
    let mut spent = BTreeSet::new();
    for (position, (tx, _)) in txs.iter().enumerate() {
        for input in tx.spends() {
            let outpoint = input.outpoint;
            if !spent.insert(outpoint) {
                return invalid(format!("{outpoint} is spent twice"));
            }
            let Some(&parent) = positions.get(outpoint.txid()) else { continue };
            if parent >= position {
                return invalid(format!("{} spends {outpoint}, which comes later", tx.txid));
            }
            if outpoint.index() as usize >= txs[parent].0.outputs.len() {
                return invalid(format!("{} spends {outpoint}, which does not exist", tx.txid));
            }
        }
    }
    Ok(())
}
