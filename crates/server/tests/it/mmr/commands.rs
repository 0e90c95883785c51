//! `chain mmr root`, `status`, `verify`, `rollback`: one root everywhere.

use super::*;

#[test]
fn one_root_in_every_answer_and_the_one_from_before_after_a_rollback() {
    let user = User::with_chain(MMR);
    let root = user.root();
    assert_eq!(root["rule"], "tombstone");
    assert_eq!(root["network"], "bitcoin/regtest");
    assert_eq!(root["height"], 300);
    let status = user.json(&["chain", "status"]);
    assert_eq!(status["store"], "mmr");
    assert_eq!(status["mmr"]["root"], root["root"]);
    assert_eq!(status["mmr"]["leaves"], root["leaves"]);
    assert_eq!(status["mmr"]["live_leaves"], status["utxo_count"]);
    assert_eq!(user.import(&[])["mmr_root"], root["root"]);
    assert_eq!(user.json(&["chain", "verify"])["mmr_root"], root["root"]);

    let earlier = user.root_at(290);
    assert_ne!(earlier["root"], root["root"]);
    let by_hash = earlier["block_hash"].as_str().unwrap();
    assert_eq!(user.json(&["chain", "mmr", "root", "--at", by_hash]), earlier);
    user.done(&["chain", "rollback", "290"]);
    assert_eq!(user.root(), earlier);
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
    assert_eq!(user.import(&[])["mmr_root"], root["root"]);
    assert_eq!(user.root(), root);
}

#[test]
fn the_log_of_a_block_and_of_an_import_names_the_root() {
    let user = User::new();
    user.configure(MMR);
    let import = ["chain", "import", "--no-bulk", "--network", "regtest", &blocks(), "-v"];
    let output = user.run(&import);
    let (told, root) = (told(&output), user.root());
    let root = format!("mmr_root={:?}", root["root"].as_str().unwrap());
    let line = |text: &str, height: u32| {
        let height = format!("height={height} ");
        told.lines().find(|line| line.contains(text) && line.contains(&height)).unwrap_or_default()
    };
    assert!(line("block connected", 300).contains(&root), "{root}: {}", line("connected", 300));
    assert!(line("imported", 300).contains(&root), "{}", line("imported", 300));
    let classic = User::new();
    let output = classic.run(&import);
    assert!(!self::told(&output).contains("mmr_root"));
}

#[test]
fn an_output_or_a_block_that_cannot_be_answered_is_refused_by_its_reason() {
    let user = User::with_chain(MMR);
    let prove = |output: &[&str], at: &[&str]| -> Vec<String> {
        [&["chain", "mmr", "prove"], output, at].concat().into_iter().map(str::to_owned).collect()
    };
    let cases = [
        (3, prove(&[NEVER, "0"], &[]), "never created on this chain, or it was spent so long ago"),
        (3, prove(&LIVE, &["--at", "20"]), "the output was created later, by the block at height"),
        (4, prove(&LIVE, &["--at", "301"]), "height 301 is not inside the window: roots are known"),
        (4, prove(&LIVE, &["--at", "3"]), "height 3 is not inside the window"),
        (3, prove(&LIVE, &["--at", NEVER]), "is not on the followed chain"),
        (2, prove(&LIVE, &["--at", "slot:7"]), "bitcoin/regtest has no slots"),
        (2, prove(&[LIVE[0]], &[]), "expected an output: TXID INDEX, or TXID:INDEX"),
        (2, prove(&["abc:1"], &[]), "expected an output: TXID INDEX, or TXID:INDEX"),
        (2, prove(&["abc:x"], &[]), "expected an output"),
    ];
    for (code, words, expected) in cases {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let error = user.refused(code, &words);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
    let classic = User::with_chain("");
    for words in [vec!["chain", "mmr", "root"], vec!["chain", "mmr", "prove", LIVE[0], LIVE[1]]] {
        let error = classic.refused(4, &words);
        assert!(error.contains("keeps no Merkle mountain range; build it with `chain mmr enable`"));
    }
    let empty = User::new();
    assert!(empty.refused(4, &["chain", "mmr", "root"]).contains("there is no database at"));
}

/// The stream has the root behind each block.
#[test]
fn watching_prints_the_root_behind_each_block() {
    let user = User::with_chain(MMR);
    let watch = ["chain", "watch", "--from-height", "289"];
    let lines = user.done(&[&watch[..], &["--json"]].concat());
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last_of = |height: u64| {
        let is_it = |event: &&Value| event["block"]["height"] == height && event["is_last"] == true;
        events.iter().find(is_it).unwrap()
    };
    for (height, root) in [(290, user.root_at(290)), (300, user.root())] {
        let event = last_of(height);
        assert_eq!(event["mmr_root"], root["root"]);
        assert_eq!(event["mmr_leaves"], root["leaves"]);
    }
    let text = user.done(&watch);
    let root = user.root();
    assert!(text.contains(&format!("; mmr root {}; cursor", root["root"].as_str().unwrap())));
}

/// A proof is checked before it is printed.
#[test]
fn a_damaged_tree_gives_no_proof_and_is_found_by_verify() {
    use utxokeep_index::tables::{TABLES, ids::MMR_NODES};
    use utxokeep_kv::{
        Batch, Durability, Kv as _, OpenMode, Read as _, RocksKv, RocksOptions, Scan,
    };

    let user = User::with_chain(MMR);
    {
        let options = RocksOptions::within(16 << 20);
        let kv = RocksKv::open(&user.path("data"), TABLES, options, OpenMode::Existing).unwrap();
        let mut batch = Batch::new();
        kv.scan(MMR_NODES, &Scan::ALL, &mut |key, value| {
            let mut damaged = value.to_vec();
            *damaged.last_mut().unwrap() ^= 1;
            batch.put(MMR_NODES, key, &damaged);
            true
        })
        .unwrap();
        kv.commit(batch, Durability::Synced).unwrap();
    }
    let prove = ["chain", "mmr", "prove", LIVE[0], LIVE[1]];
    for words in [prove.to_vec(), [&prove[..], &["--at", "290"]].concat()] {
        let error = user.refused(5, &words);
        assert!(error.contains("run `utxokeep chain verify`"), "{error}");
    }
    let output = user.run(&["chain", "verify"]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let server = user.serve();
    let path = format!("/api/v1/mmr/proof/{}/{}", LIVE[0], LIVE[1]);
    let reply = crate::http::Reply::parse(&server.get(&path));
    assert_eq!(reply.status, 500, "{}", reply.text);
    server.stop();
}

/// Where nothing was deleted yet, the index can tell.
#[test]
fn an_output_that_never_existed_is_told_from_one_spent_long_ago_while_all_is_kept() {
    let user = User::new();
    user.configure(&format!("{MMR}rollback_window_blocks = 1000\n"));
    user.import(&["--no-bulk"]);
    let error = user.refused(3, &["chain", "mmr", "prove", NEVER, "0"]);
    assert!(error.contains("no block of this chain has created it"), "{error}");
}

/// Every line for people fits an ordinary terminal; only the bytes of an output may be longer.
#[test]
fn output_for_people_fits_80_columns() {
    let user = User::with_chain(MMR);
    let proof = ["chain", "mmr", "prove", LIVE[0], LIVE[1], "--out", "proof.json"];
    let mut texts = vec![user.done(&["chain", "mmr", "root"]), user.done(&proof)];
    texts.push(user.done(&["chain", "mmr", "check", "proof.json"]));
    let root = user.root()["root"].as_str().unwrap().to_owned();
    texts.push(user.done(&["chain", "mmr", "check", "proof.json", "--root", &root]));
    texts.push(user.done(&["chain", "mmr", "disable"]));
    texts.push(user.done(&["chain", "mmr", "enable", &blocks()]));
    for line in texts.iter().flat_map(|text| text.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
