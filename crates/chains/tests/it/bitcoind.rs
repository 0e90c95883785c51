//! Bitcoin Core as a source, beyond the rules that every source keeps: what it lacks, what it sends
//! wrong, and where bodies come from.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::json;
use utxokeep_chains::{
    BlockDecoder, BodyError, BodyFinder, LiveConnection, LiveError, LiveEvent, LiveSource,
    NodeSource, WantedBlock,
    bitcoind::{BitcoinNode, BitcoindError, BitcoindOptions, Credentials},
    decode_header,
};
use utxokeep_core::{BlockHash, ChainPoint, Height, Network};
use utxokeep_testkit::{
    bitcoind::{Bitcoind, NodeProxy},
    live::bitcoind_options,
};

const NETWORK: Network = Network::BitcoinRegtest;
const PATIENCE: Duration = Duration::from_secs(60);

fn options(node: &Bitcoind) -> BitcoindOptions {
    bitcoind_options(node, &node.url())
}

fn hash(text: &str) -> BlockHash {
    BlockHash::from_reversed_hex(text).unwrap()
}

fn point(node: &Bitcoind, height: u64) -> ChainPoint {
    let hash = hash(&node.hash_at(height));
    ChainPoint { height: Height::new(u32::try_from(height).unwrap()), slot: height, hash }
}

/// Why the node cannot be followed from `points` on.
fn refusal(options: &BitcoindOptions, points: &[ChainPoint]) -> LiveError {
    match BitcoinNode::new(options.clone()).connect(points, &|| false) {
        Err(error) => error,
        Ok(mut connection) => loop {
            if let Err(error) = connection.next(PATIENCE) {
                return error;
            }
        },
    }
}

/// Takes blocks up to the tip.
fn to_tip(connection: &mut dyn LiveConnection) -> Result<Vec<Vec<u8>>, LiveError> {
    let mut blocks = Vec::new();
    loop {
        match connection.next(PATIENCE)?.expect("an event in time") {
            LiveEvent::Block(raw) => blocks.push(raw),
            LiveEvent::RolledBack(_) => {}
            LiveEvent::AtTip => return Ok(blocks),
        }
    }
}

fn connect(options: &BitcoindOptions, points: &[ChainPoint]) -> Box<dyn LiveConnection> {
    BitcoinNode::new(options.clone()).connect(points, &|| false).unwrap()
}

#[test]
fn a_node_that_lacks_something_says_so_in_one_sentence() {
    let Some(mut node) = Bitcoind::start_or_skip(&[]) else { return };
    let options = options(&node);
    let refused = |options: &BitcoindOptions, words: &str| {
        let error = refusal(options, &[]);
        assert!(matches!(error, LiveError::Refused(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&options, "add rest=1");
    let other = Network::BitcoinMainnet;
    refused(&BitcoindOptions { network: other, ..options.clone() }, "it calls regtest");
    let cookie = node.dir().join("cookie");
    fs::write(&cookie, "__cookie__:hunter2").unwrap();
    let credentials = Credentials::CookieFile(cookie.clone());
    let wrong = BitcoindOptions { credentials, ..options.clone() };
    refused(&wrong, "refused the credentials");
    assert!(!format!("{:?} {}", wrong, refusal(&wrong, &[])).contains("hunter2"));

    let away = |options: &BitcoindOptions, words: &str| {
        let error = refusal(options, &[]);
        assert!(matches!(error, LiveError::Away(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    fs::remove_file(&cookie).unwrap();
    away(&wrong, "no cookie file");
    // A node that is stopped takes its cookie along; a killed one leaves it.
    node.stop();
    away(&options, "no cookie file");
}

/// Starting with a list of methods that leaves out the one that is asked first.
#[test]
fn a_method_that_is_not_allowed_is_named() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.kill();
    let error = refusal(&options(&node), &[]);
    assert!(matches!(error, LiveError::Away(_)), "{error}");
    assert!(error.to_string().contains("check that it runs"), "{error}");
    let list = "-rpcwhitelist=__cookie__:getblockchaininfo,getblockcount,stop";
    node.start_with(&["-rest", list]);
    let error = refusal(&options(&node), &[]);
    assert!(matches!(error, LiveError::Refused(_)), "{error}");
    assert!(error.to_string().contains("does not allow getnetworkinfo"), "{error}");
}

#[test]
fn a_node_that_does_not_wake_us_is_polled() {
    let allowed = "getblockchaininfo,getnetworkinfo,generatetodescriptor,getblockhash";
    let list = format!("-rpcwhitelist=__cookie__:{allowed}");
    let Some(node) = Bitcoind::start_or_skip(&["-rest", &list]) else { return };
    node.generate(3);
    let mut connection = connect(&options(&node), &[]);
    assert_eq!(to_tip(connection.as_mut()).unwrap().len(), 4);
    for _ in 0..3 {
        node.generate(2);
        let mut blocks = 0;
        while blocks < 2 {
            blocks += to_tip(connection.as_mut()).unwrap().len();
        }
    }
    assert_eq!(connection.contact().tip_height, 9);
}

#[test]
fn connections_that_the_node_closes_for_idleness_are_opened_again() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest", "-rpcservertimeout=1"]) else { return };
    let mut connection = connect(&options(&node), &[]);
    to_tip(connection.as_mut()).unwrap();
    let idle = Instant::now();
    while idle.elapsed() < Duration::from_secs(7) {
        assert_eq!(connection.next(Duration::from_millis(500)).unwrap(), None);
    }
    let messages = connection.contact().messages;
    assert!(messages >= 3, "it shows life while nothing happens: {messages}");
    node.generate(1);
    assert_eq!(to_tip(connection.as_mut()).unwrap().len(), 1);
}

#[test]
fn a_pruned_node_is_followed_from_where_it_has_blocks_and_refused_below() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest", "-prune=1", "-fastprune"]) else { return };
    node.generate(1_000);
    node.rpc("pruneblockchain", &json!([700]));
    let info = node.rpc("getblockchaininfo", &json!([]));
    let kept = info["pruneheight"].as_u64().unwrap();
    assert!((2..=701).contains(&kept), "{info}");
    for points in [vec![], vec![point(&node, kept - 2)]] {
        let error = refusal(&options(&node), &points);
        assert!(matches!(error, LiveError::Refused(_)), "{error}");
        assert!(error.to_string().contains("the node has pruned its blocks"), "{error}");
        assert!(error.to_string().contains(&format!("from height {kept} on")), "{error}");
    }
    let mut connection = connect(&options(&node), &[point(&node, kept - 1)]);
    let blocks = to_tip(connection.as_mut()).unwrap();
    assert_eq!(blocks.len() as u64, 1_001 - kept);
}

/// Changes answers whose path has `part`, and tells why the client gives up.
fn lie(
    node: &Bitcoind,
    part: &'static str,
    change: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> String {
    let proxy = NodeProxy::start(node.port());
    let mut options = bitcoind_options(node, &proxy.url());
    options.answer_timeout_ms = 2_000;
    proxy.change(move |path, body| Ok(if path.contains(part) { change(body) } else { body }));
    let error = refusal(&options, &[]);
    assert!(matches!(error, LiveError::Away(_)), "{error}");
    proxy.be_honest();
    let mut connection = connect(&options, &[]);
    assert_eq!(to_tip(connection.as_mut()).unwrap().len(), 31, "the honest node is followed");
    error.to_string()
}

#[test]
fn what_no_honest_node_sends_is_refused() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(30);
    let other = node.rpc("getblock", &json!([node.hash_at(7), 0])).as_str().unwrap().to_owned();
    let other = utxokeep_core::hex_decode(&other).unwrap();

    let said = lie(&node, "/rest/headers/", |mut body| {
        // Another nonce: every second one has no proof of work on regtest.
        let mut nonce = 0u32;
        while body.len() > 80 && decode_header(&body[80..]).is_ok() {
            body[156..160].copy_from_slice(&nonce.to_le_bytes());
            nonce += 1;
        }
        body
    });
    assert!(said.contains("proof of work"), "{said}");
    let said = lie(&node, "/rest/headers/", |body| match body.len() {
        0..=160 => body,
        _ => [&body[..80], &body[160..]].concat(),
    });
    assert!(said.contains("does not link"), "{said}");
    let said = lie(&node, "/rest/headers/", |body| body[..body.len() - 1].to_vec());
    assert!(said.contains("headers of 79 bytes"), "{said}");
    let said = lie(&node, "/rest/headers/", |body| if body.len() > 80 { vec![] } else { body });
    assert!(said.contains("first block of its network is not on its chain"), "{said}");
    let said = lie(&node, "/rest/block/", move |_| other.clone());
    assert!(said.contains("another block as"), "{said}");
    let said = lie(&node, "/rest/block/", |_| vec![]);
    assert!(said.contains("another block as"), "{said}");
    let said = lie(&node, "/rest/block/", |_| vec![0; 9 << 20]);
    assert!(said.contains("more than 8388608 bytes"), "{said}");
    let said = lie(&node, "/rest/block/", |body| {
        thread::sleep(Duration::from_millis(2_500));
        body
    });
    assert!(said.contains("did not answer within 2000 ms"), "{said}");
    // RPC is at the root.
    let said = lie(&node, "/", |_| b"<html>".to_vec());
    assert!(said.contains("no JSON as the answer to getblockchaininfo"), "{said}");
}

#[test]
fn blocks_come_from_the_nodes_files_while_many_are_missing() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest", "-fastprune"]) else { return };
    let copy = node.dir().join("copy");
    fs::create_dir(&copy).unwrap();
    let sync = |options: &BitcoindOptions, proxy: &NodeProxy| {
        let _ = proxy.take_requests();
        let mut connection = connect(options, &[]);
        let blocks = to_tip(connection.as_mut()).unwrap();
        for (height, raw) in (0..).zip(&blocks) {
            let expected = hash(&node.hash_at(height));
            assert_eq!(decode_header(raw).unwrap().hash, expected, "height {height}");
        }
        let requests = proxy.take_requests();
        let fetched = requests.iter().filter(|path| path.contains("/rest/block/")).count();
        (blocks.len(), fetched)
    };
    node.generate(300);
    // A branch that the files have and the chain has not.
    node.invalidate_from(250);
    for entry in fs::read_dir(node.blocks_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
    }
    node.generate(400);
    let proxy = NodeProxy::start(node.port());
    let mut options = bitcoind_options(&node, &proxy.url());
    options.blocks_dir = Some(node.blocks_dir());
    assert_eq!(sync(&options, &proxy), (650, 0));
    options.blocks_dir = Some(copy);
    assert_eq!(sync(&options, &proxy), (650, 400), "what the copy has not comes by REST");
    options.blocks_dir = Some(node.dir().join("none"));
    assert_eq!(sync(&options, &proxy), (650, 649), "the first block is known");
    options.blocks_dir = None;
    assert_eq!(sync(&options, &proxy), (650, 649));

    // A few new blocks are not worth looking for in files.
    options.blocks_dir = Some(node.blocks_dir());
    let mut connection = connect(&options, &[point(&node, 640)]);
    let _ = proxy.take_requests();
    assert_eq!(to_tip(connection.as_mut()).unwrap().len(), 9);
    let requests = proxy.take_requests();
    assert_eq!(requests.iter().filter(|path| path.contains("/rest/block/")).count(), 9);
}

#[test]
fn bodies_are_found_on_the_node_also_of_blocks_that_left_its_chain() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(20);
    let wanted = |text: &str| {
        let point = ChainPoint { height: Height::new(15), slot: 0, hash: hash(text) };
        WantedBlock { point, parent: None, tip: Height::new(20) }
    };
    let mut finder =
        BodyFinder::new(BlockDecoder::new(NETWORK)).with_node(NodeSource::Bitcoin(options(&node)));
    assert!(finder.places().contains(&node.url()), "{}", finder.places());
    let stale = node.invalidate_from(15);
    node.generate(10);
    for text in [stale, node.hash_at(15), node.hash_at(0)] {
        let block = finder.block(&wanted(&text), &|| false).unwrap().unwrap();
        assert_eq!(block.header.hash, hash(&text));
    }
    let unknown = "11".repeat(32);
    assert_eq!(finder.block(&wanted(&unknown), &|| false).unwrap(), None);
    let stopped = finder.block(&wanted(&unknown), &|| true).unwrap_err();
    assert!(matches!(stopped, BodyError::Stopped), "{stopped}");
    let tip = node.best_hash();
    node.stop();
    let error = finder.block(&wanted(&tip), &|| false).unwrap_err();
    assert!(matches!(error, BodyError::Bitcoind(BitcoindError::Connect { .. })), "{error}");
    node.start();
    assert!(finder.block(&wanted(&tip), &|| false).unwrap().is_some());
}
