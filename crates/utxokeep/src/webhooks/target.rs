//! Where deliveries may go to: the URL of a webhook, and the addresses that its name stands for.
//!
//! Whoever may add webhooks could otherwise let this program call services that only it can reach.
//! So addresses are checked after the name was looked up, and the checked address is called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;

/// Characters of a URL.
const URL_CHARS_MAX: usize = 2_000;

/// Why deliveries cannot go to a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// It is none, or one that cannot be used.
    #[error("{0}")]
    Url(&'static str),
    /// It leads to an address of this machine or of a private network.
    #[error(
        "{0} is no public address; set webhook_private_addresses to allow deliveries to this machine \
         and to private networks"
    )]
    Private(IpAddr),
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) is_tls: bool,
    /// Name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What the header `Host` says.
    pub(super) authority: String,
    pub(super) path: String,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, BadTarget> {
        let bad = BadTarget::Url;
        if url.len() > URL_CHARS_MAX {
            return Err(bad("a URL has at most 2,000 characters"));
        }
        if url.contains('#') {
            return Err(bad("a URL of a webhook has no fragment"));
        }
        let uri: Uri = url.parse().map_err(|_| bad("this is no URL: https://HOST/PATH"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("a URL of a webhook begins with https:// or http://")),
        };
        let authority = uri.authority().ok_or(bad("the URL names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a URL of a webhook has no user and no password"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(0) => return Err(bad("the port of the URL is no port")),
            Some(port) => port,
            None if has_port => return Err(bad("the port of the URL is no port")),
            None if is_tls => 443,
            None => 80,
        };
        if host.is_empty() {
            return Err(bad("the URL names no host"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let (host, authority) = (host.to_owned(), authority.as_str().to_owned());
        Ok(Self { is_tls, host, port, authority, path: path.to_owned() })
    }

    /// Refuses an address that is written in the URL; names are looked up at each delivery.
    pub(super) fn check_literal(&self, allows_private: bool) -> Result<(), BadTarget> {
        match self.host.parse() {
            Ok(address) => check_address(address, allows_private),
            Err(_) => Ok(()),
        }
    }
}

/// Refuses what is not on the public internet, unless that is allowed.
pub(super) fn check_address(address: IpAddr, allows_private: bool) -> Result<(), BadTarget> {
    if allows_private || is_public(address) {
        return Ok(());
    }
    Err(BadTarget::Private(address))
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b));
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // Addresses of version 4 in the clothes of version 6: mapped, translated, tunnelled.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Documentation, Teredo and other tunnels.
        [0x2001, second, ..] if second == 0x0db8 || second < 0x0200 => false,
        // What is assigned to the public internet.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_or_refused() {
        let target = Target::parse("https://example.com/a/b?c=d").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.is_tls), ("example.com", 443, true));
        assert_eq!((target.path.as_str(), target.authority.as_str()), ("/a/b?c=d", "example.com"));
        let target = Target::parse("http://[2606:4700::1]:8080").unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.is_tls),
            ("2606:4700::1", 8080, false)
        );
        assert_eq!(target.path, "/");
        let long = format!("https://example.com/{}", "a".repeat(2_000));
        for url in [
            "",
            "example.com",
            "/path",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://",
            "https://user:pass@example.com",
            "https://example.com/#x",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://exa mple.com/",
            long.as_str(),
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        let public = ["8.8.8.8", "1.1.1.1", "100.63.0.1", "172.32.0.1", "2606:4700::1111"];
        for text in public.into_iter().chain(["::ffff:8.8.8.8", "2002:808:808::1"]) {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "::7f00:1",
        ] {
            let address = text.parse().unwrap();
            assert!(!is_public(address), "{text}");
            assert_eq!(check_address(address, false), Err(BadTarget::Private(address)));
            assert_eq!(check_address(address, true), Ok(()));
        }
    }
}
