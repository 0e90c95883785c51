//! Vocabulary of the ledger: ids, amounts and times that cannot be mixed up.

use std::fmt;

use crate::types::{HashParseError, hex_decode, hex_encode};

/// A wallet of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalletId(i64);

impl WalletId {
    /// Wraps the number the database gave to the wallet.
    #[must_use]
    pub const fn new(raw: i64) -> Self {
        Self(raw)
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for WalletId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who holds a lease: 32 bytes that the holder chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId([u8; 32]);

impl LeaseId {
    /// Wraps the bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a column; `None` when the length is wrong.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The text form: 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex_encode(&self.0)
    }

    /// Inverse of [`LeaseId::to_hex`].
    pub fn from_hex(text: &str) -> Result<Self, HashParseError> {
        hex_decode(text).and_then(|bytes| Self::from_slice(&bytes)).ok_or(HashParseError)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({})", self.to_hex())
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// An amount that does not fit into the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("amount {0} is larger than all coins of any chain; check its unit")]
pub struct AmountTooLarge(pub u64);

/// An amount in the smallest unit of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(u64);

impl Amount {
    /// No coins.
    pub const ZERO: Self = Self(0);
    /// More than exists on any chain (45 billion ada, in lovelace), and small enough that a
    /// database can add up hundreds of such amounts in a signed 64-bit integer.
    pub const MAX: Self = Self(45_000_000_000_000_000);

    /// Checks an amount that comes from outside.
    pub const fn new(raw: u64) -> Result<Self, AmountTooLarge> {
        if raw > Self::MAX.0 { Err(AmountTooLarge(raw)) } else { Ok(Self(raw)) }
    }

    /// Reads a column; `None` when it is negative or too large.
    #[must_use]
    pub fn from_column(raw: i64) -> Option<Self> {
        u64::try_from(raw).ok().and_then(|raw| Self::new(raw).ok())
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as databases store it.
    #[must_use]
    pub const fn to_column(self) -> i64 {
        // `MAX` is below 2^63, so the bits mean the same.
        self.0.cast_signed()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: microseconds since 1970, UTC. The caller's clock, never ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(i64);

impl Micros {
    /// Wraps a number of microseconds.
    #[must_use]
    pub const fn new(raw: i64) -> Self {
        Self(raw)
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The time `micros` later; saturates at the end of time.
    #[must_use]
    pub const fn plus(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_outside_every_chain_are_refused() {
        assert_eq!(Amount::new(Amount::MAX.get()), Ok(Amount::MAX));
        assert_eq!(Amount::new(Amount::MAX.get() + 1), Err(AmountTooLarge(Amount::MAX.get() + 1)));
        assert_eq!(Amount::from_column(-1), None);
        assert_eq!(Amount::from_column(Amount::MAX.to_column()), Some(Amount::MAX));
    }

    #[test]
    fn lease_ids_read_back_from_text() {
        let id = LeaseId::from_bytes([0xab; 32]);
        assert_eq!(LeaseId::from_hex(&id.to_hex()), Ok(id));
        assert_eq!(LeaseId::from_hex("ab"), Err(HashParseError));
        assert_eq!(LeaseId::from_slice(&[0; 31]), None);
    }
}
