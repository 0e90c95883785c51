//! `utxokeep pruner` on stores of both embedded engines.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use utxokeep::node_store;
use utxokeep_core::OpenMode;

use crate::pruner::{
    program::{User, until},
    world::{CHILD_STABLE, HEIGHT, World, config},
};

const ENGINES: [&str; 2] = ["rocksdb", "sqlite"];

#[test]
fn a_dry_run_says_what_the_run_then_does() {
    for engine in ENGINES {
        let user = User::new(engine, "");
        let world = World::make(&user.url, 5, Some(HEIGHT));
        let said = user.json(&["pruner", "dry-run"]);
        assert_eq!((&said["examined"], &said["deleted"]), (&json!(6), &json!(5)), "{said}");
        assert_eq!(said["kept"], json!({ "child_young": 1 }));
        assert!(said["bytes"].as_u64().unwrap() > 100, "{said}");
        assert_eq!(world.due_left_at(&user.url), 5, "a dry run changes nothing");

        let did = user.json(&["pruner", "run"]);
        assert_eq!(did["state"], "completed");
        for field in ["height", "examined", "deleted", "kept", "unreadable", "is_complete"] {
            assert_eq!(did["report"][field], said[field], "{engine} {field}");
        }
        assert_eq!(did["report"]["outputs_deleted"], 5);
        assert_eq!(world.due_left_at(&user.url), 0);

        let again = user.json(&["pruner", "run"]);
        assert_eq!(again["report"]["deleted"], 0);
        let ahead = user.json(&["pruner", "dry-run", "--height", "488"]);
        assert_eq!(ahead["deleted"], 1, "from then on the parent may go");
    }
}

#[test]
fn backlog_and_explain_say_what_is_due_and_what_keeps_it() {
    for engine in ENGINES {
        let user = User::new(engine, "");
        let world = World::make(&user.url, 3, Some(HEIGHT));
        let found = user.json(&["pruner", "backlog"]);
        assert_eq!((&found["records"], &found["oldest_height"]), (&json!(4), &json!(298)));
        let ages = found["ages"].as_array().unwrap();
        let of_age = |age: u64| {
            let found = ages.iter().find(|entry| entry["age_blocks_min"] == age).unwrap();
            found["records"].clone()
        };
        assert_eq!((of_age(0), of_age(6)), (json!(1), json!(3)), "{found}");

        let parent = world.parent.to_string();
        let why = user.json(&["pruner", "explain", &parent]);
        assert_eq!(why["can_be_deleted"], false);
        let child = world.child.to_string();
        let expected =
            json!([{ "reason": "child_young", "child": child, "until_height": CHILD_STABLE }]);
        assert_eq!(why["blocking"], expected);
        let later = user.json(&["pruner", "explain", &parent, "--height", "488"]);
        assert_eq!(later["can_be_deleted"], true);
        let coin = user.json(&["pruner", "explain", &world.coin.to_string()]);
        assert_eq!(coin["blocking"][0]["reason"], "output_unspent");

        let nobody = "ab".repeat(32);
        let (code, _, told) = user.run(&["pruner", "explain", &nobody]);
        assert_eq!(code, Some(3), "{told}");
        let (_, out, _) = user.run(&["pruner", "explain", &parent]);
        assert!(out.contains(&format!("child_young {child}, until height 488")), "{out}");
    }
}

#[test]
fn deleted_transactions_come_back_while_they_are_remembered() {
    for engine in ENGINES {
        let user = User::new(engine, "undo_blocks = 10");
        let world = World::make(&user.url, 4, Some(HEIGHT));
        let first = world.due[0].to_string();
        let (code, _, told) = user.run(&["pruner", "restore", &first]);
        assert_eq!(code, Some(3), "it is there: {told}");
        user.json(&["pruner", "run"]);
        assert_eq!(world.due_left_at(&user.url), 0);
        assert_eq!(user.json(&["pruner", "restore", &first])["restored"], 1);
        assert_eq!(world.due_left_at(&user.url), 1);
        let why = user.json(&["pruner", "explain", &first]);
        assert_eq!(why["blocking"][0]["reason"], "preserved", "{why}");
        let height = HEIGHT.to_string();
        assert_eq!(user.json(&["pruner", "restore", "--height", &height])["restored"], 3);
        assert_eq!(world.due_left_at(&user.url), 4);
        user.json(&["pruner", "run"]);
        assert_eq!(world.due_left_at(&user.url), 4, "what was restored stays for a while");
        assert!(user.json(&["tx", "verify"])["clean"].as_bool().unwrap());
    }
}

#[test]
fn a_restore_that_would_spend_an_output_twice_is_refused() {
    for engine in ENGINES {
        let user = User::new(engine, "undo_blocks = 10");
        let world = World::make(&user.url, 2, Some(HEIGHT));
        let open = || node_store::open(&user.url, &config(), OpenMode::Existing).unwrap();
        let first = world.spend_coin(&open());
        user.json(&["pruner", "run"]);
        let taker = world.spend_coin_again(&open(), first);
        let (name, height) = (first.to_string(), HEIGHT.to_string());
        for (args, restored) in [
            (["pruner", "restore", &name, "--json"].as_slice(), 0),
            (["pruner", "restore", "--height", &height, "--json"].as_slice(), 2),
        ] {
            let (code, out, told) = user.run(args);
            assert_eq!(code, Some(4), "{told}");
            assert!(told.contains("take those spends back"), "{told}");
            let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!((&answer["restored"], &answer["refused"]), (&json!(restored), &json!(1)));
            let input = &answer["inputs"][0];
            assert_eq!((&input["txid"], &input["vin"]), (&json!(name), &json!(0)), "{answer}");
            assert!(input["reason"].as_str().unwrap().contains(&taker.to_string()), "{answer}");
        }
        assert_eq!(world.due_left_at(&user.url), 2, "the others are there");
        world.give_coin_back(&open(), taker);
        assert_eq!(user.json(&["pruner", "restore", &name])["restored"], 1);
    }
}

#[test]
fn transactions_are_kept_until_the_height_that_is_asked_for() {
    for engine in ENGINES {
        let user = User::new(engine, "");
        let world = World::make(&user.url, 3, Some(HEIGHT));
        let [first, second] = [0, 1].map(|at| world.due[at].to_string());
        let nobody = "ab".repeat(32);
        let kept = user.json(&["pruner", "preserve", &first, &first, "--until", "400"]);
        assert_eq!(kept, json!({ "preserved": 1 }));
        let (code, out, told) =
            user.run(&["pruner", "preserve", &second, &nobody, "--until", "350"]);
        assert_eq!((code, out.as_str()), (Some(0), "preserved  1\n"), "{told}");
        assert!(told.contains("1 of them"), "{told}");
        let (code, _, told) = user.run(&["pruner", "preserve", &nobody, "--until", "350"]);
        assert_eq!(code, Some(3), "{told}");

        user.json(&["pruner", "run"]);
        assert_eq!(world.due_left_at(&user.url), 2);
        let why = user.json(&["pruner", "explain", &first]);
        assert_eq!(why["blocking"][0]["reason"], "preserved", "{why}");
        // When that is over, it is kept for the retention of 288 blocks once more.
        assert_eq!(why["blocking"][0]["until_height"], 688, "{why}");
    }
}

#[test]
fn a_running_pruner_is_asked_to_keep_transactions() {
    let user = User::new("sqlite", "");
    // It does not know a height yet, so it deletes nothing meanwhile.
    let world = World::make(&user.url, 1, None);
    let program = user.serve();
    let address = program.grpc_url();
    let txid = world.due[0].to_string();
    let kept = user.json(&["pruner", "preserve", &txid, "--until", "400", "--connect", &address]);
    assert_eq!(kept, json!({ "preserved": 1 }));
}

#[test]
fn without_undo_nothing_comes_back_and_the_command_says_how_to_change_that() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 1, Some(HEIGHT));
    user.json(&["pruner", "run"]);
    let (code, _, told) = user.run(&["pruner", "restore", &world.due[0].to_string()]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("undo_blocks"), "{told}");
}

#[test]
fn heights_are_asked_for_and_never_ahead_of_the_store() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 2, None);
    let (code, _, told) = user.run(&["pruner", "run"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("pruner confirm"), "{told}");
    for height in ["297", "4294967295"] {
        let (code, _, told) = user.run(&["pruner", "run", "--height", height]);
        assert_eq!(code, Some(4), "none is known: {told}");
    }
    assert_eq!(world.due_left_at(&user.url), 2);
    let (code, _, told) = user.run(&["pruner", "confirm", "297"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("another witness"), "{told}");
    World::tell_height(&user.url, 297);
    user.json(&["pruner", "run", "--height", "297"]);
    assert_eq!(world.due_left_at(&user.url), 2, "not due yet");

    World::make(&user.url.replace("store", "other"), 0, Some(HEIGHT));
    let other = user.url.replace("store", "other");
    let (code, _, told) = user.run(&["pruner", "run", "--store", &other, "--height", "339"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("338"), "{told}");
    let (code, _, told) = user.run(&["pruner", "restore"]);
    assert_eq!(code, Some(2), "neither transaction nor height: {told}");
    user.configure("min_height = 500");
    let (code, _, told) = user.run(&["pruner", "run", "--height", "250"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("below_min_height"), "{told}");
}

#[test]
fn a_run_by_hand_obeys_what_the_node_told_the_service() {
    for engine in ENGINES {
        let user = User::new(engine, "");
        let world = World::make(&user.url, 2, None);
        let program = user.serve();
        program.persisted(295);
        program.persisted(296);
        program.block(HEIGHT);
        program.assembly(false, HEIGHT);
        program.terminate();
        let (code, _, told) = user.run(&["pruner", "run", "--height", "338"]);
        assert_eq!(code, Some(4), "{told}");
        assert!(told.contains("296"), "{told}");
        let (code, _, told) = user.run(&["pruner", "run"]);
        assert_eq!(code, Some(4), "{told}");
        assert!(told.contains("assembly_timeout"), "{told}");
        assert_eq!(world.due_left_at(&user.url), 2);
        let forgotten = user.json(&["pruner", "forget-persister"]);
        assert_eq!(forgotten, json!({ "persister": false }));
        let program = user.serve();
        program.assembly(true, HEIGHT);
        program.wait_for(HEIGHT);
        program.terminate();
        assert_eq!(world.due_left_at(&user.url), 0);
    }
}

/// A service that starts does not know what the node does now; one that never will say so again is
/// forgotten by hand, and then runs go on.
#[test]
fn a_service_that_starts_waits_for_what_the_node_ever_reported() {
    for engine in ENGINES {
        let user = User::new(engine, "assembly_wait_ms = 0");
        let world = World::make(&user.url, 2, None);
        let program = user.serve();
        program.assembly(true, HEIGHT);
        program.terminate();
        // Two reports, as the first one jumps.
        World::tell_height(&user.url, HEIGHT - 1);
        World::tell_height(&user.url, HEIGHT);
        let program = user.serve();
        until("the run is skipped", || program.get("/pruner/jobs").contains("assembly_timeout"));
        let runs: Value =
            serde_json::from_str(&program.body("/api/v1/pruner/jobs?page_size=1")).unwrap();
        let by_hand =
            user.json(&["pruner", "jobs", "--page-size", "1", "--connect", &program.grpc_url()]);
        assert_eq!(runs, by_hand, "the same answer on every face");
        assert_eq!(runs["items"][0]["skip_reason"], "assembly_timeout");
        for wrong in ["page_size=0", "page_size=x", "limit=1"] {
            assert!(program.get(&format!("/pruner/jobs?{wrong}")).contains(" 400 "), "{wrong}");
        }
        let metrics = program.get("/metrics");
        for gauge in ["records", "due_records", "disk_bytes"] {
            let lines = metrics.lines();
            let name = format!("utxokeep_txstore_{gauge} ");
            let mut shown = lines.filter_map(|line| line.strip_prefix(&name));
            assert!(shown.next().is_some_and(|number| number != "0"), "{gauge}: {metrics}");
        }
        program.terminate();
        assert_eq!(world.due_left_at(&user.url), 2, "the node may be resetting now");
        let forgotten = user.json(&["pruner", "forget-node-state"]);
        assert_eq!(forgotten, json!({ "mined_set": false, "assembly": false }));
        let program = user.serve();
        program.wait_for(HEIGHT);
        program.terminate();
        assert_eq!(world.due_left_at(&user.url), 0);
    }
}

#[test]
fn commands_for_a_running_pruner_say_so_when_nobody_answers() {
    let user = User::new("sqlite", "listen = \"127.0.0.1:1\"\n[grpc]\nlisten = \"127.0.0.1:2\"");
    for command in ["status", "jobs", "pause", "resume"] {
        let (code, _, told) = user.run(&["pruner", command]);
        assert_eq!(code, Some(1), "{told}");
        for text in ["http://127.0.0.1:1", "http://127.0.0.1:2", "--connect", "pruner serve"] {
            assert!(told.contains(text), "{text} is missing: {told}");
        }
    }
    let (code, _, told) = user.run(&["pruner", "status", "--connect", "not an address"]);
    assert_eq!(code, Some(2), "{told}");
}

#[test]
fn ctrl_c_stops_at_the_next_chunk_and_the_next_run_goes_on() {
    let user = User::new("sqlite", "chunk_rows = 1\nparallel_chunks = 1");
    let world = World::make(&user.url, 30_000, Some(HEIGHT));
    let mut command = user.command(&["pruner", "run", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("pruning: "), "{line}");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let (mut out, mut told) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    let job: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(job["state"], "cancelled", "{job}");
    let deleted = job["report"]["deleted"].as_u64().unwrap();
    assert_eq!(world.due_left_at(&user.url) as u64, 30_000 - deleted);
    assert!(deleted > 0 && deleted < 30_000, "{job}");

    user.configure("");
    let rest = user.json(&["pruner", "run"]);
    assert_eq!(rest["report"]["deleted"], 30_000 - deleted);
    assert_eq!(world.due_left_at(&user.url), 0);
}

#[test]
fn a_server_that_asks_for_its_token_gets_it_from_our_own_commands() {
    let user = User::new("sqlite", "[server]\ngrpc_token_required = true");
    let program = user.serve();
    let status = user.json(&["pruner", "status", "--connect", &program.grpc().to_string()]);
    assert_eq!(status["is_ready"], true, "{status}");
    let elsewhere = user.home.path().join("elsewhere");
    fs::rename(user.home.path().join("chain/access-token"), &elsewhere).unwrap();
    let (code, _, told) = user.run(&["pruner", "status", "--connect", &program.grpc().to_string()]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("wants its token") && told.contains("token_file"), "{told}");
    let setting = format!("[server]\ntoken_file = {elsewhere:?}");
    user.configure(&setting);
    user.json(&["pruner", "status", "--connect", &program.grpc().to_string()]);
    fs::write(&elsewhere, "0123456789abcdef0123456789abcdef").unwrap();
    let (code, _, told) = user.run(&["pruner", "pause", "--connect", &program.grpc().to_string()]);
    assert_eq!(code, Some(4), "{told}");
}
