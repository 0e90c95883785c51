//! A connection to a node: from connecting to its end.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use tracing::debug;
use utxokeep_core::{ChainPoint, Height};

use super::{
    BitcoindError, BitcoindOptions,
    follower::{End, Follower, intersection},
    http::{Client, Connection},
    probe::{Probed, probe},
    watcher::Watcher,
};
use crate::live::{LiveEvent, Outbox};

/// Connects, probes the node, finds the newest of `points` on its chain and follows from there.
pub(super) async fn follow(
    options: &BitcoindOptions,
    points: &[ChainPoint],
    outbox: &Outbox,
) -> Result<(), BitcoindError> {
    let limit = Duration::from_millis(options.answer_timeout_ms);
    let authorization = options.credentials.read()?;
    let mut watch = Connection::open(&options.url, limit).await?;
    let mut client = Client::new(options.url.clone(), limit);
    let Probed { chain, wakes } = probe(options, &mut watch, &mut client, &authorization).await?;
    outbox.heard.tip(chain.blocks);
    let start = intersection(&mut client, options.network, points).await?;
    let start = start.ok_or(BitcoindError::NoIntersection { height: chain.blocks })?;
    let needed = start.height.plus(1);
    if let Some(kept) = chain.pruneheight.filter(|_| chain.pruned)
        && u64::from(needed.get()) < kept
    {
        return Err(BitcoindError::Pruned { wanted: needed, kept: Some(kept) });
    }
    debug!(url = %options.url, height = %start.height, wakes, "following a node");
    outbox.ready()?;

    let changed = Arc::new(Notify::new());
    let watcher = Watcher {
        url: options.url.clone(),
        authorization: authorization.clone(),
        connection: watch,
        heard: Arc::clone(&outbox.heard),
        changed: Arc::clone(&changed),
        known: chain.bestblockhash,
        wakes,
        poll_interval: Duration::from_millis(options.poll_interval_ms),
    };
    let is_from_first = points.is_empty();
    let follower = Follower::new(options, &authorization, client, start, changed, outbox);
    tokio::select! {
        outcome = begin(follower, start, is_from_first, outbox) => outcome,
        outcome = watcher.run() => outcome.map(|never| match never {}),
    }
}

async fn begin(
    follower: Follower<'_>,
    start: End,
    is_from_first: bool,
    outbox: &Outbox,
) -> Result<(), BitcoindError> {
    debug_assert!(!is_from_first || start.height == Height::GENESIS);
    let before = (!is_from_first).then_some(start.hash);
    outbox.send(LiveEvent::RolledBack(before)).await?;
    if is_from_first {
        follower.begin_with_first_block().await?;
    }
    follower.run().await
}
