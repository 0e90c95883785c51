//! Routes from the tables of operations: each operation becomes a route and its description.
//!
//! # Invariants
//!
//! * A route has no code of its own. What it takes, what it answers and what it says about itself is
//!   the operation's.
//! * Segments of a path and parameters of a query are read as one request; a name that stands in both
//!   is refused.

use axum::{
    extract::{Query, RawPathParams, RawQuery, State, rejection::RawPathParamsRejection},
    http::Uri,
    response::Response,
    routing::{MethodRouter, get},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{HttpMethod, PathItem, Paths, path::Operation as Described},
};
use utoipa_axum::router::OpenApiRouter;
use utxokeep::ops::{About, Answered, Known, Operation, Part, Visitor};

use super::{
    answer::{KnownTags, plain, same, tagged},
    error::ApiError,
    params::in_our_words,
};
use crate::kinds::Codes;

/// What routes of a part share.
pub(super) trait Serves: Clone + Send + Sync + 'static {
    /// The part.
    type Part: Part;

    /// Runs a read of it within the limits of the server.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self::Part) -> Result<T, ApiError> + Send + 'static,
    ) -> impl Future<Output = Result<T, ApiError>> + Send;
}

/// Collects the routes of a part.
pub(super) struct Routes<S> {
    pub(super) router: OpenApiRouter<S>,
}

impl<S: Serves> Visitor<S::Part> for Routes<S>
where
    ApiError: From<<S::Part as Part>::Error>,
{
    fn operation<O: Operation<Part = S::Part>>(&mut self) {
        let mut schemas = vec![(O::Answer::name().into_owned(), O::Answer::schema())];
        O::Answer::schemas(&mut schemas);
        let request = serde_json::to_value(O::Request::schema()).unwrap_or_default();
        let mut paths = Paths::new();
        let described = describe(&O::ABOUT, &request, &O::Answer::name());
        let item = PathItem::new(HttpMethod::Get, described);
        paths.paths.insert(O::ABOUT.path.to_owned(), item);
        let router = std::mem::take(&mut self.router);
        let router = router.routes((schemas, paths, route(ask::<O>)));
        let further = O::ABOUT.also.iter();
        self.router = further.fold(router, |router, path| router.route(path, route(ask::<O>)));
    }
}

/// Reads a request and answers it; the request is the text of a query.
type Ask<P> = fn(&P, &str, &KnownTags) -> Result<Response, ApiError>;

fn ask<O: Operation>(part: &O::Part, text: &str, tags: &KnownTags) -> Result<Response, ApiError>
where
    ApiError: From<<O::Part as Part>::Error>,
{
    let request = read::<O::Request>(text, O::ABOUT.path)?;
    match O::run(part, request, Known::new(&|hash| tags.has(hash)))? {
        Answered::New(answer, Some(mark)) => tagged(&mark, &answer),
        Answered::New(answer, None) => Ok(plain(&answer)),
        Answered::Same(mark) => same(&mark),
    }
}

/// One handler for all operations of a part.
pub(super) fn route<S: Serves>(ask: Ask<S::Part>) -> MethodRouter<S> {
    get(
        move |State(state): State<S>,
              segments: Result<RawPathParams, RawPathParamsRejection>,
              RawQuery(query): RawQuery,
              tags: KnownTags| async move {
            let segments = segments.map_err(|error| ApiError::BadParameter(error.body_text()))?;
            let text = request_text(&segments, query.as_deref());
            state.read(move |part| ask(part, &text, &tags)).await
        },
    )
}

/// Segments and parameters as one query. An output may be named by two segments.
fn request_text(segments: &RawPathParams, query: Option<&str>) -> String {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut named: Vec<(&str, String)> =
        segments.iter().map(|(name, value)| (name, value.to_owned())).collect();
    if let [("tx_hash", tx_hash), ("output_index", index)] = named.as_slice() {
        named = vec![("outpoint", format!("{tx_hash}:{index}"))];
    }
    let segments = named.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    let query = query.filter(|query| !query.is_empty()).map(str::to_owned);
    segments.chain(query).collect::<Vec<_>>().join("&")
}

fn read<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ApiError> {
    let wrong = |text: String| ApiError::BadParameter(in_our_words(&text, path));
    let uri = format!("/?{text}").parse::<Uri>().map_err(|error| wrong(error.to_string()))?;
    let Query(request) = Query::try_from_uri(&uri).map_err(|error| wrong(error.body_text()))?;
    Ok(request)
}

/// The description of an operation as a route.
fn describe(about: &About, request: &Value, answer: &str) -> Described {
    let none = Map::new();
    let fields = request["properties"].as_object().unwrap_or(&none);
    let parameters: Vec<Value> =
        fields.iter().map(|(name, schema)| parameter(about, name, schema)).collect();
    let error =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } });
    let schema = json!({ "$ref": format!("#/components/schemas/{answer}") });
    let mut found = json!({
        "description": about.summary,
        "content": { "application/json": { "schema": schema } },
    });
    let mut responses = Map::new();
    if let Some(mark) = about.mark {
        found["headers"] =
            json!({ "ETag": { "description": mark, "schema": { "type": "string" } } });
        let same = "Nothing changed since the answer in `If-None-Match`";
        responses.insert("304".to_owned(), json!({ "description": same }));
    }
    responses.insert("200".to_owned(), found);
    let mut refuse = |status: u16, when: &str| {
        responses.insert(status.to_string(), json!({ "description": when, "content": error }));
    };
    refuse(503, "Not now, or there are no blocks yet");
    if !fields.is_empty() {
        refuse(400, "A parameter is wrong");
    }
    for (kind, when) in about.refusals {
        refuse(Codes::of(*kind).http.as_u16(), when);
    }
    let mut described = json!({
        "tags": [about.tag],
        "summary": about.summary,
        "operationId": about.command.replace(' ', "_"),
        "responses": responses,
    });
    if !about.description.is_empty() {
        described["description"] = json!(about.description);
    }
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    serde_json::from_value(described).expect("it is written in the words of the description")
}

/// A field of a request as a parameter of a route.
fn parameter(about: &About, name: &str, schema: &Value) -> Value {
    let is_segment = about.path.contains(&format!("{{{name}}}"));
    let mut schema = without_null(schema);
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    json!({
        "name": name,
        "in": if is_segment { "path" } else { "query" },
        "description": description,
        "required": is_segment,
        "schema": schema,
    })
}

/// A parameter that is left out is not `null`.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(fields) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(types)) = fields.get("type") {
        let kept = types.iter().find(|one| *one != "null").cloned();
        fields.insert("type".to_owned(), kept.unwrap_or_default());
    }
    if let Some(Value::Array(choices)) = fields.remove("oneOf") {
        let kept = choices.into_iter().find(|one| one["type"] != "null").unwrap_or_default();
        for (name, value) in kept.as_object().into_iter().flatten() {
            fields.entry(name).or_insert_with(|| value.clone());
        }
    }
    schema
}
