//! The vectors of a block while its transactions are read.

use std::{collections::BTreeSet, ops::Range};

use minicbor::{Decoder, decode::Error};
use utxokeep_core::{OutPoint, Output, ParsedDetails, ScriptRef, Tx, Txid};

use super::{
    cbor::{each, each_entry, each_of_set, fixed, raw_item, record},
    hash::blake2b_256,
    output::{RawOutput, read_output},
};

/// Inputs up to this many are compared one by one to find repeats.
const FEW_INPUTS: usize = 32;

const INPUTS: u64 = 0;
const OUTPUTS: u64 = 1;
const COLLATERAL: u64 = 13;
const COLLATERAL_RETURN: u64 = 16;

/// Whether the scripts of a transaction succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// They did, or there are none: it spends its inputs and creates its outputs.
    Valid,
    /// They failed: it spends its collateral and creates nothing.
    Invalid,
    /// They failed, in an era that gives back what the collateral is too much.
    InvalidWithReturn,
}

/// What becomes the vectors of a block.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) txs: Vec<Tx>,
    pub(super) inputs: Vec<OutPoint>,
    pub(super) outputs: Vec<Output>,
    pub(super) bytes: Vec<u8>,
}

impl Parts {
    /// Adds a transaction from Shelley on, given its body.
    pub(super) fn add_tx(&mut self, body: &[u8], outcome: Outcome) -> Result<(), Error> {
        let start = self.start();
        let mut d = Decoder::new(body);
        let mut output_total = 0u64;
        let mut output_count = None;
        let mut returned = None;
        let mut seen = 0u32;
        each_entry(&mut d, |d| {
            let key_at = d.position();
            let key = d.u64()?;
            // Fields out of this range are for nobody yet; repeats of the others are malformed.
            let bit = u32::try_from(key).ok().and_then(|key| 1u32.checked_shl(key)).unwrap_or(0);
            if seen & bit != 0 {
                return Err(Error::message(format!("field {key} twice")).at(key_at));
            }
            seen |= bit;
            match (key, outcome) {
                (INPUTS, Outcome::Valid) => self.read_inputs(d)?,
                (COLLATERAL, Outcome::Invalid | Outcome::InvalidWithReturn) => {
                    self.read_inputs(d)?;
                }
                (OUTPUTS, Outcome::Valid) => {
                    let mut index = 0;
                    output_count = Some(each(d, |d| {
                        output_total =
                            output_total.saturating_add(self.read_output(d, index, false)?);
                        index += 1;
                        Ok(())
                    })?);
                }
                (OUTPUTS, _) => output_count = Some(each(d, Decoder::skip)?),
                (COLLATERAL_RETURN, Outcome::InvalidWithReturn) => returned = Some(raw_item(d)?),
                _ => d.skip()?,
            }
            Ok(())
        })?;
        super::cbor::at_end(&d)?;
        let (1, Some(output_count)) = (seen & 1, output_count) else {
            return Err(Error::message("transaction without inputs or outputs"));
        };
        if let Some(returned) = returned {
            let index = u32::try_from(output_count.min(u16::MAX.into())).unwrap_or(u32::MAX);
            output_total = self.read_output(&mut Decoder::new(returned), index, true)?;
        }
        let txid = Txid::from_bytes(blake2b_256(&[body]));
        self.finish(&start, txid, output_total, outcome != Outcome::Valid, false);
        Ok(())
    }

    /// Adds a transaction of Byron, given its bytes without witnesses.
    pub(super) fn add_byron_tx(&mut self, raw: &[u8]) -> Result<(), Error> {
        let start = self.start();
        let mut d = Decoder::new(raw);
        let tx = record(&mut d, 3)?;
        each(&mut d, |d| {
            let input = record(d, 2)?;
            let kind_at = d.position();
            let kind = d.u8()?;
            if kind != 0 {
                let message = format!("input of unknown kind {kind}");
                return Err(Error::message(message).at(kind_at));
            }
            let embedded = super::cbor::embedded(d)?;
            let outpoint = read_outpoint(&mut Decoder::new(embedded))
                .map_err(|error| Error::message(format!("input: {error}")).at(kind_at))?;
            self.inputs.push(outpoint);
            input.finish(d)
        })?;
        let (mut index, mut output_total) = (0, 0u64);
        each(&mut d, |d| {
            let output = record(d, 2)?;
            let address = raw_item(d)?;
            let value = d.u64()?;
            output.finish(d)?;
            output_total = output_total.saturating_add(value);
            let address = self.push_bytes(address)?;
            self.outputs.push(Output { index, value, address, details: 0..0, detail_fields: 0 });
            index += 1;
            Ok(())
        })?;
        d.skip()?;
        tx.finish(&mut d)?;
        super::cbor::at_end(&d)?;
        self.drop_repeats(start.0);
        let txid = Txid::from_bytes(blake2b_256(&[raw]));
        self.finish(&start, txid, output_total, false, false);
        Ok(())
    }

    /// Adds an output that no transaction made, under a transaction id of its own.
    pub(super) fn add_rule(&mut self, txid: Txid, address: &[u8], value: u64) -> Result<(), Error> {
        let start = self.start();
        let address = self.push_bytes(address)?;
        self.outputs.push(Output { index: 0, value, address, details: 0..0, detail_fields: 0 });
        self.finish(&start, txid, value, false, true);
        Ok(())
    }

    fn start(&self) -> (usize, usize) {
        (self.inputs.len(), self.outputs.len())
    }

    fn finish(
        &mut self,
        start: &(usize, usize),
        txid: Txid,
        output_total: u64,
        is_invalid: bool,
        is_ledger_rule: bool,
    ) {
        self.txs.push(Tx {
            txid,
            is_coinbase: false,
            is_invalid,
            is_ledger_rule,
            output_total,
            inputs: small(start.0)..small(self.inputs.len()),
            outputs: small(start.1)..small(self.outputs.len()),
        });
    }

    fn read_inputs(&mut self, d: &mut Decoder<'_>) -> Result<(), Error> {
        let start = self.inputs.len();
        each_of_set(d, |d| {
            self.inputs.push(read_outpoint(d)?);
            Ok(())
        })?;
        self.drop_repeats(start);
        Ok(())
    }

    /// Inputs are a set: of those after `start`, the first of equals stays.
    fn drop_repeats(&mut self, start: usize) {
        let added = &self.inputs[start..];
        if added.len() <= FEW_INPUTS {
            let repeats = (1..added.len()).any(|at| added[..at].contains(&added[at]));
            if !repeats {
                return;
            }
        }
        let mut known = BTreeSet::new();
        let mut kept = self.inputs.split_off(start);
        kept.retain(|outpoint| known.insert(*outpoint));
        self.inputs.append(&mut kept);
    }

    /// Reads and adds one output; answers its amount.
    fn read_output(
        &mut self,
        d: &mut Decoder<'_>,
        index: u32,
        is_collateral_return: bool,
    ) -> Result<u64, Error> {
        let raw = read_output(d)?;
        let address = self.push_bytes(raw.address)?;
        let script = raw.script.as_ref().map(|(bytes, hash)| ScriptRef { bytes, hash });
        let RawOutput { assets, datum, value, .. } = raw;
        let details = ParsedDetails { assets, datum, script, is_collateral_return };
        let from = self.bytes.len();
        let detail_fields = details.encode_into(&mut self.bytes);
        let details = range(from, self.bytes.len())?;
        self.outputs.push(Output { index, value, address, details, detail_fields });
        Ok(value)
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<Range<u32>, Error> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        range(from, self.bytes.len())
    }
}

fn read_outpoint(d: &mut Decoder<'_>) -> Result<OutPoint, Error> {
    let input = record(d, 2)?;
    let txid = Txid::from_bytes(*fixed(d)?);
    let index = d.u32()?;
    input.finish(d)?;
    Ok(OutPoint::new(txid, index))
}

fn range(from: usize, to: usize) -> Result<Range<u32>, Error> {
    let offset = |at: usize| {
        u32::try_from(at).map_err(|_| Error::message("block that unfolds to more than 4 GB"))
    };
    Ok(offset(from)?..offset(to)?)
}

fn small(count: usize) -> u32 {
    u32::try_from(count).expect("every item takes bytes of a block, which is below its limit")
}
