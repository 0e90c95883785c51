//! Decides whether a request is let in, before anything of it is carried out or its body is read.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{
        Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::Authority,
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use metrics::counter;

use super::error::ApiError;
use crate::access::{RestAccess, Verdict, Visit};

pub(super) const REFUSED: &str = "utxokeep_rest_refused_total";

/// Answered without a token wherever the server listens: probes have none, and the description of the
/// API tells nothing about anybody.
const ALWAYS_OPEN: &[&str] =
    &["/health", "/health/live", "/health/ready", "/metrics", "/openapi.json", "/docs"];

/// How long a browser may remember that a page may read, in seconds.
const PREFLIGHT_SECS: &str = "600";

/// Tells browsers to show answers nowhere but on pages of this server, as what they say they are.
const FOR_BROWSERS: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    // The page with the description has styles in its elements and pictures in its styles.
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' \
             data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ),
];

/// Marks a request that may read wallets and write.
#[derive(Debug, Clone, Copy)]
struct Trusted;

/// Marks a request of a page of another server, which may read the chain and nothing else.
#[derive(Debug, Clone, Copy)]
struct OfReader;

/// Puts the guard around all routes of a server.
pub(super) fn guarded(routes: Router, access: RestAccess) -> Router {
    routes.layer(from_fn_with_state(Arc::new(access), guard))
}

/// Lets only trusted requests through, whatever their method. Where no guard stands in front, none is.
pub(super) async fn trusted_only(request: Request, next: Next) -> Result<Response, ApiError> {
    check_trusted(request.extensions(), request.headers())?;
    Ok(next.run(request).await)
}

/// Whether a request may do what changes something. Where no guard stands in front, none may.
pub(super) fn check_trusted(extensions: &Extensions, headers: &HeaderMap) -> Result<(), ApiError> {
    if extensions.get::<OfReader>().is_some() {
        return Err(refused(ApiError::ForeignPage));
    }
    match extensions.get::<Trusted>() {
        Some(_) => Ok(()),
        None => Err(refused(no_token(headers))),
    }
}

async fn guard(
    State(access): State<Arc<RestAccess>>,
    mut request: Request,
    next: Next,
) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let response = match admit(&access, &request) {
        Ok(Admission::Preflight) => share(preflight(), origin.as_ref()),
        Ok(Admission::Trusted) => {
            request.extensions_mut().insert(Trusted);
            next.run(request).await
        }
        Ok(Admission::Reader) => {
            request.extensions_mut().insert(OfReader);
            share(next.run(request).await, origin.as_ref())
        }
        Err(error) => return with_headers(refused(error).into_response(), &access),
        Ok(Admission::Unknown) => next.run(request).await,
    };
    with_headers(response, &access)
}

/// What a request that is let in may do.
enum Admission {
    /// Everything.
    Trusted,
    /// What needs no token.
    Unknown,
    /// The same, for a page of another server.
    Reader,
    /// Such a page asks whether it may read.
    Preflight,
}

fn admit(access: &RestAccess, request: &Request) -> Result<Admission, ApiError> {
    let headers = request.headers();
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
    let is_preflight = request.method() == Method::OPTIONS && asked.is_some();
    let is_read = match asked.filter(|_| is_preflight) {
        Some(asked) => ["GET", "HEAD"].iter().any(|read| asked == read),
        None => request.method().is_safe(),
    };
    let verdict = judge(access, request, is_read)?;
    let is_reader = verdict == Verdict::Reader;
    if is_preflight && is_reader {
        return Ok(Admission::Preflight);
    }
    let is_trusted = !is_reader
        && access.token.as_ref().is_none_or(|token| {
            let mut sent = headers.get_all(header::AUTHORIZATION).iter();
            let (first, second) = (sent.next(), sent.next());
            second.is_none() && first.is_some_and(|sent| token.is_sent_in(sent.as_bytes()))
        });
    let is_open = is_read && (!access.closes_reads || is_always_open(request.uri().path()));
    if !is_trusted && !is_open {
        return Err(if is_reader { ApiError::ForeignPage } else { no_token(headers) });
    }
    if !request.method().is_safe() {
        check_type(headers)?;
    }
    Ok(match (is_trusted, is_reader) {
        (true, _) => Admission::Trusted,
        (false, true) => Admission::Reader,
        (false, false) => Admission::Unknown,
    })
}

/// Where a request comes from, when it may come from there.
fn judge(access: &RestAccess, request: &Request, is_read: bool) -> Result<Verdict, ApiError> {
    let headers = request.headers();
    let mut hosts: Vec<&str> = Vec::new();
    for host in headers.get_all(header::HOST) {
        hosts.push(host.to_str().map_err(|_| ApiError::ForeignHost)?);
    }
    hosts.extend(request.uri().authority().map(Authority::as_str));
    let site = HeaderName::from_static("sec-fetch-site");
    // A browser says each once; of two nobody knows which one is meant.
    if [&header::ORIGIN, &site].iter().any(|name| headers.get_all(*name).iter().count() > 1) {
        return Err(ApiError::ForeignPage);
    }
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
    let visit = Visit {
        host: hosts.first().copied(),
        origin: text(header::ORIGIN),
        site: text(site),
        is_navigation: text(HeaderName::from_static("sec-fetch-dest")) == Some("document"),
        is_read,
    };
    let is_own = |host: &&str| {
        let host = Some(*host);
        access.pages.judge(Visit { host, ..Visit::default() }) != Verdict::ForeignHost
    };
    if !hosts.iter().all(is_own) {
        return Err(ApiError::ForeignHost);
    }
    match access.pages.judge(visit) {
        Verdict::ForeignHost => Err(ApiError::ForeignHost),
        Verdict::ForeignPage => Err(ApiError::ForeignPage),
        verdict => Ok(verdict),
    }
}

/// Pages may post forms and plain text anywhere, but must ask before they post JSON.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) if !has_body => Ok(()),
        (Some(one), None) if is_json(one) => Ok(()),
        _ => Err(ApiError::NotJson),
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or("");
    let essence = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    subtype == "json" || subtype == "jsonl" || subtype.ends_with("+json")
}

fn is_always_open(path: &str) -> bool {
    ALWAYS_OPEN.iter().any(|open| {
        path.strip_prefix(open)
            .is_some_and(|rest| rest.is_empty() || (*open == "/docs" && rest.starts_with('/')))
    })
}

fn no_token(headers: &HeaderMap) -> ApiError {
    if headers.contains_key(header::AUTHORIZATION) {
        ApiError::WrongToken
    } else {
        ApiError::NoToken
    }
}

fn refused(error: ApiError) -> ApiError {
    counter!(REFUSED, "reason" => error.code()).increment(1);
    error
}

/// Tells a page that it may read, and how.
fn preflight() -> Response {
    let how = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "if-none-match"),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECS),
    ];
    (StatusCode::NO_CONTENT, how).into_response()
}

/// Lets the page that asked see the answer.
fn share(mut response: Response, origin: Option<&HeaderValue>) -> Response {
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let exposed = HeaderValue::from_static("etag, retry-after");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    response
}

fn with_headers(mut response: Response, access: &RestAccess) -> Response {
    let headers = response.headers_mut();
    for (name, value) in FOR_BROWSERS {
        headers.insert(name, value);
    }
    if access.pages.has_readers() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}
