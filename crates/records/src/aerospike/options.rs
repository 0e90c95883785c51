//! Where a cluster is, and within which limits it is used.

use percent_encoding::percent_decode_str;

use crate::{error::RecordError, port::Acknowledgement};

/// How a URL looks, for messages.
pub const AEROSPIKE_URL_FORM: &str =
    "aerospike://[user:password@]host:port,host:port,…/namespace[?consistency=available]";

/// What a namespace promises when the network between its nodes breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consistency {
    /// The namespace must have `strong-consistency` (Enterprise Edition): one side of a partition
    /// takes writes. Deletes are durable.
    #[default]
    Strong,
    /// Both sides of a partition take writes and the last one wins, so that **two spends of one
    /// output can both be acknowledged**. All that the Community Edition has. Deletes leave
    /// tombstones.
    Available,
}

/// Settings of a [`super::AerospikeRecords`]. The URL names servers and namespace, and may set any of
/// the others by its name: `aerospike://a:3000/main?consistency=available&ack=replica`.
#[derive(Clone, PartialEq, Eq)]
pub struct AerospikeOptions {
    /// Some servers of the cluster; the others are found.
    pub(crate) seeds: Vec<(String, u16)>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// Namespace of the records.
    pub namespace: String,
    /// What is asked of the namespace.
    pub consistency: Consistency,
    /// What a barrier waits for (`ack`).
    pub acknowledgement: Acknowledgement,
    /// Set of the records, so that several stores fit one namespace: 1 to 32 of a-z, A-Z, 0-9, `_`
    /// and `-`.
    pub set: String,
    /// Seconds until a tombstone expires; 0 keeps it. It must outlast every node that is away, and
    /// every old copy on a disk that a node is started from: after it, such a copy is a record again.
    pub tombstone_ttl_s: u32,
    /// Connections to one server at once.
    pub connections_per_server_max: usize,
    /// How long one attempt to connect may take.
    pub connect_timeout_ms: u64,
    /// How long the answers to one batch may take; after that its writes are in doubt.
    pub command_timeout_ms: u64,
    /// How long after it was sent a write may be carried out, by the clock of its node. Shorter than
    /// the time after which the other nodes take a silent one for dead.
    pub write_deadline_ms: u64,
    /// How long a call that certainly did not happen is tried again.
    pub retry_for_ms: u64,
    /// Wait before the first retry; doubles with each, up to half a second.
    pub retry_base_ms: u64,
    /// Cells in one batch.
    pub batch_cells_max: usize,
    /// Bytes of writes in one batch. One write may be longer, and then goes alone.
    pub batch_bytes_max: usize,
    /// How long opening waits for the secondary index; after that it is refused.
    pub index_wait_ms: u64,
    /// Threads that carry answers.
    pub threads: usize,
}

impl std::fmt::Debug for AerospikeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the password.
        let mut text = f.debug_struct("AerospikeOptions");
        text.field("seeds", &self.seeds).field("namespace", &self.namespace);
        text.field("set", &self.set).field("ack", &self.acknowledgement).finish_non_exhaustive()
    }
}

impl AerospikeOptions {
    /// Reads a URL; see [`AEROSPIKE_URL_FORM`]. No message repeats a value of it, which could be a
    /// password.
    pub fn parse(url: &str) -> Result<Self, RecordError> {
        let form = || refused(format!("a URL looks like {AEROSPIKE_URL_FORM}"));
        let rest = match url.split_once("://") {
            Some(("aerospike", rest)) => rest,
            Some(("aerospikes", _)) => {
                return Err(refused(
                    "encrypted connections to Aerospike are not supported: put the nodes into a \
                     private network, and write aerospike://"
                        .to_owned(),
                ));
            }
            _ => return Err(form()),
        };
        // A password may hold a question mark, but no @ that is not written as %40.
        let (user, rest) = rest.split_once('@').map_or((None, rest), |(u, rest)| (Some(u), rest));
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, namespace) = place.split_once('/').ok_or_else(form)?;
        let mut options = Self {
            seeds: seeds(hosts)?,
            username: None,
            password: None,
            namespace: namespace.to_owned(),
            consistency: Consistency::Strong,
            acknowledgement: Acknowledgement::Replica,
            set: "utxokeep".to_owned(),
            tombstone_ttl_s: 0,
            connections_per_server_max: 64,
            connect_timeout_ms: 2_000,
            command_timeout_ms: 10_000,
            write_deadline_ms: 1_000,
            retry_for_ms: 30_000,
            retry_base_ms: 5,
            batch_cells_max: 1_000,
            batch_bytes_max: 1 << 20,
            index_wait_ms: 60_000,
            threads: 2,
        };
        if let Some(user) = user {
            let (name, password) = user.split_once(':').ok_or_else(form)?;
            (options.username, options.password) = (Some(decoded(name)?), Some(decoded(password)?));
        }
        let mut named = std::collections::BTreeSet::new();
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            options.set(name, &decoded(value)?)?;
            if !named.insert(name) {
                return Err(refused(format!(
                    "the parameter {name:?} of the URL stands there twice"
                )));
            }
        }
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), RecordError> {
        fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, RecordError> {
            value.parse().map_err(|_| refused(format!("{name} is a whole number")))
        }
        match name {
            "ack" => {
                self.acknowledgement = match value {
                    "primary" => Acknowledgement::Primary,
                    "replica" => Acknowledgement::Replica,
                    "disk" => Acknowledgement::Disk,
                    _ => return Err(refused("ack is primary, replica or disk".to_owned())),
                }
            }
            "consistency" => {
                self.consistency = match value {
                    "strong" => Consistency::Strong,
                    "available" => Consistency::Available,
                    _ => return Err(refused("consistency is strong or available".to_owned())),
                }
            }
            "set" => value.clone_into(&mut self.set),
            "tombstone_ttl_s" => self.tombstone_ttl_s = number(name, value)?,
            "connections_per_server_max" => {
                self.connections_per_server_max = number(name, value)?;
            }
            "connect_timeout_ms" => self.connect_timeout_ms = number(name, value)?,
            "command_timeout_ms" => self.command_timeout_ms = number(name, value)?,
            "write_deadline_ms" => self.write_deadline_ms = number(name, value)?,
            "retry_for_ms" => self.retry_for_ms = number(name, value)?,
            "retry_base_ms" => self.retry_base_ms = number(name, value)?,
            "batch_cells_max" => self.batch_cells_max = number(name, value)?,
            "batch_bytes_max" => self.batch_bytes_max = number(name, value)?,
            "index_wait_ms" => self.index_wait_ms = number(name, value)?,
            "threads" => self.threads = number(name, value)?,
            _ => return Err(refused(format!("the parameter {name:?} of the URL is not known"))),
        }
        Ok(())
    }

    /// Refuses limits that cannot be kept.
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_name = |name: &str, most: usize| {
            (1..=most).contains(&name.len()) && name.bytes().all(is_plain)
        };
        if !is_name(&self.namespace, 31) {
            return Err(refused("the namespace has 1 to 31 of a-z, A-Z, 0-9, _ and -".to_owned()));
        }
        if !is_name(&self.set, 32) {
            return Err(refused("set has 1 to 32 of a-z, A-Z, 0-9, _ and -".to_owned()));
        }
        let within = |name: &str, value: u64, least: u64, most: u64| {
            let is_within = (least..=most).contains(&value);
            let what = || refused(format!("{name} is between {least} and {most}"));
            is_within.then_some(()).ok_or_else(what)
        };
        // Ten years: the server takes no longer times to live.
        within("tombstone_ttl_s", u64::from(self.tombstone_ttl_s), 0, 10 * 365 * 86_400)?;
        if self.tombstone_ttl_s > 0 && self.consistency == Consistency::Strong {
            return Err(refused(
                "tombstone_ttl_s goes with consistency=available: deletes of a strongly consistent \
                 namespace are durable"
                    .to_owned(),
            ));
        }
        within("connections_per_server_max", self.connections_per_server_max as u64, 1, 1_000)?;
        within("connect_timeout_ms", self.connect_timeout_ms, 10, 600_000)?;
        within("command_timeout_ms", self.command_timeout_ms, 10, 3_600_000)?;
        within("write_deadline_ms", self.write_deadline_ms, 50, 600_000)?;
        within("retry_for_ms", self.retry_for_ms, 0, 3_600_000)?;
        within("retry_base_ms", self.retry_base_ms, 1, 500)?;
        within("batch_cells_max", self.batch_cells_max as u64, 1, 5_000)?;
        within("batch_bytes_max", self.batch_bytes_max as u64, 1_024, 1 << 26)?;
        within("index_wait_ms", self.index_wait_ms, 0, 86_400_000)?;
        within("threads", self.threads as u64, 1, 64)
    }
}

fn refused(what: String) -> RecordError {
    RecordError::Config { what }
}

fn decoded(value: &str) -> Result<String, RecordError> {
    let text = percent_decode_str(value).decode_utf8();
    let text = text.map_err(|_| refused("a part of the URL is not valid UTF-8".to_owned()))?;
    Ok(text.into_owned())
}

fn seeds(hosts: &str) -> Result<Vec<(String, u16)>, RecordError> {
    let seed = |host: &str| {
        let parts = host.rsplit_once(':').filter(|(name, _)| !name.is_empty());
        let found = parts.and_then(|(name, port)| Some((name.to_owned(), port.parse().ok()?)));
        found
            .ok_or_else(|| refused(format!("each server is host:port, as in {AEROSPIKE_URL_FORM}")))
    };
    hosts.split(',').map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_namespace_user_and_options() {
        let url = "aerospike://me:s%40cret?@a:3000,b:3001/main?consistency=available&ack=primary\
                   &set=one&tombstone_ttl_s=9";
        let options = AerospikeOptions::parse(url).unwrap();
        assert_eq!(options.seeds, [("a".to_owned(), 3000), ("b".to_owned(), 3001)]);
        assert_eq!((options.namespace.as_str(), options.set.as_str()), ("main", "one"));
        assert_eq!(options.username.as_deref(), Some("me"));
        assert_eq!(options.password.as_deref(), Some("s@cret?"));
        assert_eq!(options.acknowledgement, Acknowledgement::Primary);
        assert_eq!((options.consistency, options.tombstone_ttl_s), (Consistency::Available, 9));
        assert!(!format!("{options:?}").contains("cret"));
        let plain = AerospikeOptions::parse("aerospike://a:1/n").unwrap();
        assert_eq!(plain.consistency, Consistency::Strong);
        assert_eq!(plain.acknowledgement, Acknowledgement::Replica);
    }

    #[test]
    fn what_a_url_cannot_ask_for_is_refused_without_repeating_it() {
        for (url, part) in [
            ("http://hidden", "looks like"),
            ("aerospike://hidden:1", "looks like"),
            ("aerospike://hidden/n", "host:port"),
            ("aerospike://a:1,:2/n", "host:port"),
            ("aerospike://hidden@a:1/n", "looks like"),
            ("aerospikes://a:1/n", "not supported"),
            ("aerospike://a:1/hid%7Bden", "namespace has"),
            ("aerospike://a:1/n?ack=hidden", "ack is primary"),
            ("aerospike://a:1/n?consistency=hidden", "strong or available"),
            ("aerospike://a:1/n?colour=hidden", "\"colour\""),
            ("aerospike://a:1/n?threads=hidden", "whole number"),
            ("aerospike://a:1/n?threads=0", "threads is between"),
            ("aerospike://a:1/n?set=hid.den", "set has"),
            ("aerospike://a:1/n?tombstone_ttl_s=9", "consistency=available"),
        ] {
            let text = AerospikeOptions::parse(url).unwrap_err().to_string();
            assert!(text.contains(part) && !text.contains("hid"), "{url}: {text}");
        }
    }
}
