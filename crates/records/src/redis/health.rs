//! Whether every server takes writes at present, and is still set up as it has to be.
//!
//! # Invariants
//!
//! * Nothing is said to be well that was not written to: one write with a barrier goes to each primary
//!   that holds a shard of the store.
//! * A look takes no longer than connecting twice and waiting for the replicas twice.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    client::{Address, Command},
    cluster::Cluster,
    encode::{self, Encoder, tag_of},
    probe,
    send::{Item, Kind, Outcome},
    slots::{Topology, slot_of},
};
use crate::{
    error::RecordError,
    port::{Acknowledgement, Key, WriteCell},
    version::Versions,
};

/// Name of the cell that is written to, in one shard of each primary. The write cannot succeed, so that
/// no cell is ever there; its barrier is waited for like that of any other.
const CELL: &[u8] = b"h";

/// How far the clocks of servers may be apart.
const CLOCKS_APART_MS_MAX: u64 = 5 * 60 * 1_000;

/// Faults that one answer names.
const NAMED_MAX: usize = 3;

/// What is wrong, if anything.
pub(crate) async fn look(cluster: &Arc<Cluster>, encoder: &Encoder, shards: u16) -> Option<String> {
    if let Err(error) = cluster.look_up().await {
        return Some(error.to_string());
    }
    let topology = cluster.topology();
    let uncovered = topology.uncovered();
    if uncovered > 0 {
        return Some(format!("{uncovered} of 16384 hash slots are on no server"));
    }
    let mut faults = unwritten(cluster, encoder, &topology, shards).await;
    faults.extend(unfit(cluster, &topology).await);
    faults.extend(clocks_apart(cluster, &topology).await);
    let more = faults.len().saturating_sub(NAMED_MAX);
    faults.truncate(NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!faults.is_empty()).then(|| format!("{}{more}", faults.join("; ")))
}

/// Primaries that take no writes, and why.
async fn unwritten(
    cluster: &Arc<Cluster>,
    encoder: &Encoder,
    topology: &Topology,
    shards: u16,
) -> Vec<String> {
    let mut of_primary: BTreeMap<&Address, u16> = BTreeMap::new();
    for shard in 0..shards {
        if let Some(address) = topology.owner(slot_of(tag_of(shard).as_bytes())) {
            of_primary.entry(address).or_insert(shard);
        }
    }
    let versions = Versions::random();
    let has_barrier = cluster.options.acknowledgement != Acknowledgement::Primary;
    let item = |shard: &u16| {
        let key = Key::new(*shard, CELL);
        let write = WriteCell::update(key, versions.next(), versions.next());
        let command = encoder.write(&write, has_barrier);
        Item { slot: slot_of(tag_of(*shard).as_bytes()), command }
    };
    let items: Vec<Item> = of_primary.values().map(item).collect();
    let retry_for = Duration::from_millis(cluster.options.acknowledge_timeout_ms);
    let outcomes = cluster.send_within(items, Kind::Write { has_barrier }, retry_for).await;
    let fault = |(address, outcome): (&&Address, Outcome)| {
        let reason = match outcome {
            Outcome::Answered(reply) if encode::written(&reply).is_some() => return None,
            Outcome::Answered(reply) => format!("{reply:?}"),
            Outcome::InDoubt(reason) | Outcome::Unavailable(reason) => reason,
        };
        Some(format!("the shards on {address} take no writes: {reason}"))
    };
    of_primary.keys().zip(outcomes).filter_map(fault).collect()
}

/// Primaries whose clocks are too far apart. Servers refuse a write that was held up on its way by their
/// clock, and calls reckon with half an hour.
pub(crate) async fn clocks_apart(cluster: &Cluster, topology: &Topology) -> Option<String> {
    let limit = Duration::from_millis(2 * cluster.options.connect_timeout_ms);
    let asked = topology.primaries.iter().map(|primary| async {
        let node = cluster.node(&primary.address);
        let answer = tokio::time::timeout(limit, node.ask(Command::new("TIME"))).await;
        let now_ms = encode::time_ms(answer.ok()?.ok()?)?;
        Some((primary.address.clone(), now_ms))
    });
    let times: Vec<(Address, u64)> = join_all(asked).await.into_iter().flatten().collect();
    apart(&times)
}

fn apart(times: &[(Address, u64)]) -> Option<String> {
    let (first, early) = times.iter().min_by_key(|(_, ms)| *ms)?;
    let (last, late) = times.iter().max_by_key(|(_, ms)| *ms)?;
    let apart_ms = late - early;
    (apart_ms > CLOCKS_APART_MS_MAX).then(|| {
        let seconds = apart_ms / 1_000;
        format!("the clocks of {first} and {last} are {seconds} s apart: set them right, as by NTP")
    })
}

/// Servers whose settings were changed since they were looked at first. One that does not answer is not
/// among them: whether it is missed shows in the writes.
async fn unfit(cluster: &Cluster, topology: &Topology) -> Vec<String> {
    let limit = Duration::from_millis(2 * cluster.options.connect_timeout_ms);
    let asked = topology.servers().into_iter().map(|server| async move {
        let node = cluster.node(&server);
        let looked = probe::server(&node, cluster.options.acknowledgement);
        match tokio::time::timeout(limit, looked).await {
            Ok(Err(error @ RecordError::Unsuitable { .. })) => Some(error.to_string()),
            _ => None,
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_too_far_apart_are_named() {
        let server = |port| Address { host: "h".to_owned(), port };
        let times = [(server(1), 400_000), (server(2), 100_001), (server(3), 300_000)];
        assert_eq!(apart(&times), None);
        let times = [(server(1), 500_000), (server(2), 100_000), (server(3), 300_000)];
        let said = apart(&times).unwrap();
        assert!(said.contains("h:2 and h:1 are 400 s apart"), "{said}");
        assert_eq!(apart(&[]), None);
    }
}
