//! Bodies of requests, within limits of size, time and memory.

use axum::body::{Body, HttpBody};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{admission::Admission, error::ApiError};
use crate::memory;

/// Reads a body within the limits.
pub(super) async fn read(body: Body, limits: &Admission) -> Result<Vec<u8>, ApiError> {
    let bytes_max = limits.body_bytes_max();
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
    timeout(limits.timeout(), read).await.map_err(|_| ApiError::SlowBody)?
}

/// Refuses a text of JSON that holds very many values for its length.
pub(super) fn check_values(values: usize, bytes: usize) -> Result<(), ApiError> {
    let values_max = VALUES_MIN + bytes / BYTES_PER_VALUE;
    if values <= values_max {
        return Ok(());
    }
    let what = format!("it has more than {values_max} values; send fewer at a time");
    Err(ApiError::BadBody(what))
}

/// What a value takes in memory besides its text.
pub(super) const VALUE_BYTES: usize = 256;

/// Values that any body may hold, and bytes that a body has for each one beyond. A value takes far
/// more memory than its three bytes in `"",`, and a body of honest ones is mostly hashes.
const VALUES_MIN: usize = 100_000;
const BYTES_PER_VALUE: usize = 32;

/// What a text of JSON shows before it is decoded.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Shape {
    /// About how many values it holds: what stands between its commas and brackets.
    pub(super) values: usize,
    /// Whether a value is null. No request has such a value: the decoder would take it for one that
    /// is not given.
    pub(super) has_null: bool,
}

impl Shape {
    pub(super) fn of(json: &[u8]) -> Self {
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
