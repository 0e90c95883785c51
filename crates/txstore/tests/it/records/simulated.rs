//! Actors over records that lose answers, delay and refuse writes, fail over and crash their users, at
//! every step: whatever happens, the invariants hold. Each rule of the commit is left out in turn, and
//! that is noticed.
//!
//! `UTXOKEEP_SIM_SEEDS` sets how many random schedules each scene sees, `UTXOKEEP_SEED` the first.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeTx, PruneRules, Pruned, SpendAndCreate,
        SpendFlags, SpendingData,
    },
};
use utxokeep_kv::OpenMode;
use utxokeep_records::{
    ReadCell, RecordStore, Versions,
    simulation::{
        Choices, Decision, Fault, Grain, Observer, Once, RandomSchedule, Rates, RoundRobin,
        Schedule, Simulation, SimulationSettings, Stall, Trace,
    },
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{
    Agreement, Fields, NodeStore, PruneStore, RecordContext, RecordFault, RecordFaults,
    RecordSettings, StoreSettings, TxStore,
};

const AT: Height = Height::new(5);
const WINDOW: u32 = 288;

/// Many shards, where a barrier covers little, or few, where cells share one.
fn settings(seed: u64) -> RecordSettings {
    RecordSettings::default().with(|settings| {
        settings.shards = if seed.is_multiple_of(2) { 2 } else { 8 };
        settings.outputs_per_record = 2;
        settings.call_deadline_ms = 2_000;
        settings.wait_ms_max = 6_000;
        settings.attempts_max = 20;
        settings.resends_max = 6;
        settings.clock_refresh_ms = 0;
        settings.aborted_ttl_ms = 12_000;
    })
}

/// Servers that refuse late writes, and some that do not: calls take other steps there.
const fn refuses_late_writes(seed: u64) -> bool {
    !seed.is_multiple_of(3)
}

fn open(
    port: Arc<dyn RecordStore>,
    seed: u64,
    versions: Versions,
    faults: &RecordFaults,
) -> Option<NodeStore> {
    let context = RecordContext {
        versions: Arc::new(versions),
        hostname: "simulated".to_owned(),
        process_id: 1,
        faults: faults.clone(),
    };
    let store = StoreSettings::default().with(|settings| settings.agreement = Agreement::Ignore);
    NodeStore::on_records(port, store, settings(seed), context, OpenMode::Create).ok()
}

/// What actors were told, by their names.
type Told = Arc<Mutex<BTreeMap<&'static str, bool>>>;

/// What an actor does; answers whether it was told of success.
type Act = fn(&NodeStore, &Cast) -> bool;

/// Everything that a scene is about.
#[derive(Clone)]
struct Cast {
    /// Spent by `parent`, mined long ago, and due.
    grandparent: NodeTx,
    parent: NodeTx,
    other: NodeTx,
    /// Spends an output of `parent` and one of `other`.
    child: NodeTx,
    /// Spends the same, the other way round.
    rival: NodeTx,
    /// Spends another output of `parent`, and has three records.
    large: NodeTx,
    /// Spends outputs of `large` on two of its records.
    heir: NodeTx,
    /// Spends an output of `other`, was mined long ago, and is due.
    old: NodeTx,
    /// Spends `old`, and was mined long ago.
    leaf: NodeTx,
}

impl Cast {
    fn new() -> Self {
        let grandparent = seed(1, &[9]);
        let parent = spending(2, &[(&grandparent, 0)], &[9, 9]);
        let other = seed(200, &[9, 9]);
        let child = spending(3, &[(&parent, 0), (&other, 0)], &[4]);
        let rival = spending(201, &[(&other, 0), (&parent, 0)], &[4]);
        let large = spending(4, &[(&parent, 1)], &[1; 5]);
        let heir = spending(202, &[(&large, 0), (&large, 4)], &[1]);
        let old = spending(240, &[(&other, 1)], &[4]);
        let leaf = spending(120, &[(&old, 0)], &[4]);
        Self { grandparent, parent, other, child, rival, large, heir, old, leaf }
    }

    /// The state before anybody acts.
    fn prepare(&self, store: &NodeStore) {
        let mined = vec![MinedBlock { id: 1, height: Height::new(1), subtree: 0 }];
        let long_ago = CreateOptions { mined, ..CreateOptions::default() };
        let create = |tx: &NodeTx, options: &CreateOptions| {
            let answer = store.create(&[(tx.clone(), options.clone())], Height::new(1)).unwrap();
            for one in answer {
                one.unwrap();
            }
        };
        let flags = SpendFlags::default();
        create(&self.grandparent, &long_ago);
        create(&self.other, &CreateOptions::default());
        assert!(take(store, &self.parent));
        for tx in [&self.old, &self.leaf] {
            let how = SpendAndCreate { spend_only: false, create_only: false, flags };
            let stored = store.spend_and_create(tx, Height::new(1), how, &long_ago);
            stored.unwrap().unwrap();
        }
    }
}

fn take(store: &NodeStore, tx: &NodeTx) -> bool {
    let how =
        SpendAndCreate { spend_only: false, create_only: false, flags: SpendFlags::default() };
    matches!(store.spend_and_create(tx, AT, how, &CreateOptions::default()), Ok(Ok(_)))
}

/// Everything in one commit.
fn take_list(store: &NodeStore, txs: &[&NodeTx]) -> bool {
    let list: Vec<_> = txs.iter().map(|tx| ((*tx).clone(), CreateOptions::default())).collect();
    let answers = store.spend_and_create_list(&list, AT, SpendFlags::default());
    matches!(answers, Ok(Ok(answers)) if answers.iter().all(Result::is_ok))
}

fn mine(store: &NodeStore, txid: Txid) -> bool {
    mine_in(store, txid, 7)
}

fn mine_in(store: &NodeStore, txid: Txid, id: u32) -> bool {
    let info = MinedInfo {
        block: MinedBlock { id, height: Height::new(7), subtree: 0 },
        on_longest_chain: true,
        unset: false,
        unmined_since: Height::new(7),
    };
    store.set_mined(&[txid], &info).is_ok_and(|mut answers| answers.remove(0).is_ok())
}

fn prune(store: &NodeStore, tx: &NodeTx) -> bool {
    let rules = PruneRules::at(Height::new(7 + WINDOW), WINDOW);
    let pruned = store.prune(&[tx.txid], &rules);
    matches!(pruned, Ok(Ok(answers)) if matches!(answers[0], Pruned::Deleted { .. }))
}

/// Actors who meet.
struct Scene {
    name: &'static str,
    actors: &'static [(&'static str, Act)],
}

const SCENES: [Scene; 7] = [
    Scene {
        name: "two rivals",
        actors: &[
            ("child", |store, cast| take(store, &cast.child)),
            ("rival", |store, cast| take(store, &cast.rival)),
        ],
    },
    Scene {
        name: "two miners of one transaction, whose record is all that each of them changes",
        actors: &[
            ("miner of parent", |store, cast| mine(store, cast.parent.txid)),
            ("miner in another block", |store, cast| mine_in(store, cast.parent.txid, 8)),
        ],
    },
    Scene {
        name: "a pruner of a transaction, and one who stores it again",
        actors: &[
            ("pruner of old", |store, cast| prune(store, &cast.old)),
            ("old again", |store, cast| {
                let items = [(cast.old.clone(), CreateOptions::default())];
                store.create(&items, AT).is_ok_and(|mut answers| answers.remove(0).is_ok())
            }),
        ],
    },
    Scene {
        name: "two attempts at a transaction, a rival, a recoverer and a miner",
        actors: &[
            ("child", |store, cast| take(store, &cast.child)),
            ("child again", |store, cast| take(store, &cast.child)),
            ("rival", |store, cast| take(store, &cast.rival)),
            ("recoverer", |store, _| store.end_unfinished(10).is_ok()),
            ("miner of child", |store, cast| mine(store, cast.child.txid)),
        ],
    },
    Scene {
        name: "a large transaction and its spender in one list, another creation of it, a recoverer",
        actors: &[
            ("list", |store, cast| take_list(store, &[&cast.large, &cast.heir])),
            ("large again", |store, cast| take(store, &cast.large)),
            ("recoverer", |store, _| store.end_unfinished(10).is_ok()),
        ],
    },
    Scene {
        name: "a pruner, a miner of its child, and a recoverer",
        actors: &[
            ("pruner", |store, cast| prune(store, &cast.grandparent)),
            ("miner of parent", |store, cast| mine(store, cast.parent.txid)),
            ("recoverer", |store, _| store.end_unfinished(10).is_ok()),
        ],
    },
    Scene {
        name: "two creations of a large transaction, its spender, a miner and a recoverer",
        actors: &[
            ("large", |store, cast| take(store, &cast.large)),
            ("large again", |store, cast| take(store, &cast.large)),
            ("heir", |store, cast| take(store, &cast.heir)),
            ("miner of large", |store, cast| mine(store, cast.large.txid)),
            ("recoverer", |store, _| store.end_unfinished(10).is_ok()),
        ],
    },
];

/// The spender of an output.
fn spender(store: &NodeStore, tx: &NodeTx, vout: usize) -> Option<Txid> {
    let fields = Fields { body: false, slots: true };
    let found = store.get(&[tx.txid], fields).unwrap().remove(0)?;
    found.slots.unwrap()[vout]?.spent_by().map(|SpendingData { txid, .. }| txid)
}

fn is_stored(store: &NodeStore, tx: &NodeTx) -> bool {
    store.get(&[tx.txid], Fields::default()).unwrap().remove(0).is_some()
}

/// What must hold, whatever happened.
fn check(seed: u64, observer: &Observer, cast: &Cast, told: &BTreeMap<&'static str, bool>) {
    // One visit behind every deadline ends everything.
    observer.advance_ms(400_000);
    let store =
        open(Arc::new(observer.clone()), seed, Versions::seeded(99), &RecordFaults::default());
    let store = store.unwrap();
    store.end_unfinished(1_000).unwrap();
    let was_told = |name: &str| told.get(name).copied().unwrap_or(false);
    let inputs = |tx: &NodeTx| -> Vec<OutPoint> { tx.spends().map(|i| i.outpoint).collect() };
    let parents: Vec<&NodeTx> = vec![&cast.parent, &cast.other, &cast.large];
    for tx in [&cast.child, &cast.rival, &cast.large, &cast.heir] {
        let is_there = is_stored(&store, tx);
        for outpoint in inputs(tx) {
            let parent = parents.iter().find(|parent| parent.txid == *outpoint.txid()).unwrap();
            let by = spender(&store, parent, outpoint.index() as usize);
            assert_eq!(by == Some(tx.txid), is_there, "{} and {outpoint}: {by:?}", tx.txid);
        }
    }
    let stored = |name: &str, tx: &NodeTx| {
        assert!(!was_told(name) || is_stored(&store, tx), "{name} was told of success");
    };
    stored("child", &cast.child);
    stored("child again", &cast.child);
    stored("rival", &cast.rival);
    stored("large", &cast.large);
    stored("large again", &cast.large);
    stored("heir", &cast.heir);
    stored("list", &cast.large);
    stored("list", &cast.heir);
    let mined = |name: &str, tx: &NodeTx| {
        let found = store.get(&[tx.txid], Fields::default()).unwrap().remove(0);
        let is_mined = found.is_some_and(|found| found.record.blocks.iter().any(|b| b.id == 7));
        assert!(!was_told(name) || is_mined, "{name} was told of success");
        is_mined
    };
    mined("miner of child", &cast.child);
    mined("miner of large", &cast.large);
    let is_parent_mined = mined("miner of parent", &cast.parent);
    let is_pruned = !is_stored(&store, &cast.grandparent);
    assert!(is_pruned || !was_told("pruner"), "the pruner was told of success");
    assert!(!is_pruned || is_parent_mined, "a parent went before its child was mined");
    let other = store.get(&[cast.other.txid], Fields::default()).unwrap().remove(0).unwrap();
    let is_marked = other.record.deleted_children > 0;
    assert_eq!(is_stored(&store, &cast.old), !is_marked, "a pruned transaction came back");
    assert!(is_marked || !was_told("pruner of old"), "the pruner was told of success");
    let heir_is_there = is_stored(&store, &cast.heir);
    let large = store.get(&[cast.large.txid], Fields::default()).unwrap().remove(0);
    // Where one commit stored both, every page was there before it.
    let is_incomplete = large.is_none_or(|large| large.record.is_creating);
    assert!(
        !heir_is_there || !is_incomplete || are_of_one_call(observer, &cast.large, &cast.heir),
        "an output of an incomplete transaction is spent"
    );
    if !is_stored(&store, &cast.large) {
        unmarked_pages_are_of_stored_ones(observer);
    }
    // Whoever comes next completes what is left.
    let _ = take(&store, &cast.large);
    settled(observer, &store);
}

/// Whether one call created both.
fn are_of_one_call(observer: &Observer, one: &NodeTx, other: &NodeTx) -> bool {
    let creator = |tx: &NodeTx| {
        let name = [b"u".as_slice(), tx.txid.as_bytes()].concat();
        let key = observer.keys().into_iter().find(|key| key.name == name)?;
        let cell = observer.read(&[ReadCell::all(key)]).unwrap().remove(0)?;
        cell.get(b"c").map(<[u8]>::to_vec)
    };
    creator(one).is_some() && creator(one) == creator(other)
}

/// Pages that a creation left before its commit say so themselves, whoever looks at them alone.
fn unmarked_pages_are_of_stored_ones(observer: &Observer) {
    for key in observer.keys() {
        // The last number is that of the creation lock.
        let is_page = key.name.len() == 37 && !key.name.ends_with(&[0xff; 4]);
        if is_page
            && let Some(cell) = observer.read(&[ReadCell::all(key.clone())]).unwrap().remove(0)
        {
            assert!(cell.get(b"g").is_some(), "{key} has no master and is not marked");
        }
    }
}

/// Nothing is left of any call.
fn settled(observer: &Observer, store: &NodeStore) {
    observer.advance_ms(2 * settings(0).aborted_ttl_ms);
    let keys = observer.keys();
    for key in &keys {
        let read = ReadCell::all(key.clone());
        let Some(cell) = observer.read(&[read]).unwrap().remove(0) else { continue };
        // Pages of a creation that nobody completed stay, for whoever creates it.
        let is_page = key.name.len() == 37;
        // A staging that arrived when its call was over is void, and goes with the next visit.
        if let Some(staging) = cell.get(b"s") {
            let status = [b"t".as_slice(), &staging[2..22]].concat();
            let is_void = keys.iter().all(|key| key.name != status);
            assert!(is_void, "{key} is staged");
        }
        assert!(cell.get(b"g").is_none() || is_page, "{key} is marked");
    }
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

/// Plays a scene once; answers what broke.
fn play(
    scene: &Scene,
    seed: u64,
    grain: Grain,
    fault: Option<RecordFault>,
    schedule: &mut dyn Schedule,
) -> Result<(), (String, Trace)> {
    let scale = SimulationSettings {
        grain,
        steps_max: 4_000,
        refuses_late_writes: refuses_late_writes(seed),
        ..SimulationSettings::default()
    };
    let mut simulation = Simulation::with(seed, scale);
    let observer = simulation.observer();
    let (cast, faults) = (Cast::new(), RecordFaults::default());
    let port = Arc::new(observer.clone());
    let before = open(port, seed, Versions::seeded(98), &faults).unwrap();
    cast.prepare(&before);
    if seed % 3 == 1 {
        // So that calls have keys that do not fit beside their status.
        faults.keep_keys_beside_status(1);
    }
    if let Some(fault) = fault {
        faults.plant(fault);
    }
    let told = Told::default();
    for (name, act) in scene.actors {
        let (told, cast, faults) = (Arc::clone(&told), cast.clone(), faults.clone());
        simulation.spawn(name, move |port, versions| {
            let done = open(Arc::new(port), seed, versions, &faults)
                .is_some_and(|store| act(&store, &cast));
            told.lock().unwrap().insert(name, done);
        });
    }
    let trace = simulation.run(schedule);
    simulation.deliver_delayed();
    let told = told.lock().unwrap().clone();
    let checked = catch_unwind(AssertUnwindSafe(|| check(seed, &observer, &cast, &told)));
    checked.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (format!("{}: {}\ntold: {told:?}", scene.name, text.unwrap_or_default()), trace)
    })
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap())
    };
    let first = number("UTXOKEEP_SEED", 0);
    first..first + number("UTXOKEEP_SIM_SEEDS", default)
}

/// A schedule that lets something happen at one step, and says whether the step was reached.
trait Strikes: Schedule {
    fn has_struck(&self) -> bool;
}

impl Strikes for Stall {
    fn has_struck(&self) -> bool {
        self.has_stalled()
    }
}

/// One actor stops after so many of its steps while the others act; then every shard loses what no
/// barrier covers, and the actor comes back, or does not.
struct StallsAndLoses {
    stall: Stall,
    actor: usize,
    comes_back: bool,
    loses_first: bool,
    has_lost: bool,
}

impl StallsAndLoses {
    fn new(actor: usize, after: usize, comes_back: bool, loses_first: bool) -> Self {
        let stall = Stall::new(actor, after, 10_000);
        Self { stall, actor, comes_back, loses_first, has_lost: false }
    }
}

impl Schedule for StallsAndLoses {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let others_are_done = choices.calls.iter().all(|call| call.actor == self.actor);
        let is_time = if self.loses_first { true } else { others_are_done };
        if self.stall.has_stalled() && is_time && !self.has_lost {
            if let Some(&(shard, _)) = choices.unacknowledged.first() {
                return Some(Decision::FailOver { shard, keep: 0 });
            }
            self.has_lost = true;
        }
        if self.stall.has_stalled() && others_are_done && !self.comes_back {
            return None;
        }
        self.stall.next(choices)
    }
}

impl Strikes for StallsAndLoses {
    fn has_struck(&self) -> bool {
        self.stall.has_stalled()
    }
}

/// A write of one actor is held up on its way. The actor goes on until it waits, and stops there; the
/// others act, and so much time passes that an aborted call is forgotten. Then the actor comes back.
struct HoldsUp {
    actor: usize,
    after: usize,
    has_struck: bool,
    has_stopped: bool,
    has_passed: bool,
    others: RoundRobin,
}

impl HoldsUp {
    fn new(actor: usize, after: usize) -> Self {
        let others = RoundRobin::default();
        Self { actor, after, has_struck: false, has_stopped: false, has_passed: false, others }
    }
}

impl Schedule for HoldsUp {
    fn next(&mut self, choices: &Choices) -> Option<Decision> {
        let own = choices.calls.iter().find(|call| call.actor == self.actor);
        if let Some(own) = own.filter(|_| !self.has_stopped) {
            let (actor, unit) = (own.actor, own.next_unit());
            if own.taken >= self.after && own.is_write && !self.has_struck {
                self.has_struck = true;
                return Some(Decision::Delay { actor, unit });
            }
            if !(self.has_struck && own.is_pause) {
                return Some(Decision::Step { actor, unit });
            }
        }
        self.has_stopped = true;
        let mut others = choices.clone();
        others.calls.retain(|call| call.actor != self.actor);
        if let Some(decision) = self.others.next(&others) {
            return Some(decision);
        }
        if !self.has_passed {
            self.has_passed = true;
            return Some(Decision::Advance { ms: 2 * settings(0).aborted_ttl_ms });
        }
        own.map(|own| Decision::Step { actor: own.actor, unit: own.next_unit() })
    }
}

impl Strikes for HoldsUp {
    fn has_struck(&self) -> bool {
        self.has_struck
    }
}

impl Strikes for Once<RoundRobin> {
    fn has_struck(&self) -> bool {
        Once::has_struck(self)
    }
}

/// Plays every scene with a strike at every step of every actor, up to a bound.
fn at_every_step<S: Strikes>(
    fault: Option<RecordFault>,
    make: impl Fn(usize, usize) -> S,
) -> Result<usize, String> {
    const STEPS_MAX: usize = 400;
    let mut runs = 0;
    for (seed, scene) in
        [1, 2, 3].into_iter().flat_map(|seed| SCENES.iter().map(move |s| (seed, s)))
    {
        for actor in 0..scene.actors.len() {
            for after in 0..STEPS_MAX {
                let mut schedule = make(actor, after);
                runs += 1;
                play(scene, seed, Grain::Shard, fault, &mut schedule).map_err(
                    |(text, trace)| format!("actor {actor}, step {after}: {text}\n{trace}"),
                )?;
                if !schedule.has_struck() {
                    break;
                }
            }
        }
    }
    Ok(runs)
}

/// Random orders and faults.
fn at_random(
    fault: Option<RecordFault>,
    rates: Rates,
    seeds: std::ops::Range<u64>,
) -> Result<(), String> {
    for seed in seeds {
        for scene in &SCENES {
            let grain = if seed % 2 == 0 { Grain::Cell } else { Grain::Shard };
            let mut schedule = RandomSchedule::new(seed, rates);
            play(scene, seed, grain, fault, &mut schedule)
                .map_err(|(text, trace)| format!("seed {seed}: {text}\n{trace}"))?;
        }
    }
    Ok(())
}

#[test]
fn an_actor_that_stalls_at_any_step_and_comes_back_breaks_nothing() {
    let runs = at_every_step(None, |actor, after| Stall::new(actor, after, 10_000));
    assert!(runs.unwrap_or_else(|broken| panic!("{broken}")) > 100);
}

#[test]
fn an_actor_that_crashes_at_any_step_breaks_nothing() {
    let make = |actor, after| Once::new(actor, after, Fault::Crash, RoundRobin::default());
    at_every_step(None, make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn an_answer_that_is_lost_at_any_step_breaks_nothing() {
    let make = |actor, after| Once::new(actor, after, Fault::LoseAnswer, RoundRobin::default());
    at_every_step(None, make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_write_that_is_late_at_any_step_breaks_nothing() {
    let make = |actor, after| Once::new(actor, after, Fault::Delay, RoundRobin::default());
    at_every_step(None, make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_write_that_is_held_up_until_its_call_is_forgotten_breaks_nothing() {
    at_every_step(None, HoldsUp::new).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn shards_that_fail_over_at_any_step_break_nothing() {
    let make = |actor, after| Once::new(actor, after, Fault::FailOver, RoundRobin::default());
    at_every_step(None, make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn shards_that_fail_over_while_an_actor_stalls_break_nothing() {
    for (comes_back, loses_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let make = |actor, after| StallsAndLoses::new(actor, after, comes_back, loses_first);
        at_every_step(None, make).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn no_random_schedule_breaks_an_invariant() {
    at_random(None, Rates::ALL, seeds(150)).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn no_random_order_breaks_an_invariant() {
    at_random(None, Rates::NONE, seeds(60)).unwrap_or_else(|broken| panic!("{broken}"));
}

/// A rule that is left out is noticed by one kind of schedule or the other.
fn is_caught(fault: RecordFault) {
    let fault = Some(fault);
    let stall = || at_every_step(fault, |actor, after| Stall::new(actor, after, 10_000)).is_err();
    let crash = || {
        let make = |actor, after| Once::new(actor, after, Fault::Crash, RoundRobin::default());
        at_every_step(fault, make).is_err()
    };
    let fail_over = || {
        let make = |actor, after| Once::new(actor, after, Fault::FailOver, RoundRobin::default());
        at_every_step(fault, make).is_err()
    };
    let both = || {
        [(true, true), (true, false), (false, true), (false, false)].into_iter().any(|how| {
            let make = |actor, after| StallsAndLoses::new(actor, after, how.0, how.1);
            at_every_step(fault, make).is_err()
        })
    };
    let delay = || {
        let make = |actor, after| Once::new(actor, after, Fault::Delay, RoundRobin::default());
        at_every_step(fault, make).is_err()
    };
    let random = || at_random(fault, Rates::ALL, 0..400).is_err();
    let order = || at_random(fault, Rates::NONE, 0..400).is_err();
    let held_up = || at_every_step(fault, HoldsUp::new).is_err();
    let is_caught = stall() || held_up() || both() || crash() || fail_over();
    let is_caught = is_caught || delay() || random() || order();
    assert!(is_caught, "nobody noticed");
}

/// Makes a test of each rule that is left out.
macro_rules! caught {
    ($($name:ident: $fault:ident,)+) => {
        $(#[test] fn $name() { is_caught(RecordFault::$fault); })+
    };
}

caught! {
    undoing_by_ones_own_fence_is_caught: UndoByFence,
    a_status_that_goes_before_its_stagings_is_caught: StatusGoesFirst,
    a_tentative_record_that_others_see_is_caught: TentativeSeen,
    a_staging_that_is_ignored_is_caught: StagingIgnored,
    staging_without_a_barrier_is_caught: StagedWithoutBarrier,
    committing_without_a_barrier_is_caught: CommittedWithoutBarrier,
    aborting_without_a_barrier_is_caught: AbortedWithoutBarrier,
    rolling_forward_without_a_barrier_is_caught: FinalWithoutBarrier,
    reads_that_are_not_validated_are_caught: ReadsNotValidated,
    reads_that_decide_are_caught: ReadsDecide,
    versions_that_count_are_caught: VersionsCount,
    absence_that_decides_is_caught: AbsenceDecides,
    a_status_that_is_taken_however_late_is_caught: LateStatusTaken,
    a_lost_answer_that_counts_without_the_mark_is_caught: MarkNotLookedFor,
    a_call_with_a_status_for_each_part_is_caught: StatusForEachPart,
    pages_that_lose_their_mark_before_the_commit_are_caught: PagesClearedEarly,
    rows_that_change_with_the_staging_are_caught: RowsAtStaging,
}
