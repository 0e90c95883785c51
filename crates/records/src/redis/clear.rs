//! Removing everything of one prefix, for stores that were only made to measure them.

use std::sync::Arc;

use futures_util::future::join_all;

use super::{
    client::{Command, Lost, Reply},
    cluster::Cluster,
    node::Node,
};
use crate::error::RecordError;

/// Keys that a server looks at in one step.
const STEP_KEYS: usize = 1_000;

/// Deletes every key of the store's prefix on every primary; answers how many there were. Slots must
/// not move meanwhile.
pub(crate) async fn everything(cluster: Arc<Cluster>) -> Result<u64, RecordError> {
    let topology = cluster.topology();
    let primaries = topology.primaries.iter().map(|primary| cluster.node(&primary.address));
    let pattern = format!("{}:{{*", cluster.options.prefix);
    let cleared = primaries.map(|node| {
        let pattern = pattern.clone();
        async move { of_server(&node, &pattern).await }
    });
    let lost = |lost: Lost| RecordError::Unavailable { what: lost.what };
    join_all(cleared).await.into_iter().sum::<Result<u64, Lost>>().map_err(lost)
}

async fn of_server(node: &Node, pattern: &str) -> Result<u64, Lost> {
    let unreadable = || Lost { what: "a server does not list its keys".to_owned() };
    let (mut cursor, mut removed) = ("0".to_owned(), 0);
    loop {
        let scan = Command::new("SCAN").arg(cursor.as_str()).arg("MATCH").arg(pattern);
        let scan = scan.arg("COUNT").arg(STEP_KEYS.to_string());
        let Reply::List(parts) = node.ask(scan).await? else { return Err(unreadable()) };
        let mut parts = parts.into_iter();
        cursor = parts.next().and_then(Reply::into_text).ok_or_else(unreadable)?;
        let Some(Reply::List(keys)) = parts.next() else { return Err(unreadable()) };
        let keys = keys.into_iter().filter_map(Reply::into_bytes);
        // Keys of one command have to be in one slot: each has its own.
        let unlinks: Vec<Command> = keys.map(|key| Command::new("UNLINK").arg(key)).collect();
        removed += unlinks.len() as u64;
        if !unlinks.is_empty() {
            node.lease().await?.pipeline(unlinks).await?;
        }
        if cursor == "0" {
            return Ok(removed);
        }
    }
}
