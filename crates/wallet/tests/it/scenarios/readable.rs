//! The views for people of `docs/sql`: they can be created on both engines, say in words what the
//! ledger holds, and are no fault in the eyes of `verify`.

use std::collections::BTreeSet;

use utxokeep_core::{Height, OutPoint, Txid};
use utxokeep_sql::{Database, Dialect, Options, SqlError};
use utxokeep_wallet::{LeaseId, LeaseTerms, Limits, NewTx};

use super::world::{SECOND, World, mint, on_postgres, on_sqlite, open, out, outside, own, pay};

const SQLITE: &str = include_str!("../../../../../docs/sql/readable-sqlite.sql");
const POSTGRES: &str = include_str!("../../../../../docs/sql/readable-postgresql.sql");
const DOCUMENT: &str = include_str!("../../../../../docs/sql.md");

/// Views and columns, as `view.column`.
fn columns(database: &Database) -> BTreeSet<String> {
    let query = match database.dialect() {
        Dialect::Sqlite => {
            "SELECT m.name || '.' || c.name FROM sqlite_master m
             CROSS JOIN pragma_table_info(m.name) c WHERE m.name LIKE 'readable%'"
        }
        Dialect::Postgres => {
            "SELECT table_name || '.' || column_name FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name LIKE 'readable%'"
        }
    };
    let read = database.read(|tx| tx.query_all(query, &[], |row| Ok(row.text(0)?.to_owned())));
    read.map_err(|error: SqlError| error).unwrap().into_iter().collect()
}

/// What docs/sql.md lists.
fn documented() -> BTreeSet<String> {
    let section = DOCUMENT.split("## Views for people").nth(1).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `readable_"));
    rows.flat_map(|row| {
        let mut names = row.split('`').skip(1).step_by(2);
        let view = names.next().unwrap();
        let columns = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        columns.map(move |column| format!("{view}.{column}"))
    })
    .collect()
}

/// Rows of a query, every column as text, `-` for null.
fn rows(database: &Database, view: &str, columns: &[&str], order: &str) -> Vec<Vec<String>> {
    let shown = columns.iter().map(|name| format!("coalesce(CAST({name} AS TEXT), '-')"));
    let shown: Vec<String> = shown.collect();
    let query = format!("SELECT {} FROM {view} ORDER BY {order}", shown.join(", "));
    let read = database.read(|tx| {
        tx.query_all(&query, &[], |row| {
            (0..columns.len()).map(|at| Ok(row.text(at)?.to_owned())).collect()
        })
    });
    read.map_err(|error: SqlError| error).unwrap()
}

fn views_say_in_words_what_the_ledger_holds(url: &str) {
    let ledger = open(url, Limits::default());
    let mut w = World::new(&ledger);
    let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let reward = NewTx { txid: Txid::from_bytes(bytes), ..mint(1, &[50]) };
    let gone = mint(2, &[60]);
    w.mine(&[&reward]);
    w.mine(&[&gone]);
    w.undo();
    let first = pay(3, &[outside(1)], &[20, 30]);
    w.mempool(&first);
    w.replace(&pay(4, &[outside(1)], &[45]));
    let spend = pay(5, &[OutPoint::new(pay(4, &[], &[]).txid, 0)], &[-40]);
    w.create(&spend);
    let coin = out(&reward, 0);
    let terms = LeaseTerms::until(LeaseId::from_bytes([7; 32]), 60 * SECOND);
    ledger.acquire_leases(w.wallet, &[coin], &terms, w.now).unwrap();

    let database = Database::open(url, &Options::default()).unwrap();
    let views = match database.dialect() {
        Dialect::Sqlite => SQLITE,
        Dialect::Postgres => POSTGRES,
    };
    // Twice, as after an upgrade.
    for _ in 0..2 {
        database.write(|tx| tx.execute_batch(views)).map_err(|error: SqlError| error).unwrap();
    }

    assert_eq!(columns(&database), documented());

    let shown = rows(&database, "readable_wallets", &["wallet", "network", "tip_height"], "wallet");
    assert_eq!(shown, [["one", "bitcoin/regtest", "100"]]);
    // As explorers print it: the last byte first.
    let reversed = (0..32u8).rev().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let name = |byte: u8| match byte {
        1 => reversed.clone(),
        _ => format!("{byte:02x}").repeat(32),
    };
    let shown = rows(
        &database,
        "readable_transactions",
        &["txid", "status", "reason", "block_height", "is_coinbase"],
        "tx_id",
    );
    let expected = [
        [name(1), "published".into(), "-".into(), "100".into(), "yes".into()],
        [name(2), "orphaned".into(), "-".into(), "-".into(), "yes".into()],
        [name(3), "replaced".into(), "replaced".into(), "-".into(), "no".into()],
        [name(4), "published".into(), "-".into(), "-".into(), "no".into()],
        [name(5), "pending".into(), "-".into(), "-".into(), "no".into()],
    ];
    assert_eq!(shown, expected);
    let shown = rows(
        &database,
        "readable_utxos",
        &["outpoint", "amount", "state", "class", "spent_by"],
        "utxo_id",
    );
    let row = |tx: u8, amount: &str, state: &str, class: &str, by: String| {
        [format!("{}:0", name(tx)), amount.into(), state.into(), class.into(), by]
    };
    assert_eq!(shown[0], row(1, "50", "unspent", "confirmed", "-".into()));
    assert_eq!(shown[1], row(2, "60", "unspent", "not live", "-".into()));
    assert!(shown.contains(&row(4, "45", "spent", "untrusted", name(5)).to_vec()), "{shown:?}");
    let leases = ["outpoint", "owner", "substr(CAST(leased_until AS TEXT), 1, 10)", "is_held"];
    let shown = rows(&database, "readable_leases", &leases, "outpoint");
    let day = "2023-11-14".to_owned();
    assert_eq!(shown, [[format!("{}:0", name(1)), name(7), day, "no".into()]]);
    let script = rows(&database, "readable_utxos", &["script"], "utxo_id").remove(0).remove(0);
    assert_eq!(script, own(0).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")));
    assert_eq!(w.tip().height, Height::new(100));
    w.check();
}

#[test]
fn views_say_in_words_what_a_ledger_on_sqlite_holds() {
    on_sqlite(views_say_in_words_what_the_ledger_holds);
}

#[test]
fn views_say_in_words_what_a_ledger_on_postgresql_holds() {
    on_postgres(views_say_in_words_what_the_ledger_holds);
}
