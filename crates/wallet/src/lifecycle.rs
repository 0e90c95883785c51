//! What users and followers do with single transactions.

use utxokeep_core::{
    Txid,
    wallet::{Event, Evidence, Micros, Refused, TxState, WalletId, next, parents_first},
};

use crate::{
    Abandoned, BlockRef, Change, Credits, Ledger, LedgerError, NewTx, RecordOptions, Recorded,
    Seen,
    session::{Session, StoredTx},
};

impl Ledger {
    /// Records a transaction as it was seen. Recording the same again changes nothing.
    ///
    /// A block must be at or below the tip of the ledger; see [`Ledger::apply_block`].
    pub fn record(
        &self,
        wallet: WalletId,
        new: &NewTx,
        seen: Seen,
        options: &RecordOptions,
        now: Micros,
    ) -> Result<Recorded, LedgerError> {
        self.write_wallet(wallet, now, |session| self.record_in(session, new, seen, options))
    }

    pub(crate) fn record_in(
        &self,
        session: &mut Session<'_, '_>,
        new: &NewTx,
        seen: Seen,
        options: &RecordOptions,
    ) -> Result<Recorded, LedgerError> {
        self.widen_wallet(session, [new])?;
        session.record(new, seen, options, false)
    }

    /// Records many transactions at once, parents first, all or none. Blocks need not be known;
    /// the tip does not move.
    pub fn record_batch(
        &self,
        wallet: WalletId,
        batch: &[(NewTx, Seen)],
        now: Micros,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.check_batch(batch.len())?;
        let order = parents_first(&family(batch.iter().map(|(new, _)| new)));
        let options = RecordOptions::default();
        self.write_wallet(wallet, now, |session| {
            self.widen_wallet(session, batch.iter().map(|(new, _)| new))?;
            let record = |at: &usize| session.record(&batch[*at].0, batch[*at].1, &options, true);
            order.iter().map(record).collect()
        })
    }

    /// Marks a stored transaction as sent or seen in a mempool. A replacement that waited takes
    /// its inputs now; one that was not live comes back if its inputs are free.
    pub fn publish(
        &self,
        wallet: WalletId,
        txid: &Txid,
        now: Micros,
    ) -> Result<Recorded, LedgerError> {
        self.write_wallet(wallet, now, |session| session.record_stored(txid, Seen::Mempool))
    }

    /// Marks a stored transaction as confirmed in a block, at a position where that is known.
    pub fn confirm(
        &self,
        wallet: WalletId,
        txid: &Txid,
        block: BlockRef,
        position: Option<u32>,
        now: Micros,
    ) -> Result<Recorded, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            session.record_stored(txid, Seen::Block(block, position))
        })
    }

    /// Takes back the claim that a transaction is in a block: it is unconfirmed again, a coinbase is
    /// orphaned. Blocks and other transactions stay. Refused when the block itself said so. Taking
    /// it back twice changes nothing.
    pub fn unconfirm(
        &self,
        wallet: WalletId,
        txid: &Txid,
        now: Micros,
    ) -> Result<Recorded, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let stored = session.known(txid)?;
            let mut recorded = Recorded {
                txid: *txid,
                change: Change::Unchanged,
                state: stored.state,
                waiting: stored.waiting,
                losers: Vec::new(),
                failed_descendants: Vec::new(),
                is_ours: true,
            };
            let TxState::Confirmed(height) = stored.state else { return Ok(recorded) };
            if !stored.claimed {
                let refused = Refused::InFollowedBlock(height);
                return Err(LedgerError::Refused { txid: session.network.hash(txid), refused });
            }
            recorded.failed_descendants = session.take_out(&stored, *txid)?;
            session.drop_empty_claim(height)?;
            recorded.state = session.known(txid)?.state;
            recorded.change = Change::Updated;
            Ok(recorded)
        })
    }

    /// Gives an unconfirmed transaction up, with everything that depends on it. Its inputs are
    /// free again, and leases on them end that the owner of the payment holds; see
    /// [`RecordOptions::owner`].
    pub fn abandon(
        &self,
        wallet: WalletId,
        txid: &Txid,
        now: Micros,
    ) -> Result<Abandoned, LedgerError> {
        self.write_wallet(wallet, now, |session| session.abandon(txid))
    }

    pub(crate) fn check_batch(&self, txs: usize) -> Result<(), LedgerError> {
        if txs > self.limits.batch_txs_max {
            return Err(LedgerError::argument(format!(
                "{txs} transactions were given at once, at most {} are allowed",
                self.limits.batch_txs_max
            )));
        }
        Ok(())
    }
}

impl Session<'_, '_> {
    /// Gives an unconfirmed transaction up, with everything that depends on it.
    pub(crate) fn give_up(
        &mut self,
        stored: &StoredTx,
        txid: &Txid,
    ) -> Result<Abandoned, LedgerError> {
        let end = next(Some(stored.state), stored.coinbase, Event::Abandon, Evidence::Claim)
            .map_err(|refused| LedgerError::Refused { txid: self.network.hash(txid), refused })?;
        let doomed = self.end(stored.id, *txid, end)?;
        let mut released_leases = self.release_inputs(stored.id)?;
        for id in doomed.descendant_ids() {
            released_leases += self.release_inputs(id)?;
        }
        Ok(Abandoned { descendants: doomed.descendants(), released_leases })
    }

    /// Records a stored transaction again, from what is stored of it.
    pub(crate) fn record_stored(
        &mut self,
        txid: &Txid,
        seen: Seen,
    ) -> Result<Recorded, LedgerError> {
        let stored = self.known(txid)?;
        let new = NewTx {
            txid: *txid,
            inputs: self.inputs_of(stored.id)?,
            outputs: Vec::new(),
            coinbase: stored.coinbase,
            raw: None,
            credits: Credits::Exactly(Vec::new()),
        };
        self.record_known(&new, Some(stored), seen, &RecordOptions::default(), false)
    }
}

/// Each transaction with those it spends from, for [`parents_first`].
pub(crate) fn family<'n>(txs: impl Iterator<Item = &'n NewTx>) -> Vec<(Txid, Vec<Txid>)> {
    txs.map(|new| (new.txid, new.inputs.iter().map(|input| *input.txid()).collect())).collect()
}
