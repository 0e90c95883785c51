//! Follows the node's chain by headers of our own: each question starts at our newest block.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tracing::debug;
use utxokeep_core::{BlockHash, ChainPoint, Header, Height, Network, hex_decode};

use super::{
    BitcoindError, BitcoindOptions,
    access::Authorization,
    fetch::Fetcher,
    http::Client,
    rest::{self, HEADERS_MAX},
    rpc,
};
use crate::{
    bitcoin::{decode_header_of, genesis_block},
    live::{LiveEvent, Outbox},
};

/// Headers that are remembered for going back; below them the node is asked.
const REMEMBERED_MAX: usize = 4_032;

/// Where the events so far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) height: Height,
    pub(super) hash: BlockHash,
}

pub(super) struct Follower<'f> {
    network: Network,
    authorization: &'f Authorization,
    client: Client,
    fetcher: Fetcher,
    /// Hashes of the blocks up to the end, oldest first, the last of which is the end.
    remembered: VecDeque<BlockHash>,
    height: Height,
    changed: Arc<Notify>,
    outbox: &'f Outbox,
    is_tip_told: bool,
}

/// Finds the newest of `points` that is on the node's chain; without points the first block.
pub(super) async fn intersection(
    client: &mut Client,
    network: Network,
    points: &[ChainPoint],
) -> Result<Option<End>, BitcoindError> {
    if points.is_empty() {
        let first = network.genesis_hash();
        let found = rest::headers(client, network, &first, 1).await?;
        return Ok((!found.is_empty()).then_some(End { height: Height::GENESIS, hash: first }));
    }
    for ChainPoint { height, hash, .. } in points {
        if !rest::headers(client, network, hash, 1).await?.is_empty() {
            return Ok(Some(End { height: *height, hash: *hash }));
        }
    }
    Ok(None)
}

impl<'f> Follower<'f> {
    pub(super) fn new(
        options: &BitcoindOptions,
        authorization: &'f Authorization,
        client: Client,
        start: End,
        changed: Arc<Notify>,
        outbox: &'f Outbox,
    ) -> Self {
        let limit = Duration::from_millis(options.answer_timeout_ms);
        Self {
            network: options.network,
            authorization,
            client,
            fetcher: Fetcher::new(options, limit),
            remembered: VecDeque::from([start.hash]),
            height: start.height,
            changed,
            outbox,
            is_tip_told: false,
        }
    }

    /// Hands over the first block, which no node need be asked for.
    pub(super) async fn begin_with_first_block(&self) -> Result<(), BitcoindError> {
        let first = LiveEvent::Block(genesis_block(self.network));
        Ok(self.outbox.send(first).await?)
    }

    /// Follows until something fails.
    pub(super) async fn run(mut self) -> Result<(), BitcoindError> {
        loop {
            let headers = self.headers_from(self.end().hash).await?;
            match headers.split_first() {
                None => self.go_back().await?,
                Some((_, [])) => {
                    if !std::mem::replace(&mut self.is_tip_told, true) {
                        self.outbox.send(LiveEvent::AtTip).await?;
                    }
                    self.changed.notified().await;
                }
                Some((_, new)) => self.go_on(new).await?,
            }
        }
    }

    fn end(&self) -> End {
        let hash = *self.remembered.back().expect("it starts with one and is never emptied");
        End { height: self.height, hash }
    }

    /// Headers of the node's chain from a block on; none when it is not on the chain.
    async fn headers_from(&mut self, hash: BlockHash) -> Result<Vec<Header>, BitcoindError> {
        let headers = rest::headers(&mut self.client, self.network, &hash, HEADERS_MAX).await?;
        self.outbox.heard.message();
        Ok(headers)
    }

    /// Fetches and hands over the blocks that follow the end.
    async fn go_on(&mut self, new: &[Header]) -> Result<(), BitcoindError> {
        self.is_tip_told = false;
        let count = u32::try_from(new.len()).unwrap_or(u32::MAX);
        let tip = self.height.plus(count);
        if new.len() < HEADERS_MAX - 1 {
            self.outbox.heard.tip(tip.get().into());
        }
        self.fetcher.hand_over(new, self.height, tip, self.outbox).await?;
        self.height = tip;
        self.remembered.extend(new.iter().map(|header| header.hash));
        let excess = self.remembered.len().saturating_sub(REMEMBERED_MAX);
        self.remembered.drain(..excess);
        Ok(())
    }

    /// Goes back to the newest block that is on the node's chain. The node says how the chain went
    /// on; what to undo is known without it.
    async fn go_back(&mut self) -> Result<(), BitcoindError> {
        let from = self.end();
        let mut at = from;
        loop {
            let Some(below) = at.height.get().checked_sub(1) else {
                let what = "that the first block of its network is not on its chain".to_owned();
                return Err(self.wrong(what));
            };
            let hash = match self.remembered.len() {
                0 | 1 => self.parent_of(&at.hash).await?,
                len => self.remembered[len - 2],
            };
            self.remembered.pop_back();
            if self.remembered.is_empty() {
                self.remembered.push_back(hash);
            }
            at = End { height: Height::new(below), hash };
            self.height = at.height;
            if !rest::headers(&mut self.client, self.network, &at.hash, 1).await?.is_empty() {
                break;
            }
        }
        debug!(from = %from.height, to = %at.height, "the node's chain forked");
        self.is_tip_told = false;
        self.outbox.heard.tip(at.height.get().into());
        Ok(self.outbox.send(LiveEvent::RolledBack(Some(at.hash))).await?)
    }

    /// The parent of a block that is older than what is remembered.
    async fn parent_of(&mut self, hash: &BlockHash) -> Result<BlockHash, BitcoindError> {
        let text: String =
            rpc::header(hash).ask_client(&mut self.client, self.authorization).await?;
        let raw = hex_decode(text.trim()).unwrap_or_default();
        match decode_header_of(&raw, self.network) {
            Ok(header) if header.hash == *hash => Ok(header.prev),
            _ => Err(self.wrong(format!("another header as {}", hash.to_reversed_hex()))),
        }
    }

    fn wrong(&self, what: String) -> BitcoindError {
        BitcoindError::Wrong { url: self.client.url().to_string(), what }
    }
}
