//! `utxokeep store move` and `store verify` as a user meets them, on the engines that this machine has.

use std::{process::Stdio, thread::sleep, time::Duration};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep_records::testing::shared_url_or_skip;
use utxokeep_testkit::postgres::TestDatabase;

use crate::{
    program::{told, utxokeep},
    pruner::world::{HEIGHT, World},
};

/// Transactions of the stores here, beside three that have a family.
const DUE: usize = 250;

struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: TempDir::new().unwrap() }
    }

    fn url(&self, engine: &str, name: &str) -> String {
        format!("{engine}:{}", self.home.path().join(name).display())
    }

    /// Exit code, and what was written to stdout and stderr.
    fn run(&self, words: &[&str], crash_at: Option<&str>) -> (Option<i32>, String, String) {
        let mut command = utxokeep(words);
        command.current_dir(self.home.path());
        if let Some(point) = crash_at {
            command.env("UTXOKEEP_CRASH_AT", point);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, told(&output))
    }

    fn move_with(&self, from: &str, to: &str, more: &[&str]) -> (Option<i32>, String, String) {
        let words = ["store", "move", "--from", from, "--to", to, "--batch", "40", "--json"];
        self.run(&[&words[..], more].concat(), None)
    }

    /// Moves a store, and lets the program die at a point of that.
    fn die_at(&self, from: &str, to: &str, more: &[&str], point: &str) {
        let words = ["store", "move", "--from", from, "--to", to, "--batch", "40"];
        let (code, text, error) = self.run(&[&words[..], more].concat(), Some(point));
        assert_ne!(code, Some(0), "it did not die at {point}: {text}{error}");
        assert_ne!(code, Some(4), "it was refused before {point}: {error}");
    }

    fn verify(&self, one: &str, other: &str) -> (Option<i32>, Value, String) {
        let words = ["store", "verify", "--store", one, "--against", other, "--json"];
        let (code, text, error) = self.run(&words, None);
        (code, serde_json::from_str(&text).unwrap_or_default(), error)
    }

    /// What a command that needs the whole store says.
    fn open(&self, url: &str) -> (Option<i32>, String) {
        let (code, _, error) = self.run(&["tx", "status", "--store", url], None);
        (code, error)
    }
}

#[test]
fn a_store_is_copied_and_the_source_stays_as_it_was() {
    let user = User::new();
    let (from, to) = (user.url("sqlite", "from"), user.url("rocksdb", "to"));
    World::make(&from, DUE, Some(HEIGHT));
    let (code, text, error) = user.move_with(&from, &to, &[]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["transactions"], DUE as u64 + 3, "{text}");
    assert_eq!(report["is_source_retired"], false, "{text}");
    let (code, compared, error) = user.verify(&from, &to);
    assert_eq!((code, &compared["differing"]), (Some(0), &Value::from(0)), "{error}");
    for url in [&from, &to] {
        assert_eq!(user.open(url).0, Some(0), "{url}");
    }

    World::tell_height(&to, HEIGHT + 1);
    let (code, compared, error) = user.verify(&from, &to);
    assert_eq!(code, Some(5), "{error}");
    assert!(compared["differing"].as_u64() > Some(0), "{compared}");
    let (code, _, error) = user.move_with(&from, &to, &[]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("the target is not empty"), "{error}");
}

#[test]
fn a_store_is_not_compared_with_itself_however_its_place_is_spelled() {
    let user = User::new();
    let url = user.url("sqlite", "store");
    World::make(&url, 3, Some(HEIGHT));
    for spelled in [url.clone(), "sqlite:store".to_owned(), "sqlite:./store".to_owned()] {
        let (code, _, error) = user.verify(&url, &spelled);
        assert_eq!(code, Some(2), "{spelled}: {error}");
        assert!(error.contains("compared with itself"), "{error}");
    }
    if let Some(database) = TestDatabase::create_or_skip() {
        let url = database.url();
        let (_, place) = url.split_once("://").unwrap();
        let (code, _, error) = user.verify(url, &format!("postgresql://{place}"));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("compared with itself"), "{error}");
    }
}

#[test]
fn a_source_is_retired_only_on_request_and_can_be_had_back() {
    let user = User::new();
    let (from, to) = (user.url("rocksdb", "from"), user.url("sqlite", "to"));
    World::make(&from, DUE, Some(HEIGHT));
    user.die_at(&from, &to, &["--retire-source"], "move_listing:1");
    assert_eq!(user.open(&from).0, Some(0), "it is in use while its changes are listed");
    let (code, error) = user.open(&to);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("half-moved copy"), "{error}");
    let (code, _, error) = user.move_with(&from, &to, &[]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("repeat the command with --retire-source"), "{error}");

    user.die_at(&from, &to, &["--retire-source"], "move_retired:1");
    let is_moved = |url: &str| {
        let (code, error) = user.open(url);
        code == Some(4) && error.contains("was moved to sqlite:")
    };
    assert!(is_moved(&from), "{:?}", user.open(&from));
    let (code, _, error) = user.move_with(&from, &to, &[]);
    assert_eq!(code, Some(4), "{error}");

    // Half a copy that another move left has no say.
    let other = user.url("sqlite", "other");
    let second = user.url("rocksdb", "second");
    World::make(&second, DUE, Some(HEIGHT));
    user.die_at(&second, &other, &[], "move_saved:1");
    let (code, _, error) = user.move_with(&from, &other, &["--abandon"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(is_moved(&from));

    let (code, text, error) = user.move_with(&from, &to, &["--abandon"]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["was_retired"], true, "{text}");
    assert_eq!(user.open(&from).0, Some(0));
    World::tell_height(&from, HEIGHT + 7);

    let (code, text, error) = user.move_with(&from, &to, &["--retire-source"]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["is_source_retired"], true, "{text}");
    assert!(is_moved(&from));
    let (code, compared, error) = user.verify(&from, &to);
    assert_eq!((code, &compared["differing"]), (Some(0), &Value::from(0)), "{error}");
    let (code, _, error) = user.move_with(&from, &to, &["--retire-source"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("moved to this target already"), "{error}");
    let (code, _, error) = user.move_with(&from, &to, &["--abandon"]);
    assert_eq!(code, Some(4), "the target is whole: {error}");
    assert!(is_moved(&from));
}

/// Moves a store with a program that is killed again and again, at any moment.
fn kill_again_and_again(user: &User, from: &str, to: &str) {
    let world = World::make(from, DUE, Some(HEIGHT));
    let words = ["store", "move", "--from", from, "--to", to, "--batch", "20", "--retire-source"];
    let mut killed = 0;
    // A move waits 3 s for writes under way before its first pass, and again once it has retired the
    // source.
    for after_ms in [150, 1_500, 3_300, 4_200] {
        let mut command = utxokeep(&words);
        command.current_dir(user.home.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
    }
    assert!(killed > 1, "{from} to {to}: hardly any run was killed");
    let (code, _, error) = user.run(&words, None);
    let is_done = code == Some(0) || error.contains("moved to this target already");
    assert!(is_done, "{from} to {to}: {error}");
    let (code, compared, error) = user.verify(from, to);
    assert_eq!((code, &compared["differing"]), (Some(0), &Value::from(0)), "{error}");
    assert_eq!(compared["transactions"], DUE as u64 + 3);
    let (code, error) = user.open(from);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("was moved to"), "{error}");
    let txid = world.coin.to_string();
    let (code, _, error) = user.run(&["tx", "show", &txid, "--store", to], None);
    assert_eq!(code, Some(0), "{error}");
    let (code, _, error) = user.run(&["tx", "verify", "--store", to], None);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn a_move_to_postgres_that_is_killed_again_and_again_goes_on() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let user = User::new();
    kill_again_and_again(&user, &user.url("sqlite", "from"), database.url());
}

#[test]
fn a_move_from_postgres_to_a_cluster_that_is_killed_again_and_again_goes_on() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let Some(to) = shared_url_or_skip("ack=replica") else { return };
    kill_again_and_again(&User::new(), database.url(), &to);
}

#[test]
fn a_move_from_a_cluster_that_is_killed_again_and_again_goes_on() {
    let Some(from) = shared_url_or_skip("ack=replica") else { return };
    let user = User::new();
    kill_again_and_again(&user, &from, &user.url("rocksdb", "to"));
}
