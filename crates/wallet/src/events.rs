//! Reading wallet events by cursor, and forgetting old ones.
//!
//! A cursor is the number of the last event that a reader has seen. Numbers of a wallet have no
//! gap, so a reader that goes on from its cursor misses nothing; when events behind its cursor were
//! forgotten, it is told so.

use std::sync::atomic::Ordering;

use utxokeep_core::{
    BlockHash, Height, OutPoint, Txid,
    wallet::{InvalidReason, LeaseId, Micros, TxStatus, WalletEventKind, WalletId},
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use crate::{Cleaned, Ledger, LedgerError, rows, session::Session};

const SELECT_BOUNDS: &str = "SELECT first_event_id, next_event_id FROM wallets WHERE id = $1";
const SELECT_EVENTS: &str = "SELECT id, kind, at_us, txid, tx_status, block_height, block_hash,
        confirmations, reason, by_txid, output_index, lease_id, expired_at_us
    FROM wallet_events WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";
const SELECT_FIRST_YOUNG: &str = "SELECT id FROM wallet_events
    WHERE wallet_id = $1 AND at_us > $2 ORDER BY id LIMIT 1";
const DELETE_BELOW: &str = "DELETE FROM wallet_events WHERE wallet_id = $1 AND id < $2";
const SET_FIRST: &str = "UPDATE wallets SET first_event_id = $2 WHERE id = $1";

/// Something that happened to a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalletEvent {
    /// Number in the wallet: 1 for the first, without gaps. It is the cursor behind this event.
    pub id: i64,
    /// What happened.
    pub kind: WalletEventKind,
    /// When the ledger recorded it, by the clock of the program that did.
    pub at: Micros,
    /// The transaction, or the one that paid the leased output.
    pub txid: Txid,
    /// The status of the transaction after the event; `None` for a lease, or when the ledger forgot
    /// the transaction.
    pub status: Option<TxStatus>,
    /// The block that holds the transaction, or that it left.
    pub block_height: Option<Height>,
    /// Hash of that block, where the ledger knew it.
    pub block_hash: Option<BlockHash>,
    /// The depth that the transaction has reached.
    pub confirmations: Option<u32>,
    /// Why the transaction is not live any more.
    pub reason: Option<InvalidReason>,
    /// The transaction that took its inputs, or the one that it depended on.
    pub by: Option<Txid>,
    /// The lease that ended: its output, its owner, and when.
    pub lease: Option<(OutPoint, LeaseId, Micros)>,
}

/// Events behind a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventPage {
    /// The events, in the order in which they became visible.
    pub events: Vec<WalletEvent>,
    /// The cursor to go on from: that of the last event, or the one that was given.
    pub next_cursor: i64,
    /// Whether there are more events now.
    pub has_more: bool,
}

impl Ledger {
    /// Events of a wallet behind a cursor, the oldest first; without a cursor from the oldest that is
    /// kept. A cursor behind which events were forgotten is refused ([`LedgerError::EventsGone`]), and
    /// so is one that no event has reached.
    pub fn events(
        &self,
        wallet: WalletId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<EventPage, LedgerError> {
        let limit = self.page(limit.max(1));
        self.read(|tx| {
            let bounds = tx.query_opt(SELECT_BOUNDS, &[Value::from(wallet.get())], |row| {
                Ok((row.int(0)?, row.int(1)?))
            })?;
            let (first, next) = bounds.ok_or(LedgerError::WalletNotFound(wallet))?;
            let after = after.unwrap_or(first - 1);
            if after < first - 1 {
                return Err(LedgerError::EventsGone { cursor: after, oldest: first - 1 });
            }
            if after >= next {
                return Err(LedgerError::argument(format!(
                    "cursor {after} is none of this wallet, whose newest event is {}",
                    next - 1
                )));
            }
            let events = page(tx, wallet, after, limit)?;
            let next_cursor = events.last().map_or(after, |event| event.id);
            Ok(EventPage { events, next_cursor, has_more: next_cursor < next - 1 })
        })
    }

    /// A number that grows with every commit of this program to the ledger. A reader that waits for
    /// events asks the database again when it has changed, and now and then for other programs.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }
}

impl Session<'_, '_> {
    /// Forgets the oldest events beyond those that are kept.
    pub(crate) fn forget_events(
        &mut self,
        keep_rows: i64,
        young: Micros,
        rows_max: i64,
    ) -> Result<Cleaned, LedgerError> {
        let read = |row: &Row<'_>| Ok((row.int(0)?, row.int(1)?));
        let (first, next) = self.tx.query_one(SELECT_BOUNDS, &[self.id()], read)?;
        let key = [self.id(), Value::from(young.get())];
        let first_young = self.tx.query_opt(SELECT_FIRST_YOUNG, &key, |row| row.int(0))?;
        let wanted = first_young.unwrap_or(next).max(next.saturating_sub(keep_rows)).max(first);
        let keep_from = wanted.min(first.saturating_add(rows_max));
        let key = [self.id(), Value::from(keep_from)];
        let rows = self.tx.execute(DELETE_BELOW, &key)?;
        self.tx.execute(SET_FIRST, &key)?;
        Ok(Cleaned { rows, has_more: keep_from < wanted })
    }
}

/// Events behind a cursor that was checked.
pub(crate) fn page(
    tx: &mut Transaction<'_>,
    wallet: WalletId,
    after: i64,
    limit: Value<'_>,
) -> Result<Vec<WalletEvent>, SqlError> {
    let key = [Value::from(wallet.get()), Value::from(after), limit];
    tx.query_all(SELECT_EVENTS, &key, read_event)
}

fn read_event(row: &Row<'_>) -> Result<WalletEvent, SqlError> {
    let code = row.int(1)?;
    let kind = WalletEventKind::from_code(code)
        .ok_or_else(|| rows::bad(format!("{code} is no kind of event")))?;
    let reason = row.opt_int(8)?.map(|code| {
        InvalidReason::from_code(code).ok_or_else(|| rows::bad(format!("{code} is no reason")))
    });
    let txid = rows::txid(row, 3)?;
    let lease = match row.opt_int(10)? {
        None => None,
        Some(_) => Some((
            OutPoint::new(txid, rows::u32_at(row, 10)?),
            LeaseId::from_bytes(row.array(11)?),
            Micros::new(row.int(12)?),
        )),
    };
    Ok(WalletEvent {
        id: row.int(0)?,
        kind,
        at: Micros::new(row.int(2)?),
        txid,
        status: row.opt_int(4)?.map(|_| rows::status(row, 4)).transpose()?,
        block_height: rows::height(row, 5)?,
        block_hash: row.opt_bytes(6)?.map(|_| row.array(6)).transpose()?.map(BlockHash::from_bytes),
        confirmations: row.opt_int(7)?.map(|_| rows::u32_at(row, 7)).transpose()?,
        reason: reason.transpose()?,
        by: row.opt_bytes(9)?.map(|_| rows::txid(row, 9)).transpose()?,
        lease,
    })
}
