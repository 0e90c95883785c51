//! A connection that was let in, and gives its place back when it ends.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// What every client of HTTP/2 sends first.
const PREFACE_BYTES: usize = 24;

/// A connection that was let in.
#[derive(Debug)]
pub struct Admitted {
    stream: TcpStream,
    /// Its place; free again when it ends.
    _place: OwnedSemaphorePermit,
    opening: Option<Opening>,
    /// How long the client may take nothing of its answer.
    idle_max: Duration,
    /// Runs while it takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// A client that has not said yet that it speaks HTTP/2.
#[derive(Debug)]
struct Opening {
    bytes_missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Admitted {
    pub(super) const fn new(
        stream: TcpStream,
        place: OwnedSemaphorePermit,
        idle_max: Duration,
    ) -> Self {
        Self { stream, _place: place, opening: None, idle_max, stalled: None }
    }

    /// Ends the connection of a client that has taken nothing of its answer for too long.
    fn unless_stalled(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let idle_max = self.idle_max;
        let deadline = self.stalled.get_or_insert_with(|| Box::pin(sleep(idle_max)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ends the connection unless the client has said within this time that it speaks HTTP/2. Later
    /// on pings find out whether it is there.
    pub(crate) fn with_preface_within(mut self, idle_max: Duration) -> Self {
        let deadline = Box::pin(sleep(idle_max));
        self.opening = Some(Opening { bytes_missing: PREFACE_BYTES, deadline });
        self
    }
}

impl AsyncRead for Admitted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(opening) = &mut self.opening else { return read };
        match read {
            Poll::Pending => match opening.deadline.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(read) => {
                let bytes = buffer.filled().len() - before;
                opening.bytes_missing = opening.bytes_missing.saturating_sub(bytes);
                if opening.bytes_missing == 0 {
                    self.opening = None;
                }
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for Admitted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for Admitted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}
