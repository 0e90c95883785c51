//! The program: killed while a client reads, asked by `chain watch`, and stopped by a signal.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use utxokeep_chains::Simulator;
use utxokeep_core::{Network, OutPoint, Txid, hex_decode};
use utxokeep_index::{ChainIndex, IndexSettings};
use utxokeep_kv::{OpenMode, RocksOptions};

use super::{
    client::Events,
    served::{Dice, Set, set_of},
};
use crate::program::{Serving, told, utxokeep};

fn demo(dir: &Path) -> Command {
    let mut command = utxokeep(&["demo", "--listen", "127.0.0.1:0", "--blocks-per-second", "300"]);
    command.arg("--data").arg(dir);
    command
}

/// Keeps a set by the JSON of events.
fn take(set: &mut Set, event: &Value) {
    let coin = |output: &Value| {
        let hash = output["tx_hash"].as_str().unwrap();
        let txid = Txid::from_bytes(Network::BitcoinRegtest.parse_hash(hash).unwrap());
        let number = |name: &str| u32::try_from(output[name].as_u64().unwrap()).unwrap();
        let script = hex_decode(output["script_pub_key"].as_str().unwrap()).unwrap();
        let amount = output["amount"].as_str().unwrap().parse().unwrap();
        (OutPoint::new(txid, number("output_index")), (amount, number("block"), script))
    };
    let coins = |list: &str| event[list].as_array().into_iter().flatten().map(coin);
    let (put, remove) = match event["event"].as_str().unwrap() {
        "apply" => ("created", "spent"),
        "undo" => ("spent", "created"),
        _ => return,
    };
    for (outpoint, coin) in coins(put) {
        assert!(set.insert(outpoint, coin).is_none(), "{outpoint:?} came twice");
    }
    for (outpoint, coin) in coins(remove) {
        assert_eq!(set.remove(&outpoint), Some(coin), "{outpoint:?}");
    }
}

fn path(cursor: Option<&String>) -> String {
    cursor.map_or_else(
        || "/api/v1/stream?from_height=0".to_owned(),
        |cursor| format!("/api/v1/stream?from={cursor}"),
    )
}

/// `kill -9` at any moment: the client goes on with its cursor against the next process, and ends up
/// with the set of the database. The last process is stopped by SIGTERM and says so in the stream.
#[test]
fn a_client_of_a_killed_program_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(99);
    let (mut set, mut cursor, mut undone) = (Set::new(), None::<String>, 0);
    for round in 0..7 {
        let program = Serving::start(demo(dir.path()));
        let mut events = loop {
            // A new chain has no block for an instant.
            if program.get("/api/v1/chain/tip").contains("200 OK") {
                break Events::open(program.rest(), &path(cursor.as_ref()), "");
            }
        };
        let mut take_next = |events: &mut Events| {
            let event = events.next()?;
            take(&mut set, &event);
            undone += u32::from(event["event"] == "undo");
            cursor = Some(event["cursor"].as_str().unwrap().to_owned());
            Some(event)
        };
        for _ in 0..200 + dice.roll(300) {
            take_next(&mut events).unwrap();
        }
        if round < 6 {
            program.kill();
            // What is on its way arrives, and is carried out or lost with the connection.
            if dice.roll(2) == 0 {
                while take_next(&mut events).is_some() {}
            }
        } else {
            program.signal("TERM");
            let mut last = None;
            while let Some(event) = take_next(&mut events) {
                last = Some(event);
            }
            let last = last.unwrap();
            assert_eq!((&last["event"], &last["reason"]), (&"cut".into(), &"server_stops".into()));
            assert!(program.ended().0.success());
        }
    }
    assert!(undone > 5, "{undone}");
    // The rest is in the database, which `chain watch` reads up to its tip.
    let mut watch = utxokeep(&["chain", "watch", "--json", "--from", &cursor.unwrap()]);
    let output = watch.arg("--data").arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        take(&mut set, &serde_json::from_str(line).unwrap());
    }
    let settings = IndexSettings::new(Simulator::NETWORK);
    let options = RocksOptions::within(32 << 20);
    let index = ChainIndex::open_dir(dir.path(), settings, options, OpenMode::Read).unwrap();
    assert_eq!(set, set_of(index.engine(), &[]));
}

#[test]
fn chain_watch_prints_what_a_server_sends_and_needs_a_start_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut build = utxokeep(&["demo", "--blocks", "90", "--data"]);
    assert!(build.arg(dir.path()).output().unwrap().status.success());
    let data = dir.path().to_str().unwrap();
    let output = utxokeep(&["chain", "watch", "--data", data]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("--from-height"), "{}", told(&output));
    let mut people = utxokeep(&["chain", "watch", "--from-height", "35", "--data", data]);
    let output = people.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("apply 36 ") && text.contains(" created, "), "{text}");

    let serve =
        ["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data", data];
    let program = Serving::start(utxokeep(&serve));
    assert!(
        program.log().contains("serving the chain and the change stream over gRPC"),
        "{}",
        program.log()
    );
    let address = program.rest().to_string();
    let words = ["chain", "watch", "--json", "--from-height", "35", "--connect", &address];
    let mut watching = utxokeep(&words);
    let child = watching.arg("--data").arg(data).stdout(std::process::Stdio::piped());
    let child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    program.wait_for_metric("utxokeep_stream_events_total{face=\"rest\",event=\"apply\"}", |n| {
        n >= 1.0
    });
    program.stop();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("go on with --from") || told(&output).contains("the server"));
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["block"]["height"], 36);
    assert_eq!(events.last().unwrap()["event"], "cut");
}

/// The commands of the page and the example in Python, against the program.
#[test]
fn the_examples_of_the_page_work() {
    let page = include_str!("../../../../../docs/stream.md");
    let dir = tempfile::tempdir().unwrap();
    let mut build = utxokeep(&["demo", "--blocks", "220", "--data"]);
    assert!(build.arg(dir.path()).output().unwrap().status.success());
    let data = dir.path().to_str().unwrap();
    let program = Serving::start(utxokeep(&["serve", "--listen", "127.0.0.1:0", "--data", data]));
    let here = format!("http://{}", program.rest());
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if has("curl") {
        let asked = "'http://127.0.0.1:8080/api/v1/stream?from_height=150'";
        assert!(page.contains(&format!("curl -N {asked}")));
        let url = asked.trim_matches('\'').replace("http://127.0.0.1:8080", &here);
        let output = Command::new("curl").args(["-sN", "--max-time", "3", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("event: apply\nid: AQAAAJ"), "{text}");
        let register = format!("{here}/api/v1/consumers/stream-books?from_height=150");
        let answered = |args: &[&str]| {
            let output = Command::new("curl").args(args).output().unwrap();
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        let refused = answered(&["-s", "-X", "PUT", &register]);
        assert_eq!(refused["error"]["code"], "token_missing", "{refused}");
        let token = fs::read_to_string(dir.path().join("access-token")).unwrap();
        let token = format!("Authorization: Bearer {}", token.trim_end());
        let put = ["-s", "-X", "PUT", "-H", &token, &register];
        let answer = answered(&put);
        assert_eq!((&answer["name"], &answer["height"]), (&"stream-books".into(), &150.into()));
    }
    if has("python3") {
        let status: Value = serde_json::from_str(&program.body("/api/v1/status")).unwrap();
        let height = status["height"].to_string();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stream_client.py");
        let output = Command::new("python3").args([script, &here, "0", &height]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let (count, total) = (&status["utxo_count"], status["total_amount"].as_str().unwrap());
        let expected = format!("height {height}: {count} outputs, {total}\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{status}");
    }
    program.stop();
}
