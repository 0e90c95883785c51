//! Unspent outputs, in pages that follow an index.

use utxokeep_core::{
    Height, OutPoint, Txid,
    wallet::{
        Amount, Bucket, CoinClass, CoinFacts, CoinView, ConfirmationRange, Maturity, Micros,
        WalletId,
    },
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

/// A page of coins that also meet a condition, whose parameter is the last.
macro_rules! page {
    ($condition:literal) => {
        concat!(
            "SELECT t.txid, u.output_index, u.id, u.amount, u.address_id,
                u.parent_class, u.parent_height, u.parent_coinbase, l.expires_at_us,
                m.is_unspendable, COALESCE(m.script, a.script), a.address, m.script
            FROM utxos u
            JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
            JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
            LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
                AND (l.expires_at_us > $2 OR l.is_held = 1)
            LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
            WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.parent_class > 0
                AND u.amount >= $3 AND (u.amount > $3 OR t.txid > $4
                    OR (t.txid = $4 AND u.output_index > $5))
                AND ((u.parent_height IS NULL AND $6 = 1) OR u.parent_height BETWEEN $7 AND $8)
                AND ($9 = 1 OR l.utxo_id IS NULL)",
            $condition,
            " ORDER BY u.amount, t.txid, u.output_index LIMIT $10"
        )
    };
}

const SELECT_PAGE: &str = page!("");
const SELECT_PAGE_OF_KEYCHAIN: &str = page!(
    " AND EXISTS (SELECT 1 FROM descriptor_scripts d WHERE d.wallet_id = u.wallet_id
        AND d.address_id = u.address_id AND d.descriptor_id = $11)"
);
const SELECT_PAGE_OF_ADDRESS: &str = page!(" AND u.address_id = $11");
const SELECT_ADDRESS: &str = "SELECT 1 FROM addresses WHERE wallet_id = $1 AND id = $2";
const SELECT_ONE: &str = "SELECT t.txid, u.output_index, u.id, u.amount, u.address_id,
        u.parent_class, u.parent_height, u.parent_coinbase, l.expires_at_us, m.is_unspendable,
        COALESCE(m.script, a.script), a.address, m.script
    FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $5
    JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
        AND (l.expires_at_us > $4 OR l.is_held = 1)
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE t.chain_id = $1 AND t.txid = $2 AND t.wallet_id = $3
        AND u.spent_by_tx_id IS NULL AND u.parent_class > 0";
const SELECT_WATCHED: &str = "SELECT t.txid, u.output_index, u.id, u.amount,
        COALESCE(m.script, a.script)
    FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    WHERE u.wallet_id = $1 AND u.id > $2 AND u.parent_class > 0 AND s.block_height IS NULL
    ORDER BY u.id LIMIT $3";

/// An unspent output of the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// Number in the wallet.
    pub id: i64,
    /// The transaction that made the coin, and its index there.
    pub outpoint: OutPoint,
    /// In the smallest unit of the chain.
    pub amount: Amount,
    /// Number of the address it is credited to.
    pub address_id: i64,
    /// Locking script on Bitcoin, bytes of the address on Cardano.
    pub script: Vec<u8>,
    /// Text of the address that is stored for its script; `None` when there is none, or when the
    /// output is credited to one key of a bare multisig.
    pub address: Option<String>,
    /// What its transaction makes of it.
    pub class: CoinClass,
    /// Block of its transaction.
    pub height: Option<Height>,
    /// Whether a coinbase made it.
    pub coinbase: bool,
    /// Whether a lease is active.
    pub leased: bool,
    /// Whether it may be spent; `false` when a label says otherwise, then it is not selected.
    pub spendable: bool,
}

impl Coin {
    /// The line of a balance it counts in.
    #[must_use]
    pub fn bucket(&self, tip: Option<Height>, maturity: Maturity) -> Option<Bucket> {
        let facts = CoinFacts { class: self.class, height: self.height, coinbase: self.coinbase };
        CoinView { tip, range: ConfirmationRange::default(), maturity }.bucket(&facts)
    }
}

/// Whose coins to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CoinScope {
    /// All of the wallet.
    #[default]
    All,
    /// Those of a keychain, by its number in the wallet.
    Keychain(i64),
    /// Those of an address, by its number in the wallet.
    Address(i64),
}

/// Which coins to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinQuery {
    /// Whose they are.
    pub scope: CoinScope,
    /// How many confirmations they have.
    pub range: ConfirmationRange,
    /// Whether leased ones are listed too.
    pub with_leased: bool,
    /// Amount and output of the last coin of the page before.
    pub after: Option<(Amount, OutPoint)>,
    /// Coins per page.
    pub limit: usize,
}

impl Default for CoinQuery {
    fn default() -> Self {
        Self {
            scope: CoinScope::All,
            range: ConfirmationRange::default(),
            with_leased: true,
            after: None,
            limit: usize::MAX,
        }
    }
}

impl CoinQuery {
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let ConfirmationRange { min, max } = self.range;
        if max.is_some_and(|max| max < min) {
            return Err(LedgerError::argument("no coin has fewer confirmations than it needs"));
        }
        Ok(())
    }
}

/// An output whose spending is of interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedOutput {
    /// Number in the wallet.
    pub id: i64,
    /// What a spending transaction names.
    pub outpoint: OutPoint,
    /// In the smallest unit of the chain.
    pub amount: Amount,
    /// Locking script on Bitcoin, bytes of the address on Cardano.
    pub script: Vec<u8>,
}

impl Ledger {
    /// Unspent outputs with a live transaction, by amount, then transaction id and index. Pending, immature and leased ones are there too: policy is the caller's.
    pub fn coins(
        &self,
        wallet: WalletId,
        query: &CoinQuery,
        now: Micros,
    ) -> Result<Vec<Coin>, LedgerError> {
        query.check()?;
        let limit = self.page(query.limit);
        self.read_wallet_at(wallet, now, |session| session.coins_page(query, limit))
    }

    /// One unspent output.
    pub fn coin(
        &self,
        wallet: WalletId,
        outpoint: &OutPoint,
        now: Micros,
    ) -> Result<Coin, LedgerError> {
        self.read_wallet_at(wallet, now, |session| session.unspent(outpoint))
    }

    /// Outputs behind number `after` that are unspent, or spent by nothing but an unconfirmed
    /// transaction: their spending in a block would be news.
    pub fn outputs_to_watch(
        &self,
        wallet: WalletId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<WatchedOutput>, LedgerError> {
        let limit = self.page(limit);
        self.read_wallet(wallet, |session| {
            let parameters = [session.id(), Value::from(after), limit];
            Ok(session.tx.query_all(SELECT_WATCHED, &parameters, |row| {
                Ok(WatchedOutput {
                    id: row.int(2)?,
                    outpoint: rows::outpoint(row, 0)?,
                    amount: rows::amount(row, 3)?,
                    script: row.bytes(4)?.to_vec(),
                })
            })?)
        })
    }
}

impl Session<'_, '_> {
    pub(crate) fn unspent(&mut self, outpoint: &OutPoint) -> Result<Coin, LedgerError> {
        let key = [
            Value::from(self.chain),
            Value::from(outpoint.txid().as_bytes()),
            self.id(),
            Value::from(self.lease_now()?.get()),
            Value::from(outpoint.index()),
        ];
        let coin = self.tx.query_opt(SELECT_ONE, &key, read_coin)?;
        coin.ok_or(LedgerError::UtxoNotFound(self.network.outpoint(outpoint)))
    }

    pub(crate) fn coins_page(
        &mut self,
        query: &CoinQuery,
        limit: Value<'_>,
    ) -> Result<Vec<Coin>, LedgerError> {
        let first = (i64::MIN, OutPoint::new(Txid::default(), 0));
        let (amount, output) =
            query.after.map_or(first, |(amount, output)| (amount.to_column(), output));
        let heights = query.range.heights(self.tip_height());
        let (lowest, highest): (i64, i64) =
            heights.map_or((0, -1), |(low, high)| (low.get().into(), high.get().into()));
        let (statement, scope) = match query.scope {
            CoinScope::All => (SELECT_PAGE, None),
            CoinScope::Keychain(id) => {
                self.descriptor(id)?;
                (SELECT_PAGE_OF_KEYCHAIN, Some(id))
            }
            CoinScope::Address(id) => {
                let key = [self.id(), Value::from(id)];
                if self.tx.query_opt(SELECT_ADDRESS, &key, |_| Ok(()))?.is_none() {
                    return Err(LedgerError::AddressIdNotFound(id));
                }
                (SELECT_PAGE_OF_ADDRESS, Some(id))
            }
        };
        let mut parameters = vec![
            self.id(),
            Value::from(self.lease_now()?.get()),
            Value::from(amount),
            Value::from(output.txid().as_bytes()),
            Value::from(output.index()),
            Value::from(query.range.wants_unconfirmed()),
            Value::from(lowest),
            Value::from(highest),
            Value::from(query.with_leased),
            limit,
        ];
        parameters.extend(scope.map(Value::from));
        Ok(self.tx.query_all(statement, &parameters, read_coin)?)
    }
}

fn read_coin(row: &Row<'_>) -> Result<Coin, SqlError> {
    let is_own_script = row.opt_bytes(12)?.is_none();
    let address = row.opt_text(11)?.filter(|_| is_own_script);
    Ok(Coin {
        script: row.bytes(10)?.to_vec(),
        address: address.map(str::to_owned),
        outpoint: rows::outpoint(row, 0)?,
        id: row.int(2)?,
        amount: rows::amount(row, 3)?,
        address_id: row.int(4)?,
        class: rows::class(row, 5)?,
        height: rows::height(row, 6)?,
        coinbase: rows::flag(row, 7)?,
        leased: row.opt_int(8)?.is_some(),
        spendable: row.opt_int(9)? != Some(1),
    })
}
