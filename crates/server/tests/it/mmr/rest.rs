//! `mmr/root` and `mmr/proof` over REST.

use super::*;
use crate::http::Reply;

const OUTSIDE: &str = "outside_window";

fn path(output: [&str; 2], query: &str) -> String {
    format!("/api/v1/mmr/proof/{}/{}{query}", output[0], output[1])
}

#[test]
fn rest_answers_the_same_documents_as_the_commands() {
    let user = User::with_chain(MMR);
    let (root, earlier) = (user.root(), user.root_at(290));
    let proof = user.json(&["chain", "mmr", "prove", LIVE[0], LIVE[1]]);
    let then = user.json(&["chain", "mmr", "prove", LIVE[0], LIVE[1], "--at", "299"]);
    user.prove(LIVE, "proof.cbor", &["--format", "cbor"]);
    // The server holds the database as long as it runs.
    let commands = [("", vec![]), ("?at=290", vec!["--at", "290"])].map(|(query, words)| {
        (query, user.done(&[&["chain", "mmr", "root", "--json"], &words[..]].concat()))
    });
    let server = user.serve();
    let get = |path: &str| Reply::parse(&server.get(path));
    assert_eq!(root["point"]["hash"], root["block_hash"]);
    for (query, command) in commands {
        let answer = get(&format!("/api/v1/mmr/root{query}"));
        assert_eq!(answer.text.trim_end(), command.trim_end(), "byte for byte");
    }
    assert_eq!(get("/api/v1/mmr/root?at=290").json(), earlier);

    let reply = get(&path(LIVE, ""));
    assert_eq!(reply.json(), proof);
    // The rule is part of the tag: a tree that is built with another one has other roots.
    let tag = format!("{}-tombstone", root["block_hash"].as_str().unwrap());
    assert!(reply.headers.contains(&format!("etag: \"{tag}\"")), "{}", reply.headers);
    let again = server.send("GET", &path(LIVE, ""), &format!("If-None-Match: \"{tag}\"\r\n"), "");
    assert_eq!(again.status, 304);
    let unknown = path([NEVER, "0"], "");
    let refused = server.send("GET", &unknown, &format!("If-None-Match: \"{tag}\"\r\n"), "");
    assert_eq!(refused.status, 404, "a tag does not hide a refusal");
    assert_eq!(get(&path(LIVE, "?at=299")).json(), then);
    assert_eq!(get(&path(SPENT, "")).json()["state"], "spent");
    // A saved answer is what `check` takes, and so is the root.
    fs::write(user.path("proof.json"), &reply.text).unwrap();
    fs::write(user.path("root.json"), get("/api/v1/mmr/root").text).unwrap();
    user.done(&["chain", "mmr", "check", "proof.json", "--root", "root.json"]);

    let status = get("/api/v1/status").json();
    assert_eq!(status["mmr"]["root"], root["root"]);
    let metric = |name| server.metric(name).unwrap().to_string();
    assert_eq!(metric("utxokeep_index_mmr_leaves"), root["leaves"].to_string());
    assert_eq!(metric("utxokeep_index_mmr_live_leaves"), status["utxo_count"].to_string());
    assert_eq!(metric("utxokeep_index_mmr_nodes"), status["mmr"]["nodes"].to_string());
    server.stop();
}

#[test]
fn every_refusal_has_its_own_code() {
    let user = User::with_chain(&format!("{MMR}[rest]\nmmr_proof_changes_max = 5\n"));
    let server = user.serve();
    let refused = |path: &str, status: u16, code: &str| {
        let reply = Reply::parse(&server.get(path));
        reply.bad(status, code)
    };
    refused(&path([NEVER, "0"], ""), 404, "unknown_output");
    refused(&path(LIVE, "?at=20"), 404, "not_created_yet");
    let outside = refused(&path(LIVE, "?at=301"), 400, OUTSIDE);
    assert_eq!((&outside["floor"], &outside["tip"]), (&12.into(), &300.into()));
    refused("/api/v1/mmr/root?at=3", 400, OUTSIDE);
    refused(&format!("/api/v1/mmr/root?at={NEVER}"), 404, "unknown_block");
    let work = refused(&path(LIVE, "?at=200"), 400, "too_much_work");
    assert!(work["message"].as_str().unwrap().contains("more than 5 changes"), "{work}");
    refused(&path(LIVE, "?format=xml"), 400, "bad_parameter");
    refused(&path(LIVE, "?when=1"), 400, "bad_parameter");
    refused(&path(["abc", "0"], ""), 400, "bad_output");
    refused(&path([LIVE[0], "-1"], ""), 400, "bad_output");
    // The tip costs nothing, whatever the limit.
    assert_eq!(Reply::parse(&server.get(&path(LIVE, ""))).status, 200);
    server.stop();

    let classic = User::with_chain("");
    let server = classic.serve();
    for path in ["/api/v1/mmr/root".to_owned(), path(LIVE, "")] {
        let error = Reply::parse(&server.get(&path)).bad(501, "mmr_disabled");
        assert!(error["message"].as_str().unwrap().contains("`chain mmr enable`"), "{error}");
    }
    assert_eq!(server.metric("utxokeep_index_mmr_leaves"), None);
    server.stop();
}
