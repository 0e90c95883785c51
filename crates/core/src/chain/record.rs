//! What is stored of an output, live or spent.
//!
//! Values are canonical CBOR maps: integer keys in ascending order, definite lengths, shortest
//! integers, absent fields absent. Numbers 0 to 15 are those of Yaci's records; numbers from 16 on are
//! ours. A number is never reused.
//!
//! A Bitcoin record leaves out slot, block hash, epoch and time: the block log has them under the
//! record's height, and 40 bytes per live output are worth one look-up when an answer is printed.
//! A Cardano record has every field that Yaci's has; the credentials repeat what the address says.

use minicbor::{Decoder, Encoder, data::Type};

use super::{
    cardano,
    details::{self, Details},
};
use crate::types::{BlockHash, Height, Txid};

/// Bytes on disk that do not decode: the database is damaged or was written by something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what}: {detail}")]
pub struct Corrupt {
    /// What was being read.
    pub what: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

impl Corrupt {
    /// A complaint about `what`.
    #[allow(clippy::needless_pass_by_value)] // errors are moved in and printed
    pub fn new(what: &'static str, detail: impl ToString) -> Self {
        Self { what, detail: detail.to_string() }
    }

    /// A field of a number that this program does not know.
    pub(crate) fn unknown_field(what: &'static str, number: u32) -> Self {
        let detail = format!(
            "field {number} is not known to this program: a newer one wrote it, or it is damaged"
        );
        Self { what, detail }
    }
}

/// The block that did something, as a record repeats it on chains with slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStamp {
    /// Slot of the block.
    pub slot: u64,
    /// Hash of the block.
    pub hash: BlockHash,
    /// Epoch of the slot.
    pub epoch: u32,
    /// Time of the slot, in seconds.
    pub time: u64,
}

/// A live output, its address borrowed from wherever the bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtxoRecord<'a> {
    /// Address bytes as they appear on chain; on Bitcoin the output script.
    pub address: &'a [u8],
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Assets, datum and script.
    pub details: Details<'a>,
    /// Height of the block that created it.
    pub height: Height,
    /// That block, on chains whose records repeat it.
    pub place: Option<BlockStamp>,
    /// Position of its transaction in that block.
    pub tx_index: u32,
    /// Created by a coinbase.
    pub is_coinbase: bool,
}

const ADDRESS: u32 = 0;
const VALUE: u32 = 1;
const SLOT: u32 = 8;
const HEIGHT: u32 = 9;
const BLOCK_HASH: u32 = 10;
const EPOCH: u32 = 11;
const TIME: u32 = 12;
const PAYMENT_CREDENTIAL: u32 = 13;
const STAKE_CREDENTIAL: u32 = 14;
const STAKE_ADDRESS: u32 = 15;
const TX_INDEX: u32 = 16;
const IS_COINBASE: u32 = 17;

/// Writing CBOR into a vector cannot fail.
pub(crate) const INFALLIBLE: &str = "writing to a vector does not fail";

impl<'a> UtxoRecord<'a> {
    /// Appends the record's bytes to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let owner = match self.place {
            Some(_) => cardano::credentials(self.address),
            None => cardano::Credentials::default(),
        };
        let fields = 4
            + u64::from(self.details.fields)
            + if self.place.is_some() { 4 } else { 0 }
            + u64::from(owner.payment.is_some())
            + if owner.stake.is_some() { 2 } else { 0 }
            + u64::from(self.is_coinbase);
        let mut head = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            let mut e = Encoder::new(&mut *out);
            e.map(fields)?;
            e.u32(ADDRESS)?.bytes(self.address)?;
            e.u32(VALUE)?.u64(self.value)?;
            Ok(())
        };
        head().expect(INFALLIBLE);
        out.extend_from_slice(self.details.bytes);
        let mut e = Encoder::new(out);
        let mut tail = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            if let Some(place) = &self.place {
                e.u32(SLOT)?.u64(place.slot)?;
            }
            e.u32(HEIGHT)?.u32(self.height.get())?;
            if let Some(place) = &self.place {
                e.u32(BLOCK_HASH)?.bytes(place.hash.as_bytes())?;
                e.u32(EPOCH)?.u32(place.epoch)?;
                e.u32(TIME)?.u64(place.time)?;
            }
            if let Some(payment) = &owner.payment {
                e.u32(PAYMENT_CREDENTIAL)?.bytes(&payment.hash)?;
            }
            if let Some(stake) = &owner.stake {
                let network_id = cardano::address_network_id(self.address).unwrap_or_default();
                e.u32(STAKE_CREDENTIAL)?.bytes(&stake.hash)?;
                e.u32(STAKE_ADDRESS)?.bytes(&stake.stake_address(network_id))?;
            }
            e.u32(TX_INDEX)?.u32(self.tx_index)?;
            if self.is_coinbase {
                e.u32(IS_COINBASE)?.bool(true)?;
            }
            Ok(())
        };
        tail().expect(INFALLIBLE);
    }

    /// The record's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.address.len() + 32);
        self.encode_into(&mut out);
        out
    }

    /// Inverse of [`UtxoRecord::encode`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut d = Decoder::new(bytes);
        let record = Self::decode_from(&mut d)?;
        end(&d, bytes, "utxo record")?;
        Ok(record)
    }

    pub(crate) fn decode_from(d: &mut Decoder<'a>) -> Result<Self, Corrupt> {
        const WHAT: &str = "utxo record";
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let (mut address, mut value, mut height, mut tx_index) = (None, None, None, None);
        let (mut slot, mut hash, mut epoch, mut time) = (None, None, None, None);
        let mut is_coinbase = false;
        let (mut details_at, mut details) = (None, Details::default());
        let input = d.input();
        for _ in 0..map_len(d, WHAT)? {
            let at = d.position();
            match d.u32().map_err(corrupt)? {
                field if details::FIELDS.contains(&field) => {
                    d.skip().map_err(corrupt)?;
                    let start = *details_at.get_or_insert(at);
                    details.bytes = &input[start..d.position()];
                    details.fields = details.fields.saturating_add(1);
                }
                SLOT => slot = Some(d.u64().map_err(corrupt)?),
                BLOCK_HASH => hash = Some(BlockHash::from_bytes(*txid(d, WHAT)?.as_bytes())),
                EPOCH => epoch = Some(d.u32().map_err(corrupt)?),
                TIME => time = Some(d.u64().map_err(corrupt)?),
                // The address says the same.
                PAYMENT_CREDENTIAL | STAKE_CREDENTIAL | STAKE_ADDRESS => {
                    d.bytes().map_err(corrupt)?;
                }
                ADDRESS => address = Some(d.bytes().map_err(corrupt)?),
                VALUE => value = Some(d.u64().map_err(corrupt)?),
                HEIGHT => height = Some(Height::new(d.u32().map_err(corrupt)?)),
                TX_INDEX => tx_index = Some(d.u32().map_err(corrupt)?),
                IS_COINBASE => is_coinbase = d.bool().map_err(corrupt)?,
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        let missing = |field| Corrupt::new(WHAT, format!("field {field} is missing"));
        Ok(Self {
            address: address.ok_or_else(|| missing(ADDRESS))?,
            value: value.ok_or_else(|| missing(VALUE))?,
            details,
            height: height.ok_or_else(|| missing(HEIGHT))?,
            place: place(slot, hash, epoch, time, WHAT)?,
            tx_index: tx_index.ok_or_else(|| missing(TX_INDEX))?,
            is_coinbase,
        })
    }

    /// The slot the index orders by; chains without slots use the height.
    #[must_use]
    pub fn slot(&self) -> u64 {
        self.place.map_or_else(|| u64::from(self.height.get()), |place| place.slot)
    }
}

/// The block of a record: all four of its fields, or none.
fn place(
    slot: Option<u64>,
    hash: Option<BlockHash>,
    epoch: Option<u32>,
    time: Option<u64>,
    what: &'static str,
) -> Result<Option<BlockStamp>, Corrupt> {
    match (slot, hash, epoch, time) {
        (Some(slot), Some(hash), Some(epoch), Some(time)) => {
            Ok(Some(BlockStamp { slot, hash, epoch, time }))
        }
        (None, None, None, None) => Ok(None),
        _ => Err(Corrupt::new(what, "the block is described in part")),
    }
}

/// A spent output, kept for as long as its spending block may be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentRecord<'a> {
    /// The transaction that spent it.
    pub spent_by: Txid,
    /// Height of the block that spent it.
    pub spent_height: Height,
    /// That block, on chains whose records repeat it.
    pub place: Option<BlockStamp>,
    /// Bytes of the record as it was before the spend.
    pub record: &'a [u8],
}

const SPENT_BY: u32 = 0;
const SPENT_SLOT: u32 = 1;
const SPENT_HEIGHT: u32 = 2;
const SPENT_HASH: u32 = 3;
const SPENT_TIME: u32 = 4;
const SPENT_EPOCH: u32 = 5;
const PRE_SPEND: u32 = 6;

impl<'a> SpentRecord<'a> {
    /// Appends the record's bytes to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let mut e = Encoder::new(&mut *out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.map(if self.place.is_some() { 7 } else { 3 })?;
            e.u32(SPENT_BY)?.bytes(self.spent_by.as_bytes())?;
            if let Some(place) = &self.place {
                e.u32(SPENT_SLOT)?.u64(place.slot)?;
            }
            e.u32(SPENT_HEIGHT)?.u32(self.spent_height.get())?;
            if let Some(place) = &self.place {
                e.u32(SPENT_HASH)?.bytes(place.hash.as_bytes())?;
                e.u32(SPENT_TIME)?.u64(place.time)?;
                e.u32(SPENT_EPOCH)?.u32(place.epoch)?;
            }
            e.u32(PRE_SPEND)?;
            Ok(())
        };
        write().expect(INFALLIBLE);
        out.extend_from_slice(self.record);
    }

    /// The record's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.record.len() + 48);
        self.encode_into(&mut out);
        out
    }

    /// Inverse of [`SpentRecord::encode`]; the nested record is checked too.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        const WHAT: &str = "spent record";
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let mut d = Decoder::new(bytes);
        let (mut spent_by, mut spent_height, mut record) = (None, None, None);
        let (mut slot, mut hash, mut epoch, mut time) = (None, None, None, None);
        for _ in 0..map_len(&mut d, WHAT)? {
            match d.u32().map_err(corrupt)? {
                SPENT_BY => spent_by = Some(txid(&mut d, WHAT)?),
                SPENT_HEIGHT => spent_height = Some(Height::new(d.u32().map_err(corrupt)?)),
                SPENT_SLOT => slot = Some(d.u64().map_err(corrupt)?),
                SPENT_HASH => hash = Some(BlockHash::from_bytes(*txid(&mut d, WHAT)?.as_bytes())),
                SPENT_TIME => time = Some(d.u64().map_err(corrupt)?),
                SPENT_EPOCH => epoch = Some(d.u32().map_err(corrupt)?),
                PRE_SPEND => {
                    let start = d.position();
                    UtxoRecord::decode_from(&mut d)?;
                    record = Some(&bytes[start..d.position()]);
                }
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        end(&d, bytes, WHAT)?;
        let missing = |field| Corrupt::new(WHAT, format!("field {field} is missing"));
        Ok(Self {
            spent_by: spent_by.ok_or_else(|| missing(SPENT_BY))?,
            spent_height: spent_height.ok_or_else(|| missing(SPENT_HEIGHT))?,
            place: place(slot, hash, epoch, time, WHAT)?,
            record: record.ok_or_else(|| missing(PRE_SPEND))?,
        })
    }

    /// The output as it was before the spend.
    pub fn utxo(&self) -> Result<UtxoRecord<'a>, Corrupt> {
        UtxoRecord::decode(self.record)
    }
}

pub(crate) fn txid(d: &mut Decoder<'_>, what: &'static str) -> Result<Txid, Corrupt> {
    let bytes = d.bytes().map_err(|error| Corrupt::new(what, error))?;
    Txid::from_slice(bytes).ok_or_else(|| Corrupt::new(what, "a hash is not 32 bytes long"))
}

/// Length of a definite map; indefinite ones are not canonical and never written.
pub(crate) fn map_len(d: &mut Decoder<'_>, what: &'static str) -> Result<u64, Corrupt> {
    d.map()
        .map_err(|error| Corrupt::new(what, error))?
        .ok_or_else(|| Corrupt::new(what, "indefinite map"))
}

/// Length of a definite array.
pub(crate) fn array_len(d: &mut Decoder<'_>, what: &'static str) -> Result<u64, Corrupt> {
    d.array()
        .map_err(|error| Corrupt::new(what, error))?
        .ok_or_else(|| Corrupt::new(what, "indefinite array"))
}

/// Refuses bytes behind the value.
pub(crate) fn end(d: &Decoder<'_>, bytes: &[u8], what: &'static str) -> Result<(), Corrupt> {
    if d.position() == bytes.len() {
        return Ok(());
    }
    let next = d.datatype().unwrap_or(Type::Undefined);
    Err(Corrupt::new(what, format!("{next} behind the end, at byte {}", d.position())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> UtxoRecord<'static> {
        UtxoRecord {
            address: &[1, 2],
            value: 5,
            details: Details::default(),
            height: Height::new(42),
            place: None,
            tx_index: 3,
            is_coinbase: false,
        }
    }

    #[test]
    fn record_bytes_are_pinned() {
        // a4 map(4): 0 -> h'0102', 1 -> 5, 9 -> 42, 16 -> 3; absent fields take no space
        let bytes = [0xa4, 0, 0x42, 1, 2, 1, 5, 9, 0x18, 0x2a, 0x10, 3];
        assert_eq!(record().encode(), bytes);
        assert_eq!(UtxoRecord::decode(&bytes), Ok(record()));

        let coinbase = UtxoRecord { is_coinbase: true, ..record() };
        let bytes = [0xa5, 0, 0x42, 1, 2, 1, 5, 9, 0x18, 0x2a, 0x10, 3, 0x11, 0xf5];
        assert_eq!(coinbase.encode(), bytes);
        assert_eq!(UtxoRecord::decode(&bytes), Ok(coinbase));
    }

    #[test]
    fn spent_record_bytes_are_pinned() {
        let inner = record().encode();
        let spent = SpentRecord {
            spent_by: Txid::from_bytes([9; 32]),
            spent_height: Height::new(50),
            place: None,
            record: &inner,
        };
        let mut bytes = vec![0xa3, 0, 0x58, 32];
        bytes.extend([9; 32]);
        bytes.extend([2, 0x18, 50, 6]);
        bytes.extend(&inner);
        assert_eq!(spent.encode(), bytes);
        assert_eq!(SpentRecord::decode(&bytes), Ok(spent));
        assert_eq!(spent.utxo(), Ok(record()));
    }

    #[test]
    fn cardano_record_bytes_are_pinned() {
        let mut address = vec![0x01];
        address.extend([0x11; 28]);
        address.extend([0x22; 28]);
        let place =
            BlockStamp { slot: 300, hash: BlockHash::from_bytes([7; 32]), epoch: 2, time: 1_000 };
        let details = Details { bytes: &[7, 0xf5], fields: 1 };
        let live = UtxoRecord {
            address: &address,
            value: 5,
            details,
            height: Height::new(42),
            place: Some(place),
            tx_index: 3,
            is_coinbase: false,
        };
        let (payment, stake) = ("11".repeat(28), "22".repeat(28));
        let hash = "07".repeat(32);
        let expected = format!(
            "ac00583901{payment}{stake}010507f50819012c09182a0a5820{hash}0b020c1903e8\
             0d581c{payment}0e581c{stake}0f581de1{stake}1003"
        );
        let bytes = live.encode();
        assert_eq!(crate::hex_encode(&bytes), expected);
        assert_eq!(UtxoRecord::decode(&bytes), Ok(live));
        assert_eq!(live.slot(), 300);

        let spent = SpentRecord {
            spent_by: Txid::from_bytes([9; 32]),
            spent_height: Height::new(50),
            place: Some(place),
            record: &bytes,
        };
        let by = "09".repeat(32);
        let expected = format!("a7005820{by}0119012c021832035820{hash}041903e8050206{expected}");
        assert_eq!(crate::hex_encode(&spent.encode()), expected);
        assert_eq!(SpentRecord::decode(&spent.encode()), Ok(spent));
    }

    #[test]
    fn damaged_records_are_errors_not_panics() {
        let inner = record().encode();
        let spent = SpentRecord {
            spent_by: Txid::default(),
            spent_height: Height::new(50),
            place: None,
            record: &inner,
        }
        .encode();
        for cut in 0..spent.len() {
            assert!(SpentRecord::decode(&spent[..cut]).is_err());
        }
        for cut in 0..inner.len() {
            assert!(UtxoRecord::decode(&inner[..cut]).is_err());
        }
        let mut long = inner.clone();
        long.push(0);
        assert!(UtxoRecord::decode(&long).is_err());
        for at in 0..spent.len() {
            for flip in 0..=255 {
                let mut bytes = spent.clone();
                bytes[at] ^= flip;
                let _ = SpentRecord::decode(&bytes);
            }
        }
    }
}
