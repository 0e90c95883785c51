//! From the texts of requests to what the ledger takes, and back.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
#[cfg(feature = "schema")]
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};
use utxokeep_chains::{
    cardano::{Owner, address_text, parse_owner},
    parse_address_or_script, script_to_address,
};
use utxokeep_core::{
    BlockHash, Network, OutPoint, Txid, hex_decode, hex_encode,
    wallet::{AllowedGuards, Amount, FeeRate, LeaseId, LeaseOwner},
};

use super::WalletsError;
use crate::owners::OwnerError;

/// An amount in the smallest unit: written as a decimal string, read from a string or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Units(pub u64);

impl Units {
    pub(super) fn amount(self) -> Result<Amount, WalletsError> {
        Ok(Amount::new(self.0).map_err(utxokeep_wallet::LedgerError::from)?)
    }
}

impl std::fmt::Display for Units {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Units {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = number_text(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("an amount is a whole number, not negative"))
    }
}

#[cfg(feature = "schema")]
impl PartialSchema for Units {
    fn schema() -> RefOr<Schema> {
        decimal("An amount in the smallest unit, as a decimal string.", "150000")
    }
}

#[cfg(feature = "schema")]
impl ToSchema for Units {}

/// A fee for each virtual byte: a decimal number with up to three places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub FeeRate);

impl std::str::FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a fee rate is a number per virtual byte, such as 12 or 1.5";
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 3 || !is_digits(whole) || !is_digits(part) {
            return Err(WRONG);
        }
        let whole: u64 = whole.parse().map_err(|_| WRONG)?;
        let thousandths: u64 = format!("{part:0<3}").parse().map_err(|_| WRONG)?;
        // A virtual byte is four weight units; what does not come out even is rounded up.
        let per_kilo_weight =
            whole.checked_mul(250).ok_or(WRONG)?.saturating_add(thousandths.div_ceil(4));
        let units = u32::try_from(per_kilo_weight).map_err(|_| WRONG)?;
        Ok(Self(FeeRate::per_kilo_weight(units)))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Thousandths for each virtual byte, which is exact.
        let thousandths = u64::from(self.0.get()) * 4;
        let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
        serializer.collect_str(&format_args!("{whole}.{part:03}"))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_text(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl PartialSchema for Rate {
    fn schema() -> RefOr<Schema> {
        decimal("A fee for each virtual byte, with up to three decimal places.", "12.5")
    }
}

#[cfg(feature = "schema")]
impl ToSchema for Rate {}

/// Bytes that are written in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&hex_encode(&self.0))
    }
}

impl std::fmt::Debug for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hex({self})")
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex_decode(&text).map(Self).ok_or_else(|| de::Error::custom("this is not hexadecimal"))
    }
}

/// Lines of text, which need not all be text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LineBytes(pub Vec<u8>);

impl std::fmt::Debug for LineBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LineBytes({} bytes)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for LineBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl de::Visitor<'_> for Bytes {
            type Value = LineBytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("lines of text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<LineBytes, E> {
                self.visit_bytes(text.as_bytes())
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<LineBytes, E> {
                Ok(LineBytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A difference of amounts, or another number that may be negative: written as a decimal string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed(pub i128);

impl Signed {
    /// The number in 64 bits; one that does not fit becomes the nearest that does.
    pub fn clamped(self) -> i64 {
        i64::try_from(self.0).unwrap_or(if self.0 < 0 { i64::MIN } else { i64::MAX })
    }
}

impl std::fmt::Display for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Signed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Signed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| de::Error::custom("this is no whole number"))
    }
}

#[cfg(feature = "schema")]
fn decimal(description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .examples([serde_json::Value::from(example)])
        .into()
}

/// The digits of a number or of a string.
fn number_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(de::Error::custom("expected a number, or a number in a string")),
    }
}

pub(super) fn hash(
    network: Network,
    field: &'static str,
    text: &str,
) -> Result<[u8; 32], WalletsError> {
    network.parse_hash(text).map_err(|error| WalletsError::field(field, error.to_string()))
}

pub(super) fn txid(network: Network, text: &str) -> Result<Txid, WalletsError> {
    hash(network, "tx_hash", text).map(Txid::from_bytes)
}

pub(super) fn block_hash(network: Network, text: &str) -> Result<BlockHash, WalletsError> {
    hash(network, "hash", text).map(BlockHash::from_bytes)
}

pub(super) fn outpoint(network: Network, text: &str) -> Result<OutPoint, WalletsError> {
    let wrong = || {
        let what = format!("{text:?} is no output; write TXID:INDEX");
        WalletsError::field("outpoint", what)
    };
    let (id, index) = text.rsplit_once([':', '#']).ok_or_else(wrong)?;
    let id = network.parse_hash(id).map_err(|_| wrong())?;
    let index = index.parse().map_err(|_| wrong())?;
    Ok(OutPoint::new(Txid::from_bytes(id), index))
}

pub(super) fn outpoints(network: Network, texts: &[String]) -> Result<Vec<OutPoint>, WalletsError> {
    texts.iter().map(|text| outpoint(network, text)).collect()
}

/// The script that an address stands for; on Bitcoin also a script in hexadecimal.
pub(super) fn script(network: Network, text: &str) -> Result<Vec<u8>, WalletsError> {
    if !network.is_cardano() {
        return Ok(parse_address_or_script(text, network).map_err(OwnerError::from)?);
    }
    match parse_owner(text, network).map_err(OwnerError::from)? {
        Owner::Address(address) => Ok(address),
        Owner::Payment(_) | Owner::Stake(_) => {
            let what = format!("{text:?} is a credential; a wallet watches whole addresses");
            Err(WalletsError::field("address", what))
        }
    }
}

/// The address of a script, where it has one.
pub(super) fn address(network: Network, script: &[u8]) -> Option<String> {
    if network.is_cardano() {
        return Some(address_text(script));
    }
    script_to_address(script, network)
}

pub(super) fn bytes(field: &'static str, hex: &str) -> Result<Vec<u8>, WalletsError> {
    hex_decode(hex).ok_or_else(|| WalletsError::field(field, "this is not hexadecimal"))
}

pub(super) fn owner(text: &str) -> Result<LeaseOwner, WalletsError> {
    LeaseOwner::parse(text).map_err(|error| WalletsError::field("owner", error.to_string()))
}

pub(super) fn owner_id(text: &str) -> Result<LeaseId, WalletsError> {
    Ok(owner(text)?.id)
}

/// Guards by their names.
pub(super) fn allow(names: &[String]) -> Result<AllowedGuards, WalletsError> {
    AllowedGuards::from_names(names.iter().map(String::as_str))
        .map_err(|unknown| WalletsError::field("allow", unknown.to_string()))
}

/// An owner that nobody else has, for those who do not bring one.
pub(super) fn new_owner() -> LeaseId {
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&random().to_be_bytes());
    }
    LeaseId::from_bytes(bytes)
}

/// A number that differs from call to call. Not for secrets.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_from_strings_and_numbers_and_written_as_strings() {
        let read = |json: &str| serde_json::from_str::<Units>(json).map(|units| units.0);
        assert_eq!(read("7").unwrap(), 7);
        assert_eq!(read("\"18446744073709551615\"").unwrap(), u64::MAX);
        for wrong in ["-1", "1.5", "\"\"", "\"1e3\"", "null", "[1]", "\"18446744073709551616\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(serde_json::to_string(&Units(5)).unwrap(), "\"5\"");
    }

    #[test]
    fn fee_rates_round_up_to_what_weights_can_say() {
        let rate = |text: &str| text.parse::<Rate>().map(|rate| rate.0.get());
        for (text, units) in [("1", 250), ("1.5", 375), ("0.001", 1), ("12.05", 3_013), ("0", 0)] {
            assert_eq!(rate(text), Ok(units), "{text}");
        }
        for wrong in ["", ".5", "-1", "1.2345", "1e3", "99999999999", "x"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(serde_json::from_str::<Rate>("1.5").unwrap().0.get(), 375);
    }

    #[test]
    fn bytes_and_numbers_are_read_as_they_were_written() {
        let script = Hex(vec![0, 0xfe]);
        assert_eq!(serde_json::to_string(&script).unwrap(), "\"00fe\"");
        assert_eq!(serde_json::from_str::<Hex>("\"00fe\"").unwrap(), script);
        assert!(serde_json::from_str::<Hex>("\"0f1\"").is_err());
        assert_eq!(serde_json::to_string(&Signed(-5)).unwrap(), "\"-5\"");
        assert_eq!(serde_json::from_str::<Signed>("\"-5\"").unwrap(), Signed(-5));
        assert!(serde_json::from_str::<Signed>("\"x\"").is_err());
        let edge = i128::from(i64::MAX) + 1;
        assert_eq!(Signed(edge).clamped(), i64::MAX);
        assert_eq!(Signed(-edge - 1).clamped(), i64::MIN);
        assert_eq!(Signed(-5).clamped(), -5);
    }

    #[test]
    fn random_owners_differ() {
        assert_ne!(new_owner(), new_owner());
    }
}
