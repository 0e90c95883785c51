//! Deaths at chosen points inside the engine, which a kill would have to be lucky to hit.

use utxokeep_chains::{Simulator, write_block_file};
use utxokeep_testkit::{ANYONE, mine, regtest_genesis};

use crate::crash::{
    BULK, MUHASH,
    program::{Outcome, Program},
    story::{State, Story, assert_kept, temp_dir},
};

/// Runs after which an import that dies every few commits must have arrived.
const RUNS_MAX: usize = 150;

/// The index of [`BULK`], switched off.
const LOG_ONLY: &str = "[chain]\nnetwork = \"regtest\"\n[index]\nenabled = false\n";

/// A new database whose import dies at a point; `None` when it never came by.
fn crashed_import(story: &Story, config: &str, point: &str) -> Option<Program> {
    let program = Program::new(config);
    program.crash_at(point, &story.import()).then_some(program)
}

fn whole_import(story: &Story, config: &str) -> Outcome {
    let program = Program::new(config);
    program.json(&story.import());
    program.outcome()
}

#[test]
fn a_death_around_a_commit_loses_exactly_the_batch_in_flight() {
    let story = Story::light();
    let mut last: Option<State> = None;
    // The first commit says what the database is, the second has the first block.
    for commits in [1, 2, 3, 20, 40, 41, 42, 43, 44, 45, 46, 80] {
        let after = crashed_import(&story, MUHASH, &format!("after_commit:{commits}")).unwrap();
        let before = format!("before_commit:{}", commits + 1);
        let before = crashed_import(&story, MUHASH, &before).unwrap();
        let state = after.recovered(&story);
        assert_eq!(state.is_some(), commits > 1);
        assert_kept(last.as_ref(), state.as_ref());
        before.tables().assert_same(&after.tables());
        last = state;
    }
}

#[test]
fn an_import_that_dies_every_few_commits_arrives_all_the_same() {
    let story = Story::light();
    let expected = whole_import(&story, MUHASH);
    let program = Program::new(MUHASH);
    let mut last: Option<State> = None;
    let points = ["after_commit:8", "before_commit:6", "after_commit:1", "before_commit:12"];
    for (runs, point) in points.iter().cycle().enumerate() {
        assert!(runs < RUNS_MAX, "it does not get on: {last:?}");
        let has_crashed = program.crash_at(point, &story.import());
        let now = program.recovered(&story);
        assert_kept(last.as_ref(), now.as_ref());
        last = now;
        if !has_crashed {
            eprintln!("{runs} deaths");
            break;
        }
    }
    program.outcome().assert_same(&expected);
}

#[test]
fn a_load_cut_short_before_its_intent_never_was_and_after_it_is_finished() {
    let story = Story::heavy();
    let expected = whole_import(&story, BULK);
    let mut loads = 0;
    let mut last = 0;
    while let Some(undone) = crashed_import(&story, BULK, &format!("before_intent:{}", loads + 1)) {
        loads += 1;
        let before = undone.recovered(&story).unwrap();
        assert!(before.height >= last, "an earlier load is lost");
        let points = ["after_intent", "after_first_file", "before_close"];
        let done = points.map(|point| {
            let program = crashed_import(&story, BULK, &format!("{point}:{loads}")).unwrap();
            // The next process dies while it finishes what the first one began.
            if point == "after_intent" {
                assert!(program.crash_at("after_first_file", &["chain", "status"]));
                assert!(program.crash_at("before_close", &["chain", "status"]));
            }
            let after = program.recovered(&story).unwrap();
            assert!(after.height > before.height, "{point}: the load is lost");
            last = after.height;
            program
        });
        let tables = done.each_ref().map(Program::tables);
        for other in &tables[1..] {
            other.assert_same(&tables[0]);
        }
        for program in [&undone, &done[loads % done.len()]] {
            program.json(&story.import());
            program.outcome().assert_same(&expected);
        }
    }
    assert!(loads >= 3, "{loads} loads: below the window and inside it");
}

#[test]
fn a_creation_cut_short_counts_as_no_database() {
    let story = Story::light();
    let program = crashed_import(&story, MUHASH, "before_commit:1").unwrap();
    assert_eq!(program.recovered(&story), None);
    // Not even the tables it has bind the next one.
    let log_only = program.copy(LOG_ONLY);
    assert_eq!(log_only.json(&story.import())["height"], story.tip().height);
    program.json(&story.import());
    assert_eq!(program.recovered(&story), Some(story.tip()));
}

/// The later of two equal branches must not be on disk before the earlier one.
#[test]
fn the_branch_seen_first_stays_whenever_the_process_dies() {
    let mut chain = vec![regtest_genesis()];
    let mut raws = Vec::new();
    // Batches of three blocks: the two branches of two blocks share one.
    for (height, tag) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (4, 1), (5, 1)] {
        chain.truncate(if (height, tag) == (4, 1) { 4 } else { chain.len() });
        let block = mine(&chain[chain.len() - 1], height, tag, &[(50, ANYONE)], &[]);
        chain.push(block.header);
        raws.push(block.raw);
    }
    let home = temp_dir();
    let file = home.path().join("blocks.dat");
    write_block_file(&file, Simulator::NETWORK, &raws).unwrap();
    let import = ["chain", "import", file.to_str().unwrap()];
    let tip = |program: &Program| program.json(&import)["best_hash"].clone();

    let expected = tip(&Program::new(MUHASH));
    assert_ne!(expected, chain[5].hash.to_reversed_hex());
    for commits in 1.. {
        let program = Program::new(MUHASH);
        let has_crashed = program.crash_at(&format!("after_commit:{commits}"), &import);
        assert_eq!(tip(&program), expected, "after {commits} commits");
        if !has_crashed {
            assert!(commits > 3);
            break;
        }
    }
}
