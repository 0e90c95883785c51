//! TLS to a `PostgreSQL` server: the handshake, and why it was refused.

use crate::error::SqlError;
use crate::url::Trust;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};

/// Makes connections that trust one kind of certificate.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Reads the certificates that are trusted; they are not read again later.
    pub(crate) fn new(trust: &Trust) -> Result<Self, SqlError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = match trust {
            Trust::Anybody => None,
            Trust::SignedBy(file) | Trust::Named(Some(file)) => {
                Some(Authorities::new(in_file(file)?, &provider)?)
            }
            Trust::Named(None) => Some(Authorities::new(of_machine()?, &provider)?),
        };
        let verifier = Verifier {
            authorities,
            looks_at_name: matches!(trust, Trust::Named(_)),
            provider: Arc::clone(&provider),
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| SqlError::config(format!("TLS cannot be used: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // Needed for sslnegotiation=direct; other servers do not look at it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn in_file(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        SqlError::config(format!(
            "sslrootcert {} cannot be read as certificates in PEM form: {error}",
            file.display()
        ))
    };
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(&error))?;
    if found.is_empty() { Err(unreadable(&"there is none in it")) } else { Ok(found) }
}

fn of_machine() -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(SqlError::config(
            "this machine trusts no certificate authority: install its ca-certificates, or name \
             one with sslrootcert=FILE",
        ));
    }
    Ok(found)
}

/// Who may sign for a server.
#[derive(Debug)]
struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Authorities {
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SqlError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::clone(provider);
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|error| {
            SqlError::config(format!("the certificates of sslrootcert cannot be used: {error}"))
        })?;
        Ok(Self { certificates, verifier })
    }
}

#[derive(Debug)]
struct Verifier {
    /// None: every certificate is taken.
    authorities: Option<Authorities>,
    looks_at_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(known) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        let verdict = known.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // The name is looked at last, so that everything else is in order.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.looks_at_name => Ok(ServerCertVerified::assertion()),
            // Made as the manual of PostgreSQL says, a certificate signs itself and is its own
            // authority, which is refused where it is not the very one that the user named.
            Err(TlsError::InvalidCertificate(reason))
                if is_authority_as_server(&reason) && known.certificates.contains(end_entity) =>
            {
                if self.looks_at_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate of an authority is shown as that of a server. Dates are looked at before.
fn is_authority_as_server(reason: &CertificateError) -> bool {
    // The type of this error belongs to a crate behind the TLS library; its text is compared.
    matches!(reason, CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity")
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = Failed;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Failed> {
        // Over a Unix socket there is no name, and never a handshake.
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// A handshake with one host.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, Failed>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| {
                Failed(io::Error::other("the host in the URL is no name that TLS can check"))
            })?;
            self.connector.connect(name, socket).await.map(Encrypted).map_err(Failed)
        })
    }
}

/// A handshake that failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failed(#[source] io::Error);

/// Why a server is not trusted and what to do, if that is why it could not be connected to.
pub(crate) fn refusal(failure: &tokio_postgres::Error) -> Option<String> {
    let source = std::error::Error::source(failure)?;
    if let Some(Failed(failed)) = source.downcast_ref::<Failed>() {
        let reason = failed.get_ref()?;
        return Some(reason.downcast_ref::<TlsError>().map_or_else(|| reason.to_string(), explain));
    }
    // The driver has no type of its own for it.
    (source.to_string() == "server does not support TLS").then(|| {
        "it offers no TLS, and sslmode asks for it: set ssl = on in its postgresql.conf, or write \
         sslmode=prefer where the network is private (a Unix socket has no TLS)"
            .to_owned()
    })
}

fn explain(error: &TlsError) -> String {
    match error {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is signed by an authority that is not trusted: name the file with \
             the authority's certificate by sslrootcert=FILE"
                .to_owned()
        }
        TlsError::InvalidCertificate(
            reason @ (CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }),
        ) => format!(
            "its certificate is for another name ({reason}): write the host in the URL as in the \
             certificate, or give the server a certificate for this host; sslmode=verify-ca does \
             not look at the name"
        ),
        TlsError::InvalidCertificate(reason) => {
            format!("its certificate cannot be trusted: {reason}")
        }
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// An encrypted connection.
pub(crate) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        certificate
            .and_then(|certificate| end_point(certificate))
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// The hash of a certificate that binds a login to the connection (RFC 5929), made with the
/// algorithm of its signature; none where that has no single one.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_ID: u8 = 0x06;
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (_, after_body) = element(whole, SEQUENCE)?;
    let (algorithm, _) = element(after_body, SEQUENCE)?;
    let (id, _) = element(algorithm, OBJECT_ID)?;
    match id {
        // MD5 and SHA-1 are replaced by SHA-256, as the RFC says.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4 | 5 | 11]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1] => Some(Sha256::digest(certificate).to_vec()),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3] => Some(Sha384::digest(certificate).to_vec()),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4] => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The content of the DER element with this tag that `bytes` starts with, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
