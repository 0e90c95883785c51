//! What is counted while blocks are persisted.

use metrics::{counter, gauge};
use utxokeep_blobs::Written;
use utxokeep_core::{Height, metric_list};

metric_list! {
    HEIGHT = "utxokeep_persister_height", Gauge, "",
        "Height of the newest block whose files are complete.";
    LAG = "utxokeep_persister_lag_blocks", Gauge, "",
        "Blocks that the chain database has and the persister has not.";
    BLOCKS = "utxokeep_persister_blocks_total", Counter, "",
        "Blocks whose files were written.";
    UNDONE = "utxokeep_persister_blocks_undone_total", Counter, "",
        "Blocks that the watermark went back by, because they left the chain.";
    FILES = "utxokeep_persister_files_total", Counter, "",
        "Files that were written, also again.";
    BYTES = "utxokeep_persister_bytes_total", Counter, "bytes",
        "Bytes of these files.";
    BLOCK_BYTES = "utxokeep_persister_block_bytes_total", Counter, "bytes",
        "Bytes of the persisted blocks, as they are on chain.";
    FAILURES = "utxokeep_persister_write_failures_total", Counter, "",
        "Attempts to write a file that failed; each file is tried `retry_max` times more.";
    DELETED = "utxokeep_persister_files_deleted_total", Counter, "",
        "Files that were deleted because their blocks are older than `retention_blocks`.";
}

pub(super) fn describe() {
    crate::meters::describe(METRICS);
    counter!(FAILURES).increment(0);
    counter!(UNDONE).increment(0);
}

pub(super) fn wrote(written: Written) {
    counter!(FILES).increment(written.files);
    counter!(BYTES).increment(written.bytes);
    counter!(FAILURES).increment(written.failures);
}

pub(super) fn persisted(blocks: usize, bytes: usize) {
    counter!(BLOCKS).increment(blocks as u64);
    counter!(BLOCK_BYTES).increment(bytes as u64);
}

pub(super) fn undone(blocks: usize) {
    counter!(UNDONE).increment(blocks as u64);
}

pub(super) fn deleted(files: u64) {
    counter!(DELETED).increment(files);
}

pub(super) fn stands(at: Option<Height>, tip: Option<Height>) {
    let count = |height: Option<Height>| height.map_or(0, |height| u64::from(height.get()) + 1);
    let lag = u32::try_from(count(tip).saturating_sub(count(at))).unwrap_or(u32::MAX);
    gauge!(LAG).set(f64::from(lag));
    gauge!(HEIGHT).set(f64::from(at.unwrap_or_default().get()));
}
