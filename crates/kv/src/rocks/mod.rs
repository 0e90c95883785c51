//! RocksDB behind the storage port.
//!
//! One column family per table. The write-ahead log is always on, so a batch across tables is
//! atomic without `atomic_flush`. RocksDB's own default column family holds one thing only: the
//! intent of a load in progress (see [`load`]).

mod acknowledged;
mod files;
mod load;
mod lost;
mod note;
mod occupied;
mod options;
mod place;
mod wal;
mod writing;

use std::{
    collections::BTreeSet,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
};

use rocksdb::{
    ColumnFamily, DB, DBPinnableSlice, Direction, IteratorMode, ReadOptions, WriteBatch,
    WriteOptions,
};

use utxokeep_core::{Found, Opening};
use utxokeep_fault::crash_point;

use acknowledged::Acknowledged;
use files::Files;
pub use lost::{LogDamage, LogReport, LostRow};
use occupied::Occupied;
pub use options::{RocksOptions, Use};
use place::DirectoryContents;
use writing::Writing;

use crate::{
    Batch, Durability, Kv, KvError, OpenMode, Read, Scan, SortedRows, TableId, TableSize,
    TableSpec, Trouble, Visitor,
};

/// Rows of a scan between two looks whether somebody waits for them.
const ROWS_PER_LOOK: usize = 256;

/// How many keys one call into the engine looks up; bounds the memory it pins.
const KEYS_PER_READ: usize = 2_048;

/// Fewer keys than this are not worth starting a thread for.
const KEYS_FOR_TWO_THREADS: usize = 256;

type ReadRow<'a> = Result<Option<DBPinnableSlice<'a>>, rocksdb::Error>;

/// A RocksDB database.
#[derive(Debug)]
pub struct RocksKv {
    db: DB,
    specs: &'static [TableSpec],
    options: RocksOptions,
    /// Where files of a load wait until they are part of the database.
    load_dir: PathBuf,
    writing: Writing,
    acknowledged: Acknowledged,
    files: Files,
    mode: OpenMode,
    /// Let go last, after the database is closed. A look that minds nobody has none.
    _occupied: Option<Occupied>,
}

/// A view of a [`RocksKv`].
pub struct RocksSnapshot<'a> {
    kv: &'a RocksKv,
    snapshot: rocksdb::Snapshot<'a>,
}

impl RocksKv {
    /// Opens the database in `dir`. Unless it is only read, missing tables are created, and a load
    /// that a crash interrupted is finished.
    ///
    /// Reading writes nothing, not even a log for people, and excludes only programs that write. One
    /// thing is done even then, because there is nothing whole to read without it: an interrupted
    /// load is finished.
    pub fn open(
        dir: &Path,
        specs: &'static [TableSpec],
        options: RocksOptions,
        mode: OpenMode,
    ) -> Result<Self, KvError> {
        let found = match place::look_for_logs(dir)? {
            DirectoryContents::Vacant => Found::Nothing,
            DirectoryContents::Database | DirectoryContents::WithoutLog { .. } => Found::Current,
        };
        match mode.decide(found) {
            Err(_) => return Err(KvError::NotFound { path: dir.to_owned() }),
            Ok(Opening::Create) => std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(|error| KvError::engine("creating the database directory", error))?,
            Ok(_) => {
                Self::refuse_damaged_log(dir)?;
                Self::refuse_unknown_tables(dir, specs)?;
            }
        }
        if mode.may_write() {
            return Self::open_with(dir, specs, &options.database(), options, mode);
        }
        match Self::open_to_read(dir, specs, &options)? {
            Some(kv) => Ok(kv),
            None => Self::open_with(dir, specs, &options.database(), options, mode),
        }
    }

    /// Opens the first `count` tables of `specs` for reading; further ones of `specs` may be there or
    /// not, and stay as they are. Only finishing an interrupted load needs them all.
    pub fn open_first(
        dir: &Path,
        specs: &'static [TableSpec],
        count: usize,
        options: RocksOptions,
    ) -> Result<Self, KvError> {
        if place::look_for_logs(dir)? == DirectoryContents::Vacant {
            return Err(KvError::NotFound { path: dir.to_owned() });
        }
        Self::refuse_damaged_log(dir)?;
        Self::refuse_unknown_tables(dir, specs)?;
        match Self::open_to_read(dir, &specs[..count], &options)? {
            Some(kv) => Ok(kv),
            None => Self::open_with(dir, specs, &options.database(), options, OpenMode::Read),
        }
    }

    /// Opens every table for reading; `None` when a load has to be finished first.
    fn open_to_read(
        dir: &Path,
        specs: &'static [TableSpec],
        options: &RocksOptions,
    ) -> Result<Option<Self>, KvError> {
        let occupied = Occupied::to_read(dir)?;
        let on_disk = Self::tables_on_disk(dir)?;
        if let Some(spec) = specs.iter().find(|spec| !on_disk.iter().any(|name| name == spec.name))
        {
            let path = dir.to_owned();
            let is_blank = Self::is_blank(dir)?;
            return Err(if is_blank {
                KvError::NotFound { path }
            } else {
                KvError::Outdated { path, table: spec.name }
            });
        }
        let mut database = options.database();
        database.create_if_missing(false);
        let tables = options.families(specs);
        let db = DB::open_cf_descriptors_read_only(&database, dir, tables, false)
            .map_err(|error| Self::explain(dir, error))?;
        let kv = Self {
            db,
            specs,
            options: options.clone(),
            load_dir: dir.join("load"),
            writing: Writing::never(),
            acknowledged: Acknowledged::never(dir),
            files: Files::of(dir),
            mode: OpenMode::Read,
            _occupied: Some(occupied),
        };
        Ok(if kv.has_interrupted_load()? { None } else { Some(kv) })
    }

    /// Opens the database in `dir` at the last good point of a damaged or lost log: what
    /// [`RocksKv::examine_log`] lists is not part of it any more. The logs stay in its directory `lost`.
    pub fn recover(
        dir: &Path,
        specs: &'static [TableSpec],
        options: RocksOptions,
    ) -> Result<Self, KvError> {
        if place::look(dir)? == DirectoryContents::Vacant {
            return Err(KvError::NotFound { path: dir.to_owned() });
        }
        Self::refuse_unknown_tables(dir, specs)?;
        let lock = place::lock(dir)?;
        if let Some(damage) = Self::examine(dir, &mut |_| ())?.damage {
            Self::put_aside_lost_logs(dir, &damage)?;
        }
        // RocksDB takes it itself.
        drop(lock);
        Self::open_with(dir, specs, &options.recovery(), options, OpenMode::Existing)
    }

    /// Opens some tables of the database in `dir` for reading only, whoever has it open. Changes
    /// nothing on disk, not even what a crash left to be finished; writes are refused.
    pub fn peek(dir: &Path, specs: &'static [TableSpec]) -> Result<Self, KvError> {
        let options = RocksOptions::within(1 << 20);
        let tables = options.families(specs);
        let db = DB::open_cf_descriptors_read_only(&options::read_only(), dir, tables, false)
            .map_err(|error| Self::explain(dir, error))?;
        let load_dir = dir.join("load");
        let (writing, acknowledged) = (Writing::never(), Acknowledged::never(dir));
        let (files, mode) = (Files::of(dir), OpenMode::Read);
        Ok(Self {
            db,
            specs,
            options,
            load_dir,
            writing,
            acknowledged,
            files,
            mode,
            _occupied: None,
        })
    }

    fn open_with(
        dir: &Path,
        specs: &'static [TableSpec],
        database: &rocksdb::Options,
        options: RocksOptions,
        mode: OpenMode,
    ) -> Result<Self, KvError> {
        let occupied = Some(Occupied::to_write(dir)?);
        let tables = options.families(specs);
        let before = place::tables(dir).unwrap_or_default();
        let db = DB::open_cf_descriptors(database, dir, tables).map_err(|error| {
            if writing::met_a_full_disk(&error) {
                Self::delete_unfinished_tables(dir, &before);
            }
            Self::explain(dir, error)
        })?;
        let acknowledged = Acknowledged::start(dir, db.latest_sequence_number())?;
        let mut kv = Self {
            db,
            specs,
            options,
            load_dir: dir.join("load"),
            writing: Writing::default(),
            acknowledged,
            files: Files::of(dir),
            mode,
            _occupied: occupied,
        };
        kv.finish_interrupted_load()?;
        if !mode.may_write() {
            kv.writing = Writing::never();
        }
        Ok(kv)
    }

    /// Opening puts the logs into tables. When the disk is full, RocksDB leaves them, with new
    /// names each time: whatever restarts the program would take the last room by it. Deletes those
    /// that were not there before and that the manifest does not list.
    fn delete_unfinished_tables(dir: &Path, before: &BTreeSet<String>) {
        let Ok(_lock) = place::lock(dir) else { return };
        let Ok(after) = place::tables(dir) else { return };
        // What the manifest lists is not known: then nothing is deleted.
        let Ok(listed) = Self::listed_tables(dir) else { return };
        for name in after.difference(before).filter(|name| !listed.contains(*name)) {
            // Opening deletes what is left once there is room.
            let _ = std::fs::remove_file(dir.join(name));
        }
    }

    /// The files of tables that the manifest in `dir` lists.
    fn listed_tables(dir: &Path) -> Result<BTreeSet<String>, rocksdb::Error> {
        let options = options::read_only();
        let names = DB::list_cf(&options, dir)?;
        let files = DB::open_cf_for_read_only(&options, dir, &names, false)?.live_files()?;
        Ok(files.iter().map(|file| file.name.trim_start_matches('/').to_owned()).collect())
    }

    /// Why the database could not be opened.
    fn explain(dir: &Path, error: rocksdb::Error) -> KvError {
        if is_lock_of_another(&error) {
            return KvError::InUse { path: dir.to_owned() };
        }
        if writing::met_a_full_disk(&error) {
            return KvError::DiskFull { op: "opening the database", source: error.into() };
        }
        match Self::listed_log_damage(dir, &error) {
            Some(Ok(report)) => Self::refusal(dir, report)
                .unwrap_or_else(|| KvError::rocks("opening the database", error)),
            Some(Err(unreadable)) => unreadable,
            None => KvError::rocks("opening the database", error),
        }
    }

    /// Looks at the logs before RocksDB does, which shortens or never ends where it should refuse.
    fn refuse_damaged_log(dir: &Path) -> Result<(), KvError> {
        let report = Self::read_logs(dir, &mut |_| ())?;
        Self::refusal(dir, report).map_or(Ok(()), Err)
    }

    fn refusal(dir: &Path, report: LogReport) -> Option<KvError> {
        let damage = report.damage?;
        Some(KvError::LogDamaged {
            path: dir.to_owned(),
            file: damage.file,
            offset: damage.offset,
            what: damage.what,
            rows: report.lost_rows + report.unreadable_rows,
        })
    }

    /// Names of the tables of the database in `dir`; empty when there is none.
    pub fn tables_on_disk(dir: &Path) -> Result<Vec<String>, KvError> {
        if place::look(dir)? == DirectoryContents::Vacant {
            return Ok(Vec::new());
        }
        DB::list_cf(&rocksdb::Options::default(), dir)
            .map_err(|error| KvError::rocks("listing the tables", error))
    }

    /// Whether there is not a single row in `dir`: no database, or one whose creation was cut
    /// short. Changes nothing, whoever the database belongs to.
    pub fn is_blank(dir: &Path) -> Result<bool, KvError> {
        place::look_for_logs(dir)?;
        let names = Self::tables_on_disk(dir)?;
        if names.is_empty() {
            return Ok(true);
        }
        Self::refuse_damaged_log(dir)?;
        let fault = |error| KvError::rocks("looking into the database", error);
        let db = DB::open_cf_for_read_only(&options::read_only(), dir, &names, false);
        let db = db.map_err(fault)?;
        for family in names.iter().filter_map(|name| db.cf_handle(name)) {
            if let Some(row) = db.iterator_cf(family, IteratorMode::Start).next() {
                return row.map(|_| false).map_err(fault);
            }
        }
        Ok(true)
    }

    /// Deletes the database in `dir`.
    pub fn destroy(dir: &Path) -> Result<(), KvError> {
        note::remove(dir).map_err(|error| KvError::io("deleting ACKNOWLEDGED", error))?;
        DB::destroy(&rocksdb::Options::default(), dir)
            .map_err(|error| KvError::rocks("deleting the database", error))
    }

    /// Drops the tables from position `first` on with everything in them, the last one first, and
    /// closes the database. A process that dies on the way leaves a database without the last ones,
    /// as one does that dies while it creates them.
    pub fn drop_tables(mut self, first: usize) -> Result<(), KvError> {
        for spec in self.specs[first..].iter().rev() {
            self.db
                .drop_cf(spec.name)
                .map_err(|error| KvError::rocks("dropping a table", error))?;
            crash_point("table_dropped");
        }
        Ok(())
    }

    fn refuse_unknown_tables(dir: &Path, specs: &[TableSpec]) -> Result<(), KvError> {
        let known = |name: &String| {
            name == rocksdb::DEFAULT_COLUMN_FAMILY_NAME || specs.iter().any(|s| s.name == name)
        };
        match Self::tables_on_disk(dir)?.into_iter().find(|name| !known(name)) {
            Some(name) => Err(KvError::UnexpectedTable { name }),
            None => Ok(()),
        }
    }

    fn family(&self, table: TableId) -> &ColumnFamily {
        let name = self.specs[usize::from(table.0)].name;
        self.db.cf_handle(name).expect("open() opened every table of the list")
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<(), KvError> {
        let mut writes = WriteBatch::default();
        let mut current: Option<(TableId, &ColumnFamily)> = None;
        for row in batch.rows() {
            let family = match current {
                Some((table, family)) if table == row.table => family,
                _ => self.family(row.table),
            };
            current = Some((row.table, family));
            match row.value {
                Some(value) => writes.put_cf(family, row.key, value),
                None => writes.delete_cf(family, row.key),
            }
        }
        self.write_raw(writes, durability)
    }

    fn write_raw(&self, writes: WriteBatch, durability: Durability) -> Result<(), KvError> {
        self.writing.check()?;
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Synced);
        let begun = self.acknowledged.begin(durability);
        let written = self.db.write_opt(writes, &options);
        written.map_err(|error| self.writing.failed("writing a batch", error))?;
        self.acknowledged.end(begun, durability, || self.db.latest_sequence_number());
        self.writing.went_through();
        Ok(())
    }

    fn read_many(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
        options: &ReadOptions,
    ) -> Result<(), KvError> {
        let family = self.family(table);
        let read = |chunk: &[&[u8]]| self.db.batched_multi_get_cf_opt(family, chunk, true, options);
        let mut take = |first: usize, values: Vec<ReadRow<'_>>| -> Result<(), KvError> {
            for (at, value) in values.into_iter().enumerate() {
                let value = value.map_err(|error| KvError::rocks("reading rows", error))?;
                found(first + at, value.as_deref());
            }
            Ok(())
        };
        // Half of the keys on a second thread: most of the time goes into unpacking blocks.
        for (number, pair) in keys.chunks(2 * KEYS_PER_READ).enumerate() {
            self.check_wanted()?;
            let first = number * 2 * KEYS_PER_READ;
            if pair.len() < KEYS_FOR_TWO_THREADS {
                take(first, read(pair))?;
                continue;
            }
            let (left, right) = pair.split_at(pair.len() / 2);
            let (ahead, behind) = thread::scope(|scope| {
                let behind = scope.spawn(|| read(right));
                (read(left), behind.join())
            });
            take(first, ahead)?;
            take(first + left.len(), behind.map_err(|_| KvError::Poisoned)?)?;
        }
        Ok(())
    }

    fn check_wanted(&self) -> Result<(), KvError> {
        if (self.options.is_unwanted)() { Err(KvError::Unwanted) } else { Ok(()) }
    }

    fn visit(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
        mut options: ReadOptions,
    ) -> Result<usize, KvError> {
        if scan.until.is_some_and(|until| until <= scan.from) {
            return Ok(0);
        }
        // Backwards the engine would seek to `until`, which has another prefix.
        if scan.within_prefix && !scan.reverse {
            options.set_prefix_same_as_start(true);
        } else {
            options.set_total_order_seek(true);
        }
        options.set_iterate_lower_bound(scan.from);
        if let Some(until) = scan.until {
            options.set_iterate_upper_bound(until);
        }
        let mode = match (scan.reverse, scan.until) {
            (false, _) => IteratorMode::From(scan.from, Direction::Forward),
            (true, Some(until)) => IteratorMode::From(until, Direction::Reverse),
            (true, None) => IteratorMode::End,
        };
        let mut rows = self.db.raw_iterator_cf_opt(self.family(table), options);
        match mode {
            IteratorMode::From(key, Direction::Forward) => rows.seek(key),
            IteratorMode::From(key, Direction::Reverse) => rows.seek_for_prev(key),
            _ => rows.seek_to_last(),
        }
        let mut visited = 0;
        while visited < scan.limit {
            if visited % ROWS_PER_LOOK == 0 {
                self.check_wanted()?;
            }
            let Some((key, value)) = rows.item() else { break };
            visited += 1;
            if !visit(key, value) {
                break;
            }
            if scan.reverse {
                rows.prev();
            } else {
                rows.next();
            }
        }
        rows.status().map_err(|error| KvError::rocks("scanning rows", error))?;
        Ok(visited)
    }
}

/// Whether another process, or this one, has the database open. RocksDB has no error kind for it,
/// and paths may hold any word, so the text is compared where it stands.
fn is_lock_of_another(error: &rocksdb::Error) -> bool {
    let text = error.as_ref();
    let is_taken = text.starts_with("IO error: While lock file: ")
        && text.ends_with("/LOCK: Resource temporarily unavailable");
    is_taken || text.starts_with("IO error: lock hold by current process")
}

impl Read for RocksKv {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.db
            .get_cf(self.family(table), key)
            .map_err(|error| KvError::rocks("reading a row", error))
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.read_many(table, keys, found, &ReadOptions::default())
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.visit(table, scan, visit, ReadOptions::default())
    }
}

impl RocksSnapshot<'_> {
    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        options
    }
}

impl Read for RocksSnapshot<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.snapshot
            .get_cf(self.kv.family(table), key)
            .map_err(|error| KvError::rocks("reading a row", error))
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.kv.read_many(table, keys, found, &self.options())
    }

    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.kv.visit(table, scan, visit, self.options())
    }
}

impl Kv for RocksKv {
    type Snapshot<'a> = RocksSnapshot<'a>;

    fn snapshot(&self) -> RocksSnapshot<'_> {
        RocksSnapshot { kv: self, snapshot: self.db.snapshot() }
    }

    fn commit(&self, mut batch: Batch, durability: Durability) -> Result<(), KvError> {
        // Sorted rows let the memtable continue from where the last row went.
        batch.sort();
        crash_point("before_commit");
        self.write(&batch, durability)?;
        crash_point("after_commit");
        Ok(())
    }

    fn load(&self, tables: &[&dyn SortedRows], finish: Batch) -> Result<(), KvError> {
        self.load_tables(tables, finish)
    }

    fn mode(&self) -> OpenMode {
        self.mode
    }

    fn trouble(&self) -> Option<Trouble> {
        if self.writing.is_waiting() {
            // Nobody may write any more, because of what this says: so it tries by itself.
            let _ = self.write_raw(WriteBatch::default(), Durability::Buffered);
        }
        let lost = self.files.lost(&self.db, self.acknowledged.newest_log());
        let lost = lost.or_else(|| self.acknowledged.trouble());
        lost.map(|reason| Trouble { reason, passes: false }).or_else(|| self.writing.trouble())
    }

    fn table_sizes(&self) -> Result<Vec<TableSize>, KvError> {
        let property = |table, name| {
            self.db
                .property_int_value_cf(self.family(table), name)
                .map(Option::unwrap_or_default)
                .map_err(|error| KvError::rocks("reading table sizes", error))
        };
        (0u8..)
            .zip(self.specs)
            .map(|(at, spec)| {
                let table = TableId(at);
                let files = property(table, "rocksdb.total-sst-files-size")?;
                let memory = property(table, "rocksdb.cur-size-all-mem-tables")?;
                Ok(TableSize {
                    name: spec.name,
                    // Rows still in memory are in the log on disk too.
                    disk_bytes: files + memory,
                    rows_estimate: property(table, "rocksdb.estimate-num-keys")?,
                })
            })
            .collect()
    }

    fn compact(&self) -> Result<(), KvError> {
        for at in (0u8..).take(self.specs.len()) {
            let family = self.family(TableId(at));
            self.db.flush_cf(family).map_err(|error| KvError::rocks("flushing a table", error))?;
            self.db.compact_range_cf(family, None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }
}

impl Drop for RocksKv {
    fn drop(&mut self) {
        self.acknowledged.finish();
        self.db.cancel_all_background_work(true);
    }
}
