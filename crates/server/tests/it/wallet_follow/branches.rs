//! Two programs with chain databases on different branches follow into one ledger.

use std::collections::BTreeSet;

use utxokeep_core::{BlockHash, Height};
use utxokeep_testkit::RegtestA;

use crate::wallet_follow::{
    bitcoin::{LAST, NETWORK, expected, hash_at, import, import_from, wallet, write_blocks},
    claims::on_both,
    program::{LedgerHome, coins},
};

const SHARED: u32 = 206;
const STALE_END: u32 = 217;

fn a_follower_on_a_stale_branch_waits_and_says_so(place: &LedgerHome) {
    let ledger = place.ledger();
    let wallet = wallet(&ledger, "hd");
    let [best, stale] = [(); 2].map(|()| LedgerHome::with_ledger(&place.url));
    let hashes: BTreeSet<BlockHash> = RegtestA::default().stale_chain().into_iter().collect();
    let blocks = stale.path("blocks");
    write_blocks(&blocks, "blk00000.dat", |hash| hashes.contains(hash));
    stale.configure(Some(&blocks), "follow_stalled_secs = 0\n");
    import_from(&stale, &blocks.join("blk00000.dat"));
    best.configure(Some(&RegtestA::default().path("blocks.dat.xz")), "");
    import(&best);

    let follow = ["wallet", "follow", "--until-tip"];
    assert_eq!(stale.json(&follow)["height"], STALE_END);
    let report = best.json(&follow);
    assert_eq!((&report["height"], &report["undone"]), (&LAST.into(), &11.into()));

    let waits = stale.command(&[follow.as_slice(), &["--json"]].concat()).output().unwrap();
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let report: serde_json::Value = serde_json::from_slice(&waits.stdout).unwrap();
    assert_eq!(report["worse_branch"]["shared_height"], SHARED);
    assert_eq!(report["worse_branch"]["ledger_height"], LAST);
    assert_eq!((&report["undone"], &report["applied"]), (&0.into(), &0.into()));
    let text = String::from_utf8_lossy(&waits.stderr);
    assert!(text.contains("another branch since block 206"), "{text}");

    let verify = |place: &LedgerHome| {
        let refused = place.command(&["wallet", "verify", "hd"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    let told = verify(&stale);
    assert!(told.contains("a branch that is not better than the ledger's"), "{told}");

    let serving = stale.serve();
    serving.wait_for_health("degraded");
    let health = serving.get("/health");
    assert!(health.contains("another branch since block 206"), "{health}");
    let apart = "utxokeep_wallet_follow_worse_branch_blocks";
    serving.wait_for_metric(apart, |blocks| (93.5..94.5).contains(&blocks));
    assert_eq!(best.json(&follow)["undone"], 0);
    assert_eq!(serving.metric("utxokeep_wallet_follow_blocks_undone_total"), Some(0.0));
    let told = serving.log().matches("is on another branch").count();
    assert_eq!(told, 1, "{}", serving.log());
    // Blocks of clients have no proof of work that anybody looked at.
    let invented = format!(
        r#"{{"block":{{"height":{},"hash":"{}","time":1}},"transactions":[]}}"#,
        LAST + 1,
        "ab".repeat(32)
    );
    let refused = serving.post("/api/v1/ledger/bitcoin/regtest/blocks", &invented);
    assert!(refused.contains(" 409 ") && refused.contains("follows_chain"), "{refused}");
    // What both share can be looked at again, and the rest waits.
    let asked = serving.post("/api/v1/wallets/hd/rescan", r#"{"from_height":200}"#);
    assert!(asked.contains(" 200 OK"), "{asked}");
    serving.wait_for_metric("utxokeep_wallet_rescan_blocks_total", |blocks| blocks > 6.5);
    serving.stop();
    let next = ledger.standing(wallet).unwrap().rescan.unwrap().next;
    assert_eq!(next, Height::new(SHARED + 1));
    best.run(&follow);
    assert_eq!(coins(&ledger, wallet), expected(LAST));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    assert_eq!(ledger.tip(NETWORK).unwrap(), Some((Height::new(LAST), hash_at(LAST))));

    // The operator knows better.
    best.run(&["wallet", "disconnect", "207", "--network", "regtest"]);
    assert_eq!(stale.json(&follow)["height"], STALE_END);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    let told = verify(&best);
    assert!(told.contains("let the ledger follow (wallet follow --until-tip)"), "{told}");
}

#[test]
fn two_followers_on_two_branches_keep_the_better_one() {
    on_both(a_follower_on_a_stale_branch_waits_and_says_so);
}
