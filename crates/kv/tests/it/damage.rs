//! Damage on disk is refused and named; nothing is dropped and nothing made anew without a word.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    thread,
};

use tempfile::TempDir;
use utxokeep_kv::{
    Access, Batch, Durability, Kv, KvError, LogReport, OpenMode, Read, RocksKv, RocksOptions,
    SortedRows, TableId, TableSpec,
};

const SPECS: &[TableSpec] = &[
    TableSpec { name: "first", access: Access::Point },
    TableSpec { name: "second", access: Access::Sequential },
];
const FIRST: TableId = TableId(0);
const SECOND: TableId = TableId(1);
const BATCHES: u32 = 2_000;

/// Does something bad to a file or directory.
type Harm<'h> = &'h dyn Fn(&Path);

fn open(dir: &Path) -> Result<RocksKv, KvError> {
    RocksKv::open(dir, SPECS, RocksOptions::within(16 << 20), OpenMode::Create)
}

/// One row in each table per batch, all in the log.
fn filled(dir: &Path) {
    let kv = open(dir).unwrap();
    for number in 0..BATCHES {
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), &[7; 40]);
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
    }
}

fn rows(kv: &RocksKv) -> u32 {
    let is_there = |number: &u32| kv.get(SECOND, &number.to_be_bytes()).unwrap().is_some();
    u32::try_from((0..BATCHES).filter(is_there).count()).unwrap()
}

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    paths.sort();
    paths
}

/// The log with the rows; opening makes an empty one beside it.
fn log(dir: &Path) -> PathBuf {
    files(dir, ".log").into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_and_nothing_is_shortened() {
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    let log = log(dir.path());
    let middle = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap() / 2;
    flip(&log, middle);
    for _ in 0..2 {
        let before = fs::read(&log).unwrap();
        let KvError::LogDamaged { file, offset, rows, .. } = open(dir.path()).unwrap_err() else {
            panic!("the flip was not seen for what it is");
        };
        assert_eq!(log.file_name().unwrap().to_string_lossy(), file);
        assert!(usize::try_from(offset).unwrap() <= middle);
        assert!((u64::from(BATCHES) / 2..u64::from(BATCHES) * 2).contains(&rows), "{rows}");
        assert_eq!(fs::read(&log).unwrap(), before, "the log is as it was");
    }
}

#[test]
fn recovery_lists_what_is_lost_and_keeps_the_rest() {
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    let log = log(dir.path());
    let middle = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap() / 2;
    flip(&log, middle);
    let mut lost = [BTreeSet::new(), BTreeSet::new()];
    let report = RocksKv::examine_log(dir.path(), &mut |row| {
        assert!(!row.is_deletion);
        let at = usize::from(row.table != Some("first"));
        assert!(at == 0 || row.table == Some("second"), "{row:?}");
        lost[at].insert(u32::from_be_bytes(row.key.try_into().unwrap()));
    })
    .unwrap();
    let LogReport { damage: Some(_), good_batches, lost_batches, .. } = report else {
        panic!("{report:?}");
    };
    assert_eq!(lost[0], lost[1]);
    assert_eq!(lost[0].len() as u64, lost_batches);
    // The batch with the flip, and those behind it in its block, cannot be read.
    assert!(report.unreadable_rows >= 2, "{report:?}");
    assert_eq!(good_batches + lost_batches + report.unreadable_rows / 2, u64::from(BATCHES));
    let kv = RocksKv::recover(dir.path(), SPECS, RocksOptions::within(16 << 20)).unwrap();
    assert_eq!(u64::from(rows(&kv)), good_batches);
    drop(kv);
    assert_eq!(u64::from(rows(&open(dir.path()).unwrap())), good_batches, "it opens as ever");
    assert_eq!(RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap().damage, None);
}

/// Every harm to a log is refused by an opening that ends, and `recover` finds a way on.
#[test]
fn zeros_lengths_and_kinds_in_the_log_are_damage_and_recover_finds_a_way_on() {
    let zeros = |path: &Path, at: usize, len: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at..at + len].fill(0);
        fs::write(path, bytes).unwrap();
    };
    let set = |path: &Path, at: usize, byte: u8| {
        let mut bytes = fs::read(path).unwrap();
        assert_ne!(bytes[at], byte);
        bytes[at] = byte;
        fs::write(path, bytes).unwrap();
    };
    let harms: [(&str, Harm<'_>); 7] = [
        ("a header of zeros", &|log| zeros(log, piece(log, 1, 5), 7)),
        ("zeros to the end of a block", &|log| {
            zeros(log, piece(log, 1, 5), 2 * BLOCK - piece(log, 1, 5));
        }),
        ("a page of zeros", &|log| zeros(log, BLOCK, 4_096)),
        ("a block of zeros", &|log| zeros(log, BLOCK, BLOCK)),
        ("a length in the last block", &|log| {
            let last = usize::try_from(fs::metadata(log).unwrap().len()).unwrap() / BLOCK;
            flip_bit(log, piece(log, last, 2) + 5, 0x80);
        }),
        ("a kind of logs that are used again", &|log| set(log, piece(log, 1, 5) + 6, 5)),
        ("a kind that nobody knows", &|log| set(log, piece(log, 1, 5) + 6, 77)),
    ];
    for (what, harm) in harms {
        let dir = TempDir::new().unwrap();
        filled(dir.path());
        let log = log(dir.path());
        harm(&log);
        let before = fs::read(&log).unwrap();
        let refused = open(dir.path());
        assert!(matches!(refused, Err(KvError::LogDamaged { .. })), "{what}: {refused:?}");
        let report = RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap();
        assert!(report.damage.is_some(), "{what}");
        let kv = RocksKv::recover(dir.path(), SPECS, RocksOptions::within(16 << 20)).unwrap();
        assert_eq!(u64::from(rows(&kv)), report.good_batches, "{what}");
        drop(kv);
        assert_eq!(u64::from(rows(&open(dir.path()).unwrap())), report.good_batches, "{what}");
        let kept = dir.path().join("lost").join(log.file_name().unwrap());
        assert_eq!(fs::read(kept).unwrap(), before, "{what}: the log is kept");
    }
}

const BLOCK: usize = 32 << 10;

/// Where the piece of this number begins in a block of the log.
fn piece(log: &Path, block: usize, number: usize) -> usize {
    let bytes = fs::read(log).unwrap();
    let mut at = block * BLOCK;
    for _ in 0..number {
        at += 7 + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
    }
    at
}

fn flip_bit(path: &Path, at: usize, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= bit;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_torn_end_of_the_log_is_what_a_crash_leaves_and_opens() {
    for torn in [1, 8, 60] {
        let dir = TempDir::new().unwrap();
        filled(dir.path());
        let log = log(dir.path());
        // The beginning of a batch like those before, which was not acknowledged.
        let bytes = fs::read(&log).unwrap();
        let last = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap() / BLOCK;
        let begun = piece(&log, last, 2);
        fs::write(&log, [&bytes[..], &bytes[begun..begun + torn]].concat()).unwrap();
        assert_eq!(RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap().damage, None);
        assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
    }
}

#[test]
fn a_power_cut_that_took_unsynced_writes_opens_and_synced_ones_are_missed() {
    for cut in [1, 8, 77] {
        for (is_known, why) in [(true, "the machine started again"), (false, "no mark at all")] {
            let dir = TempDir::new().unwrap();
            filled(dir.path());
            let log = log(dir.path());
            let bytes = fs::read(&log).unwrap();
            fs::write(&log, &bytes[..bytes.len() - cut]).unwrap();
            let refused = open(dir.path()).unwrap_err();
            assert!(matches!(refused, KvError::LogDamaged { .. }), "the same boot: {refused}");
            if is_known {
                boot_again(dir.path());
            } else {
                fs::remove_file(mark(dir.path())).unwrap();
            }
            assert_eq!(RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap().damage, None);
            let there = rows(&open(dir.path()).unwrap());
            assert!((BATCHES - 2..BATCHES).contains(&there), "{why}: {there}");
        }
    }
    let dir = TempDir::new().unwrap();
    let kv = open(dir.path()).unwrap();
    for number in 0..3u32 {
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), &[7; 400]);
        kv.commit(batch, Durability::Synced).unwrap();
    }
    drop(kv);
    boot_again(dir.path());
    fs::write(log(dir.path()), b"").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, KvError::LogDamaged { .. }), "synced writes outlive a boot: {error}");
}

/// How the name of the file begins that says how far acknowledged writes reach.
const MARK: &str = "ACKNOWLEDGED";

fn mark(dir: &Path) -> PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_mark = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(MARK);
    let marks: Vec<_> = paths.filter(is_mark).collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
    marks[0].clone()
}

/// Makes the mark one of an earlier boot of the machine.
fn boot_again(dir: &Path) {
    let mark = mark(dir);
    let text = fs::read_to_string(&mark).unwrap();
    let (body, _) = text.split_at(text.rfind("crc32c ").unwrap());
    let at = body.rfind("boot ").unwrap();
    let (head, boot) = body.split_at(at);
    let body = format!("{head}boot {}\n", "0".repeat(boot.trim_end().len() - "boot ".len()));
    let sum = crc32c::crc32c(body.as_bytes());
    fs::write(mark, format!("{body}crc32c {sum:08x}\n")).unwrap();
}

/// A database with rows of one table in a log that is closed, and later ones in the newest log.
fn filled_in_two_logs(dir: &Path, durability: Durability) -> Vec<PathBuf> {
    let kv = open(dir).unwrap();
    for number in 0..150u32 {
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), &vec![7; 60_000]);
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, durability).unwrap();
    }
    drop(kv);
    let logs = files(dir, ".log");
    assert!(logs.len() > 1 && fs::metadata(logs.last().unwrap()).unwrap().len() > 0, "{logs:?}");
    logs
}

/// Everything that open refuses in logs, recover finds, gets past, and keeps.
#[test]
fn the_loss_of_the_newest_log_or_of_all_is_refused_and_recover_gets_past_it() {
    let newest = |dir: &Path| fs::remove_file(files(dir, ".log").last().unwrap()).unwrap();
    let all = |dir: &Path| files(dir, ".log").iter().for_each(|log| fs::remove_file(log).unwrap());
    let oldest = |dir: &Path| fs::remove_file(&files(dir, ".log")[0]).unwrap();
    let cut = |dir: &Path| {
        let newest = files(dir, ".log").pop().unwrap();
        let bytes = fs::read(&newest).unwrap();
        fs::write(newest, &bytes[..bytes.len() / 2]).unwrap();
    };
    let emptied = |dir: &Path| fs::write(files(dir, ".log").last().unwrap(), b"").unwrap();
    let zeroed = |dir: &Path| {
        let newest = files(dir, ".log").pop().unwrap();
        let mut bytes = fs::read(&newest).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(0);
        fs::write(newest, bytes).unwrap();
    };
    // RocksDB has rows of the first table from behind the cut in files.
    let oldest_cut = |dir: &Path| {
        let oldest = files(dir, ".log").remove(0);
        let bytes = fs::read(&oldest).unwrap();
        fs::write(oldest, &bytes[..bytes.len() / 2]).unwrap();
    };
    let cases: [(&str, Harm<'_>); 7] = [
        ("the newest", &newest),
        ("all", &all),
        ("the oldest", &oldest),
        ("half of the oldest", &oldest_cut),
        ("half of the newest", &cut),
        ("the content of the newest", &emptied),
        ("zeros in the newest", &zeroed),
    ];
    for durability in [Durability::Synced, Durability::Buffered] {
        for (what, harm) in cases {
            let dir = TempDir::new().unwrap();
            filled_in_two_logs(dir.path(), durability);
            harm(dir.path());
            for _ in 0..2 {
                let error = open(dir.path()).unwrap_err();
                assert!(error.is_damage(), "{what}: {error:?}");
                assert!(error.to_string().contains("recover`"), "{what}: {error}");
            }
            let report = RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap();
            assert!(report.damage.is_some(), "{what}: {report:?}");
            let left: Vec<_> =
                files(dir.path(), ".log").into_iter().map(|log| fs::read(log).unwrap()).collect();
            let kv = RocksKv::recover(dir.path(), SPECS, RocksOptions::within(16 << 20)).unwrap();
            let there = rows(&kv);
            assert!(there < 150, "{what}: {there}");
            drop(kv);
            assert_eq!(RocksKv::examine_log(dir.path(), &mut |_| ()).unwrap().damage, None);
            assert_eq!(rows(&open(dir.path()).unwrap()), there, "{what}: it opens as ever");
            assert!(dir.path().join("lost").join(MARK).exists(), "{what}: the claim is kept");
            let kept: Vec<_> = files(&dir.path().join("lost"), ".log")
                .into_iter()
                .map(|log| fs::read(log).unwrap())
                .collect();
            assert!(left.ends_with(&kept), "{what}: logs are kept as they were");
        }
    }
}

#[test]
fn a_sound_database_is_never_taken_for_one_that_lost_its_log() {
    let sound = |dir: &Path, why: &str| {
        assert_eq!(RocksKv::examine_log(dir, &mut |_| ()).unwrap().damage, None, "{why}");
        open(dir).map_err(|error| format!("{why}: {error}")).unwrap()
    };
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    filled_in_two_logs(path, Durability::Buffered);
    drop(sound(path, "several logs"));
    drop(sound(path, "opened and not written to"));
    sound(path, "flushed").compact().unwrap();
    drop(sound(path, "flushed and not written to"));
    filled(path);
    sound(path, "written").compact().unwrap();
    fs::remove_file(mark(path)).unwrap();
    drop(sound(path, "of an older version"));
    filled(path);
    fs::write(mark(path), b"").unwrap();
    drop(sound(path, "an empty mark"));
    filled(path);
    fs::write(mark(path), vec![0; 300]).unwrap();
    drop(sound(path, "a mark of zeros"));
    let kv = sound(path, "loaded by table files");
    let mut batch = Batch::new();
    batch.put(FIRST, b"loaded", b"x");
    let tables = batch.sorted_tables();
    let tables: Vec<&dyn SortedRows> = tables.iter().map(|rows| rows as _).collect();
    kv.load(&tables, Batch::new()).unwrap();
    drop(kv);
    let kv = sound(path, "after a load");
    assert_eq!(kv.get(FIRST, b"loaded").unwrap(), Some(b"x".to_vec()));
    drop(kv);
    RocksKv::destroy(path).unwrap();
    filled(path);
    assert_eq!(rows(&sound(path, "made anew where one was deleted")), BATCHES);
}

#[test]
fn many_writers_at_once_leave_a_mark_that_holds() {
    let dir = TempDir::new().unwrap();
    let kv = open(dir.path()).unwrap();
    thread::scope(|scope| {
        for writer in 0..4u32 {
            let kv = &kv;
            scope.spawn(move || {
                for number in 0..500u32 {
                    let mut batch = Batch::new();
                    let key = (writer * 500 + number).to_be_bytes();
                    batch.put(SECOND, &key, &[7; 3_000]);
                    let synced = number % 50 == 0;
                    let durability = if synced { Durability::Synced } else { Durability::Buffered };
                    kv.commit(batch, durability).unwrap();
                }
            });
        }
    });
    drop(kv);
    assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
}

/// The two lines of the mark that say how far writes reach.
fn reaches(dir: &Path) -> [String; 2] {
    let text = fs::read_to_string(mark(dir)).unwrap();
    ["written", "synced"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    })
}

#[test]
fn a_commit_that_waited_for_the_disk_is_claimed_as_soon_as_it_is_answered() {
    let dir = TempDir::new().unwrap();
    let kv = open(dir.path()).unwrap();
    let commit = |number: u32, durability| {
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), &[7; 400]);
        kv.commit(batch, durability).unwrap();
    };
    commit(0, Durability::Synced);
    let [written, synced] = reaches(dir.path());
    assert_eq!(written, synced, "the first");
    commit(1, Durability::Buffered);
    commit(2, Durability::Synced);
    let [written, synced] = reaches(dir.path());
    assert_eq!(written, synced, "one that waits behind one that does not");
    thread::scope(|scope| {
        for writer in 0..8u32 {
            scope.spawn(move || (0..20).for_each(|n| commit(100 * writer + n, Durability::Synced)));
        }
    });
    let [written, synced] = reaches(dir.path());
    assert_eq!(written, synced, "the last of many at once");
    for number in 0..200 {
        commit(number, Durability::Buffered);
    }
    let [written, synced] = reaches(dir.path());
    assert!(written > synced, "{written}, {synced}: nobody waited for the disk");
}

fn copy_over(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from, "") {
        if file.is_file() {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = files(dir, "").into_iter().filter(|path| path.is_file());
    all.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// A database in `newer`, and a backup of it from before in `older`.
fn backed_up(place: &Path) -> (PathBuf, PathBuf) {
    let (newer, older) = (place.join("newer"), place.join("older"));
    filled(&newer);
    copy_over(&newer, &older);
    // What came between goes into a table that the backup does not know.
    let kv = open(&newer).unwrap();
    let mut batch = Batch::new();
    batch.put(FIRST, b"between", b"x");
    kv.commit(batch, Durability::Synced).unwrap();
    kv.compact().unwrap();
    drop(kv);
    let kv = open(&newer).unwrap();
    let mut batch = Batch::new();
    batch.put(FIRST, b"newest", b"x");
    kv.commit(batch, Durability::Synced).unwrap();
    (newer, older)
}

#[test]
fn an_older_backup_copied_over_a_newer_database_is_refused_and_nothing_is_changed() {
    let whole = |_: &Path| ();
    // As an earlier version left it.
    let unnoted = |older: &Path| fs::remove_file(mark(older)).unwrap();
    let noted_before = |older: &Path| fs::rename(mark(older), older.join(MARK)).unwrap();
    let cases: [(&str, Harm<'_>); 3] = [
        ("a whole backup", &whole),
        ("one without a note", &unnoted),
        ("one with the note of an earlier version", &noted_before),
    ];
    for (what, prepare) in cases {
        let place = TempDir::new().unwrap();
        let (newer, older) = backed_up(place.path());
        prepare(&older);
        copy_over(&older, &newer);
        let before = content(&newer);
        for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::Read] {
            let error = RocksKv::open(&newer, SPECS, RocksOptions::within(16 << 20), mode);
            let error = error.unwrap_err();
            assert!(matches!(error, KvError::Mixed { .. }), "{what}: {error:?}");
            assert!(error.is_damage() && error.to_string().contains("empty directory"), "{error}");
        }
        let looked = RocksKv::examine_log(&newer, &mut |_| ()).unwrap_err();
        assert!(matches!(looked, KvError::Mixed { .. }), "{what}: {looked:?}");
        let recovered = RocksKv::recover(&newer, SPECS, RocksOptions::within(16 << 20));
        assert!(matches!(recovered, Err(KvError::Mixed { .. })), "{what}");
        assert!(RocksKv::is_blank(&newer).is_err(), "{what}");
        assert_eq!(content(&newer), before, "{what}: nothing was changed");
        fs::remove_dir_all(&newer).unwrap();
        copy_over(&older, &newer);
        assert_eq!(rows(&open(&newer).unwrap()), BATCHES, "{what}: into an empty directory");
    }
}

/// RocksDB takes what is left of a manifest for the whole, and forgets tables and files.
#[test]
fn a_manifest_that_is_cut_anywhere_is_refused() {
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    let kv = open(dir.path()).unwrap();
    kv.compact().unwrap();
    let mut batch = Batch::new();
    batch.put(FIRST, b"newest", b"x");
    kv.commit(batch, Durability::Buffered).unwrap();
    drop(kv);
    let named = fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let manifest = dir.path().join(named.trim_end());
    let whole = fs::read(&manifest).unwrap();
    let before = content(dir.path()).len();
    for bytes in (0..whole.len()).step_by(29).chain([whole.len() - 1]) {
        fs::write(&manifest, &whole[..bytes]).unwrap();
        for mode in [OpenMode::Create, OpenMode::Read] {
            let error = RocksKv::open(dir.path(), SPECS, RocksOptions::within(16 << 20), mode);
            let error = error.unwrap_err();
            assert!(error.is_damage(), "{bytes} of {}: {error:?}", whole.len());
        }
        assert_eq!(content(dir.path()).len(), before, "{bytes}: no file was deleted");
    }
    fs::write(&manifest, &whole).unwrap();
    assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
}

#[test]
fn a_newer_backup_copied_over_an_older_database_is_refused() {
    let place = TempDir::new().unwrap();
    let (newer, older) = backed_up(place.path());
    copy_over(&newer, &older);
    let error = open(&older).unwrap_err();
    assert!(matches!(error, KvError::Mixed { .. }), "{error:?}");
}

#[test]
fn a_snapshot_of_a_running_database_copied_over_a_later_log_is_refused() {
    let place = TempDir::new().unwrap();
    let (dir, snapshot) = (place.path().join("db"), place.path().join("snapshot"));
    let kv = open(&dir).unwrap();
    let commit = |number: u32| {
        let mut batch = Batch::new();
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
    };
    commit(1);
    copy_over(&dir, &snapshot);
    commit(2);
    kv.compact().unwrap();
    commit(3);
    drop(kv);
    copy_over(&snapshot, &dir);
    let error = open(&dir).unwrap_err();
    assert!(matches!(error, KvError::Mixed { .. }), "{error:?}");
}

#[test]
fn a_snapshot_of_the_same_log_copied_over_it_opens_as_the_snapshot() {
    let place = TempDir::new().unwrap();
    let (dir, snapshot) = (place.path().join("db"), place.path().join("snapshot"));
    let kv = open(&dir).unwrap();
    let commit = |number: u32| {
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), b"x");
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
    };
    commit(1);
    copy_over(&dir, &snapshot);
    commit(2);
    drop(kv);
    copy_over(&snapshot, &dir);
    let kv = open(&dir).unwrap();
    let has = |table, number: u32| kv.get(table, &number.to_be_bytes()).unwrap().is_some();
    assert_eq!([FIRST, SECOND].map(|table| (has(table, 1), has(table, 2))), [(true, false); 2]);
}

#[test]
fn a_backup_copied_over_a_database_in_use_is_noticed() {
    let place = TempDir::new().unwrap();
    let (newer, older) = backed_up(place.path());
    let kv = open(&newer).unwrap();
    assert_eq!(kv.trouble(), None);
    copy_over(&older, &newer);
    let trouble = kv.trouble().unwrap();
    assert!(trouble.reason.contains("another copy") && !trouble.passes, "{trouble:?}");
}

#[test]
fn files_deleted_in_use_are_noticed() {
    let current = |dir: &Path| fs::remove_file(dir.join("CURRENT")).unwrap();
    let manifest = |dir: &Path| {
        let named = fs::read_to_string(dir.join("CURRENT")).unwrap();
        fs::remove_file(dir.join(named.trim_end())).unwrap();
    };
    let log = |dir: &Path| fs::remove_file(files(dir, ".log").last().unwrap()).unwrap();
    let table = |dir: &Path| fs::remove_file(files(dir, ".sst").last().unwrap()).unwrap();
    let lock = |dir: &Path| fs::remove_file(dir.join("LOCK")).unwrap();
    let note = |dir: &Path| fs::remove_file(mark(dir)).unwrap();
    let whole = |dir: &Path| fs::remove_dir_all(dir).unwrap();
    let moved = |dir: &Path| {
        fs::rename(dir, dir.with_extension("aside")).unwrap();
        fs::create_dir(dir).unwrap();
    };
    let cases: [(&str, Harm<'_>); 8] = [
        ("LOCK", &lock),
        (MARK, &note),
        ("CURRENT", &current),
        ("MANIFEST-", &manifest),
        (".log", &log),
        (".sst", &table),
        ("the files", &whole),
        ("was exchanged", &moved),
    ];
    for (what, harm) in cases {
        let place = TempDir::new().unwrap();
        let dir = place.path().join("db");
        filled(&dir);
        let kv = open(&dir).unwrap();
        kv.compact().unwrap();
        let mut batch = Batch::new();
        batch.put(FIRST, b"newest", b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
        harm(&dir);
        let trouble = kv.trouble().unwrap();
        assert!(trouble.reason.contains(what) && !trouble.passes, "{what}: {trouble:?}");
    }
}

#[test]
fn files_that_rocksdb_deletes_itself_are_not_missed() {
    let dir = TempDir::new().unwrap();
    let kv = open(dir.path()).unwrap();
    for number in 0..400u32 {
        let mut batch = Batch::new();
        batch.put(FIRST, &(number % 50).to_be_bytes(), &vec![7; 60_000]);
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
        assert_eq!(kv.trouble(), None, "{number}");
    }
    kv.compact().unwrap();
    assert_eq!(kv.trouble(), None);
}

#[test]
fn recover_leaves_a_database_alone_that_is_in_use() {
    const IN_CHILD: &str = "UTXOKEEP_TEST_RECOVER_DIR";
    if let Some(dir) = std::env::var_os(IN_CHILD) {
        let dir = Path::new(&dir);
        let looked = RocksKv::examine_log(dir, &mut |_| ()).unwrap_err();
        assert!(matches!(looked, KvError::InUse { .. }), "{looked}");
        let error = RocksKv::recover(dir, SPECS, RocksOptions::within(16 << 20)).unwrap_err();
        assert!(matches!(error, KvError::InUse { .. }), "{error}");
        return;
    }
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    let kv = open(dir.path()).unwrap();
    // A lock does not keep its own process out.
    let other = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "damage::recover_leaves_a_database_alone_that_is_in_use"])
        .env(IN_CHILD, dir.path())
        .output()
        .unwrap();
    assert_passed(&other);
    assert_eq!(rows(&kv), BATCHES);
}

#[test]
fn a_store_that_lost_current_is_not_taken_for_a_new_one() {
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    open(dir.path()).unwrap().compact().unwrap();
    let tables = files(dir.path(), ".sst");
    assert!(!tables.is_empty());
    let current = fs::read(dir.path().join("CURRENT")).unwrap();
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    for _ in 0..2 {
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(&error, KvError::LostFile { file, .. } if file == "CURRENT"), "{error}");
        assert!(RocksKv::tables_on_disk(dir.path()).is_err());
        assert!(RocksKv::is_blank(dir.path()).is_err());
        assert_eq!(files(dir.path(), ".sst"), tables);
    }
    fs::write(dir.path().join("CURRENT"), current).unwrap();
    assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
}

#[test]
fn a_store_that_lost_its_log_is_refused() {
    let dir = TempDir::new().unwrap();
    filled(dir.path());
    for log in files(dir.path(), ".log") {
        fs::remove_file(log).unwrap();
    }
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, KvError::LostFile { .. }), "{error}");
}

#[test]
fn a_log_that_was_closed_and_is_lost_or_cut_is_refused() {
    let cut = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..1_000]).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let cases: [(&str, Harm<'_>); 2] = [("cut", &cut), ("removed", &remove)];
    for (name, harm) in cases {
        let dir = TempDir::new().unwrap();
        let kv = open(dir.path()).unwrap();
        for number in 0..300u32 {
            let mut batch = Batch::new();
            batch.put(FIRST, &number.to_be_bytes(), &vec![7; 60_000]);
            batch.put(SECOND, &number.to_be_bytes(), b"x");
            kv.commit(batch, Durability::Synced).unwrap();
        }
        drop(kv);
        let logs = files(dir.path(), ".log");
        assert!(logs.len() > 1, "{logs:?}: rows of the second table are in a log that is closed");
        harm(&logs[0]);
        let error = open(dir.path()).unwrap_err();
        assert!(error.is_damage(), "{name}: {error:?}");
    }
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("MANIFEST-000001"), b"").unwrap();
    fs::write(dir.path().join("IDENTITY"), b"").unwrap();
    fs::write(dir.path().join("LOG"), b"").unwrap();
    assert!(RocksKv::is_blank(dir.path()).unwrap());
    filled(dir.path());
    assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
}

#[test]
fn a_creation_that_was_killed_before_its_first_log_is_begun_again() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()).unwrap());
    for path in files(dir.path(), ".log") {
        fs::remove_file(path).unwrap();
    }
    assert!(matches!(open(dir.path()), Err(KvError::LostFile { .. })), "it had been opened whole");
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-") {
            fs::remove_file(path).unwrap();
        }
    }
    let unasked =
        RocksKv::open(dir.path(), SPECS, RocksOptions::within(16 << 20), OpenMode::Existing);
    assert!(matches!(unasked, Err(KvError::NotFound { .. })));
    filled(dir.path());
    assert_eq!(rows(&open(dir.path()).unwrap()), BATCHES);
}

#[test]
fn damage_under_a_path_with_the_word_lock_is_not_in_use() {
    let place = TempDir::new().unwrap();
    let dir = place.path().join("blockchain-lock");
    filled(&dir);
    open(&dir).unwrap().compact().unwrap();
    let manifest =
        files(&dir, "").into_iter().find(|path| path.to_string_lossy().contains("MANIF"));
    fs::remove_file(manifest.unwrap()).unwrap();
    let error = open(&dir).unwrap_err();
    assert!(error.is_damage(), "{error:?}");
    // A file where the directory should be is the world's fault, not damage and not a lock.
    let file = place.path().join("my-lock");
    fs::write(&file, b"").unwrap();
    let error = open(&file.join("blocks")).unwrap_err();
    assert!(matches!(error, KvError::Engine { .. }), "{error:?}");
}

#[test]
fn damage_of_a_table_is_named_damage() {
    let flipped = |dir: &Path| {
        let table = files(dir, ".sst").remove(0);
        flip(&table, 20);
    };
    let cut = |dir: &Path| {
        let table = files(dir, ".sst").remove(0);
        let bytes = fs::read(&table).unwrap();
        fs::write(table, &bytes[..bytes.len() / 2]).unwrap();
    };
    let gone = |dir: &Path| fs::remove_file(files(dir, ".sst").remove(0)).unwrap();
    let cases: [(&str, Harm<'_>); 3] = [("flip", &flipped), ("cut", &cut), ("gone", &gone)];
    for (name, harm) in cases {
        let dir = TempDir::new().unwrap();
        filled(dir.path());
        open(dir.path()).unwrap().compact().unwrap();
        harm(dir.path());
        let read = open(dir.path()).and_then(|kv| {
            (0..BATCHES).try_for_each(|number| {
                kv.get(FIRST, &number.to_be_bytes())?;
                kv.get(SECOND, &number.to_be_bytes()).map(drop)
            })
        });
        let error = read.unwrap_err();
        assert!(error.is_damage(), "{name}: {error:?}");
    }
}

/// A process that runs one test again: a name that does not exist would succeed without a test.
fn assert_passed(run: &std::process::Output) {
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{run:?}");
}

/// Whatever restarts a program on a full disk must not fill it further.
#[test]
fn opening_again_and_again_on_a_full_disk_leaves_no_more_tables() {
    const NAME: &str = "damage::opening_again_and_again_on_a_full_disk_leaves_no_more_tables";
    const SMALL: &str = "UTXOKEEP_TEST_SMALL_DISK";
    if let Some(small) = std::env::var_os(SMALL) {
        open_on_a_full_disk(Path::new(&small));
        return;
    }
    let apart = || std::process::Command::new("unshare");
    if !apart().args(["-rm", "true"]).status().is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount");
        eprintln!("skipped: `unshare -rm` is not allowed here");
        return;
    }
    let small = TempDir::new().unwrap();
    let mount = "mount -t tmpfs -o size=24m tmpfs \"$0\" && exec \"$@\"";
    let inside = apart()
        .args(["-rm", "sh", "-c", mount])
        .arg(small.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(SMALL, small.path())
        .output()
        .unwrap();
    assert_passed(&inside);
}

fn open_on_a_full_disk(small: &Path) {
    let dir = small.join("db");
    let open = || RocksKv::open(&dir, SPECS, RocksOptions::within(256 << 20), OpenMode::Create);
    let kv = open().unwrap();
    let mut random = 1u64;
    for number in 0..BATCHES {
        let mut value = Vec::new();
        // Nothing that a table could press together.
        for _ in 0..600 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            value.extend_from_slice(&random.to_be_bytes());
        }
        let mut batch = Batch::new();
        batch.put(FIRST, &number.to_be_bytes(), &value);
        batch.put(SECOND, &number.to_be_bytes(), b"x");
        kv.commit(batch, Durability::Buffered).unwrap();
    }
    drop(kv);
    let filler = small.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    let mut room = 0;
    while file.write_all(&[1; 4_096]).is_ok() {
        room += 4_096;
    }
    assert!(room > 1 << 20, "{room}");
    file.set_len(room - (1 << 20)).unwrap();
    let tables = files(&dir, ".sst");
    for _ in 0..4 {
        let error = open().unwrap_err();
        assert!(matches!(error, KvError::DiskFull { .. }), "{error:?}");
        assert!(!error.to_string().contains("by itself"), "{error}");
        assert_eq!(files(&dir, ".sst"), tables);
    }
    drop(file);
    fs::remove_file(filler).unwrap();
    assert_eq!(rows(&open().unwrap()), BATCHES);
}
