//! Asks calls for the token of the server, and puts it into calls of our own.

use tonic::{Request, Status, metadata::AsciiMetadataValue, service::Interceptor};

use crate::access::Token;

const AUTHORIZATION: &str = "authorization";

/// Lets calls through that carry the token, or all where there is none.
#[derive(Debug, Clone)]
pub(super) struct TokenGuard(pub(super) Option<Token>);

impl Interceptor for TokenGuard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = &self.0 else { return Ok(request) };
        let mut sent = request.metadata().get_all(AUTHORIZATION).iter();
        match (sent.next(), sent.next()) {
            (Some(sent), None) if token.is_sent_in(sent.as_bytes()) => Ok(request),
            (None, _) => Err(Status::unauthenticated(
                "a token is needed: send the one in the server's token file as metadata \
                 \"authorization: Bearer TOKEN\"; nothing was done",
            )),
            _ => Err(Status::unauthenticated(
                "the token is not the one in the server's token file; nothing was done",
            )),
        }
    }
}

/// Puts a token into every call.
#[derive(Debug, Clone)]
pub(crate) struct TokenSender(Option<AsciiMetadataValue>);

impl TokenSender {
    pub(crate) fn new(token: Option<&Token>) -> Self {
        // A token holds only what may stand in a header.
        Self(token.and_then(|token| token.header().parse().ok()))
    }
}

impl Interceptor for TokenSender {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert(AUTHORIZATION, token.clone());
        }
        Ok(request)
    }
}
