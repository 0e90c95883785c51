//! Servers that are killed, paused, cut off or lose slots while several programs create, spend and mine:
//! one winner for each output, nothing acknowledged is lost, nothing of an incomplete transaction is
//! spent, and recounting finds nothing wrong.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use utxokeep_records::testing::{
    AerospikePlace, Namespaces, TestCluster, shared_url_or_skip, skipped,
};
use utxokeep_txstore::{RecordFaults, TxStore as _};

use super::{connect, ledger, load::Load, number, open, try_open};
use crate::records::cut::{Cut, How};

/// Calls that are acknowledged before and after each fault.
const CALLS: u64 = 100;

/// Rounds from which on some program has to leave a transaction that is not complete.
const ROUNDS_OF_CREATING: u64 = 10;

/// What a fault did, for the documents.
#[derive(Debug, Default)]
struct Outages {
    rounds: u64,
    /// Until another server had taken over.
    failovers: Vec<Duration>,
}

impl Outages {
    fn seconds(&self) -> (f64, f64) {
        let seconds: Vec<f64> = self.failovers.iter().map(Duration::as_secs_f64).collect();
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        let count = u32::try_from(seconds.len().max(1)).unwrap();
        (seconds.iter().fold(0.0, |sum, one| sum + one) / f64::from(count), longest)
    }
}

/// A key of the store on each of the shards that faults strike.
fn slot(cluster: &TestCluster, round: u64) -> u16 {
    cluster.slot_of(&format!("{{{}}}", (round * 29) % 64)).unwrap()
}

/// Lets a fault strike again and again under load, and checks what is left.
fn strikes(
    name: &str,
    cluster: &mut TestCluster,
    mut strike: impl FnMut(&mut TestCluster, u64) -> Option<Duration>,
) {
    let rounds = number("UTXOKEEP_CLUSTER_ROUNDS", 1);
    let seed = number("UTXOKEEP_SEED", 1);
    let (load, started) = (Load::new(seed), Instant::now());
    let url = cluster.url("ack=replica&acknowledge_timeout_ms=300&command_timeout_ms=1500");
    let mut outages = Outages::default();
    let faults = RecordFaults::default();
    // Programs that die while they create leave locks, which nobody can wait half a minute for.
    faults.expire_locks_after_ms(1_500);
    load.run(
        || open(&connect(&url), &faults),
        |port, writes| try_open(Cut::on(port, writes, How::Dies), &faults).ok(),
        || connect(&url),
        || {
            for round in 0..rounds {
                load.wait_for(CALLS);
                outages.failovers.extend(strike(cluster, round));
                outages.rounds += 1;
                cluster.wait_ready().unwrap();
                load.wait_for(CALLS);
            }
        },
    );
    let store = open(&connect(&url), &faults);
    let found = ledger::check(&store, &load.told.lock().unwrap());
    let (mean, longest) = outages.seconds();
    eprintln!(
        "{name}: seed {seed}, {} rounds in {:.0} s, {:?}, failover {mean:.2} s on average, {longest:.2} s \
         at most; {found:?}",
        outages.rounds,
        started.elapsed().as_secs_f64(),
        load.counts,
    );
    // About two of a round; a single round may have none.
    let died = load.counts.died.load(Ordering::Relaxed);
    let proves = outages.rounds < ROUNDS_OF_CREATING || (died > 0 && found.creating > 0);
    assert!(proves, "{name}: no program left a transaction creating: {:?}; {found:?}", load.counts);
}

/// Whoever runs it lets nodes of Aerospike fail meanwhile: one at a time, the next one when no partition
/// moves any more.
#[test]
fn nodes_of_aerospike_that_fail_keep_what_was_acknowledged() {
    let seconds = number("UTXOKEEP_AEROSPIKE_FAULTS_S", 0);
    if seconds == 0 {
        let needed = "UTXOKEEP_AEROSPIKE_FAULTS_S says for how long nodes are made to fail";
        return skipped("faults of Aerospike nodes", "UTXOKEEP_REQUIRE_AEROSPIKE", needed);
    }
    let Some(place) = AerospikePlace::new_or_skip("command_timeout_ms=1500") else { return };
    let (url, faults, seed) = (place.url(), RecordFaults::default(), number("UTXOKEEP_SEED", 1));
    let (load, mut failures) = (Load::new(seed), 0);
    load.run(
        || open(&connect(&url), &faults),
        |_, _| None,
        || connect(&url),
        || {
            load.wait_for(CALLS);
            eprintln!("the load runs");
            failures = place.failures_within(Duration::from_secs(seconds));
            load.wait_for(CALLS);
        },
    );
    let store = open(&connect(&url), &faults);
    let found = ledger::check(&store, &load.told.lock().unwrap());
    eprintln!(
        "aerospike: seed {seed}, {seconds} s, {failures} failures, {:?}; {found:?}",
        load.counts
    );
    assert!(failures > 0, "no node failed: the test proves nothing");
}

/// The check itself: without a fault nothing is wrong, and one transaction that goes is missed.
#[test]
fn a_transaction_that_is_lost_is_noticed() {
    let Some(url) = shared_url_or_skip("ack=replica") else { return };
    let (load, faults) = (Load::new(1), RecordFaults::default());
    load.run(
        || open(&connect(&url), &faults),
        |_, _| None,
        || connect(&url),
        || {
            load.wait_for(CALLS);
        },
    );
    let (store, told) = (open(&connect(&url), &faults), load.told.lock().unwrap());
    ledger::check(&store, &told);
    store.delete(&[told.stored[0].txid]).unwrap();
    let noticed = catch_unwind(AssertUnwindSafe(|| ledger::check(&store, &told)));
    assert!(noticed.is_err(), "nobody noticed");
}

#[test]
fn a_killed_primary_breaks_no_promise() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    strikes("kill -9 of a primary", &mut cluster, |cluster, round| {
        let slot = slot(cluster, round);
        let holder = cluster.holder(slot).unwrap();
        let at = Instant::now();
        cluster.kill(holder).unwrap();
        cluster.wait_owner_changed(slot, holder).unwrap();
        let took = at.elapsed();
        cluster.restart(holder).unwrap();
        Some(took)
    });
}

#[test]
fn a_paused_primary_breaks_no_promise() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    strikes("pause of a primary", &mut cluster, |cluster, round| {
        let slot = slot(cluster, round);
        let holder = cluster.holder(slot).unwrap();
        let at = Instant::now();
        cluster.pause(holder, true).unwrap();
        cluster.wait_owner_changed(slot, holder).unwrap();
        let took = at.elapsed();
        cluster.pause(holder, false).unwrap();
        Some(took)
    });
}

#[test]
fn slots_that_move_break_no_promise() {
    let Some(mut cluster) = TestCluster::start_or_skip(&[]) else { return };
    strikes("moved slots", &mut cluster, |cluster, round| {
        for shard in 0..8 {
            let slot = slot(cluster, 8 * round + shard);
            let from = cluster.holder(slot).unwrap();
            cluster.move_slot(slot, from, (from + 1) % 3, || {}).unwrap();
        }
        None
    });
}

/// The primary is cut off from the other servers and from every caller: all of them are on one side.
#[test]
fn a_partition_with_all_callers_on_one_side_breaks_no_promise() {
    let test = "cluster::faults::a_partition_with_all_callers_on_one_side_breaks_no_promise";
    let Some(namespaces) = Namespaces::enter_or_skip(test) else { return };
    let Some(mut cluster) = TestCluster::start_apart_or_skip(namespaces, &[]) else { return };
    strikes("partition, callers on one side", &mut cluster, |cluster, round| {
        let slot = slot(cluster, round);
        let holder = cluster.holder(slot).unwrap();
        let at = Instant::now();
        cluster.cut_off(holder, true).unwrap();
        cluster.wait_owner_changed(slot, holder).unwrap();
        let took = at.elapsed();
        cluster.cut_off(holder, false).unwrap();
        Some(took)
    });
}

/// The primary is cut off from the other servers, and every caller still reaches it.
#[test]
fn a_partition_between_servers_breaks_no_promise() {
    let test = "cluster::faults::a_partition_between_servers_breaks_no_promise";
    let Some(namespaces) = Namespaces::enter_or_skip(test) else { return };
    let Some(mut cluster) = TestCluster::start_apart_or_skip(namespaces, &[]) else { return };
    strikes("partition", &mut cluster, |cluster, round| {
        let slot = slot(cluster, round);
        let holder = cluster.holder(slot).unwrap();
        let at = Instant::now();
        cluster.cut(holder, true).unwrap();
        cluster.wait_owner_changed(slot, holder).unwrap();
        let took = at.elapsed();
        cluster.cut(holder, false).unwrap();
        Some(took)
    });
}
