//! One suite on every engine.

use utxokeep_records::{MemoryRecords, RecordStore as _, simulation::Simulation, testing::suite};

#[test]
fn memory_keeps_the_contract() {
    let store = MemoryRecords::new();
    suite::all(&store, &|ms| store.advance_ms(ms));
    assert!(store.stored_bytes().unwrap().unwrap() > 300_000);
}

#[test]
fn a_simulation_without_faults_keeps_the_contract() {
    let simulation = Simulation::new(1);
    let store = simulation.observer();
    suite::all(&store, &|ms| store.advance_ms(ms));
}
