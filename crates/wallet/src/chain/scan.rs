//! Looking again at blocks that the ledger has passed, for a wallet that watches more than before.

use rustc_hash::FxHashSet;
use utxokeep_core::wallet::{Evidence, Micros, WalletId};

use super::relevant;
use crate::{BlockRef, Ledger, LedgerError, NewTx, Recorded, ingest::check_shape};

impl Ledger {
    /// Records what a block holds for one wallet. The block must lie on the ledger's chain, at or
    /// below its tip, which stays where it is. `txs` are all transactions of the block, in order.
    ///
    /// A wallet that got new descriptors or addresses is complete after all blocks since its
    /// first payment were scanned, in the order of the chain.
    pub fn scan_block(
        &self,
        wallet: WalletId,
        block: &BlockRef,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.check_batch(txs.len())?;
        self.write_wallet(wallet, now, |session| {
            if session.tip_height().is_none_or(|tip| block.height > tip) {
                return Err(LedgerError::BlockNotFound { height: block.height });
            }
            if !session.is_followed(block)? {
                return Err(LedgerError::BlockMismatch { height: block.height, hash: block.hash });
            }
            session.evidence = Evidence::Block;
            self.widen_wallet(session, txs)?;
            let mut places = relevant::by_wallet(session.tx, session.chain, txs)?;
            match places.remove(&wallet.get()) {
                None => {
                    session.detach_others(block.height, &FxHashSet::default())?;
                    Ok(Vec::new())
                }
                Some(places) => {
                    places.iter().try_for_each(|at| check_shape(&txs[*at]))?;
                    session.record_block(block, txs, &places)
                }
            }
        })
    }
}
