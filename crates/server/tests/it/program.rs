//! The program as a process: started, asked and ended. Every test that runs it does so from here.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tonic::transport::{Channel, Endpoint};

use crate::http::{Reply, exchange, exchange_text, request};

/// Longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The program with these words, and with nothing of the environment of the tests.
pub(crate) fn utxokeep(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_utxokeep"));
    command.args(words).env_clear().stdin(Stdio::null());
    command
}

/// What a command wrote to stderr.
pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A program that serves, killed when the test ends early.
pub(crate) struct Serving {
    child: Child,
    rest: SocketAddr,
    grpc: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address behind these words of a line.
fn address_after(line: &str, words: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(words)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
    rest[..end.unwrap_or(rest.len())].trim_end_matches(':').parse().ok()
}

impl Serving {
    /// Starts a command, and waits until it says where REST listens; it names gRPC before.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut seen, mut grpc) = (String::new(), None);
        let rest = loop {
            let before = seen.len();
            if stderr.read_line(&mut seen).unwrap() == 0 {
                let _ = child.wait();
                panic!("ended early: {seen}");
            }
            let line = &seen[before..];
            grpc = grpc.or(address_after(line, "gRPC on "));
            let rest = address_after(line, " on http://");
            if let Some(rest) = rest.or(address_after(line, " at http://")) {
                break rest;
            }
        };
        let log = Arc::new(Mutex::new(seen));
        let grows = Arc::clone(&log);
        // Read on, so that the program never waits for us.
        let reader = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                grows.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, rest, grpc, log, reader: Some(reader) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn rest(&self) -> SocketAddr {
        self.rest
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.grpc.unwrap_or_else(|| panic!("it does not serve gRPC: {}", self.log()))
    }

    pub(crate) fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc())
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.grpc_url()).unwrap().connect().await.unwrap()
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The file that it says has the token, if clients need one.
    fn named_token_file(&self) -> Option<PathBuf> {
        let log = self.log();
        let named = log.lines().find_map(|line| line.split_once("access token in "));
        named.map(|(_, file)| file.into())
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.named_token_file().unwrap_or_else(|| panic!("no token: {}", self.log()))
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.token_file()).unwrap().trim_end().to_owned()
    }

    /// The line of a header that shows the token, if clients need one.
    fn authorization(&self) -> String {
        self.named_token_file()
            .map_or_else(String::new, |_| format!("Authorization: Bearer {}\r\n", self.token()))
    }

    /// The whole answer, head and body, to a request with the token.
    pub(crate) fn get(&self, path: &str) -> String {
        let lines = self.authorization();
        exchange_text(self.rest, request("GET", path, &lines, "").as_bytes())
    }

    /// What is answered, without its head.
    pub(crate) fn body(&self, path: &str) -> String {
        Reply::parse(&self.get(path)).text
    }

    /// The whole answer to JSON that is posted with the token.
    pub(crate) fn post(&self, path: &str, json: &str) -> String {
        let lines = self.authorization() + "Content-Type: application/json\r\n";
        exchange_text(self.rest, request("POST", path, &lines, json).as_bytes())
    }

    /// The answer to a request with these lines in its header, and without the token.
    pub(crate) fn send(&self, method: &str, path: &str, lines: &str, body: &str) -> Reply {
        exchange(self.rest, request(method, path, lines, body).as_bytes())
    }

    /// The answer to a request with the token.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        self.send(method, path, &(self.authorization() + kind), body)
    }

    /// Asks until the whole answer is as wanted.
    pub(crate) fn wait_for(&self, path: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path);
            if wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path}: {answer}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of a metric; labels are part of the name.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.trim().parse().unwrap())
    }

    pub(crate) fn wait_for_metric(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        until(name, || self.metric(name).is_some_and(&wanted));
    }

    /// Waits until health says so.
    pub(crate) fn wait_for_health(&self, status: &str) {
        let wanted = format!("{{\"status\":\"{status}\"");
        self.wait_for("/health", |answer| answer.contains(&wanted));
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits until it ends by itself; answers how, and all that it said.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        until("the program ends", || self.child.try_wait().unwrap().is_some());
        self.reader.take().expect("joined once").join().unwrap();
        (self.child.wait().unwrap(), self.log())
    }

    /// Stops it as a supervisor would; answers all that it said.
    pub(crate) fn stop(self) -> String {
        self.stop_by("TERM")
    }

    pub(crate) fn stop_by(self, signal: &str) -> String {
        self.signal(signal);
        let (status, log) = self.ended();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }

    /// SIGKILL, which leaves no time for anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
