//! What the description of the API says beyond single routes: who may call what, and what numbers and
//! texts in paths may be.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, ResponseBuilder,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utxokeep_core::Network;

/// Name of the token in the description.
const TOKEN: &str = "token";

const WITHOUT_TOKEN: (&str, &str) = ("401", "The token of the server is missing or wrong");
const FOREIGN: (&str, &str) = (
    "403",
    "The request comes from a page of another origin, or asks for the server by a foreign name",
);

/// What texts in paths and queries look like, by name.
const PATTERNS: &[(&str, &str)] = &[
    ("asset", "^[0-9a-fA-F]{56}(\\.?([0-9a-fA-F]{2}){0,32})$"),
    ("at", "^([0-9]{1,10}|[0-9a-fA-F]{64}|slot:[0-9]{1,20})$"),
    ("height_or_hash", "^([0-9]{1,10}|[0-9a-fA-F]{64})$"),
    ("outpoint", "^[0-9a-fA-F]{64}:[0-9]{1,10}$"),
    ("tx_hash", "^[0-9a-fA-F]{64}$"),
    ("txid", "^[0-9a-fA-F]{64}$"),
    // Each list has cursors of its own: numbers, places in a list, or bytes in base64.
    ("cursor", "^[A-Za-z0-9_:.-]{1,200}$"),
    ("from", "^[A-Za-z0-9_-]{2,60}$"),
    ("Last-Event-ID", "^[A-Za-z0-9_-]{2,60}$"),
    ("consumer", "^stream-[a-z0-9-]{1,57}$"),
    ("script", "^[0-9a-fA-F]{64}$"),
];

/// Lengths of texts that can have any form, by name.
const LENGTHS: &[(&str, u32, u32)] = &[
    ("Idempotency-Key", 1, 200),
    ("address", 1, 20_000),
    ("credential", 1, 200),
    // Who leases outputs, or whose outputs are asked for: a script may stand for an address.
    ("owner", 1, 20_000),
    ("wallet", 1, 100),
];

/// The description as clients get it.
pub(super) fn finished(description: OpenApi) -> OpenApi {
    let description = with_access(description);
    let Ok(mut json) = serde_json::to_value(&description) else { return description };
    state_bounds(&mut json);
    serde_json::from_value(json).unwrap_or(description)
}

/// Numbers of 32 bits without a sign are more than the format `int32` holds, and parameters are not
/// any text.
fn state_bounds(json: &mut Value) {
    let Value::Object(fields) = json else {
        json.as_array_mut().into_iter().flatten().for_each(state_bounds);
        return;
    };
    let is_unsigned = fields.get("minimum").and_then(Value::as_f64).is_some_and(|min| min >= 0.0);
    if is_unsigned && fields.get("format").is_some_and(|format| format == "int32") {
        fields.insert("format".to_owned(), json!("int64"));
        fields.entry("maximum").or_insert(json!(u32::MAX));
    }
    if let (Some(Value::String(name)), true) =
        (fields.get("name").cloned(), fields.contains_key("in"))
        && let Some(Value::Object(schema)) = fields.get_mut("schema")
    {
        describe_parameter(&name, schema);
    }
    fields.values_mut().for_each(state_bounds);
}

fn describe_parameter(name: &str, schema: &mut Map<String, Value>) {
    // A parameter that is left out is not `null`.
    if let Some(Value::Array(types)) = schema.get("type") {
        let kept = types.iter().find(|one| *one != "null").cloned();
        schema.insert("type".to_owned(), kept.unwrap_or_default());
    }
    match schema.get("type").and_then(Value::as_str) {
        // Rows are numbered from 1 on.
        Some("integer") => {
            schema.entry("minimum").or_insert(json!(1));
        }
        Some("string") if matches!(name, "chain" | "network") => {
            let texts = Network::ALL.into_iter().map(|network| match name {
                "chain" => network.chain(),
                _ => network.name(),
            });
            schema.insert("enum".to_owned(), json!(texts.collect::<BTreeSet<_>>()));
        }
        Some("string") => {
            if let Some((_, pattern)) = PATTERNS.iter().find(|(known, _)| *known == name) {
                schema.insert("pattern".to_owned(), json!(pattern));
            }
            if let Some((_, min, max)) = LENGTHS.iter().find(|(known, ..)| *known == name) {
                schema.insert("minLength".to_owned(), json!(min));
                schema.insert("maxLength".to_owned(), json!(max));
            }
        }
        _ => {}
    }
}

/// Adds the token, the operations that need it, and what others are answered.
fn with_access(mut description: OpenApi) -> OpenApi {
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some(
        "What the server's token file holds: `access-token` in its data directory, or `[server] \
         token_file`."
            .to_owned(),
    );
    let components = description.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
    for item in description.paths.paths.values_mut() {
        for operation in operations(item) {
            restrict(operation);
        }
    }
    description
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

fn restrict(operation: &mut Operation) {
    let is_of = |tag: &str| operation.tags.iter().flatten().any(|known| known == tag);
    let token = || SecurityRequirement::new(TOKEN, [""; 0]);
    let (security, faults) = if is_of("operations") {
        (None, vec![FOREIGN])
    } else if is_of("wallets") || is_of("consumers") {
        (Some(vec![token()]), vec![WITHOUT_TOKEN, FOREIGN])
    } else {
        // Only beyond the loopback address.
        (Some(vec![SecurityRequirement::default(), token()]), vec![WITHOUT_TOKEN, FOREIGN])
    };
    operation.security = security;
    for (status, text) in faults {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
        let response =
            ResponseBuilder::new().description(text).content("application/json", body).build();
        operation.responses.responses.insert(status.to_owned(), response.into());
    }
}

#[cfg(test)]
mod tests {
    /// A client that makes requests from the description must not have to guess.
    #[test]
    fn every_parameter_is_described_closely() {
        let json = serde_json::to_value(crate::rest::openapi()).unwrap();
        let operations = json["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| (path, method, operation))
        });
        let mut count = 0;
        for (path, method, operation) in operations {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let schema = &parameter["schema"];
                let has = |names: &[&str]| names.iter().any(|name| schema.get(name).is_some());
                let is_close = match schema["type"].as_str() {
                    Some("string") => has(&["pattern", "enum", "maxLength"]),
                    Some("integer") => has(&["minimum"]),
                    Some("boolean") => true,
                    _ => has(&["allOf", "$ref"]),
                };
                assert!(is_close, "{method} {path}: {parameter}");
                count += 1;
            }
        }
        assert!(count > 100, "{count}");
    }
}
