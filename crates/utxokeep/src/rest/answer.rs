//! Answers that name the block they are true of, and the condition that spares sending them.

use std::convert::Infallible;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::error::ApiError;

/// Whether the same point always means the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// It does.
    Strong,
    /// The meaning is the same, but details such as sizes may differ.
    Weak,
}

impl Tag {
    fn text(self, hash: &str) -> String {
        match self {
            Self::Strong => format!("\"{hash}\""),
            Self::Weak => format!("W/\"{hash}\""),
        }
    }
}

/// The entity tags a client already has an answer for.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Vec<HeaderValue>);

impl<S: Sync> FromRequestParts<S> for Known {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect()))
    }
}

impl Known {
    /// The comparison is weak, as for every `If-None-Match`.
    fn has(&self, hash: &str) -> bool {
        let wanted = Tag::Strong.text(hash);
        self.0
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == wanted)
    }
}

/// Answers with `body`, which is true of the block with this hash, or with "not modified" when the
/// client has the answer of this block; then the body is never made.
pub(super) fn answer<T: Serialize>(
    known: &Known,
    tag: Tag,
    hash: &str,
    body: impl FnOnce() -> Result<T, ApiError>,
) -> Result<Response, ApiError> {
    let mut headers = HeaderMap::new();
    let text = HeaderValue::from_str(&tag.text(hash)).map_err(|_| ApiError::Internal)?;
    headers.insert(header::ETAG, text);
    // Answers may be kept, but have to be asked for again: the next block may change them.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if known.has(hash) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Json(body()?)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[&'static str]) -> Known {
        Known(values.iter().map(|value| HeaderValue::from_static(value)).collect())
    }

    #[test]
    fn a_tag_matches_in_any_form_a_client_may_send() {
        let hash = "0".repeat(64);
        let strong = "\"0000000000000000000000000000000000000000000000000000000000000000\"";
        let weak = "W/\"0000000000000000000000000000000000000000000000000000000000000000\"";
        assert!(known(&[strong]).has(&hash));
        assert!(known(&[weak]).has(&hash));
        assert!(known(&["\"a\"", strong]).has(&hash));
        assert!(
            known(&[
                "\"a\" , W/\"0000000000000000000000000000000000000000000000000000000000000000\""
            ])
            .has(&hash)
        );
        assert!(known(&["*"]).has(&hash));
        assert!(!known(&["\"0\"", "0000", "W/", ","]).has(&hash));
        assert!(!known(&[]).has(&hash));
    }
}
