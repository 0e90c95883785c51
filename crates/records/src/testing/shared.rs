//! One cluster for all tests of this user on this machine.
//!
//! The first process that asks starts it in a directory for temporary files; others join. Each
//! process holds a shared lock for as long as it lives. A shell script beside the servers looks at
//! that lock every second, and stops them once nobody has held it for five seconds.

use std::{
    fs::{self, File},
    io,
    net::Ipv4Addr,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{
    cluster::{ClusterError, SERVERS, configure, failed, free_seats, join, program, skip},
    wire::Wire,
};

/// Arguments: lock of users, lock of starting, directory, the server, number of servers.
const SUPERVISOR: &str = r#"
users=$1 start=$2 run=$3 program=$4 count=$5
pids=
n=0
while [ "$n" -lt "$count" ]; do
    "$program" "$run/$n/redis.conf" >"$run/$n/log" 2>&1 &
    pids="$pids $!"
    n=$((n + 1))
done
idle=0
while kill -0 $pids 2>/dev/null; do
    sleep 1
    if flock -n -x "$users" true; then idle=$((idle + 1)); else idle=0; fi
    [ "$idle" -ge 5 ] || continue
    idle=0
    exec 9>"$start"
    flock -x 9
    # Nobody can join while the start lock is held; someone may have before.
    if flock -n -x "$users" true; then
        break
    fi
    exec 9>&-
done
kill -9 $pids 2>/dev/null
wait
rm -rf "$run"
"#;

struct Shared {
    ports: Vec<u16>,
    /// Held while the process lives: the sign that the cluster is in use.
    _in_use: File,
}

/// URL of a cluster that all tests share, with a prefix for keys that no other test has, and
/// parameters such as `ack=replica`. `None`, with a message, where the server is not installed,
/// unless `UTXOKEEP_REQUIRE_REDIS` is set.
pub fn shared_url_or_skip(parameters: &str) -> Option<String> {
    static SHARED: OnceLock<Result<Shared, ClusterError>> = OnceLock::new();
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let shared = skip(SHARED.get_or_init(join_shared).as_ref().map_err(Clone::clone))?;
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    // Process ids come again, but not while the cluster of their first bearer lives on.
    let prefix = format!("t{}.{number}", std::process::id());
    let hosts = shared.ports.iter().map(|port| format!("127.0.0.1:{port}"));
    let hosts = hosts.collect::<Vec<_>>().join(",");
    Some(format!("redis://{hosts}?prefix={prefix}&{parameters}"))
}

fn join_shared() -> Result<Shared, ClusterError> {
    let program = program()?;
    let me = fs::metadata("/proc/self")?.uid();
    // Servers of different makers do not share a directory.
    let kind = program.to_string_lossy().replace('/', "_");
    let base = std::env::temp_dir().join(format!("utxokeep-test-{kind}-{me}"));
    fs::create_dir_all(&base)?;
    if fs::symlink_metadata(&base)?.uid() != me {
        return Err(failed(format!("{} belongs to somebody else", base.display())));
    }
    fs::set_permissions(&base, fs::Permissions::from_mode(0o700))?;
    let (start, users) = (base.join("start.lock"), base.join("users.lock"));
    let starting = File::create(&start)?;
    starting.lock()?;
    let in_use = File::create(&users)?;
    in_use.lock_shared()?;
    let run = base.join("run");
    let ports = match running(&run) {
        Some(ports) => ports,
        None => start_servers(&program, &run, &start, &users)?,
    };
    Ok(Shared { ports, _in_use: in_use })
}

/// Ports of the cluster that runs, if all its servers answer.
fn running(run: &Path) -> Option<Vec<u16>> {
    let text = fs::read_to_string(run.join("ports")).ok()?;
    let ports: Vec<u16> = text.split_whitespace().filter_map(|port| port.parse().ok()).collect();
    let answers = |port: &u16| {
        let wire = Wire::connect((Ipv4Addr::LOCALHOST, *port).into());
        let said = wire.and_then(|mut wire| wire.call(&["CLUSTER", "INFO"]));
        said.is_ok_and(|said| said.text().contains("cluster_state:ok"))
    };
    (ports.len() == SERVERS && ports.iter().all(answers)).then_some(ports)
}

fn start_servers(
    program: &Path,
    run: &Path,
    start: &Path,
    users: &Path,
) -> Result<Vec<u16>, ClusterError> {
    match fs::remove_dir_all(run) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(run)?,
    }
    let seats = free_seats()?;
    for (number, seat) in seats.iter().enumerate() {
        // Load on the machine must not look like a failure.
        let patient = [("cluster-node-timeout", "15000")];
        configure(&run.join(number.to_string()), *seat, &patient)?;
    }
    let log = File::create(run.join("supervisor.log"))?;
    Command::new("sh")
        .args(["-c", SUPERVISOR, "utxokeep-test-redis"])
        .args([users, start, run])
        .arg(program)
        .arg(SERVERS.to_string())
        .current_dir(run)
        // Not one of the processes that end with this test.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    join(&seats)?;
    let clients: Vec<u16> = seats.iter().map(|seat| seat.port).collect();
    let text = clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let file: PathBuf = run.join("ports");
    fs::write(file, text)?;
    Ok(clients)
}
