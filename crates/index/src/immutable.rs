//! Importing a node's immutable blocks: one chain, in order, as far as it goes.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use utxokeep_chains::{
    BlockDecoder, SourceError,
    cardano::{BlockPosition, ImmutableDb},
};
use utxokeep_core::{Block, BlockHash, Height};
use utxokeep_kv::Kv;

use crate::{
    Applied, ChainWriter, FollowReport, ImportProgress, ImportStage, Mode, OnProgress,
    error::{FollowError, IndexError},
    import::{PRUNE_EVERY_BLOCKS, keep_staged},
    query::block_entry,
};

/// Decoded blocks handed over at a time: blocks are small, waking a thread for each would cost more
/// than decoding it.
const BLOCKS_PER_PARCEL: usize = 64;
/// Parcels that may wait for the writer; bounds the memory of the pipeline.
const PARCELS_AHEAD_MAX: usize = 4;

type Decoded = Result<Block, FollowError>;

/// Imports every block of a node's immutable database that is not in the index yet. Blocks that
/// are below the window already are loaded in bulk, if `bulk` says so.
pub fn import_immutable<K: Kv>(
    mut writer: ChainWriter<K>,
    db: &ImmutableDb,
    bulk: bool,
    progress: &mut OnProgress<'_>,
) -> Result<(ChainWriter<K>, FollowReport), FollowError> {
    let mut report = FollowReport::default();
    let Some(from) = resume(&mut writer, db, &mut report)? else { return Ok((writer, report)) };
    let total = db.blocks_total();
    let before = db.blocks_before(from);
    let horizon = u64::from(writer.index().settings().window.horizon());
    let deep = if bulk { (total - before).saturating_sub(horizon) } else { 0 };
    let mut done = 0;
    writer.set_mode(if deep > 0 { Mode::Bulk } else { Mode::CatchUp })?;
    let decoder = writer.index().settings().decoder.clone();
    let imported = decoded_ahead(db, &decoder, from, |block| {
        if done == deep && deep > 0 {
            writer.set_mode(Mode::CatchUp)?;
        }
        if let Applied::Connected(_) = writer.apply(&block)? {
            report.connected += 1;
        }
        done += 1;
        if writer.mode() != Mode::Bulk && done.is_multiple_of(PRUNE_EVERY_BLOCKS) {
            writer.prune_pass()?;
        }
        Ok(progress(&ImportProgress {
            stage: if done <= deep { ImportStage::Bulk } else { ImportStage::Window },
            blocks_done: before + done,
            blocks_total: total,
            height: writer.tip().map(|tip| tip.height),
        }))
    });
    keep_staged(&mut writer, imported)?;
    writer.set_mode(Mode::Tip)?;
    while writer.prune_pass()?.more {}
    Ok((writer, report))
}

/// Where to go on: behind the newest block of ours that the node has, after undoing the blocks
/// above it. `None` when the node has nothing new.
fn resume<K: Kv>(
    writer: &mut ChainWriter<K>,
    db: &ImmutableDb,
    report: &mut FollowReport,
) -> Result<Option<BlockPosition>, FollowError> {
    let Some(tip) = writer.tip() else { return Ok(Some(db.start())) };
    let Some(last) = db.last_of_chain()? else { return Ok(None) };
    if writer.height_of(&last.hash)?.is_some() {
        return Ok(None);
    }
    let floor = writer.floor();
    for raw in (floor.get()..=tip.height.get()).rev() {
        let height = Height::new(raw);
        let entry = block_entry(writer.index().kv.as_ref(), height)?
            .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
        let point = entry.point(height);
        let Some(position) = db.find(point.slot, &point.hash)? else { continue };
        let undone = writer.rollback(height)?;
        if undone > 0 {
            report.disconnected += u64::from(undone);
            report.reorganisations += 1;
            report.deepest_reorganisation = undone;
        }
        return Ok(Some(position.next()));
    }
    Err(FollowError::NoCommonBlock { safe: floor, tip: tip.height, last_slot: last.slot })
}

/// Reads and decodes blocks on a second thread and hands them over in order, until `take` answers
/// `false`.
fn decoded_ahead(
    db: &ImmutableDb,
    decoder: &BlockDecoder,
    from: BlockPosition,
    mut take: impl FnMut(Block) -> Result<bool, FollowError>,
) -> Result<(), FollowError> {
    let is_done = AtomicBool::new(false);
    let (sender, receiver) = sync_channel::<Vec<Decoded>>(PARCELS_AHEAD_MAX);
    thread::scope(|scope| {
        let stop = &is_done;
        scope.spawn(move || send_decoded(db, decoder, from, stop, &sender));
        let result = (|| {
            for block in receiver.iter().flatten() {
                if !take(block?)? {
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

fn send_decoded(
    db: &ImmutableDb,
    decoder: &BlockDecoder,
    from: BlockPosition,
    stop: &AtomicBool,
    sender: &SyncSender<Vec<Decoded>>,
) {
    let mut parcel = Vec::with_capacity(BLOCKS_PER_PARCEL);
    for raw in db.blocks_from(from) {
        let block = match raw {
            Ok(raw) => decode(decoder, raw.hash, raw.bytes),
            Err(error) => Err(SourceError::into(error)),
        };
        let is_last = block.is_err();
        parcel.push(block);
        if parcel.len() == BLOCKS_PER_PARCEL || is_last {
            let full = std::mem::replace(&mut parcel, Vec::with_capacity(BLOCKS_PER_PARCEL));
            if sender.send(full).is_err() || is_last || stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
    // Nobody listens any more when this fails.
    let _ = sender.send(parcel);
}

fn decode(decoder: &BlockDecoder, hash: BlockHash, bytes: Vec<u8>) -> Decoded {
    let named = decoder.network().hash(hash);
    let block =
        decoder.decode(bytes).map_err(|source| FollowError::Decode { hash: named, source })?;
    if block.header.hash == hash {
        Ok(block)
    } else {
        let found = decoder.network().hash(block.header.hash);
        Err(FollowError::OtherBlock { hash: named, found })
    }
}
