//! The program on a Redis Cluster of three primaries and three replicas.

use utxokeep_core::hex_encode;
use utxokeep_records::testing::shared_url_or_skip;

use super::{
    disk::{Client, txid},
    program::serve,
};
use crate::program::{Serving, told, utxokeep};

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
