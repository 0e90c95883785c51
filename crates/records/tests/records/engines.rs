//! One suite on every engine.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use utxokeep_records::{
    Acknowledgement, Barrier, Key, MemoryRecords, ReadCell, RecordError, RecordStore, RedisOptions,
    RedisRecords, Version, WriteCell,
    simulation::Simulation,
    testing::{TestCluster, shared_url_or_skip, suite},
};

fn open(url: &str) -> Result<RedisRecords, RecordError> {
    RedisRecords::open(RedisOptions::parse(url)?)
}

fn wait(ms: u64) {
    sleep(Duration::from_millis(ms));
}

#[test]
fn memory_keeps_the_contract() {
    let store = MemoryRecords::new();
    suite::all(&store, &|ms| store.advance_ms(ms));
    assert!(store.stored_bytes().unwrap().unwrap() > 300_000);
}

#[test]
fn a_simulation_without_faults_keeps_the_contract() {
    let simulation = Simulation::new(1);
    let store = simulation.observer();
    suite::all(&store, &|ms| store.advance_ms(ms));
}

#[test]
fn redis_keeps_the_contract_at_every_level_without_disk() {
    for level in ["primary", "replica"] {
        let Some(url) = shared_url_or_skip(&format!("ack={level}")) else { return };
        let store = open(&url).unwrap();
        suite::all(&store, &wait);
        assert_eq!(store.trouble(), None);
        assert_eq!(
            (store.engine(), store.acknowledgement().to_string().as_str()),
            ("redis", level)
        );
        assert!(store.stored_bytes().unwrap().unwrap() > 300_000);
    }
}

#[test]
fn stores_of_different_prefixes_do_not_see_each_other() {
    let Some(url) = shared_url_or_skip("ack=primary") else { return };
    let (first, other) = (open(&url).unwrap(), open(&shared_url_or_skip("").unwrap()).unwrap());
    suite::a_write_that_is_sent_again_recognises_itself(&first);
    suite::a_write_that_is_sent_again_recognises_itself(&other);
}

#[test]
fn disk_needs_a_log_that_is_synced_always_on_every_server() {
    let settings = [("appendonly", "yes"), ("appendfsync", "always")];
    let Some(cluster) = TestCluster::start_or_skip(&settings) else { return };
    let store = open(&cluster.url("ack=disk")).unwrap();
    assert_eq!(store.acknowledgement(), Acknowledgement::Disk);
    suite::all(&store, &wait);
    drop(store);
    // The last of them is a replica.
    let mut wire = cluster.wire(5).unwrap();
    wire.call(&["CONFIG", "SET", "appendfsync", "everysec"]).unwrap();
    let refused = open(&cluster.url("ack=disk")).unwrap_err().to_string();
    assert!(refused.contains("appendfsync always") && refused.contains("everysec"), "{refused}");
    assert!(refused.contains(&cluster.port(5).to_string()), "{refused}");
    drop(open(&cluster.url("ack=replica")).unwrap());

    wire.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let refused = open(&cluster.url("ack=primary")).unwrap_err().to_string();
    assert!(refused.contains("maxmemory-policy noeviction"), "{refused}");
    wire.call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();

    // A shard without a replica.
    let id = wire.call(&["CLUSTER", "MYID"]).unwrap().text();
    wire.call(&["CLUSTER", "RESET", "SOFT"]).unwrap();
    for number in 0..5 {
        cluster.wire(number).unwrap().call(&["CLUSTER", "FORGET", &id]).unwrap();
    }
    let hosts = cluster.url("ack=replica").replace(&format!(",127.0.0.1:{}", cluster.port(5)), "");
    for level in ["replica", "disk"] {
        let refused = open(&hosts.replace("ack=replica", &format!("ack={level}"))).unwrap_err();
        let named = format!("ack={level} needs at least one replica");
        assert!(refused.to_string().contains(&named), "{refused}");
    }

    // A slot that nobody holds.
    cluster.wire(0).unwrap().call(&["CLUSTER", "DELSLOTS", "7"]).unwrap();
    let hosts = format!("redis://127.0.0.1:{}?ack=primary", cluster.port(0));
    let refused = open(&hosts).unwrap_err().to_string();
    assert!(refused.contains("1 of 16384 hash slots"), "{refused}");
}

#[test]
fn a_server_without_a_log_is_refused_where_more_than_memory_is_promised() {
    let Some(cluster) = TestCluster::start_or_skip(&[("appendonly", "no")]) else { return };
    let log = |number: usize, value: &str| {
        let said = cluster.wire(number).unwrap().call(&["CONFIG", "SET", "appendonly", value]);
        assert_eq!(said.unwrap().text(), "OK");
    };
    for level in ["replica", "disk"] {
        let refused = open(&cluster.url(&format!("ack={level}"))).unwrap_err();
        assert!(matches!(refused, RecordError::Unsuitable { .. }), "{refused}");
        assert!(refused.to_string().contains("Set appendonly yes"), "{refused}");
    }
    let promised_less = open(&cluster.url("ack=primary")).unwrap();
    assert_eq!(promised_less.servers_without_log().len(), 6);
    // One is enough, be it a primary or a replica.
    for last in [1, 4] {
        (0..6).for_each(|number| log(number, if number == last { "no" } else { "yes" }));
        let refused = open(&cluster.url("ack=replica")).unwrap_err().to_string();
        assert!(refused.contains(&cluster.port(last).to_string()), "{refused}");
    }
    log(4, "yes");
    let store = open(&cluster.url("ack=replica")).unwrap();
    assert!(store.servers_without_log().is_empty());
    log(2, "no");
    let trouble = store.probe(64).unwrap();
    assert!(trouble.reason.contains("Set appendonly yes"), "{}", trouble.reason);
}

/// A replica that has just come back may acknowledge its first writes late, so that a look right after it
/// may still find trouble, which has to pass.
fn wait_until_well(store: &RedisRecords) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Some(trouble) = store.probe(64) {
        assert!(trouble.passes, "{}", trouble.reason);
        assert!(Instant::now() < end, "did not pass in a minute: {}", trouble.reason);
        wait(50);
    }
}

#[test]
fn a_probe_finds_what_keeps_servers_from_taking_writes_and_leaves_nothing() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=300&command_timeout_ms=1500");
    let store = open(&url).unwrap();
    wait_until_well(&store);
    for server in 0..3 {
        assert_eq!(cluster.wire(server).unwrap().call(&["DBSIZE"]).unwrap().text(), "0");
    }
    // On a replica too: it may be the next primary.
    let policy = |value: &str| {
        let mut wire = cluster.wire(4).unwrap();
        wire.call(&["CONFIG", "SET", "maxmemory-policy", value]).unwrap();
    };
    policy("allkeys-lru");
    let trouble = store.probe(64).unwrap();
    assert!(trouble.reason.contains("set maxmemory-policy noeviction"), "{}", trouble.reason);
    assert!(trouble.passes && trouble.reason.contains(&cluster.port(4).to_string()));
    policy("noeviction");
    wait_until_well(&store);
    let memory = |value: &str| {
        let mut wire = cluster.wire(1).unwrap();
        wire.call(&["CONFIG", "SET", "maxmemory", value]).unwrap();
    };
    memory("1");
    let trouble = store.probe(64).unwrap().reason;
    let advice = format!("(said 127.0.0.1:{}): raise maxmemory", cluster.port(1));
    assert!(trouble.contains(&advice), "{trouble}");
    memory("0");
    wait_until_well(&store);

    cluster.kill(3).unwrap();
    let trouble = store.probe(64).unwrap().reason;
    let primary = format!("the shards on 127.0.0.1:{} take no writes", cluster.port(0));
    assert!(trouble.contains(&primary) && trouble.contains("0 of 1 replicas"), "{trouble}");
    assert!(!trouble.contains(&cluster.port(1).to_string()), "the others do: {trouble}");
    let refused = open(&url).unwrap_err().to_string();
    assert!(refused.contains(&cluster.port(3).to_string()), "{refused}");
    assert!(refused.contains("CLUSTER FORGET"), "{refused}");
    let reader = RedisRecords::open_to_read(RedisOptions::parse(&url).unwrap()).unwrap();
    let reads: Vec<ReadCell> = (0..64).map(|n| ReadCell::all(Key::new(n, "x"))).collect();
    assert_eq!(reader.read(&reads).unwrap(), vec![None; 64]);
    let write = WriteCell::create(Key::new(1, "x"), Version::new(1));
    let refused = reader.write(std::slice::from_ref(&write), Barrier::None);
    assert_eq!(refused, Err(RecordError::OpenedToRead));
    reader.write_later(vec![write]);
    cluster.restart(3).unwrap();
    cluster.wait_ready().unwrap();
    wait_until_well(&store);

    let mut wire = cluster.wire(2).unwrap();
    wire.call(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let trouble = store.probe(64).unwrap().reason;
    assert!(trouble.contains(&cluster.port(2).to_string()) && trouble.contains("OOM"), "{trouble}");
}

#[test]
fn a_server_that_asks_for_a_password_is_refused_without_the_right_one() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    for number in 0..6 {
        let mut wire = cluster.wire(number).unwrap();
        wire.call(&["CONFIG", "SET", "masterauth", "p@ss"]).unwrap();
        wire.call(&["CONFIG", "SET", "requirepass", "p@ss"]).unwrap();
    }
    let url = |user: &str| cluster.url("ack=replica").replacen("//", &format!("//{user}@"), 1);
    let store = open(&url(":p%40ss")).unwrap();
    suite::a_write_needs_the_version_it_expects(&store);
    for refused in [cluster.url("ack=replica"), url(":other")] {
        let refused = open(&refused).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, RecordError::Unsuitable { .. }), "{text}");
        assert!(text.contains("does not let us in") && !text.contains("other"), "{text}");
    }
}

#[test]
fn a_library_that_was_flushed_is_loaded_again() {
    let Some(cluster) = TestCluster::start_or_skip(&[]) else { return };
    let store = open(&cluster.url("ack=replica")).unwrap();
    suite::a_write_needs_the_version_it_expects(&store);
    for number in 0..3 {
        let said = cluster.wire(number).unwrap().call(&["FUNCTION", "FLUSH", "SYNC"]).unwrap();
        assert_eq!(said.text(), "OK");
    }
    suite::a_write_that_is_sent_again_recognises_itself(&store);
    suite::scans_page_by_score_and_member(&store);
    // Another text under the same name is not ours to replace.
    let mut wire = cluster.wire(0).unwrap();
    wire.call(&["FUNCTION", "FLUSH", "SYNC"]).unwrap();
    let other = "#!lua name=utxokeep_records_2\nredis.register_function('other', function() end)";
    wire.call(&["FUNCTION", "LOAD", other]).unwrap();
    let refused = open(&cluster.url("ack=replica")).unwrap_err().to_string();
    assert!(refused.contains("FUNCTION DELETE utxokeep_records_2"), "{refused}");
}

#[test]
fn servers_that_cannot_be_reached_are_named() {
    let refused = open("redis://127.0.0.1:1?connect_timeout_ms=200").unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
}

#[test]
fn rates_of_the_bare_store_are_measured_for_every_combination() {
    use utxokeep_records::bench::{BenchPlan, BenchWork, measure};
    let plan =
        BenchPlan { batches: vec![1, 10], clients: vec![1, 2], row_ms: 5, ..BenchPlan::default() };
    let mut rows = Vec::new();
    measure(&MemoryRecords::new(), &plan, &mut |row| rows.push(row.clone())).unwrap();
    assert_eq!(rows.len(), 2 * 2 * BenchWork::ALL.len());
    assert!(rows.iter().all(|row| row.per_second > 0.0));
}
