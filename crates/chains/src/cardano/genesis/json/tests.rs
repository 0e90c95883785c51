use super::*;

const SHELLEY_FILE: &str = r#"{
    "systemStart": "2024-07-01T17:49:38Z", "networkMagic": 42, "networkId": "Testnet",
    "securityParam": 5, "epochLength": 120, "slotLength": 0.1, "unknown": [1, {"a": null}],
    "initialFunds": { "6029390bd6": 29993040000000000, "60": 7 }
}"#;

const BYRON_FILE: &str = r#"{
    "startTime": 1719856178, "protocolConsts": { "protocolMagic": 42, "k": 5 },
    "blockVersionData": { "slotDuration": "250" },
    "nonAvvmBalances": { "2657WMsDfac6RsAH5cAsfRNaLbhqnuQy8pnFvoDNjNfeqkgChfDBxxSXEBqUxkHYn": "9" },
    "avvmDistr": { "-0BJDi-gauylk4LptQTgjMeo7kY9lTCbZv12vwOSTZk=": "9999300000000" }
}"#;

fn with(text: &str, from: &str, to: &str) -> String {
    let changed = text.replace(from, to);
    assert_ne!(changed, text);
    changed
}

#[test]
fn a_private_chain_is_read_from_its_files() {
    let genesis = read(None, SHELLEY_FILE.as_bytes()).unwrap();
    assert_eq!(genesis.hash(), BlockHash::default());
    assert_eq!((genesis.network_magic(), genesis.network_id()), (42, 0));
    assert_eq!((genesis.security_blocks(), genesis.slot_start_of_shelley()), (5, 0));
    assert_eq!(genesis.epoch_and_time(0), (0, 1_719_856_178));
    assert_eq!(genesis.epoch_and_time(239), (1, 1_719_856_201));
    let mut funds: Vec<_> = genesis.outputs().iter().map(|output| output.value).collect();
    funds.sort_unstable();
    assert_eq!(funds, [7, 29_993_040_000_000_000]);
    let shortest = genesis.outputs().iter().find(|output| output.value == 7).unwrap();
    assert_eq!(shortest.txid.as_bytes(), &blake2b_256(&[&[0x60]]));

    let genesis = read(Some(BYRON_FILE.as_bytes()), SHELLEY_FILE.as_bytes()).unwrap();
    assert_ne!(genesis.hash(), BlockHash::default());
    assert_eq!(genesis.outputs().len(), 4);
    assert_eq!(genesis.byron_slot(2, 1), 101);
    let voucher = genesis.outputs().iter().find(|output| output.value == 9_999_300_000_000);
    let voucher = &voucher.unwrap().address;
    assert!(utxokeep_core::cardano::is_redeem_address(voucher));
    let of_mainnet = public::mainnet_outputs().iter().any(|output| output.address == *voucher);
    assert!(!of_mainnet, "addresses of a test network name it");
    let mainnet = with(SHELLEY_FILE, "Testnet", "Mainnet");
    let genesis = read(Some(BYRON_FILE.as_bytes()), mainnet.as_bytes()).unwrap();
    let voucher = genesis.outputs().iter().find(|output| output.value == 9_999_300_000_000);
    assert!(public::mainnet_outputs().contains(voucher.unwrap()));
}

#[test]
fn the_looks_of_a_file_do_not_change_its_hash() {
    let hash = |text: &str| canonical_hash(&serde_json::from_str(text).unwrap());
    let expected = BlockHash::from_bytes(blake2b_256(&[br#"{"a":[1,"x\"y"],"b":{"c":null}}"#]));
    assert_eq!(hash(r#"{"a":[1,"x\"y"],"b":{"c":null}}"#), expected);
    assert_eq!(hash("{ \"b\":\n{\"c\" : null}, \"a\": [ 1, \"x\\\"y\" ]}"), expected);
}

#[test]
fn unusable_files_are_refused_with_the_field() {
    for (from, to, named) in [
        ("\"epochLength\": 120", "\"epochLength\": 0", "epochLength"),
        ("0.1", "-1", "slotLength"),
        ("0.1", "0.0001", "slotLength"),
        ("\"securityParam\": 5", "\"securityParam\": 0", "securityParam"),
        ("Testnet", "Nonet", "networkId"),
        ("2024-07-01T17", "2024-17-01T17", "systemStart"),
        ("\"60\"", "\"6\"", "initialFunds"),
        (": 7", ": -7", "initialFunds"),
        ("\"60\"", "\"6029390BD6\"", "initialFunds"),
        ("\"networkMagic\": 42,", "", "networkMagic"),
        ("{", "[", "Shelley genesis"),
    ] {
        let changed = with(SHELLEY_FILE, from, to);
        let error = read(None, changed.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
    for (from, to, named) in [
        ("-0BJDi", "!0BJDi", "avvmDistr"),
        ("2657WMs", "0657WMs", "nonAvvmBalances"),
        ("\"250\"", "\"0\"", "slotDuration"),
        ("\"k\": 5", "\"k\": 0", "field k"),
        ("\"9\"", "\"nine\"", "nonAvvmBalances"),
    ] {
        let changed = with(BYRON_FILE, from, to);
        let result = read(Some(changed.as_bytes()), SHELLEY_FILE.as_bytes());
        let error = result.unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn times_are_read_as_nodes_write_them() {
    for (text, expected) in [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("2017-09-23T21:44:51Z", Some(1_506_203_091_000)),
        ("2022-10-25T00:00:00Z", Some(1_666_656_000_000)),
        ("2024-02-29T12:00:00.25Z", Some(1_709_208_000_250)),
        ("2024-07-01T17:49:38.123456789Z", Some(1_719_856_178_123)),
        ("1969-12-31T23:59:59Z", None),
        ("2024-07-01 17:49:38", None),
        ("2024-07-01T17:49Z", None),
        ("2024-07-01T17:49:38.xZ", None),
        ("", None),
    ] {
        assert_eq!(unix_ms(text), expected, "{text}");
    }
}
