//! How far acknowledged writes reach, kept beside the database.
//!
//! RocksDB cannot know that its newest log is gone: the manifest lists a log when it is closed.
//! A note (see [`note`]) says which log is the newest that was written, and how long it was: after
//! each commit that waits for the disk, after the first into a log, and every 16 KiB of others.
//! Opening compares. A log is deleted only when a newer one exists and its rows are in
//! tables, so a newest log with a smaller number, or a log that is shorter than it was, has lost
//! acknowledged writes.
//!
//! # Invariants
//!
//! * The note is written after the commit, so a crash in between leaves it behind, never ahead.
//! * It is written in place and not synced. One whose checksum does not match claims nothing.
//! * After a power cut only what was synced is claimed. Another boot id shows that the machine was
//!   started again.
//! * There is one note. Another name comes with every session and every log, by renaming it.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    note::{self, Manifest, Mark, Reach},
    place,
};
use crate::{Durability, KvError};

/// How much a log may grow by commits that do not wait for the disk until it is noted.
const UNNOTED_BYTES_MAX: u64 = 16 << 10;

/// Keeps the note while the database is open.
#[derive(Debug)]
pub(super) struct Acknowledged {
    dir: PathBuf,
    /// Writes that began, and those that ended well. One that failed may have left part of a record,
    /// so that from then on the length of a log says nothing about whole records.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Of those that began, the ones that do not wait for the disk.
    buffered_begun: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// None for a database that is open for reading only.
    file: Option<File>,
    /// Drawn anew whenever a database is opened, so that no two copies go on under one name.
    session: u64,
    /// Log in the name of the note.
    named: u64,
    mark: Mark,
    /// What the note says was written, and was synced.
    noted: (Reach, Reach),
    /// The newest log, by which its length is asked.
    log: Option<File>,
    /// The manifest that was current when the database was opened.
    manifest: Option<File>,
    /// Number of the newest write that the mark includes.
    sequence: u64,
    /// Writes that ended and did not wait for the disk.
    buffered_ended: u64,
}

impl State {
    /// Writes the note, under the name that belongs to the newest log.
    fn note(&mut self, dir: &Path) {
        let Some(file) = &self.file else { return };
        if self.named != self.mark.written.log {
            let path = |log| note::path(dir, self.session, log);
            if fs::rename(path(self.named), path(self.mark.written.log)).is_ok() {
                self.named = self.mark.written.log;
            }
        }
        if let Some(manifest) = self.manifest.as_ref().and_then(|file| file.metadata().ok()) {
            self.mark.manifest.bytes = manifest.len();
        }
        if file.write_all_at(self.mark.encode().as_bytes(), 0).is_ok() {
            self.noted = (self.mark.written, self.mark.synced);
        }
    }
}

/// What was known when a write began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    /// A sync from then on includes this.
    written: Reach,
    /// And all writes that did not wait for the disk, up to this number.
    buffered_ended: u64,
}

impl Acknowledged {
    /// Of a database that is open for reading.
    pub(super) fn never(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            buffered_begun: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Begins anew in a database that was just opened: opening put all logs into tables.
    pub(super) fn start(dir: &Path, sequence: u64) -> Result<Self, KvError> {
        let fault = |error| KvError::io("creating ACKNOWLEDGED", error);
        let session = RandomState::new().hash_one(sequence);
        let path = note::path(dir, session, 0);
        let before = note::find(dir)?;
        if let Some(note) = &before {
            fs::rename(dir.join(&note.name), &path).map_err(fault)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(fault)?;
        let current = note::current_manifest(dir);
        let number = current.as_ref().map_or(0, |(number, _)| *number);
        let manifest = current.and_then(|(_, name)| File::open(dir.join(name)).ok());
        let known = Manifest { number, bytes: 0 };
        let mark = Mark { manifest: known, boot: note::boot_id(), ..Mark::default() };
        let text = mark.encode();
        file.write_all_at(text.as_bytes(), 0).map_err(fault)?;
        file.set_len(text.len() as u64).map_err(fault)?;
        if before.is_none() {
            file.sync_all().map_err(fault)?;
        }
        let mut state =
            State { file: Some(file), session, mark, manifest, sequence, ..State::default() };
        state.note(dir);
        Ok(Self { state: Mutex::new(state), ..Self::never(dir) })
    }

    /// A write begins.
    pub(super) fn begin(&self, durability: Durability) -> Begun {
        self.begun.fetch_add(1, Ordering::AcqRel);
        if durability == Durability::Buffered {
            self.buffered_begun.fetch_add(1, Ordering::AcqRel);
        }
        let state = self.state();
        Begun { written: state.mark.written, buffered_ended: state.buffered_ended }
    }

    /// A write that began with this answer is acknowledged; `sequence` asks for the number of the
    /// newest write. A failure to note it is no failure of the write: the claim is only less.
    pub(super) fn end(&self, begun: Begun, durability: Durability, sequence: impl Fn() -> u64) {
        let mut state = self.state();
        let ended = self.ended.fetch_add(1, Ordering::AcqRel) + 1;
        let sequence = sequence();
        let is_alone = || self.begun.load(Ordering::Acquire) == ended;
        if sequence > state.sequence {
            if self.take_length(&mut state, is_alone).is_ok() {
                state.sequence = sequence;
            }
        } else if is_alone() {
            // Another commit noted this one with its own, while a third was under way.
            state.mark.written.whole = state.mark.written.bytes;
        }
        match durability {
            Durability::Buffered => state.buffered_ended += 1,
            Durability::Synced => {
                // Nobody writes, and whoever did since this write began has synced what it wrote.
                let is_all_synced = is_alone()
                    && self.buffered_begun.load(Ordering::Acquire) == begun.buffered_ended;
                let synced = if is_all_synced { state.mark.written } else { begun.written };
                state.mark.synced = state.mark.synced.max(synced);
            }
        }
        let (written, (noted, noted_synced)) = (state.mark.written, state.noted);
        let is_due = match durability {
            Durability::Synced => written != noted || state.mark.synced != noted_synced,
            Durability::Buffered => {
                written.log != noted.log || written.bytes >= noted.bytes + UNNOTED_BYTES_MAX
            }
        };
        if is_due {
            state.note(&self.dir);
        }
    }

    /// The database is closed in good order.
    pub(super) fn finish(&self) {
        self.state().note(&self.dir);
    }

    /// The newest log that a write went to; 0 for none.
    pub(super) fn newest_log(&self) -> u64 {
        self.state().mark.written.log
    }

    /// Whether the note is still there, and alone: a second one comes with files of another state.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.state();
        state.file.as_ref()?;
        let names = note::listed(&self.dir).ok()?;
        let (dir, own) = (self.dir.display(), note::name(state.session, state.named));
        if !names.contains(&own) {
            return Some(format!(
                "files of the database at {dir} were deleted or moved away, among them {own}"
            ));
        }
        let other = names.iter().find(|name| **name != own)?;
        Some(format!(
            "files of another copy, among them {other}, were put into the database at {dir}"
        ))
    }

    fn take_length(&self, state: &mut State, is_alone: impl Fn() -> bool) -> io::Result<()> {
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
        let written = &mut state.mark.written;
        written.bytes = bytes;
        if is_alone() {
            written.whole = bytes;
        }
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
