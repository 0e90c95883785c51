//! Bodies from the immutable database of a Cardano node, and from files of wrapped blocks.
//!
//! # Invariants
//!
//! * A database that the node has added to is opened again when a block is not found.
//! * Blocks that are asked for in order are read in order, without another search.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::WantedBlock;
use crate::{
    BlockDecoder, BlockSource, SourceError,
    cardano::{CardanoFiles, ImmutableBlocks, ImmutableDb},
};

/// Blocks that are passed over in search of the next: a boundary block lies between two others.
const SKIP_BLOCKS_MAX: usize = 2;

/// Where blocks are looked for.
pub(super) struct CardanoBodies {
    decoder: BlockDecoder,
    dirs: Vec<Immutable>,
    paths: Vec<PathBuf>,
    files: Option<(Vec<Stamp>, CardanoFiles)>,
}

/// What changes when somebody writes to a file.
type Stamp = (u64, Option<SystemTime>);

struct Immutable {
    dir: PathBuf,
    db: Option<ImmutableDb>,
    /// Stands behind the last block that was found.
    ahead: Option<ImmutableBlocks>,
}

impl fmt::Debug for CardanoBodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardanoBodies").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl CardanoBodies {
    /// Opens nothing yet. Directories are databases of nodes, everything else is a file.
    pub(super) fn new(paths: &[PathBuf], decoder: BlockDecoder) -> Self {
        let (dirs, paths) = paths.iter().cloned().partition(|path: &PathBuf| path.is_dir());
        let dirs: Vec<PathBuf> = dirs;
        let immutable = |dir| Immutable { dir, db: None, ahead: None };
        Self { decoder, dirs: dirs.into_iter().map(immutable).collect(), paths, files: None }
    }

    /// The bytes of a block; `None` when it is nowhere.
    pub(super) fn raw(&mut self, wanted: &WantedBlock) -> Result<Option<Vec<u8>>, SourceError> {
        for dir in &mut self.dirs {
            if let Some(raw) = dir.raw(wanted)? {
                return Ok(Some(raw));
            }
        }
        self.in_files(wanted)
    }

    fn in_files(&mut self, wanted: &WantedBlock) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(genesis) = self.decoder.genesis().filter(|_| !self.paths.is_empty()) else {
            return Ok(None);
        };
        let find = |files: &CardanoFiles| match files.raw(&wanted.point.hash) {
            Err(SourceError::UnknownBlock { .. }) => Ok(None),
            raw => raw.map(Some),
        };
        if let Some((_, files)) = &self.files
            && let Some(raw) = find(files)?
        {
            return Ok(Some(raw));
        }
        let stamps: Vec<Stamp> = self.paths.iter().map(|path| stamp(path)).collect();
        if self.files.as_ref().is_some_and(|(known, _)| *known == stamps) {
            return Ok(None);
        }
        let files = CardanoFiles::open(&self.paths, self.decoder.network(), genesis)?;
        find(&self.files.insert((stamps, files)).1)
    }
}

/// Of a file that cannot be read, the same each time: opening it says why.
fn stamp(path: &Path) -> Stamp {
    fs::metadata(path).map_or((0, None), |metadata| (metadata.len(), metadata.modified().ok()))
}

impl Immutable {
    fn raw(&mut self, wanted: &WantedBlock) -> Result<Option<Vec<u8>>, SourceError> {
        if let Some(raw) = self.next(wanted)? {
            return Ok(Some(raw));
        }
        if let Some(db) = self.db.clone() {
            if let Some(raw) = self.find(&db, wanted)? {
                return Ok(Some(raw));
            }
            // What is older than its end and not there will not come any more.
            if db.last_of_chain()?.is_some_and(|last| last.slot >= wanted.point.slot) {
                return Ok(None);
            }
        }
        let db = ImmutableDb::open(&self.dir)?;
        self.db = Some(db.clone());
        self.find(&db, wanted)
    }

    /// Reads on behind the last block that was found.
    fn next(&mut self, wanted: &WantedBlock) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(ahead) = &mut self.ahead else { return Ok(None) };
        for block in ahead.take(SKIP_BLOCKS_MAX) {
            let block = block?;
            if block.hash == wanted.point.hash {
                return Ok(Some(block.bytes));
            }
        }
        self.ahead = None;
        Ok(None)
    }

    fn find(
        &mut self,
        db: &ImmutableDb,
        wanted: &WantedBlock,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(position) = db.find(wanted.point.slot, &wanted.point.hash)? else {
            return Ok(None);
        };
        let mut blocks = db.blocks_from(position);
        let found = blocks.next().transpose()?;
        self.ahead = Some(blocks);
        Ok(found.map(|block| block.bytes))
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, ChainPoint, Height, Network};
    use utxokeep_testkit::cardano::{BlockSpec, Built, Era, shelley_genesis, write_immutable};

    use super::*;
    use crate::cardano::Genesis;

    fn chain(blocks: usize) -> Vec<Built> {
        let mut chain = vec![BlockSpec::first(Era::Conway, Vec::new()).build()];
        while chain.len() < blocks {
            chain.push(chain[chain.len() - 1].next(Era::Conway, Vec::new()).build());
        }
        chain
    }

    fn bodies(paths: &[PathBuf]) -> CardanoBodies {
        let genesis = Genesis::from_files(None, shelley_genesis(30, &[]).as_bytes()).unwrap();
        let decoder = BlockDecoder::with_genesis(Network::CardanoDevnet, genesis);
        CardanoBodies::new(paths, decoder)
    }

    fn finds(bodies: &mut CardanoBodies, built: &Built) -> bool {
        let height = Height::new(u32::try_from(built.number).unwrap());
        let hash = BlockHash::from_bytes(built.hash);
        let point = ChainPoint { height, slot: built.slot, hash };
        let wanted = WantedBlock { point, parent: None, tip: height };
        bodies.raw(&wanted).unwrap().is_some_and(|raw| raw == built.raw)
    }

    #[test]
    fn a_database_is_read_in_any_order_and_while_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let chain = chain(40);
        write_immutable(dir.path(), &[&chain[..10], &chain[10..20]]).unwrap();
        let mut bodies = bodies(&[dir.path().to_owned()]);
        for at in [0, 1, 2, 9, 10, 19, 5, 5, 4] {
            assert!(finds(&mut bodies, &chain[at]), "block {at}");
        }
        assert!(!finds(&mut bodies, &chain[20]));
        write_immutable(dir.path(), &[&chain[..10], &chain[10..25], &chain[25..]]).unwrap();
        for (at, built) in chain.iter().enumerate().skip(18) {
            assert!(finds(&mut bodies, built), "block {at}");
        }
    }

    #[test]
    fn files_of_blocks_are_read_again_when_they_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let chain = chain(6);
        let write = |blocks: &[Built]| {
            let raws: Vec<&[u8]> = blocks.iter().map(|built| built.raw.as_slice()).collect();
            std::fs::write(&path, raws.concat()).unwrap();
        };
        write(&chain[..3]);
        let mut bodies = bodies(std::slice::from_ref(&path));
        assert!(finds(&mut bodies, &chain[2]) && finds(&mut bodies, &chain[0]));
        assert!(!finds(&mut bodies, &chain[3]));
        write(&chain);
        assert!(finds(&mut bodies, &chain[5]));
    }
}
