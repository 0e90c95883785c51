//! A decoded block, in the one form all chains share.
//!
//! Blocks are flat: four vectors and the bytes the addresses live in, so that decoding a block
//! costs a handful of allocations however many transactions it has. Provably unspendable outputs
//! are left out by the decoder; indexes of the others keep their gaps.

use std::ops::Range;

use crate::types::{BlockHash, ChainWork, OutPoint, Txid};

/// What a chain of headers needs to know of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Hash of its parent; zeros for the first block.
    pub prev: BlockHash,
    /// Seconds since the epoch, as the block says.
    pub time: u64,
    /// Work this block adds to its chain.
    pub work: ChainWork,
}

/// A new output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Position among all outputs of its transaction.
    pub index: u32,
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Where the address (on Bitcoin the output script) lies in [`Block::bytes`].
    pub address: Range<u32>,
}

/// A transaction: ranges into the vectors of its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    /// Transaction id.
    pub txid: Txid,
    /// Creates new coins and has no inputs.
    pub is_coinbase: bool,
    /// Sum of all outputs, unspendable ones included.
    pub output_total: u64,
    /// Range in [`Block::inputs`].
    pub inputs: Range<u32>,
    /// Range in [`Block::outputs`].
    pub outputs: Range<u32>,
}

/// A decoded block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its header.
    pub header: Header,
    /// The height its coinbase claims, on chains where coinbases carry it.
    pub claimed_height: Option<u32>,
    /// Transactions in block order.
    pub txs: Vec<Tx>,
    /// Inputs of all transactions, in block order; coinbases have none.
    pub inputs: Vec<OutPoint>,
    /// Spendable outputs of all transactions, in block order.
    pub outputs: Vec<Output>,
    /// The bytes the addresses point into.
    pub bytes: Vec<u8>,
}

impl Block {
    /// Inputs of one transaction.
    #[must_use]
    pub fn inputs_of(&self, tx: &Tx) -> &[OutPoint] {
        &self.inputs[to_usize(&tx.inputs)]
    }

    /// Spendable outputs of one transaction.
    #[must_use]
    pub fn outputs_of(&self, tx: &Tx) -> &[Output] {
        &self.outputs[to_usize(&tx.outputs)]
    }

    /// Address bytes of one output.
    #[must_use]
    pub fn address_of(&self, output: &Output) -> &[u8] {
        &self.bytes[to_usize(&output.address)]
    }
}

fn to_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
