//! Persisting a chain to a directory, with every file synced, beside the import of the same chain.

use utxokeep::{
    config::PersisterConfig,
    persister::{PersistedPlace, Persister, PersisterSettings, verify},
};
use utxokeep_chains::BodyFinder;
use utxokeep_core::{Height, OpenMode};
use utxokeep_index::ChainIndex;
use utxokeep_kv::Durability;

use crate::{
    clock::Clock,
    import::{Setup, Source, import},
    output,
};

/// Imports the chain, persists it, and reads the files back.
pub(crate) fn measure(setup: &Setup<'_>) -> anyhow::Result<()> {
    output::heading("Block persister: a directory, every file and its folder synced");
    let dir = setup.dir.join("persister-chain");
    let imported = import(setup, &dir, Durability::Synced)?;
    let settings = setup.settings(Durability::Synced);
    let index = ChainIndex::open_dir(&dir, settings, setup.options(), OpenMode::Existing)?;
    let paths = match &setup.source {
        Source::Files(files) => files.clone(),
        Source::Immutable(dir) => vec![dir.clone()],
    };
    let config = PersisterConfig::default();
    let settings = PersisterSettings::of(&config);
    let url = format!("file:{}", setup.dir.join("persisted").display());
    let timeout_ms = config.timeout_ms.get().into();
    let place =
        PersistedPlace::open(&url, setup.network, timeout_ms, OpenMode::Create, settings.retry)?;
    let bodies =
        BodyFinder::new(index.settings().decoder.clone()).with_files(&paths, None, setup.dir);
    let clock = Clock::start();
    let mut persisting = Persister::new(index.clone(), place.clone(), bodies, settings);
    while !persisting.step(&|| false)? {}
    let persisted = clock.stop();
    let clock = Clock::start();
    let report = verify(&index, &place, Height::GENESIS, &mut |_, _| true)?;
    anyhow::ensure!(report.faults_total == 0, "{report:?}");
    output::line(&format!("import, synced: {imported}"));
    output::line(&format!("persist, synced: {persisted}"));
    output::line(&format!(
        "rate of persisting beside importing: {:.2}",
        imported.seconds() / persisted.seconds()
    ));
    output::line(&format!("verify: {}", clock.stop()));
    let per_block = |bytes: u64| bytes / report.blocks.max(1);
    output::line(&format!(
        "{} blocks; bytes per block: {} of the block, {} of its files",
        report.blocks,
        per_block(report.block_bytes),
        per_block(report.file_bytes)
    ));
    Ok(())
}
