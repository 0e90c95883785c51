//! What health says of a store on a real cluster, and what calls say meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use utxokeep_kv::OpenMode;
use utxokeep_records::{RedisOptions, RedisRecords, testing::TestCluster};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, RecordContext, StoreSettings, TxStore as _};

use super::{connect, record_settings};
use crate::records::world::{create, record, take};

/// Reads only, while a server is away.
fn open_to_read(url: &str) -> NodeStore {
    let port = RedisRecords::open_to_read(RedisOptions::parse(url).unwrap()).unwrap();
    let (settings, context) = (StoreSettings::default(), RecordContext::default());
    let mode = OpenMode::Read;
    NodeStore::on_records(Arc::new(port), settings, record_settings(), context, mode).unwrap()
}

/// A replica that has just come back may acknowledge its first writes late, so that a look right after it
/// may still find trouble, which has to pass.
fn wait_until_well(store: &NodeStore) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Some(trouble) = store.trouble() {
        assert!(trouble.passes, "{}", trouble.reason);
        assert!(Instant::now() < end, "did not pass in a minute: {}", trouble.reason);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_replica_that_is_away_shows_in_health_and_in_errors_and_keeps_nobody_from_reading() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=300&command_timeout_ms=1500");
    let settings = StoreSettings::default().with(|settings| settings.health_probe_ms = 1);
    let context = RecordContext::default();
    let (port, records) = (connect(&url), record_settings());
    let store = NodeStore::on_records(port, settings, records, context, OpenMode::Create).unwrap();
    let parents: Vec<_> = (0..24_u8).map(|number| seed(10 * number, &[9])).collect();
    for parent in &parents {
        create(&store, parent).unwrap().unwrap();
    }
    wait_until_well(&store);
    cluster.kill(3).unwrap();
    let primary = cluster.port(0).to_string();
    let trouble = store.trouble().unwrap();
    assert!(trouble.passes && trouble.reason.contains(&primary), "{}", trouble.reason);
    let mut refused = 0;
    for (number, parent) in (0..).zip(&parents) {
        let begin = Instant::now();
        let child = spending(10 * number + 1, &[(parent, 0)], &[4]);
        let Err(error) = take(&store, &child) else { continue };
        let text = error.to_string();
        assert!(text.contains(&primary), "it names the shard: {text}");
        let longest = 3 * Duration::from_millis(records.wait_ms_max);
        assert!(begin.elapsed() < longest, "{:?}", begin.elapsed());
        refused += 1;
        if refused == 2 {
            break;
        }
    }
    assert_eq!(refused, 2, "a third of the shards is on that server");
    let still = store.trouble().unwrap();
    assert!(still.reason.contains(&primary), "calls to others say nothing: {}", still.reason);

    let reader = open_to_read(&url);
    assert!(parents.iter().all(|parent| record(&reader, parent).is_some()));
    assert!(reader.verify().is_ok());
    cluster.restart(3).unwrap();
    cluster.wait_ready().unwrap();
    wait_until_well(&store);
}
