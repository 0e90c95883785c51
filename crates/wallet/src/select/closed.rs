//! Coins that a payment cannot spend yet, because their descriptor has locks (`older`, `after`).

use std::fmt::Write as _;

use utxokeep_core::wallet::{Guard, LockKind, LockTime, OpenCoins, SpendLocks};
use utxokeep_sql::Value;

use super::SelectionRequest;
use crate::{LedgerError, session::Session};

/// Others have no locks and need not be read.
const SELECT_LOCKING: &str = "SELECT id, descriptor FROM descriptors
    WHERE wallet_id = $1 AND (descriptor LIKE '%older(%' OR descriptor LIKE '%after(%')
    ORDER BY id";

const MICROS: i64 = 1_000_000;

/// Keychains with coins that are left out of a selection. All others are open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ClosedCoins(Vec<(i64, OpenCoins)>);

impl Session<'_, '_> {
    /// What must be left out of the payment. One transaction has one lock time, a height or a time:
    /// where that makes a difference there are two answers, and the payment follows one of them.
    pub(crate) fn closed_coins(
        &mut self,
        request: &SelectionRequest,
    ) -> Result<Vec<ClosedCoins>, LedgerError> {
        self.closed_at(request.lock_time, request.allow.contains(Guard::NotYetValid))
    }

    /// The same for a lock time, and for payments that may wait for their coins.
    pub(crate) fn closed_at(
        &mut self,
        lock_time: LockTime,
        may_wait: bool,
    ) -> Result<Vec<ClosedCoins>, LedgerError> {
        let found = self.tx.query_all(SELECT_LOCKING, &[self.id()], |row| {
            Ok((row.int(0)?, row.text(1)?.to_owned()))
        })?;
        let mut locking: Vec<(i64, Vec<SpendLocks>)> = Vec::with_capacity(found.len());
        for (id, text) in found {
            let codec = self.codec.as_deref().ok_or(LedgerError::NoCodec)?;
            locking.push((id, codec.spend_locks(self.network, &text)?));
        }
        let next = self.next_block(self.now);
        let closed = |kind: &LockKind| {
            let open = |(id, ways): &(i64, Vec<SpendLocks>)| {
                (*id, OpenCoins::of(ways, *kind, next, may_wait))
            };
            let closed = locking.iter().map(open).filter(|(_, open)| *open != OpenCoins::All);
            ClosedCoins(closed.collect())
        };
        let mut all: Vec<_> = LockKind::possible(lock_time).iter().map(closed).collect();
        all.dedup();
        Ok(all)
    }
}

impl ClosedCoins {
    /// Whether all coins are open.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The condition that coins meet which are open, with its numbers as further parameters.
    pub(crate) fn condition(&self, chain: i64, parameters: &mut Vec<Value<'_>>) -> String {
        let mut text = String::new();
        if self.0.is_empty() {
            return text;
        }
        let mut parameter = |number: i64| {
            parameters.push(Value::from(number));
            parameters.len()
        };
        let chain = parameter(chain);
        text.push_str(
            " AND NOT EXISTS (SELECT 1 FROM descriptor_scripts s WHERE s.wallet_id = u.wallet_id
            AND s.address_id = u.address_id AND CASE s.descriptor_id",
        );
        for (id, open) in &self.0 {
            let OpenCoins::InBlocks { height_max, time_max } = open else { continue };
            // An empty range where nothing is open.
            let height = parameter(height_max.map_or(-1, i64::from));
            let time_end = parameter(time_max.map_or(0, |time| (i64::from(time) + 1) * MICROS));
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                " WHEN {id} THEN NOT (u.parent_class = 4 AND (u.parent_height <= ${height}
                    OR EXISTS (SELECT 1 FROM blocks b WHERE b.chain_id = ${chain}
                        AND b.height = u.parent_height AND b.time_us < ${time_end})))"
            );
        }
        text.push_str(" ELSE 1 = 0 END LIMIT 1 OFFSET 0)");
        text
    }
}
