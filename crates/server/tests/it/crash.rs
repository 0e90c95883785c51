//! The program dies at any moment, again and again, and nothing is lost or needs repair.
//!
//! Processes are killed as `kill -9` does, at moments spread over their whole life, or die at
//! chosen points inside the engine. After every single death `chain verify` must find nothing
//! wrong, the set must be exactly that of the block the database stands at, and no earlier step
//! may be undone. What is finally reached must equal an uninterrupted run in the digests and in
//! the rows of every table.

#[cfg(debug_assertions)]
mod points;
mod program;
mod story;
mod switch;

use std::time::Duration;

use program::{Ended, Program};
use story::{State, Story, assert_kept};

/// Kills that hit a running process, per test.
const IMPORT_KILLS: u32 = 40;
const ROLLBACK_KILLS: u32 = 45;
const PRUNE_KILLS: u32 = 45;
const _: () = assert!(3 * IMPORT_KILLS + ROLLBACK_KILLS + PRUNE_KILLS >= 200);

/// Attempts per kill before the test gives up; some processes finish first.
const ATTEMPTS_PER_KILL: u32 = 10;

/// Large batches of all kinds: bulk load, and several blocks at a time inside the window.
const BULK: &str = "\
[chain]
network = \"regtest\"
[index]
rollback_window_blocks = 30
prune_depth_blocks = 20
[storage]
cache_mib = 16
catch_up_blocks_max = 4
";

/// Every block with its undo data, which is then pruned in small steps.
const MUHASH: &str = "\
[chain]
network = \"regtest\"
[index]
rollback_window_blocks = 12
prune_depth_blocks = 8
prune_batch_rows_max = 60
muhash = true
[storage]
cache_mib = 16
catch_up_blocks_max = 3
bulk = false
";

/// Bulk load while there is nothing but coinbases, then one batch per block.
const SELF_CONTAINED: &str = "\
[chain]
network = \"regtest\"
[index]
rollback_window_blocks = 40
prune_depth_blocks = 50
delta = \"self-contained\"
[storage]
cache_mib = 16
catch_up_blocks_max = 1
";

/// A window that holds everything since the first spent coin.
const WIDE: &str = "\
[chain]
network = \"regtest\"
[index]
rollback_window_blocks = 55
muhash = true
[storage]
cache_mib = 16
bulk = false
";

/// The same database with less of a past.
const NARROW: &str = "\
[chain]
network = \"regtest\"
[index]
rollback_window_blocks = 8
prune_depth_blocks = 5
prune_batch_rows_max = 25
muhash = true
[storage]
cache_mib = 16
";

/// Chooses moments: many while the work is done, some at any time from the start of the process to
/// after its end.
struct Moments {
    random: u64,
    /// How long a process takes that finds nothing to do, and one that does it all.
    idle: Duration,
    whole: Duration,
    kills: u32,
    progressed: u32,
    attempts: u32,
    wanted: u32,
}

impl Moments {
    /// Measures the first run of a command, and a second one that has nothing left to do.
    fn measure(seed: u64, program: &Program, args: &[&str], wanted: u32) -> Self {
        let (whole, idle) = (program.duration_of(args), program.duration_of(args));
        eprintln!("seed {seed:#x}; a run takes {whole:?}, with nothing to do {idle:?}");
        // To open a database takes longer than to make one, and most runs go on with one.
        let whole = whole.max(idle * 5 / 4);
        Self { random: seed, idle, whole, kills: 0, progressed: 0, attempts: 0, wanted }
    }

    /// The next moment; `None` once enough processes were killed.
    fn next(&mut self) -> Option<Duration> {
        if self.kills >= self.wanted {
            return None;
        }
        self.attempts += 1;
        assert!(self.attempts <= self.wanted * ATTEMPTS_PER_KILL, "hardly any process is killed");
        let (from, length) = if self.attempts.is_multiple_of(4) {
            (Duration::ZERO, self.whole * 13 / 10)
        } else {
            ((self.idle / 2).min(self.whole / 2), self.whole * 6 / 10)
        };
        Some(from + length * self.permille() / 1_000)
    }

    fn permille(&mut self) -> u32 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % 1_000).unwrap()
    }

    /// Notes what came of it. How busy the machine is changes, and the moments with it.
    fn note(&mut self, ended: Ended, has_progressed: bool) {
        match ended {
            Ended::Finished => self.whole = self.whole * 19 / 20,
            Ended::Killed => {
                self.kills += 1;
                self.progressed += u32::from(has_progressed);
                if !has_progressed {
                    self.whole = self.whole * 21 / 20;
                }
            }
        }
    }

    fn finish(&self) {
        let Self { kills, attempts, progressed, .. } = self;
        eprintln!(
            "{kills} of {attempts} runs were killed, {progressed} after they had a part done"
        );
        assert!(*progressed > 0, "some processes die on the way");
    }
}

fn kill_imports(seed: u64, story: &Story, config: &str) {
    let import = story.import();
    let whole = Program::new(config);
    let mut moments = Moments::measure(seed, &whole, &import, IMPORT_KILLS);
    let expected = whole.outcome();

    let mut program = Program::new(config);
    let mut last: Option<State> = None;
    while let Some(moment) = moments.next() {
        let ended = program.kill_during(&import, moment);
        let now = program.recovered(story);
        assert_kept(last.as_ref(), now.as_ref());
        moments.note(ended, now != last);
        last = now;
        if ended == Ended::Finished {
            program.tables().assert_same(&expected.tables);
            (program, last) = (Program::new(config), None);
        }
    }
    program.json(&import);
    program.outcome().assert_same(&expected);
    moments.finish();
}

#[test]
fn an_import_killed_anywhere_goes_on_where_it_was_in_bulk() {
    kill_imports(0xb01d, &Story::heavy(), BULK);
}

#[test]
fn an_import_killed_anywhere_goes_on_where_it_was_with_accumulators() {
    kill_imports(0xacc, &Story::light(), MUHASH);
}

#[test]
fn an_import_killed_anywhere_goes_on_where_it_was_with_self_contained_deltas() {
    kill_imports(0x5e1f, &Story::light(), SELF_CONTAINED);
}

#[test]
fn a_rollback_killed_anywhere_is_finished_by_the_next() {
    let story = Story::light();
    let import = story.import();
    let base = Program::new(WIDE);
    base.json(&import);
    let (tip, target) = (story.tip(), base.floor());
    let rollback = ["chain", "rollback", &target.to_string()];
    let whole = base.copy(WIDE);
    let mut moments = Moments::measure(0xbac, &whole, &rollback, ROLLBACK_KILLS);
    let expected = whole.outcome();

    let mut program = base.copy(WIDE);
    let mut last = tip.height;
    while let Some(moment) = moments.next() {
        let ended = program.kill_during(&rollback, moment);
        let now = program.recovered(&story).unwrap().height;
        assert!((target..=last).contains(&now), "{now} after {last}");
        moments.note(ended, now != last);
        last = now;
        if ended == Ended::Finished {
            program.tables().assert_same(&expected.tables);
            (program, last) = (base.copy(WIDE), tip.height);
        }
    }
    program.json(&rollback);
    program.outcome().assert_same(&expected);
    program.json(&import);
    program.outcome().assert_same(&base.outcome());
    moments.finish();
}

#[test]
fn a_prune_killed_anywhere_is_finished_by_the_next() {
    let story = Story::light();
    let base = Program::new(WIDE);
    base.json(&story.import());
    let prune = ["chain", "prune"];
    let whole = base.copy(NARROW);
    let mut moments = Moments::measure(0x9121e, &whole, &prune, PRUNE_KILLS);
    let expected = whole.outcome();
    let (first, end) = (base.floor(), whole.floor());

    let mut program = base.copy(NARROW);
    let mut last = first;
    while let Some(moment) = moments.next() {
        let ended = program.kill_during(&prune, moment);
        assert_eq!(program.recovered(&story), Some(story.tip()));
        let now = program.floor();
        assert!((last..=end).contains(&now), "{now} after {last}");
        moments.note(ended, now != last);
        last = now;
        if ended == Ended::Finished {
            program.tables().assert_same(&expected.tables);
            (program, last) = (base.copy(NARROW), first);
        }
    }
    program.json(&prune);
    program.outcome().assert_same(&expected);
    moments.finish();
}
