//! `dumptxoutset` snapshots, version 2, as far as a comparison needs them.
//!
//! Scripts stay compressed: a stored script is compared with a plain one by rule, because turning
//! an uncompressed public key back needs the curve.

use utxokeep_core::{BlockHash, OutPoint, Txid};

/// A snapshot of the set.
#[derive(Debug)]
pub struct Snapshot {
    /// Magic of the network.
    pub magic: [u8; 4],
    /// The block it was taken at.
    pub base: BlockHash,
    /// The outputs, in the order of the file.
    pub coins: Vec<SnapshotCoin>,
}

/// One output.
#[derive(Debug)]
pub struct SnapshotCoin {
    /// Which output.
    pub outpoint: OutPoint,
    /// Height of the block that created it.
    pub height: u32,
    /// Created by a coinbase.
    pub is_coinbase: bool,
    /// Amount.
    pub value: u64,
    /// Its script as stored.
    pub script: StoredScript,
}

/// A script as the snapshot stores it: the kind, and what is left of the bytes.
#[derive(Debug)]
pub struct StoredScript {
    code: u64,
    bytes: Vec<u8>,
}

impl StoredScript {
    /// Whether this is what Bitcoin Core stores for `script`.
    pub fn is(&self, script: &[u8]) -> bool {
        let Self { code, bytes } = self;
        match code {
            0 => script == [&[0x76, 0xa9, 20], bytes.as_slice(), &[0x88, 0xac]].concat(),
            1 => script == [&[0xa9, 20], bytes.as_slice(), &[0x87]].concat(),
            2 | 3 => {
                let key = u8::try_from(*code).expect("two or three");
                script == [&[33, key], bytes.as_slice(), &[0xac]].concat()
            }
            4 | 5 => {
                // The stored half of the key, and the lowest bit of the other half.
                script.len() == 67
                    && script[..2] == [65, 4]
                    && script[66] == 0xac
                    && script[2..34] == bytes[..]
                    && u64::from(script[65] & 1) == code & 1
            }
            _ => script == bytes,
        }
    }
}

impl Snapshot {
    /// Reads a whole snapshot; `None` when the bytes are not one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.take(5)? != b"utxo\xff" || reader.take(2)? != [2, 0] {
            return None;
        }
        let magic = reader.take(4)?.try_into().ok()?;
        let base = BlockHash::from_slice(reader.take(32)?)?;
        let count = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
        let mut coins = Vec::new();
        while !reader.0.is_empty() {
            let txid = Txid::from_slice(reader.take(32)?)?;
            for _ in 0..reader.compact_size()? {
                let index = u32::try_from(reader.compact_size()?).ok()?;
                coins.push(reader.coin(OutPoint::new(txid, index))?);
            }
        }
        (coins.len() as u64 == count).then_some(Self { magic, base, coins })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn compact_size(&mut self) -> Option<u64> {
        let len = match self.take(1)?[0] {
            0xfd => 2,
            0xfe => 4,
            0xff => 8,
            small => return Some(u64::from(small)),
        };
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(self.take(len)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// Base 128, most significant digit first, one added per continued digit.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        loop {
            let byte = self.take(1)?[0];
            value = value.checked_mul(128)? | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }

    fn coin(&mut self, outpoint: OutPoint) -> Option<SnapshotCoin> {
        let code = self.varint()?;
        let value = decompress_amount(self.varint()?);
        let script_code = self.varint()?;
        let len = match script_code {
            0 | 1 => 20,
            2..=5 => 32,
            longer => longer - 6,
        };
        let bytes = self.take(usize::try_from(len).ok()?)?.to_vec();
        Some(SnapshotCoin {
            outpoint,
            height: u32::try_from(code >> 1).ok()?,
            is_coinbase: code & 1 == 1,
            value,
            script: StoredScript { code: script_code, bytes },
        })
    }
}

fn decompress_amount(code: u64) -> u64 {
    let Some(code) = code.checked_sub(1) else { return 0 };
    let (rest, zeros) = (code / 10, code % 10);
    let digits = if zeros < 9 { rest / 9 * 10 + rest % 9 + 1 } else { rest + 1 };
    digits * 10u64.pow(u32::try_from(zeros).expect("below ten"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_decompress_as_bitcoin_core_documents_them() {
        let pairs = [
            (0x0, 0),
            (0x1, 1),
            (0x7, 1_000_000),
            (0x9, 100_000_000),
            (0x32, 5_000_000_000),
            (0x0140_6f40, 2_100_000_000_000_000),
        ];
        for (code, amount) in pairs {
            assert_eq!(decompress_amount(code), amount, "{code:#x}");
        }
    }

    #[test]
    fn variable_integers_follow_bitcoin_core() {
        let pairs: [(&[u8], u64); 6] = [
            (&[0x00], 0),
            (&[0x7f], 0x7f),
            (&[0x80, 0x00], 0x80),
            (&[0xfe, 0x7f], 0x3fff),
            (&[0xff, 0x00], 0x4000),
            (&[0x8e, 0xfe, 0xfe, 0xff, 0x00], 0x1_0000_0000),
        ];
        for (bytes, value) in pairs {
            assert_eq!(Reader(bytes).varint(), Some(value), "{bytes:?}");
        }
    }
}
