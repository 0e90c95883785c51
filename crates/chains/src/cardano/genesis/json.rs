//! Genesis files as nodes read them. Fields this program does not need are ignored.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use utxokeep_core::{BlockHash, Network, hex_decode, hex_encode};

use super::{Facts, Genesis, GenesisOutput, Outputs, Pace, public};
use crate::cardano::{GenesisError, hash::blake2b_256};

const BYRON: &str = "Byron";
const SHELLEY: &str = "Shelley";

/// Slots of a Byron epoch, in multiples of the security parameter.
const BYRON_EPOCH: u64 = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ByronFile {
    #[serde(default)]
    avvm_distr: BTreeMap<String, Value>,
    #[serde(default)]
    non_avvm_balances: BTreeMap<String, Value>,
    block_version_data: BlockVersionData,
    protocol_consts: ProtocolConsts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockVersionData {
    slot_duration: Value,
}

#[derive(Deserialize)]
struct ProtocolConsts {
    k: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShelleyFile {
    system_start: String,
    network_magic: u32,
    network_id: String,
    security_param: u32,
    epoch_length: u64,
    slot_length: f64,
    #[serde(default)]
    initial_funds: BTreeMap<String, Value>,
}

/// Reads the two files.
pub(super) fn read(byron: Option<&[u8]>, shelley: &[u8]) -> Result<Genesis, GenesisError> {
    let shelley: ShelleyFile = parse(SHELLEY, shelley)?;
    let network_id = match shelley.network_id.as_str() {
        "Mainnet" => 1,
        "Testnet" => 0,
        other => return Err(unusable(SHELLEY, "networkId", other)),
    };
    let mut outputs = initial_funds(&shelley)?;
    let mut hash = BlockHash::default();
    let mut byron_pace =
        Pace { epoch_slots: BYRON_EPOCH * u64::from(shelley.security_param), slot_ms: 20_000 };
    if let Some(byron) = byron {
        let file: Value = parse(BYRON, byron)?;
        hash = canonical_hash(&file);
        let file: ByronFile = serde_json::from_value(file).map_err(|e| refused(BYRON, &e))?;
        let slot_ms = number(BYRON, "slotDuration", &file.block_version_data.slot_duration)?;
        let epoch_slots = BYRON_EPOCH * u64::from(file.protocol_consts.k);
        byron_pace = Pace { epoch_slots, slot_ms };
        // Addresses name their network everywhere but on the main network.
        let magic = (network_id == 0).then_some(shelley.network_magic);
        outputs.append(&mut byron_outputs(&file, magic)?);
    }
    let slot_length = Duration::try_from_secs_f64(shelley.slot_length).unwrap_or_default();
    let facts = Facts {
        hash,
        security_blocks: shelley.security_param,
        network_magic: shelley.network_magic,
        network_id,
        start_ms: unix_ms(&shelley.system_start)
            .ok_or_else(|| unusable(SHELLEY, "systemStart", &shelley.system_start))?,
        byron_slots: byron_slots(hash),
        byron: byron_pace,
        shelley: Pace {
            epoch_slots: shelley.epoch_length,
            slot_ms: u64::try_from(slot_length.as_millis()).unwrap_or(u64::MAX),
        },
    };
    check(&facts, &shelley)?;
    let outputs = Outputs::list(outputs)
        .map_err(|address| unusable(SHELLEY, "initialFunds", &hex_encode(&address)))?;
    Ok(Genesis { facts, outputs })
}

/// When Byron ends is in none of the files: public networks are known by their hash, and private
/// chains skip Byron.
fn byron_slots(hash: BlockHash) -> u64 {
    let mut public = Network::ALL.into_iter().filter(|network| network.genesis_hash() == hash);
    public.find_map(public::byron_slots_of).unwrap_or(0)
}

fn check(facts: &Facts, shelley: &ShelleyFile) -> Result<(), GenesisError> {
    if facts.security_blocks == 0 {
        return Err(unusable(SHELLEY, "securityParam", "0"));
    }
    if facts.shelley.epoch_slots == 0 {
        return Err(unusable(SHELLEY, "epochLength", "0"));
    }
    if facts.shelley.slot_ms == 0 {
        return Err(unusable(SHELLEY, "slotLength", &shelley.slot_length.to_string()));
    }
    if facts.byron.slot_ms == 0 {
        return Err(unusable(BYRON, "slotDuration", "0"));
    }
    if facts.byron.epoch_slots == 0 {
        return Err(unusable(BYRON, "k", "0"));
    }
    Ok(())
}

fn initial_funds(file: &ShelleyFile) -> Result<Vec<GenesisOutput>, GenesisError> {
    let outputs = file.initial_funds.iter().map(|(address, value)| {
        let bytes = hex_decode(address).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| unusable(SHELLEY, "initialFunds", address))?;
        Ok(GenesisOutput::new(bytes, number(SHELLEY, "initialFunds", value)?))
    });
    outputs.collect()
}

fn byron_outputs(
    file: &ByronFile,
    network_magic: Option<u32>,
) -> Result<Vec<GenesisOutput>, GenesisError> {
    let vouchers = file.avvm_distr.iter().map(|(key, value)| {
        let bytes = URL_SAFE.decode(key).ok().and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| unusable(BYRON, "avvmDistr", key))?;
        let address = public::redeem_address(bytes, network_magic);
        Ok(GenesisOutput::new(address, number(BYRON, "avvmDistr", value)?))
    });
    let balances = file.non_avvm_balances.iter().map(|(address, value)| {
        let bytes = bitcoin::base58::decode(address)
            .map_err(|_| unusable(BYRON, "nonAvvmBalances", address))?;
        Ok(GenesisOutput::new(bytes, number(BYRON, "nonAvvmBalances", value)?))
    });
    vouchers.chain(balances).collect()
}

/// Hash of a file without white space and with its keys in order, so that its looks do not matter.
fn canonical_hash(file: &Value) -> BlockHash {
    let mut text = String::new();
    write_canonical(file, &mut text);
    BlockHash::from_bytes(blake2b_256(&[text.as_bytes()]))
}

/// Nesting is bounded by the parser.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            out.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        simple => out.push_str(&simple.to_string()),
    }
}

fn parse<T: DeserializeOwned>(file: &'static str, text: &[u8]) -> Result<T, GenesisError> {
    serde_json::from_slice(text).map_err(|error| refused(file, &error))
}

fn refused(file: &'static str, error: &serde_json::Error) -> GenesisError {
    GenesisError::Json { file, reason: error.to_string() }
}

fn unusable(file: &'static str, field: &'static str, value: &str) -> GenesisError {
    GenesisError::Field { file, field, value: value.to_owned() }
}

/// A number, or a text of one: Byron writes amounts as texts.
fn number(file: &'static str, field: &'static str, value: &Value) -> Result<u64, GenesisError> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| unusable(file, field, &value.to_string()))
}

/// Milliseconds since 1970 of a time like `2017-09-23T21:44:51Z`, with or without a fraction.
fn unix_ms(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (hour < 24 && minute < 60 && second < 61);
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let millis: u64 = millis.parse().ok().filter(|_| in_range)?;
    // Years start in March here, so that a leap day is the last day of its year.
    let march_year = year - u64::from(month < 3);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let days = (march_year * 365 + leap_days + day_of_year).checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + millis)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let numbers: Option<Vec<_>> = text.split(separator).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests;
