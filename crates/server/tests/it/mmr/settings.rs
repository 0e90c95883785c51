//! `[index] store` and `mmr_rule` against what the database is.

use super::*;
use crate::devnet::{Devnet, genesis};

const ROOT: [&str; 3] = ["chain", "mmr", "root"];

#[test]
fn a_setting_that_differs_from_the_database_says_what_to_do() {
    let classic = User::with_chain("");
    classic.configure(MMR);
    let error = classic.refused(4, &["chain", "status"]);
    assert!(error.contains("build it with `chain mmr enable`, or take the setting out"), "{error}");

    let tree = User::with_chain(MMR);
    tree.configure("[index]\nstore = \"classic\"\n");
    for words in [&["chain", "status"], &["chain", "verify"]] {
        let error = tree.refused(4, words);
        assert!(error.contains("drop the range with `chain mmr disable`"), "{error}");
    }
    tree.configure(UTREEXO);
    let error = tree.refused(4, &["chain", "status"]);
    assert!(error.contains("`chain mmr enable --rule utreexo`"), "{error}");
    // What the message says works, with the configuration as it is.
    let error = tree.refused(4, &["chain", "mmr", "enable", &blocks()]);
    assert!(error.contains("with the rule tombstone; drop it with `chain mmr disable`"), "{error}");
    tree.done(&["chain", "mmr", "disable"]);
    tree.done(&["chain", "mmr", "enable", &blocks()]);
    assert_eq!(tree.json(&ROOT)["rule"], "utreexo");
    // Without the setting the database decides, and so does its rule.
    for text in ["", MMR] {
        tree.configure(text);
        assert_eq!(tree.json(&ROOT)["rule"], "utreexo", "{text}");
    }
}

/// Settings of a private Cardano chain, and of its index.
fn devnet(chain: &str, index: &str) -> String {
    format!(
        "[chain]\nchain = \"cardano\"\nnetwork = \"devnet\"\ngenesis_shelley = \"shelley.json\"\n\
         {chain}\n[index]\n{index}\n"
    )
}

fn on_devnet(config: &str) -> User {
    let user = User::new();
    fs::write(user.path("shelley.json"), genesis()).unwrap();
    fs::write(user.path("blocks.cbor"), Devnet::new().bytes(0..6)).unwrap();
    user.configure(config);
    user
}

#[test]
fn an_index_that_does_not_see_every_output_is_refused_a_tree() {
    const STORE: &str = "store = \"mmr\"";
    let credential = "key:9493315cd92eb5d8c4304e67b7e16ae36d61d34502694657811a2c8e";
    let filter = format!("filter_credentials = [\"{credential}\"]");
    let off = "enabled = false";
    let cases = [
        (devnet("", &format!("{STORE}\n{off}")), "keeps no outputs at all"),
        (devnet("start_mid_chain = true", STORE), "has not seen the outputs before"),
        (devnet("", &format!("{STORE}\n{filter}")), "keep only some outputs"),
        (devnet("", &format!("{STORE}\nmmr_rule = \"utreexo\"")), "is for Bitcoin"),
    ];
    let import = ["chain", "import", "blocks.cbor"];
    for (config, expected) in cases {
        let user = on_devnet(&config);
        let error = user.refused(4, &import);
        assert!(error.contains(expected), "{error}");
        assert!(!user.path("data/CURRENT").exists(), "{config}");
    }
    // Nor can one be built for such a database.
    let enable = ["chain", "mmr", "enable", "blocks.cbor"];
    for (config, expected) in [
        (devnet("", off), "keeps no outputs at all"),
        (devnet("", &filter), "keep only some outputs"),
    ] {
        let user = on_devnet(&config);
        user.done(&import);
        let error = user.refused(4, &enable);
        assert!(error.contains(expected), "{error}");
    }
    let user = on_devnet(&devnet("start_mid_chain = true", ""));
    fs::write(user.path("blocks.cbor"), Devnet::new().bytes(2..6)).unwrap();
    user.done(&import);
    user.configure(&devnet("", ""));
    let error = user.refused(4, &enable);
    assert!(error.contains("it started in the middle of the chain; a root needs an"), "{error}");
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
}

#[test]
fn a_cardano_chain_has_the_same_root_imported_and_enabled() {
    let imported = on_devnet(&devnet("", "store = \"mmr\""));
    imported.done(&["chain", "import", "blocks.cbor"]);
    let expected = imported.json(&ROOT);
    let enabled = on_devnet(&devnet("", ""));
    enabled.done(&["chain", "import", "blocks.cbor"]);
    let error = enabled.refused(4, &["chain", "mmr", "enable"]);
    assert!(error.contains("the blocks from height 0 to 0 are needed"), "{error}");
    enabled.done(&["chain", "mmr", "enable", "blocks.cbor"]);
    assert_eq!(enabled.json(&ROOT), expected);
    assert_eq!(enabled.json(&["chain", "verify"])["mmr_root"], expected["root"]);
    // Alice's first output is spent by the third block, the collateral return of the second is not.
    let chain = Devnet::new();
    let words = |block: usize, index: &str| [chain.txid(block), index.to_owned()];
    for ([txid, index], state, at) in [
        (words(0, "0"), "spent", "5"),
        (words(0, "0"), "unspent", "1"),
        (words(1, "2"), "unspent", "5"),
    ] {
        let proof = enabled.json(&["chain", "mmr", "prove", &txid, &index, "--at", at]);
        assert_eq!(proof["state"], state, "{txid}:{index}");
    }
}

#[test]
fn the_demo_keeps_a_tree_where_the_configuration_says_so() {
    let user = User::new();
    user.configure(MMR);
    user.done(&["demo", "--blocks", "30"]);
    let root = user.json(&ROOT);
    assert_eq!(root["height"], user.json(&["chain", "status"])["height"]);
    assert_eq!(user.json(&["chain", "verify"])["mmr_root"], root["root"]);
}
