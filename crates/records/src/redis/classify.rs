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

#[cfg(test)]
mod tests {
    use super::*;

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
