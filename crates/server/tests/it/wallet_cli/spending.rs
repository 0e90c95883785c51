//! Leases, selections and payments.

use std::{collections::BTreeSet, process::Stdio};

use serde_json::{Value, json};

use crate::wallet_cli::program::{STRANGER, User, amount, text, told};

const OWNER: &str = "1111111111111111111111111111111111111111111111111111111111111111";

#[test]
fn leases_are_taken_renewed_and_ended() {
    let user = User::new().with_coins(&[50_000, 70_000]);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let [first, second] = [0, 1].map(|at| text(&coins["items"][at], "outpoint"));
    let acquire = ["wallet", "lease", "acquire", "hot", first, second, "--seconds", "60"];
    let leased = user.json(&[&acquire[..], &["--owner", OWNER]].concat());
    assert_eq!(text(&leased, "owner"), OWNER);
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "available"), "0");
    let told = user.refused(4, &acquire);
    assert!(told.contains("leased to somebody else"), "{told}");

    let renew = ["wallet", "lease", "renew", "hot", first, "--seconds", "3600"];
    assert!(user.refused(2, &renew).contains("--owner"));
    let renewed = user.json(&[&renew[..], &["--owner", OWNER]].concat());
    assert!(renewed["expires_at_us"].as_i64() > leased["expires_at_us"].as_i64());
    let free = user.json(&["wallet", "utxos", "hot", "--only-free"]);
    assert_eq!(free["items"], json!([]));
    let lines = user.lines(&["wallet", "lease", "list", "hot"]);
    assert!(lines.contains(OWNER) && lines.contains("until 20"), "{lines}");

    let release = ["wallet", "lease", "release", "hot", "--owner", OWNER];
    let one = user.json(&[&release[..], &[first]].concat());
    assert_eq!(one, json!({ "leases": 1 }));
    assert_eq!(user.json(&release), json!({ "leases": 1 }));
    assert_eq!(user.json(&["wallet", "lease", "list", "hot"])["items"], json!([]));
}

#[test]
fn a_free_coin_is_not_renewed() {
    let user = User::new().with_coins(&[50_000]);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let coin = text(&coins["items"][0], "outpoint");
    assert!(text(&coins["items"][0], "address").starts_with("bcrt1q"), "{coins}");
    assert!(text(&coins["items"][0], "script").starts_with("0014"), "{coins}");
    let told = user.refused(4, &["wallet", "lease", "renew", "hot", coin, "--owner", OWNER]);
    assert!(told.contains("acquire the lease anew"), "{told}");
    assert_eq!(user.json(&["wallet", "lease", "list", "hot"])["items"], json!([]));
}

#[test]
fn an_owner_may_be_a_name_whose_sum_is_the_id() {
    // `printf payroll | sha256sum`
    let id = "60f91a742458ae606572f40dd7df0a128e554acb023f6989fe5148872648fc56";
    let user = User::new().with_coins(&[50_000]);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let coin = text(&coins["items"][0], "outpoint");
    let acquire = ["wallet", "lease", "acquire", "hot", coin, "--owner"];
    let leased = user.json(&[&acquire[..], &["payroll"]].concat());
    assert_eq!((text(&leased, "owner"), text(&leased, "owner_name")), (id, "payroll"));
    // The same owner by its id.
    let again = user.json(&[&acquire[..], &[id]].concat());
    assert_eq!((text(&again, "owner"), &again["owner_name"]), (id, &Value::Null));
    let long = "n".repeat(101);
    for wrong in ["", " payroll", long.as_str()] {
        let told = user.refused(2, &[&acquire[..], &[wrong]].concat());
        assert!(told.contains("64 hexadecimal digits, or a name"), "{told}");
    }
    let release = ["wallet", "lease", "release", "hot", "--owner", "payroll"];
    assert_eq!(user.json(&release), json!({ "leases": 1 }));
    assert_eq!(user.json(&release), json!({ "leases": 0 }));
    let clean = user.json(&["wallet", "lease", "clean", "hot"]);
    assert_eq!(clean, json!({ "leases": 0, "has_more": false }));
}

#[test]
fn giving_a_payment_up_ends_the_leases_of_its_inputs() {
    let user = User::new().with_coins(&[50_000, 70_000]);
    let to = format!("{STRANGER}=60000");
    let pay = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "2", "--record"];
    let made = user.json(&[&pay[..], &["--owner", "payroll"]].concat());
    let txid = text(&made, "tx_hash");
    let leases = user.json(&["wallet", "lease", "list", "hot"]);
    assert_eq!(text(&leases["items"][0], "spent_by"), txid);
    let lines = user.lines(&["wallet", "lease", "list", "hot"]);
    assert!(lines.contains(&format!("spent by {txid}")), "{lines}");
    let gone = user.json(&["wallet", "abandon", "hot", txid]);
    assert_eq!(gone["released_leases"], leases["items"].as_array().unwrap().len());
    assert_eq!(user.json(&["wallet", "lease", "list", "hot"])["items"], json!([]));
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "available"), "120000");
}

/// Leases, the address for change and the record are one commit.
#[test]
fn a_crash_while_a_payment_is_made_leaves_nothing_of_it() {
    let user = User::new().with_coins(&[50_000, 70_000]);
    let to = format!("{STRANGER}=60000");
    let pay = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "2", "--record"];
    let look = || {
        let ask = |words: &[&str]| user.json(&[&["wallet"], words, &["hot"]].concat());
        [ask(&["lease", "list"]), ask(&["txs"]), ask(&["descriptor", "list"]), ask(&["balance"])]
    };
    let before = look();
    for point in ["after_select", "after_lease", "before_commit"] {
        let mut command = user.command(&pay);
        let crashed = command.env("UTXOKEEP_CRASH_AT", format!("{point}:1")).output().unwrap();
        assert_eq!(crashed.status.code(), None, "{point}: {}", told(&crashed));
        assert_eq!(look(), before, "{point}");
    }
    user.json(&pay);
    assert_ne!(look(), before);
}

#[test]
fn a_selection_without_a_lease_changes_nothing() {
    let user = User::new().with_coins(&[50_000, 70_000, 90_000]);
    let before = user.json(&["wallet", "balance", "hot"]);
    let to = format!("{STRANGER}=60000");
    let select = ["wallet", "select", "hot", "--pay", &to, "--fee-rate", "1.5", "--seed", "7"];
    let largest = user.json(&[&select[..], &["--algorithm", "largest-first"]].concat());
    assert_eq!(text(&largest["coins"][0], "amount"), "90000");
    assert_eq!(largest["leased"], Value::Null);
    let spent: u64 = ["fee", "change"].map(|part| amount(&largest[part])).iter().sum();
    assert_eq!(spent + 60_000, amount(&largest["input_total"]));
    let coin = text(&largest["coins"][0], "outpoint");
    let args = ["--algorithm", "largest-first", "--exclude", coin];
    let others = user.json(&[&select[..], &args].concat());
    assert_eq!(text(&others["coins"][0], "amount"), "70000");
    assert_eq!(user.json(&["wallet", "balance", "hot"]), before);
    let told = user.refused(2, &[&select[..], &["--owner", OWNER]].concat());
    assert!(told.contains("--lease"), "{told}");
}

/// Four programs at a time ask for coins; nobody gets what another one has.
#[test]
fn programs_that_select_at_the_same_time_get_different_coins() {
    let user = User::new().with_coins(&[50_000; 12]);
    let args = ["wallet", "select", "hot", "--value", "120000", "--fee-rate", "1", "--lease"];
    let children: Vec<_> = (0..5)
        .map(|_| {
            let mut command = user.command(&[&args[..], &["--json"]].concat());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let (mut taken, mut refusals) = (BTreeSet::new(), 0);
    for child in children {
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(4) {
            refusals += 1;
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let selection: Value = serde_json::from_slice(&output.stdout).unwrap();
        for coin in selection["coins"].as_array().unwrap() {
            assert!(taken.insert(text(coin, "outpoint").to_owned()), "twice: {coin}");
        }
    }
    // Each needs three of the twelve coins.
    assert_eq!((taken.len(), refusals), (12, 1));
    let leases = user.json(&["wallet", "lease", "list", "hot"]);
    assert_eq!(leases["items"].as_array().unwrap().len(), 12);
}

#[test]
fn a_payment_that_cannot_be_made_leaves_no_lease_and_no_file() {
    let user = User::new().with_coins(&[50_000]);
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--fee-rate", "1", "--out", "new.psbt"];
    let nobody = "bcrt1qnonsense=20000";
    for (code, args) in [
        (4, &["--pay", &format!("{STRANGER}=90000")][..]),
        (2, &["--pay", nobody]),
        (2, &["--pay", &to, "--change-address", "nonsense"]),
        (2, &["--pay", &to, "--owner", ""]),
    ] {
        user.refused(code, &[&psbt[..], args].concat());
        assert!(!user.path("new.psbt").exists(), "{args:?}");
    }
    assert_eq!(user.json(&["wallet", "lease", "list", "hot"])["items"], json!([]));
    std::fs::write(user.path("new.psbt"), "mine").unwrap();
    user.refused(4, &[&psbt[..], &["--pay", &to]].concat());
    assert_eq!(std::fs::read_to_string(user.path("new.psbt")).unwrap(), "mine");
    assert_eq!(user.json(&["wallet", "lease", "list", "hot"])["items"], json!([]));
}

#[test]
fn a_payment_is_given_up_or_removed() {
    let user = User::new().with_coins(&[50_000, 60_000]);
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "1", "--record"];
    let first = user.json(&psbt);
    let lines = user.lines(&[&psbt[..], &["--out", "second.psbt"]].concat());
    assert!(lines.ends_with("psbt          in second.psbt\n"), "{lines}");
    let open = user.json(&["wallet", "txs", "hot", "--unconfirmed", "--newest-first"]);
    let second = &open["items"][0];
    let (first, second) = (text(&first, "tx_hash"), text(second, "tx_hash"));
    let gone = user.json(&["wallet", "remove", "hot", first]);
    assert_eq!(gone, json!({ "removed": first }));
    user.refused(3, &["wallet", "tx", "hot", first]);
    let abandoned = user.json(&["wallet", "abandon", "hot", second]);
    assert_eq!(
        abandoned,
        json!({ "tx_hash": second, "failed_descendants": [], "released_leases": 1 })
    );
    assert_eq!(text(&user.json(&["wallet", "tx", "hot", second]), "status"), "failed");
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "confirmed"), "110000");
    let removed = user.json(&["wallet", "prune", "hot", "--dead-older-than", "0", "--no-archive"]);
    assert_eq!(text(&removed["transactions"][0], "tx_hash"), second);
}
