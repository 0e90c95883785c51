//! A connection for tests, which says what it is told and nothing more.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireReply {
    /// Nothing.
    Nil,
    /// A number.
    Number(i64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// Several.
    List(Vec<WireReply>),
    /// What the server said.
    Error(String),
}

impl WireReply {
    /// Text of an answer, empty where it has none.
    pub fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Error(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Nil | Self::List(_) => String::new(),
        }
    }
}

/// A blocking connection to one server.
#[derive(Debug)]
pub struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let limit = Duration::from_secs(2);
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its answer.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<WireReply> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<WireReply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let broken = || io::Error::other(format!("not an answer: {line:?}"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(broken)?;
        let number = || rest.parse::<i64>().map_err(|_| broken());
        Ok(match kind {
            "+" => WireReply::Bytes(rest.as_bytes().to_vec()),
            "-" => WireReply::Error(rest.to_owned()),
            ":" => WireReply::Number(number()?),
            "$" | "*" if number()? < 0 => WireReply::Nil,
            "$" => {
                let length = usize::try_from(number()?).map_err(|_| broken())?;
                let mut bytes = vec![0; length + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(length);
                WireReply::Bytes(bytes)
            }
            "*" => {
                let list = (0..number()?).map(|_| self.reply()).collect::<io::Result<_>>()?;
                WireReply::List(list)
            }
            _ => return Err(broken()),
        })
    }
}
