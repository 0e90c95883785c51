//! The moves of the simulation, each on the store and on the model.

use std::sync::Arc;

use utxokeep_core::{
    Height, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeTx, PruneRules, SpendAndCreate, SpendFlags,
        TxRecord,
    },
};
use utxokeep_pruner::{JobState, Pruner, PrunerSettings};
use utxokeep_txstore::{Fields, PruneStore};

use super::{Dice, Model, SimulationConfig, WINDOW, model::Presence};
use crate::pruner::stage::{StillClock, reach};

/// Deleted transactions that somebody may send again.
const REPLAYS_MAX: usize = 200;

pub(super) struct World {
    config: SimulationConfig,
    store: Arc<dyn PruneStore>,
    pruner: Pruner,
    model: Model,
    pub(super) dice: Dice,
    /// Number and transactions of each block, from height 1 on.
    chain: Vec<(u32, Vec<Txid>)>,
    blocks_made: u32,
    persisted: u32,
    /// Highest height that was ever pruned at: nothing below its window is reorganised.
    pruned_at: u32,
    /// A list of what was due, taken some time ago.
    stale: Vec<Txid>,
    replays: Vec<Txid>,
    /// Miners take everything.
    is_settling: bool,
}

fn at(height: u32) -> Height {
    Height::new(height)
}

fn settings(chunk_rows: usize) -> PrunerSettings {
    PrunerSettings::default().with(|settings| {
        settings.safety_window_blocks = WINDOW;
        settings.unmined_retention_blocks = 5;
        settings.parent_preservation_blocks = 30;
        settings.chunk_rows = chunk_rows;
    })
}

fn pruner(store: &Arc<dyn PruneStore>, chunk_rows: usize) -> Pruner {
    let clock = Arc::new(StillClock::default());
    Pruner::new(Arc::clone(store), clock, settings(chunk_rows)).expect("they work")
}

impl World {
    pub(super) fn new(config: SimulationConfig, store: Arc<dyn PruneStore>) -> Self {
        Self {
            config,
            pruner: pruner(&store, 3),
            store,
            model: Model::default(),
            dice: Dice(config.seed),
            chain: Vec::new(),
            blocks_made: 0,
            persisted: 0,
            pruned_at: 0,
            stale: Vec::new(),
            replays: Vec::new(),
            is_settling: false,
        }
    }

    fn tip(&self) -> u32 {
        u32::try_from(self.chain.len()).expect("a short chain")
    }

    /// Everything the pruner has in memory is lost; what is stored is not.
    pub(super) fn restart(
        mut self,
        reopen: &mut dyn FnMut(Option<Arc<dyn PruneStore>>) -> Arc<dyn PruneStore>,
    ) -> Self {
        let rows = usize::try_from(1 + self.dice.roll(7)).unwrap_or(1);
        let Self { store, pruner: old, .. } = self;
        // It holds the store open.
        drop(old);
        let store = reopen(Some(store));
        Self { pruner: pruner(&store, rows), store, ..self }
    }

    /// One block, and everything that happens around it.
    pub(super) fn step(&mut self) -> Result<(), String> {
        for _ in 0..2 + self.dice.roll(5) {
            self.submit();
        }
        if self.dice.one_in(3) {
            self.submit_loser();
        }
        for _ in 0..self.dice.roll(3) {
            self.hold();
        }
        if self.dice.one_in(9) {
            self.wipe();
        }
        if self.dice.one_in(3) {
            self.replay()?;
        }
        self.mine();
        if self.dice.one_in(7) {
            self.reorganise();
        }
        self.persisted = self
            .persisted
            .max(self.tip().saturating_sub(u32::try_from(self.dice.roll(4)).unwrap_or(0)));
        if !self.dice.one_in(4) {
            self.prune()?;
        }
        if self.dice.one_in(3) {
            self.prune_by_hand()?;
        }
        self.check_parents()
    }

    /// Nothing happens any more, for long: what may go must have gone.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for txid in self.model.ids(|tx| tx.is_locked) {
            self.set_locked(txid, false);
        }
        self.is_settling = true;
        for _ in 0..8 * WINDOW {
            self.mine();
            self.persisted = self.tip();
            self.prune()?;
        }
        let height = self.persisted;
        let stored = self.model.ids(|_| true);
        let left = stored.into_iter().find(|txid| self.model.may_go(txid, height).is_ok());
        match left {
            Some(txid) if self.config.planted.is_none() => {
                let rules = PruneRules::at(at(height), WINDOW);
                let why = self.store.explain(&txid, &rules).map_err(|error| error.to_string())?;
                Err(format!("{txid} may go and is still there: {why:?}"))
            }
            _ => Ok(()),
        }
    }

    fn send(&mut self, tx: &NodeTx, is_conflicting: bool) -> bool {
        let options = CreateOptions { is_conflicting, ..CreateOptions::default() };
        let create_only = tx.inputs.is_empty() || is_conflicting;
        let how = SpendAndCreate { spend_only: false, create_only, flags: SpendFlags::default() };
        let height = at(self.tip() + 1);
        let answer = self.store.spend_and_create(tx, height, how, &options);
        answer.expect("the engine works").is_ok()
    }

    /// A validator accepts a transaction.
    fn submit(&mut self) {
        let coins = self.model.coins();
        let mut spends = Vec::new();
        let wanted = if coins.len() < 10 { 0 } else { self.dice.roll(4) };
        for _ in 0..wanted {
            // Young coins are spent sooner, so that chains of unmined transactions form.
            let from = if self.dice.one_in(2) { coins.len().saturating_sub(8) } else { 0 };
            let coin = self.dice.pick(&coins[from..]);
            spends.extend(coin.filter(|coin| !spends.contains(coin)));
        }
        let outputs = usize::try_from(self.dice.roll(4)).unwrap_or(0);
        let tx = self.model.make(&spends, outputs);
        let height = self.tip() + 1;
        assert!(self.send(&tx, false), "its inputs are free");
        self.model.stored(&tx, height, false);
    }

    /// Somebody tries to spend what is spent.
    fn submit_loser(&mut self) {
        let spent = self
            .model
            .ids(|tx| tx.conflicting_at.is_none() && tx.outputs.iter().any(Option::is_some));
        let Some(parent) = self.dice.pick(&spent) else { return };
        let outputs = &self.model.txs[&parent].outputs;
        let vout = outputs.iter().position(Option::is_some).expect("one is spent");
        let tx = self.model.make(&[(parent, u32::try_from(vout).expect("few outputs"))], 1);
        assert!(!self.send(&tx, false), "a double spend is refused");
        let height = self.tip() + 1;
        assert!(self.send(&tx, true), "a loser may be stored as one");
        self.model.stored(&tx, height, true);
    }

    /// An operator preserves, locks or unlocks.
    fn hold(&mut self) {
        let stored = self.model.ids(|_| true);
        let from = if self.dice.one_in(2) { &self.stale } else { &stored };
        let Some(txid) = self.dice.pick(from) else { return };
        if self.model.tx(&txid).presence != Presence::Stored {
            return;
        }
        if self.dice.one_in(2) {
            let until = self.tip() + 1 + u32::try_from(self.dice.roll(20)).unwrap_or(0);
            // Mostly what is about to go: whatever is preserved hides other mistakes for a while.
            let found = self.store.get(&[txid], Fields::default()).expect("the engine works");
            let is_due = found[0].as_ref().is_some_and(|stored| {
                stored.record.delete_at.is_some() || stored.record.preserve_until.is_some()
            });
            if !is_due && !self.dice.one_in(8) {
                return;
            }
            let kept = self.store.preserve(&[txid], at(until)).expect("the engine works");
            if kept == 1 {
                let tx = self.model.txs.get_mut(&txid).expect("it is known");
                tx.preserve_until = tx.preserve_until.max(Some(until));
            }
        } else {
            let is_locked = self.model.txs[&txid].is_locked;
            self.set_locked(txid, !is_locked);
        }
    }

    fn set_locked(&mut self, txid: Txid, is_locked: bool) {
        let height = self.tip() + 1;
        let Some(tx) = self.model.txs.get_mut(&txid) else { return };
        let answer = self.store.set_locked(&[txid], is_locked, at(height));
        answer.expect("the engine works").remove(0).expect("it is stored");
        tx.is_locked = is_locked;
        if !is_locked {
            tx.starts_anew(height);
        }
    }

    /// An operator deletes by hand what nothing builds on and no block has.
    fn wipe(&mut self) {
        let free = self.model.ids(|tx| {
            tx.mined.is_none()
                && tx.conflicting_at.is_none()
                && tx.outputs.iter().all(Option::is_none)
        });
        let Some(txid) = self.dice.pick(&free) else { return };
        assert_eq!(self.store.delete(&[txid]).expect("the engine works"), 1);
        self.model.gone(&txid, Presence::Wiped);
    }

    /// Somebody sends a transaction again that was pruned: nobody may take it for new.
    fn replay(&mut self) -> Result<(), String> {
        let Some(txid) = self.dice.pick(&self.replays) else { return Ok(()) };
        let tx = self.model.tx(&txid).node.clone();
        if self.send(&tx, false) {
            return Err(format!("{txid} was pruned and came back as new"));
        }
        Ok(())
    }

    fn set_mined(&mut self, txid: Txid, (id, height): (u32, u32), unset: bool) {
        let info = MinedInfo {
            block: MinedBlock { id, height: at(height), subtree: 0 },
            on_longest_chain: true,
            unset,
            unmined_since: at(height),
        };
        let answer = self.store.set_mined(&[txid], &info).expect("the engine works").remove(0);
        if let Some(tx) = self.model.txs.get_mut(&txid) {
            answer.expect("it is stored");
            tx.mined = (!unset).then_some(height);
            // Whatever held it before, the block and the newest spend count now.
            tx.not_before = 0;
            tx.is_locked &= unset;
        }
    }

    /// A miner finds a block.
    fn mine(&mut self) {
        let waiting = self.model.ids(|tx| tx.mined.is_none() && tx.conflicting_at.is_none());
        let height = self.tip() + 1;
        self.blocks_made += 1;
        let mut block = Vec::new();
        // Some transactions wait much longer than others.
        let mut chosen: Vec<Txid> = Vec::new();
        for txid in waiting {
            let is_slow = txid.as_bytes()[0].is_multiple_of(11) && !self.dice.one_in(16);
            if self.is_settling || (!self.dice.one_in(3) && !is_slow) {
                chosen.push(txid);
            }
        }
        // Parents before children: go round until nothing more fits.
        while let Some(position) = chosen.iter().position(|txid| self.has_mined_parents(txid)) {
            let txid = chosen.swap_remove(position);
            self.set_mined(txid, (self.blocks_made, height), false);
            block.push(txid);
        }
        self.chain.push((self.blocks_made, block));
    }

    fn has_mined_parents(&self, txid: &Txid) -> bool {
        let inputs = &self.model.tx(txid).node.inputs;
        inputs.iter().all(|input| {
            let parent = self.model.tx(input.outpoint.txid());
            parent.mined.is_some() || parent.presence == Presence::Pruned
        })
    }

    /// The chain goes back some blocks, not deeper than the window below what was pruned at.
    fn reorganise(&mut self) {
        let floor = self.pruned_at.saturating_sub(WINDOW);
        let deepest = self.tip().saturating_sub(floor).min(WINDOW);
        let deepest = if self.dice.one_in(4) { deepest } else { deepest.min(2) };
        let depth = self.dice.roll(u64::from(deepest) + 1);
        for _ in 0..depth {
            let height = self.tip();
            let (id, block) = self.chain.pop().unwrap_or_default();
            for txid in block {
                self.set_mined(txid, (id, height), true);
            }
        }
        self.persisted = self.persisted.min(self.tip());
    }

    /// A run of the pruner at the safe height, or of one with a planted mistake.
    fn prune(&mut self) -> Result<(), String> {
        let height = self.tip().min(self.persisted);
        if height <= self.pruned_at {
            return Ok(());
        }
        self.pruned_at = height;
        let due = self.store.due(at(height), None, 1_000).map_err(|error| error.to_string())?;
        self.end_holds(height);
        if self.config.planted.is_none() {
            reach(self.store.as_ref(), height);
            let job = self.pruner.run_at(at(height));
            if !matches!(job.state, JobState::Completed(_)) {
                return Err(format!("a run did not complete: {:?}", job.state));
            }
        } else {
            // The same without the service, which knows no way to leave out a check.
            while self.store.expire_preservations(at(height), 100).map_err(|e| e.to_string())? > 0 {
            }
            let txids: Vec<Txid> = due.iter().map(|(_, txid)| *txid).collect();
            self.prune_these(&txids, height)?;
        }
        self.check_gone(height, true)?;
        // What is due soon, for somebody who acts on it later.
        let soon = at(height + 3);
        let due = self.store.due(soon, None, 1_000).map_err(|error| error.to_string())?;
        self.stale = due.into_iter().map(|(_, txid)| txid).collect();
        Ok(())
    }

    /// Holds whose height has come, and those for children that do not wait any more, end.
    fn end_holds(&mut self, height: u32) {
        for txid in self.model.ids(|tx| tx.kept_until.is_some()) {
            if self.model.has_no_waiting_child(&txid) {
                let tx = self.model.txs.get_mut(&txid).expect("it is known");
                (tx.kept_until, tx.not_before) = (None, 0);
            }
        }
        for tx in self.model.txs.values_mut() {
            let has_come = |until: Option<u32>| until.is_some_and(|until| until <= height);
            if has_come(tx.preserve_until) || has_come(tx.kept_until) {
                tx.preserve_until = tx.preserve_until.filter(|until| *until > height);
                tx.kept_until = tx.kept_until.filter(|until| *until > height);
                tx.starts_anew(height);
            }
        }
    }

    /// What phase 1 did is what it may do: it keeps for children that wait, and ends nothing else.
    fn check_held(
        &mut self,
        txid: &Txid,
        record: &TxRecord,
        is_after_run: bool,
    ) -> Result<(), String> {
        let preserved = record.preserve_until.map(Height::get);
        let kept = record.kept_for_child_until.map(Height::get);
        let is_idle = self.model.has_no_waiting_child(txid);
        let tx = self.model.txs.get_mut(txid).expect("it is known");
        if preserved != tx.preserve_until {
            return Err(format!("{txid} is preserved until {preserved:?}: {tx:?}"));
        }
        if kept < tx.kept_until {
            return Err(format!("{txid} is kept for a child no longer, which waits: {tx:?}"));
        }
        if kept.is_some() && is_idle && is_after_run {
            return Err(format!("{txid} is kept for a child, and none waits: {tx:?}"));
        }
        tx.kept_until = kept;
        Ok(())
    }

    fn prune_these(&self, txids: &[Txid], height: u32) -> Result<(), String> {
        let rules = PruneRules::at(at(height), WINDOW);
        let rules = self.config.planted.map_or(rules, |check| rules.unsafe_without(check));
        let answer = self.store.prune(txids, &rules).map_err(|error| error.to_string())?;
        answer.map(drop).map_err(|error| error.to_string())
    }

    /// Somebody asks for deletion by an old list, and by guesses.
    fn prune_by_hand(&mut self) -> Result<(), String> {
        let height = self.tip().min(self.persisted).min(self.pruned_at);
        if height == 0 {
            return Ok(());
        }
        let mut txids = self.stale.clone();
        let stored = self.model.ids(|_| true);
        txids.extend((0..5).filter_map(|_| self.dice.pick(&stored)));
        let held = self.model.ids(|tx| tx.preserve_until.is_some() || tx.is_locked);
        txids.extend((0..3).filter_map(|_| self.dice.pick(&held)));
        self.prune_these(&txids, height)?;
        self.check_gone(height, false)
    }

    /// Everything that is not there any more was allowed to go.
    fn check_gone(&mut self, height: u32, is_after_run: bool) -> Result<(), String> {
        let believed = self.model.ids(|_| true);
        let found = self.store.get(&believed, Fields::default()).map_err(|e| e.to_string())?;
        let gone = believed.iter().zip(&found).filter(|(_, found)| found.is_none());
        let gone: Vec<Txid> = gone.map(|(txid, _)| *txid).collect();
        // All verdicts first: what goes together was there together.
        for txid in &gone {
            self.model.may_go(txid, height)?;
        }
        for (txid, found) in believed.iter().zip(&found) {
            if let Some(stored) = found {
                self.check_held(txid, &stored.record, is_after_run)?;
            }
        }
        for txid in gone {
            self.model.gone(&txid, Presence::Pruned);
            let tx = self.model.tx(&txid);
            if tx.mined.is_some() && !tx.node.inputs.is_empty() {
                let at = usize::try_from(self.dice.roll(REPLAYS_MAX as u64)).unwrap_or(0);
                if self.replays.len() < REPLAYS_MAX {
                    self.replays.push(txid);
                } else {
                    self.replays[at] = txid;
                }
            }
        }
        Ok(())
    }

    /// No live unmined transaction lacks a parent.
    fn check_parents(&self) -> Result<(), String> {
        for tx in self.model.txs.values() {
            if tx.mined.is_some() || tx.conflicting_at.is_some() {
                continue;
            }
            for input in &tx.node.inputs {
                if self.model.tx(input.outpoint.txid()).presence == Presence::Pruned {
                    let txid = tx.node.txid;
                    return Err(format!("{txid} is unmined and lacks {}", input.outpoint));
                }
            }
        }
        Ok(())
    }
}
