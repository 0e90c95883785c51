//! Removing rows, which only happens when somebody asks for it.
//!
//! What goes moves to an archive in the same transaction, and stays there until somebody says that
//! it is kept elsewhere. Coins that count are never touched: a
//! confirmed transaction goes only together with everything it is connected to by coins of the
//! wallet, and only when all of these coins are spent.

mod archive;
mod undone;

use std::collections::BTreeMap;

use utxokeep_core::{
    Height, Txid,
    wallet::{BadPrune, Event, Evidence, Micros, WalletId, check_prune_depth, next, prune_depth},
};
use utxokeep_sql::{SqlError, Value};

pub use self::archive::PrunedRow;
pub(crate) use self::undone::{check_undo, look_again};
use crate::{Ledger, LedgerError, TxDetail, rows, session::Session};

/// Transactions that go, by number.
type Chosen = BTreeMap<i64, Txid>;

const SELECT_CHILD: &str = "SELECT 1 FROM tx_inputs
    WHERE prev_txid = $2 AND wallet_id = $1 AND claim = 1 LIMIT 1";
const SELECT_WAITING_CHILD: &str = "SELECT 1 FROM tx_inputs
    WHERE prev_txid = $2 AND wallet_id = $1 AND claim = 2 LIMIT 1";
const SELECT_REPLACED: &str = "SELECT replaced_tx_id FROM tx_replacements
    WHERE wallet_id = $1 AND replacement_tx_id = $2";
const FREE_COINS: &str = "UPDATE utxos SET spent_by_tx_id = NULL, spent_input_index = NULL
    WHERE wallet_id = $1 AND spent_by_tx_id IN";
const FORGET_INVALIDATOR: &str = "UPDATE transactions SET invalidated_by_tx_id = NULL
    WHERE wallet_id = $1 AND invalidated_by_tx_id IN";
const DELETE_COINS: &str = "DELETE FROM utxos WHERE wallet_id = $1 AND tx_id IN";
const DELETE_TXS: &str = "DELETE FROM transactions WHERE wallet_id = $1 AND id IN";
const SELECT_DEAD: &str = "SELECT t.id, t.txid FROM transactions t
    WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.status > 1
        AND t.received_at_us < $2 AND t.id > $3 ORDER BY t.id LIMIT 1";
const SELECT_SPENT_OUT: &str = "SELECT t.id, t.txid FROM transactions t
    WHERE t.wallet_id = $1 AND t.block_height <= $2 AND t.id > $3 AND t.is_claimed = 0
        AND NOT EXISTS (SELECT 1 FROM utxos u WHERE u.wallet_id = t.wallet_id
            AND u.tx_id = t.id AND u.spent_by_tx_id IS NULL)
    ORDER BY t.id LIMIT 1";
const SELECT_SPENDERS: &str = "SELECT t.id, t.txid, t.block_height, t.is_claimed FROM utxos u
    LEFT JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.spent_by_tx_id
    WHERE u.wallet_id = $1 AND u.tx_id = $2";
const SELECT_PARENTS: &str = "SELECT t.id, t.txid, t.block_height, t.is_claimed FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE u.wallet_id = $1 AND u.spent_by_tx_id = $2";

/// What may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRule {
    /// Transactions that are not live and were first recorded before this time.
    pub dead_before: Option<Micros>,
    /// Confirmed transactions up to this height whose coins are all spent up to it too. It must
    /// lie deeper than any reorganisation reaches, see [`crate::Limits::prune_depth_blocks`]. What
    /// is in a block by somebody's word only stays.
    pub confirmed_up_to: Option<Height>,
    /// At most this many; call again for more.
    pub txs_max: usize,
}

/// What becomes of rows that go.
#[derive(Clone, Copy)]
pub enum Pruning<'w> {
    /// They move to the archive inside the ledger, each as the text that is written of it, until
    /// [`Ledger::acknowledge_pruned`] says that they are kept elsewhere.
    Archive(&'w dyn Fn(&TxDetail) -> String),
    /// They are gone.
    Discard,
    /// They stay: the answer says what would go.
    DryRun,
}

impl Ledger {
    /// Removes a live unconfirmed transaction that nothing live spends from, as if it had never
    /// been recorded. Its inputs are free again, and leases on them end that the owner of the
    /// payment holds; returns how many. To keep the attempt on record, abandon it.
    pub fn remove_unconfirmed(
        &self,
        wallet: WalletId,
        txid: &Txid,
        now: Micros,
    ) -> Result<u64, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let stored = session.known(txid)?;
            next(Some(stored.state), stored.coinbase, Event::Abandon, Evidence::Claim).map_err(
                |refused| LedgerError::Refused { txid: session.network.hash(txid), refused },
            )?;
            if session.has_children(txid)? || session.replaced_others(stored.id, &Chosen::new())? {
                return Err(LedgerError::NotALeaf(session.network.hash(txid)));
            }
            let released = session.release_inputs(stored.id)?;
            session.touch(&[stored.id])?;
            session.remove(&[stored.id])?;
            Ok(released)
        })
    }

    /// Removes old rows and returns what they held. Labels stay. Removing and archiving are one
    /// transaction, so that a row is always in one of the two.
    pub fn prune(
        &self,
        wallet: WalletId,
        rule: &PruneRule,
        pruning: Pruning<'_>,
        now: Micros,
    ) -> Result<Vec<TxDetail>, LedgerError> {
        let txs_max = rule.txs_max.min(self.limits.page_rows_max);
        if matches!(pruning, Pruning::DryRun) {
            return self.read_wallet_at(wallet, now, |session| {
                Ok(self.choose_old(session, rule, txs_max)?.1)
            });
        }
        self.write_wallet_even_archived(wallet, now, |session| {
            let (chosen, gone) = self.choose_old(session, rule, txs_max)?;
            if let Pruning::Archive(write) = pruning {
                session.archive_pruned(&gone, write)?;
            }
            session.note_pruned(&gone)?;
            let ids: Vec<i64> = chosen.into_keys().collect();
            session.remove(&ids)?;
            Ok(gone)
        })
    }

    /// What a rule lets go, and what it holds.
    fn choose_old(
        &self,
        session: &mut Session<'_, '_>,
        rule: &PruneRule,
        txs_max: usize,
    ) -> Result<(Chosen, Vec<TxDetail>), LedgerError> {
        let mut chosen = Chosen::new();
        if let Some(before) = rule.dead_before {
            session.choose_dead(before, txs_max, &mut chosen)?;
        }
        if let Some(height) = rule.confirmed_up_to {
            let depth = prune_depth(session.network, self.limits.prune_depth_blocks);
            check_prune_depth(height, session.tip_height(), depth)?;
            if let Some(lacks) = session.rescan_row()?.and_then(|row| row.rescan) {
                return Err(BadPrune::NotRescanned { next: lacks.next }.into());
            }
            session.choose_confirmed(height, txs_max, &mut chosen)?;
        }
        let mut gone = Vec::with_capacity(chosen.len());
        for txid in chosen.values() {
            gone.push(session.detail(txid)?);
        }
        Ok((chosen, gone))
    }
}

impl Session<'_, '_> {
    fn has_children(&mut self, txid: &Txid) -> Result<bool, SqlError> {
        let key = [self.id(), Value::from(txid.as_bytes())];
        for statement in [SELECT_CHILD, SELECT_WAITING_CHILD] {
            if self.tx.query_opt(statement, &key, |_| Ok(()))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether others that stay gave way to it: without it they would be left without a reason.
    fn replaced_others(&mut self, id: i64, chosen: &Chosen) -> Result<bool, SqlError> {
        let key = [self.id(), Value::from(id)];
        let replaced = self.tx.query_all(SELECT_REPLACED, &key, |row| row.int(0))?;
        Ok(replaced.iter().any(|other| !chosen.contains_key(other)))
    }

    /// Deletes rows, in the order in which they refer to each other.
    pub(crate) fn remove(&mut self, ids: &[i64]) -> Result<(), SqlError> {
        let keys: Vec<Value<'_>> = ids.iter().map(|id| Value::from(*id)).collect();
        let fixed = [self.id()];
        for statement in [FREE_COINS, FORGET_INVALIDATOR, DELETE_COINS, DELETE_TXS] {
            self.tx.execute_in(statement, "", &fixed, 1, &keys)?;
        }
        Ok(())
    }

    /// Oldest first, so that what was replaced goes before what replaced it.
    fn choose_dead(
        &mut self,
        before: Micros,
        txs_max: usize,
        chosen: &mut Chosen,
    ) -> Result<(), LedgerError> {
        let mut after = 0;
        while chosen.len() < txs_max {
            let key = [self.id(), Value::from(before.get()), Value::from(after)];
            let found = self
                .tx
                .query_opt(SELECT_DEAD, &key, |row| Ok((row.int(0)?, rows::txid(row, 1)?)))?;
            let Some((id, txid)) = found else {
                break;
            };
            after = id;
            if !self.replaced_others(id, chosen)? {
                chosen.insert(id, txid);
            }
        }
        Ok(())
    }

    fn choose_confirmed(
        &mut self,
        height: Height,
        txs_max: usize,
        chosen: &mut Chosen,
    ) -> Result<(), LedgerError> {
        let mut after = 0;
        while chosen.len() < txs_max {
            let key = [self.id(), Value::from(height.get()), Value::from(after)];
            let found = self
                .tx
                .query_opt(SELECT_SPENT_OUT, &key, |row| Ok((row.int(0)?, rows::txid(row, 1)?)))?;
            let Some((id, txid)) = found else {
                break;
            };
            after = id;
            if chosen.contains_key(&id) {
                continue;
            }
            let room = txs_max - chosen.len();
            if let Some(family) = self.spent_out_family(id, txid, height, room, chosen)? {
                chosen.extend(family);
            }
        }
        Ok(())
    }

    /// Everything connected to a transaction by coins of the wallet, if all of it may go.
    fn spent_out_family(
        &mut self,
        id: i64,
        txid: Txid,
        height: Height,
        txs_max: usize,
        chosen: &Chosen,
    ) -> Result<Option<Chosen>, LedgerError> {
        let mut family = BTreeMap::from([(id, txid)]);
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if self.replaced_others(id, chosen)? {
                return Ok(None);
            }
            let key = [self.id(), Value::from(id)];
            for statement in [SELECT_SPENDERS, SELECT_PARENTS] {
                let relatives = self.tx.query_all(statement, &key, |row| {
                    let Some(relative) = row.opt_int(0)? else {
                        return Ok(None);
                    };
                    // A rescan would not find what is in a block by somebody's word only.
                    let buried = rows::height(row, 2)?.is_some_and(|block| block <= height);
                    let goes = buried && !rows::flag(row, 3)?;
                    Ok(goes.then_some((relative, rows::txid(row, 1)?)))
                })?;
                for relative in relatives {
                    let Some((relative, txid)) = relative else {
                        return Ok(None);
                    };
                    if family.insert(relative, txid).is_none() {
                        open.push(relative);
                    }
                }
            }
            if family.len() > txs_max {
                return Ok(None);
            }
        }
        Ok(Some(family))
    }
}
