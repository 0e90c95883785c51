//! Stored transactions that want the same outputs as a new one.

use utxokeep_core::{
    Txid,
    wallet::{InvalidReason, Outcome, Rival, TxState, judge_rival},
};
use utxokeep_sql::{SqlError, Value};

use super::cascade::Loser;
use crate::{
    LedgerError, NewTx, RecordOptions, rows,
    session::{Session, StoredTx},
};

const RIVALS_HEAD: &str = "SELECT t.id, t.txid, t.status, t.block_height, t.is_waiting
    FROM (VALUES";
const HOLDERS_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN transactions t
    WHERE i.prev_txid = v.column1 AND i.prev_index = v.column2 AND i.wallet_id = $1
        AND i.claim = 1 AND t.wallet_id = i.wallet_id AND t.id = i.tx_id";
const WAITING_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN transactions t
    WHERE i.prev_txid = v.column1 AND i.prev_index = v.column2 AND i.wallet_id = $1
        AND i.claim = 2 AND t.wallet_id = i.wallet_id AND t.id = i.tx_id";
const INSERT_EDGE: &str = "INSERT INTO tx_replacements
    (wallet_id, replaced_tx_id, replacement_tx_id, reason, created_at_us)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";

const SELECT_LINKED: &str = "SELECT replaced_tx_id FROM tx_replacements
    WHERE wallet_id = $1 AND replacement_tx_id = $2";

/// Whom a transaction may push out although neither is in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declared {
    /// Nobody.
    No,
    /// Everybody: the caller says so now.
    All,
    /// Those that this one was linked to when it began to wait. Who took a coin of it since is not
    /// among them.
    Linked(i64),
}

impl Declared {
    /// What the caller says now, or said when it recorded a replacement that waits.
    pub(super) fn of(options: &RecordOptions, stored: Option<&StoredTx>) -> Self {
        match stored.filter(|stored| stored.waiting) {
            _ if options.replaces => Self::All,
            Some(stored) => Self::Linked(stored.id),
            None => Self::No,
        }
    }
}

/// A stored rival.
struct Found {
    id: i64,
    txid: Txid,
    state: TxState,
    waiting: bool,
}

/// What was decided about all rivals together.
pub(super) struct Judged {
    pub(super) losers: Vec<Loser>,
    pub(super) waits: bool,
}

impl Session<'_, '_> {
    /// Finds everything live that spends what `new` spends, and decides who gives way.
    pub(super) fn judge(
        &mut self,
        new: &NewTx,
        own_id: Option<i64>,
        state: TxState,
        declared: Declared,
    ) -> Result<Judged, LedgerError> {
        let mut judged = Judged { losers: Vec::new(), waits: false };
        let mut refused = Vec::new();
        let linked = self.linked(declared)?;
        for rival in self.rivals(new, own_id)? {
            let seen = Rival { state: rival.state, waiting: rival.waiting };
            // Of two that wait, each was declared; the one that is published first wins.
            let is_declared = match declared {
                Declared::No => false,
                Declared::All => true,
                Declared::Linked(_) => linked.contains(&rival.id) || rival.waiting,
            };
            match judge_rival(state, self.evidence, is_declared, seen) {
                Outcome::RivalLoses(reason) => {
                    judged.losers.push(Loser { id: rival.id, txid: rival.txid, reason });
                }
                Outcome::NewWaits => judged.waits = true,
                Outcome::Ignore => {}
                Outcome::Refuse => refused.push(rival.txid),
            }
        }
        if !refused.is_empty() {
            // What depends on a loser goes with it, whatever else it spends.
            let gone = self.cascade(judged.losers.clone(), own_id)?.descendants();
            refused.retain(|txid| !gone.contains(txid));
        }
        if refused.is_empty() {
            Ok(judged)
        } else {
            let rivals = refused.into_iter().map(|rival| self.network.hash(rival)).collect();
            Err(LedgerError::Conflict { txid: self.network.hash(new.txid), rivals })
        }
    }

    fn linked(&mut self, declared: Declared) -> Result<Vec<i64>, SqlError> {
        let Declared::Linked(id) = declared else { return Ok(Vec::new()) };
        self.tx.query_all(SELECT_LINKED, &[self.id(), Value::from(id)], |row| row.int(0))
    }

    /// Notes whom a replacement that waits is going to replace.
    pub(super) fn link_waiting(&mut self, new: &NewTx, id: i64) -> Result<(), LedgerError> {
        for rival in self.rivals(new, Some(id))? {
            self.insert_edge(rival.id, id, InvalidReason::Replaced)?;
        }
        Ok(())
    }

    pub(super) fn insert_edge(
        &mut self,
        replaced: i64,
        replacement: i64,
        reason: InvalidReason,
    ) -> Result<(), SqlError> {
        self.tx.execute(
            INSERT_EDGE,
            &[
                self.id(),
                Value::from(replaced),
                Value::from(replacement),
                Value::from(reason.code()),
                Value::from(self.now.get()),
            ],
        )?;
        Ok(())
    }

    fn rivals(&mut self, new: &NewTx, own_id: Option<i64>) -> Result<Vec<Found>, SqlError> {
        let keys: Vec<Value<'_>> = new
            .inputs
            .iter()
            .flat_map(|input| [Value::from(input.txid().as_bytes()), Value::from(input.index())])
            .collect();
        let fixed = [self.id()];
        let mut found: Vec<Found> = Vec::new();
        for tail in [HOLDERS_TAIL, WAITING_TAIL] {
            self.tx.query_rows(RIVALS_HEAD, tail, &fixed, 2, &keys, |row| {
                let id = row.int(0)?;
                if Some(id) != own_id && found.iter().all(|other| other.id != id) {
                    found.push(Found {
                        id,
                        txid: rows::txid(row, 1)?,
                        state: rows::state(row, 2, 3)?,
                        waiting: rows::flag(row, 4)?,
                    });
                }
                Ok(())
            })?;
        }
        found.sort_by_key(|rival| rival.id);
        Ok(found)
    }
}
