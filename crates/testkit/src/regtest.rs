//! The chain `regtest-a`: blocks of a real Bitcoin Core, and its answers.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use utxokeep_chains::{BlockFiles, ScanOptions};
use utxokeep_core::{BlockHash, Network};

/// What `gettxoutsetinfo` says at one block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Truth {
    /// Height of the block.
    pub height: u32,
    /// Number of outputs.
    pub txouts: u64,
    /// Their database-independent size.
    pub bogosize: u64,
    /// Digest in display order.
    pub muhash: String,
    /// Ordered digest in display order; the node gave it for the final chain only.
    pub hash_serialized_3: Option<String>,
    /// Sum of amounts, as a decimal string of bitcoins.
    pub total_amount: String,
}

impl Truth {
    /// The sum of amounts in satoshi.
    pub fn total_sat(&self) -> u64 {
        sat(&self.total_amount)
    }
}

/// Satoshi of a decimal string with eight places.
pub fn sat(text: &str) -> u64 {
    text.replace('.', "").parse().expect("amounts in the data have eight decimals")
}

/// What the node published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum EventKind {
    /// A block was connected.
    #[serde(rename = "C")]
    Connect,
    /// A block was disconnected.
    #[serde(rename = "D")]
    Disconnect,
    /// The node was asked for its answers here.
    #[serde(rename = "tip")]
    Tip,
}

/// One event, in the order the node published them.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    /// What happened.
    pub ev: EventKind,
    /// Height of the block.
    pub height: u32,
    /// Its hash, in display order.
    pub hash: String,
}

/// The directory of the data.
#[derive(Debug, Clone)]
pub struct RegtestA {
    dir: PathBuf,
}

impl Default for RegtestA {
    fn default() -> Self {
        Self { dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("data/regtest-a") }
    }
}

impl RegtestA {
    /// The network of the chain.
    pub const NETWORK: Network = Network::BitcoinRegtest;

    /// Path of one of the files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// All blocks in order of arrival, losing branches included.
    pub fn block_files(&self) -> BlockFiles {
        let paths = [self.path("blocks.dat.xz")];
        let spool = std::env::temp_dir();
        BlockFiles::open(&paths, Self::NETWORK, &spool, ScanOptions::default())
            .expect("the blocks are part of the project")
    }

    /// Bytes of a file, decompressed when its name ends in `.xz`.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let mut file = File::open(self.path(name)).expect("the data is part of the project");
        let mut bytes = Vec::new();
        let read = if name.rsplit('.').next() == Some("xz") {
            liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes)
        } else {
            file.read_to_end(&mut bytes)
        };
        read.expect("the data can be read");
        bytes
    }

    /// Text of a file.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).expect("the data is text")
    }

    /// A JSON file.
    pub fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> T {
        serde_json::from_str(&self.text(name)).expect("the data has this shape")
    }

    /// The node's answers at every block that was ever connected.
    pub fn truth_by_hash(&self) -> BTreeMap<BlockHash, Truth> {
        let by_text: BTreeMap<String, Truth> = self.json("truth_by_hash.json.xz");
        by_text
            .into_iter()
            .map(|(hash, truth)| {
                (BlockHash::from_reversed_hex(&hash).expect("the data has hashes"), truth)
            })
            .collect()
    }

    /// Connects and disconnects in the order the node published them.
    pub fn events(&self) -> Vec<Event> {
        self.text("events.jsonl.xz")
            .lines()
            .map(|line| serde_json::from_str(line).expect("the data has this shape"))
            .collect()
    }

    /// Hashes of the chain as it was before the node's last reorganisation, by height. It ends on a
    /// stale branch.
    pub fn stale_chain(&self) -> Vec<BlockHash> {
        let genesis = Self::NETWORK.genesis_hash();
        let (mut hashes, mut before) = (vec![genesis], Vec::new());
        let mut is_growing = true;
        for event in self.events() {
            match event.ev {
                EventKind::Connect => {
                    is_growing = true;
                    hashes.push(BlockHash::from_reversed_hex(&event.hash).expect("a hash"));
                }
                EventKind::Disconnect => {
                    if std::mem::take(&mut is_growing) {
                        before.clone_from(&hashes);
                    }
                    hashes.pop();
                }
                EventKind::Tip => {}
            }
        }
        before
    }

    /// The final chain by height.
    pub fn active_chain(&self) -> Vec<BlockHash> {
        let hashes: Vec<String> = self.json("active_chain.json");
        hashes
            .iter()
            .map(|hash| BlockHash::from_reversed_hex(hash).expect("the data has hashes"))
            .collect()
    }
}
