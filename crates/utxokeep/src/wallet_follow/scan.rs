//! Looking again at blocks that the ledger has passed, for one wallet.

use utxokeep_core::{Height, wallet::WalletId};
use utxokeep_kv::Kv;
use utxokeep_wallet::{FollowError, FollowedChain as _, Micros, block_ref, block_txs};

use super::{WalletFollowError, WalletFollower, chain, explained};
use crate::clock::now_us;

/// What a scan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scanned {
    /// Blocks that were looked at.
    pub blocks: u64,
    /// Transactions that they hold for the wallet, known ones included.
    pub transactions: u64,
    /// Where to go on; `None` when the tip of the ledger is reached.
    pub next: Option<Height>,
}

impl<K: Kv> WalletFollower<K> {
    /// Looks at the blocks from `from` up to the tip of the ledger. `on_block` is told each height
    /// and the last one. What a scan has recorded stays when it is stopped or fails.
    pub fn scan(
        &mut self,
        wallet: WalletId,
        from: Height,
        is_stopped: &dyn Fn() -> bool,
        on_block: &mut dyn FnMut(Height, Height),
    ) -> Result<Scanned, WalletFollowError> {
        let tip = self.ledger.tip(self.network())?;
        let looked_in = self.bodies.names();
        let view = self.index.view()?;
        let chain = chain(&self.index, view, &mut self.bodies, is_stopped);
        let (end, last) = tip.ok_or(WalletFollowError::NotFollowed)?;
        if chain.hash_at(end).map_err(FollowError::Chain)? != Some(last) {
            return Err(WalletFollowError::NotFollowed);
        }
        let mut scanned = Scanned::default();
        let mut height = from;
        while height <= end {
            if is_stopped() {
                scanned.next = Some(height);
                break;
            }
            let missing = || explained(FollowError::MissingBody { height }, &looked_in);
            let hash = chain.hash_at(height).map_err(FollowError::Chain)?.ok_or_else(missing)?;
            let body = match chain.body(&hash) {
                Err(_) if is_stopped() => continue,
                body => body.map_err(FollowError::Chain)?.ok_or_else(missing)?,
            };
            let block = block_ref(height, &body.block);
            let now = Micros::new(now_us());
            let found = self.ledger.scan_block(wallet, &block, &block_txs(&body)?, now)?;
            scanned.blocks += 1;
            scanned.transactions += found.len() as u64;
            on_block(height, end);
            height = height.plus(1);
        }
        Ok(scanned)
    }
}
