//! A server of buckets that tests start: moto, which `scripts/setup` installs.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::skipped;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one bucket, `blocks`. Dropping it ends it, and what it holds.
#[derive(Debug)]
pub struct Moto {
    child: Child,
    address: SocketAddr,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// Starts one; `None` where it is not installed, which skips the test.
    ///
    /// # Panics
    /// When it is installed and does not answer.
    #[must_use]
    pub fn start_or_skip() -> Option<Self> {
        let installed = std::env::var("UTXOKEEP_MOTO").unwrap_or_else(|_| "moto_server".to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it listens");
        drop(listener);
        let mut command = Command::new(installed);
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = child else {
            skipped("a server of buckets", "UTXOKEEP_REQUIRE_S3", "moto_server is not installed");
            return None;
        };
        let moto = Self { child, address };
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Ok(answer) = make_bucket(address) {
                assert!(answer.contains(" 200 "), "{answer}");
                return Some(moto);
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("moto_server does not answer");
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Variables by which a program finds a bucket at an address.
    #[must_use]
    pub fn environment(address: SocketAddr) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "somebody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "something".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

fn make_bucket(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let ask = format!(
        "PUT /blocks HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
