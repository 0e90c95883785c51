//! How people name a block: by its height, by its hash, or by a slot.

use std::{fmt, str::FromStr};

use crate::types::{Height, hex_decode};

/// A text in front of the number of a slot.
const SLOT: &str = "slot:";

/// A block, as a question names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockName {
    /// The block at this height.
    Height(Height),
    /// The block with this hash, as people of its chain write it: 64 hexadecimal digits.
    Hash(String),
    /// The newest block of this slot or an earlier one.
    Slot(u64),
}

/// A text that names no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockNameError {
    /// Neither a height nor a hash nor a slot.
    #[error(
        "{text:?} names no block: expected a height, a block hash of 64 hexadecimal digits, or \
         slot:NUMBER"
    )]
    Malformed {
        /// What was given, unchanged.
        text: String,
    },
    /// A height that no chain reaches.
    #[error("height {text} is too large")]
    TooHigh {
        /// The digits that were given.
        text: String,
    },
}

impl FromStr for BlockName {
    type Err = BlockNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || BlockNameError::Malformed { text: text.to_owned() };
        if let Some(slot) = text.strip_prefix(SLOT) {
            return slot.parse().map(Self::Slot).map_err(|_| malformed());
        }
        if text.len() == 64 && hex_decode(text).is_some() {
            return Ok(Self::Hash(text.to_owned()));
        }
        if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(malformed());
        }
        let too_high = |_| BlockNameError::TooHigh { text: text.to_owned() };
        text.parse().map(Self::Height).map_err(too_high)
    }
}

impl TryFrom<String> for BlockName {
    type Error = BlockNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Height(height) => height.fmt(f),
            Self::Hash(hash) => hash.fmt(f),
            Self::Slot(slot) => write!(f, "{SLOT}{slot}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_three_kinds_of_names() {
        let hash = "0A".repeat(32);
        let digits = "12".repeat(32);
        for (text, name) in [
            ("0", BlockName::Height(Height::GENESIS)),
            ("4294967295", BlockName::Height(Height::new(u32::MAX))),
            (hash.as_str(), BlockName::Hash(hash.clone())),
            (digits.as_str(), BlockName::Hash(digits.clone())),
            ("slot:18446744073709551615", BlockName::Slot(u64::MAX)),
        ] {
            assert_eq!(text.parse(), Ok(name.clone()));
            assert_eq!(name.to_string(), text);
        }
        for wrong in ["", "x", "-1", "+1", " 1", "slot:", "slot:-1", "slot:x", "SLOT:1", &hash[1..]]
        {
            let error = wrong.parse::<BlockName>().unwrap_err();
            assert!(matches!(error, BlockNameError::Malformed { .. }), "{wrong}");
        }
        let error = "4294967296".parse::<BlockName>().unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
    }
}
