//! The program, a ledger, and transactions that pay into it.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep::{
    config::WalletConfig,
    wallets::{ApplyBlock, BlockPlace, BlockTx, Wallets},
};
use utxokeep_core::{OpenMode, hex_encode};

pub(crate) use crate::program::told;
use crate::program::utxokeep;

/// An account of a regtest wallet that a real Bitcoin Core made.
pub(crate) const DESCRIPTOR: &str = "wpkh([0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/<0;1>/*)";

/// Where the same wallet has the coinbase outputs it mined.
pub(crate) const TAPROOT: &str = "tr([0c5f9a1e/86h/1h/0h]tpubDDCA1MQNPcAVLUaV3A3yWNLuM25zSoXMWHYTQwLVeNRmKkT61j8SZ1XCsXDAUoU7mwbVhmntBji9ydEQrCdE8PcqwCytXb18J7bi8tfCbHA/0/*)#utz4kzzh";

/// Somebody else.
pub(crate) const STRANGER: &str = "bcrt1qhmxwfllc0psvl3ger2y9s9nw3gdg49rgrqvzn6";

pub(crate) struct User {
    pub(crate) home: TempDir,
    pub(crate) url: String,
}

impl User {
    /// A new ledger in a file.
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let url = format!("sqlite:{}", home.path().join("ledger.db").display());
        Self { home, url }
    }

    /// A ledger on a server.
    pub(crate) fn at(url: &str) -> Self {
        Self { home: TempDir::new().unwrap(), url: url.to_owned() }
    }

    /// A wallet `hot` with both keychains, and coins of these amounts in block 1.
    pub(crate) fn with_coins(self, amounts: &[u64]) -> Self {
        self.json(&["wallet", "create", "hot", "--network", "regtest"]);
        self.json(&["wallet", "descriptor", "add", "hot", DESCRIPTOR, "--lookahead", "20"]);
        let mut raws = Vec::new();
        for (seed, amount) in (1..).zip(amounts) {
            let paid = self.json(&["wallet", "address", "next", "hot"]);
            raws.push(payment(seed, *amount, paid["script"].as_str().unwrap()));
        }
        self.apply_block(1, raws);
        self
    }

    /// The ledger, without the program.
    pub(crate) fn wallets(&self) -> Wallets {
        Wallets::open(&self.url, &WalletConfig::default(), OpenMode::Create).unwrap()
    }

    pub(crate) fn apply_block(&self, height: u8, raws: Vec<String>) {
        let hash = |height: u8| hex_encode(&[height; 32]);
        let block = BlockPlace { height: height.into(), hash: hash(height), time: 1_800_000_000 };
        let transactions = raws.into_iter().map(BlockTx::Raw).collect();
        let parent = (height > 1).then(|| hash(height - 1));
        let (chain, network) = ("bitcoin".to_owned(), "regtest".to_owned());
        let request = ApplyBlock { chain, network, block, parent, transactions };
        self.wallets().apply_block(&request).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn text_path(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The program without a ledger.
    pub(crate) fn bare(&self, args: &[&str]) -> Command {
        let mut command = utxokeep(args);
        command.current_dir(self.home.path());
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(args);
        command.args(["--ledger", &self.url]);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that reads `input`.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The answer of a command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What people read after a command that must succeed.
    pub(crate) fn lines(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command complains about that must fail without a result.
    pub(crate) fn refused(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        told(&output)
    }
}

/// A text of an answer.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// An amount of an answer.
pub(crate) fn amount(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// The bytes of a transaction of a stranger with one output.
pub(crate) fn payment(seed: u8, amount: u64, script: &str) -> String {
    let input = format!("{}0000000000ffffffff", hex_encode(&[seed; 32]));
    let length = hex_encode(&[u8::try_from(script.len() / 2).unwrap()]);
    let value = hex_encode(&amount.to_le_bytes());
    format!("0200000001{input}01{value}{length}{script}00000000")
}
