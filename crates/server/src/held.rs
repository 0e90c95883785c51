//! Bodies of answers, which are counted until they have gone.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::memory::{self, Share};

/// The most of an answer that is handed on at once. The rest stays counted until the client has taken
/// what came before.
const PART_BYTES: usize = 64 << 10;

/// The body of an answer, which holds its share until it has gone.
#[derive(Debug)]
pub(crate) struct Held<B> {
    body: B,
    share: Arc<Share>,
    /// What the body has made and is not handed on.
    rest: Bytes,
}

impl<B> Held<B> {
    pub(crate) const fn new(body: B, share: Arc<Share>) -> Self {
        Self { body, share, rest: Bytes::new() }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Held<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            // The pages of a stream are made one by one, each after the one before has gone.
            let body = Pin::new(&mut this.body);
            let made = memory::within_call(Arc::clone(&this.share), || body.poll_frame(context));
            match ready!(made).transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => this.rest = data,
                Some(Err(frame)) => return Poll::Ready(Some(Ok(frame))),
                None => return Poll::Ready(None),
            }
        }
        let length = this.rest.len().min(PART_BYTES);
        let part = this.rest.split_to(length);
        if this.rest.is_empty() {
            this.share.give_back();
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}
