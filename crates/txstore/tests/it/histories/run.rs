//! Runs histories, and makes a failing one short.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use utxokeep_core::{Txid, node::Policy};
use utxokeep_txstore::{Fields, Finding, NodeStore, StoreSettings, TxStore};

use super::{
    choose::Chooser,
    engines,
    model::{Model, comparable},
    ops::{self, Op},
};

/// Steps for one engine, all histories together, unless `UTXOKEEP_STEPS` says otherwise.
const STEPS: usize = 5_000;
/// Steps of one history; more of them need more histories, because each has its own transactions.
const HISTORY_STEPS_MAX: usize = 5_000;
/// Histories at least, unless one was asked for.
const HISTORIES_MIN: usize = 4;
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 250;
/// How often a failing history is run again to make it shorter.
const SHRINK_TRIES: usize = 200;

pub(crate) fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// With some seeds records are kept for ever; few transactions may lose at once.
pub(crate) fn settings(seed: u64) -> StoreSettings {
    let policy = Policy {
        retention_blocks: if seed.is_multiple_of(4) { 0 } else { 10 },
        coinbase_maturity: 3,
        unmined_retention_blocks: 4,
        conflict_walk_max: 8,
        height_jump_blocks_max: 144,
    };
    StoreSettings::default().with(|settings| settings.policy = policy)
}

fn memory(seed: u64) -> NodeStore {
    engines::memory(settings(seed)).store
}

/// One step on store and model; both must say and hold the same.
pub(crate) fn step(
    store: &NodeStore,
    model: &mut Model,
    op: &Op,
    known: &[Txid],
) -> Result<(), String> {
    let said = catch_unwind(AssertUnwindSafe(|| ops::apply(store, op)));
    let said = said.map_err(|_| format!("{op:?}\n  panicked"))?;
    let expected = model.apply(op);
    if said != expected {
        return Err(format!("{op:?}\n  said     {said}\n  expected {expected}"));
    }
    let touched = op.touched().unwrap_or_else(|| known.to_vec());
    compare(store, model, &touched, false).map_err(|error| format!("{op:?}\n  {error}"))
}

fn compare(store: &NodeStore, model: &Model, txids: &[Txid], body: bool) -> Result<(), String> {
    let stored = store.get(txids, Fields { body, slots: true }).unwrap();
    for (txid, stored) in txids.iter().zip(stored) {
        let expected = model.shown(txid);
        let found = stored.clone().map(|tx| (comparable(tx.record), tx.slots.unwrap()));
        if found != expected {
            return Err(format!("{txid} is {found:?}\n  expected {expected:?}"));
        }
        let bodies = stored.and_then(|tx| tx.body) == model.records.get(txid).map(|r| r.tx.clone());
        if body && !bodies {
            return Err(format!("{txid} has another body"));
        }
    }
    Ok(())
}

/// Everything that was ever named, and a recount, which must find exactly the inputs of the longest
/// chain that nobody marked as spent: callers may create a transaction and never spend what it spends.
/// Everything else that it finds is a mistake. A spender that was never stored is no mistake
/// here: `spend` takes it at the caller's word, and `verify` can only say that it does not know it.
pub(crate) fn look(store: &NodeStore, model: &Model, known: &[Txid]) -> Result<(), String> {
    compare(store, model, known, true)?;
    let report = store.verify().unwrap();
    let is_unknown = |finding: &&Finding| finding.detail.ends_with("unknown");
    // Nor is a block with two heights, a child below its parent or a spend far above its spender:
    // callers here make heights up.
    let is_made_up = |finding: &&Finding| {
        let made_up = ["block ", "it is mined at height ", "its newest spend is of height "];
        made_up.iter().any(|start| finding.detail.starts_with(start))
            && !finding.detail.ends_with("no output is spent")
    };
    let is_input = |finding: &&Finding| finding.detail.starts_with("input ");
    let (inputs, wrong): (Vec<_>, Vec<_>) =
        report.findings.iter().filter(|f| !is_unknown(f) && !is_made_up(f)).partition(is_input);
    if !wrong.is_empty() {
        return Err(format!("recounting finds {wrong:?}"));
    }
    // Those of one transaction are listed together; beyond the first hundred they are only counted.
    let expected = model.unmarked_inputs();
    let found: Vec<_> = inputs.iter().map(|f| (f.txid, f.detail.as_str())).collect();
    let is_expected = |(txid, detail): &(Txid, &str)| {
        expected.iter().any(|(of, vin)| of == txid && detail.starts_with(&format!("input {vin} ")))
    };
    let is_whole =
        report.findings_total > report.findings.len() as u64 || found.len() == expected.len();
    if is_whole && found.iter().all(is_expected) {
        return Ok(());
    }
    Err(format!("recounting finds {found:?}\n  expected {expected:?}"))
}

/// Runs a history on a new store; whether it fails, and where.
fn failure(seed: u64, store: &NodeStore, history: &[Op]) -> Option<(usize, String)> {
    let mut model = Model::new(settings(seed).policy);
    let mut known: Vec<Txid> = history.iter().filter_map(Op::touched).flatten().collect();
    known.sort_unstable();
    known.dedup();
    for (number, op) in history.iter().enumerate() {
        let mut outcome = step(store, &mut model, op, &known);
        if outcome.is_ok() && number + 1 == history.len() {
            outcome = look(store, &model, &known);
        }
        if let Err(error) = outcome {
            return Some((number, error));
        }
    }
    None
}

/// Leaves out earlier steps as long as the history still fails on stores that `make` makes.
fn shrink(seed: u64, mut history: Vec<Op>, make: &dyn Fn() -> NodeStore) -> String {
    let Some((last, mut error)) = failure(seed, &make(), &history) else {
        return "in memory the same history does not fail".to_owned();
    };
    history.truncate(last + 1);
    let mut tries = 0;
    // Large parts first: most of a long history has nothing to do with it.
    let mut width = history.len() / 2;
    while width > 0 && tries < SHRINK_TRIES {
        let mut at = 0;
        while at + width < history.len() && tries < SHRINK_TRIES {
            tries += 1;
            let mut shorter = history.clone();
            shorter.drain(at..at + width);
            match failure(seed, &make(), &shorter) {
                Some((last, why)) => {
                    shorter.truncate(last + 1);
                    (history, error) = (shorter, why);
                }
                None => at += width,
            }
        }
        width /= 2;
    }
    let mut text = format!("{} steps are enough:\n", history.len());
    for op in &history {
        writeln!(text, "  {op:?}").unwrap();
    }
    text + &error
}

/// Runs histories on an engine, with seeds that count up from the first. `open` gets the store to
/// open again, or `None` for a new one.
pub(crate) fn run(test: &str, first: u64, open: impl FnMut(u64, Option<NodeStore>) -> NodeStore) {
    run_part(test, first, 1, open);
}

/// The same with one of so many steps, on an engine that is slow.
pub(crate) fn run_part(
    test: &str,
    first: u64,
    of: usize,
    mut open: impl FnMut(u64, Option<NodeStore>) -> NodeStore,
) {
    let total = number("UTXOKEEP_STEPS").unwrap_or(STEPS).div_ceil(of);
    let asked = number("UTXOKEEP_SEED");
    let least = if asked.is_some() { 1 } else { HISTORIES_MIN };
    let histories = total.div_ceil(HISTORY_STEPS_MAX).max(least);
    let steps = total.div_ceil(histories);
    for seed in (asked.unwrap_or(first)..).take(histories) {
        let mut chooser = Chooser::new(seed);
        let mut model = Model::new(settings(seed).policy);
        let mut store = open(seed, None);
        let mut history = Vec::new();
        for number in 0..steps {
            let op = chooser.next(&model);
            history.push(op.clone());
            if matches!(op, Op::Reopen) {
                store = open(seed, Some(store));
            }
            let known = chooser.known();
            let mut outcome = step(&store, &mut model, &op, &known);
            if outcome.is_ok() && (number % LOOK_EVERY == LOOK_EVERY - 1 || number + 1 == steps) {
                outcome = look(&store, &model, &known);
            }
            if let Err(error) = outcome {
                let shorter = shrink(seed, history, &|| memory(seed));
                panic!(
                    "seed {seed}, step {number}: {error}\n\nrun it again: UTXOKEEP_SEED={seed} \
                     UTXOKEEP_STEPS={} cargo nextest run -p utxokeep-txstore --test it \
                     {test}\n\n{shorter}",
                    (number + 1) * of
                );
            }
        }
    }
}

#[test]
fn a_broken_rule_is_found_and_its_history_made_short() {
    let (seed, mut history) = (1, Vec::new());
    let mut chooser = Chooser::new(seed);
    let mut model = Model::new(settings(seed).policy);
    for _ in 0..500 {
        let op = chooser.next(&model);
        model.apply(&op);
        history.push(op);
    }
    assert!(shrink(seed, history.clone(), &|| memory(seed)).contains("does not fail"));
    let policy = Policy { coinbase_maturity: 4, ..settings(seed).policy };
    let broken = settings(seed).with(|settings| settings.policy = policy);
    let text = shrink(seed, history, &|| engines::memory(broken).store);
    assert!(text.starts_with("1 steps are enough"), "one coinbase shows it: {text}");
}

#[test]
fn steps_of_every_kind_succeed_and_fail() {
    let mut seen: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for seed in [1, 2, 3] {
        let mut chooser = Chooser::new(seed);
        let mut model = Model::new(settings(seed).policy);
        for _ in 0..2_000 {
            let op = chooser.next(&model);
            let said = model.apply(&op);
            let kind = format!("{op:?}").split('(').next().unwrap().to_owned();
            let (fine, refused) = seen.entry(kind).or_default();
            *fine += u32::from(said.contains("Ok(") || said.contains("Found"));
            *refused += u32::from(said.contains("Err(") || said.contains("invalid"));
        }
    }
    let both = [
        "Create", "Spend", "Unspend", "Both", "List", "Mine", "Mark", "Lock", "Conflict",
        "Process", "Freeze", "Unfreeze", "Reassign", "Views",
    ];
    for kind in both {
        let (fine, refused) = seen[kind];
        assert!(fine > 10 && refused > 0, "{kind}: {seen:?}");
    }
}
