//! Every statement of the ledger is prepared on both engines, and none reaches into wallets that
//! it was not asked about.
//!
//! Statements are texts in the source, so that is where they are read from: a new one is checked
//! without being listed anywhere.

mod source;

use source::{Text, texts};
use utxokeep_sql::{Database, Dialect, Options, SqlError, Value};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{Ledger, Limits, Micros};

/// Put together while the program runs; every selection of the scenarios runs them.
const BUILT: [&str; 3] = ["select/closed.rs", "select/window.rs", "verify/guards.rs"];
/// Meant for all wallets: what an upgrade has to look at.
const FOR_ALL_WALLETS: [&str; 1] = ["SELECT DISTINCT wallet_id FROM labels WHERE spendable = 0"];
const TABLES_OF_WALLETS: [&str; 14] = [
    "addresses",
    "transactions",
    "tx_inputs",
    "utxos",
    "tx_replacements",
    "utxo_leases",
    "utxo_marks",
    "labels",
    "idempotency_keys",
    "descriptors",
    "descriptor_scripts",
    "pruned_transactions",
    "wallet_events",
    "wallet_webhooks",
];

/// What a text is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Whole,
    /// Ends with a list of keys.
    Keys,
    /// Ends with rows to insert.
    Rows,
    /// Ends with rows to join, and needs a tail.
    List,
    /// Goes behind rows to join.
    ListTail,
    /// Goes behind rows to insert.
    RowsTail,
}

fn role(text: &str) -> Option<Role> {
    let starts = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];
    if text.starts_with(") AS v") {
        return Some(Role::ListTail);
    }
    if text.starts_with(" ON CONFLICT") {
        return Some(Role::RowsTail);
    }
    if !starts.iter().any(|start| text.starts_with(start)) {
        return None;
    }
    Some(match text {
        _ if text.ends_with("(VALUES") => Role::List,
        _ if text.ends_with("VALUES") => Role::Rows,
        _ if text.ends_with(" IN") => Role::Keys,
        _ => Role::Whole,
    })
}

/// A row of nothing for the columns that a text inserts into.
fn row(head: &str) -> String {
    let columns = head.split_once('(').unwrap().1.split_once(')').unwrap().0;
    format!(" ({})", vec!["NULL"; columns.split(',').count()].join(", "))
}

/// A row of nothing for a list, with types by the columns it is compared with.
fn list(statement: &str, dialect: Dialect) -> String {
    let bytes = if dialect == Dialect::Sqlite { "BLOB" } else { "BYTEA" };
    let mut cells = Vec::new();
    for number in 1..10 {
        let name = format!("v.column{number}");
        if !statement.contains(&name) {
            break;
        }
        let all = statement.match_indices(&name).map(|(at, _)| &statement[..at]);
        let compared = all.filter_map(|before| before.trim_end().strip_suffix('='));
        let is_hash = |before: &str| {
            let column = before.trim_end().rsplit([' ', '.', '\n']).next().unwrap_or_default();
            ["txid", "prev_txid", "script"].contains(&column)
        };
        let kind = if compared.into_iter().any(is_hash) { bytes } else { "BIGINT" };
        cells.push(format!("CAST(NULL AS {kind})"));
    }
    format!(" ({})", cells.join(", "))
}

/// The highest parameter.
fn parameters(sql: &str) -> usize {
    let numbers = sql.split('$').skip(1).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    numbers.max().unwrap_or(0)
}

/// Asks the engine to prepare a statement, and leaves nothing behind.
fn prepare(database: &Database, sql: &str) -> Result<(), SqlError> {
    match database.dialect() {
        Dialect::Sqlite => {
            let nothing = vec![Value::from(None::<i64>); parameters(sql)];
            database.read(|tx| tx.explain(sql, &nothing).map(drop))
        }
        Dialect::Postgres => database.write(|tx| {
            tx.execute_batch(&format!("PREPARE prepared_one AS {sql}"))?;
            tx.execute_batch("DEALLOCATE prepared_one")
        }),
    }
}

/// Statements of one engine that the other does not know.
fn is_for(sql: &str, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Sqlite => {
            let unknown = [" FOR NO KEY UPDATE", "clock_timestamp", "pg_class", "pg_advisory"];
            !unknown.iter().any(|word| sql.contains(word))
        }
        Dialect::Postgres => !sql.contains("sqlite_"),
    }
}

/// All whole statements of a file, put together from their parts. Where heads and tails meet,
/// each must fit at least one of the others.
fn statements(database: &Database, all: &[&Text]) -> Vec<String> {
    let dialect = database.dialect();
    let of = |wanted| all.iter().filter(move |text| role(&text.text) == Some(wanted));
    let mut whole = Vec::new();
    for text in all.iter().filter(|text| is_for(&text.text, dialect)) {
        match role(&text.text) {
            Some(Role::Whole) => whole.push(text.text.clone()),
            Some(Role::Keys) => {
                // The list may stand in a query inside.
                let open = text.text.matches('(').count() - text.text.matches(')').count();
                whole.push(format!("{} (NULL){}", text.text, ")".repeat(open)));
            }
            Some(Role::Rows) => whole.push(format!("{}{}", text.text, row(&text.text))),
            _ => {}
        }
    }
    for (heads, tails) in [(Role::List, Role::ListTail), (Role::Rows, Role::RowsTail)] {
        let join = |head: &Text, tail: &Text| {
            let values = match heads {
                Role::Rows => row(&head.text),
                _ => list(&format!("{}{}", head.text, tail.text), dialect),
            };
            format!("{}{values}{}", head.text, tail.text)
        };
        let pairs: Vec<(&Text, &Text)> =
            of(heads).flat_map(|head| of(tails).map(move |tail| (*head, *tail))).collect();
        // A pair that belongs together is a statement, and one that says whose rows it means.
        let is_good = |sql: &str| is_scoped(sql) && prepare(database, sql).is_ok();
        let good: Vec<&(&Text, &Text)> =
            pairs.iter().filter(|(head, tail)| is_good(&join(head, tail))).collect();
        whole.extend(good.iter().map(|(head, tail)| join(head, tail)));
        let used = |text: &Text| {
            good.iter().any(|(head, tail)| [head, tail].iter().any(|part| ***part == *text))
        };
        for text in of(tails).chain(of(Role::List).filter(|_| heads == Role::List)) {
            assert!(used(text), "fits nothing on {dialect:?}: {text:?}");
        }
    }
    whole
}

/// Every statement by file, prepared on an engine.
fn check(url: &str) {
    let database = Database::open(url, &Options::default()).unwrap();
    Ledger::open(database.clone(), Limits::default(), Micros::new(1)).unwrap();
    let all = texts();
    let mut files: Vec<&str> = all.iter().map(|text| text.file.as_str()).collect();
    files.dedup();
    let mut count = 0;
    for file in files.into_iter().filter(|file| !BUILT.contains(file)) {
        let of_file: Vec<&Text> = all.iter().filter(|text| text.file == file).collect();
        for sql in statements(&database, &of_file) {
            if let Err(error) = prepare(&database, &sql) {
                panic!("{file} on {:?}: {error}\n{sql}", database.dialect());
            }
            check_scope(file, &sql);
            count += 1;
        }
    }
    assert!(count > 100, "only {count} statements were found");
    // The check itself notices mistakes.
    for wrong in ["SELECT nothing FROM utxos", "SELECT id FROM utxos WHERE id ="] {
        assert!(prepare(&database, wrong).is_err());
    }
}

/// Files whose statements are meant for all wallets: what looks after the whole ledger.
const FILES_FOR_ALL_WALLETS: [&str; 2] = ["resend.rs", "upkeep.rs"];

/// Tables of wallets that a statement names, once for each time.
fn tables(sql: &str) -> usize {
    let words: Vec<&str> =
        sql.split([' ', '\n', '(', ')', ',']).filter(|w| !w.is_empty()).collect();
    let names = |pair: &&[&str]| {
        ["FROM", "JOIN", "INTO", "UPDATE"].contains(&pair[0])
            && TABLES_OF_WALLETS.contains(&pair[1])
    };
    words.windows(2).filter(names).count()
}

/// Whoever touches rows of wallets says whose: by the wallet, or by the chain whose wallets all
/// see a block. Joined tables are bound to the same wallet.
fn is_scoped(sql: &str) -> bool {
    let is_bound = sql.contains("wallet_id = $")
        || (sql.contains("FROM wallets w") && sql.contains("WHERE w.id = $"))
        || sql.contains("chain_id = $")
        || sql.starts_with("INSERT INTO");
    let tables = tables(sql);
    tables == 0 || (is_bound && sql.matches("wallet_id").count() >= tables)
}

fn check_scope(file: &str, sql: &str) {
    let is_for_all = FOR_ALL_WALLETS.contains(&sql) || FILES_FOR_ALL_WALLETS.contains(&file);
    assert!(is_scoped(sql) || is_for_all, "{file}: whose rows?\n{sql}");
}

#[test]
fn a_statement_without_a_wallet_is_noticed() {
    assert!(!is_scoped("SELECT id FROM utxos WHERE id = $1"));
    assert!(!is_scoped("DELETE FROM labels WHERE ref = $1"));
    let join = "SELECT 1 FROM utxos u JOIN transactions t ON t.id = u.tx_id";
    assert!(!is_scoped(&format!("{join} WHERE u.wallet_id = $1")));
    assert!(is_scoped(&format!("{join} AND t.wallet_id = u.wallet_id WHERE u.wallet_id = $1")));
    assert!(is_scoped("SELECT height FROM blocks WHERE height = $1"));
}

#[test]
fn every_statement_is_prepared_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", dir.path().join("wallet.db").display()));
}

#[test]
fn every_statement_is_prepared_on_postgres() {
    if let Some(database) = TestDatabase::create_or_skip() {
        check(database.url());
    }
}
