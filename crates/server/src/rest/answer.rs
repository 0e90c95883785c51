//! Answers that name the block they are true of, and the condition that spares sending them.

use std::convert::Infallible;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utxokeep::ops::Mark;

use super::error::ApiError;

/// The entity tags a client already has an answer for.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownTags(Vec<HeaderValue>);

impl<S: Sync> FromRequestParts<S> for KnownTags {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

impl KnownTags {
    /// Those of a request with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect())
    }

    /// The comparison is weak, as for every `If-None-Match`.
    pub(super) fn has(&self, hash: &str) -> bool {
        let wanted = format!("\"{hash}\"");
        self.0
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == wanted)
    }
}

/// An answer that belongs to a block.
pub(super) fn tagged(mark: &Mark, answer: &impl Serialize) -> Result<Response, ApiError> {
    Ok((headers(mark)?, Json(answer)).into_response())
}

/// Says that the client has the answer of this block.
pub(super) fn same(mark: &Mark) -> Result<Response, ApiError> {
    Ok((StatusCode::NOT_MODIFIED, headers(mark)?).into_response())
}

fn headers(mark: &Mark) -> Result<HeaderMap, ApiError> {
    let weak = if mark.is_exact { "" } else { "W/" };
    let tag = HeaderValue::from_str(&format!("{weak}\"{}\"", mark.hash));
    let mut headers = HeaderMap::new();
    headers.insert(header::ETAG, tag.map_err(|_| ApiError::Internal)?);
    // Answers may be kept, but have to be asked for again: the next block may change them.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(values: &[&'static str]) -> KnownTags {
        KnownTags(values.iter().map(|value| HeaderValue::from_static(value)).collect())
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
