//! Importing block files: bulk load below the window, then block by block in order of arrival.
//! Blocks that the database knows already are neither read nor decoded.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::sync_channel,
    },
    thread,
};

use rustc_hash::{FxHashMap, FxHashSet};
use utxokeep_chains::{BlockDecoder, BlockList, SourceError};
use utxokeep_core::{Block, BlockHash, Header, HeaderTree, Height};
use utxokeep_kv::Kv;

use crate::{
    ChainWriter, FollowReport, Follower, Mode, RefusedBlock,
    error::{ApplyError, FollowError},
    side::chain_node,
};

/// Decoded blocks that may wait for the writer; bounds the memory of the pipeline.
const DECODED_AHEAD_MAX: usize = 8;
/// Blocks between two prune passes while importing.
pub(crate) const PRUNE_EVERY_BLOCKS: u64 = 64;

/// What an import is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStage {
    /// Loading blocks that are below the window already.
    Bulk,
    /// Following arrivals inside the window.
    Window,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// What it is doing.
    pub stage: ImportStage,
    /// Blocks looked at.
    pub blocks_done: u64,
    /// Blocks in the files.
    pub blocks_total: u64,
    /// Height of the last connected block.
    pub height: Option<Height>,
}

/// Asked after every block; `false` stops the import at the next batch.
pub type OnProgress<'p> = dyn FnMut(&ImportProgress) -> bool + 'p;

/// Imports every block of `files`: the branch with the most valid work becomes the chain.
pub fn import_files<K: Kv>(
    mut writer: ChainWriter<K>,
    files: &dyn BlockList,
    bulk: bool,
    progress: &mut OnProgress<'_>,
) -> Result<(ChainWriter<K>, FollowReport), FollowError> {
    let mut first = 0;
    if writer.tip().is_none() && writer.index().settings().network().is_cardano() {
        apply_first(&mut writer, files.headers(), files)?;
        first = 1;
    }
    let mut follower = Follower::new(writer)?;
    let total = files.headers().len() as u64;
    let headers = follower.unknown_of(files.headers())?;
    // A crash may have left a branch half way, whether or not a file has anything new.
    follower.resume(files)?;
    // Files whose blocks are in the database already are not read again.
    let is_new = follower.writer().tip().is_none_or(|tip| tip.height == Height::GENESIS);
    let damaged_first = if is_new { damaged_first_block(&follower, files)? } else { None };
    let plan = if bulk { bulk_plan(&follower, &headers) } else { Vec::new() };
    let mut loaded = Loaded { hashes: FxHashSet::default(), is_stopped: false };
    if !plan.is_empty() {
        loaded = load(follower.writer_mut(), files, &plan, total, progress)?;
        let (writer, _) = follower.into_writer()?;
        follower = Follower::new(writer)?;
    }
    let connected = loaded.hashes.len() as u64;
    let (writer, mut report) = if loaded.is_stopped {
        follower.into_writer()?
    } else {
        let rest: Vec<_> =
            headers.into_iter().filter(|header| !loaded.hashes.contains(&header.hash)).collect();
        let rest = follower.reachable_first(rest);
        follow(follower, files, &rest, total, progress)?
    };
    report.connected += connected + first;
    report.refused.extend(damaged_first);
    Ok((writer, report))
}

/// The program knows the first block of its networks, and so never takes it from files. One that
/// differs there shows that the files are damaged.
fn damaged_first_block<K: Kv>(
    follower: &Follower<K>,
    files: &dyn BlockList,
) -> Result<Option<RefusedBlock>, FollowError> {
    let settings = follower.writer().index().settings();
    let Some(known) = settings.decoder.first_block() else { return Ok(None) };
    let hash = settings.network().genesis_hash();
    if !files.headers().iter().any(|header| header.hash == hash) || files.raw(&hash)? == known {
        return Ok(None);
    }
    let reason = "its bytes are not those of the first block of the network".to_owned();
    Ok(Some(RefusedBlock { hash, height: Height::GENESIS, reason, is_damage: true }))
}

/// Starts an empty database with the block that the chain starts with: the first by slot among
/// those whose parent is not there.
fn apply_first<K: Kv>(
    writer: &mut ChainWriter<K>,
    headers: &[Header],
    files: &dyn BlockList,
) -> Result<(), FollowError> {
    let known: FxHashSet<_> = headers.iter().map(|header| header.hash).collect();
    let first = headers
        .iter()
        .filter(|header| !known.contains(&header.prev))
        .min_by_key(|header| header.slot.map(|slot| slot.slot))
        .ok_or(FollowError::NoFirstBlock)?;
    let hash = first.hash;
    let decoder = &writer.index().settings().decoder;
    let block = decoder
        .decode(files.raw(&hash)?)
        .map_err(|source| FollowError::Decode { hash: decoder.network().hash(hash), source })?;
    writer.apply(&block)?;
    Ok(())
}

/// Blocks of the best branch that lie so deep that they will never be undone.
fn bulk_plan<K: Kv>(follower: &Follower<K>, headers: &[Header]) -> Vec<BlockHash> {
    let writer = follower.writer();
    let (Some(tip), Some(entry)) = (writer.tip(), writer.tip_entry()) else { return Vec::new() };
    let mut tree = HeaderTree::new(chain_node(tip.height, &entry), headers.len());
    for header in headers {
        tree.insert(header);
    }
    let Some(best) = tree.best() else { return Vec::new() };
    let Some(path) = tree.path(&tip.hash, &best.hash) else { return Vec::new() };
    let horizon = writer.index().settings().window.horizon();
    let deep = best.height.minus(horizon).get().saturating_sub(tip.height.get());
    let mut plan = path.connect;
    plan.truncate(deep as usize);
    plan
}

struct Loaded {
    hashes: FxHashSet<BlockHash>,
    is_stopped: bool,
}

/// Loads the planned blocks in bulk. Ends early at a block that is refused; following then finds
/// the best branch without it.
fn load<K: Kv>(
    writer: &mut ChainWriter<K>,
    files: &dyn BlockList,
    plan: &[BlockHash],
    total: u64,
    progress: &mut OnProgress<'_>,
) -> Result<Loaded, FollowError> {
    writer.set_mode(Mode::Bulk)?;
    let mut loaded = Loaded { hashes: FxHashSet::default(), is_stopped: false };
    let decoder = writer.index().settings().decoder.clone();
    let parents = writer.tip().map(|tip| tip.hash).into_iter().chain(plan.iter().copied());
    let linked: FxHashMap<_, _> = plan.iter().copied().zip(parents).collect();
    let applied = decoded_ahead(files, &decoder, plan.iter().copied(), |hash, block| {
        let Ok(mut block) = block else { return Ok(false) };
        // Boundary blocks are left out of the plan, and linked around.
        block.header.prev = linked.get(&hash).copied().unwrap_or(block.header.prev);
        match writer.apply(&block) {
            Ok(_) => {}
            Err(ApplyError::Invalid { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        loaded.hashes.insert(hash);
        if writer.mode() != Mode::Bulk
            && (loaded.hashes.len() as u64).is_multiple_of(PRUNE_EVERY_BLOCKS)
        {
            writer.prune_pass()?;
        }
        loaded.is_stopped = !progress(&ImportProgress {
            stage: ImportStage::Bulk,
            blocks_done: loaded.hashes.len() as u64,
            blocks_total: total,
            height: writer.tip().map(|tip| tip.height),
        });
        Ok(!loaded.is_stopped)
    });
    keep_staged(writer, applied)?;
    writer.set_mode(Mode::Tip)?;
    Ok(loaded)
}

fn follow<K: Kv>(
    mut follower: Follower<K>,
    files: &dyn BlockList,
    headers: &[Header],
    total: u64,
    progress: &mut OnProgress<'_>,
) -> Result<(ChainWriter<K>, FollowReport), FollowError> {
    follower.writer_mut().set_mode(Mode::CatchUp)?;
    let decoder = follower.writer().index().settings().decoder.clone();
    let before = total - headers.len() as u64;
    let mut arrivals = headers.iter();
    let mut done = 0;
    let hashes = headers.iter().map(|header| header.hash);
    let ended = decoded_ahead(files, &decoder, hashes, |_, block| {
        let Some(header) = arrivals.next() else { return Ok(false) };
        // Bytes that do not decode are met again, and reported, when the block is to be connected.
        follower.accept_decoded(header, block.ok().as_ref(), files)?;
        done += 1;
        if done % PRUNE_EVERY_BLOCKS == 0 {
            follower.writer_mut().prune_pass()?;
        }
        Ok(progress(&ImportProgress {
            stage: ImportStage::Window,
            blocks_done: before + done,
            blocks_total: total,
            height: follower.writer().tip().map(|tip| tip.height),
        }))
    });
    keep_staged(follower.writer_mut(), ended)?;
    follower.writer_mut().set_mode(Mode::Tip)?;
    while follower.writer_mut().prune_pass()?.more {}
    follower.into_writer()
}

/// What was applied before a failure stays applied: it is committed before the failure is told.
pub(crate) fn keep_staged<K: Kv>(
    writer: &mut ChainWriter<K>,
    result: Result<(), FollowError>,
) -> Result<(), FollowError> {
    if result.is_err() {
        // A second failure would hide the first, which is the one to tell.
        let _ = writer.flush();
    }
    result
}

/// Reads and decodes blocks on a second thread and hands them over in order, until `take` answers
/// `false`.
fn decoded_ahead(
    files: &dyn BlockList,
    decoder: &BlockDecoder,
    hashes: impl Iterator<Item = BlockHash> + Send,
    mut take: impl FnMut(BlockHash, Result<Block, String>) -> Result<bool, FollowError>,
) -> Result<(), FollowError> {
    type Decoded = (BlockHash, Result<Result<Block, String>, SourceError>);
    let is_done = AtomicBool::new(false);
    let (sender, receiver) = sync_channel::<Decoded>(DECODED_AHEAD_MAX);
    thread::scope(|scope| {
        let stop = &is_done;
        scope.spawn(move || {
            for hash in hashes {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let block = files
                    .raw(&hash)
                    .map(|raw| decoder.decode(raw).map_err(|error| error.to_string()));
                if sender.send((hash, block)).is_err() {
                    return;
                }
            }
        });
        let result = (|| {
            for (hash, decoded) in &receiver {
                if !take(hash, decoded?)? {
                    break;
                }
            }
            Ok(())
        })();
        is_done.store(true, Ordering::Relaxed);
        drop(receiver);
        result
    })
}
