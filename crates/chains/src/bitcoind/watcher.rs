//! Waits for the node's tip to change, over a connection of its own. The connection to the node
//! stands exactly as long as this one does.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::sleep};
use tracing::debug;

use super::{
    BitcoindError, BitcoindUrl,
    access::Authorization,
    http::Connection,
    rpc::{ChainInfo, Tip},
};
use crate::live::Heard;

/// How long the node is asked to wait. Well below the half minute after which it closes idle
/// connections, and how long a thread of the node may stay busy after we are gone.
const WAIT: Duration = Duration::from_secs(5);

/// A node that answers at once though nothing has changed is not asked more often than this.
const PAUSE_MIN: Duration = Duration::from_millis(100);

pub(super) struct Watcher {
    pub(super) url: BitcoindUrl,
    pub(super) authorization: Authorization,
    pub(super) connection: Connection,
    pub(super) heard: Arc<Heard>,
    /// Told of each change.
    pub(super) changed: Arc<Notify>,
    /// Hash of the tip as the node last said.
    pub(super) known: String,
    /// Whether the node can be asked to wait.
    pub(super) wakes: bool,
    pub(super) poll_interval: Duration,
}

impl Watcher {
    /// Runs until the connection fails.
    pub(super) async fn run(mut self) -> Result<Infallible, BitcoindError> {
        loop {
            let asked = Instant::now();
            let tip = self.next_tip().await?;
            self.heard.tip(tip.height);
            if tip.hash != self.known {
                self.known = tip.hash;
                self.changed.notify_one();
            } else if asked.elapsed() < PAUSE_MIN {
                sleep(PAUSE_MIN).await;
            }
        }
    }

    async fn next_tip(&mut self) -> Result<Tip, BitcoindError> {
        if self.wakes {
            let call = Tip::wait(&self.known, WAIT);
            match call.ask(&mut self.connection, &self.url, &self.authorization).await {
                Err(BitcoindError::Forbidden { method }) => {
                    debug!(method, "the node does not wake us: it is polled");
                    self.wakes = false;
                }
                answer => return answer,
            }
        }
        sleep(self.poll_interval).await;
        let info: ChainInfo =
            ChainInfo::CALL.ask(&mut self.connection, &self.url, &self.authorization).await?;
        Ok(Tip { hash: info.bestblockhash, height: info.blocks })
    }
}
