//! Every field of an output is changed, one value at a time.

use std::collections::BTreeMap;

use utxokeep_core::{
    OutPoint, Txid,
    node::{OutputRecord, OutputState, SpendingData},
};
use utxokeep_txstore::{Fields, TxStore as _};

use crate::tampering::{
    fields::{Seen, documented},
    world::{World, worlds},
};

/// Every field by its name, and an output with another value in it. A new field does not compile
/// before it is here.
fn changes(slot: &OutputRecord) -> Vec<(&'static str, OutputRecord)> {
    let OutputRecord { hash, state, spendable_at } = *slot;
    let mut other_hash = hash;
    other_hash[7] ^= 1;
    let with = |state| OutputRecord { state, ..*slot };
    let held = spendable_at.map_or(Some(5), |height| Some(height + 1));
    let mut all = vec![
        ("output.hash", OutputRecord { hash: other_hash, ..*slot }),
        ("output.spendable_at", OutputRecord { spendable_at: held, ..*slot }),
    ];
    if spendable_at.is_some() {
        all.push(("output.spendable_at", OutputRecord { spendable_at: None, ..*slot }));
    }
    let stranger = SpendingData { txid: Txid::from_bytes([0xee; 32]), vin: 0 };
    all.extend(match state {
        OutputState::Unspent => vec![
            ("output.is_frozen", with(OutputState::Frozen)),
            ("output.spender", with(OutputState::Spent(stranger))),
        ],
        OutputState::Frozen => vec![("output.is_frozen", with(OutputState::Unspent))],
        OutputState::Spent(by) => vec![
            ("output.spender", with(OutputState::Unspent)),
            ("output.spender", with(OutputState::Spent(SpendingData { vin: by.vin, ..stranger }))),
            ("output.input", with(OutputState::Spent(SpendingData { vin: by.vin ^ 1, ..by }))),
            ("output.input", with(OutputState::Spent(SpendingData { vin: 7, ..by }))),
        ],
    });
    all
}

fn check(world: &World, seen: &mut BTreeMap<&'static str, Vec<(String, bool)>>) {
    for tx in &world.txs {
        let fields = Fields { body: false, slots: true };
        let stored = world.store.get(&[tx.txid], fields).unwrap().remove(0).unwrap();
        for (vout, slot) in (0u32..).zip(stored.slots.unwrap()) {
            let (Some(slot), outpoint) = (slot, OutPoint::new(tx.txid, vout)) else { continue };
            for (field, changed) in changes(&slot) {
                let is_taken = world.put_slot(&outpoint, &changed);
                let is_seen = !is_taken || !world.store.verify().unwrap().is_clean();
                let what = format!("{outpoint}: {slot:?} -> {changed:?}");
                seen.entry(field).or_default().push((what, is_seen));
                assert!(world.put_slot(&outpoint, &slot));
            }
        }
    }
    assert!(world.store.verify().unwrap().is_clean(), "everything is as it was");
}

#[test]
fn every_field_of_an_output_is_checked_or_documented() {
    for world in worlds() {
        let (documented, mut seen) = (documented(world.engine), BTreeMap::new());
        check(&world, &mut seen);
        for (field, changes) in seen {
            let missed: Vec<_> = changes.iter().filter(|(_, is_seen)| !is_seen).collect();
            let expected = documented.get(field).copied().unwrap_or(Seen::All);
            let is_as_said = match expected {
                Seen::All => missed.is_empty(),
                Seen::InPart => !missed.is_empty() && missed.len() < changes.len(),
                Seen::Nothing => missed.len() == changes.len(),
            };
            assert!(is_as_said, "{} {field}: documented is {expected:?}; {missed:?}", world.engine);
        }
    }
}
