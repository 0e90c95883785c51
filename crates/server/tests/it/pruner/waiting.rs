//! A run that does not start says what it waits for, with the same words on every face.

use serde_json::{Value, json};
use utxokeep_server::grpc::proto::{self, chain_events_client::ChainEventsClient};

use crate::pruner::{
    program::{Program, User, until},
    world::{HEIGHT, World},
};

/// What the next run waits for: reason and sentence, as each face tells it.
fn waits_for(user: &User, program: &Program) -> Value {
    let one = |one: &proto::PrunerWaiting| json!({ "reason": one.reason, "detail": one.detail });
    let over_grpc: Vec<Value> = program.status().waits_for.iter().map(one).collect();
    let over_rest: Value = serde_json::from_str(&program.body("/health/ready")).unwrap();
    let typed = user.json(&["pruner", "status", "--connect", &program.grpc_url()]);
    assert_eq!(over_rest["pruner_waits_for"], json!(over_grpc));
    assert_eq!(typed["waits_for"], json!(over_grpc));
    json!(over_grpc)
}

/// Waits until exactly these reasons are told; answers their sentences.
fn until_waiting(user: &User, program: &Program, reasons: &[&str]) -> String {
    let named = || -> Vec<String> {
        program.status().waits_for.into_iter().map(|one| one.reason).collect()
    };
    until(&format!("{reasons:?}"), || named() == reasons);
    let told = waits_for(user, program);
    let details = told.as_array().unwrap().iter().map(|one| one["detail"].as_str().unwrap());
    details.collect::<Vec<_>>().join("\n")
}

fn marked(program: &Program, height: u32, mined_set: u32) {
    let mut client = ChainEventsClient::new(program.channel());
    let mined_set_height = Some(mined_set);
    let request = proto::ChainEventsBlockRequest { height, mined_set_height, is_catching_up: None };
    program.runtime.block_on(client.block(request)).unwrap();
}

#[test]
fn a_run_that_waits_says_for_what_on_every_face() {
    let user = User::new("rocksdb", "gate_poll_ms = 5");
    World::make(&user.url, 1, None);
    let program = user.serve();
    let told = |reasons: &[&str]| until_waiting(&user, &program, reasons);
    assert!(told(&["no_height"]).contains("ChainEvents.Block"));
    program.one_block(HEIGHT);
    assert!(told(&["held_height"]).contains("pruner confirm"));
    program.block(HEIGHT + 1);
    program.wait_for(HEIGHT + 1);
    told(&[]);

    program.persisted(HEIGHT + 1);
    program.block(HEIGHT + 6);
    let text = told(&["persister_behind"]);
    assert!(text.contains("reached height 339, the chain 344"), "{text}");
    marked(&program, HEIGHT + 6, HEIGHT + 4);
    program.assembly(false, HEIGHT + 6);
    program.persisted(HEIGHT + 5);
    let text = told(&["mined_set", "assembly"]);
    assert!(text.contains("up to height 342, the run needs 343"), "{text}");
    assert!(text.contains("block assembly is not running"), "{text}");
    marked(&program, HEIGHT + 6, HEIGHT + 6);
    told(&["assembly"]);
    program.assembly(true, HEIGHT + 6);
    program.wait_for(HEIGHT + 5);

    user.json(&["pruner", "pause", "--connect", &program.grpc_url()]);
    assert!(told(&["paused", "persister_behind"]).contains("pruner resume"));
    let (_, out, _) = user.run(&["pruner", "status", "--connect", &program.grpc_url()]);
    assert!(out.contains("waits for") && out.contains("the pruner is paused"), "{out}");
    program.terminate();

    let program = user.serve();
    program.persisted(HEIGHT + 6);
    let text = until_waiting(&user, &program, &["paused", "mined_set", "assembly"]);
    assert_eq!(text.matches("since this service started").count(), 2, "{text}");
    let (code, _, told) = user.run(&["pruner", "run", "--connect", &program.grpc_url()]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("the pruner is paused"), "{told}");
    program.terminate();
}

#[test]
fn a_mode_that_needs_a_persister_says_that_it_waits_for_one() {
    let user = User::new("sqlite", "trigger = \"block_persisted\"");
    World::make(&user.url, 1, Some(HEIGHT));
    let program = user.serve();
    let told = until_waiting(&user, &program, &["persister_silent"]);
    assert!(told.contains("pruner forget-persister"), "{told}");
    program.persisted(HEIGHT);
    program.wait_for(HEIGHT);
    until_waiting(&user, &program, &[]);
    program.terminate();
}
