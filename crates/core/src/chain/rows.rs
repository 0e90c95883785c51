//! Keys and small values of the index tables: the address rows and the block log.

use minicbor::{Decoder, Encoder};

use super::{
    block::SlotInfo,
    cardano::{self, Credential, CredentialKind},
    coin::Totals,
    record::{BlockStamp, Corrupt, INFALLIBLE, end, map_len},
};
use crate::{
    network::Network,
    types::{AddressKey, BlockHash, ChainPoint, ChainWork, Height, OutPoint, Txid},
};

/// What an address row is indexed by. One byte in front of the hash keeps the name spaces apart: a
/// query by one kind can never meet rows of another with the same 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IndexTag {
    /// The exact address (on Bitcoin, the output script).
    Address = 1,
    /// A payment credential that is a key.
    PaymentKey = 2,
    /// A payment credential that is a script.
    PaymentScript = 3,
    /// A stake credential that is a key.
    StakeKey = 4,
    /// A stake credential that is a script.
    StakeScript = 5,
}

impl IndexTag {
    const ALL: [Self; 5] =
        [Self::Address, Self::PaymentKey, Self::PaymentScript, Self::StakeKey, Self::StakeScript];

    /// Inverse of the byte on disk.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&tag| tag as u8 == byte)
    }
}

/// Whom rows of the address index belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexKey {
    /// What the hash is of.
    pub tag: IndexTag,
    /// Hash of the script or address, or the credential itself.
    pub key: AddressKey,
}

impl IndexKey {
    /// The exact address.
    #[must_use]
    pub fn address(network: Network, address: &[u8]) -> Self {
        Self { tag: IndexTag::Address, key: network.address_key(address) }
    }

    /// A payment credential.
    #[must_use]
    pub const fn payment(credential: &Credential) -> Self {
        let tag = match credential.kind {
            CredentialKind::Key => IndexTag::PaymentKey,
            CredentialKind::Script => IndexTag::PaymentScript,
        };
        Self { tag, key: AddressKey::from_bytes(credential.hash) }
    }

    /// A stake credential.
    #[must_use]
    pub const fn stake(credential: &Credential) -> Self {
        let tag = match credential.kind {
            CredentialKind::Key => IndexTag::StakeKey,
            CredentialKind::Script => IndexTag::StakeScript,
        };
        Self { tag, key: AddressKey::from_bytes(credential.hash) }
    }

    /// Payment and stake credential of an address, on chains that have them.
    #[must_use]
    pub fn credentials(network: Network, address: &[u8]) -> [Option<Self>; 2] {
        if !network.is_cardano() {
            return [None, None];
        }
        let owner = cardano::credentials(address);
        [owner.payment.as_ref().map(Self::payment), owner.stake.as_ref().map(Self::stake)]
    }
}

/// Key of an address row: whose, then where on the chain the output was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRowKey {
    /// The address or credential that the output pays.
    pub owner: IndexKey,
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
    /// Tag and hash: what all rows of one owner share.
    pub const PREFIX_LEN: usize = 1 + AddressKey::LEN;

    /// The bytes all rows of an owner start with.
    #[must_use]
    pub fn prefix(owner: &IndexKey) -> [u8; Self::PREFIX_LEN] {
        let mut prefix = [owner.tag as u8; Self::PREFIX_LEN];
        prefix[1..].copy_from_slice(owner.key.as_bytes());
        prefix
    }

    /// Fixed-width key bytes; rows of an owner sort in chain order.
    #[must_use]
    pub fn to_key(self) -> [u8; Self::LEN] {
        let mut key = [0; Self::LEN];
        key[..29].copy_from_slice(&Self::prefix(&self.owner));
        key[29..37].copy_from_slice(&self.slot.to_be_bytes());
        key[37..41].copy_from_slice(&self.tx_index.to_be_bytes());
        key[41..].copy_from_slice(&self.output_index.to_be_bytes());
        key
    }

    /// Inverse of [`AddressRowKey::to_key`].
    #[must_use]
    pub fn from_key(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::LEN {
            return None;
        }
        let key = AddressKey::from_bytes(bytes[1..29].try_into().ok()?);
        Some(Self {
            owner: IndexKey { tag: IndexTag::from_byte(bytes[0])?, key },
            slot: u64::from_be_bytes(bytes[29..37].try_into().ok()?),
            tx_index: u32::from_be_bytes(bytes[37..41].try_into().ok()?),
            output_index: u32::from_be_bytes(bytes[41..].try_into().ok()?),
        })
    }
}

/// Value of an address row. The amount is repeated here so that a balance is one scan; a mark says
/// whether the record has to be read for assets too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRow {
    /// Transaction that created the output.
    pub txid: Txid,
    /// Amount in the smallest unit of the chain.
    pub value: u64,
    /// Whether native assets are inside.
    pub has_assets: bool,
}

/// The byte behind a row whose output holds native assets.
const ASSETS_MARK: u8 = 1;

impl AddressRow {
    const LEN: usize = 40;

    /// Appends the value bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.txid.as_bytes());
        out.extend_from_slice(&self.value.to_be_bytes());
        if self.has_assets {
            out.push(ASSETS_MARK);
        }
    }

    /// Value bytes.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN + 1);
        self.append_to(&mut bytes);
        bytes
    }

    /// Inverse of [`AddressRow::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (row, mark) = bytes.split_at_checked(Self::LEN)?;
        let (txid, value) = row.split_at(32);
        let has_assets = match mark {
            [] => false,
            [ASSETS_MARK] => true,
            _ => return None,
        };
        let value = u64::from_be_bytes(value.try_into().ok()?);
        Some(Self { txid: Txid::from_slice(txid)?, value, has_assets })
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
    /// Value bytes: the live row, its mark included, behind txid and amount comes the height.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.row.to_bytes();
        bytes.splice(AddressRow::LEN..AddressRow::LEN, self.spent_height.to_key());
        bytes
    }

    /// Inverse of [`SpentAddressRow::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (front, rest) = bytes.split_at_checked(AddressRow::LEN)?;
        let (height, mark) = rest.split_at_checked(4)?;
        let row = AddressRow::from_bytes(&[front, mark].concat())?;
        Some(Self { row, spent_height: Height::from_key(height)? })
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
    /// Its slot, on chains that have slots.
    pub slot: Option<SlotInfo>,
    /// Inputs up to and including this block that spent outputs from before the first block the
    /// index has; zero on an index that started with its chain.
    pub missing_inputs: u64,
    /// By how much [`BlockEntry::number`] is above the height; zero until a block left the chain.
    pub number_ahead: u32,
}

impl BlockEntry {
    /// The number of this block, which is at `height`, in the log's own sequence. It is above the
    /// number of every block that was connected before, those that left the chain included. A block
    /// that joins again keeps its number.
    #[must_use]
    pub const fn number(&self, height: Height) -> u32 {
        height.get().saturating_add(self.number_ahead)
    }

    /// Canonical CBOR with integer keys.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        let mut e = Encoder::new(&mut out);
        let work = self.work.as_bytes();
        let significant = work.iter().position(|&byte| byte != 0).unwrap_or(work.len());
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            let slot_fields = if self.slot.is_some() { 3 } else { 0 };
            let rare = u64::from(self.missing_inputs > 0) + u64::from(self.number_ahead > 0);
            e.map(10 + slot_fields + rare)?;
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
            if let Some(slot) = &self.slot {
                e.u32(10)?.u64(slot.slot)?;
                e.u32(11)?.u32(slot.epoch)?;
                e.u32(12)?.u8(slot.era)?;
            }
            if self.missing_inputs > 0 {
                e.u32(13)?.u64(self.missing_inputs)?;
            }
            if self.number_ahead > 0 {
                e.u32(14)?.u32(self.number_ahead)?;
            }
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
        let fields = map_len(&mut d, WHAT)?;
        let (has_slot, rare) = match fields {
            10..=12 => (false, fields - 10),
            13..=15 => (true, fields - 13),
            _ => return Err(Corrupt::new(WHAT, "unexpected number of fields")),
        };
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
        let mut entry = Self {
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
            slot: None,
            missing_inputs: 0,
            number_ahead: 0,
        };
        if has_slot {
            let slot = number(&mut d, 10)?;
            let epoch = small(number(&mut d, 11)?)?;
            let era = u8::try_from(number(&mut d, 12)?);
            let era = era.map_err(|_| Corrupt::new(WHAT, "an era exceeds 8 bits"))?;
            entry.slot = Some(SlotInfo { slot, epoch, era });
        }
        let mut least = 13;
        for _ in 0..rare {
            let found = d.u32().map_err(corrupt)?;
            let value = d.u64().map_err(corrupt)?;
            match found {
                13 if found >= least => entry.missing_inputs = value,
                14 if found >= least => entry.number_ahead = small(value)?,
                _ => return Err(Corrupt::new(WHAT, format!("field {found} in a wrong place"))),
            }
            least = found + 1;
        }
        end(&d, bytes, WHAT)?;
        Ok(entry)
    }

    /// The place on the chain this entry describes.
    #[must_use]
    pub fn point(&self, height: Height) -> ChainPoint {
        let slot = self.slot.map_or_else(|| u64::from(height.get()), |slot| slot.slot);
        ChainPoint { height, slot, hash: self.hash }
    }

    /// What records of this block repeat of it.
    #[must_use]
    pub fn place(&self) -> Option<BlockStamp> {
        let slot = self.slot?;
        Some(BlockStamp { slot: slot.slot, hash: self.hash, epoch: slot.epoch, time: self.time })
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
            owner: IndexKey { tag: IndexTag::Address, key: AddressKey::from_bytes([0xab; 28]) },
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
        let payment = AddressRowKey::from_key(&bytes).unwrap();
        assert_eq!(payment.owner.tag, IndexTag::PaymentKey);
        bytes[0] = 6;
        assert_eq!(AddressRowKey::from_key(&bytes), None);
        let later = AddressRowKey { slot: 0x0103, tx_index: 0, output_index: 0, ..key };
        assert!(key.to_key() < later.to_key());
    }

    #[test]
    fn address_row_values_are_pinned() {
        let row = AddressRow { txid: Txid::from_bytes([5; 32]), value: 0x0102, has_assets: false };
        let mut bytes = vec![5; 32];
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(row.to_bytes().as_slice(), bytes);
        assert_eq!(AddressRow::from_bytes(&bytes), Some(row));
        let spent = SpentAddressRow { row, spent_height: Height::new(9) };
        bytes.extend([0, 0, 0, 9]);
        assert_eq!(spent.to_bytes().as_slice(), bytes);
        assert_eq!(SpentAddressRow::from_bytes(&bytes), Some(spent));
        assert_eq!(AddressRow::from_bytes(&bytes), None);

        let row = AddressRow { has_assets: true, ..row };
        assert_eq!((row.to_bytes().len(), row.to_bytes()[40]), (41, 1));
        assert_eq!(AddressRow::from_bytes(&row.to_bytes()), Some(row));
        let spent = SpentAddressRow { row, spent_height: Height::new(9) };
        bytes.push(1);
        assert_eq!(spent.to_bytes(), bytes);
        assert_eq!(SpentAddressRow::from_bytes(&bytes), Some(spent));
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
            slot: None,
            missing_inputs: 0,
            number_ahead: 0,
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
        assert_eq!((entry.point(Height::new(5)).slot, entry.place()), (5, None));

        let slot = SlotInfo { slot: 300, epoch: 2, era: 6 };
        let entry = BlockEntry { slot: Some(slot), missing_inputs: 9, ..entry };
        let expected = format!("ae{}0a19012c0b020c060d09", &expected[2..]);
        assert_eq!(crate::hex_encode(&entry.encode()), expected);
        assert_eq!(BlockEntry::decode(&entry.encode()), Ok(entry));
        assert_eq!(entry.point(Height::new(5)).slot, 300);
        assert_eq!(entry.place().unwrap().epoch, 2);

        let entry = BlockEntry { number_ahead: 3, ..entry };
        let expected = format!("af{}0e03", &expected[2..]);
        assert_eq!(crate::hex_encode(&entry.encode()), expected);
        assert_eq!(BlockEntry::decode(&entry.encode()), Ok(entry));
        assert_eq!(entry.number(Height::new(5)), 8);
        let entry = BlockEntry { slot: None, missing_inputs: 0, ..entry };
        assert!(crate::hex_encode(&entry.encode()).ends_with("09080e03"));
        assert_eq!(BlockEntry::decode(&entry.encode()), Ok(entry));
        let twice = crate::hex_decode(&format!("ac{}0e030e03", &expected_alone(&entry))).unwrap();
        assert!(BlockEntry::decode(&twice).is_err(), "a field is there twice");
    }

    /// An entry without a number of its own, without its first byte.
    fn expected_alone(entry: &BlockEntry) -> String {
        crate::hex_encode(&BlockEntry { number_ahead: 0, ..*entry }.encode()[1..])
    }
}
