//! The program as a user meets it, on a chain that a real Bitcoin Core made.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use utxokeep_chains::{BlockFileWriter, BlockSource, write_block_file};
use utxokeep_core::hex_decode;
use utxokeep_index::tables::{
    CLASSIC_TABLES, TABLES,
    ids::{ADDR, BLOCKS, META, UNSPENT},
};
use utxokeep_kv::{Batch, Durability, Kv, OpenMode, Read, RocksKv, RocksOptions, Scan, TableId};
use utxokeep_testkit::{RegtestA, Truth};

use crate::program::{told, utxokeep};

const TIP: &str = "117c39be64ec6a1b7e5c4cec0816434e1bd6a9e7ae0b645b3bbef6ae3f1d36f2";
const LIVE: &str = "309a9a28adf0a49069bf6db873423da5948b7c4110fe50c0f80125d41e1f8a12:5790";
const SPENT: &str = "7adcf544e10eba6d855fa6e4f0f78161b484a27d2abfe2133a7a127ec86b5747:2";
/// A script with 123 outputs at the tip.
const SCRIPT: &str = "512092b5497a3233a7c24ecf62487d62778b83fc237502557947ba82146a8ab02e50";

/// A data directory, and the program pointed at it.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: TempDir::new().unwrap() }
    }

    fn with_chain() -> Self {
        let user = Self::new();
        user.import(&[]);
        user
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = utxokeep(args);
        command.current_dir(self.home.path()).env("UTXOKEEP_DATA", self.data());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; stdout is JSON, stderr at most progress.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        let said = told(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        let is_progress = |line: &str| {
            ["reading: ", "importing: ", "verifying: "].iter().any(|what| line.starts_with(what))
        };
        assert!(said.lines().all(is_progress), "{args:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that must fail without a result; answers what it complains about.
    fn refused(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        told(&output)
    }

    fn import(&self, args: &[&str]) -> Value {
        let blocks = RegtestA::default().path("blocks.dat.xz");
        let import = ["chain", "import", "--network", "regtest", blocks.to_str().unwrap()];
        self.json(&[&import, args].concat())
    }

    fn engine(&self) -> RocksKv {
        RocksKv::open(
            &self.data(),
            &TABLES[..CLASSIC_TABLES],
            RocksOptions::within(16 << 20),
            OpenMode::Existing,
        )
        .unwrap()
    }
}

fn truth_at(height: usize) -> (String, Truth) {
    let data = RegtestA::default();
    let hash = data.active_chain()[height];
    let truth = data.truth_by_hash().remove(&hash).unwrap();
    (hash.to_reversed_hex(), truth)
}

fn assert_is_truth(digest: &Value, height: usize) {
    let (hash, truth) = truth_at(height);
    assert_eq!(digest["point"]["height"], height);
    assert_eq!(digest["point"]["hash"], hash);
    assert_eq!(digest["utxo_count"], truth.txouts);
    assert_eq!(digest["bogosize"], truth.bogosize);
    // The node prints coins, and every face here the smallest unit.
    let sum = truth.total_amount.replace('.', "");
    assert_eq!(digest["total_amount"], sum.trim_start_matches('0'));
    assert_eq!(digest["muhash"], truth.muhash);
}

#[test]
fn import_ends_at_the_nodes_tip_and_digest() {
    let user = User::new();
    let report = user.import(&[]);
    assert_eq!(report["network"], "regtest");
    assert_eq!(report["height"], 300);
    assert_eq!(report["best_hash"], TIP);
    assert_eq!(report["txouts"], 30_690);
    assert_eq!(report["refused"], json!([]));
    assert_eq!(report["waiting"], 0);
    assert_eq!(report["scan"]["blocks"], 362);
    let (connected, undone) = (&report["connected"], report["disconnected"].as_u64().unwrap());
    assert_eq!(*connected, 300 + undone);

    let digest = user.json(&["chain", "digest", "--audit"]);
    assert_is_truth(&digest, 300);
    assert_eq!(
        digest["muhash"],
        "cba5cb1c47066b0c13b121091f0b4523415d03a35dce32fe2bc39809d6900cb2"
    );
    assert_eq!(
        digest["hash_serialized_3"],
        "b15b3587225a7272bd5ef2e4d6c67bfedce5666c93df563f23bd4157d61e802d"
    );
    assert_eq!((&digest["bogosize"], &digest["is_scanned"]), (&json!(1_729_714), &json!(true)));
}

#[test]
fn status_says_what_the_database_is() {
    let user = User::with_chain();
    let status = user.json(&["chain", "status"]);
    let expected = json!({
        "chain": "bitcoin", "network": "regtest", "height": 300, "best_hash": TIP,
        "utxo_count": 30_690, "total_amount": "1121249998454",
        "rollback_floor": 12, "format_version": 1, "is_index_enabled": true, "index_state": "on",
        "indexes": ["address_hash"], "is_muhash_kept": false,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(status[name], *value, "{name}");
    }
    let tables = status["tables"].as_array().unwrap();
    assert_eq!(tables.len(), CLASSIC_TABLES);
    assert!(tables.iter().any(|t| t["name"] == "utxo_unspent" && t["rows_estimate"] != 0));

    let human = user.run(&["chain", "status"]);
    let text = String::from_utf8(human.stdout).unwrap();
    assert!(text.starts_with("network         bitcoin/regtest\nheight          300\n"), "{text}");
}

#[test]
fn digest_at_any_height_of_the_window_is_the_nodes() {
    let user = User::with_chain();
    for height in [12, 250, 299] {
        assert_is_truth(&user.json(&["chain", "digest", "--at", &height.to_string()]), height);
    }
    for height in ["11", "301"] {
        let error = user.refused(4, &["chain", "digest", "--at", height]);
        assert!(error.contains("the window reaches from 12 to 300"), "{error}");
    }
}

#[test]
fn kept_accumulators_answer_without_a_scan() {
    let user = User::new();
    let config = user.write("muhash.toml", "[index]\nmuhash = true\n");
    user.import(&["--config", config.to_str().unwrap()]);
    // The switch is part of the database from now on: no configuration is needed.
    for height in [12, 300] {
        let digest = user.json(&["chain", "digest", "--at", &height.to_string()]);
        assert_is_truth(&digest, height);
        assert_eq!(digest["is_scanned"], false);
    }
    assert_is_truth(&user.json(&["chain", "digest", "--audit"]), 300);
}

#[test]
fn rollback_and_import_again_come_back_to_the_same_set() {
    let user = User::with_chain();
    let dry = user.json(&["chain", "rollback", "250", "--dry-run"]);
    assert_eq!((&dry["blocks_undone"], &dry["dry_run"]), (&json!(50), &json!(true)));
    assert_eq!(user.json(&["chain", "status"])["height"], 300);

    let real = user.json(&["chain", "rollback", "250"]);
    assert_eq!((&real["blocks_undone"], &real["dry_run"]), (&json!(50), &json!(false)));
    assert_eq!(real["best_hash"], dry["best_hash"]);
    assert_is_truth(&user.json(&["chain", "digest"]), 250);

    assert_eq!(user.import(&[])["connected"], 50);
    assert_is_truth(&user.json(&["chain", "digest"]), 300);
    let again = user.import(&["--no-bulk"]);
    assert_eq!((&again["connected"], &again["height"]), (&json!(0), &json!(300)));
    assert_is_truth(&user.json(&["chain", "digest"]), 300);
}

#[test]
fn rollback_outside_the_window_is_refused_and_names_the_floor() {
    let user = User::with_chain();
    for flags in [&[][..], &["--dry-run"]] {
        let error = user.refused(4, &[&["chain", "rollback", "11"], flags].concat());
        assert!(error.contains("the deepest height that can be reached is 12"), "{error}");
        let error = user.refused(4, &[&["chain", "rollback", "301"], flags].concat());
        assert!(error.contains("the tip is at 300"), "{error}");
    }
    assert_is_truth(&user.json(&["chain", "digest"]), 300);
}

#[test]
fn outputs_are_shown_live_spent_or_unknown() {
    let user = User::with_chain();
    let show = |outpoint: &'static str| ["utxo", "show", outpoint];
    let live = user.json(&show(LIVE));
    assert_eq!((&live["amount"], &live["block"]), (&json!("150"), &json!(136)));
    assert_eq!(live["point"]["hash"], TIP);
    assert!(live.get("spent_tx_hash").is_none());

    let spent = user.json(&show(SPENT));
    assert_eq!(spent["spent_at_block"], 120);
    assert_eq!(
        spent["spent_tx_hash"],
        "a6d04c7e0bf03130f36164521116a6804af7461d706fc188dbe633119c4cd246"
    );
    let earlier = user.json(&[&show(SPENT)[..], &["--at", "119"]].concat());
    assert!(earlier.get("spent_tx_hash").is_none());
    assert_eq!(earlier["point"]["height"], 119);

    let error = user.refused(3, &[&show(SPENT)[..], &["--at", "118", "--json"]].concat());
    assert!(error.contains("is not known at height 118"), "{error}");
    user.refused(3, &["utxo", "show", &LIVE.replace(":5790", ":4294967295")]);
}

#[test]
fn pages_by_number_and_by_cursor_are_the_whole_list() {
    let user = User::with_chain();
    let all = user.json(&["address", "utxos", SCRIPT, "--page-size", "1000"]);
    let all = all["items"].as_array().unwrap();
    assert_eq!(all.len(), 123);
    let list = ["address", "utxos", SCRIPT, "--page-size", "50"];

    for (order, expected) in [("asc", all.clone()), ("desc", all.iter().rev().cloned().collect())] {
        let (mut by_cursor, mut by_page) = (Vec::new(), Vec::new());
        let mut cursor: Option<String> = None;
        for page in ["1", "2", "3"] {
            let numbered = user.json(&[&list[..], &["--order", order, "--page", page]].concat());
            by_page.extend(numbered["items"].as_array().unwrap().clone());
            let behind = cursor.iter().flat_map(|text| ["--cursor", text]).collect::<Vec<_>>();
            let answer = user.json(&[&list[..], &["--order", order], &behind].concat());
            by_cursor.extend(answer["items"].as_array().unwrap().clone());
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
        }
        assert_eq!(cursor, None);
        assert_eq!(by_cursor, expected);
        assert_eq!(by_page, expected);
    }

    let sum: u64 = all.iter().map(|u| u["amount"].as_str().unwrap().parse::<u64>().unwrap()).sum();
    let balance = user.json(&["address", "balance", SCRIPT]);
    assert_eq!(balance["amount"], sum.to_string());
    assert_eq!(balance["utxo_count"], 123);
    let address = all[0]["owner_addr"].as_str().unwrap();
    assert_eq!(user.json(&["address", "balance", address]), balance);
    let earlier = user.json(&["address", "balance", SCRIPT, "--at", "12"]);
    assert_eq!((&earlier["utxo_count"], &earlier["point"]["height"]), (&json!(0), &json!(12)));
    let hash = truth_at(12).0;
    assert_eq!(user.json(&["address", "balance", SCRIPT, "--at", &hash]), earlier);
    user.refused(2, &["address", "balance", SCRIPT, "--at", "slot:12"]);

    let first = user.json(&list);
    let behind = ["--cursor", first["next_cursor"].as_str().unwrap()];
    user.json(&[&list[..], &behind].concat());
    user.refused(2, &[&list[..], &behind, &["--at", "12"]].concat());
    let other_order = [&list[..], &behind, &["--order", "desc"]].concat();
    let other_owner = ["address", "utxos", "51", behind[0], behind[1]];
    for other in [&other_order[..], &other_owner] {
        let error = user.refused(2, other);
        assert!(error.contains("made by another question"), "{error}");
    }
    user.json(&["chain", "rollback", "299"]);
    let error = user.refused(4, &[&list[..], &behind].concat());
    assert!(error.contains("no longer, on the followed chain"), "{error}");
}

#[test]
fn a_block_that_breaks_a_rule_is_reported_and_changes_nothing() {
    let user = User::with_chain();
    user.json(&["chain", "rollback", "224"]);
    let text = RegtestA::default().text("invalid_blocks.jsonl");
    let invalid: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let raw = hex_decode(invalid["raw"].as_str().unwrap()).unwrap();
    let file = user.home.path().join("invalid.dat");
    write_block_file(&file, RegtestA::NETWORK, [raw]).unwrap();

    let output = user.run(&["chain", "import", "--json", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "nothing could be used");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["height"], &report["refused"][0]["height"]), (&json!(224), &json!(225)));
    let said = told(&output);
    assert!(said.contains("warning: block ") && said.contains("was refused: "), "{said}");
    assert_is_truth(&user.json(&["chain", "digest"]), 224);
}

#[test]
fn a_damaged_block_file_does_not_end_with_code_0() {
    let user = User::new();
    let mut blocks = RegtestA::default().block_files();
    let mut raws = Vec::new();
    while let Some(header) = blocks.next().unwrap() {
        raws.push(blocks.raw(&header.hash).unwrap());
    }
    let file = user.home.path().join("blk00000.dat");
    let import = ["chain", "import", "--network", "regtest", "--json", file.to_str().unwrap()];
    let run = |what: &str, raws: &[Vec<u8>], harm: &dyn Fn(&mut Vec<u8>)| {
        write_block_file(&file, RegtestA::NETWORK, raws).unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        harm(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        let output = user.run(&import);
        assert_eq!(output.status.code(), Some(5), "{what}: {output:?}");
        assert!(told(&output).contains("fetch them again"), "{what}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    // Inside the first transaction, inside a header, and between two blocks.
    let first_len = raws[0].len();
    let report = run("a body", &raws[..50], &|bytes| bytes[8 + first_len + 8 + 100] ^= 1);
    assert_eq!(report["refused"][0]["damaged"], true);
    let report = run("the first block", &raws[..50], &|bytes| bytes[8 + 150] ^= 1);
    assert_eq!(report["refused"][0]["height"], 0);
    run("a header", &raws[..50], &|bytes| bytes[8 + first_len + 8 + 10] ^= 1);
    run("a frame", &raws[..50], &|bytes| bytes[8 + first_len] ^= 1);
    // Sound files heal it.
    write_block_file(&file, RegtestA::NETWORK, &raws).unwrap();
    let healed = user.json(&["chain", "import", "--network", "regtest", file.to_str().unwrap()]);
    assert_eq!(healed["best_hash"], TIP);
}

#[test]
fn an_import_that_finds_nothing_new_is_done_and_one_without_blocks_is_refused() {
    let user = User::with_chain();
    user.json(&["chain", "rollback", "224"]);
    let text = RegtestA::default().text("invalid_blocks.jsonl");
    let invalid: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let mut raws = vec![hex_decode(invalid["raw"].as_str().unwrap()).unwrap()];
    let mut blocks = RegtestA::default().block_files();
    while let Some(header) = blocks.next().unwrap() {
        raws.push(blocks.raw(&header.hash).unwrap());
    }
    let file = user.home.path().join("all.dat");
    write_block_file(&file, RegtestA::NETWORK, &raws).unwrap();
    let import = ["chain", "import", file.to_str().unwrap()];
    let connected = || {
        let output = user.run(&[&import[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["connected"].as_u64().unwrap()
    };
    assert!(connected() > 0);
    assert_eq!(connected(), 0, "the second time there is nothing to do");
    for bytes in [Vec::new(), vec![0; 1 << 16]] {
        std::fs::write(&file, bytes).unwrap();
        let output = user.run(&import);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(told(&output).contains("none of the blocks could be used"), "{output:?}");
    }
}

/// Zeros that a node reserved behind its blocks are no such thing, and neither is a file of them in
/// its directory.
#[test]
fn a_source_without_a_block_is_refused_also_beside_others() {
    let user = User::new();
    let mut blocks = RegtestA::default().block_files();
    let mut raws = Vec::new();
    while let Some(header) = blocks.next().unwrap() {
        raws.push(blocks.raw(&header.hash).unwrap());
    }
    let dir = user.home.path().join("blocks");
    std::fs::create_dir(&dir).unwrap();
    let (good, bad) = (dir.join("blk00000.dat"), dir.join("blk00001.dat"));
    write_block_file(&good, RegtestA::NETWORK, &raws).unwrap();
    let mut bytes = std::fs::read(&good).unwrap();
    bytes.resize(bytes.len() + (1 << 20), 0);
    std::fs::write(&good, bytes).unwrap();
    let import = ["chain", "import", "--network", "regtest"];
    for content in [Vec::new(), vec![0; 1 << 16]] {
        std::fs::write(&bad, content).unwrap();
        for sources in [&[&bad][..], &[&good, &bad]] {
            let sources: Vec<_> = sources.iter().map(|path| path.to_str().unwrap()).collect();
            let told = user.refused(4, &[&import[..], &sources].concat());
            assert!(told.contains("blk00001.dat has no block"), "{told}");
            assert!(!user.data().exists(), "nothing was made");
        }
    }
    let report = user.json(&[&import[..], &[dir.to_str().unwrap()]].concat());
    assert_eq!(report["best_hash"], TIP);
}

#[test]
fn a_compressed_file_that_is_cut_or_damaged_is_named_damaged() {
    let user = User::new();
    let sound = std::fs::read(RegtestA::default().path("blocks.dat.xz")).unwrap();
    let file = user.home.path().join("blocks.dat.xz");
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    let cuts = [8, sound.len() / 2, sound.len() - 1].map(|len| sound[..len].to_vec());
    for bytes in [&cuts[..], &[flipped]].concat() {
        std::fs::write(&file, &bytes).unwrap();
        let import = ["chain", "import", "--network", "regtest", file.to_str().unwrap()];
        let told = user.refused(5, &import);
        assert!(told.contains("fetch the file again"), "{} bytes: {told}", bytes.len());
        assert!(!user.data().exists(), "nothing was made");
    }
}

#[test]
fn files_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::with_chain();
    let ledger = user.home.path().join("ledger.db");
    let url = format!("sqlite:{}", ledger.display());
    user.json(&["wallet", "create", "shop", "--network", "regtest", "--ledger", &url]);
    let mut places = vec![user.data(), ledger];
    places.extend(std::fs::read_dir(user.data()).unwrap().map(|entry| entry.unwrap().path()));
    for place in places {
        let mode = std::fs::metadata(&place).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", place.display());
    }
    let ledger = user.home.path().join("ledger.db");
    let list = ["wallet", "list", "--ledger", &url];
    assert_eq!(told(&user.run(&list)), "");
    std::fs::set_permissions(&ledger, std::fs::Permissions::from_mode(0o644)).unwrap();
    let warned = user.run(&list);
    assert!(warned.status.success(), "{warned:?}");
    assert!(told(&warned).contains("may read the database"), "{warned:?}");
}

#[test]
fn obfuscated_files_are_read_with_the_key() {
    let user = User::new();
    let mut blocks = RegtestA::default().block_files();
    let file = user.home.path().join("blk00000.dat");
    let mut writer =
        BlockFileWriter::create(&file, RegtestA::NETWORK, Some([1, 2, 3, 4, 5, 6, 7, 8])).unwrap();
    while let Some(header) = blocks.next().unwrap() {
        writer.push(&blocks.raw(&header.hash).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let import = ["chain", "import", "--network", "regtest", file.to_str().unwrap()];
    let error = user.refused(1, &import);
    assert!(error.contains("the xor key if the files are obfuscated"), "{error}");
    assert!(!user.data().exists());

    let report = user.json(&[&import[..], &["--xor-key", "0102030405060708"]].concat());
    assert_eq!(report["best_hash"], TIP);
}

#[test]
fn verify_names_what_is_wrong_and_has_its_own_code() {
    let user = User::with_chain();
    let clean = user.json(&["chain", "verify"]);
    assert_eq!((&clean["clean"], &clean["outputs_checked"]), (&json!(true), &json!(30_690)));
    {
        let engine = user.engine();
        let mut row = None;
        let first = Scan { limit: 1, ..Scan::ALL };
        engine.scan(ADDR, &first, &mut |key, _| row.replace(key.to_vec()).is_some()).unwrap();
        let mut batch = Batch::new();
        batch.delete(ADDR, &row.unwrap());
        engine.commit(batch, Durability::Synced).unwrap();
    }
    let output = user.run(&["chain", "verify", "--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["clean"], false);
    assert!(!report["findings"].as_array().unwrap().is_empty());
}

/// In each table, one after the other.
#[test]
fn a_damaged_row_of_the_chain_database_has_the_code_of_damage() {
    let cases: [(TableId, &[&str]); 4] = [
        (META, &["chain", "status"]),
        (BLOCKS, &["chain", "status"]),
        (UNSPENT, &["utxo", "show", LIVE]),
        (ADDR, &["address", "utxos", SCRIPT]),
    ];
    let user = User::with_chain();
    for (table, command) in cases {
        let kv = user.engine();
        let mut rows = Batch::new();
        let mut damaged = Batch::new();
        kv.scan(table, &Scan::ALL, &mut |key, value| {
            rows.put(table, key, value);
            damaged.put(table, key, b"\xff");
            true
        })
        .unwrap();
        kv.commit(damaged, Durability::Synced).unwrap();
        drop(kv);
        user.refused(5, command);
        let kv = user.engine();
        kv.commit(rows, Durability::Synced).unwrap();
        drop(kv);
        assert_eq!(user.run(command).status.code(), Some(0), "{command:?}: as it was");
    }
}

#[test]
fn damage_is_named_damage_with_the_way_on_and_nothing_is_made_anew() {
    let user = User::new();
    user.import(&[]);
    let data = user.data();
    let path = |wanted: &str| {
        let mut paths: Vec<_> = fs::read_dir(&data).unwrap().map(|f| f.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().find(|path| path.to_string_lossy().contains(wanted)).unwrap()
    };
    let tables = || {
        let is_table = |file: &fs::DirEntry| file.path().extension() == Some("sst".as_ref());
        fs::read_dir(&data).unwrap().filter(|file| is_table(file.as_ref().unwrap())).count()
    };
    let before = tables();
    assert!(before > 0);
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let import = ["chain", "import", "--network", "regtest", blocks.to_str().unwrap()];
    let refuses = |what: &str| {
        for args in [&["chain", "status"][..], &["chain", "verify"], &import, &import] {
            let told = user.refused(5, args);
            assert!(told.contains(what) && told.contains("runbook"), "{args:?}: {told}");
            assert!(!told.contains("change the configuration"), "{told}");
            assert_eq!(tables(), before, "no table was deleted");
        }
    };

    // A file that got lost.
    let current = data.join("CURRENT");
    let aside = data.join("aside");
    fs::rename(&current, &aside).unwrap();
    refuses("has lost a file: CURRENT");
    fs::rename(&aside, &current).unwrap();

    // A manifest that was cut before the tables of the index.
    let manifest = path("MANIFEST-");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..200]).unwrap();
    refuses("damaged");
    fs::write(&manifest, &whole).unwrap();

    // A table whose check sums do not match.
    let table = path(".sst");
    let whole = fs::read(&table).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 1;
    fs::write(&table, &flipped).unwrap();
    let told = user.refused(5, &["chain", "verify"]);
    assert!(told.contains("runbook"), "{told}");
    fs::write(&table, &whole).unwrap();
    user.json(&["chain", "verify"]);
}

#[test]
fn prune_reports_and_keeps_the_window() {
    let user = User::with_chain();
    let config = user.write("short.toml", "[index]\nrollback_window_blocks = 100\n");
    let before = user.json(&["chain", "digest"]);
    let config = ["--config", config.to_str().unwrap()];
    let output = user.run(&[&["chain", "prune", "--compact", "--json"], &config[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    // A window below the security parameter works where nobody else makes the chain, with a word.
    let warning = "index.rollback_window_blocks = 100 is less than the security parameter";
    assert!(told(&output).contains(warning), "{}", told(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The greater of the depths, 144 blocks, stays.
    assert_eq!((&report["deltas_deleted"], &report["compacted"]), (&json!(144), &json!(true)));
    assert!(report["spent_deleted"].as_u64().unwrap() > 0);
    assert_eq!(user.json(&["chain", "digest"]), before);
    assert_eq!(user.json(&["chain", "status"])["rollback_floor"], 156);
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
    user.refused(3, &["utxo", "show", SPENT]);
}

#[test]
fn verbose_has_a_line_for_every_block_rollback_and_prune_pass() {
    let user = User::new();
    let lines = |args: &[&str], what: &str| {
        let output = user.run(&[args, &["-v"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let said = told(&output);
        said.lines().filter(|line| line.contains(what)).map(str::to_owned).collect::<Vec<_>>()
    };
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let import = ["chain", "import", "--network", "regtest", blocks.to_str().unwrap(), "--no-bulk"];
    let connected = lines(&import, "block connected");
    assert!(connected.len() > 300, "{}", connected.len());
    let newest = connected.last().unwrap();
    for field in ["height=300", TIP, "created=", "spent=", "txs=", "ms="] {
        assert!(newest.contains(field), "{field}: {newest}");
    }
    let undone = lines(&["chain", "rollback", "297"], "block disconnected");
    assert_eq!(undone.len(), 3);
    assert!(undone[0].contains("height=300") && undone[0].contains(TIP), "{}", undone[0]);
    let config = user.write("short.toml", "[index]\nrollback_window_blocks = 144\n");
    let prune = ["chain", "prune", "--config", config.to_str().unwrap()];
    let passes = lines(&prune, "pruned");
    assert!(passes.last().unwrap().contains("undo_base=153"), "{passes:?}");
}

#[test]
fn a_database_that_may_not_be_opened_is_refused_and_says_why() {
    let user = User::with_chain();
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let error =
        user.refused(4, &["chain", "import", "--network", "mainnet", blocks.to_str().unwrap()]);
    assert!(error.contains("follows bitcoin/regtest, not bitcoin/mainnet"), "{error}");

    let config = user.write("changed.toml", "[index]\nmuhash = true\n");
    let error = user.refused(4, &["chain", "status", "--config", config.to_str().unwrap()]);
    assert!(error.contains("was built with [index] muhash = false"), "{error}");

    let engine = user.engine();
    let error = user.refused(4, &["chain", "status"]);
    assert!(error.contains("is in use by another process"), "{error}");

    let mut batch = Batch::new();
    batch.put(META, b"format", &99u64.to_be_bytes());
    engine.commit(batch, Durability::Synced).unwrap();
    drop(engine);
    let error = user.refused(4, &["chain", "status"]);
    assert!(error.contains("has format 99") && error.contains("use a newer utxokeep"), "{error}");
}

#[test]
fn without_a_database_nothing_is_made_up() {
    let user = User::new();
    for args in [&["chain", "status"][..], &["chain", "prune"], &["utxo", "show", LIVE]] {
        let error = user.refused(4, args);
        assert!(error.contains("there is no database at"), "{error}");
    }
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let error = user.refused(2, &["chain", "import", blocks.to_str().unwrap()]);
    assert!(error.contains("add --network NAME"), "{error}");
    let missing = ["chain", "import", "--network", "regtest", "absent.dat"];
    assert!(user.refused(1, &missing).contains("cannot read absent.dat"));
    assert!(!user.data().exists());
}

#[test]
fn with_the_index_off_only_the_log_is_kept() {
    let user = User::new();
    let config = user.write("off.toml", "[index]\nenabled = false\n[chain]\nnetwork = \"regtest\"");
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let config = ["--config", config.to_str().unwrap()];
    let report = user.json(&[&["chain", "import", blocks.to_str().unwrap()], &config[..]].concat());
    assert_eq!((&report["best_hash"], &report["txouts"]), (&json!(TIP), &Value::Null));
    let status = user.json(&["chain", "status"]);
    assert_eq!((&status["is_index_enabled"], &status["height"]), (&json!(false), &json!(300)));
    let tables = status["tables"].as_array().unwrap();
    assert!(tables.iter().all(|t| t["name"].as_str().unwrap().starts_with("chain_")));
    for args in [&["utxo", "show", LIVE][..], &["address", "balance", "51"]] {
        assert!(user.refused(4, args).contains("the index is off"));
    }
}

#[test]
fn wrong_usage_is_refused_before_anything_is_opened() {
    let user = User::new();
    let cases: &[(&[&str], &str)] = &[
        (&["chain", "import", "--network", "moon", "x"], "[possible values: mainnet"),
        (&["chain", "import", "--network", "regtest"], "<SOURCE>"),
        (&["chain", "import", "--network", "regtest", "--xor-key", "zz", "x"], "16 hexadecimal"),
        (&["chain", "rollback", "-1"], "unexpected argument"),
        (&["chain", "rollback", "4294967296"], "too large"),
        (&["utxo", "show", "abc:0"], "64 hexadecimal digits"),
        (&["utxo", "show", "ab"], "expected TXID:INDEX"),
        (&["address", "utxos", "51", "--page-size", "0"], "0 is not in 1..=100000"),
        (
            &["address", "utxos", "51", "--page", "2", "--cursor", "x"],
            "cannot be used with '--cursor",
        ),
        (&["address", "utxos", "51", "--order", "up"], "[possible values: asc, desc]"),
        (&["demo", "--blocks-per-second", "0"], "above 0"),
        (&["chain"], "Usage: utxokeep chain"),
        (&["fly"], "unrecognized subcommand"),
    ];
    for (args, expected) in cases {
        let error = user.refused(2, args);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    let user = User::with_chain();
    let error = user.refused(2, &["address", "balance", "nonsense"]);
    assert!(error.contains("neither an address nor a script"), "{error}");
    let other = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    let error = user.refused(2, &["address", "balance", other]);
    assert!(error.contains("belongs to bitcoin/mainnet"), "{error}");
    let error = user.refused(2, &["address", "utxos", "51", "--cursor", "AAAA"]);
    assert!(error.contains("is not a cursor"), "{error}");
}

#[test]
fn a_wrong_configuration_is_refused_by_file_and_key() {
    let user = User::new();
    let cases = [
        ("[index]\nmuhsh = true", "bad.toml: there is no setting index.muhsh"),
        ("[index]\nmmr_rule = \"utreexo\"", "index.mmr_rule needs index.store = \"mmr\""),
        ("[storage]\ncache_mib = \"big\"", "bad.toml: storage.cache_mib: a whole number"),
        ("[index", "bad.toml is not valid TOML: line 1"),
    ];
    for (text, expected) in cases {
        let path = user.write("bad.toml", text);
        let error = user.refused(2, &["chain", "status", "--config", path.to_str().unwrap()]);
        assert!(error.contains(expected), "{error}");
        let by_env = user.command(&["chain", "status"]).env("UTXOKEEP_CONFIG", &path).output();
        assert_eq!(by_env.unwrap().status.code(), Some(2));
    }
    let error = user.refused(2, &["chain", "status", "--config", "absent.toml"]);
    assert!(error.contains("cannot read the configuration absent.toml"), "{error}");
}

#[test]
fn ctrl_c_stops_an_import_that_a_second_one_finishes() {
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let import = ["chain", "import", "--no-bulk", "--network", "regtest", blocks.to_str().unwrap()];
    // How long a start takes is not known, so the moment to interrupt is searched for.
    let stopped = (1..100).find_map(|attempt| {
        let user = User::new();
        let child =
            user.command(&import).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(attempt * 20));
        interrupt(child.id());
        let status = child.wait_with_output().unwrap().status;
        (status.code() == Some(130)).then_some(user)
    });
    let user = stopped.expect("one of many moments lies inside the import");
    assert_eq!(user.import(&[])["best_hash"], TIP);
    assert_is_truth(&user.json(&["chain", "digest"]), 300);
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
}

fn interrupt(process: u32) {
    let id = process.to_string();
    Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn help_lists_commands_and_exit_codes() {
    let user = User::new();
    let output = user.run(&["--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for expected in ["chain", "utxo", "address", "demo", "Exit codes:", "130"] {
        assert!(text.contains(expected), "{text}");
    }
}

/// A program that reads answers reads failures as well.
#[test]
fn errors_under_json_are_json_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nothing").display().to_string();
    let cases: [(&[&str], &str, i32, &str); 3] = [
        (&["chain", "status", "--json", "--data", &missing], "refused", 4, "nothing"),
        (&["chain", "verify", "--json", "--data", &missing], "refused", 4, "nothing"),
        (&["chain", "statsu", "--json"], "invalid", 2, "statsu"),
    ];
    for (words, code, exit, text) in cases {
        let output = crate::program::utxokeep(words).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
    }
    let plain =
        crate::program::utxokeep(&["chain", "status", "--data", &missing]).output().unwrap();
    assert!(crate::program::told(&plain).starts_with("error: "), "{plain:?}");
}
