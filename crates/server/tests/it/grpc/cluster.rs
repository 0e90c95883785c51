//! The program on a Redis Cluster of three primaries and three replicas.

use tonic_health::pb::health_check_response::ServingStatus;
use utxokeep_core::hex_encode;
use utxokeep_records::testing::{TestCluster, shared_url_or_skip};

use super::{
    disk::{Client, txid},
    program::serve,
};
use crate::program::{Serving, told, until, utxokeep};

fn config(url: &str, more: &str) -> String {
    format!("[txstore]\nurl = \"{url}\"\nrecord_shards = 16\n{more}")
}

#[test]
fn a_store_on_a_cluster_is_served_found_again_after_a_kill_and_sound() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = Serving::start(serve(dir.path(), &config(&url, "")));
    let client = Client::of(&program);
    for number in 0..20 {
        client.create(number).unwrap();
    }
    program.kill();
    // A second program shares the store while the first one is back.
    let first = Serving::start(serve(dir.path(), &config(&url, "")));
    let second_dir = tempfile::tempdir().unwrap();
    let second = Serving::start(serve(second_dir.path(), &config(&url, "")));
    let (mine, other) = (Client::of(&first), Client::of(&second));
    mine.create(20).unwrap();
    assert!((0..=20).all(|number| other.has(number)));
    second.stop();
    first.stop();
    let id: Vec<u8> = txid(7).into_iter().rev().collect();
    let file = dir.path().join("config.toml");
    for words in [&["tx", "show", &hex_encode(&id)][..], &["tx", "verify"], &["tx", "status"]] {
        let output = utxokeep(words).arg("--config").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", told(&output));
    }
    let output = utxokeep(&["tx", "lock", &hex_encode(&id)]).arg("--config").arg(&file).output();
    let said = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    assert!(said.contains("nobody holds it"), "{said}");
    let unknown = utxokeep(&["tx", "lock", &"07".repeat(32)]).arg("--config").arg(&file).output();
    let unknown = unknown.unwrap();
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
    assert!(!told(&unknown).contains("nobody holds it"), "{}", told(&unknown));
}

#[test]
fn health_says_which_server_takes_no_writes_and_which_setting_was_changed() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=300&command_timeout_ms=1500");
    let dir = tempfile::tempdir().unwrap();
    let blobs = dir.path().join("blobs");
    let more = format!("health_probe_ms = 100\nblobs = \"file:{}\"\n", blobs.display());
    let program = Serving::start(serve(dir.path(), &config(&url, &more)));
    let client = Client::of(&program);
    client.create(1).unwrap();
    let is_well = || program.get("/health").contains(" 200 OK");
    let says = |words: &str| {
        until(words, || {
            let answer = program.get("/health");
            answer.contains(" 503 ") && answer.contains(words)
        });
        until("the health service noticing", || client.health() == ServingStatus::NotServing);
    };
    assert!(is_well());
    let policy = |value: &str| {
        let mut wire = cluster.wire(1).unwrap();
        wire.call(&["CONFIG", "SET", "maxmemory-policy", value]).unwrap();
    };
    policy("allkeys-lru");
    says("set maxmemory-policy noeviction");
    policy("noeviction");
    until("recovery", is_well);
    // Nobody can write a file where a directory is.
    let in_the_way = blobs.join(format!("utxokeep-health#{}", program.id()));
    std::fs::create_dir(&in_the_way).unwrap();
    says("no file can be written to the blob store");
    std::fs::remove_dir(&in_the_way).unwrap();
    until("recovery", is_well);
    cluster.kill(3).unwrap();
    says(&format!("127.0.0.1:{} take no writes", cluster.port(0)));
    let id: Vec<u8> = txid(1).into_iter().rev().collect();
    for words in [&["tx", "show", &hex_encode(&id)][..], &["tx", "verify"]] {
        let file = dir.path().join("config.toml");
        let output = utxokeep(words).arg("--config").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", told(&output));
    }
    cluster.restart(3).unwrap();
    until("recovery", is_well);
    program.stop();
}

#[test]
fn a_store_that_was_made_with_another_number_of_outputs_per_record_is_refused() {
    let Some(url) = shared_url_or_skip("ack=primary") else { return };
    let dir = tempfile::tempdir().unwrap();
    Serving::start(serve(dir.path(), &config(&url, ""))).stop();
    let other = config(&url, "outputs_per_record = 20000\n");
    let output = serve(dir.path(), &other).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(told(&output).contains("outputs_per_record = 128, not 20000"), "{}", told(&output));
}

#[test]
fn reading_commands_create_no_store_on_a_cluster() {
    let Some(url) = shared_url_or_skip("ack=primary") else { return };
    let id = "07".repeat(32);
    for words in [&["tx", "show", &id][..], &["tx", "lock", &id], &["tx", "verify"]] {
        let output = utxokeep(words).args(["--store", &url]).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{words:?}: {}", told(&output));
        assert!(told(&output).contains("nothing was created"), "{}", told(&output));
    }
}
