//! Wrong claims, several followers, and wallets that are set aside, with real processes.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use utxokeep_chains::{BlockSource as _, decode_block, decode_tx};
use utxokeep_core::{Height, OutPoint, Txid};
use utxokeep_sql::SqlError;
use utxokeep_testkit::{RegtestA, postgres::TestDatabase};
use utxokeep_wallet::{
    Amount, BlockRef, Credits, FollowOptions, HistoryQuery, HistoryScope, Ledger, NewOutput, NewTx,
    RecordOptions, Seen, Standing, TxDetail, TxState, WalletId, block_ref,
};

use crate::wallet_follow::{
    bitcoin::{Direct, LAST, NETWORK, expected, hash_at, import, wallet, write_blocks},
    program::{LedgerHome, NOW, coins},
};

/// Where the ledger starts, and where it stands when the claims are made.
const START: u32 = 200;
const MIDDLE: u32 = 230;

pub(crate) fn on_both(test: fn(&LedgerHome)) {
    test(&LedgerHome::sqlite());
    if let Some(database) = TestDatabase::create_or_skip() {
        test(&LedgerHome::with_ledger(database.url()));
    }
}

/// Everything that the node's wallet has in blocks.
fn real_history() -> Vec<TxDetail> {
    let place = LedgerHome::sqlite();
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "plain");
    let chain = Direct {
        files: RegtestA::default().block_files(),
        hashes: RegtestA::default().active_chain(),
    };
    ledger.follow(&chain, &FollowOptions::new(NETWORK), NOW).unwrap();
    let scope = HistoryScope::Heights(Height::GENESIS, Height::new(u32::MAX));
    let mut query = HistoryQuery { scope, ..HistoryQuery::default() };
    let mut all = Vec::new();
    loop {
        let page = ledger.history(wallet, &query).unwrap();
        let Some(last) = page.last() else { return all };
        query.after = Some(last.cursor);
        all.extend(page.iter().map(|tx| ledger.transaction(wallet, &tx.txid).unwrap()));
    }
}

fn height(tx: &TxDetail) -> u32 {
    tx.summary.state.block().unwrap().get()
}

/// Coins of the wallet that a transaction spends.
fn own_inputs(tx: &TxDetail) -> impl Iterator<Item = OutPoint> {
    tx.inputs.iter().filter(|input| input.amount.is_some()).map(|input| input.outpoint)
}

fn new_tx(tx: &TxDetail) -> NewTx {
    let raw = tx.raw.clone().unwrap();
    let decoded = decode_tx(&raw).unwrap();
    let output = |(amount, script)| NewOutput { amount: Amount::new(amount).unwrap(), script };
    NewTx {
        txid: decoded.txid,
        inputs: decoded.inputs,
        outputs: decoded.outputs.into_iter().map(output).collect(),
        coinbase: decoded.is_coinbase,
        raw: Some(raw),
        credits: Credits::Watched,
    }
}

fn block_at(height: u32) -> BlockRef {
    let raw = RegtestA::default().block_files().raw(&hash_at(height)).unwrap();
    block_ref(Height::new(height), &decode_block(raw, NETWORK).unwrap())
}

fn record(ledger: &Ledger, wallet: WalletId, tx: &NewTx, seen: Seen) {
    ledger.record(wallet, tx, seen, &RecordOptions::default(), NOW).unwrap();
}

fn follow_past_wrong_claims(place: &LedgerHome) {
    let blocks = place.path("blocks");
    write_blocks(&blocks, "blk00000.dat", |_| true);
    place.configure(Some(&blocks), &format!("follow_from_height = {START}\n"));
    import(place);
    place.run(&["chain", "rollback", &MIDDLE.to_string()]);
    let ledger = place.ledger();
    let (hd, observer) = (wallet(&ledger, "hd"), wallet(&ledger, "observer"));
    place.run(&["wallet", "follow", "--until-tip"]);

    let all = real_history();
    let real = |txid: &Txid| all.iter().find(|tx| tx.summary.txid == *txid);
    let parent_of = |input: &OutPoint, heights: std::ops::Range<u32>| {
        real(input.txid()).filter(|parent| heights.contains(&height(parent)))
    };
    // A typo: the hash is one of another height.
    let later = || all.iter().filter(|tx| height(tx) > MIDDLE && !tx.summary.coinbase);
    // What it spends comes before the block that is claimed, as far as the ledger knows.
    let can_be_at_210 = |tx: &&TxDetail| {
        let is_later = |input: &OutPoint| parent_of(input, 210..MIDDLE + 1).is_some();
        !tx.inputs.iter().any(|input| is_later(&input.outpoint))
    };
    let moved = later().find(can_be_at_210).unwrap();
    record(&ledger, hd, &new_tx(moved), Seen::Mempool);
    let txid = moved.summary.txid.to_reversed_hex();
    let known = block_at(210);
    let seconds = known.time.get() / 1_000_000;
    let wrong = format!("210:{}:{seconds}", hash_at(211).to_reversed_hex());
    let refused = place.command(&["wallet", "confirm", "hd", &txid, "--block", &wrong]).output();
    let refused = refused.unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{text}");
    assert!(text.contains("not the one the ledger has at height 210"), "{text}");
    // A block that exists, and does not hold it.
    let right = format!("210:{}:{seconds}", known.hash.to_reversed_hex());
    place.run(&["wallet", "confirm", "hd", &txid, "--block", &right]);
    assert_eq!(state(&ledger, hd, &moved.summary.txid), TxState::Confirmed(Height::new(210)));

    // A spend that never was, of a coin that the chain spends later.
    let known_coin =
        |tx: &&TxDetail| own_inputs(tx).find(|input| parent_of(input, START..MIDDLE).is_some());
    let others = |taken: &[&TxDetail]| {
        let taken: Vec<Txid> = taken.iter().map(|tx| tx.summary.txid).collect();
        later().filter(move |tx| !taken.contains(&tx.summary.txid))
    };
    let spender = others(&[moved]).find(|tx| known_coin(tx).is_some()).unwrap();
    let coin = known_coin(&spender).unwrap();
    let mut lie = new_tx(spender);
    lie.txid = Txid::from_bytes([0xab; 32]);
    lie.inputs = vec![coin];
    lie.raw = None;
    record(&ledger, hd, &lie, Seen::Block(block_at(MIDDLE), None));

    // A parent from before the start that was given up.
    let early_parent = |tx: &&TxDetail| {
        own_inputs(tx)
            .find_map(|input| parent_of(&input, 0..START).filter(|parent| !parent.summary.coinbase))
    };
    let child = others(&[moved, spender]).find(|tx| early_parent(tx).is_some()).unwrap();
    let parent = early_parent(&child).unwrap();
    record(&ledger, hd, &new_tx(parent), Seen::Mempool);
    ledger.abandon(hd, &parent.summary.txid, NOW).unwrap();

    import(place);
    let report = place.json(&["wallet", "follow", "--until-tip"]);
    assert_eq!(report["height"], LAST);
    for wallet in [hd, observer] {
        assert_eq!(ledger.verify(wallet).unwrap(), []);
        assert_eq!(ledger.standing(wallet).unwrap(), Standing::default());
    }
    assert_eq!(coins(&ledger, hd), coins(&ledger, observer));
    assert_eq!(state(&ledger, hd, &moved.summary.txid), moved.summary.state);
    assert_eq!(state(&ledger, hd, &lie.txid), TxState::Failed);
    assert_eq!(state(&ledger, hd, &parent.summary.txid), TxState::Unconfirmed);
    assert_eq!(state(&ledger, hd, &child.summary.txid), child.summary.state);
}

fn state(ledger: &Ledger, wallet: WalletId, txid: &Txid) -> TxState {
    ledger.transaction(wallet, txid).unwrap().summary.state
}

/// G1, G2, G3.
#[test]
fn wrong_claims_do_not_stop_the_real_follower() {
    on_both(follow_past_wrong_claims);
}

/// Each has a chain database of its own; the ledger is one.
fn two_followers_share_a_ledger(place: &LedgerHome) {
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "hd");
    let places = [LedgerHome::with_ledger(&place.url), LedgerHome::with_ledger(&place.url)];
    let blocks = RegtestA::default().path("blocks.dat.xz");
    for place in &places {
        place.configure(Some(&blocks), "");
        import(place);
    }
    let start = |place: &LedgerHome| {
        let mut follow: Command = place.command(&["wallet", "follow", "--until-tip", "--json"]);
        follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running = places.each_ref().map(start);
    let mut applied = 0;
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["height"], LAST);
        applied += report["applied"].as_u64().unwrap();
    }
    assert_eq!(applied, 301, "every block once");
    assert_eq!(coins(&ledger, wallet), expected(LAST));
    assert_eq!(ledger.verify(wallet).unwrap(), []);

    // The same beside a server, back from a rollback.
    ledger.rollback_from(NETWORK, Height::new(100), NOW).unwrap();
    let serving = places[0].serve();
    let beside = start(&places[1]).wait_with_output().unwrap();
    assert_eq!(beside.status.code(), Some(0), "{beside:?}");
    serving.stop();
    assert_eq!(coins(&ledger, wallet), expected(LAST));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

#[test]
fn two_followers_on_one_ledger_are_no_error() {
    on_both(two_followers_share_a_ledger);
}

/// Somebody recorded a payment from before the start as a coinbase, in a block that was taken back,
/// and changed its row so that it looks like one that a block held. So the wallet knows it as orphaned
/// when a block spends it, and only its real block can tell.
fn a_wallet_is_set_aside_and_rescanned(place: &LedgerHome) {
    let blocks = RegtestA::default().path("blocks.dat.xz");
    place.configure(Some(&blocks), &format!("follow_from_height = {START}\n"));
    import(place);
    place.run(&["chain", "rollback", &MIDDLE.to_string()]);
    let ledger = place.ledger();
    let (hd, late) = (wallet(&ledger, "hd"), wallet(&ledger, "late"));
    place.run(&["wallet", "follow", "--until-tip"]);
    let parent = spent_above_the_middle();
    let lie = NewTx { inputs: Vec::new(), coinbase: true, raw: None, ..new_tx(&parent) };
    record(&ledger, hd, &lie, Seen::Block(block_at(225), Some(0)));
    ledger.rollback_from(NETWORK, Height::new(225), NOW).unwrap();
    assert_eq!(state(&ledger, hd, &lie.txid), TxState::Orphaned);
    let as_fact = "UPDATE transactions SET is_claimed = 0";
    ledger.database().write(|tx| tx.execute(as_fact, &[])).map_err(|e: SqlError| e).unwrap();
    import(place);
    let report = place.json(&["wallet", "follow", "--until-tip"]);
    assert_eq!(report["height"], LAST);
    let aside = ledger.standing(hd).unwrap().set_aside.unwrap();
    let told = &report["set_aside"];
    assert_eq!((told.as_array().unwrap().len(), &told[0]["wallet"]), (1, &"hd".into()));
    assert_eq!(told[0]["height"], aside.height.get());
    assert!(aside.height < Height::new(LAST), "{aside:?}");
    assert_eq!(ledger.standing(late).unwrap(), Standing::default());
    assert_eq!(ledger.verify(late).unwrap(), []);

    let shown = String::from_utf8(place.run(&["wallet", "list"]).stdout).unwrap();
    assert!(shown.contains(&format!("set aside since block {}", aside.height)), "{shown}");
    for words in [["wallet", "show", "hd"], ["wallet", "balance", "hd"], ["wallet", "utxos", "hd"]]
    {
        let answer = place.json(&words);
        assert_eq!(answer["set_aside"]["height"], aside.height.get(), "{words:?}");
        assert!(place.json(&[words[0], words[1], "late"])["set_aside"].is_null());
    }
    let refused = ["wallet", "select", "hd", "--value", "1000", "--fee-rate", "1"];
    let refused = place.command(&refused).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{text}");
    assert!(text.contains("set aside") && text.contains("rescan"), "{text}");

    let serving = place.serve();
    let health = serving.get("/health");
    assert!(health.contains(" 200 OK") && health.contains("\"degraded\""), "{health}");
    assert!(health.contains("hd since block"), "{health}");
    serving.wait_for_metric("utxokeep_wallets_set_aside", |wallets| wallets > 0.5);
    assert!(serving.log().contains("is set aside"), "{}", serving.log());
    let select = r#"{"value":"1000","fee_rate":"1"}"#;
    let refused = serving.post("/api/v1/wallets/hd/selections", select);
    assert!(refused.contains(" 409 ") && refused.contains("wallet_set_aside"), "{refused}");
    let high = serving.post("/api/v1/wallets/hd/rescan", r#"{"from_height":1000}"#);
    assert!(high.contains(" 409 ") && high.contains("unknown_block"), "{high}");
    let asked = serving.post("/api/v1/wallets/hd/rescan", r#"{"from_height":0}"#);
    assert!(asked.contains(" 200 OK") && asked.contains("\"from_height\":0"), "{asked}");
    wait_for_all_blocks(&ledger, hd);
    serving.wait_for_metric("utxokeep_wallets_set_aside", |wallets| wallets < 0.5);
    assert!(serving.get("/health").contains("\"status\":\"ok\""));
    serving.stop();
    assert_eq!(coins(&ledger, hd), expected(LAST));
    assert_eq!(ledger.verify(hd).unwrap(), []);

    // The wallet that came late is not set aside; the command gives it what lies below.
    let report = place.json(&["wallet", "scan", "late", "--from", "0"]);
    assert_eq!((&report["blocks"], &report["next"]), (&301.into(), &serde_json::Value::Null));
    assert_eq!(coins(&ledger, late), expected(LAST));
}

/// A payment from before the start that a block above the middle spends.
fn spent_above_the_middle() -> TxDetail {
    let all = real_history();
    let spends = |tx: &TxDetail, txid: &Txid| {
        height(tx) > MIDDLE && own_inputs(tx).any(|input| input.txid() == txid)
    };
    let is_spent = |parent: &&TxDetail| all.iter().any(|tx| spends(tx, &parent.summary.txid));
    let early = all.iter().filter(|tx| height(tx) < START && !tx.summary.coinbase);
    early.into_iter().find(is_spent).unwrap().clone()
}

fn wait_for_all_blocks(ledger: &Ledger, wallet: WalletId) {
    let started = Instant::now();
    let mut seen = BTreeSet::new();
    loop {
        let standing = ledger.standing(wallet).unwrap();
        if standing == Standing::default() {
            return;
        }
        seen.insert(standing.rescan.map(|rescan| rescan.next));
        assert!(started.elapsed() < Duration::from_secs(60), "{standing:?}, {seen:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_wallet_that_cannot_take_a_block_is_named_and_rescanned_while_serving() {
    on_both(a_wallet_is_set_aside_and_rescanned);
}
