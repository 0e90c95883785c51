//! What goes wrong, with its exit code, and without secrets in what is printed.

use std::{fs, io::Read, process::Stdio};

use crate::wallet_cli::program::{STRANGER, User, payment, told};

const UNKNOWN: &str = "abababababababababababababababababababababababababababababababab";

#[test]
fn without_a_ledger_the_program_says_how_to_name_one() {
    let user = User::new();
    for args in [&["wallet", "list"][..], &["wallet", "follow", "--until-tip"]] {
        let output = user.bare(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains("--ledger sqlite:FILE"), "{}", told(&output));
        assert!(told(&output).contains("[wallet] url"), "{}", told(&output));
    }
    // The configuration or the environment may name it, too.
    user.json(&["wallet", "create", "w", "--network", "regtest"]);
    fs::write(user.path("c.toml"), format!("[wallet]\nurl = {:?}\n", user.url)).unwrap();
    let output = user.bare(&["wallet", "show", "w", "--config", "c.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let mut command = user.bare(&["wallet", "show", "w"]);
    let output = command.env("UTXOKEEP_LEDGER", &user.url).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn the_exit_code_says_whose_fault_it_is() {
    let user = User::new().with_coins(&[50_000]);
    let far = format!("9:{UNKNOWN}:1");
    let pay = format!("{STRANGER}=90000");
    let raw = payment(9, 1, "51");
    user.json(&["wallet", "create", "bare", "--network", "regtest"]);
    user.json(&["wallet", "create", "ada", "--chain", "cardano", "--network", "preview"]);
    let cases: [(i32, &[&str]); 26] = [
        (2, &["create", "x", "--chain", "cardano", "--network", "regtest"]),
        (2, &["create", "", "--network", "regtest"]),
        (2, &["create", "x"]),
        (4, &["create", "hot", "--network", "regtest"]),
        (3, &["show", "nobody"]),
        (3, &["scan", "nobody"]),
        (2, &["address", "add", "hot", "nonsense"]),
        (4, &["address", "next", "bare"]),
        (3, &["address", "next", "hot", "--descriptor-id", "99"]),
        (2, &["descriptor", "add", "hot", "wpkh(nonsense)"]),
        (2, &["descriptor", "add", "ada", "wpkh(nonsense)"]),
        (2, &["balance", "hot", "--min-confirmations", "5", "--max-confirmations", "4"]),
        (2, &["txs", "hot", "--unconfirmed", "--from-height", "1"]),
        (2, &["txs", "hot", "--cursor", "nonsense"]),
        (2, &["utxos", "hot", "--page-size", "0"]),
        (3, &["tx", "hot", UNKNOWN]),
        (2, &["tx", "hot", "xyz"]),
        (2, &["record", "hot", "--raw", "00"]),
        (2, &["record", "hot"]),
        (2, &["record", "ada", "--raw", &raw]),
        (1, &["record", "hot", "--raw-file", "missing"]),
        (4, &["record", "hot", "--raw", &raw, "--block", &far]),
        (2, &["record", "hot", "--raw", &raw, "--block", "9:x"]),
        (4, &["select", "hot", "--pay", &pay, "--fee-rate", "1"]),
        (2, &["select", "hot", "--value", "1", "--fee-rate", "-1"]),
        (3, &["bump", "hot", UNKNOWN, "--fee-rate", "5"]),
    ];
    for (code, args) in cases {
        let told = user.refused(code, &[&["wallet"], args].concat());
        assert!(told.starts_with("error: "), "{args:?}: {told}");
        assert!(!told.contains("panicked"), "{args:?}: {told}");
    }
}

#[test]
fn files_that_are_no_transaction_are_refused() {
    let user = User::new().with_coins(&[50_000]);
    fs::write(user.path("long"), "0".repeat(8_000_003)).unwrap();
    fs::write(user.path("bytes"), [0xff, 0xfe]).unwrap();
    fs::write(user.path("parts"), r#"{"tx_hash": 5}"#).unwrap();
    for (code, flag, file) in
        [(2, "--raw-file", "long"), (1, "--raw-file", "bytes"), (2, "--parts-file", "parts")]
    {
        let told = user.refused(code, &["wallet", "record", "hot", flag, file]);
        assert!(told.contains(file) && told.contains("nothing was changed"), "{told}");
    }
    user.refused(2, &["wallet", "freeze", "hot", "nonsense"]);
    user.refused(3, &["wallet", "unfreeze", "hot", &format!("{}:0", "ab".repeat(32))]);
}

#[test]
fn secrets_are_not_printed() {
    let user = User::new();
    user.json(&["wallet", "create", "w", "--network", "regtest"]);
    let key = "5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss";
    let secret = format!("pkh({key})");
    let told_of_key = user.refused(2, &["wallet", "descriptor", "add", "w", &secret]);
    assert!(!told_of_key.contains(&key[2..20]), "{told_of_key}");
    for url in ["postgres://me:hunter2@127.0.0.1:1/db", "redis://me:hunter2@127.0.0.1/db"] {
        let output = user.bare(&["wallet", "list", "--ledger", url, "-vvv"]).output().unwrap();
        assert!([Some(1), Some(2)].contains(&output.status.code()));
        assert!(!told(&output).contains("hunter2"), "{}", told(&output));
    }
    let mut command = user.bare(&["wallet", "list", "--help"]);
    let output = command.env("UTXOKEEP_LEDGER", "postgres://me:hunter2@h/db").output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"));
}

#[test]
fn damage_is_found_and_has_its_own_code() {
    let user = User::new().with_coins(&[50_000]);
    let sound = user.lines(&["wallet", "verify", "hot"]);
    assert!(sound.starts_with("sound    yes\ndecoded  1 of 1 transactions\n"), "{sound}");
    let path = user.path("ledger.db");
    let options = utxokeep_sql::Options::default();
    let database =
        utxokeep_sql::Database::open(&format!("sqlite:{}", path.display()), &options).unwrap();
    let damage = "UPDATE utxos SET parent_height = 7";
    database.write(|tx| tx.execute(damage, &[]).map(drop)).unwrap();
    let output = user.run(&["wallet", "verify", "hot"]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(lines.starts_with("sound    no\n") && lines.contains("what to do: "), "{lines}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let user = User::new().with_coins(&[50_000; 40]);
    let mut command = user.command(&["wallet", "utxos", "hot", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(0), ""));
}
