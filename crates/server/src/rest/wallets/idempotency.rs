//! The header `Idempotency-Key`: taken by routes that honour it, refused by all others.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::request::Parts,
    middleware::Next,
    response::Response,
};
use serde::de::DeserializeOwned;

use super::{WalletState, body::Posted};
use crate::{
    rest::error::ApiError,
    wallets::{AcquireLeases, BumpFee, CreatePsbt, RecordTx, SelectCoins, merge_keys},
};

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
            let what = "the header Idempotency-Key is given twice, and the two differ";
            return Err(ApiError::BadBody(what.to_owned()));
        }
        // Whatever is no text is no key either, and is refused as such.
        Ok(Self(Some(String::from_utf8_lossy(first.as_bytes()).into_owned())))
    }
}

/// Refuses a key where the route would ignore it: a client that relies on one must be told.
pub(super) async fn refuse_key(request: Request, next: Next) -> Result<Response, ApiError> {
    if request.headers().contains_key(HEADER) {
        let what = "this route takes no Idempotency-Key; leave the header out";
        return Err(ApiError::BadBody(what.to_owned()));
    }
    Ok(next.run(request).await)
}

/// A body in JSON, with the key of its header in it.
#[derive(Debug)]
pub(super) struct Keyed<T>(pub(super) T);

/// A request with an idempotency key.
pub(super) trait TakesKey {
    fn key(&mut self) -> &mut Option<String>;
}

macro_rules! takes_key {
    ($($request:ty),+) => {
        $(impl TakesKey for $request {
            fn key(&mut self) -> &mut Option<String> {
                &mut self.idempotency_key
            }
        })+
    };
}

takes_key!(AcquireLeases, BumpFee, CreatePsbt, RecordTx, SelectCoins);

impl<T: DeserializeOwned + TakesKey> FromRequest<WalletState> for Keyed<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &WalletState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let KeyHeader(header) = KeyHeader::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        let Posted(mut request) = Posted::<T>::from_request(request, state).await?;
        merge_keys(header, request.key())?;
        Ok(Self(request))
    }
}
