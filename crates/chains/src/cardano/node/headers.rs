//! Headers of a node-to-node peer, asked for ahead of the answers.
//!
//! One question per round trip would take days over a long line. Questions are therefore sent
//! ahead while the tip is far away; the node answers them in order.

use pallas_network::{
    miniprotocols::{
        Point,
        chainsync::{HeaderContent, Message, Tip},
    },
    multiplexer::{AgentChannel, ChannelBuffer},
};

use super::{
    NodeError, NodePoint,
    wire::{self, AnswerLimit, QUESTION_POINTS_MAX},
};

/// Questions that may be under way. Every answer fits a slot of the multiplexer's queue, so that
/// unread headers never hold up the other protocols of the connection.
pub(super) const QUESTIONS_MAX: usize = 50;

/// What the node says about its chain.
#[derive(Debug)]
pub(super) enum Instruction {
    /// The chain grew by this header.
    Forward(HeaderContent),
    /// The chain now ends here.
    Backward(Option<NodePoint>),
    /// There is nothing new; the answer follows when there is.
    Await,
}

/// Chain-sync with questions sent ahead.
pub(super) struct HeaderSync {
    channel: ChannelBuffer,
    questions: usize,
    awaiting: bool,
    tip_height: u64,
}

impl HeaderSync {
    pub(super) fn new(channel: AgentChannel) -> Self {
        let channel = ChannelBuffer::new(channel);
        Self { channel, questions: 0, awaiting: false, tip_height: 0 }
    }

    /// Whether the node has nothing new for now.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaiting
    }

    /// Height of the node's tip, as it last said.
    pub(super) fn tip_height(&self) -> u64 {
        self.tip_height
    }

    /// How far the node's tip is above `height`.
    pub(super) fn distance_from(&self, height: u64) -> usize {
        usize::try_from(self.tip_height.saturating_sub(height)).unwrap_or(usize::MAX)
    }

    /// Finds the first of `points` that is on the node's chain.
    pub(super) async fn find_intersection(
        &mut self,
        points: &[NodePoint],
        limit: AnswerLimit,
    ) -> Result<Option<NodePoint>, NodeError> {
        let mut rest = points;
        loop {
            let (asked, later) = rest.split_at(rest.len().min(QUESTION_POINTS_MAX));
            rest = later;
            let question = Message::FindIntersect(wire::to_question(asked));
            self.say(&question).await?;
            match limit.keep("the intersection", self.hear()).await? {
                Message::IntersectFound(found, Tip(_, height)) => {
                    self.tip_height = height;
                    return wire::intersection(asked, found);
                }
                Message::IntersectNotFound(Tip(tip, _)) if rest.is_empty() => {
                    return Err(NodeError::NoIntersection { tip: wire::from_wire(tip)? });
                }
                Message::IntersectNotFound(_) => {}
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Sends questions until `count` are under way; one at least.
    pub(super) async fn ask_ahead(&mut self, count: usize) -> Result<(), NodeError> {
        while self.questions < count.clamp(1, QUESTIONS_MAX) {
            self.say(&Message::RequestNext).await?;
            self.questions += 1;
        }
        Ok(())
    }

    /// The node's next answer. A question must be under way.
    pub(super) async fn next(&mut self) -> Result<Instruction, NodeError> {
        let (instruction, Tip(_, height)) = match self.hear().await? {
            Message::AwaitReply if !self.awaiting => {
                self.awaiting = true;
                return Ok(Instruction::Await);
            }
            Message::RollForward(header, tip) => (Instruction::Forward(header), tip),
            Message::RollBackward(point, tip) => (backward(point)?, tip),
            other => return Err(unexpected(&other)),
        };
        self.awaiting = false;
        self.tip_height = height;
        self.questions = self
            .questions
            .checked_sub(1)
            .ok_or_else(|| NodeError::protocol("an answer without a question"))?;
        Ok(instruction)
    }

    async fn say(&mut self, message: &Message<HeaderContent>) -> Result<(), NodeError> {
        Ok(self.channel.send_msg_chunks(message).await?)
    }

    async fn hear(&mut self) -> Result<Message<HeaderContent>, NodeError> {
        Ok(self.channel.recv_full_msg().await?)
    }
}

fn backward(point: Point) -> Result<Instruction, NodeError> {
    Ok(Instruction::Backward(wire::from_wire(point)?))
}

fn unexpected(message: &Message<HeaderContent>) -> NodeError {
    let name = match message {
        Message::RequestNext | Message::FindIntersect(_) | Message::Done => "a question",
        Message::AwaitReply => "a repeated request to wait",
        Message::RollForward(..) | Message::RollBackward(..) => "a part of its chain",
        Message::IntersectFound(..) | Message::IntersectNotFound(_) => "an intersection",
    };
    NodeError::protocol(format!("it sent {name} where that has no place"))
}
