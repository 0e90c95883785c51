//! The light stream of a chain, and a pruner that runs alone and follows it.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use utxokeep::{
    config::{PrunerConfig, TxStoreConfig},
    node_store,
    persister::{NAME, PersistedPlace, Persister, PersisterSettings},
    pruning::Pruning,
    sse::{self, SseLine, SseStream},
    stream::{ChainEvent, ChainMoved, StreamCursor, cursor_text},
};
use utxokeep_chains::{BlockDecoder, BodyFinder, Simulator, write_block_file};
use utxokeep_core::{BlockHash, Height, OpenMode, Txid, node::NodeTx};
use utxokeep_index::{ConsumerNeeds, Cursor};
use utxokeep_kv::RocksKv;
use utxokeep_txstore::{Fields, NodeStore, TxStore as _};

use super::{
    client::Face,
    served::{Dice, Limits, World},
};
use crate::{http::Reply, program::until, pruner::program::User};

const PATH: &str = "/api/v1/chain-events";

fn at(height: u32) -> Height {
    Height::new(height)
}

fn block(world: &World, height: u32) -> Option<Cursor> {
    let view = world.index().view().unwrap();
    Some(view.log().block(at(height)).unwrap()?.cursor())
}

/// Hashes of the chain, from the first block on.
fn hashes(world: &World) -> Vec<BlockHash> {
    let tip = world.index().view().unwrap().tip().unwrap().0.get();
    (0..=tip).map(|height| block(world, height).unwrap().block().unwrap().1).collect()
}

fn register(world: &World, name: &str, height: u32) {
    let cursor = block(world, height).unwrap();
    world.index().register_consumer(name, ConsumerNeeds::Blocks, cursor).unwrap();
}

struct Client {
    stream: SseStream,
}

impl Client {
    fn open(world: &World, query: &str) -> Self {
        let address = world.rest().to_string();
        let stream = sse::connect(&address).unwrap();
        let path = format!("{PATH}{query}");
        let wait = Duration::from_secs(30);
        Self { stream: SseStream::open(stream, &address, &path, None, wait).unwrap() }
    }

    fn next(&mut self) -> Option<ChainEvent> {
        loop {
            match self.stream.next_line(Some(Duration::from_secs(60))).unwrap() {
                SseLine::Text(line) => {
                    if let Some(data) = line.strip_prefix("data: ") {
                        return Some(serde_json::from_str(data).unwrap());
                    }
                }
                SseLine::Nothing => panic!("nothing comes"),
                SseLine::Ended => return None,
            }
        }
    }

    fn moved(&mut self) -> ChainMoved {
        match self.next() {
            Some(ChainEvent::Moved(moved)) => moved,
            other => panic!("{other:?}"),
        }
    }
}

/// What a follower knows that only hears chain events.
#[derive(Debug, Default)]
struct Known {
    cursor: Option<String>,
    newest: u32,
    lowest_fork: Option<u32>,
    last: Option<ChainMoved>,
}

impl Known {
    fn take(&mut self, moved: ChainMoved) {
        if let Some(fork) = moved.fork {
            self.newest = self.newest.min(fork);
            self.lowest_fork = Some(self.lowest_fork.map_or(fork, |lowest| lowest.min(fork)));
        }
        self.newest = moved.newest.unwrap_or(self.newest);
        self.cursor = Some(moved.cursor.clone());
        self.last = Some(moved);
    }
}

/// It is cut off again and again, also in the middle of a reorganisation, and hears of each.
#[test]
fn a_follower_that_is_cut_off_hears_of_every_reorganisation_and_of_the_persister() {
    let mut dice = Dice(77);
    let mut world = World::new(13, 30, Limits::default());
    (0..20).for_each(|_| world.mine());
    let mut known = Known::default();
    let (mut chain, mut reorganised) = (hashes(&world), 0);
    for round in 0..120 {
        for _ in 0..=dice.roll(6) {
            world.mine();
        }
        if round % 4 == 1 {
            // It lags, and sometimes stands on a branch that was left.
            let tip = world.index().view().unwrap().tip().unwrap().0.get();
            let lag = u32::try_from(dice.roll(8)).unwrap();
            register(&world, NAME, tip - lag);
        }
        let is_new = known.cursor.is_none();
        let query = known.cursor.as_ref().map(|cursor| format!("?from={cursor}"));
        let mut client = Client::open(&world, &query.unwrap_or_default());
        (known.lowest_fork, known.last) = (None, None);
        while known.last.is_none() || known.cursor.as_deref() != Some(world.tip().as_str()) {
            known.take(client.moved());
        }
        let now = hashes(&world);
        let shared = chain.iter().zip(&now).take_while(|(old, new)| old == new).count();
        if shared < chain.len() && !is_new {
            reorganised += 1;
            let fork = u32::try_from(shared).unwrap() - 1;
            assert!(known.lowest_fork.is_some_and(|told| told <= fork), "{known:?} {fork}");
        }
        assert_eq!(known.newest as usize, now.len() - 1, "{known:?}");
        let last = known.last.as_ref().unwrap();
        let reached = world.index().reached(NAME).unwrap().map(Height::get);
        assert_eq!(last.persisted, reached, "{last:?}");
        assert_eq!(last.slowest.as_ref().map(|slowest| slowest.height), reached);
        chain = now;
    }
    assert!(reorganised > 10, "{reorganised}");
}

/// Nobody mines: the move of a consumer alone is told.
#[test]
fn a_consumer_that_moves_is_told_without_a_block() {
    let mut world = World::new(3, 0, Limits::default());
    (0..=100).for_each(|_| world.mine());
    let mut client = Client::open(&world, "");
    let first = client.moved();
    assert_eq!((first.newest, first.persisted, first.slowest), (Some(100), None, None));
    register(&world, NAME, 95);
    let told = client.moved();
    assert_eq!((told.newest, told.fork, told.persisted), (None, None, Some(95)));
    assert_eq!(told.slowest.unwrap().name, "persister");
    register(&world, NAME, 96);
    assert_eq!(client.moved().persisted, Some(96));
    world.index().forget_consumer(NAME).unwrap();
    assert_eq!(client.moved().persisted, None);
}

#[test]
fn wrong_places_are_refused_connections_are_shared_and_a_server_that_stops_says_so() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let mut world = World::new(5, 0, limits);
    (0..10).for_each(|_| world.mine());
    let get = |query: &str| Reply::parse(&world.get(&format!("{PATH}{query}")));
    get("?from=nonsense").bad(400, "bad_cursor");
    get("?form=AQ").bad(400, "bad_parameter");
    get("?from_height=10").bad(400, "above_tip");
    get("?from=AQ&from_height=1").bad(400, "bad_parameter");
    let (height, hash) = (at(7), BlockHash::from_bytes([9; 32]));
    let elsewhere = cursor_text(&StreamCursor::behind(height, hash));
    let gone = get(&format!("?from={elsewhere}")).bad(410, "past_window");
    assert!(gone["start_from"].is_u64(), "{gone}");
    let inside = cursor_text(&StreamCursor::inside(height, hash, 1));
    get(&format!("?from={inside}")).bad(400, "bad_parameter");

    let mut first = Client::open(&world, "?from_height=4");
    assert_eq!(first.moved().newest, Some(9), "the tip");
    let mut changes = super::client::Client::new(Face::Rest, false, 0);
    changes.connect(&world);
    assert_eq!(Reply::parse(&world.get(PATH)).status, 503);
    world.ask_to_stop();
    let cut = loop {
        match first.next() {
            Some(ChainEvent::Cut(cut)) => break cut,
            Some(ChainEvent::Moved(_)) => {}
            None => panic!("it ends without a word"),
        }
    };
    assert_eq!((cut.reason.as_str(), cut.cursor), ("server_stops", world.tip()));
    drop((first, changes));
    world.ended();
}

fn config(events: &str) -> PrunerConfig {
    PrunerConfig { events: events.to_owned(), ..PrunerConfig::default() }
}

fn store() -> Arc<NodeStore> {
    node_store::open("memory:", &TxStoreConfig::default(), OpenMode::Create).unwrap()
}

fn heights(pruning: &Pruning) -> utxokeep_core::node::Heights {
    pruning.pruner().status().unwrap().heights
}

fn waits_for(pruning: &Pruning) -> Vec<String> {
    pruning.pruner().status().unwrap().waits_for.iter().map(ToString::to_string).collect()
}

fn url(world: &World) -> String {
    format!("http://{}", world.rest())
}

/// What the store knew before is not enough: a watermark may have gone back meanwhile.
#[test]
fn nothing_is_pruned_before_the_other_side_was_heard() {
    let store = store();
    let tell = |height: u32| {
        let state = utxokeep_txstore::BlockState { height: at(height), median_time: 1 };
        store.set_block_state(state).unwrap().unwrap();
    };
    tell(20);
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = dead.local_addr().unwrap();
    drop(dead);
    let pruning =
        Pruning::start_listening(store.clone(), &config(&format!("http://{address}"))).unwrap();
    until("the fault", || pruning.follower().fault(Duration::ZERO).is_some());
    let fault = pruning.follower().fault(Duration::ZERO).unwrap();
    assert!(fault.contains(&address.to_string()), "{fault}");
    tell(21);
    assert!(pruning.pruner().trigger(None).is_err());
    assert!(waits_for(&pruning).iter().any(|text| text.contains("chain-events")));
    assert_eq!(heights(&pruning).completed(), None);
    pruning.stop();
    drop(pruning);

    let mut world = World::new(4, 0, Limits::default());
    (0..=21).for_each(|_| world.mine());
    register(&world, NAME, 15);
    let pruning = Pruning::start_listening(store, &config(&url(&world))).unwrap();
    until("a run at 15", || heights(&pruning).completed() == Some(at(15)));
    assert!(pruning.pruner().trigger(Some(at(16))).is_err());
    until("no fault", || pruning.follower().fault(Duration::ZERO).is_none());
    pruning.stop();
}

#[test]
fn a_pruner_follows_through_reorganisations_and_restarts_of_either_side() {
    let mut world = World::new(21, 30, Limits::default());
    (0..20).for_each(|_| world.mine());
    let store = store();
    let mut pruning = Pruning::start_listening(store.clone(), &config(&url(&world))).unwrap();
    let mut dice = Dice(5);
    for round in 0..30 {
        (0..=dice.roll(5)).for_each(|_| world.mine());
        if round % 3 == 0 {
            let tip = world.index().view().unwrap().tip().unwrap().0.get();
            register(&world, NAME, tip - u32::try_from(dice.roll(6)).unwrap());
        }
        let is_away = round % 7 == 6;
        if round % 5 == 4 || is_away {
            pruning.stop();
            drop(pruning);
            if is_away {
                world = world.restarted();
            }
            (0..=dice.roll(3)).for_each(|_| world.mine());
            pruning = Pruning::start_listening(store.clone(), &config(&url(&world))).unwrap();
        }
        let tip = world.index().view().unwrap().tip().unwrap().0;
        let persisted = world.index().reached(NAME).unwrap();
        until("the chain is known", || {
            let known = heights(&pruning);
            (known.newest(), known.persisted(), known.completed())
                == (Some(tip), persisted, persisted)
        });
    }
    pruning.stop();
}

/// Another chain, or one that has forgotten: what was said above the floor is void.
#[test]
fn a_place_that_the_other_side_does_not_know_is_a_reorganisation_to_its_floor() {
    let store = store();
    let mut first = World::new(31, 0, Limits::default());
    (0..=60).for_each(|_| first.mine());
    let pruning = Pruning::start_listening(store.clone(), &config(&url(&first))).unwrap();
    until("a run at 60", || heights(&pruning).completed() == Some(at(60)));
    pruning.stop();
    drop(pruning);
    let mut other = World::new(32, 0, Limits { window: 10, ..Limits::default() });
    (0..=40).for_each(|_| other.mine());
    register(&other, NAME, 33);
    let pruning = Pruning::start_listening(store, &config(&url(&other))).unwrap();
    until("the other chain", || heights(&pruning).newest() == Some(at(40)));
    until("its persister", || heights(&pruning).persisted() == Some(at(33)));
    assert!(heights(&pruning).completed() <= Some(at(33)));
    pruning.stop();
}

/// A transaction without a coin, which goes some blocks after its own.
fn coinless(number: u8) -> NodeTx {
    let output = utxokeep_core::node::NodeOutput { satoshis: 0, script: vec![0x6a] };
    NodeTx {
        txid: Txid::from_bytes([number; 32]),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: Vec::new(),
        outputs: vec![output],
    }
}

/// Blocks that a record is kept for here.
const RETENTION: u32 = 10;

/// Stores a record that is due at each of these heights.
fn fill(store: &NodeStore, due: &[u32]) -> Vec<Txid> {
    let stored = due.iter().zip(1_u8..).map(|(due, number)| {
        let height = at(due - RETENTION);
        let block = utxokeep_core::node::MinedBlock { id: height.get(), height, subtree: 0 };
        let mined = utxokeep_core::node::CreateOptions { mined: vec![block], ..Default::default() };
        let tx = coinless(number);
        let txid = tx.txid;
        store.create(&[(tx, mined)], height).unwrap().remove(0).unwrap();
        txid
    });
    stored.collect()
}

fn are_there(store: &NodeStore, txids: &[Txid]) -> Vec<bool> {
    store.get(txids, Fields::default()).unwrap().iter().map(Option::is_some).collect()
}

/// The real persister over what a world has mined, one block at a time.
fn persister(world: &World, dir: &Path) -> Persister<RocksKv> {
    let raws: Vec<Vec<u8>> = world
        .archive()
        .headers()
        .iter()
        .map(|header| utxokeep_chains::BlockSource::raw(world.archive(), &header.hash).unwrap())
        .collect();
    let blocks = dir.join("blk00000.dat");
    write_block_file(&blocks, Simulator::NETWORK, &raws).unwrap();
    let bodies =
        BodyFinder::new(BlockDecoder::new(Simulator::NETWORK)).with_files(&[blocks], None, dir);
    let config = utxokeep::config::PersisterConfig {
        batch_blocks_max: 1.try_into().unwrap(),
        ..Default::default()
    };
    let settings = PersisterSettings::of(&config);
    let url = format!("file:{}", dir.join("files").display());
    let network = Simulator::NETWORK;
    let place =
        PersistedPlace::open(&url, network, 10_000, OpenMode::Create, settings.retry).unwrap();
    Persister::new(world.index().clone(), place, bodies, settings)
}

fn persist_to(world: &World, persister: &mut Persister<RocksKv>, height: u32) {
    persister.register().unwrap();
    while world.index().reached(NAME).unwrap() < Some(at(height)) {
        persister.step(&|| false).unwrap();
    }
    assert_eq!(world.index().reached(NAME).unwrap(), Some(at(height)));
}

/// The chain is at 100, the persister at 95: `pruner serve` in a process of its own, which has neither
/// the chain database nor a call over gRPC.
#[test]
fn a_pruner_that_runs_alone_goes_no_further_than_the_persister_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(8, 0, Limits::default());
    (0..=100).for_each(|_| world.mine());
    let mut persister = persister(&world, dir.path());
    persist_to(&world, &mut persister, 95);

    let user = User::new("sqlite", "");
    let text = format!(
        "[txstore]\nurl = {:?}\nfsync = false\nretention_blocks = {RETENTION}\n\
         unmined_retention_blocks = 2\nheight_jump_blocks_max = 2\n\
         [pruner]\nevents = {:?}\nunmined_retention_blocks = 2\nsafety_window_blocks = 3\n\
         parent_preservation_blocks = 4\n",
        user.url,
        url(&world)
    );
    std::fs::write(user.home.path().join("utxokeep.toml"), &text).unwrap();
    let config = utxokeep::config::Config::parse(&text, "test").unwrap().txstore;
    let open = || node_store::open(&user.url, &config, OpenMode::Create).unwrap();
    let due = fill(&open(), &[95, 96, 100]);

    let args = ["pruner", "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
    let program = crate::pruner::program::Program::start(user.command(&args));
    program.wait_for(95);
    assert_eq!(are_there(&open(), &due), [false, true, true]);
    let status = program.status();
    assert_eq!((status.newest_height, status.persisted_height), (Some(100), Some(95)));
    let health: Value = serde_json::from_str(&program.body("/health")).unwrap();
    assert_eq!(health["status"], "ok", "{health}");
    assert!(health.to_string().contains("pruner_follower"), "{health}");

    persist_to(&world, &mut persister, 96);
    program.wait_for(96);
    assert_eq!(are_there(&open(), &due), [false, false, true]);
    persist_to(&world, &mut persister, 100);
    program.wait_for(100);
    assert_eq!(are_there(&open(), &due), [false, false, false]);
    program.terminate();
}
