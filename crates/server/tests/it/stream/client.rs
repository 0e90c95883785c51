//! A client of the stream that keeps a set by it, over either face, and can be cut off anywhere.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;
use tonic::{Status, Streaming, transport::Endpoint};
use utxokeep_core::{Network, OutPoint, Txid, hex_decode, hex_encode};
use utxokeep_server::grpc::proto::{self, chain_stream_client::ChainStreamClient, stream_event};

use super::served::{Set, World};
use crate::program::PATIENCE;

const REGTEST: Network = Network::BitcoinRegtest;

/// How a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Rest,
    Grpc,
}

impl Face {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Grpc => "grpc",
        }
    }
}

type Coin = (OutPoint, (u64, u32, Vec<u8>));

/// An event, from either face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) cursor: String,
    /// Leaves and root of the Merkle mountain range behind the event.
    pub(crate) mmr: Option<(u64, Vec<u8>)>,
    pub(crate) is_last: bool,
    reason: Option<String>,
    replaced: Vec<Coin>,
    created: Vec<Coin>,
    spent: Vec<Coin>,
}

impl Told {
    pub(crate) fn changes(&self) -> usize {
        self.replaced.len() + self.created.len() + self.spent.len()
    }

    fn from_json(event: &Value) -> Self {
        let text = |field: &str| event[field].as_str().map(str::to_owned);
        let coins = |field: &str| {
            let all = event[field].as_array().into_iter().flatten();
            all.map(coin_from_json).collect()
        };
        Self {
            name: text("event").unwrap(),
            cursor: text("cursor").unwrap(),
            mmr: text("mmr_root")
                .map(|root| (event["mmr_leaves"].as_u64().unwrap(), hex_decode(&root).unwrap())),
            is_last: event["is_last"] == true,
            reason: text("reason"),
            replaced: coins("replaced"),
            created: coins("created"),
            spent: coins("spent"),
        }
    }

    fn from_proto(event: proto::StreamEvent) -> Self {
        use stream_event::Event;
        let (name, changes) = match event.event.unwrap() {
            Event::Apply(changes) => ("apply", changes),
            Event::Undo(changes) => ("undo", changes),
            Event::Checkpoint(_) => ("checkpoint", proto::StreamChanges::default()),
        };
        let coins = |all: Vec<proto::StreamOutput>| all.into_iter().map(coin_from_proto).collect();
        Self {
            name: name.to_owned(),
            cursor: event.cursor,
            mmr: changes.mmr_root.map(|root| (changes.mmr_leaves.unwrap(), root)),
            is_last: changes.is_last,
            reason: None,
            replaced: coins(changes.replaced),
            created: coins(changes.created),
            spent: coins(changes.spent),
        }
    }

    /// The end of a stream over gRPC is its status.
    fn from_status(status: &Status) -> Self {
        let text = |name: &str| status.metadata().get(name).map(|text| text.to_str().unwrap());
        let reason = text("utxokeep-code").unwrap_or_else(|| panic!("{status:?}"));
        Self {
            name: "cut".to_owned(),
            cursor: text("utxokeep-cursor").unwrap().to_owned(),
            mmr: None,
            is_last: false,
            reason: Some(reason.to_owned()),
            replaced: Vec::new(),
            created: Vec::new(),
            spent: Vec::new(),
        }
    }
}

fn coin_from_json(output: &Value) -> Coin {
    let txid = REGTEST.parse_hash(output["tx_hash"].as_str().unwrap()).unwrap();
    let index = u32::try_from(output["output_index"].as_u64().unwrap()).unwrap();
    let amount = output["amount"].as_str().unwrap().parse().unwrap();
    let block = u32::try_from(output["block"].as_u64().unwrap()).unwrap();
    let script = hex_decode(output["script_pub_key"].as_str().unwrap()).unwrap();
    (OutPoint::new(Txid::from_bytes(txid), index), (amount, block, script))
}

fn coin_from_proto(output: proto::StreamOutput) -> Coin {
    let txid = Txid::from_slice(&output.tx_hash).unwrap();
    (OutPoint::new(txid, output.output_index), (output.amount, output.block, output.owner))
}

/// A set that is kept by events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) outputs: Set,
}

impl Kept {
    /// Carries an event out; an error when it does not fit the set.
    pub(crate) fn take(&mut self, event: &Told) -> Result<(), String> {
        match event.name.as_str() {
            "apply" => {
                self.take_out(&event.replaced)?;
                self.put_in(&event.created)?;
                self.take_out(&event.spent)
            }
            "undo" => {
                self.put_in(&event.spent)?;
                self.take_out(&event.created)?;
                self.put_in(&event.replaced)
            }
            _ => Ok(()),
        }
    }

    fn put_in(&mut self, coins: &[Coin]) -> Result<(), String> {
        for (outpoint, coin) in coins {
            if self.outputs.insert(*outpoint, coin.clone()).is_some() {
                return Err(format!("{outpoint:?} came twice"));
            }
        }
        Ok(())
    }

    fn take_out(&mut self, coins: &[Coin]) -> Result<(), String> {
        for (outpoint, coin) in coins {
            if self.outputs.remove(outpoint).as_ref() != Some(coin) {
                return Err(format!("{outpoint:?} was not there, or was another"));
            }
        }
        Ok(())
    }
}

/// Why a server ended a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) cursor: String,
}

/// A connection.
enum Connection {
    Rest(Events),
    Grpc(tokio::runtime::Handle, Box<Streaming<proto::StreamEvent>>),
}

impl Connection {
    fn next(&mut self) -> Told {
        match self {
            Self::Rest(events) => Told::from_json(&events.next().expect("the stream goes on")),
            Self::Grpc(runtime, stream) => match runtime.block_on(stream.message()) {
                Ok(event) => Told::from_proto(event.expect("the stream goes on")),
                Err(status) => Told::from_status(&status),
            },
        }
    }
}

/// Server-sent events of one connection.
pub(crate) struct Events {
    answer: BufReader<TcpStream>,
    rest: Vec<u8>,
}

impl Events {
    #[track_caller]
    pub(crate) fn open(address: std::net::SocketAddr, path: &str, lines: &str) -> Self {
        Self::try_open(address, path, lines).unwrap()
    }

    /// The same; an error has the head of the answer.
    pub(crate) fn try_open(
        address: std::net::SocketAddr,
        path: &str,
        lines: &str,
    ) -> Result<Self, String> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(answer.read_line(&mut head).unwrap() > 0, "{head}");
        }
        if !head.starts_with("HTTP/1.1 200") {
            return Err(head);
        }
        assert!(head.to_lowercase().contains("content-type: text/event-stream"), "{head}");
        Ok(Self { answer, rest: Vec::new() })
    }

    /// The next event; `None` when the stream or the connection has ended. Half of an event is none.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
                let rest = self.rest.split_off(end + 2);
                let event = std::mem::replace(&mut self.rest, rest);
                let event = String::from_utf8(event).unwrap();
                if event.starts_with(':') {
                    continue;
                }
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
                };
                let json: Value = serde_json::from_str(&field("data: ")).unwrap();
                assert_eq!(json["event"], field("event: "));
                assert_eq!(json["cursor"], field("id: "));
                return Some(json);
            }
            let mut size = String::new();
            self.answer.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            self.answer.read_exact(&mut chunk).ok()?;
            if size == 0 {
                return None;
            }
            self.rest.extend_from_slice(&chunk[..size]);
        }
    }
}

/// A client with its set and its cursor, which it changes together.
pub(crate) struct Client {
    face: Face,
    is_filtered: bool,
    from_height: u32,
    watched: Vec<Vec<u8>>,
    cursor: Option<String>,
    kept: Kept,
    counts: BTreeMap<String, u32>,
    connection: Option<Connection>,
    recorded: Option<Vec<Told>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { face, is_filtered, counts, cursor, .. } = self;
        write!(f, "{face:?}, filtered {is_filtered}, {counts:?}, at {cursor:?}")
    }
}

impl Client {
    pub(crate) fn new(face: Face, is_filtered: bool, from_height: u32) -> Self {
        Self {
            face,
            is_filtered,
            from_height,
            watched: Vec::new(),
            cursor: None,
            kept: Kept::default(),
            counts: BTreeMap::new(),
            connection: None,
            recorded: None,
        }
    }

    /// Remembers all events from now on.
    pub(crate) fn record(&mut self) {
        self.recorded = Some(Vec::new());
    }

    pub(crate) fn recorded(&self) -> &[Told] {
        self.recorded.as_deref().unwrap()
    }

    pub(crate) fn set(&self) -> &Set {
        &self.kept.outputs
    }

    pub(crate) fn watched(&self) -> &[Vec<u8>] {
        &self.watched
    }

    pub(crate) fn cursor(&self) -> String {
        self.cursor.clone().unwrap()
    }

    pub(crate) fn count(&self, event: &str) -> u32 {
        self.counts.get(event).copied().unwrap_or(0)
    }

    /// Closes the connection, whatever is on its way.
    pub(crate) fn hang_up(&mut self) {
        self.connection = None;
    }

    pub(crate) fn connect(&mut self, world: &World) {
        if self.connection.is_some() {
            return;
        }
        if self.is_filtered {
            self.watched = world.watched().to_vec();
        }
        let scripts: Vec<String> = self.watched.iter().map(|one| hex_encode(one)).collect();
        self.connection = Some(match self.face {
            Face::Rest => {
                let mut query: Vec<_> =
                    scripts.iter().map(|one| format!("address={one}")).collect();
                let mut lines = String::new();
                // As a browser does it: the first request again, and the last id.
                if let Some(cursor) = &self.cursor {
                    lines = format!("Last-Event-ID: {cursor}\r\n");
                }
                query.push(format!("from_height={}", self.from_height));
                let path = format!("/api/v1/stream?{}", query.join("&"));
                Connection::Rest(Events::open(world.rest(), &path, &lines))
            }
            Face::Grpc => {
                let request = proto::StreamFollowRequest {
                    address: scripts,
                    from: self.cursor.clone(),
                    from_height: self.cursor.is_none().then_some(self.from_height),
                    ..Default::default()
                };
                let address = format!("http://{}", world.grpc());
                let stream = world.runtime().block_on(async {
                    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
                    let client = ChainStreamClient::new(channel);
                    let mut client = client.max_decoding_message_size(64 << 20);
                    client.follow(request).await.unwrap().into_inner()
                });
                Connection::Grpc(world.runtime().handle().clone(), Box::new(stream))
            }
        });
    }

    /// Takes one event; answers why the server ended the stream, if that is what it says.
    fn take(&mut self) -> Option<String> {
        let told = self.connection.as_mut().unwrap().next();
        *self.counts.entry(told.name.clone()).or_default() += 1;
        if told.name == "cut" {
            assert_eq!(Some(&told.cursor), self.cursor.as_ref());
            return told.reason;
        }
        self.kept.take(&told).unwrap_or_else(|error| panic!("{error}: {told:?} in {self:?}"));
        self.cursor = Some(told.cursor.clone());
        if let Some(recorded) = &mut self.recorded {
            recorded.push(told);
        }
        None
    }

    /// Reads a few events, unless it has all.
    pub(crate) fn read_some(&mut self, world: &World, events: u64) {
        self.connect(world);
        for _ in 0..events {
            if self.cursor.as_ref() == Some(&world.tip()) {
                return;
            }
            assert_eq!(self.take(), None);
        }
    }

    pub(crate) fn read_to_tip(&mut self, world: &World) {
        self.connect(world);
        let tip = world.tip();
        while self.cursor.as_ref() != Some(&tip) {
            assert_eq!(self.take(), None);
        }
    }

    pub(crate) fn read_to_cut(&mut self) -> Cause {
        loop {
            if let Some(reason) = self.take() {
                return Cause { reason, cursor: self.cursor() };
            }
        }
    }
}
