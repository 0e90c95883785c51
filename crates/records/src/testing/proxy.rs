//! A connection to a server that can be made to lose answers, or to keep requests for a while.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a connection stays open behind the last bytes that passed.
const LINGER: Duration = Duration::from_secs(2);

/// What becomes of what passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ProxyFault {
    /// Everything arrives.
    None = 0,
    /// Requests arrive; each connection ends in place of its next answer.
    AnswersLost = 1,
    /// Requests wait, however long their sender does, and arrive when the fault ends.
    RequestsHeld = 2,
}

/// A place on loopback that stands for a server.
#[derive(Debug)]
pub struct FaultProxy {
    address: String,
    fault: Arc<AtomicU8>,
    lost: Arc<AtomicU64>,
}

impl FaultProxy {
    /// Stands for the server at `target` (`host:port`) as long as the process runs.
    pub fn start(target: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let (fault, lost) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU64::new(0)));
        let (target, set, count) = (target.to_owned(), Arc::clone(&fault), Arc::clone(&lost));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&target) else { continue };
                if pair(&client, &server, &set, &count).is_err() {
                    let _ = client.shutdown(Shutdown::Both);
                }
            }
        });
        Ok(Self { address, fault, lost })
    }

    /// Where it is, as `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on this happens.
    pub fn set(&self, fault: ProxyFault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// Answers that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }
}

fn pair(
    client: &TcpStream,
    server: &TcpStream,
    fault: &Arc<AtomicU8>,
    lost: &Arc<AtomicU64>,
) -> io::Result<()> {
    for stream in [client, server] {
        stream.set_nodelay(true)?;
    }
    let (from, to, set) = (client.try_clone()?, server.try_clone()?, Arc::clone(fault));
    thread::spawn(move || {
        copy(from, &to, || {
            while set.load(Ordering::SeqCst) == ProxyFault::RequestsHeld as u8 {
                thread::sleep(Duration::from_millis(5));
            }
            true
        });
    });
    let (from, to) = (server.try_clone()?, client.try_clone()?);
    let (set, lost) = (Arc::clone(fault), Arc::clone(lost));
    thread::spawn(move || {
        copy(from, &to, || {
            let is_lost = set.load(Ordering::SeqCst) == ProxyFault::AnswersLost as u8;
            lost.fetch_add(u64::from(is_lost), Ordering::SeqCst);
            !is_lost
        });
    });
    Ok(())
}

/// Copies until either side ends, or `may_pass` says no. What was read from a client that has gone by
/// then is written all the same.
fn copy(mut from: TcpStream, mut to: &TcpStream, mut may_pass: impl FnMut() -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !may_pass() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    // The other side reads what is still on its way. A server that sees the end of a connection at the
    // same time drops what came before it.
    thread::sleep(LINGER);
    let _ = to.shutdown(Shutdown::Write);
}
