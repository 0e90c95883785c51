//! The one door from raw bytes to [`Block`], whichever chain they are of.

use std::sync::Arc;

use utxokeep_core::{Block, BlockHash, Network, cardano::era};

use crate::{
    bitcoin::{self, DecodeError},
    cardano::{self, Genesis},
};

/// First block of the preview network, which has no Byron era.
const PREVIEW_FIRST_BLOCK: &str =
    "268ae601af8f9214804735910a3301881fbe0eec9936db7d1fb9fc39e93d1e37";

/// Turns raw blocks of one network into the form all chains share. Clones are cheap.
#[derive(Debug, Clone)]
pub struct BlockDecoder {
    network: Network,
    /// What Cardano's genesis files say.
    genesis: Option<Arc<Genesis>>,
}

impl BlockDecoder {
    /// A decoder for a network whose genesis is known to the program. For a private Cardano chain
    /// use [`BlockDecoder::with_genesis`]; without it, its blocks do not decode.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self { network, genesis: Genesis::public(network).map(Arc::new) }
    }

    /// A decoder for the Cardano chain that `genesis` describes.
    #[must_use]
    pub fn with_genesis(network: Network, genesis: Genesis) -> Self {
        Self { network, genesis: Some(Arc::new(genesis)) }
    }

    /// The network.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// What the genesis files of a Cardano chain say.
    #[must_use]
    pub fn genesis(&self) -> Option<&Genesis> {
        self.genesis.as_deref()
    }

    /// Raw bytes of the first block, where every chain of the network starts with the same.
    #[must_use]
    pub fn first_block(&self) -> Option<Vec<u8>> {
        (!self.network.is_cardano()).then(|| bitcoin::genesis_block(self.network))
    }

    /// What the first block names as its parent, on chains where that is known.
    #[must_use]
    pub fn origin(&self) -> BlockHash {
        self.genesis.as_ref().map_or_else(BlockHash::default, |genesis| genesis.hash())
    }

    /// Whether the chain of this network can start with a block. From Shelley on first blocks name
    /// no parent, so that one of another network looks like ours.
    #[must_use]
    pub fn can_start_with(&self, block: &Block) -> bool {
        let Some(genesis) = &self.genesis else {
            return block.header.hash == self.network.genesis_hash();
        };
        let starts_in_byron = genesis.slot_start_of_shelley() > 0;
        let era = block.header.slot.map(|slot| slot.era);
        block.header.prev == genesis.hash()
            && (!starts_in_byron || era == Some(era::BYRON_BOUNDARY))
            && (self.network != Network::CardanoPreview
                || block.header.hash.to_hex() == PREVIEW_FIRST_BLOCK)
    }

    /// Blocks that a reorganisation is expected to stay within.
    #[must_use]
    pub fn security_blocks(&self) -> u32 {
        let of_genesis = self.genesis.as_ref().map(|genesis| genesis.security_blocks());
        of_genesis.unwrap_or_else(|| self.network.security_blocks())
    }

    /// Decodes a block and checks everything that needs no other block.
    pub fn decode(&self, raw: Vec<u8>) -> Result<Block, DecodeError> {
        match &self.genesis {
            Some(genesis) => Ok(cardano::decode_block(&raw, genesis)?),
            None if self.network.is_cardano() => Err(cardano::CardanoDecodeError::NoGenesis.into()),
            None => bitcoin::decode_block(raw, self.network),
        }
    }
}
