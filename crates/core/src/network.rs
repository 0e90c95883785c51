//! The networks utxokeep knows, and the few consensus numbers the rules need.

use std::{fmt, str::FromStr};

use blake2b_simd::Params;
use sha2::{Digest, Sha256};

use crate::{
    cardano::canonical_address,
    types::{AddressKey, BlockHash, HashParseError, Height},
};

/// A public or private network of a chain. Names and magics are part of the disk format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Network {
    /// Bitcoin's main network.
    BitcoinMainnet,
    /// Bitcoin's third test network.
    BitcoinTestnet3,
    /// Bitcoin's fourth test network.
    BitcoinTestnet4,
    /// Bitcoin's default signet.
    BitcoinSignet,
    /// A private Bitcoin chain for tests.
    BitcoinRegtest,
    /// Cardano's main network.
    CardanoMainnet,
    /// Cardano's test network before production.
    CardanoPreprod,
    /// Cardano's test network for early features.
    CardanoPreview,
    /// A private Cardano chain, described by its genesis files.
    CardanoDevnet,
}

/// A chain and network that utxokeep does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown network {network:?} of chain {chain:?}; known: {}", Network::known())]
pub struct UnknownNetwork {
    /// The chain as given.
    pub chain: String,
    /// The network as given.
    pub network: String,
}

impl Network {
    /// Every network, in the order of their disk names.
    pub const ALL: [Self; 9] = [
        Self::BitcoinMainnet,
        Self::BitcoinTestnet3,
        Self::BitcoinTestnet4,
        Self::BitcoinSignet,
        Self::BitcoinRegtest,
        Self::CardanoMainnet,
        Self::CardanoPreprod,
        Self::CardanoPreview,
        Self::CardanoDevnet,
    ];

    /// Finds a network by the names users give: `bitcoin`, `regtest`.
    pub fn find(chain: &str, network: &str) -> Result<Self, UnknownNetwork> {
        Self::ALL
            .into_iter()
            .find(|known| known.chain() == chain && known.name() == network)
            .ok_or_else(|| UnknownNetwork { chain: chain.to_owned(), network: network.to_owned() })
    }

    fn known() -> String {
        Self::ALL.map(|network| network.to_string()).join(", ")
    }

    /// Name of the chain.
    #[must_use]
    pub const fn chain(self) -> &'static str {
        if self.is_cardano() { "cardano" } else { "bitcoin" }
    }

    /// Whether this is a network of Cardano.
    #[must_use]
    pub const fn is_cardano(self) -> bool {
        matches!(
            self,
            Self::CardanoMainnet
                | Self::CardanoPreprod
                | Self::CardanoPreview
                | Self::CardanoDevnet
        )
    }

    /// Whether anybody may extend its chain, so that its reorganisations are nobody's choice. The
    /// others are made by whoever uses them.
    #[must_use]
    pub const fn is_public(self) -> bool {
        !matches!(self, Self::BitcoinRegtest | Self::CardanoDevnet)
    }

    /// Name of the network within its chain.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitcoinMainnet | Self::CardanoMainnet => "mainnet",
            Self::BitcoinTestnet3 => "testnet3",
            Self::BitcoinTestnet4 => "testnet4",
            Self::BitcoinSignet => "signet",
            Self::BitcoinRegtest => "regtest",
            Self::CardanoPreprod => "preprod",
            Self::CardanoPreview => "preview",
            Self::CardanoDevnet => "devnet",
        }
    }

    /// The four bytes that frame blocks of this network in files and on the wire. Cardano's are
    /// used in handshakes only; those of a private chain are in its genesis files.
    #[must_use]
    pub const fn magic(self) -> [u8; 4] {
        match self {
            Self::BitcoinMainnet => [0xf9, 0xbe, 0xb4, 0xd9],
            Self::BitcoinTestnet3 => [0x0b, 0x11, 0x09, 0x07],
            Self::BitcoinTestnet4 => [0x1c, 0x16, 0x3f, 0x28],
            Self::BitcoinSignet => [0x0a, 0x03, 0xcf, 0x40],
            Self::BitcoinRegtest => [0xfa, 0xbf, 0xb5, 0xda],
            Self::CardanoMainnet => 764_824_073u32.to_be_bytes(),
            Self::CardanoPreprod => 1u32.to_be_bytes(),
            Self::CardanoPreview => 2u32.to_be_bytes(),
            Self::CardanoDevnet => [0; 4],
        }
    }

    /// The fixed-width form an address is indexed under. Bitcoin: the first 28 bytes of the SHA-256
    /// of the output script; the full hash is what Electrum calls a script hash. Cardano:
    /// Blake2b-224 of the canonical address.
    #[must_use]
    pub fn address_key(self, address: &[u8]) -> AddressKey {
        let mut key = [0; AddressKey::LEN];
        if self.is_cardano() {
            let hash = Params::new().hash_length(AddressKey::LEN).hash(&canonical_address(address));
            key.copy_from_slice(hash.as_bytes());
        } else {
            let hash: [u8; 32] = Sha256::digest(address).into();
            key.copy_from_slice(&hash[..AddressKey::LEN]);
        }
        AddressKey::from_bytes(key)
    }

    /// A hash as people of the chain write it: reversed on Bitcoin, as it is on Cardano.
    #[must_use]
    pub fn hash_text(self, hash: &[u8; 32]) -> String {
        let hash = BlockHash::from_bytes(*hash);
        if self.is_cardano() { hash.to_hex() } else { hash.to_reversed_hex() }
    }

    /// Inverse of [`Network::hash_text`].
    pub fn parse_hash(self, text: &str) -> Result<[u8; 32], HashParseError> {
        let hash = if self.is_cardano() {
            BlockHash::from_hex(text)
        } else {
            BlockHash::from_reversed_hex(text)
        };
        hash.map(|hash| *hash.as_bytes())
    }

    /// Hash that the chain starts from, in the chain's byte order. Bitcoin: of the first block.
    /// Cardano: of the Byron genesis file, which is the parent of the first block; zeros where only
    /// the genesis files know.
    #[must_use]
    pub fn genesis_hash(self) -> BlockHash {
        let display = match self {
            Self::BitcoinMainnet => {
                "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
            }
            Self::BitcoinTestnet3 => {
                "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"
            }
            Self::BitcoinTestnet4 => {
                "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"
            }
            Self::BitcoinSignet => {
                "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"
            }
            Self::BitcoinRegtest => {
                "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
            }
            Self::CardanoMainnet => {
                "5f20df933584822601f9e3f8c024eb5eb252fe8cefb24d1317dc3d432e940ebb"
            }
            Self::CardanoPreprod => {
                "d4b8de7a11d929a323373cbab6c1a9bdc931beffff11db111cf9d57356ee1937"
            }
            Self::CardanoPreview => {
                "83de1d7302569ad56cf9139a41e2e11346d4cb4a31c00142557b6ab3fa550761"
            }
            Self::CardanoDevnet => {
                "0000000000000000000000000000000000000000000000000000000000000000"
            }
        };
        self.parse_hash(display)
            .map(BlockHash::from_bytes)
            .expect("the constants above are 64 hex digits")
    }

    /// How many blocks a reorganisation is expected to stay within. Bitcoin: half of the 288 blocks
    /// of undo data that Bitcoin Core never prunes. Cardano: the security parameter of the genesis
    /// file. Window defaults are multiples of it.
    #[must_use]
    pub const fn security_blocks(self) -> u32 {
        match self {
            Self::CardanoPreview => 432,
            Self::CardanoMainnet | Self::CardanoPreprod | Self::CardanoDevnet => 2_160,
            _ => 144,
        }
    }

    /// Blocks a coinbase output must wait before it may be spent.
    #[must_use]
    pub const fn coinbase_maturity(self) -> u32 {
        100
    }

    /// The newly created amount a coinbase may claim at `height`, before fees.
    #[must_use]
    pub const fn subsidy(self, height: Height) -> u64 {
        if self.is_cardano() {
            return 0;
        }
        let interval = match self {
            Self::BitcoinRegtest => 150,
            _ => 210_000,
        };
        let halvings = height.get() / interval;
        if halvings >= 64 { 0 } else { 5_000_000_000 >> halvings }
    }

    /// Whether a block at `height` may create a transaction that already has unspent outputs.
    ///
    /// Two mainnet blocks did so before the rule against it; their coinbases replaced older ones.
    #[must_use]
    pub const fn may_overwrite(self, height: Height) -> bool {
        matches!(self, Self::BitcoinMainnet) && matches!(height.get(), 91_842 | 91_880)
    }

    /// The height at which a later block replaces the coinbase of the one at `height`, which nobody
    /// had spent.
    #[must_use]
    pub const fn overwritten_at(self, height: Height) -> Option<Height> {
        match (self, height.get()) {
            (Self::BitcoinMainnet, 91_722) => Some(Height::new(91_880)),
            (Self::BitcoinMainnet, 91_812) => Some(Height::new(91_842)),
            _ => None,
        }
    }

    /// Whether a coinbase at `height` must carry that height; on Cardano every header does.
    #[must_use]
    pub const fn has_height_in_coinbase(self, height: Height) -> bool {
        let from = match self {
            Self::BitcoinMainnet => 227_931,
            Self::BitcoinTestnet3 => 21_111,
            Self::BitcoinTestnet4 | Self::BitcoinSignet | Self::BitcoinRegtest => 1,
            _ => 0,
        };
        height.get() >= from
    }

    /// Whether a block at `height` could create a transaction that exists already, so that new
    /// outputs must be looked up.
    ///
    /// Once coinbases carry their height none can be repeated; any other repeated transaction
    /// spends outputs that its first appearance spent, so it takes a repeated coinbase to start
    /// with. Blocks from before that rule all have to be looked up.
    #[must_use]
    pub const fn can_repeat_transactions(self, height: Height) -> bool {
        !self.has_height_in_coinbase(height)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.chain(), self.name())
    }
}

impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (chain, network) = text.split_once('/').unwrap_or(("", text));
        Self::find(chain, network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for network in Network::ALL {
            assert_eq!(network.to_string().parse(), Ok(network));
        }
        let error = Network::find("bitcoin", "nonet").unwrap_err();
        assert!(error.to_string().contains("bitcoin/regtest"), "{error}");
    }

    #[test]
    fn subsidy_halves_and_ends() {
        let regtest = Network::BitcoinRegtest;
        assert_eq!(regtest.subsidy(Height::new(149)), 5_000_000_000);
        assert_eq!(regtest.subsidy(Height::new(150)), 2_500_000_000);
        assert_eq!(regtest.subsidy(Height::new(150 * 64)), 0);
        assert_eq!(Network::BitcoinMainnet.subsidy(Height::new(840_000)), 312_500_000);
    }
}
