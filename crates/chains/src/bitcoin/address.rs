//! Texts people use for outputs' owners: addresses, scripts, script hashes.

use std::str::FromStr;

use ::bitcoin::{Address, Script, address::NetworkUnchecked};
use utxokeep_core::{AddressKey, HashParseError, IndexKey, IndexTag, Network, Txid, hex_decode};

use super::{hash::sha256, params_of};

/// Pay-to-anchor: a witness program of two bytes that anyone may spend.
const ANCHOR_SCRIPT: [u8; 4] = [0x51, 0x02, 0x4e, 0x73];

/// Why a text names no script of the network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// A valid address, but of other networks.
    #[error("address {text} belongs to {found}, not to {expected}; use an address of {expected}")]
    WrongNetwork {
        /// The address as given.
        text: String,
        /// Networks the address is valid on.
        found: String,
        /// The network it was expected on.
        expected: Network,
    },
    /// Neither an address nor a script in hexadecimal.
    #[error("{text:?} is neither an address nor a script in hexadecimal")]
    Unreadable {
        /// The text as given.
        text: String,
        /// What the address parser says.
        #[source]
        source: ::bitcoin::address::ParseError,
    },
}

/// The output script a text stands for: an address of `network`, or the script itself in
/// hexadecimal.
pub fn parse_address_or_script(text: &str, network: Network) -> Result<Vec<u8>, AddressError> {
    let address = match Address::<NetworkUnchecked>::from_str(text) {
        Ok(address) => address,
        Err(source) => {
            return hex_decode(text)
                .filter(|script| !script.is_empty())
                .ok_or_else(|| AddressError::Unreadable { text: text.to_owned(), source });
        }
    };
    if address.is_valid_for_network(params_of(network)) {
        return Ok(address.assume_checked().script_pubkey().into_bytes());
    }
    let found: Vec<String> = Network::ALL
        .into_iter()
        .filter(|other| !other.is_cardano() && address.is_valid_for_network(params_of(*other)))
        .map(|other| other.to_string())
        .collect();
    let (text, found) = (text.to_owned(), found.join(", "));
    Err(AddressError::WrongNetwork { text, found, expected: network })
}

/// The address of a script; `None` when it has no address form, as bare public keys.
#[must_use]
pub fn script_to_address(script: &[u8], network: Network) -> Option<String> {
    let address = Address::from_script(Script::from_bytes(script), params_of(network)).ok()?;
    Some(address.to_string())
}

/// The key under which outputs with this script are indexed.
#[must_use]
pub fn script_key(script: &[u8]) -> IndexKey {
    key_from_hash(&sha256(script))
}

/// The keys a script hash of 64 hexadecimal digits may stand for: first read in Electrum's reversed
/// order, then as a plain SHA-256. `None` when the text has another form.
#[must_use]
pub fn script_hash_candidates(text: &str) -> Option<[IndexKey; 2]> {
    let plain: [u8; 32] = hex_decode(text)?.try_into().ok()?;
    let mut reversed = plain;
    reversed.reverse();
    Some([key_from_hash(&reversed), key_from_hash(&plain)])
}

/// A transaction id in the form nodes and explorers print.
pub fn parse_txid(text: &str) -> Result<Txid, HashParseError> {
    Txid::from_reversed_hex(text)
}

/// The usual short name of a script's form.
#[must_use]
pub fn script_type(script: &[u8]) -> &'static str {
    let form = Script::from_bytes(script);
    if form.is_p2pkh() {
        "p2pkh"
    } else if form.is_p2sh() {
        "p2sh"
    } else if form.is_p2wpkh() {
        "p2wpkh"
    } else if form.is_p2wsh() {
        "p2wsh"
    } else if form.is_p2tr() {
        "p2tr"
    } else if script == ANCHOR_SCRIPT {
        "p2a"
    } else if form.is_p2pk() {
        "p2pk"
    } else if form.is_multisig() {
        "multisig"
    } else {
        "nonstandard"
    }
}

fn key_from_hash(hash: &[u8; 32]) -> IndexKey {
    let mut key = [0; AddressKey::LEN];
    key.copy_from_slice(&hash[..AddressKey::LEN]);
    IndexKey { tag: IndexTag::Address, key: AddressKey::from_bytes(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAINNET: Network = Network::BitcoinMainnet;
    const REGTEST: Network = Network::BitcoinRegtest;

    #[test]
    fn addresses_of_every_form_round_trip() {
        let cases = [
            ("1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "p2pkh"),
            ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "p2sh"),
            ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "p2wpkh"),
            ("bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3", "p2wsh"),
            ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "p2tr"),
            ("bc1pfeessrawgf", "p2a"),
        ];
        for (text, form) in cases {
            let script = parse_address_or_script(text, MAINNET).unwrap();
            assert_eq!(script_type(&script), form);
            assert_eq!(script_to_address(&script, MAINNET).as_deref(), Some(text));
        }
    }

    #[test]
    fn scripts_without_an_address_are_named_by_their_form() {
        let key = "02".to_owned() + &"11".repeat(32);
        let cases = [
            (format!("21{key}ac"), "p2pk"),
            (format!("5121{key}21{key}52ae"), "multisig"),
            ("51".to_owned(), "nonstandard"),
        ];
        for (text, form) in cases {
            let script = parse_address_or_script(&text, REGTEST).unwrap();
            assert_eq!(script_type(&script), form);
            assert_eq!(script_to_address(&script, REGTEST), None);
        }
    }

    #[test]
    fn address_of_another_network_is_refused_by_name() {
        let text = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
        let error = parse_address_or_script(text, REGTEST).unwrap_err().to_string();
        assert!(error.contains("belongs to bitcoin/mainnet"), "{error}");
        assert!(error.contains("use an address of bitcoin/regtest"), "{error}");
    }

    #[test]
    fn text_that_is_nothing_known_is_refused() {
        for text in ["", "hello", "abc", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"] {
            let refused = parse_address_or_script(text, MAINNET);
            assert!(matches!(refused, Err(AddressError::Unreadable { .. })), "{text}");
        }
    }

    #[test]
    fn script_hash_is_read_in_both_orders() {
        let hash = sha256(&[0x51]);
        let plain = utxokeep_core::hex_encode(&hash);
        let reversed: Vec<u8> = hash.iter().rev().copied().collect();
        let electrum = utxokeep_core::hex_encode(&reversed);
        let key = script_key(&[0x51]);
        assert_eq!(script_hash_candidates(&electrum).unwrap()[0], key);
        assert_eq!(script_hash_candidates(&plain).unwrap()[1], key);
        assert_eq!(script_hash_candidates(&plain[2..]), None);
    }
}
