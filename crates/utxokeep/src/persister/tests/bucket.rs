//! A bucket behind a proxy that is slow, refuses, and cuts answers.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use object_store::{aws::AmazonS3Builder, prefix::PrefixStore};
use utxokeep_blobs::BlobStore;
use utxokeep_testkit::skipped;

use super::*;

/// The server of buckets that `scripts/setup` installs, or any that is on the path.
struct Moto {
    child: Child,
    address: SocketAddr,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    fn start() -> Option<Self> {
        let installed = std::env::var("UTXOKEEP_MOTO").unwrap_or_else(|_| "moto_server".to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = Command::new(installed);
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            skipped("a server of buckets", "UTXOKEEP_REQUIRE_S3", "moto_server is not installed");
            return None;
        };
        let moto = Self { child, address };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            if let Ok(mut stream) = TcpStream::connect(address) {
                let ask = format!(
                    "PUT /blocks HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(ask.as_bytes()).unwrap();
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                assert!(answer.contains(" 200 "), "{answer}");
                return Some(moto);
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("moto_server does not answer");
    }
}

/// How connections are treated, by their number.
#[derive(Clone, Copy)]
enum Fate {
    Good,
    Slow,
    Closed,
    Busy,
    CutAfter(usize),
}

const FATES: &[Fate] = &[
    Fate::CutAfter(700),
    Fate::Busy,
    Fate::Slow,
    Fate::Closed,
    Fate::CutAfter(3_000),
    Fate::CutAfter(30),
];

/// Passes connections on to a server, and treats them badly on the way.
fn proxy(server: SocketAddr, is_bad: bool) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let at = usize::try_from(number).unwrap() % FATES.len();
            let fate = if is_bad { FATES[at] } else { Fate::Good };
            thread::spawn(move || pass(stream, server, fate));
        }
    });
    (address, count)
}

fn pass(mut client: TcpStream, server: SocketAddr, fate: Fate) {
    match fate {
        Fate::Closed => return,
        Fate::Slow => thread::sleep(Duration::from_millis(30)),
        Fate::Busy => {
            let mut head = [0; 512];
            let _ = client.read(&mut head);
            let _ = client.write_all(
                b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
            return;
        }
        Fate::Good | Fate::CutAfter(_) => {}
    }
    let Ok(mut upstream) = TcpStream::connect(server) else { return };
    let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), upstream.try_clone())
    else {
        return;
    };
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut left = if let Fate::CutAfter(bytes) = fate { bytes } else { usize::MAX };
    let mut buffer = [0; 1_024];
    while left > 0 {
        let Ok(read) = upstream.read(&mut buffer) else { break };
        if read == 0 {
            break;
        }
        let some = read.min(left);
        if client.write_all(&buffer[..some]).is_err() {
            break;
        }
        left -= some;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = upstream.shutdown(Shutdown::Both);
}

fn bucket(address: SocketAddr, retries_max: u32) -> PersistedPlace {
    let bucket = AmazonS3Builder::new()
        .with_url("s3://blocks/chain")
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_access_key_id("somebody")
        .with_secret_access_key("something")
        .with_region("us-east-1")
        .with_retry(object_store::RetryConfig { max_retries: 0, ..Default::default() })
        .build()
        .unwrap();
    let bucket = Arc::new(PrefixStore::new(bucket, "chain"));
    let store = BlobStore::on(bucket, 10_000).unwrap();
    PersistedPlace::on(store, NETWORK, Retry { retries_max, ..RETRY })
}

#[test]
fn a_bucket_that_is_slow_refuses_and_cuts_answers_loses_nothing() {
    let Some(moto) = Moto::start() else { return };
    let (bad, connections) = proxy(moto.address, true);
    let (good, _) = proxy(moto.address, false);
    let place = bucket(bad, 3);
    let mut world = World::new(SimulatorConfig::default());
    let mut failed = 0;
    for _ in 0..8 {
        world.mine(5);
        // Attempts are bounded, so that a step may fail; the next one goes on from what is there.
        for _ in 0..200 {
            match run(&mut world.persister(place.clone())) {
                Ok(()) => break,
                Err(PersisterError::Store { .. }) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(world.index.reached(NAME).unwrap(), Some(world.tip().0));
    }
    let through = bucket(good, 3);
    assert_eq!(through.watermark().unwrap().unwrap().block, Some(world.tip()));
    is_sound(&world.index, &through);
    assert_eq!(digest(&rebuilt(&through)), world.digest());
    // Also when they are read through the same proxy, by a reader that asks often enough.
    assert_eq!(digest(&rebuilt(&bucket(bad, 50))), world.digest());
    assert!(connections.load(Ordering::Relaxed) > 20, "{connections:?}, {failed} steps failed");
}
