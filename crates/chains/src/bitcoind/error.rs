//! Why a node cannot be followed.

use std::{io, path::PathBuf};

use utxokeep_core::{Height, Network};

use super::VERSION_MIN;
use crate::live::{Left, LiveError, NotStarted};

/// Why a node cannot be followed any further on this connection. Nothing was changed by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BitcoindError {
    /// Nobody answers at the address.
    #[error(
        "cannot connect to the node at {url}: check that it runs with server=1 and listens there"
    )]
    Connect {
        /// Where the node should be.
        url: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The connection ended inside an exchange.
    #[error("the connection to the node at {url} was lost")]
    Lost {
        /// Where the node is.
        url: String,
        /// What the HTTP client met.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer took too long.
    #[error("the node did not answer within {timeout_ms} ms while waiting for {waiting_for}")]
    Timeout {
        /// What was being waited for.
        waiting_for: &'static str,
        /// The limit.
        timeout_ms: u64,
    },
    /// The cookie file is not there.
    #[error(
        "there is no cookie file {}: start the node, or correct cookie_file",
        path.display()
    )]
    NoCookie {
        /// Where it should be.
        path: PathBuf,
    },
    /// The cookie file is something else.
    #[error("{} is no cookie file of Bitcoin Core: correct cookie_file", path.display())]
    BadCookie {
        /// The file.
        path: PathBuf,
    },
    /// A file with a secret cannot be read.
    #[error("cannot read {}: check that this user may read it", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The variable with the password is not set.
    #[error("the variable {variable}, which password_env names, is not set")]
    NoPassword {
        /// Its name.
        variable: String,
    },
    /// The node does not accept the credentials.
    #[error(
        "the node refused the credentials: check cookie_file, or user and password, against the \
         node's bitcoin.conf"
    )]
    Credentials,
    /// The credentials were replaced while they were used.
    #[error("the node has a new cookie: it was started again")]
    NewCookie,
    /// The node accepts the credentials and still refuses.
    #[error(
        "the node does not allow {method} from here: check rpcallowip and rpcwhitelist in its \
         bitcoin.conf"
    )]
    Forbidden {
        /// The RPC method.
        method: &'static str,
    },
    /// The node is not ready.
    #[error("the node is starting: {state}")]
    Starting {
        /// What it says it does.
        state: String,
    },
    /// REST is switched off.
    #[error("the node does not offer REST: add rest=1 to its bitcoin.conf and restart it")]
    NoRest,
    /// The node is too old.
    #[error(
        "the node is Bitcoin Core {}, and {} or later is needed",
        show_version(*found),
        show_version(VERSION_MIN)
    )]
    TooOld {
        /// As the node numbers its versions.
        found: u64,
    },
    /// The node follows another chain.
    #[error(
        "the node follows the network it calls {found}, and this database is of {wanted}: choose \
         the node or the database of the other"
    )]
    OtherNetwork {
        /// What the node says.
        found: String,
        /// Network of the database.
        wanted: Network,
    },
    /// Blocks that are needed are gone.
    #[error(
        "the node has pruned its blocks, and the block at height {wanted} is needed{}: follow a node \
         that has them, or import them from block files",
        kept.map(|kept| format!(" while it keeps those from height {kept} on")).unwrap_or_default()
    )]
    Pruned {
        /// The first block that is needed.
        wanted: Height,
        /// The first block that the node says it still has.
        kept: Option<u64>,
    },
    /// The node has not got the block yet.
    #[error("the node does not have block {hash} on its disk: {said}")]
    NotThere {
        /// The block asked for.
        hash: String,
        /// The node's words.
        said: String,
    },
    /// None of the known points is on the node's chain.
    #[error(
        "none of the known blocks is on the node's chain, which ends at height {height}: the node may \
         still be catching up, or the chains parted before the oldest known block"
    )]
    NoIntersection {
        /// Height of the node's tip.
        height: u64,
    },
    /// The node sent what no honest node sends.
    #[error("the node at {url} sent something wrong: {what}; nothing of it was applied")]
    Wrong {
        /// Where the node is.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// The node answered an RPC with an error.
    #[error("the node refused {method}: {message} ({code})")]
    Refused {
        /// The RPC method.
        method: &'static str,
        /// The node's number of the error.
        code: i64,
        /// The node's words.
        message: String,
    },
    /// The node's chain moves so fast that its mempool cannot be listed.
    #[error("the node's chain moved while its mempool was listed; it is listed again later")]
    ChainMoves,
    /// The mempool has more transactions than may be listed.
    #[error(
        "the node's mempool has {found} transactions, and at most {txs_max} are listed; nothing of \
         it was read: raise [mempool] transactions_max, or lower maxmempool of the node"
    )]
    MempoolTooLarge {
        /// How many it has.
        found: usize,
        /// The limit.
        txs_max: usize,
    },
    /// The connection is closed.
    #[error("the connection to the node is closed")]
    Closed,
    /// The system did not supply a thread or its resources.
    #[error("cannot start the thread that talks to the node")]
    Start {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl BitcoindError {
    /// Whether connecting again later can help. Otherwise someone has to change something first.
    #[must_use]
    pub const fn is_worth_retrying(&self) -> bool {
        match self {
            Self::BadCookie { .. }
            | Self::Secret { .. }
            | Self::NoPassword { .. }
            | Self::Credentials
            | Self::Forbidden { .. }
            | Self::NoRest
            | Self::TooOld { .. }
            | Self::OtherNetwork { .. }
            | Self::Pruned { .. }
            | Self::NoIntersection { .. } => false,
            Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Timeout { .. }
            | Self::NoCookie { .. }
            | Self::NewCookie
            | Self::Starting { .. }
            | Self::NotThere { .. }
            | Self::Wrong { .. }
            | Self::Refused { .. }
            | Self::ChainMoves
            | Self::MempoolTooLarge { .. }
            | Self::Closed
            | Self::Start { .. } => true,
        }
    }
}

impl From<BitcoindError> for LiveError {
    fn from(error: BitcoindError) -> Self {
        if error.is_worth_retrying() {
            Self::Away(error.into())
        } else {
            Self::Refused(error.into())
        }
    }
}

impl From<Left> for BitcoindError {
    fn from(Left: Left) -> Self {
        Self::Closed
    }
}

impl From<NotStarted> for BitcoindError {
    fn from(NotStarted(source): NotStarted) -> Self {
        Self::Start { source }
    }
}

/// `310_100` is version 31.1.
fn show_version(number: u64) -> String {
    format!("{}.{}", number / 10_000, number / 100 % 100)
}
