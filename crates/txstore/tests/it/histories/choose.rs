//! The next step of a history. Few transactions that spend each other, so that steps meet.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ConflictIntent, CreateOptions, MinedBlock, MinedInfo, NodeTx, OutputState, SpendAndCreate,
        SpendFlags, SpendRequest, SpendingData, UnspendRequest,
    },
};
use utxokeep_testkit::txstore::{coinbase, seed, spending};
use utxokeep_txstore::BlockState;

use super::{
    model::Model,
    ops::{Named, Op},
    random::Random,
};

/// Transactions that are ever made; they come again and again.
const NAMES: usize = 96;

#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    random: Random,
    known: Vec<NodeTx>,
    next: usize,
    height: u32,
}

impl Chooser {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), known: Vec::new(), next: 0, height: 1 }
    }

    /// Transactions that were made so far.
    pub(crate) fn known(&self) -> Vec<Txid> {
        self.known.iter().map(|tx| tx.txid).collect()
    }

    fn any(&mut self) -> NodeTx {
        self.random.one(&self.known).cloned().unwrap_or_else(|| self.fresh())
    }

    /// How many items a call has.
    fn count(&mut self) -> usize {
        if self.random.chance(30) { self.random.small(5) as usize } else { 1 }
    }

    fn some(&mut self) -> Vec<Txid> {
        (0..self.count()).map(|_| self.any().txid).collect()
    }

    /// An output, also one that is not there.
    fn output(&mut self) -> OutPoint {
        let tx = self.any();
        OutPoint::new(tx.txid, self.random.small(tx.outputs.len() as u64 + 1))
    }

    fn outputs(&mut self) -> Vec<OutPoint> {
        (0..self.count()).map(|_| self.output()).collect()
    }

    /// An output with its commitment, or now and then with another.
    fn named(&mut self, model: &Model) -> Named {
        let at = self.output();
        let slot = model.records.get(at.txid()).and_then(|record| record.slot(at.index()));
        let hash = slot.map_or([9; 32], |slot| slot.hash);
        (at, if self.random.chance(5) { [7; 32] } else { hash })
    }

    /// A transaction of a fixed set, in turn; parents come before children.
    fn fresh(&mut self) -> NodeTx {
        let at = self.next;
        self.next = (at + 1) % NAMES;
        if let Some(known) = self.known.get(at) {
            return known.clone();
        }
        let random = &mut self.random;
        let outputs = if random.chance(3) { 0 } else { 1 + random.below(4) };
        let amounts: Vec<u64> = (0..outputs).map(|_| random.below(5)).collect();
        let mut inputs: Vec<(&NodeTx, u32)> = Vec::new();
        for _ in 0..random.below(4) {
            let Some(parent) = random.one(&self.known) else { break };
            let beyond = u64::from(random.chance(5));
            let vout = random.small((parent.outputs.len() as u64 + beyond).max(1));
            let is_twice = inputs.iter().any(|(tx, at)| (tx.txid, *at) == (parent.txid, vout));
            if !is_twice || random.chance(10) {
                inputs.push((parent, vout));
            }
        }
        let name = u8::try_from(at).unwrap();
        let mut tx = match inputs.is_empty() {
            true if random.chance(40) => coinbase(name, &amounts),
            true => seed(name, &amounts),
            false => spending(name, &inputs, &amounts),
        };
        // Some do not say what they spend, or only in part.
        let lacking = if random.chance(4) { 1 + random.small(2) as usize } else { 0 };
        for input in tx.inputs.iter_mut().take(lacking) {
            input.previous = None;
        }
        self.known.push(tx.clone());
        tx
    }

    fn options(&mut self, height: u32) -> CreateOptions {
        let random = &mut self.random;
        let blocks = if random.chance(40) { 1 + random.below(3) } else { 0 };
        let block = |random: &mut Random| MinedBlock {
            id: random.small(6),
            height: Height::new(height),
            subtree: random.small(9),
        };
        CreateOptions {
            mined: (0..blocks).map(|_| block(random)).collect(),
            is_conflicting: random.chance(10),
            is_locked: random.chance(10),
            is_frozen: random.chance(3),
            may_lack_previous: random.chance(50),
            created_at_ms: random.below(u64::MAX),
        }
    }

    fn flags(&mut self) -> SpendFlags {
        let random = &mut self.random;
        SpendFlags { ignore_conflicting: random.chance(15), ignore_locked: random.chance(15) }
    }

    /// A transaction's spends, mostly with the commitments that hold now.
    fn request(&mut self, model: &Model, height: u32) -> SpendRequest {
        let (mut tx, flags) = (self.any(), self.flags());
        for input in &mut tx.inputs {
            input.previous.get_or_insert_with(|| utxokeep_core::node::PreviousOutput {
                satoshis: 1,
                script: Vec::new(),
            });
        }
        let mut request = SpendRequest::of(&tx, Height::new(height), flags).unwrap();
        for input in &mut request.inputs {
            let parent = model.records.get(input.outpoint.txid());
            if let Some(slot) = parent.and_then(|parent| parent.slot(input.outpoint.index()))
                && self.random.chance(90)
            {
                input.hash = slot.hash;
            }
        }
        request
    }

    fn unspend(&mut self, model: &Model, height: u32) -> UnspendRequest {
        let (outpoint, hash) = self.named(model);
        let slot = model.records.get(outpoint.txid()).and_then(|r| r.slot(outpoint.index()));
        let by = match slot.map(|slot| slot.state) {
            Some(OutputState::Spent(by)) if self.random.chance(80) => by,
            _ => SpendingData { txid: self.any().txid, vin: 0 },
        };
        let set_locked = self.random.chance(20).then(|| self.random.chance(50));
        let expected = (!self.random.chance(3)).then_some(by);
        UnspendRequest { outpoint, hash, expected, set_locked, height: Height::new(height) }
    }

    fn items(&mut self, height: u32) -> Vec<(NodeTx, CreateOptions)> {
        (0..self.count()).map(|_| (self.fresh(), self.options(height))).collect()
    }

    /// Mostly parents first.
    fn list(&mut self, height: u32) -> Vec<(NodeTx, CreateOptions)> {
        let mut list: Vec<_> = (0..=self.random.below(6)).map(|_| self.any()).collect();
        if self.random.chance(85) {
            let place = |tx: &NodeTx| self.known.iter().position(|known| known.txid == tx.txid);
            list.sort_by_key(place);
            list.dedup_by_key(|tx| tx.txid);
            list.retain(|tx| !tx.is_coinbase);
        }
        list.into_iter().map(|tx| (tx, self.options(height))).collect()
    }

    /// Transactions that lost; seldom others.
    fn losers(&mut self, model: &Model) -> Vec<Txid> {
        let lost = model.records.iter().filter(|(_, record)| record.conflicting);
        let lost: Vec<Txid> = lost.map(|(txid, _)| *txid).collect();
        let count = if self.random.chance(20) { 2 } else { 1 };
        let mut chosen = Vec::new();
        for _ in 0..count {
            let other = self.any().txid;
            let is_lost = self.random.chance(90);
            chosen.push(self.random.one(&lost).copied().filter(|_| is_lost).unwrap_or(other));
        }
        chosen
    }

    /// A frozen output, if there is one.
    fn frozen(&mut self, model: &Model) -> Named {
        let mut frozen: Vec<Named> = Vec::new();
        for (txid, record) in &model.records {
            for (vout, slot) in (0u32..).zip(&record.outputs) {
                let slot = slot.filter(|slot| slot.state == OutputState::Frozen);
                frozen.extend(slot.map(|slot| (OutPoint::new(*txid, vout), slot.hash)));
            }
        }
        let other = self.named(model);
        if self.random.chance(10) { other } else { *self.random.one(&frozen).unwrap_or(&other) }
    }

    fn intent(&mut self) -> ConflictIntent {
        let height = Height::new(self.random.small(3));
        ConflictIntent::new(height, self.some().into_iter().take(2).collect())
    }

    fn mined(&mut self, height: u32) -> MinedInfo {
        let random = &mut self.random;
        let (id, subtree) = (random.small(6), random.small(9));
        MinedInfo {
            block: MinedBlock { id, height: Height::new(height), subtree },
            on_longest_chain: random.chance(80),
            unset: random.chance(30),
            unmined_since: Height::new(height + 1),
        }
    }

    /// The next operation of a history.
    pub(crate) fn next(&mut self, model: &Model) -> Op {
        self.height += u32::from(self.random.chance(20));
        if self.random.below(500) == 0 {
            // Long enough for an output that changed hands.
            self.height += 1_000;
        }
        let height = if self.random.chance(1) { 0 } else { self.height };
        let on = self.random.chance(50);
        match self.random.below(100) {
            0..14 => Op::Create(self.items(height), height),
            14..30 => Op::Spend((0..self.count()).map(|_| self.request(model, height)).collect()),
            30..42 => {
                let (spend_only, create_only) = (self.random.chance(5), self.random.chance(5));
                let how = SpendAndCreate { spend_only, create_only, flags: self.flags() };
                Op::Both(self.fresh(), how, self.options(height), height)
            }
            42..48 => Op::List(self.list(height), self.flags(), height),
            48..54 => Op::Unspend((0..self.count()).map(|_| self.unspend(model, height)).collect()),
            54..66 => Op::Mine(self.some(), self.mined(height)),
            66..69 => Op::Mark(self.some(), on, height),
            69..72 => Op::Lock(self.some(), on, height),
            72..75 => Op::Conflict(self.some(), on, height),
            75..79 => Op::Process(self.losers(model), height),
            79..82 => Op::Freeze((0..self.count()).map(|_| self.named(model)).collect()),
            82..84 => Op::Unfreeze((0..self.count()).map(|_| self.frozen(model)).collect()),
            84..86 => Op::Reassign(
                self.frozen(model),
                vec![0x52; 1 + self.random.small(9) as usize],
                height,
            ),
            86..88 => Op::Preserve(self.some(), height + self.random.small(9)),
            88 => Op::Expire(height, self.random.small(6) as usize),
            89..91 => Op::Delete(self.some()),
            91 if on => Op::Begin(self.intent()),
            91 => Op::Complete(self.intent()),
            92 => Op::BlockState(BlockState {
                height: Height::new(height),
                median_time: self.random.small(1 << 32),
            }),
            93..95 => {
                let outputs = (0..self.count()).map(|_| self.named(model));
                Op::Views(outputs.map(|(at, hash)| (at, on.then_some(hash))).collect(), height)
            }
            95 => Op::Decorate(self.outputs()),
            96 => Op::Parents(self.outputs()),
            97 => Op::Unmined(height, 1 + self.random.small(20) as usize),
            98 => Op::Pending(self.random.small(9) as usize),
            _ => Op::Reopen,
        }
    }
}
