//! A file that is gone is not a new database while its log is there.

use std::fs;

use utxokeep_sql::{Database, Options, SqlError};

#[test]
fn a_database_whose_file_is_lost_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ledger.db");
    let copy = dir.path().join("copy.db");
    let url = |file: &std::path::Path| format!("sqlite:{}", file.display());
    let open = |file| Database::open(&url(file), &Options::default());
    let database = open(&file).unwrap();
    let written: Result<u64, SqlError> = database.write(|tx| {
        tx.execute_batch("CREATE TABLE t (n BIGINT)")?;
        tx.execute("INSERT INTO t VALUES (7)", &[])
    });
    written.unwrap();
    // As after a crash: closing would empty the log.
    fs::copy(dir.path().join("ledger.db-wal"), dir.path().join("copy.db-wal")).unwrap();
    let log = fs::read(dir.path().join("copy.db-wal")).unwrap();
    for emptied in [false, true] {
        if emptied {
            fs::write(&copy, b"").unwrap();
        }
        let refused = open(&copy).map(drop);
        assert!(matches!(refused, Err(SqlError::LostFile { .. })), "{refused:?}");
        assert_eq!(fs::read(dir.path().join("copy.db-wal")).unwrap(), log, "the log is as it was");
    }
    fs::copy(&file, &copy).unwrap();
    let found: Result<i64, SqlError> =
        open(&copy).unwrap().read(|tx| tx.query_one("SELECT n FROM t", &[], |row| row.int(0)));
    assert_eq!(found.unwrap(), 7);
}
