//! Answers that are stored with the changes they tell of, so that a request that is sent twice
//! happens once.
//!
//! # Invariants
//!
//! * An answer is committed with its changes or not at all.
//! * A key is looked up behind the lock of the wallet: of requests that come at the same time, the
//!   second sees the answer of the first.

use utxokeep_core::wallet::{IdempotencyKey, Repetition, StoredAnswer};
use utxokeep_sql::Value;

use crate::{LedgerError, OpenWallet, rows};

const SELECT_ANSWER: &str = "SELECT request_digest, answer FROM idempotency_keys
    WHERE wallet_id = $1 AND request_key = $2 AND created_at_us > $3";
const COUNT_KEYS: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM idempotency_keys
    WHERE wallet_id = $1 LIMIT $2) x";
const STORE_ANSWER: &str = "INSERT INTO idempotency_keys
    (wallet_id, request_key, request_digest, answer, created_at_us) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (wallet_id, request_key) DO UPDATE
    SET request_digest = excluded.request_digest, answer = excluded.answer,
        created_at_us = excluded.created_at_us";
const DELETE_OLD: &str = "DELETE FROM idempotency_keys WHERE wallet_id = $1
    AND created_at_us <= $2";

/// How long answers are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAnswers {
    /// Microseconds after which a key is forgotten.
    pub duration_us: i64,
    /// Keys of one wallet; a request with one more is refused.
    pub keys_max: usize,
}

/// The key of a request, and what distinguishes the request from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The key.
    pub key: IdempotencyKey,
    /// Digest of everything that the request asks for.
    pub digest: [u8; 32],
}

impl OpenWallet<'_, '_, '_> {
    /// What a request with a key is to be answered. Only in a wallet that was opened for changes
    /// does the answer hold until they are committed.
    pub fn repetition(
        &mut self,
        request: &KeyedRequest,
        keep: &KeepAnswers,
    ) -> Result<Repetition, LedgerError> {
        let oldest = self.session.lease_now()?.plus(-keep.duration_us);
        let key = [self.session.id(), Value::from(request.key.as_str()), Value::from(oldest.get())];
        let stored = self.session.tx.query_opt(SELECT_ANSWER, &key, |row| {
            Ok(StoredAnswer { request_digest: row.array(0)?, answer: row.text(1)?.to_owned() })
        })?;
        Ok(Repetition::of(&request.digest, stored))
    }

    /// Stores the answer of a request, to be committed with what the request changed.
    pub fn store_answer(
        &mut self,
        request: &KeyedRequest,
        answer: &str,
        keep: &KeepAnswers,
    ) -> Result<(), LedgerError> {
        let session = &mut *self.session;
        let now = session.lease_now()?;
        let limit = i64::try_from(keep.keys_max).unwrap_or(i64::MAX);
        let all = [session.id(), Value::from(limit)];
        let count = |row: &utxokeep_sql::Row<'_>| rows::sum(row, 0);
        let is_full = |stored: u64| i64::try_from(stored).is_ok_and(|stored| stored >= limit);
        if is_full(session.tx.query_one(COUNT_KEYS, &all, count)?) {
            let old = Value::from(now.plus(-keep.duration_us).get());
            session.tx.execute(DELETE_OLD, &[all[0], old])?;
            if is_full(session.tx.query_one(COUNT_KEYS, &all, count)?) {
                return Err(LedgerError::TooManyKeys { keys_max: keep.keys_max });
            }
        }
        let row = [
            session.id(),
            Value::from(request.key.as_str()),
            Value::from(&request.digest),
            Value::from(answer),
            Value::from(now.get()),
        ];
        session.tx.execute(STORE_ANSWER, &row)?;
        Ok(())
    }
}
