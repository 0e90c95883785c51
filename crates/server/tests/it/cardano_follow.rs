//! Following a live node: through forks, lost connections and restarts, as a library and as the
//! program.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;
use utxokeep::{
    config::{FollowConfig, Source},
    follow::{FollowOptions, follow, node_source},
};
use utxokeep_chains::{BlockDecoder, cardano::Genesis};
use utxokeep_core::{BlockHash, Height, Network};
use utxokeep_index::{
    ChainIndex, ChainWriter, Digest, IndexSettings, LiveFollower, Readers,
    tables::{TABLES, ids::META},
};
use utxokeep_kv::{Batch, Kv, KvError, MemoryKv};
use utxokeep_testkit::{
    Hook, HookedKv,
    cardano::{
        BlockSpec, Built, Credential, Era, OutSpec, TxSpec, enterprise, fund_of, shelley_genesis,
    },
    cardano_node::FakeNode,
};

use crate::program::{Serving, until, utxokeep};

const DEVNET: Network = Network::CardanoDevnet;
const MAGIC: u32 = 42;

pub(crate) fn owner(name: u8) -> Vec<u8> {
    enterprise(0, Credential::Key([name; 28]))
}

fn genesis_file() -> String {
    shelley_genesis(30, &[(&owner(0), 1_000_000)])
}

fn settings() -> IndexSettings {
    let genesis = Genesis::from_files(None, genesis_file().as_bytes()).unwrap();
    IndexSettings::with_decoder(BlockDecoder::with_genesis(DEVNET, genesis))
}

/// The owner of 1 lovelace in every block of [`extend`] but the first.
pub(crate) const WATCHED: u8 = 7;

/// Blocks on top of a chain. Each spends the first output of the one before and pays 1 to the
/// watched owner. `branch` makes them differ from others in the same place.
pub(crate) fn extend(chain: &[Built], blocks: usize, branch: u8) -> Vec<Built> {
    let mut chain = chain.to_vec();
    if chain.is_empty() {
        chain.push(BlockSpec::first(Era::Conway, Vec::new()).build());
    }
    while chain.len() < blocks {
        let tip = chain.last().unwrap();
        let coin = if tip.txids.is_empty() { fund_of(&owner(0)) } else { tip.output(0, 0) };
        let name = branch.wrapping_add(u8::try_from(tip.number % 100).unwrap());
        let outputs = [OutSpec::new(&owner(name), 900), OutSpec::new(&owner(WATCHED), 1)];
        let next = tip.next(Era::Conway, vec![TxSpec::new(&[coin], &outputs)]).build();
        chain.push(next);
    }
    chain
}

pub(crate) fn raws(chain: &[Built]) -> Vec<Vec<u8>> {
    chain.iter().map(|built| built.raw.clone()).collect()
}

/// The digest of a database that never saw another branch.
fn expected(chain: &[Built]) -> Digest {
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings()).unwrap();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for built in chain {
        let block = index.settings().decoder.decode(built.raw.clone()).unwrap();
        writer.apply(&block).unwrap();
    }
    index.view().unwrap().digest(true).unwrap()
}

/// Remembers the height of every tip that was ever committed.
#[derive(Debug, Default)]
struct Tips(Mutex<Vec<Height>>);

impl Hook for Tips {
    fn commit(&self, batch: &Batch) -> Result<(), KvError> {
        let mut tips = self.0.lock().unwrap();
        let rows = batch.rows().filter(|row| row.table == META && row.key == b"tip");
        tips.extend(rows.map(|row| Height::from_key(&row.value.unwrap()[..4]).unwrap()));
        Ok(())
    }
}

fn options(source: &Source) -> FollowOptions {
    let config = FollowConfig::default();
    let node = node_source(source, &config, &settings().decoder).unwrap();
    let mut options = FollowOptions::new(node.live(), &config);
    options.reconnect_first = Duration::from_millis(20);
    options
}

fn wait_for<K: Kv>(index: &ChainIndex<K>, chain: &[Built]) {
    let tip = BlockHash::from_bytes(chain.last().unwrap().hash);
    let found = || index.view().unwrap().tip().map(|(_, entry)| entry.hash);
    until(&format!("the tip is {tip:?}"), || found() == Some(tip));
    assert_eq!(index.view().unwrap().digest(true).unwrap(), expected(chain));
}

#[test]
fn forks_and_lost_connections_end_with_the_nodes_chain() {
    for readers in [Readers::Present, Readers::Absent] {
        for over_socket in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut chain = extend(&[], 40, 1);
            let node = FakeNode::start(u64::from(MAGIC), dir.path(), &raws(&chain));
            let source = if over_socket {
                Source::CardanoNodeSocket(node.socket_path().to_owned())
            } else {
                Source::CardanoNodeAddress(node.tcp_address())
            };
            let engine = HookedKv::new(MemoryKv::new(TABLES), Tips::default());
            let index = ChainIndex::open(engine.clone(), settings()).unwrap();
            let is_stopped = AtomicBool::new(false);
            thread::scope(|scope| {
                let following = scope.spawn(|| {
                    let writer = ChainWriter::new(index.clone()).unwrap();
                    let mut live = LiveFollower::new(writer, readers);
                    let stop = || is_stopped.load(Ordering::Relaxed);
                    follow(&mut live, &options(&source), &stop, &mut |_| {}).unwrap();
                    live.into_writer().unwrap().1
                });
                wait_for(&index, &chain);
                for (round, depth) in [(2, 1), (3, 7), (4, 19), (5, 2)] {
                    let keep = chain.len() - depth;
                    chain = extend(&chain[..keep], keep + depth + 3, round * 20);
                    if round % 2 == 0 {
                        node.drop_connections();
                    }
                    node.switch_fork(keep, &raws(&chain[keep..]));
                    wait_for(&index, &chain);
                }
                is_stopped.store(true, Ordering::Relaxed);
                let report = following.join().unwrap();
                assert!(report.reorganisations >= 4, "{report:?}");
                assert_eq!(report.deepest_reorganisation, 19);
            });
            assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
            let tips = engine.hook.0.lock().unwrap();
            assert!(tips.is_sorted(), "nobody sees the chain shrink: {tips:?}");
        }
    }
}

#[test]
fn a_fork_deeper_than_the_window_is_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let chain = extend(&[], 100, 1);
    let node = FakeNode::start(u64::from(MAGIC), dir.path(), &raws(&chain));
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings()).unwrap();
    let mut options = options(&Source::CardanoNodeAddress(node.tcp_address()));
    options.until_tip = true;
    let writer = ChainWriter::new(index.clone()).unwrap();
    let mut live = LiveFollower::new(writer, Readers::Absent);
    follow(&mut live, &options, &|| false, &mut |_| {}).unwrap();
    wait_for(&index, &chain);

    let other = extend(&chain[..20], 101, 50);
    node.switch_fork(20, &raws(&other[20..]));
    let error = follow(&mut live, &options, &|| false, &mut |_| {}).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("the node cannot be followed"), "{text}");
    wait_for(&index, &chain);
}

/// Starts `serve` with a configuration.
fn serve(config: &Path, data: &Path) -> Serving {
    let mut command = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(config).arg("--data").arg(data);
    Serving::start(command)
}

fn get(program: &Serving, path: &str) -> Value {
    serde_json::from_str(&program.body(path)).unwrap()
}

/// Asks until the answer is the one that is waited for.
fn wait_until(program: &Serving, path: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let mut answer = Value::Null;
    until(path, || {
        answer = get(program, path);
        is_there(&answer)
    });
    answer
}

fn wait_for_tip(program: &Serving, tip: &Built) {
    let tip = utxokeep_core::hex_encode(&tip.hash);
    wait_until(program, "/api/v1/status", |status| status["best_hash"] == tip.as_str());
}

/// `serve` with a source answers at the node's tip, also after forks and after being killed.
#[test]
fn serve_follows_the_node_of_the_configuration_and_survives_being_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = extend(&[], 30, 1);
    let node = FakeNode::start(u64::from(MAGIC), dir.path(), &raws(&chain));
    std::fs::write(dir.path().join("shelley.json"), genesis_file()).unwrap();
    let config = dir.path().join("utxokeep.toml");
    let text = format!(
        "[chain]\nchain = \"cardano\"\nnetwork = \"devnet\"\ngenesis_shelley = \"{}\"\n\
         source = {{ kind = \"cardano-node\", address = {:?} }}\n\
         [follow]\nreconnect_first_ms = 50\n",
        dir.path().join("shelley.json").display(),
        node.tcp_address()
    );
    std::fs::write(&config, text).unwrap();
    let data = dir.path().join("data");
    for round in 1..4u8 {
        let program = serve(&config, &data);
        wait_for_tip(&program, chain.last().unwrap());
        let keep = chain.len() - usize::from(round) * 4;
        chain = extend(&chain[..keep], chain.len() + 2, round * 30);
        node.switch_fork(keep, &raws(&chain[keep..]));
        wait_for_tip(&program, chain.last().unwrap());
        // SIGKILL: what was applied is on disk.
        program.kill();
    }
    let follow = utxokeep(&["chain", "follow", "--until-tip", "--json", "--config"])
        .arg(&config)
        .arg("--data")
        .arg(&data)
        .output()
        .unwrap();
    assert!(follow.status.success(), "{follow:?}");
    let report: Value = serde_json::from_slice(&follow.stdout).unwrap();
    assert_eq!(report["best_hash"], utxokeep_core::hex_encode(&chain.last().unwrap().hash));
    assert_eq!(report["network"], "cardano/devnet");
    let digest = utxokeep(&["chain", "digest", "--json", "--data"]).arg(&data).output().unwrap();
    let digest: Value = serde_json::from_slice(&digest.stdout).unwrap();
    let hash = expected(&chain).ordered_hash.unwrap();
    assert_eq!(digest["digest"], utxokeep_core::hex_encode(&hash));
}

fn config_of(dir: &Path, node: &str, follow: &str) -> std::path::PathBuf {
    std::fs::write(dir.join("shelley.json"), genesis_file()).unwrap();
    let config = dir.join("utxokeep.toml");
    let text = format!(
        "[chain]\nchain = \"cardano\"\nnetwork = \"devnet\"\ngenesis_shelley = \"{}\"\n\
         source = {{ kind = \"cardano-node\", address = {node:?} }}\n\
         [follow]\nreconnect_first_ms = 20\n{follow}\n",
        dir.join("shelley.json").display(),
    );
    std::fs::write(&config, text).unwrap();
    config
}

/// The part of a health answer about one dependency.
fn dependency(health: &Value, name: &str) -> Value {
    let all = health["dependencies"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{health}")).clone()
}

#[test]
fn a_source_that_is_cut_off_is_not_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let chain = extend(&[], 30, 1);
    let node = FakeNode::start(u64::from(MAGIC), dir.path(), &raws(&chain));
    let address = node.tcp_address();
    let data = dir.path().join("data");
    let program = serve(&config_of(dir.path(), &address, "stalled_secs = 3600"), &data);
    wait_for_tip(&program, chain.last().unwrap());
    let at_tip = |status: &Value| status["source"]["lag_blocks"] == 0;
    let status = wait_until(&program, "/api/v1/status", at_tip);
    assert_eq!(status["source"]["address"], address);
    assert_eq!(status["source"]["is_connected"], true);
    assert_eq!(status["source"]["height"], 29);
    assert!(status["source"]["last_contact"].is_i64() && status["source"]["fault"].is_null());
    let health = get(&program, "/health");
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(dependency(&health, "chain_source")["status"], "ok");
    let metrics = program.body("/metrics");
    for line in [
        "utxokeep_source_connected 1",
        "utxokeep_source_height 29",
        "utxokeep_source_lag_blocks 0",
        "utxokeep_source_connections_lost_total 0",
        "utxokeep_index_height 29",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }

    drop(node);
    let is_lost = |status: &Value| status["source"]["is_connected"] == false;
    let status = wait_until(&program, "/api/v1/status", is_lost);
    assert!(status["source"]["fault"].is_string(), "{status}");
    assert_eq!(status["height"], 29, "stale, and readable");
    assert_eq!(get(&program, "/health")["status"], "ok", "for an hour nobody is called");
    drop(program);

    let program = serve(&config_of(dir.path(), &address, "stalled_secs = 0"), &data);
    let is_degraded = |health: &Value| health["status"] == "degraded";
    let health = wait_until(&program, "/health", is_degraded);
    let source = dependency(&health, "chain_source");
    assert_eq!(source["status"], "degraded");
    assert!(source["fault"].as_str().unwrap().contains(&address), "{source}");
    let status = get(&program, "/api/v1/status");
    assert_eq!((&status["source"]["is_connected"], &status["height"]), (&false.into(), &29.into()));
    assert!(status["source"]["last_contact"].is_null(), "{status}");
    assert!(program.body("/metrics").contains("utxokeep_source_connected 0"));
}
