//! One suite for every engine: what the port promises, each engine keeps.

use tempfile::TempDir;
use utxokeep_kv::{
    Access, Batch, Durability, Kv, KvError, MemoryKv, OpenMode, Read, RocksKv, RocksOptions, Scan,
    SortedRows, TableId, TableSpec,
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

fn on_every_engine(test: impl Fn(&dyn Fn(Batch), &dyn Read)) {
    let memory = MemoryKv::new(SPECS);
    test(&|batch| memory.commit(batch, Durability::Synced).unwrap(), &memory);
    let dir = TempDir::new().unwrap();
    let rocks = open(&dir);
    test(&|batch| rocks.commit(batch, Durability::Buffered).unwrap(), &rocks);
    let dir = TempDir::new().unwrap();
    let rocks = open(&dir);
    test(&|batch| load(&rocks, batch, Batch::new()), &rocks);
}

fn load(kv: &RocksKv, mut batch: Batch, finish: Batch) {
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

#[test]
fn puts_deletes_and_reads_across_tables() {
    on_every_engine(|commit, read| {
        let mut batch = Batch::new();
        batch.put(POINTS, b"a", b"1");
        batch.put(POINTS, b"b", b"2");
        batch.put(ORDERED, b"a", b"3");
        commit(batch);
        let mut batch = Batch::new();
        batch.delete(POINTS, b"a");
        batch.put(POINTS, b"c", b"");
        commit(batch);

        assert_eq!(read.get(POINTS, b"a").unwrap(), None);
        assert_eq!(read.get(ORDERED, b"a").unwrap(), Some(b"3".to_vec()));
        let mut found = Vec::new();
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        read.multi_get(POINTS, &keys, &mut |at, value| found.push((at, value.map(<[u8]>::to_vec))))
            .unwrap();
        let expected = [(0, None), (1, Some(b"2".to_vec())), (2, Some(vec![])), (3, None)];
        assert_eq!(found, expected);
    });
}

#[test]
fn scans_are_bounded_ordered_and_reversible() {
    on_every_engine(|commit, read| {
        let mut batch = Batch::new();
        for key in [b"a1", b"a2", b"a3", b"b1", b"b2"] {
            batch.put(PREFIXED, key, &key[1..]);
        }
        commit(batch);
        let keys = |scan: &Scan<'_>| -> Vec<String> {
            rows(read, PREFIXED, scan)
                .into_iter()
                .map(|(key, _)| String::from_utf8(key).unwrap())
                .collect()
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
    });
}

#[test]
fn a_snapshot_does_not_see_later_batches() {
    let dir = TempDir::new().unwrap();
    let kv = open(&dir);
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"old");
    kv.commit(batch, Durability::Buffered).unwrap();
    let snapshot = kv.snapshot();
    let mut batch = Batch::new();
    batch.put(POINTS, b"k", b"new");
    batch.put(POINTS, b"l", b"new");
    kv.commit(batch, Durability::Buffered).unwrap();
    assert_eq!(snapshot.get(POINTS, b"k").unwrap(), Some(b"old".to_vec()));
    assert_eq!(rows(&snapshot, POINTS, &ALL).len(), 1);
    assert_eq!(rows(&kv, POINTS, &ALL).len(), 2);
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
fn a_load_replaces_and_deletes_rows_that_are_there() {
    let dir = TempDir::new().unwrap();
    let kv = open(&dir);
    let mut batch = Batch::new();
    batch.put(POINTS, b"gone", b"1");
    batch.put(POINTS, b"kept", b"1");
    kv.commit(batch, Durability::Buffered).unwrap();
    let mut rows_to_load = Batch::new();
    rows_to_load.delete(POINTS, b"gone");
    rows_to_load.put(POINTS, b"kept", b"2");
    let mut finish = Batch::new();
    finish.put(ORDERED, b"cursor", b"1");
    load(&kv, rows_to_load, finish);
    assert_eq!(rows(&kv, POINTS, &ALL), [(b"kept".to_vec(), b"2".to_vec())]);
    drop(kv);
    assert_eq!(open(&dir).get(ORDERED, b"cursor").unwrap(), Some(b"1".to_vec()));
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
