//! Bodies of requests, within limits of size and time. Unlike axum's own, errors have our shape.

use axum::{
    Json,
    body::Bytes,
    extract::{
        DefaultBodyLimit, FromRequest, Request,
        rejection::{BytesRejection, JsonRejection},
    },
    http::StatusCode,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::WalletState;
use crate::rest::error::ApiError;

/// A body in JSON.
#[derive(Debug)]
pub(super) struct Posted<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<WalletState> for Posted<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let bytes_max = state.body_bytes_max();
        DefaultBodyLimit::max(bytes_max).apply(&mut request);
        // A client that sends slowly must not hold its place for ever.
        let read = timeout(state.request_timeout(), Json::from_request(request, state)).await;
        match read.map_err(|_| ApiError::SlowBody)? {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(json_error(&rejection, bytes_max)),
        }
    }
}

/// A body of lines, whatever type it claims to be of.
#[derive(Debug)]
pub(super) struct PostedLines(pub(super) Bytes);

impl FromRequest<WalletState> for PostedLines {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &WalletState) -> Result<Self, ApiError> {
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
