//! What both protocols share: time limits, translated errors and points.

use std::{future::Future, time::Duration};

use pallas_network::{
    miniprotocols::{Point, blockfetch, chainsync, handshake, keepalive},
    multiplexer,
};

use super::{NodeError, NodePoint};
use crate::live::{Left, NotStarted};

/// Limit of one message with a block, the one nodes keep among themselves.
const BLOCK_BYTES_MAX: usize = 2_500_000;

/// Points in one question for the intersection; more are asked for in several questions, because
/// nodes limit a question to 64 KiB.
pub(super) const QUESTION_POINTS_MAX: usize = 1_000;

/// How long each answer may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerLimit(u64);

impl AnswerLimit {
    pub(super) fn from_ms(timeout_ms: u64) -> Self {
        Self(timeout_ms)
    }

    pub(super) fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The error for an answer that took too long.
    pub(super) fn missed(self, waiting_for: &'static str) -> NodeError {
        NodeError::Timeout { waiting_for, timeout_ms: self.0 }
    }

    /// Runs `answer` to its end, but not longer than the limit.
    pub(super) async fn keep<T, E: Into<NodeError>>(
        self,
        waiting_for: &'static str,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, NodeError> {
        match tokio::time::timeout(self.duration(), answer).await {
            Ok(outcome) => outcome.map_err(Into::into),
            Err(_) => Err(self.missed(waiting_for)),
        }
    }
}

/// Checks the size of a received block.
pub(super) fn check_block_size(raw: &[u8]) -> Result<(), NodeError> {
    if raw.len() > BLOCK_BYTES_MAX {
        return Err(NodeError::protocol(format!("a block of {} bytes", raw.len())));
    }
    Ok(())
}

/// The points of one question; no points ask for the origin.
pub(super) fn to_question(points: &[NodePoint]) -> Vec<Point> {
    if points.is_empty() {
        return vec![Point::Origin];
    }
    points.iter().map(to_wire).collect()
}

/// Our point as the protocol writes it.
pub(super) fn to_wire(point: &NodePoint) -> Point {
    Point::Specific(point.slot, point.hash.to_vec())
}

/// A point of the protocol as ours; `None` is the origin.
pub(super) fn from_wire(point: Point) -> Result<Option<NodePoint>, NodeError> {
    match point {
        Point::Origin => Ok(None),
        Point::Specific(slot, hash) => {
            let hash = <[u8; 32]>::try_from(hash)
                .map_err(|_| NodeError::protocol("a block hash that is not of 32 bytes"))?;
            Ok(Some(NodePoint { slot, hash }))
        }
    }
}

/// Turns the answer to a question into the intersection; `None` when the node knows no point.
pub(super) fn intersection(
    asked: &[NodePoint],
    found: Point,
) -> Result<Option<NodePoint>, NodeError> {
    let found = from_wire(found)?;
    let was_asked = match &found {
        None => asked.is_empty(),
        Some(point) => asked.contains(point),
    };
    if was_asked {
        Ok(found)
    } else {
        Err(NodeError::protocol("an intersection that was not asked for"))
    }
}

/// What a refused handshake means for an operator.
pub(super) fn refused(network_magic: u64, reason: handshake::RefuseReason) -> NodeError {
    use handshake::RefuseReason::{HandshakeDecodeError, Refused, VersionMismatch};
    let reason = match reason {
        VersionMismatch(versions) => format!("it only speaks the versions {versions:?}"),
        HandshakeDecodeError(version, text) | Refused(version, text) => {
            format!("version {version}: {text}")
        }
    };
    NodeError::Handshake { network_magic, reason }
}

/// The error for a node that accepted the handshake on behalf of another network.
pub(super) fn other_network(network_magic: u64) -> NodeError {
    NodeError::Handshake { network_magic, reason: "it answered for another network".to_owned() }
}

impl From<Left> for NodeError {
    fn from(Left: Left) -> Self {
        Self::Closed
    }
}

impl From<NotStarted> for NodeError {
    fn from(NotStarted(source): NotStarted) -> Self {
        Self::Start { source }
    }
}

impl From<multiplexer::Error> for NodeError {
    fn from(error: multiplexer::Error) -> Self {
        match error {
            multiplexer::Error::Decoding(what) => Self::protocol(what),
            _ => Self::Closed,
        }
    }
}

/// Each mini-protocol has its own error enum of the same shape.
macro_rules! from_mini_protocol {
    ($($error:path),+) => {$(
        impl From<$error> for NodeError {
            fn from(error: $error) -> Self {
                use $error as MiniProtocol;
                match error {
                    MiniProtocol::Plexer(error) => error.into(),
                    error => Self::protocol(error.to_string()),
                }
            }
        }
    )+};
}

from_mini_protocol!(
    chainsync::ClientError,
    blockfetch::ClientError,
    keepalive::ClientError,
    handshake::Error
);
