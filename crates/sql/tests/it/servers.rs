//! Which servers are taken.

use crate::place::EngineUnderTest;
use utxokeep_sql::{Database, Durability, Options, SqlError};

#[test]
fn a_server_that_takes_no_writes_is_refused_and_told_why() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", place.server().url());
    let refused = Database::open(&url, &Options::default());
    let Err(SqlError::Unsuitable { what }) = refused else { panic!("{refused:?}") };
    assert!(what.contains("takes no writes") && what.contains("target_session_attrs"), "{what}");
}

#[test]
fn of_several_hosts_the_one_that_takes_writes_is_used() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (user, rest) = place.server().url().split_once('@').unwrap();
    // Nobody listens at the first.
    let url = format!("{user}@%2Fnowhere,{rest}?target_session_attrs=read-write");
    let database = Database::open(&url, &Options::default()).unwrap();
    let one = database.read(|tx| tx.query_opt("SELECT 1", &[], |_| Ok(())));
    assert!(one.is_ok_and(|row| row.is_some()));
}

#[test]
fn a_server_says_what_a_commit_waits_for_and_the_user_may_choose() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let opened = |url: &str, durability| {
        let options = Options::default().with(|settings| settings.durability = durability);
        Database::open(url, &options).unwrap().promises().unwrap().clone()
    };
    let (url, synced) = (place.server().url(), Durability::Synced);
    let promises = opened(url, synced);
    assert_eq!(promises.synchronous_commit, "on");
    // The server for tests never syncs, and that is said.
    assert!(promises.gaps().iter().any(|gap| gap.contains("fsync = off")), "{promises}");
    assert_eq!(opened(url, Durability::Relaxed).synchronous_commit, "off");
    let chosen = format!("{url}?options=-c%20synchronous_commit%3Dremote_apply");
    assert_eq!(opened(&chosen, synced).synchronous_commit, "remote_apply");
    let off = opened(&format!("{url}?options=-c%20synchronous_commit%3Doff"), synced);
    assert!(off.gaps().iter().any(|gap| gap.contains("synchronous_commit is off")), "{off}");
    assert!(EngineUnderTest::sqlite().open().promises().is_none());
}
