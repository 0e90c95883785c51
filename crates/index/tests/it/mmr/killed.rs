//! The writer's process is killed at any moment, on disk: the tree is that of the block at which the
//! database stands, and what is finally reached is what an undisturbed import gives.
//!
//! The process is this test program itself, started again with a variable that says what to do.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use utxokeep_chains::cardano::ImmutableDb;
use utxokeep_core::Network;
use utxokeep_index::{import_files, import_immutable, peek_identity};
use utxokeep_kv::{Durability, OpenMode, RocksKv};
use utxokeep_testkit::preview_immutable;

use super::*;
use crate::common::rocks_options;

/// In the process that is to die: where its database is, and a number that makes its ways differ.
const DATABASE: &str = "UTXOKEEP_MMR_VICTIM";
const ROUND: &str = "UTXOKEEP_MMR_ROUND";

const SIGKILL: i32 = 9;
const WINDOW: u32 = 40;
const RULE: MmrRule = MmrRule::Tombstone;

fn rounds(default: u64) -> u64 {
    std::env::var("UTXOKEEP_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn open(dir: &Path, settings: IndexSettings) -> ChainIndex<RocksKv> {
    ChainIndex::open_dir(dir, settings, rocks_options(), OpenMode::Create).unwrap()
}

/// Numbers that look random and are the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// What to do in the process that is to die, if this is it.
fn victim() -> Option<(std::path::PathBuf, Random)> {
    let dir = std::env::var_os(DATABASE)?;
    let round = std::env::var(ROUND).unwrap().parse().unwrap();
    Some((dir.into(), Random(round)))
}

/// Says that the work begins, which is when a killer may count.
fn say_begun() {
    let mut out = std::io::stdout();
    writeln!(out, "begun").unwrap();
    out.flush().unwrap();
}

/// A process that does what the test of this name does as a victim.
struct Victim<'v> {
    test: &'v str,
    dir: &'v Path,
    /// How long the work takes, about.
    whole: Duration,
    kills: u64,
}

impl<'v> Victim<'v> {
    fn new(test: &'v str, dir: &'v Path) -> Self {
        Self { test, dir, whole: Duration::from_millis(400), kills: 0 }
    }

    fn start(&self, round: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", self.test, "--nocapture", "--test-threads", "1"]);
        command.env(DATABASE, self.dir).env(ROUND, round.to_string());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Starts the process and kills it at any moment. Answers whether it had ended by itself.
    fn run(&mut self, round: u64, random: &mut Random) -> bool {
        let mut child = self.start(round);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The test program says things of its own.
        let begun = lines.any(|line| line.is_ok_and(|line| line.contains("begun")));
        assert!(begun, "the process has come to its work");
        let started = Instant::now();
        let permille = u32::try_from(random.below(1_000)).unwrap();
        thread::sleep(self.whole * permille / 1_000);
        let has_ended = child.try_wait().unwrap().is_some_and(|status| {
            assert!(status.success(), "{status}");
            true
        });
        if has_ended {
            self.whole = self.whole * 9 / 10;
        } else {
            child.kill().unwrap();
            self.kills += 1;
            self.whole = self.whole.max(started.elapsed()) * 21 / 20;
        }
        let status = child.wait().unwrap();
        assert!(status.success() || status.signal() == Some(SIGKILL), "{status}");
        has_ended
    }
}

fn simulated() -> (Archive, Vec<BlockHash>) {
    let archive = simulate(51, 0, 420);
    let chain = chain_of(&archive);
    (archive, chain)
}

/// Goes forwards and backwards through the chain until its end, in every mode.
fn walk(dir: &Path, mut random: Random) {
    let (archive, chain) = simulated();
    let settings = settings(RULE, WINDOW).with(|settings| settings.bulk_batch_bytes_max = 60_000);
    let mut writer = ChainWriter::new(open(dir, settings)).unwrap();
    say_begun();
    loop {
        let next = writer.tip().map_or(0, |tip| tip.height.get() as usize + 1);
        if next == chain.len() {
            break;
        }
        match random.below(12) {
            0 => prune_fully(&mut writer),
            1 | 2 => {
                // What waits is committed first, and may move the floor.
                writer.flush().unwrap();
                let Some(tip) = writer.tip().map(|tip| tip.height) else { continue };
                let depth = u32::try_from(random.below(12)).unwrap();
                writer.rollback(tip.minus(depth).max(writer.floor())).unwrap();
            }
            3 => writer.set_mode(Mode::CatchUp).unwrap(),
            // Bulk load is for blocks that nobody will undo.
            4 if next < chain.len() - 2 * WINDOW as usize => writer.set_mode(Mode::Bulk).unwrap(),
            5 => writer.set_mode(Mode::Tip).unwrap(),
            _ => {
                for hash in chain[next..].iter().take(8) {
                    writer.apply(&block(&archive, hash)).unwrap();
                }
            }
        }
    }
    writer.set_mode(Mode::Tip).unwrap();
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_root_of_its_block() {
    if let Some((dir, random)) = victim() {
        return walk(&dir, random);
    }
    let (archive, chain) = simulated();
    let expected = naive_roots(RULE, &archive, &chain);
    let straight = fresh(settings(RULE, WINDOW), &archive, &chain);
    prune_fully(&mut ChainWriter::new(straight.clone()).unwrap());
    let straight = dump_all(straight.engine());
    let test = "mmr::killed::a_writer_killed_at_any_moment_leaves_the_root_of_its_block";
    let mut home = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut whole = Duration::from_millis(400);
    let (mut kills, mut finished, mut heights) = (0, 0, std::collections::BTreeSet::new());
    for round in 0.. {
        let mut victim = Victim { whole, ..Victim::new(test, home.path()) };
        let has_ended = victim.run(round, &mut random);
        (whole, kills) = (victim.whole, kills + victim.kills);
        let index = open(home.path(), settings(RULE, WINDOW));
        if let Some(tip) = index.status().unwrap().tip {
            assert_eq!(root(&index, None), expected[tip.height.get() as usize], "round {round}");
            heights.insert(tip.height);
        }
        assert_clean(&index, &format!("round {round}"));
        if has_ended {
            prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
            let except = &[SIDE, SIDE_BODY];
            let what = format!("round {round}, at the end");
            // Where undo data begins depends on the way.
            if index.status().unwrap().undo_base == Some(Height::new(chain_base(&chain))) {
                assert_same(&dump_all(index.engine()), &straight, except, &what);
                finished += 1;
            }
            drop(index);
            home = tempfile::tempdir().unwrap();
        }
        if kills >= rounds(30) && finished > 0 {
            break;
        }
        assert!(round < 20 * rounds(30), "{kills} killed, {finished} compared");
    }
    assert!(heights.len() > 10, "killed on the way: {heights:?}");
}

/// Where the undo data of a pruned index begins.
fn chain_base(chain: &[BlockHash]) -> u32 {
    u32::try_from(chain.len()).unwrap() - 1 - WINDOW
}

/// A pass that builds the tree is killed again and again; it goes on, and what it builds is what an
/// import has.
#[test]
fn a_pass_killed_at_any_moment_builds_the_tree_all_the_same() {
    if let Some((dir, mut random)) = victim() {
        let (archive, _) = simulated();
        let index = ChainIndex::open_dir_to_build_mmr(
            &dir,
            common::settings(WINDOW),
            RULE,
            rocks_options(),
        );
        let writer = ChainWriter::new(index.unwrap()).unwrap();
        say_begun();
        let mut left = 20 + random.below(200);
        let built =
            writer.build_mmr(RULE, &mut |_, hash| Ok(block(&archive, hash)), &mut |_, _| {
                // Slow enough to be killed on the way, and stopped on the way too.
                thread::sleep(Duration::from_micros(500));
                left -= 1;
                left > 0
            });
        built.unwrap();
        return;
    }
    let (archive, chain) = simulated();
    let place = tempfile::tempdir().unwrap();
    {
        let mut writer = ChainWriter::new(open(place.path(), common::settings(WINDOW))).unwrap();
        for hash in &chain {
            writer.apply(&block(&archive, hash)).unwrap();
        }
        prune_fully(&mut writer);
    }
    let imported = InMemory::default().open(settings(RULE, WINDOW));
    let mut writer = ChainWriter::new(imported.clone()).unwrap();
    for hash in &chain {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    prune_fully(&mut writer);
    let expected = dump_all(imported.engine());
    let test = "mmr::killed::a_pass_killed_at_any_moment_builds_the_tree_all_the_same";
    let mut random = Random(9);
    let mut victim = Victim { whole: Duration::from_millis(60), ..Victim::new(test, place.path()) };
    for round in 0..200 {
        victim.run(round, &mut random);
        if peek_identity(place.path()).unwrap().mmr.is_none() {
            // In between it opens as before.
            assert_clean(&open(place.path(), common::settings(WINDOW)), "half built");
            continue;
        }
        let index = open(place.path(), settings(RULE, WINDOW));
        assert_same(&dump_all(index.engine()), &expected, &[], "built through kills");
        assert_clean(&index, "built through kills");
        assert!(victim.kills >= 3, "{} kills", victim.kills);
        return;
    }
    panic!("the tree is never finished");
}

/// The chain that a node has made, in bulk and block by block.
#[test]
fn an_import_of_a_node_made_chain_killed_at_any_moment_ends_with_its_root() {
    let settings = || {
        IndexSettings::new(RegtestA::NETWORK).with(|settings| settings.mmr = Some(RULE)).with(
            |settings| {
                settings.durability = Durability::Buffered;
                settings.bulk_batch_bytes_max = 400_000;
            },
        )
    };
    let import = |dir: &Path, bulk: bool| {
        let writer = ChainWriter::new(open(dir, settings())).unwrap();
        say_begun();
        import_files(writer, &RegtestA::default().block_files(), bulk, &mut |_| true).unwrap();
    };
    if let Some((dir, mut random)) = victim() {
        return import(&dir, random.below(2) == 0);
    }
    let index = InMemory::default().open(settings());
    let writer = ChainWriter::new(index.clone()).unwrap();
    import_files(writer, &RegtestA::default().block_files(), false, &mut |_| true).unwrap();
    let test =
        "mmr::killed::an_import_of_a_node_made_chain_killed_at_any_moment_ends_with_its_root";
    until_finished(test, &settings(), root(&index, None), 12);
}

/// The preview network of Cardano from its first block, collateral returns included.
#[test]
fn an_import_of_the_preview_network_killed_at_any_moment_ends_with_its_root() {
    let Some(dir) = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let settings = || {
        IndexSettings::new(Network::CardanoPreview).with(|settings| {
            settings.mmr = Some(RULE);
            settings.durability = Durability::Buffered;
            settings.bulk_batch_bytes_max = 2_000_000;
        })
    };
    if let Some((dir, mut random)) = victim() {
        let writer = ChainWriter::new(open(&dir, settings())).unwrap();
        say_begun();
        import_immutable(writer, &db, random.below(3) > 0, &mut |_| true).unwrap();
        return;
    }
    let mut naive = Naive::new(RULE);
    let decoder = settings().decoder;
    for (height, raw) in (0..).zip(db.blocks_from(db.start())) {
        naive.apply(&decoder.decode(raw.unwrap().bytes).unwrap(), Height::new(height));
    }
    let test =
        "mmr::killed::an_import_of_the_preview_network_killed_at_any_moment_ends_with_its_root";
    until_finished(test, &settings(), naive.root(), 8);
}

/// Starts and kills imports, until one is finished after enough kills.
fn until_finished(
    test: &str,
    settings: &IndexSettings,
    expected: (u64, NodeHash),
    kills_wanted: u64,
) {
    let mut random = Random(3);
    let mut home = tempfile::tempdir().unwrap();
    let (mut kills, mut whole) = (0, Duration::from_secs(1));
    for round in 0..20 * kills_wanted {
        let mut victim = Victim { whole, ..Victim::new(test, home.path()) };
        let has_ended = victim.run(round, &mut random);
        (whole, kills) = (victim.whole, kills + victim.kills);
        let index = open(home.path(), settings.clone());
        assert_clean(&index, &format!("round {round}"));
        if has_ended {
            assert_eq!(root(&index, None), expected, "round {round}");
            if kills >= kills_wanted {
                return;
            }
            drop(index);
            home = tempfile::tempdir().unwrap();
        }
    }
    panic!("{kills} kills, and no import comes to its end");
}
