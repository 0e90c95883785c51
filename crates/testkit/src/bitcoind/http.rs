//! As much of HTTP as a node and its clients need: one message with a length.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// One request or answer.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// First line and headers, with the blank line.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// Reads one; `None` at the end of the connection.
    pub(super) fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 8 << 10];
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut buffer)? {
                0 if bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => bytes.extend(&buffer[..count]),
            }
        };
        let mut body = bytes.split_off(end);
        let head = String::from_utf8_lossy(&bytes).into_owned();
        let length = length_of(&head);
        while body.len() < length {
            match stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => body.extend(&buffer[..count]),
            }
        }
        Ok(Some(Self { head, body }))
    }

    /// Writes it, with the length that it has.
    pub(super) fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        let is_length = |line: &&str| line.to_ascii_lowercase().starts_with("content-length:");
        let mut bytes = Vec::with_capacity(self.body.len() + 256);
        for line in self.head.trim_end().lines().filter(|line| !is_length(line)) {
            bytes.extend(line.as_bytes());
            bytes.extend(b"\r\n");
        }
        bytes.extend(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
        bytes.extend(&self.body);
        stream.write_all(&bytes)
    }

    /// The path of a request.
    pub(super) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

fn length_of(head: &str) -> usize {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Posts a call to the node; answers the body, whatever the status.
pub(super) fn post(port: u16, credentials: &str, body: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let secret = base64(credentials.as_bytes());
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {secret}\r\nConnection: close\r\n\r\n"
    );
    Message { head, body: body.as_bytes().to_vec() }.write(&mut stream)?;
    let answer = Message::read(&mut stream)?;
    answer.map(|answer| answer.body).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}
