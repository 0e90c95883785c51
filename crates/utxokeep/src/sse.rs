//! Reads server-sent events over a blocking connection: for the command line that shows a stream, and
//! for a pruner that follows the chain of another program.
//!
//! # Invariants
//!
//! * Whatever a server sends, memory is bounded: a head, an error and an event have a longest size.
//! * Waiting for the next line may be bounded too. What has arrived of it by then is kept.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use serde_json::Value;

/// How long to wait for a connection to one address.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The longest head, line of a chunk, and answer that is an error.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// The longest event: more than a server sends by default, and less than would fill the memory.
const EVENT_BYTES_MAX: usize = 256 << 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server answered with an error.
    #[error("the server refused ({status}): {message}")]
    Refused {
        /// Status of HTTP.
        status: u16,
        /// Its words.
        message: String,
        /// The lowest height to start from, where the place that was asked for is not kept any more.
        start_from: Option<u32>,
    },
}

/// What came next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseLine {
    /// A line, without its end.
    Text(String),
    /// Nothing in the time that was given.
    Nothing,
    /// The server has closed the stream.
    Ended,
}

/// Connects to `HOST:PORT`.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere");
    for found in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&found, CONNECT_WAIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Where in the body of an answer the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a body without chunks.
    Plain,
    /// In the line that says how long a chunk is.
    Size,
    /// In a chunk of which so many bytes are left.
    Data(usize),
    /// Behind a chunk.
    End,
    /// Behind the last chunk.
    Ended,
}

/// A stream that is open.
#[derive(Debug)]
pub struct SseStream {
    stream: TcpStream,
    /// What has arrived and is not decoded.
    raw: Vec<u8>,
    place: Place,
    /// What is decoded and not handed out.
    text: Vec<u8>,
}

impl SseStream {
    /// Asks for a stream. `authorization` is the value of the header of that name; `wait` is for each
    /// piece of the head of the answer.
    pub fn open(
        mut stream: TcpStream,
        address: &str,
        path: &str,
        authorization: Option<&str>,
        wait: Duration,
    ) -> Result<Self, SseError> {
        let authorization =
            authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\
             Connection: close\r\n{authorization}\r\n"
        );
        stream.set_write_timeout(Some(wait))?;
        stream.write_all(head.as_bytes())?;
        let mut opened = Self { stream, raw: Vec::new(), place: Place::Plain, text: Vec::new() };
        let head = opened.head(wait)?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or_else(|| invalid("no answer in HTTP"))?;
        let is_chunked = head.lines().any(|line| {
            let line = line.to_ascii_lowercase();
            line.strip_prefix("transfer-encoding:").is_some_and(|how| how.contains("chunked"))
        });
        opened.place = if is_chunked { Place::Size } else { Place::Plain };
        if status == 200 { Ok(opened) } else { Err(opened.refusal(status)) }
    }

    /// The head of the answer; what follows it stays.
    fn head(&mut self, wait: Duration) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.raw, b"\r\n\r\n") {
                let rest = self.raw.split_off(end + 4);
                let head = std::mem::replace(&mut self.raw, rest);
                return String::from_utf8(head).map_err(|_| invalid("no answer in HTTP"));
            }
            if self.raw.len() > TEXT_BYTES_MAX {
                return Err(invalid("the head of the answer is too long"));
            }
            match self.read_more(Some(wait))? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// What an answer says that is an error.
    fn refusal(mut self, status: u16) -> SseError {
        while self.decode().is_ok_and(|ended| !ended) && self.text.len() < TEXT_BYTES_MAX {
            match self.read_more(Some(CONNECT_WAIT)) {
                Ok(Some(read)) if read > 0 => {}
                _ => break,
            }
        }
        let json: Value = serde_json::from_slice(&self.text).unwrap_or_default();
        let error = &json["error"];
        let message = error["message"].as_str().unwrap_or("it says no more").to_owned();
        let start_from = error["start_from"].as_u64().and_then(|height| height.try_into().ok());
        SseError::Refused { status, message, start_from }
    }

    /// The next line. Without `wait` as long as it takes; with it at the most so long for each piece
    /// of the line.
    pub fn next_line(&mut self, wait: Option<Duration>) -> io::Result<SseLine> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let rest = self.text.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.text, rest);
                line.pop();
                let text = String::from_utf8(line).map_err(|_| invalid("a line is no text"))?;
                return Ok(SseLine::Text(text));
            }
            if self.place == Place::Ended {
                return Ok(SseLine::Ended);
            }
            if self.decode()? || self.text.contains(&b'\n') {
                continue;
            }
            match self.read_more(wait)? {
                // A server that ends a stream in order ends its last chunk first.
                Some(0) => return Ok(SseLine::Ended),
                Some(_) => {}
                None => return Ok(SseLine::Nothing),
            }
        }
    }

    /// Reads what has arrived: how many bytes, or `None` when nothing came in time.
    fn read_more(&mut self, wait: Option<Duration>) -> io::Result<Option<usize>> {
        self.stream.set_read_timeout(wait)?;
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(read) => {
                self.raw.extend_from_slice(&buffer[..read]);
                Ok(Some(read))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(None),
                io::ErrorKind::Interrupted if wait.is_some() => Ok(None),
                io::ErrorKind::Interrupted => self.read_more(wait),
                _ => Err(error),
            },
        }
    }

    /// Takes chunks apart, as far as they have arrived; answers whether the body is over.
    fn decode(&mut self) -> io::Result<bool> {
        let mut at = 0;
        loop {
            let rest = &self.raw[at..];
            match self.place {
                Place::Plain => {
                    self.text.extend_from_slice(rest);
                    at = self.raw.len();
                    break;
                }
                Place::Size => {
                    let Some(end) = find(rest, b"\r\n") else {
                        if rest.len() > TEXT_BYTES_MAX {
                            return Err(invalid("a chunk has no size"));
                        }
                        break;
                    };
                    let line = std::str::from_utf8(&rest[..end]).unwrap_or("");
                    let digits = line.split(';').next().unwrap_or("").trim();
                    let size = usize::from_str_radix(digits, 16)
                        .map_err(|_| invalid("a chunk has no size"))?;
                    at += end + 2;
                    self.place = if size == 0 { Place::Ended } else { Place::Data(size) };
                }
                Place::Data(left) => {
                    let some = left.min(rest.len());
                    self.text.extend_from_slice(&rest[..some]);
                    at += some;
                    if some < left {
                        self.place = Place::Data(left - some);
                        break;
                    }
                    self.place = Place::End;
                }
                Place::End => {
                    if rest.len() < 2 {
                        break;
                    }
                    at += 2;
                    self.place = Place::Size;
                }
                Place::Ended => break,
            }
        }
        self.raw.drain(..at);
        if self.text.len() > EVENT_BYTES_MAX {
            return Err(invalid("an event is too long"));
        }
        Ok(self.place == Place::Ended)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Answers one request with pieces of bytes, with a pause between them, and closes.
    fn answer(pieces: Vec<Vec<u8>>) -> Result<SseStream, SseError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut asked = [0; 1 << 12];
            let _ = client.read(&mut asked);
            client.set_nodelay(true).unwrap();
            for piece in pieces {
                let _ = client.write_all(&piece);
                thread::sleep(Duration::from_millis(2));
            }
        });
        SseStream::open(connect(&address).unwrap(), &address, "/", None, CONNECT_WAIT)
    }

    fn lines(mut stream: SseStream) -> Vec<SseLine> {
        let mut lines = Vec::new();
        loop {
            match stream.next_line(Some(Duration::from_millis(1))).unwrap() {
                SseLine::Nothing => {}
                SseLine::Ended => return lines,
                line @ SseLine::Text(_) => lines.push(line),
            }
        }
    }

    #[test]
    fn lines_arrive_whole_however_they_are_cut() {
        let body = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    7\r\nevent: \r\n4;x=y\r\na\n\nb\r\n2\r\nc\n\r\n0\r\n\r\n";
        let expected = ["event: a", "", "bc"].map(|line| SseLine::Text(line.to_owned()));
        for size in [1, 2, 3, 7, 1_000] {
            let pieces = body.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(lines(answer(pieces).unwrap()), expected, "{size}");
        }
        let plain = b"HTTP/1.1 200 OK\r\n\r\nevent: a\n\nbc\n".to_vec();
        assert_eq!(lines(answer(vec![plain]).unwrap()), expected);
    }

    #[test]
    fn refusals_and_nonsense_are_errors() {
        let json = r#"{"error":{"code":"past_window","message":"gone","start_from":7}}"#;
        let length = json.len();
        let head = format!("HTTP/1.1 410 Gone\r\nContent-Length: {length}\r\n\r\n{json}");
        let refused = answer(vec![head.into_bytes()]).unwrap_err();
        let SseError::Refused { status, message, start_from } = refused else { panic!() };
        assert_eq!((status, message.as_str(), start_from), (410, "gone", Some(7)));
        for nonsense in ["", "hello\r\n\r\n", "HTTP/1.1"] {
            assert!(matches!(answer(vec![nonsense.into()]), Err(SseError::Io(_))), "{nonsense}");
        }
        let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".to_vec();
        assert!(answer(vec![chunk]).unwrap().next_line(None).is_err());
    }
}
