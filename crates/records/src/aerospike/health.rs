//! Whether every node takes writes at present, and is still set up as it has to be.

use std::time::Duration;

use super::{
    client::Cluster,
    encode::{Encoder, bytes_of},
    outcome::Outcome,
    probe::{self, field},
};
use crate::{
    error::RecordError,
    port::{Key, WriteCell},
    version::Versions,
};

/// Name of the cells that are written to. The writes cannot succeed, so that no cell is ever there.
const CELL: &[u8] = b"h";

/// Cells that are written to: enough for every node of a cluster to have some of them.
const CELLS: u16 = 128;

/// How long writes that were not taken are sent again.
const RETRY_FOR: Duration = Duration::from_millis(500);

/// Faults that one answer names.
const NAMED_MAX: usize = 3;

/// What is wrong, if anything.
pub(super) async fn look(cluster: &Cluster, encoder: &Encoder) -> Option<String> {
    let nodes = cluster.client().nodes();
    if nodes.is_empty() {
        return Some("no node is known".to_owned());
    }
    let mut faults = Vec::new();
    for node in &nodes {
        match probe::node(cluster, node, nodes.len()).await {
            Ok(about) => faults.extend(stopped(node.name(), &about)),
            Err(error) => faults.push(error.to_string()),
        }
    }
    match probe::unready(cluster).await {
        Ok(reason) => faults.extend(reason),
        Err(error) => faults.push(error.to_string()),
    }
    faults
        .extend(unwritten(cluster, encoder).await.unwrap_or_else(|error| Some(error.to_string())));
    faults.dedup();
    faults.truncate(NAMED_MAX);
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Why a node takes no writes, as it says itself.
fn stopped(node: &str, about: &str) -> Option<String> {
    let is = |name| field(about, ';', name) == Some("true");
    if is("clock_skew_stop_writes") {
        return Some(format!("{node} takes no writes: the clocks of the nodes differ too much"));
    }
    is("stop_writes").then(|| {
        format!(
            "{node} takes no writes: its namespace has no room (stop_writes). Give it more memory or \
             disk, or prune"
        )
    })
}

/// Why a cell cannot be written at present.
async fn unwritten(cluster: &Cluster, encoder: &Encoder) -> Result<Option<String>, RecordError> {
    let versions = Versions::random();
    let write = |shard| WriteCell::update(Key::new(shard, CELL), versions.next(), versions.next());
    let writes: Vec<WriteCell> = (0..CELLS).map(write).collect();
    let deadline = cluster.clock.deadline(cluster.options.write_deadline_ms);
    let none = || RecordError::Unavailable { what: "no server tells its time".to_owned() };
    let deadline = deadline.ok_or_else(none)?;
    let make = |item: usize| encoder.write(&writes[item], deadline);
    let bytes = |item: usize| bytes_of(&writes[item]);
    let outcomes = cluster.send_within(writes.len(), &make, &bytes, RETRY_FOR).await?;
    Ok(outcomes.into_iter().find_map(|outcome| match outcome {
        Outcome::Again(reason) | Outcome::Refused(reason) | Outcome::InDoubt(reason) => {
            Some(format!("some records take no writes: {reason}"))
        }
        Outcome::Answered(_) | Outcome::NotFound | Outcome::Filtered | Outcome::Late => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_takes_no_writes_says_why() {
        let said = |about| stopped("BB1", about);
        assert_eq!(said("clock_skew_stop_writes=false;stop_writes=false"), None);
        let full = said("clock_skew_stop_writes=false;stop_writes=true").unwrap();
        assert!(full.contains("BB1") && full.contains("no room"), "{full}");
        assert!(said("clock_skew_stop_writes=true;stop_writes=true").unwrap().contains("clocks"));
    }
}
