//! A server that `UTXOKEEP_AEROSPIKE` names, since no package brings one: `host:port`, or
//! `host:port,host:port,host:port/namespace`.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

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
    /// A new place; `None`, with a message, where the environment names no server. Several servers are
    /// asked for two copies of each record.
    pub fn new_or_skip(parameters: &str) -> Option<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let Some(named) = std::env::var("UTXOKEEP_AEROSPIKE").ok().filter(|text| !text.is_empty())
        else {
            eprintln!("skipped: UTXOKEEP_AEROSPIKE names no Aerospike server");
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

    /// What a node says to a command about itself or its cluster.
    pub fn info(&self, node: usize, command: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(&self.hosts[node])?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
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
