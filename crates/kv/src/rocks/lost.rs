//! What is lost when a database is opened at the last good point of a damaged log.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{RocksKv, place, wal};
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
}

impl RocksKv {
    /// Reads the write-ahead logs in `dir` and hands every write behind the first damage to `lost`.
    /// Changes nothing. What was flushed to a table since is listed too, although it is safe there:
    /// the list is what may be lost, at most.
    pub fn examine_log(
        dir: &Path,
        lost: &mut dyn FnMut(&LostRow<'_>),
    ) -> Result<LogReport, KvError> {
        let names = Self::tables_on_disk(dir).ok();
        let mut report = LogReport::default();
        let mut next_number: Option<u64> = None;
        for (file, path) in logs(dir)? {
            let fault = |error| KvError::engine("reading a log", error);
            wal::read(&path, &mut |offset, found| match found {
                wal::Found::TornTail => {}
                wal::Found::Damage(what) => {
                    let first = || LogDamage { file: file.clone(), offset, what };
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
            })
            .map_err(fault)?;
        }
        Ok(report)
    }

    /// Makes the logs end where the first damage begins. Everything is copied or moved into the
    /// directory `lost` first, so that it can still be looked at.
    pub(super) fn put_aside_lost_logs(dir: &Path) -> Result<(), KvError> {
        let Some(damage) = Self::examine_log(dir, &mut |_| ())?.damage else { return Ok(()) };
        let fault = |error| KvError::engine("putting damaged logs aside", error);
        let lost = dir.join("lost");
        fs::create_dir_all(&lost).map_err(fault)?;
        let logs = logs(dir)?;
        let behind = logs.iter().skip_while(|(file, _)| *file != damage.file);
        for (at, (file, path)) in behind.enumerate() {
            fs::copy(path, lost.join(file)).map_err(fault)?;
            fs::File::open(lost.join(file)).and_then(|copy| copy.sync_all()).map_err(fault)?;
            if at == 0 {
                let log = fs::OpenOptions::new().write(true).open(path).map_err(fault)?;
                log.set_len(damage.offset).and_then(|()| log.sync_all()).map_err(fault)?;
            } else {
                fs::remove_file(path).map_err(fault)?;
            }
        }
        Ok(())
    }
}

/// The logs of a database, oldest first.
fn logs(dir: &Path) -> Result<Vec<(String, PathBuf)>, KvError> {
    let fault = |error| KvError::engine("looking for logs", error);
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if place::is_log(&name) {
            logs.push((name, entry.path()));
        }
    }
    // Numbers grow by one digit every now and then.
    logs.sort_unstable_by_key(|(name, _)| (name.len(), name.clone()));
    Ok(logs)
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
