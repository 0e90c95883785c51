//! Headers of every era.

use minicbor::{Decoder, data::Type, decode::Error};
use utxokeep_core::{BlockHash, ChainWork, Header, SlotInfo, cardano::era};

use super::{
    CardanoDecodeError, Genesis,
    cbor::{each, fixed, raw_item, record},
    hash::blake2b_256,
    wrapper::{Wrapped, malformed},
};

/// First era whose headers have one VRF value instead of two.
const BABBAGE: u8 = 6;

/// What a chain of headers needs to know of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderInfo {
    /// Hash, parent, time and slot, in the words of every chain.
    pub header: Header,
    /// Its number. A boundary block has that of the block before it.
    pub number: u32,
    /// Whether it only marks the start of an epoch, and takes no height. The first block of a chain
    /// never does: it carries the outputs of the genesis.
    pub is_boundary: bool,
}

/// Decodes the header of a wrapped block. The block behind the header is not looked at.
pub fn decode_header(raw: &[u8], genesis: &Genesis) -> Result<HeaderInfo, CardanoDecodeError> {
    let wrapped = Wrapped::read(raw)?;
    let mut d = wrapped.decoder();
    let header = d.array().and_then(|_| raw_item(&mut d));
    let header = header.map_err(|error| malformed(wrapped.era, raw.len(), &error))?;
    decode_bare_header(wrapped.era, header, genesis)
}

/// Decodes a header that stands alone, as nodes send it to each other; `era` is the number that
/// would be in front of its block.
pub fn decode_bare_header(
    era: u8,
    header: &[u8],
    genesis: &Genesis,
) -> Result<HeaderInfo, CardanoDecodeError> {
    if era > era::LAST {
        return Err(CardanoDecodeError::UnknownEra { tag: era.into() });
    }
    let (info, _) =
        read_header(era, header, genesis).map_err(|error| malformed(era, header.len(), &error))?;
    Ok(info)
}

/// What a header says about the rest of its block.
pub(super) enum Commitment<'b> {
    /// Hash of the body of a boundary block.
    Boundary(&'b [u8; 32]),
    /// Number of transactions and the root of their Merkle tree.
    Byron { count: u64, root: &'b [u8; 32] },
    /// Length of all segments behind the header, and the hash over their hashes.
    Segments { len: u64, hash: &'b [u8; 32] },
}

/// Reads a header and what it commits to.
pub(super) fn read_header<'b>(
    era: u8,
    header: &'b [u8],
    genesis: &Genesis,
) -> Result<(HeaderInfo, Commitment<'b>), Error> {
    let mut d = Decoder::new(header);
    let (fields, commitment) = match era {
        era::BYRON_BOUNDARY => read_boundary(&mut d, genesis)?,
        era::BYRON => read_byron(&mut d, genesis)?,
        _ => read_shelley(&mut d, era)?,
    };
    super::cbor::at_end(&d)?;
    let hash = match era {
        era::BYRON_BOUNDARY | era::BYRON => blake2b_256(&[&[0x82, era], header]),
        _ => blake2b_256(&[header]),
    };
    let prev = fields.prev.map_or(genesis.hash(), |hash| BlockHash::from_bytes(*hash));
    let (epoch, time) = genesis.epoch_and_time(fields.slot);
    let mut one = [0; 32];
    one[31] = 1;
    let header = Header {
        hash: BlockHash::from_bytes(hash),
        prev,
        time,
        work: ChainWork::from_be_bytes(one),
        slot: Some(SlotInfo { slot: fields.slot, epoch, era }),
    };
    let number = u32::try_from(fields.number)
        .map_err(|_| Error::message(format!("block number {} is too large", fields.number)))?;
    let is_boundary = era == era::BYRON_BOUNDARY && prev != genesis.hash();
    Ok((HeaderInfo { header, number, is_boundary }, commitment))
}

struct Fields<'b> {
    number: u64,
    slot: u64,
    prev: Option<&'b [u8; 32]>,
}

fn read_boundary<'b>(
    d: &mut Decoder<'b>,
    genesis: &Genesis,
) -> Result<(Fields<'b>, Commitment<'b>), Error> {
    let header = record(d, 5)?;
    d.skip()?;
    let prev = fixed(d)?;
    let body_hash = fixed(d)?;
    let consensus = record(d, 2)?;
    let slot = genesis.byron_slot(d.u64()?, 0);
    let number = read_difficulty(d)?;
    consensus.finish(d)?;
    d.skip()?;
    header.finish(d)?;
    Ok((Fields { number, slot, prev: Some(prev) }, Commitment::Boundary(body_hash)))
}

fn read_byron<'b>(
    d: &mut Decoder<'b>,
    genesis: &Genesis,
) -> Result<(Fields<'b>, Commitment<'b>), Error> {
    let header = record(d, 5)?;
    d.skip()?;
    let prev = fixed(d)?;
    let proof = record(d, 4)?;
    let of_txs = record(d, 3)?;
    let (count, root) = (d.u64()?, fixed(d)?);
    d.skip()?;
    of_txs.finish(d)?;
    for _ in 0..3 {
        d.skip()?;
    }
    proof.finish(d)?;
    let consensus = record(d, 4)?;
    let place = record(d, 2)?;
    let slot = genesis.byron_slot(d.u64()?, d.u64()?);
    place.finish(d)?;
    d.skip()?;
    let number = read_difficulty(d)?;
    d.skip()?;
    consensus.finish(d)?;
    d.skip()?;
    header.finish(d)?;
    Ok((Fields { number, slot, prev: Some(prev) }, Commitment::Byron { count, root }))
}

/// Byron writes the number of a block as an array of one.
fn read_difficulty(d: &mut Decoder<'_>) -> Result<u64, Error> {
    let mut number = None;
    let count = each(d, |d| {
        number = Some(d.u64()?);
        Ok(())
    })?;
    number.filter(|_| count == 1).ok_or_else(|| Error::message("expected one block number"))
}

fn read_shelley<'b>(d: &mut Decoder<'b>, era: u8) -> Result<(Fields<'b>, Commitment<'b>), Error> {
    let header = record(d, 2)?;
    // Proofs and certificates around the fields in the middle are the node's business.
    let (all, before, after) = if era < BABBAGE { (15, 4, 6) } else { (10, 3, 2) };
    let body = record(d, all)?;
    let (number, slot) = (d.u64()?, d.u64()?);
    let prev = match d.datatype()? {
        Type::Null => {
            d.null()?;
            None
        }
        _ => Some(fixed(d)?),
    };
    for _ in 0..before {
        d.skip()?;
    }
    let (len, hash) = (d.u64()?, fixed(d)?);
    for _ in 0..after {
        d.skip()?;
    }
    body.finish(d)?;
    d.skip()?;
    header.finish(d)?;
    Ok((Fields { number, slot, prev }, Commitment::Segments { len, hash }))
}
