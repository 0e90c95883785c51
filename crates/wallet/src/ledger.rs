//! The ledger itself: opening it, and the wallets in it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use utxokeep_core::{
    Height, Network,
    wallet::{ChainCodec, Micros, WalletId, check_birthday},
};
use utxokeep_fault::crash_point;
use utxokeep_sql::{Database, Definitions, Isolation, Row, SqlError, Transaction, Value};

use crate::{LeaseClock, LedgerError, Limits, Wallet, rows, schema, session::Session};

const SELECT_CHAIN: &str = "SELECT id FROM chains WHERE chain = $1 AND network = $2";
const SELECT_TIP: &str = "SELECT tip_height FROM chains WHERE id = $1";
const INSERT_CHAIN: &str =
    "INSERT INTO chains (chain, network) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const INSERT_WALLET: &str = "INSERT INTO wallets
    (chain_id, name, created_at_us, next_tx_id, next_utxo_id, next_address_id, birthday_height)
    VALUES ($1, $2, $3, 1, 1, 1, $4) ON CONFLICT DO NOTHING RETURNING id";
const SELECT_WALLETS: &str = "SELECT w.id, w.name, c.chain, c.network, w.created_at_us,
        w.archived_at_us
    FROM wallets w JOIN chains c ON c.id = w.chain_id
    WHERE w.id > $1 AND w.archived_at_us IS NULL ORDER BY w.id LIMIT $2";
const SELECT_ALL_WALLETS: &str = "SELECT w.id, w.name, c.chain, c.network, w.created_at_us,
        w.archived_at_us
    FROM wallets w JOIN chains c ON c.id = w.chain_id WHERE w.id > $1 ORDER BY w.id LIMIT $2";
const SELECT_NAMES: &str = "SELECT id, name FROM wallets WHERE id > $1 ORDER BY id LIMIT $2";
const SELECT_WALLET_BY_NAME: &str = "SELECT w.id, w.name, c.chain, c.network, w.created_at_us,
        w.archived_at_us
    FROM wallets w JOIN chains c ON c.id = w.chain_id WHERE w.name = $1";

/// Characters of a wallet's name.
const NAME_CHARS_MAX: usize = 100;

/// Wallets in one database. Clones share its connections; several programs may share it too.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(crate) database: Database,
    pub(crate) limits: Limits,
    isolation: Isolation,
    pub(crate) lease_clock: LeaseClock,
    pub(crate) codec: Option<Arc<dyn ChainCodec>>,
    closed: Arc<AtomicBool>,
    /// Grows with every commit, for readers that wait for events.
    pub(crate) commits: Arc<AtomicU64>,
    /// What the migrations make on this server, once it was asked for.
    schema: Arc<OnceLock<Option<Definitions>>>,
}

impl Ledger {
    /// Opens the ledger in `database`. Its tables are created and brought up to date as far as the
    /// database was opened for that ([`Database::mode`]); else it is refused.
    pub fn open(database: Database, limits: Limits, now: Micros) -> Result<Self, LedgerError> {
        schema::migrate(&database, now)?;
        let isolation = Isolation::ReadCommitted;
        Ok(Self {
            database,
            limits,
            isolation,
            lease_clock: LeaseClock::default(),
            codec: None,
            closed: Arc::default(),
            commits: Arc::default(),
            schema: Arc::default(),
        })
    }

    /// Ends the use of this ledger and its clones: calls that are running come to their end, every
    /// later one is refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn check_open(&self) -> Result<(), LedgerError> {
        if self.closed.load(Ordering::SeqCst) { Err(LedgerError::Closed) } else { Ok(()) }
    }

    /// The same ledger, with writers kept apart by the database on top of the lock they take.
    #[must_use]
    pub fn with_isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// The same ledger, with leases that go by another clock than the usual one.
    #[must_use]
    pub fn with_lease_clock(mut self, clock: LeaseClock) -> Self {
        self.lease_clock = clock;
        self
    }

    /// The same ledger, able to read descriptors and transactions of its chain.
    #[must_use]
    pub fn with_codec(mut self, codec: Arc<dyn ChainCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    pub(crate) fn codec(&self) -> Result<&dyn ChainCodec, LedgerError> {
        self.codec.as_deref().ok_or(LedgerError::NoCodec)
    }

    /// The limits it was opened with.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The database, for callers that keep tables of their own beside the ledger's.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Creates a wallet on a network. Its name must not be taken.
    pub fn create_wallet(
        &self,
        name: &str,
        network: Network,
        now: Micros,
    ) -> Result<Wallet, LedgerError> {
        self.create_wallet_born(name, network, None, now)
    }

    /// Creates a wallet to which nothing was paid below its birthday, so that scans start there. A
    /// birthday above the tip is refused.
    pub fn create_wallet_born(
        &self,
        name: &str,
        network: Network,
        birthday: Option<Height>,
        now: Micros,
    ) -> Result<Wallet, LedgerError> {
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || name.contains('\0') {
            return Err(LedgerError::argument(format!(
                "the name of a wallet has 1 to {NAME_CHARS_MAX} characters, none of them NUL"
            )));
        }
        self.write(|tx| {
            let chain = ensure_chain(tx, network)?;
            let tip =
                tx.query_one(SELECT_TIP, &[Value::from(chain)], |row| rows::height(row, 0))?;
            check_birthday(birthday, tip)?;
            let (chain, name_value) = (Value::from(chain), Value::from(name));
            let row = [chain, name_value, Value::from(now.get()), rows::height_value(birthday)];
            let id = tx.query_opt(INSERT_WALLET, &row, |row| row.int(0))?;
            let id = id.ok_or_else(|| LedgerError::WalletExists(name.to_owned()))?;
            Ok(Wallet {
                id: WalletId::new(id),
                name: name.to_owned(),
                network,
                created_at: now,
                archived_at: None,
            })
        })
    }

    /// All wallets behind `after`, archived ones too, in the order they were created.
    pub fn wallets_and_archived(
        &self,
        after: Option<WalletId>,
        limit: usize,
    ) -> Result<Vec<Wallet>, LedgerError> {
        let parameters = [Value::from(after.map_or(0, WalletId::get)), self.page(limit)];
        self.read(|tx| Ok(tx.query_all(SELECT_ALL_WALLETS, &parameters, read_wallet)?))
    }

    /// Numbers and names of all wallets behind `after`, also of those about which nothing else can be
    /// read.
    pub fn wallet_names(
        &self,
        after: Option<WalletId>,
        limit: usize,
    ) -> Result<Vec<(WalletId, String)>, LedgerError> {
        let parameters = [Value::from(after.map_or(0, WalletId::get)), self.page(limit)];
        let read = |row: &Row<'_>| Ok((WalletId::new(row.int(0)?), row.text(1)?.to_owned()));
        self.read(|tx| Ok(tx.query_all(SELECT_NAMES, &parameters, read)?))
    }

    /// Wallets behind `after` that are not archived, in the order they were created.
    pub fn wallets(
        &self,
        after: Option<WalletId>,
        limit: usize,
    ) -> Result<Vec<Wallet>, LedgerError> {
        let parameters = [Value::from(after.map_or(0, WalletId::get)), self.page(limit)];
        self.read(|tx| Ok(tx.query_all(SELECT_WALLETS, &parameters, read_wallet)?))
    }

    /// The wallet of this number.
    pub fn wallet(&self, id: WalletId) -> Result<Wallet, LedgerError> {
        let parameters = [Value::from(id.get() - 1), Value::from(1)];
        let found =
            self.read(|tx| Ok(tx.query_opt(SELECT_ALL_WALLETS, &parameters, read_wallet)?))?;
        found.filter(|wallet| wallet.id == id).ok_or(LedgerError::WalletNotFound(id))
    }

    /// The wallet of this name.
    pub fn wallet_named(&self, name: &str) -> Result<Wallet, LedgerError> {
        self.read(|tx| {
            tx.query_opt(SELECT_WALLET_BY_NAME, &[Value::from(name)], read_wallet)?
                .ok_or_else(|| LedgerError::WalletNameNotFound(name.to_owned()))
        })
    }

    /// The time that hosts share which use this ledger: that of the database server on `PostgreSQL`,
    /// else the caller's, `now`. See [`LeaseClock`].
    pub fn time(&self, now: Micros) -> Result<Micros, LedgerError> {
        self.read(|tx| Ok(Session::read_lease_time(tx, self.lease_clock, now)?))
    }

    /// What the migrations make on this server; `None` where its user may not find out.
    pub(crate) fn expected_schema(&self) -> Result<Option<&Definitions>, LedgerError> {
        if self.schema.get().is_none() {
            let expected = Definitions::expected(&self.database, schema::MIGRATIONS)?;
            // Whoever was faster has found the same.
            drop(self.schema.set(expected));
        }
        Ok(self.schema.get().and_then(Option::as_ref))
    }

    pub(crate) fn page<'v>(&self, limit: usize) -> Value<'v> {
        Value::from(i64::try_from(limit.min(self.limits.page_rows_max)).unwrap_or(i64::MAX))
    }

    pub(crate) fn write<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_open()?;
        let answer = self.database.write_at(self.isolation, body)?;
        self.commits.fetch_add(1, Ordering::Release);
        crash_point("after_commit");
        Ok(answer)
    }

    pub(crate) fn read<T>(
        &self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.check_open()?;
        self.database.read(body)
    }

    /// Runs `body` with the lock of the wallet, in one transaction. One that is archived is
    /// refused.
    pub(crate) fn write_wallet<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut Session<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write_wallet_even_archived(wallet, now, |session| {
            if session.is_archived {
                return Err(LedgerError::WalletArchived.into());
            }
            body(session)
        })
    }

    /// The same for what an archived wallet takes too: labels, pruning, being restored.
    pub(crate) fn write_wallet_even_archived<T, E: From<LedgerError> + From<SqlError>>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut Session<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(|tx| {
            let mut session = Session::lock(tx, self.limits, wallet, now)?;
            session.clock = self.lease_clock;
            session.codec.clone_from(&self.codec);
            let answer = body(&mut session)?;
            session.finish()?;
            crash_point("before_commit");
            Ok(answer)
        })
    }

    /// Runs `body` on one snapshot.
    pub(crate) fn read_wallet<T>(
        &self,
        wallet: WalletId,
        mut body: impl FnMut(&mut Session<'_, '_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.read(|tx| {
            let mut session = Session::view(tx, self.limits, wallet)?;
            session.clock = self.lease_clock;
            session.codec.clone_from(&self.codec);
            body(&mut session)
        })
    }

    /// Runs `body` on one snapshot, in which leases are as of `now`.
    pub(crate) fn read_wallet_at<T>(
        &self,
        wallet: WalletId,
        now: Micros,
        mut body: impl FnMut(&mut Session<'_, '_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.read_wallet(wallet, |session| {
            session.now = now;
            body(session)
        })
    }
}

/// The row of a chain, made when it is missing.
pub(crate) fn ensure_chain(tx: &mut Transaction<'_>, network: Network) -> Result<i64, SqlError> {
    let names = [Value::from(network.chain()), Value::from(network.name())];
    if let Some(id) = tx.query_opt(SELECT_CHAIN, &names, |row| row.int(0))? {
        return Ok(id);
    }
    tx.execute(INSERT_CHAIN, &names)?;
    tx.query_one(SELECT_CHAIN, &names, |row| row.int(0))
}

fn read_wallet(row: &Row<'_>) -> Result<Wallet, SqlError> {
    let network = Network::find(row.text(2)?, row.text(3)?)
        .map_err(|unknown| SqlError::bad_row(unknown.to_string()))?;
    Ok(Wallet {
        id: WalletId::new(row.int(0)?),
        name: row.text(1)?.to_owned(),
        network,
        created_at: Micros::new(row.int(4)?),
        archived_at: row.opt_int(5)?.map(Micros::new),
    })
}
