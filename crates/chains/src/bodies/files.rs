//! Bodies from block files of a Bitcoin node, which may be writing to them.
//!
//! A node has thousands of files, and reading the frames of all takes long. So a file is looked
//! into only when it is needed: first those around the place where the block is likely to be.
//!
//! # Invariants
//!
//! * A block that is in any of the files is found, also when the node wrote it a moment ago.
//! * A file that has not changed is looked into once; only the newest is looked into again.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use utxokeep_core::{BlockHash, Network};

use super::{BodyError, WantedBlock};
use crate::{BlockFiles, BlockSource, ScanOptions, SourceError, XorKey};

/// Files that blocks are looked for in.
pub(crate) struct BitcoinBodies {
    paths: Vec<PathBuf>,
    network: Network,
    xor_key: Option<XorKey>,
    /// Where compressed files are unpacked.
    spool_dir: PathBuf,
    files: Vec<Looked>,
    /// Where the last block was found: the next one is near.
    near: Option<usize>,
}

/// A file, and what is known of it.
struct Looked {
    path: PathBuf,
    stamp: Stamp,
    /// `None` until it is looked into, and while there is no block in it.
    blocks: Option<BlockFiles>,
}

/// What changes when somebody writes to a file.
type Stamp = (u64, Option<SystemTime>);

impl fmt::Debug for BitcoinBodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitcoinBodies").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl BitcoinBodies {
    /// Looks into nothing yet.
    pub(crate) fn new(
        paths: &[PathBuf],
        network: Network,
        xor_key: Option<XorKey>,
        spool_dir: &Path,
    ) -> Self {
        Self {
            paths: paths.to_vec(),
            network,
            xor_key,
            spool_dir: spool_dir.to_owned(),
            files: Vec::new(),
            near: None,
        }
    }

    /// The bytes of a block; `None` when it is in none of the files.
    pub(crate) fn raw(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        if self.files.is_empty() {
            self.list()?;
        }
        let found = self.find(wanted, is_stopped)?;
        if found.is_some() {
            return Ok(found);
        }
        // The node may have written it since.
        self.list()?;
        self.find(wanted, is_stopped)
    }

    fn find(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let near = self.near.unwrap_or_else(|| wanted.share_of(self.files.len()));
        let order = outwards(near, self.files.len());
        // Files that are known cost nothing, so they come first.
        let (known, unknown): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|at| self.files[*at].blocks.is_some());
        let mut blank = None;
        for at in known.into_iter().chain(unknown) {
            if is_stopped() {
                return Err(BodyError::Stopped);
            }
            match self.in_file(at, &wanted.point.hash) {
                Ok(None) => {}
                // A node makes room in a new file before it writes the first block.
                Err(error @ SourceError::NoBlocks { .. }) => blank = Some(error),
                found => {
                    self.near = Some(at);
                    return Ok(found?);
                }
            }
        }
        match blank {
            // None has a block: the network or the key is wrong.
            Some(error) if self.files.iter().all(|file| file.blocks.is_none()) => Err(error.into()),
            _ => Ok(None),
        }
    }

    fn in_file(&mut self, at: usize, hash: &BlockHash) -> Result<Option<Vec<u8>>, SourceError> {
        let file = &mut self.files[at];
        let blocks = match &mut file.blocks {
            Some(blocks) => blocks,
            none => {
                let options = ScanOptions { xor_key: self.xor_key, ..ScanOptions::default() };
                let path = std::slice::from_ref(&file.path);
                none.insert(BlockFiles::open(path, self.network, &self.spool_dir, options)?)
            }
        };
        match blocks.raw(hash) {
            Err(SourceError::UnknownBlock { .. }) => Ok(None),
            raw => raw.map(Some),
        }
    }

    /// Lists the files again, and forgets what is known of those that have changed.
    fn list(&mut self) -> Result<(), SourceError> {
        let near = self.near.take().and_then(|at| self.files.get(at));
        let near = near.map(|file| file.path.clone());
        let before = std::mem::take(&mut self.files).into_iter();
        let mut before: BTreeMap<PathBuf, Looked> =
            before.map(|file| (file.path.clone(), file)).collect();
        for path in &self.paths {
            let paths = if path.is_dir() { block_files_in(path)? } else { vec![path.clone()] };
            for path in paths {
                let metadata = fs::metadata(&path).map_err(|error| read_error(&path, error))?;
                let stamp = (metadata.len(), metadata.modified().ok());
                let known = before.remove(&path).filter(|file| file.stamp == stamp);
                let blocks = known.and_then(|file| file.blocks);
                self.files.push(Looked { path, stamp, blocks });
            }
        }
        self.near = near.and_then(|near| self.files.iter().position(|file| file.path == near));
        // Times of files are coarse: two writes may have the same.
        if let Some(newest) = self.files.last_mut()
            && newest.path.extension().is_some_and(|extension| extension == "dat")
        {
            newest.blocks = None;
        }
        Ok(())
    }
}

/// All places below `len`, nearest to `start` first.
fn outwards(start: usize, len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|at| (at.abs_diff(start), *at < start));
    order
}

fn block_files_in(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| read_error(dir, error))? {
        let path = entry.map_err(|error| read_error(dir, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_one = [".dat", ".dat.zst", ".dat.xz"].iter().any(|end| name.ends_with(end));
        if name.starts_with("blk") && is_one {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(SourceError::NoFiles { path: dir.to_owned() });
    }
    // Numbers have leading zeros up to five digits, and may have more.
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(files)
}

fn read_error(path: &Path, source: io::Error) -> SourceError {
    SourceError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{ChainPoint, Height};
    use utxokeep_testkit::RegtestA;

    use super::*;
    use crate::{BlockFileWriter, BlockList};

    const KEY: XorKey = [3, 1, 4, 1, 5, 9, 2, 6];

    /// Blocks of the real chain, written as a node writes them.
    struct Node {
        dir: tempfile::TempDir,
        blocks: Vec<(BlockHash, Vec<u8>)>,
    }

    impl Node {
        fn new() -> Self {
            let paths = [RegtestA::default().path("blocks.dat.xz")];
            let (network, spool) = (RegtestA::NETWORK, std::env::temp_dir());
            let files = BlockFiles::open(&paths, network, &spool, ScanOptions::default()).unwrap();
            let raw = |hash| (hash, files.raw(&hash).unwrap());
            let blocks = files.headers().iter().map(|header| raw(header.hash)).collect();
            Self { dir: tempfile::tempdir().unwrap(), blocks }
        }

        fn write(&self, name: &str, range: std::ops::Range<usize>) {
            let path = self.dir.path().join(name);
            let mut file = BlockFileWriter::create(&path, RegtestA::NETWORK, Some(KEY)).unwrap();
            for (_, raw) in &self.blocks[range] {
                file.push(raw).unwrap();
            }
            file.finish().unwrap();
        }

        fn bodies(&self, key: Option<XorKey>) -> BitcoinBodies {
            let dir = self.dir.path();
            BitcoinBodies::new(&[dir.to_owned()], RegtestA::NETWORK, key, dir)
        }

        fn wanted(&self, at: usize) -> WantedBlock {
            let height = Height::new(u32::try_from(at).unwrap());
            let hash = self.blocks[at].0;
            let point = ChainPoint { height, slot: 0, hash };
            WantedBlock { point, parent: None, tip: Height::new(229) }
        }

        fn finds(&self, bodies: &mut BitcoinBodies, at: usize) -> bool {
            let raw = bodies.raw(&self.wanted(at), &|| false).unwrap();
            raw.is_some_and(|raw| raw == self.blocks[at].1)
        }
    }

    #[test]
    fn the_search_goes_outwards_and_forward_first() {
        assert_eq!(outwards(2, 5), [2, 3, 1, 4, 0]);
        assert_eq!(outwards(9, 3), [2, 1, 0]);
        assert!(outwards(0, 0).is_empty());
    }

    #[test]
    fn blocks_are_found_while_the_node_writes_and_only_where_it_is_needed_files_are_read() {
        let node = Node::new();
        node.write("blk00000.dat", 0..100);
        node.write("blk00001.dat", 100..200);
        node.write("blk00002.dat", 200..230);
        let mut bodies = node.bodies(Some(KEY));
        assert!(node.finds(&mut bodies, 229));
        let looked = |bodies: &BitcoinBodies| -> Vec<bool> {
            bodies.files.iter().map(|file| file.blocks.is_some()).collect()
        };
        assert_eq!(looked(&bodies), [false, false, true], "a new block is in the newest file");
        assert!(node.finds(&mut bodies, 150));
        assert_eq!(looked(&bodies), [false, true, true]);
        assert!((0..230).all(|at| node.finds(&mut bodies, at)));

        assert!(!node.finds(&mut bodies, 250));
        node.write("blk00002.dat", 200..251);
        assert!(node.finds(&mut bodies, 250), "the file has grown");
        // Room that was made for a new file: zeros that are not obfuscated.
        std::fs::write(node.dir.path().join("blk00003.dat"), [0; 4_096]).unwrap();
        assert!(!node.finds(&mut bodies, 251));
        node.write("blk00003.dat", 251..260);
        assert!((0..260).all(|at| node.finds(&mut bodies, at)));
    }

    #[test]
    fn a_wrong_key_an_absent_directory_and_a_stop_are_told() {
        let node = Node::new();
        node.write("blk00000.dat", 0..10);
        let error = node.bodies(None).raw(&node.wanted(5), &|| false).unwrap_err();
        assert!(error.to_string().contains("xor key"), "{error}");
        std::fs::write(node.dir.path().join("xor.dat"), KEY).unwrap();
        let mut bodies = node.bodies(None);
        assert!(node.finds(&mut bodies, 5), "the key is beside the files");
        let stopped = bodies.raw(&node.wanted(5), &|| true).unwrap_err();
        assert!(matches!(stopped, BodyError::Stopped));

        let mut nowhere = node.bodies(None);
        nowhere.paths = vec![node.dir.path().join("none")];
        let error = nowhere.raw(&node.wanted(5), &|| false).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
