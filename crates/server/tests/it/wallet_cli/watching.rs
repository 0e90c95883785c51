//! What a wallet watches: options of a known descriptor, edges, where to scan from, archives.

use serde_json::json;

use crate::wallet_cli::program::{DESCRIPTOR, User, payment, text, told};

fn user() -> User {
    let user = User::new();
    user.json(&["wallet", "create", "hot", "--network", "regtest"]);
    user
}

const ADD: [&str; 5] = ["wallet", "descriptor", "add", "hot", DESCRIPTOR];

#[test]
fn options_of_a_known_descriptor_are_honoured_or_refused() {
    let user = user();
    let added = user.json(&ADD);
    assert_eq!(added["items"][0]["lookahead"], 1_000, "the default");
    let smaller = user.refused(4, &[&ADD[..], &["--lookahead", "999"]].concat());
    assert!(smaller.contains("cannot be lowered to 999; leave it out or raise it"), "{smaller}");
    user.refused(4, &[&ADD[..], &["--keychain", "1"]].concat());
    user.refused(2, &[&ADD[..], &["--lookahead", "10001"]].concat());
    assert_eq!(user.json(&["wallet", "descriptor", "list", "hot"]), added, "nothing was changed");
    let wider = user.json(&[&ADD[..], &["--lookahead", "1200", "--next-index", "3"]].concat());
    assert_eq!(wider["items"][1]["lookahead"], 1_200);
    assert_eq!(
        (&wider["items"][0]["next_index"], &wider["items"][0]["derived_count"]),
        (&json!(3), &json!(1_203))
    );
    user.refused(4, &[&ADD[..], &["--next-index", "2"]].concat());
    let next = user.json(&["wallet", "address", "next", "hot"]);
    assert_eq!(next["index"], 3);
}

#[test]
fn what_comes_late_is_told_with_the_command_to_scan() {
    let user = user();
    let early = user.run(&ADD);
    assert!(!told(&early).contains("wallet scan"), "{}", told(&early));
    user.apply_block(1, Vec::new());
    user.json(&["wallet", "create", "a late one", "--network", "regtest"]);
    let late = user.run(&["wallet", "descriptor", "add", "a late one", DESCRIPTOR]);
    let expected = "run: utxokeep wallet scan 'a late one' --from 1";
    assert!(told(&late).contains(expected), "{}", told(&late));
    let wider = [&ADD[..], &["--lookahead", "1001"]].concat();
    assert_eq!(user.json(&wider)["scan_from_height"], 1);
    let again = user.run(&wider);
    assert!(!told(&again).contains("wallet scan"), "{}", told(&again));
    let watched = user.json(&["wallet", "address", "add", "hot", "51"]);
    assert_eq!(watched["scan_from_height"], 1);
}

#[test]
fn a_payment_near_the_edge_is_shown_with_what_to_do() {
    let user = user();
    user.json(&[&ADD[..], &["--lookahead", "5"]].concat());
    let watched = user.json(&["wallet", "address", "list", "hot"]);
    let last = text(&watched["items"][4], "script");
    user.apply_block(1, vec![payment(1, 70_000, last)]);
    let shown = user.json(&["wallet", "show", "hot"]);
    assert_eq!(shown["descriptors_near_edge"], json!([1]));
    let listed = user.json(&["wallet", "descriptor", "list", "hot"]);
    let near = json!({ "index": 4, "raise_lookahead_to": 1_000, "scan_from_height": 1 });
    assert_eq!(
        (&listed["items"][0]["near_edge"], &listed["items"][1]["near_edge"]),
        (&near, &json!(null))
    );
    let lines = user.lines(&["wallet", "descriptor", "list", "hot"]);
    assert!(lines.contains("--lookahead 1000 and scan the wallet from height 1"), "{lines}");
    assert!(user.lines(&["wallet", "show", "hot"]).contains("near the edge"));
    user.json(&[&ADD[..], &["--lookahead", "1000"]].concat());
    assert_eq!(user.json(&["wallet", "show", "hot"])["descriptors_near_edge"], json!([]));
}

#[test]
fn wallets_and_keychains_are_archived_and_restored() {
    let user = User::new().with_coins(&[50_000]);
    let refused = user.refused(4, &["wallet", "archive", "hot"]);
    assert!(refused.contains("it has 1 coins"), "{refused}");
    user.refused(2, &["wallet", "archive", "hot", "--allow", "everything"]);
    user.json(&["wallet", "archive", "hot", "--allow", "coins"]);
    assert_eq!(user.json(&["wallet", "list"])["items"], json!([]));
    let all = user.lines(&["wallet", "list", "--archived"]);
    assert!(all.contains("hot (archived)"), "{all}");
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "total"), "50000");
    user.refused(4, &["wallet", "address", "next", "hot"]);
    let pay = ["wallet", "select", "hot", "--value", "1000", "--fee-rate", "1", "--lease"];
    assert!(user.refused(4, &pay).contains("restore it first"));
    user.apply_block(2, Vec::new());
    let restored = user.run(&["wallet", "restore", "hot"]);
    assert!(told(&restored).contains("wallet scan hot --from 2"), "{}", told(&restored));

    user.json(&["wallet", "descriptor", "archive", "hot", "2"]);
    user.refused(4, &["wallet", "descriptor", "archive", "hot", "1"]);
    user.refused(3, &["wallet", "descriptor", "archive", "hot", "9"]);
    let listed = user.json(&["wallet", "descriptor", "list", "hot"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let listed = user.json(&["wallet", "descriptor", "list", "hot", "--archived"]);
    assert!(listed["items"][1]["archived_at_us"].is_i64(), "{listed}");
    user.refused(4, &["wallet", "address", "next", "hot", "--descriptor-id", "2"]);
    user.json(&["wallet", "descriptor", "restore", "hot", "2"]);
    user.json(&["wallet", "address", "next", "hot", "--descriptor-id", "2"]);
}
