//! Blocks of a real Bitcoin Core, in files as it writes them.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use utxokeep_chains::{
    BlockFileWriter, BlockFiles, BlockList, BlockSource, decode_block, tx_places,
};
use utxokeep_core::{BlockHash, Height};
use utxokeep_testkit::{RegtestA, postgres::TestDatabase};
use utxokeep_wallet::{
    BlockBody, BlockRef, ChainError, FollowOptions, FollowedChain, Ledger, LinkedBlock,
    NewDescriptor, WalletId,
};

use crate::wallet_follow::program::{LedgerHome, NOW, chain_coins, coins, wait_for_tip};

pub(crate) const NETWORK: utxokeep_core::Network = RegtestA::NETWORK;
pub(crate) const LAST: u32 = 300;
const HEIGHT: &str = "utxokeep_wallet_follow_height";
const LAG: &str = "utxokeep_wallet_follow_lag_blocks";

#[derive(Deserialize)]
struct Described {
    desc: String,
    internal: bool,
}

#[derive(Deserialize)]
struct ListDescriptors {
    descriptors: Vec<Described>,
}

#[derive(Deserialize)]
struct Hd {
    listdescriptors: ListDescriptors,
}

#[derive(Deserialize)]
struct WalletFinal {
    hd: Hd,
}

/// A wallet with the descriptors of the node's own.
pub(crate) fn wallet(ledger: &Ledger, name: &str) -> WalletId {
    // A ledger that starts late has not seen the payments that move the window on.
    wallet_with(ledger, name, 300)
}

/// The same, with so many scripts watched ahead.
pub(crate) fn wallet_with(ledger: &Ledger, name: &str, lookahead: u32) -> WalletId {
    let wallet = ledger.create_wallet(name, NETWORK, NOW).unwrap().id;
    let WalletFinal { hd } = RegtestA::default().json("wallet_final.json.xz");
    for Described { desc, internal } in hd.listdescriptors.descriptors {
        let keychain = Some(u32::from(internal));
        let lookahead = Some(lookahead);
        let new = NewDescriptor { keychain, lookahead, ..NewDescriptor::new(desc) };
        ledger.add_descriptor(wallet, &new, NOW).unwrap();
    }
    wallet
}

/// The final chain up to a height, straight from the files.
pub(crate) struct Direct {
    pub(crate) files: BlockFiles,
    pub(crate) hashes: Vec<BlockHash>,
}

impl FollowedChain for Direct {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        let last = u32::try_from(self.hashes.len() - 1)?;
        Ok(self.hashes.last().map(|hash| (Height::new(last), *hash)))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.hashes.get(height.get() as usize).copied())
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        let raw = self.files.raw(hash)?;
        let tx_places = tx_places(&raw)?;
        Ok(Some(BlockBody { block: Arc::new(decode_block(raw, NETWORK)?), tx_places }))
    }
}

/// What a ledger that saw nothing else has at a height.
pub(crate) fn expected(height: u32) -> BTreeSet<String> {
    expected_by(height, coins)
}

fn expected_by(height: u32, coins: fn(&Ledger, WalletId) -> BTreeSet<String>) -> BTreeSet<String> {
    let place = LedgerHome::sqlite();
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "plain");
    let mut hashes = RegtestA::default().active_chain();
    hashes.truncate(height as usize + 1);
    let chain = Direct { files: RegtestA::default().block_files(), hashes };
    ledger.follow(&chain, &FollowOptions::new(NETWORK), NOW).unwrap();
    let found = coins(&ledger, wallet);
    assert!(found.len() > 100);
    found
}

pub(crate) fn hash_at(height: u32) -> BlockHash {
    RegtestA::default().active_chain()[height as usize]
}

/// Writes blocks as a node does, in order of arrival; answers how many there are.
pub(crate) fn write_blocks(dir: &Path, name: &str, wanted: impl Fn(&BlockHash) -> bool) -> usize {
    let files = RegtestA::default().block_files();
    fs::create_dir_all(dir).unwrap();
    let mut file = BlockFileWriter::create(&dir.join(name), NETWORK, None).unwrap();
    let hashes = files.headers().iter().map(|header| header.hash).filter(|hash| wanted(hash));
    let written = hashes.map(|hash| file.push(&files.raw(&hash).unwrap()).unwrap()).count();
    file.finish().unwrap();
    written
}

pub(crate) fn import(place: &LedgerHome) {
    import_from(place, &RegtestA::default().path("blocks.dat.xz"));
}

pub(crate) fn import_from(place: &LedgerHome, blocks: &Path) {
    let network = ["--chain", "bitcoin", "--network", "regtest"];
    let blocks = blocks.to_str().unwrap();
    place.run(&[["chain", "import"].as_slice(), &network, &[blocks]].concat());
}

/// The ledger goes where the database goes: to its tip, and back when its branch is another.
fn serve_keeps_the_ledger_at_the_tip(place: &LedgerHome) {
    let blocks = place.path("blocks");
    write_blocks(&blocks, "blk00000.dat", |_| true);
    place.configure(Some(&blocks), "");
    import(place);
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "hd");
    let serving = place.serve();
    assert!(serving.log().contains("the wallet ledger follows"), "{}", serving.log());
    wait_for_tip(&ledger, NETWORK, (LAST, hash_at(LAST)));
    serving.wait_for_metric(HEIGHT, |height| height >= f64::from(LAST));
    serving.wait_for_metric(LAG, |lag| lag < 0.5);
    assert_eq!(serving.metric("utxokeep_wallet_follow_blocks_applied_total"), Some(301.0));
    let began = Instant::now();
    serving.stop();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "it hangs: {took:?}");
    assert_eq!(coins(&ledger, wallet), expected(LAST));

    // A database that merely ends lower is waited for: another follower may be ahead of it.
    place.run(&["chain", "rollback", "230"]);
    let serving = place.serve();
    let lacks = "utxokeep_wallet_follow_chain_lacks_blocks";
    serving.wait_for_metric(lacks, |blocks| blocks > 69.5);
    // For a minute that is nothing to tell.
    assert!(serving.get("/health").contains("{\"status\":\"ok\""));
    serving.stop();
    let report = place.json(&["wallet", "follow", "--until-tip"]);
    assert_eq!((&report["chain_lacks"], &report["undone"]), (&70.into(), &0.into()));
    assert_eq!(ledger.tip(NETWORK).unwrap(), Some((Height::new(LAST), hash_at(LAST))));
    let refused = place.command(&["wallet", "scan", "hd", "--from", "0"]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("ends at block 230, below block 300"), "{text}");
    assert_eq!(refused.status.code(), Some(4));

    // One that has another block in place of one of the ledger is followed back.
    ledger.rollback_to(NETWORK, (Height::new(230), hash_at(230)), NOW).unwrap();
    assert_eq!(chain_coins(&ledger, wallet), expected_by(230, chain_coins));
    let hash = BlockHash::from_bytes([0x5a; 32]);
    let block = BlockRef { height: Height::new(231), hash, time: NOW };
    let linked = LinkedBlock { block, parent: Some(hash_at(230)) };
    ledger.apply_block(NETWORK, &linked, &[], NOW).unwrap();
    import(place);
    let serving = place.serve();
    wait_for_tip(&ledger, NETWORK, (LAST, hash_at(LAST)));
    serving.wait_for_metric("utxokeep_wallet_follow_blocks_undone_total", |blocks| blocks > 0.5);
    serving.stop();
    assert_eq!(coins(&ledger, wallet), expected(LAST));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

#[test]
fn serve_keeps_a_ledger_on_sqlite_at_the_tip() {
    serve_keeps_the_ledger_at_the_tip(&LedgerHome::sqlite());
}

#[test]
fn serve_keeps_a_ledger_on_postgres_at_the_tip() {
    if let Some(database) = TestDatabase::create_or_skip() {
        serve_keeps_the_ledger_at_the_tip(&LedgerHome::with_ledger(database.url()));
    }
}

#[test]
fn a_program_that_is_killed_while_it_follows_goes_on_exactly() {
    let place = LedgerHome::sqlite();
    let blocks = RegtestA::default().path("blocks.dat.xz");
    place.configure(Some(&blocks), "");
    import(&place);
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "hd");
    let mut stops = BTreeSet::new();
    for round in 0..60 {
        let serving = place.serve();
        let before = ledger.tip(NETWORK).unwrap();
        // At different moments of a block, some blocks later.
        while before.is_some() && ledger.tip(NETWORK).unwrap() == before {}
        thread::sleep(Duration::from_millis(10 + round * 7 % 60));
        serving.kill();
        let tip = ledger.tip(NETWORK).unwrap().map(|(height, _)| height.get());
        stops.insert(tip);
        if tip == Some(LAST) {
            break;
        }
    }
    assert!(stops.len() > 3, "killed at {stops:?}");
    let serving = place.serve();
    wait_for_tip(&ledger, NETWORK, (LAST, hash_at(LAST)));
    serving.stop();
    assert_eq!(coins(&ledger, wallet), expected(LAST));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

#[test]
fn a_missing_body_is_named_and_following_goes_on_once_it_is_there() {
    let place = LedgerHome::sqlite();
    let blocks = place.path("blocks");
    let first: BTreeSet<BlockHash> = (0..=100).map(hash_at).collect();
    assert_eq!(write_blocks(&blocks, "blk00000.dat", |hash| first.contains(hash)), 101);
    place.configure(Some(&blocks), "follow_stalled_secs = 0\n");
    import(&place);
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "hd");
    let serving = place.serve();
    let missing = "utxokeep_wallet_follow_failures_total{reason=\"missing_body\"}";
    serving.wait_for_metric(missing, |count| count >= 2.0);
    assert_eq!(ledger.tip(NETWORK).unwrap(), Some((Height::new(100), hash_at(100))));
    let log = serving.log();
    for part in ["body of block 101", "[wallet] blocks", "--blocks", blocks.to_str().unwrap()] {
        assert!(log.contains(part), "{part}: {log}");
    }
    serving.wait_for_health("degraded");
    let health = serving.get("/health");
    assert!(health.contains(" 200 OK"), "the server goes on: {health}");
    assert!(health.contains("wallet_follower") && health.contains("body of block 101"), "{health}");
    assert_eq!(serving.metric(LAG), Some(200.0));

    write_blocks(&blocks, "blk00001.dat", |hash| !first.contains(hash));
    wait_for_tip(&ledger, NETWORK, (LAST, hash_at(LAST)));
    assert!(serving.log().contains("resumes"), "{}", serving.log());
    serving.wait_for_health("ok");
    serving.stop();
    assert_eq!(coins(&ledger, wallet), expected(LAST));
}

#[test]
fn without_a_chain_database_or_without_being_asked_nothing_is_followed() {
    let place = LedgerHome::sqlite();
    place.configure(None, "");
    let serving = place.serve();
    assert!(serving.get("/health").contains(" 200 OK"));
    assert!(!serving.log().contains("follows"), "{}", serving.log());
    serving.stop();

    import(&place);
    place.configure(None, "follow_chain = false\n");
    let serving = place.serve();
    assert!(serving.get("/health").contains(" 200 OK"));
    assert!(!serving.log().contains("follows"), "{}", serving.log());
    serving.stop();
    assert_eq!(place.ledger().tip(NETWORK).unwrap(), None);
}

#[test]
fn the_command_follows_to_the_tip_and_scans_for_a_wallet_that_came_later() {
    let place = LedgerHome::sqlite();
    let blocks = RegtestA::default().path("blocks.dat.xz");
    let blocks = blocks.to_str().unwrap();
    place.configure(None, "");
    import(&place);
    let refused = place.command(&["wallet", "follow", "--until-tip"]).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("body of block 0"), "{text}");
    assert!(text.contains("--blocks"), "{text}");

    let follow = ["wallet", "follow", "--until-tip", "--blocks", blocks];
    let report = place.json(&follow);
    assert_eq!(report["network"], "bitcoin/regtest");
    assert_eq!((&report["height"], &report["chain_height"]), (&LAST.into(), &LAST.into()));
    assert_eq!((&report["applied"], &report["undone"]), (&301.into(), &0.into()));
    assert_eq!(report["best_hash"], hash_at(LAST).to_reversed_hex());
    place.run(&["chain", "rollback", "280"]);
    let report = place.json(&follow);
    assert_eq!((&report["chain_lacks"], &report["undone"]), (&20.into(), &0.into()));
    // The ledger goes back to the block right below, whatever that holds.
    let back = place.json(&["wallet", "disconnect", "281", "--network", "regtest"]);
    assert_eq!(back["tip"]["height"], 280);

    let ledger = place.ledger();
    let wallet = wallet(&ledger, "late");
    let scan = ["wallet", "scan", "late", "--blocks", blocks];
    let report = place.json(&[scan.as_slice(), &["--from", "200"]].concat());
    assert_eq!((&report["from"], &report["blocks"]), (&200.into(), &81.into()));
    let report = place.json(&scan);
    assert_eq!((&report["blocks"], &report["next"]), (&281.into(), &serde_json::Value::Null));
    assert_eq!(coins(&ledger, wallet), expected(280));
    assert_eq!(ledger.verify(wallet).unwrap(), []);

    // Without a start it is the birthday, which must be a block of the ledger.
    place.run(&["wallet", "create", "born", "--network", "regtest", "--birthday-height", "250"]);
    let scan = ["wallet", "scan", "born", "--blocks", blocks];
    let report = place.json(&scan);
    assert_eq!((&report["from"], &report["blocks"]), (&250.into(), &31.into()));
    let unborn = ["wallet", "create", "unborn", "--network", "regtest", "--birthday-height", "281"];
    for words in [unborn.as_slice(), &[scan.as_slice(), &["--from", "281"]].concat()] {
        let refused = place.command(words).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{words:?}");
    }
    let human = place.run(&follow);
    assert!(String::from_utf8_lossy(&human.stdout).contains("chain height"), "{human:?}");
}

/// Without `--until-tip` the command waits for more, until it is told to stop.
#[test]
fn the_command_goes_on_until_it_is_stopped() {
    let place = LedgerHome::sqlite();
    let blocks = RegtestA::default().path("blocks.dat.xz");
    place.configure(Some(&blocks), "");
    import(&place);
    let ledger = place.ledger();
    let mut running = place.command(&["wallet", "follow", "--json"]);
    let mut running = running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_tip(&ledger, NETWORK, (LAST, hash_at(LAST)));
    thread::sleep(Duration::from_millis(100));
    assert!(running.try_wait().unwrap().is_none(), "it waits for more");
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["applied"], &report["interrupted"]), (&301.into(), &true.into()));
}
