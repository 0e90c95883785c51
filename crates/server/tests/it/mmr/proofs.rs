//! `chain mmr prove` and `chain mmr check`: what holds, and what is refused.

use super::*;

fn check(user: &User, file: &str, args: &[&str]) -> Output {
    user.run(&[&["chain", "mmr", "check", file, "--json"], args].concat())
}

#[test]
fn a_proof_of_either_format_holds_and_says_what_it_proves() {
    let user = User::with_chain(MMR);
    let root = user.root();
    fs::write(user.path("root.json"), root.to_string()).unwrap();
    for (format, name) in [("json", "proof.json"), ("cbor", "proof.cbor")] {
        user.prove(LIVE, name, &["--format", format]);
        let alone: Value =
            serde_json::from_str(&user.done(&["chain", "mmr", "check", name, "--json"])).unwrap();
        assert_eq!((&alone["holds"], &alone["state"]), (&true.into(), &"unspent".into()));
        assert_eq!(alone["tx_hash"], LIVE[0]);
        assert_eq!(alone["output_index"].to_string(), LIVE[1]);
        assert_eq!(alone["root"], root["root"]);
        assert_eq!(alone["root_was_given"], false);
        let shown = user.json(&["utxo", "show", &LIVE.join(":")]);
        assert_eq!(alone["amount"], shown["amount"]);

        let trusted = root["root"].as_str().unwrap();
        let text = user.done(&["chain", "mmr", "check", name, "--root", trusted]);
        assert!(text.contains("The root is the one given. Height and block are"), "{text}");
        let text = user.done(&["chain", "mmr", "check", name, "--root", "root.json"]);
        assert!(text.contains("Root, height and block are those of the file given."), "{text}");
        let text = user.done(&["chain", "mmr", "check", name]);
        assert!(text.contains("The output is unspent under this root."), "{text}");
        assert!(text.contains("from a node that you trust"), "{text}");
    }
    // Without a file the proof is the result, in one word too.
    let word = format!("{}:{}", LIVE[0], LIVE[1]);
    let printed = user.done(&["chain", "mmr", "prove", &word]);
    assert_eq!(printed, fs::read_to_string(user.path("proof.json")).unwrap());
    let error = user.refused(4, &["chain", "mmr", "prove", &word, "--out", "proof.json"]);
    assert!(error.contains("an existing file is not replaced"), "{error}");
}

#[test]
fn a_spent_output_is_proven_spent_now_and_unspent_before() {
    let user = User::with_chain(MMR);
    let shown = user.json(&["utxo", "show", &SPENT.join(":")]);
    let spent_at = shown["spent_at_block"].as_u64().unwrap();
    let now = user.prove(SPENT, "now.json", &[]);
    let before = (spent_at - 1).to_string();
    let then = user.prove(SPENT, "then.json", &["--at", &before]);
    let [now, then]: [Value; 2] =
        [now, then].map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap());
    assert_eq!((&now["state"], &then["state"]), (&"spent".into(), &"unspent".into()));
    assert_eq!(now["leaf"], then["leaf"], "a leaf never moves");
    assert_eq!(now.get("tx_hash"), None, "a tombstone names no output");
    let text = user.done(&["chain", "mmr", "check", "now.json"]);
    assert!(text.contains("The leaf is spent under this root."), "{text}");
    // The older proof is stale: it is none under the new root.
    let root = now["root"].as_str().unwrap();
    let error = user.refused(5, &["chain", "mmr", "check", "then.json", "--root", root]);
    assert!(error.contains("of another root than the one it is checked against"), "{error}");
}

#[test]
fn a_proof_that_was_changed_anywhere_is_refused() {
    let user = User::with_chain(MMR);
    let file = user.prove(LIVE, "proof.json", &[]);
    let good: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let root = user.root();
    fs::write(user.path("root.json"), root.to_string()).unwrap();
    let fields: Vec<String> = good.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields.len(), 13);
    for field in &fields {
        let mut forged = good.clone();
        forged[field] = changed(&good[field]);
        fs::write(user.path("forged.json"), forged.to_string()).unwrap();
        // Height and block are bound by the file of the root, everything else by the hashes.
        let output = check(&user, "forged.json", &["--root", "root.json"]);
        assert_eq!(output.status.code(), Some(5), "{field}: {}", told(&output));
        let mut without = good.clone();
        without.as_object_mut().unwrap().remove(field);
        fs::write(user.path("forged.json"), without.to_string()).unwrap();
        assert_eq!(check(&user, "forged.json", &[]).status.code(), Some(5), "without {field}");
    }
    let mut with = good;
    with["note"] = "trust me".into();
    fs::write(user.path("forged.json"), with.to_string()).unwrap();
    assert_eq!(check(&user, "forged.json", &[]).status.code(), Some(5));
    user.prove(LIVE, "proof.cbor", &["--format", "cbor"]);
    let bytes = fs::read(user.path("proof.cbor")).unwrap();
    for len in (0..bytes.len()).step_by(37) {
        fs::write(user.path("cut.cbor"), &bytes[..len]).unwrap();
        assert_eq!(check(&user, "cut.cbor", &[]).status.code(), Some(5), "{len} bytes");
    }
}

/// The same kind of value, and another one.
pub(super) fn changed(value: &Value) -> Value {
    match value {
        Value::Number(number) => (number.as_u64().unwrap() ^ 1).into(),
        Value::String(text) => {
            let last = if text.ends_with('0') { '1' } else { '0' };
            format!("{}{last}", &text[..text.len() - 1]).into()
        }
        Value::Array(list) => {
            let mut list = list.clone();
            list[0] = changed(&list[0]);
            list.into()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_proof_or_no_root_is_refused_by_name() {
    let user = User::new();
    let check = |name: &str| ["chain", "mmr", "check", name].map(str::to_owned);
    let refused = |code, words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        user.refused(code, &words)
    };
    fs::write(user.path("text"), "not a proof").unwrap();
    fs::write(user.path("empty"), "").unwrap();
    fs::write(user.path("other.json"), "{\"rule\": \"new\"}").unwrap();
    fs::write(user.path("long"), vec![b' '; (1 << 20) + 1]).unwrap();
    for name in ["text", "empty", "other.json"] {
        assert!(refused(5, &check(name)).contains("not a proof"), "{name}");
    }
    assert!(refused(2, &check("long")).contains("more than 1048576 bytes"));
    assert!(refused(1, &check("absent")).contains("cannot read absent"));
    let error = user.refused(2, &["chain", "mmr", "check", "text", "--root", "abcd"]);
    assert!(error.contains("is neither 64 hexadecimal digits nor a readable file"), "{error}");
}

/// A proof that was given as the root it is checked against vouched for itself, and the rule of a root
/// file was not compared.
#[test]
fn a_proof_does_not_vouch_for_itself_and_a_root_of_another_rule_is_none() {
    let user = User::with_chain(MMR);
    user.prove(LIVE, "proof.json", &[]);
    let error = user.refused(2, &["chain", "mmr", "check", "proof.json", "--root", "proof.json"]);
    assert!(error.contains("is a proof itself"), "{error}");
    let mut root = user.root();
    root["rule"] = "utreexo".into();
    fs::write(user.path("other.json"), root.to_string()).unwrap();
    let error = user.refused(5, &["chain", "mmr", "check", "proof.json", "--root", "other.json"]);
    assert!(error.contains("another rule"), "{error}");
}

/// The code of `chain mmr check` did not say whether the output is unspent, nor whose proof it was.
#[test]
fn a_script_can_ask_for_an_unspent_output_of_a_name() {
    let user = User::with_chain(MMR);
    user.prove(LIVE, "live.json", &[]);
    user.prove(SPENT, "spent.json", &[]);
    let (live, spent) = (LIVE.join(":"), SPENT.join(":"));
    user.done(&["chain", "mmr", "check", "live.json", "--unspent", "--output", &live]);
    let upper = format!("{}:{}", LIVE[0].to_uppercase(), LIVE[1]);
    user.done(&["chain", "mmr", "check", "live.json", "--output", &upper]);
    user.done(&["chain", "mmr", "check", "spent.json"]);
    let error = user.refused(4, &["chain", "mmr", "check", "spent.json", "--unspent"]);
    assert!(error.contains("leaf 1483 is spent after the block at height 300"), "{error}");
    let error = user.refused(4, &["chain", "mmr", "check", "live.json", "--output", &spent]);
    assert!(error.contains(&format!("is of output {live}; --output asks for {spent}")), "{error}");
    let next = format!("{}:5791", LIVE[0]);
    let error = user.refused(4, &["chain", "mmr", "check", "live.json", "--output", &next]);
    assert!(error.contains("--output asks for"), "{error}");
    // A tombstone names nobody, so that it is a proof about no named output.
    let error = user.refused(4, &["chain", "mmr", "check", "spent.json", "--output", &spent]);
    assert!(error.contains("without saying whose it was"), "{error}");
    let error = user.refused(2, &["chain", "mmr", "check", "live.json", "--output", LIVE[0]]);
    assert!(error.contains("expected an output"), "{error}");
    // What is refused is refused first.
    let mut forged: Value =
        serde_json::from_slice(&fs::read(user.path("spent.json")).unwrap()).unwrap();
    forged["leaf"] = 1484.into();
    fs::write(user.path("forged.json"), forged.to_string()).unwrap();
    assert_eq!(check(&user, "forged.json", &["--unspent"]).status.code(), Some(5));
}

/// The same blocks have the same leaves on every network, so that only the names tell two chains
/// apart: a root commits to neither.
#[test]
fn a_proof_of_another_network_or_chain_is_refused_by_the_root_of_ours() {
    let user = User::with_chain(MMR);
    fs::write(user.path("root.json"), user.root().to_string()).unwrap();
    let file = user.prove(LIVE, "proof.json", &[]);
    let good: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for network in ["bitcoin/mainnet", "bitcoin/testnet4", "cardano/mainnet", "cardano/preview"] {
        let mut other = good.clone();
        other["network"] = network.into();
        if network.starts_with("cardano/") {
            // There hashes are written in their own order, so that the leaf is the same.
            for field in ["tx_hash", "block_hash"] {
                other[field] = reversed(good[field].as_str().unwrap()).into();
            }
        }
        fs::write(user.path("other.json"), other.to_string()).unwrap();
        // By itself it holds, and says which network it claims to be of.
        let alone = check(&user, "other.json", &[]);
        let said: Value = serde_json::from_slice(&alone.stdout).unwrap();
        assert_eq!((&said["holds"], &said["network"]), (&true.into(), &network.into()));
        let error =
            user.refused(5, &["chain", "mmr", "check", "other.json", "--root", "root.json"]);
        assert!(error.contains("the proof is of another network"), "{network}: {error}");
    }
    let mut unknown = good.clone();
    unknown["network"] = "dogecoin/mainnet".into();
    fs::write(user.path("other.json"), unknown.to_string()).unwrap();
    assert_eq!(check(&user, "other.json", &[]).status.code(), Some(5));
    // Another chain of the same network: the blocks up to 200 and one more are not those up to 300.
    user.done(&["chain", "rollback", "200"]);
    fs::write(user.path("shorter.json"), user.root().to_string()).unwrap();
    let error = user.refused(5, &["chain", "mmr", "check", "proof.json", "--root", "shorter.json"]);
    assert!(error.contains("the proof is of another height"), "{error}");
}

fn reversed(hash: &str) -> String {
    let bytes: Vec<&str> = (0..32).rev().map(|at| &hash[2 * at..2 * at + 2]).collect();
    bytes.concat()
}
