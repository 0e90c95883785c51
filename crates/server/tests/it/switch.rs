//! The index switched off and on by a user: by configuration, with `chain import` and `serve`, while a
//! wallet ledger goes on.

use std::{fs, path::Path};

use serde_json::Value;
use utxokeep_chains::{Simulator, SimulatorConfig, write_block_file};
use utxokeep_core::{BlockHash, Network};

use crate::{
    program::{Serving, told, until},
    wallet_follow::program::{LedgerHome, wait_for_tip},
};

const CHAIN: &str = "[chain]\nnetwork = \"regtest\"\n";
const ON: &str = "[index]\nenabled = true\nmuhash = true\nrollback_window_blocks = 30\n\
                  prune_depth_blocks = 20\n";
const OFF: &str = "[index]\nenabled = false\nmuhash = true\nrollback_window_blocks = 30\n\
                   prune_depth_blocks = 20\n";

fn refused(place: &LedgerHome, words: &[&str]) -> String {
    let output = place.command(words).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{words:?}: {output:?}");
    told(&output)
}

fn digest(place: &LedgerHome) -> Value {
    place.json(&["chain", "digest", "--audit"])
}

fn status(serving: &Serving) -> Value {
    serde_json::from_str(&serving.body("/api/v1/status")).unwrap()
}

/// A chain with branches, in two files of a directory.
fn write_blocks(dir: &Path) -> [String; 2] {
    let mut simulator = Simulator::new(SimulatorConfig {
        seed: 12,
        txs_per_block: 1..12,
        reorg_percent: 15,
        ..SimulatorConfig::default()
    });
    let mut raws = Vec::new();
    while simulator.tip().height.get() < 220 {
        raws.push(simulator.mine_next().1);
    }
    let (first, rest) = raws.split_at(150);
    [(first, "blk00000.dat"), (rest, "blk00001.dat")].map(|(raws, name)| {
        let path = dir.join(name);
        write_block_file(&path, Simulator::NETWORK, raws).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

#[test]
fn an_index_goes_off_and_on_by_configuration_while_the_ledger_goes_on() {
    let place = LedgerHome::sqlite();
    let blocks = place.path("blocks");
    fs::create_dir(&blocks).unwrap();
    let [first, rest] = write_blocks(&blocks);

    let never_off = LedgerHome::sqlite();
    never_off.configure(None, &format!("{CHAIN}{ON}"));
    never_off.json(&["chain", "import", &first]);
    never_off.json(&["chain", "import", &rest]);
    let expected = digest(&never_off);

    place.configure(Some(&blocks), &format!("{CHAIN}{ON}"));
    let before = place.json(&["chain", "import", &first]);
    place.configure(Some(&blocks), &format!("{CHAIN}{OFF}"));
    let report = place.json(&["chain", "import", &rest]);
    assert_eq!(report["best_hash"], expected["point"]["hash"], "{report}");
    let now = place.json(&["chain", "status"]);
    assert_eq!((&now["index_state"], &now["is_index_enabled"]), (&"off".into(), &false.into()));
    assert_eq!(now["index_height"], before["height"], "{now}");
    assert!(refused(&place, &["chain", "digest"]).contains("the index is off"));
    assert!(refused(&place, &["chain", "rollback", "1"]).contains("behind the log"));

    // The ledger reads the log, and bodies from the files.
    let ledger = place.ledger();
    let serving = place.serve();
    let height = u32::try_from(expected["point"]["height"].as_u64().unwrap()).unwrap();
    let hash = BlockHash::from_reversed_hex(expected["point"]["hash"].as_str().unwrap()).unwrap();
    wait_for_tip(&ledger, Network::BitcoinRegtest, (height, hash));
    assert!(serving.get("/api/v1/chain/digest").contains(" 501 "), "{}", serving.log());
    assert_eq!(status(&serving)["index_state"], "off");
    serving.stop();

    // On, with a node that is away: everything but the index is served, and it tries again.
    let cookie = place.path("cookie");
    fs::write(&cookie, "user:password").unwrap();
    let source = format!(
        "source = {{ kind = \"bitcoind\", url = \"http://localhost:1\", cookie_file = \"{}\" }}\n",
        cookie.display()
    );
    let waits = "[follow]\nreconnect_first_ms = 20\nreconnect_max_ms = 100\n";
    place.configure(None, &format!("{CHAIN}{source}{ON}{waits}"));
    let serving = place.serve();
    let now = status(&serving);
    assert_eq!(now["index_state"], "catching_up", "{now}");
    let answer = serving.get("/api/v1/chain/digest");
    assert!(answer.contains(" 503 ") && answer.contains("catching_up"), "{answer}");
    assert!(answer.contains("stands at block"), "{answer}");
    let answer = serving.get("/api/v1/stream?from_height=200");
    assert!(answer.contains(" 503 ") && answer.contains("catching_up"), "{answer}");
    until("it tries again", || serving.log().contains("the index cannot catch up yet"));
    serving.stop();

    // Without a place to look for blocks it says so, and ends.
    place.configure(None, &format!("{CHAIN}{ON}"));
    let output = place.command(&["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let said = told(&output);
    assert!(said.contains("no place at all") && said.contains("its body is needed"), "{said}");

    // With the files it arrives, and from then on it is as if it never was off.
    place.configure(Some(&blocks), &format!("{CHAIN}{ON}"));
    let serving = place.serve();
    until("the index is on", || status(&serving)["index_state"] == "on");
    let answer: Value = serde_json::from_str(&serving.body("/api/v1/chain/digest")).unwrap();
    assert_eq!(answer["muhash"], expected["muhash"]);
    serving.stop();
    assert_eq!(digest(&place), expected);
    assert_eq!(place.json(&["chain", "verify"])["clean"], true);
}

/// What `chain import` takes the index on with are the blocks of its own files.
#[test]
fn an_import_takes_the_index_to_the_tip_and_goes_on_from_there() {
    let place = LedgerHome::sqlite();
    let blocks = place.path("blocks");
    fs::create_dir(&blocks).unwrap();
    let [first, rest] = write_blocks(&blocks);
    // From the start without an index: there are not even tables for it.
    place.configure(None, &format!("{CHAIN}{OFF}"));
    place.json(&["chain", "import", &first]);
    place.configure(None, &format!("{CHAIN}{ON}"));
    let error = place.command(&["chain", "import", &rest]).output().unwrap();
    assert!(!error.status.success(), "{error:?}");
    assert!(told(&error).contains("its body is needed now"), "{error:?}");
    place.json(&["chain", "import", blocks.to_str().unwrap()]);
    let never_off = LedgerHome::sqlite();
    never_off.configure(None, &format!("{CHAIN}{ON}"));
    never_off.json(&["chain", "import", &first, &rest]);
    assert_eq!(digest(&place), digest(&never_off));
    assert_eq!(place.json(&["chain", "status"])["index_state"], "on");
}
