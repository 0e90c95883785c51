//! What of all wallets of a network is to be given to a node again.

use utxokeep_core::{
    Network, Txid,
    wallet::{Micros, WalletId},
};
use utxokeep_sql::{Row, Value};

use crate::{Ledger, LedgerError, rows};

const SELECT_SENT: &str = "SELECT t.wallet_id, t.id, t.txid, t.raw_tx FROM transactions t
    JOIN wallets w ON w.id = t.wallet_id JOIN chains c ON c.id = w.chain_id
    WHERE t.sent_at_us IS NOT NULL AND t.block_height IS NULL AND c.chain = $1 AND c.network = $2
        AND t.sent_at_us > $3 AND t.status IN (0, 1) AND w.archived_at_us IS NULL
        AND t.raw_tx IS NOT NULL AND (t.wallet_id > $4 OR (t.wallet_id = $4 AND t.id > $5))
    ORDER BY t.wallet_id, t.id LIMIT $6";
const COUNT_OLD: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM transactions t
    JOIN wallets w ON w.id = t.wallet_id JOIN chains c ON c.id = w.chain_id
    WHERE t.sent_at_us IS NOT NULL AND t.block_height IS NULL AND c.chain = $1 AND c.network = $2
        AND t.sent_at_us <= $3 AND t.status IN (0, 1) AND w.archived_at_us IS NULL LIMIT $4) x";

/// Where a list of sent transactions goes on: a wallet and a row in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentCursor(i64, i64);

/// A transaction that was given to a node and is in no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentTx {
    /// Its wallet.
    pub wallet: WalletId,
    /// Its id.
    pub txid: Txid,
    /// Its signed bytes.
    pub raw: Vec<u8>,
    /// The list goes on behind it here.
    pub cursor: SentCursor,
}

impl Ledger {
    /// Live transactions of a network in no block that were given to a node after `since`, behind
    /// `after`. Those of archived wallets are left out.
    pub fn sent_txs(
        &self,
        network: Network,
        since: Micros,
        after: SentCursor,
        limit: usize,
    ) -> Result<Vec<SentTx>, LedgerError> {
        let parameters = [
            Value::from(network.chain()),
            Value::from(network.name()),
            Value::from(since.get()),
            Value::from(after.0),
            Value::from(after.1),
            self.page(limit),
        ];
        let read = |row: &Row<'_>| {
            let (wallet, id) = (row.int(0)?, row.int(1)?);
            let raw = row.opt_bytes(3)?.map(<[u8]>::to_vec).unwrap_or_default();
            let (txid, cursor) = (rows::txid(row, 2)?, SentCursor(wallet, id));
            Ok(SentTx { wallet: WalletId::new(wallet), txid, raw, cursor })
        };
        self.read(|tx| Ok(tx.query_all(SELECT_SENT, &parameters, read)?))
    }

    /// How many such transactions were given to a node at `before` or earlier; counts up to `limit`.
    pub fn count_sent_before(
        &self,
        network: Network,
        before: Micros,
        limit: usize,
    ) -> Result<u64, LedgerError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let names = [Value::from(network.chain()), Value::from(network.name())];
        let parameters = [names[0], names[1], Value::from(before.get()), Value::from(limit)];
        self.read(|tx| Ok(tx.query_one(COUNT_OLD, &parameters, |row| rows::sum(row, 0))?))
    }
}
