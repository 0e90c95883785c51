//! One output, on either chain.

use serde::Serialize;
use sha2::{Digest, Sha256};
use utxokeep_chains::{
    cardano::{address_text, stake_address_text},
    script_to_address, script_type,
};
use utxokeep_core::{
    Network, Txid,
    cardano::{Credential, CredentialKind, Credentials, address_network_id, credentials},
    hex_encode,
};
use utxokeep_index::{OutputDetails, Utxo as IndexUtxo};

use super::{Amount, Units};

/// An output. Fields of the other chain, and fields that say what this output does not have, are
/// absent. The `spent_*` fields are present only when it is spent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Utxo {
    /// Transaction that created the output.
    #[cfg_attr(
        feature = "schema",
        schema(example = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456")
    )]
    pub tx_hash: String,
    /// Position among the outputs of that transaction.
    #[cfg_attr(feature = "schema", schema(example = 0))]
    pub output_index: u32,
    /// Address of the owner. Bitcoin: `null` for scripts that have no address. Cardano: bech32, or
    /// base58 for Byron; bytes that are no address are in hexadecimal.
    #[cfg_attr(
        feature = "schema",
        schema(example = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080")
    )]
    pub owner_addr: Option<String>,
    /// Cardano: the stake address that goes with the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_stake_addr: Option<String>,
    /// Cardano: hash of the key or script that may spend the output, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_payment_credential: Option<String>,
    /// Cardano: what that is the hash of, `key` or `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_payment_credential_kind: Option<&'static str>,
    /// Cardano: hash of the key or script that earns the rewards, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_stake_credential: Option<String>,
    /// Cardano: what that is the hash of, `key` or `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub owner_stake_credential_kind: Option<&'static str>,
    /// Bitcoin: the output script in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(nullable = false, example = "0014751e76e8199196d454941c45d1b3a323f1433bd6")
    )]
    pub script_pub_key: Option<String>,
    /// Bitcoin: form of the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, example = "p2wpkh"))]
    pub script_type: Option<&'static str>,
    /// Bitcoin: SHA-256 of the script, reversed, as Electrum writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            nullable = false,
            example = "9623df75239b5daa7f5f03042d325b51498c4bb7059c7748b17049bf96f73888"
        )
    )]
    pub script_hash: Option<String>,
    /// Amount in the smallest unit (satoshi or lovelace), as a decimal string.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "5000000000"))]
    pub amount: Units,
    /// Cardano: the same amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = String, nullable = false, required = false))]
    pub lovelace_amount: Option<Units>,
    /// The same amount by unit; on Cardano native assets follow, in order of policy and name.
    pub amounts: Vec<Amount>,
    /// Cardano: hash of the datum; of an inline datum too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub data_hash: Option<String>,
    /// Cardano: the datum, its original bytes in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub inline_datum: Option<String>,
    /// Cardano: the script that other transactions may refer to: CBOR of language and script, its
    /// original bytes in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub script_ref: Option<String>,
    /// Cardano: hash of that script.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub reference_script_hash: Option<String>,
    /// Cardano: whether the output gives back what a failed transaction had put up as collateral.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub is_collateral_return: Option<bool>,
    /// Bitcoin: whether a coinbase created the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub is_coinbase: Option<bool>,
    /// Slot of the block that created it.
    #[cfg_attr(feature = "schema", schema(example = 120))]
    pub slot: u64,
    /// Height of that block.
    #[cfg_attr(feature = "schema", schema(example = 120))]
    pub block: u32,
    /// Hash of that block.
    pub block_hash: String,
    /// Cardano: epoch of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub epoch: Option<u32>,
    /// Time of that block, in seconds since the epoch.
    #[cfg_attr(feature = "schema", schema(example = 1_296_760_800))]
    pub block_time: u64,
    /// Position of the transaction in that block. In the first block of Cardano the outputs of the
    /// genesis files come first, each as a transaction of its own.
    #[cfg_attr(feature = "schema", schema(example = 0))]
    pub tx_index: u32,
    /// Transaction that spent the output. Absent from a spent output that the ledger itself removed
    /// where an era of Cardano began: no transaction did that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_tx_hash: Option<String>,
    /// Slot of the block that spent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_at_slot: Option<u64>,
    /// Height of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_at_block: Option<u32>,
    /// Hash of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_at_block_hash: Option<String>,
    /// Time of that block, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_block_time: Option<u64>,
    /// Cardano: epoch of that block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub spent_epoch: Option<u32>,
}

impl Utxo {
    /// Describes an output of `network`.
    #[must_use]
    pub fn new(utxo: &IndexUtxo, network: Network) -> Self {
        let shared = Self::shared(utxo, network);
        if network.is_cardano() {
            let assets = utxo.details.assets.iter();
            let assets = assets.map(|(asset, quantity)| (asset, u128::from(*quantity)));
            Self {
                amounts: Amount::list(utxo.value.into(), assets, network),
                lovelace_amount: Some(Units(utxo.value.into())),
                ..shared.with_owner(&utxo.address).with_details(&utxo.details)
            }
        } else {
            Self {
                owner_addr: script_to_address(&utxo.address, network),
                script_pub_key: Some(hex_encode(&utxo.address)),
                script_type: Some(script_type(&utxo.address)),
                script_hash: Some(script_hash(&utxo.address)),
                amounts: Amount::list(utxo.value.into(), std::iter::empty(), network),
                is_coinbase: Some(utxo.is_coinbase),
                ..shared
            }
        }
    }

    /// What outputs of all chains have.
    fn shared(utxo: &IndexUtxo, network: Network) -> Self {
        let spent = utxo.spent.as_ref();
        let spender = spent.map(|spent| spent.txid).filter(|txid| *txid != Txid::default());
        Self {
            tx_hash: network.hash_text(utxo.outpoint.txid().as_bytes()),
            output_index: utxo.outpoint.index(),
            amount: Units(utxo.value.into()),
            slot: utxo.created.slot,
            block: utxo.created.height.get(),
            block_hash: network.hash_text(utxo.created.hash.as_bytes()),
            epoch: utxo.created_epoch,
            block_time: utxo.created_time,
            tx_index: utxo.tx_index,
            spent_tx_hash: spender.map(|txid| network.hash_text(txid.as_bytes())),
            spent_at_slot: spent.map(|spent| spent.block.slot),
            spent_at_block: spent.map(|spent| spent.block.height.get()),
            spent_at_block_hash: spent.map(|spent| network.hash_text(spent.block.hash.as_bytes())),
            spent_block_time: spent.map(|spent| spent.time),
            spent_epoch: spent.and_then(|spent| spent.epoch),
            ..Self::default()
        }
    }

    fn with_owner(self, address: &[u8]) -> Self {
        let Credentials { payment, stake } = credentials(address);
        let network_id = address_network_id(address).unwrap_or_default();
        let hash = |credential: Credential| hex_encode(&credential.hash);
        let kind = |credential: Credential| match credential.kind {
            CredentialKind::Key => "key",
            CredentialKind::Script => "script",
        };
        Self {
            owner_addr: Some(address_text(address)),
            owner_stake_addr: stake
                .map(|stake| stake_address_text(&stake.stake_address(network_id))),
            owner_payment_credential: payment.map(hash),
            owner_payment_credential_kind: payment.map(kind),
            owner_stake_credential: stake.map(hash),
            owner_stake_credential_kind: stake.map(kind),
            ..self
        }
    }

    fn with_details(self, details: &OutputDetails) -> Self {
        let inline_hash = details.inline_datum.as_deref().map(datum_hash);
        Self {
            data_hash: details.datum_hash.or(inline_hash).map(|hash| hex_encode(&hash)),
            inline_datum: details.inline_datum.as_deref().map(hex_encode),
            script_ref: details.script_ref.as_deref().map(hex_encode),
            reference_script_hash: details.script_hash.map(|hash| hex_encode(&hash)),
            is_collateral_return: Some(details.is_collateral_return),
            ..self
        }
    }

    /// Whether it is spent.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.spent_at_block.is_some()
    }
}

/// The text of an address; `None` for scripts of Bitcoin that have none.
#[must_use]
pub fn address_of(address: &[u8], network: Network) -> Option<String> {
    if network.is_cardano() {
        Some(address_text(address))
    } else {
        script_to_address(address, network)
    }
}

/// The Electrum form of a script: its SHA-256, reversed.
#[must_use]
pub fn script_hash(script: &[u8]) -> String {
    let mut hash: [u8; 32] = Sha256::digest(script).into();
    hash.reverse();
    hex_encode(&hash)
}

/// The hash by which Cardano knows a datum: Blake2b-256 of its bytes.
fn datum_hash(datum: &[u8]) -> [u8; 32] {
    let hash = blake2b_simd::Params::new().hash_length(32).hash(datum);
    hash.as_bytes().try_into().expect("the length was asked for")
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, ChainPoint, Height, OutPoint, hex_decode};
    use utxokeep_index::SpentInfo;

    use super::*;

    const PREVIEW: Network = Network::CardanoPreview;

    fn output() -> IndexUtxo {
        let point = |height| ChainPoint {
            height: Height::new(height),
            slot: u64::from(height),
            hash: BlockHash::from_bytes([u8::try_from(height).unwrap(); 32]),
        };
        IndexUtxo {
            outpoint: OutPoint::new(Txid::from_bytes([1; 32]), 7),
            address: hex_decode("0014751e76e8199196d454941c45d1b3a323f1433bd6").unwrap(),
            value: u64::MAX,
            details: OutputDetails::default(),
            tx_index: 3,
            is_coinbase: false,
            created: point(5),
            created_time: 50,
            created_epoch: None,
            spent: Some(SpentInfo {
                txid: Txid::from_bytes([2; 32]),
                block: point(6),
                time: 60,
                epoch: None,
            }),
        }
    }

    #[test]
    fn a_spent_output_names_its_spender_and_keeps_every_digit() {
        let json = serde_json::to_value(Utxo::new(&output(), Network::BitcoinRegtest)).unwrap();
        assert_eq!(json["owner_addr"], "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080");
        assert_eq!(json["amount"], "18446744073709551615");
        assert_eq!(json["amounts"][0]["unit"], "sat");
        assert_eq!(json["amounts"][0]["quantity"], json["amount"]);
        assert_eq!(json["script_type"], "p2wpkh");
        assert_eq!(
            json["script_hash"],
            "9623df75239b5daa7f5f03042d325b51498c4bb7059c7748b17049bf96f73888"
        );
        assert_eq!(json["spent_tx_hash"], "02".repeat(32));
        assert_eq!(json["spent_at_block"], 6);
        assert_eq!(json["spent_block_time"], 60);
    }

    #[test]
    fn a_live_output_has_no_spent_fields_and_an_odd_script_no_address() {
        let mut utxo = output();
        utxo.spent = None;
        utxo.address = vec![0x51];
        let json = serde_json::to_value(Utxo::new(&utxo, Network::BitcoinRegtest)).unwrap();
        let fields = json.as_object().unwrap();
        assert!(fields.keys().all(|name| !name.starts_with("spent_")), "{fields:?}");
        assert!(fields["owner_addr"].is_null());
        assert_eq!(json["script_pub_key"], "51");
    }

    #[test]
    fn fields_of_the_other_chain_are_absent() {
        let names = |network| {
            let json = serde_json::to_value(Utxo::new(&output(), network)).unwrap();
            json.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let (bitcoin, cardano) = (names(Network::BitcoinRegtest), names(PREVIEW));
        for name in ["script_pub_key", "script_type", "script_hash", "is_coinbase"] {
            assert!(bitcoin.iter().any(|known| known == name), "{name}");
            assert!(cardano.iter().all(|known| known != name), "{name}");
        }
        for name in ["lovelace_amount", "is_collateral_return"] {
            assert!(cardano.iter().any(|known| known == name), "{name}");
            assert!(bitcoin.iter().all(|known| known != name), "{name}");
        }
    }

    #[test]
    fn cardano_shows_owner_assets_and_datum_and_does_not_reverse_hashes() {
        let policy = [0xaa; 28];
        let mut utxo = output();
        utxo.outpoint =
            OutPoint::new(Txid::from_bytes(std::array::from_fn(|at| u8::try_from(at).unwrap())), 0);
        utxo.address = [&[0x10][..], &[0x11; 28], &[0x22; 28]].concat();
        utxo.details.assets = vec![((policy, vec![]), 1), ((policy, b"A\xff".to_vec()), u64::MAX)];
        utxo.details.inline_datum = Some(vec![0xd8, 0x79, 0x80]);
        utxo.created_epoch = Some(4);
        let json = serde_json::to_value(Utxo::new(&utxo, PREVIEW)).unwrap();
        assert!(json["tx_hash"].as_str().unwrap().starts_with("000102"), "{json}");
        assert!(json["owner_addr"].as_str().unwrap().starts_with("addr_test1"), "{json}");
        assert!(json["owner_stake_addr"].as_str().unwrap().starts_with("stake_test1"), "{json}");
        assert_eq!(json["owner_payment_credential"], "11".repeat(28));
        assert_eq!(json["owner_payment_credential_kind"], "script");
        assert_eq!(json["owner_stake_credential_kind"], "key");
        assert_eq!(json["amounts"][0]["unit"], "lovelace");
        assert!(json["amounts"][0].get("policy_id").is_none());
        assert_eq!(json["amounts"][1]["unit"], hex_encode(&policy));
        assert_eq!(json["amounts"][1]["asset_name"], "");
        assert_eq!(json["amounts"][2]["unit"], format!("{}41ff", hex_encode(&policy)));
        assert_eq!(json["amounts"][2]["asset_name"], "41ff");
        assert_eq!(json["amounts"][2]["quantity"], "18446744073709551615");
        // The empty constructor, which many contracts use.
        assert_eq!(
            json["data_hash"],
            "923918e403bf43c34b4ef6b48eb2ee04babed17320d8d1b9ff9ad086e86f44ec"
        );
        assert_eq!(json["inline_datum"], "d87980");
        assert_eq!(json["epoch"], 4);
    }

    #[test]
    fn an_output_that_the_ledger_removed_is_spent_by_no_transaction() {
        let mut utxo = output();
        if let Some(spent) = &mut utxo.spent {
            spent.txid = Txid::default();
        }
        let utxo = Utxo::new(&utxo, PREVIEW);
        assert!(utxo.is_spent() && utxo.spent_tx_hash.is_none());
    }
}
