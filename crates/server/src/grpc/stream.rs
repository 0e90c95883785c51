//! The change stream over gRPC.

use std::pin::Pin;

use futures_util::{Stream, stream};
use prost::Message as _;
use tokio::task::spawn_blocking;
use tonic::{Code, Request, Response, Status, metadata::AsciiMetadataValue};
use utxokeep::{
    json::address_of,
    stream::{
        BlockChanges, ChangedOutput, Consumer, ConsumerList, Cut, CutReason, Item, Sent, Start,
        StreamConsumers, StreamError, StreamFace, StreamRequest, Streams, Subscription,
        cursor_text,
    },
};
use utxokeep_core::{Direction, Height, Network, StreamCursor};
use utxokeep_kv::RocksKv;

use super::{
    proto::{self, stream_event::Event},
    services::chain_stream_server::ChainStream,
};
use crate::kinds::Codes;

/// Answers calls about the change stream.
#[derive(Debug, Clone)]
pub(super) struct StreamService(pub(super) Streams);

/// Writes messages of the contract.
#[derive(Debug, Clone, Copy)]
pub(super) struct Messages;

impl StreamFace for Messages {
    type Message = proto::StreamEvent;
    const NAME: &'static str = "grpc";

    fn message(&self, item: Item<'_>, network: Network) -> Option<(proto::StreamEvent, usize)> {
        let (cursor, event) = match item {
            Item::Changes(changes) => {
                let shown = shown(changes, network);
                let event = match changes.direction {
                    Direction::Apply => Event::Apply(shown),
                    Direction::Undo => Event::Undo(shown),
                };
                (changes.cursor, event)
            }
            Item::Checkpoint(cursor) => (cursor, Event::Checkpoint(checkpoint(&cursor))),
            // Pings of HTTP/2 tell both sides that the other is there.
            Item::Heartbeat(_) => return None,
        };
        let event = proto::StreamEvent { cursor: cursor_text(&cursor), event: Some(event) };
        let bytes = event.encoded_len();
        Some((event, bytes))
    }
}

fn checkpoint(cursor: &StreamCursor) -> proto::StreamCheckpoint {
    proto::StreamCheckpoint { height: cursor.block().map(|(height, _)| height.get()) }
}

fn shown(changes: &BlockChanges, network: Network) -> proto::StreamChanges {
    let entry = &changes.block.entry;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let outputs = |all: &[ChangedOutput]| all.iter().map(|one| output(one, network)).collect();
    proto::StreamChanges {
        block: Some(proto::StreamBlock {
            height: changes.block.height.get(),
            slot: changes.block.point().slot,
            hash: entry.hash.as_bytes().to_vec(),
            prev_hash: entry.prev.as_bytes().to_vec(),
            time: entry.time,
        }),
        first: count(changes.first),
        covers: count(changes.covers),
        is_last: changes.is_last,
        mmr_root: changes.mmr.map(|mmr| mmr.root.to_vec()),
        mmr_leaves: changes.mmr.map(|mmr| mmr.leaves),
        replaced: outputs(&changes.replaced),
        created: outputs(&changes.created),
        spent: outputs(&changes.spent),
    }
}

fn output(output: &ChangedOutput, network: Network) -> proto::StreamOutput {
    let assets = output.details.assets.iter();
    proto::StreamOutput {
        tx_hash: output.outpoint.txid().as_bytes().to_vec(),
        output_index: output.outpoint.index(),
        owner: output.address.clone(),
        owner_addr: address_of(&output.address, network),
        amount: output.value,
        assets: assets
            .map(|((policy, name), quantity)| proto::StreamAsset {
                policy_id: policy.to_vec(),
                asset_name: name.clone(),
                quantity: *quantity,
            })
            .collect(),
        data_hash: output.details.datum_hash.map(|hash| hash.to_vec()),
        inline_datum: output.details.inline_datum.clone(),
        reference_script_hash: output.details.script_hash.map(|hash| hash.to_vec()),
        is_coinbase: output.is_coinbase,
        block: output.height.get(),
        tx_index: output.tx_index,
        spent_tx_hash: output.spent_by.map(|txid| txid.as_bytes().to_vec()),
    }
}

/// A status with what programs act on in its metadata.
fn status(
    code: Code,
    message: &str,
    name: &'static str,
    cursor: Option<&StreamCursor>,
    start_from: Option<Height>,
) -> Status {
    let mut status = Status::new(code, message);
    let metadata = status.metadata_mut();
    metadata.insert("utxokeep-code", AsciiMetadataValue::from_static(name));
    if let Some(Ok(text)) = cursor.map(|cursor| cursor_text(cursor).parse()) {
        metadata.insert("utxokeep-cursor", text);
    }
    if let Some(height) = start_from {
        metadata.insert("utxokeep-start-from", AsciiMetadataValue::from(height.get()));
    }
    status
}

fn refused(error: &StreamError) -> Status {
    let code = Codes::of(error.kind()).grpc;
    status(code, &error.to_string(), error.code(), None, error.start_from())
}

fn cut_off(cut: &Cut) -> Status {
    let code = match cut.reason {
        CutReason::SlowReader => Code::ResourceExhausted,
        CutReason::ServerStops => Code::Unavailable,
        CutReason::PastWindow => Code::OutOfRange,
        CutReason::Failed => Code::Internal,
    };
    status(code, &cut.message, cut.reason.name(), Some(&cut.cursor), cut.start_from)
}

/// What is sent next of a stream.
async fn next(
    mut stream: Subscription<Messages>,
) -> Option<(Result<proto::StreamEvent, Status>, Subscription<Messages>)> {
    let message = match stream.next().await? {
        Sent::Message(message) => Ok(message),
        Sent::Cut(cut) => Err(cut_off(&cut)),
    };
    Some((message, stream))
}

fn consumer(consumer: Consumer) -> proto::StreamConsumer {
    proto::StreamConsumer {
        name: consumer.name,
        needs: consumer.needs.to_owned(),
        height: consumer.height,
        cursor: consumer.cursor,
        lag_blocks: consumer.lag_blocks,
        detached_at_height: consumer.detached_at_height,
    }
}

impl StreamService {
    /// Works on the rows of consumers on a thread that may block.
    async fn with_consumers<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StreamConsumers<RocksKv>) -> Result<T, StreamError> + Send + 'static,
    ) -> Result<T, Status> {
        let consumers = self.0.consumers();
        let done = spawn_blocking(move || work(&consumers)).await;
        done.unwrap_or(Err(StreamError::BrokeDown)).map_err(|error| refused(&error))
    }
}

#[tonic::async_trait]
impl ChainStream for StreamService {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<proto::StreamEvent, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<proto::StreamFollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let asked = request.into_inner();
        let request = StreamRequest {
            address: asked.address,
            credential: asked.credential,
            script: asked.script,
            asset: asked.asset,
            from: asked.from,
            from_height: asked.from_height,
            consumer: asked.consumer,
        };
        let opened = self.0.open(request, Messages).await.map_err(|error| refused(&error))?;
        Ok(Response::new(Box::pin(stream::unfold(opened, next))))
    }

    async fn register_consumer(
        &self,
        request: Request<proto::StreamRegisterConsumerRequest>,
    ) -> Result<Response<proto::StreamConsumer>, Status> {
        let proto::StreamRegisterConsumerRequest { name, from, from_height } = request.into_inner();
        let start = Start::named(from.as_deref(), from_height).map_err(|error| refused(&error))?;
        let registered = self.with_consumers(move |all| all.register(&name, start)).await?;
        Ok(Response::new(consumer(registered)))
    }

    async fn list_consumers(
        &self,
        _: Request<proto::StreamListConsumersRequest>,
    ) -> Result<Response<proto::StreamConsumers>, Status> {
        let ConsumerList { tip_height, items } = self.with_consumers(StreamConsumers::list).await?;
        let items = items.into_iter().map(consumer).collect();
        Ok(Response::new(proto::StreamConsumers { tip_height, items }))
    }

    async fn forget_consumer(
        &self,
        request: Request<proto::StreamForgetConsumerRequest>,
    ) -> Result<Response<proto::StreamConsumer>, Status> {
        let name = request.into_inner().name;
        let forgotten = self.with_consumers(move |all| all.forget(&name)).await?;
        Ok(Response::new(consumer(forgotten)))
    }
}
