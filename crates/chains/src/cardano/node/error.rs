//! Why a node cannot be followed.

use std::io;

use super::NodePoint;

/// Why a node cannot be followed any further on this connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Nobody answers at the address.
    #[error("cannot connect to the node at {address}: check that it runs and listens there")]
    Connect {
        /// Where the node should be.
        address: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The node refused the handshake, or is of another network.
    #[error(
        "the node refused network magic {network_magic} ({reason}): check that node and \
         configuration name the same network"
    )]
    Handshake {
        /// The magic that was offered.
        network_magic: u64,
        /// What the node said.
        reason: String,
    },
    /// None of the known points is on the node's chain.
    #[error(
        "none of the known points is on the node's chain, which ends at {}: the node may still \
         be catching up, or the chains parted before the oldest known point",
        show(tip.as_ref())
    )]
    NoIntersection {
        /// Where the node's chain ends; `None` is the origin.
        tip: Option<NodePoint>,
    },
    /// A header of an era this version cannot read.
    #[error("the node sent a header of the unknown era {variant}: a newer version is needed")]
    UnknownEra {
        /// The node's number of the era.
        variant: u8,
    },
    /// The node said something it must not say.
    #[error("the node broke the protocol: {what}")]
    Protocol {
        /// What was wrong.
        what: String,
    },
    /// An answer took too long.
    #[error("the node did not answer within {timeout_ms} ms while waiting for {waiting_for}")]
    Timeout {
        /// What was being waited for.
        waiting_for: &'static str,
        /// The limit.
        timeout_ms: u64,
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

impl NodeError {
    /// Whether connecting again later can help. Otherwise someone has to change something first.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Handshake { .. } | Self::NoIntersection { .. } | Self::UnknownEra { .. } => false,
            Self::Connect { .. }
            | Self::Protocol { .. }
            | Self::Timeout { .. }
            | Self::Closed
            | Self::Start { .. } => true,
        }
    }

    pub(super) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol { what: what.into() }
    }
}

fn show(point: Option<&NodePoint>) -> String {
    point.map_or_else(|| "the origin".to_owned(), ToString::to_string)
}
