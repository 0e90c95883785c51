//! A private `PostgreSQL` server for tests, shared by all test processes of this user.
//!
//! The first process that asks starts the server in a directory for temporary files, on a socket
//! that only this user can reach; others join. Each process holds a shared lock for as long as it
//! lives. A small shell script beside the server looks at that lock every second, and stops the
//! server and removes its directory once nobody has held it for five seconds. When the script is
//! killed, the kernel stops the server. [`OwnServer`] is for tests that need one for themselves.
//!
//! `UTXOKEEP_TEST_PORTABLE_POSTGRES_URL` names another server, on which databases are made in place of
//! the private one: `postgres://USER@HOST:PORT/DATABASE`, of any maker that speaks the language of
//! `PostgreSQL`. The user must be allowed to make databases there.

mod own;

pub use self::own::OwnServer;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Set to make a missing `PostgreSQL` a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_POSTGRES";

/// Names a server that is there already.
const GIVEN: &str = "UTXOKEEP_TEST_PORTABLE_POSTGRES_URL";

/// Superuser of the server; connections are trusted because only this user reaches the socket.
const USER: &str = "utxokeep";

const READY_POLLS_MAX: u32 = 300;
const READY_POLL: Duration = Duration::from_millis(100);

/// Arguments: lock of users, lock of starting, directory, then the command of the server.
const SUPERVISOR: &str = r#"
users=$1 start=$2 run=$3
shift 3
"$@" &
server=$!
idle=0
while kill -0 "$server" 2>/dev/null; do
    sleep 1
    if flock -n -x "$users" true; then idle=$((idle + 1)); else idle=0; fi
    [ "$idle" -ge 5 ] || continue
    idle=0
    exec 9>"$start"
    flock -x 9
    # Nobody can join while the start lock is held; someone may have before.
    if flock -n -x "$users" true; then
        kill -INT "$server"
        wait "$server"
        rm -rf "$run"
        exit 0
    fi
    exec 9>&-
done
"#;

/// Settings for a server whose data may be lost at any time.
const SETTINGS: [&str; 9] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=64MB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "jit=off",
];

/// Why there is no server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PostgresError {
    /// A program that is needed is missing.
    NotInstalled {
        /// Its name.
        program: String,
    },
    /// It is there and does not start.
    Failed {
        /// What happened.
        what: String,
    },
}

impl std::fmt::Display for PostgresError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInstalled { program } => {
                write!(f, "{program} is not installed: run 'make setup'")
            }
            Self::Failed { what } => write!(f, "the PostgreSQL for tests does not work: {what}"),
        }
    }
}

impl std::error::Error for PostgresError {}

impl From<io::Error> for PostgresError {
    fn from(error: io::Error) -> Self {
        Self::Failed { what: error.to_string() }
    }
}

/// An empty database of its own on the shared server; removed when dropped.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    /// Creates one, and starts the server if need be.
    pub fn create() -> Result<Self, PostgresError> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        if let Some(given) = Given::of_environment()? {
            return given.create(number);
        }
        let server = server()?;
        let name = format!("test_{}_{number}", std::process::id());
        // Process ids come again, so a killed process may have left one of this name.
        server.psql(&[
            &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            &format!("CREATE DATABASE {name}"),
        ])?;
        let host = server.run.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let url = format!("postgres://{USER}@{host}/{name}");
        Ok(Self { name, url })
    }

    /// Like [`TestDatabase::create`] for a test that is skipped, with a message, where
    /// `PostgreSQL` is not installed. With `UTXOKEEP_REQUIRE_POSTGRES` set it fails.
    pub fn create_or_skip() -> Option<Self> {
        skip(Self::create())
    }

    /// Where to connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts off every connection to this database, as a restart of the server would.
    pub fn cut_connections(&self) -> Result<(), PostgresError> {
        if Given::of_environment()?.is_some() {
            return Err(failed("the connections of a server that is given are not ours to cut"));
        }
        server()?.psql(&[&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        )])
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Ok(Some(given)) = Given::of_environment() {
            let _ = given.psql(&format!("DROP DATABASE IF EXISTS {}", self.name));
        } else if let Ok(server) = server() {
            // What stays is removed with the server.
            let _ = server.psql(&[&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)]);
        }
    }
}

fn skip<T>(made: Result<T, PostgresError>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(PostgresError::NotInstalled { program }) => {
            crate::skipped("PostgreSQL", REQUIRE, &format!("{program} is not installed"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A server that is there already.
struct Given {
    programs: PathBuf,
    url: String,
}

impl Given {
    fn of_environment() -> Result<Option<Self>, PostgresError> {
        match std::env::var(GIVEN) {
            Ok(url) => Ok(Some(Self { programs: programs()?, url })),
            Err(_) => Ok(None),
        }
    }

    /// Makes a database whose name no process on any machine makes again.
    fn create(&self, number: u32) -> Result<TestDatabase, PostgresError> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name = format!("test_{:016x}_{number}", u64::from_be_bytes(random));
        let url = with_database(&self.url, &name)
            .ok_or_else(|| failed(format!("{GIVEN} is not postgres://USER@HOST:PORT/DATABASE")))?;
        self.psql(&format!("CREATE DATABASE {name}"))?;
        Ok(TestDatabase { name, url })
    }

    fn psql(&self, statement: &str) -> Result<(), PostgresError> {
        let outcome = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url, "-c", statement])
            .stdin(Stdio::null())
            .output()?;
        if outcome.status.success() {
            return Ok(());
        }
        Err(failed(format!("{statement}: {}", String::from_utf8_lossy(&outcome.stderr))))
    }
}

/// The same server with another database.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (rest, parameters) = match rest.split_once('?') {
        Some((rest, parameters)) => (rest, format!("?{parameters}")),
        None => (rest, String::new()),
    };
    let (server, _) = rest.split_once('/')?;
    Some(format!("{scheme}://{server}/{name}{parameters}"))
}

fn failed(what: impl Into<String>) -> PostgresError {
    PostgresError::Failed { what: what.into() }
}

struct Server {
    programs: PathBuf,
    run: PathBuf,
    /// Held while the process lives: the sign that the server is in use.
    _in_use: File,
}

fn server() -> Result<&'static Server, PostgresError> {
    static SERVER: OnceLock<Result<Server, PostgresError>> = OnceLock::new();
    SERVER.get_or_init(join).as_ref().map_err(Clone::clone)
}

/// Joins the running server or starts it. The start lock is held meanwhile.
fn join() -> Result<Server, PostgresError> {
    let programs = programs()?;
    for program in ["flock", "setpriv"] {
        let known = Command::new(program).arg("--version").output();
        known.map_err(|_| PostgresError::NotInstalled { program: program.to_owned() })?;
    }
    let me = fs::metadata("/proc/self")?.uid();
    let base = std::env::temp_dir().join(format!("utxokeep-test-postgres-{me}"));
    fs::create_dir_all(&base)?;
    if fs::symlink_metadata(&base)?.uid() != me {
        return Err(PostgresError::Failed {
            what: format!("{} belongs to somebody else", base.display()),
        });
    }
    fs::set_permissions(&base, fs::Permissions::from_mode(0o755))?;
    let (start, users) = (base.join("start.lock"), base.join("users.lock"));
    let starting = File::create(&start)?;
    starting.lock()?;
    let in_use = File::create(&users)?;
    in_use.lock_shared()?;
    let server = Server { programs, run: base.join("run"), _in_use: in_use };
    if !server.is_ready() {
        server.start(&start, &users)?;
    }
    Ok(server)
}

impl Server {
    fn start(&self, start: &Path, users: &Path) -> Result<(), PostgresError> {
        match fs::remove_dir_all(&self.run) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir(&self.run)?,
        }
        fs::set_permissions(&self.run, fs::Permissions::from_mode(0o700))?;
        let (as_owner, data) = (as_owner(&self.run)?, self.run.join("data"));
        initdb(&as_owner, &self.programs, &self.run)?;
        let log = File::create(self.run.join("log"))?;
        Command::new("sh")
            .args(["-c", SUPERVISOR, "utxokeep-test-postgres"])
            .args([users, start, &self.run])
            .args(&as_owner)
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&self.run)
            .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
            .current_dir(&self.run)
            // Not one of the processes that end with this test.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        for _ in 0..READY_POLLS_MAX {
            if self.is_ready() {
                return Ok(());
            }
            std::thread::sleep(READY_POLL);
        }
        let log = fs::read_to_string(self.run.join("log")).unwrap_or_default();
        Err(PostgresError::Failed { what: format!("it did not start in time\n{log}") })
    }

    fn is_ready(&self) -> bool {
        let outcome = self.client("pg_isready").arg("-q").status();
        outcome.is_ok_and(|status| status.success())
    }

    fn psql(&self, statements: &[&str]) -> Result<(), PostgresError> {
        let outcome = self
            .client("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres"])
            .args(statements.iter().flat_map(|sql| ["-c", sql]))
            .env("PGOPTIONS", "-c client_min_messages=warning")
            .output()?;
        if outcome.status.success() {
            return Ok(());
        }
        let what = format!("{statements:?}: {}", String::from_utf8_lossy(&outcome.stderr));
        Err(PostgresError::Failed { what })
    }

    fn client(&self, program: &str) -> Command {
        client(&self.programs, program, &self.run)
    }
}

/// A program that talks to the server behind `socket`.
fn client(programs: &Path, program: &str, socket: &Path) -> Command {
    let mut command = Command::new(programs.join(program));
    command.arg("-h").arg(socket).args(["-U", USER]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// How a program is started that ends with its parent and owns `run`: the server refuses root.
fn as_owner(run: &Path) -> Result<Vec<String>, PostgresError> {
    let mut words = vec!["setpriv".to_owned(), "--pdeathsig=INT".to_owned()];
    if fs::metadata("/proc/self")?.uid() == 0 {
        let (uid, gid) = unprivileged()?;
        chown(run, Some(uid), Some(gid))?;
        words.extend([format!("--reuid={uid}"), format!("--regid={gid}")]);
        words.push("--clear-groups".to_owned());
    }
    Ok(words)
}

/// Makes an empty `data` in `run`.
fn initdb(as_owner: &[String], programs: &Path, run: &Path) -> Result<(), PostgresError> {
    let initdb = Command::new(&as_owner[0])
        .args(&as_owner[1..])
        .arg(programs.join("initdb"))
        .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-U", USER, "-D"])
        .arg(run.join("data"))
        .current_dir(run)
        .stdin(Stdio::null())
        .output()?;
    if initdb.status.success() {
        return Ok(());
    }
    Err(failed(format!("initdb: {}", String::from_utf8_lossy(&initdb.stderr))))
}

/// Where the programs of the server are; distributions keep them off the search path.
fn programs() -> Result<PathBuf, PostgresError> {
    let named = Command::new("pg_config").arg("--bindir").output().ok();
    let named = named.map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    found.sort();
    let mut places = named.into_iter().chain(found.into_iter().rev());
    places
        .find(|place: &PathBuf| {
            ["initdb", "postgres", "psql", "pg_isready"]
                .iter()
                .all(|name| place.join(name).exists())
        })
        .ok_or_else(|| PostgresError::NotInstalled { program: "PostgreSQL".to_owned() })
}

/// User and group to run as when we are root.
fn unprivileged() -> Result<(u32, u32), PostgresError> {
    let number = |flag: &str, user: &str| {
        let output = Command::new("id").args([flag, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    ["postgres", "nobody"]
        .iter()
        .find_map(|user| Some((number("-u", user)?, number("-g", user)?)))
        .ok_or_else(|| PostgresError::Failed {
            what: "no user to run it: neither postgres nor nobody".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_on_a_server_that_is_given() {
        let named = |url: &str| with_database(url, "new");
        let plain = named("postgres://me@host:5433/old");
        assert_eq!(plain.as_deref(), Some("postgres://me@host:5433/new"));
        let with_parameters = named("postgres://me:pw@a,b/old?sslmode=disable");
        assert_eq!(with_parameters.as_deref(), Some("postgres://me:pw@a,b/new?sslmode=disable"));
        assert_eq!(named("host/old"), None);
        assert_eq!(named("postgres://host"), None);
    }
}
