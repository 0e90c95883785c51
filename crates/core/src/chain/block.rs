//! A decoded block, in the one form all chains share.
//!
//! Blocks are flat: four vectors and the bytes the addresses live in, so that decoding a block
//! costs a handful of allocations however many transactions it has. Provably unspendable outputs
//! are left out by the decoder; indexes of the others keep their gaps.

use std::ops::Range;

use super::{bitcoin::BitcoinFacts, details::Details, sigops::spending_sigop_cost};
use crate::types::{BlockHash, ChainWork, OutPoint, Txid};

/// Where a block lies in time, on chains that count slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotInfo {
    /// Slot of the block, counted from the start of the chain.
    pub slot: u64,
    /// Epoch of that slot.
    pub epoch: u32,
    /// Era the block is encoded in.
    pub era: u8,
}

/// What a chain of headers needs to know of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Hash of its parent; zeros for the first block.
    pub prev: BlockHash,
    /// Seconds since the epoch, as the block says.
    pub time: u64,
    /// Work this block adds to its chain; one where the longest chain wins.
    pub work: ChainWork,
    /// Its slot, on chains that have slots.
    pub slot: Option<SlotInfo>,
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
    /// Where its details lie in [`Block::bytes`].
    pub details: Range<u32>,
    /// How many fields the details have.
    pub detail_fields: u8,
}

/// A transaction: ranges into the vectors of its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    /// Transaction id.
    pub txid: Txid,
    /// Creates new coins and has no inputs.
    pub is_coinbase: bool,
    /// Failed its scripts: it spends its collateral, and creates at most what is given back of it.
    pub is_invalid: bool,
    /// Not a transaction but a rule of the ledger: the outputs of the genesis files, or the removal
    /// of outputs where an era begins.
    pub is_ledger_rule: bool,
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
    /// The height it claims, on chains where blocks or their coinbases carry it.
    pub claimed_height: Option<u32>,
    /// A block that only marks the start of an epoch: it changes nothing and takes no height.
    pub is_boundary: bool,
    /// Transactions in block order.
    pub txs: Vec<Tx>,
    /// Inputs of all transactions, in block order; coinbases have none.
    pub inputs: Vec<OutPoint>,
    /// Spendable outputs of all transactions, in block order.
    pub outputs: Vec<Output>,
    /// The bytes the addresses point into.
    pub bytes: Vec<u8>,
    /// What the rules of Bitcoin look at besides.
    pub bitcoin: Option<BitcoinFacts>,
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

    /// The memory that a decoded block takes, in bytes, without what an allocator adds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.txs)
            + size_of_val(&*self.inputs)
            + size_of_val(&*self.outputs)
            + self.bytes.len()
    }

    /// How many transactions it has, rules of the ledger not counted.
    #[must_use]
    pub fn tx_count(&self) -> usize {
        self.txs.iter().filter(|tx| !tx.is_ledger_rule).count()
    }

    /// Details of one output.
    #[must_use]
    pub fn details_of(&self, output: &Output) -> Details<'_> {
        Details { bytes: &self.bytes[to_usize(&output.details)], fields: output.detail_fields }
    }

    /// Cost of the signature operations that input number `input` adds by spending an output with the
    /// script `spent`: those behind a hash and in its witness.
    #[must_use]
    pub fn spending_sigop_cost(&self, input: usize, spent: &[u8]) -> u32 {
        let unlock = self.bitcoin.as_ref().and_then(|facts| facts.unlocks.get(input));
        unlock.map_or(0, |unlock| {
            let (script, witness) = (to_usize(&unlock.script), to_usize(&unlock.last_witness));
            spending_sigop_cost(spent, &self.bytes[script], &self.bytes[witness])
        })
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
