//! Looking again at blocks that the ledger has passed, for one wallet.

use rustc_hash::FxHashSet;
use utxokeep_core::{
    Height,
    wallet::{Evidence, Micros, WalletId},
};

use super::relevant;
use crate::{
    BlockRef, Ledger, LedgerError, NewTx, Recorded, ingest::check_shape, session::Session, standing,
};

/// What one block of a rescan came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RescanStep {
    /// What the block holds for the wallet.
    pub recorded: Vec<Recorded>,
    /// The block to bring next; `None` when the rescan is over or stopped.
    pub next: Option<Height>,
    /// Why the wallet could not take the block. It is set aside at it.
    pub failed: Option<String>,
}

impl Ledger {
    /// Records what a block holds for one wallet. The block must lie on the ledger's chain, at or
    /// below its tip, which stays where it is. `txs` are all transactions of the block, in order.
    ///
    /// A wallet that got new descriptors or addresses is complete after all blocks since its
    /// first payment were scanned, in the order of the chain. A rescan that was asked for, as by
    /// restoring a wallet, goes on when its next block is scanned.
    pub fn scan_block(
        &self,
        wallet: WalletId,
        block: &BlockRef,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            self.check_block(session.network, txs)?;
            session.check_on_chain(block)?;
            let recorded = self.scan(session, block, txs)?;
            session.note_scanned(block.height)?;
            Ok(recorded)
        })
    }

    /// Goes on with a rescan by its next block. When it is the last one, the wallet has every block
    /// again, in the same transaction. A block that is not the next one changes nothing: another
    /// program was faster, or blocks left the chain meanwhile.
    pub fn rescan_block(
        &self,
        wallet: WalletId,
        block: &BlockRef,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<RescanStep, LedgerError> {
        self.write(|tx| {
            let mut session = Session::lock(tx, self.limits, wallet, now)?;
            session.clock = self.lease_clock;
            self.check_block(session.network, txs)?;
            // It waits until the wallet is restored.
            if session.is_archived {
                return Ok(RescanStep::default());
            }
            let row = session.rescan_row()?.filter(|row| row.is_requested);
            let next = row.and_then(|row| row.rescan).map(|rescan| rescan.next);
            if next != Some(block.height) {
                return Ok(RescanStep { next, ..RescanStep::default() });
            }
            session.check_on_chain(block)?;
            let recorded: Result<_, LedgerError> = tx.savepoint(|tx| {
                let mut session = Session::lock(tx, self.limits, wallet, now)?;
                session.clock = self.lease_clock;
                let recorded = self.scan(&mut session, block, txs)?;
                session.finish()?;
                Ok(recorded)
            });
            match recorded {
                Ok(recorded) => {
                    let mut session = Session::lock(tx, self.limits, wallet, now)?;
                    session.clock = self.lease_clock;
                    let next = block.height.plus(1);
                    session.advance_rescan(next)?;
                    let next = Some(next).filter(|next| Some(*next) <= session.tip_height());
                    session.finish()?;
                    Ok(RescanStep { recorded, next, failed: None })
                }
                Err(error) if error.is_of_wallet() => {
                    standing::set_wallet_aside(tx, wallet, block, &error, true, now)?;
                    let failed = Some(error.to_string());
                    Ok(RescanStep { failed, ..RescanStep::default() })
                }
                Err(error) => Err(error),
            }
        })
    }

    fn scan(
        &self,
        session: &mut Session<'_, '_>,
        block: &BlockRef,
        txs: &[NewTx],
    ) -> Result<Vec<Recorded>, LedgerError> {
        session.evidence = Evidence::Block;
        self.widen_wallet(session, txs)?;
        let mut places = relevant::by_wallet(session.tx, session.chain, txs)?;
        let Some(places) = places.remove(&session.wallet) else {
            session.detach_others(block.height, &FxHashSet::default())?;
            return Ok(Vec::new());
        };
        places.iter().try_for_each(|at| check_shape(&txs[*at]))?;
        session.record_block(block, txs, &places)
    }
}

impl Session<'_, '_> {
    /// Refuses a block that the ledger has not passed, or that is not the one it passed.
    fn check_on_chain(&mut self, block: &BlockRef) -> Result<(), LedgerError> {
        if self.tip_height().is_none_or(|tip| block.height > tip) {
            return Err(LedgerError::BlockNotFound { height: block.height });
        }
        if !self.is_followed(block)? {
            let (height, hash) = (block.height, self.network.hash(block.hash));
            return Err(LedgerError::BlockMismatch { height, hash });
        }
        Ok(())
    }
}
