//! What is true, as plainly as it can be said.

use std::collections::BTreeMap;

use utxokeep_core::{
    OutPoint, Txid,
    node::{NodeInput, NodeOutput, NodeTx, PreviousOutput},
};

use super::WINDOW;

/// What the model knows of a transaction.
#[derive(Debug)]
pub(super) struct ModelTx {
    pub(super) node: NodeTx,
    /// Who spends each output; data carriers have none.
    pub(super) outputs: Vec<Option<Txid>>,
    /// Height of its block on the chain of the moment.
    pub(super) mined: Option<u32>,
    /// Height of the newest spend of an output.
    pub(super) spent_at: u32,
    /// Height at which it became a loser.
    pub(super) conflicting_at: Option<u32>,
    pub(super) is_locked: bool,
    /// An operator asked for it.
    pub(super) preserve_until: Option<u32>,
    /// The pruner keeps it because a child waits.
    pub(super) kept_until: Option<u32>,
    /// It may not go before: a hold ended, and the retention started anew.
    pub(super) not_before: u32,
    pub(super) presence: Presence,
}

impl ModelTx {
    /// A hold ended at a height: the retention counts from there, or from a later spend.
    pub(super) fn starts_anew(&mut self, height: u32) {
        self.not_before = height + WINDOW;
        self.conflicting_at = self.conflicting_at.map(|_| height);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Stored,
    /// The pruner took it, and was allowed to.
    Pruned,
    /// Somebody deleted it by hand; nothing proves that it was settled.
    Wiped,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    /// What is stored.
    pub(super) txs: BTreeMap<Txid, ModelTx>,
    /// What was, apart so that a long life costs no more per block than a short one.
    past: BTreeMap<Txid, ModelTx>,
    made: u64,
}

fn id(number: u64) -> Txid {
    let mut bytes = [0; 32];
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    Txid::from_bytes(bytes)
}

impl Model {
    /// A new transaction that spends these outputs; without outputs of its own it carries data.
    pub(super) fn make(&mut self, spends: &[(Txid, u32)], outputs: usize) -> NodeTx {
        self.made += 1;
        let input = |&(parent, vout): &(Txid, u32)| NodeInput {
            outpoint: OutPoint::new(parent, vout),
            script: Vec::new(),
            sequence: 0,
            previous: Some(PreviousOutput { satoshis: 9, script: vec![0x51] }),
        };
        let coin = || NodeOutput { satoshis: 9, script: vec![0x51] };
        let data = NodeOutput { satoshis: 0, script: vec![0x6a] };
        NodeTx {
            txid: id(self.made),
            version: 1,
            lock_time: 0,
            is_coinbase: false,
            inputs: spends.iter().map(input).collect(),
            outputs: if outputs == 0 {
                vec![data]
            } else {
                std::iter::repeat_with(coin).take(outputs).collect()
            },
        }
    }

    /// A transaction was stored, and its inputs were spent unless it lost.
    pub(super) fn stored(&mut self, node: &NodeTx, height: u32, is_conflicting: bool) {
        for input in node.inputs.iter().filter(|_| !is_conflicting) {
            if let Some(parent) = self.txs.get_mut(input.outpoint.txid()) {
                parent.outputs[input.outpoint.index() as usize] = Some(node.txid);
                parent.spent_at = parent.spent_at.max(height);
            }
        }
        let coins = node.outputs.iter().filter(|output| output.is_utxo()).count();
        let tx = ModelTx {
            node: node.clone(),
            outputs: vec![None; coins],
            mined: None,
            spent_at: 0,
            conflicting_at: is_conflicting.then_some(height),
            is_locked: false,
            preserve_until: None,
            kept_until: None,
            not_before: 0,
            presence: Presence::Stored,
        };
        self.txs.insert(node.txid, tx);
    }

    /// A transaction, stored or not.
    pub(super) fn tx(&self, txid: &Txid) -> &ModelTx {
        self.txs.get(txid).or_else(|| self.past.get(txid)).expect("the model has made it")
    }

    /// A transaction is not stored any more.
    pub(super) fn gone(&mut self, txid: &Txid, presence: Presence) {
        if let Some(tx) = self.txs.remove(txid) {
            self.past.insert(*txid, ModelTx { presence, ..tx });
        }
    }

    /// Stored transactions of a kind.
    pub(super) fn ids(&self, which: impl Fn(&ModelTx) -> bool) -> Vec<Txid> {
        self.txs.iter().filter(|(_, tx)| which(tx)).map(|(txid, _)| *txid).collect()
    }

    /// Outputs that could be spent by a new transaction.
    pub(super) fn coins(&self) -> Vec<(Txid, u32)> {
        let fine = |tx: &&ModelTx| tx.conflicting_at.is_none() && !tx.is_locked;
        let open = |tx: &ModelTx| -> Vec<(Txid, u32)> {
            let free = (0..).zip(&tx.outputs).filter(|(_, by)| by.is_none());
            free.map(|(vout, _)| (tx.node.txid, vout)).collect()
        };
        self.txs.values().filter(fine).flat_map(open).collect()
    }

    /// Whether no transaction that spends a record waits to be mined, or could be sent again.
    pub(super) fn has_no_waiting_child(&self, txid: &Txid) -> bool {
        let tx = self.tx(txid);
        let is_settled = |by: &Option<Txid>| {
            by.is_some_and(|by| {
                let child = self.tx(&by);
                match child.presence {
                    Presence::Stored => child.mined.is_some(),
                    Presence::Pruned => true,
                    Presence::Wiped => false,
                }
            })
        };
        tx.conflicting_at.is_none() && tx.outputs.iter().all(is_settled)
    }

    /// Whether a record may be deleted at a height; if not, why.
    pub(super) fn may_go(&self, txid: &Txid, height: u32) -> Result<(), String> {
        let tx = self.tx(txid);
        let refuse = |why: &str| Err(format!("{txid} went at {height}: {why}"));
        if tx.preserve_until.is_some() {
            return refuse("it is preserved");
        }
        if tx.kept_until.is_some() {
            return refuse("it is kept for a child");
        }
        if tx.is_locked {
            return refuse("it is locked");
        }
        if height < tx.not_before {
            return refuse("its retention started anew");
        }
        if let Some(since) = tx.conflicting_at {
            return if since + WINDOW <= height { Ok(()) } else { refuse("it lost too recently") };
        }
        let Some(mined) = tx.mined else { return refuse("it is in no block") };
        if mined.max(tx.spent_at) + WINDOW > height {
            let why = format!("it is not due: mined at {mined}, spent at {}", tx.spent_at);
            return refuse(&why);
        }
        for by in &tx.outputs {
            let Some(by) = by else { return refuse("an output is unspent") };
            let child = self.tx(by);
            match (child.presence, child.mined) {
                (Presence::Wiped, _) => return refuse("nothing is known of a child"),
                (Presence::Stored, None) => return refuse("a child is in no block"),
                (Presence::Stored, Some(mined)) if mined + WINDOW > height => {
                    return refuse("a child is too young");
                }
                (Presence::Pruned, _) | (Presence::Stored, Some(_)) => {}
            }
        }
        Ok(())
    }
}
