//! Lists, page by page.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::wallet_rest::client::{Api, FIRST, payment, texts};

/// The whole list, a few rows at a time.
fn walk(api: &Api, path: &str, count: usize) -> Vec<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let (mut rows, mut place) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("{path}{separator}page_size={count}{place}")).good();
        let items = page["items"].as_array().unwrap();
        rows.extend(items.iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else { return rows };
        assert_eq!(items.len(), count, "a page before the last is full");
        place = format!("&cursor={cursor}");
    }
}

#[test]
fn pages_together_are_the_list_without_holes_and_repetitions() {
    let api = Api::new();
    let (wallet, script) = api.wallet("w");
    for name in ["x", "y", "z"] {
        api.wallet(name);
    }
    let blocks: Vec<u32> = (FIRST..FIRST + 7).collect();
    for height in &blocks {
        // Pairs of coins have the same amount, so the order needs more than that.
        let amounts = [10_000, 10_000 + u64::from(height % 3)];
        api.apply(*height, &[payment(*height, &script, &amounts)]).good();
    }
    let coins = texts(&api.get(&format!("{wallet}/utxos")).good()["items"], "outpoint");
    let lease = json!({ "outpoints": coins[..5], "lease": { "seconds": 60 } });
    api.post(&format!("{wallet}/leases"), &lease).good();

    let transactions = format!("{wallet}/transactions");
    let lists = [
        ("/api/v1/wallets".to_owned(), "name", 4),
        (format!("{wallet}/addresses"), "script", 51),
        (format!("{wallet}/utxos"), "outpoint", 14),
        (format!("{wallet}/utxos?only_free=true"), "outpoint", 9),
        (format!("{wallet}/leases"), "outpoint", 5),
        (transactions.clone(), "tx_hash", 7),
        (format!("{transactions}?newest_first=true"), "tx_hash", 7),
        (format!("{transactions}?from_height=103&to_height=105"), "tx_hash", 3),
    ];
    for (path, key, rows) in lists {
        let whole = walk(&api, &path, 1_000);
        assert_eq!(whole.len(), rows, "{path}");
        let keys: BTreeSet<String> = texts(&Value::from(whole.clone()), key).into_iter().collect();
        assert_eq!(keys.len(), rows, "{path}");
        for count in [2, 3] {
            assert_eq!(walk(&api, &path, count), whole, "{path} by {count}");
        }
    }
    let newest =
        texts(&Value::from(walk(&api, &format!("{transactions}?newest_first=true"), 2)), "tx_hash");
    let mut oldest = texts(&Value::from(walk(&api, &transactions, 2)), "tx_hash");
    oldest.reverse();
    assert_eq!(newest, oldest);
}
