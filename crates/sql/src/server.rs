//! What a `PostgreSQL` server must be able to do, asked when a database is opened.

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

#[cfg(test)]
mod tests {
    use super::*;

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
