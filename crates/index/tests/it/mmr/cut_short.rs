//! A process that dies while it creates or drops the tables of a tree leaves one of the two. Such a
//! database has no tree, and every command takes it as what it is.

use std::{path::Path, sync::LazyLock};

use utxokeep_index::{
    IndexError, IndexOpenError, MmrBuilt, disable_mmr,
    tables::{CLASSIC_TABLES, TABLES, tables_of},
};
use utxokeep_kv::{KvError, OpenMode, RocksKv, TableSpec};

use super::*;
use crate::common::{OnDisk, rocks_options};

const WINDOW: u32 = 30;
const RULE: MmrRule = MmrRule::Tombstone;
/// In the process that is to die: where its database is.
#[cfg(debug_assertions)]
const DATABASE: &str = "UTXOKEEP_MMR_CUT_SHORT";

/// The tables of a classic database, and the second one of a tree.
static PLACES_ONLY: LazyLock<Vec<TableSpec>> =
    LazyLock::new(|| [&TABLES[..CLASSIC_TABLES], &TABLES[CLASSIC_TABLES + 1..]].concat());

fn tables(dir: &Path) -> Vec<String> {
    RocksKv::tables_on_disk(dir).unwrap()
}

fn open(
    dir: &Path,
    settings: IndexSettings,
    mode: OpenMode,
) -> Result<ChainIndex<RocksKv>, IndexOpenError> {
    ChainIndex::open_dir(dir, settings, rocks_options(), mode)
}

fn classic() -> IndexSettings {
    common::settings(WINDOW)
}

/// A database on disk with these settings.
fn database(settings: IndexSettings, archive: &Archive, chain: &[BlockHash]) -> OnDisk {
    let place = OnDisk::default();
    let mut writer = ChainWriter::new(place.open(settings)).unwrap();
    for hash in chain {
        writer.apply(&block(archive, hash)).unwrap();
    }
    place
}

/// Classic databases with one table of a tree: its name, and the directory.
fn left_overs(archive: &Archive, chain: &[BlockHash]) -> Vec<(&'static str, OnDisk)> {
    let kinds: [(&str, &'static [TableSpec]); 2] = [
        (TABLES[CLASSIC_TABLES].name, &TABLES[..=CLASSIC_TABLES]),
        (TABLES[CLASSIC_TABLES + 1].name, PLACES_ONLY.as_slice()),
    ];
    let left_over = |(name, specs)| {
        let place = database(classic(), archive, chain);
        let dir = place.0.path();
        drop(RocksKv::open(dir, specs, rocks_options(), OpenMode::Existing).unwrap());
        assert!(tables(dir).iter().any(|table| table == name));
        (name, place)
    };
    kinds.into_iter().map(left_over).collect()
}

fn build(dir: &Path, archive: &Archive) -> MmrBuilt {
    let index = ChainIndex::open_dir_to_build_mmr(dir, classic(), RULE, rocks_options()).unwrap();
    let blocks = &mut |_, hash: &BlockHash| Ok(block(archive, hash));
    ChainWriter::new(index).unwrap().build_mmr(RULE, blocks, &mut |_, _| true).unwrap()
}

#[test]
fn a_database_with_one_table_of_a_tree_is_read_and_written_as_one_without() {
    let archive = simulate(61, 0, 60);
    let chain = chain_of(&archive);
    for (name, place) in left_overs(&archive, &chain) {
        let dir = place.0.path();
        let before = tables(dir);
        let index = open(dir, classic(), OpenMode::Read).expect(name);
        assert_eq!(index.mmr_build_standing().unwrap(), None);
        assert_clean(&index, name);
        drop(index);
        // The user has written `store = "mmr"` already.
        for mode in [OpenMode::Read, OpenMode::Existing, OpenMode::Create] {
            let error = open(dir, settings(RULE, WINDOW), mode).unwrap_err();
            let is_it = matches!(error, IndexOpenError::MmrChanged { found: None, .. });
            assert!(is_it, "{name} {mode:?}: {error}");
        }
        assert_eq!(tables(dir), before, "neither reading nor refusing makes a table");
        let recovered = RocksKv::recover(dir, tables_of(&before), rocks_options());
        drop(recovered.expect(name));
        let mut writer =
            ChainWriter::new(open(dir, classic(), OpenMode::Existing).unwrap()).unwrap();
        writer.rollback(Height::new(50)).unwrap();
        assert_clean(writer.index(), name);
    }
}

#[test]
fn a_tree_is_built_and_dropped_where_one_table_of_another_is_left() {
    let archive = simulate(62, 0, 60);
    let chain = chain_of(&archive);
    let expected = *naive_roots(RULE, &archive, &chain).last().unwrap();
    for (name, place) in left_overs(&archive, &chain) {
        let dir = place.0.path();
        assert_eq!(build(dir, &archive), MmrBuilt::Done);
        assert_eq!(root(&place.open(settings(RULE, WINDOW)), None), expected, "{name}");
    }
    for (name, place) in left_overs(&archive, &chain) {
        let dir = place.0.path();
        assert!(disable_mmr(dir, &classic(), rocks_options()).unwrap(), "{name} is dropped");
        assert!(tables(dir).iter().all(|table| !table.contains("mmr")), "{:?}", tables(dir));
        assert!(!disable_mmr(dir, &classic(), rocks_options()).unwrap(), "there is none");
        assert_clean(&open(dir, classic(), OpenMode::Read).unwrap(), name);
    }
}

/// Killed between two tables, again and again.
#[cfg(debug_assertions)]
#[test]
fn a_process_that_dies_between_two_dropped_tables_leaves_a_database_that_opens() {
    use std::{os::unix::process::ExitStatusExt as _, process::Command};

    const SIGABRT: i32 = 6;
    if let Some(dir) = std::env::var_os(DATABASE) {
        let dir = Path::new(&dir);
        let mmr = utxokeep_index::peek_identity(dir).unwrap().mmr;
        let settings = classic().with(|settings| settings.mmr = mmr);
        disable_mmr(dir, &settings, rocks_options()).unwrap();
        return;
    }
    let archive = simulate(63, 0, 60);
    let chain = chain_of(&archive);
    let place = database(settings(RULE, WINDOW), &archive, &chain);
    let dir = place.0.path();
    let test = "mmr::cut_short::\
                a_process_that_dies_between_two_dropped_tables_leaves_a_database_that_opens";
    for round in 0..3 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
        let status = command.env(DATABASE, dir).env("UTXOKEEP_CRASH_AT", "table_dropped").output();
        assert_eq!(status.unwrap().status.signal(), Some(SIGABRT), "round {round}");
        let left = tables(dir).iter().filter(|table| table.contains("mmr")).count();
        assert_eq!(left, 1, "one table is left");
        assert_clean(&open(dir, classic(), OpenMode::Read).unwrap(), "killed");
    }
    assert_clean(&open(dir, classic(), OpenMode::Existing).unwrap(), "killed");
    assert!(disable_mmr(dir, &classic(), rocks_options()).unwrap());
    assert_clean(&open(dir, classic(), OpenMode::Existing).unwrap(), "dropped");
}

/// A tree that the database says it has, and a table of it is gone: nothing makes an empty one.
#[test]
fn a_lost_table_of_a_tree_is_named_and_the_tree_can_still_be_dropped() {
    let archive = simulate(64, 0, 40);
    let chain = chain_of(&archive);
    for first in [CLASSIC_TABLES, CLASSIC_TABLES + 1] {
        let place = database(settings(RULE, WINDOW), &archive, &chain);
        let dir = place.0.path();
        let kv = RocksKv::open(dir, TABLES, rocks_options(), OpenMode::Existing).unwrap();
        kv.drop_tables(first).unwrap();
        let before = tables(dir);
        for mode in [OpenMode::Read, OpenMode::Existing, OpenMode::Create] {
            let error = open(dir, settings(RULE, WINDOW), mode).unwrap_err();
            let is_named = matches!(&error, IndexOpenError::Store(IndexError::Kv(
                KvError::LostTable { table, .. })) if *table == TABLES[first].name);
            assert!(is_named, "{mode:?}: {error}");
            let error = open(dir, classic(), mode).unwrap_err();
            let is_it = matches!(error, IndexOpenError::MmrChanged { asked: None, .. });
            assert!(is_it, "{mode:?}: {error}");
        }
        assert_eq!(tables(dir), before, "no table is made");
        assert!(disable_mmr(dir, &settings(RULE, WINDOW), rocks_options()).unwrap());
        assert_clean(&open(dir, classic(), OpenMode::Read).unwrap(), "dropped");
    }
}
