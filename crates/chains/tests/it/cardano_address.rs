//! Texts of owners on Cardano: the vectors of CIP-19, and what must be refused.

use bitcoin::{
    base58,
    bech32::{self, Bech32, Bech32m, Hrp},
};
use utxokeep_chains::cardano::{
    CardanoAddressError, Owner, address_text, parse_credential, parse_owner, stake_address_text,
};
use utxokeep_core::{
    IndexKey, Network,
    cardano::{Credential, CredentialKind},
    hex_decode, hex_encode,
};

const MAINNET: Network = Network::CardanoMainnet;
const PREPROD: Network = Network::CardanoPreprod;
const PREVIEW: Network = Network::CardanoPreview;

const KEY: &str = "9493315cd92eb5d8c4304e67b7e16ae36d61d34502694657811a2c8e";
const STAKE: &str = "337b62cfff6403a06a3acbc34f8c46003c69fe79a3628cefa9c47251";
const SCRIPT: &str = "c37b1b5dc0669f1d3c61a6fddb2e8fde96be87b881c60bce8e8d542f";
/// Slot 2,498,243, transaction 27, certificate 3.
const POINTER: &str = "8198bd431b03";

/// Type of the address, what follows its header, its text on the main and on a test network.
const VECTORS: [(u8, &[&str], &str, &str); 10] = [
    (
        0,
        &[KEY, STAKE],
        "addr1qx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer3n0d3vllmyqwsx5wktcd8cc3sq835lu7drv2xwl2wywfgse35a3x",
        "addr_test1qz2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer3n0d3vllmyqwsx5wktcd8cc3sq835lu7drv2xwl2wywfgs68faae",
    ),
    (
        1,
        &[SCRIPT, STAKE],
        "addr1z8phkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gten0d3vllmyqwsx5wktcd8cc3sq835lu7drv2xwl2wywfgs9yc0hh",
        "addr_test1zrphkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gten0d3vllmyqwsx5wktcd8cc3sq835lu7drv2xwl2wywfgsxj90mg",
    ),
    (
        2,
        &[KEY, SCRIPT],
        "addr1yx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzerkr0vd4msrxnuwnccdxlhdjar77j6lg0wypcc9uar5d2shs2z78ve",
        "addr_test1yz2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzerkr0vd4msrxnuwnccdxlhdjar77j6lg0wypcc9uar5d2shsf5r8qx",
    ),
    (
        3,
        &[SCRIPT, SCRIPT],
        "addr1x8phkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gt7r0vd4msrxnuwnccdxlhdjar77j6lg0wypcc9uar5d2shskhj42g",
        "addr_test1xrphkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gt7r0vd4msrxnuwnccdxlhdjar77j6lg0wypcc9uar5d2shs4p04xh",
    ),
    (
        4,
        &[KEY, POINTER],
        "addr1gx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer5pnz75xxcrzqf96k",
        "addr_test1gz2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer5pnz75xxcrdw5vky",
    ),
    (
        5,
        &[SCRIPT, POINTER],
        "addr128phkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtupnz75xxcrtw79hu",
        "addr_test12rphkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtupnz75xxcryqrvmw",
    ),
    (
        6,
        &[KEY],
        "addr1vx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzers66hrl8",
        "addr_test1vz2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzerspjrlsz",
    ),
    (
        7,
        &[SCRIPT],
        "addr1w8phkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtcyjy7wx",
        "addr_test1wrphkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtcl6szpr",
    ),
    (
        14,
        &[STAKE],
        "stake1uyehkck0lajq8gr28t9uxnuvgcqrc6070x3k9r8048z8y5gh6ffgw",
        "stake_test1uqehkck0lajq8gr28t9uxnuvgcqrc6070x3k9r8048z8y5gssrtvn",
    ),
    (
        15,
        &[SCRIPT],
        "stake178phkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtcccycj5",
        "stake_test17rphkx6acpnf78fuvxn0mkew3l0fd058hzquvz7w36x4gtcljw6kf",
    ),
];

/// Byron: with a derivation path and a network, with a path, with neither.
const BYRON_TEST: &str = "37btjrVyb4KDXBNC4haBVPCrro8AQPHwvCMp3RFhhSVWwfFmZ6wwzSK6JK1hY6wHNmtrpTf1kdbva8TCneM2YsiXT7mrzT21EacHnPpz5YyUdj64na";
const BYRON_MAIN: [&str; 2] = [
    "DdzFFzCqrht7PQiAhzrn6rNNoADJieTWBt8KeK9BZdUsGyX9ooYD9NpMCTGjQoUKcHN47g8JMXhvKogsGpQHtiQ65fZwiypjrC6d3a4Q",
    "Ae2tdPwUPEZLs4HtbuNey7tK4hTKrwNwYtGqp7bDfCy2WdR3P6735W5Yfpe",
];

fn hash(hex: &str) -> [u8; 28] {
    hex_decode(hex).unwrap().try_into().unwrap()
}

fn key(hex: &str) -> Credential {
    Credential { kind: CredentialKind::Key, hash: hash(hex) }
}

fn script(hex: &str) -> Credential {
    Credential { kind: CredentialKind::Script, hash: hash(hex) }
}

fn bech32_of(prefix: &str, hex: &str) -> String {
    bech32::encode::<Bech32>(Hrp::parse(prefix).unwrap(), &hex_decode(hex).unwrap()).unwrap()
}

/// A Byron address with these attributes.
fn byron(attributes: &[u8]) -> Vec<u8> {
    let payload = [&[0x83, 0x58, 28][..], &[7; 28], attributes, &[0]].concat();
    let mut address = Vec::new();
    let mut encoder = minicbor::Encoder::new(&mut address);
    encoder.array(2).unwrap().tag(minicbor::data::Tag::new(24)).unwrap();
    encoder.bytes(&payload).unwrap().u32(crc32fast::hash(&payload)).unwrap();
    address
}

#[test]
fn addresses_of_every_type_are_read_and_written() {
    for (kind, parts, main, test) in VECTORS {
        for (network, network_id, text) in [(MAINNET, 1, main), (PREPROD, 0, test)] {
            let bytes = hex_decode(&format!("{:02x}{}", kind << 4 | network_id, parts.concat()));
            let bytes = bytes.unwrap();
            let owner = match kind {
                14 => Owner::Stake(key(STAKE)),
                15 => Owner::Stake(script(SCRIPT)),
                _ => Owner::Address(bytes.clone()),
            };
            for text in [text, &text.to_uppercase(), &hex_encode(&bytes)] {
                assert_eq!(parse_owner(text, network).as_ref(), Ok(&owner), "{text}");
            }
            assert_eq!(address_text(&bytes), text);
            if let Ok(stake) = <&[u8; 29]>::try_from(bytes.as_slice()) {
                assert_eq!(stake_address_text(stake), text);
            }
        }
    }
}

#[test]
fn byron_addresses_are_read_and_written() {
    let long = byron(&[&[0xa1, 1, 0x59, 0x0e, 0x10][..], &[0x5a; 3_600]].concat());
    let long = base58::encode(&long);
    assert!(long.len() > 4_900);
    for (text, network) in [
        (BYRON_TEST, PREPROD),
        (BYRON_TEST, PREVIEW),
        (BYRON_TEST, Network::CardanoDevnet),
        (BYRON_MAIN[0], MAINNET),
        (BYRON_MAIN[1], MAINNET),
        (&long, MAINNET),
    ] {
        let bytes = base58::decode(text).unwrap();
        let owner = Owner::Address(bytes.clone());
        assert_eq!(parse_owner(text, network).as_ref(), Ok(&owner), "{text}");
        assert_eq!(parse_owner(&hex_encode(&bytes), network), Ok(owner));
        assert_eq!(address_text(&bytes), text);
    }
}

#[test]
fn credentials_are_read_in_every_form() {
    let payment = Owner::Payment(key(KEY));
    let by_script = Owner::Payment(script(SCRIPT));
    let stake = Owner::Stake(key(STAKE));
    for (text, owner) in [
        (bech32_of("addr_vkh", KEY), &payment),
        (bech32_of("addr_shared_vkh", KEY), &payment),
        (format!("key:{KEY}"), &payment),
        ("script1cda3khwqv60360rp5m7akt50m6ttapacs8rqhn5w342z7r35m37".to_owned(), &by_script),
        (format!("script:{SCRIPT}"), &by_script),
        (bech32_of("stake_vkh", STAKE), &stake),
        (bech32_of("stake_shared_vkh", STAKE), &stake),
    ] {
        assert_eq!(parse_owner(&text, MAINNET).as_ref(), Ok(owner), "{text}");
        assert_eq!(parse_credential(&text, None).as_ref(), Ok(owner), "{text}");
    }
    assert_eq!(parse_credential(KEY, Some(CredentialKind::Key)), Ok(payment));
    assert_eq!(parse_credential(SCRIPT, Some(CredentialKind::Script)), Ok(by_script));
}

#[test]
fn a_credential_without_its_kind_or_with_another_is_refused() {
    for refused in [parse_owner(KEY, MAINNET), parse_credential(KEY, None)] {
        let error = refused.unwrap_err();
        assert_eq!(error, CardanoAddressError::BareCredential { text: KEY.to_owned() });
        assert!(error.to_string().contains(&format!("script:{KEY}")), "{error}");
    }
    let conflict = parse_credential(&bech32_of("addr_vkh", KEY), Some(CredentialKind::Script));
    assert!(conflict.unwrap_err().to_string().contains("hash of a key"));
    let short = CardanoAddressError::HashLength { len: 27 };
    for text in [bech32_of("script", &KEY[2..]), format!("key:{}", &KEY[2..])] {
        assert_eq!(parse_owner(&text, MAINNET).unwrap_err(), short);
    }
    assert_eq!(parse_credential(&KEY[2..], Some(CredentialKind::Key)).unwrap_err(), short);
    let address = parse_credential(VECTORS[0].2, None).unwrap_err();
    assert!(matches!(address, CardanoAddressError::Prefix { .. }), "{address}");
    assert!(parse_credential("key:xyz", None).is_err() && parse_credential("", None).is_err());
}

#[test]
fn keys_of_the_index_keep_owners_apart() {
    let (_, _, text, _) = VECTORS[0];
    let address = parse_owner(text, MAINNET).unwrap();
    let bytes = hex_decode(&format!("01{KEY}{STAKE}")).unwrap();
    assert_eq!(address.index_key(MAINNET), IndexKey::address(MAINNET, &bytes));
    let payment = Owner::Payment(key(KEY)).index_key(MAINNET);
    let stake = Owner::Stake(key(STAKE)).index_key(MAINNET);
    assert_eq!(IndexKey::credentials(MAINNET, &bytes), [Some(payment), Some(stake)]);
    assert_ne!(payment, Owner::Payment(script(KEY)).index_key(MAINNET));
    assert_ne!(payment, Owner::Stake(key(KEY)).index_key(MAINNET));
}

#[test]
fn bytes_behind_an_address_do_not_make_another_owner() {
    let base = format!("01{KEY}{STAKE}");
    let owner = parse_owner(&base, MAINNET).unwrap();
    let garbage = format!("{base}{}", "ab".repeat(22));
    assert_eq!(parse_owner(&garbage, MAINNET).as_ref(), Ok(&owner));
    assert_eq!(parse_owner(&bech32_of("addr", &garbage), MAINNET), Ok(owner));
    assert_eq!(address_text(&hex_decode(&garbage).unwrap()), VECTORS[0].2);
    let byron = base58::decode(BYRON_MAIN[1]).unwrap();
    let longer = [byron.as_slice(), &[1, 2, 3]].concat();
    let read = parse_owner(&hex_encode(&longer), MAINNET).unwrap();
    assert_eq!(read, Owner::Address(byron));
    assert_eq!(address_text(&longer), BYRON_MAIN[1]);
}

#[test]
fn addresses_of_another_network_are_refused_by_name() {
    for (_, _, main, test) in VECTORS {
        let error = parse_owner(main, PREVIEW).unwrap_err().to_string();
        assert!(error.contains("for cardano/mainnet, not for cardano/preview"), "{error}");
        let error = parse_owner(test, MAINNET).unwrap_err().to_string();
        assert!(error.contains("test networks, not for cardano/mainnet"), "{error}");
    }
    for (text, network) in
        [(BYRON_TEST, MAINNET), (BYRON_MAIN[0], PREPROD), (BYRON_MAIN[1], PREVIEW)]
    {
        let error = parse_owner(text, network).unwrap_err();
        assert!(matches!(error, CardanoAddressError::WrongNetwork { .. }), "{error}");
    }
}

#[test]
fn mistyped_texts_are_refused() {
    let text = VECTORS[0].2;
    for at in [5, 40, text.len() - 1] {
        let mut typo = text.as_bytes().to_vec();
        typo[at] = if typo[at] == b'q' { b'p' } else { b'q' };
        let error = parse_owner(&String::from_utf8(typo).unwrap(), MAINNET).unwrap_err();
        assert!(matches!(error, CardanoAddressError::Checksum { .. }), "{error}");
    }
    let bytes = hex_decode(&format!("61{KEY}")).unwrap();
    let modified = bech32::encode::<Bech32m>(Hrp::parse("addr").unwrap(), &bytes).unwrap();
    let error = parse_owner(&modified, MAINNET).unwrap_err();
    assert!(matches!(error, CardanoAddressError::Checksum { .. }), "{error}");
    for at in [3, 30, 58] {
        let mut typo = BYRON_MAIN[1].as_bytes().to_vec();
        typo[at] = if typo[at] == b'z' { b'y' } else { b'z' };
        assert!(parse_owner(&String::from_utf8(typo).unwrap(), MAINNET).is_err());
    }
}

#[test]
fn what_names_no_owner_is_refused_with_what_would() {
    let unreadable = |text: &str| parse_owner(text, MAINNET).unwrap_err().to_string();
    for text in
        ["", "hello", "é", "key:", "key:zz", "0OIl", "1", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"]
    {
        let error = unreadable(text);
        assert!(error.contains("names no owner") || error.contains("28 bytes"), "{text}: {error}");
    }
    // Addresses of the wrong length, kind or network id, and a pointer that is cut short.
    for hex in [
        "61",
        "01",
        &format!("01{KEY}"),
        &format!("41{KEY}8198"),
        &format!("91{KEY}"),
        &format!("65{KEY}"),
    ] {
        let error = parse_owner(hex, MAINNET).unwrap_err();
        assert!(matches!(error, CardanoAddressError::Malformed { .. }), "{hex}: {error}");
        assert_eq!(address_text(&hex_decode(hex).unwrap()), *hex);
    }
    // The prefix has to fit the bytes, whichever network is asked.
    let address = format!("61{KEY}");
    for text in [
        bech32_of("addr_test", &address),
        bech32_of("stake", &address),
        bech32_of("addr", &format!("e1{KEY}")),
        bech32_of("pool", KEY),
        bech32_of("drep", &format!("22{KEY}")),
        bech32_of("addr", &hex_encode(&byron(&[0xa0]))),
    ] {
        let error = parse_owner(&text, MAINNET).unwrap_err();
        assert!(matches!(error, CardanoAddressError::Prefix { .. }), "{text}: {error}");
    }
    let mixed = VECTORS[6].2.replace("addr1v", "addr1V");
    assert!(matches!(parse_owner(&mixed, MAINNET), Err(CardanoAddressError::Bech32 { .. })));
    // Shelley addresses have no base58 form.
    let shelley = base58::encode(&hex_decode(&address).unwrap());
    assert!(parse_owner(&shelley, MAINNET).is_err());
    let endless = "z".repeat(100_000);
    let error = parse_owner(&endless, MAINNET).unwrap_err();
    assert!(matches!(error, CardanoAddressError::TooLong { .. }), "{error}");
    let message = unreadable(&"!".repeat(5_000));
    assert!(message.len() < 600, "{message}");
}

#[test]
fn byron_bytes_are_checked_to_the_end() {
    let good = byron(&[0xa0]);
    assert!(parse_owner(&hex_encode(&good), MAINNET).is_ok());
    assert!(parse_owner(&hex_encode(&byron(&[0xa1, 2, 0x41, 2])), PREVIEW).is_ok());
    for len in 1..good.len() {
        assert!(parse_owner(&hex_encode(&good[..len]), MAINNET).is_err(), "{len}");
        assert_eq!(address_text(&good[..len]), hex_encode(&good[..len]));
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(parse_owner(&hex_encode(&bad), MAINNET).is_err(), "{at}");
    }
    // A map that claims more attributes than there are bytes.
    let greedy = byron(&[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert!(parse_owner(&hex_encode(&greedy), MAINNET).is_err());
    // Too long for base58, not for hexadecimal.
    let huge = byron(&[&[0xa1, 1, 0x59, 0x20, 0x00][..], &[0x5a; 8_192]].concat());
    let text = address_text(&huge);
    assert_eq!(text, hex_encode(&huge));
    assert_eq!(parse_owner(&text, MAINNET), Ok(Owner::Address(huge)));
}
