//! The port on a real Aerospike server, where `UTXOKEEP_AEROSPIKE` names one.

use std::{thread::sleep, time::Duration};

use crate::faults::Load;
use utxokeep_records::{
    AerospikeOptions, AerospikeRecords, Barrier, Key, ReadCell, RecordError, RecordStore, Versions,
    WriteCell, Written,
    testing::{AerospikePlace, suite},
};

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
        assert_eq!(objects(), 1, "the tombstone is a record of its own");
    }
    let again = WriteCell::create(key.clone(), second);
    assert_eq!(suite::write(&store, again), Written::Done);
    assert_eq!(suite::write(&store, WriteCell::discard(key, second)), Written::Done);
    if place.nodes() == 1 && place.url().contains("/test?") {
        assert_eq!(objects(), 0, "one that may come back leaves nothing");
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
        eprintln!("skipped: the server has no namespace noexp with nsup-period 0");
    }
    if place.nodes() == 1 {
        let refused = open(&place.url().replace("ack=primary", "ack=replica")).unwrap_err();
        assert!(refused.to_string().contains("two copies"), "{refused}");
    }
}

#[test]
fn a_record_that_is_too_large_for_the_server_is_not_written() {
    let Some(place) = AerospikePlace::new_or_skip("") else { return };
    let store = open(&place.url()).unwrap();
    let (versions, key) = (Versions::seeded(2), Key::new(1, "large"));
    let write = WriteCell::create(key.clone(), versions.next()).set("b", vec![7; 9 << 20]);
    let written = store.write(&[write], Barrier::Safe).unwrap();
    assert_eq!(written, [Written::Unavailable]);
    assert!(store.trouble().is_some());
    assert_eq!(store.read(&[ReadCell::version(key)]).unwrap(), [None]);
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let url = "aerospike://127.0.0.1:1/test?connect_timeout_ms=200&retry_for_ms=0";
    let refused = open(url).unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
}

/// Whoever runs it kills nodes meanwhile: one at a time, since there are two copies of each record, and
/// the next one only when no partition moves any more. A node that is paused and comes back is a
/// partition: there acknowledged writes were seen to be lost, as the Community Edition says.
#[test]
fn nodes_that_fail_one_at_a_time_lose_nothing_that_was_acknowledged() {
    let seconds = std::env::var("UTXOKEEP_AEROSPIKE_FAULTS_S").ok();
    let Some(seconds) = seconds.and_then(|text| text.parse::<u64>().ok()) else {
        eprintln!("skipped: UTXOKEEP_AEROSPIKE_FAULTS_S says for how long nodes are made to fail");
        return;
    };
    let Some(place) = AerospikePlace::new_or_skip("command_timeout_ms=1500") else { return };
    let store = open(&place.url()).unwrap();
    let load = Load::new(&store);
    load.run(|| {
        load.wait_for_writes(2_000);
        eprintln!("the load runs");
        sleep(Duration::from_secs(seconds));
        load.wait_for_writes(2_000);
    });
}

/// `UTXOKEEP_AEROSPIKE_RESTART` is a command that kills the only node, starts it from its disk and waits
/// until it serves.
#[test]
fn deleted_cells_stay_deleted_when_the_server_starts_from_its_disk() {
    let Some(restart) = std::env::var("UTXOKEEP_AEROSPIKE_RESTART").ok() else {
        eprintln!("skipped: UTXOKEEP_AEROSPIKE_RESTART is no command that restarts the server");
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
