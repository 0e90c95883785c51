//! Counts what requests take in memory, from their bodies to their answers.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};

use super::error::ApiError;
use crate::{
    held::Held,
    memory::{self, Budget},
};

/// Lets the requests of all routes share a budget.
pub(super) fn remembered(routes: Router, budget: Budget) -> Router {
    routes.layer(from_fn_with_state(budget, remember))
}

async fn remember(State(budget): State<Budget>, request: Request, next: Next) -> Response {
    let share = budget.share();
    let response = memory::within(Arc::clone(&share), next.run(request)).await;
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    match share.take(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        Ok(()) => response.map(|body| Body::new(Held::new(body, share))),
        Err(over) => ApiError::from(over).into_response(),
    }
}
