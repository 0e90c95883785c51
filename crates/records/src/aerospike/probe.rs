//! Whether the servers can do what is needed, asked when a store is opened.

use std::time::{Duration, Instant};

use ::aerospike::{AdminPolicy, CollectionIndexType, IndexType, Node, ResultCode};

use super::{
    client::Cluster,
    encode::ROWS,
    options::{AerospikeOptions, Consistency},
};
use crate::{error::RecordError, opened::Purpose, port::Acknowledgement};

fn unsuitable(what: String) -> RecordError {
    RecordError::Unsuitable { what }
}

/// A value in a list of `name=value`.
pub(super) fn field<'t>(text: &'t str, separator: char, name: &str) -> Option<&'t str> {
    let mut pairs = text.split(separator).filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(found, value)| (found == name).then(|| value.trim()))
}

/// Looks at the namespace on every node, and makes the secondary index; where the store is only read,
/// whether the namespace is there.
pub(super) async fn cluster(cluster: &Cluster) -> Result<(), RecordError> {
    let nodes = cluster.client().nodes();
    if cluster.purpose == Purpose::Read {
        for node in &nodes {
            let command = format!("namespace/{}", cluster.options.namespace);
            known(&cluster.options, node.name(), &cluster.info(node, &command).await?)?;
        }
        return Ok(());
    }
    for one in &nodes {
        node(cluster, one, nodes.len()).await?;
    }
    create_index(cluster).await?;
    let until = Instant::now() + Duration::from_millis(cluster.options.index_wait_ms);
    while let Some(reason) = unready(cluster).await? {
        if Instant::now() >= until {
            return Err(RecordError::Unavailable { what: reason });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Looks at a node, one of so many; answers what it says of its namespace.
pub(super) async fn node(
    cluster: &Cluster,
    node: &Node,
    nodes: usize,
) -> Result<String, RecordError> {
    let about = cluster.info(node, &format!("namespace/{}", cluster.options.namespace)).await?;
    namespace(&cluster.options, node.name(), &about)?;
    let service = cluster.info(node, "get-config:context=service").await?;
    let network = cluster.info(node, "get-config:context=network").await?;
    let statistics = cluster.info(node, "statistics").await?;
    let said = Said { service: &service, network: &network, statistics: &statistics };
    failures(&cluster.options, node.name(), nodes, &said)?;
    Ok(about)
}

/// Refuses a namespace that a node does not have.
fn known(options: &AerospikeOptions, node: &str, about: &str) -> Result<(), RecordError> {
    let name = &options.namespace;
    if about.contains("type=unknown") || about.starts_with("ERROR") {
        return Err(unsuitable(format!(
            "{node} has no namespace {name}: add it to its configuration and restart it"
        )));
    }
    Ok(())
}

/// Refuses a namespace that cannot keep what the store promises.
fn namespace(options: &AerospikeOptions, node: &str, about: &str) -> Result<(), RecordError> {
    let name = &options.namespace;
    known(options, node, about)?;
    let value = |field_name| field(about, ';', field_name);
    let is = |field_name| value(field_name) == Some("true");
    let number = |field_name| value(field_name).and_then(|text| text.parse::<u32>().ok());
    if number("nsup-period").unwrap_or(0) == 0 && !is("allow-ttl-without-nsup") {
        return Err(unsuitable(format!(
            "records of namespace {name} cannot expire on {node}, and an abandoned creation lock \
             would stay: set nsup-period to a number of seconds"
        )));
    }
    let is_strong = is("strong-consistency");
    match options.consistency {
        Consistency::Strong if !is_strong => {
            return Err(unsuitable(format!(
                "namespace {name} is available rather than consistent: when the network between its \
                 nodes breaks, two spends of one output can both be acknowledged, and one of them is \
                 lost. Set strong-consistency (Enterprise Edition), or accept it with \
                 ?consistency=available"
            )));
        }
        Consistency::Available if is_strong => {
            return Err(unsuitable(format!(
                "namespace {name} has strong-consistency: leave out ?consistency=available"
            )));
        }
        _ => {}
    }
    if !is_strong {
        // Otherwise a copy with more changes wins over a later one, and over its tombstone.
        let policy = value("conflict-resolution-policy").unwrap_or("unknown");
        if policy != "last-update-time" {
            return Err(unsuitable(format!(
                "namespace {name} resolves conflicts by {policy} on {node}, so that an old copy can \
                 win over a later one: set conflict-resolution-policy last-update-time"
            )));
        }
        if is("disable-write-dup-res") {
            return Err(unsuitable(format!(
                "namespace {name} has disable-write-dup-res on {node}, so that a write can change an \
                 old copy while partitions move: set it to false"
            )));
        }
    }
    acknowledgement(options, node, about)
}

fn acknowledgement(options: &AerospikeOptions, node: &str, about: &str) -> Result<(), RecordError> {
    let name = &options.namespace;
    let value = |field_name| field(about, ';', field_name).unwrap_or("unknown");
    let level = options.acknowledgement;
    if level == Acknowledgement::Primary {
        return Ok(());
    }
    let copies = value("effective_replication_factor").parse::<u32>().unwrap_or(0);
    if level == Acknowledgement::Replica && copies < 2 {
        return Err(unsuitable(format!(
            "ack=replica needs two copies of every record, and namespace {name} has {copies} on \
             {node}: set replication-factor 2 and add a node, or choose ack=primary"
        )));
    }
    let override_level = value("write-commit-level-override");
    if override_level == "master" {
        return Err(unsuitable(format!(
            "ack={level} waits for every copy, and namespace {name} has write-commit-level-override \
             master on {node}: set it to off"
        )));
    }
    if level == Acknowledgement::Disk && value("storage-engine.commit-to-device") != "true" {
        return Err(unsuitable(format!(
            "ack=disk needs storage-engine.commit-to-device true (Enterprise Edition), and namespace \
             {name} does not have it on {node}: choose ack=replica"
        )));
    }
    Ok(())
}

/// What a node says of itself beside its namespaces.
struct Said<'s> {
    service: &'s str,
    network: &'s str,
    statistics: &'s str,
}

/// Refuses settings by which more is lost when a node fails than the edition has to lose.
fn failures(
    options: &AerospikeOptions,
    node: &str,
    nodes: usize,
    said: &Said<'_>,
) -> Result<(), RecordError> {
    if options.consistency == Consistency::Strong {
        return Ok(());
    }
    let number = |text: &str, name| field(text, ';', name)?.parse::<u64>().ok();
    let (deadline_ms, skew_ms) =
        (options.write_deadline_ms, number(said.statistics, "cluster_clock_skew_ms").unwrap_or(0));
    if skew_ms * 2 > deadline_ms {
        return Err(unsuitable(format!(
            "the clocks of the nodes differ by {skew_ms} ms as {node} says, too much for \
             write_deadline_ms={deadline_ms}: the newest copy is found by the clock, and a late write is \
             refused by it. Let them follow one time server"
        )));
    }
    if nodes < 2 {
        return Ok(());
    }
    let interval_ms = number(said.network, "heartbeat.interval").unwrap_or(150);
    let silent_ms = interval_ms * number(said.network, "heartbeat.timeout").unwrap_or(10);
    if deadline_ms >= silent_ms {
        return Err(unsuitable(format!(
            "{node} is taken for dead after {silent_ms} ms of silence (heartbeat interval times timeout), \
             and could carry out writes until {deadline_ms} ms after they were sent, when another node has \
             its place: set write_deadline_ms below {silent_ms}"
        )));
    }
    let least = nodes / 2 + 1;
    let smallest = number(said.service, "min-cluster-size").unwrap_or(1);
    if nodes > 2 && smallest < least as u64 {
        return Err(unsuitable(format!(
            "min-cluster-size is {smallest} on {node}, so that both sides of a broken network would take \
             writes: set it to {least} on all {nodes} nodes"
        )));
    }
    Ok(())
}

fn index_name(options: &AerospikeOptions) -> String {
    format!("{}_rows", options.set)
}

async fn create_index(cluster: &Cluster) -> Result<(), RecordError> {
    let options = &cluster.options;
    let (policy, name) = (AdminPolicy::default(), index_name(options));
    let client = cluster.client();
    let created = client.create_index_on_bin(
        &policy,
        &options.namespace,
        &options.set,
        ROWS,
        &name,
        IndexType::Numeric,
        CollectionIndexType::MapValues,
        None,
    );
    match created.await {
        Ok(_) => Ok(()),
        Err(error) if error.server_result_code() == Some(ResultCode::IndexFound) => Ok(()),
        Err(error) => Err(unsuitable(format!(
            "the secondary index {name} cannot be made ({error}): the user needs the right \
             sindex-admin"
        ))),
    }
}

/// Why no index can be read at present: the secondary index is missing or unfinished on a node.
pub(super) async fn unready(cluster: &Cluster) -> Result<Option<String>, RecordError> {
    for node in cluster.client().nodes() {
        if let Some(reason) = unready_on(cluster, &node).await? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

async fn unready_on(cluster: &Cluster, node: &Node) -> Result<Option<String>, RecordError> {
    let options = &cluster.options;
    let (namespace, name) = (&options.namespace, index_name(options));
    let list = cluster.info(node, &format!("sindex-list:namespace={namespace}")).await?;
    let ours = list.split(';').find(|entry| field(entry, ':', "indexname") == Some(&name));
    let Some(ours) = ours else {
        return Ok(Some(format!("{} does not have the secondary index {name} yet", node.name())));
    };
    for (what, wanted) in [
        ("set", options.set.as_str()),
        ("bin", ROWS),
        ("type", "numeric"),
        ("indextype", "mapvalues"),
    ] {
        let found = field(ours, ':', what).unwrap_or("nothing");
        if !found.eq_ignore_ascii_case(wanted) {
            return Err(unsuitable(format!(
                "namespace {namespace} has another secondary index of the name {name} ({what} is \
                 {found}): delete it with sindex-delete"
            )));
        }
    }
    let stat = format!("sindex-stat:namespace={namespace};indexname={name}");
    let stat = cluster.info(node, &stat).await?;
    let loaded = field(&stat, ';', "load_pct").unwrap_or("0");
    if loaded == "100" {
        return Ok(None);
    }
    let building = format!(
        "the secondary index {name} is being built on {} ({loaded} %): nothing is found by height \
         until it is done",
        node.name()
    );
    Ok(Some(building))
}

/// Removes all records of the set, on all nodes, and the secondary index.
pub(super) async fn clear(cluster: &Cluster) -> Result<(), RecordError> {
    let AerospikeOptions { namespace, set, .. } = &cluster.options;
    let nodes = cluster.client().nodes();
    let unknown = || RecordError::Unavailable { what: "no node is known".to_owned() };
    let node = nodes.first().ok_or_else(unknown)?;
    for command in [
        format!("truncate:namespace={namespace};set={set}"),
        format!("sindex-delete:namespace={namespace};indexname={}", index_name(&cluster.options)),
    ] {
        let answer = cluster.info(node, &command).await?;
        if !answer.trim().eq_ignore_ascii_case("ok") {
            return Err(unsuitable(format!("{command} was refused: {}", answer.trim())));
        }
    }
    Ok(())
}

/// Bytes of the set over all nodes, without replicas: data, and 64 bytes of index for each record.
pub(super) async fn stored_bytes(cluster: &Cluster) -> Result<u64, RecordError> {
    let options = &cluster.options;
    let (mut bytes, mut copies) = (0, 1);
    for node in cluster.client().nodes() {
        let set = format!("sets/{}/{}", options.namespace, options.set);
        let set = cluster.info(&node, &set).await?;
        let set = set.trim_end_matches(';');
        let number = |name| field(set, ':', name).and_then(|text| text.parse::<u64>().ok());
        bytes += number("data_used_bytes").unwrap_or(0) + 64 * number("objects").unwrap_or(0);
        let about = cluster.info(&node, &format!("namespace/{}", options.namespace)).await?;
        let factor = field(&about, ';', "effective_replication_factor");
        copies = factor.and_then(|text| text.parse::<u64>().ok()).unwrap_or(1).max(1);
    }
    Ok(bytes / copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "nsup-period=120;allow-ttl-without-nsup=false;strong-consistency=false;\
        conflict-resolution-policy=last-update-time;disable-write-dup-res=false;\
        effective_replication_factor=2;write-commit-level-override=off;\
        storage-engine.commit-to-device=false";

    fn look(parameters: &str, about: &str) -> Result<(), String> {
        let url = format!("aerospike://a:1/n?{parameters}");
        let options = AerospikeOptions::parse(&url).unwrap();
        namespace(&options, "BB1", about).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_that_lose_more_than_they_have_to_are_refused_with_the_setting_to_change() {
        let look = |parameters: &str, nodes, service, network, statistics| {
            let url = format!("aerospike://a:1/n?{parameters}");
            let options = AerospikeOptions::parse(&url).unwrap();
            let said = Said { service, network, statistics };
            failures(&options, "BB1", nodes, &said).map_err(|error| error.to_string())
        };
        let own = "consistency=available";
        let (service, network) =
            ("min-cluster-size=2", "heartbeat.interval=150;heartbeat.timeout=10");
        let skew = "cluster_clock_skew_ms=3";
        look(own, 3, service, network, skew).unwrap();
        look(own, 2, "min-cluster-size=1", network, skew).unwrap();
        look(own, 1, "min-cluster-size=1", "heartbeat.interval=50;heartbeat.timeout=3", skew)
            .unwrap();
        look("", 5, "min-cluster-size=1", network, "").unwrap();
        for (nodes, service, network, skew, part) in [
            (3, "min-cluster-size=1", network, skew, "set it to 2"),
            (5, service, network, skew, "set it to 3"),
            (3, service, "heartbeat.interval=100;heartbeat.timeout=10", skew, "below 1000"),
            (1, service, network, "cluster_clock_skew_ms=600", "differ by 600 ms"),
        ] {
            let refused = look(own, nodes, service, network, skew).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn a_namespace_that_cannot_keep_the_promises_is_refused_with_the_setting_to_change() {
        look("consistency=available", GOOD).unwrap();
        look("", &GOOD.replace("strong-consistency=false", "strong-consistency=true")).unwrap();
        for (parameters, from, to, part) in [
            ("consistency=available", "nsup-period=120", "nsup-period=0", "cannot expire"),
            ("", "", "", "two spends of one output"),
            ("consistency=available", "last-update-time", "generation", "resolves conflicts"),
            ("consistency=available", "dup-res=false", "dup-res=true", "disable-write-dup-res"),
            ("consistency=available", "factor=2", "factor=1", "two copies"),
            ("consistency=available", "override=off", "override=master", "commit-level-override"),
            ("consistency=available&ack=disk", "", "", "commit-to-device"),
            ("consistency=available", "consistency=false", "consistency=true", "leave out"),
        ] {
            let about = if from.is_empty() { GOOD.to_owned() } else { GOOD.replace(from, to) };
            let refused = look(parameters, &about).unwrap_err();
            assert!(refused.contains(part), "{parameters} {from} {to}: {refused}");
        }
        let kept = GOOD.replace(
            "nsup-period=120;allow-ttl-without-nsup=false",
            "nsup-period=0;\
                                 allow-ttl-without-nsup=true",
        );
        look("consistency=available", &kept).unwrap();
        look("consistency=available&ack=primary", &GOOD.replace("factor=2", "factor=1")).unwrap();
        assert!(look("", "ns_type=unknown;type=unknown").unwrap_err().contains("no namespace n"));
    }
}
