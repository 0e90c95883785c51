//! Clients that hang up in the middle of a long read.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use tonic::Code;
use utxokeep::{
    config::{GrpcConfig, TxStoreConfig},
    memory::Budget,
    node_store,
};
use utxokeep_core::OpenMode;
use utxokeep_server::grpc::proto;
use utxokeep_sql::{Database, Options};

use crate::grpc::served::{ITEMS_MAX, Served};

/// Makes every read of a transaction endless.
const ENDLESS: &str = "ALTER TABLE node_transactions RENAME TO kept;
    CREATE VIEW node_transactions AS
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT kept.* FROM n CROSS JOIN kept WHERE n.i < 0";

/// Reads whose clients hang up, one after the other. What they ask with is more than there is memory
/// for, all together.
const ROUNDS: usize = 40;

#[test]
fn a_read_whose_client_hangs_up_gives_its_place_and_its_memory_back() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("store").display());
    let store = node_store::open(&url, &TxStoreConfig::default(), OpenMode::Create).unwrap();
    let one = NonZeroU32::MIN;
    let config = GrpcConfig {
        concurrent_calls_max: one,
        call_timeout_ms: NonZeroU32::new(600_000).unwrap(),
        ..GrpcConfig::default()
    };
    let served = Served::start_within(store, &config, Budget::new(one));
    let database = Database::open(&url, &Options::default()).unwrap();
    database.write(|tx| tx.execute_batch(ENDLESS)).unwrap();

    // Waits for a place like any other call, and reads no transaction.
    let is_place_free = || {
        let mut request = tonic::Request::new(proto::GetBlockStateRequest {});
        request.set_timeout(Duration::from_millis(100));
        match served.runtime.block_on(served.client().get_block_state(request)) {
            Ok(_) => true,
            Err(status) => {
                let is_late = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
                assert!(is_late, "{status}");
                false
            }
        }
    };
    let wait_until = |wanted: bool, what: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_place_free() != wanted {
            assert!(Instant::now() < deadline, "{what}");
        }
    };
    for round in 0..ROUNDS {
        let txids = vec![vec![7; 32]; ITEMS_MAX];
        let mut client = served.client();
        let asked = async move { client.get(proto::GetRequest { txids, fields: None }).await };
        let read = served.runtime.spawn(asked);
        wait_until(false, "the read never took its place");
        assert!(!read.is_finished(), "round {round}: {:?}", served.runtime.block_on(read));
        read.abort();
        wait_until(true, "the place of a client that is gone is never free");
    }
}
