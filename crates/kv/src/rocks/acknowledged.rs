//! How far acknowledged writes reach, kept beside the database.
//!
//! RocksDB cannot know that its newest log is gone: the manifest lists a log when it is closed.
//! The file `ACKNOWLEDGED` says which log is the newest that was written, and how long it was: after
//! each commit that waits for the disk, after the first into a log, and every 16 KiB of others.
//! Opening compares. A log is deleted only when a newer one exists and its rows are in
//! tables, so a newest log with a smaller number, or a log that is shorter than it was, has lost
//! acknowledged writes.
//!
//! # Invariants
//!
//! * The file is written after the commit, so a crash in between leaves it behind, never ahead.
//! * It is written in place and not synced. One whose checksum does not match claims nothing.
//! * After a power cut only what was synced is claimed. Another boot id shows that the machine was
//!   started again.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::place;
use crate::{Durability, KvError};

/// Name of the file in the directory of the database.
pub(super) const FILE: &str = "ACKNOWLEDGED";
const TITLE: &str = "utxokeep acknowledged writes 1";
/// Longer than the file ever is.
const FILE_BYTES_MAX: usize = 1_024;
/// How much a log may grow by commits that do not wait for the disk until it is noted.
const UNNOTED_BYTES_MAX: u64 = 16 << 10;
/// What Linux calls its boot; elsewhere there is none.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A place in the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Reach {
    /// Number of the log; 0 for none.
    pub(super) log: u64,
    /// The file has at least this many bytes.
    pub(super) bytes: u64,
    /// Whole records reach at least to this byte. Less than `bytes` where another write was under
    /// way when the length was taken.
    pub(super) whole: u64,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Mark {
    /// What was handed to the operating system.
    written: Reach,
    /// What a later commit waited for the disk with.
    synced: Reach,
    /// Boot of the machine that `written` is true for; empty where that is unknown.
    boot: String,
}

impl Mark {
    /// Always of the same length for the same boot id, so that writing in place leaves no rest.
    fn encode(&self) -> String {
        let mut text = String::with_capacity(FILE_BYTES_MAX);
        let reach = |name: &str, Reach { log, bytes, whole }: Reach| {
            format!("{name} log {log:020} bytes {bytes:020} whole {whole:020}\n")
        };
        text.push_str(TITLE);
        text.push('\n');
        text.push_str(&reach("written", self.written));
        text.push_str(&reach("synced", self.synced));
        // Writing into a text does not fail.
        let _ = writeln!(text, "boot {:>40}", self.boot);
        let _ = writeln!(text, "crc32c {:08x}", crc32c::crc32c(text.as_bytes()));
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let (body, sum) = text.split_at_checked(text.rfind("crc32c ")?)?;
        if u32::from_str_radix(sum.strip_prefix("crc32c ")?.trim_end(), 16)
            != Ok(crc32c::crc32c(body.as_bytes()))
        {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut reach = |name: &str| {
            let mut words = lines.next()?.split_ascii_whitespace();
            (words.next()? == name).then_some(())?;
            let mut number = |name: &str| {
                (words.next()? == name).then_some(())?;
                words.next()?.parse().ok()
            };
            Some(Reach { log: number("log")?, bytes: number("bytes")?, whole: number("whole")? })
        };
        let (written, synced) = (reach("written")?, reach("synced")?);
        let boot = lines.next()?.strip_prefix("boot ")?.trim().to_owned();
        Some(Self { written, synced, boot })
    }
}

fn boot_id() -> String {
    let text = fs::read_to_string(BOOT_ID).unwrap_or_default();
    text.trim().chars().filter(char::is_ascii).take(40).collect()
}

/// What the database in `dir` must still have in its logs. Nothing where there is no file, as in a
/// database of an older version, or where it cannot be read whole.
pub(super) fn claimed(dir: &Path) -> Result<Reach, KvError> {
    let bytes = match fs::read(dir.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reach::default()),
        Err(error) => return Err(KvError::engine("reading ACKNOWLEDGED", error)),
    };
    let text = bytes.get(..bytes.len().min(FILE_BYTES_MAX)).map(String::from_utf8_lossy);
    let Some(mark) = text.and_then(|text| Mark::decode(&text)) else { return Ok(Reach::default()) };
    let is_same_boot = !mark.boot.is_empty() && mark.boot == boot_id();
    Ok(if is_same_boot { mark.written } else { mark.synced })
}

/// A log as it lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) log: u64,
    /// Length of the file.
    pub(super) bytes: u64,
    /// Where whole records end.
    pub(super) whole: u64,
}

/// Which log lacks acknowledged writes, from which byte on, and what is wrong with it. `logs` are
/// in the order of their numbers.
pub(super) fn shortfall(claimed: Reach, logs: &[Extent]) -> Option<(u64, u64, &'static str)> {
    if claimed.log == 0 {
        return None;
    }
    if logs.last().is_none_or(|newest| newest.log < claimed.log) {
        return Some((claimed.log, 0, "the file is missing, and acknowledged writes were in it"));
    }
    let log = logs.iter().find(|log| log.log == claimed.log)?;
    if log.bytes < claimed.bytes || log.whole < claimed.whole {
        return Some((log.log, log.whole, "it ends before writes that were acknowledged"));
    }
    None
}

/// Keeps the file while the database is open.
#[derive(Debug)]
pub(super) struct Acknowledged {
    dir: PathBuf,
    /// Writes that began, and those that ended well. One that failed may have left part of a record,
    /// so that from then on the length of a log says nothing about whole records.
    begun: AtomicU64,
    ended: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None for a database that is open for reading only.
    file: Option<File>,
    mark: Mark,
    /// What the file says was written.
    noted: Reach,
    /// The newest log, by which its length is asked.
    log: Option<File>,
    /// Number of the newest write that the mark includes.
    sequence: u64,
}

impl State {
    fn note(&mut self) {
        let Some(file) = &self.file else { return };
        if file.write_all_at(self.mark.encode().as_bytes(), 0).is_ok() {
            self.noted = self.mark.written;
        }
    }
}

impl Acknowledged {
    /// Of a database that is open for reading.
    pub(super) fn never(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Begins anew in a database that was just opened: opening put all logs into tables.
    pub(super) fn start(dir: &Path, sequence: u64) -> Result<Self, KvError> {
        let fault = |error| KvError::io("creating ACKNOWLEDGED", error);
        let path = dir.join(FILE);
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(fault)?;
        let mark = Mark { boot: boot_id(), ..Mark::default() };
        let text = mark.encode();
        file.write_all_at(text.as_bytes(), 0).map_err(fault)?;
        file.set_len(text.len() as u64).map_err(fault)?;
        if is_new {
            file.sync_all().map_err(fault)?;
        }
        let state = State { file: Some(file), mark, sequence, ..State::default() };
        Ok(Self { state: Mutex::new(state), ..Self::never(dir) })
    }

    /// A write begins. Answers what a sync from now on includes.
    pub(super) fn begin(&self) -> Reach {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.state().mark.written
    }

    /// A write that began with this answer is acknowledged; `sequence` asks for the number of the
    /// newest write. A failure to note it is no failure of the write: the claim is only less.
    pub(super) fn end(&self, before: Reach, durability: Durability, sequence: impl Fn() -> u64) {
        let mut state = self.state();
        let ended = self.ended.fetch_add(1, Ordering::AcqRel) + 1;
        let sequence = sequence();
        let is_newer = durability == Durability::Synced && state.mark.synced < before;
        if is_newer {
            state.mark.synced = before;
        }
        // Another commit may have noted this one with its own.
        if sequence > state.sequence {
            let is_noted = self.take_length(&mut state, ended).is_ok();
            if is_noted {
                state.sequence = sequence;
            }
        } else if !is_newer {
            return;
        }
        let (written, noted) = (state.mark.written, state.noted);
        let is_due = durability == Durability::Synced
            || written.log != noted.log
            || written.bytes >= noted.bytes + UNNOTED_BYTES_MAX;
        if is_due {
            state.note();
        }
    }

    /// The database is closed in good order.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        if state.mark.written != state.noted {
            state.note();
        }
    }

    /// The newest log that a write went to; 0 for none.
    pub(super) fn newest_log(&self) -> u64 {
        self.state().mark.written.log
    }

    fn take_length(&self, state: &mut State, ended: u64) -> io::Result<()> {
        let length = |log: &Option<File>| match log {
            Some(log) => log.metadata().map(|found| found.len()),
            None => Ok(0),
        };
        let mut bytes = length(&state.log)?;
        if bytes <= state.mark.written.bytes {
            // It did not grow: the write went to a newer one.
            let newest = place::logs(&self.dir)?.pop();
            // A log that was deleted under the database stays claimed.
            let newest = newest.filter(|(log, _)| *log >= state.mark.written.log);
            let Some((log, path)) = newest else { return Ok(()) };
            state.log = Some(File::open(path)?);
            bytes = length(&state.log)?;
            if log != state.mark.written.log {
                state.mark.written = Reach { log, bytes: 0, whole: 0 };
            }
        }
        let is_alone = self.begun.load(Ordering::Acquire) == ended;
        let written = &mut state.mark.written;
        written.bytes = bytes;
        if is_alone {
            written.whole = bytes;
        }
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the claim back, because its loss was accepted. What it said is kept in `lost`.
pub(super) fn put_aside(dir: &Path, lost: &Path) -> io::Result<()> {
    match fs::rename(dir.join(FILE), lost.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes the claim back, because the database is deleted.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { log: 9, bytes: 500, whole: 400 };

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_torn_one_claims_nothing() {
        let mark =
            Mark { written: REACH, synced: Reach { log: 8, ..REACH }, boot: "a-b".to_owned() };
        let text = mark.encode();
        assert_eq!(Mark::decode(&text), Some(mark));
        for cut in 0..text.len() - 1 {
            assert_eq!(Mark::decode(&text[..cut]), None, "{cut}");
        }
        assert_eq!(Mark::decode(&text.replace("500", "501")), None);
        assert_eq!(Mark::decode(&"\0".repeat(text.len())), None);
    }

    #[test]
    fn only_a_log_that_lacks_acknowledged_writes_falls_short() {
        let log = |log, bytes, whole| Extent { log, bytes, whole };
        let sound: [&[Extent]; 5] = [
            &[log(9, 500, 400)],
            &[log(8, 1, 1), log(9, 600, 600)],
            // It went into tables, and a newer one was begun.
            &[log(10, 0, 0)],
            &[log(7, 9, 9), log(10, 0, 0)],
            &[log(9, 500, 450), log(10, 0, 0)],
        ];
        for logs in sound {
            assert_eq!(shortfall(REACH, logs), None, "{logs:?}");
        }
        let short: [(&[Extent], u64); 5] = [
            (&[], 0),
            (&[log(8, 900, 900)], 0),
            (&[log(9, 499, 450)], 450),
            (&[log(9, 500, 399)], 399),
            (&[log(9, 0, 0), log(10, 10, 10)], 0),
        ];
        for (logs, from) in short {
            let (number, at, _) = shortfall(REACH, logs).unwrap();
            assert_eq!((number, at), (9, from), "{logs:?}");
        }
        assert_eq!(shortfall(Reach::default(), &[]), None);
    }

    /// Time of this thread on a core, which does not grow with what else the machine does.
    fn cpu_ns() -> f64 {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split_ascii_whitespace().next().unwrap().parse().unwrap()
    }

    /// `cargo nextest run -p utxokeep-kv --run-ignored only --no-capture what_a_commit_pays`
    #[test]
    #[ignore = "prints a measurement"]
    fn what_a_commit_pays_for_its_mark() {
        use crate::{Access, OpenMode, RocksKv, RocksOptions, TableSpec};
        const SPECS: &[TableSpec] = &[TableSpec { name: "rows", access: Access::Point }];
        let dir = tempfile::TempDir::new().unwrap();
        let kv =
            RocksKv::open(dir.path(), SPECS, RocksOptions::within(512 << 20), OpenMode::Create)
                .unwrap();
        let mut number = 0u64;
        let mut run = |is_marked: bool, durability: Durability, commits: u32| {
            let (started, cpu_started) = (std::time::Instant::now(), cpu_ns());
            for _ in 0..commits {
                number += 1;
                let mut writes = rocksdb::WriteBatch::default();
                for row in 0..4u8 {
                    let key = [&number.to_be_bytes()[..], &[row]].concat();
                    writes.put_cf(kv.db.cf_handle("rows").unwrap(), key, [7; 100]);
                }
                if is_marked {
                    kv.write_raw(writes, durability).unwrap();
                } else {
                    let mut options = rocksdb::WriteOptions::default();
                    options.set_sync(durability == Durability::Synced);
                    kv.db.write_opt(writes, &options).unwrap();
                }
            }
            let cpu = (cpu_ns() - cpu_started) / 1e3;
            [started.elapsed().as_secs_f64() * 1e6, cpu].map(|us| us / f64::from(commits))
        };
        for (name, durability, commits) in
            [("off", Durability::Buffered, 20_000), ("on", Durability::Synced, 500)]
        {
            let mut best = [[f64::MAX; 2]; 2];
            for _ in 0..5 {
                for (best, is_marked) in best.iter_mut().zip([false, true]) {
                    let took = run(is_marked, durability, commits);
                    *best = [best[0].min(took[0]), best[1].min(took[1])];
                }
            }
            let [[bare, bare_cpu], [marked, marked_cpu]] = best;
            eprintln!(
                "fsync {name}: a commit takes {bare:.1} us ({bare_cpu:.1} us CPU) without the mark, \
                 {marked:.1} us ({marked_cpu:.1} us CPU) with it"
            );
        }
    }
}
