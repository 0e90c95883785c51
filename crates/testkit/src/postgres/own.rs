//! A `PostgreSQL` server that belongs to one test: it can be configured, copied and killed.

use super::{PostgresError, USER, as_owner, client, failed, initdb, programs, skip};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const READY_POLLS_MAX: u32 = 600;
const READY_POLL: Duration = Duration::from_millis(50);

/// A server on a port of this machine and on a socket; killed when dropped.
#[derive(Debug)]
pub struct OwnServer {
    directory: TempDir,
    programs: PathBuf,
    as_owner: Vec<String>,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

impl OwnServer {
    /// Starts one with `settings`, such as `wal_level=replica`. `None`, with a message, where
    /// `PostgreSQL` is not installed, unless `UTXOKEEP_REQUIRE_POSTGRES` is set.
    pub fn start_or_skip(settings: &[&str]) -> Option<Self> {
        skip(Self::start(settings))
    }

    fn start(settings: &[&str]) -> Result<Self, PostgresError> {
        let mut server = Self::place(settings)?;
        initdb(&server.as_owner, &server.programs, server.directory.path())?;
        server.run()?;
        Ok(server)
    }

    /// An empty directory, which the user of the server owns, and a port that is free.
    fn place(settings: &[&str]) -> Result<Self, PostgresError> {
        let directory = TempDir::with_prefix("utxokeep-postgres-")?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
        let as_owner = as_owner(directory.path())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Ok(Self { directory, programs: programs()?, as_owner, port, settings, process: None })
    }

    /// Starts the server on what its directory holds.
    fn run(&mut self) -> Result<(), PostgresError> {
        let log = File::create(self.directory.path().join("log"))?;
        let fixed = ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=32MB", "jit=off"];
        let settings = fixed.iter().copied().chain(self.settings.iter().map(String::as_str));
        let process = self
            .owned("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.directory.path())
            .args(["-p", &self.port.to_string()])
            .args(settings.flat_map(|setting| ["-c", setting]))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(process);
        for _ in 0..READY_POLLS_MAX {
            if self.client("pg_isready").arg("-q").status()?.success() {
                return Ok(());
            }
            std::thread::sleep(READY_POLL);
        }
        Err(failed(format!("it did not start in time\n{}", self.log())))
    }

    /// A second server that repeats what this one does, under the name `name`.
    pub fn standby(&self, name: &str, settings: &[&str]) -> Result<Self, PostgresError> {
        let mut standby = Self::place(settings)?;
        let source =
            format!("host=127.0.0.1 port={} user={USER} application_name={name}", self.port);
        let copied = standby
            .owned("pg_basebackup")
            .args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &source, "-D"])
            .arg(standby.data())
            .output()?;
        if !copied.status.success() {
            return Err(failed(String::from_utf8_lossy(&copied.stderr)));
        }
        standby.run()?;
        Ok(standby)
    }

    /// Makes a standby a primary, and waits until it takes writes.
    pub fn promote(&self) -> Result<(), PostgresError> {
        let promoted =
            self.owned("pg_ctl").args(["promote", "-s", "-D"]).arg(self.data()).output()?;
        if promoted.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&promoted.stderr)))
    }

    /// Ends every process of the server at once, as the loss of its machine would.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let parent = process.id().to_string();
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &parent]).output();
        let children = children.map(|of| String::from_utf8_lossy(&of.stdout).into_owned());
        // The first process first: it would start new children.
        let _ = process.kill();
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(children.unwrap_or_default().split_whitespace())
            .stderr(Stdio::null())
            .status();
        let _ = process.wait();
    }

    /// Starts the server again after [`OwnServer::kill`].
    pub fn restart(&mut self) -> Result<(), PostgresError> {
        self.kill();
        self.run()
    }

    /// Stops every process of the server where it is, or lets it go on: meanwhile connections stand
    /// and nobody answers.
    pub fn freeze(&self, is_frozen: bool) {
        let Some(process) = &self.process else { return };
        let parent = process.id().to_string();
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &parent]).output();
        let children = children.map(|of| String::from_utf8_lossy(&of.stdout).into_owned());
        let _ = Command::new("kill")
            .args([if is_frozen { "-STOP" } else { "-CONT" }, &parent])
            .args(children.unwrap_or_default().split_whitespace())
            .stderr(Stdio::null())
            .status();
    }

    /// Runs statements as the superuser, each on its own.
    pub fn psql(&self, statements: &[&str]) -> Result<(), PostgresError> {
        self.answer(statements).map(|_| ())
    }

    /// What statements answer, as text without headings.
    pub fn answer(&self, statements: &[&str]) -> Result<String, PostgresError> {
        let outcome = self
            .client("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres"])
            .args(statements.iter().flat_map(|sql| ["-c", sql]))
            .stdout(Stdio::piped())
            .output()?;
        if outcome.status.success() {
            return Ok(String::from_utf8_lossy(&outcome.stdout).trim().to_owned());
        }
        Err(failed(format!("{statements:?}: {}", String::from_utf8_lossy(&outcome.stderr))))
    }

    /// Puts a file beside the data that only the server can read.
    pub fn put(&self, name: &str, text: &str) -> Result<PathBuf, PostgresError> {
        let file = self.data().join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        let owner = fs::metadata(self.directory.path())?;
        chown(&file, Some(owner.uid()), Some(owner.gid()))?;
        Ok(file)
    }

    /// Where to connect with TCP, as `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its superuser.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A program that runs as the owner of the data.
    fn owned(&self, program: &str) -> Command {
        let mut command = Command::new(&self.as_owner[0]);
        command.args(&self.as_owner[1..]).arg(self.programs.join(program));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    fn client(&self, program: &str) -> Command {
        let mut command = client(&self.programs, program, self.directory.path());
        command.args(["-p", &self.port.to_string()]);
        command
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}
