//! What depends on a transaction that is not live any more.
//!
//! The whole set is found before anything is written. The walk is a work list with a limit, and
//! it follows stored inputs, so it also passes through outputs that are not ours.

use std::collections::BTreeMap;

use utxokeep_core::{
    Txid,
    wallet::{Event, Evidence, InvalidReason, TxState, TxStatus, next},
};
use utxokeep_sql::{Row, SqlError, Value};

use super::{HOLDS, WAITS};
use crate::{LedgerError, rows, session::Session};

const CHILDREN_HEAD: &str = "SELECT t.id, t.txid, t.status, t.block_height, i.prev_txid
    FROM (VALUES";
const HOLDERS_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN transactions t
    WHERE i.prev_txid = v.column1 AND i.wallet_id = $1 AND i.claim = 1
        AND t.wallet_id = i.wallet_id AND t.id = i.tx_id";
const WAITING_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN transactions t
    WHERE i.prev_txid = v.column1 AND i.wallet_id = $1 AND i.claim = 2
        AND t.wallet_id = i.wallet_id AND t.id = i.tx_id";
/// No block spends the outputs any more; a lease that is held goes on.
pub(crate) const RESET_LEASES: &str = "UPDATE utxo_leases SET spent_height = NULL
    WHERE wallet_id = $1 AND spent_height IS NOT NULL AND utxo_id IN (SELECT id FROM utxos
        WHERE wallet_id = $1 AND spent_by_tx_id IN";
const FREE_COINS: &str = "UPDATE utxos SET spent_by_tx_id = NULL, spent_input_index = NULL
    WHERE wallet_id = $1 AND spent_by_tx_id IN";
const FREE_INPUTS: &str = "UPDATE tx_inputs SET claim = 0 WHERE wallet_id = $1 AND tx_id IN";
const KILL_COINS: &str = "UPDATE utxos SET parent_class = 0, parent_height = NULL
    WHERE wallet_id = $1 AND tx_id IN";
const KILL_TX: &str = "UPDATE transactions
    SET status = $3, is_waiting = 0, block_height = NULL, block_position = NULL,
        earlier_height = NULL, earlier_position = NULL,
        invalid_reason = $4, invalidated_by_tx_id = $5
    WHERE wallet_id = $1 AND id = $2";
const PHANTOMS: &str = "SELECT t.id, t.txid FROM tx_inputs i
    JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
    WHERE i.prev_txid = $2 AND i.wallet_id = $1 AND i.claim = $4 AND i.prev_index >= $3
    ORDER BY t.id";

/// A transaction that loses its place itself, not through a parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loser {
    pub(crate) id: i64,
    pub(crate) txid: Txid,
    pub(crate) reason: InvalidReason,
}

/// A transaction that loses a parent; `root` is the one at the start.
#[derive(Debug, Clone, Copy)]
struct Dependent {
    txid: Txid,
    root: i64,
}

/// Everything that one event invalidates.
#[derive(Debug, Default)]
pub(crate) struct Doomed {
    losers: Vec<Loser>,
    dependents: BTreeMap<i64, Dependent>,
}

impl Doomed {
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.dependents.contains_key(&id) || self.losers.iter().any(|loser| loser.id == id)
    }

    pub(crate) fn losers(&self) -> Vec<Txid> {
        self.losers.iter().map(|loser| loser.txid).collect()
    }

    pub(crate) fn descendant_ids(&self) -> impl Iterator<Item = i64> {
        self.dependents.keys().copied()
    }

    pub(crate) fn descendants(&self) -> Vec<Txid> {
        self.dependents.values().map(|dependent| dependent.txid).collect()
    }
}

impl Session<'_, '_> {
    /// Finds all live descendants of `losers`. `winner` must not be among them.
    pub(crate) fn cascade(
        &mut self,
        losers: Vec<Loser>,
        winner: Option<i64>,
    ) -> Result<Doomed, LedgerError> {
        let roots: Vec<(i64, Txid)> = losers.iter().map(|loser| (loser.id, loser.txid)).collect();
        let dependents = self.descendants(&roots, winner)?;
        Ok(Doomed { losers, dependents })
    }

    /// Live descendants of `roots`, without the roots themselves.
    fn descendants(
        &mut self,
        roots: &[(i64, Txid)],
        winner: Option<i64>,
    ) -> Result<BTreeMap<i64, Dependent>, LedgerError> {
        let mut dependents = BTreeMap::new();
        let mut root_of: BTreeMap<Txid, i64> =
            roots.iter().map(|(id, txid)| (*txid, *id)).collect();
        let mut frontier: Vec<Txid> = roots.iter().map(|(_, txid)| *txid).collect();
        while !frontier.is_empty() {
            let mut found = Vec::new();
            let keys: Vec<Value<'_>> =
                frontier.iter().map(|txid| Value::from(txid.as_bytes())).collect();
            let fixed = [self.id()];
            for tail in [HOLDERS_TAIL, WAITING_TAIL] {
                self.tx.query_rows(CHILDREN_HEAD, tail, &fixed, 1, &keys, |row| {
                    let child = (row.int(0)?, rows::txid(row, 1)?, rows::state(row, 2, 3)?);
                    found.push((child, rows::txid(row, 4)?));
                    Ok(())
                })?;
            }
            found.sort_by_key(|((id, ..), _)| *id);
            frontier.clear();
            for ((id, txid, state), parent) in found {
                let is_root = roots.iter().any(|(root, _)| *root == id);
                if is_root || dependents.contains_key(&id) {
                    continue;
                }
                next(Some(state), false, Event::LoseAncestor, self.evidence).map_err(
                    |refused| LedgerError::Refused { txid: self.network.hash(txid), refused },
                )?;
                if winner == Some(id) {
                    let (txid, parent) = (self.network.hash(txid), self.network.hash(parent));
                    return Err(LedgerError::Conflict { txid, rivals: vec![parent] });
                }
                let root = root_of.get(&parent).copied().unwrap_or(id);
                root_of.insert(txid, root);
                dependents.insert(id, Dependent { txid, root });
                frontier.push(txid);
                let rows_max = self.cascade_txs_max();
                if dependents.len() + roots.len() > rows_max {
                    return Err(LedgerError::CascadeTooLarge { rows_max });
                }
            }
        }
        Ok(dependents)
    }

    /// Carries out what [`Session::cascade`] found. `winner` is the transaction that caused it.
    pub(crate) fn invalidate(&mut self, doomed: &Doomed, winner: i64) -> Result<(), LedgerError> {
        if doomed.losers.is_empty() {
            return Ok(());
        }
        let losers = doomed.losers.iter().map(|loser| loser.id);
        self.let_go(losers.chain(doomed.dependents.keys().copied()))?;
        for loser in &doomed.losers {
            let declared = loser.reason == InvalidReason::Replaced;
            let status = if declared { TxStatus::Replaced } else { TxStatus::Failed };
            self.kill(loser.id, status, Some(loser.reason), Some(winner))?;
            self.insert_edge(loser.id, winner, loser.reason)?;
        }
        self.kill_dependents(doomed)
    }

    /// Ends one transaction without a winner, and all that depends on it.
    pub(crate) fn end(&mut self, id: i64, txid: Txid, end: TxState) -> Result<Doomed, LedgerError> {
        let dependents = self.descendants(&[(id, txid)], None)?;
        let doomed = Doomed { losers: Vec::new(), dependents };
        self.let_go(std::iter::once(id).chain(doomed.dependents.keys().copied()))?;
        let reason = (end == TxState::Failed).then_some(InvalidReason::Abandoned);
        self.kill(id, end.status(), reason, None)?;
        self.kill_dependents(&doomed)?;
        Ok(doomed)
    }

    /// Ends what spends outputs that `parent` does not have, which a block has shown, and all that
    /// depends on it.
    pub(super) fn end_phantoms(
        &mut self,
        parent: Txid,
        outputs: usize,
    ) -> Result<Vec<Txid>, LedgerError> {
        let first = i64::try_from(outputs).unwrap_or(i64::MAX);
        let mut roots: Vec<(i64, Txid)> = Vec::new();
        for claim in [HOLDS, WAITS] {
            let key = [self.id(), Value::from(parent.as_bytes()), Value::from(first), claim.into()];
            let read = |row: &Row<'_>| Ok((row.int(0)?, rows::txid(row, 1)?));
            roots.extend(self.tx.query_all(PHANTOMS, &key, read)?);
        }
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let parent = self.known(&parent)?.id;
        let mut dependents = self.descendants(&roots, None)?;
        for dependent in dependents.values_mut() {
            dependent.root = parent;
        }
        let root = |(id, txid)| (id, Dependent { txid, root: parent });
        dependents.extend(roots.into_iter().map(root));
        let doomed = Doomed { losers: Vec::new(), dependents };
        self.let_go(doomed.dependents.keys().copied())?;
        self.kill_dependents(&doomed)?;
        Ok(doomed.descendants())
    }

    fn kill_dependents(&mut self, doomed: &Doomed) -> Result<(), LedgerError> {
        for (id, dependent) in &doomed.dependents {
            let reason = Some(InvalidReason::AncestorInvalid);
            self.kill(*id, TxStatus::Failed, reason, Some(dependent.root))?;
        }
        Ok(())
    }

    /// How many transactions one event may change. What a block brings about has to be done
    /// whatever it takes; it is bounded by what the wallet has in no block.
    pub(super) const fn cascade_txs_max(&self) -> usize {
        match self.evidence {
            Evidence::Claim => self.limits.cascade_txs_max,
            Evidence::Block => usize::MAX,
        }
    }

    /// Frees what the transactions spend, and takes what they pay out of the balance.
    pub(super) fn let_go(&mut self, ids: impl Iterator<Item = i64>) -> Result<(), SqlError> {
        let ids: Vec<i64> = ids.collect();
        self.touch(&ids)?;
        let keys: Vec<Value<'_>> = ids.into_iter().map(Value::from).collect();
        let fixed = [self.id()];
        if self.has_leases()? {
            self.tx.execute_in(RESET_LEASES, ")", &fixed, 1, &keys)?;
        }
        for statement in [FREE_COINS, FREE_INPUTS, KILL_COINS] {
            self.tx.execute_in(statement, "", &fixed, 1, &keys)?;
        }
        Ok(())
    }

    fn kill(
        &mut self,
        id: i64,
        status: TxStatus,
        reason: Option<InvalidReason>,
        by: Option<i64>,
    ) -> Result<(), SqlError> {
        let row = [
            self.id(),
            Value::from(id),
            Value::from(status.code()),
            Value::from(reason.map(InvalidReason::code)),
            Value::from(by),
        ];
        self.tx.execute(KILL_TX, &row)?;
        Ok(())
    }
}
