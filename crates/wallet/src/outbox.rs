//! Writing wallet events, in the database transaction of the effect that they tell of.
//!
//! Code that changes a transaction calls [`Session::touch`] first, which remembers the state before.
//! When the session is finished, before and after are compared, `core` says which events that is,
//! and their rows are written with numbers from the wallet's counter. The row of the wallet is
//! locked from the start of the session to the commit, so events become visible in the order of
//! their numbers, and a reader that has seen number n never misses a smaller one.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use utxokeep_core::{
    BlockHash, Height, OutPoint, Txid,
    wallet::{InvalidReason, LeaseId, Micros, TxChange, TxNotice, TxState, WalletEventKind},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{rows, session::Session};

const SELECT_STATES: &str = "SELECT t.id, t.txid, t.status, t.block_height, b.hash, t.told_depth,
        t.invalid_reason, i.txid
    FROM transactions t
    LEFT JOIN blocks b ON b.chain_id = t.chain_id AND b.height = t.block_height
    LEFT JOIN transactions i ON i.wallet_id = t.wallet_id AND i.id = t.invalidated_by_tx_id
    WHERE t.wallet_id = $1 AND t.id IN";
const SET_TOLD: &str = "UPDATE transactions SET told_depth = $2 WHERE wallet_id = $1 AND id IN";
const INSERT_EVENTS: &str =
    "INSERT INTO wallet_events (wallet_id, id, kind, at_us, txid, tx_status,
    block_height, block_hash, confirmations, reason, by_txid, output_index, lease_id,
    expired_at_us) VALUES";
const SELECT_UNTOLD: &str = "SELECT id FROM transactions
    WHERE wallet_id = $1 AND block_height >= $2 AND told_depth < $3 ORDER BY id";

/// Columns of [`INSERT_EVENTS`].
const COLUMNS: usize = 14;

/// A transaction as one select found it.
#[derive(Debug, Clone, Copy)]
struct Found {
    txid: Txid,
    state: TxState,
    hash: Option<BlockHash>,
    told: u32,
    reason: Option<InvalidReason>,
    by: Option<Txid>,
}

/// A transaction that the session changes.
#[derive(Debug, Clone, Copy)]
struct Touched {
    id: i64,
    before: Option<Found>,
    /// What it is afterwards, where the session wrote the whole row and nothing changed it since.
    after: Option<Found>,
}

/// A lease that ended by the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpiredLease {
    pub(crate) outpoint: OutPoint,
    pub(crate) owner: LeaseId,
    pub(crate) expired_at: Micros,
}

/// Where the chain ends after a session; nowhere when every block was taken back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TipAfter(pub(crate) Option<Height>);

/// What a session has to tell when it is finished.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    touched: Vec<Touched>,
    places: FxHashMap<i64, usize>,
    expired: Vec<ExpiredLease>,
    /// Where the chain ends after the session, if that is not the tip that it has read.
    pub(crate) tip_after: Option<TipAfter>,
}

/// An event on its way into the table.
struct Unwritten {
    kind: WalletEventKind,
    txid: Txid,
    notice: Option<TxNotice>,
    hash: Option<BlockHash>,
    reason: Option<InvalidReason>,
    by: Option<Txid>,
    lease: Option<ExpiredLease>,
}

impl Session<'_, '_> {
    /// Remembers stored transactions as they are now, before they are changed.
    pub(crate) fn touch(&mut self, ids: &[i64]) -> Result<(), SqlError> {
        let mut unknown = Vec::new();
        for id in ids {
            match self.outbox.places.get(id) {
                Some(at) => self.outbox.touched[*at].after = None,
                None => unknown.push(*id),
            }
        }
        let before = self.states(&unknown)?;
        for (id, found) in before {
            self.outbox.push(Touched { id, before: Some(found), after: None });
        }
        Ok(())
    }

    /// Notes a transaction whose row was not there before.
    pub(crate) fn note_new(&mut self, id: i64) {
        self.outbox.push(Touched { id, before: None, after: None });
    }

    /// Notes a transaction whose row was written whole, in the block at `height`, told `depth`.
    pub(crate) fn note_new_in_block(
        &mut self,
        (id, txid): (i64, Txid),
        (height, hash): (Height, Option<BlockHash>),
        told: u32,
    ) {
        let state = TxState::Confirmed(height);
        let after = Found { txid, state, hash, told, reason: None, by: None };
        self.outbox.push(Touched { id, before: None, after: Some(after) });
    }

    /// Notes a lease that ended by the clock and whose row goes.
    pub(crate) fn note_expired(&mut self, lease: ExpiredLease) {
        self.outbox.expired.push(lease);
    }

    /// Remembers transactions from `height` on whose depths were not told yet, so that they are:
    /// nobody counted while the wallet got no blocks.
    pub(crate) fn touch_untold(&mut self, height: Height) -> Result<(), SqlError> {
        let deepest = self.limits.event_depths.deepest();
        let key = [self.id(), Value::from(height.minus(deepest).get()), Value::from(deepest)];
        let ids = self.tx.query_all(SELECT_UNTOLD, &key, |row| row.int(0))?;
        self.touch(&ids)
    }

    /// Where confirmations are counted from.
    pub(crate) fn tip_after(&self) -> Option<Height> {
        self.outbox.tip_after.map_or_else(|| self.tip_height(), |TipAfter(tip)| tip)
    }

    fn states(&mut self, ids: &[i64]) -> Result<BTreeMap<i64, Found>, SqlError> {
        let mut states = BTreeMap::new();
        let keys: Vec<Value<'_>> = ids.iter().map(|id| Value::from(*id)).collect();
        let fixed = [self.id()];
        self.tx.query_in(SELECT_STATES, "", &fixed, 1, &keys, |row| {
            states.insert(row.int(0)?, read_found(row)?);
            Ok(())
        })?;
        Ok(states)
    }

    /// Writes the events of the session; answers how many there are.
    pub(crate) fn write_events(&mut self) -> Result<usize, SqlError> {
        let outbox = std::mem::take(&mut self.outbox);
        if outbox.touched.is_empty() && outbox.expired.is_empty() {
            return Ok(0);
        }
        self.outbox.tip_after = outbox.tip_after;
        let open: Vec<i64> =
            outbox.touched.iter().filter(|tx| tx.after.is_none()).map(|tx| tx.id).collect();
        let found = self.states(&open)?;
        let (depths, tip) = (self.limits.event_depths, self.tip_after());
        let mut events = Vec::new();
        let mut told: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for tx in &outbox.touched {
            let after = tx.after.or_else(|| found.get(&tx.id).copied());
            let change = TxChange {
                before: tx.before.map(|before| before.state),
                told_before: tx.before.map_or(0, |before| before.told),
                after: after.map(|after| after.state),
                tip,
            };
            let Some(known) = after.or(tx.before) else { continue };
            for notice in change.notices(&depths) {
                events.push(Unwritten::of_tx(notice, known, tx.before));
            }
            let depth = change.told_after(&depths);
            if after.is_some_and(|after| after.told != depth) {
                told.entry(depth).or_default().push(tx.id);
            }
        }
        events.extend(outbox.expired.iter().map(|lease| Unwritten::of_lease(*lease)));
        for (depth, ids) in told {
            let keys: Vec<Value<'_>> = ids.into_iter().map(Value::from).collect();
            self.tx.execute_in(SET_TOLD, "", &[self.id(), Value::from(depth)], 1, &keys)?;
        }
        let mut values = Vec::with_capacity(events.len() * COLUMNS);
        for event in &events {
            let id = self.next_event_id()?;
            event.push_values(&mut values, [self.wallet, id], self.now);
        }
        self.tx.insert_rows(INSERT_EVENTS, "", COLUMNS, &values)?;
        Ok(events.len())
    }
}

impl Outbox {
    fn push(&mut self, tx: Touched) {
        self.places.insert(tx.id, self.touched.len());
        self.touched.push(tx);
    }
}

impl Unwritten {
    fn of_tx(notice: TxNotice, known: Found, before: Option<Found>) -> Self {
        let (mut hash, mut reason, mut by) = (None, None, None);
        match notice {
            TxNotice::Confirmed { .. } => hash = known.hash,
            TxNotice::Reorganised { .. } => hash = before.and_then(|before| before.hash),
            TxNotice::Replaced | TxNotice::Failed => (reason, by) = (known.reason, known.by),
            TxNotice::Created | TxNotice::Seen | TxNotice::Removed => {}
        }
        let txid = known.txid;
        Self { kind: notice.kind(), txid, notice: Some(notice), hash, reason, by, lease: None }
    }

    fn of_lease(lease: ExpiredLease) -> Self {
        Self {
            kind: WalletEventKind::LeaseExpired,
            txid: *lease.outpoint.txid(),
            notice: None,
            hash: None,
            reason: None,
            by: None,
            lease: Some(lease),
        }
    }

    fn push_values<'v>(&'v self, values: &mut Vec<Value<'v>>, key: [i64; 2], now: Micros) {
        let (height, depth) = match self.notice {
            Some(TxNotice::Confirmed { height, depth }) => (Some(height), Some(depth)),
            Some(TxNotice::Reorganised { from, .. }) => (Some(from), None),
            _ => (None, None),
        };
        let status = self.notice.and_then(TxNotice::status);
        let lease = self.lease.as_ref();
        values.extend([
            Value::from(key[0]),
            Value::from(key[1]),
            Value::from(self.kind.code()),
            Value::from(now.get()),
            Value::from(self.txid.as_bytes()),
            Value::from(status.map(utxokeep_core::wallet::TxStatus::code)),
            rows::height_value(height),
            Value::from(self.hash.as_ref().map(BlockHash::as_bytes)),
            Value::from(depth),
            Value::from(self.reason.map(InvalidReason::code)),
            Value::from(self.by.as_ref().map(Txid::as_bytes)),
            Value::from(lease.map(|lease| lease.outpoint.index())),
            Value::from(lease.map(|lease| lease.owner.as_bytes())),
            Value::from(lease.map(|lease| lease.expired_at.get())),
        ]);
    }
}

fn read_found(row: &Row<'_>) -> Result<Found, SqlError> {
    let reason = row.opt_int(6)?.map(|code| {
        InvalidReason::from_code(code).ok_or_else(|| rows::bad(format!("{code} is no reason")))
    });
    Ok(Found {
        txid: rows::txid(row, 1)?,
        state: rows::state(row, 2, 3)?,
        hash: row.opt_bytes(4)?.map(|_| row.array(4)).transpose()?.map(BlockHash::from_bytes),
        told: rows::u32_at(row, 5)?,
        reason: reason.transpose()?,
        by: row.opt_bytes(7)?.map(|_| rows::txid(row, 7)).transpose()?,
    })
}
