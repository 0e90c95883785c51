//! What commands print, as JSON and for people.

use std::fs;

use serde_json::{Value, json};
use utxokeep_core::hex_encode;

use crate::wallet_cli::program::{STRANGER, User, payment, text, told};

#[test]
fn people_read_lines() {
    let user = User::new().with_coins(&[50_000]);
    let balance = user.lines(&["wallet", "balance", "hot"]);
    assert!(balance.contains("confirmed              50000\n"), "{balance}");
    assert!(balance.contains("height 1 block 0101"), "{balance}");
    let coins = user.lines(&["wallet", "utxos", "hot"]);
    assert!(coins.contains(":0") && coins.contains("50000 height 1 (1 confirmations)"), "{coins}");
    assert!(coins.ends_with("rows  1\n"), "{coins}");
    let keychains = user.lines(&["wallet", "descriptor", "list", "hot"]);
    assert!(keychains.contains("receiving next 1") && keychains.contains("change "), "{keychains}");
    let chosen = user.lines(&["wallet", "select", "hot", "--value", "20000", "--fee-rate", "1"]);
    assert!(chosen.contains("sum        50000\n"), "{chosen}");
    let addresses = user.lines(&["wallet", "address", "list", "hot", "--page-size", "1"]);
    assert!(addresses.contains("used   bcrt1q"), "{addresses}");
    assert!(addresses.contains("more  yes; raise --page-size, or add --cursor 1\n"), "{addresses}");
}

#[test]
fn a_list_goes_on_where_it_stopped() {
    let user = User::new().with_coins(&[10_000, 20_000, 30_000, 40_000, 50_000]);
    // Small pages, so that several make up a list.
    fs::write(user.path("small.toml"), "[wallet]\npage_rows_max = 2\n").unwrap();
    for list in ["utxos", "txs"] {
        let args = ["wallet", list, "hot", "--config", "small.toml"];
        let all = user.json(&args);
        assert_eq!(all["items"].as_array().unwrap().len(), 5);
        assert_eq!(all.get("next_cursor"), None);
        let first = user.json(&[&args[..], &["--page-size", "3"]].concat());
        let cursor = text(&first, "next_cursor");
        let rest = user.json(&[&args[..], &["--cursor", cursor]].concat());
        let joined: Vec<Value> = [&first, &rest]
            .into_iter()
            .flat_map(|part| part["items"].as_array().unwrap().clone())
            .collect();
        assert_eq!(Value::from(joined), all["items"], "{list}");
    }
    let newest = user.json(&["wallet", "txs", "hot", "--newest-first", "--page-size", "1"]);
    assert_eq!(newest["items"].as_array().unwrap().len(), 1);
}

#[test]
fn transactions_are_recorded_from_text_files_and_stdin() {
    let user = User::new();
    user.json(&["wallet", "create", "w", "--network", "regtest"]);
    user.json(&["wallet", "address", "add", "w", STRANGER]);
    let script = "0014becce4fff87860cfc5191a8858166e8a1a8a9468";
    let raw = payment(1, 5_000, script);
    let record = ["wallet", "record", "w"];
    let label = ["--label", "first \u{1b}[31m"];
    let made = user.json(&[&record[..], &["--raw", &raw], &label].concat());
    assert_eq!((text(&made, "change"), text(&made, "status")), ("inserted", "pending"));
    let txid = text(&made, "tx_hash");
    let shown = user.lines(&["wallet", "tx", "w", txid]);
    assert!(shown.contains(r#""first \u{1b}[31m""#), "{shown}");

    fs::write(user.path("raw"), format!("{raw}\n")).unwrap();
    let seen = user.json(&[&record[..], &["--raw-file", "raw", "--mempool"]].concat());
    assert_eq!((text(&seen, "change"), text(&seen, "status")), ("updated", "published"));
    let stdin =
        user.run_with(&[&record[..], &["--raw-file", "-", "--mempool", "--json"]].concat(), &raw);
    let again: Value = serde_json::from_slice(&stdin.stdout).unwrap();
    assert_eq!(text(&again, "change"), "unchanged", "{}", told(&stdin));

    let parts = json!({
        "tx_hash": hex_encode(&[7; 32]),
        "inputs": [format!("{}:1", hex_encode(&[8; 32]))],
        "outputs": [{ "address": STRANGER, "amount": "900" }, { "address": STRANGER, "amount": 50 }],
    });
    let args =
        [&record[..], &["--parts-file", "-", "--mempool", "--credit", "1", "--json"]].concat();
    let output = user.run_with(&args, &parts.to_string());
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let balance = user.json(&["wallet", "balance", "w"]);
    assert_eq!(text(&balance, "untrusted_unconfirmed"), "5050");

    user.apply_block(1, Vec::new());
    let block = format!("1:{}:1800000000", hex_encode(&[1; 32]));
    let confirmed = user.json(&["wallet", "confirm", "w", txid, "--block", &block]);
    assert_eq!(confirmed["height"], 1);
    // Without a position none is claimed, and the claim can be taken back.
    assert_eq!(user.json(&["wallet", "tx", "w", txid])["position"], Value::Null);
    assert_eq!(user.json(&["wallet", "unconfirm", "w", txid])["height"], Value::Null);
    user.json(&["wallet", "confirm", "w", txid, "--block", &block]);
    let late = payment(2, 600, script);
    let args = [&record[..], &["--raw", &late, "--block", &block, "--position", "3"]].concat();
    assert_eq!(user.json(&args)["height"], 1);
    let listed = user.json(&["wallet", "txs", "w", "--from-height", "1", "--to-height", "1"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][1]["position"], 3);
}

#[test]
fn labels_move_from_one_wallet_to_another() {
    let user = User::new().with_coins(&[50_000]);
    let listed = user.json(&["wallet", "txs", "hot"]);
    let txid = text(&listed["items"][0], "tx_hash");
    let set = user.json(&["wallet", "label", "hot", txid, "from a friend"]);
    assert_eq!(set, json!({ "tx_hash": txid, "label": "from a friend" }));
    let lines = user.lines(&["wallet", "labels", "export", "hot"]);
    let line: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!((&line["type"], &line["label"]), (&json!("tx"), &json!("from a friend")));

    let export = ["wallet", "labels", "export", "hot", "--out", "labels.jsonl"];
    assert_eq!(user.json(&export), json!({ "labels": 1 }));
    assert_eq!(fs::read_to_string(user.path("labels.jsonl")).unwrap(), lines);
    let told = user.refused(4, &export);
    assert!(told.contains("not replaced"), "{told}");

    user.json(&["wallet", "create", "other", "--network", "regtest"]);
    let imported = user.json(&["wallet", "labels", "import", "other", "labels.jsonl"]);
    let none = json!({ "imported": 1, "ignored": 0, "skipped": 0, "truncated": 0, "notes": [] });
    assert_eq!(imported, none);
    assert_eq!(user.lines(&["wallet", "labels", "export", "other"]), lines);
    user.json(&["wallet", "label", "hot", txid, ""]);
    assert_eq!(user.lines(&["wallet", "labels", "export", "hot"]), "");
}

#[test]
fn every_command_has_help() {
    let user = User::new();
    let page = utxokeep_server::cli::page();
    let commands: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## `utxokeep wallet")?.strip_suffix('`'))
        .collect();
    assert!(commands.len() > 35, "{commands:?}");
    for command in commands {
        let mut args = vec!["wallet"];
        args.extend(command.split_whitespace());
        args.push("--help");
        let output = user.bare(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Usage: utxokeep wallet") && help.contains("--ledger"), "{help}");
    }
}

#[test]
fn a_bad_line_of_labels_is_told_and_coins_freeze_by_command() {
    let user = User::new().with_coins(&[50_000, 60_000]);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let coin = text(&coins["items"][1], "outpoint").to_owned();
    let frozen = user.json(&["wallet", "freeze", "hot", &coin]);
    assert_eq!(frozen, json!({ "outpoint": coin, "is_spendable": false }));
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "held_back"), "60000");
    let lines = format!(
        "\u{feff}nonsense\r\n{{\"type\":\"output\",\"ref\":\"{coin}\",\"label\":\"cold\"}}\r\n"
    );
    fs::write(user.path("labels"), [lines.as_bytes(), b"\xff\n"].concat()).unwrap();
    let told = user.lines(&["wallet", "labels", "import", "hot", "labels"]);
    assert!(told.contains("line 1: skipped: ") && told.contains("line 3: skipped: "), "{told}");
    let still = user.json(&["wallet", "balance", "hot"]);
    assert_eq!(text(&still, "held_back"), "60000", "a label without spendable unfreezes nothing");
    user.json(&["wallet", "unfreeze", "hot", &coin]);
    assert_eq!(text(&user.json(&["wallet", "balance", "hot"]), "held_back"), "0");
    let kept = user.lines(&["wallet", "labels", "export", "hot"]);
    assert!(kept.contains("\"label\":\"cold\",\"spendable\":true"), "{kept}");
}
