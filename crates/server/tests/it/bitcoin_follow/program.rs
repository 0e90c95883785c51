//! The program against a real node: `serve` and `chain follow`, with the ledger of a wallet.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use utxokeep_core::Network;
use utxokeep_testkit::{
    ANYONE,
    bitcoind::{Bitcoind, NodeSet},
};
use utxokeep_wallet::NewAddress;

use super::mine_spend;
use crate::{
    program::{Serving, told, until, utxokeep},
    wallet_follow::program::{LedgerHome, NOW, chain_coins, wait_for_tip},
};

pub(super) fn source_of(node: &Bitcoind) -> String {
    format!(
        "{{ kind = \"bitcoind\", url = {:?}, cookie_file = \"{}\" }}",
        node.url(),
        node.cookie_file().display()
    )
}

/// Writes a configuration; `more` are other sections.
pub(super) fn config_of(dir: &Path, source: &str, more: &str) -> PathBuf {
    let config = dir.join("utxokeep.toml");
    let text = format!(
        "[chain]\nnetwork = \"regtest\"\nsource = {source}\n\
         [follow]\nreconnect_first_ms = 20\nreconnect_max_ms = 200\nstalled_secs = 3600\n{more}"
    );
    std::fs::write(&config, text).unwrap();
    config
}

pub(super) fn serve(config: &Path, data: &Path) -> Serving {
    let mut command = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(config).arg("--data").arg(data);
    Serving::start(command)
}

pub(super) fn get(program: &Serving, path: &str) -> Value {
    serde_json::from_str(&program.body(path)).unwrap()
}

/// Waits until the program answers for the node's tip, and compares the sets.
#[track_caller]
pub(super) fn wait_for_node(program: &Serving, node: &Bitcoind) {
    let expected = node.set();
    let mut digest = Value::Null;
    until(&format!("the tip is {}", expected.best_hash), || {
        digest = get(program, "/api/v1/chain/digest");
        digest["point"]["hash"] == expected.best_hash.as_str()
    });
    assert_eq!(set_of(&digest), expected, "{digest}");
}

fn set_of(digest: &Value) -> NodeSet {
    NodeSet {
        height: digest["point"]["height"].as_u64().unwrap(),
        best_hash: digest["point"]["hash"].as_str().unwrap().to_owned(),
        outputs: digest["utxo_count"].as_u64().unwrap(),
        amount: digest["total_amount"].as_str().unwrap().parse().unwrap(),
        muhash: digest["muhash"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn serve_follows_the_node_through_forks_and_kills_of_either_side() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = config_of(dir.path(), &source_of(&node), "[index]\nmuhash = true\n");
    let data = dir.path().join("data");
    node.generate(120);
    for round in 1..4u64 {
        let program = serve(&config, &data);
        wait_for_node(&program, &node);
        // A fork while it is served, then blocks with transactions.
        node.invalidate_from(node.height() - 2 * round);
        (0..2 * round + 3).for_each(|at| mine_spend(&node, 1 + round * 5 + at, 4));
        wait_for_node(&program, &node);
        // The node dies, and loses what it had not written.
        node.generate(2);
        node.kill();
        let is_lost = |status: &Value| status["source"]["is_connected"] == false;
        until("the node is missed", || is_lost(&get(&program, "/api/v1/status")));
        let status = get(&program, "/api/v1/status");
        assert!(status["source"]["fault"].is_string() && status["height"].is_u64(), "{status}");
        assert_eq!(get(&program, "/health")["status"], "ok", "for an hour nobody is called");
        node.start();
        node.generate(1);
        wait_for_node(&program, &node);
        // SIGKILL: what was applied is on disk. The chain forks while nobody listens.
        program.kill();
        node.invalidate_from(node.height() - 3);
        node.generate(5);
    }
    let program = serve(&config, &data);
    wait_for_node(&program, &node);
    until("nothing is missing", || get(&program, "/api/v1/status")["source"]["lag_blocks"] == 0);
    let source = get(&program, "/api/v1/status")["source"].clone();
    assert_eq!(source["address"], node.url());
    assert_eq!(
        (&source["is_connected"], &source["fault"]),
        (&json!(true), &Value::Null),
        "{source}"
    );
    let metrics = program.body("/metrics");
    let height = node.height();
    for line in [
        "utxokeep_source_connected 1".to_owned(),
        format!("utxokeep_source_height {height}"),
        "utxokeep_source_lag_blocks 0".to_owned(),
        format!("utxokeep_index_height {height}"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[test]
fn a_first_sync_by_command_reads_files_or_rest_and_ends_with_the_set_of_the_node() {
    let Some(mut node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(200);
    (0..20).for_each(|at| mine_spend(&node, 1 + at, 5));
    let dir = tempfile::tempdir().unwrap();
    for (name, with_files) in [("by-rest", false), ("by-files", true)] {
        let data = dir.path().join(name);
        let mut command = utxokeep(&["chain", "follow", "--network", "regtest", "--until-tip"]);
        command.args(["--json", "--bitcoind", &node.url(), "--cookie-file"]);
        command.arg(node.cookie_file()).arg("--data").arg(&data);
        if with_files {
            command.arg("--blocks-dir").arg(node.blocks_dir());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["best_hash"], node.best_hash(), "{report}");
        assert_eq!(report["connected"], 221, "{report}");
        let digest =
            utxokeep(&["chain", "digest", "--json", "--data"]).arg(&data).output().unwrap();
        let digest: Value = serde_json::from_slice(&digest.stdout).unwrap();
        assert_eq!(set_of(&digest), node.set(), "{name}");
    }
    let data = dir.path().join("by-rest");
    let follow = |source: &str| {
        let config = config_of(dir.path(), source, "");
        let mut command = utxokeep(&["chain", "follow", "--until-tip", "--config"]);
        let output = command.arg(config).arg("--data").arg(&data).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        told(&output)
    };

    // What is wrong is said in one sentence, without the secret.
    let secret = dir.path().join("password");
    std::fs::write(&secret, "hunter2").unwrap();
    let source = format!(
        "{{ kind = \"bitcoind\", url = {:?}, user = \"me\", password_file = \"{}\" }}",
        node.url(),
        secret.display()
    );
    let said = follow(&source);
    assert!(said.contains("the node refused the credentials"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let cardano = "{ kind = \"cardano-node\", address = \"127.0.0.1:1\" }";
    let said = follow(cardano);
    assert!(said.contains("the database is of bitcoin/regtest"), "{said}");
    let said = follow("{ kind = \"bitcoind\", password = \"hunter2\" }");
    assert!(said.contains("chain.source is wrong") && !said.contains("hunter2"), "{said}");
    node.stop();
    node.start_with(&[]);
    let said = follow(&source_of(&node));
    assert!(said.contains("add rest=1 to its bitcoin.conf"), "{said}");
}

/// Unspent outputs that anyone can spend, as the node finds them.
pub(super) fn coins_of(node: &Bitcoind) -> BTreeSet<String> {
    let found = node.rpc("scantxoutset", &json!(["start", ["raw(51)"]]));
    let coin = |coin: &Value| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^53")]
        let amount = (coin["amount"].as_f64().unwrap() * 1e8).round() as u64;
        format!("{}:{} {amount}", coin["txid"].as_str().unwrap(), coin["vout"])
    };
    found["unspents"].as_array().unwrap().iter().map(coin).collect()
}

#[test]
fn a_wallet_has_the_coins_of_the_node_with_bodies_from_the_node() {
    const NETWORK: Network = Network::BitcoinRegtest;
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(130);
    (0..10).for_each(|at| mine_spend(&node, 1 + at, 3));
    let place = LedgerHome::sqlite();
    let chain = format!(
        "recent_blocks_max = 1\n[chain]\nnetwork = \"regtest\"\nsource = {}\n\
         [follow]\nreconnect_first_ms = 50\n",
        source_of(&node)
    );
    place.configure(None, &chain);
    place.json(&["chain", "follow", "--until-tip"]);
    let ledger = place.ledger();
    let wallet = ledger.create_wallet("watched", NETWORK, NOW).unwrap().id;
    let address = NewAddress { script: ANYONE.to_vec(), address: None, spend_weight: None };
    ledger.add_addresses(wallet, &[address], NOW).unwrap();
    let serving = place.serve();
    let compare = || {
        let hash = utxokeep_core::BlockHash::from_reversed_hex(&node.best_hash()).unwrap();
        wait_for_tip(&ledger, NETWORK, (u32::try_from(node.height()).unwrap(), hash));
        assert_eq!(chain_coins(&ledger, wallet), coins_of(&node));
    };
    compare();
    node.invalidate_from(136);
    (0..8).for_each(|at| mine_spend(&node, 15 + at, 2));
    compare();
    serving.stop();
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

/// `chain mmr enable` asks the node for the blocks that no file is named for.
#[test]
fn a_tree_is_built_from_the_blocks_of_the_node() {
    const ROOT: [&str; 3] = ["chain", "mmr", "root"];
    const WITH_TREE: &str = "store = \"mmr\"\n";
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    node.generate(110);
    (0..10).for_each(|at| mine_spend(&node, 1 + at, 4));
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, index: &str, words: &[&str]| -> Value {
        let window = "prune_depth_blocks = 20\nrollback_window_blocks = 20";
        let more = format!("[index]\n{window}\n{index}");
        let config = config_of(dir.path(), &source_of(&node), &more);
        let mut command = utxokeep(words);
        command.arg("--json").arg("--config").arg(config);
        let output = command.arg("--data").arg(dir.path().join(name)).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let follow = ["chain", "follow", "--until-tip"];
    run("built", "", &follow);
    run("built", "", &["chain", "prune"]);
    let status = run("built", "", &["chain", "status"]);
    assert!(status["undo_base"].as_u64().unwrap() > 50, "{status}");
    assert_eq!(run("built", "", &["chain", "mmr", "enable"])["built"], true);
    run("followed", WITH_TREE, &follow);
    assert_eq!(run("built", "", &ROOT), run("followed", WITH_TREE, &ROOT));
    assert_eq!(run("built", "", &["chain", "verify"])["clean"], true);
}
