//! The program as a user of Cardano meets it, on a private chain made by hand.

use std::{fs, path::PathBuf, process::Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use utxokeep_chains::cardano::{address_text, stake_address_text};
use utxokeep_core::hex_encode;
use utxokeep_testkit::cardano::{Credential, stake, write_immutable};

use crate::{
    devnet::{
        COINS, DATUM, Devnet, FUNDS, HASH, NAME, POLICY, STAKE, alice, alice_alone, contract,
        genesis, old, script_hash,
    },
    program::{told, utxokeep},
};

struct User {
    home: TempDir,
    chain: Devnet,
}

impl User {
    fn new() -> Self {
        let user = Self { home: TempDir::new().unwrap(), chain: Devnet::new() };
        user.write("shelley.json", genesis());
        user.write("blocks.cbor", user.chain.bytes(0..6));
        user
    }

    fn with_chain() -> Self {
        let user = Self::new();
        user.import(&[]);
        user
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn run(&self, args: &[&str]) -> Output {
        utxokeep(args).current_dir(self.home.path()).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        told(&output)
    }

    fn import(&self, args: &[&str]) -> Value {
        let import = ["chain", "import", "--chain", "cardano", "--network", "devnet"];
        let sources = ["--genesis", "shelley.json", "blocks.cbor"];
        self.json(&[&import[..], &sources, args].concat())
    }

    /// Transaction ids and indexes of an owner's outputs.
    fn outputs(&self, owner: &[&str]) -> Vec<(String, u64)> {
        let answer = self.json(&[&["address", "utxos", "--page-size", "1000"], owner].concat());
        rows(&answer)
    }
}

fn rows(answer: &Value) -> Vec<(String, u64)> {
    let utxos = answer["items"].as_array().unwrap().iter();
    utxos
        .map(|utxo| {
            (utxo["tx_hash"].as_str().unwrap().to_owned(), utxo["output_index"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn import_status_and_digest_describe_the_chain() {
    let user = User::new();
    let report = user.import(&[]);
    assert_eq!(report["chain"], "cardano");
    assert_eq!((&report["height"], &report["slot"]), (&json!(5), &json!(5)));
    assert_eq!(report["best_hash"], user.chain.tip_hash());
    assert_eq!((&report["scan"]["blocks"], &report["missing_inputs"]), (&json!(6), &json!(0)));

    // Everything but the fee of the transaction that spent and the collateral that was lost.
    let lovelace = (FUNDS - 100_000 - 500_000).to_string();
    let txouts = 1 + 2 * COINS + 4;
    let status = user.json(&["chain", "status"]);
    let expected = json!({
        "chain": "cardano", "network": "devnet", "height": 5, "slot": 5, "epoch": 1,
        "best_hash": user.chain.tip_hash(), "utxo_count": txouts, "total_amount": lovelace,
        "missing_inputs": 0, "filter_entries": 0, "is_index_enabled": true, "index_state": "on",
        "indexes": ["address_hash", "payment_credential"], "rollback_floor": 0,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(status[name], *value, "{name}");
    }
    assert!(status.get("started_mid_chain_at").is_none());
    assert!(user.text(&["chain", "status"]).contains("\nepoch           1\n"));

    let digest = user.json(&["chain", "digest"]);
    let mut fields: Vec<_> = digest.as_object().unwrap().keys().cloned().collect();
    fields.sort();
    let names = ["asset_entries", "digest", "is_scanned", "point", "total_amount", "utxo_count"];
    assert_eq!(fields, names);
    assert_eq!(
        (&digest["utxo_count"], &digest["total_amount"]),
        (&json!(txouts), &json!(lovelace))
    );
    assert_eq!(digest["asset_entries"], COINS + 2);
    assert_eq!(digest["digest"].as_str().unwrap().len(), 64);
    let audit = user.json(&["chain", "digest", "--audit"]);
    assert_eq!(audit["digest"], digest["digest"]);
    assert_eq!(audit["muhash"].as_str().unwrap().len(), 64);
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
}

#[test]
fn a_devnet_is_opened_again_without_its_genesis_file() {
    let user = User::with_chain();
    fs::remove_file(user.home.path().join("shelley.json")).unwrap();
    let before = user.json(&["chain", "digest"]);
    user.json(&["chain", "rollback", "1"]);
    let report = user.json(&["chain", "import", "blocks.cbor"]);
    assert_eq!((&report["connected"], &report["height"]), (&json!(4), &json!(5)));
    assert_eq!(user.json(&["chain", "digest"]), before);

    user.write("other.json", genesis().replace("\"networkMagic\":42", "\"networkMagic\":43"));
    let error = user.refused(4, &["chain", "import", "--genesis", "other.json", "blocks.cbor"]);
    assert!(error.contains("other genesis files"), "{error}");
}

#[test]
fn directories_come_first_then_files_and_hexadecimal_is_read_too() {
    let user = User::new();
    write_immutable(&user.home.path().join("node/immutable"), &[&user.chain.blocks[..3]]).unwrap();
    user.write("rest.hex", hex_encode(&user.chain.bytes(3..6)));
    let import = ["chain", "import", "--network", "devnet", "--genesis", "shelley.json"];
    let report = user.json(&[&import[..], &["rest.hex", "node"]].concat());
    assert_eq!((&report["connected"], &report["height"]), (&json!(6), &json!(5)));
    assert_eq!(report["best_hash"], user.chain.tip_hash());
    let digest = user.json(&["chain", "digest"]);
    assert_eq!(digest, User::with_chain().json(&["chain", "digest"]));

    fs::create_dir(user.home.path().join("empty")).unwrap();
    let error = user.refused(1, &["chain", "import", "empty"]);
    assert!(error.contains("empty"), "{error}");
}

#[test]
fn every_text_of_an_owner_names_the_same_outputs() {
    let user = User::with_chain();
    let by_alice = user.outputs(&[&address_text(&alice())]);
    assert_eq!(by_alice.len(), 2 * COINS);
    assert_eq!(user.outputs(&[&hex_encode(&alice())]), by_alice);
    let trailing = hex_encode(&[alice(), vec![1, 2, 3]].concat());
    assert_eq!(user.outputs(&[&trailing]), by_alice, "bytes behind an address do not count");

    // The output at the Byron address was the collateral of the failed transaction.
    let base58 = address_text(&old());
    assert_eq!(user.outputs(&[&base58]), []);
    assert_eq!(user.outputs(&[&base58, "--at", "0"]).len(), 1);
    assert_eq!(user.outputs(&[&hex_encode(&old()), "--at", "0"]).len(), 1);

    assert_eq!(user.outputs(&[&base58, "--at", "slot:0"]).len(), 1);
    let first = hex_encode(&user.chain.blocks[0].hash);
    assert_eq!(user.outputs(&[&base58, "--at", &first]).len(), 1);
    user.refused(4, &["address", "utxos", &base58, "--at", "slot:6"]);
    user.refused(3, &["address", "utxos", &base58, "--at", &"00".repeat(32)]);
    user.refused(2, &["address", "utxos", &base58, "--at", "slot:soon"]);

    let bare = hex_encode(&HASH);
    let by_key = user.outputs(&[&format!("key:{bare}")]);
    assert_eq!(by_key.len(), by_alice.len() + 2);
    assert_eq!(user.outputs(&[&bare, "--kind", "key"]), by_key);
    let by_script = user.outputs(&[&format!("script:{bare}")]);
    assert_eq!(by_script, user.outputs(&[&address_text(&contract())]));
    assert_eq!(user.outputs(&[&bare, "--kind", "script"]), by_script);
    assert!(by_script.iter().all(|row| !by_key.contains(row)), "equal hashes, other kinds");

    let error = user.refused(2, &["address", "utxos", &bare]);
    assert!(error.contains(&format!("key:{bare}")), "{error}");
    let foreign = "addr1v8fet8gavr6elqt6q50skkjf025zthqu6vr56l5k39sp9aqlvz2g4";
    let error = user.refused(2, &["address", "balance", foreign]);
    assert!(error.contains("not for cardano/devnet"), "{error}");
}

#[test]
fn stake_credentials_are_answered_only_where_their_index_is_kept() {
    let mut address = [0; 29];
    address.copy_from_slice(&stake(0, Credential::Key(STAKE)));
    let owner = stake_address_text(&address);
    let user = User::with_chain();
    let error = user.refused(4, &["address", "utxos", &owner]);
    assert!(error.contains("[index] stake_credential = false"), "{error}");

    let user = User::new();
    user.write("stake.toml", "[index]\nstake_credential = true\n");
    user.import(&["--config", "stake.toml"]);
    assert_eq!(user.outputs(&[&owner]), user.outputs(&[&address_text(&alice())]));
    let status = user.json(&["chain", "status"]);
    assert!(status["indexes"].as_array().unwrap().contains(&json!("stake_credential")));
}

#[test]
fn pages_of_an_asset_are_full_and_balances_add_up_every_asset() {
    let user = User::with_chain();
    let owner = address_text(&alice());
    let (policy, name) = (hex_encode(&POLICY), hex_encode(NAME));
    let all = user.outputs(&[&owner, "--asset", &policy]);
    assert_eq!(all.len(), COINS);
    for asset in [format!("{policy}{name}"), format!("{policy}.{name}"), format!("{policy}.*")] {
        assert_eq!(user.outputs(&[&owner, "--asset", &asset]), all);
    }
    assert_eq!(user.outputs(&[&owner, "--asset", &format!("{policy}.")]), []);
    let list = ["address", "utxos", &owner, "--asset", &policy, "--page-size", "10"];
    let (mut by_cursor, mut cursor) = (Vec::new(), None::<String>);
    for (page, full) in [("1", 10), ("2", 10), ("3", 5)] {
        let numbered = rows(&user.json(&[&list[..], &["--page", page]].concat()));
        let behind: Vec<_> = cursor.iter().flat_map(|text| ["--cursor", text]).collect();
        let answer = user.json(&[&list[..], &behind].concat());
        assert_eq!((numbered.len(), rows(&answer)), (full, numbered));
        by_cursor.extend(rows(&answer));
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!((by_cursor, cursor), (all, None));
    let error = user.refused(2, &["address", "utxos", &owner, "--asset", "gold"]);
    assert!(error.contains("56 hexadecimal digits"), "{error}");

    let balance = user.json(&["address", "balance", &address_text(&alice_alone())]);
    assert_eq!(balance["lovelace_amount"], "7900000");
    assert_eq!(balance["utxo_count"], 2);
    let of_policy = json!({
        "unit": policy, "policy_id": policy, "asset_name": "", "quantity": "9",
        "fingerprint": "asset1chw4ekacnw230c7f0uc4e0ym3ld2tdn3wsquqy",
    });
    assert_eq!(balance["amounts"][1], of_policy);
    assert_eq!(balance["amounts"][2]["quantity"], u64::MAX.to_string());
    let total = (1..=COINS).sum::<usize>().to_string();
    let balance = user.json(&["address", "balance", &format!("key:{}", hex_encode(&HASH))]);
    assert_eq!(balance["amounts"][2]["unit"], format!("{policy}{name}"));
    assert_eq!(balance["amounts"][2]["quantity"], total);
    assert_eq!(balance["utxo_count"], 2 * COINS + 2);
}

#[test]
fn outputs_show_collateral_returns_datums_scripts_and_spenders() {
    let user = User::with_chain();
    let failed = user.chain.txid(1);
    let returned = user.json(&["utxo", "show", &format!("{}:{}", &failed, "2")]);
    assert_eq!(returned["is_collateral_return"], true);
    assert_eq!(returned["lovelace_amount"], "5500000");
    assert_eq!(returned["owner_addr"], address_text(&contract()));
    assert_eq!((&returned["epoch"], &returned["block"]), (&json!(0), &json!(1)));
    let error = user.refused(3, &["utxo", "show", &format!("{}:{}", &failed, "0")]);
    assert!(error.contains(&format!("output {failed}:0 is not known")), "{error}");

    let first = user.chain.txid(0);
    let collateral = (2 * COINS + 3).to_string();
    let spent = user.json(&["utxo", "show", &format!("{}:{}", &first, &collateral)]);
    assert_eq!(spent["spent_tx_hash"], failed);
    assert_eq!((&spent["spent_at_slot"], &spent["spent_epoch"]), (&json!(1), &json!(0)));

    let locked = (2 * COINS + 2).to_string();
    let locked = user.json(&["utxo", "show", &format!("{}:{}", &first, &locked)]);
    assert_eq!(locked["inline_datum"], hex_encode(&DATUM));
    assert_eq!(
        locked["data_hash"],
        "923918e403bf43c34b4ef6b48eb2ee04babed17320d8d1b9ff9ad086e86f44ec"
    );
    assert_eq!(locked["reference_script_hash"], script_hash());
    assert_eq!(locked["owner_payment_credential_kind"], "script");
    assert!(locked.get("owner_stake_addr").is_none() && locked.get("script_pub_key").is_none());

    let text = user.text(&["utxo", "show", &format!("{}:{}", &failed, "2")]);
    assert!(text.contains("collateral return   yes\n"), "{text}");
    let text = user.text(&["utxo", "show", &format!("{}:{}", &first, "1")]);
    assert!(text.contains(&format!("asset               {}{}", hex_encode(&POLICY), "ff0041 1\n")));
    assert!(text.contains("stake address       stake_test1"), "{text}");
}

#[test]
fn an_index_that_starts_mid_chain_says_so_and_counts_missing_inputs() {
    let user = User::new();
    user.write("late.cbor", user.chain.bytes(1..6));
    let import = ["chain", "import", "--network", "devnet", "--genesis", "shelley.json"];
    let error = user.refused(4, &[&import[..], &["late.cbor"]].concat());
    assert!(error.contains("is not the first block of cardano/devnet"), "{error}");
    let report = user.json(&[&import[..], &["--start-mid-chain", "late.cbor"]].concat());
    assert_eq!((&report["height"], &report["missing_inputs"]), (&json!(5), &json!(2)));
    let status = user.json(&["chain", "status"]);
    assert_eq!((&status["started_mid_chain_at"], &status["utxo_count"]), (&json!(1), &json!(2)));
    assert_eq!(status["missing_inputs"], 2);
    let text = user.text(&["chain", "status"]);
    assert!(text.contains("first block     1: blocks before are missing\n"), "{text}");
    let error = user.refused(3, &["utxo", "show", &format!("{}:{}", &user.chain.txid(0), "1")]);
    assert!(error.contains("only outputs created from height 1 on"), "{error}");
    let owner = address_text(&alice());
    for args in [
        &["address", "balance", &owner][..],
        &["address", "utxos", &owner],
        &["chain", "digest"],
        &[&import[..], &["--start-mid-chain", "late.cbor"]].concat(),
        &["chain", "verify"],
        &["chain", "prune"],
        &["chain", "rollback", "4", "--dry-run"],
        &["chain", "recover"],
    ] {
        assert_eq!(user.json(args)["partial"], json!({ "started_mid_chain_at": 1 }), "{args:?}");
        assert!(user.text(args).contains("only outputs created from height 1 on"), "{args:?}");
    }
    for at in ["0", &"00".repeat(32)] {
        let error = user.refused(3, &["chain", "digest", "--at", at]);
        assert!(error.contains("this index starts at height 1"), "{error}");
    }
}

#[test]
fn a_filter_keeps_only_its_owners_and_stays_part_of_the_database() {
    let user = User::new();
    let config = format!(
        "[chain]\nchain = \"cardano\"\nnetwork = \"devnet\"\ngenesis_shelley = \"shelley.json\"\n\
         [index]\nfilter_addresses = [\"{}\"]\nfilter_credentials = [\"script:{}\"]\n",
        address_text(&alice_alone()),
        hex_encode(&HASH),
    );
    user.write("filter.toml", config);
    user.json(&["chain", "import", "blocks.cbor", "--config", "filter.toml"]);
    let status = user.json(&["chain", "status"]);
    assert_eq!((&status["filter_entries"], &status["utxo_count"]), (&json!(2), &json!(4)));
    for command in ["utxos", "balance"] {
        let error = user.refused(3, &["address", command, &address_text(&alice())]);
        assert!(error.contains("only outputs of 2 addresses and credentials"), "{error}");
    }
    let error = user.refused(3, &["utxo", "show", &format!("{}:{}", &user.chain.txid(0), "1")]);
    assert!(error.contains("not kept here, and may exist"), "{error}");
    let kept = address_text(&alice_alone());
    for args in [
        &["address", "utxos", &kept][..],
        &["address", "balance", &kept],
        &["utxo", "show", &format!("{}:{}", &user.chain.txid(1), "2")],
        &["chain", "digest"],
        &["chain", "status"],
    ] {
        assert_eq!(user.json(args)["partial"], json!({ "filter_entries": 2 }), "{args:?}");
        let text = user.text(args);
        assert!(text.contains("  the index keeps only outputs of 2 addresses"), "{text}");
    }
    assert_eq!(user.outputs(&[&address_text(&alice_alone())]).len(), 2);
    assert_eq!(user.outputs(&[&address_text(&contract())]).len(), 2);

    user.write("none.toml", "[index]\nfilter_addresses = []\n");
    let error = user.refused(4, &["chain", "status", "--config", "none.toml"]);
    assert!(error.contains("was built with a filter of 2"), "{error}");
    user.write("bad.toml", "[index]\nfilter_addresses = [\"moon\"]\n");
    let error = user.refused(2, &["chain", "status", "--config", "bad.toml"]);
    assert!(error.contains("index.filter_addresses: \"moon\""), "{error}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let user = User::new();
    let file = "blocks.cbor";
    let genesis = ["--genesis", "shelley.json"];
    let cases: &[(&[&str], &str)] = &[
        (&["--chain", "cardano", "--network", "regtest"], "\"regtest\" of chain \"cardano\""),
        (&["--chain", "bitcoin", "--network", "preprod"], "\"preprod\" of chain \"bitcoin\""),
        (&["--chain", "cardano", "--network", "devnet"], "--genesis FILE"),
        (&["--network", "regtest", "--start-mid-chain"], "has no meaning for bitcoin/regtest"),
        (&["--network", "preview", "--xor-key", "0102030405060708"], "--xor-key has no meaning"),
        (&["--network", "preview", "--genesis", "shelley.json"], "takes no genesis files"),
        (&["--network", "devnet", "--genesis", "blocks.cbor"], "is not JSON"),
    ];
    for (args, expected) in cases {
        let error = user.refused(2, &[&["chain", "import", file], *args].concat());
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    assert!(!user.home.path().join("data").exists());
    let garbage = user.write("garbage.cbor", [0x82, 0x18, 0x63, 0x80]);
    let import = ["chain", "import", "--network", "devnet", garbage.to_str().unwrap()];
    let error = user.refused(1, &[&import[..], &genesis].concat());
    assert!(error.contains("garbage.cbor"), "{error}");
    assert!(!user.home.path().join("data").exists());

    let user = User::with_chain();
    let error = user.refused(2, &["chain", "import", "--chain", "bitcoin", file]);
    assert!(error.contains("cardano/devnet is not a network of bitcoin"), "{error}");
    let error = user.refused(4, &["chain", "import", "--network", "preview", file]);
    assert!(error.contains("follows cardano/devnet, not cardano/preview"), "{error}");
    let error = user.refused(3, &["utxo", "show", &format!("{}:0", "00".repeat(32))]);
    assert!(error.contains("is not known at height 5"), "{error}");
}
