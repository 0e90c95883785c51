//! What the program leans on goes away and comes back: the node, and the SQL server of the ledger.
//! Health says so, reads go on, and work resumes by itself with nothing lost.

use std::fs;

use serde_json::Value;
use utxokeep_core::{BlockHash, Network};
use utxokeep_testkit::{ANYONE, bitcoind::Bitcoind, postgres::OwnServer};
use utxokeep_wallet::NewAddress;

use super::{
    mine_spend,
    program::{coins_of, config_of, get, serve, source_of, wait_for_node},
    stopping::stop_in_time,
};
use crate::{
    program::{Serving, until},
    wallet_follow::program::{LedgerHome, NOW, chain_coins, wait_for_tip},
};

/// A part of what health says.
fn health_of(program: &Serving, name: &str) -> Value {
    let health = get(program, "/health");
    let parts = health["dependencies"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn health_names_a_node_that_is_gone_until_it_is_back() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(20);
    let dir = tempfile::tempdir().unwrap();
    let config = config_of(dir.path(), &source_of(&node), "[index]\nmuhash = true\n");
    // Longer than the node is asked to wait for a block.
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("stalled_secs = 3600", "stalled_secs = 8")).unwrap();
    let program = serve(&config, &dir.path().join("data"));
    wait_for_node(&program, &node);
    program.wait_for_health("ok");
    let (tip, set) = (node.best_hash(), node.set());
    node.kill();
    program.wait_for_health("degraded");
    assert!(program.get("/health").contains(" 200 OK"), "reads go on");
    let source = health_of(&program, "chain_source");
    let fault = source["fault"].as_str().unwrap_or_default();
    assert_eq!(source["status"], "degraded", "{source}");
    assert!(fault.contains(&node.url()) && fault.contains("cannot connect to the node"), "{fault}");
    let digest = get(&program, "/api/v1/chain/digest");
    assert_eq!((&digest["point"]["hash"], &digest["muhash"]), (&tip.into(), &set.muhash.into()));
    assert_eq!(program.metric("utxokeep_source_connected"), Some(0.0));

    node.start();
    node.generate(3);
    wait_for_node(&program, &node);
    program.wait_for_health("ok");
    program.stop();
}

#[test]
fn a_ledger_that_follows_catches_up_when_its_sql_server_is_back() {
    const NETWORK: Network = Network::BitcoinRegtest;
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    let Some(mut server) = OwnServer::start_or_skip(&[]) else { return };
    node.generate(130);
    let url = format!("postgres://{}@{}/postgres", server.user(), server.address());
    let place = LedgerHome::with_ledger(&url);
    let chain = format!(
        "follow_stalled_secs = 1\n[chain]\nnetwork = \"regtest\"\nsource = {}\n\
         [follow]\nreconnect_first_ms = 50\n",
        source_of(&node)
    );
    place.configure(None, &chain);
    let ledger = place.ledger();
    let wallet = ledger.create_wallet("watched", NETWORK, NOW).unwrap().id;
    let address = NewAddress { script: ANYONE.to_vec(), address: None, spend_weight: None };
    ledger.add_addresses(wallet, &[address], NOW).unwrap();
    drop(ledger);
    let program = place.serve();
    let compare = || {
        let hash = BlockHash::from_reversed_hex(&node.best_hash()).unwrap();
        let ledger = place.ledger();
        wait_for_tip(&ledger, NETWORK, (u32::try_from(node.height()).unwrap(), hash));
        assert_eq!(chain_coins(&ledger, wallet), coins_of(&node));
        assert_eq!(ledger.verify(wallet).unwrap(), []);
    };
    for round in 0..2 {
        compare();
        server.kill();
        // Blocks with payments and a fork, which the chain index follows alone.
        (0..6).for_each(|at| mine_spend(&node, 1 + round * 20 + at, 3));
        until("the follower is missed", || {
            let follower = health_of(&program, "wallet_follower");
            follower["status"] == "degraded" && follower["fault"].is_string()
        });
        node.invalidate_from(node.height() - 3);
        (0..6).for_each(|at| mine_spend(&node, 10 + round * 20 + at, 2));
        until("the index goes on", || {
            get(&program, "/api/v1/status")["best_hash"] == node.best_hash().as_str()
        });
        server.restart().unwrap();
        compare();
        program.wait_for_health("ok");
    }

    // A server that holds every statement, as one behind a broken network: stopping takes no longer.
    server.freeze(true);
    node.generate(1);
    let said = stop_in_time(program);
    server.freeze(false);
    assert!(!said.contains("panicked"), "{said}");
    let program = place.serve();
    compare();
    program.stop();
}
