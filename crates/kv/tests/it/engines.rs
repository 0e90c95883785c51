//! One suite for every engine: what the port promises, each engine keeps.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use tempfile::TempDir;
use utxokeep_kv::{
    Access, Batch, Durability, Kv, KvError, OpenMode, Read, RocksKv, RocksOptions, Scan,
    SortedRows, TableId, TableSpec, Use,
};

const SPECS: &[TableSpec] = &[
    TableSpec { name: "points", access: Access::Point },
    TableSpec { name: "prefixed", access: Access::Prefix(1) },
    TableSpec { name: "ordered", access: Access::Sequential },
];
const POINTS: TableId = TableId(0);
const PREFIXED: TableId = TableId(1);
const ORDERED: TableId = TableId(2);

fn options() -> RocksOptions {
    RocksOptions::within(16 << 20)
}

fn open(dir: &TempDir) -> RocksKv {
    RocksKv::open(dir.path(), SPECS, options(), OpenMode::Create).unwrap()
}

/// Makes a test on every engine of each rule of the port.
macro_rules! on_every_engine {
    ($($rule:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $rule() {
                super::$rule(&utxokeep_kv::MemoryKv::new(super::SPECS));
            })+
        }
        mod rocksdb_with_one_writer {
            $(#[test]
            fn $rule() {
                let dir = tempfile::TempDir::new().unwrap();
                super::$rule(&super::open_for(&dir, utxokeep_kv::Use::OneWriter));
            })+
        }
        mod rocksdb_with_many_writers {
            $(#[test]
            fn $rule() {
                let dir = tempfile::TempDir::new().unwrap();
                super::$rule(&super::open_for(&dir, utxokeep_kv::Use::ManyWriters));
            })+
        }
    };
}

on_every_engine! {
    puts_and_deletes_are_read_across_tables,
    of_several_writes_to_a_row_the_last_counts,
    scans_are_bounded_ordered_and_reversible,
    a_scan_ends_where_its_visitor_says_so,
    many_rows_are_read_with_the_position_of_their_key,
    a_snapshot_does_not_see_later_batches,
    a_load_is_read_like_a_commit,
    a_load_replaces_and_deletes_rows_that_are_there,
    a_batch_of_one_of_many_writers_is_seen_whole_or_not_at_all,
    every_table_has_a_size_and_merging_changes_no_row,
    an_opened_engine_takes_writes_and_has_no_trouble,
}

fn open_for(dir: &TempDir, usage: Use) -> RocksKv {
    RocksKv::open(dir.path(), SPECS, options().for_use(usage), OpenMode::Create).unwrap()
}

fn commit(kv: &impl Kv, batch: Batch) {
    kv.commit(batch, Durability::Buffered).unwrap();
}

fn load(kv: &impl Kv, mut batch: Batch, finish: Batch) {
    let tables = batch.sorted_tables();
    let tables: Vec<&dyn SortedRows> = tables.iter().map(|rows| rows as _).collect();
    kv.load(&tables, finish).unwrap();
}

fn rows(read: &dyn Read, table: TableId, scan: &Scan<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    read.scan(table, scan, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    rows
}

const ALL: Scan<'static> =
    Scan { from: &[], until: None, reverse: false, limit: 100, within_prefix: false };

fn puts_and_deletes_are_read_across_tables(kv: &impl Kv) {
    let mut batch = Batch::new();
    batch.put(POINTS, b"a", b"1");
    batch.put(POINTS, b"b", b"2");
    batch.put(ORDERED, b"a", b"3");
    commit(kv, batch);
    let mut batch = Batch::new();
    batch.delete(POINTS, b"a");
    batch.put(POINTS, b"c", b"");
    kv.commit(batch, Durability::Synced).unwrap();
    assert_eq!(kv.get(POINTS, b"a").unwrap(), None);
    assert_eq!(kv.get(ORDERED, b"a").unwrap(), Some(b"3".to_vec()));
    assert_eq!(kv.get(POINTS, b"c").unwrap(), Some(Vec::new()), "an empty value is a value");
}

fn of_several_writes_to_a_row_the_last_counts(kv: &impl Kv) {
    let mut batch = Batch::new();
    batch.put(POINTS, b"a", b"1");
    batch.delete(POINTS, b"a");
    batch.put(POINTS, b"b", b"1");
    batch.put(POINTS, b"b", b"2");
    batch.delete(POINTS, b"c");
    batch.put(POINTS, b"c", b"3");
    commit(kv, batch);
    let row = |key: &[u8]| kv.get(POINTS, key).unwrap();
    assert_eq!([row(b"a"), row(b"b"), row(b"c")], [None, Some(b"2".into()), Some(b"3".into())]);
}

fn many_rows_are_read_with_the_position_of_their_key(kv: &impl Kv) {
    const ROWS: u32 = 3_000;
    let mut batch = Batch::new();
    for row in (0..ROWS).step_by(2) {
        batch.put(POINTS, &row.to_be_bytes(), &row.to_le_bytes());
    }
    commit(kv, batch);
    for count in [0, 3, ROWS] {
        let keys: Vec<[u8; 4]> = (0..count).map(u32::to_be_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        for read in [&kv.snapshot() as &dyn Read, kv] {
            let mut found = vec![None; keys.len()];
            let mut take = |at: usize, value: Option<&[u8]>| {
                assert!(found[at].replace(value.map(<[u8]>::to_vec)).is_none(), "{at} twice");
            };
            read.multi_get(POINTS, &keys, &mut take).unwrap();
            let expected = |row: u32| row.is_multiple_of(2).then(|| row.to_le_bytes().to_vec());
            assert!(found.into_iter().eq((0..count).map(|row| Some(expected(row)))), "{count}");
        }
    }
}

fn scans_are_bounded_ordered_and_reversible(kv: &impl Kv) {
    let mut batch = Batch::new();
    for key in [b"a1", b"a2", b"a3", b"b1", b"b2"] {
        batch.put(PREFIXED, key, &key[1..]);
    }
    commit(kv, batch);
    let keys = |scan: &Scan<'_>| -> Vec<String> {
        let rows = rows(kv, PREFIXED, scan).into_iter();
        rows.map(|(key, _)| String::from_utf8(key).unwrap()).collect()
    };
    assert_eq!(keys(&ALL), ["a1", "a2", "a3", "b1", "b2"]);
    assert_eq!(keys(&Scan { reverse: true, ..ALL }), ["b2", "b1", "a3", "a2", "a1"]);
    assert_eq!(keys(&Scan { limit: 2, ..ALL }), ["a1", "a2"]);
    let middle = Scan { from: b"a2", until: Some(b"b1"), ..ALL };
    assert_eq!(keys(&middle), ["a2", "a3"]);
    assert_eq!(keys(&Scan { reverse: true, ..middle.clone() }), ["a3", "a2"]);
    let within = Scan { from: b"a", until: Some(b"b"), within_prefix: true, ..ALL };
    assert_eq!(keys(&within), ["a1", "a2", "a3"]);
    assert_eq!(keys(&Scan { reverse: true, limit: 1, ..within }), ["a3"]);
    assert_eq!(keys(&Scan { from: b"b", until: Some(b"a"), ..ALL }), [] as [&str; 0]);
}

fn a_scan_ends_where_its_visitor_says_so(kv: &impl Kv) {
    let mut batch = Batch::new();
    for key in [b"1", b"2", b"3"] {
        batch.put(ORDERED, key, b"");
    }
    commit(kv, batch);
    for (scan, seen) in [(ALL, [b"1", b"2"]), (Scan { reverse: true, ..ALL }, [b"3", b"2"])] {
        let mut keys = Vec::new();
        let visited = kv.scan(ORDERED, &scan, &mut |key, _| {
            keys.push(key.to_vec());
            keys.len() < 2
        });
        assert_eq!((visited.unwrap(), keys), (2, seen.map(|key| key.to_vec()).to_vec()));
    }
}

fn a_snapshot_does_not_see_later_batches(kv: &impl Kv) {
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"old");
    commit(kv, batch);
    let snapshot = kv.snapshot();
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"new");
    batch.put(POINTS, b"l", b"new");
    commit(kv, batch);
    assert_eq!(snapshot.get(POINTS, b"k").unwrap(), Some(b"old".to_vec()));
    assert_eq!(rows(&snapshot, POINTS, &ALL).len(), 1);
    assert_eq!(rows(kv, POINTS, &ALL).len(), 2);
}

fn a_load_is_read_like_a_commit(kv: &impl Kv) {
    let mut batch = Batch::new();
    for key in [b"a1", b"b1", b"a2"] {
        batch.put(PREFIXED, key, &key[..1]);
    }
    batch.put(POINTS, b"p", b"1");
    load(kv, batch, Batch::new());
    assert_eq!(kv.get(POINTS, b"p").unwrap(), Some(b"1".to_vec()));
    let within = Scan { from: b"a", until: Some(b"b"), within_prefix: true, ..ALL };
    let found: Vec<_> = rows(kv, PREFIXED, &within).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, [b"a1", b"a2"]);
}

fn a_load_replaces_and_deletes_rows_that_are_there(kv: &impl Kv) {
    let mut batch = Batch::new();
    batch.put(POINTS, b"gone", b"1");
    batch.put(POINTS, b"kept", b"1");
    commit(kv, batch);
    let mut rows_to_load = Batch::new();
    rows_to_load.delete(POINTS, b"gone");
    rows_to_load.put(POINTS, b"kept", b"2");
    let mut finish = Batch::new();
    finish.put(ORDERED, b"cursor", b"1");
    load(kv, rows_to_load, finish);
    assert_eq!(rows(kv, POINTS, &ALL), [(b"kept".to_vec(), b"2".to_vec())]);
    assert_eq!(kv.get(ORDERED, b"cursor").unwrap(), Some(b"1".to_vec()));
}

fn a_batch_of_one_of_many_writers_is_seen_whole_or_not_at_all(kv: &impl Kv) {
    const WRITERS: u8 = 4;
    let is_done = AtomicBool::new(false);
    let mut first = Batch::new();
    (0..WRITERS).for_each(|writer| write_pair(&mut first, writer, 0));
    commit(kv, first);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for number in 1..200 {
                        let mut batch = Batch::new();
                        write_pair(&mut batch, writer, number);
                        commit(kv, batch);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut last = [0; WRITERS as usize];
            while !is_done.load(Ordering::Acquire) {
                let snapshot = kv.snapshot();
                for (writer, last) in (0..WRITERS).zip(&mut last) {
                    let pair = [POINTS, ORDERED].map(|table| snapshot.get(table, &[writer]));
                    let pair = pair.map(|value| {
                        u32::from_be_bytes(value.unwrap().unwrap().try_into().unwrap())
                    });
                    assert_eq!(pair[0], pair[1], "half of a batch");
                    assert!(pair[0] >= *last, "a later snapshot lacks an earlier batch");
                    *last = pair[0];
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::Release);
    });
}

fn write_pair(batch: &mut Batch, writer: u8, number: u32) {
    batch.put(POINTS, &[writer], &number.to_be_bytes());
    batch.put(ORDERED, &[writer], &number.to_be_bytes());
}

fn every_table_has_a_size_and_merging_changes_no_row(kv: &impl Kv) {
    let mut batch = Batch::new();
    batch.put(POINTS, b"a", b"1");
    batch.put(ORDERED, b"a", b"1");
    batch.put(ORDERED, b"b", b"1");
    commit(kv, batch);
    let mut batch = Batch::new();
    batch.delete(ORDERED, b"b");
    commit(kv, batch);
    let names = |kv: &_| -> Vec<_> {
        let sizes = Kv::table_sizes(kv).unwrap();
        sizes.iter().map(|size| size.name).collect()
    };
    assert_eq!(names(kv), ["points", "prefixed", "ordered"]);
    kv.compact().unwrap();
    assert_eq!(rows(kv, ORDERED, &ALL), [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(kv.get(POINTS, b"a").unwrap(), Some(b"1".to_vec()));
}

fn an_opened_engine_takes_writes_and_has_no_trouble(kv: &impl Kv) {
    assert_eq!(kv.mode(), OpenMode::Create);
    assert_eq!(kv.trouble(), None);
}

#[test]
fn rows_survive_reopening_and_the_second_opener_is_told_why_not() {
    let dir = TempDir::new().unwrap();
    let kv = open(&dir);
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"v");
    kv.commit(batch, Durability::Synced).unwrap();
    let second = RocksKv::open(dir.path(), SPECS, options(), OpenMode::Existing);
    assert!(matches!(second, Err(KvError::InUse { .. })), "{second:?}");
    drop(kv);
    assert_eq!(open(&dir).get(POINTS, b"k").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn a_missing_database_is_created_only_by_whoever_opens_it_to_create() {
    let dir = TempDir::new().unwrap();
    let (path, file) = (dir.path().join("nothing"), dir.path().join("file"));
    std::fs::write(&file, "").unwrap();
    for mode in [OpenMode::Read, OpenMode::Existing] {
        for place in [&path, &file] {
            let opened = RocksKv::open(place, SPECS, options(), mode);
            assert!(matches!(opened, Err(KvError::NotFound { .. })), "{mode:?}: {opened:?}");
        }
        assert!(!path.exists());
    }
    assert!(RocksKv::open(&path, SPECS, options(), OpenMode::Create).is_ok());
}

fn read(dir: &TempDir, specs: &'static [TableSpec]) -> Result<RocksKv, KvError> {
    RocksKv::open(dir.path(), specs, options(), OpenMode::Read)
}

fn files(dir: &TempDir) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_reader_sees_what_is_only_in_the_log_and_writes_nothing() {
    let dir = TempDir::new().unwrap();
    let kv = open(&dir);
    let mut batch = Batch::new();
    batch.put(ORDERED, b"k", b"v");
    kv.commit(batch, Durability::Synced).unwrap();
    drop(kv);
    std::fs::remove_dir(dir.path().join("load")).ok();
    let before = files(&dir);
    let kv = read(&dir, SPECS).unwrap();
    assert_eq!(kv.mode(), OpenMode::Read);
    assert_eq!(kv.snapshot().get(ORDERED, b"k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(rows(&kv, ORDERED, &ALL), [(b"k".to_vec(), b"v".to_vec())]);
    let mut batch = Batch::new();
    batch.put(ORDERED, b"k", b"w");
    let refused = kv.commit(batch, Durability::Synced);
    assert!(matches!(refused, Err(KvError::ReadOnly)), "{refused:?}");
    drop(kv);
    assert_eq!(files(&dir), before);
}

#[test]
fn readers_share_a_database_and_a_writer_has_it_alone() {
    let dir = TempDir::new().unwrap();
    let writer = open(&dir);
    let refused = read(&dir, SPECS);
    assert!(matches!(refused, Err(KvError::InUse { .. })), "{refused:?}");
    drop(writer);
    let (first, second) = (read(&dir, SPECS).unwrap(), read(&dir, SPECS).unwrap());
    for reader in [first, second] {
        let refused = RocksKv::open(dir.path(), SPECS, options(), OpenMode::Existing);
        assert!(matches!(refused, Err(KvError::InUse { .. })), "{refused:?}");
        drop(reader);
    }
    drop(open(&dir));
}

#[test]
fn a_reader_does_not_bring_an_older_database_up_to_date() {
    let dir = TempDir::new().unwrap();
    let older = &SPECS[..2];
    let kv = RocksKv::open(dir.path(), older, options(), OpenMode::Create).unwrap();
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"v");
    kv.commit(batch, Durability::Synced).unwrap();
    drop(kv);
    let refused = read(&dir, SPECS);
    assert!(matches!(refused, Err(KvError::Outdated { table: "ordered", .. })), "{refused:?}");
    assert!(!RocksKv::tables_on_disk(dir.path()).unwrap().contains(&"ordered".to_owned()));
    drop(RocksKv::open(dir.path(), SPECS, options(), OpenMode::Existing).unwrap());
    assert!(read(&dir, SPECS).is_ok());
}

#[test]
fn a_table_that_is_not_in_the_list_is_refused() {
    let dir = TempDir::new().unwrap();
    drop(open(&dir));
    let opened = RocksKv::open(dir.path(), &SPECS[..2], options(), OpenMode::Create);
    assert!(matches!(opened, Err(KvError::UnexpectedTable { name }) if name == "ordered"));
}

#[test]
fn a_database_is_blank_until_its_first_row() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("database");
    assert!(RocksKv::is_blank(&path).unwrap());
    assert!(!path.exists());
    let kv = RocksKv::open(&path, SPECS, options(), OpenMode::Create).unwrap();
    assert!(RocksKv::is_blank(&path).unwrap());
    let mut batch = Batch::new();
    batch.put(ORDERED, b"k", b"v");
    kv.commit(batch, Durability::Buffered).unwrap();
    drop(kv);
    assert!(!RocksKv::is_blank(&path).unwrap());
    RocksKv::destroy(&path).unwrap();
    assert!(RocksKv::tables_on_disk(&path).unwrap().is_empty());
}

#[test]
fn a_load_survives_reopening() {
    let dir = TempDir::new().unwrap();
    let kv = open(&dir);
    let mut rows_to_load = Batch::new();
    rows_to_load.put(POINTS, b"kept", b"2");
    let mut finish = Batch::new();
    finish.put(ORDERED, b"cursor", b"1");
    load(&kv, rows_to_load, finish);
    drop(kv);
    let kv = open(&dir);
    assert_eq!(rows(&kv, POINTS, &ALL), [(b"kept".to_vec(), b"2".to_vec())]);
    assert_eq!(kv.get(ORDERED, b"cursor").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn a_read_that_nobody_waits_for_ends_early() {
    use std::cell::Cell;
    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    fn is_unwanted() -> bool {
        LOOKS.set(LOOKS.get().saturating_sub(1));
        LOOKS.get() == 0
    }
    const ROWS: u32 = 10_000;
    let dir = TempDir::new().unwrap();
    let mut options = options();
    options.is_unwanted = is_unwanted;
    let rocks = RocksKv::open(dir.path(), SPECS, options, OpenMode::Create).unwrap();
    let mut batch = Batch::new();
    for row in 0..ROWS {
        batch.put(ORDERED, &row.to_be_bytes(), b"1");
    }
    rocks.commit(batch, Durability::Buffered).unwrap();
    let scan = |looks| {
        LOOKS.set(looks);
        let mut rows = 0;
        let outcome = rocks.snapshot().scan(ORDERED, &Scan::ALL, &mut |_, _| {
            rows += 1;
            true
        });
        (rows, outcome)
    };
    assert!(matches!(scan(usize::MAX), (10_000, Ok(10_000))));
    let (rows, outcome) = scan(4);
    assert!(rows < 2_000 && matches!(outcome, Err(KvError::Unwanted)), "{rows}: {outcome:?}");
    let keys: Vec<[u8; 4]> = (0..ROWS).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    LOOKS.set(2);
    let mut found = 0;
    let outcome = rocks.multi_get(ORDERED, &keys, &mut |_, _| found += 1);
    assert!(found < 9_000 && matches!(outcome, Err(KvError::Unwanted)), "{found}: {outcome:?}");
}
