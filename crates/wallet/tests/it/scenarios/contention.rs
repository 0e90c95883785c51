//! Sixteen threads want the same coins, kept apart by the lock of the wallet alone, and by the
//! database on top of it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use utxokeep_core::OutPoint;
use utxokeep_sql::{Database, Durability, Isolation, Options, RETRIES_METRIC, SqlError};
use utxokeep_wallet::{
    FeeRate, LeaseClock, LeaseId, LeaseTerms, Ledger, LedgerError, Limits, Micros, SelectionRequest,
};

use crate::scenarios::world::{SECOND, World, coins_of, outside, pay};

const THREADS: u8 = 16;
const PAYMENTS_PER_THREAD: u64 = 3;

/// Counts transactions that were run again.
struct Retries(Arc<AtomicU64>);

impl Recorder for Retries {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == RETRIES_METRIC {
            Counter::from_arc(Arc::clone(&self.0))
        } else {
            Counter::noop()
        }
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What sixteen threads came to.
struct Outcome {
    complete: usize,
    gave_up: usize,
    retries: u64,
}

/// Eighty coins, of which a payment needs three: 26 payments fit, 48 are tried.
fn fight(url: &str, isolation: Isolation, retries_max: u32) -> Outcome {
    let options = Options::default().with(|settings| {
        settings.durability = Durability::Relaxed;
        settings.connections_max = 20;
        settings.busy_timeout_ms = 60_000;
        settings.retries_max = retries_max;
        settings.retry_base_ms = 2;
    });
    let database = Database::open(url, &options).unwrap();
    let ledger = Ledger::open(database, Limits::default(), Micros::new(1)).unwrap();
    let ledger = ledger.with_lease_clock(LeaseClock::Caller);
    let mut w = World::new(&ledger);
    for name in 1..=8 {
        w.mine(&[&pay(name, &[outside(name)], &[10_000; 10])]);
    }
    let ledger = ledger.clone().with_isolation(isolation);
    let (wallet, now) = (w.wallet, w.now);
    let retries = Arc::new(AtomicU64::new(0));
    let start = Barrier::new(usize::from(THREADS));
    let work = |n: u8| {
        let terms = LeaseTerms::until(LeaseId::from_bytes([n; 32]), 60 * SECOND);
        start.wait();
        let pay = |seed| {
            let request = SelectionRequest::new(coins_of(25_000), FeeRate::per_vbyte(1), seed);
            let selection = ledger.select_and_lease(wallet, &request, &terms, now)?;
            Ok(selection.coins.into_iter().map(|coin| coin.outpoint).collect())
        };
        let recorder = Retries(Arc::clone(&retries));
        with_local_recorder(&recorder, || (0..PAYMENTS_PER_THREAD).map(pay).collect::<Vec<_>>())
    };
    let outcomes: Vec<Result<Vec<OutPoint>, LedgerError>> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    w.check();
    let mut taken = BTreeSet::new();
    let retries = retries.load(Ordering::SeqCst);
    let mut outcome = Outcome { complete: 0, gave_up: 0, retries };
    for payment in outcomes {
        match payment {
            Ok(coins) => {
                outcome.complete += 1;
                assert_eq!(coins.len(), 3);
                assert!(coins.into_iter().all(|coin| taken.insert(coin)), "leased twice");
            }
            Err(LedgerError::InsufficientFunds { .. }) => {}
            Err(LedgerError::Sql(SqlError::RetriesExhausted { attempts, .. })) => {
                assert_eq!(attempts, retries_max + 1);
                outcome.gave_up += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    // Whoever gave up has leased nothing.
    let leases = ledger.leases(wallet, 0, 100, now).unwrap();
    assert_eq!(leases.len(), 3 * outcome.complete);
    assert!(leases.iter().all(|lease| taken.contains(&lease.outpoint)));
    let calls = u64::from(THREADS) * PAYMENTS_PER_THREAD;
    assert!(outcome.retries <= calls * u64::from(retries_max));
    outcome
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres")
}

/// S118b.
fn read_committed_with_the_lock_needs_no_retries(url: &str) {
    let outcome = fight(url, Isolation::ReadCommitted, 0);
    assert_eq!((outcome.complete, outcome.gave_up, outcome.retries), (26, 0, 0));
}

/// S118c.
fn serializable_repeats_until_all_are_served(url: &str) {
    let outcome = fight(url, Isolation::Serializable, 500);
    assert_eq!((outcome.complete, outcome.gave_up), (26, 0));
    // On SQLite there is one writer at a time at any level.
    assert_eq!(outcome.retries > 0, is_postgres(url), "{} retries", outcome.retries);
}

/// S118d.
fn serializable_gives_up_after_its_limit(url: &str) {
    let outcome = fight(url, Isolation::Serializable, 1);
    assert_eq!(outcome.gave_up > 0, is_postgres(url));
    assert!(outcome.complete > 0);
}

mod sqlite {
    use crate::scenarios::world::on_sqlite;

    #[test]
    fn read_committed_with_the_lock_needs_no_retries() {
        on_sqlite(super::read_committed_with_the_lock_needs_no_retries);
    }

    #[test]
    fn serializable_repeats_until_all_are_served() {
        on_sqlite(super::serializable_repeats_until_all_are_served);
    }

    #[test]
    fn serializable_gives_up_after_its_limit() {
        on_sqlite(super::serializable_gives_up_after_its_limit);
    }
}

mod postgres {
    use crate::scenarios::world::on_postgres;

    #[test]
    fn read_committed_with_the_lock_needs_no_retries() {
        on_postgres(super::read_committed_with_the_lock_needs_no_retries);
    }

    #[test]
    fn serializable_repeats_until_all_are_served() {
        on_postgres(super::serializable_repeats_until_all_are_served);
    }

    #[test]
    fn serializable_gives_up_after_its_limit() {
        on_postgres(super::serializable_gives_up_after_its_limit);
    }
}
