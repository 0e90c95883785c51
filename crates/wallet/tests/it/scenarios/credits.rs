//! Who is credited with an output, and what cannot be recorded.

use std::{sync::mpsc, thread, time::Duration};

use utxokeep_core::Height;
use utxokeep_sql::{ConstraintKind, Dialect, Value};
use utxokeep_wallet::{
    Change, Credits, FeeRate, LeaseId, LeaseTerms, LedgerError, NewAddress, NewTx, RecordOptions,
    Seen, SelectionRequest, TxState,
};

use crate::scenarios::world::{SECOND, World, coins_of, mint, out, outside, own, pay};

crate::scenarios::on_both!(
    only_published_transactions_have_a_block,
    a_transaction_of_nothing_is_refused,
    a_credit_must_be_paid_by_its_output,
    a_key_in_data_is_not_paid,
    a_bare_multisig_is_credited_to_a_member,
    another_member_does_not_take_it_over,
    owners_are_found_inside_the_transaction,
);

fn key(fill: u8) -> Vec<u8> {
    let mut key = vec![33, 2];
    key.resize(34, fill);
    key
}

/// The script that asks for the signature of one key.
fn key_script(fill: u8) -> Vec<u8> {
    [key(fill).as_slice(), &[0xac]].concat()
}

/// One of two keys signs.
fn multisig(one: u8, two: u8) -> Vec<u8> {
    [&[0x51], key(one).as_slice(), &key(two), &[0x52, 0xae]].concat()
}

fn watch_keys(w: &World<'_>) {
    let addresses = [1, 2].map(|fill| NewAddress {
        script: key_script(fill),
        address: None,
        spend_weight: None,
    });
    w.ledger.add_addresses(w.wallet, &addresses, w.now).unwrap();
}

fn pays_multisig(owner: u8) -> NewTx {
    let mut tx = pay(1, &[outside(1)], &[20_000, 30_000]);
    tx.outputs[0].script = multisig(1, 2);
    tx.credits = Credits::To(vec![(0, key_script(owner)), (1, own(1))]);
    tx
}

/// S015.
fn only_published_transactions_have_a_block(w: &mut World<'_>) {
    // A block makes everything published, whatever it was before.
    let txs: Vec<NewTx> = (1..=4).map(|name| pay(name, &[outside(name)], &[10])).collect();
    w.create(&txs[0]);
    w.mempool(&txs[1]);
    w.mempool(&txs[2]);
    w.ledger.abandon(w.wallet, &txs[2].txid, w.now).unwrap();
    w.mine(&txs.iter().collect::<Vec<_>>());
    for tx in &txs {
        assert_eq!(w.state(tx), TxState::Confirmed(Height::new(100)));
    }
    // The database does not take any other status with a block.
    for status in [0, 2, 3, 4] {
        let reason = if status == 2 || status == 3 { "1" } else { "NULL" };
        let sql = format!(
            "UPDATE transactions SET status = {status}, invalid_reason = {reason}
             WHERE wallet_id = 1 AND id = 1"
        );
        let refused = w.ledger.database().write(|tx| tx.execute(&sql, &[])).unwrap_err();
        assert!(refused.is_constraint(ConstraintKind::Check), "{status}: {refused}");
    }
    w.check();
}

/// S019.
fn a_transaction_of_nothing_is_refused(w: &mut World<'_>) {
    w.mine(&[]);
    let empty = pay(1, &[], &[]);
    let no_inputs = pay(2, &[], &[50]);
    let mut with_inputs = mint(3, &[50]);
    with_inputs.inputs = vec![outside(3)];
    for tx in [&empty, &no_inputs, &with_inputs] {
        for seen in [Seen::Created, Seen::Mempool, Seen::Block(w.tip(), Some(0))] {
            let error = w.record(tx, seen).unwrap_err();
            assert!(matches!(error, LedgerError::InvalidTx { .. }), "{error}");
        }
        assert!(matches!(
            w.ledger.transaction(w.wallet, &tx.txid),
            Err(LedgerError::TxNotFound(_))
        ));
    }
    // In a block that is otherwise good, it spoils the block.
    let good = pay(4, &[outside(4)], &[50]);
    assert!(w.try_mine(&[&good, &no_inputs]).is_err());
    assert_eq!(w.balance().total(), 0);
}

/// S022.
fn a_credit_must_be_paid_by_its_output(w: &mut World<'_>) {
    let mut tx = pay(1, &[outside(1)], &[50, 60]);
    // Both scripts are watched; the outputs pay them the other way round.
    tx.credits = Credits::To(vec![(0, own(1)), (1, own(0))]);
    let error = w.record(&tx, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::NotPaid { index: 0 }), "{error}");
    tx.credits = Credits::To(vec![(0, own(0)), (2, own(1))]);
    let error = w.record(&tx, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::OutputOutOfRange { index: 2, outputs: 2 }));
    tx.credits = Credits::To(vec![(0, own(0)), (0, own(0))]);
    let error = w.record(&tx, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidTx { .. }));
    tx.credits = Credits::To(vec![(0, own(99))]);
    let error = w.record(&tx, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::AddressNotFound { index: 0 }));
    assert!(w.unmined().is_empty() && w.coins().is_empty());
    tx.credits = Credits::To(vec![(1, own(1))]);
    w.mempool(&tx);
    assert_eq!(w.outpoints(), [out(&tx, 1)]);
}

/// S023b.
fn a_key_in_data_is_not_paid(w: &mut World<'_>) {
    watch_keys(w);
    let mut tx = pay(1, &[outside(1)], &[50]);
    tx.outputs[0].script = [&[0x6a], key(1).as_slice()].concat();
    tx.credits = Credits::To(vec![(0, key_script(1))]);
    let error = w.record(&tx, Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::NotPaid { index: 0 }));
    assert!(w.unmined().is_empty() && w.coins().is_empty());
}

/// S024.
fn a_bare_multisig_is_credited_to_a_member(w: &mut World<'_>) {
    watch_keys(w);
    let tx = pays_multisig(2);
    w.mempool(&tx);
    w.mine(&[&tx]);
    assert_eq!(w.balance().confirmed, 50_000);
    let coin = w.ledger.coin(w.wallet, &out(&tx, 0), w.now).unwrap();
    let addresses = w.ledger.addresses(w.wallet, 0, 100).unwrap();
    let owner = addresses.iter().find(|each| each.id == coin.address_id).unwrap();
    assert_eq!((&owner.script, owner.used), (&key_script(2), true));
    // Its real script is the one to watch.
    let watched = w.ledger.outputs_to_watch(w.wallet, 0, 10).unwrap();
    let scripts: Vec<_> = watched.into_iter().map(|each| each.script).collect();
    assert_eq!(scripts, [multisig(1, 2), own(1)]);
    // Others may have to sign: it is taken only when it is asked for by name.
    let request = SelectionRequest::new(coins_of(35_000), FeeRate::per_vbyte(1), 1);
    let error = w.ledger.select(w.wallet, &request, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InsufficientFunds { available: 30_000, .. }), "{error}");
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&tx, 0)], &terms, w.now).unwrap();
    let spend = pay(2, &[out(&tx, 0)], &[-19_000]);
    w.mine(&[&spend]);
    assert_eq!(w.outpoints(), [out(&tx, 1)]);
}

/// S025.
fn another_member_does_not_take_it_over(w: &mut World<'_>) {
    watch_keys(w);
    w.mempool(&pays_multisig(2));
    let error = w.record(&pays_multisig(1), Seen::Mempool).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidTx { .. }), "{error}");
    // The same member again, and nobody in particular, change nothing.
    assert_eq!(w.mempool(&pays_multisig(2)).change, Change::Unchanged);
    let watched = NewTx { credits: Credits::Watched, ..pays_multisig(2) };
    assert_eq!(w.mempool(&watched).change, Change::Unchanged);
    let watched = w.ledger.outputs_to_watch(w.wallet, 0, 10).unwrap();
    assert_eq!(watched[0].script, multisig(1, 2));
    assert_eq!(w.coins().len(), 2);
}

/// S043. Somebody adds an address while we record a payment to it. Whoever comes second sees what
/// the first did, because owners are looked up behind the lock of the wallet.
fn owners_are_found_inside_the_transaction(w: &mut World<'_>) {
    let new = own(200);
    let mut tx = pay(1, &[outside(1)], &[50]);
    tx.outputs[0].script.clone_from(&new);
    let (locked, is_locked) = mpsc::channel();
    let (ledger, wallet, now) = (w.ledger, w.wallet, w.now);
    thread::scope(|scope| {
        scope.spawn(move || {
            let added = ledger.database().write(|tx| {
                let lock = match tx.dialect() {
                    Dialect::Sqlite => "SELECT 1 FROM wallets WHERE id = 1",
                    Dialect::Postgres => "SELECT 1 FROM wallets WHERE id = 1 FOR NO KEY UPDATE",
                };
                tx.query(lock, &[], |_| Ok(()))?;
                tx.execute(
                    "INSERT INTO addresses (wallet_id, id, script, spend_weight, is_used,
                        created_at_us, is_imported)
                     SELECT id, next_address_id, $1, 272, 0, 1, 1 FROM wallets WHERE id = 1",
                    &[Value::from(&new)],
                )?;
                let count = "UPDATE wallets SET next_address_id = next_address_id + 1";
                tx.execute(count, &[])?;
                locked.send(()).unwrap();
                // Time enough for the other to run into the lock.
                thread::sleep(Duration::from_millis(300));
                Ok::<(), utxokeep_sql::SqlError>(())
            });
            added.unwrap();
        });
        is_locked.recv().unwrap();
        ledger.record(wallet, &tx, Seen::Mempool, &RecordOptions::default(), now).unwrap();
    });
    w.check();
    assert_eq!(w.balance().untrusted_unconfirmed, 50);
    assert_eq!(w.outpoints(), [out(&tx, 0)]);
}
