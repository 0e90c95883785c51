//! Following a fake node over the loopback interface and over a local socket.

mod blocks;

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use blocks::{chain_of, fork_of, hash_of, point_of};
use tempfile::TempDir;
use utxokeep_chains::{
    Backoff, LiveEvent, QueueLimits,
    cardano::{NodeAddress, NodeConnection, NodeError, NodeOptions, NodePoint},
};
use utxokeep_core::BlockHash;
use utxokeep_testkit::{cardano_node::FakeNode, testdata};

const MAGIC: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(20);

/// A fake node with its directory.
struct Stage {
    node: FakeNode,
    _dir: TempDir,
}

fn stage(blocks: &[Vec<u8>]) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    Stage { node: FakeNode::start(MAGIC, dir.path(), blocks), _dir: dir }
}

fn options(address: NodeAddress) -> NodeOptions {
    NodeOptions {
        address,
        network_magic: MAGIC,
        queue: QueueLimits { events_max: 8, bytes_max: 64 << 20 },
        fetch_range_blocks_max: 20,
        answer_timeout_ms: 10_000,
    }
}

impl Stage {
    fn tcp(&self) -> NodeOptions {
        options(NodeAddress::Tcp(self.node.tcp_address()))
    }

    fn socket(&self) -> NodeOptions {
        options(NodeAddress::Socket(self.node.socket_path().to_owned()))
    }

    fn both(&self) -> [NodeOptions; 2] {
        [self.tcp(), self.socket()]
    }
}

/// A consumer's copy of the chain, built from events alone.
#[derive(Default)]
struct Consumer {
    blocks: Vec<Vec<u8>>,
    rollbacks: Vec<Option<BlockHash>>,
}

impl Consumer {
    fn with(blocks: &[Vec<u8>]) -> Self {
        Self { blocks: blocks.to_vec(), rollbacks: Vec::new() }
    }

    fn take(&mut self, event: LiveEvent) {
        match event {
            LiveEvent::RolledBack(to) => {
                self.rollbacks.push(to);
                let keep = to.map_or(0, |hash| {
                    1 + self.blocks.iter().position(|raw| hash_of(raw) == hash).unwrap()
                });
                self.blocks.truncate(keep);
            }
            LiveEvent::Block(raw) => self.blocks.push(raw),
            LiveEvent::AtTip => {}
        }
    }

    /// Takes events up to the next time the tip is reached.
    fn follow_to_tip(&mut self, connection: &mut NodeConnection) {
        loop {
            match connection.next(PATIENCE).unwrap().expect("an event in time") {
                LiveEvent::AtTip => return,
                event => self.take(event),
            }
        }
    }

    /// Takes events until `count` blocks are there.
    fn follow_to_count(&mut self, connection: &mut NodeConnection, count: usize) {
        while self.blocks.len() < count {
            let event = connection.next(PATIENCE).unwrap().expect("an event in time");
            self.take(event);
        }
    }

    /// Takes events until the chain is as expected.
    fn follow_to_chain(&mut self, connection: &mut NodeConnection, expected: &[Vec<u8>]) {
        while self.blocks != expected {
            self.follow_to_tip(connection);
        }
    }

    /// Points to resume from, newest first.
    fn points(&self) -> Vec<NodePoint> {
        self.blocks.iter().rev().take(10).map(|raw| point_of(raw)).collect()
    }
}

fn open(options: NodeOptions, points: &[NodePoint]) -> NodeConnection {
    NodeConnection::open(options, points).unwrap()
}

fn joined(parts: &[&[Vec<u8>]]) -> Vec<Vec<u8>> {
    parts.concat()
}

#[test]
fn whole_chains_arrive_unchanged_over_both_protocols() {
    // The first epoch is Alonzo, the later chunk is Babbage.
    for chunks in [&[0, 1, 2][..], &[120]] {
        let blocks = chain_of(chunks);
        assert!(blocks.len() > 100);
        let stage = stage(&blocks);
        for options in stage.both() {
            let mut connection = open(options, &[]);
            let mut consumer = Consumer::default();
            consumer.follow_to_tip(&mut connection);
            assert!(consumer.blocks == blocks);
            assert_eq!(consumer.rollbacks, [None], "only the intersection");
            assert_eq!(connection.next(Duration::from_millis(50)).unwrap(), None);
        }
    }
}

#[test]
fn every_era_arrives_unchanged_over_both_protocols() {
    let Some(data) = testdata("cardano/blocks") else { return };
    let raw = |name: &str| fs::read(data.join(name)).unwrap();
    let text = |name: &str| {
        let text = fs::read_to_string(data.join(name)).unwrap();
        utxokeep_core::hex_decode(text.trim()).unwrap()
    };
    let mut chains = vec![vec![
        // An epoch boundary, more than half a megabyte long, and the block behind it.
        raw("daedalus-turbo/byron_block-0.cbor"),
        raw("daedalus-turbo/byron_block-1.cbor"),
    ]];
    for era in ["byron1", "shelley1", "allegra1", "mary1", "alonzo1", "babbage1", "conway1"] {
        chains.push(vec![text(&format!("pallas/{era}.block"))]);
    }
    for blocks in chains {
        let stage = stage(&blocks);
        for options in stage.both() {
            let mut connection = open(options.clone(), &[]);
            let mut consumer = Consumer::default();
            consumer.follow_to_tip(&mut connection);
            assert!(consumer.blocks == blocks);
            drop(connection);

            let first = point_of(&blocks[0]);
            let mut connection = open(options, &[first]);
            let mut consumer = Consumer::with(&blocks[..1]);
            consumer.follow_to_tip(&mut connection);
            assert!(consumer.blocks == blocks);
            assert_eq!(consumer.rollbacks, [Some(first.block_hash())]);
        }
    }
}

#[test]
fn following_resumes_from_the_newest_known_point() {
    let blocks = chain_of(&[0]);
    let stage = stage(&blocks);
    let unknown = fork_of(&blocks[51..]);
    for options in stage.both() {
        // Enough unknown points to need more than one question.
        let mut points: Vec<NodePoint> =
            (0..2_500).map(|slot| NodePoint { slot, hash: [7; 32] }).collect();
        points.extend(unknown.iter().take(3).map(|raw| point_of(raw)));
        points.extend([point_of(&blocks[50]), point_of(&blocks[10])]);
        let mut connection = open(options, &points);
        let mut consumer = Consumer::with(&joined(&[&blocks[..51], &unknown]));
        consumer.follow_to_tip(&mut connection);
        assert_eq!(consumer.rollbacks, [Some(hash_of(&blocks[50]))]);
        assert!(consumer.blocks == blocks);
    }
}

#[test]
fn new_blocks_and_forks_at_the_tip_arrive() {
    let blocks = chain_of(&[0]);
    let fork = fork_of(&blocks[95..105]);
    let switched = joined(&[&blocks[..95], &fork]);
    let from_origin = fork_of(&blocks[..5]);
    let all = stage(&[]);
    for options in all.both() {
        all.node.switch_fork(0, &blocks[..90]);
        let mut connection = open(options, &[]);
        let mut consumer = Consumer::default();
        consumer.follow_to_tip(&mut connection);
        for end in 91..=100 {
            all.node.append(&blocks[end - 1..end]);
            consumer.follow_to_tip(&mut connection);
            assert!(consumer.blocks == blocks[..end]);
        }
        all.node.switch_fork(95, &fork);
        consumer.follow_to_tip(&mut connection);
        assert!(consumer.blocks == switched);
        // Down to a shorter chain without anything new, then to a fork of the whole chain.
        all.node.switch_fork(97, &[]);
        consumer.follow_to_tip(&mut connection);
        assert!(consumer.blocks == switched[..97]);
        all.node.switch_fork(0, &from_origin);
        consumer.follow_to_tip(&mut connection);
        assert!(consumer.blocks == from_origin);
        let rollbacks = [None, Some(hash_of(&blocks[94])), Some(hash_of(&switched[96])), None];
        assert_eq!(consumer.rollbacks, rollbacks);
    }
}

#[test]
fn a_fork_while_catching_up_arrives_whatever_was_under_way() {
    let blocks = chain_of(&[0, 1]);
    // Forks below, at and above what the consumer took when it happens.
    for keep in [20, 59, 60, 61, 75, 150] {
        let fork = fork_of(&blocks[keep..keep + 120]);
        let switched = joined(&[&blocks[..keep], &fork]);
        let stage = stage(&[]);
        for options in stage.both() {
            stage.node.switch_fork(0, &blocks);
            let mut connection = open(options, &[]);
            let mut consumer = Consumer::default();
            consumer.follow_to_count(&mut connection, 60);
            stage.node.switch_fork(keep, &fork);
            consumer.follow_to_chain(&mut connection, &switched);
        }
    }
}

#[test]
fn announced_blocks_that_are_gone_are_explained_by_a_rollback() {
    let blocks = chain_of(&[0]);
    // The first range is blocks 0 to 19: forks inside it, at its end, and below everything.
    for keep in [0, 7, 19] {
        let fork = fork_of(&blocks[keep..keep + 90]);
        let stage = stage(&blocks);
        stage.node.switch_fork_at_next_range(keep, &fork);
        let mut connection = open(stage.tcp(), &[]);
        let mut consumer = Consumer::default();
        consumer.follow_to_chain(&mut connection, &joined(&[&blocks[..keep], &fork]));
        assert_eq!(stage.node.refused_ranges(), 1, "fork at {keep}");
        assert_eq!(consumer.rollbacks, [None], "the consumer saw none of the lost blocks");
    }
    // The same at the tip, where the node has already said that there is nothing new.
    let stage = stage(&blocks[..30]);
    let mut connection = open(stage.tcp(), &[]);
    let mut consumer = Consumer::default();
    consumer.follow_to_tip(&mut connection);
    let fork = fork_of(&blocks[28..40]);
    stage.node.switch_fork_at_next_range(28, &fork);
    stage.node.append(&blocks[30..32]);
    consumer.follow_to_chain(&mut connection, &joined(&[&blocks[..28], &fork]));
    assert_eq!(stage.node.refused_ranges(), 1);
    assert_eq!(consumer.rollbacks, [None, Some(hash_of(&blocks[27]))]);
}

#[test]
fn another_block_than_announced_is_refused() {
    let blocks = chain_of(&[0]);
    let stage = stage(&blocks);
    stage.node.swap_body(&blocks[25], &fork_of(&blocks[25..26])[0]);
    let mut connection = open(stage.tcp(), &[]);
    let mut consumer = Consumer::default();
    consumer.follow_to_count(&mut connection, 20);
    let error = connection.next(PATIENCE).unwrap_err();
    assert!(matches!(error, NodeError::Protocol { .. }), "{error}");
    assert!(error.is_worth_retrying());
    assert!(matches!(connection.next(PATIENCE), Err(NodeError::Closed)));
}

#[test]
fn a_dropped_connection_is_reopened_from_the_last_point() {
    let blocks = chain_of(&[0, 1]);
    let stage = stage(&blocks);
    for options in stage.both() {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        let mut consumer = Consumer::default();
        let mut drops = 0;
        while consumer.blocks != blocks {
            let mut connection = open(options.clone(), &consumer.points());
            let goal = (consumer.blocks.len() + 70).min(blocks.len());
            consumer.follow_to_count(&mut connection, goal);
            stage.node.drop_connections();
            drops += 1;
            // What was received before is still handed over.
            let error = loop {
                match connection.next(PATIENCE) {
                    Ok(event) => consumer.take(event.expect("an event in time")),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, NodeError::Closed), "{error}");
            assert!(error.is_worth_retrying());
            std::thread::sleep(backoff.next_wait());
        }
        assert!(drops > 2);
    }
}

#[test]
fn another_network_is_refused_for_good() {
    let stage = stage(&[]);
    for options in stage.both() {
        let other = NodeOptions { network_magic: MAGIC + 1, ..options };
        let error = NodeConnection::open(other, &[]).unwrap_err();
        assert!(matches!(error, NodeError::Handshake { network_magic: 3, .. }), "{error}");
        assert!(!error.is_worth_retrying());
    }
}

#[test]
fn no_known_point_is_reported_with_the_tip() {
    let blocks = chain_of(&[0]);
    let stage = stage(&blocks);
    for options in stage.both() {
        let points: Vec<NodePoint> = (0..3).map(|slot| NodePoint { slot, hash: [9; 32] }).collect();
        let error = NodeConnection::open(options, &points).unwrap_err();
        let expected = blocks.last().map(|raw| point_of(raw));
        assert!(matches!(error, NodeError::NoIntersection { tip } if tip == expected), "{error}");
        assert!(!error.is_worth_retrying());
    }
}

#[test]
fn an_empty_chain_is_followed_from_the_origin() {
    let stage = stage(&[]);
    for options in stage.both() {
        let mut connection = open(options, &[]);
        assert_eq!(connection.next(PATIENCE).unwrap(), Some(LiveEvent::RolledBack(None)));
        assert_eq!(connection.next(PATIENCE).unwrap(), Some(LiveEvent::AtTip));
    }
}

#[test]
fn nobody_or_silence_at_the_address_is_reported_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let impatient =
        NodeOptions { answer_timeout_ms: 100, ..options(NodeAddress::Tcp(address.clone())) };
    let started = Instant::now();
    let error = NodeConnection::open(impatient.clone(), &[]).unwrap_err();
    assert!(matches!(error, NodeError::Timeout { timeout_ms: 100, .. }), "{error}");
    assert!(error.is_worth_retrying());
    drop(silent);

    let socket = NodeAddress::Socket(Path::new("no-such-node.socket").to_owned());
    for address in [NodeAddress::Tcp(address), NodeAddress::Tcp("nonsense".to_owned()), socket] {
        let error = NodeConnection::open(options(address), &[]).unwrap_err();
        assert!(matches!(error, NodeError::Connect { .. }), "{error}");
        assert!(error.is_worth_retrying());
    }
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_node_that_stops_answering_is_given_up() {
    let blocks = chain_of(&[0]);
    let silent = stage(&[]);
    silent.node.ignore_signs_of_life();
    let without_blocks = stage(&blocks[..30]);
    without_blocks.node.refuse_ranges();
    for stage in [silent, without_blocks] {
        let mut connection = open(NodeOptions { answer_timeout_ms: 200, ..stage.tcp() }, &[]);
        let started = Instant::now();
        let error = loop {
            match connection.next(PATIENCE) {
                Ok(event) => assert!(!matches!(event, None | Some(LiveEvent::Block(_)))),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, NodeError::Timeout { timeout_ms: 200, .. }), "{error}");
        assert!(started.elapsed() >= Duration::from_millis(150));
    }
}

#[test]
fn bytes_that_are_no_protocol_are_an_error() {
    // A segment of the handshake with an impossible message, one cut off, and plain noise.
    let mut refusal = vec![0, 0, 0, 0, 0x80, 0, 0, 3];
    refusal.extend([0x82, 0x02, 0xff]);
    for answer in [refusal, vec![0, 0, 0, 0, 0x80, 0, 0xff, 0xff, 0x82], vec![0xff; 100_000]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 1_000]).unwrap();
            // The client may hang up in the middle of it.
            let _ = client.write_all(&answer);
        });
        let error = NodeConnection::open(options(NodeAddress::Tcp(address)), &[]).unwrap_err();
        assert!(matches!(error, NodeError::Protocol { .. } | NodeError::Closed), "{error}");
        server.join().unwrap();
    }
}

#[test]
fn a_slow_consumer_holds_the_node_back() {
    let blocks = chain_of(&[0]);
    let stage = stage(&blocks);
    let mut connection = open(stage.tcp(), &[]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(stage.node.served_blocks(), 20, "one range, of which the queue takes a part");
    let mut consumer = Consumer::default();
    consumer.follow_to_tip(&mut connection);
    assert!(consumer.blocks == blocks);
    assert_eq!(stage.node.served_blocks(), blocks.len(), "every block is asked for once");
}

#[test]
fn dropping_the_connection_ends_it_wherever_it_waits() {
    let blocks = chain_of(&[0]);
    let stage = stage(&blocks);
    for options in stage.both() {
        for at_tip in [true, false] {
            let mut connection = open(options.clone(), &[]);
            let mut consumer = Consumer::default();
            if at_tip {
                consumer.follow_to_tip(&mut connection);
            } else {
                // The queue is full by now: the thread waits for room in it.
                std::thread::sleep(Duration::from_millis(200));
                assert!(matches!(connection.next(PATIENCE), Ok(Some(_))));
            }
            assert_eq!(stage.node.connections(), 1);
            let started = Instant::now();
            drop(connection);
            assert!(started.elapsed() < Duration::from_secs(1));
            while stage.node.connections() > 0 {
                assert!(started.elapsed() < PATIENCE, "the node still sees the connection");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
