//! A catch-up of an index that was off, killed at any moment: it goes on where it was, and ends with
//! the tables of a database that was never off.

use serde_json::Value;

use crate::crash::{
    MUHASH, Moments,
    program::{Ended, Program},
    story::Story,
};

const KILLS: u32 = 25;
/// Runs after which a catch-up that dies every few commits must have arrived.
#[cfg(debug_assertions)]
const RUNS_MAX: usize = 150;

/// The same database, switched off.
fn off() -> String {
    MUHASH.replace("[index]\n", "[index]\nenabled = false\n")
}

fn on() -> String {
    MUHASH.replace("[index]\n", "[index]\nenabled = true\n")
}

/// A database whose index has the first blocks, and whose log has all.
fn behind(story: &Story) -> Program {
    let base = Program::new(&on());
    let part = story.first_part();
    base.json(&["chain", "import", &part]);
    let off = base.copy(&off());
    off.json(&story.import());
    let status = off.json(&["chain", "status"]);
    assert_eq!(status["index_state"], "off", "{status}");
    assert_eq!(status["height"], story.tip().height);
    assert!(status["index_height"].as_u64() < status["height"].as_u64(), "{status}");
    off.copy(&on())
}

/// Where the index stands, in a database without a fault.
fn stands_at(program: &Program) -> Option<u64> {
    assert_eq!(program.json(&["chain", "verify"])["clean"], true);
    let status = program.json(&["chain", "status"]);
    match status["index_state"].as_str().unwrap() {
        "on" => None,
        "catching_up" => Some(status["index_height"].as_u64().unwrap()),
        other => panic!("{other}"),
    }
}

fn never_off(story: &Story) -> (Value, super::program::Tables) {
    let program = Program::new(&on());
    program.json(&story.import());
    let outcome = program.outcome();
    (outcome.digest, outcome.tables)
}

#[test]
fn a_catch_up_killed_anywhere_goes_on_where_it_was() {
    let story = Story::light();
    let import = story.import();
    let expected = never_off(&story);
    let base = behind(&story);
    let whole = base.copy(&on());
    let mut moments = Moments::measure(0x0ff, &whole, &import, KILLS);
    whole.tables().assert_same(&expected.1);

    let mut program = base.copy(&on());
    let mut last = stands_at(&program).unwrap();
    while let Some(moment) = moments.next() {
        let ended = program.kill_during(&import, moment);
        let now = stands_at(&program);
        // It may undo a branch that the log has left before it goes up.
        let has_moved = now != Some(last);
        moments.note(ended, has_moved);
        if let (Ended::Killed, Some(now)) = (ended, now) {
            last = now;
        } else {
            program.json(&import);
            program.tables().assert_same(&expected.1);
            program = base.copy(&on());
            last = stands_at(&program).unwrap();
        }
    }
    program.json(&import);
    let outcome = program.outcome();
    assert_eq!(outcome.digest, expected.0);
    outcome.tables.assert_same(&expected.1);
    moments.finish();
}

#[cfg(debug_assertions)]
#[test]
fn a_catch_up_that_dies_every_few_commits_arrives_all_the_same() {
    let story = Story::light();
    let import = story.import();
    let expected = never_off(&story);
    let program = behind(&story);
    let points = ["after_commit:3", "before_commit:2", "after_commit:1", "before_commit:5"];
    let mut deaths = 0;
    for (runs, point) in points.iter().cycle().enumerate() {
        assert!(runs < RUNS_MAX, "it does not get on");
        if !program.crash_at(point, &import) {
            break;
        }
        deaths += 1;
        stands_at(&program);
    }
    assert!(deaths > 5, "{deaths}");
    let outcome = program.outcome();
    assert_eq!(outcome.digest, expected.0);
    outcome.tables.assert_same(&expected.1);
}

/// Switching off is one commit: a death around it leaves the index on, or off.
#[cfg(debug_assertions)]
#[test]
fn a_death_around_the_commit_that_switches_off_leaves_it_on_or_off() {
    let story = Story::light();
    let base = Program::new(&on());
    base.json(&["chain", "import", &story.first_part()]);
    let tables = base.tables();
    for (point, state) in [("before_commit:1", "on"), ("after_commit:1", "off")] {
        let off = base.copy(&off());
        assert!(off.crash_at(point, &["chain", "prune"]));
        let mut config = off.copy("[chain]\nnetwork = \"regtest\"\n");
        assert_eq!(config.json(&["chain", "status"])["index_state"], state, "{point}");
        // On again without a block in between, nothing has happened.
        config = off.copy(&on());
        config.json(&["chain", "import", &story.first_part()]);
        config.tables().assert_same(&tables);
    }
}
