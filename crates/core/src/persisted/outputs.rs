//! Files of what a block did to the set: outputs that its transactions created and spent.
//!
//! They say what the transactions did. Two things that a ledger does by itself are not in them: an
//! output that a repeated coinbase replaces (two blocks of Bitcoin's main network), and outputs that
//! Cardano's ledger removes where an era begins. Outputs of a Cardano genesis are in the additions of
//! the first block.

use minicbor::{Decoder, Encoder};

use super::{
    FileKind, envelope,
    subtree::{block_hash, expect_len},
};
use crate::{
    chain::{
        block::Block,
        details::Details,
        record::{Corrupt, INFALLIBLE, array_len, end, txid},
    },
    types::{BlockHash, Height, OutPoint},
};

type Written = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// An output that a block created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition<'b> {
    /// Which output.
    pub outpoint: OutPoint,
    /// A coinbase created it.
    pub is_coinbase: bool,
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Address bytes; on Bitcoin the output script.
    pub address: &'b [u8],
    /// Assets, datum and script.
    pub details: Details<'b>,
}

/// The outputs that a block created, in block order. Those that nobody can spend are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Additions<'b> {
    /// The block.
    pub block: BlockHash,
    /// Its height.
    pub height: Height,
    /// The outputs.
    pub outputs: Vec<Addition<'b>>,
}

impl<'b> Additions<'b> {
    /// Of a decoded block.
    #[must_use]
    pub fn of(block: &'b Block, height: Height) -> Self {
        let outputs = block.txs.iter().flat_map(|tx| {
            block.outputs_of(tx).iter().map(|output| Addition {
                outpoint: OutPoint::new(tx.txid, output.index),
                is_coinbase: tx.is_coinbase,
                value: output.value,
                address: block.address_of(output),
                details: block.details_of(output),
            })
        });
        Self { block: block.header.hash, height, outputs: outputs.collect() }
    }

    /// The file: `[block, height, [[txid, is coinbase, [[index, value, address], …]], …]]`. An output
    /// with details has two more fields: how many, and their pairs of number and value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        envelope::wrap(FileKind::Additions, 48 + self.outputs.len() * 60, |out| {
            let mut e = Encoder::new(out);
            let mut write = || -> Written {
                e.array(3)?.bytes(self.block.as_bytes())?.u32(self.height.get())?;
                let runs: Vec<&[Addition<'_>]> = self
                    .outputs
                    .chunk_by(|a, b| {
                        a.outpoint.txid() == b.outpoint.txid() && a.is_coinbase == b.is_coinbase
                    })
                    .collect();
                e.array(runs.len() as u64)?;
                for run in runs {
                    let first = &run[0];
                    e.array(3)?.bytes(first.outpoint.txid().as_bytes())?.bool(first.is_coinbase)?;
                    e.array(run.len() as u64)?;
                    for output in run {
                        let has_details = output.details.fields > 0;
                        e.array(if has_details { 5 } else { 3 })?;
                        e.u32(output.outpoint.index())?.u64(output.value)?.bytes(output.address)?;
                        if has_details {
                            e.u8(output.details.fields)?.bytes(output.details.bytes)?;
                        }
                    }
                }
                Ok(())
            };
            write().expect(INFALLIBLE);
        })
    }

    /// Inverse of [`Additions::encode`].
    pub fn decode(file: &'b [u8]) -> Result<Self, Corrupt> {
        const KIND: FileKind = FileKind::Additions;
        let what = KIND.what();
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        expect_len(&mut d, 3, what)?;
        let block = block_hash(&mut d, what)?;
        let height = Height::new(d.u32().map_err(corrupt)?);
        let mut outputs = Vec::new();
        for _ in 0..array_len(&mut d, what)? {
            expect_len(&mut d, 3, what)?;
            let txid = txid(&mut d, what)?;
            let is_coinbase = d.bool().map_err(corrupt)?;
            for _ in 0..array_len(&mut d, what)? {
                let fields = array_len(&mut d, what)?;
                let outpoint = OutPoint::new(txid, d.u32().map_err(corrupt)?);
                let value = d.u64().map_err(corrupt)?;
                let address = d.bytes().map_err(corrupt)?;
                let details = match fields {
                    3 => Details::default(),
                    5 => {
                        let fields = d.u8().map_err(corrupt)?;
                        Details { fields, bytes: d.bytes().map_err(corrupt)? }
                    }
                    other => {
                        return Err(Corrupt::new(what, format!("an output of {other} fields")));
                    }
                };
                outputs.push(Addition { outpoint, is_coinbase, value, address, details });
            }
        }
        end(&d, body, what)?;
        Ok(Self { block, height, outputs })
    }
}

/// The outputs that a block spent, in block order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletions {
    /// The block.
    pub block: BlockHash,
    /// Its height.
    pub height: Height,
    /// The outputs.
    pub outputs: Vec<OutPoint>,
}

impl Deletions {
    /// Of a decoded block.
    #[must_use]
    pub fn of(block: &Block, height: Height) -> Self {
        Self { block: block.header.hash, height, outputs: block.inputs.clone() }
    }

    /// The file: `[block, height, outpoints as one string]`, 36 bytes each.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = self.outputs.len() * OutPoint::KEY_LEN;
        envelope::wrap(FileKind::Deletions, 48 + len, |out| {
            let mut keys = Vec::with_capacity(len);
            for outpoint in &self.outputs {
                keys.extend(outpoint.to_key());
            }
            let mut e = Encoder::new(out);
            let mut write = || -> Written {
                e.array(3)?.bytes(self.block.as_bytes())?.u32(self.height.get())?.bytes(&keys)?;
                Ok(())
            };
            write().expect(INFALLIBLE);
        })
    }

    /// Inverse of [`Deletions::encode`].
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        const KIND: FileKind = FileKind::Deletions;
        let what = KIND.what();
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        expect_len(&mut d, 3, what)?;
        let block = block_hash(&mut d, what)?;
        let height = Height::new(d.u32().map_err(corrupt)?);
        let keys = d.bytes().map_err(corrupt)?.chunks(OutPoint::KEY_LEN).map(OutPoint::from_key);
        let short = || Corrupt::new(what, "an outpoint is not 36 bytes long");
        let outputs = keys.collect::<Option<_>>().ok_or_else(short)?;
        end(&d, body, what)?;
        Ok(Self { block, height, outputs })
    }
}
