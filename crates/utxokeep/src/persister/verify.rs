//! Checking the files of a place against themselves and against a chain.

use utxokeep_chains::cut_block;
use utxokeep_core::{
    BlockHash, Height,
    persisted::{BlockPlace, FileKind, FileName, encode_files},
};
use utxokeep_index::ChainIndex;
use utxokeep_kv::Kv;

use super::{PersistedPlace, PersistedRaw, PersisterError};

/// Faults that a report lists; all are counted.
const LISTED_MAX: usize = 1_000;

/// A block whose files are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedFault {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// What is wrong.
    pub reason: String,
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PersistedReport {
    /// Blocks that were looked at.
    pub blocks: u64,
    /// Bytes of these blocks, as they are on chain.
    pub block_bytes: u64,
    /// Bytes of all their files.
    pub file_bytes: u64,
    /// Blocks that are not sound.
    pub faults_total: u64,
    /// Those, lowest first; of very many the lowest.
    pub faults: Vec<PersistedFault>,
}

/// Reads every file of the blocks from `first` up to the watermark: each block is put together,
/// decoded, and its files are made anew, which must give the same bytes. The blocks are those of the
/// chain of the database. `progress` is asked after each, and may stop it.
pub fn verify<K: Kv>(
    index: &ChainIndex<K>,
    place: &PersistedPlace,
    first: Height,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<PersistedReport, PersisterError> {
    let empty = || PersisterError::Empty { place: place.name() };
    let mark = place.watermark()?.ok_or_else(empty)?;
    let mut report = PersistedReport::default();
    let Some((top, _)) = mark.block else { return Ok(report) };
    let view = index.view()?;
    let log = view.log();
    let last = log.tip().map_or(Height::GENESIS, |tip| tip.height).min(top);
    let first = first
        .max(index.view()?.partial().and_then(|at| at.started_mid_chain_at).unwrap_or_default());
    let total = u64::from(last.get()) + 1 - u64::from(first.get().min(last.get() + 1));
    for raw in first.get()..=last.get() {
        let height = Height::new(raw);
        let Some(logged) = log.block(height)? else { continue };
        let hash = logged.entry.hash;
        report.blocks += 1;
        match check_block(index, place, height, hash, logged.entry.prev) {
            Ok((block, files)) => {
                report.block_bytes += block;
                report.file_bytes += files;
            }
            Err(
                error @ (PersisterError::Damaged { .. }
                | PersisterError::Missing { .. }
                | PersisterError::Undecodable { .. }
                | PersisterError::Pieces(_)),
            ) => {
                report.faults_total += 1;
                if report.faults.len() < LISTED_MAX {
                    let reason = error.to_string();
                    report.faults.push(PersistedFault { height, hash, reason });
                }
            }
            Err(error) => return Err(error),
        }
        if !progress(report.blocks, total) {
            return Err(PersisterError::Stopped);
        }
    }
    Ok(report)
}

/// Length of a block and of its files, if they are sound.
fn check_block<K: Kv>(
    index: &ChainIndex<K>,
    place: &PersistedPlace,
    height: Height,
    hash: BlockHash,
    parent: BlockHash,
) -> Result<(u64, u64), PersisterError> {
    let decoder = &index.settings().decoder;
    let network = decoder.network();
    let PersistedRaw { block, raw } = place.raw(height, hash)?;
    let undecodable = |source| PersisterError::Undecodable { height, source };
    let cut = cut_block(&raw, network).map_err(undecodable)?;
    let block_read = decoder.decode(raw.clone()).map_err(undecodable)?;
    let at = BlockPlace { network, height, parent };
    let expected = encode_files(&raw, &cut, &block_read, at, block.subtree_txs_log2)?;
    let name = FileName::of_block(network, height, hash);
    let other = |of: FileName| PersisterError::Damaged {
        place: place.name(),
        file: of.to_string(),
        source: utxokeep_core::Corrupt::new("file", "it does not say what the block says"),
    };
    if expected.block != block {
        return Err(other(name));
    }
    for (name, file) in &expected.others {
        // The sums of all files are those of `block`, so that only reading is left.
        let sum = utxokeep_core::persisted::FileSum::of(file);
        if name.kind != FileKind::SubtreeData && place.listed(*name, sum)? != *file {
            return Err(other(*name));
        }
    }
    let files = block.other_files_bytes() + expected.manifest.1.len() as u64;
    Ok((raw.len() as u64, files))
}
