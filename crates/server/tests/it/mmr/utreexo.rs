//! With `mmr_rule = "utreexo"`: what the program answers, a stock `rustreexo` verifies.

use rustreexo::{node_hash::BitcoinNodeHash, proof::Proof, stump::Stump};
use utxokeep_core::hex_decode;

use super::{proofs::changed, *};
use crate::http::Reply;

fn hash(text: &Value) -> BitcoinNodeHash {
    let bytes: [u8; 32] = hex_decode(text.as_str().unwrap()).unwrap().try_into().unwrap();
    BitcoinNodeHash::from(bytes)
}

/// As utreexod prints the hashes of `proveutxochaintipinclusion`.
fn reversed(text: &Value) -> BitcoinNodeHash {
    let mut bytes: [u8; 32] = hex_decode(text.as_str().unwrap()).unwrap().try_into().unwrap();
    bytes.reverse();
    BitcoinNodeHash::from(bytes)
}

fn list(value: &Value, read: fn(&Value) -> BitcoinNodeHash) -> Vec<BitcoinNodeHash> {
    value.as_array().unwrap().iter().map(read).collect()
}

fn targets(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|target| target.as_u64().unwrap()).collect()
}

/// The accumulator that a light client keeps, from the roots of an answer.
fn stump(roots: &Value) -> Stump {
    Stump { leaves: roots["numleaves"].as_u64().unwrap(), roots: list(&roots["roots"], hash) }
}

/// Both shapes of an answer, for a client that has the roots.
fn holds(answer: &Value, stump: &Stump) -> bool {
    let inclusion = &answer["proveutxochaintipinclusion"];
    let block = &answer["getutreexoproof"];
    let shapes = [
        (
            Proof::new(
                targets(&inclusion["prooftargets"]),
                list(&inclusion["proofhashes"], reversed),
            ),
            list(&inclusion["hashesproven"], reversed),
        ),
        (
            Proof::new(targets(&block["prooftargets"]), list(&block["proofhashes"], hash)),
            list(&block["targethashes"], hash),
        ),
    ];
    shapes.iter().all(|(proof, leaves)| stump.verify(proof, leaves).unwrap_or(false))
}

#[test]
fn a_stock_stump_verifies_what_rest_answers() {
    let user = User::with_chain(UTREEXO);
    let rows = user.json(&["address", "utxos", "51", "--page-size", "40"]);
    let server = user.serve();
    let get = |path: &str| Reply::parse(&server.get(path));
    let root = get("/api/v1/mmr/root").json();
    assert_eq!(root["rule"], "utreexo");
    let now = stump(&root["getutreexoroots"]);
    assert_eq!(root["leaves"].as_u64(), Some(now.leaves));
    let mut proven = 0;
    for row in rows["items"].as_array().unwrap() {
        let (txid, index) = (row["tx_hash"].as_str().unwrap(), &row["output_index"]);
        let answer = get(&format!("/api/v1/mmr/proof/{txid}/{index}")).json();
        assert_eq!(answer["state"], "unspent");
        assert_eq!(answer["experimental"], true);
        assert!(holds(&answer, &now), "{txid}:{index}");
        let mut forged = answer.clone();
        let leaf = &mut forged["getutreexoproof"]["targethashes"][0];
        *leaf = changed(leaf);
        assert!(!holds(&forged, &now));
        proven += 1;
    }
    assert_eq!(proven, 40);
    // An earlier block has other roots, and a proof under them.
    let then = stump(&get("/api/v1/mmr/root?at=295").json()["getutreexoroots"]);
    assert_ne!(then.roots, now.roots);
    let old = output_until(&rows, 290);
    let answer = get(&format!("/api/v1/mmr/proof/{}/{}?at=295", old.0, old.1)).json();
    assert!(holds(&answer, &then) && !holds(&answer, &now));

    get(&format!("/api/v1/mmr/proof/{}/{}", SPENT[0], SPENT[1])).bad(409, "spent");
    let cbor = format!("/api/v1/mmr/proof/{}/{}?format=cbor", old.0, old.1);
    get(&cbor).bad(400, "bad_parameter");
    server.stop();
}

/// An output that a block at or below a height created.
fn output_until(rows: &Value, height: u64) -> (String, u64) {
    let rows = rows["items"].as_array().unwrap();
    let row = rows.iter().find(|row| row["block"].as_u64().unwrap() <= height);
    let row = row.unwrap_or_else(|| panic!("{}", rows[0]));
    (row["tx_hash"].as_str().unwrap().to_owned(), row["output_index"].as_u64().unwrap())
}

#[test]
fn the_program_checks_its_own_utreexo_proofs_offline() {
    let user = User::with_chain(UTREEXO);
    let file = user.prove(LIVE, "proof.json", &[]);
    let root = user.root();
    fs::write(user.path("root.json"), root.to_string()).unwrap();
    let checked = user.json(&["chain", "mmr", "check", "proof.json", "--root", "root.json"]);
    assert_eq!((&checked["rule"], &checked["tx_hash"]), (&"utreexo".into(), &LIVE[0].into()));
    let shown = user.json(&["utxo", "show", &LIVE.join(":")]);
    assert_eq!(checked["amount"], shown["amount"]);
    let good: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let places = [
        "/leaves",
        "/root",
        "/tx_hash",
        "/output_index",
        "/height",
        "/block_hash",
        "/getutreexoroots/roots",
        "/getutreexoroots/numleaves",
        "/getutreexoproof/proofhashes",
        "/getutreexoproof/targethashes",
        "/getutreexoproof/targetpreimages",
        "/getutreexoproof/prooftargets",
        "/proveutxochaintipinclusion/hex",
        "/proveutxochaintipinclusion/proofhashes",
    ];
    for place in places {
        let mut forged = good.clone();
        let value = forged.pointer_mut(place).unwrap();
        *value = changed(value);
        fs::write(user.path("forged.json"), forged.to_string()).unwrap();
        user.refused(5, &["chain", "mmr", "check", "forged.json", "--root", "root.json"]);
    }
    let cbor = ["chain", "mmr", "prove", LIVE[0], LIVE[1], "--format", "cbor"];
    assert!(user.refused(2, &cbor).contains("has no CBOR"));
    let error = user.refused(4, &["chain", "mmr", "prove", SPENT[0], SPENT[1]]);
    assert!(error.contains("a forest of Utreexo has proofs of unspent outputs only"), "{error}");
}
