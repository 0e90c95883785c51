//! How soon a block that a real Bitcoin Core is given is seen: by the operation that REST answers, in
//! the wallet ledger, and by a client of the change stream.
//!
//! The clock starts before `submitblock` is sent, so that the node's own check of the block is part
//! of every figure. The bound beside them is the block applied to another index by a plain call.

use std::{
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use utxokeep::{
    config::{BitcoindSource, Config, Source},
    engine::Engine,
    ops::chain::{Address, OwnerUtxos, UtxosRequest},
    stream::{Item, Sent, StreamFace, StreamRequest, Streams},
};
use utxokeep_chains::{BlockDecoder, bitcoind::Credentials};
use utxokeep_core::{BlockHash, Network, OutPoint, Txid, hex_decode, hex_encode};
use utxokeep_index::{ChainIndex, ChainWriter, IndexSettings, tables::TABLES};
use utxokeep_kv::{Durability, OpenMode, RocksKv, RocksOptions};
use utxokeep_testkit::{ANYONE, HandTx, bitcoind::Bitcoind};
use utxokeep_wallet::{Micros, NewAddress};

use crate::output;

const NETWORK: Network = Network::BitcoinRegtest;
/// Blocks that are measured for each setting.
const BLOCKS: u64 = 100;
/// Outputs of the transaction of each block, all of them the wallet's.
const OUTPUTS: u64 = 50;
/// Blocks before a coinbase can be spent.
const MATURITY: u64 = 100;
/// What a coinbase of the first blocks pays.
const REWARD: u64 = 5_000_000_000;
const NOW: Micros = Micros::new(1_700_000_000_000_000);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// Longer than any block takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Submits blocks one by one and waits for each to be everywhere.
pub(crate) fn measure(dir: &Path) -> anyhow::Result<()> {
    output::heading(&format!(
        "from submitblock to what is seen: {BLOCKS} blocks of {OUTPUTS} outputs, Bitcoin Core on \
         this machine, SQLite"
    ));
    for (name, fsync) in [("off", false), ("on", true)] {
        let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else {
            output::line("not measured: 'make bitcoind' builds the node");
            return Ok(());
        };
        let place = dir.join(format!("live-{name}"));
        std::fs::create_dir_all(&place)?;
        let seen = run(&node, &place, fsync)?;
        for (what, times) in [
            ("the node has taken it", seen.submitted),
            ("rows over REST", seen.rows),
            ("the wallet", seen.wallet),
            ("a stream client", seen.stream),
            ("bound: apply alone", seen.apply),
        ] {
            output::line(&format!("fsync {name}: {what}: {}", output::percentiles(times)));
        }
    }
    Ok(())
}

/// Times of each block, from before it was submitted.
#[derive(Default)]
struct Seen {
    submitted: Vec<Duration>,
    rows: Vec<Duration>,
    wallet: Vec<Duration>,
    stream: Vec<Duration>,
    /// How long applying alone took.
    apply: Vec<Duration>,
}

fn run(node: &Bitcoind, dir: &Path, fsync: bool) -> anyhow::Result<Seen> {
    node.generate(usize::try_from(MATURITY + 1)?);
    let config = config(node, dir, fsync)?;
    let mut engine = Engine::open(&config)?;
    let (Some(wallets), Some(index)) = (engine.wallets(), engine.index()) else {
        anyhow::bail!("the engine lacks a part");
    };
    let (ledger, index) = (wallets.ledger().clone(), index.clone());
    let wallet = ledger.create_wallet("measured", NETWORK, NOW)?.id;
    let address = NewAddress { script: ANYONE.to_vec(), address: None, spend_weight: None };
    ledger.add_addresses(wallet, &[address], NOW)?;
    engine.start()?;

    let runtime = tokio::runtime::Runtime::new()?;
    let streams = Streams::new(index.clone(), &config.stream);
    let start = BlockHash::from_reversed_hex(&node.best_hash())?;
    wait_for(|| Ok(ledger.tip(NETWORK)?.map(|(_, hash)| hash) == Some(start)))?;
    let mut subscription = runtime.block_on(streams.open(StreamRequest::default(), Hashes))?;
    let (sender, arrived) = mpsc::channel();
    runtime.spawn(async move {
        while let Some(Sent::Message(hash)) = subscription.next().await {
            if sender.send((hash, Instant::now())).is_err() {
                break;
            }
        }
    });

    let mut alone = Alone::new(&dir.join("alone"), fsync)?;
    for height in 1..=node.height() {
        alone.apply(&raw_block(node, height)?)?;
    }
    let mut seen = Seen::default();
    for at in 1..=BLOCKS {
        let (hash, block) = node.make_block(&[spend(&node.coinbase_at(at))?]);
        let hash = BlockHash::from_reversed_hex(&hash)?;
        let submitted = Instant::now();
        node.submit(&block);
        seen.submitted.push(submitted.elapsed());
        let (rows, wallet) = thread::scope(|scope| {
            let rows = scope.spawn(|| {
                wait_for(|| Ok(index.view()?.tip().map(|(_, entry)| entry.hash) == Some(hash)))?;
                let page = engine.ask::<OwnerUtxos<Address>>(UtxosRequest::of(&anyone()))?;
                anyhow::ensure!(!page.items.is_empty(), "the rows are missing");
                Ok(submitted.elapsed())
            });
            let wallet = scope.spawn(|| {
                wait_for(|| Ok(ledger.tip(NETWORK)?.map(|(_, hash)| hash) == Some(hash)))?;
                Ok(submitted.elapsed())
            });
            let broken = |_| Err(anyhow::anyhow!("a thread that looks broke down"));
            (rows.join().unwrap_or_else(broken), wallet.join().unwrap_or_else(broken))
        });
        seen.rows.push(rows?);
        seen.wallet.push(wallet?);
        loop {
            let (told, when) = arrived.recv_timeout(PATIENCE)?;
            if told == hash {
                seen.stream.push(when.duration_since(submitted));
                break;
            }
        }
        let block = hex_decode(&block).ok_or_else(|| anyhow::anyhow!("not hexadecimal"))?;
        seen.apply.push(alone.apply(&block)?);
    }
    streams.stop();
    engine.stop()?;
    Ok(seen)
}

fn config(node: &Bitcoind, dir: &Path, fsync: bool) -> anyhow::Result<Config> {
    let mut config = Config::default();
    NETWORK.name().clone_into(&mut config.chain.network);
    config.chain.source = Some(Source::Bitcoind(BitcoindSource {
        url: node.url().parse()?,
        credentials: Credentials::CookieFile(node.cookie_file()),
        blocks_dir: None,
    }));
    config.storage.data = dir.join("data");
    config.storage.fsync = fsync;
    config.wallet.url = format!("sqlite:{}", dir.join("ledger.db").display());
    config.wallet.fsync = fsync;
    Ok(config)
}

/// An index that nobody but the measurement talks to.
struct Alone {
    decoder: BlockDecoder,
    writer: ChainWriter<RocksKv>,
}

impl Alone {
    fn new(dir: &Path, fsync: bool) -> anyhow::Result<Self> {
        let durability = if fsync { Durability::Synced } else { Durability::Buffered };
        let kv = RocksKv::open(dir, TABLES, RocksOptions::within(64 << 20), OpenMode::Create)?;
        let settings =
            IndexSettings::new(NETWORK).with(|settings| settings.durability = durability);
        let writer = ChainWriter::new(ChainIndex::open(kv, settings)?)?;
        let mut alone = Self { decoder: BlockDecoder::new(NETWORK), writer };
        alone.apply(&utxokeep_chains::genesis_block(NETWORK))?;
        Ok(alone)
    }

    fn apply(&mut self, raw: &[u8]) -> anyhow::Result<Duration> {
        let block = self.decoder.decode(raw.to_vec())?;
        let started = Instant::now();
        self.writer.apply(&block)?;
        Ok(started.elapsed())
    }
}

/// Tells of blocks that joined the chain by their hashes.
struct Hashes;

impl StreamFace for Hashes {
    type Message = BlockHash;
    const NAME: &'static str = "measured";

    fn message(&self, item: Item<'_>, _: Network) -> Option<(BlockHash, usize)> {
        match item {
            Item::Changes(changes) => Some((changes.block.entry.hash, 32)),
            Item::Checkpoint(_) | Item::Heartbeat(_) => None,
        }
    }
}

/// Spends a coinbase to outputs that anyone can spend.
fn spend(coinbase: &str) -> anyhow::Result<String> {
    let txid = Txid::from_reversed_hex(coinbase)?;
    let outputs = (0..OUTPUTS).map(|_| (REWARD / OUTPUTS, ANYONE.to_vec())).collect();
    let tx = HandTx { inputs: vec![OutPoint::new(txid, 0)], outputs };
    Ok(hex_encode(&tx.raw()))
}

/// The script of the outputs, which has no address.
fn anyone() -> String {
    hex_encode(ANYONE)
}

fn raw_block(node: &Bitcoind, height: u64) -> anyhow::Result<Vec<u8>> {
    let raw = node.block_at(height);
    hex_decode(&raw).ok_or_else(|| anyhow::anyhow!("not hexadecimal"))
}

fn wait_for(mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let started = Instant::now();
    while !holds()? {
        anyhow::ensure!(started.elapsed() < PATIENCE, "a block was never seen");
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
