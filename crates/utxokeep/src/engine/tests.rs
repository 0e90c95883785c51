//! An engine as a program embeds it: all parts, some, none; started, asked, stopped, dropped.

use std::path::Path;

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
