//! The description of the API: it lists every wallet route, and every route it lists is there.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use utxokeep_server::rest::openapi;

use crate::wallet_rest::client::{Api, txid};

pub(crate) const ROUTES: &[&str] = &[
    "GET /api/v1/wallets",
    "POST /api/v1/wallets",
    "GET /api/v1/wallets/{wallet}",
    "GET /api/v1/wallets/{wallet}/addresses",
    "POST /api/v1/wallets/{wallet}/addresses",
    "GET /api/v1/wallets/{wallet}/descriptors",
    "POST /api/v1/wallets/{wallet}/descriptors",
    "POST /api/v1/wallets/{wallet}/descriptors/{descriptor_id}/next-address",
    "POST /api/v1/wallets/{wallet}/archive",
    "POST /api/v1/wallets/{wallet}/restore",
    "POST /api/v1/wallets/{wallet}/descriptors/{descriptor_id}/archive",
    "POST /api/v1/wallets/{wallet}/descriptors/{descriptor_id}/restore",
    "GET /api/v1/wallets/{wallet}/balance",
    "GET /api/v1/wallets/{wallet}/utxos",
    "GET /api/v1/wallets/{wallet}/utxos/{outpoint}",
    "POST /api/v1/wallets/{wallet}/utxos/{outpoint}/freeze",
    "POST /api/v1/wallets/{wallet}/utxos/{outpoint}/unfreeze",
    "GET /api/v1/wallets/{wallet}/transactions",
    "POST /api/v1/wallets/{wallet}/transactions",
    "GET /api/v1/wallets/{wallet}/transactions/{tx_hash}",
    "DELETE /api/v1/wallets/{wallet}/transactions/{tx_hash}",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/publish",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/broadcast",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/confirm",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/abandon",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/unconfirm",
    "POST /api/v1/wallets/{wallet}/transactions/{tx_hash}/bump",
    "GET /api/v1/wallets/{wallet}/transactions/{tx_hash}/replacements",
    "PUT /api/v1/wallets/{wallet}/transactions/{tx_hash}/label",
    "GET /api/v1/wallets/{wallet}/leases",
    "POST /api/v1/wallets/{wallet}/leases",
    "DELETE /api/v1/wallets/{wallet}/leases",
    "POST /api/v1/wallets/{wallet}/leases/renew",
    "POST /api/v1/wallets/{wallet}/leases/clean",
    "POST /api/v1/wallets/{wallet}/selections",
    "POST /api/v1/wallets/{wallet}/psbts",
    "POST /api/v1/wallets/{wallet}/rescan",
    "GET /api/v1/wallets/{wallet}/labels",
    "POST /api/v1/wallets/{wallet}/labels",
    "POST /api/v1/wallets/{wallet}/prune",
    "GET /api/v1/wallets/{wallet}/pruned",
    "POST /api/v1/wallets/{wallet}/pruned/acknowledge",
    "GET /api/v1/wallets/{wallet}/events",
    "GET /api/v1/wallets/{wallet}/webhooks",
    "POST /api/v1/wallets/{wallet}/webhooks",
    "DELETE /api/v1/wallets/{wallet}/webhooks/{id}",
    "POST /api/v1/wallets/{wallet}/webhooks/{id}/pause",
    "POST /api/v1/wallets/{wallet}/webhooks/{id}/resume",
    "POST /api/v1/wallets/{wallet}/webhooks/{id}/test",
    "GET /api/v1/wallets/{wallet}/verify",
    "GET /api/v1/ledger/verify",
    "GET /api/v1/ledger/{chain}/{network}/tip",
    "POST /api/v1/ledger/{chain}/{network}/blocks",
    "POST /api/v1/ledger/{chain}/{network}/disconnect",
    "POST /api/v1/ledger/{chain}/{network}/rollback",
];

/// Every operation of a description, as method and path, with what is said of it.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let each = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, said)| (format!("{} {path}", method.to_uppercase()), said))
    });
    each.collect()
}

#[test]
fn a_server_of_wallets_describes_exactly_its_routes() {
    let api = Api::new();
    let served = api.get("/openapi.json").json();
    let whole = serde_json::to_value(openapi()).unwrap();
    let described = operations(&served);
    for (name, said) in &described {
        let (method, path) = name.split_once(' ').unwrap();
        assert_eq!(*said, &whole["paths"][path][method.to_lowercase()], "{name}");
    }
    let names: BTreeSet<&str> = described.iter().map(|(name, _)| name.as_str()).collect();
    let probes = ["GET /health", "GET /health/live", "GET /health/ready", "GET /metrics"];
    let expected: BTreeSet<&str> = ROUTES.iter().copied().chain(probes).collect();
    assert_eq!(names, expected);

    let text = served.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(served["components"]["schemas"][name].is_object(), "{name} leads nowhere");
    }
    assert!(api.get("/docs/").text.contains("swagger-ui"));
}

#[test]
fn every_operation_of_the_whole_api_has_a_name_of_its_own_and_says_how_it_fails() {
    let whole = serde_json::to_value(openapi()).unwrap();
    let operations = operations(&whole);
    assert_eq!(whole["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let ids: BTreeSet<&str> =
        operations.iter().map(|(_, said)| said["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    for (name, said) in operations.iter().filter(|(name, _)| ROUTES.contains(&name.as_str())) {
        assert_eq!(said["tags"], json!(["wallets"]), "{name}");
        assert!(said["summary"].is_string(), "{name}");
        let responses = said["responses"].as_object().unwrap();
        assert_eq!(said["security"], json!([{ "token": [] }]), "{name}");
        let mut statuses = vec!["400", "401", "403", "404", "500", "503"];
        if said["requestBody"].is_object() {
            statuses.extend(["408", "409", "413", "415"]);
        }
        for status in statuses {
            let schema = &responses[status]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/ErrorBody", "{name} {status}");
        }
    }
}

/// Everything in a document that is a number, with what is said of it.
fn numbers<'d>(document: &'d Value, found: &mut Vec<&'d Value>) {
    let is_number = |kind: &Value| {
        kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("integer")))
    };
    if document.get("type").is_some_and(is_number) {
        found.push(document);
    }
    let fields = document.as_object().into_iter().flat_map(|fields| fields.values());
    for inner in fields.chain(document.as_array().into_iter().flatten()) {
        numbers(inner, found);
    }
}

#[test]
fn numbers_are_described_as_large_as_they_may_be() {
    let whole = serde_json::to_value(openapi()).unwrap();
    let mut found = Vec::new();
    numbers(&whole, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for number in &found {
        assert_ne!(number["format"], "int32", "{number}");
    }
    assert!(found.iter().any(|number| number["maximum"] == json!(u32::MAX)));
    let parameters = &whole["paths"]["/api/v1/utxos/{outpoint}"]["get"]["parameters"];
    let outpoint = parameters.as_array().unwrap().iter().find(|it| it["name"] == "outpoint");
    assert_eq!(outpoint.unwrap()["schema"]["pattern"], "^[0-9a-fA-F]{64}:[0-9]{1,10}$");
}

#[test]
fn every_route_is_there() {
    let api = Api::new();
    for route in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path
            .replace("{wallet}", "none")
            .replace("{descriptor_id}", "1")
            .replace("{outpoint}", &format!("{}:0", txid(1)))
            .replace("{tx_hash}", &txid(1))
            .replace("{chain}", "bitcoin")
            .replace("{network}", "regtest");
        let body = if method == "GET" { "" } else { "{}" };
        let is_lines = path.ends_with("/labels");
        let kind = if is_lines { "application/jsonl" } else { "application/json" };
        let reply = api.send(method, &path, kind, body);
        assert!([200, 400, 404].contains(&reply.status), "{route}: {reply:?}");
        assert!(!reply.text.contains("unknown_route"), "{route}: {reply:?}");
    }
}
