//! What is lost when a database is opened at the last good point of a damaged log.

use std::{fs, io, path::Path};

use rocksdb::DB;

use super::{
    RocksKv,
    note::{self, Extent},
    occupied::Occupied,
    options,
    place::{self, DirectoryContents},
    wal,
};
use crate::KvError;

/// A write that stands behind damage in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRow<'l> {
    /// Table on disk; `None` when the list of tables cannot be read.
    pub table: Option<&'l str>,
    /// Key of the row.
    pub key: &'l [u8],
    /// Whether it was deleted by this write, not put.
    pub is_deletion: bool,
}

/// Where a log is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDamage {
    /// Name of the log in the directory of the database.
    pub file: String,
    /// Byte where the first piece that cannot be read begins.
    pub offset: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// What the write-ahead logs of a database hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogReport {
    /// The first damage; `None` when there is none, or only a torn end, which a crash leaves.
    pub damage: Option<LogDamage>,
    /// Batches before the damage.
    pub good_batches: u64,
    /// Batches behind the damage that can still be read, and would be lost.
    pub lost_batches: u64,
    /// Writes of single rows in those.
    pub lost_rows: u64,
    /// Writes of single rows that cannot be read, by the numbers of the batches around them; more
    /// may have stood behind the last batch that can be read.
    pub unreadable_rows: u64,
    /// Bytes of acknowledged writes that are in no log any more, as far as that is known. What they
    /// held cannot be listed.
    pub missing_bytes: u64,
}

impl RocksKv {
    /// Reads the write-ahead logs in `dir` and hands every write behind the first damage to `lost`.
    /// Changes nothing. What was flushed to a table since is listed too, although it is safe there:
    /// the list is what may be lost, at most.
    ///
    /// Finds the damage that [`RocksKv::open`] refuses, and no other. Damage outside the logs is an
    /// error. Not for a database that this process has open.
    pub fn examine_log(
        dir: &Path,
        lost: &mut dyn FnMut(&LostRow<'_>),
    ) -> Result<LogReport, KvError> {
        let _occupied = Occupied::to_read(dir)?;
        Self::examine(dir, lost)
    }

    pub(super) fn examine(
        dir: &Path,
        lost: &mut dyn FnMut(&LostRow<'_>),
    ) -> Result<LogReport, KvError> {
        if matches!(place::look(dir)?, DirectoryContents::WithoutLog { .. }) {
            let claimed = note::claimed(dir)?;
            let what = "the file is missing, and acknowledged writes may have been in it";
            let file = match claimed.log {
                0 => "the newest .log".to_owned(),
                log => place::log_name(log),
            };
            let damage = Some(LogDamage { file, offset: 0, what });
            return Ok(LogReport { damage, missing_bytes: claimed.bytes, ..LogReport::default() });
        }
        let report = Self::read_logs(dir, lost)?;
        if report.damage.is_some() {
            return Ok(report);
        }
        match Self::try_reading(dir) {
            Ok(()) => Ok(report),
            Err(error) => match listed_damage(&error) {
                Some(damage) => Ok(read_behind(dir, Some(damage), lost)?.0),
                None => Err(Self::explain(dir, error)),
            },
        }
    }

    /// What the logs hold, compared with what was acknowledged.
    pub(super) fn read_logs(
        dir: &Path,
        lost: &mut dyn FnMut(&LostRow<'_>),
    ) -> Result<LogReport, KvError> {
        // Read before the logs: a database in use never has less than this.
        let claimed = note::claimed(dir)?;
        let (mut report, logs) = read_behind(dir, None, lost)?;
        if report.damage.is_some() {
            return Ok(report);
        }
        if let Some((log, offset, what)) = note::shortfall(claimed, &logs) {
            let damage = LogDamage { file: place::log_name(log), offset, what };
            report = read_behind(dir, Some(damage), lost)?.0;
            report.missing_bytes = claimed.bytes - offset.min(claimed.bytes);
        }
        Ok(report)
    }

    /// Opens the database as [`RocksKv::open`] does, for reading only.
    fn try_reading(dir: &Path) -> Result<(), rocksdb::Error> {
        let mut options = options::read_only();
        options.set_wal_recovery_mode(rocksdb::DBRecoveryMode::TolerateCorruptedTailRecords);
        let names = DB::list_cf(&options, dir)?;
        DB::open_cf_for_read_only(&options, dir, &names, false).map(drop)
    }

    /// What RocksDB says of a log that its manifest lists, in the words of this crate.
    pub(super) fn listed_log_damage(
        dir: &Path,
        error: &rocksdb::Error,
    ) -> Option<Result<LogReport, KvError>> {
        let damage = listed_damage(error)?;
        Some(read_behind(dir, Some(damage), &mut |_| ()).map(|(report, _)| report))
    }

    /// Makes the logs end where the damage begins. Everything is copied or moved into the directory
    /// `lost` first, so that it can still be looked at.
    pub(super) fn put_aside_lost_logs(dir: &Path, damage: &LogDamage) -> Result<(), KvError> {
        let fault = |error| KvError::io("putting damaged logs aside", error);
        let lost = dir.join("lost");
        fs::create_dir_all(&lost).map_err(fault)?;
        let from = place::log_number(&damage.file).unwrap_or(u64::MAX);
        for (number, path) in place::logs(dir).map_err(fault)? {
            if number < from {
                continue;
            }
            let copy = lost.join(place::log_name(number));
            fs::copy(&path, &copy).map_err(fault)?;
            fs::File::open(&copy).and_then(|copy| copy.sync_all()).map_err(fault)?;
            if number == from {
                // RocksDB takes the beginning of a record for damage, and refuses to open where
                // tables hold rows from behind it.
                let end = whole_until(&path).map_err(fault)?.min(damage.offset);
                let log = fs::OpenOptions::new().write(true).open(path).map_err(fault)?;
                log.set_len(end).and_then(|()| log.sync_all()).map_err(fault)?;
            } else {
                fs::remove_file(path).map_err(fault)?;
            }
        }
        note::put_aside(dir, &lost).map_err(fault)
    }
}

/// Where the whole records of a log end, or the first damage begins.
fn whole_until(path: &Path) -> io::Result<u64> {
    let mut first = None;
    let (bytes, gap) = wal::read(path, &mut |offset, found| {
        if !matches!(found, wal::Found::Record(_)) {
            first.get_or_insert(offset);
        }
    })?;
    Ok(first.or(gap).unwrap_or(bytes))
}

/// Reads all logs. Writes behind the first damage are lost, also behind one that is known already.
fn read_behind(
    dir: &Path,
    known: Option<LogDamage>,
    lost: &mut dyn FnMut(&LostRow<'_>),
) -> Result<(LogReport, Vec<Extent>), KvError> {
    let fault = |error| KvError::engine("reading a log", error);
    let names = DB::list_cf(&rocksdb::Options::default(), dir).ok();
    let known_log = known
        .as_ref()
        .map_or(u64::MAX, |damage| place::log_number(&damage.file).unwrap_or(u64::MAX));
    let mut report = LogReport::default();
    let mut extents = Vec::new();
    let mut next_number: Option<u64> = None;
    for (log, path) in place::logs(dir).map_err(fault)? {
        if log > known_log && report.damage.is_none() {
            report.damage.clone_from(&known);
        }
        let mut torn = None;
        let read = wal::read(&path, &mut |offset, found| match found {
            wal::Found::TornTail => torn = Some(offset),
            wal::Found::Damage(what) => {
                let first = || LogDamage { file: place::log_name(log), offset, what };
                report.damage.get_or_insert_with(first);
            }
            wal::Found::Record(record) => {
                let Some((number, count, rows)) = batch_header(record) else { return };
                let expected = next_number.unwrap_or(number);
                next_number = Some(number + u64::from(count));
                if report.damage.is_none() {
                    report.good_batches += 1;
                    return;
                }
                report.unreadable_rows += number.saturating_sub(expected);
                report.lost_batches += 1;
                report.lost_rows += u64::from(count);
                visit_rows(rows, names.as_deref(), lost);
            }
        });
        let (bytes, gap) = match read {
            Ok(read) => read,
            // RocksDB deleted it meanwhile: its rows are in tables.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(error)),
        };
        extents.push(Extent { log, bytes, whole: torn.or(gap).unwrap_or(bytes) });
    }
    report.damage = report.damage.or(known);
    Ok((report, extents))
}

/// A log that RocksDB listed in its manifest when it was closed, and that is gone or shorter.
fn listed_damage(error: &rocksdb::Error) -> Option<LogDamage> {
    let text = error.as_ref().strip_prefix("Corruption: ")?;
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse::<u64>().ok()
    };
    if let Some(rest) = text.strip_prefix("Missing WAL with log number: ") {
        let what = "the file is missing, and the manifest lists it";
        return Some(LogDamage { file: place::log_name(number(rest)?), offset: 0, what });
    }
    let rest = text.strip_prefix("Size mismatch: WAL (log number: ")?;
    let (_, on_disk) = rest.split_once(" but actually is ")?;
    Some(LogDamage {
        file: place::log_name(number(rest)?),
        offset: number(on_disk)?,
        what: "it is shorter than the manifest says",
    })
}

/// Number of the first write of a batch, how many there are, and their bytes.
fn batch_header(record: &[u8]) -> Option<(u64, u32, &[u8])> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    let (count, rows) = rest.split_first_chunk::<4>()?;
    Some((u64::from_le_bytes(*number), u32::from_le_bytes(*count), rows))
}

/// Visits the writes of a batch: puts and deletions, which is all that this crate writes.
fn visit_rows(mut rows: &[u8], names: Option<&[String]>, lost: &mut dyn FnMut(&LostRow<'_>)) {
    while let Some((&kind, rest)) = rows.split_first() {
        let (in_table, is_deletion) = match kind {
            0 => (false, true),
            1 => (false, false),
            4 => (true, true),
            5 => (true, false),
            // Marks without rows; anything else is not written here, and its length is not known.
            13 => {
                rows = rest;
                continue;
            }
            _ => return,
        };
        let Some(((table, key), after)) = key_of(rest, in_table) else { return };
        let after = if is_deletion { Some(after) } else { bytes_of(after).map(|(_, after)| after) };
        let table = usize::try_from(table).ok();
        // Numbers of tables are given in the order in which they were made.
        let table = names.zip(table).and_then(|(names, at)| names.get(at)).map(String::as_str);
        lost(&LostRow { table, key, is_deletion });
        let Some(after) = after else { return };
        rows = after;
    }
}

type TableAndKey<'l> = ((u64, &'l [u8]), &'l [u8]);

fn key_of(bytes: &[u8], in_table: bool) -> Option<TableAndKey<'_>> {
    let (table, rest) = if in_table { varint(bytes)? } else { (0, bytes) };
    let (key, rest) = bytes_of(rest)?;
    Some(((table, key), rest))
}

fn bytes_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = varint(bytes)?;
    rest.split_at_checked(usize::try_from(len).ok()?)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}
