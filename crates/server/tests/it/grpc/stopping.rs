//! Health, waiting calls, broken storage, and how a server ends.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep::config::GrpcConfig;
use utxokeep_core::node::Policy;
use utxokeep_server::grpc::proto;

use crate::grpc::served::{Served, Trouble, store_on, troubled_kv};

const SERVICE: &str = "utxokeep.v1.TxStore";

fn troubled(config: &GrpcConfig) -> (Served, Arc<Trouble>) {
    let (kv, trouble) = troubled_kv();
    (Served::start(store_on(kv, Policy::default()), config), trouble)
}

fn health(served: &Served, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let mut client = HealthClient::new(served.channel());
    let answer = served.runtime.block_on(client.check(request));
    answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
}

fn request() -> proto::SetBlockStateRequest {
    proto::SetBlockStateRequest { state: Some(proto::BlockState { height: 7, median_time: 8 }) }
}

/// Starts a write that takes a while, and waits until it has begun.
fn slow_write(
    served: &Served,
    trouble: &Trouble,
) -> tokio::task::JoinHandle<Result<tonic::Response<proto::SetBlockStateResponse>, Status>> {
    trouble.is_slow.store(true, Ordering::SeqCst);
    let mut client = served.client();
    let call = served.runtime.spawn(async move { client.set_block_state(request()).await });
    let deadline = Instant::now() + Duration::from_secs(30);
    while !trouble.has_begun.load(Ordering::SeqCst) {
        assert!(Instant::now() < deadline, "the write never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    call
}

#[test]
fn the_health_service_knows_the_store_and_nothing_else() {
    let served = Served::memory();
    assert_eq!(health(&served, SERVICE), Ok(ServingStatus::Serving));
    assert_eq!(health(&served, ""), Ok(ServingStatus::Serving));
    assert_eq!(health(&served, "other"), Err(Code::NotFound));
}

#[test]
fn a_store_that_takes_no_more_writes_is_unavailable_and_reports_it() {
    let (served, trouble) = troubled(&GrpcConfig::default());
    served.ok(served.client().set_block_state(request()));
    trouble.is_poisoned.store(true, Ordering::SeqCst);
    let status = served.status(served.client().set_block_state(request()));
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("restart"), "{status}");
    assert_eq!(health(&served, SERVICE), Ok(ServingStatus::NotServing));
    let read = served.ok(served.client().get_block_state(proto::GetBlockStateRequest {}));
    assert_eq!(read.state.unwrap().height, 7, "reads go on");
}

#[test]
fn a_call_in_flight_is_finished_before_the_server_ends() {
    let (mut served, trouble) = troubled(&GrpcConfig::default());
    let call = slow_write(&served, &trouble);
    served.ask_to_stop();
    let answer = served.runtime.block_on(call).unwrap().unwrap().into_inner();
    assert!(matches!(
        answer.result.unwrap().result.unwrap(),
        proto::item_result::Result::Ok(proto::Done {})
    ));
    served.ended();
    let late = std::net::TcpStream::connect(served.address);
    assert!(late.is_err(), "nobody listens any more");
}

#[test]
fn calls_wait_for_their_turn_but_not_for_ever() {
    let config = GrpcConfig {
        concurrent_calls_max: 1.try_into().unwrap(),
        call_timeout_ms: 200.try_into().unwrap(),
        ..GrpcConfig::default()
    };
    let (served, trouble) = troubled(&config);
    let slow = slow_write(&served, &trouble);
    let read = || proto::GetBlockStateRequest {};
    let status = served.status(served.client().get_block_state(read()));
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let status = served.runtime.block_on(slow).unwrap().unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");

    // The write was under way, so it happens all the same.
    trouble.is_slow.store(false, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match served.runtime.block_on(served.client().get_block_state(read())) {
            Ok(answer) => {
                assert_eq!(answer.into_inner().state.unwrap().height, 7);
                break;
            }
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
        }
        assert!(Instant::now() < deadline, "the slow write never ended");
    }
}
