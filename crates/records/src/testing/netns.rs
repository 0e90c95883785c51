//! Network namespaces for the servers of one test: a bridge between them, and routes that are cut.
//!
//! The test itself runs once more, as a process inside a namespace of its own, so that the network of
//! the machine stays as it is.

use std::{
    io,
    net::Ipv4Addr,
    ops::Range,
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{cluster::SERVERS, skip::skipped};

/// Set to make namespaces that cannot be had a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_NETNS";
/// In the process inside: the start of the names of all namespaces.
const INSIDE: &str = "UTXOKEEP_TEST_NETNS";

/// A namespace for each server, joined by a bridge.
#[derive(Debug)]
pub struct Namespaces {
    start: String,
}

/// Deletes the namespaces of a test, whatever became of it.
struct Cleanup(String);

impl Drop for Cleanup {
    fn drop(&mut self) {
        for name in all(&self.0) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// The namespace of the test, and those of its servers.
fn all(start: &str) -> Vec<String> {
    let servers = (0..SERVERS).map(|number| format!("{start}-{number}"));
    [format!("{start}-test")].into_iter().chain(servers).collect()
}

fn ip(words: &[&str]) -> io::Result<Output> {
    let done = Command::new("ip").args(words).output()?;
    if done.status.success() {
        return Ok(done);
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("ip {}: {}", words.join(" "), said.trim())))
}

impl Namespaces {
    /// Runs the test of this name (with its modules) in namespaces. Answers them inside; outside the
    /// test is over with this call. Where namespaces cannot be had (they need root), the test is
    /// skipped and counted, unless `UTXOKEEP_REQUIRE_NETNS` is set.
    #[allow(clippy::missing_panics_doc, reason = "a test that cannot go on fails")]
    pub fn enter_or_skip(test: &str) -> Option<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        if let Ok(start) = std::env::var(INSIDE) {
            let made = Self::connect(start);
            return Some(
                made.unwrap_or_else(|error| panic!("no network for the servers: {error}")),
            );
        }
        // Tests of one process have namespaces of their own, too.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let cleanup = Cleanup(format!("uk{}-{number}", std::process::id()));
        let start = &cleanup.0;
        let made = all(start).iter().try_for_each(|name| ip(&["netns", "add", name]).map(drop));
        if let Err(error) = made {
            skipped("network namespaces", REQUIRE, &error.to_string());
            return None;
        }
        let program = std::env::current_exe().expect("a test has a program");
        let status = Command::new("ip")
            .args(["netns", "exec", &format!("{start}-test")])
            .arg(program)
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, start)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{test} failed in its namespace");
        None
    }

    /// Joins the namespaces by a bridge in that of the test.
    fn connect(start: String) -> io::Result<Self> {
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "add", "servers", "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", Self::host(SERVERS)), "dev", "servers"])?;
        ip(&["link", "set", "servers", "up"])?;
        for number in 0..SERVERS {
            let (name, link) = (format!("{start}-{number}"), format!("server{number}"));
            let peer = ["peer", "name", "net", "netns", &name];
            ip(&[&["link", "add", &link, "type", "veth"], peer.as_slice()].concat())?;
            ip(&["link", "set", &link, "master", "servers", "up"])?;
            let address = format!("{}/24", Self::host(number));
            ip(&["-n", &name, "addr", "add", &address, "dev", "net"])?;
            ip(&["-n", &name, "link", "set", "net", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(Self { start })
    }

    /// Address of a server; the one behind the last is that of the test.
    pub(super) fn host(number: usize) -> Ipv4Addr {
        let last = u8::try_from(number + 1).expect("a few servers");
        Ipv4Addr::new(10, 77, 0, last)
    }

    /// Starts a program in the namespace of a server.
    pub(super) fn command(&self, number: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{number}", self.start)]).arg(program);
        command
    }

    /// Lets a server drop everything that it sends to the other servers, or not.
    pub(super) fn cut(&self, number: usize, is_cut: bool) -> io::Result<()> {
        self.drop_what_goes_to(0..SERVERS, number, is_cut)
    }

    /// The same for what it sends to anybody, the clients included.
    pub(super) fn cut_off(&self, number: usize, is_cut: bool) -> io::Result<()> {
        self.drop_what_goes_to(0..SERVERS + 1, number, is_cut)
    }

    fn drop_what_goes_to(&self, to: Range<usize>, number: usize, is_cut: bool) -> io::Result<()> {
        let (name, what) = (format!("{}-{number}", self.start), if is_cut { "add" } else { "del" });
        for other in to.filter(|other| *other != number) {
            let route = format!("{}/32", Self::host(other));
            ip(&["-n", &name, "route", what, "blackhole", &route])?;
        }
        Ok(())
    }
}
