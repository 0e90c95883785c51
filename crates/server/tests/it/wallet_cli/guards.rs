//! Payments that would lose money, or that no block could hold.

use serde_json::{Value, json};

use crate::wallet_cli::program::{DESCRIPTOR, STRANGER, User, amount, payment, text};

const OWNER: &str = "2222222222222222222222222222222222222222222222222222222222222222";
/// Data that nobody can spend.
const DATA: &str = "6a0461626364";
const TAPROOT: &str = "tr([0c5f9a1e/86h/1h/0h]tpubDDCA1MQNPcAVLUaV3A3yWNLuM25zSoXMWHYTQwLVeNRmKkT61j8SZ1XCsXDAUoU7mwbVhmntBji9ydEQrCdE8PcqwCytXb18J7bi8tfCbHA/<0;1>/*)";

fn nothing_is_leased(user: &User) -> bool {
    user.json(&["wallet", "lease", "list", "hot"])["items"] == json!([])
}

/// How many addresses of each keychain were handed out.
fn handed_out(user: &User) -> Vec<u64> {
    let keychains = user.json(&["wallet", "descriptor", "list", "hot"]);
    let keychains = keychains.get("items").unwrap_or(&keychains).as_array().unwrap().clone();
    keychains.iter().map(|keychain| keychain["next_index"].as_u64().unwrap()).collect()
}

#[test]
fn a_payment_that_is_most_likely_a_mistake_is_refused_by_name() {
    let user = User::new().with_coins(&[50_000_000, 60_000]);
    let before = handed_out(&user);
    let pay = |to: &str, amount: u64| format!("{to}={amount}");
    let usual = pay(STRANGER, 20_000);
    let cases: [(&str, &[&str]); 7] = [
        ("fee_rate_min", &["--pay", &usual, "--fee-rate", "0"]),
        ("fee_rate_min", &["--pay", &usual, "--fee-rate", "0.9"]),
        ("fee_rate_max", &["--pay", &usual, "--fee-rate", "1000.1"]),
        ("dust", &["--pay", &pay(STRANGER, 293), "--fee-rate", "1"]),
        ("zero_value", &["--pay", &pay(STRANGER, 0), "--fee-rate", "1"]),
        ("unspendable_value", &["--pay", &pay(DATA, 1_000), "--fee-rate", "1"]),
        ("not_yet_valid", &["--pay", &usual, "--fee-rate", "1", "--lock-height", "2"]),
    ];
    for (guard, args) in cases {
        let psbt = [&["wallet", "psbt", "hot"], args].concat();
        let told = user.refused(4, &psbt);
        assert!(told.contains(guard), "{args:?}: {told}");
        let wrong = if guard == "dust" { "fee_max" } else { "dust" };
        user.refused(4, &[&psbt[..], &["--allow", wrong]].concat());
        let told = user.refused(2, &[&psbt[..], &["--allow", "everything"]].concat());
        assert!(told.contains("no guard named") && told.contains("fee_rate_max"), "{told}");
        assert!(nothing_is_leased(&user), "{args:?}");
        assert_eq!(handed_out(&user), before, "{args:?}");
        if !args.contains(&"--lock-height") {
            let select = [&["wallet", "select", "hot"], args].concat();
            assert!(user.refused(4, &select).contains(guard), "a dry run is guarded too");
            user.json(&[&select[..], &["--allow", guard]].concat());
        }
    }
    // Change that is not made would be a fee.
    let burning = ["--pay", &usual, "--fee-rate", "1", "--change-min", "10001"];
    let told = user.refused(2, &[&["wallet", "psbt", "hot"][..], &burning].concat());
    assert!(told.contains("change_min_sat_max"), "{told}");
    assert!(nothing_is_leased(&user));
    let little = ["wallet", "select", "hot", "--fee-rate", "1", "--value", "293"];
    assert!(user.refused(4, &little).contains("dust"), "whoever gets it");
    user.json(&[&little[..], &["--allow", "dust"]].concat());
    let data = pay(DATA, 0);
    let made = user.json(&["wallet", "psbt", "hot", "--pay", &data, "--fee-rate", "1"]);
    assert_eq!(made["valid_from_height"], Value::Null, "data without an amount is fine");
    user.refused(
        2,
        &["wallet", "select", "hot", "--value", "1000", "--fee-rate", "1", "--inputs-max", "0"],
    );
}

#[test]
fn hexadecimal_that_is_no_script_is_neither_paid_nor_change() {
    let user = User::new().with_coins(&[50_000_000, 60_000]);
    let before = handed_out(&user);
    let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let usual = format!("{STRANGER}=20000");
    for script in ["becce4fff87860cfc5191a8858166e8a1a8a9468", key, "deadbeef", "ff"] {
        let paid = format!("{script}=20000");
        let pays = ["hot", "--fee-rate", "1", "--pay", &paid];
        for verb in ["select", "psbt"] {
            let told = user.refused(4, &[&["wallet", verb], &pays[..]].concat());
            assert!(told.contains("nonstandard_script"), "{verb} {script}: {told}");
        }
        let psbt = ["wallet", "psbt", "hot", "--fee-rate", "1", "--pay", &usual];
        let told = user.refused(4, &[&psbt[..], &["--change-address", script]].concat());
        assert!(told.contains("the script of change"), "{script}: {told}");
    }
    // A key of taproot that is no point of the curve.
    let nowhere = format!("5120{}=20000", "ff".repeat(32));
    let told = user.refused(4, &["wallet", "psbt", "hot", "--fee-rate", "1", "--pay", &nowhere]);
    assert!(told.contains("unspendable_value"), "{told}");
    assert!(nothing_is_leased(&user));
    assert_eq!(handed_out(&user), before);
    // Anybody may spend this one.
    let meant = ["--pay", "51=20000", "--allow", "nonstandard_script"];
    user.json(&[&["wallet", "psbt", "hot", "--fee-rate", "1"], &meant[..]].concat());
}

/// Paid without change and bumped: the flow of the README, with the default algorithm.
#[test]
fn a_bump_never_burns_a_coin() {
    let user = User::new().with_coins(&[100_000, 5_000_000_000, 40_000]);
    // All of one coin but the fee of 110 virtual bytes.
    let to = format!("{STRANGER}=99890");
    let paid = user.json(&[
        "wallet",
        "psbt",
        "hot",
        "--pay",
        &to,
        "--fee-rate",
        "1",
        "--owner",
        OWNER,
        "--record",
    ]);
    assert_eq!(paid["selection"]["change"], Value::Null);
    let txid = text(&paid, "tx_hash");
    user.json(&["wallet", "publish", "hot", txid]);
    let before = handed_out(&user);
    let bump = ["wallet", "bump", "hot", txid, "--fee-rate", "20", "--owner", OWNER];
    let dry = user.json(&[&bump[..], &["--dry-run"]].concat());
    assert_eq!(handed_out(&user), before, "a plan uses up no address");
    let told = user.refused(4, &[&bump[..], &["--incremental-rate", "101"]].concat());
    assert!(told.contains("incremental_rate"), "{told}");
    user.refused(2, &[&bump[..], &["--inputs-max", "0"]].concat());
    assert_eq!(handed_out(&user), before, "a refused call uses up no address");
    let made = user.json(&bump);
    assert_eq!((&made["fee"], &made["inputs"]), (&dry["fee"], &dry["inputs"]));
    let vbytes = made["weight"].as_u64().unwrap().div_ceil(4);
    assert_eq!(amount(&made["fee"]), 20 * vbytes);
    assert_eq!(made["inputs"].as_array().unwrap().len(), 2);
    assert_eq!(text(&made["inputs"][1], "amount"), "40000", "the smallest that is enough");
    assert_eq!(amount(&made["change"]), 100_000 + 40_000 - 99_890 - 20 * vbytes);
    assert!(text(&made, "change_address").starts_with("bcrt1q"));
    assert_eq!(handed_out(&user), [before[0], before[1] + 1]);
    let told = user.refused(4, &[&bump[..], &["--change-address", "ff"]].concat());
    assert!(told.contains("nonstandard_script"), "{told}");
    let other = ["--change-address", STRANGER, "--dry-run"];
    let elsewhere = user.json(&[&bump[..], &other].concat());
    assert_eq!(text(&elsewhere, "change_address"), STRANGER);
}

#[test]
fn coins_without_a_place_for_change_are_not_spent() {
    let user = User::new();
    user.json(&["wallet", "create", "hot", "--network", "regtest"]);
    let receiving = DESCRIPTOR.replace("<0;1>", "0");
    user.json(&["wallet", "descriptor", "add", "hot", &receiving]);
    let script = user.json(&["wallet", "address", "next", "hot"]);
    user.apply_block(1, vec![payment(1, 90_000, text(&script, "script"))]);
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "1"];
    let told = user.refused(4, &psbt);
    assert!(told.contains("change address"), "{told}");
    assert!(nothing_is_leased(&user));
    let made = user.json(&[&psbt[..], &["--change-address", STRANGER]].concat());
    assert_eq!(text(&made, "change_address"), STRANGER);
}

/// A wallet of one descriptor with a coin in block 1.
fn with_descriptor(descriptor: &str) -> User {
    let user = User::new();
    user.json(&["wallet", "create", "hot", "--network", "regtest"]);
    user.json(&["wallet", "descriptor", "add", "hot", descriptor]);
    let script = user.json(&["wallet", "address", "next", "hot"]);
    user.apply_block(1, vec![payment(1, 90_000, text(&script, "script"))]);
    user
}

#[test]
fn a_coin_with_a_relative_lock_is_spent_when_it_is_old_enough() {
    let key = DESCRIPTOR.strip_prefix("wpkh(").unwrap().strip_suffix(')').unwrap();
    let user = with_descriptor(&format!("wsh(and_v(v:pk({key}),older(5)))"));
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "1"];
    let select = ["wallet", "select", "hot", "--value", "20000", "--fee-rate", "1"];
    for more in [&psbt[..], &select, &[&select[..], &["--lease"]].concat()] {
        let told = user.refused(4, more);
        assert!(told.contains("90000 locked") && told.contains("not_yet_valid"), "{told}");
    }
    let waiting = user.json(&[&select[..], &["--allow", "not_yet_valid"]].concat());
    assert_eq!(text(&waiting["coins"][0], "amount"), "90000");
    assert!(nothing_is_leased(&user));
    for height in 2..=5 {
        user.apply_block(height, Vec::new());
    }
    let record = ["--record", "--owner", OWNER];
    let made = user.json(&[&psbt[..], &record].concat());
    assert_eq!(made["valid_from_height"], 6);
    let txid = text(&made, "tx_hash");
    user.json(&["wallet", "publish", "hot", txid]);
    let higher = user.json(&["wallet", "bump", "hot", txid, "--fee-rate", "9", "--owner", OWNER]);
    assert_eq!(higher["valid_from_height"], 6, "a bump keeps the lock");
    let lines = user.lines(&[
        "wallet",
        "bump",
        "hot",
        txid,
        "--fee-rate",
        "9",
        "--owner",
        OWNER,
        "--dry-run",
    ]);
    assert!(lines.contains("valid from") && lines.contains("height 6"), "{lines}");
}

#[test]
fn a_lock_time_stays_through_a_bump() {
    let key = DESCRIPTOR.strip_prefix("wpkh(").unwrap().strip_suffix(')').unwrap();
    let user = with_descriptor(&format!("wsh(and_v(v:pk({key}),after(3)))"));
    for height in 2..=6 {
        user.apply_block(height, Vec::new());
    }
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "1"];
    let args = ["--lock-height", "5", "--record", "--owner", OWNER];
    let made = user.json(&[&psbt[..], &args].concat());
    assert_eq!(made["valid_from_height"], 6, "the later one of both");
    let txid = text(&made, "tx_hash");
    let higher = user.json(&["wallet", "bump", "hot", txid, "--fee-rate", "9", "--owner", OWNER]);
    assert_eq!(higher["valid_from_height"], 6);
}

/// Version, sequence numbers and lock time of a transaction without witnesses that has one or two
/// inputs without signature scripts.
fn locks(raw: &str) -> (u32, Vec<u32>, u32) {
    let number = |at: usize| {
        let digits = raw.get(at..at + 8).unwrap();
        u32::from_str_radix(digits, 16).unwrap().swap_bytes()
    };
    let inputs = usize::from_str_radix(&raw[8..10], 16).unwrap();
    // 36 bytes of outpoint, an empty script, the sequence number.
    let sequences = (0..inputs).map(|input| number(10 + input * 82 + 74)).collect();
    (number(0), sequences, number(raw.len() - 8))
}

/// A payment that another program made, with a lock that no descriptor asks for.
#[test]
fn a_bump_keeps_version_lock_time_and_sequences() {
    for (version, sequence, lock_time) in [(3, 2, 0), (2, 0x0040_0000, 4), (1, 9, 1)] {
        let user = User::new().with_coins(&[60_000, 40_000]);
        let coins = user.json(&["wallet", "utxos", "hot"]);
        let coin = coins["items"].as_array().unwrap().iter().find(|coin| coin["amount"] == "60000");
        let (txid, index) = text(coin.unwrap(), "outpoint").split_once(':').unwrap();
        let bytes = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16);
            digits.map(|two| byte(two).unwrap()).collect()
        };
        let txid: Vec<u8> = bytes(txid).into_iter().rev().collect();
        let hex = |number: u32| utxokeep_core::hex_encode(&number.to_le_bytes());
        let paid = utxokeep_core::hex_encode(&59_890_u64.to_le_bytes());
        let raw = format!(
            "{}01{}{}00{}01{paid}160014{}{}",
            hex(version),
            utxokeep_core::hex_encode(&txid),
            hex(index.parse().unwrap()),
            hex(sequence),
            "09".repeat(20),
            hex(lock_time)
        );
        for height in 2..=8 {
            user.apply_block(height, Vec::new());
        }
        let old = user.json(&["wallet", "record", "hot", "--raw", &raw, "--mempool"]);
        let bump = ["wallet", "bump", "hot", text(&old, "tx_hash"), "--fee-rate", "20"];
        let made = user.json(&bump);
        let new = user.json(&["wallet", "tx", "hot", text(&made["recorded"], "tx_hash")]);
        let kept = locks(text(&new, "raw"));
        assert_eq!(kept, (version, vec![sequence, 0xffff_fffd], lock_time));
    }
}

#[test]
fn coins_of_a_bump_that_waits_serve_the_next_bump_of_the_same_owner() {
    let user = User::new().with_coins(&[100_000, 40_000]);
    let to = format!("{STRANGER}=99890");
    let record = ["--fee-rate", "1", "--owner", OWNER, "--record"];
    let paid = user.json(&[&["wallet", "psbt", "hot", "--pay", &to], &record[..]].concat());
    let txid = text(&paid, "tx_hash");
    user.json(&["wallet", "publish", "hot", txid]);
    let bump = |rate, owner: &str| {
        let bump = ["wallet", "bump", "hot", txid, "--fee-rate", rate, "--lease-of", OWNER];
        user.run(&[&bump[..], &["--owner", owner, "--json"]].concat())
    };
    let bumped = |rate, owner: &str| -> Value {
        let output = bump(rate, owner);
        assert_eq!(output.status.code(), Some(0), "{}", crate::wallet_cli::program::told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = bumped("10", OWNER);
    assert_eq!(first["inputs"].as_array().unwrap().len(), 2);
    let second = bumped("20", OWNER);
    assert_eq!(second["inputs"], first["inputs"]);
    // The leases move over; the new owner's are as good.
    assert_eq!(bumped("30", "payroll")["inputs"], first["inputs"]);
    assert_eq!(bumped("40", "payroll")["inputs"], first["inputs"]);
    let told = crate::wallet_cli::program::told(&bump("50", "stranger"));
    assert!(told.contains("40000 are leased"), "{told}");
    user.json(&["wallet", "publish", "hot", text(&second["recorded"], "tx_hash")]);
    user.json(&["wallet", "verify", "hot"]);
}

#[test]
fn bounds_of_the_configuration_stand_before_payments() {
    let user = User::new().with_coins(&[60_000, 40_000]);
    let to = format!("{STRANGER}=20000");
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--owner", OWNER, "--fee-rate"];
    let with = |settings: &str, args: &[&str]| {
        std::fs::write(user.path("keep.toml"), format!("[wallet]\n{settings}\n")).unwrap();
        let config = user.text_path("keep.toml");
        let output = user.run(&[args, &["--json", "--config", &config]].concat());
        (output.status.code(), crate::wallet_cli::program::told(&output), output.stdout)
    };
    let (code, told, _) = with("tx_weight_units_max = 500", &[&psbt[..], &["1"]].concat());
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("weight_max") && told.contains("weight units"), "{told}");
    let allowed = [&psbt[..], &["1", "--allow", "weight_max"]].concat();
    assert_eq!(with("tx_weight_units_max = 500", &allowed).0, Some(0));
    let (code, told, _) = with("fee_rate_sat_per_vbyte_min = 1001", &[&psbt[..], &["1"]].concat());
    assert_eq!(code, Some(2), "{told}");
    // The least rate is no bound for what a replacement pays on top.
    let low = "fee_rate_sat_per_vbyte_min = 1.5\nincremental_rate_sat_per_vbyte_min = 0.1";
    let (code, told, _) = with(low, &[&psbt[..], &["1.4"]].concat());
    assert!(code == Some(4) && told.contains("fee_rate_min"), "{told}");
    let (_, told, paid) = with(low, &[&psbt[..], &["1.5", "--record"]].concat());
    let paid: Value = serde_json::from_slice(&paid).unwrap_or_else(|_| panic!("{told}"));
    let bump =
        ["wallet", "bump", "hot", text(&paid, "tx_hash"), "--owner", OWNER, "--fee-rate", "0"];
    let (_, told, bumped) = with(low, &bump);
    let bumped: Value = serde_json::from_slice(&bumped).unwrap_or_else(|_| panic!("{told}"));
    let more = amount(&bumped["fee"]) - amount(&paid["selection"]["fee"]);
    assert_eq!(more, 141_u64.div_ceil(10));
}

/// Change alone cannot pay for itself any more: the shortage is not one satoshi.
#[test]
fn a_shortage_of_a_bump_says_what_is_missing() {
    let user = User::new().with_coins(&[3_000]);
    let change = user.json(&["wallet", "descriptor", "list", "hot"]);
    let change = change.get("items").unwrap_or(&change)[1]["id"].to_string();
    let own = user.json(&["wallet", "address", "next", "hot", "--descriptor-id", &change]);
    let to = format!("{}=2890", text(&own, "address"));
    let psbt = ["wallet", "psbt", "hot", "--pay", &to, "--fee-rate", "1", "--owner", OWNER];
    let paid = user.json(&[&psbt[..], &["--record"]].concat());
    let bump =
        ["wallet", "bump", "hot", text(&paid, "tx_hash"), "--owner", OWNER, "--fee-rate", "50"];
    let told = user.refused(4, &bump);
    // 110 virtual bytes at 50, and change of 294; 3,000 are there.
    assert!(told.contains("2794 are needed"), "{told}");
}

#[test]
fn change_looks_like_the_inputs() {
    let user = User::new().with_coins(&[30_000]);
    let keychains = user.json(&["wallet", "descriptor", "add", "hot", TAPROOT]);
    let first = keychains.get("items").unwrap_or(&keychains)[0]["id"].to_string();
    let script = user.json(&["wallet", "address", "next", "hot", "--descriptor-id", &first]);
    user.apply_block(2, vec![payment(9, 900_000, text(&script, "script"))]);
    for (value, kind) in [(500_000, "bcrt1p"), (9_000, "bcrt1q")] {
        let to = format!("{STRANGER}={value}");
        let args = ["--fee-rate", "1", "--algorithm", "largest-first"];
        let made = user.json(&[&["wallet", "psbt", "hot", "--pay", &to], &args[..]].concat());
        assert!(text(&made, "change_address").starts_with(kind), "{made}");
    }
}
