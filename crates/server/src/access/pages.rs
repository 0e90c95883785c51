//! What a browser may ask for: it sends requests on behalf of any page it shows.
//!
//! Three things tell such a request: `Host` names the server as the page knows it, `Origin` names the
//! page, and `Sec-Fetch-Site` says how the two belong together. A page whose name was made to lead
//! here (DNS rebinding) has the same origin as the server in the browser's eyes; its `Host` gives it
//! away.

use std::net::IpAddr;

/// What the headers of a request say about where it comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Visit<'a> {
    /// `Host`, or the authority of an absolute address.
    pub(crate) host: Option<&'a str>,
    /// `Origin`.
    pub(crate) origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub(crate) site: Option<&'a str>,
    /// Whether it opens a document of its own: a link was followed.
    pub(crate) is_navigation: bool,
    /// Whether it only reads.
    pub(crate) is_read: bool,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// From a program, from the user, or from a page of this server.
    Own,
    /// From a page that may read the chain and nothing else.
    Reader,
    /// From a page that thinks that it is this server.
    ForeignHost,
    /// From any other page.
    ForeignPage,
}

/// Names of this server, and pages of others that may read.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    hosts: Vec<String>,
    readers: Vec<String>,
}

impl Pages {
    /// A server with these names besides its addresses and `localhost`, which pages of `readers` may
    /// read from. `*` stands for every page.
    #[must_use]
    pub fn new(hosts: &[String], readers: &[String]) -> Self {
        Self { hosts: hosts.to_vec(), readers: readers.to_vec() }
    }

    /// Whether pages of other servers may read at all.
    pub(crate) fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    pub(crate) fn judge(&self, visit: Visit<'_>) -> Verdict {
        // Browsers always send it; a program that does not is no page.
        if visit.host.is_some_and(|host| !self.is_own(host)) {
            return Verdict::ForeignHost;
        }
        if let Some(origin) = visit.origin {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            if authority.is_some() && authority.map(lower) == visit.host.map(lower) {
                return Verdict::Own;
            }
            let may_read = self.readers.iter().any(|reader| reader == "*" || reader == origin);
            return if may_read && visit.is_read { Verdict::Reader } else { Verdict::ForeignPage };
        }
        match visit.site {
            None | Some("none" | "same-origin") => Verdict::Own,
            // Following a link to this server is no request of the page that has the link: it does not
            // see the answer.
            Some(_) if visit.is_navigation && visit.is_read => Verdict::Reader,
            Some(_) => Verdict::ForeignPage,
        }
    }

    /// Whether a `Host` is an address, `localhost` or a configured name: nobody else can make these
    /// lead to this server.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_address = match literal {
            Some(literal) => literal.parse().is_ok_and(|address: IpAddr| address.is_ipv6()),
            None => name.parse().is_ok_and(|address: IpAddr| address.is_ipv4()),
        };
        is_address
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use utxokeep::config::{is_host_name, is_origin};

    use super::*;

    const READ: Visit<'static> = Visit {
        host: Some("127.0.0.1:8080"),
        origin: None,
        site: None,
        is_navigation: false,
        is_read: true,
    };

    fn pages() -> Pages {
        Pages::new(&["keep.example".to_owned()], &["https://explorer.example".to_owned()])
    }

    #[test]
    fn only_addresses_localhost_and_configured_names_are_this_server() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "10.1.2.3:1",
            "[::1]:8080",
            "[::1]",
            "localhost:8080",
            "LOCALHOST",
            "keep.example",
            "Keep.Example:443",
        ] {
            let verdict = pages().judge(Visit { host: Some(own), ..READ });
            assert_eq!(verdict, Verdict::Own, "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.0.0.1@evil.example",
            "evil.keep.example",
            "",
            ":8080",
            "[evil]",
            "[127.0.0.1]",
            "::1",
            "0x7f.1",
            "127.1",
            "2130706433",
        ] {
            let verdict = pages().judge(Visit { host: Some(foreign), ..READ });
            assert_eq!(verdict, Verdict::ForeignHost, "{foreign}");
        }
        assert_eq!(pages().judge(Visit { host: None, ..READ }), Verdict::Own);
    }

    #[test]
    fn a_page_of_another_origin_is_foreign_unless_it_may_read() {
        let with = |origin, is_read| pages().judge(Visit { origin: Some(origin), is_read, ..READ });
        assert_eq!(with("http://127.0.0.1:8080", false), Verdict::Own);
        assert_eq!(with("https://127.0.0.1:8080", false), Verdict::Own, "behind a proxy with TLS");
        assert_eq!(with("https://explorer.example", true), Verdict::Reader);
        assert_eq!(with("https://explorer.example", false), Verdict::ForeignPage);
        for foreign in [
            "http://127.0.0.1:9999",
            "http://localhost:8080",
            "null",
            "",
            "http://explorer.example",
            "https://explorer.example.evil",
            "127.0.0.1:8080",
        ] {
            assert_eq!(with(foreign, true), Verdict::ForeignPage, "{foreign}");
        }
        let all = Pages::new(&[], &["*".to_owned()]);
        let visit = Visit { origin: Some("https://any.example"), ..READ };
        assert_eq!(all.judge(visit), Verdict::Reader);
        assert_eq!(all.judge(Visit { is_read: false, ..visit }), Verdict::ForeignPage);
    }

    #[test]
    fn requests_that_a_foreign_page_causes_are_foreign_but_links_to_this_server_are_not() {
        let with = |site, is_navigation, is_read| {
            pages().judge(Visit { site: Some(site), is_navigation, is_read, ..READ })
        };
        for site in ["cross-site", "same-site", "what-comes-next"] {
            assert_eq!(with(site, false, true), Verdict::ForeignPage, "{site}");
            assert_eq!(with(site, true, false), Verdict::ForeignPage, "{site}: a form");
            assert_eq!(with(site, true, true), Verdict::Reader, "{site}: a link");
        }
        assert_eq!(with("none", false, false), Verdict::Own);
        assert_eq!(with("same-origin", false, false), Verdict::Own);
    }

    #[test]
    fn names_and_origins_are_checked() {
        for good in ["https://a.example", "http://localhost:3000", "http://[::1]:1", "*"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["", "a.example", "https://", "https://a/", "https://A.example", "ftp://a"] {
            assert!(!is_origin(bad), "{bad}");
        }
        assert!(is_host_name("keep.example") && !is_host_name("keep.example:80"));
        assert!(!is_host_name("") && !is_host_name("http://x"));
    }
}
