//! How deep a block must lie before what it confirmed may leave the ledger, and what to do when a
//! reorganisation reaches it nevertheless.
//!
//! A reorganisation needs the rows of the blocks that it takes back: without them a spend that is
//! undone leaves its coin missing from the balance. So a wallet remembers between which blocks it
//! was pruned, and looks at these blocks again when one of them leaves the chain.

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
    /// The wallet has not looked at all blocks, so that it cannot tell what is spent.
    #[error(
        "confirmed transactions cannot go before the wallet has looked at every block: its rescan \
         has come to block {next}; wait until it is done, or rescan the wallet"
    )]
    NotRescanned {
        /// The next block of the rescan.
        next: Height,
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

/// The lowest and the highest block from which confirmed transactions of a wallet were pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunedBlocks {
    lowest: Height,
    highest: Height,
}

/// What blocks that leave the chain mean for a wallet that was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterUndo {
    /// They lie above everything that was pruned.
    Untouched,
    /// All that was pruned left the chain, or will be applied again: the wallet has what the chain has.
    NothingPruned,
    /// Coins whose spends left the chain are missing: all blocks from the lowest of these on, which
    /// the wallet was pruned from and which are left, have to be looked at again.
    LookAgain(PrunedBlocks),
}

impl PrunedBlocks {
    /// From `lowest` to `highest`; `None` when that is no range.
    #[must_use]
    pub fn new(lowest: Height, highest: Height) -> Option<Self> {
        (lowest <= highest).then_some(Self { lowest, highest })
    }

    /// The range of blocks at these heights; `None` without any.
    pub fn of(heights: impl IntoIterator<Item = Height>) -> Option<Self> {
        let one = |height| Self { lowest: height, highest: height };
        heights.into_iter().map(one).reduce(Self::and)
    }

    /// The range that holds both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }

    /// The lowest block.
    #[must_use]
    pub const fn lowest(self) -> Height {
        self.lowest
    }

    /// The highest block.
    #[must_use]
    pub const fn highest(self) -> Height {
        self.highest
    }

    /// Whether a rescan that started at `from` and has come to the tip has brought back everything
    /// that is still on the chain.
    #[must_use]
    pub fn is_restored_by(self, from: Height) -> bool {
        from <= self.lowest
    }

    /// What it means that all blocks from `undone_from` on leave the chain, which ends at `tip` then.
    #[must_use]
    pub fn after_undo(self, undone_from: Height, tip: Option<Height>) -> AfterUndo {
        if undone_from > self.highest {
            AfterUndo::Untouched
        } else {
            let last = tip.or(undone_from.parent()).unwrap_or_default().min(self.highest);
            let left = Self::new(self.lowest, last).filter(|_| undone_from > self.lowest);
            left.map_or(AfterUndo::NothingPruned, AfterUndo::LookAgain)
        }
    }
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
    fn a_reorganisation_below_what_was_pruned_asks_for_a_rescan() {
        let at = Height::new;
        let pruned = PrunedBlocks::of([at(120), at(110), at(115)]).unwrap();
        assert_eq!((pruned.lowest(), pruned.highest()), (at(110), at(120)));
        let undo = |from: u32| pruned.after_undo(at(from), at(from).parent());
        assert_eq!(undo(121), AfterUndo::Untouched);
        let left = |highest| AfterUndo::LookAgain(PrunedBlocks::new(at(110), at(highest)).unwrap());
        assert_eq!(undo(120), left(119));
        assert_eq!(undo(111), left(110));
        assert_eq!(undo(110), AfterUndo::NothingPruned);
        // Blocks above the tip come again by themselves.
        assert_eq!(pruned.after_undo(at(115), Some(at(109))), AfterUndo::NothingPruned);
        assert_eq!(pruned.after_undo(at(115), Some(at(112))), left(112));
        assert_eq!(pruned.after_undo(at(115), None), left(114));
        assert!(pruned.is_restored_by(at(110)) && !pruned.is_restored_by(at(111)));
        assert_eq!(PrunedBlocks::of([]), None);
        assert_eq!(PrunedBlocks::new(at(2), at(1)), None);
    }

    #[test]
    fn a_setting_only_raises_the_depth() {
        assert_eq!(prune_depth(Network::BitcoinRegtest, 0), 288);
        assert_eq!(prune_depth(Network::BitcoinRegtest, 1_000), 1_000);
    }
}
