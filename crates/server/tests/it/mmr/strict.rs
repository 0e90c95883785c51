//! One table of changed proofs for both verifiers: whatever one of them takes, the other takes too.

use utxokeep::mmr::read_proof;
use utxokeep_core::mmr::{
    MmrProof, NodeHash, ProvenState, check_mmr_proof, mmr_leaf_hash, mmr_node_hash, mmr_root,
    mmr_tombstone,
};

use super::{python::verifier, *};

/// A document and whether it proves something; `None` where only agreement is asked for.
struct Case {
    name: String,
    bytes: Vec<u8>,
    holds: Option<bool>,
}

fn case(name: impl Into<String>, bytes: impl Into<Vec<u8>>, holds: Option<bool>) -> Case {
    Case { name: name.into(), bytes: bytes.into(), holds }
}

/// A sound proof in a tree of any size: the path is made up, and the root follows from it.
fn proof(leaves: u64, leaf: u64, state: ProvenState) -> MmrProof {
    let height = (leaf ^ leaves).ilog2();
    let has_right = leaves & ((1 << height) - 1) != 0;
    let lefts = leaves.checked_shr(height + 1).unwrap_or(0).count_ones();
    let len = height + u32::from(has_right) + lefts;
    let path: Vec<NodeHash> = (0..len).map(|at| [u8::try_from(at).unwrap() + 1; 32]).collect();
    let mut hash = match &state {
        ProvenState::Unspent { txid, index, content } => mmr_leaf_hash(txid, *index, content),
        ProvenState::Spent => mmr_tombstone(0),
    };
    for (at, other) in (0..).zip(&path) {
        let is_left_child =
            if at < height { leaf >> at & 1 == 0 } else { at == height && has_right };
        hash =
            if is_left_child { mmr_node_hash(&hash, other) } else { mmr_node_hash(other, &hash) };
    }
    let (network, root) = ("bitcoin/regtest".to_owned(), mmr_root(leaves, Some(&hash)));
    MmrProof { network, height: 300, block_hash: [7; 32], leaves, root, leaf, state, path }
}

fn unspent() -> ProvenState {
    ProvenState::Unspent { txid: [0xab; 32], index: 5, content: b"an output".to_vec() }
}

/// Both forms of proofs that are at the ends of what numbers can be.
fn sound() -> Vec<Case> {
    let max = u64::MAX;
    let sizes = [(1, 0), (11, 8), (11, 10), (1 << 63, 0), (max, 0), (max, 1 << 63), (max, max - 1)];
    let mut cases = Vec::new();
    for (leaves, leaf) in sizes {
        for state in [unspent(), ProvenState::Spent] {
            let proof = proof(leaves, leaf, state);
            let name = format!("leaf {leaf} of {leaves}");
            cases.push(case(format!("{name}, JSON"), json(&proof), Some(true)));
            cases.push(case(format!("{name}, CBOR"), proof.to_cbor(), Some(true)));
        }
    }
    let most = ProvenState::Unspent { txid: [1; 32], index: u32::MAX, content: vec![0; 300] };
    let most = MmrProof { height: u32::MAX, ..proof(3, 1, most) };
    cases.push(case("largest height and index, JSON", json(&most), Some(true)));
    cases.push(case("largest height and index, CBOR", most.to_cbor(), Some(true)));
    cases
}

fn json(proof: &MmrProof) -> String {
    serde_json::to_string(proof).unwrap()
}

/// Texts in a JSON document, what stands there instead, and whether that is a proof.
const REPLACED: &[(&str, &str, bool)] = &[
    // Numbers: whole, not negative, in the one form that JSON has for them, in bounds.
    ("\"version\":1", "\"version\":1.0", false),
    ("\"version\":1", "\"version\":1e0", false),
    ("\"version\":1", "\"version\":01", false),
    ("\"version\":1", "\"version\":+1", false),
    ("\"version\":1", "\"version\":\"1\"", false),
    ("\"version\":1", "\"version\":true", false),
    ("\"version\":1", "\"version\":2", false),
    ("\"version\":1", "\"version\":4294967297", false),
    ("\"leaf\":0", "\"leaf\":-0", false),
    ("\"leaf\":0", "\"leaf\":-1", false),
    ("\"leaf\":0", "\"leaf\":0.0", false),
    ("\"leaf\":0", "\"leaf\":00", false),
    ("\"leaf\":0", "\"leaf\":false", false),
    ("\"leaf\":0", "\"leaf\":null", false),
    ("\"leaf\":0", "\"leaf\":[]", false),
    ("\"leaf\":0", "\"leaf\":NaN", false),
    ("\"leaf\":0", "\"leaf\":-Infinity", false),
    ("\"leaf\":0", "\"leaf\":0x0", false),
    ("\"leaf\":0", "\"leaf\":18446744073709551615", false),
    ("\"leaf\":0", "\"leaf\":18446744073709551616", false),
    ("\"leaves\":2", "\"leaves\":18446744073709551615", false),
    ("\"leaves\":2", "\"leaves\":18446744073709551616", false),
    ("\"leaves\":2", "\"leaves\":18446744073709551618", false),
    ("\"leaves\":2", "\"leaves\":340282366920938463463374607431768211458", false),
    ("\"leaves\":2", "\"leaves\":2e0", false),
    ("\"leaves\":2", "\"leaves\":0", false),
    ("\"height\":300", "\"height\":4294967295", true),
    ("\"height\":300", "\"height\":4294967296", false),
    ("\"height\":300", "\"height\":-300", false),
    ("\"height\":300", "\"height\":3e2", false),
    ("\"output_index\":5", "\"output_index\":4294967296", false),
    ("\"output_index\":5", "\"output_index\":4294967301", false),
    ("\"output_index\":5", "\"output_index\":\"5\"", false),
    ("\"output_index\":5", "\"output_index\":null", false),
    // Hexadecimal: lower case, whole bytes, the right length.
    ("abababab", "ABABABAB", false),
    ("abababab", "abababa", false),
    ("abababab", "ababab", false),
    ("abababab", "0xababab", false),
    ("abababab", " bababab", false),
    ("abababab", "abab\\u0061bab", true),
    ("616e20", "616E20", false),
    ("616e20", "616e2", false),
    ("616e20", "616e20\\u0000", false),
    ("\"content\":\"616e206f7574707574\"", "\"content\":[97,110]", false),
    ("\"content\":\"616e206f7574707574\"", "\"content\":null", false),
    ("\"content\":\"616e206f7574707574\"", "\"content\":\"\"", false),
    // Names.
    ("\"rule\":\"tombstone\"", "\"rule\":\"Tombstone\"", false),
    ("\"rule\":\"tombstone\"", "\"rule\":[\"tombstone\"]", false),
    ("\"rule\":\"tombstone\"", "\"rule\":null", false),
    ("\"state\":\"unspent\"", "\"state\":\"Unspent\"", false),
    ("\"state\":\"unspent\"", "\"state\":\"spent\"", false),
    ("\"state\":\"unspent\"", "\"state\":{\"unspent\":null}", false),
    ("\"state\":\"unspent\"", "\"state\":true", false),
    ("\"state\":\"unspent\"", "\"state\":null", false),
    ("bitcoin/regtest", "bitcoin/testnet4", true),
    ("bitcoin/regtest", "bitcoin\\/regtest", true),
    ("bitcoin/regtest", "bitcoin/Regtest", false),
    ("bitcoin/regtest", "regtest", false),
    ("bitcoin/regtest", "bitcoin/nonet", false),
    ("bitcoin/regtest", "bitcoin/regtest ", false),
    ("bitcoin/regtest", "cardano/regtest", false),
    ("bitcoin/regtest", "\\ud800", false),
    ("\"network\":\"bitcoin/regtest\"", "\"network\":null", false),
    ("\"network\":\"bitcoin/regtest\"", "\"network\":[\"bitcoin/regtest\"]", false),
    // Fields: each once, no others, all of them.
    ("\"version\":1", "\"version\":1,\"version\":1", false),
    ("\"version\":1", "\"version\":1,\"\\u0076ersion\":1", false),
    ("\"version\":1", "\"\\u0076ersion\":1", true),
    ("\"version\":1", "\"Version\":1", false),
    ("\"version\":1", "\"version\":1,\"note\":null", false),
    ("\"version\":1", "\"version\":1,\"\":{}", false),
    ("\"version\":1,", "", false),
    ("\"leaf\":0", "\"leaf\":0,\"leaf\":0", false),
    ("\"path\":[", "\"path\":[],\"path\":[", false),
    ("\"path\":[", "\"path\":[null,", false),
    ("\"path\":[", "\"path\":[[],", false),
    ("\"path\":[", "\"path\":[\"\",", false),
    ("\"path\":[", "\"path\":[,", false),
    ("\"path\":[", "\"path\":{", false),
    // The document as a whole.
    ("{\"version\"", " \t\r\n{\"version\"", true),
    ("{\"version\"", "\u{c}{\"version\"", false),
    ("{\"version\"", "\u{b}{\"version\"", false),
    ("{\"version\"", "\u{feff}{\"version\"", false),
    ("{\"version\"", "[{\"version\"", false),
    ("{\"version\"", "{{\"version\"", false),
    ("{\"version\"", "{,\"version\"", false),
    ("{\"version\"", "{// why\n\"version\"", false),
    ("{\"version\"", "{'version'", false),
];

/// What stands behind a whole document.
const BEHIND: &[(&str, bool)] = &[
    (" \n", true),
    ("{}", false),
    (",", false),
    ("x", false),
    ("\u{0}", false),
    ("\u{c}", false),
    ("]", false),
    ("null", false),
];

fn of_json() -> Vec<Case> {
    let good = json(&proof(2, 0, unspent()));
    let mut cases = Vec::new();
    for (from, to, holds) in REPLACED {
        assert!(good.contains(from), "{from} is not in {good}");
        cases.push(case(format!("{from} as {to}"), good.replacen(from, to, 1), Some(*holds)));
    }
    for (text, holds) in BEHIND {
        cases.push(case(format!("{text:?} behind"), format!("{good}{text}"), Some(*holds)));
    }
    let deep = format!("\"version\":1,\"note\":{}{}", "[".repeat(9_000), "]".repeat(9_000));
    cases.push(case("deep", good.replace("\"version\":1", &deep), Some(false)));
    let long = " ".repeat((1 << 20) - good.len());
    cases.push(case("as long as may be", format!("{good}{long}"), Some(true)));
    cases.push(case("a byte too long", format!("{good}{long} "), Some(false)));
    // What is spent names nobody, not even nobody.
    let spent = json(&proof(2, 0, ProvenState::Spent));
    for field in
        ["\"tx_hash\":null", "\"output_index\":null", "\"content\":null", "\"content\":\"\""]
    {
        let text = spent.replace("\"path\"", &format!("{field},\"path\""));
        cases.push(case(format!("spent with {field}"), text, Some(false)));
    }
    // Fields in another order are the same document.
    let fields: serde_json::Map<String, Value> = serde_json::from_str(&good).unwrap();
    let turned: Vec<String> = fields.iter().rev().map(|(k, v)| format!("\"{k}\":{v}")).collect();
    cases.push(case("turned round", format!("{{{}}}", turned.join(",")), Some(true)));
    cases
}

fn of_cbor() -> Vec<Case> {
    let whole = proof(2, 0, unspent());
    let good = whole.to_cbor();
    let replaced = |from: &[u8], to: &[u8]| {
        let at = good.windows(from.len()).position(|bytes| bytes == from);
        let at = at.unwrap_or_else(|| panic!("{from:x?} is not in {good:x?}"));
        [&good[..at], to, &good[at + from.len()..]].concat()
    };
    let refused = |name: &str, bytes: Vec<u8>| case(format!("CBOR: {name}"), bytes, Some(false));
    let name = b"bitcoin/regtest";
    let mut cases = vec![
        refused("nothing", Vec::new()),
        refused("one byte behind", [good.as_slice(), &[0]].concat()),
        refused("twice", good.repeat(2)),
        refused("space before", [b" ", good.as_slice()].concat()),
        refused("a tag before", [&[0xd9, 0xd9, 0xf7], good.as_slice()].concat()),
        refused("map of eleven", [&[0xab], &good[1..]].concat()),
        refused("map of thirteen", [&[0xad], &good[1..]].concat()),
        refused("map length in two bytes", [&[0xb8, 12], &good[1..]].concat()),
        refused("map without end", [&[0xbf], &good[1..], &[0xff]].concat()),
        refused("array in place of a map", [&[0x8c], &good[1..]].concat()),
        refused("version 2", replaced(&[0xac, 0, 1], &[0xac, 0, 2])),
        refused("version in two bytes", replaced(&[0xac, 0, 1], &[0xac, 0, 0x18, 1])),
        refused("version -1", replaced(&[0xac, 0, 1], &[0xac, 0, 0x20])),
        refused("version 1.0", replaced(&[0xac, 0, 1], &[0xac, 0, 0xf9, 0x3c, 0])),
        refused("version true", replaced(&[0xac, 0, 1], &[0xac, 0, 0xf5])),
        refused("key twice", replaced(&[0xac, 0, 1], &[0xad, 0, 1, 0, 1])),
        refused("key in two bytes", replaced(&[0xac, 0, 1], &[0xac, 0x18, 0, 1])),
        refused("unknown key", [&[0xad], &good[1..], &[12, 0]].concat()),
        refused("height in five bytes", replaced(&[2, 0x19, 1, 0x2c], &[2, 0x1a, 0, 0, 1, 0x2c])),
        refused(
            "height above 32 bits",
            replaced(&[2, 0x19, 1, 0x2c], &[2, 0x1b, 0, 0, 0, 1, 0, 0, 1, 0x2c]),
        ),
        refused(
            "leaves in nine bytes",
            replaced(&[4, 2, 5], &[4, 0x1b, 0, 0, 0, 0, 0, 0, 0, 2, 5]),
        ),
        refused("leaves as a big number", replaced(&[4, 2, 5], &[4, 0xc2, 0x41, 2, 5])),
        refused("most leaves", replaced(&[4, 2, 5], &[&[4, 0x1b][..], &[0xff; 8], &[5]].concat())),
        refused("state as null", replaced(&[7, 0xf5, 8], &[7, 0xf6, 8])),
        refused("state as one", replaced(&[7, 0xf5, 8], &[7, 1, 8])),
        refused("state in two bytes", replaced(&[7, 0xf5, 8], &[7, 0xf8, 21, 8])),
        refused("spent with an output", replaced(&[7, 0xf5, 8], &[7, 0xf4, 8])),
        refused("content as text", replaced(&[10, 0x49], &[10, 0x69])),
        refused("content in parts", replaced(b"\x0a\x49an output", b"\x0a\x5f\x49an output\xff")),
        refused("network as bytes", replaced(&[1, 0x6f], &[1, 0x4f])),
        refused("network of no name", replaced(name, b"bitcoin/nonet42")),
        refused("network not UTF-8", replaced(name, b"bitcoin/regtes\xff")),
        refused("path in two bytes", replaced(&[11, 0x81], &[11, 0x98, 1])),
        refused("path without end", replaced(&[11, 0x81], &[11, 0x9f])),
        refused("path empty", replaced(&[11, 0x81], &[11, 0x80])),
        refused("path of 2^63", replaced(&[11, 0x81], &[11, 0x9b, 0x80, 0, 0, 0, 0, 0, 0, 0])),
        refused("path of two", replaced(&[11, 0x81], &[11, 0x82])),
        refused("hash of 31 bytes", good[..good.len() - 1].to_vec()),
    ];
    let other = MmrProof { network: "cardano/preview".to_owned(), ..whole };
    cases.push(case("CBOR: another network", other.to_cbor(), Some(true)));
    cases
}

/// Every byte changed, left out and doubled, and the document cut behind it.
fn everywhere(name: &str, good: &[u8]) -> Vec<Case> {
    let mut cases = Vec::new();
    for at in 0..good.len() {
        let (before, after) = (&good[..at], &good[at + 1..]);
        let others = [good[at] ^ 1, good[at] ^ 0x20, good[at] ^ 0x80, b'0'];
        let changed = others.map(|byte| [before, &[byte], after].concat());
        let more = [[before, after].concat(), [before, &good[at..=at], &good[at..]].concat()];
        for bytes in changed.into_iter().chain(more) {
            cases.push(case(format!("{name}, byte {at}"), bytes, None));
        }
        cases.push(case(format!("{name}, cut at {at}"), before, Some(false)));
    }
    cases
}

fn holds(bytes: &[u8]) -> bool {
    read_proof(bytes).is_ok_and(|proof| check_mmr_proof(&proof, None).is_ok())
}

#[test]
fn both_verifiers_say_the_same_of_every_changed_proof() {
    let user = User::new();
    let mut cases = sound();
    cases.extend(of_json());
    cases.extend(of_cbor());
    let named = cases.len();
    let good = proof(11, 8, unspent());
    cases.extend(everywhere("JSON", json(&good).as_bytes()));
    cases.extend(everywhere("CBOR", &good.to_cbor()));
    cases.extend(everywhere("spent, JSON", json(&proof(2, 1, ProvenState::Spent)).as_bytes()));
    let mut files = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let ours = holds(&case.bytes);
        let text = String::from_utf8_lossy(&case.bytes);
        assert!(
            case.holds.is_none_or(|expected| expected == ours),
            "{}: {ours}: {text}",
            case.name
        );
        fs::write(user.path(&number.to_string()), &case.bytes).unwrap();
        files.push(number.to_string());
    }
    let args = ["--keep-going"].into_iter().chain(files.iter().map(String::as_str));
    let Some(output) = verifier(&user, &args.collect::<Vec<_>>()) else { return };
    let (taken, told) = (String::from_utf8_lossy(&output.stdout), told(&output));
    let mut theirs = vec![None; cases.len()];
    for (lines, is_taken) in [(&*taken, true), (told.as_str(), false)] {
        for line in lines.lines() {
            let number = line.split_once(": ").and_then(|(number, _)| number.parse::<usize>().ok());
            theirs[number.unwrap_or_else(|| panic!("{line}"))] = Some(is_taken);
        }
    }
    for (case, theirs) in cases.iter().zip(theirs) {
        let text = String::from_utf8_lossy(&case.bytes);
        assert_eq!(theirs, Some(holds(&case.bytes)), "Python, {}: {text}", case.name);
    }
    // The command reads the same documents.
    for (number, case) in cases[..named].iter().enumerate() {
        let output = user.run(&["chain", "mmr", "check", &number.to_string()]);
        let is_taken = output.status.code() == Some(0);
        assert_eq!(Some(is_taken), case.holds, "{}: {}", case.name, crate::program::told(&output));
    }
}
