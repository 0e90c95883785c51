//! A page of another origin in a real browser: it reads nothing and changes nothing.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use crate::{
    program::{PATIENCE, Serving},
    wallet_rest::program::start,
};

/// Where distributions put it.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const REQUIRED: &str = "UTXOKEEP_REQUIRE_CHROMIUM";

/// The browser; `None`, with a word about it, where there is none and none is required.
fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| {
        let asked = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        asked.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        assert!(
            std::env::var_os(REQUIRED).is_none(),
            "{REQUIRED} is set, and there is no Chromium"
        );
        eprintln!("skipped: Chromium is missing (Debian: apt-get install chromium)");
    }
    found
}

/// A request: its first line, what kind of body it has, and the body.
struct Request {
    line: String,
    kind: String,
    body: String,
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut kind, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "content-type" => value.split(';').next()?.clone_into(&mut kind),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line, kind, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Answers requests on a port of its own until the test ends, and hands them on.
fn serve(
    answer: impl Fn(&Request) -> String + Send + Sync + 'static,
) -> (SocketAddr, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::channel();
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (seen, answer) = (seen.clone(), answer.clone());
            thread::spawn(move || {
                let Some(request) = read(&stream) else { return };
                let _ = stream.write_all(answer(&request).as_bytes());
                let _ = seen.send(request);
            });
        }
    });
    (address, requests)
}

fn answer(headers: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// A browser that is open, with everything it started.
struct Open(Child);

impl Drop for Open {
    fn drop(&mut self) {
        // A minus stands for its group.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn open(browser: &str, page: SocketAddr, profile: &std::path::Path) -> Open {
    let child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("http://{page}/"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    Open(child.unwrap())
}

/// All that a program with the token sees of the ledger.
fn ledger(program: &Serving) -> Vec<Value> {
    ["", "/w", "/w/leases", "/w/transactions", "/w/utxos", "/w/descriptors", "/w/addresses"]
        .map(|path| program.ask("GET", &format!("/api/v1/wallets{path}"), "").good())
        .to_vec()
}

fn refused(program: &Serving) -> f64 {
    let metrics = program.send("GET", "/metrics", "", "").text;
    let counted = metrics.lines().filter(|line| line.starts_with("utxokeep_rest_refused_total{"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn a_page_of_another_origin_in_chromium_reads_and_changes_nothing() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = start(dir.path(), "");
    let make = json!({ "name": "w", "network": "regtest" }).to_string();
    assert_eq!(program.ask("POST", "/api/v1/wallets", &make).status, 201);
    let (before, refused_before) = (ledger(&program), refused(&program));

    let (control, attempts) = serve(|_| {
        let all = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Headers: *, Authorization\r\n\
                   Access-Control-Allow-Methods: *\r\n";
        answer(all, "application/json", "{}")
    });
    let targets = json!({
        "control": format!("http://{control}"),
        "ours": format!("http://{}", program.rest()),
    });
    let page = include_str!("attack.html")
        .replace("TARGETS", &targets.to_string())
        .replace("TOKEN", &program.token());
    let (attacker, reports) = serve(move |_| answer("", "text/html", &page));
    let open = open(browser, attacker, &dir.path().join("profile"));
    let report = loop {
        let request = reports.recv_timeout(PATIENCE).expect("the page reports");
        if request.line.starts_with("POST /report") {
            break serde_json::from_str::<Vec<String>>(&request.body).unwrap();
        }
    };
    drop(open);

    let (read, control_read): (Vec<&String>, Vec<&String>) =
        report.iter().partition(|name| name.starts_with("ours "));
    assert_eq!(read, [""; 0], "what the page could read");
    assert_eq!(ledger(&program), before, "what the page could change");
    let is_refused = refused(&program) - refused_before;
    assert!(is_refused > 10.0, "only {is_refused} requests of the page arrived and were refused");

    // The attempts are real: a server that allows everything was read and written by the same page.
    let could_read = ["control fetch", "control fetch with token", "control post json with token"];
    for name in could_read {
        assert!(control_read.iter().any(|read| *read == name), "{name}: {control_read:?}");
    }
    let arrived: BTreeSet<(String, String)> = attempts
        .try_iter()
        .map(|request| (request.line.split(' ').next().unwrap().to_owned(), request.kind))
        .collect();
    for (method, kind) in [
        ("GET", ""),
        ("OPTIONS", ""),
        ("PUT", "application/json"),
        ("DELETE", ""),
        ("POST", "text/plain"),
        ("POST", "application/json"),
        ("POST", "application/x-www-form-urlencoded"),
        ("POST", "multipart/form-data"),
    ] {
        assert!(
            arrived.contains(&(method.to_owned(), kind.to_owned())),
            "{method} {kind}: {arrived:?}"
        );
    }
}
