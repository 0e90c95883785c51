//! Bodies of requests, within limits of size and time. Unlike axum's own, errors have our shape.

use axum::{
    Json,
    body::Bytes,
    extract::{
        DefaultBodyLimit, FromRequest, Request,
        rejection::{BytesRejection, JsonRejection},
    },
    http::{HeaderValue, StatusCode, header},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::WalletState;
use crate::rest::error::ApiError;

/// The type of one JSON object in each line.
pub(super) const JSON_LINES: &str = "application/jsonl";

/// A body in JSON.
#[derive(Debug)]
pub(super) struct Posted<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<WalletState> for Posted<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let bytes_max = state.body_bytes_max();
        DefaultBodyLimit::max(bytes_max).apply(&mut request);
        let (parts, body) = request.into_parts();
        let headers = parts.headers.clone();
        // A client that sends slowly must not hold its place for ever.
        let read = Bytes::from_request(Request::from_parts(parts, body), state);
        let read = timeout(state.request_timeout(), read).await.map_err(|_| ApiError::SlowBody)?;
        let bytes = read.map_err(|rejection| bytes_error(&rejection, bytes_max))?;
        let values_max = VALUES_MIN + bytes.len() / BYTES_PER_VALUE;
        if values(&bytes) > values_max {
            return Err(ApiError::BadBody(format!(
                "it has more than {values_max} values; send fewer at a time"
            )));
        }
        let mut whole = Request::new(bytes.into());
        *whole.headers_mut() = headers;
        // It was read within the limit.
        DefaultBodyLimit::disable().apply(&mut whole);
        match Json::from_request(whole, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(json_error(&rejection, bytes_max)),
        }
    }
}

/// Values that any body may hold, and bytes that a body has for each one beyond. A value takes far
/// more memory than its three bytes in `"",`, and a body of honest ones is mostly hashes.
const VALUES_MIN: usize = 100_000;
const BYTES_PER_VALUE: usize = 32;

/// About how many values a text of JSON holds: what stands between its commas and brackets.
fn values(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// A body of lines of JSON. A page of another server could post plain text without asking first.
#[derive(Debug)]
pub(super) struct PostedLines(pub(super) Bytes);

impl FromRequest<WalletState> for PostedLines {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let is_lines = |value: &HeaderValue| value.as_bytes().starts_with(JSON_LINES.as_bytes());
        if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_lines) {
            return Err(ApiError::NotJsonLines);
        }
        let bytes_max = state.body_bytes_max();
        DefaultBodyLimit::max(bytes_max).apply(&mut request);
        let read = timeout(state.request_timeout(), Bytes::from_request(request, state)).await;
        let read = read.map_err(|_| ApiError::SlowBody)?;
        read.map(Self).map_err(|rejection| bytes_error(&rejection, bytes_max))
    }
}

fn json_error(rejection: &JsonRejection, bytes_max: usize) -> ApiError {
    match rejection {
        JsonRejection::MissingJsonContentType(_) => ApiError::NotJson,
        JsonRejection::JsonSyntaxError(error) => ApiError::BadJson(error.body_text()),
        JsonRejection::BytesRejection(error) => bytes_error(error, bytes_max),
        other => ApiError::BadBody(other.body_text()),
    }
}

fn bytes_error(rejection: &BytesRejection, bytes_max: usize) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiError::BodyTooLarge { kib_max: bytes_max >> 10 };
    }
    ApiError::BadBody(rejection.body_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts_only() {
        assert_eq!(values(br#"{"a,b":"[,\",{","c":[1,2]}"#), 4);
        assert_eq!(values(b"\"\",".repeat(1_000).as_slice()), 1_000);
    }
}
