//! Which servers are taken.

use crate::place::Place;
use utxokeep_sql::{Database, Options, SqlError};

#[test]
fn a_server_that_takes_no_writes_is_refused_and_told_why() {
    let Some(place) = Place::postgres() else { return };
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", place.server().url());
    let refused = Database::open(&url, &Options::default());
    let Err(SqlError::Unsuitable { what }) = refused else { panic!("{refused:?}") };
    assert!(what.contains("takes no writes") && what.contains("target_session_attrs"), "{what}");
}

#[test]
fn of_several_hosts_the_one_that_takes_writes_is_used() {
    let Some(place) = Place::postgres() else { return };
    let (user, rest) = place.server().url().split_once('@').unwrap();
    // Nobody listens at the first.
    let url = format!("{user}@%2Fnowhere,{rest}?target_session_attrs=read-write");
    let database = Database::open(&url, &Options::default()).unwrap();
    let one = database.read(|tx| tx.query_opt("SELECT 1", &[], |_| Ok(())));
    assert!(one.is_ok_and(|row| row.is_some()));
}
