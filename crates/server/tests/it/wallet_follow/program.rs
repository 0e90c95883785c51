//! The program and its ledger, from outside.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use utxokeep::{config::WalletConfig, wallets::Wallets};
use utxokeep_core::{BlockHash, Height, Network, OpenMode};
use utxokeep_wallet::{
    CoinQuery, ConfirmationRange, HistoryQuery, HistoryScope, Ledger, Micros, WalletId,
};

use crate::program::{Serving, until, utxokeep};

pub(crate) const NOW: Micros = Micros::new(1_800_000_000_000_000);

/// Directories and configuration of one test.
pub(crate) struct LedgerHome {
    dir: tempfile::TempDir,
    pub(crate) url: String,
}

impl LedgerHome {
    /// A ledger in a file of its own.
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
        Self { dir, url }
    }

    pub(crate) fn with_ledger(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::sqlite() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the configuration: where bodies are, and other sections.
    pub(crate) fn configure(&self, blocks: Option<&Path>, more: &str) {
        let blocks =
            blocks.map_or(String::new(), |path| format!("blocks = \"{}\"\n", path.display()));
        let wallet = format!("url = {:?}\nfsync = false\nfollow_poll_ms = 20\n", self.url);
        let text = format!("[wallet]\n{wallet}{blocks}{more}");
        fs::write(self.path("utxokeep.toml"), text).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = utxokeep(words);
        command.arg("--data").arg(self.path("data"));
        command.arg("--config").arg(self.path("utxokeep.toml"));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let config = WalletConfig { fsync: false, ..WalletConfig::default() };
        Wallets::open(&self.url, &config, OpenMode::Create).unwrap().ledger().clone()
    }

    pub(crate) fn serve(&self) -> Serving {
        let words = ["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
        Serving::start(self.command(&words))
    }
}

/// Confirmed unspent outputs.
pub(crate) fn coins(ledger: &Ledger, wallet: WalletId) -> BTreeSet<String> {
    let range = ConfirmationRange::at_least(1);
    let mut query = CoinQuery { range, ..CoinQuery::default() };
    let mut found = BTreeSet::new();
    loop {
        let page = ledger.coins(wallet, &query, NOW).unwrap();
        let Some(last) = page.last() else { return found };
        query.after = Some((last.amount, last.outpoint));
        found.extend(page.iter().map(|coin| {
            format!("{} {} {:?} {}", coin.outpoint, coin.amount, coin.height, coin.coinbase)
        }));
    }
}

/// Outputs in blocks that no block has spent. Transactions that have left the chain are left out:
/// they wait for another block, and hold what they spend.
pub(crate) fn chain_coins(ledger: &Ledger, wallet: WalletId) -> BTreeSet<String> {
    let mut confirmed = BTreeSet::new();
    let scope = HistoryScope::Heights(Height::GENESIS, Height::new(u32::MAX));
    let mut query = HistoryQuery { scope, ..HistoryQuery::default() };
    loop {
        let page = ledger.history(wallet, &query).unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.cursor);
        confirmed.extend(page.iter().map(|tx| tx.txid));
    }
    let (mut found, mut after) = (BTreeSet::new(), 0);
    loop {
        let page = ledger.outputs_to_watch(wallet, after, 1_000).unwrap();
        let Some(last) = page.last() else { return found };
        after = last.id;
        let page = page.iter().filter(|output| confirmed.contains(output.outpoint.txid()));
        found.extend(page.map(|output| format!("{} {}", output.outpoint, output.amount)));
    }
}

/// Waits until a ledger has this tip.
pub(crate) fn wait_for_tip(ledger: &Ledger, network: Network, tip: (u32, BlockHash)) {
    let tip = Some((Height::new(tip.0), tip.1));
    until(&format!("the ledger is at {tip:?}"), || ledger.tip(network).unwrap() == tip);
}
