//! The client of Bitcoin Core on a stage, against a real node.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use utxokeep_chains::{
    BlockDecoder, LiveSource, QueueLimits,
    bitcoind::{BitcoinNode, BitcoindOptions, Credentials},
};
use utxokeep_core::{BlockHash, Height, Network, hex_encode};

use super::{LiveStage, MadeBlock, stage::make_bitcoin_block};
use crate::bitcoind::{Bitcoind, NodeProxy};

/// Blocks that an honest node would prefer, and that are taken from it to make it take ours.
const PREFERRED_MAX: usize = 20;

/// A real node, and a proxy in front of it that can be cut off.
#[derive(Debug)]
pub struct BitcoindStage {
    node: Bitcoind,
    proxy: NodeProxy,
}

impl BitcoindStage {
    /// Starts a node; `None`, with a message, where there is no bitcoind.
    #[must_use]
    pub fn start_or_skip() -> Option<Self> {
        let node = Bitcoind::start_or_skip(&["-rest"])?;
        let proxy = NodeProxy::start(node.port());
        Some(Self { node, proxy })
    }

    fn chain(&self) -> Vec<String> {
        (0..=self.node.height()).map(|height| self.node.hash_at(height)).collect()
    }

    fn submit(&self, block: &MadeBlock) {
        let answer = self.node.rpc("submitblock", &json!([hex_encode(&block.raw)]));
        match answer.as_str() {
            None | Some("duplicate" | "inconclusive") => {}
            Some("duplicate-invalid" | "duplicate-inconclusive") => {
                self.node.rpc("reconsiderblock", &json!([block.point.hash.to_reversed_hex()]));
            }
            Some(refused) => panic!("the node refused a block: {refused}"),
        }
    }
}

/// Options of a client in tests.
#[must_use]
pub fn bitcoind_options(node: &Bitcoind, url: &str) -> BitcoindOptions {
    BitcoindOptions {
        url: url.parse().unwrap(),
        credentials: Credentials::CookieFile(node.cookie_file()),
        network: Network::BitcoinRegtest,
        blocks_dir: None,
        queue: QueueLimits { events_max: 4, bytes_max: 64 << 20 },
        fetch_connections_max: 3,
        poll_interval_ms: 20,
        answer_timeout_ms: 10_000,
    }
}

impl LiveStage for BitcoindStage {
    fn source(&self) -> Arc<dyn LiveSource> {
        Arc::new(BitcoinNode::new(bitcoind_options(&self.node, &self.proxy.url())))
    }

    fn decoder(&self) -> BlockDecoder {
        BlockDecoder::new(Network::BitcoinRegtest)
    }

    fn make(&self, below: Option<&MadeBlock>, branch: u8) -> MadeBlock {
        make_bitcoin_block(below, branch)
    }

    fn switch(&self, keep: usize, blocks: &[MadeBlock]) {
        let text = |hash: &BlockHash| hash.to_reversed_hex();
        let now = self.chain();
        let mut target = now[..keep].to_vec();
        target.extend(blocks.iter().map(|block| text(&block.point.hash)));
        let shared = now.iter().zip(&target).take_while(|(one, other)| one == other).count();
        // A longer chain is preferred by itself, in one step.
        if target.len() <= now.len() && shared < now.len() {
            self.node.rpc("invalidateblock", &json!([now[shared]]));
        }
        let above = blocks.iter().filter(|block| block.point.height > Height::GENESIS);
        above.for_each(|block| self.submit(block));
        let ours: BTreeSet<&String> = target.iter().collect();
        for _ in 0..PREFERRED_MAX {
            let now = self.chain();
            match now.iter().find(|hash| !ours.contains(hash)) {
                Some(preferred) => self.node.rpc("invalidateblock", &json!([preferred])),
                None => Value::Null,
            };
            if now == target {
                return;
            }
        }
        panic!("the node does not follow the chain that it was given");
    }

    fn cut_off(&self) {
        self.proxy.cut_off();
    }
}
