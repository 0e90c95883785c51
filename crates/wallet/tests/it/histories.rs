//! Random histories against a plain model, on both engines: after every step the ledger and the
//! model agree, and all rules of the ledger hold.
//!
//! `UTXOKEEP_HISTORY_STEPS` sets the number of steps, `UTXOKEEP_HISTORY_SEED` the first seed.

mod model;
mod rescans;
mod run;
mod told;

use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{LeaseClock, Ledger, Limits, Micros};

fn ledger(url: &str) -> Ledger {
    let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
    let database = Database::open(url, &options).unwrap();
    let ledger = Ledger::open(database, Limits::default(), Micros::new(1)).unwrap();
    ledger.with_lease_clock(LeaseClock::Caller)
}

#[test]
fn histories_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("wallet.db").display());
    run::histories(&|| ledger(&url));
}

#[test]
fn histories_on_postgres() {
    if let Some(database) = TestDatabase::create_or_skip() {
        run::histories(&|| ledger(database.url()));
    }
}
