//! An engine as a program embeds it: all parts, some, none; started, asked, stopped, dropped.

use std::path::Path;

use utxokeep_chains::{BlockDecoder, write_block_file};
use utxokeep_core::{
    Network, Txid,
    node::{CreateOptions, MinedBlock, NodeOutput, NodeTx},
};
use utxokeep_testkit::{ANYONE, mine};
use utxokeep_txstore::{Fields, TxStore as _};

use super::*;
use crate::ops::chain::{Address, OwnerUtxos, UtxosRequest};

/// An address of the chain in the test kit.
const OWNER: &str = "bcrt1pfeesnyr2tx";

fn config(dir: &Path) -> Config {
    let mut config = Config::default();
    config.chain.network = "regtest".to_owned();
    config.storage.data = dir.join("chain");
    config.wallet.url = format!("sqlite:{}", dir.join("ledger").display());
    config.txstore.url = format!("rocksdb:{}", dir.join("store").display());
    config.txstore.blobs = format!("file:{}", dir.join("blobs").display());
    config.pruner.follow_chain = true;
    config
}

fn names(engine: &Engine) -> Vec<&'static str> {
    engine.health().iter().map(|health| health.part).collect()
}

#[test]
fn an_engine_of_all_parts_answers_follows_and_can_be_started_again() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let mut config = config(dir.path());
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data");
    let files = kit.join("regtest-a/blocks.dat.xz");
    config.wallet.blocks = files.to_str().unwrap().to_owned();
    let mut engine = Engine::open(&config).unwrap();
    assert_eq!(names(&engine), ["chain_index", "wallet_ledger", "node_store"]);
    engine.import(&[files]).unwrap();
    let answer = engine.ask::<OwnerUtxos<Address>>(UtxosRequest::of(OWNER)).unwrap();
    assert!(!answer.items.is_empty());
    for _ in 0..2 {
        engine.start().unwrap();
        assert!(engine.ledger_follows() && engine.pruning().is_some());
        let running =
            ["chain_index", "wallet_ledger", "wallet_follower", "node_store", "pruner_follower"];
        assert_eq!(names(&engine), running);
        assert!(engine.health().iter().all(|health| health.fault.is_none()), "{engine:?}");
        let network = engine.index().unwrap().settings().network();
        let (tip, _) = engine.index().unwrap().view().unwrap().tip().unwrap();
        let ledger = engine.wallets().unwrap().ledger().clone();
        while ledger.tip(network).unwrap().map(|(height, _)| height) != Some(tip) {
            std::thread::sleep(Duration::from_millis(10));
        }
        engine.stop().unwrap();
        assert!(!engine.ledger_follows() && engine.pruning().is_none());
    }
}

#[test]
fn parts_that_are_not_named_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let engine = Engine::open_parts(&config, Parts::NONE).unwrap();
    assert!(engine.health().is_empty() && engine.watched().is_empty());
    assert!(matches!(engine.import(&[]), Err(EngineError::Absent { part: "chain index" })));
    drop(engine);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let existing = Parts::NONE.with(|parts| parts.chain = Presence::Existing);
    let error = Engine::open_parts(&config, existing).unwrap_err();
    assert!(matches!(error, EngineError::NoChain(_)), "{error:?}");
}

#[test]
fn an_engine_whose_pruner_has_no_chain_to_follow_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let mut config = config(dir.path());
    config.chain.network.clear();
    let mut engine = Engine::open(&config).unwrap();
    let error = engine.start().unwrap_err();
    assert!(matches!(error, EngineError::NothingToFollow), "{error:?}");
    assert!(engine.pruning().is_none() && !engine.ledger_follows());
}

#[test]
fn a_persister_beside_a_pruner_that_does_not_follow_the_chain_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let mut config = config(dir.path());
    config.wallet.url.clear();
    config.persister.enabled = true;
    config.persister.url = format!("file:{}", dir.path().join("files").display());
    config.pruner.follow_chain = false;
    let error = Engine::open(&config).unwrap_err();
    let refused = EngineError::Config(ConfigError::PrunerPassesPersister).to_string();
    assert_eq!(error.to_string(), refused);
    assert_eq!(error.kind(), utxokeep_core::ErrorKind::Invalid);
    assert!(!dir.path().join("chain").exists(), "nothing was made");
    config.pruner.enabled = false;
    assert!(Engine::open(&config).is_ok(), "the pruner runs elsewhere");
    (config.pruner.enabled, config.pruner.follow_chain) = (true, true);
    assert!(Engine::open(&config).is_ok());
}

#[test]
fn files_are_kept_for_as_long_as_a_rollback_may_undo_their_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    (config.wallet.url, config.txstore.url) = (String::new(), String::new());
    config.persister.enabled = true;
    config.persister.url = format!("file:{}", dir.path().join("files").display());
    let default = utxokeep_index::IndexSettings::new(Network::BitcoinRegtest);
    let window = default.window.rollback_window;
    assert!(window > 1);
    // Without a setting, and with the one that means the same, the window is that of the network.
    for stated in [None, Some(0), Some(20)] {
        config.index.rollback_window_blocks = stated;
        let enough = stated.filter(|blocks| *blocks > 0).unwrap_or(window);
        for (retention, is_enough) in
            [(0, true), (1, false), (enough - 1, false), (enough, true), (enough + 1, true)]
        {
            config.persister.retention_blocks = retention;
            let opened = Engine::open(&config);
            assert_eq!(opened.is_ok(), is_enough, "{stated:?} {retention}: {opened:?}");
            let Err(error) = opened else { continue };
            let text = error.to_string();
            assert!(text.contains(&format!("retention_blocks = {retention} is less")), "{text}");
            assert!(text.contains(&format!("set it to {enough} or more")), "{text}");
        }
    }
}

/// Blocks that a record is kept for in the test below.
const RETENTION: u32 = 10;

/// Stores a record that is due at each of these heights: it has no coin.
fn fill(store: &NodeStore, due: &[u32]) -> Vec<Txid> {
    let stored = due.iter().zip(1_u8..).map(|(due, number)| {
        let height = Height::new(due - RETENTION);
        let block = MinedBlock { id: height.get(), height, subtree: 0 };
        let mined = CreateOptions { mined: vec![block], ..CreateOptions::default() };
        let txid = Txid::from_bytes([number; 32]);
        let outputs = vec![NodeOutput { satoshis: 0, script: vec![0x6a] }];
        let (inputs, is_coinbase) = (Vec::new(), false);
        let tx = NodeTx { txid, version: 1, lock_time: 0, is_coinbase, inputs, outputs };
        store.create(&[(tx, mined)], height).unwrap().remove(0).unwrap();
        txid
    });
    stored.collect()
}

fn are_there(store: &NodeStore, txids: &[Txid]) -> Vec<bool> {
    store.get(txids, Fields::default()).unwrap().iter().map(Option::is_some).collect()
}

/// The blocks of a chain up to a height, as they are on chain.
fn raw_chain(tip: u32) -> Vec<Vec<u8>> {
    let decoder = BlockDecoder::new(Network::BitcoinRegtest);
    let mut raws = vec![decoder.first_block().unwrap()];
    let mut parent = decoder.decode(raws[0].clone()).unwrap().header;
    for height in 1..=tip {
        let mined = mine(&parent, height, 0, &[(50, ANYONE)], &[]);
        parent = decoder.decode(mined.raw.clone()).unwrap().header;
        raws.push(mined.raw);
    }
    raws
}

/// The chain is at 100, and the persister of the same engine at 95, because its place fails.
#[test]
fn in_one_engine_nothing_goes_above_what_the_persister_has_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let raws = raw_chain(100);
    let (low, all) = (path("low.dat"), path("all.dat"));
    write_block_file(&low, Network::BitcoinRegtest, &raws[..96]).unwrap();
    write_block_file(&all, Network::BitcoinRegtest, &raws).unwrap();
    let mut config = config(dir.path());
    (config.wallet.url, config.txstore.blobs) = (String::new(), String::new());
    config.persister.enabled = true;
    config.persister.url = format!("file:{}", path("files").display());
    config.persister.blocks = all.to_str().unwrap().to_owned();
    (config.persister.retry_max, config.persister.stalled_secs) = (0, 1);
    (config.txstore.retention_blocks, config.txstore.unmined_retention_blocks) = (RETENTION, 2);
    config.txstore.height_jump_blocks_max = 2.try_into().unwrap();
    (config.pruner.unmined_retention_blocks, config.pruner.safety_window_blocks) = (2, 3);
    config.pruner.parent_preservation_blocks = 4;

    let mut engine = Engine::open(&config).unwrap();
    engine.import(std::slice::from_ref(&low)).unwrap();
    engine.start().unwrap();
    let index = engine.index().unwrap().clone();
    let reached = || index.reached(crate::persister::NAME).unwrap().unwrap().get();
    until("95 is persisted", || reached() == 95);
    engine.stop().unwrap();
    let (folder, aside) = (path("files/0000000"), path("files/aside"));
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, b"in the way").unwrap();
    engine.import(&[all]).unwrap();
    assert_eq!(index.view().unwrap().tip().unwrap().0, Height::new(100));

    let store = engine.node_store().unwrap().clone();
    let due = fill(&store, &[95, 96, 100]);
    engine.start().unwrap();
    let pruning = engine.pruning().unwrap().clone();
    let heights = || pruning.pruner().status().unwrap().heights;
    until("a run at 95", || heights().completed() == Some(Height::new(95)));
    let fault = |engine: &Engine| {
        let health = engine.health().into_iter().find(|health| health.part == "persister");
        health.unwrap().fault
    };
    until("health names the place", || fault(&engine).is_some());
    assert!(fault(&engine).unwrap().contains("files"), "{:?}", fault(&engine));
    // However long it fails, and whoever asks.
    assert_eq!((heights().newest(), reached()), (Some(Height::new(100)), 95));
    assert_eq!(heights().persisted(), Some(Height::new(95)));
    assert!(pruning.pruner().trigger(Some(Height::new(96))).is_err());
    assert_eq!(are_there(&store, &due), [false, true, true]);

    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    until("a run at 100", || heights().completed() == Some(Height::new(100)));
    assert_eq!(reached(), 100);
    assert_eq!(are_there(&store, &due), [false, false, false]);
    assert_eq!(fault(&engine), None);
    engine.stop().unwrap();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} does not come");
}

/// Stores of large bodies have a runtime of their own, which must not be waited for there.
#[tokio::test]
async fn an_engine_may_be_dropped_on_a_thread_of_the_callers_runtime() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let config = config(dir.path());
    let open = || {
        let mut engine = Engine::open(&config)?;
        engine.start()?;
        Ok::<_, EngineError>(engine)
    };
    let engine = std::thread::scope(|scope| scope.spawn(open).join().unwrap()).unwrap();
    let store = engine.node_store().unwrap().clone();
    drop(engine);
    drop(store);
}

#[test]
fn a_node_store_follows_the_chain_of_its_engine_from_files_and_again_after_a_restart() {
    use utxokeep_index::tables::UNSPENT;
    use utxokeep_kv::Scan;
    use utxokeep_txstore::{Fields, TxStore as _};

    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let mut config = config(dir.path());
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data");
    let files = kit.join("regtest-a/blocks.dat.xz");
    config.txstore.follow = StoreFollow::All;
    config.txstore.follow_blocks = files.to_str().unwrap().to_owned();
    let mut engine = Engine::open(&config).unwrap();
    engine.import(&[files]).unwrap();
    for _ in 0..2 {
        engine.start().unwrap();
        assert!(engine.store_following().is_some());
        let index = engine.index().unwrap().clone();
        let (tip, _) = index.view().unwrap().tip().unwrap();
        while index.reached(crate::store_follow::NAME).unwrap() != Some(tip) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let health = engine.health();
        let own = health.iter().find(|health| health.part == "node_store_follower");
        assert_eq!(own.unwrap().fault, None, "{health:?}");
        engine.stop().unwrap();
        assert!(engine.store_following().is_none());
        let mut live = Vec::new();
        UNSPENT
            .scan(index.engine(), &Scan::ALL, |key, _| {
                live.push(*key.read().unwrap().txid());
                true
            })
            .unwrap();
        let found = engine.node_store().unwrap().get(&live, Fields::default()).unwrap();
        assert!(!live.is_empty());
        assert!(found.iter().all(|tx| tx.as_ref().is_some_and(|tx| tx.record.is_mined())));
    }
}

#[test]
fn a_node_store_that_cannot_follow_a_chain_is_refused_before_anything_starts() {
    let refused = |change: &dyn Fn(&mut Config), why: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        let mut config = config(dir.path());
        config.txstore.follow = StoreFollow::All;
        change(&mut config);
        let error = Engine::open(&config).unwrap_err();
        assert!(matches!(error, EngineError::StoreCannotFollow { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(&|config| config.chain.network.clear(), "there is no chain database");
    refused(&|config| config.txstore.retention_blocks = 287, "below the rollback window");
    refused(&|config| config.index.enabled = false, "[index] enabled = false");
    let cardano = |config: &mut Config| {
        (config.chain.chain, config.chain.network) = ("cardano".to_owned(), "preview".to_owned());
    };
    refused(&cardano, "is of Cardano");
}
