//! Keys and small values of the index tables: the address rows and the block log.

use minicbor::{Decoder, Encoder};

use crate::{
    coin::Totals,
    record::{Corrupt, INFALLIBLE, end, map_len},
    types::{AddressKey, BlockHash, ChainPoint, ChainWork, Height, OutPoint, Txid},
};

/// What an address row is indexed by. One byte in front of the hash keeps the name spaces apart: a
/// query by one kind can never meet rows of another with the same 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IndexTag {
    /// The exact address (on Bitcoin, the output script).
    Address = 1,
}

/// Key of an address row: which address, then where on the chain the output was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRowKey {
    /// Address hash.
    pub key: AddressKey,
    /// Slot (or height) of creation.
    pub slot: u64,
    /// Position of the transaction in its block.
    pub tx_index: u32,
    /// Position of the output in its transaction.
    pub output_index: u32,
}

impl AddressRowKey {
    /// Tag, hash, slot, transaction index, output index.
    pub const LEN: usize = Self::PREFIX_LEN + 8 + 4 + 4;
    /// Tag and hash: what all rows of one address share.
    pub const PREFIX_LEN: usize = 1 + AddressKey::LEN;

    /// The bytes all rows of an address start with.
    #[must_use]
    pub fn prefix(key: &AddressKey) -> [u8; Self::PREFIX_LEN] {
        let mut prefix = [IndexTag::Address as u8; Self::PREFIX_LEN];
        prefix[1..].copy_from_slice(key.as_bytes());
        prefix
    }

    /// Fixed-width key bytes; rows of an address sort in chain order.
    #[must_use]
    pub fn to_key(self) -> [u8; Self::LEN] {
        let mut key = [0; Self::LEN];
        key[..29].copy_from_slice(&Self::prefix(&self.key));
        key[29..37].copy_from_slice(&self.slot.to_be_bytes());
        key[37..41].copy_from_slice(&self.tx_index.to_be_bytes());
        key[41..].copy_from_slice(&self.output_index.to_be_bytes());
        key
    }

    /// Inverse of [`AddressRowKey::to_key`].
    #[must_use]
    pub fn from_key(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::LEN || bytes[0] != IndexTag::Address as u8 {
            return None;
        }
        Some(Self {
            key: AddressKey::from_bytes(bytes[1..29].try_into().ok()?),
            slot: u64::from_be_bytes(bytes[29..37].try_into().ok()?),
            tx_index: u32::from_be_bytes(bytes[37..41].try_into().ok()?),
            output_index: u32::from_be_bytes(bytes[41..].try_into().ok()?),
        })
    }
}

/// Value of an address row. The amount is repeated here so that a balance is one scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRow {
    /// Transaction that created the output.
    pub txid: Txid,
    /// Its amount.
    pub value: u64,
}

impl AddressRow {
    /// Length of the value of a live row.
    pub const LEN: usize = 40;

    /// Value bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..32].copy_from_slice(self.txid.as_bytes());
        bytes[32..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    /// Inverse of [`AddressRow::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (txid, value) = bytes.split_at_checked(32)?;
        Some(Self {
            txid: Txid::from_slice(txid)?,
            value: u64::from_be_bytes(value.try_into().ok()?),
        })
    }
}

/// Value of a row of the spent half of the address index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentAddressRow {
    /// The row as it was while the output was live.
    pub row: AddressRow,
    /// Height of the block that spent the output.
    pub spent_height: Height,
}

impl SpentAddressRow {
    /// Length of the value.
    pub const LEN: usize = AddressRow::LEN + 4;

    /// Value bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..AddressRow::LEN].copy_from_slice(&self.row.to_bytes());
        bytes[AddressRow::LEN..].copy_from_slice(&self.spent_height.to_key());
        bytes
    }

    /// Inverse of [`SpentAddressRow::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (row, height) = bytes.split_at_checked(AddressRow::LEN)?;
        Some(Self { row: AddressRow::from_bytes(row)?, spent_height: Height::from_key(height)? })
    }
}

/// One block of the followed chain: an entry of the chain log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEntry {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Hash of its parent.
    pub prev: BlockHash,
    /// Seconds since the epoch, as the block says.
    pub time: u64,
    /// Work of the chain up to and including this block.
    pub work: ChainWork,
    /// Transactions in the block.
    pub txs: u32,
    /// Outputs created, those spent in the same block included.
    pub created: u32,
    /// Outputs spent.
    pub spent: u32,
    /// The set after this block.
    pub totals: Totals,
}

impl BlockEntry {
    /// Canonical CBOR with integer keys.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        let mut e = Encoder::new(&mut out);
        let work = self.work.as_bytes();
        let significant = work.iter().position(|&byte| byte != 0).unwrap_or(work.len());
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.map(10)?;
            e.u32(0)?.bytes(self.hash.as_bytes())?;
            e.u32(1)?.bytes(self.prev.as_bytes())?;
            e.u32(2)?.u64(self.time)?;
            e.u32(3)?.bytes(&work[significant..])?;
            e.u32(4)?.u32(self.txs)?;
            e.u32(5)?.u32(self.created)?;
            e.u32(6)?.u32(self.spent)?;
            e.u32(7)?.u64(self.totals.txouts)?;
            e.u32(8)?.u64(self.totals.total_amount)?;
            e.u32(9)?.u64(self.totals.bogosize)?;
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`BlockEntry::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        const WHAT: &str = "block entry";
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let mut d = Decoder::new(bytes);
        if map_len(&mut d, WHAT)? != 10 {
            return Err(Corrupt::new(WHAT, "expected ten fields"));
        }
        let field = |d: &mut Decoder<'_>, number: u32| match d.u32() {
            Ok(found) if found == number => Ok(()),
            Ok(found) => Err(Corrupt::new(WHAT, format!("field {found} in place of {number}"))),
            Err(error) => Err(corrupt(error)),
        };
        let hash = |d: &mut Decoder<'_>, number| {
            field(d, number)?;
            BlockHash::from_slice(d.bytes().map_err(corrupt)?)
                .ok_or_else(|| Corrupt::new(WHAT, "a hash is not 32 bytes long"))
        };
        let (own, prev) = (hash(&mut d, 0)?, hash(&mut d, 1)?);
        field(&mut d, 2)?;
        let time = d.u64().map_err(corrupt)?;
        field(&mut d, 3)?;
        let significant = d.bytes().map_err(corrupt)?;
        let mut work = [0; 32];
        let start = 32usize
            .checked_sub(significant.len())
            .ok_or_else(|| Corrupt::new(WHAT, "work is longer than 32 bytes"))?;
        work[start..].copy_from_slice(significant);
        let number = |d: &mut Decoder<'_>, n| {
            field(d, n)?;
            d.u64().map_err(corrupt)
        };
        let small = |value: u64| {
            u32::try_from(value).map_err(|_| Corrupt::new(WHAT, "a count exceeds 32 bits"))
        };
        let entry = Self {
            hash: own,
            prev,
            time,
            work: ChainWork::from_be_bytes(work),
            txs: small(number(&mut d, 4)?)?,
            created: small(number(&mut d, 5)?)?,
            spent: small(number(&mut d, 6)?)?,
            totals: Totals {
                txouts: number(&mut d, 7)?,
                total_amount: number(&mut d, 8)?,
                bogosize: number(&mut d, 9)?,
            },
        };
        end(&d, bytes, WHAT)?;
        Ok(entry)
    }

    /// The place on the chain this entry describes.
    #[must_use]
    pub fn point(&self, height: Height) -> ChainPoint {
        ChainPoint { height, slot: u64::from(height.get()), hash: self.hash }
    }
}

/// Names the output an address row points at.
#[must_use]
pub fn row_outpoint(key: &AddressRowKey, row: &AddressRow) -> OutPoint {
    OutPoint::new(row.txid, key.output_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_row_bytes_are_pinned_and_sort_in_chain_order() {
        let key = AddressRowKey {
            key: AddressKey::from_bytes([0xab; 28]),
            slot: 0x0102,
            tx_index: 3,
            output_index: 4,
        };
        let mut bytes = vec![1];
        bytes.extend([0xab; 28]);
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!(key.to_key().as_slice(), bytes);
        assert_eq!(AddressRowKey::from_key(&bytes), Some(key));
        bytes[0] = 2;
        assert_eq!(AddressRowKey::from_key(&bytes), None);
        let later = AddressRowKey { slot: 0x0103, tx_index: 0, output_index: 0, ..key };
        assert!(key.to_key() < later.to_key());
    }

    #[test]
    fn address_row_values_are_pinned() {
        let row = AddressRow { txid: Txid::from_bytes([5; 32]), value: 0x0102 };
        let mut bytes = vec![5; 32];
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(row.to_bytes().as_slice(), bytes);
        assert_eq!(AddressRow::from_bytes(&bytes), Some(row));
        let spent = SpentAddressRow { row, spent_height: Height::new(9) };
        bytes.extend([0, 0, 0, 9]);
        assert_eq!(spent.to_bytes().as_slice(), bytes);
        assert_eq!(SpentAddressRow::from_bytes(&bytes), Some(spent));
        assert_eq!(AddressRow::from_bytes(&bytes), None);
    }

    #[test]
    fn block_entry_bytes_are_pinned() {
        let mut work = [0; 32];
        work[30..].copy_from_slice(&[2, 0]);
        let entry = BlockEntry {
            hash: BlockHash::from_bytes([1; 32]),
            prev: BlockHash::from_bytes([2; 32]),
            time: 1_000,
            work: ChainWork::from_be_bytes(work),
            txs: 3,
            created: 4,
            spent: 5,
            totals: Totals { txouts: 6, total_amount: 7, bogosize: 8 },
        };
        let expected = format!(
            "aa005820{}015820{}021903e8034202000403050406050706080709{}",
            "01".repeat(32),
            "02".repeat(32),
            "08"
        );
        let bytes = entry.encode();
        assert_eq!(crate::hex_encode(&bytes), expected);
        assert_eq!(BlockEntry::decode(&bytes), Ok(entry));
        for cut in 0..bytes.len() {
            assert!(BlockEntry::decode(&bytes[..cut]).is_err());
        }
    }
}
