//! A served node store whose disk fails: health says so, what can go on goes on, and what cannot
//! ends the program, so that somebody starts it again.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use tokio::runtime::{Builder, Runtime};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep_server::grpc::proto::{self, tx_store_client::TxStoreClient};

use crate::{
    grpc::program::serve,
    program::{Serving, until, utxokeep},
};

/// A client of a program.
pub(super) struct Client {
    runtime: Runtime,
    channel: Channel,
}

impl Client {
    pub(super) fn of(program: &Serving) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let channel = runtime.block_on(program.channel());
        Self { runtime, channel }
    }

    /// Stores a transaction of this number whose body has 20,000 bytes.
    pub(super) fn create(&self, number: u32) -> Result<(), Status> {
        let output = proto::Output { satoshis: 1, script: vec![0x51; 20_000] };
        let transaction = proto::Transaction {
            txid: txid(number),
            version: 1,
            is_coinbase: true,
            outputs: vec![output],
            ..proto::Transaction::default()
        };
        let new = proto::NewTransaction { transaction: Some(transaction), options: None };
        let request = proto::CreateRequest { transactions: vec![new], height: 7 };
        let mut client = TxStoreClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.create(request))?.into_inner();
        let result = answer.results.into_iter().next().unwrap().result.unwrap();
        assert!(matches!(result, proto::item_result::Result::Ok(_)), "{result:?}");
        Ok(())
    }

    pub(super) fn has(&self, number: u32) -> bool {
        let request = proto::GetRequest { txids: vec![txid(number)], fields: None };
        let mut client = TxStoreClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.get(request)).unwrap().into_inner();
        answer
            .results
            .into_iter()
            .next()
            .unwrap()
            .result
            .is_some_and(|found| matches!(found, proto::get_result::Result::Ok(_)))
    }

    /// Creates until the disk refuses; answers how many were acknowledged, and the refusal.
    fn create_until_refused(&self) -> (u32, Status) {
        let refused = (0..2_000).find_map(|number| Some((number, self.create(number).err()?)));
        refused.expect("the disk never refused")
    }

    pub(super) fn health(&self) -> ServingStatus {
        let request = HealthCheckRequest { service: "utxokeep.v1.TxStore".to_owned() };
        let mut client = HealthClient::new(self.channel.clone());
        self.runtime.block_on(client.check(request)).unwrap().into_inner().status()
    }
}

pub(super) fn txid(number: u32) -> Vec<u8> {
    let mut txid = vec![9; 28];
    txid.extend_from_slice(&number.to_be_bytes());
    txid
}

/// Starts the program and does nothing to it.
const PLAINLY: &[&str] = &["sh", "-c", "exec \"$@\""];

/// The node store below `store`, served by a program that `shell` starts.
fn start(dir: &Path, store: &Path, shell: &[&str]) -> Serving {
    start_on("rocksdb", dir, store, shell)
}

fn config(engine: &str, store: &Path) -> String {
    let place = store.join("node");
    // Recovery needs room for what is in memory.
    format!("[txstore]\nurl = \"{engine}:{}\"\ncache_mib = 16\n", place.display())
}

fn start_on(engine: &str, dir: &Path, store: &Path, shell: &[&str]) -> Serving {
    let program = serve(dir, &config(engine, store));
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(store);
    command.arg(program.get_program()).args(program.get_args());
    Serving::start(command)
}

#[test]
fn a_full_disk_is_reported_and_writing_goes_on_when_there_is_room() {
    a_full_disk_is_waited_out("rocksdb");
}

#[test]
fn a_full_disk_is_reported_and_writing_goes_on_when_there_is_room_on_sqlite() {
    a_full_disk_is_waited_out("sqlite");
}

/// A file system of its own, which needs no rights where the system allows it.
pub(crate) const APART: [&str; 2] = ["unshare", "-rm"];

pub(crate) fn may_mount() -> bool {
    let tried = Command::new(APART[0]).args([APART[1], "true"]).status();
    let may_mount = tried.is_ok_and(|status| status.success());
    if !may_mount {
        assert!(std::env::var_os("CI").is_none(), "CI must be able to mount");
        eprintln!("skipped: `unshare -rm` is not allowed here");
    }
    may_mount
}

#[test]
fn a_command_that_ends_on_a_full_disk_does_not_promise_to_go_on() {
    if !may_mount() {
        return;
    }
    let small = tempfile::tempdir().unwrap();
    let loops = "mount -t tmpfs -o size=12m tmpfs \"$0\" || exit 99
        for start in 1 2 3; do \"$@\" 2>&1; echo \"ended with $?\"; done";
    let output = Command::new(APART[0])
        .args([APART[1], "sh", "-c", loops])
        .arg(small.path())
        .arg(utxokeep(&[]).get_program())
        .args(["demo", "--blocks-per-second", "100000", "--blocks", "1000000", "--data"])
        .arg(small.path().join("chain"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches("ended with 1").count(), 3, "{said}");
    assert!(said.contains("the disk is full"), "{said}");
    assert!(!said.contains("by itself") && !said.contains("safe on disk"), "{said}");
}

fn a_full_disk_is_waited_out(engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    if !may_mount() {
        return;
    }
    let mount = "mount -t tmpfs -o size=48m tmpfs \"$0\" && exec \"$@\"";
    let program = start_on(engine, dir.path(), &small, &[APART[0], APART[1], "sh", "-c", mount]);
    let client = Client::of(&program);
    assert!(program.get("/health").contains(" 200 OK"));

    // The file system is to be seen only from inside the program.
    let inside = PathBuf::from(format!("/proc/{}/root", program.id()));
    let filler = inside.join(small.strip_prefix("/").unwrap()).join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    let (acknowledged, refusal) = client.create_until_refused();
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    assert!(refusal.message().contains("the disk is full"), "{refusal}");
    for path in ["/health", "/health/ready"] {
        let answer = program.get(path);
        assert!(answer.contains(" 503 ") && answer.contains("the disk is full"), "{answer}");
    }
    until("the health service noticing", || client.health() == ServingStatus::NotServing);
    assert!(client.create(acknowledged).is_err(), "still full");

    drop(file);
    fs::remove_file(&filler).unwrap();
    // Nobody writes: a server that is not healthy is not asked.
    until("recovery", || program.get("/health").contains(" 200 OK"));
    until("the health service noticing", || client.health() == ServingStatus::Serving);
    client.create(acknowledged).unwrap();
    for number in 0..=acknowledged {
        assert!(client.has(number), "{number} was acknowledged");
    }
    program.stop();
}

#[test]
fn a_store_that_takes_no_more_writes_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    // A file that may not grow is a failure that nobody waits out.
    let limited = "trap '' XFSZ; ulimit -f 1024; exec \"$@\"";
    let program = start(dir.path(), &store, &["sh", "-c", limited]);
    let client = Client::of(&program);
    let (acknowledged, refusal) = client.create_until_refused();
    assert!(acknowledged > 0 && refusal.code() == Code::Unavailable, "{refusal}");
    drop(client);
    let (status, said) = program.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the node store takes no more writes"), "{said}");

    let program = start(dir.path(), &store, PLAINLY);
    let client = Client::of(&program);
    assert!((0..acknowledged).all(|number| client.has(number)));
    program.stop();
}

/// Starts what cannot start; answers its code and what it says.
fn refused(dir: &Path, config: &str) -> (Option<i32>, String) {
    let output = serve(dir, config).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_data_directory_that_is_deleted_in_use_is_noticed_and_not_made_anew_by_the_next_start() {
    for engine in ["rocksdb", "sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        let program = start_on(engine, dir.path(), &store, PLAINLY);
        let client = Client::of(&program);
        client.create(1).unwrap();
        drop(client);
        let node = store.join("node");
        if engine == "rocksdb" {
            fs::remove_dir_all(&node).unwrap();
        } else {
            for file in ["node", "node-wal", "node-shm"] {
                fs::remove_file(store.join(file)).unwrap();
            }
        }
        let (status, said) = program.ended();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("deleted or moved away"), "{said}");
        for _ in 0..2 {
            let (code, said) = refused(dir.path(), &config(engine, &store));
            assert_eq!(code, Some(5), "{said}");
            assert!(said.contains("is gone") && said.contains(".node.utxokeep-served"), "{said}");
            assert!(!node.exists(), "nothing was made in its place");
        }
        // To begin anew is somebody's decision.
        fs::remove_file(store.join(".node.utxokeep-served")).unwrap();
        let program = start_on(engine, dir.path(), &store, PLAINLY);
        assert!(!Client::of(&program).has(1));
        program.stop();
    }
}

#[test]
fn a_store_that_is_moved_away_is_missed_and_served_again_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let program = start(dir.path(), &store, PLAINLY);
    Client::of(&program).create(1).unwrap();
    program.stop();
    let (node, away) = (store.join("node"), dir.path().join("away"));
    fs::rename(&node, &away).unwrap();
    // What a disk that is not mounted leaves.
    fs::create_dir(&node).unwrap();
    let (code, said) = refused(dir.path(), &config("rocksdb", &store));
    assert_eq!(code, Some(5), "{said}");
    assert_eq!(fs::read_dir(&node).unwrap().count(), 0, "the empty directory stays empty");
    fs::remove_dir(&node).unwrap();
    fs::rename(&away, &node).unwrap();
    let program = start(dir.path(), &store, PLAINLY);
    assert!(Client::of(&program).has(1));
    program.stop();
}

#[test]
fn nothing_is_made_where_the_configuration_says_that_it_exists() {
    for engine in ["rocksdb", "sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        let only_existing = format!("{}[server]\ncreate_missing = false\n", config(engine, &store));
        let (code, said) = refused(dir.path(), &only_existing);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains("there is no node store at"), "{said}");
        assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "nothing was made");
        start_on(engine, dir.path(), &store, PLAINLY).stop();
        Serving::start(serve(dir.path(), &only_existing)).stop();
        // What a disk that is not mounted leaves: neither the store nor what is beside it.
        fs::remove_dir_all(&store).unwrap();
        fs::create_dir(&store).unwrap();
        assert_eq!(refused(dir.path(), &only_existing).0, Some(4));
        assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "nothing was made");
    }
}

#[test]
fn a_backup_copied_over_a_newer_store_is_refused_with_the_way_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let (node, backup) = (store.join("node"), dir.path().join("backup"));
    let write = |number: u32| {
        let program = start(dir.path(), &store, PLAINLY);
        Client::of(&program).create(number).unwrap();
        program.stop();
    };
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
            }
        }
    };
    write(1);
    copy(&node, &backup);
    write(2);
    write(3);
    copy(&backup, &node);
    for _ in 0..2 {
        let (code, said) = refused(dir.path(), &config("rocksdb", &store));
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("two states") && said.contains("empty directory"), "{said}");
    }
    fs::remove_dir_all(&node).unwrap();
    copy(&backup, &node);
    let program = start(dir.path(), &store, PLAINLY);
    let client = Client::of(&program);
    assert_eq!([1, 2, 3].map(|number| client.has(number)), [true, false, false]);
    program.stop();
}

#[test]
fn a_deleted_lock_is_noticed_and_the_next_start_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let program = start(dir.path(), &store, PLAINLY);
    Client::of(&program).create(1).unwrap();
    fs::remove_file(store.join("node/LOCK")).unwrap();
    let (status, said) = program.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("LOCK"), "{said}");
    let program = start(dir.path(), &store, PLAINLY);
    assert!(Client::of(&program).has(1));
    program.stop();
}

#[test]
fn a_deleted_file_of_rocksdb_is_noticed_and_its_loss_refused_at_the_next_start() {
    for what in ["CURRENT", "MANIFEST-", ".log", ".sst"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        // What a first start leaves in its log is in a table after the second.
        start(dir.path(), &store, PLAINLY).stop();
        let program = start(dir.path(), &store, PLAINLY);
        let client = Client::of(&program);
        client.create(1).unwrap();
        let files = fs::read_dir(store.join("node")).unwrap().map(|file| file.unwrap().path());
        let is_one = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(what) || name.ends_with(what)
        };
        let newest = files.filter(is_one).max().unwrap();
        fs::remove_file(&newest).unwrap();
        drop(client);
        let (status, said) = program.ended();
        assert_eq!(status.code(), Some(1), "{what}: {said}");
        assert!(said.contains("were deleted or moved away"), "{what}: {said}");
        assert!(said.contains(&*newest.file_name().unwrap().to_string_lossy()), "{what}: {said}");
        if what == "MANIFEST-" {
            // RocksDB knows what was in it, and writes another one when it is closed.
            let program = start(dir.path(), &store, PLAINLY);
            assert!(Client::of(&program).has(1));
            program.stop();
            continue;
        }
        let mut again = serve(dir.path(), &config("rocksdb", &store));
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{what}: {said}");
    }
}

#[test]
fn a_deleted_or_exchanged_sqlite_file_is_noticed() {
    for (exchanged, what) in [(false, "was deleted or moved away"), (true, "was exchanged")] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        let program = start_on("sqlite", dir.path(), &store, PLAINLY);
        if exchanged {
            fs::write(store.join("other"), b"").unwrap();
            fs::rename(store.join("other"), store.join("node")).unwrap();
        } else {
            fs::remove_file(store.join("node")).unwrap();
        }
        let (status, said) = program.ended();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(what), "{said}");
    }
}

/// Commands that look at a node store and its transaction 1.
fn looks() -> [Vec<String>; 4] {
    let reversed: Vec<u8> = txid(1).iter().rev().copied().collect();
    let txid = utxokeep_core::hex_encode(&reversed);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    [
        words(&["tx", "verify"]),
        words(&["tx", "show", &txid]),
        words(&["tx", "status"]),
        words(&["pruner", "jobs"]),
    ]
}

#[test]
fn reading_a_sqlite_store_of_a_killed_program_moves_nothing_out_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let program = start_on("sqlite", dir.path(), &store, PLAINLY);
    Client::of(&program).create(1).unwrap();
    program.kill();
    let content = || ["node", "node-wal"].map(|name| fs::read(store.join(name)).unwrap());
    let before = content();
    assert!(!before[1].is_empty());
    for look in looks() {
        let output = Command::new(env!("CARGO_BIN_EXE_utxokeep"))
            .args(&look)
            .args(["--store", &format!("sqlite:{}", store.join("node").display())])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{look:?}: {output:?}");
        assert!(content() == before, "{look:?} wrote");
    }
    let program = start_on("sqlite", dir.path(), &store, PLAINLY);
    assert!(Client::of(&program).has(1));
    program.stop();
}

#[test]
fn a_deleted_log_of_sqlite_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let program = start_on("sqlite", dir.path(), &store, PLAINLY);
    Client::of(&program).create(1).unwrap();
    fs::remove_file(store.join("node-wal")).unwrap();
    let (status, said) = program.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the log of the database"), "{said}");
}

#[test]
fn a_deleted_wallet_ledger_is_noticed_and_not_made_anew_by_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ledger.db");
    let config = format!("[wallet]\nurl = \"sqlite:{}\"\n", file.display());
    let program = Serving::start(serve(dir.path(), &config));
    assert!(program.get("/health").contains(" 200 OK"));
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(dir.path().join(format!("ledger.db{end}"))).unwrap();
    }
    let (status, said) = program.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the wallet ledger takes no more writes"), "{said}");
    let (code, said) = refused(dir.path(), &config);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("the wallet ledger at") && said.contains("is gone"), "{said}");
    assert!(!file.exists(), "nothing was made in its place");
}

#[test]
fn a_sqlite_store_whose_log_was_lost_in_its_first_session_is_not_taken_for_new() {
    for log in [&b""[..], &[0; 32]] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        fs::create_dir(&store).unwrap();
        let program = start_on("sqlite", dir.path(), &store, PLAINLY);
        Client::of(&program).create(1).unwrap();
        program.kill();
        fs::write(store.join("node-wal"), log).unwrap();
        for _ in 0..2 {
            let (code, said) = refused(dir.path(), &config("sqlite", &store));
            assert_eq!(code, Some(5), "{said}");
            assert!(said.contains("is gone"), "{said}");
        }
    }
}

#[test]
fn no_ledger_is_created_by_hand_in_place_of_one_that_was_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ledger.db");
    let config = format!("[wallet]\nurl = \"sqlite:{}\"\n", file.display());
    Serving::start(serve(dir.path(), &config)).stop();
    fs::remove_file(&file).unwrap();
    let words = ["wallet", "create", "hot", "--network", "regtest", "--config"];
    let output = utxokeep(&words).arg(dir.path().join("config.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("is gone"), "{said}");
    assert!(!file.exists(), "nothing was made in its place");
}

#[test]
fn verify_finds_any_page_of_a_sqlite_store_that_was_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let program = start_on("sqlite", dir.path(), &store, PLAINLY);
    Client::of(&program).create(1).unwrap();
    program.stop();
    let file = store.join("node");
    let whole = fs::read(&file).unwrap();
    let url = format!("sqlite:{}", file.display());
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096..][..4096].fill(0);
        fs::write(&file, &damaged).unwrap();
        let output = utxokeep(&["tx", "verify", "--store", &url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "page {page}: {said}");
    }
    fs::write(&file, &whole).unwrap();
    let output = utxokeep(&["tx", "verify", "--store", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}
