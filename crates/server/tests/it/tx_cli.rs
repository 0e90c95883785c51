//! `utxokeep tx` as a user meets it, on a store of each embedded engine.

use std::{fs, process::Command};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep::{config::TxStoreConfig, node_store};
use utxokeep_core::{
    Height, OpenMode,
    node::{CreateOptions, MinedBlock, MinedInfo, NodeTx, SpendAndCreate, SpendFlags},
};
use utxokeep_kv::{Batch, Durability, Kv as _, RocksKv, RocksOptions, TableId};
use utxokeep_sql::{Database, Options, SqlError};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{BlockState, TABLES, TxStore as _};

use crate::program::utxokeep;

struct User {
    home: TempDir,
    url: String,
    config: String,
}

impl User {
    /// A parent that is mined and spent, and its child, which is not mined; bodies in files.
    fn with_family(engine: &str) -> (Self, NodeTx, NodeTx) {
        let home = TempDir::new().unwrap();
        let place = |name: &str| home.path().join(name).display().to_string();
        let url = format!("{engine}:{}", place("store"));
        let blobs = format!("file:{}", place("blobs"));
        let mut parent = seed(1, &[700]);
        parent.outputs[0].script.resize(2_000, 0x51);
        let child = spending(2, &[(&parent, 0)], &[600]);
        let file = home.path().join("utxokeep.toml");
        let config = format!("[txstore]\nblobs = {blobs:?}\ninline_body_kib_max = 1\n");
        fs::write(&file, config).unwrap();
        let mut settings = TxStoreConfig::default();
        settings.blobs.clone_from(&blobs);
        settings.inline_body_kib_max = 1.try_into().unwrap();
        let store = node_store::open(&url, &settings, OpenMode::Create).unwrap();
        let (at, options) = (Height::new(1_000), CreateOptions::default());
        let seeds = CreateOptions { may_lack_previous: true, ..options.clone() };
        store.create(&[(parent.clone(), seeds)], at).unwrap().remove(0).unwrap();
        let block = MinedBlock { id: 9, height: at, subtree: 0 };
        let mined = MinedInfo { block, on_longest_chain: true, unset: false, unmined_since: at };
        store.set_mined(&[parent.txid], &mined).unwrap().remove(0).unwrap();
        let flags = SpendFlags::default();
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        store.spend_and_create(&child, at, how, &options).unwrap().unwrap();
        let state = BlockState { height: Height::new(1_500), median_time: 1 };
        store.set_block_state(state).unwrap().unwrap();
        let config = file.display().to_string();
        (Self { home, url, config }, parent, child)
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = utxokeep(args);
        command.args(["--config", &self.config]).current_dir(self.home.path());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, told) = self.run(&[args, &["--json", "--store", &self.url]].concat());
        assert_eq!(code, Some(0), "{told}");
        serde_json::from_str(&out).unwrap()
    }
}

#[test]
fn a_transaction_is_shown_explained_and_verified() {
    for engine in ["rocksdb", "sqlite"] {
        let (user, parent, child) = User::with_family(engine);
        let (txid, child) = (parent.txid.to_string(), child.txid.to_string());

        let shown = user.json(&["tx", "show", &txid]);
        assert_eq!(shown["delete_at_height"], 1_288);
        assert_eq!(shown["outputs"][0]["state"], "spent");
        assert_eq!(shown["outputs"][0]["spent_tx_hash"], Value::from(child.clone()));
        assert_eq!(shown["body"], "blob_store");
        let (_, text, _) = user.run(&["tx", "show", &txid, "--store", &user.url]);
        assert!(text.contains("state        mined\n"), "{text}");

        let explained = user.json(&["tx", "explain", &txid]);
        assert_eq!(explained["can_be_deleted"], false);
        assert_eq!(explained["height"], 1_500);
        assert_eq!(explained["blocking"][0]["reason"], "child_unmined");
        assert_eq!(explained["blocking"][0]["child"], Value::from(child));
        let early = user.json(&["tx", "explain", &txid, "--height", "1200"]);
        assert_eq!(early["blocking"][0]["reason"], "not_due");
        assert_eq!(early["blocking"][0]["until_height"], 1_288);

        let status = user.json(&["tx", "status"]);
        assert_eq!(status["engine"], engine);
        let exact = |count: u64| serde_json::json!({ "count": count, "is_exact": true });
        assert_eq!((&status["records"], &status["body_files"]), (&exact(2), &exact(2)));
        assert_eq!((&status["due_records"], &status["held_height"]), (&exact(0), &1_500.into()));
        assert!(status["disk_bytes"].as_u64() > Some(0), "{status}");

        let verified = user.json(&["tx", "verify"]);
        // The child says what it spends, so that its body is large too.
        assert_eq!((&verified["clean"], &verified["blobs"]["files"]), (&true.into(), &2.into()));
    }
}

#[test]
fn a_file_that_no_record_names_is_found_and_removed() {
    let (user, ..) = User::with_family("sqlite");
    let orphan = user.home.path().join("blobs/07").join(format!("{}.tx", "07".repeat(32)));
    fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    fs::write(&orphan, b"T-1.0   left by a crash").unwrap();
    let young = user.json(&["tx", "verify", "--repair-blobs"]);
    assert_eq!((&young["blobs"]["young"], &young["blobs"]["removed"]), (&1.into(), &0.into()));
    assert!(orphan.exists(), "its record may be on the way");
    let found = user.json(&["tx", "verify", "--blob-age-min-s", "0"]);
    assert_eq!((&found["blobs"]["orphans"], &found["blobs"]["removed"]), (&1.into(), &0.into()));
    assert!(orphan.exists(), "only --repair-blobs removes");
    let repaired = user.json(&["tx", "verify", "--repair-blobs", "--blob-age-min-s", "0"]);
    assert_eq!(repaired["blobs"]["removed"], 1);
    assert!(!orphan.exists());
    let again = user.json(&["tx", "verify", "--repair-blobs", "--blob-age-min-s", "0"]);
    assert_eq!((&again["clean"], &again["blobs"]["orphans"]), (&true.into(), &0.into()));
}

#[test]
fn what_is_wrong_is_said_with_its_exit_code() {
    let (user, parent, _) = User::with_family("sqlite");
    let unknown = "ab".repeat(32);
    let (code, _, told) = user.run(&["tx", "show", &unknown, "--store", &user.url]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("is not in the node store"), "{told}");
    let (code, _, told) = user.run(&["tx", "show", &parent.txid.to_string()]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("[txstore] url"), "{told}");
    let (code, _, told) = user.run(&["tx", "show", "xyz", "--store", &user.url]);
    assert_eq!(code, Some(2), "{told}");

    // A body whose file is gone.
    let name = format!("{}.outputs", parent.txid.to_reversed_hex());
    fs::remove_file(user.home.path().join("blobs").join(&name[..2]).join(name)).unwrap();
    let (code, out, told) = user.run(&["tx", "verify", "--store", &user.url]);
    assert_eq!(code, Some(5), "{told}");
    assert!(out.contains("is missing in the blob store"), "{out}");
}

#[test]
fn a_place_for_large_bodies_that_was_moved_or_exchanged_is_named_at_once() {
    for engine in ["rocksdb", "sqlite"] {
        let (user, parent, _) = User::with_family(engine);
        let (blobs, away) = (user.home.path().join("blobs"), user.home.path().join("away"));
        fs::rename(&blobs, &away).unwrap();
        let txid = parent.txid.to_string();
        for _ in 0..2 {
            for command in [&["tx", "verify"][..], &["tx", "show", &txid], &["tx", "status"]] {
                let (code, out, told) = user.run(&[command, &["--store", &user.url]].concat());
                assert_eq!((code, out.as_str()), (Some(5), ""), "{told}");
                for text in ["blobs", "utxokeep-blob-store is not there", "tx adopt-blobs"] {
                    assert!(told.contains(text), "{told}");
                }
            }
        }
        assert!(!blobs.exists(), "looking makes no directory");
        fs::rename(&away, &blobs).unwrap();
        assert_eq!(user.json(&["tx", "verify"])["clean"], true, "it is back");

        // The place of another store, whose files must stay.
        let (other, ..) = User::with_family(engine);
        let theirs = other.home.path().join("blobs");
        fs::rename(&blobs, &away).unwrap();
        fs::rename(&theirs, &blobs).unwrap();
        let (code, _, told) = user.run(&[
            "tx",
            "verify",
            "--repair-blobs",
            "--blob-age-min-s",
            "0",
            "--store",
            &user.url,
        ]);
        assert_eq!(code, Some(4), "{told}");
        assert!(told.contains("belongs to another node store"), "{told}");
        // Both have the same transactions, so that the files serve.
        user.json(&["tx", "adopt-blobs"]);
        assert_eq!(user.json(&["tx", "verify"])["clean"], true);

        // Lost for good: from now on each missing body is named.
        fs::remove_dir_all(&blobs).unwrap();
        user.json(&["tx", "adopt-blobs"]);
        let (code, out, told) = user.run(&["tx", "verify", "--store", &user.url]);
        assert_eq!(code, Some(5), "{told}");
        assert!(out.contains("is missing in the blob store"), "{out}");
    }
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_and_given_up_only_when_told_to() {
    let (user, parent, child) = User::with_family("rocksdb");
    let files = fs::read_dir(user.home.path().join("store")).unwrap();
    let logs = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let log = logs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&log, &bytes).unwrap();

    for _ in 0..2 {
        let (code, out, told) = user.run(&["tx", "verify", "--store", &user.url]);
        assert_eq!((code, out.as_str()), (Some(5), ""), "{told}");
        assert!(told.contains("is damaged at byte") && told.contains("`tx recover`"), "{told}");
        let (code, out, _) = user.run(&["tx", "recover", "--json", "--store", &user.url]);
        assert_eq!(code, Some(5));
        let listed: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(listed["recovered"], false);
        assert_eq!(Some(listed["damage"]["file"].as_str().unwrap()), file_name(&log).as_deref());
        assert!(listed["unreadable_rows"].as_u64() > Some(0), "{listed}");
        assert_eq!(fs::read(&log).unwrap(), bytes, "looking changes nothing");
    }
    let done = user.json(&["tx", "recover", "--accept-loss"]);
    assert_eq!(done["recovered"], true);
    assert_eq!(user.json(&["tx", "verify"])["clean"], true);
    assert_eq!(user.json(&["tx", "recover"])["damage"], Value::Null);
    // The first write made the parent; what came last is what was lost.
    user.json(&["tx", "show", &parent.txid.to_string()]);
    let (code, ..) = user.run(&["tx", "show", &child.txid.to_string(), "--store", &user.url]);
    assert_eq!(code, Some(3));

    let (code, _, told) = user.run(&["tx", "recover", "--store", "sqlite:store.db"]);
    assert_eq!(code, Some(2), "{told}");
    let (code, ..) = user.run(&["tx", "recover", "--store", "rocksdb:nothing-there"]);
    assert_eq!(code, Some(4));
    assert!(!user.home.path().join("nothing-there").exists());
}

/// Whatever open refuses for its logs, recover finds and gets past; whatever recover calls sound,
/// open accepts.
#[test]
fn a_deleted_log_is_refused_and_given_up_only_when_told_to() {
    for newest_only in [true, false] {
        let (user, ..) = User::with_family("rocksdb");
        let store = user.home.path().join("store");
        assert_eq!(user.json(&["tx", "recover"])["damage"], Value::Null);
        let mut logs: Vec<_> = fs::read_dir(&store)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        logs.sort();
        let kept = if newest_only { logs.len() - 1 } else { 0 };
        // An older log is there in both cases, and holds nothing.
        fs::write(store.join("000001.log"), b"").unwrap();
        logs[kept..].iter().for_each(|log| fs::remove_file(log).unwrap());
        if !newest_only {
            fs::remove_file(store.join("000001.log")).unwrap();
        }
        for _ in 0..2 {
            let (code, out, told) = user.run(&["tx", "verify", "--store", &user.url]);
            assert_eq!((code, out.as_str()), (Some(5), ""), "{told}");
            assert!(told.contains("`tx recover`"), "{told}");
            let (code, out, told) = user.run(&["tx", "recover", "--json", "--store", &user.url]);
            assert_eq!(code, Some(5), "{told}");
            let listed: Value = serde_json::from_str(&out).unwrap();
            let newest = file_name(logs.last().unwrap());
            assert_eq!(listed["damage"]["file"].as_str(), newest.as_deref());
            assert!(listed["missing_bytes"].as_u64() > Some(0), "{listed}");
        }
        assert_eq!(user.json(&["tx", "recover", "--accept-loss"])["recovered"], true);
        assert_eq!(user.json(&["tx", "recover"])["damage"], Value::Null);
        // The log held every row: what is left opens, and is no store until one is made in it.
        let (code, _, told) = user.run(&["tx", "verify", "--store", &user.url]);
        assert_eq!(code, Some(4), "{told}");
        assert!(told.contains("there is no node store"), "{told}");
        assert!(store.join("lost").join("ACKNOWLEDGED").exists());
    }
}

/// Runs the program where `place` can only be read; `None` where that cannot be arranged.
fn run_on_read_only_mount(user: &User, args: &[&str]) -> Option<(Option<i32>, String, String)> {
    let apart = ["-rm", "sh", "-c"];
    let may_mount = Command::new("unshare").args(["-rm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount");
        eprintln!("skipped: `unshare -rm` is not allowed here");
        return None;
    }
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99
        touch \"$0/probe\" 2>/dev/null && exit 98
        exec \"$@\"";
    let output = Command::new("unshare")
        .args(apart)
        .arg(mount)
        .arg(user.home.path())
        .arg(env!("CARGO_BIN_EXE_utxokeep"))
        .args(args)
        .args(["--config", &user.config, "--store", &user.url])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

#[test]
fn a_store_on_a_read_only_mount_is_read_and_its_damage_listed() {
    for engine in ["rocksdb", "sqlite"] {
        let (user, parent, _) = User::with_family(engine);
        let txid = parent.txid.to_string();
        for look in [&["tx", "verify"][..], &["tx", "show", &txid], &["tx", "status"]] {
            let Some((code, _, told)) = run_on_read_only_mount(&user, look) else { return };
            assert_eq!(code, Some(0), "{engine}: {look:?}: {told}");
        }
    }
    let (user, ..) = User::with_family("rocksdb");
    let store = user.home.path().join("store");
    let logs = fs::read_dir(&store).unwrap().map(|file| file.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let log = logs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&log, &bytes).unwrap();
    let recover = ["tx", "recover", "--json"];
    let Some((code, out, told)) = run_on_read_only_mount(&user, &recover) else { return };
    assert_eq!(code, Some(5), "{told}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(Some(listed["damage"]["file"].as_str().unwrap()), file_name(&log).as_deref());
    let (code, out, told) =
        run_on_read_only_mount(&user, &["tx", "recover", "--accept-loss"]).unwrap();
    assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
    assert!(told.contains("Read-only file system"), "{told}");
    assert_eq!(fs::read(&log).unwrap(), bytes, "nothing was changed");
    assert_eq!(user.json(&["tx", "recover", "--accept-loss"])["recovered"], true);
}

#[test]
fn a_damaged_row_is_damage_for_every_command_that_meets_it() {
    for engine in ["rocksdb", "sqlite"] {
        let (user, parent, _) = User::with_family(engine);
        let place = user.home.path().join("store");
        if engine == "rocksdb" {
            let options = RocksOptions::within(16 << 20);
            let kv = RocksKv::open(&place, TABLES, options, OpenMode::Existing).unwrap();
            let records = TABLES.iter().position(|table| table.name == "tx_records").unwrap();
            let mut batch = Batch::new();
            let table = TableId(u8::try_from(records).unwrap());
            batch.put(table, parent.txid.as_bytes(), b"\xffno record");
            kv.commit(batch, Durability::Synced).unwrap();
        } else {
            let database = Database::open(&user.url, &Options::default()).unwrap();
            let written: Result<u64, SqlError> = database.write(|tx| {
                tx.execute("UPDATE node_transactions SET spendable_at = 99999999999", &[])
            });
            assert_eq!(written.unwrap(), 2);
        }
        let txid = parent.txid.to_string();
        for command in [&["tx", "show", &txid][..], &["tx", "verify"], &["tx", "explain", &txid]] {
            let (code, _, told) = user.run(&[command, &["--store", &user.url]].concat());
            assert_eq!(code, Some(5), "{engine}: {command:?}: {told}");
        }
    }
}

fn file_name(path: &std::path::Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

#[test]
fn settings_of_the_store_are_compared_at_every_open_and_changed_on_purpose() {
    for engine in ["rocksdb", "sqlite"] {
        let (user, parent, _) = User::with_family(engine);
        let txid = parent.txid.to_string();
        let made = user.json(&["tx", "settings"]);
        user.json(&["pruner", "explain", &txid, "--height", "1500"]);
        assert_eq!(user.json(&["tx", "settings"]), made, "looking changes nothing");
        // The first pruner that writes says what its window is.
        user.json(&["pruner", "forget-persister"]);
        let before = user.json(&["tx", "settings"]);
        let named = |shown: &Value, name: &str| {
            let settings = shown["settings"].as_array().unwrap();
            settings.iter().find(|one| one["name"] == name).unwrap()["blocks"].clone()
        };
        assert_eq!(named(&before, "retention_blocks"), 288);
        assert_eq!(named(&before, "safety_window_blocks"), 288);
        assert_eq!(named(&before, "coinbase_maturity_blocks"), 100);
        let text = fs::read_to_string(&user.config).unwrap();
        let text = format!("{text}retention_blocks = 400\n[pruner]\nsafety_window_blocks = 300\n");
        fs::write(&user.config, text).unwrap();
        for command in [["tx", "show"], ["pruner", "explain"], ["tx", "explain"]] {
            let store = ["--store", &user.url];
            let (code, _, told) = user.run(&[&command[..], &[&txid], &store].concat());
            assert_eq!(code, Some(4), "{told}");
            for part in ["retention_blocks = 288", "says 400", "utxokeep tx settings --change"] {
                assert!(told.contains(part), "{told}");
            }
        }
        assert_eq!(user.json(&["tx", "settings"]), before, "looking changes nothing");
        let after = user.json(&["tx", "settings", "--change"]);
        assert_eq!(named(&after, "retention_blocks"), 400);
        assert_eq!(named(&after, "safety_window_blocks"), 300);
        let changes = after["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(
            (&changes[0]["from_blocks"], &changes[0]["to_blocks"]),
            (&288.into(), &400.into())
        );
        assert!(changes[0]["at_ms"].as_u64().unwrap() > 1_600_000_000_000);
        user.json(&["tx", "show", &txid]);
        user.json(&["pruner", "explain", &txid, "--height", "1500"]);
        assert_eq!(user.json(&["pruner", "jobs"])["items"], Value::Array(Vec::new()));
    }
}
