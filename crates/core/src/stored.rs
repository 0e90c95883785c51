//! How keys and values of tables are written: each type says it once, and a table names its types.
//!
//! A table is read and written through the types that it was declared with, so that a key of another
//! table, or a value of another one, does not compile. Values that are kept as bytes on the way, to
//! save decoding and encoding them again, keep their type: [`Encoded`].

use std::marker::PhantomData;

use crate::{
    AddressRow, AddressRowKey, BlockDelta, BlockEntry, BlockHash, Corrupt, Height, MuHash,
    OutPoint, SpentAddressRow, SpentRecord, Txid, UtxoRecord,
    node::{
        NodeTx, OutputRecord, TxRecord, decode_body, decode_output, decode_record, decode_spends,
        encode_body, encode_output, encode_record,
    },
};

/// A key of a table.
pub trait StoredKey {
    /// The bytes of a key; ordered as the keys are.
    type Bytes<'k>: AsRef<[u8]>
    where
        Self: 'k;
    /// A key as it is read.
    type Read;

    /// The bytes of this key.
    fn key_bytes(&self) -> Self::Bytes<'_>;

    /// Inverse of [`StoredKey::key_bytes`]; `None` for other bytes.
    fn read_key(bytes: &[u8]) -> Option<Self::Read>;
}

/// A value of a table.
pub trait StoredValue {
    /// The value as it is read; it may borrow from the row.
    type Read<'v>;

    /// Inverse of [`StoreAs::write_value`].
    fn read_value(bytes: &[u8]) -> Result<Self::Read<'_>, Corrupt>;
}

/// What can be written as a value of the type `V`.
pub trait StoreAs<V: ?Sized> {
    /// Appends the bytes of the value.
    fn write_value(&self, out: &mut Vec<u8>);
}

/// Bytes that are a value of the type `V`.
#[derive(Debug, PartialEq, Eq)]
pub struct Encoded<'b, V: ?Sized> {
    bytes: &'b [u8],
    value: PhantomData<fn(&V)>,
}

impl<V: ?Sized> Clone for Encoded<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized> Copy for Encoded<'_, V> {}

impl<'b, V: StoredValue + ?Sized> Encoded<'b, V> {
    /// Takes bytes for what they were written as. Nothing is checked before they are read.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, value: PhantomData }
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> &'b [u8] {
        self.bytes
    }

    /// The value.
    pub fn read(self) -> Result<V::Read<'b>, Corrupt> {
        V::read_value(self.bytes)
    }
}

impl<V: ?Sized> StoreAs<V> for Encoded<'_, V> {
    fn write_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes);
    }
}

/// A key that is what it says, such as a name.
impl StoredKey for [u8] {
    type Bytes<'k> = &'k [u8];
    type Read = Vec<u8>;

    fn key_bytes(&self) -> &[u8] {
        self
    }

    fn read_key(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

/// A value whose meaning hangs on its key, such as a setting.
impl StoredValue for [u8] {
    type Read<'v> = &'v [u8];

    fn read_value(bytes: &[u8]) -> Result<&[u8], Corrupt> {
        Ok(bytes)
    }
}

impl<B: AsRef<[u8]> + ?Sized> StoreAs<[u8]> for B {
    fn write_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_ref());
    }
}

/// Keys of a fixed width, each with the functions that know its bytes.
macro_rules! keys {
    ($($key:ty: [u8; $len:expr], $write:expr, $read:expr;)+) => {
        $(impl StoredKey for $key {
            type Bytes<'k> = [u8; $len];
            type Read = Self;

            fn key_bytes(&self) -> [u8; $len] {
                $write(self)
            }

            fn read_key(bytes: &[u8]) -> Option<Self> {
                $read(bytes)
            }
        })+
    };
}

keys! {
    Height: [u8; 4], |height: &Self| height.to_key(), Self::from_key;
    Txid: [u8; 32], |txid: &Self| *txid.as_bytes(), Self::from_slice;
    BlockHash: [u8; 32], |hash: &Self| *hash.as_bytes(), Self::from_slice;
    OutPoint: [u8; Self::KEY_LEN], |outpoint: &Self| outpoint.to_key(), Self::from_key;
    AddressRowKey: [u8; Self::LEN], |row: &Self| row.to_key(), Self::from_key;
    (Height, BlockHash): [u8; 36], join::<Height, BlockHash, 36>, split::<Height, BlockHash>;
    (Height, Txid): [u8; 36], join::<Height, Txid, 36>, split::<Height, Txid>;
    (Txid, Txid): [u8; 64], join::<Txid, Txid, 64>, split::<Txid, Txid>;
}

/// What happened at a height, in order.
impl StoredKey for (Height, u64) {
    type Bytes<'k> = [u8; 12];
    type Read = Self;

    fn key_bytes(&self) -> [u8; 12] {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&self.0.to_key());
        key[4..].copy_from_slice(&self.1.to_be_bytes());
        key
    }

    fn read_key(bytes: &[u8]) -> Option<Self> {
        let (height, number) = bytes.split_at_checked(4)?;
        Some((Height::from_key(height)?, u64::from_be_bytes(number.try_into().ok()?)))
    }
}

/// The bytes of two keys, one behind the other.
fn join<A: StoredKey, B: StoredKey, const LEN: usize>((first, second): &(A, B)) -> [u8; LEN] {
    let mut key = [0; LEN];
    let (front, back) = (first.key_bytes(), second.key_bytes());
    let (front, back) = (front.as_ref(), back.as_ref());
    key[..front.len()].copy_from_slice(front);
    key[front.len()..].copy_from_slice(back);
    key
}

/// Inverse of [`join`], for a second key of 32 bytes.
fn split<A: StoredKey, B: StoredKey>(bytes: &[u8]) -> Option<(A::Read, B::Read)> {
    let (first, second) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    Some((A::read_key(first)?, B::read_key(second)?))
}

/// Values, each with the functions that know its bytes.
macro_rules! values {
    ($($value:ty as $read:ty, $from:expr, $into:expr;)+) => {
        $(impl StoredValue for $value {
            type Read<'v> = $read;

            fn read_value(bytes: &[u8]) -> Result<Self::Read<'_>, Corrupt> {
                $from(bytes)
            }
        }

        impl StoreAs<$value> for $value {
            fn write_value(&self, out: &mut Vec<u8>) {
                $into(self, out);
            }
        })+
    };
}

values! {
    Height as Self,
        |bytes| Self::from_key(bytes).ok_or_else(|| Corrupt::new("height", "not 4 bytes long")),
        |height: &Self, out: &mut Vec<u8>| out.extend_from_slice(&height.to_key());
    BlockEntry as Self, Self::decode,
        |entry: &Self, out: &mut Vec<u8>| out.extend_from_slice(&entry.encode());
    BlockDelta as Self, Self::decode,
        |delta: &Self, out: &mut Vec<u8>| out.extend_from_slice(&delta.encode());
    AddressRow as Self, |bytes| Self::from_bytes(bytes).ok_or_else(|| malformed("address row")),
        |row: &Self, out: &mut Vec<u8>| row.append_to(out);
    SpentAddressRow as Self,
        |bytes| Self::from_bytes(bytes).ok_or_else(|| malformed("spent address row")),
        |row: &Self, out: &mut Vec<u8>| out.extend_from_slice(&row.to_bytes());
    MuHash as Self,
        |bytes| {
            let wrong = || Corrupt::new("muhash accumulator", "not a reduced fraction");
            Self::from_bytes(bytes).ok_or_else(wrong)
        },
        |set: &Self, out: &mut Vec<u8>| out.extend_from_slice(&set.to_bytes());
}

/// A row that says everything by being there.
impl StoredValue for () {
    type Read<'v> = ();

    fn read_value(_: &[u8]) -> Result<(), Corrupt> {
        Ok(())
    }
}

impl StoreAs<Self> for () {
    fn write_value(&self, _: &mut Vec<u8>) {}
}

values! {
    TxRecord as Self, decode_record,
        |record: &Self, out: &mut Vec<u8>| out.extend_from_slice(&encode_record(record));
    OutputRecord as Self, decode_output,
        |slot: &Self, out: &mut Vec<u8>| out.extend_from_slice(&encode_output(slot));
    NodeTx as StoredBody<'v>, |bytes| Ok(StoredBody(bytes)),
        |body: &Self, out: &mut Vec<u8>| out.extend_from_slice(&encode_body(body));
}

/// The body of a transaction as it is stored: without its id, which is the key.
#[derive(Debug, Clone, Copy)]
pub struct StoredBody<'v>(&'v [u8]);

impl StoredBody<'_> {
    /// The body of the transaction with this id.
    pub fn of(self, id: Txid) -> Result<NodeTx, Corrupt> {
        decode_body(id, self.0)
    }

    /// What its inputs spend, without the rest of it.
    pub fn spends(self) -> Result<Vec<OutPoint>, Corrupt> {
        decode_spends(self.0)
    }
}

fn malformed(what: &'static str) -> Corrupt {
    Corrupt::new(what, "malformed row")
}

impl StoredValue for UtxoRecord<'static> {
    type Read<'v> = UtxoRecord<'v>;

    fn read_value(bytes: &[u8]) -> Result<UtxoRecord<'_>, Corrupt> {
        UtxoRecord::decode(bytes)
    }
}

impl StoreAs<UtxoRecord<'static>> for UtxoRecord<'_> {
    fn write_value(&self, out: &mut Vec<u8>) {
        self.encode_into(out);
    }
}

impl StoredValue for SpentRecord<'static> {
    type Read<'v> = SpentRecord<'v>;

    fn read_value(bytes: &[u8]) -> Result<SpentRecord<'_>, Corrupt> {
        SpentRecord::decode(bytes)
    }
}

impl StoreAs<SpentRecord<'static>> for SpentRecord<'_> {
    fn write_value(&self, out: &mut Vec<u8>) {
        self.encode_into(out);
    }
}
