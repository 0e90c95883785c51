//! A store with a record of every kind, whose rows can be changed from outside.

use std::path::PathBuf;

use tempfile::TempDir;
use utxokeep_core::{
    Height, OpenMode, OutPoint, Txid,
    node::{
        BlobKind, CreateOptions, MinedBlock, MinedInfo, NodeTx, OutputRecord, OutputState,
        PruneRules, Pruned, SpendAndCreate, SpendFlags, SpendingData, TxRecord, decode_record,
        encode_output, encode_record,
    },
};
use utxokeep_kv::{Batch, Durability, Kv as _, Read as _, RocksKv, RocksOptions, TableId};
use utxokeep_sql::{Database, Options, SqlError, Transaction, Value};
use utxokeep_testkit::{
    Hook, HookedKv,
    postgres::TestDatabase,
    txstore::{coinbase, seed, spending},
};
use utxokeep_txstore::{Blobs, NodeStore, PruneStore as _, StoreSettings, TABLES, TxStore as _};

/// Bodies above this length are in files.
const INLINE_MAX: usize = 400;

#[derive(Debug, Default)]
pub(crate) struct Silent;

impl Hook for Silent {}

/// The rows below the store.
pub(crate) enum Below {
    Rocks(HookedKv<RocksKv, Silent>),
    Sql(Box<Database>),
}

pub(crate) struct World {
    pub(crate) engine: &'static str,
    pub(crate) store: NodeStore,
    pub(crate) below: Below,
    pub(crate) txs: Vec<NodeTx>,
    pub(crate) files: PathBuf,
    _place: (TempDir, Option<TestDatabase>),
}

pub(crate) fn at(height: u32) -> Height {
    Height::new(height)
}

pub(crate) fn table(name: &str) -> TableId {
    let position = TABLES.iter().position(|table| table.name == name).unwrap();
    TableId(u8::try_from(position).unwrap())
}

/// On RocksDB, SQLite, and PostgreSQL where it is installed.
pub(crate) fn worlds() -> Vec<World> {
    let settings =
        StoreSettings::default().with(|settings| settings.inline_body_bytes_max = INLINE_MAX);
    let dir = TempDir::new().unwrap();
    let kv = RocksKv::open(
        &dir.path().join("db"),
        TABLES,
        RocksOptions::within(16 << 20),
        OpenMode::Create,
    );
    let kv = HookedKv::new(kv.unwrap(), Silent);
    let store = NodeStore::on_kv(kv.clone(), settings, Durability::Buffered).unwrap();
    let mut worlds = vec![World::fill("rocksdb", store, Below::Rocks(kv), (dir, None))];
    let dir = TempDir::new().unwrap();
    let url = format!("sqlite:{}", dir.path().join("db").display());
    worlds.push(World::on_sql("sqlite", &url, settings, (dir, None)));
    if let Some(database) = TestDatabase::create_or_skip() {
        let url = database.url().to_owned();
        let place = (TempDir::new().unwrap(), Some(database));
        worlds.push(World::on_sql("postgres", &url, settings, place));
    }
    worlds
}

impl World {
    fn on_sql(
        engine: &'static str,
        url: &str,
        settings: StoreSettings,
        place: (TempDir, Option<TestDatabase>),
    ) -> Self {
        let open = || Database::open(url, &Options::default()).unwrap();
        let store = NodeStore::on_sql(open(), settings, 0).unwrap();
        Self::fill(engine, store, Below::Sql(Box::new(open())), place)
    }

    fn fill(
        engine: &'static str,
        store: NodeStore,
        below: Below,
        place: (TempDir, Option<TestDatabase>),
    ) -> Self {
        let files = place.0.path().join("files");
        let blobs = format!("file:{}", files.display());
        let store = store.with_blobs(
            Blobs::open(&blobs, Durability::Buffered, 5_000, OpenMode::Create).unwrap(),
        );
        let txs = tell_story(&store);
        let world = Self { engine, store, below, txs, files, _place: place };
        let report = world.store.verify().unwrap();
        assert!(report.is_clean(), "{engine}: {:?}", report.findings);
        world
    }

    pub(crate) fn record(&self, txid: &Txid) -> TxRecord {
        let found = self.store.get(&[*txid], utxokeep_txstore::Fields::default()).unwrap();
        found.into_iter().next().flatten().unwrap().record
    }

    /// Exchanges a record; answers whether the database took it.
    pub(crate) fn put_record(&self, txid: &Txid, record: &TxRecord) -> bool {
        match &self.below {
            Below::Rocks(kv) => {
                let bytes = encode_record(record);
                assert_eq!(decode_record(&bytes).as_ref(), Ok(record), "it is a record");
                let mut batch = Batch::new();
                batch.put(table("tx_records"), txid.as_bytes(), &bytes);
                kv.kv.commit(batch, Durability::Buffered).unwrap();
                true
            }
            Below::Sql(database) => database.write(|tx| put_columns(tx, txid, record)).is_ok(),
        }
    }

    /// Exchanges an output; answers whether the database took it.
    pub(crate) fn put_slot(&self, outpoint: &OutPoint, slot: &OutputRecord) -> bool {
        match &self.below {
            Below::Rocks(kv) => {
                let mut batch = Batch::new();
                batch.put(table("tx_slots"), &outpoint.to_key(), &encode_output(slot));
                kv.kv.commit(batch, Durability::Buffered).unwrap();
                true
            }
            Below::Sql(database) => {
                let sql = "UPDATE node_outputs SET utxo_hash = $3, spending_data = $4, \
                           is_frozen = $5, spendable_at = $6 WHERE txid = $1 AND vout = $2";
                let spent_by = slot.spent_by().map(SpendingData::to_bytes);
                let values = [
                    Value::from(outpoint.txid().as_bytes()),
                    Value::from(outpoint.index()),
                    Value::from(&slot.hash),
                    Value::from(spent_by.as_ref()),
                    Value::from(slot.state == OutputState::Frozen),
                    Value::from(slot.spendable_at),
                ];
                let changed: Result<u64, SqlError> = database.write(|tx| tx.execute(sql, &values));
                changed.is_ok_and(|rows| rows == 1)
            }
        }
    }

    /// The file with a body.
    pub(crate) fn file(&self, tx: &NodeTx) -> PathBuf {
        let name = tx.txid.to_reversed_hex();
        let extension = if tx.inputs.is_empty() { BlobKind::Outputs } else { BlobKind::Tx };
        self.files.join(&name[..2]).join(format!("{name}.{}", extension.extension()))
    }

    pub(crate) fn row(&self, name: &str, key: &[u8]) -> Vec<u8> {
        let Below::Rocks(kv) = &self.below else { panic!("not on key-value tables") };
        kv.kv.get(table(name), key).unwrap().unwrap()
    }
}

fn put_columns(tx: &mut Transaction<'_>, txid: &Txid, record: &TxRecord) -> Result<(), SqlError> {
    let height = |height: Option<Height>| Value::from(height.map(Height::get));
    let len = |len: usize| Value::from(i64::try_from(len).unwrap());
    let blob = record.blob.map_or(0, |kind| if kind == BlobKind::Tx { 1 } else { 2 });
    let mut set = vec![
        ("is_coinbase", Value::from(record.is_coinbase)),
        ("is_conflicting", Value::from(record.is_conflicting)),
        ("is_locked", Value::from(record.is_locked)),
        ("blob", Value::from(blob)),
        ("spendable_at", height(record.spendable_at)),
        ("outputs", Value::from(record.outputs)),
        ("utxos", Value::from(record.utxos)),
        ("spent", Value::from(record.spent)),
        ("spent_at", height(record.spent_at)),
        ("unmined_since", height(record.unmined_since)),
        ("created_at_ms", Value::from(i64::try_from(record.created_at_ms).unwrap())),
        ("delete_at_height", height(record.delete_at)),
        ("preserve_until", height(record.preserve_until)),
        ("kept_for_child_until", height(record.kept_for_child_until)),
        ("blocks", len(record.blocks.len())),
        ("conflicting_children", len(record.conflicting_children.len())),
        ("reassignments", len(record.reassignments.len())),
        ("deleted_children", Value::from(record.deleted_children)),
    ];
    if record.blob.is_some() {
        set.push(("body_checksum", Value::from(record.file_checksum)));
    }
    for (column, value) in set {
        let sql = format!("UPDATE node_transactions SET {column} = $2 WHERE txid = $1");
        tx.execute(&sql, &[Value::from(txid.as_bytes()), value])?;
    }
    for name in ["node_block_ids", "node_conflicting_children", "node_reassignments"] {
        let sql = format!("DELETE FROM {name} WHERE txid = $1");
        tx.execute(&sql, &[Value::from(txid.as_bytes())])?;
    }
    for (position, block) in (0u32..).zip(&record.blocks) {
        let sql = "INSERT INTO node_block_ids (txid, position, block_id, block_height, subtree_idx) \
                   VALUES ($1, $2, $3, $4, $5)";
        let (id, at, subtree) = (block.id, block.height.get(), block.subtree);
        let values = [position, id, at, subtree].map(Value::from);
        tx.execute(sql, &[&[Value::from(txid.as_bytes())], values.as_slice()].concat())?;
    }
    for (position, child) in (0u32..).zip(&record.conflicting_children) {
        let sql = "INSERT INTO node_conflicting_children (txid, position, child_txid) \
                   VALUES ($1, $2, $3)";
        let (parent, child) = (Value::from(txid.as_bytes()), Value::from(child.as_bytes()));
        tx.execute(sql, &[parent, Value::from(position), child])?;
    }
    for (position, given) in (0u32..).zip(&record.reassignments) {
        let sql = "INSERT INTO node_reassignments (txid, position, vout, old_hash, new_hash, \
                   script, height) VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values = [
            Value::from(txid.as_bytes()),
            Value::from(position),
            Value::from(given.vout),
            Value::from(&given.old),
            Value::from(&given.new),
            Value::from(&given.script),
            Value::from(given.height.get()),
        ];
        tx.execute(sql, &values)?;
    }
    Ok(())
}

fn mine(store: &NodeStore, tx: &NodeTx, height: u32) {
    let info = MinedInfo {
        block: MinedBlock { id: height, height: at(height), subtree: 1 },
        on_longest_chain: true,
        unset: false,
        unmined_since: at(height),
    };
    store.set_mined(&[tx.txid], &info).unwrap().remove(0).unwrap();
}

/// Stores a transaction at a height; one that spends something spends it.
fn put(store: &NodeStore, tx: &NodeTx, height: u32, options: &CreateOptions) {
    let create_only = tx.is_coinbase || tx.inputs.is_empty() || options.is_conflicting;
    let how = SpendAndCreate { spend_only: false, create_only, flags: SpendFlags::default() };
    store.spend_and_create(tx, at(height), how, options).unwrap().unwrap();
}

/// Everything that a record can be, in blocks 900, 901 and 1001; answers what is there at the end.
fn tell_story(store: &NodeStore) -> Vec<NodeTx> {
    let plain = CreateOptions { created_at_ms: 7, ..CreateOptions::default() };
    let [due, coin, held, kept] = [1, 3, 5, 7].map(|name| seed(name, &[5, 6]));
    let (of_due, of_held) =
        (spending(2, &[(&due, 0), (&due, 1)], &[4]), spending(6, &[(&held, 0), (&held, 1)], &[4]));
    let waiting = spending(8, &[(&kept, 0), (&kept, 1)], &[4]);
    let locked = seed(9, &[5]);
    let loser = spending(10, &[(&coin, 0)], &[4]);
    let minted = coinbase(11, &[50]);
    let given = seed(12, &[5, 6]);
    let marked = seed(13, &[5, 6]);
    let mut large = spending(14, &[(&coin, 1)], &[5]);
    large.outputs[0].script = vec![0x51; INLINE_MAX];
    let alone = seed(16, &[5]);
    let pruned = spending(15, &[(&marked, 0)], &[0]);
    for tx in [&due, &coin, &held, &kept, &minted, &given, &marked] {
        put(store, tx, 900, &plain);
        mine(store, tx, 900);
    }
    // Nothing else that stays is in block 901.
    for tx in [&pruned, &alone] {
        put(store, tx, 901, &plain);
        mine(store, tx, 901);
    }
    for tx in [&of_due, &of_held, &large] {
        put(store, tx, 1_000, &plain);
        mine(store, tx, 1_001);
    }
    put(store, &waiting, 1_000, &plain);
    put(store, &locked, 1_000, &CreateOptions { is_locked: true, ..plain.clone() });
    put(store, &loser, 1_000, &CreateOptions { is_conflicting: true, ..plain });
    assert_eq!(store.preserve(&[held.txid], at(2_000)).unwrap(), 1);
    assert_eq!(store.preserve_parents(&[kept.txid], at(2_440)).unwrap(), 1);
    let output = (OutPoint::new(given.txid, 0), given.utxo_hash(0).unwrap());
    store.freeze(&[output]).unwrap().remove(0).unwrap();
    store.reassign(output.0, output.1, &[0x52], at(1_001)).unwrap().unwrap();
    let went = store.prune(&[pruned.txid], &PruneRules::at(at(1_300), 288)).unwrap().unwrap();
    assert!(matches!(went[0], Pruned::Deleted { .. }), "{went:?}");
    vec![
        due, coin, held, kept, of_due, of_held, waiting, locked, loser, minted, given, marked,
        alone, large,
    ]
}
