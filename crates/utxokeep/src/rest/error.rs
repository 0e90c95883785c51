//! What goes wrong, as answers: one JSON shape, with the status a client can act on.

use axum::{
    Json,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep_core::Network;
use utxokeep_index::{QueryError, StoreError};

use crate::owners::OwnerError;

/// Seconds after which a client that was turned away may come back.
const RETRY_AFTER_SECS: &str = "1";

/// An answer that is an error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: ErrorDetail,
}

/// What is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorDetail {
    /// A name for programs; it does not change.
    #[schema(example = "outside_window")]
    code: &'static str,
    /// A sentence for people.
    #[schema(example = "height 3 cannot be answered: the window reaches from 12 to 300")]
    message: String,
    /// Deepest height that can be answered, when the one asked about cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 12)]
    floor: Option<u32>,
    /// Height of the tip, when the one asked about cannot be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 300)]
    tip: Option<u32>,
}

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// A query parameter is unknown, malformed or out of range.
    #[error("{0}")]
    BadParameter(String),
    #[error("the cursor is malformed; send back next_cursor exactly as it was given")]
    BadCursor,
    #[error("expected a transaction id of 64 hexadecimal digits")]
    BadTxHash,
    #[error("expected an output index, a whole number below 2^32")]
    BadOutputIndex,
    #[error("expected a script hash of 64 hexadecimal digits")]
    BadScriptHash,
    #[error("expected a block height or a block hash of 64 hexadecimal digits")]
    BadBlock,
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// A route that only another chain has.
    #[error("{network} has no {what}; {instead}")]
    NotOnThisChain { network: Network, what: &'static str, instead: &'static str },
    /// Transaction id and index.
    #[error(
        "output {0}:{1} is not known: it never existed, or was spent so long ago that it is pruned"
    )]
    UnknownOutput(String, u32),
    #[error("block {0} is not on the followed chain")]
    UnknownBlock(String),
    #[error("there is nothing at {0}; /docs lists the routes")]
    UnknownRoute(String),
    #[error("{0} is not possible here; this is a read-only API")]
    WrongMethod(Method),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("too many requests at the same time; come back in a second")]
    Overloaded,
    #[error("the request took too long; ask for less, or page by cursor")]
    Timeout,
    /// A handler's thread ended without an answer; the panic is in the log.
    #[error("the request failed; see the log of the server")]
    Internal,
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Query(error.into())
    }
}

impl ApiError {
    /// Status and code.
    fn kind(&self) -> (StatusCode, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        match self {
            Self::BadParameter(_) | Self::Owner(OwnerError::NoCredentials { .. }) => {
                (BAD, "bad_parameter")
            }
            Self::BadCursor => (BAD, "bad_cursor"),
            Self::BadTxHash => (BAD, "bad_tx_hash"),
            Self::BadOutputIndex => (BAD, "bad_output_index"),
            Self::BadScriptHash => (BAD, "bad_script_hash"),
            Self::BadBlock => (BAD, "bad_block"),
            Self::Owner(error) if error.is_wrong_network() => (BAD, "wrong_network"),
            Self::Owner(OwnerError::Asset(_) | OwnerError::NoAssets { .. }) => (BAD, "bad_asset"),
            Self::Owner(_) => (BAD, "bad_address"),
            Self::NotOnThisChain { .. } => (StatusCode::NOT_FOUND, "not_on_this_chain"),
            Self::UnknownOutput(..) => (StatusCode::NOT_FOUND, "unknown_output"),
            Self::UnknownBlock(_) => (StatusCode::NOT_FOUND, "unknown_block"),
            Self::UnknownRoute(_) => (StatusCode::NOT_FOUND, "unknown_route"),
            Self::WrongMethod(_) => (StatusCode::METHOD_NOT_ALLOWED, "wrong_method"),
            Self::Query(QueryError::OutsideWindow { .. }) => (BAD, "outside_window"),
            Self::Query(QueryError::TooManyRows { .. }) => (BAD, "too_many_outputs"),
            Self::Query(QueryError::Disabled) => (UNAVAILABLE, "index_disabled"),
            Self::Query(QueryError::IndexOff { name }) => (UNAVAILABLE, index_off_code(name)),
            Self::Query(QueryError::Empty) => (UNAVAILABLE, "empty_database"),
            Self::Overloaded => (UNAVAILABLE, "overloaded"),
            Self::Timeout => (UNAVAILABLE, "timeout"),
            Self::Query(_) => (StatusCode::INTERNAL_SERVER_ERROR, "database"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// The code for an index that is off, given the name of its setting.
fn index_off_code(setting: &str) -> &'static str {
    match setting {
        "address_hash" => "address_index_disabled",
        "payment_credential" => "payment_credential_index_disabled",
        "stake_credential" => "stake_credential_index_disabled",
        _ => "index_disabled",
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.kind();
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = &self as &dyn std::error::Error, "request failed");
        }
        let (floor, tip) = match &self {
            Self::Query(QueryError::OutsideWindow { floor, tip, .. }) => {
                (Some(floor.get()), Some(tip.get()))
            }
            _ => (None, None),
        };
        let error = ErrorDetail { code, message: self.to_string(), floor, tip };
        let mut response = (status, Json(ErrorBody { error })).into_response();
        if matches!(self, Self::Overloaded) {
            let seconds = header::HeaderValue::from_static(RETRY_AFTER_SECS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

pub(super) async fn unknown_route(uri: Uri) -> ApiError {
    ApiError::UnknownRoute(uri.path().to_owned())
}

pub(super) async fn wrong_method(method: Method) -> ApiError {
    ApiError::WrongMethod(method)
}
