//! Operations of the node store and the pruner: `--json` and REST answer with the same bytes.

use std::collections::BTreeMap;

use serde_json::Value;
use utxokeep::ops::{pruner, transactions};

use super::{Listed, Table, command_of, route_of};
use crate::pruner::{
    program::User,
    world::{HEIGHT, World},
};

type Questions = BTreeMap<&'static str, Vec<(&'static str, String)>>;

/// What a command prints for a question.
fn printed(user: &User, listed: &Listed, questions: &Questions, more: &[&str]) -> String {
    let words = command_of(listed, &questions[listed.about.command]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, out, told) = user.run(&[&words, more, &["--json"]].concat());
    assert_eq!(code, Some(0), "{words:?}: {told}");
    out
}

/// An answer without what differs from moment to moment.
fn without_size(text: &str) -> Value {
    let mut json: Value = serde_json::from_str(text).unwrap();
    json.as_object_mut().unwrap().remove("disk_bytes");
    json
}

#[test]
fn a_transaction_is_shown_over_rest_as_on_the_command_line() {
    let user = User::new("sqlite", "enabled = false");
    let world = World::make(&user.url, 3, Some(HEIGHT));
    let parent = || ("tx_hash", world.parent.to_string());
    let questions = Questions::from([
        ("tx show", vec![parent()]),
        ("tx explain", vec![parent(), ("height", "338".to_owned())]),
        ("tx lock", vec![parent()]),
        ("tx status", vec![]),
    ]);
    let mut table = Table::default();
    transactions::operations(&mut table);
    assert_eq!(table.0.len(), questions.len(), "every operation is asked here");
    let printed: Vec<String> =
        table.0.iter().map(|listed| printed(&user, listed, &questions, &[])).collect();
    let program = user.serve();
    for (listed, text) in table.0.iter().zip(printed) {
        let command = listed.about.command;
        let body = program.body(&route_of(&listed.about, &questions[command]));
        if command == "tx status" {
            assert_eq!(without_size(&text), without_size(&body));
        } else {
            assert_eq!(text, body + "\n", "{command}");
        }
    }
    let nobody = program.get(&format!("/api/v1/transactions/{}", "ab".repeat(32)));
    assert!(nobody.contains(" 404 ") && nobody.contains("unknown_transaction"), "{nobody}");
    let wrong = program.get("/api/v1/transactions/xyz");
    assert!(wrong.contains(" 400 ") && wrong.contains("64 hexadecimal digits"), "{wrong}");
    let unknown = program.get(&format!("/api/v1/transactions/{}?hight=3", world.parent));
    assert!(unknown.contains("there is no parameter hight here"), "{unknown}");
    program.terminate();
}

#[test]
fn the_pruner_is_asked_over_rest_as_on_the_command_line() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 3, Some(HEIGHT));
    let program = user.serve();
    program.wait_for(HEIGHT);
    let questions = Questions::from([
        ("pruner status", vec![]),
        ("pruner jobs", vec![("page_size", "3".to_owned())]),
        ("pruner dry-run", vec![("height", "488".to_owned())]),
        ("pruner backlog", vec![]),
        ("pruner explain", vec![("tx_hash", world.parent.to_string())]),
    ]);
    let mut table = Table::default();
    pruner::operations(&mut table);
    assert_eq!(table.0.len(), questions.len(), "every operation is asked here");
    for listed in &table.0 {
        let command = listed.about.command;
        let text = printed(&user, listed, &questions, &["--connect", &program.grpc_url()]);
        let body = program.body(&route_of(&listed.about, &questions[command]));
        assert_eq!(text, body + "\n", "{command}");
    }
    program.terminate();
    // The same store without a pruner that runs.
    for listed in table.0.iter().filter(|listed| listed.about.command != "pruner status") {
        let text = printed(&user, listed, &questions, &["--store", &user.url]);
        assert!(text.starts_with('{'), "{text}");
    }
}
