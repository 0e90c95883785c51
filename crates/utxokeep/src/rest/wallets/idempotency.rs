//! The header `Idempotency-Key`.

use axum::{extract::FromRequestParts, http::request::Parts};

use super::WalletState;
use crate::rest::error::ApiError;

const HEADER: &str = "idempotency-key";

/// The key that a request gives in its header.
#[derive(Debug)]
pub(super) struct KeyHeader(pub(super) Option<String>);

impl FromRequestParts<WalletState> for KeyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &WalletState) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let Some(first) = values.next() else { return Ok(Self(None)) };
        if values.any(|other| other != first) {
            let what = "the header Idempotency-Key is given twice; nothing was changed";
            return Err(ApiError::BadBody(what.to_owned()));
        }
        // Whatever is no text is no key either, and is refused as such.
        Ok(Self(Some(String::from_utf8_lossy(first.as_bytes()).into_owned())))
    }
}
