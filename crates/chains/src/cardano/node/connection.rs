//! A connection to a node, from connecting to its end.

use std::{io, path::Path, time::Duration};

use pallas_network::multiplexer::Bearer;
use tracing::debug;

use super::{
    NodeAddress, NodeError, NodeOptions, NodePoint, local::Local, peer::Peer, wire::AnswerLimit,
};
use crate::live::{Contact, Feed, LiveEvent, Outbox};

/// A connection to a node. Dropping it closes the connection and ends its thread.
#[derive(Debug)]
pub struct NodeConnection(Feed<NodeError>);

impl NodeConnection {
    /// Connects, shakes hands and finds the newest of `points` (newest first) that the node has
    /// on its chain. Without points the chain is followed from the origin.
    pub fn open(options: NodeOptions, points: &[NodePoint]) -> Result<Self, NodeError> {
        Self::open_unless(&|| false, options, points)
    }

    /// The same, but a node that is silent is not waited for once `is_stopped` says so.
    pub fn open_unless(
        is_stopped: &dyn Fn() -> bool,
        options: NodeOptions,
        points: &[NodePoint],
    ) -> Result<Self, NodeError> {
        let points = points.to_vec();
        let limits = options.queue;
        let work = async move |outbox: Outbox| follow(&options, &points, &outbox).await;
        Feed::open("cardano-node", limits, is_stopped, work).map(Self).map_err(closed)
    }

    /// The next event; `None` when nothing came within `wait`.
    ///
    /// After a failure the events before it come first, then the failure once, then
    /// [`NodeError::Closed`].
    pub fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, NodeError> {
        self.0.next(wait).map_err(closed)
    }

    /// How many messages the node has sent, and how high its chain is, as it last said.
    #[must_use]
    pub fn contact(&self) -> Contact {
        self.0.contact()
    }
}

fn closed(failure: Option<NodeError>) -> NodeError {
    failure.unwrap_or(NodeError::Closed)
}

async fn follow(
    options: &NodeOptions,
    points: &[NodePoint],
    outbox: &Outbox,
) -> Result<(), NodeError> {
    let limit = AnswerLimit::from_ms(options.answer_timeout_ms);
    let magic = options.network_magic;
    let bearer = connect(&options.address, limit).await?;
    match &options.address {
        NodeAddress::Tcp(_) => {
            let mut peer = Peer::greet(bearer, magic, limit).await?;
            let start = peer.headers.find_intersection(points, limit).await?;
            outbox.heard.tip(peer.headers.tip_height());
            begin(options, start, outbox).await?;
            peer.follow(start, options.fetch_range_blocks_max, limit, outbox).await
        }
        NodeAddress::Socket(_) => {
            let mut local = Local::greet(bearer, magic, limit).await?;
            let start = local.find_intersection(points, limit, &outbox.heard).await?;
            begin(options, start, outbox).await?;
            local.follow(start, limit, outbox).await
        }
    }
}

async fn begin(
    options: &NodeOptions,
    start: Option<NodePoint>,
    outbox: &Outbox,
) -> Result<(), NodeError> {
    debug!(address = %options.address, ?start, "following a node");
    outbox.ready()?;
    outbox.send(LiveEvent::RolledBack(start.as_ref().map(NodePoint::block_hash))).await?;
    Ok(())
}

async fn connect(address: &NodeAddress, limit: AnswerLimit) -> Result<Bearer, NodeError> {
    let connecting = async {
        match address {
            NodeAddress::Tcp(host_and_port) => Bearer::connect_tcp(host_and_port.as_str()).await,
            NodeAddress::Socket(path) => connect_socket(path).await,
        }
        .map_err(|source| NodeError::Connect { address: address.to_string(), source })
    };
    limit.keep("the connection", connecting).await
}

#[cfg(unix)]
async fn connect_socket(path: &Path) -> io::Result<Bearer> {
    Bearer::connect_unix(path).await
}

#[cfg(not(unix))]
async fn connect_socket(_: &Path) -> io::Result<Bearer> {
    Err(io::ErrorKind::Unsupported.into())
}
