//! How deep a block must lie before what it confirmed may leave the ledger.
//!
//! A reorganisation needs the rows of the blocks that it takes back: without them a spend that is
//! undone leaves its coin missing from the balance.

use crate::{network::Network, types::Height};

/// Blocks that always stay above what is pruned, whatever a setting says.
const PRUNE_DEPTH_BLOCKS_MIN: u32 = 100;

/// Why nothing was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrune {
    /// A reorganisation could reach what would go.
    #[error(
        "confirmed transactions up to height {asked} cannot go: the ledger is at {tip} and \
         {depth_blocks} blocks must stay above them, so that a reorganisation finds them; the \
         highest that can be asked for is {highest}"
    )]
    TooShallow {
        /// What was asked for.
        asked: Height,
        /// Where the ledger is.
        tip: Height,
        /// Blocks that must lie above.
        depth_blocks: u32,
        /// What can be asked for.
        highest: Height,
    },
    /// No block lies deep enough.
    #[error(
        "confirmed transactions cannot go yet: {depth_blocks} blocks must lie above them, and the \
         ledger has not come that far"
    )]
    NoDepth {
        /// Blocks that must lie above.
        depth_blocks: u32,
    },
}

/// Blocks that must lie above what is pruned: as a setting says, but never fewer than the least
/// depth, nor than a chain database of the network can be rolled back by.
#[must_use]
pub fn prune_depth(network: Network, setting_blocks: u32) -> u32 {
    let window = network.security_blocks().saturating_mul(2);
    setting_blocks.max(window).max(PRUNE_DEPTH_BLOCKS_MIN)
}

/// Refuses to prune what a reorganisation can reach.
pub fn check_prune_depth(
    asked: Height,
    tip: Option<Height>,
    depth_blocks: u32,
) -> Result<(), BadPrune> {
    let deep = tip.and_then(|tip| Some((tip, tip.get().checked_sub(depth_blocks)?)));
    let Some((tip, highest)) = deep else {
        return Err(BadPrune::NoDepth { depth_blocks });
    };
    let highest = Height::new(highest);
    if asked > highest {
        return Err(BadPrune::TooShallow { asked, tip, depth_blocks, highest });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_reorganisation_reaches_is_pruned() {
        let at = Height::new;
        assert_eq!(check_prune_depth(at(100), Some(at(200)), 100), Ok(()));
        let refused = BadPrune::TooShallow {
            asked: at(101),
            tip: at(200),
            depth_blocks: 100,
            highest: at(100),
        };
        assert_eq!(check_prune_depth(at(101), Some(at(200)), 100), Err(refused));
        assert_eq!(check_prune_depth(at(0), Some(at(288)), 288), Ok(()));
        assert!(check_prune_depth(at(1), Some(at(288)), 288).is_err());
        let early = Err(BadPrune::NoDepth { depth_blocks: 100 });
        assert_eq!(check_prune_depth(at(0), Some(at(99)), 100), early);
        assert_eq!(check_prune_depth(at(0), None, 100), early);
    }

    #[test]
    fn a_setting_only_raises_the_depth() {
        assert_eq!(prune_depth(Network::BitcoinRegtest, 0), 288);
        assert_eq!(prune_depth(Network::BitcoinRegtest, 1_000), 1_000);
    }
}
