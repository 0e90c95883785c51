//! Requests with an idempotency key: sent twice, they happen once.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use utxokeep_core::{
    ChainHash, ChainOutPoint, Network,
    wallet::{IdempotencyKey, Repetition},
};
use utxokeep_wallet::{KeepAnswers, KeyedRequest, LedgerError, OpenWallet, Wallet};

use super::{Wallets, WalletsError, answers::StoredAnswer, now};

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
    pub(super) fn once<R: Serialize, A: StoredAnswer>(
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
                    return read_answer(wallet.network, &answer);
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

    /// The answer of a request that was carried out before, for one that asks others before it changes
    /// anything here.
    pub(super) fn answered<R: Serialize, A: StoredAnswer>(
        &self,
        wallet: &Wallet,
        asked: &Asked<'_, R>,
    ) -> Result<Option<A>, WalletsError> {
        let Some(key) = asked.key else { return Ok(None) };
        let (keyed, keep) = (keyed(key, asked)?, self.kept_answers());
        let repetition =
            self.ledger.view(wallet.id, now(), |open| open.repetition(&keyed, &keep))?;
        match repetition {
            Repetition::Again(answer) => read_answer(wallet.network, &answer).map(Some),
            Repetition::OtherRequest => Err(LedgerError::KeyReused { key: key.to_owned() }.into()),
            Repetition::New => Ok(None),
        }
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

/// An answer as it was stored.
fn read_answer<A: StoredAnswer>(network: Network, text: &str) -> Result<A, WalletsError> {
    let value = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    A::read(&Fields::new(network, value)).map_err(|error| damaged(&error))
}

/// Names that fields had when older answers were stored, and those of today.
const OLDER_NAMES: [(&str, &str); 3] =
    [("txid", "tx_hash"), ("is_txid_final", "is_tx_hash_final"), ("waiting", "is_waiting")];

/// The fields of a stored answer of a wallet.
pub(super) struct Fields {
    network: Network,
    value: Value,
}

impl Fields {
    fn new(network: Network, mut value: Value) -> Self {
        if let Some(fields) = value.as_object_mut() {
            for (older, name) in OLDER_NAMES {
                if let Some(found) = fields.remove(older) {
                    fields.entry(name).or_insert(found);
                }
            }
        }
        Self { network, value }
    }

    /// All of it, where nothing depends on the network.
    pub(super) fn whole<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.value).map_err(|error| error.to_string())
    }

    /// A field that does not depend on the network. One that is missing is read as `null`.
    pub(super) fn plain<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        T::deserialize(&self.value[name]).map_err(|error| format!("{name}: {error}"))
    }

    pub(super) fn hash(&self, name: &str) -> Result<ChainHash, String> {
        self.hash_of(name, &self.plain::<String>(name)?)
    }

    pub(super) fn hashes(&self, name: &str) -> Result<Vec<ChainHash>, String> {
        self.plain::<Vec<String>>(name)?.iter().map(|text| self.hash_of(name, text)).collect()
    }

    fn hash_of(&self, name: &str, text: &str) -> Result<ChainHash, String> {
        ChainHash::parse(self.network, text).map_err(|error| format!("{name}: {error}"))
    }

    pub(super) fn outpoint(&self, name: &str) -> Result<ChainOutPoint, String> {
        let text: String = self.plain(name)?;
        let outpoint = ChainOutPoint::parse(self.network, &text);
        outpoint.ok_or_else(|| format!("{name}: {text:?} is no output"))
    }

    /// An answer within this one.
    pub(super) fn within<A: StoredAnswer>(&self, name: &str) -> Result<A, String> {
        self.read(name, &self.value[name])
    }

    /// An answer within this one, which may be missing.
    pub(super) fn optional<A: StoredAnswer>(&self, name: &str) -> Result<Option<A>, String> {
        let value = &self.value[name];
        if value.is_null() { Ok(None) } else { self.read(name, value).map(Some) }
    }

    /// Answers within this one.
    pub(super) fn list<A: StoredAnswer>(&self, name: &str) -> Result<Vec<A>, String> {
        let values = self.value[name].as_array().ok_or_else(|| format!("{name}: no list"))?;
        values.iter().map(|value| self.read(name, value)).collect()
    }

    fn read<A: StoredAnswer>(&self, name: &str, value: &Value) -> Result<A, String> {
        A::read(&Self::new(self.network, value.clone())).map_err(|error| format!("{name}: {error}"))
    }
}

fn damaged(error: &dyn std::fmt::Display) -> WalletsError {
    let what = format!("the answer of a request with an idempotency key: {error}");
    LedgerError::Damaged { what }.into()
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{OutPoint, Txid};

    use super::*;
    use crate::wallets::{
        BumpInfo, Hex, Leased, NewAddressInfo, PsbtInfo, RecordedInfo, SelectedInfo, SelectionInfo,
        Signed, Units,
    };

    fn is_read_back<A: StoredAnswer + PartialEq + std::fmt::Debug>(network: Network, answer: &A) {
        let text = serde_json::to_string(answer).unwrap();
        assert_eq!(&read_answer::<A>(network, &text).unwrap(), answer);
    }

    fn hash(network: Network, number: u8) -> ChainHash {
        let mut bytes = [7; 32];
        bytes[0] = number;
        network.hash(bytes)
    }

    fn selected(network: Network) -> SelectedInfo {
        let txid = Txid::from_bytes(*hash(network, 1).as_bytes());
        let outpoint = network.outpoint(&OutPoint::new(txid, 4));
        SelectedInfo { outpoint, amount: Units(2), script: Hex(vec![0, 3]), weight: 4 }
    }

    fn leased() -> Leased {
        Leased { owner: Hex(vec![5; 32]), owner_name: Some("o".to_owned()), expires_at_us: -6 }
    }

    fn recorded(network: Network) -> RecordedInfo {
        RecordedInfo {
            tx_hash: hash(network, 1),
            change: "inserted".into(),
            status: "pending".into(),
            height: Some(2),
            is_waiting: true,
            losers: vec![hash(network, 3), hash(network, 4)],
            failed_descendants: vec![hash(network, 5)],
        }
    }

    fn selection(network: Network) -> SelectionInfo {
        SelectionInfo {
            coins: vec![selected(network)],
            input_total: Units(u64::MAX),
            fee: Units(1),
            weight: 2,
            change: Some(Units(3)),
            waste: Signed(-4),
            algorithm: "least_waste".into(),
            leased: Some(leased()),
        }
    }

    fn psbt(network: Network) -> PsbtInfo {
        PsbtInfo {
            psbt: "p".to_owned(),
            tx_hash: hash(network, 1),
            is_tx_hash_final: true,
            selection: selection(network),
            change_address: Some("a".to_owned()),
            valid_from_height: Some(2),
            valid_from_time: None,
            recorded: Some(recorded(network)),
        }
    }

    fn bump(network: Network) -> BumpInfo {
        BumpInfo {
            replaces: hash(network, 1),
            evicts: vec![hash(network, 2)],
            inputs: vec![selected(network), selected(network)],
            kept_inputs: 1,
            fee: Units(2),
            replaced_fees: Units(3),
            weight: 4,
            change: None,
            change_address: None,
            valid_from_height: None,
            valid_from_time: Some(5),
            psbt: "p".to_owned(),
            tx_hash: hash(network, 6),
            is_tx_hash_final: false,
            leased: Some(leased()),
            recorded: None,
        }
    }

    #[test]
    fn stored_answers_are_read_back_as_they_were_on_every_chain() {
        for network in [Network::BitcoinRegtest, Network::CardanoPreview] {
            is_read_back(network, &recorded(network));
            is_read_back(network, &selection(network));
            is_read_back(network, &psbt(network));
            is_read_back(network, &bump(network));
            is_read_back(network, &leased());
            let (address, script) = (None, Hex(vec![0x51]));
            is_read_back(network, &NewAddressInfo { index: 1, address_id: 2, address, script });
        }
    }

    #[test]
    fn answers_that_were_stored_under_older_names_are_read() {
        let network = Network::BitcoinRegtest;
        let today = serde_json::to_string(&psbt(network)).unwrap();
        let older = OLDER_NAMES.iter().fold(today.clone(), |text, (older, name)| {
            text.replace(&format!("\"{name}\":"), &format!("\"{older}\":"))
        });
        assert_ne!(older, today);
        let read: PsbtInfo = read_answer(network, &older).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), today);
    }

    #[test]
    fn a_damaged_answer_is_named_by_its_field() {
        let network = Network::BitcoinRegtest;
        let text = serde_json::to_string(&bump(network)).unwrap();
        let damages = [
            (text.replace("\"replaces\":\"", "\"replaces\":\"0"), "replaces: "),
            (text.replacen(":4\"", ":x\"", 1), "inputs: outpoint: "),
            (text.replace("\"fee\":", "\"fees\":"), "fee: "),
            ("7".to_owned(), "replaces: "),
            ("{".to_owned(), "EOF"),
        ];
        for (damaged, field) in damages {
            let error = read_answer::<BumpInfo>(network, &damaged).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
