//! Where blocks of a live chain come from.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// A node to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SourceTable", into = "SourceTable")]
pub enum Source {
    /// A Cardano node, through the port it has for other nodes.
    CardanoNodeAddress(String),
    /// A Cardano node, through the socket it has for local clients.
    CardanoNodeSocket(PathBuf),
}

/// The kinds of nodes there are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    CardanoNode,
}

/// A source as it stands in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceTable {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<PathBuf>,
}

impl Source {
    /// A Cardano node by the address of its port; `None` when the text is not a host and a port.
    #[must_use]
    pub fn cardano_node(address: &str) -> Option<Self> {
        is_host_and_port(address).then(|| Self::CardanoNodeAddress(address.to_owned()))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CardanoNodeAddress(address) => f.write_str(address),
            Self::CardanoNodeSocket(path) => path.display().fmt(f),
        }
    }
}

impl TryFrom<SourceTable> for Source {
    type Error = &'static str;

    fn try_from(table: SourceTable) -> Result<Self, Self::Error> {
        let SourceTable { kind: Kind::CardanoNode, address, socket } = table;
        match (address, socket) {
            (Some(address), None) if is_host_and_port(&address) => {
                Ok(Self::CardanoNodeAddress(address))
            }
            (Some(_), None) => Err("the address is a host, a colon and a port from 1 to 65535"),
            (None, Some(socket)) if !socket.as_os_str().is_empty() => {
                Ok(Self::CardanoNodeSocket(socket))
            }
            _ => Err("either address or socket is needed"),
        }
    }
}

impl From<Source> for SourceTable {
    fn from(source: Source) -> Self {
        let (address, socket) = match source {
            Source::CardanoNodeAddress(address) => (Some(address), None),
            Source::CardanoNodeSocket(socket) => (None, Some(socket)),
        };
        Self { kind: Kind::CardanoNode, address, socket }
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Source, toml::de::Error> {
        let table: toml::Table = format!("source = {text}").parse()?;
        table["source"].clone().try_into()
    }

    #[test]
    fn a_source_has_an_address_or_a_socket() {
        let address = parse(r#"{ kind = "cardano-node", address = "[::1]:3001" }"#).unwrap();
        assert_eq!(address, Source::CardanoNodeAddress("[::1]:3001".to_owned()));
        let socket = parse(r#"{ kind = "cardano-node", socket = "node.socket" }"#).unwrap();
        assert_eq!(socket, Source::CardanoNodeSocket("node.socket".into()));
        for wrong in [
            r#"{ kind = "cardano-node" }"#,
            r#"{ kind = "cardano-node", address = "a:1", socket = "s" }"#,
            r#"{ kind = "cardano-node", address = "localhost" }"#,
            r#"{ kind = "cardano-node", address = ":3001" }"#,
            r#"{ kind = "cardano-node", address = "a:0" }"#,
            r#"{ kind = "cardano-node", address = "a:65536" }"#,
            r#"{ kind = "cardano-node", socket = "" }"#,
            r#"{ kind = "cardano-node", adress = "a:1" }"#,
            r#"{ kind = "bitcoin-core", address = "a:1" }"#,
            r#"{ address = "a:1" }"#,
            r#""a:1""#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
