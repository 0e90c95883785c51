//! Transactions that are given to a node: what the ledger has of them, and what it remembers.
//!
//! # Invariants
//!
//! * Signed bytes and the mark that says "given to a node" are committed before a node gets them.
//!   A crash in between leaves a marked transaction, which is given again.
//! * No database transaction is open while a node is asked.

use utxokeep_core::{
    BlockHash, Txid,
    wallet::{Micros, SpendFacts, TxState},
};
use utxokeep_sql::Value;

use crate::{
    Abandoned, LedgerError, NewTx, OpenWallet, RecordOptions, Recorded, Seen, rows,
    session::Session,
};

const SELECT_SIGNED: &str = "SELECT raw_tx, sent_at_us FROM transactions
    WHERE wallet_id = $1 AND id = $2";
const COUNT_LOOSE_INPUTS: &str = "SELECT COUNT(*) FROM tx_inputs i
    LEFT JOIN transactions p ON p.chain_id = $3 AND p.txid = i.prev_txid
        AND p.wallet_id = i.wallet_id AND p.block_height IS NOT NULL AND p.is_claimed = 0
    WHERE i.wallet_id = $1 AND i.tx_id = $2 AND p.id IS NULL";
const MARK_SENT: &str = "UPDATE transactions SET sent_at_us = $3
    WHERE wallet_id = $1 AND id = $2 AND sent_at_us IS NULL";
const CLEAR_SENT: &str = "UPDATE transactions SET sent_at_us = NULL
    WHERE wallet_id = $1 AND id = $2";

/// A stored transaction as a sender sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sendable {
    /// Its state.
    pub state: TxState,
    /// Its best bytes, which need not be signed.
    pub raw: Option<Vec<u8>>,
    /// When it was given to a node first.
    pub sent_at: Option<Micros>,
    /// Whether every output that it spends was made by a transaction of this wallet in a block that
    /// the ledger followed.
    pub parents_in_blocks: bool,
    /// The last block that this wallet has looked at; `None` while it lacks blocks.
    pub tip: Option<BlockHash>,
}

impl Sendable {
    /// What is known of it, beside the word of a node whose last block is `node_tip`.
    #[must_use]
    pub fn facts(&self, node_tip: &BlockHash) -> SpendFacts {
        SpendFacts {
            parents_in_blocks: self.parents_in_blocks,
            is_at_node_tip: self.tip.as_ref() == Some(node_tip),
        }
    }
}

impl OpenWallet<'_, '_, '_> {
    /// A stored transaction as a sender sees it; `None` when the wallet does not know it.
    pub fn sendable(&mut self, txid: &Txid) -> Result<Option<Sendable>, LedgerError> {
        let Some(stored) = self.session.stored(txid)? else { return Ok(None) };
        let session = &mut *self.session;
        let key = [session.id(), Value::from(stored.id)];
        let (raw, sent_at) = session.tx.query_one(SELECT_SIGNED, &key, |row| {
            let raw = row.opt_bytes(0)?.map(<[u8]>::to_vec);
            Ok((raw, row.opt_int(1)?.map(Micros::new)))
        })?;
        let inputs = [key[0], key[1], Value::from(session.chain)];
        let loose = session.tx.query_one(COUNT_LOOSE_INPUTS, &inputs, |row| rows::sum(row, 0))?;
        let has_all_blocks = session.set_aside.is_none() && session.lacks.is_none();
        let tip = session.tip.filter(|_| has_all_blocks).map(|(_, hash)| hash);
        let parents_in_blocks = loose == 0;
        Ok(Some(Sendable { state: stored.state, raw, sent_at, parents_in_blocks, tip }))
    }

    /// Keeps the signed bytes of a transaction, as one that was made here, and marks it as given to a
    /// node if it is about to be.
    pub fn keep_signed(
        &mut self,
        new: &NewTx,
        options: &RecordOptions,
        is_sent: bool,
    ) -> Result<Recorded, LedgerError> {
        let recorded = self.record(new, Seen::Created, options)?;
        if is_sent {
            let stored = self.session.known(&new.txid)?;
            let now = Value::from(self.session.now.get());
            let row = [self.session.id(), Value::from(stored.id), now];
            self.session.tx.execute(MARK_SENT, &row)?;
        }
        Ok(recorded)
    }

    /// Takes the mark back: no node has got the transaction.
    pub fn clear_sent(&mut self, txid: &Txid) -> Result<(), LedgerError> {
        let stored = self.session.known(txid)?;
        self.session.tx.execute(CLEAR_SENT, &[self.session.id(), Value::from(stored.id)])?;
        Ok(())
    }

    /// See [`Ledger::publish`].
    pub fn publish(&mut self, txid: &Txid) -> Result<Recorded, LedgerError> {
        self.session.record_stored(txid, Seen::Mempool)
    }

    /// See [`Ledger::abandon`].
    pub fn abandon(&mut self, txid: &Txid) -> Result<Abandoned, LedgerError> {
        self.session.abandon(txid)
    }
}

impl Session<'_, '_> {
    /// See [`Ledger::abandon`].
    pub(crate) fn abandon(&mut self, txid: &Txid) -> Result<Abandoned, LedgerError> {
        let stored = self.known(txid)?;
        self.give_up(&stored, txid)
    }
}
