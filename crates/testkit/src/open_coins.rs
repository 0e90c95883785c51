//! Coins of Bitcoin that anyone can spend without a signature and that a node relays: pay to witness
//! script hash, where the script is one number. A number gives a script of its own, so a test can
//! call some of them its wallet's and others a stranger's.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use sha2::{Digest as _, Sha256};
use utxokeep_chains::decode_tx;
use utxokeep_core::{OutPoint, Txid};

/// `OP_1` to `OP_16`: the script leaves a number that counts as true.
fn witness_script(number: u8) -> u8 {
    assert!((1..=16).contains(&number), "there are 16 such scripts");
    0x50 + number
}

/// The output script of coins with this number, 1 to 16.
#[must_use]
pub fn open_script(number: u8) -> Vec<u8> {
    let mut script = vec![0x00, 0x20];
    script.extend(Sha256::digest([witness_script(number)]));
    script
}

/// A coin that anyone can spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCoin {
    /// Where it is.
    pub outpoint: OutPoint,
    /// In satoshi.
    pub amount: u64,
    /// The number of its script.
    pub number: u8,
}

impl OpenCoin {
    /// Names a coin.
    #[must_use]
    pub const fn new(txid: Txid, index: u32, amount: u64, number: u8) -> Self {
        Self { outpoint: OutPoint::new(txid, index), amount, number }
    }
}

/// A transaction that spends such coins. It is complete: nobody has to sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTx {
    raw: Vec<u8>,
    outputs: Vec<(Vec<u8>, u64)>,
}

impl OpenTx {
    /// Spends these coins to these scripts; the rest is the fee. Sequence numbers allow replacing it.
    #[must_use]
    pub fn spend(coins: &[OpenCoin], outputs: &[(Vec<u8>, u64)]) -> Self {
        let mut raw = Vec::new();
        raw.extend(2u32.to_le_bytes());
        raw.extend([0x00, 0x01]);
        raw.push(u8::try_from(coins.len()).unwrap());
        for coin in coins {
            raw.extend(coin.outpoint.txid().as_bytes());
            raw.extend(coin.outpoint.index().to_le_bytes());
            raw.push(0);
            raw.extend(0xffff_fffdu32.to_le_bytes());
        }
        raw.push(u8::try_from(outputs.len()).unwrap());
        for (script, amount) in outputs {
            raw.extend(amount.to_le_bytes());
            raw.push(u8::try_from(script.len()).unwrap());
            raw.extend(script);
        }
        for coin in coins {
            raw.extend([0x01, 0x01, witness_script(coin.number)]);
        }
        raw.extend(0u32.to_le_bytes());
        Self { raw, outputs: outputs.to_vec() }
    }

    /// Its bytes.
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        self.raw.clone()
    }

    /// Its id.
    #[must_use]
    pub fn txid(&self) -> Txid {
        decode_tx(&self.raw).unwrap().txid
    }

    /// One of its outputs, whose script has this number.
    #[must_use]
    pub fn coin(&self, index: u32, number: u8) -> OpenCoin {
        let (script, amount) = &self.outputs[index as usize];
        assert_eq!(*script, open_script(number), "the output pays another script");
        OpenCoin::new(self.txid(), index, *amount, number)
    }
}
