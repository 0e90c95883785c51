//! A pruner that runs without the chain database: it takes tip, reorganisations and how far persister
//! and consumers are from another utxokeep, by its stream of chain events.
//!
//! # Invariants
//!
//! * Until the first event has come, after each start, nothing is pruned: the store is told of a
//!   consumer that has read nothing, which bounds every run, whoever asks for it.
//! * What an event says is one commit of the store. The cursor is kept after it, so that a crash in
//!   between repeats an event and never leaves one out.
//! * A place that the other side does not know any more is a reorganisation down to the lowest one that
//!   it knows.

use std::{
    io,
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height,
    node::{ConsumerBound, ConsumerName},
};
use utxokeep_txstore::{PruneStore, StoreError};

use super::Pruning;
use crate::{
    config::PrunerConfig,
    consumers::{LogConsumer, Others, StepFailed, Stepped},
    sse::{self, SseError, SseLine, SseStream},
    stream::{ChainEvent, ChainMoved, parse_cursor},
};

/// Name of the value of the store that says how far the events were taken.
const CURSOR: &str = "chain_events";

/// The consumer that holds everything until the first event has come.
const HOLDS: &str = "chain-events";

/// The route of the stream.
const PATH: &str = "/api/v1/chain-events";

/// How long one look at the connection takes at the most, so that the thread ends soon when it is to.
const LOOK: Duration = Duration::from_millis(200);

/// How long an answer may take, piece by piece: as long as a stop may have to wait for it.
const ANSWER_WAIT: Duration = Duration::from_secs(4);

/// How long the first event may take.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// Heartbeats that may be missing before the connection counts as broken.
const HEARTBEATS_MISSED_MAX: u32 = 4;

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 12;

/// Why events of another utxokeep cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventsError {
    #[error("the chain events of {address} cannot be read")]
    Stream { address: String, source: SseError },
    #[error("{address} sends something else than chain events")]
    NoEvent { address: String, source: serde_json::Error },
    #[error("{address} has sent a cursor that is none of this version of the program")]
    NoCursor { address: String },
    #[error("nothing was heard of {address} for {silence:?}")]
    Silent { address: String, silence: Duration },
    #[error("{address} ended the stream: {message}")]
    Cut { address: String, message: String },
    #[error("cannot read the token in {path} ([pruner] events_token_file)")]
    Token { path: String, source: io::Error },
}

/// The bound that holds everything.
pub(super) fn holds_everything() -> Option<ConsumerBound> {
    Some(ConsumerBound { name: ConsumerName::new(HOLDS)?, height: Height::GENESIS })
}

/// How far events were taken, as its text; `None` where none ever were.
fn kept(store: &dyn PruneStore) -> Result<Option<String>, StoreError> {
    let mut found = None;
    store.read_states(&mut |states| {
        found = states.state(CURSOR)?;
        Ok(())
    })?;
    Ok(found.and_then(|bytes| String::from_utf8(bytes).ok()))
}

fn keep(store: &dyn PruneStore, cursor: &str) -> Result<(), StoreError> {
    let value = cursor.as_bytes().to_vec();
    store.update_states(&mut |_| Ok(vec![(CURSOR.to_owned(), Some(value.clone()))]))
}

/// A connection, and when something was last heard of it.
#[derive(Debug)]
struct Open {
    stream: SseStream,
    heard: Instant,
    silence_max: Duration,
}

/// Tells a pruner what another utxokeep says of the chain.
pub(super) struct ChainEvents {
    pruning: Pruning,
    store: Arc<dyn PruneStore>,
    /// `HOST:PORT`.
    address: String,
    token_file: std::path::PathBuf,
    open: Option<Open>,
    /// Whether an event has come since the start.
    has_heard: bool,
}

impl ChainEvents {
    pub(super) fn new(pruning: Pruning, store: Arc<dyn PruneStore>, config: &PrunerConfig) -> Self {
        let address = config.events_address().unwrap_or_default().to_owned();
        let token_file = config.events_token_file.clone();
        Self { pruning, store, address, token_file, open: None, has_heard: false }
    }

    fn authorization(&self) -> Result<Option<String>, EventsError> {
        if self.token_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let failed =
            |source| EventsError::Token { path: self.token_file.display().to_string(), source };
        let mut text = String::new();
        let file = std::fs::File::open(&self.token_file).map_err(failed)?;
        io::Read::read_to_string(&mut io::Read::take(file, TOKEN_BYTES_MAX), &mut text)
            .map_err(failed)?;
        let token = text.trim();
        if token.is_empty() || token.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let source = io::Error::new(io::ErrorKind::InvalidData, "it is no token");
            return Err(failed(source));
        }
        Ok(Some(format!("Bearer {token}")))
    }

    fn open_at(&self, from: Option<&str>) -> Result<SseStream, SseError> {
        let authorization =
            self.authorization().map_err(|error| SseError::Io(io::Error::other(error)))?;
        let stream: TcpStream = sse::connect(&self.address)?;
        let query = from.map(|from| format!("?{from}")).unwrap_or_default();
        let path = format!("{PATH}{query}");
        SseStream::open(stream, &self.address, &path, authorization.as_deref(), ANSWER_WAIT)
    }

    fn failed(&self, source: SseError) -> EventsError {
        EventsError::Stream { address: self.address.clone(), source }
    }

    /// Opens the stream where it was left. Where the other side does not know that place any more, what
    /// was said above the lowest that it knows is void.
    fn connect(&self) -> Result<Open, StepFailed> {
        let cursor = kept(self.store.as_ref())?;
        let from = cursor.as_ref().map(|cursor| format!("from={cursor}"));
        let stream = match self.open_at(from.as_deref()) {
            Err(SseError::Refused { start_from: Some(floor), .. }) => {
                let own = cursor.and_then(|cursor| parse_cursor(&cursor).ok());
                let own = own.and_then(|own| own.block()).map(|(height, _)| height);
                let fork = own.unwrap_or_default().min(Height::new(floor));
                // How far the others are comes with the first event from there.
                let nothing = Others { slowest: holds_everything(), persisted: None };
                self.pruning.chain_moved(nothing, Some(fork), None)?;
                self.open_at(Some(&format!("from_height={fork}")))
            }
            opened => opened,
        };
        let stream = stream.map_err(|source| self.failed(source))?;
        Ok(Open { stream, heard: Instant::now(), silence_max: FIRST_WAIT })
    }

    fn take(&mut self, open: &mut Open, data: &str) -> Result<(), StepFailed> {
        let event: ChainEvent = serde_json::from_str(data)
            .map_err(|source| EventsError::NoEvent { address: self.address.clone(), source })?;
        let moved = match event {
            ChainEvent::Moved(moved) => moved,
            ChainEvent::Cut(cut) => {
                let address = self.address.clone();
                return Err(EventsError::Cut { address, message: cut.message }.into());
            }
        };
        let (cursor, others, fork, newest) = self.read(&moved)?;
        self.pruning.chain_moved(others, fork, newest)?;
        keep(self.store.as_ref(), &cursor)?;
        open.silence_max = Duration::from_secs(moved.heartbeat_secs.into())
            .saturating_mul(HEARTBEATS_MISSED_MAX)
            .max(FIRST_WAIT);
        self.has_heard = true;
        Ok(())
    }

    /// What an event means for the pruner. One that does not fit together is refused whole.
    fn read(
        &self,
        moved: &ChainMoved,
    ) -> Result<(String, Others, Option<Height>, Option<Height>), EventsError> {
        let no_cursor = || EventsError::NoCursor { address: self.address.clone() };
        let cursor = parse_cursor(&moved.cursor).map_err(|_| no_cursor())?;
        let at = cursor.block().map(|(height, _)| height).unwrap_or_default();
        let slowest = moved.slowest.as_ref().map(|slowest| {
            let name = ConsumerName::new(&slowest.name).ok_or_else(no_cursor)?;
            Ok(ConsumerBound { name, height: Height::new(slowest.height) })
        });
        let slowest = slowest.transpose()?;
        let persisted = moved.persisted.map(|height| Height::new(height).min(at));
        let [fork, newest] = [moved.fork, moved.newest].map(|height| height.map(Height::new));
        Ok((moved.cursor.clone(), Others { slowest, persisted }, fork, newest))
    }

    /// One look at the connection; what it finds.
    fn look(&mut self, open: &mut Open) -> Result<(), StepFailed> {
        let line = open.stream.next_line(Some(LOOK)).map_err(|error| self.failed(error.into()))?;
        match line {
            SseLine::Text(line) => {
                open.heard = Instant::now();
                line.strip_prefix("data: ").map_or(Ok(()), |data| self.take(open, data))
            }
            SseLine::Nothing if open.heard.elapsed() < open.silence_max => Ok(()),
            SseLine::Nothing => {
                let (address, silence) = (self.address.clone(), open.silence_max);
                Err(EventsError::Silent { address, silence }.into())
            }
            SseLine::Ended => {
                let closed =
                    io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
                Err(self.failed(closed.into()).into())
            }
        }
    }
}

impl LogConsumer for ChainEvents {
    fn name(&self) -> &'static str {
        "chain-events"
    }

    fn step(&mut self, _: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        // Whatever fails, the next attempt connects anew.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        self.look(&mut open)?;
        self.open = Some(open);
        let waits = || format!("waits for the first event of {}; nothing is pruned", self.address);
        Ok(Stepped { is_done: false, hindrance: (!self.has_heard).then(waits) })
    }
}
