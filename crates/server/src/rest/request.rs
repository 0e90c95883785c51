//! What a client sends to a route of the tables, read as one request: segments of the path, parameters
//! of the query or a body, and the idempotency key of the header.

use axum::{
    extract::{FromRequestParts as _, Query, RawPathParams, Request},
    http::{HeaderMap, HeaderValue, Uri, header},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::{DeserializeOwned, value::MapDeserializer};
use utxokeep::ops::{About, Media};

use super::{
    admission::Admission,
    answer::KnownTags,
    body::{self, Shape},
    error::ApiError,
    merged::{Given, Merged},
    params::in_our_words,
};
use crate::memory;

const KEY: &str = "idempotency-key";

/// The type of one JSON object in each line.
pub(super) const JSON_LINES: &str = "application/jsonl";

/// Everything of a request that an operation may have to know.
#[derive(Debug)]
pub(super) struct Sent {
    segments: Vec<(String, String)>,
    query: Option<String>,
    body: Option<Vec<u8>>,
    pub(super) key: Option<String>,
    pub(super) tags: KnownTags,
}

impl Sent {
    /// Takes a request in. Its body is read only where the operation has one, within the limits.
    pub(super) async fn new(
        request: Request,
        about: &About,
        has_body: bool,
        limits: &Admission,
    ) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let segments = RawPathParams::from_request_parts(&mut parts, &())
            .await
            .map_err(|error| ApiError::BadParameter(error.body_text()))?;
        let mut segments: Vec<(String, String)> =
            segments.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        // An output may be named by two segments.
        if let [(first, tx_hash), (second, index)] = segments.as_slice()
            && (first.as_str(), second.as_str()) == ("tx_hash", "output_index")
        {
            segments = vec![("outpoint".to_owned(), format!("{tx_hash}:{index}"))];
        }
        let key = key_of(&parts.headers, about)?;
        let tags = KnownTags::of(&parts.headers);
        let query = parts.uri.query().filter(|query| !query.is_empty()).map(str::to_owned);
        let mut bytes = None;
        if has_body {
            check_media(&parts.headers, about)?;
            bytes = Some(body::read(body, limits).await?);
        }
        Ok(Self { segments, query, body: bytes, key, tags })
    }

    /// Reads the request of an operation.
    pub(super) fn read<T: DeserializeOwned>(&self, about: &About) -> Result<T, ApiError> {
        match (&self.body, about.media) {
            (None, _) => read_query(&self.as_query(), about.path),
            (Some(lines), Media::LinesIn(field)) => {
                let segments = self.segments.iter();
                let mut given: Vec<(&str, Given<'_>)> =
                    segments.map(|(name, value)| (name.as_str(), Given::Text(value))).collect();
                given.push((field, Given::Bytes(lines)));
                let fields = given.into_iter();
                let read = T::deserialize(MapDeserializer::<_, serde_json::Error>::new(fields));
                read.map_err(|error| ApiError::BadBody(error.to_string()))
            }
            (Some(json), _) => self.read_json(json, about.path),
        }
    }

    fn read_json<T: DeserializeOwned>(&self, json: &[u8], path: &str) -> Result<T, ApiError> {
        let Shape { values, has_null } = Shape::of(json);
        body::check_values(values, json.len())?;
        memory::take(json.len().saturating_add(values.saturating_mul(body::VALUE_BYTES)))?;
        let mut reader = serde_json::Deserializer::from_slice(json);
        let merged = Merged { segments: &self.segments, json: &mut reader };
        let read = serde_path_to_error::deserialize(merged).map_err(|error| {
            let (at, fault) = (error.path().to_string(), error.into_inner());
            if fault.is_syntax() || fault.is_eof() {
                return ApiError::BadJson(format!("the body is not JSON: {fault}"));
            }
            let text = if at == "." { fault.to_string() } else { format!("{at}: {fault}") };
            ApiError::BadBody(in_our_words(&text, path))
        })?;
        let end = reader.end();
        end.map_err(|error| ApiError::BadJson(format!("the body is not JSON: {error}")))?;
        if has_null {
            let what = "it has a null; leave out what is not given";
            return Err(ApiError::BadBody(what.to_owned()));
        }
        Ok(read)
    }

    /// Segments and parameters as one query.
    fn as_query(&self) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let segments =
            self.segments.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        segments.chain(self.query.clone()).collect::<Vec<_>>().join("&")
    }
}

fn read_query<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, ApiError> {
    let wrong = |text: String| ApiError::BadParameter(in_our_words(&text, path));
    let uri = format!("/?{text}").parse::<Uri>().map_err(|error| wrong(error.to_string()))?;
    let Query(request) = Query::try_from_uri(&uri).map_err(|error| wrong(error.body_text()))?;
    Ok(request)
}

/// The key of the header. A route that would ignore one refuses it: a client that relies on it must be
/// told.
fn key_of(headers: &HeaderMap, about: &About) -> Result<Option<String>, ApiError> {
    let wrong = |what: &str| ApiError::BadBody(what.to_owned());
    let mut values = headers.get_all(KEY).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if !about.takes_key {
        return Err(wrong("this route takes no Idempotency-Key; leave the header out"));
    }
    if values.any(|other| other != first) {
        return Err(wrong("the header Idempotency-Key is given twice, and the two differ"));
    }
    // Whatever is no text is no key either, and is refused as such.
    Ok(Some(String::from_utf8_lossy(first.as_bytes()).into_owned()))
}

/// Refuses a body that does not claim to be what the route takes: a page of another server could send
/// plain text without asking first.
fn check_media(headers: &HeaderMap, about: &About) -> Result<(), ApiError> {
    let is = |media: &str| {
        let is_so = |value: &HeaderValue| {
            let essence = value.to_str().ok().and_then(|text| text.split(';').next());
            essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media))
        };
        headers.get(header::CONTENT_TYPE).is_some_and(is_so)
    };
    match about.media {
        Media::LinesIn(_) if !is(JSON_LINES) => Err(ApiError::NotJsonLines),
        Media::Json | Media::LinesOut if !is("application/json") => Err(ApiError::NotJson),
        _ => Ok(()),
    }
}
