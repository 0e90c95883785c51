//! How RocksDB is tuned, and how its memory is bounded.

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DataBlockIndexType,
    Options, SliceTransform,
};

use crate::{Access, TableSpec};

/// Who writes to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Use {
    /// One thread, in large batches of sorted rows: they go into memory one after the other, each
    /// beside the last, without a look at anybody else.
    #[default]
    OneWriter,
    /// Many threads, in small batches: those that wait for the log together are written to it at once
    /// and synced once, and each thread puts its own rows into memory.
    ManyWriters,
}

/// Settings of a database.
#[derive(Debug, Clone)]
pub struct RocksOptions {
    /// Memory for cached blocks, indexes and filters.
    pub block_cache_bytes: usize,
    /// Memory for rows not yet in files, all tables together.
    pub write_buffer_bytes: usize,
    /// Threads for flushes and compactions.
    pub background_jobs: u32,
    /// Files kept open.
    pub open_files_max: u32,
    /// Asked on the thread of a read of many rows, again and again: whether nobody waits for its
    /// answer any more. Then it ends with [`crate::KvError::Unwanted`].
    pub is_unwanted: fn() -> bool,
    usage: Use,
    cache: std::sync::Arc<std::sync::OnceLock<CacheHandle>>,
}

#[derive(Clone)]
struct CacheHandle(Cache);

impl std::fmt::Debug for CacheHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cache")
    }
}

/// Options of a look that changes nothing. Logs are listed in the manifest, and RocksDB crashes
/// when it is opened for reading and told not to mind that list.
pub(super) fn read_only() -> Options {
    let mut options = Options::default();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

impl RocksOptions {
    /// Settings whose memory stays within `memory_bytes`: three quarters for cached blocks, one
    /// quarter for write buffers.
    pub fn within(memory_bytes: usize) -> Self {
        Self {
            block_cache_bytes: memory_bytes / 4 * 3,
            write_buffer_bytes: memory_bytes / 4,
            background_jobs: 2,
            open_files_max: 1_024,
            is_unwanted: || false,
            usage: Use::default(),
            cache: std::sync::Arc::default(),
        }
    }

    /// The same for another use.
    #[must_use]
    pub const fn for_use(mut self, usage: Use) -> Self {
        self.usage = usage;
        self
    }

    /// Options of the database as a whole.
    pub(super) fn database(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_max_background_jobs(i32::try_from(self.background_jobs).unwrap_or(i32::MAX));
        options.set_max_open_files(i32::try_from(self.open_files_max).unwrap_or(i32::MAX));
        options.set_db_write_buffer_size(self.write_buffer_bytes);
        options.set_max_total_wal_size(self.write_buffer_bytes as u64 * 2);
        options.set_keep_log_file_num(4);
        options.set_allow_concurrent_memtable_write(self.usage == Use::ManyWriters);
        options.set_max_log_file_size(8 << 20);
        // A torn last record is what a crash leaves; anything else in the log is damage, and to
        // open without what stands behind it is for a person to decide.
        options.set_wal_recovery_mode(rocksdb::DBRecoveryMode::TolerateCorruptedTailRecords);
        // A log that was closed and is gone, or is shorter than it was, is damage too.
        options.set_track_and_verify_wals_in_manifest(true);
        options.set_bytes_per_sync(1 << 20);
        options.set_wal_bytes_per_sync(1 << 20);
        options
    }

    /// Options that give up whatever stands behind damage in the log.
    pub(super) fn recovery(&self) -> Options {
        let mut options = self.database();
        options.set_wal_recovery_mode(rocksdb::DBRecoveryMode::PointInTime);
        options.set_track_and_verify_wals_in_manifest(false);
        options
    }

    pub(super) fn families(&self, specs: &[TableSpec]) -> Vec<ColumnFamilyDescriptor> {
        let mut families: Vec<_> = specs
            .iter()
            .map(|spec| ColumnFamilyDescriptor::new(spec.name, self.family(spec.access)))
            .collect();
        let name = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
        families.push(ColumnFamilyDescriptor::new(name, self.family(Access::Sequential)));
        families
    }

    /// Options of files that are loaded: the first compaction that meets them compresses them for
    /// good, so the load does not spend its time on it.
    pub(super) fn loaded_file(&self, access: Access) -> Options {
        let mut options = self.family(access);
        if access != Access::Hashes {
            options.set_bottommost_compression_type(DBCompressionType::Lz4);
        }
        options
    }

    /// Options of one table.
    pub(super) fn family(&self, access: Access) -> Options {
        let cache =
            self.cache.get_or_init(|| CacheHandle(Cache::new_lru_cache(self.block_cache_bytes)));
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&cache.0);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_format_version(6);
        blocks.set_block_size(4 << 10);

        let mut options = Options::default();
        options.set_write_buffer_size((self.write_buffer_bytes / 2).max(1 << 20));
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        match access {
            Access::Hashes => {
                options.set_compression_type(DBCompressionType::None);
                options.set_bottommost_compression_type(DBCompressionType::None);
                blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
                blocks.set_bloom_filter(10.0, false);
            }
            Access::Point => {
                // Random single reads pay for a whole block each: cheap to unpack, quick to search.
                options.set_bottommost_compression_type(DBCompressionType::Lz4);
                blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
                blocks.set_bloom_filter(10.0, false);
            }
            Access::Prefix(len) => {
                blocks.set_bloom_filter(10.0, false);
                blocks.set_whole_key_filtering(false);
                options.set_prefix_extractor(SliceTransform::create_fixed_prefix(len));
            }
            Access::Sequential => blocks.set_block_size(32 << 10),
        }
        options.set_block_based_table_factory(&blocks);
        options
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;
    use crate::{Batch, Durability, Kv as _, OpenMode, RocksKv, TableId};

    const SPECS: &[TableSpec] = &[
        TableSpec { name: "records", access: Access::Point },
        TableSpec { name: "slots", access: Access::Point },
        TableSpec { name: "bodies", access: Access::Point },
    ];

    /// Commits of `threads` per second, each with the rows of so many small transactions.
    fn rate(usage: Use, durability: Durability, threads: u64, txs: u64, commits: u32) -> f64 {
        let dir = tempfile::TempDir::new().unwrap();
        let options = RocksOptions::within(256 << 20).for_use(usage);
        let kv = RocksKv::open(dir.path(), SPECS, options, OpenMode::Create).unwrap();
        let started = Instant::now();
        thread::scope(|scope| {
            for thread in 0..threads {
                let kv = &kv;
                scope.spawn(move || {
                    for commit in 0..u64::from(commits) / threads {
                        let mut batch = Batch::new();
                        for tx in 0..txs {
                            let number = (thread << 48 | commit << 16 | tx)
                                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                            let key = [number.to_be_bytes(); 4].concat();
                            batch.put(TableId(0), &key, &[7; 16]);
                            batch.put(TableId(1), &[&key[..], &[0; 4]].concat(), &[7; 37]);
                            batch.put(TableId(1), &[&key[..], &[1; 4]].concat(), &[7; 37]);
                            batch.put(TableId(2), &key, &[7; 270]);
                        }
                        kv.commit(batch, durability).unwrap();
                    }
                });
            }
        });
        f64::from(commits) / started.elapsed().as_secs_f64()
    }

    /// `cargo nextest run -p utxokeep-kv --run-ignored only --no-capture what_each_use`
    #[test]
    #[ignore = "prints a measurement"]
    fn what_each_use_is_good_for() {
        for (fsync, durability, commits) in
            [("off", Durability::Buffered, 16_000), ("on", Durability::Synced, 1_600)]
        {
            for (threads, txs) in [(1, 1), (8, 1), (1, 100), (8, 100)] {
                let commits = if txs > 1 { commits / 20 } else { commits };
                let best = |usage| {
                    let runs = (0..3).map(|_| rate(usage, durability, threads, txs, commits));
                    runs.fold(0.0, f64::max)
                };
                let (one, many) = (best(Use::OneWriter), best(Use::ManyWriters));
                eprintln!(
                    "fsync {fsync}, {threads} threads, {txs} transactions a commit: OneWriter \
                     {one:.0}, ManyWriters {many:.0} commits/s ({:.2})",
                    many / one
                );
            }
        }
    }
}
