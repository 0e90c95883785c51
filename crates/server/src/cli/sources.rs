//! Where `chain import` takes its blocks from.

use std::{fmt, fs, path::PathBuf};

use anyhow::Context;
use serde::Serialize;
use utxokeep::persister::PersistedList;
use utxokeep_chains::{
    BlockDecoder, BlockFiles, BlockList, ScanOptions, UnpackLimits,
    cardano::{CardanoDecodeError, CardanoFiles, ImmutableDb},
};
use utxokeep_core::{Height, Network};

use super::{
    args::Import, error::CliError, interrupt::Interrupt, open::Session, persister,
    progress::Progress,
};

/// What was found; fields that have no meaning on a chain are absent.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Scan {
    pub(super) blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boundary_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) garbage_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) truncated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bad_headers: Option<u64>,
}

/// Sources in the order in which they are imported.
pub(super) struct Sources {
    /// Databases of Cardano nodes.
    pub(super) immutable: Vec<ImmutableDb>,
    /// All files, of either chain.
    pub(super) files: Option<Box<dyn BlockList>>,
    pub(super) scan: Scan,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl Sources {
    /// Finds the blocks. Persisted ones below `first` are not looked for: the database has them.
    pub(super) fn open(
        session: &Session,
        args: &Import,
        decoder: &BlockDecoder,
        first: Height,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        if let Some(url) = &args.from_persisted {
            return Self::persisted(session, url, decoder.network(), first, interrupt);
        }
        if decoder.network().is_cardano() {
            Self::cardano(&args.sources, decoder)
        } else {
            Self::bitcoin(session, args, decoder.network(), interrupt)
        }
    }

    fn persisted(
        session: &Session,
        url: &str,
        network: Network,
        first: Height,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let place = persister::at_url(session, url, network)?;
        let parallel = session.config().persister.parallel_files.get() as usize;
        let mut progress = Progress::start("reading", false);
        let list = PersistedList::open(place, first, parallel, &mut |read| {
            progress.update(read, 0, || "headers".to_owned());
            !interrupt.is_asked()
        });
        progress.finish();
        let list = list?;
        let scan = Scan { blocks: list.headers().len() as u64, ..Scan::default() };
        Ok(Self { immutable: Vec::new(), files: Some(Box::new(list)), scan })
    }

    /// Compressed files are unpacked beside the database, where there is room.
    fn bitcoin(
        session: &Session,
        args: &Import,
        network: Network,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let spool_dir = session.data();
        fs::create_dir_all(spool_dir)?;
        let mut progress = Progress::start("reading", true);
        let mut on_bytes = |done, total| {
            progress.update(done, total, String::new);
            !interrupt.is_asked()
        };
        let storage = &session.config().storage;
        let unpack = UnpackLimits {
            bytes_max: u64::from(storage.unpacked_gib_max.get()) << 30,
            free_bytes_min: u64::from(storage.unpack_free_gib_min) << 30,
        };
        let xor_key = args.xor_key;
        let options = ScanOptions { xor_key, unpack, progress: Some(&mut on_bytes) };
        let files = BlockFiles::open(&args.sources, network, spool_dir, options);
        progress.finish();
        let files = files.map_err(anyhow::Error::from).and_then(|files| {
            let found = files.report();
            // Of damaged files, what is sound is imported, and the report tells the rest.
            if found.garbage_bytes == 0 && found.bad_headers == 0 {
                refuse_empty(files.without_blocks())?;
            }
            Ok(files)
        });
        if files.is_err() {
            // Removes only an empty directory: the one made above, when nothing came of it.
            let _ = fs::remove_dir(spool_dir);
        }
        let files = files?;
        let found = files.report();
        let scan = Scan {
            blocks: found.blocks,
            duplicates: Some(found.duplicates),
            boundary_blocks: None,
            garbage_bytes: Some(found.garbage_bytes),
            padding_bytes: Some(found.padding_bytes),
            truncated: Some(found.truncated),
            bad_headers: Some(found.bad_headers),
        };
        Ok(Self { immutable: Vec::new(), files: Some(Box::new(files)), scan })
    }

    fn cardano(paths: &[PathBuf], decoder: &BlockDecoder) -> anyhow::Result<Self> {
        let (dirs, paths): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(|path| path.is_dir());
        let open = |dir: &PathBuf| ImmutableDb::open(dir);
        let immutable = dirs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut scan = Scan {
            blocks: immutable.iter().map(ImmutableDb::blocks_total).sum(),
            ..Scan::default()
        };
        if paths.is_empty() {
            return Ok(Self { immutable, files: None, scan });
        }
        let genesis = decoder.genesis().context(CardanoDecodeError::NoGenesis)?;
        let files = CardanoFiles::open(&paths, decoder.network(), genesis)?;
        refuse_empty(files.without_blocks())?;
        scan.blocks += files.report().blocks;
        scan.duplicates = Some(files.report().duplicates);
        scan.boundary_blocks = Some(files.report().boundary_blocks);
        Ok(Self { immutable, files: Some(Box::new(files)), scan })
    }
}

/// A file that was named and has no block is a mistake, even beside others: it was cut, or its
/// content was lost.
fn refuse_empty(without_blocks: &[PathBuf]) -> Result<(), CliError> {
    match without_blocks.first() {
        Some(path) => Err(CliError::NoBlocks { path: path.clone() }),
        None => Ok(()),
    }
}
