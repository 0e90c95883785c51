//! Several questions about a wallet, answered from one snapshot.

use utxokeep_core::{
    OutPoint, Txid,
    wallet::{Balance, ConfirmedCoin, Micros, WalletId},
};
use utxokeep_sql::{SqlError, Value};

use crate::{
    Address, BalanceQuery, Coin, CoinQuery, LabelKind, Ledger, LedgerError, Standing, Tip,
    TxDetail, rows, session::Session,
};

const SELECT_CONFIRMED: &str = "SELECT t.txid, u.output_index, u.amount, u.parent_height,
        u.parent_coinbase, u.address_id, m.script
    FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE u.wallet_id = $1 AND u.address_id BETWEEN $2 AND $3 AND u.parent_class = 4
        AND s.block_height IS NULL";

/// A coin in a block that no block has spent, and where it is credited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditedCoin {
    /// The coin.
    pub coin: ConfirmedCoin,
    /// Number of its address.
    pub address_id: i64,
    /// Its script, when it is not that of the address.
    pub script: Option<Vec<u8>>,
}

/// A wallet as of one moment: all answers belong to the same block and to the same leases.
#[expect(missing_debug_implementations, reason = "it is a running transaction")]
pub struct WalletView<'v, 't, 'c> {
    ledger: &'v Ledger,
    pub(crate) session: Session<'t, 'c>,
}

impl Ledger {
    /// Runs `body` on one snapshot of a wallet, in which leases are as of `now`.
    pub fn view<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut WalletView<'_, '_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_open()?;
        self.database.read(|tx| {
            let mut session = Session::view(tx, self.limits, wallet)?;
            session.clock = self.lease_clock;
            session.now = now;
            body(&mut WalletView { ledger: self, session })
        })
    }
}

impl WalletView<'_, '_, '_> {
    /// The last block that was applied.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.session.tip
    }

    /// See [`Ledger::standing`].
    pub fn standing(&mut self) -> Result<Standing, LedgerError> {
        Ok(self.session.standing()?)
    }

    /// See [`Ledger::balance`].
    pub fn balance(&mut self, query: &BalanceQuery) -> Result<Balance, LedgerError> {
        Ok(self.session.balance(query)?)
    }

    /// See [`Ledger::coins`].
    pub fn coins(&mut self, query: &CoinQuery) -> Result<Vec<Coin>, LedgerError> {
        query.check()?;
        self.session.coins_page(query, self.ledger.page(query.limit))
    }

    /// See [`Ledger::coin`].
    pub fn coin(&mut self, outpoint: &OutPoint) -> Result<Coin, LedgerError> {
        self.session.unspent(outpoint)
    }

    /// See [`Ledger::addresses`].
    pub fn addresses(&mut self, after: i64, limit: usize) -> Result<Vec<Address>, LedgerError> {
        Ok(self.session.addresses_page(after, self.ledger.page(limit))?)
    }

    /// Coins of the addresses from `first` to `last` that a block made and no block has spent.
    pub fn confirmed_coins(
        &mut self,
        first: i64,
        last: i64,
    ) -> Result<Vec<CreditedCoin>, LedgerError> {
        let key = [self.session.id(), Value::from(first), Value::from(last)];
        Ok(self.session.tx.query_all(SELECT_CONFIRMED, &key, |row| {
            let coin = ConfirmedCoin {
                outpoint: rows::outpoint(row, 0)?,
                amount: rows::amount(row, 2)?.get(),
                height: rows::height(row, 3)?.unwrap_or_default(),
                is_coinbase: rows::flag(row, 4)?,
            };
            let script = row.opt_bytes(6)?.map(<[u8]>::to_vec);
            Ok(CreditedCoin { coin, address_id: row.int(5)?, script })
        })?)
    }

    /// See [`Ledger::transaction`].
    pub fn transaction(&mut self, txid: &Txid) -> Result<TxDetail, LedgerError> {
        self.session.detail(txid)
    }

    /// See [`Ledger::tx_label`].
    pub fn tx_label(&mut self, txid: &Txid) -> Result<Option<String>, LedgerError> {
        let reference = self.session.tx_text(txid);
        Ok(self.session.label(LabelKind::Tx, &reference)?)
    }
}
