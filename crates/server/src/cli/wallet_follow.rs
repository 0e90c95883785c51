//! `wallet follow` and `wallet scan`.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use utxokeep::engine::{Engine, Parts, Presence};
use utxokeep_chains::XorKey;
use utxokeep_core::{Height, Network};
use utxokeep_kv::RocksKv;
use utxokeep_wallet::{Ledger, LedgerError};

use super::{
    args::parse_xor_key,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::Session,
    output::{self, Human, Lines},
    progress::Progress,
};
use crate::{follow::pause, wallet_follow::WalletFollower, wallets::Wallets};

/// Where bodies of blocks are.
#[derive(Debug, Args)]
pub(super) struct BlockPlaces {
    /// Bitcoin: key of obfuscated files, 16 hexadecimal digits; by default that of `xor.dat` beside them.
    #[arg(long, value_name = "HEX", value_parser = parse_xor_key)]
    xor_key: Option<XorKey>,
    /// Directory with the node's block files or its immutable database, or a file of blocks; by
    /// default that of the configuration. Repeat it for more.
    #[arg(long, value_name = "DIR")]
    blocks: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct WalletFollow {
    #[command(flatten)]
    places: BlockPlaces,
    /// Stop as soon as the ledger is where the database is.
    #[arg(long)]
    until_tip: bool,
}

#[derive(Debug, Args)]
pub(super) struct WalletScan {
    /// Name of the wallet.
    name: String,
    /// First block to look at. By default where an earlier scan was stopped, the block since which a
    /// wallet that is set aside has not all, its birthday, or the first block of the ledger.
    #[arg(long, value_name = "HEIGHT")]
    from: Option<Height>,
    #[command(flatten)]
    places: BlockPlaces,
}

#[derive(Debug, Serialize)]
struct Followed {
    network: String,
    height: Option<u32>,
    best_hash: Option<String>,
    chain_height: Option<u32>,
    /// Blocks of the ledger that the chain database has not.
    chain_lacks: u64,
    /// The chain database is on another branch, which is not better; the ledger kept its own.
    worse_branch: Option<WorseBranchInfo>,
    applied: u64,
    undone: u64,
    transactions: u64,
    /// Wallets that could not take a block and want a rescan, these and earlier ones.
    set_aside: Vec<SetAsideWallet>,
    interrupted: bool,
    seconds: f64,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are those of the JSON")]
struct WorseBranchInfo {
    /// The last block that both have.
    shared_height: Option<u32>,
    ledger_height: u32,
    chain_height: u32,
}

#[derive(Debug, Serialize)]
struct SetAsideWallet {
    wallet: String,
    height: u32,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Rescanned {
    wallet: String,
    network: String,
    from: u32,
    blocks: u64,
    transactions: u64,
    /// Where to go on after an interruption.
    next: Option<u32>,
    seconds: f64,
}

/// Brings the ledger to the tip of the database, and keeps it there until Ctrl-C.
pub(super) fn follow(session: &Session, args: &WalletFollow) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interrupt = Interrupt::watch()?;
    let (_engine, mut follower) = follower(session, &args.places)?;
    let ledger = follower.ledger().clone();
    let poll = Duration::from_millis(session.config().wallet.follow_poll_ms.get().into());
    let mut progress = Progress::start("following", false);
    let (mut chain_height, mut chain_lacks, mut worse_branch) = (None, 0, None);
    let is_stopped = || interrupt.is_asked();
    let ended = loop {
        let step = match follower.step(&is_stopped) {
            Ok(step) => step,
            Err(_) if is_stopped() => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(reason) = &step.rescan_held_up
            && args.until_tip
        {
            output::note(format_args!("a rescan does not get on: {reason}"));
        }
        (chain_height, chain_lacks) = (step.chain, step.chain_lacks);
        if step.worse_branch.is_some() && worse_branch.is_none() {
            output::note(format_args!("{}", step.hindrance().unwrap_or_default()));
        }
        worse_branch = step.worse_branch;
        let (done, total) = (count(step.ledger), count(step.chain));
        progress.update(done, total, || "blocks".to_owned());
        if is_stopped() || (step.is_done && args.until_tip) {
            break Ok(());
        }
        if step.is_done {
            pause(poll, &is_stopped);
        }
    };
    progress.finish();
    ended?;
    let network = follower.network();
    let tip = ledger.tip(network)?;
    let total = follower.total();
    let report = Followed {
        network: network.to_string(),
        height: tip.map(|(height, _)| height.get()),
        best_hash: tip.map(|(_, hash)| network.hash_text(hash.as_bytes())),
        chain_height: chain_height.map(Height::get),
        chain_lacks,
        worse_branch: worse_branch.map(|branch| WorseBranchInfo {
            shared_height: branch.shared.map(Height::get),
            ledger_height: branch.ledger.get(),
            chain_height: branch.chain.get(),
        }),
        applied: total.applied,
        undone: total.undone,
        transactions: total.recorded,
        set_aside: set_aside(&ledger, network)?,
        interrupted: is_stopped(),
        seconds: started.elapsed().as_secs_f64(),
    };
    output::result(session.json(), &report)?;
    Ok(match report.worse_branch {
        _ if report.interrupted => Exit::Interrupted,
        Some(_) => Exit::Refused,
        None => Exit::Success,
    })
}

/// Looks at blocks again that the ledger has passed, for one wallet.
pub(super) fn scan(session: &Session, args: &WalletScan) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let interrupt = Interrupt::watch()?;
    let config = &session.config().wallet;
    // A wrong name is told before the chain is looked for.
    let wallet = {
        let wallets = Wallets::open(&config.url, config, session.mode())?;
        wallets.ledger().wallet_named(&args.name)?
    };
    let (engine, mut follower) = follower(session, &args.places)?;
    let wallets = engine.wallets().ok_or(CliError::NoLedger)?;
    let from = wallets.rescan_start(&wallet, args.from)?;
    let mut progress = Progress::start("scanning", false);
    let mut on_block = |height: Height, end: Height| {
        let place = |height: Height| u64::from(height.get().saturating_sub(from.get())) + 1;
        progress.update(place(height), place(end), || format!("blocks, height {height}"));
    };
    let scanned = follower.scan(wallet.id, from, &|| interrupt.is_asked(), &mut on_block);
    progress.finish();
    let scanned = scanned?;
    let report = Rescanned {
        wallet: wallet.name,
        network: follower.network().to_string(),
        from: scanned.from.get(),
        blocks: scanned.blocks,
        transactions: scanned.transactions,
        next: scanned.next.map(Height::get),
        seconds: started.elapsed().as_secs_f64(),
    };
    output::result(session.json(), &report)?;
    let Some(next) = scanned.next else { return Ok(Exit::Success) };
    output::note(format_args!(
        "stopped at block {next}; what was found stays. The next scan goes on there, and so does \
         whoever follows the chain"
    ));
    Ok(Exit::Interrupted)
}

impl Human for Followed {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("network", &self.network)
            .optional("height", self.height)
            .optional("best hash", self.best_hash.as_ref())
            .optional("chain height", self.chain_height);
        if self.chain_lacks > 0 {
            let lacks = format!("{} blocks of the ledger, which waits", self.chain_lacks);
            lines.field("chain lacks", lacks);
        }
        if let Some(branch) = &self.worse_branch {
            let shared = branch.shared_height.map_or_else(|| "none".to_owned(), |h| h.to_string());
            lines.field("worse branch", format_args!("last shared block {shared}; nothing undone"));
        }
        lines
            .field("applied", self.applied)
            .field("undone", self.undone)
            .field("transactions", self.transactions);
        for aside in &self.set_aside {
            let SetAsideWallet { wallet, height, reason } = aside;
            lines.field("set aside", format_args!("{wallet} since block {height}: {reason}"));
        }
        lines.field("seconds", format_args!("{:.2}", self.seconds));
    }
}

impl Human for Rescanned {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("wallet", &self.wallet)
            .field("network", &self.network)
            .field("from", self.from)
            .field("blocks", self.blocks)
            .field("transactions", self.transactions);
        if let Some(next) = self.next {
            lines.field("go on from", next);
        }
        lines.field("seconds", format_args!("{:.2}", self.seconds));
    }
}

/// Wallets of a network that are set aside.
fn set_aside(ledger: &Ledger, network: Network) -> Result<Vec<SetAsideWallet>, LedgerError> {
    let mut found = Vec::new();
    ledger.each_lagging_wallet(|lagging| {
        let Some(aside) = lagging.standing.set_aside else { return Ok(()) };
        if ledger.wallet(lagging.wallet)?.network == network {
            let (wallet, height) = (lagging.name, aside.height.get());
            found.push(SetAsideWallet { wallet, height, reason: aside.reason });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Blocks up to a height.
fn count(height: Option<Height>) -> u64 {
    height.map_or(0, |height| u64::from(height.get()) + 1)
}

/// The chain and the ledger, and what brings one to the other.
fn follower(
    session: &Session,
    places: &BlockPlaces,
) -> anyhow::Result<(Engine, WalletFollower<RocksKv>)> {
    let parts = Parts::NONE.with(|parts| {
        (parts.chain, parts.wallets) = (Presence::Existing, true);
        parts.mode = session.mode();
    });
    let engine = Engine::open_parts(session.config(), parts)?;
    if let (Some(index), Some(_)) = (engine.index(), places.xor_key) {
        let network = index.settings().network();
        if network.is_cardano() {
            return Err(CliError::WrongFlag { flag: "--xor-key", network }.into());
        }
    }
    let follower = engine.wallet_follower(&places.blocks, places.xor_key)?;
    Ok((engine, follower))
}
