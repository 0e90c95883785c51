//! `chain watch`: prints the change stream of a server, or of a database up to its tip.

use std::{io, time::Duration};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use utxokeep::sse::{self, SseError, SseLine, SseStream};
use utxokeep::stream::{Start, StreamError, StreamLimits, StreamReader, StreamRequest};

use super::{args::Watch, error::CliError, exit::Exit, open::Session, output};
use crate::{access, json::StreamEvent};

/// How long a server may take to answer. Whoever reads a database first needs a moment.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

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
    let stream = sse::connect(address).map_err(failed)?;
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    let token = access::token_for(session.config(), session.data(), is_local)?;
    let token = token.map(|token| token.header());
    let path = format!("/api/v1/stream{}", query(request));
    let opened = SseStream::open(stream, address, &path, token.as_deref(), ANSWER_WAIT);
    let mut body = match opened {
        Ok(body) => body,
        Err(SseError::Refused { status, message, .. }) => {
            let address = address.to_owned();
            return Err(CliError::StreamRefused { address, status, message }.into());
        }
        Err(SseError::Io(source)) => return Err(failed(source).into()),
        Err(error) => return Err(failed(io::Error::other(error)).into()),
    };
    while let SseLine::Text(line) = body.next_line(None).map_err(failed)? {
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
