//! Leases: who may spend an output for now.
//!
//! A lease ends by the clock, see [`LeaseClock`]. One that is held until `n` confirmations stops
//! looking at the clock once a block spends its output; it ends when that block is deep enough, or
//! when its owner releases it, and it survives a reorganisation in between.

mod clean;
mod end;

pub use self::{clean::Cleaned, end::Abandoned};

use utxokeep_core::{
    Height, OutPoint, Txid,
    wallet::{Amount, LeaseId, Micros, WalletId},
};
use utxokeep_fault::crash_point;
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, rows, session::Session};

const SELECT_COIN: &str = "SELECT u.id, u.spent_by_tx_id, u.parent_class, m.is_unspendable,
        u.parent_height
    FROM transactions t JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE t.chain_id = $1 AND t.txid = $2 AND t.wallet_id = $3 AND u.output_index = $4";
const ACQUIRE_HEAD: &str = "INSERT INTO utxo_leases
    (wallet_id, utxo_id, lease_id, expires_at_us, hold_confirmations, is_held) VALUES";
const ACQUIRE_TAIL: &str = " ON CONFLICT (wallet_id, utxo_id) DO UPDATE
    SET lease_id = excluded.lease_id,
        expires_at_us = CASE WHEN utxo_leases.lease_id = excluded.lease_id
            AND utxo_leases.expires_at_us > excluded.expires_at_us
            THEN utxo_leases.expires_at_us ELSE excluded.expires_at_us END,
        hold_confirmations = excluded.hold_confirmations,
        is_held = CASE WHEN utxo_leases.lease_id = excluded.lease_id
            AND excluded.hold_confirmations IS NOT NULL THEN utxo_leases.is_held ELSE 0 END
    WHERE utxo_leases.lease_id = excluded.lease_id
        OR (utxo_leases.expires_at_us <= $1 AND utxo_leases.is_held = 0)";
const SELECT_TAKEN: &str = "SELECT utxo_id FROM utxo_leases
    WHERE wallet_id = $1 AND lease_id <> $2 AND utxo_id IN";
const SELECT_LEASE: &str = "SELECT lease_id, expires_at_us, is_held FROM utxo_leases
    WHERE wallet_id = $1 AND utxo_id = $2";
const SELECT_PAGE: &str = "SELECT t.txid, u.output_index, u.amount, l.lease_id, l.expires_at_us,
        l.hold_confirmations, l.is_held, l.spent_height, l.utxo_id, s.txid
    FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    WHERE l.wallet_id = $1 AND l.utxo_id > $3 AND (l.is_held = 1
        OR (l.expires_at_us > $2 AND u.parent_class > 0))
    ORDER BY l.utxo_id LIMIT $4";

/// Which clock says when a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaseClock {
    /// That of the database server on `PostgreSQL`, which hosts whose clocks differ may share. A
    /// `SQLite` file has one host, so there it is the `now` that a caller gives.
    #[default]
    Database,
    /// The `now` that a caller gives, on every engine: for tests that make their own time.
    Caller,
}

/// Who takes a lease, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The owner; the same owner may renew.
    pub owner: LeaseId,
    /// Microseconds from now.
    pub duration_us: i64,
    /// Hold until the spend has this many confirmations, whatever the clock says by then.
    pub hold_confirmations: Option<u32>,
}

impl LeaseTerms {
    /// A lease that ends by the clock.
    #[must_use]
    pub const fn until(owner: LeaseId, duration_us: i64) -> Self {
        Self { owner, duration_us, hold_confirmations: None }
    }

    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        if self.duration_us <= 0 {
            return Err(LedgerError::argument("a lease lasts longer than nothing"));
        }
        if self.hold_confirmations == Some(0) {
            return Err(LedgerError::argument("a lease is held until at least one confirmation"));
        }
        Ok(())
    }
}

/// An active lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Number of the output in the wallet.
    pub utxo_id: i64,
    /// The output.
    pub outpoint: OutPoint,
    /// Its amount.
    pub amount: Amount,
    /// The owner.
    pub owner: LeaseId,
    /// When it ends, unless it is held.
    pub expires_at: Micros,
    /// See [`LeaseTerms::hold_confirmations`].
    pub hold_confirmations: Option<u32>,
    /// A block has spent the output since the lease began, so the clock does not matter.
    pub held: bool,
    /// The block that spends it now.
    pub spent_height: Option<Height>,
    /// The live transaction that spends it now.
    pub spent_by: Option<Txid>,
}

impl Ledger {
    /// Leases outputs, all or none. Each must be unspent and free, expired, or leased to the same
    /// owner, whose lease is renewed and keeps its end if that is later. One that a label holds back
    /// is refused. Returns until when all of them last at least.
    pub fn acquire_leases(
        &self,
        wallet: WalletId,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
        now: Micros,
    ) -> Result<Micros, LedgerError> {
        terms.check()?;
        self.check_lease_batch(outpoints)?;
        self.write_wallet(wallet, now, |session| session.acquire(outpoints, terms))
    }

    /// Renews leases that the owner holds, all or none, from now on. A lease is never shortened: one
    /// that ends later keeps its end. A lease that has expired is not the owner's any more. Returns
    /// until when all of them last at least.
    pub fn renew_leases(
        &self,
        wallet: WalletId,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
        now: Micros,
    ) -> Result<Micros, LedgerError> {
        terms.check()?;
        self.check_lease_batch(outpoints)?;
        self.write_wallet(wallet, now, |session| session.renew(outpoints, terms))
    }

    pub(crate) fn check_lease_batch(&self, outpoints: &[OutPoint]) -> Result<(), LedgerError> {
        let limit = self.limits.lease_batch_max;
        if outpoints.is_empty() || outpoints.len() > limit {
            return Err(LedgerError::argument(format!(
                "{} outputs were given, between 1 and {limit} are leased at once",
                outpoints.len(),
            )));
        }
        Ok(())
    }

    /// Active leases on outputs behind number `after`, also of outputs that a live transaction
    /// spends by now: raising its fee asks for them.
    pub fn leases(
        &self,
        wallet: WalletId,
        after: i64,
        limit: usize,
        now: Micros,
    ) -> Result<Vec<Lease>, LedgerError> {
        let limit = self.page(limit);
        self.read_wallet_at(wallet, now, |session| {
            let now = Value::from(session.lease_now()?.get());
            let parameters = [session.id(), now, Value::from(after), limit];
            Ok(session.tx.query_all(SELECT_PAGE, &parameters, read_lease)?)
        })
    }
}

/// An output of the wallet.
struct Coin {
    id: i64,
    /// Whether its transaction is live.
    is_live: bool,
    /// Whether it is live and no live transaction spends it.
    is_current: bool,
    /// Whether a label says that it must not be spent.
    is_held_back: bool,
    /// Block of its transaction.
    height: Option<Height>,
}

/// A stored lease, active or not.
struct StoredLease {
    owner: LeaseId,
    expires_at: Micros,
    is_held: bool,
}

impl StoredLease {
    fn is_active(&self, now: Micros) -> bool {
        self.is_held || self.expires_at > now
    }
}

impl Session<'_, '_> {
    fn coin(&mut self, outpoint: &OutPoint) -> Result<Option<Coin>, SqlError> {
        let key = [
            Value::from(self.chain),
            Value::from(outpoint.txid().as_bytes()),
            self.id(),
            Value::from(outpoint.index()),
        ];
        self.tx.query_opt(SELECT_COIN, &key, |row| {
            let is_live = row.int(2)? > 0;
            Ok(Coin {
                id: row.int(0)?,
                is_live,
                is_current: is_live && row.opt_int(1)?.is_none(),
                is_held_back: row.opt_int(3)? == Some(1),
                height: rows::height(row, 4)?,
            })
        })
    }

    fn stored_lease(&mut self, coin: i64) -> Result<Option<StoredLease>, SqlError> {
        let key = [self.id(), Value::from(coin)];
        self.tx.query_opt(SELECT_LEASE, &key, |row| {
            Ok(StoredLease {
                owner: LeaseId::from_bytes(row.array(0)?),
                expires_at: Micros::new(row.int(1)?),
                is_held: rows::flag(row, 2)?,
            })
        })
    }

    /// Leases outputs that are unspent and not held back by a label.
    pub(crate) fn acquire(
        &mut self,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        let mut coins = Vec::with_capacity(outpoints.len());
        for outpoint in outpoints {
            let coin = self.coin(outpoint)?.filter(|coin| coin.is_current);
            let coin = coin.ok_or(LedgerError::UtxoNotFound(self.network.outpoint(outpoint)))?;
            // Somebody says that it is in a block which the ledger has not: it counts nowhere yet.
            if let Some(height) = coin.height.filter(|height| Some(*height) > self.tip_height()) {
                return Err(LedgerError::BlockNotFound { height });
            }
            if coin.is_held_back {
                return Err(LedgerError::HeldBack { outpoint: self.network.outpoint(outpoint) });
            }
            coins.push((coin.id, *outpoint));
        }
        coins.sort_unstable();
        self.lease(&coins, terms)
    }

    /// Leases outputs anew that the owner holds.
    pub(crate) fn renew(
        &mut self,
        outpoints: &[OutPoint],
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        let now = self.lease_now()?;
        let asked = now.plus(terms.duration_us);
        let mut ends = None;
        let mut coins = Vec::with_capacity(outpoints.len());
        for outpoint in outpoints {
            let coin = self
                .coin(outpoint)?
                .ok_or(LedgerError::UtxoNotFound(self.network.outpoint(outpoint)))?;
            match self.stored_lease(coin.id)?.filter(|lease| lease.is_active(now)) {
                None => {
                    return Err(LedgerError::NotLeased {
                        outpoint: self.network.outpoint(outpoint),
                    });
                }
                Some(lease) if lease.owner != terms.owner => {
                    return Err(LedgerError::NotLeaseOwner {
                        outpoint: self.network.outpoint(outpoint),
                    });
                }
                Some(lease) => {
                    let end = lease.expires_at.max(asked);
                    ends = Some(ends.map_or(end, |earliest: Micros| earliest.min(end)));
                    coins.push((coin.id, *outpoint));
                }
            }
        }
        coins.sort_unstable();
        let end = self.lease(&coins, terms)?;
        Ok(ends.unwrap_or(end))
    }

    /// Number of an output of the wallet, whatever became of it.
    pub(crate) fn coin_id(&mut self, outpoint: &OutPoint) -> Result<Option<i64>, SqlError> {
        Ok(self.coin(outpoint)?.map(|coin| coin.id))
    }

    /// Leases coins, ascending by number. One that is taken undoes the whole call.
    pub(crate) fn lease(
        &mut self,
        coins: &[(i64, OutPoint)],
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        self.check_has_all_blocks()?;
        let now = self.lease_now()?;
        let expires_at = now.plus(terms.duration_us);
        let mut coins = coins.to_vec();
        coins.dedup();
        if self.has_leases()? {
            let ids: Vec<i64> = coins.iter().map(|(id, _)| *id).collect();
            self.clean_expired(&ids, now)?;
        }
        let owner = Value::from(terms.owner.as_bytes());
        let mut rows = Vec::with_capacity(coins.len() * 6);
        for (id, _) in &coins {
            rows.extend([self.id(), Value::from(*id), owner, Value::from(expires_at.get())]);
            rows.extend([Value::from(terms.hold_confirmations), Value::from(false)]);
        }
        let now = [Value::from(now.get())];
        let leased = self.tx.execute_rows(ACQUIRE_HEAD, ACQUIRE_TAIL, &now, 6, &rows)?;
        if leased < u64::try_from(coins.len()).unwrap_or(u64::MAX) {
            return Err(self.taken(&coins, owner)?);
        }
        self.has_leases = Some(true);
        crash_point("after_lease");
        Ok(expires_at)
    }

    /// The error for coins of which another owner has leased one.
    fn taken(
        &mut self,
        coins: &[(i64, OutPoint)],
        owner: Value<'_>,
    ) -> Result<LedgerError, SqlError> {
        let keys: Vec<Value<'_>> = coins.iter().map(|(id, _)| Value::from(*id)).collect();
        let fixed = [self.id(), owner];
        let mut taken = Vec::new();
        self.tx.query_in(SELECT_TAKEN, "", &fixed, 1, &keys, |row| {
            taken.push(row.int(0)?);
            Ok(())
        })?;
        let first = coins.iter().find(|(id, _)| taken.contains(id));
        first
            .map(|(_, outpoint)| LedgerError::AlreadyLeased {
                outpoint: self.network.outpoint(outpoint),
            })
            .ok_or_else(|| rows::bad("a lease was refused and nobody has it"))
    }
}

fn read_lease(row: &Row<'_>) -> Result<Lease, SqlError> {
    let hold = row.opt_int(5)?.map(u32::try_from).transpose();
    Ok(Lease {
        utxo_id: row.int(8)?,
        outpoint: rows::outpoint(row, 0)?,
        amount: rows::amount(row, 2)?,
        owner: LeaseId::from_bytes(row.array(3)?),
        expires_at: Micros::new(row.int(4)?),
        hold_confirmations: hold.map_err(|_| rows::bad("a lease is held for too long"))?,
        held: rows::flag(row, 6)?,
        spent_height: rows::height(row, 7)?,
        spent_by: row.opt_bytes(9)?.map(|_| rows::txid(row, 9)).transpose()?,
    })
}
