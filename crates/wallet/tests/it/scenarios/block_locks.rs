//! Whom a block waits for on `PostgreSQL`, and whom it does not.

use std::{
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use utxokeep_sql::{Database, Options, SqlError, Transaction, Value};
use utxokeep_wallet::{Applied, Ledger, Limits, LinkedBlock, NewAddress, NewTx};

use crate::scenarios::world::{NETWORK, World, on_postgres, open, outside, own, pay};

/// An advisory lock of the test.
const PAUSE: i64 = 42;

/// Runs statements in a transaction of its own that stays open until it is told to end.
fn held(
    url: &str,
    body: impl Fn(&mut Transaction<'_>) -> Result<(), SqlError> + Send + 'static,
) -> (Sender<()>, thread::JoinHandle<()>) {
    let database = Database::open(url, &Options::default()).unwrap();
    let (ready, is_ready): (Sender<()>, Receiver<()>) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let outcome: Result<(), SqlError> = database.write(|tx| {
            body(tx)?;
            ready.send(()).unwrap();
            let _ = ended.recv();
            Ok(())
        });
        outcome.unwrap();
    });
    is_ready.recv().unwrap();
    (end, thread)
}

/// Transactions that wait for an advisory lock.
fn waiting(ledger: &Ledger) -> i64 {
    let count = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let found: Result<i64, SqlError> =
        ledger.database().read(|tx| tx.query_one(count, &[], |row| row.int(0)));
    found.unwrap()
}

fn block(w: &World<'_>, txs: &[NewTx]) -> Applied {
    let parent = Some(w.tip().hash);
    let linked = LinkedBlock { block: w.block_at(w.tip().height.get() + 1), parent };
    w.ledger.apply_block(NETWORK, &linked, txs, w.now).unwrap()
}

fn payment_to_late() -> NewTx {
    let mut tx = pay(1, &[outside(1)], &[50]);
    tx.outputs[0].script = own(20);
    tx
}

/// Somebody starts to watch a script while a block arrives that pays it. Watching comes first, so
/// the block has to see it.
#[test]
fn a_block_waits_for_scripts_that_are_being_added() {
    on_postgres(|url| {
        let ledger = open(url, Limits::default());
        let mut w = World::new(&ledger);
        w.mine(&[]);
        // Whoever adds an address stops in the middle, until the lock is free.
        ledger
            .database()
            .write(|tx| {
                tx.execute_batch(
                    "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql
                     AS 'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END'",
                )?;
                tx.execute_batch(
                    "CREATE TRIGGER pause BEFORE INSERT ON addresses
                     FOR EACH ROW EXECUTE FUNCTION pause()",
                )
            })
            .unwrap();
        let (go_on, holder) = held(url, |tx| {
            tx.query("SELECT pg_advisory_xact_lock($1)", &[Value::from(PAUSE)], |_| Ok(()))
        });
        let applied = thread::scope(|scope| {
            let late = NewAddress { script: own(20), address: None, spend_weight: None };
            let (w, ledger) = (&w, &ledger);
            let adding = scope.spawn(move || ledger.add_addresses(w.wallet, &[late], w.now));
            while waiting(ledger) < 1 {
                thread::sleep(Duration::from_millis(1));
            }
            let block = scope.spawn(move || block(w, &[payment_to_late()]));
            while waiting(ledger) < 2 {
                assert!(!block.is_finished(), "it did not wait");
                thread::sleep(Duration::from_millis(1));
            }
            go_on.send(()).unwrap();
            adding.join().unwrap().unwrap();
            block.join().unwrap()
        });
        holder.join().unwrap();
        assert_eq!(applied.recorded.len(), 1, "the payment is found");
        w.check();
    });
}

/// The same without the guard: a row that is written past the ledger. The block does not wait for it,
/// and misses the payment.
#[test]
fn without_its_guard_a_script_that_is_being_added_is_missed() {
    on_postgres(|url| {
        let ledger = open(url, Limits::default());
        let mut w = World::new(&ledger);
        w.mine(&[]);
        let (go_on, holder) = held(url, |tx| {
            let insert = "INSERT INTO addresses
                (wallet_id, id, script, spend_weight, is_used, created_at_us)
                VALUES (1, 999, $1, 272, 0, 0)";
            tx.execute(insert, &[Value::from(&own(20))]).map(drop)
        });
        let applied = block(&w, &[payment_to_late()]);
        go_on.send(()).unwrap();
        holder.join().unwrap();
        assert!(applied.recorded.is_empty());
    });
}

/// The row of a wallet that a block has nothing for is not touched.
#[test]
fn a_block_does_not_lock_wallets_that_it_does_not_concern() {
    on_postgres(|url| {
        let ledger = open(url, Limits::default());
        let mut w = World::new(&ledger);
        w.mine(&[]);
        ledger.create_wallet("two", NETWORK, w.now).unwrap();
        let (go_on, holder) = held(url, |tx| {
            tx.query("SELECT id FROM wallets WHERE name = 'two' FOR UPDATE", &[], |_| Ok(()))
        });
        let applied = block(&w, &[pay(1, &[outside(1)], &[50])]);
        assert_eq!(applied.recorded.len(), 1);
        go_on.send(()).unwrap();
        holder.join().unwrap();
    });
}
