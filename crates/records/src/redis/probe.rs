//! What servers must be able to do, looked at before they are used.

use futures_util::future::join_all;

use super::{
    client::{Address, Command, Lost, Reply},
    cluster::Cluster,
    encode::{LIBRARY, LIBRARY_CODE},
    health,
    node::Node,
};
pub(crate) use crate::opened::Purpose;
use crate::{error::RecordError, port::Acknowledgement};

/// Functions, and WAIT as it is used here, came with this one.
const VERSION_LEAST: u32 = 7;

/// How far a server fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fitness {
    Fit,
    /// At level `primary` only: a restart loses all its records.
    WithoutLog,
}

fn unsuitable(what: String) -> RecordError {
    RecordError::Unsuitable { what }
}

fn lost(server: &Address) -> impl FnOnce(Lost) -> RecordError + '_ {
    move |lost| RecordError::Unavailable { what: format!("{server}: {lost}") }
}

/// Why CLUSTER NODES was refused.
pub(crate) fn refused_cluster(server: &Address, error: &str) -> RecordError {
    if error.contains("cluster support disabled") {
        return unsuitable(format!(
            "{server} is not part of a cluster: set cluster-enabled yes and join the servers with \
             redis-cli --cluster create"
        ));
    }
    if ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|word| error.starts_with(word)) {
        return unsuitable(format!("{server} does not let us in: {error}"));
    }
    RecordError::Unavailable { what: format!("{server}: {error}") }
}

/// Why there is no connection.
pub(crate) fn refused_connection(server: &Address, what: String) -> RecordError {
    if ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|word| what.contains(word)) {
        return unsuitable(format!(
            "{server} does not let us in ({what}): put user and password into the URL"
        ));
    }
    RecordError::Unavailable { what }
}

/// Looks at one server: its version, that it never evicts, that it has a log of its own, and what
/// `disk` needs.
pub(crate) async fn server(node: &Node, level: Acknowledgement) -> Result<Fitness, RecordError> {
    let address = &node.address;
    let about = info(node, "server").await?;
    let version = field(&about, "redis_version").unwrap_or("unknown");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < VERSION_LEAST) {
        return Err(unsuitable(format!(
            "{address} is version {version}: Redis 7, Valkey 8 or later is needed"
        )));
    }
    let memory = info(node, "memory").await?;
    let policy = field(&memory, "maxmemory_policy").unwrap_or("unknown");
    if policy != "noeviction" {
        return Err(unsuitable(format!(
            "{address} evicts records when its memory is full (maxmemory-policy is {policy}), and \
             an evicted record is lost: set maxmemory-policy noeviction"
        )));
    }
    if !has_log(node).await? {
        if level == Acknowledgement::Primary {
            return Ok(Fitness::WithoutLog);
        }
        return Err(unsuitable(format!(
            "ack={level} needs a log on every server, and {address} has appendonly no: restarted at \
             once, it comes back empty, and its replicas copy that. Set appendonly yes there (CONFIG \
             SET) and in its configuration file, or choose ack=primary"
        )));
    }
    if level == Acknowledgement::Disk {
        let found = setting(node, "appendfsync").await?;
        if found != "always" {
            return Err(unsuitable(format!(
                "ack=disk needs appendfsync always on every server, and {address} has {found}: set it \
                 there and in its configuration file, or choose ack=replica"
            )));
        }
    }
    Ok(Fitness::Fit)
}

/// Whether a server writes what it is told to a log of its own.
async fn has_log(node: &Node) -> Result<bool, RecordError> {
    // Not by CONFIG at first, which users of hosted servers may not ask.
    let persistence = info(node, "persistence").await?;
    if field(&persistence, "aof_enabled") == Some("1") {
        return Ok(true);
    }
    // A replica that copies its primary has closed its log meanwhile: the setting tells.
    Ok(setting(node, "appendonly").await.is_ok_and(|found| found == "yes"))
}

/// Looks at the cluster as a whole, and loads the functions on all primaries where that is needed.
pub(crate) async fn cluster(cluster: &Cluster) -> Result<(), RecordError> {
    cluster.look_up().await?;
    if cluster.purpose == Purpose::Read {
        return Ok(());
    }
    let topology = cluster.topology();
    let uncovered = topology.uncovered();
    if uncovered > 0 {
        return Err(unsuitable(format!(
            "{uncovered} of 16384 hash slots are on no server: complete the cluster with \
             redis-cli --cluster fix"
        )));
    }
    if let Some(server) = cluster.unchecked() {
        return Err(RecordError::Unavailable {
            what: format!(
                "{server} does not answer, so that its settings cannot be looked at: bring it back, or \
                 take it out of the cluster with CLUSTER FORGET once its primary has another replica; \
                 commands that only read go on"
            ),
        });
    }
    let level = cluster.options.acknowledgement;
    let holding = topology.primaries.iter().filter(|primary| primary.slots > 0);
    for primary in holding.clone() {
        if level != Acknowledgement::Primary && primary.replicas.is_empty() {
            return Err(unsuitable(format!(
                "ack={level} needs at least one replica of every primary, and {} has none: add one \
                 with redis-cli --cluster add-node --cluster-slave, or choose ack=primary",
                primary.address
            )));
        }
    }
    if let Some(what) = health::clocks_apart(cluster, &topology).await {
        return Err(unsuitable(what));
    }
    let loads = holding.map(|primary| async {
        let node = cluster.node(&primary.address);
        library(cluster, &node).await
    });
    join_all(loads).await.into_iter().collect()
}

/// Loads the functions, and looks whether they are ours.
async fn library(cluster: &Cluster, node: &Node) -> Result<(), RecordError> {
    let address = &node.address;
    cluster.load_library(node).await.map_err(|lost| {
        unsuitable(format!(
            "{address} does not take functions ({lost}): the user needs the rights for FUNCTION \
             LOAD, FCALL and FCALL_RO"
        ))
    })?;
    let list = Command::new("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(LIBRARY);
    let reply = node.ask(list.arg("WITHCODE")).await.map_err(lost(address))?;
    if holds(&reply, LIBRARY_CODE.as_bytes()) {
        return Ok(());
    }
    Err(unsuitable(format!(
        "{address} has another library of the name {LIBRARY}: remove it with FUNCTION DELETE \
         {LIBRARY}"
    )))
}

/// Whether an answer has these bytes somewhere.
fn holds(reply: &Reply, bytes: &[u8]) -> bool {
    match reply {
        Reply::List(list) => list.iter().any(|reply| holds(reply, bytes)),
        Reply::Bytes(found) => found == bytes,
        _ => false,
    }
}

async fn info(node: &Node, section: &str) -> Result<String, RecordError> {
    let reply = node.ask(Command::new("INFO").arg(section)).await.map_err(lost(&node.address))?;
    match reply {
        Reply::Error(error) => Err(refused_cluster(&node.address, &error)),
        reply => Ok(reply.into_text().unwrap_or_default()),
    }
}

async fn setting(node: &Node, name: &str) -> Result<String, RecordError> {
    let command = Command::new("CONFIG").arg("GET").arg(name);
    let reply = node.ask(command).await.map_err(lost(&node.address))?;
    let value = match reply {
        Reply::List(list) => list.into_iter().nth(1).and_then(Reply::into_text),
        Reply::Error(error) => {
            return Err(unsuitable(format!(
                "the settings of every server have to be looked at, and {} does not let us: {error}",
                node.address
            )));
        }
        _ => None,
    };
    Ok(value.unwrap_or_else(|| "no such setting".to_owned()))
}

/// A line of INFO.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(found, value)| (found == name).then(|| value.trim()))
}

/// Bytes of memory in use, over all primaries.
pub(crate) async fn memory_bytes(cluster: &Cluster) -> Result<u64, RecordError> {
    let topology = cluster.topology();
    let asked = topology.primaries.iter().map(|primary| async {
        let node = cluster.node(&primary.address);
        let memory = info(&node, "memory").await?;
        Ok(field(&memory, "used_memory").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0))
    });
    join_all(asked).await.into_iter().sum()
}
