//! A server that `UTXOKEEP_AEROSPIKE` names, since no package brings one: `host:port`, or
//! `host:port,host:port,host:port/namespace`.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use super::skip::skipped;

/// Set to make a server that is not named a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_AEROSPIKE";

/// How long a node may take to say how it is, and how often it is asked.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A node that is looked at again and again.
#[derive(Debug, Clone, Default)]
struct Watched {
    up_s: Option<u64>,
    is_ill: bool,
}

impl Watched {
    /// Takes what the node says of itself in a cluster of so many; answers whether it failed since the
    /// last time. One that stays ill fails once.
    fn fails(&mut self, said: Option<&str>, nodes: usize) -> bool {
        let number = |name: &str| {
            let mut pairs = said?.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(found, value)| (found == name).then_some(value))?.parse::<u64>().ok()
        };
        let up_s = number("uptime");
        let is_anew = matches!((self.up_s, up_s), (Some(before), Some(now)) if now < before);
        let is_ill = number("cluster_size") != u64::try_from(nodes).ok();
        let fails = !self.is_ill && (is_ill || is_anew);
        self.is_ill = is_ill;
        self.up_s = up_s.or(self.up_s);
        fails
    }
}

/// A set that no other test has, on the server that the environment names. Its secondary index and its
/// records go with it.
#[derive(Debug)]
pub struct AerospikePlace {
    hosts: Vec<String>,
    namespace: String,
    set: String,
    parameters: String,
}

impl AerospikePlace {
    /// A new place; `None` where the environment names no server. Several servers are
    /// asked for two copies of each record.
    pub fn new_or_skip(parameters: &str) -> Option<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let Some(named) = std::env::var("UTXOKEEP_AEROSPIKE").ok().filter(|text| !text.is_empty())
        else {
            skipped("Aerospike", REQUIRE, "UTXOKEEP_AEROSPIKE names no server");
            return None;
        };
        let (hosts, namespace) = named.split_once('/').unwrap_or((&named, "test"));
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let set = format!("t{}-{number}", std::process::id());
        let (namespace, parameters) = (namespace.to_owned(), parameters.to_owned());
        Some(Self { hosts, namespace, set, parameters })
    }

    /// URL of a store there.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&self.namespace)
    }

    /// The same in another namespace of the server.
    #[must_use]
    pub fn url_of(&self, namespace: &str) -> String {
        let ack = if self.hosts.len() > 1 { "replica" } else { "primary" };
        let (hosts, set, parameters) = (self.hosts.join(","), &self.set, &self.parameters);
        format!(
            "aerospike://{hosts}/{namespace}?consistency=available&ack={ack}&set={set}&{parameters}"
        )
    }

    /// URL of a store there, through something that stands for the only node.
    #[must_use]
    pub fn url_through(&self, address: &str, parameters: &str) -> String {
        let url = self.url().replace(&self.hosts.join(","), address);
        format!("{url}&{parameters}")
    }

    /// The node of this number, as `host:port`.
    #[must_use]
    pub fn host(&self, node: usize) -> &str {
        &self.hosts[node]
    }

    /// Name of the secondary index of the set, and of the namespace that it is in.
    #[must_use]
    pub fn index(&self) -> (String, String) {
        (format!("{}_rows", self.set), self.namespace.clone())
    }

    /// How many nodes the environment names.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.hosts.len()
    }

    /// Looks at the nodes for so long; answers how many failures it saw: nodes that stopped answering,
    /// started anew or lost sight of others.
    #[must_use]
    pub fn failures_within(&self, time: Duration) -> u32 {
        let until = Instant::now() + time;
        let mut nodes = vec![Watched::default(); self.hosts.len()];
        let mut failures = 0;
        while Instant::now() < until {
            for (number, node) in nodes.iter_mut().enumerate() {
                let said = self.info_within(number, "statistics", LOOK);
                failures += u32::from(node.fails(said.ok().as_deref(), self.hosts.len()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        failures
    }

    /// What a node says to a command about itself or its cluster.
    pub fn info(&self, node: usize, command: &str) -> io::Result<String> {
        self.info_within(node, command, Duration::from_secs(10))
    }

    fn info_within(&self, node: usize, command: &str, limit: Duration) -> io::Result<String> {
        let unknown = || io::Error::other("a host without an address");
        let address = self.hosts[node].to_socket_addrs()?.next().ok_or_else(unknown)?;
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        let text = format!("{command}\n");
        // Protocol 2, message of type 1, and its length in six bytes.
        let head = (2 << 56) | (1 << 48) | text.len() as u64;
        stream.write_all(&[&head.to_be_bytes(), text.as_bytes()].concat())?;
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let len = u64::from_be_bytes(head) & ((1 << 48) - 1);
        let mut answer = String::new();
        stream.take(len).read_to_string(&mut answer)?;
        Ok(answer.split_once('\t').map_or(answer.as_str(), |(_, said)| said).trim().to_owned())
    }
}

impl Drop for AerospikePlace {
    fn drop(&mut self) {
        let (namespace, set) = (&self.namespace, &self.set);
        // What stays takes memory of a server for tests.
        let _ = self.info(0, &format!("sindex-delete:namespace={namespace};indexname={set}_rows"));
        let _ = self.info(0, &format!("truncate:namespace={namespace};set={set}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stops_answering_starts_anew_or_loses_the_others_fails_once() {
        let fails = |said: &[Option<&str>]| {
            let mut node = Watched::default();
            said.iter().filter(|said| node.fails(**said, 3)).count()
        };
        let well = |up| format!("cluster_size=3;uptime={up};x=1");
        let (one, two, anew) = (well(100), well(101), well(2));
        assert_eq!(fails(&[Some(&one), Some(&two)]), 0);
        assert_eq!(fails(&[Some(&one), None, None, Some(&two)]), 1);
        assert_eq!(fails(&[Some(&one), None, Some(&anew)]), 1, "it was counted as it went");
        assert_eq!(fails(&[Some(&one), Some(&anew)]), 1, "nobody asked while it was away");
        let alone = "cluster_size=1;uptime=102";
        assert_eq!(fails(&[Some(&one), Some(alone), Some(alone), Some(&two), None]), 2);
    }
}
