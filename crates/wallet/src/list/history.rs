//! Transactions with fee and value delta, in pages.
//!
//! What a transaction spends is read from its stored inputs, not from the pointers of coins: those
//! are cleared when it is not live any more, and its history must stay.

use std::fmt;

use utxokeep_core::{
    Height, OutPoint, Txid,
    wallet::{Amount, InvalidReason, Micros, TxState, WalletId},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

macro_rules! history {
    ($rest:literal) => {
        concat!(
            "SELECT t.txid, t.id, t.status, t.block_height, t.block_position, t.is_coinbase,
                t.is_waiting, t.received_at_us, t.input_count, t.output_total, t.invalid_reason,
                (SELECT b.txid FROM transactions b WHERE b.wallet_id = t.wallet_id
                    AND b.id = t.invalidated_by_tx_id),
                (SELECT CAST(SUM(u.amount) AS BIGINT) FROM utxos u
                    WHERE u.wallet_id = t.wallet_id AND u.tx_id = t.id),
                (SELECT COUNT(*) FROM tx_inputs i
                    JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                        AND p.wallet_id = i.wallet_id
                    JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id
                        AND u.output_index = i.prev_index
                    WHERE i.wallet_id = t.wallet_id AND i.tx_id = t.id),
                (SELECT CAST(SUM(u.amount) AS BIGINT) FROM tx_inputs i
                    JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
                        AND p.wallet_id = i.wallet_id
                    JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id
                        AND u.output_index = i.prev_index
                    WHERE i.wallet_id = t.wallet_id AND i.tx_id = t.id)
            FROM transactions t ",
            $rest
        )
    };
}

const SELECT_ONE: &str = history!("WHERE t.chain_id = $1 AND t.txid = $2 AND t.wallet_id = $3");
const SELECT_UP: &str = history!("WHERE t.wallet_id = $1 AND t.id > $2 ORDER BY t.id LIMIT $3");
const SELECT_DOWN: &str =
    history!("WHERE t.wallet_id = $1 AND t.id < $2 ORDER BY t.id DESC LIMIT $3");
const SELECT_UNCONFIRMED_UP: &str = history!(
    "WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.id > $2 ORDER BY t.id LIMIT $3"
);
const SELECT_UNCONFIRMED_DOWN: &str = history!(
    "WHERE t.wallet_id = $1 AND t.block_height IS NULL AND t.id < $2 ORDER BY t.id DESC LIMIT $3"
);
const SELECT_HEIGHTS_UP: &str = history!(
    "WHERE t.wallet_id = $1 AND t.block_height BETWEEN $4 AND $5
        AND (t.block_height > $6 OR (t.block_height = $6 AND t.block_position > $7)
            OR (t.block_height = $6 AND t.block_position = $7 AND t.id > $2))
     ORDER BY t.block_height, t.block_position, t.id LIMIT $3"
);
const SELECT_HEIGHTS_DOWN: &str = history!(
    "WHERE t.wallet_id = $1 AND t.block_height BETWEEN $4 AND $5
        AND (t.block_height < $6 OR (t.block_height = $6 AND t.block_position < $7)
            OR (t.block_height = $6 AND t.block_position = $7 AND t.id < $2))
     ORDER BY t.block_height DESC, t.block_position DESC, t.id DESC LIMIT $3"
);
const SELECT_INPUTS: &str = "SELECT i.prev_txid, i.prev_index, u.amount
    FROM tx_inputs i
    LEFT JOIN transactions p ON p.chain_id = $3 AND p.txid = i.prev_txid
        AND p.wallet_id = i.wallet_id
    LEFT JOIN utxos u ON u.wallet_id = p.wallet_id AND u.tx_id = p.id
        AND u.output_index = i.prev_index
    WHERE i.wallet_id = $1 AND i.tx_id = $2 ORDER BY i.input_index";
const SELECT_OUTPUTS: &str = "SELECT output_index, amount FROM utxos
    WHERE wallet_id = $1 AND tx_id = $2 ORDER BY output_index";
const SELECT_RAW: &str = "SELECT raw_tx FROM transactions WHERE wallet_id = $1 AND id = $2";
const SELECT_EDGES: &str = "SELECT a.txid, b.txid, r.reason, r.created_at_us
    FROM tx_replacements r
    JOIN transactions a ON a.wallet_id = r.wallet_id AND a.id = r.replaced_tx_id
    JOIN transactions b ON b.wallet_id = r.wallet_id AND b.id = r.replacement_tx_id
    WHERE r.wallet_id = $1 AND (r.replaced_tx_id = $2 OR r.replacement_tx_id = $2)
    ORDER BY r.created_at_us, r.replaced_tx_id, r.replacement_tx_id LIMIT $3";

/// Which way a list goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

/// Which transactions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryScope {
    /// All, in the order they were first recorded.
    #[default]
    All,
    /// Those in no block, live or not, in the order they were first recorded.
    Unconfirmed,
    /// Those in blocks of these heights, both included, in the order of the chain.
    Heights(Height, Height),
}

/// Where a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryCursor {
    id: i64,
    height: i64,
    position: i64,
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.id, self.height, self.position)
    }
}

impl HistoryCursor {
    /// Reads the text form; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<i64>().ok());
        let cursor =
            Self { id: numbers.next()??, height: numbers.next()??, position: numbers.next()?? };
        numbers.next().is_none().then_some(cursor)
    }
}

/// A page of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Which transactions.
    pub scope: HistoryScope,
    /// In which direction.
    pub direction: Direction,
    /// Cursor of the last transaction of the page before.
    pub after: Option<HistoryCursor>,
    /// Transactions per page.
    pub limit: usize,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self {
            scope: HistoryScope::All,
            direction: Direction::Forward,
            after: None,
            limit: usize::MAX,
        }
    }
}

/// A transaction and what it means for the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxSummary {
    /// Its id.
    pub txid: Txid,
    /// Status and block.
    pub state: TxState,
    /// Position in its block.
    pub position: Option<u32>,
    /// Whether it is a coinbase.
    pub coinbase: bool,
    /// Whether it is a replacement that waits to be published.
    pub waiting: bool,
    /// When it was first recorded.
    pub received_at: Micros,
    /// Sum of the wallet's outputs that it spends.
    pub spent: u64,
    /// Sum of its outputs that belong to the wallet.
    pub received: u64,
    /// What it pays, known when all its inputs are the wallet's.
    pub fee: Option<u64>,
    /// Why it is not live.
    pub invalid_reason: Option<InvalidReason>,
    /// What took its place, or the transaction it depended on.
    pub invalidated_by: Option<Txid>,
    /// Goes on behind this transaction.
    pub cursor: HistoryCursor,
}

impl TxSummary {
    /// By how much it changes what the wallet has.
    #[must_use]
    pub fn delta(&self) -> i128 {
        i128::from(self.received) - i128::from(self.spent)
    }
}

/// An input, with the amount where the output belongs to the wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnInput {
    /// The output it spends.
    pub outpoint: OutPoint,
    /// Its amount.
    pub amount: Option<Amount>,
}

/// Everything about one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxDetail {
    /// The line of the history.
    pub summary: TxSummary,
    /// Its inputs in order.
    pub inputs: Vec<OwnInput>,
    /// Its outputs that belong to the wallet, spent or not.
    pub outputs: Vec<(u32, Amount)>,
    /// Its bytes, where they were given.
    pub raw: Option<Vec<u8>>,
}

/// Who took whose inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// The one that lost, or will lose when the other is published.
    pub replaced: Txid,
    /// The one that took its place.
    pub replacement: Txid,
    /// Whether it was declared, or a double spend.
    pub reason: InvalidReason,
    /// When this was recorded.
    pub created_at: Micros,
}

impl Ledger {
    /// A page of the history.
    pub fn history(
        &self,
        wallet: WalletId,
        query: &HistoryQuery,
    ) -> Result<Vec<TxSummary>, LedgerError> {
        let limit = self.page(query.limit);
        self.read_wallet(wallet, |session| Ok(session.history(query, limit)?))
    }

    /// One transaction, whatever became of it.
    pub fn transaction(&self, wallet: WalletId, txid: &Txid) -> Result<TxDetail, LedgerError> {
        self.read_wallet(wallet, |session| session.detail(txid))
    }

    /// What a transaction replaced and what replaced it, oldest first.
    pub fn replacements(
        &self,
        wallet: WalletId,
        txid: &Txid,
        limit: usize,
    ) -> Result<Vec<Replacement>, LedgerError> {
        let limit = self.page(limit);
        self.read_wallet(wallet, |session| {
            let stored = session.known(txid)?;
            let key = [session.id(), Value::from(stored.id), limit];
            Ok(session.tx.query_all(SELECT_EDGES, &key, |row| {
                Ok(Replacement {
                    replaced: rows::txid(row, 0)?,
                    replacement: rows::txid(row, 1)?,
                    reason: reason(row.int(2)?)?,
                    created_at: Micros::new(row.int(3)?),
                })
            })?)
        })
    }
}

impl Session<'_, '_> {
    /// One transaction with inputs and outputs.
    pub(crate) fn detail(&mut self, txid: &Txid) -> Result<TxDetail, LedgerError> {
        let key = [Value::from(self.chain), Value::from(txid.as_bytes()), self.id()];
        let summary = self.tx.query_opt(SELECT_ONE, &key, read_summary)?;
        let summary = summary.ok_or(LedgerError::TxNotFound(self.network.hash(txid)))?;
        let key = [self.id(), Value::from(summary.cursor.id), Value::from(self.chain)];
        let inputs = self.tx.query_all(SELECT_INPUTS, &key, |row| {
            let amount = row.opt_int(2)?.map(|_| rows::amount(row, 2)).transpose()?;
            Ok(OwnInput { outpoint: rows::outpoint(row, 0)?, amount })
        })?;
        let outputs = self.tx.query_all(SELECT_OUTPUTS, &key[..2], |row| {
            Ok((rows::u32_at(row, 0)?, rows::amount(row, 1)?))
        })?;
        let raw = self
            .tx
            .query_one(SELECT_RAW, &key[..2], |row| Ok(row.opt_bytes(0)?.map(<[u8]>::to_vec)))?;
        Ok(TxDetail { summary, inputs, outputs, raw })
    }

    fn history(
        &mut self,
        query: &HistoryQuery,
        limit: Value<'_>,
    ) -> Result<Vec<TxSummary>, SqlError> {
        let start = match query.direction {
            Direction::Forward => HistoryCursor { id: 0, height: -1, position: -1 },
            Direction::Backward => {
                HistoryCursor { id: i64::MAX, height: i64::MAX, position: i64::MAX }
            }
        };
        let after = query.after.unwrap_or(start);
        let mut parameters = vec![self.id(), Value::from(after.id), limit];
        let statement = match (query.scope, query.direction) {
            (HistoryScope::All, Direction::Forward) => SELECT_UP,
            (HistoryScope::All, Direction::Backward) => SELECT_DOWN,
            (HistoryScope::Unconfirmed, Direction::Forward) => SELECT_UNCONFIRMED_UP,
            (HistoryScope::Unconfirmed, Direction::Backward) => SELECT_UNCONFIRMED_DOWN,
            (HistoryScope::Heights(low, high), direction) => {
                parameters.extend([
                    Value::from(low.get()),
                    Value::from(high.get()),
                    Value::from(after.height),
                    Value::from(after.position),
                ]);
                match direction {
                    Direction::Forward => SELECT_HEIGHTS_UP,
                    Direction::Backward => SELECT_HEIGHTS_DOWN,
                }
            }
        };
        self.tx.query_all(statement, &parameters, read_summary)
    }
}

fn reason(code: i64) -> Result<InvalidReason, SqlError> {
    InvalidReason::from_code(code).ok_or_else(|| rows::bad(format!("{code} is no reason")))
}

fn read_summary(row: &Row<'_>) -> Result<TxSummary, SqlError> {
    let position = rows::position(row, 4)?;
    let spent = rows::sum(row, 14)?;
    let all_own = row.int(8)? > 0 && row.int(8)? == row.int(13)?;
    let fee = if all_own { spent.checked_sub(rows::sum(row, 9)?) } else { None };
    let state = rows::state(row, 2, 3)?;
    Ok(TxSummary {
        txid: rows::txid(row, 0)?,
        state,
        position,
        coinbase: rows::flag(row, 5)?,
        waiting: rows::flag(row, 6)?,
        received_at: Micros::new(row.int(7)?),
        spent,
        received: rows::sum(row, 12)?,
        fee,
        invalid_reason: row.opt_int(10)?.map(reason).transpose()?,
        invalidated_by: row.opt_bytes(11)?.map(|_| rows::txid(row, 11)).transpose()?,
        cursor: HistoryCursor {
            id: row.int(1)?,
            height: state.block().map_or(-1, |height| height.get().into()),
            position: position.map_or(-1, i64::from),
        },
    })
}
