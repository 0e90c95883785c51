//! Raw blocks of every era to [`Block`].
//!
//! # Invariants
//!
//! * A decoded block is what its header commits to: Byron's transactions match the Merkle root, and
//!   from Shelley on all bytes behind the header match its hash and its length. Signatures, scripts
//!   and the ledger's rules are not verified; that is the node's business.
//! * Ids are hashes of the bytes on chain; nothing is encoded anew to be hashed.
//! * Only what changes the set is read. The rest is skipped without a copy.

use minicbor::{Decoder, decode::Error};
use utxokeep_core::{
    Block, Details, OutPoint, Output, Tx,
    cardano::{EraRemoval, era},
};

use super::{
    CardanoDecodeError, Genesis, MAX_BLOCK_BYTES,
    cbor::{at_end, each, each_of_set, raw_item, record},
    hash::{blake2b_256, merkle_root},
    header::{Commitment, read_header},
    parts::{Outcome, Parts},
    wrapper::{Wrapped, malformed},
};

/// First era with scripts that can fail.
const ALONZO: u8 = 5;
/// First era that gives back what a collateral is too much.
const BABBAGE: u8 = 6;

/// Decodes a wrapped block, as nodes send and store it.
///
/// The first block of a chain starts with the outputs of the genesis, each a transaction of its
/// own, without those that the ledger drops before the era the chain starts in.
pub fn decode_block(raw: &[u8], genesis: &Genesis) -> Result<Block, CardanoDecodeError> {
    let wrapped = Wrapped::read(raw)?;
    if wrapped.era == era::BYRON && genesis.slot_start_of_shelley() == 0 {
        return Err(CardanoDecodeError::NoByron);
    }
    let mut d = wrapped.decoder();
    let block = read_block(&mut d, wrapped.era, genesis)
        .map_err(|error| malformed(wrapped.era, raw.len(), &error))?;
    match raw.len() - d.position() {
        0 => Ok(block),
        extra => Err(CardanoDecodeError::TrailingBytes { extra }),
    }
}

fn read_block(d: &mut Decoder<'_>, era: u8, genesis: &Genesis) -> Result<Block, Error> {
    let segments = match era {
        era::BYRON_BOUNDARY | era::BYRON => 3,
        era if era < ALONZO => 4,
        _ => 5,
    };
    let block = record(d, segments)?;
    let (info, commitment) = read_header(era, raw_item(d)?, genesis)?;
    let mut parts = Parts::default();
    if info.header.prev == genesis.hash() {
        add_genesis(&mut parts, era, genesis)?;
    }
    match commitment {
        Commitment::Boundary(hash) => {
            let body = raw_item(d)?;
            if blake2b_256(&[body]) != *hash {
                return Err(Error::message("the body is not the one its header names"));
            }
            d.skip()?;
        }
        Commitment::Byron { count, root } => {
            read_byron_body(d, &mut parts, count, root)?;
            d.skip()?;
        }
        Commitment::Segments { len, hash } => read_segments(d, &mut parts, era, len, hash)?,
    }
    block.finish(d)?;
    let Parts { txs, inputs, outputs, bytes } = parts;
    Ok(Block {
        header: info.header,
        claimed_height: Some(info.number),
        is_boundary: info.is_boundary,
        txs,
        inputs,
        outputs,
        bytes,
        bitcoin: None,
    })
}

fn add_genesis(parts: &mut Parts, era: u8, genesis: &Genesis) -> Result<(), Error> {
    let removal = EraRemoval::between(era::BYRON, era);
    for output in genesis.outputs() {
        if !removal.is_some_and(|removal| removal.takes(output.value, &output.address, true)) {
            parts.add_rule(output.txid, &output.address, output.value)?;
        }
    }
    Ok(())
}

fn read_byron_body(
    d: &mut Decoder<'_>,
    parts: &mut Parts,
    count: u64,
    root: &[u8; 32],
) -> Result<(), Error> {
    let body = record(d, 4)?;
    let mut txs = Vec::new();
    each(d, |d| {
        let with_witnesses = record(d, 2)?;
        txs.push(raw_item(d)?);
        d.skip()?;
        with_witnesses.finish(d)
    })?;
    if txs.len() as u64 != count || merkle_root(&txs) != *root {
        return Err(Error::message("the transactions are not those its header names"));
    }
    for tx in txs {
        parts.add_byron_tx(tx)?;
    }
    // Delegation, updates and shared seeds do not touch the set.
    for _ in 0..3 {
        d.skip()?;
    }
    body.finish(d)
}

/// Reads bodies, witnesses, metadata and, from Alonzo on, which transactions failed.
fn read_segments(
    d: &mut Decoder<'_>,
    parts: &mut Parts,
    era: u8,
    len: u64,
    hash: &[u8; 32],
) -> Result<(), Error> {
    let start = d.position();
    let segments = if era < ALONZO { 3 } else { 4 };
    let mut hashes = [0; 4 * 32];
    let mut raw = [&[][..]; 4];
    for (segment, slot) in raw[..segments].iter_mut().zip(hashes.chunks_exact_mut(32)) {
        *segment = raw_item(d)?;
        slot.copy_from_slice(&blake2b_256(&[segment]));
    }
    if (d.position() - start) as u64 != len {
        return Err(Error::message("the body is not as long as its header says"));
    }
    if blake2b_256(&[&hashes[..segments * 32]]) != *hash {
        return Err(Error::message("the body is not the one its header names"));
    }
    let [bodies, witnesses, _, failed] = raw;
    let mut txs = Vec::new();
    each(&mut Decoder::new(bodies), |d| {
        txs.push((raw_item(d)?, Outcome::Valid));
        Ok(())
    })?;
    if each(&mut Decoder::new(witnesses), Decoder::skip)? != txs.len() as u64 {
        return Err(Error::message("transactions and their witnesses differ in number"));
    }
    if era >= ALONZO {
        each_of_set(&mut Decoder::new(failed), |d| {
            let index = d.u64()?;
            let tx = usize::try_from(index).ok().and_then(|index| txs.get_mut(index));
            let (_, outcome) = tx.ok_or_else(|| {
                Error::message(format!("transaction {index} failed, but there is none such"))
            })?;
            *outcome = failure_in(era);
            Ok(())
        })?;
    }
    for (body, outcome) in txs {
        parts.add_tx(body, outcome)?;
    }
    Ok(())
}

fn failure_in(era: u8) -> Outcome {
    if era < BABBAGE { Outcome::Invalid } else { Outcome::InvalidWithReturn }
}

/// What one transaction does to the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedTx {
    /// The transaction; its ranges are those of the vectors here.
    pub tx: Tx,
    /// What it spends.
    pub inputs: Vec<OutPoint>,
    /// What it creates.
    pub outputs: Vec<Output>,
    bytes: Vec<u8>,
}

impl DecodedTx {
    /// Address bytes of one of its outputs.
    #[must_use]
    pub fn address_of(&self, output: &Output) -> &[u8] {
        &self.bytes[output.address.start as usize..output.address.end as usize]
    }

    /// Details of one of its outputs.
    #[must_use]
    pub fn details_of(&self, output: &Output) -> Details<'_> {
        let bytes = &self.bytes[output.details.start as usize..output.details.end as usize];
        Details { bytes, fields: output.detail_fields }
    }
}

/// Decodes a transaction that is in no block, as wallets hand it in: body, witnesses, from Alonzo on
/// whether its scripts succeed, and metadata; in Byron, transaction and witnesses.
pub fn decode_tx(raw: &[u8], era: u8) -> Result<DecodedTx, CardanoDecodeError> {
    if raw.len() > MAX_BLOCK_BYTES {
        return Err(CardanoDecodeError::TooLarge { len: raw.len() });
    }
    if era > era::LAST {
        return Err(CardanoDecodeError::UnknownEra { tag: era.into() });
    }
    read_tx(raw, era).map_err(|error| malformed(era, raw.len(), &error))
}

fn read_tx(raw: &[u8], era: u8) -> Result<DecodedTx, Error> {
    let mut d = Decoder::new(raw);
    let mut parts = Parts::default();
    if era <= era::BYRON {
        let with_witnesses = record(&mut d, 2)?;
        parts.add_byron_tx(raw_item(&mut d)?)?;
        d.skip()?;
        with_witnesses.finish(&mut d)?;
    } else {
        let with_witnesses = record(&mut d, if era < ALONZO { 3 } else { 4 })?;
        let body = raw_item(&mut d)?;
        d.skip()?;
        let is_valid = era < ALONZO || d.bool()?;
        d.skip()?;
        with_witnesses.finish(&mut d)?;
        parts.add_tx(body, if is_valid { Outcome::Valid } else { failure_in(era) })?;
    }
    at_end(&d)?;
    let Parts { mut txs, inputs, outputs, bytes } = parts;
    let tx = txs.pop().ok_or_else(|| Error::message("no transaction"))?;
    Ok(DecodedTx { tx, inputs, outputs, bytes })
}
