//! A cluster of three primaries and three replicas on loopback, for one test.

use std::{
    fmt, fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{
    netns::Namespaces,
    skip::skipped,
    wire::{Wire, WireReply},
};

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

/// Settings of servers whose data may be lost with the machine. A server counts as failed after half a
/// second.
const SETTINGS: [(&str, &str); 15] = [
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
    ("appendonly", "yes"),
    ("appendfsync", "no"),
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
        Err(ClusterError::NotInstalled { program }) => {
            skipped("Redis Cluster", REQUIRE, &format!("{program} is not installed"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Where a server listens: for clients, and for the other servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) host: Ipv4Addr,
    pub(super) port: u16,
    pub(super) bus: u16,
}

impl Seat {
    pub(super) fn address(self) -> SocketAddr {
        (self.host, self.port).into()
    }
}

/// Seats on loopback that nobody uses at the moment.
pub(super) fn free_seats() -> io::Result<Vec<Seat>> {
    let host = Ipv4Addr::LOCALHOST;
    let listeners = (0..2 * SERVERS).map(|_| TcpListener::bind((host, 0)));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let ports = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    let ports = ports.collect::<io::Result<Vec<u16>>>()?;
    Ok(ports.chunks_exact(2).map(|pair| Seat { host, port: pair[0], bus: pair[1] }).collect())
}

/// Writes the configuration of a server into its directory.
pub(super) fn configure(directory: &Path, seat: Seat, settings: &[(&str, &str)]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let place = directory.display().to_string();
    let (host, port, bus) = (seat.host.to_string(), seat.port.to_string(), seat.bus.to_string());
    let own = [("bind", &host), ("port", &port), ("cluster-port", &bus), ("dir", &place)];
    let own = own.map(|(name, value)| (name, value.as_str()));
    let lines = SETTINGS.iter().chain(&own).chain(settings);
    let lines: Vec<String> = lines.map(|(name, value)| format!("{name} {value}\n")).collect();
    fs::write(directory.join("redis.conf"), lines.concat())
}

/// Makes a cluster of servers that have just been started.
pub(super) fn join(seats: &[Seat]) -> Result<(), ClusterError> {
    let mut wires = Vec::new();
    for seat in seats {
        let ready = || Wire::connect(seat.address()).ok();
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
    for Seat { host, port, bus } in &seats[1..] {
        let (host, port, bus) = (host.to_string(), port.to_string(), bus.to_string());
        ok(&mut wires[0], &["CLUSTER", "MEET", &host, &port, &bus])?;
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
    seats.iter().copied().try_for_each(wait_ready)
}

fn ok(wire: &mut Wire, words: &[&str]) -> Result<(), ClusterError> {
    match wire.call(words)?.text() {
        text if text == "OK" => Ok(()),
        text => Err(failed(format!("{words:?}: {text}"))),
    }
}

/// Waits until a server takes part in a cluster where every primary has a replica in step.
pub(super) fn wait_ready(seat: Seat) -> Result<(), ClusterError> {
    until("a cluster that is ready", || {
        let mut wire = Wire::connect(seat.address()).ok()?;
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
    seats: Vec<Seat>,
    servers: Vec<Option<Child>>,
    /// Where the servers are apart from each other.
    namespaces: Option<Namespaces>,
}

impl TestCluster {
    /// Starts a cluster with further settings of `redis.conf` for every server. `None`, with a
    /// message, where the server is not installed, unless `UTXOKEEP_REQUIRE_REDIS` is set.
    pub fn start_or_skip(settings: &[(&str, &str)]) -> Option<Self> {
        skip(free_seats().map_err(Into::into).and_then(|seats| Self::start(seats, None, settings)))
    }

    /// Starts a cluster whose servers are in network namespaces of their own, so that the network
    /// between them can be [cut](Self::cut).
    pub fn start_apart_or_skip(namespaces: Namespaces, settings: &[(&str, &str)]) -> Option<Self> {
        let seat = |number| Seat { host: Namespaces::host(number), port: 7_000, bus: 17_000 };
        let seats = (0..SERVERS).map(seat).collect();
        skip(Self::start(seats, Some(namespaces), settings))
    }

    fn start(
        seats: Vec<Seat>,
        namespaces: Option<Namespaces>,
        settings: &[(&str, &str)],
    ) -> Result<Self, ClusterError> {
        let program = program()?;
        let directory = TempDir::with_prefix("utxokeep-redis-")?;
        let servers = (0..SERVERS).map(|_| None).collect();
        let mut cluster = Self { directory, program, seats, servers, namespaces };
        for number in 0..SERVERS {
            configure(&cluster.place(number), cluster.seats[number], settings)?;
            cluster.restart(number)?;
        }
        join(&cluster.seats)?;
        Ok(cluster)
    }

    fn place(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    /// The servers as a URL, with parameters such as `ack=replica`.
    pub fn url(&self, parameters: &str) -> String {
        let hosts = self.seats.iter().map(|seat| seat.address().to_string());
        format!("redis://{}?{parameters}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Port of a server; the first three are primaries at the start.
    pub fn port(&self, number: usize) -> u16 {
        self.seats[number].port
    }

    /// A connection to a server.
    pub fn wire(&self, number: usize) -> io::Result<Wire> {
        Wire::connect(self.seats[number].address())
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
        let mut command = match &self.namespaces {
            Some(namespaces) => namespaces.command(number, &self.program),
            None => Command::new(&self.program),
        };
        let server = command
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
        self.seats.iter().copied().try_for_each(wait_ready)
    }

    /// Process of a server that runs.
    pub fn process_id(&self, number: usize) -> Option<u32> {
        self.servers[number].as_ref().map(Child::id)
    }

    /// Cuts a server off from all other servers, or lets it reach them again. Clients reach it all
    /// the time. Only where the servers are apart.
    pub fn cut(&self, number: usize, is_cut: bool) -> io::Result<()> {
        let missing = || io::Error::other("the servers share one network");
        self.namespaces.as_ref().ok_or_else(missing)?.cut(number, is_cut)
    }

    /// Cuts a server off from everybody, clients included, or lets it reach them again. Only where the
    /// servers are apart.
    pub fn cut_off(&self, number: usize, is_cut: bool) -> io::Result<()> {
        let missing = || io::Error::other("the servers share one network");
        self.namespaces.as_ref().ok_or_else(missing)?.cut_off(number, is_cut)
    }

    /// A program that reaches a server as long as that runs, and the other servers only while the server
    /// is not cut off from them. Only where the servers are apart.
    pub fn command_beside(&self, number: usize, program: &Path) -> io::Result<Command> {
        let missing = || io::Error::other("the servers share one network");
        Ok(self.namespaces.as_ref().ok_or_else(missing)?.command(number, program))
    }

    /// The primary of a slot, as it sees itself.
    pub fn holder(&self, slot: u16) -> Option<usize> {
        (0..SERVERS).find(|&number| self.holds(number, slot) == Some(true))
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> io::Result<u16> {
        let said = self.wire(0)?.call(&["CLUSTER", "KEYSLOT", key])?.text();
        said.parse().map_err(|_| io::Error::other(said))
    }

    /// Whether a server takes itself for the primary of a slot.
    fn holds(&self, number: usize, slot: u16) -> Option<bool> {
        self.servers[number].as_ref()?;
        let nodes = self.wire(number).ok()?.call(&["CLUSTER", "NODES"]).ok()?.text();
        let own = nodes.lines().find(|line| line.contains("myself,master"))?;
        let mut ranges = own.split_whitespace().skip(8).filter_map(|word| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
        });
        Some(ranges.any(|(first, last)| (first..=last).contains(&slot)))
    }

    /// Waits until another server than `number` holds a slot, as a server that runs sees it.
    pub fn wait_owner_changed(&self, slot: u16, number: usize) -> Result<usize, ClusterError> {
        until("another primary", || {
            let mut others = (0..SERVERS).filter(|other| *other != number);
            others.find(|&other| self.holds(other, slot) == Some(true))
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
                let Seat { host, port, .. } = self.seats[to];
                let (host, port) = (host.to_string(), port.to_string());
                let words: [&[u8]; 6] =
                    [b"MIGRATE", host.as_bytes(), port.as_bytes(), &key, b"0", b"5000"];
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
