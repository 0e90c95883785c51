//! Hashes that know their chain, for everything that people read.
//!
//! Bitcoin's tools print hashes in reversed byte order, Cardano's as they are. A [`ChainHash`]
//! prints and serialises in the order of its chain; the internal order is there as bytes only.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{
    network::Network,
    types::{BlockHash, HashParseError, OutPoint, Txid},
};

/// A transaction id or block hash of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash {
    network: Network,
    bytes: [u8; 32],
}

impl ChainHash {
    /// The hash of a transaction or block of `network`.
    pub fn new(network: Network, hash: impl Into<[u8; 32]>) -> Self {
        Self { network, bytes: hash.into() }
    }

    /// Reads a hash as people of the chain write it.
    pub fn parse(network: Network, text: &str) -> Result<Self, HashParseError> {
        network.parse_hash(text).map(|bytes| Self { network, bytes })
    }

    /// The network of the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// The bytes in the order the chain hashes them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.network.hash_text(&self.bytes))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq<Txid> for ChainHash {
    fn eq(&self, other: &Txid) -> bool {
        self.bytes == *other.as_bytes()
    }
}

impl PartialEq<BlockHash> for ChainHash {
    fn eq(&self, other: &BlockHash) -> bool {
        self.bytes == *other.as_bytes()
    }
}

/// One output of one transaction of a chain; prints as `HASH:INDEX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainOutPoint {
    hash: ChainHash,
    index: u32,
}

impl ChainOutPoint {
    /// An output of `network`.
    #[must_use]
    pub fn new(network: Network, outpoint: &OutPoint) -> Self {
        Self { hash: ChainHash::new(network, outpoint.txid()), index: outpoint.index() }
    }

    /// Reads `HASH:INDEX` as people of the chain write it; `None` for any other text.
    #[must_use]
    pub fn parse(network: Network, text: &str) -> Option<Self> {
        let (hash, index) = text.rsplit_once(':')?;
        Some(Self { hash: ChainHash::parse(network, hash).ok()?, index: index.parse().ok()? })
    }

    /// The transaction that created the output.
    #[must_use]
    pub const fn hash(&self) -> &ChainHash {
        &self.hash
    }

    /// Position among the outputs of that transaction.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Display for ChainOutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.hash, self.index))
    }
}

impl Serialize for ChainOutPoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq<OutPoint> for ChainOutPoint {
    fn eq(&self, other: &OutPoint) -> bool {
        self.hash == *other.txid() && self.index == other.index()
    }
}

impl Network {
    /// A transaction id or block hash, to be printed as people of this chain write it.
    pub fn hash(self, hash: impl Into<[u8; 32]>) -> ChainHash {
        ChainHash::new(self, hash)
    }

    /// An output, to be printed as people of this chain write it.
    #[must_use]
    pub fn outpoint(self, outpoint: &OutPoint) -> ChainOutPoint {
        ChainOutPoint::new(self, outpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_print_in_the_order_of_their_chain_and_keep_their_bytes() {
        let mut bytes = [0; 32];
        bytes[0] = 0xab;
        let zeros = "00".repeat(31);
        let cases = [
            (Network::BitcoinRegtest, format!("{zeros}ab")),
            (Network::CardanoPreview, format!("ab{zeros}")),
        ];
        for (network, text) in cases {
            let hash = network.hash(Txid::from_bytes(bytes));
            assert_eq!(hash.to_string(), text);
            assert_eq!((hash.as_bytes(), hash.network()), (&bytes, network));
            assert_eq!(ChainHash::parse(network, &text), Ok(hash));
            let outpoint = OutPoint::new(Txid::from_bytes(bytes), 7);
            assert_eq!(network.outpoint(&outpoint).to_string(), format!("{text}:7"));
            assert!(network.outpoint(&outpoint) == outpoint);
            let named = network.outpoint(&outpoint);
            assert_eq!(ChainOutPoint::parse(network, &format!("{text}:7")), Some(named));
            assert_eq!(ChainOutPoint::parse(network, &format!("{text}:-7")), None);
            assert_eq!(format!("{hash:>70}|{named:<70}|"), format!("{text:>70}|{text}:7    |"));
        }
        assert_ne!(
            Network::BitcoinRegtest.hash(BlockHash::from_bytes(bytes)),
            Network::BitcoinSignet.hash(BlockHash::from_bytes(bytes))
        );
    }
}
