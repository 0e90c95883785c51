//! A genesis as it is kept in the database of a private chain.
//!
//! A CBOR map with numbers as keys, in ascending order. Numbers are never reused. Transaction ids
//! are not stored: they are hashes of the addresses.

use std::convert::Infallible;

use minicbor::{Decoder, Encoder};
use utxokeep_core::BlockHash;

use super::{Facts, Genesis, GenesisOutput, Outputs, Pace};
use crate::cardano::{
    GenesisError,
    cbor::{at_end, each, fixed, record},
};

const FIELDS: u8 = 8;

/// Bytes of a genesis.
pub(super) fn encode(genesis: &Genesis) -> Vec<u8> {
    let Facts { hash, start_ms, byron_slots, byron, shelley, .. } = genesis.facts;
    let outputs = genesis.outputs();
    let mut e = Encoder::new(Vec::new());
    let mut write = || -> Result<(), minicbor::encode::Error<Infallible>> {
        e.map(FIELDS.into())?;
        e.u8(0)?.bytes(hash.as_bytes())?;
        e.u8(1)?.u32(genesis.facts.security_blocks)?;
        e.u8(2)?.u32(genesis.facts.network_magic)?;
        e.u8(3)?.u8(genesis.facts.network_id)?;
        e.u8(4)?.u64(start_ms)?;
        e.u8(5)?.array(3)?.u64(byron_slots)?.u64(byron.epoch_slots)?.u64(byron.slot_ms)?;
        e.u8(6)?.array(2)?.u64(shelley.epoch_slots)?.u64(shelley.slot_ms)?;
        e.u8(7)?.array(outputs.len() as u64)?;
        for output in outputs {
            e.array(2)?.bytes(&output.address)?.u64(output.value)?;
        }
        Ok(())
    };
    write().expect("writing into memory does not fail");
    e.into_writer()
}

/// Inverse of [`encode`].
pub(super) fn decode(bytes: &[u8]) -> Result<Genesis, GenesisError> {
    let damaged = |reason: String| GenesisError::Stored { reason };
    let (facts, outputs) = read(bytes).map_err(|error| damaged(error.to_string()))?;
    let paces = [facts.byron, facts.shelley];
    if paces.iter().any(|pace| pace.epoch_slots == 0 || pace.slot_ms == 0) {
        return Err(damaged("a slot or an epoch has no length".to_owned()));
    }
    let outputs =
        Outputs::list(outputs).map_err(|_| damaged("an address is there twice".to_owned()))?;
    Ok(Genesis { facts, outputs })
}

fn read(bytes: &[u8]) -> Result<(Facts, Vec<GenesisOutput>), minicbor::decode::Error> {
    let mut d = Decoder::new(bytes);
    if d.map()? != Some(FIELDS.into()) {
        return Err(minicbor::decode::Error::message("it is of another version"));
    }
    expect_key(&mut d, 0)?;
    let hash = BlockHash::from_bytes(*fixed(&mut d)?);
    expect_key(&mut d, 1)?;
    let security_blocks = d.u32()?;
    expect_key(&mut d, 2)?;
    let network_magic = d.u32()?;
    expect_key(&mut d, 3)?;
    let network_id = d.u8()?;
    expect_key(&mut d, 4)?;
    let start_ms = d.u64()?;
    expect_key(&mut d, 5)?;
    let of_byron = record(&mut d, 3)?;
    let byron_slots = d.u64()?;
    let byron = Pace { epoch_slots: d.u64()?, slot_ms: d.u64()? };
    of_byron.finish(&mut d)?;
    expect_key(&mut d, 6)?;
    let of_shelley = record(&mut d, 2)?;
    let shelley = Pace { epoch_slots: d.u64()?, slot_ms: d.u64()? };
    of_shelley.finish(&mut d)?;
    expect_key(&mut d, 7)?;
    let mut outputs = Vec::new();
    each(&mut d, |d| {
        let output = record(d, 2)?;
        let address = d.bytes()?.to_vec();
        outputs.push(GenesisOutput::new(address, d.u64()?));
        output.finish(d)
    })?;
    at_end(&d)?;
    let facts = Facts {
        hash,
        security_blocks,
        network_magic,
        network_id,
        start_ms,
        byron_slots,
        byron,
        shelley,
    };
    Ok((facts, outputs))
}

fn expect_key(d: &mut Decoder<'_>, key: u8) -> Result<(), minicbor::decode::Error> {
    let at = d.position();
    match d.u8()? {
        found if found == key => Ok(()),
        found => {
            let message = format!("field {found} in place of field {key}");
            Err(minicbor::decode::Error::message(message).at(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{Network, hex_encode};

    use super::*;

    fn small() -> Genesis {
        let facts = Facts {
            hash: BlockHash::from_bytes([0xaa; 32]),
            security_blocks: 5,
            network_magic: 42,
            network_id: 0,
            start_ms: 1_700_000_000_500,
            byron_slots: 0,
            byron: Pace { epoch_slots: 50, slot_ms: 20_000 },
            shelley: Pace { epoch_slots: 120, slot_ms: 100 },
        };
        let outputs = vec![GenesisOutput::new(vec![0x60, 1], 7), GenesisOutput::new(vec![0x60], 0)];
        Genesis { facts, outputs: Outputs::list(outputs).unwrap() }
    }

    #[test]
    fn stored_bytes_are_pinned_and_round_trip() {
        let genesis = small();
        let bytes = genesis.encode();
        let expected = format!(
            "a8005820{}010502182a0300041b0000018bcfe569f4058300183219\
             4e200682187818640782{}",
            "aa".repeat(32),
            "824260010782416000"
        );
        assert_eq!(hex_encode(&bytes), expected);
        let back = Genesis::decode(&bytes).unwrap();
        assert_eq!(back.facts, genesis.facts);
        assert_eq!(back.outputs(), genesis.outputs());
        assert_eq!(back.epoch_and_time(125), (1, 1_700_000_013));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = small().encode();
        for cut in 0..bytes.len() {
            assert!(Genesis::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Genesis::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
        let newer = [&[0xa9], &bytes[1..]].concat();
        let error = Genesis::decode(&newer).unwrap_err();
        assert!(error.to_string().contains("another version"), "{error}");
        let mut still = small();
        still.facts.shelley.slot_ms = 0;
        assert!(Genesis::decode(&still.encode()).is_err());
    }

    #[test]
    fn a_large_genesis_round_trips() {
        let mainnet = Genesis::public(Network::CardanoMainnet).unwrap();
        let back = Genesis::decode(&mainnet.encode()).unwrap();
        assert_eq!((back.facts, back.outputs()), (mainnet.facts, mainnet.outputs()));
    }
}
