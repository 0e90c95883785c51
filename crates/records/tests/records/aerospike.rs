//! The port on a real Aerospike server, where `UTXOKEEP_AEROSPIKE` names one.

use std::{thread::sleep, time::Duration};

use crate::faults::Load;
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, Barrier, Key, ReadCell, RecordError, RecordStore,
    ScanIndex, Version, Versions, WriteCell, Written,
    testing::{AerospikePlace, FaultProxy, ProxyFault, skipped, suite},
};

/// Set where every test here has to run.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_AEROSPIKE";

fn open(url: &str) -> Result<AerospikeRecords, RecordError> {
    AerospikeRecords::open(AerospikeOptions::parse(url)?)
}

/// Times to live are in seconds, and may be two late.
fn wait(ms: u64) {
    sleep(Duration::from_millis(ms.max(3_500)));
}

#[test]
fn aerospike_keeps_the_contract() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let store = open(&place.url()).unwrap();
    suite::all(&store, &wait);
    assert_eq!(store.trouble(), None);
    assert_eq!(store.engine(), "aerospike");
    assert!(store.stored_bytes().unwrap().unwrap() > 300_000);
}

#[test]
fn stores_of_different_sets_do_not_see_each_other() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let Some(other) = AerospikePlace::new_or_skip("") else { return };
    for place in [&place, &other] {
        suite::a_write_that_is_sent_again_recognises_itself(&open(&place.url()).unwrap());
    }
    suite::scans_page_by_score_and_member(&open(&place.url()).unwrap());
    suite::scans_page_by_score_and_member(&open(&other.url()).unwrap());
}

#[test]
fn an_abandoned_lock_expires() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    suite::cells_expire_by_the_clock_of_the_server(&open(&place.url()).unwrap(), &wait);
}

#[test]
fn a_deleted_cell_leaves_a_tombstone_that_is_no_cell() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let store = open(&place.url()).unwrap();
    let (versions, key) = (Versions::seeded(1), Key::new(1, "gone"));
    let objects = || {
        let sets = place.info(0, &format!("sets/test/{}", set_of(&place.url()))).unwrap();
        let objects = sets.split(':').find_map(|pair| pair.strip_prefix("objects="));
        objects.map_or(0, |text| text.parse::<u64>().unwrap())
    };
    let (first, second) = (versions.next(), versions.next());
    let create = WriteCell::create(key.clone(), first).set("a", "1").index(1, "m", Some(5));
    assert_eq!(suite::write(&store, create), Written::Done);
    let delete = WriteCell::delete(key.clone(), first).index(1, "m", None);
    assert_eq!(suite::write(&store, delete), Written::Done);
    let reads = [ReadCell::all(key.clone()), ReadCell::fields(key.clone(), [b"a".to_vec()])];
    assert_eq!(store.read(&reads).unwrap(), [None, None]);
    if place.nodes() == 1 && place.url().contains("/test?") {
        assert_eq!(objects(), 2, "the tombstone is a record, beside that which tells the time");
    }
    let again = WriteCell::create(key.clone(), second);
    assert_eq!(suite::write(&store, again), Written::Done);
    assert_eq!(suite::write(&store, WriteCell::discard(key, second)), Written::Done);
    if place.nodes() == 1 && place.url().contains("/test?") {
        assert_eq!(objects(), 1, "one that may come back leaves nothing");
    }
}

fn set_of(url: &str) -> String {
    let (_, rest) = url.split_once("set=").unwrap();
    rest.split('&').next().unwrap().to_owned()
}

#[test]
fn a_namespace_that_cannot_keep_the_promises_is_refused_at_start() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let strong = place.url().replace("consistency=available&", "");
    let refused = open(&strong).unwrap_err().to_string();
    assert!(refused.contains("two spends of one output"), "{refused}");
    let disk = place.url().replace("ack=primary", "ack=disk").replace("ack=replica", "ack=disk");
    let refused = open(&disk).unwrap_err().to_string();
    assert!(refused.contains("commit-to-device"), "{refused}");
    let refused = open(&place.url_of("nowhere")).unwrap_err().to_string();
    assert!(refused.contains("no namespace nowhere"), "{refused}");
    // A namespace of a server for these tests in which records cannot expire.
    let period = "get-config:context=namespace;namespace=noexp";
    if place.info(0, period).is_ok_and(|said| said.contains("nsup-period=0")) {
        let refused = open(&place.url_of("noexp")).unwrap_err().to_string();
        assert!(refused.contains("cannot expire"), "{refused}");
    } else {
        skipped("Aerospike", REQUIRE, "the server has no namespace noexp with nsup-period 0");
    }
    if place.nodes() == 1 {
        let refused = open(&place.url().replace("ack=primary", "ack=replica")).unwrap_err();
        assert!(refused.to_string().contains("two copies"), "{refused}");
    }
}

#[test]
fn opening_to_read_makes_nothing_on_the_servers_and_takes_no_writes() {
    let Some(place) = AerospikePlace::new_or_skip("index_wait_ms=0") else { return };
    let reading = AerospikeRecords::open_to_read(AerospikeOptions::parse(&place.url()).unwrap());
    let reading = reading.unwrap();
    let key = Key::new(1, "k");
    assert_eq!(reading.read(&[ReadCell::all(key.clone())]).unwrap(), [None]);
    assert!(reading.now_ms(0).is_err(), "nobody has made the record that tells the time");
    let (index, namespace) = place.index();
    let list = place.info(0, &format!("sindex-list:namespace={namespace}")).unwrap();
    assert!(!list.contains(&index), "{list}");
    let write = WriteCell::create(key.clone(), Versions::random().next());
    let refused = reading.write(std::slice::from_ref(&write), Barrier::Safe);
    assert_eq!(refused, Err(RecordError::OpenedToRead));

    let place = AerospikePlace::new_or_skip("").unwrap();
    let store = open(&place.url()).unwrap();
    assert_eq!(suite::write(&store, write), Written::Done);
    let options = AerospikeOptions::parse(&place.url()).unwrap();
    let reading = AerospikeRecords::open_to_read(options).unwrap();
    assert!(reading.read(&[ReadCell::all(key)]).unwrap()[0].is_some());
    assert!(reading.now_ms(0).is_ok());
    assert_eq!(reading.probe(8), None);
}

#[test]
fn a_record_that_is_too_large_for_the_server_is_not_written() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let store = open(&place.url()).unwrap();
    let (versions, key) = (Versions::seeded(2), Key::new(1, "large"));
    let write = WriteCell::create(key.clone(), versions.next()).set("b", vec![7; 9 << 20]);
    let written = store.write(&[write], Barrier::Safe).unwrap();
    assert_eq!(written, [Written::Unavailable]);
    let trouble = store.trouble().unwrap();
    assert!(trouble.reason.contains("[txstore] blobs"), "it says what to do: {}", trouble.reason);
    assert_eq!(store.read(&[ReadCell::version(key)]).unwrap(), [None]);
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let url = "aerospike://127.0.0.1:1/test?connect_timeout_ms=200&retry_for_ms=0";
    let refused = open(url).unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
}

fn version_of(store: &AerospikeRecords, key: &Key) -> Option<Version> {
    let found = store.read(&[ReadCell::version(key.clone())]).unwrap();
    found[0].as_ref().map(|cell| cell.version)
}

/// Sends a write again as long as it is in doubt: on connections that ended meanwhile it is at first.
fn until_known(store: &AerospikeRecords, write: &WriteCell) -> Written {
    for _ in 0..20 {
        let answer = suite::write(store, write.clone());
        if !matches!(answer, Written::InDoubt | Written::Unavailable) {
            return answer;
        }
        sleep(Duration::from_millis(200));
    }
    panic!("it stays in doubt: {:?}", store.trouble())
}

/// A store behind a proxy, and the same one without it; `None` where there is no single server.
fn behind_proxy(
    parameters: &str,
) -> Option<(AerospikePlace, FaultProxy, AerospikeRecords, AerospikeRecords)> {
    let place = AerospikePlace::new_or_skip("")?;
    if place.nodes() > 1 {
        skipped("Aerospike", REQUIRE, "a client finds the other nodes without the proxy");
        return None;
    }
    let proxy = FaultProxy::start(place.host(0)).unwrap();
    let store = open(&place.url_through(proxy.address(), parameters)).unwrap();
    let direct = open(&place.url()).unwrap();
    Some((place, proxy, store, direct))
}

#[test]
fn a_write_whose_answer_was_lost_is_in_doubt_and_recognises_itself_when_it_is_sent_again() {
    let Some((_place, proxy, store, direct)) =
        behind_proxy("command_timeout_ms=2000&retry_for_ms=10000")
    else {
        return;
    };
    let (versions, key) = (Versions::random(), Key::new(3, "doubt"));
    // The first write asks for the time, and does nothing where nobody tells it.
    let before = WriteCell::create(Key::new(3, "before"), versions.next());
    assert_eq!(suite::write(&store, before), Written::Done);
    let (first, second) = (versions.next(), versions.next());
    let row = |write: WriteCell, score| write.set("a", "1").index(2, "m", Some(score));
    let create = row(WriteCell::create(key.clone(), first), 5);
    let update = row(WriteCell::update(key.clone(), first, second), 6);
    for (write, version) in [(create, first), (update, second)] {
        assert_ne!(version_of(&direct, &key), Some(version));
        proxy.set(ProxyFault::AnswersLost);
        let lost = proxy.lost();
        let answer = store.write(std::slice::from_ref(&write), Barrier::Safe).unwrap();
        assert_eq!(answer, [Written::InDoubt]);
        assert!(proxy.lost() > lost, "no answer was lost: the test proves nothing");
        assert_eq!(version_of(&direct, &key), Some(version), "it had happened");
        proxy.set(ProxyFault::None);
        assert_eq!(until_known(&store, &write), Written::Done);
        assert_eq!(until_known(&store, &write), Written::Done);
    }
    // One that others overtook knows that it will not happen any more.
    let third = versions.next();
    let late = WriteCell::update(key.clone(), second, versions.next());
    let theirs = WriteCell::update(key.clone(), second, third);
    assert_eq!(suite::write(&direct, theirs), Written::Done);
    assert_eq!(until_known(&store, &late), Written::Mismatch(Some(third)));
}

/// What a node that hung finds in its connections when it goes on.
#[test]
fn a_write_that_arrives_after_its_deadline_is_not_carried_out() {
    for deadline_ms in [300, 60_000] {
        let parameters =
            format!("command_timeout_ms=500&retry_for_ms=100&write_deadline_ms={deadline_ms}");
        let Some((_place, proxy, store, direct)) = behind_proxy(&parameters) else { return };
        let versions = Versions::random();
        let (made, there) = (Key::new(4, "made"), Key::new(5, "there"));
        let [first, new, created, next] = [(); 4].map(|()| versions.next());
        let there_first = WriteCell::create(there.clone(), first);
        assert_eq!(suite::write(&store, there_first), Written::Done);
        let gone = Key::new(6, "gone");
        for write in [WriteCell::create(gone.clone(), new), WriteCell::delete(gone.clone(), new)] {
            assert_eq!(suite::write(&store, write), Written::Done);
        }
        proxy.set(ProxyFault::RequestsHeld);
        for write in [
            WriteCell::create(made.clone(), created).set("a", "1"),
            WriteCell::update(there.clone(), first, next),
            WriteCell::create(gone.clone(), created),
        ] {
            let answer = store.write(&[write], Barrier::Safe).unwrap();
            assert_eq!(answer, [Written::InDoubt]);
        }
        sleep(Duration::from_millis(500));
        proxy.set(ProxyFault::None);
        let found = || [&made, &there, &gone].map(|key| version_of(&direct, key));
        if deadline_ms == 300 {
            sleep(Duration::from_secs(3));
            assert_eq!(found(), [None, Some(first), None]);
            continue;
        }
        // The twin: without the deadline they are carried out, however late.
        for _ in 0..100 {
            if found() == [Some(created), Some(next), Some(created)] {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("they were never carried out, so that the deadline decides nothing: {:?}", found());
    }
}

#[test]
fn without_its_secondary_index_no_page_is_answered_and_the_store_says_why() {
    let Some(place) = AerospikePlace::new_or_skip("retry_for_ms=300") else { return };
    let store = open(&place.url()).unwrap();
    let key = Key::new(1, "row");
    let create = WriteCell::create(key, Versions::random().next()).index(1, "m", Some(5));
    assert_eq!(suite::write(&store, create), Written::Done);
    let from = std::ops::Bound::Unbounded;
    let scan = ScanIndex { shard: 1, index: 1, from, until: 9, limit: 10 };
    assert_eq!(store.scan(std::slice::from_ref(&scan)).unwrap()[0].len(), 1);
    assert_eq!(store.probe(8), None);
    let (index, namespace) = place.index();
    let delete = format!("sindex-delete:namespace={namespace};indexname={index}");
    assert!(place.info(0, &delete).unwrap().eq_ignore_ascii_case("ok"));
    sleep(Duration::from_secs(2));
    let refused = store.scan(std::slice::from_ref(&scan)).unwrap_err();
    assert!(matches!(refused, RecordError::Unavailable { .. }), "{refused}");
    assert!(store.trouble().is_some_and(|trouble| trouble.passes));
    let probed = store.probe(8).unwrap();
    assert!(probed.passes && probed.reason.contains(&index), "{}", probed.reason);
    // Opening makes it, and waits for it.
    let again = open(&place.url()).unwrap();
    assert_eq!(again.scan(std::slice::from_ref(&scan)).unwrap()[0].len(), 1);
    assert_eq!(store.scan(&[scan]).unwrap()[0].len(), 1);
    assert_eq!(store.trouble(), None);
    assert_eq!(store.probe(8), None);
}

#[test]
fn a_probe_finds_a_node_that_takes_no_writes_and_leaves_nothing() {
    let Some((_place, proxy, store, _direct)) =
        behind_proxy("command_timeout_ms=1000&retry_for_ms=500")
    else {
        return;
    };
    let bytes = || store.stored_bytes().unwrap();
    assert_eq!(store.probe(8), None);
    let before = bytes();
    assert_eq!(store.probe(8), None);
    assert_eq!(bytes(), before, "a probe leaves nothing");
    proxy.set(ProxyFault::RequestsHeld);
    let probed = store.probe(8).unwrap();
    assert!(probed.passes, "{}", probed.reason);
    proxy.set(ProxyFault::None);
    for _ in 0..50 {
        if store.probe(8).is_none() {
            return;
        }
        sleep(Duration::from_millis(200));
    }
    panic!("it stays in trouble: {:?}", store.probe(8));
}

/// Whoever runs it kills nodes meanwhile: one at a time, since there are two copies of each record, and
/// the next one only when no partition moves any more. A node that is paused and comes back is a
/// partition: there acknowledged writes were seen to be lost, as the Community Edition says.
#[test]
fn nodes_that_fail_one_at_a_time_lose_nothing_that_was_acknowledged() {
    let seconds = std::env::var("UTXOKEEP_AEROSPIKE_FAULTS_S").ok();
    let Some(seconds) = seconds.and_then(|text| text.parse::<u64>().ok()) else {
        let needed = "UTXOKEEP_AEROSPIKE_FAULTS_S says for how long nodes are made to fail";
        skipped("faults of Aerospike nodes", REQUIRE, needed);
        return;
    };
    let Some(place) = AerospikePlace::new_or_skip("command_timeout_ms=1500") else { return };
    let store = open(&place.url()).unwrap();
    let load = Load::new(&store);
    let mut failures = 0;
    load.run(|| {
        load.wait_for_writes(2_000);
        eprintln!("the load runs");
        failures = place.failures_within(Duration::from_secs(seconds));
        load.wait_for_writes(2_000);
    });
    eprintln!("{failures} failures of nodes were seen");
    assert!(failures > 0, "no node failed: the test proves nothing");
}

/// `UTXOKEEP_AEROSPIKE_RESTART` is a command that kills the only node, starts it from its disk and waits
/// until it serves.
#[test]
fn deleted_cells_stay_deleted_when_the_server_starts_from_its_disk() {
    let Some(restart) = std::env::var("UTXOKEEP_AEROSPIKE_RESTART").ok() else {
        let needed = "UTXOKEEP_AEROSPIKE_RESTART is no command that restarts the server";
        skipped("a restart of Aerospike", REQUIRE, needed);
        return;
    };
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let store = open(&place.url()).unwrap();
    let versions = Versions::seeded(3);
    let key = |n: u16| Key::new(n % 8, format!("cell-{n}"));
    let cells: Vec<_> = (0..400).map(|n| (key(n), versions.next())).collect();
    let create = |(key, version): &(Key, _)| {
        let row = key.name.clone();
        WriteCell::create(key.clone(), *version).set("a", "unspent").index(1, row, Some(7))
    };
    let creates: Vec<_> = cells.iter().map(create).collect();
    let done = |writes: &[WriteCell]| {
        let written = store.write(writes, Barrier::Safe).unwrap();
        assert!(written.iter().all(|written| *written == Written::Done), "{written:?}");
    };
    done(&creates);
    // The writes have to reach the disk before they can come back from it.
    sleep(Duration::from_secs(3));
    let (deleted, discarded) = cells.split_at(200);
    let row = |write: WriteCell, key: &Key| write.index(1, key.name.clone(), None);
    let delete = |(key, read): &(Key, _)| row(WriteCell::delete(key.clone(), *read), key);
    done(&deleted.iter().map(delete).collect::<Vec<_>>());
    let discard = |(key, read): &(Key, _)| row(WriteCell::discard(key.clone(), *read), key);
    done(&discarded.iter().map(discard).collect::<Vec<_>>());
    sleep(Duration::from_secs(3));
    drop(store);
    assert!(std::process::Command::new("sh").args(["-c", &restart]).status().unwrap().success());
    let store = open(&place.url()).unwrap();
    let found = |cells: &[(Key, _)]| {
        let reads: Vec<_> = cells.iter().map(|(key, _)| ReadCell::all(key.clone())).collect();
        store.read(&reads).unwrap().into_iter().flatten().count()
    };
    let (of_deleted, of_discarded) = (found(deleted), found(discarded));
    eprintln!("of 200 each came back: {of_deleted} deleted, {of_discarded} discarded");
    assert_eq!(of_deleted, 0, "a deleted cell came back");
    assert!(of_discarded > 0, "without a tombstone none came back: the test proves nothing");
}
