//! `utxokeep store bench` as a user meets it.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep_records::testing::TestCluster;

use crate::program::{told, utxokeep};

/// Short enough for a test; a figure of so short a time says little.
const SHORT: [&str; 6] = ["--batches", "1,3", "--clients", "2", "--seconds-per-case", "0.02"];

fn bench(url: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let home = TempDir::new().unwrap();
    let mut command = utxokeep(&["store", "bench", url]);
    let output = command.args(SHORT).args(more).current_dir(home.path()).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output.status.code(), text, told(&output))
}

#[test]
fn a_url_that_names_no_engine_is_refused_as_wrong_usage() {
    for url in ["mysql://host/db", "rocksdb:", "nothing"] {
        let (code, text, error) = bench(url, &[]);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{url}: {error}");
        assert!(error.contains("rocksdb:DIR"), "{error}");
    }
    let (code, _, error) = bench("", &[]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("give its URL") && !error.contains("--store"), "{error}");
    let (code, _, error) = bench("memory:", &["--every-ack"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("only a cluster has acknowledgement levels"), "{error}");
}

#[test]
fn an_engine_without_a_bare_client_says_so_and_the_table_fits_a_terminal() {
    let (code, text, error) = bench("memory:", &[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("no bare client for this engine"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for operation in ["create", "spend", "spend+create", "chain"] {
        let rows = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(operation));
        assert_eq!(rows.count(), 2, "{operation}: {text}");
    }
}

#[test]
fn stores_beside_an_embedded_one_are_removed_and_the_one_that_exists_is_not_touched() {
    let home = TempDir::new().unwrap();
    for engine in ["rocksdb", "sqlite"] {
        let place = home.path().join(engine);
        fs::write(&place, "somebody's").unwrap();
        let (code, text, error) = bench(&format!("{engine}:{}", place.display()), &["--json"]);
        assert_eq!(code, Some(0), "{error}");
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["engine"], engine);
        assert_eq!(report["rows"].as_array().unwrap().len(), 8, "{text}");
        assert!(report["rows"][0]["store_per_second"].as_f64().unwrap() > 0.0, "{text}");
        assert_eq!(fs::read_to_string(&place).unwrap(), "somebody's");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn a_cluster_is_measured_beside_its_bare_client_and_no_key_is_left() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    let (code, text, error) = bench(&cluster.url("ack=replica&prefix=mine"), &["--json"]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{text}");
    for row in rows {
        assert_eq!(row["ack"], "replica");
        for rate in ["store_per_second", "bare_per_second", "floor_per_second", "of_bare"] {
            assert!(row[rate].as_f64().unwrap() > 0.0, "{rate}: {row}");
        }
    }
    assert!(rows[0]["rounds"] == 2 && rows[0]["writes"] == 1, "one read, one write: {}", rows[0]);
    let single = rows.iter().find(|row| row["operation"] == "spend+create").unwrap();
    // Read, stage, commit, roll forward; once a second a call asks for the clock.
    assert!(single["rounds"] == 4 || single["rounds"] == 5, "{single}");
    for server in 0..3 {
        let left = cluster.wire(server).unwrap().call(&["DBSIZE"]).unwrap().text();
        assert_eq!(left, "0", "server {server}");
    }
    // Its servers do not sync each write, and level disk is not guessed at.
    let (code, text, error) = bench(&cluster.url("ack=primary"), &["--every-ack"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("disk: not measured:") && text.contains("ack=disk needs"), "{text}");
    assert!(text.contains("redis://127.0.0.1:"), "an address with its scheme: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("redis, debug build") || text.starts_with("redis, release build"));
    assert!(text.contains("\nprimary ") && text.contains("\nreplica "), "{text}");
}

/// The table was printed at the end only, so that minutes of figures were lost with the first failure.
#[test]
fn figures_that_were_measured_before_a_failure_are_printed() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=200&retry_for_ms=500");
    let mut bench = utxokeep(&["store", "bench", &url, "-v"]);
    bench.args(["--batches", "1", "--clients", "1,2,3", "--seconds-per-case", "0.2"]);
    let mut bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(bench.stderr.take().unwrap()).lines();
    let measured = log.by_ref().find(|line| line.as_ref().unwrap().contains("spend+create"));
    assert!(measured.is_some(), "no figure was measured");
    for replica in 3..6 {
        cluster.pause(replica, true).unwrap();
    }
    let rest: Vec<String> = log.map(Result::unwrap).collect();
    for replica in 3..6 {
        cluster.pause(replica, false).unwrap();
    }
    let output = bench.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("\nreplica  spend+create     1       1"), "{text}{rest:#?}");
    assert!(rest.iter().any(|line| line.starts_with("error: the measurement")), "{rest:#?}");
}
