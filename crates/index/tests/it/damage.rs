//! Damage of every kind is found by `verify`, and named.

mod mmr;

use utxokeep_chains::{BlockDecoder, Simulator, SimulatorConfig, cardano::Genesis};
use utxokeep_core::{Height, Network, OutPoint, UtxoRecord, hex_encode};
use utxokeep_index::{
    ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings,
    tables::{
        TABLES,
        ids::{
            ADDR, ADDR_SPENT, BLOCKS, DELTA, HEIGHTS, META, MUHASH, SIDE, SIDE_BODY, SPENT,
            UNSPENT, UTXO_META,
        },
    },
};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan, TableId};
use utxokeep_testkit::{
    Archive,
    cardano::{BlockSpec, Credential, Era, OutSpec, TxSpec, enterprise, fund_of, shelley_genesis},
};

use crate::common::{self, InMemory, IndexPlace, MemoryEngine, assert_clean};

type Row = (Vec<u8>, Vec<u8>);

/// A database with rows in every table, in the middle of pruning a block.
struct Database {
    place: InMemory,
    index: ChainIndex<MemoryEngine>,
}

impl Database {
    fn new(delta: DeltaKind) -> Self {
        Self::of(|settings| settings.delta = delta)
    }

    fn of(change: impl FnOnce(&mut IndexSettings)) -> Self {
        let config = SimulatorConfig {
            seed: 3,
            txs_per_block: 3..9,
            reorg_percent: 25,
            reorg_depth_max: 3,
            same_block_spend_percent: 25,
            addresses: 9,
            ..SimulatorConfig::default()
        };
        let mut simulator = Simulator::new(config);
        let settings = common::settings(6).with(|settings| {
            change(settings);
            settings.muhash = true;
            settings.prune_rows_max = 3;
        });
        let place = InMemory::default();
        let index = place.open(settings);
        let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let mut archive = Archive::default();
        while simulator.tip_height().get() < 118 {
            let (header, raw) = simulator.mine_next();
            archive.push(header, raw);
            follower.accept(&header, &archive).unwrap();
        }
        let database = Self { place, index };
        while database.place.0.get(UTXO_META, b"prune_cursor").unwrap().is_none()
            || follower.writer().floor().get() < 110
        {
            follower.writer_mut().prune_pass().unwrap();
        }
        assert_clean(&database.index, "before any damage");
        database
    }

    fn rows(&self, table: TableId) -> Vec<Row> {
        let mut rows = Vec::new();
        self.place
            .0
            .scan(table, &Scan::ALL, &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                true
            })
            .unwrap();
        rows
    }

    fn put(&self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(table, key, value),
            None => batch.delete(table, key),
        }
        self.place.0.commit(batch, Durability::Synced).unwrap();
    }

    /// What `verify` says while a row has another value, or none.
    fn with(&self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Vec<String> {
        let before = self.place.0.get(table, key).unwrap();
        self.put(table, key, value);
        let report = self.index.verify(&mut |_, _| {}).unwrap();
        self.put(table, key, before.as_deref());
        report.findings.iter().map(|finding| format!("{finding:?}")).collect()
    }

    fn flipped(&self, table: TableId, (key, value): &Row, at: usize) -> Vec<String> {
        let mut damaged = value.clone();
        damaged[at] ^= 1;
        self.with(table, key, Some(&damaged))
    }
}

/// The newest row of a table, or one in its middle.
fn pick(rows: &[Row], newest: bool) -> &Row {
    &rows[if newest { rows.len() - 1 } else { rows.len() / 2 }]
}

#[test]
fn a_missing_row_of_any_kind_is_found_and_a_surplus_one_too() {
    let database = Database::new(DeltaKind::Compact);
    let named = [
        (BLOCKS, "chain_blocks", "chain_blocks has 120 rows"),
        (HEIGHTS, "maps elsewhere", "chain_heights has 120 rows"),
        (UNSPENT, "address rows", "utxo_addr lacks"),
        (SPENT, "spent rows", "spent rows"),
        (ADDR, "utxo_addr lacks", "address rows"),
        (ADDR_SPENT, "utxo_addr_spent lacks", "spent address rows"),
        (DELTA, "utxo_block_delta", "deltas where"),
        (MUHASH, "accumulators where", "accumulators where"),
        (SIDE, "have a header", ""),
        (SIDE_BODY, "", "have a header"),
    ];
    for (table, missing, surplus) in named {
        let rows = database.rows(table);
        for newest in [true, false] {
            let (key, value) = pick(&rows, newest);
            let what = format!("{} {}", TABLES[usize::from(table.0)].name, hex_encode(key));
            // A header may be kept without a body, and one more header may wait for one.
            if !missing.is_empty() {
                let found = database.with(table, key, None);
                assert!(found.iter().any(|f| f.contains(missing)), "{what} gone: {found:?}");
            }
            if !surplus.is_empty() {
                let mut other = key.clone();
                *other.last_mut().unwrap() ^= 0x80;
                let found = database.with(table, &other, Some(value));
                assert!(found.iter().any(|f| f.contains(surplus)), "{what} twice: {found:?}");
            }
        }
    }
    assert_clean(&database.index, "mended");
}

/// Bytes that no other row repeats: only the engine's checksums guard them.
fn is_alone(table: TableId, delta: DeltaKind, at: usize, len: usize) -> bool {
    match table {
        // Time, work, number of transactions.
        BLOCKS => (73..83).contains(&at),
        // Work and time of a branch.
        SIDE => (39..71).contains(&at) || at > 72,
        // Who spent it, where the delta does not say so too; and all of an output that its own
        // block spent, because it comes and goes within the totals of one block.
        SPENT => delta == DeltaKind::Compact && !(36..=42).contains(&at),
        // The flags nobody reads yet.
        DELTA => at + 35 < len && at + 40 > len,
        _ => false,
    }
}

#[test]
fn a_flipped_bit_in_any_kind_of_row_is_found() {
    for delta in [DeltaKind::Compact, DeltaKind::SelfContained] {
        let database = Database::new(delta);
        // What is left of a half-pruned block is counted, not compared.
        common::prune_fully(&mut ChainWriter::new(database.index.clone()).unwrap());
        let tables = [BLOCKS, HEIGHTS, SIDE, UNSPENT, SPENT, ADDR, ADDR_SPENT, DELTA, MUHASH];
        for table in tables {
            let rows = database.rows(table);
            let mut tried = 0;
            for newest in [true, false] {
                // Below the window nothing repeats the totals of a block.
                if table == BLOCKS && !newest {
                    continue;
                }
                let row = pick(&rows, newest);
                let len = row.1.len();
                for at in (0..len).step_by(len.div_ceil(24)) {
                    if is_alone(table, delta, at, len) {
                        continue;
                    }
                    let found = database.flipped(table, row, at);
                    let name = TABLES[usize::from(table.0)].name;
                    assert!(
                        !found.is_empty(),
                        "{delta:?} {name}: byte {at} of {}",
                        hex_encode(&row.0)
                    );
                    tried += 1;
                }
            }
            assert!(tried > 0);
        }
        assert_clean(&database.index, "mended");
    }
}

#[test]
fn a_damaged_tip_base_or_cursor_is_found() {
    let database = Database::new(DeltaKind::Compact);
    for (table, key) in [(META, "tip"), (UTXO_META, "undo_base"), (UTXO_META, "prune_cursor")] {
        let key = key.as_bytes();
        let value = database.place.0.get(table, key).unwrap().unwrap();
        let row = (key.to_vec(), value);
        for at in 0..row.1.len() {
            let found = database.flipped(table, &row, at);
            assert!(!found.is_empty(), "byte {at} of {}", String::from_utf8_lossy(key));
        }
        assert!(!database.with(table, key, Some(b"?")).is_empty());
        assert!(!database.with(table, key, None).is_empty());
    }
}

/// Rolling back to such a height would leave an index that cannot be opened for writing.
#[test]
fn a_missing_or_wrong_accumulator_below_the_tip_is_found() {
    let database = Database::new(DeltaKind::Compact);
    let rows = database.rows(MUHASH);
    let (oldest, newest) = (&rows[0], &rows[rows.len() - 1]);
    let found = database.with(MUHASH, &oldest.0, None);
    assert!(found.iter().any(|f| f.contains("accumulators where")), "{found:?}");
    let found = database.with(MUHASH, &oldest.0, Some(&newest.1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("is not that of its set"), "{found:?}");
}

#[test]
fn a_damaged_body_of_a_side_block_is_found() {
    let database = Database::new(DeltaKind::Compact);
    let rows = database.rows(SIDE_BODY);
    let row = pick(&rows, true);
    assert_eq!(row.1[0], 0, "the kept branch never was the best: its body is the raw block");
    // Witnesses are left out: decoding does not look at them.
    for at in [0, 1, 40, 90, 150] {
        let found = database.flipped(SIDE_BODY, row, at);
        assert!(found.iter().any(|f| f.contains("side block")), "byte {at}: {found:?}");
    }
}

#[test]
fn findings_name_the_check_and_the_place() {
    let database = Database::new(DeltaKind::Compact);
    let rows = database.rows(UNSPENT);
    let row = pick(&rows, true);
    let found = database.with(UNSPENT, &row.0, Some(b"\xff"));
    assert!(found[0].contains("live outputs") && found[0].contains(&hex_encode(&row.0)));

    let rows = database.rows(BLOCKS);
    let found = database.with(BLOCKS, &rows[60].0, Some(b"\xff"));
    assert!(found[0].contains("chain log") && found[0].contains("block entry"), "{found:?}");

    // The block the tip names: nothing else can be looked at.
    let found = database.with(BLOCKS, &rows[118].0, Some(b"\xff"));
    assert!(found.len() == 1 && found[0].contains("corrupt block entry"), "{found:?}");
    let found = database.with(HEIGHTS, &database.rows(HEIGHTS)[7].0, Some(b"12345"));
    assert!(found.iter().any(|f| f.contains("maps elsewhere")), "{found:?}");
}

#[test]
fn damage_of_a_cardano_index_names_outputs_as_cardano_writes_them() {
    let owner = enterprise(0, Credential::Key([7; 28]));
    let genesis = shelley_genesis(10, &[(&owner, 1_000_000)]);
    let genesis = Genesis::from_files(None, genesis.as_bytes()).unwrap();
    let decoder = BlockDecoder::with_genesis(Network::CardanoDevnet, genesis);
    let place = InMemory::default();
    let index = place.open(IndexSettings::with_decoder(decoder));
    let first = BlockSpec::first(Era::Babbage, Vec::new()).build();
    let payment = TxSpec::new(&[fund_of(&owner)], &[OutSpec::new(&owner, 1_000_000)]);
    let second = first.next(Era::Babbage, vec![payment]).build();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    for raw in [first.raw, second.raw] {
        writer.apply(&index.settings().decoder.decode(raw).unwrap()).unwrap();
    }
    drop(writer);
    let database = Database { place, index };
    let (key, value) = database.rows(UNSPENT).remove(0);
    let outpoint = OutPoint::from_key(&key).unwrap();
    let record = UtxoRecord::decode(&value).unwrap();
    let above = UtxoRecord { height: Height::new(9), ..record }.encode();
    let named = format!("{}:{} was created above", outpoint.txid().to_hex(), outpoint.index());
    let findings = database.with(UNSPENT, &key, Some(&above));
    assert!(findings.iter().any(|finding| finding.contains(&named)), "{findings:?}");
    let lost = format!("{}:{} created at", outpoint.txid().to_hex(), outpoint.index());
    let findings = database.with(UNSPENT, &key, None);
    assert!(findings.iter().any(|finding| finding.contains(&lost)), "{findings:?}");
}
