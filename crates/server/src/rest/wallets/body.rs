//! Bodies of requests, within limits of size and time. Unlike axum's own, errors have our shape.

use axum::{
    Json,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, FromRequest, Request, rejection::JsonRejection},
    http::{HeaderValue, header},
};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::WalletState;
use crate::{memory, rest::error::ApiError};

/// The type of one JSON object in each line.
pub(super) const JSON_LINES: &str = "application/jsonl";

/// A body in JSON.
#[derive(Debug)]
pub(super) struct Posted<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<WalletState> for Posted<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, state).await?;
        let Shape { values, has_null } = Shape::of(&bytes);
        let values_max = VALUES_MIN + bytes.len() / BYTES_PER_VALUE;
        if values > values_max {
            return Err(ApiError::BadBody(format!(
                "it has more than {values_max} values; send fewer at a time"
            )));
        }
        memory::take(bytes.len().saturating_add(values.saturating_mul(VALUE_BYTES)))?;
        let mut whole = Request::new(bytes.into());
        *whole.headers_mut() = parts.headers;
        // It was read within the limit.
        DefaultBodyLimit::disable().apply(&mut whole);
        match Json::from_request(whole, state).await {
            Ok(Json(_)) if has_null => {
                Err(ApiError::BadBody("it has a null; leave out what is not given".to_owned()))
            }
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(json_error(&rejection)),
        }
    }
}

/// Reads a body within the limits of size, time and memory.
async fn read(body: Body, state: &WalletState) -> Result<Vec<u8>, ApiError> {
    let bytes_max = state.body_bytes_max();
    // What its client says of its length is enough to refuse it.
    if HttpBody::size_hint(&body).lower() > bytes_max as u64 {
        return Err(ApiError::BodyTooLarge { kib_max: bytes_max >> 10 });
    }
    let read = async {
        let (mut bytes, mut parts) = (Vec::new(), body.into_data_stream());
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| ApiError::BadBody(error.to_string()))?;
            if part.len() > bytes_max - bytes.len() {
                return Err(ApiError::BodyTooLarge { kib_max: bytes_max >> 10 });
            }
            // While the list grows, the old one is there as well.
            memory::take(part.len().saturating_mul(2))?;
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    };
    timeout(state.request_timeout(), read).await.map_err(|_| ApiError::SlowBody)?
}

/// What a value takes in memory besides its text.
const VALUE_BYTES: usize = 256;

/// Values that any body may hold, and bytes that a body has for each one beyond. A value takes far
/// more memory than its three bytes in `"",`, and a body of honest ones is mostly hashes.
const VALUES_MIN: usize = 100_000;
const BYTES_PER_VALUE: usize = 32;

/// What a text of JSON shows before it is decoded.
#[derive(Debug, PartialEq, Eq, Default)]
struct Shape {
    /// About how many values it holds: what stands between its commas and brackets.
    values: usize,
    /// Whether a value is null. No request has such a value: the decoder would take it for one that
    /// is not given.
    has_null: bool,
}

impl Shape {
    fn of(json: &[u8]) -> Self {
        let (mut shape, mut is_text, mut is_escaped) = (Self::default(), false, false);
        for byte in json {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                b',' | b'[' | b'{' if !is_text => shape.values += 1,
                // No other word of JSON begins with it or has it inside.
                b'n' if !is_text => shape.has_null = true,
                _ => {}
            }
        }
        shape
    }
}

/// A body of lines of JSON. A page of another server could post plain text without asking first.
#[derive(Debug)]
pub(super) struct PostedLines(pub(super) Vec<u8>);

impl FromRequest<WalletState> for PostedLines {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let is_lines = |value: &HeaderValue| value.as_bytes().starts_with(JSON_LINES.as_bytes());
        if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_lines) {
            return Err(ApiError::NotJsonLines);
        }
        read(request.into_body(), state).await.map(Self)
    }
}

fn json_error(rejection: &JsonRejection) -> ApiError {
    match rejection {
        JsonRejection::MissingJsonContentType(_) => ApiError::NotJson,
        JsonRejection::JsonSyntaxError(error) => ApiError::BadJson(error.body_text()),
        other => ApiError::BadBody(other.body_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts_only() {
        let values = |json: &[u8]| Shape::of(json).values;
        assert_eq!(values(br#"{"a,b":"[,\",{","c":[1,2]}"#), 4);
        assert_eq!(values(b"\"\",".repeat(1_000).as_slice()), 1_000);
    }

    #[test]
    fn a_null_is_seen_outside_of_texts_only() {
        let has_null = |json: &[u8]| Shape::of(json).has_null;
        assert!(has_null(br#"{"a":null}"#) && has_null(b"[1,null]") && has_null(b" null"));
        assert!(!has_null(br#"{"null":"null","n":"\"null","b":[true,false,1e3]}"#));
    }
}
