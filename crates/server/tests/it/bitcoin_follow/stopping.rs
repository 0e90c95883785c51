//! The program is asked to stop while everybody it talks to is silent.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::program::config_of;
use crate::{
    program::{Serving, until, utxokeep},
    wallet_follow::bitcoin::import,
    wallet_follow::program::LedgerHome,
    wallet_rest::client::payment,
};

/// What whoever supervises the program is promised.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

const SCRIPT: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";

/// Takes connections, reads what comes and never answers.
struct Silent {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&heard);
        // It ends with the process of the test.
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    let mut part = [0; 4_096];
                    while stream.read(&mut part).is_ok_and(|bytes| bytes > 0) {
                        count.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
        });
        Self { address, heard }
    }

    fn wait(&self, what: &str) {
        until(what, || self.heard.load(Ordering::Acquire) > 0);
    }
}

/// Asks a program to stop; answers what it said, once it has ended in time and well.
#[track_caller]
pub(super) fn stop_in_time(program: Serving) -> String {
    let asked = Instant::now();
    program.signal("TERM");
    let (status, said) = program.ended();
    let took = asked.elapsed();
    assert!(took < STOPS_WITHIN, "{took:?}: {said}");
    assert_eq!(status.code(), Some(0), "{said}");
    said
}

#[test]
fn a_signal_ends_the_program_in_time_though_node_receiver_and_clients_are_silent() {
    let (node, receiver) = (Silent::start(), Silent::start());
    let place = LedgerHome::sqlite();
    let cookie = place.path("cookie");
    fs::write(&cookie, "__cookie__:0123").unwrap();
    let more = format!(
        "webhook_private_addresses = true\nwebhook_timeout_ms = 600000\n\
         [chain]\nnetwork = \"regtest\"\nsource = {{ kind = \"bitcoind\", url = \"http://{}\", \
         cookie_file = \"{}\" }}\n[follow]\nanswer_timeout_ms = 600000\n",
        node.address,
        cookie.display()
    );
    place.configure(None, &more);
    import(&place);
    let program = place.serve();
    node.wait("the node is asked");

    let post = |path: &str, body: serde_json::Value| {
        let answer = program.ask("POST", path, &body.to_string());
        assert!(answer.status < 300, "{answer:?}");
    };
    post("/api/v1/wallets", json!({ "name": "hot", "network": "regtest" }));
    post("/api/v1/wallets/hot/addresses", json!({ "addresses": [{ "address": SCRIPT }] }));
    let url = format!("http://{}/hook", receiver.address);
    post("/api/v1/wallets/hot/webhooks", json!({ "url": url }));
    let seen = json!({ "parts": payment(1, SCRIPT, &[1_000]), "seen": "mempool" });
    post("/api/v1/wallets/hot/transactions", seen);
    receiver.wait("the event is sent");

    // A stream that its client does not read, and a connection that asks for nothing.
    let mut stream = TcpStream::connect(program.rest()).unwrap();
    let ask = format!(
        "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        program.token()
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let _idle = TcpStream::connect(program.rest()).unwrap();
    let _idle_too = TcpStream::connect(program.grpc()).unwrap();

    let said = stop_in_time(program);
    assert!(!said.contains("cut off;"), "nothing had to be cut off: {said}");
}

/// Nothing but the node is silent: then nothing is waited for.
#[test]
fn a_silent_node_alone_does_not_hold_the_end_up() {
    let node = Silent::start();
    let dir = tempfile::tempdir().unwrap();
    let cookie = dir.path().join("cookie");
    fs::write(&cookie, "__cookie__:0123").unwrap();
    let source = format!(
        "{{ kind = \"bitcoind\", url = \"http://{}\", cookie_file = \"{}\" }}",
        node.address,
        cookie.display()
    );
    let config = config_of(dir.path(), &source, "answer_timeout_ms = 600000\n");
    let mut command = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    command.arg(&config).arg("--data").arg(dir.path().join("data"));
    let program = Serving::start(command);
    node.wait("the node is asked");
    stop_in_time(program);
}
