//! Persisted blocks as a source to import from.

use std::{collections::BTreeMap, sync::Mutex, thread};

use utxokeep_chains::{BlockList, BlockSource, SourceError};
use utxokeep_core::{BlockHash, Header, Height, persisted::PersistedBlock};

use super::{PersistedPlace, PersisterError};

/// Asked while headers are read, with how many were; `false` stops.
pub type ReadProgress<'p> = dyn FnMut(u64) -> bool + 'p;

/// The chain of blocks that ends at the watermark of a place. Headers are kept, bodies are read when
/// asked for.
#[derive(Debug)]
pub struct PersistedList {
    place: PersistedPlace,
    headers: Vec<Header>,
    heights: BTreeMap<BlockHash, Height>,
    cursor: usize,
}

impl PersistedList {
    /// Reads the headers of all blocks from `first` on, `parallel` files at a time. Files of blocks
    /// that left the chain are passed over. A block that is missing below the watermark is an error,
    /// except at the lower end, where old files may have been deleted.
    pub fn open(
        place: PersistedPlace,
        first: Height,
        parallel: usize,
        progress: &mut ReadProgress<'_>,
    ) -> Result<Self, PersisterError> {
        let empty = || PersisterError::Empty { place: place.name() };
        let mark = place.watermark()?.ok_or_else(empty)?;
        let Some((top, tip)) = mark.block else {
            return Ok(Self { place, headers: Vec::new(), heights: BTreeMap::new(), cursor: 0 });
        };
        let mut found: BTreeMap<BlockHash, (Height, Header)> = BTreeMap::new();
        for folder in place.folders_from(first)? {
            let hashes = place.blocks_in(&folder)?;
            for block in read_all(&place, &folder, &hashes, parallel)? {
                found.insert(block.header.hash, (block.height, block.header));
            }
            if !progress(found.len() as u64) {
                return Err(PersisterError::Stopped);
            }
        }
        let mut headers = Vec::new();
        let mut heights = BTreeMap::new();
        let mut at = tip;
        while let Some((height, header)) = found.get(&at) {
            heights.insert(at, *height);
            headers.push(*header);
            at = header.prev;
        }
        headers.reverse();
        // Every height between the lowest folder and the watermark must be there.
        let lowest = headers.first().and_then(|header| heights.get(&header.hash)).copied();
        let lowest_found = found.values().map(|(height, _)| *height).min();
        if lowest.is_none() || lowest > lowest_found {
            let height = lowest.map_or(top, |lowest| lowest.minus(1));
            return Err(PersisterError::Missing {
                file: format!("the .block file of block {height}"),
                place: place.name(),
            });
        }
        Ok(Self { place, headers, heights, cursor: 0 })
    }

    /// Height of the newest block.
    #[must_use]
    pub fn tip(&self) -> Option<Height> {
        self.headers.last().and_then(|header| self.heights.get(&header.hash)).copied()
    }
}

/// Reads `.block` files of one folder on several threads: each answer of a bucket takes its time.
fn read_all(
    place: &PersistedPlace,
    folder: &str,
    hashes: &[BlockHash],
    parallel: usize,
) -> Result<Vec<PersistedBlock>, PersisterError> {
    let blocks = Mutex::new(Vec::with_capacity(hashes.len()));
    thread::scope(|scope| {
        let share = hashes.len().div_ceil(parallel.max(1)).max(1);
        let readers: Vec<_> = hashes
            .chunks(share)
            .map(|hashes| {
                let blocks = &blocks;
                scope.spawn(move || {
                    for hash in hashes {
                        let block = place.block_in(folder, *hash)?;
                        let mut blocks =
                            blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        blocks.push(block);
                    }
                    Ok::<_, PersisterError>(())
                })
            })
            .collect();
        for reader in readers {
            reader.join().expect("reading a file does not panic")?;
        }
        Ok::<_, PersisterError>(())
    })?;
    Ok(blocks.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

impl BlockList for PersistedList {
    fn headers(&self) -> &[Header] {
        &self.headers
    }
}

impl BlockSource for PersistedList {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        let header = self.headers.get(self.cursor).copied();
        self.cursor += usize::from(header.is_some());
        Ok(header)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        let unknown = || SourceError::UnknownBlock { hash: self.place.network().hash(*hash) };
        let height = *self.heights.get(hash).ok_or_else(unknown)?;
        let read = self.place.raw(height, *hash);
        let read = read.map_err(|error| {
            let (reason, kind) = (error.to_string(), error.kind());
            SourceError::Persisted { reason, kind }
        })?;
        Ok(read.raw)
    }
}
