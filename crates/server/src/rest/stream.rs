//! The change stream over HTTP: server-sent events, and the consumers that are known by name.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{Extensions, HeaderMap, HeaderName, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use tokio::task::spawn_blocking;
use utoipa_axum::{router::OpenApiRouter, routes};
use utxokeep::stream::{
    ChainEvent, ChainSent, ChainSubscription, Consumer, ConsumerList, ConsumerPlace, Item, Sent,
    StreamConsumers, StreamError, StreamFace, StreamRequest, Subscription, cursor_text,
};
use utxokeep_core::Network;
use utxokeep_kv::RocksKv;

use super::{
    error::{ApiError, ErrorBody},
    guard::check_trusted,
    params::{Params, Segments},
    state::RestState,
};
use crate::json::StreamEvent;

/// What a client that comes back sends: the id of the last event that it has.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Routes of the stream and their description.
pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new()
        .routes(routes!(open))
        .routes(routes!(chain_events))
        .routes(routes!(consumers))
        .routes(routes!(register, forget))
}

/// Writes server-sent events.
#[derive(Debug, Clone, Copy)]
struct ServerSentEvents;

impl StreamFace for ServerSentEvents {
    type Message = Bytes;
    const NAME: &'static str = "rest";

    fn message(&self, item: Item<'_>, network: Network) -> Option<(Bytes, usize)> {
        let bytes = match item {
            Item::Changes(changes) => written(&StreamEvent::changes(changes, network)),
            Item::Checkpoint(cursor) => written(&StreamEvent::checkpoint(&cursor)),
            Item::Heartbeat(cursor) => {
                format!(": heartbeat {}\n\n", cursor_text(&cursor)).into_bytes()
            }
        };
        let length = bytes.len();
        Some((bytes.into(), length))
    }
}

/// An event: its name, its cursor as the id, and its JSON in one line.
fn written(event: &StreamEvent) -> Vec<u8> {
    sent(event.name(), event.cursor(), event)
}

fn sent(name: &str, cursor: &str, event: &impl serde::Serialize) -> Vec<u8> {
    let mut out = format!("event: {name}\nid: {cursor}\ndata: ").into_bytes();
    serde_json::to_writer(&mut out, event).expect("an event is plain JSON");
    out.extend_from_slice(b"\n\n");
    out
}

/// What is sent next of a stream, as bytes.
async fn next(
    mut stream: Subscription<ServerSentEvents>,
) -> Option<(Result<Bytes, std::convert::Infallible>, Subscription<ServerSentEvents>)> {
    let bytes = match stream.next().await? {
        Sent::Message(bytes) => bytes,
        Sent::Cut(cut) => written(&StreamEvent::cut(&cut)).into(),
    };
    Some((Ok(bytes), stream))
}

fn request_of(
    parameters: Vec<(String, String)>,
    headers: &HeaderMap,
) -> Result<StreamRequest, ApiError> {
    let mut request = StreamRequest::default();
    for (name, value) in parameters {
        if !request.set(&name, &value)? {
            let known = StreamRequest::PARAMETERS.join(", ");
            let text = format!("there is no parameter {name} here; there are {known}");
            return Err(ApiError::BadParameter(text));
        }
    }
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        // A browser that comes back sends the first request again, and this beside it.
        let text = last.to_str().map_err(|_| StreamError::BadCursor)?;
        (request.from, request.from_height) = (Some(text.to_owned()), None);
    }
    Ok(request)
}

/// What every block changes, as it happens
///
/// Server-sent events: `apply` and `undo` with the outputs that a block created and spent, in order;
/// `checkpoint` when nothing that is watched happened for a while; `cut` when the server ends the
/// stream. The `id` of an event is the cursor to go on from, without a gap or a repeat. Each of the
/// filters may be repeated; an output needs to meet one of them. The name `mempool` is kept for events
/// about transactions that are in no block; there are none yet. `docs/stream.md` says more.
#[utoipa::path(
    get,
    path = "/api/v1/stream",
    tag = "stream",
    params(
        ("address" = Option<String>, Query, description = "Tell of outputs at this address; may be repeated"),
        ("credential" = Option<String>, Query, description = "Cardano: tell of outputs of this payment or stake credential; may be repeated"),
        ("script" = Option<String>, Query, description = "Bitcoin: tell of outputs with this script hash; may be repeated"),
        ("asset" = Option<String>, Query, description = "Cardano: tell of outputs that hold an asset of this policy, or this asset; may be repeated"),
        ("from" = Option<String>, Query, description = "Go on behind the event with this id; without a start the stream begins at the tip"),
        ("from_height" = Option<u32>, Query, minimum = 0, description = "Start behind this block of the chain"),
        ("consumer" = Option<String>, Query, description = "Read as this registered consumer: from where it has come, or with `from` it has come that far. Needs the token"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same as `from`, as browsers send it; it counts more than a start in the query"),
    ),
    responses(
        (status = 200, description = "Events, until one side ends the stream",
            content((StreamEvent = "text/event-stream"))),
        (status = 400, description = "A parameter is wrong; `bad_cursor`: the cursor is none; \
                                      `above_tip`: the chain has not reached the height", body = ErrorBody),
        (status = 404, description = "`unknown_consumer`: nobody registered it; `not_kept`: the filter of \
                                      the database leaves the owner out", body = ErrorBody),
        (status = 410, description = "`past_window`: what comes behind the place is not kept any more; \
                                      start again from the set at `start_from`", body = ErrorBody),
        (status = 501, description = "The database does not keep the index", body = ErrorBody),
        (status = 503, description = "Too many streams, or the server stops", body = ErrorBody),
    )
)]
async fn open(
    State(state): State<RestState>,
    headers: HeaderMap,
    extensions: Extensions,
    Params(parameters): Params<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let request = request_of(parameters, &headers)?;
    if request.consumer.is_some() {
        // It says how far the consumer has come, so what it held may be deleted.
        check_trusted(&extensions, &headers)?;
    }
    let opened = state.streams().open(request, ServerSentEvents).await?;
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(stream::unfold(opened, next))).into_response())
}

/// How far the chain and those that follow it are, as it happens
///
/// Server-sent events: `moved` with the first event of a stream, when blocks joined or left the chain, and
/// when a consumer of the chain log moved; `cut` when the server ends the stream. For a pruner that runs
/// alone (`[pruner] events`), and whoever else acts on what is persisted. The `id` of an event is the
/// cursor to go on from. It needs no index, only the log. `docs/stream.md` says more.
#[utoipa::path(
    get,
    path = "/api/v1/chain-events",
    tag = "stream",
    params(
        ("from" = Option<String>, Query, description = "Go on behind the event with this id; without a start the stream begins at the tip"),
        ("from_height" = Option<u32>, Query, minimum = 0, description = "Start behind this block of the chain"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same as `from`, as browsers send it; it counts more than a start in the query"),
    ),
    responses(
        (status = 200, description = "Events, until one side ends the stream",
            content((ChainEvent = "text/event-stream"))),
        (status = 400, description = "A parameter is wrong; `bad_cursor`: the cursor is none; \
                                      `above_tip`: the chain has not reached the height", body = ErrorBody),
        (status = 410, description = "`past_window`: the place is not known any more; what was said above \
                                      `start_from` is void, start again there", body = ErrorBody),
        (status = 503, description = "Too many streams, or the server stops", body = ErrorBody),
    )
)]
async fn chain_events(
    State(state): State<RestState>,
    headers: HeaderMap,
    Params(mut place): Params<ConsumerPlace>,
) -> Result<Response, ApiError> {
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        let text = last.to_str().map_err(|_| StreamError::BadCursor)?;
        (place.from, place.from_height) = (Some(text.to_owned()), None);
    }
    let opened = state.streams().open_chain(place.start()?, ServerSentEvents::NAME).await?;
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(stream::unfold(opened, next_of_chain))).into_response())
}

/// What is sent next of a stream of chain events, as bytes.
async fn next_of_chain(
    mut stream: ChainSubscription,
) -> Option<(Result<Bytes, std::convert::Infallible>, ChainSubscription)> {
    let event = match stream.next().await? {
        ChainSent::Heartbeat(cursor) => {
            return Some((Ok(format!(": heartbeat {cursor}\n\n").into()), stream));
        }
        ChainSent::Moved(moved) => ChainEvent::Moved(moved),
        ChainSent::Cut(cut) => ChainEvent::cut(&cut),
    };
    let bytes = sent(event.name(), event.cursor(), &event);
    Some((Ok(bytes.into()), stream))
}

/// Named consumers of the chain log
///
/// Those of the stream begin with `stream-`; the others are parts of the program.
#[utoipa::path(
    get,
    path = "/api/v1/consumers",
    tag = "stream",
    responses(
        (status = 200, description = "All of them", body = ConsumerList),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
async fn consumers(State(state): State<RestState>) -> Result<Json<ConsumerList>, ApiError> {
    with_consumers(&state, StreamConsumers::list).await.map(Json)
}

/// Register a consumer of the stream, or say how far it has come
///
/// What it has not read yet stays, up to `[index] consumer_lag_blocks_max` blocks. Without a place it is
/// registered at the tip.
#[utoipa::path(
    put,
    path = "/api/v1/consumers/{consumer}",
    tag = "consumers",
    params(
        ("consumer" = String, Path, description = "Its name"),
        ("from" = Option<String>, Query, description = "Cursor of the last event whose effects it has committed"),
        ("from_height" = Option<u32>, Query, minimum = 0, description = "Height of the last block whose effects it has committed"),
    ),
    responses(
        (status = 200, description = "The consumer", body = Consumer),
        (status = 400, description = "A name or a place is wrong", body = ErrorBody),
        (status = 409, description = "`too_many_consumers`: forget one first", body = ErrorBody),
        (status = 410, description = "`past_window`: what comes behind the place is not kept any more", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
async fn register(
    State(state): State<RestState>,
    Segments(name): Segments<String>,
    Params(place): Params<ConsumerPlace>,
) -> Result<Json<Consumer>, ApiError> {
    let start = place.start()?;
    with_consumers(&state, move |all| all.register(&name, start)).await.map(Json)
}

/// Forget a consumer of the stream
///
/// It holds nothing back any more.
#[utoipa::path(
    delete,
    path = "/api/v1/consumers/{consumer}",
    tag = "consumers",
    params(("consumer" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The consumer, as it was", body = Consumer),
        (status = 400, description = "The name is none of a consumer of the stream", body = ErrorBody),
        (status = 404, description = "`unknown_consumer`: nobody registered it", body = ErrorBody),
        (status = 503, description = "Not now", body = ErrorBody),
    )
)]
async fn forget(
    State(state): State<RestState>,
    Segments(name): Segments<String>,
) -> Result<Json<Consumer>, ApiError> {
    with_consumers(&state, move |all| all.forget(&name)).await.map(Json)
}

/// Works on the rows of consumers on a thread that may block.
async fn with_consumers<T: Send + 'static>(
    state: &RestState,
    work: impl FnOnce(&StreamConsumers<RocksKv>) -> Result<T, StreamError> + Send + 'static,
) -> Result<T, ApiError> {
    let consumers = state.streams().consumers();
    let done = spawn_blocking(move || work(&consumers)).await;
    Ok(done.map_err(|_| ApiError::Internal)??)
}
