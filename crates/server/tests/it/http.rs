//! Plain HTTP for tests: one request, one connection, one answer.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::program::PATIENCE;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The headers, in small letters.
    pub(crate) headers: String,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn parse(answer: &str) -> Self {
        let (headers, text) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
        let status = headers.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = status.parse().unwrap();
        Self { status, headers: headers.to_lowercase(), text: text.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of an answer that must be a good one.
    pub(crate) fn good(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.headers.contains("cache-control: no-store"), "{self:?}");
        self.json()
    }

    /// The error of an answer that must be this one.
    pub(crate) fn bad(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].clone();
        assert_eq!(error["code"], code, "{self:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        error
    }
}

/// A request with more lines in its header, each with its end; `Host` is added unless it is one.
pub(crate) fn request(method: &str, path: &str, lines: &str, body: &str) -> String {
    let host = if lines.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{lines}Content-Length: \
         {length}\r\n\r\n{body}"
    )
}

/// Sends what is given and reads until the server closes the connection.
pub(crate) fn exchange_text(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> Reply {
    Reply::parse(&exchange_text(address, request))
}
