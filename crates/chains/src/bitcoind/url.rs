//! Where a node listens.

use std::{fmt, str::FromStr};

/// The port of a node on the main network.
const DEFAULT_PORT: u16 = 8332;

/// `http://HOST:PORT`. Bitcoin Core speaks no TLS; a node far away is reached through a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitcoindUrl {
    /// Host and port as they stand in a URL.
    authority: String,
}

/// Why a text is not the URL of a node. Nothing of the text is repeated: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BitcoindUrlError {
    /// Another scheme, a path, or no host.
    #[error("the URL of a node looks like http://127.0.0.1:8332")]
    Malformed,
    /// TLS, which Bitcoin Core does not speak.
    #[error(
        "Bitcoin Core does not speak https: use http, through a tunnel if the node is far away"
    )]
    Tls,
    /// User and password in the URL.
    #[error(
        "a URL ends up in logs: name user and password_file, password_env or cookie_file instead"
    )]
    Credentials,
}

impl BitcoindUrl {
    /// Host and port, as a connection and the `Host` header name them.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }
}

impl FromStr for BitcoindUrl {
    type Err = BitcoindUrlError;

    fn from_str(text: &str) -> Result<Self, BitcoindUrlError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(BitcoindUrlError::Malformed);
        };
        if rest.contains('@') {
            return Err(BitcoindUrlError::Credentials);
        }
        match scheme {
            "http" => {}
            "https" => return Err(BitcoindUrlError::Tls),
            _ => return Err(BitcoindUrlError::Malformed),
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let is_plain =
            |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = if let Some((host, port)) = bracketed {
            host.parse::<std::net::Ipv6Addr>().map_err(|_| BitcoindUrlError::Malformed)?;
            (format!("[{host}]"), port)
        } else {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            if host.is_empty() || !is_plain(host) {
                return Err(BitcoindUrlError::Malformed);
            }
            (host.to_owned(), port)
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(DEFAULT_PORT),
            None => None,
            Some(digits) => digits.parse::<u16>().ok().filter(|port| *port > 0),
        };
        let port = port.ok_or(BitcoindUrlError::Malformed)?;
        Ok(Self { authority: format!("{host}:{port}") })
    }
}

impl fmt::Display for BitcoindUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_port_and_nothing_else() {
        let shown = |text: &str| text.parse::<BitcoindUrl>().map(|url| url.to_string());
        for (text, whole) in [
            ("http://127.0.0.1:18443", "http://127.0.0.1:18443"),
            ("http://node.example/", "http://node.example:8332"),
            ("http://[::1]:8332", "http://[::1]:8332"),
            ("http://[::1]", "http://[::1]:8332"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(whole), "{text}");
        }
        for text in [
            "127.0.0.1:8332",
            "http://",
            "http://:8332",
            "http://a:0",
            "http://a:70000",
            "http://a:8332/wallet/x",
            "http://a b",
            "http://[zz]:1",
            "http://[::1]8332",
            "zmq://a:1",
        ] {
            assert_eq!(shown(text), Err(BitcoindUrlError::Malformed), "{text}");
        }
        assert_eq!(shown("https://a:1"), Err(BitcoindUrlError::Tls));
        let error = shown("http://me:hunter2@a:1").unwrap_err();
        assert_eq!(error, BitcoindUrlError::Credentials);
        assert!(!error.to_string().contains("hunter2"));
    }
}
