//! HTTP/1.1 to one host: one request at a time for each connection, with a limit on bytes and time.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};

use super::{BitcoindError, BitcoindUrl, access::Authorization};

/// Read at once; also the longest head of an answer.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// One connection. It does not recover: after a failure every request fails.
#[derive(Debug)]
pub(super) struct Connection {
    url: BitcoindUrl,
    limit: Duration,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Question<'q> {
    /// Path and query.
    pub(super) path: &'q str,
    /// Sent by POST, with the credentials; without one it is a GET.
    pub(super) call: Option<(&'q Authorization, Bytes)>,
    /// For people: what is being waited for.
    pub(super) what: &'static str,
    /// How long the node may take beyond the usual.
    pub(super) patience: Duration,
    /// The longest body.
    pub(super) bytes_max: usize,
}

/// An answer of any status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub(super) async fn open(url: &BitcoindUrl, limit: Duration) -> Result<Self, BitcoindError> {
        let connect = async {
            let failed = |source| BitcoindError::Connect { url: url.to_string(), source };
            let stream = TcpStream::connect(url.authority()).await.map_err(failed)?;
            // Small questions must not wait for each other.
            stream.set_nodelay(true).map_err(failed)?;
            let mut client = http1::Builder::new();
            client.max_buf_size(BUFFER_BYTES_MAX);
            client.handshake(TokioIo::new(stream)).await.map_err(|error| lost(url, error))
        };
        let (sender, driver) =
            timeout(limit, connect).await.map_err(|_| missed("the connection", limit))??;
        // Its error reaches the request that meets it.
        let driver = tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(Self { url: url.clone(), limit, sender, driver })
    }

    /// Whether the node has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Asks and takes the whole answer.
    pub(super) async fn ask(&mut self, question: &Question<'_>) -> Result<Answer, BitcoindError> {
        let limit = self.limit.saturating_add(question.patience);
        if let Ok(answer) = timeout(limit, self.exchange(question)).await {
            return answer;
        }
        // Half an answer may still come: nothing can be asked here any more.
        self.driver.abort();
        Err(missed(question.what, limit))
    }

    async fn exchange(&mut self, question: &Question<'_>) -> Result<Answer, BitcoindError> {
        let mut request = Request::builder().uri(question.path).header(HOST, self.url.authority());
        let body = match &question.call {
            Some((authorization, body)) => {
                request = request
                    .method(Method::POST)
                    .header(AUTHORIZATION, authorization.as_str())
                    .header(CONTENT_TYPE, "application/json");
                Full::new(body.clone())
            }
            None => Full::default(),
        };
        let request = request.body(body).map_err(|error| lost(&self.url, error))?;
        self.sender.ready().await.map_err(|error| lost(&self.url, error))?;
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|error| lost(&self.url, error))?;
        let status = answer.status();
        let body = self.body(answer.into_body(), question).await?;
        Ok(Answer { status, body })
    }

    async fn body(
        &self,
        body: Incoming,
        question: &Question<'_>,
    ) -> Result<Vec<u8>, BitcoindError> {
        match Limited::new(body, question.bytes_max).collect().await {
            Ok(body) => Ok(body.to_bytes().into()),
            Err(error) if error.is::<LengthLimitError>() => {
                // What is left of it is never read.
                self.driver.abort();
                let what = format!("more than {} bytes as {}", question.bytes_max, question.what);
                Err(BitcoindError::Wrong { url: self.url.to_string(), what })
            }
            Err(source) => Err(BitcoindError::Lost { url: self.url.to_string(), source }),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn lost(
    url: &BitcoindUrl,
    source: impl std::error::Error + Send + Sync + 'static,
) -> BitcoindError {
    BitcoindError::Lost { url: url.to_string(), source: Box::new(source) }
}

fn missed(waiting_for: &'static str, limit: Duration) -> BitcoindError {
    let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    BitcoindError::Timeout { waiting_for, timeout_ms }
}

/// A connection that is opened when it is needed. A node closes one that was idle for half a minute,
/// so a question that meets a closed one is asked once more.
#[derive(Debug)]
pub(super) struct Client {
    url: BitcoindUrl,
    limit: Duration,
    connection: Option<Connection>,
}

impl Client {
    pub(super) const fn new(url: BitcoindUrl, limit: Duration) -> Self {
        Self { url, limit, connection: None }
    }

    pub(super) const fn url(&self) -> &BitcoindUrl {
        &self.url
    }

    /// Asks; every question here may be asked twice without harm.
    pub(super) async fn ask(&mut self, question: &Question<'_>) -> Result<Answer, BitcoindError> {
        if let Some(mut open) = self.connection.take().filter(|open| !open.is_closed()) {
            match open.ask(question).await {
                Err(BitcoindError::Lost { .. }) => {}
                answer => {
                    self.connection = answer.is_ok().then_some(open);
                    return answer;
                }
            }
        }
        let mut fresh = Connection::open(&self.url, self.limit).await?;
        let answer = fresh.ask(question).await;
        self.connection = answer.is_ok().then_some(fresh);
        answer
    }
}
