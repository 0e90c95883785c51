//! Events and webhooks of wallets, as gRPC answers them.

#![allow(
    clippy::needless_pass_by_value,
    reason = "every operation has the same shape, so that the service can call any of them"
)]

use std::time::Duration;

use tokio::sync::mpsc;
use tonic::{Status, codegen::tokio_stream::wrappers::ReceiverStream};
use utxokeep_core::ChainHash;

use super::{
    calls::Calls,
    operations::fitting,
    proto, wallet_from_proto as from,
    wallet_operations::{Answer, Limits},
    wallet_to_proto as to,
};
use crate::wallets::{
    AddWebhook, EventInfo, EventList, EventWait, InWallet, ListEvents, OneWebhook, Wallets,
    WebhookInfo,
};

/// Events on their way to a client.
pub(super) type Events = ReceiverStream<Result<proto::WatchWalletEventsResponse, Status>>;

/// A stream asks again after this time, whatever happened: it has no end of its own.
const FOREVER: Duration = Duration::from_secs(86_400);

pub(super) fn list_events(
    wallets: &Wallets,
    request: proto::ListWalletEventsRequest,
    limits: &Limits,
) -> Answer<proto::ListWalletEventsResponse> {
    let page_size = from::entries("page_entries", request.page_entries, limits.page_entries)?;
    let list = ListEvents { cursor: request.cursor, page_size, wait_ms: 0 };
    let EventList { items, next_cursor, has_more } = wallets.list_events(&request.wallet, &list)?;
    let events = items.into_iter().map(event).collect();
    let answer = proto::ListWalletEventsResponse { events, next_cursor, has_more };
    fitting(answer, limits.answer_bytes)
}

/// Starts a stream. The first page is read before anything is answered, so that most failures are
/// those of the call. A client that does not take what it is sent holds up nothing: the next page is
/// read when there is room.
pub(super) async fn watch_events(
    calls: Calls<Wallets>,
    request: proto::WatchWalletEventsRequest,
    limits: Limits,
) -> Result<Events, Status> {
    let page_size = from::entries("page_entries", None, limits.page_entries)?;
    let mut list = ListEvents { cursor: request.cursor, page_size, wait_ms: 0 };
    let wallet = request.wallet;
    let mut wait = calls.store().begin_wait(FOREVER);
    let mut page = events_page(&calls, &wallet, &list).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            list.cursor = Some(page.next_cursor);
            let has_more = page.has_more;
            if !page.items.is_empty() {
                let events = page.items.into_iter().map(event).collect();
                let sent = sender.send(Ok(proto::WatchWalletEventsResponse { events })).await;
                // An error means that the client is gone.
                if sent.is_err() {
                    return;
                }
            }
            while !has_more && !wait.is_due(calls.store()) {
                tokio::time::sleep(EventWait::SLEEP).await;
                if sender.is_closed() {
                    return;
                }
            }
            page = match events_page(&calls, &wallet, &list).await {
                Ok(page) => page,
                Err(status) => {
                    let _ = sender.send(Err(status)).await;
                    return;
                }
            };
        }
    });
    Ok(ReceiverStream::new(receiver))
}

async fn events_page(
    calls: &Calls<Wallets>,
    wallet: &str,
    list: &ListEvents,
) -> Result<EventList, Status> {
    let (wallet, list) = (wallet.to_owned(), list.clone());
    calls.run(move |wallets| Ok(wallets.list_events(&wallet, &list)?)).await
}

pub(super) fn add_webhook(
    wallets: &Wallets,
    request: proto::AddWebhookRequest,
    _: &Limits,
) -> Answer<proto::AddWebhookResponse> {
    let add = AddWebhook { wallet: request.wallet, url: request.url, cursor: request.cursor };
    let added = wallets.add_webhook(&add)?;
    let webhook = Some(webhook(added.webhook));
    Ok(proto::AddWebhookResponse { webhook, secret: added.secret })
}

pub(super) fn list_webhooks(
    wallets: &Wallets,
    request: proto::ListWebhooksRequest,
    _: &Limits,
) -> Answer<proto::ListWebhooksResponse> {
    let found = wallets.list_webhooks(&InWallet { wallet: request.wallet })?;
    let webhooks = found.items.into_iter().map(webhook).collect();
    Ok(proto::ListWebhooksResponse { webhooks })
}

pub(super) fn pause_webhook(
    wallets: &Wallets,
    request: proto::PauseWebhookRequest,
    _: &Limits,
) -> Answer<proto::PauseWebhookResponse> {
    let paused = wallets.pause_webhook(&OneWebhook { wallet: request.wallet, id: request.id })?;
    Ok(proto::PauseWebhookResponse { webhook: Some(webhook(paused)) })
}

pub(super) fn resume_webhook(
    wallets: &Wallets,
    request: proto::ResumeWebhookRequest,
    _: &Limits,
) -> Answer<proto::ResumeWebhookResponse> {
    let resumed = wallets.resume_webhook(&OneWebhook { wallet: request.wallet, id: request.id })?;
    Ok(proto::ResumeWebhookResponse { webhook: Some(webhook(resumed)) })
}

pub(super) fn remove_webhook(
    wallets: &Wallets,
    request: proto::RemoveWebhookRequest,
    _: &Limits,
) -> Answer<proto::RemoveWebhookResponse> {
    wallets.remove_webhook(&OneWebhook { wallet: request.wallet, id: request.id })?;
    Ok(proto::RemoveWebhookResponse {})
}

pub(super) fn test_webhook(
    wallets: &Wallets,
    request: proto::TestWebhookRequest,
    _: &Limits,
) -> Answer<proto::TestWebhookResponse> {
    let tested = wallets.test_webhook(&OneWebhook { wallet: request.wallet, id: request.id })?;
    let (is_acknowledged, answer) = (tested.is_acknowledged, tested.answer);
    Ok(proto::TestWebhookResponse { is_acknowledged, answer })
}

fn event(event: EventInfo) -> proto::WalletEvent {
    let bytes = |hash: ChainHash| hash.as_bytes().to_vec();
    let kind = to::event_kind(event.kind);
    proto::WalletEvent {
        id: event.id,
        kind,
        at_us: event.at_us,
        txid: bytes(event.tx_hash),
        status: event.status.map(to::status),
        block_height: event.block_height,
        block_hash: event.block_hash.map(bytes),
        confirmations: event.confirmations,
        reason: event.reason.map(to::reason),
        by_txid: event.by_tx_hash.map(bytes),
        output_index: event.output_index,
        owner: event.owner.map(|owner| owner.0),
        expired_at_us: event.expired_at_us,
    }
}

fn webhook(info: WebhookInfo) -> proto::Webhook {
    let state = to::webhook_state(info.state);
    proto::Webhook {
        id: info.id,
        url: info.url,
        state,
        cursor: info.cursor,
        waiting: info.waiting,
        failures: info.failures,
        created_at_us: info.created_at_us,
        failing_since_us: info.failing_since_us,
        next_attempt_us: info.next_attempt_us,
        last_delivered_us: info.last_delivered_us,
        last_error: info.last_error,
    }
}
