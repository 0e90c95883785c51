//! The consumer of the chain log that has come least far.

use std::fmt;

use crate::types::Height;

/// Name of a consumer: lower-case letters, digits and hyphens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConsumerName {
    bytes: [u8; Self::LEN_MAX],
    len: u8,
}

impl ConsumerName {
    /// Longest name, in bytes.
    pub const LEN_MAX: usize = 64;

    /// `None` for a text that no consumer can have as its name.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || text.len() > Self::LEN_MAX || !text.bytes().all(is_plain) {
            return None;
        }
        let mut bytes = [0; Self::LEN_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self { bytes, len: u8::try_from(text.len()).ok()? })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len.into()]).unwrap_or_default()
    }
}

impl fmt::Display for ConsumerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ConsumerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The named consumer of the chain log that has come least far. Nothing above its height is safe:
/// it may still have to read what would be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerBound {
    /// Who it is.
    pub name: ConsumerName,
    /// The highest block of the chain whose effects it has committed; 0 while there is none.
    pub height: Height,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_short() {
        let longest = "a".repeat(ConsumerName::LEN_MAX);
        for name in ["wallets", "a-1", &longest] {
            assert_eq!(ConsumerName::new(name).expect("it is a name").as_str(), name);
        }
        for name in ["", "Wallets", "a b", "ä", &"a".repeat(ConsumerName::LEN_MAX + 1)] {
            assert_eq!(ConsumerName::new(name), None, "{name}");
        }
    }
}
