//! What an index that keeps only a part of its chain cannot know.
//!
//! # Invariants
//!
//! * What a partial index does not keep is unknown, never zero and never "does not exist".

use std::fmt;

use super::{filter::Filter, rows::IndexKey};
use crate::{network::Network, types::Height};

/// In what way an index is partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Height of its first block, when the blocks before it are missing.
    pub started_mid_chain_at: Option<Height>,
    /// Addresses and credentials whose outputs it keeps; zero when it keeps those of everybody.
    pub filter_entries: usize,
}

impl Partial {
    /// `None` for an index that keeps everything.
    #[must_use]
    pub fn new(filter: &Filter, started_mid_chain_at: Option<Height>) -> Option<Self> {
        let partial = Self { started_mid_chain_at, filter_entries: filter.len() };
        (started_mid_chain_at.is_some() || !filter.is_empty()).then_some(partial)
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.filter_entries, self.started_mid_chain_at) {
            (0, Some(height)) => write!(f, "only outputs created from height {height} on"),
            (entries, None) => write!(f, "only outputs of {}", FilterSize(entries)),
            (entries, Some(height)) => {
                let size = FilterSize(entries);
                write!(f, "only outputs of {size} created from height {height} on")
            }
        }
    }
}

/// How many owners a filter names, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterSize(pub usize);

impl fmt::Display for FilterSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 address or credential"),
            entries => write!(f, "{entries} addresses and credentials"),
        }
    }
}

/// Whom a question is about: what the rows are found by, and what else says whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerKeys {
    /// What the rows are indexed by.
    pub key: IndexKey,
    /// Payment and stake credential of an address, on chains that have them.
    pub credentials: [Option<IndexKey>; 2],
}

impl OwnerKeys {
    /// An address.
    #[must_use]
    pub fn address(network: Network, address: &[u8]) -> Self {
        let credentials = IndexKey::credentials(network, address);
        Self { key: IndexKey::address(network, address), credentials }
    }
}

/// An owner of whom only the key is known: a credential, or the hash of an address.
impl From<IndexKey> for OwnerKeys {
    fn from(key: IndexKey) -> Self {
        Self { key, credentials: [None, None] }
    }
}

impl From<&IndexKey> for OwnerKeys {
    fn from(key: &IndexKey) -> Self {
        (*key).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_is_not_called_many() {
        let text = |filter_entries, start: Option<u32>| {
            let started_mid_chain_at = start.map(Height::new);
            Partial { started_mid_chain_at, filter_entries }.to_string()
        };
        assert_eq!(text(1, None), "only outputs of 1 address or credential");
        assert_eq!(
            text(1, Some(7)),
            "only outputs of 1 address or credential created from height 7 on"
        );
        assert_eq!(text(2, None), "only outputs of 2 addresses and credentials");
        assert_eq!(text(0, Some(7)), "only outputs created from height 7 on");
    }
}
