//! Events of a wallet. The route is written by hand: a request that waits for the next event takes no
//! place among those that are worked on.

use std::time::Duration;

use axum::{Json, extract::State};
use utxokeep::ops::Effect;

use super::WalletState;
use crate::{
    rest::{
        error::{ApiError, ErrorBody},
        params::{Params, Segments},
        table::Serves as _,
    },
    wallets::{EventList, EventWait, ListEvents},
};

/// Events of a wallet
///
/// In the order in which they happened. `next_cursor` is always there; send it as `cursor` to go on.
/// With `wait_ms` the answer waits for the first event behind the cursor.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/events",
    tag = "wallets",
    params(("wallet" = String, Path, description = "Name of the wallet"), ListEvents),
    responses(
        (status = 200, description = "A page of events", body = EventList),
        (status = 400, description = "The request cannot be right", body = ErrorBody),
        (status = 404, description = "What it names does not exist", body = ErrorBody),
        (status = 410, description = "Events behind the cursor were forgotten; the text names the \
                                      oldest cursor", body = ErrorBody),
        (status = 500, description = "Stored data is damaged, or the server failed; its log says more",
            body = ErrorBody),
        (status = 503, description = "Not now: too many requests, too slow, or the database is away",
            body = ErrorBody),
    )
)]
pub(super) async fn list_events(
    State(state): State<WalletState>,
    Segments(name): Segments<String>,
    Params(list): Params<ListEvents>,
) -> Result<Json<EventList>, ApiError> {
    let mut wait = state.part().begin_wait(Duration::from_millis(list.wait_ms.into()));
    loop {
        let (name, asked) = (name.clone(), list.clone());
        let read = state.run(Effect::Reads, move |wallets| Ok(wallets.list_events(&name, &asked)?));
        let found = read.await?;
        while found.items.is_empty() && !wait.is_over() && !wait.is_due(state.part()) {
            tokio::time::sleep(EventWait::SLEEP).await;
        }
        if !found.items.is_empty() || wait.is_over() {
            return Ok(Json(found));
        }
    }
}
