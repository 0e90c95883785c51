//! Rescans that were asked for, in steps between new blocks, and wallets that are set aside.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{Height, wallet::WalletId};
use utxokeep_kv::Kv;
use utxokeep_wallet::{
    BlockRef, FollowError, FollowedChain as _, LedgerError, Micros, NewTx, block_ref, block_txs,
};

use super::{STEP_BLOCKS_MAX, Step, WalletFollowError, WalletFollower, chain, explained, meter};
use crate::clock::now_us;

impl<K: Kv> WalletFollower<K> {
    /// Goes on with rescans by some blocks, lowest first; a block is read once for all wallets that
    /// want it. Answers whether nothing is left.
    pub(super) fn rescan_some(
        &mut self,
        step: &Step,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool, WalletFollowError> {
        let mut wanted: BTreeMap<WalletId, Height> =
            self.ledger.requested_rescans(self.network())?.into_iter().collect();
        // Blocks that another follower has brought, and this chain database lacks, have to wait.
        let end = match step.worse_branch {
            Some(branch) => branch.shared,
            None => self.index.view()?.tip().map(|(height, _)| height),
        };
        wanted.retain(|_, next| Some(*next) <= end);
        for _ in 0..STEP_BLOCKS_MAX {
            let Some(height) = wanted.values().min().copied() else { return Ok(true) };
            if is_stopped() {
                return Ok(false);
            }
            let (block, txs) = self.block_at(height, is_stopped)?;
            let wallets: Vec<WalletId> =
                wanted.iter().filter(|(_, next)| **next == height).map(|(id, _)| *id).collect();
            for wallet in wallets {
                let step = self.ledger.rescan_block(wallet, &block, &txs, Micros::new(now_us()));
                let next = match step {
                    Ok(step) => step.next,
                    // Blocks left the chain meanwhile, or the wallet did; look again.
                    Err(
                        LedgerError::BlockMismatch { .. }
                        | LedgerError::BlockNotFound { .. }
                        | LedgerError::WalletNotFound(_),
                    ) => return Ok(false),
                    Err(error) => return Err(error.into()),
                };
                match next.filter(|next| Some(*next) <= end) {
                    Some(next) => wanted.insert(wallet, next),
                    None => wanted.remove(&wallet),
                };
            }
            meter::rescanned();
        }
        Ok(wanted.is_empty())
    }

    /// The block of the chain database at a height, as of now.
    pub(super) fn block_at(
        &mut self,
        height: Height,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(BlockRef, Vec<NewTx>), WalletFollowError> {
        let looked_in = self.bodies.places();
        let missing = || explained(FollowError::MissingBody { height }, &looked_in);
        let view = self.index.view()?;
        let chain = chain(&self.index, view, &mut self.bodies, is_stopped);
        let hash = chain.hash_at(height).map_err(FollowError::Chain)?.ok_or_else(missing)?;
        let body = chain.body(height, &hash).map_err(FollowError::Chain)?.ok_or_else(missing)?;
        Ok((block_ref(height, &body.block), block_txs(&body)?))
    }

    /// Counts wallets that lack blocks, and says once of each that it is set aside.
    pub(super) fn report_lagging(&mut self) -> Result<(), WalletFollowError> {
        let (mut set_aside, mut rescans) = (BTreeSet::new(), 0);
        self.ledger.each_lagging_wallet(|lagging| {
            rescans += usize::from(lagging.standing.rescan.is_some());
            let Some(aside) = lagging.standing.set_aside else { return Ok(()) };
            let is_new =
                set_aside.insert(lagging.wallet) && !self.reported.contains(&lagging.wallet);
            if is_new && aside.hash.is_none() {
                tracing::warn!(
                    wallet = lagging.name,
                    "nothing is paid from the wallet until its rescan is done: {}",
                    aside.reason
                );
            } else if is_new {
                tracing::error!(
                    wallet = lagging.name,
                    height = %aside.height,
                    "the wallet could not take a block and is set aside, others go on; rescan it: {}",
                    aside.reason
                );
            }
            Ok(())
        })?;
        for wallet in self.reported.difference(&set_aside) {
            tracing::info!(%wallet, "the wallet has every block again");
        }
        meter::lagging(set_aside.len(), rescans);
        self.reported = set_aside;
        Ok(())
    }
}
