//! Node-to-client: a local node hands out whole blocks.

use pallas_network::{
    facades::NodeClient,
    miniprotocols::{
        chainsync::{NextResponse, Tip},
        handshake::{Confirmation, n2c},
    },
    multiplexer::Bearer,
};
use tracing::debug;

use super::{
    NodeError, NodePoint,
    wire::{self, AnswerLimit, QUESTION_POINTS_MAX},
};
use crate::live::{Heard, LiveEvent, Outbox};

/// A connection to a local node that has shaken hands.
pub(super) struct Local {
    client: NodeClient,
}

impl Local {
    /// Shakes hands over a fresh connection.
    pub(super) async fn greet(
        bearer: Bearer,
        network_magic: u64,
        limit: AnswerLimit,
    ) -> Result<Self, NodeError> {
        let mut client = NodeClient::new(bearer);
        let versions = n2c::VersionTable::v10_and_above(network_magic);
        match limit.keep("the handshake", client.handshake().handshake(versions)).await? {
            Confirmation::Accepted(version, data) => {
                // Older versions answer with the magic alone.
                let ours = [None, Some(false)];
                if !ours.iter().any(|&query| data == n2c::VersionData::new(network_magic, query)) {
                    return Err(wire::other_network(network_magic));
                }
                debug!(version, "node accepted the handshake");
                Ok(Self { client })
            }
            Confirmation::Rejected(reason) => Err(wire::refused(network_magic, reason)),
            Confirmation::QueryReply(_) => {
                Err(NodeError::protocol("a list of versions that was not asked for"))
            }
        }
    }

    /// Finds the first of `points` that is on the node's chain.
    pub(super) async fn find_intersection(
        &mut self,
        points: &[NodePoint],
        limit: AnswerLimit,
        heard: &Heard,
    ) -> Result<Option<NodePoint>, NodeError> {
        let mut rest = points;
        loop {
            let (asked, later) = rest.split_at(rest.len().min(QUESTION_POINTS_MAX));
            rest = later;
            let question = self.client.chainsync().find_intersect(wire::to_question(asked));
            match limit.keep("the intersection", question).await? {
                (Some(found), Tip(_, height)) => {
                    heard.tip(height);
                    return wire::intersection(asked, found);
                }
                (None, Tip(tip, _)) if rest.is_empty() => {
                    return Err(NodeError::NoIntersection { tip: wire::from_wire(tip)? });
                }
                (None, _) => {}
            }
        }
    }

    /// Follows the chain from `start` until something fails.
    pub(super) async fn follow(
        mut self,
        start: Option<NodePoint>,
        limit: AnswerLimit,
        outbox: &Outbox,
    ) -> Result<(), NodeError> {
        let chain = self.client.chainsync();
        // A node first repeats the intersection, which the consumer knows already.
        let mut known_end = Some(start);
        loop {
            // One block at a time is under way, so that a slow consumer leaves nothing unread.
            let answer = if chain.has_agency() {
                limit.keep("the next block", chain.request_next()).await?
            } else {
                chain.recv_while_must_reply().await?
            };
            let event = match answer {
                NextResponse::RollForward(block, Tip(_, height)) => {
                    outbox.heard.tip(height);
                    wire::check_block_size(&block)?;
                    known_end = None;
                    LiveEvent::Block(block.into())
                }
                NextResponse::RollBackward(to, Tip(_, height)) => {
                    outbox.heard.tip(height);
                    let to = wire::from_wire(to)?;
                    if known_end == Some(to) {
                        continue;
                    }
                    known_end = Some(to);
                    debug!(?to, "node rolled back");
                    LiveEvent::RolledBack(to.as_ref().map(NodePoint::block_hash))
                }
                NextResponse::Await => {
                    outbox.heard.message();
                    LiveEvent::AtTip
                }
            };
            outbox.send(event).await?;
        }
    }
}
