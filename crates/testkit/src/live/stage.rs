//! Sources for the rules, each with the hand that moves its chain.

use std::sync::Arc;

use tempfile::TempDir;
use utxokeep_chains::{
    BlockDecoder, LiveSource, QueueLimits,
    cardano::{CardanoNode, Genesis, NodeAddress, NodeOptions},
    decode_header, genesis_block,
};
use utxokeep_core::{BlockHash, ChainPoint, Height, Network};

use super::SimulatedNode;
use crate::{
    ANYONE,
    cardano::{BlockSpec, Era, OutSpec, TxSpec, shelley_genesis},
    cardano_node::FakeNode,
    mine,
};

const MAGIC: u64 = 42;

/// A block that was made for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeBlock {
    /// Where it is on its chain.
    pub point: ChainPoint,
    /// Its bytes.
    pub raw: Vec<u8>,
}

/// A source whose chain a test moves.
pub trait LiveStage {
    /// The source.
    fn source(&self) -> Arc<dyn LiveSource>;

    /// Reads its blocks.
    fn decoder(&self) -> BlockDecoder;

    /// The block on top of `below`, or the first one. Those of another `branch` differ, except first
    /// ones.
    fn make(&self, below: Option<&MadeBlock>, branch: u8) -> MadeBlock;

    /// Keeps the first `keep` blocks of the chain and puts `blocks` behind them.
    fn switch(&self, keep: usize, blocks: &[MadeBlock]);

    /// Cuts all connections off.
    fn cut_off(&self);
}

/// [`SimulatedNode`] on a stage.
#[derive(Debug, Default)]
pub struct SimulatedStage(SimulatedNode);

impl LiveStage for SimulatedStage {
    fn source(&self) -> Arc<dyn LiveSource> {
        Arc::new(self.0.clone())
    }

    fn decoder(&self) -> BlockDecoder {
        BlockDecoder::new(Network::BitcoinRegtest)
    }

    fn make(&self, below: Option<&MadeBlock>, branch: u8) -> MadeBlock {
        make_bitcoin_block(below, branch)
    }

    fn switch(&self, keep: usize, blocks: &[MadeBlock]) {
        self.0.switch_fork(keep, &raws(blocks));
    }

    fn cut_off(&self) {
        self.0.cut_off();
    }
}

/// A regtest block that pays 50 satoshi to anyone.
pub(super) fn make_bitcoin_block(below: Option<&MadeBlock>, branch: u8) -> MadeBlock {
    let Some(below) = below else {
        let raw = genesis_block(Network::BitcoinRegtest);
        let hash = decode_header(&raw).unwrap().hash;
        return MadeBlock { point: ChainPoint { height: Height::GENESIS, slot: 0, hash }, raw };
    };
    let height = below.point.height.plus(1);
    let prev = decode_header(&below.raw).unwrap();
    let block = mine(&prev, height.get(), branch.into(), &[(50, ANYONE)], &[]);
    let (slot, hash) = (height.get().into(), block.header.hash);
    MadeBlock { point: ChainPoint { height, slot, hash }, raw: block.raw }
}

/// The client of Cardano nodes on a stage, against a [`FakeNode`].
pub struct CardanoStage {
    node: FakeNode,
    over_socket: bool,
    /// Of the socket.
    _dir: TempDir,
}

impl CardanoStage {
    /// Node-to-node over the loopback interface.
    #[must_use]
    pub fn over_tcp() -> Self {
        Self::new(false)
    }

    /// Node-to-client over a local socket.
    #[must_use]
    pub fn over_socket() -> Self {
        Self::new(true)
    }

    fn new(over_socket: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { node: FakeNode::start(MAGIC, dir.path(), &[]), over_socket, _dir: dir }
    }
}

impl LiveStage for CardanoStage {
    fn source(&self) -> Arc<dyn LiveSource> {
        let address = if self.over_socket {
            NodeAddress::Socket(self.node.socket_path().to_owned())
        } else {
            NodeAddress::Tcp(self.node.tcp_address())
        };
        Arc::new(CardanoNode::new(NodeOptions {
            address,
            network_magic: MAGIC,
            queue: QueueLimits { events_max: 4, bytes_max: 64 << 20 },
            fetch_range_blocks_max: 10,
            answer_timeout_ms: 10_000,
        }))
    }

    fn decoder(&self) -> BlockDecoder {
        let genesis = Genesis::from_files(None, shelley_genesis(30, &[]).as_bytes()).unwrap();
        BlockDecoder::with_genesis(Network::CardanoDevnet, genesis)
    }

    fn make(&self, below: Option<&MadeBlock>, branch: u8) -> MadeBlock {
        let mut spec = BlockSpec::first(Era::Conway, Vec::new());
        if let Some(MadeBlock { point, .. }) = below {
            spec.number = u64::from(point.height.get()) + 1;
            spec.slot = point.slot + 20;
            spec.prev = Some(*point.hash.as_bytes());
            let outputs = [OutSpec::new(&[0x60; 29], branch.into())];
            spec.txs.push(TxSpec::new(&[([branch; 32], 0)], &outputs));
        }
        let built = spec.build();
        let height = Height::new(u32::try_from(built.number).unwrap());
        let hash = BlockHash::from_bytes(built.hash);
        MadeBlock { point: ChainPoint { height, slot: built.slot, hash }, raw: built.raw }
    }

    fn switch(&self, keep: usize, blocks: &[MadeBlock]) {
        self.node.switch_fork(keep, &raws(blocks));
    }

    fn cut_off(&self) {
        self.node.drop_connections();
    }
}

fn raws(blocks: &[MadeBlock]) -> Vec<Vec<u8>> {
    blocks.iter().map(|block| block.raw.clone()).collect()
}
