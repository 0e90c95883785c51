//! Memory that requests take together: all of them share one budget, over REST and gRPC.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use futures_util::future::join_all;
use prost::Message as _;
use tonic::{Code, Status};
use utxokeep_core::node::CreateOptions;
use utxokeep_server::grpc::proto;
use utxokeep_testkit::txstore::seed;

use crate::grpc::{
    limits::{peak_kib_of, send_raw},
    program::serve,
    requests::new_transaction,
};
use crate::program::{PATIENCE, Serving};

const BUDGET_MIB: usize = 64;
/// What the program takes besides: threads, caches, buffers of connections, and what the allocator
/// keeps.
const ELSE_MIB: usize = 96;
const CLIENTS: usize = 8;
const BODY_BYTES: usize = 1 << 20;

/// The same message from many clients at once.
async fn all_send(program: &Serving, method: &str, message: &[u8]) -> Vec<Result<(), Status>> {
    let each = (0..CLIENTS)
        .map(|_| async { send_raw(program.channel().await, method, message.to_vec()).await });
    join_all(each).await
}

fn is_exhausted(answer: &Result<(), Status>) -> bool {
    answer.as_ref().is_err_and(|status| status.code() == Code::ResourceExhausted)
}

/// Posts to a route of wallets; answers the status.
fn post(program: &Serving, token: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(program.rest()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /api/v1/ledger/bitcoin/regtest/blocks HTTP/1.1\r\nHost: localhost\r\nAuthorization: \
         Bearer {token}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: \
         {}\r\n\r\n",
        body.len()
    );
    // A server that refuses does not read to the end.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or("cut off").to_owned()
}

#[test]
fn requests_of_many_clients_stay_within_one_budget() {
    let dir = tempfile::tempdir().unwrap();
    let (node, ledger) = (dir.path().join("node"), dir.path().join("ledger"));
    let program = Serving::start(serve(
        dir.path(),
        &format!(
            "[txstore]\nurl = \"sqlite:{}\"\nfsync = false\n[wallet]\nurl = \"sqlite:{}\"\n\
             [server]\nrequest_memory_mib_max = {BUDGET_MIB}\n",
            node.display(),
            ledger.display()
        ),
    ));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let process = program.id().to_string();
    let before = peak_kib_of(&process);
    runtime.block_on(async {
        // Two bytes for each empty transaction.
        let empty = [0x0a, 0x00].repeat(8 << 20);
        for answer in all_send(&program, "Create", &empty).await {
            assert!(is_exhausted(&answer), "{answer:?}");
        }
        let mut large = seed(1, &[5]);
        large.outputs[0].script = vec![7; BODY_BYTES];
        let transactions = vec![new_transaction(&large, &CreateOptions::default())];
        let create = proto::CreateRequest { transactions, height: 1 };
        send_raw(program.channel().await, "Create", create.encode_to_vec()).await.unwrap();
        let get = |times: usize| {
            let fields = Some(proto::Fields { body: true, ..proto::Fields::default() });
            let txids = vec![large.txid.as_bytes().to_vec(); times];
            proto::GetRequest { txids, fields }.encode_to_vec()
        };
        for answer in all_send(&program, "Get", &get(1_000)).await {
            assert!(is_exhausted(&answer), "{answer:?}");
        }
        // One of these fits, and not all of them together.
        let answers = all_send(&program, "Get", &get(24)).await;
        assert!(answers.iter().all(|answer| answer.is_ok() || is_exhausted(answer)), "{answers:?}");
        let again = send_raw(program.channel().await, "Get", get(24)).await;
        again.expect("what was taken is given back");
    });
    let token = std::fs::read_to_string(dir.path().join("chain/access-token")).unwrap();
    let token = token.trim_end();
    let long = format!("{{\"block\":\"{}\"}}", "a".repeat(15 << 20));
    let many = format!("[{}\"\"]", "\"\",".repeat(5 << 20));
    for body in [&long, &many] {
        let statuses: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| scope.spawn(|| post(&program, token, body.as_bytes())))
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for status in &statuses {
            assert!(["400", "503", "cut off"].contains(&status.as_str()), "{statuses:?}");
        }
    }
    assert_eq!(post(&program, token, long.as_bytes()), "400", "one alone has room");
    let grown_mib = (peak_kib_of(&process) - before) >> 10;
    assert!(grown_mib < BUDGET_MIB + ELSE_MIB, "{grown_mib} MiB");
    program.stop();
}
