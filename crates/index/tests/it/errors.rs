//! What does not fit is refused with a typed error that changes nothing and says what to do.

use tempfile::TempDir;
use utxokeep_chains::{
    BlockFiles, ScanOptions, Simulator, SimulatorConfig, decode_block, genesis_block,
    write_block_file,
};
use utxokeep_core::{BlockHash, Height, IndexKey, Network, OutPoint, Txid};
use utxokeep_index::{
    Applied, ApplyError, ChainIndex, ChainWriter, FORMAT_VERSION, FollowError, Follower,
    IndexError, IndexOpenError, IndexSettings, Mode, Paging, QueryError, RollbackError,
    import_files, peek_identity,
    tables::{
        LOG_TABLES, TABLES,
        ids::{ADDR, ADDR_SPENT, META, SIDE, SIDE_BODY},
    },
};
use utxokeep_kv::{Batch, Durability, Kv, KvError, OpenMode, RocksKv};
use utxokeep_testkit::{Archive, NOBODY, mine, regtest_genesis};

use crate::common::{
    self, InMemory, IndexPlace, MemoryEngine, OnDisk, REGTEST, assert_clean, assert_same, block,
    dump,
};

fn simulate(seed: u64, height: u32) -> Archive {
    let config = SimulatorConfig { seed, reorg_percent: 0, ..SimulatorConfig::default() };
    let mut simulator = Simulator::new(config);
    let mut archive = Archive::default();
    for _ in 0..=height {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    archive
}

fn hashes(archive: &Archive) -> Vec<BlockHash> {
    archive.headers().iter().map(|header| header.hash).collect()
}

/// An index with the whole simulated chain, and its writer.
fn applied(archive: &Archive, mode: Mode) -> (ChainIndex<MemoryEngine>, ChainWriter<MemoryEngine>) {
    let index = InMemory::default().open(common::settings(10));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.set_mode(mode).unwrap();
    for hash in hashes(archive) {
        writer.apply(&block(archive, &hash)).unwrap();
    }
    (index, writer)
}

#[test]
fn a_gap_is_refused_and_names_both_sides() {
    let archive = simulate(1, 6);
    let chain = hashes(&archive);
    let index = InMemory::default().open(common::settings(10));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let empty = dump(index.engine());
    let error = writer.apply(&block(&archive, &chain[3])).unwrap_err();
    assert!(matches!(error, ApplyError::Gap { tip: None, .. }), "{error}");
    assert_same(&empty, &dump(index.engine()), &[], "a gap at the start");

    for hash in &chain[..4] {
        writer.apply(&block(&archive, hash)).unwrap();
    }
    let before = dump(index.engine());
    let error = writer.apply(&block(&archive, &chain[5])).unwrap_err();
    assert!(
        matches!(error, ApplyError::Gap { hash, prev, tip: Some(tip), .. }
            if hash == chain[5] && prev == chain[4] && tip == Height::new(3)),
        "{error}"
    );
    assert!(error.to_string().contains("apply the blocks in between first"));
    assert_same(&before, &dump(index.engine()), &[], "a gap");
    assert_eq!(writer.tip().unwrap().hash, chain[3]);
}

#[test]
fn a_block_with_another_parent_or_at_a_taken_height_names_the_block_there() {
    let archive = simulate(1, 6);
    let chain = hashes(&archive);
    // In batches of one block, and while they all still wait for their batch.
    for mode in [Mode::Tip, Mode::CatchUp] {
        let (index, mut writer) = applied(&archive, mode);
        let before = dump(index.engine());
        for height in [3u32, 6] {
            let parent = archive.headers()[height as usize - 1];
            let other = mine(&parent, height, 7, &[(1, NOBODY)], &[]);
            let error = writer.apply(&decode_block(other.raw, REGTEST).unwrap()).unwrap_err();
            assert!(
                matches!(error, ApplyError::Conflict { hash, height: at, existing, .. }
                    if hash == other.header.hash
                        && at == Height::new(height)
                        && existing == chain[height as usize]),
                "{mode:?}: {error}"
            );
            let advice = format!("roll back to {} first", height - 1);
            assert!(error.to_string().contains(&advice), "{error}");
        }
        assert_same(&before, &dump(index.engine()), &[], "another parent");
        writer.flush().unwrap();
        assert_clean(&index, "another parent");
    }
}

#[test]
fn the_first_block_of_another_network_is_refused() {
    let archive = simulate(1, 3);
    for other in
        Network::ALL.into_iter().filter(|network| *network != REGTEST && !network.is_cardano())
    {
        let genesis = decode_block(genesis_block(other), other).unwrap();
        let index = InMemory::default().open(common::settings(10));
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        for hash in hashes(&archive) {
            let before = dump(index.engine());
            let error = writer.apply(&genesis).unwrap_err();
            assert!(
                matches!(error, ApplyError::WrongGenesis { expected, found, .. }
                    if expected == REGTEST.genesis_hash() && found == other.genesis_hash()),
                "{error}"
            );
            assert_same(&before, &dump(index.engine()), &[], "another network");
            writer.apply(&block(&archive, &hash)).unwrap();
        }
    }
}

#[test]
fn applying_a_block_again_changes_nothing_however_old_it_is() {
    let archive = simulate(1, 6);
    for mode in [Mode::Tip, Mode::CatchUp] {
        let (index, mut writer) = applied(&archive, mode);
        let again = |writer: &mut ChainWriter<MemoryEngine>| {
            for (height, hash) in (0u32..).zip(hashes(&archive)) {
                let known = writer.apply(&block(&archive, &hash)).unwrap();
                assert_eq!(known, Applied::AlreadyKnown(Height::new(height)));
            }
        };
        again(&mut writer);
        writer.flush().unwrap();
        let before = dump(index.engine());
        again(&mut writer);
        writer.flush().unwrap();
        assert_same(&before, &dump(index.engine()), &[], "again");
    }
}

#[test]
fn rollbacks_that_make_no_sense_are_refused() {
    let index = InMemory::default().open(common::settings(2));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let error = writer.rollback(Height::GENESIS).unwrap_err();
    assert!(matches!(error, RollbackError::Empty), "{error}");
    let archive = simulate(1, 6);
    for hash in hashes(&archive) {
        writer.apply(&block(&archive, &hash)).unwrap();
    }
    let before = dump(index.engine());
    let error = writer.rollback(Height::new(7)).unwrap_err();
    assert!(matches!(error, RollbackError::AboveTip { .. }), "{error}");
    let error = writer.rollback(Height::new(3)).unwrap_err();
    assert_eq!(error.safe_height(), Some(Height::new(4)));
    assert!(error.to_string().contains("deepest height that can be reached is 4"), "{error}");
    assert_same(&before, &dump(index.engine()), &[], "refused");
    assert_eq!(writer.rollback(Height::new(6)).unwrap(), 0);
    assert_eq!(writer.rollback(Height::new(4)).unwrap(), 2);
}

fn open_dir(
    place: &OnDisk,
    settings: IndexSettings,
) -> Result<ChainIndex<RocksKv>, IndexOpenError> {
    ChainIndex::open_dir(place.0.path(), settings, common::rocks_options(), OpenMode::Existing)
}

/// A database on disk, closed again, and its rows.
fn closed(settings: &IndexSettings) -> (OnDisk, common::Dump) {
    let place = OnDisk::default();
    let index = place.open(settings.clone());
    let archive = simulate(1, 4);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in hashes(&archive) {
        writer.apply(&block(&archive, &hash)).unwrap();
    }
    drop(writer);
    let rows = dump(index.engine());
    (place, rows)
}

#[test]
fn a_database_of_another_network_or_with_other_switches_is_not_opened() {
    let settings = common::settings(10);
    let (place, rows) = closed(&settings);
    let identity = peek_identity(place.0.path()).unwrap();
    assert_eq!((identity.network, identity.enabled, identity.muhash), (REGTEST, true, false));

    let error = open_dir(&place, IndexSettings::new(Network::BitcoinSignet)).unwrap_err();
    assert!(
        matches!(&error, IndexOpenError::WrongNetwork { found, .. } if found == "bitcoin/regtest")
    );
    assert!(error.to_string().contains("use another data directory"), "{error}");

    let switched = [
        ("[index] address_hash", settings.clone().with(|settings| settings.address_index = false)),
        ("[index] muhash", settings.clone().with(|settings| settings.muhash = true)),
    ];
    for (expected, switched) in switched {
        let error = open_dir(&place, switched).unwrap_err();
        assert!(
            matches!(&error, IndexOpenError::SettingChanged { name, found, asked }
                if *name == expected && found != asked),
            "{error}"
        );
        assert!(error.to_string().contains("import again into a new directory"), "{error}");
    }
    let index = open_dir(&place, settings).unwrap();
    assert_same(&rows, &dump(index.engine()), &[], "not opened");
}

#[test]
fn a_database_of_a_newer_format_is_not_opened() {
    let settings = common::settings(10);
    let (place, _) = closed(&settings);
    let newer = |format: u64| {
        let kv = RocksKv::open(place.0.path(), TABLES, common::rocks_options(), OpenMode::Existing)
            .unwrap();
        let mut batch = Batch::new();
        batch.put(META, b"format", &format.to_be_bytes());
        kv.commit(batch, Durability::Synced).unwrap();
    };
    newer(FORMAT_VERSION + 1);
    let error = open_dir(&place, settings.clone()).unwrap_err();
    assert!(
        matches!(error, IndexOpenError::NewerFormat { found, known }
            if found == FORMAT_VERSION + 1 && known == FORMAT_VERSION),
        "{error}"
    );
    assert!(error.to_string().contains("use a newer utxokeep"), "{error}");
    newer(FORMAT_VERSION);
    assert_eq!(open_dir(&place, settings).unwrap().status().unwrap().format_version, 1);
}

#[test]
fn an_index_that_is_only_read_is_neither_created_nor_written() {
    let settings = common::settings(10);
    let open = |place: &OnDisk, mode| {
        ChainIndex::open_dir(place.0.path(), settings.clone(), common::rocks_options(), mode)
    };
    // Tables without a single row, as of a creation that was cut short.
    let blank = OnDisk::default();
    let kv = RocksKv::open(blank.0.path(), TABLES, common::rocks_options(), OpenMode::Create);
    drop(kv.unwrap());
    for mode in [OpenMode::Read, OpenMode::Existing] {
        let error = open(&blank, mode).unwrap_err();
        let is_missing =
            matches!(&error, IndexOpenError::Store(IndexError::Kv(KvError::NotFound { .. })));
        assert!(is_missing, "{error}");
    }
    assert!(RocksKv::is_blank(blank.0.path()).unwrap());

    let (place, rows) = closed(&settings);
    let index = open(&place, OpenMode::Read).unwrap();
    assert_same(&rows, &dump(index.engine()), &[], "read");
    let mut writer = ChainWriter::new(index).unwrap();
    let error = writer.rollback(Height::new(1)).unwrap_err();
    assert!(error.to_string().contains("open for reading only"), "{error}");
}

#[test]
fn an_absent_or_open_database_is_named() {
    let place = OnDisk::default();
    let error = open_dir(&place, common::settings(10)).unwrap_err();
    assert!(
        matches!(&error, IndexOpenError::Store(IndexError::Kv(KvError::NotFound { .. }))),
        "{error}"
    );
    let _open = place.open(common::settings(10));
    let error = open_dir(&place, common::settings(10)).unwrap_err();
    assert!(
        matches!(&error, IndexOpenError::Store(IndexError::Kv(KvError::InUse { .. }))),
        "{error}"
    );
}

#[test]
fn an_index_has_one_writer() {
    let index = InMemory::default().open(common::settings(10));
    let writer = ChainWriter::new(index.clone()).unwrap();
    let error = ChainWriter::new(index.clone()).unwrap_err();
    assert!(matches!(error, IndexError::SecondWriter), "{error}");
    drop(writer);
    ChainWriter::new(index).unwrap();
}

const ONE: Paging =
    Paging { after: None, skip: 0, limit: 1, reverse: false, scan_rows_max: u64::MAX };

#[test]
fn with_the_index_off_only_the_log_is_kept_and_questions_say_so() {
    let mut archive = simulate(2, 30);
    let chain = hashes(&archive);
    let config = SimulatorConfig { seed: 3, reorg_percent: 0, ..SimulatorConfig::default() };
    let branch = common::simulate_branch(&mut archive, config, &chain[..=28], 4);
    let files = TempDir::new().unwrap();
    let path = files.path().join("blk00000.dat");
    let raws = archive.headers().iter().map(|header| {
        use utxokeep_chains::BlockSource;
        archive.raw(&header.hash).unwrap()
    });
    write_block_file(&path, REGTEST, raws).unwrap();
    let paths = [path];
    let off = common::settings(10).with(|settings| settings.enabled = false);
    for bulk in [false, true] {
        let place = OnDisk::default();
        let index = place.open(off.clone());
        let files =
            BlockFiles::open(&paths, REGTEST, files.path(), ScanOptions::default()).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let (mut writer, _) = import_files(writer, &files, bulk, &mut |_| true).unwrap();
        assert_eq!(writer.tip().unwrap().hash, *branch.last().unwrap());
        assert_eq!(writer.rollback(Height::new(30)).unwrap(), 2);
        drop(writer);

        let status = index.status().unwrap();
        assert_eq!((status.totals, status.rollback_floor), (None, None));
        assert_eq!(status.tip.unwrap().hash, branch[1]);
        assert_eq!(status.tables.len(), LOG_TABLES);
        let view = index.view().unwrap();
        assert_eq!(view.height_of(&branch[0]).unwrap(), Some(Height::new(29)));
        let key = IndexKey::address(REGTEST, &[]);
        let outpoint = OutPoint::new(Txid::default(), 0);
        let answers = [
            view.utxo(outpoint).err(),
            view.owner_utxos(key, ONE, None).err(),
            view.owner_balance(key, u64::MAX).err(),
            view.digest(false).err(),
            index.view().unwrap().at(Height::new(30)).err(),
        ];
        for error in answers.map(Option::unwrap) {
            assert!(matches!(error, QueryError::Disabled), "{error}");
            assert!(error.to_string().contains("[index] enabled = false"), "{error}");
        }
        assert_clean(&index, "log only");
        drop(view);
        drop(index);

        let mut names = RocksKv::tables_on_disk(place.0.path()).unwrap();
        names.retain(|name| name != "default");
        let log: Vec<_> = TABLES[..LOG_TABLES].iter().map(|spec| spec.name).collect();
        assert_eq!(names, log);
        assert!(!peek_identity(place.0.path()).unwrap().enabled);
    }
}

/// So many blocks that even the log alone is written past the write path.
#[test]
fn with_the_index_off_a_long_log_is_loaded_in_bulk() {
    let place = OnDisk::default();
    let off = common::settings(10).with(|settings| settings.enabled = false);
    let index = place.open(off);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.apply(&decode_block(genesis_block(REGTEST), REGTEST).unwrap()).unwrap();
    writer.set_mode(Mode::Bulk).unwrap();
    let mut parent = regtest_genesis();
    for height in 1..=10_100 {
        let mined = mine(&parent, height, 0, &[(0, NOBODY)], &[]);
        writer.apply(&decode_block(mined.raw, REGTEST).unwrap()).unwrap();
        parent = mined.header;
    }
    writer.set_mode(Mode::Tip).unwrap();
    assert_eq!(index.view().unwrap().point().unwrap().hash, parent.hash);
    assert_clean(&index, "a long log");
}

#[test]
fn without_the_address_index_everything_else_works() {
    let archive = simulate(4, 112);
    let settings = common::settings(10).with(|settings| settings.address_index = false);
    let index = InMemory::default().open(settings);
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for hash in hashes(&archive) {
        writer.apply(&block(&archive, &hash)).unwrap();
    }
    writer.rollback(Height::new(108)).unwrap();
    common::prune_fully(&mut writer);
    let view = index.view().unwrap();
    let error = view.owner_balance(IndexKey::address(REGTEST, &[]), u64::MAX).unwrap_err();
    assert!(matches!(error, QueryError::IndexOff { name: "address_hash" }), "{error}");
    assert!(view.owner_utxos(IndexKey::address(REGTEST, &[]), ONE, None).is_err());
    let rows = dump(index.engine());
    for table in [ADDR, ADDR_SPENT] {
        assert!(rows.0[usize::from(table.0)].is_empty());
    }
    let model = common::model_of(&archive, &hashes(&archive)[..=108]);
    let expected = utxokeep_testkit::digest_of(model.live());
    assert_eq!(view.digest(false).unwrap().muhash, Some(expected.muhash().unwrap().digest()));
    assert_clean(&index, "without addresses");
}

#[test]
fn a_better_branch_from_below_the_floor_is_refused_and_names_the_fork() {
    let mut archive = simulate(5, 40);
    let chain = hashes(&archive);
    let config = SimulatorConfig { seed: 6, reorg_percent: 0, ..SimulatorConfig::default() };
    common::simulate_branch(&mut archive, config, &chain[..=25], 16);
    for reopened in [false, true] {
        let place = InMemory::default();
        let index = place.open(common::settings(10));
        let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        for header in &archive.headers()[..=40] {
            follower.accept(header, &archive).unwrap();
        }
        if reopened {
            let (writer, _) = follower.into_writer().unwrap();
            follower = Follower::new(writer).unwrap();
        }
        let before = dump(index.engine());
        let branch = &archive.headers()[41..];
        for header in &branch[..15] {
            follower.accept(header, &archive).unwrap();
        }
        let error = follower.accept(&branch[15], &archive).unwrap_err();
        assert!(
            matches!(error, FollowError::ReorganisationTooDeep { fork, safe, .. }
                if fork == Height::new(25) && safe == Height::new(30)),
            "{error}"
        );
        assert!(error.to_string().contains("larger [index] rollback_window_blocks"), "{error}");
        assert_same(&before, &dump(index.engine()), &[SIDE, SIDE_BODY], "too deep");
    }
}
