//! Building the tree for a database that has none.

use utxokeep_index::{IndexOpenError, MmrBuilt, MmrEnableError, disable_mmr};
use utxokeep_kv::{OpenMode, RocksKv};

use super::*;
use crate::common::{MemoryEngine, OnDisk, rocks_options};

fn build(
    index: ChainIndex<MemoryEngine>,
    rule: MmrRule,
    archive: &Archive,
    steps: u32,
) -> Result<MmrBuilt, MmrEnableError> {
    let mut left = steps;
    ChainWriter::new(index).unwrap().build_mmr(
        rule,
        &mut |_, hash| Ok(block(archive, hash)),
        &mut |_, _| {
            left -= 1;
            left > 0
        },
    )
}

fn classic(place: &InMemory, archive: &Archive, chain: &[BlockHash], window: u32) {
    let mut writer = ChainWriter::new(place.open(common::settings(window))).unwrap();
    for hash in chain {
        writer.apply(&block(archive, hash)).unwrap();
    }
    prune_fully(&mut writer);
}

/// What an import with the setting from the start has.
fn imported(archive: &Archive, chain: &[BlockHash], rule: MmrRule) -> ChainIndex<MemoryEngine> {
    let index = InMemory::default().open(settings(rule, 30));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in chain {
        writer.apply(&block(archive, hash)).unwrap();
    }
    prune_fully(&mut writer);
    index
}

#[test]
fn enabling_gives_every_row_that_an_import_gives() {
    let archive = simulate(31, 0, 160);
    let chain = chain_of(&archive);
    for rule in RULES {
        let place = InMemory::default();
        classic(&place, &archive, &chain, 30);
        let built = build(place.open(common::settings(30)), rule, &archive, u32::MAX).unwrap();
        assert_eq!(built, MmrBuilt::Done);
        let index = place.open(settings(rule, 30));
        let expected = imported(&archive, &chain, rule);
        assert_same(&dump_all(index.engine()), &dump_all(expected.engine()), &[], "enabled");
        assert_clean(&index, "enabled");
        // It can be undone down to the floor like any other.
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        writer.rollback(writer.floor()).unwrap();
        assert_clean(&index, "enabled and undone");
    }
}

#[test]
fn an_interrupted_pass_goes_on_where_it_stopped() {
    let archive = simulate(32, 0, 160);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let expected = dump_all(imported(&archive, &chain, rule).engine());
    let place = InMemory::default();
    classic(&place, &archive, &chain, 30);
    let mut passes = 0;
    while build(place.open(common::settings(30)), rule, &archive, 7).unwrap() == MmrBuilt::Stopped {
        passes += 1;
        // In between it opens as before, and says that it is clean.
        assert_clean(&place.open(common::settings(30)), "half built");
    }
    assert_eq!(passes, (chain.len() - 1) / 7);
    assert_same(&dump_all(place.open(settings(rule, 30)).engine()), &expected, &[], "in steps");
}

#[test]
fn a_pass_that_dies_at_any_commit_goes_on_where_it_stopped() {
    let archive = simulate(33, 0, 140);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let expected = dump_all(imported(&archive, &chain, rule).engine());
    for commits in 0..40 {
        let place = InMemory::default();
        classic(&place, &archive, &chain, 30);
        let dying = place.dying_after(commits).open(common::settings(30));
        let died = build(dying, rule, &archive, u32::MAX);
        if died.is_err() {
            assert_clean(&place.open(common::settings(30)), "half built");
            build(place.open(common::settings(30)), rule, &archive, u32::MAX).unwrap();
        }
        let index = place.open(settings(rule, 30));
        assert_same(&dump_all(index.engine()), &expected, &[], &format!("{commits} commits"));
    }
}

#[test]
fn blocks_that_came_between_two_passes_are_not_forgotten() {
    let mut archive = simulate(34, 0, 160);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let branch = SimulatorConfig { seed: 99, ..SimulatorConfig::default() };
    let fork = chain.len() - 10;
    let other = common::simulate_branch(&mut archive, branch, &chain[..fork], 20);
    let whole: Vec<_> = chain[..fork].iter().chain(&other).copied().collect();
    let expected = naive_roots(rule, &archive, &whole);
    for stop_after in [20, 100, 125, 135, 150, 158] {
        let place = InMemory::default();
        classic(&place, &archive, &chain, 30);
        let built = build(place.open(common::settings(30)), rule, &archive, stop_after).unwrap();
        assert_eq!(built, MmrBuilt::Stopped);
        let mut writer = ChainWriter::new(place.open(common::settings(30))).unwrap();
        writer.rollback(Height::new(u32::try_from(fork).unwrap() - 1)).unwrap();
        for hash in &other {
            writer.apply(&block(&archive, hash)).unwrap();
        }
        prune_fully(&mut writer);
        drop(writer);
        build(place.open(common::settings(30)), rule, &archive, u32::MAX).unwrap();
        let index = place.open(settings(rule, 30));
        assert_eq!(root(&index, None), *expected.last().unwrap(), "stopped after {stop_after}");
        assert_clean(&index, "built in two parts");
    }
}

/// On disk: tables come with enabling and go with disabling, and a database without is as it was.
#[test]
fn disabling_leaves_the_database_that_there_was() {
    let archive = simulate(36, 0, 120);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let place = OnDisk::default();
    let dir = place.0.path();
    let tables = || RocksKv::tables_on_disk(dir).unwrap().len();
    {
        let mut writer = ChainWriter::new(place.open(common::settings(30))).unwrap();
        for hash in &chain {
            writer.apply(&block(&archive, hash)).unwrap();
        }
    }
    let classic = tables();
    let options = rocks_options;
    assert!(!disable_mmr(dir, &common::settings(30), options()).unwrap(), "there was none");
    let error =
        ChainIndex::open_dir(dir, settings(rule, 30), options(), OpenMode::Create).unwrap_err();
    assert!(matches!(error, IndexOpenError::MmrChanged { found: None, .. }), "{error}");
    assert_eq!(tables(), classic, "asking for one makes no table");
    {
        let index =
            ChainIndex::open_dir_to_build_mmr(dir, common::settings(30), rule, options()).unwrap();
        let built = ChainWriter::new(index).unwrap().build_mmr(
            rule,
            &mut |_, hash| Ok(block(&archive, hash)),
            &mut |_, _| true,
        );
        assert_eq!(built.unwrap(), MmrBuilt::Done);
    }
    assert_eq!(tables(), classic + 2);
    {
        let index = place.open(settings(rule, 30));
        assert_eq!(root(&index, None), *naive_roots(rule, &archive, &chain).last().unwrap());
        assert_clean(&index, "built on disk");
    }
    assert!(disable_mmr(dir, &settings(rule, 30), options()).unwrap());
    assert_eq!(tables(), classic);
    let index = place.open(common::settings(30));
    assert_clean(&index, "without it again");
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.rollback(writer.floor()).unwrap();
    assert_clean(&index, "undone without it");
}

#[test]
fn a_setting_that_differs_from_the_database_says_what_to_do() {
    let archive = simulate(35, 0, 5);
    let chain = chain_of(&archive);
    let open = |place: &InMemory, settings| {
        ChainIndex::open(place.0.clone(), settings).unwrap_err().to_string()
    };
    let place = InMemory::default();
    classic(&place, &archive, &chain, 30);
    let error = open(&place, settings(MmrRule::Tombstone, 30));
    assert!(error.contains("chain mmr enable"), "{error}");
    build(place.open(common::settings(30)), MmrRule::Tombstone, &archive, u32::MAX).unwrap();
    let error = open(&place, common::settings(30));
    assert!(error.contains("chain mmr disable"), "{error}");
    let error = open(&place, settings(MmrRule::Utreexo, 30));
    assert!(error.contains("\"tombstone\"") && error.contains("\"utreexo\""), "{error}");
    let again = place.open(settings(MmrRule::Tombstone, 30));
    let error = build(again, MmrRule::Tombstone, &archive, 1).unwrap_err();
    assert!(matches!(error, MmrEnableError::IsOn));
}

#[test]
fn an_index_that_has_not_seen_every_output_is_refused() {
    let refused = |settings: IndexSettings| {
        let error = ChainIndex::open(InMemory::default().0, settings).unwrap_err();
        assert!(matches!(error, IndexOpenError::MmrRefused { .. }), "{error}");
    };
    let rule = MmrRule::Tombstone;
    refused(settings(rule, 30).with(|settings| settings.may_start_mid_chain = true));
    refused(settings(rule, 30).with(|settings| settings.enabled = false));
    let cardano = IndexSettings::new(utxokeep_core::Network::CardanoPreview);
    refused(cardano.with(|settings| settings.mmr = Some(MmrRule::Utreexo)));
}
