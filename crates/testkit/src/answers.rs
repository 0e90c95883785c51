//! What Bitcoin Core and electrs answered about `regtest-a`, by kind of question.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;
use utxokeep_core::{BlockHash, hex_decode};

use crate::{RegtestA, Snapshot};

/// Live outputs of many scripts at the tip.
#[derive(Debug, Deserialize)]
pub struct ScanTxOutSet {
    /// Height of the tip.
    pub height: u32,
    /// By script in hex.
    pub scripts: BTreeMap<String, Vec<ScannedTxOut>>,
}

/// Transaction, index, amount, height, whether a coinbase.
pub type ScannedTxOut = (String, u32, String, u32, bool);

/// What `gettxout` says of one output.
#[derive(Debug, Deserialize)]
pub struct GetTxOut {
    /// Amount in bitcoins.
    pub value: String,
    /// Blocks since, its own included.
    pub confirmations: u32,
    /// Created by a coinbase.
    pub coinbase: bool,
    /// Script in hex.
    pub spk: String,
}

/// One looked-up output.
#[derive(Debug, Deserialize)]
pub struct SpotCheck {
    /// Transaction.
    pub txid: String,
    /// Index.
    pub vout: u32,
    /// The output while it is live.
    pub gettxout: Option<GetTxOut>,
    /// The transaction that spent it.
    pub spender: Option<String>,
    /// The block of that transaction.
    pub spender_block: Option<String>,
}

/// A block Bitcoin Core refused.
#[derive(Debug, Deserialize)]
pub struct RefusedByCore {
    /// What is wrong with it.
    pub name: String,
    /// The node's reason.
    pub reject: String,
    /// Its parent.
    pub prev: String,
    /// Height it would have had.
    pub height: u32,
    /// Its bytes in hex.
    raw: String,
}

impl RefusedByCore {
    /// Its bytes.
    pub fn raw(&self) -> Vec<u8> {
        hex_decode(&self.raw).expect("the data is hex")
    }
}

/// What electrs says of one script.
#[derive(Debug, Deserialize)]
pub struct ElectrsScript {
    /// Height and id of each transaction that touches it.
    pub history: Vec<(u32, String)>,
    /// Its balance.
    pub balance: ElectrsBalance,
}

/// A balance.
#[derive(Debug, Deserialize)]
pub struct ElectrsBalance {
    /// In blocks.
    pub confirmed: u64,
}

#[derive(Deserialize)]
struct ElectrsHistory {
    scripts: BTreeMap<String, ElectrsScript>,
}

/// What `gettxoutsetinfo` says at one height of mainnet.
#[derive(Debug, Deserialize)]
pub struct MainnetTruthAt {
    /// The block, in display order.
    pub bestblock: String,
    /// Number of outputs.
    pub txouts: u64,
    /// Their database-independent size.
    pub bogosize: u64,
    /// Digest in display order.
    pub muhash: String,
    /// Ordered digest in display order, where it was asked for.
    pub hash_serialized_3: Option<String>,
    /// Sum of amounts in bitcoins.
    pub total_amount: String,
}

/// The node's answers about the first blocks of mainnet.
#[derive(Debug, Deserialize)]
pub struct MainnetTruth {
    /// Answers by height.
    pub by_height: BTreeMap<u32, MainnetTruthAt>,
}

impl MainnetTruth {
    /// Reads the file.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the directory has the file");
        serde_json::from_str(&text).expect("the data has this shape")
    }
}

/// Amount and script of a spent output.
pub type SpentTxOut = (u64, Vec<u8>);

impl RegtestA {
    /// `scantxoutset` at the tip.
    pub fn scan_tx_out_set(&self) -> ScanTxOutSet {
        self.json("scantxoutset.json.xz")
    }

    /// `gettxout` of single outputs.
    pub fn spot_checks(&self) -> Vec<SpotCheck> {
        self.json("gettxout_spot.json.xz")
    }

    /// Blocks the node refused.
    pub fn refused_blocks(&self) -> Vec<RefusedByCore> {
        let text = self.text("invalid_blocks.jsonl");
        text.lines().map(|l| serde_json::from_str(l).expect("the data has this shape")).collect()
    }

    /// History and balance of the scripts, from electrs.
    pub fn electrs(&self) -> BTreeMap<String, ElectrsScript> {
        self.json::<ElectrsHistory>("electrs_history.json.xz").scripts
    }

    /// The `dumptxoutset` snapshot at a height.
    pub fn snapshot(&self, height: u32) -> Snapshot {
        let bytes = fs::read(self.path(&format!("utxo-{height}.dat")));
        Snapshot::parse(&bytes.expect("the data is part of the project"))
            .expect("the data is a snapshot")
    }

    /// What each transaction of each block spends, as the node's REST interface says.
    pub fn spent_tx_outs(&self) -> BTreeMap<BlockHash, Vec<Vec<SpentTxOut>>> {
        let bytes = self.bytes("spenttxouts.dat.xz");
        let mut rest = bytes.as_slice();
        let mut blocks = BTreeMap::new();
        while !rest.is_empty() {
            let hash = BlockHash::from_slice(take(&mut rest, 32)).expect("32 bytes were taken");
            let len = u32::from_le_bytes(take(&mut rest, 4).try_into().expect("four bytes"));
            let mut body = take(&mut rest, len as usize);
            let txs = (0..size(&mut body)).map(|_| tx_outs(&mut body)).collect();
            assert!(body.is_empty(), "bytes behind the answer for {hash}");
            blocks.insert(hash, txs);
        }
        blocks
    }
}

fn tx_outs(body: &mut &[u8]) -> Vec<SpentTxOut> {
    (0..size(body))
        .map(|_| {
            let value = u64::from_le_bytes(take(body, 8).try_into().expect("eight bytes"));
            let len = size(body);
            (value, take(body, usize::try_from(len).expect("scripts are short")).to_vec())
        })
        .collect()
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at_checked(len).expect("the data is complete");
    *bytes = rest;
    taken
}

fn size(bytes: &mut &[u8]) -> u64 {
    let len = match take(bytes, 1)[0] {
        0xfd => 2,
        0xfe => 4,
        0xff => 8,
        small => return u64::from(small),
    };
    let mut value = [0; 8];
    value[..len].copy_from_slice(take(bytes, len));
    u64::from_le_bytes(value)
}
