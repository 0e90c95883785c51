//! Counts what calls take in memory: their messages as they arrive, and their answers until they have
//! gone.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tonic::{Status, body::Body, codegen::http};
use tower::{Layer, Service};

use crate::{
    held::Held,
    kinds::Codes,
    memory::{self, Budget, OverBudget, Share},
};

/// How a client learns that there was no memory for its request.
pub(super) fn refused(over: OverBudget) -> Status {
    Status::new(Codes::of(over.kind()).grpc, format!("{over}; nothing was changed"))
}

/// Puts [`Remembered`] around a service.
#[derive(Debug, Clone)]
pub(super) struct MemoryLayer(pub(super) Budget);

impl<S> Layer<S> for MemoryLayer {
    type Service = Remembered<S>;

    fn layer(&self, inner: S) -> Remembered<S> {
        Remembered { inner, budget: self.0.clone() }
    }
}

/// A service whose calls share a budget.
#[derive(Debug, Clone)]
pub(super) struct Remembered<S> {
    inner: S,
    budget: Budget,
}

impl<S> Service<http::Request<Body>> for Remembered<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let share = self.budget.share();
        let counted = Arc::clone(&share);
        let request = request.map(|body| Body::new(Counted { body, share: counted }));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = memory::within(Arc::clone(&share), answer).await?;
            Ok(response.map(|body| Body::new(Held::new(body, share))))
        })
    }
}

/// The body of a request, counted as it arrives.
#[derive(Debug)]
struct Counted {
    body: Body,
    share: Arc<Share>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)).transpose()? else {
            return Poll::Ready(None);
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.share.take(bytes).map_err(refused)?;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
