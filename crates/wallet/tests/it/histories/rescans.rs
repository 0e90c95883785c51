//! Rescans, pruning, and reorganisations below what was pruned, as steps of a history.

use std::collections::BTreeSet;

use utxokeep_core::{Height, Txid, wallet::BadPrune};
use utxokeep_wallet::{LedgerError, PruneRule, Pruning};

use crate::histories::{
    model::FIRST,
    run::{History, NETWORK},
};

/// Blocks that stay above what is pruned, at least.
const DEPTH: u32 = 288;
/// Every which history grows a chain that is long enough to be pruned: it takes time.
const LONG_EVERY: u64 = 5;
/// Blocks of a rescan in one step, at most.
const BLOCKS_PER_STEP: u64 = 40;

impl History<'_> {
    /// Asks for a rescan, or goes on with it by some blocks; others may come and go in between.
    pub(crate) fn rescan(&mut self) {
        let Some(last) = self.chain.last().map(|linked| linked.block.height.get()) else {
            let refused = self.ledger.request_rescan(self.wallet, Height::new(FIRST), self.now);
            assert!(matches!(refused, Err(LedgerError::BlockNotFound { .. })), "{refused:?}");
            return;
        };
        if self.model.rescan.is_none() || self.random.below(8) == 0 {
            let lowest = FIRST.max(last.saturating_sub(30));
            let from =
                lowest + u32::try_from(self.random.below(u64::from(last - lowest) + 1)).unwrap();
            self.model.request_rescan(from);
            self.ledger.request_rescan(self.wallet, Height::new(from), self.now).unwrap();
        }
        for _ in 0..=self.random.below(BLOCKS_PER_STEP) {
            let Some(rescan) = self.model.rescan else { break };
            let place = usize::try_from(rescan.next - FIRST).unwrap();
            let (block, txs) = (&self.chain[place].block, &self.bodies[place]);
            let step = self.ledger.rescan_block(self.wallet, block, txs, self.now).unwrap();
            assert_eq!(step.failed, None);
            self.model.rescan_block();
            let next = self.model.rescan.map(|rescan| Height::new(rescan.next));
            assert_eq!(step.next, next);
        }
    }

    /// In some histories: a chain that is long enough, what it buries goes, and it goes itself.
    pub(crate) fn prune_or_reorganise(&mut self) {
        if !self.seed.is_multiple_of(LONG_EVERY) || self.chain.is_empty() {
            return;
        }
        let blocks = u32::try_from(self.chain.len()).unwrap();
        if blocks <= DEPTH {
            for _ in 0..DEPTH {
                let linked = self.next_linked();
                self.model.connect(Vec::new());
                self.ledger.apply_block(NETWORK, &linked, &[], self.now).unwrap();
                self.chain.push(linked);
                self.bodies.push(Vec::new());
            }
            self.undone.clear();
            self.prune();
        } else if self.random.below(3) == 0 {
            self.prune();
        } else {
            self.leave_long_chain();
        }
    }

    fn prune(&mut self) {
        let highest = self.model.next_height() - 1 - DEPTH;
        let up_to =
            FIRST + u32::try_from(self.random.below(u64::from(highest - FIRST) + 1)).unwrap();
        let rule = PruneRule {
            dead_before: None,
            confirmed_up_to: Some(Height::new(up_to)),
            txs_max: 1_000,
        };
        let pruned = self.ledger.prune(self.wallet, &rule, Pruning::Discard, self.now);
        if let Some(rescan) = self.model.rescan {
            let Err(LedgerError::BadPrune(BadPrune::NotRescanned { next })) = pruned else {
                panic!("{pruned:?}")
            };
            assert_eq!(next.get(), rescan.next);
            return;
        }
        let gone: BTreeSet<Txid> = pruned.unwrap().iter().map(|tx| tx.summary.txid).collect();
        self.model.prune(&gone, up_to);
    }

    /// A long chain gives way to another one, which parts from it near its start. An operator who
    /// does not know what was pruned is refused.
    pub(crate) fn leave_long_chain(&mut self) {
        let blocks = u64::try_from(self.chain.len()).unwrap();
        if blocks <= u64::from(DEPTH) {
            return;
        }
        let kept = 1 + self.random.below(blocks - u64::from(DEPTH));
        let from = FIRST + u32::try_from(kept).unwrap();
        if self.model.pruned.is_some_and(|(_, highest)| highest >= from) {
            let refused = self.ledger.rollback_from(NETWORK, Height::new(from), self.now);
            assert!(matches!(refused, Err(LedgerError::ReachesPruned { .. })), "{refused:?}");
        }
        self.chain.truncate(usize::try_from(kept).unwrap());
        self.bodies.truncate(self.chain.len());
        self.undone.clear();
        self.model.disconnect_from(from);
        let tip = self.chain.last().unwrap().block;
        self.ledger.rollback_to(NETWORK, (tip.height, tip.hash), self.now).unwrap();
        self.compare_observer();
    }

    /// The ledger says what the wallet lacks.
    pub(crate) fn compare_standing(&self) {
        let standing = self.ledger.standing(self.wallet).unwrap();
        let found = standing.rescan.map(|rescan| (rescan.from.get(), rescan.next.get()));
        assert_eq!(found, self.model.rescan.map(|rescan| (rescan.from, rescan.next)));
        let is_undone = self.model.rescan.is_some_and(|rescan| rescan.is_undone);
        assert_eq!(standing.set_aside.is_some(), is_undone);
    }
}
