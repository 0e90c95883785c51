//! Calls in any order, also ones that no node makes: losers that are mined, children of losers,
//! spends that are taken back, records that come back. Several stores get the same calls and say and
//! hold the same; after every run it is asked whether what went could go.

mod checks;

use std::{collections::BTreeSet, sync::Arc};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeTx, Policy, SpendAndCreate, SpendFlags,
        SpendingData, TxRecord, UnspendRequest,
    },
};
use utxokeep_pruner::{JobState, Pruner, PrunerSettings, RunReport};
use utxokeep_txstore::{Fields, PruneStore, StoredTx};

use self::checks::Gone;
use super::stage::{StillClock, reach};
use crate::txstore::{seed, spending};

/// Blocks that records are kept for, and that must lie above a child.
const WINDOW: u32 = 20;
/// Transactions of one order of calls.
const TXS: u8 = 30;
/// Runs that can be taken back.
const UNDO_BLOCKS: u32 = 60;

/// One order of calls.
#[derive(Debug, Clone, Copy)]
pub struct OrdersConfig {
    /// Decides everything.
    pub seed: u64,
    /// How many calls.
    pub steps: u32,
}

impl OrdersConfig {
    /// What the stores have to be opened with.
    #[must_use]
    pub fn policy() -> Policy {
        Policy {
            retention_blocks: WINDOW,
            coinbase_maturity: 1,
            unmined_retention_blocks: 8,
            ..Policy::default()
        }
    }
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(limit)).expect("it is below the limit")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

/// Everything that was ever made, of which some is stored.
struct World {
    random: Random,
    stores: Vec<(Arc<dyn PruneStore>, Pruner)>,
    txs: Vec<NodeTx>,
    height: u32,
    gone: Gone,
    log: Vec<String>,
}

fn settings() -> PrunerSettings {
    PrunerSettings::default().with(|settings| {
        settings.safety_window_blocks = WINDOW;
        settings.unmined_retention_blocks = 8;
        settings.parent_preservation_blocks = 40;
        settings.undo_blocks = UNDO_BLOCKS;
        settings.restored_preservation_blocks = 10;
        settings.chunk_rows = 3;
    })
}

/// Makes calls in an order that the seed decides, on all stores alike. Answers the calls up to the
/// first that broke something, and what that was.
pub fn any_order(config: OrdersConfig, stores: Vec<Arc<dyn PruneStore>>) -> Result<(), String> {
    let with_pruner = |store: Arc<dyn PruneStore>| {
        let clock = Arc::new(StillClock::default());
        let pruner = Pruner::new(Arc::clone(&store), clock, settings()).expect("they work");
        (store, pruner)
    };
    let mut random = Random(config.seed);
    let txs = transactions(&mut random);
    let mut world = World {
        random,
        stores: stores.into_iter().map(with_pruner).collect(),
        txs,
        height: 100,
        gone: Gone::default(),
        log: Vec::new(),
    };
    let outcome = (0..config.steps).try_for_each(|_| world.step()).and_then(|()| world.settle());
    outcome.map_err(|what| {
        let from = world.log.len().saturating_sub(200);
        format!("seed {}:\n{}\n{what}", config.seed, world.log[from..].join("\n"))
    })
}

/// A few seeds, and transactions that spend outputs of earlier ones, the same output now and then.
fn transactions(random: &mut Random) -> Vec<NodeTx> {
    let mut txs: Vec<NodeTx> = Vec::new();
    for name in 1..=TXS {
        let outputs = vec![5; 1 + random.below(2) as usize];
        if txs.len() < 3 || random.chance(15) {
            txs.push(seed(name, &outputs));
            continue;
        }
        let mut inputs = BTreeSet::new();
        for _ in 0..=random.below(2) {
            let newest = u32::try_from(txs.len()).expect("they are few");
            let from = newest.saturating_sub(8);
            let parent = from + random.below(newest - from);
            let vouts = u32::try_from(txs[parent as usize].outputs.len()).expect("two at most");
            inputs.insert((parent, random.below(vouts)));
        }
        let inputs: Vec<_> =
            inputs.iter().map(|(parent, vout)| (&txs[*parent as usize], *vout)).collect();
        txs.push(spending(name, &inputs, &outputs));
    }
    txs
}

impl World {
    fn one(&mut self) -> NodeTx {
        let count = u32::try_from(self.txs.len()).expect("they are few");
        self.txs[self.random.below(count) as usize].clone()
    }

    fn some(&mut self) -> Vec<Txid> {
        let count = 1 + self.random.below(3);
        let txids: BTreeSet<Txid> = (0..count).map(|_| self.one().txid).collect();
        txids.into_iter().collect()
    }

    fn at(&self) -> Height {
        Height::new(self.height)
    }

    /// The same call on every store; all answer alike.
    fn call(
        &mut self,
        name: &str,
        call: impl Fn(&dyn PruneStore, &Pruner) -> String,
    ) -> Result<String, String> {
        let mut answers = self
            .stores
            .iter()
            .map(|(store, pruner)| call(store.as_ref(), pruner))
            .collect::<Vec<_>>();
        self.log.push(format!("{} {name}: {}", self.height, answers[0]));
        let first = answers.remove(0);
        match answers.iter().position(|answer| *answer != first) {
            Some(other) => Err(format!("{name}: store {} says {}", other + 1, answers[other])),
            None => Ok(first),
        }
    }

    fn stored(&self, store: usize) -> Vec<Option<StoredTx>> {
        let txids: Vec<Txid> = self.txs.iter().map(|tx| tx.txid).collect();
        let fields = Fields { body: false, slots: true };
        self.stores[store].0.get(&txids, fields).expect("the engine works")
    }

    fn record(&self, tx: &NodeTx) -> Option<TxRecord> {
        let found = self.stores[0].0.get(&[tx.txid], Fields::default()).expect("it works");
        found.into_iter().next().flatten().map(|stored| stored.record)
    }

    fn compare(&self) -> Result<(), String> {
        let first = self.stored(0);
        for other in 1..self.stores.len() {
            for (tx, (one, two)) in self.txs.iter().zip(first.iter().zip(self.stored(other))) {
                if *one != two {
                    return Err(format!("{} is {one:?}, in store {other} {two:?}", tx.txid));
                }
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.at();
        match self.random.below(100) {
            0..=24 => self.store_one()?,
            25..=39 => self.mine()?,
            40..=43 => {
                let (txids, on) = (self.some(), self.random.chance(60));
                self.call(&format!("mark {txids:?} {on}"), |store, _| {
                    format!("{:?}", store.mark_on_longest_chain(&txids, on, at))
                })?;
            }
            44..=51 => {
                let (txids, lost) = (self.some(), self.random.chance(65));
                self.call(&format!("conflict {txids:?} {lost}"), |store, _| {
                    format!("{:?}", store.set_conflicting(&txids, lost, at))
                })?;
            }
            52..=54 => {
                let winner = self.one().txid;
                self.call(&format!("win {winner}"), |store, _| {
                    format!("{:?}", store.process_conflicting(&[winner], at))
                })?;
            }
            55..=58 => self.unspend()?,
            59..=60 => {
                let (txids, on) = (self.some(), self.random.chance(40));
                self.call(&format!("lock {txids:?} {on}"), |store, _| {
                    format!("{:?}", store.set_locked(&txids, on, at))
                })?;
            }
            61..=63 => {
                let (txids, until) = (self.some(), at.plus(self.random.below(40)));
                self.call(&format!("preserve {txids:?} {until}"), |store, _| {
                    format!("{:?}", store.preserve(&txids, until))
                })?;
            }
            64 => self.delete()?,
            65..=72 => self.restore()?,
            73..=86 => self.height += self.random.below(12),
            _ => self.run()?,
        }
        self.compare()
    }

    fn store_one(&mut self) -> Result<(), String> {
        let (tx, at) = (self.one(), self.at());
        let is_mined = self.random.chance(40);
        let block = MinedBlock { id: self.height, height: at, subtree: 0 };
        let options = CreateOptions {
            mined: is_mined.then_some(block).into_iter().collect(),
            is_conflicting: self.random.chance(15),
            is_locked: self.random.chance(3),
            ..CreateOptions::default()
        };
        let create_only = tx.inputs.is_empty() || options.is_conflicting || self.random.chance(5);
        let flags = SpendFlags { ignore_conflicting: self.random.chance(30), ignore_locked: false };
        let how = SpendAndCreate { spend_only: false, create_only, flags };
        let name = format!("store {} {options:?} {how:?}", tx.txid);
        self.call(&name, |store, _| {
            format!("{:?}", store.spend_and_create(&tx, at, how, &options))
        })?;
        Ok(())
    }

    fn mine(&mut self) -> Result<(), String> {
        let txids = self.some();
        let height = self.height - self.random.below(3);
        let info = MinedInfo {
            block: MinedBlock { id: height, height: Height::new(height), subtree: 0 },
            on_longest_chain: self.random.chance(85),
            unset: self.random.chance(20),
            unmined_since: self.at(),
        };
        self.call(&format!("mine {txids:?} {info:?}"), |store, _| {
            format!("{:?}", store.set_mined(&txids, &info))
        })?;
        Ok(())
    }

    fn unspend(&mut self) -> Result<(), String> {
        let (tx, at) = (self.one(), self.at());
        let outputs = u32::try_from(tx.outputs.len()).expect("two at most");
        let vout = self.random.below(outputs);
        let outpoint = OutPoint::new(tx.txid, vout);
        let mut spenders = self.txs.iter().flat_map(|by| {
            let inputs = (0..).zip(&by.inputs).filter(|(_, input)| input.outpoint == outpoint);
            inputs.map(|(vin, _)| SpendingData { txid: by.txid, vin })
        });
        let Some(by) = spenders.next() else { return Ok(()) };
        let by = spenders.find(|_| at.get() % 2 == 0).unwrap_or(by);
        let hash = tx.utxo_hash(vout).expect("it has the output");
        let request =
            UnspendRequest { outpoint, hash, expected: Some(by), set_locked: None, height: at };
        self.call(&format!("unspend {outpoint} {by:?}"), |store, _| {
            format!("{:?}", store.unspend(&[request]))
        })?;
        Ok(())
    }

    fn delete(&mut self) -> Result<(), String> {
        let txid = self.one().txid;
        let name = format!("delete {txid}");
        let answer = self.call(&name, |store, _| format!("{:?}", store.delete(&[txid])))?;
        if answer != "Ok(0)" {
            self.gone.deleted(txid);
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let tx = self.one();
        let (was_there, newest) = (self.record(&tx).is_some(), self.at());
        self.reach();
        let name = format!("restore {}", tx.txid);
        let answer = self.call(&name, |_, pruner| {
            format!("{:?}", pruner.restore(&tx.txid, Some(newest)).map_err(|e| e.to_string()))
        })?;
        let is_there = self.record(&tx).is_some();
        match (was_there, is_there, answer.as_str()) {
            (false, true, "Ok(true)") => {}
            (_, _, "Ok(true)") => return Err(format!("{name} says {answer}")),
            (before, after, _) if before == after => return Ok(()),
            _ => return Err(format!("{name} says {answer}")),
        }
        self.gone.restored(&tx, &self.txs, &self.stored(0))
    }

    fn reach(&self) {
        for (store, _) in &self.stores {
            reach(store.as_ref(), self.height);
        }
    }

    /// A rehearsal and a run. They agree, and whatever went could go.
    fn run(&mut self) -> Result<(), String> {
        self.reach();
        let (at, before) = (self.at(), self.stored(0));
        let told = |report: &RunReport| {
            // Not why the rest was kept: a loser that goes in an earlier chunk leaves its parent without
            // a child that waits, and that parent is kept for another reason.
            format!("examined {} deleted {}", report.examined, report.deleted)
        };
        let foretold = self.call("rehearse", |_, pruner| {
            told(&pruner.dry_run(Some(at)).expect("the engine works"))
        })?;
        let done = self.call("run", |_, pruner| match pruner.run_at(at).state {
            JobState::Completed(report) => told(&report),
            other => format!("{other:?}"),
        })?;
        if foretold != done {
            return Err(format!("rehearsed was {foretold}; done is {done}"));
        }
        let after = self.stored(0);
        self.gone.ran(at, WINDOW, &self.txs, &before, &after)
    }

    /// Everything that waits has lost, and nobody holds anything: losers do not stay.
    fn settle(&mut self) -> Result<(), String> {
        let txids: Vec<Txid> = self.txs.iter().map(|tx| tx.txid).collect();
        let at = self.at();
        self.call("unlock", |store, _| format!("{:?}", store.set_locked(&txids, false, at)))?;
        for tx in self.txs.clone() {
            let Some(record) = self.record(&tx) else { continue };
            let has_lost = !record.is_mined();
            let name = format!("settle {}", tx.txid);
            self.call(&name, |store, _| {
                format!("{:?}", store.set_conflicting(&[tx.txid], has_lost, at))
            })?;
        }
        for _ in 0..3 {
            self.height += 100;
            self.run()?;
        }
        self.compare()?;
        self.gone.leaks(&self.txs, &self.stored(0))
    }
}
