//! Routes from the tables of operations: each operation becomes a route and its description.
//!
//! # Invariants
//!
//! * A route has no code of its own. What it takes, what it answers and what it says about itself is
//!   the operation's.
//! * Segments of a path, parameters of a query and a body are read as one request; a name that stands
//!   twice is refused.

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{HttpMethod, PathItem, Paths, RefOr, Schema, path::Operation as Described},
};
use utoipa_axum::router::OpenApiRouter;
use utxokeep::ops::{
    About, Answer, Answered, Effect, Known, Media, Method, Operation, Part, Visitor,
};

use super::{
    admission::Admission,
    answer::{same, tagged},
    error::ApiError,
    request::{JSON_LINES, Sent},
};
use crate::kinds::Codes;

/// What routes of a part share.
pub(super) trait Serves: Clone + Send + Sync + 'static {
    /// The part.
    type Part: Part + Clone;

    /// The part itself.
    fn part(&self) -> &Self::Part;

    /// The limits of the server.
    fn admission(&self) -> &Admission;

    /// Works on the part within the limits of the server.
    fn run<T: Send + 'static>(
        &self,
        effect: Effect,
        work: impl FnOnce(&Self::Part) -> Result<T, ApiError> + Send + 'static,
    ) -> impl Future<Output = Result<T, ApiError>> + Send {
        let part = self.part().clone();
        self.admission().run(effect, move || work(&part))
    }
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
        let about = O::ABOUT;
        let mut schemas = Vec::new();
        if about.media != Media::LinesOut {
            schemas.push((O::Answer::name().into_owned(), O::Answer::schema()));
            O::Answer::schemas(&mut schemas);
        }
        let fields = Fields::of::<O>();
        if fields.has_json() {
            let mut inner = Vec::new();
            O::Request::schemas(&mut inner);
            schemas.extend(inner.into_iter().map(|(name, schema)| (name, without_nulls(&schema))));
            schemas.push((O::Request::name().into_owned(), fields.body_schema()));
        }
        let mut paths = Paths::new();
        let described = describe(&about, &fields, &O::Answer::name(), &O::Request::name());
        paths
            .paths
            .insert(about.path.to_owned(), PathItem::new(http_method(about.method), described));
        let router = std::mem::take(&mut self.router);
        let has_body = fields.has_body();
        let router = router.routes((schemas, paths, route(about, has_body, ask::<O>)));
        self.router = about
            .also
            .iter()
            .fold(router, |router, path| router.route(path, route(about, has_body, ask::<O>)));
    }
}

const fn http_method(method: Method) -> HttpMethod {
    match method {
        Method::Get => HttpMethod::Get,
        Method::Post => HttpMethod::Post,
        Method::Put => HttpMethod::Put,
        Method::Delete => HttpMethod::Delete,
    }
}

const fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
    }
}

/// Reads a request and answers it.
type Ask<P> = fn(&P, &Sent) -> Result<Response, ApiError>;

fn ask<O: Operation>(part: &O::Part, sent: &Sent) -> Result<Response, ApiError>
where
    ApiError: From<<O::Part as Part>::Error>,
{
    let mut request = sent.read::<O::Request>(&O::ABOUT)?;
    if let (Some(field), Some(key)) = (O::key(&mut request), &sent.key) {
        if field.as_ref().is_some_and(|of_body| of_body != key) {
            let what = "idempotency_key: the header Idempotency-Key says another one than the body";
            return Err(ApiError::BadBody(what.to_owned()));
        }
        *field = Some(key.clone());
    }
    match O::run(part, request, Known::new(&|hash| sent.tags.has(hash)))? {
        Answered::New(answer, Some(mark)) => tagged(&mark, &answer),
        Answered::New(answer, None) => Ok(plain(&O::ABOUT, &answer)),
        Answered::Same(mark) => same(&mark),
    }
}

/// An answer that belongs to no block.
fn plain(about: &About, answer: &impl Answer) -> Response {
    if let Some(lines) = answer.lines() {
        let media = format!("{JSON_LINES}; charset=utf-8");
        return ([(header::CONTENT_TYPE, media)], lines.to_owned()).into_response();
    }
    let status = match about.effect {
        Effect::Creates => StatusCode::CREATED,
        Effect::Reads | Effect::Changes => StatusCode::OK,
    };
    (status, Json(answer)).into_response()
}

/// One handler for all operations of a part.
fn route<S: Serves>(about: About, has_body: bool, ask: Ask<S::Part>) -> MethodRouter<S> {
    on(filter(about.method), move |State(state): State<S>, request: Request| async move {
        let sent = Sent::new(request, &about, has_body, state.admission()).await?;
        state.run(about.effect, move |part| ask(part, &sent)).await
    })
}

/// The fields of a request, as the description has them.
struct Fields {
    about: About,
    /// The whole schema.
    schema: Value,
}

impl Fields {
    fn of<O: Operation>() -> Self {
        let schema = serde_json::to_value(O::Request::schema()).unwrap_or_default();
        Self { about: O::ABOUT, schema }
    }

    /// Name and schema of each field. Those of a request within the request are named by a reference,
    /// and have no place in a query.
    fn named(&self) -> Map<String, Value> {
        let whole = std::iter::once(&self.schema);
        let inner = self.schema["allOf"].as_array().into_iter().flatten();
        let objects = whole.chain(inner).filter_map(|schema| schema["properties"].as_object());
        objects.flatten().map(|(name, schema)| (name.clone(), schema.clone())).collect()
    }

    fn is_segment(&self, name: &str) -> bool {
        self.about.path.contains(&format!("{{{name}}}"))
    }

    /// Whether something of the request travels in a body. A key has its header.
    fn has_body(&self) -> bool {
        let takes_body = matches!(self.about.method, Method::Post | Method::Put);
        let is_inner = self.schema["allOf"].is_array();
        let mut names = self.named().into_iter().map(|(name, _)| name);
        takes_body
            && (is_inner || names.any(|name| !self.is_segment(&name) && name != "idempotency_key"))
    }

    fn has_json(&self) -> bool {
        self.has_body() && !matches!(self.about.media, Media::LinesIn(_))
    }

    /// The schema of the body: what is not in the path.
    fn body_schema(&self) -> RefOr<Schema> {
        let mut schema = self.schema.clone();
        self.drop_segments(&mut schema);
        for inner in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
            self.drop_segments(inner);
        }
        read_schema(&schema)
    }

    fn drop_segments(&self, schema: &mut Value) {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.retain(|name, _| !self.is_segment(name));
            for property in properties.values_mut() {
                *property = without_null(property);
            }
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| !name.as_str().is_some_and(|name| self.is_segment(name)));
            if required.is_empty() {
                schema.as_object_mut().and_then(|schema| schema.remove("required"));
            }
        }
    }

    /// What is not in the body: segments, and parameters where there is no body.
    fn parameters(&self) -> Vec<Value> {
        let has_body = self.has_body();
        let fields = self.named().into_iter();
        let outside = fields.filter(|(name, _)| {
            self.is_segment(name)
                || !(has_body || self.about.takes_key && name == "idempotency_key")
        });
        let required: Vec<&str> = self.schema["required"]
            .as_array()
            .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
        let mut all: Vec<Value> = outside
            .map(|(name, schema)| {
                let is_required = required.contains(&name.as_str());
                parameter(&self.about, &name, &schema, is_required)
            })
            .collect();
        if self.about.takes_key {
            all.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Sent again with the same key, the request is answered as before and \
                                changes nothing",
                "required": false,
                "schema": { "type": "string" },
            }));
        }
        all
    }
}

fn read_schema(schema: &Value) -> RefOr<Schema> {
    serde_json::from_value(schema.clone()).expect("it is written in the words of the description")
}

/// What a request holds is given or left out.
fn without_nulls(schema: &RefOr<Schema>) -> RefOr<Schema> {
    let mut schema = serde_json::to_value(schema).unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = without_null(property);
        }
    }
    read_schema(&schema)
}

/// The description of an operation as a route.
fn describe(about: &About, fields: &Fields, answer: &str, request: &str) -> Described {
    let error =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } });
    let lines = json!({ (JSON_LINES): { "schema": { "type": "string" } } });
    let json_of = |name: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        json!({ "application/json": { "schema": schema } })
    };
    let content = if about.media == Media::LinesOut { lines.clone() } else { json_of(answer) };
    let mut found = json!({ "description": about.summary, "content": content });
    let mut responses = Map::new();
    if let Some(mark) = about.mark {
        found["headers"] =
            json!({ "ETag": { "description": mark, "schema": { "type": "string" } } });
        let same = "Nothing changed since the answer in `If-None-Match`";
        responses.insert("304".to_owned(), json!({ "description": same }));
    }
    let good = if about.effect == Effect::Creates { "201" } else { "200" };
    responses.insert(good.to_owned(), found);
    let mut refuse = |status: u16, when: &str| {
        responses.insert(status.to_string(), json!({ "description": when, "content": error }));
    };
    refuse(503, "Not now, or there are no blocks yet");
    if !fields.named().is_empty() {
        refuse(400, "A parameter is wrong");
    }
    if fields.has_body() {
        refuse(408, "The body did not arrive in time");
        refuse(413, "The body is longer than `[rest] body_kib_max`");
        refuse(415, "The body does not claim to be what the route takes");
    }
    for (kind, when) in about.refusals {
        refuse(Codes::of(*kind).http.as_u16(), when);
    }
    let mut described = json!({
        "tags": [about.tag],
        "summary": about.summary,
        "operationId": about.command.replace([' ', '-'], "_"),
        "responses": responses,
    });
    if !about.description.is_empty() {
        described["description"] = json!(about.description);
    }
    let parameters = fields.parameters();
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    if fields.has_body() {
        let content = if fields.has_json() { json_of(request) } else { lines };
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    serde_json::from_value(described).expect("it is written in the words of the description")
}

/// A field of a request as a parameter of a route.
fn parameter(about: &About, name: &str, schema: &Value, is_required: bool) -> Value {
    let is_segment = about.path.contains(&format!("{{{name}}}"));
    let mut schema = without_null(schema);
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    json!({
        "name": name,
        "in": if is_segment { "path" } else { "query" },
        "description": description,
        "required": is_segment || is_required,
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
