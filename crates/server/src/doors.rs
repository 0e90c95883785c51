//! Connections of clients: how many there may be, and how long one may say nothing.
//!
//! Every connection takes a file descriptor, and so do the files of the databases. A database that
//! gets none takes no more writes; so connections are counted, and have to wait before that.

pub(crate) mod descriptors;
mod stream;

use std::{io, num::NonZeroU32, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};

pub use self::stream::Admitted;
use crate::memory::Budget;

/// How long to wait when the system has no descriptor for a connection.
const NO_DESCRIPTOR_WAIT: Duration = Duration::from_secs(1);

/// What a server allows its clients.
#[derive(Debug, Clone)]
pub struct Doors {
    /// Connections at the same time; further ones wait until one is closed.
    pub connections_max: usize,
    /// How long a connection may be open without a whole head of a request, or take nothing of its
    /// answer.
    pub idle_max: Duration,
    /// Memory that requests share, with those of other servers if it is theirs.
    pub memory: Budget,
}

impl Doors {
    /// From settings.
    #[must_use]
    pub fn new(connections_max: NonZeroU32, idle_secs_max: NonZeroU32) -> Self {
        let connections_max = usize::try_from(connections_max.get()).unwrap_or(usize::MAX);
        Self {
            connections_max: connections_max.min(Semaphore::MAX_PERMITS),
            idle_max: Duration::from_secs(idle_secs_max.get().into()),
            memory: Budget::default(),
        }
    }
}

/// A socket that lets in as many connections as allowed.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle_max: Duration,
}

impl Door {
    pub(crate) fn new(listener: TcpListener, doors: &Doors) -> Self {
        let places = Arc::new(Semaphore::new(doors.connections_max));
        Self { listener, places, idle_max: doors.idle_max }
    }

    /// The next connection, as soon as there is a place for it. One that failed before it was let
    /// in concerns nobody else.
    pub(crate) async fn admit(&self) -> Admitted {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            // The semaphore is never closed.
            let Ok(place) = place else { return std::future::pending().await };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    send_at_once(&stream);
                    return Admitted::new(stream, place, self.idle_max);
                }
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot let a client in");
                    time::sleep(NO_DESCRIPTOR_WAIT).await;
                }
            }
        }
    }
}

fn send_at_once(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot send small answers at once");
    }
}

fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
