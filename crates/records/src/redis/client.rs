//! What is needed of a client: connections that carry one pipeline after the other, and end for good
//! when anything goes wrong.

use std::{fmt, pin::Pin};

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<Vec<u8>>,
}

impl Command {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, args: Vec::new() }
    }

    #[must_use]
    pub(crate) fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// About what it takes on the wire.
    pub(crate) fn bytes(&self) -> usize {
        self.args.iter().map(|arg| arg.len() + 16).sum::<usize>() + 32
    }
}

/// An answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    /// What the server said; its first word is the kind.
    Error(String),
}

impl Reply {
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(number) => Some(number.to_string().into_bytes()),
            _ => None,
        }
    }

    pub(crate) fn into_text(self) -> Option<String> {
        String::from_utf8(self.into_bytes()?).ok()
    }
}

/// A connection is gone, and what had been sent on it may have happened or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) what: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Reads `host:port`, where an IPv6 address may be in brackets. Without a host it is `default`.
    pub(crate) fn parse(text: &str, default: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        let host = if host.is_empty() || host == "?" { default } else { host };
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some(Self { host: host.to_owned(), port })
    }
}

/// What is on the way.
pub(crate) type Future<'a, T> = Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;

/// A connection to one server. Dropping it closes it.
pub(crate) trait Connection: Send + Sync {
    /// Sends all commands at once and waits for all answers, up to the time limit of the client.
    /// After [`Lost`] the connection must not be used any more.
    fn pipeline(&self, commands: Vec<Command>) -> Future<'_, Result<Vec<Reply>, Lost>>;

    /// Whether it is not known to be closed.
    fn is_open(&self) -> bool;
}

/// Makes connections.
pub(crate) trait Connector: Send + Sync {
    /// A connection that is ready; an error means that nothing of a caller was sent.
    fn connect<'a>(&'a self, address: &'a Address)
    -> Future<'a, Result<Box<dyn Connection>, Lost>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_default_host() {
        let read = |text: &str| Address::parse(text, "10.0.0.1").map(|found| found.to_string());
        assert_eq!(read("a.example:6379").as_deref(), Some("a.example:6379"));
        assert_eq!(read(":7000").as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(read("?:7000").as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(read("[::1]:7000").as_deref(), Some("[::1]:7000"));
        assert_eq!(read("::1:7000").as_deref(), Some("[::1]:7000"));
        for broken in ["host", "host:", "host:0", "host:70000", ""] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }
}
