//! One HTTP request to a receiver: no redirect is followed, no body of an answer is read, and the
//! whole of it has one time limit.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName},
};

use super::{
    SIGNATURE, sign,
    target::{BadTarget, Target, check_address},
};

/// The most that the head of an answer may take.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Why a receiver did not acknowledge a delivery.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Target(#[from] BadTarget),
    #[error("the host cannot be found: {0}")]
    Lookup(#[source] io::Error),
    #[error("the receiver cannot be reached: {0}")]
    Connect(#[source] io::Error),
    #[error("the receiver does not speak HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("the receiver answered {0}, and redirects are not followed")]
    Redirect(StatusCode),
    #[error("the receiver answered {0}")]
    Refused(StatusCode),
    #[error("the receiver took longer than {0:?}")]
    TooSlow(Duration),
    #[error("the request cannot be made: {0}")]
    Request(#[from] hyper::http::Error),
}

/// What is sent.
pub(super) struct Message<'m> {
    pub(super) url: &'m str,
    pub(super) secret: &'m str,
    pub(super) time_secs: i64,
    pub(super) body: Vec<u8>,
}

/// Sends messages; clones share the certificates.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) timeout: Duration,
    pub(super) allows_private: bool,
    tls: TlsConnector,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Sender {
    /// Trusts the certificates of this machine.
    pub(super) fn new(timeout: Duration, allows_private: bool) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        // Those that cannot be read sign nothing; a receiver that needs one of them is refused.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { timeout, allows_private, tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Sends a message; fine when the receiver answers with a status of 200 to 299.
    pub(super) async fn send(&self, message: Message<'_>) -> Result<StatusCode, SendError> {
        let sent = tokio::time::timeout(self.timeout, self.send_in_time(message)).await;
        sent.map_err(|_| SendError::TooSlow(self.timeout))?
    }

    async fn send_in_time(&self, message: Message<'_>) -> Result<StatusCode, SendError> {
        let target = Target::parse(message.url)?;
        let address = self.address(&target).await?;
        let stream = TcpStream::connect(address).await.map_err(SendError::Connect)?;
        let request = request(&target, message)?;
        let status = if target.is_tls {
            let name = ServerName::try_from(target.host.clone())
                .map_err(|error| SendError::Connect(io::Error::other(error)))?;
            let stream = self.tls.connect(name, stream).await.map_err(SendError::Connect)?;
            exchange(stream, request).await?
        } else {
            exchange(stream, request).await?
        };
        match status {
            status if status.is_success() => Ok(status),
            status if status.is_redirection() => Err(SendError::Redirect(status)),
            status => Err(SendError::Refused(status)),
        }
    }

    /// Looks the host up. Every address must be allowed, so that none is called by chance.
    async fn address(&self, target: &Target) -> Result<SocketAddr, SendError> {
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let found: Vec<SocketAddr> = found.map_err(SendError::Lookup)?.collect();
        for address in &found {
            check_address(address.ip(), self.allows_private)?;
        }
        let nowhere = || SendError::Lookup(io::Error::other("the name has no address"));
        found.first().copied().ok_or_else(nowhere)
    }
}

fn request(target: &Target, message: Message<'_>) -> Result<Request<Full<Bytes>>, SendError> {
    let signature = sign::signature(message.secret, message.time_secs, &message.body);
    Ok(Request::post(target.path.as_str())
        .header(header::HOST, target.authority.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("utxokeep/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .header(SIGNATURE, signature)
        .body(Full::new(Bytes::from(message.body)))?)
}

/// Ends a task when nobody needs it any more.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(ANSWER_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // The answer's status is all that is wanted: with it, the connection goes.
    let _connection = Ends(tokio::spawn(connection).abort_handle());
    Ok(sender.send_request(request).await?.status())
}
