//! Blocks from Shelley to Conway.

use std::collections::BTreeMap;

use super::{
    BlockSpec, DatumSpec, Encoding, Era, OutSpec, TxIn, TxSpec, blake256,
    cbor::{NULL, array, bytes, embedded, uint, zeros},
};

/// What is hashed for the id of the block, its header, and the block without the era tag.
pub(super) fn block(spec: &BlockSpec) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let bodies: Vec<_> = spec.txs.iter().map(|tx| tx.body(spec.era)).collect();
    let witnesses: Vec<_> = spec.txs.iter().map(|tx| witness_set(tx, spec.era)).collect();
    let invalid: Vec<_> =
        (0..).zip(&spec.txs).filter(|(_, tx)| tx.invalid).map(|(index, _)| uint(index)).collect();
    let mut segments =
        vec![spec.style.array(&bodies), spec.style.array(&witnesses), spec.style.map([])];
    if spec.era >= Era::Alonzo {
        segments.push(spec.style.array(&invalid));
    } else {
        assert!(invalid.is_empty(), "no list of failed transactions before Alonzo");
    }
    let header = header(spec, &segments);
    segments.insert(0, header.clone());
    (header.clone(), header, spec.style.array(&segments))
}

fn header(spec: &BlockSpec, segments: &[Vec<u8>]) -> Vec<u8> {
    let style = spec.style;
    let body_size = segments.iter().map(Vec::len).sum::<usize>();
    let hashes: Vec<_> = segments.iter().map(|segment| blake256(segment)).collect();
    let vrf = || style.array(&[zeros(64), zeros(80)]);
    let certificate = [zeros(32), uint(0), uint(0), zeros(64)];
    let version = [uint(protocol_major(spec.era)), uint(0)];

    let mut fields = vec![
        uint(spec.number),
        uint(spec.slot),
        spec.prev.map_or(vec![NULL], |hash| bytes(&hash)),
        zeros(32),
        zeros(32),
        vrf(),
    ];
    if spec.era < Era::Babbage {
        fields.push(vrf());
    }
    fields.push(uint(u64::try_from(body_size).expect("a length fits 64 bits")));
    fields.push(bytes(&blake256(&hashes.concat())));
    if spec.era < Era::Babbage {
        fields.extend(certificate);
        fields.extend(version);
    } else {
        fields.push(style.array(&certificate));
        // Common decoders take pairs like this one only with their length in front.
        fields.push(array(&version));
    }
    style.array(&[style.array(&fields), zeros(448)])
}

/// The first protocol version of the era.
fn protocol_major(era: Era) -> u64 {
    match era {
        Era::ByronBoundary | Era::Byron => 1,
        Era::Shelley => 2,
        Era::Allegra => 3,
        Era::Mary => 4,
        Era::Alonzo => 5,
        Era::Babbage => 7,
        Era::Conway => 9,
    }
}

fn witness_set(tx: &TxSpec, era: Era) -> Vec<u8> {
    let signature = tx.style.array(&[zeros(32), zeros(64)]);
    tx.style.map([(uint(0), tx.style.set(era, &[signature]))])
}

/// The part of a transaction that its id is the hash of.
pub(super) fn body(tx: &TxSpec, era: Era) -> Vec<u8> {
    let outputs: Vec<_> = tx.outputs.iter().map(|out| output(out, era, tx.style)).collect();
    let mut fields = BTreeMap::from([
        (0, outpoints(&tx.inputs, era, tx.style)),
        (1, tx.style.array(&outputs)),
        (2, uint(tx.fee)),
        (3, uint(u64::MAX - tx.salt)),
    ]);
    for (key, list) in [(13, &tx.collateral), (18, &tx.reference_inputs)] {
        if !list.is_empty() {
            fields.insert(key, outpoints(list, era, tx.style));
        }
    }
    if let Some(out) = &tx.collateral_return {
        fields.insert(16, output(out, era, tx.style));
    }
    if let Some(lovelace) = tx.total_collateral {
        fields.insert(17, uint(lovelace));
    }
    fields.extend(tx.extra.iter().cloned());
    tx.style.map(fields.into_iter().map(|(key, value)| (uint(key), value)))
}

fn outpoints(list: &[TxIn], era: Era, style: Encoding) -> Vec<u8> {
    let items: Vec<_> =
        list.iter().map(|(txid, index)| style.array(&[bytes(txid), uint(*index)])).collect();
    style.set(era, &items)
}

fn output(out: &OutSpec, era: Era, style: Encoding) -> Vec<u8> {
    let mut fields = vec![bytes(&out.address), value(out, style)];
    if out.legacy || era < Era::Babbage {
        assert!(out.script.is_none(), "an output written as an array has no place for a script");
        match &out.datum {
            Some(DatumSpec::Hash(hash)) => fields.push(bytes(hash)),
            Some(DatumSpec::Inline(_)) => {
                panic!("an output written as an array has no place for an inline datum")
            }
            None => {}
        }
        return style.array(&fields);
    }
    let mut entries: Vec<_> = (0..).map(uint).zip(fields).collect();
    entries.extend(out.datum.as_ref().map(|datum| {
        let option = match datum {
            DatumSpec::Hash(hash) => [uint(0), bytes(hash)],
            DatumSpec::Inline(raw) => [uint(1), embedded(raw)],
        };
        (uint(2), array(&option))
    }));
    entries.extend(out.script.as_ref().map(|script| (uint(3), embedded(&script.encode()))));
    style.map(entries)
}

fn value(out: &OutSpec, style: Encoding) -> Vec<u8> {
    if out.assets.is_empty() {
        return uint(out.lovelace);
    }
    let mut policies: Vec<(&[u8], Vec<_>)> = Vec::new();
    for (policy, name, quantity) in &out.assets {
        let entry = (bytes(name), uint(*quantity));
        match policies.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, names)) => names.push(entry),
            None => policies.push((policy, vec![entry])),
        }
    }
    let policies = policies.into_iter().map(|(policy, names)| (bytes(policy), style.map(names)));
    // A pair that needs its length in front, like the protocol version.
    array(&[uint(out.lovelace), style.map(policies)])
}
