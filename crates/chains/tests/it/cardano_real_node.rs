//! The client of Cardano nodes against a real node, which `UTXOKEEP_CARDANO_NODE=HOST:PORT/NETWORK`
//! names: those rules of live sources that only read. The same runs against the node of the tests, so
//! that the rules themselves are known to be right.

use std::{sync::Arc, time::Duration};

use utxokeep_chains::{
    BlockDecoder, LiveConnection, LiveError, LiveEvent, LiveSource, QueueLimits,
    cardano::{CardanoNode, NodeAddress, NodeOptions},
};
use utxokeep_core::{BlockHash, ChainPoint, Height, Network};
use utxokeep_testkit::{
    live::{CardanoStage, LiveStage},
    skipped,
};

const VARIABLE: &str = "UTXOKEEP_CARDANO_NODE";
const REQUIRE: &str = "UTXOKEEP_REQUIRE_CARDANO_NODE";

/// Longer than a node takes for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// Blocks that are read from the first one on.
const BLOCKS: usize = 300;

/// The node that the variable names; `None`, with a message, where it names none.
fn real_node() -> Option<(Arc<dyn LiveSource>, BlockDecoder)> {
    let Ok(text) = std::env::var(VARIABLE) else {
        skipped("a real Cardano node", REQUIRE, &format!("{VARIABLE} names none"));
        return None;
    };
    let (address, network) = text.split_once('/').expect("HOST:PORT/NETWORK");
    let decoder = BlockDecoder::new(Network::find("cardano", network).unwrap());
    let network_magic = decoder.genesis().expect("a public network").network_magic().into();
    let node = CardanoNode::new(NodeOptions {
        address: NodeAddress::Tcp(address.to_owned()),
        network_magic,
        queue: QueueLimits { events_max: 100, bytes_max: 64 << 20 },
        fetch_range_blocks_max: 100,
        answer_timeout_ms: 30_000,
    });
    Some((Arc::new(node), decoder))
}

fn connect(source: &dyn LiveSource, points: &[ChainPoint]) -> Box<dyn LiveConnection> {
    source.connect(points, &|| false).unwrap()
}

fn next(connection: &mut dyn LiveConnection) -> LiveEvent {
    connection.next(PATIENCE).unwrap().expect("an event in time")
}

/// Takes a block that must follow the one at `below`; answers where it is.
fn next_block(
    connection: &mut dyn LiveConnection,
    decoder: &BlockDecoder,
    below: Option<&ChainPoint>,
) -> ChainPoint {
    let event = next(connection);
    let LiveEvent::Block(raw) = event else { panic!("{event:?} in place of a block") };
    let block = decoder.decode(raw).unwrap();
    assert!(below.is_none_or(|below| block.header.prev == below.hash), "another parent");
    let height = match (below, block.is_boundary) {
        (None, _) => Height::GENESIS,
        (Some(below), is_boundary) => below.height.plus(u32::from(!is_boundary)),
    };
    let slot = block.header.slot.map_or(0, |slot| slot.slot);
    ChainPoint { height, slot, hash: block.header.hash }
}

/// The rules, over the first `count` blocks of a chain that is longer.
fn rules_that_only_read(source: &dyn LiveSource, decoder: &BlockDecoder, count: usize) {
    // Blocks arrive in order, behind the origin.
    let mut connection = connect(source, &[]);
    let contact = connection.contact();
    assert!(contact.messages > 0 && contact.tip_height >= count as u64, "{contact:?}");
    assert_eq!(next(connection.as_mut()), LiveEvent::RolledBack(None));
    let mut points: Vec<ChainPoint> = Vec::new();
    while points.len() < count {
        points.push(next_block(connection.as_mut(), decoder, points.last()));
    }
    assert!(connection.contact().messages >= contact.messages);
    drop(connection);
    let newest_first: Vec<ChainPoint> = points.iter().rev().copied().collect();

    // A new connection goes on where the old one ended.
    let mut connection = connect(source, &newest_first);
    let (newest, hash) = (newest_first[0], newest_first[0].hash);
    assert_eq!(next(connection.as_mut()), LiveEvent::RolledBack(Some(hash)));
    next_block(connection.as_mut(), decoder, Some(&newest));
    drop(connection);

    // Of several points the newest that the node has; others are passed over.
    let unknown = ChainPoint { hash: BlockHash::from_bytes([7; 32]), ..points[count / 2] };
    let shared = points[count / 3];
    let mut connection = connect(source, &[unknown, shared, points[0]]);
    assert_eq!(next(connection.as_mut()), LiveEvent::RolledBack(Some(shared.hash)));
    let above = next_block(connection.as_mut(), decoder, Some(&shared));
    assert_eq!(above, points[count / 3 + 1]);
    drop(connection);

    // A chain that shares nothing is refused for good.
    let error = source.connect(&[unknown], &|| false).unwrap_err();
    assert!(matches!(error, LiveError::Refused(_)), "{error}");
}

#[test]
fn rules_that_only_read_hold_for_a_real_node() {
    let Some((source, decoder)) = real_node() else { return };
    rules_that_only_read(source.as_ref(), &decoder, BLOCKS);
}

#[test]
fn rules_that_only_read_hold_for_the_node_of_the_tests() {
    let stage = CardanoStage::over_tcp();
    let mut chain = Vec::new();
    for _ in 0..60 {
        chain.push(stage.make(chain.last(), 1));
    }
    stage.switch(0, &chain);
    rules_that_only_read(stage.source().as_ref(), &stage.decoder(), 50);
}
