//! Requests with an idempotency key: sent twice, they happen once.

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use utxokeep_core::wallet::{IdempotencyKey, Repetition};
use utxokeep_wallet::{KeepAnswers, KeyedRequest, LedgerError, OpenWallet, Wallet};

use super::{Wallets, WalletsError, now};

/// A request that changes a wallet: what it is called, what it asks for, and its key.
pub(super) struct Asked<'r, R> {
    pub(super) operation: &'static str,
    pub(super) request: &'r R,
    pub(super) key: Option<&'r str>,
}

impl Wallets {
    /// Carries a request out in one transaction of the database. With a key its answer is stored in
    /// the same transaction; when the request comes again, that answer is given and nothing is
    /// changed.
    pub(super) fn once<R: Serialize, A: Serialize + DeserializeOwned>(
        &self,
        wallet: &Wallet,
        asked: &Asked<'_, R>,
        mut work: impl FnMut(&mut OpenWallet<'_, '_, '_>) -> Result<A, WalletsError>,
    ) -> Result<A, WalletsError> {
        let keyed = asked.key.map(|key| keyed(key, asked)).transpose()?;
        let keep = self.kept_answers();
        // What happened before the wallet was archived has happened.
        self.ledger.change_even_archived(wallet.id, now(), |open| {
            let Some(keyed) = &keyed else {
                open.check_not_archived()?;
                return work(open);
            };
            match open.repetition(keyed, &keep)? {
                Repetition::Again(answer) => {
                    return serde_json::from_str(&answer).map_err(|error| damaged(&error));
                }
                Repetition::OtherRequest => {
                    let key = keyed.key.as_str().to_owned();
                    return Err(LedgerError::KeyReused { key }.into());
                }
                Repetition::New => open.check_not_archived()?,
            }
            let answer = work(open)?;
            let text = serde_json::to_string(&answer).map_err(|error| damaged(&error))?;
            open.store_answer(keyed, &text, &keep)?;
            Ok(answer)
        })
    }

    /// Whether a request with this key was answered and is remembered.
    pub fn is_answered(&self, name: &str, key: &str) -> Result<bool, WalletsError> {
        let wallet = self.wallet_id(name)?;
        let keep = self.kept_answers();
        let key = IdempotencyKey::parse(key).map_err(|error| bad_key(&error.to_string()))?;
        // Which request that was does not matter here.
        let keyed = KeyedRequest { key, digest: [0; 32] };
        self.ledger.view(wallet, now(), |open| {
            Ok(!matches!(open.repetition(&keyed, &keep)?, Repetition::New))
        })
    }

    fn kept_answers(&self) -> KeepAnswers {
        KeepAnswers {
            duration_us: self.answers_kept_us(),
            keys_max: self.config.idempotency_keys_max.get() as usize,
        }
    }

    /// How long answers are kept, in microseconds.
    pub(super) fn answers_kept_us(&self) -> i64 {
        i64::from(self.config.idempotency_keep_secs.get()) * 1_000_000
    }
}

fn keyed<R: Serialize>(key: &str, asked: &Asked<'_, R>) -> Result<KeyedRequest, WalletsError> {
    let key = IdempotencyKey::parse(key).map_err(|error| bad_key(&error.to_string()))?;
    let request = serde_json::to_vec(asked.request).map_err(|error| damaged(&error))?;
    let digest = Sha256::new().chain_update(asked.operation).chain_update(b"\n");
    Ok(KeyedRequest { key, digest: digest.chain_update(request).finalize().into() })
}

fn bad_key(what: &str) -> WalletsError {
    WalletsError::field("idempotency_key", what)
}

/// Refuses a key where nothing is changed: it would be kept for nothing, or silently dropped.
pub(super) fn refuse_key(key: Option<&str>, why: &str) -> Result<(), WalletsError> {
    key.map_or(Ok(()), |_| Err(bad_key(why)))
}

/// The key of a request that may be given in its header, in its body, or the same in both.
pub(crate) fn merge_keys(
    header: Option<String>,
    body: &mut Option<String>,
) -> Result<(), WalletsError> {
    match (header, &body) {
        (Some(header), Some(body)) if header != **body => {
            Err(bad_key("the header Idempotency-Key says another one than the body"))
        }
        (Some(header), _) => {
            *body = Some(header);
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

fn damaged(error: &serde_json::Error) -> WalletsError {
    let what = format!("the answer of a request with an idempotency key: {error}");
    LedgerError::Damaged { what }.into()
}
