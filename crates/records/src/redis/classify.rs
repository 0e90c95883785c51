//! What an error of a server means for the command that it answers.

use super::client::Address;

/// What to do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It did not happen: the slot is elsewhere.
    Moved(u16, Address),
    /// It did not happen: the key may be elsewhere, this once.
    Ask(Address),
    /// It did not happen: try again, after looking where the slots are.
    Elsewhere,
    /// It did not happen: try again later.
    Later,
    /// It did not happen: the library has to be loaded first.
    NoLibrary,
    /// It did not happen, and will not until somebody changes the servers.
    Refused,
    /// Nothing is known.
    Unknown,
}

/// Reads an error that the server at `asked` answered.
pub(crate) fn meaning(error: &str, asked: &Address) -> Meaning {
    let words: Vec<&str> = error.split_whitespace().collect();
    match words[..] {
        ["MOVED", slot, place, ..] => {
            match (slot.parse().ok(), Address::parse(place, &asked.host)) {
                (Some(slot), Some(to)) => Meaning::Moved(slot, to),
                _ => Meaning::Elsewhere,
            }
        }
        ["ASK", _, place, ..] => {
            Address::parse(place, &asked.host).map_or(Meaning::Elsewhere, Meaning::Ask)
        }
        ["MOVED" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY", ..] => Meaning::Elsewhere,
        ["TRYAGAIN" | "LOADING" | "NOREPLICAS" | "BUSY", ..] => Meaning::Later,
        ["OOM" | "MISCONF" | "NOPERM" | "NOAUTH" | "WRONGPASS", ..] => Meaning::Refused,
        ["ERR", "Function", "not", "found", ..] => Meaning::NoLibrary,
        _ => Meaning::Unknown,
    }
}

/// What to tell people of an error that is [`Meaning::Refused`]: who said it, and what to do.
pub(crate) fn refused(error: &str, asked: &Address) -> String {
    let advice = match error.split_whitespace().next() {
        Some("OOM") => ": raise maxmemory there, add servers, or let the pruner delete more",
        Some("MISCONF") => ": see to its disk, where it cannot write its log or snapshot",
        Some("NOPERM") => ": its user lacks the right to that command or key",
        Some("NOAUTH" | "WRONGPASS") => ": user and password stand in the URL",
        _ => "",
    };
    let error = error.trim_end_matches('.');
    format!("{error} (said {asked}){advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_is_named_with_what_to_do() {
        let asked = Address { host: "h".to_owned(), port: 1 };
        let said = refused("OOM command not allowed when used memory > 'maxmemory'.", &asked);
        assert!(said.starts_with("OOM") && said.contains("(said h:1): raise maxmemory"), "{said}");
        assert!(refused("MISCONF Errors writing to the AOF file", &asked).contains("its disk"));
        assert_eq!(refused("NEW of the future", &asked), "NEW of the future (said h:1)");
    }

    #[test]
    fn an_error_that_is_not_known_says_nothing_about_its_write() {
        let asked = Address { host: "h".to_owned(), port: 1 };
        let to = |host: &str, port| Address { host: host.to_owned(), port };
        for (error, expected) in [
            ("MOVED 5 10.0.0.1:7", Meaning::Moved(5, to("10.0.0.1", 7))),
            ("MOVED 5 :7", Meaning::Moved(5, to("h", 7))),
            ("MOVED", Meaning::Elsewhere),
            ("ASK 5 10.0.0.1:7", Meaning::Ask(to("10.0.0.1", 7))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Meaning::Later),
            ("CLUSTERDOWN The cluster is down", Meaning::Elsewhere),
            ("LOADING Redis is loading the dataset in memory", Meaning::Later),
            ("READONLY You can't write against a read only replica.", Meaning::Elsewhere),
            ("OOM command not allowed when used memory > 'maxmemory'.", Meaning::Refused),
            ("ERR Function not found", Meaning::NoLibrary),
            ("ERR something else", Meaning::Unknown),
            ("NOSYNCREPLICAS of the future", Meaning::Unknown),
            ("", Meaning::Unknown),
        ] {
            assert_eq!(meaning(error, &asked), expected, "{error}");
        }
    }
}
