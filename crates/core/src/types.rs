//! Chain vocabulary: the few types every other module speaks.
//!
//! Each newtype owns its disk encoding. Keys are fixed width and big endian so that byte order is
//! domain order; nothing outside this module converts a domain value to key bytes.

use std::{fmt, str::FromStr};

/// A block height. An underflow can never turn "too young" into "very old": arithmetic saturates
/// or answers `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Height(u32);

impl Height {
    /// The first block of a chain.
    pub const GENESIS: Self = Self(0);

    /// Wraps a raw height read from a block or a disk key.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The height `blocks` later; saturates at the end of time.
    #[must_use]
    pub const fn plus(self, blocks: u32) -> Self {
        Self(self.0.saturating_add(blocks))
    }

    /// The height `blocks` earlier; stops at the first block.
    #[must_use]
    pub const fn minus(self, blocks: u32) -> Self {
        Self(self.0.saturating_sub(blocks))
    }

    /// The height of the parent, `None` for the first block.
    #[must_use]
    pub const fn parent(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// How far `self` lies below `tip`, or `None` when it is above it.
    #[must_use]
    pub const fn depth_below(self, tip: Self) -> Option<u32> {
        tip.0.checked_sub(self.0)
    }

    /// Big-endian key bytes.
    #[must_use]
    pub const fn to_key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Inverse of [`Height::to_key`]; `None` when the length is wrong.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Option<Self> {
        Some(Self(u32::from_be_bytes(key.try_into().ok()?)))
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Height {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A text that is not the hex form of a 32-byte hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct HashParseError;

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Wraps hash bytes in the order the chain hashes them.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The raw hash bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Reads a disk key or value; `None` when the length is wrong.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// Hex in the chain's byte order, as Cardano prints hashes.
            #[must_use]
            pub fn to_hex(&self) -> String {
                to_hex(self.0.iter())
            }

            /// Hex in reversed byte order, as Bitcoin prints hashes.
            #[must_use]
            pub fn to_reversed_hex(&self) -> String {
                to_hex(self.0.iter().rev())
            }

            /// Inverse of the `to_hex` method.
            pub fn from_hex(text: &str) -> Result<Self, HashParseError> {
                from_hex_32(text).map(Self)
            }

            /// Inverse of the `to_reversed_hex` method.
            pub fn from_reversed_hex(text: &str) -> Result<Self, HashParseError> {
                let mut bytes = from_hex_32(text)?;
                bytes.reverse();
                Ok(Self(bytes))
            }
        }

        impl From<$name> for [u8; 32] {
            fn from(hash: $name) -> Self {
                hash.0
            }
        }

        impl From<&$name> for [u8; 32] {
            fn from(hash: &$name) -> Self {
                hash.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.to_reversed_hex())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_reversed_hex())
            }
        }
    };
}

hash_type! {
    /// A transaction id, in the byte order its chain hashes it. `Display` prints Bitcoin's
    /// reversed form, because log lines are read beside a node's; answers to users go through the
    /// chain's own text form.
    Txid
}
hash_type! {
    /// A block hash, in the byte order its chain hashes it; prints like [`Txid`].
    BlockHash
}

/// Lower-case hex of any byte string.
#[must_use]
pub fn hex_encode(bytes: &[u8]) -> String {
    to_hex(bytes.iter())
}

/// Bytes of a hex text; `None` when a character or the length is wrong.
#[must_use]
pub fn hex_decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn to_hex<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

fn from_hex_32(text: &str) -> Result<[u8; 32], HashParseError> {
    hex_decode(text).and_then(|bytes| bytes.try_into().ok()).ok_or(HashParseError)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// One output of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutPoint {
    txid: Txid,
    index: u32,
}

impl OutPoint {
    /// Length of the disk key: 32 bytes of txid, then a big-endian index.
    pub const KEY_LEN: usize = 32 + 4;

    /// Names output `index` of `txid`.
    #[must_use]
    pub const fn new(txid: Txid, index: u32) -> Self {
        Self { txid, index }
    }

    /// The transaction that created the output.
    #[must_use]
    pub const fn txid(&self) -> &Txid {
        &self.txid
    }

    /// Position among the outputs of that transaction.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Encodes the outpoint so that all outputs of a transaction are adjacent and in order.
    #[must_use]
    pub fn to_key(self) -> [u8; Self::KEY_LEN] {
        let mut key = [0; Self::KEY_LEN];
        key[..32].copy_from_slice(self.txid.as_bytes());
        key[32..].copy_from_slice(&self.index.to_be_bytes());
        key
    }

    /// Inverse of [`OutPoint::to_key`]; `None` when the length is wrong.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (txid, index) = key.split_at_checked(32)?;
        Some(Self::new(Txid::from_slice(txid)?, u32::from_be_bytes(index.try_into().ok()?)))
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.index)
    }
}

/// A place on a chain: what every answer of the index is true of.
///
/// `slot` orders blocks on chains that have slots; elsewhere it equals the height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPoint {
    /// Number of the block.
    pub height: Height,
    /// Slot of the block.
    pub slot: u64,
    /// Hash of the block.
    pub hash: BlockHash,
}

/// The fixed-width form under which outputs of one address (or script) are indexed.
///
/// Which hash fills it is the chain's choice: Bitcoin takes the first 28 bytes of the SHA-256 of
/// the output script, so that Electrum script hashes can be looked up too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddressKey([u8; 28]);

impl AddressKey {
    /// Width of the key in bytes.
    pub const LEN: usize = 28;

    /// Wraps the 28 bytes of the chain's address hash.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 28]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 28] {
        &self.0
    }
}

/// Accumulated proof of work of a chain: a 256-bit number, big endian so that bytes compare like
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChainWork([u8; 32]);

impl ChainWork {
    /// Wraps big-endian bytes.
    #[must_use]
    pub const fn from_be_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The big-endian bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The sum of two amounts of work; saturates at the largest number.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = [0; 32];
        let mut carry = 0u16;
        for i in (0..32).rev() {
            let digit = u16::from(self.0[i]) + u16::from(other.0[i]) + carry;
            sum[i] = digit.to_be_bytes()[1];
            carry = digit >> 8;
        }
        if carry > 0 { Self([u8::MAX; 32]) } else { Self(sum) }
    }

    /// The work on top of `below`; `None` when that is more than all of it.
    #[must_use]
    pub fn above(&self, below: &Self) -> Option<Self> {
        let mut rest = [0; 32];
        let mut borrow = 0u16;
        for i in (0..32).rev() {
            let digit = 256 + u16::from(self.0[i]) - u16::from(below.0[i]) - borrow;
            rest[i] = digit.to_be_bytes()[1];
            borrow = u16::from(digit < 256);
        }
        (borrow == 0).then_some(Self(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outpoint_key_is_pinned_and_orders_indexes_numerically() {
        let txid = Txid::from_bytes([7; 32]);
        let low = OutPoint::new(txid, 255).to_key();
        let high = OutPoint::new(txid, 256).to_key();
        assert_eq!(&low[30..], [7, 7, 0, 0, 0, 255]);
        assert!(low < high);
        assert_eq!(OutPoint::from_key(&high), Some(OutPoint::new(txid, 256)));
        assert_eq!(OutPoint::from_key(&high[1..]), None);
    }

    #[test]
    fn heights_never_wrap() {
        assert_eq!(Height::new(3).minus(5), Height::GENESIS);
        assert_eq!(Height::new(5).depth_below(Height::new(3)), None);
        assert_eq!(Height::GENESIS.parent(), None);
    }

    #[test]
    fn work_adds_with_carry_and_saturates() {
        let mut one = [0; 32];
        one[31] = 1;
        let mut byte = [0; 32];
        byte[31] = 255;
        let mut sum = [0; 32];
        sum[30] = 1;
        let (one, byte) = (ChainWork::from_be_bytes(one), ChainWork::from_be_bytes(byte));
        assert_eq!(byte.plus(&one), ChainWork::from_be_bytes(sum));
        assert_eq!(byte.plus(&one).above(&byte), Some(one));
        assert_eq!(byte.above(&byte), Some(ChainWork::default()));
        assert_eq!(one.above(&byte), None);
        let all = ChainWork::from_be_bytes([255; 32]);
        assert_eq!(all.plus(&one), all);
    }

    #[test]
    fn hex_refuses_what_is_not_hex() {
        assert_eq!(hex_decode("0aFf"), Some(vec![10, 255]));
        assert_eq!(hex_decode("0"), None);
        assert_eq!(hex_decode("+1"), None);
        assert_eq!(hex_decode("é1"), None);
    }
}
