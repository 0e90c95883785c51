//! A rescan from its start to its end, for one wallet.

use utxokeep_core::{Height, wallet::WalletId};
use utxokeep_kv::Kv;
use utxokeep_wallet::{FollowError, FollowedChain as _, Micros};

use super::{WalletFollowError, WalletFollower, chain};
use crate::clock::now_us;

/// What a scan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// Where it started, which may be below what was asked for.
    pub from: Height,
    /// Blocks that were looked at.
    pub blocks: u64,
    /// Transactions that they hold for the wallet, known ones included.
    pub transactions: u64,
    /// Where to go on; `None` when the tip of the ledger is reached.
    pub next: Option<Height>,
}

impl<K: Kv> WalletFollower<K> {
    /// Looks at the blocks from `from` up to the tip of the ledger. `on_block` is told each height
    /// and the last one. What a scan has recorded stays when it is stopped or fails, and it is
    /// remembered: the next one, or whoever follows the chain, goes on with it.
    pub fn scan(
        &mut self,
        wallet: WalletId,
        from: Height,
        is_stopped: &dyn Fn() -> bool,
        on_block: &mut dyn FnMut(Height, Height),
    ) -> Result<Scanned, WalletFollowError> {
        let mut end = self.shared_tip(is_stopped)?;
        let asked = self.ledger.request_rescan(wallet, from, Micros::new(now_us()))?;
        let mut scanned = Scanned { from: asked.from, blocks: 0, transactions: 0, next: None };
        let mut next = Some(asked.next);
        while let Some(height) = next {
            if is_stopped() {
                scanned.next = next;
                break;
            }
            let (block, txs) = match self.block_at(height, is_stopped) {
                Err(_) if is_stopped() => continue,
                block => block?,
            };
            let step = self.ledger.rescan_block(wallet, &block, &txs, Micros::new(now_us()))?;
            if let Some(reason) = step.failed {
                return Err(WalletFollowError::ScanFailed { height, reason });
            }
            scanned.blocks += 1;
            scanned.transactions += step.recorded.len() as u64;
            next = step.next;
            if height > end {
                end = self.shared_tip(is_stopped)?;
            }
            on_block(height, end);
        }
        Ok(scanned)
    }

    /// The tip of the ledger, which must lie on the chain of the chain database.
    fn shared_tip(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Height, WalletFollowError> {
        let tip = self.ledger.tip(self.network())?;
        let view = self.index.view()?;
        let chain = chain(&self.index, view, &mut self.bodies, is_stopped);
        let (end, last) = tip.ok_or(WalletFollowError::NotFollowed)?;
        if let Some((height, _)) = chain.tip().map_err(FollowError::Chain)?.filter(|at| at.0 < end)
        {
            return Err(WalletFollowError::ChainBehind { chain: height, ledger: end });
        }
        if chain.hash_at(end).map_err(FollowError::Chain)? != Some(last) {
            return Err(WalletFollowError::NotFollowed);
        }
        Ok(end)
    }
}
