//! The block persister as a user runs it: `serve` writes files, and a database is built from them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep_testkit::moto::Moto;

use crate::program::{self, Serving, told};

/// Height of the chain in the test kit.
const TIP: u64 = 300;

fn blocks() -> PathBuf {
    utxokeep_testkit::RegtestA::default().path("blocks.dat.xz")
}

/// Somebody with a chain database and a place for files.
struct User {
    home: TempDir,
    url: String,
    environment: Vec<(&'static str, String)>,
}

impl User {
    /// With an imported chain, and this in `[persister]`.
    fn new(url: Option<&str>, environment: Vec<(&'static str, String)>, persister: &str) -> Self {
        let home = TempDir::new().unwrap();
        let files = format!("file:{}", home.path().join("files").display());
        let url = url.map_or(files, str::to_owned);
        let text = format!(
            "[chain]\nnetwork = \"regtest\"\n[storage]\nfsync = false\n\
             [persister]\nenabled = true\nurl = {url:?}\nblocks = {:?}\n{persister}\n",
            blocks().display().to_string()
        );
        fs::write(home.path().join("utxokeep.toml"), text).unwrap();
        let user = Self { home, url, environment };
        let (code, told) = user.run("chain-db", &["chain", "import", blocks().to_str().unwrap()]);
        assert_eq!(code, Some(0), "{told}");
        user
    }

    fn data(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, data: &str, words: &[&str]) -> Command {
        let mut command = program::utxokeep(words);
        command.arg("--config").arg(self.data("utxokeep.toml"));
        command.arg("--data").arg(self.data(data)).current_dir(self.home.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn output(&self, data: &str, words: &[&str]) -> Output {
        self.command(data, words).output().unwrap()
    }

    fn run(&self, data: &str, words: &[&str]) -> (Option<i32>, String) {
        let output = self.output(data, words);
        (output.status.code(), told(&output))
    }

    /// Exit code and answer of a command.
    fn json(&self, data: &str, words: &[&str]) -> (Option<i32>, Value) {
        let output = self.output(data, &[words, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = serde_json::from_str(&text);
        (output.status.code(), answer.unwrap_or_else(|_| panic!("{text} {}", told(&output))))
    }

    fn serve(&self) -> Serving {
        Serving::start(self.command("chain-db", &["serve", "--listen", "127.0.0.1:0"]))
    }

    /// Serves until everything is persisted.
    fn persist(&self) {
        let running = self.serve();
        running.wait_for_metric("utxokeep_persister_height", |height| height > 299.5);
        running.wait_for_health("ok");
        assert!(running.get("/health").contains("\"name\":\"persister\""));
        running.stop();
    }

    fn digest(&self, data: &str) -> Value {
        let (code, digest) = self.json(data, &["chain", "digest"]);
        assert_eq!(code, Some(0), "{digest}");
        assert_eq!(digest["point"]["height"], TIP, "{digest}");
        digest
    }

    fn import(&self, data: &str) -> Command {
        let words = ["chain", "import", "--network", "regtest", "--from-persisted", &self.url];
        self.command(data, &words)
    }
}

#[test]
fn a_chain_that_is_served_is_persisted_verified_and_built_anew() {
    let user = User::new(None, Vec::new(), "batch_blocks_max = 7");
    user.persist();
    let (code, status) = user.json("chain-db", &["persister", "status"]);
    assert_eq!(code, Some(0), "{status}");
    for field in ["persisted_height", "cursor_height", "tip_height"] {
        assert_eq!(status[field], TIP, "{status}");
    }
    assert_eq!(status["lag_blocks"], 0, "{status}");
    let (code, verified) = user.json("chain-db", &["persister", "verify"]);
    assert_eq!((code, &verified["clean"]), (Some(0), &true.into()), "{verified}");
    assert_eq!(verified["blocks_checked"], TIP + 1, "{verified}");
    let built = user.import("new-db").output().unwrap();
    assert!(built.status.success(), "{}", told(&built));
    assert_eq!(user.digest("new-db"), user.digest("chain-db"));

    // A byte of one file: found, named, and not built from.
    let folder = user.data("files/0000000");
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let is_data = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "subtree_data");
    let file = files.iter().find(is_data).unwrap();
    let good = fs::read(file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(file, bad).unwrap();
    let (code, verified) = user.json("chain-db", &["persister", "verify"]);
    assert_eq!((code, &verified["faults_total"]), (Some(5), &1.into()), "{verified}");
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(verified["faults"][0]["reason"].as_str().unwrap().contains(name), "{verified}");
    let refused = user.import("damaged-db").output().unwrap();
    assert_eq!(refused.status.code(), Some(5), "{}", told(&refused));
    assert!(told(&refused).contains(name), "{}", told(&refused));
    fs::write(file, good).unwrap();
    // What was imported before the damage stays, and the rest follows.
    let built = user.import("damaged-db").output().unwrap();
    assert!(built.status.success(), "{}", told(&built));
    assert_eq!(user.digest("damaged-db"), user.digest("chain-db"));
}

#[test]
fn a_place_that_fails_is_named_by_health_and_counted_and_persisting_resumes() {
    let user = User::new(
        None,
        Vec::new(),
        "retry_max = 1\nretry_wait_ms = 1\nretry_wait_ms_max = 1\nstalled_secs = 1",
    );
    let (files, folder) = (user.data("files"), user.data("files/0000000"));
    fs::create_dir(&files).unwrap();
    fs::write(&folder, b"in the way").unwrap();
    let running = user.serve();
    running.wait_for_health("degraded");
    let health = running.body("/health");
    let name = files.display().to_string();
    assert!(health.contains("\"persister\"") && health.contains(&name), "{health}");
    assert!(health.contains("(2 attempts)"), "{health}");
    let failures = "utxokeep_persister_write_failures_total";
    let first = running.metric(failures).unwrap();
    assert!(first > 0.0);
    running.wait_for_metric(failures, |count| count > first);
    // Reads go on meanwhile.
    assert!(running.body("/api/v1/chain/tip").contains("\"height\":300"));
    fs::remove_file(&folder).unwrap();
    running.wait_for_metric("utxokeep_persister_height", |height| height > 299.5);
    running.wait_for_health("ok");
    running.stop();
    let (code, verified) = user.json("chain-db", &["persister", "verify"]);
    assert_eq!((code, &verified["clean"]), (Some(0), &true.into()), "{verified}");
}

/// Waits until a database has been made at a place.
fn wait_for_database(data: &Path) {
    let begin = Instant::now();
    while !data.join("CURRENT").exists() {
        assert!(begin.elapsed() < Duration::from_secs(120), "no database at {}", data.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_database_is_built_from_a_bucket_and_resumes_after_ctrl_c() {
    let Some(moto) = Moto::start_or_skip() else { return };
    let environment = Moto::environment(moto.address()).to_vec();
    let user = User::new(Some("s3://blocks/chain"), environment, "");
    user.persist();
    let (code, verified) = user.json("chain-db", &["persister", "verify"]);
    assert_eq!((code, &verified["clean"]), (Some(0), &true.into()), "{verified}");
    let importing = user.import("new-db").stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for_database(&user.data("new-db"));
    let id = importing.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let ended = importing.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", told(&ended));
    let built = user.import("new-db").output().unwrap();
    assert!(built.status.success(), "{}", told(&built));
    assert_eq!(user.digest("new-db"), user.digest("chain-db"));
}
