//! Where a cluster is, and within which limits it is used.

use percent_encoding::percent_decode_str;

use super::client::Address;
use crate::{error::RecordError, port::Acknowledgement};

/// How a URL looks, for messages.
pub const REDIS_URL_FORM: &str = "redis://[user:password@]host:port,host:port,…[?ack=replica]";

/// Settings of a [`super::RedisRecords`]. The URL names the servers, and may set any of the others
/// by its name: `redis://a:7000,b:7000?ack=disk&prefix=mainnet`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// Some servers of the cluster; the others are found.
    pub(crate) seeds: Vec<Address>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    /// Whether connections are encrypted (`rediss://`).
    pub(crate) is_encrypted: bool,
    /// What a barrier waits for (`ack`).
    pub acknowledgement: Acknowledgement,
    /// What the names of all keys begin with, so that several stores fit one cluster: 1 to 32 of
    /// a-z, A-Z, 0-9, `_`, `-` and `.`.
    pub prefix: String,
    /// Connections to one server at once; each carries one call.
    pub connections_per_server_max: usize,
    /// How long one attempt to connect may take.
    pub connect_timeout_ms: u64,
    /// How long the answers to one pipeline may take. Longer than `acknowledge_timeout_ms`.
    pub command_timeout_ms: u64,
    /// How long a barrier waits for the replicas; after that its writes are in doubt.
    pub acknowledge_timeout_ms: u64,
    /// How long a call that certainly did not happen is tried again: as long as the cluster takes
    /// to elect another primary, and then some.
    pub retry_for_ms: u64,
    /// Wait before the first retry; doubles with each, up to half a second.
    pub retry_base_ms: u64,
    /// Bytes of commands in one pipeline. One command may be longer, and then goes alone.
    pub pipeline_bytes_max: usize,
    /// How old knowledge about the servers may get before it is looked up again.
    pub topology_age_ms_max: u64,
    /// Threads that carry answers.
    pub threads: usize,
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the password.
        let mut text = f.debug_struct("RedisOptions");
        text.field("seeds", &self.seeds).field("ack", &self.acknowledgement);
        text.field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// Reads a URL; see [`REDIS_URL_FORM`]. No message repeats a value of it, which could be a
    /// password.
    pub fn parse(url: &str) -> Result<Self, RecordError> {
        let (is_encrypted, rest) = match url.split_once("://") {
            Some(("redis", rest)) => (false, rest),
            Some(("rediss", rest)) => (true, rest),
            _ => return Err(refused(format!("a URL looks like {REDIS_URL_FORM}"))),
        };
        // A password may hold a question mark, but no @ that is not written as %40.
        let (user, rest) = rest.split_once('@').map_or((None, rest), |(u, rest)| (Some(u), rest));
        let (hosts, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = Self {
            seeds: seeds(hosts.strip_suffix('/').unwrap_or(hosts))?,
            username: None,
            password: None,
            is_encrypted,
            acknowledgement: Acknowledgement::Replica,
            prefix: "uk".to_owned(),
            connections_per_server_max: 16,
            connect_timeout_ms: 2_000,
            command_timeout_ms: 10_000,
            acknowledge_timeout_ms: 2_000,
            retry_for_ms: 30_000,
            retry_base_ms: 5,
            pipeline_bytes_max: 1 << 20,
            topology_age_ms_max: 10_000,
            threads: 2,
        };
        if let Some(user) = user {
            let (name, password) = user.split_once(':').unwrap_or(("", user));
            options.username = Some(decoded(name)?).filter(|name| !name.is_empty());
            options.password = Some(decoded(password)?);
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
            "prefix" => value.clone_into(&mut self.prefix),
            "connections_per_server_max" => {
                self.connections_per_server_max = number(name, value)?;
            }
            "connect_timeout_ms" => self.connect_timeout_ms = number(name, value)?,
            "command_timeout_ms" => self.command_timeout_ms = number(name, value)?,
            "acknowledge_timeout_ms" => self.acknowledge_timeout_ms = number(name, value)?,
            "retry_for_ms" => self.retry_for_ms = number(name, value)?,
            "retry_base_ms" => self.retry_base_ms = number(name, value)?,
            "pipeline_bytes_max" => self.pipeline_bytes_max = number(name, value)?,
            "topology_age_ms_max" => self.topology_age_ms_max = number(name, value)?,
            "threads" => self.threads = number(name, value)?,
            _ => return Err(refused(format!("the parameter {name:?} of the URL is not known"))),
        }
        Ok(())
    }

    /// Refuses limits that cannot be kept.
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let within = |name: &str, value: u64, least: u64, most: u64| {
            let is_within = (least..=most).contains(&value);
            let what = || refused(format!("{name} is between {least} and {most}"));
            is_within.then_some(()).ok_or_else(what)
        };
        if !(1..=32).contains(&self.prefix.len()) || !self.prefix.bytes().all(is_plain) {
            return Err(refused("prefix has 1 to 32 of a-z, A-Z, 0-9, _, - and .".to_owned()));
        }
        within("connections_per_server_max", self.connections_per_server_max as u64, 1, 1_000)?;
        within("connect_timeout_ms", self.connect_timeout_ms, 10, 600_000)?;
        within("acknowledge_timeout_ms", self.acknowledge_timeout_ms, 1, 600_000)?;
        within("retry_for_ms", self.retry_for_ms, 0, 3_600_000)?;
        within("retry_base_ms", self.retry_base_ms, 1, 500)?;
        within("pipeline_bytes_max", self.pipeline_bytes_max as u64, 1_024, 1 << 28)?;
        within("topology_age_ms_max", self.topology_age_ms_max, 100, 3_600_000)?;
        within("threads", self.threads as u64, 1, 64)?;
        let least = self.acknowledge_timeout_ms + 1;
        // Otherwise a connection is given up while its barrier still waits.
        within("command_timeout_ms", self.command_timeout_ms, least, 3_600_000)
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

fn seeds(hosts: &str) -> Result<Vec<Address>, RecordError> {
    let seed = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.is_empty());
        let found = has_port.then(|| Address::parse(host, "")).flatten();
        found.ok_or_else(|| refused(format!("each server is host:port, as in {REDIS_URL_FORM}")))
    };
    hosts.split(',').map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_user_and_options() {
        let url = "redis://me:s%40cret?@a:7000,[::1]:7001/?ack=disk&prefix=main-1&retry_for_ms=9";
        let options = RedisOptions::parse(url).unwrap();
        let seeds: Vec<String> = options.seeds.iter().map(ToString::to_string).collect();
        assert_eq!(seeds, ["a:7000", "[::1]:7001"]);
        assert_eq!(options.username.as_deref(), Some("me"));
        assert_eq!(options.password.as_deref(), Some("s@cret?"));
        assert_eq!(options.acknowledgement, Acknowledgement::Disk);
        assert_eq!((options.prefix.as_str(), options.retry_for_ms), ("main-1", 9));
        assert!(!options.is_encrypted && !format!("{options:?}").contains("cret"));
        let plain = RedisOptions::parse("rediss://:pw@a:1").unwrap();
        assert!(plain.is_encrypted && plain.username.is_none());
        assert_eq!(plain.acknowledgement, Acknowledgement::Replica);
    }

    #[test]
    fn what_a_url_cannot_ask_for_is_refused_without_repeating_it() {
        for (url, part) in [
            ("http://hidden", "looks like"),
            ("redis://hidden", "host:port"),
            ("redis://:hidden@", "host:port"),
            ("redis://a:1,:2", "host:port"),
            ("redis://a:1?ack=hidden", "ack is primary"),
            ("redis://a:1?colour=hidden", "\"colour\""),
            ("redis://a:1?threads=hidden", "whole number"),
            ("redis://a:1?ack=disk&ack=primary", "stands there twice"),
            ("redis://a:1?threads=0", "threads is between"),
            ("redis://a:1?prefix=hid%7Bden", "prefix has"),
            ("redis://a:1?command_timeout_ms=5", "command_timeout_ms is between"),
        ] {
            let text = RedisOptions::parse(url).unwrap_err().to_string();
            assert!(text.contains(part) && !text.contains("hid"), "{url}: {text}");
        }
    }
}
