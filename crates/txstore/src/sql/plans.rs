//! No statement of the store reads a whole table to find a few rows.

use utxokeep_core::node::HeightIndex;
use utxokeep_sql::{Database, Durability, Options, Transaction, Value, migrate_up};
use utxokeep_testkit::postgres::TestDatabase;

use super::{
    schema::{COMPONENT, MIGRATIONS},
    statements::{
        OUTPUTS_TAIL, SETTLED_HEAD, SPENDS_HEAD, SPENDS_TAIL, by_height, outputs_head,
        records_head, slots_head,
    },
    write::{OF_TRANSACTION, UPDATE_RECORDS, UPDATE_SLOTS},
};

const TABLES: [&str; 7] = [
    "node_transactions",
    "node_inputs",
    "node_outputs",
    "node_block_ids",
    "node_conflicting_children",
    "node_reassignments",
    "node_deleted_children",
];
const TRANSACTIONS: u32 = 4_000;

fn id(number: u32) -> [u8; 32] {
    let mut id = [7; 32];
    id[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
    id
}

/// Enough rows that reading all of them would show, with some in each index.
fn fill(transaction: &mut Transaction<'_>) {
    let ids: Vec<_> = (0..TRANSACTIONS).map(id).collect();
    let (mut records, mut outputs, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for (number, id) in (0u32..).zip(&ids) {
        let some = |every: u32| (number % every == 0).then_some(number);
        records.extend([Value::from(id), Value::from(some(3)), Value::from(some(2))]);
        records.push(Value::from(if number % 2 == 0 { None } else { some(5) }));
        for vout in 0..3u32 {
            outputs.extend([Value::from(id), Value::from(vout), Value::from(id)]);
        }
        first.extend([Value::from(id), Value::from(0u32)]);
    }
    let head = "INSERT INTO node_transactions (is_coinbase, is_conflicting, is_locked, blob, \
                outputs, utxos, spent, created_at_ms, blocks, conflicting_children, \
                reassignments, deleted_children, txid, unmined_since, delete_at_height, \
                preserve_until) SELECT 0, 0, 0, 0, 3, 3, 0, 0, 1, 0, 0, 0, v.column1, \
                v.column2, v.column3, v.column4 FROM (VALUES";
    transaction.execute_rows(head, ") AS v", &[], 4, &records).unwrap();
    let head = "INSERT INTO node_outputs (is_frozen, txid, vout, utxo_hash) \
                SELECT 0, v.column1, v.column2, v.column3 FROM (VALUES";
    transaction.execute_rows(head, ") AS v", &[], 3, &outputs).unwrap();
    // Every list has one entry, every transaction one input.
    for (columns, of) in [
        ("node_block_ids (block_id, block_height, subtree_idx, txid, position)", "1, 5, 0"),
        ("node_conflicting_children (child_txid, txid, position)", "v.column1"),
        (
            "node_reassignments (vout, old_hash, new_hash, script, height, txid, position)",
            "0, v.column1, v.column1, v.column1, 5",
        ),
        (
            "node_inputs (previous_txid, previous_vout, script, sequence, txid, vin)",
            "v.column1, 0, v.column1, 0",
        ),
    ] {
        let head = format!("INSERT INTO {columns} SELECT {of}, v.column1, v.column2 FROM (VALUES");
        transaction.execute_rows(&head, ") AS v", &[], 2, &first).unwrap();
    }
    let head = "INSERT INTO node_deleted_children (parent_txid, child_txid) VALUES";
    let pairs: Vec<_> = ids.iter().flat_map(|id| [Value::from(id), Value::from(id)]).collect();
    transaction.insert_rows(head, "", 2, &pairs).unwrap();
}

/// Placeholders for so many rows, such as `($1,$2),($3,$4)`.
fn rows(count: usize, columns: usize) -> String {
    let row = |row: usize| {
        let cells: Vec<_> =
            (1..=columns).map(|cell| format!("${}", row * columns + cell)).collect();
        format!("({})", cells.join(","))
    };
    (0..count).map(row).collect::<Vec<_>>().join(",")
}

/// Each statement with parameters for a few rows.
fn statements(ids: &[[u8; 32]]) -> Vec<(String, Vec<Value<'_>>)> {
    let count = ids.len();
    let keys: Vec<_> = ids.iter().map(Value::from).collect();
    let list: Vec<_> = (1..=count).map(|number| format!("${number}")).collect();
    let list = list.join(",");
    let pairs: Vec<_> = ids.iter().flat_map(|id| [Value::from(id), Value::from(1u32)]).collect();
    let mut all: Vec<(String, Vec<Value<'_>>)> = vec![
        (format!("{} ({list}) ORDER BY txid", records_head()), keys.clone()),
        (format!("{} (VALUES {})", slots_head(), rows(count, 2)), pairs),
        (format!("{} ({list}){OUTPUTS_TAIL}", outputs_head()), keys.clone()),
        (format!("{SETTLED_HEAD} ({list})"), keys.clone()),
        (format!("{SPENDS_HEAD} ({list}){SPENDS_TAIL}"), keys.clone()),
    ];
    for table in OF_TRANSACTION {
        all.push((format!("SELECT * FROM {table} WHERE txid IN ({list})"), keys.clone()));
        all.push((format!("DELETE FROM {table} WHERE txid IN ({list})"), keys.clone()));
    }
    let (head, tail) = UPDATE_RECORDS;
    let mut values = Vec::new();
    for id in ids {
        values.push(Value::from(id));
        values.extend((0..13).map(|_| Value::from(0u32)));
    }
    all.push((format!("{head} {}{tail}", rows(count, 14)), values));
    let (head, tail) = UPDATE_SLOTS;
    let mut values = Vec::new();
    for id in ids {
        values.extend([Value::from(id), Value::from(1u32), Value::from(id)]);
        values.push(Value::from(None::<&[u8]>));
        values.extend([Value::from(0u32), Value::from(None::<u32>)]);
    }
    all.push((format!("{head} {}{tail}", rows(count, 6)), values));
    for index in HeightIndex::ALL {
        let from =
            [Value::from(1_000u32), Value::from(-1i64), Value::from(&ids[0]), Value::from(50u32)];
        all.push((by_height(index), from.to_vec()));
    }
    let child = "SELECT 1 FROM node_deleted_children WHERE parent_txid = $1 AND child_txid = $2";
    all.push((child.to_owned(), keys[..2].to_vec()));
    all
}

/// Whether a step of a plan reads all rows of a table.
fn reads_all(step: &str) -> bool {
    TABLES.iter().any(|table| {
        // SQLite says SCAN for a table or a whole index, PostgreSQL Seq Scan.
        let whole = step.trim_start().strip_prefix("SCAN ").unwrap_or("");
        whole.split(' ').next() == Some(table) || step.contains(&format!("Seq Scan on {table}"))
    })
}

fn check(url: &str) {
    let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
    let database = Database::open(url, &options).unwrap();
    migrate_up(&database, COMPONENT, MIGRATIONS, 0).unwrap();
    let run = |work: &mut dyn FnMut(&mut Transaction<'_>)| {
        database.write(|transaction| {
            work(transaction);
            Ok::<(), utxokeep_sql::SqlError>(())
        })
    };
    run(&mut fill).unwrap();
    let some: Vec<_> = [1, 500, 999, 1_500, 2_000, 2_500, 3_000, 3_999].map(id).to_vec();
    // Once as a fresh database is, and once with statistics.
    for is_analyzed in [false, true] {
        if is_analyzed {
            run(&mut |transaction| transaction.execute_batch("ANALYZE").unwrap()).unwrap();
        }
        run(&mut |transaction| {
            for count in [2, 8] {
                for (sql, parameters) in statements(&some[..count]) {
                    let plan = transaction.explain(&sql, &parameters).unwrap();
                    let whole: Vec<_> = plan.iter().filter(|step| reads_all(step)).collect();
                    assert!(whole.is_empty(), "{sql}\n(analyzed: {is_analyzed})\n{plan:#?}");
                }
            }
            let all = transaction.explain("SELECT * FROM node_outputs WHERE vout = 2", &[]);
            assert!(all.unwrap().iter().any(|step| reads_all(step)), "such a step is recognised");
        })
        .unwrap();
    }
}

#[test]
fn few_rows_are_found_by_an_index_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", dir.path().join("db").display()));
}

#[test]
fn few_rows_are_found_by_an_index_on_postgres() {
    if let Some(database) = TestDatabase::create_or_skip() {
        check(database.url());
    }
}

/// A value as it is written in a statement.
fn literal(value: &Value<'_>) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    match value {
        Value::Int(Some(number)) => number.to_string(),
        Value::Bytes(Some(bytes)) => format!("'\\x{}'", hex(bytes).concat()),
        Value::Text(Some(text)) => format!("'{text}'"),
        Value::Int(None) | Value::Bytes(None) | Value::Text(None) => "NULL".to_owned(),
    }
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Int(_) => "BIGINT",
        Value::Bytes(_) => "BYTEA",
        Value::Text(_) => "TEXT",
    }
}

/// Steps of a plan of `PostgreSQL` that read a table whole, or an index whole.
fn whole_reads(plan: &[String]) -> Vec<&String> {
    let has_condition = |at: usize| {
        let details = plan[at + 1..].iter().take_while(|step| !step.contains("->"));
        details.into_iter().any(|detail| detail.contains("Index Cond"))
    };
    let steps = plan.iter().enumerate();
    steps
        .filter(|(at, step)| {
            reads_all(step)
                || step.contains("Index") && step.contains("Scan") && !has_condition(*at)
        })
        .map(|(_, step)| step)
        .collect()
}

/// How many statements read something whole that were planned while the tables were empty and are
/// used when they are full, on a database that was never analysed.
fn whole_reads_of_a_database_that_fills(is_planned_by_index: bool) -> Option<usize> {
    let server = TestDatabase::create_or_skip()?;
    // One connection writes, and keeps what it has prepared.
    let database = Database::open(server.url(), &Options::default()).unwrap();
    migrate_up(&database, COMPONENT, MIGRATIONS, 0).unwrap();
    if is_planned_by_index {
        database.plan_by_index().unwrap();
    }
    let all: Vec<_> = (0..512).map(|number| id(number * 7)).collect();
    let prepared: Vec<_> = [8, 512].iter().flat_map(|count| statements(&all[..*count])).collect();
    let run = |work: &mut dyn FnMut(&mut Transaction<'_>)| {
        database.write(|transaction| {
            work(transaction);
            Ok::<(), utxokeep_sql::SqlError>(())
        })
    };
    let call = |at: usize, parameters: &[Value<'_>]| {
        let values: Vec<_> = parameters.iter().map(literal).collect();
        format!("EXECUTE planned_{at} ({})", values.join(","))
    };
    run(&mut |transaction| {
        for table in TABLES {
            let text = format!("ALTER TABLE {table} SET (autovacuum_enabled = off)");
            transaction.execute_batch(&text).unwrap();
        }
    })
    .unwrap();
    run(&mut |transaction| {
        for (at, (sql, parameters)) in prepared.iter().enumerate() {
            let types: Vec<_> = parameters.iter().map(type_name).collect();
            let text = format!("PREPARE planned_{at} ({}) AS {sql}", types.join(","));
            transaction.execute_batch(&text).unwrap();
            transaction.execute_batch(&call(at, parameters)).unwrap();
        }
    })
    .unwrap();
    run(&mut fill).unwrap();
    let mut found = 0;
    run(&mut |transaction| {
        for (at, (sql, parameters)) in prepared.iter().enumerate() {
            let plan = transaction.explain(&call(at, parameters), &[]).unwrap();
            let whole = whole_reads(&plan);
            if is_planned_by_index {
                let start: String = sql.chars().take(200).collect();
                let plan: Vec<_> =
                    plan.iter().map(|step| step.chars().take(150).collect::<String>()).collect();
                assert!(whole.is_empty(), "{start}\n{plan:#?}");
            }
            found += whole.len();
        }
    })
    .unwrap();
    Some(found)
}

#[test]
fn plans_made_on_a_fresh_database_hold_when_it_fills() {
    let found = whole_reads_of_a_database_that_fills(true);
    assert!(found.is_none_or(|count| count == 0));
}

/// The twin: left to itself, the server plans to read the empty tables whole.
#[test]
fn without_these_settings_plans_read_whole_tables() {
    let found = whole_reads_of_a_database_that_fills(false);
    assert!(found.is_none_or(|count| count > 0));
}
