//! What the description of the API says beyond single routes: who may call what, and what numbers and
//! texts in paths may be.

use serde_json::{Value, json};
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, ResponseBuilder,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

/// Name of the token in the description.
const TOKEN: &str = "token";

const WITHOUT_TOKEN: (&str, &str) = ("401", "The token of the server is missing or wrong");
const FOREIGN: (&str, &str) = (
    "403",
    "The request comes from a page of another origin, or asks for the server by a foreign name",
);

/// What parameters of paths look like, by name.
const PATTERNS: &[(&str, &str)] = &[
    ("height_or_hash", "^([0-9]{1,10}|[0-9a-fA-F]{64})$"),
    ("outpoint", "^[0-9a-fA-F]{64}:[0-9]{1,10}$"),
    ("script_hash", "^[0-9a-fA-F]{64}$"),
    ("tx_hash", "^[0-9a-fA-F]{64}$"),
    ("txid", "^[0-9a-fA-F]{64}$"),
];

/// The description as clients get it.
pub(super) fn finished(description: OpenApi) -> OpenApi {
    let description = with_access(description);
    let Ok(mut json) = serde_json::to_value(&description) else { return description };
    state_bounds(&mut json);
    serde_json::from_value(json).unwrap_or(description)
}

/// Numbers of 32 bits without a sign are more than the format `int32` holds, and parameters of paths
/// are not any text.
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
    if fields.get("in").is_some_and(|place| place == "path") {
        let pattern = PATTERNS.iter().find(|(name, _)| fields["name"] == *name);
        if let (Some((_, pattern)), Some(Value::Object(schema))) =
            (pattern, fields.get_mut("schema"))
        {
            schema.insert("pattern".to_owned(), json!(pattern));
        }
    }
    fields.values_mut().for_each(state_bounds);
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
    } else if is_of("wallets") {
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
