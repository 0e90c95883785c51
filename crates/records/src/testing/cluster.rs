//! A cluster of three primaries and three replicas on loopback, for one test.

use std::{
    fmt, fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::wire::{Wire, WireReply};

/// Set to make a missing server a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_REDIS";
/// Names another server program, such as that of Valkey.
const PROGRAM: &str = "UTXOKEEP_TEST_REDIS_SERVER";

const READY: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Primaries, and as many replicas: server `n` of the second half follows server `n - PRIMARIES`.
pub(super) const PRIMARIES: usize = 3;
pub(super) const SERVERS: usize = 2 * PRIMARIES;
const SLOTS: usize = 16_384;

/// Settings of servers whose data may be lost at any time. A server counts as failed after half a
/// second.
const SETTINGS: [(&str, &str); 15] = [
    ("bind", "127.0.0.1"),
    ("protected-mode", "no"),
    ("daemonize", "no"),
    ("cluster-enabled", "yes"),
    ("cluster-config-file", "nodes.conf"),
    ("cluster-node-timeout", "500"),
    ("cluster-replica-validity-factor", "0"),
    ("cluster-migration-barrier", "100"),
    ("repl-diskless-sync", "yes"),
    ("repl-diskless-sync-delay", "0"),
    ("repl-ping-replica-period", "1"),
    ("save", "\"\""),
    ("appendonly", "no"),
    ("maxmemory-policy", "noeviction"),
    ("enable-debug-command", "local"),
];

/// Why there is no cluster.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClusterError {
    /// The server is not installed.
    NotInstalled {
        /// The program that was looked for.
        program: String,
    },
    /// It is there and does not start.
    Failed {
        /// What happened.
        what: String,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled { program } => {
                write!(f, "{program} is not installed: run 'make setup'")
            }
            Self::Failed { what } => write!(f, "the cluster for tests does not work: {what}"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl From<io::Error> for ClusterError {
    fn from(error: io::Error) -> Self {
        failed(error.to_string())
    }
}

pub(super) fn failed(what: impl Into<String>) -> ClusterError {
    ClusterError::Failed { what: what.into() }
}

/// The server program.
pub(super) fn program() -> Result<PathBuf, ClusterError> {
    let program = std::env::var_os(PROGRAM).map_or_else(|| "redis-server".into(), PathBuf::from);
    let known = Command::new(&program).arg("--version").output();
    let name = program.display().to_string();
    known.map_err(|_| ClusterError::NotInstalled { program: name })?;
    Ok(program)
}

/// `None`, with a message, where the server is not installed, unless it is required.
pub(super) fn skip<T>(made: Result<T, ClusterError>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(ClusterError::NotInstalled { program }) if std::env::var_os(REQUIRE).is_none() => {
            eprintln!("SKIPPED: {program} is not installed, so Redis Cluster was NOT tested");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Ports that nobody uses at the moment: one for clients and one between servers, for each.
pub(super) fn free_ports() -> io::Result<Vec<(u16, u16)>> {
    let listeners = (0..2 * SERVERS).map(|_| TcpListener::bind("127.0.0.1:0"));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    let ports = ports.collect::<io::Result<Vec<u16>>>()?;
    Ok(ports.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Writes the configuration of a server into its directory.
pub(super) fn configure(
    directory: &Path,
    (port, bus): (u16, u16),
    settings: &[(&str, &str)],
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let place = directory.display().to_string();
    let (port, bus) = (port.to_string(), bus.to_string());
    let own = [("port", port.as_str()), ("cluster-port", bus.as_str()), ("dir", place.as_str())];
    let lines = SETTINGS.iter().chain(&own).chain(settings);
    let lines: Vec<String> = lines.map(|(name, value)| format!("{name} {value}\n")).collect();
    fs::write(directory.join("redis.conf"), lines.concat())
}

/// Makes a cluster of servers that have just been started.
pub(super) fn join(ports: &[(u16, u16)]) -> Result<(), ClusterError> {
    let mut wires = Vec::new();
    for &(port, _) in ports {
        let ready = || Wire::connect(port).ok().filter(|_| true);
        wires.push(until("a server that listens", ready)?);
    }
    for (number, wire) in wires.iter_mut().enumerate() {
        let epoch = (number + 1).to_string();
        ok(wire, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        if number < PRIMARIES {
            let (first, next) = (number * SLOTS / PRIMARIES, (number + 1) * SLOTS / PRIMARIES);
            let range = [first.to_string(), (next - 1).to_string()];
            ok(wire, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
        }
    }
    for &(port, bus) in &ports[1..] {
        let (port, bus) = (port.to_string(), bus.to_string());
        ok(&mut wires[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
    }
    for wire in &mut wires {
        until("servers that know each other", || {
            let nodes = wire.call(&["CLUSTER", "NODES"]).ok()?.text();
            let known = nodes.lines().filter(|line| !line.contains("handshake")).count();
            (known == SERVERS).then_some(())
        })?;
    }
    for number in PRIMARIES..SERVERS {
        let id = wires[number - PRIMARIES].call(&["CLUSTER", "MYID"])?.text();
        let wire = &mut wires[number];
        until("a replica", || {
            let said = wire.call(&["CLUSTER", "REPLICATE", &id]).ok()?;
            (said.text() == "OK").then_some(())
        })?;
    }
    ports.iter().try_for_each(|&(port, _)| wait_ready(port))
}

fn ok(wire: &mut Wire, words: &[&str]) -> Result<(), ClusterError> {
    match wire.call(words)?.text() {
        text if text == "OK" => Ok(()),
        text => Err(failed(format!("{words:?}: {text}"))),
    }
}

/// Waits until a server takes part in a cluster where every primary has a replica in step.
pub(super) fn wait_ready(port: u16) -> Result<(), ClusterError> {
    until("a cluster that is ready", || {
        let mut wire = Wire::connect(port).ok()?;
        let cluster = wire.call(&["CLUSTER", "INFO"]).ok()?.text();
        let replication = wire.call(&["INFO", "replication"]).ok()?.text();
        let nodes = wire.call(&["CLUSTER", "NODES"]).ok()?.text();
        let replicas = nodes.lines().filter(|line| line.contains("slave ")).count();
        let is_replica = replication.contains("role:slave");
        let in_step = if is_replica {
            replication.contains("master_link_status:up")
        } else {
            replication.contains("state=online")
        };
        let is_ready = cluster.contains("cluster_state:ok") && replicas == PRIMARIES && in_step;
        is_ready.then_some(())
    })
}

/// Asks again and again until there is an answer.
pub(super) fn until<T>(
    what: &str,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, ClusterError> {
    let end = Instant::now() + READY;
    loop {
        if let Some(answer) = ready() {
            return Ok(answer);
        }
        if Instant::now() > end {
            return Err(failed(format!("no {what} in {READY:?}")));
        }
        std::thread::sleep(POLL);
    }
}

/// Six servers that belong to one test; killed when dropped.
#[derive(Debug)]
pub struct TestCluster {
    directory: TempDir,
    program: PathBuf,
    ports: Vec<(u16, u16)>,
    servers: Vec<Option<Child>>,
}

impl TestCluster {
    /// Starts a cluster with further settings of `redis.conf` for every server. `None`, with a
    /// message, where the server is not installed, unless `UTXOKEEP_REQUIRE_REDIS` is set.
    pub fn start_or_skip(settings: &[(&str, &str)]) -> Option<Self> {
        skip(Self::start(settings))
    }

    fn start(settings: &[(&str, &str)]) -> Result<Self, ClusterError> {
        let program = program()?;
        let directory = TempDir::with_prefix("utxokeep-redis-")?;
        let ports = free_ports()?;
        let servers = (0..SERVERS).map(|_| None).collect();
        let mut cluster = Self { directory, program, ports, servers };
        for number in 0..SERVERS {
            configure(&cluster.place(number), cluster.ports[number], settings)?;
            cluster.restart(number)?;
        }
        join(&cluster.ports)?;
        Ok(cluster)
    }

    fn place(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    /// The servers as a URL, with parameters such as `ack=replica`.
    pub fn url(&self, parameters: &str) -> String {
        let hosts = self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}"));
        format!("redis://{}?{parameters}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Port of a server; the first three are primaries at the start.
    pub fn port(&self, number: usize) -> u16 {
        self.ports[number].0
    }

    /// A connection to a server.
    pub fn wire(&self, number: usize) -> io::Result<Wire> {
        Wire::connect(self.port(number))
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, number: usize) -> io::Result<()> {
        if let Some(mut server) = self.servers[number].take() {
            server.kill()?;
            server.wait()?;
        }
        Ok(())
    }

    /// Starts a server on what its directory holds.
    pub fn restart(&mut self, number: usize) -> Result<(), ClusterError> {
        let place = self.place(number);
        let log = fs::OpenOptions::new().create(true).append(true).open(place.join("log"))?;
        let server = Command::new(&self.program)
            .arg(place.join("redis.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.servers[number] = Some(server);
        Ok(())
    }

    /// Stops a server in its tracks, or lets it go on.
    pub fn pause(&self, number: usize, is_paused: bool) -> io::Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        let Some(server) = &self.servers[number] else { return Ok(()) };
        Ok(kill_process(Pid::from_child(server), signal)?)
    }

    /// Waits until every server is up, and every primary has a replica in step.
    pub fn wait_ready(&self) -> Result<(), ClusterError> {
        self.ports.iter().try_for_each(|&(port, _)| wait_ready(port))
    }

    /// Waits until another server than `number` holds a slot, as a server that runs sees it.
    pub fn wait_owner_changed(&self, slot: u16, number: usize) -> Result<usize, ClusterError> {
        until("another primary", || {
            (0..SERVERS).filter(|other| *other != number && self.servers[*other].is_some()).find(
                |&other| {
                    let holds = || -> Option<bool> {
                        let mut wire = self.wire(other).ok()?;
                        let nodes = wire.call(&["CLUSTER", "NODES"]).ok()?.text();
                        let own = nodes.lines().find(|line| line.contains("myself,master"))?;
                        let words = own.split_whitespace().skip(8);
                        let ranges = words.filter_map(|word| {
                            let (first, last) = word.split_once('-').unwrap_or((word, word));
                            Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
                        });
                        let mut ranges = ranges.collect::<Vec<_>>().into_iter();
                        Some(ranges.any(|(first, last)| (first..=last).contains(&slot)))
                    };
                    holds().unwrap_or(false)
                },
            )
        })
    }

    /// Moves a slot with all its keys from one primary to another, key by key. `between` is called
    /// once half of the keys have moved.
    pub fn move_slot(
        &self,
        slot: u16,
        from: usize,
        to: usize,
        between: impl FnOnce(),
    ) -> Result<(), ClusterError> {
        let (mut source, mut target) = (self.wire(from)?, self.wire(to)?);
        let (source_id, target_id) =
            (source.call(&["CLUSTER", "MYID"])?.text(), target.call(&["CLUSTER", "MYID"])?.text());
        let slot = slot.to_string();
        ok(&mut target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id])?;
        ok(&mut source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id])?;
        let count = source.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot])?.text();
        let half = count.parse::<usize>().unwrap_or_default() / 2;
        let (mut moved, mut between) = (0, Some(between));
        loop {
            let WireReply::List(keys) = source.call(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"])?
            else {
                return Err(failed("no keys of the slot"));
            };
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let WireReply::Bytes(key) = key else { continue };
                let port = self.port(to).to_string();
                let words: [&[u8]; 6] =
                    [b"MIGRATE", b"127.0.0.1", port.as_bytes(), &key, b"0", b"5000"];
                let said = source.call(&words)?.text();
                if said != "OK" && said != "NOKEY" {
                    return Err(failed(format!("MIGRATE: {said}")));
                }
                moved += 1;
                if moved >= half
                    && let Some(between) = between.take()
                {
                    between();
                }
            }
        }
        if let Some(between) = between.take() {
            between();
        }
        ok(&mut target, &["CLUSTER", "SETSLOT", &slot, "NODE", &target_id])?;
        ok(&mut source, &["CLUSTER", "SETSLOT", &slot, "NODE", &target_id])
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().filter_map(Option::as_mut) {
            // One that is gone already is as good.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
