//! Block headers: hash, link, time and proof of work.

use ::bitcoin::pow::Target;
use utxokeep_core::{BlockHash, ChainWork, Header, Network};

use super::{DecodeError, hash::sha256d};

/// Length of a serialised header.
pub const HEADER_LEN: usize = 80;

/// Decodes the header at the start of `raw` and checks its proof of work.
pub fn decode_header(raw: &[u8]) -> Result<Header, DecodeError> {
    decode(raw).map(|(header, _)| header)
}

/// [`decode_header`] that also refuses targets easier than `network` allows.
pub(crate) fn decode_header_of(raw: &[u8], network: Network) -> Result<Header, DecodeError> {
    let (header, target) = decode(raw)?;
    if target > super::params_of(network).params().max_attainable_target {
        return Err(DecodeError::BadTarget { bits: bits_of(raw) });
    }
    Ok(header)
}

fn decode(raw: &[u8]) -> Result<(Header, Target), DecodeError> {
    let bytes: &[u8; HEADER_LEN] =
        raw.first_chunk().ok_or(DecodeError::Truncated { offset: raw.len() })?;
    let hash = BlockHash::from_bytes(sha256d(bytes));
    let bits = bits_of(bytes);
    let target = expand_target(bits).ok_or(DecodeError::BadTarget { bits })?;
    if Target::from_le_bytes(*hash.as_bytes()) > target {
        return Err(DecodeError::BadProofOfWork { hash });
    }
    let mut prev = [0; 32];
    prev.copy_from_slice(&bytes[4..36]);
    let header = Header {
        hash,
        prev: BlockHash::from_bytes(prev),
        time: u64::from(u32_at(bytes, 68)),
        work: ChainWork::from_be_bytes(target.to_work().to_be_bytes()),
        slot: None,
    };
    Ok((header, target))
}

fn bits_of(raw: &[u8]) -> u32 {
    u32_at(raw, 72)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes[offset..].first_chunk().expect("callers hold a whole header");
    u32::from_le_bytes(*field)
}

/// Expands a compact target: one byte of exponent, a sign bit, 23 bits of mantissa. `None` when it
/// is negative, zero, or does not fit in 256 bits.
fn expand_target(bits: u32) -> Option<Target> {
    let [exponent, mantissa @ ..] = bits.to_be_bytes();
    if mantissa[0] & 0x80 != 0 {
        return None;
    }
    let mut target = [0; 32];
    for (place, digit) in mantissa.into_iter().enumerate() {
        match (32 + place).checked_sub(usize::from(exponent)) {
            Some(at) if at < 32 => target[at] = digit,
            // Digits right of the point are dropped; digits left of the first byte overflow.
            Some(_) => {}
            None if digit == 0 => {}
            None => return None,
        }
    }
    if target == [0; 32] { None } else { Some(Target::from_be_bytes(target)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bits: u32) -> Option<String> {
        expand_target(bits).map(|target| utxokeep_core::hex_encode(&target.to_be_bytes()))
    }

    #[test]
    fn targets_expand_like_the_reference_node() {
        let cases = [
            (0x1d00_ffff, "00000000ffff0000000000000000000000000000000000000000000000000000"),
            (0x207f_ffff, "7fffff0000000000000000000000000000000000000000000000000000000000"),
            (0x0112_3456, "0000000000000000000000000000000000000000000000000000000000000012"),
            (0x0312_3456, "0000000000000000000000000000000000000000000000000000000000123456"),
            (0x2200_0012, "1200000000000000000000000000000000000000000000000000000000000000"),
        ];
        for (bits, target) in cases {
            assert_eq!(hex(bits).as_deref(), Some(target), "{bits:#x}");
        }
        let refused =
            [0, 0x0001_2345, 0x0100_3456, 0x0180_0000, 0x0492_3456, 0x2112_3456, 0x2300_0012];
        for bits in refused {
            assert_eq!(hex(bits), None, "{bits:#x}");
        }
    }

    #[test]
    fn work_is_the_expected_number_of_hashes() {
        let work = |network| {
            let work = decode_header(&super::super::genesis_block(network)).unwrap().work;
            utxokeep_core::hex_encode(&work.as_bytes()[24..])
        };
        assert_eq!(work(Network::BitcoinMainnet), "0000000100010001");
        assert_eq!(work(Network::BitcoinRegtest), "0000000000000002");
    }

    #[test]
    fn target_of_a_test_chain_is_refused_on_the_main_network() {
        let raw = super::super::genesis_block(Network::BitcoinRegtest);
        let refused = decode_header_of(&raw, Network::BitcoinMainnet);
        assert_eq!(refused, Err(DecodeError::BadTarget { bits: 0x207f_ffff }));
        assert!(decode_header_of(&raw, Network::BitcoinRegtest).is_ok());
        assert!(decode_header(&raw[..79]).is_err());
    }
}
