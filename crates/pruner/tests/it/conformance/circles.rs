//! On `PostgreSQL` pruning never waits in a circle, with itself or with a reorganisation: no
//! transaction is run again. Without the order of locks it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use utxokeep_core::{
    Height, Txid,
    node::{
        ChainReport, CreateOptions, Heights, KeepReason, MinedBlock, MinedInfo, NodeTx, Policy,
        PruneRules, Pruned, SpendAndCreate, SpendFlags,
    },
};
use utxokeep_pruner::ChainState as _;
use utxokeep_sql::{Database, Options, SqlError, Value};
use utxokeep_testkit::{
    postgres::TestDatabase,
    pruner::{
        PruneStage, chunks_never_wait_in_a_circle,
        parents_stay_when_their_children_are_unmined_during_pruning,
    },
    txstore::{seed, spending},
};
use utxokeep_txstore::{Agreement, NodeStore, ProofFault, PruneStore, StoreSettings, TxStore};

const WINDOW: &str = "safety_window_blocks";

const SCENARIOS: [fn(&PruneStage); 2] =
    [chunks_never_wait_in_a_circle, parents_stay_when_their_children_are_unmined_during_pruning];

fn open(database: &Database, settings: StoreSettings, fault: Option<ProofFault>) -> NodeStore {
    let store = NodeStore::on_sql(database.clone(), settings, 0).unwrap();
    match fault {
        Some(fault) => store.unsafe_with(fault),
        None => store,
    }
}

/// How often transactions were run again in a scenario; `None` where no server is installed.
fn retries(scenario: fn(&PruneStage), fault: Option<ProofFault>) -> Option<u64> {
    let place = TestDatabase::create_or_skip()?;
    // Nothing waits here for so long that it would give up by itself.
    let options = Options::default().with(|settings| {
        settings.busy_timeout_ms = 600_000;
        settings.retries_max = 100;
    });
    // The server looks for circles sooner than it does by default.
    let url = format!("{}?options=-c%20deadlock_timeout%3D20ms", place.url());
    let database = Database::open(&url, &options).unwrap();
    let make = |policy: Policy| {
        let settings = StoreSettings::default().with(|settings| settings.policy = policy);
        let store: Arc<dyn PruneStore> = Arc::new(open(&database, settings, fault));
        Some((store, None))
    };
    scenario(&PruneStage::new(&make)?);
    Some(database.retries())
}

#[test]
fn pruning_never_waits_in_a_circle() {
    for scenario in SCENARIOS {
        assert!(retries(scenario, None).is_none_or(|retries| retries == 0));
    }
}

#[test]
fn without_the_order_of_locks_pruning_waits_in_circles() {
    // Most attempts meet a circle, but not each.
    const ATTEMPTS: usize = 30;
    let fault = Some(ProofFault::LockedOnTheWay);
    for scenario in SCENARIOS {
        let mut attempts = (0..ATTEMPTS).map(|_| retries(scenario, fault));
        assert!(attempts.any(|retries| retries.is_none_or(|retries| retries > 0)));
    }
}

fn store_mined(store: &NodeStore, tx: &NodeTx) {
    let mined = vec![MinedBlock { id: 10, height: Height::new(10), subtree: 0 }];
    let options = CreateOptions { mined, ..CreateOptions::default() };
    let create_only = tx.inputs.is_empty();
    let how = SpendAndCreate { spend_only: false, create_only, flags: SpendFlags::default() };
    store.spend_and_create(tx, Height::new(10), how, &options).unwrap().unwrap();
}

/// How many transactions of the test's own database wait for a lock.
fn waiting(database: &Database) -> i64 {
    let count = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pid IN \
                 (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    database
        .read(|transaction| transaction.query_opt(count, &[], |row| row.int(0)))
        .ok()
        .flatten()
        .unwrap_or(0)
}

/// A child leaves its block after the verdict over its parent and before the commit; answers what
/// became of the parent.
fn child_leaves_before_the_commit(fault: Option<ProofFault>) -> Option<Pruned> {
    let place = TestDatabase::create_or_skip()?;
    let database = Database::open(place.url(), &Options::default()).unwrap();
    let settings = StoreSettings::default()
        .with(|settings| settings.policy = Policy { coinbase_maturity: 1, ..Policy::default() });
    let store = open(&database, settings, fault);
    let grandparent = seed(1, &[5, 5]);
    let parent = spending(2, &[(&grandparent, 0)], &[5]);
    let child = spending(3, &[(&parent, 0)], &[5]);
    for tx in [&grandparent, &parent, &child] {
        store_mined(&store, tx);
    }
    let rules = PruneRules::at(Height::new(10 + 288), 288);
    thread::scope(|scope| {
        let mut started = None;
        // The marker that the parent leaves is being written by another transaction, so the prune
        // waits after its verdict.
        database
            .write(|transaction| {
                let marker = "INSERT INTO node_deleted_children (parent_txid, child_txid) \
                              VALUES ($1, $2)";
                let both: [&Txid; 2] = [&grandparent.txid, &parent.txid];
                let both = both.map(|txid| Value::from(txid.as_bytes()));
                transaction.execute(marker, &both)?;
                let pruned = scope.spawn(|| store.prune(&[parent.txid], &rules));
                while waiting(&database) == 0 {
                    thread::sleep(Duration::from_millis(5));
                }
                let block = MinedBlock { id: 10, height: Height::new(10), subtree: 0 };
                let unmined_since = Height::new(300);
                let info = MinedInfo { block, on_longest_chain: true, unset: true, unmined_since };
                store.set_mined(&[child.txid], &info).unwrap().remove(0).unwrap();
                started = Some(pruned);
                Err::<(), SqlError>(SqlError::bad_row("nothing of this is kept"))
            })
            .unwrap_err();
        let pruned = started.expect("it was started").join().unwrap();
        Some(pruned.unwrap().unwrap().remove(0))
    })
}

#[test]
fn a_child_that_leaves_after_the_verdict_keeps_its_parent() {
    if let Some(pruned) = child_leaves_before_the_commit(None) {
        let reason = KeepReason::ChildUnmined;
        assert!(matches!(pruned, Pruned::Kept { reason: r, .. } if r == reason), "{pruned:?}");
    }
}

#[test]
fn without_a_look_at_the_generation_such_a_parent_goes() {
    if let Some(pruned) = child_leaves_before_the_commit(Some(ProofFault::OvertakenIgnored)) {
        assert!(matches!(pruned, Pruned::Deleted { .. }));
    }
}

/// Two reports that are the first of a fresh store: both have read what is known, which is nothing,
/// before either writes.
fn first_reports_at_the_same_time(fault: Option<ProofFault>) -> Option<Heights> {
    let place = TestDatabase::create_or_skip()?;
    let database = Database::open(place.url(), &Options::default()).unwrap();
    let store = open(&database, StoreSettings::default(), fault);
    let reports = [ChainReport::MinedSet(Height::new(5)), ChainReport::CatchingUp(true)];
    thread::scope(|scope| {
        let mut threads = Vec::new();
        // The row is being made by another transaction, so whoever writes it waits.
        database
            .write(|transaction| {
                let row = "INSERT INTO node_state (name, value) VALUES ($1, $1)";
                transaction.execute(row, &[Value::from(b"heights".as_slice())])?;
                for report in &reports {
                    let store = &store;
                    threads.push(scope.spawn(move || store.report(&[*report], 1).map(drop)));
                }
                while waiting(&database) < 2 {
                    thread::sleep(Duration::from_millis(5));
                }
                Err::<(), SqlError>(SqlError::bad_row("nothing of this is kept"))
            })
            .unwrap_err();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    Some(store.heights().unwrap())
}

#[test]
fn first_reports_at_the_same_time_are_all_remembered() {
    if let Some(heights) = first_reports_at_the_same_time(None) {
        let both = (heights.mined_set(), heights.is_catching_up());
        assert_eq!(both, (Some(Height::new(5)), Some(true)));
    }
}

#[test]
fn without_a_lock_over_the_states_one_of_the_first_reports_is_lost() {
    if let Some(heights) = first_reports_at_the_same_time(Some(ProofFault::StatesNotLocked)) {
        assert!(heights.mined_set().is_none() || heights.is_catching_up().is_none());
    }
}

/// A number that all programs have in common is changed after the verdict over a parent and before the
/// commit; answers whether the change was done before that commit.
fn number_changes_before_the_commit(fault: Option<ProofFault>) -> Option<bool> {
    let place = TestDatabase::create_or_skip()?;
    let database = Database::open(place.url(), &Options::default()).unwrap();
    let store = open(&database, StoreSettings::default(), fault);
    store.agree(&[(WINDOW, 288)], Agreement::Compare).unwrap().unwrap();
    let grandparent = seed(1, &[5, 5]);
    let parent = spending(2, &[(&grandparent, 0)], &[5]);
    let child = spending(3, &[(&parent, 0)], &[5]);
    for tx in [&grandparent, &parent, &child] {
        store_mined(&store, tx);
    }
    let rules = PruneRules::at(Height::new(10 + 288), 288);
    let is_changed = AtomicBool::new(false);
    thread::scope(|scope| {
        let (mut pruned, mut is_early) = (None, None);
        // The marker that the parent leaves is being written by another transaction, so the prune
        // waits after its verdict.
        database
            .write(|transaction| {
                let marker = "INSERT INTO node_deleted_children (parent_txid, child_txid) \
                              VALUES ($1, $2)";
                let both: [&Txid; 2] = [&grandparent.txid, &parent.txid];
                let both = both.map(|txid| Value::from(txid.as_bytes()));
                transaction.execute(marker, &both)?;
                pruned = Some(scope.spawn(|| store.prune(&[parent.txid], &rules)));
                while waiting(&database) == 0 {
                    thread::sleep(Duration::from_millis(5));
                }
                scope.spawn(|| {
                    let change = Agreement::Change { now_ms: 7 };
                    store.agree(&[(WINDOW, 400)], change).unwrap().unwrap();
                    is_changed.store(true, Ordering::SeqCst);
                });
                while waiting(&database) < 2 && !is_changed.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
                is_early = Some(is_changed.load(Ordering::SeqCst));
                Err::<(), SqlError>(SqlError::bad_row("nothing of this is kept"))
            })
            .unwrap_err();
        let answer = pruned.expect("it was started").join().unwrap().unwrap().unwrap().remove(0);
        assert!(matches!(answer, Pruned::Deleted { .. }), "the window was 288 at its commit");
        is_early
    })
}

#[test]
fn a_change_of_the_window_waits_for_a_commit_that_compared_it() {
    assert_ne!(number_changes_before_the_commit(None), Some(true));
    // Without the lock the parent goes by a window that the store has no longer.
    assert_ne!(number_changes_before_the_commit(Some(ProofFault::AgreedNotKept)), Some(false));
}
