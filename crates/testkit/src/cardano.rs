//! Cardano blocks made by hand, for chains whose every byte a test chooses.
//!
//! A [`BlockSpec`] is plain data; [`BlockSpec::build`] turns it into the wrapped block that nodes
//! exchange, with its hash and the ids of its transactions. Hashes, sizes and proofs are right; keys,
//! signatures, VRF and KES values are zeros of the right size. The ledger's rules are not checked, so
//! a test can also make blocks a node would refuse. A spec that the format of its era has no place
//! for panics.

mod address;
mod byron;
mod cbor;
mod damage;
mod genesis;
mod immutable;
mod shelley;
mod spec;
#[cfg(test)]
mod tests;

pub use address::{
    ByronKind, Credential, base, byron, enterprise, pointer, stake, with_trailing_bytes,
};
pub use damage::{claiming, flipped, nested_lists, truncated, with_era_tag};
pub use genesis::{DEVNET_EPOCH_SLOTS, DEVNET_START, fund_of, shelley_genesis};
pub use immutable::write_immutable;
pub use spec::{DatumSpec, Encoding, OutSpec, ScriptSpec, TxIn, TxSpec};

/// Slots of a Byron epoch on mainnet.
pub const BYRON_EPOCH_SLOTS: u64 = 21_600;

/// An era tag of a wrapped block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Era {
    /// Epoch boundary block: no transactions, and the number of the block before it.
    ByronBoundary,
    /// Main block of Byron.
    Byron,
    /// Shelley.
    Shelley,
    /// Allegra.
    Allegra,
    /// Mary: brings native assets.
    Mary,
    /// Alonzo: brings datum hashes, collateral and failing scripts.
    Alonzo,
    /// Babbage: brings inline datums, script references, collateral returns and reference inputs.
    Babbage,
    /// Conway: may tag sets.
    Conway,
}

impl Era {
    /// Every era, oldest first.
    pub const ALL: [Self; 8] = [
        Self::ByronBoundary,
        Self::Byron,
        Self::Shelley,
        Self::Allegra,
        Self::Mary,
        Self::Alonzo,
        Self::Babbage,
        Self::Conway,
    ];

    /// The first number of a wrapped block.
    pub fn tag(self) -> u8 {
        self as u8
    }
}

/// A block to be made.
#[derive(Debug, Clone)]
pub struct BlockSpec {
    /// Its era.
    pub era: Era,
    /// Its number; a boundary block repeats the number of the block before it.
    pub number: u64,
    /// Its slot since the start of the chain. Byron counts by [`BYRON_EPOCH_SLOTS`]; a boundary block
    /// sits on the first slot of an epoch.
    pub slot: u64,
    /// Hash of the block before it. `None` starts a chain: null from Shelley on, zeros in Byron.
    pub prev: Option<[u8; 32]>,
    /// Its transactions.
    pub txs: Vec<TxSpec>,
    /// How the block around the transactions is written; without effect in Byron.
    pub style: Encoding,
}

impl BlockSpec {
    /// Block 0 of a chain, in slot 0.
    pub fn first(era: Era, txs: Vec<TxSpec>) -> Self {
        Self { era, number: 0, slot: 0, prev: None, txs, style: Encoding::default() }
    }

    /// Makes the block. Equal specs give equal blocks.
    pub fn build(&self) -> Built {
        let (id_preimage, header, parts) = match self.era {
            Era::ByronBoundary => byron::boundary_block(self),
            Era::Byron => byron::main_block(self),
            _ => shelley::block(self),
        };
        let raw = cbor::array(&[cbor::uint(self.era.tag().into()), parts]);
        let prev = if self.era < Era::Shelley { Some(byron::prev(self)) } else { self.prev };
        let txids = self.txs.iter().map(|tx| tx.id(self.era)).collect();
        let (era, number, slot) = (self.era, self.number, self.slot);
        Built { era, raw, header, hash: blake256(&id_preimage), prev, number, slot, txids }
    }
}

/// A block and what a decoder should say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its era.
    pub era: Era,
    /// The wrapped block.
    pub raw: Vec<u8>,
    /// The bytes of its header, as they stand in the block.
    pub header: Vec<u8>,
    /// Its hash.
    pub hash: [u8; 32],
    /// The hash it names as its parent; `None` when it is null.
    pub prev: Option<[u8; 32]>,
    /// Its number.
    pub number: u64,
    /// Its slot since the start of the chain.
    pub slot: u64,
    /// Ids of its transactions.
    pub txids: Vec<[u8; 32]>,
}

impl Built {
    /// A block on top of this one. A boundary block starts the next Byron epoch; any other block
    /// takes the next slot, or the same one right after a boundary block.
    pub fn next(&self, era: Era, txs: Vec<TxSpec>) -> BlockSpec {
        let (number, slot) = match (self.era, era) {
            (_, Era::ByronBoundary) => {
                (self.number, (self.slot / BYRON_EPOCH_SLOTS + 1) * BYRON_EPOCH_SLOTS)
            }
            (Era::ByronBoundary, _) => (self.number + 1, self.slot),
            _ => (self.number + 1, self.slot + 1),
        };
        let style = Encoding::default();
        BlockSpec { era, number, slot, prev: Some(self.hash), txs, style }
    }

    /// Names one of the outputs.
    pub fn output(&self, tx: usize, index: u64) -> TxIn {
        (self.txids[tx], index)
    }
}

fn blake256(bytes: &[u8]) -> [u8; 32] {
    blake(bytes)
}

fn blake<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let hash = blake2b_simd::Params::new().hash_length(N).hash(bytes);
    hash.as_bytes().try_into().expect("the length was asked for")
}
