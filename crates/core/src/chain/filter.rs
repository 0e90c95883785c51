//! Which outputs a partial index keeps.

use std::collections::BTreeSet;

use super::{
    block::Block,
    partial::OwnerKeys,
    record::Corrupt,
    rows::{IndexKey, IndexTag},
};
use crate::{network::Network, types::AddressKey};

const ENTRY_LEN: usize = 1 + AddressKey::LEN;

/// Addresses and credentials whose outputs are kept; an empty filter keeps everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    owners: BTreeSet<IndexKey>,
}

impl Filter {
    /// Keeps outputs of these owners.
    #[must_use]
    pub fn new(owners: impl IntoIterator<Item = IndexKey>) -> Self {
        Self { owners: owners.into_iter().collect() }
    }

    /// Whether everything is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// How many addresses and credentials are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether outputs at an address are kept.
    #[must_use]
    pub fn keeps(&self, network: Network, address: &[u8]) -> bool {
        self.is_empty() || self.keeps_all_of(&OwnerKeys::address(network, address))
    }

    /// Whether every output of an owner is kept. Of a credential that is not in the filter some
    /// outputs may be kept, at addresses that are: that is not all of them.
    #[must_use]
    pub fn keeps_all_of(&self, owner: &OwnerKeys) -> bool {
        self.is_empty()
            || self.owners.contains(&owner.key)
            || owner.credentials.iter().flatten().any(|owner| self.owners.contains(owner))
    }

    /// The block without the outputs that are not kept.
    #[must_use]
    pub fn apply(&self, block: &Block, network: Network) -> Block {
        let mut filtered = block.clone();
        filtered.outputs.clear();
        let end = |len: usize| u32::try_from(len).expect("it only becomes shorter");
        for tx in &mut filtered.txs {
            let start = end(filtered.outputs.len());
            let kept = block
                .outputs_of(tx)
                .iter()
                .filter(|output| self.keeps(network, block.address_of(output)));
            filtered.outputs.extend(kept.cloned());
            tx.outputs = start..end(filtered.outputs.len());
        }
        filtered
    }

    /// Bytes that are equal for equal filters.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.owners.iter();
        entries.flat_map(|o| [&[o.tag as u8], o.key.as_bytes().as_slice()].concat()).collect()
    }

    /// Inverse of [`Filter::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new("filter", "malformed entry");
        let mut owners = BTreeSet::new();
        for entry in bytes.chunks(ENTRY_LEN) {
            let (tag, key) = entry.split_first().ok_or_else(damaged)?;
            let tag = IndexTag::from_byte(*tag).ok_or_else(damaged)?;
            let key = AddressKey::from_bytes(key.try_into().map_err(|_| damaged())?);
            owners.insert(IndexKey { tag, key });
        }
        Ok(Self { owners })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Network = Network::CardanoPreview;

    fn base(payment: u8, stake: u8) -> Vec<u8> {
        [&[0x00], [payment; 28].as_slice(), &[stake; 28]].concat()
    }

    #[test]
    fn a_filter_keeps_addresses_and_credentials_and_round_trips() {
        let address = IndexKey::address(NETWORK, &base(1, 1));
        let payment = IndexKey { tag: IndexTag::PaymentKey, key: AddressKey::from_bytes([2; 28]) };
        let stake = IndexKey { tag: IndexTag::StakeKey, key: AddressKey::from_bytes([3; 28]) };
        let filter = Filter::new([stake, address, payment]);
        for (own, other, kept) in
            [(1, 1, true), (1, 2, false), (2, 9, true), (9, 2, false), (9, 3, true), (3, 9, false)]
        {
            assert_eq!(filter.keeps(NETWORK, &base(own, other)), kept, "{own} {other}");
        }
        assert!(filter.keeps_all_of(&payment.into()) && filter.keeps_all_of(&address.into()));
        let of_address =
            IndexKey { tag: IndexTag::PaymentKey, key: AddressKey::from_bytes([1; 28]) };
        assert!(!filter.keeps_all_of(&of_address.into()), "it may have other addresses");
        assert!(Filter::default().keeps_all_of(&of_address.into()));
        let bytes = filter.encode();
        assert_eq!(bytes.len(), 3 * ENTRY_LEN);
        assert_eq!(Filter::decode(&bytes), Ok(filter));
        assert!(Filter::decode(&bytes[1..]).is_err());
        assert!(Filter::default().keeps(NETWORK, &[]));
    }
}
