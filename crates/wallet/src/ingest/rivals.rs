//! Stored transactions that want the same outputs as a new one.

use utxokeep_core::{
    Txid,
    wallet::{InvalidReason, Outcome, Rival, TxState, judge_rival},
};
use utxokeep_sql::{SqlError, Value};

use super::cascade::Loser;
use crate::{LedgerError, NewTx, rows, session::Session};

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
        declared: bool,
    ) -> Result<Judged, LedgerError> {
        let mut judged = Judged { losers: Vec::new(), waits: false };
        let mut refused = Vec::new();
        for rival in self.rivals(new, own_id)? {
            let seen = Rival { state: rival.state, waiting: rival.waiting };
            match judge_rival(state, self.evidence, declared, seen) {
                Outcome::RivalLoses(reason) => {
                    judged.losers.push(Loser { id: rival.id, txid: rival.txid, reason });
                }
                Outcome::NewWaits => judged.waits = true,
                Outcome::Ignore => {}
                Outcome::Refuse => refused.push(rival.txid),
            }
        }
        if refused.is_empty() {
            Ok(judged)
        } else {
            Err(LedgerError::Conflict { txid: new.txid, rivals: refused })
        }
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
