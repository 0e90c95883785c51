//! The rules a second time, in plain maps, one step after the other.

use std::collections::BTreeMap;

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, Policy, SlotState, SpendAndCreate,
        SpendError, SpendFlags, SpendRequest, SpendingData, UnspendRequest,
    },
};
use utxokeep_testkit::txstore::{coinbase, seed, spending};
use utxokeep_txstore::{StoredTx, TxStore};

/// A small generator of random numbers: the same seed gives the same history.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn small(&mut self, limit: u64) -> u32 {
        u32::try_from(self.below(limit)).unwrap()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(NodeTx, u32, CreateOptions),
    Spend(NodeTx, u32, SpendFlags),
    Unspend(NodeTx, u32, SpendingData, Option<bool>, u32),
    Both(NodeTx, u32, SpendFlags),
    Mine(NodeTx, MinedInfo),
    Mark(NodeTx, bool, u32),
    Lock(NodeTx, bool, u32),
    Conflict(NodeTx, bool, u32),
    Freeze(NodeTx, u32, bool),
    Preserve(NodeTx, u32),
    Expire(u32),
    Delete(NodeTx),
}

/// Everything about a transaction that both sides can say.
pub(crate) type Shown = String;

#[derive(Debug, Clone)]
struct Record {
    tx: NodeTx,
    conflicting: bool,
    locked: bool,
    from: u32,
    blocks: Vec<u32>,
    unmined: Option<u32>,
    due: Option<u32>,
    preserve: Option<u32>,
    children: Vec<Txid>,
    /// `None`: nobody can spend it.
    outputs: Vec<Option<SlotState>>,
}

impl Record {
    fn spent(&self) -> usize {
        self.outputs.iter().flatten().filter(|slot| matches!(slot, SlotState::Spent(_))).count()
    }

    fn utxos(&self) -> usize {
        self.outputs.iter().flatten().count()
    }

    fn evaluate(&mut self, at: u32, retention: u32) {
        if self.preserve.is_some() {
            return;
        }
        let is_done = self.spent() == self.utxos() && !self.blocks.is_empty();
        let later = at + retention;
        self.due = match (self.locked, self.conflicting, is_done && self.unmined.is_none()) {
            (true, _, _) | (false, false, false) => None,
            (false, true, _) => self.due.or(Some(later)),
            (false, false, true) => Some(self.due.unwrap_or(0).max(later)),
        };
    }
}

pub(crate) struct Model {
    policy: Policy,
    records: BTreeMap<Txid, Record>,
    /// Transactions that were ever made, stored or not.
    known: Vec<NodeTx>,
    height: u32,
    names: u8,
}

fn kind(error: &SpendError) -> &'static str {
    match error {
        SpendError::NotFound(_) => "not found",
        SpendError::Conflicting(_) => "conflicting",
        SpendError::Locked(_) => "locked",
        SpendError::Immature { .. } => "immature",
        SpendError::Frozen(_) => "frozen",
        SpendError::Spent { .. } => "spent",
        _ => "other",
    }
}

fn said<T>(result: Result<T, NodeError>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(NodeError::Exists(_)) => "exists".to_owned(),
        Err(NodeError::NotFound(_)) => "not found".to_owned(),
        Err(NodeError::Spend { errors, .. }) => {
            let errors: Vec<_> = errors.iter().map(|(vin, why)| (*vin, kind(why))).collect();
            format!("{errors:?}")
        }
        Err(NodeError::Output(error)) => kind(&error).to_owned(),
        Err(NodeError::AlreadyFrozen(_)) => "frozen already".to_owned(),
        Err(NodeError::NotFrozen(_)) => "not frozen".to_owned(),
        Err(other) => other.to_string(),
    }
}

/// Does an operation on a store; what it said.
pub(crate) fn apply(store: &dyn TxStore, op: &Op) -> String {
    let at = Height::new;
    match op {
        Op::Create(tx, height, options) => {
            said(store.create(&[(tx.clone(), options.clone())], at(*height)).unwrap().remove(0))
        }
        Op::Spend(tx, height, flags) => {
            let request = SpendRequest::of(tx, at(*height), *flags).unwrap();
            said(store.spend(&[request]).unwrap().remove(0))
        }
        Op::Unspend(tx, vout, by, set_locked, height) => {
            let request = UnspendRequest {
                outpoint: OutPoint::new(tx.txid, *vout),
                hash: tx.utxo_hash(*vout).unwrap(),
                expected: Some(*by),
                set_locked: *set_locked,
                height: at(*height),
            };
            said(store.unspend(&[request]).unwrap().remove(0))
        }
        Op::Both(tx, height, flags) => {
            let how = SpendAndCreate { spend_only: false, create_only: false, flags: *flags };
            let options = CreateOptions::default();
            said(store.spend_and_create(tx, at(*height), how, &options).unwrap())
        }
        Op::Mine(tx, info) => said(store.set_mined(&[tx.txid], info).unwrap().remove(0)),
        Op::Mark(tx, on, height) => {
            said(store.mark_on_longest_chain(&[tx.txid], *on, at(*height)).unwrap().remove(0))
        }
        Op::Lock(tx, on, height) => {
            said(store.set_locked(&[tx.txid], *on, at(*height)).unwrap().remove(0))
        }
        Op::Conflict(tx, on, height) => {
            said(store.set_conflicting(&[tx.txid], *on, at(*height)).unwrap().remove(0))
        }
        Op::Freeze(tx, vout, on) => {
            let output = [(OutPoint::new(tx.txid, *vout), tx.utxo_hash(*vout).unwrap())];
            let answers = if *on { store.freeze(&output) } else { store.unfreeze(&output) };
            said(answers.unwrap().remove(0))
        }
        Op::Preserve(tx, until) => store.preserve(&[tx.txid], at(*until)).unwrap().to_string(),
        Op::Expire(height) => store.expire_preservations(at(*height), 1_000).unwrap().to_string(),
        Op::Delete(tx) => store.delete(&[tx.txid]).unwrap().to_string(),
    }
}

/// A stored transaction in the words of the model.
pub(crate) fn shown(stored: StoredTx) -> Shown {
    let record = stored.record;
    let raw = |height: Option<Height>| height.map(Height::get);
    let slots: Vec<_> = stored.slots.unwrap().iter().map(|s| s.map(|s| s.state)).collect();
    let ids: Vec<_> = record.blocks.iter().map(|block| block.id).collect();
    format!(
        "{:?}",
        (
            (record.is_conflicting, record.is_locked, record.utxos, record.spent, ids),
            (raw(record.unmined_since), raw(record.delete_at), raw(record.preserve_until)),
            (record.conflicting_children, slots),
        )
    )
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, records: BTreeMap::new(), known: Vec::new(), height: 1, names: 0 }
    }

    pub(crate) fn shown(&self, txid: &Txid) -> Option<Shown> {
        let record = self.records.get(txid)?;
        let (utxos, spent) = (record.utxos(), record.spent());
        Some(format!(
            "{:?}",
            (
                (record.conflicting, record.locked, utxos, spent, &record.blocks),
                (record.unmined, record.due, record.preserve),
                (&record.children, &record.outputs),
            )
        ))
    }

    /// Transactions an operation may have changed.
    pub(crate) fn touched(&self, op: &Op) -> Vec<Txid> {
        match op {
            Op::Expire(_) => self.records.keys().copied().collect(),
            Op::Create(tx, ..)
            | Op::Spend(tx, ..)
            | Op::Unspend(tx, ..)
            | Op::Both(tx, ..)
            | Op::Mine(tx, _)
            | Op::Mark(tx, ..)
            | Op::Lock(tx, ..)
            | Op::Conflict(tx, ..)
            | Op::Freeze(tx, ..)
            | Op::Preserve(tx, _)
            | Op::Delete(tx) => {
                let parents = tx.inputs.iter().map(|input| *input.outpoint.txid());
                parents.chain([tx.txid]).collect()
            }
        }
    }

    fn any(&self, random: &mut Random) -> Option<NodeTx> {
        let count = self.known.len() as u64;
        (count > 0).then(|| self.known[random.small(count) as usize].clone())
    }

    fn fresh(&mut self, random: &mut Random) -> NodeTx {
        self.names = self.names.wrapping_add(1);
        // With 256 names they repeat: the same id with other content is the same transaction.
        let amounts: Vec<u64> = (0..=random.below(3)).map(|_| random.below(5)).collect();
        let parents: Vec<_> = (0..random.below(3)).filter_map(|_| self.any(random)).collect();
        let mut inputs: Vec<(&NodeTx, u32)> = Vec::new();
        for parent in &parents {
            let vout = random.small(parent.outputs.len() as u64);
            if inputs.iter().all(|(other, _)| other.txid != parent.txid) {
                inputs.push((parent, vout));
            }
        }
        let tx = match inputs.is_empty() {
            true if random.chance(30) => coinbase(self.names, &amounts),
            true => seed(self.names, &amounts),
            false => spending(self.names, &inputs, &amounts),
        };
        if let Some(known) = self.known.iter().find(|known| known.txid == tx.txid) {
            return known.clone();
        }
        self.known.push(tx.clone());
        tx
    }

    /// The next operation of a history.
    pub(crate) fn choose(&mut self, random: &mut Random) -> Op {
        if random.chance(20) {
            self.height += 1;
        }
        let height = self.height;
        let Some(tx) = self.any(random) else {
            return Op::Create(self.fresh(random), height, CreateOptions::default());
        };
        let flags =
            SpendFlags { ignore_conflicting: random.chance(10), ignore_locked: random.chance(10) };
        let vout = random.small(tx.outputs.len() as u64);
        let on = random.chance(50);
        let has_inputs = !tx.is_coinbase && !tx.inputs.is_empty();
        match random.below(100) {
            0..20 => {
                let tx = self.fresh(random);
                let id = random.small(6);
                let block = MinedBlock { id, height: Height::new(height), subtree: 0 };
                let options = CreateOptions {
                    mined: if random.chance(40) { vec![block] } else { Vec::new() },
                    is_conflicting: random.chance(10),
                    is_locked: random.chance(10),
                    ..CreateOptions::default()
                };
                Op::Create(tx, height, options)
            }
            20..40 if has_inputs => Op::Spend(tx, height, flags),
            40..55 => {
                let tx = self.fresh(random);
                if tx.is_coinbase || tx.inputs.is_empty() {
                    Op::Create(tx, height, CreateOptions::default())
                } else {
                    Op::Both(tx, height, flags)
                }
            }
            55..63 => {
                let by = self.records.get(&tx.txid).and_then(|record| {
                    match record.outputs.get(vout as usize).copied().flatten() {
                        Some(SlotState::Spent(by)) => Some(by),
                        _ => None,
                    }
                });
                let other = SpendingData { txid: tx.txid, vin: 0 };
                let set_locked = random.chance(20).then_some(on);
                Op::Unspend(tx, vout, by.unwrap_or(other), set_locked, height)
            }
            63..78 => {
                let info = MinedInfo {
                    block: MinedBlock {
                        id: random.small(6),
                        height: Height::new(height),
                        subtree: 0,
                    },
                    on_longest_chain: random.chance(80),
                    unset: random.chance(30),
                    unmined_since: Height::new(height + 1),
                };
                Op::Mine(tx, info)
            }
            78..82 => Op::Mark(tx, on, height),
            82..86 => Op::Lock(tx, on, height),
            86..89 => Op::Conflict(tx, on, height),
            89..93 => Op::Freeze(tx, vout, on),
            93..96 => Op::Preserve(tx, height + 5),
            96..98 => Op::Expire(height),
            _ => Op::Delete(tx),
        }
    }

    /// What the operation should say; the model is changed by it.
    pub(crate) fn apply(&mut self, op: &Op) -> String {
        let retention = self.policy.retention_blocks;
        match op {
            Op::Create(tx, height, options) => self.create(tx, *height, options),
            Op::Spend(tx, height, flags) => self.spend(tx, *height, *flags),
            Op::Both(tx, height, flags) => self.both(tx, *height, *flags),
            Op::Unspend(tx, vout, by, set_locked, height) => {
                let Some(record) = self.records.get_mut(&tx.txid) else {
                    return "not found".to_owned();
                };
                let Some(slot) = &mut record.outputs[*vout as usize] else {
                    return "not found".to_owned();
                };
                if *slot == SlotState::Spent(*by) {
                    *slot = SlotState::Unspent;
                }
                record.locked = set_locked.unwrap_or(record.locked);
                record.evaluate(*height, retention);
                "ok".to_owned()
            }
            Op::Freeze(tx, vout, on) => {
                let Some(record) = self.records.get_mut(&tx.txid) else {
                    return "not found".to_owned();
                };
                match (&mut record.outputs[*vout as usize], on) {
                    (None, _) => "not found",
                    (Some(slot @ SlotState::Unspent), true) => {
                        *slot = SlotState::Frozen;
                        "ok"
                    }
                    (Some(slot @ SlotState::Frozen), false) => {
                        *slot = SlotState::Unspent;
                        "ok"
                    }
                    (Some(SlotState::Frozen), true) => "frozen already",
                    (Some(SlotState::Spent(_)), true) => "spent",
                    (Some(_), false) => "not frozen",
                }
                .to_owned()
            }
            Op::Preserve(tx, until) => {
                let Some(record) = self.records.get_mut(&tx.txid) else { return "0".to_owned() };
                if record.due.is_none() && record.preserve.is_none() {
                    return "0".to_owned();
                }
                record.preserve = Some(record.preserve.unwrap_or(0).max(*until));
                record.due = None;
                "1".to_owned()
            }
            Op::Expire(height) => {
                let mut expired = 0;
                for record in self.records.values_mut() {
                    if record.preserve.is_some_and(|until| until <= *height) {
                        record.preserve = None;
                        record.evaluate(*height, retention);
                        expired += 1;
                    }
                }
                expired.to_string()
            }
            Op::Delete(tx) => u32::from(self.records.remove(&tx.txid).is_some()).to_string(),
            Op::Mine(tx, info) => self.mine(tx, info),
            Op::Mark(tx, on, height) => {
                let back = self.policy.unmined_retention_blocks;
                self.change(tx, *height, |record| {
                    let since = height.saturating_sub(back).max(1);
                    record.unmined = if *on { None } else { record.unmined.or(Some(since)) };
                })
            }
            Op::Lock(tx, on, height) => self.change(tx, *height, |record| {
                record.locked = *on;
                if *on {
                    record.due = None;
                }
            }),
            Op::Conflict(tx, on, height) => {
                let said = self.change(tx, *height, |record| {
                    if record.conflicting != *on {
                        record.conflicting = *on;
                        record.due = record.due.filter(|_| record.preserve.is_some());
                    }
                });
                if said == "ok" {
                    self.name_on_parents(tx);
                }
                said
            }
        }
    }

    fn change(&mut self, tx: &NodeTx, height: u32, change: impl FnOnce(&mut Record)) -> String {
        let Some(record) = self.records.get_mut(&tx.txid) else { return "not found".to_owned() };
        change(record);
        record.evaluate(height, self.policy.retention_blocks);
        "ok".to_owned()
    }

    fn name_on_parents(&mut self, tx: &NodeTx) {
        for input in tx.inputs.iter().filter(|_| !tx.is_coinbase) {
            if let Some(parent) = self.records.get_mut(input.outpoint.txid())
                && !parent.children.contains(&tx.txid)
            {
                parent.children.push(tx.txid);
            }
        }
    }

    fn create(&mut self, tx: &NodeTx, height: u32, options: &CreateOptions) -> String {
        if self.records.contains_key(&tx.txid) {
            return "exists".to_owned();
        }
        let mut record = Record {
            tx: tx.clone(),
            conflicting: options.is_conflicting,
            locked: options.is_locked,
            from: if tx.is_coinbase { height + self.policy.coinbase_maturity } else { 0 },
            blocks: options.mined.iter().map(|block| block.id).collect(),
            unmined: options.mined.is_empty().then_some(height),
            due: None,
            preserve: None,
            children: Vec::new(),
            outputs: tx.outputs.iter().map(|o| o.is_utxo().then_some(SlotState::Unspent)).collect(),
        };
        record.evaluate(height, self.policy.retention_blocks);
        self.records.insert(tx.txid, record);
        if options.is_conflicting {
            self.name_on_parents(tx);
        }
        "ok".to_owned()
    }

    fn refusal(
        &self,
        tx: &NodeTx,
        vin: usize,
        height: u32,
        flags: SpendFlags,
    ) -> Option<&'static str> {
        let outpoint = tx.inputs[vin].outpoint;
        let Some(parent) = self.records.get(outpoint.txid()) else {
            return (!self.records.contains_key(&tx.txid)).then_some("not found");
        };
        let by = SpendingData { txid: tx.txid, vin: u32::try_from(vin).unwrap() };
        if parent.conflicting && !flags.ignore_conflicting {
            return Some("conflicting");
        }
        if parent.locked && !flags.ignore_locked {
            return Some("locked");
        }
        if parent.from > height {
            return Some("immature");
        }
        match parent.outputs.get(outpoint.index() as usize).copied().flatten() {
            None => Some("not found"),
            Some(SlotState::Frozen) => Some("frozen"),
            Some(SlotState::Spent(other)) if other != by => Some("spent"),
            Some(_) => None,
        }
    }

    fn spend(&mut self, tx: &NodeTx, height: u32, flags: SpendFlags) -> String {
        let refusals: Vec<(u32, &str)> = (0..tx.inputs.len())
            .filter_map(|vin| {
                let why = self.refusal(tx, vin, height, flags)?;
                Some((u32::try_from(vin).unwrap(), why))
            })
            .collect();
        let is_stored = self.records.contains_key(&tx.txid);
        if refusals.is_empty() || is_stored {
            for (vin, input) in (0u32..).zip(&tx.inputs) {
                if refusals.iter().any(|(refused, _)| *refused == vin) {
                    continue;
                }
                let Some(parent) = self.records.get_mut(input.outpoint.txid()) else { continue };
                let slot = &mut parent.outputs[input.outpoint.index() as usize];
                *slot = Some(SlotState::Spent(SpendingData { txid: tx.txid, vin }));
                parent.evaluate(height, self.policy.retention_blocks);
            }
        }
        if refusals.is_empty() { "ok".to_owned() } else { format!("{refusals:?}") }
    }

    fn both(&mut self, tx: &NodeTx, height: u32, flags: SpendFlags) -> String {
        let is_stored = self.records.contains_key(&tx.txid);
        let said = self.spend(tx, height, flags);
        if said == "ok" && !is_stored {
            self.create(tx, height, &CreateOptions::default());
        }
        said
    }

    fn mine(&mut self, tx: &NodeTx, info: &MinedInfo) -> String {
        let Some(record) = self.records.get_mut(&tx.txid) else {
            return if info.unset { "ok" } else { "not found" }.to_owned();
        };
        debug_assert_eq!(record.tx.txid, tx.txid);
        let id = info.block.id;
        if info.unset {
            record.blocks.retain(|known| *known != id);
        } else if !record.blocks.contains(&id) {
            record.blocks.push(id);
        }
        if record.blocks.is_empty() {
            record.unmined = Some(info.unmined_since.get());
        } else if info.on_longest_chain && !info.unset {
            record.unmined = None;
        }
        record.locked = false;
        let at = if info.unset { info.unmined_since } else { info.block.height };
        record.evaluate(at.get(), self.policy.retention_blocks);
        "ok".to_owned()
    }
}
