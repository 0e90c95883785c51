//! Who may use the servers: the token of this server, and pages that a browser shows.
//!
//! # Invariants
//!
//! * Whether a request is let in is decided before its body is read.
//! * Beyond the loopback address nothing but health, metrics and the description of the API is
//!   answered without a token, unless a setting says so by name.
//! * The token is never logged, shown or compared byte by byte.

mod pages;
mod token;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use utxokeep_core::ErrorKind;

use crate::config::{Config, ServerConfig};

pub use pages::Pages;
pub(crate) use pages::{Verdict, Visit};
pub use token::{Token, TokenError};

/// File of the token in the data directory, unless `[server] token_file` names another.
pub const TOKEN_FILE: &str = "access-token";

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Anybody on the network could change everything.
    #[error(
        "{face} would listen on {listen}, where other machines reach it, without asking for a token: \
         set [server] {setting} = true, listen on 127.0.0.1, or set [server] \
         unsafe_no_token_beyond_loopback = true where something else keeps strangers out"
    )]
    Open {
        /// REST or gRPC.
        face: &'static str,
        /// The address.
        listen: SocketAddr,
        /// The setting that would help.
        setting: &'static str,
    },
    /// There is no token to compare with.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl AccessError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Token(error) => error.kind(),
            Self::Open { .. } => ErrorKind::Invalid,
        }
    }
}

/// What a REST server asks of a request.
#[derive(Debug, Clone, Default)]
pub struct RestAccess {
    /// What wallet routes and writes ask for; without one they ask for nothing.
    pub token: Option<Token>,
    /// Whether reads of the chain ask for it as well.
    pub closes_reads: bool,
    /// What browsers may show.
    pub pages: Pages,
}

/// What both servers of a program ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) rest: RestAccess,
    pub(crate) grpc: Option<Token>,
    /// The file of the token, where most clients are asked for it.
    pub(crate) token_file: Option<PathBuf>,
}

/// Where the servers of a program listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faces {
    pub(crate) rest: SocketAddr,
    /// Whether REST has routes of wallets, all of which ask for the token.
    pub(crate) has_wallets: bool,
    /// Whether REST has other routes that write: consumers of the change stream.
    pub(crate) has_consumers: bool,
    pub(crate) grpc: Option<SocketAddr>,
}

impl Access {
    /// What is asked of requests to a program with these faces; the token's file is created when it
    /// is needed and does not exist.
    pub(crate) fn prepare(config: &Config, data: &Path, faces: Faces) -> Result<Self, AccessError> {
        let server = &config.server;
        check_open("REST", faces.rest, "rest_token_required", server.rest_token_required, server)?;
        if let Some(grpc) = faces.grpc {
            check_open("gRPC", grpc, "grpc_token_required", server.grpc_token_required, server)?;
        }
        let closes_reads = !is_loopback(faces.rest.ip()) && !server.public_chain_reads;
        let for_most = server.rest_token_required && (faces.has_wallets || closes_reads);
        let for_rest = for_most || (server.rest_token_required && faces.has_consumers);
        let for_grpc = server.grpc_token_required && faces.grpc.is_some();
        let token_file = (for_rest || for_grpc).then(|| token_file(server, data));
        let token = match &token_file {
            Some(file) if server.token_file.as_os_str().is_empty() => {
                Some(Token::load_or_create(file)?)
            }
            Some(file) => Some(Token::load(file)?),
            None => None,
        };
        let rest = RestAccess {
            token: token.clone().filter(|_| for_rest),
            closes_reads: closes_reads && for_rest,
            pages: Pages::new(&server.hosts, &server.cors_origins),
        };
        let token_file = token_file.filter(|_| for_most || for_grpc);
        Ok(Self { rest, grpc: token.filter(|_| for_grpc), token_file })
    }
}

/// The token that a client on this machine sends to a server at an address. The one in the data
/// directory goes to the loopback address alone: elsewhere somebody else may listen.
pub(crate) fn token_for(
    config: &Config,
    data: &Path,
    is_loopback: bool,
) -> Result<Option<Token>, TokenError> {
    let file = token_file(&config.server, data);
    if config.server.token_file.as_os_str().is_empty() && !(is_loopback && file.exists()) {
        return Ok(None);
    }
    Token::load(&file).map(Some)
}

fn token_file(server: &ServerConfig, data: &Path) -> PathBuf {
    if server.token_file.as_os_str().is_empty() {
        data.join(TOKEN_FILE)
    } else {
        server.token_file.clone()
    }
}

fn check_open(
    face: &'static str,
    listen: SocketAddr,
    setting: &'static str,
    asks: bool,
    server: &ServerConfig,
) -> Result<(), AccessError> {
    if asks || is_loopback(listen.ip()) || server.unsafe_no_token_beyond_loopback {
        return Ok(());
    }
    Err(AccessError::Open { face, listen, setting })
}

/// Whether only this machine reaches an address.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
