//! What a `PostgreSQL` server must be able to do and what it promises, asked when a database is
//! opened.

use std::fmt;

/// `plan_cache_mode`, which every connection sets, is there from version 12 on.
const VERSION_MIN: u32 = 120_000;

/// Questions to the server, in the order of [`refusal`]'s arguments.
pub(crate) const QUESTIONS: [&str; 2] = ["SHOW server_version_num", "SHOW transaction_read_only"];

/// Why a server cannot be used, if it cannot.
pub(crate) fn refusal([version, is_read_only]: &[String; 2]) -> Option<String> {
    match version.trim().parse::<u32>() {
        Ok(found) if found < VERSION_MIN => {
            return Some(format!(
                "it is PostgreSQL {}.{}, and plan_cache_mode needs 12 or newer: upgrade the server",
                found / 10_000,
                found % 10_000
            ));
        }
        Ok(_) => {}
        Err(_) => return Some(format!("it does not say which version it is, but {version:?}")),
    }
    (is_read_only.trim() == "on").then(|| {
        "it takes no writes: it is a standby, or default_transaction_read_only is on. Name the \
         primary, or all hosts and target_session_attrs=read-write, as in \
         postgres://user@one,two/name?target_session_attrs=read-write"
            .to_owned()
    })
}

/// Settings that make plans look rows up in an index, whatever the server believes of the tables;
/// and the compiler of expressions, which such beliefs start for nothing.
pub(crate) const PLANNING: &str = "SELECT CAST(name AS TEXT) FROM pg_settings \
     WHERE name IN ('enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit') ORDER BY name";

/// Settings that decide what an answered commit survives. A server that is only compatible with
/// `PostgreSQL` may lack them.
pub(crate) const PROMISES: &str = "SELECT COALESCE(current_setting('server_version', true), ''), \
     COALESCE(current_setting('synchronous_commit', true), ''), \
     COALESCE(current_setting('synchronous_standby_names', true), ''), \
     COALESCE(current_setting('fsync', true), '')";

/// What a server says an answered commit survives, as of the opening of the database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Promises {
    /// Version of the server.
    pub version: String,
    /// What commits of this program wait for; empty where the server does not say.
    pub synchronous_commit: String,
    /// Standbys that such a commit waits for; empty where there are none.
    pub synchronous_standbys: String,
    /// Whether the server waits for its disk, `on` or `off`; empty where it does not say.
    pub fsync: String,
}

impl Promises {
    /// How an answered commit could be lost, for a program that wants to keep every one of them.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let commit = self.synchronous_commit.as_str();
        let mut gaps = Vec::new();
        if commit == "off" {
            gaps.push(
                "synchronous_commit is off: a crash of the server may lose commits that were \
                 answered; leave it out of the URL, or set it to on"
                    .to_owned(),
            );
        }
        if self.fsync == "off" {
            gaps.push(
                "the server runs with fsync = off: a crash of its machine may damage the \
                 database; set it to on"
                    .to_owned(),
            );
        }
        if !self.synchronous_standbys.is_empty() && matches!(commit, "local" | "remote_write") {
            gaps.push(format!(
                "synchronous_commit is {commit}: a commit that was answered may be missing on the \
                 standby; set it to on or remote_apply"
            ));
        }
        gaps
    }
}

impl fmt::Display for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, synchronous_commit, synchronous_standbys, fsync } = self;
        let standbys = if synchronous_standbys.is_empty() { "none" } else { synchronous_standbys };
        write!(
            f,
            "PostgreSQL {version}, synchronous_commit {synchronous_commit}, synchronous standbys \
             {standbys}, fsync {fsync}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_lose_answered_commits_is_found_out() {
        let of = |commit: &str, standbys: &str, fsync: &str| {
            let [synchronous_commit, synchronous_standbys, fsync] =
                [commit, standbys, fsync].map(str::to_owned);
            let version = "15".to_owned();
            Promises { version, synchronous_commit, synchronous_standbys, fsync }.gaps()
        };
        assert_eq!(of("on", "", "on"), [""; 0]);
        assert_eq!(of("remote_apply", "*", "on"), [""; 0]);
        // A server that does not say is not accused.
        assert_eq!(of("", "", ""), [""; 0]);
        // Without a standby, "local" waits for all there is.
        assert_eq!(of("local", "", "on"), [""; 0]);
        assert!(of("off", "", "on")[0].contains("synchronous_commit is off"));
        assert!(of("on", "", "off")[0].contains("fsync = off"));
        assert!(of("local", "*", "on")[0].contains("missing on the standby"));
    }

    fn of(version: &str, is_read_only: &str) -> Option<String> {
        refusal(&[version.to_owned(), is_read_only.to_owned()])
    }

    #[test]
    fn a_server_that_lacks_something_is_refused_by_the_name_of_it() {
        assert_eq!(of("120000", "off"), None);
        assert_eq!(of("170002", "off"), None);
        assert!(of("110022", "off").is_some_and(|text| text.contains("PostgreSQL 11.22")));
        assert!(of("eleven", "off").is_some_and(|text| text.contains("eleven")));
        assert!(of("150008", "on").is_some_and(|text| text.contains("takes no writes")));
    }
}
