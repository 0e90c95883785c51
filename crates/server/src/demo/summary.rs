//! What a person sees: a few lines drawn again and again on a terminal, one line now and then
//! elsewhere. All of it goes to stderr.

use std::{
    collections::VecDeque,
    io::{IsTerminal, stderr},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use utxokeep_chains::{Simulator, SimulatorConfig, script_to_address};
use utxokeep_index::ChainIndex;
use utxokeep_kv::RocksKv;

use super::miner::Progress;

/// Time over which the speed is measured.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
/// Base units in a whole coin.
const UNITS_PER_COIN: u64 = 100_000_000;

/// Draws the state of the demo.
#[derive(Debug)]
pub(super) struct Summary {
    data: PathBuf,
    address: Option<SocketAddr>,
    /// An address that many outputs pay to, to try the API with.
    example: Option<String>,
    lines: Option<Vec<ProgressBar>>,
    /// When how many blocks had been mined.
    samples: VecDeque<(Instant, u64)>,
}

impl Summary {
    pub(super) fn new(data: PathBuf, seed: u64, address: Option<SocketAddr>) -> Self {
        let config = SimulatorConfig { seed, ..SimulatorConfig::default() };
        let example = Simulator::scripts(&config)
            .iter()
            .find_map(|script| script_to_address(script, Simulator::NETWORK));
        Self { data, address, example, lines: None, samples: VecDeque::new() }
    }

    /// Says what starts, and which file has the token that clients need.
    pub(super) fn open(&mut self, token_file: Option<&Path>) {
        let data = self.data.display();
        eprintln!("utxokeep demo: a simulated {} chain in {data}", Simulator::NETWORK);
        if let Some(address) = self.address {
            eprintln!("REST API at http://{address}, to be browsed at http://{address}/docs");
            if let Some(example) = &self.example {
                eprintln!(
                    "try: curl 'http://{address}/api/v1/addresses/{example}/utxos?page_size=2'"
                );
            }
        }
        if let Some(file) = token_file {
            eprintln!("clients need the access token in {}", file.display());
        }
        eprintln!("Ctrl-C stops it; started again, it goes on where it was.");
        self.samples.push_back((Instant::now(), 0));
        self.lines = stderr().is_terminal().then(Vec::new);
    }

    /// Time before the first call of [`Summary::show`]: a plain line should have news.
    pub(super) fn delay(&self) -> Duration {
        Duration::from_millis(if self.lines.is_some() { 0 } else { 2_000 })
    }

    /// Time between two calls of [`Summary::show`].
    pub(super) fn period(&self) -> Duration {
        Duration::from_millis(if self.lines.is_some() { 250 } else { 5_000 })
    }

    /// Shows how the chain stands.
    pub(super) fn show(&mut self, now: &Progress, index: &ChainIndex<RocksKv>) {
        let speed = self.speed(now.mined);
        let Some(lines) = &mut self.lines else {
            eprintln!(
                "height {}, {} outputs, {speed:.1} blocks/s, {} reorganisations (deepest {})",
                now.height, now.totals.txouts, now.reorganisations, now.deepest,
            );
            return;
        };
        let texts = texts(now, speed, index);
        if lines.is_empty() {
            *lines = new_lines(texts.len());
        }
        for (line, text) in lines.iter().zip(texts) {
            line.set_message(text);
        }
    }

    /// Leaves the last state on the terminal.
    pub(super) fn close(&mut self) {
        for line in self.lines.take().unwrap_or_default() {
            line.abandon();
        }
    }

    fn speed(&mut self, mined: u64) -> f64 {
        let now = Instant::now();
        self.samples.push_back((now, mined));
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|(at, _)| now - *at > SPEED_WINDOW)
        {
            self.samples.pop_front();
        }
        let Some((since, before)) = self.samples.front().copied() else { return 0.0 };
        let seconds = (now - since).as_secs_f64();
        let blocks = u32::try_from(mined - before).unwrap_or(u32::MAX);
        if seconds > 0.0 { f64::from(blocks) / seconds } else { 0.0 }
    }
}

fn new_lines(count: usize) -> Vec<ProgressBar> {
    let style =
        ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    let group = MultiProgress::new();
    let line = || group.add(ProgressBar::no_length().with_style(style.clone()));
    (0..count).map(|_| line()).collect()
}

fn texts(now: &Progress, speed: f64, index: &ChainIndex<RocksKv>) -> Vec<String> {
    let size = index.status().map_or_else(
        |error| error.to_string(),
        |status| {
            let bytes: u64 = status.tables.iter().map(|table| table.disk_bytes).sum();
            indicatif::HumanBytes(bytes).to_string()
        },
    );
    let row = |name: &str, text: String| format!("  {name:<16} {text}");
    let apply_ms = now.last_apply.as_secs_f64() * 1_000.0;
    vec![
        row("height", indicatif::HumanCount(now.height.get().into()).to_string()),
        row("tip", now.hash.to_reversed_hex()),
        row("speed", format!("{speed:.1} blocks/s, last block applied in {apply_ms:.1} ms")),
        row("unspent", indicatif::HumanCount(now.totals.txouts).to_string() + " outputs"),
        row("amount", coins(now.totals.total_amount)),
        row("reorganisations", format!("{}, deepest {}", now.reorganisations, now.deepest)),
        row("rollback floor", now.floor.to_string()),
        row("tables on disk", size),
    ]
}

/// An amount in whole coins, exact.
fn coins(amount: u64) -> String {
    format!("{}.{:08} BTC", amount / UNITS_PER_COIN, amount % UNITS_PER_COIN)
}

/// The last line.
pub(super) fn farewell(first: &Progress, last: &Progress) {
    eprintln!(
        "stopped at height {} after {} blocks and {} reorganisations (started at {}); the chain is \
         safe on disk",
        last.height, last.mined, last.reorganisations, first.height
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_every_digit() {
        assert_eq!(coins(5_000_000_001), "50.00000001 BTC");
        assert_eq!(coins(7), "0.00000007 BTC");
    }
}
