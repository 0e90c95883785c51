//! Reading never creates, and never changes what is there: every command of the program, on every
//! engine.

mod commands;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use tempfile::TempDir;
use utxokeep::{config::TxStoreConfig, node_store};
use utxokeep_chains::write_block_file;
use utxokeep_core::{Height, Network, OpenMode};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::{ANYONE, mine, postgres::TestDatabase, regtest_genesis};
use utxokeep_txstore::{BlockState, TxStore as _};

use crate::{
    program::{told, utxokeep},
    reading::commands::{COMMANDS, Does, Entry, Place},
};

/// What the answer says where there is nothing.
const NOTHING_THERE: [&str; 3] =
    ["there is no database at ", "there is no node store at ", "there is no wallet ledger at "];

fn leaves(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
    let inner: Vec<_> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if inner.is_empty() {
        found.insert(path.to_owned());
    }
    for sub in inner {
        leaves(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
    }
}

#[test]
fn every_command_of_the_program_is_tried_here() {
    let mut found = BTreeSet::new();
    leaves(&utxokeep_server::cli::tree(), "", &mut found);
    let tried: BTreeSet<String> = COMMANDS.iter().map(|entry| entry.command.to_owned()).collect();
    assert_eq!(found, tried);
}

/// Runs a command on a place, in a directory of its own.
fn run(entry: &Entry, home: &Path, place: &str) -> Output {
    let words: Vec<&str> = entry.command.split(' ').collect();
    let mut command = utxokeep(&words);
    command.args(entry.args);
    match entry.place {
        Place::Chain => command.args(["--data", place]),
        Place::Store | Place::RocksStore => command.args(["--store", place]),
        Place::Ledger => command.args(["--ledger", place]),
        Place::Elsewhere => command.args(["--connect", "http://127.0.0.1:1"]),
    };
    if entry.command == "store verify" {
        // A store against itself is refused; one that is not there is not created either.
        let missing = format!("rocksdb:{}", home.join("against").display());
        command.args(["--against", &missing]);
    }
    if entry.command == "tx adopt-blobs" {
        let file = home.parent().unwrap().join("blobs.toml");
        let blobs = home.parent().unwrap().join("blobs");
        fs::write(&file, format!("[txstore]\nblobs = {:?}\n", format!("file:{}", blobs.display())))
            .unwrap();
        command.arg("--config").arg(file);
    }
    command.current_dir(home).output().unwrap()
}

/// A file: when it was written, how long it is, and a hash of what is in it.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    written: (i64, i64),
    bytes: u64,
    hash: u64,
}

/// Everything below a directory; directories have no content. SQLite makes files for as long as it
/// has a database open, so that the time of a directory says nothing.
fn listing(dir: &Path) -> BTreeMap<PathBuf, Option<Content>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let content = if about.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            None
        } else {
            let mut hasher = DefaultHasher::new();
            hasher.write(&fs::read(&path).unwrap());
            let (written, hash) = ((about.mtime(), about.mtime_nsec()), hasher.finish());
            Some(Content { written, bytes: about.len(), hash })
        };
        found.insert(path, content);
    }
    found
}

/// Places where there is nothing, below a new directory.
fn nothings(engine: &str) -> Vec<(TempDir, String)> {
    let prefix = if engine.is_empty() { String::new() } else { format!("{engine}:") };
    let mut places = Vec::new();
    for kind in ["missing", "below/missing", "empty_directory", "empty_file"] {
        let home = TempDir::new().unwrap();
        let path = home.path().join(kind);
        match kind {
            "empty_directory" => fs::create_dir(&path).unwrap(),
            "empty_file" => fs::write(&path, "").unwrap(),
            _ => {}
        }
        places.push((home, format!("{prefix}{}", path.display())));
    }
    places
}

fn assert_nothing_is_there(entry: &Entry, place: &str, output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    let about = format!("{} {:?} on {place}: {told}", entry.command, entry.args);
    assert!(output.stdout.is_empty(), "{about}");
    if entry.place == Place::Elsewhere {
        assert_eq!(output.status.code(), Some(1), "{about}");
        return;
    }
    assert_eq!(output.status.code(), Some(4), "{about}");
    assert!(NOTHING_THERE.iter().any(|text| told.contains(text)), "{about}");
}

/// On every engine of embedded databases.
#[test]
fn a_command_on_a_mistyped_path_says_so_and_creates_nothing() {
    for entry in COMMANDS.iter().filter(|entry| entry.does != Does::Create) {
        let engines: &[&str] = match entry.place {
            Place::Chain => &[""],
            Place::Store => &["rocksdb", "sqlite"],
            Place::RocksStore => &["rocksdb"],
            Place::Ledger => &["sqlite"],
            Place::Elsewhere => &["nothing"],
        };
        for (home, place) in engines.iter().flat_map(|engine| nothings(engine)) {
            let before = listing(home.path());
            let output = run(entry, home.path(), &place);
            assert_nothing_is_there(entry, &place, &output);
            assert_eq!(listing(home.path()), before, "{} on {place}", entry.command);
        }
    }
}

/// What a server holds: tables with the number of their rows.
fn tables(url: &str) -> Vec<(String, i64)> {
    let options = Options::default().with(|settings| settings.mode = OpenMode::Read);
    let database = Database::open(url, &options).unwrap();
    database
        .read(|tx| {
            let names = tx.query_all(
                "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = 'public'
                 ORDER BY tablename",
                &[],
                |row| Ok(row.text(0)?.to_owned()),
            )?;
            names
                .into_iter()
                .map(|name| {
                    let rows = format!("SELECT count(*) FROM {name}");
                    Ok((name, tx.query_one(&rows, &[], |row| row.int(0))?))
                })
                .collect::<Result<_, utxokeep_sql::SqlError>>()
        })
        .unwrap()
}

#[test]
fn a_command_on_an_empty_server_says_so_and_creates_no_table() {
    let Some(server) = TestDatabase::create_or_skip() else { return };
    for entry in COMMANDS.iter().filter(|entry| entry.does != Does::Create) {
        if matches!(entry.place, Place::Store | Place::Ledger) {
            let home = TempDir::new().unwrap();
            let output = run(entry, home.path(), server.url());
            assert_nothing_is_there(entry, "a server", &output);
            assert_eq!(tables(server.url()), [], "{} {:?}", entry.command, entry.args);
        }
    }
}

fn assert_read(entry: &Entry, output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    let Does::Read(code) = entry.does else { panic!("{} does not read", entry.command) };
    assert_eq!(output.status.code(), Some(code), "{} {:?}: {told}", entry.command, entry.args);
}

fn make_chain(home: &Path) -> String {
    let data = home.join("data").display().to_string();
    let (mut header, mut raws) = (regtest_genesis(), Vec::new());
    for height in 1..=8 {
        let block = mine(&header, height, 1, &[(50, ANYONE)], &[]);
        header = block.header;
        raws.push(block.raw);
    }
    let file = home.join("blocks.dat");
    write_block_file(&file, Network::BitcoinRegtest, raws).unwrap();
    let import = ["chain", "import", "--network", "regtest", "--data", &data];
    let output = utxokeep(&import).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    data
}

fn make_store(url: &str) {
    let store = node_store::open(url, &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let state = BlockState { height: Height::new(7), median_time: 8 };
    store.set_block_state(state).unwrap().unwrap();
}

fn make_ledger(url: &str) {
    let create = ["wallet", "create", "hot", "--network", "regtest", "--ledger", url];
    let output = utxokeep(&create).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

/// Makes what is at a place; answers its name.
fn make(place: Place, engine: &str, home: &Path) -> String {
    let url = format!("{engine}:{}", home.join("made").display());
    match place {
        Place::Chain => make_chain(home),
        Place::Store | Place::RocksStore => {
            make_store(&url);
            url
        }
        Place::Ledger => {
            make_ledger(&url);
            url
        }
        Place::Elsewhere => unreachable!("nothing is made elsewhere"),
    }
}

#[test]
fn a_command_that_reads_leaves_every_file_as_it_was() {
    let places = [
        (Place::Chain, ""),
        (Place::Store, "rocksdb"),
        (Place::Store, "sqlite"),
        (Place::Ledger, "sqlite"),
    ];
    for (place, engine) in places {
        let home = TempDir::new().unwrap();
        let named = make(place, engine, home.path());
        let reads = |entry: &&Entry| {
            let is_here = entry.place == place
                || (entry.place, place, engine) == (Place::RocksStore, Place::Store, "rocksdb");
            is_here && matches!(entry.does, Does::Read(_))
        };
        for entry in COMMANDS.iter().filter(reads) {
            let before = listing(home.path());
            let output = run(entry, home.path(), &named);
            assert_read(entry, &output);
            assert_eq!(listing(home.path()), before, "{} {:?}", entry.command, entry.args);
        }
    }
}

#[test]
fn a_command_that_reads_leaves_every_table_of_a_server_as_it_was() {
    for place in [Place::Store, Place::Ledger] {
        let Some(server) = TestDatabase::create_or_skip() else { return };
        if place == Place::Store {
            make_store(server.url());
        } else {
            make_ledger(server.url());
        }
        let reads = |entry: &&Entry| entry.place == place && matches!(entry.does, Does::Read(_));
        for entry in COMMANDS.iter().filter(reads) {
            let home = TempDir::new().unwrap();
            let before = tables(server.url());
            assert_read(entry, &run(entry, home.path(), server.url()));
            assert_eq!(tables(server.url()), before, "{} {:?}", entry.command, entry.args);
        }
    }
}

/// A database of another program, in the journal mode that SQLite begins with.
fn make_foreign(home: &Path) -> PathBuf {
    let file = home.join("foreign.db");
    let url = format!("sqlite:{}", file.display());
    let made: Result<(), utxokeep_sql::SqlError> = Database::open(&url, &Options::default())
        .unwrap()
        .write(|tx| tx.execute_batch("CREATE TABLE addresses (name TEXT)"));
    made.unwrap();
    // The two bytes of the header that say which journal a database has: 2 is a log, 1 is not.
    let mut bytes = fs::read(&file).unwrap();
    assert_eq!(&bytes[18..20], [2, 2]);
    bytes[18..20].fill(1);
    fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn a_sqlite_file_of_another_program_is_left_as_it_is_by_commands_that_find_no_store_in_it() {
    let is_here = |entry: &&Entry| {
        matches!(entry.place, Place::Store | Place::Ledger) && entry.does != Does::Create
    };
    for entry in COMMANDS.iter().filter(is_here) {
        let home = TempDir::new().unwrap();
        let file = make_foreign(home.path());
        let place = format!("sqlite:{}", file.display());
        let before = listing(home.path());
        let output = run(entry, home.path(), &place);
        assert_nothing_is_there(entry, &place, &output);
        assert_eq!(listing(home.path()), before, "{} {:?}", entry.command, entry.args);
    }
}
