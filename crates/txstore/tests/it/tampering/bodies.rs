//! A body that was changed is damage, wherever it is: it is never served as another transaction.

use std::fs;

use utxokeep_core::node::NodeTx;
use utxokeep_kv::{Batch, Durability, Kv as _};
use utxokeep_sql::{Database, SqlError};
use utxokeep_txstore::{Fields, StoreError, TxStore as _};

use crate::tampering::world::{Below, World, table, worlds};

/// Reading the body is refused, `verify` names the transaction, and what needs no body goes on.
fn assert_damaged(world: &World, tx: &NodeTx, what: &str) {
    let what = format!("{}: {what}", world.engine);
    let found = world.store.get(&[tx.txid], Fields { body: true, slots: false });
    let error = found.expect_err(&what);
    assert!(error.is_damage(), "{what}: {error}");
    assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error}");
    let report = world.store.verify().unwrap();
    assert!(report.findings.iter().any(|found| found.txid == tx.txid), "{what}: {report:?}");
    world.record(&tx.txid);
}

fn assert_whole(world: &World, tx: &NodeTx) {
    let found = world.store.get(&[tx.txid], Fields { body: true, slots: false }).unwrap();
    let body = found.into_iter().next().flatten().unwrap().body;
    assert_eq!(body.as_ref(), Some(tx), "{}", world.engine);
}

/// A transaction with inputs whose body is beside its record, and one whose body is in a file.
fn inline_and_file(world: &World) -> (&NodeTx, &NodeTx) {
    let inline = world.txs.iter().find(|tx| tx.inputs.len() == 2).unwrap();
    (inline, world.txs.last().unwrap())
}

fn flip_rows(world: &World, tx: &NodeTx) {
    let Below::Rocks(kv) = &world.below else { return };
    let body = world.row("tx_bodies", tx.txid.as_bytes());
    let put = |row: &[u8]| {
        let mut batch = Batch::new();
        batch.put(table("tx_bodies"), tx.txid.as_bytes(), row);
        kv.kv.commit(batch, Durability::Buffered).unwrap();
    };
    for at in 0..body.len() {
        let mut flipped = body.clone();
        flipped[at] ^= 1 << (at % 8);
        put(&flipped);
        assert_damaged(world, tx, &format!("byte {at}"));
    }
    put(&body);
}

fn change_columns(world: &World, tx: &NodeTx) {
    let Below::Sql(database) = &world.below else { return };
    let run = |database: &Database, sql: &str| {
        let rows: Result<u64, SqlError> = database.write(|tx| tx.execute(sql, &[]));
        assert_ne!(rows.unwrap(), 0, "{}: {sql}", world.engine);
    };
    let bytes = |hex: &str| match world.engine {
        "sqlite" => format!("x'{hex}'"),
        _ => format!("'\\x{hex}'::bytea"),
    };
    let of_it = format!("WHERE txid = {}", bytes(&utxokeep_core::hex_encode(tx.txid.as_bytes())));
    let other = bytes("0909");
    let (parent, first) = (tx.inputs[0].outpoint.txid(), "AND vin = 0");
    let parent = bytes(&utxokeep_core::hex_encode(parent.as_bytes()));
    let stranger = bytes(&"09".repeat(32));
    let (unlock, lock) = (
        bytes(&utxokeep_core::hex_encode(&tx.inputs[0].script)),
        bytes(&utxokeep_core::hex_encode(&tx.outputs[0].script)),
    );
    let previous = tx.inputs[0].previous.as_ref().unwrap();
    let spent = bytes(&utxokeep_core::hex_encode(&previous.script));
    for (change, back) in [
        (
            format!("node_transactions SET version = version + 1 {of_it}"),
            "version = version - 1".to_owned(),
        ),
        (
            format!("node_transactions SET lock_time = lock_time + 1 {of_it}"),
            "lock_time = lock_time - 1".to_owned(),
        ),
        (format!("node_transactions SET fee = fee + 1 {of_it}"), "fee = fee - 1".to_owned()),
        (
            format!("node_inputs SET sequence = sequence + 1 {of_it} {first}"),
            "sequence = sequence - 1".to_owned(),
        ),
        (format!("node_inputs SET script = {other} {of_it} {first}"), format!("script = {unlock}")),
        (
            format!("node_inputs SET previous_txid = {stranger} {of_it} {first}"),
            format!("previous_txid = {parent}"),
        ),
        (
            format!("node_inputs SET previous_vout = 7 {of_it} {first}"),
            "previous_vout = 0".to_owned(),
        ),
        (
            format!("node_inputs SET previous_satoshis = 9 {of_it} {first}"),
            format!("previous_satoshis = {}", previous.satoshis),
        ),
        (
            format!("node_inputs SET previous_script = {other} {of_it} {first}"),
            format!("previous_script = {spent}"),
        ),
        (
            format!("node_outputs SET satoshis = satoshis + 1 {of_it}"),
            "satoshis = satoshis - 1".to_owned(),
        ),
        (format!("node_outputs SET script = {other} {of_it}"), format!("script = {lock}")),
    ] {
        run(database, &format!("UPDATE {change}"));
        assert_damaged(world, tx, &change);
        let (head, tail) = change.split_once(" SET ").unwrap();
        let (_, tail) = tail.split_once("WHERE").unwrap();
        run(database, &format!("UPDATE {head} SET {back} WHERE{tail}"));
    }
    // One that was stored before there were checksums is read as it is.
    run(database, &format!("UPDATE node_transactions SET body_checksum = NULL {of_it}"));
}

fn flip_file(world: &World, tx: &NodeTx) {
    let path = world.file(tx);
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).unwrap();
        assert_damaged(world, tx, &format!("byte {at} of its file"));
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_damaged(world, tx, "a cut file");
    fs::write(&path, whole).unwrap();
}

#[test]
fn a_changed_body_is_damage_and_never_another_transaction() {
    for world in worlds() {
        let (inline, in_file) = inline_and_file(&world);
        assert_whole(&world, inline);
        flip_rows(&world, inline);
        change_columns(&world, inline);
        assert_whole(&world, inline);
        flip_file(&world, in_file);
        assert_whole(&world, in_file);
        assert!(world.store.verify().unwrap().is_clean(), "{}", world.engine);
    }
}

/// Formats 1 and 2 had no checksums: their bodies are read, and nothing is said of them.
#[test]
fn a_body_of_before_checksums_is_read_as_it_is() {
    for world in worlds() {
        let Below::Rocks(kv) = &world.below else { continue };
        let (tx, _) = inline_and_file(&world);
        let mut row = world.row("tx_bodies", tx.txid.as_bytes());
        // Five items in place of six, and the checksum cut off.
        row.truncate(row.len() - 5);
        row[0] = 0x85;
        let mut batch = Batch::new();
        batch.put(table("tx_bodies"), tx.txid.as_bytes(), &row);
        kv.kv.commit(batch, Durability::Buffered).unwrap();
        assert_whole(&world, tx);
        assert!(world.store.verify().unwrap().is_clean());
    }
}
