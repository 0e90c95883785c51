//! A Cardano node as a source that can be followed.

use std::time::Duration;

use utxokeep_core::ChainPoint;

use super::{NodeConnection, NodeError, NodeOptions, NodePoint};
use crate::live::{Contact, LiveConnection, LiveError, LiveEvent, LiveSource};

/// A Cardano node that can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardanoNode {
    options: NodeOptions,
}

impl CardanoNode {
    /// Connects to nothing yet.
    #[must_use]
    pub const fn new(options: NodeOptions) -> Self {
        Self { options }
    }
}

impl LiveSource for CardanoNode {
    fn address(&self) -> String {
        self.options.address.to_string()
    }

    fn connect(
        &self,
        points: &[ChainPoint],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LiveConnection>, LiveError> {
        let asked: Vec<NodePoint> = points.iter().map(NodePoint::from).collect();
        match NodeConnection::open_unless(is_stopped, self.options.clone(), &asked) {
            Ok(connection) => Ok(Box::new(connection)),
            Err(error) if is_behind(&error, points) => Err(LiveError::Behind(error.into())),
            Err(error) => Err(error.into()),
        }
    }
}

impl LiveConnection for NodeConnection {
    fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, LiveError> {
        Ok(Self::next(self, wait)?)
    }

    fn contact(&self) -> Contact {
        Self::contact(self)
    }
}

/// Whether the node's chain ends below the newest of the points.
fn is_behind(error: &NodeError, points: &[ChainPoint]) -> bool {
    let NodeError::NoIntersection { tip } = error else { return false };
    let node = tip.map(|tip| tip.slot);
    points.first().is_some_and(|newest| node < Some(newest.slot))
}

impl From<NodeError> for LiveError {
    fn from(error: NodeError) -> Self {
        if error.is_worth_retrying() {
            Self::Away(error.into())
        } else {
            Self::Refused(error.into())
        }
    }
}
