//! A bucket behind a proxy that is slow, refuses, and cuts answers.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use object_store::{aws::AmazonS3Builder, prefix::PrefixStore};
use utxokeep_blobs::BlobStore;
use utxokeep_testkit::moto::Moto;

use super::*;

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
    let Some(moto) = Moto::start_or_skip() else { return };
    let (bad, connections) = proxy(moto.address(), true);
    let (good, _) = proxy(moto.address(), false);
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

/// In the process that persists into a bucket: the name of the test's home, with the blocks.
const HOME: &str = "UTXOKEEP_PERSISTER_BUCKET_DIR";
const TEST: &str =
    "persister::tests::bucket::attempts_at_a_bucket_that_the_program_opens_are_bounded";

/// How long an attempt may take there.
const TIMEOUT_MS: u64 = 400;

/// How a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// It is passed on.
    Passed,
    /// Nothing is answered for longer than an attempt may take.
    TooSlow,
    /// The connection ends in the middle of what is uploaded.
    CutUpload,
    /// Nobody is there.
    Outage,
}

/// Requests to write, by path, since they were last taken; and how requests are treated.
#[derive(Debug, Clone)]
struct Watched(Arc<Mutex<(BTreeMap<String, u32>, Treatment)>>);

impl Watched {
    fn state(&self) -> MutexGuard<'_, (BTreeMap<String, u32>, Treatment)> {
        self.0.lock().unwrap()
    }

    fn treat(&self, treatment: Treatment) {
        self.state().1 = treatment;
    }

    fn take(&self) -> BTreeMap<String, u32> {
        std::mem::take(&mut self.state().0)
    }
}

/// Passes one request for each connection, and counts those that write.
fn counting_proxy(server: SocketAddr) -> (SocketAddr, Watched) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let watched = Watched(Arc::new(Mutex::new((BTreeMap::new(), Treatment::Passed))));
    let shared = watched.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let watched = shared.clone();
            thread::spawn(move || drop(one_request(stream, server, &watched)));
        }
    });
    (address, watched)
}

fn one_request(
    mut client: TcpStream,
    server: SocketAddr,
    watched: &Watched,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let treatment = {
        let mut state = watched.state();
        if let Some(path) = text.strip_prefix("PUT ").and_then(|rest| rest.split(' ').next()) {
            *state.0.entry(path.to_owned()).or_default() += 1;
        }
        state.1
    };
    match treatment {
        Treatment::Outage => return Ok(()),
        Treatment::TooSlow => {
            thread::sleep(Duration::from_millis(2 * TIMEOUT_MS));
            return Ok(());
        }
        Treatment::CutUpload if text.starts_with("PUT ") => {
            let mut some = [0; 10];
            client.read_exact(&mut some)?;
            return client.shutdown(Shutdown::Both);
        }
        Treatment::CutUpload | Treatment::Passed => {}
    }
    let mut upstream = TcpStream::connect(server)?;
    let text = text.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    upstream.write_all(text.as_bytes())?;
    let (mut from_client, mut to_server) = (client.try_clone()?, upstream.try_clone()?);
    thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    let passed = std::io::copy(&mut upstream, &mut client);
    client.shutdown(Shutdown::Both)?;
    passed.map(drop)
}

/// The blocks of a simulated chain, persisted into the bucket that the variables name. Prints how it
/// ended.
fn persist_into_the_bucket(home: &Path) {
    let index = empty(NETWORK);
    let paths = [home.join("blk00000.dat")];
    let files = utxokeep_chains::BlockFiles::open(
        &paths,
        NETWORK,
        home,
        utxokeep_chains::ScanOptions::default(),
    )
    .unwrap();
    import_files(ChainWriter::new(index.clone()).unwrap(), &files, false, &mut |_| true).unwrap();
    let place =
        PersistedPlace::open("s3://blocks/chain", NETWORK, TIMEOUT_MS, OpenMode::Create, RETRY);
    let bodies = BodyFinder::new(BlockDecoder::new(NETWORK)).with_files(&paths, None, home);
    let mut persister = Persister::new(index.clone(), place.unwrap(), bodies, settings());
    let ended = run(&mut persister).map_err(|error| error.to_string());
    std::fs::write(home.join("ended"), ended.err().unwrap_or_default()).unwrap();
}

/// Through `BlobStore::open`, as the program finds a bucket: in a process that has the variables.
#[test]
fn attempts_at_a_bucket_that_the_program_opens_are_bounded() {
    if let Some(home) = std::env::var_os(HOME) {
        return persist_into_the_bucket(Path::new(&home));
    }
    let Some(moto) = Moto::start_or_skip() else { return };
    let (address, watched) = counting_proxy(moto.address());
    let home = tempfile::tempdir().unwrap();
    let calm = SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() };
    let mut simulator = Simulator::new(calm);
    let raws: Vec<Vec<u8>> = (0..12).map(|_| simulator.mine_next().1).collect();
    utxokeep_chains::write_block_file(&home.path().join("blk00000.dat"), NETWORK, &raws).unwrap();
    let persist = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(HOME, home.path());
        let output = command.envs(Moto::environment(address)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read_to_string(home.path().join("ended")).unwrap()
    };
    let attempts = RETRY.retries_max + 1;
    for treatment in [Treatment::TooSlow, Treatment::CutUpload] {
        // The place is there; writing to it fails.
        watched.treat(treatment);
        let refusal = persist();
        assert!(!refusal.is_empty(), "{treatment:?}");
        let written = watched.take();
        assert!(written.values().all(|count| *count <= attempts), "{treatment:?}: {written:?}");
        if treatment == Treatment::CutUpload {
            assert!(refusal.contains("(3 attempts)"), "{refusal}");
            assert!(written.values().any(|count| *count == attempts), "{written:?}");
        }
    }
    watched.treat(Treatment::Outage);
    let begin = Instant::now();
    assert!(!persist().is_empty());
    assert!(begin.elapsed() < Duration::from_secs(60), "it gives up");
    // It comes back while the persister is at it.
    let healing = watched.clone();
    watched.treat(Treatment::Outage);
    let healer = thread::spawn(move || {
        thread::sleep(Duration::from_secs(2));
        healing.treat(Treatment::Passed);
    });
    let mut ended = persist();
    for _ in 0..200 {
        if ended.is_empty() {
            break;
        }
        ended = persist();
    }
    healer.join().unwrap();
    assert_eq!(ended, "");
    let through = bucket(moto.address(), 3);
    let mark = through.watermark().unwrap().unwrap().block.unwrap();
    assert_eq!(mark.0, Height::new(11));
    assert_eq!(rebuilt(&through).view().unwrap().tip().unwrap().0, mark.0);
}
