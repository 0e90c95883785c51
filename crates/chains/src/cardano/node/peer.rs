//! Node-to-node: headers announce the chain, ranges of blocks are fetched behind them.

use std::time::Duration;

use pallas_network::{
    miniprotocols::{
        PROTOCOL_N2N_BLOCK_FETCH, PROTOCOL_N2N_CHAIN_SYNC, PROTOCOL_N2N_HANDSHAKE,
        PROTOCOL_N2N_KEEP_ALIVE, blockfetch, handshake, keepalive,
    },
    multiplexer::{Bearer, Plexer},
};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::{
    NodeError, NodePoint,
    announced::Announced,
    headers::{HeaderSync, Instruction, QUESTIONS_MAX},
    pending::{Pending, RollBack},
    wire::{self, AnswerLimit},
};
use crate::live::{Heard, LiveEvent, Outbox};

/// Pause between signs of life. Nodes close a connection after 97 seconds without one.
const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(20);

/// A connection that has shaken hands.
pub(super) struct Peer {
    pub(super) headers: HeaderSync,
    pub(super) bodies: blockfetch::Client,
    pub(super) keep_alive: keepalive::Client,
}

impl Peer {
    /// Shakes hands over a fresh connection.
    pub(super) async fn greet(
        bearer: Bearer,
        network_magic: u64,
        limit: AnswerLimit,
    ) -> Result<Self, NodeError> {
        let mut plexer = Plexer::new(bearer);
        let mut greeting =
            handshake::N2NClient::new(plexer.subscribe_client(PROTOCOL_N2N_HANDSHAKE));
        let headers = HeaderSync::new(plexer.subscribe_client(PROTOCOL_N2N_CHAIN_SYNC));
        let bodies = blockfetch::Client::new(plexer.subscribe_client(PROTOCOL_N2N_BLOCK_FETCH));
        let keep_alive = keepalive::Client::new(plexer.subscribe_client(PROTOCOL_N2N_KEEP_ALIVE));
        // Its tasks end with the runtime, which ends with the connection.
        let _ = plexer.spawn();

        let versions = handshake::n2n::VersionTable::v7_and_above(network_magic);
        match limit.keep("the handshake", greeting.handshake(versions)).await? {
            handshake::Confirmation::Accepted(version, data) => {
                if data.network_magic != network_magic {
                    return Err(wire::other_network(network_magic));
                }
                debug!(version, "node accepted the handshake");
                Ok(Self { headers, bodies, keep_alive })
            }
            handshake::Confirmation::Rejected(reason) => Err(wire::refused(network_magic, reason)),
            handshake::Confirmation::QueryReply(_) => {
                Err(NodeError::protocol("a list of versions that was not asked for"))
            }
        }
    }

    /// Follows the chain from `start` until something fails.
    pub(super) async fn follow(
        self,
        start: Option<NodePoint>,
        range_max: usize,
        limit: AnswerLimit,
        outbox: &Outbox,
    ) -> Result<(), NodeError> {
        let Self { headers, bodies, keep_alive } = self;
        let follower = Follower {
            headers,
            bodies,
            pending: Pending::new(start),
            range_max: range_max.max(1),
            limit,
            explain_by: None,
            outbox,
        };
        tokio::select! {
            outcome = follower.run() => outcome,
            outcome = show_life(keep_alive, limit, &outbox.heard) => outcome,
        }
    }
}

/// Shows signs of life and watches for the node's.
async fn show_life(
    mut client: keepalive::Client,
    limit: AnswerLimit,
    heard: &Heard,
) -> Result<(), NodeError> {
    loop {
        limit.keep("a sign of life", client.keepalive_roundtrip()).await?;
        heard.message();
        tokio::time::sleep(KEEP_ALIVE_PAUSE).await;
    }
}

struct Follower<'a> {
    headers: HeaderSync,
    bodies: blockfetch::Client,
    pending: Pending,
    range_max: usize,
    limit: AnswerLimit,
    /// Set while announced blocks could not be had: when the rollback that explains it is due.
    explain_by: Option<Instant>,
    outbox: &'a Outbox,
}

impl Follower<'_> {
    async fn run(mut self) -> Result<(), NodeError> {
        // Unknown until the first header arrives; then how many blocks the node has beyond it.
        let mut ahead = 0;
        loop {
            let questions = if self.explain_by.is_some() { 1 } else { ahead };
            self.headers.ask_ahead(questions).await?;
            let instruction = self.next_instruction().await?;
            self.outbox.heard.tip(self.headers.tip_height());
            match instruction {
                Instruction::Forward(content) => {
                    let header = Announced::read(&content)?;
                    ahead = self.headers.distance_from(header.height);
                    self.pending.announce(header)?;
                }
                Instruction::Backward(to) => self.roll_back(to).await?,
                Instruction::Await => {}
            }
            self.hand_over().await?;
        }
    }

    /// Waits for the node; at the tip without a limit, unless it owes an explanation.
    async fn next_instruction(&mut self) -> Result<Instruction, NodeError> {
        if let Some(deadline) = self.explain_by {
            let answer = timeout_at(deadline, self.headers.next()).await;
            answer.map_err(|_| self.limit.missed("blocks that were announced"))?
        } else if self.headers.is_awaiting() {
            self.headers.next().await
        } else {
            self.limit.keep("the next header", self.headers.next()).await
        }
    }

    async fn roll_back(&mut self, to: Option<NodePoint>) -> Result<(), NodeError> {
        let effect = self.pending.roll_back(to)?;
        debug!(?to, ?effect, "node rolled back");
        match effect {
            RollBack::Nothing => return Ok(()),
            RollBack::Announced => {}
            RollBack::HandedOver => {
                let to = to.as_ref().map(NodePoint::block_hash);
                self.outbox.send(LiveEvent::RolledBack(to)).await?;
            }
        }
        self.explain_by = None;
        Ok(())
    }

    /// Fetches and hands over what was announced, when it is enough or all there is.
    async fn hand_over(&mut self) -> Result<(), NodeError> {
        let announced = self.pending.announced().len();
        if self.explain_by.is_some() {
            // Answers to questions that were under way may still arrive first, but no more.
            let most = self.range_max.saturating_add(QUESTIONS_MAX);
            if announced > most {
                return Err(NodeError::protocol("it announces blocks that it does not have"));
            }
            return Ok(());
        }
        let at_tip = self.headers.is_awaiting();
        if announced > 0 && (at_tip || announced >= self.range_max) {
            let Some(blocks) = self.fetch().await? else {
                debug!(announced, "announced blocks are gone: waiting for the rollback");
                self.explain_by = Some(Instant::now() + self.limit.duration());
                return Ok(());
            };
            self.pending.hand_over();
            for block in blocks {
                self.outbox.send(LiveEvent::Block(block)).await?;
            }
        }
        if at_tip {
            self.outbox.send(LiveEvent::AtTip).await?;
        }
        Ok(())
    }

    /// The announced blocks; `None` when the node no longer has all of them.
    ///
    /// The whole range is taken off the connection before the consumer gets any of it: a slow
    /// consumer must not hold up the connection, or the node closes it.
    async fn fetch(&mut self) -> Result<Option<Vec<Vec<u8>>>, NodeError> {
        let announced = self.pending.announced();
        let (Some(first), Some(last)) = (announced.first(), announced.last()) else {
            return Ok(Some(Vec::new()));
        };
        let range = (wire::to_wire(&first.point), wire::to_wire(&last.point));
        let answer = self.limit.keep("a range of blocks", self.bodies.request_range(range)).await?;
        if answer.is_none() {
            return Ok(None);
        }
        let mut blocks = Vec::with_capacity(announced.len());
        loop {
            let body = self.limit.keep("a block", self.bodies.recv_while_streaming()).await?;
            match (body, announced.get(blocks.len())) {
                (Some(block), Some(header)) => {
                    wire::check_block_size(&block)?;
                    if !header.is_header_of(&block) {
                        let what = format!("it sent another block for {}", header.point);
                        return Err(NodeError::protocol(what));
                    }
                    self.outbox.heard.message();
                    blocks.push(block);
                }
                (None, None) => return Ok(Some(blocks)),
                _ => return Err(NodeError::protocol("a range of another length")),
            }
        }
    }
}
