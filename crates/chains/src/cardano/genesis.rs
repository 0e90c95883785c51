//! What the genesis files of a chain say: where it starts, how it counts time, what exists already.
//!
//! Public networks are built in. The genesis of a private chain is read from its files once and then
//! kept in the database.
//!
//! # Invariants
//!
//! * Outputs are in the order of their transaction ids, and no id occurs twice.
//! * No length of a slot or an epoch is zero.

mod json;
mod public;
mod stored;

use std::{fmt, sync::Arc};

use utxokeep_core::{BlockHash, Network, Txid};

use super::{GenesisError, hash::blake2b_256};

/// An output that exists before the first block. Its index is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisOutput {
    /// Hash of the address: there is no transaction that made it.
    pub txid: Txid,
    /// Bytes of the address.
    pub address: Vec<u8>,
    /// Amount in lovelace.
    pub value: u64,
}

impl GenesisOutput {
    fn new(address: Vec<u8>, value: u64) -> Self {
        Self { txid: Txid::from_bytes(blake2b_256(&[&address])), address, value }
    }
}

/// What the genesis files of a chain say. Clones are cheap.
#[derive(Clone)]
pub struct Genesis {
    facts: Facts,
    outputs: Outputs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    hash: BlockHash,
    security_blocks: u32,
    network_magic: u32,
    network_id: u8,
    start_ms: u64,
    /// How many slots there are before Shelley.
    byron_slots: u64,
    byron: Pace,
    shelley: Pace,
}

/// How time passes in an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    epoch_slots: u64,
    slot_ms: u64,
}

#[derive(Clone)]
enum Outputs {
    /// The 14,505 vouchers of the main network, made when they are first asked for.
    Vouchers,
    Listed(Arc<[GenesisOutput]>),
}

impl Outputs {
    /// Sorts outputs; answers the address of one that is there twice.
    fn list(mut outputs: Vec<GenesisOutput>) -> Result<Self, Vec<u8>> {
        outputs.sort_unstable_by_key(|output| output.txid);
        match outputs.windows(2).find(|pair| pair[0].txid == pair[1].txid) {
            Some(twice) => Err(twice[0].address.clone()),
            None => Ok(Self::Listed(outputs.into())),
        }
    }
}

impl Genesis {
    /// The genesis of a public network of Cardano.
    #[must_use]
    pub fn public(network: Network) -> Option<Self> {
        public::genesis_of(network)
    }

    /// Reads the genesis files of a chain, in JSON. A chain that has a Byron file but is no public
    /// network is taken to start in Shelley or later, as private chains do.
    pub fn from_files(byron: Option<&[u8]>, shelley: &[u8]) -> Result<Self, GenesisError> {
        json::read(byron, shelley)
    }

    /// Bytes to keep in a database.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        stored::encode(self)
    }

    /// Inverse of [`Genesis::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, GenesisError> {
        stored::decode(bytes)
    }

    /// Hash of the Byron genesis file, which the first block names as its parent; zeros without
    /// such a file.
    #[must_use]
    pub const fn hash(&self) -> BlockHash {
        self.facts.hash
    }

    /// How many blocks can be rolled back: the chain's security parameter.
    #[must_use]
    pub const fn security_blocks(&self) -> u32 {
        self.facts.security_blocks
    }

    /// The number that nodes of the chain know each other by.
    #[must_use]
    pub const fn network_magic(&self) -> u32 {
        self.facts.network_magic
    }

    /// The number in addresses of the chain: 1 on the main network, 0 on all others.
    #[must_use]
    pub const fn network_id(&self) -> u8 {
        self.facts.network_id
    }

    /// First slot after Byron.
    #[must_use]
    pub const fn slot_start_of_shelley(&self) -> u64 {
        self.facts.byron_slots
    }

    /// Epoch of a slot, and when it starts, in seconds since 1970.
    #[must_use]
    pub fn epoch_and_time(&self, slot: u64) -> (u32, u64) {
        let Facts { start_ms, byron_slots, byron, shelley, .. } = self.facts;
        let in_byron = slot.min(byron_slots);
        let since = slot - in_byron;
        let epoch = in_byron / byron.epoch_slots + since / shelley.epoch_slots;
        let time_ms = start_ms
            .saturating_add(in_byron.saturating_mul(byron.slot_ms))
            .saturating_add(since.saturating_mul(shelley.slot_ms));
        (u32::try_from(epoch).unwrap_or(u32::MAX), time_ms / 1_000)
    }

    /// Counts a slot of Byron, which its blocks number within their epoch, from the start.
    pub(super) const fn byron_slot(&self, epoch: u64, slot: u64) -> u64 {
        epoch.saturating_mul(self.facts.byron.epoch_slots).saturating_add(slot)
    }

    /// Everything that exists before the first block, in the order of transaction ids. Amounts of
    /// zero are included: Byron has them, and only Shelley drops them.
    #[must_use]
    pub fn outputs(&self) -> &[GenesisOutput] {
        match &self.outputs {
            Outputs::Vouchers => public::mainnet_outputs(),
            Outputs::Listed(outputs) => outputs,
        }
    }
}

impl fmt::Debug for Genesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Genesis").field("facts", &self.facts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_public_networks_have_known_epochs_and_times() {
        let mainnet = Genesis::public(Network::CardanoMainnet).unwrap();
        let preprod = Genesis::public(Network::CardanoPreprod).unwrap();
        let preview = Genesis::public(Network::CardanoPreview).unwrap();
        for (genesis, slot, expected) in [
            (&mainnet, 0, (0, 1_506_203_091)),
            (&mainnet, 21_599, (0, 1_506_635_071)),
            (&mainnet, 21_600, (1, 1_506_635_091)),
            (&mainnet, 4_492_799, (207, 1_596_059_071)),
            (&mainnet, 4_492_800, (208, 1_596_059_091)),
            (&mainnet, 16_588_800, (236, 1_608_155_091)),
            (&preprod, 86_399, (3, 1_655_769_580)),
            (&preprod, 86_400, (4, 1_655_769_600)),
            (&preview, 86_399, (0, 1_666_742_399)),
            (&preview, 86_400, (1, 1_666_742_400)),
        ] {
            assert_eq!(genesis.epoch_and_time(slot), expected, "slot {slot} of {genesis:?}");
        }
        let (epoch, _) = preview.epoch_and_time(u64::MAX);
        assert_eq!(epoch, u32::MAX, "slots that cannot be do not wrap");
        assert_eq!(mainnet.byron_slot(3, 7), 64_807);
        assert_eq!(mainnet.byron_slot(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(mainnet.slot_start_of_shelley(), 4_492_800);
        assert_eq!(preprod.slot_start_of_shelley(), 86_400);
        assert_eq!(preview.slot_start_of_shelley(), 0);
    }

    #[test]
    fn numbers_of_public_networks_agree_with_the_rules() {
        for network in Network::ALL {
            let is_public = network.is_cardano() && network != Network::CardanoDevnet;
            let Some(genesis) = Genesis::public(network) else {
                assert!(!is_public, "{network}");
                continue;
            };
            assert!(is_public, "{network}");
            assert_eq!(genesis.hash(), network.genesis_hash());
            assert_eq!(genesis.security_blocks(), network.security_blocks());
            assert_eq!(genesis.network_magic().to_be_bytes(), network.magic());
            let is_main = network == Network::CardanoMainnet;
            assert_eq!(genesis.network_id(), u8::from(is_main));
        }
    }
}
