//! Who creates a large transaction: a lock that is held on a real cluster, as each face shows it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use utxokeep_core::{
    Height, OpenMode, Txid,
    node::{CreateOptions, NodeTx},
};
use utxokeep_records::{
    Acknowledgement, Barrier, Cell, IndexPage, ReadCell, RecordError, RecordStore, RedisOptions,
    RedisRecords, ScanIndex, WriteCell, Written, testing::shared_url_or_skip,
};
use utxokeep_server::grpc::proto::{self, tx_store_client::TxStoreClient};
use utxokeep_testkit::txstore::seed;
use utxokeep_txstore::{
    NodeStore, RecordContext, RecordSettings, StoreOpenError, StoreSettings, TxStore as _,
};

use super::program::serve;
use crate::program::{Serving, told, utxokeep};

const SHARDS: u16 = 16;
const OUTPUTS_PER_RECORD: u32 = 4;
/// Writes after which a creator is through at the latest.
const WRITES_MAX: usize = 60;

/// The connection of a program that dies before one of its writes.
struct Dying {
    records: RedisRecords,
    left: AtomicUsize,
}

impl Dying {
    fn live<T>(&self, call: impl FnOnce() -> Result<T, RecordError>) -> Result<T, RecordError> {
        if self.left.load(Ordering::Relaxed) == 0 { Err(RecordError::Closed) } else { call() }
    }
}

impl RecordStore for Dying {
    fn read(&self, reads: &[ReadCell]) -> Result<Vec<Option<Cell>>, RecordError> {
        self.live(|| self.records.read(reads))
    }

    fn write(&self, writes: &[WriteCell], barrier: Barrier) -> Result<Vec<Written>, RecordError> {
        let mut written = Vec::with_capacity(writes.len());
        for write in writes {
            written.extend(self.live(|| self.records.write(std::slice::from_ref(write), barrier))?);
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn refuses_late_writes(&self) -> bool {
        self.records.refuses_late_writes()
    }

    fn scan(&self, scans: &[ScanIndex]) -> Result<Vec<IndexPage>, RecordError> {
        self.live(|| self.records.scan(scans))
    }

    fn now_ms(&self, shard: u16) -> Result<u64, RecordError> {
        self.live(|| self.records.now_ms(shard))
    }

    fn acknowledgement(&self) -> Acknowledgement {
        self.records.acknowledgement()
    }

    fn engine(&self) -> &'static str {
        self.records.engine()
    }
}

/// A store whose program dies after so many writes.
fn open(url: &str, writes: usize) -> Result<NodeStore, StoreOpenError> {
    let records = RedisRecords::open(RedisOptions::parse(url).unwrap()).unwrap();
    let port = Arc::new(Dying { records, left: AtomicUsize::new(writes) });
    let settings = RecordSettings::default().with(|settings| {
        settings.shards = SHARDS;
        settings.outputs_per_record = OUTPUTS_PER_RECORD;
    });
    let context = RecordContext {
        hostname: "the-dead-host".to_owned(),
        process_id: 4_711,
        ..RecordContext::default()
    };
    NodeStore::on_records(port, StoreSettings::default(), settings, context, OpenMode::Create)
}

/// Four records, with an id of its own.
fn large(number: usize) -> NodeTx {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
    NodeTx { txid: Txid::from_bytes(bytes), ..seed(1, &[9; 13]) }
}

/// A transaction whose creator died with its lock in hand, the transaction being there (`creating`) or
/// not yet.
fn abandoned(url: &str, is_there: bool) -> NodeTx {
    let alive = open(url, usize::MAX).unwrap();
    for writes in 0..WRITES_MAX {
        let tx = large(writes + if is_there { WRITES_MAX } else { 0 });
        if let Ok(dying) = open(url, writes) {
            let _ = dying.create(&[(tx.clone(), CreateOptions::default())], Height::new(5));
        }
        let fields = utxokeep_txstore::Fields::default();
        let found = alive.get(&[tx.txid], fields).unwrap().remove(0);
        let is_right = found.map_or(!is_there, |found| is_there && found.record.is_creating);
        if is_right && alive.creation_lock(&tx.txid).unwrap().is_some() {
            return tx;
        }
    }
    panic!("no creator died with its lock in hand");
}

#[test]
fn a_lock_that_a_dead_creator_left_is_shown_alike_on_every_face() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    drop(open(&url, usize::MAX).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "[txstore]\nurl = \"{url}\"\nrecord_shards = {SHARDS}\n\
         outputs_per_record = {OUTPUTS_PER_RECORD}\n"
    );
    let program = Serving::start(serve(dir.path(), &config));
    let file = dir.path().join("config.toml");
    for is_there in [false, true] {
        let tx = abandoned(&url, is_there);
        let (txid, lock) = (tx.txid, open(&url, usize::MAX).unwrap());
        let lock = lock.creation_lock(&txid).unwrap().expect("it is held for 38 seconds");
        let expected = json!({
            "tx_hash": txid.to_string(),
            "is_locked": true,
            "created_at": lock.created_at,
            "expires_at": lock.created_at + 38,
            "process_id": 4_711,
            "expected_recs": 4,
            "hostname": "the-dead-host",
        });

        let words = ["tx", "lock", &txid.to_string(), "--json"];
        let output = utxokeep(&words).arg("--config").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), expected);

        let answer = program.get(&format!("/api/v1/transactions/{txid}/lock"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{answer}");
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let over_grpc = runtime.block_on(async {
            let mut client = TxStoreClient::new(program.channel().await);
            let request = proto::GetCreationLockRequest { txid: txid.as_bytes().to_vec() };
            client.get_creation_lock(request).await.unwrap().into_inner().lock.unwrap()
        });
        assert_eq!((over_grpc.process_id, over_grpc.expected_recs), (4_711, 4));
        assert_eq!(over_grpc.hostname, "the-dead-host");
        assert_eq!(over_grpc.created_at, lock.created_at);
        assert_eq!(over_grpc.expires_at, lock.created_at + 38);
    }
    program.stop();
}
