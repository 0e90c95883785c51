//! What goes wrong, as answers: one JSON shape, with the status a client can act on.

use axum::{
    Json,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use utxokeep::{
    ops::{chain::ChainReadError, pruner::PrunerReadError, transactions::TransactionReadError},
    stream::StreamError,
};
use utxokeep_core::ErrorKind;
use utxokeep_index::{IndexError, MmrError, QueryError};
use utxokeep_wallet::LedgerError;

use crate::{json::Partial, kinds::Codes, memory::OverBudget, wallets::WalletsError};

/// Seconds after which a client that was turned away may come back.
const RETRY_AFTER_SECS: &str = "1";

/// An answer that is an error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: ErrorDetail,
}

/// What is wrong.
#[derive(Debug, Default, Serialize, ToSchema)]
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
    /// The stream: the lowest height to start from, when the place asked for is not kept any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 12)]
    start_from: Option<u32>,
    /// What the database keeps, when what is asked about is not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    partial: Option<Partial>,
    /// Insufficient funds: payment and fee, with the inputs for everything that is available, as a
    /// decimal string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "150000")]
    needed: Option<String>,
    /// Insufficient funds: what may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "100000")]
    available: Option<String>,
    /// Insufficient funds: what is under a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "50000")]
    leased: Option<String>,
    /// Insufficient funds: coinbase outputs that are too young.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    immature: Option<String>,
    /// Insufficient funds: what is not sent, not trusted, or not confirmed often enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    pending: Option<String>,
    /// Insufficient funds: what labels say not to spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    held_back: Option<String>,
    /// Insufficient funds: what the next block may not spend, because of the `older()` or `after()`
    /// of its descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    locked: Option<String>,
    /// Insufficient funds: what costs more to spend than it is worth at this fee rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    uneconomic: Option<String>,
    /// Insufficient funds: what the request excludes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "0")]
    excluded: Option<String>,
    /// Too many inputs: the most that the request allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 250)]
    inputs_max: Option<usize>,
    /// Guarded: the name by which `allow` lets the payment pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "fee_max")]
    guard: Option<&'static str>,
    /// Guarded: what the guard found, as a decimal string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "5000000000")]
    figure: Option<String>,
    /// Guarded: the bound that the figure passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "10000000")]
    bound: Option<String>,
    /// Guarded: the output it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 0)]
    output: Option<usize>,
}

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// A query parameter is unknown, malformed or out of range.
    #[error("{0}")]
    BadParameter(String),
    #[error(transparent)]
    Chain(#[from] ChainReadError),
    #[error("there is nothing at {0}; /docs lists the routes")]
    UnknownRoute(String),
    #[error(
        "there is nothing at {0}: this server has no wallet ledger; name one with [wallet] url and start \
         `utxokeep serve`"
    )]
    NoWallets(String),
    #[error("{0} is not possible here; /docs lists the routes")]
    WrongMethod(Method),
    #[error(transparent)]
    Wallets(#[from] WalletsError),
    #[error("expected JSON, with the header \"Content-Type: application/json\"")]
    NotJson,
    #[error("expected lines of JSON, with the header \"Content-Type: application/jsonl\"")]
    NotJsonLines,
    #[error(
        "a token is needed: send the one in the server's token file as \"Authorization: Bearer TOKEN\" \
         (SECURITY.md); nothing was done"
    )]
    NoToken,
    #[error("the token is not the one in the server's token file; nothing was done")]
    WrongToken,
    #[error(
        "this server is asked by a name that it does not know, in the header Host; use its address, or \
         add the name to [server] hosts; nothing was done"
    )]
    ForeignHost,
    #[error(
        "a page of another origin may not ask this server (Origin, Sec-Fetch-Site); [server] \
         cors_origins lists pages that may read the chain; nothing was done"
    )]
    ForeignPage,
    #[error("{0}; nothing was changed")]
    BadJson(String),
    /// A body that is JSON, but not what the route takes, or that broke off.
    #[error("{0}; nothing was changed")]
    BadBody(String),
    #[error("the body is longer than {kib_max} KiB, which is [rest] body_kib_max")]
    BodyTooLarge { kib_max: usize },
    #[error("the body did not arrive in time; nothing was changed")]
    SlowBody,
    #[error(transparent)]
    Mmr(#[from] MmrError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Transactions(#[from] TransactionReadError),
    #[error(transparent)]
    Pruner(#[from] PrunerReadError),
    #[error("too many requests at the same time; come back in a second")]
    Overloaded,
    #[error("{0}; nothing was changed")]
    OverBudget(#[from] OverBudget),
    #[error("the request took too long; ask for less, or page by cursor")]
    Timeout,
    #[error(
        "this takes longer than a request may, but is still carried out; look what became of it before you send it again"
    )]
    WriteTimeout,
    /// A handler's thread ended without an answer; the panic is in the log.
    #[error("the request failed; see the log of the server")]
    Internal,
}

impl From<IndexError> for ApiError {
    fn from(error: IndexError) -> Self {
        Self::Chain(error.into())
    }
}

impl ApiError {
    /// What a client can do about it.
    fn kind(&self) -> ErrorKind {
        match self {
            Self::BadParameter(_)
            | Self::WrongMethod(_)
            | Self::NotJson
            | Self::NotJsonLines
            | Self::BadJson(_)
            | Self::BadBody(_)
            | Self::BodyTooLarge { .. }
            | Self::SlowBody => ErrorKind::Invalid,
            Self::NoToken | Self::WrongToken | Self::ForeignHost | Self::ForeignPage => {
                ErrorKind::Refused
            }
            Self::UnknownRoute(_) | Self::NoWallets(_) => ErrorKind::NotFound,
            Self::Chain(error) => error.kind(),
            Self::Wallets(error) => error.kind(),
            Self::Mmr(error) => error.kind(),
            Self::Stream(error) => error.kind(),
            Self::OverBudget(error) => error.kind(),
            Self::Overloaded => ErrorKind::Overloaded,
            Self::Transactions(error) => error.kind(),
            Self::Pruner(error) => error.kind(),
            Self::Timeout | Self::WriteTimeout => ErrorKind::Unavailable,
            Self::Internal => ErrorKind::Failed,
        }
    }

    /// The status: HTTP's own where the request fails as one of HTTP, else that of the kind.
    fn status(&self) -> StatusCode {
        match self {
            Self::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotJson | Self::NotJsonLines => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::ForeignHost | Self::ForeignPage => StatusCode::FORBIDDEN,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Stream(error) if error.start_from().is_some() => StatusCode::GONE,
            other => Codes::of(other.kind()).http,
        }
    }

    /// A name for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::BadParameter(_) => "bad_parameter",
            Self::Chain(error) => error.code(),
            Self::UnknownRoute(_) | Self::NoWallets(_) => "unknown_route",
            Self::WrongMethod(_) => "wrong_method",
            Self::Mmr(error) => mmr_code(error),
            Self::Stream(error) => error.code(),
            Self::Wallets(error) => error.code(),
            Self::NotJson | Self::NotJsonLines => "unsupported_media_type",
            Self::NoToken => "token_missing",
            Self::WrongToken => "token_wrong",
            Self::ForeignHost => "foreign_host",
            Self::ForeignPage => "foreign_page",
            Self::BadJson(_) => "bad_json",
            Self::BadBody(_) => "bad_request",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::SlowBody => "slow_body",
            Self::Transactions(error) => error.code(),
            Self::Pruner(error) => error.code(),
            Self::Overloaded | Self::OverBudget(_) => "overloaded",
            Self::Timeout | Self::WriteTimeout => "timeout",
            Self::Internal => "internal",
        }
    }

    /// Whether the same request may work a little later.
    fn may_pass(&self) -> bool {
        match self {
            Self::Overloaded | Self::OverBudget(_) => true,
            Self::Stream(error) => error.kind() == ErrorKind::Overloaded,
            Self::Wallets(error) => {
                matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded)
            }
            _ => false,
        }
    }
}

/// The code for what a question about the Merkle mountain range is refused for.
const fn mmr_code(error: &MmrError) -> &'static str {
    match error {
        MmrError::Off => "mmr_disabled",
        MmrError::Empty => "empty_database",
        MmrError::OtherRule => "other_mmr_rule",
        MmrError::Unknown => "unknown_output",
        MmrError::NeverExisted => "never_existed",
        MmrError::NotYet { .. } => "not_created_yet",
        MmrError::Passed { .. } => "no_leaf",
        MmrError::SpentInUtreexo => "spent",
        MmrError::OutsideWindow { .. } => "outside_window",
        MmrError::TooMuchWork { .. } => "too_much_work",
        _ => "database",
    }
}

impl ErrorDetail {
    /// Adds what a client can count with.
    fn add_numbers(&mut self, error: &ApiError) {
        match error {
            ApiError::Stream(error) => {
                self.start_from = error.start_from().map(utxokeep_core::Height::get);
            }
            ApiError::Chain(ChainReadError::Query(
                QueryError::OutsideWindow { floor, tip, .. }
                | QueryError::SlotOutsideWindow { floor, tip, .. },
            )) => {
                (self.floor, self.tip) = (Some(floor.get()), Some(tip.get()));
            }
            ApiError::Mmr(MmrError::OutsideWindow { oldest, tip, .. }) => {
                (self.floor, self.tip) = (Some(oldest.get()), Some(tip.get()));
            }
            ApiError::Chain(ChainReadError::Query(
                QueryError::OwnerNotKept { partial }
                | QueryError::OutputNotKept { partial }
                | QueryError::BlockNotKept { partial, .. },
            )) => self.partial = Partial::new(Some(*partial)),
            ApiError::Wallets(WalletsError::Ledger(LedgerError::InsufficientFunds {
                needed,
                available,
                leased,
                immature,
                pending,
                held_back,
                uneconomic,
                excluded,
                locked,
            })) => {
                let text = |amount: &u64| Some(amount.to_string());
                (self.needed, self.available) = (text(needed), text(available));
                (self.leased, self.immature) = (text(leased), text(immature));
                (self.pending, self.held_back) = (text(pending), text(held_back));
                (self.uneconomic, self.excluded) = (text(uneconomic), text(excluded));
                self.locked = text(locked);
            }
            ApiError::Wallets(WalletsError::Ledger(LedgerError::TooManyInputs {
                needed,
                available,
                inputs_max,
            })) => {
                self.needed = Some(needed.to_string());
                self.available = Some(available.to_string());
                self.inputs_max = Some(*inputs_max);
            }
            ApiError::Wallets(WalletsError::Ledger(LedgerError::Guarded(refusal))) => {
                self.guard = Some(refusal.guard.name());
                self.figure = Some(refusal.figure.to_string());
                self.bound = Some(refusal.bound.to_string());
                self.output = refusal.output;
            }
            _ => {}
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = (self.status(), self.code());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = &self as &dyn std::error::Error, "request failed");
        }
        let mut error = ErrorDetail { code, message: self.to_string(), ..ErrorDetail::default() };
        error.add_numbers(&self);
        let mut response = (status, Json(ErrorBody { error })).into_response();
        if self.may_pass() {
            let seconds = header::HeaderValue::from_static(RETRY_AFTER_SECS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// What a server answers where it has no route.
pub(super) fn unknown_route(uri: &Uri, has_wallets: bool) -> ApiError {
    let path = uri.path().to_owned();
    let is_of_wallets = ["/api/v1/wallets", "/api/v1/ledger"].iter().any(|at| path.starts_with(at));
    if is_of_wallets && !has_wallets {
        ApiError::NoWallets(path)
    } else {
        ApiError::UnknownRoute(path)
    }
}

pub(super) async fn wrong_method(method: Method) -> ApiError {
    ApiError::WrongMethod(method)
}
