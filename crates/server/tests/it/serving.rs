//! Programs that serve, as a user runs them: the demo grows a chain, stops when told to and goes
//! on from there; `serve` answers for a database that was imported.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use utxokeep_chains::Simulator;
use utxokeep_core::Height;
use utxokeep_index::{ChainIndex, IndexSettings, IndexStatus};
use utxokeep_kv::{OpenMode, RocksOptions};

use crate::program::{self, Serving};

fn utxokeep(data: &Path, words: &[&str]) -> Command {
    let mut command = program::utxokeep(words);
    command.arg("--data").arg(data);
    command
}

fn demo(data: &Path) -> Command {
    utxokeep(data, &["demo"])
}

fn grow(data: &Path, more: &[&str]) -> Output {
    demo(data).args(["--blocks", "300"]).args(more).output().unwrap()
}

/// Status of the database, which must be without fault.
fn status(data: &Path) -> IndexStatus {
    let settings = IndexSettings::new(Simulator::NETWORK);
    let options = RocksOptions::within(32 << 20);
    let index = ChainIndex::open_dir(data, settings, options, OpenMode::Existing).unwrap();
    let report = index.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.findings, []);
    index.status().unwrap()
}

fn height(status: &IndexStatus) -> Height {
    status.tip.unwrap().height
}

#[test]
fn a_second_run_goes_on_where_the_first_ended() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new/directory");
    let first_run = grow(&data, &[]);
    assert!(first_run.status.success(), "{first_run:?}");
    assert!(first_run.stdout.is_empty(), "only results go to stdout");
    let first = status(&data);
    assert!(height(&first) > Height::new(200), "{first:?}");

    let second_run = grow(&data, &[]);
    assert!(second_run.status.success(), "{second_run:?}");
    let farewell = String::from_utf8_lossy(&second_run.stderr).into_owned();
    assert!(farewell.contains(&format!("(started at {})", height(&first))), "{farewell}");
    let second = status(&data);
    assert!(height(&second) > height(&first).plus(200), "{second:?}");
    assert!(second.totals.unwrap().txouts > first.totals.unwrap().txouts);

    let other_seed = grow(&data, &["--seed", "77"]);
    assert!(!other_seed.status.success());
    assert!(String::from_utf8_lossy(&other_seed.stderr).contains("--data"), "{other_seed:?}");
    assert_eq!(height(&status(&data)), height(&second), "nothing was changed");
}

fn start(mut command: Command) -> Serving {
    command.args(["--listen", "127.0.0.1:0"]);
    Serving::start(command)
}

fn height_in(answer: &str) -> Option<u32> {
    let (_, rest) = answer.split_once("\"height\":")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn a_running_demo_is_served_stops_cleanly_on_a_signal_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut stopped_at = Height::GENESIS;
    for name in ["INT", "TERM"] {
        let running = start(demo(dir.path()));
        let health = running.wait_for("/health", |answer| answer.contains(" 200 OK"));
        assert!(health.contains("{\"status\":\"ok\","), "{health}");
        let enough = stopped_at.get().max(150) + 2;
        running.wait_for("/api/v1/chain/tip", |answer| {
            height_in(answer).is_some_and(|height| height >= enough)
        });
        let metrics = running.get("/metrics");
        assert!(metrics.contains("utxokeep_index_blocks_applied_total"), "{metrics}");
        let log = running.stop_by(name);
        assert!(log.contains("stopped at height"), "{log}");
        let now = height(&status(dir.path()));
        assert!(now > stopped_at);
        stopped_at = now;
    }
}

#[test]
fn an_imported_database_is_served_and_nobody_else_may_write_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = utxokeep_testkit::RegtestA::default().path("blocks.dat.xz");
    let import = ["chain", "import", "--chain", "bitcoin", "--network", "regtest"];
    let import = || utxokeep(dir.path(), &import).arg(&blocks).output().unwrap();
    assert!(import().status.success());

    let running = start(utxokeep(dir.path(), &["serve"]));
    let tip = running.wait_for("/api/v1/chain/tip", |answer| answer.contains(" 200 OK"));
    assert_eq!(height_in(&tip), Some(300), "{tip}");
    let refused = import();
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "{refused:?}");
    running.stop_by("INT");

    let nothing = tempfile::tempdir().unwrap();
    let missing = utxokeep(&nothing.path().join("none"), &["serve"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(4), "{missing:?}");
}

#[test]
fn an_address_in_use_is_named_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = demo(dir.path()).args(["--listen", &address]).output().unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&address) && stderr.contains("--listen"), "{stderr}");
}
