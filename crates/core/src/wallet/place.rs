//! Where in a chain a transaction can be, given what it spends and what spends it.
//!
//! A claim that no chain can fulfil is refused. A block is a fact: claims of relatives that
//! contradict it were wrong.

use crate::{
    hash::ChainHash,
    network::Network,
    types::{Height, Txid},
};

/// A place in the chain. The position is `None` where nobody said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxPlace {
    /// Height of the block.
    pub height: Height,
    /// Position in the block.
    pub position: Option<u32>,
}

impl TxPlace {
    /// Whether a transaction here can spend from one at `parent`. Blocks list parents first, and a
    /// coinbase is spent in no block but later ones.
    #[must_use]
    pub fn can_spend_from(self, parent: Self, parent_is_coinbase: bool) -> bool {
        if parent.height != self.height {
            return parent.height < self.height;
        }
        match (parent.position, self.position) {
            _ if parent_is_coinbase => false,
            (Some(parent), Some(child)) => parent < child,
            _ => true,
        }
    }
}

/// A stored transaction in a block that spends from the one in question, or that it spends from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative {
    /// Id of the parent or child.
    pub txid: Txid,
    /// Where it is.
    pub place: TxPlace,
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
}

/// What is known around a transaction that is said to be at a place.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
    /// Network of the chain. On Bitcoin each block starts with a coinbase.
    pub network: Network,
    /// What it spends from.
    pub parents: &'a [Relative],
    /// What spends from it.
    pub children: &'a [Relative],
    /// Another transaction at that position of that block.
    pub occupant: Option<Txid>,
}

/// Why a transaction cannot be where somebody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPlace {
    /// The first transaction of a block is its coinbase.
    #[error("position 0 of a block is its coinbase, and this transaction is none")]
    FirstIsCoinbase,
    /// A coinbase is nowhere else.
    #[error("a coinbase is at position 0 of its block, not at {0}")]
    CoinbaseIsFirst(u32),
    /// What it spends is in the chain only later.
    #[error("it spends from {parent}, which is in block {height} and not before it")]
    BeforeParent {
        /// What it spends from.
        parent: ChainHash,
        /// Height of that one.
        height: Height,
    },
    /// What spends it is in the chain before.
    #[error("{child} spends from it, and is in block {height} and not after it")]
    AfterChild {
        /// What spends from it.
        child: ChainHash,
        /// Height of that one.
        height: Height,
    },
    /// Only one transaction is at a position.
    #[error("{0} is at that position of the block")]
    Taken(ChainHash),
}

/// Refuses a claim that no chain can fulfil.
pub fn check_place(place: TxPlace, around: &Surroundings<'_>) -> Result<(), BadPlace> {
    let network = around.network;
    if !network.is_cardano() {
        match place.position {
            Some(0) if !around.is_coinbase => return Err(BadPlace::FirstIsCoinbase),
            Some(other @ 1..) if around.is_coinbase => {
                return Err(BadPlace::CoinbaseIsFirst(other));
            }
            _ => {}
        }
    }
    let spendable = |parent: &&Relative| place.can_spend_from(parent.place, parent.is_coinbase);
    if let Some(parent) = around.parents.iter().find(|parent| !spendable(parent)) {
        let (parent, height) = (network.hash(parent.txid), parent.place.height);
        return Err(BadPlace::BeforeParent { parent, height });
    }
    let spends = |child: &&Relative| child.place.can_spend_from(place, around.is_coinbase);
    if let Some(child) = around.children.iter().find(|child| !spends(child)) {
        let (child, height) = (network.hash(child.txid), child.place.height);
        return Err(BadPlace::AfterChild { child, height });
    }
    around.occupant.map_or(Ok(()), |other| Err(BadPlace::Taken(network.hash(other))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Txid {
        Txid::from_bytes([n; 32])
    }

    fn named(n: u8) -> ChainHash {
        Network::BitcoinRegtest.hash(id(n))
    }

    fn at(height: u32, position: u32) -> TxPlace {
        TxPlace { height: Height::new(height), position: Some(position) }
    }

    fn somewhere(height: u32) -> TxPlace {
        TxPlace { height: Height::new(height), position: None }
    }

    fn relative(place: TxPlace, is_coinbase: bool) -> Relative {
        Relative { txid: id(7), place, is_coinbase }
    }

    const ALONE: Surroundings<'_> = Surroundings {
        is_coinbase: false,
        network: Network::BitcoinRegtest,
        parents: &[],
        children: &[],
        occupant: None,
    };

    #[test]
    fn position_0_is_the_coinbase_and_nothing_else() {
        assert_eq!(check_place(at(5, 0), &ALONE), Err(BadPlace::FirstIsCoinbase));
        assert_eq!(check_place(at(5, 1), &ALONE), Ok(()));
        assert_eq!(check_place(somewhere(5), &ALONE), Ok(()));
        let coinbase = Surroundings { is_coinbase: true, ..ALONE };
        assert_eq!(check_place(at(5, 0), &coinbase), Ok(()));
        assert_eq!(check_place(at(5, 3), &coinbase), Err(BadPlace::CoinbaseIsFirst(3)));
        let other_chain = Surroundings { network: Network::CardanoPreview, ..ALONE };
        assert_eq!(check_place(at(5, 0), &other_chain), Ok(()));
    }

    #[test]
    fn a_child_comes_after_its_parent() {
        let refused = |parent: TxPlace| {
            let parents = [relative(parent, false)];
            check_place(at(5, 4), &Surroundings { parents: &parents, ..ALONE }).is_err()
        };
        assert!(refused(at(6, 1)) && refused(at(5, 4)) && refused(at(5, 9)));
        assert!(!refused(at(4, 9)) && !refused(at(5, 3)) && !refused(somewhere(5)));
        let accepted = |child: TxPlace| {
            let children = [relative(child, false)];
            check_place(at(5, 4), &Surroundings { children: &children, ..ALONE }).is_ok()
        };
        assert!(accepted(at(6, 1)) && accepted(at(5, 5)) && accepted(somewhere(5)));
        assert!(!accepted(at(4, 9)) && !accepted(at(5, 3)));
    }

    #[test]
    fn a_coinbase_is_not_spent_in_its_own_block() {
        let parents = [relative(at(5, 0), true)];
        let around = Surroundings { parents: &parents, ..ALONE };
        let height = Height::new(5);
        let refused = Err(BadPlace::BeforeParent { parent: named(7), height });
        assert_eq!(check_place(at(5, 1), &around), refused);
        assert_eq!(check_place(at(6, 1), &around), Ok(()));
    }

    #[test]
    fn one_transaction_is_at_a_position() {
        let around = Surroundings { occupant: Some(id(9)), ..ALONE };
        assert_eq!(check_place(at(5, 1), &around), Err(BadPlace::Taken(named(9))));
    }
}
