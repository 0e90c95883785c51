//! `chain watch`: prints the change stream of a server, or of a database up to its tip.

use std::{
    io::{self, BufRead, BufReader, Read},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use utxokeep::stream::{Start, StreamError, StreamLimits, StreamReader, StreamRequest};

use super::{args::Watch, error::CliError, exit::Exit, open::Session, output};
use crate::{access, json::StreamEvent};

/// How long to wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The longest line of a head, and the longest answer that is an error.
const TEXT_BYTES_MAX: u64 = 1 << 16;

/// The longest event: more than a server sends by default, and less than would fill the memory.
const EVENT_BYTES_MAX: usize = 256 << 20;

/// Prints events until the tip of a database, or for as long as a server sends them.
pub(super) fn run(session: &Session, args: &Watch) -> anyhow::Result<Exit> {
    match &args.connect {
        Some(address) => remote(session, address, &args.request),
        None => local(session, &args.request),
    }
}

fn local(session: &Session, request: &StreamRequest) -> anyhow::Result<Exit> {
    let bad = |text: &str| StreamError::BadParameter(text.to_owned());
    if request.consumer.is_some() {
        return Err(bad("--consumer is for streams of a server; add --connect").into());
    }
    let start = request.start()?;
    if start == Start::Now {
        let text = "name a start with --from or --from-height, or a server with --connect: the \
                    database does not change while this command reads it";
        return Err(bad(text).into());
    }
    let index = session.open()?;
    let config = &session.config().stream;
    let watch = request.watch(&index, config.filter_entries_max.get() as usize)?;
    let (at, network) = (start.find(&index)?, index.settings().network());
    let mut reader = StreamReader::new(index, watch, StreamLimits::of(config), at);
    loop {
        let step = reader.step()?;
        for changes in &step.events {
            show(session, &serde_json::to_value(StreamEvent::changes(changes, network))?)?;
        }
        if step.is_at_tip {
            show(session, &serde_json::to_value(StreamEvent::checkpoint(&reader.cursor()))?)?;
            return Ok(Exit::Success);
        }
    }
}

/// Prints one event: a line of JSON, or a line for people.
fn show(session: &Session, event: &Value) -> anyhow::Result<()> {
    if session.json() {
        return output::text(&format!("{event}\n"));
    }
    let (name, cursor) = (text(event, "event"), text(event, "cursor"));
    let block = &event["block"];
    let line = if block.is_object() {
        let count = |list: &str| event[list].as_array().map_or(0, Vec::len);
        let more = if event["is_last"] == true { "" } else { ", more to come" };
        let root = event["mmr_root"].as_str();
        let root = root.map_or_else(String::new, |root| format!("; mmr root {root}"));
        format!(
            "{name} {} {}: {} created, {} spent{more}{root}; cursor {cursor}\n",
            block["height"],
            text(block, "hash"),
            count("created"),
            count("spent")
        )
    } else {
        let message = event["message"].as_str().map_or_else(String::new, |m| format!(": {m}"));
        format!("{name}{message}; cursor {cursor}\n")
    };
    output::text(&line)
}

fn text<'e>(event: &'e Value, field: &str) -> &'e str {
    event[field].as_str().unwrap_or("")
}

fn remote(session: &Session, address: &str, request: &StreamRequest) -> anyhow::Result<Exit> {
    let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let failed = |source| CliError::NoStream { address: address.to_owned(), source };
    let stream = connect(address).map_err(failed)?;
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    let token = access::token_for(session.config(), session.data(), is_local)?;
    let token = token.map(|token| format!("Authorization: {}\r\n", token.header()));
    let path = format!("/api/v1/stream{}", query(request));
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{}\r\n",
        token.unwrap_or_default()
    );
    io::Write::write_all(&mut &stream, head.as_bytes()).map_err(failed)?;
    let mut answer = BufReader::new(stream);
    let status = read_head(&mut answer).map_err(failed)?;
    if status != 200 {
        let mut body = String::new();
        let _ = answer.take(TEXT_BYTES_MAX).read_to_string(&mut body);
        // The body of an error comes in one piece, or in one chunk; the JSON is what counts.
        let json = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]);
        let json: Value = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let message = text(&json["error"], "message").to_owned();
        return Err(CliError::StreamRefused { address: address.to_owned(), status, message }.into());
    }
    let mut body = Chunks { answer, line: Vec::new() };
    while let Some(line) = body.next_line().map_err(failed)? {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data)?;
        show(session, &event)?;
        if event["event"] == "cut" {
            let message = text(&event, "message").to_owned();
            let cursor = text(&event, "cursor").to_owned();
            return Err(CliError::StreamCut { message, cursor }.into());
        }
    }
    let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection");
    Err(failed(source).into())
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere");
    for found in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&found, CONNECT_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn query(request: &StreamRequest) -> String {
    let lists = [
        ("address", &request.address),
        ("credential", &request.credential),
        ("script", &request.script),
        ("asset", &request.asset),
    ];
    let mut pairs: Vec<(&str, String)> = lists
        .into_iter()
        .flat_map(|(name, texts)| texts.iter().map(move |text| (name, text.clone())))
        .collect();
    pairs.extend(request.from.clone().map(|text| ("from", text)));
    pairs.extend(request.from_height.map(|height| ("from_height", height.to_string())));
    pairs.extend(request.consumer.clone().map(|text| ("consumer", text)));
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, text)| format!("{name}={}", utf8_percent_encode(text, NON_ALPHANUMERIC)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Reads the head of an answer; its status.
fn read_head(answer: &mut BufReader<TcpStream>) -> io::Result<u16> {
    let mut status = None;
    loop {
        let mut line = String::new();
        answer.by_ref().take(TEXT_BYTES_MAX).read_line(&mut line)?;
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "no answer in HTTP");
        if !line.ends_with("\r\n") {
            return Err(malformed());
        }
        match status {
            None => {
                let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
                status = Some(code.ok_or_else(malformed)?);
            }
            Some(status) if line == "\r\n" => return Ok(status),
            Some(_) => {}
        }
    }
}

/// The body of an answer that comes in chunks, line by line.
struct Chunks {
    answer: BufReader<TcpStream>,
    /// What has arrived and is not handed out.
    line: Vec<u8>,
}

impl Chunks {
    /// The next whole line, without its end; `None` behind the last chunk.
    fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let rest = self.line.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.line, rest);
                line.pop();
                let text = String::from_utf8(line);
                return text.map(Some).map_err(|error| invalid(error.to_string()));
            }
            if !self.read_chunk()? {
                return Ok(None);
            }
        }
    }

    fn read_chunk(&mut self) -> io::Result<bool> {
        let mut size = String::new();
        self.answer.by_ref().take(TEXT_BYTES_MAX).read_line(&mut size)?;
        let digits = size.trim_end().split(';').next().unwrap_or("");
        let size = usize::from_str_radix(digits, 16);
        let size = size.map_err(|_| invalid("a chunk has no size".to_owned()))?;
        if size.saturating_add(self.line.len()) > EVENT_BYTES_MAX {
            return Err(invalid("an event is too long".to_owned()));
        }
        let before = self.line.len();
        self.line.resize(before + size, 0);
        self.answer.read_exact(&mut self.line[before..])?;
        let mut end = [0; 2];
        self.answer.read_exact(&mut end)?;
        Ok(size > 0)
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
