//! The statements of the node store keep to what every server has that speaks the language of
//! `PostgreSQL`: `YugabyteDB`, `CockroachDB`, Citus. Every text in the code that sends statements is
//! looked at, whether a test runs it or not.

use std::{fs, path::Path};

use utxokeep_txstore::SQL_MIGRATIONS;

/// What some of these servers lack, do otherwise, or keep with one session only.
const FORBIDDEN: &[(&str, &str)] = &[
    ("listen", "LISTEN and NOTIFY"),
    ("notify", "LISTEN and NOTIFY"),
    ("temp", "temporary tables belong to a session"),
    ("temporary", "temporary tables belong to a session"),
    ("unlogged", "tables without a log"),
    ("serial", "sequences are one place for all writers"),
    ("bigserial", "sequences are one place for all writers"),
    ("sequence_name", "sequences are one place for all writers"),
    ("nextval", "sequences are one place for all writers"),
    ("generated", "sequences are one place for all writers"),
    ("trigger", "triggers"),
    ("plpgsql", "code in the server"),
    ("function", "code in the server"),
    ("procedure", "code in the server"),
    ("ctid", "places of rows"),
    ("xmin", "places of rows"),
    ("skip", "FOR UPDATE SKIP LOCKED"),
    ("nowait", "FOR UPDATE NOWAIT"),
    ("truncate", "TRUNCATE is no statement of a transaction everywhere"),
    ("merge", "MERGE"),
    ("copy", "COPY inside of transactions"),
    ("cursor", "cursors belong to a session"),
    ("unique", "unique keys beside the primary key span machines"),
    ("references", "foreign keys span machines"),
    ("foreign", "foreign keys span machines"),
    ("inherits", "inheritance"),
    ("tablespace", "places on disk"),
    ("lateral", "LATERAL"),
    ("unnest", "arrays as parameters"),
];

/// Words that are forbidden only in the company of another one.
const FORBIDDEN_PAIRS: &[(&str, &str, &str)] = &[
    ("prepare", "transaction", "commits in two phases by hand"),
    ("lock", "table", "locks over whole tables"),
    ("set", "session", "settings of a session"),
    ("with", "hold", "cursors that outlive a transaction"),
];

/// Why a text is not portable, if it is not.
fn refusal(sql: &str) -> Option<&'static str> {
    let words: Vec<String> = sql
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let has = |word: &str| words.iter().any(|found| found == word);
    let is_advisory = words.iter().any(|word| word.contains("advisory"));
    let pairs = FORBIDDEN_PAIRS.iter().find(|(first, second, _)| {
        words.windows(2).any(|pair| pair[0] == *first && pair[1] == *second)
    });
    let single = FORBIDDEN.iter().find(|(word, _)| has(word)).map(|(_, why)| *why);
    // A setting of the transaction is fine, and of a column; one of the session is not.
    let sets_session = words.first().is_some_and(|word| word == "set")
        && words.get(1).is_none_or(|word| word != "local");
    is_advisory
        .then_some("advisory locks: the session forms are silently ignored elsewhere")
        .or(single)
        .or(pairs.map(|(.., why)| *why))
        .or(sets_session.then_some("settings of a session"))
}

/// Texts of a program, without those of its tests and comments.
fn texts(source: &str) -> Vec<String> {
    let program = source.split("#[cfg(test)]").next().unwrap_or(source);
    let code: Vec<_> =
        program.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    code.split('"').skip(1).step_by(2).map(|text| text.replace("\\\n", " ")).collect()
}

/// Whether a text is one that a server is sent.
fn is_sql(text: &str) -> bool {
    const STARTS: &[&str] = &[
        "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "BEGIN", "COMMIT",
        "WITH", "SET ", "; SET", "LOCK", "LISTEN", "NOTIFY", "PREPARE", "DECLARE", "COPY", "MERGE",
        "TRUNCATE", "DO ", "CALL",
    ];
    let text = text.trim_start();
    STARTS.iter().any(|start| text.starts_with(start))
        || text.contains("FOR UPDATE")
        || text.contains("FOR SHARE")
}

/// Files whose texts reach a server of the node store.
fn sources() -> Vec<(String, String)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for dir in [here.join("src/sql"), here.join("../sql/src")] {
        for entry in fs::read_dir(dir).unwrap() {
            files.push(entry.unwrap().path());
        }
    }
    files.push(here.join("src/sql.rs"));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    // Another engine, what only tests plans, and what compares the schema of the wallet ledger.
    let others = ["plans.rs", "definitions.rs"];
    let is_ours = |name: &str| !name.starts_with("sqlite") && !others.contains(&name);
    let named = files
        .into_iter()
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    named
        .filter(|(name, _)| is_ours(name))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn statements_keep_to_the_portable_subset() {
    let mut looked_at = 0;
    for (file, source) in sources() {
        for text in texts(&source).iter().filter(|text| is_sql(text)) {
            looked_at += 1;
            assert_eq!(refusal(text), None, "{file}: {text}");
        }
    }
    assert!(looked_at > 50, "only {looked_at} statements were found: the search is broken");
}

#[test]
fn migrations_keep_to_the_portable_subset_and_keys_start_with_the_transaction() {
    for migration in SQL_MIGRATIONS {
        for text in [migration.up, migration.down] {
            for statement in text.split(';') {
                assert_eq!(refusal(statement), None, "step {}: {statement}", migration.version);
            }
        }
        // Small tables that every machine may hold have keys of their own.
        let small = |table: &str| ["node_state", "node_unsettled"].contains(&table);
        for table in migration.up.split("CREATE TABLE ").skip(1) {
            let (name, rest) = table.split_once(' ').unwrap();
            let key = rest.split_once("PRIMARY KEY (").map(|(_, key)| key);
            let starts = match key {
                Some(key) => key.starts_with("txid") || key.starts_with("parent_txid"),
                None => rest.trim_start_matches('(').trim_start().starts_with("txid"),
            };
            assert!(starts || small(name), "the key of {name} does not start with the transaction");
        }
    }
}

/// The twin: what must not be there is found, and what is there is not taken for it.
#[test]
fn what_is_not_portable_is_recognised() {
    for sql in [
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_try_advisory_lock($1)",
        "LISTEN blocks",
        "NOTIFY blocks",
        "CREATE TEMP TABLE spent (txid BYTEA)",
        "CREATE TEMPORARY TABLE spent (txid BYTEA)",
        "CREATE TABLE t (id BIGSERIAL PRIMARY KEY)",
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY)",
        "CREATE UNIQUE INDEX i ON t (a)",
        "CREATE TABLE t (a BIGINT REFERENCES u (a))",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS ''",
        "DELETE FROM t WHERE ctid IN (SELECT ctid FROM t LIMIT 5)",
        "SELECT txid FROM t FOR UPDATE SKIP LOCKED",
        "SELECT txid FROM t FOR UPDATE NOWAIT",
        "PREPARE TRANSACTION 'x'",
        "LOCK TABLE t IN SHARE MODE",
        "SET statement_timeout = 5",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "DECLARE c CURSOR FOR SELECT 1",
        "TRUNCATE node_state",
        "COPY t FROM STDIN",
        "SELECT * FROM unnest($1)",
    ] {
        assert!(is_sql(sql) && refusal(sql).is_some(), "{sql}");
    }
    for sql in [
        "SELECT txid FROM node_transactions WHERE txid IN",
        "UPDATE node_unsettled SET generation = generation + 1 WHERE id = 0",
        "SELECT name FROM node_state WHERE name = $1 FOR UPDATE",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "; SET LOCAL {} = off",
    ] {
        assert!(is_sql(sql) && refusal(sql).is_none(), "{sql}");
    }
    let source = "// \"LISTEN\"\nconst A: &str = \"SELECT 1 \\\n    FROM t\";\n#[cfg(test)]\nmod tests { \"LISTEN\" }";
    assert_eq!(texts(source), ["SELECT 1      FROM t"]);
}
