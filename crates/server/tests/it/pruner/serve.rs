//! `utxokeep serve` with a pruner beside the node store.

use std::time::Duration;

use serde_json::json;
use utxokeep_server::grpc::proto::{self, tx_store_client::TxStoreClient};

use crate::pruner::{
    program::{User, mine, until},
    world::{HEIGHT, World},
};

#[test]
fn blocks_reported_by_the_node_delete_what_is_due_and_leave_the_rest() {
    let user = User::new("rocksdb", "undo_blocks = 3");
    let world = World::make(&user.url, 5, None);
    let program = user.serve();
    program.block(HEIGHT);
    program.wait_for(HEIGHT);
    let there = |txid: utxokeep_core::Txid| {
        let mut client = TxStoreClient::new(program.channel());
        let txids = vec![txid.as_bytes().to_vec()];
        let request = proto::GetRequest { txids, fields: None };
        let answer = program.runtime.block_on(client.get(request)).unwrap().into_inner();
        matches!(answer.results[0].result, Some(proto::get_result::Result::Ok(_)))
    };
    assert!(world.due.iter().all(|txid| !there(*txid)));
    assert!([world.coin, world.parent, world.child].into_iter().all(there));

    let metrics = program.get("/metrics");
    for line in [
        "utxokeep_pruner_records_deleted_total 5",
        "utxokeep_pruner_records_kept_total{reason=\"child_young\"} 1",
        "utxokeep_pruner_completed_height 338",
        "utxokeep_grpc_calls_total{method=\"ChainEvents/Block\",code=\"OK\"} 1",
        "# HELP utxokeep_pruner_backlog_state 0 OK, 1 AT_RISK, 2 BEHIND.",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    assert!(program.get("/health/live").contains(" 200 OK"));
    let ready = program.get("/health/ready");
    assert!(ready.contains(" 200 OK") && ready.contains("\"name\":\"store\""), "{ready}");
    program.terminate();
    assert_eq!(world.due_left_at(&user.url), 0);
}

#[test]
fn every_command_reaches_the_pruner_that_runs() {
    let user = User::new("rocksdb", "undo_blocks = 3");
    let world = World::make(&user.url, 4, None);
    let program = user.serve();
    let url = program.grpc_url();
    let ask = |args: &[&str]| user.json(&[&["pruner"], args, &["--connect", &url]].concat());
    let (code, _, told) = user.run(&["pruner", "run"]);
    assert_eq!(code, Some(4), "the store belongs to the server: {told}");
    assert!(told.contains("--connect"), "{told}");

    assert_eq!(ask(&["pause"]), json!({ "is_paused": true }));
    program.block(HEIGHT);
    until("the run is skipped", || !ask(&["jobs"])["items"].as_array().unwrap().is_empty());
    let status = ask(&["status"]);
    assert_eq!((&status["is_paused"], &status["backlog_state"]), (&json!(true), &json!("OK")));
    until("the reason is told", || ask(&["jobs"])["items"][0]["skip_reason"] == "paused");
    let said = ask(&["dry-run"]);
    assert_eq!(said["deleted"], 4);
    assert_eq!(ask(&["backlog"])["records"], 5);
    let why = ask(&["explain", &world.parent.to_string()]);
    assert_eq!(why["blocking"][0]["reason"], "child_young");

    assert_eq!(ask(&["resume"]), json!({ "is_paused": false }));
    program.wait_for(HEIGHT);
    program.block(HEIGHT + 1);
    program.wait_for(HEIGHT + 1);
    // Complete already, so there is nothing to wait for.
    let (code, out, told) = user.run(&["pruner", "run", "--connect", &url]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{told}");
    assert!(told.contains("complete up to height 339"), "{told}");
    assert_eq!(ask(&["restore", &world.due[0].to_string()])["restored"], 1);
    assert_eq!(ask(&["restore", "--height", "338"])["restored"], 3);
    let (code, _, told) = user.run(&["pruner", "run", "--height", "900", "--connect", &url]);
    assert_eq!(code, Some(4), "{told}");
    let (_, out, _) = user.run(&["pruner", "jobs", "--connect", &url]);
    assert!(out.contains("completed, 4 of 5 deleted"), "{out}");
    program.terminate();
}

#[test]
fn a_run_by_hand_is_waited_for() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 300, None);
    let program = user.serve();
    // Another program tells the store. The pruner may notice before the command asks.
    World::tell_height(&user.url, HEIGHT - 1);
    World::tell_height(&user.url, HEIGHT);
    let url = program.grpc_url();
    let (code, _, told) = user.run(&["pruner", "run", "--height", "338", "--connect", &url]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(world.due_left_at(&user.url), 0);
    let jobs = user.json(&["pruner", "jobs", "--connect", &url]);
    let job = &jobs["items"][0];
    assert_eq!((&job["state"], &job["report"]["deleted"]), (&json!("completed"), &json!(300)));
    program.terminate();
}

#[test]
fn heights_that_another_program_tells_the_store_start_a_run() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 30, None);
    let program = user.serve();
    World::tell_height(&user.url, HEIGHT - 1);
    World::tell_height(&user.url, HEIGHT);
    program.wait_for(HEIGHT);
    assert_eq!(world.due_left_at(&user.url), 0);
    program.terminate();
}

#[test]
fn the_program_ends_soon_after_it_is_asked_to_during_a_run() {
    let user = User::new("rocksdb", "chunk_rows = 1\nparallel_chunks = 1");
    let world = World::make(&user.url, 50_000, Some(HEIGHT));
    let program = user.serve();
    until("the run goes on", || program.status().deleted > 0);
    let took = program.terminate();
    // The run ends within a second; the rest is for a busy machine to close the database.
    assert!(took < Duration::from_secs(5), "{took:?}");
    let left = world.due_left_at(&user.url);
    assert!(left > 0 && left < 50_000, "{left}");
}

#[test]
fn after_kill_9_during_a_run_the_next_start_goes_on() {
    for engine in ["rocksdb", "sqlite"] {
        let user = User::new(engine, "chunk_rows = 1\nparallel_chunks = 1");
        let world = World::make(&user.url, 30_000, Some(HEIGHT));
        let program = user.serve();
        until("the run goes on", || program.status().deleted > 0);
        program.kill();
        let left = world.due_left_at(&user.url);
        assert!(left > 0 && left < 30_000, "{left}");

        user.configure("");
        let program = user.serve();
        program.wait_for(HEIGHT);
        assert_eq!(program.status().deleted, left as u64);
        program.terminate();
        assert_eq!(world.due_left_at(&user.url), 0);
        assert!(user.json(&["tx", "verify"])["clean"].as_bool().unwrap());
    }
}

#[test]
fn the_tip_of_the_chain_database_is_followed_if_so_configured() {
    let user = User::new("rocksdb", "follow_chain = true");
    let world = World::make(&user.url, 3, None);
    let (code, _, told) = user.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("follow_chain"), "{told}");
    // Side branches are among them, so the tip is lower.
    mine(&user.home.path().join("chain"), 400);
    let program = user.serve();
    until("the run at the tip is complete", || program.status().completed_height >= Some(298));
    let completed = program.status().completed_height;
    program.terminate();
    assert_eq!(world.due_left_at(&user.url), 0);

    mine(&user.home.path().join("chain"), 100);
    user.configure("follow_chain = false");
    let program = user.serve();
    std::thread::sleep(Duration::from_millis(700));
    let status = program.status();
    assert_eq!(status.completed_height, completed, "the store remembers it");
    assert_eq!(status.newest_height, completed, "and nobody tells another height");
    program.terminate();
}

#[test]
fn without_the_pruner_its_services_are_not_there() {
    let user = User::new("rocksdb", "enabled = false");
    let world = World::make(&user.url, 2, Some(HEIGHT));
    let program = user.serve();
    let url = program.grpc_url();
    let (code, _, told) = user.run(&["pruner", "status", "--connect", &url]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("has no pruner"), "{told}");
    assert!(program.get("/pruner/jobs").contains(" 404 "));
    assert!(program.get("/health/ready").contains(" 200 OK"));
    program.terminate();
    assert_eq!(world.due_left_at(&user.url), 2);
}
