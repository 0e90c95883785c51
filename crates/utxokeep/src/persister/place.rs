//! The place of the files: names, checksums and attempts are known here.

use std::thread;

use utxokeep_blobs::{BlobError, BlobOptions, BlobStore, FileGroup, Retry, Written};
use utxokeep_core::{
    BlockHash, Corrupt, Height, Network, OpenMode,
    persisted::{
        FileKind, FileName, FileSum, PersistedBlock, PersistedFiles, SubtreeData, WATERMARK_NAME,
        Watermark, folder_range,
    },
};
use utxokeep_fault::crash_point;

use super::PersisterError;

/// A block that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedRaw {
    /// What its `.block` file says.
    pub block: PersistedBlock,
    /// Its bytes, as they are on chain.
    pub raw: Vec<u8>,
}

/// Where the files of one chain are.
#[derive(Debug, Clone)]
pub struct PersistedPlace {
    store: BlobStore,
    network: Network,
    retry: Retry,
}

impl PersistedPlace {
    /// Opens a place; nothing is read or written yet.
    pub fn open(
        url: &str,
        network: Network,
        timeout_ms: u64,
        mode: OpenMode,
        retry: Retry,
    ) -> Result<Self, PersisterError> {
        let options = BlobOptions { durable: true, timeout_ms, mode, client_retries: false };
        Ok(Self::on(BlobStore::open(url, &options)?, network, retry))
    }

    /// Uses a blob store that is open.
    #[must_use]
    pub const fn on(store: BlobStore, network: Network, retry: Retry) -> Self {
        Self { store, network, retry }
    }

    /// The chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Where it is, in words.
    #[must_use]
    pub fn name(&self) -> String {
        self.store.place()
    }

    fn failed(&self, source: BlobError) -> PersisterError {
        PersisterError::Store { place: self.name(), source }
    }

    fn damaged(&self, file: &dyn ToString, source: Corrupt) -> PersisterError {
        PersisterError::Damaged { place: self.name(), file: file.to_string(), source }
    }

    fn missing(&self, file: &dyn ToString) -> PersisterError {
        PersisterError::Missing { place: self.name(), file: file.to_string() }
    }

    /// Asks again after failures, as often as the settings say.
    fn asking<T>(
        &self,
        ask: impl Fn(&BlobStore) -> Result<T, BlobError>,
    ) -> Result<T, PersisterError> {
        let mut attempt = 0;
        loop {
            match ask(&self.store) {
                Ok(answer) => return Ok(answer),
                Err(error) if attempt >= self.retry.retries_max => return Err(self.failed(error)),
                Err(_) => thread::sleep(self.retry.wait(attempt)),
            }
            attempt += 1;
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, PersisterError> {
        self.asking(|store| store.get(name))
    }

    /// How far a persister has come here; `None` where none ever was. A place of another chain is
    /// refused.
    pub fn watermark(&self) -> Result<Option<Watermark>, PersisterError> {
        let Some(file) = self.get(WATERMARK_NAME)? else { return Ok(None) };
        let mark =
            Watermark::decode(&file).map_err(|error| self.damaged(&WATERMARK_NAME, error))?;
        if mark.network != self.network {
            let (place, found, network) = (self.name(), mark.network, self.network);
            return Err(PersisterError::OtherChain { place, found, network });
        }
        Ok(Some(mark))
    }

    /// Says how far a persister has come.
    pub(super) fn put_watermark(
        &self,
        block: Option<(Height, BlockHash)>,
    ) -> (Written, Result<(), PersisterError>) {
        let file = Watermark { network: self.network, block }.encode();
        let last = (WATERMARK_NAME.to_owned(), file);
        self.put(vec![FileGroup { first: Vec::new(), last }], 1)
    }

    /// Writes the files of blocks.
    pub(super) fn put_blocks(
        &self,
        blocks: Vec<PersistedFiles>,
        parallel: usize,
    ) -> (Written, Result<(), PersisterError>) {
        let named = |(name, file): (FileName, Vec<u8>)| (name.to_string(), file);
        let groups = blocks.into_iter().map(|PersistedFiles { manifest, others, .. }| FileGroup {
            first: others.into_iter().map(named).collect(),
            last: named(manifest),
        });
        self.put(groups.collect(), parallel)
    }

    fn put(
        &self,
        groups: Vec<FileGroup>,
        parallel: usize,
    ) -> (Written, Result<(), PersisterError>) {
        let (written, ended) = self.store.put_groups(groups, parallel, self.retry);
        (written, ended.map_err(|error| self.failed(error)))
    }

    /// What the `.block` file of a block says; `None` where the block is not complete.
    pub fn block(
        &self,
        height: Height,
        hash: BlockHash,
    ) -> Result<Option<PersistedBlock>, PersisterError> {
        let name = FileName::of_block(self.network, height, hash);
        let Some(file) = self.get(&name.to_string())? else { return Ok(None) };
        let block = PersistedBlock::decode(&file).map_err(|error| self.damaged(&name, error))?;
        if block.header.hash != hash || block.height != height || block.network != self.network {
            let other = Corrupt::new(".block file", "it is of another block");
            return Err(self.damaged(&name, other));
        }
        Ok(Some(block))
    }

    /// A file that a block lists.
    pub(super) fn listed(&self, name: FileName, sum: FileSum) -> Result<Vec<u8>, PersisterError> {
        let file = self.get(&name.to_string())?.ok_or_else(|| self.missing(&name))?;
        if FileSum::of(&file) != sum {
            let other = Corrupt::new("file", "it is not the one that its block lists");
            return Err(self.damaged(&name, other));
        }
        Ok(file)
    }

    /// A block and its bytes.
    pub fn raw(&self, height: Height, hash: BlockHash) -> Result<PersistedRaw, PersisterError> {
        let name = FileName::of_block(self.network, height, hash);
        let block = self.block(height, hash)?.ok_or_else(|| self.missing(&name))?;
        let mut files = Vec::with_capacity(block.subtrees.len());
        for (number, subtree) in (0_u32..).zip(&block.subtrees) {
            files.push(self.listed(name.sibling(FileKind::SubtreeData, number), subtree.data)?);
        }
        let data = (0_u32..).zip(&files).map(|(number, file)| {
            let of = name.sibling(FileKind::SubtreeData, number);
            SubtreeData::decode(file).map_err(|error| self.damaged(&of, error))
        });
        let data = data.collect::<Result<Vec<_>, _>>()?;
        let raw = block.assemble(&data).map_err(|error| self.damaged(&name, error))?;
        Ok(PersistedRaw { block, raw })
    }

    /// The folders that hold a block from `first` on, in order.
    pub(super) fn folders_from(&self, first: Height) -> Result<Vec<String>, PersisterError> {
        let folders = self.asking(BlobStore::folders)?;
        let holds =
            |folder: &String| folder_range(folder).is_some_and(|heights| *heights.end() >= first);
        Ok(folders.into_iter().filter(holds).collect())
    }

    /// The blocks of a folder whose `.block` file is there.
    pub(super) fn blocks_in(&self, folder: &str) -> Result<Vec<BlockHash>, PersisterError> {
        self.asking(|store| {
            let mut found = Vec::new();
            store.list(Some(folder), &mut |file| {
                found.extend(FileName::hash_of_block_file(self.network, &file.name));
            })?;
            Ok(found)
        })
    }

    /// Reads the `.block` file of a block in a folder, of which only the hash is known.
    pub(super) fn block_in(
        &self,
        folder: &str,
        hash: BlockHash,
    ) -> Result<PersistedBlock, PersisterError> {
        let name = format!("{folder}/{}.block", self.network.hash_text(hash.as_bytes()));
        let file = self.get(&name)?.ok_or_else(|| self.missing(&name))?;
        let block = PersistedBlock::decode(&file).map_err(|error| self.damaged(&name, error))?;
        let is_it = block.header.hash == hash
            && block.network == self.network
            && folder_range(folder).is_some_and(|heights| heights.contains(&block.height));
        if is_it {
            return Ok(block);
        }
        Err(self.damaged(&name, Corrupt::new(".block file", "it is of another block")))
    }

    /// Deletes all files of folders whose blocks all lie below `first`; answers how many files.
    pub(super) fn delete_below(&self, first: Height) -> Result<u64, PersisterError> {
        let folders = self.asking(BlobStore::folders)?;
        let is_old =
            |folder: &&String| folder_range(folder).is_some_and(|heights| *heights.end() < first);
        let mut deleted = 0;
        for folder in folders.iter().filter(is_old) {
            let files = self.asking(|store| {
                let mut found = Vec::new();
                store.list(Some(folder), &mut |file| found.push(file.name))?;
                Ok(found)
            })?;
            // Where its `.block` file is gone a block is not complete: it goes first.
            let (manifests, others): (Vec<_>, Vec<_>) = files
                .into_iter()
                .partition(|name| FileName::hash_of_block_file(self.network, name).is_some());
            for name in manifests.iter().chain(&others) {
                crash_point("persister_before_deletion");
                deleted += u64::from(self.asking(|store| store.delete(name))?);
            }
        }
        Ok(deleted)
    }
}
