//! A proxy in front of a node, through which a test cuts connections off and changes answers.

use std::{
    fmt, io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::http::Message;

/// Takes the path of a request and the body of its answer; answers the body to send. An error cuts
/// the connection off.
type Change = Box<dyn FnMut(&str, Vec<u8>) -> Result<Vec<u8>, ()> + Send>;

/// Passes requests on to a node, one after the other on each connection.
pub struct NodeProxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: u16,
    is_ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: Vec<TcpStream>,
    change: Option<Change>,
    requests: Vec<String>,
}

impl fmt::Debug for NodeProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeProxy").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeProxy {
    /// Listens on the loopback interface, in front of the node at `port`.
    #[must_use]
    pub fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let (is_ended, state) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { target: port, is_ended, state });
        let proxy = Self { port: own_port, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _ = serve(client, &shared);
                });
            }
        });
        proxy
    }

    /// URL of the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Cuts all connections off.
    pub fn cut_off(&self) {
        for stream in self.shared.state().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on answers go through `change`.
    pub fn change(
        &self,
        change: impl FnMut(&str, Vec<u8>) -> Result<Vec<u8>, ()> + Send + 'static,
    ) {
        self.shared.state().change = Some(Box::new(change));
    }

    /// From now on answers pass as they are.
    pub fn be_honest(&self) {
        self.shared.state().change = None;
    }

    /// Paths of the requests since the last call.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().requests)
    }
}

impl Drop for NodeProxy {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        self.cut_off();
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut node = TcpStream::connect(("127.0.0.1", shared.target))?;
    client.set_nodelay(true)?;
    node.set_nodelay(true)?;
    shared.state().streams.extend([client.try_clone()?, node.try_clone()?]);
    let outcome = pass_on(&mut client, &mut node, shared);
    let _ = client.shutdown(Shutdown::Both);
    let _ = node.shutdown(Shutdown::Both);
    outcome
}

fn pass_on(client: &mut TcpStream, node: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    while let Some(request) = Message::read(client)? {
        request.write(node)?;
        let Some(mut answer) = Message::read(node)? else { break };
        let mut state = shared.state();
        state.requests.push(request.path().to_owned());
        if let Some(change) = &mut state.change {
            match change(request.path(), answer.body) {
                Ok(body) => answer.body = body,
                Err(()) => break,
            }
        }
        drop(state);
        answer.write(client)?;
    }
    Ok(())
}
