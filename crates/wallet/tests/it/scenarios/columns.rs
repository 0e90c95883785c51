//! Every column of every table is changed, one value at a time, and every row is deleted: `verify`
//! notices, but for what docs/wallet.md says that it cannot see. The schema itself says which columns
//! there are, so that a new one is looked at by itself.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::Txid;
use utxokeep_sql::{Dialect, SqlError, Transaction};
use utxokeep_wallet::{Ledger, WalletId};

use crate::scenarios::{
    rich,
    world::{on_postgres, on_sqlite},
};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wallet.md");
/// Rows of a table that are changed.
const ROWS_MAX: usize = 8;

/// How much of what was changed in a column was noticed, or refused by the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    All,
    InPart,
    Nothing,
}

/// A column, as the engine describes it.
#[derive(Debug, Clone)]
struct Column {
    table: String,
    name: String,
    kind: Kind,
    is_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bytes,
}

/// A row of a table: what its columns hold, as the engine writes values in a statement.
type Row = Vec<String>;

/// What docs/wallet.md says that `verify` cannot see, or not always: `table.column`, or the table
/// for rows that are deleted.
fn documented() -> BTreeMap<String, Seen> {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let (_, table) = text.split_once("<!-- not checked -->").unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    let mut listed = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let seen = match cells[2] {
            "never" => Seen::Nothing,
            "in part" => Seen::InPart,
            other => panic!("{other}: {line}"),
        };
        assert!(cells[3].len() > 10, "without a reason: {line}");
        for name in cells[1].split(", ") {
            let name = name.trim_matches('`').to_owned();
            assert!(listed.insert(name.clone(), seen).is_none(), "{name} twice");
        }
    }
    listed
}

fn query<T>(
    ledger: &Ledger,
    sql: &str,
    read: impl FnMut(&utxokeep_sql::Row<'_>) -> Result<T, SqlError> + Copy,
) -> Vec<T> {
    let rows = ledger.database().read(|tx| tx.query_all(sql, &[], read));
    rows.map_err(|error: SqlError| error).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Every column of the tables that the ledger's migrations make, oldest table first.
fn columns(ledger: &Ledger) -> Vec<Column> {
    let sql = match ledger.database().dialect() {
        Dialect::Sqlite => {
            "SELECT t.name, c.name, c.type, CASE WHEN c.pk > 0 THEN 1 ELSE 0 END
             FROM sqlite_schema t, pragma_table_info(t.name) c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'
                 AND t.name NOT LIKE 'utxokeep_%' ORDER BY t.rowid, c.cid"
        }
        Dialect::Postgres => {
            "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT),
                 CAST(c.data_type AS TEXT),
                 CAST(EXISTS (SELECT 1 FROM pg_index i JOIN pg_attribute a
                     ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                     WHERE i.indisprimary AND i.indrelid = CAST(c.table_name AS regclass)
                         AND a.attname = c.column_name) AS INTEGER)::bigint
             FROM information_schema.columns c JOIN information_schema.tables t
                 ON t.table_schema = c.table_schema AND t.table_name = c.table_name
             WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
                 AND c.table_name NOT LIKE 'utxokeep_%'
             ORDER BY CAST(CAST(c.table_name AS regclass) AS oid), c.ordinal_position"
        }
    };
    query(ledger, sql, |row| {
        let kind = match row.text(2)?.to_ascii_lowercase().as_str() {
            "text" => Kind::Text,
            "blob" | "bytea" => Kind::Bytes,
            _ => Kind::Number,
        };
        Ok(Column {
            table: row.text(0)?.to_owned(),
            name: row.text(1)?.to_owned(),
            kind,
            is_key: row.int(3)? != 0,
        })
    })
}

/// The rows of a table.
fn rows(ledger: &Ledger, columns: &[Column]) -> Vec<Row> {
    let quote = match ledger.database().dialect() {
        Dialect::Sqlite => "quote",
        Dialect::Postgres => "quote_nullable",
    };
    let cells: Vec<String> = columns.iter().map(|c| format!("{quote}({})", c.name)).collect();
    let keys: Vec<&str> = columns.iter().filter(|c| c.is_key).map(|c| c.name.as_str()).collect();
    let table = &columns[0].table;
    let sql = format!("SELECT {} FROM {table} ORDER BY {}", cells.join(", "), keys.join(", "));
    let all = query(ledger, &sql, |row| {
        (0..cells.len()).map(|at| Ok(row.text(at)?.to_owned())).collect::<Result<Row, SqlError>>()
    });
    assert!(!all.is_empty(), "the ledger has nothing in {table}");
    all
}

/// The first of them, the last and some between.
fn some(all: &[Row]) -> Vec<Row> {
    let step = all.len().div_ceil(ROWS_MAX - 1).max(1);
    let picked: BTreeSet<usize> = (0..all.len()).step_by(step).chain([all.len() - 1]).collect();
    picked.into_iter().map(|at| all[at].clone()).collect()
}

/// Other values for a cell.
fn others(kind: Kind, value: &str, dialect: Dialect) -> Vec<String> {
    let null = || "NULL".to_owned();
    match kind {
        _ if value == "NULL" => vec![match kind {
            Kind::Number => "1".to_owned(),
            Kind::Text => "'x'".to_owned(),
            Kind::Bytes if dialect == Dialect::Sqlite => format!("X'{}'", "00".repeat(32)),
            Kind::Bytes => format!("'\\x{}'", "00".repeat(32)),
        }],
        Kind::Number => {
            let number: i64 = value.trim_matches('\'').parse().unwrap();
            let far = 2_000_000_000;
            vec![(number + 1).to_string(), (number - 1).to_string(), far.to_string(), null()]
        }
        Kind::Text => vec![format!("{}x'", value.strip_suffix('\'').unwrap()), null()],
        Kind::Bytes => {
            let digits = value.trim_end_matches('\'');
            let (start, last) = digits.split_at(digits.len() - 1);
            let other = if last == "0" { '1' } else { '0' };
            vec![format!("{start}{other}'"), null()]
        }
    }
}

/// What names one row: its key.
fn condition(columns: &[Column], row: &Row) -> String {
    let keys = columns.iter().zip(row).filter(|(column, _)| column.is_key);
    keys.map(|(column, value)| format!("{} = {value}", column.name))
        .collect::<Vec<_>>()
        .join(" AND ")
}

/// Changes one row; whether the database let it.
fn change(ledger: &Ledger, sql: &str) -> bool {
    let changed = ledger.database().write(|tx: &mut Transaction<'_>| tx.execute(sql, &[]));
    match changed {
        Ok(rows) => {
            assert_eq!(rows, 1, "{sql}");
            true
        }
        Err(SqlError::Constraint { .. } | SqlError::Engine { .. }) => false,
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// Whether any wallet is called broken, or cannot be read.
fn is_noticed(ledger: &Ledger, wallets: &[WalletId]) -> bool {
    let can_read = |txid: Option<Txid>, text: &str| match txid {
        None => text == "{}",
        Some(txid) => text == rich::document(&txid),
    };
    wallets.iter().any(|wallet| {
        ledger.verify(*wallet).map_or(true, |found| !found.is_empty())
            || ledger.verify_texts(*wallet, can_read).map_or(true, |found| !found.is_empty())
    })
}

fn share(noticed: usize, all: usize) -> Seen {
    match noticed {
        _ if noticed == all => Seen::All,
        0 => Seen::Nothing,
        _ => Seen::InPart,
    }
}

/// A ledger and what was found out about it.
struct Look<'l> {
    ledger: &'l Ledger,
    wallets: Vec<WalletId>,
    /// Every table, oldest first, with its rows.
    tables: Vec<(Vec<Column>, Vec<Row>)>,
    seen: BTreeMap<String, Seen>,
}

impl Look<'_> {
    /// The wallet whose row it is comes first: as a rule it is the one that is broken.
    fn look(&self, columns: &[Column], row: &Row) -> bool {
        let owner = columns.iter().zip(row).find(|(column, _)| {
            column.name == "wallet_id" || (column.table == "wallets" && column.name == "id")
        });
        let owner = owner.and_then(|(_, value)| value.trim_matches('\'').parse().ok());
        let mut order = self.wallets.clone();
        order.sort_by_key(|wallet| Some(wallet.get()) != owner);
        is_noticed(self.ledger, &order)
    }

    fn column(&mut self, columns: &[Column], at: usize, rows: &[Row]) {
        let column = &columns[at];
        let (mut noticed, mut all) = (0, 0);
        for row in rows {
            for other in others(column.kind, &row[at], self.ledger.database().dialect()) {
                let set = |value: &str, row: &Row| {
                    let Column { table, name, .. } = column;
                    let at = condition(columns, row);
                    format!("UPDATE {table} SET {name} = {value} WHERE {at}")
                };
                // What the database refuses nobody has to notice.
                if !change(self.ledger, &set(&other, row)) {
                    continue;
                }
                all += 1;
                noticed += usize::from(self.look(columns, row));
                let mut changed = row.clone();
                changed[at] = other;
                assert!(change(self.ledger, &set(&row[at], &changed)));
            }
        }
        self.seen.insert(format!("{}.{}", column.table, column.name), share(noticed, all));
    }

    /// Inserts every row that is gone, also those that went with another one.
    fn put_back(&self) {
        let done = self.ledger.database().write(|tx: &mut Transaction<'_>| {
            for (columns, rows) in &self.tables {
                let table = &columns[0].table;
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let names = names.join(", ");
                for row in rows {
                    let values = row.join(", ");
                    let sql = format!(
                        "INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO NOTHING"
                    );
                    tx.execute(&sql, &[])?;
                }
            }
            Ok::<(), SqlError>(())
        });
        done.unwrap();
    }

    fn deleted(&mut self, columns: &[Column], rows: &[Row]) {
        let table = &columns[0].table;
        let (mut noticed, mut all) = (0, 0);
        for row in rows {
            if !change(
                self.ledger,
                &format!("DELETE FROM {table} WHERE {}", condition(columns, row)),
            ) {
                continue;
            }
            all += 1;
            noticed += usize::from(self.look(columns, row));
            self.put_back();
        }
        self.seen.insert(table.clone(), share(noticed, all));
    }
}

/// Changes everything, or each `step`th column.
fn look_at_all(url: &str, step: usize) -> BTreeMap<String, Seen> {
    let ledger = rich::open(url);
    drop(rich::fill(&ledger));
    let wallets: Vec<WalletId> =
        ledger.wallet_names(None, 100).unwrap().into_iter().map(|(id, _)| id).collect();
    for wallet in &wallets {
        assert_eq!(ledger.verify(*wallet).unwrap(), [], "sound at first");
    }
    assert!(!is_noticed(&ledger, &wallets));
    let mut tables: Vec<(Vec<Column>, Vec<Row>)> = Vec::new();
    for columns in columns(&ledger).chunk_by(|one, next| one.table == next.table) {
        tables.push((columns.to_vec(), rows(&ledger, columns)));
    }
    let mut look = Look { ledger: &ledger, wallets, tables, seen: BTreeMap::new() };
    let mut number = 0;
    for (columns, rows) in look.tables.clone() {
        let rows = if step > 1 { rows[..1].to_vec() } else { some(&rows) };
        for at in 0..columns.len() {
            number += 1;
            if number % step == 0 {
                look.column(&columns, at, &rows);
            }
        }
        if step == 1 {
            look.deleted(&columns, &rows);
        }
    }
    assert!(!is_noticed(&ledger, &look.wallets), "everything was put back");
    look.seen
}

/// What is not seen is what docs/wallet.md says, no more and no less.
fn assert_as_documented(mut seen: BTreeMap<String, Seen>) {
    seen.retain(|_, seen| *seen != Seen::All);
    let documented = documented();
    let undocumented: Vec<_> =
        seen.iter().filter(|(name, seen)| documented.get(*name) != Some(*seen)).collect();
    let outdated: Vec<_> = documented.keys().filter(|name| !seen.contains_key(*name)).collect();
    assert!(
        undocumented.is_empty() && outdated.is_empty(),
        "not in docs/wallet.md: {undocumented:#?}\nseen, although docs/wallet.md says not: {outdated:#?}"
    );
}

#[test]
fn every_column_is_checked_or_documented_on_sqlite() {
    on_sqlite(|url| assert_as_documented(look_at_all(url, 1)));
}

/// The rules are those of SQLite, word for word: a sample is enough for every day.
#[test]
fn every_column_is_checked_or_documented_on_postgres() {
    let is_whole = std::env::var_os("UTXOKEEP_TAMPER_ALL").is_some();
    on_postgres(|url| {
        if is_whole {
            assert_as_documented(look_at_all(url, 1));
            return;
        }
        let documented = documented();
        for (name, seen) in look_at_all(url, 7) {
            assert!(seen == Seen::All || documented.contains_key(&name), "{name}: {seen:?}");
        }
    });
}
