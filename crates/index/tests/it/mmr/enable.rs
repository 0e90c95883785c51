//! Building the tree for a database that has none.

use utxokeep_index::{FollowError, IndexOpenError, MmrBuilt, MmrEnableError, disable_mmr};
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

#[test]
fn a_pass_that_is_resumed_with_another_rule_is_refused() {
    let archive = simulate(37, 0, 100);
    let chain = chain_of(&archive);
    for (began, asked) in [(RULES[0], RULES[1]), (RULES[1], RULES[0])] {
        let place = InMemory::default();
        classic(&place, &archive, &chain, 30);
        let open = || place.open(common::settings(30));
        assert_eq!(build(open(), began, &archive, 50).unwrap(), MmrBuilt::Stopped);
        let before = dump_all(open().engine());
        let error = build(open(), asked, &archive, u32::MAX).unwrap_err();
        let is_it = matches!(error, MmrEnableError::OtherRule { began: b, asked: a }
            if (b, a) == (began, asked));
        assert!(is_it, "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
        assert_same(&dump_all(open().engine()), &before, &[], "refused");
        assert_eq!(build(open(), began, &archive, u32::MAX).unwrap(), MmrBuilt::Done);
        let expected = imported(&archive, &chain, began);
        let index = place.open(settings(began, 30));
        assert_same(&dump_all(index.engine()), &dump_all(expected.engine()), &[], "resumed");
    }
}

/// Blocks that leave during a pause and do not come back, and such that come back as they were.
#[test]
fn a_pass_resumes_after_a_rollback_during_its_pause() {
    let archive = simulate(38, 0, 160);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    for stop_after in [60, 132, 140, 155] {
        for (to, comes_back) in [(150, false), (150, true), (138, false), (138, true)] {
            let place = InMemory::default();
            classic(&place, &archive, &chain, 30);
            let open = || place.open(common::settings(30));
            assert_eq!(build(open(), rule, &archive, stop_after).unwrap(), MmrBuilt::Stopped);
            let next = open().mmr_build_standing().unwrap().unwrap().next;
            assert_eq!(next, Height::new(stop_after));
            let mut writer = ChainWriter::new(open()).unwrap();
            writer.rollback(Height::new(to)).unwrap();
            let mut kept = to as usize + 1;
            if comes_back {
                for hash in &chain[kept..] {
                    writer.apply(&block(&archive, hash)).unwrap();
                }
                kept = chain.len();
            }
            drop(writer);
            // Where a block that it went through has left, it says that it begins again.
            let expected = if next > Height::new(to + 1) { Height::GENESIS } else { next };
            assert_eq!(open().mmr_build_standing().unwrap().unwrap().next, expected);
            assert_eq!(build(open(), rule, &archive, u32::MAX).unwrap(), MmrBuilt::Done);
            let index = place.open(settings(rule, 30));
            let what = format!("{stop_after} {to} {comes_back}");
            assert_eq!(
                root(&index, None),
                *naive_roots(rule, &archive, &chain[..kept]).last().unwrap(),
                "{what}"
            );
            assert_clean(&index, &what);
        }
    }
}

#[test]
fn a_missing_block_is_named_and_what_was_built_stays() {
    let archive = simulate(39, 0, 120);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    let place = InMemory::default();
    classic(&place, &archive, &chain, 30);
    let open = || place.open(common::settings(30));
    let missing = Height::new(40);
    let error = ChainWriter::new(open())
        .unwrap()
        .build_mmr(
            rule,
            &mut |height, hash| {
                if height == missing {
                    return Err(FollowError::MissingBody { hash: REGTEST.hash(*hash), height });
                }
                Ok(block(&archive, hash))
            },
            &mut |_, _| true,
        )
        .unwrap_err();
    let is_named = matches!(error, MmrEnableError::Source(FollowError::MissingBody { height, .. })
        if height == missing);
    assert!(is_named, "{error}");
    assert_eq!(open().mmr_build_standing().unwrap().unwrap().next, missing);
    assert_clean(&open(), "half built");
    assert_eq!(build(open(), rule, &archive, u32::MAX).unwrap(), MmrBuilt::Done);
    let expected = imported(&archive, &chain, rule);
    let index = place.open(settings(rule, 30));
    assert_same(&dump_all(index.engine()), &dump_all(expected.engine()), &[], "resumed");
}

/// Pruning went on while a pass was interrupted, and the next one began again with the first block.
#[test]
fn undo_data_waits_for_an_unfinished_pass_within_its_bound() {
    let archive = simulate(40, 0, 200);
    let chain = chain_of(&archive);
    let rule = MmrRule::Tombstone;
    for (lag_max, waits) in [(60, true), (59, false)] {
        let bounded =
            || common::settings(20).with(|settings| settings.consumer_lag_blocks_max = lag_max);
        let place = InMemory::default();
        let mut writer = ChainWriter::new(place.open(bounded())).unwrap();
        for hash in &chain[..101] {
            writer.apply(&block(&archive, hash)).unwrap();
        }
        prune_fully(&mut writer);
        drop(writer);
        let base = place.open(bounded()).status().unwrap().undo_base.unwrap();
        assert_eq!(base, Height::new(80));
        let stopped = build(place.open(bounded()), rule, &archive, 91).unwrap();
        assert_eq!(stopped, MmrBuilt::Stopped);
        let mut writer = ChainWriter::new(place.open(bounded())).unwrap();
        for hash in &chain[101..141] {
            writer.apply(&block(&archive, hash)).unwrap();
            prune_fully(&mut writer);
        }
        drop(writer);
        let index = place.open(bounded());
        let standing = index.mmr_build_standing().unwrap().unwrap();
        assert_eq!(standing.holds_undo_above, waits.then_some(base), "{lag_max}");
        assert_eq!(standing.next.get(), if waits { 91 } else { 0 });
        let kept = index.status().unwrap().undo_base.unwrap();
        assert_eq!(kept.get(), if waits { 80 } else { 120 }, "{lag_max}");
        drop(index);
        assert_eq!(build(place.open(bounded()), rule, &archive, u32::MAX).unwrap(), MmrBuilt::Done);
        // With the pass done nothing is held any more.
        let index = place.open(bounded().with(|settings| settings.mmr = Some(rule)));
        let expected = *naive_roots(rule, &archive, &chain[..141]).last().unwrap();
        assert_eq!(root(&index, None), expected);
        prune_fully(&mut ChainWriter::new(index.clone()).unwrap());
        assert_eq!(index.status().unwrap().undo_base, Some(Height::new(120)));
        assert_clean(&index, "built in two parts");
    }
}

/// Elsewhere every byte but one stood for the same rule.
#[test]
fn a_pass_of_an_unknown_rule_is_not_taken_for_one_of_another() {
    use utxokeep_index::tables::ids::UTXO_META;
    use utxokeep_kv::{Batch, Durability, Read as _};

    let archive = simulate(41, 0, 60);
    let chain = chain_of(&archive);
    let place = InMemory::default();
    classic(&place, &archive, &chain, 30);
    let stopped = build(place.open(common::settings(30)), MmrRule::Tombstone, &archive, 40);
    assert_eq!(stopped.unwrap(), MmrBuilt::Stopped);
    let mut row = place.0.get(UTXO_META, b"mmr_build").unwrap().unwrap();
    row[0] = 2;
    let mut batch = Batch::new();
    batch.put(UTXO_META, b"mmr_build", &row);
    place.0.commit(batch, Durability::Synced).unwrap();
    let error = place.open(common::settings(30)).mmr_build_standing().unwrap_err();
    assert!(error.to_string().contains("its rule is not known"), "{error}");
    let error = build(place.open(common::settings(30)), MmrRule::Tombstone, &archive, u32::MAX);
    assert!(error.unwrap_err().to_string().contains("its rule is not known"));
}
