use super::*;

const REGTEST: Network = Network::BitcoinRegtest;
// Keys of the BIP32 test vectors, and the text that Bitcoin Core prints for an account of its own.
const CORE: &str = "wpkh([0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/0/*)#jgtynm6c";
const ACCOUNT: &str = "[0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ";
const XPUB: &str = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
const XPRV: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";

fn refused(text: &str, network: Network) -> DescriptorError {
    parse_descriptor(text, network).unwrap_err()
}

#[test]
fn the_canonical_text_is_the_one_bitcoin_core_prints() {
    let branches = parse_descriptor(CORE, REGTEST).unwrap();
    assert_eq!(branches, [DescriptorBranch { text: CORE.to_owned(), is_ranged: true }]);
    let body = CORE.split_once('#').unwrap().0;
    let apostrophes = body.replace("84h/1h/0h", "84'/1'/0'");
    for other in [body.to_owned(), apostrophes, format!("  {CORE}\n")] {
        assert_eq!(parse_descriptor(&other, REGTEST).unwrap(), branches, "{other}");
    }
}

#[test]
fn scripts_are_those_bitcoin_core_derives() {
    let derived = derive_scripts(CORE, REGTEST, 487..488).unwrap();
    assert_eq!(derived[0].index, 487);
    assert_eq!(derived[0].address.as_deref(), Some("bcrt1qfrxz3l7yl73r2e2tucp29t8pmf9genkkdhx5nz"));
    assert_eq!(derived[0].spend_weight, Some(272));
    let range = derive_scripts(CORE, REGTEST, 480..490).unwrap();
    assert_eq!(range.len(), 10);
    assert_eq!(range[7], derived[0]);
    assert!(derive_scripts(CORE, REGTEST, INDEX_MAX..INDEX_MAX + 1).unwrap().len() == 1);
    assert!(derive_scripts(CORE, REGTEST, INDEX_MAX + 1..INDEX_MAX + 2).unwrap().is_empty());
}

#[test]
fn paths_in_brackets_are_keychains() {
    let text = format!("wpkh({ACCOUNT}/<0;1>/*)");
    let branches = parse_descriptor(&text, REGTEST).unwrap();
    assert_eq!(branches.len(), 2);
    assert_eq!(branches[0].text, CORE);
    assert!(branches[1].text.contains("/1/*)#"), "{}", branches[1].text);
    assert_eq!(derive_scripts(&text, REGTEST, 0..1), Err(DescriptorError::SeveralKeychains));
    let unequal = format!("wsh(multi(1,{ACCOUNT}/<0;1>/*,{ACCOUNT}/<2;3;4>/*))");
    assert!(parse_descriptor(&unequal, REGTEST).is_err());
}

#[test]
fn a_descriptor_without_a_range_has_one_script() {
    let text = "wpkh(03a053a329a61c71d2a90bdd6b2b7f11e222332d026c9839893409520112951b1e)";
    let branches = parse_descriptor(text, REGTEST).unwrap();
    assert!(!branches[0].is_ranged);
    assert!(branches[0].text.ends_with("#7cg4pswh"));
    let derived = derive_scripts(text, REGTEST, 0..50).unwrap();
    assert_eq!(derived.len(), 1);
    assert_eq!(
        utxokeep_core::hex_encode(&derived[0].script),
        "0014becce4fff87860cfc5191a8858166e8a1a8a9468"
    );
}

#[test]
fn private_keys_are_refused_with_the_public_form() {
    let error = refused(&format!("wpkh({XPRV}/0h/<0;1>/*)"), Network::BitcoinMainnet);
    let DescriptorError::PrivateKeys { public_form } = &error else { panic!("{error}") };
    assert!(!error.to_string().contains("xprv"), "{error}");
    // The hardened step is done, so the public form can be used as it is.
    let branches = parse_descriptor(public_form, Network::BitcoinMainnet).unwrap();
    assert_eq!(branches.len(), 2);
    let wif = "pkh(5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss)";
    assert!(matches!(refused(wif, REGTEST), DescriptorError::PrivateKeys { .. }));
}

#[test]
fn a_broken_private_key_is_not_repeated_in_the_message() {
    let broken = XPRV.replace("Hi", "Hj");
    let message = refused(&format!("wpkh({broken}/0/*)"), Network::BitcoinMainnet).to_string();
    assert!(!message.contains(&broken[10..]), "{message}");
}

#[test]
fn keys_of_another_network_are_refused() {
    let text = format!("wpkh({XPUB}/0/*)");
    assert!(parse_descriptor(&text, Network::BitcoinMainnet).is_ok());
    assert_eq!(refused(&text, REGTEST), DescriptorError::WrongNetwork { expected: REGTEST });
    let mixed = format!("wsh(multi(1,{XPUB}/0/*,{ACCOUNT}/0/*))");
    assert_eq!(refused(&mixed, REGTEST), DescriptorError::WrongNetwork { expected: REGTEST });
    let error = refused(&text, Network::CardanoMainnet);
    assert!(matches!(error, DescriptorError::NoDescriptors { .. }));
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let hardened = format!("wpkh({XPUB}/0h/*)");
    let hardened_range = format!("wpkh({XPUB}/*h)");
    let long = format!("wpkh({})", "0".repeat(DESCRIPTOR_CHARS_MAX));
    let deep = format!("sh({}", "sh(".repeat(3_000));
    for text in ["", "wpkh", "wpkh()", "hello", "wpkh(ä)", "addr(x)", &hardened, &hardened_range] {
        assert!(parse_descriptor(text, Network::BitcoinMainnet).is_err(), "{text}");
    }
    assert!(parse_descriptor(&long, Network::BitcoinMainnet).is_err());
    assert!(parse_descriptor(&deep, Network::BitcoinMainnet).is_err());
    let mistyped = CORE.replace("jgtynm6c", "jgtynm6d");
    assert!(matches!(refused(&mistyped, REGTEST), DescriptorError::BadChecksum { .. }));
}
