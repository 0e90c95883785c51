//! The rules a second time, in plain maps, one step after the other: the state, and what is asked
//! of it. What changes it is in `rules`, `holds` and `conflicts`.

use std::collections::BTreeMap;

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ConflictIntent, MinedBlock, NodeError, NodeTx, OutputRecord, OutputState, Policy,
        PreviousOutput, Reassignment, SpendError, SpendStatus, SpendView, SpendingData, TxRecord,
    },
};
use utxokeep_txstore::{BlockState, Decorated, ParentOutput};

use super::ops::{Op, all_said, list_said, losers_said, said};

/// A transaction that is stored.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) tx: NodeTx,
    pub(crate) conflicting: bool,
    pub(crate) locked: bool,
    /// First height at which its outputs can be spent.
    pub(crate) from: Option<u32>,
    pub(crate) blocks: Vec<MinedBlock>,
    pub(crate) unmined: Option<u32>,
    pub(crate) due: Option<u32>,
    pub(crate) preserve: Option<u32>,
    /// Height of the newest spend, while anything is spent.
    pub(crate) spent_at: Option<u32>,
    pub(crate) children: Vec<Txid>,
    pub(crate) created_at_ms: u64,
    /// `None`: nobody can spend it.
    pub(crate) outputs: Vec<Option<OutputRecord>>,
    pub(crate) given: Vec<Reassignment>,
}

impl Record {
    fn spent(&self) -> usize {
        self.outputs.iter().flatten().filter(|slot| slot.spent_by().is_some()).count()
    }

    /// One more for each output that changed hands, so that they are never all spent.
    fn utxos(&self) -> usize {
        self.outputs.iter().flatten().count() + self.given.len()
    }

    pub(crate) fn slot(&self, vout: u32) -> Option<&OutputRecord> {
        self.outputs.get(vout as usize).and_then(Option::as_ref)
    }

    pub(crate) fn slot_mut(&mut self, vout: u32) -> Option<&mut OutputRecord> {
        self.outputs.get_mut(vout as usize).and_then(Option::as_mut)
    }

    /// Nothing is spent any more: there is no newest spend.
    pub(crate) fn given_back(&mut self) {
        self.spent_at = self.spent_at.filter(|_| self.spent() > 0);
    }

    /// When it may go, after something happened to it at a height.
    pub(crate) fn evaluate(&mut self, at: u32, retention: u32) {
        if self.preserve.is_some() || retention == 0 {
            return;
        }
        let is_done = self.spent() == self.utxos() && !self.blocks.is_empty();
        let mined = self.blocks.iter().map(|block| block.height.get()).max();
        let newest = mined.max(self.spent_at).unwrap_or(0).max(at);
        self.due = match (self.locked, self.conflicting, is_done && self.unmined.is_none()) {
            (true, _, _) | (false, false, false) => None,
            (false, true, _) if !self.blocks.is_empty() && self.unmined.is_none() => None,
            (false, true, _) => self.due.or(Some(at + retention)),
            (false, false, true) => Some(self.due.unwrap_or(0).max(newest + retention)),
        };
    }

    /// What a store should have of it. Conflicting children come in any order.
    fn shown(&self) -> (TxRecord, Vec<Option<OutputRecord>>) {
        let count = |len: usize| u32::try_from(len).unwrap();
        let record = TxRecord {
            is_coinbase: self.tx.is_coinbase,
            is_conflicting: self.conflicting,
            is_locked: self.locked,
            spendable_at: self.from.map(Height::new),
            outputs: count(self.tx.outputs.len()),
            utxos: count(self.utxos()),
            spent: count(self.spent()),
            spent_at: self.spent_at.map(Height::new),
            blocks: self.blocks.clone(),
            unmined_since: self.unmined.map(Height::new),
            created_at_ms: self.created_at_ms,
            delete_at: self.due.map(Height::new),
            preserve_until: self.preserve.map(Height::new),
            kept_for_child_until: None,
            conflicting_children: self.children.clone(),
            reassignments: self.given.clone(),
            deleted_children: 0,
            blob: None,
            file_checksum: None,
            is_creating: false,
        };
        (comparable(record), self.outputs.clone())
    }
}

/// A record without what the model does not say.
pub(crate) fn comparable(mut record: TxRecord) -> TxRecord {
    record.conflicting_children.sort_unstable();
    (record.blob, record.file_checksum) = (None, None);
    record
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) policy: Policy,
    pub(crate) records: BTreeMap<Txid, Record>,
    intents: BTreeMap<[u8; 32], ConflictIntent>,
    pub(crate) block_state: Option<BlockState>,
}

impl Model {
    /// Inputs of transactions on the longest chain whose output does not say that it is spent by them.
    pub(crate) fn unmarked_inputs(&self) -> Vec<(Txid, u32)> {
        let is_settled = |record: &Record| {
            !record.conflicting && record.unmined.is_none() && !record.blocks.is_empty()
        };
        let mut found = Vec::new();
        for (txid, record) in self.records.iter().filter(|(_, record)| is_settled(record)) {
            for (vin, input) in (0u32..).zip(&record.tx.inputs).filter(|_| !record.tx.is_coinbase) {
                let Some(parent) = self.records.get(input.outpoint.txid()) else { continue };
                let slot = parent.slot(input.outpoint.index());
                let by = slot.and_then(OutputRecord::spent_by);
                if by != Some(SpendingData { txid: *txid, vin }) {
                    found.push((*txid, vin));
                }
            }
        }
        found
    }

    pub(crate) fn new(policy: Policy) -> Self {
        let (records, intents) = (BTreeMap::new(), BTreeMap::new());
        Self { policy, records, intents, block_state: None }
    }

    /// What a store should have of a transaction.
    pub(crate) fn shown(&self, txid: &Txid) -> Option<(TxRecord, Vec<Option<OutputRecord>>)> {
        self.records.get(txid).map(Record::shown)
    }

    /// What the operation should say; the model is changed by it.
    pub(crate) fn apply(&mut self, op: &Op) -> String {
        match op {
            Op::Create(txs, height) => {
                all_said(txs.iter().map(|(tx, how)| self.create(tx, *height, how)).collect())
            }
            Op::Spend(requests) => all_said(requests.iter().map(|r| self.spend(r)).collect()),
            Op::Unspend(requests) => all_said(requests.iter().map(|r| self.unspend(r)).collect()),
            Op::Both(tx, how, options, height) => said(self.both(tx, *height, *how, options)),
            Op::List(txs, flags, height) => list_said(self.list(txs, *height, *flags)),
            Op::Mine(txids, info) => {
                all_said(txids.iter().map(|txid| self.mine(txid, info)).collect())
            }
            Op::Mark(txids, on, height) => {
                all_said(txids.iter().map(|txid| self.mark(txid, *on, *height)).collect())
            }
            Op::Lock(txids, on, height) => {
                all_said(txids.iter().map(|txid| self.lock(txid, *on, *height)).collect())
            }
            Op::Conflict(txids, on, height) => {
                all_said(txids.iter().map(|txid| self.conflict(txid, *on, *height)).collect())
            }
            Op::Process(winners, height) => losers_said(self.process(winners, *height)),
            Op::Begin(intent) => {
                self.intents.insert(intent.id(), intent.clone());
                format!("{:?}", intent.id())
            }
            Op::Complete(intent) => {
                self.intents.remove(&intent.id());
                String::new()
            }
            Op::Freeze(outputs) => all_said(outputs.iter().map(|at| self.freeze(at)).collect()),
            Op::Unfreeze(outputs) => all_said(outputs.iter().map(|at| self.unfreeze(at)).collect()),
            Op::Reassign(output, script, height) => said(self.reassign(output, script, *height)),
            Op::Preserve(txids, until) => {
                txids.iter().filter(|txid| self.preserve(txid, *until)).count().to_string()
            }
            Op::Expire(height, limit) => self.expire(*height, *limit).to_string(),
            Op::Delete(txids) => {
                txids.iter().filter(|txid| self.records.remove(txid).is_some()).count().to_string()
            }
            Op::BlockState(state) => {
                let answer = if state.height.get() == 0 {
                    Err(NodeError::HeightZero)
                } else {
                    self.block_state = Some(*state);
                    Ok(())
                };
                format!("{}, {:?}", said(answer), self.block_state)
            }
            Op::Views(outputs, height) => {
                all_said(outputs.iter().map(|(at, hash)| self.view(at, *hash, *height)).collect())
            }
            Op::Decorate(outputs) => {
                format!("{:?}", outputs.iter().map(|at| self.decorated(at)).collect::<Vec<_>>())
            }
            Op::Parents(outputs) => {
                format!("{:?}", outputs.iter().map(|at| self.parent(at)).collect::<Vec<_>>())
            }
            Op::Unmined(cutoff, _) => format!("{:?}", self.unmined(*cutoff)),
            Op::Pending(limit) => {
                format!("{:?}", self.intents.values().take(*limit).collect::<Vec<_>>())
            }
            Op::Reopen => String::new(),
        }
    }

    fn view(
        &self,
        at: &OutPoint,
        hash: Option<[u8; 32]>,
        height: u32,
    ) -> Result<SpendView, NodeError> {
        let found = self.records.get(at.txid()).and_then(|r| Some((r, r.slot(at.index())?)));
        let Some((record, slot)) = found else {
            return Ok(SpendView { status: SpendStatus::NotFound, by: None });
        };
        if hash.is_some_and(|hash| hash != slot.hash) {
            return Err(SpendError::Mismatch(*at).into());
        }
        let later = |from: Option<u32>| from.is_some_and(|from| from > height);
        // What is named last wins.
        let mut status = SpendStatus::Ok;
        if slot.spent_by().is_some() {
            status = SpendStatus::Spent;
        }
        if later(slot.spendable_at) || later(record.from) {
            status = SpendStatus::Immature;
        }
        if slot.state == OutputState::Frozen {
            status = SpendStatus::Frozen;
        }
        if record.conflicting {
            status = SpendStatus::Conflicting;
        }
        if record.locked {
            status = SpendStatus::Locked;
        }
        let frozen = SpendingData { txid: Txid::from_bytes([0xff; 32]), vin: at.index() };
        let is_frozen = slot.state == OutputState::Frozen;
        Ok(SpendView { status, by: if is_frozen { Some(frozen) } else { slot.spent_by() } })
    }

    fn decorated(&self, at: &OutPoint) -> Decorated {
        let Some(record) = self.records.get(at.txid()) else { return Decorated::NoTransaction };
        let Some(output) = record.tx.outputs.get(at.index() as usize) else {
            return Decorated::NoOutput;
        };
        let mut script = output.script.clone();
        for given in record.given.iter().filter(|given| given.vout == at.index()) {
            script.clone_from(&given.script);
        }
        Decorated::Found(PreviousOutput { satoshis: output.satoshis, script })
    }

    fn parent(&self, at: &OutPoint) -> ParentOutput {
        let Some(record) = self.records.get(at.txid()) else {
            return ParentOutput::NoTransaction;
        };
        if at.index() as usize >= record.tx.outputs.len() {
            return ParentOutput::NoOutput;
        }
        let mut heights: Vec<_> = record.blocks.iter().map(|block| block.height).collect();
        heights.sort_unstable();
        heights.first().map_or(ParentOutput::NotMined, |height| ParentOutput::Mined(*height))
    }

    fn unmined(&self, cutoff: u32) -> Vec<(u32, Txid)> {
        let all = self.records.iter().filter_map(|(txid, record)| Some((record.unmined?, *txid)));
        let mut found: Vec<_> = all.filter(|(since, _)| *since <= cutoff).collect();
        found.sort_unstable();
        found
    }
}
