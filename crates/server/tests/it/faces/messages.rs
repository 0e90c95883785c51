//! Every operation over gRPC answers with what REST answers with, field by field.
//!
//! Messages are read and written by an implementation of its own, from the same contract.

use std::path::Path;

use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MethodDescriptor, ReflectMessage as _, Value as Field,
};
use protox::prost_reflect;
use serde_json::Value;
use tempfile::TempDir;
use tonic::{
    Code, Request, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep_server::grpc::proto;

use super::{Listed, database, questions, route_of, table};
use crate::program::{Serving, utxokeep};

/// Figures of the moment.
const OF_THE_MOMENT: [&str; 2] = ["disk_bytes", "rows_estimate"];

fn contract() -> DescriptorPool {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/proto");
    let files = protox::compile(["utxokeep/v1/chain.proto"], [dir]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

/// The method that is named after a command.
fn method_of(contract: &DescriptorPool, listed: &Listed) -> MethodDescriptor {
    let service = contract.get_service_by_name("utxokeep.v1.Chain").unwrap();
    let name = listed.about.command.replace(' ', "");
    let mut methods = service.methods();
    methods.find(|method| method.name().eq_ignore_ascii_case(&name)).expect(listed.about.command)
}

/// A request with these fields.
fn request_of(method: &MethodDescriptor, fields: &[(&str, String)]) -> DynamicMessage {
    let mut request = DynamicMessage::new(method.input());
    for (name, text) in fields {
        let field = method.input().get_field_by_name(name).expect(name);
        let value = match field.kind() {
            Kind::String => Field::String(text.clone()),
            Kind::Uint64 => Field::U64(text.parse().unwrap()),
            Kind::Enum(of) => {
                let ending = format!("_{}", text.to_uppercase());
                let value = of.values().find(|value| value.name().ends_with(&ending)).unwrap();
                Field::EnumNumber(value.number())
            }
            other => panic!("{name}: {other:?}"),
        };
        request.set_field(&field, value);
    }
    request
}

/// Messages of one method.
struct Messages(MethodDescriptor);

impl Codec for Messages {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(self.0.clone())
    }

    fn decoder(&mut self) -> Self {
        Self(self.0.clone())
    }
}

impl Encoder for Messages {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::Message::encode(&item, buf).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Messages {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let read = DynamicMessage::decode(self.0.output(), buf);
        read.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

async fn ask(
    serving: &Serving,
    method: &MethodDescriptor,
    request: DynamicMessage,
) -> Result<DynamicMessage, Status> {
    let mut client = tonic::client::Grpc::new(serving.channel().await);
    client.ready().await.unwrap();
    let path = format!("/utxokeep.v1.Chain/{}", method.name());
    let path = PathAndQuery::try_from(path).unwrap();
    let answer = client.unary(Request::new(request), path, Messages(method.clone())).await?;
    Ok(answer.into_inner())
}

/// Compares a message with the JSON of the same answer; counts fields that are there.
fn same(message: &DynamicMessage, json: &Value, path: &str) -> usize {
    let (of, fields) = (message.descriptor(), json.as_object().unwrap());
    for name in fields.keys() {
        assert!(of.get_field_by_name(name).is_some(), "{path}.{name} is not in the contract");
    }
    let unknown: Vec<_> = message.unknown_fields().collect();
    assert!(unknown.is_empty(), "{path}: {unknown:?}");
    let mut count = 0;
    for field in of.fields().filter(|field| !OF_THE_MOMENT.contains(&field.name())) {
        let path = format!("{path}.{}", field.name());
        match fields.get(field.name()).filter(|json| !json.is_null()) {
            Some(json) => count += same_value(&message.get_field(&field), json, &path),
            None => assert!(!message.has_field(&field), "{path} is not in {json}"),
        }
    }
    count
}

fn same_value(field: &Field, json: &Value, path: &str) -> usize {
    match field {
        Field::Message(message) => return same(message, json, path),
        Field::List(items) => {
            let json = json.as_array().unwrap();
            assert_eq!(items.len(), json.len(), "{path}");
            return items.iter().zip(json).map(|(item, json)| same_value(item, json, path)).sum();
        }
        Field::Bool(value) => assert_eq!(Some(*value), json.as_bool(), "{path}"),
        Field::String(value) => assert_eq!(Some(value.as_str()), json.as_str(), "{path}"),
        Field::U32(value) => assert_eq!(Some(u64::from(*value)), json.as_u64(), "{path}"),
        Field::I64(value) => assert_eq!(Some(*value), json.as_i64(), "{path}"),
        // JSON has amounts as texts and other numbers as numbers.
        Field::U64(value) => {
            assert_eq!(value.to_string(), json.to_string().trim_matches('"'), "{path}");
        }
        other => panic!("{path}: {other:?}"),
    }
    1
}

fn serve(home: &Path, data: &str) -> Serving {
    let mut serve = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    serve.args(["--grpc-listen", "127.0.0.1:0", "--config", "utxokeep.toml"]).current_dir(home);
    Serving::start(serve)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_method_and_its_route_answer_with_the_same_fields() {
    let home = TempDir::new().unwrap();
    let (data, coin) = database(home.path());
    let serving = serve(home.path(), &data);
    assert!(
        serving.log().contains("serving the chain and the change stream over gRPC on"),
        "{}",
        serving.log()
    );
    let (contract, questions, runtime) = (contract(), questions(coin), runtime());
    let (mut answered, mut refused) = (0, 0);
    for listed in &table() {
        let command = listed.about.command;
        let (method, fields) = (method_of(&contract, listed), &questions[command]);
        let reply = serving.ask("GET", &route_of(&listed.about, fields), "").json();
        match runtime.block_on(ask(&serving, &method, request_of(&method, fields))) {
            Ok(message) => {
                assert!(same(&message, &reply, command) > 3, "{command}: {reply}");
                answered += 1;
            }
            Err(status) => {
                let word = status.metadata().get("utxokeep-code").unwrap().to_str().unwrap();
                assert_eq!(Some(word), reply["error"]["code"].as_str(), "{command}");
                assert_eq!(Some(status.message()), reply["error"]["message"].as_str());
                refused += 1;
            }
        }
    }
    // Credentials are not on this chain.
    assert_eq!((answered, refused), (table().len() - 2, 2));
    let metrics = serving.get("/metrics");
    let line = "utxokeep_grpc_calls_total{method=\"Chain/ChainTip\",code=\"OK\"} 1";
    assert!(metrics.contains(line), "{line} is missing in {metrics}");
    serving.stop();
}

#[test]
fn the_client_of_the_contract_reads_the_chain_and_learns_what_is_wrong() {
    use proto::chain_client::ChainClient;
    let home = TempDir::new().unwrap();
    let (data, coin) = database(home.path());
    let serving = serve(home.path(), &data);
    runtime().block_on(async {
        let channel = serving.channel().await;
        let service = "utxokeep.v1.Chain".to_owned();
        let health = HealthClient::new(channel.clone()).check(HealthCheckRequest { service }).await;
        assert_eq!(health.unwrap().into_inner().status(), ServingStatus::Serving);
        let mut client = ChainClient::new(channel);
        let tip = client.chain_tip(proto::ChainTipRequest {}).await.unwrap().into_inner();
        assert_eq!((tip.height, tip.total_amount), (8, 400));
        let request = proto::UtxoShowRequest { outpoint: coin, at: None };
        let utxo = client.utxo_show(request).await.unwrap().into_inner();
        assert_eq!((utxo.block, utxo.amount, utxo.is_coinbase), (8, 50, Some(true)));
        let mut request = proto::OwnerUtxosRequest {
            owner: "51".to_owned(),
            page_size: Some(3),
            order: proto::ChainOrder::Desc.into(),
            ..Default::default()
        };
        let mut heights = Vec::new();
        loop {
            let page = client.address_utxos(request.clone()).await.unwrap().into_inner();
            heights.extend(page.items.iter().map(|utxo| utxo.block));
            request.cursor = page.next_cursor;
            if request.cursor.is_none() {
                break;
            }
        }
        assert_eq!(heights, [8, 7, 6, 5, 4, 3, 2, 1]);
        let request = proto::ChainBlockRequest { height_or_hash: "99".to_owned() };
        let unknown = client.chain_block(request).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
        let request = proto::OwnerUtxosRequest { page_size: Some(0), ..Default::default() };
        let wrong = client.address_utxos(request).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument, "{wrong}");
        let request = proto::ChainDigestRequest { audit: true, ..Default::default() };
        let whole = client.chain_digest(request).await.unwrap_err();
        assert_eq!(whole.code(), Code::Unimplemented, "{whole}");
    });
    serving.stop();
}
