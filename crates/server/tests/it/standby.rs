//! The primary of two `PostgreSQL` servers dies under load, the standby is promoted, and clients go
//! on: nothing that was acknowledged is missing, and "nothing was changed" is true.
//!
//! `UTXOKEEP_FAILOVERS` sets how often the long test does it.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use utxokeep::{
    config::{TxStoreConfig, WalletConfig},
    node_store,
    wallets::Wallets,
};
use utxokeep_core::{
    Height, Network, OpenMode, Txid,
    node::{CreateOptions, NodeTx, OutputState, SpendAndCreate, SpendFlags, Stored},
};
use utxokeep_sql::SqlError;
use utxokeep_testkit::{
    postgres::OwnServer,
    txstore::{seed, spending},
};
use utxokeep_txstore::{Fields, NodeStore, StoreError, TxStore as _};
use utxokeep_wallet::{LedgerError, Micros};

const AT: Height = Height::new(5);
const CLIENTS: u8 = 3;
const PAUSE: Duration = Duration::from_millis(20);
const POLLS_MAX: u32 = 6_000;

/// Acknowledged calls of each kind of client before the primary dies, and after that.
const BEFORE: usize = 150;
const AFTER: usize = 100;

/// A primary and its standby.
struct Pair {
    primary: OwnServer,
    standby: OwnServer,
}

impl Pair {
    fn start(is_synchronous: bool) -> Option<Self> {
        let names = format!("synchronous_standby_names={}", if is_synchronous { "*" } else { "" });
        let primary = OwnServer::start_or_skip(&["wal_level=replica", &names])?;
        let standby = primary.standby("standby", &[]).unwrap();
        let state = "SELECT sync_state FROM pg_stat_replication";
        let wanted = if is_synchronous { "sync" } else { "async" };
        until(|| primary.answer(&[state]).unwrap() == wanted);
        Some(Self { primary, standby })
    }

    /// Both hosts, so that each new connection goes to the one that takes writes.
    fn url(&self) -> String {
        format!(
            "postgres://{}@{},{}/postgres?target_session_attrs=read-write&connect_timeout=2",
            self.primary.user(),
            self.primary.address(),
            self.standby.address()
        )
    }

    fn fail_over(&mut self) {
        self.primary.kill();
        self.standby.promote().unwrap();
    }

    /// The standby gets nothing more.
    fn cut_off(&self) {
        self.standby
            .psql(&["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"])
            .unwrap();
        until(|| {
            self.primary.answer(&["SELECT count(*) FROM pg_stat_replication"]).unwrap() == "0"
        });
    }
}

/// Waits for something that takes a few seconds at most.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..POLLS_MAX {
        if is_so() {
            return;
        }
        thread::sleep(PAUSE);
    }
    panic!("it did not come about");
}

/// The transactions of a client, each of which spends the one before.
fn chained(client: u8, number: usize) -> NodeTx {
    let named = |number: usize| {
        let mut bytes = [client + 1; 32];
        bytes[..8]
            .copy_from_slice(&(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Txid::from_bytes(bytes)
    };
    let of = |number: usize, tx: NodeTx| NodeTx { txid: named(number), ..tx };
    let Some(before) = number.checked_sub(1) else { return of(0, seed(client, &[9])) };
    let parent = of(before, seed(client, &[9]));
    of(number, spending(client, &[(&parent, 0)], &[9]))
}

/// Whether the same call may be sent again, because it said that nothing was changed.
fn changed_nothing(error: &SqlError) -> bool {
    let text = error.to_string();
    assert!(text.contains("nothing was changed"), "{text}");
    thread::sleep(PAUSE);
    true
}

/// Stores a transaction that spends the last one, until that is acknowledged.
fn store_next(store: &NodeStore, client: u8, number: usize) {
    let tx = chained(client, number);
    loop {
        let options = CreateOptions::default();
        let answer = if number == 0 {
            store.create(&[(tx.clone(), options)], AT).map(|mut all| all.remove(0))
        } else {
            let flags = SpendFlags::default();
            let how = SpendAndCreate { spend_only: false, create_only: false, flags };
            store.spend_and_create(&tx, AT, how, &options).map(|answer| {
                answer.map(|stored| assert!(matches!(stored, Stored::New(_)), "{stored:?}"))
            })
        };
        match answer {
            // Also a call that was sent again finds that it was not carried out before.
            Ok(answer) => return answer.unwrap(),
            Err(StoreError::Sql(error)) if changed_nothing(&error) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn wallet_name(client: u8, number: usize) -> String {
    format!("wallet {client} {number}")
}

fn create_next_wallet(wallets: &Wallets, client: u8, number: usize) {
    let name = wallet_name(client, number);
    loop {
        match wallets.ledger().create_wallet(&name, Network::BitcoinRegtest, Micros::new(1)) {
            Ok(_) => return,
            Err(LedgerError::Sql(error)) if changed_nothing(&error) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Ends the clients when the test ends, also when it fails.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Acknowledged calls by client.
struct Acknowledged {
    stored: Vec<AtomicUsize>,
    wallets: Vec<AtomicUsize>,
}

impl Acknowledged {
    fn new() -> Self {
        let none = || (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect();
        Self { stored: none(), wallets: none() }
    }

    fn least(&self) -> usize {
        let sum = |all: &[AtomicUsize]| all.iter().map(|of| of.load(Ordering::SeqCst)).sum();
        usize::min(sum(&self.stored), sum(&self.wallets))
    }

    /// How many of them are missing.
    fn missing(&self, store: &NodeStore, wallets: &Wallets) -> usize {
        let mut missing = 0;
        for client in 0..CLIENTS {
            let stored = self.stored[usize::from(client)].load(Ordering::SeqCst);
            let txs: Vec<NodeTx> = (0..stored).map(|number| chained(client, number)).collect();
            let ids: Vec<Txid> = txs.iter().map(|tx| tx.txid).collect();
            let found = store.get(&ids, Fields { body: true, slots: true }).unwrap();
            for (at, (tx, found)) in txs.iter().zip(&found).enumerate() {
                let Some(found) = found else {
                    missing += 1;
                    continue;
                };
                assert_eq!(found.body.as_ref(), Some(tx));
                // All but the newest are spent, by the one behind them.
                let slots = found.slots.as_ref().unwrap();
                let is_spent = matches!(slots[0].unwrap().state, OutputState::Spent(_));
                assert!(is_spent || at + 1 >= stored, "the spend of {at} of {client} is missing");
            }
            for number in 0..self.wallets[usize::from(client)].load(Ordering::SeqCst) {
                let found = wallets.ledger().wallet_named(&wallet_name(client, number));
                missing += usize::from(found.is_err());
            }
        }
        missing
    }
}

fn opened(url: &str) -> (std::sync::Arc<NodeStore>, Wallets) {
    let store = node_store::open(url, &TxStoreConfig::default(), OpenMode::Create).unwrap();
    (store, Wallets::open(url, &WalletConfig::default(), OpenMode::Create).unwrap())
}

/// Clients that write until `until` calls of each kind were acknowledged; `during` runs beside
/// them.
fn under_load(pair: &mut Pair, during: impl FnOnce(&mut Pair, &Acknowledged)) -> Acknowledged {
    let (store, wallets) = opened(&pair.url());
    let (acknowledged, is_over) = (Acknowledged::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (store, wallets, all, is_over) = (&store, &wallets, &acknowledged, &is_over);
            scope.spawn(move || {
                let done = &all.stored[usize::from(client)];
                while !is_over.load(Ordering::SeqCst) {
                    store_next(store, client, done.load(Ordering::SeqCst));
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
            scope.spawn(move || {
                let done = &all.wallets[usize::from(client)];
                while !is_over.load(Ordering::SeqCst) {
                    create_next_wallet(wallets, client, done.load(Ordering::SeqCst));
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let _end = End(&is_over);
        during(pair, &acknowledged);
    });
    acknowledged
}

fn fail_over_once() -> bool {
    let Some(mut pair) = Pair::start(true) else { return false };
    let acknowledged = under_load(&mut pair, |pair, acknowledged| {
        until(|| acknowledged.least() >= BEFORE);
        pair.fail_over();
        let behind = acknowledged.least() + AFTER;
        until(|| acknowledged.least() >= behind);
    });
    let (store, wallets) = opened(&pair.url());
    assert_eq!(acknowledged.missing(&store, &wallets), 0);
    true
}

#[test]
fn nothing_acknowledged_is_lost_when_the_primary_dies_and_clients_go_on() {
    let rounds = std::env::var("UTXOKEEP_FAILOVERS").map_or(1, |text| text.parse().unwrap());
    for _ in 0..rounds {
        if !fail_over_once() {
            return;
        }
    }
}

/// The twin: with a standby that nobody waits for, what was acknowledged is missing, and that is
/// noticed.
#[test]
fn without_a_synchronous_standby_the_loss_is_noticed() {
    let Some(mut pair) = Pair::start(false) else { return };
    // The tables must have reached the standby.
    drop(opened(&pair.url()));
    let position = pair.primary.answer(&["SELECT pg_current_wal_lsn()"]).unwrap();
    let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
    until(|| pair.standby.answer(&[&reached]).unwrap() == "t");
    pair.cut_off();
    let acknowledged = under_load(&mut pair, |_, acknowledged| {
        until(|| acknowledged.least() >= 5);
    });
    pair.fail_over();
    let (store, wallets) = opened(&pair.url());
    assert!(acknowledged.missing(&store, &wallets) > 0);
}
