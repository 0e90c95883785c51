//! A Bitcoin Core node as a source that can be followed.

use std::time::Duration;

use utxokeep_core::ChainPoint;

use super::{BitcoindError, BitcoindOptions, connection};
use crate::live::{Contact, Feed, LiveConnection, LiveError, LiveEvent, LiveSource, Outbox};

/// A Bitcoin Core node that can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitcoinNode {
    options: BitcoindOptions,
}

impl BitcoinNode {
    /// Connects to nothing yet.
    #[must_use]
    pub const fn new(options: BitcoindOptions) -> Self {
        Self { options }
    }
}

impl LiveSource for BitcoinNode {
    fn address(&self) -> String {
        self.options.url.to_string()
    }

    fn connect(
        &self,
        points: &[ChainPoint],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LiveConnection>, LiveError> {
        let (options, asked) = (self.options.clone(), points.to_vec());
        let work = async move |outbox: Outbox| connection::follow(&options, &asked, &outbox).await;
        let feed = Feed::open("bitcoind", self.options.queue, is_stopped, work);
        match feed.map_err(closed) {
            Ok(feed) => Ok(Box::new(Connected(feed))),
            Err(error) if is_behind(&error, points) => Err(LiveError::Behind(error.into())),
            Err(error) => Err(error.into()),
        }
    }
}

/// A connection that follows.
#[derive(Debug)]
struct Connected(Feed<BitcoindError>);

impl LiveConnection for Connected {
    fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, LiveError> {
        Ok(self.0.next(wait).map_err(closed)?)
    }

    fn contact(&self) -> Contact {
        self.0.contact()
    }
}

fn closed(failure: Option<BitcoindError>) -> BitcoindError {
    failure.unwrap_or(BitcoindError::Closed)
}

/// Whether the node's chain ends below the newest of the points.
fn is_behind(error: &BitcoindError, points: &[ChainPoint]) -> bool {
    let BitcoindError::NoIntersection { height } = error else { return false };
    points.first().is_some_and(|newest| *height < u64::from(newest.height.get()))
}
