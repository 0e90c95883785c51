//! What happened to a wallet, and the webhooks that are told of it.

use std::time::Duration;

use axum::Json;

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, EventFaults, ReadFaults, WriteFaults},
    places::InWallet,
};
use crate::{
    rest::params::{Params, Segments},
    wallets::{
        AddWebhook, EventList, EventWait, ListEvents, Listed, WebhookAdded, WebhookInfo,
        WebhookRemoved, WebhookTested,
    },
};

/// Events of a wallet
///
/// In the order in which they happened. `next_cursor` is always there; send it as `cursor` to go on.
/// With `wait_ms` the answer waits for the first event behind the cursor.
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/events",
    tag = "wallets",
    params(InWallet, ListEvents),
    responses((status = 200, description = "A page of events", body = EventList), EventFaults)
)]
pub(super) async fn list_events(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Params(list): Params<ListEvents>,
) -> Answer<EventList> {
    let wait = Duration::from_millis(list.wait_ms.into());
    let mut wait = admitted.wallets().begin_wait(wait);
    loop {
        let (name, asked) = (name.clone(), list.clone());
        let page = admitted.clone().read(move |wallets| wallets.list_events(&name, &asked)).await?;
        let Json(found) = &page;
        // A request that waits takes no place among those that are worked on.
        while found.items.is_empty() && !wait.is_over() && !wait.is_due(admitted.wallets()) {
            tokio::time::sleep(EventWait::SLEEP).await;
        }
        if !found.items.is_empty() || wait.is_over() {
            return Ok(page);
        }
    }
}

/// Webhooks of a wallet
#[utoipa::path(
    get,
    path = "/api/v1/wallets/{wallet}/webhooks",
    tag = "wallets",
    params(InWallet),
    responses(
        (status = 200, description = "All webhooks, and how they get on", body = Listed<WebhookInfo>),
        ReadFaults,
    )
)]
pub(super) async fn list_webhooks(
    admitted: Admitted,
    Segments(name): Segments<String>,
) -> Answer<Listed<WebhookInfo>> {
    admitted.read(move |wallets| wallets.list_webhooks(&name)).await
}

/// Add a webhook
///
/// Events are sent to its URL, signed with the secret of the answer, which is shown this once.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/webhooks",
    tag = "wallets",
    params(InWallet),
    request_body = AddWebhook,
    responses((status = 200, description = "The webhook", body = WebhookAdded), BodyFaults)
)]
pub(super) async fn add_webhook(
    admitted: Admitted,
    Segments(name): Segments<String>,
    Posted(request): Posted<AddWebhook>,
) -> Answer<WebhookAdded> {
    admitted.write(move |wallets| wallets.add_webhook(&name, &request)).await
}

/// Remove a webhook
///
/// Events stay.
#[utoipa::path(
    delete,
    path = "/api/v1/wallets/{wallet}/webhooks/{id}",
    tag = "wallets",
    params(InWallet, ("id" = i64, Path, description = "Number of the webhook")),
    responses((status = 200, description = "It is gone", body = WebhookRemoved), WriteFaults)
)]
pub(super) async fn remove_webhook(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
) -> Answer<WebhookRemoved> {
    admitted.write(move |wallets| wallets.remove_webhook(&name, id)).await
}

/// Pause a webhook
///
/// Events wait, as long as they are kept.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/webhooks/{id}/pause",
    tag = "wallets",
    params(InWallet, ("id" = i64, Path, description = "Number of the webhook")),
    responses((status = 200, description = "The webhook", body = WebhookInfo), WriteFaults)
)]
pub(super) async fn pause_webhook(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
) -> Answer<WebhookInfo> {
    admitted.write(move |wallets| wallets.pause_webhook(&name, id)).await
}

/// Resume a webhook
///
/// Also one that was disabled. Events that were forgotten meanwhile are skipped.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/webhooks/{id}/resume",
    tag = "wallets",
    params(InWallet, ("id" = i64, Path, description = "Number of the webhook")),
    responses((status = 200, description = "The webhook", body = WebhookInfo), WriteFaults)
)]
pub(super) async fn resume_webhook(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
) -> Answer<WebhookInfo> {
    admitted.write(move |wallets| wallets.resume_webhook(&name, id)).await
}

/// Try a webhook out
///
/// Sends a signed delivery without events, whatever the state of the webhook. Nothing is stored.
#[utoipa::path(
    post,
    path = "/api/v1/wallets/{wallet}/webhooks/{id}/test",
    tag = "wallets",
    params(InWallet, ("id" = i64, Path, description = "Number of the webhook")),
    responses((status = 200, description = "What came of it", body = WebhookTested), WriteFaults)
)]
pub(super) async fn test_webhook(
    admitted: Admitted,
    Segments((name, id)): Segments<(String, i64)>,
) -> Answer<WebhookTested> {
    admitted.read(move |wallets| wallets.test_webhook(&name, id)).await
}
