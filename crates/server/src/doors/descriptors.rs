//! File descriptors: as many as the system allows, and enough for what is configured.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use utxokeep_core::ErrorKind;

use crate::config::Config;

/// Standard streams, logs, sockets that listen, files that are written once.
const OTHERS: u64 = 64;

/// More is configured than the process may open.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "this process may open {allowed} files, and what is configured needs {needed}: {databases} \
     times [storage] open_files_max, [rest] and [grpc] connections_max, connections to databases \
     and {OTHERS} others; raise the hard limit (ulimit -Hn), or lower one of these settings"
)]
pub(crate) struct TooFewDescriptors {
    allowed: u64,
    needed: u64,
    databases: u64,
}

impl TooFewDescriptors {
    /// What a caller can do about it: raise the limit, or change the configuration.
    #[allow(clippy::unused_self, reason = "every error answers the same way")]
    pub(crate) const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Raises the limit of this process as far as it may, and makes sure that it is enough. `databases`
/// of RocksDB are open.
pub(crate) fn prepare(config: &Config, databases: u64) -> Result<(), TooFewDescriptors> {
    check(raised(), needed(config, databases), databases)
}

fn needed(config: &Config, databases: u64) -> u64 {
    let connections = [
        config.rest.connections_max.get(),
        config.grpc.connections_max.get(),
        config.txstore.sql_connections_max.get(),
        config.wallet.sql_connections_max.get(),
    ];
    let files = u64::from(config.storage.open_files_max.get()).saturating_mul(databases);
    connections.into_iter().map(u64::from).sum::<u64>() + files + OTHERS
}

fn check(allowed: u64, needed: u64, databases: u64) -> Result<(), TooFewDescriptors> {
    if needed <= allowed {
        return Ok(());
    }
    Err(TooFewDescriptors { allowed, needed, databases })
}

/// The limit after it was raised.
fn raised() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if limit.current == limit.maximum {
        return current;
    }
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_needs_more_is_refused_by_name() {
        let config = Config::default();
        let needed = needed(&config, 1);
        assert!(needed > 1_024 && needed < 4_096, "{needed}");
        assert_eq!(check(needed, needed, 1), Ok(()));
        let refused = check(needed - 1, needed, 1).unwrap_err().to_string();
        for word in ["open_files_max", "connections_max", "ulimit -Hn"] {
            assert!(refused.contains(word), "{refused}");
        }
    }
}
