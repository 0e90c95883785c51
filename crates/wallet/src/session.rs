//! One wallet inside a database transaction, locked when it is written to.
//!
//! The lock is the row of the wallet. It also holds the counters from which rows get their
//! numbers, so numbers need no other coordination.

use std::sync::Arc;

use utxokeep_core::{
    BlockHash, Height, Network, Txid,
    wallet::{ChainCodec, Evidence, Maturity, Micros, TxState, WalletId},
};
use utxokeep_sql::{Dialect, Row, SqlError, Transaction, Value};

use crate::{BlockRef, LeaseClock, LedgerError, Limits, outbox::Outbox, rows, standing::LackCause};

const SELECT_WALLET: &str =
    "SELECT chain_id, next_tx_id, next_utxo_id, next_address_id, archived_at_us, birthday_height,
        next_event_id
    FROM wallets WHERE id = $1";
/// Held by everybody who writes to a wallet, so that no block comes in between: see `chain`. Locks
/// of this kind queue, so that a block is not kept waiting by writers who come later.
const SHARE_CHAIN: &str =
    "SELECT pg_advisory_xact_lock_shared($2 + chain_id) FROM wallets WHERE id = $1";
const LOCK_WALLET: &str = "SELECT chain_id, next_tx_id, next_utxo_id, next_address_id,
        archived_at_us, birthday_height, next_event_id
    FROM wallets WHERE id = $1 FOR NO KEY UPDATE";
const SELECT_CHAIN: &str = "SELECT c.chain, c.network, c.tip_height, c.tip_hash,
        r.failed_height, r.failed_reason, r.restored_at_us, r.undone_at_us, r.next_height
    FROM wallets w JOIN chains c ON c.id = w.chain_id
    LEFT JOIN wallet_rescans r ON r.wallet_id = w.id WHERE w.id = $1";
const UPDATE_COUNTERS: &str = "UPDATE wallets
    SET next_tx_id = $2, next_utxo_id = $3, next_address_id = $4, next_event_id = $5
    WHERE id = $1";
const SELECT_TX: &str =
    "SELECT id, status, block_height, is_coinbase, is_waiting, owned_input_count, block_position,
        is_claimed
    FROM transactions WHERE chain_id = $1 AND txid = $2 AND wallet_id = $3";
const MEASURE_TABLES: &str =
    "ANALYZE wallets; ANALYZE addresses; ANALYZE descriptors; ANALYZE descriptor_scripts;
    ANALYZE transactions; ANALYZE tx_inputs; ANALYZE utxos";
/// The clock that all hosts of a server share, read when the statement runs.
const SELECT_SERVER_TIME: &str =
    "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
const SELECT_ANY_LEASE: &str = "SELECT 1 FROM utxo_leases WHERE wallet_id = $1 LIMIT 1";

/// Numbers of the locks of chains among all advisory locks of a database: this one and the number of
/// the chain.
pub(crate) const CHAIN_LOCKS: i64 = 0x7574_786f_0000_0000;

/// Numbers for new rows of a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    tx: i64,
    utxo: i64,
    address: i64,
    event: i64,
}

/// A wallet and the transaction in which it is read or written.
pub(crate) struct Session<'t, 'c> {
    pub(crate) tx: &'t mut Transaction<'c>,
    pub(crate) limits: Limits,
    pub(crate) wallet: i64,
    pub(crate) chain: i64,
    pub(crate) network: Network,
    pub(crate) tip: Option<(Height, BlockHash)>,
    /// The caller's time, for what is recorded.
    pub(crate) now: Micros,
    /// The block that the wallet could not take, and why.
    pub(crate) set_aside: Option<(Height, String)>,
    /// Why a wallet that gets new blocks lacks earlier ones, and the next that it has to look at.
    pub(crate) lacks: Option<(LackCause, Height)>,
    /// Whose word the changes of this session rest on.
    pub(crate) evidence: Evidence,
    /// Reads bytes of transactions, where they have to be compared.
    pub(crate) codec: Option<Arc<dyn ChainCodec>>,
    /// Which clock leases go by.
    pub(crate) clock: LeaseClock,
    lease_time: Option<Micros>,
    /// It is not followed and takes nothing.
    pub(crate) is_archived: bool,
    /// Below this block nothing was paid to it, as far as anybody said.
    pub(crate) birthday: Option<Height>,
    counters: Counters,
    stored_counters: Counters,
    pub(crate) known_block: Option<BlockRef>,
    pub(crate) has_leases: Option<bool>,
    pub(crate) has_held_back: Option<bool>,
    /// What is told of this session when it is finished.
    pub(crate) outbox: Outbox,
}

/// A stored transaction, as far as recording cares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredTx {
    pub(crate) id: i64,
    pub(crate) state: TxState,
    pub(crate) coinbase: bool,
    pub(crate) waiting: bool,
    pub(crate) owned_inputs: i64,
    pub(crate) position: Option<u32>,
    /// Whether its block is somebody's word.
    pub(crate) claimed: bool,
}

impl<'t, 'c> Session<'t, 'c> {
    /// Takes the lock of the wallet, before anything else is read.
    pub(crate) fn lock(
        tx: &'t mut Transaction<'c>,
        limits: Limits,
        wallet: WalletId,
        now: Micros,
    ) -> Result<Self, LedgerError> {
        // SQLite has one writer at a time, so that the transaction is the lock.
        let (share, statement) = match tx.dialect() {
            Dialect::Sqlite => (None, SELECT_WALLET),
            Dialect::Postgres => (Some(SHARE_CHAIN), LOCK_WALLET),
        };
        Self::load(tx, share, statement, limits, wallet, now)
    }

    /// Reads the wallet without a lock.
    pub(crate) fn view(
        tx: &'t mut Transaction<'c>,
        limits: Limits,
        wallet: WalletId,
    ) -> Result<Self, LedgerError> {
        Self::load(tx, None, SELECT_WALLET, limits, wallet, Micros::default())
    }

    fn load(
        tx: &'t mut Transaction<'c>,
        share: Option<&str>,
        statement: &str,
        limits: Limits,
        wallet: WalletId,
        now: Micros,
    ) -> Result<Self, LedgerError> {
        let key = [Value::from(wallet.get())];
        let (mut found, mut chain_state) = (None, None);
        // Several statements, because the tip must be read after the locks were taken.
        let share_key = [key[0], Value::from(CHAIN_LOCKS)];
        let mut statements: Vec<(&str, &[Value<'_>])> = Vec::with_capacity(3);
        statements.extend(share.map(|share| (share, share_key.as_slice())));
        let wallet_at = statements.len();
        statements.extend([(statement, key.as_slice()), (SELECT_CHAIN, key.as_slice())]);
        tx.query_together(&statements, |at, row| {
            // A lock has nothing to say.
            if at < wallet_at {
                return Ok(());
            }
            if at == wallet_at {
                let counters = Counters {
                    tx: row.int(1)?,
                    utxo: row.int(2)?,
                    address: row.int(3)?,
                    event: row.int(6)?,
                };
                let is_archived = row.opt_int(4)?.is_some();
                found = Some((row.int(0)?, counters, is_archived, rows::height(row, 5)?));
            } else {
                let network = Network::find(row.text(0)?, row.text(1)?)
                    .map_err(|unknown| SqlError::bad_row(unknown.to_string()))?;
                let set_aside = match rows::height(row, 4)? {
                    Some(height) => Some((height, row.text(5)?.to_owned())),
                    None => None,
                };
                let cause = LackCause::of(row.opt_int(6)?, row.opt_int(7)?).map(|(cause, _)| cause);
                let lacks = cause.zip(rows::height(row, 8)?);
                chain_state = Some((network, rows::tip(row, 2, 3)?, set_aside, lacks));
            }
            Ok(())
        })?;
        let ((chain, counters, is_archived, birthday), (network, tip, set_aside, lacks)) =
            found.zip(chain_state).ok_or(LedgerError::WalletNotFound(wallet))?;
        Ok(Self {
            tx,
            limits,
            wallet: wallet.get(),
            chain,
            network,
            tip,
            now,
            set_aside,
            lacks,
            evidence: Evidence::Claim,
            codec: None,
            clock: LeaseClock::default(),
            lease_time: None,
            is_archived,
            birthday,
            counters,
            stored_counters: counters,
            known_block: None,
            has_leases: None,
            has_held_back: None,
            outbox: Outbox::default(),
        })
    }

    /// Writes the events of what was changed, and stores the counters. Nothing may be written
    /// afterwards.
    pub(crate) fn finish(mut self) -> Result<(), SqlError> {
        self.write_events()?;
        if self.counters != self.stored_counters {
            let Counters { tx, utxo, address, event } = self.counters;
            let row = [self.wallet, tx, utxo, address, event].map(Value::from);
            self.tx.execute(UPDATE_COUNTERS, &row)?;
        }
        // PostgreSQL plans by what it last measured, and may have measured empty tables.
        let grown = |now: i64, before: i64| now >= 64 && now.ilog2() / 2 > before.ilog2() / 2;
        let (now, before) = (self.counters, self.stored_counters);
        if self.tx.dialect() == Dialect::Postgres
            && (grown(now.tx, before.tx.max(1))
                || grown(now.utxo, before.utxo.max(1))
                || grown(now.address, before.address.max(1)))
        {
            self.tx.execute_batch(MEASURE_TABLES)?;
        }
        Ok(())
    }

    pub(crate) fn next_tx_id(&mut self) -> Result<i64, SqlError> {
        take_number(&mut self.counters.tx)
    }

    pub(crate) fn next_utxo_id(&mut self) -> Result<i64, SqlError> {
        take_number(&mut self.counters.utxo)
    }

    pub(crate) fn next_event_id(&mut self) -> Result<i64, SqlError> {
        take_number(&mut self.counters.event)
    }

    pub(crate) fn next_address_id(&mut self) -> Result<i64, SqlError> {
        take_number(&mut self.counters.address)
    }

    pub(crate) fn tip_height(&self) -> Option<Height> {
        self.tip.map(|(height, _)| height)
    }

    /// When coins that no transaction paid for may be spent. Those of Cardano are there from its
    /// first block on, and that one stays.
    pub(crate) fn maturity(&self, asked: Maturity) -> Maturity {
        if self.network.is_cardano() { Maturity::blocks_above(0) } else { asked }
    }

    /// The wallet as the first parameter of nearly every statement.
    pub(crate) fn id(&self) -> Value<'static> {
        Value::from(self.wallet)
    }

    /// Finds a transaction of the wallet.
    pub(crate) fn stored(&mut self, txid: &Txid) -> Result<Option<StoredTx>, SqlError> {
        let key = [Value::from(self.chain), Value::from(txid.as_bytes()), self.id()];
        self.tx.query_opt(SELECT_TX, &key, read_stored)
    }

    /// Finds a transaction that must be there.
    pub(crate) fn known(&mut self, txid: &Txid) -> Result<StoredTx, LedgerError> {
        self.stored(txid)?.ok_or(LedgerError::TxNotFound(self.network.hash(txid)))
    }

    /// The time of leases for a caller whose own clock says `now`.
    pub(crate) fn read_lease_time(
        tx: &mut Transaction<'_>,
        clock: LeaseClock,
        now: Micros,
    ) -> Result<Micros, SqlError> {
        match (clock, tx.dialect()) {
            (LeaseClock::Database, Dialect::Postgres) => {
                tx.query_one(SELECT_SERVER_TIME, &[], |row| Ok(Micros::new(row.int(0)?)))
            }
            (LeaseClock::Caller, _) | (_, Dialect::Sqlite) => Ok(now),
        }
    }

    /// The time by which leases begin and end, the same for the whole transaction.
    pub(crate) fn lease_now(&mut self) -> Result<Micros, SqlError> {
        if let Some(known) = self.lease_time {
            return Ok(known);
        }
        let time = Self::read_lease_time(self.tx, self.clock, self.now)?;
        self.lease_time = Some(time);
        Ok(time)
    }

    /// Whether the wallet has any lease, asked once.
    pub(crate) fn has_leases(&mut self) -> Result<bool, SqlError> {
        if let Some(known) = self.has_leases {
            return Ok(known);
        }
        let found = self.tx.query_opt(SELECT_ANY_LEASE, &[Value::from(self.wallet)], |_| Ok(()))?;
        self.has_leases = Some(found.is_some());
        Ok(found.is_some())
    }
}

fn take_number(next: &mut i64) -> Result<i64, SqlError> {
    let taken = *next;
    let after = taken.checked_add(1).filter(|_| taken > 0);
    *next = after.ok_or_else(|| rows::bad(format!("{taken} is no number for a new row")))?;
    Ok(taken)
}

fn read_stored(row: &Row<'_>) -> Result<StoredTx, SqlError> {
    Ok(StoredTx {
        id: row.int(0)?,
        state: rows::state(row, 1, 2)?,
        coinbase: rows::flag(row, 3)?,
        waiting: rows::flag(row, 4)?,
        owned_inputs: row.int(5)?,
        position: rows::position(row, 6)?,
        claimed: rows::flag(row, 7)?,
    })
}
