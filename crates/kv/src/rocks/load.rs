//! Loading many rows past the memtable and the log.
//!
//! Rows are written sorted into table files, which then become part of the database as they are.
//! RocksDB takes files into one table at a time, so the whole is made atomic by an intent: once
//! the files are on disk, their names and the closing batch are committed; then the files are
//! taken in; then the closing batch is committed and the intent deleted. A crash before the intent
//! leaves files nobody refers to; a crash after it is finished when the database is opened.

use std::{
    fs::{self, File},
    path::Path,
    thread,
};

use rocksdb::{IngestExternalFileOptions, SstFileWriter, WriteBatch};
use utxokeep_fault::crash_point;

use super::{RocksKv, writing::met_a_full_disk};
use crate::{Batch, Durability, KvError, SortedRows, TableId};

/// Key of the intent in the default column family.
const INTENT_KEY: &[u8] = b"load";

/// Files larger than this are continued in a new one.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What remains to be done once the files of a load are on disk.
struct Intent {
    files: Vec<(TableId, String)>,
    finish: Batch,
}

impl Intent {
    fn encode(&self) -> Vec<u8> {
        let mut out = (self.files.len() as u64).to_be_bytes().to_vec();
        for (table, name) in &self.files {
            out.push(table.0);
            out.extend_from_slice(&(name.len() as u64).to_be_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(&self.finish.encode());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| {
            let raw = bytes.get(..8)?;
            usize::try_from(u64::from_be_bytes(raw.try_into().ok()?)).ok()
        };
        let count = number(bytes)?;
        let mut rest = &bytes[8..];
        let mut files = Vec::new();
        for _ in 0..count {
            let (&table, after) = rest.split_first()?;
            let len = number(after)?;
            let name = after.get(8..8usize.checked_add(len)?)?;
            files.push((TableId(table), String::from_utf8(name.to_vec()).ok()?));
            rest = &after[8 + len..];
        }
        Some(Self { files, finish: Batch::decode(rest)? })
    }
}

impl RocksKv {
    pub(super) fn load_tables(
        &self,
        tables: &[&dyn SortedRows],
        finish: Batch,
    ) -> Result<(), KvError> {
        self.clear_load_dir()?;
        fs::create_dir_all(&self.load_dir)
            .map_err(|error| KvError::io("creating the load directory", error))?;
        let files = self.write_files(tables)?;
        sync_dir(&self.load_dir)?;
        let intent = Intent { files, finish };
        let mut writes = WriteBatch::default();
        writes.put(INTENT_KEY, intent.encode());
        crash_point("before_intent");
        self.write_raw(writes, Durability::Synced)?;
        crash_point("after_intent");
        // The intent holds from now on: nothing may be written past it.
        self.complete(&intent).inspect_err(|error| self.writing.stop(&error.to_string()))
    }

    /// Whether tables hold a part of a load that a crash interrupted.
    pub(super) fn has_interrupted_load(&self) -> Result<bool, KvError> {
        Ok(self.load_intent()?.is_some())
    }

    fn load_intent(&self) -> Result<Option<Vec<u8>>, KvError> {
        self.db.get(INTENT_KEY).map_err(|error| KvError::rocks("reading the load intent", error))
    }

    /// Finishes or discards what a crash left of a load.
    pub(super) fn finish_interrupted_load(&self) -> Result<(), KvError> {
        if let Some(bytes) = self.load_intent()? {
            let intent = Intent::decode(&bytes).filter(|intent| self.has_tables_of(intent));
            self.complete(&intent.ok_or_else(|| KvError::Corrupt {
                table: "default",
                detail: "the load intent does not decode".to_owned(),
            })?)?;
        }
        self.clear_load_dir()
    }

    fn has_tables_of(&self, intent: &Intent) -> bool {
        let of_files = intent.files.iter().map(|(table, _)| *table);
        let of_rows = intent.finish.rows().map(|row| row.table);
        of_files.chain(of_rows).all(|table| usize::from(table.0) < self.specs.len())
    }

    /// Takes the files in and commits the closing batch. Safe to repeat: a file that is gone was
    /// taken in, and taking one in twice writes the same rows again.
    fn complete(&self, intent: &Intent) -> Result<(), KvError> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        for (number, (table, name)) in intent.files.iter().enumerate() {
            if number == 1 {
                crash_point("after_first_file");
            }
            let path = self.load_dir.join(name);
            if path.is_file() {
                self.db
                    .ingest_external_file_cf_opts(self.family(*table), &options, vec![path])
                    .map_err(|error| KvError::rocks("taking in a table file", error))?;
            }
        }
        let mut writes = WriteBatch::default();
        for row in intent.finish.rows() {
            match row.value {
                Some(value) => writes.put_cf(self.family(row.table), row.key, value),
                None => writes.delete_cf(self.family(row.table), row.key),
            }
        }
        writes.delete(INTENT_KEY);
        crash_point("before_close");
        self.write_raw(writes, Durability::Synced)
    }

    fn clear_load_dir(&self) -> Result<(), KvError> {
        match fs::remove_dir_all(&self.load_dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(KvError::engine("clearing the load directory", error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the rows into one or more files per table, tables side by side.
    fn write_files(&self, tables: &[&dyn SortedRows]) -> Result<Vec<(TableId, String)>, KvError> {
        let parts: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> =
                tables.iter().map(|&rows| scope.spawn(move || self.write_table(rows))).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or(Err(KvError::Poisoned)))
                .collect::<Result<_, _>>()
        })?;
        Ok(parts.into_iter().flatten().collect())
    }

    fn write_table(&self, rows: &dyn SortedRows) -> Result<Vec<(TableId, String)>, KvError> {
        let table = rows.table();
        let spec = self.specs[usize::from(table.0)];
        let options = self.options.loaded_file(spec.access);
        // Nothing of the database was touched: with more room the same load goes through.
        let fault = |error: rocksdb::Error| {
            let op = "writing a table file";
            if met_a_full_disk(&error) {
                return KvError::DiskFull { op, source: error.into() };
            }
            KvError::rocks(op, error)
        };
        let mut files: Vec<(TableId, String)> = Vec::new();
        let mut writer: Option<SstFileWriter<'_>> = None;
        rows.visit(&mut |key, value| {
            if writer.as_ref().is_some_and(|open| open.file_size() >= FILE_BYTES_MAX)
                && let Some(mut full) = writer.take()
            {
                full.finish().map_err(fault)?;
            }
            if writer.is_none() {
                let name = format!("{}-{}.sst", spec.name, files.len());
                let open = SstFileWriter::create(&options);
                open.open(self.load_dir.join(&name)).map_err(fault)?;
                files.push((table, name));
                writer = Some(open);
            }
            let Some(open) = &mut writer else { return Ok(()) };
            match value {
                Some(value) => open.put(key, value),
                None => open.delete(key),
            }
            .map_err(fault)
        })?;
        if let Some(mut last) = writer {
            last.finish().map_err(fault)?;
        }
        Ok(files)
    }
}

fn sync_dir(dir: &Path) -> Result<(), KvError> {
    File::open(dir)
        .and_then(|open| open.sync_all())
        .map_err(|error| KvError::io("syncing the load directory", error))
}
