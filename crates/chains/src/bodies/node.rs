//! Bodies from a node.
//!
//! A consumer that was not there when a block arrived, or was held up, asks the node for the block
//! again, over a connection of its own.

use std::{fmt, time::Duration};

use utxokeep_core::{BlockHash, Height};

use super::{BodyError, WantedBlock};
use crate::{
    BlockDecoder, LiveEvent, NodeSource,
    bitcoind::NodeBlocks,
    cardano::{NodeConnection, NodeError, NodeOptions, NodePoint, decode_header},
};

/// How often a waiting reader looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node that is asked for blocks.
#[derive(Debug)]
pub(super) enum NodeBodies {
    Bitcoin(NodeBlocks),
    Cardano(CardanoNodeBodies),
}

impl NodeBodies {
    /// Connects when it is needed.
    pub(super) fn new(source: NodeSource, decoder: BlockDecoder) -> Self {
        match source {
            NodeSource::Bitcoin(options) => Self::Bitcoin(NodeBlocks::new(&options)),
            NodeSource::Cardano(options) => {
                Self::Cardano(CardanoNodeBodies { options, decoder, connection: None })
            }
        }
    }

    /// Where the node is.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Bitcoin(node) => node.address(),
            Self::Cardano(node) => node.options.address.to_string(),
        }
    }

    /// Ends the connection: a node need not wait for a reader that reads elsewhere.
    pub(super) fn close(&mut self) {
        match self {
            Self::Bitcoin(node) => node.close(),
            Self::Cardano(node) => node.connection = None,
        }
    }

    /// The bytes of a block; `None` when the node does not have it.
    pub(super) fn raw(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        match self {
            Self::Bitcoin(node) => node.raw(&wanted.point.hash, is_stopped),
            Self::Cardano(node) => node.raw(wanted, is_stopped),
        }
    }
}

/// A Cardano node, whose blocks are found behind their parents.
pub(super) struct CardanoNodeBodies {
    options: NodeOptions,
    decoder: BlockDecoder,
    /// Stands behind the last block that was asked for.
    connection: Option<NodeConnection>,
}

impl fmt::Debug for CardanoNodeBodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardanoNodeBodies")
            .field("address", &self.options.address)
            .finish_non_exhaustive()
    }
}

impl CardanoNodeBodies {
    /// The bytes of a block; `None` when it is not on the node's chain.
    fn raw(
        &mut self,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        if let Some(connection) = self.connection.take()
            && let Ok(Some(raw)) = self.read(connection, wanted, is_stopped)
        {
            return Ok(Some(raw));
        }
        let points = match wanted.parent {
            Some(parent) => vec![NodePoint::from(&parent)],
            None if wanted.point.height == Height::GENESIS => Vec::new(),
            // The database starts with this block, so that nothing tells where it is.
            None => return Ok(None),
        };
        match NodeConnection::open_unless(is_stopped, self.options.clone(), &points) {
            Ok(connection) => self.read(connection, wanted, is_stopped),
            Err(NodeError::NoIntersection { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads up to the block. The connection is kept only if the block came.
    fn read(
        &mut self,
        mut connection: NodeConnection,
        wanted: &WantedBlock,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let before = wanted.parent.map(|parent| parent.hash);
        loop {
            if is_stopped() {
                return Err(BodyError::Stopped);
            }
            match connection.next(LOOK_EVERY)? {
                None => {}
                Some(LiveEvent::RolledBack(hash)) if hash == before => {}
                Some(LiveEvent::RolledBack(_) | LiveEvent::AtTip) => return Ok(None),
                Some(LiveEvent::Block(raw)) => match self.place(&raw) {
                    Some((hash, _)) if hash == wanted.point.hash => {
                        self.connection = Some(connection);
                        return Ok(Some(raw));
                    }
                    Some((_, true)) => {}
                    _ => return Ok(None),
                },
            }
        }
    }

    /// Hash of a block, and whether it only marks the start of an epoch.
    fn place(&self, raw: &[u8]) -> Option<(BlockHash, bool)> {
        let info = decode_header(raw, self.decoder.genesis()?).ok()?;
        Some((info.header.hash, info.is_boundary))
    }
}
