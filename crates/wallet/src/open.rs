//! A wallet inside one database transaction: several questions answered from one snapshot, or
//! several changes that happen together or not at all.

use utxokeep_core::{
    BlockHash, ChainWork, Height, OutPoint, Txid,
    wallet::{Balance, CoinAge, ConfirmedCoin, Micros, NextBlock, WalletId},
};
use utxokeep_sql::{SqlError, Value};

use crate::{
    Address, BalanceQuery, BumpPlan, BumpRequest, Bumped, Coin, CoinQuery, LabelKind, LeaseTerms,
    Ledger, LedgerError, NewTx, NextChange, RecordOptions, Recorded, RevealedAddress, ScriptSource,
    Seen, SelectedCoin, Selection, SelectionRequest, Standing, Tip, TxDetail, rows,
    session::Session,
};

const SELECT_CONFIRMED: &str = "SELECT t.txid, u.output_index, u.amount, u.parent_height,
        u.parent_coinbase, u.address_id, m.script, t.block_position
    FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE u.wallet_id = $1 AND u.address_id BETWEEN $2 AND $3 AND u.parent_height <= $4
        AND (s.block_height IS NULL OR s.block_height > $4)";

/// Blocks that are stored because of transactions in them, and those that are only remembered.
const SELECT_BLOCKS: &str = "SELECT x.height, x.hash, x.time_us, x.work FROM (
        SELECT chain_id, height, hash, time_us, NULL AS work FROM blocks
        UNION SELECT chain_id, height, hash, time_us, work FROM recent_blocks) x
    JOIN wallets w ON w.chain_id = x.chain_id
    WHERE w.id = $1 AND x.height BETWEEN $2 AND $3 ORDER BY x.height";

/// A block as the ledger knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBlock {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// Its time, where that is known.
    pub time: Option<Micros>,
    /// Its own work, where that is known.
    pub work: Option<ChainWork>,
}

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

/// A wallet inside one database transaction. All answers belong to the same block and to the same
/// leases; changes are committed together.
#[expect(missing_debug_implementations, reason = "it is a running transaction")]
pub struct OpenWallet<'l, 't, 'c> {
    pub(crate) ledger: &'l Ledger,
    pub(crate) session: &'l mut Session<'t, 'c>,
}

impl Ledger {
    /// Runs `body` on one snapshot of a wallet, in which leases are as of `now`. Changes are
    /// refused.
    pub fn view<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut OpenWallet<'_, '_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_open()?;
        self.database.read(|tx| {
            let mut session = Session::view(tx, self.limits, wallet)?;
            session.clock = self.lease_clock;
            session.codec.clone_from(&self.codec);
            session.now = now;
            body(&mut OpenWallet { ledger: self, session: &mut session })
        })
    }

    /// Runs `body` with the lock of a wallet that is not archived, and commits what it changed if it
    /// succeeds. `body` runs again from the start when other transactions were in the way.
    pub fn change<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut OpenWallet<'_, '_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write_wallet(wallet, now, |session| body(&mut OpenWallet { ledger: self, session }))
    }

    /// The same for a wallet that may be archived: `body` has to refuse changes that such a wallet
    /// does not take, see [`OpenWallet::check_not_archived`].
    pub fn change_even_archived<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut OpenWallet<'_, '_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write_wallet_even_archived(wallet, now, |session| {
            body(&mut OpenWallet { ledger: self, session })
        })
    }
}

impl OpenWallet<'_, '_, '_> {
    /// The last block that was applied.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.session.tip
    }

    /// Whether the wallet is archived.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.session.is_archived
    }

    /// The last block that an archived wallet has looked at.
    pub fn archived_height(&mut self) -> Result<Option<Height>, LedgerError> {
        Ok(self.session.archived_height()?)
    }

    /// Refuses to change a wallet that is archived.
    pub fn check_not_archived(&self) -> Result<(), LedgerError> {
        if self.session.is_archived { Err(LedgerError::WalletArchived) } else { Ok(()) }
    }

    /// See [`Ledger::standing`].
    pub fn standing(&mut self) -> Result<Standing, LedgerError> {
        Ok(self.session.standing()?)
    }

    /// See [`Ledger::balance`].
    pub fn balance(&mut self, query: &BalanceQuery) -> Result<Balance, LedgerError> {
        self.session.balance(query)
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

    /// Coins of the addresses from `first` to `last` that a block up to `height` made and none up to
    /// it has spent.
    pub fn confirmed_coins(
        &mut self,
        first: i64,
        last: i64,
        height: Height,
    ) -> Result<Vec<CreditedCoin>, LedgerError> {
        let height = Value::from(height.get());
        let key = [self.session.id(), Value::from(first), Value::from(last), height];
        Ok(self.session.tx.query_all(SELECT_CONFIRMED, &key, |row| {
            let coin = ConfirmedCoin {
                outpoint: rows::outpoint(row, 0)?,
                amount: rows::amount(row, 2)?.get(),
                height: rows::height(row, 3)?.unwrap_or_default(),
                is_coinbase: rows::flag(row, 4)?,
                // A claim may not know it, and says -1.
                position: row.opt_int(7)?.and_then(|place| u32::try_from(place).ok()),
            };
            let script = row.opt_bytes(6)?.map(<[u8]>::to_vec);
            Ok(CreditedCoin { coin, address_id: row.int(5)?, script })
        })?)
    }

    /// Everything that the ledger says about the blocks from `first` to `last`. Two tables may say
    /// different things about one.
    pub fn known_blocks(
        &mut self,
        first: Height,
        last: Height,
    ) -> Result<Vec<KnownBlock>, LedgerError> {
        let key = [self.session.id(), Value::from(first.get()), Value::from(last.get())];
        Ok(self.session.tx.query_all(SELECT_BLOCKS, &key, |row| {
            Ok(KnownBlock {
                height: rows::height(row, 0)?.unwrap_or_default(),
                hash: BlockHash::from_bytes(row.array(1)?),
                time: row.opt_int(2)?.map(Micros::new),
                work: rows::opt_work(row, 3)?,
            })
        })?)
    }

    /// See [`Ledger::transaction`].
    pub fn transaction(&mut self, txid: &Txid) -> Result<TxDetail, LedgerError> {
        self.session.detail(txid)
    }

    /// See [`Ledger::next_change`].
    pub fn next_change(&mut self) -> Result<Vec<NextChange>, LedgerError> {
        self.session.next_change()
    }

    /// See [`Ledger::script_sources`].
    pub fn script_sources(
        &mut self,
        scripts: &[Vec<u8>],
    ) -> Result<Vec<ScriptSource>, LedgerError> {
        Ok(self.session.script_sources(scripts)?)
    }

    /// See [`Ledger::coin_ages`].
    pub fn coin_ages(
        &mut self,
        coins: &[SelectedCoin],
    ) -> Result<(Vec<Option<CoinAge>>, NextBlock), LedgerError> {
        let now = self.session.now;
        self.session.coin_ages(coins, now)
    }

    /// See [`Ledger::select`].
    pub fn select(&mut self, request: &SelectionRequest) -> Result<Selection, LedgerError> {
        self.ledger.check_request(request)?;
        self.session.select(request)
    }

    /// See [`Ledger::plan_bump`].
    pub fn plan_bump(
        &mut self,
        txid: &Txid,
        request: &BumpRequest,
    ) -> Result<BumpPlan, LedgerError> {
        self.session.plan_bump(self.ledger.codec()?, txid, request)
    }

    /// See [`Ledger::tx_label`].
    pub fn tx_label(&mut self, txid: &Txid) -> Result<Option<String>, LedgerError> {
        let reference = self.session.tx_text(txid);
        Ok(self.session.label(LabelKind::Tx, &reference)?)
    }
}

/// Changes, for wallets that were opened with [`Ledger::change`].
impl OpenWallet<'_, '_, '_> {
    /// See [`Ledger::acquire_leases`].
    pub fn acquire_leases(
        &mut self,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        terms.check()?;
        self.ledger.check_lease_batch(outpoints)?;
        self.session.acquire(outpoints, terms)
    }

    /// See [`Ledger::renew_leases`].
    pub fn renew_leases(
        &mut self,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        terms.check()?;
        self.ledger.check_lease_batch(outpoints)?;
        self.session.renew(outpoints, terms)
    }

    /// See [`Ledger::select_and_lease`].
    pub fn select_and_lease(
        &mut self,
        request: &SelectionRequest,
        terms: &LeaseTerms,
    ) -> Result<Selection, LedgerError> {
        self.ledger.check_request(request)?;
        terms.check()?;
        self.session.select_and_lease(request, terms)
    }

    /// See [`Ledger::reveal_next_address`].
    pub fn reveal_next_address(&mut self, descriptor: i64) -> Result<RevealedAddress, LedgerError> {
        self.ledger.reveal(self.session, descriptor)
    }

    /// See [`Ledger::record`].
    pub fn record(
        &mut self,
        new: &NewTx,
        seen: Seen,
        options: &RecordOptions,
    ) -> Result<Recorded, LedgerError> {
        self.ledger.record_in(self.session, new, seen, options)
    }

    /// Leases and records the replacement that was planned in this transaction. `built` is the
    /// transaction of the plan, `None` when its id will only be known after signing.
    pub fn carry_out_bump(
        &mut self,
        plan: BumpPlan,
        request: &BumpRequest,
        terms: &LeaseTerms,
        built: Option<&NewTx>,
    ) -> Result<Bumped, LedgerError> {
        terms.check()?;
        self.ledger.carry_out_bump(self.session, plan, request, terms, built)
    }
}
