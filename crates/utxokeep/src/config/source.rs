//! Where blocks of a live chain come from.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use utxokeep_chains::bitcoind::{BitcoindUrl, BitcoindUrlError, Credentials, PasswordPlace};

/// A node to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SourceTable", into = "SourceTable")]
pub enum Source {
    /// A Cardano node, through the port it has for other nodes.
    CardanoNodeAddress(String),
    /// A Cardano node, through the socket it has for local clients.
    CardanoNodeSocket(PathBuf),
    /// Bitcoin Core, through RPC and REST.
    Bitcoind(BitcoindSource),
}

/// A Bitcoin Core node. Secrets are named by their place, so that the configuration can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitcoindSource {
    /// Where RPC and REST listen.
    pub url: BitcoindUrl,
    /// What RPC asks for.
    pub credentials: Credentials,
    /// The node's block files, where this machine can read them.
    pub blocks_dir: Option<PathBuf>,
}

/// The kinds of nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    CardanoNode,
    Bitcoind,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_dir: Option<PathBuf>,
}

/// Why a table names no node. No value is repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
enum SourceTableError {
    #[error("a cardano-node has either address or socket, and nothing else")]
    Cardano,
    #[error("the address is a host, a colon and a port from 1 to 65535")]
    Address,
    #[error(
        "a bitcoind has a url, and cookie_file or user with password_file or password_env; blocks_dir \
         may be added"
    )]
    Bitcoind,
    #[error("the user must not contain a colon")]
    User,
    #[error(transparent)]
    Url(#[from] BitcoindUrlError),
}

impl Source {
    /// A Cardano node by the address of its port; `None` when the text is not a host and a port.
    #[must_use]
    pub fn cardano_node(address: &str) -> Option<Self> {
        is_host_and_port(address).then(|| Self::CardanoNodeAddress(address.to_owned()))
    }

    /// The chain whose nodes are of this kind.
    #[must_use]
    pub const fn chain(&self) -> &'static str {
        match self {
            Self::CardanoNodeAddress(_) | Self::CardanoNodeSocket(_) => "cardano",
            Self::Bitcoind(_) => "bitcoin",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CardanoNodeAddress(address) => f.write_str(address),
            Self::CardanoNodeSocket(path) => path.display().fmt(f),
            Self::Bitcoind(node) => node.url.fmt(f),
        }
    }
}

impl SourceTable {
    const fn of(kind: Kind) -> Self {
        Self {
            kind,
            address: None,
            socket: None,
            url: None,
            cookie_file: None,
            user: None,
            password_file: None,
            password_env: None,
            blocks_dir: None,
        }
    }

    fn cardano_node(self) -> Result<Source, SourceTableError> {
        let of_others = [&self.cookie_file, &self.password_file, &self.blocks_dir];
        let texts = [&self.url, &self.user, &self.password_env];
        if of_others.iter().any(|path| path.is_some()) || texts.iter().any(|text| text.is_some()) {
            return Err(SourceTableError::Cardano);
        }
        match (self.address, self.socket) {
            (Some(address), None) => {
                Source::cardano_node(&address).ok_or(SourceTableError::Address)
            }
            (None, Some(socket)) if !socket.as_os_str().is_empty() => {
                Ok(Source::CardanoNodeSocket(socket))
            }
            _ => Err(SourceTableError::Cardano),
        }
    }

    fn bitcoind(self) -> Result<Source, SourceTableError> {
        let wrong = SourceTableError::Bitcoind;
        if self.address.is_some() || self.socket.is_some() {
            return Err(wrong);
        }
        let paths = [&self.cookie_file, &self.password_file, &self.blocks_dir];
        if paths.into_iter().flatten().any(|path| path.as_os_str().is_empty()) {
            return Err(wrong);
        }
        let Some(url) = self.url else { return Err(wrong) };
        let url: BitcoindUrl = url.parse()?;
        let credentials = match (self.cookie_file, self.user) {
            (Some(path), None) if self.password_file.is_none() && self.password_env.is_none() => {
                Credentials::CookieFile(path)
            }
            (None, Some(name)) => {
                if name.contains(':') {
                    return Err(SourceTableError::User);
                }
                let password = match (self.password_file, self.password_env) {
                    (Some(path), None) => PasswordPlace::File(path),
                    (None, Some(variable)) if !variable.is_empty() => {
                        PasswordPlace::Variable(variable)
                    }
                    _ => return Err(wrong),
                };
                Credentials::User { name, password }
            }
            _ => return Err(wrong),
        };
        let blocks_dir = self.blocks_dir;
        Ok(Source::Bitcoind(BitcoindSource { url, credentials, blocks_dir }))
    }
}

impl TryFrom<SourceTable> for Source {
    type Error = String;

    fn try_from(table: SourceTable) -> Result<Self, String> {
        let read = match table.kind {
            Kind::CardanoNode => table.cardano_node(),
            Kind::Bitcoind => table.bitcoind(),
        };
        read.map_err(|error| error.to_string())
    }
}

impl From<Source> for SourceTable {
    fn from(source: Source) -> Self {
        match source {
            Source::CardanoNodeAddress(address) => {
                Self { address: Some(address), ..Self::of(Kind::CardanoNode) }
            }
            Source::CardanoNodeSocket(socket) => {
                Self { socket: Some(socket), ..Self::of(Kind::CardanoNode) }
            }
            Source::Bitcoind(BitcoindSource { url, credentials, blocks_dir }) => {
                let url = Some(url.to_string());
                let mut table = Self { url, blocks_dir, ..Self::of(Kind::Bitcoind) };
                match credentials {
                    Credentials::CookieFile(path) => table.cookie_file = Some(path),
                    Credentials::User { name, password } => {
                        table.user = Some(name);
                        match password {
                            PasswordPlace::File(path) => table.password_file = Some(path),
                            PasswordPlace::Variable(name) => table.password_env = Some(name),
                        }
                    }
                }
                table
            }
        }
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
            r#"{ kind = "cardano-node", address = "a:1", cookie_file = "c" }"#,
            r#"{ kind = "bitcoin-core", address = "a:1" }"#,
            r#"{ address = "a:1" }"#,
            r#""a:1""#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bitcoind_has_a_url_and_one_kind_of_credentials() {
        let right = [
            r#"{ kind = "bitcoind", url = "http://127.0.0.1:8332", cookie_file = "c" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u", password_file = "p" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u", password_env = "P", blocks_dir = "b" }"#,
        ];
        for text in right {
            let source = parse(text).unwrap();
            let written = toml::Value::try_from(&source).unwrap();
            assert_eq!(written.try_into::<Source>().unwrap(), source, "{text}");
        }
        for wrong in [
            r#"{ kind = "bitcoind", cookie_file = "c" }"#,
            r#"{ kind = "bitcoind", url = "http://n" }"#,
            r#"{ kind = "bitcoind", url = "https://n", cookie_file = "c" }"#,
            r#"{ kind = "bitcoind", url = "http://u:hunter2@n", cookie_file = "c" }"#,
            r#"{ kind = "bitcoind", url = "http://n", cookie_file = "" }"#,
            r#"{ kind = "bitcoind", url = "http://n", cookie_file = "c", user = "u" }"#,
            r#"{ kind = "bitcoind", url = "http://n", cookie_file = "c", password_env = "P" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u:v", password_env = "P" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u", password = "hunter2" }"#,
            r#"{ kind = "bitcoind", url = "http://n", user = "u", password_env = "P", password_file = "p" }"#,
            r#"{ kind = "bitcoind", url = "http://n", cookie_file = "c", address = "a:1" }"#,
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(!error.message().contains("hunter2"), "{error}");
        }
    }
}
