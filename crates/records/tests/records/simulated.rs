//! The simulation itself: the same each time, and able to break what is broken.

use std::sync::{Arc, Mutex};

use utxokeep_records::{
    Barrier, Key, ReadCell, RecordError, RecordStore, Version, Versions, WriteCell, Written,
    simulation::{
        Explorer, Fault, Grain, Once, Plan, RandomSchedule, Rates, RoundRobin, Schedule,
        SimulatedRecords, Simulation, SimulationSettings, Stall, Trace,
    },
};

/// How a writer goes about its work.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// It names the version that it read, and leaves a mark by which it knows its own work again.
    Careful,
    /// The version is read anew, after the decision was made on the old value.
    ReadsLate,
    /// A write that was in doubt and is not there now is taken for one that never happened.
    LeavesNoMark,
}

/// Adds 1 to a counter in a cell.
fn increment(store: &SimulatedRecords, versions: &Versions, way: Way) -> Option<Written> {
    let key = Key::new(1, "counter");
    let mark = [&b"by"[..], &versions.next().to_bytes()].concat();
    for _ in 0..20 {
        let cell = match store.read(&[ReadCell::all(key.clone())]) {
            Ok(mut cells) => cells.remove(0)?,
            Err(RecordError::Unavailable { .. }) => continue,
            Err(_) => return None,
        };
        let mut read = cell.version;
        if way == Way::ReadsLate {
            let again = store.read(&[ReadCell::version(key.clone())]).ok()?.remove(0)?;
            read = again.version;
        }
        let n = u64::from_be_bytes(cell.get(b"n")?.try_into().ok()?);
        let mut write = WriteCell::update(key.clone(), read, versions.next());
        if way != Way::LeavesNoMark {
            write = write.set(mark.clone(), "");
        }
        // Its own mark is there: only the version is new, so that a barrier makes it safe.
        if cell.get(&mark).is_none() {
            write = write.set("n", (n + 1).to_be_bytes());
        }
        loop {
            match store.write(std::slice::from_ref(&write), Barrier::Safe).ok()?.remove(0) {
                Written::Mismatch(_) => break,
                Written::InDoubt => store.pause_ms(10),
                done => return Some(done),
            }
        }
    }
    None
}

/// Three actors add 1 each; gives what they were told, what is there, and the trace.
fn count(seed: u64, way: Way, schedule: &mut dyn Schedule) -> (u64, u64, Trace) {
    let mut simulation = Simulation::new(seed);
    let store = simulation.observer();
    let create = WriteCell::create(Key::new(1, "counter"), Version::new(7));
    let create = create.set("n", 0_u64.to_be_bytes());
    assert_eq!(store.write(&[create], Barrier::Safe).unwrap(), [Written::Done]);
    let told = Arc::new(Mutex::new(0));
    for name in ["first", "second", "third"] {
        let told = Arc::clone(&told);
        simulation.spawn(name, move |store, versions| {
            if increment(&store, &versions, way) == Some(Written::Done) {
                *told.lock().unwrap() += 1;
            }
        });
    }
    let trace = simulation.run(schedule);
    let cell = store.read(&[ReadCell::all(Key::new(1, "counter"))]).unwrap().remove(0).unwrap();
    let found = u64::from_be_bytes(cell.get(b"n").unwrap().try_into().unwrap());
    let told = *told.lock().unwrap();
    (told, found, trace)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let run = || count(seed, Way::Careful, &mut RandomSchedule::new(seed, Rates::ALL));
        let (first, again) = (run(), run());
        assert_eq!(first, again, "seed {seed}");
    }
    let other = count(1, Way::Careful, &mut RandomSchedule::new(2, Rates::ALL)).2;
    assert_ne!(count(1, Way::Careful, &mut RandomSchedule::new(1, Rates::ALL)).2, other);
}

#[test]
fn careful_writers_lose_nothing_that_they_were_told_is_safe() {
    for seed in 0..300 {
        let schedule = &mut RandomSchedule::new(seed, Rates::ALL);
        let (told, found, trace) = count(seed, Way::Careful, schedule);
        // Who crashed, or heard nothing, may have written; a lost answer must not count twice.
        assert!(told <= found && found <= 3, "seed {seed}: {told} told, {found} found\n{trace}");
    }
    let (told, found, trace) = count(1, Way::Careful, &mut RoundRobin::default());
    assert_eq!((told, found, trace.is_complete), (3, 3, true));
}

#[test]
fn careless_writers_are_caught_by_every_kind_of_schedule() {
    let mut caught = 0;
    for seed in 0..100 {
        let (told, found, _) =
            count(seed, Way::ReadsLate, &mut RandomSchedule::new(seed, Rates::NONE));
        caught += u32::from(told > found);
    }
    assert!(caught > 5, "random orders: {caught}");
    let mut stalled = 0;
    for after in 0.. {
        let mut schedule = Stall::new(0, after, 1_000);
        let (told, found, _) = count(1, Way::ReadsLate, &mut schedule);
        if !schedule.has_stalled() {
            assert_eq!(after, 4, "read, read, write, barrier");
            break;
        }
        stalled += u32::from(told > found);
    }
    assert!(stalled > 0);
    let plan = Plan { preemptions_max: 1, faults_max: 0, runs_max: 1_000 };
    let (mut explorer, mut broken) = (Explorer::new(plan), 0);
    while explorer.begin() {
        let (told, found, _) = count(1, Way::ReadsLate, &mut explorer);
        broken += u32::from(told > found);
    }
    assert!(broken > 0 && explorer.runs() < 1_000, "{broken} of {}", explorer.runs());
}

#[test]
fn writers_who_do_not_know_their_own_work_again_are_caught() {
    let mut caught = 0;
    for seed in 0..300 {
        let mut schedule = RandomSchedule::new(seed, Rates::ALL);
        caught += u32::from(count(seed, Way::LeavesNoMark, &mut schedule).1 > 3);
    }
    assert!(caught > 0, "random faults");
    let plan = Plan { preemptions_max: 1, faults_max: 1, runs_max: 3_000 };
    let mut explorer = Explorer::new(plan);
    let mut broken = 0;
    while explorer.begin() {
        broken += u32::from(count(1, Way::LeavesNoMark, &mut explorer).1 > 3);
    }
    assert!(broken > 0, "of {} schedules", explorer.runs());
}

#[test]
fn careful_writers_stand_every_schedule_within_a_bound() {
    let plan = Plan { preemptions_max: 2, faults_max: 1, runs_max: 3_000 };
    let mut explorer = Explorer::new(plan);
    while explorer.begin() {
        let (told, found, trace) = count(1, Way::Careful, &mut explorer);
        assert!(told <= found && found <= 3, "{told} told, {found} found\n{trace}");
    }
    assert!(explorer.runs() > 500, "{}", explorer.runs());
}

#[test]
fn every_fault_strikes_at_every_step() {
    for fault in Fault::ALL {
        let mut struck = 0;
        for after in 0.. {
            let mut schedule = Once::new(1, after, fault, RoundRobin::default());
            let (told, found, trace) = count(3, Way::Careful, &mut schedule);
            assert!(told <= found && found <= 3, "{fault:?} after {after}\n{trace}");
            assert!(trace.is_complete, "{fault:?} after {after}\n{trace}");
            if !schedule.has_struck() {
                break;
            }
            struck += 1;
        }
        assert!(struck >= 3, "{fault:?}: {struck}");
    }
}

/// Writes two cells of two shards, the first without a barrier.
fn two_writes(fault: Fault, after: usize) -> (Vec<Written>, [bool; 2], Trace) {
    let mut simulation = Simulation::new(5);
    let store = simulation.observer();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&answers);
    simulation.spawn("writer", move |store, versions| {
        for (shard, barrier) in [(1, Barrier::None), (1, Barrier::Safe), (2, Barrier::None)] {
            let key = Key::new(shard, format!("{barrier:?}"));
            let write = WriteCell::create(key, versions.next());
            if let Ok(written) = store.write(&[write], barrier) {
                told.lock().unwrap().extend(written);
            }
        }
    });
    let mut schedule = Once::new(0, after, fault, RoundRobin::default());
    let trace = simulation.run(&mut schedule);
    let read = |shard, name: &str| {
        store.read(&[ReadCell::version(Key::new(shard, name))]).unwrap()[0].is_some()
    };
    let found = [read(1, "None"), read(2, "None")];
    let answers = answers.lock().unwrap().clone();
    (answers, found, trace)
}

#[test]
fn a_failover_loses_what_no_barrier_covers_and_says_so_where_one_was_awaited() {
    // Before the second write: the first is lost although it was answered.
    let (answers, found, trace) = two_writes(Fault::FailOver, 1);
    assert_eq!((answers, found), (vec![Written::Done; 3], [false, true]), "{trace}");
    // Between the second write and its barrier: it is in doubt.
    let (answers, found, trace) = two_writes(Fault::FailOver, 2);
    assert_eq!(answers, [Written::Done, Written::InDoubt, Written::Done], "{trace}");
    assert_eq!(found, [false, true]);
    // Behind the barrier: it covers the first write of its shard too.
    let (answers, found, trace) = two_writes(Fault::FailOver, 3);
    assert_eq!((answers, found), (vec![Written::Done; 3], [true, true]), "{trace}");
}

#[test]
fn a_crash_leaves_writes_that_may_still_arrive_and_no_call_works_after_it() {
    let (answers, found, trace) = two_writes(Fault::Crash, 1);
    assert_eq!((answers, found), (vec![Written::Done], [true, false]), "{trace}");
    assert!(trace.is_complete, "a crashed actor has ended");
    let (answers, ..) = two_writes(Fault::Refuse, 0);
    assert_eq!(answers[0], Written::Unavailable);
    let (answers, found, _) = two_writes(Fault::Delay, 0);
    assert_eq!((answers[0], found[0]), (Written::InDoubt, false));
    let (answers, found, _) = two_writes(Fault::LoseAnswer, 0);
    assert_eq!((answers[0], found[0]), (Written::InDoubt, true));
}

#[test]
fn delayed_writes_arrive_after_the_run_on_demand() {
    let mut simulation = Simulation::with(
        1,
        SimulationSettings { grain: Grain::Shard, ..SimulationSettings::default() },
    );
    let store = simulation.observer();
    simulation.spawn("writer", |store, versions| {
        let write = WriteCell::create(Key::new(1, "late"), versions.next());
        assert_eq!(store.write(&[write], Barrier::Safe).unwrap(), [Written::InDoubt]);
    });
    simulation.run(&mut Once::new(0, 0, Fault::Delay, RoundRobin::default()));
    assert!(store.keys().is_empty());
    assert_eq!(simulation.deliver_delayed(), 1);
    assert_eq!(store.keys(), [Key::new(1, "late")]);
    assert_eq!(store.unacknowledged(1), 1);
}

#[test]
fn a_run_that_does_not_end_is_cut_off() {
    let mut simulation =
        Simulation::with(1, SimulationSettings { steps_max: 100, ..SimulationSettings::default() });
    simulation.spawn("endless", |store, _| while store.now_ms(1).is_ok() {});
    let trace = simulation.run(&mut RoundRobin::default());
    assert!(!trace.is_complete && trace.lines.len() < 110);
}

#[test]
#[should_panic(expected = "as planned")]
fn a_panic_of_an_actor_is_one_of_the_test() {
    let mut simulation = Simulation::new(1);
    simulation.spawn("waits", |store, _| drop(store.now_ms(1)));
    simulation.spawn("panics", |store, _| {
        drop(store.now_ms(1));
        panic!("as planned");
    });
    simulation.run(&mut RoundRobin::default());
}
